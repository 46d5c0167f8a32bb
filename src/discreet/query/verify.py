"""Ranges derived again: what the gate asks of the expressions in a plan before it believes their sensitivity."""

from discreet.errors import InternalError
from discreet.query.expression import Call, Constant, Expression
from discreet.query.kinds import Fixed, Kind, Text
from discreet.query.operations import alignment, arithmetic, dates


def verify(one: Expression) -> None:
    """Raise `InternalError` unless every operation states the range that it has over the ranges of its arguments.

    Guarantee: what passes, over columns that the catalog has, evaluates to null or to steps within its stated bounds.
    """
    if not isinstance(one, Call):
        return
    for argument in one.arguments:
        verify(argument)
    if isinstance(one.kind, Fixed) and _range(one) != one.kind:
        raise InternalError(f"a plan states a range for {one.operation} that it does not have")


def _range(one: Call) -> Kind | None:  # noqa: PLR0911, PLR0912 (one branch an operation)
    parts, kinds = one.arguments, [argument.kind for argument in one.arguments]
    match one.operation, kinds:
        case "absolute", _:
            return arithmetic.absolute(parts[0]).kind
        case (("add" | "subtract" | "multiply"), _):
            rules = {"add": arithmetic.add, "subtract": arithmetic.subtract, "multiply": arithmetic.multiply}
            return rules[one.operation](parts[0], parts[1]).kind
        case "negate", [Fixed(step, int(a), int(b))]:
            return Fixed(step, -b, -a)
        case "same", [Fixed(_, lower, upper)] if isinstance(one.kind, Fixed):
            return Fixed(one.kind.step, lower, upper)
        case "times", [Fixed(step, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(step / by, a * by, b * by)
        case "floor", [Fixed(_, int(a), int(b)), _] if (by := _whole(parts[1])) > 0:
            return Fixed(alignment.WHOLE, a // by, b // by)
        case "modulo", [Fixed(step, int(a), int(b)), _] if a >= 0 and (by := _whole(parts[1])) > 0:
            return Fixed(step, 0, min(b, by - 1))
        case (("least" | "greatest"), _):
            return arithmetic.extreme(one.operation == "greatest", parts).kind
        case "case", _:
            return alignment.union([*kinds[1:-1:2], kinds[-1]])
        case "coalesce", _:
            return alignment.union(kinds)
        case "number", _:
            return Fixed(alignment.WHOLE, 0, 1)
        case "length", [Text(length)]:
            return Fixed(alignment.WHOLE, 0, length)
        case name, _ if name in dates.PARTS:
            return Fixed(alignment.WHOLE, *dates.PARTS[name])
        case _:
            return None


def _whole(one: Expression) -> int:
    return one.value if isinstance(one, Constant) and isinstance(one.value, int) else 0
