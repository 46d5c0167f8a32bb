"""A block's own text over the released table: keys and aggregates become its columns, everything else stays."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlglot import ErrorLevel, exp

from discreet.errors import InvalidQuery
from discreet.sql.algebra import Key
from discreet.sql.asked import Asked, asked, is_aggregate
from discreet.sql.text import DIALECT, Statement
from discreet.sql.translate import Scope, translate

MOST_AGGREGATES = 200


@dataclass(slots=True)
class Rewriting:
    """A block while its text is rewritten; `found` are the aggregates that it asks for.

    `columns` are the private columns in scope, `unit` the one that identifies people, `aliases` the names of outputs,
    and `nested` rewrites a query inside it, which sees released values only.
    """

    statement: Statement
    name: str
    columns: Scope
    unit: str | None
    keys: tuple[Key, ...]
    aliases: set[str]
    nested: Callable[[Any], Any]
    found: list[Asked] = field(default_factory=list)

    def column(self, letter: str, place: int) -> exp.Column:
        """A column of the released table: k0, k1, … are keys and a0, a1, … aggregates."""
        return exp.column(f"{self.name}_{letter}{place}", table=self.name, quoted=True)


def rewrite(block: Rewriting, select: exp.Select) -> None:
    """Make a SELECT over private rows one over its released table."""
    projections = _outputs(block, select.expressions)
    for clause in ("having", "qualify", "order", "distinct", "limit", "offset"):
        if select.args.get(clause):
            select.set(clause, _rewritten(block, select.args[clause], aliases=clause == "order"))
    for window in select.args.get("windows") or ():
        _children(block, window, aliases=False)
    select.set("expressions", projections)
    select.set("from_", exp.From(this=exp.Table(this=exp.to_identifier(block.name, quoted=True))))
    having = select.args.get("having")
    select.set("having", None)
    select.set("group", None)
    select.set("where", None if having is None else exp.Where(this=having.this))


def _outputs(block: Rewriting, parts: list[Any]) -> list[exp.Expr]:
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


def _rewritten(block: Rewriting, node: Any, *, aliases: bool = False) -> Any:  # noqa: PLR0911 (one return a kind)
    """A part of a block's text, with keys and aggregates as columns of the released table."""
    match node:
        case exp.Select() | exp.SetOperation():
            return block.nested(node)
        case exp.Window():
            node.set("this", _over(block, node.this, aliases))
            return _children(block, node, aliases, but="this")
        case exp.Ordered():  # an alias counts where it stands alone
            return _children(block, node, aliases and isinstance(node.this, exp.Column))
        case _ if is_aggregate(node):
            return _aggregate(block, node)
        case exp.Column():
            return _column(block, node, aliases)
        case exp.Star() | exp.Columns() | exp.PositionalColumn() | exp.Placeholder() | exp.IgnoreNulls():
            what = node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
            block.statement.refuse(node, f"{what} beside aggregates is not supported", "list what you want, by name")
        case exp.Expr() if (place := _key_of(block, node)) is not None:
            return block.column("k", place)
        case exp.Expr():
            return _children(block, node, aliases)
    return node


def _over(block: Rewriting, function: Any, aliases: bool) -> Any:
    """A window function works on released values: not itself an aggregate of rows, but its arguments may be."""
    if isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function.set("this", _over(block, function.this, aliases))
        return _children(block, function, aliases, but="this")
    star = isinstance(function.this, exp.Star) and not any(function.this.args.values())
    return _children(block, function, aliases, but="this" if star else "")


def _children(block: Rewriting, node: Any, aliases: bool, *, but: str = "") -> Any:
    for key, value in list(node.args.items()):
        if key == but:
            continue
        if isinstance(value, list):
            node.set(key, [_rewritten(block, part, aliases=aliases) for part in value])
        elif isinstance(value, exp.Expr):
            node.set(key, _rewritten(block, value, aliases=aliases))
    return node


def _aggregate(block: Rewriting, node: Any) -> exp.Column:
    wanted = asked(node, block.columns, block.statement, block.unit)
    if wanted not in block.found:
        block.found.append(wanted)
    if len(block.found) > MOST_AGGREGATES:
        block.statement.refuse(node, f"more than {MOST_AGGREGATES} aggregates in one SELECT", "ask for fewer at a time")
    return block.column("a", block.found.index(wanted))


def _column(block: Rewriting, node: exp.Column, aliases: bool) -> exp.Column:
    name = node.name.casefold()
    if name in block.aliases and not node.table and (aliases or name not in block.columns):
        return node
    place = _key_of(block, node)
    if place is None:
        translate(node, block.columns, block.statement)  # an unknown name says so
        block.statement.refuse(
            node, f"{node.sql()} is neither grouped by nor aggregated", "put it in GROUP BY, or inside an aggregate"
        )
    return block.column("k", place)


def _key_of(block: Rewriting, node: Any) -> int | None:
    """Which key a part of the text is, if it is one."""
    if not block.keys or isinstance(node, exp.Literal | exp.Null | exp.Boolean | exp.Ordered | exp.Order | exp.Having):
        return None
    try:
        value = translate(node, block.columns, block.statement)
    except InvalidQuery:
        return None
    values = [key.value for key in block.keys]
    return values.index(value) if value in values else None
