"""t-closeness, β-likeness and δ-presence: a class may not differ much from the whole table or its population.

Li, Li, Venkatasubramanian 2007 ("t-Closeness: privacy beyond k-anonymity and l-diversity");
Cao, Karras 2012 ("Publishing microdata with a robust privacy guarantee");
Nergiz, Atzori, Clifton 2007 ("Hiding the presence of individuals from shared databases", Definition 3).

The whole table is the one that was bound, with the rows that may later be suppressed, whether they keep their secrets
or lose them. Shares are among known values; a class without any satisfies no model here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Bools, Cells, Classes, Floats, Ints, Sensitive, numbered, rows_of
from discreet.anonymity.hierarchy import Hierarchy
from discreet.anonymity.models.diversity import shown
from discreet.anonymity.models.model import SLACK, Bound, ColumnModel, ColumnName, Model, fitting
from discreet.errors import InvalidData, InvalidParameter
from discreet.fields import Choice, Converted, Rational
from discreet.tables import column, read_table, texts


@dataclass(frozen=True)
class Closeness(ColumnModel):
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

    t: Rational = Rational(at_least=0, at_most=1)
    column: ColumnName = ColumnName()
    distance: Choice = Choice("equal", "ordered", "hierarchical", default="equal")
    order: Converted[Sequence[Any] | None, tuple[Any, ...] | None] = Converted(
        lambda order, _: None if order is None else tuple(order), default=None
    )
    hierarchy: Hierarchy | None = field(default=None, repr=False)
    symbol: ClassVar[str] = "t"
    divided: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if (self.hierarchy is not None) != (self.distance == "hierarchical"):
            raise InvalidParameter(
                "hierarchy", self.hierarchy, 'a Hierarchy with the distance "hierarchical", else none'
            )
        if self.order is not None and self.distance != "ordered":
            raise InvalidParameter("order", self.order, 'none, unless the distance is "ordered"')

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"{shown(self.t)}-closeness ({self.distance}) of {self.column!r}",
            f"The rows that may be a person's differ from the whole table in {self.column!r} by at most "
            f"{float(self.t):.3g} (0: not at all, 1: wholly): knowing the class tells little beyond the table itself.",
            "A rare value may still become many times likelier within that distance; what the whole table says about "
            "everybody is told in any case, and a second release can be combined with this one.",
        )

    def sensitive(self, table: Any, *, feasible: bool) -> Sensitive:
        """Its column, as its distance asks; every table reaches the model as one single class."""
        if self.hierarchy is not None:
            return Sensitive.within(table, self.column, self.hierarchy)
        if self.distance == "ordered":
            return Sensitive.ordered(table, self.column, self.order)
        return Sensitive.of(table, self.column)

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


@dataclass(frozen=True)
class Likeness(ColumnModel):
    """β-likeness: no sensitive value's share in a class, q, exceeds its share in the table, p, by more than β times p.

    Basic: (q − p)/p ≤ β wherever q > p. Enhanced: (q − p)/p ≤ min(β, −ln p), which also limits frequent values.
    Monotone. Proof. Each condition is a linear upper limit on q, and q of a union is a mean of the q's of its parts.

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 2 + ["148**"] * 6, "disease": ["hiv", "flu"] + ["flu"] * 5 + ["hiv"]}
    >>> Likeness(1, "disease").bind(table).measure(Classes.of_table(table, ["zip"])).round(3).tolist()
    [1.0, 0.111]
    """

    beta: Rational = Rational(above=0)
    column: ColumnName = ColumnName()
    enhanced: bool = False
    symbol: ClassVar[str] = "β"

    def __post_init__(self) -> None:
        if not isinstance(self.enhanced, bool):
            raise InvalidParameter("enhanced", self.enhanced, "True or False")

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"{'enhanced ' if self.enhanced else ''}{shown(self.beta)}-likeness of {self.column!r}",
            f"No value of {self.column!r}, however rare, is over {float(self.beta) + 1:.4g} times as frequent among "
            "the rows that may be a person's as in the whole table.",
            "That a person lacks a value may be told outright; what the whole table says about everybody is told in "
            "any case, and a second release can be combined with this one.",
        )

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


# Presence


@dataclass(frozen=True)
class Presence(Model):
    """δ-presence: of the people of the population who look the same, a share between low and high is in the table.

    The population comes in one of two ways.

    - `member`: the table that is anonymized *is* the population, and this column (true/false, 1/0) says who is in the
      private table; only members' rows are released afterwards. Exact, whatever the recoding: use it for a search.
    - `population`: another table with the same quasi-identifiers, written in the same way. Right for reading a release
      again. During a search it counts the people of the population who share a row's own values, not others whom the
      coarser values cover too: it overstates shares, which is safe for `high`; with `low` > 0 no class passes unless
      everybody in the population shares a row's values.

    Monotone: the share of a union of classes lies between the shares of its parts.

    >>> people = {"zip": ["130**"] * 4 + ["148**"] * 4, "treated": [True, False, False, False, True, True, True, True]}
    >>> bound = Presence(0, "0.5", member="treated").bind(people)
    >>> bound.measure(Classes.of_table(people, ["zip"])).tolist()
    [0.25, 1.0]
    """

    low: Rational = Rational(at_least=0, at_most=1)
    high: Rational = Rational(at_least=0, at_most=1)
    population: Any = field(default=None, repr=False, compare=False)
    member: str | None = None

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise InvalidParameter("high", shown(self.high), f"a number ≥ {shown(self.low)}")
        if (self.population is None) == (self.member is None):
            raise InvalidParameter(
                "population, member", "both or neither", "one of them", "a table of the population, or a column of it"
            )

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"({shown(self.low)}, {shown(self.high)})-presence",
            "Whoever knows somebody's quasi-identifiers and the whole population can be sure that they are in the "
            f"table to no more than {float(self.high):.3g} and to no less than {float(self.low):.3g}.",
            "It says nothing about secrets in the table, and it holds for this population only: somebody with a "
            "better list of people may be surer.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundPresence":
        """The model with the people of the population and of the table, row by row."""
        if self.member is not None:
            inside = _flags(rows_of(table), self.member)
            return BoundPresence(model=self, population=np.ones(len(inside), np.int64), inside=inside)
        if not quasi:
            raise InvalidParameter(
                "quasi", list(quasi), "the names of the quasi-identifiers, to count the population by"
            )
        return _matched(self, table, tuple(quasi))


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundPresence(Bound):
    """δ-presence with, for each row, people of the population and of the table for whom it stands.

    `unseen` counts the people of the population who share their values with no row: their class has a share of 0.
    """

    model: Presence
    population: Ints | Floats
    inside: Ints
    unseen: int = 0

    @property
    def rows(self) -> int:
        """How many rows were bound."""
        return len(self.inside)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """Who is inside, and the people of the population: rows may be collapsed only where both agree."""
        return self.inside, numbered([np.unique(self.population, return_inverse=True)[1]])

    def take(self, rows: NDArray[Any]) -> "BoundPresence":
        """The same for some of the rows."""
        return replace(self, population=self.population[rows], inside=self.inside[rows])

    def holds(self, classes: Classes) -> Bools:
        """Whether the share of each class lies within the limits."""
        share = self.measure(classes)
        fits = (share <= float(self.model.high) + SLACK) & (share >= float(self.model.low) - SLACK)
        return fits & (self.unseen == 0 or self.model.low == 0)

    def measure(self, classes: Classes) -> Floats:
        """The share of each class's population that is in the table."""
        fitting(classes, self.rows)
        kept = classes.of_row >= 0
        weights = np.ones(self.rows) if classes.weights is None else classes.weights
        of_row = classes.of_row[kept]
        inside = np.bincount(of_row, (weights * self.inside)[kept], minlength=classes.count)
        people = np.bincount(of_row, (weights * self.population)[kept], minlength=classes.count)
        return inside / people

    def reached(self, classes: Classes) -> tuple[float, str]:
        """The largest share of a class; in words the smallest too."""
        share = self.measure(classes)
        if not len(share):
            return float("nan"), "no class"
        least = 0.0 if self.unseen else float(share.min())
        return float(share.max()), f"shares from {least:.4g} to {share.max():.4g}"


