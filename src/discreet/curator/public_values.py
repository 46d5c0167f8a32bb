"""What public tables say: values for private columns, and what is true of their own columns.

Rows of public tables are told to everybody, so what is read off them here costs nothing. It is read when a dataset is
opened, before anything is planned, and becomes part of the catalog: planning sees no difference to what an owner wrote.
"""

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import TEMPORAL, TEXT, Catalog, Column, ColumnType, Table, Value
from discreet.curator.engines.dialects import dialect_of
from discreet.errors import DiscreetError, InvalidData, InvalidParameter

if TYPE_CHECKING:
    from discreet.curator.engines import PublicEngine

MOST_VALUES = 1000
"""No more values of a column are listed: every row of a question is compared with them."""

_MOST_ROWS = 5_000_000
_LISTED = frozenset({ColumnType.TEXT, ColumnType.INTEGER, ColumnType.DATE})


def check_references(catalog: Catalog, references: Mapping[tuple[str, str], str]) -> None:
    """Refuse `values = "table.column"` that names no column of a public table, or one of another type."""
    for (table, column), reference in references.items():
        where = f"[tables.{table}] columns.{column} values"
        expected = 'a list of values, or "table.column" of a public table'
        source = _referred(catalog, reference)
        if source is None:
            raise InvalidParameter(where, reference, expected)
        kind = catalog.table(table).column(column).kind
        if source.kind is not kind or kind not in _LISTED:
            hint = f"it is {source.kind}; text, integer and date columns can share values"
            raise InvalidParameter(where, reference, f"a public column of type {kind}", hint)


def _referred(catalog: Catalog, reference: str) -> Column | None:
    name, _, column = reference.partition(".")
    table = catalog.tables.get(name.casefold())
    if table is None or table.private:
        return None
    return next((known for known in table.columns if known.name.casefold() == column.casefold()), None)


def with_public_values(catalog: Catalog, references: Mapping[tuple[str, str], str], engine: "PublicEngine") -> Catalog:
    """The catalog with the values that references name, and with what is true of public columns."""
    publics = {name: _facts(table, engine) for name, table in catalog.tables.items() if not table.private}
    tables = []
    for name, private in catalog.tables.items():
        table = publics.get(name, private)
        columns = table.columns
        results = [_resolved(catalog, table, column, references, engine) for column in columns]
        tables.append(_with_columns(table, results))
    return Catalog(catalog.name, tables, neighbors=catalog.neighbors)


def _with_columns(table: Table, columns: list[Column]) -> Table:
    return table if tuple(columns) == table.columns else _copied(table, columns=tuple(columns))


def _copied(table: Table, **changes: Any) -> Table:
    """A table with other columns or facts: what its owner stated was checked before."""
    changed = object.__new__(Table)
    for name in table.__slots__:
        object.__setattr__(changed, name, changes.get(name, getattr(table, name)))
    return changed


def _resolved(
    catalog: Catalog, table: Table, column: Column, references: Mapping[tuple[str, str], str], engine: "PublicEngine"
) -> Column:
    reference = references.get((table.name, column.name))
    if reference is None:
        return column
    name, _, place = reference.partition(".")
    public = catalog.table(name)
    try:
        values = _distinct(public, public.column(place), engine)
    except DiscreetError:
        raise
    except Exception as error:
        said = str(error).splitlines()[0][:200]
        raise InvalidData(f"table {public.name!r}: its values for {column.name!r} cannot be read: {said}") from None
    where = f"[tables.{table.name}] columns.{column.name} values"
    if not values or len(values) > MOST_VALUES:
        got = "no values" if not values else f"more than {MOST_VALUES:,} values in {reference}"
        raise InvalidParameter(where, got, f"1 to {MOST_VALUES:,} of them")
    return _changed(column, values=values)


