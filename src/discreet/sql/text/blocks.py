"""A statement taken apart: what is read from private rows, and what is done with the released values after that.

Every SELECT that reads a private table is either *rows* (no aggregate: only a step towards one) or a *block*
(aggregates, with or without GROUP BY). A block is replaced by a table of released values; what then remains of the
statement is post-processing, and runs where no private row is.

SHOW TABLES, DESCRIBE t, SHOW COLUMNS FROM t and information_schema: answered from the catalog, which is public.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import sqlglot
from sqlglot import exp

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.columns import TYPES, literal, quoted
from discreet.errors import InvalidQuery
from discreet.exact import plain
from discreet.sql.algebra.relations import Key
from discreet.sql.algebra.rows import Rows
from discreet.sql.algebra.rules import AggregateCall, Limits
from discreet.sql.algebra.verification import canonical_numbers, renumbered
from discreet.sql.text.aggregates import Rewriting, keys_of, rewrite
from discreet.sql.text.sources import Names, Reader, Source, groups_or_aggregates
from discreet.sql.text.statement import Statement

_BLOCK = {
    "expressions", "from_", "where", "with_", "joins", "group", "having", "qualify", "order", "limit", "offset",
    "distinct", "windows",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block:
    """Aggregates over grouped private rows. `name` is what the remaining statement calls the released table.

    `sets` are the keys of each set of GROUPING SETS, ROLLUP or CUBE, of which the released table then has totals.
    """

    name: str
    rows: Rows
    keys: tuple[Key, ...]
    aggregates: tuple[AggregateCall, ...]
    sets: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Parts:
    """A statement: its blocks, the public tables it reads, and what remains of it as SQL over released values."""

    text: str
    blocks: tuple[Block, ...]
    publics: tuple[str, ...]
    post_query: exp.Query


@dataclass(slots=True)
class _Splitter:
    catalog: Catalog
    statement: Statement
    prefix: str
    limits: Limits
    blocks: list[Block] = field(default_factory=list)
    publics: dict[str, None] = field(default_factory=dict)
    count: int = 0
    reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.reader = Reader(self.catalog, self.statement, self.limits, lambda node, names: _query(self, node, names))


def split(text: str, catalog: Catalog, limits: Limits | None = None, *, prefix: str = "released") -> Parts:
    """Take a statement apart, against the catalog alone."""
    names = {column.name for table in catalog.tables.values() for column in table.columns}
    statement = Statement(_catalog_query(text, catalog) or text, names)
    while prefix in text.casefold():
        prefix += "_"
    splitter = _Splitter(catalog, statement, prefix, limits or Limits())
    post_query = _query(splitter, statement.tree.copy(), {})
    return Parts(text, tuple(splitter.blocks), tuple(splitter.publics), post_query)


def _catalog_query(text: str, catalog: Catalog) -> str | None:
    """SHOW and DESCRIBE as a SELECT; None for any other text."""
    if not isinstance(text, str) or not text.lstrip()[:4].casefold().startswith(("show", "desc")):
        return None

    return catalog_query(text, catalog)


def _query(at: _Splitter, node: Any, names: Names) -> Any:
    """A query over released values only: blocks inside it become released tables."""
    names = at.reader.names(node, names)
    if node.args.get("with_") and not node.args["with_"].expressions:
        node.set("with_", None)
    if isinstance(node, exp.Select):
        source = at.reader.private(node, names)
        if source is None:
            return _descend(at, node, names)
        if not groups_or_aggregates(node):
            at.statement.refuse(
                node, "this would give out private rows", "ask for COUNT, SUM or AVG, with or without GROUP BY"
            )
        return _block(at, node, source, names)
    if at.reader.source(node, names) is not None:
        at.statement.refuse(node, "this would give out private rows", "count them: SELECT COUNT(*) FROM (…)")
    return _descend(at, node, names)


def _descend(at: _Splitter, node: Any, names: Names) -> Any:
    """Replace the blocks inside a node, and check the tables it names."""
    for key, value in list(node.args.items()):
        if key == "with_":
            continue
        if isinstance(value, list):
            node.set(key, [_inner(at, part, names) for part in value])
        else:
            node.set(key, _inner(at, value, names))
    return node


def _inner(at: _Splitter, node: Any, names: Names) -> Any:
    match node:
        case exp.Select() | exp.SetOperation():
            return _query(at, node, names)
        case exp.Table():
            return _released_table(at, node, names)
        case exp.Expr():
            return _descend(at, node, names)
        case _:
            return node


def _released_table(at: _Splitter, node: exp.Table, names: Names) -> Any:
    """A table in a query over released values: named by WITH, public, or a function of DuckDB's own."""
    if not isinstance(node.this, exp.Identifier):
        return _descend(at, node, names)
    name = node.name.casefold()
    if name in names and not node.args.get("db"):
        if names[name] is not None:
            at.statement.refuse(node, f"{node.name!r} holds private rows, which cannot stand here", _ALONE)
        return _descend(at, node, names)
    if node.args.get("db"):
        described = information_schema(node, at.catalog)
        if described is not None:
            return described
    table = at.reader.table(node)
    if table.private:
        at.statement.refuse(node, f"{table.name!r} is private, and cannot stand here", _ALONE)
    at.publics[table.name] = None
    node.set("this", exp.to_identifier(table.name, quoted=True))
    return _descend(at, node, names)


