"""δ-presence: whether somebody is in the table at all is the secret.

Nergiz, Atzori, Clifton 2007 ("Hiding the presence of individuals from shared databases", Definition 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import SLACK, Bools, Floats, Ints, Words, fitting
from discreet.anonymity.classes import Classes, numbered
from discreet.anonymity.diversity import shown
from discreet.anonymity.sensitive import rows_of
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.tables import as_arrow, column, texts


@dataclass(frozen=True, slots=True)
class Presence:
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

    low: Number
    high: Number
    population: Any = field(default=None, repr=False, compare=False)
    member: str | None = None

    def __post_init__(self) -> None:
        low = rational(self.low, "low", at_least=0, at_most=1)
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", rational(self.high, "high", at_least=low, at_most=1))
        if (self.population is None) == (self.member is None):
            raise InvalidParameter(
                "population, member", "both or neither", "one of them", "a table of the population, or a column of it"
            )

    @property
    def name(self) -> str:
        """What people call it."""
        return f"({shown(self.low)}, {shown(self.high)})-presence"

    @property
    def monotone(self) -> bool:
        """Shares are averaged."""
        return True

    @property
    def least(self) -> int:
        """A class of one may satisfy it."""
        return 1

    @property
    def words(self) -> Words:
        """What it promises and what it does not."""
        return Words(
            "Whoever knows somebody's quasi-identifiers and the whole population can be sure that they are in the "
            f"table to no more than {float(self.high):.3g} and to no less than {float(self.low):.3g}.",
            "It says nothing about secrets in the table, and it holds for this population only: somebody with a "
            "better list of people may be surer.",
        )

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundPresence":
        """The model with the people of the population and of the table, row by row."""
        if self.member is not None:
            inside = _flags(rows_of(table), self.member)
            return BoundPresence(self, np.ones(len(inside), np.int64), inside, 0)
        if not quasi:
            raise InvalidParameter(
                "quasi", list(quasi), "the names of the quasi-identifiers, to count the population by"
            )
        return _matched(self, table, tuple(quasi))


@dataclass(frozen=True, slots=True, eq=False)
class BoundPresence:
    """δ-presence with, for each row, people of the population and of the table for whom it stands.

    `unseen` counts the people of the population who share their values with no row: their class has a share of 0.
    """

    model: Presence
    population: Ints | Floats
    inside: Ints
    unseen: int

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
    rows, people = as_arrow(rows_of(table)), as_arrow(model.population, "population")
    keys = numbered([joint(rows, people, name) for name in quasi])
    of_row, of_person = keys[: rows.num_rows], keys[rows.num_rows :]
    count = int(keys.max()) + 1
    here, there = np.bincount(of_row, minlength=count), np.bincount(of_person, minlength=count)
    if short := int(np.count_nonzero(here > there)):
        raise InvalidData(
            f"the population is smaller than the table for {short} of {np.count_nonzero(here)} combinations of "
            "quasi-identifiers: give a population that includes everybody in the table, written in the same way"
        )
    share = there[of_row] / here[of_row]
    return BoundPresence(model, share, np.ones(rows.num_rows, np.int64), int(there[here == 0].sum()))


def joint(rows: Any, people: Any, name: str) -> Ints:
    """A column of both tables, numbered by the same texts."""
    import pyarrow

    both = pyarrow.concat_arrays([texts(column(rows, name)), texts(column(people, name, "population"))])
    return np.asarray(both.dictionary_encode().indices).astype(np.int64)


def _flags(table: Any, name: str) -> Ints:
    """A true/false column as 1 and 0."""
    found = texts(column(table, name)).dictionary_encode()
    meaning = {"true": 1, "1": 1, "yes": 1, "false": 0, "0": 0, "no": 0}
    of_text = [meaning.get(text.lower(), -1) for text in found.dictionary.to_pylist()]
    flags = np.array(of_text, np.int64)[np.asarray(found.indices)]
    if wrong := int(np.count_nonzero(flags < 0)):
        raise InvalidData(f"column {name!r}: {wrong} values are neither true nor false (nor 1, 0, yes, no)")
    if not flags.any():
        raise InvalidData(f"column {name!r}: nobody of the population is in the table")
    return np.asarray(flags, np.int64)
