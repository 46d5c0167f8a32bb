"""Totals of plans that no single accountant takes whole: never below the exact value, nor far above any other bound."""

import math
from collections.abc import Iterator
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import NoGuarantee
from discreet.privacy.accounting import composition, delta_for, guarantee, pld, profile, rdp, zcdp
from discreet.privacy.accounting.itemization import Choice, Item, Normal, bill, covers, merged
from discreet.privacy.accounting.profile import Envelope, concentrated, concentrated_deltas, envelope, knots
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)

SAMPLED = Repeated(SampledGaussian("0.001", "0.7"), 10)


def test_a_little_zcdp_costs_a_little() -> None:
    """Before, the Rényi accountant answered for the whole plan: ε 1.786."""
    alone = guarantee(SAMPLED, delta="1e-6").epsilon
    both = guarantee(Together(SAMPLED, Concentrated("1e-6")), delta="1e-6")
    assert alone < both.epsilon < 1.001 * alone < 0.303
    assert delta_for(Together(SAMPLED, Concentrated("1e-6")), epsilon=Fraction(both.epsilon)).delta <= Fraction(
        "1.01e-6"
    )


def test_disjoint_parts_cost_what_the_dearest_does() -> None:
    """Each part by its own best accountant; before, one that `pld` refused made all of them pay the Rényi price."""
    parts = [SAMPLED, Concentrated("1e-4"), PURE_PARTS, Together(Approximate("0.1", "1e-8"), GaussianNoise(30))]
    whole = guarantee(Together(Repeated(Parallel(*parts), 1)), delta="1e-6")
    assert whole.epsilon == max(guarantee(part, delta="1e-6").epsilon for part in parts)
    at = delta_for(Parallel(*parts), epsilon="0.2").delta
    assert at == max(delta_for(part, epsilon="0.2").delta for part in parts)


PURE_PARTS = Together(Pure("0.05"), LaplaceNoise(20))


def test_hundreds_of_unlike_losses() -> None:
    """300 unlike steps lie between 30 kinds of step that they cover ten by ten, and 30 kinds that cover them."""
    steps = [SampledGaussian("0.01", 1 + Fraction(k, 3000)) for k in range(300)]
    found = guarantee(Together(*steps), delta="1e-6")
    less, more = (
        guarantee(Together(*(Repeated(step, 10) for step in steps[first::10])), delta="1e-6").epsilon
        for first in (9, 0)
    )
    assert found.by == "pld"
    assert less < found.epsilon < more < 1.02 * less


def test_unlike_losses_are_as_dear_as_like_ones() -> None:
    """A hundred steps that differ in the twelfth digit are a hundred equal steps, whichever way they are computed."""
    like = guarantee(Repeated(SampledGaussian("0.02", "0.8"), 100), delta="1e-6").epsilon
    unlike = Together(*(SampledGaussian("0.02", Fraction(8, 10) - Fraction(k, 10**12)) for k in range(100)))
    assert like * (1 - 2e-4) <= guarantee(unlike, delta="1e-6").epsilon <= like * (1 + 2e-3)


# --- against exact values and every other bound -------------------------------------------------------------------

gaussian_multipliers = st.integers(8, 400).map(lambda k: Fraction(k, 8))
atoms = st.one_of(
    st.builds(Pure, st.floats(0.01, 1)),
    st.builds(BoundedRange, st.floats(0.01, 1)),
    st.builds(LaplaceNoise, st.floats(1, 50)),
    st.builds(GaussianNoise, gaussian_multipliers),
    st.builds(SampledGaussian, st.floats(0.001, 0.3), st.floats(0.7, 5)),
    st.builds(Approximate, st.floats(0.01, 1), st.just("1e-9")),
    st.builds(lambda m: Concentrated(1 / (2 * m**2)), gaussian_multipliers),
)
compositions = st.lists(st.builds(Repeated, atoms, st.integers(1, 10)), min_size=1, max_size=3).map(
    lambda parts: Together(*parts)
)
plans = st.one_of(
    compositions,
    st.lists(compositions, min_size=2, max_size=3).map(lambda parts: Parallel(*parts)),
    st.tuples(compositions, compositions, compositions).map(lambda p: Together(p[0], Parallel(p[1], p[2]))),
)


def gaussian_instead(loss: Loss) -> Iterator[Loss]:
    """Plans that this one allows and whose exact ε is known: Gaussians for ρ-zCDP, and any one of disjoint parts."""
    match loss:
        case Concentrated(rho):
            yield GaussianNoise(
                Fraction(math.isqrt((1 / (2 * rho)).numerator), math.isqrt((1 / (2 * rho)).denominator))
            )
        case Repeated(inner, count):
            yield from (Repeated(other, count) for other in gaussian_instead(inner))
        case Together(parts):
            choices = [list(gaussian_instead(part)) for part in parts]
            yield from (Together(*(each[i % len(each)] for each in choices)) for i in range(max(map(len, choices))))
        case Parallel(parts):
            for part in parts:
                yield from gaussian_instead(part)
        case _:
            yield loss


