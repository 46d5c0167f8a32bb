"""The analyst's text: parsed once, and pointed at when it is refused.

Terms inside the text: SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = …, …) …, as BigQuery writes them.

The clause is taken off before the text is parsed, and blanks take its place, so that refusals still point right.
"""

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NoReturn

import sqlglot
from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.errors import ParseError, TokenError

from discreet.errors import InvalidParameter, InvalidQuery

DIALECT = "duckdb"
logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # what it has to say, we say
_LONGEST = 50_000
_DEEPEST = 200
_LONGEST_SHOWN = 300


class Statement:
    """One statement of the analyst: its text and its tree. `columns` are names that a refusal may speak of."""

    def __init__(self, text: str, columns: Collection[str] = ()) -> None:
        self.text = text
        self.tree = _parsed(_without_clause(text), columns)

    def refuse(self, node: Any, problem: str, hint: str = "") -> NoReturn:
        """Raise `InvalidQuery`, pointing at the part of the text that a node came from."""
        raise InvalidQuery(problem, hint, text=self.text, start=start_of(node)) from None

    def called(self, node: Any) -> str:
        """A function as the analyst called it: BOOL_OR, where the parser has another name for it."""
        start = node.meta.get("start") if isinstance(node, exp.Expr) else None
        before = self.text[: start_of(node) or 0]
        result = _CALLED.search(before) if start is None else _CALL.match(self.text, start)
        known = isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous)
        return (result[1] if result else node.sql_name() if known else node.name or node.key).upper()

    def two_questions(self, query: exp.Query, *, correlated: bool = False) -> str:
        """How to ask for what a query inside this statement gives, first, and then to write its answer there."""
        if correlated or _is_correlated(query):
            step = "JOIN (SELECT unit, AVG(x) AS a FROM t GROUP BY unit) AS s USING (unit) WHERE x > a"
            return f"a value of each person is a step of its own: {step}"
        first, rest = query.copy(), self.tree.copy()
        first.set("with_", self.tree.args.get("with_"))
        if not any(part.alias == table.name for part in _named(self.tree) for table in query.find_all(exp.Table)):
            first.set("with_", query.args.get("with_"))
        same = [part for part in rest.find_all(exp.Query) if part == query]
        for part in same:
            outer = part.parent if isinstance(part.parent, exp.Subquery) else part
            outer.replace(exp.Var(this="(…)" if isinstance(outer.parent, exp.In) else "…"))
        texts = [part.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE) for part in (first, rest)]
        if not same or max(map(len, texts)) > _LONGEST_SHOWN:
            return "ask it as a question of its own, and write its answer here"
        return f"ask two questions: {texts[0]}; and then, with its answer in place of …: {texts[1]}"


_CALL = re.compile(r"(\w+)\s*\(")
_CALLED = re.compile(r"(\w+)\s*\(\s*(?:DISTINCT\s+)?$", re.IGNORECASE)
"""The name of a function where it is called, and just before its first argument."""


def _named(tree: exp.Expr) -> list[Any]:
    """What WITH names at the top of a statement."""
    clause = tree.args.get("with_")
    return [] if clause is None else list(clause.expressions)


def _is_correlated(query: exp.Query) -> bool:
    """Whether a query speaks of a table by a name that it does not read itself."""
    known = {table.alias_or_name.casefold() for table in query.find_all(exp.Table, exp.Subquery)}
    return any(column.table and column.table.casefold() not in known for column in query.find_all(exp.Column))


def _without_clause(text: str) -> str:
    """The text without terms that it states itself."""
    if not isinstance(text, str) or "differential_privacy" not in text.casefold():
        return text

    return without_options(text)[0]


def start_of(node: Any) -> int | None:
    """Where a node begins in the text, if the parser said so for it, for something in it, or around it."""
    while isinstance(node, exp.Expr):
        starts: list[int] = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        if starts:
            return min(starts)
        node = node.parent
    return None


def _parsed(text: str, columns: Collection[str]) -> exp.Query:
    if not isinstance(text, str):
        raise InvalidParameter("statement", text, "SQL as text")
    if len(text) > _LONGEST or "\0" in text or not _writable(text):
        expected = f"at most {_LONGEST} characters that UTF-8 can hold, none of them NUL"
        raise InvalidParameter("statement", f"{len(text)} characters", expected)
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except ParseError as error:
        raise _unreadable(text, error, columns) from None
    except TokenError:
        raise InvalidQuery("this text cannot be read as SQL", "is a quote or comment left open?") from None
    except RecursionError:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels") from None
    except _CALLED_WRONGLY:
        raise _wrong_call() from None
    if len(trees) != 1:
        raise InvalidQuery(
            f"got {len(trees)} statements, expected one", "ask one at a time, or several together as a batch"
        )
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        first = sqlglot.tokenize(text, read=DIALECT)[0].text.upper()
        raise InvalidQuery(f"got {first[:40]}, expected SELECT", "private data can only be queried")
    if _depth(tree) > _DEEPEST:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels")
    try:
        tree.sql(dialect=DIALECT, unsupported_level=ErrorLevel.IGNORE)  # as parts of it are, in refusals and later
    except _CALLED_WRONGLY:
        raise _wrong_call() from None
    return tree


