"""Counting people where a person may have several rows: k, l, t and risks of units, not of rows.

Five visits of one patient are five rows and one person. A *unit* is a column that names the person of each row; bound
to it, a model counts every person once in a class. (Wang, Fung 2006, "Anonymizing sequential releases", call that
(X, Y)-anonymity: the quasi-identifiers X go with k different values of Y.)

>>> import numpy as np
>>> from discreet.anonymity import Classes
>>> from discreet.anonymity.models import KAnonymity, Target
>>> visits = {"zip": ["130**"] * 5 + ["148**"] * 2, "patient": ["Ann"] * 5 + ["Bob", "Cy"]}
>>> target = Target.of(KAnonymity(2), unit="patient").bind(visits)
>>> target.holds(Classes.of_table(visits, ["zip"])).tolist()
[False, True]
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import Bools, BoundColumn, Floats, Ints, Measured, Model
from discreet.anonymity.cells import Cells
from discreet.anonymity.classes import Classes, numbered
from discreet.anonymity.closeness import Closeness
from discreet.anonymity.diversity import EntropyDiversity
from discreet.anonymity.sensitive import rows_of
from discreet.errors import InvalidData
from discreet.tables import column, texts

_DISTRIBUTIONS = (EntropyDiversity, Closeness)
"""Models of a distribution, whose shares must add up to 1: a person's vote is divided among their values."""


def unit_codes(table: Any, name: str) -> Ints:
    """The unit of each row as a number; a row without one is an error.

    >>> unit_codes({"patient": ["Ann", "Bob", "Ann"]}, "patient").tolist()
    [0, 1, 0]
    """
    named = texts(column(rows_of(table), name))
    encoded = named.dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int64)
    empty = np.array([not text for text in encoded.dictionary.to_pylist()] or [False])[codes]
    if count := int(empty.sum()):
        raise InvalidData(f"unit {name!r}: {count} of {len(codes)} rows have no value; every row needs one")
    return codes


def units_in(classes: Classes, units: Ints) -> Ints:
    """How many different units each class holds.

    >>> units_in(Classes.numbered(np.array([0, 0, 0, 1, -1])), np.array([7, 7, 3, 7, 1])).tolist()
    [2, 1]
    """
    of_class, _ = _pairs(classes.of_row, units)
    return np.bincount(of_class, minlength=classes.count).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class ByUnit:
    """A bound model that counts each unit once in a class, whatever the number of its rows.

    Sizes are numbers of units. A value is held by the units that have a row with it, so one person can hold several
    values: shares (α, β) are holders over units, and of r₁ < c·tail the tail is the units left when the holders of the
    most frequent values are taken away. For distinct diversity l different units must hold l different values, one
    each (a matching). For entropy and closeness each unit has one vote, divided evenly among its different values.
    """

    bound: Measured
    units: Ints

    @classmethod
    def of(cls, bound: Measured, units: Ints) -> "ByUnit":
        """A bound model, with the shares of the whole table counted by units too."""
        if isinstance(bound, BoundColumn):
            whole = Classes.numbered(np.zeros(len(units), np.int64))
            cells = cls(bound, units)._cells(whole, bound)
            shares = np.zeros(bound.column.values)
            shares[cells.value] = cells.people / cells.known[0]
            bound = replace(bound, column=replace(bound.column, shares=shares))
        return cls(bound, units)

    @property
    def model(self) -> Model:
        """The model that was bound."""
        return self.bound.model

    @property
    def rows(self) -> int:
        """How many rows were bound."""
        return len(self.units)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """Rows may be collapsed only where they are of the same unit."""
        return (*self.bound.codes, self.units)

    def take(self, rows: NDArray[Any]) -> "ByUnit":
        """The same for some of the rows."""
        return ByUnit(self.bound.take(rows), self.units[rows])

    def holds(self, classes: Classes) -> Bools:
        """Whether the model holds, for each class."""
        if isinstance(self.bound, BoundColumn):
            cells = self._cells(classes, self.bound)
            return self.bound.model.holds(cells, units_in(classes, self.units), self.bound.column)
        return self.bound.holds(self._counted(classes))

    def measure(self, classes: Classes) -> Floats:
        """What each class reaches."""
        if isinstance(self.bound, BoundColumn):
            cells = self._cells(classes, self.bound)
            return self.bound.model.measure(cells, units_in(classes, self.units), self.bound.column)
        return self.bound.measure(self._counted(classes))

    def reached(self, classes: Classes) -> tuple[float, str]:
        """What the worst class reaches."""
        if isinstance(self.bound, BoundColumn):
            return self.bound.model.reached(self.measure(classes))
        return self.bound.reached(self._counted(classes))

    def _counted(self, classes: Classes) -> Classes:
        return replace(classes, sizes=units_in(classes, self.units))

    def _cells(self, classes: Classes, bound: BoundColumn) -> Cells:
        known = (classes.of_row >= 0) & (bound.column.codes >= 0)
        keys = [classes.of_row[known], self.units[known], bound.column.codes[known]]
        first = np.unique(numbered(keys), return_index=True)[1] if known.any() else np.empty(0, np.int64)
        of_class, unit, value = (key[first] for key in keys)
        return _held(of_class, unit, value, classes.count, bound)


