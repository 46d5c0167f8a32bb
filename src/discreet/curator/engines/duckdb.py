"""The embedded engine: Parquet, CSV and DuckDB files, and tables of Python, read by DuckDB.

Each table of the catalog becomes a relation of its own name with exactly the declared columns, in the types BIGINT,
DOUBLE, VARCHAR, BOOLEAN, DATE and TIMESTAMP (in UTC). What a source must look like is checked when the engine is made,
from schemas alone; rows are not read before the first `fetch`.

Guarantee: no value of a row makes a query over these relations fail. Proof: every expression of `_expression` is a
column of the type itself, a TRY_CAST, or a CASE over them, and these yield NULL where a value does not fit:

* a whole number that does not fit BIGINT is NULL; so is a date or time outside the years 1 to 9999, where functions of
  dates overflow (±infinity among them), and a field of a CSV file that is not of the declared type;
* where numbers come as text (CSV) or as floating-point numbers because some are missing (pandas), a declared integer
  is taken as it is if it is whole, and is NULL otherwise: 3.0 is 3, but 3.5 is not 4;
* text that is not UTF-8 has "?" in its place (Parquet) or is NULL (Arrow); such a line of a CSV file is left out, and
  a line with too few fields ends in NULLs. NaN and infinities of a real column stay what they are, except in pandas,
  where NaN means that a value is missing.

A CSV file has commas, double quotes and a header; an empty field is NULL, a quoted empty field is an empty text.
"""

import csv
import glob
import hashlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.curator.catalog import Catalog, Table
from discreet.curator.engines.columns import CSV, TYPES, Field, find, head, literal, matched, quoted, select
from discreet.curator.engines.frames import Frame
from discreet.errors import InvalidData, InvalidParameter
from discreet.noise import SystemEntropy

if TYPE_CHECKING:
    import duckdb
    import pyarrow

PYTHON = "python"
"""The source of a table that is given as a Python object."""

_CSV = (
    "auto_detect=false, header=true, delim=',', quote='\"', escape='\"', nullstr='', allow_quoted_nulls=false, "
    "ignore_errors=true, null_padding=true, strict_mode=false, parallel=false"
)
_PARQUET = "hive_partitioning=false, union_by_name=false, utf8_validation='replace'"


class DuckDBEngine:
    """The tables of a catalog in one embedded DuckDB. Threads may share it.

    `sources` gives for each table the path of a .parquet file (or a folder or a pattern of them), of a .csv file, or
    database.duckdb#table; or a pyarrow Table, pandas DataFrame or polars DataFrame. Relative paths are relative to
    `base`. Tables of Python are copied at the first `fetch`. A DuckDB file stays open, for reading, until `close`.

    >>> import pyarrow
    >>> from discreet.curator.catalog import Catalog, Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> people = Table("people", [Column("age", "integer")], unit=Unit())
    >>> catalog = Catalog("census", [people], neighbours="change one")
    >>> with DuckDBEngine(catalog, {"people": pyarrow.table({"age": [30, 50, None]})}) as engine:
    ...     engine.fetch('SELECT sum("age") AS total FROM "people"').to_pylist()
    [{'total': Decimal('80')}]
    """

    dialect = "duckdb"

    def __init__(self, catalog: Catalog, sources: Mapping[str, Any], *, base: Path = Path(".")) -> None:
        self._folder = tempfile.mkdtemp(prefix="discreet-")
        self._finalizer = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._connection = _connect(self._folder)
        self._lock = threading.Lock()
        try:
            self._sources = dict(_read(self._connection, catalog, sources, Path(base)))
            self._waiting = [(table, source) for table, source in self._sources.items() if source.rows]
            for table, source in self._sources.items():
                _create(self._connection, catalog.table(table), source)
            _lock_down(self._connection, [path for source in self._sources.values() for path in source.paths])
            self._opened = self._stamps()
        except BaseException:
            self.close()
            raise

    @property
    def version(self) -> str:
        """A digest of which files the data are in, their sizes and times: other data, another digest."""
        return hashlib.sha256(repr(sorted(self._stamps().items())).encode()).hexdigest()

    def fetch(self, sql: str) -> "pyarrow.Table":
        """The rows of a SELECT. Raises `InvalidData` if a source changed since the engine was made."""
        self._load()
        self._check_unchanged()
        with self._connection.cursor() as cursor:
            table = cursor.sql(sql).to_arrow_table()
        self._check_unchanged()
        return table

    def close(self) -> None:
        """Let go of files and memory; afterwards nothing can be fetched."""
        self._connection.close()
        self._finalizer()

    def __enter__(self) -> "DuckDBEngine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _load(self) -> None:
        """Copy the tables of Python that have not been copied yet."""
        with self._lock:
            while self._waiting:
                table, source = self._waiting[-1]
                if source.rows is not None:
                    _insert(self._connection, table, source, source.rows())
                self._waiting.pop()
                self._sources[table] = _forgotten(source)

    def _stamps(self) -> dict[str, object]:
        return {table: source.stamp() for table, source in self._sources.items()}

    def _check_unchanged(self) -> None:
        now = self._stamps()
        for table, stamp in self._opened.items():
            if now[table] != stamp:
                raise InvalidData(f"table {table!r}: its source changed after it was opened; open the dataset again")


