"""SHOW TABLES, DESCRIBE t, SHOW COLUMNS FROM t and information_schema: answered from the catalog, which is public."""

import re
from typing import Any

import sqlglot
from sqlglot import exp

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.columns import TYPES, literal, quoted
from discreet.errors import InvalidQuery
from discreet.exact import plain

_DIALECT = "duckdb"
_END = r"\s*;?\s*"
_NAME = r"(\"(?:[^\"]|\"\")+\"|[^\s;\"]+)"
_TABLES = re.compile(rf"\s*SHOW\s+(?:ALL\s+)?TABLES{_END}", re.IGNORECASE)
_COLUMNS = re.compile(rf"\s*(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+(?:TABLE\s+)?{_NAME}{_END}", re.IGNORECASE)

Rows = list[tuple[Any, ...]]
_PLACE = ("table_catalog", "table_schema", "table_name")


def catalog_query(text: str, catalog: Catalog) -> str | None:
    """A SELECT that answers SHOW or DESCRIBE from the catalog; None where the text is neither."""
    if _TABLES.fullmatch(text):
        rows: Rows = [
            (table.name, "private" if table.private else "public", str(table.unit) if table.unit else None)
            for table in catalog.tables.values()
        ]
        return _select(("name", "kind", "protects"), rows)
    found = _COLUMNS.fullmatch(text)
    if found is None:
        return None
    name = found[1].strip('"').replace('""', '"')
    if name.casefold() not in catalog.tables:
        known = ", ".join(table.name for table in catalog.tables.values())
        raise InvalidQuery(f"there is no table {name!r}", f"there are: {known}", text=text, start=found.start(1))
    table = catalog.table(name)
    names = ("column_name", "column_type", "null", "key", "lower", "upper", "granularity", "values")
    return _select(names, [_described(table, column) for column in table.columns])


def _described(table: Table, column: Column) -> tuple[Any, ...]:
    unit = table.unit.key if table.unit is not None else None
    ends = (column.lower, column.upper) if column.lower is not None else (column.earliest, column.latest)
    shown = [None if end is None else str(end) if column.lower is None else plain(end) for end in ends]  # type: ignore[arg-type]
    step = plain(column.granularity) if column.granularity is not None and column.lower is not None else None
    values = None if column.values is None else ", ".join(map(str, column.values))
    key = "unit" if unit is not None and unit.casefold() == column.name.casefold() else None
    return (column.name, TYPES[column.kind], "YES" if column.nullable else "NO", key, *shown, step, values)


def information_schema(node: exp.Table, catalog: Catalog) -> exp.Expr | None:
    """information_schema.tables or .columns as a query over the catalog; None for any other table."""
    if str(node.args.get("db") or "").casefold() != "information_schema" or node.args.get("catalog"):
        return None
    schema = (catalog.name, "main")
    tables = list(catalog.tables.values())
    match node.name.casefold():
        case "tables":
            names: tuple[str, ...] = (*_PLACE, "table_type")
            rows: Rows = [(*schema, table.name, "BASE TABLE") for table in tables]
        case "columns":
            names = (*_PLACE, "column_name", "ordinal_position", "data_type", "is_nullable")
            rows = [
                (*schema, table.name, column.name, place, TYPES[column.kind], "YES" if column.nullable else "NO")
                for table in tables
                for place, column in enumerate(table.columns, 1)
            ]
        case _:
            return None
    tree = sqlglot.parse_one(_select(names, rows), read=_DIALECT)
    return exp.Subquery(this=tree, alias=exp.TableAlias(this=exp.to_identifier(node.alias or node.name, quoted=True)))


def _select(names: tuple[str, ...], rows: Rows) -> str:
    """A SELECT of these rows, whose columns are texts or whole numbers."""
    listed = ", ".join("(" + ", ".join(map(_value, row)) + ")" for row in rows)
    return f"SELECT * FROM (VALUES {listed}) AS catalog({', '.join(map(quoted, names))})"  # noqa: S608 (the catalog)


def _value(value: Any) -> str:
    if value is None:
        return "CAST(NULL AS VARCHAR)"
    return str(value) if isinstance(value, int) else literal(str(value))
