"""What is known about every row without looking at any: combinations of codes that cannot occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.synthetic.marginals import Attributes, checked_attributes

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
        shape = tuple(sizes[one] for one in named)
        if cells.dtype != np.bool_ or cells.shape != shape:
            raise InvalidParameter("table", f"{cells.dtype} of shape {cells.shape}", f"booleans of shape {shape}")
        if not cells.any():
            raise InvalidParameter("table", "nothing allowed", "one combination at least")
        object.__setattr__(self, "attributes", named)
        object.__setattr__(self, "table", cells)

    def holds(self, codes: NDArray[Any]) -> Bools:
        """Which rows satisfy it."""
        return np.asarray(self.table[tuple(codes[:, one] for one in self.attributes)])


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
    for one in allowed:
        touching = [group for group in found if group[0] & set(one.attributes)]
        columns = set(one.attributes).union(*(group[0] for group in touching))
        together = [each for group in touching for each in group[1]]
        found = [group for group in found if not any(group is other for other in touching)]
        found.append((columns, [*together, one]))
    return [(sorted(columns), together) for columns, together in found]
