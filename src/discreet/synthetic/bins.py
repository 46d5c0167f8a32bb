"""Public bins of numbers, dates and times: where they lie, and on which grid their values are.

A column is counted in units: numbers as they are, dates in days and times in seconds since 1970. Its grid is the
column's granularity (1 for whole numbers, dates and times); a real column without one, or with one that floating-point
numbers cannot follow, has none. Edges of gridded columns are on the grid, and the last lies one step above the largest
value, so that every bin is [edge, next edge).
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

import numpy as np

from discreet.curator.catalog import NUMERIC, Column, ColumnType
from discreet.errors import InvalidParameter
from discreet.exact import integer, plain, rational

Bins = int | str | Sequence[Any]
"""How many equally wide bins, or the edges of bins: numbers, or dates in ISO form. A bin holds its lower edge, the last
one its upper edge too.

Or bounds, "1950-01-01..2024-12-31", between which bins are chosen as for a column with declared bounds."""

MOST_CODES = 4096
"""Of one column. More would make its pairs too many to measure."""

MOMENTS = frozenset({ColumnType.DATE, ColumnType.TIMESTAMP})

_FEW = 40  # steps of a grid that each have a code of their own
_WIDE = 32  # bins otherwise
_MOST_STEPS = 1 << 50  # from zero, of a grid of real numbers: floats tell its points apart, with room for rounding
_FARTHEST = {True: 1 << 61, False: 10**300}  # an edge on a grid (in steps), and one without
_EPOCH = datetime(1970, 1, 1)
_DAY = 86_400


def edges_of(column: Column, bins: Bins | None) -> tuple[tuple[Fraction, ...], Fraction | None]:
    """The edges of a column's bins, and the step of its grid or None.

    >>> edges_of(Column("age", "integer", lower=0, upper=9), 2)
    ((Fraction(0, 1), Fraction(5, 1), Fraction(10, 1)), Fraction(1, 1))
    >>> edges_of(Column("share", "real", lower=0, upper=1), 2)[1] is None
    True
    """
    if bins is None or isinstance(bins, int):
        count = None if bins is None else integer(bins, f"bins of {column.name}", at_least=1, at_most=MOST_CODES)
        low, high = _bounds(column)
        step = _grid(column, (low, high))
        return _checked(column, _even(low, high, step, count), step), step
    bounds = isinstance(bins, str)
    given = [_edge(edge, column) for edge in (bins.replace(" ", "").split("..") if isinstance(bins, str) else bins)]
    if not 2 <= len(given) <= MOST_CODES + 1 or given != sorted(set(given)):
        expected = f"from 2 to {MOST_CODES + 1:,} edges, each above the one before"
        raise InvalidParameter(f"bins of {column.name}", list(bins), expected)
    inside = _within(given, column)
    step = _grid(column, inside)
    edges = inside if step is None else _on_grid(inside, step)
    if bounds and edges[0] < edges[-1]:
        edges = _even(edges[0], edges[-1] - (step or 0), step, None)
    return _checked(column, edges, step), step


def frozen(bins: Any, name: str) -> Bins:
    """What a person gave as bins, as a value that cannot change."""
    if isinstance(bins, int):
        return integer(bins, f"bins of {name}", at_least=1, at_most=MOST_CODES)
    if isinstance(bins, np.integer):
        return frozen(int(bins), name)
    if isinstance(bins, str) and bins.count("..") == 1:
        return bins.replace(" ", "")
    if isinstance(bins, str | bytes) or not hasattr(bins, "__iter__"):
        raise InvalidParameter(
            f"bins of {name}", bins, "a whole number of bins, bounds (low..high), or a list of edges"
        )
    return tuple(bins)


def seconds(moment: datetime) -> Fraction:
    """Seconds since 1970, exactly; a time without a zone is in UTC.

    >>> seconds(datetime(1969, 12, 31, 23, 59, 59, 500_000))
    Fraction(-1, 2)
    """
    plain_time = moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    return Fraction((plain_time - _EPOCH) // timedelta(microseconds=1), 10**6)


def said(low: Fraction, high: Fraction, step: Fraction | None, kind: ColumnType) -> str:
    """A bin in words: its least and its largest value.

    >>> said(Fraction(-365), Fraction(0), Fraction(1), ColumnType.DATE)
    '1969-01-01 to 1969-12-31'
    """
    last = high if step is None else high - step
    first, final = _word(low, kind), _word(last, kind)
    return first if low == last else f"{first} to {final}"


def _word(edge: Fraction, kind: ColumnType) -> str:
    if kind is ColumnType.DATE:
        return (_EPOCH + timedelta(days=int(edge))).date().isoformat()
    if kind is ColumnType.TIMESTAMP:
        return (_EPOCH + timedelta(seconds=int(edge))).isoformat()
    short = plain(edge)
    return short if "/" not in short else f"{float(edge):.10g}"


def _bounds(column: Column) -> tuple[Fraction, Fraction]:
    if column.kind in NUMERIC and column.lower is not None and column.upper is not None:
        return column.lower, column.upper
    hint = "give the edges of bins, or bounds (1950-01-01..2024-12-31), or leave the column out"
    if column.kind in NUMERIC:
        hint = f"declare lower and upper in the policy, {hint}"
    raise InvalidParameter("columns", column.name, "a column with declared bounds or bins", hint)


def _grid(column: Column, edges: Sequence[Fraction]) -> Fraction | None:
    if column.kind is not ColumnType.REAL:
        return Fraction(1)
    step = column.granularity
    if step is None or max(step.numerator, step.denominator) > _MOST_STEPS:
        return None
    return step if max(abs(edge) for edge in edges) / step < _MOST_STEPS else None


def _within(edges: list[Fraction], column: Column) -> list[Fraction]:
    """Edges cut to the column's declared bounds, so that no value beyond them is drawn; values outside are clamped."""
    if column.kind not in NUMERIC or column.lower is None or column.upper is None:
        return edges
    low, high = max(edges[0], column.lower), min(edges[-1], column.upper)
    if low > high or (low == high and column.lower < column.upper):
        expected = f"edges between its bounds, {plain(column.lower)} and {plain(column.upper)}"
        raise InvalidParameter(f"bins of {column.name}", [plain(edge) for edge in edges], expected)
    return [low, *(edge for edge in edges if low < edge < high), high]


