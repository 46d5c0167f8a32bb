"""Singling out: a sentence about values, drawn from the release, that is true of exactly one person of its data.

Any sentence that was chosen without the data, and is true of a random person with probability w, isolates one of n
people with probability n·w·(1 − w)^(n−1), at most (1 − 1/n)^(n−1), about 37 % (Cohen, Nissim 2020): that is the
baseline. A release lets people be singled out where its sentences do better.

>>> from discreet.attacks.tables.singling_out import SinglingOut
>>> people = {"age": [20, 30, 40, 50], "zip": ["1", "2", "3", "4"]}
>>> others = {"age": [25, 35, 45, 55], "zip": ["1", "1", "1", "1"]}
>>> SinglingOut(released=people, people=people, controls=others, width=2).run().success.value
1.0
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.tables.columns import Codes, Column, as_numbers, coded, columns, distinct, kind
from discreet.attacks.tables.inference import doubts, names_of, read_tables
from discreet.attacks.tables.rules import rule_for
from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational

Mask = NDArray[np.bool_]
_TRIED = 5  # candidates for each sentence that is kept
_ENOUGH = 20  # sentences true of one released row, to try no others


@dataclass(frozen=True, slots=True, kw_only=True)
class SinglingOut:
    """Find sentences that are true of exactly one person.

    With `width` 1 a sentence is about one column: a value that is rare in the release, the least or the largest number.
    With more, it says of so many columns, chosen at random, that they are as in a released row: the same text, or (if
    coarsened) one that the label covers, the same number, or (in every other sentence) a number within `reach` of it, a
    share of the released values on either side. At most `tries` different sentences are tried: those that are true of
    exactly one released row; where hardly any is, as in a k-anonymous table, those that are true of the fewest.

    The success is the share of sentences that are true of exactly one of the people in the data, the control the same
    for equally many people who were not in it, drawn from the controls: among more or fewer people a sentence isolates
    more or less often. Where there are fewer controls than people, as many people are drawn. A copied row is then
    looked for among some of the people only, so such a release may be seen to fall, but never to hold.
    """

    released: Any = setting("The released table.", kind="table")
    people: Any = setting("The people whose data it was made from.", kind="table")
    controls: Any = setting("Similar people who were not in it.", kind="table")
    columns: Sequence[str] | None = setting(
        "The columns of predicates; by default all of RELEASED.", default=None, kind="columns"
    )
    width: int | None = setting(
        "How many columns a predicate uses.  [3, or fewer if there are fewer]", default=None, least=1
    )
    against: str = setting("Its name in the report.", default="the released table")
    reach: Number = setting("How far numbers may be off, as a share of the rows.", default="0.005")
    tries: int = setting("How many predicates to try.", default=2000, least=1)
    seed: int = setting("The seed of all random choices.", default=0, least=0)
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Single out, and judge."""
        names = names_of(self.columns if self.columns is not None else list(columns(self.released)), "columns")
        usual = min(3, len(names))
        width = usual if self.width is None else integer(self.width, "width", at_least=1, at_most=len(names))
        reach = float(rational(self.reach, "reach", at_least=0, below=1))
        rng = np.random.default_rng(integer(self.seed, "seed", at_least=0))
        released, people, controls = read_tables(self, names)
        said = [_clause(released[name], people[name], controls[name]) for name in names]
        wanted = integer(self.tries, "tries", at_least=1)
        rows = len(released[names[0]])
        possible = _one(said) if width == 1 else _many(said, rows, width, reach, wanted, rng)
        sentences = _fewest(possible, said, wanted, rng)
        if not sentences:
            what = "every column is missing everywhere" if width == 1 else f"no row has values in {width} columns"
            raise InvalidData(f"released: {what}; no predicate can be formed")
        sizes = len(people[names[0]]), len(controls[names[0]])
        equal = min(sizes)
        counts = [_counted(said, sentences, table, size, equal, rng) for table, size in zip((1, 2), sizes, strict=True)]
        control = _isolated(counts[1], self.confidence)
        return AttackReport(
            attack="singling out",
            against=self.against,
            goal=f"say what is true of exactly one person, in {width} column{'s' if width > 1 else ''}",
            people=len(sentences),
            success=_isolated(counts[0], self.confidence),
            baseline=_by_weight(counts[1] / equal, equal, control),
            control=control,
            confidence=self.confidence,
            facts={
                "people in the data": sizes[0],
                "people of the control": sizes[1],
                "people on either side": equal,
                "sentences true of exactly one released row": sum(len(_true(said, s, 0)) == 1 for s in sentences),
                "sentences true of nobody on the side of the data": int((counts[0] == 0).sum()),
            },
            unread=(*doubts(released, people, controls), *_too_few(*sizes)),
            remarks=_some_of_them(rows, sizes[0]),
            normalized=True,
        )


Sentence = tuple[tuple[int, Any], ...]
"""Clauses: the number of a column, and what is said of it (a code, or a pair of limits)."""


class _Clause(Protocol):
    """What can be said of one column of the three tables (0: released, 1: people, 2: controls)."""

    def values(self) -> Iterator[Any]:
        """All that can be said of this column alone."""
        ...

    def of_row(self, row: int, reach: float) -> Any:
        """What can be said after a released row; None where it is missing there."""
        ...

    def true(self, said: Any, table: int, rows: Codes | slice) -> Mask:
        """For which rows it is true."""
        ...


