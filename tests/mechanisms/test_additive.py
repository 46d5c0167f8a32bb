"""Additive mechanisms: their privacy in rationals, their noise against closed forms, their intervals summed exactly."""

import tracemalloc
from contextlib import suppress
from fractions import Fraction
from functools import cache
from itertools import pairwise, product
from math import ceil, log, nextafter, sinh, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_bounds
from discreet.mechanisms import (
    DiscreteGaussian,
    Gaussian,
    GaussianThreshold,
    Geometric,
    Laplace,
    RoundedGaussian,
    Staircase,
)
from discreet.mechanisms.mechanism import Grid
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise, Pure, Repeated

F = Fraction
EPSILONS = [F(1, 100), F(1, 2), F(1), F(3), F(20)]
CONFIDENCES = ["0.01", "0.5", "0.9", "0.95", "0.999", "0.999999", "0.999999999999"]

epsilons = st.fractions(F(1, 1000), 30, max_denominator=1000)
confidences = st.one_of(st.fractions(F(1, 10**4), 1 - F(1, 10**4)), st.integers(1, 40).map(lambda n: 1 - F(1, 10**n)))
numbers = st.floats(-1e6, 1e6)


def moved(mechanism, x, y) -> list[int]:
    """By how many steps each coordinate of the snapped value differs."""
    grid = Grid(mechanism.granularity)
    return [abs(int(a) - int(b)) for a, b in zip(grid.snap(x).flat, grid.snap(y).flat, strict=True)]


def step_scale(mechanism: Laplace) -> Fraction:
    """The noise scale in whole steps, from the public scale."""
    return mechanism.scale / mechanism.granularity


def staircase_pmf(mechanism: Staircase, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """P(k) ∝ e^(−ε·⌊(|k| + n − r)/n⌋), from the paper's definition: e^−ε for each whole stair climbed."""
    k = np.arange(-reach, reach + 1)
    stair = (np.abs(k) + mechanism.width - mechanism.first) // mechanism.width
    weights = np.exp(-float(mechanism.epsilon) * stair)
    return k, weights / weights.sum()


# --- privacy: the likelihood ratio between neighbors, never above e^ε and reaching it ---------------------------


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("sensitivity", [1, 2, 7])
def test_geometric_has_the_stated_epsilon(epsilon, sensitivity):
    mechanism = Geometric(epsilon=epsilon, sensitivity=sensitivity)
    assert sensitivity / mechanism.scale == epsilon  # exactly: max over z of ln P(z − x)/P(z − x') is |x − x'|/scale
    reach = range(-3 * sensitivity, 3 * sensitivity + 1)
    for shift in range(1, sensitivity + 1):
        worst = max(log(mechanism.probability(k) / mechanism.probability(k + shift)) for k in reach)
        assert worst == pytest.approx(float(epsilon * shift / sensitivity), abs=1e-9)
    assert mechanism.loss == Pure(epsilon)


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("sensitivity", [1, 2, 3])
def test_the_truncated_geometric_channel_has_the_stated_epsilon_in_rationals(epsilon, sensitivity):
    mechanism = Geometric(epsilon=epsilon, sensitivity=sensitivity)
    channel = mechanism.channel(6)
    assert channel.exact
    near = [(a, b) for a in range(7) for b in range(a) if a - b <= sensitivity]
    ratio = channel.ratio(near)
    assert ratio * (1 << 256) <= exp_bounds(epsilon, 256)[0]
    assert ratio * (1 + F(1, 2**40)) * (1 << 256) > exp_bounds(epsilon, 256)[1]
    noise = {k: mechanism.probability(k) for k in range(-2000, 2001)}
    for x in range(7):
        law = dict.fromkeys(range(7), 0.0)
        for k, probability in noise.items():
            law[min(6, max(0, x + k))] += probability
        missing = 1 - sum(law.values())
        assert [float(channel.probability(x, z)) for z in range(7)] == pytest.approx(
            list(law.values()), abs=missing + 1e-9
        )


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4), epsilons, st.sampled_from(["1", "0.1", "1/3"]))
@settings(max_examples=50)
def test_laplace_never_exceeds_epsilon_whatever_snapping_does(pairs, epsilon, granularity):
    x, y = zip(*pairs, strict=True)
    apart = sum(abs(F(a) - F(b)) for a, b in pairs)
    assume(apart > 0)
    mechanism = Laplace(epsilon=epsilon, sensitivity=apart, granularity=granularity, dimension=len(x))
    assert sum(moved(mechanism, x, y)) / step_scale(mechanism) <= epsilon