_ALONE = "aggregate it first: WITH a AS (SELECT … GROUP BY …)"


# Blocks


def _block(at: _Splitter, select: exp.Select, source: Source, names: Names) -> exp.Select:
    """Replace what a block reads by what will be released; the rest of it stays."""
    at.reader.only(select, _BLOCK)
    at.count += 1
    name = f"{at.prefix}_{at.count}"
    source = at.reader.filtered(select, source, names)
    numbers = canonical_numbers(source.rows)
    rows, columns = (renumbered(part, numbers) for part in (source.rows, tuple(source.columns.values())))
    columns = dict(zip(source.columns, columns, strict=True))
    keys, sets = keys_of(at.statement, select, columns, rows)
    for key in keys:
        if key.domain is None and at.reader.anchor(key.value, Source(rows, columns)) is not None:
            hint = "group by something that people share, or let an outer query aggregate over these groups"
            at.statement.refuse(select.args["group"], f"each group by {key.name} would be one person's", hint)
    aliases = {part.alias.casefold() for part in select.expressions if part.alias}
    block = Rewriting(
        at.statement, name, columns, rows, keys, aliases, nested=lambda node: _query(at, node, names), sets=sets
    )
    rewrite(block, select)
    at.blocks.append(Block(name, rows, keys, tuple(block.found), sets))
    return select


_DIALECT = "duckdb"
_END = r"\s*;?\s*"
_NAME = r"(\"(?:[^\"]|\"\")+\"|[^\s;\"]+)"
_TABLES = re.compile(rf"\s*SHOW\s+(?:ALL\s+)?TABLES{_END}", re.IGNORECASE)
_COLUMNS = re.compile(rf"\s*(?:DESCRIBE|DESC|SHOW\s+COLUMNS\s+(?:FROM|IN))\s+(?:TABLE\s+)?{_NAME}{_END}", re.IGNORECASE)

Records = list[tuple[Any, ...]]
_PLACE = ("table_catalog", "table_schema", "table_name")


def catalog_query(text: str, catalog: Catalog) -> str | None:
    """A SELECT that answers SHOW or DESCRIBE from the catalog; None where the text is neither."""
    if _TABLES.fullmatch(text):
        rows: Records = [
            (table.name, "private" if table.private else "public", str(table.unit) if table.unit else None)
            for table in catalog.tables.values()
        ]
        return _select(("name", "kind", "protects"), rows)
    result = _COLUMNS.fullmatch(text)
    if result is None:
        return None
    name = result[1].strip('"').replace('""', '"')
    if name.casefold() not in catalog.tables:
        known = ", ".join(table.name for table in catalog.tables.values())
        raise InvalidQuery(f"there is no table {name!r}", f"there are: {known}", text=text, start=result.start(1))
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
            rows: Records = [(*schema, table.name, "BASE TABLE") for table in tables]
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


def _select(names: tuple[str, ...], rows: Records) -> str:
    """A SELECT of these rows, whose columns are texts or whole numbers."""
    listed = ", ".join("(" + ", ".join(map(_value, row)) + ")" for row in rows)
    return f"SELECT * FROM (VALUES {listed}) AS catalog({', '.join(map(quoted, names))})"  # noqa: S608 (the catalog)


def _value(value: Any) -> str:
    if value is None:
        return "CAST(NULL AS VARCHAR)"
    return str(value) if isinstance(value, int) else literal(str(value))
