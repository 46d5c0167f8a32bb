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
from discreet.sql.algebra import conditions
from discreet.sql.algebra.conditions import WHOLE, all_known, case, compare, ends_of, in_common_step, step_of, stepped
from discreet.sql.algebra.expression import Call, Constant, Expression, Unfit, call, constant
from discreet.sql.algebra.kinds import MOST, Day, Fixed, Kind, Moment, Text, Truth


def add(one: Expression, other: Expression) -> Expression:
    """one + other, in their common step."""
    (one, other), step = in_common_step("+", one, other)
    (a, b), (c, d) = ends_of("+", one), ends_of("+", other)
    return call("add", one, other, kind=Fixed(step, a + c, b + d))


def subtract(one: Expression, other: Expression) -> Expression:
    """one − other, in their common step."""
    (one, other), step = in_common_step("-", one, other)
    (a, b), (c, d) = ends_of("-", one), ends_of("-", other)
    return call("subtract", one, other, kind=Fixed(step, a - d, b - c))


def multiply(one: Expression, other: Expression) -> Expression:
    """one × other; a constant factor only renames the step, so it never overflows."""
    for factor, rest in ((one, other), (other, one)):
        if isinstance(factor, Constant) and factor.number:
            return _renamed("*", rest, factor.number)
    (a, b), (c, d) = ends_of("*", one), ends_of("*", other)
    corners = (a * c, a * d, b * c, b * d)
    return call("multiply", one, other, kind=Fixed(step_of(one) * step_of(other), min(corners), max(corners)))


def divide(one: Expression, other: Expression) -> Expression:
    """one ÷ a constant that is not zero: exact, since only the step changes."""
    if not isinstance(other, Constant) or other.number is None:
        raise Unfit("a division by something that varies", "divide by a constant, or divide the aggregates instead")
    if other.number == 0:
        raise Unfit("a division by zero", "divide by another constant")
    return _renamed("/", one, 1 / other.number)


def floor_divide(one: Expression, other: Expression) -> Expression:
    """one // a positive constant, of whole numbers that are not negative."""
    if step_of(one).denominator != 1 or not isinstance(other, Constant) or (other.number or WHOLE).denominator != 1:
        raise Unfit("// of numbers that are not whole", "write FLOOR(x / c)")
    lower, _ = ends_of("//", one)
    if other.number is None or other.number <= 0 or lower < 0:
        raise Unfit("// of these numbers", "use it on numbers ≥ 0 and a positive constant, or write FLOOR(x / c)")
    return floored(divide(one, other))


def modulo(one: Expression, other: Expression) -> Expression:
    """The remainder of one ÷ a positive constant, of numbers that are not negative: below it, in their common step."""
    lower, _ = ends_of("%", one)
    if not isinstance(other, Constant) or other.number is None or other.number <= 0 or lower < 0:
        raise Unfit("% of these numbers", "use it on numbers ≥ 0 and a positive constant")
    (one, by), step = in_common_step("%", one, other)
    _, most = ends_of("%", one)
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    return call("modulo", one, by, kind=Fixed(step, 0, min(most, size - 1)))


def negate(one: Expression) -> Expression:
    """−one."""
    if isinstance(one, Constant) and one.number is not None:
        return constant(-one.number)
    a, b = ends_of("-", one)
    return call("negate", one, kind=Fixed(step_of(one), -b, -a))


def absolute(one: Expression) -> Expression:
    """|one|."""
    a, b = ends_of("ABS", one)
    least = 0 if a <= 0 <= b else min(abs(a), abs(b))
    return call("absolute", one, kind=Fixed(step_of(one), least, max(abs(a), abs(b))))


def floored(one: Expression, *, up: bool = False) -> Expression:
    """⌊one⌋, or ⌈one⌉."""
    if up:
        return negate(floored(negate(one)))
    a, b = ends_of("FLOOR", one)
    step = step_of(one)
    if step.denominator == 1:
        return stepped(one, WHOLE)
    whole = stepped(one, Fraction(1, step.denominator))
    kind = Fixed(WHOLE, floor(a * step), floor(b * step))
    return call("floor", whole, constant(step.denominator), kind=kind)


def rounded(one: Expression, digits: int) -> Expression:
    """To so many decimals, halves away from zero."""
    unit = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    lower, upper = ends_of("ROUND", one)
    up = multiply(floored(add(divide(one, constant(unit)), constant(Fraction(1, 2)))), constant(unit))
    if lower >= 0:
        return up
    down = negate(multiply(floored(add(divide(negate(one), constant(unit)), constant(Fraction(1, 2)))), constant(unit)))
    if upper <= 0:
        return down
    return case([(compare("less", one, constant(0)), down)], up)


