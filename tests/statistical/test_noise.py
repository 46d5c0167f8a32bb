"""Every sampler, on both paths, follows its distribution, and would not if its scale were wrong by 30 %."""

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from scipy.special import ndtr
from tests.statistical.power import (
    FEW,
    MANY,
    WRONG,
    Stream,
    assert_follows,
    assert_frequency,
    assert_independent,
    assert_rejected,
)

from discreet.noise import (
    accept_each,
    bernoulli,
    bernoulli_exp,
    categorical,
    discrete_gaussian,
    discrete_laplace,
    geometric,
    planar_laplace,
    softmax,
    staircase,
    uniform_below,
)

F = Fraction
SCALES = [F(1, 2), F(22, 7), F(100), F(12345678, 1000), F(10**12)]
scales = pytest.mark.parametrize("scale", SCALES, ids=str)
paths = pytest.mark.parametrize("path", ["one", "many"])


def drawn(draw, path: str, stream: Stream, few: int = FEW) -> np.ndarray:
    """MANY draws by the vector path or a few by the scalar one."""
    if path == "many":
        return np.asarray(draw(MANY, stream))
    return np.array([draw(None, stream) for _ in range(few)])


# --- stated distribution functions, in floats ---------------------------------------------------------------


def laplace_cdf(scale: float):
    q = exp(-1 / scale)

    def cdf(k):
        low = np.exp(-np.maximum(-k, 0) / scale) / (1 + q)
        return np.where(k < 0, low, 1 - np.exp(-(np.maximum(k, 0) + 1) / scale) / (1 + q))

    return cdf


def geometric_cdf(scale: float):
    return lambda k: np.where(k < 0, 0, 1 - np.exp(-(np.maximum(k, 0) + 1) / scale))


def gaussian_cdf(sigma: float):
    if sigma > 1000:  # Φ at the half-integers is off by less than 1/σ² there
        return lambda k: ndtr((k + 0.5) / sigma)
    reach = int(12 * sigma) + 3
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    sums = np.concatenate([[0], np.cumsum(weights) / weights.sum()])
    return lambda k: sums[np.clip(k + reach + 1, 0, 2 * reach + 1).astype(int)]


def finite_cdf(weights):
    sums = np.concatenate([[0], np.cumsum(weights) / np.sum(weights)])
    return lambda k: sums[np.clip(k + 1, 0, len(weights)).astype(int)]


