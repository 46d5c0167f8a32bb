"""Values of Arrow columns as numbers, and back. No value of a row makes these fail: what cannot be read is missing."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.catalog import ColumnType
from discreet.errors import InvalidData
from discreet.synthetic.bins import MOMENTS, seconds

Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]

_FAR = 1 << 62
_DAY = 86_400
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
    found: NDArray[Any] = _moments(array, kind, name) if kind in MOMENTS else _plain(array, name)
    known &= ~np.isnan(found) if found.dtype.kind == "f" else True
    if kind is ColumnType.REAL:
        return found.astype(np.float64), known
    return (_whole(found, known) if found.dtype.kind == "f" else found), known


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
    found = [known.get(key(value, kind), other) for value in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(found)).to_numpy(zero_copy_only=False)
    return np.asarray(np.array([*found, other], np.int64)[indices])


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
        listed = [one.date() for one in listed]
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
    found = raw // _PER_SECOND[array.type.unit]
    return np.asarray(found // _DAY if kind is ColumnType.DATE else found)


def _whole(found: NDArray[np.float64], known: Bools) -> Codes:
    return np.asarray(np.rint(np.clip(np.where(known, found, 0.0), -_FAR, _FAR)), np.int64)


def _from_texts(array: Any, kind: ColumnType) -> tuple[NDArray[Any], Bools]:
    encoded = array.dictionary_encode()
    read = [_from_text(text, kind) for text in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(read)).to_numpy(zero_copy_only=False)
    known = np.array([one is not None for one in (*read, None)], np.bool_)
    filled = [0 if one is None else one for one in (*read, None)]
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
