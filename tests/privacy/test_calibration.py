"""Least noise for a target: published values, soundness by re-checking, tightness by asking for a little less."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy import calibration
from discreet.privacy.accounting import guarantee, profile, zcdp
from discreet.privacy.loss import (
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Repeated,
    SampledGaussian,
    Together,
)

epsilons = st.floats(0.01, 20)
deltas = st.floats(-15, -0.7).map(lambda x: 10**x)
LITTLE_LESS = 1 - Fraction(1, 10**6)


@pytest.mark.parametrize(("method", "published"), [("analytic", 4.22468), ("zcdp", 4.53088), ("classical", 5.29880)])
def test_published_multipliers(method: str, published: float) -> None:
    found = calibration.gaussian_multiplier(epsilon=1, delta="1e-6", method=method)  # type: ignore[arg-type]
    assert float(found) == pytest.approx(published, abs=5.1e-6)


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_analytic_is_sound_and_tight(epsilon: float, delta: float) -> None:
    found = calibration.gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    assert profile.delta(GaussianNoise(found), epsilon=epsilon) <= delta
    assert profile.delta(GaussianNoise(found * LITTLE_LESS), epsilon=epsilon) > delta
    assert len(str(found.numerator)) <= 13 + len(str(found.denominator))


@given(st.floats(0.01, 1), deltas)
@settings(max_examples=40, deadline=None)
def test_analytic_never_needs_more_than_the_others(epsilon: float, delta: float) -> None:
    sizes = [
        calibration.gaussian_multiplier(epsilon=epsilon, delta=delta, method=method)
        for method in ("analytic", "zcdp", "classical")
    ]
    assert sizes[0] <= sizes[1]
    assert sizes[0] <= sizes[2]
    for size in sizes:
        assert profile.delta(GaussianNoise(size), epsilon=epsilon) <= delta


def test_classical_ends_at_one() -> None:
    assert calibration.gaussian_multiplier(epsilon=1, delta="0.1", method="classical") > 0
    with pytest.raises(InvalidParameter, match="analytic"):
        calibration.gaussian_multiplier(epsilon="1.0001", delta="1e-6", method="classical")


def test_why_classical_ends_at_one() -> None:
    """Far above ε = 1 the classical formula is not private: the theorem's limit is not a formality."""
    epsilon, delta = 50.0, 1e-6
    sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    assert profile.delta(GaussianNoise(sigma), epsilon=epsilon) > 100 * delta


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_rho_is_the_largest(epsilon: float, delta: float) -> None:
    rho = calibration.rho_for(epsilon=epsilon, delta=delta)
    assert zcdp.epsilon(rho, delta=delta) <= epsilon
    assert zcdp.epsilon(rho / LITTLE_LESS, delta=delta) > epsilon


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_laplace(epsilon: float, delta: float) -> None:
    assert calibration.laplace_multiplier(epsilon=epsilon, delta=0) == 1 / Fraction(str(epsilon))
    found = calibration.laplace_multiplier(epsilon=epsilon, delta=delta)
    assert found <= 1 / Fraction(str(epsilon)) * (1 + Fraction(1, 10**11))
    assert -math.expm1((epsilon - float(1 / found)) / 2) <= delta * (1 + 1e-9)
    assert profile.delta(LaplaceNoise(found * LITTLE_LESS), epsilon=epsilon) > delta


def test_laplace_with_delta_alone() -> None:
    found = calibration.laplace_multiplier(epsilon=0, delta="0.1")
    assert profile.delta(LaplaceNoise(found), epsilon=0) == pytest.approx(0.1, rel=1e-9)
    with pytest.raises(InvalidParameter, match="ε = δ = 0"):
        calibration.laplace_multiplier(epsilon=0, delta=0)


@given(st.floats(0.02, 5), st.floats(-9, -1).map(lambda x: 10**x), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_discrete_gaussian_holds_exactly(epsilon: float, delta: float, sensitivity: int) -> None:
    found = calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    assert profile.delta(DiscreteGaussianNoise(found, sensitivity), epsilon=epsilon) <= delta
    less = found * (1 - Fraction(1, 10**4))
    assert profile.delta(DiscreteGaussianNoise(less, sensitivity), epsilon=epsilon) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(1, "1e-6", 1), (3, "1e-6", 1), (10, "1e-4", 1), (10, "1e-6", 1), (20, "1e-6", 3)],
)
def test_no_smaller_sigma_holds(epsilon: int, delta: str, sensitivity: int) -> None:
    """Also where the profile is not monotone in σ: a scan below finds none."""
    found = float(calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=sensitivity))
    for i in range(1, 1000):
        sigma = found * (0.2 + 0.7999 * i / 1000)
        assert profile.delta(DiscreteGaussianNoise(sigma, sensitivity), epsilon=epsilon) > float(delta)


