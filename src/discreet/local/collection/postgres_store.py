"""Reports in a PostgreSQL database: for several collectors at once, on several machines.

Everything is in the schema `discreet_collection`, which the first `append` makes. Batches travel by COPY in its binary
form, whose rows are of one length here, so numpy writes and reads them: no text, no loop over reports.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter, MissingExtra
from discreet.local.collection.duckdb_store import COUNTED, Batch, Counts, ReportStore, SurveyRows, changed
from discreet.local.collection.survey import Survey
from discreet.local.oracles.oracle import Integers

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_SCHEMA = 2  # what _TABLES says, too
_MAKING = 0x646973637265  # the number of the lock under which the tables are made: "discre"
_TABLES = """
CREATE SCHEMA discreet_collection;
CREATE TABLE discreet_collection.form (version integer NOT NULL);
INSERT INTO discreet_collection.form VALUES (2);
CREATE TABLE discreet_collection.surveys (
    number integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, digest text UNIQUE NOT NULL, document text NOT NULL);
CREATE TABLE discreet_collection.reports (
    id uuid PRIMARY KEY, survey integer NOT NULL, batch bigint NOT NULL, received timestamptz NOT NULL, report bigint,
    words bigint[]);
CREATE INDEX ON discreet_collection.reports (survey, batch);
CREATE TABLE discreet_collection.tallies (
    survey integer NOT NULL, until bigint NOT NULL, counted bigint NOT NULL, sums bigint[] NOT NULL);
CREATE TABLE discreet_collection.batches (
    survey integer NOT NULL, batch bigint NOT NULL, received timestamptz NOT NULL, accepted bigint NOT NULL,
    malformed bigint NOT NULL, other_survey bigint NOT NULL, other_version bigint NOT NULL,
    out_of_domain bigint NOT NULL, replayed bigint NOT NULL);
