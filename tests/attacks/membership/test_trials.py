"""Independent runs: the bound holds as often as it says, in both orientations, and planted leaks are found."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from discreet.attacks.membership import Scores, trials
from discreet.attacks.membership.one_run import Gaussian

ALARM = 1e-6


def runs_of(n, k, *, noise=1.0, size=1.0, spread="laplace"):
    rng = np.random.default_rng([k, 78])
    drawn = getattr(rng, spread)(size=(2, n))
    return Scores.pair(size + noise * drawn[0], noise * drawn[1])


@pytest.mark.parametrize(
    ("spread", "delta", "curve", "truth"),
    [
        ("laplace", 0.0, "any", 1.0),
        ("normal", 1e-2, "any", Gaussian(1.0).epsilon(1e-2)),
        ("normal", 1e-2, "gaussian", Gaussian(1.0).epsilon(1e-2)),
    ],
)
def test_repeated_audits_exceed_the_truth_no_more_often_than_stated(spread, delta, curve, truth):
    audits, failure_probability = 200, 0.2
    found = [
        trials(
            runs_of(600, k, spread=spread), delta=delta, confidence=1 - failure_probability, curve=curve, seed=k
        ).epsilon
        for k in range(audits)
    ]
    assert sum(one > truth + 1e-9 for one in found) <= binom.isf(ALARM, audits, failure_probability)
    assert np.mean(found) > 0.2 * truth
    third = [
        trials(runs_of(6000, k, spread=spread, noise=1 / 3), delta=delta, confidence="0.95", curve=curve).epsilon
        for k in range(3)
    ]
    assert min(third) > truth


def test_a_low_score_tells_as_much_as_a_high_one():
    scores = runs_of(4000, 1)
    turned = Scores(-scores.values, scores.members)
    both = [trials(one, delta=0, confidence="0.95").epsilon for one in (scores, turned)]
    assert min(both) > 0.7
    assert both[0] == pytest.approx(both[1], abs=0.2)


@pytest.mark.parametrize(("leak", "noise", "size"), [("no noise", 0.0, 1), ("half", 0.5, 1), ("not clipped", 1.0, 5)])
def test_planted_leaks_are_found(leak, noise, size):
    for k in range(4):
        laplace = trials(runs_of(5000, k, noise=noise, size=size), delta=0, confidence="0.99")
        assert laplace.breaks(Fraction(1)), leak
        normal = runs_of(5000, k, noise=noise, size=size, spread="normal")
        claimed = Fraction(Gaussian(1.0).epsilon(1e-5))
        assert trials(normal, delta="1e-5", confidence="0.99", curve="gaussian").breaks(claimed), leak


def test_equal_scores_prove_nothing():
    assert trials(Scores.pair([1.0] * 50, [1.0] * 50), delta=0, confidence="0.9").epsilon == 0
    assert trials(Scores.pair([1.0] * 50, [1.0] * 50), delta="0.01", confidence="0.9", curve="gaussian").epsilon == 0


def test_thresholds_are_chosen_on_one_half_and_counted_on_the_other():
    """101 and 61 runs: the first half has 50 and 30, the second 51 and 31."""
    bound = trials(Scores.pair([2.0] * 101, [1.0] * 61), delta=0, confidence="0.95")
    assert "31 of 31" in bound.counted or "51 of 51" in bound.counted
    assert "0 of 31" in bound.counted or "0 of 51" in bound.counted
