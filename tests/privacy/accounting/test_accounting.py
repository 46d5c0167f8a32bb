"""`guarantee` and `delta_for`: the least of all sound answers, or a helpful refusal."""

import math
import pickle
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import Guarantee, composition, delta_for, guarantee, pld, profile, rdp, zcdp
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
    ("loss", "delta", "by", "epsilon"),
    [
        (Together(), 0, "pure", 0.0),
        (Pure("0.5"), 0, "pure", 0.5),
        (Repeated(GaussianNoise(20), 1000), "1e-6", "profile", 8.306226),
        (Repeated(SampledGaussian("0.01", 4), 10_000), "1e-5", "pld", 0.9469),
        (Repeated(Pure("0.01"), 10_000), "1e-6", "optimal", 4.8855157),
        (Repeated(BoundedRange("0.5"), 100), "1e-6", "rdp", 15.1087),
        (Concentrated("1.25"), "1e-6", "zcdp", 8.8458894),
        (Together(Concentrated("0.5"), GaussianNoise(1)), "1e-6", "pld", 7.67282),  # zcdp: 7.7662
        (Approximate(1, "1e-6"), "1e-6", "basic", 1.0),
        (Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100)), "1e-6", "pld", 5.39172),
        (Pure(1), "1e-300", "pure", 1.0),
        (Repeated(LaplaceNoise(1), 3), "1e-300", "pure", 3.0),
        (Repeated(Together(Pure("0.01"), GaussianNoise(100)), 5), "1e-300", "rdp", 0.87497),
    ],
)
def test_the_best_accountant_wins(loss: Loss, delta: str, by: str, epsilon: float) -> None:
    found = guarantee(loss, delta=delta)
    assert found.by == by
    assert found.epsilon == pytest.approx(epsilon, rel=2e-4)
    assert found.delta == Fraction(delta)


atoms = st.one_of(
    st.builds(Pure, st.floats(0.001, 2)),
    st.builds(BoundedRange, st.floats(0.001, 2)),
    st.builds(Approximate, st.floats(0.001, 2), st.just("1e-12")),
    st.builds(Concentrated, st.floats(1e-5, 0.5)),
    st.builds(LaplaceNoise, st.floats(0.5, 100)),
    st.builds(GaussianNoise, st.floats(0.7, 100)),
    st.builds(DiscreteGaussianNoise, st.floats(0.7, 100), st.integers(1, 2)),
    st.builds(SampledGaussian, st.floats(0.001, 0.9), st.floats(0.7, 10)),
)
plans = st.lists(st.builds(Repeated, atoms, st.integers(1, 30)), min_size=1, max_size=2).map(
    lambda parts: Together(*parts)
)


@given(plans, st.floats(-8, -1))
@settings(max_examples=40, deadline=None)
def test_least_of_all_and_monotone(plan: Loss, exponent: float) -> None:
    delta = 10**exponent
    best = guarantee(plan, delta=delta).epsilon
    for accountant in (
        lambda: float(composition.pure(plan)),
        lambda: composition.advanced(plan, delta=delta),
        lambda: zcdp.epsilon(zcdp.rho(plan), delta=delta),
        lambda: rdp.epsilon(rdp.curve(plan), delta=delta),
        lambda: pld.epsilon(plan, delta=delta),
    ):
        try:
            assert best <= accountant() * (1 + 1e-9) + 1e-12
        except NoGuarantee:
            continue
    assert guarantee(plan, delta=min(0.5, 3 * delta)).epsilon <= best * (1 + 1e-4) + 1e-12
    assert guarantee(Together(plan, plan), delta=delta).epsilon >= best * (1 - 1e-4)


@given(plans, st.floats(-8, -1))
@settings(max_examples=25, deadline=None)
def test_delta_for_is_the_converse(plan: Loss, exponent: float) -> None:
    delta = 10**exponent
    epsilon = guarantee(plan, delta=delta).epsilon
    assert delta_for(plan, epsilon=Fraction(epsilon)).delta <= Fraction(delta) * Fraction(101, 100)


