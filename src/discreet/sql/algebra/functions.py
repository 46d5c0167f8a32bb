"""Operations that give numbers, dates and texts, each with its kind and its interval; ranges derived again.

With `conditions`, this is the closed list of operations on private rows. Every operation is *total*: whatever a row
holds, it gives a value or null, never an error, so nothing about a row can be read off a failure. Guarantee: a node of
kind `Fixed` with bounds evaluates to null or to whole steps within them. Proof, by induction: columns are clamped when
they are read; each rule gives the exact range of its operation over the ranges of its arguments, or a larger one
(interval arithmetic, Moore 1966); `expression.call` refuses what 62 bits cannot hold.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from discreet.curator.catalog import TEXT
from discreet.errors import InternalError
from discreet.sql.algebra.conditions import (
    WHOLE,
    all_known,
    case,
    coalesce,
    compare,
    in_common_step,
    in_steps,
    range_of,
    step_of,
)
from discreet.sql.algebra.expression import Call, Constant, Domain, Expression, Unsupported, all_of, call, constant
from discreet.sql.algebra.kinds import MOST, Day, Fixed, Kind, Moment, Text, Truth


def add(left: Expression, right: Expression) -> Expression:
    """left + right, in their common step."""
    (left, right), step = in_common_step("+", left, right)
    (a, b), (c, d) = range_of("+", left), range_of("+", right)
    return call("add", left, right, kind=Fixed(step, a + c, b + d))


def subtract(left: Expression, right: Expression) -> Expression:
    """left − right, in their common step."""
    (left, right), step = in_common_step("-", left, right)
    (a, b), (c, d) = range_of("-", left), range_of("-", right)
    return call("subtract", left, right, kind=Fixed(step, a - d, b - c))


def multiply(left: Expression, right: Expression) -> Expression:
    """left × right; a constant factor only renames the step, so it never overflows."""
    for factor, rest in ((left, right), (right, left)):
        if isinstance(factor, Constant) and factor.number:
            return _renamed("*", rest, factor.number)
    (a, b), (c, d) = range_of("*", left), range_of("*", right)
    corners = (a * c, a * d, b * c, b * d)
    return call("multiply", left, right, kind=Fixed(step_of(left) * step_of(right), min(corners), max(corners)))


def divide(left: Expression, right: Expression) -> Expression:
    """left ÷ a constant that is not zero: exact, since only the step changes."""
    if not isinstance(right, Constant) or right.number is None:
        raise Unsupported(
            "a division by something that varies", "divide by a constant, or divide the aggregates instead"
        )
    if right.number == 0:
        raise Unsupported("a division by zero", "divide by another constant")
    return _renamed("/", left, 1 / right.number)


def floor_divide(left: Expression, right: Expression) -> Expression:
    """left // a positive constant, of whole numbers that are not negative."""
    if step_of(left).denominator != 1 or not isinstance(right, Constant) or (right.number or WHOLE).denominator != 1:
        raise Unsupported("// of numbers that are not whole", "write FLOOR(x / c)")
    lower, _ = range_of("//", left)
    if right.number is None or right.number <= 0 or lower < 0:
        raise Unsupported("// of these numbers", "use it on numbers ≥ 0 and a positive constant, or write FLOOR(x / c)")
    return floor_of(divide(left, right))


def modulo(left: Expression, right: Expression) -> Expression:
    """The remainder of left ÷ a positive constant, of numbers that are not negative: below it, in their common step."""
    lower, _ = range_of("%", left)
    if not isinstance(right, Constant) or right.number is None or right.number <= 0 or lower < 0:
        raise Unsupported("% of these numbers", "use it on numbers ≥ 0 and a positive constant")
    (left, by), step = in_common_step("%", left, right)
    _, most = range_of("%", left)
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    return call("modulo", left, by, kind=Fixed(step, 0, min(most, size - 1)))


def negate(value: Expression) -> Expression:
    """−one."""
    if isinstance(value, Constant) and value.number is not None:
        return constant(-value.number)
    a, b = range_of("-", value)
    return call("negate", value, kind=Fixed(step_of(value), -b, -a))


def absolute(value: Expression) -> Expression:
    """|one|."""
    a, b = range_of("ABS", value)
    least = 0 if a <= 0 <= b else min(abs(a), abs(b))
    return call("absolute", value, kind=Fixed(step_of(value), least, max(abs(a), abs(b))))


def floor_of(value: Expression, *, up: bool = False) -> Expression:
    """⌊one⌋, or ⌈one⌉."""
    if up:
        return negate(floor_of(negate(value)))
    a, b = range_of("FLOOR", value)
    step = step_of(value)
    if step.denominator == 1:
        return in_steps(value, WHOLE)
    whole = in_steps(value, Fraction(1, step.denominator))
    kind = Fixed(WHOLE, floor(a * step), floor(b * step))
    return call("floor", whole, constant(step.denominator), kind=kind)


