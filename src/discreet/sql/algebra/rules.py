"""From a block to a bounded aggregate: a draft, and the rules that fill it in, one after another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from discreet.curator.catalog import Table
from discreet.errors import InternalError, InvalidQuery
from discreet.sql.algebra import conditions
from discreet.sql.algebra.expression import Constant, Expression, Field
from discreet.sql.algebra.kinds import MOST, Fixed
from discreet.sql.algebra.relations import Bound, Count, Filter, Group, Key, Measure, People, Rows, Sum, scan_of

Function = Literal["count", "people", "sum", "mean"]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate: rows (with a value), people (with such a row), the sum or the mean of a value."""

    function: Function
    value: Expression | None


@dataclass(frozen=True, slots=True)
class Direct:
    """An aggregate that is a measure, in steps."""

    measure: int
    step: Fraction

    @property
    def indices(self) -> tuple[int, ...]:
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
    def indices(self) -> tuple[int, ...]:
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
    def indices(self) -> tuple[int, ...]:
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
    calls: tuple[AggregateCall, ...]
    limits: Limits
    measures: tuple[Measure, ...] = ()
    derived: tuple[Derived, ...] = ()
    bound: Bound | None = None

    @property
    def table(self) -> Table:
        """The private table that is read."""
        return scan_of(self.rows).table


def keep_declared_groups(draft: Draft) -> Draft:
    """Filter rows to declared groups, so that none of a unit's places is wasted on a group that is not answered."""
    rows = draft.rows
    for key in draft.keys:
        condition = _declared(key)
        if condition is not None:
            rows = Filter(rows, condition)
    return replace(draft, rows=rows)


def _declared(key: Key) -> Expression | None:
    """The condition that a key is one of its values; None where it always is."""
    if key.domain is None:
        return None
    if isinstance(key.domain, range) or not isinstance(key.value, Field) or key.value.column.values is None:
        return None
    inside = conditions.among(key.value, [Constant(value, key.value.kind) for value in key.domain])
    return conditions.either(inside, conditions.is_null(key.value)) if key.value.nullable else inside


_ONE = Fraction(1)


def choose_measures(draft: Draft) -> Draft:
    """Each aggregate from as few measures as possible; equal measures are released once.

    A mean is the middle of the bounds plus (sum of distances from the middle) ÷ count: the sum about the middle is
    half as sensitive, and the same rows weigh in both. Where the mean of a value is asked for, its sum is taken from
    the same two measures instead of a third.
    """
    measures: list[Measure] = []
    centered = {call.value for call in draft.calls if call.function == "mean"}
    derived = tuple(_derived(call, measures, centered) for call in draft.calls)
    return replace(draft, measures=tuple(measures), derived=derived)


def _derived(call: AggregateCall, measures: list[Measure], centered: set[Expression | None]) -> Derived:
    value = call.value
    if call.function == "people":
        return Direct(_index_of(measures, People(value)), _ONE)
    if call.function == "count" or value is None:
        return Direct(_index_of(measures, Count(value)), _ONE)
    kind = value.kind
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise InternalError("a sum without bounds reached the rules")
    if value not in centered:
        return Direct(_index_of(measures, Sum(value, 0)), kind.step)
    middle = (kind.lower + kind.upper) // 2
    total = _index_of(measures, Sum(value, middle))
    count = _index_of(measures, Count(value if value.nullable else None))
    if call.function == "mean":
        return Mean(total, count, kind, middle)
    return Total(total, count, kind.step, middle)


def _index_of(measures: list[Measure], measure: Measure) -> int:
    if measure not in measures:
        measures.append(measure)
    return measures.index(measure)


def bound_contributions(draft: Draft) -> Draft:
    """Wrap the groups in a `Bound`: one row is one contribution; a person's are limited as stated."""
    group = Group(draft.rows, draft.keys)
    table = draft.table
    if table.unit is None or table.unit.key is None:
        return replace(draft, bound=Bound(group, 1, 1))
    most = group.size
    groups = 1 if most == 1 else draft.limits.groups or table.groups
    if groups is None:
        hint = "state a number of groups, or let the policy's table say `max_groups_per_unit = …`"
        raise InvalidQuery(f"nobody said in how many groups a person of {table.name!r} may count", hint)
    weighs = any(isinstance(measure, Count | Sum) for measure in draft.measures)
    rows = draft.limits.rows or table.rows if weighs else 1
    if rows is None:
        hint = "state a number of rows, or let the policy's table say `max_rows_per_group = …`"
        raise InvalidQuery(f"nobody said how many rows of a person of {table.name!r} may count in a group", hint)
    for measure in draft.measures:
        if isinstance(measure, Sum) and measure.reach * rows >= MOST:
            raise InvalidQuery(
                f"{measure} over {rows} rows is too large for 64 bits", "use fewer rows or narrower bounds"
            )
    return replace(draft, bound=Bound(group, groups if most is None else min(groups, most), rows))


Rule = Callable[[Draft], Draft]

RULES: tuple[Rule, ...] = (
    keep_declared_groups,
    choose_measures,
    bound_contributions,
)


def apply_rules(draft: Draft) -> Draft:
    """The draft after all rules."""
    for rule in RULES:
        draft = rule(draft)
    return draft
