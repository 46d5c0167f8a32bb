"""Tables where Spark finds them: Parquet or Delta folders and tables of its catalog; the cluster adds up.

Each table of the catalog is a WITH clause of its own name, with exactly the declared columns in the declared types.

Guarantee: no value of a row makes a query fail, and settings of the session do not change what is computed. Proof: the
engine has a session of its own, in which `_SESSION` is set: casts and arithmetic give NULL instead of failing, times
are in UTC, names are told apart by case, and literals are read in one way. `_read` gives NULL for dates and times
outside the years 1 to 9999 and mends text that is not UTF-8. Views keep the settings that they were made with: one is
read only where the policy says so (`view:clinic.visits`), which is the owner's promise that it does not fail.
"""

import hashlib
import os
import re
import threading
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import TEXT, Catalog, Column, ColumnType, Table
from discreet.curator.engines import refuse_secrets, shown_address
from discreet.curator.engines.columns import find
from discreet.curator.engines.dialects import SPARK
from discreet.errors import EngineUnavailable, InvalidData, InvalidParameter, MissingExtra

if TYPE_CHECKING:
    import pyarrow

VIEW = "view:"
"""How a source begins that is a view, by the owner's own word."""

TOKEN = "DISCREET_SPARK_TOKEN"  # noqa: S105 (the name of a variable)
"""The environment variable that holds the token of a Spark Connect server."""

_SESSION = {
    "spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "UTC", "spark.sql.caseSensitive": "true",
    "spark.sql.variable.substitute": "false", "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ", "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false", "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION", "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED", "spark.sql.legacy.charVarcharAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED", "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
}  # fmt: skip
_PARTS = "spark.sql.shuffle.partitions"
_FILES = ("parquet", "delta")
_WHOLE = {"tinyint", "smallint", "int", "bigint"}
_FITS = {
    ColumnType.INTEGER: _WHOLE,
    ColumnType.REAL: _WHOLE | {"float", "double", "decimal"},
    ColumnType.TEXT: {"string", "varchar", "char"},
    ColumnType.BOOLEAN: {"boolean"},
    ColumnType.DATE: {"date"},
    ColumnType.TIMESTAMP: {"timestamp", "timestamp_ntz"},
}


