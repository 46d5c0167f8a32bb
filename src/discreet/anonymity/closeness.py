"""t-closeness and β-likeness: a class may not differ much from the whole table in a sensitive column.

Li, Li, Venkatasubramanian 2007 ("t-Closeness: privacy beyond k-anonymity and l-diversity");
Cao, Karras 2012 ("Publishing microdata with a robust privacy guarantee").

The whole table is the one that was bound, with the rows that may later be suppressed, whether they keep their secrets
or lose them. Shares are among known values; a class without any satisfies no model here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import SLACK, Bools, BoundColumn, Floats, Ints, Words, worst
from discreet.anonymity.cells import Cells
from discreet.anonymity.diversity import shown
from discreet.anonymity.hierarchy import Hierarchy
from discreet.anonymity.sensitive import Sensitive
from discreet.errors import InvalidParameter
from discreet.exact import Number, rational

Distance = Literal["equal", "ordered", "hierarchical"]
_DISTANCES = ("equal", "ordered", "hierarchical")


@dataclass(frozen=True, slots=True)
class Closeness:
    """t-closeness: in every class the sensitive column's distribution is within t of that of the whole table.

    The distance is the earth mover's, over one of three ground distances: all values equally far apart (then it is
    the total variation); values in an order, i and j |i − j|/(m − 1) apart; values in a hierarchy, as far apart as
    the height of their lowest common ancestor over the height of the hierarchy.

    Monotone. Proof. Each distance is a sum of absolute values of linear functions of p − q, so it is convex in p; the
    distribution of a union is a mixture of the distributions of its parts.

    >>> from discreet.anonymity import Classes
    >>> pay = {"age": [20] * 3 + [30] * 3 + [40] * 3, "pay": [3, 4, 5, 6, 11, 8, 7, 9, 10]}
    >>> bound = Closeness("0.4", "pay", "ordered").bind(pay)
    >>> bound.measure(Classes.of_table(pay, ["age"])).round(3).tolist()  # the paper's 0.375 and 0.167
    [0.375, 0.167, 0.236]
    """

    t: Number
    column: str
    distance: Distance = "equal"
    order: tuple[Any, ...] | None = None
    hierarchy: Hierarchy | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "t", rational(self.t, "t", at_least=0, at_most=1))
        if self.distance not in _DISTANCES:
            raise InvalidParameter("distance", self.distance, "one of " + ", ".join(_DISTANCES))
        if self.order is not None:
            object.__setattr__(self, "order", tuple(self.order))
        if (self.hierarchy is not None) != (self.distance == "hierarchical"):
            raise InvalidParameter(
                "hierarchy", self.hierarchy, 'a Hierarchy with the distance "hierarchical", else none'
            )
        if self.order is not None and self.distance != "ordered":
            raise InvalidParameter("order", self.order, 'none, unless the distance is "ordered"')

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{shown(self.t)}-closeness ({self.distance}) of {self.column!r}"

    @property
    def monotone(self) -> bool:
        """Distances are convex."""
        return True

    @property
    def least(self) -> int:
        """A class of one may be close enough."""
        return 1

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""
        return Words(
            f"The rows that may be a person's differ from the whole table in {self.column!r} by at most "
            f"{float(self.t):.3g} (0: not at all, 1: wholly): knowing the class tells little beyond the table itself.",
            "A rare value may still become many times likelier within that distance; what the whole table says about "
            "everybody is told in any case, and a second release can be combined with this one.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> BoundColumn:
        """The model with its column; every table reaches it as one single class."""
        if self.hierarchy is not None:
            return BoundColumn(self, Sensitive.within(table, self.column, self.hierarchy))
        if self.distance == "ordered":
            return BoundColumn(self, Sensitive.ordered(table, self.column, self.order))
        return BoundColumn(self, Sensitive.of(table, self.column))

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether each class is within t."""
        return self.measure(cells, sizes, column) <= float(self.t) + SLACK

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """The distance of each class from the whole table."""
        if self.hierarchy is not None:
            far = hierarchical(cells, column.shares, self.hierarchy)
        elif self.distance == "ordered":
            far = ordered(cells, column.shares)
        else:
            far = variation(cells, column.shares)
        return np.where(cells.known > 0, far, np.inf)

    def reached(self, measured: Floats) -> tuple[float, str]:
        """The largest distance of a class."""
        return worst(measured, smallest=False, symbol="t")


