"""Exact views for the owner's eyes: whether a policy fits its tables, and what its bounds do to the rows.

`check_schema` reads schemas and no row. `exact_view` reads the rows themselves, without noise and without a charge; so
what it says must not leave the owner. Beside the gate, this is the only code that fetches from an engine.
"""

# ruff: noqa: S608 (the SQL is made of quoted names and values of the owner's own policy)

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from discreet.curator.catalog import NUMERIC, Catalog, Column, ColumnType, Table, Value
from discreet.curator.contribution_draw import one_row_each
from discreet.curator.curator import open_engine
from discreet.curator.engines.columns import literal, quoted
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.engines.sources import PYTHON
from discreet.curator.owner.findings import (
    ColumnView,
    Contribution,
    Finding,
    OwnerView,
    Shortfall,
    Spread,
    TableView,
    findings_of,
    suggestions_of,
)
from discreet.curator.policy import BOUNDS, ENGINES, Policy
from discreet.errors import InvalidData, InvalidParameter
from discreet.privacy.unit import Neighbors, Unit

LADDER = (1, 2, 3, 5, 10, 20, 50, 100)
"""The bounds that are compared with those of the policy."""

_NAMED = 5
"""So many undeclared or absent values of a column are named."""
_FEW = 20
"""A text column with at most so many values may be one to declare."""
_GROUPED = frozenset({ColumnType.TEXT, ColumnType.BOOLEAN, ColumnType.DATE})
"""Columns of these types, and those with declared values, are what questions group by."""


def check_schema(policy: Policy) -> tuple[Finding, ...]:
    """Compare a policy with the schemas of its files or of its server's tables, without reading a row."""
    return tuple(finding for findings, _ in _probes(policy) for finding in findings)


def exact_view(policy: Policy) -> OwnerView:
    """Compare a policy with the rows of its files, exactly: for the owner's eyes only.

    Columns that the schema lacks are found, and the others viewed. Rows stay in the engine: it streams over them, and a
    handful of counts come back.

    >>> import pathlib, tempfile
    >>> from discreet.curator.policy import read_policy
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "people.csv").write_text("age\\n30\\n130\\n")
    >>> _ = (folder / "policy.toml").write_text('''
    ... [dataset]
    ... name = "census"
    ... neighbors = "change one"
    ... [budget]
    ... everyone = "all"
    ... epsilon = 1
    ... [tables.people]
    ... source = "people.csv"
    ... unit = "row"
    ... columns.age = {type = "integer", lower = 0, upper = 120}
    ... ''')
    >>> policy = read_policy(folder / "policy.toml")
    >>> exact_view(policy).tables[0].columns[0].above
    1
    >>> (folder / "people.csv").unlink()
    >>> [finding.level for finding in check_schema(policy)]
    ['error']
    """
    if policy.engine != ENGINES[0]:
        hint = "the owner of a server looks at its rows there"
        raise InvalidParameter("[dataset] engine", policy.engine, "tables in files, whose rows can be viewed", hint)
    findings: list[Finding] = []
    tables: list[TableView] = []
    suggestions: list[str] = []
    for misfits, table in _probes(policy):
        findings += misfits
        if table is None:
            continue
        view = _table_view(policy, table)
        tables.append(view)
        findings += findings_of(table, view)
        suggestions += suggestions_of(table, view)
    return OwnerView(tuple(findings), tuple(tables), tuple(suggestions))


def owner_engine(policy: Policy) -> Any:
    """The tables of a policy, read past the gate: for whoever can read the owner's tables anyway.

    What it fetches is exact and must not be published; nothing is charged.
    """
    return open_engine(policy, {})


def read_columns(path: str, columns: Sequence[Column], *, like: str, policy: Policy) -> Any:
    """The rows of a file of the owner's, read as columns of a table of the policy; a .csv file is written as its is."""
    catalog = Catalog("file", [Table("file", columns, unit=Unit())], neighbors=policy.catalog.neighbors)
    formats = {"file": policy.formats[like]} if like in policy.formats else {}
    with DuckDBEngine(catalog, {"file": path}, formats=formats) as engine:
        return engine.fetch(one_row_each(catalog.table("file"), columns))


# Schemas


def _probes(policy: Policy) -> Iterator[tuple[list[Finding], Table | None]]:
    """For each table what does not fit its source, and the part of it that does, if any."""
    for table in policy.catalog.tables.values():
        if policy.sources[table.name] == PYTHON:
            problem = f'table {table.name!r}: its source is "python", so it is checked when the dataset is opened'
            yield [Finding("warning", table.name, None, problem)], None
            continue
        findings, columns = _misfits(policy, table)
        findings += _unbounded(table)
        yield findings, _with_columns(table, columns) if columns else None


