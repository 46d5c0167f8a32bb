"""Messages of PostgreSQL's protocol as bytes: those of clients are taken apart, those of the server written.

A frame is a letter, a length and a body; the very first of a connection has no letter. Nothing here waits or decides:
`Frames` is given bytes as they come and gives whole messages, and refuses a length before it buffers anything.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from discreet.errors import DiscreetError

VERSION = 3 << 16
"""Of the protocol: 3.0."""

SSL_REQUEST, GSS_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102

FIRST_MOST = 10_000
"""Bytes of a message before a caller is known."""

_LETTERS = b"BCDEFHPQSXpcdf"
_INT = struct.Struct("!i")
_SHORT = struct.Struct("!h")
_FIELD = struct.Struct("!ihihih")


class Malformed(DiscreetError):
    """Bytes that are not PostgreSQL's protocol; the connection ends."""


@dataclass(frozen=True, slots=True)
class Startup:
    """How a connection begins: the version that the client speaks, and names and values."""

    version: int
    settings: dict[str, str]


@dataclass(frozen=True, slots=True)
class Cancel:
    """A wish, on a connection of its own, that another connection stops what it does."""

    process: int
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class EncryptionRequest:
    """The wish to go on with TLS (`tls`) or with Kerberos."""

    tls: bool


@dataclass(frozen=True, slots=True)
class Query:
    """Statements as text, to be answered one after the other."""

    sql: str


@dataclass(frozen=True, slots=True)
class Parse:
    """A statement to be prepared under a name, with the types of some parameters."""

    name: str
    sql: str
    types: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bind:
    """A prepared statement with its parameters becomes a portal; formats are 0 (text) and 1 (binary)."""

    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...] = field(repr=False)
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """What a statement ("S") or a portal ("P") would give; `Close` forgets it."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Close:
    """Forget a statement or a portal."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Execute:
    """Rows of a portal: as many as stated, or all of them (0)."""

    portal: str
    most: int


@dataclass(frozen=True, slots=True)
class Credentials:
    """A step of the proof that a caller knows a token."""

    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signal:
    """A message without a body: S(ync), H (flush), X (terminate), c, d and f of COPY, F of a function."""

    letter: str


Message = (
    Startup | Cancel | EncryptionRequest | Query | Parse | Bind | Describe | Close | Execute | Credentials | Signal
)


class Frames:
    """Bytes as they come, and the whole messages among them.

    >>> frames = Frames()
    >>> frames.started = True
    >>> frames.feed(b"Q" + bytes([0, 0, 0, 13]) + b"SELECT")
    >>> list(frames)
    []
    >>> frames.feed(b" 1" + bytes(1) + b"S")
    >>> list(frames)
    [Query(sql='SELECT 1')]
    """

    def __init__(self) -> None:
        self._bytes = bytearray()
        self.started = False
        self.most = FIRST_MOST

    def feed(self, data: bytes) -> None:
        """Add bytes that came."""
        self._bytes += data

    @property
    def waiting(self) -> int:
        """Bytes that are not part of a message that was given out."""
        return len(self._bytes)

    def __iter__(self) -> Iterator[Message]:
        while (message := self.take()) is not None:
            yield message

    def take(self) -> Message | None:
        """The next whole message, if there is one; `Malformed` where there never can be."""
        return self._next() if self.started else self._first()

    def _first(self) -> Message | None:
        body = self._body(0, 8)
        if body is None:
            return None
        read = _Reader(body)
        code = read.number()
        if code in (SSL_REQUEST, GSS_REQUEST):
            read.end()
            return EncryptionRequest(code == SSL_REQUEST)
        if code == CANCEL_REQUEST:
            return Cancel(read.number(), read.rest())
        settings: dict[str, str] = {}
        while name := read.text():
            settings[name] = read.text()
        read.end()
        return Startup(code, settings)

    def _next(self) -> Message | None:
        if not self._bytes:
            return None
        letter = self._bytes[0]
        if letter not in _LETTERS:
            raise Malformed("a message of a kind that is not known")
        body = self._body(1, 4)
        return None if body is None else _message(chr(letter), _Reader(body))

    def _body(self, start: int, least: int) -> bytes | None:
        """What follows a length, once all of it came."""
        if len(self._bytes) < start + 4:
            return None
        (length,) = _INT.unpack_from(self._bytes, start)
        if not least <= length <= self.most:
            raise Malformed(f"a message of {length} bytes, expected at most {self.most}")
        if len(self._bytes) < start + length:
            return None
        body = bytes(self._bytes[start + 4 : start + length])
        del self._bytes[: start + length]
        return body


def _message(letter: str, read: "_Reader") -> Message:  # noqa: PLR0911 (one return a kind)
    match letter:
        case "Q":
            return read.whole(Query(read.text()))
        case "P":
            return read.whole(Parse(read.text(), read.text(), read.ints()))
        case "B":
            return read.whole(Bind(read.text(), read.text(), read.shorts(), read.values(), read.shorts()))
        case "D" | "C":
            kind, name = read.take(1).decode("latin-1"), read.text()
            if kind not in "SP":
                raise Malformed("neither a statement nor a portal")
            return read.whole(Describe(kind, name) if letter == "D" else Close(kind, name))
        case "E":
            return read.whole(Execute(read.text(), read.number()))
        case "p":
            return Credentials(read.rest())
        case "S" | "H" | "X":
            return read.whole(Signal(letter))
        case _:  # what COPY and calls of functions send: nothing of it is read
            return Signal(letter)


