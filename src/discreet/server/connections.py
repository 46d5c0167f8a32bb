"""Connections that say what they want, soon and in few bytes: who opens many and stays silent keeps nobody out."""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 30.0
"""How long a caller may take to send the head of a request."""

HEAD_BYTES = 65_536
"""How long the head of a request may be, give or take one packet."""

_RESERVED = 512
"""Files that are kept back from connections: data, ledgers, the sandbox."""


class Connection(HttpToolsProtocol):
    """A connection that is closed with 408 or 431 where the head of a request is late or long."""

    _late: asyncio.TimerHandle | None = None
    _size = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request, not for ever."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self._begin()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._end()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on; what is no head yet counts towards its length."""
        super().data_received(data)
        if self._late is not None:
            self._size += len(data)
            if self._size > HEAD_BYTES:
                self._refuse("431 Request Header Fields Too Large", "the head of a request is too long")

    def on_message_begin(self) -> None:
        """A request begins: its head must end in time."""
        super().on_message_begin()
        self._begin()

    def on_headers_complete(self) -> None:
        """The head has ended."""
        self._end()
        super().on_headers_complete()

    def _begin(self) -> None:
        if self._late is None:
            self._size = 0
            words = f"no request came within {HEAD_SECONDS:g} s"
            self._late = self.loop.call_later(HEAD_SECONDS, self._refuse, "408 Request Timeout", words)

    def _end(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _refuse(self, status: str, words: str) -> None:
        self._end()
        if not self.transport.is_closing():
            content = words.encode()
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
            self.transport.close()


def most_connections(wanted: int) -> int:
    """How many connections the process can hold; it is allowed as many files as the system lets it have.

    >>> 0 < most_connections(100) <= 100
    True
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return wanted
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    goal = wanted + _RESERVED if most == resource.RLIM_INFINITY else min(wanted + _RESERVED, most)
    if allowed != resource.RLIM_INFINITY and allowed < goal:
        resource.setrlimit(resource.RLIMIT_NOFILE, (goal, most))
        allowed = goal
    return wanted if allowed == resource.RLIM_INFINITY else max(1, min(wanted, allowed - _RESERVED))
