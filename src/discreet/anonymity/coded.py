"""Quasi-identifiers as numbers, and what an algorithm makes of them.

`Coded` holds the leaf of every cell; a `Recoding` says to which node of its hierarchy each cell was lifted and which
rows were suppressed. Every algorithm takes the one and gives the other.

>>> from discreet.anonymity import Coded, Hierarchy
>>> coded = Coded.of({"sex": ["F", "M", "F"]}, [Hierarchy.flat("sex", ["F", "M"])])
>>> coded.codes.tolist(), coded.rows
([[0, 1, 0]], 3)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes
from discreet.anonymity.hierarchy import TOP, Codes, Hierarchy
from discreet.errors import InvalidData
from discreet.tables import as_arrow, column

if TYPE_CHECKING:
    import pyarrow


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """The quasi-identifiers of a table: `codes[column, row]` is a leaf of `hierarchies[column]`."""

    hierarchies: tuple[Hierarchy, ...]
    codes: Codes

    @classmethod
    def of(cls, table: Any, hierarchies: Sequence[Hierarchy]) -> "Coded":
        """The columns that the hierarchies name."""
        arrow = as_arrow(table)
        if not hierarchies:
            raise InvalidData("no quasi-identifiers: name at least one column, with its hierarchy")
        if not arrow.num_rows:
            raise InvalidData("the table has no rows")
        codes = [hierarchy.code(column(arrow, hierarchy.name)) for hierarchy in hierarchies]
        return cls(tuple(hierarchies), np.ascontiguousarray(codes, np.int32))

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return int(self.codes.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(hierarchy.name for hierarchy in self.hierarchies)

    def lifted(self, levels: Sequence[int]) -> Codes:
        """All cells lifted, a level for each column: the node of each cell at that level."""
        return np.stack(
            [h.codes[level][codes] for h, level, codes in zip(self.hierarchies, levels, self.codes, strict=True)]
        )


@dataclass(frozen=True, slots=True, eq=False)
class Recoding:
    """What an algorithm made: the level to which each cell was lifted (columns × rows), and the suppressed rows."""

    coded: Coded
    levels: NDArray[np.int8]
    suppressed: NDArray[np.bool_]

    @classmethod
    def full_domain(cls, coded: Coded, levels: Sequence[int], suppressed: NDArray[np.bool_]) -> "Recoding":
        """One level for each whole column."""
        grid = np.repeat(np.array(levels, np.int8)[:, None], coded.rows, axis=1)
        return cls(coded, grid, suppressed)

    @property
    def nodes(self) -> Codes:
        """The node of each cell, numbered within its level (columns × rows)."""
        nodes = np.empty_like(self.coded.codes)
        for place, hierarchy in enumerate(self.coded.hierarchies):
            stacked = np.stack(hierarchy.codes)
            nodes[place] = stacked[self.levels[place], self.coded.codes[place]]
        return nodes

    @property
    def classes(self) -> Classes:
        """The classes of the released rows; suppressed rows are in none."""
        return Classes.of([*self.levels.astype(np.int64), *self.nodes], suppressed=self.suppressed)

    @property
    def ncp(self) -> float:
        """The normalized certainty penalty averaged over all cells; every cell of a suppressed row costs 1.

        >>> coded = Coded.of({"sex": ["F", "M", "F"]}, [Hierarchy.flat("sex", ["F", "M"])])
        >>> Recoding.full_domain(coded, [0], np.array([False, True, False])).ncp
        0.3333333333333333
        """
        return float(np.where(self.suppressed, 1.0, self.costs).mean())

    @property
    def costs(self) -> NDArray[np.float64]:
        """The penalty of each cell (columns × rows), before suppression."""
        costs = np.empty(self.levels.shape)
        for place, hierarchy in enumerate(self.coded.hierarchies):
            of_leaf = np.stack([hierarchy.cost(level)[hierarchy.codes[level]] for level in range(hierarchy.height + 1)])
            costs[place] = of_leaf[self.levels[place], self.coded.codes[place]]
        return costs

    def table(self, original: Any) -> "pyarrow.Table":
        """The table with its quasi-identifiers coarsened; in a suppressed row each of them is `*`."""
        import pyarrow

        arrow = as_arrow(original)
        if arrow.num_rows != self.coded.rows:
            raise InvalidData(f"the recoding is of {self.coded.rows} rows, the table has {arrow.num_rows}")
        for place, hierarchy in enumerate(self.coded.hierarchies):
            labels, starts = _labels(hierarchy)
            stacked = np.stack(hierarchy.codes)
            cells = starts[self.levels[place]] + stacked[self.levels[place], self.coded.codes[place]]
            cells = np.where(self.suppressed, len(labels) - 1, cells)
            texts = pyarrow.DictionaryArray.from_arrays(
                pyarrow.array(cells, pyarrow.int32()), labels
            ).dictionary_decode()
            arrow = arrow.set_column(arrow.column_names.index(hierarchy.name), hierarchy.name, texts)
        return arrow


def _labels(hierarchy: Hierarchy) -> tuple[list[str], NDArray[np.int64]]:
    """The labels of all levels one after the other, `*` last, and where each level starts."""
    starts = np.cumsum([0, *[len(level) for level in hierarchy.labels]])[:-1]
    return [label for level in hierarchy.labels for label in level] + [TOP], starts
