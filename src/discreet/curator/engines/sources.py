"""Where rows come from: Parquet, CSV and DuckDB files and tables of Python, and what these must look like.

All of it is found from schemas and headers; no row is looked at.

Tables of Python (pyarrow, pandas, polars), column by column, as Arrow.

Types are found without looking at a row. A column of Python objects, which pandas may hold, has no type but the one
that the policy declares: objects of another type count as missing. No row can make a conversion fail.
"""

import glob
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsInt, cast

from discreet.curator.catalog import Catalog, ColumnType, Table
from discreet.curator.engines.columns import (
    ARROW,
    CSV,
    GENERATED,
    PARQUET,
    Field,
    find,
    head,
    literal,
    matched,
    quoted,
    select,
)
from discreet.curator.engines.csv_files import CsvFormat, read_header, read_records
from discreet.errors import InvalidParameter
from discreet.noise import SystemEntropy

if TYPE_CHECKING:
    import duckdb
    import pyarrow


PYTHON = "python"
"""The source of a table that is given as a Python object."""

_PARQUET = "hive_partitioning=false, union_by_name=false, utf8_validation='replace', can_have_nan=true"


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of one table come from."""

    relation: str
    """What stands after FROM; of a table of Python, what it will be registered as."""
    select: str
    """The declared columns, in the declared types."""
    name: str
    """Tells apart what one file may be read as: which table in it, or how its fields are written."""
    files: Callable[[], list[Path]]
    """Where the rows are now."""
    paths: tuple[str, ...] = ()
    """What DuckDB must be allowed to read."""
    rows: "Callable[[], pyarrow.Table | pyarrow.RecordBatchReader] | None" = None
    """Of a source that is copied into a table: its rows as they come."""

    def without_rows(self) -> "Source":
        """The same source, without the Python object, which may be large."""
        return replace(self, rows=None)


def read_sources(
    connection: "duckdb.DuckDBPyConnection",
    catalog: Catalog,
    sources: Mapping[str, Any],
    base: Path,
    formats: Mapping[str, CsvFormat],
) -> Iterator[tuple[str, Source]]:
    """Find the source of each table of a catalog, by the table's name; `InvalidParameter` where it does not fit."""
    given = {name.casefold(): source for name, source in sources.items()}
    written = {name.casefold(): fmt for name, fmt in formats.items()}
    for name in (*sources, *formats):
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
            yield table.name, _csv_source(table, path, written.get(key, CsvFormat()))
        else:
            yield table.name, _parquet_source(connection, table, path)


def _place(source: str, base: Path) -> tuple[Path, str | None]:
    """The path of a source and, of a database, the table in it."""
    whole = base / source
    path, mark, inside = source.partition("#")
    if mark and not (whole.suffix.lower() in (".csv", ".parquet") and whole.exists()):
        return (base / path).resolve(), inside
    return whole.resolve(), None


def _csv_source(table: Table, path: Path, fmt: CsvFormat) -> Source:
    names = read_header(path, fmt, where=f"table {table.name!r}, source")
    _check_delimiter(table, path, fmt, names)
    fields = [(name, Field(f"c{place}", CSV)) for place, name in enumerate(names)]
    select = matched(table, fields, fmt)
    places = [find(table, column, names) for column in table.columns]

    def rows() -> "pyarrow.RecordBatchReader":
        return read_records(path, fmt, len(names), places)

    return Source(f"discreet_{_token()}", select, repr(fmt), lambda: [path], (), rows)


def _check_delimiter(table: Table, path: Path, fmt: CsvFormat, names: list[str]) -> None:
    """Refuse a header that shows another delimiter than the stated one: `discreet init` would read it otherwise."""
    other = CsvFormat.sniff(path, at_least=fmt.delimiter).delimiter
    if other == fmt.delimiter:
        return
    got = f"a header that reads as {len(names)} column{'s' * (len(names) > 1)}: {', '.join(names[:20])!r}"
    expected = f"a header with more {fmt.delimiter!r} than {other!r}"
    hint = (
        f"did you mean delimiter = {other!r}? state it under [tables.{table.name}.csv]; or put names that contain it "
        "in quotes"
    )
    raise InvalidParameter(f"table {table.name!r}, source", got, expected, hint)