def _even(low: Fraction, high: Fraction, step: Fraction | None, count: int | None) -> list[Fraction]:
    """Equally wide bins; on a grid each has as many steps as the others, or one more."""
    if step is None:
        many = (_WIDE if count is None else count) if low < high else 1
        return [low + (high - low) * n / many for n in range(many + 1)]
    points = int((high - low) / step) + 1
    many = min(points, count if count is not None else (points if points <= _FEW else _WIDE))
    return [low + step * (points * n // many) for n in range(many + 1)]


def _on_grid(edges: list[Fraction], step: Fraction) -> list[Fraction]:
    """The same bins of a gridded value v: v ≥ edge where v ≥ the next point of the grid, and v ≤ the last likewise."""
    return [*(ceil(edge / step) * step for edge in edges[:-1]), (floor(edges[-1] / step) + 1) * step]


def _checked(column: Column, edges: list[Fraction], step: Fraction | None) -> tuple[Fraction, ...]:
    name = f"bins of {column.name}"
    if max(abs(edge) for edge in edges) / (step or 1) > _FARTHEST[step is not None]:
        raise InvalidParameter(name, "edges far from zero", "edges that fit 64 bits")
    told_apart = [edge if step is not None else Fraction(float(edge)) for edge in edges]
    if len(edges) > 2 and any(a >= b for a, b in pairwise(told_apart)):
        expected = "edges that are at least one step of the column's grid apart"
        raise InvalidParameter(name, "bins that hold no value", expected)
    if step is not None and edges[0] >= edges[-1]:
        raise InvalidParameter(name, "a bin that holds no value", "edges with a step of the column's grid between them")
    return tuple(edges)


def _edge(edge: Any, column: Column) -> Fraction:
    """An edge in the column's units."""
    if column.kind not in MOMENTS:
        return rational(edge, f"bins of {column.name}")
    try:
        read = datetime.fromisoformat(edge) if isinstance(edge, str) else edge
        if isinstance(read, date) and not isinstance(read, datetime):
            read = datetime(read.year, read.month, read.day)
        exact = seconds(read)
    except (ValueError, TypeError, AttributeError, OverflowError):
        hint = "write 1950-01-31, or 2020-01-31T12:00"
        raise InvalidParameter(f"bins of {column.name}", edge, "dates in ISO form as edges", hint) from None
    return exact / _DAY if column.kind is ColumnType.DATE else exact
