"""Operations that give true or false, the choices made by them, and values that meet: in a common step, of one kind."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction
from math import ceil, floor

from discreet.exact import plain
from discreet.sql.algebra.expression import Call, Constant, Domain, Expression, Scalar, call, constant
from discreet.sql.algebra.kinds import (
    MOST,
    Day,
    Fixed,
    Kind,
    Moment,
    Nothing,
    Real,
    Text,
    Truth,
    Unsupported,
    common_step,
)


def compare(operation: str, left: Expression, right: Expression) -> Expression:
    """equal, differ, less, less_equal, greater, greater_equal: of two numbers, texts, dates, times or truth values."""
    if isinstance(left, Constant) and not isinstance(right, Constant):
        return compare(_FLIPPED.get(operation, operation), right, left)
    left, right = beside(left, right), beside(right, left)
    match left.kind, right.kind:
        case (Nothing(), _) | (_, Nothing()):
            raise Unsupported("a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        case Fixed(), Fixed() if isinstance(right, Constant):
            return _against(operation, left, right)
        case Fixed(), Fixed():
            (left, right), _ = in_common_step(operation, left, right)
        case (Real(), Fixed()) if isinstance(right, Constant):
            pass
        case Day(), Moment() if isinstance(right, Constant) and isinstance(right.value, datetime):
            return _day_against(operation, left, right.value)
        case (a, b) if type(a) is type(b) and not isinstance(a, Fixed):
            pass
        case _:
            raise Unsupported(f"a comparison of {left.kind} with {right.kind}", "compare values of one kind")
    return call(operation, left, right, kind=Truth())


def among(argument: Expression, values: Sequence[Expression]) -> Expression:
    """one IN (constants)."""
    if not all(isinstance(value, Constant) and value.value is not None for value in values):
        raise Unsupported("IN with something that is not a constant", "list constants, without NULL")
    kept: list[Constant] = []
    for value in values:
        test = compare("equal", argument, value)
        if isinstance(test, Call) and test.operation == "equal" and isinstance(test.arguments[1], Constant):
            kept.append(test.arguments[1])
    if not kept:  # numbers between the steps only
        return compare("equal", argument, values[0])
    return call("in", argument, *kept, kind=Truth())


def both(*parts: Expression) -> Expression:
    """AND."""
    return _joined("and", parts)


def either(*parts: Expression) -> Expression:
    """OR."""
    return _joined("or", parts)


def opposite(value: Expression) -> Expression:
    """NOT."""
    return call("not", condition(value), kind=Truth())


def is_null(value: Expression) -> Expression:
    """IS NULL."""
    return call("is_null", value, kind=Truth(), nullable=False)


def condition(value: Expression) -> Expression:
    """An expression that is true or false."""
    if not isinstance(value.kind, Truth | Nothing):
        raise Unsupported(f"a condition made of {value.kind}", "write a comparison, such as x > 0")
    return value


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """CASE WHEN … THEN … ELSE … END; its values are known where all branches are constants."""
    values = of_one_kind([*(value for _, value in branches), otherwise], "CASE")
    kind = union(_kinds(values))
    domain = None
    if all(isinstance(value, Constant) for value in values):
        domain = _distinct([value.value for value in values if isinstance(value, Constant)])
    parts = [part for (when, _), value in zip(branches, values, strict=False) for part in (condition(when), value)]
    nullable = any(value.nullable for value in values)
    return call("case", *parts, values[-1], kind=kind, nullable=nullable, domain=domain)


def coalesce(arguments: Sequence[Expression]) -> Expression:
    """The first that is not null."""
    values = of_one_kind(arguments, "COALESCE")
    kind, nullable = union(_kinds(values)), all(value.nullable for value in values)
    domains = [value.domain for value in values]
    domain = None
    if isinstance(kind, Text) and all(known is not None for known in domains):
        domain = _distinct([scalar for known in domains for scalar in known or ()])
    return call("coalesce", *values, kind=kind, nullable=nullable, domain=domain)


_FLIPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def _against(operation: str, value: Expression, limit: Constant) -> Expression:
    """A number against a constant that may lie between its steps."""
    exact = (limit.number or Fraction(0)) / step_of(value)
    between = exact.denominator != 1
    if between and operation in ("equal", "differ"):
        return _never_equal(operation, value)
    steps = ceil(exact) if operation in ("less", "greater_equal") else floor(exact)
    steps = max(-MOST + 1, min(MOST - 1, steps))
    kind = Fixed(step_of(value), steps, steps)
    return call(operation, value, Constant(steps, kind), kind=Truth())


def _day_against(operation: str, value: Expression, limit: datetime) -> Expression:
    """A date, which is the first moment of its day, against a time that is written in the statement."""
    day = constant(date(limit.year, limit.month, limit.day))
    if limit == datetime(limit.year, limit.month, limit.day):
        return call(operation, value, day, kind=Truth())
    if operation in ("equal", "differ"):
        return _never_equal(operation, value)
    return call("less_equal" if operation in ("less", "less_equal") else "greater", value, day, kind=Truth())


def _never_equal(operation: str, value: Expression) -> Expression:
    """A value compared with one that it cannot be: the same verdict for all values but NULL."""
    return case([(is_null(value), constant(None))], constant(operation == "differ"))


def _joined(operation: str, parts: Sequence[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Call) and part.operation == operation
        flat += part.arguments if same and isinstance(part, Call) else [condition(part)]
    return flat[0] if len(flat) == 1 else call(operation, *flat, kind=Truth())


def _distinct(values: list[Scalar]) -> Domain:
    return tuple(dict.fromkeys(value for value in values if value is not None))


WHOLE = Fraction(1)
"""The step of whole numbers."""

_NO_BOUNDS = (
    "declare bounds in the policy, or clamp it yourself: LEAST(GREATEST(x, low), high), where a null becomes low"
)


def in_common_step(sign: str, *arguments: Expression) -> tuple[list[Expression], Fraction]:
    """The same numbers in their common step, and that step."""
    step = Fraction(0)
    for value in arguments:
        if not isinstance(value.kind, Fixed):
            raise Unsupported(f"{sign} of {value.kind}", "use numbers with bounds and granularity")
        step = common_step(step, value.kind.step) if step else value.kind.step
    return [in_steps(value, step) for value in arguments], step


def in_steps(value: Expression, step: Fraction) -> Expression:
    """The same number as a whole number of finer steps."""
    if not isinstance(value.kind, Fixed) or value.kind.step == step:
        return value
    times = value.kind.step / step
    if isinstance(value, Constant) and isinstance(value.value, int):
        steps = int(value.value * times)
        if abs(steps) >= MOST:
            raise Unsupported(
                f"the number {value} beside steps as fine as {plain(step)}", "use a smaller number or a coarser step"
            )
        return Constant(steps, Fixed(step, steps, steps))
    if not value.kind.bounded:
        raise Unsupported("a number without bounds compared with a fraction", _NO_BOUNDS)
    a, b = range_of("·", value)
    return call("times", value, constant(int(times)), kind=Fixed(step, int(a * times), int(b * times)))


def of_one_kind(values: Sequence[Expression], what: str) -> list[Expression]:
    """Values of one kind: numbers in one step; NULL fits all."""
    concrete = [value for value in values if not isinstance(value.kind, Nothing)]
    if not concrete:
        raise Unsupported(f"{what} with nothing but NULL", "give it a value")
    shaped = [beside(value, concrete[0]) for value in concrete]
    if len({type(value.kind) for value in shaped}) > 1:
        kinds = ", ".join(sorted({str(value.kind) for value in shaped}))
        raise Unsupported(f"{what} with values of several kinds ({kinds})", "give all of them one kind")
    if isinstance(shaped[0].kind, Real):
        raise Unsupported(f"{what} of a real column without granularity", "declare its bounds and granularity")
    if isinstance(shaped[0].kind, Fixed):
        shaped, _ = in_common_step(what, *shaped)
    rest = iter(shaped)
    return [value if isinstance(value.kind, Nothing) else next(rest) for value in values]


def union(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that holds all of these, which are of one kind but for nulls."""
    results = [kind for kind in kinds if not isinstance(kind, Nothing)]
    numbers = [kind for kind in results if isinstance(kind, Fixed)]
    if isinstance(results[0], Text):
        return Text(max(kind.length for kind in results if isinstance(kind, Text)))
    if not numbers:
        return _all_dates(results)
    lowers, uppers = [kind.lower for kind in numbers], [kind.upper for kind in numbers]
    return Fixed(numbers[0].step, all_known(lowers, min), all_known(uppers, max))


