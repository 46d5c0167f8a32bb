"""Operations that give numbers: each says what steps and which interval its result has."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor

from discreet.sql.expression import Constant, Expression, Unfit, call, constant
from discreet.sql.kinds import MOST, Fixed, Truth
from discreet.sql.operations.alignment import WHOLE, all_known, ends_of, in_common_step, step_of, stepped
from discreet.sql.operations.conditions import case, compare


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
