"""The closed forms of `query.sensitivity` against every pair of neighbors over a few groups, in both relations."""

from itertools import product

import pytest

from discreet.curator.catalog import Column, Table
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.algebra import relations
from discreet.sql.algebra.expression import field
from discreet.sql.algebra.relations import Bound, Count, Group, Key, Measure, People, Sum
from discreet.sql.algebra.rows import Scan

ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE


def bounded(groups: int, rows: int, size: int | None) -> Bound:
    """Up to `size` groups, or as many as the data hold."""
    column = Column("g", "integer", lower=1, upper=size, nullable=False) if size else Column("g", "text")
    table = Table("t", [Column("p", "integer"), column], unit=Unit("p"))
    key = Key("g", field(column), field(column).domain if size else None)
    return Bound(Group(Scan(table), (key,)), groups, rows)


def summed(lower: int, upper: int, offset: int) -> Sum:
    return Sum(field(Column("x", "integer", lower=lower, upper=upper)), offset)


def ends(measure: Measure, rows: int) -> tuple[int, int]:
    """What a unit can add to one group, from the definitions alone: it may have from no row to `rows` full ones."""
    if isinstance(measure, People):
        return 0, 1
    if isinstance(measure, Count):
        return 0, rows
    each = [measure.kind.lower - measure.offset, measure.kind.upper - measure.offset]  # type: ignore[operator]
    return min(0, rows * min(each)), max(0, rows * max(each))


def exact(measure: Measure, bound: Bound, neighbors: Neighbors) -> tuple[int, int]:
    """The largest ℓ1 and squared ℓ2 distance, over all contributions at the ends of what is allowed."""
    places = bound.source.size or 2 * bound.groups
    allowed = sorted({0, *ends(measure, bound.rows)})
    units = [v for v in product(allowed, repeat=places) if sum(map(bool, v)) <= bound.groups]
    others = [(0,) * places] if neighbors is ADD else units
    pairs = [[abs(a - b) for a, b in zip(v, w, strict=True)] for v in units for w in others]
    return max(map(sum, pairs)), max(sum(x * x for x in pair) for pair in pairs)


MEASURES = [Count(None), People(None), summed(0, 5, 0), summed(-3, 5, 0), summed(-4, 4, 0), summed(0, 9, 4),
            summed(2, 7, 0), summed(-7, -2, 0)]  # fmt: skip


@pytest.mark.parametrize("neighbors", [ADD, CHANGE], ids=str)
@pytest.mark.parametrize("measure", MEASURES, ids=str)
def test_the_sensitivity_is_the_largest_distance_of_neighbors(measure: Measure, neighbors: Neighbors) -> None:
    for groups, rows, size in [(1, 1, 1), (1, 3, 4), (2, 1, None), (2, 2, 3), (2, 3, 4), (3, 2, 3), (3, 1, 4)]:
        bound = bounded(groups, rows, size)
        found = relations.sensitivity_of(measure, bound, neighbors)
        assert (found.l1, found.l2_squared) == exact(measure, bound, neighbors), (groups, rows, size)


@pytest.mark.parametrize("groups", [1, 2, 5])
def test_a_unit_changes_as_many_keys_as_it_can_leave_and_enter(groups: int) -> None:
    bound = bounded(groups, 1, None)
    assert relations.keys_changed(bound, ADD) == groups
    assert relations.keys_changed(bound, CHANGE) == 2 * groups
