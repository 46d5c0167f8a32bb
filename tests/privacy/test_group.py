"""Group privacy: what a loss becomes for k units at once."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting import composition, guarantee, profile, zcdp
from discreet.privacy.calibration import group
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
    ("loss", "of_three"),
    [
        (Pure("0.1"), Pure("0.3")),
        (BoundedRange("0.1"), BoundedRange("0.3")),
        (Concentrated("0.1"), Concentrated("0.9")),
        (LaplaceNoise(6), LaplaceNoise(2)),
        (GaussianNoise(6), GaussianNoise(2)),
        (DiscreteGaussianNoise(6, 2), DiscreteGaussianNoise(6, 6)),
        (SampledGaussian(1, 6), GaussianNoise(2)),
        (SampledGaussian(0, 6), SampledGaussian(0, 6)),
        (Approximate("0.1", 0), Approximate("0.3", 0)),
        (Approximate(0, "1e-9"), Approximate(0, "3e-9")),
        (Repeated(Pure(1), 5), Repeated(Pure(3), 5)),
        (Together(Pure(1), GaussianNoise(3)), Together(Pure(3), GaussianNoise(1))),
        (Parallel(Pure(1), Pure(2)), Pure(6)),
        (Parallel(GaussianNoise(3), GaussianNoise(6)), GaussianNoise(1)),
        (Together(), Together()),
        (Parallel(), Together()),
        (Repeated(SampledGaussian("0.5", 1), 0), Repeated(SampledGaussian("0.5", 1), 0)),
    ],
)
def test_three(loss: Loss, of_three: Loss) -> None:
    assert group(loss, 3) == of_three


@given(st.fractions(0, 3, max_denominator=50), st.integers(1, 12), st.integers(3, 40))
@settings(max_examples=100, deadline=None)
def test_approximate_is_the_geometric_sum_rounded_up(epsilon: Fraction, k: int, digits: int) -> None:
    delta = Fraction(1, 10**digits)
    found = group(Approximate(epsilon, delta), k)
    assert isinstance(found, Approximate)
    assert found.epsilon == k * epsilon
    exact = float(delta) * math.fsum(math.exp(i * float(epsilon)) for i in range(k))
    if exact < 0.999:
        assert -1e-13 < float(found.delta) / exact - 1 < 1e-10
    else:
        assert found.delta <= 1


def test_approximate_is_capped_at_one_and_cheap_at_extremes() -> None:
    assert group(Approximate(1, "1e-6"), 1000) == Approximate(1000, 1)
    assert group(Approximate("1e-300", "1e-300"), 7).delta == pytest.approx(Fraction(7, 10**300), rel=1e-10)  # type: ignore[union-attr]
    assert group(Approximate(10**6, "1e-300"), 2).delta == 1  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [2, 3])
def test_a_walk_of_single_steps_by_enumeration(size: int) -> None:
    """Discrete Gaussian noise, datasets x₀ … x_k at distance 1 each: the ends are as far apart as stated."""
    sigma = Fraction(3, 2)
    for epsilon in (0.0, 0.5, 2.0):
        f = [math.exp(-((x / float(sigma)) ** 2) / 2) for x in range(-40, 41 + size)]
        total = sum(f[:81])
        direct = sum(max(0.0, f[i] - math.exp(epsilon) * f[i + size]) for i in range(81)) / total
        stated = profile.delta(group(DiscreteGaussianNoise(sigma, 1), size), epsilon=epsilon)
        assert stated == pytest.approx(direct, rel=1e-9)


def test_members_in_different_parts() -> None:
    """Two in one part, two in the other, or one in each: all three are possible, the worst counts."""
    a, b = LaplaceNoise(2), GaussianNoise(3)
    both = group(Parallel(a, b), 2)
    assert both == Parallel(Together(group(a, 2)), Together(a, b), Together(group(b, 2)))
    worst = guarantee(both, delta="1e-6").epsilon
    for split in (group(a, 2), group(b, 2), Together(a, b)):
        assert worst >= guarantee(split, delta="1e-6").epsilon


def test_too_many_splits_are_bounded_from_above() -> None:
    kinds = [Together(Pure(Fraction(1, k)), GaussianNoise(Fraction(20 - k))) for k in range(1, 9)]
    found = group(Parallel(*kinds), 12)
    assert found == Together(*(group(kind, 12) for kind in kinds))


@pytest.mark.parametrize("split", [(2, 0), (1, 1)])
def test_equal_parts_cost_no_more_than_one_part_with_all(split: tuple[int, int]) -> None:
    for kind in (Pure("0.3"), LaplaceNoise(3), GaussianNoise(3), DiscreteGaussianNoise(3, 1), Concentrated("0.1")):
        stated = guarantee(group(Parallel(kind, kind), 2), delta="1e-5").epsilon
        spread = Together(*(group(kind, n) for n in split if n))
        assert guarantee(spread, delta="1e-5").epsilon <= stated * (1 + 1e-3)


@pytest.mark.parametrize("loss", [Pure("0.2"), Concentrated("0.02"), GaussianNoise(4), BoundedRange("0.2")])
@given(k=st.integers(1, 6), m=st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_groups_of_groups(loss: Loss, k: int, m: int) -> None:
    assert group(group(loss, k), m) == group(loss, k * m)


def test_the_accountants_agree_with_the_theorems() -> None:
    assert composition.pure(group(Together(Pure(1), LaplaceNoise(4)), 4)) == 4 * Fraction(5, 4)
    assert zcdp.rho(group(Repeated(GaussianNoise(20), 10), 5)) == 25 * zcdp.rho(Repeated(GaussianNoise(20), 10))
    assert composition.basic(group(Approximate(1, "1e-9"), 2))[0] == 2


def test_one_is_itself_for_every_kind() -> None:
    for loss in (Pure(1), SampledGaussian("0.5", 1), PerDistance(1, "km", 0), Parallel(Pure(1), GaussianNoise(1))):
        assert group(loss, 1) is loss


@pytest.mark.parametrize(
    ("loss", "why"),
    [
        (SampledGaussian("0.01", 1), "sampled Gaussian"),
        (Repeated(SampledGaussian("0.01", 1), 100), "Approximate"),
        (PerDistance(1, "km", 0), "radius"),
    ],
)
def test_refused(loss: Loss, why: str) -> None:
    with pytest.raises(NoGuarantee, match=why):
        group(loss, 2)


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", None])
def test_bad_size(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="size"):
        group(Pure(1), bad)  # type: ignore[arg-type]
