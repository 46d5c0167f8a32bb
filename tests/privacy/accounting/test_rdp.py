"""Rényi curves: sums over fixed orders, an additive δ beside them, conversion."""

import hashlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import rdp, zcdp
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
    Pure("0.3"),
    BoundedRange("0.3"),
    Approximate("0.3", "1e-9"),
    Concentrated("0.01"),
    LaplaceNoise(4),
    GaussianNoise(4),
    DiscreteGaussianNoise(4, 1),
    SampledGaussian("0.1", 2),
]


def test_the_orders_are_permanent() -> None:
    """Ledgers store totals over these orders: a change needs a new name and a migration, not an edit."""
    assert hashlib.sha256(repr(rdp.ORDERS).encode()).hexdigest()[:16] == "5f6607ca04180aab"
    assert len(rdp.ORDERS) == 91
    assert list(rdp.ORDERS) == sorted(set(rdp.ORDERS))


@pytest.mark.parametrize("loss", ATOMS, ids=lambda loss: type(loss).__name__)
def test_curves_add_and_the_greatest_counts(loss: Loss) -> None:
    one, other = np.array(rdp.curve(loss).values), np.array(rdp.curve(GaussianNoise(3)).values)
    together, parallel = rdp.curve(Together(loss, GaussianNoise(3))), rdp.curve(Parallel(loss, GaussianNoise(3)))
    assert np.allclose(together.values, one + other, rtol=1e-14, atol=0)
    assert (np.array(together.values) >= one + other).all()
    assert np.array_equal(parallel.values, np.maximum(one, other))
    assert (np.array(rdp.curve(Repeated(loss, 10**6)).values) >= 10**6 * one).all()
    assert together.delta == parallel.delta == rdp.curve(loss).delta


def test_additive_delta() -> None:
    a, b = Approximate(1, "1e-6"), Approximate(1, "3e-6")
    assert rdp.curve(a).values == rdp.curve(Pure(1)).values
    assert rdp.curve(Together(a, b)).delta == Fraction(4, 10**6)
    assert rdp.curve(Parallel(a, b)).delta == Fraction(3, 10**6)
    assert rdp.curve(Repeated(a, 10**7)).delta == 1
    left = rdp.epsilon(rdp.curve(Repeated(a, 10)), delta="2e-5")
    assert left == pytest.approx(rdp.epsilon(rdp.curve(Repeated(Pure(1), 10)), delta="1e-5"), rel=1e-12)
    with pytest.raises(NoGuarantee, match="additive"):
        rdp.epsilon(rdp.curve(Repeated(a, 10)), delta="1e-5")


def test_conversion_is_the_formula() -> None:
    spent = rdp.Curve((2.0, 8.0, 32.0), (1.0, 3.0, 15.0), Fraction(0))
    for delta in (1e-3, 1e-6, 1e-12):
        exact = min(
            v + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)
            for a, v in zip(spent.orders, spent.values, strict=True)
        )
        assert 0 <= rdp.epsilon(spent, delta=delta) / exact - 1 < 1e-11
        back = rdp.delta(spent, epsilon=rdp.epsilon(spent, delta=delta))
        assert float(back) == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("rho", ["1e-4", "0.01", "0.5", "10"])
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-10"])
def test_the_grid_of_orders_costs_little(rho: str, delta: str) -> None:
    best, grid = zcdp.epsilon(rho, delta=delta), rdp.epsilon(rdp.curve(Concentrated(rho)), delta=delta)
    assert best * (1 - 1e-9) <= grid <= best * 1.01
    if 0.1 <= best <= 20:
        assert grid <= best * 1.0025


def test_against_dp_accounting() -> None:
    import dp_accounting as dp
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = [2.0, 3.0, 8.0, 16.0, 64.0, 256.0]
    for rate, sigma in ((0.01, 1.1), (0.1, 2.0), (0.5, 5.0), (0.04, 0.7)):
        theirs = rdp_privacy_accountant.RdpAccountant(orders)
        theirs.compose(dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(sigma)), 10)
        ours = rdp.curve(Repeated(SampledGaussian(rate, sigma), 10), orders=orders)
        ratio = np.array(ours.values) / theirs._rdp
        assert (ratio > 1 - 1e-11).all()  # their own rounding
        assert (ratio < 1 + 1e-9).all()


def test_anchors() -> None:
    sgd = Repeated(SampledGaussian("0.01", 4), 10_000)
    assert rdp.epsilon(rdp.curve(sgd), delta="1e-5") == pytest.approx(1.03549, rel=1e-5)
    noisy = Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100))
    assert rdp.epsilon(rdp.curve(noisy), delta="1e-6") == pytest.approx(5.73604, rel=1e-5)


@given(st.sampled_from(ATOMS), st.integers(1, 500), st.floats(1e-5, 0.3), st.floats(1, 1e6))
@settings(max_examples=60, deadline=None)
def test_monotone_in_delta_and_count(loss: Loss, count: int, delta: float, factor: float) -> None:
    spent, more = rdp.curve(Repeated(loss, count)), rdp.curve(Repeated(loss, 2 * count))
    epsilon = rdp.epsilon(spent, delta=delta)
    assert rdp.epsilon(spent, delta=min(delta * factor, 0.99)) <= epsilon
    assert rdp.epsilon(more, delta=delta) >= epsilon


def test_extremes() -> None:
    assert rdp.epsilon(rdp.curve(Together()), delta=0) == 0
    assert rdp.epsilon(rdp.curve(Pure("1e-400")), delta="1e-1000") < 1.3  # the largest order speaks, soundly
    assert rdp.epsilon(rdp.curve(GaussianNoise(1)), delta="1e-1000") == pytest.approx(68.4, abs=0.2)
    assert rdp.epsilon(rdp.curve(Repeated(GaussianNoise("1e9"), 10**18)), delta="1e-300") > 0.5
    assert rdp.delta(rdp.curve(GaussianNoise(1)), epsilon="1e300") < Fraction(1, 10**300)
    assert rdp.delta(rdp.curve(Pure("1e400")), epsilon=1) == 1
    for nobody in (Pure("1e400"), GaussianNoise("1e-400"), Repeated(Repeated(GaussianNoise("1e-150"), 10**18), 10**18)):
        with pytest.raises(NoGuarantee, match="protects nobody"):
            rdp.epsilon(rdp.curve(nobody), delta="0.5")
    with pytest.raises(NoGuarantee, match="within"):
        rdp.curve(PerDistance(1, "km", 0))


@pytest.mark.parametrize("orders", [[], [1.0], [0.5, 2], [math.nan], ["x"], [math.inf], None, 3])
def test_bad_orders(orders: object) -> None:
    with pytest.raises(InvalidParameter, match="orders"):
        rdp.curve(Pure(1), orders=orders)  # type: ignore[arg-type]
