"""Arrow columns from NumPy arrays and back, without a copy.

Arrow's own ways (`pa.array`, `to_numpy`, `fill_null`) import pandas where it is installed, which takes a second.
"""

from collections.abc import Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError

if TYPE_CHECKING:
    import pyarrow

_TYPES = {"int64": np.int64, "double": np.float64}


def column(
    numbers: NDArray[np.int64] | NDArray[np.float64], missing: NDArray[np.bool_] | None = None
) -> "pyarrow.Array":
    """An Arrow array of these numbers, null where they are missing.

    >>> column(np.array([1, 2, 3]), np.array([False, True, False])).to_pylist()
    [1, None, 3]
    """
    import pyarrow as pa

    real = numbers.dtype.kind == "f"
    data = np.ascontiguousarray(numbers, np.float64 if real else np.int64)
    present = None if missing is None or not missing.any() else _bits(~missing)
    return pa.Array.from_buffers(pa.float64() if real else pa.int64(), len(data), [present, pa.py_buffer(data)])


def listed(values: Sequence[Any], kind: "pyarrow.DataType") -> "pyarrow.Array":
    """An Arrow array of values that are all there: texts, truth values, dates, times or whole numbers.

    >>> import pyarrow as pa
    >>> listed(["ä", ""], pa.string()).to_pylist(), listed([date(1970, 1, 2)], pa.date32()).to_pylist()
    (['ä', ''], [datetime.date(1970, 1, 2)])
    """
    import pyarrow as pa

    if pa.types.is_string(kind):
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64).astype(np.int32)
        return pa.StringArray.from_buffers(len(texts), pa.py_buffer(ends), pa.py_buffer(b"".join(texts)))
    if pa.types.is_boolean(kind):
        return truths(np.array(values, np.bool_))
    if pa.types.is_date32(kind):
        days = np.array([(value - date(1970, 1, 1)).days for value in values], np.int32)
        return pa.Array.from_buffers(kind, len(days), [None, pa.py_buffer(days)])
    if pa.types.is_timestamp(kind):
        values = [_microseconds(value) for value in values]
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(np.array(values, np.int64))])


def truths(values: NDArray[np.bool_]) -> "pyarrow.Array":
    """An Arrow array of true and false.

    >>> truths(np.array([True, False])).to_pylist()
    [True, False]
    """
    import pyarrow as pa

    return pa.Array.from_buffers(pa.bool_(), len(values), [None, _bits(values)])


def numbers(found: "pyarrow.ChunkedArray | pyarrow.Array") -> Any:
    """The numbers of an Arrow column; what stands where one is null means nothing.

    >>> numbers(column(np.array([1.5, 2])))
    array([1.5, 2. ])
    """
    array = joined(found)
    dtype = _TYPES.get(str(array.type))
    if dtype is None:
        raise InternalError(f"a column of {array.type} was taken for numbers")
    if not len(array):
        return np.zeros(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, count=len(array), offset=8 * array.offset)


def missing(found: "pyarrow.ChunkedArray | pyarrow.Array") -> NDArray[np.bool_]:
    """Where an Arrow column is null.

    >>> missing(column(np.array([1, 2]), np.array([True, False])))
    array([ True, False])
    """
    array = joined(found)
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    bits = np.unpackbits(np.frombuffer(array.buffers()[0], np.uint8), bitorder="little")
    return np.asarray(bits[array.offset : array.offset + len(array)] == 0)


def joined(found: "pyarrow.ChunkedArray | pyarrow.Array") -> "pyarrow.Array":
    """A column in one piece.

    >>> import pyarrow as pa
    >>> len(joined(pa.chunked_array([], pa.int64())))
    0
    """
    import pyarrow as pa

    if not isinstance(found, pa.ChunkedArray):
        return found
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.nulls(0, found.type)


def _bits(values: NDArray[np.bool_]) -> Any:
    import pyarrow as pa

    return pa.py_buffer(np.packbits(np.ascontiguousarray(values, np.bool_), bitorder="little"))


def _microseconds(value: datetime) -> int:
    gap = value - datetime(1970, 1, 1)
    return (gap.days * 86_400 + gap.seconds) * 10**6 + gap.microseconds
