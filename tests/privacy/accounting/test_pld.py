"""Numerical accounting: never below the truth, within 0.1 % of it, and fast."""

import contextlib
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import composition, pld, profile, rdp
from discreet.privacy.accounting import dominating_pairs as pairs
from discreet.privacy.accounting import loss_lattice as lattice
from discreet.privacy.accounting.itemization import Normal, bill
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
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

ANCHORS = {
    "a": (Repeated(GaussianNoise(20), 1000), "1e-6", 8.30623),
    "b": (Repeated(SampledGaussian("0.01", 4), 10_000), "1e-5", 0.94700),
    "b'": (Repeated(SampledGaussian("0.01", "1.1"), 10_000), "1e-5", 5.19262),
    "c": (Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100)), "1e-6", 5.39171),
    "d": (Repeated(Pure("0.01"), 10_000), "1e-6", 4.88552),
}


@pytest.mark.parametrize("name", ANCHORS)
def test_anchors_within_a_thousandth(name: str) -> None:
    loss, delta, published = ANCHORS[name]
    epsilon = pld.epsilon(loss, delta=delta)
    assert epsilon == pytest.approx(published, rel=1e-3)


def composed(pair: pairs.Pair, count: int, delta: float) -> float:
    return pld._search([(pair, count)], delta)


@pytest.mark.parametrize(
    ("mu", "count", "delta"),
    [
        (1.0, 2, 1e-6),
        (0.5, 10, 1e-12),
        (0.05, 1000, 0.01),
        (0.01, 10**4, 1e-6),
        (0.001, 10**6, 1e-6),
        (0.3, 100, 0.5),
        (0.3, 100, 1e-100),
        (0.3, 100, 1e-280),
        (3.0, 5, 1e-3),
        (1e-3, 10**4, 1e-9),
    ],
)
def test_gaussians_convolved_one_by_one_against_the_closed_form(mu: float, count: int, delta: float) -> None:
    """Gaussians are merged before they get here; unmerged they are a test with an exact answer."""
    exact = profile.least_epsilon(Normal(Fraction(mu) ** 2 * count), Fraction(delta))
    assert 0 <= composed(pairs.Gaussian(mu), count, delta) / exact - 1 < 1e-4


@pytest.mark.parametrize(
    ("each", "count", "delta"),
    [
        ("1", 3, 1e-6),
        ("0.1", 50, 1e-6),
        ("5", 10, 1e-6),
        ("0.01", 10**6, 1e-6),
        ("0.001", 10**6, 1e-100),
        ("20", 4, 1e-6),
    ],
)
def test_responses_against_the_optimal_composition(each: str, count: int, delta: float) -> None:
    exact = composition.optimal_epsilon(Repeated(Pure(each), count), delta=delta)
    assert abs(composed(pairs.Response(float(each)), count, delta) / exact - 1) < 2e-7


def lower_bound(paired: list[tuple[pairs.Pair, int]], epsilon: float) -> float:
    """A δ that the composition certainly exceeds.

    Merging outcomes is post-processing: each cell becomes one outcome of loss ln p/q, rounded down to a fine
    lattice; what lies outside is dropped. Only the convolution is shared with the accountant.
    """
    width = min(pair.scale for pair, _ in paired) / 100
    step, parts = width / 64, []
    for pair, count in paired:
        low, high = pair.reach(1e-30)
        edges = np.arange(math.floor(low / width) - 1, math.ceil(high / width) + 2) * width
        p, q = (mass[1:-1] for mass in pair.cells(edges))
        some = (p > 0) & (q > 0)
        index, where = np.unique(np.floor(np.log(p[some] / q[some]) / step).astype(np.int64), return_inverse=True)
        mass = np.bincount(where, weights=p[some])
        parts.append(lattice.Lattice(index, index * step, mass, np.zeros_like(mass), 0.0, step, count))
    theta = pld._tilt_to(parts, epsilon)
    middle = lattice.cumulants(parts, theta)
    deviation = math.sqrt(middle.variance)
    total = lattice.convolved(parts, theta, bottom=epsilon - 8 * deviation, top=middle.mean + 14 * deviation)
    above = total.loss > epsilon
    return float((total.mass[above] * -np.expm1(epsilon - total.loss[above])).sum()) * (1 - 1e-9)