def _token() -> str:
    return SystemEntropy().words(2).tobytes().hex()


def _parquet_source(connection: "duckdb.DuckDBPyConnection", table: Table, path: Path) -> Source:
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
    one = files == [path]  # and the file stays the source, also where something else takes its place
    return Source(
        f"read_parquet([{listed}], {_PARQUET})",
        selects.pop(),
        "",
        lambda: files if one else _parquet_files(path),
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
        (name, Field(known, _parquet_type(logical, head(kind))))
        for (name, logical), known, kind in zip(_top(tree), relation.columns, relation.types, strict=True)
    ]


def _parquet_type(logical: str, kind: str) -> str:
    if "MilliSeconds" in logical:
        return "TIMESTAMP in milliseconds"
    return PARQUET if kind == "VARCHAR" else kind


def _top(tree: list[tuple[str, int | None, str | None]]) -> Iterator[tuple[str, str]]:
    """The top level of a Parquet schema, which is listed depth first, the root at the head."""
    below = 0
    for name, children, logical in tree[1:]:
        if below == 0:
            yield name, logical or ""
        below += (children or 0) - (1 if below else 0)


def _database_source(
    connection: "duckdb.DuckDBPyConnection", table: Table, path: Path, inside: str, attached: dict[Path, str]
) -> Source:
    import duckdb

    if not path.is_file():
        raise InvalidParameter(f"table {table.name!r}, source", str(path), "a DuckDB file", "no such file")
    alias = attached.setdefault(path, f"discreet_source_{len(attached)}")
    try:
        connection.execute(f"ATTACH IF NOT EXISTS {literal(str(path))} AS {alias} (READ_ONLY, TYPE duckdb)")
        schema, name = _database_table(connection, table, path, inside, alias)
        columns = connection.execute(
            "SELECT column_name, CASE WHEN is_generated THEN ? ELSE data_type END FROM duckdb_columns() "
            "WHERE database_name = ? AND schema_name = ? AND table_name = ? ORDER BY column_index",
            [GENERATED, alias, schema, name],
        ).fetchall()
    except duckdb.Error as error:
        raise _unreadable(table, path, "a DuckDB file", error) from None
    fields = [(name, Field(name, head(kind))) for name, kind in columns]
    place = f"{quoted(schema)}.{quoted(name)}"
    journal = path.with_name(path.name + ".wal")
    return Source(f"{alias}.{place}", matched(table, fields), place, lambda: [path, journal])


def _database_table(
    connection: "duckdb.DuckDBPyConnection", table: Table, path: Path, inside: str, alias: str
) -> tuple[str, str]:
    """The schema and the name of a table in a database, in any case; that of the schema main first."""
    chosen = "WHERE database_name = ? AND lower(name) = lower(?) ORDER BY schema_name <> 'main', schema_name"
    tables = "SELECT * FROM (SELECT database_name, schema_name, table_name AS name FROM duckdb_tables())"
    views = "SELECT * FROM (SELECT database_name, schema_name, view_name AS name FROM duckdb_views())"
    row = connection.execute(f"{tables} {chosen}", [alias, inside]).fetchone()
    if row is not None:
        return row[1], row[2]
    view = connection.execute(f"{views} {chosen}", [alias, inside]).fetchone()
    got, hint = inside, "name a table in it"
    if view is not None:
        got = f"{inside}, a view"
        hint = "a view may read other files, draw random numbers, or fail on a row; make it a table: CREATE TABLE … AS"
    raise InvalidParameter(f"table {table.name!r}, source", got, f"a table of {path.name}", hint)


