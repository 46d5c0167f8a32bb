"""The thin shell around `Connection`: sockets, TLS, threads and clocks, with asyncio."""

import asyncio
import hmac
import ssl
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from discreet.errors import AccessDenied, DiscreetError, InvalidParameter, ServerUnavailable
from discreet.noise.entropy import SYSTEM
from discreet.server.access import Right, require
from discreet.server.postgres import frames as fr
from discreet.server.postgres.answers import Answers, Stopped
from discreet.server.postgres.connection import (
    Act,
    Authenticated,
    CancelOther,
    Connection,
    Door,
    End,
    Run,
    Send,
    StartTls,
)
from discreet.server.postgres.refusals import fatal
from discreet.server.postgres.scram import end_point, unknown_verifier
from discreet.server.postgres.settings import Settings
from discreet.server.service import Service, log
from discreet.server.session import Session
from discreet.server.tokens import ScramVerifier, Token
from discreet.wire import is_loopback

_BUFFERED = 1 << 20
"""Bytes that wait for their turn before reading stops."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """How long, and for how many, the listener waits."""

    login: float = 20.0
    """Seconds until a caller must be known."""
    message: float = 30.0
    """Seconds in which a message that began must be whole, and one that is sent be taken."""
    idle: float = 6 * 3600.0
    """Seconds without any message."""
    connections: int = 20_000
    """At the same time."""
    unknown: int = 4_000
    """Of these, of callers who are not known yet; where one more comes, the oldest has waited long enough."""


class Listener:
    """PostgreSQL's door to the datasets of a service."""

    def __init__(
        self,
        service: Service,
        *,
        host: str = "127.0.0.1",
        port: int = 5432,
        certificate: Path | None = None,
        key: Path | None = None,
        clear_text: bool = False,
        patience: Patience | None = None,
    ) -> None:
        if certificate is None and not is_loopback(host) and not clear_text:
            hint = "or --clear-text, with which answers can be overheard"
            raise InvalidParameter("--postgres", host, "--tls-cert and --tls-key beyond this machine", hint)
        self.service, self._host, self._port = service, host, port
        self.patience = patience or Patience()
        self.tls = None if certificate is None else _tls(certificate, key)
        self.clear_text = certificate is None or clear_text
        self.bound = None if certificate is None else end_point(_first_certificate(certificate))
        self.threads = ThreadPoolExecutor(service.limits.threads, "postgres")
        self.connections: dict[int, _Wire] = {}
        self.strangers: dict[int, _Wire] = {}
        """Connections of callers who are not known yet, oldest first."""
        self._secret = SYSTEM.words(4).tobytes()
        self._next = 0
        self._server: asyncio.Server | None = None
        self._clock: asyncio.Task[None] | None = None

    async def start(self) -> int:
        """Listen; the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Wire(self), self._host, self._port, backlog=1024)
        self._clock = asyncio.create_task(self._watch())
        return int(self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Take no new connection, and end those that wait; what is under way ends first."""
        if self._server is not None:
            for listening in self._server.sockets:
                asyncio.get_running_loop().remove_reader(listening.fileno())
            for _ in range(
                10
            ):  # rounds of the loop: asyncio drops the socket of whoever is let in while a server closes
                await asyncio.sleep(0)
            self._server.close()
        if self._clock is not None:
            self._clock.cancel()
        for wire in list(self.connections.values()):
            if not wire.connection.busy:
                wire.end(fatal("57P01", "the server is stopping"))
        deadline = time.monotonic() + self.service.limits.seconds
        while any(wire.connection.busy for wire in self.connections.values()) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        for _ in range(100):  # sockets are closed before the loop may be
            for wire in list(self.connections.values()):
                wire.end(fatal("57P01", "the server is stopping"))
            await asyncio.sleep(0.01)
            if not self.connections:
                break
        self.threads.shutdown(wait=False)

    async def _watch(self) -> None:
        """End connections that keep others waiting."""
        while True:
            await asyncio.sleep(min(1.0, self.patience.login / 4, self.patience.message / 4))
            now = time.monotonic()
            for wire in list(self.connections.values()):
                wire.check(now)

    def number(self) -> int:
        """A number for a new connection."""
        self._next = self._next % 0x7FFFFFFF + 1
        while self._next in self.connections:
            self._next = self._next % 0x7FFFFFFF + 1
        return self._next

    def cancel(self, process: int, key: bytes) -> None:
        """Cancel what a connection does, if the key is its own."""
        wire = self.connections.get(process)
        if wire is not None and hmac.compare_digest(wire.connection.key, key):
            wire.cancel()

    def door(self, address: str) -> Door:
        """What a connection from an address may know."""
        throttle = self.service.throttle
        return Door(
            verifier=self._verifier,
            open=self._session_of,
            refused=partial(throttle.failed, address),
            wait=partial(throttle.wait, address),
            tls=self.tls is not None,
            clear_text=self.clear_text,
            certificate=self.bound,
            most=self.service.limits.body,
            result=self.service.limits.result,
        )

    def _token(self, user: str, dataset: str) -> Token | None:
        """The newest valid token of a name, or the one of an id."""
        place = self.service.places.get(dataset)
        if place is None:
            return None
        try:
            named = place.tokens.valid(user)
        except DiscreetError:
            named = []
        if named:
            return named[-1]
        known = next((token for token in place.tokens.all() if token.id == user), None)
        return known if known is not None and known in place.tokens.valid(known.name) else None

    def _verifier(self, user: str, dataset: str) -> ScramVerifier:
        token = self._token(user, dataset)
        return unknown_verifier(f"{dataset}\0{user}", self._secret) if token is None else token.verifier

    def _session_of(self, user: str, dataset: str) -> Answers:
        token = self._token(user, dataset)
        if token is None:
            raise AccessDenied("this token is not valid")
        require(token, Right.SCHEMA)
        session = Session(self.service.places[dataset], token)
        return Answers(session, Settings(session_authorization=token.name))