def staircase_cdf(epsilon: float, width: int, first: int):
    reach = int(40 / epsilon) * width + width
    k = np.abs(np.arange(-reach, reach + 1))
    sums = finite_cdf(np.exp(-epsilon * ((k + width - first) // width)))
    return lambda x: sums(x + reach)


# --- the samplers -------------------------------------------------------------------------------------------


FAMILIES = {
    "laplace": (lambda s: lambda size, e: discrete_laplace(s, size, entropy=e), laplace_cdf),
    "geometric": (lambda s: lambda size, e: geometric(s, size, entropy=e), geometric_cdf),
    "gaussian": (lambda s: lambda size, e: discrete_gaussian(s, size, entropy=e), gaussian_cdf),
}


@scales
@paths
@pytest.mark.parametrize("family", FAMILIES)
def test_the_true_scale_is_accepted_and_scales_wrong_by_30_percent_are_not(family, scale, path):
    sampler, cdf = FAMILIES[family]
    stream = Stream()
    draws = drawn(sampler(scale), path, stream)
    true = float(scale)
    assert_follows(draws, cdf(true), f"{family}({scale})", stream)
    for wrong in (true * WRONG, true / WRONG):
        assert_rejected(draws, cdf(true), cdf(wrong), f"{family}({scale}) against {wrong}", stream)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sampler_of_the_wrong_scale_is_rejected(family):
    """The same from the other side: the sampler is wrong, the statement right."""
    sampler, cdf = FAMILIES[family]
    for factor in (F(13, 10), F(10, 13)):
        stream = Stream()
        draws = drawn(sampler(7 * factor), "many", stream)
        assert_rejected(draws, cdf(7 * float(factor)), cdf(7.0), f"{family} of the wrong scale", stream)


@pytest.mark.parametrize("scale", [F(100), F(10**6), F(10**12)], ids=str)
@paths
def test_the_low_digits_of_large_noise_are_right_too(scale, path):
    """The remainder modulo 512 is a truncated geometric variable; a distance on the whole line is blind to it."""
    stream = Stream()
    draws = drawn(lambda size, e: discrete_laplace(scale, size, entropy=e), path, stream)
    low = np.where(draws < 0, ~draws, draws) % 512
    truncated = finite_cdf(np.exp(-np.arange(512) / float(scale)))
    assert_follows(low, truncated, f"laplace({scale}) mod 512", stream)
    reversed_ = finite_cdf(np.exp(-np.arange(512)[::-1] / 100.0))
    assert_rejected(low, truncated, reversed_, "low digits against a wrong ratio", stream)


@pytest.mark.parametrize("sigma", [F(1000), F(10**6)], ids=str)
@paths
def test_the_place_within_a_block_of_the_gaussian_is_right(sigma, path):
    stream = Stream()
    draws = drawn(lambda size, e: discrete_gaussian(sigma, size, entropy=e), path, stream)
    assert_follows(np.abs(draws) % 16, finite_cdf(np.ones(16)), f"gaussian({sigma}) mod 16", stream)


@paths
@pytest.mark.parametrize("bound", [2, 6, 1000, 2**40 + 1, 2**63])
def test_uniform_integers(bound, path):
    stream = Stream()
    draws = drawn(lambda size, e: uniform_below(bound, size, entropy=e), path, stream)

    def cdf(n):
        return lambda k: np.clip((k + 1) / n, 0, 1)

    assert_follows(draws, cdf(float(bound)), f"uniform below {bound}", stream)
    assert_rejected(draws, cdf(float(bound)), cdf(bound * WRONG), "uniform below 1.3 times as much", stream)


@paths
@pytest.mark.parametrize("p", [F(1, 3), F(1, 2), F(9, 10)], ids=str)
@pytest.mark.parametrize("coin", [bernoulli, bernoulli_exp])
def test_coins(coin, p, path):
    stream = Stream()
    draws = drawn(lambda size, e: coin(p, size, entropy=e), path, stream).astype(np.int64)
    heads = float if coin is bernoulli else lambda x: exp(-x)

    def cdf(x):
        return finite_cdf([1 - heads(x), heads(x)])

    assert_follows(draws, cdf(p), f"{coin.__name__}({p})", stream)
    wrong = float(p) / WRONG if coin is bernoulli else float(p) * WRONG
    assert_rejected(draws, cdf(p), cdf(wrong), f"{coin.__name__}({p}) against {wrong}", stream)


@paths
def test_weights(path):
    weights = [5, 0, 1, 10, 3, 3]
    stream = Stream()
    draws = drawn(lambda size, e: categorical(weights, size, entropy=e), path, stream, few=5000)
    assert_follows(draws, finite_cdf(weights), "categorical", stream)
    assert_rejected(draws, finite_cdf(weights), finite_cdf([10, 0, 1, 10, 3, 3]), "categorical, wrong weight", stream)


@paths
def test_softmax_of_scores_and_multiplicities(path):
    scores, copies = np.array([0, 3, 5, 5, -40, 9]), np.array([7, 2, 1, 0, 10**5, 1])
    true = copies * np.exp(scores / 4.0)
    stream = Stream()
    draws = drawn(lambda size, e: softmax(scores, 4, size, multiplicity=copies, entropy=e), path, stream, few=5000)
    assert_follows(draws, finite_cdf(true), "softmax", stream)
    for scale in (4 * WRONG, 4 / WRONG):
        assert_rejected(
            draws,
            finite_cdf(true),
            finite_cdf(copies * np.exp(scores / scale)),
            f"softmax against scale {scale}",
            stream,
        )


def test_softmax_of_fractions_with_hundreds_of_denominators():
    """lcm(1 … 699) exceeds 10^300: the gaps in units of the common denominator do not fit a float, their ratios do."""
    scores = [F(0), *(F(5, n) for n in range(1, 700))]
    stream = Stream()
    draws = softmax(scores, 1, MANY, entropy=stream)
    assert_follows(draws, finite_cdf([exp(s) for s in scores]), "softmax of 5/n", stream)
    assert_rejected(
        draws,
        finite_cdf([exp(s) for s in scores]),
        finite_cdf([exp(s * 1.3) for s in scores]),
        "softmax of 5/n, scale 1/1.3",
        stream,
    )


def test_a_coin_for_each_deficit():
    stream = Stream()
    deficits = np.repeat([0, 1, 3, 10], MANY // 4)
    heads = accept_each(deficits, 3, entropy=stream).reshape(4, -1)
    assert heads[0].all()
    for row, d in zip(heads[1:], (1, 3, 10), strict=True):
        truth = finite_cdf([1 - exp(-d / 3), exp(-d / 3)])
        assert_follows(row.astype(np.int64), truth, f"accept_each({d}/3)", stream)
        wrong = finite_cdf([1 - exp(-d / 3 * 1.3), exp(-d / 3 * 1.3)])
        if d == 3:
            assert_rejected(row.astype(np.int64), truth, wrong, f"accept_each({d}/3) against scale 3/1.3", stream)


def test_the_staircase():
    stream = Stream()
    draws = staircase(epsilon=1, width=10, first=4, size=MANY, entropy=stream)
    assert_follows(draws, staircase_cdf(1, 10, 4), "staircase", stream)
    for width, first in ((13, 5), (8, 3)):
        assert_rejected(
            draws, staircase_cdf(1, 10, 4), staircase_cdf(1, width, first), f"staircase against width {width}", stream
        )
    ones = np.array([staircase(epsilon=1, width=10, first=4, entropy=stream) for _ in range(2500)])
    assert_follows(ones, staircase_cdf(1, 10, 4), "staircase, one at a time", stream)


# --- the plane ----------------------------------------------------------------------------------------------


def radius_cdf(scale: float, dimensions: int):
    """P(‖z‖² ≤ s), by enumeration of the grid."""
    axis = (
        np.arange(-int(34 * scale), int(34 * scale) + 1)
        if dimensions == 2
        else np.arange(-int(26 * scale), int(26 * scale) + 1)
    )
    squares = axis**2
    total = squares[:, None] + squares[None, :]
    if dimensions == 3:
        total = total[:, :, None] + squares[None, None, :]
    values, where = np.unique(total, return_inverse=True)
    weights = np.bincount(where.ravel()) * np.exp(-np.sqrt(values) / scale)
    sums = np.concatenate([[0], np.cumsum(weights) / weights.sum()])
    return lambda s: sums[np.searchsorted(values, s, side="right")]


@pytest.mark.parametrize(("scale", "dimensions"), [(F(3, 2), 2), (F(7), 2), (F(3, 2), 3)], ids=str)
def test_the_distance_of_planar_noise(scale, dimensions):
    stream = Stream()
    points = planar_laplace(scale, MANY, dimensions=dimensions, entropy=stream)
    squares = np.square(points).sum(axis=1)
    true = radius_cdf(float(scale), dimensions)
    assert_follows(squares, true, f"planar({scale}), {dimensions} dimensions", stream)
    for wrong in (float(scale) * WRONG, float(scale) / WRONG):
        assert_rejected(squares, true, radius_cdf(wrong, dimensions), f"planar({scale}) against {wrong}", stream)


@pytest.mark.parametrize("scale", [F(10**6), F(10**12)], ids=str)
def test_the_distance_and_direction_of_wide_planar_noise(scale):
    """On a fine grid the density is ε²/2π·e^(−εr): radius Gamma(2), direction uniform, by octants and within one."""
    stream = Stream()
    points = planar_laplace(scale, MANY, entropy=stream).astype(np.float64) / float(scale)
    radius, angle = np.hypot(points[:, 0], points[:, 1]), np.arctan2(points[:, 1], points[:, 0])
    steps = np.floor(radius * 1000).astype(np.int64)

    def gamma(t):
        return lambda k: np.where(k < 0, 0, 1 - (1 + (k + 1) / 1000 / t) * np.exp(-np.maximum(k + 1, 0) / 1000 / t))

    assert_follows(steps, gamma(1.0), f"radius of planar({scale})", stream)
    for wrong in (WRONG, 1 / WRONG):
        assert_rejected(steps, gamma(1.0), gamma(wrong), f"radius of planar({scale}) against {wrong}", stream)
    sector = np.floor((angle + np.pi) / (2 * np.pi) * 64).astype(np.int64).clip(0, 63)
    assert_follows(sector, finite_cdf(np.ones(64)), f"direction of planar({scale})", stream)
    within = np.floor(((angle + np.pi) % (np.pi / 4)) / (np.pi / 4) * 16).astype(np.int64).clip(0, 15)
    assert_follows(within, finite_cdf(np.ones(16)), f"direction within an octant of planar({scale})", stream)


def test_one_planar_draw_at_a_time():
    stream = Stream()
    squares = np.array([np.square(planar_laplace(2, entropy=stream)).sum() for _ in range(2500)])
    assert_follows(squares, radius_cdf(2.0, 2), "planar(2), one at a time", stream)


# --- independence and symmetry ------------------------------------------------------------------------------

ROWS = 40_000


@pytest.mark.parametrize(
    ("family", "scale"),
    [("laplace", F(3)), ("laplace", F(10**6)), ("gaussian", F(3)), ("gaussian", F(1000)), ("geometric", F(50))],
    ids=str,
)
def test_draws_that_follow_one_another_are_independent(family, scale):
    """Neighbors share a 64-bit word of four; lags 1 to 4 and 7 cover the same word, the next and beyond."""
    sampler, cdf = FAMILIES[family]
    stream = Stream()
    rows = sampler(scale)((ROWS, 8), stream)
    cuts = (
        np.array([-0.7, -0.1, 0.9]) * float(scale)
        if family != "geometric"
        else np.array([0.2, 0.7, 1.5]) * float(scale)
    )
    cuts = np.floor(cuts)
    for lag in (1, 2, 3, 4, 7):
        assert_independent(rows[:, 0], rows[:, lag], cuts, cdf(float(scale)), f"{family}({scale}) at lag {lag}", stream)


def test_single_draws_that_follow_one_another_are_independent():
    stream = Stream()
    draws = np.array([discrete_laplace(100, entropy=stream) for _ in range(2 * FEW)]).reshape(-1, 2)
    assert_independent(
        draws[:, 0], draws[:, 1], np.array([-60.0, -5.0, 80.0]), laplace_cdf(100.0), "single draws", stream
    )


def test_the_digits_of_one_draw_are_independent():
    stream = Stream()
    draws = discrete_laplace(10**6, ROWS, entropy=stream)
    low, middle = np.where(draws < 0, ~draws, draws) % 512, np.where(draws < 0, ~draws, draws) // 512 % 1024
    for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
        p_low = finite_cdf(np.exp(-np.arange(512) / 1e6))(np.array([255.0]))[0]
        p_middle = finite_cdf(np.exp(-np.arange(1024) * 512 / 1e6))(np.array([511.0]))[0]
        p = (p_low if i == 0 else 1 - p_low) * (p_middle if j == 0 else 1 - p_middle)
        assert_frequency((low // 256 == i) & (middle // 512 == j), p, f"digits {i}, {j}", stream, tests=4)


def test_coordinates_are_equally_distributed_and_uncorrelated_in_sign():
    """The coordinates of planar noise are dependent (through the radius) but their signs and their order are not."""
    stream = Stream()
    x, y = planar_laplace(10**6, ROWS, entropy=stream).T
    for a, b in ((0, 0), (0, 1), (1, 0), (1, 1)):
        assert_frequency(((x < 0) == a) & ((y < 0) == b), 0.25, f"signs {a}, {b}", stream, tests=4)
    assert_frequency(np.abs(x) < np.abs(y), 0.5, "order of coordinates", stream)
    lapl = discrete_laplace(10**6, (ROWS, 3), entropy=stream)
    assert_independent(
        lapl[:, 0], lapl[:, 2], np.array([-7e5, 0.0, 7e5]), laplace_cdf(1e6), "columns of a matrix", stream
    )


@pytest.mark.parametrize("family", ["laplace", "gaussian"])
@pytest.mark.parametrize("scale", [F(1), F(5), F(1000)], ids=str)
def test_noise_is_symmetric(family, scale):
    """P(K > 0) = P(K < 0); a sampler off by one is noticed."""
    sampler, cdf = FAMILIES[family]
    stream = Stream()
    draws = sampler(scale)(MANY, stream)
    below = float(cdf(float(scale))(np.array([-1.0]))[0])
    assert_frequency(draws < 0, below, f"{family}({scale}) < 0", stream)
    assert_frequency(draws > 0, below, f"{family}({scale}) > 0", stream)
    if scale < 100:
        with pytest.raises(AssertionError, match="observed"):
            assert_frequency(draws + 1 > 0, below, "off by one", stream)


# --- the tests themselves have power ------------------------------------------------------------------------


def test_dependence_is_noticed():
    stream = Stream()
    rows = discrete_laplace(1000, (ROWS, 2), entropy=stream)
    cuts, cdf = np.array([-700.0, -100.0, 900.0]), laplace_cdf(1000.0)
    x, y = rows.T
    mixed = np.where(np.arange(ROWS) % 5 == 0, x, y)
    for wrong in (x, -x, ~x, np.abs(y) * np.sign(x), mixed):
        with pytest.raises(AssertionError, match="observed"):
            assert_independent(x, wrong, cuts, cdf, "dependent", stream)


def test_a_test_without_power_fails_by_itself():
    draws = discrete_laplace(1, 100)
    with pytest.raises(AssertionError, match="too few to tell"):
        assert_rejected(draws, laplace_cdf(1.0), laplace_cdf(1.01), "a wrong scale that nobody could see")


def test_failures_say_n_observed_and_expected():
    with pytest.raises(
        AssertionError, match=r"noise: n = 60000, distance observed 0\.\d+, expected ≤ 0\.\d+; seed \d+"
    ):
        assert_follows(np.zeros(MANY, np.int64), laplace_cdf(1.0), "noise", Stream())
