"""From the parser's tree to expressions of the closed list; whatever is not on the list is refused with its place."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import ErrorLevel, exp

from discreet.curator.catalog import TEXT
from discreet.sql.algebra import conditions, dates, functions
from discreet.sql.algebra.expression import Constant, Expression, constant
from discreet.sql.algebra.kinds import Day, Moment, Unsupported
from discreet.sql.text.function_rules import FUNCTION_RULES, MORE, Go, Rule, binary, unary
from discreet.sql.text.function_rules import Scope as Scope  # noqa: PLC0414 (also imported from here)
from discreet.sql.text.statement import DIALECT, Statement


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """A name that two sources have."""

    name: str


def translate(node: Any, scope: Scope, statement: Statement) -> Expression:
    """The expression that a part of the text means for each private row."""
    try:
        return _translated(node, scope, statement)
    except Unsupported as error:
        statement.refuse(node, error.problem, error.hint)


def condition_of(node: Any, scope: Scope, statement: Statement) -> Expression:
    """The condition that a part of the text means for each private row."""
    try:
        return conditions.condition(translate(node, scope, statement))
    except Unsupported as error:
        statement.refuse(node, error.problem, error.hint)


def _translated(node: Any, scope: Scope, statement: Statement) -> Expression:
    rule = _RULES.get(type(node))
    if rule is None:
        query = node.this if isinstance(node, exp.Subquery) else node
        hint = statement.two_questions(query) if isinstance(query, exp.Query) else _hint(node)
        statement.refuse(node, f"{_name(node, statement)} is not supported on private rows", hint)
    if isinstance(node, exp.RegexpLike) and "~" in statement.text:
        statement.refuse(node, "~ is not supported on private rows", "write REGEXP_MATCHES(x, 'pattern')")
    for name, given in node.args.items():
        if given and name not in (*_USUAL, *_FURTHER.get(type(node), ())):
            further = name.rstrip("_").upper()
            statement.refuse(node, f"{_name(node, statement)} with {further} is not supported", "leave that out")
    try:
        return rule(node, lambda part: translate(part, scope, statement), scope)
    except KeyError as missing:
        if not missing.args or missing.args[0] not in node.arg_types:
            raise
        statement.refuse(node, f"{_name(node, statement)} with too few arguments", MORE)


_USUAL = ("this", "expression", "expressions")
_FURTHER: dict[type, tuple[str, ...]] = {  # what else a node may carry; anything more would be lost in translation
    exp.Column: ("table",),
    exp.Literal: ("is_string",),
    exp.Cast: ("to", "_type"),
    exp.TryCast: ("to", "_type", "safe", "requires_string"),
    exp.Between: ("low", "high", "symmetric"),
    exp.Case: ("ifs", "default"),
    exp.If: ("true", "false"),
    exp.In: ("query", "unnest", "field"),
    exp.Round: ("decimals",),
    exp.Floor: ("decimals",),
    exp.Ceil: ("decimals",),
    exp.Substring: ("start", "length"),
    exp.Trim: ("position",),
    exp.Concat: ("safe", "coalesce"),
    exp.DPipe: ("safe",),
    exp.Div: ("typed", "safe"),
    exp.TimestampTrunc: ("unit",),
    exp.DateTrunc: ("unit",),
    exp.UnixToTime: ("scale",),
    exp.Like: ("negate",),
    exp.ILike: ("negate",),
    exp.Greatest: ("ignore_nulls",),
    exp.Least: ("ignore_nulls",),
    exp.DateDiff: ("unit", "date_part_boundary"),
    exp.DateAdd: ("unit",),
    exp.DateFromParts: ("year", "month", "day"),
    exp.WidthBucket: ("min_value", "max_value", "num_buckets"),
    exp.SplitPart: ("delimiter", "part_index"),
    exp.Replace: ("replacement",),
    exp.TimeToStr: ("format",),
}


def _column(node: exp.Column, _: Go, scope: Scope) -> Expression:
    name = ".".join(part.name for part in node.parts).casefold()
    if isinstance(scope.get(name), Ambiguous):
        raise Unsupported(f"the column {node.name!r} is in more than one table", f"write table.{node.name}")
    if name in scope:
        value: Expression = scope[name]
        return value
    known = sorted({str(key) for key in scope if "." not in key})
    raise Unsupported(f"there is no column {node.sql()!r} here", f"there are: {', '.join(known)}")


def _literal(node: exp.Literal, _: Go, __: Scope) -> Expression:
    if node.is_string and len(node.name) > TEXT:
        raise Unsupported(
            f"a text of {len(node.name):,} characters", f"write at most {TEXT:,}: no more is read of a column"
        )
    return constant(node.name) if node.is_string else constant(_number(node.name))


def _number(text: str) -> Fraction:
    try:
        if len(text) > 60 or abs(int(text.lower().partition("e")[2] or 0)) > 60:
            raise Unsupported("this number has too many digits", "use fewer")
        return Fraction(text.replace("_", ""))
    except ValueError:
        raise Unsupported(f"the number {text!r}", "write a plain decimal number") from None


def _is(node: exp.Is, go: Go, scope: Scope) -> Expression:
    inner = go(node.this)
    match node.expression:
        case exp.Null():
            return conditions.is_null(inner)
        case exp.Boolean() as digits_wanted:
            return conditions.both(
                conditions.opposite(conditions.is_null(inner)),
                conditions.compare("equal", inner, constant(bool(digits_wanted.this))),
            )
        case _:
            raise Unsupported("IS with something else than NULL, TRUE or FALSE", "compare with =")


def _in(node: exp.In, go: Go, scope: Scope) -> Expression:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise Unsupported("IN with a query", "list the values")
    if not node.expressions:
        raise Unsupported("IN with nothing after it", "list the values: IN (1, 2)")
    return conditions.among(go(node.this), [go(part) for part in node.expressions])


def _between(node: exp.Between, go: Go, scope: Scope) -> Expression:
    if node.args.get("symmetric"):
        raise Unsupported("BETWEEN SYMMETRIC", "write the lower limit first")
    inner = go(node.this)
    low = _compared("greater_equal", inner, go(node.args["low"]))
    return conditions.both(low, _compared("less_equal", inner, go(node.args["high"])))


def _case(node: exp.Case, go: Go, scope: Scope) -> Expression:
    subject = None if node.this is None else go(node.this)
    branches = []
    for branch in node.args["ifs"]:
        when = go(branch.this)
        if subject is not None:
            when = conditions.compare("equal", subject, when)
        branches.append((when, go(branch.args["true"])))
    default = node.args.get("default")
    return conditions.case(branches, constant(None) if default is None else go(default))


def _if(node: exp.If, go: Go, scope: Scope) -> Expression:
    otherwise = node.args.get("false")
    return conditions.case(
        [(go(node.this), go(node.args["true"]))], constant(None) if otherwise is None else go(otherwise)
    )


def _coalesce(node: exp.Coalesce, go: Go, scope: Scope) -> Expression:
    return conditions.coalesce([go(part) for part in (node.this, *node.expressions)])


def _nullif(node: exp.Nullif, go: Go, scope: Scope) -> Expression:
    inner = go(node.this)
    return conditions.case([(conditions.compare("equal", inner, go(node.expression)), constant(None))], inner)


def _round(node: exp.Round, go: Go, scope: Scope) -> Expression:
    digits = node.args.get("decimals")
    digits_wanted = go(digits) if digits is not None else constant(0)
    decimals = digits_wanted.number if isinstance(digits_wanted, Constant) else None
    if decimals is None or decimals.denominator != 1 or abs(decimals) > 15:
        raise Unsupported("ROUND to so many decimals", "a whole number from -15 to 15")
    return functions.round_to(go(node.this), int(decimals))


def _extreme(largest: bool) -> Rule:
    def rule(node: Any, go: Go, _: Scope) -> Expression:
        values = [go(part) for part in (node.this, *node.expressions)]
        if any(isinstance(value.kind, Day | Moment) for value in values):
            return dates.outermost(largest, values)
        return functions.extreme(largest, values)

    return rule


def _floor(up: bool) -> Rule:
    def rule(node: Any, go: Go, _: Scope) -> Expression:
        if node.args.get("decimals") is not None:
            raise Unsupported("FLOOR or CEIL to decimals", "use ROUND(x, decimals)")
        return functions.floor_of(go(node.this), up=up)

    return rule


def _substring(node: exp.Substring, go: Go, scope: Scope) -> Expression:
    start, size = node.args.get("start"), node.args.get("length")
    return functions.substring(
        go(node.this), go(start) if start else constant(1), go(size) if size else constant(10**6)
    )


def _left(node: exp.Left, go: Go, scope: Scope) -> Expression:
    return functions.substring(go(node.this), constant(1), go(node.expression))


def _trim(node: exp.Trim, go: Go, scope: Scope) -> Expression:
    if node.args.get("position") or node.expression:
        raise Unsupported("TRIM of particular characters", "write TRIM(x)")
    return functions.changed_text("trim", go(node.this))


def _concat(node: exp.Concat, go: Go, scope: Scope) -> Expression:
    return functions.concatenate(*(conditions.coalesce([go(part), constant("")]) for part in node.expressions))


def _like(operation: str) -> Rule:
    def rule(node: Any, go: Go, _: Scope) -> Expression:
        matches = functions.like(operation, go(node.this), go(node.expression))
        return conditions.opposite(matches) if node.args.get("negate") else matches

    return rule


def _compare(name: str) -> Rule:
    return binary(lambda value, other: _compared(name, value, other))


def _compared(name: str, value: Expression, other: Expression) -> Expression:
    """A comparison; a date beside a time is the first moment of its day."""
    written = isinstance(value, Constant) or isinstance(other, Constant)  # read as what they stand beside
    if {type(value.kind), type(other.kind)} == {Day, Moment} and not written:
        value, other = dates.moment_of(value), dates.moment_of(other)
    return conditions.compare(name, value, other)


_RULES: dict[type, Rule] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, _, __: constant(bool(node.this)),
    exp.Null: lambda _, __, ___: constant(None),
    exp.Paren: lambda node, go, _: go(node.this),
    exp.Mul: binary(functions.multiply),
    exp.Div: binary(functions.divide),
    exp.IntDiv: binary(functions.floor_divide),
    exp.Mod: binary(functions.modulo),
    exp.Neg: unary(functions.negate),
    exp.Abs: unary(functions.absolute),
    exp.Floor: _floor(False),
    exp.Ceil: _floor(True),
    exp.Round: _round,
    exp.Greatest: _extreme(True),
    exp.Least: _extreme(False),
    exp.EQ: _compare("equal"),
    exp.NEQ: _compare("differ"),
    exp.LT: _compare("less"),
    exp.LTE: _compare("less_equal"),
    exp.GT: _compare("greater"),
    exp.GTE: _compare("greater_equal"),
    exp.And: binary(conditions.both),
    exp.Or: binary(conditions.either),
    exp.Not: unary(conditions.opposite),
    exp.Is: _is,
    exp.In: _in,
    exp.Between: _between,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Nullif: _nullif,
    exp.Lower: unary(lambda value: functions.changed_text("lower", value)),
    exp.Upper: unary(lambda value: functions.changed_text("upper", value)),
    exp.Trim: _trim,
    exp.Length: unary(functions.length_of_text),
    exp.Substring: _substring,
    exp.Left: _left,
    exp.Like: _like("like"),
    exp.ILike: _like("ilike"),
    exp.DPipe: binary(functions.concatenate),
    exp.Concat: _concat,
    **FUNCTION_RULES,
}


def _name(node: Any, statement: Statement) -> str:  # noqa: PLR0911 (one return a kind)
    """What a part of the text is called: by its word where that was written, else by the text itself."""
    match node:
        case exp.Query():
            return "a query inside a condition or value"
        case exp.Window():
            return "a window function"
        case exp.Placeholder():
            return "a parameter"
        case exp.Func() if _written(node.sql_name(), statement):
            return f"{node.sql_name()}()"
        case exp.Expr() if _written(node.key, statement):
            return str(node.key).upper()
        case exp.Expr():
            written = node.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)
            return written if len(written) <= 40 else written[:39] + "…"
        case _:
            return "an empty part"


def _written(word: str, statement: Statement) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", statement.text, re.IGNORECASE) is not None


def _hint(node: Any) -> str:
    match node:
        case exp.Window():
            return "window functions work on aggregates: SUM(COUNT(*)) OVER ()"
        case exp.AggFunc():
            return "an aggregate cannot stand inside WHERE, GROUP BY or another aggregate"
        case exp.Query():
            return "ask it as a question of its own, and write its answer here"
        case exp.CurrentDate() | exp.CurrentTimestamp():
            return "write the date"
        case exp.SimilarTo() | exp.RegexpFullMatch():
            return "write REGEXP_MATCHES(x, '^…$')"
        case _:
            return MORE
