"""Rows in the forms of COPY: text, CSV and binary."""

import struct
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from discreet.server.postgres.statements import Copy
from discreet.server.postgres.types import form_of

if TYPE_CHECKING:
    import pyarrow

_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_AT_A_TIME = 1_000
_SIGNS = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\"}


def copied(table: "pyarrow.Table", copy: Copy) -> Iterator[bytes]:
    """A table as COPY writes it: a piece for each row, as clients expect.

    >>> import pyarrow
    >>> b"".join(copied(pyarrow.table({"a": [1, None], "b": ["x", "y,z"]}), Copy(None, "csv", True, ",", "")))
    b'a,b\\n1,x\\n,"y,z"\\n'
    """
    binary = copy.form == "binary"
    rows = _rows(table, binary=binary)
    if binary:
        head = _HEAD
        for row in rows:
            yield head + _packed(row)
            head = b""
        yield head + struct.pack("!h", -1)
        return
    if copy.header:
        yield _line([name.encode() for name in table.column_names], copy)
    forced = [copy.form == "csv" and (name in copy.forced or copy.forced == ("*",)) for name in table.column_names]
    for row in rows:
        yield _line(list(row), copy, forced)


def _rows(table: "pyarrow.Table", *, binary: bool) -> Iterator[tuple[bytes | None, ...]]:
    """The rows of a table as bytes, few at a time: all of them would take many times the memory of the table."""
    forms = [form_of(field.type) for field in table.schema]
    for begin in range(0, table.num_rows, _AT_A_TIME):
        part = table.slice(begin, _AT_A_TIME)
        columns = [form.column(column, binary=binary) for form, column in zip(forms, part.columns, strict=True)]
        yield from zip(*columns, strict=True) if columns else [()] * part.num_rows


def _packed(row: tuple[bytes | None, ...]) -> bytes:
    parts = [struct.pack("!i", -1) if value is None else struct.pack("!i", len(value)) + value for value in row]
    return struct.pack("!h", len(row)) + b"".join(parts)


def _line(row: list[bytes | None], copy: Copy, forced: Sequence[bool] = ()) -> bytes:
    delimiter = copy.delimiter.encode()
    if copy.form == "csv":
        quoted = forced or [False] * len(row)
        return delimiter.join(_csv(value, copy, forced=each) for value, each in zip(row, quoted, strict=True)) + b"\n"
    return delimiter.join(_escaped(value, copy) for value in row) + b"\n"


def _csv(value: bytes | None, copy: Copy, *, forced: bool) -> bytes:
    null, quote, escape = copy.null.encode(), copy.quote.encode(), copy.escape.encode()
    if value is None:
        return null
    signs = (copy.delimiter.encode(), quote, b"\n", b"\r")
    if not forced and value not in (null, b"\\.") and not any(sign in value for sign in signs):
        return value
    inside = value.replace(escape, escape * 2)
    return quote + (inside if quote == escape else inside.replace(quote, escape + quote)) + quote


def _escaped(value: bytes | None, copy: Copy) -> bytes:
    if value is None:
        return copy.null.encode()
    text = "".join(_SIGNS.get(sign, sign) for sign in value.decode("utf-8", "replace"))
    if copy.delimiter != "\t":
        text = text.replace(copy.delimiter, "\\" + copy.delimiter)
    return text.encode()