def round_to(value: Expression, digits: int) -> Expression:
    """To so many decimals, halves away from zero."""
    unit = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    lower, upper = range_of("ROUND", value)
    up = multiply(floor_of(add(divide(value, constant(unit)), constant(Fraction(1, 2)))), constant(unit))
    if lower >= 0:
        return up
    down = negate(
        multiply(floor_of(add(divide(negate(value), constant(unit)), constant(Fraction(1, 2)))), constant(unit))
    )
    if upper <= 0:
        return down
    return case([(compare("less", value, constant(0)), down)], up)


def extreme(largest: bool, arguments: Sequence[Expression]) -> Expression:
    """The least or the greatest of several. Nulls are left out, as DuckDB does; a bound may come from one side alone.

    Whichever argument the result is, it lies between the outermost bounds; and it is at least (at most) every argument
    that is never null.
    """
    operation = "greatest" if largest else "least"
    aligned, step = in_common_step(operation.upper(), *arguments)
    kinds = [value.kind for value in aligned if isinstance(value.kind, Fixed)]
    low, high = all_known([kind.lower for kind in kinds], min), all_known([kind.upper for kind in kinds], max)
    sure = [kind for value, kind in zip(aligned, kinds, strict=True) if not value.nullable]
    if largest:
        low = max((end for end in (low, *(kind.lower for kind in sure)) if end is not None), default=None)
    else:
        high = min((end for end in (high, *(kind.upper for kind in sure)) if end is not None), default=None)
    return call(operation, *aligned, kind=Fixed(step, low, high), nullable=all(value.nullable for value in aligned))


def within(value: Expression, most: int, what: str) -> Expression:
    """A number that a narrower type can hold: values that do not fit would have to fail, or vanish."""
    lower, upper = range_of("CAST", value)
    if max(abs(lower), abs(upper)) * step_of(value) >= most:
        raise Unsupported(f"CAST to {what}, which cannot hold {value.kind}", "cast to a wider type, or leave it out")
    return value


def number_of(value: Expression) -> Expression:
    """1 for true and 0 for false; numbers stay as they are."""
    if isinstance(value.kind, Truth):
        return call("number", value, kind=Fixed(WHOLE, 0, 1))
    return value


def _renamed(sign: str, value: Expression, factor: Fraction) -> Expression:
    """one × factor without computing: the same steps, each worth factor times as much."""
    if isinstance(value, Constant) and value.number is not None:
        return constant(value.number * factor)
    if factor < 0:
        return _renamed(sign, negate(value), -factor)
    a, b = range_of(sign, value)
    step = step_of(value) * factor
    if max(step.numerator, step.denominator) >= MOST:
        raise Unsupported(f"{sign} by a constant with so many digits", "use fewer digits")
    return call("same", value, kind=Fixed(step, a, b))


