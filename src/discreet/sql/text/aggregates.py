"""What a SELECT over private rows asks for: its aggregates, its keys, and its own text over the released table."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor, prod
from typing import Any, Literal

from sqlglot import ErrorLevel, exp

from discreet.errors import InvalidQuery
from discreet.sql.algebra import conditions, functions
from discreet.sql.algebra.expression import Constant, Expression, Slot, constant
from discreet.sql.algebra.kinds import MOST, Day, Fixed, Moment, Nothing, Real, Text, Unsupported
from discreet.sql.algebra.relations import LARGEST_DOMAIN, Key, known_groups, values_of
from discreet.sql.algebra.rows import Rows, is_unit
from discreet.sql.algebra.rules import AggregateCall, Statistic, derive
from discreet.sql.text.expressions import translate
from discreet.sql.text.function_rules import Scope
from discreet.sql.text.statement import DIALECT, Statement, grouping_sets, has_sets

MOST_AGGREGATES = 200
MOST_PLACES = 100


@dataclass(slots=True)
class Rewriting:
    """A block while its text is rewritten; `found` numbers the aggregates that it asks for.

    `sets` are the sets of keys that GROUPING SETS, ROLLUP or CUBE ask for; none where there is one set, of all keys.
    `columns` are the private columns in scope, `rows` what they belong to, `aliases` the names of outputs,
    and `nested` rewrites a query inside it, which sees released values only.
    """

    statement: Statement
    name: str
    columns: Scope
    rows: Rows
    keys: tuple[Key, ...]
    aliases: set[str]
    nested: Callable[[Any], Any]
    sets: tuple[tuple[int, ...], ...] = ()
    found: dict[AggregateCall, int] = field(default_factory=dict)

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
    select.set("joins", None)
    having = select.args.get("having")
    select.set("having", None)
    select.set("group", None)
    select.set("where", None if having is None else exp.Where(this=having.this))


def _outputs(block: Rewriting, parts: list[Any]) -> list[exp.Expr]:
    """The projections, each under a name of its own."""
    results: list[exp.Expr] = []
    names: set[str] = set()
    for part in parts:
        plain = part.alias if isinstance(part, exp.Alias) else part.name if isinstance(part, exp.Column) else ""
        base = name = plain or part.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
        number = 1
        while name.casefold() in names:
            name, number = f"{base}_{number}", number + 1
        names.add(name.casefold())
        if isinstance(part, exp.CurrentDate | exp.CurrentTime | exp.CurrentTimestamp):
            name += "()"  # its own name would be read as the column that it names
        results.append(exp.alias_(_rewritten(block, part.unalias()), name, quoted=True))
    return results


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
        case exp.Grouping() | exp.GroupingId():
            return _grouping(block, node)
        case _ if is_aggregate(node):
            return _aggregate(block, node)
        case exp.Column():
            return _column(block, node, aliases)
        case exp.IgnoreNulls(this=exp.AnyValue()):
            block.statement.refuse(node, "ANY_VALUE depends on one row", _INSTEAD[exp.AnyValue])
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


def _aggregate(block: Rewriting, node: Any) -> exp.Expr:
    """An aggregate as a column of the released table; several quantiles as a list of columns."""
    several = _quantiles(node)
    if several:
        return exp.Array(expressions=[_aggregate(block, each) for each in several])
    read = _histogram if _is_histogram(node) else _most_frequent if _is_top(node) else None
    if read is not None:
        try:
            calls = read(node, block.columns, block.statement)
        except Unsupported as error:
            block.statement.refuse(node, error.problem, error.hint)
        return exp.Array(expressions=[_number(block, node, call) for call in calls])
    return _number(block, node, aggregate_call(node, block.columns, block.statement, block.rows))


def _is_histogram(node: Any) -> bool:
    inner = node.this if isinstance(node, exp.Filter) else node
    return isinstance(inner, exp.Anonymous) and inner.name.casefold() == "histogram"


def _histogram(node: Any, scope: Scope, statement: Statement) -> list[AggregateCall]:
    """HISTOGRAM(x, [a, b, …]): how many values are ≤ a, > a and ≤ b, …, and above the last."""
    only = None
    if isinstance(node, exp.Filter):
        only, node = conditions.condition(translate(node.expression.this, scope, statement)), node.this
    hint = "write the edges as rising numbers: HISTOGRAM(x, [10, 20, 50])"
    listed = node.expressions[1].expressions if len(node.expressions) == 2 else []
    edges = [translate(part, scope, statement) for part in listed]
    numbers = [edge.number for edge in edges if isinstance(edge, Constant) and edge.number is not None]
    if not numbers or len(numbers) < len(edges) or len(edges) > MOST_AGGREGATES:
        raise Unsupported("HISTOGRAM without a list of edges", hint)
    value = _ranked_value(translate(node.expressions[0], scope, statement), node)
    step = value.kind.step if isinstance(value.kind, Fixed) else Fraction(1)
    steps = tuple(floor(number / step) for number in numbers)
    if list(steps) != sorted(set(steps)) or max(map(abs, steps)) >= MOST:
        raise Unsupported("HISTOGRAM with edges that do not rise by a step of the value", hint)
    shown = _where(only, value)
    return [AggregateCall("bin", shown, edges=steps, bin=index) for index in range(len(steps) + 1)]


def _is_top(node: Any) -> bool:
    return isinstance(node.this if isinstance(node, exp.Filter) else node, exp.ApproxTopK)


def _most_frequent(node: Any, scope: Scope, statement: Statement) -> list[AggregateCall]:
    """APPROX_TOP_K(x, k): the k most frequent of the declared values of x, each a column."""
    only = None
    if isinstance(node, exp.Filter):
        only, node = conditions.condition(translate(node.expression.this, scope, statement)), node.this
    _plain(node, "this", "expression")
    places, hint = node.expression, f"write a number from 1 to {MOST_PLACES}, say APPROX_TOP_K(x, 3)"
    if not isinstance(places, exp.Literal) or places.is_string or not places.name.isdecimal():
        raise Unsupported("APPROX_TOP_K without a number", hint)
    if not 1 <= int(places.name) <= MOST_PLACES:
        raise Unsupported(f"the {places.name} most frequent values", hint)
    value = _named_value(translate(node.this, scope, statement), "APPROX_TOP_K")
    count, known = int(places.name), len(values_of(value) or ())
    if count > known:
        raise Unsupported(f"the {count} most frequent of {known} values", f"write a number from 1 to {known}")
    shown = _where(only, value)
    return [AggregateCall("mode", shown, places=count, place=place) for place in range(count)]


def _named_value(value: Expression, name: str) -> Expression:
    """A value of which one can be named: all that it can be are known beforehand."""
    value = _within_limits(value)
    known = values_of(value)
    if known is None or not len(known):
        grouped = "SELECT x, COUNT(*) AS n … GROUP BY x ORDER BY n DESC LIMIT 1"
        hint = f"declare its values in the policy, or name groups with a delta: {grouped}"
        raise Unsupported(f"{name} of {value}, whose values are not declared", hint)
    return value


def _number(block: Rewriting, node: Any, call: AggregateCall) -> exp.Column:
    """The column of the released table that an aggregate is."""
    if block.sets and call.function in NOT_ADDED:
        what = f"totals are sums of released groups, and so there is none of {NOT_ADDED[call.function]}"
        block.statement.refuse(node, what, "ask for each set of keys in a question of its own: batch them")
    index = block.found.setdefault(call, len(block.found))
    if len(block.found) > MOST_AGGREGATES:
        block.statement.refuse(node, f"more than {MOST_AGGREGATES} aggregates in one SELECT", "ask for fewer at a time")
    return block.column("a", index)


def _grouping(block: Rewriting, node: Any) -> exp.Expr:
    """GROUPING(a, b): a bit for each key, 1 where its row is a total over it."""
    bits = []
    for part in node.expressions:
        index = _key_of(block, part)
        if index is None or not block.sets:
            block.statement.refuse(node, f"{node.sql()} of what is not in ROLLUP, CUBE or GROUPING SETS", "name a key")
        bits.append(block.column("g", index))
    value: exp.Expr = exp.Literal.number(0)
    for bit in bits:
        value = exp.Add(this=exp.Mul(this=exp.paren(value), expression=exp.Literal.number(2)), expression=bit)
    return bits[0] if len(bits) == 1 else exp.paren(value)


NOT_ADDED = {
    "people": "COUNT(DISTINCT unit): a person may be in several groups",
    "distinct": "COUNT(DISTINCT x): a value may be in several groups",
    "quantile": "a quantile",
    "least": "MIN",
    "greatest": "MAX",
    "bin": "HISTOGRAM",
    "mode": "MODE",
}
"""The functions whose totals are not sums of those of groups, in words."""


def _quantiles(node: Any) -> list[Any]:
    """QUANTILE_CONT(x, [a, b, …]) as one quantile after the other; nothing for any other aggregate."""
    places = {exp.PercentileCont: "expression", exp.PercentileDisc: "expression", exp.Quantile: "quantile"}
    function = next((part for part in node.find_all(*places) if type(part) in places), None)  # not of subclasses
    if function is None:
        return []
    names = [name for name in (places[type(function)], "this") if isinstance(function.args.get(name), exp.Array)]
    if not names:
        return []
    single = []
    for part in function.args[names[0]].expressions:
        copy = node.copy()
        copy.find(type(function)).set(names[0], part.copy())
        single.append(copy)
    return single


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


def keys_of(
    statement: Statement, select: exp.Select, columns: Scope, rows: Rows
) -> tuple[tuple[Key, ...], tuple[tuple[int, ...], ...]]:
    """What a block groups by; and, where it asks for several sets of keys, which keys each has."""
    clause = select.args.get("group")
    if clause is None:
        return (), ()
    sets = grouping_sets(statement, clause) if has_sets(clause) else []
    if sets:
        listed = [[grouped_by(statement, part, select, columns) for part in some] for some in sets]
        parts = [part for some in listed for part in some]
    elif clause.args.get("all"):
        parts = [(part.alias_or_name, part.unalias()) for part in select.expressions if not has_aggregate(part)]
    else:
        parts = [grouped_by(statement, part, select, columns) for part in clause.expressions]
    for name, value in clause.args.items():
        if value and name not in ("expressions", "all"):
            statement.refuse(clause, f"GROUP BY {name.upper()} is not supported", "list what to group by")
    keys: dict[Expression, Key] = {}
    for name, part in parts:
        value = translate(part, columns, statement)
        _check_key(statement, part, value, rows)
        keys.setdefault(value, Key(name or part.sql(dialect=DIALECT), value, known_groups(value, rows)))
    total = prod(key.size or 1 for key in keys.values())
    if total > LARGEST_DOMAIN:
        statement.refuse(
            clause, f"this makes {total:,} groups", f"group by less: at most {LARGEST_DOMAIN:,} are answered"
        )
    values = list(keys)
    if sets and not keys:
        statement.refuse(clause, "GROUPING SETS without a key", "name a key, or leave GROUP BY out")
    if not sets:
        return tuple(keys.values()), ()
    indices = [{values.index(translate(part, columns, statement)) for _, part in some} for some in listed]
    return tuple(keys.values()), tuple(tuple(sorted(some)) for some in indices)


def grouped_by(statement: Statement, part: Any, select: exp.Select, columns: Scope) -> tuple[str, Any]:
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


def _check_key(statement: Statement, part: Any, value: Expression, rows: Rows) -> None:
    if isinstance(value.kind, Real | Nothing):
        statement.refuse(part, f"GROUP BY of {value.kind}", "declare bounds and granularity, or group ranges: CASE …")
    if is_unit(value, rows):
        hint = "group by something that people share, or let an outer query aggregate over people"
        statement.refuse(part, "GROUP BY of the unit would name people", hint)


_FURTHER = frozenset({  # aggregates of DuckDB that the parser does not know as such
    "approx_top_k", "arbitrary", "arg_max_null", "arg_max_nulls_last", "arg_min_null", "arg_min_nulls_last",
    "bitstring_agg", "combine_aggr", "count_star", "countif", "decimal_average", "entropy", "favg", "fsum", "histogram",
    "histogram_exact", "kahan_sum", "kurtosis_pop", "listagg", "lttb", "mad", "mean", "product", "reservoir_quantile",
    "sem", "sum_no_overflow", "sumkahan", "var", "variant_group_object",
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


def aggregate_call(node: Any, scope: Scope, statement: Statement, rows: Rows) -> AggregateCall:
    """The aggregate that a part of the text asks for."""
    try:
        return _aggregate_call(node, scope, statement, rows)
    except Unsupported as error:
        statement.refuse(node, error.problem, error.hint)


_SPREADS: dict[type[exp.Expr], tuple[Statistic, bool]] = {
    exp.Variance: ("variance", True),
    exp.VariancePop: ("variance", False),
    exp.Stddev: ("deviation", True),
    exp.StddevSamp: ("deviation", True),
    exp.StddevPop: ("deviation", False),
}
_PAIRS: dict[type[exp.Expr], tuple[Statistic | Literal["count", "mean", "mean of y"], bool]] = {
    exp.CovarSamp: ("covariance", True),
    exp.CovarPop: ("covariance", False),
    exp.Corr: ("correlation", False),
    exp.RegrSlope: ("slope", False),
    exp.RegrIntercept: ("intercept", False),
    exp.RegrR2: ("determination", False),
    exp.RegrCount: ("count", False),
    exp.RegrAvgx: ("mean", False),
    exp.RegrAvgy: ("mean of y", False),
}
"""Statistics of pairs (y, x), of the rows where both are not null; whether they are divided by n − 1."""
_INSTEAD: dict[type[exp.Expr], str] = {
    exp.LogicalAnd: "count instead: COUNT_IF(NOT condition), and see whether it is near 0",
    exp.LogicalOr: "count instead: COUNT_IF(condition), and see whether it is above its interval",
    exp.AnyValue: "group by it, or ask for MEDIAN or MODE",
    exp.First: "ask for MIN or MAX of a bounded number",
    exp.Last: "ask for MIN or MAX of a bounded number",
    exp.ArgMax: "group by the first value and compare MAX of the second",
    exp.ArgMin: "group by the first value and compare MIN of the second",
}
_OTHERWISE: dict[Any, str] = {
    exp.ApproxDistinct: "ask for COUNT(DISTINCT x)",
    exp.ApproxQuantile: "ask for QUANTILE_CONT(x, 0.9)",
    "COUNT_STAR": "ask for COUNT(*)",
}
_KNOWN = "ask for COUNT, SUM, AVG, VARIANCE, CORR, MEDIAN, QUANTILE_CONT, MIN, MAX or MODE"
_ALIASES: dict[str, Any] = {"var": exp.Variance, "mean": exp.Avg}


def _aggregate_call(node: Any, scope: Scope, statement: Statement, rows: Rows) -> AggregateCall:  # noqa: PLR0911, PLR0912, PLR0915 (one return a function)
    only = None
    if isinstance(node, exp.Filter):
        only, node = conditions.condition(translate(node.expression.this, scope, statement)), node.this
    if isinstance(node, exp.Anonymous) and node.name.casefold() in _ALIASES and len(node.expressions) == 1:
        node = _ALIASES[node.name.casefold()](this=node.expressions[0])
    inner, distinct = node.this, False
    if isinstance(inner, exp.Distinct):
        distinct = True
        if len(inner.expressions) != 1 or inner.args.get("on"):
            raise Unsupported("DISTINCT of several values", "count one at a time: COUNT(DISTINCT x)")
        inner = inner.expressions[0]
    match node:
        case exp.Count() if distinct and isinstance(inner, exp.Star):
            raise Unsupported("COUNT(DISTINCT *)", "count rows, COUNT(*), or people, COUNT(DISTINCT unit)")
        case exp.Count() if inner is None or (isinstance(inner, exp.Star) and not any(inner.args.values())):
            return AggregateCall("count", _where(only, None))
        case exp.Count() if distinct:
            value = translate(inner, scope, statement)
            if is_unit(value, rows):
                return AggregateCall("people", _where(only, None))
            if isinstance(value.kind, Nothing):
                raise Unsupported("COUNT(DISTINCT NULL)", "count the different values of a column")
            return AggregateCall("distinct", _where(only, value))
        case exp.Count():
            _plain(node, "this", "big_int")
            return AggregateCall("count", _where(only, _present(translate(inner, scope, statement))))
        case exp.CountIf() if not distinct:
            _plain(node, "this")
            chosen = conditions.condition(translate(inner, scope, statement))
            return AggregateCall("count", _where(chosen if only is None else conditions.both(only, chosen), None))
        case exp.Sum() | exp.Avg() if not distinct:
            _plain(node, "this")
            value = functions.number_of(_bounded(inner, scope, statement))
            return AggregateCall("sum" if isinstance(node, exp.Sum) else "mean", _where(only, _summable(value, node)))
        case exp.Sum() | exp.Avg():
            raise Unsupported("SUM or AVG of DISTINCT values", "leave DISTINCT out")
        case exp.Min() | exp.Max():  # of distinct values, they are the same
            _plain(node, "this")
            value = _ranked_value(_bounded(inner, scope, statement), node)
            return AggregateCall("least" if isinstance(node, exp.Min) else "greatest", _where(only, value))
        case exp.Mode() | exp.WithinGroup(this=exp.Mode()) if not distinct:
            value = _named_value(translate(_mode_of(node), scope, statement), "MODE")
            return AggregateCall("mode", _where(only, value), places=1)
        case exp.Mode():
            raise Unsupported("MODE of DISTINCT values, each of which is there once", "leave DISTINCT out")
        case exp.ApproxQuantile():
            raise Unsupported("APPROX_QUANTILE is not supported", _OTHERWISE[exp.ApproxQuantile])
        case exp.Median() | exp.PercentileCont() | exp.PercentileDisc() | exp.Quantile() | exp.WithinGroup() if not (
            distinct
        ):
            inner, probability = _quantile_of(node)
            value = _ranked_value(_bounded(inner, scope, statement), node)
            return AggregateCall("quantile", _where(only, value), probability=probability)
        case _ if type(node) in _SPREADS and not distinct:
            _plain(node, "this")
            statistic, sample = _SPREADS[type(node)]
            value = _summable(functions.number_of(_bounded(inner, scope, statement)), node)
            return _checked(AggregateCall(statistic, _where(only, value), sample=sample), node)
        case _ if type(node) in _PAIRS and not distinct:
            _plain(node, "this", "expression")
            y, x = (_summable(functions.number_of(_bounded(part, scope, statement)), node)
                    for part in (inner, node.expression))  # fmt: skip
            return _of_pairs(node, x, y, only)
        case _:
            name = statement.called(node)
            if type(node) in _INSTEAD:
                raise Unsupported(f"{name} depends on one row", _INSTEAD[type(node)])
            raise Unsupported(f"{name} is not supported yet", _OTHERWISE.get(type(node), _OTHERWISE.get(name, _KNOWN)))


def _mode_of(node: Any) -> Any:
    """What MODE(x), or MODE() WITHIN GROUP (ORDER BY x), is of."""
    if not isinstance(node, exp.WithinGroup):
        _plain(node, "this")
        if node.this is None:
            raise Unsupported("MODE of nothing", "write MODE(x)")
        return node.this
    order = node.expression.expressions
    if len(order) != 1 or node.this.this is not None:
        raise Unsupported("MODE in the order of several values", "WITHIN GROUP (ORDER BY x), of one value")
    return order[0].this


def _quantile_of(node: Any) -> tuple[Any, Fraction]:
    """What is ranked, and which quantile is wanted."""
    match node:
        case exp.Median():
            _plain(node, "this")
            return node.this, Fraction(1, 2)
        case exp.WithinGroup(this=exp.PercentileCont() | exp.PercentileDisc()):
            order = node.expression.expressions
            if len(order) != 1:
                raise Unsupported(
                    "a quantile in the order of several values", "WITHIN GROUP (ORDER BY x), of one value"
                )
            share = _probability(node.this.this)
            return order[0].this, 1 - share if order[0].args.get("desc") else share
        case exp.PercentileCont() | exp.PercentileDisc():
            return node.this, _probability(node.expression)
        case exp.Quantile():
            return node.this, _probability(node.args.get("quantile"))
        case _:
            name = node.this.sql_name() if isinstance(node.this, exp.Func) else node.this.key.upper()
            raise Unsupported(f"{name} … WITHIN GROUP is not supported yet", "use PERCENTILE_CONT")


def _probability(node: Any) -> Fraction:
    """A share from 0 to 1 that is written out, with at most six decimals."""
    hint = "write a number from 0 to 1 with at most six decimals, say QUANTILE_CONT(x, 0.25)"
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
        raise Unsupported(f"the quantile -{node.name}", hint)
    if not isinstance(node, exp.Literal) or node.is_string:
        raise Unsupported("a quantile without a number", hint)
    share = Fraction(node.name)
    if not 0 <= share <= 1 or share.denominator > 10**6:
        raise Unsupported(f"the quantile {node.name}", hint)
    return share


def _ranked_value(value: Expression, node: Any) -> Expression:
    named = node.this if isinstance(node, exp.WithinGroup) else node
    name = named.name.upper() if isinstance(named, exp.Anonymous) else named.sql_name()
    number = _within_limits(functions.number_of(value))
    if not isinstance(number.kind, Fixed):
        hint = "rank a number: declare lower, upper and granularity for it"
        if isinstance(number.kind, Day | Moment):
            hint = (
                f"rank days since a date: {name}(DATE_DIFF('day', DATE '2020-01-01', day)), with bounds in the policy"
            )
        raise Unsupported(f"{name} of {number.kind}", hint)
    if not number.kind.bounded:
        hint = "declare bounds in the policy, or clamp: LEAST(GREATEST(x, low), high)"
        raise Unsupported(f"{name} of {value}, which has no bounds", hint)
    return number


def _of_pairs(node: Any, x: Expression, y: Expression, only: Expression | None) -> AggregateCall:
    """A statistic of the rows where both values are there."""
    tests = [conditions.opposite(conditions.is_null(value)) for value in (x, y) if value.nullable]
    tests += [] if only is None else [only]
    shown = conditions.both(*tests) if len(tests) > 1 else tests[0] if tests else None
    x, y = (_where(shown, value) or value for value in (x, y))
    match _PAIRS[type(node)]:
        case "count", _:
            return AggregateCall("count", _present(x))
        case "mean", _:
            return AggregateCall("mean", x)
        case "mean of y", _:
            return AggregateCall("mean", y, x)
        case statistic, sample:
            return _checked(AggregateCall(statistic, x, y, sample), node)


def _checked(call: AggregateCall, node: Any) -> AggregateCall:
    """The same call; refused where squares or products of its values do not fit 64 bits."""
    try:
        derive(call, {}, {call.value})
    except Unsupported:
        hint = "use narrower bounds or a coarser step: ROUND(x, 2)"
        raise Unsupported(f"{node.sql_name()} of values whose squares do not fit 64 bits", hint) from None
    return call


def _present(value: Expression) -> Expression | None:
    """What COUNT(x) counts: rows where x is not null; all rows where it never is."""
    if isinstance(value, Constant):
        return None if value.value is not None else value
    return value if value.nullable else None


def _bounded(node: Any, scope: Scope, statement: Statement) -> Expression:
    """A value that is added up or ranked over people.

    Where it is computed from counts or sums per person and has no bounds, these are clamped first: COALESCE(n, 0).
    """
    try:
        value = translate(node, scope, statement)
    except InvalidQuery:
        return translate(node, held(scope), statement)
    if isinstance(value, Slot) or not isinstance(value.kind, Fixed) or value.kind.bounded:
        return value
    return translate(node, held(scope), statement)


def held(scope: Scope) -> Scope:
    """What names mean, with counts and sums per person clamped to what the contribution bounds let a person add."""
    return {name: _within_limits(value) for name, value in scope.items()}


def _within_limits(value: Expression) -> Expression:
    """A count or sum per person without bounds, clamped to what the contribution bounds let a person add."""
    if not isinstance(value, Slot) or value.clamp is None or not isinstance(value.kind, Fixed) or value.kind.bounded:
        return value
    low, high = (Constant(end, Fixed(value.kind.step, end, end)) for end in value.clamp)
    within = functions.extreme(False, [functions.extreme(True, [value, low]), high])
    return conditions.case([(conditions.is_null(value), constant(None))], within) if value.nullable else within


def _summable(value: Expression, node: Any) -> Expression:
    name = node.sql_name()
    value = _within_limits(value)
    match value.kind:
        case Fixed() as kind if kind.bounded:
            return value
        case Fixed():
            hint = "declare bounds in the policy, or clamp: LEAST(GREATEST(x, low), high), where a null becomes low"
            raise Unsupported(f"{name} of {value}, which has no bounds", hint)
        case Day() | Moment() as other:
            hint = f"add up days since a date: {name}(DATE_DIFF('day', DATE '2020-01-01', day))"
            raise Unsupported(f"{name} of {other}", f"{hint}, with bounds in the policy")
        case Text():
            raise Unsupported(f"{name} of text", f"make a number of it: {name}(CAST(x AS DECIMAL(6, 2)))")
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
