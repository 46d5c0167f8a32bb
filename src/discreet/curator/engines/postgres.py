"""Tables where they are in a PostgreSQL database: the server adds up, the curator sees exact aggregates alone.

Each table of the catalog is a WITH clause of its own name over the owner's table, with exactly the declared columns in
the declared types, so nothing is made in the database and a role that may only SELECT is enough.

Guarantee: no value of a row makes a query fail. Proof: every expression of `_read` is the column itself, a cast that
holds every value of its type, or a CASE that gives NULL for values that the wanted type does not hold: dates and times
outside the years 1 to 9999 (±infinity among them), numerics beyond doubles. Views may compute anything: a view is read
only where the policy says so (`view:clinic.visits`), which is the owner's promise that it cannot fail and that each of
its rows comes from the rows of one person. A table whose rows are chosen by policies of row security is such a view; so
is one with a foreign table among its parts, which may stand for anything in another database.

Guarantee: what a query computes does not depend on settings of the server, the role or the database. Proof: each
transaction sets those that SQL of `dialects.Postgres` can feel (`_SESSION`); operators and functions come from
pg_catalog alone; texts are compared as bytes.

A transaction is read only and repeatable, so all fetches of one release (`one_state`) see the same rows. It ends at the
statement timeout. Passwords come from PGPASSWORD, a password file or a service file, never from the policy.
"""

import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import TEXT, Catalog, Column, ColumnType, Table
from discreet.curator.engines import kept_alive, postgres_address, shown_address
from discreet.curator.engines.columns import find
from discreet.curator.engines.dialects import POSTGRES
from discreet.errors import EngineUnavailable, InvalidData, InvalidParameter, MissingExtra

if TYPE_CHECKING:
    import psycopg
    import pyarrow

    Connection = psycopg.Connection[tuple[Any, ...]]

VIEW = "view:"
"""How a source begins that is a view, by the owner's own word."""

TIMEOUT = 600
"""Seconds that one statement may take, where the policy states nothing else."""

_SESSION = {
    "TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "postgres", "extra_float_digits": "1",
    "standard_conforming_strings": "on", "backslash_quote": "off", "search_path": "pg_catalog",
    "transform_null_equals": "off", "array_nulls": "on", "client_encoding": "UTF8", "row_security": "on",
    "quote_all_identifiers": "off", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0",
}  # fmt: skip
_LONGEST_NAME = 55
"""Bytes: PostgreSQL cuts names of more than 63, and names of columns get a few characters in front."""

_FITS = {
    ColumnType.INTEGER: {"int2", "int4", "int8"},
    ColumnType.REAL: {"int2", "int4", "int8", "float4", "float8", "numeric"},
    ColumnType.TEXT: {"text", "varchar", "bpchar", "uuid", "name", "enum"},
    ColumnType.BOOLEAN: {"bool"},
    ColumnType.DATE: {"date"},
    ColumnType.TIMESTAMP: {"timestamp", "timestamptz"},
}
_RELATION = """
WITH RECURSIVE parts(oid) AS (SELECT to_regclass($1)::oid
    UNION SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)
SELECT c.oid, n.nspname, c.relname, c.relkind, row_security_active(c.oid),
    EXISTS (SELECT FROM parts p JOIN pg_class f ON f.oid = p.oid WHERE f.relkind = 'f' AND f.oid <> c.oid)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = to_regclass($1)"""
