"""Mondrian for numbers and dates: boxes cut in two at medians, as long as both halves satisfy the model.

LeFevre, DeWitt, Ramakrishnan 2006 ("Mondrian multidimensional k-anonymity"), strict partitioning: every box is cut
along the column that is widest in it, relative to the whole column. All boxes of a depth are cut at once.

The best full-domain generalization: one level for each column, few rows suppressed, least information lost.

LeFevre, DeWitt, Ramakrishnan 2005 ("Incognito") and Kohlmayer, Prasser et al. 2012 ("Flash") search the same lattice;
here a bound on the loss leads, and classes are counted by rolling finer ones up.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Bools, Classes, Floats, Ints, numbered
from discreet.anonymity.hierarchy import TOP
from discreet.anonymity.recoding import Aim, Coded, DistinctRows, Levels, Recoding, firsts, nodes_of
from discreet.errors import InvalidData
from discreet.exact import Number, rational
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


MOST_NODES = 5_000_000
_TIE = 1e-12  # losses that differ by no more are equal: sums round
_MOST_KEPT = 1 << 23  # counted pieces that are kept for rolling up, over all nodes


def optimal(coded: Coded, model: Aim, *, suppression: Number) -> Recoding:
    """The full-domain generalization of least NCP that suppresses at most a share `suppression` of the rows.

    At a node of the lattice the rows of every class for which the (bound) model does not hold are suppressed. A node
    is *feasible* if these are at most ⌊suppression · rows⌋. Among all feasible nodes the result has the least NCP (a
    suppressed row costs 1), up to the rounding of floating-point sums; of equals, the one with the fewest levels in
    all, so that no finer node is as good, and of these the one that lifts later columns first. The order of the rows
    does not matter. A column that can have one value only keeps it: hiding it gains nothing.

    Guarantee: the model holds for every class of the result. Proof: all rows of the other classes are suppressed.

    What is left out cannot be better. Proof. Write g(v) for the mean cost of the cells at node v without suppression.
    (1) A row costs at most 1, so suppressing never lowers a cost: NCP(v) ≥ g(v). A node with g(v) > the least NCP
    found so far cannot improve on it. (2) A class at v is a union of classes at any finer node u ≤ v, so the rows in
    classes of fewer people than `model.least`, which no class of the model may have, are at u a superset of those at
    v. If at v they exceed the limit, no u ≤ v is feasible. For k-anonymity these are all the suppressed rows. (3) If
    nothing may be suppressed and the model is monotone, feasibility at u means that all classes at u satisfy it, hence
    their unions at v do: an infeasible v has no feasible u ≤ v. With suppression (3) would be wrong: the union of a
    class that holds with one that does not may fail, so only (1) and (2) are used.

    >>> from discreet.anonymity import Hierarchy
    >>> from discreet.anonymity.models import KAnonymity
    >>> table = {"sex": ["F", "M", "F", "M"], "age": [30, 31, 32, 34]}
    >>> ages = Hierarchy.intervals("age", low=30, high=39, widths=(5,))
    >>> coded = Coded.of(table, [Hierarchy.flat("sex", ["F", "M"]), ages])
    >>> best = optimal(coded, KAnonymity(2).bind(table), suppression=0)
    >>> best.table(table).to_pydict()
    {'sex': ['F', 'M', 'F', 'M'], 'age': ['30-34', '30-34', '30-34', '30-34']}
    >>> round(best.ncp, 4)
    0.2222
    """
    share = rational(suppression, "suppression", at_least=0, at_most=1)
    tuples = DistinctRows.of(coded, model)
    nodes_of(tuples.shape, MOST_NODES)
    limit = int(share * tuples.rows)
    search = _Search(tuples, limit)
    levels = search.run()
    if levels is None:
        raise InvalidData(_infeasible(tuples, limit))
    levels = tuple(level if h.leaves > 1 else 0 for h, level in zip(coded.hierarchies, levels, strict=True))
    return Recoding.full_domain(coded, levels, ~_held(tuples, levels)[tuples.of_row])


def _infeasible(tuples: DistinctRows, limit: int) -> str:
    name = tuples.aim.model.name
    fault = tuples.at_fault()
    why = f"; even all {tuples.rows} rows as one class do not satisfy {fault}" if fault else ""
    return f"no full-domain generalization satisfies {name} with at most {limit} of {tuples.rows} rows suppressed{why}"


def _held(tuples: DistinctRows, levels: Levels) -> Bools:
    """Whether the model holds for the class of each tuple at a node."""
    classes = Classes.numbered(tuples.cells(levels, np.arange(tuples.count)), weights=tuples.weights)
    return tuples.aim.holds(classes)[classes.of_row]


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The classes of a node, in parts: tuples that share a class and all that the model looks at are one piece.

    `members` has a tuple for each piece, `weights` its people, `of_piece` its class, `sizes` the people of classes.
    """

    members: Ints
    weights: Ints
    of_piece: Ints
    sizes: Ints


