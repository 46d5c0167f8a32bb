"""Rows that look the same: the equivalence classes of a table, and how often each sensitive value occurs in them.

Everything is counted, not compared, and no Python loop runs over classes.

>>> import numpy as np
>>> from discreet.anonymity import Classes
>>> classes = Classes.of([np.array([0, 1, 0, 1]), np.array([5, 5, 5, 6])])
>>> classes.of_row.tolist(), classes.sizes.tolist()
([0, 1, 0, 2], [2, 1, 1])
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.hierarchy import TOP, Hierarchy
from discreet.errors import InvalidData, InvalidParameter
from discreet.tables import column, read_table, texts

if TYPE_CHECKING:
    import pyarrow

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_MOST_KEYS = 1 << 62
_DENSE = 4  # a table of counts may be this many times longer than the rows
_DENSE_CELLS = 8  # and one of all classes × values


@dataclass(frozen=True, slots=True, eq=False)
class Classes:
    """The class of each row (−1: a suppressed row, which is in no class), and how many people each class holds.

    `weights`, where given, says how many people one row stands for (rows of equal values may be collapsed).
    """

    of_row: Ints
    sizes: Ints
    weights: Ints | None = None

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.sizes)

    @classmethod
    def of(
        cls,
        columns: Sequence[NDArray[Any]],
        *,
        suppressed: NDArray[np.bool_] | None = None,
        weights: Ints | None = None,
    ) -> "Classes":
        """The classes of rows given as columns of whole numbers ≥ 0; numbered in ascending order of the values."""
        if not columns:
            raise InvalidData("classes need at least one column")
        keys = numbered(columns)
        if suppressed is not None and suppressed.any():
            kept = ~suppressed
            of_row = np.full(len(keys), -1, np.int64)
            _, of_row[kept] = np.unique(keys[kept], return_inverse=True)
        else:
            of_row = keys
        return cls.numbered(of_row, weights=weights)

    @classmethod
    def numbered(cls, of_row: Ints, *, weights: Ints | None = None) -> "Classes":
        """Classes that are numbered 0, 1, 2, … already, −1 for suppressed rows."""
        kept = of_row if not of_row.size or of_row.min() >= 0 else of_row[of_row >= 0]
        people = None if weights is None else (weights if kept is of_row else weights[of_row >= 0])
        sizes = np.bincount(kept) if people is None else np.bincount(kept, people)
        return cls(of_row, sizes.astype(np.int64), weights)

    @classmethod
    def of_table(cls, table: Any, names: Sequence[str], *, suppressed: NDArray[np.bool_] | None = None) -> "Classes":
        """The classes of a released table. Rows with `*` in every column are suppressed rows, never a class.

        >>> released = {"zip": ["130**", "130**", "*"], "age": ["<30", "<30", "*"]}
        >>> Classes.of_table(released, ["zip", "age"]).sizes.tolist()
        [2]
        """
        arrow = read_table(table)
        if not names:
            raise InvalidData("classes need at least one column: name the quasi-identifiers")
        columns, hidden = [], np.ones(arrow.num_rows, bool)
        for name in names:
            encoded = texts(column(arrow, name)).dictionary_encode()
            codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
            top = np.array([text == TOP for text in encoded.dictionary.to_pylist()] or [False])
            columns.append(codes)
            hidden &= top[codes]
        if suppressed is not None:
            hidden |= suppressed
        return cls.of(columns, suppressed=hidden)


def numbered(columns: Sequence[NDArray[Any]]) -> Ints:
    """Rows numbered by their values: equal rows get equal numbers, 0, 1, 2, … in ascending order of the values.

    >>> numbered([np.array([7, 3, 7])]).tolist()
    [1, 0, 1]
    """
    keys = np.zeros(len(columns[0]), np.int64)
    span = 1
    for values in columns:
        size = int(values.max()) + 1 if values.size else 1
        if span * size > _MOST_KEYS:
            keys, span = _compact(keys, span)
        keys, span = keys * size + values, span * size
    return _compact(keys, span)[0]


def _compact(keys: Ints, span: int) -> tuple[Ints, int]:
    """Keys renumbered without gaps, in the same order; and how many there are."""
    if span <= _DENSE * len(keys) + 1024:
        present = np.bincount(keys, minlength=1) > 0
        return (np.cumsum(present) - 1)[keys], int(present.sum())
    distinct, places = np.unique(keys, return_inverse=True)
    return places.astype(np.int64), len(distinct)


# Sensitive values


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The pairs (class, value) that occur, by class and then by value; and how many people each holds.

    `known` is how many people of each class have a known value: a missing value is in no cell. Only what occurs is
    kept, so a column of ten thousand values over a hundred thousand classes costs no more than its rows.

    >>> cells = Cells.of(Classes.of([np.array([0, 0, 0, 1])]), np.array([2, 2, 0, 1]), 3)
    >>> cells.of_class.tolist(), cells.value.tolist(), cells.people.tolist()
    ([0, 0, 1], [0, 2, 1], [1, 2, 1])
    """

    of_class: Ints
    value: Ints
    people: Ints
    known: Ints

    @classmethod
    def of(cls, classes: Classes, codes: NDArray[Any], values: int) -> "Cells":
        """The cells of a column whose values are numbered 0 … values − 1, −1 where missing."""
        kept = (classes.of_row >= 0) & (codes >= 0)
        whole = bool(kept.all())
        of_row, of_value = (classes.of_row, codes) if whole else (classes.of_row[kept], codes[kept])
        weights = classes.weights if classes.weights is None or whole else classes.weights[kept]
        keys = of_row * values + of_value
        distinct, people = _counted(keys, weights, classes.count * values)
        of_class, value = np.divmod(distinct, values)
        return cls(of_class, value, people, _total(of_class, people, classes.count))

    @classmethod
    def of_counts(cls, counts: NDArray[Any]) -> "Cells":
        """The cells of a matrix classes × values of counts.

        >>> Cells.of_counts(np.array([[3, 1], [0, 2]])).known.tolist()
        [4, 2]
        """
        of_class, value = np.nonzero(counts)
        people = counts[of_class, value].astype(np.int64)
        return cls(of_class, value, people, _total(of_class, people, len(counts)))

    @property
    def count(self) -> int:
        """How many classes there are."""
        return len(self.known)

    @property
    def shares(self) -> Floats:
        """The share of each cell among the known values of its class."""
        return self.people / self.known[self.of_class]

    @property
    def distinct(self) -> Ints:
        """How many different values each class has."""
        return np.bincount(self.of_class, minlength=self.count).astype(np.int64)

    def total(self, amounts: NDArray[Any]) -> Floats:
        """The sum over the cells of each class."""
        return np.bincount(self.of_class, amounts, minlength=self.count).astype(np.float64)

    def largest(self, amounts: NDArray[Any], empty: float = 0) -> NDArray[Any]:
        """The largest over the cells of each class; `empty` for a class without known values.

        >>> Cells.of_counts(np.array([[3, 1], [0, 0]])).largest(np.array([3, 1]), -1).tolist()
        [3, -1]
        """
        starts = np.searchsorted(self.of_class, np.arange(self.count))
        filled = self.known > 0
        out = np.full(self.count, empty, amounts.dtype)
        if filled.any():
            out[filled] = np.maximum.reduceat(amounts, starts[filled])
        return out

    def tail(self, top: int) -> Ints:
        """How many people of each class have none of its `top` most frequent values.

        >>> Cells.of_counts(np.array([[3, 1, 2], [0, 2, 0]])).tail(1).tolist()
        [3, 0]
        """
        order = np.lexsort((-self.people, self.of_class))
        starts = np.searchsorted(self.of_class, np.arange(self.count))
        place = np.arange(len(order)) - starts[self.of_class]
        first = _total(self.of_class, np.where(place < top, self.people[order], 0), self.count)
        return np.asarray(np.maximum(self.known - first, 0))  # a person of several values may be counted twice above

    def coarser(self, nodes: NDArray[Any], values: int) -> "Cells":
        """The same people, each value replaced by its node."""
        keys = self.of_class * values + nodes[self.value]
        distinct, places = np.unique(keys, return_inverse=True)
        people: Any = np.bincount(places, self.people, minlength=len(distinct)).astype(self.people.dtype)
        of_class, value = np.divmod(distinct, values)
        return Cells(of_class, value, people, self.known)


