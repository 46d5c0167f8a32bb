"""B7: the geometric mechanism is ε-DP; the Gaussian mechanism is not for any ε, but it is (ε,δ)-DP.

How σ is chosen (classical and analytic) is shown in test_b7_calibration.py.
"""

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest
from scipy.special import ndtr

from discreet.mechanisms import Gaussian, Geometric
from discreet.mechanisms.channel import Channel
from discreet.privacy.loss import GaussianNoise, Pure

pytestmark = pytest.mark.claim("B7")

F = Fraction
SIGMA = 4


def gaussian_delta(mechanism: Gaussian, epsilon: float, shift: int) -> float:
    """Σ_z max(0, P(z) − e^ε·P(z − shift)): the least δ between two answers `shift` steps apart."""
    p = np.array([mechanism.probability(k) for k in range(-15 * SIGMA, 15 * SIGMA + 1)])
    return float(np.maximum(p[shift:] - exp(epsilon) * p[:-shift], 0).sum())


def test_the_geometric_ratio_is_epsilon_at_every_output():
    mechanism = Geometric(epsilon="0.5", sensitivity=1)
    for z in range(-200, 200):
        ratio = log(mechanism.probability(z) / mechanism.probability(z - 1))
        assert abs(ratio) == pytest.approx(0.5, abs=1e-9)
    assert mechanism.loss == Pure("0.5")


def test_the_gaussian_ratio_grows_without_end():
    """ln P(z)/P(z − 1) is near (1 − 2z)/2σ²: for every ε there is an output that exceeds it."""
    mechanism = Gaussian(sigma=SIGMA, sensitivity=1, granularity=1)
    for epsilon in (0.1, 1, 3, 5):
        z = -int(epsilon * SIGMA**2) - 1
        assert log(mechanism.probability(z) / mechanism.probability(z - 1)) > epsilon
    assert mechanism.loss == GaussianNoise(SIGMA)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0])
def test_the_gaussian_has_a_delta_for_every_epsilon_and_never_zero(epsilon):
    mechanism = Gaussian(sigma=SIGMA, sensitivity=1, granularity=1)
    delta = gaussian_delta(mechanism, epsilon, 1)
    assert 0 < delta < gaussian_delta(mechanism, epsilon / 2, 1) < 1


def test_a_finite_piece_of_each_tells_the_same_story():
    """As channels on {0 … 8}, outputs clamped to a window: the larger the window, the larger the Gaussian's ε."""

    def channel(mechanism, reach):
        rows = []
        for x in range(9):
            law = np.zeros(2 * reach + 9)
            for k in range(-200, 201):
                law[min(max(x + k + reach, 0), 2 * reach + 8)] += mechanism.probability(k)
            rows.append(law / law.sum())
        return Channel(np.array(rows))

    geometric, gaussian = Geometric(epsilon="0.5", sensitivity=1), Gaussian(sigma=2, sensitivity=1, granularity=1)
    for reach in (5, 10, 20):
        assert channel(geometric, reach).epsilon("line") == pytest.approx(0.5, abs=1e-9)
    found = [channel(gaussian, reach).epsilon("line") for reach in (5, 10, 20)]
    assert found[1] - found[0] > 1
    assert found[2] - found[1] > 2


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-3), (1.0, 1e-5), (0.9, 1e-6)])
def test_the_classical_sigma_suffices_on_the_grid(epsilon, delta):
    sigma = sqrt(2 * log(1.25 / delta)) / epsilon
    mechanism = Gaussian(sigma=sigma, sensitivity=1, granularity="1/4")
    steps = 4 * sigma
    k = np.arange(-int(12 * steps), int(12 * steps) + 1)
    below = ndtr((-np.abs(k) + 0.5) / steps) - ndtr((-np.abs(k) - 0.5) / steps)
    p = below / below.sum()
    assert p[len(k) // 2 + 7] == pytest.approx(mechanism.probability(7), rel=1e-9)
    assert np.maximum(p[4:] - exp(epsilon) * p[:-4], 0).sum() <= delta


def test_geometric_noise_is_whole_and_narrower_than_laplace():
    mechanism = Geometric(epsilon=1, sensitivity=1)
    assert isinstance(mechanism.release(3), int)
    assert mechanism.variance < 2  # 2(Δ/ε)²
    assert mechanism.variance == pytest.approx(1 / (2 * np.sinh(0.5) ** 2))
    assert mechanism.epsilon == F(1)
