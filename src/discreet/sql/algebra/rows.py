"""Rows of units: what may be done to private rows before they are grouped and bounded.

::

    Scan ─ Filter ─ Compute ─ Join ─ Exists ─ Step ─ Window ─ Projection      in any order, as often as wanted

Guarantee: the rows that a relation holds of a unit depend on that unit's rows in the private tables, and on public
tables, alone. Proof, by induction. A `Scan` gives a row to the unit that its own column names, or to each unit that its
chain of keys leads to (a row of the last table of the chain that names the unit, and the rows that lead there, are that
unit's). A `Filter` and a `Compute` look at one row. A `Join` or an `Exists` of two private relations compares rows of
the same unit only: the SQL adds that condition whatever the text says; public rows are nobody's. A `Step` groups, and a
`Window` partitions, within units; order among equal rows is decided by what they hold, never by where they lie. A
`Projection` puts rows of the same unit side by side. Hence two datasets that differ in one unit differ, in any
relation, in the rows of that unit.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from discreet.curator.catalog import ColumnType, Table
from discreet.errors import InternalError
from discreet.privacy.unit import Unit
from discreet.sql.algebra.conditions import union
from discreet.sql.algebra.expression import (
    Call,
    Constant,
    Domain,
    Expression,
    Field,
    Leaf,
    Slot,
    all_of,
    field,
    leaves_of,
)
from discreet.sql.algebra.kinds import MOST, Fixed, Kind

__all__ = [
    "Compute",
    "Exists",
    "Filter",
    "Join",
    "JoinKind",
    "Order",
    "Part",
    "PersonAggregate",
    "Projection",
    "PublicScan",
    "Rows",
    "Scan",
    "Step",
    "Window",
    "WindowCall",
    "at_most_one_row",
    "base_of",
    "conditions_of",
    "conjuncts_of",
    "expressions_above_scans",
    "expressions_of",
    "is_public",
    "is_scanned",
    "is_unit",
    "leaves_here",
    "lookup_columns",
    "main_scan",
    "nodes_of",
    "number_of",
    "optional_leaf",
    "own_expressions",
    "private_tables",
    "scans_of",
    "slots_of",
    "unit_of",
    "unit_type",
]


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a private table, each column as it is treated. `chain`: the tables that lead to the unit."""

    table: Table
    source: int = 0
    chain: tuple[Table, ...] = ()

    @property
    def unit(self) -> Unit:
        """Whose rows they are."""
        if self.table.unit is None:
            raise InternalError(f"table {self.table.name!r} is public and was scanned as private")
        return self.table.unit


@dataclass(frozen=True, slots=True)
class PublicScan:
    """The rows of a public table, each column as it is treated: nobody's."""

    table: Table
    source: int


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows for which a condition is true."""

    source: "Rows"
    condition: Expression


JoinKind = Literal["inner", "left", "right", "full"]


@dataclass(frozen=True, slots=True)
class Join:
    """Rows side by side: of the same unit where both are private, and where the condition is true (None: always).

    `left` keeps rows of the left side that match nothing, `right` those of the right side, `full` both. Where the right
    side is public, the kind is `inner` or `left`: a public row that matches nothing is nobody's. `lookup`: columns of
    a public right side, of which one row for each combination of values is used, so that no row becomes several: where
    rows are units of their own.
    """

    left: "Rows"
    right: "Rows"
    kind: JoinKind
    condition: Expression | None
    lookup: tuple[Leaf, ...] = ()


@dataclass(frozen=True, slots=True)
class Exists:
    """The rows for which another relation has (`negated`: has not) a row of the same unit that fits a condition."""

    source: "Rows"
    other: "Rows"
    condition: Expression | None
    negated: bool


Function = Literal["count", "sum", "mean", "min", "max", "distinct"]

MEAN_STEPS = 1000
"""A mean of one person's values is cut to a thousandth of the step that the values have."""


