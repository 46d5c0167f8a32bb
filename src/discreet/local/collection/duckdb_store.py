"""Reports in one DuckDB file. It is opened for each call and closed after it, so several programs can take turns."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.errors import InvalidParameter
from discreet.local.collection.stores import COUNTED, Batch, Counts, ReportStore, SurveyRows, changed
from discreet.local.collection.survey import Survey
from discreet.local.oracles.oracle import Integers

if TYPE_CHECKING:
    import duckdb

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
        with self._opened(write=True) as connection:
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
        with self._opened(write=False) as connection:  # no other program can write meanwhile
            yield _Rows(connection, survey)

    # Opening

    @contextmanager
    def _opened(self, *, write: bool) -> "Iterator[duckdb.DuckDBPyConnection]":
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
                busy = any(word in self._said(error) for word in _IN_USE)
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
        said = self._said(error)
        if any(word in said for word in _FULL):
            return self._refusal("a disk with room", "the disk is full; what was stored before is there; add again")
        if any(word in said for word in _CLOSED):
            return self._refusal(f"a file that may be {'written' if write else 'read'}", "its permissions forbid it")
        if any(word in said for word in _IN_USE):
            return self._refusal("a file that no other program has open", "try again when it is done")
        if any(word in said for word in _FOREIGN):
            return self._refusal("a collection", "it is damaged, or a file of another kind")
        return self._refusal("a collection that can be used", f"DuckDB: {str(error).splitlines()[0][:200]}")

    def _said(self, error: Exception) -> str:
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
