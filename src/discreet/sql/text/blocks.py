"""A statement taken apart: what is read from private rows, and what is done with the released values after that.

Every SELECT that reads a private table is either *rows* (no aggregate: only a step towards one) or a *block*
(aggregates, with or without GROUP BY). A block is replaced by a table of released values; what then remains of the
statement is post-processing, and runs where no private row is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from discreet.curator.catalog import Catalog, Table
from discreet.sql.algebra.expression import Expression
from discreet.sql.algebra.expression import field as of_column
from discreet.sql.algebra.relations import Filter, Key, Rows, Scan, scan_of
from discreet.sql.algebra.rules import AggregateCall
from discreet.sql.text.aggregates import Rewriting, has_aggregate, keys_of, rewrite
from discreet.sql.text.expressions import condition_of, translate
from discreet.sql.text.statement import Statement

_ROWS = {"expressions", "from_", "where", "with_"}
_BLOCK = _ROWS | {"group", "having", "qualify", "order", "limit", "offset", "distinct", "windows"}
_TABLE = {"this", "alias"}


@dataclass(frozen=True, slots=True)
class Block:
    """Aggregates over grouped private rows. `name` is what the remaining statement calls the released table."""

    name: str
    rows: Rows
    keys: tuple[Key, ...]
    aggregates: tuple[AggregateCall, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A statement: its blocks, the public tables it reads, and what remains of it as SQL over released values."""

    text: str
    blocks: tuple[Block, ...]
    publics: tuple[str, ...]
    post_query: exp.Query


@dataclass(frozen=True, slots=True)
class _Private:
    """Private rows under a name in FROM, and what its columns mean."""

    rows: Rows
    columns: dict[str, Expression]


@dataclass(slots=True)
class _Splitter:
    catalog: Catalog
    statement: Statement
    prefix: str
    blocks: list[Block] = field(default_factory=list)
    publics: dict[str, None] = field(default_factory=dict)
    count: int = 0
    scopes: dict[int, tuple[Any, "Names"]] = field(default_factory=dict)


def split(text: str, catalog: Catalog, *, prefix: str = "released") -> Parts:
    """Take a statement apart, against the catalog alone."""
    names = {column.name for table in catalog.tables.values() for column in table.columns}
    statement = Statement(text, names)
    while prefix in text.casefold():
        prefix += "_"
    splitter = _Splitter(catalog, statement, prefix)
    post_query = _query(splitter, statement.tree.copy(), {})
    return Parts(text, tuple(splitter.blocks), tuple(splitter.publics), post_query)


Names = dict[str, _Private | None]
"""What WITH has named so far: private rows, or (None) something released."""


def _query(at: _Splitter, node: Any, names: Names) -> Any:
    """A query over released values only: blocks inside it become released tables."""
    names = _with(at, node, names)
    if node.args.get("with_") and not node.args["with_"].expressions:
        node.set("with_", None)
    if isinstance(node, exp.Select):
        source = _private_source(at, node, names)
        if source is None:
            return _descend(at, node, names)
        if not _aggregates(node):
            at.statement.refuse(
                node, "this would give out private rows", "ask for COUNT, SUM or AVG, with or without GROUP BY"
            )
        return _block(at, node, source, names)
    return _descend(at, node, names)


def _with(at: _Splitter, node: Any, names: Names) -> Names:
    clause = node.args.get("with_")
    if clause is None:
        return names
    if id(clause) in at.scopes:  # it was read before, when somebody looked whether this gives rows
        return at.scopes[id(clause)][1]
    names = dict(names)
    at.scopes[id(clause)] = (clause, names)
    kept = []
    for part in clause.expressions:
        name = part.alias.casefold()
        if clause.args.get("recursive"):
            names[name] = None
        rows = None if part.args["alias"].columns else _rows(at, part.this, names)
        names[name] = rows
        if rows is None:
            part.set("this", _query(at, part.this, names))
            kept.append(part)
    clause.set("expressions", kept)
    return names


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
    if node.args.get("db"):
        at.statement.refuse(node, f"there is no table {node.sql()!r}", _tables(at))
    name = node.name.casefold()
    if name in names:
        if names[name] is not None:
            at.statement.refuse(node, f"{node.name!r} holds private rows, and joins are not supported yet", _JOINED)
        return _descend(at, node, names)
    table = _table(at, node)
    if table.private:
        at.statement.refuse(node, f"{table.name!r} is private, and joins are not supported yet", _JOINED)
    at.publics[table.name] = None
    node.set("this", exp.to_identifier(table.name, quoted=True))
    return _descend(at, node, names)


_NO_JOINS = "joins with private rows are not supported yet"
_JOINED = (
    "meanwhile, ask each table alone (answers may be joined: WITH a AS (SELECT … GROUP BY …)), "
    "or the owner can join them into one table and put that into the policy"
)


def _table(at: _Splitter, node: exp.Table) -> Table:
    if node.name.casefold() not in at.catalog.tables:
        at.statement.refuse(node, f"there is no table {node.name!r}", _tables(at))
    return at.catalog.table(node.name)