CREATE TABLE discreet_collection.dropped (survey integer, key uuid, PRIMARY KEY (survey, key));
CREATE FUNCTION discreet_collection.refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'reports are only ever added, never changed or removed'; END $$;
"""
_TRIGGER = (
    "CREATE TRIGGER only_added BEFORE UPDATE OR DELETE OR TRUNCATE ON discreet_collection.{} "
    "FOR EACH STATEMENT EXECUTE FUNCTION discreet_collection.refuse()"
)
_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"
_SURVEY = "INSERT INTO discreet_collection.surveys (digest, document) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_INCOMING = "CREATE TEMP TABLE incoming (id uuid, {} {}) ON COMMIT DROP"
_INSERT = (
    "INSERT INTO discreet_collection.reports (id, survey, batch, received, {0}) "
    "SELECT id, %s, %s, %s, {0} FROM incoming ORDER BY id ON CONFLICT DO NOTHING"
)
_PLACE = "SELECT coalesce(max(batch), 0) + 1 FROM discreet_collection.batches WHERE survey = %s"
_BATCH = "INSERT INTO discreet_collection.batches VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_WAITING = "SELECT coalesce(sum(accepted), 0)::bigint FROM discreet_collection.batches WHERE survey = %s AND batch > %s"
_COUNTED = (
    "SELECT coalesce(max(until), 0), coalesce(sum(counted), 0)::bigint FROM discreet_collection.tallies "
    "WHERE survey = %s"
)
_TALLY = "INSERT INTO discreet_collection.tallies VALUES (%s, %s, %s, %s)"
_CODES = "SELECT coalesce(report, -1), count(*) FROM discreet_collection.reports WHERE survey = {} GROUP BY report"
_HAS_DROPPED = (
    "SELECT to_regclass('discreet_collection.dropped') IS NOT NULL"  # collections of before have no such table
)
_DROP = (
    "INSERT INTO discreet_collection.dropped SELECT %s, key FROM unnest(%s::uuid[]) AS key ORDER BY key "
    "ON CONFLICT DO NOTHING"
)
_SIGNATURE = b"PGCOPY\n\xff\r\n\x00" + bytes(8)
_END = b"\xff\xff"
_BIGINT = 20  # its number among the types
_BLOCK = 1 << 24


class PostgresReports(ReportStore):
    """The reports in the database at `address`: `postgresql://user@host:port/database`, as libpq reads it.

    Passwords belong in `~/.pgpass`, `PGPASSWORD` or a service file, where other users of the machine do not see them;
    one in the address is used and never shown.

    **Append-only.** Triggers refuse UPDATE, DELETE and TRUNCATE from everybody; the owner of the tables could drop the
    triggers, so let collectors be another role, with SELECT and INSERT alone (docs/guide/local.md).
    **Replays** are found by the primary key: the cost is that of the batch. Batches are inserted in the order of ids,
    so that two collectors of the same reports wait for each other, and never in a circle.
    """

    def __init__(self, address: str, *, patience: float = 10.0) -> None:
        self._address, self.patience, self.name = address, patience, _without_secrets(address)

    def __repr__(self) -> str:
        return f"PostgresReports({self.name!r})"

    def append(self, survey: Survey, batch: Batch, received: datetime) -> Counts:
        """Add what is new, in one transaction."""
        with self._transaction(write=True) as connection:
            connection.execute(_DURABLE)
            rows = _Rows(connection, survey, make=True)
            number = rows.number
            place = _place(connection, survey, number)
            stored = _insert(connection, batch, number, place, received) if batch.ids else 0
            counts = batch.counts(stored, _drop(connection, batch, number))
            connection.execute(_BATCH, [number, place, received, *asdict(counts).values()])
            rows.add_up(place)
        return counts

    @contextmanager
    def _rows(self, survey: Survey) -> "Iterator[_Rows]":
        with self._transaction(write=False) as connection:  # one snapshot
            yield _Rows(connection, survey)

    # Opening

    @contextmanager
    def _transaction(self, *, write: bool) -> "Iterator[Connection]":
        """A connection inside a transaction, which is committed at the end."""
        psycopg = _psycopg()
        try:
            with self._connected() as connection:
                level = psycopg.IsolationLevel
                connection.isolation_level = level.READ_COMMITTED if write else level.REPEATABLE_READ
                connection.read_only = None if write else True
                self._check_schema(connection, make=write)
                yield connection
        except psycopg.Error as error:
            raise self._translated(error) from None

    def _connected(self) -> "Connection":
        seconds = max(2, round(self.patience))
        name = "discreet local"
        return _psycopg().connect(self._address, connect_timeout=seconds, application_name=name)  # type: ignore[no-any-return]

    def _check_schema(self, connection: "Connection", *, make: bool) -> None:
        if not _exists(connection):
            if not make:
                raise self._refusal("a database with a collection", "discreet local collect makes one")
            _make(connection)
        version = connection.execute("SELECT max(version) FROM discreet_collection.form").fetchone()
        if version != (_SCHEMA,):
            raise self._refusal(f"a collection of version {_SCHEMA}", "another version of discreet made it")

    # Words for what went wrong

    def _translated(self, error: "psycopg.Error") -> InvalidParameter:
        """The server's own first line says what is wrong; it names roles and tables, never a password."""
        errors = _psycopg().errors
        match error:
            case errors.InsufficientPrivilege():
                return self._refusal("a database where this role may do that", _line(error))
            case errors.DiskFull() | errors.ReadOnlySqlTransaction():
                return self._refusal("a server that can write", f"{_line(error)}; what was stored before is there")
            case errors.UndefinedTable() | errors.UndefinedColumn():
                return self._refusal("a collection", "the schema discreet_collection holds other tables")
            case errors.OperationalError() | errors.InterfaceError():
                return self._refusal("a server that answers", _line(error))
        return self._refusal("a collection that can be used", f"PostgreSQL: {_line(error)}")

    def _refusal(self, expected: str, hint: str = "") -> InvalidParameter:
        return InvalidParameter("store", self.name, expected, hint)


# Addresses


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    return psycopg


