"""Uniform integers and coins: the words accepted for each outcome are counted exactly."""

from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import Counting, Scripted, stable
from tests.noise.reference import CONTEXT, WORD, exp, leading_words
from tests.noise.test_geometric import BAD_SIZES

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, bernoulli, bernoulli_exp, uniform_below
from discreet.noise.uniform import Coins, _Below, _coin, _exp_coin, _large

F = Fraction
BOUNDS = [1, 2, 3, 6, 7, 10, 255, 256, 1000, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**61, 2**62 + 1, 2**63 - 1, 2**63]


# --- uniform_below -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", BOUNDS)
def test_the_accepted_words_are_whole_copies_of_the_range(bound):
    """Words 0 … most are kept: a multiple of the bound, so w mod bound is uniform; fewer than `bound` are not."""
    most = _Below(bound)._most
    assert (most + 1) % bound == 0
    assert WORD - bound < most + 1 <= WORD


@pytest.mark.parametrize("bound", BOUNDS)
def test_one_and_many_agree_word_for_word(bound):
    edge = WORD // bound * bound
    words = [0, 1, bound - 1, bound % WORD, edge - 1, edge // 2, *DeterministicEntropy(2).words(20).tolist()]
    words = [w for w in words if 0 <= w < edge]
    expected = [w % bound for w in words]
    assert [uniform_below(bound, entropy=Scripted([w])) for w in words] == expected
    many = np.empty(len(words), np.int64)
    _Below(bound).fill(Scripted(words), many)
    assert many.tolist() == expected
    assert uniform_below(bound, len(words), entropy=Scripted(words)).tolist() == expected


@pytest.mark.parametrize("bound", [3, 7, 1000, 2**62 + 1, 2**63 - 1])
def test_words_beyond_the_last_whole_copy_are_drawn_again(bound):
    edge = WORD // bound * bound
    over = sorted({edge, WORD - 1})
    assert uniform_below(bound, entropy=Scripted([*over, 5])) == 5 % bound
    many = np.empty(4, np.int64)
    _Below(bound).fill(Scripted([1, edge, WORD - 1, 2, edge, 0, edge - 1]), many)
    assert many.tolist() == [1 % bound, (edge - 1) % bound, 0, 2 % bound]


@pytest.mark.parametrize("bound", [2**63 + 1, 2**64 - 1, 2**64, 2**64 + 1, 10**30, 2**200, 2**200 + 1])
def test_large_bounds_draw_as_many_bits_as_they_have(bound):
    bits = (bound - 1).bit_length()
    count = -(-bits // 64)
    draws = [uniform_below(bound, entropy=DeterministicEntropy(s)) for s in range(50)]
    assert all(type(d) is int and 0 <= d < bound for d in draws)
    assert max(draws) > bound // 2 > min(draws)
    assert _large(bound, Scripted([0] * count)) == 0
    whole = (bound - 1) << (64 * count - bits)
    words = [(whole >> 64 * j) % WORD for j in range(count)]
    assert _large(bound, Scripted(words)) == bound - 1
    if bound < 1 << bits:
        assert _large(bound, Scripted([WORD - 1] * count + [0] * count)) == 0, "2^bits − 1 is drawn again"
    array = uniform_below(bound, (2, 3))
    assert (array.shape, array.dtype) == ((2, 3), object)
    assert all(type(x) is int and 0 <= x < bound for x in array.ravel())


def test_a_bound_of_one_is_zero():
    assert uniform_below(1) == 0
    assert not uniform_below(1, 100).any()


@pytest.mark.parametrize(
    "bad", [0, -1, 1.0, 2.5, True, None, "6", [6], 1j, float("nan"), F(6), np.array(6)], ids=stable
)
def test_bad_bounds_are_refused(bad):
    for size in (None, 3):
        with pytest.raises(InvalidParameter, match=r"^bound: got .*expected a whole number ≥ 1"):
            uniform_below(bad, size)


# --- coins -------------------------------------------------------------------------------------------------

PROBABILITIES = [
    F(0), F(1), F(1, 2), F(1, 3), F(2, 3), F(1, 2**16), F(1, 10**30), 1 - F(1, 10**30), F(1, 2**64), 1 - F(1, 2**64),
    F(1, 2**65), F(12345, 99991),
]  # fmt: skip


@pytest.mark.parametrize("p", PROBABILITIES, ids=str)
def test_the_coins_threshold_is_the_probability(p):
    (t,) = _coin(p).thresholds.tolist()
    assert t <= p * WORD <= t + 1
    for bits in (64, 128, 192, 512):
        lo, hi = _coin(p)._enclose(0, bits)
        assert lo <= p * 2**bits <= hi <= lo + 1


@pytest.mark.parametrize("p", PROBABILITIES, ids=str)
def test_coins_land_as_comparing_with_the_rational_says(p):
    for word in {0, 1, WORD - 1, WORD // 2, *(w for s in (-2, -1, 0, 1, 2) if 0 <= (w := int(p * WORD) + s) < WORD)}:
        for extra in ([0, 1], [WORD - 1, 0], [WORD // 3, 3]):
            u = F(((word << 64 | extra[0]) << 64) | extra[1], WORD**3)
            expected = u < p
            if u <= p < u + F(1, WORD**3):
                continue  # the script ends before they differ
            got = bernoulli(p, entropy=Scripted([word, *extra], then=DeterministicEntropy(0)))
            assert got is expected, (word, extra)
            which = np.array([0])
            if p.denominator & (p.denominator - 1) == 0 and p.denominator <= 2**128:
                coins = Coins([int(p * 2**128)], 128)
                assert coins.flip(which, Scripted([word, *extra], then=DeterministicEntropy(0))).tolist() == [expected]


def test_certain_coins():
    assert bernoulli(0) is False
    assert bernoulli(1) is True
    assert not bernoulli(0, 10_000).any()
    assert bernoulli(1, 10_000).all()
    assert bernoulli_exp(0) is True
    assert bernoulli_exp(0, 10_000).all()
    for word in (0, WORD - 1):
        assert bernoulli(0, entropy=Scripted([word])) is False
        assert bernoulli(1, entropy=Scripted([word])) is True
        assert bernoulli_exp(0, entropy=Scripted([word])) is True


GAMMAS = [F(0), F(1, 10**30), F(1, 1000), F(1), F(22, 7), F(44), F(45), F(100), F(10**6)]


@pytest.mark.parametrize("gamma", GAMMAS, ids=str)
def test_the_exponential_coins_threshold_encloses_the_probability(gamma):
    (t,) = _exp_coin(gamma).thresholds.tolist()
    p = exp(-gamma)
    assert t <= p * WORD <= t + 2
    for bits in (64, 128, 192, 512):
        lo, hi = _exp_coin(gamma)._enclose(0, bits)
        assert lo <= p * CONTEXT.mpf(2) ** bits <= hi <= lo + 2


@pytest.mark.parametrize("gamma", [F(1, 1000), F(1), F(22, 7), F(44), F(100)], ids=str)
@pytest.mark.parametrize("agreeing", [2, 3, 6])
def test_an_exponential_coin_is_decided_at_the_first_difference(gamma, agreeing):
    words = leading_words(exp(-gamma), agreeing + 1)
    for step, expected in [(-2, True), (2, False)]:
        script = [*words[:-1], words[-1] + step]
        assert bernoulli_exp(gamma, entropy=Scripted(script)) is expected


def test_coins_thrown_by_position():
    numerators = [0, 1, 1 << 79, (1 << 80) - 1, 1 << 80]
    coins = Coins(numerators, 80)
    assert len(coins) == 5
    assert [coins.probability(i) for i in range(5)] == [F(n, 1 << 80) for n in numerators]
    which = np.array([4, 0, 2, 2, 4, 0])
    assert coins.flip(which, Scripted([WORD - 1, 0, 1 << 63, (1 << 63) - 1, 0, WORD - 1])).tolist() == [
        True,
        False,
        False,
        True,
        True,
        False,
    ]
    assert coins.flip(np.array([1]), Scripted([0, 0])).tolist() == [True]
    assert coins.flip(np.array([1]), Scripted([0, 1 << 48])).tolist() == [False]
    assert coins.flip(np.array([3]), Scripted([WORD - 1, (WORD - 1) << 48 & (WORD - 1)])).tolist() == [False]
    assert coins.flip(np.array([3]), Scripted([WORD - 1, 0])).tolist() == [True]
    assert coins.flip(np.empty(0, np.int64)).tolist() == []


@pytest.mark.parametrize(("flip", "name"), [(bernoulli, "p"), (bernoulli_exp, "gamma")])
def test_shapes_types_and_sizes(flip, name):
    assert type(flip("1/3")) is bool
    for size, shape in [(0, (0,)), (5, (5,)), ((2, 3), (2, 3)), ((), ()), (40_000, (40_000,))]:
        got = flip("1/3", size)
        assert (type(got), got.dtype, got.shape) == (np.ndarray, np.bool_, shape)
    for bad in BAD_SIZES:
        with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
            flip("1/3", bad)
    for bad in (-1, "-1e-30", float("nan"), float("inf"), True, None, 1j, [1], "", "abc", "1/0"):
        with pytest.raises(InvalidParameter, match=rf"^{name}: got .*expected a number ≥ 0"):
            flip(bad)


def test_probabilities_above_one_are_refused():
    for bad in (2, "1.000000000000000000001"):
        with pytest.raises(InvalidParameter, match="expected a number ≥ 0 and ≤ 1"):
            bernoulli(bad)


def test_uniform_refuses_bad_sizes():
    for bound in (6, 2**70):
        for bad in BAD_SIZES:
            with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
                uniform_below(bound, bad)


def test_a_coin_costs_sixteen_bits_in_bulk():
    stream = Counting()
    bernoulli("1/3", 40_000, entropy=stream)
    assert 10_000 <= stream.count < 10_000 + 40


@pytest.mark.parametrize(
    "p",
    [0, 1, F(1, 3), F(1, 100), F(1, 2), F(1, 2**16), F(5, 2**16), F(5, 2**16) - F(1, 2**64), 1 - F(1, 2**70)],
    ids=str,
)
def test_many_coins_fall_like_single_ones(p, scripted):
    """Tops below, at and above those of p; where they are the same, 48 bits more decide, and further ones."""
    edge = int(p * 2**64)
    tops = sorted({min(max((edge >> 48) + step, 0), 2**16 - 1) for step in (-2, -1, 0, 1, 2)} | {0, 2**16 - 1})
    for follow in (0, 1, WORD // 3, (edge << 16) % WORD, WORD - 1):
        for top in tops:
            word = top << 48 | follow >> 16
            packed = int(np.array([top, 0, 0, 0], np.uint16).view(np.uint64)[0])
            later = [7, WORD - 9, WORD // 5]
            one = bernoulli(p, entropy=scripted([word, *later], DeterministicEntropy(1)))
            many = bernoulli(p, 1, entropy=scripted([packed, follow, *later], DeterministicEntropy(1)))
            assert many.tolist() == [one], (top, follow)
