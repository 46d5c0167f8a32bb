"""Ranges and lengths derived again: what the gate asks of a plan before it believes its sensitivity."""

from discreet.errors import InternalError
from discreet.sql.expression import Call, Constant, Expression
from discreet.sql.kinds import Fixed, Kind, Text
from discreet.sql.operations import alignment, arithmetic, dates
from discreet.sql.operations.strings import LONGER


def verify(one: Expression) -> None:
    """Raise `InternalError` unless every operation states the range or length that follows from its arguments.

    Guarantee: what passes, over columns that the catalog has, evaluates to null, to steps within its stated bounds, or
    to a text of at most its stated length.
    """
    if isinstance(one, Constant) and not _holds(one):
        raise InternalError("a plan states a range for a constant that does not hold it")
    if not isinstance(one, Call):
        return
    for argument in one.arguments:
        verify(argument)
    if isinstance(one.kind, Fixed) and _range(one) != one.kind:
        raise InternalError(f"a plan states a range for {one.operation} that it does not have")
    if isinstance(one.kind, Text) and _length(one) != one.kind.length:
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


def _length(one: Call) -> int:
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
            union = alignment.union([*kinds[1:-1:2], kinds[-1]] if one.operation == "case" else kinds)
            return union.length if isinstance(union, Text) else -1
        case _:
            return -1


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
