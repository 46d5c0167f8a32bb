"""Arrow's types and values as PostgreSQL writes them, in text and in binary; parameters read from either.

Every type that an answer can have is here once: its number, its size, and how a value is written. What PostgreSQL has
no type for (a struct, a map) is JSON; anything else is text.
"""

import csv
import datetime as dt
import json
import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidParameter
from discreet.server.postgres.frames import ColumnDescription

if TYPE_CHECKING:
    import pyarrow

Write = Callable[[Any], bytes]


@dataclass(frozen=True, slots=True)
class PgType:
    """A type: its number, name, size, that of its array, and how values are written."""

    oid: int
    name: str
    size: int
    array: int
    text: Write
    binary: Write
    read: Callable[[bytes], Any]
    """A value from its binary form."""


_DAY = dt.date(2000, 1, 1)
_MOMENT = dt.datetime(2000, 1, 1)
_MICROSECOND = dt.timedelta(microseconds=1)


def _plain(value: Any) -> bytes:
    return str(value).encode("utf-8", "replace")


def _float(value: float) -> bytes:
    if math.isfinite(value):
        return repr(value).removesuffix(".0").encode() if abs(value) < 1e15 else repr(value).encode()
    return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"


def _float4(value: float) -> bytes:
    """With as few digits as tell it from its neighbors."""
    if not math.isfinite(value):
        return _float(value)
    texts = (f"{value:.{digits}g}" for digits in range(6, 10))
    return next(text for text in texts if struct.pack("f", float(text)) == struct.pack("f", value)).encode()


def _decimal(value: Decimal) -> bytes:
    value = Decimal(value)
    return format(value, "f").encode() if value.is_finite() else b"NaN"


_FIRST, _CYCLE = dt.date(1970, 1, 1), 146_097
"""Day 0 of Arrow, and the days of 400 years, after which the calendar repeats."""
_ENDS = {32: (-(2**31) + 1, 2**31 - 1), 64: (-(2**63) + 1, 2**63 - 1)}
"""What stands for -infinity and infinity among days and among microseconds, in DuckDB."""


def _endless(value: int, bits: int) -> bytes | None:
    low, high = _ENDS[bits]
    return b"infinity" if value >= high else b"-infinity" if value <= low else None


def _written_day(days: int) -> tuple[str, str]:
    """A day since 1970, of any year, and what stands after it: " BC" before the year 1."""
    cycles, rest = divmod(days, _CYCLE)
    plain = _FIRST + dt.timedelta(rest)
    year = plain.year + 400 * cycles
    return f"{year if year > 0 else 1 - year:04}-{plain:%m-%d}", "" if year > 0 else " BC"


def _day(days: int) -> bytes:
    return _endless(days, 32) or "".join(_written_day(days)).encode()


def _moment(micros: int, zone: str = "") -> bytes:
    days, rest = divmod(micros, 86_400_000_000)
    day, era = _written_day(days)
    clock = (_MOMENT + rest * _MICROSECOND).time().isoformat()
    return _endless(micros, 64) or f"{day} {clock}{zone}{era}".encode()


def _moment_utc(micros: int) -> bytes:
    return _moment(micros, "+00")


def _day_number(days: int) -> bytes:
    low, high = _ENDS[32]
    return struct.pack("!i", days if days >= high else -(2**31) if days <= low else days - 10_957)


def _moment_number(micros: int) -> bytes:
    low, high = _ENDS[64]
    return struct.pack("!q", micros if micros >= high else -(2**63) if micros <= low else micros - 946_684_800_000_000)


def _interval(value: Any) -> bytes:
    months, days, micros = _interval_parts(value)
    seconds = abs(micros) // 1_000_000
    clock = f"{'-' if micros < 0 else ''}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if micros % 1_000_000:
        clock += f".{abs(micros) % 1_000_000:06}"
    return f"{months} mons {days} days {clock}".encode()


def _interval_parts(value: Any) -> tuple[int, int, int]:
    if isinstance(value, dt.timedelta):
        return 0, value.days, (value - dt.timedelta(value.days)) // _MICROSECOND
    months, days, nanoseconds = value
    return months, days, nanoseconds // 1000


def _bytea(value: bytes) -> bytes:
    return b"\\x" + bytes(value).hex().encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=str).encode("utf-8", "replace")


def _packed(form: str) -> Write:
    return struct.Struct("!" + form).pack


