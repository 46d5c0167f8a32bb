"""From functions, casts and dates in the text to operations of the closed list."""

from collections.abc import Callable, Mapping
from datetime import date, datetime
from fractions import Fraction
from typing import Any

from sqlglot import exp

from discreet.sql.algebra import conditions, dates, functions
from discreet.sql.algebra.expression import Constant, Expression, constant
from discreet.sql.algebra.kinds import Day, Fixed, Moment, Real, Text, Truth, Unsupported

Scope = Mapping[str, Any]
"""What names mean: `column` and `table.column`, in lower case; an expression, or `Ambiguous`."""

Go = Callable[[Any], Expression]
"""The expression of a part of the text."""

Rule = Callable[[Any, Go, Scope], Expression]
"""What a node of the parser's tree means."""

MORE = "the guide lists what is; compute anything further from the aggregates"
"""What to do about a function that is not on the list."""


def binary(operation: Callable[[Expression, Expression], Expression]) -> Rule:
    """The rule of an operation on two parts."""
    return lambda node, go, _: operation(go(node.this), go(node.expression))


def unary(operation: Callable[[Expression], Expression]) -> Rule:
    """The rule of an operation on one part."""
    return lambda node, go, _: operation(go(node.this))


def _cast(node: exp.Cast, go: Go, scope: Scope) -> Expression:  # noqa: PLR0911, PLR0912 (one return a type)
    target = node.to.this.value if isinstance(node.to, exp.DataType) else ""
    inner = go(node.this)
    if isinstance(inner, Constant) and inner.number is not None and _holds(node.to, target, inner.number):
        return inner  # as drivers write numbers: IN (1::BIGINT, 2::BIGINT)
    match target:
        case "BOOLEAN" if isinstance(inner.kind, Truth):
            return inner
        case "DATE":
            return _cast_to_date(inner)
        case "TIMESTAMP" | "DATETIME" | "TIMESTAMPNTZ":
            if isinstance(inner, Constant) and isinstance(inner.value, str):
                return constant(conditions.iso(datetime, inner.value))
            return dates.moment_of(inner)
        case "TIMESTAMPTZ" if isinstance(inner, Constant) and isinstance(inner.value, str):
            return constant(_instant(inner.value))
        case "TEXT" | "VARCHAR" | "CHAR" if not node.to.expressions:
            return functions.text_of(inner)
        case "DOUBLE" | "FLOAT":
            return functions.add(_castable(inner, target), constant(0))
        case "DECIMAL":
            sizes = [int(part.name) for part in node.to.expressions] or [18, 3]
            digits = sizes[1] if len(sizes) > 1 else 0
            if isinstance(inner.kind, Text):
                return functions.parsed_number(inner, target, sizes[0], digits)
            most = 10 ** max(0, sizes[0] - digits)
            return functions.within(functions.round_to(_castable(inner, target), digits), most, target)
        case "INT" | "BIGINT" | "SMALLINT" | "TINYINT" | "INT128":
            most = _REACH[target]
            name = _WRITTEN.get(target, target)
            if isinstance(inner.kind, Text):
                return functions.parsed_number(inner, name)
            return functions.within(functions.round_to(_castable(inner, name), 0), most, name)
        case _:
            hint = "cast to DATE, TIMESTAMP, DOUBLE, DECIMAL, INTEGER or TEXT, or leave it out"
            raise Unsupported(f"CAST to {target or node.to}", hint)


_REACH = {"TINYINT": 2**7, "SMALLINT": 2**15, "INT": 2**31, "BIGINT": 2**62, "INT128": 2**62}
"""What numbers of a whole type stay below, in size."""


def _holds(to: Any, target: str, number: Fraction) -> bool:
    """Whether a type holds a number as it is."""
    if target == "DECIMAL":
        sizes = [int(part.name) for part in to.expressions] or [18, 3]
        digits = sizes[1] if len(sizes) > 1 else 0
        return Fraction(number * 10**digits).denominator == 1 and abs(number) < int(10 ** max(0, sizes[0] - digits))
    return target in ("DOUBLE", "FLOAT") or (number.denominator == 1 and abs(number) < _REACH.get(target, 0))