class _Wire(asyncio.Protocol):
    """One socket: bytes to a `Connection` and back, through TLS where it was agreed on."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._transport: Any = None
        self._tls: _Tls | None = None
        self._first = True
        self._loop = asyncio.get_running_loop()
        self._stop: asyncio.Future[Any] | None = None
        self._under_way: Run | None = None
        self._paused_reading = False
        self.since = self.began = time.monotonic()
        self._message_since: float | None = None
        self._writing_since: float | None = None
        self._taken: asyncio.Future[None] | None = None

    def connection_made(self, transport: Any) -> None:
        """A client came."""
        listener, self._transport = self._listener, transport
        peer = transport.get_extra_info("peername")
        self.address = str(peer[0]) if isinstance(peer, tuple) else ""
        process = listener.number()
        self.connection = Connection(listener.door(self.address), process=process, key=SYSTEM.words(1).tobytes()[:4])
        listener.connections[process] = listener.strangers[process] = self
        patience, words = listener.patience, "too many connections; try again soon"
        if len(listener.connections) > patience.connections:
            self.end(fatal("53300", words))
        elif len(listener.strangers) > patience.unknown:
            listener.strangers.pop(next(iter(listener.strangers))).end(fatal("53300", words))

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._listener.connections.pop(self.connection.process, None)
        self._listener.strangers.pop(self.connection.process, None)
        self.connection.ended = True
        self.cancel()
        self._go_on_writing()

    def data_received(self, data: bytes) -> None:
        """Bytes came: of TLS, if the first byte says so, or of the protocol."""
        self.since = time.monotonic()
        if self._first:
            self._first = False
            if data[0] == 0x16 and self._listener.tls is not None:
                self._tls = _Tls(self._listener.tls, direct=True)
                self.connection.encrypted = True
        try:
            plain = data if self._tls is None else self._tls.received(data)
        except ssl.SSLError:
            self._flush()
            self._close()
            return
        self._flush()
        if self._tls is not None and self._tls.over:
            self._close()
            return
        if plain:
            frames = self.connection.frames
            before = frames.waiting
            self._do(self.connection.receive(plain))
            self._time_message(begun=before + len(plain) == frames.waiting)
        self._keep_pace()

    def _time_message(self, *, begun: bool) -> None:
        """Note since when a message is not whole; `begun` is whether it was so before the last bytes came."""
        if not self.connection.frames.waiting:
            self._message_since = None
        elif self._message_since is None or not begun:
            self._message_since = time.monotonic()

    def _keep_pace(self) -> None:
        """Read only while what was read can be worked on, and what was said is taken."""
        waiting = self.connection.busy and self.connection.frames.waiting > _BUFFERED
        pause = waiting or self._writing_since is not None
        if pause != self._paused_reading and not self._transport.is_closing():
            self._paused_reading = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    def _do(self, acts: list[Act]) -> None:
        out: list[bytes] = []
        for act in acts:
            match act:
                case Send(data):
                    out.append(data)
                case StartTls():
                    self._write(b"".join(out))
                    out = []
                    if self._listener.tls is not None:
                        self._tls = _Tls(self._listener.tls, direct=False)
                        self.connection.secured()
                case Authenticated():
                    self._listener.strangers.pop(self.connection.process, None)
                case CancelOther(process, key):
                    self._listener.cancel(process, key)
                case Run():
                    self._write(b"".join(out))
                    out = []
                    self._loop.create_task(self._run(act))
                case End(why):
                    self._write(b"".join(out))
                    out = []
                    if why:
                        log(door="postgres", ended=why)
                    self._close()
                    return
        self._write(b"".join(out))

    async def _run(self, run: Run) -> None:
        """Run work in a thread; a cancel or the clock does not stop it, only the waiting for it."""
        self._stop, self._under_way = self._loop.create_future(), run
        while self._taken is not None:  # what was said before is taken first: it must not pile up
            await self._taken
        if self.connection.ended:
            return
        result, error = None, None
        try:
            result = await self._awaited(run)
        except asyncio.CancelledError:
            return
        except Exception as failure:
            error = failure
        self._stop = None
        self.since = time.monotonic()
        self._do(self.connection.done(result, error))
        self._time_message(begun=False)
        self._keep_pace()

    async def _awaited(self, run: Run) -> Any:
        service, answers, work = self._listener.service, self.connection.answers, ExitStack()
        if answers is not None:
            work.enter_context(service.work(answers.session.token))
        future = self._loop.run_in_executor(self._listener.threads, run.work)
        future.add_done_callback(lambda over: work.close())  # canceled work counts until it is over
        stop = self._stop
        waiting = {future} if stop is None else {future, stop}
        done, _ = await asyncio.wait(waiting, timeout=service.limits.seconds, return_when=asyncio.FIRST_COMPLETED)
        if future in done:
            return future.result()
        future.add_done_callback(lambda over: over.cancelled() or over.exception())
        if stop is not None and stop in done:
            hint = "what was charged stays charged: the same question again is free once it is answered"
            raise Stopped("canceled as the client asked", hint)
        words = (
            f"there is no answer yet after {service.limits.seconds:g} s; ask the same again: it is not charged twice"
        )
        raise ServerUnavailable(words)

    def cancel(self) -> None:
        """Stop waiting for what runs; what has not begun does not begin."""
        if self._stop is not None and not self._stop.done():
            if self._under_way is not None:
                self._under_way.stop.wanted = True
            self._stop.set_result(None)

    def check(self, now: float) -> None:
        """End the connection if the client takes too long."""
        patience, connection = self._listener.patience, self.connection
        if not connection.known and now - self.began > patience.login:
            self.end(fatal("57014", "nobody was known in time"))
        elif self._writing_since is not None and now - self._writing_since > patience.message:
            self._transport.abort()
        elif connection.busy:
            return
        elif self._message_since is not None and now - self._message_since > patience.message:
            self.end(fatal("08P01", "a message did not come in time"))
        elif now - self.since > patience.idle:
            self.end(fatal("57P05", "nothing was asked for too long"))

    def pause_writing(self) -> None:
        """The client does not read what is sent."""
        self._writing_since, self._taken = time.monotonic(), self._loop.create_future()
        self._keep_pace()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._go_on_writing()
        self._keep_pace()

    def _go_on_writing(self) -> None:
        self._writing_since, taken, self._taken = None, self._taken, None
        if taken is not None and not taken.done():
            taken.set_result(None)

    def end(self, fields: dict[str, str]) -> None:
        """Tell why, and close."""
        if not self.connection.ended:
            self.connection.ended = True
            self._write(fr.response(b"E", fields))
        self._close()

    def _write(self, data: bytes) -> None:
        if not data or self._transport.is_closing():
            return
        if self._tls is None:
            self._transport.write(data)
        else:
            self._tls.send(data)
            self._flush()

    def _flush(self) -> None:
        if self._tls is not None and (data := self._tls.outgoing()):
            self._transport.write(data)

    def _close(self) -> None:
        if self._tls is not None:
            self._tls.close()
            self._flush()
        self._transport.close()


class _Tls:
    """TLS over bytes in memory."""

    def __init__(self, context: ssl.SSLContext, *, direct: bool) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._direct, self._agreed, self._waiting = direct, False, b""
        self.over = False

    def received(self, data: bytes) -> bytes:
        """What the bytes that came say; empty while keys are agreed on."""
        self._in.write(data)
        parts = []
        try:
            if not self._agreed:
                self._tls.do_handshake()
                self._agreed = True
                if self._direct and self._tls.selected_alpn_protocol() != "postgresql":
                    raise ssl.SSLError("direct TLS without the protocol's name")
                self.send(b"")
            while piece := self._tls.read(1 << 16):
                parts.append(piece)
            self.over = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.over = True
        return b"".join(parts)

    def send(self, data: bytes) -> None:
        """Say something; it waits until keys are agreed on."""
        self._waiting += data
        if self._agreed and self._waiting:
            self._tls.write(self._waiting)
            self._waiting = b""

    def outgoing(self) -> bytes:
        """Bytes for the client."""
        return self._out.read()

    def close(self) -> None:
        """Say goodbye, if anybody listens."""
        if self._agreed:
            try:
                self._tls.unwrap()
            except (ssl.SSLError, OSError, ValueError):
                return


def _tls(certificate: Path, key: Path | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["postgresql"])
    return context


def _first_certificate(path: Path) -> bytes:
    text = path.read_text("ascii", "replace")
    start = text.index("-----BEGIN CERTIFICATE-----")
    end = text.index("-----END CERTIFICATE-----", start)
    return ssl.PEM_cert_to_DER_cert(text[start:end] + "-----END CERTIFICATE-----\n")


__all__ = ["Listener", "Patience"]
