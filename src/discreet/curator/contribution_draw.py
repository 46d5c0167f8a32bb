"""Which groups and rows of a person count, where they have too many: a fair draw that every engine computes alike.

Each candidate has a number in the draw, and those with the smallest numbers count. Where groups are declared, and so
have numbers of their own, it is mixed from the salt, the person and the group by arithmetic that every engine has
(`place`). Elsewhere it is the MD5 digest of a text made of them (`digest`). Decision 19 has both for other engines.
"""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.curator.engines.dialects import DUCKDB, Dialect
from discreet.errors import InternalError, InvalidParameter
from discreet.privacy.unit import Neighbors

SALT = DUCKDB.salt
"""The parameter that stands for the salt in DuckDB's SQL: an engine binds it, so that no text ever holds its value."""

OFFSETS = 2**16
"""How many values `offset` takes."""

Value = int | float | str | bool | date | datetime | None
Part = tuple[str, ColumnType, bool]
"""SQL for a value, its type, and whether it can be null."""


PLACE_BITS = 32
"""A place in the draw is a whole number from 0 to 2^`PLACE_BITS` − 1."""

_MASK: int = 2**PLACE_BITS - 1
_FACTOR = 73_244_475
"""An odd number below 2^31, so that no product exceeds 63 bits; T. Mueller's, for mixing 32 bits (0x45d9f3b)."""


def salt_text(secret: bytes) -> str:
    """What an engine binds to `SALT`: 32 hex digits that tell nothing about the ledger's secret.

    With so short a salt, most texts fit one block of MD5.

    >>> len(salt_text(b"some secret"))
    32
    """
    return hashlib.sha256(b"discreet draw\0" + secret).hexdigest()[:32]


def digest_sql(parts: Sequence[Part], dialect: Dialect = DUCKDB) -> str:
    """SQL for the digest of some values, 32 hex digits that sort as text. Never null.

    Guarantee: the digest depends on the salt and these values alone, so what is drawn for one person does not depend
    on anybody else. Different values are written as different texts (`digest`), whatever texts hold.

    >>> print(digest_sql([("u", ColumnType.INTEGER, False), ("k0", ColumnType.TEXT, True)]))
    md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', length(k0), ':', k0) END))
    """
    return f"md5(concat({', '.join([dialect.salt, *(_written(*part, dialect) for part in parts)])}))"


def offset_sql(digest: str, dialect: Dialect = DUCKDB) -> str:
    """SQL for a whole number from 0 to `OFFSETS` − 1: the last four digits of a digest.

    Candidates are compared by their first digits, so a candidate that counts has any offset with the same probability.
    """
    return dialect.hexadecimal(digest, 29)


def with_place(source: str, person: Part, group: str, dialect: Dialect = DUCKDB) -> str:
    """SQL for a source with one more column, p, the place of a person's group in the draw. Never null.

    Guarantee: p is `place`: it depends on the salt, the person and the number of the group alone. Columns p0, p1, …
    are its steps, one projection each, since SQL has no other name for a value that is used twice.
    """
    name, kind, _ = person
    if kind is ColumnType.INTEGER:
        low, high = f"({name} & {_MASK})", f"(({dialect.shifted(name, 32)}) & {_MASK})"
    else:
        source = f"SELECT *, {digest_sql([person], dialect)} AS pd FROM {dialect.sub(source)}"  # noqa: S608
        low, high = (dialect.hexadecimal("pd", first, 8) for first in (9, 1))
    steps = [dialect.exclusive_or(low, _seed_sql(0, dialect))]
    upper, last_word = (dialect.exclusive_or(word, _seed_sql(i, dialect)) for i, word in ((1, high), (2, group)))
    for word in (upper, last_word, None):
        for _ in range(2):
            last = f"p{len(steps) - 1}"
            steps.append(f"({dialect.exclusive_or(last, dialect.shifted(last, 16))} * {_FACTOR}) & {_MASK}")
        last = f"p{len(steps) - 1}"
        mixed = dialect.exclusive_or(last, dialect.shifted(last, 16))
        steps.append(mixed if word is None else dialect.exclusive_or(mixed, word))
    for index, step in enumerate(steps[:-1]):
        source = f"SELECT *, {step} AS p{index} FROM {dialect.sub(source)}"  # noqa: S608
    return f"SELECT *, {steps[-1]} AS p FROM {dialect.sub(source)}"  # noqa: S608