@pytest.mark.parametrize("dimension", [1, 2, 5])
@pytest.mark.parametrize("granularity", ["1", "1/4", "3"])
def test_laplace_reaches_epsilon_so_no_noise_is_wasted(dimension, granularity):
    """The worst neighbors: every coordinate crosses a half by a hair, the first one takes the rest."""
    g = F(granularity)
    hair = F(1, 2**30)
    low = [(F(1, 2) - hair) * g] * dimension
    high = [g / 2, *(g / 2 for _ in low[1:])]
    high[0] += 3 * g - hair * dimension * g
    apart = sum(b - a for a, b in zip(low, high, strict=True))
    assert apart == 3 * g
    mechanism = Laplace(epsilon=2, sensitivity=apart, granularity=g, dimension=dimension)
    worst = sum(moved(mechanism, [float(v) for v in low], [float(v) for v in high]))
    expected = 2 if dimension == 1 else 2 * F(3 + dimension - 2, 3 + dimension - 1)  # one hair short of the bound
    assert expected <= worst / step_scale(mechanism) <= 2


def test_laplace_with_several_numbers_needs_more_noise_than_with_one():
    """Power: with the scale of one number, two coordinates that both cross a half would break ε."""
    one, two = (Laplace(epsilon=1, sensitivity=1, granularity=1, dimension=d) for d in (1, 2))
    crossing = moved(two, [0.25, 0.25], [0.5, 0.75])
    assert sum(crossing) / step_scale(two) <= 1 < sum(crossing) / step_scale(one)


@pytest.mark.parametrize("kind", [Laplace, Staircase, Gaussian])
@pytest.mark.parametrize("sensitivity", [0.1, 0.3, 1 / 3])
def test_a_float_sensitivity_covers_floats_that_far_apart(kind, sensitivity):
    """The float 0.1 is above one tenth: x and x + 0.1 may snap a step further apart than ⌈(1/10)/g⌉."""
    mechanism = kind(sensitivity=sensitivity, **({"sigma": 1} if kind is Gaussian else {"epsilon": 1}))
    g = mechanism.granularity
    lows = [float((k + F(1, 2)) * g) for k in range(400)]
    lows = [nextafter(x, -1) if F(x) >= (k + F(1, 2)) * g else x for k, x in enumerate(lows)]
    pairs = [(x, y) for x in lows if F(y := x + sensitivity) - F(x) <= F(sensitivity)]
    assert len(pairs) > 50
    steps = Grid(g).snap(np.array(pairs))
    covered = {Laplace: lambda: step_scale(mechanism), Staircase: lambda: mechanism.width, Gaussian: lambda: mechanism.moved_steps}  # fmt: skip
    assert int((steps[:, 1] - steps[:, 0]).max()) <= covered[kind]()


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=4), st.sampled_from(["1", "0.1", "1/3"]))
@settings(max_examples=50)
def test_gaussian_states_a_loss_that_covers_every_shift_it_can_make(pairs, granularity):
    x, y = zip(*pairs, strict=True)
    square = sum((F(a) - F(b)) ** 2 for a, b in pairs)
    assume(square > 0)
    sensitivity = F(ceil(sqrt(square) * 2**20) + 1, 2**20)  # an ℓ2 bound of the pair, rounded up
    sigma = max(sensitivity, F(granularity))
    mechanism = Gaussian(sigma=sigma, sensitivity=sensitivity, granularity=granularity, dimension=len(x))
    shifts, steps = moved(mechanism, x, y), mechanism.sigma / mechanism.granularity
    assert isinstance(mechanism.loss, GaussianNoise)
    assert sum(s * s for s in shifts) / steps**2 <= 1 / mechanism.loss.multiplier**2


@pytest.mark.parametrize("dimension", [1, 2, 3, 10])
def test_gaussian_for_rho_never_costs_more_than_asked_and_wastes_nothing(dimension):
    for k in range(1, 300):
        asked = F(k, 997)
        mechanism = Gaussian.for_rho(rho=asked, sensitivity="1.5", granularity="0.01", dimension=dimension)
        rho = 1 / (2 * mechanism.loss.multiplier**2)
        assert rho <= asked
        assert rho > asked * (1 - F(1, 2**20))


@pytest.mark.parametrize("granularity", ["1", "1/5", "1/64"])
@pytest.mark.parametrize("epsilon", [F(1, 4), F(1), F(6)], ids=str)
def test_staircase_has_the_stated_epsilon(epsilon, granularity):
    mechanism = Staircase(epsilon=epsilon, sensitivity=1, granularity=granularity)
    k, p = staircase_pmf(mechanism, 4 * mechanism.width)
    logs = np.log(p)
    gaps = [np.abs(logs[shift:] - logs[:-shift]).max() for shift in range(1, mechanism.width + 1)]
    assert max(gaps) == pytest.approx(float(epsilon), abs=1e-9)
    assert mechanism.loss == Pure(epsilon)


