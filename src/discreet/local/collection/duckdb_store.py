"""Reports in one DuckDB file. It is opened for each call and closed after it, so several programs can take turns.

Where reports are kept: a DuckDB file, or a PostgreSQL database, both of one class.

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

import json
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.collection.survey import Survey
from discreet.local.oracles.oracle import Integers

if TYPE_CHECKING:
    import duckdb


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


_SCHEMA = 2  # what _TABLES says, too
_TABLES = (
    "CREATE TABLE discreet_collection (version INTEGER)",
    "INSERT INTO discreet_collection VALUES (2)",
    "CREATE TABLE surveys (number INTEGER, digest VARCHAR, document VARCHAR)",
    "CREATE TABLE reports (id UUID, survey INTEGER, batch INTEGER, received TIMESTAMP, report BIGINT, words BIGINT[])",
    "CREATE TABLE tallies (survey INTEGER, until INTEGER, counted BIGINT, sums BIGINT[])",  # of batches up to `until`
    "CREATE TABLE batches (survey INTEGER, batch INTEGER, received TIMESTAMP, accepted BIGINT, malformed BIGINT, "
    "other_survey BIGINT, other_version BIGINT, out_of_domain BIGINT, replayed BIGINT)",
)
_KEYED = "CREATE TEMP TABLE incoming AS SELECT id::UUID AS key, place, report, words FROM batch"
_SEEN = "CREATE TEMP TABLE seen AS SELECT id FROM reports SEMI JOIN incoming ON reports.id = incoming.key"
_INSERT = (
    "INSERT INTO reports SELECT key, ?, ?, ?, report, words FROM incoming ANTI JOIN seen ON incoming.key = seen.id "
    "ORDER BY place"
)
_DROPPED = "CREATE TABLE IF NOT EXISTS dropped (survey INTEGER, key UUID)"  # collections of before have none
_AGAIN = (
    "SELECT reason, count(*) FROM lines SEMI JOIN (SELECT key FROM dropped WHERE survey = ?) known "
    "ON lines.key::UUID = known.key GROUP BY reason"
)
_DROP = (
    "INSERT INTO dropped SELECT ?, key::UUID FROM lines ANTI JOIN (SELECT key FROM dropped WHERE survey = ?) known "
    "ON lines.key::UUID = known.key"
)
_IN_USE = ("lock", "different configuration", "already attached", "unique file handle")
_CLOSED = ("permission", "read-only", "read only", "not permitted")
_FULL = ("no space left", "file too large", "disk quota", "out of disk")
_FOREIGN = (
    "not a valid duckdb",
    "extension",
    "not a database",
    "different version",
    "newer version",
    "corrupt",
    "checksum",
)

_LOCKS: dict[Path, threading.RLock] = {}


class DuckdbReports(ReportStore):
    """The reports in the file `path`, which the first `append` makes.

    **Replays.** A batch is joined to the stored ids with the batch as the hash table: one pass over 16 bytes a stored
    report, 0.2 s for ten million of them, and memory for the batch alone. An index would not be quicker here: DuckDB's
    must be read as a whole for a batch of thousands of random ids (measured: 1.0 s, and four times the file).
    """

    def __init__(self, path: str | Path, *, patience: float = 10.0) -> None:
        self.path, self.patience = Path(path), patience

    def __repr__(self) -> str:
        return f"DuckdbReports({str(self.path)!r})"

    def append(self, survey: Survey, batch: Batch, received: datetime) -> Counts:
        """Add what is new, in one transaction."""
        moment = received.astimezone(UTC).replace(tzinfo=None)
        with self._transaction(write=True) as connection:
            connection.execute("BEGIN")
            rows = _Rows(connection, survey, make=True)
            number = rows.number
            place = _one(connection, "SELECT coalesce(max(batch), 0) + 1 FROM batches")
            connection.register("batch", _table(batch))
            connection.execute(_KEYED)
            connection.execute(_SEEN)
            connection.execute(_INSERT, [number, place, moment])
            stored = len(batch.ids) - _one(connection, "SELECT count(*) FROM seen")
            counts = batch.counts(stored, _drop(connection, batch, number))
            values = [number, place, moment, *asdict(counts).values()]
            connection.execute("INSERT INTO batches VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
            rows.add_up(place)
            connection.execute("DROP TABLE incoming")
            connection.execute("DROP TABLE seen")
            connection.execute("COMMIT")
        return counts

    @contextmanager
    def _rows(self, survey: Survey) -> "Iterator[_Rows]":
        with self._transaction(write=False) as connection:  # no other program can write meanwhile
            yield _Rows(connection, survey)

    # Opening

    @contextmanager
    def _transaction(self, *, write: bool) -> "Iterator[duckdb.DuckDBPyConnection]":
        import duckdb

        if not write and not self.path.is_file():
            raise self._refusal("an existing collection", "discreet local collect makes one")
        if not self.path.parent.is_dir():
            raise self._refusal("a file in a folder that exists")
        with _LOCKS.setdefault(self.path.resolve(), threading.RLock()):
            connection = self._connected(write)
            try:
                self._check_schema(connection, make=write)
                yield connection
            except duckdb.Error as error:
                raise self._translated(error, write) from None
            finally:
                connection.close()

    def _connected(self, write: bool) -> "duckdb.DuckDBPyConnection":
        import duckdb

        config: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "python_enable_replacements": False,
        }
        end = time.monotonic() + self.patience
        while True:
            try:
                return duckdb.connect(str(self.path), read_only=not write, config=config)
            except duckdb.Error as error:
                busy = any(word in self._words_of(error) for word in _IN_USE)
                if not busy or time.monotonic() >= end:
                    raise self._translated(error, write) from None
                time.sleep(0.05)

    def _check_schema(self, connection: "duckdb.DuckDBPyConnection", *, make: bool) -> None:
        names = {row[0] for row in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
        if not names and make:
            connection.execute("BEGIN")
            for statement in _TABLES:
                connection.execute(statement)
            connection.execute("COMMIT")
            return
        if "discreet_collection" not in names:
            hint = "it is a DuckDB file with other tables" if names else "it is an empty DuckDB file"
            raise self._refusal("a collection", hint)
        version = _one(connection, "SELECT max(version) FROM discreet_collection")
        if version != _SCHEMA:
            hint = "another version of discreet made it" if version else "it is damaged"
            raise self._refusal(f"a collection of version {_SCHEMA}", hint)

    # Words for what went wrong

    def _translated(self, error: Exception, write: bool) -> InvalidParameter:
        said = self._words_of(error)
        if any(word in said for word in _FULL):
            return self._refusal("a disk with room", "the disk is full; what was stored before is there; add again")
        if any(word in said for word in _CLOSED):
            return self._refusal(f"a file that may be {'written' if write else 'read'}", "its permissions forbid it")
        if any(word in said for word in _IN_USE):
            return self._refusal("a file that no other program has open", "try again when it is done")
        if any(word in said for word in _FOREIGN):
            return self._refusal("a collection", "it is damaged, or a file of another kind")
        return self._refusal("a collection that can be used", f"DuckDB: {str(error).splitlines()[0][:200]}")

    def _words_of(self, error: Exception) -> str:
        """What DuckDB said, without the name of the file: that may hold any word."""
        text = str(error)
        for name in (str(self.path.resolve()), str(self.path), self.path.name):
            text = text.replace(name, "")
        return text.lower()

    def _refusal(self, expected: str, hint: str = "") -> InvalidParameter:
        return InvalidParameter("store", str(self.path), expected, hint)


# In the database


def _table(batch: Batch) -> Any:
    """A batch for DuckDB: id, place among the lines, and the report as a number or as words."""
    import pyarrow as pa

    size = len(batch.ids)
    columns: dict[str, Any] = {"id": pa.array(batch.ids, pa.string()), "place": np.arange(size)}
    if batch.reports.ndim == 1:
        return pa.table(columns | {"report": batch.reports, "words": pa.nulls(size, pa.list_(pa.int64()))})
    wide = batch.reports.shape[1]
    ends = pa.array(np.arange(0, size * wide + 1, wide), pa.int32())
    words = pa.ListArray.from_arrays(ends, pa.array(batch.reports.ravel()))
    return pa.table(columns | {"report": pa.nulls(size, pa.int64()), "words": words})


def _drop(connection: "duckdb.DuckDBPyConnection", batch: Batch, number: int | None) -> dict[str, int]:
    """Note the dropped lines; how many of them came before, by reason."""
    import pyarrow as pa

    keys = [key for each in batch.keys.values() for key in each]
    if not keys:
        return {}
    reasons = [reason for reason, each in batch.keys.items() for _ in each]
    connection.execute(_DROPPED)
    connection.register("lines", pa.table({"key": pa.array(keys, pa.string()), "reason": reasons}))
    again = {str(reason): int(count) for reason, count in connection.execute(_AGAIN, [number]).fetchall()}
    connection.execute(_DROP, [number, number])
    return again


def _number(connection: "duckdb.DuckDBPyConnection", survey: Survey, *, make: bool = False) -> int | None:
    """The number under which the store keeps a survey."""
    rows = connection.execute("SELECT number FROM surveys WHERE digest = ?", [survey.digest]).fetchall()
    if rows or not make:
        return int(rows[0][0]) if rows else None
    number = _one(connection, "SELECT coalesce(max(number), 0) + 1 FROM surveys")
    document = json.dumps(survey.to_json(), ensure_ascii=False)
    connection.execute("INSERT INTO surveys VALUES (?, ?, ?)", [number, survey.digest, document])
    return number


class _Rows(SurveyRows):
    """The rows of a survey over an open connection."""

    def __init__(self, connection: "duckdb.DuckDBPyConnection", survey: Survey, *, make: bool = False) -> None:
        self.connection, self.survey, self.number = connection, survey, _number(connection, survey, make=make)

    def counts(self) -> Counts:
        sums = ", ".join(f"coalesce(sum({name}), 0)::BIGINT" for name in COUNTED)
        query = f"SELECT {sums} FROM batches WHERE survey = ?"  # noqa: S608
        return Counts(*self.connection.execute(query, [self.number]).fetchall()[0])

    def codes(self) -> tuple[Integers, Integers]:
        query = "SELECT report, count(*) AS many FROM reports WHERE survey = ? GROUP BY report"
        table = self.connection.execute(query, [self.number]).fetchnumpy()
        if np.ma.is_masked(table["report"]):
            raise changed()
        return np.asarray(table["report"], np.int64), np.asarray(table["many"], np.int64)

    def stored(self) -> int:
        return _one(self.connection, "SELECT count(*) FROM reports WHERE survey = ?", self.number)

    def words(self, *, after: int) -> Iterator[Integers]:
        wide = self.survey.randomizes().report_width or 1
        if self.number is None:
            return
        query = "SELECT words FROM reports WHERE survey = ? AND batch > ?"
        for part in self.connection.sql(query, params=[self.number, after]).to_arrow_reader(
            max(2048, (1 << 21) // wide)
        ):
            column = part.column(0)
            if column.null_count or (np.asarray(column.value_lengths()) != wide).any() or column.flatten().null_count:
                raise changed()
            yield column.flatten().to_numpy(zero_copy_only=False).reshape(-1, wide)

    def sums(self) -> Iterator[Integers]:
        table = self.connection.sql("SELECT sums FROM tallies WHERE survey = ?", params=[self.number]).to_arrow_table()
        for sums in table.column(0):
            yield sums.values.to_numpy(zero_copy_only=False)

    def counted(self) -> tuple[int, int]:
        query = "SELECT coalesce(max(until), 0), coalesce(sum(counted), 0)::BIGINT FROM tallies WHERE survey = ?"
        until, counted = self.connection.execute(query, [self.number]).fetchall()[0]
        return int(until), int(counted)

    def waiting(self, after: int) -> int:
        query = "SELECT sum(accepted) FROM batches WHERE survey = ? AND batch > ?"
        return _one(self.connection, query, self.number, after)

    def keep(self, until: int, counted: int, sums: Integers) -> None:
        self.connection.execute("INSERT INTO tallies VALUES (?, ?, ?, ?)", [self.number, until, counted, sums.tolist()])


def _one(connection: "duckdb.DuckDBPyConnection", query: str, *values: int | None) -> int:
    rows = connection.execute(query, list(values)).fetchall()
    return int(rows[0][0] or 0)
