"""The aggregates that can be asked of private rows."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlglot import exp

from discreet.sql.expression import Constant, Expression, Field, Unfit, constant
from discreet.sql.kinds import Fixed
from discreet.sql.operations import arithmetic, conditions
from discreet.sql.text import Statement
from discreet.sql.translate import Scope, translate

Function = Literal["count", "people", "sum", "mean"]

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


@dataclass(frozen=True, slots=True)
class Asked:
    """An aggregate: rows (with a value), people (with such a row), the sum or the mean of a value."""

    function: Function
    value: Expression | None


def asked(node: Any, scope: Scope, statement: Statement, unit: str | None) -> Asked:
    """The aggregate that a part of the text asks for."""
    try:
        return _asked(node, scope, statement, unit)
    except Unfit as error:
        statement.refuse(node, error.problem, error.hint)


def _asked(node: Any, scope: Scope, statement: Statement, unit: str | None) -> Asked:
    only = None
    if isinstance(node, exp.Filter):
        only, node = conditions.condition(translate(node.expression.this, scope, statement)), node.this
    inner, distinct = node.this, False
    if isinstance(inner, exp.Distinct):
        distinct = True
        if len(inner.expressions) != 1 or inner.args.get("on"):
            raise Unfit("DISTINCT of several values", "count distinct people only: COUNT(DISTINCT unit)")
        inner = inner.expressions[0]
    match node:
        case exp.Count() if distinct and isinstance(inner, exp.Star):
            raise Unfit("COUNT(DISTINCT *)", "count rows, COUNT(*), or people, COUNT(DISTINCT unit)")
        case exp.Count() if inner is None or (isinstance(inner, exp.Star) and not any(inner.args.values())):
            return Asked("count", _where(only, None))
        case exp.Count() if distinct:
            _check_unit(translate(inner, scope, statement), unit)
            return Asked("people", _where(only, None))
        case exp.Count():
            _plain(node, "this", "big_int")
            return Asked("count", _where(only, _present(translate(inner, scope, statement))))
        case exp.CountIf() if not distinct:
            _plain(node, "this")
            chosen = conditions.condition(translate(inner, scope, statement))
            return Asked("count", _where(chosen if only is None else conditions.both(only, chosen), None))
        case exp.Sum() | exp.Avg() if not distinct:
            _plain(node, "this")
            value = arithmetic.number_of(translate(inner, scope, statement))
            return Asked("sum" if isinstance(node, exp.Sum) else "mean", _where(only, _summable(value, node)))
        case exp.Sum() | exp.Avg():
            raise Unfit("SUM or AVG of DISTINCT values", "leave DISTINCT out")
        case _:
            known = isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous)
            name = node.sql_name() if known else node.name or node.key
            raise Unfit(f"{name.upper()} is not supported yet", "ask for COUNT, COUNT(DISTINCT unit), SUM or AVG")


def _check_unit(value: Expression, unit: str | None) -> None:
    """COUNT(DISTINCT x) counts people, so x must be what identifies them."""
    if unit is None:
        raise Unfit("COUNT(DISTINCT …) where the unit is a row", "use COUNT(*)")
    if not isinstance(value, Field) or value.column.name.casefold() != unit.casefold():
        raise Unfit(f"COUNT(DISTINCT {value})", f"only people can be counted so: COUNT(DISTINCT {unit})")


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
            raise Unfit(f"{name} of {value}, which has no bounds", hint)
        case other:
            raise Unfit(f"{name} of {other}", "declare lower, upper and granularity of the column in the policy")


def _where(only: Expression | None, value: Expression | None) -> Expression | None:
    """The value where a FILTER condition holds, null elsewhere."""
    if only is None:
        return value
    return conditions.case([(only, constant(True) if value is None else value)], constant(None))


def _plain(node: Any, *allowed: str) -> None:
    for name, given in node.args.items():
        if given and name not in allowed:
            raise Unfit(f"{node.sql_name()} with {name.rstrip('_').upper()}", "leave that out")
