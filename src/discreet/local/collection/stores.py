"""Where reports are kept: a DuckDB file, or a PostgreSQL database, both of one class.

A store is append-only: it has no operation that changes or removes a report, and what was changed by other means is
refused when it is read. Rows of words are added up when they are stored, a few thousand together, and their sums are
kept beside them: an estimate reads sums, not words, and `recount` reads the words again and compares.
What every store promises (tests/contracts/test_report_store.py):

* *whole*: a batch is stored with its counts or not at all, also if the process is killed, the disk full or the
  connection lost; when `append` returns, it is on disk;
* *once*: an id is stored once, whichever batch, process or survey it came with; the others count as replayed;
* *dropped once*: a dropped line that came before counts as replayed, not by its reason again;
* *counted*: `read` is one moment of the store, and what it tallies are exactly the reports that were accepted.

Reports hold nothing that anybody would have to be trusted with. Which of them came together, and when, is kept too.
Of a dropped line only a digest is kept, to know it again; whoever guesses the line can check the guess.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime

import numpy as np

from discreet.errors import InvalidData
from discreet.local.collection.survey import Survey
from discreet.local.oracles.oracle import Integers


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of lines: how many were stored, and how many were dropped for which reason.

    >>> str(Counts(accepted=5, replayed=2))
    '5 accepted, 2 rejected (2 replayed)'
    """

    accepted: int = 0
    malformed: int = 0
    other_survey: int = 0
    other_version: int = 0
    out_of_domain: int = 0
    replayed: int = 0

    @property
    def rejected(self) -> int:
        """All that were not stored."""
        return sum(self.reasons.values())

    @property
    def reasons(self) -> dict[str, int]:
        """How many were dropped, by reason."""
        return {name: count for name, count in asdict(self).items() if name != "accepted"}

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, name) + getattr(other, name) for name in COUNTED))

    def __str__(self) -> str:
        why = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.reasons.items() if count)
        return f"{self.accepted} accepted, {self.rejected} rejected" + (f" ({why})" if why else "")


ENOUGH = 1 << 12
"""So many rows of words, or more, are added up together: their sum is then small beside them."""

COUNTED = tuple(each.name for each in fields(Counts))
"""The columns of a batch."""


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Reports of one survey that can be stored, each id once, and what was wrong with the other lines."""

    ids: list[str]  # 32 hexadecimal digits each
    reports: Integers  # a code for each id, or a row of words
    dropped: Counts
    keys: Mapping[str, list[str]] = field(default_factory=dict)  # of dropped lines, by reason; as ids

    def counts(self, stored: int, again: Mapping[str, int]) -> Counts:
        """What became of the lines, when so many reports were new, and so many dropped lines came before."""
        new = {name: count - again.get(name, 0) for name, count in self.dropped.reasons.items()}
        return Counts(**new) + Counts(accepted=stored, replayed=len(self.ids) - stored + sum(again.values()))


class ReportStore(ABC):
    """Where reports are kept; see this module for what it promises. It holds nothing open between calls."""

    @abstractmethod
    def append(self, survey: Survey, batch: Batch, received: datetime) -> Counts:
        """Add the reports that are new, and the counts of the batch; the store is made if there is none."""

    @abstractmethod
    def _rows(self, survey: Survey) -> "AbstractContextManager[SurveyRows]":
        """What is stored of a survey, at one moment of the store."""

    def counts(self, survey: Survey) -> Counts:
        """What became of all lines so far for this survey."""
        with self._rows(survey) as rows:
            return rows.counts()

    def read(self, survey: Survey) -> tuple[Counts, Integers]:
        """The counts and, of the same moment, the tally that the survey's randomizer estimates from."""
        with self._rows(survey) as rows:
            counts = rows.counts()
            return counts, rows.tally(counts.accepted)

    def recount(self, survey: Survey) -> tuple[Counts, Integers]:
        """The same from the reports alone; refused if it is not what `read` says."""
        with self._rows(survey) as rows:
            counts = rows.counts()
            tally = rows.tally(counts.accepted)
            if survey.randomizes().report_width is not None:
                words = tally_of_words(survey, rows.words(after=0), counts.accepted)
                if not np.array_equal(tally, words):
                    raise changed()
            return counts, tally


class SurveyRows(ABC):
    """What a database holds of one survey, inside a transaction."""

    survey: Survey

    @abstractmethod
    def counts(self) -> Counts:
        """The sums over all batches."""

    @abstractmethod
    def codes(self) -> tuple[Integers, Integers]:
        """The reports that are single numbers, and how many there are of each."""

    @abstractmethod
    def stored(self) -> int:
        """How many reports there are."""

    @abstractmethod
    def words(self, *, after: int) -> Iterator[Integers]:
        """The rows of words of batches after that one, some 16 MB at a time."""

    @abstractmethod
    def sums(self) -> Iterator[Integers]:
        """The sums of words that were kept."""

    @abstractmethod
    def counted(self) -> tuple[int, int]:
        """Up to which batch reports were added up, and how many they are."""

    @abstractmethod
    def waiting(self, after: int) -> int:
        """How many reports were accepted in batches after that one."""

    @abstractmethod
    def keep(self, until: int, counted: int, sums: Integers) -> None:
        """Keep the sums of so many reports, of batches up to that one."""

    def tally(self, accepted: int) -> Integers:
        """The tally of so many reports: codes are counted; of words, sums are read, and the few not yet in them."""
        if self.survey.randomizes().report_width is None:
            return tally_of_codes(self.survey, *self.codes(), accepted)
        until, counted = self.counted()
        if self.stored() != accepted:
            raise changed()
        total = tally_of_words(self.survey, self.words(after=until), accepted - counted)
        for sums in self.sums():
            if sums.shape != total.shape:
                raise changed()
            total += sums
        return total

    def add_up(self, batch: int) -> None:
        """Once there are enough rows of words that nobody added up: do, and keep their sum."""
        if self.survey.randomizes().report_width is None:
            return
        until, _ = self.counted()
        waiting = self.waiting(until)
        if waiting >= ENOUGH:
            self.keep(batch, waiting, tally_of_words(self.survey, self.words(after=until), waiting))


# What a database counted, as a tally


def tally_of_codes(survey: Survey, codes: Integers, many: Integers, accepted: int) -> Integers:
    """The tally of reports that are single numbers, from how many there are of each.

    >>> coin = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr", epsilon=1,
    ...               times=1)
    >>> tally_of_codes(coin, np.array([1]), np.array([7]), 7)
    array([0, 7])
    """
    randomizer = survey.randomizes()
    total = np.zeros(randomizer.tally_size, np.int64)
    if not randomizer.valid(codes).all() or many.sum() != accepted:
        raise changed()
    total[codes] = many
    return total


def tally_of_words(survey: Survey, parts: Iterable[Integers], expected: int) -> Integers:
    """The tally of so many reports that are rows of words, part by part.

    >>> bits = Survey(name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="symmetric unary",
    ...               epsilon=1, times=1)
    >>> tally_of_words(bits, [np.array([[3], [2]])], 2)
    array([1, 2])
    """
    randomizer, seen = survey.randomizes(), 0
    total = np.zeros(randomizer.tally_size, np.int64)
    for rows in parts:
        if not randomizer.valid(rows).all():
            raise changed()
        total += randomizer.tally(rows)
        seen += len(rows)
    if seen != expected:
        raise changed()
    return total


def changed() -> InvalidData:
    """What to raise where the store does not hold what was added to it."""
    return InvalidData("store: it does not hold the reports that were added to it; it was changed by other means")