MIXED: dict[str, list[tuple[pairs.Pair, int]]] = {
    "Laplace": [(pairs.Laplace(0.1), 100)],
    "bounded range": [(pairs.Bounded(1.0), 10)],
    "discrete Gaussian": [(pairs.DiscreteGaussian(1.5, 1), 10)],
    "broad discrete Gaussian": [(pairs.DiscreteGaussian(3000.0, 1000), 10)],
    "sampled, removing": [(pairs.Sampled(0.1, 1.0, adding=False), 10)],
    "sampled, adding": [(pairs.Sampled(0.1, 1.0, adding=True), 10)],
    "three kinds": [(pairs.Laplace(0.5), 4), (pairs.Gaussian(0.7), 1), (pairs.Response(0.3), 5)],
}


@pytest.mark.parametrize("delta", [1e-2, 1e-6])
@pytest.mark.parametrize("name", MIXED)
def test_between_a_lower_bound_and_a_thousandth_more(name: str, delta: float) -> None:
    epsilon = pld._search(MIXED[name], delta)
    assert lower_bound(MIXED[name], epsilon) <= delta
    assert lower_bound(MIXED[name], epsilon * (1 - 1e-3)) > delta
    assert pld._look_up(MIXED[name], epsilon) == pytest.approx(delta, rel=1e-3)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("rate", "sigma", "count", "delta"), [(0.001, 0.7, 1000, 1e-6), (0.01, 1.1, 300, 1e-5)])
def test_against_dp_accounting(rate: float, sigma: float, count: int, delta: float) -> None:
    """Heavy tails too: between their optimistic and (almost) their pessimistic estimate on a fine grid."""
    from dp_accounting.pld import privacy_loss_distribution as theirs

    def estimate(*, pessimistic: bool) -> float:
        one = theirs.from_gaussian_mechanism(
            sigma,
            sampling_prob=rate,
            pessimistic_estimate=pessimistic,
            value_discretization_interval=1e-4,
            use_connect_dots=pessimistic,
        )
        return float(one.self_compose(count).get_epsilon_for_delta(delta))

    epsilon = pld.epsilon(Repeated(SampledGaussian(rate, sigma), count), delta=delta)
    assert estimate(pessimistic=False) <= epsilon <= estimate(pessimistic=True) * (1 + 1e-4)


def test_mixed_against_dp_accounting() -> None:
    from dp_accounting.pld import privacy_loss_distribution as theirs

    laplace = theirs.from_laplace_mechanism(10, value_discretization_interval=1e-4).self_compose(100)
    gaussian = theirs.from_gaussian_mechanism(2, value_discretization_interval=1e-4)
    for delta in (1e-3, 1e-6, 1e-9):
        ours = pld.epsilon(ANCHORS["c"][0], delta=delta)
        assert ours == pytest.approx(laplace.compose(gaussian).get_epsilon_for_delta(delta), rel=1e-4)


def test_both_orders_of_neighbors_are_computed_where_they_differ() -> None:
    sampled, mixed = SampledGaussian("0.3", 1), Parallel(SampledGaussian("0.3", 1), Pure("0.5"))
    for loss in (sampled, mixed, Together(GaussianNoise(3), sampled)):
        assert len(pld._directions(bill(loss).items)) == 2
    assert len(pld._directions(bill(Together(GaussianNoise(3), Pure(1))).items)) == 1
    removing, adding = (pld._search([(of(sampled), 5)], 1e-3) for of in (pairs.removing, pairs.adding))
    assert adding < removing == pytest.approx(pld.epsilon(Repeated(sampled, 5), delta="1e-3"), rel=1e-12)


def test_approximate_parts_are_used_exactly() -> None:
    """δ strikes at least once with probability 1 − (1−δ)ⁿ, not n·δ."""
    loss = Together(Repeated(Approximate("0.1", "0.01"), 60), GaussianNoise(5))
    spent = 1 - 0.99**60
    with pytest.raises(NoGuarantee, match="additive"):
        pld.epsilon(loss, delta=spent - 1e-6)
    left = pld.epsilon(Together(Repeated(Pure("0.1"), 60), GaussianNoise(5)), delta=(0.5 - spent) / (1 - spent))
    assert pld.epsilon(loss, delta="0.5") == pytest.approx(left, rel=1e-9)
    assert pld.delta(loss, epsilon=left) == pytest.approx(0.5, rel=1e-4)
    assert pld.epsilon(Repeated(Approximate(0, "0.01"), 60), delta="0.5") == 0
    assert pld.delta(Repeated(Approximate(0, "0.01"), 60), epsilon=0) == pytest.approx(spent, rel=1e-11)


