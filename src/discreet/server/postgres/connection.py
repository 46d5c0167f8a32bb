"""One connection as a state machine without I/O: bytes come in, bytes and acts come out.

The conversation is a generator that reads like the protocol: it waits for a message, or for work that somebody does
for it (planning, asking), and says bytes. Whoever drives it (`listener`) moves bytes and runs the work.
"""

import re
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, NoReturn

from discreet.errors import AccessDenied, DiscreetError, InvalidParameter, InvalidQuery
from discreet.server.postgres import frames as fr
from discreet.server.postgres import statements as st
from discreet.server.postgres.answers import Answers, Result, Stop, parameter_types
from discreet.server.postgres.copying import copied
from discreet.server.postgres.frames import Frames, Malformed, Message
from discreet.server.postgres.refusals import error_fields, fatal, notice_fields
from discreet.server.postgres.scram import Exchange, mechanisms
from discreet.server.postgres.types import form_of, parameter
from discreet.server.tokens import ScramVerifier

MOST_PREPARED = 1_000
"""Statements and portals that one connection may keep."""

MOST_KEPT = 64_000_000
"""Bytes of their texts, values and rows."""

_QUICK = 1_000
"""Characters of a text, or bytes of values, that are read at once: others wait for longer ones, which are work."""

_ROWS = 10_000
"""Rows that are written at a time: what comes after them waits until the client has taken these."""