def _cast_to_date(inner: Expression) -> Expression:
    if isinstance(inner, Constant) and isinstance(inner.value, str):
        return constant(conditions.iso(date, inner.value))
    return functions.parsed_date(inner) if isinstance(inner.kind, Text) else dates.day_of(inner)


def _instant(written: str) -> date:
    """A time whose zone is written beside it; without one, it would depend on a setting."""
    value = conditions.iso(datetime, written)
    if not written.strip().upper().endswith(("Z", "+00", "+0000", "+00:00")):
        raise Unsupported("a time with a zone that is not written", "write TIMESTAMPTZ '2024-12-31T23:30:00Z'")
    return value


_ISO_FORMATS = {"YYYY-MM-DD": date} | {
    f"YYYY-MM-DD{mark}HH24:MI{rest}": datetime for mark in (" ", "T") for rest in ("", ":SS", ":SS.MS", ":SS.US")
}


def _by_format(name: str, text: Any, pattern: Any) -> Expression:
    """TO_DATE and TO_TIMESTAMP of a text that is written in the statement, in a format of ISO 8601."""
    kind = _ISO_FORMATS.get(pattern.name.upper()) if isinstance(pattern, exp.Literal) else None
    if kind is None or not isinstance(text, exp.Literal) or not text.is_string:
        raise Unsupported(f"{name} like this", "write DATE '2024-12-31' or TIMESTAMP '2024-12-31 23:30:00'")
    return constant(conditions.iso(date if name == "TO_DATE" else datetime, text.name))


def _to_timestamp(node: exp.UnixToTime, go: Go, scope: Scope) -> Expression:
    return _by_format("TO_TIMESTAMP", node.this, node.args.get("scale"))


_WRITTEN = {"INT": "INTEGER", "INT128": "HUGEINT"}
"""Types that the parser calls otherwise than analysts do."""


def _castable(inner: Expression, target: str) -> Expression:
    """A number, or a truth value as one, that can be cast to a type of numbers."""
    number = functions.number_of(inner)
    if isinstance(number.kind, Text):
        raise Unsupported(f"CAST of text to {target}", "cast it to DECIMAL(18, 6), which is exact, or to INTEGER")
    if not isinstance(number.kind, Fixed | Real):
        hint = "if it holds numbers, declare the column as integer or real in the policy"
        raise Unsupported(f"CAST of {number.kind} to {target}", hint)
    conditions.range_of("CAST", number)
    return number


# Dates


def _interval(node: Any) -> tuple[int, str] | None:
    """How many of which unit an INTERVAL that is written in the statement has."""
    if not isinstance(node, exp.Interval):
        return None
    unit = node.args.get("unit")
    name = unit.name.casefold().rstrip("s") if unit is not None else ""
    written = node.this.name if isinstance(node.this, exp.Literal) else ""
    sign = -1 if written.startswith("-") else 1
    if not name or not written.lstrip("-").isdecimal() or len(written) > 9:
        raise Unsupported("an interval like this", "write a whole number of one unit: INTERVAL 3 MONTH")
    return sign * int(written.lstrip("-")), name


def _plus(sign: int) -> Rule:
    """Numbers, or a date and an interval, or a date and a number of days."""

    def rule(node: Any, go: Go, _: Scope) -> Expression:
        left, right = node.this, node.expression
        if sign > 0 and isinstance(left, exp.Interval):
            left, right = right, left
        interval = _interval(right)
        if interval is not None:
            return dates.shift(go(left), sign * interval[0], interval[1])
        first, second = go(left), go(right)
        if sign < 0 and isinstance(first.kind, Day | Moment) | isinstance(second.kind, Day | Moment):
            return _date_minus(first, second)
        if sign > 0 and isinstance(second.kind, Day):
            first, second = second, first
        if isinstance(first.kind, Day):
            return dates.shift_days(first, second)
        return functions.add(first, second) if sign > 0 else functions.subtract(first, second)

    return rule