def extreme(largest: bool, arguments: Sequence[Expression]) -> Expression:
    """The least or the greatest of several. Nulls are left out, as DuckDB does; a bound may come from one side alone.

    Whichever argument the result is, it lies between the outermost bounds; and it is at least (at most) every argument
    that is never null.
    """
    operation = "greatest" if largest else "least"
    aligned, step = in_common_step(operation.upper(), *arguments)
    kinds = [one.kind for one in aligned if isinstance(one.kind, Fixed)]
    low, high = all_known([kind.lower for kind in kinds], min), all_known([kind.upper for kind in kinds], max)
    sure = [kind for one, kind in zip(aligned, kinds, strict=True) if not one.nullable]
    if largest:
        low = max((end for end in (low, *(kind.lower for kind in sure)) if end is not None), default=None)
    else:
        high = min((end for end in (high, *(kind.upper for kind in sure)) if end is not None), default=None)
    return call(operation, *aligned, kind=Fixed(step, low, high), nullable=all(one.nullable for one in aligned))


def within(one: Expression, most: int, what: str) -> Expression:
    """A number that a narrower type can hold: values that do not fit would have to fail, or vanish."""
    lower, upper = ends_of("CAST", one)
    if max(abs(lower), abs(upper)) * step_of(one) >= most:
        raise Unfit(f"CAST to {what}, which cannot hold {one.kind}", "cast to a wider type, or leave it out")
    return one


def number_of(one: Expression) -> Expression:
    """1 for true and 0 for false; numbers stay as they are."""
    if isinstance(one.kind, Truth):
        return call("number", one, kind=Fixed(WHOLE, 0, 1))
    return one


def _renamed(sign: str, one: Expression, factor: Fraction) -> Expression:
    """one × factor without computing: the same steps, each worth factor times as much."""
    if isinstance(one, Constant) and one.number is not None:
        return constant(one.number * factor)
    if factor < 0:
        return _renamed(sign, negate(one), -factor)
    a, b = ends_of(sign, one)
    step = step_of(one) * factor
    if max(step.numerator, step.denominator) >= MOST:
        raise Unfit(f"{sign} by a constant with so many digits", "use fewer digits")
    return call("same", one, kind=Fixed(step, a, b))


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


def date_part(name: str, one: Expression) -> Expression:
    """The year, month, … of a date or time."""
    if name not in DATE_PARTS:
        raise Unfit(f"the part {name!r} of a date", f"one of {', '.join(DATE_PARTS)}")
    if isinstance(one.kind, Day) and name in ("hour", "minute", "second"):
        raise Unfit(f"the {name} of a date", "take it from a time (timestamp)")
    _expect_date(one, Day | Moment, name.upper())
    lower, upper = DATE_PARTS[name]
    return call(name, one, kind=Fixed(Fraction(1), lower, upper))


def truncate_date(unit: str, one: Expression) -> Expression:
    """The first moment of the year, month, … that a date or time lies in."""
    if unit not in TRUNCATIONS:
        raise Unfit(f"DATE_TRUNC to {unit!r}", f"one of {', '.join(TRUNCATIONS)}")
    _expect_date(one, Day | Moment, "DATE_TRUNC")
    kind = Moment() if isinstance(one.kind, Moment) and unit in ("hour", "minute") else Day()
    return call("truncate", one, constant(unit), kind=kind)


def day_of(one: Expression) -> Expression:
    """The date of a time."""
    _expect_date(one, Day | Moment, "CAST to DATE")
    return one if isinstance(one.kind, Day) else call("to_day", one, kind=Day())


def _expect_date(one: Expression, kind: object, what: str) -> None:
    if not isinstance(one.kind, kind):  # type: ignore[arg-type]
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")


PATTERN = 100
"""The most characters that a pattern of LIKE has."""

LONGER = 3
"""How many times longer a text can become in other letter cases."""


def changed_text(operation: str, one: Expression) -> Expression:
    """lower, upper or trim."""
    size = _text_length(operation.upper(), one)
    return call(operation, one, kind=Text(LONGER * size))


def length_of_text(one: Expression) -> Expression:
    """The number of characters."""
    size = _text_length("LENGTH", one)
    return call("length", one, kind=Fixed(WHOLE, 0, size))


