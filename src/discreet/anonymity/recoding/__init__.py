"""Quasi-identifiers as numbers, the distinct rows that a search counts, and what it makes of them.

`Coded` holds the leaf of every cell; a `Recoding` says to which node of its hierarchy each cell was lifted and which
rows were suppressed. Every algorithm of this package takes the one and gives the other.

Rows that agree in every quasi-identifier, and in everything that the privacy model looks at, are one *tuple* with a
weight (`DistinctRows`). A *node* of the generalization lattice gives each column a level; at a node, tuples of equal
cells are a class.

>>> from discreet.anonymity import Coded, Hierarchy
>>> coded = Coded.of({"sex": ["F", "M", "F"]}, [Hierarchy.flat("sex", ["F", "M"])])
>>> coded.codes.tolist(), coded.rows
([[0, 1, 0]], 3)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, Floats, Ints, numbered
from discreet.anonymity.hierarchy import TOP, Codes, Hierarchy
from discreet.anonymity.models import Bound, BoundTarget
from discreet.errors import InvalidData
from discreet.tables import column, read_table

if TYPE_CHECKING:
    import pyarrow

Levels = tuple[int, ...]
Aim = Bound | BoundTarget
"""A privacy model, or several, bound to the table."""


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """The quasi-identifiers of a table: `codes[column, row]` is a leaf of `hierarchies[column]`."""

    hierarchies: tuple[Hierarchy, ...]
    codes: Codes

    @classmethod
    def of(cls, table: Any, hierarchies: Sequence[Hierarchy]) -> "Coded":
        """The columns that the hierarchies name."""
        arrow = read_table(table)
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

        arrow = read_table(original)
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


# Distinct rows


@dataclass(frozen=True, slots=True, eq=False)
class Ladder:
    """One column as the search sees it: the node of each leaf (without gaps) and its cost, both levels × leaves.

    Costs are shares of the whole row: the penalty of the node divided by the number of columns. `means` are their
    weighted means over the rows: what it costs to lift the whole column to each level.
    """

    nodes: Ints
    sizes: tuple[int, ...]
    costs: Floats
    means: Floats

    def common(self, leaf: int) -> Ints:
        """The level of the least common ancestor of a leaf and each of the leaves."""
        return np.asarray((self.nodes != self.nodes[:, leaf, None]).sum(axis=0))  # levels nest


@dataclass(frozen=True, slots=True, eq=False)
class DistinctRows:
    """The different rows: their leaves (columns × tuples), how many rows each stands for, and the tuple of each row.

    >>> from discreet.anonymity.models import KAnonymity
    >>> table = {"sex": ["F", "M", "F"], "age": [30, 31, 30]}
    >>> ages = Hierarchy.intervals("age", low=30, high=39, widths=(5,))
    >>> tuples = DistinctRows.of(Coded.of(table, [Hierarchy.flat("sex", "FM"), ages]), KAnonymity(2).bind(table))
    >>> tuples.weights.tolist(), tuples.of_row.tolist(), tuples.cells((1, 1), np.arange(2)).tolist()
    ([2, 1], [0, 1, 0], [0, 0])
    """

    ladders: tuple[Ladder, ...]
    codes: NDArray[np.int32]
    weights: Ints
    of_row: Ints
    aim: Aim

    @classmethod
    def of(cls, coded: Coded, aim: Aim) -> "DistinctRows":
        """The different rows of a table, in ascending order of their leaves."""
        least = aim.model.least
        if coded.rows < least:
            raise InvalidData(f"the table has {coded.rows} rows, but {aim.model.name} needs classes of {least} or more")
        of_row = numbered([*coded.codes, *aim.codes])
        weights = np.bincount(of_row).astype(np.int64)
        first = firsts(of_row, len(weights))
        codes = np.ascontiguousarray(coded.codes[:, first])
        width = len(coded.hierarchies)
        ladders = tuple(_ladder(h, codes[j], weights, width) for j, h in enumerate(coded.hierarchies))
        return cls(ladders, codes, weights, of_row, aim.take(first))

    @property
    def count(self) -> int:
        """How many tuples there are."""
        return len(self.weights)

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.of_row)

    @property
    def shape(self) -> Levels:
        """How many levels each column has."""
        return tuple(len(ladder.sizes) for ladder in self.ladders)

    def split(self, rows: Ints) -> "tuple[DistinctRows, Ints]":
        """The same with some of the rows, which may be parts of their tuples, as tuples of their own; and these."""
        parts, places = np.unique(self.of_row[rows], return_inverse=True)
        counts = np.bincount(places).astype(np.int64)
        fresh = self.count + np.arange(len(parts))
        weights, of_row = np.append(self.weights, counts), self.of_row.copy()
        weights[parts] -= counts
        of_row[rows] = fresh[places]
        codes = np.concatenate([self.codes, self.codes[:, parts]], axis=1)
        aim = self.aim.take(np.append(np.arange(self.count), parts))
        return DistinctRows(self.ladders, codes, weights, of_row, aim), fresh

    def cells(self, levels: Sequence[int], members: Ints) -> Ints:
        """The class of each of some tuples at a node: 0, 1, 2, … in ascending order of the cells."""
        columns = [
            ladder.nodes[level][codes[members]]
            for ladder, level, codes in zip(self.ladders, levels, self.codes, strict=True)
            if ladder.sizes[level] > 1
        ]
        return numbered(columns) if columns else np.zeros(len(members), np.int64)

    def costs(self, levels: Sequence[int], members: Ints) -> Floats:
        """What a row of each of some tuples costs at a node, between 0 and 1."""
        costs = np.zeros(len(members))
        for ladder, level, codes in zip(self.ladders, levels, self.codes, strict=True):
            if level:
                costs += ladder.costs[level][codes[members]]
        return costs

    def bounds(self) -> Floats:
        """What generalizing alone costs at every node of the lattice (an array with an axis for each column)."""
        bounds: Floats = np.zeros(())
        for ladder in self.ladders:
            bounds = np.add.outer(bounds, ladder.means)
        return bounds

    def at_fault(self) -> str:
        """The names of the models that not even the whole table as one class satisfies; empty if there are none."""
        whole = Classes(np.zeros(self.count, np.int64), np.array([self.rows]), self.weights)
        parts: tuple[Aim, ...] = getattr(self.aim, "parts", (self.aim,))
        return ", ".join(part.model.name for part in parts if not part.holds(whole).all())


def firsts(groups: Ints, count: int) -> Ints:
    """The first member of each of the groups 0 … count − 1, none of them empty.

    >>> firsts(np.array([1, 0, 1]), 2).tolist()
    [1, 0]
    """
    first = np.empty(count, np.int64)
    first[groups[::-1]] = np.arange(len(groups) - 1, -1, -1)
    return first


def nodes_of(shape: Levels, most: int) -> int:
    """How many nodes the lattice has; more than `most` are refused."""
    nodes = math.prod(shape)
    if nodes > most:
        raise InvalidData(
            f"the lattice of the {len(shape)} quasi-identifiers has {nodes} nodes, more than {most}; "
            "give the hierarchies fewer levels, or name fewer columns"
        )
    return nodes


def _ladder(hierarchy: Hierarchy, codes: NDArray[np.int32], weights: Ints, width: int) -> Ladder:
    """The levels of one column; nodes that no row reaches are not numbered."""
    people = np.bincount(codes, weights, minlength=hierarchy.leaves)
    nodes, sizes, costs = [], [], []
    for level, above in enumerate(hierarchy.codes):
        reached = np.bincount(above, people) > 0
        nodes.append((np.cumsum(reached) - 1)[above])
        sizes.append(int(reached.sum()))
        costs.append(hierarchy.cost(level)[above] / width)
    table = np.stack(costs)
    return Ladder(np.stack(nodes), tuple(sizes), table, table @ people / people.sum())
