"""Tables of Python (pyarrow, pandas, polars), column by column, as Arrow.

Types are found without looking at a row. A column of Python objects, which pandas may hold, has no type but the one
that the policy declares: objects of another type count as missing. No row can make a conversion fail.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsInt, cast

from discreet.curator.catalog import ColumnType
from discreet.curator.engines.columns import ARROW
from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow

_KNOWN = {("pyarrow", "Table"), ("pandas", "DataFrame"), ("polars", "DataFrame")}


@dataclass(frozen=True, slots=True)
class Frame:
    """A table of Python: its columns are found by their place.

    >>> import pyarrow
    >>> frame = Frame(pyarrow.table({"age": [30, None]}), "table 'people'")
    >>> frame.names, frame.type(0, ColumnType.INTEGER), frame.array(0, ColumnType.INTEGER).to_pylist()
    (['age'], 'BIGINT', [30, None])
    """

    table: Any
    where: str
    library: str

    def __init__(self, given: Any, where: str) -> None:
        library = type(given).__module__.partition(".")[0]
        if (library, type(given).__name__) not in _KNOWN:
            expected = "a pyarrow Table, a pandas or polars DataFrame, or a path"
            raise InvalidParameter(where, f"a {type(given).__name__}", expected)
        # A shallow copy: pandas writes to other memory when the caller changes the original.
        object.__setattr__(self, "table", given.copy(deep=False) if library == "pandas" else given)
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "library", library)

    @property
    def names(self) -> list[Any]:
        """The names of the columns; in pandas they need not be texts."""
        return list(self.table.column_names if self.library == "pyarrow" else self.table.columns)

    def type(self, place: int, kind: ColumnType) -> str:
        """The type of a column, in words of DuckDB, from the schema alone."""
        import pyarrow

        try:
            return _type(_array(self._column(place, 0), self.library, kind).type)
        except (pyarrow.ArrowException, TypeError, ValueError, NotImplementedError):
            return f"{getattr(self._column(place, 0), 'dtype', 'unknown')}"

    def array(self, place: int, kind: ColumnType) -> "pyarrow.ChunkedArray | pyarrow.Array":
        """A whole column."""
        return _array(self._column(place, None), self.library, kind)

    def _column(self, place: int, stop: int | None) -> Any:
        if self.library == "pandas":
            return self.table.iloc[:stop, place]
        if self.library == "polars":
            return self.table.to_series(place)[:stop]
        return self.table.column(place)[:stop]


def _array(column: Any, library: str, kind: ColumnType) -> Any:
    import pyarrow

    array = _from_pandas(column, kind) if library == "pandas" else column
    array = array.to_arrow() if library == "polars" else array
    if pyarrow.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pyarrow.timestamp(array.type.unit))  # the same instants, in UTC
    return array


def _from_pandas(series: Any, kind: ColumnType) -> "pyarrow.Array":
    import pyarrow

    name = str(series.dtype)
    if name == "object":
        return _objects(series, kind)
    if name == "category":
        codes = series.cat.codes.to_numpy()
        values = series.cat.categories
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=codes < 0), _from_pandas(values, kind))
    try:
        return pyarrow.array(series, from_pandas=True)
    except UnicodeEncodeError:  # half a surrogate pair, which Python allows in a text
        return _objects(series, kind)


def _type(arrow: Any) -> str:
    """What DuckDB calls an Arrow type, as far as fitting matters."""
    import pyarrow

    if pyarrow.types.is_dictionary(arrow) or pyarrow.types.is_run_end_encoded(arrow):
        return _type(arrow.value_type)
    is_ = pyarrow.types
    tests: list[tuple[Callable[[Any], bool], str]] = [
        (is_.is_null, '"NULL"'),
        (is_.is_uint64, "UBIGINT"),
        (is_.is_integer, "BIGINT" if arrow == pyarrow.int64() else "INTEGER"),
        (lambda kind: is_.is_float32(kind) or is_.is_float64(kind), "DOUBLE"),
        (is_.is_decimal128, "DECIMAL"),
        (lambda kind: is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind), ARROW),
        (is_.is_boolean, "BOOLEAN"),
        (is_.is_date, "DATE"),
        (is_.is_timestamp, "TIMESTAMP" if arrow == pyarrow.timestamp("us") else "TIMESTAMP_NS"),
    ]
    return next((name for test, name in tests if test(arrow)), str(arrow))


def _objects(values: Iterable[Any], kind: ColumnType) -> "pyarrow.Array":
    """Python objects as the declared type; whatever is not of it is missing."""
    import pyarrow

    types = {
        ColumnType.INTEGER: pyarrow.int64(),
        ColumnType.REAL: pyarrow.float64(),
        ColumnType.TEXT: pyarrow.string(),
        ColumnType.BOOLEAN: pyarrow.bool_(),
        ColumnType.DATE: pyarrow.date32(),
        ColumnType.TIMESTAMP: pyarrow.timestamp("us"),
    }
    read = _READERS[kind]
    return pyarrow.array([_attempt(read, value) for value in values], types[kind])


def _attempt(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Exception:  # whatever an object does when it is asked, its row is not told by an error
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, Integral | Real | Decimal):
        return None
    whole = int(cast(SupportsInt, value))
    return whole if whole == value and -(2**63) <= whole < 2**63 else None


def _real(value: Any) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral | Real | Decimal)
        or math.isnan(cast(SupportsFloat, value))
    ):
        return None
    return float(cast(SupportsFloat, value))


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    value.encode()
    return str(value)


def _truth(value: Any) -> bool | None:
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


def _date(value: Any) -> date | None:
    if isinstance(value, datetime):
        value = _time(value)
    return date(value.year, value.month, value.day) if isinstance(value, date) else None


def _time(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    naive = value.astimezone(UTC) if value.tzinfo is not None else value
    parts = (naive.year, naive.month, naive.day, naive.hour, naive.minute, naive.second, naive.microsecond)
    return datetime(*parts)


_READERS: dict[ColumnType, Callable[[Any], Any]] = {
    ColumnType.INTEGER: _whole,
    ColumnType.REAL: _real,
    ColumnType.TEXT: _text,
    ColumnType.BOOLEAN: _truth,
    ColumnType.DATE: _date,
    ColumnType.TIMESTAMP: _time,
}
