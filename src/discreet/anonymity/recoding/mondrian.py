"""Mondrian for numbers and dates: boxes cut in two at medians, as long as both halves satisfy the model.

LeFevre, DeWitt, Ramakrishnan 2006 ("Mondrian multidimensional k-anonymity"), strict partitioning: every box is cut
along the column that is widest in it, relative to the whole column. All boxes of a depth are cut at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Bools, Classes, Floats, Ints
from discreet.anonymity.hierarchy import TOP
from discreet.anonymity.recoding import Aim
from discreet.errors import InvalidData
from discreet.tables import column, read_table

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows in boxes: the classes, and for each column and class the lowest and the highest rank of its values."""

    axes: "tuple[Axis, ...]"
    classes: Classes
    low: Ints
    high: Ints

    @cached_property
    def ncp(self) -> float:
        """The normalized certainty penalty: how much of its column's range a cell covers, averaged over all cells."""
        widths = np.stack([axis.widths(*ends) for axis, *ends in zip(self.axes, self.low, self.high, strict=True)])
        return float((widths @ self.classes.sizes).sum() / (len(self.axes) * self.classes.sizes.sum()))

    def table(self, original: Any) -> "pyarrow.Table":
        """The table with its quasi-identifiers as ranges; `*` where only some values of a class are missing."""
        import pyarrow

        arrow = read_table(original)
        if arrow.num_rows != len(self.classes.of_row):
            raise InvalidData(f"the partition is of {len(self.classes.of_row)} rows, the table has {arrow.num_rows}")
        for axis, low, high in zip(self.axes, self.low, self.high, strict=True):
            labels = pyarrow.array(axis.labels(low, high), pyarrow.string()).take(self.classes.of_row)
            arrow = arrow.set_column(arrow.column_names.index(axis.name), axis.name, labels)
        return arrow


def partition(table: Any, names: Sequence[str], model: Aim) -> Partition:
    """Rows in boxes for each of which the (bound) model holds; no row is suppressed.

    A missing value is like a value of its own: rows with and without it are separated first, where the model allows.

    Guarantee: the model holds for every class. Proof: the whole table is judged, and a box is cut only if both halves
    are judged to satisfy the model; every class is the whole table or such a half.

    >>> from discreet.anonymity.models import KAnonymity
    >>> people = {"age": [23, 25, 61, 64, 38], "kg": [60, 80, 71, 72, 90]}
    >>> boxes = partition(people, ["age", "kg"], KAnonymity(2).bind(people))
    >>> boxes.table(people).to_pydict()["age"]
    ['[23–25]', '[23–25]', '[38–64]', '[38–64]', '[38–64]']
    """
    axes = axes_of(table, names)
    rows = len(axes[0].ranks)
    least, name = model.model.least, model.model.name
    if rows < least:
        raise InvalidData(f"the table has {rows} rows, but {name} needs classes of {least} or more")
    if not model.holds(Classes(np.zeros(rows, np.int64), np.array([rows])))[0]:
        raise InvalidData(f"not even all {rows} rows as one class satisfy {name}; lower the target")
    of_row = _Boxes.of(axes, model).run()
    order, starts = _ordered(of_row)
    low = np.stack([np.minimum.reduceat(axis.ranks[order], starts) for axis in axes]).astype(np.int64)
    high = np.stack([np.maximum.reduceat(axis.ranks[order], starts) for axis in axes]).astype(np.int64)
    return Partition(axes, Classes.numbered(of_row), low, high)


def _ordered(groups: Ints) -> tuple[Ints, Ints]:
    """Members in the order of their groups, and where each group starts."""
    order = np.argsort(groups, kind="stable")
    return order, np.flatnonzero(np.diff(groups[order], prepend=-1))