@dataclass(frozen=True, slots=True)
class PersonAggregate:
    """What a step computes for one person: rows (with a value), distinct values, sum, mean, least or greatest value."""

    function: Function
    value: Expression | None

    @property
    def kind(self) -> Kind:
        """Counts and sums have no upper bound of their own; a mean lies between the bounds of its value."""
        if self.function in ("count", "distinct"):
            return Fixed(Fraction(1), 1 if self.value is None else 0, None)
        if self.value is None:
            raise InternalError(f"{self.function} of nothing")
        kind = self.value.kind
        if self.function in ("min", "max"):
            return kind
        if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
            raise InternalError(f"{self.function} of a value without bounds")
        if self.function == "sum":
            return Fixed(kind.step, None, None) if kind.lower < 0 else Fixed(kind.step, 0, None)
        return Fixed(kind.step / MEAN_STEPS, kind.lower * MEAN_STEPS, kind.upper * MEAN_STEPS)

    @property
    def nullable(self) -> bool:
        """Whether it can be null: where every value of a person is."""
        return self.function not in ("count", "distinct") and self.value is not None and self.value.nullable

    @property
    def fits(self) -> bool:
        """Whether all steps that it can have are computed without overflow."""
        kind = self.kind
        ends = (kind.lower, kind.upper) if isinstance(kind, Fixed) else ()
        return all(end is None or abs(end) < MOST for end in ends)


@dataclass(frozen=True, slots=True)
class Step:
    """One row for each unit and combination of keys: its slots are the keys, then the aggregates."""

    source: "Rows"
    keys: tuple[Expression, ...]
    aggregates: tuple[PersonAggregate, ...]
    index: int


@dataclass(frozen=True, slots=True)
class Order:
    """A value that rows are ordered by."""

    value: Expression
    descending: bool
    nulls_first: bool


WindowFunction = Literal["row_number", "rank", "dense_rank", "lag", "lead", "count", "sum", "min", "max"]


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A function of a row among the rows of the same unit and partition, in an order; frames are SQL's usual ones."""

    function: WindowFunction
    value: Expression | None
    partition: tuple[Expression, ...]
    order: tuple[Order, ...]

    @property
    def kind(self) -> Kind:
        """The kind of its values."""
        if self.function in ("row_number", "rank", "dense_rank"):
            return Fixed(Fraction(1), 1, None)
        if self.function in ("lag", "lead") and self.value is not None:
            return self.value.kind
        return self._aggregate.kind

    @property
    def nullable(self) -> bool:
        """Whether it can be null."""
        if self.function in ("row_number", "rank", "dense_rank"):
            return False
        return True if self.function in ("lag", "lead") else self._aggregate.nullable

    @property
    def _aggregate(self) -> PersonAggregate:
        match self.function:
            case "count" | "sum" | "min" | "max" as function:
                return PersonAggregate(function, self.value)
            case other:
                raise InternalError(f"{other} is no aggregate of a person's rows")


@dataclass(frozen=True, slots=True)
class Window:
    """The same rows, each with a further slot for each call."""

    source: "Rows"
    calls: tuple[WindowCall, ...]
    index: int


@dataclass(frozen=True, slots=True)
class Compute:
    """The same rows, each with a further slot for each value: computed here, not above a join."""

    source: "Rows"
    columns: tuple[Expression, ...]
    index: int


@dataclass(frozen=True, slots=True)
class Part:
    """Rows, and the values that become slots."""

    rows: "Rows"
    columns: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """The rows of all parts, one after another (UNION ALL): the columns of a part are slots."""

    parts: tuple[Part, ...]
    index: int


Rows = Scan | PublicScan | Filter | Join | Exists | Step | Window | Compute | Projection
"""Rows of units, or of a public table: what a unit's rows become depends on that unit, and on public tables, alone."""


def base_of(rows: Rows) -> Rows:
    """What is beneath all filters."""
    while isinstance(rows, Filter):
        rows = rows.source
    return rows


def conditions_of(rows: Rows) -> list[Expression]:
    """The conditions of the filters on top, innermost first."""
    return [*conditions_of(rows.source), rows.condition] if isinstance(rows, Filter) else []


def is_public(rows: Rows) -> bool:
    """Whether rows are nobody's."""
    return all(isinstance(scan, PublicScan) for scan in scans_of(rows))


def _inputs(rows: Rows) -> tuple[Rows, ...]:
    """The relations that a relation is made of."""
    match rows:
        case Scan() | PublicScan():
            return ()
        case Join():
            return rows.left, rows.right
        case Exists():
            return rows.source, rows.other
        case Projection():
            return tuple(part.rows for part in rows.parts)
        case _:
            return (rows.source,)