def _misfits(policy: Policy, table: Table) -> tuple[list[Finding], list[Column]]:
    """The columns that the engine refuses, one after the other, and those that it takes."""
    findings: list[Finding] = []
    columns = list(table.columns)
    key = None if table.unit is None else table.unit.key
    while columns:
        try:
            with _engine(policy, table.name, columns):
                return findings, columns
        except InvalidParameter as error:
            named = [column for column in columns if error.name == f"table {table.name!r}, column {column.name!r}"]
            if not named:
                return [Finding("error", table.name, None, str(error))], []
            refused = named[0]
            unit = key is not None and refused.name.casefold() == key.casefold()
            problem = str(error) + ("; it is the unit: without it, people cannot be distinguished" if unit else "")
            findings.append(Finding("error", table.name, refused.name, problem))
            columns.remove(refused)
        except InvalidData as error:  # of a server: the table is not there, or may not be read
            return [Finding("error", table.name, None, f"table {table.name!r}: {error}")], []
    return findings, columns


def _unbounded(table: Table) -> list[Finding]:
    if table.unit is None or table.unit.key is None:
        return []
    missing = [name for name, bound in zip(BOUNDS, (table.groups, table.rows), strict=True) if bound is None]
    if not missing:
        return []
    problem = f"table {table.name!r}: it does not state {' and '.join(missing)}, so every question must state its own"
    return [Finding("warning", table.name, None, problem)]


def _with_columns(table: Table, columns: list[Column]) -> Table:
    """The table with some of its columns; without its unit, if that is not among them."""
    names = {column.name.casefold() for column in columns}
    has_unit = table.unit is not None and (table.unit.key is None or table.unit.key.casefold() in names)
    groups, rows = (table.groups, table.rows) if has_unit else (None, None)
    return Table(table.name, columns, unit=table.unit if has_unit else None, groups=groups, rows=rows)


def _engine(policy: Policy, name: str, columns: Sequence[Column]) -> Any:
    """One table of a policy with these columns, which need not be of the declared types."""
    catalog = Catalog("check", [Table(name, columns, unit=Unit())], neighbors=Neighbors.CHANGE_ONE)
    formats = {name: policy.formats[name]} if name in policy.formats else {}
    return open_engine(replace(policy, catalog=catalog, sources={name: policy.sources[name]}, formats=formats), {})


# Rows


def _table_view(policy: Policy, table: Table) -> TableView:
    entries = _entries(policy, table)
    key = None if table.unit is None or table.unit.key is None else table.column(table.unit.key)
    with _engine(policy, table.name, table.columns) as engine:
        counts = _only_row(engine, _overview(table))
        columns = [_column_view(engine, table, place, counts, entries) for place in range(len(table.columns))]
        if key is None:
            return TableView(table.name, counts["rows"], counts["blank"], None, 0, tuple(columns))
        units, overall = _rows_each(engine, table, key)
        rows = table.rows or next(
            (shortfall.rows for shortfall in overall.shortfalls if shortfall.rows and shortfall.share <= 0.01), None
        )
        grouped = [
            _groups_each(engine, table, key, column, rows)
            for column in table.columns
            if column is not key and (column.kind in _GROUPED or column.values is not None)
        ]
    without = next(column.null + column.unreadable for column in columns if column.name == key.name)
    contributions = (overall, *grouped)
    return TableView(table.name, counts["rows"], counts["blank"], units, without, tuple(columns), contributions)


def _entries(policy: Policy, table: Table) -> dict[str, int]:
    """In how many rows a column has an entry, of its type or not: by reading it as a wider type."""
    csv = table.name in policy.formats
    wider = dict.fromkeys(ColumnType, ColumnType.TEXT) if csv else {ColumnType.INTEGER: ColumnType.REAL}
    columns = [Column(column.name, wider.get(column.kind, column.kind)) for column in table.columns]
    parts = [f"count({quoted(column.name)}) AS c{place}" for place, column in enumerate(columns)]
    with _engine(policy, table.name, columns) as engine:
        row = _only_row(engine, f"SELECT {', '.join(parts)} FROM {quoted(table.name)}")
    return {column.name: row[f"c{place}"] for place, column in enumerate(columns)}