def _python_source(table: Table, given: Any) -> Source:
    import pyarrow

    frame = Frame(given, f"table {table.name!r}")
    places = [find(table, column, frame.names) for column in table.columns]
    names = [f"c{place}" for place in range(len(places))]
    kinds = [(place, column.kind) for place, column in zip(places, table.columns, strict=True)]
    fields = [Field(name, frame.type(*kind)) for name, kind in zip(names, kinds, strict=True)]
    token = _token()  # not a digest of the rows, which would have to read them

    def rows() -> pyarrow.Table:
        return pyarrow.table([frame.array(*kind) for kind in kinds], names=names)

    return Source(
        f"discreet_{token}", select(table, fields, pandas=frame.library == "pandas"), token, lambda: [], (), rows
    )


# Names and places


def _escaped(path: Path) -> str:
    """A path that DuckDB takes for no pattern."""
    return glob.escape(str(path))


def _allowed(path: Path) -> tuple[str, ...]:
    """The path as it is and as it is asked for: DuckDB checks both."""
    return tuple({str(path), _escaped(path)})


def _unreadable(table: Table, path: Path, expected: str, error: Exception) -> InvalidParameter:
    reason = str(error).splitlines()[0]
    return InvalidParameter(f"table {table.name!r}, source", str(path), expected, reason)


_KNOWN = {("pyarrow", "Table"), ("pandas", "DataFrame"), ("polars", "DataFrame")}


@dataclass(frozen=True, slots=True)
class Frame:
    """A table of Python: its columns are found by their place.

    >>> import pyarrow
    >>> frame = Frame(pyarrow.table({"age": [30, None]}), "table 'people'")
    >>> frame.names, frame.type(0, ColumnType.INTEGER), frame.array(0, ColumnType.INTEGER).to_pylist()
    (['age'], 'BIGINT', [30, None])
    """

    table: Any
    where: str
    library: str

    def __init__(self, given: Any, where: str) -> None:
        library = type(given).__module__.partition(".")[0]
        if (library, type(given).__name__) not in _KNOWN:
            expected = "a pyarrow Table, a pandas or polars DataFrame, or a path"
            raise InvalidParameter(where, f"a {type(given).__name__}", expected)
        # A shallow copy: pandas writes to other memory when the caller changes the original.
        object.__setattr__(self, "table", given.copy(deep=False) if library == "pandas" else given)
        object.__setattr__(self, "where", where)
        object.__setattr__(self, "library", library)

    @property
    def names(self) -> list[Any]:
        """The names of the columns; in pandas they need not be texts."""
        return list(self.table.column_names if self.library == "pyarrow" else self.table.columns)

    def type(self, place: int, kind: ColumnType) -> str:
        """The type of a column, in words of DuckDB, from the schema alone."""
        import pyarrow

        try:
            return _type(_array(self._column(place, 0), self.library, kind).type)
        except (pyarrow.ArrowException, TypeError, ValueError, NotImplementedError):
            return f"{getattr(self._column(place, 0), 'dtype', 'unknown')}"

    def array(self, place: int, kind: ColumnType) -> "pyarrow.ChunkedArray | pyarrow.Array":
        """A whole column."""
        return _array(self._column(place, None), self.library, kind)

    def _column(self, place: int, stop: int | None) -> Any:
        if self.library == "pandas":
            return self.table.iloc[:stop, place]
        if self.library == "polars":
            return self.table.to_series(place)[:stop]
        return self.table.column(place)[:stop]


def _array(column: Any, library: str, kind: ColumnType) -> Any:
    import pyarrow

    array = _from_pandas(column, kind) if library == "pandas" else column
    array = array.to_arrow() if library == "polars" else array
    if pyarrow.types.is_timestamp(array.type) and array.type.tz is not None:
        return array.cast(pyarrow.timestamp(array.type.unit))  # the same instants, in UTC
    return array