def scans_of(rows: Rows) -> Iterator[Scan | PublicScan]:
    """All tables that are read, in the order of the text."""
    if isinstance(rows, Scan | PublicScan):
        yield rows
    for inner in _inputs(rows):
        yield from scans_of(inner)


def private_tables(rows: Rows) -> tuple[Table, ...]:
    """The private tables that are read, each once; chains are not among them."""
    return tuple(dict.fromkeys(scan.table for scan in scans_of(rows) if isinstance(scan, Scan)))


def main_scan(rows: Rows) -> Scan:
    """The first private table: what its unit is, the unit of the relation is."""
    for scan in scans_of(rows):
        if isinstance(scan, Scan):
            return scan
    raise InternalError("a relation without private rows was planned")


def unit_of(rows: Rows) -> Unit:
    """Whose rows they are."""
    return main_scan(rows).unit


def unit_type(rows: Rows) -> ColumnType | None:
    """The type of what identifies a person; None where the unit is a row."""
    scan = main_scan(rows)
    last = (scan.table, *scan.chain)[-1]
    return None if last.unit_column is None else last.unit_column.kind


def expressions_of(rows: Rows) -> Iterator[Expression]:
    """Every expression that is computed anywhere in a relation."""
    for inner in _inputs(rows):
        yield from expressions_of(inner)
    yield from own_expressions(rows)


def own_expressions(rows: Rows) -> Iterator[Expression]:
    """The expressions that a node itself computes."""
    match rows:
        case Filter():
            yield rows.condition
        case Join() | Exists():
            if rows.condition is not None:
                yield rows.condition
        case Step():
            yield from rows.keys
            yield from (call.value for call in rows.aggregates if call.value is not None)
        case Window():
            for call in rows.calls:
                yield from call.partition
                yield from (order.value for order in call.order)
                if call.value is not None:
                    yield call.value
        case Compute():
            yield from rows.columns
        case Projection():
            for part in rows.parts:
                yield from part.columns


def is_scanned(rows: Rows) -> bool:
    """Whether rows are those of a table, with or without conditions on them."""
    base = base_of(rows)
    return is_scanned(base.source) if isinstance(base, Compute) else isinstance(base, Scan | PublicScan)


def expressions_above_scans(rows: Rows) -> Iterator[Expression]:
    """The expressions that are computed on rows that a join, a step or a condition below has chosen."""
    for inner in _inputs(rows):
        yield from expressions_above_scans(inner)
    if isinstance(rows, Join | Exists) or not all(
        isinstance(base_of(inner), Scan | PublicScan) for inner in _inputs(rows)
    ):
        yield from own_expressions(rows)


def slots_of(rows: Step | Window | Compute | Projection) -> tuple[Slot, ...]:
    """The columns that a step, a window or a projection computes."""
    match rows:
        case Step():
            made = [(key.kind, key.nullable, key.domain) for key in rows.keys]
            made += [(call.kind, call.nullable, all_of(call.kind)) for call in rows.aggregates]
        case Window():
            made = [(call.kind, call.nullable, all_of(call.kind)) for call in rows.calls]
        case Compute():
            made = [(value.kind, value.nullable, value.domain) for value in rows.columns]
        case Projection():
            columns = zip(*(part.columns for part in rows.parts), strict=True)
            made = [
                (union([part.kind for part in parts]), any(part.nullable for part in parts), _joint_domain(parts))
                for parts in columns
            ]
    return tuple(Slot(rows.index, i, *parts) for i, parts in enumerate(made))


def _joint_domain(parts: tuple[Expression, ...]) -> Domain | None:
    domains = [part.domain for part in parts]
    if any(domain is None or isinstance(domain, range) for domain in domains):
        return all_of(union([part.kind for part in parts]))
    if all(domain == domains[0] for domain in domains):
        return domains[0]
    return tuple(dict.fromkeys(value for domain in domains for value in domain or ()))


def leaves_here(rows: Rows) -> Iterator[Leaf]:
    """The columns that a relation gives to what stands above it: all that its expressions may name."""
    match rows:
        case Scan() | PublicScan():
            yield from (field(column, rows.source) for column in rows.table.columns)
        case Filter():
            yield from leaves_here(rows.source)
        case Exists():
            yield from leaves_here(rows.source)
        case Join():
            optional = {"left": (False, True), "right": (True, False), "full": (True, True)}.get(
                rows.kind, (False,) * 2
            )
            for side, missing in zip((rows.left, rows.right), optional, strict=True):
                yield from (optional_leaf(leaf) if missing else leaf for leaf in leaves_here(side))
        case Window() | Compute():
            yield from leaves_here(rows.source)
            yield from slots_of(rows)
        case _:
            yield from slots_of(rows)