@dataclass(frozen=True, slots=True)
class _Numbers:
    tables: tuple[NDArray[np.float64], ...]
    ordered: NDArray[np.float64]

    def values(self) -> Iterator[Any]:
        if len(self.ordered):
            yield from ((-np.inf, self.ordered[0]), (self.ordered[-1], np.inf))
        yield from ((value, value) for value in np.unique(self.ordered).tolist())

    def of_row(self, row: int, reach: float) -> Any:
        value = self.tables[0][row]
        if np.isnan(value):
            return None
        steps = int(reach * len(self.ordered))
        first, last = (np.searchsorted(self.ordered, value, side) for side in ("left", "right"))
        low = min(value, self.ordered[max(0, first - steps)])
        return low, max(value, self.ordered[min(len(self.ordered) - 1, last - 1 + steps)])

    def true(self, said: Any, table: int, rows: Codes | slice) -> Mask:
        at = self.tables[table][rows]
        return np.asarray((at >= said[0]) & (at <= said[1]))


@dataclass(frozen=True, slots=True)
class _Labels:
    released: Codes
    covers: NDArray[np.bool_]  # labels × values, the last value: missing
    tables: tuple[Codes, ...]

    def values(self) -> Iterator[Any]:
        yield from range(len(self.covers))

    def of_row(self, row: int, reach: float) -> Any:
        return None if self.released[row] < 0 else int(self.released[row])

    def true(self, said: Any, table: int, rows: Codes | slice) -> Mask:
        if table == 0:
            return np.asarray(self.released[rows] == said)
        return np.asarray(self.covers[said][self.tables[table - 1][rows]])


def _clause(released: Column, people: Column, controls: Column) -> _Clause:
    if {kind(column) for column in (released, people, controls)} in ({"number"}, {"date"}):
        tables = tuple(as_numbers(column) for column in (released, people, controls))
        return _Numbers(tables, np.sort(tables[0][~np.isnan(tables[0])]))
    (labels,) = coded(released)
    values = coded(people, controls)
    joined = people if kind(people) == kind(controls) else people.astype(object)
    every = distinct(np.concatenate([joined, controls]), np.concatenate(values))
    relation = rule_for(released, every).relation(distinct(released, labels), every)
    covers = np.zeros((labels.max(initial=-1) + 1, len(every) + 1), bool)
    covers[relation.labels, relation.values] = True
    return _Labels(labels, covers, values)


def _one(said: list[_Clause]) -> list[Sentence]:
    return [((place, what),) for place, clause in enumerate(said) for what in clause.values()]


def _many(
    said: list[_Clause], rows: int, width: int, reach: float, wanted: int, rng: np.random.Generator
) -> list[Sentence]:
    """Sentences about random columns of random released rows, several for each that is wanted, each once."""
    result: dict[Sentence, None] = {}
    for number, row in enumerate(rng.integers(0, rows, _TRIED * wanted).tolist()):
        places = np.sort(rng.choice(len(said), width, replace=False)).tolist()
        clauses = tuple((place, said[place].of_row(row, reach * (number % 2))) for place in places)
        if all(what is not None for _, what in clauses):
            result[clauses] = None
    return list(result)


def _fewest(sentences: list[Sentence], said: list[_Clause], wanted: int, rng: np.random.Generator) -> list[Sentence]:
    """Those that are true of one released row, at random; where they are few, of the fewest (but at least one)."""
    mixed = [sentences[i] for i in rng.permutation(len(sentences)).tolist()]
    counts = np.array([len(_true(said, sentence, 0)) for sentence in mixed])
    alone = int((counts == 1).sum())
    order = [int(i) for i in np.argsort(counts, kind="stable") if counts[i]]
    return [mixed[i] for i in order[: min(wanted, alone) if alone >= min(_ENOUGH, wanted) else wanted]]


def _true(said: list[_Clause], sentence: Sentence, table: int) -> Codes:
    """The rows of which a sentence is true."""
    (place, what), *rest = sentence
    rows = np.flatnonzero(said[place].true(what, table, slice(None)))
    for place, what in rest:
        rows = rows[said[place].true(what, table, rows)]
    return rows


def _counted(
    said: list[_Clause], sentences: list[Sentence], table: int, size: int, wanted: int, rng: np.random.Generator
) -> Codes:
    """Of how many rows each sentence is true, among as many as wanted, drawn at random."""
    drawn = np.zeros(size, bool)
    drawn[rng.choice(size, wanted, replace=False)] = True
    return np.array([int(drawn[_true(said, sentence, table)].sum()) for sentence in sentences])


def _isolated(counts: Codes, confidence: float) -> Share:
    return Share.among(counts == 1, confidence=confidence)


def _by_weight(weights: NDArray[np.float64], people: int, control: Share) -> Share:
    """The mean of n·w·(1 − w)^(n−1), with its sampling error over sentences; the upper limit is that of the controls
    at least, by whom the weights are counted: sentences true of none of few people may be true of others."""
    alone = people * weights * (1 - weights) ** (people - 1)
    mean, error = float(alone.mean()), 2 * float(alone.std()) / np.sqrt(len(alone))
    return Share(value=mean, low=max(0.0, mean - error), high=min(1.0, max(mean + error, control.high)))


def _some_of_them(rows: int, people: int) -> tuple[str, ...]:
    """What is said where the release is larger than the list of people."""
    if rows <= people:
        return ()
    return (
        f"The release has {rows:,} rows for {people:,} people. If it was made from more people, rows of the "
        "others may be copied unseen: name all of them.",
    )


def _too_few(people: int, controls: int) -> tuple[str, ...]:
    if controls >= people:
        return ()
    return (
        f"there are {controls:,} controls for {people:,} people: only {controls:,} people, drawn at random, were "
        f"looked at, and rows of the others may be copied; hold back {people:,} controls to see a release hold",
    )