def _overview(table: Table) -> str:
    """One row of counts over a table, in one pass."""
    blank = " AND ".join(f"{quoted(column.name)} IS NULL" for column in table.columns)
    parts = ["count(*) AS rows", f"count(*) FILTER (WHERE {blank}) AS blank"]
    for place, column in enumerate(table.columns):
        name = quoted(column.name)
        parts.append(f"count({name}) AS present{place}")
        if column.kind in NUMERIC:
            parts += _of_numbers(place, column)
        if column.earliest is not None and column.latest is not None:
            low, high = (_constant(column.kind, str(bound)) for bound in (column.earliest, column.latest))
            parts.append(f"count(*) FILTER (WHERE {name} < {low}) AS below{place}")
            parts.append(f"count(*) FILTER (WHERE {name} > {high}) AS above{place}")
        if column.values is not None:
            parts.append(f"count(*) FILTER (WHERE {name} NOT IN ({_listed(column)})) AS undeclared{place}")
        elif column.kind is ColumnType.TEXT:
            parts.append(f"approx_count_distinct({name}) AS distinct{place}")
    return f"SELECT {', '.join(parts)} FROM {quoted(table.name)}"


def _of_numbers(place: int, column: Column) -> list[str]:
    name = quoted(column.name)
    number = f"{name} IS NOT NULL" if column.kind is ColumnType.INTEGER else f"NOT isnan({name})"
    parts = [f"{function}({name}) FILTER (WHERE {number}) AS {function}{place}" for function in ("min", "max")]
    parts.append(f"count(*) FILTER (WHERE NOT {number} AND {name} IS NOT NULL) AS nan{place}")
    if column.lower is None or column.upper is None:
        finite = number if column.kind is ColumnType.INTEGER else f"isfinite({name})"
        parts.append(f"approx_quantile({name}, [0.01, 0.99]) FILTER (WHERE {finite}) AS middle{place}")
        return parts
    low, high = (_number(column, bound) for bound in (column.lower, column.upper))
    parts.append(f"count(*) FILTER (WHERE {number} AND {name} < {low}) AS below{place}")
    parts.append(f"count(*) FILTER (WHERE {number} AND {name} > {high}) AS above{place}")
    return parts


def _column_view(
    engine: DuckDBEngine, table: Table, place: int, counts: dict[str, Any], entries: dict[str, int]
) -> ColumnView:
    column = table.columns[place]
    present, undeclared = counts[f"present{place}"], counts.get(f"undeclared{place}")
    name, source = quoted(column.name), quoted(table.name)
    examples: list[tuple[Any, int]] = []
    absent: list[Any] = []
    values: list[Any] = []
    if undeclared:
        where = f"WHERE {name} NOT IN ({_listed(column)}) GROUP BY {name} ORDER BY n DESC, v LIMIT {_NAMED}"
        examples = _pairs(engine, f"SELECT {name} AS v, count(*) AS n FROM {source} {where}")
    if column.values is not None:
        declared = ", ".join(f"({_constant(column.kind, value)})" for value in column.values)
        rest = f"SELECT v FROM (VALUES {declared}) AS declared(v) EXCEPT SELECT {name} FROM {source}"
        absent = [value for value, _ in _pairs(engine, f"SELECT v, 0 AS n FROM ({rest}) ORDER BY v LIMIT {_NAMED}")]
    elif 0 < counts.get(f"distinct{place}", 0) <= _FEW:
        rest = f"SELECT {name} AS v, count(*) AS n FROM {source} WHERE {name} IS NOT NULL GROUP BY {name}"
        values = [value for value, _ in _pairs(engine, f"{rest} ORDER BY n DESC, v LIMIT {_FEW}")]
    key = None if table.unit is None or table.unit.key is None else table.column(table.unit.key)
    middle = None if column is key else counts.get(f"middle{place}")
    return ColumnView(
        name=column.name,
        null=counts["rows"] - entries[column.name],
        unreadable=entries[column.name] - present,
        present=present,
        not_a_number=counts[f"nan{place}"] if column.kind is ColumnType.REAL else None,
        below=counts.get(f"below{place}"),
        above=counts.get(f"above{place}"),
        least=counts.get(f"min{place}"),
        greatest=counts.get(f"max{place}"),
        undeclared=undeclared,
        examples=tuple(examples),
        absent=tuple(absent),
        middle=None if middle is None else (middle[0], middle[1]),
        values=tuple(values),
    )


# What people contribute


