"""ρ adds up exactly, and converts tightly in both directions."""

import math
from fractions import Fraction

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import profile, rdp, zcdp
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


@pytest.mark.parametrize(
    ("loss", "rho"),
    [
        (Pure("0.1"), Fraction(1, 200)),
        (Approximate("0.1", 0), Fraction(1, 200)),
        (BoundedRange("0.1"), Fraction(1, 800)),
        (LaplaceNoise(10), Fraction(1, 200)),
        (Concentrated("1/3"), Fraction(1, 3)),
        (GaussianNoise(20), Fraction(1, 800)),
        (DiscreteGaussianNoise(20, 2), Fraction(1, 200)),
        (SampledGaussian("0.1", 20), Fraction(1, 800)),
        (SampledGaussian(0, 20), 0),
        (Repeated(GaussianNoise(20), 1000), Fraction(5, 4)),
        (Together(Concentrated(1), Parallel(Concentrated(2), Pure(1))), 3),
        (Together(), 0),
    ],
)
def test_exact_rho(loss: Loss, rho: Fraction) -> None:
    assert zcdp.rho(loss) == rho


@pytest.mark.parametrize("loss", [Approximate(1, "1e-9"), PerDistance(1, "km", 0)])
def test_no_rho(loss: Loss) -> None:
    with pytest.raises(NoGuarantee):
        zcdp.rho(loss)


def exact_epsilon(rho: float, delta: str) -> mp.mpf:
    """The minimum over α, in high precision, from a fine grid refined by Newton's method."""
    with mp.workdps(40):
        r, d = mp.mpf(rho), mp.mpf(delta)

        def f(a: mp.mpf) -> mp.mpf:
            return a * r + mp.log(1 / (a * d)) / (a - 1) + mp.log(1 - 1 / a)

        start = min((1 + mp.mpf(10) ** (mp.mpf(k) / 40) for k in range(-120, 360)), key=f)
        return f(mp.findroot(lambda a: mp.diff(f, a), start))


@pytest.mark.parametrize("rho", ["1e-8", "0.001", "0.1", "1.25", "20", "500"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12", "1e-100"])
def test_epsilon_is_the_minimum_rounded_up(rho: str, delta: str) -> None:
    exact, ours = exact_epsilon(float(rho), delta), zcdp.epsilon(rho, delta=delta)
    if exact <= 0:
        assert ours == 0
    else:
        assert 0 <= ours / exact - 1 < 1e-9


def test_published_value() -> None:
    assert zcdp.epsilon("1.25", delta="1e-6") == pytest.approx(8.84589, abs=5e-6)  # OpenDP, scenario (a)
    assert zcdp.epsilon("0.5", delta="1e-6") == pytest.approx(5.22153, abs=5e-6)  # OpenDP, scenario (d)


@given(st.floats(1e-6, 100), st.floats(1e-12, 0.3))
@settings(max_examples=60, deadline=None)
def test_delta_inverts_epsilon(rho: float, delta: float) -> None:
    epsilon = zcdp.epsilon(rho, delta=delta)
    back = zcdp.delta(rho, epsilon=epsilon)
    if epsilon > 0:
        assert back == pytest.approx(delta, rel=1e-6)
    else:
        assert back <= delta * (1 + 1e-9)


@given(st.floats(1e-6, 100), st.floats(0, 50), st.floats(1e-12, 0.3), st.floats(0, 0.5))
@settings(max_examples=60, deadline=None)
def test_monotone(rho: float, more: float, delta: float, larger: float) -> None:
    epsilon = zcdp.epsilon(rho, delta=delta)
    assert zcdp.epsilon(rho + more, delta=delta) >= epsilon * (1 - 1e-10)
    assert zcdp.epsilon(rho, delta=min(delta + larger, 0.9)) <= epsilon * (1 + 1e-10)


@pytest.mark.parametrize("rho", ["0.001", "0.1", "3"])
def test_never_below_the_gaussian_that_has_this_rho(rho: str) -> None:
    gaussian = GaussianNoise(Fraction(math.sqrt(1 / (2 * float(rho)))))
    for delta in ("1e-2", "1e-6", "1e-12"):
        assert zcdp.epsilon(rho, delta=delta) >= profile.epsilon(gaussian, delta=delta)
        assert zcdp.epsilon(rho, delta=delta) <= rdp.epsilon(rdp.curve(Concentrated(rho)), delta=delta) * (1 + 1e-9)


def test_extremes() -> None:
    assert zcdp.epsilon(0, delta=0) == 0
    assert zcdp.epsilon("1e-400", delta="1e-1000") > 0
    assert 1e6 < zcdp.epsilon("1e6", delta="1e-300") < 1.2e6
    assert zcdp.delta("1e300", epsilon=1) == 1
    assert zcdp.delta(1, epsilon="1e300") < 1e-300
    assert zcdp.delta(0, epsilon=0) == 0
    with pytest.raises(NoGuarantee):
        zcdp.epsilon(1, delta=0)
    with pytest.raises(NoGuarantee):
        zcdp.epsilon("1e200", delta="0.1")


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, True, "x", None])
def test_bad_input(bad: object) -> None:
    with pytest.raises(InvalidParameter):
        zcdp.epsilon(bad, delta="1e-6")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        zcdp.epsilon(1, delta=bad)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter):
        zcdp.delta(1, epsilon=bad)  # type: ignore[arg-type]
