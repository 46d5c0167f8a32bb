"""Responses on a bounded range: d-privacy and ε through channels, exact unbiasedness, samplers, coverage, bad input."""

from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from tests.statistical.power import MANY, WRONG, Stream, assert_follows, assert_rejected

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.local.estimation.ibu import ibu
from discreet.local.estimation.inversion import invert
from discreet.local.estimation.linear_maps import DenseModel
from discreet.local.oracles.metric import ClampedGeometric, ClampedLaplace, ExponentialResponse
from discreet.local.oracles.oracle import sift
from discreet.privacy.loss import PerDistance, Pure

F = Fraction
KINDS = [ClampedGeometric, ExponentialResponse]
kinds = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
epsilons = pytest.mark.parametrize("epsilon", ["1/10", "1/2", "1", "3"])


@kinds
@epsilons
@pytest.mark.parametrize("size", [2, 3, 6])
def test_channels_have_both_stated_losses(kind, epsilon, size):
    response = kind(epsilon=epsilon, size=size)
    channel = response.channel()
    assert channel.exact
    assert response.per_distance == PerDistance(epsilon, "unit", 0)
    whole = F(epsilon) * (size - 1) / (1 if kind is ClampedGeometric else 2)
    assert response.loss == Pure(whole)
    assert channel.ratio("line") * (1 << 256) <= exp_bounds(F(epsilon), 256)[0]
    assert channel.d_privacy("line") <= float(F(epsilon))
    assert channel.ratio("all") * (1 << 256) <= exp_bounds(whole, 256)[0]
    assert channel.epsilon("all") == pytest.approx(float(whole), abs=1e-9)  # and no less
    if kind is ClampedGeometric:
        assert channel.d_privacy("line") == pytest.approx(float(F(epsilon)), abs=1e-9)


def test_the_exponential_response_uses_its_epsilon_up_at_the_ends_of_two():
    """Between two numbers nothing is lost to normalization: p = 1/(1+q), q = e^(−ε/2), so only half of ε is used; on
    long ranges the neighbors in the middle differ by e^(ε/2), at the ends by more."""
    assert ExponentialResponse(epsilon=2, size=2).channel().epsilon("all") == pytest.approx(1, abs=1e-9)
    long = ExponentialResponse(epsilon="1/10", size=12).channel().d_privacy("line")
    assert 0.06 < long <= 0.1


@kinds
@epsilons
@pytest.mark.parametrize("size", [2, 3, 9])
def test_means_are_unbiased_with_the_stated_variance(kind, epsilon, size):
    """Σ_y p(y|x)·worth(y) = x and Σ_y p(y|x)·worth(y)² − x² = variance(x), for every x: no sampling."""
    response = kind(epsilon=epsilon, size=size)
    matrix = response.channel().matrix.astype(float)
    worth = np.array([response.estimate(response.tally([y]), reports=1).value for y in range(size)])
    variances = matrix @ worth**2 - np.arange(size) ** 2
    assert matrix @ worth == pytest.approx(np.arange(size), abs=1e-9 * (1 + abs(worth).max()))
    assert [response.variance(x) for x in range(size)] == pytest.approx(variances, rel=1e-7, abs=1e-9)


def test_a_clamped_mean_without_correction_would_be_biased():
    """Why ends are worth more than themselves: at ε = 1/2, a zero among 0 … 4 is reported as 0.83 on average."""
    matrix = ClampedGeometric(epsilon="1/2", size=5).channel().matrix.astype(float)
    assert (matrix @ np.arange(5))[0] == pytest.approx(0.83, abs=0.01)


def truth(kind, epsilon, size, place):
    y = np.arange(size)
    if kind is ExponentialResponse:
        weights = np.exp(-epsilon * abs(y - place) / 2)
        return weights / weights.sum()
    a = exp(-epsilon)
    p = (1 - a) / (1 + a) * a ** abs(y - place)
    p[0], p[-1] = a**place / (1 + a), a ** (size - 1 - place) / (1 + a)
    return p


