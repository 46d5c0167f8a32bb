r"""The embedded engine: Parquet, CSV and DuckDB files, and tables of Python, read by DuckDB.

Each table of the catalog becomes a relation of its own name with exactly the declared columns, in the types BIGINT,
DOUBLE, VARCHAR, BOOLEAN, DATE and TIMESTAMP (in UTC). What a source must look like is checked when the engine is made,
from schemas alone; rows are not read before the first `fetch`.

Guarantee: no value of a row makes a query over these relations fail. Proof: every expression of `_expression` is a
column of the type itself, a TRY_CAST, or a CASE over them, and these yield NULL where a value does not fit:

* a whole number that does not fit BIGINT is NULL; so is a date or time outside the years 1 to 9999, where functions of
  dates overflow (±infinity among them), and a field of a CSV file that is not of the declared type;
* where numbers come as text (CSV) or as floating-point numbers because some are missing (pandas), a declared integer
  is taken as it is if it is whole, and is NULL otherwise: 3.0 is 3, but 3.5 is not 4;
* text that is not UTF-8 has "?" in its place (Parquet, and "\ufffd" in CSV) or is NULL (Arrow). NaN and infinities of a
  real column stay what they are, except in pandas, where NaN means that a value is missing.

Guarantee: what a query counts of one row does not depend on the others. Proof. A line of a CSV file is a record of its
own (`csv_files`). DuckDB leaves out parts of a Parquet file whose statistics say that nothing in them can matter, and
statistics disregard what this module turns rows into: NaN, hence `can_have_nan`, and text that is not UTF-8, hence
`_expression` passes all text of Parquet through a function that hides its statistics. Views and generated columns of a
database, which may compute anything, are refused.

Guarantee: no row of a private table is large, since texts are cut as they are read (`columns.select`).
"""

import hashlib
import os
import shutil
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from discreet.curator.catalog import Catalog, Table
from discreet.curator.engines.columns import TYPES, literal, quoted
from discreet.curator.engines.csv_files import CsvFormat
from discreet.curator.engines.sources import Source, read_sources
from discreet.errors import InvalidData

if TYPE_CHECKING:
    import duckdb
    import pyarrow


warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
"""It costs a copy of the groups, and no second look at the text, which takes longer than most statements run."""

_PARSED = 1000
"""So many statements are kept parsed."""


