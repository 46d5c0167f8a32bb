"""SQL of operations that need more than a sign or a function: dates as numbers, roots, quotients, casts.

Each is total: it gives a value or NULL whatever its arguments are. Where a function could fail outside a range, its
argument is held within that range first, and what was outside is NULL by a condition.
"""

from collections.abc import Callable
from datetime import datetime

from discreet.curator.catalog import ColumnType
from discreet.curator.engines.dialects import Dialect
from discreet.sql.algebra import functions
from discreet.sql.algebra.calendar import FIRST, LAST, day_number, microsecond_number
from discreet.sql.algebra.expression import Call, Constant, Expression
from discreet.sql.algebra.kinds import Day, Fixed, Moment, Truth

_EPOCH = "DATE '1970-01-01'"


def _day_of_number(value: Call, parts: list[str], dialect: Dialect) -> str:
    number = parts[0]
    if isinstance(value.kind, Day) and value.kind.lower and value.kind.upper:
        number = _within(value.arguments[0], number, day_number(value.kind.lower), day_number(value.kind.upper))
    return dialect.plus_days(_EPOCH, number)


def _moment_of_number(value: Call, parts: list[str], dialect: Dialect) -> str:
    number = parts[0]
    if isinstance(value.kind, Moment) and value.kind.lower and value.kind.upper:
        ends = microsecond_number(value.kind.lower), microsecond_number(value.kind.upper)
        number = _within(value.arguments[0], number, *ends)
    return dialect.of_microseconds(number)


def _within(argument: Expression, sql: str, low: int, high: int) -> str:
    """A number, NULL outside the ends; nothing is written where it never is."""
    kind = argument.kind
    known = isinstance(kind, Fixed) and kind.lower is not None and kind.upper is not None
    if known and isinstance(kind, Fixed) and low <= (kind.lower or 0) and (kind.upper or 0) <= high:
        return sql
    return f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN least(greatest({sql}, {low}), {high}) END"


def _plus_months(value: Call, parts: list[str], dialect: Dialect) -> str:
    kind = ColumnType.TIMESTAMP if isinstance(value.kind, Moment) else ColumnType.DATE
    shifted = dialect.plus_months(parts[0], parts[1], kind)
    ends = [end for end in (getattr(value.kind, "lower", None), getattr(value.kind, "upper", None)) if end]
    if not any(end in (FIRST, LAST, datetime.min, datetime.max) for end in ends):
        return shifted
    last = f"{LAST} 23:59:59.999999" if kind is ColumnType.TIMESTAMP else f"{LAST}"
    within = f"BETWEEN {dialect.moment(kind, FIRST)} AND {dialect.moment(kind, last)}"
    return f"CASE WHEN {shifted} {within} THEN {shifted} END"


def _make_date(_: Call, parts: list[str], dialect: Dialect) -> str:
    """The first of the month and so many days more: a date where that is still in the month."""
    year, month, day = parts
    held = [
        f"CAST(least(greatest({part}, 1), {most}) AS {kind})"
        for part, most, kind in ((year, 9999, "INTEGER"), (month, 12, "INTEGER"), (day, 31, "BIGINT"))
    ]
    made = dialect.plus_days(f"make_date({held[0]}, {held[1]}, 1)", f"{held[2]} - 1")
    there = [f"{year} BETWEEN 1 AND 9999", f"{month} BETWEEN 1 AND 12", f"{day} BETWEEN 1 AND 31"]
    return f"CASE WHEN {' AND '.join(there)} AND {dialect.part('month', made)} = {month} THEN {made} END"


def _square_root(value: Call, parts: list[str], dialect: Dialect) -> str:
    """`functions.square_root` proves that this rounds as the root itself would."""
    double = dialect.type(ColumnType.REAL)
    root = f"CAST(round(sqrt(CAST(greatest({parts[0]}, 0) * {parts[1]} AS {double}))) AS BIGINT)"
    inner = value.arguments[0].kind
    always = isinstance(inner, Fixed) and inner.lower is not None and inner.lower >= 0
    return (
        f"CASE WHEN {parts[0]} IS NOT NULL THEN {root} END" if always else f"CASE WHEN {parts[0]} >= 0 THEN {root} END"
    )


def _quotient(_: Call, parts: list[str], dialect: Dialect) -> str:
    """Cut towards zero, in 38 digits; null for a divisor of 0."""
    left, right, times, over = parts
    top, bottom = f"{dialect.wide(left)} * {times}", f"{dialect.wide(f'nullif({right}, 0)')} * {over}"
    return f"CAST({dialect.cut(top, bottom)} AS BIGINT)"


def _curve(value: Call, parts: list[str], dialect: Dialect) -> str:
    kind = value.arguments[0].kind
    if not isinstance(kind, Fixed) or not isinstance(value.kind, Fixed):
        raise TypeError(value.operation)
    first, values = functions.curve_table(value.operation, kind, value.kind.step)
    return f"CASE WHEN {parts[0]} >= {first} THEN {dialect.listed(values, f'{parts[0]} - {first - 1}')} END"


def _parsed_number(value: Call, parts: list[str], dialect: Dialect) -> str:
    name, digits, decimals = (part.value for part in value.arguments[1:] if isinstance(part, Constant))
    dialect.can_parse(str(name))
    if name != "DECIMAL":
        return f"CAST(TRY_CAST({parts[0]} AS {name}) AS BIGINT)"
    return f"CAST(TRY_CAST({parts[0]} AS DECIMAL({digits}, {decimals})) * {10 ** int(str(decimals))} AS BIGINT)"


def _parsed_date(_: Call, parts: list[str], dialect: Dialect) -> str:
    dialect.can_parse("DATE")
    found = f"TRY_CAST({parts[0]} AS DATE)"
    return f"CASE WHEN {found} BETWEEN DATE '{FIRST}' AND DATE '{LAST}' THEN {found} END"


def _text_of(value: Call, parts: list[str], dialect: Dialect) -> str:
    kinds = {Day: ColumnType.DATE, Truth: ColumnType.BOOLEAN}
    return dialect.written(parts[0], kinds.get(type(value.arguments[0].kind), ColumnType.INTEGER))


def _text(value: Expression) -> str:
    return str(value.value) if isinstance(value, Constant) else ""


OPERATIONS: dict[str, Callable[[Call, list[str], Dialect], str]] = {
    "day_number": lambda _, parts, dialect: dialect.days(parts[0]),
    "microsecond_number": lambda _, parts, dialect: dialect.microseconds(parts[0]),
    "day_of_number": _day_of_number,
    "moment_of_number": _moment_of_number,
    "plus_months": _plus_months,
    "make_date": _make_date,
    "format_date": lambda value, parts, dialect: dialect.formatted(parts[0], _text(value.arguments[1])),
    "sign": lambda _, parts, dialect: dialect.sign(parts[0]),
    "square_root": _square_root,
    "quotient": _quotient,
    **dict.fromkeys(functions.CURVES, _curve),
    "matches": lambda value, parts, dialect: dialect.matches(parts[0], _text(value.arguments[1])),
    "split_part": lambda _, parts, dialect: f"split_part({parts[0]}, {parts[1]}, CAST({parts[2]} AS INTEGER))",
    "replace": lambda _, parts, dialect: f"replace({', '.join(parts)})",
    "parsed_number": _parsed_number,
    "parsed_date": _parsed_date,
    "text_of": _text_of,
}
"""How each operation is written, from itself and the SQL of its arguments."""
