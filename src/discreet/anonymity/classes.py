"""Rows that look the same: the equivalence classes of a table, found by counting, not by comparing.

>>> import numpy as np
>>> from discreet.anonymity import Classes
>>> classes = Classes.of([np.array([0, 1, 0, 1]), np.array([5, 5, 5, 6])])
>>> classes.of_row.tolist(), classes.sizes.tolist()
([0, 1, 0, 2], [2, 1, 1])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.hierarchy import TOP
from discreet.errors import InvalidData
from discreet.tables import as_arrow, column, texts

Ints = NDArray[np.int64]
_MOST_KEYS = 1 << 62
_DENSE = 4  # a table of counts may be this many times longer than the rows


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
        arrow = as_arrow(table)
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
    found, places = np.unique(keys, return_inverse=True)
    return places.astype(np.int64), len(found)
