"""Operations on texts, each with the most characters that its values have."""

from datetime import date
from fractions import Fraction

from discreet.curator.catalog import TEXT
from discreet.sql.algebra import patterns
from discreet.sql.algebra.conditions import WHOLE
from discreet.sql.algebra.expression import Constant, Domain, Expression, call, constant
from discreet.sql.algebra.kinds import FIRST, LAST, Day, Fixed, Kind, Text, Truth, Unsupported

PATTERN = 100
"""The most characters that a pattern of LIKE has."""

LONGER = 3
"""How many times longer a text can become in other letter cases."""


def changed_text(operation: str, value: Expression) -> Expression:
    """lower, upper or trim."""
    size = _text_length(operation.upper(), value)
    return call(operation, value, kind=Text(LONGER * size))


def length_of_text(value: Expression) -> Expression:
    """The number of characters."""
    size = _text_length("LENGTH", value)
    return call("length", value, kind=Fixed(WHOLE, 0, size))


def substring(value: Expression, start: Expression, size: Expression) -> Expression:
    """`size` characters from the character `start` on, which counts from 1."""
    most = _text_length("SUBSTRING", value)
    for name, part, least in (("start", start, 1), ("length", size, 0)):
        whole = isinstance(part, Constant) and part.number is not None and part.number.denominator == 1
        if not whole or not isinstance(part, Constant) or not least <= (part.number or 0) <= 10**6:
            raise Unsupported(f"SUBSTRING with this {name}", f"a whole number from {least} to 1000000")
    kept = size.value if isinstance(size, Constant) and isinstance(size.value, int) else most
    return call("substring", value, start, size, kind=Text(min(most, kept)))


def like(operation: str, value: Expression, pattern: Expression) -> Expression:
    """LIKE and ILIKE with a constant pattern."""
    _text_length(operation.upper(), value)
    if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
        raise Unsupported(f"{operation.upper()} with a pattern that varies", "write the pattern as text")
    if len(pattern.value) > PATTERN:
        raise Unsupported(f"{operation.upper()} with a pattern this long", f"use at most {PATTERN} characters")
    return call(operation, value, pattern, kind=Truth())


def concatenate(*arguments: Expression) -> Expression:
    """One text after the other."""
    size = sum(_text_length("||", value) for value in arguments)
    if size > 10 * TEXT:
        raise Unsupported("a text that can grow so long", "put fewer, or shorter, texts together")
    return call("concatenate", *arguments, kind=Text(size))


def _text_length(what: str, value: Expression) -> int:
    """The most characters that a text has."""
    if not isinstance(value.kind, Text):
        raise Unsupported(f"{what} of {value.kind}", "use a column of the right kind")
    return value.kind.length


def matches(value: Expression, pattern: Expression) -> Expression:
    """REGEXP_MATCHES with a constant pattern that needs few states (`patterns`)."""
    _text_length("REGEXP_MATCHES", value)
    patterns.automaton(_written("REGEXP_MATCHES", "pattern", pattern))
    return call("matches", value, pattern, kind=Truth())


def split_part(value: Expression, separator: Expression, place: Expression) -> Expression:
    """The part of a text between separators, counted from 1; empty where there are fewer."""
    size = _text_length("SPLIT_PART", value)
    if not _written("SPLIT_PART", "separator", separator):
        raise Unsupported("SPLIT_PART with an empty separator", "write what separates the parts")
    number = place.number if isinstance(place, Constant) else None
    if number is None or number.denominator != 1 or not 1 <= number <= TEXT:
        raise Unsupported("SPLIT_PART with this place", f"a whole number from 1 to {TEXT}")
    return call("split_part", value, separator, place, kind=Text(size))


def replace_text(value: Expression, old: Expression, new: Expression) -> Expression:
    """REPLACE of one constant text by another."""
    size = _text_length("REPLACE", value)
    before, after = _written("REPLACE", "text to look for", old), _written("REPLACE", "replacement", new)
    if not before:
        raise Unsupported("REPLACE of an empty text", "write what is to be replaced")
    longest = size + size // len(before) * max(0, len(after) - len(before))
    if longest > 10 * TEXT:
        raise Unsupported("a text that can grow so long", "put shorter texts in")
    return call("replace", value, old, new, kind=Text(longest))


def _written(what: str, part: str, value: Expression) -> str:
    if not isinstance(value, Constant) or not isinstance(value.value, str):
        raise Unsupported(f"{what} with a {part} that varies", f"write the {part} as text")
    if len(value.value) > PATTERN:
        raise Unsupported(f"{what} with a {part} this long", f"use at most {PATTERN} characters")
    return value.value


# Casts

_TYPES = {"TINYINT": 2**7, "SMALLINT": 2**15, "INTEGER": 2**31}
_LISTED = 20_000
_DIGITS = 18


def parsed_number(value: Expression, type_: str, digits: int = 0, decimals: int = 0) -> Expression:
    """The number that a text is in an integer type or DECIMAL(digits, decimals); null where it is none."""
    _text_length("CAST", value)
    kind: Kind
    if type_ == "DECIMAL":
        if not 1 <= digits <= _DIGITS or not 0 <= decimals <= digits:
            raise Unsupported(f"CAST to DECIMAL({digits}, {decimals})", f"use at most {_DIGITS} digits in all")
        kind = Fixed(Fraction(1, 10**decimals), 1 - 10**digits, 10**digits - 1)
    elif type_ in _TYPES:
        kind = Fixed(WHOLE, -_TYPES[type_], _TYPES[type_] - 1)
    elif type_ == "BIGINT":
        kind = Fixed(WHOLE, None, None)
    else:
        raise Unsupported(f"CAST of text to {type_}", "cast it to DECIMAL(18, 6), which is exact, or to INTEGER")
    parts = (constant(type_), constant(digits), constant(decimals))
    return call("parsed_number", value, *parts, kind=kind, nullable=True)


def parsed_date(value: Expression) -> Expression:
    """The date that a text is; null where it is none, and outside the years 1 to 9999."""
    _text_length("CAST", value)
    return call("parsed_date", value, kind=Day(FIRST, LAST), nullable=True)


def text_of(value: Expression) -> Expression:
    """A whole number, a date or a truth value as text."""
    size = 20
    match value.kind:
        case Text():
            return value
        case Fixed(step, lower, upper) if step == 1:
            if lower is not None and upper is not None:
                size = max(len(str(lower)), len(str(upper)))
        case Day() | Truth():
            size = 10 if isinstance(value.kind, Day) else 5
        case other:
            raise Unsupported(f"CAST of {other} to text", "cast whole numbers, dates or truth values")
    return call("text_of", value, kind=Text(size), domain=_texts(value.domain))


def _texts(domain: Domain | None) -> Domain | None:
    if domain is None or len(domain) > _LISTED:
        return None
    return tuple(_text(value) for value in domain)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)