@dataclass(frozen=True, slots=True)
class Send:
    """Bytes for the client."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Run:
    """Work that may wait; its result, or its error, is given back by `Connection.done`."""

    work: Callable[[], Any]
    stop: Stop = field(default_factory=Stop)
    """Set where the client cancels: what of the work was not begun is not begun."""


@dataclass(frozen=True, slots=True)
class StartTls:
    """Everything after the bytes that were sent is TLS."""


@dataclass(frozen=True, slots=True)
class CancelOther:
    """Another connection is to be canceled."""

    process: int
    key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Authenticated:
    """The caller is known; more time and larger messages are allowed."""


@dataclass(frozen=True, slots=True)
class End:
    """The connection is over."""

    why: str = ""


Act = Send | Run | StartTls | CancelOther | Authenticated | End


@dataclass(frozen=True)
class Door:
    """What a connection knows of the place it leads to. Every function is quick but `open`."""

    verifier: Callable[[str, str], ScramVerifier]
    """Of a user and a dataset."""
    open: Callable[[str, str], Answers]
    """The answers for a user whose proof was right; `AccessDenied` where the token is not valid any more."""
    refused: Callable[[], float]
    """Counts a wrong proof; how long to wait."""
    wait: Callable[[], float]
    """How long this address must wait before it may try."""
    tls: bool
    """Whether TLS is offered."""
    clear_text: bool
    """Whether a caller may speak without TLS."""
    certificate: bytes | None = None
    """The hash of the certificate that proofs are bound to."""
    most: int = 10_000_000
    """Bytes of a message of a caller who is known."""
    result: int = 200_000_000
    """Bytes of an answer."""


@dataclass
class Prepared:
    """A statement under a name: its parameters, and its columns once they were asked for."""

    statement: st.Statement
    start: int
    types: tuple[int, ...]
    schema: Any = None
    described: bool = False
    size: int = 0


@dataclass
class Portal:
    """A statement with its parameters: rows come out of it a few at a time."""

    prepared: Prepared
    values: list[Any]
    formats: tuple[int, ...]
    result: Result | None = None
    rows: list[Any] = field(default_factory=list)
    """The first rows of the result, as bytes, until they are sent."""
    place: int = 0
    schema: Any = None
    described: bool = False
    size: int = 0


class _Terminated(Exception):
    """The client said goodbye."""


Talk = Generator[Any, Any, Any]
_NEXT = object()


class Connection:
    """The server's side of one connection.

    Guarantee: nothing is charged but by `Execute`, `Query`, COPY and FETCH of a caller who proved to know a token.
    """

    def __init__(self, door: Door, *, process: int = 0, key: bytes = b"\0\0\0\0", encrypted: bool = False) -> None:
        self._door, self.process, self.key = door, process, key
        self.encrypted = encrypted
        self.frames = Frames()
        self.busy = self.ended = self.known = False
        self.answers: Answers | None = None
        self._acts: list[Act] = []
        self._statements: dict[str, Prepared] = {}
        self._portals: dict[str, Portal] = {}
        self._cursors: dict[str, Portal] = {}
        self._open = False
        self._talk = self._whole()
        self._advance(None)

    # Driven from outside

    def receive(self, data: bytes) -> list[Act]:
        """Bytes came."""
        if not self.ended:
            self.frames.feed(data)
            self._pump()
        return self._pending_acts()

    def done(self, result: Any = None, error: BaseException | None = None) -> list[Act]:
        """The work of the last `Run` is over."""
        if not self.ended and self.busy:
            self.busy = False
            self._advance(result, error)
            self._pump()
        return self._pending_acts()

    def secured(self) -> list[Act]:
        """TLS is spoken from here on."""
        self.encrypted = True
        return self._pending_acts()

    def _pending_acts(self) -> list[Act]:
        acts, self._acts = self._acts, []
        return acts

    def _pump(self) -> None:
        try:
            while not self.ended and not self.busy and (message := self.frames.take()) is not None:
                self._advance(message)
        except Malformed as error:
            self._die(str(error))

    def _advance(self, value: Any, error: BaseException | None = None) -> None:
        """Go on until a message or work is waited for."""
        try:
            act = self._talk.throw(error) if error is not None else self._talk.send(value)
            while act is not _NEXT:
                self._acts.append(act)
                if isinstance(act, Run):
                    self.busy = True
                    return
                act = self._talk.send(None)
        except (StopIteration, _Terminated):
            self._finish("")
        except Malformed as malformed:
            self._die(str(malformed))
        except Exception as failure:  # of a step outside a statement, such as opening the dataset
            self._acts.append(Send(fr.response(b"E", error_fields(failure) | {"S": "FATAL", "V": "FATAL"})))
            self._finish("a failure of the server")

    def _die(self, why: str) -> None:
        self._acts.append(Send(fr.response(b"E", fatal("08P01", f"{why}; the connection is closed"))))
        self._finish(why)

    def _finish(self, why: str) -> None:
        self.ended = True
        self._acts.append(End(why))
        self._statements, self._portals, self._cursors = {}, {}, {}

    # The conversation

    def _whole(self) -> Talk:
        settings = yield from self._startup()
        if settings is None:
            return
        try:
            self.answers = yield from self._proof(settings)
        except AccessDenied as error:
            yield Send(fr.response(b"E", fatal("28P01", str(error))))
            return
        except DiscreetError as error:
            yield Send(fr.response(b"E", error_fields(error) | {"S": "FATAL", "V": "FATAL"}))
            return
        self.known, self.frames.most = True, self._door.most
        yield Authenticated()
        yield Send(fr.AUTHENTICATED)
        for name, value in self.answers.settings.reported():
            yield Send(fr.setting(name, value))
        yield Send(fr.key_data(self.process, self.key) + self._ready())
        yield from self._commands()

    def _startup(self) -> Talk:
        """The first messages: encryption, a cancel, or who calls; None where the connection is over."""
        for _ in range(3):
            message: Message = yield _NEXT
            match message:
                case fr.EncryptionRequest(tls) if tls and self._door.tls and not self.encrypted:
                    if self.frames.waiting:
                        raise Malformed("bytes before TLS was agreed on")  # somebody in between put them there
                    yield Send(b"S")
                    yield StartTls()
                case fr.EncryptionRequest():
                    yield Send(b"N")
                case fr.Cancel(process, key):
                    yield CancelOther(process, key)
                    return None
                case fr.Startup(version, settings):
                    return (yield from self._greeted(version, settings))
        raise Malformed("no startup message")

    def _greeted(self, version: int, settings: dict[str, str]) -> Talk:
        if version >> 16 != 3:
            raise Malformed(f"version {version >> 16} of the protocol, expected 3")
        if not self.encrypted and not self._door.clear_text:
            words = "clear text is refused here: connect with TLS (sslmode=require)"
            yield Send(fr.response(b"E", fatal("28000", words)))
            return None
        unknown = [name for name in settings if name.startswith("_pq_.")]
        if version != fr.VERSION or unknown:
            yield Send(fr.negotiation(fr.VERSION, unknown))
        self.frames.started = True
        return settings

    def _proof(self, settings: dict[str, str]) -> Talk:
        """The caller proves to know a token; the answers that it opens."""
        if wait := self._door.wait():
            raise AccessDenied(f"too many wrong tokens came from here; try again in {wait:.0f} s")
        user = settings.get("user", "")
        dataset = settings.get("database") or user
        certificate = self._door.certificate if self.encrypted else None
        exchange = Exchange(self._door.verifier(user, dataset), certificate)
        offered = b"".join(name.encode() + b"\0" for name in mechanisms(certificate))
        yield Send(fr.authentication(10, offered + b"\0"))
        try:
            mechanism, first = _initial((yield _NEXT))
            yield Send(fr.authentication(11, exchange.first(mechanism, first)))
            last = yield _NEXT
            if not isinstance(last, fr.Credentials):
                raise Malformed("no proof of a token")
            proof = exchange.last(last.body)
            answers: Answers = yield Run(lambda: self._door.open(user, dataset))
        except AccessDenied:
            self._door.refused()
            words = f"not a valid token of user {user[:40]!r} for dataset {dataset[:40]!r}"
            raise AccessDenied(words) from None
        yield Send(fr.authentication(12, proof))
        for name, value in _start_settings(settings):
            answers.settings.start_with(name, value)
        answers.process, answers.cursors = self.process, self._cursors
        return answers

    def _commands(self) -> Talk:
        while True:
            message = yield _NEXT
            match message:
                case fr.Signal("X"):
                    return
                case fr.Query(sql):
                    yield from self._query(sql)
                    yield Send(self._ready())
                case fr.Signal("S"):
                    self._after_sync()
                    yield Send(self._ready())
                case fr.Signal("H" | "c" | "d" | "f"):
                    pass
                case fr.Signal():
                    yield from self._skip(InvalidQuery("calls of functions by number are not answered", "use SELECT"))
                case fr.Credentials() | fr.Startup() | fr.Cancel() | fr.EncryptionRequest():
                    raise Malformed("a message that cannot come here")
                case _:
                    try:
                        yield from self._extended(message)
                    except Malformed:
                        raise
                    except Exception as error:
                        yield from self._skip(error, self._start_of(message))

    def _start_of(self, message: Message) -> int:
        """Where the question of a message starts in the text that the client sent."""
        prepared: Prepared | None = None
        if isinstance(message, fr.Execute) or (isinstance(message, fr.Describe) and message.kind == "P"):
            name = message.portal if isinstance(message, fr.Execute) else message.name
            portal = self._portals.get(name)
            prepared = None if portal is None else portal.prepared
        elif isinstance(message, fr.Describe):
            prepared = self._statements.get(message.name)
        return 0 if prepared is None else prepared.start

    def _skip(self, error: Exception, start: int = 0) -> Talk:
        """Tell an error, and pass over everything until Sync, as the protocol has it."""
        yield Send(fr.response(b"E", error_fields(error, start)))
        while True:
            message = yield _NEXT
            if isinstance(message, fr.Signal) and message.letter == "X":
                raise _Terminated
            if isinstance(message, fr.Signal) and message.letter == "S":
                self._after_sync()
                yield Send(self._ready())
                return

    def _after_sync(self) -> None:
        if not self._open:
            self._portals.clear()

    def _ready(self) -> bytes:
        return fr.ready("T" if self._open else "I")

    @property
    def _work(self) -> Answers:
        if self.answers is None:
            raise Malformed("no user is known here")
        return self.answers

    # The simple protocol

    def _query(self, sql: str) -> Talk:
        start = 0
        try:
            results: tuple[st.Piece, ...] = yield from _quickly(sql, lambda: st.pieces(sql))
            for piece in results:
                start = piece.start
                if piece.parameters:
                    raise InvalidQuery("a parameter without a value", "prepare the statement, and bind values to it")
                prepared = Prepared(piece.statement, piece.start, ())
                portal = Portal(prepared, [], (0,))
                yield from self._execute(portal, 0, with_description=True)
        except Malformed:
            raise
        except Exception as error:
            yield Send(fr.response(b"E", error_fields(error, start)))

    # The extended protocol

    def _extended(self, message: Message) -> Talk:
        match message:
            case fr.Parse(name, sql, types):
                self._statements[name] = yield from self._prepared(name, sql, types)
                yield Send(fr.PARSED)
            case fr.Bind():
                self._portals[message.portal] = yield from self._bound(message)
                yield Send(fr.BOUND)
            case fr.Describe("S", name):
                prepared = self._statement(name)
                yield Send(fr.parameters(prepared.types))
                if not prepared.described:
                    prepared.schema = yield from self._described(prepared.statement, None, prepared.types)
                    prepared.described = True
                yield Send(_description(prepared.schema, (0,)))
            case fr.Describe(_, name):
                portal = self._portal(name)
                if not portal.described:
                    statement = portal.prepared.statement
                    if isinstance(statement, st.Fetch):
                        portal.schema = self._cursor(statement.name).schema
                    else:
                        types = portal.prepared.types
                        portal.schema = yield from self._described(statement, portal.values, types)
                    portal.described = True
                yield Send(_description(portal.schema, portal.formats))
            case fr.Close(kind, name):
                (self._statements if kind == "S" else self._portals).pop(name, None)
                yield Send(fr.CLOSED)
            case fr.Execute(name, most):
                yield from self._execute(self._portal(name), most, with_description=False)

    def _described(self, statement: st.Statement, values: list[Any] | None, types: tuple[int, ...]) -> Talk:
        if isinstance(statement, st.Fetch):
            return self._cursor(statement.name).schema
        if not isinstance(statement, st.Select | st.Show | st.Explain):
            return None
        return (yield Run(lambda: self._work.describe(statement, values, types)))

    def _prepared(self, name: str, sql: str, types: tuple[int, ...]) -> Talk:
        catalog = self._work.session.catalog

        def read() -> tuple[tuple[st.Piece, ...], tuple[int, ...]]:
            result = st.pieces(sql)
            body = getattr(result[0].statement, "question", result[0].statement)
            text = body.sql if isinstance(body, st.Select) else ""
            count = max(result[0].parameters, len(types))
            return result, parameter_types(text, types, count, catalog) if count else ()

        result, kinds = yield from _quickly(sql, read)
        if len(result) > 1:
            raise InvalidQuery(f"got {len(result)} statements, expected one", "prepare them one at a time")
        if name and name in self._statements:
            raise InvalidParameter("statement", name[:40], "a name that is not taken", "close it first")
        if name not in self._statements and len(self._statements) >= MOST_PREPARED:
            raise InvalidParameter("statements", MOST_PREPARED, "fewer", "close some of them")
        self._check_room(len(sql))
        return Prepared(result[0].statement, result[0].start, kinds, size=len(sql))

    def _check_room(self, size: int) -> None:
        """Refuse what would make a connection keep too much."""
        kept: list[Prepared | Portal] = [*self._statements.values(), *self._portals.values(), *self._cursors.values()]
        if size + sum(each.size for each in kept) > MOST_KEPT:
            raise InvalidParameter("statements and portals", "too many bytes", f"at most {MOST_KEPT}", "close some")

    def _bound(self, bind: fr.Bind) -> Talk:
        prepared = self._statement(bind.statement)
        if len(bind.values) != len(prepared.types):
            raise InvalidParameter("parameters", len(bind.values), f"{len(prepared.types)} of them")
        if bind.portal not in self._portals and len(self._portals) >= MOST_PREPARED:
            raise InvalidParameter("portals", MOST_PREPARED, "fewer", "close some of them")
        formats = _spread(bind.formats, len(bind.values))
        size = sum(len(value or b"") for value in bind.values)
        self._check_room(size)

        def read() -> list[Any]:
            given = zip(bind.values, prepared.types, formats, strict=True)
            return [parameter(value, oid, binary=form == 1) for value, oid, form in given]

        values: list[Any] = read() if size <= _QUICK else (yield Run(read))
        return Portal(prepared, values, bind.results or (0,), size=size)

    def _statement(self, name: str) -> Prepared:
        if name not in self._statements:
            raise InvalidParameter("statement", name[:40], "the name of a prepared statement")
        return self._statements[name]

    def _portal(self, name: str) -> Portal:
        portal = self._portals.get(name) or self._cursors.get(name)
        if portal is None:
            raise InvalidParameter("portal", name[:40], "the name of a portal")
        return portal

    def _cursor(self, name: str) -> Portal:
        if name not in self._cursors:
            raise InvalidParameter("cursor", name[:40], "the name of a cursor")
        return self._cursors[name]

    # Statements

    def _execute(self, portal: Portal, most: int, *, with_description: bool) -> Talk:
        statement = portal.prepared.statement
        match statement:
            case st.Select() | st.Show() | st.Explain():
                if portal.result is None:
                    yield from self._answer(portal, _ROWS if most <= 0 else min(most, _ROWS))
                if with_description and portal.result is not None and portal.result.table is not None:
                    yield Send(_description(portal.result.table.schema, portal.formats))
                yield from self._rows(portal, most)
            case st.Copy():
                yield from self._copy(portal, statement)
            case st.Declare(name):
                yield from self._answer(portal, 0)
                if portal.result is not None and portal.result.table is not None:
                    portal.schema, portal.described = portal.result.table.schema, True
                self._check_room(portal.size)
                if len(self._cursors) >= MOST_PREPARED:
                    raise InvalidParameter("cursors", MOST_PREPARED, "fewer", "close some of them")
                self._cursors[name] = portal
                yield Send(fr.complete("DECLARE CURSOR"))
            case st.Fetch(name, count):
                yield from self._fetched(self._cursor(name), count, portal.formats, with_description)
            case _:
                yield from self._simple(statement)

    def _simple(self, statement: st.Statement) -> Talk:
        match statement:
            case st.Empty():
                yield Send(fr.NOTHING_ASKED)
            case st.Transaction(tag, opened):
                self._open = self._open if opened is None else opened
                if opened is False:
                    self._cursors.clear()
                    self._work.settings.end_transaction()
                yield Send(fr.complete(tag))
            case st.SetTo():
                yield from self._set(statement)
            case st.Reset(tag):
                self._work.settings.reset()
                if tag == "DISCARD ALL":
                    self._statements.clear()
                    self._cursors.clear()
                yield Send(fr.complete(tag))
            case st.CloseCursor(name):
                _forget(self._cursors, name)
                yield Send(fr.complete("CLOSE CURSOR" if name else "CLOSE CURSOR ALL"))
            case st.Deallocate(name):
                _forget(self._statements, name)
                yield Send(fr.complete("DEALLOCATE" if name else "DEALLOCATE ALL"))
            case st.Accepted(tag):
                yield Send(fr.complete(tag))
            case _:
                _unknown(statement)

    def _set(self, statement: st.SetTo) -> Talk:
        name, value, settings = statement.name, statement.value, self._work.settings
        if statement.local and not self._open:
            words = "SET LOCAL holds until the transaction ends, and there is none: nothing was set"
            yield Send(fr.response(b"N", notice_fields(words, "")))
        else:
            settings.set(name, value, local=statement.local)
        for told, now in settings.reported():
            if told.casefold() == name:
                yield Send(fr.setting(told, now))
        yield Send(fr.complete(statement.tag))

    def _answer(self, portal: Portal, count: int) -> Talk:
        """Have a portal's statement answered, once, and the first rows written."""
        schema = portal.schema if portal.described else portal.prepared.schema
        statement, values, work, stop = portal.prepared.statement, portal.values, self._work, Stop()

        def answered() -> tuple[Result, list[Any]]:
            result = self._bounded(work.run(statement, values, schema, stop))
            return result, [] if result.table is None else encoded(result.table.slice(0, count), portal.formats)

        portal.result, portal.rows = result, _ = yield Run(answered, stop)
        portal.size += 0 if result.table is None else int(result.table.nbytes)
        yield from self._notices(result)

    def _bounded(self, result: Result) -> Result:
        """An answer, unless it is larger than the server sends."""
        size, most = 0 if result.table is None else result.table.nbytes, self._door.result
        if size > most:
            hint = "what was paid for is kept: ask the same with LIMIT, for free"
            raise InvalidParameter("result", f"{size} bytes", f"at most {most}", hint)
        return result

    def _notices(self, result: Result) -> Talk:
        """The notices of an answer, if the client wants any."""
        least = self._work.settings.value("client_min_messages").casefold()
        if least not in ("warning", "error", "fatal", "panic"):
            for words, detail in result.notices:
                yield Send(fr.response(b"N", notice_fields(words, detail)))

    def _rows(self, portal: Portal, most: int) -> Talk:
        if portal.result is None or portal.result.table is None:
            return
        table, begun = portal.result.table, portal.place
        end = table.num_rows if most <= 0 else min(table.num_rows, begun + most)
        if portal.rows:
            first, portal.rows = portal.rows, []
            portal.place += len(first)
            yield Send(fr.rows(first, table.num_columns))
        yield from self._slices(portal, end, portal.formats)
        if end - begun == most > 0:  # as PostgreSQL, which does not look whether there are more
            yield Send(fr.SUSPENDED)
            return
        tag = portal.result.tag
        yield Send(fr.complete(f"SELECT {end - begun}" if tag.startswith("SELECT") else tag))

    def _slices(self, portal: Portal, end: int, formats: tuple[int, ...]) -> Talk:
        """The rows of a portal up to a place: so many at a time that a large answer fills no memory."""
        table = portal.result.table if portal.result is not None else None
        while table is not None and portal.place < end:
            part = table.slice(portal.place, min(_ROWS, end - portal.place))
            rows: list[Any] = yield Run(partial(encoded, part, formats))
            portal.place += part.num_rows
            yield Send(fr.rows(rows, table.num_columns))

    def _fetched(self, cursor: Portal, count: int | None, formats: tuple[int, ...], with_description: bool) -> Talk:
        if cursor.result is None or cursor.result.table is None:
            return
        table = cursor.result.table
        if with_description:
            yield Send(_description(table.schema, formats))
        begun = cursor.place
        end = table.num_rows if count is None else min(table.num_rows, begun + count)
        yield from self._slices(cursor, end, formats)
        yield Send(fr.complete(f"FETCH {end - begun}"))

    def _copy(self, portal: Portal, statement: st.Copy) -> Talk:
        work, values, stop = self._work, portal.values, Stop()

        def answered() -> tuple[Result, Iterator[bytes]]:
            result = self._bounded(work.run(statement, values, None, stop))
            return result, iter(()) if result.table is None else copied(result.table, statement)

        result, lines = yield Run(answered, stop)
        if result.table is None:
            return

        def written() -> tuple[bytes, bool]:
            part = list(islice(lines, _ROWS))
            return b"".join(map(fr.copy_data, part)), len(part) == _ROWS

        data, is_more = yield Run(written)
        yield from self._notices(result)
        yield Send(fr.copy_begins(statement.form == "binary", result.table.num_columns))
        while is_more:
            yield Send(data)
            data, is_more = yield Run(written)
        yield Send(data + fr.COPIED + fr.complete(f"COPY {result.table.num_rows}"))


