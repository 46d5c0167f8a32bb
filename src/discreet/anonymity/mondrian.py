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

from discreet.anonymity.axes import Axis, Floats, Ints, axes_of
from discreet.anonymity.classes import Classes
from discreet.anonymity.tuples import Aim, Bools
from discreet.errors import InvalidData
from discreet.tables import as_arrow

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows in boxes: the classes, and for each column and class the lowest and the highest rank of its values."""

    axes: tuple[Axis, ...]
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

        arrow = as_arrow(original)
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

    axes: tuple[Axis, ...]
    ranks: NDArray[np.int32]
    model: Aim
    of_row: Ints
    rows: Ints
    starts: Ints
    tried: Bools
    done: int = 0

    @classmethod
    def of(cls, axes: tuple[Axis, ...], model: Aim) -> "_Boxes":
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
