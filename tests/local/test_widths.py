"""Intervals of means and of Hadamard shares: they cover, and are not much wider than the normal law would have them."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from discreet.local.oracles.metric import ClampedGeometric, ClampedLaplace
from discreet.local.oracles.numeric import Hybrid, Piecewise
from discreet.local.oracles.responses import HadamardResponse
from discreet.noise import DeterministicEntropy

REPORTS, RUNS, ALPHA = 20_000, 60, 1e-6
NUMBERS = {
    "piecewise 1": Piecewise(epsilon=1, lower=-1, upper=1, steps=64),
    "piecewise 4": Piecewise(epsilon=4, lower=-1, upper=1, steps=64),
    "hybrid": Hybrid(epsilon=2, lower=-1, upper=1, steps=64),
    "hybrid of bits": Hybrid(epsilon="0.5", lower=-1, upper=1, steps=64),
    "piecewise 3": Piecewise(epsilon=3, lower=-1, upper=1, steps=4096),
    "clamped": ClampedLaplace(epsilon=1, lower=-1, upper=1, granularity="1/32"),
    "seldom clamped": ClampedLaplace(epsilon=5, lower=-1, upper=1, granularity="1/256"),
}
PEOPLE = {"in the middle": np.zeros(REPORTS), "at the ends": np.repeat([-1.0, 1.0], REPORTS // 2)}


@pytest.mark.parametrize("people", PEOPLE)
@pytest.mark.parametrize("name", NUMBERS)
def test_means_are_covered_by_intervals_that_are_not_much_too_wide(name, people):
    """At 0.8 the limits miss the mean in at most a fifth of the runs; at 0.95 they are about as wide as normal ones."""
    randomizer, values = NUMBERS[name], PEOPLE[people]
    stream, missed, widths = DeterministicEntropy(5), 0, []
    for _ in range(RUNS):
        mean = randomizer.estimate(randomizer.tally(randomizer.randomize(values, entropy=stream)), reports=REPORTS)
        low, high = mean.interval("0.8")
        missed += not low <= values.mean() <= high
        low, high = mean.evidence.confidence_bounds(0.05)
        widths.append(high - low)
    assert binom.sf(missed - 1, RUNS, 0.2) > ALPHA
    snapping = float(getattr(randomizer, "step", getattr(randomizer, "granularity", 0)))
    variance = np.mean([randomizer.variance(str(value)) for value in (values[0], values[-1])])
    normal = 2 * norm.isf(0.025) * np.sqrt(variance / REPORTS)
    widest = 1.5 if name == "piecewise 4" else 1.35  # there the normal law is not near enough at so few reports
    assert 0.98 * normal < np.mean(widths) - snapping < widest * normal


@pytest.mark.parametrize("oracle", [
    Piecewise(epsilon="0.3", lower=0, upper=1, steps=9), Piecewise(epsilon=2, lower=0, upper=1, steps=1),
    Piecewise(epsilon=3, lower=0, upper=1, steps=100), Piecewise(epsilon=7, lower=0, upper=1, steps=150),
    ClampedGeometric(epsilon="0.5", size=9), ClampedGeometric(epsilon="0.2", size=150), ClampedGeometric(epsilon=3, size=4),
])  # fmt: skip
def test_third_moments_are_no_larger_than_the_normal_law_is_told(oracle):
    """By the whole channel; for piecewise reports the bound is also near."""
    chances = np.asarray(oracle.channel().as_float().matrix)
    if isinstance(oracle, Piecewise):
        shift, gain = map(float, oracle._affine)
        worth, bound = (np.arange(oracle.codes) - shift) / gain, oracle._skew
    else:
        worth, bound = oracle._worth(), oracle._third() / oracle._variances().min()
    away = np.abs(worth - np.arange(len(chances))[:, None])
    ratio = ((chances * away**3).sum(axis=1) / (chances * away**2).sum(axis=1)).max()
    assert ratio <= bound * (1 + 1e-9)
    if isinstance(oracle, Piecewise):
        assert bound < 1.2 * ratio


@pytest.mark.parametrize("share", [0.0, 0.4, 0.9])
def test_shares_by_several_hadamard_blocks_are_covered_and_not_much_too_wide(share):
    oracle = HadamardResponse(epsilon=3, size=20)
    values = np.where(np.arange(REPORTS) < share * REPORTS, 0, 1 + np.arange(REPORTS) % 19)
    stream, missed, widths = DeterministicEntropy(6), 0, []
    for _ in range(RUNS):
        found = oracle.estimate(oracle.tally(oracle.randomize(values, entropy=stream)), reports=REPORTS)
        low, high = found.evidence.confidence_bounds(0.2)
        missed += not low[0] <= share <= high[0]
        low, high = found.evidence.confidence_bounds(0.05)
        widths.append(high[0] - low[0])
    assert oracle.blocks > 1
    assert binom.sf(missed - 1, RUNS, 0.2) > ALPHA
    chances = np.asarray(oracle.channel().as_float().matrix)
    worth = (
        float(oracle._step) * ((chances[0] == chances[0].max()) * 2.0 - 1) * (np.arange(oracle.codes) < oracle.block)
    )
    weights = np.bincount(values, minlength=20) / REPORTS
    variance = weights @ (chances @ worth**2 - (chances @ worth) ** 2)
    normal = 2 * norm.isf(0.025) * np.sqrt(variance / REPORTS)
    assert normal < np.mean(widths) < 1.55 * normal


def test_the_sum_of_squares_is_of_any_number_of_codes():
    """Squares are in coarser units beyond 4096 codes, rounded up, so that tallies of many reports stay in int64."""
    fine = Piecewise(epsilon=1, lower=0, upper=1, steps=1 << 24)
    most = fine.tally([fine.codes - 1] * 10)[2] // 10
    assert int(most) * 2**37 < 2**63
    reports = fine.randomize(np.full(2000, 0.5), entropy=DeterministicEntropy(1))
    low, high = fine.estimate(fine.tally(reports), reports=2000).interval("0.95")
    assert low < 0.5 < high


def test_clamped_counts_tell_the_variance():
    """The spread of the counts, in expectation, is the mean variance, exactly, whatever the numbers are."""
    steps = ClampedGeometric(epsilon="0.5", size=9)
    chances = np.asarray(steps.channel().as_float().matrix)
    for place, row in enumerate(chances):
        spread = steps._spread(row, 1)
        assert spread.base + spread.slope * spread.mean == pytest.approx(steps.variance(place), rel=1e-9)
