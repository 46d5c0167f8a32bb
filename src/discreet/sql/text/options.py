"""Terms inside the text: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = …, …) …, as BigQuery writes them.

The clause is taken off before the text is parsed, and blanks take its place, so that refusals still point right.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import NoReturn

import sqlglot
from sqlglot import Token, TokenType
from sqlglot.errors import TokenError

from discreet.errors import InvalidQuery

_CLAUSE = "DIFFERENTIAL_PRIVACY"
_DIALECT = "duckdb"

OPTIONS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "max_groups_contributed": "groups",
    "max_rows_contributed": "rows",
    "confidence": "confidence",
    "error": "error",
}
"""What may be stated in the text, and as which term it counts."""

_WHOLE = ("groups", "rows")
_UNIT = "privacy_unit_column"


@dataclass(frozen=True, slots=True)
class Option:
    """A term that a text states, and where."""

    value: str
    start: int


def without_options(text: str) -> tuple[str, dict[str, Option]]:
    """The text with blanks for the clause, and the terms that it states.

    >>> text, options = without_options("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) FROM t")
    >>> text.split(), options["epsilon"].value
    (['SELECT', 'COUNT(*)', 'FROM', 't'], '1')
    """
    if not isinstance(text, str) or _CLAUSE not in text.upper():
        return text, {}
    try:
        tokens = sqlglot.tokenize(text, read=_DIALECT)
    except TokenError:
        return text, {}
    options: dict[str, Option] = {}
    for place in range(len(tokens) - 2):
        words = [token.text.upper() for token in tokens[place : place + 3]]
        if words == ["SELECT", "WITH", _CLAUSE] and tokens[place + 2].token_type is not TokenType.STRING:
            end = _read(text, tokens, place + 3, options)
            first, last = tokens[place + 1].start, tokens[end - 1].end + 1
            text = text[:first] + "".join(c if c == "\n" else " " for c in text[first:last]) + text[last:]
    return text, options


def _read(text: str, tokens: list[Token], place: int, options: dict[str, Option]) -> int:
    """Read OPTIONS (name = value, …) from a place on; where it ends."""
    if place >= len(tokens) or tokens[place].text.upper() != "OPTIONS":
        return place
    place += 1
    if _text(tokens, place) != "(":
        _refuse(text, tokens, place, "OPTIONS without parentheses")
    while _text(tokens, place) != ")":
        sign, value = _text(tokens, place + 2), _text(tokens, place + 3)
        if sign != "=" or not value or value in "(),":
            _refuse(text, tokens, place + 1, "an option that is not name = value")
        _keep(text, tokens, place + 1, options)
        place += 4
        if _text(tokens, place) not in (",", ")"):
            _refuse(text, tokens, place, "an option with more than a number")
    return place + 1


def _keep(text: str, tokens: list[Token], place: int, options: dict[str, Option]) -> None:
    name, value = tokens[place].text.casefold(), tokens[place + 2]
    if name == _UNIT:
        _refuse(text, tokens, place, "the unit is stated by the owner's policy", "leave privacy_unit_column out")
    if name not in OPTIONS:
        _refuse(text, tokens, place, f"the option {name!r} is not known", f"there are: {', '.join(OPTIONS)}")
    term, option = OPTIONS[name], Option(value.text, value.start)
    if value.token_type not in (TokenType.NUMBER, TokenType.STRING) or (
        term in _WHOLE and not (value.text.isascii() and value.text.isdecimal())
    ):
        _refuse(text, tokens, place + 2, f"the option {name} is not a number", f"write {name} = 1")
    if term in options and not same(options[term].value, option.value):
        _refuse(text, tokens, place, f"{name} is stated twice, with different values", "state it once")
    options.setdefault(term, option)


def same(one: object, other: object) -> bool:
    """Whether two terms are the same number, however they are written."""
    try:
        return Fraction(str(one)) == Fraction(str(other))
    except (ValueError, ZeroDivisionError):
        return str(one) == str(other)


def _text(tokens: list[Token], place: int) -> str:
    return tokens[place].text if place < len(tokens) else ""


def _refuse(text: str, tokens: list[Token], place: int, problem: str, hint: str = "") -> NoReturn:
    start = tokens[min(place, len(tokens) - 1)].start
    hint = hint or "write OPTIONS (epsilon = 1, delta = 1e-6)"
    raise InvalidQuery(problem, hint, text=text, start=start)
