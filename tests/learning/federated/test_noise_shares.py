"""Noise in shares: exact distributions of sums, neighbors one by one, and the bounds that are stated."""

from fractions import Fraction
from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statistical.power import MANY, WRONG, Stream, assert_follows, assert_rejected

from discreet.errors import InvalidParameter
from discreet.learning.federated import GaussianShare, PolyaShare
from discreet.learning.federated.noise_shares import WRAP, _tau, polya
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import Concentrated, Pure

SMALL = [(Fraction(1, 2), 2), (Fraction(1, 2), 5), (Fraction(7, 10), 3), (Fraction(1), 2), (Fraction(1), 6)]


def gaussian(sigma: float, reach: int):
    weights = np.exp(-(np.arange(-reach, reach + 1.0) ** 2) / (2 * sigma**2))
    return weights / weights.sum()


def summed(part, count):
    """The distribution of a sum of independent variables, each of distribution `part` around its middle."""
    total = part
    for _ in range(count - 1):
        total = np.convolve(total, part)
    return total


def renyi(p, q, alpha):
    """Over outcomes whose probability floats can hold with all digits; the others would add a little."""
    both = (p > 1e-100) & (q > 1e-100)
    terms = alpha * np.log(p[both]) + (1 - alpha) * np.log(q[both])
    return log(float(np.exp(terms).sum())) / (alpha - 1)