def _without_secrets(address: str) -> str:
    """The address without secrets: user, host, port and database.

    What libpq says about an address that it cannot read may quote a password, so nothing of that is told.

    >>> _without_secrets("postgresql://ann:secret@db.example.org:5433/surveys?sslmode=require")
    'postgresql://ann@db.example.org:5433/surveys'
    """
    psycopg = _psycopg()
    from psycopg.conninfo import conninfo_to_dict

    try:
        known = conninfo_to_dict(address)
    except psycopg.Error:
        expected = "an address such as postgresql://user@host:5432/database"
        raise InvalidParameter("store", "postgresql://…", expected, "write % and @ in names as %25 and %40") from None
    user = f"{known['user']}@" if known.get("user") else ""
    port = f":{known['port']}" if known.get("port") else ""
    return f"postgresql://{user}{known.get('host') or ''}{port}/{known.get('dbname') or ''}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split("\n")[0].split())[:200]


# In the database


def _exists(connection: "Connection") -> bool:
    query = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'discreet_collection' AND tablename = 'form'"
    return connection.execute(query).fetchone() is not None


def _make(connection: "Connection") -> None:
    """Make the tables, unless another program just did."""
    connection.execute("SELECT pg_advisory_xact_lock(%s)", [_MAKING])
    if _exists(connection):
        return
    connection.execute(_TABLES)
    for table in ("form", "surveys", "reports", "tallies", "batches", "dropped"):
        connection.execute(_TRIGGER.format(table))


def _number(connection: "Connection", survey: Survey, *, make: bool = False) -> int | None:
    """The number under which the store keeps a survey."""
    query = "SELECT number FROM discreet_collection.surveys WHERE digest = %s"
    row = connection.execute(query, [survey.digest]).fetchone()
    if row is None and make:
        connection.execute(_SURVEY, [survey.digest, json.dumps(survey.to_json(), ensure_ascii=False)])
        row = connection.execute(query, [survey.digest]).fetchone()
    return None if row is None else int(row[0])


def _place(connection: "Connection", survey: Survey, number: int | None) -> int:
    """The number of a new batch among those of its survey.

    Where words are added up, batches of a survey wait for each other: else one could be added up past another that is
    not there yet.
    """
    if survey.randomizes().report_width is not None:
        connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [_MAKING & 0x7FFFFFFF, number])
    return int((connection.execute(_PLACE, [number]).fetchone() or (1,))[0])


def _insert(connection: "Connection", batch: Batch, number: int | None, place: int, received: datetime) -> int:
    """How many of the batch were new."""
    column, kind = ("report", "bigint") if batch.reports.ndim == 1 else ("words", "bigint[]")
    connection.execute(_INCOMING.format(column, kind))
    with connection.cursor() as cursor, cursor.copy("COPY incoming FROM STDIN (FORMAT BINARY)") as copy:
        copy.write(_SIGNATURE)
        copy.write(_packed(batch).tobytes())
        copy.write(_END)
    return connection.execute(_INSERT.format(column), [number, place, received]).rowcount


def _drop(connection: "Connection", batch: Batch, number: int | None) -> dict[str, int]:
    """Note the dropped lines; how many of them came before, by reason."""
    lines = {reason: keys for reason, keys in batch.keys.items() if keys}
    if not lines or connection.execute(_HAS_DROPPED).fetchone() != (True,):
        return {}
    return {reason: len(keys) - connection.execute(_DROP, [number, keys]).rowcount for reason, keys in lines.items()}


