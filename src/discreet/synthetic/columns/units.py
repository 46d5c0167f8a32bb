"""Columns in units: public bins of numbers, dates and times, and values of Arrow columns as numbers.

A column is counted in units: numbers as they are, dates in days and times in seconds since 1970. Its grid is the
column's granularity (1 for whole numbers, dates and times); a real column without one, or with one that floating-point
numbers cannot follow, has none. Edges of gridded columns are on the grid, and the last lies one step above the largest
value, so that every bin is [edge, next edge).

Values of Arrow columns are read as numbers, and written back. No value of a row makes these fail: what cannot be read
is missing.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from fractions import Fraction
from itertools import pairwise
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import NUMERIC, Column, ColumnType
from discreet.errors import InvalidData, InvalidParameter
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
    declared = _declared(column)
    if declared is not None:
        return declared
    edges = "bounds (1950-01-01..2024-12-31) or edges" if column.kind in MOMENTS else "edges"
    hint = f"declare lower and upper in the policy, give {edges} of bins, or leave the column out"
    raise InvalidParameter("columns", column.name, "a column with declared bounds or bins", hint)


def _declared(column: Column) -> tuple[Fraction, Fraction] | None:
    """The bounds that the policy declares, in the column's units."""
    if column.kind in MOMENTS and column.earliest is not None and column.latest is not None:
        return Fraction(floor(_edge(column.earliest, column))), Fraction(floor(_edge(column.latest, column)))
    if column.kind in NUMERIC and column.lower is not None and column.upper is not None:
        return column.lower, column.upper
    return None


def _grid(column: Column, edges: Sequence[Fraction]) -> Fraction | None:
    if column.kind is not ColumnType.REAL:
        return Fraction(1)
    step = column.granularity
    if step is None or max(step.numerator, step.denominator) > _MOST_STEPS:
        return None
    return step if max(abs(edge) for edge in edges) / step < _MOST_STEPS else None


def _within(edges: list[Fraction], column: Column) -> list[Fraction]:
    """Edges cut to the column's declared bounds, so that no value beyond them is drawn; values outside are clamped."""
    declared = _declared(column)
    if declared is None:
        return edges
    low, high = max(edges[0], declared[0]), min(edges[-1], declared[1])
    if low > high or (low == high and declared[0] < declared[1]):
        ends, got = ([_word(edge, column.kind) for edge in some] for some in (declared, edges))
        raise InvalidParameter(f"bins of {column.name}", got, f"edges between its bounds, {ends[0]} and {ends[1]}")
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


Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FAR = 1 << 62
_TRUTHS = {"true": "1", "t": "1", "yes": "1", "false": "0", "f": "0", "no": "0"}
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def numbers(values: Any, kind: ColumnType, name: str) -> tuple[NDArray[Any], Bools]:
    """Each value in the units of `bins`, and which are known: floats for a real column, whole numbers for the others.

    Times are rounded down; whole numbers that do not fit are clamped. Texts are read, as far as they can be.

    >>> import pyarrow
    >>> numbers(pyarrow.array([3, None]), ColumnType.INTEGER, "age")
    (array([3, 0]), array([ True, False]))
    >>> numbers(pyarrow.array(["0.5", "x"]), ColumnType.REAL, "share")[1]
    array([ True, False])
    """
    import pyarrow

    array = flat(values)
    if pyarrow.types.is_string(array.type) or pyarrow.types.is_large_string(array.type):
        return _from_texts(array, kind)
    known = np.asarray(array.is_valid(), np.bool_)
    if pyarrow.types.is_null(array.type):
        return np.zeros(len(array), np.float64 if kind is ColumnType.REAL else np.int64), known
    result: NDArray[Any] = _moments(array, kind, name) if kind in MOMENTS else _plain(array, name)
    known &= ~np.isnan(result) if result.dtype.kind == "f" else True
    if kind is ColumnType.REAL:
        return result.astype(np.float64), known
    return (_whole(result, known) if result.dtype.kind == "f" else result), known


def places(values: Any, declared: tuple[Any, ...], kind: ColumnType, other: int) -> Codes:
    """The place of each value among the declared ones; `other` for all else.

    >>> import pyarrow
    >>> places(pyarrow.array(["b", None, "c"]), ("a", "b"), ColumnType.TEXT, 2).tolist()
    [1, 2, 2]
    """
    import pyarrow

    array = flat(values)
    if pyarrow.types.is_timestamp(array.type):
        array = array.cast(pyarrow.timestamp("us", array.type.tz), safe=False)
    encoded = array.dictionary_encode()
    known = {key(value, kind): place for place, value in enumerate(declared)}
    results = [known.get(key(value, kind), other) for value in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(results)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*results, other], np.int64)[indices])


