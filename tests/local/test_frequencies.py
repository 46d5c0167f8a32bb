"""Shares with their variances: repairs, intervals, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.stats import norm
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.estimation.frequencies import Frequencies, Support, bernstein_reach, binomial_bounds, clip, project
from discreet.local.oracles.responses import KRR

F = Fraction
shares = st.lists(st.floats(-3, 3), min_size=1, max_size=12)


# --- the two repairs --------------------------------------------------------------------------------------------


@given(shares)
def test_repairs_are_distributions(given_shares):
    for repaired in (clip(given_shares), project(given_shares)):
        assert repaired.min() >= 0
        assert repaired.sum() == pytest.approx(1)
        assert repaired.shape == (len(given_shares),)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12).filter(lambda p: sum(p) > 0.01))
def test_distributions_are_left_alone(weights):
    p = np.array(weights) / sum(weights)
    assert clip(p) == pytest.approx(p, abs=1e-12)
    assert project(p) == pytest.approx(p, abs=1e-12)


@settings(max_examples=15)
@given(st.lists(st.floats(-2, 2), min_size=2, max_size=5))
def test_the_projection_is_the_nearest_distribution(given_shares):
    point = np.array(given_shares)
    found = minimize(
        lambda p: ((p - point) ** 2).sum(),
        np.full(point.size, 1 / point.size),
        jac=lambda p: 2 * (p - point),
        bounds=[(0, 1)] * point.size,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-14},
    ).x
    ours = ((project(point) - point) ** 2).sum()
    assert ours <= ((found / found.sum() - point) ** 2).sum() + 1e-7


def test_worked_repairs():
    """C6: (11/10, −1/10) becomes (1, 0) either way; three values tell the repairs apart."""
    told = Frequencies([1.1, -0.1], [0.1, 0.1], 10)
    assert told.clipped().tolist() == told.projected().tolist() == [1, 0]
    assert clip([0.9, 0.3, -0.2]) == pytest.approx([0.75, 0.25, 0])
    assert project([0.9, 0.3, -0.2]) == pytest.approx([0.8, 0.2, 0])


def test_nothing_positive_is_clipped_to_the_uniform_distribution():
    assert clip([-1, -2, 0]).tolist() == [1 / 3] * 3
    assert project([-1, -2, 0]).tolist() == pytest.approx([0, 0, 1])
    assert clip([1e308, 1e308, -1e308]).tolist() == [0.5, 0.5, 0]


# --- intervals --------------------------------------------------------------------------------------------------


def poisson_binomial(chances: list[float]) -> np.ndarray:
    law = np.ones(1)
    for p in chances:
        law = np.convolve(law, [1 - p, p])
    return law


@settings(max_examples=150)
@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1e-4, 0.01, 0.5, 0.99, 1.0]), min_size=1, max_size=12),
    st.sampled_from([0.01, 0.05, 0.2, 0.5, 0.9]),
)
def test_binomial_bounds_cover_for_coins_of_any_kind(chances, tail):
    """Exactly, for coins that differ: all outcomes with their probabilities."""
    low, high = binomial_bounds(np.arange(len(chances) + 1), len(chances), tail)
    mean = np.mean(chances)
    covered = (low <= mean + 1e-12) & (mean <= high + 1e-12)
    assert poisson_binomial(chances)[covered].sum() >= 1 - tail - 1e-9


@pytest.mark.parametrize("rare", [1e-3, 1e-2, 0.04])
def test_one_rare_coin_among_certain_ones_is_covered(rare):
    """Where equal coins would show heads a little less often than one coin with all the probability."""
    for tail in (2 * rare, 2 * rare * (1 + 1e-6), 2 * rare * (1 - 1e-6)):
        low, _ = binomial_bounds([0, 1], 20, tail)
        missed = rare if low[1] > rare / 20 + 1e-15 else 0.0
        assert missed <= tail / 2 * (1 + 1e-9)


def test_limits_for_many_reports_are_those_of_the_normal_law():
    low, high = binomial_bounds([30_000_000], 100_000_000, 0.05)
    width = norm.ppf(0.975) * np.sqrt(0.3 * 0.7 / 1e8)
    assert low[0] == pytest.approx(0.3 - width, abs=4e-3 * width)
    assert high[0] == pytest.approx(0.3 + width, abs=4e-3 * width)


def test_bernstein_reach_is_above_the_normal_one_and_close_for_small_tails():
    for tail in (0.05, 1e-4, 1e-8):
        normal = norm.isf(tail / 2) * np.sqrt(0.25 / 1e6)
        reach = float(bernstein_reach(np.array(0.25), 1.0, 1_000_000, tail))
        assert normal < reach < 1.42 * normal


def test_without_evidence_intervals_are_normal():
    told = Frequencies([0.5, 0.2, 0.3], [1e-4, 1e-4, 4e-4], 1000)
    low, high = told.interval("0.95", simultaneous=False)
    assert (high - low) / 2 == pytest.approx(1.959964 * np.sqrt(told.variance), rel=1e-5)
    low, high = told.interval("0.95")
    assert (high - low) / 2 == pytest.approx(norm.isf(0.025 / 3) * np.sqrt(told.variance), rel=1e-9)


def test_simultaneous_intervals_hold_the_single_ones_and_all_stay_within_zero_and_one():
    oracle = KRR(epsilon=1, size=50)
    told = oracle.estimate(oracle.tally(oracle.randomize(np.zeros(500, np.int64))), reports=500)
    low, high = told.interval("0.9")
    single_low, single_high = told.interval("0.9", simultaneous=False)
    assert (low <= single_low).all()
    assert (single_high <= high).all()
    assert (high - low).sum() > (single_high - single_low).sum()
    assert low.min() >= 0
    assert high.max() <= 1


@pytest.mark.parametrize("confidence", [0, 1, -1, 2, float("nan"), "x", None, True], ids=stable)
def test_bad_confidences_are_refused(confidence):
    with pytest.raises(InvalidParameter, match="confidence"):
        Frequencies([1.0], [0.0], 1).interval(confidence)


def test_tiny_doubts_give_wide_intervals_not_errors():
    told = Support(np.array([5, 5]), 10, F(3, 4), F(1, 4)).frequencies()
    low, high = told.interval(1 - F(1, 10**200))
    assert (low == 0).all()
    assert (high == 1).all()


# --- the value itself --------------------------------------------------------------------------------------------


def test_arrays_are_copies_that_cannot_be_written():
    mine = np.array([0.5, 0.5])
    told = Frequencies(mine, [0.1, 0.1], 3)
    mine[0] = 9
    assert told.shares.tolist() == [0.5, 0.5]
    for array in (told.shares, told.variance):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    assert told.size == 2
    told.projected()[0] = 1


@pytest.mark.parametrize("bad", [[], [float("nan")], [float("inf")], [[0.5]], "x", None, ["a"], 0.5, [1j]], ids=stable)
def test_bad_shares_are_refused(bad):
    with pytest.raises(InvalidData, match="shares"):
        Frequencies(bad, [0.1], 3)
    for repair in (clip, project):
        with pytest.raises(InvalidData, match="shares"):
            repair(bad)


@pytest.mark.parametrize("bad", [[-0.1], [0.1, 0.1], [], [float("nan")], None], ids=stable)
def test_bad_variances_are_refused(bad):
    with pytest.raises(InvalidData, match="variance"):
        Frequencies([0.5], bad, 3)


@pytest.mark.parametrize("bad", [0, -1, 1.5, None, True, "3"], ids=stable)
def test_bad_numbers_of_reports_are_refused(bad):
    with pytest.raises(InvalidParameter, match="reports"):
        Frequencies([0.5], [0.1], bad)