class _Reader:
    """The fields of a body, one after the other."""

    def __init__(self, body: bytes) -> None:
        self._body, self._place = body, 0

    def take(self, count: int) -> bytes:
        if not 0 <= count <= len(self._body) - self._place:
            raise Malformed("a message that ends too soon")
        self._place += count
        return self._body[self._place - count : self._place]

    def text(self) -> str:
        end = self._body.find(b"\0", self._place)
        if end < 0:
            raise Malformed("a text without an end")
        try:
            text = self._body[self._place : end].decode()
        except UnicodeDecodeError:
            raise Malformed("a text that is not UTF-8") from None
        self._place = end + 1
        return text

    def number(self) -> int:
        return int(_INT.unpack(self.take(4))[0])

    def short(self) -> int:
        return int(_SHORT.unpack(self.take(2))[0])

    def _count(self) -> int:
        return self.short() & 0xFFFF

    def ints(self) -> tuple[int, ...]:
        return tuple(self.number() for _ in range(self._count()))

    def shorts(self) -> tuple[int, ...]:
        return tuple(self.short() for _ in range(self._count()))

    def values(self) -> tuple[bytes | None, ...]:
        return tuple(None if (length := self.number()) == -1 else self.take(length) for _ in range(self._count()))

    def rest(self) -> bytes:
        return self.take(len(self._body) - self._place)

    def end(self) -> None:
        if self._place != len(self._body):
            raise Malformed("a message with more than it says")

    def whole(self, message: Message) -> Message:
        self.end()
        return message


# What the server says


def frame(letter: bytes, body: bytes = b"") -> bytes:
    """A message of the server.

    >>> frame(b"Z", b"I")
    b'Z\\x00\\x00\\x00\\x05I'
    """
    return letter + _INT.pack(len(body) + 4) + body


def text(value: str) -> bytes:
    """A text as it stands in a message: it ends with NUL, and holds none."""
    return value.replace("\0", "�").encode("utf-8", "replace") + b"\0"


AUTHENTICATED = frame(b"R", _INT.pack(0))
PARSED, BOUND, CLOSED, NO_DATA = frame(b"1"), frame(b"2"), frame(b"3"), frame(b"n")
SUSPENDED, NOTHING_ASKED, COPIED = frame(b"s"), frame(b"I"), frame(b"c")


def authentication(step: int, body: bytes) -> bytes:
    """A step of SASL: 10 names mechanisms, 11 goes on, 12 is the last word."""
    return frame(b"R", _INT.pack(step) + body)


def setting(name: str, value: str) -> bytes:
    """The value of a setting, which clients are told."""
    return frame(b"S", text(name) + text(value))


def key_data(process: int, key: bytes) -> bytes:
    """What a client must say to cancel what runs here."""
    return frame(b"K", _INT.pack(process) + key)


def ready(status: str) -> bytes:
    """The server waits; `status` is I(dle) or in T(ransaction)."""
    return frame(b"Z", status.encode())


def complete(tag: str) -> bytes:
    """A statement is done."""
    return frame(b"C", text(tag))


def negotiation(version: int, unknown: Sequence[str]) -> bytes:
    """The newest version that is spoken, major and minor in one number, and options that are not known."""
    return frame(b"v", struct.pack("!ii", version, len(unknown)) + b"".join(map(text, unknown)))


def parameters(types: Sequence[int]) -> bytes:
    """The types of the parameters of a statement."""
    return frame(b"t", struct.pack(f"!H{len(types)}I", len(types), *types))


@dataclass(frozen=True, slots=True)
class ColumnDescription:
    """A column of rows that will come: its name, the number of its type, its size and modifier."""

    name: str
    type: int
    size: int = -1
    modifier: int = -1


def row_description(columns: Sequence[ColumnDescription], formats: Sequence[int]) -> bytes:
    """The columns of the rows that follow."""
    parts = [struct.pack("!H", len(columns))]
    for column, form in zip(columns, formats, strict=True):
        parts.append(text(column.name) + _FIELD.pack(0, 0, column.type, column.size, column.modifier, form))
    return frame(b"T", b"".join(parts))


def rows(values: Iterable[Sequence[bytes | None]], count: int) -> bytes:
    """Rows of so many columns."""
    pack, null, head = _INT.pack, _INT.pack(-1), struct.pack("!H", count)
    out = []
    for row in values:
        body = head + b"".join([null if value is None else pack(len(value)) + value for value in row])
        out.append(b"D" + pack(len(body) + 4) + body)
    return b"".join(out)


def copy_begins(binary: bool, columns: int) -> bytes:
    """Rows follow in the form of COPY."""
    form = int(binary)
    return frame(b"H", struct.pack(f"!bH{columns}h", form, columns, *[form] * columns))


def copy_data(data: bytes) -> bytes:
    """A piece of COPY."""
    return frame(b"d", data)


def response(letter: bytes, fields: dict[str, str]) -> bytes:
    """An error (E) or a notice (N): letters and texts."""
    return frame(letter, b"".join(key.encode() + text(value) for key, value in fields.items() if value) + b"\0")