def _counted(keys: Ints, weights: Ints | None, span: int) -> tuple[Ints, Ints]:
    """The keys that occur, ascending, and how many people each holds."""
    if span <= _DENSE_CELLS * len(keys) + 1024:
        dense = np.bincount(keys, weights, minlength=1)
        distinct = np.flatnonzero(dense)
        return distinct, dense[distinct].astype(np.int64)
    if weights is None:
        distinct, people = np.unique(keys, return_counts=True)
        return distinct, people.astype(np.int64)
    distinct, places = np.unique(keys, return_inverse=True)
    return distinct, np.bincount(places, weights, minlength=len(distinct)).astype(np.int64)


def _total(groups: Ints, amounts: Ints, count: int) -> Ints:
    return np.bincount(groups, amounts, minlength=count).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Sensitive:
    """A sensitive column: each row's value as a number (−1: missing), and each value's share among the known ones.

    A missing value (null, NaN, an empty text) is not a value: it never makes a class more diverse. Where it matters
    that a value is missing, write it as a value of its own ("not asked") before anonymizing.

    >>> disease = Sensitive.of({"disease": ["flu", "flu", "cancer", None]}, "disease")
    >>> disease.codes.tolist(), disease.values, disease.shares.round(2).tolist()
    ([0, 0, 1, -1], 2, [0.67, 0.33])
    """

    name: str
    codes: Ints
    shares: Floats

    @property
    def values(self) -> int:
        """How many values the column can have."""
        return len(self.shares)

    @property
    def present(self) -> int:
        """How many different values the table holds."""
        return int(np.count_nonzero(self.shares))

    @classmethod
    def of(cls, table: Any, name: str) -> "Sensitive":
        """A column, its values in the order in which they appear."""
        encoded = _with_nulls(table, name).dictionary_encode()
        return _column(name, _indices(encoded), len(encoded.dictionary))

    @classmethod
    def ordered(cls, table: Any, name: str, order: Sequence[Any] | None = None) -> "Sensitive":
        """A column whose values have an order: numbers, dates, texts of numbers; or the order that is given.

        >>> Sensitive.ordered({"pay": ["9000", "10000", "9000"]}, "pay").codes.tolist()
        [0, 1, 0]
        >>> Sensitive.ordered({"stage": ["late", "early"]}, "stage", ["early", "middle", "late"]).codes.tolist()
        [2, 0]
        """
        known = _with_nulls(table, name)
        if order is not None:
            return _listed(name, known, order)
        encoded = known.dictionary_encode()
        places = np.argsort(_amounts(name, encoded.dictionary), kind="stable")
        rank = np.empty(len(places) + 1, np.int64)
        rank[places], rank[-1] = np.arange(len(places)), -1
        return _column(name, rank[_indices(encoded)], len(places))

    @classmethod
    def within(cls, table: Any, name: str, hierarchy: Hierarchy) -> "Sensitive":
        """A column whose values are the leaves of a hierarchy."""
        from pyarrow import compute

        known = _with_nulls(table, name)
        label = hierarchy.labels[0][0]  # where a value is missing: so that an error counts the rows as the table does
        leaves = hierarchy.code(compute.if_else(known.is_null(), label, texts(known)))
        codes = np.where(np.asarray(known.is_null()), -1, leaves).astype(np.int64)
        return _column(name, codes, hierarchy.leaves)

    def take(self, rows: NDArray[Any]) -> "Sensitive":
        """Some of the rows; the shares stay those of the whole table."""
        return replace(self, codes=self.codes[rows])


