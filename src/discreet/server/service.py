"""What a running server holds: its datasets, its patience, its limits, and counts of what it did."""

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from discreet.curator.curator import OWNER
from discreet.errors import AccessDenied, DiscreetError, InvalidData, InvalidParameter, ServerUnavailable
from discreet.server.access import Right, Throttle, require
from discreet.server.session import Place, Session
from discreet.server.tokens import Token, without_tokens

Result = TypeVar("Result")

LOG = logging.getLogger("discreet.server")
"""One line of JSON for each request: what was done by whom and how it ended; no text of a question, no token."""


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What a server takes on. `discreet serve` has flags for the size of a request and for threads."""

    body: int = 10_000_000
    """Bytes of a request."""
    bodies: int = 200_000_000
    """Bytes of all requests together that are under way; small ones are always read."""
    body_seconds: float = 60.0
    """How long a caller may take to send them."""
    result: int = 200_000_000
    """Bytes of a response."""
    threads: int = 128
    """Questions that are worked on at the same time; more wait."""
    each: int = 32
    """Of these, of one token; more are refused."""
    jobs: int = 2
    """Jobs that run at the same time; more wait."""
    waiting_jobs: int = 100
    """Jobs of one token that are remembered and not done."""
    seconds: float = 300.0
    """How long a caller waits for an answer; what was charged goes on, and asking again is free once it is done."""


@dataclass
class Service:
    """The datasets of a server by name, and everything that its doors share."""

    places: Mapping[str, Place]
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)
    started: float = field(default_factory=time.monotonic)
    counts: Counter[tuple[str, ...]] = field(default_factory=Counter)
    closing: bool = False
    held: int = 0
    """Bytes of requests that are under way, as the event loop counts them."""
    _busy: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def tokens(self, text: str, address: str) -> dict[str, Token]:
        """What a token opens, by dataset; `AccessDenied` where it opens nothing, at a growing price."""
        wait = self.throttle.wait(address)
        if wait:
            raise Throttled(f"too many wrong tokens came from here; try again in {wait:.0f} s", wait)
        known, unread = dict[str, Token](), 0
        for name, place in self.places.items():
            try:
                token = place.tokens.find(text)
            except InvalidData as error:  # of one dataset: the others go on
                OWNER.error("%s: %s", name, error)
                unread += 1
                continue
            if token is not None:
                known[name] = token
        if not known and unread:
            raise ServerUnavailable("tokens cannot be read now; try again later, or ask the owner, whose log says why")
        if not known:
            self.throttle.failed(address)
            raise AccessDenied("this token is not known, was revoked or has expired; ask the owner for one")
        return known

    def session(self, tokens: Mapping[str, Token], dataset: str, right: Right) -> Session:
        """What the holder of tokens may do with a dataset."""
        token = tokens.get(dataset)
        if token is None:
            names = ", ".join(sorted(tokens))
            raise UnknownDataset("dataset", dataset, f"a dataset that this token opens: {names}")
        require(token, right)
        return Session(self.places[dataset], token)

    @contextmanager
    def work(self, token: Token) -> Iterator[None]:
        """Count a piece of work of a token; `ServerUnavailable` where the token has too many under way."""
        with self._lock:
            if self.closing:
                raise ServerUnavailable("the server is stopping; nothing was charged; try again soon")
            if self._busy[token.id] >= self.limits.each:
                raise Throttled(
                    f"{self.limits.each} questions of this token are under way; nothing was charged; wait for one", 1.0
                )
            self._busy[token.id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._busy[token.id] -= 1
                if not self._busy[token.id]:
                    del self._busy[token.id]

    def count(self, *what: str) -> None:
        """Count something that happened, for the metrics."""
        with self._lock:
            self.counts[what] += 1

    @property
    def busy(self) -> int:
        """Pieces of work that are under way."""
        with self._lock:
            return sum(self._busy.values())

    def close(self) -> None:
        """Close every dataset, after what is under way has ended."""
        self.closing = True
        for place in self.places.values():
            place.close()


class UnknownDataset(InvalidParameter):
    """There is no such dataset, or the token does not open it: which of the two is not told."""


class Throttled(ServerUnavailable):
    """Somebody asked too often, and is told how long to wait."""

    def __init__(self, words: str, wait: float) -> None:
        super().__init__(words)
        self.wait = wait


class Facts(dict[str, Any]):
    """What a line of the log says, written as JSON once a handler wants it; whatever looks like a token is hidden.

    >>> print(Facts(token="discreet_0123456789ab_" + "x" * 43))
    {"token": "discreet_0123456789ab_…"}
    """

    def __str__(self) -> str:
        return without_tokens(json.dumps(self, ensure_ascii=False, default=str))


def log(**facts: Any) -> None:
    """Write one line of JSON to the log of the server."""
    LOG.info(Facts(facts))


def guarded(work: Callable[[], Result]) -> Result:
    """The result of some work; an error that discreet did not raise on purpose is logged, and told as a failure."""
    try:
        return work()
    except DiscreetError:
        raise
    except Exception:
        LOG.exception("a request failed")
        raise
