"""Intervals for what an outermost SELECT computes from aggregates: interval arithmetic, written as SQL.

A value that is computed from m different aggregates has an interval that holds with the stated confidence, because each
of the m is given an interval that fails with 1/m of the doubt (Bonferroni).
"""

from collections.abc import Callable
from typing import Any

from sqlglot import exp

Pair = tuple[exp.Expr, exp.Expr]
Ends = Callable[[exp.Column], Pair | None]
"""From a column to SQL for its two ends; None where they are not known."""


_MOST_PRODUCTS = 2
"""Products and quotients of values that vary: each multiplies the length of the SQL by eight."""


def ends(node: Any, of: Ends) -> Pair | None:
    """SQL for the low and the high end of a value; None where no rule is known, or where it would be too long."""
    products = [part for part in node.find_all(exp.Mul, exp.Div) if not _constant(part.this, part.expression)]
    return _ends(node, of) if len(products) <= _MOST_PRODUCTS else None


def _ends(node: Any, of: Ends) -> Pair | None:  # noqa: PLR0911 (one return a rule)
    match node:
        case exp.Column():
            return of(node)
        case exp.Literal() if not node.is_string:
            return node.copy(), node.copy()
        case exp.Paren() | exp.Alias():
            return _ends(node.this, of)
        case exp.Cast() if node.to.this.value in ("DOUBLE", "FLOAT"):
            return _both(_ends(node.this, of), lambda end: exp.cast(end, "DOUBLE"))
        case exp.Nullif() if isinstance(node.expression, exp.Literal):
            return _ends(node.this, of)
        case exp.Neg():
            inner = _ends(node.this, of)
            return None if inner is None else (_neg(inner[1]), _neg(inner[0]))
        case exp.Round():
            digits = node.args.get("decimals")
            if digits is not None and not isinstance(digits, exp.Literal | exp.Neg):
                return None
            return _both(_ends(node.this, of), lambda end: exp.Round(this=end, decimals=digits and digits.copy()))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            one, other = _ends(node.this, of), _ends(node.expression, of)
            return None if one is None or other is None else _arithmetic(node, one, other)
        case _:
            return None


def _arithmetic(node: Any, one: Pair, other: Pair) -> Pair | None:  # noqa: PLR0911 (one return a rule)
    (a, b), (c, d) = one, other
    match node:
        case exp.Add():
            return _op(exp.Add, a, c), _op(exp.Add, b, d)
        case exp.Sub():
            return _op(exp.Sub, a, d), _op(exp.Sub, b, c)
        case exp.Mul() if _constant(node.this):
            return _op(exp.Mul, a, c), _op(exp.Mul, b, d)
        case exp.Mul() | exp.Div() if _constant(node.expression):
            return _op(type(node), a, c), _op(type(node), b, d)
        case exp.Mul():
            return _extremes([_op(exp.Mul, x, y) for x in (a, b) for y in (c, d)])
        case exp.Div():
            low, high = _extremes([_op(exp.Div, _double(x), _double(y)) for x in (a, b) for y in (c, d)])
            known = exp.or_(exp.GT(this=c.copy(), expression=exp.Literal.number(0)), d.copy() < 0)
            return exp.Case().when(known, low), exp.Case().when(known.copy(), high)
        case _:
            return None


def _constant(*nodes: Any) -> bool:
    """Whether one of these is a number that is written out, and so above zero or zero."""
    return any(isinstance(node, exp.Literal) and not node.is_string for node in nodes)


def _extremes(corners: list[exp.Expr]) -> Pair:
    rest = [corner.copy() for corner in corners]
    return exp.Least(this=corners[0], expressions=corners[1:]), exp.Greatest(this=rest[0], expressions=rest[1:])


def _op(kind: Any, one: exp.Expr, other: exp.Expr) -> exp.Expr:
    node: exp.Expr = kind(this=exp.paren(one.copy()), expression=exp.paren(other.copy()))
    return node


def _double(end: exp.Expr) -> exp.Expr:
    return exp.cast(end.copy(), "DOUBLE")


def _neg(end: exp.Expr) -> exp.Expr:
    return exp.Neg(this=exp.paren(end.copy()))


def _both(inner: Pair | None, change: Callable[[exp.Expr], exp.Expr]) -> Pair | None:
    return None if inner is None else (change(inner[0].copy()), change(inner[1].copy()))