def split(first: Loss, second: Loss, delta: float) -> float:
    """Basic composition of the two parts' own guarantees, the best of some ways to divide δ."""
    shares = (0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999)
    return min(epsilon_of(first, delta * share) + epsilon_of(second, delta * (1 - share)) for share in shares)


def epsilon_of(loss: Loss, delta: float) -> float:
    try:
        return guarantee(loss, delta=delta).epsilon
    except NoGuarantee:
        return math.inf


def other_bounds(loss: Loss, delta: float) -> Iterator[float]:
    for answer in (
        lambda: float(composition.pure(loss)),
        lambda: composition.advanced(loss, delta=delta),
        lambda: zcdp.epsilon(zcdp.rho(loss), delta=delta),
        lambda: rdp.epsilon(rdp.curve(loss), delta=delta),
        lambda: pld.epsilon(loss, delta=delta),
    ):
        try:
            yield answer()
        except NoGuarantee:
            continue
    match loss:
        case Parallel(parts):
            yield max(epsilon_of(part, delta) for part in parts)
            yield epsilon_of(Together(*parts), delta)
        case Together((first, *others)) if others:
            yield split(first, Together(*others), delta)
            yield split(Together(first, *others[:-1]), others[-1], delta)


@pytest.mark.slow
@given(plans, st.sampled_from([1e-3, 1e-6, 1e-9]))
@settings(max_examples=15, deadline=None)
def test_no_other_bound_is_a_hundredth_better_and_none_is_below_the_truth(plan: Loss, delta: float) -> None:
    try:
        found = guarantee(plan, delta=delta).epsilon
    except NoGuarantee:
        assert not any(math.isfinite(bound) for bound in other_bounds(plan, delta))
        return
    assert found <= 1.01 * min(other_bounds(plan, delta)) + 1e-9
    for allowed in gaussian_instead(plan):  # `pld` is within 1e-4 of the exact ε of these
        assert found >= guarantee(allowed, delta=delta).epsilon * (1 - 2e-4) - 1e-12


# --- dominating pairs from bounds -----------------------------------------------------------------------------------


def stick(pair: Envelope, epsilon: float) -> float:
    return float((pair.mass * np.maximum(-np.expm1(epsilon - pair.loss), 0.0)).sum()) + pair.infinite


@given(st.floats(-7, 1.5).map(lambda x: 10**x), st.floats(-9, 9))
@settings(max_examples=60, deadline=None)
def test_the_pair_of_zcdp_dominates_gaussian_noise_and_its_own_bound(rho: float, deviations: float) -> None:
    """Also at negative ε, where profiles decide compositions too: H(−ε) = 1 − e^−ε + e^−ε·H(ε)."""
    pair = concentrated(rho)
    epsilon = deviations * math.sqrt(2 * rho)
    exact = profile.gaussian(math.sqrt(2 * rho), abs(epsilon))
    bound = float(concentrated_deltas(rho, np.array([abs(epsilon)]))[0])
    if epsilon < 0:
        exact, bound = (-math.expm1(epsilon) + math.exp(epsilon) * value for value in (exact, bound))
    assert stick(pair, epsilon) >= exact * (1 - 1e-9)
    assert stick(pair, epsilon) <= bound * 1.1 + 1e-15


@pytest.mark.parametrize(
    "item", [Pure("0.7"), LaplaceNoise("1.4"), BoundedRange("0.7"), Normal(Fraction(1, 4)), DiscreteGaussianNoise(2, 1)]
)
def test_a_pair_made_from_a_known_profile_is_nowhere_below_it(item: Item) -> None:
    epsilons = knots(6.0, 0.5)
    bounds = np.array([profile.of(item, float(epsilon)) for epsilon in epsilons])
    pair = envelope(epsilons, bounds, bounds)
    for epsilon in np.linspace(0, 5.9, 137):
        exact = profile.of(item, float(epsilon))
        assert exact * (1 - 1e-11) <= stick(pair, float(epsilon)) <= exact * 1.03 + 5e-3 * (exact > 0) + 1e-12
        other = -math.expm1(-epsilon) + math.exp(-epsilon) * exact
        assert stick(pair, -float(epsilon)) >= other * (1 - 1e-11)
    assert pair.mass.sum() + pair.infinite == pytest.approx(1, abs=1e-9)