def _kinds(values: Sequence[Expression]) -> list[Kind]:
    """Their kinds; a date that is written in the statement is its own bound beside dates that have bounds."""
    kinds = [value.kind for value in values]
    if not any(isinstance(kind, Day | Moment) and kind.lower for kind in kinds):
        return kinds
    written = [value.value if isinstance(value, Constant) else None for value in values]
    return [
        type(kind)(day, day) if isinstance(kind, Day | Moment) and day else kind  # type: ignore[arg-type]
        for kind, day in zip(kinds, written, strict=True)
    ]


def _all_dates(kinds: Sequence[Kind]) -> Kind:
    """Dates or times from the first of all bounds to the last, where all are known; other kinds are alike anyway."""
    days = [kind for kind in kinds if isinstance(kind, Day)]
    times = [kind for kind in kinds if isinstance(kind, Moment)]
    if days:
        first, last = [kind.lower for kind in days if kind.lower], [kind.upper for kind in days if kind.upper]
        return Day(min(first), max(last)) if len(first) == len(last) == len(kinds) else Day()
    if times:
        begins, ends = [kind.lower for kind in times if kind.lower], [kind.upper for kind in times if kind.upper]
        return Moment(min(begins), max(ends)) if len(begins) == len(ends) == len(kinds) else Moment()
    return kinds[0]


