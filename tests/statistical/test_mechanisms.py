"""Every mechanism releases with the probabilities it states, and a scale that is wrong by 30 % would be noticed.

The law of each release is written here from the definition of the mechanism (or taken from `probabilities`, which
tests/mechanisms checks against definitions); releases are drawn through the public `release` alone.
"""

from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from scipy.special import ndtr
from tests.statistical.power import (
    MANY,
    WRONG,
    Stream,
    assert_follows,
    assert_frequency,
    assert_rejected,
    band,
)

from discreet.mechanisms import (
    KRR,
    AboveThreshold,
    Exponential,
    Extreme,
    Gaussian,
    GaussianThreshold,
    Geometric,
    Laplace,
    LaplaceThreshold,
    OptimalSelection,
    PermuteAndFlip,
    PlanarLaplace,
    Quantile,
    RandomizedResponse,
    Range,
    ReportNoisyMax,
    Staircase,
)
from discreet.privacy.unit import Neighbors

F = Fraction
RUNS = 6000  # releases one at a time
WRONG_SCALES = [WRONG, 1 / WRONG]


def laplace_cdf(scale: float):
    q = exp(-1 / scale)

    def cdf(k):
        low = np.exp(-np.maximum(-k, 0) / scale) / (1 + q)
        return np.where(k < 0, low, 1 - np.exp(-(np.maximum(k, 0) + 1) / scale) / (1 + q))

    return cdf


def table_cdf(probabilities, first: int = 0):
    """The distribution function of a law on first, first + 1, … given by its probabilities."""
    ends = np.concatenate([[0.0], np.cumsum(probabilities), [1.0]])
    return lambda k: ends[np.clip(k - first + 1, 0, len(ends) - 1).astype(int)]


def gaussian_cdf(sigma: float):
    """A Gaussian rounded to whole numbers."""
    return lambda k: ndtr((k + 0.5) / sigma)


def staircase_cdf(epsilon: float, width: int, first: int):
    k = np.arange(-60 * width, 60 * width + 1)
    weights = np.exp(-epsilon * ((np.abs(k) + width - first) // width))
    return table_cdf(weights / weights.sum(), int(k[0]))


def check(draws, truth, wrong, what: str, stream: Stream) -> None:
    assert_follows(draws, truth, what, stream)
    for other in wrong:
        assert_rejected(draws, truth, other, f"{what}, wrong by 30 %", stream)


def folded(cdf):
    """The law of |K| for a law of K that is the same on both sides of zero."""
    return lambda k: np.where(k < 0, 0.0, cdf(np.maximum(k, 0)) - cdf(-np.maximum(k, 0) - 1))


def check_symmetric(draws, law, scale: float, what: str, stream: Stream) -> None:
    """|K| tells two scales apart best; the whole law is checked too, so that the sides are right."""
    assert_follows(draws, law(scale), what, stream)
    check(np.abs(draws), folded(law(scale)), [folded(law(scale * w)) for w in WRONG_SCALES], what, stream)


def check_finite(draws, law, what: str, stream: Stream) -> None:
    """`law(factor)` gives the probabilities of the outcomes if the scale is wrong by that factor.

    Outcomes are put in the order of the likelihood ratio, where the distribution functions lie furthest apart.
    """
    truth = np.asarray(law(F(1)))
    for factor in (F(13, 10), F(10, 13)):
        wrong = np.asarray(law(factor))
        order = np.argsort(wrong / truth)
        rank = np.argsort(order)
        check(rank[draws], table_cdf(truth[order]), [table_cdf(wrong[order])], what, stream)


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "sensitivity"), [("1/3", 1), ("2", 5), ("1/50", 2)])
def test_geometric(epsilon, sensitivity):
    stream, scale = Stream(), sensitivity / float(F(epsilon))
    mechanism = Geometric(epsilon=epsilon, sensitivity=sensitivity)
    draws = mechanism.release(np.full(MANY, 1000), entropy=stream) - 1000
    check_symmetric(draws, laplace_cdf, scale, "geometric", stream)


def test_geometric_one_at_a_time():
    stream, mechanism = Stream(), Geometric(epsilon="1/3", sensitivity=1)
    draws = np.array([mechanism.release(-7, entropy=stream) for _ in range(RUNS)]) + 7
    check_symmetric(draws, laplace_cdf, 3, "geometric", stream)


def test_laplace_vector():
    """d numbers, Δ = 1 in steps of a quarter: the scale is (4 + d − 1)/ε steps."""
    stream = Stream()
    mechanism = Laplace(epsilon=F(MANY, 10), sensitivity=1, granularity="1/4", dimension=MANY)
    scale = (4 + MANY - 1) / (MANY / 10)
    released = mechanism.release(np.full(MANY, 0.3), entropy=stream)
    draws = np.round((released - 0.25) * 4).astype(np.int64)
    check_symmetric(draws, laplace_cdf, scale, "laplace", stream)


def test_laplace_one_number():
    stream, mechanism = Stream(), Laplace(epsilon="1/2", sensitivity=3, granularity="1/4")
    released = np.array([mechanism.release(10.3, entropy=stream) for _ in range(RUNS)])
    draws = np.round((released - 10.25) * 4).astype(np.int64)
    check_symmetric(draws, laplace_cdf, 24, "laplace", stream)


