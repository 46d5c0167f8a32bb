"""A first policy, drafted from the schemas of files: never from their values.

Names and types of columns are in the schema. Bounds, units and budgets would have to be read off the data, and a bound
read off the data tells of the person at the bound; so they are left open, marked "?", for the owner to decide.

Numbers written into a policy's file, in place: its words, order and comments stay.
"""

import json
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from discreet.curator.catalog import ColumnType
from discreet.curator.engines.csv_files import CsvFormat, read_header
from discreet.curator.policy import UNDECIDED, parse_policy
from discreet.errors import DiscreetError, InvalidParameter
from discreet.exact import plain

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
# Drafted from the schema alone: no value was read.
# Decide every "?"; `discreet check` then says what it means, and whether it fits the files.

[dataset]
name = {name}
neighbors = "?"    # "add or remove one" or "change one"

[budget]
epsilon = "?"       # for everything that is ever released: 1 is strong, 10 is weak
everyone = "?"      # each analyst's share of it, {{epsilon = "0.5"}}, or "all"; or name them: [budget.analysts.ann]
# delta = "1e-6"    # well below 1/people; needed to name groups that come from the data

# Further settings of a column, all of which must hold without looking at the data:
#   integer, real   lower = 0, upper = 120      to sum or average; values outside are clamped
#   date, timestamp lower = 2020-01-01, upper = 2026-12-31    to group by day, month or year at no extra cost
#   real            granularity = "0.01"        the step between values that matters; needed for sums
#   all but real    values = ["a", "b"]         to group by it at no extra cost: all values that a group may have
#   all             nullable = false            rows where it is null are left out of whatever uses the column
"""
_TABLE = """
[tables.{name}]
source = {source}
{csv}unit = "?"          # the column that identifies a person, "row", or "public"
# max_groups_per_unit = 3    # if a person has several rows: count in at most so many groups of one answer,
# max_rows_per_group = 10    # with the weight of at most so many rows in each

[tables.{name}.columns]{types}
"""
_CSV_MORE = 'decimal = ",", date_format = "%d.%m.%Y"'


@dataclass(frozen=True, slots=True)
class _Schema:
    """What is known of a table without reading a row."""

    columns: list[tuple[str, ColumnType | None]]
    """Names and types; None where only the owner can know the type."""
    left_out: list[str]
    """What cannot be declared, in words."""
    csv: str = ""


def draft_policy(*sources: str, base: str | Path = ".") -> str:
    """The TOML text of a policy for some files, with every decision that is the owner's marked "?".

    A source is a .parquet or .csv file, or database.duckdb#table. A CSV file has no schema but a header, so the types
    of its columns are left open too. `base` is the folder in which the policy will be.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("name,age\\nAlice,30\\n")
    >>> "age" in draft_policy(str(file))
    True
    """
    if not sources:
        raise InvalidParameter("sources", "none", "at least one file")
    names = _names(sources)
    dataset = names[0] if len(sources) == 1 else UNDECIDED
    parts = [_HEAD.format(name=_quoted(dataset))]
    for name, source in zip(names, sources, strict=True):
        path, _, inside = source.partition("#")
        parts.append(_table(name, _relative(source, Path(base)), _schema(Path(path), inside)))
    return "".join(parts)


def _names(sources: tuple[str, ...]) -> list[str]:
    """A name for the table of each source: that of its file, with a number where two have the same."""
    names: list[str] = []
    for source in sources:
        path, _, inside = source.partition("#")
        stem = inside or Path(path).stem
        known = {name.casefold() for name in names}
        numbered = (f"{stem}_{number}" for number in range(2, len(sources) + 2))
        names.append(stem if stem.casefold() not in known else next(n for n in numbered if n.casefold() not in known))
    return names


def _relative(source: str, base: Path) -> str:
    """The source as the policy in `base` must name it."""
    path, mark, inside = source.partition("#")
    if base == Path(".") or Path(path).is_absolute():
        return source
    return Path(os.path.relpath(path, base)).as_posix() + mark + inside


def _table(name: str, source: str, schema: _Schema) -> str:
    types = "" if all(kind for _, kind in schema.columns) else f"    # types: {', '.join(ColumnType)}"
    head = _TABLE.format(name=_key(name), source=_quoted(source), csv=schema.csv, types=types)
    lines = [f'{_key(column)} = {{type = "{kind or UNDECIDED}"}}\n' for column, kind in schema.columns]
    return head + "".join(lines) + "".join(f"# left out: {reason}\n" for reason in schema.left_out)


def _key(name: str) -> str:
    """A key of TOML, bare where it can be."""
    return name if re.fullmatch("[A-Za-z0-9_-]+", name) else _quoted(name)


def _quoted(text: str) -> str:
    """A TOML basic string, which a JSON string is but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _schema(path: Path, inside: str) -> _Schema:
    if not path.is_file():
        raise InvalidParameter("source", str(path), "a file that exists: .parquet, .csv or database.duckdb#table")
    schema = _csv_schema(path) if path.suffix.lower() == ".csv" else _typed_schema(path, inside)
    if not schema.columns:
        reason = "; ".join(schema.left_out)
        raise InvalidParameter("source", path.name, "a table with columns of different names and simple types", reason)
    return schema


