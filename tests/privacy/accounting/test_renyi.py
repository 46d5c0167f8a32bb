"""Rényi divergences of atoms, against high precision, and against the maximum over all pairs of the kind."""

import mpmath as mp
import numpy as np
import pytest

from discreet.privacy.accounting import rdp as renyi

ORDERS = [1.01, 1.5, 2.0, 7.2, 50.0, 4096.0]
EPSILONS = [1e-9, 1e-3, 0.1, 1.0, 10.0, 100.0]


def response(epsilon: float, order: float) -> mp.mpf:
    e, a = mp.mpf(epsilon), mp.mpf(order)
    p = mp.e**e / (1 + mp.e**e)
    return mp.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)


def laplace(epsilon: float, order: float) -> mp.mpf:
    e, a = mp.mpf(epsilon), mp.mpf(order)
    return mp.log(a / (2 * a - 1) * mp.e ** ((a - 1) * e) + (a - 1) / (2 * a - 1) * mp.e ** (-a * e)) / (a - 1)


def two_points(epsilon: float, order: float, t: mp.mpf) -> mp.mpf:
    """The pair whose log-ratio is t or t − ε."""
    e, a = mp.mpf(epsilon), mp.mpf(order)
    p = (mp.e**e - mp.e**t) / (mp.e**e - 1)
    return mp.log(p * mp.e ** ((a - 1) * t) + (1 - p) * mp.e ** ((a - 1) * (t - e))) / (a - 1)


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize(("ours", "exact"), [(renyi.response, response), (renyi.laplace, laplace)])
def test_closed_forms(ours: object, exact: object, epsilon: float) -> None:
    values = ours(epsilon, np.array(ORDERS))  # type: ignore[operator]
    with mp.workdps(60):
        for order, value in zip(ORDERS, values, strict=True):
            assert abs(value / exact(epsilon, order) - 1) < 5e-14  # type: ignore[operator]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_bounded_range_is_the_worst_two_point_pair(epsilon: float) -> None:
    values = renyi.bounded_range(epsilon, np.array(ORDERS))
    with mp.workdps(60):
        for order, value in zip(ORDERS, values, strict=True):
            grid = max(two_points(epsilon, order, mp.mpf(epsilon) * k / 400) for k in range(1, 400))
            assert value * (1 + 1e-12) >= grid
            assert value <= order * epsilon**2 / 8 * (1 + 1e-12)
            if order <= 50 and epsilon <= 10:
                assert value <= grid * (1 + 1e-4)


def sampled(rate: float, sigma: float, order: float) -> mp.mpf:
    """E_N₀[(1+y)^α − 1 − αy] by adaptive quadrature in 30 digits."""
    q, s, a = mp.mpf(rate), mp.mpf(sigma), mp.mpf(order)

    def integrand(x: mp.mpf) -> mp.mpf:
        y = q * mp.expm1((2 * x - 1) / (2 * s * s))
        return mp.npdf(x, 0, s) * ((1 + y) ** a - 1 - a * y)

    ends = [-15 * s, -5 * s, 0, a / 2, a, a + 5 * s, a + 15 * s]
    knee = s * s * mp.log((1 - q) / q) + mp.mpf(1) / 2
    return mp.log1p(mp.quad(integrand, sorted({*ends, *([knee] if ends[0] < knee < ends[-1] else [])}))) / (a - 1)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(
    ("rate", "sigma"), [(0.01, 4.0), (0.01, 1.1), (1e-6, 1.0), (0.5, 0.3), (0.9, 20.0), (0.3, 1000.0)]
)
def test_sampled_gaussian_from_above_to_1e_9(rate: float, sigma: float) -> None:
    orders = [1.01, 2.0, 2.5, 9.2]
    values = renyi.sampled_gaussian(rate, sigma, np.array(orders))
    with mp.workdps(30):
        for order, value in zip(orders, values, strict=True):
            assert -1e-15 <= value / sampled(rate, sigma, order) - 1 < 1e-9


def test_sampled_gaussian_with_hardly_any_noise() -> None:
    """σ = 0.05: the two halves of the mixture no longer overlap, so each can be integrated alone."""
    rate, sigma = 0.001, 0.05
    for order in (1.01, 1.5, 2.5):
        with mp.workdps(40):
            base = mp.mpf(1 - rate) ** order
            shifted = mp.mpf(rate) ** order * mp.e ** (order * (order - 1) / (2 * mp.mpf(sigma) ** 2))
            exact = mp.log(base + shifted) / (order - 1)
        (value,) = renyi.sampled_gaussian(rate, sigma, np.array([order]))
        assert value == pytest.approx(float(exact), rel=1e-6)


def test_sampled_gaussian_ends_and_bounds() -> None:
    orders = np.array([1.5, 2.0, 30.0, 512.0])
    assert renyi.sampled_gaussian(0.0, 2.0, orders).tolist() == [0.0] * 4
    assert renyi.sampled_gaussian(1.0, 2.0, orders).tolist() == (orders / 8).tolist()
    for rate in (1e-12, 0.01, 0.5, 0.999999):
        for sigma in (0.001, 0.3, 2.0, 1e6):
            values = renyi.sampled_gaussian(rate, sigma, orders)
            assert (values > 0).all()
            assert (values <= orders / (2 * sigma**2)).all()
            assert (np.diff(values) >= 0).all()


def test_no_privacy_is_infinite() -> None:
    for function in (renyi.response, renyi.bounded_range, renyi.laplace):
        assert np.isinf(function(float("inf"), np.array([2.0]))).all()
    assert np.isinf(renyi.sampled_gaussian(0.1, 0.0, np.array([2.0]))).all()
