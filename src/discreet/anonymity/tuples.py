"""Rows collapsed to the different ones among them, lifted to any levels: what the search algorithms count.

Rows that agree in every quasi-identifier, and in everything that the privacy model looks at, are one *tuple* with a
weight. A *node* of the generalization lattice gives each column a level; at a node, tuples of equal cells are a class.

>>> import numpy as np
>>> from discreet.anonymity import Coded, Hierarchy
>>> from discreet.anonymity.models import KAnonymity
>>> table = {"sex": ["F", "M", "F"], "age": [30, 31, 30]}
>>> coded = Coded.of(table, [Hierarchy.flat("sex", "FM"), Hierarchy.intervals("age", low=30, high=39, widths=(5,))])
>>> tuples = Tuples.of(coded, KAnonymity(2).bind(table))
>>> tuples.weights.tolist(), tuples.of_row.tolist()
([2, 1], [0, 1, 0])
>>> tuples.cells((1, 1), np.arange(2)).tolist()
[0, 0]
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, numbered
from discreet.anonymity.coded import Coded
from discreet.anonymity.hierarchy import Hierarchy
from discreet.errors import InvalidData

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Levels = tuple[int, ...]


class Promise(Protocol):
    """What the algorithms ask of a privacy model."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def monotone(self) -> bool:
        """Whether it holds for the union of classes for which it holds."""

    @property
    def least(self) -> int:
        """No class of fewer people can satisfy it."""


class Aim(Protocol):
    """A privacy model, or several, bound to the table."""

    @property
    def model(self) -> Promise:
        """What was bound."""

    @property
    def codes(self) -> tuple[Ints, ...]:
        """What else must agree, beside the quasi-identifiers, before rows may be collapsed into one."""

    def take(self, rows: NDArray[Any]) -> "Aim":
        """The same for some of the rows."""

    def holds(self, classes: Classes) -> Bools:
        """Whether it holds, for each class."""


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
class Tuples:
    """The different rows: their leaves (columns × tuples), how many rows each stands for, and the tuple of each row."""

    ladders: tuple[Ladder, ...]
    codes: NDArray[np.int32]
    weights: Ints
    of_row: Ints
    aim: Aim

    @classmethod
    def of(cls, coded: Coded, aim: Aim) -> "Tuples":
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

    def split(self, rows: Ints) -> "tuple[Tuples, Ints]":
        """The same with some of the rows, which may be parts of their tuples, as tuples of their own; and these."""
        parts, places = np.unique(self.of_row[rows], return_inverse=True)
        counts = np.bincount(places).astype(np.int64)
        fresh = self.count + np.arange(len(parts))
        weights, of_row = np.append(self.weights, counts), self.of_row.copy()
        weights[parts] -= counts
        of_row[rows] = fresh[places]
        codes = np.concatenate([self.codes, self.codes[:, parts]], axis=1)
        aim = self.aim.take(np.append(np.arange(self.count), parts))
        return Tuples(self.ladders, codes, weights, of_row, aim), fresh

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
