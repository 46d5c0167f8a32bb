"""Tables of codes and their marginals: how many rows have each combination of codes in a few columns.

A table is an integer array (rows, columns); column j holds codes 0 … sizes[j] − 1. A marginal is named by its columns'
positions, ascending.

`Allowed` says what is known about every row without looking at any: combinations of codes that cannot occur.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

Attributes = tuple[int, ...]
Floats = NDArray[np.float64]
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
    found = tuple(integer(attribute, "attributes", at_least=0, at_most=len(sizes) - 1) for attribute in attributes)
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
    return math.prod(sizes[attribute] for attribute in attributes)


def counts(codes: NDArray[Any], sizes: Sequence[int], attributes: Attributes) -> Ints:
    """How many rows fall into each cell, exactly.

    >>> counts(np.array([[0, 1], [0, 1], [1, 0]]), (2, 2), (0, 1)).tolist()
    [[0, 2], [1, 0]]
    """
    shape = tuple(sizes[attribute] for attribute in attributes)
    flat = np.zeros(len(codes), np.int64)
    for attribute, size in zip(attributes, shape, strict=True):
        flat *= size
        flat += codes[:, attribute]
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def ones(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every column by itself."""
    return tuple((attribute,) for attribute in range(len(sizes)))


def pairs(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every pair of columns that have more than one code each.

    >>> pairs((2, 1, 3, 2))
    ((0, 2), (0, 3), (2, 3))
    """
    return tuple(combinations([attribute for attribute, size in enumerate(sizes) if size > 1], 2))


def triples(sizes: Sequence[int], *, most_cells: int, target: int | None = None) -> tuple[Attributes, ...]:
    """Every triple of columns (with the target among them, if one is named) of at most so many cells.

    >>> triples((2, 3, 4, 5), most_cells=40, target=0)
    ((0, 1, 2), (0, 1, 3), (0, 2, 3))
    """
    live = [attribute for attribute, size in enumerate(sizes) if size > 1]
    found = (each for each in combinations(live, 3) if target is None or target in each)
    return tuple(each for each in found if cells(each, sizes) <= most_cells)


class Model(Protocol):
    """A fitted table: what it expects in each cell of any marginal."""

    @property
    def total(self) -> float:
        """The number of rows."""
        ...

    def marginal(self, attributes: Attributes) -> Floats:
        """The counts expected in each cell."""
        ...


Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which combinations of codes of some columns may occur; the others are structural zeros. Public knowledge.

    >>> married_children = Allowed((0, 1), np.array([[True, False], [True, True]]), (2, 2))
    >>> married_children.holds(np.array([[0, 0], [0, 1]])).tolist()
    [True, False]
    """

    attributes: Attributes
    table: Bools

    def __init__(self, attributes: Sequence[int], table: Any, sizes: Sequence[int]) -> None:
        named = checked_attributes(attributes, sizes)
        cells = np.asarray(table)
        shape = tuple(sizes[attribute] for attribute in named)
        if cells.dtype != np.bool_ or cells.shape != shape:
            raise InvalidParameter("table", f"{cells.dtype} of shape {cells.shape}", f"booleans of shape {shape}")
        if not cells.any():
            raise InvalidParameter("table", "nothing allowed", "one combination at least")
        object.__setattr__(self, "attributes", named)
        object.__setattr__(self, "table", cells)

    def holds(self, codes: NDArray[Any]) -> Bools:
        """Which rows satisfy it."""
        return np.asarray(self.table[tuple(codes[:, attribute] for attribute in self.attributes)])


def at_most(
    first: int, second: int, sizes: Sequence[int], *, lower: Any = None, upper: Any = None, missing: bool = False
) -> Allowed:
    """A ≤ B for two ordered columns: a pair of codes is allowed where some value of A's is ≤ some value of B's.

    By default the codes are compared. `lower[i]` is the least value of A with code i and `upper[j]` the greatest of B
    with code j, where their bins differ. If `missing`, the last code of each column means missing and goes with all.

    >>> at_most(0, 1, (3, 3)).table.astype(int).tolist()
    [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    """
    if first == second:
        raise InvalidParameter("second", second, f"another column than {first}")
    checked_attributes(sorted((first, second)), sizes)
    low = np.arange(sizes[first]) if lower is None else np.asarray(lower)
    high = np.arange(sizes[second]) if upper is None else np.asarray(upper)
    if low.shape != (sizes[first],) or high.shape != (sizes[second],):
        raise InvalidParameter(
            "lower", f"{low.shape} and {high.shape}", f"{sizes[first]} numbers, and {sizes[second]} for upper"
        )
    table = low[:, None] <= high[None, :]
    if missing:
        table[-1, :] = table[:, -1] = True
    return Allowed(sorted((first, second)), table if first < second else table.T, sizes)


def groups(allowed: Sequence[Allowed]) -> list[tuple[list[int], list[Allowed]]]:
    """Constraints that share columns, directly or through others, together with all their columns.

    >>> chain = [at_most(0, 1, (2, 2, 2, 2)), at_most(1, 3, (2, 2, 2, 2))]
    >>> [columns for columns, _ in groups(chain)]
    [[0, 1, 3]]
    """
    found: list[tuple[set[int], list[Allowed]]] = []
    for rule in allowed:
        touching = [group for group in found if group[0] & set(rule.attributes)]
        columns = set(rule.attributes).union(*(group[0] for group in touching))
        together = [each for group in touching for each in group[1]]
        found = [group for group in found if not any(group is other for other in touching)]
        found.append((columns, [*together, rule]))
    return [(sorted(columns), together) for columns, together in found]