def _csv_schema(path: Path) -> _Schema:
    """The columns of a CSV file that have a name of their own, and how the file is written."""
    fmt = CsvFormat.sniff(path)
    header = read_header(path, fmt)
    counts = Counter(name.casefold() for name in header)
    left_out = [f"column {place} has no name" for place, name in enumerate(header, 1) if not name]
    left_out += [
        f"{_quoted(name)}, the name of {n} columns (in any case)" for name, n in counts.items() if name and n > 1
    ]
    usual = CsvFormat()
    detected = {"delimiter": (fmt.delimiter, usual.delimiter), "encoding": (fmt.encoding, usual.encoding)}
    keys = [f"{key} = {_quoted(value)}" for key, (value, default) in detected.items() if value != default]
    csv = f"# csv = {{{_CSV_MORE}}}    # if numbers or dates are written so\n"
    if keys:
        csv = f"csv = {{{', '.join(keys)}}}    # if numbers or dates are written so, also: {_CSV_MORE}\n"
    columns: list[tuple[str, ColumnType | None]] = [
        (name, None) for name in header if name and counts[name.casefold()] == 1
    ]
    return _Schema(columns, left_out, csv)


def _typed_schema(path: Path, inside: str) -> _Schema:
    """The columns of a Parquet file or a table of DuckDB that have a simple type."""
    columns: list[tuple[str, ColumnType | None]] = []
    left_out = []
    for name, text in _described(path, inside):
        kind = _KINDS.get(text.partition("(")[0].strip().upper()) if not text.endswith("]") else None
        if kind is None:
            left_out.append(f"{_quoted(name)} of type {' '.join(text.split())[:60]}")
        else:
            columns.append((name, kind))
    return _Schema(columns, left_out)


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


_MARK = "  # chosen privately:"


def with_bounds(
    text: str,
    table: str,
    contributions: Mapping[str, int],
    columns: Mapping[str, tuple[Fraction, Fraction]],
    *,
    provenance: str,
) -> str:
    """The text of a policy with these bounds of a table and its columns, and where they come from as a comment.

    `InvalidParameter` where the policy is written in a form that is not understood here; nothing else would be changed.

    >>> text = '''[dataset]
    ... name = "census"
    ... neighbors = "change one"
    ... [budget]
    ... everyone = "all"
    ... epsilon = 1
    ... [tables.visits]
    ... source = "visits.csv"
    ... unit = "who"
    ... columns.who = {type = "integer"}
    ... columns.pay = {type = "integer", lower = 0, upper = 9}
    ... '''
    >>> chosen = {"pay": (Fraction(-5), Fraction(50))}
    >>> new = with_bounds(text, "visits", {"max_rows_per_group": 4}, chosen, provenance="chosen privately: charge #2")
    >>> print("\\n".join(new.splitlines()[6:]))
    [tables.visits]
    max_rows_per_group = 4  # chosen privately: charge #2
    source = "visits.csv"
    unit = "who"
    columns.who = {type = "integer"}
    columns.pay = {type = "integer", lower = -5, upper = 50}  # chosen privately: charge #2
    """
    lines = text.splitlines()
    for name, value in contributions.items():
        lines = _with_number(lines, table, name, value, provenance)
    for name, ends in columns.items():
        lines = _with_ends(lines, table, name, ends, provenance)
    new = "\n".join(lines) + "\n"
    try:
        read = parse_policy(new).catalog.table(table)
    except DiscreetError as error:
        raise _unknown_form(table) from error
    known = {"max_groups_per_unit": read.groups, "max_rows_per_group": read.rows}
    written = all(known[name] == value for name, value in contributions.items()) and all(
        (read.column(name).lower, read.column(name).upper) == ends for name, ends in columns.items()
    )
    if not written:
        raise _unknown_form(table)
    return new


def _unknown_form(table: str) -> InvalidParameter:
    hint = "write the bounds into the file by hand"
    return InvalidParameter("policy", f"[tables.{table}]", "a section and columns of one line each", hint)


def _section(lines: list[str], *names: str) -> range:
    """The lines below a header such as [tables.visits.columns]; empty where there is none."""
    parts = r"\s*\.\s*".join(f'(?:{re.escape(name)}|"{re.escape(name)}")' for name in names)
    for start, line in enumerate(lines):
        if re.fullmatch(rf"\s*\[\s*{parts}\s*\]\s*(#.*)?", line):
            ends = (i for i in range(start + 1, len(lines)) if lines[i].lstrip().startswith("["))
            return range(start + 1, next(ends, len(lines)))
    return range(0)


def _with_number(lines: list[str], table: str, name: str, value: int, provenance: str) -> list[str]:
    section = _section(lines, "tables", table)
    if not section.start:
        raise _unknown_form(table)
    written = f"{name} = {value}  # {provenance}"
    for i in section:
        if re.match(rf"\s*{name}\s*=", lines[i]):
            return [*lines[:i], written, *lines[i + 1 :]]
    return [*lines[: section.start], written, *lines[section.start :]]


def _with_ends(
    lines: list[str], table: str, column: str, ends: tuple[Fraction, Fraction], provenance: str
) -> list[str]:
    quoted = f'(?:{re.escape(column)}|"{re.escape(column)}")'
    places = [(i, rf"\s*columns\s*\.\s*{quoted}\s*=") for i in _section(lines, "tables", table)]
    places += [(i, rf"\s*{quoted}\s*=") for i in _section(lines, "tables", table, "columns")]
    for i, pattern in places:
        if re.match(pattern, lines[i]):
            line = lines[i].partition(_MARK)[0].rstrip()
            for name, end in zip(("lower", "upper"), ends, strict=True):
                line = _with_end(line, name, end)
            return [*lines[:i], f"{line}  # {provenance}", *lines[i + 1 :]]
    raise _unknown_form(table)


def _with_end(line: str, name: str, end: Fraction) -> str:
    number = plain(end)
    value = f'"{number}"' if "/" in number else number
    new, count = re.subn(rf"\b{name}\s*=\s*[^,}}]*?(?=\s*[,}}])", f"{name} = {value}", line, count=1)
    return new if count else re.sub(r"\s*\}", f", {name} = {value}}}", line, count=1)
