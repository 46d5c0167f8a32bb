"""Operations that give true or false, and the choices made by them: CASE and COALESCE."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

from discreet.sql.expression import Call, Constant, Domain, Expression, Scalar, Unfit, call, constant
from discreet.sql.kinds import MOST, Fixed, Nothing, Real, Text, Truth
from discreet.sql.operations.alignment import beside, in_common_step, step_of, unified, union


def compare(operation: str, one: Expression, other: Expression) -> Expression:
    """equal, differ, less, less_equal, greater, greater_equal: of two numbers, texts, dates, times or truth values."""
    if isinstance(one, Constant) and not isinstance(other, Constant):
        return compare(_FLIPPED.get(operation, operation), other, one)
    one, other = beside(one, other), beside(other, one)
    match one.kind, other.kind:
        case (Nothing(), _) | (_, Nothing()):
            raise Unfit("a comparison with NULL is never true", "write IS NULL or IS NOT NULL")
        case Fixed(), Fixed() if isinstance(other, Constant):
            return _against(operation, one, other)
        case Fixed(), Fixed():
            (one, other), _ = in_common_step(operation, one, other)
        case (Real(), Fixed()) if isinstance(other, Constant):
            pass
        case (a, b) if type(a) is type(b) and not isinstance(a, Fixed):
            pass
        case _:
            raise Unfit(f"a comparison of {one.kind} with {other.kind}", "compare values of one kind")
    return call(operation, one, other, kind=Truth())


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


def case(branches: Sequence[tuple[Expression, Expression]], otherwise: Expression) -> Expression:
    """CASE WHEN … THEN … ELSE … END; its values are known where all branches are constants."""
    values = unified([*(value for _, value in branches), otherwise], "CASE")
    kind = union([value.kind for value in values])
    domain = None
    if all(isinstance(value, Constant) for value in values):
        domain = _distinct([value.value for value in values if isinstance(value, Constant)])
    parts = [part for (when, _), value in zip(branches, values, strict=False) for part in (condition(when), value)]
    nullable = any(value.nullable for value in values)
    return call("case", *parts, values[-1], kind=kind, nullable=nullable, domain=domain)


def coalesce(arguments: Sequence[Expression]) -> Expression:
    """The first that is not null."""
    values = unified(arguments, "COALESCE")
    kind, nullable = union([value.kind for value in values]), all(value.nullable for value in values)
    domains = [value.domain for value in values]
    domain = None
    if isinstance(kind, Text) and all(known is not None for known in domains):
        domain = _distinct([scalar for known in domains for scalar in known or ()])
    return call("coalesce", *values, kind=kind, nullable=nullable, domain=domain)


_FLIPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def _against(operation: str, one: Expression, limit: Constant) -> Expression:
    """A number against a constant that may lie between its steps."""
    exact = (limit.number or Fraction(0)) / step_of(one)
    between = exact.denominator != 1
    if between and operation in ("equal", "differ"):
        never = call("is_null", one, kind=Truth(), nullable=False)  # true where null …
        verdict = constant(operation == "differ")
        return case([(never, constant(None))], verdict)
    steps = ceil(exact) if operation in ("less", "greater_equal") else floor(exact)
    steps = max(-MOST + 1, min(MOST - 1, steps))
    kind = Fixed(step_of(one), steps, steps)
    return call(operation, one, Constant(steps, kind), kind=Truth())


def _joined(operation: str, parts: Sequence[Expression]) -> Expression:
    flat: list[Expression] = []
    for part in parts:
        same = isinstance(part, Call) and part.operation == operation
        flat += part.arguments if same and isinstance(part, Call) else [condition(part)]
    return flat[0] if len(flat) == 1 else call(operation, *flat, kind=Truth())


def _distinct(values: list[Scalar]) -> Domain:
    return tuple(dict.fromkeys(value for value in values if value is not None))
