"""What a privacy model is, and what it becomes when it is bound to a table.

A model is a value (`KAnonymity(5)`). Bound to a table it holds the sensitive column as numbers and can judge any
classes of the table's rows, all at once: `bound.holds(classes)` for each class, and `bound.measure(classes)`, what
each class reaches.

A model is *monotone* if it holds for the union of any two classes for which it holds. Then coarsening never breaks it,
which is what the search algorithms rely on. Suppressing rows never breaks it either, since a class is judged by itself
and against the distribution of the table that was bound, which stays fixed.

Where a person may have several rows, a *unit* names the person of each: five visits of one patient are five rows and
one person. Bound to it, a model counts every person once in a class. (Wang, Fung 2006, "Anonymizing sequential
releases", call that (X, Y)-anonymity: the quasi-identifiers X go with k different values of Y.)

>>> import numpy as np
>>> from discreet.anonymity.models import Target
>>> visits = {"zip": ["130**"] * 5 + ["148**"] * 2, "patient": ["Ann"] * 5 + ["Bob", "Cy"]}
>>> target = Target.of(KAnonymity(2), unit="patient").bind(visits)
>>> target.holds(Classes.of_table(visits, ["zip"])).tolist()
[False, True]
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Bools, Cells, Classes, Floats, Ints, Sensitive, numbered, rows_of
from discreet.errors import InvalidData, InvalidParameter
from discreet.fields import Converted, Integer
from discreet.tables import column, texts

SLACK = 1e-12
"""Where a limit is compared with a quotient, so much is left to rounding: 1/3 + 1/3 reaches 2/3."""


class Words(NamedTuple):
    """A sentence on what a model promises, and one on what it does not."""

    promise: str
    gap: str


class Model(ABC):
    """A privacy model: a promise about each class."""

    monotone: ClassVar[bool] = True
    """Whether it holds for the union of classes for which it holds."""

    @property
    @abstractmethod
    def _texts(self) -> tuple[str, str, str]:
        """Its name, what it promises, and what it does not."""

    @property
    def name(self) -> str:
        """What people call it, with its parameters."""
        return self._texts[0]

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""
        return Words(*self._texts[1:])

    @property
    def least(self) -> int:
        """No class of fewer people can satisfy it."""
        return 1

    @abstractmethod
    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "Bound":
        """The model with the table's sensitive column; `feasible`: refuse what no class of this table can reach."""


@dataclass(frozen=True, eq=False)
class Bound(ABC):
    """A model that knows the table; `units`: the person of each row as a number, where one may have several."""

    model: Model
    units: Ints | None = None

    @property
    def rows(self) -> int | None:
        """How many rows the classes must have; None where any number will do."""
        return None if self.units is None else len(self.units)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """What else must agree, beside the quasi-identifiers, before rows may be collapsed into one."""
        return () if self.units is None else (self.units,)

    def take(self, rows: NDArray[Any]) -> "Bound":
        """The same model for some of the rows, in this order: those that stand for the collapsed ones."""
        return self if self.units is None else replace(self, units=self.units[rows])

    def by_unit(self, units: Ints) -> "Bound":
        """The same model, counting each unit once in a class, whatever the number of its rows."""
        return replace(self, units=units)

    def sizes(self, classes: Classes) -> Ints:
        """How many people each class holds."""
        return classes.sizes if self.units is None else units_in(classes, self.units)

    @abstractmethod
    def holds(self, classes: Classes) -> Bools:
        """Whether the model holds, for each class."""

    @abstractmethod
    def measure(self, classes: Classes) -> Floats:
        """What each class reaches, in the unit of the model's parameter."""

    @abstractmethod
    def reached(self, classes: Classes) -> tuple[float, str]:
        """What the worst class reaches, as a number and in words."""


@dataclass(frozen=True)
class KAnonymity(Model):
    """k-anonymity: every class has at least k people (Samarati, Sweeney 1998; Sweeney 2002).

    Monotone: the size of a union of classes is the sum of their sizes.

    >>> bound = KAnonymity(2).bind({"zip": ["130**", "130**", "148**"]})
    >>> bound.holds(Classes.of_table({"zip": ["130**", "130**", "148**"]}, ["zip"])).tolist()
    [True, False]
    """

    k: Integer = Integer(at_least=1)

    @property
    def least(self) -> int:
        """A class needs k people."""
        return self.k

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"{self.k}-anonymity",
            f"Whoever knows only the quasi-identifiers of a person finds at least {self.k} rows that may be theirs.",
            "It says nothing about the other columns: if those rows agree on a secret, the secret is told; nor about "
            "somebody who knows more than the quasi-identifiers, or who holds a second release on the same people.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundSizes":
        """Nothing to hold: sizes are in the classes."""
        rows = rows_of(table).num_rows
        if feasible and rows < self.k:
            raise InvalidParameter("k", self.k, f"at most the number of rows ({rows})")
        return BoundSizes(self)


@dataclass(frozen=True, eq=False)
class BoundSizes(Bound):
    """k-anonymity, which needs no more than the sizes of the classes."""

    model: KAnonymity

    def holds(self, classes: Classes) -> Bools:
        """Whether each class has k people."""
        return self.sizes(classes) >= self.model.k

    def measure(self, classes: Classes) -> Floats:
        """The size of each class."""
        return self.sizes(classes).astype(np.float64)

    def reached(self, classes: Classes) -> tuple[float, str]:
        """The smallest class."""
        smallest = float(self.sizes(classes).min()) if classes.count else float("nan")
        return smallest, f"k = {smallest:.0f}" if classes.count else "no class"


