"""The relational algebra of private reading: few nodes, frozen, and only a bounded relation can be aggregated.

::

    Scan ─ Filter ─ Group ─ Bound ─ Aggregate

What one unit can do to an `Aggregate` follows from its `Bound` alone, so an aggregate without one cannot be written.
"""

from dataclasses import dataclass, field

from discreet.curator.catalog import Table
from discreet.errors import InternalError
from discreet.exact import plain
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.algebra.expression import Domain, Expression, work_of_key, work_on_a_row
from discreet.sql.algebra.kinds import Fixed


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a private table, each column as it is treated."""

    table: Table

    @property
    def unit(self) -> Unit:
        """Whose rows they are."""
        if self.table.unit is None:
            raise InternalError(f"table {self.table.name!r} is public and was scanned as private")
        return self.table.unit


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    source: "Scan | Filter"
    condition: Expression


Rows = Scan | Filter
"""Rows of units: what a unit's rows become depends on that unit alone."""


def scan_of(rows: Rows) -> Scan:
    """The scan beneath all filters."""
    while isinstance(rows, Filter):
        rows = rows.source
    return rows


def conditions_of(rows: Rows) -> list[Expression]:
    """The conditions of all filters, innermost first."""
    return [*conditions_of(rows.source), rows.condition] if isinstance(rows, Filter) else []


LARGEST_DOMAIN = 10_000_000
"""No more groups than these are answered."""


def domain_of(value: Expression) -> Domain | None:
    """The values that a key can take, where they are public and few enough to be answered all."""
    domain = value.domain
    return None if domain is None or len(domain) > LARGEST_DOMAIN else domain


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by, and the values it can take where that is public; None: keys are selected privately.

    `name` is for people: what a key is called changes nothing about it.
    """

    name: str = field(compare=False, repr=False)
    value: Expression
    domain: Domain | None

    @property
    def size(self) -> int | None:
        """How many groups it makes, null included where it can be null."""
        return None if self.domain is None else len(self.domain) + self.value.nullable


@dataclass(frozen=True, slots=True)
class Group:
    """Rows in cells, one for each combination of keys; with no key, one cell."""

    source: Rows
    keys: tuple[Key, ...]

    @property
    def size(self) -> int | None:
        """How many groups are answered, whatever the data hold; None where that must be found privately."""
        total = 1
        for key in self.keys:
            if key.size is None:
                return None
            total *= key.size
        return total


@dataclass(frozen=True, slots=True)
class Bound:
    """Each unit counts in at most `groups` groups, and in each with the weight of at most `rows` rows.

    Which groups: those with the smallest digest of (unit, keys), a fair draw (`curator.draw`). Where a unit has
    n > `rows` rows in a cell, each of them weighs rows/n: whatever is added up over them, t, becomes ⌊t·rows/n + h⌋
    with h in [0, 1) from the same digest. Sums and counts shrink together, so means and shares are not bent, and
    rounding is not biased. Both depend on that unit's rows alone.
    """

    source: Group
    groups: int
    rows: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows have a value (None: how many rows there are)."""

    value: Expression | None

    def __str__(self) -> str:
        return "count of rows" if self.value is None else f"count of {self.value}"


@dataclass(frozen=True, slots=True)
class People:
    """How many units have a row with a value (None: a row)."""

    value: Expression | None

    def __str__(self) -> str:
        return "count of people" + ("" if self.value is None else f" with {self.value}")


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of value − offset, in steps, over rows where it is not null."""

    value: Expression
    offset: int

    @property
    def kind(self) -> Fixed:
        """The kind of the value, whose bounds are known."""
        if not isinstance(self.value.kind, Fixed) or not self.value.kind.bounded:
            raise InternalError("a sum without bounds was planned")
        return self.value.kind

    @property
    def reach(self) -> int:
        """The most steps that one row can add, in size."""
        lower, upper = self.kind.lower or 0, self.kind.upper or 0
        return max(abs(lower - self.offset), abs(upper - self.offset))

    def __str__(self) -> str:
        return f"sum of {self.value}" + (f" about {plain(self.offset * self.kind.step)}" if self.offset else "")


Measure = Count | People | Sum
"""A whole number in each cell, which each unit changes by a bounded amount."""


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Whole numbers for each group of a bounded relation."""

    source: Bound
    measures: tuple[Measure, ...]

    @property
    def parts(self) -> list[Expression]:
        """All expressions that are computed on each row: conditions, keys, values of measures."""
        group = self.source.source
        values = [measure.value for measure in self.measures if measure.value is not None]
        return [*conditions_of(group.source), *(key.value for key in group.keys), *values]

    @property
    def work(self) -> int:
        """The most nanoseconds that one row takes: all expressions, and being grouped by its keys."""
        grouped = sum(work_of_key(key.value) for key in self.source.source.keys)
        return sum(work_on_a_row(part) for part in self.parts) + grouped


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that a change of one unit moves the vector of all groups: in ℓ1, and in ℓ2 squared; whole steps."""

    l1: int
    l2_squared: int


def sensitivity_of(measure: Measure, bound: Bound, neighbors: Neighbors) -> Sensitivity:
    """The sensitivity of a measure over a bounded relation, under a neighbor relation.

    Guarantee: for any two datasets that differ in one unit, the vectors of this measure over all groups differ by at
    most `l1` in ℓ1 norm and √`l2_squared` in ℓ2 norm.
    Proof. The vector is the sum over units of vectors v that depend on that unit's rows alone; v is zero outside at
    most G groups (`Bound.groups`) and between −a and b within, where −a ≤ 0 ≤ b are whole: 0 and 1 for People, 0 and R
    for Count, R·min(0, lower − offset) and R·max(0, upper − offset) for Sum. (n ≤ R rows add up to that; n > R rows
    that add t, between n/R times the ends, count as ⌊t·R/n + h⌋ with 0 ≤ h < 1, which lies between the same ends since
    they are whole.) Let c = max(a, b). *Add or remove one* moves the total by one v: ℓ1 ≤ G·c, ℓ2² ≤ G·c².
    *Change one* replaces v by w. In k groups where both are, it moves by at most a + b; in at most 2(G − k) where one
    of them is, by at most c. There are `size` groups, so 2G − k ≤ size. Since a + b ≤ 2c, ℓ1 is greatest at the least
    such k; ℓ2² is linear in k, so greatest at the least or at k = G. Clamping totals moves no two further apart.
    """
    low, high = _reach_of_a_unit(measure, bound)
    most, spread, groups = max(1, -low, high), max(1, high - low), bound.groups
    if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
        return Sensitivity(groups * most, groups * most**2)
    size = bound.source.size
    both = 0 if size is None else max(0, 2 * groups - size)
    l1 = both * spread + 2 * (groups - both) * most
    return Sensitivity(l1, max(groups * spread**2, both * spread**2 + 2 * (groups - both) * most**2))


def keys_changed(bound: Bound, neighbors: Neighbors) -> int:
    """In how many groups a change of one unit can change the number of units, by one each.

    Proof. A unit is in at most G groups; changing it takes it out of at most G and puts it into at most G.
    """
    return bound.groups * (1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2)


def _reach_of_a_unit(measure: Measure, bound: Bound) -> tuple[int, int]:
    """Between what one unit adds to one group."""
    match measure:
        case People():
            return 0, 1
        case Count():
            return 0, bound.rows
        case Sum():
            lower, upper = (measure.kind.lower or 0) - measure.offset, (measure.kind.upper or 0) - measure.offset
            return bound.rows * min(0, lower), bound.rows * max(0, upper)
