"""Expressions over private rows as SQL: whole numbers of steps, clamped and cut as columns are read."""

from collections.abc import Callable, Mapping
from fractions import Fraction

from discreet.curator.catalog import TEXT, Column, ColumnType
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError
from discreet.sql.algebra.expression import Call, Constant, Expression, Field, Leaf, Slot
from discreet.sql.algebra.kinds import Day, Fixed, Moment, Real

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
            pattern = dialect.cased("lower", dialect.pattern(_written(value.arguments[1])))
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
            found = dialect.part(name, arguments[0])
            return f"CASE WHEN {found} BETWEEN {value.kind.lower} AND {value.kind.upper} THEN {found} END"
        case name:
            raise InternalError(f"no SQL is known for {name!r}")


def _further(name: str) -> Callable[[Call, list[str], Dialect], str] | None:
    """How an operation is written that needs more than a sign or a function."""
    from discreet.sql.release.operations_sql import OPERATIONS

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
