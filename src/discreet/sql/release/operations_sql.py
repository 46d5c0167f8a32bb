"""SQL of operations that need more than a sign or a function of DuckDB: dates as numbers, roots, quotients, casts.

Each is total: it gives a value or NULL whatever its arguments are. Where a function could fail outside a range, its
argument is held within that range first, and what was outside is NULL by a condition.
"""

from collections.abc import Callable
from datetime import datetime

from discreet.curator.engines.columns import literal
from discreet.sql.algebra import curves
from discreet.sql.algebra.calendar import FIRST, LAST, day_number, microsecond_number
from discreet.sql.algebra.expression import Call, Constant, Expression
from discreet.sql.algebra.kinds import Day, Fixed, Moment

_EPOCH = "DATE '1970-01-01'"


def _day_of_number(value: Call, parts: list[str]) -> str:
    number = parts[0]
    if isinstance(value.kind, Day) and value.kind.lower and value.kind.upper:
        number = _within(value.arguments[0], number, day_number(value.kind.lower), day_number(value.kind.upper))
    return f"({_EPOCH} + CAST({number} AS INTEGER))"


def _moment_of_number(value: Call, parts: list[str]) -> str:
    number = parts[0]
    if isinstance(value.kind, Moment) and value.kind.lower and value.kind.upper:
        ends = microsecond_number(value.kind.lower), microsecond_number(value.kind.upper)
        number = _within(value.arguments[0], number, *ends)
    return f"make_timestamp({number})"


def _within(argument: Expression, sql: str, low: int, high: int) -> str:
    """A number, NULL outside the ends; nothing is written where it never is."""
    kind = argument.kind
    known = isinstance(kind, Fixed) and kind.lower is not None and kind.upper is not None
    if known and isinstance(kind, Fixed) and low <= (kind.lower or 0) and (kind.upper or 0) <= high:
        return sql
    return f"CASE WHEN {sql} BETWEEN {low} AND {high} THEN least(greatest({sql}, {low}), {high}) END"


def _plus_months(value: Call, parts: list[str]) -> str:
    kind = "TIMESTAMP" if isinstance(value.kind, Moment) else "DATE"
    shifted = f"CAST({parts[0]} + to_months(CAST({parts[1]} AS INTEGER)) AS {kind})"
    ends = [end for end in (getattr(value.kind, "lower", None), getattr(value.kind, "upper", None)) if end]
    if not any(end in (FIRST, LAST, datetime.min, datetime.max) for end in ends):
        return shifted
    last = f"{LAST} 23:59:59.999999" if kind == "TIMESTAMP" else f"{LAST}"
    return f"CASE WHEN {shifted} BETWEEN {kind} '{FIRST}' AND {kind} '{last}' THEN {shifted} END"


def _make_date(_: Call, parts: list[str]) -> str:
    """The first of the month and so many days more: a date where that is still in the month."""
    year, month, day = parts
    held = [
        f"CAST(least(greatest({part}, 1), {most}) AS BIGINT)" for part, most in ((year, 9999), (month, 12), (day, 31))
    ]
    made = f"(make_date({held[0]}, {held[1]}, 1) + CAST({held[2]} - 1 AS INTEGER))"
    there = [f"{year} BETWEEN 1 AND 9999", f"{month} BETWEEN 1 AND 12", f"{day} BETWEEN 1 AND 31"]
    return f"CASE WHEN {' AND '.join(there)} AND month({made}) = {month} THEN {made} END"


def _square_root(value: Call, parts: list[str]) -> str:
    """`functions.square_root` proves that this rounds as the root itself would."""
    root = f"CAST(round(sqrt(CAST(greatest({parts[0]}, 0) * {parts[1]} AS DOUBLE))) AS BIGINT)"
    inner = value.arguments[0].kind
    always = isinstance(inner, Fixed) and inner.lower is not None and inner.lower >= 0
    return (
        f"CASE WHEN {parts[0]} IS NOT NULL THEN {root} END" if always else f"CASE WHEN {parts[0]} >= 0 THEN {root} END"
    )


def _quotient(_: Call, parts: list[str]) -> str:
    """Cut towards zero, in 128 bits; DuckDB gives NULL for a divisor of 0."""
    left, right, times, over = parts
    return f"CAST(({left}::HUGEINT * {times}) // (nullif({right}, 0)::HUGEINT * {over}) AS BIGINT)"


def _curve(value: Call, parts: list[str]) -> str:
    kind = value.arguments[0].kind
    if not isinstance(kind, Fixed) or not isinstance(value.kind, Fixed):
        raise TypeError(value.operation)
    first, values = curves.table(value.operation, kind, value.kind.step)
    listed = f"CAST([{', '.join(map(str, values))}] AS BIGINT[])"
    return f"CASE WHEN {parts[0]} >= {first} THEN ({listed})[{parts[0]} - {first - 1}] END"


def _parsed_number(value: Call, parts: list[str]) -> str:
    name, digits, decimals = (part.value for part in value.arguments[1:] if isinstance(part, Constant))
    if name != "DECIMAL":
        return f"CAST(TRY_CAST({parts[0]} AS {name}) AS BIGINT)"
    return f"CAST(TRY_CAST({parts[0]} AS DECIMAL({digits}, {decimals})) * {10 ** int(str(decimals))} AS BIGINT)"


def _parsed_date(_: Call, parts: list[str]) -> str:
    found = f"TRY_CAST({parts[0]} AS DATE)"
    return f"CASE WHEN {found} BETWEEN DATE '{FIRST}' AND DATE '{LAST}' THEN {found} END"


def _format_date(value: Call, parts: list[str]) -> str:
    pattern = value.arguments[1]
    return f"strftime({parts[0]}, {literal(str(pattern.value) if isinstance(pattern, Constant) else '')})"


OPERATIONS: dict[str, Callable[[Call, list[str]], str]] = {
    "day_number": lambda _, parts: f"({parts[0]} - {_EPOCH})",
    "microsecond_number": lambda _, parts: f"epoch_us({parts[0]})",
    "day_of_number": _day_of_number,
    "moment_of_number": _moment_of_number,
    "plus_months": _plus_months,
    "make_date": _make_date,
    "format_date": _format_date,
    "sign": lambda _, parts: f"CAST(sign({parts[0]}) AS BIGINT)",
    "square_root": _square_root,
    "quotient": _quotient,
    **dict.fromkeys(curves.CURVES, _curve),
    "matches": lambda _, parts: f"regexp_matches({parts[0]}, {parts[1]})",
    "split_part": lambda _, parts: f"split_part({', '.join(parts)})",
    "replace": lambda _, parts: f"replace({', '.join(parts)})",
    "parsed_number": _parsed_number,
    "parsed_date": _parsed_date,
    "text_of": lambda _, parts: f"CAST({parts[0]} AS VARCHAR)",
}
"""How each operation is written, from itself and the SQL of its arguments."""
