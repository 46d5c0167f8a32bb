"""What the owner is told of policy and data: values, in words and as JSON. `owner` fills them in."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from typing import Any, Literal

from discreet.curator.catalog import ColumnType, Table
from discreet.exact import plain

WARNING = (
    "FOR THE OWNER'S EYES ONLY. What follows is exact: it was read off the private data without noise and without a\n"
    "charge, and is not differentially private. Do not publish it or pass it on."
)
"""Stands before everything that is read off the rows."""

READ_OFF = "read off the data: deciding by them spends privacy without accounting; prefer public knowledge"
"""What is said of every suggestion."""

_MOSTLY = 0.5
"""From this share of unreadable values on, the declared type is taken to be wrong."""
_MUCH = 0.05
"""From this share of rows on, what the policy's bounds leave out is worth a warning."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that does not fit: an error where answers would be wrong, a warning where they may be poor."""

    level: Literal["error", "warning"]
    table: str
    column: str | None
    problem: str

    def __str__(self) -> str:
        return f"{self.level}: {self.problem}"

    def to_json(self) -> dict[str, str | None]:
        """The same as JSON."""
        return {"level": self.level, "table": self.table, "column": self.column, "problem": self.problem}


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnView:
    """How the values of a column compare with its declaration, in rows.

    `unreadable` values are not of the declared type, and count as null beside those that are. `below` and `above` are
    clamped to the bounds, `undeclared` values are in no group.
    """

    name: str
    null: int
    unreadable: int
    present: int
    not_a_number: int | None = None
    below: int | None = None
    above: int | None = None
    least: float | None = None
    greatest: float | None = None
    undeclared: int | None = None
    examples: tuple[tuple[Any, int], ...] = ()
    """Undeclared values, the most frequent first, with their rows."""
    absent: tuple[Any, ...] = ()
    """Declared values that no row has."""
    middle: tuple[float, float] | None = None
    """Where about 98 % of the values lie, of numbers without bounds."""
    values: tuple[Any, ...] = ()
    """All values, where they are few and the policy declares none."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a count over people."""

    median: int
    at_90: int
    at_99: int
    greatest: int

    def __str__(self) -> str:
        return f"median {self.median}, 90 % {self.at_90}, 99 % {self.at_99}, most {self.greatest}"


@dataclass(frozen=True, slots=True)
class Shortfall:
    """The share of rows that a pair of bounds leaves out of COUNT(*), on average over fair choices of groups."""

    groups: int | None
    rows: int | None
    share: float


@dataclass(frozen=True, slots=True)
class Contribution:
    """What people contribute to an answer by one column, or, where `by` is None, to one without groups."""

    by: str | None
    rows: Spread | None
    groups: Spread | None
    shortfalls: tuple[Shortfall, ...]
    """The first is that of the policy's own bounds."""

    def share(self, *, groups: int | None, rows: int | None) -> float:
        """The share of rows that these bounds leave out, among those that were computed."""
        wanted = (None if self.by is None else groups, rows)
        return next(shortfall.share for shortfall in self.shortfalls if (shortfall.groups, shortfall.rows) == wanted)