@kinds
@pytest.mark.parametrize(("epsilon", "size", "place"), [(1.0, 6, 0), (1.0, 6, 3), (0.2, 6, 5), (0.25, 100, 40)])
def test_reports_follow_the_law_and_not_that_of_another_epsilon(kind, epsilon, size, place):
    """Short ranges too, where the exponential response draws uniform proposals. Distances are compared."""
    stream, response = Stream(), kind(epsilon=epsilon, size=size)
    away = np.abs(response.randomize(np.full(MANY, place), entropy=stream) - place)

    def cdf(at):
        p = truth(kind, at, size, place)
        ends = np.cumsum(np.bincount(np.abs(np.arange(size) - place), weights=p))
        return lambda x: np.where(x < 0, 0.0, ends[np.clip(x, 0, len(ends) - 1).astype(int)])

    assert_follows(away, cdf(epsilon), kind.__name__, stream)
    if epsilon * size > 2:  # otherwise a sixth of 60,000 reports is too few to see 30 % of a small ε
        for wrong in (epsilon * WRONG, epsilon / WRONG):
            assert_rejected(away, cdf(epsilon), cdf(wrong), kind.__name__, stream)
    assert truth(kind, epsilon, size, place) == pytest.approx(response.channel().matrix[place].astype(float), abs=1e-12)


@kinds
def test_simulated_means_are_as_stated_and_covered(kind):
    """400 means of 300 numbers: their mean square has a spread of 7 %, so 40 % off is a false alarm below 1e-6;
    P(more than 128 of 400 missed | 0.2) < 1e-8."""
    response, stream = kind(epsilon="0.7", size=11), Stream()
    people = np.arange(300) % 7
    reports = response.randomize(np.tile(people, 400), entropy=stream).reshape(400, -1)
    means = [response.estimate(response.tally(row), reports=300) for row in reports]
    errors = np.array([mean.value for mean in means]) - people.mean()
    stated = np.mean([response.variance(int(x)) for x in people]) / 300
    assert 0.6 < (errors**2).mean() / stated < 1.4, stream
    assert abs(errors.mean()) < 5 * sqrt(stated / 400), stream
    limits = [mean.interval("0.8") for mean in means]
    assert sum(not low <= people.mean() <= high for low, high in limits) <= 128, stream
    assert all(mean.variance >= stated * 0.99 for mean in means)


@kinds
def test_distributions_come_back_through_the_channel(kind):
    response, stream = kind(epsilon=2, size=5), Stream()
    shares = np.array([0.4, 0.1, 0.1, 0.3, 0.1])
    people = np.repeat(np.arange(5), (shares * MANY).round().astype(int))
    counts = response.tally(response.randomize(people, entropy=stream))
    assert np.abs(np.array(invert(response.channel(), counts), float) - shares).max() < 0.08, stream
    assert np.abs(ibu(DenseModel(response.channel()), counts).shares - shares).max() < 0.08, stream


# --- real numbers -----------------------------------------------------------------------------------------------


def test_laplace_is_the_geometric_response_in_steps():
    hours = ClampedLaplace(epsilon="0.5", lower=-2, upper=3, granularity="0.25")
    assert hours.geometric == ClampedGeometric(epsilon="0.125", size=21)
    assert hours.channel().d_privacy("line") == pytest.approx(0.125, abs=1e-9)  # a step of 1/4 unit
    assert hours.channel().epsilon("all") == pytest.approx(2.5, abs=1e-9)
    assert hours.loss == Pure("2.5")
    assert hours.per_distance.within(1) == Pure("0.625")
    assert hours.variance(0) == pytest.approx(hours.geometric.variance(8) / 16)