def test_a_bound_that_is_not_convex_is_replaced_by_its_hull() -> None:
    """A convex profile below the bounds is below their hull, so a needless bump costs nothing."""
    epsilons = np.array([0.0, 0.5, 1.0, 2.0])
    bumpy = np.array([0.4, 0.39, 0.1, 0.0])
    smooth = envelope(np.delete(epsilons, 1), np.delete(bumpy, 1), np.delete(bumpy, 1))
    pair = envelope(epsilons, bumpy, bumpy)
    for epsilon in np.linspace(0, 2, 21):
        assert stick(pair, float(epsilon)) == pytest.approx(stick(smooth, float(epsilon)), abs=1e-9)


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.5, 20.0])
def test_the_conversion_of_zcdp_is_above_its_exact_value_and_near(rho: float) -> None:
    for epsilon in (rho, rho + math.sqrt(rho), rho + 9 * math.sqrt(rho)):
        (ours,) = concentrated_deltas(rho, np.array([epsilon]))
        with mpmath.workdps(40):
            r, e, low, high = mpmath.mpf(rho), mpmath.mpf(epsilon), mpmath.mpf(-30), mpmath.mpf(60)
            for _ in range(120):  # ln(α − 1) where the derivative is 0
                middle = (low + high) / 2
                over = (2 * mpmath.exp(middle) + 1) * r - mpmath.log1p(mpmath.exp(-middle)) > e
                low, high = (low, middle) if over else (middle, high)
            more = mpmath.exp(low)
            best = mpmath.exp(more * ((1 + more) * r - e) - low - (1 + more) * mpmath.log1p(1 / more))
        variation = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
        assert min(float(best), variation) <= ours <= min(float(best), variation) * (1 + 1e-9)


def test_parallel_compositions_inside_a_composition_are_joined() -> None:
    """The joined pair is above each branch, at every δ."""
    branches = [Together(SAMPLED, Pure("0.05")), Repeated(LaplaceNoise(20), 3), Approximate("0.01", "1e-7")]
    plan = Together(Pure("0.1"), GaussianNoise(10), Parallel(*branches))
    (choice,) = (item for item, _ in bill(plan).items if isinstance(item, Choice))
    assert len(choice.bills) == 3
    for delta in ("1e-3", "1e-5"):
        joined = guarantee(plan, delta=delta)
        each = [guarantee(Together(Pure("0.1"), GaussianNoise(10), branch), delta=delta).epsilon for branch in branches]
        assert joined.by == "pld"
        assert max(each) <= joined.epsilon <= 1.1 * max(each)


# --- merging ------------------------------------------------------------------------------------------------------


@given(
    st.lists(
        st.tuples(
            st.one_of(
                st.builds(Pure, st.floats(0.01, 2)),
                st.builds(LaplaceNoise, st.floats(0.5, 100)),
                st.builds(SampledGaussian, st.floats(0.001, 0.9), st.floats(0.5, 10)),
                st.builds(DiscreteGaussianNoise, st.floats(1, 9), st.integers(1, 3)),
            ),
            st.integers(1, 5),
        ),
        min_size=8,
        max_size=30,
        unique_by=lambda pair: repr(pair[0]),
    )
)
@settings(max_examples=40, deadline=None)
def test_a_merged_bill_is_shorter_and_costs_at_least_as_much(items: list[tuple[Loss, int]]) -> None:
    total = bill(Together(*(Repeated(item, count) for item, count in items))).items
    few = merged(total, most=6)
    assert len(few) <= 6
    before = zcdp.rho(Together(*(Repeated(item, count) for item, count in items)))
    after = zcdp.rho(Together(*(Repeated(item, count) for item, count in few)))  # type: ignore[arg-type]
    assert after >= before
    noisy = sum(count for item, count in total if not isinstance(item, DiscreteGaussianNoise))
    assert sum(count for item, count in few if not isinstance(item, Concentrated)) == noisy


def test_merging_costs_little_where_losses_are_near(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Together(*(SampledGaussian("0.01", 1 + Fraction(k, 300)) for k in range(120)))
    exact = pld.epsilon(steps, delta="1e-6")
    monkeypatch.setattr(pld, "_MOST_ITEMS", 40)
    assert exact * (1 - 1e-4) <= pld.epsilon(steps, delta="1e-6") <= 1.01 * exact


def test_few_items_stay_as_they_are() -> None:
    items = bill(Together(Pure(1), LaplaceNoise(2), GaussianNoise(3))).items
    assert merged(items, most=3) is items
    assert covers(bill(Pure(2)), bill(Pure(1)))


def test_the_delta_of_a_parallel_branch_is_kept() -> None:
    """(ε, δ) inside a branch strikes with probability δ, wherever the branch stands."""
    plan = Together(Pure("0.1"), Parallel(Approximate("0.1", "0.001"), GaussianNoise(9)))
    assert delta_for(plan, epsilon=5).delta >= Fraction(1, 1000)
    with pytest.raises(NoGuarantee):
        guarantee(plan, delta="0.0009")


def test_sampled_steps_are_merged_to_the_greatest_rate_and_the_least_noise() -> None:
    steps: list[Item] = [SampledGaussian("0.5", 3), SampledGaussian("0.01", 1), SampledGaussian("0.02", 2)]
    assert merged(tuple((step, 2) for step in steps), most=1) == ((SampledGaussian("0.5", 1), 6),)
