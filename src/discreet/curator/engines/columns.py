"""From the columns of a source to the declared ones: what fits what, and the SQL that reads it and never fails."""

from dataclasses import dataclass
from typing import Any

from discreet.curator.catalog import TEXT, Column, ColumnType, Table
from discreet.curator.engines.csv_files import CsvFormat
from discreet.errors import InvalidParameter

CSV, ARROW, PARQUET, GENERATED = "field of a CSV file", "text of Arrow", "text of Parquet", "a generated column"
"""Types that say where a value comes from: how it is read depends on that too."""

TYPES = {
    ColumnType.INTEGER: "BIGINT",
    ColumnType.REAL: "DOUBLE",
    ColumnType.TEXT: "VARCHAR",
    ColumnType.BOOLEAN: "BOOLEAN",
    ColumnType.DATE: "DATE",
    ColumnType.TIMESTAMP: "TIMESTAMP",
}
_WHOLE = {prefix + size for prefix in ("", "U") for size in ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")}
_TIMES = {"TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"}
_FITS = {
    ColumnType.INTEGER: _WHOLE,
    ColumnType.REAL: _WHOLE | {"FLOAT", "DOUBLE", "DECIMAL"},
    ColumnType.TEXT: {"VARCHAR", "ENUM", ARROW, PARQUET},
    ColumnType.BOOLEAN: {"BOOLEAN"},
    ColumnType.DATE: {"DATE"},
    ColumnType.TIMESTAMP: _TIMES,
}
_FITS_PANDAS = {ColumnType.INTEGER: {"FLOAT", "DOUBLE"}, ColumnType.DATE: _TIMES}
"""What fits from pandas besides: whole numbers with missing ones among them are floats, and dates are times."""

_HINTS = {
    GENERATED: "what it computes may change or fail; store its values in a plain column",
    "TIMESTAMP in milliseconds": "DuckDB fails on some of them; write it in microseconds",
    "FLOAT": "if the numbers are whole, store them as whole numbers",
    "DOUBLE": "if the numbers are whole, store them as whole numbers",
}


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a source: how its own relation names it, and of what type, without parameters.

    >>> Field("age", "BIGINT").type
    'BIGINT'
    """

    name: str
    type: str


def matched(table: Table, named: list[tuple[str, Field]], fmt: CsvFormat | None = None) -> str:
    """The SELECT list of a table from the columns that a source has, each with its name there.

    >>> table = Table("people", [Column("age", "integer")], unit=None)
    >>> matched(table, [("Age", Field("c0", "UBIGINT"))])
    'TRY_CAST("c0" AS BIGINT) AS "age"'
    """
    names = [name for name, _ in named]
    return select(table, [named[find(table, column, names)][1] for column in table.columns], fmt=fmt)


def find(table: Table, column: Column, names: list[Any]) -> int:
    """The place of a column among names, in any case, but only if there is just one.

    >>> table = Table("people", [Column("age", "integer")], unit=None)
    >>> find(table, table.column("age"), ["sex", "Age"])
    1
    """
    places = [
        at for at, name in enumerate(names) if isinstance(name, str) and name.casefold() == column.name.casefold()
    ]
    if len(places) == 1:
        return places[0]
    got = f"{len(places)} columns of this name (in any case)" if places else "no such column in its source"
    hint = "rename or drop the others" if places else "the source has: " + ", ".join(str(name) for name in names[:20])
    raise InvalidParameter(f"table {table.name!r}, column {column.name!r}", got, "one column", hint)


def select(table: Table, fields: list[Field], *, pandas: bool = False, fmt: CsvFormat | None = None) -> str:
    """The SELECT list of a table from the fields of its columns, in the same order.

    >>> select(Table("people", [Column("name", "text")], unit=None), [Field("c0", "VARCHAR")])
    '"c0" AS "name"'
    """
    parts = []
    for column, field in zip(table.columns, fields, strict=True):
        _check_fits(table, column, field.type, pandas)
        name = quoted(field.name)
        value = _parsed(column.kind, name, fmt or CsvFormat()) if field.type == CSV else None
        read = value or _expression(column.kind, name, field.type)
        if table.private and column.kind is ColumnType.TEXT:
            read = _short(table, column, read)
        parts.append(f"{read} AS {quoted(column.name)}")
    return ", ".join(parts)


def _check_fits(table: Table, column: Column, type_: str, pandas: bool) -> None:
    fits = _FITS[column.kind] | (_FITS_PANDAS.get(column.kind, set()) if pandas else set())
    if type_ not in fits | {CSV, '"NULL"'}:
        where = f"table {table.name!r}, column {column.name!r}"
        raise InvalidParameter(
            where, f"a source of type {type_}", f"one that fits {column.kind}", _HINTS.get(type_, "")
        )


def _parsed(kind: ColumnType, name: str, fmt: CsvFormat) -> str:
    """A field of a CSV file in the declared type; whatever is not written as the format says is NULL.

    Text stays as it is. Around anything else, spaces do not matter.
    """
    if kind is ColumnType.TEXT:
        return name
    text = f"trim({name})"
    if kind in (ColumnType.INTEGER, ColumnType.REAL) and fmt.decimal == ",":
        text = f"CASE WHEN NOT contains({text}, '.') THEN replace({text}, ',', '.') END"
    if kind in (ColumnType.DATE, ColumnType.TIMESTAMP) and fmt.date_format is not None:
        formats = [fmt.date_format]
        if kind is ColumnType.TIMESTAMP:
            formats += [fmt.date_format + clock for clock in (" %H:%M", " %H:%M:%S", " %H:%M:%S.%f")]
        time = f"try_strptime({text}, [{', '.join(literal(form) for form in formats)}])"
        # DuckDB 2.0 takes the word infinity for the year 1900, whatever the format; every date has a digit.
        return _expression(kind, f"CASE WHEN regexp_matches({text}, '[0-9]') THEN {time} END", "TIMESTAMP")
    return _expression(kind, text, CSV)


def _expression(kind: ColumnType, name: str, type_: str) -> str:
    """A value in the declared type; whatever does not fit it is NULL, and nothing fails."""
    wanted = TYPES[kind]
    if kind is ColumnType.TEXT and type_ == ARROW:  # which does not check that text is UTF-8
        return f"TRY(decode(encode({name})))"
    if kind is ColumnType.TEXT and type_ == PARQUET:
        # Its statistics are of the bytes before "?" took their place: a function hides them. This one leaves texts as
        # they are, and dictionaries too: what is computed of a text runs once for each entry, not for each row.
        return f"rtrim({name}, '')"
    if kind is ColumnType.INTEGER and type_ not in _WHOLE:
        real = f"TRY_CAST({name} AS DOUBLE)"
        return f"CASE WHEN {real} = trunc({real}) THEN TRY_CAST({name} AS BIGINT) END"
    if kind is ColumnType.TIMESTAMP or (kind is ColumnType.DATE and type_ in _TIMES):
        return f"TRY_CAST({_in_years(_instant(name, type_), 'TIMESTAMP', '9999-12-31 23:59:59.999999')} AS {wanted})"
    if kind is ColumnType.DATE:
        return _in_years(f"TRY_CAST({name} AS DATE)", "DATE", "9999-12-31")
    return name if type_ == wanted else f"TRY_CAST({name} AS {wanted})"


def _short(table: Table, column: Column, read: str) -> str:
    """A text cut to its first `TEXT` characters; a text that names the unit is NULL, which is nobody, if it is long.

    Guarantee: a row's unit depends on that row alone, and two units are never taken for one. Proof. A name is used
    whole or not at all. (Names that are cut would merge people. With or without one of two merged people, all groups
    that the two count in may be others, which is twice what the bounds allow for one.)
    """
    if table.unit_column == column:
        return f"CASE WHEN strlen({read}) <= {4 * TEXT} THEN {read} END"
    return f"substring({read}, 1, {TEXT})"


def _instant(name: str, type_: str) -> str:
    """A time in UTC. DuckDB 2.0 casts nanoseconds with a zone to NULL, and forgets the zone of a text, if directly."""
    if type_ in (CSV, "TIMESTAMPTZ_NS"):
        name = f"TRY_CAST({name} AS TIMESTAMPTZ)"
    return f"TRY_CAST({name} AS TIMESTAMP)"


def _in_years(value: str, type_: str, last: str) -> str:
    """A date or time of the years 1 to 9999, or NULL.

    Each part answers a fault of DuckDB 2.0: -infinity of nanoseconds passes BETWEEN, hence isfinite; and functions run
    over all values of a Parquet dictionary, also where CASE leaves them out, and some fail: hence least and greatest.
    """
    low, high = f"{type_} '0001-01-01'", f"{type_} '{last}'"
    inside = f"isfinite({value}) AND {value} BETWEEN {low} AND {high}"
    return f"CASE WHEN {inside} THEN least(greatest({value}, {low}), {high}) END"


def head(kind: object) -> str:
    """A type without its parameters.

    >>> head("DECIMAL(5,2)"), head("DECIMAL(5,2)[]")
    ('DECIMAL', 'DECIMAL(5,2)[]')
    """
    return str(kind) if str(kind).endswith("]") else str(kind).partition("(")[0]


def quoted(name: str) -> str:
    """A name in SQL, whatever it holds.

    >>> print(quoted('a "b" c'))
    "a ""b"" c"
    """
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text in SQL, whatever it holds.

    >>> print(literal("it's"))
    'it''s'
    """
    return "'" + text.replace("'", "''") + "'"
