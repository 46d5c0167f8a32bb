"""B5: the Laplace mechanism f(x) + Lap(Δ/ε), scalar and k-dimensional; ε = 1, Δ = 10, true answers 10 and 20."""

from fractions import Fraction
from math import exp, log, sqrt

import numpy as np
import pytest
from tests.statistical.power import Stream

from discreet.mechanisms import Laplace

pytestmark = pytest.mark.claim("B5")

F = Fraction
MECHANISM = Laplace(epsilon=1, sensitivity=10, granularity="1/64")
G = MECHANISM.granularity


def steps(y: int) -> int:
    exact = y / G
    assert exact.denominator == 1
    return int(exact)


def log_ratio(z: int) -> float:
    """ln P(z|10)/P(z|20), z in steps."""
    return log(MECHANISM.probability(z - steps(10)) / MECHANISM.probability(z - steps(20)))


def test_the_ratio_is_exactly_e_to_epsilon_outside_and_less_inside():
    scale = MECHANISM.scale / G
    for z in range(-20, 51):
        at = steps(z)
        exact = F(abs(at - steps(20)) - abs(at - steps(10))) / scale  # the exponent, in rationals
        assert log_ratio(at) == pytest.approx(float(exact), abs=1e-9)
        if z <= 10:
            assert exact == 1
        elif z >= 20:
            assert exact == -1
        else:
            assert -1 < exact < 1
    assert log_ratio(steps(15)) == pytest.approx(0, abs=1e-9)


def test_the_density_is_the_textbook_one():
    """P(noise = k)/g against (ε/2Δ)·exp(−ε|z − y|/Δ)."""
    for z in (-30, -10, -1, 0, 1, 5, 10, 30):
        density = MECHANISM.probability(int(z / G)) / float(G)
        assert density == pytest.approx(1 / 20 * exp(-abs(z) / 10), rel=1e-6)
    fine = Laplace(epsilon=1, sensitivity=10)  # without a granularity, 1024 steps to one Δ
    assert fine.granularity == F(10, 1024)
    assert fine.probability(1024) / float(fine.granularity) == pytest.approx(1 / 20 * exp(-1), rel=1e-6)


def test_the_variance_is_twice_the_square_of_the_scale():
    assert MECHANISM.variance == pytest.approx(2 * 10**2, rel=1e-5)
    stream, n = Stream(), 40_000
    vector = Laplace(epsilon=1, sensitivity=10, dimension=n)
    noise = np.asarray(vector.release(np.full(n, 20.0), entropy=stream)) - 20
    claimed = 2 * 10**2  # 2(Δ/ε)², whatever the mechanism says of itself
    assert vector.variance == pytest.approx(claimed, rel=0.01)
    deviation = sqrt(5 / n)  # of the mean square, relatively: E[X⁴] = 6·variance²
    assert (noise**2).mean() == pytest.approx(claimed, rel=6 * deviation + 0.01), stream


@pytest.mark.parametrize("k", [1, 100, 1000, 40_000, 10**6])
def test_the_scale_is_that_of_the_claim_for_any_number_of_numbers(k):
    assert 1 <= Laplace(epsilon=1, sensitivity=10, dimension=k).scale / 10 <= F(1001, 1000)


def test_one_number_measured():
    stream = Stream()
    noise = np.array([MECHANISM.release(20, entropy=stream) for _ in range(4000)]) - 20
    assert (noise**2).mean() == pytest.approx(200, rel=6 * sqrt(5 / 4000)), stream
    assert abs(noise.mean()) < 6 * sqrt(200 / 4000), stream


@pytest.mark.parametrize("k", [1, 2, 5])
def test_k_numbers_share_one_sensitivity(k):
    """If one person moves all k numbers by 10/k each, the likelihood ratio of the vector is e^ε at most."""
    mechanism = Laplace(epsilon=1, sensitivity=10, granularity="1/8", dimension=k)
    moved = F(10, k) / mechanism.granularity
    together = k * -(-moved.numerator // moved.denominator)  # each coordinate snaps to whole steps
    assert together / (mechanism.scale / mechanism.granularity) <= 1
    assert together / (mechanism.scale / mechanism.granularity) > F(9, 10)
