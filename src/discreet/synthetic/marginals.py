"""Tables of codes and their marginals: how many rows have each combination of codes in a few columns.

A table is an integer array (rows, columns); column j holds codes 0 … sizes[j] − 1. A marginal is named by its columns'
positions, ascending.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

Attributes = tuple[int, ...]
Ints = NDArray[np.int64]

MOST_COLUMNS = 1000
MOST_CELLS = 10**7
"""Cells of one marginal."""


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The number of codes of each column.

    >>> checked_sizes([2, 3])
    (2, 3)
    """
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Sequence) or not 0 < len(sizes) <= MOST_COLUMNS:
        raise InvalidParameter("sizes", sizes, f"the number of codes of 1 to {MOST_COLUMNS} columns")
    return tuple(integer(size, "sizes", at_least=1, at_most=MOST_CELLS) for size in sizes)


def checked_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """A table of codes that fits the sizes; the message of a refusal names a column and no value.

    >>> checked_codes([[0, 2], [1, 0]], (2, 3)).shape
    (2, 2)
    """
    table, exact = np.asarray(codes), checked_sizes(sizes)
    if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[1] != len(exact):
        expected = f"whole numbers in {len(exact)} columns"
        raise InvalidData(f"codes of shape {table.shape} and type {table.dtype}, expected {expected}")
    for column, size in enumerate(exact):
        if len(table) and not (table[:, column].min() >= 0 and table[:, column].max() < size):
            raise InvalidData(f"column {column} holds codes outside of 0 … {size - 1}")
    return table


def checked_attributes(attributes: Iterable[int], sizes: Sequence[int]) -> Attributes:
    """The columns of a marginal: positions, ascending, of a marginal that is not too large.

    >>> checked_attributes([0, 2], (2, 3, 4))
    (0, 2)
    """
    found = tuple(integer(one, "attributes", at_least=0, at_most=len(sizes) - 1) for one in attributes)
    if not found or list(found) != sorted(set(found)):
        raise InvalidParameter("attributes", found, "one or more column positions, ascending, each once")
    if cells(found, sizes) > MOST_CELLS:
        hint = "leave a column out, or give it fewer codes"
        raise InvalidParameter("attributes", found, f"a marginal of at most {MOST_CELLS:,} cells", hint)
    return found


def cells(attributes: Attributes, sizes: Sequence[int]) -> int:
    """How many cells the marginal of these columns has.

    >>> cells((0, 2), (2, 3, 4))
    8
    """
    return math.prod(sizes[one] for one in attributes)


def counts(codes: NDArray[Any], sizes: Sequence[int], attributes: Attributes) -> Ints:
    """How many rows fall into each cell, exactly.

    >>> counts(np.array([[0, 1], [0, 1], [1, 0]]), (2, 2), (0, 1)).tolist()
    [[0, 2], [1, 0]]
    """
    shape = tuple(sizes[one] for one in attributes)
    flat = np.zeros(len(codes), np.int64)
    for one, size in zip(attributes, shape, strict=True):
        flat *= size
        flat += codes[:, one]
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def ones(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every column by itself."""
    return tuple((one,) for one in range(len(sizes)))


def pairs(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every pair of columns that have more than one code each.

    >>> pairs((2, 1, 3, 2))
    ((0, 2), (0, 3), (2, 3))
    """
    return tuple(combinations([one for one, size in enumerate(sizes) if size > 1], 2))


def triples(sizes: Sequence[int], *, most_cells: int, target: int | None = None) -> tuple[Attributes, ...]:
    """Every triple of columns (with the target among them, if one is named) of at most so many cells.

    >>> triples((2, 3, 4, 5), most_cells=40, target=0)
    ((0, 1, 2), (0, 1, 3), (0, 2, 3))
    """
    live = [one for one, size in enumerate(sizes) if size > 1]
    found = (each for each in combinations(live, 3) if target is None or target in each)
    return tuple(each for each in found if cells(each, sizes) <= most_cells)