_COLUMNS = """
SELECT a.attname, CASE WHEN b.typtype = 'e' THEN 'enum'
    WHEN b.typnamespace = 'pg_catalog'::regnamespace THEN b.typname ELSE format_type(b.oid, NULL) END,
    a.attgenerated = 'v',
    has_column_privilege(a.attrelid, a.attnum, 'SELECT')
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
JOIN pg_type b ON b.oid = CASE WHEN t.typtype = 'd' THEN t.typbasetype ELSE t.oid END
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_GRANT = "GRANT SELECT on the tables, and USAGE on their schema, to this role"
_KINDS = {"r": "a table", "p": "a table", "v": "a view", "m": "a materialized view", "f": "a foreign table"}


class PostgresEngine:
    """The tables of a catalog in a PostgreSQL database. Threads may share it; each fetch has its own connection.

    `address` is postgresql://user@host:port/database, as libpq reads it, without a password. `sources` gives for each
    table its name there: visits, clinic.visits, or view:clinic.visits. `stated` is the owner's name for the data as
    they are: an answer is given again as long as it stays the same (docs/guide/engines.md).
    """

    dialect = "postgres"

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, Any],
        *,
        address: str,
        stated: str = "",
        timeout: float = TIMEOUT,
    ) -> None:
        self._address, self._timeout, self._stated = postgres_address(address), timeout, stated
        self._shown = shown_address(address)
        self._open = threading.local()
        self._closed = False
        self._sources = {catalog.table(name).name: _source(name, source) for name, source in sources.items()}
        self._catalog = catalog
        with self._transaction("opening the dataset") as connection:
            self._selects = self._find(connection)

    @property
    def version(self) -> str:
        """A digest of the address, the tables, their shape and the version that the owner states."""
        parts = [self._shown, self._stated, *sorted(self._selects.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def fetch(self, sql: str, *, salt: str = "") -> "pyarrow.Table":
        """The rows of a SELECT; `InvalidData` if a table is no longer what it was, `EngineUnavailable` without it."""
        named = [(name, select) for name, select in self._selects.items() if POSTGRES.quoted(name) in sql]
        tables = ", ".join(f"{POSTGRES.quoted(name)} AS NOT MATERIALIZED ({select})" for name, select in named)
        text = f"SELECT q.* FROM ({sql}) AS q WHERE $1::text IS NOT NULL"  # noqa: S608 (SQL of our own)
        with self._transaction("a query") as connection:
            self._check_tables(connection)
            return _arrow(connection, f"WITH {tables} {text}" if tables else text, salt)

    def fetch_public(self, sql: str, table: str) -> "pyarrow.Table":
        """The rows of a SELECT that reads one public table."""
        return self.fetch(sql)

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Let all fetches of this thread see the same rows, those of the first."""
        with self._transaction("a release") as connection:
            self._open.connection = connection
            try:
                yield
            finally:
                self._open.connection = None

    def close(self) -> None:
        """Afterwards nothing can be fetched."""
        self._closed = True

    def __enter__(self) -> "PostgresEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def _transaction(self, what: str) -> "Iterator[Connection]":
        if self._closed:
            raise InvalidData("this engine is closed; open the dataset again")
        if getattr(self._open, "connection", None) is not None:
            yield self._open.connection
            return
        psycopg = _psycopg()
        try:
            options = kept_alive(psycopg.conninfo.conninfo_to_dict(self._address))
            with psycopg.connect(
                self._address, connect_timeout=10, application_name="discreet", **options
            ) as connection:
                connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
                connection.read_only = True
                settings = _SESSION | {"statement_timeout": str(round(self._timeout * 1000))}
                listed = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items())
                connection.execute(f"SELECT {listed}")
                _check_server(connection, self._shown)
                yield connection
                connection.rollback()
        except psycopg.Error as error:
            raise self._explained(error, what) from None

    def _find(self, connection: "Connection") -> dict[str, str]:
        """How each table is read, from the database's own catalog; no row is looked at."""
        given = {name.casefold(): source for name, source in self._sources.items()}
        selects = {}
        for key, table in self._catalog.tables.items():
            if key not in given:
                raise InvalidParameter(f"table {table.name!r}", "no source", "the name of a table in the database")
            selects[table.name] = _select(connection, table, given[key])
        return selects

    def _check_tables(self, connection: "Connection") -> None:
        """Before a row is read: whatever is wrong here is no function of rows, so a charge may be used again."""
        try:
            same = self._find(connection) == self._selects
        except InvalidParameter as error:
            raise EngineUnavailable(f"{error}; it was there when the dataset was opened") from None
        except _psycopg().Error as error:
            raise EngineUnavailable(str(self._explained(error, "a query"))) from None
        if not same:
            raise EngineUnavailable("a table or view has another shape than when the dataset was opened; open it again")

    def _explained(self, error: "psycopg.Error", what: str) -> InvalidData | EngineUnavailable:
        """In words, for the owner: what the server said of roles and tables, never a password."""
        errors = _psycopg().errors
        said = " ".join(str(error).split("\n")[0].split())[:200]
        match error:
            case errors.QueryCanceled():
                hint = f"{what} took longer than {self._timeout} seconds; state another [dataset] statement_timeout"
            case errors.InsufficientPrivilege():
                hint = _GRANT
            case errors.UndefinedTable() | errors.UndefinedColumn():
                hint = "a table was dropped or renamed after the dataset was opened; open it again"
            case errors.OperationalError() | errors.InterfaceError() if _is_away(error):
                words = f"PostgreSQL at {self._shown} does not answer in {what}: {said}"
                return EngineUnavailable(f"{words}; look at the server, the role and its password")
            case _:
                hint = "look at the server's log"
        return InvalidData(f"PostgreSQL at {self._shown} refused {what}: {said}; {hint}")


def _is_away(error: "psycopg.Error") -> bool:
    """Whether the server was not reached or went away; a full disk or memory may be the work of rows, and is not."""
    state = error.sqlstate
    return state is None or state[:2] in ("08", "28") or state in ("53300", "57P01", "57P03")


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    return psycopg