@dataclass(frozen=True, slots=True)
class _Source:
    """Where the rows of one table come from."""

    relation: str
    """What stands after FROM; of a table of Python, what it will be registered as."""
    select: str
    """The declared columns, in the declared types."""
    stamp: Callable[[], object]
    """Names the rows as they are now, without reading them."""
    paths: tuple[str, ...] = ()
    rows: Callable[[], "pyarrow.Table"] | None = None


def _forgotten(source: _Source) -> _Source:
    """The same source, without the Python object, which may be large."""
    return _Source(source.relation, source.select, source.stamp)


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


def _lock_down(connection: "duckdb.DuckDBPyConnection", paths: Iterable[str]) -> None:
    """From here on, only the given files can be read, and nothing of this can be changed back."""
    connection.execute(f"SET allowed_paths = [{', '.join(literal(path) for path in paths)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _create(connection: "duckdb.DuckDBPyConnection", table: Table, source: _Source) -> None:
    if source.rows is None:
        body = f"SELECT {source.select} FROM {source.relation}"  # noqa: S608  # quoted names of the owner's policy
        connection.execute(f"CREATE VIEW {quoted(table.name)} AS {body}")
    else:
        columns = ", ".join(f"{quoted(column.name)} {TYPES[column.kind]}" for column in table.columns)
        connection.execute(f"CREATE TABLE {quoted(table.name)} ({columns})")


def _insert(connection: "duckdb.DuckDBPyConnection", table: str, source: _Source, rows: "pyarrow.Table") -> None:
    connection.register(source.relation, rows)
    try:
        into = f"INSERT INTO {quoted(table)}"
        connection.execute(f"{into} SELECT {source.select} FROM {quoted(source.relation)}")  # noqa: S608
    finally:
        connection.unregister(source.relation)


# Sources


def _read(
    connection: "duckdb.DuckDBPyConnection", catalog: Catalog, sources: Mapping[str, Any], base: Path
) -> Iterator[tuple[str, _Source]]:
    given = {name.casefold(): source for name, source in sources.items()}
    for name in sources:
        catalog.table(name)
    attached: dict[Path, str] = {}
    for key, table in catalog.tables.items():
        source = given.get(key, PYTHON)
        if isinstance(source, str) and source == PYTHON:
            hint = f"give it as tables={{{table.name!r}: …}}"
            raise InvalidParameter(f"table {table.name!r}", "no table", "a pyarrow, pandas or polars table", hint)
        if not isinstance(source, str | os.PathLike):
            yield table.name, _python_source(table, source)
            continue
        path, inside = _place(os.fspath(source), base)
        if inside is not None:
            yield table.name, _database_source(connection, table, path, inside, attached)
        elif path.suffix.lower() == ".csv":
            yield table.name, _csv_source(table, path)
        else:
            yield table.name, _parquet_source(connection, table, path)


def _place(source: str, base: Path) -> tuple[Path, str | None]:
    """The path of a source and, of a database, the table in it."""
    whole = base / source
    path, mark, inside = source.partition("#")
    if mark and not (whole.suffix.lower() in (".csv", ".parquet") and whole.exists()):
        return (base / path).resolve(), inside
    return whole.resolve(), None


def _csv_source(table: Table, path: Path) -> _Source:
    names = _header(table, path)
    fields = [(name, Field(f"c{place}", CSV)) for place, name in enumerate(names)]
    columns = ", ".join(f"'c{place}': 'VARCHAR'" for place in range(len(names)))
    relation = f"read_csv({literal(_escaped(path))}, columns={{{columns}}}, {_CSV})"
    return _Source(relation, matched(table, fields), lambda: _stat(path), _allowed(path))


def _header(table: Table, path: Path) -> list[str]:
    """The names in the first line. Bytes after it are not looked at, so that no row can change what is said here."""
    try:
        with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
            names = [name.strip() for name in next(csv.reader(file), [])]
        "".join(names).encode()
    except (OSError, UnicodeEncodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or "the header cannot be read"
        expected = "a CSV file in UTF-8 with a header line"
        raise InvalidParameter(f"table {table.name!r}, source", str(path), expected, reason) from None
    return [name.removeprefix("\ufeff") for name in names]


def _parquet_source(connection: "duckdb.DuckDBPyConnection", table: Table, path: Path) -> _Source:
    files = _parquet_files(path)
    if not files:
        expected = "a Parquet file, a folder or pattern of them, a .csv file, or database.duckdb#table"
        raise InvalidParameter(f"table {table.name!r}, source", str(path), expected, "no such file")
    selects = {matched(table, _parquet_fields(connection, table, file)) for file in files}
    if len(selects) > 1:
        raise InvalidParameter(
            f"table {table.name!r}, source",
            f"{len(files)} files of different schemas",
            "the same names and types in all",
        )
    listed = ", ".join(literal(_escaped(file)) for file in files)
    allowed = tuple(place for file in files for place in _allowed(file))
    return _Source(
        f"read_parquet([{listed}], {_PARQUET})",
        selects.pop(),
        lambda: [_stat(file) for file in _parquet_files(path)],
        allowed,
    )


def _parquet_files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(file for file in path.rglob("*.parquet") if file.is_file())
    if path.exists() or not glob.has_magic(str(path)):
        return [path] if path.is_file() else []
    return sorted(Path(file).resolve() for file in glob.glob(str(path), recursive=True) if Path(file).is_file())


def _parquet_fields(connection: "duckdb.DuckDBPyConnection", table: Table, file: Path) -> list[tuple[str, Field]]:
    """Columns as the file names them, and as DuckDB does: it renames the second of "Age" and "age"."""
    import duckdb

    place = literal(_escaped(file))
    try:
        schema = f"SELECT name, num_children, logical_type FROM parquet_schema({place})"  # noqa: S608
        tree = connection.execute(schema).fetchall()
        relation = connection.sql(f"SELECT * FROM read_parquet({place}, {_PARQUET})")  # noqa: S608
    except duckdb.Error as error:
        raise _unreadable(table, file, "a Parquet file", error) from None
    return [
        (name, Field(known, "TIMESTAMP in milliseconds" if "MilliSeconds" in logical else head(kind)))
        for (name, logical), known, kind in zip(_top(tree), relation.columns, relation.types, strict=True)
    ]


def _top(tree: list[tuple[str, int | None, str | None]]) -> Iterator[tuple[str, str]]:
    """The top level of a Parquet schema, which is listed depth first, the root at the head."""
    below = 0
    for name, children, logical in tree[1:]:
        if below == 0:
            yield name, logical or ""
        below += (children or 0) - (1 if below else 0)


def _database_source(
    connection: "duckdb.DuckDBPyConnection", table: Table, path: Path, inside: str, attached: dict[Path, str]
) -> _Source:
    import duckdb

    if not path.is_file():
        raise InvalidParameter(f"table {table.name!r}, source", str(path), "a DuckDB file", "no such file")
    alias = attached.setdefault(path, f"discreet_source_{len(attached)}")
    try:
        connection.execute(f"ATTACH IF NOT EXISTS {literal(str(path))} AS {alias} (READ_ONLY, TYPE duckdb)")
        found = connection.execute(
            "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ? AND "
            "lower(table_name) = lower(?) ORDER BY schema_name <> 'main', schema_name",
            [alias, inside],
        ).fetchone()
    except duckdb.Error as error:
        raise _unreadable(table, path, "a DuckDB file", error) from None
    if found is None:
        expected = f"a table of {path.name}"
        raise InvalidParameter(f"table {table.name!r}, source", inside, expected, "make a table of it if it is a view")
    place = f"{alias}.{quoted(found[0])}.{quoted(found[1])}"
    relation = connection.sql(f"SELECT * FROM {place}")  # noqa: S608
    fields = [(name, Field(name, head(kind))) for name, kind in zip(relation.columns, relation.types, strict=True)]
    journal = path.with_name(path.name + ".wal")
    return _Source(place, matched(table, fields), lambda: (_stat(path), _stat(journal)))


def _python_source(table: Table, given: Any) -> _Source:
    import pyarrow

    frame = Frame(given, f"table {table.name!r}")
    places = [find(table, column, frame.names) for column in table.columns]
    names = [f"c{place}" for place in range(len(places))]
    kinds = [(place, column.kind) for place, column in zip(places, table.columns, strict=True)]
    fields = [Field(name, frame.type(*kind)) for name, kind in zip(names, kinds, strict=True)]
    token = SystemEntropy().words(2).tobytes().hex()  # not a digest of the rows, which would have to read them

    def rows() -> pyarrow.Table:
        return pyarrow.table([frame.array(*kind) for kind in kinds], names=names)

    return _Source(
        f"discreet_{token}", select(table, fields, pandas=frame.library == "pandas"), lambda: token, (), rows
    )


# Names and places


def _escaped(path: Path) -> str:
    """A path that DuckDB takes for no pattern."""
    return glob.escape(str(path))


def _allowed(path: Path) -> tuple[str, ...]:
    """The path as it is and as it is asked for: DuckDB checks both."""
    return tuple({str(path), _escaped(path)})


def _stat(path: Path) -> tuple[object, ...]:
    try:
        found = path.stat()
    except OSError:
        return (str(path), None)
    return (str(path), found.st_size, found.st_mtime_ns, found.st_ino, found.st_dev)


def _unreadable(table: Table, path: Path, expected: str, error: Exception) -> InvalidParameter:
    reason = str(error).splitlines()[0]
    return InvalidParameter(f"table {table.name!r}, source", str(path), expected, reason)