def test_broad_discrete_gaussian_is_the_gaussian() -> None:
    discrete = calibration.discrete_gaussian_sigma(epsilon="0.0001", delta="1e-6", sensitivity=1)
    continuous = calibration.gaussian_multiplier(epsilon="0.0001", delta="1e-6", method="analytic")
    assert float(discrete / continuous) == pytest.approx(1, rel=2e-5)


@pytest.mark.parametrize(
    ("epsilon", "delta", "rate", "steps"), [(2, "1e-5", "0.01", 1000), (8, "1e-5", "0.04", 500), (1, "1e-6", 1, 10)]
)
def test_sampled_gaussian_is_sound_and_tight(epsilon: int, delta: str, rate: str, steps: int) -> None:
    found = calibration.sampled_gaussian_multiplier(epsilon=epsilon, delta=delta, rate=rate, steps=steps)
    assert guarantee(Repeated(SampledGaussian(rate, found), steps), delta=delta).epsilon <= epsilon
    less = found * (1 - Fraction(1, 2000))
    assert guarantee(Repeated(SampledGaussian(rate, less), steps), delta=delta).epsilon > epsilon


def test_rate_one_is_the_plain_gaussian() -> None:
    found = calibration.sampled_gaussian_multiplier(epsilon=1, delta="1e-6", rate=1, steps=100)
    plain = calibration.gaussian_multiplier(epsilon=1, delta="1e-6", method="analytic")
    assert float(found / plain) == pytest.approx(10, rel=1e-6)


def test_least_of_a_mixed_plan() -> None:
    def plan(m: Fraction) -> Together:
        return Together(Repeated(LaplaceNoise(m), 10), Repeated(GaussianNoise(2 * m), 10))

    found = calibration.least(plan, epsilon=2, delta="1e-6", low="0.1", high=1000)
    assert guarantee(plan(found), delta="1e-6").epsilon <= 2
    assert guarantee(plan(found * (1 - Fraction(1, 1000))), delta="1e-6").epsilon > 2


def test_least_at_the_ends() -> None:
    assert calibration.least(LaplaceNoise, epsilon=1, delta=0, low=5, high=9) == 5
    assert calibration.least(LaplaceNoise, epsilon=1, delta=0, low="0.01", high=100) == pytest.approx(1, rel=1e-5)
    with pytest.raises(NoGuarantee, match="high"):
        calibration.least(LaplaceNoise, epsilon=1, delta=0, low="0.01", high="0.5")
    with pytest.raises(InvalidParameter, match="low"):
        calibration.least(LaplaceNoise, epsilon=1, delta=0, low=2, high=1)
    with pytest.raises(InvalidParameter, match="low"):
        calibration.least(LaplaceNoise, epsilon=1, delta=0, low=0, high=1)


@pytest.mark.parametrize("epsilon", ["1e-9", 100])
@pytest.mark.parametrize("delta", ["1e-290", "1e-12", "0.5"])
def test_extremes(epsilon: object, delta: str) -> None:
    sizes = [
        calibration.gaussian_multiplier(epsilon=epsilon, delta=delta, method=method)  # type: ignore[arg-type]
        for method in ("analytic", "zcdp")
    ]
    assert 0 < sizes[0] <= sizes[1]
    assert guarantee(GaussianNoise(sizes[0]), delta=delta).epsilon <= float(Fraction(epsilon)) * (1 + 1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "x", None])
def test_bad_epsilon_and_delta(bad: object) -> None:
    for call in (
        lambda e, d: calibration.gaussian_multiplier(epsilon=e, delta=d, method="analytic"),
        lambda e, d: calibration.discrete_gaussian_sigma(epsilon=e, delta=d, sensitivity=1),
        lambda e, d: calibration.sampled_gaussian_multiplier(epsilon=e, delta=d, rate="0.1", steps=2),
        lambda e, d: calibration.rho_for(epsilon=e, delta=d),
    ):
        with pytest.raises(InvalidParameter, match="epsilon"):
            call(bad, "1e-6")
        with pytest.raises(InvalidParameter, match="delta"):
            call(1, bad)
        with pytest.raises(InvalidParameter, match="delta"):
            call(1, 1)
        with pytest.raises(InvalidParameter, match="delta"):
            call(1, "1e-400")


def test_bad_settings() -> None:
    with pytest.raises(InvalidParameter, match="method"):
        calibration.gaussian_multiplier(epsilon=1, delta="1e-6", method="best")  # type: ignore[arg-type]
    for sensitivity in (0, -1, 1.5, True):
        with pytest.raises(InvalidParameter, match="sensitivity"):
            calibration.discrete_gaussian_sigma(epsilon=1, delta="1e-6", sensitivity=sensitivity)  # type: ignore[arg-type]
    for rate in (0, -1, 2):
        with pytest.raises(InvalidParameter, match="rate"):
            calibration.sampled_gaussian_multiplier(epsilon=1, delta="1e-6", rate=rate, steps=2)
    with pytest.raises(InvalidParameter, match="steps"):
        calibration.sampled_gaussian_multiplier(epsilon=1, delta="1e-6", rate="0.1", steps=0)