def test_parallel_alone_costs_its_greatest_branch() -> None:
    a = Together(Repeated(LaplaceNoise(10), 30), GaussianNoise(5))
    b = Repeated(SampledGaussian("0.2", 1), 5)
    for delta in ("1e-3", "1e-8"):
        branches = [pld.epsilon(branch, delta=delta) for branch in (a, b)]
        assert pld.epsilon(Parallel(a, b), delta=delta) == max(branches)
    for epsilon in (1, 3):
        assert pld.delta(Parallel(a, b), epsilon=epsilon) == max(pld.delta(x, epsilon=epsilon) for x in (a, b))


def test_a_split_that_depends_on_earlier_answers_costs_more_than_any_fixed_branch() -> None:
    """The maximum over fixed branches would not be sound: an analyst may choose the split after seeing an answer.

    First a response of loss ±1; then the target is put under A or B, whichever is worse at what is left of ε.
    Exact δ of that strategy: Σ over the response of mass·max(δ_A, δ_B)(ε ∓ 1).
    """
    first, a, b = Pure(1), LaplaceNoise(2), GaussianNoise("2.5")
    # two rounds, so that the choice in the second can follow the first
    plan = Repeated(Parallel(a, b), 2)
    fixed = max(pld.delta(Together(x, y), epsilon=1) for x in (a, b) for y in (a, b))
    adaptive = pld.delta(plan, epsilon=1)
    assert adaptive > fixed
    ((choice, _),) = bill(Parallel(a, b)).items
    truth = 1 / (1 + math.exp(-1))

    def worst(epsilon: float) -> float:
        if epsilon >= 0:
            return max(profile.delta(x, epsilon=epsilon) for x in (a, b))
        reverse = max(profile.delta(x, epsilon=-epsilon) for x in (a, b))
        return 1 - math.exp(epsilon) + math.exp(epsilon) * reverse

    strategy = truth * worst(0.6 - 1) + (1 - truth) * worst(0.6 + 1)
    ours = pld.delta(Together(first, Parallel(a, b)), epsilon="0.6")
    assert strategy <= ours <= strategy * (1 + 1e-3)
    assert ours > max(pld.delta(Together(first, x), epsilon="0.6") for x in (a, b))
    assert choice is not None


def test_parallel_of_compositions_inside_a_composition_costs_a_little_more_than_its_dearest_branch() -> None:
    branches = Together(LaplaceNoise(2), GaussianNoise(3)), Together(Pure("0.4"), SampledGaussian("0.1", 1))
    joined = pld.epsilon(Together(Parallel(*branches), Pure(1)), delta="1e-6")
    dearest = max(pld.epsilon(Together(branch, Pure(1)), delta="1e-6") for branch in branches)
    both = pld.epsilon(Together(*branches, Pure(1)), delta="1e-6")
    assert dearest <= joined < both
    assert joined < 1.01 * dearest


@pytest.mark.parametrize("loss", [PerDistance(1, "km", 0), Together(Pure(1), PerDistance(1, "km", 0))])
def test_no_dominating_pair(loss: Loss) -> None:
    with pytest.raises(NoGuarantee, match="no dominating pair"):
        pld.epsilon(Together(loss, Pure(1), LaplaceNoise(2)), delta="1e-6")


losses = st.one_of(
    st.builds(LaplaceNoise, st.floats(0.5, 50)),
    st.builds(Pure, st.floats(0.01, 1.5)),
    st.builds(GaussianNoise, st.floats(0.7, 50)),
    st.builds(SampledGaussian, st.floats(0.001, 0.9), st.floats(0.6, 10)),
    st.builds(DiscreteGaussianNoise, st.floats(0.7, 50), st.integers(1, 2)),
)
plans = st.builds(
    lambda a, n, b, m: Together(Repeated(a, n), Repeated(b, m)), losses, st.integers(1, 60), losses, st.integers(1, 60)
)