class ColumnName(Converted[str, str]):
    """The name of a sensitive column."""

    def __init__(self) -> None:
        super().__init__(lambda value, _: value)


class ColumnModel(Model):
    """A model of one sensitive column: what it has to say about the cells of each class."""

    symbol: ClassVar[str]
    """How people write what a class reaches."""
    worst: ClassVar[str] = "largest"
    """Which class is the worst: that of the largest measure, or of the smallest."""
    divided: ClassVar[bool] = False
    """Whether shares must add up to 1, so that by units a person's vote is divided among their values."""
    column: ColumnName

    def sensitive(self, table: Any, *, feasible: bool) -> Sensitive:
        """Its column; `feasible`: refuse what no class of this table can reach."""
        return Sensitive.of(table, self.column)

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundColumn":
        """The model with its column."""
        return BoundColumn(model=self, column=self.sensitive(table, feasible=feasible))

    @abstractmethod
    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether the model holds, for each class."""

    @abstractmethod
    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """What each class reaches."""

    def reached(self, measured: Floats) -> tuple[float, str]:
        """What the worst class reaches, as a number and in words."""
        if not len(measured):
            return float("nan"), "no class"
        value = float(measured.min() if self.worst == "smallest" else measured.max())
        return value, f"{self.symbol} = {value:.4g}" if np.isfinite(value) else "a class without any known value"


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundColumn(Bound):
    """A model of one sensitive column, with that column.

    By units, sizes are numbers of units. A value is held by the units that have a row with it, so one person can hold
    several values: shares (α, β) are holders over units, and of r₁ < c·tail the tail is the units left when the holders
    of the most frequent values are taken away. For distinct diversity l different units must hold l different values,
    one each (a matching). For entropy and closeness each unit has one vote, divided evenly among its different values.
    """

    model: ColumnModel
    column: Sensitive

    @property
    def rows(self) -> int:
        """How many rows were bound."""
        return len(self.column.codes)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """The sensitive values, from 0 (missing) on."""
        return (self.column.codes + 1, *super().codes)

    def take(self, rows: NDArray[Any]) -> "BoundColumn":
        """The same model for some of the rows; the distribution of the table stays that of all rows."""
        units = None if self.units is None else self.units[rows]
        return replace(self, column=self.column.take(rows), units=units)

    def by_unit(self, units: Ints) -> "BoundColumn":
        """The same, with the shares of the whole table counted by units too."""
        bound = replace(self, units=units)
        cells = bound.cells(Classes.numbered(np.zeros(len(units), np.int64)))
        shares = np.zeros(self.column.values)
        shares[cells.value] = cells.people / cells.known[0]
        return replace(bound, column=replace(self.column, shares=shares))

    def holds(self, classes: Classes) -> Bools:
        """Whether the model holds, for each class."""
        return self.model.holds(self.cells(classes), self.sizes(classes), self.column)

    def measure(self, classes: Classes) -> Floats:
        """What each class reaches."""
        return self.model.measure(self.cells(classes), self.sizes(classes), self.column)

    def reached(self, classes: Classes) -> tuple[float, str]:
        """What the worst class reaches."""
        return self.model.reached(self.measure(classes))

    def cells(self, classes: Classes) -> Cells:
        """How often each value occurs in each class, or how many units hold it."""
        column = self.column
        fitting(classes, self.rows)
        if self.units is None:
            return Cells.of(classes, column.codes, column.values)
        known = (classes.of_row >= 0) & (column.codes >= 0)
        keys = [classes.of_row[known], self.units[known], column.codes[known]]
        first = np.unique(numbered(keys), return_index=True)[1] if known.any() else np.empty(0, np.int64)
        of_class, unit, value = (key[first] for key in keys)
        return _UnitCells.of_triples(of_class, unit, value, classes.count, column.values, divided=self.model.divided)


def fitting(classes: Classes, rows: int) -> None:
    """Refuse classes of another number of rows than were bound."""
    if len(classes.of_row) != rows:
        raise InvalidData(f"the model is bound to {rows} rows, the classes have {len(classes.of_row)}")


# Units


def unit_codes(table: Any, name: str) -> Ints:
    """The unit of each row as a number; a row without one is an error.

    >>> unit_codes({"patient": ["Ann", "Bob", "Ann"]}, "patient").tolist()
    [0, 1, 0]
    """
    encoded = texts(column(rows_of(table), name)).dictionary_encode()
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
    kept = classes.of_row >= 0
    return _holders(classes.of_row[kept], units[kept], classes.count)


def _holders(of_class: Ints, units: Ints, count: int) -> Ints:
    """The number of different units in each class."""
    span = int(units.max(initial=0)) + 1
    return np.bincount(np.unique(of_class * span + units) // span, minlength=count).astype(np.int64)


@dataclass(frozen=True, eq=False)
class _UnitCells(Cells):
    """Cells of units, with the (class, unit, value) of which they are made, each once."""

    triples: tuple[Ints, Ints, Ints]

    @classmethod
    def of_triples(
        cls, of_class: Ints, unit: Ints, value: Ints, count: int, values: int, *, divided: bool
    ) -> "_UnitCells":
        """Each value with its holders; `divided`: a unit's vote is divided among its values."""
        holder = numbered([of_class, unit]) if len(of_class) else of_class
        votes = np.bincount(holder)[holder] if len(holder) else np.empty(0)
        distinct, places = np.unique(of_class * values + value, return_inverse=True)
        people: Any = np.bincount(places, 1 / votes if divided else None, minlength=len(distinct))
        cell_class, cell_value = np.divmod(distinct, values)
        return cls(cell_class, cell_value, people, _holders(of_class, unit, count), (of_class, unit, value))

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
