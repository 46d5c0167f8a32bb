"""How often each sensitive value occurs in each class: what every model beyond k-anonymity looks at.

Only what occurs is kept, so a column of ten thousand values over a hundred thousand classes costs no more than its
rows. No Python loop runs over classes.

>>> import numpy as np
>>> from discreet.anonymity import Classes
>>> from discreet.anonymity.cells import Cells
>>> cells = Cells.of(Classes.of([np.array([0, 0, 0, 1])]), np.array([2, 2, 0, 1]), 3)
>>> cells.of_class.tolist(), cells.value.tolist(), cells.people.tolist()
([0, 0, 1], [0, 2, 1], [1, 2, 1])
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
_DENSE = 8  # a table of all classes × values may be this many times longer than the rows


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The pairs (class, value) that occur, by class and then by value; and how many people each holds.

    `known` is how many people of each class have a known value: a missing value is in no cell.
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
        found, people = _counted(keys, weights, classes.count * values)
        of_class, value = np.divmod(found, values)
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
        found, places = np.unique(keys, return_inverse=True)
        people: Any = np.bincount(places, self.people, minlength=len(found)).astype(self.people.dtype)
        of_class, value = np.divmod(found, values)
        return Cells(of_class, value, people, self.known)


def _counted(keys: Ints, weights: Ints | None, span: int) -> tuple[Ints, Ints]:
    """The keys that occur, ascending, and how many people each holds."""
    if span <= _DENSE * len(keys) + 1024:
        dense = np.bincount(keys, weights, minlength=1)
        found = np.flatnonzero(dense)
        return found, dense[found].astype(np.int64)
    if weights is None:
        found, people = np.unique(keys, return_counts=True)
        return found, people.astype(np.int64)
    found, places = np.unique(keys, return_inverse=True)
    return found, np.bincount(places, weights, minlength=len(found)).astype(np.int64)


def _total(groups: Ints, amounts: Ints, count: int) -> Ints:
    return np.bincount(groups, amounts, minlength=count).astype(np.int64)
