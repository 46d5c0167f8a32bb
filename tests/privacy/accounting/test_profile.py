"""Closed privacy profiles against high precision and against direct evaluation of the hockey stick."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import profile
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    PerDistance,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)

ATOMS: list[Loss] = [
    Pure(1),
    BoundedRange(1),
    Approximate(1, "1e-4"),
    LaplaceNoise(1),
    GaussianNoise(1),
    DiscreteGaussianNoise("1.3", 2),
    SampledGaussian("0.05", "0.9"),
]


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [
        (1e-9, 0),
        (1e-9, 1e-8),
        (1e-3, 0.01),
        (1e-3, 0.03),
        (0.2367, 1),
        (1, 1),
        (1.0001, 1),
        (1.5, 40),
        (3, 1),
        (3, 100),
        (10, 5),
        (100, 5000),
    ],
)
def test_gaussian(mu: float, epsilon: float) -> None:
    """From 1e-220 to 1 − 1e-6, for tiny and huge shifts: within 1e-11 from above."""
    with mp.workdps(300):
        m, e = mp.mpf(mu), mp.mpf(epsilon)
        exact = mp.ncdf(m / 2 - e / m) - mp.e**e * mp.ncdf(-m / 2 - e / m)
        assert 0 <= profile.gaussian(mu, epsilon) / exact - 1 < 1e-11


def test_published_calibration() -> None:
    assert profile.delta(GaussianNoise("4.22468"), epsilon=1) == pytest.approx(1e-6, rel=1e-4)
    assert profile.epsilon(Repeated(GaussianNoise(20), 1000), delta="1e-6") == pytest.approx(8.30623, abs=1e-5)


@pytest.mark.parametrize(("sigma", "shift"), [("0.1", 1), ("0.5", 1), ("1", 1), ("4.3", 3), ("20", 1), ("4", 40)])
@pytest.mark.parametrize("epsilon", ["0", "0.3", "1", "6"])
def test_discrete_gaussian_by_summing_all_terms(sigma: str, shift: int, epsilon: str) -> None:
    """sup P(S) − e^ε·Q(S) is attained where P > e^ε·Q: add those terms, for every shift up to the sensitivity."""
    with mp.workdps(60):
        s, e = mp.mpf(sigma), mp.mpf(epsilon)
        reach = math.ceil(45 * s) + shift
        f = [mp.e ** (-(mp.mpf(x) ** 2) / (2 * s * s)) for x in range(-reach, reach + shift + 1)]
        sticks = [
            sum(max(f[i] - mp.e**e * f[i + d], mp.mpf(0)) for i in range(2 * reach + 1)) / sum(f)
            for d in {1, shift // 2 or 1, shift}
        ]
    ours = profile.delta(DiscreteGaussianNoise(sigma, shift), epsilon=epsilon)
    exact = max(sticks)
    assert ours >= float(exact) * (1 - 1e-15)
    assert ours <= float(exact) * (1 + 1e-11) + 1e-320


@pytest.mark.parametrize(("sigma", "shift", "epsilon"), [(12_000.0, 1, 1e-4), (2e4, 20_000, 3.0), (1.2e4, 5000, 0.0)])
def test_discrete_gaussian_bound_for_broad_noise(
    monkeypatch: pytest.MonkeyPatch, sigma: float, shift: int, epsilon: float
) -> None:
    bound = profile._discrete_gaussian(sigma, shift, epsilon)
    monkeypatch.setattr(profile, "_LATTICE_UP_TO", 1e9)
    exact = profile._discrete_gaussian(sigma, shift, epsilon)
    assert exact <= bound <= exact * (1 + 1e-5)


def stick(p: object, q: object, epsilon: float, ends: list[float]) -> float:
    """∫ (p − e^ε·q)₊ by quadrature."""
    factor = mp.e ** mp.mpf(epsilon)
    return float(mp.quad(lambda x: max(p(x) - factor * q(x), mp.mpf(0)), ends))  # type: ignore[operator]


@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.5, 0.9])
def test_laplace_by_quadrature(epsilon: float) -> None:
    m = 1
    knee = (1 - m * epsilon) / 2
    direct = stick(
        lambda x: mp.e ** (-abs(x) / m) / (2 * m),
        lambda x: mp.e ** (-abs(x - 1) / m) / (2 * m),
        epsilon,
        [-60, 0, knee],
    )
    assert profile.delta(LaplaceNoise(1), epsilon=epsilon) == pytest.approx(direct, rel=1e-9)


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize(("rate", "sigma"), [(0.05, 0.9), (0.5, 2.0), (0.9, 0.5)])
@pytest.mark.parametrize("epsilon", [0.0, 0.02, 0.3, 1.0])
def test_sampled_gaussian_by_quadrature_in_both_orders(rate: float, sigma: float, epsilon: float) -> None:
    def base(x: mp.mpf) -> mp.mpf:
        return mp.npdf(x, 0, sigma)

    def mixture(x: mp.mpf) -> mp.mpf:
        return (1 - rate) * base(x) + rate * mp.npdf(x, 1, sigma)

    def knee(level: float) -> list[float]:
        inner = (math.exp(level) - 1 + rate) / rate
        return [sigma**2 * math.log(inner) + 0.5] if inner > 0 else []

    removing = stick(mixture, base, epsilon, [*knee(epsilon), 20 * sigma + 5])
    low = knee(-epsilon)
    adding = stick(base, mixture, epsilon, [-20 * sigma, *low]) if low else 0.0
    ours = profile.delta(SampledGaussian(rate, sigma), epsilon=epsilon)
    assert ours == pytest.approx(max(removing, adding), rel=1e-8)


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.4, 0.8])
def test_bounded_range_is_the_worst_over_all_two_point_pairs(epsilon: float) -> None:
    limit = 1.0

    def delta(t: float) -> float:
        p = (1 - math.exp(t - limit)) / (1 - math.exp(-limit))
        high = p * max(0.0, 1 - math.exp(epsilon - t))
        return high + (1 - p) * max(0.0, 1 - math.exp(epsilon - t + limit))

    worst = max(delta(limit * k / 10_000) for k in range(1, 10_000))
    assert worst <= profile.delta(BoundedRange(1), epsilon=epsilon) <= worst * (1 + 1e-6) + 1e-12


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 0.99])
def test_response_and_approximate(epsilon: float) -> None:
    exact = (math.e - math.exp(epsilon)) / (1 + math.e)
    assert profile.delta(Pure(1), epsilon=epsilon) == pytest.approx(exact, rel=1e-11)
    assert profile.delta(Approximate(1, "0.25"), epsilon=epsilon) == pytest.approx(0.25 + 0.75 * exact, rel=1e-11)


@pytest.mark.parametrize("limited", [Pure(1), BoundedRange(1), LaplaceNoise(1)])
def test_zero_from_the_pure_epsilon_on(limited: Loss) -> None:
    assert profile.delta(limited, epsilon=1) == 0
    assert profile.delta(limited, epsilon="0.999999") > 0
    assert profile.delta(Approximate(1, "1e-9"), epsilon=1) == pytest.approx(1e-9, rel=1e-11)


@given(st.sampled_from(ATOMS), st.floats(0, 8), st.floats(0, 2))
@settings(max_examples=150, deadline=None)
def test_falling_and_between_0_and_1(loss: Loss, epsilon: float, more: float) -> None:
    here, there = profile.delta(loss, epsilon=epsilon), profile.delta(loss, epsilon=epsilon + more)
    assert 0 <= there <= here * (1 + 1e-11) <= 1 + 1e-11


def test_epsilon_of_approximate_is_what_is_left_of_delta() -> None:
    loss = Approximate(1, "1e-4")
    assert profile.epsilon(loss, delta="1e-4") == 1
    assert profile.epsilon(loss, delta=Fraction(1, 10**4) + Fraction(1, 10**400)) == 1
    left = Fraction(1, 10) / (1 - Fraction(1, 10**4))
    assert profile.epsilon(loss, delta="0.1001") == profile.epsilon(Pure(1), delta=left)
    with pytest.raises(NoGuarantee, match="additive"):
        profile.epsilon(loss, delta="0.99e-4")


@given(st.sampled_from([loss for loss in ATOMS if not isinstance(loss, Approximate)]), st.floats(-40, -0.5))
@settings(max_examples=100, deadline=None)
def test_epsilon_is_sound_and_tight(loss: Loss, exponent: float) -> None:
    delta = Fraction(str(10**exponent))
    epsilon = profile.epsilon(loss, delta=delta)
    assert profile.delta(loss, epsilon=Fraction(epsilon)) <= delta
    if epsilon > 1e-6:
        assert profile.delta(loss, epsilon=Fraction(epsilon * (1 - 1e-9))) > delta * (1 - Fraction(1, 10**5)) or (
            epsilon == pytest.approx(1.0, abs=1e-9)
        )


def test_extremes() -> None:
    assert profile.epsilon(Together(), delta=0) == 0
    assert profile.delta(Together(), epsilon=0) == 0
    assert profile.delta(GaussianNoise("1e-300"), epsilon=1) == 1
    assert profile.delta(DiscreteGaussianNoise("1e-300", 1), epsilon=1) == 1
    assert profile.delta(SampledGaussian("0.5", "1e-300"), epsilon=1) == 1
    assert profile.delta(GaussianNoise("1e400"), epsilon=0) < 1e-40
    assert profile.delta(DiscreteGaussianNoise("1e400", 1), epsilon=0) < 1e-40
    assert profile.delta(GaussianNoise(1), epsilon="1e400") < 1e-300
    assert profile.delta(SampledGaussian("1e-400", 1), epsilon=0) < 1e-90
    assert profile.epsilon(GaussianNoise("1e-4"), delta="0.5") == pytest.approx(5e7, rel=1e-3)
    with pytest.raises(NoGuarantee, match="1e-300"):
        profile.epsilon(GaussianNoise(1), delta="1e-320")
    with pytest.raises(NoGuarantee):
        profile.epsilon(GaussianNoise("1e-9"), delta="0.5")


@pytest.mark.parametrize(
    "loss", [Together(Pure(1), GaussianNoise(1)), Repeated(Pure(1), 2), Concentrated(1), PerDistance(1, "km", 0)]
)
def test_only_atoms(loss: Loss) -> None:
    with pytest.raises(NoGuarantee):
        profile.delta(loss, epsilon=1)
    with pytest.raises(NoGuarantee):
        profile.delta(Parallel(loss, GaussianNoise(3)), epsilon=1)


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, True, "x", None])
def test_bad_input(bad: object) -> None:
    with pytest.raises(InvalidParameter):
        profile.delta(Pure(1), epsilon=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        profile.epsilon(Pure(1), delta=bad)  # type: ignore[arg-type]
