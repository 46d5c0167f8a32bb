"""A statement taken apart: what is read from private rows, and what is done with the released values after that.

Every SELECT that reads a private table is either *rows* (no aggregate: only a step towards one) or a *block*
(aggregates, with or without GROUP BY). A block is replaced by a table of released values; what then remains of the
statement is post-processing, and runs where no private row is.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import Catalog, Table
from discreet.errors import InvalidQuery
from discreet.query.algebra import Filter, Key, Rows, Scan, scan_of
from discreet.query.asked import Asked, asked, is_aggregate
from discreet.query.expression import Domain, Expression, Field
from discreet.query.expression import field as of_column
from discreet.query.kinds import Nothing, Real
from discreet.query.text import DIALECT, Statement
from discreet.query.translate import condition_of, translate

_ROWS = {"expressions", "from_", "where", "with_"}
_BLOCK = _ROWS | {"group", "having", "qualify", "order", "limit", "offset", "distinct", "windows"}
_TABLE = {"this", "alias"}
LARGEST_DOMAIN = 10_000_000
MOST_AGGREGATES = 200


@dataclass(frozen=True, slots=True)
class Block:
    """Aggregates over grouped private rows. `name` is what the remaining statement calls the released table."""

    name: str
    rows: Rows
    keys: tuple[Key, ...]
    aggregates: tuple[Asked, ...]


@dataclass(frozen=True, slots=True)
class Parts:
    """A statement: its blocks, the public tables it reads, and what remains of it as SQL over released values."""

    text: str
    blocks: tuple[Block, ...]
    publics: tuple[str, ...]
    rest: exp.Query


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
    statement = Statement(text)
    while prefix in text.casefold():
        prefix += "_"
    splitter = _Splitter(catalog, statement, prefix)
    rest = _query(splitter, statement.tree.copy(), {})
    return Parts(text, tuple(splitter.blocks), tuple(splitter.publics), rest)


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
            at.statement.refuse(node, f"{node.name!r} holds private rows, and joins are not supported yet", _ALONE)
        return _descend(at, node, names)
    table = _table(at, node)
    if table.private:
        at.statement.refuse(node, f"{table.name!r} is private, and joins are not supported yet", _ALONE)
    at.publics[table.name] = None
    node.set("this", exp.to_identifier(table.name, quoted=True))
    return _descend(at, node, names)


_ALONE = "read it alone in FROM, with aggregates"


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
        at.statement.refuse(select.args["joins"][0], "joins with private rows are not supported yet", _ALONE)
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
            place = where if isinstance(where, exp.Expr) else node
            at.statement.refuse(place, f"{word} is not supported on private rows", "aggregate first, then use it")
    alias = node.args.get("alias")
    if isinstance(alias, exp.TableAlias) and alias.columns:
        at.statement.refuse(node, "column names after a table's alias are not supported", "name columns with AS")


def _aggregates(select: exp.Select) -> bool:
    """Whether a SELECT groups or aggregates."""
    if select.args.get("group") or select.args.get("having"):
        return True
    places = [*select.expressions, select.args.get("order"), select.args.get("qualify")]
    return any(_has_aggregate(part) for part in places if part is not None)


def _has_aggregate(node: Any) -> bool:
    match node:
        case exp.Query():
            return False
        case exp.Window():
            inner = [
                *node.this.iter_expressions(),
                *(part for part in node.iter_expressions() if part is not node.this),
            ]
            return any(_has_aggregate(part) for part in inner)
        case _ if is_aggregate(node):
            return True
        case exp.Expr():
            return any(_has_aggregate(part) for part in node.iter_expressions())
        case _:
            return False


# Blocks


def _block(at: _Splitter, select: exp.Select, source: _Private, names: Names) -> exp.Select:
    """Replace what a block reads by what will be released; the rest of it stays."""
    _only(at, select, _BLOCK)
    at.count += 1
    name = f"{at.prefix}_{at.count}"
    rows = _filtered(at, select, source)
    keys = _keys(at, select, source)
    aliases = {part.alias.casefold() for part in select.expressions if part.alias}
    block = _Rewriting(at, name, source, keys, names, aliases)
    projections = _outputs(block, select.expressions)
    for clause in ("having", "qualify", "order", "distinct", "limit", "offset"):
        if select.args.get(clause):
            select.set(clause, _rewritten(block, select.args[clause], aliases=clause == "order"))
    for window in select.args.get("windows") or ():
        _children(block, window, aliases=False)
    select.set("expressions", projections)
    select.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(name, quoted=True))))
    having = select.args.get("having")
    select.set("having", None)
    select.set("group", None)
    select.set("where", None if having is None else exp.Where(this=having.this))
    at.blocks.append(Block(name, rows, keys, tuple(block.found)))
    return select


@dataclass(slots=True)
class _Rewriting:
    """A block while its text is rewritten over the released table."""

    at: _Splitter
    name: str
    source: _Private
    keys: tuple[Key, ...]
    names: Names
    aliases: set[str]
    found: list[Asked] = field(default_factory=list)

    def column(self, letter: str, place: int) -> exp.Column:
        """A column of the released table: k0, k1, … are keys and a0, a1, … aggregates."""
        return exp.column(f"{self.name}_{letter}{place}", table=self.name, quoted=True)


def _outputs(block: _Rewriting, parts: list[Any]) -> list[exp.Expr]:
    """The projections, each under a name of its own."""
    found: list[exp.Expr] = []
    taken: set[str] = set()
    for part in parts:
        plain = part.alias if isinstance(part, exp.Alias) else part.name if isinstance(part, exp.Column) else ""
        base = name = plain or part.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
        number = 1
        while name.casefold() in taken:
            name, number = f"{base}_{number}", number + 1
        taken.add(name.casefold())
        found.append(exp.alias_(_rewritten(block, part.unalias()), name, quoted=True))
    return found


def _rewritten(block: _Rewriting, node: Any, *, aliases: bool = False) -> Any:  # noqa: PLR0911 (one return a kind)
    """A part of a block's text, with keys and aggregates as columns of the released table."""
    match node:
        case exp.Select() | exp.SetOperation():
            return _query(block.at, node, block.names)
        case exp.Window():
            node.set("this", _over(block, node.this, aliases))
            return _children(block, node, aliases, but="this")
        case _ if is_aggregate(node):
            return _aggregate(block, node)
        case exp.Column():
            return _column(block, node, aliases)
        case exp.Star() | exp.Columns() | exp.PositionalColumn() | exp.Placeholder() | exp.IgnoreNulls():
            what = node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
            block.at.statement.refuse(node, f"{what} beside aggregates is not supported", "list what you want, by name")
        case exp.Expr() if (place := _key_of(block, node)) is not None:
            return block.column("k", place)
        case exp.Expr():
            return _children(block, node, aliases)
    return node