def key(value: Any, kind: ColumnType) -> str:
    """What makes two spellings of a declared value the same one.

    >>> key("2020-01-31 12:00", ColumnType.TIMESTAMP) == key(datetime(2020, 1, 31, 12), ColumnType.TIMESTAMP)
    True
    """
    if kind is ColumnType.BOOLEAN:
        return _TRUTHS.get(str(value).lower(), str(value))
    if kind in MOMENTS:
        read = moment(value)
        return str(value) if read is None else read.isoformat()
    if kind is ColumnType.INTEGER and isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def moment(value: Any) -> datetime | None:
    """A date or time, as a time in UTC; None for what is neither."""
    try:
        read = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(read, datetime):
            return read if read.tzinfo is None else read.astimezone(UTC).replace(tzinfo=None)
        return datetime(read.year, read.month, read.day) if isinstance(read, date) else None
    except (ValueError, OverflowError):
        return None


def flat(values: Any) -> Any:
    """One array without chunks or dictionary."""
    import pyarrow

    array = values.combine_chunks() if isinstance(values, pyarrow.ChunkedArray) else values
    return array.dictionary_decode() if pyarrow.types.is_dictionary(array.type) else array


def written(units: NDArray[Any], lost: Bools, kind: ColumnType) -> Any:
    """An Arrow array of the column's type from numbers in its units."""
    import pyarrow

    match kind:
        case ColumnType.DATE:
            return pyarrow.array(units.astype(np.int32), pyarrow.int32(), mask=lost).cast(pyarrow.date32())
        case ColumnType.TIMESTAMP:
            return pyarrow.array(units * 10**6, pyarrow.int64(), mask=lost).cast(pyarrow.timestamp("us"))
        case ColumnType.INTEGER:
            return pyarrow.array(units, pyarrow.int64(), mask=lost)
    return pyarrow.array(units.astype(np.float64), pyarrow.float64(), mask=lost)


def named(declared: tuple[Any, ...], codes: Codes, kind: ColumnType) -> Any:
    """An Arrow array of declared values by their places; null for places beyond them."""
    import pyarrow

    types = {
        ColumnType.INTEGER: pyarrow.int64(),
        ColumnType.BOOLEAN: pyarrow.bool_(),
        ColumnType.DATE: pyarrow.date32(),
        ColumnType.TIMESTAMP: pyarrow.timestamp("us"),
    }
    listed: list[Any] = [moment(value) if kind in MOMENTS else value for value in declared]
    if kind is ColumnType.DATE:
        listed = [moment.date() for moment in listed]
    which = pyarrow.array(codes, pyarrow.int64(), mask=codes >= len(declared))
    return pyarrow.array(listed, types.get(kind, pyarrow.string())).take(which)


def _plain(array: Any, name: str) -> NDArray[Any]:
    """Numbers as int64 where they are whole, else as floats; null is 0 or NaN."""
    import pyarrow

    if pyarrow.types.is_uint64(array.type):
        array = array.cast(pyarrow.float64(), safe=False)
    if pyarrow.types.is_integer(array.type) or pyarrow.types.is_boolean(array.type):
        return np.asarray(array.cast(pyarrow.int64()).fill_null(0).to_numpy(zero_copy_only=False))
    if pyarrow.types.is_floating(array.type) or pyarrow.types.is_decimal(array.type):
        return np.asarray(array.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False))
    raise InvalidData(f"column {name!r}: got {array.type}, expected numbers")


def _moments(array: Any, kind: ColumnType, name: str) -> Codes:
    """Days or seconds since 1970, rounded down."""
    import pyarrow

    if pyarrow.types.is_date32(array.type):
        days = array.cast(pyarrow.int32()).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.asarray(days if kind is ColumnType.DATE else days * _DAY)
    if pyarrow.types.is_date64(array.type):
        array = array.cast(pyarrow.timestamp("ms"))
    if not pyarrow.types.is_timestamp(array.type):
        raise InvalidData(f"column {name!r}: got {array.type}, expected dates or times")
    raw = array.cast(pyarrow.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    result = raw // _PER_SECOND[array.type.unit]
    return np.asarray(result // _DAY if kind is ColumnType.DATE else result)


def _whole(found: NDArray[np.float64], known: Bools) -> Codes:
    return np.asarray(np.rint(np.clip(np.where(known, found, 0.0), -_FAR, _FAR)), np.int64)


def _from_texts(array: Any, kind: ColumnType) -> tuple[NDArray[Any], Bools]:
    encoded = array.dictionary_encode()
    read = [_from_text(text, kind) for text in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(read)).to_numpy(zero_copy_only=False)
    known = np.array([value is not None for value in (*read, None)], np.bool_)
    filled = [0 if value is None else value for value in (*read, None)]
    return np.array(filled, np.float64 if kind is ColumnType.REAL else np.int64)[indices], known[indices]


def _from_text(text: str, kind: ColumnType) -> float | int | None:
    if kind in MOMENTS:
        read = moment(text.strip())
        exact = None if read is None else seconds(read)
        return None if exact is None else int(exact // (_DAY if kind is ColumnType.DATE else 1))
    try:
        number = float(text)
        if kind is ColumnType.REAL:
            return None if np.isnan(number) else number
        exact_text = text.strip().removeprefix("-").isdigit()
        return max(-_FAR, min(_FAR, int(text) if exact_text else round(max(-_FAR, min(_FAR, number)))))
    except (ValueError, OverflowError):
        return None
