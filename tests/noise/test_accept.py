"""Floats decide a coin only where they cannot be wrong; what they leave open, rationals decide."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import Scripted
from tests.noise.reference import exp, leading_words

from discreet.exact import exp_bounds
from discreet.noise import DeterministicEntropy
from discreet.noise.sampler import accept, accept_one

MP = mpmath.MPContext()
MP.prec = 300
WORD = 1 << 64
UNIT = 1 << 11  # words per step of the 53-bit float


def dense() -> np.ndarray:
    """Arguments in [0, 745]: even, random, tiny, near the ends of the ranges of usual reductions, and dyadic."""
    random = DeterministicEntropy(5).words(6000).astype(np.float64) * 2.0**-64
    multiples = np.arange(1, 1070) * math.log(2) / 2
    even = [np.linspace(0, 745, 2000), 2.0 ** np.arange(-1074, 10), [0.0, 708.39, 708.4, 744.44, 745.13]]
    uneven = [random[:2000] * 745, random[4000:] * 2, 2.0 ** -random[:500] * 1e-9]
    return np.concatenate([*even, *uneven, multiples, np.nextafter(multiples, 0), np.nextafter(multiples, 1e3)])


def error_of(values: np.ndarray, x: np.ndarray) -> tuple[float, float]:
    """Largest relative error among the normal results of exp(−x), largest absolute among the others."""
    true = [MP.exp(-MP.mpf(v)) for v in x.tolist()]
    normal = [abs(MP.mpf(v) / t - 1) for v, t in zip(values.tolist(), true, strict=True) if t > 2**-1022]
    small = [abs(MP.mpf(v) - t) for v, t in zip(values.tolist(), true, strict=True) if t <= 2**-1022]
    return float(max(normal)), float(max(small, default=0))


def test_the_exponentials_of_numpy_and_python_are_right_to_2_to_minus_49():
    x = dense()
    relative, absolute = error_of(np.exp(-x), x)
    assert relative <= 2.0**-49
    assert absolute <= 2.0**-1060
    relative, absolute = error_of(np.array([math.exp(-v) for v in x.tolist()]), x)
    assert relative <= 2.0**-49
    assert absolute <= 2.0**-1060


def test_the_exponential_does_not_depend_on_alignment_or_length():
    """SIMD kernels treat the last lanes apart; the bound above must hold for them too."""
    x = -dense()[:4000]
    whole = np.exp(x)
    for length in (1, 2, 3, 5, 7, 8, 9, 15, 16, 17):
        for start in (0, 1, 3, 1000):
            part = x[start : start + length].copy()
            np.exp(part, out=part)
            assert np.abs(part / whole[start : start + length] - 1).max() <= 2.0**-49
    assert np.abs(np.exp(x[::3]) / whole[::3] - 1).max() <= 2.0**-49


GAMMAS = [
    Fraction(0),
    Fraction(1, 10**12),
    Fraction(1, 3),
    Fraction(1),
    Fraction(22, 7),
    Fraction(27),
    Fraction(40),
    Fraction(700),
    Fraction(10**6),
]


class Asked:
    """An enclosure of e^−γ that remembers that it was asked."""

    def __init__(self, gamma: Fraction) -> None:
        self.gamma, self.times = gamma, 0

    def __call__(self, bits: int) -> tuple[int, int]:
        self.times += 1
        return exp_bounds(-self.gamma, bits)


def words_around(gamma: Fraction) -> list[int]:
    """Words at the true p·2^64, within the margin of 2^−40 on both sides, at its ends and outside."""
    p = int(MP.floor(MP.exp(-MP.mpf(gamma.numerator) / gamma.denominator) * WORD))
    steps = [0, 1, 2, UNIT, 3 * UNIT, 1 << 20, (1 << 24) - 2 * UNIT, (1 << 24) + 2 * UNIT, 1 << 30, 1 << 50]
    return sorted({w for s in steps for w in (p - s, p + s) if 0 <= w < WORD} | {0, 1, WORD - 1, WORD - 2, WORD - UNIT})


@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
@pytest.mark.parametrize("extra", [[0, 1], [WORD - 1, 0], [WORD // 3, 7]])
def test_words_near_p_are_decided_as_infinite_precision_would(gamma, extra):
    p = MP.exp(-MP.mpf(gamma.numerator) / gamma.denominator)
    for word in words_around(gamma):
        u = MP.mpf(((word << 64 | extra[0]) << 64) | extra[1]) / MP.mpf(2) ** 192
        expected = bool(u < p)
        one, many = Asked(gamma), Asked(gamma)
        assert accept_one(float(gamma), one, word, Scripted(extra, then=DeterministicEntropy(0))) is expected, hex(word)
        got = accept(
            np.array([float(gamma)]), lambda _, many=many: many, Scripted([word, *extra], then=DeterministicEntropy(0))
        )
        assert got.tolist() == [expected], hex(word)
        near = abs(MP.mpf(word) / WORD - p)
        if near < MP.mpf(2) ** -41:
            assert one.times, "a float decided where it may be wrong"
            assert many.times
        if near > MP.mpf(2) ** -39:
            assert not one.times
            assert not many.times


@pytest.mark.parametrize("gamma", [Fraction(1, 3), Fraction(22, 7), Fraction(40)], ids=str)
@pytest.mark.parametrize("agreeing", [1, 2, 4])
def test_a_u_that_begins_like_p_is_decided_at_the_first_difference(gamma, agreeing):
    words = leading_words(exp(-gamma), agreeing + 1)
    for step, expected in [(-3, True), (3, False)]:
        script = [*words[1:-1], words[-1] + step]
        assert accept_one(float(gamma), Asked(gamma), words[0], Scripted(script)) is expected
        many = accept(np.array([float(gamma)]), lambda _: Asked(gamma), Scripted([words[0], *script]))
        assert many.tolist() == [expected]


@given(
    st.lists(st.tuples(st.fractions(0, 60, max_denominator=10**9), st.integers(0, WORD - 1)), min_size=1, max_size=30)
)
@settings(max_examples=30)
def test_many_coins_are_decided_like_each_alone(coins):
    gammas, words = [g for g, _ in coins], [w for _, w in coins]
    together = accept(
        np.array([float(g) for g in gammas]), lambda k: Asked(gammas[k]), Scripted(words, then=DeterministicEntropy(1))
    )
    alone = [accept_one(float(g), Asked(g), w, DeterministicEntropy(1)) for g, w in coins]
    assert together.tolist() == alone
    true = [MP.mpf(w) / WORD < MP.exp(-MP.mpf(g.numerator) / g.denominator) for g, w in coins]
    decided = [abs(MP.mpf(w) / WORD - MP.exp(-MP.mpf(g.numerator) / g.denominator)) > 2.0**-60 for g, w in coins]
    assert all(a == b for a, b, sure in zip(together.tolist(), true, decided, strict=True) if sure)


def test_an_exponent_that_no_float_can_hold_is_left_to_the_rationals():
    asked = Asked(Fraction(1))
    got = accept(np.array([math.nan, math.nan]), lambda _: asked, Scripted([0, WORD - 1]))
    assert got.tolist() == [True, False]
    assert asked.times == 2
    assert accept_one(math.nan, asked, 0, Scripted([])) is True
    assert asked.times == 3
    assert accept(np.array([math.inf]), lambda _: Asked(Fraction(10**9)), Scripted([1])).tolist() == [False]
    assert accept(np.empty(0), lambda _: Asked(Fraction(1)), Scripted([])).tolist() == []
