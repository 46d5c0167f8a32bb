"""Sessions of browsers: a token is shown once, at the door; afterwards a cookie stands for it.

The cookie is 256 random bits that a script cannot read, and that a browser sends to pages of this server alone. What it
opens is kept here: not the token, but the ids of what it opened, which are looked up again at every request. A token
that was revoked or has expired opens nothing from then on.
"""

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urlsplit

from fastapi import Request, Response

from discreet.errors import AccessDenied
from discreet.noise.entropy import SYSTEM
from discreet.server.problems import Refused
from discreet.server.session import Place
from discreet.server.tokens import Token

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_NEAR = frozenset({"same-origin", "none"})
"""What `Sec-Fetch-Site` says of requests from pages of this server, and of addresses that somebody typed."""


@dataclass
class _SignedIn:
    tokens: Mapping[str, str]  # the id of the token by dataset
    began: float
    used: float


class BrowserSessions:
    """Who is signed in, in memory: a restart signs everybody out.

    A session ends `idle` seconds after its last use, and `longest` seconds after it began. The oldest ones end where
    there are too many.

    >>> sessions = BrowserSessions()
    >>> cookie = sessions.begin({"clinic": "0123456789ab"})
    >>> sessions.ids(cookie)
    {'clinic': '0123456789ab'}
    >>> sessions.end(cookie)
    >>> sessions.ids(cookie)
    {}
    """

    def __init__(self, *, idle: float = 3600.0, longest: float = 43_200.0, most: int = 10_000) -> None:
        self._idle, self._longest, self._most = idle, longest, most
        self._kept: OrderedDict[bytes, _SignedIn] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, tokens: Mapping[str, str]) -> str:
        """A new session of what a token opened, by dataset; its cookie."""
        cookie, now = SYSTEM.words(4).tobytes().hex(), time.monotonic()
        with self._lock:
            self._kept[_digest(cookie)] = _SignedIn(dict(tokens), now, now)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return cookie

    def ids(self, cookie: str) -> dict[str, str]:
        """The ids of the tokens of a session, by dataset; none where it has ended."""
        name, now = _digest(cookie), time.monotonic()
        with self._lock:
            kept = self._kept.get(name)
            if kept is None:
                return {}
            if now - kept.used > self._idle or now - kept.began > self._longest:
                del self._kept[name]
                return {}
            kept.used = now
            return dict(kept.tokens)

    def end(self, cookie: str) -> None:
        """End a session."""
        with self._lock:
            self._kept.pop(_digest(cookie), None)


def cookie_name(request: Request) -> str:
    """The name of the cookie; over TLS one that browsers take from this host alone (RFC 6265bis, section 4.1.3.2)."""
    return "__Host-discreet" if request.url.scheme == "https" else "discreet"


def browser_tokens(request: Request) -> dict[str, Token] | None:
    """What the session of a browser opens, by dataset; None where the request comes without a cookie.

    Guarantee: a page of another origin cannot act with the cookie. Proof. Browsers do not send it from other sites
    (SameSite=Strict). From other origins of this site, such as another port or the same host without TLS, they may; but
    they say so in `Origin`, which every act needs, or in `Sec-Fetch-Site`, and such requests are refused here.
    """
    cookie = request.cookies.get(cookie_name(request))
    if not cookie:
        return None
    check_origin(request)
    sessions: BrowserSessions = request.app.state.browsers
    places: Mapping[str, Place] = request.app.state.service.places
    result, now = {}, datetime.now(UTC)
    for dataset, name in sessions.ids(cookie).items():
        token = next((token for token in places[dataset].tokens.all() if token.id == name), None)
        if token is not None and token.is_valid(now):
            result[dataset] = token
    return result


def check_origin(request: Request) -> None:
    """`AccessDenied` where a page of another origin, or none that says which, sent a request."""
    headers = request.headers
    near = headers.get("sec-fetch-site", "same-origin") in _NEAR
    origin = urlsplit(headers.get("origin", ""))
    own = origin.netloc == headers.get("host", "") and (request.url.scheme != "https" or origin.scheme == "https")
    if not (near and (own or (request.method in _SAFE and "origin" not in headers))):
        raise Refused(AccessDenied("this came from a page of another origin; use the console of this server"), 403)


def set_cookie(request: Request, response: Response, cookie: str) -> None:
    """Give a browser the cookie of its session."""
    response.set_cookie(
        cookie_name(request), cookie, path="/", httponly=True, samesite="strict", secure=request.url.scheme == "https"
    )


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()