def _facts(table: Table, engine: "PublicEngine") -> Table:
    """A public table with what is true of it: values where they are few, bounds, nulls, and how often values repeat."""
    quoted = dialect_of(engine.dialect).quoted
    parts = ["count(*) AS entries"]
    for place, column in enumerate(table.columns):
        name = quoted(column.name)
        parts += [f"count({name}) AS present{place}", f"count(DISTINCT {name}) AS distinct{place}"]
        if column.kind is ColumnType.INTEGER or column.kind in TEMPORAL:
            parts += [f"min({name}) AS least{place}", f"max({name}) AS most{place}"]
    sql = f"SELECT {', '.join(parts)} FROM {quoted(table.name)}"  # noqa: S608 (quoted names of the owner's policy)
    try:
        (facts,) = engine.fetch_public(sql, table.name).to_pylist()
        table = _copied(table, repeats=_repeats(table, facts, engine))
        if not 0 < facts["entries"] <= _MOST_ROWS:
            return table
        columns = [_with_facts(table, column, place, facts, engine) for place, column in enumerate(table.columns)]
        return _with_columns(table, columns)
    except Exception:  # what cannot be read is refused when somebody asks for it
        return table


def _repeats(table: Table, facts: dict[str, Any], engine: "PublicEngine") -> tuple[int, ...]:
    """How many rows there are, and of each column how many rows share a value at most (a bound in large tables)."""
    dialect, result = dialect_of(engine.dialect), [facts["entries"]]
    for place, column in enumerate(table.columns):
        most = facts[f"present{place}"] - facts[f"distinct{place}"] + 1
        if most > 1 and facts["entries"] <= _MOST_ROWS:
            name = dialect.quoted(column.name)
            rows = f"SELECT {name} AS v FROM {dialect.quoted(table.name)} WHERE {name} IS NOT NULL"  # noqa: S608
            counts = f"SELECT count(*) AS n FROM {dialect.sub(rows)} GROUP BY v"  # noqa: S608
            sql = f"SELECT max(n) AS most FROM {dialect.sub(counts)}"  # noqa: S608
            ((most,),) = (row.values() for row in engine.fetch_public(sql, table.name).to_pylist())
        result.append(most)
    return tuple(result)


def _with_facts(table: Table, column: Column, place: int, facts: dict[str, Any], engine: "PublicEngine") -> Column:
    changes: dict[str, Any] = {"nullable": column.nullable and facts[f"present{place}"] < facts["entries"]}
    least, most = facts.get(f"least{place}"), facts.get(f"most{place}")
    if isinstance(least, int) and isinstance(most, int) and column.lower is None and -(2**61) < least <= most < 2**61:
        changes |= {"lower": least, "upper": most}
    if isinstance(least, date) and column.earliest is None:
        changes |= {"earliest": least, "latest": most}
    if column.values is None and column.kind in _LISTED and 0 < facts[f"distinct{place}"] <= 2 * MOST_VALUES:
        values = _distinct(table, column, engine)
        if len(values) <= MOST_VALUES and not any(isinstance(value, str) and len(value) > TEXT for value in values):
            changes["values"] = values
    return _changed(column, **changes)


def _distinct(table: Table, column: Column, engine: "PublicEngine") -> list[Value]:
    """The values of a public column but null, in order; one more than are listed where there are more."""
    quoted = dialect_of(engine.dialect).quoted
    name = quoted(column.name)
    sql = f"SELECT DISTINCT {name} AS v FROM {quoted(table.name)} WHERE {name} IS NOT NULL ORDER BY v"  # noqa: S608
    result = engine.fetch_public(f"{sql} LIMIT {MOST_VALUES + 1}", table.name).column("v").to_pylist()
    return [value.isoformat() if isinstance(value, date) else value for value in result]


def _changed(column: Column, **changes: Any) -> Column:
    names = ("kind", "nullable", "lower", "upper", "granularity", "values", "earliest", "latest")
    return Column(column.name, **({name: getattr(column, name) for name in names} | changes))
