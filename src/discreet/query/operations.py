"""The closed list of operations on private rows, each with its kind and its interval.

Every operation is *total*: whatever a row holds, it gives a value or null, never an error, so nothing about a row can
be read off a failure. Guarantee: a node of kind `Fixed` with bounds evaluates to null or to whole steps within them.
Proof, by induction: columns are clamped when they are read; each rule below gives the exact range of its operation over
the ranges of its arguments, or a larger one (interval arithmetic, Moore 1966); `call` refuses what 62 bits cannot hold.
"""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor

from discreet.exact import plain
from discreet.query.expression import Call, Constant, Domain, Expression, Scalar, Unfit, call, constant
from discreet.query.kinds import MOST, TEXT, Day, Fixed, Kind, Moment, Nothing, Real, Text, Truth, common_step

PARTS: dict[str, tuple[int, int]] = {
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

_NO_BOUNDS = (
    "declare bounds in the policy, or clamp it yourself: LEAST(GREATEST(x, low), high), where a null becomes low"
)
WHOLE = Fraction(1)
_PATTERN = 100


# Arithmetic


def add(one: Expression, other: Expression) -> Expression:
    """one + other, in their common step."""
    (one, other), step = _aligned("+", one, other)
    (a, b), (c, d) = _ends("+", one), _ends("+", other)
    return call("add", one, other, kind=Fixed(step, a + c, b + d))


def subtract(one: Expression, other: Expression) -> Expression:
    """one − other, in their common step."""
    (one, other), step = _aligned("-", one, other)
    (a, b), (c, d) = _ends("-", one), _ends("-", other)
    return call("subtract", one, other, kind=Fixed(step, a - d, b - c))


def multiply(one: Expression, other: Expression) -> Expression:
    """one × other; a constant factor only renames the step, so it never overflows."""
    for factor, rest in ((one, other), (other, one)):
        if isinstance(factor, Constant) and factor.number:
            return _renamed("*", rest, factor.number)
    (a, b), (c, d) = _ends("*", one), _ends("*", other)
    corners = (a * c, a * d, b * c, b * d)
    return call("multiply", one, other, kind=Fixed(_step(one) * _step(other), min(corners), max(corners)))


def divide(one: Expression, other: Expression) -> Expression:
    """one ÷ a constant that is not zero: exact, since only the step changes."""
    if not isinstance(other, Constant) or other.number is None:
        raise Unfit("a division by something that varies", "divide by a constant, or divide the aggregates instead")
    if other.number == 0:
        raise Unfit("a division by zero", "divide by another constant")
    return _renamed("/", one, 1 / other.number)


def floor_divide(one: Expression, other: Expression) -> Expression:
    """one // a positive constant, of whole numbers that are not negative."""
    if _step(one).denominator != 1 or not isinstance(other, Constant) or (other.number or WHOLE).denominator != 1:
        raise Unfit("// of numbers that are not whole", "write FLOOR(x / c)")
    lower, _ = _ends("//", one)
    if other.number is None or other.number <= 0 or lower < 0:
        raise Unfit("// of these numbers", "use it on numbers ≥ 0 and a positive constant, or write FLOOR(x / c)")
    return floored(divide(one, other))


def modulo(one: Expression, other: Expression) -> Expression:
    """The remainder of one ÷ a positive constant, of numbers that are not negative: below it, in their common step."""
    lower, _ = _ends("%", one)
    if not isinstance(other, Constant) or other.number is None or other.number <= 0 or lower < 0:
        raise Unfit("% of these numbers", "use it on numbers ≥ 0 and a positive constant")
    (one, by), step = _aligned("%", one, other)
    _, most = _ends("%", one)
    size = by.value if isinstance(by, Constant) and isinstance(by.value, int) else 1
    return call("modulo", one, by, kind=Fixed(step, 0, min(most, size - 1)))


def within(one: Expression, most: int, what: str) -> Expression:
    """A number that a narrower type can hold: values that do not fit would have to fail, or vanish."""
    lower, upper = _ends("CAST", one)
    if max(abs(lower), abs(upper)) * _step(one) >= most:
        raise Unfit(f"CAST to {what}, which cannot hold {one.kind}", "cast to a wider type, or leave it out")
    return one


def negate(one: Expression) -> Expression:
    """−one."""
    if isinstance(one, Constant) and one.number is not None:
        return constant(-one.number)
    a, b = _ends("-", one)
    return call("negate", one, kind=Fixed(_step(one), -b, -a))


def absolute(one: Expression) -> Expression:
    """|one|."""
    a, b = _ends("ABS", one)
    least = 0 if a <= 0 <= b else min(abs(a), abs(b))
    return call("absolute", one, kind=Fixed(_step(one), least, max(abs(a), abs(b))))


def floored(one: Expression, *, up: bool = False) -> Expression:
    """⌊one⌋, or ⌈one⌉."""
    if up:
        return negate(floored(negate(one)))
    a, b = _ends("FLOOR", one)
    step = _step(one)
    if step.denominator == 1:
        return _stepped(one, WHOLE)
    whole = _stepped(one, Fraction(1, step.denominator))
    kind = Fixed(WHOLE, floor(a * step), floor(b * step))
    return call("floor", whole, constant(step.denominator), kind=kind)


def rounded(one: Expression, digits: int) -> Expression:
    """To so many decimals, halves away from zero."""
    unit = Fraction(1, 10**digits) if digits >= 0 else Fraction(10**-digits)
    lower, upper = _ends("ROUND", one)
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
    aligned, step = _aligned(operation.upper(), *arguments)
    kinds = [one.kind for one in aligned if isinstance(one.kind, Fixed)]
    low, high = _all_known([kind.lower for kind in kinds], min), _all_known([kind.upper for kind in kinds], max)
    sure = [kind for one, kind in zip(aligned, kinds, strict=True) if not one.nullable]
    if largest:
        low = max((end for end in (low, *(kind.lower for kind in sure)) if end is not None), default=None)
    else:
        high = min((end for end in (high, *(kind.upper for kind in sure)) if end is not None), default=None)
    return call(operation, *aligned, kind=Fixed(step, low, high), nullable=all(one.nullable for one in aligned))


def _all_known(ends: list[int | None], choose: Callable[[list[int]], int]) -> int | None:
    known = [end for end in ends if end is not None]
    return choose(known) if len(known) == len(ends) else None


# Conditions

_FLIPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def compare(operation: str, one: Expression, other: Expression) -> Expression:
    """equal, differ, less, less_equal, greater, greater_equal: of two numbers, texts, dates, times or truth values."""
    if isinstance(one, Constant) and not isinstance(other, Constant):
        return compare(_FLIPPED.get(operation, operation), other, one)
    one, other = _like(one, other), _like(other, one)
    match one.kind, other.kind:
        case (Nothing(), _) | (_, Nothing()):
            raise Unfit("a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        case Fixed(), Fixed() if isinstance(other, Constant):
            return _against(operation, one, other)
        case Fixed(), Fixed():
            (one, other), _ = _aligned(operation, one, other)
        case (Real(), Fixed()) if isinstance(other, Constant):
            pass
        case (a, b) if type(a) is type(b) and not isinstance(a, Fixed):
            pass
        case _:
            raise Unfit(f"a comparison of {one.kind} with {other.kind}", "compare values of one kind")
    return call(operation, one, other, kind=Truth())


def _against(operation: str, one: Expression, limit: Constant) -> Expression:
    """A number against a constant that may lie between its steps."""
    exact = (limit.number or Fraction(0)) / _step(one)
    between = exact.denominator != 1
    if between and operation in ("equal", "differ"):
        never = call("is_null", one, kind=Truth(), nullable=False)  # true where null …
        verdict = constant(operation == "differ")
        return case([(never, constant(None))], verdict)
    steps = ceil(exact) if operation in ("less", "greater_equal") else floor(exact)
    steps = max(-MOST + 1, min(MOST - 1, steps))
    kind = Fixed(_step(one), steps, steps)
    return call(operation, one, Constant(steps, kind), kind=Truth())


def among(one: Expression, values: Sequence[Expression]) -> Expression:
    """one IN (constants)."""
    if not all(isinstance(value, Constant) and value.value is not None for value in values):
        raise Unfit("IN with something that is not a constant", "list constants, without NULL")
    kept: list[Constant] = []
    for value in values:
        test = compare("equal", one, value)
        if isinstance(test, Call) and test.operation == "equal" and isinstance(test.arguments[1], Constant):
            kept.append(test.arguments[1])
    if not kept:  # numbers between the steps only
        return compare("equal", one, values[0])
    return call("in", one, *kept, kind=Truth())


def both(*parts: Expression) -> Expression:
    """AND."""
    return _joined("and", parts)


def either(*parts: Expression) -> Expression:
    """OR."""
    return _joined("or", parts)


def opposite(one: Expression) -> Expression:
    """NOT."""
    return call("not", condition(one), kind=Truth())


def is_null(one: Expression) -> Expression:
    """IS NULL."""
    return call("is_null", one, kind=Truth(), nullable=False)


def condition(one: Expression) -> Expression:
    """An expression that is true or false."""
    if not isinstance(one.kind, Truth | Nothing):
        raise Unfit(f"a condition made of {one.kind}", "write a comparison, such as x > 0")
    return one


def _joined(operation: str, parts: Sequence[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Call) and part.operation == operation
        flat += part.arguments if same and isinstance(part, Call) else [condition(part)]
    return flat[0] if len(flat) == 1 else call(operation, *flat, kind=Truth())


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """CASE WHEN … THEN … ELSE … END; its values are known where all branches are constants."""
    values = _unified([*(value for _, value in branches), otherwise], "CASE")
    kind = union([value.kind for value in values])
    domain = None
    if all(isinstance(value, Constant) for value in values):
        domain = _distinct([value.value for value in values if isinstance(value, Constant)])
    parts = [part for (when, _), value in zip(branches, values, strict=False) for part in (condition(when), value)]
    nullable = any(value.nullable for value in values)
    return call("case", *parts, values[-1], kind=kind, nullable=nullable, domain=domain)


def coalesce(arguments: Sequence[Expression]) -> Expression:
    """The first that is not null."""
    values = _unified(arguments, "COALESCE")
    kind, nullable = union([value.kind for value in values]), all(value.nullable for value in values)
    domains = [value.domain for value in values]
    domain = None
    if isinstance(kind, Text) and all(known is not None for known in domains):
        domain = _distinct([scalar for known in domains for scalar in known or ()])
    return call("coalesce", *values, kind=kind, nullable=nullable, domain=domain)


def _distinct(values: list[Scalar]) -> Domain:
    return tuple(dict.fromkeys(value for value in values if value is not None))


# Text, dates and times


def text(operation: str, one: Expression) -> Expression:
    """lower, upper or trim."""
    inner, size = _short(operation.upper(), one)
    return call(operation, inner, kind=Text(3 * size), work=_work(size))


def length(one: Expression) -> Expression:
    """The number of characters."""
    inner, size = _short("LENGTH", one)
    return call("length", inner, kind=Fixed(WHOLE, 0, size), work=_work(size))


def substring(one: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    inner, most = _short("SUBSTRING", one)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unfit(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", inner, start, size, kind=Text(min(most, kept)), work=_work(most))


def like(operation: str, one: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    inner, size = _short(operation.upper(), one)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unfit(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > _PATTERN:
        raise Unfit(f"{operation.upper()} with a pattern this long", f"use at most {_PATTERN} characters")
    return call(operation, inner, pattern, kind=Truth(), work=1 + size * len(pattern.value) // 1000)


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    parts = [_short("||", one) for one in arguments]
    size = sum(size for _, size in parts)
    if size > 10 * TEXT:
        raise Unfit("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *(part for part, _ in parts), kind=Text(size), work=_work(size))


def _short(what: str, one: Expression) -> tuple[Expression, int]:
    """A text whose length is bounded, and that bound: a column is cut to its first characters."""
    if not isinstance(one.kind, Text):
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")
    if one.kind.length is not None:
        return one, one.kind.length
    cut = call("substring", one, constant(1), constant(TEXT), kind=Text(TEXT), work=_work(TEXT))
    return cut, TEXT


def _work(characters: int) -> int:
    return 1 + characters // 1000


def part(name: str, one: Expression) -> Expression:
    """The year, month, … of a date or time."""
    if name not in PARTS:
        raise Unfit(f"the part {name!r} of a date", f"one of {', '.join(PARTS)}")
    if isinstance(one.kind, Day) and name in ("hour", "minute", "second"):
        raise Unfit(f"the {name} of a date", "take it from a time (timestamp)")
    _expect(one, Day | Moment, name.upper())
    lower, upper = PARTS[name]
    return call(name, one, kind=Fixed(WHOLE, lower, upper), nullable=True)


def truncate(unit: str, one: Expression) -> Expression:
    """The first moment of the year, month, … that a date or time lies in."""
    if unit not in TRUNCATIONS:
        raise Unfit(f"DATE_TRUNC to {unit!r}", f"one of {', '.join(TRUNCATIONS)}")
    _expect(one, Day | Moment, "DATE_TRUNC")
    kind = Moment() if isinstance(one.kind, Moment) and unit in ("hour", "minute") else Day()
    return call("truncate", one, constant(unit), kind=kind, nullable=True)


def day_of(one: Expression) -> Expression:
    """The date of a time."""
    _expect(one, Day | Moment, "CAST to DATE")
    return one if isinstance(one.kind, Day) else call("to_day", one, kind=Day(), nullable=True)


def number_of(one: Expression) -> Expression:
    """1 for true and 0 for false; numbers stay as they are."""
    if isinstance(one.kind, Truth):
        return call("number", one, kind=Fixed(WHOLE, 0, 1))
    return one


# Kinds


def _renamed(sign: str, one: Expression, factor: Fraction) -> Expression:
    """one × factor without computing: the same steps, each worth factor times as much."""
    if isinstance(one, Constant) and one.number is not None:
        return constant(one.number * factor)
    if factor < 0:
        return _renamed(sign, negate(one), -factor)
    a, b = _ends(sign, one)
    step = _step(one) * factor
    if max(step.numerator, step.denominator) >= MOST:
        raise Unfit(f"{sign} by a constant with so many digits", "use fewer digits")
    return call("same", one, kind=Fixed(step, a, b))


def _ends(sign: str, one: Expression) -> tuple[int, int]:
    match one.kind:
        case Fixed(_, int(lower), int(upper)):
            return lower, upper
        case Fixed():
            raise Unfit(f"{sign} of a number without bounds", _NO_BOUNDS)
        case Real():
            raise Unfit(f"{sign} of a real column without bounds and granularity", "declare them in the policy")
        case other:
            raise Unfit(f"{sign} of {other}", "use numbers")


def _step(one: Expression) -> Fraction:
    if not isinstance(one.kind, Fixed):
        raise Unfit(f"arithmetic with {one.kind}", "use numbers")
    return one.kind.step


def _aligned(sign: str, *arguments: Expression) -> tuple[list[Expression], Fraction]:
    """The same numbers in their common step, and that step."""
    step = Fraction(0)
    for one in arguments:
        if not isinstance(one.kind, Fixed):
            raise Unfit(f"{sign} of {one.kind}", "use numbers with bounds and granularity")
        step = common_step(step, one.kind.step) if step else one.kind.step
    return [_stepped(one, step) for one in arguments], step


def _stepped(one: Expression, step: Fraction) -> Expression:
    """The same number as a whole number of finer steps."""
    if not isinstance(one.kind, Fixed) or one.kind.step == step:
        return one
    times = one.kind.step / step
    if isinstance(one, Constant) and isinstance(one.value, int):
        steps = int(one.value * times)
        if abs(steps) >= MOST:
            raise Unfit(
                f"the number {one} beside steps as fine as {plain(step)}", "use a smaller number or a coarser step"
            )
        return Constant(steps, Fixed(step, steps, steps))
    if not one.kind.bounded:
        raise Unfit("a number without bounds beside a fraction", _NO_BOUNDS)
    a, b = _ends("·", one)
    return call("times", one, constant(int(times)), kind=Fixed(step, int(a * times), int(b * times)))


def _unified(values: Sequence[Expression], what: str) -> list[Expression]:
    """Values of one kind: numbers in one step; NULL fits all."""
    concrete = [value for value in values if not isinstance(value.kind, Nothing)]
    if not concrete:
        raise Unfit(f"{what} with nothing but NULL", "give it a value")
    shaped = [_like(value, concrete[0]) for value in concrete]
    if len({type(value.kind) for value in shaped}) > 1:
        kinds = ", ".join(sorted({str(value.kind) for value in shaped}))
        raise Unfit(f"{what} with values of several kinds ({kinds})", "give all of them one kind")
    if isinstance(shaped[0].kind, Real):
        raise Unfit(f"{what} of a real column without granularity", "declare its bounds and granularity")
    if isinstance(shaped[0].kind, Fixed):
        shaped, _ = _aligned(what, *shaped)
    rest = iter(shaped)
    return [value if isinstance(value.kind, Nothing) else next(rest) for value in values]


def union(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that holds all of these, which are of one kind but for nulls."""
    found = [kind for kind in kinds if not isinstance(kind, Nothing)]
    numbers = [kind for kind in found if isinstance(kind, Fixed)]
    if isinstance(found[0], Text):
        return Text(_all_known([kind.length for kind in found if isinstance(kind, Text)], max))
    if not numbers:
        return found[0]
    lowers, uppers = [kind.lower for kind in numbers], [kind.upper for kind in numbers]
    return Fixed(numbers[0].step, _all_known(lowers, min), _all_known(uppers, max))


def _like(one: Expression, other: Expression) -> Expression:
    """A constant read as the kind of what it stands beside: '2024-01-01' beside a date is a date."""
    if not isinstance(one, Constant):
        return one
    match one.value, other.kind:
        case str(written), Day():
            return constant(iso(date, written))
        case str(written), Moment():
            return constant(iso(datetime, written))
        case date() as day, Moment() if not isinstance(day, datetime):
            return constant(datetime(day.year, day.month, day.day))
        case _:
            return one


def iso(kind: type[date], written: str) -> date:
    """A date or time from its ISO text."""
    try:
        value = kind.fromisoformat(written.strip())
    except ValueError:
        raise Unfit(f"the text {written!r} beside a date", "write dates as '2024-12-31'") from None
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise Unfit("a time with a zone", "write it without a zone")
    return value


def _expect(one: Expression, kind: object, what: str) -> None:
    if not isinstance(one.kind, kind):  # type: ignore[arg-type]
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")