def test_gaussian_vector():
    stream, mechanism = Stream(), Gaussian(sigma="2.5", sensitivity=1, granularity="1/2", dimension=MANY)
    draws = np.round(mechanism.release(np.full(MANY, -3.1), entropy=stream) * 2).astype(np.int64) + 6
    check_symmetric(draws, gaussian_cdf, 5, "gaussian", stream)


FINE = 2**20
"""Numbers in one release; eight of them tell a scale to 0.2 %."""


@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_the_scale_of_vectors_to_a_fifth_of_a_percent(kind):
    """Mean |X| of Laplace noise, or the root mean square of Gaussian noise, over 8 million draws, by the default grid.

    Their relative deviations are 1/√n and 1/√2n: 5.5 of them, 4e-8, are below 0.19 %, so a scale that is wrong by 1 %
    is 20 deviations off.
    """
    stream, claimed, draws = Stream(), 3.0, 8
    noise = {"epsilon": "1/3"} if kind is Laplace else {"sigma": 3}
    mechanism = kind(sensitivity=1, dimension=FINE, **noise)
    power = 1 if kind is Laplace else 2
    sums = [(np.abs(mechanism.release(np.zeros(FINE), entropy=stream)) ** power).mean() for _ in range(draws)]
    scale = float(np.mean(sums) ** (1 / power))
    allowed = 5.5 / sqrt(power * draws * FINE) + 1 / 1024  # what snapping costs
    assert allowed < 0.003
    assert abs(scale / claimed - 1) < allowed, stream
    assert abs(scale / (claimed * 1.01) - 1) > allowed, stream
    assert float(mechanism.scale if kind is Laplace else mechanism.sigma) == pytest.approx(scale, rel=0.002), stream


def test_gaussian_one_number():
    stream, mechanism = Stream(), Gaussian(sigma=10, sensitivity=1, granularity=1)
    draws = np.array([mechanism.release(0.4, entropy=stream) for _ in range(RUNS)]).astype(np.int64)
    check_symmetric(draws, gaussian_cdf, 10, "gaussian", stream)


def test_staircase():
    stream, mechanism = Stream(), Staircase(epsilon=1, sensitivity=2, granularity="1/8")
    draws = np.round(np.array([mechanism.release(0.0, entropy=stream) for _ in range(RUNS)]) * 8).astype(np.int64)
    width, first = mechanism.width, mechanism.first
    assert (width, first) == (16, round(16 / (1 + exp(0.5))))
    check_symmetric(draws, lambda s: staircase_cdf(1, round(s), round(s * first / width)), width, "staircase", stream)


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bit", [0, 1])
def test_randomized_response(bit):
    stream, mechanism = Stream(), RandomizedResponse.for_epsilon(epsilon=1)
    released = mechanism.release(np.full(MANY, bit), entropy=stream) == bool(bit)
    assert_frequency(released, exp(1) / (1 + exp(1)), "randomized response", stream)
    for epsilon in (1 * WRONG, 1 / WRONG):
        assert abs(released.mean() - exp(epsilon) / (1 + exp(epsilon))) > band(MANY)


@pytest.mark.parametrize("answer", [0, 3, 6])
def test_k_ary_response(answer):
    stream, mechanism = Stream(), KRR(epsilon=2, size=7)

    def cdf(epsilon):
        weights = np.ones(7)
        weights[answer] = exp(epsilon)
        return table_cdf(weights / weights.sum())

    draws = mechanism.release(np.full(MANY, answer), entropy=stream)
    check(draws, cdf(2), [cdf(2 * w) for w in WRONG_SCALES], "k-ary response", stream)


# --- choices ------------------------------------------------------------------------------------------------------------

SCORES = [(7 * k) % 24 for k in range(24)]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", [Exponential, PermuteAndFlip, ReportNoisyMax])
@pytest.mark.parametrize("monotone", [False, True])
def test_choosers(kind, monotone):
    stream, epsilon = Stream(), F(1, 4) if monotone else F(1, 2)
    mechanism = kind(epsilon=epsilon, sensitivity=1, monotone=monotone)

    def law(factor):
        return kind(epsilon=epsilon / factor, sensitivity=1, monotone=monotone).probabilities(SCORES)

    draws = np.array([mechanism.release(SCORES, entropy=stream) for _ in range(RUNS)])
    check_finite(draws, law, kind.__name__, stream)


@pytest.mark.parametrize("positives", [1, 2])
def test_above_threshold(positives):
    """Whole runs: five answers below the threshold, one above."""
    stream, answers = Stream(), [-1, -1, -1, -1, -1, 11]

    def channel(factor):
        mechanism = AboveThreshold(epsilon=2 / factor, sensitivity=1, threshold=3, positives=positives)
        return mechanism.channel({"x": answers})

    mechanism = AboveThreshold(epsilon=2, sensitivity=1, threshold=3, positives=positives)
    place = {run: i for i, run in enumerate(channel(F(1)).outputs)}
    draws = np.array([place[tuple(mechanism.release(answers, entropy=stream))] for _ in range(RUNS)])
    check_finite(draws, lambda factor: channel(factor).matrix[0], "above threshold", stream)


