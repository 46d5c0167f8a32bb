"""Losses as atoms with counts: one place multiplies, nesting and order do not matter."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.privacy.accounting import profile
from discreet.privacy.accounting.itemization import (
    NOTHING,
    Algebra,
    Choice,
    Normal,
    bill,
    covers,
    fold,
    item_covers,
)
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

COUNTING: Algebra[int] = Algebra(atom=lambda _: 1, times=lambda n, x: n * x, total=sum, most=max)

positive = st.fractions(min_value=Fraction(1, 100), max_value=10, max_denominator=100)
atoms = st.one_of(
    st.builds(Pure, positive),
    st.builds(BoundedRange, positive),
    st.builds(Approximate, positive, st.fractions(0, Fraction(1, 100), max_denominator=10**6)),
    st.builds(Concentrated, positive),
    st.builds(LaplaceNoise, positive),
    st.builds(GaussianNoise, positive),
    st.builds(DiscreteGaussianNoise, positive, st.integers(0, 3)),
    st.builds(SampledGaussian, st.fractions(0, 1, max_denominator=100), positive),
    st.builds(PerDistance, positive, st.just("km"), st.just(0)),
)
losses = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds(Repeated, inner, st.integers(0, 4)),
        st.builds(lambda parts: Together(*parts), st.lists(inner, max_size=3)),
        st.builds(lambda parts: Parallel(*parts), st.lists(inner, max_size=3)),
    ),
    max_leaves=6,
)


def test_fold_multiplies_adds_and_takes_the_greatest() -> None:
    loss = Together(Repeated(Together(Pure(1), Repeated(Pure(1), 3)), 5), Parallel(Pure(1), Repeated(Pure(1), 7)))
    assert fold(loss, COUNTING) == 5 * (1 + 3) + 7


@pytest.mark.parametrize(
    "nothing", [Together(), Parallel(), Repeated(PerDistance(1, "km", 0), 0), Repeated(Together(), 9)]
)
def test_nothing_costs_nothing(nothing: Loss) -> None:
    assert fold(nothing, COUNTING) == 0
    assert bill(nothing) == NOTHING


@given(losses, losses, losses)
@settings(max_examples=150, deadline=None)
def test_together_is_associative_and_order_does_not_matter(a: Loss, b: Loss, c: Loss) -> None:
    flat = bill(Together(a, b, c))
    assert bill(Together(a, Together(b, c))) == flat
    assert bill(Together(Together(a, b), c)) == flat
    assert bill(Together(c, a, b)) == flat


@given(losses, st.integers(0, 5))
@settings(max_examples=150, deadline=None)
def test_repeated_is_that_many_copies(loss: Loss, n: int) -> None:
    assert bill(Repeated(loss, n)) == bill(Together(*[loss] * n))


@given(losses, losses)
@settings(max_examples=100, deadline=None)
def test_parallel_forgets_order_and_repetition(a: Loss, b: Loss) -> None:
    assert bill(Parallel(a, b)) == bill(Parallel(b, a)) == bill(Parallel(a, Parallel(b, a)))


@pytest.mark.parametrize(
    ("loss", "same"),
    [
        (Pure(0), Together()),
        (BoundedRange(0), Together()),
        (Approximate(1, 0), Pure(1)),
        (Approximate(0, 0), Together()),
        (Concentrated(0), Together()),
        (DiscreteGaussianNoise(3, 0), Together()),
        (SampledGaussian(0, 1), Together()),
        (SampledGaussian(1, 2), GaussianNoise(2)),
        (Together(GaussianNoise(3), GaussianNoise(4)), GaussianNoise(Fraction(12, 5))),
        (Repeated(GaussianNoise(4), 16), GaussianNoise(1)),
        (Together(Concentrated(1), Concentrated(2)), Concentrated(3)),
        (Parallel(Pure(1), Pure(2), LaplaceNoise(1)), Pure(2)),
    ],
)
def test_one_way_of_writing(loss: Loss, same: Loss) -> None:
    assert bill(loss) == bill(same)


def test_gaussians_of_a_composition_become_one() -> None:
    assert bill(Repeated(Together(GaussianNoise(2), GaussianNoise(2)), 3)).items == ((Normal(Fraction(3, 2)), 1),)


def test_branches_that_cannot_be_ordered_stay_a_choice() -> None:
    ((item, count),) = bill(Repeated(Parallel(Pure(1), GaussianNoise(2), Pure("0.5")), 4)).items
    assert isinstance(item, Choice)
    assert count == 4
    assert len(item.bills) == 2  # Pure(0.5) is covered by Pure(1)


ORDERED = [
    (Pure(2), Pure(1)),
    (Pure(1), BoundedRange(1)),
    (Pure(1), LaplaceNoise(1)),
    (BoundedRange(2), BoundedRange(1)),
    (Approximate(1, "0.1"), Approximate("0.9", "0.01")),
    (Approximate(1, "0.1"), Pure(1)),
    (Approximate(1, "0.1"), LaplaceNoise(1)),
    (LaplaceNoise(1), LaplaceNoise(2)),
    (GaussianNoise(1), GaussianNoise(2)),
    (GaussianNoise(1), SampledGaussian("0.9", 1)),
    (SampledGaussian("0.2", 1), SampledGaussian("0.1", 2)),
    (DiscreteGaussianNoise(3, 2), DiscreteGaussianNoise(3, 1)),
]


@pytest.mark.parametrize(("more", "less"), ORDERED)
def test_what_covers_has_the_higher_profile(more: Loss, less: Loss) -> None:
    """The order is claimed without numbers; the closed profiles must agree with it everywhere."""
    ((greater, _),), ((smaller, _),) = bill(more).items, bill(less).items
    assert item_covers(greater, smaller)
    assert not item_covers(smaller, greater)
    for i in range(60):
        epsilon = i / 20
        assert profile.of(greater, epsilon) >= profile.of(smaller, epsilon) * (1 - 1e-11)


def test_concentrated_covers_the_gaussian_of_the_same_rho_only() -> None:
    assert covers(bill(Concentrated("0.5")), bill(GaussianNoise(1)))
    assert not covers(bill(Concentrated("0.49")), bill(GaussianNoise(1)))
    assert not covers(bill(GaussianNoise(1)), bill(Concentrated("0.5")))


def test_a_bill_covers_another_item_by_item() -> None:
    three = bill(Together(Repeated(Pure(1), 2), GaussianNoise(1)))
    assert covers(three, bill(Together(Repeated(Pure("0.5"), 2), GaussianNoise(2))))
    assert not covers(three, bill(Repeated(Pure("0.5"), 3)))
    assert not covers(three, bill(Together(Pure("0.5"), Pure("0.4"))))  # two kinds of item cannot share one
    assert covers(three, NOTHING)
