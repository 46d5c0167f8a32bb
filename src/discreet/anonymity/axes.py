"""Columns of numbers or dates as ranks: what Mondrian cuts, and how a range is written."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.hierarchy import TOP
from discreet.errors import InvalidData
from discreet.tables import as_arrow, column

if TYPE_CHECKING:
    import pyarrow

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Axis:
    """A column: the rank of each row's value (0: missing, then 1, 2, … ascending); `positions` and `texts` by rank."""

    name: str
    ranks: NDArray[np.int32]
    positions: Floats
    texts: tuple[str, ...]

    @classmethod
    def of(cls, table: Any, name: str) -> "Axis":
        """A column of whole or decimal numbers, dates or times; also as texts.

        >>> axis = Axis.of({"age": [34, None, 20]}, "age")
        >>> axis.ranks.tolist(), axis.texts
        ([2, 0, 1], ('', '20', '34'))
        """
        values = _ordered(name, column(as_arrow(table), name))
        missing = np.asarray(values.is_null())
        numbers, ranks = np.unique(_numpy(values.drop_null()), return_inverse=True)
        all_ranks = np.zeros(len(missing), np.int32)
        all_ranks[~missing] = ranks + 1
        positions = np.concatenate([[np.nan], numbers.astype(np.float64)])
        return cls(name, all_ranks, positions, ("", *_texts(numbers, values.type)))

    def widths(self, low: Ints, high: Ints) -> Floats:
        """The share of the column's whole range that each range of ranks covers; 1 if a value in it is missing."""
        at = self.positions / 2  # the difference of halves is never infinite
        whole = at[-1] - at[1] if len(at) > 1 else 0.0
        span = at[np.maximum(high, 1)] - at[np.maximum(low, 1)] if whole > 0 else 0.0 * low
        return np.where(low == high, 0.0, np.where(low == 0, 1.0, span / (whole or 1.0)))

    def labels(self, low: Ints, high: Ints) -> list[str | None]:
        """How each range is written: 34, [20–34], `*` where some values are missing, nothing where all are."""
        return [self._label(int(first), int(last)) for first, last in zip(low, high, strict=True)]

    def _label(self, low: int, high: int) -> str | None:
        if high == 0:
            return None
        if low == 0:
            return TOP
        return self.texts[low] if low == high else f"[{self.texts[low]}–{self.texts[high]}]"


def axes_of(table: Any, names: Sequence[str]) -> tuple[Axis, ...]:
    """The named columns; the table must have rows, the names must be some and different."""
    if isinstance(names, str) or not names:
        raise InvalidData("no quasi-identifiers: give a list of at least one column name")
    if len(set(names)) != len(names):
        raise InvalidData("a quasi-identifier is named twice; name each column once")
    arrow = as_arrow(table)
    if not arrow.num_rows:
        raise InvalidData("the table has no rows")
    return tuple(Axis.of(arrow, name) for name in names)


def _ordered(name: str, chunks: "pyarrow.ChunkedArray") -> "pyarrow.Array":
    """Values that have an order and a distance; what means "missing" (null, NaN, an empty text) is null."""
    import pyarrow
    from pyarrow import compute

    is_ = pyarrow.types
    values = pyarrow.concat_arrays(chunks.chunks) if chunks.num_chunks else pyarrow.array([], chunks.type)
    if is_.is_dictionary(values.type):
        values = values.dictionary_decode()
    if is_.is_string(values.type) or is_.is_large_string(values.type):
        values = _parsed(name, values)
    if is_.is_decimal(values.type) or is_.is_floating(values.type):
        values = values.cast(pyarrow.float64())
        values = compute.if_else(compute.is_nan(values), pyarrow.scalar(None, pyarrow.float64()), values)
        infinite = np.flatnonzero(np.isinf(values.fill_null(0).to_numpy()))
        if infinite.size:
            raise InvalidData(f"column {name!r}: the value of row {infinite[0] + 1} is infinite; correct the data")
    if not (is_.is_null(values.type) or is_.is_integer(values.type) or _measured(values.type)):
        raise InvalidData(
            f"column {name!r}: its values ({values.type}) are neither numbers nor dates; give it a hierarchy instead"
        )
    return values


def _measured(kind: Any) -> bool:
    import pyarrow

    is_ = pyarrow.types
    return bool(is_.is_floating(kind) or is_.is_date(kind) or is_.is_timestamp(kind))


def _parsed(name: str, values: "pyarrow.Array") -> "pyarrow.Array":
    """Texts of numbers or of dates like 1987-03-12."""
    import pyarrow
    from pyarrow import compute

    trimmed = compute.utf8_trim_whitespace(values)
    filled = compute.if_else(compute.equal(trimmed, ""), pyarrow.scalar(None, trimmed.type), trimmed)
    for kind in (pyarrow.int64(), pyarrow.float64(), pyarrow.date32()):
        try:
            return filled.cast(kind)
        except pyarrow.ArrowException:
            continue
    raise InvalidData(
        f"column {name!r}: not all its values are numbers, or dates like 1987-03-12; give it a hierarchy instead"
    )


def _numpy(values: "pyarrow.Array") -> NDArray[Any]:
    """Values as numbers: dates and times as counts of their unit."""
    import pyarrow

    if pyarrow.types.is_null(values.type):
        return np.empty(0)
    if pyarrow.types.is_date32(values.type):
        values = values.cast(pyarrow.int32())
    elif pyarrow.types.is_temporal(values.type):
        values = values.cast(pyarrow.int64())
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return numbers


def _texts(numbers: NDArray[Any], kind: Any) -> list[str]:
    """How values are written: 20 and not 20.0, dates as dates."""
    import pyarrow

    if pyarrow.types.is_temporal(kind):
        counts = pyarrow.array(numbers, pyarrow.int32() if pyarrow.types.is_date32(kind) else pyarrow.int64())
        texts: list[str] = counts.cast(kind).cast(pyarrow.string()).to_pylist()
        return texts
    return [str(int(number)) if float(number).is_integer() else repr(float(number)) for number in numbers.tolist()]