def place_offset_sql(drawn: str, dialect: Dialect = DUCKDB) -> str:
    """SQL for a whole number from 0 to `OFFSETS` − 1 that goes with a place: `place_offset`."""
    mixed = f"(({dialect.exclusive_or(drawn, _seed_sql(3, dialect))} * {_FACTOR}) & {_MASK})"
    return f"({dialect.shifted(mixed, 16)})"


def place(salt: str, person: Value, group: int) -> int:
    """The place in Python: what every engine must compute, in whole numbers below 2^63.

    Mixing x is twice x → (x ⊕ ⌊x/2^16⌋)·73244475 mod 2^32, then x ⊕ ⌊x/2^16⌋. A person that is a whole number is cut
    in two words of 32 bits; any other is the first 64 bits of the digest of its part. The lower word is mixed, the
    upper one is put to it and mixed, then the group. For one person, different groups below 2^32 have different places,
    since mixing is one to one.

    >>> place("5a17", 7, 0) != place("5a17", 7, 1)
    True
    """
    seeds = _seeds(salt)
    if isinstance(person, int) and not isinstance(person, bool):
        word: int = person % 2**64
    else:
        word = int(digest(salt, [person])[:16], 16)
    mixed = _mixed((word & _MASK) ^ seeds[0])
    return _mixed(_mixed(mixed ^ (word >> 32) ^ seeds[1]) ^ group ^ seeds[2])


def place_offset(salt: str, drawn: int) -> int:
    """The offset that goes with a place: the upper half of (place ⊕ seed)·73244475 mod 2^32."""
    return ((drawn ^ _seeds(salt)[3]) * _FACTOR & _MASK) >> 16


def _seeds(salt: str) -> list[int]:
    digits = hashlib.md5(salt.encode(), usedforsecurity=False).hexdigest()
    return [int(digits[first : first + 8], 16) for first in range(0, 32, 8)]


def _seed_sql(index: int, dialect: Dialect) -> str:
    return dialect.hexadecimal(f"md5({dialect.salt})", 8 * index + 1, 8)


def _mixed(x: int) -> int:
    for _ in range(2):
        x = ((x ^ x >> 16) * _FACTOR) & _MASK
    return x ^ x >> 16


def digest(salt: str, values: Sequence[Value]) -> str:
    """The same digest in Python: what every engine must compute.

    Null is written "!", a text ":length:text" with its length in code points, any other value ":value": whole numbers
    in decimal, truth values as true and false, dates as 2024-12-31, times as microseconds since 1970.
    No value but a text holds ":" or "!", so the values can be read back, and no two lists share a text.

    >>> digest("5a17", [7, "north"]) == hashlib.md5(b"5a17:7:5:north").hexdigest()
    True
    """
    text = salt + "".join(map(_text, values))
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _written(sql: str, kind: ColumnType, nullable: bool, dialect: Dialect) -> str:
    parts = ["':'", dialect.text(sql, kind)]
    if kind is ColumnType.TEXT:
        parts = ["':'", dialect.length(sql), *parts]
    listed = ", ".join(parts)
    return f"CASE WHEN {sql} IS NULL THEN '!' ELSE concat({listed}) END" if nullable else listed


def _text(value: Value) -> str:
    if value is None:
        return "!"
    return f":{len(value)}:{value}" if isinstance(value, str) else f":{plain_text(value)}"


