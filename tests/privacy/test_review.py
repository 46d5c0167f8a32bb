"""Regressions: what a hostile review of the accountants, the budget, calibration and groups broke."""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from mpmath import mp, mpf

from discreet.errors import BudgetExceeded, InvalidParameter, NoGuarantee, UnknownLoss
from discreet.privacy import calibration
from discreet.privacy.accounting import composition, delta_for, guarantee, pld, profile, rdp, zcdp
from discreet.privacy.accounting.rounding import log
from discreet.privacy.budget import Budget, Spent, _limits, _shares
from discreet.privacy.calibration import group
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)


def _discrete_gaussian_delta(sigma: Fraction, shift: int, epsilon: Fraction) -> mpf:
    """The exact profile by a sum over the whole numbers, with 60 digits."""
    s, e = mpf(sigma.numerator) / sigma.denominator, mpf(epsilon.numerator) / epsilon.denominator
    reach = math.ceil(60 * sigma) + 3
    weight = {x: mp.exp(-(mpf(x) ** 2) / (2 * s**2)) for x in range(-reach, reach + shift + 1)}
    gaps = (weight[x] - mp.exp(e) * weight[x + shift] for x in range(-reach, reach + 1))
    return mp.fsum(gap for gap in gaps if gap > 0) / mp.fsum(weight.values())


@pytest.mark.parametrize(
    ("sigma", "shift", "at", "below"),
    [
        ("0.33011491294711104", 1, 2, "8.488102409768412e-10"),
        ("0.5958204342498773", 1, 5, "5.9008371124215795e-12"),
        ("0.04225021105022199", 17, 0, "2.1047251154383924e-14"),
        ("0.016942864005947713", 17, 0, "2.1743149108231033e-13"),
        ("0.05", 1, 0, "1e-12"),
        ("3.7", 2, 4, "1e-13"),
    ],
)
def test_discrete_gaussian_just_below_a_lump_is_not_understated(sigma: str, shift: int, at: int, below: str) -> None:
    """εσ²/s − s/2 is a difference of great numbers; its error made δ = 2e-13 into 5e-324."""
    s = Fraction(sigma)
    epsilon = Fraction(2 * shift * at + shift**2) / (2 * s**2) - Fraction(below)
    with mp.workdps(60):
        exact = _discrete_gaussian_delta(s, shift, epsilon)
        assert profile.delta(DiscreteGaussianNoise(s, shift), epsilon=epsilon) >= exact


@pytest.mark.parametrize(
    "plan", [Repeated(DiscreteGaussianNoise(1, 1), 3), Together(LaplaceNoise(1), GaussianNoise(1))]
)
@pytest.mark.parametrize("epsilon", [100, 1000, 10**6])
def test_noise_with_tails_never_has_delta_zero(plan: Repeated | Together, epsilon: int) -> None:
    assert pld.delta(plan, epsilon=epsilon) > 0
    assert delta_for(plan, epsilon=epsilon).delta > 0


@pytest.mark.parametrize("order", [1.0000001, 1.0, 10_001, 500_000])
def test_orders_at_which_the_curves_lose_digits_are_refused(order: float) -> None:
    with pytest.raises(InvalidParameter, match="orders"):
        rdp.curve(SampledGaussian("1e-9", 1000), orders=(order,))