def test_laplace_means_are_found_and_covered():
    hours, stream = ClampedLaplace(epsilon=1, lower=-2, upper=6, granularity="0.5"), Stream()
    people = np.linspace(-2, 3, MANY)
    reports = hours.randomize(people, entropy=stream)
    assert hours.valid(reports).all()
    mean = hours.estimate(hours.tally(reports), reports=MANY)
    low, high = mean.interval("0.999999")
    assert low <= 0.5 <= high, stream
    assert high - low < 0.7
    assert mean.value == pytest.approx(0.5, abs=0.1)


def test_laplace_numbers_are_snapped_and_held_at_the_ends():
    """With almost no noise the reports are the places."""
    hours = ClampedLaplace(epsilon=100, lower=-1, upper=1, granularity="0.5")
    told = hours.randomize([-1e300, -1, -0.6, 0.1, 0.3, 1, 9, 2**62, -(2.0**63)])
    assert told.tolist() == [0, 0, 1, 2, 3, 4, 4, 4, 0]
    assert hours.randomize([]).shape == (0,)
    assert hours.randomize(0.5).shape == (1,)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0},
        {"granularity": 0},
        {"granularity": "0.3"},
        {"upper": 0},
        {"lower": 5},
        {"upper": float("inf")},
        {"upper": "1e30"},
        {"epsilon": "1e-12"},
        {"granularity": "1e-9"},
    ],
)
def test_bad_laplace_settings_are_refused(change):
    with pytest.raises(InvalidParameter):
        ClampedLaplace(**{"epsilon": 1, "lower": 0, "upper": 4, "granularity": "0.5", **change})


@pytest.mark.parametrize("values", [[float("nan")], [float("inf")], ["a"], [None], [[1.0], [2.0, 3]], [True]])
def test_bad_real_numbers_are_refused(values):
    with pytest.raises(InvalidData):
        ClampedLaplace(epsilon=1, lower=0, upper=4, granularity="0.5").randomize(values)


# --- input ------------------------------------------------------------------------------------------------------


@kinds
@pytest.mark.parametrize("change", [{"epsilon": 0}, {"epsilon": 1000}, {"size": 1}, {"size": 2.0}, {"size": 1 << 30}])
def test_bad_settings_are_refused(kind, change):
    with pytest.raises(InvalidParameter):
        kind(**{"epsilon": 1, "size": 5, **change})


@kinds
def test_bad_values_and_reports_are_refused_or_counted(kind):
    response = kind(epsilon=1, size=5)
    for values in ([5], [-1], [1.5], [float("nan")], ["a"], [[1]], [2**63]):
        with pytest.raises(InvalidData, match="values"):
            response.randomize(values)
    kept, dropped = sift(response, [0, 4, 5, -1, float("nan"), None, "x", 10**30])
    assert (kept.tolist(), dropped) == ([0, 4], 6)
    assert response.randomize([]).shape == (0,)
    with pytest.raises(InvalidParameter, match="reports"):
        response.estimate([1, 0, 0, 0, 0], reports=2)
    with pytest.raises(InvalidData, match="tally"):
        response.estimate([1, 0, 0], reports=1)
    with pytest.raises(InvalidParameter, match="value"):
        response.variance(5)


@kinds
@pytest.mark.parametrize("epsilon", ["1e-9", "100"])
def test_extreme_epsilons_work(kind, epsilon):
    response = kind(epsilon=epsilon, size=1000)
    reports = response.randomize(np.arange(1000))
    assert response.valid(reports).all()
    if epsilon == "100":
        assert (reports == np.arange(1000)).all()
        assert response.estimate(response.tally(reports), reports=1000).value == pytest.approx(499.5, abs=1e-6)


def test_large_ranges_are_quick():
    """Half a million reports over 2^20 numbers: nothing is listed for each person."""
    for kind in KINDS:
        response = kind(epsilon="1e-4", size=1 << 20)
        reports = response.randomize(np.full(500_000, 1 << 19))
        found = response.estimate(response.tally(reports), reports=500_000).value
        assert abs(found - (1 << 19)) < 6 * sqrt(response.variance(1 << 19) / 500_000)
