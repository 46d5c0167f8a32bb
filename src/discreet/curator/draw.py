"""Which groups and rows of a person count, where they have too many: a fair draw that every engine computes alike.

Each candidate has a number in the draw: the MD5 digest of a text made of the dataset's salt, the person and what is
drawn. The candidates with the smallest digests count. Decision 19 has the formula for other engines.
"""

import hashlib
from collections.abc import Sequence
from datetime import date, datetime, timedelta

from discreet.curator.catalog import ColumnType

SALT = "$salt"
"""The parameter that stands for the salt in SQL: an engine binds it, so that no text ever holds its value."""

OFFSETS = 2**16
"""How many values `offset` takes."""

Value = int | float | str | bool | date | datetime | None
Part = tuple[str, ColumnType, bool]
"""SQL for a value, its type, and whether it can be null."""


def salt_text(secret: bytes) -> str:
    """What an engine binds to `SALT`: 32 hex digits that tell nothing about the ledger's secret.

    With so short a salt, most texts fit one block of MD5.

    >>> len(salt_text(b"some secret"))
    32
    """
    return hashlib.sha256(b"discreet draw\0" + secret).hexdigest()[:32]


def digest_sql(parts: Sequence[Part]) -> str:
    """SQL of DuckDB for the digest of some values, 32 hex digits that sort as text. Never null.

    Guarantee: the digest depends on the salt and these values alone, so what is drawn for one person does not depend
    on anybody else. Different values are written as different texts (`digest`), whatever texts hold.

    >>> print(digest_sql([("u", ColumnType.INTEGER, False), ("k0", ColumnType.TEXT, True)]))
    md5(concat($salt, ':', u, CASE WHEN k0 IS NULL THEN '!' ELSE concat(':', length(k0), ':', k0) END))
    """
    return f"md5(concat({', '.join([SALT, *(_written(*part) for part in parts)])}))"


def offset_sql(digest: str) -> str:
    """SQL for a whole number from 0 to `OFFSETS` − 1: the last four digits of a digest.

    Candidates are compared by their first digits, so a candidate that counts has any offset with the same probability.
    """
    return f"CAST('0x' || substring({digest}, 29) AS BIGINT)"


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


def _written(sql: str, kind: ColumnType, nullable: bool) -> str:
    match kind:
        case ColumnType.TEXT:
            parts = ["':'", f"length({sql})", "':'", sql]
        case ColumnType.TIMESTAMP:
            parts = ["':'", f"epoch_us({sql})"]
        case ColumnType.REAL:
            parts = ["':'", f"({sql} + 0)"]  # -0.0 is 0.0 to every GROUP BY
        case _:
            parts = ["':'", sql]
    listed = ", ".join(parts)
    return f"CASE WHEN {sql} IS NULL THEN '!' ELSE concat({listed}) END" if nullable else listed


def _text(value: Value) -> str:  # noqa: PLR0911 (one return a type)
    match value:
        case None:
            return "!"
        case bool():
            return f":{str(value).lower()}"
        case str():
            return f":{len(value)}:{value}"
        case float():
            return f":{value + 0.0!r}"
        case datetime():
            return f":{(value - datetime(1970, 1, 1)) // timedelta(microseconds=1)}"
        case date():
            return f":{value.isoformat()}"
        case int():
            return f":{value}"