def _quickly(sql: str, read: Callable[[], Any]) -> Talk:
    """What reading a text gives: at once where it is short; else it is work, for which nobody else waits."""
    return read() if len(sql) <= _QUICK else (yield Run(read))


def _unknown(statement: st.Statement) -> NoReturn:
    raise InvalidQuery(f"{type(statement).__name__} cannot stand here", "ask with SELECT")


def _forget(known: dict[str, Any], name: str | None) -> None:
    if name is None:
        known.clear()
    elif known.pop(name, None) is None:
        raise InvalidParameter("name", name[:40], "one that is known")


def _initial(message: Message) -> tuple[str, bytes]:
    """The mechanism that a client chose, and its first message."""
    if not isinstance(message, fr.Credentials):
        raise Malformed("no proof of a token")
    name, zero, rest = message.body.partition(b"\0")
    if not zero or len(rest) < 4 or int.from_bytes(rest[:4], "big") != len(rest) - 4:
        raise Malformed("a proof that is not SASL")
    return name.decode("latin-1"), rest[4:]


_WORD = re.compile(r"(?:[^\s\\]|\\.)+", re.DOTALL)
"""A word of `options`: a backslash keeps a blank inside it."""


def _start_settings(settings: dict[str, str]) -> list[tuple[str, str]]:
    """What a client sets as it connects: names and values, and options as `-c name=value`."""
    other = ("user", "database", "options", "replication")
    results = [(name, value) for name, value in settings.items() if name not in other and not name.startswith("_pq_.")]
    words = [re.sub(r"\\(.)", r"\1", word) for word in _WORD.findall(settings.get("options", ""))]
    for place, word in enumerate(words):
        given = (
            words[place + 1] if word == "-c" and place + 1 < len(words) else word.removeprefix("--").removeprefix("-c")
        )
        name, equals, value = given.partition("=")
        if word.startswith("-") and equals:
            results.append((name.replace("-", "_"), value))
    return [(name.casefold(), value) for name, value in results]


def _spread(formats: tuple[int, ...], count: int) -> tuple[int, ...]:
    """A format for each of so many values, as a message states them: none is text, one is that of all."""
    whole = formats * count if len(formats) == 1 else formats or (0,) * count
    if len(whole) != count or any(form not in (0, 1) for form in whole):
        raise InvalidParameter("formats", len(formats), f"none, one, or {count} of 0 and 1")
    return whole


def _description(schema: Any, formats: tuple[int, ...]) -> bytes:
    if schema is None:
        return fr.NO_DATA
    columns = [form_of(field.type).description(field.name) for field in schema]
    return fr.row_description(columns, _spread(formats, len(columns)))


def encoded(table: Any, formats: tuple[int, ...]) -> list[tuple[bytes | None, ...]]:
    """The rows of a table, as bytes."""
    forms = [form_of(field.type) for field in table.schema]
    whole = zip(forms, table.columns, _spread(formats, len(forms)), strict=True)
    columns = [form.column(column, binary=binary == 1) for form, column, binary in whole]
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


__all__ = ["Act", "Authenticated", "CancelOther", "Connection", "Door", "End", "Run", "Send", "StartTls"]