@dataclass(frozen=True, eq=False)
class _Held(Cells):
    """Cells of units, with the (class, unit, value) of which they are made, each once."""

    triples: tuple[Ints, Ints, Ints]

    @cached_property
    def _matched(self) -> Ints:
        """For each class the most values that as many different units hold, one each."""
        of_class, unit, value = self.triples
        holder = numbered([of_class, unit])
        several = np.bincount(holder)[holder] > 1
        plain = np.bincount(self.of_class, minlength=self.count)
        mixed = np.zeros(self.count, np.bool_)
        mixed[of_class[several]] = True
        if mixed.any():
            part = mixed[of_class]
            plain[mixed] = _matching(of_class[part], unit[part], value[part], self.count)[mixed]
        return plain.astype(np.int64)

    @property
    def distinct(self) -> Ints:
        """How many different values as many different units of a class hold."""
        return self._matched


def _held(of_class: Ints, unit: Ints, value: Ints, count: int, bound: BoundColumn) -> Cells:
    holder = numbered([of_class, unit]) if len(of_class) else of_class
    votes = np.bincount(holder)[holder] if len(holder) else np.empty(0)
    keys = of_class * bound.column.values + value
    found, places = np.unique(keys, return_inverse=True)
    divided = isinstance(bound.model, _DISTRIBUTIONS)
    people: Any = np.bincount(places, 1 / votes if divided else None, minlength=len(found))
    known = np.bincount(_pairs(of_class, unit)[0], minlength=count).astype(np.int64)
    cell_class, cell_value = np.divmod(found, bound.column.values)
    return _Held(cell_class, cell_value, people, known, (of_class, unit, value))


def _matching(of_class: Ints, unit: Ints, value: Ints, count: int) -> Ints:
    """The size of the largest matching of units and values in each class."""
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    holder, held = numbered([of_class, unit]), numbered([of_class, value])
    graph = csr_matrix((np.ones(len(holder), np.int8), (holder, held)))
    matched = np.asarray(maximum_bipartite_matching(graph, perm_type="column")) >= 0
    owner = np.zeros(len(matched), np.int64)
    owner[holder] = of_class
    return np.bincount(owner[matched], minlength=count).astype(np.int64)


def _pairs(of_row: Ints, units: Ints) -> tuple[Ints, Ints]:
    """The different pairs of class and unit, rows of no class left out."""
    kept = of_row >= 0
    if not kept.any():
        return np.empty(0, np.int64), np.empty(0, np.int64)
    span = int(units.max()) + 1
    found = np.unique(of_row[kept] * span + units[kept])
    return np.divmod(found, span)