def optional_leaf(leaf: Leaf) -> Leaf:
    """A column on the side of an outer join that may match nothing."""
    return replace(leaf, optional=True) if isinstance(leaf, Field) else replace(leaf, optional=True, nullable=True)


def is_unit(value: Expression, rows: Rows) -> bool:
    """Whether an expression is what identifies the unit of its row: not where an outer join can leave it out."""
    if not isinstance(value, Field | Slot) or value.optional:
        return False
    for inner in nodes_of(rows):
        match inner:
            case Scan() if isinstance(value, Field) and inner.source == value.source:
                return inner.table.unit_column == value.column
            case Step() if isinstance(value, Slot) and inner.index == value.source:
                return value.index < len(inner.keys) and is_unit(inner.keys[value.index], inner.source)
            case Projection() if isinstance(value, Slot) and inner.index == value.source:
                return all(is_unit(part.columns[value.index], part.rows) for part in inner.parts)
    return False


def nodes_of(rows: Rows) -> Iterator[Rows]:
    """A relation and all that it is made of."""
    yield rows
    for inner in _inputs(rows):
        yield from nodes_of(inner)


def lookup_columns(condition: Expression | None, left: Rows) -> Iterator[Leaf]:
    """The columns that a condition requires to equal something that is known of the row on the left."""
    own = {(leaf.source, str(leaf)) for leaf in leaves_here(left)}
    match condition:
        case Call("and", arguments):
            for argument in arguments:
                yield from lookup_columns(argument, left)
        case Call("equal", (one, other)):
            for leaf, value in ((one, other), (other, one)):
                known = all((part.source, str(part)) in own for part in leaves_of(value))
                if isinstance(leaf, Field | Slot) and (leaf.source, str(leaf)) not in own and known:
                    yield leaf


def number_of(node: Rows) -> int | None:
    """The number that tells a scan or a step from the others of its relation."""
    match node:
        case Scan() | PublicScan():
            return node.source
        case Step() | Window() | Compute() | Projection():
            return node.index
        case _:
            return None


def at_most_one_row(rows: Rows) -> bool:
    """Whether a relation has at most one row of each unit, whatever the data hold.

    Proof. A step whose keys are all the unit has one row a unit. Of a unit's rows that are numbered without further
    partitions, one has the number that a filter asks for. Filters leave rows out; windows add columns. A join of two
    such relations on the unit has at most one pair a unit, and a side without a pair has at most one row. Only where
    both sides are kept (FULL) can a condition that does not fit give a unit two rows, one of each side.
    """
    match rows:
        case Step():
            return all(is_unit(key, rows.source) for key in rows.keys)
        case Filter():
            parts = conjuncts_of(rows.condition)
            return at_most_one_row(rows.source) or any(_picks_one(part, rows.source) for part in parts)
        case Exists() | Window() | Compute():
            return at_most_one_row(rows.source)
        case Join():
            pairs = not is_public(rows.right) and (rows.kind != "full" or rows.condition is None)
            return pairs and at_most_one_row(rows.left) and at_most_one_row(rows.right)
        case Projection():
            return len(rows.parts) == 1 and at_most_one_row(rows.parts[0].rows)
        case _:
            return False


def conjuncts_of(condition: Expression) -> Iterator[Expression]:
    """The parts of a condition between AND."""
    if isinstance(condition, Call) and condition.operation == "and":
        for argument in condition.arguments:
            yield from conjuncts_of(argument)
    else:
        yield condition


def _picks_one(condition: Expression, rows: Rows) -> bool:
    """Whether a condition asks for one number of ROW_NUMBER() OVER (PARTITION BY unit …), right above that window."""
    window = base_of(rows)
    match condition:
        case Call("equal", (Slot() as slot, Constant(int()))) if (
            isinstance(window, Window) and slot.source == window.index
        ):
            call = window.calls[slot.index]
            return call.function == "row_number" and not call.partition
        case _:
            return False