@pytest.mark.parametrize("epsilon", ["0", "1e-30", "1"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-40", "1e-9", "0.9"])
def test_laplace_multiplier_reaches_its_target(epsilon: str, delta: str) -> None:
    """log_up(1 − δ) was above 0 for δ < 2^−96, and the multiplier negative."""
    m = calibration.laplace_multiplier(epsilon=epsilon, delta=delta)
    with mp.workdps(400):
        e, d, ratio = mpf(epsilon), mpf(delta), mpf(m.denominator) / m.numerator
        assert m > 0
        assert 1 - mp.exp((e - ratio) / 2) <= d
        assert 1 - mp.exp((e - ratio * mpf("1.0000001")) / 2) > d


@pytest.mark.parametrize("method", ["analytic", "zcdp", "classical"])
@pytest.mark.parametrize("epsilon", ["1e-400", "1e-60", "1e10", "1e400"])
def test_calibration_refuses_absurd_epsilon_clearly(epsilon: str, method: str) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        calibration.gaussian_multiplier(epsilon=epsilon, delta="1e-300", method=method)  # type: ignore[arg-type]


def test_calibration_by_zcdp_at_delta_next_to_one() -> None:
    with pytest.raises(NoGuarantee, match="near to 1"):
        calibration.gaussian_multiplier(epsilon=1, delta=1 - Fraction(1, 10**40), method="zcdp")


@pytest.mark.parametrize("epsilon", ["1e-9", "0.1", "0.5", "0.99", "1"])
@pytest.mark.parametrize("delta", ["1e-300", "1e-6", "0.1", "0.5", "0.9", "0.999"])
def test_every_gaussian_calibration_reaches_its_target(epsilon: str, delta: str) -> None:
    for method in ("analytic", "zcdp", "classical"):
        m = calibration.gaussian_multiplier(epsilon=epsilon, delta=delta, method=method)  # type: ignore[arg-type]
        with mp.workdps(400):
            mu, e = mpf(m.denominator) / m.numerator, mpf(epsilon)
            assert mp.ncdf(mu / 2 - e / mu) - mp.exp(e) * mp.ncdf(-mu / 2 - e / mu) <= mpf(delta)


@pytest.mark.parametrize(("epsilon", "delta"), [("1", "1e-400"), ("1e400", "1e-6"), ("1e300", "1e-6"), ("1e9", "0.9")])
def test_budgets_of_any_size_answer(epsilon: str, delta: str) -> None:
    budget = Budget(epsilon=epsilon, delta=delta)
    noise = budget.delta - budget.delta_for_keys
    shares = _shares(budget.epsilon, noise)
    assert sum(map(Fraction, shares)) <= noise
    with mp.workdps(60):
        for order, share, limit in zip(rdp.ORDERS, shares, _limits(budget.epsilon, noise), strict=True):
            if share and limit >= 0:
                a = mpf(order)
                conversion = mp.log((a - 1) / a) - (mp.log(mpf(share)) + mp.log(a)) / (a - 1)
                assert mpf(limit) / 2**40 + conversion <= mpf(epsilon)
    if budget.epsilon > 10:
        budget.charge(Spent(), GaussianNoise(1))
    else:
        with pytest.raises(BudgetExceeded):
            budget.charge(Spent(), GaussianNoise(1))


def test_a_budget_can_say_how_far_beyond_all_bounds_it_was_asked() -> None:
    spent = Spent().plus(Repeated(Concentrated("1e304"), 10)).plus(Concentrated("1e304"))
    with pytest.raises(BudgetExceeded, match="ε"):
        Budget(epsilon=1, delta="1e-6").charge(spent, GaussianNoise(1))


@pytest.mark.parametrize("loss", [SampledGaussian(0, 1), Concentrated(0), DiscreteGaussianNoise(1, 0)])
def test_a_pure_budget_pays_for_nothing_with_nothing(loss: SampledGaussian | Concentrated) -> None:
    assert Budget(epsilon=1).charge(Spent(), loss) == Spent()


def test_totals_are_read_as_they_were_written_or_not_at_all() -> None:
    text = Spent().plus(Pure(1)).to_json()
    for forged in ('"epsilon":"1","epsilon":"0"', '"epsilon":1.00000000000000000001', '"epsilon":NaN'):
        with pytest.raises(UnknownLoss):
            Spent.from_json(text.replace('"epsilon":"1"', forged))


def test_totals_of_unlike_fractions_can_be_read_back() -> None:
    """Their exact sums grow beyond what `rational` reads: the ledger could not be opened again."""
    spent, exact = Spent(), Fraction(0)
    for k in (2003, 2011, 2017, 2027, 3001):
        share = Fraction(1, 2**k - 1)
        spent, exact = spent.plus(Approximate(share, share)), exact + share
        assert Spent.from_json(spent.to_json()) == spent
        assert spent.epsilon is not None
        assert exact <= spent.epsilon <= exact * (1 + Fraction(1, 10**38))
        assert exact <= spent.delta
    assert Spent.from_json(Spent().plus(Pure(10**400)).to_json()).epsilon is None


@pytest.mark.parametrize("bad", ["x", 1, None, [1], {}, Pure])
def test_what_is_no_loss_is_refused(bad: object) -> None:
    for use in (
        lambda: guarantee(bad, delta="1e-6"),  # type: ignore[arg-type]
        lambda: pld.epsilon(bad, delta="1e-6"),  # type: ignore[arg-type]
        lambda: rdp.curve(bad),  # type: ignore[arg-type]
        lambda: group(bad, 2),  # type: ignore[arg-type]
        lambda: group(bad, 1),  # type: ignore[arg-type]
        lambda: Spent().plus(bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(InvalidParameter, match="loss"):
            use()


def test_logarithms_of_long_fractions_keep_their_digits() -> None:
    x = Fraction(2 * 7**200_000 + 1, 5 * 7**200_000)
    assert abs(log(x) - math.log(0.4)) < 1e-15


def test_great_losses_and_great_epsilons_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for loss in (Concentrated("1e306"), GaussianNoise("1e-153"), DiscreteGaussianNoise("1e-153", 1)):
            assert rdp.curve(loss).values[-1] == math.inf
            assert math.isfinite(guarantee(loss, delta="1e-6").epsilon)
        assert delta_for(Together(LaplaceNoise(1), GaussianNoise(1)), epsilon=10**400).delta < Fraction(1, 10**290)
        zcdp.epsilon("1e-100", delta=1 - Fraction(1, 10**300))
        assert zcdp.delta(5 * 10**9, epsilon=2 * 10**10) < 1e-300
        guarantee(Repeated(Parallel(LaplaceNoise("1e90"), GaussianNoise(1)), 3), delta="1e-6")
        guarantee(Repeated(BoundedRange("33.7"), 10**10), delta="0.01")
        guarantee(Repeated(DiscreteGaussianNoise("0.0034", 1), 2), delta="0.01")


def test_binomial_terms_are_added_up_from_the_mode() -> None:
    losses, masses = composition._responses(0.1, 10**6)
    lies = (10**6 - losses / 0.1) / 2
    with mp.workdps(40):
        e = mpf(0.1)
        for i in np.linspace(0, len(lies) - 1, 9).astype(int):
            lied = round(float(lies[i]))
            exact = mp.loggamma(10**6 + 1) - mp.loggamma(lied + 1) - mp.loggamma(10**6 - lied + 1)
            exact += -(10**6) * mp.log1p(mp.exp(-e)) - lied * e
            if exact > -690:
                assert abs(mp.log(mpf(float(masses[i]))) - exact) < 2e-11