def _matched(model: Presence, table: Any, quasi: tuple[str, ...]) -> BoundPresence:
    """Each row of the table with its part of the people of the population who have its values."""
    rows, people = read_table(rows_of(table)), read_table(model.population, "population")
    keys = numbered([joint(rows, people, name) for name in quasi])
    of_row, of_person = keys[: rows.num_rows], keys[rows.num_rows :]
    count = int(keys.max()) + 1
    here, there = np.bincount(of_row, minlength=count), np.bincount(of_person, minlength=count)
    if short := int(np.count_nonzero(here > there)):
        raise InvalidData(
            f"the population is smaller than the table for {short} of {np.count_nonzero(here)} combinations of "
            "quasi-identifiers: give a population that includes everybody in the table, written in the same way"
        )
    unseen = int(there[here == 0].sum())
    inside = np.ones(rows.num_rows, np.int64)
    return BoundPresence(model=model, population=there[of_row] / here[of_row], inside=inside, unseen=unseen)


def joint(rows: Any, people: Any, name: str) -> Ints:
    """A column of both tables, numbered by the same texts."""
    import pyarrow

    both = pyarrow.concat_arrays([texts(column(rows, name)), texts(column(people, name, "population"))])
    return np.asarray(both.dictionary_encode().indices).astype(np.int64)


def _flags(table: Any, name: str) -> Ints:
    """A true/false column as 1 and 0."""
    result = texts(column(table, name)).dictionary_encode()
    meaning = {"true": 1, "1": 1, "yes": 1, "false": 0, "0": 0, "no": 0}
    of_text = [meaning.get(text.lower(), -1) for text in result.dictionary.to_pylist()]
    flags = np.array(of_text, np.int64)[np.asarray(result.indices)]
    if wrong := int(np.count_nonzero(flags < 0)):
        raise InvalidData(f"column {name!r}: {wrong} values are neither true nor false (nor 1, 0, yes, no)")
    if not flags.any():
        raise InvalidData(f"column {name!r}: nobody of the population is in the table")
    return np.asarray(flags, np.int64)