def _over(block: _Rewriting, function: Any, aliases: bool) -> Any:
    """A window function works on released values: not itself an aggregate of rows, but its arguments may be."""
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function.set("this", _over(block, function.this, aliases))
        return _children(block, function, aliases, but="this")
    return _children(block, function, aliases)


def _children(block: _Rewriting, node: Any, aliases: bool, *, but: str = "") -> Any:
    for key, value in list(node.args.items()):
        if key == but:
            continue
        if isinstance(value, list):
            node.set(key, [_rewritten(block, part, aliases=aliases) for part in value])
        elif isinstance(value, exp.Expr):
            node.set(key, _rewritten(block, value, aliases=aliases))
    return node


def _aggregate(block: _Rewriting, node: Any) -> exp.Column:
    unit = scan_of(block.source.rows).table.unit
    wanted = asked(node, block.source.columns, block.at.statement, unit.key if unit else None)
    if wanted not in block.found:
        block.found.append(wanted)
    if len(block.found) > MOST_AGGREGATES:
        block.at.statement.refuse(
            node, f"more than {MOST_AGGREGATES} aggregates in one SELECT", "ask for fewer at a time"
        )
    return block.column("a", block.found.index(wanted))


def _column(block: _Rewriting, node: exp.Column, aliases: bool) -> exp.Column:
    name = node.name.casefold()
    if name in block.aliases and not node.table and (aliases or name not in block.source.columns):
        return node
    place = _key_of(block, node)
    if place is None:
        translate(node, block.source.columns, block.at.statement)  # an unknown name says so
        block.at.statement.refuse(
            node, f"{node.sql()} is neither grouped by nor aggregated", "put it in GROUP BY, or inside an aggregate"
        )
    return block.column("k", place)