_CALLED_WRONGLY = (ParseError, AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What the parser raises on reading or writing a function that is called with other arguments than it has."""


def _wrong_call() -> InvalidQuery:
    problem = "a function is called with too few arguments, or with arguments of another kind than it has"
    return InvalidQuery(problem, "write its arguments as the engine has them")


def _writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _depth(tree: exp.Expr) -> int:
    """How deep a tree is, without recursion."""
    deepest, level = 0, [tree]
    while level and deepest <= _DEEPEST:
        deepest += 1
        level = [child for node in level for child in node.iter_expressions()]
    return deepest


_PLAIN = re.compile(r"Expect(ed|ing) [A-Z()\[\]{}]+( after [A-Z]+)?")
"""What the parser says in words of SQL; all else that it says is about itself."""


_NEAR = 5
"""So many words before the place where a text cannot be read may be what made it so."""


def _unreadable(text: str, error: ParseError, columns: Collection[str]) -> InvalidQuery:
    """Say where a text stops being SQL, without the parser's own words."""
    first = error.errors[0] if error.errors else {}
    line, column, word = first.get("line"), first.get("col"), str(first.get("highlight") or "")
    start = None
    if isinstance(line, int) and isinstance(column, int):
        before = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
        start = min(max(0, before + column - len(word)), max(0, len(text) - 1))
    description = str(first.get("description") or "")
    problem = f"not SQL: {description}" if _PLAIN.fullmatch(description) else "not SQL"
    if not str(first.get("end_context") or "").strip():
        problem += " at the end of the text"
    elif word:
        problem += f" at {word[:40]!r}"
    return InvalidQuery(problem, _quoting(text, start, columns), text=text, start=start)


def _quoting(text: str, start: int | None, columns: Collection[str]) -> str:
    """What to do about names: a column that is a word of SQL, at the place or just before it, is probably meant."""
    known = {name.casefold() for name in columns}
    before = [token for token in sqlglot.tokenize(text, read=DIALECT) if start is None or token.start <= start]
    for token in reversed(before[-_NEAR:]):
        plain = token.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.STRING)
        if not plain and token.text.casefold() in known:
            return f'"{token.text}" is a word of SQL: where it is a column, write it in double quotes'
    return "put names that are words of SQL, or that contain spaces or symbols, in double quotes"


# GROUP BY with several sets of keys

MOST_SETS = 64


def has_sets(clause: exp.Group) -> bool:
    """Whether a GROUP BY names more than one set of keys."""
    return any(isinstance(part, exp.Rollup | exp.Cube | exp.GroupingSets) for part in clause.expressions)


def grouping_sets(statement: Statement, clause: exp.Group) -> list[list[Any]]:
    """The sets of keys that a GROUP BY asks for, in the order of the text: what stands side by side is combined."""
    factors = [_sets(part) for part in clause.expressions]
    count = 1
    for factor in factors:
        count *= len(factor)
    if count > MOST_SETS:
        statement.refuse(clause, f"GROUP BY of {count} sets of keys", f"ask for at most {MOST_SETS}")
    return [[key for some in chosen for key in some] for chosen in product(*factors)]


def _sets(part: Any) -> list[list[Any]]:
    match part:
        case exp.Rollup():
            keys = [_keys(key) for key in part.expressions]
            return [[key for some in keys[:end] for key in some] for end in range(len(keys), -1, -1)]
        case exp.Cube():
            keys = [_keys(key) for key in part.expressions]
            sizes = range(len(keys), -1, -1)
            return [[key for some in chosen for key in some] for size in sizes for chosen in combinations(keys, size)]
        case exp.GroupingSets():
            return [each for inner in part.expressions for each in _sets(inner)]
        case _:
            return [_keys(part)]


def _keys(part: Any) -> list[Any]:
    """One key, or several in parentheses."""
    match part:
        case exp.Tuple():
            return list(part.expressions)
        case exp.Paren():
            return [part.this]
        case _:
            return [part]


_CLAUSE = "DIFFERENTIAL_PRIVACY"
_DIALECT = "duckdb"

OPTIONS = {
    "epsilon": "epsilon",
    "delta": "delta",
    "max_groups_contributed": "groups",
    "max_rows_contributed": "rows",
    "confidence": "confidence",
    "error": "error",
    "weights": "weights",
}
"""What may be stated in the text, and as which term it counts."""

_WHOLE = ("groups", "rows")
_UNIT = "privacy_unit_column"
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6})?")
_LONGEST_LIST = 3000


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


def weights_of(written: str) -> tuple[Fraction, ...]:
    """The weights of aggregates, as they are written: '3, 1'.

    >>> weights_of("3, 0.5")
    (Fraction(3, 1), Fraction(1, 2))
    """
    hint = "one number above 0 for each aggregate, in their order: weights = '3, 1'"
    parts = [part.strip() for part in written.split(",")]
    if len(written) > _LONGEST_LIST or not all(_NUMBER.fullmatch(part) and Fraction(part) for part in parts):
        raise InvalidQuery(f"weights {written[:50]!r}", hint)
    return tuple(map(Fraction, parts))


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
