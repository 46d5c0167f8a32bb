"""Operations on text. Columns are cut as they are read, so all texts have a length that is known before."""

from discreet.curator.catalog import TEXT
from discreet.sql.expression import Constant, Expression, Unfit, call
from discreet.sql.kinds import Fixed, Text, Truth
from discreet.sql.operations.alignment import WHOLE

PATTERN = 100
"""The most characters that a pattern of LIKE has."""

LONGER = 3
"""How many times longer a text can become in other letter cases."""


def text(operation: str, one: Expression) -> Expression:
    """lower, upper or trim."""
    size = _length(operation.upper(), one)
    return call(operation, one, kind=Text(LONGER * size))


def length(one: Expression) -> Expression:
    """The number of characters."""
    size = _length("LENGTH", one)
    return call("length", one, kind=Fixed(WHOLE, 0, size))


def substring(one: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    most = _length("SUBSTRING", one)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unfit(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", one, start, size, kind=Text(min(most, kept)))


def like(operation: str, one: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    _length(operation.upper(), one)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unfit(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > PATTERN:
        raise Unfit(f"{operation.upper()} with a pattern this long", f"use at most {PATTERN} characters")
    return call(operation, one, pattern, kind=Truth())


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    size = sum(_length("||", one) for one in arguments)
    if size > 10 * TEXT:
        raise Unfit("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *arguments, kind=Text(size))


def _length(what: str, one: Expression) -> int:
    """The most characters that a text has."""
    if not isinstance(one.kind, Text):
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")
    return one.kind.length