class SparkEngine:
    """The tables of a catalog in Spark. Threads may share it.

    `address` is local[*], spark://host:port, another master, or sc://host:port of a Spark Connect server. `sources`
    gives for each table parquet:PATH, delta:PATH or the name of a table in Spark's catalog, such as clinic.visits, or
    view:clinic.visits.
    Paths are relative to `base`. `stated` is the owner's name for the data as they are.
    """

    dialect = "spark"

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, Any],
        *,
        address: str,
        stated: str = "",
        timeout: float = 600,
        base: Path = Path("."),
    ) -> None:
        refuse_secrets(address)
        self._shown, self._stated, self._timeout = shown_address(address), stated, timeout
        self._lock = threading.Lock()
        self._closed = False
        self._remote = address.startswith(_REMOTE)
        self._session = _connect(address, self._shown)
        self._catalog = catalog
        self._places = {catalog.table(name).name: _place(name, source, base) for name, source in sources.items()}
        self._views = {catalog.table(name).name for name, source in sources.items() if str(source).startswith(VIEW)}
        self._selects = self._find(table.name for table in catalog.tables.values())

    @property
    def version(self) -> str:
        """A digest of the address, the tables, their shape and the version that the owner states."""
        parts = [self._shown, self._stated, *sorted(self._selects.items())]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def fetch(self, sql: str, *, salt: str = "") -> "pyarrow.Table":
        """The rows of a SELECT; `InvalidData` if a table is no longer what it was, `EngineUnavailable` without it."""
        if self._closed:
            raise InvalidData("this engine is closed; open the dataset again")
        named = [(name, select) for name, select in self._selects.items() if SPARK.quoted(name) in sql]
        self._check_tables([name for name, _ in named])
        tables = ", ".join(f"{SPARK.quoted(name)} AS ({select})" for name, select in named)
        text = f"WITH {tables} {sql}" if tables else sql
        return _naive(self._run(lambda: self._session.sql(text, args={"salt": salt}).toArrow(), "a query"))

    def fetch_public(self, sql: str, table: str) -> "pyarrow.Table":
        """The rows of a SELECT that reads one public table."""
        return self.fetch(sql)

    def close(self) -> None:
        """Afterwards nothing can be fetched. The Spark application goes on, since others may use it."""
        self._closed = True
        if self._remote:
            self._session.client.close()

    def __enter__(self) -> "SparkEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _find(self, names: Iterable[str]) -> dict[str, str]:
        """How tables are read, from the columns that Spark says they have; no row is looked at."""
        given = {name.casefold(): place for name, place in self._places.items()}
        selects = {}
        for table in map(self._catalog.table, names):
            if table.name.casefold() not in given:
                raise InvalidParameter(f"table {table.name!r}", "no source", "a table that Spark can read")
            selects[table.name] = self._select(table, given[table.name.casefold()])
        return selects

    def _check_tables(self, names: Sequence[str]) -> None:
        """Before a row is read: whatever is wrong here is no function of rows, so a charge may be used again."""
        try:
            same = all(self._selects[name] == select for name, select in self._find(names).items())
        except (InvalidParameter, InvalidData) as error:
            raise EngineUnavailable(f"{error}; it was there when the dataset was opened") from None
        if not same:
            raise EngineUnavailable("a table has another shape than when the dataset was opened; open it again")

    def _select(self, table: Table, place: str) -> str:
        query, what = f"SELECT * FROM {place}", f"reading the columns of {table.name!r}"  # noqa: S608 (the owner's name)
        if not place.startswith(tuple(f"{form}." for form in _FILES)):
            # a session remembers tables as they were
            self._run(lambda: self._session.sql(f"REFRESH TABLE {place}"), what)
            kind = str(self._run(lambda: self._session.catalog.getTable(place).tableType, what))
            _check_kind(table.name, place, kind, is_view=table.name in self._views)
        fields = self._run(lambda: self._session.sql(query).schema.fields, what)
        names = [field.name for field in fields]
        listed = []
        for column in table.columns:
            field = fields[find(table, column, names)]
            type_ = field.dataType.simpleString().partition("(")[0].partition(" collate")[0]
            listed.append(_read(table, column, SPARK.quoted(field.name), type_))
        return f"SELECT {', '.join(listed)} FROM {place}"  # noqa: S608

    def _run(self, action: Any, what: str) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return action()
        except Exception as error:  # of Java, of the network, of Spark: told to the owner in one line
            raise _explained(error, self._shown, what) from None