class _Rows(SurveyRows):
    """The rows of a survey over an open connection."""

    def __init__(self, connection: "Connection", survey: Survey, *, make: bool = False) -> None:
        self.connection, self.survey, self.number = connection, survey, _number(connection, survey, make=make)

    def counts(self) -> Counts:
        sums = ", ".join(f"coalesce(sum({name}), 0)::bigint" for name in COUNTED)
        query = f"SELECT {sums} FROM discreet_collection.batches WHERE survey = %s"  # noqa: S608
        return Counts(*self._row(query, self.number))

    def codes(self) -> tuple[Integers, Integers]:
        rows = np.concatenate(list(_copied(self.connection, _CODES.format(self.number or 0), _COUNTED_CODES)))
        return rows["code"].astype(np.int64), rows["many"].astype(np.int64)

    def stored(self) -> int:
        query = "SELECT count(*) FROM discreet_collection.reports WHERE survey = %s"
        return int(self._row(query, self.number)[0])

    def words(self, *, after: int) -> Iterator[Integers]:
        where = f"WHERE survey = {self.number or 0} AND batch > {after}"
        query = f"SELECT words FROM discreet_collection.reports {where}"  # noqa: S608
        return self._arrays(query, self.survey.randomizes().report_width or 1)

    def sums(self) -> Iterator[Integers]:
        query = f"SELECT sums FROM discreet_collection.tallies WHERE survey = {self.number or 0}"  # noqa: S608
        for rows in self._arrays(query, self.survey.randomizes().tally_size):
            yield from rows

    def counted(self) -> tuple[int, int]:
        until, counted = self._row(_COUNTED, self.number)
        return int(until), int(counted)

    def waiting(self, after: int) -> int:
        return int(self._row(_WAITING, self.number, after)[0])

    def keep(self, until: int, counted: int, sums: Integers) -> None:
        self.connection.execute(_TALLY, [self.number, until, counted, sums.tolist()])

    def _row(self, query: str, *values: int | None) -> tuple[Any, ...]:
        return self.connection.execute(query, values).fetchone() or ()

    def _arrays(self, query: str, wide: int) -> Iterator[Integers]:
        """The arrays that a query returns, each of that many numbers."""
        for part in _copied(self.connection, query, np.dtype([("fields", ">i2"), *_words(wide)])):
            yield _unpacked(part, wide)


# PostgreSQL's binary form of COPY: a signature; rows: how many fields, then the size and the bytes of each; an end

_COUNTED_CODES = np.dtype([("fields", ">i2"), ("s1", ">i4"), ("code", ">i8"), ("s2", ">i4"), ("many", ">i8")])


def _words(wide: int) -> list[Any]:
    """An array of bigint: its size, (dimensions, NULLs or not, type, length, first index), each with its own size."""
    return [("size", ">i4"), ("head", ">i4", (5,)), ("words", [("size", ">i4"), ("word", ">i8")], (wide,))]


def _head(wide: int) -> tuple[int, ...]:
    return 1, 0, _BIGINT, wide, 1


def _packed(batch: Batch) -> NDArray[Any]:
    """The rows of a batch: id, and the report or its words."""
    start = [("fields", ">i2"), ("id_size", ">i4"), ("id", "V16")]
    wide = None if batch.reports.ndim == 1 else batch.reports.shape[1]
    kind: list[Any] = [("size", ">i4"), ("report", ">i8")] if wide is None else _words(wide)
    rows = np.zeros(len(batch.ids), np.dtype(start + kind))
    rows["fields"], rows["id_size"], rows["size"] = 2, 16, 8
    rows["id"] = np.frombuffer(bytes.fromhex("".join(batch.ids)), "V16")
    if wide is None:
        rows["report"] = batch.reports
    else:
        rows["size"], rows["head"] = 20 + 12 * wide, _head(wide)
        rows["words"]["size"], rows["words"]["word"] = 8, batch.reports
    return rows


def _unpacked(rows: NDArray[Any], wide: int) -> Integers:
    """The words of rows, each of which must be an array of that many: then the sizes fit, and none was misread."""
    fine = (rows["fields"] == 1).all() and (rows["head"] == _head(wide)).all() and (rows["words"]["size"] == 8).all()
    if not fine:
        raise changed()
    words: Integers = rows["words"]["word"].astype(np.int64)
    return words


def _copied(connection: "Connection", query: str, row: "np.dtype[Any]") -> Iterator[NDArray[Any]]:
    """The rows that a query returns, all of one length, some 16 MB at a time."""
    whole = max(1, _BLOCK // row.itemsize) * row.itemsize
    waiting, start = bytearray(), len(_SIGNATURE)
    with connection.cursor() as cursor, cursor.copy(f"COPY ({query}) TO STDOUT (FORMAT BINARY)") as copy:
        for piece in copy:
            waiting += piece
            while len(waiting) >= start + whole + len(_END):
                yield np.frombuffer(bytes(waiting[start : start + whole]), row)
                waiting, start = waiting[start + whole :], 0
    rest = bytes(waiting[start : -len(_END)])
    if len(rest) % row.itemsize:
        raise changed()
    yield np.frombuffer(rest, row)