@dataclass(frozen=True, slots=True)
class Likeness:
    """β-likeness: no sensitive value's share in a class, q, exceeds its share in the table, p, by more than β times p.

    Basic: (q − p)/p ≤ β wherever q > p. Enhanced: (q − p)/p ≤ min(β, −ln p), which also limits frequent values.
    Monotone. Proof. Each condition is a linear upper limit on q, and q of a union is a mean of the q's of its parts.

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 2 + ["148**"] * 6, "disease": ["hiv", "flu"] + ["flu"] * 5 + ["hiv"]}
    >>> Likeness(1, "disease").bind(table).measure(Classes.of_table(table, ["zip"])).round(3).tolist()
    [1.0, 0.111]
    """

    beta: Number
    column: str
    enhanced: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "beta", rational(self.beta, "beta", above=0))
        if not isinstance(self.enhanced, bool):
            raise InvalidParameter("enhanced", self.enhanced, "True or False")

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{'enhanced ' if self.enhanced else ''}{shown(self.beta)}-likeness of {self.column!r}"

    @property
    def monotone(self) -> bool:
        """Shares are averaged."""
        return True

    @property
    def least(self) -> int:
        """A class of one may be like the table."""
        return 1

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""
        return Words(
            f"No value of {self.column!r}, however rare, is over {float(self.beta) + 1:.4g} times as frequent among "
            "the rows that may be a person's as in the whole table.",
            "That a person lacks a value may be told outright; what the whole table says about everybody is told in "
            "any case, and a second release can be combined with this one.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> BoundColumn:
        """The model with its column; every table reaches it as one single class."""
        return BoundColumn(self, Sensitive.of(table, self.column))

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether each class is within the limits."""
        gain = _gain(cells, column)
        limit = np.full(column.values, float(self.beta))
        if self.enhanced:
            limit = np.minimum(limit, -np.log(np.where(column.shares > 0, column.shares, 1)))
        excess = cells.largest(gain - limit[cells.value], -np.inf)
        return (excess <= SLACK * (1 + float(self.beta))) & (cells.known > 0)

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """The largest relative gain of a value in each class, 0 where none gains."""
        gain = np.maximum(cells.largest(_gain(cells, column), -np.inf), 0.0)
        return np.where(cells.known > 0, gain, np.inf)

    def reached(self, measured: Floats) -> tuple[float, str]:
        """The largest relative gain of a value in a class."""
        return worst(measured, smallest=False, symbol="β")


def _gain(cells: Cells, column: Sensitive) -> Floats:
    """(q − p)/p of each cell; a value that occurs in a class occurs in the table."""
    return cells.shares / column.shares[cells.value] - 1


def variation(cells: Cells, shares: Floats) -> Floats:
    """The total variation of each class from the given shares: Σ max(p − q, 0) over the values that it has.

    >>> variation(Cells.of_counts(np.array([[1, 1], [2, 0]])), np.array([0.5, 0.5])).tolist()
    [0.0, 0.5]
    """
    return cells.total(np.maximum(cells.shares - shares[cells.value], 0))


def ordered(cells: Cells, shares: Floats) -> Floats:
    """The earth mover's distance of each class on ranks: Σᵢ |P(i) − Q(i)|/(m − 1), with P and Q summed up to i.

    Between two values that a class has, its P stays the same; there Q rises past it at most once, so the sum of
    |P − Q| follows from sums of Q before and after that place: no matrix of classes × values is made.

    >>> ordered(Cells.of_counts(np.array([[1, 1, 1, 0, 0, 0, 0, 0, 0]])), np.full(9, 1 / 9)).round(3).tolist()
    [0.375]
    """
    values = len(shares)
    if values < 2:
        return np.zeros(cells.count)
    above = np.minimum(np.cumsum(shares), 1.0)  # Q(i)
    sums = np.concatenate([[0.0], np.cumsum(above)])  # of Q before place i
    risen, start, stop = _steps(cells, values)
    cross = np.clip(np.searchsorted(above, risen, side="left"), start, stop)
    area = risen * (2 * cross - start - stop) + sums[start] + sums[stop] - 2 * sums[cross]
    first = np.full(cells.count, values, np.int64)
    places, members = np.unique(cells.of_class, return_index=True)
    first[places] = cells.value[members]
    ahead = sums[first]  # before its first value P is 0
    return np.where(cells.known > 0, (ahead + cells.total(area)) / (values - 1), 0.0)


def _steps(cells: Cells, values: int) -> tuple[Floats, Ints, Ints]:
    """P after each cell, and the places from which and up to which it stays so."""
    running = np.cumsum(cells.people)
    before = np.concatenate([[0], np.cumsum(cells.known)])[cells.of_class]
    risen = (running - before) / cells.known[cells.of_class]
    last = np.append(cells.of_class[1:] != cells.of_class[:-1], True) if len(running) else np.empty(0, bool)
    stop = np.where(last, values, np.append(cells.value[1:], values)[: len(running)])
    return risen, cells.value, stop


def hierarchical(cells: Cells, shares: Floats, hierarchy: Hierarchy) -> Floats:
    """The earth mover's distance of each class in a hierarchy of height H: the mean total variation of levels 0 … H−1.

    Proof. Two leaves are height(lowest common ancestor)/H apart, which is the length of the path between them if every
    link between two levels is 1/(2H) long. On a tree the least cost of moving p to q is the sum over links of length
    times |net mass below|; over the links above level h that is ‖p_h − q_h‖₁/(2H), the total variation over H.

    >>> tree = Hierarchy.rows("disease", [("ulcer", "stomach"), ("gastritis", "stomach"), ("flu", "lungs")])
    >>> hierarchical(Cells.of_counts(np.array([[1, 0, 0]])), np.full(3, 1 / 3), tree).round(4).tolist()
    [0.5]
    """
    total = np.zeros(cells.count)
    for level in range(hierarchy.height):
        nodes = hierarchy.codes[level]
        size = len(hierarchy.labels[level])
        lifted = cells if level == 0 else cells.coarser(nodes, size)
        total += variation(lifted, _lifted(shares, nodes, size))
    return total / max(hierarchy.height, 1)


def _lifted(shares: Floats, nodes: NDArray[Any], size: int) -> Floats:
    return np.bincount(nodes, shares, minlength=size).astype(np.float64)
