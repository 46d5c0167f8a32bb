"""Disjoint parts under both neighbor relations, against the exact laws of two noisy counts."""

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.learning.classical import RandomForestClassifier
from discreet.privacy import (
    Approximate,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Neighbors,
    Parallel,
    Pure,
    Repeated,
    Together,
    disjoint,
    guarantee,
)
from discreet.privacy.accounting import composition
from discreet.privacy.calibration import group

ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
PARTS = ("north", "south", "west")


def neighboring(relation: Neighbors, people: int) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """All pairs of tiny tables of one column that differ by one person."""
    pairs = []
    for table in product(PARTS, repeat=people):
        if relation is ADD:
            pairs += [(table, (*table, part)) for part in PARTS]
        else:
            pairs += [(table, (*table[:-1], part)) for part in PARTS if part != table[-1]]
    return pairs + [(b, a) for a, b in pairs]


def greatest_loss(relation: Neighbors, epsilons: tuple[int, ...]) -> float:
    """The greatest log-ratio of the laws of one noisy count a part: two-sided geometric noise, ratio e^−ε.

    ln P(y)/Q(y) = Σ ε·(|y − count′| − |y − count|), greatest at y = count where the counts differ.
    """
    worst = 0.0
    for one, other in neighboring(relation, 2):
        counts = [[table.count(part) for part in PARTS] for table in (one, other)]
        ys = [range(-3, 7)] * len(PARTS)
        for y in product(*ys):
            loss = sum(
                epsilon * (abs(at - there) - abs(at - here))
                for epsilon, at, here, there in zip(epsilons, y, *counts, strict=True)
            )
            worst = max(worst, loss)
    return worst


@pytest.mark.parametrize("epsilons", [(1, 1, 1), (3, 1, 2), (1, 5, 1)])
@pytest.mark.parametrize("relation", list(Neighbors))
def test_counts_of_disjoint_parts_cost_what_they_exactly_cost(relation: Neighbors, epsilons: tuple[int, ...]) -> None:
    stated = composition.pure(disjoint(*(Pure(e) for e in epsilons), neighbors=relation))
    assert stated == greatest_loss(relation, epsilons)


def test_parallel_alone_would_be_too_little_for_change_one() -> None:
    assert composition.pure(Parallel(Pure(1), Pure(1))) == 1 < greatest_loss(CHANGE, (1, 1, 1)) == 2


@pytest.mark.parametrize("relation", [*Neighbors, "add or remove one", "change one"])
def test_a_few_parts_and_many_parts(relation: Neighbors | str) -> None:
    """Many parts are not listed in pairs: twice any of them costs no less than any two, and no more where they are equal."""
    few, many = (disjoint(*[LaplaceNoise(4)] * count, neighbors=relation) for count in (3, 500))
    assert composition.pure(few) == composition.pure(many) == (Fraction(1, 4) if relation == ADD else Fraction(1, 2))
    unequal = [Pure(Fraction(k, 10)) for k in range(1, 40)]
    assert composition.pure(disjoint(*unequal, neighbors=relation)) >= (
        Fraction(39, 10) if relation == ADD else Fraction(39 + 38, 10)
    )


@pytest.mark.parametrize("relation", list(Neighbors))
def test_gaussian_parts(relation: Neighbors) -> None:
    """Moving from one Gaussian count to another is a shift by √2: less than a group of two."""
    found = guarantee(disjoint(*[GaussianNoise(5)] * 4, neighbors=relation), delta="1e-6").epsilon
    exact: Loss = GaussianNoise(5) if relation is ADD else Repeated(GaussianNoise(5), 2)
    assert found == pytest.approx(guarantee(exact, delta="1e-6").epsilon, rel=1e-9)
    assert found < guarantee(group(Parallel(*[GaussianNoise(5)] * 4), 2), delta="1e-6").epsilon


def test_deltas_add_up_where_two_parts_are_touched() -> None:
    loss = disjoint(Approximate(1, "1e-6"), Approximate(1, "1e-7"), neighbors=CHANGE)
    assert loss == Together(Approximate(1, "1e-6"), Approximate(1, "1e-7"))


def test_nothing_and_one_part() -> None:
    for relation in Neighbors:
        assert disjoint(neighbors=relation) == Parallel()
        assert disjoint(Pure(1), neighbors=relation) == Parallel(Pure(1))


def test_the_relation_is_stated() -> None:
    with pytest.raises(TypeError):
        disjoint(Pure(1), Pure(1))  # type: ignore[call-arg]
    with pytest.raises(InvalidParameter, match="change one"):
        disjoint(Pure(1), neighbors="bounded")


def test_a_forest_states_add_or_remove_one_and_twice_that_for_a_changed_row() -> None:
    """Rows are dealt to trees by lot, so a changed row stays with its tree: one tree pays for a row out and a row in."""
    x = np.linspace(0, 1, 400)[:, None]
    model = RandomForestClassifier(epsilon=2, bounds=(0, 1), classes=[0, 1], n_estimators=3, max_depth=1)
    cost = model.fit(x, (x[:, 0] > 0.5).astype(int)).cost_
    assert isinstance(cost, Parallel)
    assert composition.pure(cost) == 2
    assert composition.pure(group(cost, 2)) == 4
    assert '"add or remove one"' in str(RandomForestClassifier.__doc__)


@pytest.mark.parametrize("kind", [Together, Parallel])
@pytest.mark.parametrize("listed", [[Pure(1), Pure(2)], (Pure(1),), {Pure(1)}, iter([Pure(1)])])
def test_a_list_of_losses_is_to_be_unpacked(kind: type[Together] | type[Parallel], listed: object) -> None:
    with pytest.raises(InvalidParameter, match=r"unpack it: Together\(\*losses\)"):
        kind(listed)  # type: ignore[arg-type]


def test_laws_are_computed_far_enough() -> None:
    """The enumeration above reaches the worst outcome: a wider one changes nothing."""
    assert math.isclose(greatest_loss(ADD, (2, 1, 1)), 2)
