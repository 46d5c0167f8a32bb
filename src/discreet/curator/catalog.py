"""What is publicly known about the private tables. With the SQL, the only input of planning.

Nothing here is learned from rows: the owner states it, and stands for it. Bounds, granularities and allowed values are
promises about how values are *treated* (clamped, snapped, dropped), so a promise that the data break costs accuracy,
never privacy.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, plain, rational
from discreet.privacy.unit import Neighbors, Unit, relation, words

Value = str | int | bool
"""A declared value of a column: text (also for dates and times, in ISO form), a whole number or a truth value."""


class ColumnType(StrEnum):
    """What a column holds, in words that fit every engine.

    >>> print(ColumnType.INTEGER)
    integer
    """

    INTEGER = "integer"
    REAL = "real"
    TEXT = "text"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"


TEXT = 1000
"""Characters: what is beyond them in a text of a private row is not read, so that no row can choose how long it is."""

MOST_CONTRIBUTION = 999_999
"""The most groups, and the most rows in each, that one person may be allowed."""

NUMERIC = frozenset({ColumnType.INTEGER, ColumnType.REAL})
TEMPORAL = frozenset({ColumnType.DATE, ColumnType.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its type, and for numbers where they lie and how finely they are told apart.

    Values outside [lower, upper] are clamped, values between grid points are snapped. Dates and times have bounds too,
    which are kept as `earliest` and `latest`; a date as the upper bound of times means its last moment. `values` lists
    what a group may be named; rows with other values are left out of groups. A column that is not nullable leaves out
    rows where it is null, from every aggregate that uses it.

    >>> Column("age", ColumnType.INTEGER, lower=0, upper=120).describe()
    'age: integer from 0 to 120'
    >>> Column("day", "date", lower="2020-01-01", upper="2026-12-31").latest
    datetime.date(2026, 12, 31)
    """

    name: str
    kind: ColumnType
    nullable: bool
    lower: Fraction | None
    upper: Fraction | None
    granularity: Fraction | None
    values: tuple[Value, ...] | None
    earliest: date | None
    latest: date | None

    def __init__(
        self,
        name: str,
        kind: ColumnType | str,
        *,
        nullable: bool = True,
        lower: Number | date | None = None,
        upper: Number | date | None = None,
        granularity: Number | None = None,
        values: Iterable[Value] | None = None,
        earliest: date | None = None,
        latest: date | None = None,
    ) -> None:
        where = f"column {name!r}"
        object.__setattr__(self, "name", words(name, "column", "the name of a column"))
        object.__setattr__(self, "kind", _kind(kind, where))
        object.__setattr__(self, "nullable", _flag(nullable, f"{where}, nullable"))
        if self.kind in TEMPORAL and earliest is None and latest is None:
            earliest, latest, lower, upper = _span(self.kind, lower, upper, where)
        bounds = _bounds(self.kind, lower, upper, where)
        object.__setattr__(self, "lower", bounds[0])
        object.__setattr__(self, "upper", bounds[1])
        object.__setattr__(self, "earliest", earliest)
        object.__setattr__(self, "latest", latest)
        object.__setattr__(self, "granularity", _granularity(self.kind, granularity, bounds, where))
        object.__setattr__(self, "values", None if values is None else _values(self.kind, values, where))

    @property
    def bounded(self) -> bool:
        """Whether sums over this column have a sensitivity."""
        return self.lower is not None and (self.kind is ColumnType.INTEGER or self.granularity is not None)

    def describe(self) -> str:
        """The column in words."""
        parts = [f"{self.name}: {self.kind}"]
        if self.lower is not None and self.upper is not None:
            parts.append(f"from {plain(self.lower)} to {plain(self.upper)}")
        if self.earliest is not None and self.latest is not None:
            parts.append(f"from {self.earliest} to {self.latest}")
        if self.granularity is not None and self.kind is ColumnType.REAL:
            parts.append(f"in steps of {plain(self.granularity)}")
        if self.values is not None:
            parts.append(f"one of {len(self.values)} declared values")
        if not self.nullable:
            parts.append("never null")
        return " ".join(parts[:1]) + "".join(
            (" " if part.startswith(("from", "in steps")) else ", ") + part for part in parts[1:]
        )


