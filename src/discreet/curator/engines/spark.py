"""Tables where Spark finds them: Parquet or Delta folders and tables of its catalog; the cluster adds up.

Each table of the catalog is a WITH clause of its own name, with exactly the declared columns in the declared types.

Guarantee: no value of a row makes a query fail, and settings of the session do not change what is computed. Proof: the
engine has a session of its own, in which `_SESSION` is set: casts and arithmetic give NULL instead of failing, times
are in UTC, names are told apart by case, literals are read in one way, and a file that cannot be read is an error.
`_read` gives NULL for dates and times outside the years 1 to 9999 and mends text that is not UTF-8. Views keep the
settings that they were made with, and tables in other formats than `_FORMATS` may be parsed as they are read, or asked
of another server: one is read only where the policy says so (`view:clinic.visits`), which is the owner's promise that
it does not fail.

Guarantee: what is read of a row does not depend on the others. Proof. Spark leaves out parts of files whose statistics
say that no row there passes a filter. Statistics disregard what `_read` turns values into, which its expressions hide
from Spark, and NaN, which is greater than every number: hence `nanvl`, through which Spark takes no filter to a file.
"""

import hashlib
import itertools
import os
import re
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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
    "spark.sql.files.ignoreCorruptFiles": "false", "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false", "spark.sql.readSideCharPadding": "true",
    "spark.sql.parquet.aggregatePushdown": "false", "spark.sql.orc.aggregatePushdown": "false",
    "spark.sql.legacy.ctePrecedencePolicy": "CORRECTED", "spark.sql.legacy.integralDivide.returnBigint": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
}  # fmt: skip
_FORMATS = frozenset({"parquet", "delta", "orc", "iceberg"})
"""Formats of tables whose values have types when they are read: no value makes reading them fail."""
_QUERIES = itertools.count()
"""Names what a query asks of Spark, so that it can be stopped and nothing else."""

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
        home = self._run(self._home, "opening the dataset")
        self._places = {catalog.table(name).name: _place(name, source, base, home) for name, source in sources.items()}
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
        with self._limited():
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

    def _home(self) -> str:
        """Where tables are whose name does not say it: so none is taken for a WITH clause of the same name."""
        catalog = self._session.catalog
        return f"{SPARK.quoted(catalog.currentCatalog())}.{SPARK.quoted(catalog.currentDatabase())}."

    @contextmanager
    def _limited(self) -> Iterator[None]:
        """Stop what this thread asks of Spark once it took longer than the policy allows."""
        tag, late = f"discreet-{os.getpid()}-{next(_QUERIES)}", threading.Event()
        session = self._session
        # an interrupt of the session does not reach the thread of Java that collects, and tags of jobs do
        jobs = None if self._remote else session.sparkContext
        add, remove = (session.addTag, session.removeTag) if jobs is None else (jobs.addJobTag, jobs.removeJobTag)

        def stop() -> None:
            late.set()
            with suppress(Exception):  # of a connection that is lost: whoever waits is told
                (session.interruptTag if jobs is None else jobs.cancelJobsWithTag)(tag)

        clock = threading.Timer(self._timeout, stop)
        clock.daemon = True
        self._run(lambda: add(tag), "a query")
        clock.start()
        try:
            yield
        except (InvalidData, EngineUnavailable):
            if not late.is_set():
                raise
            hint = "state another [dataset] statement_timeout"
            raise InvalidData(
                f"a query of Spark at {self._shown} took longer than {self._timeout} seconds; {hint}"
            ) from None
        finally:
            clock.cancel()
            with suppress(Exception):  # the same
                remove(tag)

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
            facts = self._run(lambda: self._session.sql(f"DESCRIBE TABLE EXTENDED {place}").collect(), what)
            form = next((str(row[1]).lower() for row in reversed(facts) if row[0] == "Provider"), "")
            _check_kind(table.name, place, kind, form, is_view=table.name in self._views)
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
    said = " ".join(_reason(str(error)).split())[:300]
    away = isinstance(error, OSError) or type(error).__name__ in _AWAY  # executors that fail may be the work of rows
    if away:
        return EngineUnavailable(f"Spark at {shown} does not answer in {what}: {said}")
    return InvalidData(f"Spark at {shown} refused {what}: {said}")


def _reason(said: str) -> str:
    """What Spark says in one line: the error that it names, or the last cause, or else the first line.

    >>> _reason("An error occurred while calling o1.x.\\n: a.B: \\n\\tat c\\nCaused by: d.E: [GONE] no file")
    '[GONE] no file'
    """
    lines = [line for line in said.split("\n") if line.strip() and not line.startswith("\t")]
    named = next((line[line.index("[") :] for line in lines if re.search(r"(^|: )\[[A-Z_.]+\] ", line)), None)
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    return named or (causes[-1] if causes else lines[0] if lines else "")


_AWAY = frozenset({"Py4JNetworkError", "SparkConnectGrpcException", "_InactiveRpcError", "_MultiThreadedRendezvous"})
"""Errors of the connection, by the names of their classes: which package has them depends on how Spark is reached."""


def _check_kind(name: str, place: str, kind: str, form: str, *, is_view: bool) -> None:
    """Refuse what may fail on a row, or mix the rows of several people, unless the owner says that it does not."""
    table, typed = kind in ("MANAGED", "EXTERNAL"), form in _FORMATS
    if is_view == (table and typed):
        shown = place.replace("`", "")
        got = f"table {shown} of format {form!r}" if table and not typed else f"{kind.lower()} {shown}"
        hint = f"it may fail or mix people; if each of its rows is one person's, promise it: {VIEW}{shown}"
        expected = "a view" if is_view else f"one of {', '.join(sorted(_FORMATS))}" if table else "a table"
        raise InvalidParameter(f"table {name!r}, source", got, expected, "" if is_view else hint)


def _place(name: str, source: Any, base: Path, home: str) -> str:
    """What stands after FROM; `home` is where a table is whose name does not say it."""
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
    return home * ("." not in source) + ".".join(SPARK.quoted(part) for part in source.split("."))


def _read(table: Table, column: Column, name: str, type_: str) -> str:
    """A column in the declared type; what does not fit is NULL, and nothing fails."""
    where = f"table {table.name!r}, column {column.name!r}"
    if type_ not in _FITS[column.kind]:
        raise InvalidParameter(where, f"a source of type {type_}", f"one that fits {column.kind}")
    value = f"CAST({name} AS {SPARK.type(column.kind)})"
    match column.kind:
        case ColumnType.REAL:
            value = f"nanvl({value}, {value})"
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
    """Texts as Arrow's plain strings, and numbers of rows in 64 bits: the types that every engine gives."""
    import pyarrow as pa

    plain = {pa.large_string(): pa.string(), pa.int32(): pa.int64()}
    fields = [pa.field(field.name, plain.get(field.type, field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))