def test_delta_for() -> None:
    assert delta_for(Pure(1), epsilon=1) == Guarantee(1.0, Fraction(0), "pure")
    assert delta_for(Pure(1), epsilon=0).delta == pytest.approx(Fraction(math.expm1(1) / (1 + math.e)), rel=1e-9)
    assert delta_for(GaussianNoise("4.22468"), epsilon=1).by == "profile"
    assert delta_for(Approximate(1, "1e-6"), epsilon=1).delta == Fraction(1, 10**6)
    assert delta_for(Concentrated("0.01"), epsilon=1).by == "zcdp"
    assert delta_for(GaussianNoise("1e-9"), epsilon=1).delta == 1
    assert delta_for(Together(), epsilon=0).delta == 0


@pytest.mark.parametrize(
    ("loss", "delta", "why"),
    [
        (GaussianNoise(10), 0, "not pure ε-DP for any ε, because of its tails; ask with delta > 0"),
        (SampledGaussian("0.1", 10), 0, "ask with delta > 0"),
        (Approximate(1, "1e-6"), "1e-7", "does not cover the additive δ = 1e-06"),
        (Repeated(Approximate(1, "1e-6"), 10), "9e-6", "ask with a greater delta"),
        (PerDistance("0.7", "km", 0), "1e-6", "d-privacy per km .*within"),
        (Together(Pure(1), PerDistance("0.7", "km", 0)), 0, "within"),
        (GaussianNoise("1e-400"), "0.5", "protects nobody"),
    ],
)
def test_refusals_say_what_to_do(loss: Loss, delta: object, why: str) -> None:
    with pytest.raises(NoGuarantee, match=why):
        guarantee(loss, delta=delta)  # type: ignore[arg-type]


def test_no_delta_for_distances() -> None:
    with pytest.raises(NoGuarantee, match="within"):
        delta_for(PerDistance(1, "km", 0), epsilon=1)


@pytest.mark.parametrize("bad", [-1, "-1e-9", 1, 2, math.nan, math.inf, True, "x", None, [1]])
def test_bad_delta(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="delta"):
        guarantee(Pure(1), delta=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf, False, "x", None])
def test_bad_epsilon(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="epsilon"):
        delta_for(Pure(1), epsilon=bad)  # type: ignore[arg-type]


def test_delta_has_no_default_and_no_position() -> None:
    with pytest.raises(TypeError):
        guarantee(Pure(1))  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        guarantee(Pure(1), "1e-6")  # type: ignore[misc]


def test_a_guarantee_is_a_plain_value() -> None:
    found = guarantee(GaussianNoise(5), delta="1e-6")
    assert pickle.loads(pickle.dumps(found)) == found
    assert str(Guarantee(0.5, Fraction(0), "pure")) == "(0.5, 0)-DP by pure"
    with pytest.raises(AttributeError):
        found.epsilon = 0.0  # type: ignore[misc]


def test_rounding_is_up() -> None:
    assert Fraction(guarantee(Repeated(Pure("0.1"), 3), delta=0).epsilon) >= Fraction(3, 10)
    assert Fraction(guarantee(LaplaceNoise(3), delta=0).epsilon) >= Fraction(1, 3)


def test_parallel_costs_the_greatest_part_everywhere() -> None:
    parts = [Repeated(LaplaceNoise(10), 20), Repeated(GaussianNoise(5), 3), Pure("0.5")]
    whole = guarantee(Parallel(*parts), delta="1e-6").epsilon
    assert whole == max(guarantee(part, delta="1e-6").epsilon for part in parts)


def test_many_different_losses_are_convolved() -> None:
    many = Together(*(LaplaceNoise(1000 + k) for k in range(1000)))
    found = guarantee(many, delta="1e-6")
    assert found.by == "pld"
    assert found.epsilon < 0.95 * rdp.epsilon(rdp.curve(many), delta="1e-6")


def test_nothing_heavy_is_imported_by_importing() -> None:
    import subprocess
    import sys

    code = "import sys, discreet.privacy.accounting, discreet.privacy.calibration; print('scipy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"


def test_profile_is_in_reach_of_the_package() -> None:
    assert profile.epsilon(GaussianNoise(5), delta="1e-6") == guarantee(GaussianNoise(5), delta="1e-6").epsilon