@dataclass(frozen=True, slots=True)
class Link:
    """How a table without a column for its unit reaches it: `column` holds the `key` of a row of another `table`.

    That the key names one row there is the owner's promise; where it names several, the row counts for each of them,
    which costs accuracy, never privacy.

    >>> print(Link("order_id", table="orders", key="id"))
    order_id → orders.id
    """

    column: str
    table: str = field(kw_only=True)
    key: str = field(kw_only=True)

    def __post_init__(self) -> None:
        for given in (self.column, self.table, self.key):
            words(given, "link", "the name of a column or table")

    def __str__(self) -> str:
        return f"{self.column} → {self.table}.{self.key}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table: private, with the unit it protects, or public.

    Where the unit is a person, `groups` is the most groups of one answer that a person counts in, and `rows` the most
    rows of a person that count in one group, unless a question states its own. They cost accuracy, never privacy.
    `link` says how rows reach their person where they hold no column for it; `unit` then names where the chain ends.
    `repeats` says of a public table how many rows it has and, of each column, how many rows share a value at most; it
    is empty where that is not known.

    >>> visits = Table("visits", [Column("patient_id", "integer")], unit=Unit("patient_id"))
    >>> visits.private, visits.column("patient_id").kind
    (True, <ColumnType.INTEGER: 'integer'>)
    """

    name: str
    columns: tuple[Column, ...]
    unit: Unit | None
    groups: int | None
    rows: int | None
    link: Link | None
    repeats: tuple[int, ...]

    def __init__(
        self,
        name: str,
        columns: Iterable[Column],
        *,
        unit: Unit | None,
        groups: int | None = None,
        rows: int | None = None,
        link: Link | None = None,
        repeats: Iterable[int] = (),
    ) -> None:
        object.__setattr__(self, "repeats", tuple(repeats))
        object.__setattr__(self, "name", words(name, "table", "the name of a table"))
        object.__setattr__(self, "columns", tuple(columns))
        object.__setattr__(self, "unit", unit)
        object.__setattr__(self, "link", link)
        for bound, given in (("groups", groups), ("rows", rows)):
            object.__setattr__(self, bound, contribution(given, f"table {name!r}, {bound}", unit))
        if not self.columns:
            raise InvalidParameter(f"table {name!r}", "no columns", "at least one column")
        names = [column.name.casefold() for column in self.columns]
        for column in names:
            if names.count(column) > 1:
                raise InvalidParameter(
                    f"table {name!r}", f"two columns named {column!r}", "different names (in any case)"
                )
        if link is not None:
            self.column(link.column)
        elif unit is not None and unit.key is not None:
            self.column(unit.key)

    @property
    def private(self) -> bool:
        """Whether rows of this table may be read only through the gate."""
        return self.unit is not None

    @property
    def unit_column(self) -> Column | None:
        """The table's own column that identifies a person; None where it has none."""
        if self.unit is None or self.unit.key is None or self.link is not None:
            return None
        return self.column(self.unit.key)

    def column(self, name: str) -> Column:
        """The column of this name, in any case, as SQL names are."""
        for column in self.columns:
            if column.name.casefold() == name.casefold():
                return column
        known = ", ".join(column.name for column in self.columns)
        raise InvalidParameter("column", name, f"a column of table {self.name!r}: {known}")


