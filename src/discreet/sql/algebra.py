"""The relational algebra of private reading: few nodes, frozen, and only a bounded relation can be aggregated.

::

    Scan ─ Filter ─ Group ─ Bound ─ Aggregate

What one unit can do to an `Aggregate` follows from its `Bound` alone, so an aggregate without one cannot be written.
"""

from dataclasses import dataclass, field

from discreet.curator.catalog import Table
from discreet.errors import InternalError
from discreet.exact import plain
from discreet.privacy.unit import Unit
from discreet.sql.expression import Domain, Expression, work_on_a_row
from discreet.sql.kinds import Fixed
from discreet.sql.work import work_of_key


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