def _key_of(block: _Rewriting, node: Any) -> int | None:
    """Which key a part of the text is, if it is one."""
    if not block.keys or not node.find(exp.Column) or isinstance(node, exp.Ordered | exp.Order | exp.Having):
        return None
    try:
        value = translate(node, block.source.columns, block.at.statement)
    except InvalidQuery:
        return None
    values = [key.value for key in block.keys]
    return values.index(value) if value in values else None


def _keys(at: _Splitter, select: exp.Select, source: _Private) -> tuple[Key, ...]:
    """What a block groups by."""
    clause = select.args.get("group")
    if clause is None:
        return ()
    if clause.args.get("all"):
        parts = [(part.alias_or_name, part.unalias()) for part in select.expressions if not _has_aggregate(part)]
    else:
        parts = [_grouped_by(at, part, select, source) for part in clause.expressions]
    for name, value in clause.args.items():
        if value and name not in ("expressions", "all"):
            at.statement.refuse(clause, f"GROUP BY {name.upper()} is not supported", "list what to group by")
    keys: dict[Expression, Key] = {}
    for name, part in parts:
        value = translate(part, source.columns, at.statement)
        _check_key(at, part, value, scan_of(source.rows).table)
        keys.setdefault(value, Key(name or part.sql(dialect=DIALECT), value, _domain(value)))
    total = prod(key.size or 1 for key in keys.values())
    if total > LARGEST_DOMAIN:
        at.statement.refuse(
            clause, f"this makes {total:,} groups", f"group by less: at most {LARGEST_DOMAIN:,} are answered"
        )
    return tuple(keys.values())


def _grouped_by(at: _Splitter, part: Any, select: exp.Select, source: _Private) -> tuple[str, Any]:
    """A part of GROUP BY: a number or an alias stands for a projection."""
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdecimal() or not 1 <= int(part.name) <= len(select.expressions):
            at.statement.refuse(part, f"GROUP BY {part.name}", f"a number from 1 to {len(select.expressions)}")
        chosen = select.expressions[int(part.name) - 1]
        return chosen.alias_or_name, chosen.unalias()
    if isinstance(part, exp.Column) and not part.table and part.name.casefold() not in source.columns:
        for projection in select.expressions:
            if projection.alias.casefold() == part.name.casefold():
                return projection.alias, projection.unalias()
    return part.alias_or_name, part


def _check_key(at: _Splitter, part: Any, value: Expression, table: Table) -> None:
    if isinstance(value.kind, Real | Nothing):
        at.statement.refuse(
            part, f"GROUP BY of {value.kind}", "declare bounds and granularity, or group ranges: CASE …"
        )
    unit = table.unit.key if table.unit else None
    if isinstance(value, Field) and unit is not None and value.column.name.casefold() == unit.casefold():
        at.statement.refuse(part, "GROUP BY of the unit would name people", "group by something that people share")


def _domain(value: Expression) -> Domain | None:
    domain = value.domain
    return None if domain is None or len(domain) > LARGEST_DOMAIN else domain
