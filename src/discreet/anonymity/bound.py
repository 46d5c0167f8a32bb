"""What a privacy model is, and what it becomes when it is bound to a table.

A model is a value (`KAnonymity(5)`). Bound to a table it holds the sensitive column as numbers and can judge any
classes of the table's rows, all at once: `bound.holds(classes)` for each class, and `bound.measure(classes)`, what
each class reaches.

A model is *monotone* if it holds for the union of any two classes for which it holds. Then coarsening never breaks it,
which is what the search algorithms rely on. Suppressing rows never breaks it either, since a class is judged by itself
and against the distribution of the table that was bound, which stays fixed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.cells import Cells
from discreet.anonymity.classes import Classes
from discreet.anonymity.sensitive import Sensitive
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SLACK = 1e-12
"""Where a limit is compared with a quotient, so much is left to rounding: 1/3 + 1/3 reaches 2/3."""


class Words(NamedTuple):
    """A sentence on what a model promises, and one on what it does not."""

    promise: str
    gap: str


class Bound(Protocol):
    """A model that knows the table."""

    @property
    def rows(self) -> int | None:
        """How many rows the classes must have; None where any number will do."""

    @property
    def codes(self) -> tuple[Ints, ...]:
        """What else must agree, beside the quasi-identifiers, before rows may be collapsed into one."""

    def take(self, rows: NDArray[Any]) -> "Bound":
        """The same model for some of the rows, in this order: those that stand for the collapsed ones."""

    def holds(self, classes: Classes) -> Bools:
        """Whether the model holds, for each class."""


class Model(Protocol):
    """A privacy model: a promise about each class."""

    @property
    def name(self) -> str:
        """What people call it, with its parameters."""

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""

    @property
    def monotone(self) -> bool:
        """Whether it holds for the union of classes for which it holds."""

    @property
    def least(self) -> int:
        """No class of fewer people can satisfy it."""

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "Measured":
        """The model with the table's sensitive column; `feasible`: refuse what no class of this table can reach."""


class Measured(Bound, Protocol):
    """A single bound model, which can also say how far each class gets."""

    @property
    def model(self) -> Model:
        """The model that was bound."""

    def take(self, rows: NDArray[Any]) -> "Measured":
        """The same model for some of the rows."""

    def measure(self, classes: Classes) -> Floats:
        """What each class reaches, in the unit of the model's parameter."""

    def reached(self, classes: Classes) -> tuple[float, str]:
        """What the worst class reaches, as a number and in words."""


class Judge(Protocol):
    """What a model of one sensitive column has to say about its cells."""

    @property
    def column(self) -> str:
        """The sensitive column."""

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether the model holds, for each class."""

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """What each class reaches."""

    def reached(self, measured: Floats) -> tuple[float, str]:
        """What the worst class reaches."""


class ColumnModel(Judge, Model, Protocol):
    """A model that looks at one sensitive column."""


@dataclass(frozen=True, slots=True, eq=False)
class BoundColumn:
    """A model of one sensitive column, with that column."""

    model: ColumnModel
    column: Sensitive

    @property
    def rows(self) -> int:
        """How many rows were bound."""
        return len(self.column.codes)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """The sensitive values, from 0 (missing) on."""
        return (self.column.codes + 1,)

    def take(self, rows: NDArray[Any]) -> "BoundColumn":
        """The same model for some of the rows; the distribution of the table stays that of all rows."""
        return replace(self, column=self.column.take(rows))

    def holds(self, classes: Classes) -> Bools:
        """Whether the model holds, for each class."""
        return self.model.holds(self.cells(classes), classes.sizes, self.column)

    def measure(self, classes: Classes) -> Floats:
        """What each class reaches."""
        return self.model.measure(self.cells(classes), classes.sizes, self.column)

    def reached(self, classes: Classes) -> tuple[float, str]:
        """What the worst class reaches."""
        return self.model.reached(self.measure(classes))

    def cells(self, classes: Classes) -> Cells:
        """How often each value occurs in each class."""
        return Cells.of(fitting(classes, self.rows), self.column.codes, self.column.values)


@dataclass(frozen=True, slots=True)
class KAnonymity:
    """k-anonymity: every class has at least k people (Samarati, Sweeney 1998; Sweeney 2002).

    Monotone: the size of a union of classes is the sum of their sizes.

    >>> bound = KAnonymity(2).bind({"zip": ["130**", "130**", "148**"]})
    >>> bound.holds(Classes.of_table({"zip": ["130**", "130**", "148**"]}, ["zip"])).tolist()
    [True, False]
    """

    k: int

    def __post_init__(self) -> None:
        integer(self.k, "k", at_least=1)

    @property
    def name(self) -> str:
        """What people call it."""
        return f"{self.k}-anonymity"

    @property
    def monotone(self) -> bool:
        """Sizes add up."""
        return True

    @property
    def least(self) -> int:
        """A class needs k people."""
        return self.k

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""
        return Words(
            f"Whoever knows only the quasi-identifiers of a person finds at least {self.k} rows that may be theirs.",
            "It says nothing about the other columns: if those rows agree on a secret, the secret is told; nor about "
            "somebody who knows more than the quasi-identifiers, or who holds a second release on the same people.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundSizes":
        """Nothing to hold: sizes are in the classes."""
        rows = _people(table)
        if feasible and rows < self.k:
            raise InvalidParameter("k", self.k, f"at most the number of rows ({rows})")
        return BoundSizes(self)


@dataclass(frozen=True, slots=True)
class BoundSizes:
    """k-anonymity, which needs no more than the sizes of the classes."""

    model: KAnonymity

    @property
    def rows(self) -> None:
        """Any number of rows."""
        return

    @property
    def codes(self) -> tuple[Ints, ...]:
        """Nothing else must agree."""
        return ()

    def take(self, rows: NDArray[Any]) -> "BoundSizes":
        """The same."""
        return self

    def holds(self, classes: Classes) -> Bools:
        """Whether each class has k people."""
        return classes.sizes >= self.model.k

    def measure(self, classes: Classes) -> Floats:
        """The size of each class."""
        return classes.sizes.astype(np.float64)

    def reached(self, classes: Classes) -> tuple[float, str]:
        """The smallest class."""
        smallest = float(classes.sizes.min()) if classes.count else float("nan")
        return smallest, f"k = {smallest:.0f}" if classes.count else "no class"


def fitting(classes: Classes, rows: int) -> Classes:
    """Classes of as many rows as were bound."""
    if len(classes.of_row) != rows:
        raise InvalidData(f"the model is bound to {rows} rows, the classes have {len(classes.of_row)}")
    return classes


def worst(measured: Floats, *, smallest: bool, symbol: str) -> tuple[float, str]:
    """The worst class's measure, as a number and in words."""
    if not len(measured):
        return float("nan"), "no class"
    value = float(measured.min() if smallest else measured.max())
    return value, f"{symbol} = {value:.4g}" if np.isfinite(value) else "a class without any known value"


def _people(table: Any) -> int:
    from discreet.anonymity.sensitive import rows_of

    return int(rows_of(table).num_rows)