def plain_text(value: int | float | str | bool | date | datetime) -> str:
    """A value alone, as its part has it.

    >>> plain_text(True), plain_text(datetime(1970, 1, 2))
    ('true', '86400000000')
    """
    match value:
        case bool():
            return str(value).lower()
        case float():
            return repr(value + 0.0)
        case datetime():
            return str((value - datetime(1970, 1, 1)) // timedelta(microseconds=1))
        case date():
            return value.isoformat()
        case _:
            return str(value)


_NUMBER = ("i", ColumnType.INTEGER, False)
"""The number of a row among those of its person."""


def one_row_each(table: Table, columns: Sequence[Column], dialect: Dialect = DUCKDB) -> str:
    """SQL for these columns, one row for each unit of a private table: all rows, or one that is drawn of each person.

    >>> from discreet.curator.catalog import Column, Table
    >>> from discreet.privacy.unit import Unit
    >>> who, age = Column("who", "integer"), Column("age", "integer", lower=0, upper=120)
    >>> print(one_row_each(Table("people", [who, age], unit=Unit()), [age]))
    SELECT "age" FROM "people"
    """
    return rows_each(table, columns, dialect, most=1)


def rows_each(
    table: Table,
    columns: Sequence[Column],
    dialect: Dialect = DUCKDB,
    *,
    most: int,
    numbered: bool = False,
    keyed: bool = False,
) -> str:
    """The same, with at most so many rows for each person, drawn fairly from all of theirs.

    `keyed` adds, in front, who the person is, and `numbered`, behind, which of their rows each is, from 1.

    Guarantee: what one unit contributes is at most `most` rows, the same whatever the other units are. Proof. Where a
    row is a unit, its row. Where a person is one, their rows are numbered in the order of the columns, and those whose
    numbers have the smallest digests with the person (`draw`) are taken: equal rows may change places, which changes
    nothing. Rows of nobody are left out.
    """
    names = [column.name.casefold() for column in columns]
    if table.link is not None:
        expected = "a table with a column that names the person"
        raise InvalidParameter("table", table.name, expected, f"it reaches its unit by {table.link}, as only SQL does")
    key = table.unit.key if table.unit else None
    if key is not None and key.casefold() in names:
        raise InvalidParameter("columns", key, "columns other than the one that names the person")
    quoted = dialect.quoted
    listed, source = ", ".join(quoted(column.name) for column in columns), quoted(table.name)
    if key is None:
        if keyed:
            raise InvalidParameter("table", table.name, "a table whose rows name a person (unit = a column)")
        return f"SELECT {listed}{', 1' if numbered else ''} FROM {source}"  # noqa: S608 (names of the catalog)
    unit = table.column(key)
    person = quoted(unit.name)
    inner = ", ".join(f"{quoted(column.name)} AS c{i}" for i, column in enumerate(columns))
    order = ", ".join(f"{quoted(column.name)} ASC NULLS LAST" for column in columns)
    number = f"row_number() OVER (PARTITION BY {person} ORDER BY {order})"
    rows = f"SELECT {person} AS u, {inner}, {number} AS i FROM {source} WHERE {person} IS NOT NULL"  # noqa: S608
    digest = digest_sql([("u", unit.kind, False), _NUMBER], dialect)
    place = f"row_number() OVER (PARTITION BY u ORDER BY {digest}, i)"
    shown = ", ".join(f"c{i} AS {quoted(column.name)}" for i, column in enumerate(columns))
    outer = f"u AS {person}, " * keyed + shown + ", place" * numbered
    placed = f"SELECT *, {place} AS place FROM {dialect.sub(rows)}"  # noqa: S608
    return f"SELECT {outer} FROM {dialect.sub(placed)} WHERE place <= {most:d}"  # noqa: S608


def require_same(table: Table, columns: Sequence[Column], neighbors: Neighbors, catalog: Catalog) -> None:
    """Refuse a plan that was made for other neighbors, another table or another column than the catalog's."""
    if catalog.neighbors is not neighbors:
        raise InternalError("a plan was made for other neighbors than the catalog's")
    if catalog.table(table.name) != table:
        raise InternalError(f"a plan was made for another table {table.name!r} than the catalog's")
    for column in columns:
        if table.column(column.name) != column:
            raise InternalError(f"a plan was made for another column {column.name!r} than the catalog's")