def _date_minus(first: Expression, second: Expression) -> Expression:
    """Days between two dates, or the date so many days before."""
    first, second = conditions.beside(first, second), conditions.beside(second, first)
    if isinstance(first.kind, Day) and isinstance(second.kind, Day):
        return dates.difference("day", second, first)
    if isinstance(first.kind, Day):
        return dates.shift_days(first, functions.negate(second))
    raise Unsupported("a difference of times", "write DATE_DIFF('minute', start, end), in the unit that you want")


def _date_add(node: exp.DateAdd, go: Go, scope: Scope) -> Expression:
    interval = _interval(node.expression)
    if interval is None:
        raise Unsupported("DATE_ADD without an interval", "write DATE_ADD(x, INTERVAL 3 MONTH)")
    return dates.shift(go(node.this), *interval)


def _date_diff(node: exp.DateDiff, go: Go, scope: Scope) -> Expression:
    unit = node.args.get("unit")
    return dates.difference(unit.name.casefold() if unit is not None else "day", go(node.expression), go(node.this))


def _age(node: Any, go: Go) -> Expression:
    if len(node.expressions) != 2:
        raise Unsupported("AGE without a second date", "write both: AGE(DATE '2026-01-01', born)")
    return dates.years_between(go(node.expressions[1]), go(node.expressions[0]))