def _check_server(connection: "Connection", shown: str) -> None:
    if connection.info.server_version < 140_000:
        raise InvalidParameter("[dataset] address", shown, "PostgreSQL 14 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise InvalidParameter("[dataset] address", f"a database in {encoding}", "a database whose encoding is UTF8")


def _source(name: str, source: Any) -> str:
    if not isinstance(source, str) or not source.strip():
        hint = "tables of Python are read by the embedded engine alone"
        raise InvalidParameter(f"table {name!r}, source", type(source).__name__, "the name of a table there", hint)
    return source


def _select(connection: "Connection", table: Table, source: str) -> str:
    """The SELECT of a table's declared columns, in the declared types."""
    psycopg = _psycopg()
    place = source.removeprefix(VIEW)
    where = f"table {table.name!r}, source"
    parts = place.split(".") if '"' not in place else [place]
    name = place if '"' in place else ".".join(POSTGRES.quoted(part) for part in parts)
    cursor = psycopg.RawCursor(connection)
    if '"' not in place and len(parts) == 1:
        name = f'"public".{name}'
    try:
        row = cursor.execute(_RELATION, [name]).fetchone()
    except psycopg.errors.InvalidName:
        row = None
    if row is None:
        hint = "name its schema, as in clinic.visits, and quote names with odd characters"
        raise InvalidParameter(where, place, "a table of the database that this role can see", hint)
    oid, schema, relation, kind, policies, foreign = row
    kind = kind.decode() if isinstance(kind, bytes) else kind
    plain = kind in ("r", "p") and not policies and not foreign
    if kind not in _KINDS or plain == source.startswith(VIEW):
        hint = f"it may fail or mix people; if each of its rows is one person's, promise it: {VIEW}{place}"
        expected = "a view" if plain else "a table"
        what = "a table whose rows policies choose" if policies else _KINDS.get(kind, "no table")
        what = "a table with a foreign table among its parts" if foreign else what
        raise InvalidParameter(where, f"{place}, {what}", expected, "" if plain else hint)
    columns = [
        (str(result), str(type_), bool(virtual), bool(may))
        for result, type_, virtual, may in cursor.execute(_COLUMNS, [oid])
    ]
    names = [result for result, *_ in columns]
    listed = []
    for column in table.columns:
        result, type_, virtual, may = columns[find(table, column, names)]
        if not may:
            raise InvalidParameter(
                where, f"{place}, whose column {result!r} this role may not read", "one it may", _GRANT
            )
        listed.append(_read(table, column, POSTGRES.quoted(result), "a virtual column" if virtual else type_))
    return f"SELECT {', '.join(listed)} FROM {POSTGRES.quoted(schema)}.{POSTGRES.quoted(relation)}"  # noqa: S608


def _read(table: Table, column: Column, name: str, type_: str) -> str:
    """A column in the declared type; what does not fit is NULL, and nothing fails."""
    where = f"table {table.name!r}, column {column.name!r}"
    if type_ not in _FITS[column.kind]:
        raise InvalidParameter(where, f"a source of type {type_}", f"one that fits {column.kind}")
    if len(column.name.encode()) > _LONGEST_NAME or len(table.name.encode()) > _LONGEST_NAME:
        raise InvalidParameter(where, "a long name", f"names of at most {_LONGEST_NAME} bytes")
    value = f"CAST({name} AS {POSTGRES.type(column.kind)})"
    match column.kind:
        case ColumnType.REAL if type_ == "numeric":
            apart = f"{name} = 'NaN' OR abs({name}) = 'Infinity'"
            sizes = f"WHEN abs({name}) < 1e-300 THEN 0 WHEN abs({name}) < 1e308 THEN {value}"
            value = f"CASE WHEN {apart} THEN {value} {sizes} END"
        case ColumnType.TEXT:
            value = f'({value} COLLATE "C")'
            if table.private and table.unit_column == column:
                value = f"CASE WHEN octet_length({value}) <= {4 * TEXT} THEN {value} END"
            elif table.private:
                value = f"substring({value}, 1, {TEXT})"
        case ColumnType.DATE:
            value = f"CASE WHEN {name} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {value} END"
        case ColumnType.TIMESTAMP:
            moment = f"({name} AT TIME ZONE 'UTC')" if type_ == "timestamptz" else name
            ends = "TIMESTAMP '0001-01-01' AND TIMESTAMP '9999-12-31 23:59:59.999999'"
            value = f"CASE WHEN {moment} BETWEEN {ends} THEN CAST({moment} AS timestamp) END"
    return f"{value} AS {POSTGRES.quoted(column.name)}"


_BATCH = 2_000
"""Rows that are fetched at once: Python's garbage collector walks all tuples that are alive, again and again."""


def _arrow(connection: "Connection", sql: str, salt: str) -> "pyarrow.Table":
    """What a query gives, as Arrow: a cursor in the server, a batch at a time."""
    import pyarrow as pa

    psycopg = _psycopg()
    types = {
        16: pa.bool_(), 20: pa.int64(), 23: pa.int64(), 25: pa.string(), 701: pa.float64(), 1082: pa.date32(),
        1114: pa.timestamp("us"), 1700: pa.decimal128(38, 0),
    }  # fmt: skip
    with psycopg.RawServerCursor(connection, "discreet") as cursor:
        cursor.execute(sql, [salt], binary=True)
        described = cursor.description or ()
        fields = [pa.field(column.name, types[column.type_code]) for column in described]
        batches = []
        while rows := cursor.fetchmany(_BATCH):
            arrays = [
                pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), fields, strict=True)
            ]
            batches.append(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)))
    return pa.Table.from_batches(batches, schema=pa.schema(fields))