@given(plans, st.floats(-12, -1))
@settings(max_examples=25, deadline=None)
def test_never_above_renyi_or_pure_and_falling_in_delta(plan: Loss, exponent: float) -> None:
    delta = 10**exponent
    epsilon = pld.epsilon(plan, delta=delta)
    assert epsilon <= rdp.epsilon(rdp.curve(plan), delta=delta) * (1 + 1e-4) + 1e-9
    with contextlib.suppress(NoGuarantee):
        assert epsilon <= float(composition.pure(plan)) * (1 + 1e-11)
    assert pld.epsilon(plan, delta=min(delta * 10, 0.9)) <= epsilon * (1 + 1e-4) + 1e-12
    assert pld.epsilon(Together(plan, Pure("0.01")), delta=delta) >= epsilon * (1 - 1e-4) - 1e-12


@given(plans, st.floats(-10, -1))
@example(Together(Repeated(Pure(1), 1), Repeated(Pure(1), 1)), -8)
@settings(max_examples=25, deadline=None)
def test_delta_and_epsilon_agree(plan: Loss, exponent: float) -> None:
    """δ(ε(δ)) ≤ δ up to what rounding costs; both are upper bounds, computed in different windows."""
    delta = 10**exponent
    epsilon = pld.epsilon(plan, delta=delta) * (1 + 1e-9)  # where δ falls steeply, the last digits of ε count
    assert pld.delta(plan, epsilon=Fraction(epsilon)) <= delta * (1 + 1e-2)


def test_extremes() -> None:
    assert pld.epsilon(Together(), delta=0) == 0
    assert pld.delta(Together(), epsilon=0) == 0
    assert pld.epsilon(Repeated(Pure("1e-9"), 10), delta="1e-280") == pytest.approx(1e-8, rel=1e-3)
    assert pld.epsilon(Repeated(Pure(100), 3), delta="0.5") < 300
    assert pld.epsilon(Repeated(LaplaceNoise(1000), 5), delta="0.5") == 0
    assert pld.epsilon(Repeated(SampledGaussian("0.5", 1), 3), delta="0.999") == 0
    assert pld.epsilon(Repeated(SampledGaussian("1e-12", 1), 3), delta="1e-6") == 0
    tiny = Repeated(SampledGaussian("1e-6", 1), 10**6)
    assert pld.epsilon(tiny, delta="1e-6") < 0.02
    nearly_all = Together(Repeated(SampledGaussian("0.999999999999", 5), 20), Pure("0.1"))
    everybody = Together(Repeated(GaussianNoise(5), 20), Pure("0.1"))
    assert pld.epsilon(nearly_all, delta="1e-6") == pld.epsilon(everybody, delta="1e-6")
    million = Repeated(LaplaceNoise(1000), 10**6)
    assert pld.epsilon(million, delta="1e-6") == pytest.approx(4.8866, rel=1e-3)
    assert pld.delta(Repeated(LaplaceNoise(10), 5), epsilon="0.500001") == 0
    assert pld.delta(Repeated(LaplaceNoise(10), 5), epsilon="1e400") == 0


@pytest.mark.parametrize(
    ("loss", "delta", "why"),
    [
        (Repeated(LaplaceNoise(1), 2), "1e-300", "1e-290"),
        (Repeated(LaplaceNoise("1e-3"), 2), "1e-6", "e\\^300"),
        (Repeated(Repeated(LaplaceNoise(1), 10**9), 10**9), "1e-6", "releases"),
    ],
)
def test_out_of_reach_is_said(loss: Loss, delta: str, why: str) -> None:
    with pytest.raises(NoGuarantee, match=why):
        pld.epsilon(loss, delta=delta)


@pytest.mark.parametrize("bad", [-1, 1, math.nan, math.inf, True, "x", None])
def test_bad_delta(bad: object) -> None:
    with pytest.raises(InvalidParameter):
        pld.epsilon(Pure(1), delta=bad)  # type: ignore[arg-type]


def test_bounded_range_is_sound_though_not_tight() -> None:
    """The pair for a single bounded-range loss dominates; composed it is pessimistic and `rdp` may do better."""
    hundred = Repeated(BoundedRange("0.5"), 100)
    numeric = pld.epsilon(hundred, delta="1e-6")
    assert (
        rdp.epsilon(rdp.curve(hundred), delta="1e-6") < numeric < pld.epsilon(Repeated(Pure("0.5"), 100), delta="1e-6")
    )
