"""Poisson samples by gaps: the gaps' table is right, positions follow from them, and samples are those of coins."""

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy, poisson_sample
from discreet.noise import uniform as gaps
from discreet.noise.uniform import _gaps

F = Fraction
RATES = [F(1, 8), F(1, 100), F(600, 60_007), F(1, 2000)]
ALARM = 1e-7  # of each comparison


@pytest.mark.parametrize("p", RATES, ids=str)
def test_thresholds_enclose_the_chance_of_a_gap(p):
    table = _gaps(p)
    last = len(table.thresholds) - 1
    for i in {0, 1, 2, 3, 7, 50, 100, last // 2, last - 1, last}:
        true = (1 - (1 - p) ** (i + 1)) * 2**64
        assert int(table.thresholds[i]) <= true <= int(table.thresholds[i]) + 2
        for bits in (64, 200):
            lo, hi = table._enclose(i, bits)
            assert lo <= (1 - (1 - p) ** (i + 1)) * 2**bits <= hi
            assert hi - lo <= 1
    assert len(table.thresholds) == math.ceil(16 / p)


def test_beyond_the_table_coins_are_thrown_anew(monkeypatch):
    """A table that ends after three coins: the law of all subsets of five is still that of coins."""
    monkeypatch.setattr(gaps, "_MANY", 0)
    monkeypatch.setattr(gaps, "_ENOUGH", F(3, 8))
    monkeypatch.setattr(gaps, "_gaps", cache(_gaps.__wrapped__))
    assert len(gaps._gaps(F(1, 8)).thresholds) == 3
    accept_and_reject(5, 10_000)


class Stated:
    """A table of outcomes below 32,000 that hands out these gaps, some at a time."""

    thresholds = range(32_000)

    def __init__(self, numbers: list[int], each: int) -> None:
        self._left, self._each = list(numbers), each

    def picks(self, entropy, count):
        given, self._left = self._left[: self._each], self._left[self._each :]
        return np.array(given, np.int16)


@pytest.mark.parametrize("each", [1, 2, 5])
@pytest.mark.parametrize(
    ("drawn", "size", "expected"),
    [
        ([0, 0, 0, 9], 3, [0, 1, 2]),
        ([2, 0, 1, 0, 9], 6, [2, 3, 5]),
        ([3], 3, []),
        ([2, 9], 3, [2]),
        ([31_999, 31_999, 9], 40_000, [31_999]),
        ([32_000, 0, 32_000, 1, 9], 70_000, [32_000, 64_002, 64_012]),
        ([4, 0, 0, 0, 0, 0, 5, 100], 16, [4, 5, 6, 7, 8, 9, 15]),
    ],
    ids=str,
)
def test_positions_follow_from_gaps(drawn, size, expected, each, monkeypatch):
    monkeypatch.setattr(gaps, "_MANY", 0)
    monkeypatch.setattr(gaps, "_gaps", lambda p: Stated([*drawn, *[31_999] * 9], each))
    assert poisson_sample(F(1, 100), size).tolist() == expected


def test_small_samples_have_the_law_of_coins(monkeypatch):
    monkeypatch.setattr(gaps, "_MANY", 0)
    accept_and_reject(3, 10_000)


def accept_and_reject(n: int, runs: int) -> None:
    """All subsets of n against their chances at p = 1/8; and the test has power: a rate of 30 % more is told apart."""
    counts = dict.fromkeys(itertools.chain.from_iterable(itertools.combinations(range(n), k) for k in range(n + 1)), 0)
    entropy = DeterministicEntropy(4)
    for _ in range(runs):
        counts[tuple(poisson_sample(F(1, 8), n, entropy=entropy).tolist())] += 1

    def surprise(rate: float) -> float:
        """Of χ², with all subsets that are too rare for it in one cell."""
        chances = np.array([rate ** len(s) * (1 - rate) ** (n - len(s)) for s in counts])
        seen, kept = np.array(list(counts.values())), chances * runs >= 5
        if not kept.all():
            seen, chances = np.append(seen[kept], seen[~kept].sum()), np.append(chances[kept], chances[~kept].sum())
        return float(stats.chisquare(seen, chances * runs).pvalue)

    assert surprise(1 / 8) > ALARM
    assert surprise(1.3 / 8) < ALARM


@pytest.mark.parametrize("p", RATES, ids=str)
def test_every_number_is_taken_at_the_stated_rate_and_sizes_vary_as_they_should(p):
    n, runs, entropy = 5000, 400, DeterministicEntropy(5)
    each, sizes = np.zeros(n), []
    for _ in range(runs):
        sample = poisson_sample(p, n, entropy=entropy)
        assert sample.dtype == np.int64
        assert (np.diff(sample) > 0).all()
        assert not sample.size or 0 <= sample[0] <= sample[-1] < n
        each[sample] += 1
        sizes.append(sample.size)
    low, high = stats.binom.ppf([ALARM / 2, 1 - ALARM / 2], n * runs, float(p))
    assert low <= sum(sizes) <= high
    assert not low <= sum(sizes) / 1.3 <= high
    spread = np.var(sizes) / (n * float(p) * float(1 - p))
    assert 0.6 < spread < 1.5  # χ² of 399 degrees: false alarms below 1e-7; a fixed size would give 0
    first, last = each[: n // 2].sum(), each[n // 2 :].sum()
    assert abs(first - last) < 6 * math.sqrt(n * runs * float(p))


def test_next_to_each_other_and_far_apart_are_independent():
    """Pairs at every distance up to 5 are taken together with chance p²."""
    p, n, runs, entropy = F(1, 10), 50_000, 40, DeterministicEntropy(6)
    together = np.zeros(6)
    for _ in range(runs):
        taken = np.zeros(n, bool)
        taken[poisson_sample(p, n, entropy=entropy)] = True
        for away in range(1, 6):
            together[away] += (taken[away:] & taken[:-away]).sum()
    expected = n * runs * float(p) ** 2
    assert (abs(together[1:] - expected) < 6.5 * math.sqrt(expected)).all()


def test_all_or_none_and_no_coins():
    assert poisson_sample(0, 10_000).tolist() == []
    assert poisson_sample(1, 10_000).tolist() == list(range(10_000))
    assert poisson_sample("1/100", 0).tolist() == []
    assert 0 < len(poisson_sample("1/3", 10_000)) < 10_000
    assert len(poisson_sample(F(1, 10**30), 10_000)) == 0


@pytest.mark.parametrize("p", [-1, 2, "nan", float("nan"), float("inf"), None, "x", True])
def test_rates_that_are_none(p):
    with pytest.raises(InvalidParameter, match="p: got"):
        poisson_sample(p, 10)


@pytest.mark.parametrize("count", [-1, 2.0, "3", None, True, 2**34])
def test_counts_that_are_none(count):
    with pytest.raises(InvalidParameter, match="count: got"):
        poisson_sample("1/100", count)