@dataclass(slots=True, eq=False)
class _Search:
    """The state of one search: the best node so far, the nodes that are still open, and counted classes."""

    tuples: DistinctRows
    limit: int
    best: float = np.inf
    levels: Levels | None = None
    open: "NDArray[np.bool_]" = field(init=False)
    counted: dict[Levels, _Pieces] = field(default_factory=dict)
    kept: int = 0

    def run(self) -> Levels | None:
        """First a quick descent to a good node, then every open node whose bound is below the best."""
        bounds = self.tuples.bounds()
        self.open = np.ones(bounds.shape, np.bool_)
        self._descend()
        order = np.argsort(bounds, axis=None, kind="stable")
        if self._prunes:  # from coarse to fine: an infeasible node closes all finer ones
            order = order[::-1]
        for place in order[bounds.ravel()[order] <= self.best + _TIE]:
            levels = tuple(int(level) for level in np.unravel_index(place, bounds.shape))
            if self.open[levels] and bounds[levels] <= self.best + _TIE:
                self._try(levels)
        return self.levels

    @property
    def _prunes(self) -> bool:
        model = self.tuples.aim.model
        return model.least > 1 or (model.monotone and not self.limit)

    def _descend(self) -> None:
        """From the coarsest node downwards, always to the feasible finer neighbor that saves most."""
        here: Levels | None = tuple(size - 1 for size in self.tuples.shape)
        if here is not None and not self._try(here):
            return
        while here is not None:
            here = next((finer for finer in self._finer(here) if self.open[finer] and self._try(finer)), None)

    def _finer(self, levels: Levels) -> list[Levels]:
        """The neighbors one level below, the greatest saving first."""
        savings = [
            (ladder.means[level - 1] - ladder.means[level], j)
            for j, (ladder, level) in enumerate(zip(self.tuples.ladders, levels, strict=True))
            if level
        ]
        return [tuple(level - (i == j) for i, level in enumerate(levels)) for _, j in sorted(savings)]

    def _try(self, levels: Levels) -> bool:
        """Judge a node: whether it is feasible. Keep it if it is the best so far; close what it rules out."""
        tuples, model = self.tuples, self.tuples.aim.model
        pieces = self._pieces(levels)
        classes = Classes(pieces.of_piece, pieces.sizes, pieces.weights)
        failing = ~tuples.aim.take(pieces.members).holds(classes)
        suppressed = int(pieces.sizes[failing].sum())
        self.open[levels] = False
        if suppressed > self.limit:
            small = int(pieces.sizes[pieces.sizes < model.least].sum())
            if small > self.limit or (model.monotone and not self.limit):
                self.open[tuple(slice(level + 1) for level in levels)] = False
            return False
        lost = failing[pieces.of_piece]
        saved = tuples.costs(levels, pieces.members[lost]) @ pieces.weights[lost]
        general = sum(ladder.means[level] for ladder, level in zip(tuples.ladders, levels, strict=True))
        cost = float(general + (suppressed - saved) / tuples.rows)
        if self.levels is None or cost < self.best - _TIE or (cost <= self.best + _TIE and _finer(levels, self.levels)):
            self.best, self.levels = min(cost, self.best), levels
        return True

    def _pieces(self, levels: Levels) -> _Pieces:
        """The classes of a node, rolled up from those of a finer node: the same with its highest levels lowered."""
        if levels in self.counted:
            return self.counted[levels]
        if not any(levels):
            pieces = _rolled(self.tuples, levels, np.arange(self.tuples.count), self.tuples.weights)
        else:
            below = max(levels) - 1
            finer = self._pieces(tuple(min(level, below) for level in levels))
            pieces = _rolled(self.tuples, levels, finer.members, finer.weights)
        if self.kept + len(pieces.members) <= _MOST_KEPT:
            self.counted[levels] = pieces
            self.kept += len(pieces.members)
        return pieces


def _finer(levels: Levels, others: Levels) -> bool:
    """Whether a node is to be preferred to another that costs as much."""
    return (sum(levels), levels) < (sum(others), others)


def _rolled(tuples: DistinctRows, levels: Levels, members: Ints, weights: Ints) -> _Pieces:
    """The pieces of a node, from tuples that stand for the pieces of a finer one."""
    cells = tuples.cells(levels, members)
    codes = tuples.aim.codes
    pieces = numbered([cells, *[code[members] for code in codes]]) if codes else cells
    people = np.bincount(pieces, weights).astype(np.int64)
    first = firsts(pieces, len(people))
    of_piece = cells[first]
    sizes = np.bincount(of_piece, people).astype(np.int64) if codes else people
    return _Pieces(members[first], people, of_piece, sizes)