def _unpacked(form: str) -> Callable[[bytes], Any]:
    fixed = struct.Struct("!" + form)
    return lambda data: fixed.unpack(data)[0]


def _numeric(value: Decimal) -> bytes:
    """Digits to the base of 10,000, with the weight of the first of them (PostgreSQL's numeric_send)."""
    value = Decimal(value)
    if not value.is_finite():
        return struct.pack("!hhHh", 0, 0, 0xC000, 0)
    sign, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    whole = int("".join(map(str, digits))) * 10 ** max(0, int(exponent))
    text = str(whole).rjust(scale + 1, "0")
    before, after = (text[:-scale], text[-scale:]) if scale else (text, "")
    before = before.lstrip("0")
    before = before.rjust(-(-len(before) // 4) * 4, "0")
    after = after.ljust(-(-len(after) // 4) * 4, "0")
    groups = [int((before + after)[i : i + 4]) for i in range(0, len(before) + len(after), 4)]
    weight = len(before) // 4 - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight if groups else 0, 0x4000 * sign, scale, *groups)


def _read_numeric(data: bytes) -> Decimal:
    count, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        return Decimal("NaN")
    groups = struct.unpack_from(f"!{count}H", data, 8)
    whole = tuple(int(digit) for group in groups for digit in f"{group:04}")
    return Decimal((sign >> 14, whole or (0,), 4 * (weight - count + 1)))


def _clock(value: dt.time) -> bytes:
    return struct.pack("!q", (dt.datetime.combine(_DAY, value) - _MOMENT) // _MICROSECOND)


def _spaced(value: Any) -> bytes:
    months, days, micros = _interval_parts(value)
    return struct.pack("!qii", micros, days, months)


def _read_interval(data: bytes) -> str:
    micros, days, months = struct.unpack("!qii", data)
    return f"{months} months {days} days {micros} microseconds"


def _text(value: Any) -> bytes:
    return str(value).replace("\0", "�").encode("utf-8", "replace")


def _uuid_text(data: bytes) -> str:
    """Sixteen bytes in the usual five groups."""
    digits = data.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


BOOL = PgType(16, "boolean", 1, 1000, lambda v: b"t" if v else b"f", _packed("?"), _unpacked("?"))
BYTEA = PgType(17, "bytea", -1, 1001, _bytea, bytes, bytes)
INT8 = PgType(20, "bigint", 8, 1016, _plain, _packed("q"), _unpacked("q"))
INT2 = PgType(21, "smallint", 2, 1005, _plain, _packed("h"), _unpacked("h"))
INT4 = PgType(23, "integer", 4, 1007, _plain, _packed("i"), _unpacked("i"))
TEXT = PgType(25, "text", -1, 1009, _text, _text, bytes.decode)
OID = PgType(26, "oid", 4, 1028, _plain, _packed("I"), _unpacked("I"))
JSON = PgType(114, "json", -1, 199, _json, _json, bytes.decode)
JSON_TEXT = PgType(114, "json", -1, 199, _text, _text, bytes.decode)
FLOAT4 = PgType(700, "real", 4, 1021, _float4, _packed("f"), _unpacked("f"))
FLOAT8 = PgType(701, "double precision", 8, 1022, _float, _packed("d"), _unpacked("d"))
VARCHAR = PgType(1043, "character varying", -1, 1015, _text, _text, bytes.decode)
DATE = PgType(1082, "date", 4, 1182, _day, _day_number,
              lambda d: _DAY + dt.timedelta(struct.unpack("!i", d)[0]))  # fmt: skip
TIME = PgType(1083, "time without time zone", 8, 1183, _plain, _clock,
              lambda d: (_MOMENT + struct.unpack("!q", d)[0] * _MICROSECOND).time())  # fmt: skip
TIMESTAMP = PgType(1114, "timestamp without time zone", 8, 1115, _moment, _moment_number,
                   lambda d: _MOMENT + struct.unpack("!q", d)[0] * _MICROSECOND)  # fmt: skip
TIMESTAMPTZ = PgType(1184, "timestamp with time zone", 8, 1185, _moment_utc, _moment_number,
                     lambda d: _MOMENT + struct.unpack("!q", d)[0] * _MICROSECOND)  # fmt: skip
INTERVAL = PgType(1186, "interval", 16, 1187, _interval, _spaced, _read_interval)
NUMERIC = PgType(1700, "numeric", -1, 1231, _decimal, _numeric, _read_numeric)
UUID = PgType(2950, "uuid", 16, 2951, _plain, lambda v: bytes.fromhex(str(v).replace("-", "")), _uuid_text)

TYPES = {
    kind.oid: kind
    for kind in (BOOL, BYTEA, INT8, INT2, INT4, TEXT, OID, JSON, FLOAT4, FLOAT8, VARCHAR, DATE, TIME, TIMESTAMP,
                 TIMESTAMPTZ, INTERVAL, NUMERIC, UUID)
}  # fmt: skip
"""By number."""

ARRAYS = {kind.array: kind for kind in TYPES.values()}
"""The elements of arrays, by the number of the array."""

_TEXTS = frozenset({TEXT.oid, VARCHAR.oid, 18, 19, 1042, 705, 0})
"""Numbers of types whose values are texts: text, varchar, "char", name, char(n), unknown, and nothing stated."""


@dataclass(frozen=True, slots=True)
class Form:
    """How the values of one column are written: a type, or an array of it."""

    element: PgType
    is_array: bool = False
    modifier: int = -1

    @property
    def oid(self) -> int:
        """The number of the type."""
        return self.element.array if self.is_array else self.element.oid

    def description(self, name: str) -> ColumnDescription:
        """A column of this form, for the client."""
        return ColumnDescription(name, self.oid, -1 if self.is_array else self.element.size, self.modifier)

    def column(self, values: "pyarrow.ChunkedArray", *, binary: bool) -> list[bytes | None]:
        """The values of a column, as bytes."""
        write = self.element.binary if binary else self.element.text
        if self.is_array:
            write = self._binary_array if binary else self._text_array
        return [None if value is None else write(value) for value in self._numbered(values).to_pylist()]

    def _numbered(self, values: "pyarrow.ChunkedArray") -> "pyarrow.ChunkedArray":
        """Days and moments as numbers: Python has no infinite ones, and none before the year 1 or after 9999."""
        import pyarrow as pa

        if self.element not in (DATE, TIMESTAMP, TIMESTAMPTZ):
            return values
        whole: Any = pa.int32() if self.element is DATE else pa.int64()
        kind: Any = pa.date32() if self.element is DATE else pa.timestamp("us")
        for each in (kind, whole):
            values = values.cast(pa.list_(each) if self.is_array else each, safe=False)
        return values

    def _text_array(self, values: Sequence[Any]) -> bytes:
        return b"{" + b",".join(b"NULL" if v is None else _quoted(self.element.text(v)) for v in values) + b"}"

    def _binary_array(self, values: Sequence[Any]) -> bytes:
        if not values:
            return struct.pack("!iiI", 0, 0, self.element.oid)
        head = struct.pack("!iiIii", 1, int(None in values), self.element.oid, len(values), 1)
        parts = [None if value is None else self.element.binary(value) for value in values]
        return head + b"".join(struct.pack("!i", -1) if p is None else struct.pack("!i", len(p)) + p for p in parts)


def _quoted(data: bytes) -> bytes:
    plain = data and data.upper() != b"NULL" and not any(sign in data for sign in b'{}",\\ \t\n\r\v\f')
    return data if plain else b'"' + data.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def form_of(kind: Any) -> Form:
    """How a column of an Arrow type is written.

    >>> import pyarrow
    >>> form_of(pyarrow.int64()).element.name, form_of(pyarrow.list_(pyarrow.string())).oid
    ('bigint', 1009)
    """
    import pyarrow.types as pt

    if pt.is_dictionary(kind):
        return form_of(kind.value_type)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        inner = form_of(kind.value_type)
        return Form(JSON) if inner.is_array or inner.element is JSON else Form(inner.element, is_array=True)
    if pt.is_decimal(kind):
        return Form(NUMERIC, modifier=(kind.precision << 16 | kind.scale) + 4)
    return Form(_scalar(kind, pt))


def _scalar(kind: Any, pt: Any) -> PgType:  # noqa: PLR0911, PLR0912 (one return a type)
    name = str(kind)
    if pt.is_boolean(kind):
        return BOOL
    if name in ("int8", "int16", "uint8"):
        return INT2
    if name in ("int32", "uint16"):
        return INT4
    if name == "int64":
        return INT8
    if name == "uint32":
        return OID
    if name == "uint64":
        return NUMERIC
    if name in ("float", "halffloat"):
        return FLOAT4
    if name == "double":
        return FLOAT8
    if pt.is_date(kind):
        return DATE
    if pt.is_timestamp(kind):
        return TIMESTAMP if kind.tz is None else TIMESTAMPTZ
    if pt.is_time(kind):
        return TIME
    if pt.is_duration(kind) or name == "month_day_nano_interval":
        return INTERVAL
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return BYTEA
    if pt.is_struct(kind) or pt.is_map(kind) or pt.is_union(kind):
        return JSON
    if name.startswith("extension<arrow.uuid"):
        return UUID
    if name.startswith("extension<arrow.json"):
        return JSON_TEXT
    return TEXT


def fitted(table: "pyarrow.Table", schema: "pyarrow.Schema") -> "pyarrow.Table":
    """A table whose columns have the types that were described before; what an answer was computed as may be wider."""
    import pyarrow as pa

    if table.schema.equals(schema):
        return table
    columns = [
        column if column.type == field.type else column.cast(field.type, safe=False)
        for column, field in zip(table.columns, schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


# Parameters


def parameter(value: bytes | None, oid: int, *, binary: bool) -> Any:
    """A parameter that a client sent, as Python has it; numbers and dates are texts that SQL reads.

    >>> parameter(b"42", 23, binary=False), parameter(bytes([0, 42]), 21, binary=True)
    (42, 42)
    """
    if value is None:
        return None
    expected = TYPES[oid].name if oid in TYPES else "text"
    try:
        if oid in ARRAYS:
            return _array(value, ARRAYS[oid], binary=binary)
        if binary and oid in TYPES:
            return _small(read) if isinstance(read := TYPES[oid].read(value), Decimal) else read
        text = value.decode()
        return text if oid in _TEXTS or "\0" in text else _from_text(text, oid)
    except (ValueError, struct.error, InvalidOperation, OverflowError, UnicodeDecodeError):
        raise InvalidParameter("parameter", "bytes that cannot be read", f"a value of type {expected}") from None


def _array(value: bytes, element: PgType, *, binary: bool) -> list[Any]:
    """The values of an array of one dimension."""
    if not binary:
        text = value.decode()
        if not (text.startswith("{") and text.endswith("}")):
            raise ValueError
        parts = next(csv.reader([text[1:-1]], escapechar="\\", skipinitialspace=True)) if text != "{}" else []
        return [None if part == "NULL" else parameter(part.encode(), element.oid, binary=False) for part in parts]
    dimensions, _, _ = struct.unpack_from("!iiI", value)
    if dimensions == 0:
        return []
    (count, _), place, values = struct.unpack_from("!ii", value, 12), 20, []
    if dimensions != 1 or not 0 <= count <= len(value):
        raise ValueError
    for _ in range(count):
        (length,) = struct.unpack_from("!i", value, place)
        piece = None if length < 0 else value[place + 4 : place + 4 + length]
        values.append(parameter(piece, element.oid, binary=True))
        place += 4 + max(0, length)
    return values


_DATE = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]\s*[\d:.]*\s*(?:Z|[+-]\d{2}(?::?\d{2})?)?)?")
"""A date; what time it is, which JDBC and Node send with it, is cut off, as PostgreSQL does."""

_MOST_DIGITS = 400


def _small(value: Decimal) -> Decimal:
    """A number that can be written out; `ValueError` for 1e999999999, which would take a gigabyte."""
    if value.is_finite() and (len(value.as_tuple().digits) > _MOST_DIGITS or abs(value.adjusted()) > _MOST_DIGITS):
        raise ValueError
    return value


def _from_text(text: str, oid: int) -> Any:  # noqa: PLR0911 (one return a type)
    match oid:
        case 20 | 21 | 23 | 26:
            return int(text)
        case 700 | 701:
            return float(text)
        case 1700:
            return _small(Decimal(text))
        case 16:
            if text.strip().casefold() not in ("t", "true", "1", "on", "yes", "y", "f", "false", "0", "off", "no", "n"):
                raise ValueError
            return text.strip().casefold() in ("t", "true", "1", "on", "yes", "y")
        case 1082:
            stated = _DATE.fullmatch(text.strip())
            if stated is None:
                raise ValueError
            return dt.date.fromisoformat(stated[1])
        case 1114 | 1184:
            return dt.datetime.fromisoformat(text).astimezone(dt.UTC).replace(tzinfo=None) if _zoned(text) else (
                dt.datetime.fromisoformat(text)
            )  # fmt: skip
        case _:
            return text


def _zoned(text: str) -> bool:
    return dt.datetime.fromisoformat(text).tzinfo is not None