def _from_pandas(series: Any, kind: ColumnType) -> "pyarrow.Array":
    import pyarrow

    name = str(series.dtype)
    if name == "object":
        return _objects(series, kind)
    if name == "category":
        codes = series.cat.codes.to_numpy()
        values = series.cat.categories
        return pyarrow.DictionaryArray.from_arrays(pyarrow.array(codes, mask=codes < 0), _from_pandas(values, kind))
    try:
        return pyarrow.array(series, from_pandas=True)
    except UnicodeEncodeError:  # half a surrogate pair, which Python allows in a text
        return _objects(series, kind)


def _type(arrow: Any) -> str:
    """What DuckDB calls an Arrow type, as far as fitting matters."""
    import pyarrow

    if pyarrow.types.is_dictionary(arrow) or pyarrow.types.is_run_end_encoded(arrow):
        return _type(arrow.value_type)
    is_ = pyarrow.types
    tests: list[tuple[Callable[[Any], bool], str]] = [
        (is_.is_null, '"NULL"'),
        (is_.is_uint64, "UBIGINT"),
        (is_.is_integer, "BIGINT" if arrow == pyarrow.int64() else "INTEGER"),
        (lambda kind: is_.is_float32(kind) or is_.is_float64(kind), "DOUBLE"),
        (is_.is_decimal128, "DECIMAL"),
        (lambda kind: is_.is_string(kind) or is_.is_large_string(kind) or is_.is_string_view(kind), ARROW),
        (is_.is_boolean, "BOOLEAN"),
        (is_.is_date, "DATE"),
        (is_.is_timestamp, "TIMESTAMP" if arrow == pyarrow.timestamp("us") else "TIMESTAMP_NS"),
    ]
    return next((name for test, name in tests if test(arrow)), str(arrow))


def _objects(values: Iterable[Any], kind: ColumnType) -> "pyarrow.Array":
    """Python objects as the declared type; whatever is not of it is missing."""
    import pyarrow

    types = {
        ColumnType.INTEGER: pyarrow.int64(),
        ColumnType.REAL: pyarrow.float64(),
        ColumnType.TEXT: pyarrow.string(),
        ColumnType.BOOLEAN: pyarrow.bool_(),
        ColumnType.DATE: pyarrow.date32(),
        ColumnType.TIMESTAMP: pyarrow.timestamp("us"),
    }
    read = _READERS[kind]
    return pyarrow.array([_attempt(read, value) for value in values], types[kind])


def _attempt(read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except Exception:  # whatever an object does when it is asked, its row is not told by an error
        return None


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, Integral | Real | Decimal):
        return None
    whole = int(cast(SupportsInt, value))
    return whole if whole == value and -(2**63) <= whole < 2**63 else None


def _real(value: Any) -> float | None:
    if (
        isinstance(value, bool)
        or not isinstance(value, Integral | Real | Decimal)
        or math.isnan(cast(SupportsFloat, value))
    ):
        return None
    return float(cast(SupportsFloat, value))


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    value.encode()
    return str(value)


def _truth(value: Any) -> bool | None:
    return bool(value) if type(value).__name__ in ("bool", "bool_") else None


def _date(value: Any) -> date | None:
    if isinstance(value, datetime):
        value = _time(value)
    return date(value.year, value.month, value.day) if isinstance(value, date) else None


def _time(value: Any) -> datetime | None:
    if not isinstance(value, datetime):
        return None
    naive = value.astimezone(UTC) if value.tzinfo is not None else value
    parts = (naive.year, naive.month, naive.day, naive.hour, naive.minute, naive.second, naive.microsecond)
    return datetime(*parts)


_READERS: dict[ColumnType, Callable[[Any], Any]] = {
    ColumnType.INTEGER: _whole,
    ColumnType.REAL: _real,
    ColumnType.TEXT: _text,
    ColumnType.BOOLEAN: _truth,
    ColumnType.DATE: _date,
    ColumnType.TIMESTAMP: _time,
}