@dataclass(frozen=True, slots=True)
class TableView:
    """The rows of one table beside what the policy says of them; `units` is None where no person can be told."""

    name: str
    rows: int
    blank: int
    """Rows in which every declared column is null; of a CSV file, also lines that are not well formed."""
    units: int | None
    without_unit: int
    columns: tuple[ColumnView, ...]
    contributions: tuple[Contribution, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnerView:
    """Everything that the owner is told of policy and data, exactly."""

    findings: tuple[Finding, ...]
    tables: tuple[TableView, ...]
    suggestions: tuple[str, ...]

    def __str__(self) -> str:
        parts = [WARNING, *(_table_text(table) for table in self.tables)]
        if self.findings:
            parts.append("\n".join(map(str, self.findings)))
        if self.suggestions:
            parts.append("\n".join([f"Suggestions, {READ_OFF}:", *(f"  {line}" for line in self.suggestions)]))
        return "\n\n".join(parts)

    def to_json(self) -> dict[str, Any]:
        """The same as JSON, the warning first."""
        return {
            "warning": WARNING.replace("\n", " "),
            "findings": [finding.to_json() for finding in self.findings],
            "tables": {table.name: _table_json(table) for table in self.tables},
            "suggestions": {"remark": READ_OFF, "lines": list(self.suggestions)},
        }


# What does not fit, and what might


def findings_of(table: Table, view: TableView) -> Iterator[Finding]:
    """What is wrong with the data, seen from the policy.

    >>> from discreet.curator.catalog import Column
    >>> from discreet.privacy.unit import Unit
    >>> people = Table("people", [Column("age", "integer")], unit=Unit())
    >>> view = TableView("people", 9, 0, None, 0, (ColumnView(name="age", null=0, unreadable=9, present=0),))
    >>> print(*findings_of(people, view))
    error: table 'people', column 'age': 9 of 9 values are not of type integer, and count as null
    """
    for column in view.columns:
        entries = column.present + column.unreadable
        if column.unreadable:
            level: Literal["error", "warning"] = "error" if column.unreadable >= _MOSTLY * entries else "warning"
            kind = table.column(column.name).kind
            problem = f"{column.unreadable:,} of {entries:,} values are not of type {kind}, and count as null"
            yield _finding(level, table, column.name, problem)
        if column.undeclared:
            problem = f"{column.undeclared:,} of {column.present:,} values are not declared: they are in no group"
            yield _finding("warning", table, column.name, problem)
    if table.unit is not None and table.unit.key is not None and view.rows and view.without_unit == view.rows:
        yield _finding("error", table, table.unit.key, "no row says whose it is, so every row is left out")
    for part in view.contributions:
        if part.shortfalls and part.shortfalls[0].share > _MUCH and (table.groups or table.rows):
            what = "COUNT(*)" if part.by is None else f"COUNT(*) by {part.by}"
            problem = f"the policy's bounds leave {_percent(part.shortfalls[0].share)} of the rows out of {what}"
            yield _finding("warning", table, part.by, problem)


def suggestions_of(table: Table, view: TableView) -> Iterator[str]:
    """What the data would suggest where the policy says nothing.

    >>> from discreet.curator.catalog import Column
    >>> from discreet.privacy.unit import Unit
    >>> people = Table("people", [Column("age", "integer")], unit=Unit())
    >>> age = ColumnView(name="age", null=0, unreadable=0, present=9, middle=(17, 93))
    >>> print(*suggestions_of(people, TableView("people", 9, 0, None, 0, (age,))))
    people, age: lower = 10, upper = 100
    """
    for column in view.columns:
        if column.middle is not None:
            yield f"{table.name}, {column.name}: {_bounds(*column.middle, table.column(column.name).kind)}"
        if column.values:
            listed = ", ".join(json.dumps(_plain(value), ensure_ascii=False) for value in column.values)
            yield f"{table.name}, {column.name}: values = [{listed}]"
    if view.contributions and not (table.groups and table.rows):
        overall, *by_column = view.contributions
        rows = table.rows or _enough(overall, "rows") or overall.shortfalls[-1].rows
        groups = table.groups or max((_enough(part, "groups") or 1 for part in by_column), default=1)
        yield f"{table.name}: max_groups_per_unit = {groups}, max_rows_per_group = {rows}"


def _finding(level: Literal["error", "warning"], table: Table, column: str | None, problem: str) -> Finding:
    where = f"table {table.name!r}" + (f", column {column!r}" if column else "")
    return Finding(level, table.name, column, f"{where}: {problem}")


def _bounds(low: float, high: float, kind: ColumnType) -> str:
    """Round bounds outwards, so that neither is the value of a person."""
    width = high - low
    step = Fraction(10) ** math.floor(math.log10(width)) if width > 0 else Fraction(1)
    step = max(step, Fraction(1)) if kind is ColumnType.INTEGER else step
    ends = math.floor(Fraction(low) / step) * step, math.ceil(Fraction(high) / step) * step
    text = f"lower = {plain(ends[0])}, upper = {plain(ends[1])}"
    return text if kind is ColumnType.INTEGER else f'{text}, granularity = "{plain(step / 1000)}"'


def _enough(part: Contribution, name: Literal["groups", "rows"]) -> int | None:
    """The least bound that leaves out no more than a hundredth beyond what the largest one does."""
    bounds = [(getattr(shortfall, name), shortfall.share) for shortfall in part.shortfalls]
    floor = min(share for _, share in bounds)
    return min((bound for bound, share in bounds if bound is not None and share <= floor + 0.01), default=None)


# In words and as JSON


_COUNTS = ("null", "unreadable", "not_a_number", "below", "above", "undeclared", "least", "greatest")


def _table_text(view: TableView) -> str:
    people = ""
    if view.units is not None:
        people = f" of {_number(view.units, 'unit')}; {_number(view.without_unit, 'row')} without a unit"
    lines = [f"Table {view.name}: {_number(view.rows, 'row')}{people}; {_number(view.blank, 'blank row')}."]
    cells = [["column", *(name.replace("_", " ") for name in _COUNTS)]]
    cells += [[column.name, *(_cell(getattr(column, name)) for name in _COUNTS)] for column in view.columns]
    used = [place for place in range(len(cells[0])) if place == 0 or any(row[place] != "–" for row in cells[1:])]
    widths = [max(len(row[place]) for row in cells) for place in used]
    for row in cells:
        first, *rest = [row[place] for place in used]
        shown = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  " + "  ".join(shown).rstrip())
    for column in view.columns:
        if column.examples:
            named = ", ".join(f"{_plain(value)!r} ({rows:,})" for value, rows in column.examples)
            lines.append(f"  {column.name}: not declared: {named}")
        if column.absent:
            lines.append(
                f"  {column.name}: declared, but in no row: {', '.join(repr(_plain(v)) for v in column.absent)}"
            )
    lines += [line for part in view.contributions for line in _contribution_text(part)]
    return "\n".join(lines)


def _contribution_text(part: Contribution) -> Iterator[str]:
    if part.by is None:
        yield f"  rows a person: {part.rows}"
    else:
        yield f"  by {part.by}, groups a person: {part.groups}"
    name = "rows" if part.by is None else "groups"
    own, *others = part.shortfalls
    parts = []
    stated = [f"{word} = {bound}" for word, bound in (("groups", own.groups), ("rows", own.rows)) if bound]
    if getattr(own, name):
        parts.append(f"{_percent(own.share)} with the policy's {', '.join(stated)}")
    least = min(shortfall.share for shortfall in part.shortfalls)
    enough = next((place for place, shortfall in enumerate(others) if shortfall.share == least), len(others))
    parts += [
        f"{_percent(shortfall.share)} with {name} = {getattr(shortfall, name)}" for shortfall in others[: enough + 1]
    ]
    yield f"    left out of COUNT(*): {'; '.join(parts)}"


def _table_json(view: TableView) -> dict[str, Any]:
    columns = {
        column.name: {name: _plain(getattr(column, name)) for name in ("present", *_COUNTS)}
        | {
            "examples": [[_plain(value), rows] for value, rows in column.examples],
            "absent": [_plain(value) for value in column.absent],
        }
        for column in view.columns
    }
    contributions = [
        {
            "by": part.by,
            "rows": _spread_json(part.rows),
            "groups": _spread_json(part.groups),
            "left_out": [
                {"groups": shortfall.groups, "rows": shortfall.rows, "share": shortfall.share}
                for shortfall in part.shortfalls
            ],
        }
        for part in view.contributions
    ]
    counts = {"rows": view.rows, "blank": view.blank, "units": view.units, "without_unit": view.without_unit}
    return counts | {"columns": columns, "contributions": contributions}


def _spread_json(spread: Spread | None) -> dict[str, int] | None:
    if spread is None:
        return None
    return {"median": spread.median, "at_90": spread.at_90, "at_99": spread.at_99, "greatest": spread.greatest}


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, date | datetime):
        return value.isoformat()
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _percent(share: float) -> str:
    return "< 0.01 %" if 0 < share < 1e-4 else f"{100 * share:.3g} %"