# --- data -----------------------------------------------------------------------------------------------------------------

THIRTY = Range(lower=0, upper=29, granularity=1)
DATA = list(range(30))


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("neighbors", list(Neighbors), ids=str)
def test_quantile(neighbors):
    stream = Stream()

    def make(factor):
        return Quantile(epsilon=1 / (2 * factor), probability="1/2", within=THIRTY, neighbors=neighbors)

    draws = np.array([make(F(1)).release(DATA, entropy=stream) for _ in range(RUNS)]).astype(np.int64)
    check_finite(draws, lambda factor: make(factor).probabilities(DATA), "quantile", stream)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("side", ["min", "max"])
def test_extreme(side):
    stream = Stream()

    def make(factor):
        return Extreme(epsilon=1 / (2 * factor), side=side, within=THIRTY, rank=0)

    draws = np.array([make(F(1)).release(DATA, entropy=stream) for _ in range(RUNS)]).astype(np.int64)
    check_finite(draws, lambda factor: make(factor).probabilities(DATA), side, stream)


# --- places ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_planar_laplace(dimensions):
    """One coordinate, and the whole squared radius, against sums over the grid."""
    stream = Stream()

    def laws(scale):
        reach = 30 if dimensions < 3 else 24
        axis = np.arange(-reach, reach + 1)
        squares = sum(g.astype(float) ** 2 for g in np.meshgrid(*[axis] * dimensions, indexing="ij"))
        weights = np.exp(-np.sqrt(squares) / scale)
        weights /= weights.sum()
        coordinate = weights.sum(axis=tuple(range(1, dimensions)))
        radius = np.bincount(squares.astype(int).ravel(), weights=weights.ravel())
        return table_cdf(coordinate, -reach), table_cdf(radius)

    mechanism = PlanarLaplace(epsilon=1, unit="km", granularity="1/2", dimensions=dimensions)
    released = mechanism.release(np.full((MANY // 2, dimensions), 3.1), entropy=stream)
    steps = np.round(released * 2).astype(np.int64) - 6
    (coordinate, radius), wrong = laws(2), [laws(2 * w) for w in WRONG_SCALES]
    check(steps[:, -1], coordinate, [w[0] for w in wrong], "a coordinate", stream)
    check((steps**2).sum(axis=1), radius, [w[1] for w in wrong], "the radius", stream)


# --- keys -------------------------------------------------------------------------------------------------------------------


def test_optimal_selection():
    stream, mechanism = Stream(), OptimalSelection(epsilon="1/2", delta="1e-2", keys=1)
    counts = np.arange(1, 13).repeat(MANY // 12)
    kept = mechanism.release(counts, entropy=stream)
    for n in range(1, 13):
        assert_frequency(kept[counts == n], float(mechanism.keep(n)), f"{n} units", stream, tests=12)
    for epsilon in ("0.65", "0.385"):
        wrong = OptimalSelection(epsilon=epsilon, delta="1e-2", keys=1)
        gaps = [abs(kept[counts == n].mean() - float(wrong.keep(n))) for n in range(1, 13)]
        assert max(gaps) > band(MANY // 12)


@pytest.mark.parametrize("kind", [LaplaceThreshold, GaussianThreshold])
def test_thresholds(kind):
    """What is said about a key: "dropped", or a noisy count from the threshold upwards."""
    stream = Stream()
    noise = {"epsilon": "1/2"} if kind is LaplaceThreshold else {"sigma": 2}
    mechanism = kind(**noise, delta="1/10", keys=1)
    count, bar = mechanism.threshold, mechanism.threshold

    def cdf(factor):
        plain = laplace_cdf(2 * factor) if kind is LaplaceThreshold else gaussian_cdf(2 * factor)
        return lambda said: np.where(said < bar - 1, 0.0, plain(np.maximum(said, bar - 1) - count))

    kept, noisy = mechanism.release(np.full(MANY, count), entropy=stream)
    draws = np.where(kept, noisy, bar - 1)
    check(draws, cdf(1), [cdf(w) for w in WRONG_SCALES], kind.__name__, stream)


# --- the sum of the parts -------------------------------------------------------------------------------------------------------


def test_coordinates_of_one_release_are_independent():
    """If pairs of coordinates shared noise, sums of ten would be √2 too wide: 0.08 apart, twice the band is 0.07."""
    stream, size = Stream(), 10
    for release, variance in [
        (Geometric(epsilon="1/10", sensitivity=1).release, 2 * 10**2),
        (Gaussian(sigma=12, sensitivity=1, granularity=1, dimension=MANY).release, 144),
    ]:
        sums = np.asarray(release(np.zeros(MANY, np.int64), entropy=stream)).reshape(-1, size).sum(axis=1)
        spread = sums / sqrt(size * variance)
        assert_follows(
            np.floor(spread * 50).astype(np.int64), lambda k: ndtr((k + 1) / 50), "sums of coordinates", stream
        )
