"""A first policy, drafted from the schema of a file: never from its values.

Names and types of columns are in the schema. Bounds, units and budgets would have to be read off the data, and a bound
read off the data tells of the person at the bound; so they are left open, marked "?", for the owner to decide.
"""

import csv
import json
from pathlib import Path

from discreet.curator.catalog import ColumnType
from discreet.curator.policy import UNDECIDED
from discreet.errors import InvalidParameter

_WHOLE = [
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "UHUGEINT",
]
_KINDS = dict.fromkeys(_WHOLE, ColumnType.INTEGER) | {
    "FLOAT": ColumnType.REAL,
    "DOUBLE": ColumnType.REAL,
    "DECIMAL": ColumnType.REAL,
    "VARCHAR": ColumnType.TEXT,
    "ENUM": ColumnType.TEXT,
    "BOOLEAN": ColumnType.BOOLEAN,
    "DATE": ColumnType.DATE,
    "TIMESTAMP": ColumnType.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": ColumnType.TIMESTAMP,
}

_HEAD = """\
# Drafted from the schema of {source} alone: no value was read.
# Decide every "?"; `discreet check` then says what it means.

[dataset]
name = {name}
neighbours = "?"    # "add or remove one" or "change one"

[budget]
epsilon = "?"       # for everything that is ever released: 1 is strong, 10 is weak
# delta = "1e-6"    # well below 1/people; needed to name groups that come from the data

[tables.{name}]
source = {source}
unit = "?"          # the column that identifies a person, "row", or "public"
# groups = 3        # if a person has several rows: count in at most so many groups of one answer,
# rows = 10         # with the weight of at most so many rows in each
"""
_NUMBER = """\
# lower = 0         # to sum or average: bounds that hold without looking at the data; values outside are clamped
# upper = 100
"""
_STEP = '# granularity = "0.01"    # the step between values that matters\n'
_VALUES = "# values = []       # to group by it at no extra cost: all values that a group may have\n"


def draft_policy(source: str) -> str:
    """The TOML text of a policy for one file, with every decision that is the owner's marked "?".

    `source` is a .parquet or .csv file, or database.duckdb#table. A CSV file has no schema but a header, so the types
    of its columns are left open too.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("name,age\\\\nAlice,30\\\\n")
    >>> "age" in draft_policy(str(file))
    True
    """
    path, _, inside = source.partition("#")
    columns = _schema(Path(path), inside)
    name = _quoted(inside or Path(path).stem)
    parts = [_HEAD.format(name=name, source=_quoted(source))]
    parts += [_column(name, column, kind) for column, kind in columns]
    return "\n".join(parts)


def _column(table: str, name: str, kind: ColumnType | None) -> str:
    lines = f'[tables.{table}.columns.{_quoted(name)}]\ntype = "{kind or UNDECIDED}"\n'
    if kind is None:
        lines += f"# one of: {', '.join(ColumnType)}\n"
    if kind in (None, ColumnType.INTEGER, ColumnType.REAL):
        lines += _NUMBER
    if kind in (None, ColumnType.REAL):
        lines += _STEP
    return lines if kind is ColumnType.REAL else lines + _VALUES


def _quoted(text: str) -> str:
    """A TOML basic string, which a JSON string is."""
    return json.dumps(text, ensure_ascii=False)


def _schema(path: Path, inside: str) -> list[tuple[str, ColumnType | None]]:
    if not path.is_file():
        raise InvalidParameter("source", str(path), "a file that exists: .parquet, .csv or database.duckdb#table")
    if path.suffix.lower() == ".csv":
        return [(name, None) for name in _header(path)]
    return [(name, _kind(path, name, text)) for name, text in _described(path, inside)]


def _kind(path: Path, name: str, text: str) -> ColumnType:
    kind = _KINDS.get(text.partition("(")[0].strip().upper())
    if kind is None:
        hint = "leave it out of what you register, or turn it into a simple type"
        raise InvalidParameter("source", f"column {name!r} of type {text} in {path.name}", "simple types", hint)
    return kind


def _header(path: Path) -> list[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            header = next(csv.reader(file), [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InvalidParameter("source", path.name, "a CSV file in UTF-8 with a header row", str(error)) from None
    if not header or not all(name.strip() for name in header) or len(set(header)) != len(header):
        raise InvalidParameter("source", path.name, "a CSV file with a header row of different column names")
    return header


def _described(path: Path, inside: str) -> list[tuple[str, str]]:
    """Names and types of columns, as DuckDB finds them in the file's metadata."""
    import duckdb

    try:
        with duckdb.connect(str(path), read_only=True) if inside else duckdb.connect() as connection:
            relation = connection.table(inside) if inside else connection.read_parquet(str(path))
            return [(name, str(kind)) for name, kind in zip(relation.columns, relation.types, strict=True)]
    except duckdb.Error as error:
        expected = "a Parquet file, or database.duckdb#table"
        raise InvalidParameter("source", str(path), expected, str(error).splitlines()[0]) from None