def rows_of(table: Any) -> "pyarrow.Table":
    """A table that has rows."""
    arrow = read_table(table)
    if not arrow.num_rows:
        raise InvalidData("the table has no rows")
    return arrow


def _with_nulls(table: Any, name: str) -> "pyarrow.Array":
    """The column with everything that means "missing" as null."""
    import pyarrow
    from pyarrow import compute

    values = column(rows_of(table), name).combine_chunks()
    if isinstance(values, pyarrow.ChunkedArray):  # what combine_chunks gives for no chunks
        values = pyarrow.concat_arrays(values.chunks)
    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pyarrow.types.is_floating(values.type):
        missing = compute.is_nan(values)
    elif pyarrow.types.is_string(values.type) or pyarrow.types.is_large_string(values.type):
        missing = compute.equal(values, "")
    else:
        missing = None
    if missing is not None:
        values = compute.if_else(missing, pyarrow.scalar(None, values.type), values)
    if values.null_count == len(values):
        raise InvalidData(f"sensitive column {name!r}: every value is missing; there is nothing to protect in it")
    return values


def _indices(encoded: "pyarrow.DictionaryArray") -> Ints:
    return np.asarray(encoded.indices.fill_null(-1)).astype(np.int64)


def _column(name: str, codes: Ints, values: int) -> Sensitive:
    counts = np.bincount(codes[codes >= 0], minlength=values)
    return Sensitive(name, codes, counts / counts.sum())


def _amounts(name: str, values: "pyarrow.Array") -> NDArray[Any]:
    """Something that sorts as the values do."""
    import pyarrow

    is_ = pyarrow.types
    if is_.is_integer(values.type) or is_.is_floating(values.type) or is_.is_boolean(values.type):
        return np.asarray(values)
    if is_.is_temporal(values.type) or is_.is_decimal(values.type):
        return np.array(values.to_pylist(), object)
    try:
        amounts = np.asarray(values.cast(pyarrow.float64()))
    except pyarrow.ArrowException:
        amounts = np.array([np.nan])
    if not np.isfinite(amounts).all():
        raise InvalidData(
            f"sensitive column {name!r}: its values are texts without an order; give the order, lowest first, "
            'or use the distance "equal" or "hierarchical"'
        )
    return amounts


def _listed(name: str, known: "pyarrow.Array", order: Sequence[Any]) -> Sensitive:
    labels = texts(list(order)).to_pylist()
    if not labels or len(set(labels)) != len(labels):
        raise InvalidParameter("order", f"{len(labels)} values", f"the different values of {name!r}, lowest first")
    flat = Hierarchy.rows(name, [(label,) for label in labels])
    return Sensitive.within({name: texts(known)}, name, flat)
