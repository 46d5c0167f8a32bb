"""Kinds, nulls and values of expressions, derived a second time for the gate."""

from collections.abc import Callable, Sequence
from functools import partial

from discreet.errors import InternalError
from discreet.sql.algebra import curves, dates, functions, texts
from discreet.sql.algebra.conditions import WHOLE, case, coalesce
from discreet.sql.algebra.expression import Call, Constant, Domain, Expression, all_of
from discreet.sql.algebra.kinds import Fixed, Kind, Moment, Text, Truth, Unsupported


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
        kind, nullable, domain = derived_again(value)
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


def derived_again(value: Call) -> tuple[Kind | None, bool, Domain | None]:
    """Kind, whether it can be null, and all values, from the operation and its arguments alone."""
    parts = value.arguments
    match value.operation:
        case "case":
            node = case(list(zip(parts[:-1:2], parts[1:-1:2], strict=True)), parts[-1])
        case "coalesce":
            node = coalesce(parts)
        case "truncate" if isinstance(parts[1], Constant) and isinstance(parts[1].value, str):
            node = dates.truncate_date(parts[1].value, parts[0])
        case name if name in _REBUILT:
            node = _REBUILT[name](parts)
        case "least" | "greatest":
            node = functions.extreme(value.operation == "greatest", parts)
        case name:
            kind = _kind_again(value)
            nullable = name != "is_null" and any(part.nullable for part in parts)
            return kind, nullable, None if kind is None else all_of(kind)
    if isinstance(node, Call) and node.arguments != parts:
        raise InternalError(f"a plan has {value.operation} of what it cannot be of")
    return node.kind, node.nullable, node.domain


def _kind_again(value: Call) -> Kind | None:  # noqa: PLR0911, PLR0912 (one branch an operation)
    parts, kinds = value.arguments, [argument.kind for argument in value.arguments]
    match value.operation, kinds:
        case name, _ if name in _CONDITIONS:
            return Truth()
        case "absolute", _:
            return functions.absolute(parts[0]).kind
        case (("add" | "subtract" | "multiply"), _):
            rules = {"add": functions.add, "subtract": functions.subtract, "multiply": functions.multiply}
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
        case name, _ if name in dates.DATE_PARTS:
            return dates.date_part(name, parts[0]).kind
        case "to_day", [Moment()]:
            return dates.day_of(parts[0]).kind
        case (("lower" | "upper" | "trim"), [Text(length)]):
            return Text(texts.LONGER * length)
        case "substring", [Text(length), _, _]:
            return Text(min(_whole(parts[2]), length))
        case "concatenate", _ if all(isinstance(kind, Text) for kind in kinds):
            return Text(sum(kind.length for kind in kinds if isinstance(kind, Text)))
        case _:
            return None


def _text(value: Expression) -> str:
    return value.value if isinstance(value, Constant) and isinstance(value.value, str) else ""


def _curve(name: str, parts: Sequence[Expression]) -> Expression:
    return curves.curve(name, parts[0])


_REBUILT: dict[str, Callable[[Sequence[Expression]], Expression]] = {
    "day_number": lambda parts: dates.number_of_day(parts[0]),
    "microsecond_number": lambda parts: dates.number_of_moment(parts[0]),
    "day_of_number": lambda parts: dates.day_of_number(parts[0]),
    "moment_of_number": lambda parts: dates.moment_of_number(parts[0]),
    "plus_months": lambda parts: dates.shift(parts[0], _whole(parts[1]), "month"),
    "make_date": lambda parts: dates.make_date(parts[0], parts[1], parts[2]),
    "format_date": lambda parts: dates.format_date(parts[0], parts[1]),
    "sign": lambda parts: functions.sign(parts[0]),
    "square_root": lambda parts: functions.square_root(parts[0]),
    "quotient": lambda parts: functions.divide(parts[0], parts[1]),
    **{name: partial(_curve, name) for name in curves.CURVES},
    "matches": lambda parts: texts.matches(parts[0], parts[1]),
    "split_part": lambda parts: texts.split_part(parts[0], parts[1], parts[2]),
    "replace": lambda parts: texts.replace_text(parts[0], parts[1], parts[2]),
    "parsed_number": lambda parts: texts.parsed_number(parts[0], _text(parts[1]), _whole(parts[2]), _whole(parts[3])),
    "parsed_date": lambda parts: texts.parsed_date(parts[0]),
    "text_of": lambda parts: texts.text_of(parts[0]),
}
"""Operations whose node is made again from its arguments; all of it must be the same."""

_CONDITIONS = frozenset(
    {"equal", "differ", "less", "less_equal", "greater", "greater_equal", "and", "or", "not", "in", "is_null"}
    | {"like", "ilike"}
)
"""Operations that are true or false."""


def _whole(value: Expression) -> int:
    return value.value if isinstance(value, Constant) and isinstance(value.value, int) else 0
