"""Values that are to meet in one operation: numbers in a common step, values of one kind."""

from collections.abc import Callable, Sequence
from datetime import date, datetime
from fractions import Fraction

from discreet.exact import plain
from discreet.sql.expression import Constant, Expression, Unfit, call, constant
from discreet.sql.kinds import MOST, Day, Fixed, Kind, Moment, Nothing, Real, Text, common_step
from discreet.sql.operations.dates import iso

WHOLE = Fraction(1)
"""The step of whole numbers."""

_NO_BOUNDS = (
    "declare bounds in the policy, or clamp it yourself: LEAST(GREATEST(x, low), high), where a null becomes low"
)


def in_common_step(sign: str, *arguments: Expression) -> tuple[list[Expression], Fraction]:
    """The same numbers in their common step, and that step."""
    step = Fraction(0)
    for one in arguments:
        if not isinstance(one.kind, Fixed):
            raise Unfit(f"{sign} of {one.kind}", "use numbers with bounds and granularity")
        step = common_step(step, one.kind.step) if step else one.kind.step
    return [stepped(one, step) for one in arguments], step


def stepped(one: Expression, step: Fraction) -> Expression:
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
    a, b = ends_of("·", one)
    return call("times", one, constant(int(times)), kind=Fixed(step, int(a * times), int(b * times)))


def unified(values: Sequence[Expression], what: str) -> list[Expression]:
    """Values of one kind: numbers in one step; NULL fits all."""
    concrete = [value for value in values if not isinstance(value.kind, Nothing)]
    if not concrete:
        raise Unfit(f"{what} with nothing but NULL", "give it a value")
    shaped = [beside(value, concrete[0]) for value in concrete]
    if len({type(value.kind) for value in shaped}) > 1:
        kinds = ", ".join(sorted({str(value.kind) for value in shaped}))
        raise Unfit(f"{what} with values of several kinds ({kinds})", "give all of them one kind")
    if isinstance(shaped[0].kind, Real):
        raise Unfit(f"{what} of a real column without granularity", "declare its bounds and granularity")
    if isinstance(shaped[0].kind, Fixed):
        shaped, _ = in_common_step(what, *shaped)
    rest = iter(shaped)
    return [value if isinstance(value.kind, Nothing) else next(rest) for value in values]


def union(kinds: Sequence[Kind]) -> Kind:
    """The narrowest kind that holds all of these, which are of one kind but for nulls."""
    found = [kind for kind in kinds if not isinstance(kind, Nothing)]
    numbers = [kind for kind in found if isinstance(kind, Fixed)]
    if isinstance(found[0], Text):
        return Text(max(kind.length for kind in found if isinstance(kind, Text)))
    if not numbers:
        return found[0]
    lowers, uppers = [kind.lower for kind in numbers], [kind.upper for kind in numbers]
    return Fixed(numbers[0].step, all_known(lowers, min), all_known(uppers, max))


def beside(one: Expression, other: Expression) -> Expression:
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


def ends_of(sign: str, one: Expression) -> tuple[int, int]:
    """The least and the most steps that a number can be; `sign` names the operation that needs to know."""
    match one.kind:
        case Fixed(_, int(lower), int(upper)):
            return lower, upper
        case Fixed():
            raise Unfit(f"{sign} of a number without bounds", _NO_BOUNDS)
        case Real():
            raise Unfit(f"{sign} of a real column without bounds and granularity", "declare them in the policy")
        case other:
            raise Unfit(f"{sign} of {other}", "use numbers")


def step_of(one: Expression) -> Fraction:
    """The step of a number."""
    if not isinstance(one.kind, Fixed):
        raise Unfit(f"arithmetic with {one.kind}", "use numbers")
    return one.kind.step


def all_known(ends: list[int | None], choose: Callable[[list[int]], int]) -> int | None:
    """The chosen one of several ends, or None where one of them is not known."""
    known = [end for end in ends if end is not None]
    return choose(known) if len(known) == len(ends) else None