class DuckDBEngine:
    """The tables of a catalog in one embedded DuckDB. Threads may share it.

    `sources` gives for each table the path of a .parquet file (or a folder or a pattern of them), of a .csv file, or
    database.duckdb#table; or a pyarrow Table, pandas DataFrame or polars DataFrame. Relative paths are relative to
    `base`, and `formats` says how .csv files are written, where not as `CsvFormat()` says. Tables of Python and CSV
    files are copied at the first `fetch`. A DuckDB file stays open, for reading, until `close`.

    >>> import pyarrow
    >>> from discreet.curator.catalog import Catalog, Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> people = Table("people", [Column("age", "integer")], unit=Unit())
    >>> catalog = Catalog("census", [people], neighbors="change one")
    >>> with DuckDBEngine(catalog, {"people": pyarrow.table({"age": [30, 50, None]})}) as engine:
    ...     engine.fetch('SELECT sum("age") AS total FROM "people"').to_pylist()
    [{'total': Decimal('80')}]
    """

    dialect = "duckdb"

    def __init__(
        self,
        catalog: Catalog,
        sources: Mapping[str, Any],
        *,
        base: Path = Path("."),
        formats: Mapping[str, CsvFormat] | None = None,
    ) -> None:
        self._folder = tempfile.mkdtemp(prefix="discreet-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._connection = _connect(self._folder)
        self._lock = threading.Lock()
        self._parsed: dict[str, tuple[duckdb.Statement, tuple[str, ...]]] = {}
        try:
            self._sources = dict(read_sources(self._connection, catalog, sources, Path(base), formats or {}))
            self._waiting = [(table, source) for table, source in self._sources.items() if source.rows]
            for table, source in self._sources.items():
                _create(self._connection, catalog.table(table), source)
            _lock_down(self._connection, [path for source in self._sources.values() for path in source.paths])
            self._versions = FileVersions()
            self._opened = self._digests()
            self._version = _version_of(self._opened)
            self._changed: set[str] = set()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> str:
        """A digest of the files that the data are in (`FileVersions`) and of how they are read."""
        now = self._digests()
        return self._version if now == self._opened else _version_of(now)

    def fetch(self, sql: str, *, salt: str = "") -> "pyarrow.Table":
        """The rows of a SELECT. Raises `InvalidData` if a source changed since the engine was made."""
        before = self._stats()
        self._check_unchanged(before)
        self._load()
        with self._connection.cursor() as cursor:
            statement, parameters = self._statement(cursor, sql)
            values = dict.fromkeys(parameters, salt)  # the salt is the only parameter that there is
            try:
                table = cursor.execute(statement, values or None).to_arrow_table()
            except UserWarning:  # where the caller has made warnings errors: a charged question must not fail for that
                cursor.abort()
                table = cursor.sql(statement, params=values or None).to_arrow_table()
        self._check_unchanged(before)
        return table

    def _statement(self, cursor: "duckdb.DuckDBPyConnection", sql: str) -> "tuple[duckdb.Statement, tuple[str, ...]]":
        """A SELECT, and the names of its parameters; parsed once, as the same is asked again and again."""
        known = self._parsed.get(sql)
        if known is None:
            (statement,) = cursor.extract_statements(sql)
            known = statement, tuple(statement.named_parameters)
            if len(self._parsed) < _PARSED:
                self._parsed[sql] = known
        return known

    def fetch_public(self, sql: str, table: str) -> "pyarrow.Table":
        """The rows of a SELECT that reads one public table; no other table is copied for it."""
        self._load([table])
        with self._connection.cursor() as cursor:
            return cursor.sql(sql).to_arrow_table()

    def close(self) -> None:
        """Let go of files and memory; afterwards nothing can be fetched."""
        self._connection.close()
        self._finalizer()

    def __enter__(self) -> "DuckDBEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self, tables: Collection[str] | None = None) -> None:
        """Copy the tables of Python and the CSV files that have not been copied yet: these, or all."""
        with self._lock:
            for table, source in [entry for entry in self._waiting if tables is None or entry[0] in tables]:
                if source.rows is not None:
                    _insert(self._connection, table, source, source.rows())
                self._waiting.remove((table, source))
                self._sources[table] = source.without_rows()

    def _stats(self) -> dict[str, "list[Stat]"]:
        return {table: [stat_of(path) for path in source.files()] for table, source in self._sources.items()}

    def _digests(self) -> dict[str, tuple[str, str]]:
        files = {table: source.files() for table, source in self._sources.items()}
        return {table: (self._sources[table].name, self._versions.digest(paths)) for table, paths in files.items()}

    def _check_unchanged(self, before: Mapping[str, "list[Stat]"]) -> None:
        """Refuse if the data are not those of the opening, or if a file was touched since `before`; then for good.

        For good, because what was copied in the meantime may be neither the old data nor the new.
        """
        now, stats = self._digests(), self._stats()
        self._changed |= {table for table in now if now[table] != self._opened[table] or stats[table] != before[table]}
        for table in sorted(self._changed):
            raise InvalidData(f"table {table!r}: its source changed after it was opened; open the dataset again")


def _version_of(digests: Mapping[str, tuple[str, str]]) -> str:
    return hashlib.sha256(repr(sorted(digests.items())).encode()).hexdigest()


def _connect(folder: str) -> "duckdb.DuckDBPyConnection":
    import duckdb

    config: dict[str, Any] = {
        "temp_directory": os.path.join(folder, "spill"),
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "allow_persistent_secrets": False,
    }
    return duckdb.connect(":memory:", config=config).execute("SET GLOBAL TimeZone = 'UTC'")


_OPTIMIZERS = frozenset({
    "expression_rewriter", "unused_columns", "common_subexpressions", "common_aggregate", "column_lifetime",
    "duplicate_groups", "build_side_probe_side", "join_order", "top_n",
})  # fmt: skip
"""What DuckDB may do to a query: nothing that reads statistics of the data, or moves a filter below other work.

With statistics, `WHERE id = 7` reads nothing, or a part of a file, or all of it, by who is in the data.
"""


def _read_all(connection: "duckdb.DuckDBPyConnection") -> None:
    """Let every query read every row, and compute a projection before the filter above it: time tells less of rows."""
    known = [name for (name,) in connection.execute("SELECT name FROM duckdb_optimizers()").fetchall()]
    others = ",".join(sorted(set(known) - _OPTIMIZERS))
    connection.execute(f"SET GLOBAL disabled_optimizers = {literal(others)}")


def _lock_down(connection: "duckdb.DuckDBPyConnection", paths: Iterable[str]) -> None:
    """From here on, only the given files can be read, and nothing of this can be changed back."""
    _read_all(connection)
    connection.execute(f"SET allowed_paths = [{', '.join(literal(path) for path in paths)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _create(connection: "duckdb.DuckDBPyConnection", table: Table, source: Source) -> None:
    if source.rows is None:
        body = f"SELECT {source.select} FROM {source.relation}"  # noqa: S608  # quoted names of the owner's policy
        connection.execute(f"CREATE VIEW {quoted(table.name)} AS {body}")
    else:
        columns = ", ".join(f"{quoted(column.name)} {TYPES[column.kind]}" for column in table.columns)
        connection.execute(f"CREATE TABLE {quoted(table.name)} ({columns})")


def _insert(connection: "duckdb.DuckDBPyConnection", table: str, source: Source, rows: Any) -> None:
    connection.register(source.relation, rows)
    try:
        into = f"INSERT INTO {quoted(table)}"
        connection.execute(f"{into} SELECT {source.select} FROM {quoted(source.relation)}")  # noqa: S608
    finally:
        connection.unregister(source.relation)


# Which data are in a file

SMALL = 64 << 20
"""The largest file whose contents are digested, in bytes; reading one takes a fraction of a second."""

_SETTLED_NS = 2_000_000_000
"""How old a change must be for the file's times to tell it from a later one: clocks of file systems are coarse."""


class Stat(NamedTuple):
    """What the system says of a file; -1 throughout where there is none.

    The time of the last write (`mtime`) can be set back; the time of the last change of status (`ctime`) cannot.
    """

    path: str
    size: int = -1
    mtime_ns: int = -1
    ctime_ns: int = -1
    inode: int = -1
    device: int = -1


def stat_of(path: Path) -> Stat:
    """What the system says of a file now.

    >>> stat_of(Path("no such file")).size
    -1
    """
    try:
        status = os.stat(path)
    except OSError:
        return Stat(str(path))
    return Stat(str(path), status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


class FileVersions:
    """Digests of files, computed again only after a file changed. Threads may share it.

    A digest is of what the system says of a file and, where it is small, of its contents. What the system says alone
    would do, but for file systems whose clocks are coarse or can be set. The contents alone would do too, but the
    ledger keeps answers under a key that is made from this digest: whoever gets to read the ledger, an auditor say, and
    knows all rows but one could try what the last one may be until the digest fits. The file's times and its place on
    the disk, which others hardly know, stand in the way of that.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("age\\n30\\n")
    >>> versions = FileVersions()
    >>> before, times = versions.digest([file]), os.stat(file)
    >>> _ = file.write_text("age\\n31\\n")
    >>> os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    >>> versions.digest([file]) == before
    False
    """

    def __init__(self) -> None:
        self._known: dict[Path, tuple[Stat, str]] = {}
        self._together: dict[tuple[Path, ...], tuple[list[Stat], str]] = {}
        self._lock = threading.Lock()

    def digest(self, paths: Sequence[Path]) -> str:
        """One digest for some files, in their order."""
        files, stats = tuple(paths), [stat_of(path) for path in paths]
        known = self._together.get(files)
        if known is not None and known[0] == stats:
            return known[1]
        with self._lock:
            parts = [self._one(path) for path in files]
            settled = [entry and entry[0] for entry in map(self._known.get, files)]
        digest = hashlib.sha256(repr(parts).encode()).hexdigest()
        if settled == stats:
            self._together[files] = (stats, digest)
        return digest

    def _one(self, path: Path) -> str:
        stat = stat_of(path)
        known = self._known.get(path)
        if known is not None and known[0] == stat:
            return known[1]
        digest = _digest(path, stat)
        if _is_settled(path, stat):
            self._known[path] = (stat, digest)
        return digest


def _digest(path: Path, stat: Stat) -> str:
    contents = _contents(path)
    if contents is None:
        return repr(stat)
    return repr((contents, stat._replace(ctime_ns=-1)))  # reading a file for a backup may change its ctime


def _contents(path: Path) -> str | None:
    """The digest of a small file; None of a large one, and of one that cannot be read."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size <= SMALL:
                return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        pass
    return None


def _is_settled(path: Path, stat: Stat) -> bool:
    """Whether the file has been as it is for a while: if not, a change that follows may leave its times as they are."""
    return stat_of(path) == stat and time.time_ns() - stat.ctime_ns > _SETTLED_NS