@pytest.mark.parametrize(("sigma", "honest"), SMALL)
@pytest.mark.parametrize("shift", [1, 2, 3])
def test_the_sum_is_as_private_as_stated(sigma, honest, shift):
    """Every neighbor at distance `shift` in one dimension, at many orders, against the exact distribution."""
    f = summed(gaussian(float(sigma), 60 // honest), honest)
    rho = float(GaussianShare(sigma=sigma, honest=honest, sensitivity=shift, dimension=1).loss.rho)
    for alpha in (1.001, 1.1, 1.5, 2, 3, 5):
        there, back = renyi(f[:-shift], f[shift:], alpha), renyi(f[shift:], f[:-shift], alpha)
        assert max(there, back) <= rho * alpha * (1 + 1e-9)


def test_the_correction_is_needed():
    """Sums of narrow discrete Gaussians are *not* as private as one discrete Gaussian of the summed variance."""
    f = summed(gaussian(0.3, 12), 4)
    assert renyi(f[:-1], f[1:], 1.001) > 1.001 / (2 * 4 * 0.09)


@pytest.mark.parametrize(("sigma", "honest"), SMALL)
def test_the_distance_to_a_discrete_gaussian_is_bounded_tightly(sigma, honest):
    """ln f/P stays in an interval of length τ; for two shares the stated τ is at most four times as long as it is.

    More shares smooth the sum further, which the induction does not use: there τ is looser.
    """
    f = summed(gaussian(float(sigma), 60 // honest), honest)
    middle = f.size // 2
    width = int(6 * float(sigma) * sqrt(honest))
    ratio = np.log(f[middle - width : middle + width + 1] / gaussian(float(sigma) * sqrt(honest), width))
    observed = float(ratio.max() - ratio.min())
    assert observed <= float(_tau(sigma, honest)) * (1 + 1e-6)
    assert honest > 2 or float(_tau(sigma, honest)) <= 4 * observed


@pytest.mark.parametrize("sigma", [Fraction(1, 2), Fraction(1), Fraction(2), Fraction(5)])
@pytest.mark.parametrize("honest", [2, 10, 1000])
def test_never_worse_than_the_published_bound(sigma, honest):
    """Kairouz, Liu and Steinke state 10·Σ exp(−2π²σ²k/(k + 1))."""
    published = 10 * sum(exp(-2 * pi**2 * float(sigma) ** 2 * k / (k + 1)) for k in range(1, honest))
    listed = 10 * (honest - 1) * exp(-2 * pi**2 * float(sigma) ** 2 * 64 / 65)  # terms taken as equal
    assert float(_tau(sigma, honest)) <= published + (listed if honest > 65 else 0)


def test_one_honest_client_needs_no_correction():
    share = GaussianShare(sigma=3, honest=1, sensitivity=2, dimension=10**6)
    assert share.loss == Concentrated(Fraction(4, 18))


@settings(max_examples=25)
@given(st.fractions(Fraction(1, 100), 20), st.integers(1, 50), st.integers(1, 10**6), st.integers(1, 10**5))
def test_noise_within_a_budget_keeps_it_and_is_the_least(rho, honest, dimension, sensitivity):
    share = GaussianShare.within(rho=rho, honest=honest, sensitivity=sensitivity, dimension=dimension)
    assert share.loss.rho <= rho
    if share.sigma > Fraction(1, 2):
        less = max(Fraction(1, 2), share.sigma * (1 - Fraction(1, 10**7)))
        weaker = GaussianShare(sigma=less, honest=honest, sensitivity=sensitivity, dimension=dimension)
        assert weaker.loss.rho > rho


@given(st.integers(1, 30), st.integers(1, 1000), st.sampled_from(["1/2", 1, 3, 100]))
def test_more_honest_clients_more_privacy(honest, dimension, sigma):
    """More noise is no less private; the stated loss follows once shares are wide enough for their sum to be smooth."""
    one, more = (
        GaussianShare(sigma=sigma, honest=n, sensitivity=1, dimension=dimension).loss.rho for n in (honest, honest + 1)
    )
    assert more < one or sigma == "1/2" or (sigma == 1 and dimension > 1)


@pytest.mark.parametrize("honest", [1, 2, 3, 7])
@pytest.mark.parametrize("scale", [Fraction(1, 2), Fraction(2), Fraction(40)])
def test_polya_shares_add_up_to_discrete_laplace_noise(honest, scale):
    """The product of generating functions, as a convolution of the probabilities that the sampler's table has."""
    thresholds = polya(scale, honest).thresholds.astype(np.float64) / 2**64
    one = np.diff(thresholds, prepend=0.0)
    share = np.convolve(one, one[::-1])
    total = summed(share, honest)
    k = np.arange(total.size) - total.size // 2
    q = exp(-1 / float(scale))
    expected = (1 - q) / (1 + q) * q ** np.abs(k)
    assert np.abs(total - expected).max() < 1e-12


@pytest.mark.parametrize("honest", [2, 5])
def test_the_table_is_the_negative_binomial(honest):
    from scipy.stats import nbinom

    thresholds = polya(Fraction(3), honest).thresholds.astype(np.float64) / 2**64
    k = np.arange(thresholds.size)
    assert np.abs(thresholds - nbinom.cdf(k, 1 / honest, 1 - exp(-1 / 3))).max() < 1e-12


@pytest.mark.parametrize("bits", [3, 5])
def test_neighbors_modulo_a_power_of_two(bits):
    """Sums that wrap around all the time: every outcome's ratio is within e^ε still; in 5 bits it nearly reaches it."""
    epsilon, honest, modulus = Fraction(1, 2), 3, 1 << bits
    share = PolyaShare(epsilon=epsilon, honest=honest, sensitivity=2)
    thresholds = polya(share.scale, honest).thresholds.astype(np.float64) / 2**64
    one = np.diff(thresholds, prepend=0.0)
    total = summed(np.convolve(one, one[::-1]), honest)
    k = np.arange(total.size) - total.size // 2
    wrapped = np.bincount(k % modulus, weights=total, minlength=modulus)
    for shift in (1, 2):
        ratio = np.log(wrapped / np.roll(wrapped, shift))
        assert np.abs(ratio).max() <= float(epsilon) + 1e-9
    assert bits == 3 or np.abs(ratio).max() > 0.9 * float(epsilon)
    assert share.loss == Pure(epsilon)


def test_fewer_honest_clients_than_counted_on_break_the_guarantee():
    """So the number matters: two shares of three are not ε-DP."""
    thresholds = polya(Fraction(2), 3).thresholds.astype(np.float64) / 2**64
    one = np.diff(thresholds, prepend=0.0)
    total = summed(np.convolve(one, one[::-1]), 2)
    middle = total.size // 2
    assert log(total[middle] / total[middle + 1]) > 0.5 * 1.2


def laplace_cdf(scale):
    q = exp(-1 / scale)

    def cdf(x):
        x = np.floor(x)
        return np.where(x < 0, q ** np.maximum(-x, 0) / (1 + q), 1 - q ** (np.maximum(x, 0) + 1) / (1 + q))

    return cdf


def test_drawn_shares_add_up_to_the_stated_noise():
    stream = Stream()
    share = PolyaShare(epsilon="0.1", honest=4, sensitivity=1)
    total = sum(share.draw(MANY, entropy=stream) for _ in range(4))
    assert_follows(total, laplace_cdf(10.0), "four Pólya shares", stream)
    for wrong in (10 * WRONG, 10 / WRONG):
        assert_rejected(total, laplace_cdf(10.0), laplace_cdf(wrong), "four Pólya shares", stream)


def test_drawn_gaussian_shares_add_up_to_the_stated_noise():
    from scipy.special import ndtr

    def cdf(sigma):
        return lambda x: ndtr((np.floor(x) + 0.5) / sigma)  # off by far less than the band for σ = 20

    stream = Stream()
    share = GaussianShare(sigma=10, honest=4, sensitivity=1, dimension=1)
    total = sum(share.draw(MANY, entropy=stream) for _ in range(4))
    assert_follows(total, cdf(20.0), "four Gaussian shares", stream)
    for wrong in (20 * WRONG, 20 / WRONG):
        assert_rejected(total, cdf(20.0), cdf(wrong), "four Gaussian shares", stream)


@pytest.mark.parametrize("clients", [3, 10])
def test_the_reach_covers_the_tail(clients):
    """The exact tail of the sum, by convolution with positive terms, is below WRAP divided by the length."""
    polya_share = PolyaShare(epsilon=1, honest=3, sensitivity=1)
    thresholds = polya(Fraction(1), 3).thresholds.astype(np.float64) / 2**64
    one = np.diff(thresholds, prepend=0.0)
    total = summed(np.convolve(one, one[::-1]), clients)
    reach = polya_share.reach(clients, 1)
    k = np.abs(np.arange(total.size) - total.size // 2)
    assert total[k > reach].sum() <= float(WRAP)
    f = summed(gaussian(2.0, 40), clients)
    k = np.abs(np.arange(f.size) - f.size // 2)
    reach = GaussianShare(sigma=2, honest=3, sensitivity=1, dimension=1).reach(clients, 1)
    assert f[k > reach].sum() <= float(WRAP)
    assert f[k > reach // 2].sum() > float(WRAP)


def test_longer_vectors_reach_further():
    share = GaussianShare(sigma=2, honest=3, sensitivity=1, dimension=10**6)
    assert share.reach(3, 10**6) > share.reach(3, 1)
    assert PolyaShare(epsilon=1, honest=3, sensitivity=1).reach(3, 10**6) > 20


def test_the_same_stream_gives_the_same_share():
    for share in (
        PolyaShare(epsilon=1, honest=3, sensitivity=1),
        GaussianShare(sigma=2, honest=3, sensitivity=1, dimension=9),
    ):
        first, second = (share.draw(9, entropy=DeterministicEntropy(1)) for _ in range(2))
        assert first.tolist() == second.tolist()
        assert first.dtype == np.int64


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (GaussianShare, {"sigma": "0.4", "honest": 1, "sensitivity": 1, "dimension": 1}),
        (GaussianShare, {"sigma": float("nan"), "honest": 1, "sensitivity": 1, "dimension": 1}),
        (GaussianShare, {"sigma": 2**41, "honest": 1, "sensitivity": 1, "dimension": 1}),
        (GaussianShare, {"sigma": 1, "honest": 0, "sensitivity": 1, "dimension": 1}),
        (GaussianShare, {"sigma": 1, "honest": True, "sensitivity": 1, "dimension": 1}),
        (GaussianShare, {"sigma": 1, "honest": 1, "sensitivity": 0, "dimension": 1}),
        (GaussianShare, {"sigma": 1, "honest": 1, "sensitivity": 1, "dimension": 0}),
        (PolyaShare, {"epsilon": 0, "honest": 1, "sensitivity": 1}),
        (PolyaShare, {"epsilon": "0.001", "honest": 1, "sensitivity": 1}),
        (PolyaShare, {"epsilon": 1, "honest": 1.5, "sensitivity": 1}),
        (PolyaShare, {"epsilon": 1, "honest": 1, "sensitivity": "1/2"}),
    ],
)
def test_bad_settings_are_refused(kind, settings):
    with pytest.raises(InvalidParameter):
        kind(**settings)


@pytest.mark.parametrize("rho", [0, -1, "1e-40", float("inf")])
def test_a_budget_that_no_noise_keeps_is_refused(rho):
    with pytest.raises(InvalidParameter):
        GaussianShare.within(rho=rho, honest=3, sensitivity=1, dimension=1)