@given(numbers, numbers, st.sampled_from(["1", "0.1", "1/3"]))
@settings(max_examples=50)
def test_staircase_is_as_wide_as_snapping_can_move_a_value(x, y, granularity):
    assume(x != y)
    mechanism = Staircase(epsilon=1, sensitivity=abs(F(x) - F(y)), granularity=granularity)
    assert moved(mechanism, [x], [y])[0] <= mechanism.width


# --- the noise against closed forms ----------------------------------------------------------------------------


@given(epsilons, st.integers(1, 5), st.integers(-50, 50))
@settings(max_examples=50)
def test_geometric_probability_is_the_closed_form(epsilon, sensitivity, k):
    with mpmath.workdps(40):
        q = mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator / sensitivity)
        expected = (1 - q) / (1 + q) * q ** abs(k)
        assert Geometric(epsilon=epsilon, sensitivity=sensitivity).probability(k) == pytest.approx(
            float(expected), rel=1e-12, abs=1e-300
        )


@pytest.mark.parametrize("epsilon", ["0.3", "1", "4"])
def test_variances_are_those_of_the_probabilities(epsilon):
    k = np.arange(-600, 601)
    geometric = Geometric(epsilon=epsilon, sensitivity=2)
    p = np.array([geometric.probability(int(i)) for i in k])
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert geometric.variance == pytest.approx((p * k**2).sum(), rel=1e-9)
    laplace = Laplace(epsilon=epsilon, sensitivity=2, granularity="1/4")
    p = np.array([laplace.probability(int(i)) for i in k])
    assert laplace.variance == pytest.approx((p * k**2).sum() / 16, rel=1e-6)
    stairs = Staircase(epsilon=epsilon, sensitivity=2, granularity="1/4")
    reach, p = staircase_pmf(stairs, 8 * (3 + ceil(60 / float(F(epsilon)))))
    assert stairs.variance == pytest.approx((p * reach.astype(float) ** 2).sum() / 16, rel=1e-9)


@cache
def rounded_gaussian_pmf(sigma: float, reach: int) -> list[float]:
    """P(K = k) for k from 0 to reach, by mpmath."""
    ends = [mpmath.ncdf((k - mpmath.mpf(1) / 2) / sigma) for k in range(reach + 2)]
    return [float(b - a) for a, b in pairwise(ends)]


@pytest.mark.parametrize("sigma", ["0.125", "0.2", "1", "7.5", "99.9", "100.1", "500"])
@pytest.mark.parametrize("kind", [Gaussian, RoundedGaussian])
def test_gaussian_probability_and_variance_are_those_of_a_rounded_gaussian(sigma, kind):
    settings = {"sensitivity": 1, "granularity": 1} if kind is Gaussian else {"squared_sensitivity": 1}
    mechanism, s = kind(sigma=sigma, **settings), float(F(sigma))
    reach = ceil(12 * s) + 3
    p = rounded_gaussian_pmf(s, reach)
    got = [mechanism.probability(k) for k in range(reach + 1)]
    assert got == pytest.approx(p, rel=1e-9, abs=1e-14)
    assert [mechanism.probability(-k) for k in range(5)] == got[:5]
    assert 2 * sum(got) - got[0] == pytest.approx(1, abs=1e-12)
    assert mechanism.variance == pytest.approx(2 * sum(k * k * q for k, q in enumerate(got)), rel=1e-9)


