"""A block on its way to a bounded aggregate: what the rules work on."""

from dataclasses import dataclass
from fractions import Fraction

from discreet.curator.catalog import Table
from discreet.sql.algebra import Bound, Key, Measure, Rows, scan_of
from discreet.sql.asked import Asked
from discreet.sql.kinds import Fixed


@dataclass(frozen=True, slots=True)
class Direct:
    """An aggregate that is a measure, in steps."""

    measure: int
    step: Fraction

    @property
    def places(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return (self.measure,)


@dataclass(frozen=True, slots=True)
class Mean:
    """An aggregate that is offset + (sum of value − offset)/count, held within the bounds of the value."""

    total: int
    count: int
    kind: Fixed
    offset: int

    @property
    def places(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return self.total, self.count


@dataclass(frozen=True, slots=True)
class Total:
    """A sum that shares the measures of a mean: (sum of value − offset) + offset·count."""

    total: int
    count: int
    step: Fraction
    offset: int

    @property
    def places(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return self.total, self.count


Derived = Direct | Mean | Total


@dataclass(frozen=True, slots=True)
class Limits:
    """Contribution bounds that the question states; None: the policy's hold."""

    groups: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows, keys and aggregates of a block; the rules fill in the rest."""

    rows: Rows
    keys: tuple[Key, ...]
    asked: tuple[Asked, ...]
    limits: Limits
    measures: tuple[Measure, ...] = ()
    derived: tuple[Derived, ...] = ()
    bound: Bound | None = None

    @property
    def table(self) -> Table:
        """The private table that is read."""
        return scan_of(self.rows).table