DATE_PARTS: dict[str, tuple[int, int]] = {
    "year": (-5877641, 5881580),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dayofyear": (1, 366),
    "dayofweek": (0, 6),
    "isodow": (1, 7),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
"""The parts of dates and times, and the range that each has whatever the date."""

TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute")


def date_part(name: str, value: Expression) -> Expression:
    """The year, month, … of a date or time."""
    if name not in DATE_PARTS:
        raise Unsupported(f"the part {name!r} of a date", f"one of {', '.join(DATE_PARTS)}")
    if isinstance(value.kind, Day) and name in ("hour", "minute", "second"):
        raise Unsupported(f"the {name} of a date", "take it from a time (timestamp)")
    _expect_date(value, Day | Moment, name.upper())
    lower, upper = DATE_PARTS[name]
    return call(name, value, kind=Fixed(Fraction(1), lower, upper))


def truncate_date(unit: str, value: Expression) -> Expression:
    """The first moment of the year, month, … that a date or time lies in."""
    if unit not in TRUNCATIONS:
        raise Unsupported(f"DATE_TRUNC to {unit!r}", f"one of {', '.join(TRUNCATIONS)}")
    _expect_date(value, Day | Moment, "DATE_TRUNC")
    kind = Moment() if isinstance(value.kind, Moment) and unit in ("hour", "minute") else Day()
    return call("truncate", value, constant(unit), kind=kind)


def day_of(value: Expression) -> Expression:
    """The date of a time."""
    _expect_date(value, Day | Moment, "CAST to DATE")
    return value if isinstance(value.kind, Day) else call("to_day", value, kind=Day())


def _expect_date(value: Expression, kind: object, what: str) -> None:
    if not isinstance(value.kind, kind):  # type: ignore[arg-type]
        raise Unsupported(f"{what} of {value.kind}", "use a column of the right kind")


PATTERN = 100
"""The most characters that a pattern of LIKE has."""

LONGER = 3
"""How many times longer a text can become in other letter cases."""


def changed_text(operation: str, value: Expression) -> Expression:
    """lower, upper or trim."""
    size = _text_length(operation.upper(), value)
    return call(operation, value, kind=Text(LONGER * size))


def length_of_text(value: Expression) -> Expression:
    """The number of characters."""
    size = _text_length("LENGTH", value)
    return call("length", value, kind=Fixed(WHOLE, 0, size))


def substring(value: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    most = _text_length("SUBSTRING", value)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unsupported(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", value, start, size, kind=Text(min(most, kept)))


def like(operation: str, value: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    _text_length(operation.upper(), value)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unsupported(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > PATTERN:
        raise Unsupported(f"{operation.upper()} with a pattern this long", f"use at most {PATTERN} characters")
    return call(operation, value, pattern, kind=Truth())


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    size = sum(_text_length("||", value) for value in arguments)
    if size > 10 * TEXT:
        raise Unsupported("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *arguments, kind=Text(size))


def _text_length(what: str, value: Expression) -> int:
    """The most characters that a text has."""
    if not isinstance(value.kind, Text):
        raise Unsupported(f"{what} of {value.kind}", "use a column of the right kind")
    return value.kind.length


def verify_expression(value: Expression) -> None:
    """Raise `InternalError` unless every operation states what follows from its arguments: kind, nulls and values.

    Guarantee: what passes, over columns that the catalog has, evaluates to null, to steps within its stated bounds, or
    to a text of at most its stated length.
    """
    if isinstance(value, Constant) and not _holds(value):
        raise InternalError("a plan states a range for a constant that does not hold it")
    if not isinstance(value, Call):
        return
    for argument in value.arguments:
        verify_expression(argument)
    try:
        kind, nullable, domain = _derived_again(value)
    except Unsupported:
        raise InternalError(f"a plan has {value.operation} of what it cannot be of") from None
    if kind != value.kind:
        what = {Fixed: "range", Text: "length"}.get(type(value.kind), "kind")
        raise InternalError(f"a plan states a {what} for {value.operation} that it does not have")
    if nullable != value.nullable or domain != value.domain:
        raise InternalError(f"a plan states values for {value.operation} that it does not have")


def _holds(argument: Constant) -> bool:
    """Whether the kind of a constant holds its value."""
    match argument.kind, argument.value:
        case Fixed(_, lower, upper), int(value):
            return (lower is None or lower <= value) and (upper is None or value <= upper)
        case Text(length), str(value):
            return len(value) <= length
        case ((Fixed() | Text()), value):
            return value is None
        case _:
            return True


def _derived_again(value: Call) -> tuple[Kind | None, bool, Domain | None]:
    """Kind, whether it can be null, and all values, from the operation and its arguments alone."""
    parts = value.arguments
    match value.operation:
        case "case":
            node = case(list(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1])
        case "coalesce":
            node = coalesce(parts)
        case "least" | "greatest":
            node = extreme(value.operation == "greatest", parts)
        case name:
            kind = _kind_again(value)
            nullable = name != "is_null" and any(part.nullable for part in parts)
            return kind, nullable, None if kind is None else all_of(kind)
    return node.kind, node.nullable, node.domain


def _kind_again(value: Call) -> Kind | None:  # noqa: PLR0911, PLR0912 (one branch an operation)
    parts, kinds = value.arguments, [argument.kind for argument in value.arguments]
    match value.operation, kinds:
        case name, _ if name in _CONDITIONS:
            return Truth()
        case "absolute", _:
            return absolute(parts[0]).kind
        case (("add" | "subtract" | "multiply"), _):
            rules = {"add": add, "subtract": subtract, "multiply": multiply}
            return rules[value.operation](parts[0], parts[1]).kind
        case "negate", [Fixed(step, int(a), int(b))]:
            return Fixed(step, -b, -a)
        case "same", [Fixed(_, lower, upper)] if isinstance(value.kind, Fixed):
            return Fixed(value.kind.step, lower, upper)
        case "times", [Fixed(step, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(step / by, a * by, b * by)
        case "floor", [Fixed(_, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(WHOLE, a // by, b // by)
        case "modulo", [Fixed(step, int(a), int(b)), _] if a >= 0 and (by := _whole(parts[1])) > 0:
            return Fixed(step, 0, min(b, by - 1))
        case "number", _:
            return Fixed(WHOLE, 0, 1)
        case "length", [Text(length)]:
            return Fixed(WHOLE, 0, length)
        case name, _ if name in DATE_PARTS:
            return Fixed(WHOLE, *DATE_PARTS[name])
        case "truncate", [kind, _] if isinstance(parts[1], Constant):
            return Moment() if isinstance(kind, Moment) and parts[1].value in ("hour", "minute") else Day()
        case "to_day", _:
            return Day()
        case (("lower" | "upper" | "trim"), [Text(length)]):
            return Text(LONGER * length)
        case "substring", [Text(length), _, _]:
            return Text(min(_whole(parts[2]), length))
        case "concatenate", _ if all(isinstance(kind, Text) for kind in kinds):
            return Text(sum(kind.length for kind in kinds if isinstance(kind, Text)))
        case _:
            return None


_CONDITIONS = frozenset(
    {"equal", "differ", "less", "less_equal", "greater", "greater_equal", "and", "or", "not", "in", "is_null"}
    | {"like", "ilike"}
)
"""Operations that are true or false."""


def _whole(value: Expression) -> int:
    return value.value if isinstance(value, Constant) and isinstance(value.value, int) else 0