@dataclass(frozen=True, slots=True)
class Catalog:
    """All that may be known before asking: tables, columns, units, and which change of the data is protected.

    >>> people = Table("people", [Column("age", "integer", lower=0, upper=120)], unit=Unit())
    >>> Catalog("census", [people], neighbors="change one").table("People").name
    'people'
    """

    name: str
    tables: Mapping[str, Table] = field(hash=False)
    neighbors: Neighbors

    def __init__(self, name: str, tables: Iterable[Table], *, neighbors: Neighbors | str) -> None:
        object.__setattr__(self, "name", words(name, "dataset", "the name of a dataset"))
        by_name: dict[str, Table] = {}
        for table in tables:
            if table.name.casefold() in by_name:
                raise InvalidParameter("table", table.name, "different names for tables (in any case)")
            by_name[table.name.casefold()] = table
        if not any(table.private for table in by_name.values()):
            raise InvalidParameter("tables", "no private table", "at least one private table, with its unit")
        object.__setattr__(self, "tables", MappingProxyType(by_name))
        object.__setattr__(self, "neighbors", relation(neighbors))
        for table in by_name.values():
            self.chain(table)

    def __str__(self) -> str:
        """Tables with their columns, a line each.

        >>> people = Table("people", [Column("age", "integer", lower=0, upper=120)], unit=Unit())
        >>> print(Catalog("census", [people], neighbors="change one"))
        census (change one)
        people: private, protects one row
          age: integer from 0 to 120
        """
        lines = [f"{self.name} ({self.neighbors})"]
        for table in self.tables.values():
            lines += [f"{table.name}: {_whom(table)}", *(f"  {column.describe()}" for column in table.columns)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Catalog {self.name}: {', '.join(table.name for table in self.tables.values())}>"

    def _repr_html_(self) -> str:
        from discreet.report.card import card

        tables = (
            card(table.name, _whom(table), {c.name: c.describe().removeprefix(f"{c.name}: ") for c in table.columns})
            for table in self.tables.values()
        )
        return card(self.name, f"hides this change of the data: {self.neighbors}", {}, more="".join(tables))

    @property
    def protects(self) -> str:
        """Whom a budget over these tables protects, against which change: part of what its ε means."""
        private = sorted((table for table in self.tables.values() if table.private), key=lambda table: table.name)
        return f"{self.neighbors}: " + "; ".join(f"{table.name}, {table.unit}" for table in private)

    def chain(self, table: Table) -> tuple[Table, ...]:
        """The tables that lead from a table to its unit, the last of which has a column for it; none for most tables.

        >>> orders = Table("orders", [Column("id", "integer"), Column("customer", "integer")], unit=Unit("customer"))
        >>> link = Link("order_id", table="orders", key="id")
        >>> items = Table("items", [Column("order_id", "integer")], unit=Unit("orders.customer"), link=link)
        >>> [table.name for table in Catalog("shop", [orders, items], neighbors="change one").chain(items)]
        ['orders']
        """
        chain: list[Table] = []
        where, at = f"table {table.name!r}, unit", table
        while at.link is not None:
            if at.link.table.casefold() not in self.tables:
                raise InvalidParameter(where, str(at.link), "a chain of keys through tables of this dataset")
            parent = self.tables[at.link.table.casefold()]
            if parent == table or parent in chain:
                raise InvalidParameter(where, str(at.link), "a chain of keys that ends at a person, not in a circle")
            if parent.unit is None or parent.unit.key is None:
                raise InvalidParameter(where, str(at.link), f"a chain that ends at a person, not in {parent.name!r}")
            kinds = [at.column(at.link.column).kind, parent.column(at.link.key).kind]
            if kinds[0] is not kinds[1]:
                raise InvalidParameter(where, f"{at.link}: {kinds[0]} and {kinds[1]}", "two columns of the same type")
            chain.append(parent)
            at = parent
        if chain and table.unit != Unit(f"{at.name}.{at.unit.key if at.unit else None}"):
            raise InvalidParameter(where, str(table.unit), f"the unit of {at.name!r}, where the chain ends")
        return tuple(chain)

    def table(self, name: str) -> Table:
        """The table of this name, in any case."""
        if name.casefold() not in self.tables:
            known = ", ".join(table.name for table in self.tables.values())
            raise InvalidParameter("table", name, f"a table of dataset {self.name!r}: {known}")
        return self.tables[name.casefold()]


def _whom(table: Table) -> str:
    if table.unit is None:
        return "public"
    groups = f", counted in at most {_many(table.groups, 'group')}" if table.groups else ""
    return f"private, protects {table.unit}{groups}" + (f", {_many(table.rows, 'row')} in each" if table.rows else "")


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" + "s" * (count > 1)


def contribution(given: int | None, where: str, unit: Unit | None) -> int | None:
    """A bound on what one person contributes: a whole number, only where the unit is a person."""
    if given is None:
        return None
    if unit is None or unit.key is None:
        raise InvalidParameter(where, given, "no bound", "only a person, named by a unit column, has several rows")
    return integer(given, where, at_least=1, at_most=MOST_CONTRIBUTION)


def _kind(value: ColumnType | str, where: str) -> ColumnType:
    if value not in list(ColumnType):
        raise InvalidParameter(f"{where}, type", value, ", ".join(ColumnType))
    return ColumnType(value)


def _flag(value: bool, where: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidParameter(where, value, "true or false")
    return value


def _span(
    kind: ColumnType, lower: Number | date | None, upper: Number | date | None, where: str
) -> tuple[date | None, date | None, None, None]:
    """The first and the last date or time; a date as the last of times stands for its last moment."""
    if lower is None and upper is None:
        return None, None, None, None
    if lower is None or upper is None:
        raise InvalidParameter(f"{where}, bounds", "one bound", "both lower and upper, or neither")
    first, last = (_moment(bound, f"{where}, {name}") for name, bound in (("lower", lower), ("upper", upper)))
    if kind is ColumnType.DATE:
        if isinstance(first, datetime) or isinstance(last, datetime):
            raise InvalidParameter(f"{where}, bounds", f"{first} to {last}", "dates without a time, as 2020-12-31")
    else:
        if not isinstance(first, datetime):
            first = datetime.combine(first, time.min)
        if not isinstance(last, datetime):
            last = datetime.combine(last, time.max)
    if first > last:
        raise InvalidParameter(f"{where}, bounds", f"lower {first} after upper {last}", "lower ≤ upper")
    return first, last, None, None


def _moment(bound: object, where: str) -> date:
    """A date or time, from a value of TOML or Python or from ISO text."""
    if isinstance(bound, str):
        text = bound.strip()
        for reader in (date.fromisoformat, datetime.fromisoformat):
            with suppress(ValueError):
                bound = reader(text)
                break
    if not isinstance(bound, date) or (isinstance(bound, datetime) and bound.tzinfo is not None):
        raise InvalidParameter(where, bound, "a date or time without a zone, as 2020-12-31")
    return bound


def _bounds(
    kind: ColumnType, lower: Number | date | None, upper: Number | date | None, where: str
) -> tuple[Fraction | None, Fraction | None]:
    if lower is None and upper is None:
        return None, None
    if kind not in NUMERIC:
        expected = "bounds of an integer or real column, or of dates or times"
        raise InvalidParameter(f"{where}, bounds", f"bounds of a {kind}", expected)
    if lower is None or upper is None:
        raise InvalidParameter(f"{where}, bounds", "one bound", "both lower and upper, or neither")
    if isinstance(lower, date) or isinstance(upper, date):
        raise InvalidParameter(f"{where}, bounds", f"{lower} to {upper}", "numbers")
    low, high = rational(lower, f"{where}, lower"), rational(upper, f"{where}, upper")
    if low > high:
        raise InvalidParameter(f"{where}, bounds", f"lower {lower} above upper {upper}", "lower ≤ upper")
    if kind is ColumnType.INTEGER and (low.denominator != 1 or high.denominator != 1):
        raise InvalidParameter(f"{where}, bounds", f"{lower} to {upper}", "whole numbers for an integer column")
    return low, high


def _granularity(
    kind: ColumnType, step: Number | None, bounds: tuple[Fraction | None, Fraction | None], where: str
) -> Fraction | None:
    if step is None:
        return Fraction(1) if kind is ColumnType.INTEGER else None
    if kind not in NUMERIC:
        raise InvalidParameter(f"{where}, granularity", f"a granularity of a {kind}", "one of a real or integer column")
    exact = rational(step, f"{where}, granularity", above=0)
    if kind is ColumnType.INTEGER and exact != 1:
        raise InvalidParameter(f"{where}, granularity", step, "1 for an integer column", "divide in the query instead")
    for bound in bounds:
        if bound is not None and (bound / exact).denominator != 1:
            raise InvalidParameter(f"{where}, granularity", step, "a step that both bounds are multiples of")
        if bound is not None and abs(bound / exact) >= 2**61:
            raise InvalidParameter(f"{where}, granularity", step, "fewer than 2^61 steps from zero to a bound")
    return exact


def _values(kind: ColumnType, values: Iterable[Value], where: str) -> tuple[Value, ...]:
    wanted: dict[ColumnType, type] = {ColumnType.INTEGER: int, ColumnType.BOOLEAN: bool}
    if kind is ColumnType.REAL:
        raise InvalidParameter(
            f"{where}, values", "declared values of a real column", "bounds and a granularity instead"
        )
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise InvalidParameter(f"{where}, values", values, "a list of values")
    listed = tuple(values)
    for value in listed:
        if type(value) is not wanted.get(kind, str) or not _readable(kind, value):
            raise InvalidParameter(f"{where}, values", value, f"values of type {kind}")
        if isinstance(value, str) and len(value) > TEXT:
            raise InvalidParameter(f"{where}, values", f"a text of {len(value):,} characters", f"at most {TEXT:,}")
    if not listed or len(set(listed)) != len(listed):
        raise InvalidParameter(f"{where}, values", f"{len(listed)} values", "at least one, each once")
    return listed


def _readable(kind: ColumnType, value: Value) -> bool:
    """Whether a value can be read as what its column holds; dates and times are written in ISO form."""
    if isinstance(value, int):
        return abs(value) < 2**62
    reader = {ColumnType.DATE: date.fromisoformat, ColumnType.TIMESTAMP: datetime.fromisoformat}.get(kind)
    try:
        read = None if reader is None else reader(value)
    except ValueError:
        return False
    return "\0" not in value and (not isinstance(read, datetime) or read.tzinfo is None)