def _connect(address: str, shown: str) -> Any:
    """A session of our own, with our settings; the application may be shared."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingExtra("pyspark", "spark") from None
    session: Any = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if address.startswith(_REMOTE):
                token = os.environ.get(TOKEN)
                place = f"{address}{'' if ';' in address else '/'};token={token}" if token else address
                try:
                    session = SparkSession.builder.remote(place).create()
                    from pyspark.sql.connect.client.retries import DefaultPolicy

                    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])
                except ImportError:  # what speaks Spark Connect is in packages of their own
                    raise MissingExtra("pyspark[connect]", "spark") from None
            else:
                quiet: dict[str, Any] = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
                session = SparkSession.builder.master(address).appName("discreet").config(map=quiet).getOrCreate()
                session = session.newSession()
            for name, value in _SESSION.items():
                session.conf.set(name, value)
            if address.startswith("local") and session.conf.get(_PARTS) == "200":  # as nobody set it
                session.conf.set(_PARTS, "4")
    except MissingExtra:
        raise
    except Exception as error:
        if session is not None and address.startswith(_REMOTE):
            session.client.close()  # or it would be asked once more, and waited for, when this process ends
        raise _explained(error, shown, "opening the dataset") from None
    return session


_REMOTE = "sc://"
_RETRIES = 4
"""How often a Spark Connect server that does not answer is asked again, within some seconds: Spark's own way takes ten
minutes."""


def _explained(error: Exception, shown: str, what: str) -> InvalidData | EngineUnavailable:
    said = " ".join(str(error).split("\n")[0].split())[:200]
    away = isinstance(error, OSError) or type(error).__name__ in _AWAY  # executors that fail may be the work of rows
    if away:
        return EngineUnavailable(f"Spark at {shown} does not answer in {what}: {said}")
    return InvalidData(f"Spark at {shown} refused {what}: {said}")


_AWAY = frozenset({"Py4JNetworkError", "SparkConnectGrpcException", "_InactiveRpcError", "_MultiThreadedRendezvous"})
"""Errors of the connection, by the names of their classes: which package has them depends on how Spark is reached."""


def _check_kind(name: str, place: str, kind: str, *, is_view: bool) -> None:
    """A view is read where the owner says so: what it computes may fail on a row, or mix the rows of several people."""
    if is_view == (kind in ("MANAGED", "EXTERNAL")):
        hint = f"it may fail or mix people; if each of its rows is one person's, promise it: {VIEW}{place}".replace(
            "`", ""
        )
        expected = "a view" if is_view else "a table"
        raise InvalidParameter(f"table {name!r}, source", f"{kind.lower()} {place}", expected, "" if is_view else hint)


def _place(name: str, source: Any, base: Path) -> str:
    """What stands after FROM."""
    where = f"table {name!r}, source"
    if not isinstance(source, str) or not source.strip():
        raise InvalidParameter(where, type(source).__name__, "parquet:PATH, delta:PATH or the name of a table")
    source = source.removeprefix(VIEW)
    form, mark, path = source.partition(":")
    if mark and form in _FILES:
        place = path if "://" in path else str((base / path).resolve())
        return f"{form}.{SPARK.quoted(place)}"
    if not re.fullmatch(r"\w+(\.\w+){0,2}", source):
        raise InvalidParameter(where, source, "parquet:PATH, delta:PATH or a name such as clinic.visits")
    return ".".join(SPARK.quoted(part) for part in source.split("."))


def _read(table: Table, column: Column, name: str, type_: str) -> str:
    """A column in the declared type; what does not fit is NULL, and nothing fails."""
    where = f"table {table.name!r}, column {column.name!r}"
    if type_ not in _FITS[column.kind]:
        raise InvalidParameter(where, f"a source of type {type_}", f"one that fits {column.kind}")
    value = f"CAST({name} AS {SPARK.type(column.kind)})"
    match column.kind:
        case ColumnType.TEXT:
            value = f"make_valid_utf8({value})"
            if table.private and table.unit_column == column:
                value = f"CASE WHEN octet_length({value}) <= {4 * TEXT} THEN {value} END"
            elif table.private:
                value = f"substring({value}, 1, {TEXT})"
        case ColumnType.DATE:
            value = f"CASE WHEN {name} BETWEEN DATE '0001-01-01' AND DATE '9999-12-31' THEN {value} END"
        case ColumnType.TIMESTAMP:
            ends = "TIMESTAMP_NTZ '0001-01-01' AND TIMESTAMP_NTZ '9999-12-31 23:59:59.999999'"
            value = f"CASE WHEN {value} BETWEEN {ends} THEN {value} END"
    return f"{value} AS {SPARK.quoted(column.name)}"


def _naive(table: "pyarrow.Table") -> "pyarrow.Table":
    """Texts as Arrow's plain strings: the types that every engine gives."""
    import pyarrow as pa

    fields = [
        pa.field(field.name, pa.string() if pa.types.is_large_string(field.type) else field.type)
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
