"""Staircase noise: the coin of the first stair and the composition of the draw give the stated distribution."""

import sys
from fractions import Fraction

import numpy as np
import pytest
from tests.conftest import stable
from tests.noise.reference import CONTEXT, WORD, exp, leading_words
from tests.noise.test_geometric import BAD_SCALES, BAD_SIZES

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, staircase
from discreet.noise.geometric import _first_stair, _staircase

F = Fraction
CASES = [
    (F(1), 10, 4),
    (F(1, 1000), 7, 7),
    (F(22, 7), 1, 1),
    (F(50), 3, 1),
    (F(500), 10, 9),
    (F(1), 2**40, 1),
    (F(1, 1000), 2**40, 2**40),
]
cases = pytest.mark.parametrize(("epsilon", "width", "first"), CASES)


def in_first(epsilon: Fraction, width: int, first: int):
    """Weight of |k| < first against all k ≥ 0, summed from P(k) ∝ e^(−ε·stair) with stairs first, width, width, …"""
    q = exp(-epsilon)
    return first / (first + width * q / (1 - q))


@cases
@pytest.mark.parametrize("bits", [64, 128, 192, 512])
def test_the_coin_of_the_first_stair_is_enclosed(epsilon, width, first, bits):
    table = _first_stair(epsilon, width, first)
    lo, hi = table._enclose(0, bits)
    assert lo <= in_first(epsilon, width, first) * CONTEXT.mpf(2) ** bits <= hi <= lo + 2
    (threshold,) = table.thresholds.tolist()
    assert threshold <= in_first(epsilon, width, first) * WORD <= threshold + 2


@pytest.mark.parametrize(("epsilon", "width", "first"), CASES[:3])
def test_a_u_that_begins_like_the_coin_is_decided_at_the_first_difference(epsilon, width, first, scripted):
    table = _first_stair(epsilon, width, first)
    head, second, third = leading_words(in_first(epsilon, width, first), 3)
    assert table.pick(head, scripted([second, third - 2])) == 0
    assert table.pick(head, scripted([second, third + 2])) == 1


def test_the_steps_compose_to_the_stated_distribution():
    """Coin, stair, place and sign, multiplied out exactly for k ≥ 0, against P(k) ∝ e^(−ε·⌊(|k| + n − r)/n⌋)."""
    epsilon, width, first = F(1), 10, 4
    q, near = exp(-epsilon), in_first(epsilon, width, first)
    drawn = [
        near / first if k < first else (1 - near) * (1 - q) * q ** ((k - first) // width) / width for k in range(300)
    ]
    stated = [exp(-epsilon * ((k + width - first) // width)) for k in range(300)]
    assert all(abs(d / drawn[0] / s - 1) < 1e-100 for d, s in zip(drawn, stated, strict=True))


def test_minus_zero_is_drawn_again(monkeypatch):
    """Three draws whose sizes are 0: those with a minus sign are replaced, the others kept."""
    module = sys.modules[_first_stair.__module__]  # the name discreet.noise.geometric is the function
    rounds = iter([[True, False, True], [False, True], [False]])
    monkeypatch.setattr(module, "bernoulli", lambda p, count, entropy: np.array(next(rounds)))
    out = np.empty(3, np.int64)
    _staircase(F(50), 1, 1).fill(DeterministicEntropy(1), out)
    assert out.tolist() == [0, 0, 0]
    assert next(rounds, None) is None


def test_shapes_and_types():
    assert type(staircase(epsilon=1, width=3, first=2)) is int
    for size, shape in [(0, (0,)), ((2, 3), (2, 3)), ((), ()), (40_000, (40_000,))]:
        got = staircase(epsilon=1, width=3, first=2, size=size)
        assert (type(got), got.dtype, got.shape) == (np.ndarray, np.int64, shape)


@pytest.mark.parametrize("bad", BAD_SCALES, ids=lambda x: stable(x)[:20])
def test_bad_epsilons_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^epsilon: got .*expected a number > 0"):
        staircase(epsilon=bad, width=3, first=2)


@pytest.mark.parametrize("bad", [0, -1, 2.0, True, None, "3", 2**40 + 1, float("nan")], ids=stable)
def test_bad_widths_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^width: got .*expected a whole number"):
        staircase(epsilon=1, width=bad, first=1)
    with pytest.raises(InvalidParameter, match=r"^first: got .*expected a whole number"):
        staircase(epsilon=1, width=5, first=bad)


def test_a_first_stair_wider_than_the_others_and_noise_beyond_64_bits_are_refused():
    with pytest.raises(InvalidParameter, match=r"^first: got 6, expected a whole number ≥ 1 and ≤ 5"):
        staircase(epsilon=1, width=5, first=6)
    with pytest.raises(InvalidParameter, match=r"width/epsilon at most 2\^52"):
        staircase(epsilon="1e-6", width=2**40, first=1)


@pytest.mark.parametrize("bad", BAD_SIZES, ids=lambda x: stable(x)[:20])
def test_bad_sizes_are_refused(bad):
    with pytest.raises(InvalidParameter, match=r"^size: got .*expected "):
        staircase(epsilon=1, width=3, first=2, size=bad)