@dataclass(slots=True, eq=False)
class _Boxes:
    """The boxes that may still be cut: `rows` one box after the other, `starts` of boxes, columns tried in vain.

    `ranks` has a line for each column that can be cut: those of the axes, and for each axis with missing values one
    more that tells missing (0) from known (1).
    """

    axes: "tuple[Axis, ...]"
    ranks: NDArray[np.int32]
    model: Aim
    of_row: Ints
    rows: Ints
    starts: Ints
    tried: Bools
    done: int = 0

    @classmethod
    def of(cls, axes: "tuple[Axis, ...]", model: Aim) -> "_Boxes":
        """One box of all rows."""
        known = [(axis.ranks > 0).astype(np.int32) for axis in axes if (axis.ranks == 0).any()]
        ranks = np.stack([*[axis.ranks for axis in axes], *known])
        rows = np.arange(ranks.shape[1])
        none = np.zeros((len(ranks), 1), np.bool_)
        return cls(axes, ranks, model, np.full(len(rows), -1, np.int64), rows, np.zeros(1, np.int64), none)

    def run(self) -> Ints:
        """The class of each row."""
        while len(self.rows):
            widths = np.where(self.tried, 0.0, self._widths())
            self._finish((widths.max(axis=0) <= 0) | (self._sizes() < 2 * self.model.model.least), widths)
        return self.of_row

    def _sizes(self) -> Ints:
        return np.diff(self.starts, append=len(self.rows))

    def _widths(self) -> Floats:
        """How wide each box is along each column; separating missing values comes before anything else."""
        widths = np.empty((len(self.ranks), len(self.starts)))
        for j, ranks in enumerate(self.ranks):
            along = ranks[self.rows]
            low, high = np.minimum.reduceat(along, self.starts), np.maximum.reduceat(along, self.starts)
            widths[j] = self.axes[j].widths(low, high) if j < len(self.axes) else 2.0 * (high - low)
        return widths

    def _finish(self, final: Bools, widths: Floats) -> None:
        """Put the rows of final boxes into classes, and cut the others along their widest column."""
        sizes = self._sizes()
        ended = np.repeat(final, sizes)
        numbers = self.done + np.cumsum(final) - 1
        self.of_row[self.rows[ended]] = np.repeat(numbers[final], sizes[final])
        self.done += int(final.sum())
        self.rows, sizes = self.rows[~ended], sizes[~final]
        self.starts, self.tried = np.cumsum(sizes) - sizes, self.tried[:, ~final]
        if len(self.rows):
            self._cut(np.argmax(widths[:, ~final], axis=0), sizes)

    def _cut(self, columns: Ints, sizes: Ints) -> None:
        """Cut every box at the median of its column, where both halves satisfy the model."""
        boxes = np.repeat(np.arange(len(sizes)), sizes)
        span = int(self.ranks.max()) + 1
        keys = boxes * span + self.ranks[columns[boxes], self.rows]
        order = np.argsort(keys)
        keys, self.rows = keys[order], self.rows[order]
        cuts = _medians(keys, self.starts, sizes)
        right = np.arange(len(keys)) >= cuts[boxes]
        halves = Classes.numbered(2 * boxes + right)
        allowed = self.model.take(self.rows).holds(halves).reshape(-1, 2).all(axis=1)
        self.tried[columns[~allowed], ~allowed] = True
        self.tried[:, allowed] = False
        self.tried = np.repeat(self.tried, 1 + allowed, axis=1)
        self.starts = np.sort(np.concatenate([self.starts, cuts[allowed]]))


def _medians(keys: Ints, starts: Ints, sizes: Ints) -> Ints:
    """Where to cut sorted boxes: just below or just above the median value, whichever is nearer to the middle.

    A box has at least two values, so one of the two leaves both halves with rows; a cut at an end is never the nearer.
    """
    medians = keys[starts + sizes // 2]
    below, above = np.searchsorted(keys, medians, "left"), np.searchsorted(keys, medians, "right")
    twice = 2 * starts + sizes
    ends = starts + sizes
    lower = (above == ends) | ((below > starts) & (np.abs(2 * below - twice) <= np.abs(2 * above - twice)))
    cuts: Ints = np.where(lower, below, above)
    return cuts


# Columns of numbers or dates as ranks, and how a range is written


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
        values = _orderable(name, column(read_table(table), name))
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
    arrow = read_table(table)
    if not arrow.num_rows:
        raise InvalidData("the table has no rows")
    return tuple(Axis.of(arrow, name) for name in names)


def _orderable(name: str, chunks: "pyarrow.ChunkedArray") -> "pyarrow.Array":
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