def _tables(at: _Splitter) -> str:
    return "there are: " + ", ".join(table.name for table in at.catalog.tables.values())


# Private rows


def _private_source(at: _Splitter, select: exp.Select, names: Names) -> _Private | None:
    """The private rows that a SELECT reads, or None where it reads none."""
    source = select.args.get("from_")
    if source is None:
        return None
    private = _rows(at, source.this, names)
    if private is not None and select.args.get("joins"):
        at.statement.refuse(select.args["joins"][0], _NO_JOINS, _JOINED)
    return private


def _rows(at: _Splitter, node: Any, names: Names) -> _Private | None:
    """Private rows, or None for anything that is not (or not only) that."""
    match node:
        case exp.Table() if isinstance(node.this, exp.Identifier) and not node.args.get("db"):
            return _scan(at, node, names)
        case exp.Subquery():
            inner = _rows(at, node.this, names)
            if inner is not None:
                _only(at, node, _TABLE)
            return None if inner is None else _Private(inner.rows, _qualified(inner.columns, node.alias))
        case exp.Select():
            return _selected(at, node, names)
        case _:
            return None


def _scan(at: _Splitter, node: exp.Table, names: Names) -> _Private | None:
    name = node.name.casefold()
    if name in names:
        named = names[name]
        if named is not None:
            _only(at, node, _TABLE)
        return None if named is None else _Private(named.rows, _qualified(named.columns, node.alias or node.name))
    table = _table(at, node)
    if not table.private:
        return None
    _only(at, node, _TABLE)
    columns: dict[str, Expression] = {column.name.casefold(): of_column(column) for column in table.columns}
    return _Private(Scan(table), _qualified(columns, node.alias or node.name))


def _selected(at: _Splitter, select: exp.Select, names: Names) -> _Private | None:
    """SELECT … FROM private rows WHERE …, without aggregates: rows again."""
    names = _with(at, select, names)
    source = _private_source(at, select, names)
    if source is None or _aggregates(select):
        return None
    _only(at, select, _ROWS)
    columns: dict[str, Expression] = {}
    for part in select.expressions:
        for name, value in _projected(at, part, source.columns):
            if name in columns:
                at.statement.refuse(part, f"two columns named {name!r}", "give them different names with AS")
            columns[name] = value
    return _Private(_filtered(at, select, source), columns)


def _projected(at: _Splitter, part: Any, columns: dict[str, Expression]) -> Iterator[tuple[str, Expression]]:
    if isinstance(part, exp.Star):
        if any(part.args.values()):
            at.statement.refuse(part, "* with further words is not supported", "list the columns")
        yield from ((name, value) for name, value in columns.items() if "." not in name)
    elif part.alias_or_name:
        yield part.alias_or_name.casefold(), translate(part.unalias(), columns, at.statement)
    else:
        at.statement.refuse(part, "this column has no name", "name it with AS")


def _filtered(at: _Splitter, select: exp.Select, source: _Private) -> Rows:
    where = select.args.get("where")
    if where is None:
        return source.rows
    return Filter(source.rows, condition_of(where.this, source.columns, at.statement))


def _qualified(columns: dict[str, Expression], alias: str) -> dict[str, Expression]:
    plain = {name: value for name, value in columns.items() if "." not in name}
    return plain | {f"{alias.casefold()}.{name}": value for name, value in plain.items()} if alias else plain


def _only(at: _Splitter, node: Any, allowed: set[str]) -> None:
    for name, value in node.args.items():
        if value and name not in allowed:
            word = name.rstrip("_").replace("_", " ").upper()
            where = value[0] if isinstance(value, list) else value
            part = where if isinstance(where, exp.Expr) else node
            if name == "joins":
                at.statement.refuse(part, _NO_JOINS, _JOINED)
            at.statement.refuse(part, f"{word} is not supported on private rows", "aggregate first, then use it")
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        at.statement.refuse(node, "column names after a table's alias are not supported", "name columns with AS")


def _aggregates(select: exp.Select) -> bool:
    """Whether a SELECT groups or aggregates."""
    if select.args.get("group") or select.args.get("having"):
        return True
    parts = [*select.expressions, select.args.get("order"), select.args.get("qualify")]
    return any(has_aggregate(part) for part in parts if part is not None)


# Blocks


def _block(at: _Splitter, select: exp.Select, source: _Private, names: Names) -> exp.Select:
    """Replace what a block reads by what will be released; the rest of it stays."""
    _only(at, select, _BLOCK)
    at.count += 1
    name, table = f"{at.prefix}_{at.count}", scan_of(source.rows).table
    rows = _filtered(at, select, source)
    keys = keys_of(at.statement, select, source.columns, table)
    aliases = {part.alias.casefold() for part in select.expressions if part.alias}
    unit = table.unit.key if table.unit is not None else None
    block = Rewriting(
        at.statement, name, source.columns, unit, keys, aliases, nested=lambda node: _query(at, node, names)
    )
    rewrite(block, select)
    at.blocks.append(Block(name, rows, keys, tuple(block.found)))
    return select
