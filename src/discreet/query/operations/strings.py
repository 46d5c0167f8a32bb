"""Operations on text. All of them see texts of bounded length, so that no row can be made slow by a long one."""

from discreet.query.expression import Constant, Expression, Unfit, call, constant
from discreet.query.kinds import TEXT, Fixed, Text, Truth
from discreet.query.operations.alignment import WHOLE

_PATTERN = 100


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