@pytest.mark.parametrize("epsilon", [F(1), F(2), F(4), F(8), F(12)], ids=str)
def test_staircase_beats_laplace_and_reaches_the_published_optimum(epsilon):
    """E|noise| = Δ·e^(ε/2)/(e^ε − 1) for the optimum (Geng, Viswanath 2014, Theorem 7 at γ*), Δ/ε for Laplace."""
    mechanism = Staircase(epsilon=epsilon, sensitivity=1, granularity="1/4096")
    k, p = staircase_pmf(mechanism, mechanism.width * (3 + ceil(50 / float(epsilon))))
    mean = (np.abs(k) * p).sum() / mechanism.width
    optimum = 1 / (2 * sinh(float(epsilon) / 2))
    assert mean == pytest.approx(optimum, rel=0.01)
    assert mean < 1 / float(epsilon)
    for other in {max(1, mechanism.first // 2), min(mechanism.width, 2 * mechanism.first + 1)}:
        stair = (np.abs(k) + mechanism.width - other) // mechanism.width
        weights = np.exp(-float(epsilon) * stair)
        assert (np.abs(k) * weights).sum() / weights.sum() > (np.abs(k) * p).sum()


# --- intervals: summed exactly, honest and not wasteful -----------------------------------------------------------


def laplace_miss(scale: Fraction, width: int) -> mpmath.mpf:
    """P(|K| > width) = 2q^(width+1)/(1+q)."""
    q = mpmath.exp(-1 / (mpmath.mpf(scale.numerator) / scale.denominator))
    return 2 * q ** (width + 1) / (1 + q)


@given(epsilons, st.integers(1, 5), confidences)
def test_geometric_interval_covers_and_one_less_does_not(epsilon, sensitivity, confidence):
    mechanism = Geometric(epsilon=epsilon, sensitivity=sensitivity)
    width = mechanism.interval(confidence)
    with mpmath.workdps(60):
        failure_probability = 1 - mpmath.mpf(confidence.numerator) / confidence.denominator
        assert laplace_miss(mechanism.scale, width) <= failure_probability
        assert width == 0 or laplace_miss(mechanism.scale, width - 1) > failure_probability


@given(epsilons, confidences, st.sampled_from(["1", "1/10", "7"]))
def test_laplace_interval_covers_noise_and_snapping_and_not_a_step_more(epsilon, confidence, granularity):
    mechanism = Laplace(epsilon=epsilon, sensitivity=3, granularity=granularity)
    inside = F(mechanism.interval(confidence)) / mechanism.granularity - F(1, 2)  # snapping may take half a step
    with mpmath.workdps(60):
        failure_probability = 1 - mpmath.mpf(confidence.numerator) / confidence.denominator
        width = int(inside + F(1, 1000))
        assert inside >= width
        assert laplace_miss(step_scale(mechanism), width) <= failure_probability
        assert width == 0 or laplace_miss(step_scale(mechanism), width - 1) > failure_probability


@pytest.mark.parametrize("sigma", ["0.125", "0.5", "1", "3.3", "40", "1000"])
@pytest.mark.parametrize("confidence", CONFIDENCES)
def test_gaussian_interval_covers_and_one_step_less_does_not(sigma, confidence):
    mechanism = Gaussian(sigma=sigma, sensitivity=1, granularity=1)
    s, failure_probability = mpmath.mpf(sigma), 1 - mpmath.mpf(confidence)
    width = int(mechanism.interval(confidence))  # half a step is for snapping
    assert mechanism.interval(confidence) == width + 0.5
    assert RoundedGaussian(sigma=sigma, squared_sensitivity=1).interval(confidence) == width
    assert mpmath.erfc((width + mpmath.mpf("0.5")) / s / mpmath.sqrt(2)) <= failure_probability * (
        1 + 1e-9
    )  # P(|K| > width)
    assert width == 0 or mpmath.erfc((width - mpmath.mpf("0.5")) / s / mpmath.sqrt(2)) > failure_probability


@pytest.mark.parametrize("epsilon", ["0.1", "1", "4", "30", "800"])
@pytest.mark.parametrize("granularity", ["1", "1/2", "1/100"])
def test_staircase_interval_covers_and_one_step_less_does_not(epsilon, granularity):
    mechanism = Staircase(epsilon=epsilon, sensitivity=1, granularity=granularity)
    k, p = staircase_pmf(mechanism, mechanism.width * (3 + ceil(60 / float(F(epsilon)))))
    folded = np.bincount(np.abs(k), weights=p)
    beyond = np.append(np.cumsum(folded[::-1])[::-1][1:], 0)
    for confidence in CONFIDENCES:
        failure_probability = float(1 - F(confidence))
        steps = F(mechanism.interval(confidence)) / mechanism.granularity - F(1, 2)
        width = int(steps + F(1, 1000))
        assert steps >= width
        assert beyond[min(width, len(beyond) - 1)] <= failure_probability
        assert width == 0 or beyond[width - 1] > failure_probability * (1 - 1e-6)


@pytest.mark.parametrize("value", [0.4999999, 0.5, 2.5, -0.5, 17.25])
def test_intervals_hold_for_each_number_also_off_the_grid(value):
    """Released − value, not only the noise: how often a 90 % interval misses among 20,000 numbers."""
    entropy, count = DeterministicEntropy(7), 20_000
    for mechanism in (
        Laplace(epsilon=F(count, 10), sensitivity=1, granularity=1, dimension=count),
        Gaussian(sigma=9, sensitivity=1, granularity=1, dimension=count),
    ):
        far = np.abs(mechanism.release(np.full(count, value), entropy=entropy) - value)
        allowed = 5 * sqrt(0.1 * 0.9 / count)  # 5 deviations: 3e-7
        assert (far > mechanism.interval("0.9")).mean() <= 0.1 + allowed
        assert (far > mechanism.interval("0.9") / 2).mean() > 0.2 + allowed  # power: half as wide would be noticed


def test_a_joint_interval_is_asked_for_by_the_union_bound():
    """The failure_probability divided among the numbers of a release holds all of them; undivided it does not."""
    entropy, runs, count = DeterministicEntropy(8), 1000, 20
    mechanism = Gaussian(sigma=3, sensitivity=1, granularity=1, dimension=count)
    released = np.array([mechanism.release(np.zeros(count), entropy=entropy) for _ in range(runs)])
    worst = np.abs(released).max(axis=1)
    assert (worst > mechanism.interval(1 - F(1, 10) / count)).mean() <= 0.1 + 5 * sqrt(0.1 * 0.9 / runs)
    assert (worst > mechanism.interval("0.9")).mean() > 0.5


# --- what is released ------------------------------------------------------------------------------------------

REAL = [
    Laplace(epsilon=1, sensitivity=1),
    Gaussian(sigma=2, sensitivity=1),
    Staircase(epsilon=1, sensitivity=1),
]


@pytest.mark.parametrize("mechanism", REAL, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("value", [3.0, 3, 0.1 + 0.2, np.float64(-2.5), np.float32(0.1), np.int64(7), 1e-300, -0.0])
def test_a_number_gives_a_float_on_the_grid(mechanism, value):
    released = mechanism.release(value, entropy=DeterministicEntropy(1))
    assert type(released) is float
    assert F(released) % mechanism.granularity == 0


@pytest.mark.parametrize("mechanism", REAL, ids=lambda m: type(m).__name__)
def test_no_event_is_impossible_beside_a_neighbor(mechanism):
    """Float noise lets low bits of the value through (Mironov 2012): 0.3 and 0.1 + 0.2 could be told apart."""
    low_bits = [0.3, 0.1 + 0.2, 0.3 + 2**-40, 1.3, 1 / 3]
    for value in low_bits:
        for seed in range(40):
            released = F(mechanism.release(value, entropy=DeterministicEntropy(seed)))
            assert released % mechanism.granularity == 0
    same = {mechanism.release(value, entropy=DeterministicEntropy(5)) for value in low_bits[:3]}
    assert len(same) == 1  # a function of the snapped value and the noise alone


def test_geometric_gives_ints_for_ints_and_int64_for_arrays():
    mechanism = Geometric(epsilon=1, sensitivity=1)
    assert type(mechanism.release(5)) is int
    assert type(mechanism.release(np.int32(5))) is int
    released = mechanism.release(np.array([[1, 2], [3, 4]], np.uint8))
    assert released.dtype == np.int64
    assert released.shape == (2, 2)
    assert mechanism.release(np.array([], np.int64)).shape == (0,)


def test_the_same_stream_gives_the_same_noise_whatever_the_value():
    for mechanism, low, high in [
        (Geometric(epsilon=1, sensitivity=1), 10, 1010),
        (Laplace(epsilon=1, sensitivity=1, granularity=1), 10.0, 1010.0),
        (Gaussian(sigma=3, sensitivity=1, granularity=1), 10.0, 1010.0),
        (Staircase(epsilon=1, sensitivity=1, granularity=1), 10.0, 1010.0),
    ]:
        for seed in range(5):
            a, b = (mechanism.release(v, entropy=DeterministicEntropy(seed)) for v in (low, high))
            assert b - a == 1000


def test_values_and_noise_beyond_64_bits_are_held_not_wrapped():
    huge = Geometric(epsilon=F(1, 2**50), sensitivity=1)
    top = [huge.release(2**62 - 1, entropy=DeterministicEntropy(seed)) for seed in range(20)]
    assert all(-(2**63) <= r < 2**63 for r in top)
    laplace = Laplace(epsilon=1, sensitivity=1, granularity=1)
    assert laplace.release([1e300], entropy=DeterministicEntropy(1))[0] == pytest.approx(2.0**62, rel=1e-9)
    assert laplace.release([-1e300], entropy=DeterministicEntropy(1))[0] == pytest.approx(-(2.0**62), rel=1e-9)


def test_a_decimal_grid_releases_the_decimals_that_people_write():
    mechanism = Laplace(epsilon=100, sensitivity="0.1", granularity="0.1")
    released = {mechanism.release([0.3], entropy=DeterministicEntropy(seed))[0] for seed in range(5)}
    assert released == {0.3}


def test_for_guarantee_meets_the_target_and_needs_less_than_the_classical_formula():
    mechanism = Gaussian.for_guarantee(epsilon=1, delta="1e-6", sensitivity=2, granularity="1/16")
    classical = 2 * sqrt(2 * log(1.25 / 1e-6))
    sigma, shift = float(mechanism.sigma) * 16, 32
    k = np.arange(-60_000, 60_001)
    p = np.exp(-(k**2) / (2 * sigma**2))
    p /= p.sum()
    delta = np.maximum(p[shift:] - np.exp(1) * p[:-shift], 0).sum()
    delta = max(delta, np.maximum(p[:-shift] - np.exp(1) * p[shift:], 0).sum())
    assert 0.99e-6 <= delta <= 1e-6 * (1 + 1e-6)
    assert float(mechanism.sigma) < 0.85 * classical


SIZES = [1, 2, 100, 1000, 40_000, 10**6]


@pytest.mark.parametrize("dimension", SIZES)
def test_the_default_grid_costs_a_vector_nothing_to_speak_of(dimension):
    """With 1024 steps to one sensitivity, 40,000 numbers had 40 times the noise, and a Gaussian of a million twice."""
    laplace = Laplace(epsilon="0.7", sensitivity=3, dimension=dimension)
    assert laplace.granularity == F(3, 1024 * dimension)
    assert 1 <= laplace.scale / (3 / F("0.7")) <= 1 + F(1, 1000)
    analytic = 3 * gaussian_multiplier(epsilon=1, delta="1e-6", method="analytic")
    gaussian = Gaussian.for_guarantee(epsilon=1, delta="1e-6", sensitivity=3, dimension=dimension)
    assert 1 - F(1, 10**6) <= gaussian.sigma / analytic <= 1 + F(1, 1000)
    assert gaussian.variance == pytest.approx(float(gaussian.sigma) ** 2, rel=1e-6)


def test_a_gaussian_composes_as_the_continuous_one_does_in_any_dimension():
    """1000 releases of 1000 numbers at σ = 20Δ: zCDP would say 8.85, the exact profile 8.31."""
    each = Gaussian(sigma=20, sensitivity=1, granularity="1e-9", dimension=1000)
    spent = guarantee(Repeated(each.loss, 1000), delta="1e-6").epsilon
    exact = guarantee(Repeated(GaussianNoise(20), 1000), delta="1e-6").epsilon
    assert float(exact) <= float(spent) <= 1.0001 * float(exact)
    assert float(spent) < 8.4


@pytest.mark.parametrize("dimension", [40_000, 10**6])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_large_vectors_fit_64_bits(kind, dimension):
    noise = {"epsilon": "0.001"} if kind is Laplace else {"sigma": 1000}
    mechanism = kind(sensitivity=1, dimension=dimension, **noise)
    released = mechanism.release(np.linspace(-1e4, 1e4, dimension), entropy=DeterministicEntropy(1))
    far = np.abs(released - np.linspace(-1e4, 1e4, dimension))
    assert far.max() < mechanism.interval(1 - F(1, 10**9) / dimension)
    assert far.mean() > mechanism.interval("0.5") / 2


@pytest.mark.parametrize("dimension", [2, 10, 100])
@pytest.mark.parametrize("kind", [Laplace, Gaussian])
def test_no_neighbors_are_found_that_snap_further_apart_than_stated(kind, dimension):
    """A search for the worst pair: every coordinate crosses a half by a hair, and some move by t whole steps more.

    Every pair is covered, and the worst comes near what is stated, so that the search has power.
    """
    norm, hair = (1, 1e-9) if kind is Laplace else (2, 1e-9)
    for steps in (1, 4, 30):
        noise = {"epsilon": 1} if kind is Laplace else {"sigma": steps}
        mechanism = kind(sensitivity=steps, granularity=1, dimension=dimension, **noise)
        covered = float(mechanism.scale if kind is Laplace else steps / mechanism.loss.multiplier)
        worst = 0.0
        for t in range(steps):
            many = min(dimension, int((steps**norm - dimension * 1e-7) / (t + 4 * hair) ** norm))
            for moving in {0, 1, many // 2, many}:
                moves = np.full(dimension, 4 * hair)
                moves[:moving] += t
                low = np.full(dimension, 0.5 - hair)
                assert (np.abs(low + moves - low) ** norm).sum() ** (1 / norm) <= steps  # they are neighbors
                shifts = np.array(moved(mechanism, low, low + moves), float)
                assert shifts.min() >= 1
                worst = max(worst, float((shifts**norm).sum() ** (1 / norm)))
        assert worst <= covered
        assert worst >= 0.85 * covered - 1


# --- what is refused -------------------------------------------------------------------------------------------

NOT_POSITIVE = [0, -1, float("nan"), float("inf"), "0", "-1/2", "1/0", "x", "", None, True, [1], 1j, object()]
RELEASABLE = [
    (Laplace, {"epsilon": 1, "sensitivity": 1}),
    (Gaussian, {"sigma": 1, "sensitivity": 1}),
    (Staircase, {"epsilon": 1, "sensitivity": 1}),
    (Geometric, {"epsilon": 1, "sensitivity": 1}),
]


@pytest.mark.parametrize("bad", NOT_POSITIVE, ids=stable)
@pytest.mark.parametrize(
    ("kind", "good", "name"),
    [(kind, good, name) for kind, good in RELEASABLE for name in good]
    + [(kind, good, "granularity") for kind, good in RELEASABLE[:3]],
)
def test_bad_parameters_are_refused_by_name(kind, good, name, bad):
    if name == "granularity" and bad is None:
        return
    with pytest.raises(InvalidParameter, match=name):
        kind(**{**good, name: bad})


@pytest.mark.parametrize("dimension", [0, -1, 1.5, "2", None, True, float("nan")], ids=stable)
@pytest.mark.parametrize(("kind", "good"), RELEASABLE[:2])
def test_bad_dimensions_are_refused(kind, good, dimension):
    with pytest.raises(InvalidParameter, match="dimension"):
        kind(**good, dimension=dimension)


@pytest.mark.parametrize("most", [-1, 1.5, None, True, "3", 10**7], ids=stable)
def test_bad_sizes_of_the_geometric_channel_are_refused(most):
    with pytest.raises(InvalidParameter, match="most"):
        Geometric(epsilon=1, sensitivity=1).channel(most)


@pytest.mark.parametrize("sensitivity", [0.5, 1.0, "1", F(1, 2)], ids=stable)
def test_geometric_takes_only_whole_sensitivities(sensitivity):
    with pytest.raises(InvalidParameter, match="sensitivity"):
        Geometric(epsilon=1, sensitivity=sensitivity)


@pytest.mark.parametrize(("kind", "good"), RELEASABLE[:3])
def test_a_grid_too_fine_for_64_bits_is_refused_at_once(kind, good):
    with pytest.raises(InvalidParameter, match="granularity"):
        kind(**good, granularity="1e-13")


@pytest.mark.parametrize(("kind", "good"), RELEASABLE)
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), [float("nan")], None, "3", True, [True], 1j, [[1], [1, 2]], object(), {}], ids=stable
)  # fmt: skip
def test_bad_values_are_refused(kind, good, value):
    with pytest.raises(InvalidData):
        kind(**good).release(value)


@pytest.mark.parametrize(("kind", "good"), RELEASABLE[:3])
@pytest.mark.parametrize("value", [[1.0, 2.0], [], [[1.0], [2.0]]], ids=stable)
def test_a_vector_where_a_number_was_declared_is_refused(kind, good, value):
    with pytest.raises(InvalidData):
        kind(**good).release(value)


@pytest.mark.parametrize("value", [1.0, [1.5], 2**62, -(2**62), [2**80]], ids=stable)
def test_geometric_refuses_floats_and_what_does_not_fit(value):
    with pytest.raises(InvalidData):
        Geometric(epsilon=1, sensitivity=1).release(value)


@pytest.mark.parametrize(("kind", "good"), RELEASABLE)
def test_absurd_parameters_end_in_one_clear_exception(kind, good):
    """ε = 1e-30 needs noise beyond 64 bits; it is refused, and the exception is ours."""
    small = {name: ("1e-30" if name == "epsilon" else "1e30") if name in ("epsilon", "sigma") else v for name, v in good.items()}  # fmt: skip
    with pytest.raises(InvalidParameter):
        kind(**small).release([1])


@pytest.mark.parametrize("sensitivity", ["1e-300", "1e-290", "1e-287", "1e287", "1e292", "1e300"])
@pytest.mark.parametrize("kind", [Laplace, Staircase, Gaussian])
def test_what_can_be_made_can_be_released(kind, sensitivity):
    made = []
    with suppress(InvalidParameter):
        settings = {"sigma": sensitivity} if kind is Gaussian else {"epsilon": 1}
        made.append(kind(sensitivity=sensitivity, **settings))
    assert all(np.isfinite(mechanism.release(1.0)) for mechanism in made)


def test_a_loss_can_be_stated_for_any_sigma_that_is_accepted():
    made = []
    with suppress(InvalidParameter):
        made.append(Gaussian(sigma="0." + "123456789" * 70, sensitivity=1, dimension=2))
    assert len(made) == 1
    assert isinstance(made[0].loss, GaussianNoise)


@pytest.mark.parametrize("kind", [Gaussian, RoundedGaussian, GaussianThreshold])
def test_a_sigma_far_below_one_step_is_refused_when_the_mechanism_is_made(kind):
    rest = {
        Gaussian: {"sensitivity": 1, "granularity": 1},
        RoundedGaussian: {"squared_sensitivity": 1},
        GaussianThreshold: {"delta": "1e-6", "keys": 1},
    }[kind]
    assert kind(sigma="1/8", **rest).sigma == F(1, 8)
    with pytest.raises(InvalidParameter, match="sigma"):
        kind(sigma="0.1249", **rest)


@pytest.mark.parametrize(("kind", "good"), RELEASABLE)
@pytest.mark.parametrize("confidence", ["0." + "9" * 400, "1e-400"])
def test_extreme_confidences_give_a_width_or_a_clear_refusal(kind, good, confidence):
    try:
        assert kind(**good).interval(confidence) >= 0
    except InvalidParameter as error:
        assert error.name == "confidence"


@pytest.mark.parametrize("epsilon", ["1e-12", "1e-6", 1, 700, 1e4, "1e300"])
def test_looking_at_a_mechanism_works_for_every_epsilon(epsilon):
    for mechanism in (Geometric(epsilon=epsilon, sensitivity=1), Laplace(epsilon=epsilon, sensitivity=1)):
        assert mechanism.variance >= 0
        assert 0 <= mechanism.probability(1) <= mechanism.probability(0) <= 1
        assert mechanism.interval("0.95") >= 0
    if F(str(epsilon)) >= F(1, 10**3):
        assert Staircase(epsilon=epsilon, sensitivity=1, granularity=1).variance >= 0


def test_the_staircase_variance_needs_no_array_as_long_as_the_noise():
    mechanism = Staircase(epsilon="0.01", sensitivity=1)
    tracemalloc.start()
    try:
        assert mechanism.variance == pytest.approx(2 / 0.01**2, rel=0.01)  # Laplace's, for small ε
        assert tracemalloc.get_traced_memory()[1] < 20e6
    finally:
        tracemalloc.stop()


def test_the_epsilon_of_every_small_neighborhood_by_brute_force():
    """All pairs of vectors in {0, 1/2, 1}² (halves sit between grid points), ℓ1 distance at most Δ."""
    values = (0.0, 0.5, 1.0)
    for sensitivity in ("1/2", "1", "3/2"):
        mechanism = Laplace(epsilon=1, sensitivity=sensitivity, granularity=1, dimension=2)
        worst = F(0)
        for x, y in product(product(values, repeat=2), repeat=2):
            if sum(abs(F(a) - F(b)) for a, b in zip(x, y, strict=True)) <= F(sensitivity):
                worst = max(worst, sum(moved(mechanism, x, y)) / step_scale(mechanism))
        assert F(1, 2) <= worst <= 1


# Whole numbers with Gaussian noise


@pytest.mark.parametrize("size", [1, 2, 3, 50, 10**9])
@pytest.mark.parametrize("rho", ["0.5", "1e-3", "7/3", 40])
def test_whole_gaussian_spends_rho_and_hardly_less(rho, size):
    mechanism = DiscreteGaussian.for_rho(rho=rho, squared_sensitivity=size)
    assert F(rho) * (1 - F(1, 10**9)) <= mechanism.loss.rho <= F(rho)
    assert F(size) / (2 * mechanism.sigma**2) <= mechanism.loss.rho


@pytest.mark.parametrize("sigma", [F(1, 2), F(3), F(17, 3)])
@pytest.mark.parametrize("confidence", ["0.5", "0.95", "0.999"])
def test_whole_gaussian_interval_covers(sigma, confidence):
    width = DiscreteGaussian(sigma=sigma, squared_sensitivity=1).interval(confidence)
    reach = np.arange(-400, 401)
    weights = np.exp(-(reach**2) / (2 * float(sigma) ** 2))
    inside = weights[np.abs(reach) <= width].sum() / weights.sum()
    assert inside >= float(confidence) - 1e-12
    narrower = weights[np.abs(reach) <= 0.5 * width].sum() / weights.sum()
    assert narrower < inside


def test_whole_gaussian_releases_whole_numbers_held_at_the_ends():
    mechanism = DiscreteGaussian(sigma=2, squared_sensitivity=1)
    assert isinstance(mechanism.release(5), int)
    assert mechanism.release(np.arange(6).reshape(2, 3)).shape == (2, 3)
    assert mechanism.variance == 4
    for wrong in (0, -1, 2.5, True, "x"):
        with pytest.raises(InvalidParameter):
            DiscreteGaussian(sigma=1, squared_sensitivity=wrong)
