"""What a SELECT over private rows asks for: its aggregates, its keys, and its own text over the released table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import Table
from discreet.errors import InvalidQuery
from discreet.sql.algebra import conditions, functions
from discreet.sql.algebra.expression import Constant, Expression, Field, Unsupported, constant
from discreet.sql.algebra.kinds import Fixed, Nothing, Real
from discreet.sql.algebra.relations import LARGEST_DOMAIN, Key, domain_of
from discreet.sql.algebra.rules import AggregateCall
from discreet.sql.text.expressions import Scope, translate
from discreet.sql.text.statement import DIALECT, Statement

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
    found: list[AggregateCall] = field(default_factory=list)

    def column(self, letter: str, index: int) -> exp.Column:
        """A column of the released table: k0, k1, … are keys and a0, a1, … aggregates."""
        return exp.column(f"{self.name}_{letter}{index}", table=self.name, quoted=True)


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
    names: set[str] = set()
    for part in parts:
        plain = part.alias if isinstance(part, exp.Alias) else part.name if isinstance(part, exp.Column) else ""
        base = name = plain or part.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
        number = 1
        while name.casefold() in names:
            name, number = f"{base}_{number}", number + 1
        names.add(name.casefold())
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
        case exp.Expr() if (index := _key_of(block, node)) is not None:
            return block.column("k", index)
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
    call = aggregate_call(node, block.columns, block.statement, block.unit)
    if call not in block.found:
        block.found.append(call)
    if len(block.found) > MOST_AGGREGATES:
        block.statement.refuse(node, f"more than {MOST_AGGREGATES} aggregates in one SELECT", "ask for fewer at a time")
    return block.column("a", block.found.index(call))


def _column(block: Rewriting, node: exp.Column, aliases: bool) -> exp.Column:
    name = node.name.casefold()
    if name in block.aliases and not node.table and (aliases or name not in block.columns):
        return node
    index = _key_of(block, node)
    if index is None:
        translate(node, block.columns, block.statement)  # an unknown name says so
        block.statement.refuse(
            node, f"{node.sql()} is neither grouped by nor aggregated", "put it in GROUP BY, or inside an aggregate"
        )
    return block.column("k", index)


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


def keys_of(statement: Statement, select: exp.Select, columns: Scope, table: Table) -> tuple[Key, ...]:
    """What a block groups by."""
    clause = select.args.get("group")
    if clause is None:
        return ()
    if clause.args.get("all"):
        parts = [(part.alias_or_name, part.unalias()) for part in select.expressions if not has_aggregate(part)]
    else:
        parts = [_grouped_by(statement, part, select, columns) for part in clause.expressions]
    for name, value in clause.args.items():
        if value and name not in ("expressions", "all"):
            statement.refuse(clause, f"GROUP BY {name.upper()} is not supported", "list what to group by")
    keys: dict[Expression, Key] = {}
    for name, part in parts:
        value = translate(part, columns, statement)
        _check_key(statement, part, value, table)
        keys.setdefault(value, Key(name or part.sql(dialect=DIALECT), value, domain_of(value)))
    total = prod(key.size or 1 for key in keys.values())
    if total > LARGEST_DOMAIN:
        statement.refuse(
            clause, f"this makes {total:,} groups", f"group by less: at most {LARGEST_DOMAIN:,} are answered"
        )
    return tuple(keys.values())


def _grouped_by(statement: Statement, part: Any, select: exp.Select, columns: Scope) -> tuple[str, Any]:
    """A part of GROUP BY: a number or an alias stands for a projection."""
    if isinstance(part, exp.Literal) and not part.is_string:
        if not part.name.isdecimal() or not 1 <= int(part.name) <= len(select.expressions):
            statement.refuse(part, f"GROUP BY {part.name}", f"a number from 1 to {len(select.expressions)}")
        chosen = select.expressions[int(part.name) - 1]
        return chosen.alias_or_name, chosen.unalias()
    if isinstance(part, exp.Column) and not part.table and part.name.casefold() not in columns:
        for projection in select.expressions:
            if projection.alias.casefold() == part.name.casefold():
                return projection.alias, projection.unalias()
    return part.alias_or_name, part


def _check_key(statement: Statement, part: Any, value: Expression, table: Table) -> None:
    if isinstance(value.kind, Real | Nothing):
        statement.refuse(part, f"GROUP BY of {value.kind}", "declare bounds and granularity, or group ranges: CASE …")
    unit = table.unit.key if table.unit else None
    if isinstance(value, Field) and unit is not None and value.column.name.casefold() == unit.casefold():
        statement.refuse(part, "GROUP BY of the unit would name people", "group by something that people share")


_FURTHER = frozenset({  # aggregates of DuckDB that the parser does not know as such
    "approx_top_k", "arbitrary", "arg_max_null", "arg_max_nulls_last", "arg_min_null", "arg_min_nulls_last",
    "bitstring_agg", "combine_aggr", "count_star", "countif", "decimal_average", "entropy", "favg", "fsum", "histogram",
    "histogram_exact", "kahan_sum", "kurtosis_pop", "listagg", "lttb", "mad", "mean", "product", "reservoir_quantile",
    "sem", "sum_no_overflow", "sumkahan", "variant_group_object",
})  # fmt: skip


def is_aggregate(node: Any) -> bool:
    """Whether a part of the text aggregates rows, in whatever way."""
    if isinstance(node, exp.Anonymous):
        return node.name.casefold() in _FURTHER
    return isinstance(node, exp.AggFunc | exp.WithinGroup | exp.Filter)


def has_aggregate(node: Any) -> bool:
    """Whether a part of the text holds an aggregate of rows: not inside a query, and not as a window function."""
    match node:
        case exp.Query():
            return False
        case exp.Window():
            inner = [
                *node.this.iter_expressions(),
                *(part for part in node.iter_expressions() if part is not node.this),
            ]
            return any(has_aggregate(part) for part in inner)
        case _ if is_aggregate(node):
            return True
        case exp.Expr():
            return any(has_aggregate(part) for part in node.iter_expressions())
        case _:
            return False


def aggregate_call(node: Any, scope: Scope, statement: Statement, unit: str | None) -> AggregateCall:
    """The aggregate that a part of the text asks for."""
    try:
        return _aggregate_call(node, scope, statement, unit)
    except Unsupported as error:
        statement.refuse(node, error.problem, error.hint)


def _aggregate_call(node: Any, scope: Scope, statement: Statement, unit: str | None) -> AggregateCall:
    only = None
    if isinstance(node, exp.Filter):
        only, node = conditions.condition(translate(node.expression.this, scope, statement)), node.this
    inner, distinct = node.this, False
    if isinstance(inner, exp.Distinct):
        distinct = True
        if len(inner.expressions) != 1 or inner.args.get("on"):
            raise Unsupported("DISTINCT of several values", "count distinct people only: COUNT(DISTINCT unit)")
        inner = inner.expressions[0]
    match node:
        case exp.Count() if distinct and isinstance(inner, exp.Star):
            raise Unsupported("COUNT(DISTINCT *)", "count rows, COUNT(*), or people, COUNT(DISTINCT unit)")
        case exp.Count() if inner is None or (isinstance(inner, exp.Star) and not any(inner.args.values())):
            return AggregateCall("count", _where(only, None))
        case exp.Count() if distinct:
            _check_unit(translate(inner, scope, statement), unit)
            return AggregateCall("people", _where(only, None))
        case exp.Count():
            _plain(node, "this", "big_int")
            return AggregateCall("count", _where(only, _present(translate(inner, scope, statement))))
        case exp.CountIf() if not distinct:
            _plain(node, "this")
            chosen = conditions.condition(translate(inner, scope, statement))
            return AggregateCall("count", _where(chosen if only is None else conditions.both(only, chosen), None))
        case exp.Sum() | exp.Avg() if not distinct:
            _plain(node, "this")
            value = functions.number_of(translate(inner, scope, statement))
            return AggregateCall("sum" if isinstance(node, exp.Sum) else "mean", _where(only, _summable(value, node)))
        case exp.Sum() | exp.Avg():
            raise Unsupported("SUM or AVG of DISTINCT values", "leave DISTINCT out")
        case _:
            known = isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous)
            name = node.sql_name() if known else node.name or node.key
            raise Unsupported(f"{name.upper()} is not supported yet", "ask for COUNT, COUNT(DISTINCT unit), SUM or AVG")


def _check_unit(value: Expression, unit: str | None) -> None:
    """COUNT(DISTINCT x) counts people, so x must be what identifies them."""
    if unit is None:
        raise Unsupported("COUNT(DISTINCT …) where the unit is a row", "use COUNT(*)")
    if not isinstance(value, Field) or value.column.name.casefold() != unit.casefold():
        raise Unsupported(f"COUNT(DISTINCT {value})", f"only people can be counted so: COUNT(DISTINCT {unit})")


def _present(value: Expression) -> Expression | None:
    """What COUNT(x) counts: rows where x is not null; all rows where it never is."""
    if isinstance(value, Constant):
        return None if value.value is not None else value
    return value if value.nullable else None


def _summable(value: Expression, node: Any) -> Expression:
    name = node.sql_name()
    match value.kind:
        case Fixed() as kind if kind.bounded:
            return value
        case Fixed():
            hint = "declare bounds in the policy, or clamp: LEAST(GREATEST(x, low), high), where a null becomes low"
            raise Unsupported(f"{name} of {value}, which has no bounds", hint)
        case other:
            raise Unsupported(f"{name} of {other}", "declare lower, upper and granularity of the column in the policy")


def _where(only: Expression | None, value: Expression | None) -> Expression | None:
    """The value where a FILTER condition holds, null elsewhere."""
    if only is None:
        return value
    return conditions.case([(only, constant(True) if value is None else value)], constant(None))


def _plain(node: Any, *allowed: str) -> None:
    for name, given in node.args.items():
        if given and name not in allowed:
            raise Unsupported(f"{node.sql_name()} with {name.rstrip('_').upper()}", "leave that out")
