"""What a client's text is: settings, transactions, COPY, cursors, EXPLAIN, or a question. Nothing is run here.

A text is cut into statements by its tokens, never by its characters, and each is recognized by its first words.
Parameters are put into the syntax tree as values: no text of a parameter is ever read as SQL.
"""

import datetime as dt
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from itertools import pairwise
from typing import Any

from sqlglot import ErrorLevel, Token, TokenType, exp
from sqlglot.dialects.dialect import rename_func
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.postgres import Postgres
from sqlglot.errors import ParseError, TokenError
from sqlglot.generator import Generator
from sqlglot.generators.duckdb import DuckDBGenerator

from discreet.errors import InvalidParameter, InvalidQuery
from discreet.server.postgres.types import TEXT, parameter


class ClientPostgres(Postgres):
    """PostgreSQL with parameters: `$1,$2` are two of them, and not a text between dollars."""

    class Tokenizer(Postgres.Tokenizer):
        """A dollar begins a parameter."""

        HEREDOC_STRINGS = []  # noqa: RUF012 (sqlglot's form)
        SINGLE_TOKENS = {**Postgres.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012 (sqlglot's form)


class ClientDuckDB(DuckDB):
    """The dialect of questions, with parameters as PostgreSQL's clients write them."""

    class Tokenizer(DuckDB.Tokenizer):
        """A dollar begins a parameter."""

        HEREDOC_STRINGS = []  # noqa: RUF012 (sqlglot's form)
        SINGLE_TOKENS = {**DuckDB.Tokenizer.SINGLE_TOKENS, "$": TokenType.PARAMETER}  # noqa: RUF012 (sqlglot's form)

    class Generator(DuckDBGenerator):
        """What is written is read again as a question: WITHIN GROUP stays as it is."""

        TRANSFORMS = {  # noqa: RUF012 (sqlglot's form)
            **DuckDBGenerator.TRANSFORMS,
            exp.PercentileCont: rename_func("PERCENTILE_CONT"),
            exp.PercentileDisc: rename_func("PERCENTILE_DISC"),
        }

        def withingroup_sql(self, expression: exp.WithinGroup) -> str:
            """Sqlglot's for all dialects, which DuckDB reads as well."""
            return Generator.withingroup_sql(self, expression)


_DIALECTS = {"postgres": ClientPostgres(), "duckdb": ClientDuckDB()}
_POSTGRES = _DIALECTS["postgres"]

_LONGEST = 200_000
_SHORT = 20_000
"""Characters of a text that is remembered: longer ones are read anew, so that what is remembered stays small."""
_MOST = 100
"""Statements in one text."""


@dataclass(frozen=True, slots=True)
class Empty:
    """A text without a statement."""


@dataclass(frozen=True, slots=True)
class Transaction:
    """BEGIN, COMMIT and their like: accepted, since there is nothing to undo. `open` is what holds afterwards."""

    tag: str
    open: bool | None = None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A statement that has no meaning here, and no effect: LISTEN, DISCARD, RESET of what is not kept."""

    tag: str


@dataclass(frozen=True, slots=True)
class SetTo:
    """SET name = value; a value of None is the one that a session starts with."""

    name: str
    value: str | None
    tag: str = "SET"
    local: bool = False
    """SET LOCAL: only until the transaction ends."""


@dataclass(frozen=True, slots=True)
class Reset:
    """RESET ALL, DISCARD ALL: every setting as a session starts with it."""

    tag: str


@dataclass(frozen=True, slots=True)
class Show:
    """SHOW name."""

    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A question, to the tables of the dataset or to the catalog."""

    sql: str


@dataclass(frozen=True, slots=True)
class Explain:
    """What a question would cost."""

    question: Select
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """COPY (question) TO STDOUT."""

    question: Select
    form: str = "text"
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'
    forced: tuple[str, ...] = ()
    """Columns whose values stand in quotes in CSV, whatever they are; `*` is all of them."""


@dataclass(frozen=True, slots=True)
class Declare:
    """DECLARE name CURSOR FOR question."""

    name: str
    question: Select


@dataclass(frozen=True, slots=True)
class Fetch:
    """FETCH of so many rows of a cursor; None is all of them."""

    name: str
    most: int | None


@dataclass(frozen=True, slots=True)
class CloseCursor:
    """CLOSE name, or ALL (None)."""

    name: str | None


@dataclass(frozen=True, slots=True)
class Deallocate:
    """DEALLOCATE name, or ALL (None)."""

    name: str | None


Statement = (
    Empty | Transaction | Accepted | SetTo | Reset | Show | Select | Explain | Copy | Declare | Fetch | CloseCursor
    | Deallocate
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Piece:
    """One statement of a text, where it starts, and how many parameters it names."""

    statement: Statement
    start: int
    parameters: int = field(default=0)


def pieces(text: str) -> tuple[Piece, ...]:
    """The statements of a text, in order.

    >>> [piece.statement for piece in pieces("SET discreet.epsilon = 0.5; BEGIN;")]
    [SetTo(name='discreet.epsilon', value='0.5', tag='SET', local=False), Transaction(tag='BEGIN', open=True)]
    """
    if len(text) > _LONGEST:
        raise InvalidParameter("statement", f"{len(text)} characters", f"at most {_LONGEST}")
    return _remembered(text) if is_short(text) else _cut(text)


def is_short(text: str) -> bool:
    """Whether what is known of a text may be remembered."""
    return len(text) <= _SHORT


def _cut(text: str) -> tuple[Piece, ...]:
    try:
        tokens = _POSTGRES.tokenize(text)
    except TokenError:
        raise InvalidQuery("not SQL", "is a quote or comment left open?") from None
    except RecursionError:
        raise InvalidQuery("not SQL", "write it with fewer levels") from None
    groups: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type is TokenType.SEMICOLON:
            groups.append([])
        else:
            groups[-1].append(token)
    results = [_piece(text, group) for group in groups if group]
    if len(results) > _MOST:
        raise InvalidQuery(f"got {len(results)} statements, expected at most {_MOST}", "send fewer at a time")
    return tuple(results) or (Piece(Empty(), 0),)


_remembered = lru_cache(maxsize=2_000)(_cut)


def _piece(text: str, tokens: list[Token]) -> Piece:
    start = tokens[0].start
    body = text[start : tokens[-1].end + 1]
    numbers = [
        int(after.text[:10])
        for token, after in pairwise(tokens)
        if token.token_type is TokenType.PARAMETER and after.text.isdecimal() and after.start == token.end + 1
    ]
    if any(not 1 <= number <= 65_535 for number in numbers):
        raise InvalidQuery("a parameter with a number that cannot be", "number them from $1 on")
    try:
        statement = _statement(body, _all_tokens(body, tokens[0]))
    except InvalidQuery as error:
        if error.start is None:
            raise
        raise InvalidQuery(error.problem, error.hint, text=text, start=start + error.start) from None
    return Piece(statement, start + _offset(statement, body), max(numbers, default=0))


def _all_tokens(body: str, first: Token) -> list[Token]:
    """The tokens of a statement, those of SHOW, FETCH and their like too, whose rest the tokenizer leaves whole."""
    size = first.end - first.start + 1
    tokens = _POSTGRES.tokenize(body)
    if len(tokens) == 2 and tokens[0].text.isalpha():
        tokens = [tokens[0], *_POSTGRES.tokenize(" " * size + body[size:])]
    return tokens


def _offset(statement: Statement, body: str) -> int:
    question = getattr(statement, "question", None)
    return max(0, body.find(question.sql)) if isinstance(question, Select) else 0


_NEVER_ALONE = ("RESET", "DISCARD", "SHOW", "EXPLAIN", "FETCH", "CLOSE", "DEALLOCATE")


def _statement(body: str, tokens: list[Token]) -> Statement:  # noqa: PLR0911, PLR0912 (one return a kind)
    words = [token.text.upper() for token in tokens[:6]]
    words += [""] * (6 - len(words))
    if len(tokens) == 1 and words[0] in _NEVER_ALONE:
        raise InvalidQuery(f"not SQL: {words[0]} alone", f"write what to {words[0]}", text=body, start=0)
    match words:
        case ["BEGIN", *_] | ["START", "TRANSACTION", *_]:
            return Transaction("BEGIN" if words[0] == "BEGIN" else "START TRANSACTION", open=True)
        case ["COMMIT" | "END", *_]:
            return Transaction("COMMIT", open=False)
        case ["ROLLBACK" | "ABORT", *rest] if "TO" not in rest:
            return Transaction("ROLLBACK", open=False)
        case ["SAVEPOINT" | "RELEASE" | "ROLLBACK" as word, *_]:
            return Transaction(word)
        case ["SET", "SESSION", "CHARACTERISTICS", *_] | ["SET", "TRANSACTION" | "CONSTRAINTS", *_]:
            return Accepted("SET")
        case ["SET", *_]:
            return _set(body, tokens)
        case ["RESET", "ALL", *_]:
            return Reset("RESET")
        case ["RESET", *_]:
            return SetTo(_name(body[5:]), None, "RESET")
        case ["DISCARD", what, *_]:
            return Reset("DISCARD ALL") if what == "ALL" else Accepted(f"DISCARD {what}")
        case ["SHOW", what, *_] if what not in ("TABLES", "COLUMNS") and "TABLES" not in words[:3]:
            return Show(_name(body[4:]))
        case ["EXPLAIN", *_]:
            return _explain(body, tokens)
        case ["COPY", *_]:
            return _copy(body, tokens)
        case ["DECLARE", *_]:
            return _declare(body, tokens)
        case ["FETCH", *_]:
            return _fetch(body, tokens)
        case ["CLOSE", name, *_]:
            return CloseCursor(None if name == "ALL" else _unquoted(tokens[1]))
        case ["DEALLOCATE", *rest]:
            place = 2 if rest[0] == "PREPARE" and len(tokens) > 2 else 1
            return Deallocate(None if words[place] == "ALL" else _unquoted(tokens[place]))
        case ["PREPARE" | "EXECUTE" as word, *_]:
            hint = "prepare by the protocol, as drivers do, or ask with SELECT"
            raise InvalidQuery(f"{word} as SQL is not answered", hint, text=body, start=0)
        case ["LISTEN" | "UNLISTEN" | "NOTIFY" | "CHECKPOINT" as word, *_]:
            return Accepted(word)
        case _:
            return Select(body)


def _words_after(body: str, tokens: list[Token], place: int) -> str:
    return body[tokens[place].start :].strip() if place < len(tokens) else ""


def _name(text: str) -> str:
    """A setting's name: lower case, without quotes; TIME ZONE and the like are written in two words."""
    plain = " ".join(text.replace('"', "").split()).casefold()
    long = {
        "time zone": "timezone",
        "transaction isolation level": "transaction_isolation",
        "session authorization": "session_authorization",
    }
    return long.get(plain, plain)


def _unquoted(token: Token) -> str:
    return token.text if token.token_type is TokenType.IDENTIFIER else token.text.casefold()


_SET = re.compile(r"SET\s+(?:SESSION\s+|LOCAL\s+)?(.+)", re.IGNORECASE | re.DOTALL)
_ZONE = re.compile(r"TIME\s+ZONE\s+(.+)", re.IGNORECASE | re.DOTALL)
_NAMES = re.compile(r"NAMES\s+(.+)", re.IGNORECASE | re.DOTALL)
_VALUE = re.compile(r"([\w.\"]+)\s*(?:=|\bTO\b)\s*(.*)", re.IGNORECASE | re.DOTALL)


def _set(body: str, tokens: list[Token]) -> Statement:
    result = _SET.fullmatch(body)
    rest = result[1].strip() if result else ""
    if zone := _ZONE.fullmatch(rest):
        return SetTo("timezone", _value(zone[1]))
    if names := _NAMES.fullmatch(rest):
        return SetTo("client_encoding", _value(names[1]))
    parts = _VALUE.fullmatch(rest)
    if parts is None:
        if rest.upper().startswith(("ROLE", "SESSION AUTHORIZATION")):
            return Accepted("SET")
        raise InvalidQuery("not SQL: SET without a name and a value", "write SET name = value", text=body, start=0)
    return SetTo(_name(parts[1]), _value(parts[2]), local=tokens[1].text.upper() == "LOCAL")


def _value(text: str) -> str | None:
    plain = text.strip()
    if plain.upper() in ("DEFAULT", "LOCAL"):
        return None
    if len(plain) >= 2 and plain[0] == plain[-1] and plain[0] in "'\"":
        return plain[1:-1].replace(plain[0] * 2, plain[0])
    return plain


def _explain(body: str, tokens: list[Token]) -> Statement:
    place, as_json = 1, False
    words = [token.text.upper() for token in tokens]
    if words[1:2] == ["("]:
        end = words.index(")") if ")" in words else len(words) - 1
        as_json, place = "JSON" in words[2:end], end + 1
        words_inside = words[2:end]
    else:
        words_inside = []
        while words[place : place + 1] and words[place] in ("VERBOSE", "ANALYZE", "ANALYSE"):
            words_inside.append(words[place])
            place += 1
    if "ANALYZE" in words_inside or "ANALYSE" in words_inside:
        hint = "EXPLAIN SELECT … says what a question would cost, for free; ask it without EXPLAIN to have it answered"
        raise InvalidQuery("EXPLAIN ANALYZE would run the question", hint, text=body, start=0)
    return Explain(Select(_words_after(body, tokens, place)), as_json)


_COPY_DEFAULTS: Mapping[str, Mapping[str, str]] = {"csv": {"delimiter": ",", "null": ""}, "text": {}, "binary": {}}


def _copy(body: str, tokens: list[Token]) -> Statement:
    hint = "write COPY (SELECT …) TO STDOUT: what leaves is an answer, and rows of people do not"
    if len(tokens) < 2 or tokens[1].text != "(":
        raise InvalidQuery("COPY of a table", hint, text=body, start=0)
    depth, end = 0, 0
    for token in tokens[1:]:
        end += 1
        depth += {"(": 1, ")": -1}.get(token.text, 0) if token.token_type is not TokenType.STRING else 0
        if depth == 0:
            break
    after = [token.text.upper() for token in tokens[end + 1 :]]
    if depth or after[:2] != ["TO", "STDOUT"]:
        raise InvalidQuery("COPY that is not TO STDOUT", hint, text=body, start=0)
    inside = body[tokens[1].end + 1 : tokens[end].start].strip()
    options, forced = _copy_options(tokens[end + 3 :], body)
    form = options.pop("format", "text").casefold()
    if form not in _COPY_DEFAULTS:
        raise InvalidQuery(f"COPY in the format {form[:20]!r}", "there are text, csv and binary", text=body, start=0)
    stated = dict(_COPY_DEFAULTS[form]) | {name: value for name, value in options.items() if name != "header"}
    stated.setdefault("escape", stated.get("quote", '"'))
    if any(len(stated.get(name, "x").encode()) != 1 for name in ("delimiter", "quote", "escape")):
        raise InvalidQuery("COPY with a delimiter or quote of several characters", "use one", text=body, start=0)
    header = options.get("header", "false").casefold() in ("true", "on", "1", "header", "match")
    return Copy(Select(inside), form, header, **stated, forced=forced)


_COPY_NAMES = ("format", "header", "delimiter", "null", "quote", "escape")


def _copy_options(tokens: Sequence[Token], body: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Options of COPY in parentheses, or as they were written before PostgreSQL 9; columns of FORCE_QUOTE."""
    tokens, forced = _forced(tokens)
    words = [token for token in tokens if token.text.upper() not in ("WITH", "(", ")", ",", "AS", "=")]
    options: dict[str, str] = {}
    place = 0
    while place < len(words):
        name = words[place].text.casefold()
        value = words[place + 1].text if place + 1 < len(words) else ""
        if name in ("csv", "binary", "text") and "format" not in options:
            options["format"], step = name, 1
        elif name == "header" and value.casefold() not in ("true", "false", "on", "off", "1", "0", "match"):
            options["header"], step = "true", 1
        elif name == "encoding" and value.upper().replace("-", "") in ("UTF8", "UNICODE"):
            step = 2
        elif name in _COPY_NAMES:
            options[name], step = value, 2
        else:
            there = ", ".join(_COPY_NAMES)
            raise InvalidQuery(f"COPY with {name[:40]}", f"there are: {there}", text=body, start=words[place].start)
        place += step
    return options, forced


def _forced(tokens: Sequence[Token]) -> tuple[list[Token], tuple[str, ...]]:
    """The options without FORCE_QUOTE, and its columns: `*`, one, or several in parentheses."""
    texts = [token.text.upper() for token in tokens]
    pairs = [place for place in range(len(texts) - 1) if texts[place : place + 2] == ["FORCE", "QUOTE"]]
    first = texts.index("FORCE_QUOTE") if "FORCE_QUOTE" in texts else pairs[0] if pairs else None
    if first is None:
        return list(tokens), ()
    begin = end = first + (2 if texts[first] == "FORCE" else 1)
    while end < len(tokens) and (texts[begin] == "(" or end == begin):
        end += 1
        if texts[end - 1] == ")":
            break
    columns = tuple(_unquoted(token) for token in tokens[begin:end] if token.text not in ("(", ")", ","))
    return [*tokens[:first], *tokens[end:]], columns


def _declare(body: str, tokens: list[Token]) -> Statement:
    words = [token.text.upper() for token in tokens]
    if len(tokens) < 5 or "CURSOR" not in words or "FOR" not in words[words.index("CURSOR") :]:
        raise InvalidQuery("not SQL: DECLARE", "write DECLARE name CURSOR FOR SELECT …", text=body, start=0)
    after = words.index("FOR", words.index("CURSOR")) + 1
    return Declare(_unquoted(tokens[1]), Select(_words_after(body, tokens, after)))


def _fetch(body: str, tokens: list[Token]) -> Statement:
    words = [token.text.upper() for token in tokens[1:-1] if token.text.upper() not in ("FROM", "IN", "FORWARD")]
    if not words or words == ["NEXT"]:
        return Fetch(_unquoted(tokens[-1]), 1)
    if words == ["ALL"]:
        return Fetch(_unquoted(tokens[-1]), None)
    if len(words) == 1 and words[0].isdecimal() and len(words[0]) < 19:
        return Fetch(_unquoted(tokens[-1]), int(words[0]))
    raise InvalidQuery(
        "a cursor that goes backward, or too far", "FETCH FORWARD n FROM name, or ALL", text=body, start=0
    )


# Questions


def parsed(sql: str, dialect: str) -> exp.Expr:
    """The tree of one statement; `InvalidQuery` where it cannot be read."""
    spoken = _DIALECTS[dialect]
    try:
        tokens = spoken.tokenize(sql)
        for token, after in pairwise(tokens):
            if token.token_type is TokenType.ALIAS and after.token_type is TokenType.SELECT:
                after.token_type = TokenType.IDENTIFIER  # a column may be called select: Metabase's is
            if token.token_type is TokenType.OBJECT_IDENTIFIER and after.token_type is TokenType.L_BRACKET:
                token.token_type = TokenType.UINT if token.text.casefold() == "oid" else TokenType.TEXT  # oid[]
        trees = [tree for tree in spoken.parser().parse(tokens, sql) if tree is not None]
    except (ParseError, TokenError, RecursionError):
        raise InvalidQuery("not SQL", "this text cannot be read") from None
    if len(trees) != 1:
        raise InvalidQuery(f"got {len(trees)} statements, expected one", "send them one at a time")
    return trees[0]


def bound(tree: exp.Expr, values: Sequence[Any]) -> exp.Expr:
    """A tree with values in place of its parameters.

    >>> tree = parsed("SELECT COUNT(*) FROM people WHERE name = $1", "duckdb")
    >>> bound(tree, ["x' OR 'a' = 'a"]).sql("duckdb")
    "SELECT COUNT(*) FROM people WHERE name = 'x'' OR ''a'' = ''a'"
    """
    tree = tree.copy()
    for column in tree.selects if isinstance(tree, exp.Select) else ():
        if not column.alias and column.find(exp.Parameter, exp.Placeholder):  # its name must not depend on a value
            column.replace(exp.alias_(column.copy(), column.sql("duckdb"), quoted=True))
    nodes: list[exp.Expr] = list(tree.find_all(exp.Parameter, exp.Placeholder))
    for node in nodes:
        number = number_of(node)
        if not 1 <= number <= len(values):
            raise InvalidQuery("a parameter without a value", "give a value for each of them")
        cast, value = node.parent, values[number - 1]
        if isinstance(cast, exp.Cast) and not isinstance(cast.parent, exp.Select | exp.Alias):
            (cast if _says_nothing(cast, value) else node).replace(literal(value))
        else:
            node.replace(literal(value))
    compared: list[exp.Expr] = list(tree.find_all(exp.EQ, exp.NEQ))
    for pair in compared:
        if (among := membership(pair)) is not pair:
            pair.replace(among)
    return tree


_OF_TYPES: tuple[tuple[type, frozenset[str]], ...] = (
    (bool, frozenset({"BOOLEAN"})),
    (int, frozenset({"BIGINT", "INT"})),
    (float, frozenset({"DOUBLE", "FLOAT"})),
    (str, frozenset({"TEXT", "VARCHAR"})),
)


def _says_nothing(cast: Any, value: Any) -> bool:
    """Whether a cast, as drivers write it around a parameter, names the type that its value has anyway."""
    names = next((names for kind, names in _OF_TYPES if isinstance(value, kind)), frozenset[str]())
    sized = bool(cast.to.expressions) and not isinstance(value, float)  # FLOAT(53) is what DOUBLE is
    return not sized and getattr(cast.to.this, "name", "") in names


def membership(node: exp.Expr) -> exp.Expr:
    """`x = ANY (list)` and `x <> ALL (list)` with IN, where the list is stated; every other node as it is.

    >>> membership(parsed("SELECT x = ANY (ARRAY[1, 2])", "duckdb").selects[0]).sql("duckdb")
    'x IN (1, 2)'
    """
    sign = "ANY" if isinstance(node, exp.EQ) else "ALL" if isinstance(node, exp.NEQ) else None
    of: Any = node.args.get("expression")
    if sign is None or not is_quantified(of, sign):
        return node
    stated: Any = of.expressions[0] if isinstance(of, exp.Anonymous) else of.this
    while isinstance(stated, exp.Paren | exp.Cast) and not isinstance(stated.this, exp.Query):
        stated = stated.this
    if isinstance(stated, exp.Literal) and stated.is_string and stated.name.startswith("{"):
        stated = literal(parameter(stated.name.encode(), TEXT.array, binary=False))
    if not isinstance(stated, exp.Array) or not stated.expressions:
        return node
    among = exp.In(this=node.this.copy(), expressions=[item.copy() for item in stated.expressions])
    return among if sign == "ANY" else exp.Not(this=among)


def is_quantified(node: Any, sign: str = "") -> bool:
    """Whether a node is ANY (…) or ALL (…), or the stated one of them."""
    named = {exp.Any: "ANY", exp.All: "ALL"}.get(type(node), "")
    if isinstance(node, exp.Anonymous) and len(node.expressions) == 1:
        named = node.name.upper()
    return named in ((sign,) if sign else ("ANY", "ALL"))


def pointing_back(error: InvalidQuery, text: str, client: str) -> InvalidQuery:
    """A refusal of a text with values, pointing at the client's own text with parameters; nowhere if that is unsure."""
    results: list[list[Token]] = []
    for sql in (text, client):
        try:
            results.append(_POSTGRES.tokenize(sql))
        except (TokenError, RecursionError):
            results.append([])
    start = error.start or 0
    token = next((token for token in results[0] if token.start <= start <= token.end), None)
    same = [[other for other in tokens if token and other.text == token.text] for tokens in results]
    if token is None or len(same[0]) != len(same[1]):
        return InvalidQuery(error.problem, error.hint)
    return InvalidQuery(error.problem, error.hint, text=client, start=same[1][same[0].index(token)].start)


def number_of(node: exp.Expr) -> int:
    """The number of a parameter; 0 where it has none."""
    name = node.this.name if isinstance(node.this, exp.Expr) else str(node.this or "")
    return int(name) if name.isdecimal() else 0


def literal(value: Any) -> exp.Expr:  # noqa: PLR0911 (one return a type)
    """A value as a node of a tree."""
    match value:
        case None:
            return exp.Null()
        case bool():
            return exp.Boolean(this=value)
        case Decimal() if not value.is_finite():
            return exp.cast(exp.Literal.string("nan"), "DOUBLE")
        case bytes():
            raise InvalidParameter("parameter", "bytes", "a text, a number, a date or a time")
        case int() | Decimal():
            number: exp.Expr = exp.Literal.number(format(abs(value), "f") if isinstance(value, Decimal) else abs(value))
            return exp.Neg(this=number) if value < 0 else number
        case float():
            number = exp.Literal.number(repr(abs(value)))
            if not math.isfinite(value):
                return exp.cast(exp.Literal.string(str(value)), "DOUBLE")
            return exp.Neg(this=number) if value < 0 else number
        case dt.datetime():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        case dt.date():
            return exp.cast(exp.Literal.string(value.isoformat()), "DATE")
        case list() | tuple():
            return exp.Array(expressions=[literal(item) for item in value])
        case _:
            return exp.Literal.string(str(value))


def written(tree: exp.Expr, dialect: str) -> str:
    """The SQL of a tree."""
    return str(tree.sql(dialect=_DIALECTS[dialect], comments=False, unsupported_level=ErrorLevel.IGNORE))


def without_schema(sql: str, tree: exp.Expr, schemas: frozenset[str]) -> str:
    """The text with blanks for the name of the schema before tables and columns, so that refusals still point right.

    >>> sql = 'SELECT COUNT(*) FROM "public"."people"'
    >>> without_schema(sql, parsed(sql, "duckdb"), frozenset({"public"}))
    'SELECT COUNT(*) FROM          "people"'
    """
    gaps = []
    node: Any
    for node in tree.find_all(exp.Table, exp.Column):
        parts = [part for part in node.parts if isinstance(part, exp.Identifier)]
        names = 1 if isinstance(node, exp.Table) else 2
        before = parts[:-names]
        if before and all(part.name.casefold() in schemas for part in before) and "start" in parts[-names].meta:
            gaps.append((before[0].meta["start"], parts[-names].meta["start"]))
    for first, last in gaps:
        sql = sql[:first] + " " * (last - first) + sql[last:]
    return sql
