"""Expressions over private rows as SQL: whole numbers of steps, clamped and cut as columns are read.

SQL of operations that need more than a sign or a function: dates as numbers, roots, quotients, casts.

Each is total: it gives a value or NULL whatever its arguments are. Where a function could fail outside a range, its
argument is held within that range first, and what was outside is NULL by a condition.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from fractions import Fraction

from discreet.curator.catalog import TEXT, Column, ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra import functions
from discreet.sql.algebra.expression import Call, Constant, Expression, Field, Leaf, Slot
from discreet.sql.algebra.kinds import FIRST, LAST, Day, Fixed, Moment, Real, Truth, day_number, microsecond_number

__all__ = ["TOTAL", "call_sql", "column_name", "expression", "held", "leaf_name", "treated"]


TOTAL = 2**61
"""Totals are held within ±TOTAL."""


_BINARY = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "times": "*",
    "modulo": "%",
    "equal": "=",
    "differ": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "concatenate": "||",
    "and": "AND",
    "or": "OR",
}


_FUNCTIONS = {
    "absolute": "abs",
    "least": "least",
    "greatest": "greatest",
    "coalesce": "coalesce",
}


def held(total: str) -> str:
    """A total within ±`TOTAL`, in every dialect; nothing adds up to 0."""
    return f"CAST(greatest(least(coalesce({total}, 0), {TOTAL}), -{TOTAL}) AS BIGINT)"


def treated(column: Column, dialect: Dialect = DUCKDB) -> str:
    """A column clamped to its bounds and, where it is real, as whole steps of its grid; NaN is null; texts are cut."""
    name = dialect.quoted(column.name)
    if column.kind is ColumnType.TEXT:
        return f"substring({name}, 1, {TEXT})"
    if column.earliest is not None and column.latest is not None:
        first, last = (dialect.moment(column.kind, end) for end in (column.earliest, column.latest))
        return f"CASE WHEN {name} < {first} THEN {first} WHEN {name} > {last} THEN {last} ELSE {name} END"
    if not column.bounded or column.lower is None or column.upper is None or column.granularity is None:
        return name
    step = column.granularity
    low, high = dialect.integer(int(column.lower / step)), dialect.integer(int(column.upper / step))
    if column.kind is ColumnType.INTEGER:
        return f"CASE WHEN {name} < {low} THEN {low} WHEN {name} > {high} THEN {high} ELSE {name} END"
    return _steps_of_real(column, column.lower, column.upper, step, dialect)


def _steps_of_real(column: Column, lower: Fraction, upper: Fraction, step: Fraction, dialect: Dialect) -> str:
    """A real column as whole steps of its grid: clamped, scaled, rounded; NaN is null.

    A number that comes between the ends without being clamped is taken as it is, which is most of them and quicker.
    Proof that clamping it first would give the same: ⌊x·s⌉ in floats never falls as x grows, and at the ends it is
    `low` and `high` (`_reaches_ends`). So x ≤ lower with ⌊x·s⌉ ≥ low has ⌊x·s⌉ = low, and x ≥ upper likewise `high`.
    """
    name, scale = dialect.quoted(column.name), dialect.number(float(1 / step))
    low, high = dialect.integer(int(lower / step)), dialect.integer(int(upper / step))
    within = f"least(greatest({name}, {dialect.number(float(lower))}), {dialect.number(float(upper))})"
    steps = dialect.steps(within, scale)
    clamped = f"CASE WHEN NOT {dialect.is_nan(name)} THEN least({high}, greatest({low}, {steps})) END"
    if not _reaches_ends(lower, upper, step):
        return clamped
    plain = dialect.steps(name, scale)
    return f"CASE WHEN {plain} BETWEEN {low} AND {high} THEN {plain} ELSE {clamped} END"


def _reaches_ends(lower: Fraction, upper: Fraction, step: Fraction) -> bool:
    """Whether the ends, scaled in floats, are within half a step of their own numbers of steps.

    >>> _reaches_ends(Fraction(0), Fraction(500), Fraction(1, 100))
    True
    >>> _reaches_ends(Fraction(0), Fraction(2**60 + 1), Fraction(1))
    False
    """
    return all(abs(Fraction(float(end) * float(1 / step)) - int(end / step)) < Fraction(1, 2) for end in (lower, upper))


def expression(value: Expression, apart: Mapping[int, str], dialect: Dialect = DUCKDB) -> str:
    """An expression as SQL; numbers as whole steps. `apart` names the operations that are columns already, by id."""
    match value:
        case Field() | Slot():
            return leaf_name(value, dialect)
        case Constant():
            return _constant(value, dialect)
        case Call():
            return apart[id(value)] if id(value) in apart else call_sql(value, apart, dialect)


def call_sql(value: Call, apart: Mapping[int, str], dialect: Dialect = DUCKDB) -> str:
    """An operation as SQL, whatever `apart` says of it."""
    arguments = [_beside(argument, value.arguments[0], apart, dialect) for argument in value.arguments]
    match value.operation:
        case name if name in _BINARY:
            return "(" + f" {_BINARY[name]} ".join(arguments) + ")"
        case name if name in _FUNCTIONS:
            return f"{_FUNCTIONS[name]}({', '.join(arguments)})"
        case "same":
            return arguments[0]
        case "negate":
            return f"(-{arguments[0]})"
        case "not":
            return f"(NOT {arguments[0]})"
        case "is_null":
            return f"({arguments[0]} IS NULL)"
        case "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        case "number":
            return f"CASE {arguments[0]} WHEN TRUE THEN {dialect.integer(1)} WHEN FALSE THEN {dialect.integer(0)} END"
        case "lower" | "upper" as name:
            return dialect.cased(name, arguments[0])
        case "trim":
            return dialect.trimmed(arguments[0])
        case "substring":
            first, size = (f"CAST({part} AS INTEGER)" for part in arguments[1:])
            return f"substring({arguments[0]}, {first}, {size})"
        case "length":
            return dialect.length(arguments[0])
        case "like":
            return dialect.like(arguments[0], dialect.pattern(_written(value.arguments[1])))
        case "ilike":  # as DuckDB defines it, but whole pieces of the pattern are searched for, as in LIKE
            pattern = dialect.pattern(_written(value.arguments[1]), lower=True)
            return dialect.like(dialect.cased("lower", arguments[0]), pattern)
        case "case":
            pairs = zip(arguments[:-1:2], arguments[1:-1:2], strict=True)
            return "CASE " + " ".join(f"WHEN {when} THEN {then}" for when, then in pairs) + f" ELSE {arguments[-1]} END"
        case "floor":
            return _floor(value, arguments[0], arguments[1], dialect)
        case "truncate":
            kind = ColumnType.TIMESTAMP if isinstance(value.kind, Moment) else ColumnType.DATE
            return dialect.truncated(arguments[1], arguments[0], kind)
        case "to_day":
            return dialect.day(arguments[0])
        case name if (operation := _further(name)) is not None:
            return operation(value, arguments, dialect)
        case name if isinstance(value.kind, Fixed) and value.kind.bounded:  # a part of a date
            result = dialect.part(name, arguments[0])
            return f"CASE WHEN {result} BETWEEN {value.kind.lower} AND {value.kind.upper} THEN {result} END"
        case name:
            raise InternalError(f"no SQL is known for {name!r}")


def _further(name: str) -> Callable[[Call, list[str], Dialect], str] | None:
    """How an operation is written that needs more than a sign or a function."""

    return OPERATIONS.get(name)


def _written(value: Expression) -> str:
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else ""


def _floor(node: Call, value: str, divisor: str, dialect: Dialect) -> str:
    """⌊value/divisor⌋: shifted by whole divisors so that nothing is negative when it is cut."""
    inner, by = node.arguments
    least = inner.kind.lower if isinstance(inner.kind, Fixed) and inner.kind.lower is not None else 0
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    shift = max(0, -(least // size))
    if not shift:
        return dialect.quotient(value, divisor)
    return f"CAST({dialect.cut(f'{dialect.wide(value)} + {shift * size}', divisor)} - {shift} AS BIGINT)"


def _beside(argument: Expression, first: Expression, apart: Mapping[int, str], dialect: Dialect) -> str:
    """An argument; a number compared with a column of reals is written as a float."""
    if isinstance(argument, Constant) and isinstance(first.kind, Real) and argument.number is not None:
        return dialect.number(float(argument.number))
    return expression(argument, apart, dialect)


def _constant(value: Constant, dialect: Dialect) -> str:
    match value.value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value.value else "FALSE"
        case int():
            return dialect.integer(value.value)
        case str():
            return dialect.literal(value.value)
        case _:
            return dialect.moment(ColumnType.DATE if isinstance(value.kind, Day) else ColumnType.TIMESTAMP, value.value)


def leaf_name(leaf: Leaf, dialect: Dialect = DUCKDB) -> str:
    """What a column of rows is called."""
    return column_name(leaf.column, leaf.source, dialect) if isinstance(leaf, Field) else f"s{leaf.source}_{leaf.index}"


def column_name(column: Column, source: int, dialect: Dialect = DUCKDB) -> str:
    """What a column is called once it is treated: never u, n, k0, v0, t0, … whatever the owner calls it."""
    return dialect.quoted(f"c{source or ''}_{column.name}")


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
    result = f"TRY_CAST({parts[0]} AS DATE)"
    return f"CASE WHEN {result} BETWEEN DATE '{FIRST}' AND DATE '{LAST}' THEN {result} END"


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