def _rows_each(engine: DuckDBEngine, table: Table, key: Column) -> tuple[int, Contribution]:
    """How many people there are, how many rows they have, and what bounds leave out of an answer without groups."""
    bounds = list(dict.fromkeys([table.rows, *LADDER]))
    weights = [f"sum({_weight(bound)})::DOUBLE AS kept{place}" for place, bound in enumerate(bounds)]
    person = quoted(key.name)
    each = f"SELECT count(*) AS n FROM {quoted(table.name)} WHERE {person} IS NOT NULL GROUP BY {person}"
    parts = ["count(*) AS units", "sum(n) AS total", _quantiles("n"), *weights]
    row = _only_row(engine, f"SELECT {', '.join(parts)} FROM ({each})")
    shortfalls = [Shortfall(None, bound, _share_left_out(row, place)) for place, bound in enumerate(bounds)]
    return row["units"], Contribution(None, _spread(row), None, tuple(shortfalls))


def _groups_each(engine: DuckDBEngine, table: Table, key: Column, column: Column, rows: int | None) -> Contribution:
    """In how many groups of a column people are, and what bounds leave out of an answer by it.

    A person in k groups keeps min(k, groups) of them, each set of that size as likely as every other; so each group is
    kept with probability min(k, groups)/k, and the mean over fair choices needs no choice.
    """
    bounds = list(dict.fromkeys([table.groups, *LADDER]))
    person, value = quoted(key.name), quoted(column.name)
    inside = [f"{person} IS NOT NULL"]
    if column.values is not None:
        inside.append(f"({value} IN ({_listed(column)}){f' OR {value} IS NULL' if column.nullable else ''})")
    elif not column.nullable:
        inside.append(f"{value} IS NOT NULL")
    cells = (
        f"SELECT {person} AS u, count(*) AS n FROM {quoted(table.name)} WHERE {' AND '.join(inside)} "
        f"GROUP BY {person}, {value}"
    )
    each = f"SELECT count(*) AS g, sum(n) AS n, sum({_weight(rows)})::DOUBLE AS w FROM ({cells}) GROUP BY u"
    weights = [
        f"sum(w * {'1' if bound is None else f'least(g, {bound:d}) / g'}) AS kept{place}"
        for place, bound in enumerate(bounds)
    ]
    row = _only_row(engine, f"SELECT sum(n) AS total, {_quantiles('g')}, {', '.join(weights)} FROM ({each})")
    shortfalls = [Shortfall(bound, rows, _share_left_out(row, place)) for place, bound in enumerate(bounds)]
    return Contribution(column.name, None, _spread(row), tuple(shortfalls))


def _weight(bound: int | None) -> str:
    return "n" if bound is None else f"least(n, {bound:d})"


def _quantiles(name: str) -> str:
    return f"quantile_disc({name}, [0.5, 0.9, 0.99]) AS quantiles, max({name}) AS greatest"


def _spread(row: dict[str, Any]) -> Spread | None:
    if row["quantiles"] is None:
        return None
    median, at_90, at_99 = row["quantiles"]
    return Spread(median, at_90, at_99, row["greatest"])


def _share_left_out(row: dict[str, Any], place: int) -> float:
    total = row["total"]
    return 0.0 if not total else max(0.0, 1 - float(row[f"kept{place}"]) / float(total))


# SQL


def _only_row(engine: DuckDBEngine, sql: str) -> dict[str, Any]:
    row: dict[str, Any] = engine.fetch(sql).to_pylist()[0]
    return row


def _pairs(engine: DuckDBEngine, sql: str) -> list[tuple[Any, int]]:
    return [(row["v"], row["n"]) for row in engine.fetch(sql).to_pylist()]


def _listed(column: Column) -> str:
    return ", ".join(_constant(column.kind, value) for value in column.values or ())


def _constant(kind: ColumnType, value: Value) -> str:
    if isinstance(value, str):
        prefix = {ColumnType.DATE: "DATE ", ColumnType.TIMESTAMP: "TIMESTAMP "}.get(kind, "")
        return prefix + literal(value)
    return str(value).upper() if isinstance(value, bool) else f"{value}::BIGINT"


def _number(column: Column, bound: Any) -> str:
    """A bound as a number of the column's type; beyond all of them, an infinity."""
    if column.kind is ColumnType.INTEGER:
        return f"{int(bound)}"
    try:
        return f"CAST('{float(bound)!r}' AS DOUBLE)"
    except OverflowError:
        return f"CAST('{'-' * (bound < 0)}inf' AS DOUBLE)"
