"""The analyst's text: parsed once, and pointed at when it is refused."""

import logging
from typing import Any, NoReturn

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from discreet.errors import InvalidParameter, InvalidQuery

DIALECT = "duckdb"
logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # what it has to say, we say
_LONGEST = 50_000
_DEEPEST = 200


class Statement:
    """One statement of the analyst: its text and its tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = _parsed(text)

    def refuse(self, node: Any, problem: str, hint: str = "") -> NoReturn:
        """Raise `InvalidQuery`, pointing at the part of the text that a node came from."""
        raise InvalidQuery(problem, hint, text=self.text, start=start_of(node)) from None


def start_of(node: Any) -> int | None:
    """Where a node begins in the text, if the parser said so for it or for something in it."""
    if not isinstance(node, exp.Expr):
        return None
    places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(places, default=None)


def _parsed(text: str) -> exp.Query:
    if not isinstance(text, str):
        raise InvalidParameter("statement", text, "SQL as text")
    if len(text) > _LONGEST or "\0" in text or not _writable(text):
        expected = f"at most {_LONGEST} characters that UTF-8 can hold, none of them NUL"
        raise InvalidParameter("statement", f"{len(text)} characters", expected)
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except ParseError as error:
        raise _unreadable(text, error) from None
    except TokenError:
        raise InvalidQuery("this text cannot be read as SQL", "is a quote or comment left open?") from None
    except RecursionError:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels") from None
    if len(trees) != 1:
        raise InvalidQuery(
            f"got {len(trees)} statements, expected one", "ask one at a time, or several together as a batch"
        )
    tree = trees[0]
    if not isinstance(tree, exp.Query):
        raise InvalidQuery(f"got {tree.key.upper()}, expected SELECT", "private data can only be asked about")
    if _depth(tree) > _DEEPEST:
        raise InvalidQuery("this statement is nested too deeply", "write it with fewer levels")
    return tree


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


def _unreadable(text: str, error: ParseError) -> InvalidQuery:
    first = error.errors[0] if error.errors else {}
    line, column = first.get("line"), first.get("col")
    start = None
    if isinstance(line, int) and isinstance(column, int):
        before = sum(len(part) + 1 for part in text.split("\n")[: line - 1])
        start = min(max(0, before + column - len(str(first.get("highlight", "")))), max(0, len(text) - 1))
    problem = str(first.get("description", "this text cannot be read as SQL")).rstrip(".")
    return InvalidQuery(f"not SQL: {problem}", text=text, start=start)