def substring(one: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    most = _text_length("SUBSTRING", one)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unfit(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", one, start, size, kind=Text(min(most, kept)))


def like(operation: str, one: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    _text_length(operation.upper(), one)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unfit(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > PATTERN:
        raise Unfit(f"{operation.upper()} with a pattern this long", f"use at most {PATTERN} characters")
    return call(operation, one, pattern, kind=Truth())


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    size = sum(_text_length("||", one) for one in arguments)
    if size > 10 * TEXT:
        raise Unfit("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *arguments, kind=Text(size))


def _text_length(what: str, one: Expression) -> int:
    """The most characters that a text has."""
    if not isinstance(one.kind, Text):
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")
    return one.kind.length


def verify_ranges(one: Expression) -> None:
    """Raise `InternalError` unless every operation states the range or length that follows from its arguments.

    Guarantee: what passes, over columns that the catalog has, evaluates to null, to steps within its stated bounds, or
    to a text of at most its stated length.
    """
    if isinstance(one, Constant) and not _holds(one):
        raise InternalError("a plan states a range for a constant that does not hold it")
    if not isinstance(one, Call):
        return
    for argument in one.arguments:
        verify_ranges(argument)
    if isinstance(one.kind, Fixed) and _range_again(one) != one.kind:
        raise InternalError(f"a plan states a range for {one.operation} that it does not have")
    if isinstance(one.kind, Text) and _length_again(one) != one.kind.length:
        raise InternalError(f"a plan states a length for {one.operation} that it does not have")


def _holds(one: Constant) -> bool:
    """Whether the kind of a constant holds its value."""
    match one.kind, one.value:
        case Fixed(_, lower, upper), int(value):
            return (lower is None or lower <= value) and (upper is None or value <= upper)
        case Text(length), str(value):
            return len(value) <= length
        case ((Fixed() | Text()), value):
            return value is None
        case _:
            return True


def _length_again(one: Call) -> int:
    """The length of a text, derived from the lengths of the arguments."""
    kinds = [argument.kind for argument in one.arguments]
    match one.operation, kinds:
        case (("lower" | "upper" | "trim"), [Text(length)]):
            return LONGER * length
        case "substring", [Text(length), _, _]:
            return min(_whole(one.arguments[2]), length)
        case "concatenate", _:
            return sum(kind.length for kind in kinds if isinstance(kind, Text))
        case (("case" | "coalesce"), _):
            union = conditions.union([*kinds[1:-1:2], kinds[-1]] if one.operation == "case" else kinds)
            return union.length if isinstance(union, Text) else -1
        case _:
            return -1


def _range_again(one: Call) -> Kind | None:  # noqa: PLR0911, PLR0912 (one branch an operation)
    parts, kinds = one.arguments, [argument.kind for argument in one.arguments]
    match one.operation, kinds:
        case "absolute", _:
            return absolute(parts[0]).kind
        case (("add" | "subtract" | "multiply"), _):
            rules = {"add": add, "subtract": subtract, "multiply": multiply}
            return rules[one.operation](parts[0], parts[1]).kind
        case "negate", [Fixed(step, int(a), int(b))]:
            return Fixed(step, -b, -a)
        case "same", [Fixed(_, lower, upper)] if isinstance(one.kind, Fixed):
            return Fixed(one.kind.step, lower, upper)
        case "times", [Fixed(step, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(step / by, a * by, b * by)
        case "floor", [Fixed(_, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(conditions.WHOLE, a // by, b // by)
        case "modulo", [Fixed(step, int(a), int(b)), _] if a >= 0 and (by := _whole(parts[1])) > 0:
            return Fixed(step, 0, min(b, by - 1))
        case (("least" | "greatest"), _):
            return extreme(one.operation == "greatest", parts).kind
        case "case", _:
            return conditions.union([*kinds[1:-1:2], kinds[-1]])
        case "coalesce", _:
            return conditions.union(kinds)
        case "number", _:
            return Fixed(conditions.WHOLE, 0, 1)
        case "length", [Text(length)]:
            return Fixed(conditions.WHOLE, 0, length)
        case name, _ if name in DATE_PARTS:
            return Fixed(conditions.WHOLE, *DATE_PARTS[name])
        case _:
            return None


def _whole(one: Expression) -> int:
    return one.value if isinstance(one, Constant) and isinstance(one.value, int) else 0