def beside(left: Expression, right: Expression) -> Expression:
    """A constant read as the kind of what it stands beside: '2024-01-01' beside a date is a date."""
    if not isinstance(left, Constant):
        return left
    match left.value, right.kind:
        case str(written), Day():
            return constant(iso(date, written))
        case str(written), Moment():
            return constant(iso(datetime, written))
        case date() as day, Moment() if not isinstance(day, datetime):
            return constant(datetime(day.year, day.month, day.day))
        case _:
            return left


def range_of(sign: str, value: Expression) -> tuple[int, int]:
    """The least and the most steps that a number can be; `sign` names the operation that needs to know."""
    match value.kind:
        case Fixed(_, int(lower), int(upper)):
            return lower, upper
        case Fixed():
            raise Unsupported(f"{sign} of a number without bounds", _NO_BOUNDS)
        case Real():
            raise Unsupported(f"{sign} of a real column without bounds and granularity", "declare them in the policy")
        case other:
            raise Unsupported(f"{sign} of {other}", "use numbers")


def step_of(value: Expression) -> Fraction:
    """The step of a number."""
    if not isinstance(value.kind, Fixed):
        raise Unsupported(f"arithmetic with {value.kind}", "use numbers")
    return value.kind.step


def all_known(ends: list[int | None], choose: Callable[[list[int]], int]) -> int | None:
    """The chosen one of several ends, or None where one of them is not known."""
    known = [end for end in ends if end is not None]
    return choose(known) if len(known) == len(ends) else None


def iso(kind: type[date], written: str) -> date:
    """A date or time from its ISO text, in UTC; a time where a date is wanted is its day, as in other databases."""
    try:
        value = datetime.fromisoformat(written.strip())
    except ValueError:
        raise Unsupported(f"the text {written!r} beside a date", "write dates as '2024-12-31'") from None
    if value.utcoffset():
        hint = "write it in UTC, as '2024-12-31 23:30:00' or '2024-12-31T23:30:00Z'"
        raise Unsupported("a time with a zone other than UTC", hint)
    return value.replace(tzinfo=None) if kind is datetime else value.date()