def _is_age(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and node.name.casefold() == "age"


def _make_date(node: exp.DateFromParts, go: Go, scope: Scope) -> Expression:
    return dates.make_date(*(go(node.args[name]) for name in ("year", "month", "day")))


# Numbers and texts


def _log(node: exp.Log, go: Go, scope: Scope) -> Expression:
    """LOG(x) is to base 10, as in DuckDB; LOG(base, x) knows 2 and 10."""
    if node.expression is None:
        return functions.curve("log10", go(node.this))
    base = go(node.this)
    number = base.number if isinstance(base, Constant) else None
    if number not in (2, 10):
        raise Unsupported("LOG to this base", "use LN, LOG2 or LOG10")
    return functions.curve(f"log{number}", go(node.expression))


def _bucket(node: exp.WidthBucket, go: Go, scope: Scope) -> Expression:
    limits = (go(node.args[name]) for name in ("min_value", "max_value", "num_buckets"))
    return functions.bucket(go(node.this), *limits)


def _split_part(node: exp.SplitPart, go: Go, scope: Scope) -> Expression:
    return functions.split_part(go(node.this), go(node.args["delimiter"]), go(node.args["part_index"]))


def _replace(node: exp.Replace, go: Go, scope: Scope) -> Expression:
    return functions.replace_text(
        go(node.this), go(node.expression), go(node.args.get("replacement") or exp.Literal.string(""))
    )


def _contains(before: str) -> Rule:
    """CONTAINS and STARTS_WITH are LIKE with a text that holds no signs of LIKE."""

    def rule(node: Any, go: Go, _: Scope) -> Expression:
        part = go(node.expression)
        text = part.value if isinstance(part, Constant) and isinstance(part.value, str) else "%"
        if "%" in text or "_" in text:
            raise Unsupported("CONTAINS or STARTS_WITH of this", "write a text without % and _, or use LIKE")
        return functions.like("like", go(node.this), constant(f"{before}{text}%"))

    return rule


def _distinct(differ: bool) -> Rule:
    """IS [NOT] DISTINCT FROM: a comparison in which two nulls are the same, and which is never null."""

    def rule(node: Any, go: Go, _: Scope) -> Expression:
        left, right = go(node.this), go(node.expression)
        absent = conditions.both(conditions.is_null(left), conditions.is_null(right))
        same = conditions.coalesce([conditions.compare("equal", left, right), absent])
        return conditions.opposite(same) if differ else same

    return rule


def _extract(node: exp.Extract, go: Go, scope: Scope) -> Expression:
    name = node.this.name.casefold()
    if _is_age(node.expression) and name == "year":
        return _age(node.expression, go)
    value = go(node.expression)
    return dates.number_of_moment(value) if name == "epoch" else dates.date_part(_PARTS.get(name, name), value)


def _truncate(node: Any, go: Go, scope: Scope) -> Expression:
    return dates.truncate_date(node.args["unit"].name.casefold(), go(node.this))


def _part(name: str) -> Rule:
    return lambda node, go, _: dates.date_part(name, go(node.this))


def _name_of(part: str, first: int, names: str) -> Rule:
    """DAYNAME and MONTHNAME: the English name for the number that a part of a date has, counted from the first."""

    def rule(node: Any, go: Go, scope: Scope) -> Expression:
        number = dates.date_part(part, go(node.this))
        named = enumerate(names.split(), first)
        tests = [(conditions.compare("equal", number, constant(i)), constant(name)) for i, name in named]
        return conditions.case(tests, constant(None))

    return rule


_DAYS = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday"
_MONTHS = "January February March April May June July August September October November December"


def _anonymous(node: exp.Anonymous, go: Go, scope: Scope) -> Expression:
    """Functions that the parser knows by name only."""
    if _is_age(node):
        return _age(node, go)
    if node.name.casefold() == "to_date" and len(node.expressions) == 2:
        return _by_format("TO_DATE", *node.expressions)
    if node.name.casefold() in ("date_part", "datepart") and len(node.expressions) == 2:
        name = go(node.expressions[0])
        if _is_age(node.expressions[1]) and isinstance(name, Constant) and str(name.value).casefold() == "year":
            return _age(node.expressions[1], go)
        if isinstance(name, Constant) and isinstance(name.value, str):
            return dates.date_part(_PARTS.get(name.value.casefold(), name.value.casefold()), go(node.expressions[1]))
    raise Unsupported(f"{node.name.upper()}() is not supported on private rows", MORE)


_PARTS = {"dow": "dayofweek", "doy": "dayofyear"}


FUNCTION_RULES: dict[type, Rule] = {
    exp.Add: _plus(1),
    exp.Sub: _plus(-1),
    exp.Cast: _cast,
    exp.TryCast: _cast,
    exp.Anonymous: _anonymous,
    exp.Extract: _extract,
    exp.TimestampTrunc: _truncate,
    exp.DateTrunc: _truncate,
    exp.Year: _part("year"),
    exp.Quarter: _part("quarter"),
    exp.Month: _part("month"),
    exp.Monthname: _name_of("month", 1, _MONTHS),
    exp.Dayname: _name_of("dayofweek", 0, _DAYS),
    exp.Week: _part("week"),
    exp.WeekOfYear: _part("week"),
    exp.Day: _part("day"),
    exp.DayOfMonth: _part("day"),
    exp.DayOfYear: _part("dayofyear"),
    exp.DayOfWeek: _part("dayofweek"),
    exp.DayOfWeekIso: _part("isodow"),
    exp.Hour: _part("hour"),
    exp.Minute: _part("minute"),
    exp.Second: _part("second"),
    exp.DateDiff: _date_diff,
    exp.DateAdd: _date_add,
    exp.DateFromParts: _make_date,
    exp.Date: unary(_cast_to_date),
    exp.LastDay: unary(dates.last_day),
    exp.TimeToUnix: unary(dates.number_of_moment),
    exp.UnixToTime: _to_timestamp,
    exp.TimeToStr: lambda node, go, _: dates.format_date(go(node.this), go(node.args["format"])),
    exp.Sign: unary(functions.sign),
    exp.Trunc: unary(functions.truncate_number),
    exp.Pow: binary(functions.power),
    exp.Sqrt: unary(functions.square_root),
    exp.Ln: unary(lambda value: functions.curve("ln", value)),
    exp.Log: _log,
    exp.Exp: unary(lambda value: functions.curve("exp", value)),
    exp.WidthBucket: _bucket,
    exp.RegexpLike: binary(functions.matches),
    exp.SplitPart: _split_part,
    exp.Replace: _replace,
    exp.Contains: _contains("%"),
    exp.StartsWith: _contains(""),
    exp.NullSafeEQ: _distinct(False),
    exp.NullSafeNEQ: _distinct(True),
}
