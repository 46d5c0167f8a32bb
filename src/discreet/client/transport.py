"""HTTP for the client: requests that are sent again without paying twice, and a token that is shown nowhere."""

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from discreet import wire
from discreet.errors import DiscreetError, InvalidParameter, ServerUnavailable
from discreet.noise.entropy import SYSTEM

ATTEMPTS = 5
"""How often a request is sent at most."""

_PAUSE, _LONGEST_PAUSE = 0.2, 10.0
_BUSY = (502, 503, 504)
_LARGEST = 1 << 28
"""Bytes of the largest reply that is read; servers send at most 200 MB."""

_CONNECT_SECONDS = 10.0
_JSON = "application/json"
_SECRET = 8
"""Characters of the shortest text that is hidden as a token: a shorter one opens nothing, and is in many words."""
_DATASET = re.compile(r"(?P<base>.*)/v\d+/datasets/(?P<name>[^/]+)/?")


def new_key() -> str:
    """A name for one request, which no other has.

    >>> len(new_key()), new_key() != new_key()
    (32, True)
    """
    return SYSTEM.words(2).tobytes().hex()


@dataclass(frozen=True, slots=True)
class Address:
    """Where a server is; the dataset, where the address names one."""

    secure: bool
    host: str
    port: int
    base: str
    dataset: str | None

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}{self.base}"


def address_of(url: str | None, *, insecure: bool = False) -> Address:
    """The address that a URL names; refused where a token would travel in the clear.

    >>> print(address_of("https://data.example.org/v1/datasets/clinic"))
    https://data.example.org:443
    """
    if not url:
        raise InvalidParameter("url", url, "the address of a discreet server", "give it, or set DISCREET_URL")
    try:
        parts = urlsplit(str(url).strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        parts, host, port = urlsplit(""), None, None
    if parts.scheme not in ("http", "https") or not host:
        raise InvalidParameter("url", _public(str(url)), "an address such as https://discreet.example.org")
    shown = f"{parts.scheme}://{host}"
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidParameter("url", f"{shown} and more", "an address alone", "the token has a parameter of its own")
    secure = parts.scheme == "https"
    if not secure and not insecure and not wire.is_loopback(host):
        hint = "insecure=True sends it in the clear nevertheless"
        raise InvalidParameter("url", shown, "https://, since the token would travel in the clear", hint)
    named = _DATASET.fullmatch(parts.path)
    base, dataset = (named["base"], named["name"]) if named else (parts.path.rstrip("/"), None)
    if not re.fullmatch(r"[!-~]*", base + host):
        raise InvalidParameter("url", shown, "an address of printable ASCII characters")
    return Address(secure, host, port or (443 if secure else 80), base, dataset and unquote(dataset))


def _public(url: str) -> str:
    """An address without what may be secret in it."""
    return re.sub(r"//[^/@]*@", "//", url).partition("?")[0].partition("#")[0]


class Token:
    """A token, which is shown nowhere."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text.strip()

    def checked(self) -> "Token":
        """This token, if it can be one; an error never repeats it."""
        if not re.fullmatch(r"[!-~]{1,1000}", self._text):
            got = "a text that is none" if self._text else "none"
            hint = "the owner makes one: discreet token create; give it, or set DISCREET_TOKEN"
            raise InvalidParameter("token", got, "the token that the owner of the dataset gave you", hint)
        return self

    def header(self) -> str:
        """What is sent to the server."""
        return f"Bearer {self._text}"

    def hidden_in(self, content: bytes) -> bytes:
        """A reply in which the token is not repeated."""
        return content.replace(self._text.encode(), b"(the token)") if len(self._text) >= _SECRET else content

    def __repr__(self) -> str:
        return "<token>"


@dataclass(frozen=True, slots=True)
class _Reply:
    """What came back: a status, or the reason why none did, and whether the request may have arrived."""

    status: int
    content: bytes = b""
    kind: str = ""
    wait: float = 0.0
    trouble: str = ""
    unsent: bool = False


class Server:
    """Sends requests, again where a reply was lost, and turns problems into errors."""

    def __init__(self, place: Address, token: Token, timeout: float) -> None:
        self.place, self._token, self._timeout = place, token, timeout

    def document(self, method: str, path: str, body: Any = None, *, again: bool = True) -> dict[str, Any]:
        """The JSON document of a reply."""
        content = self.content(method, path, body, accept=_JSON, again=again)
        try:
            document = json.loads(content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise ServerUnavailable(f"{self.place} sent something that is no document of a discreet server")
        return document

    def content(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        accept: str,
        headers: Mapping[str, str] | None = None,
        again: bool = True,
    ) -> bytes:
        """The content of a reply of the kind that is accepted. `again`: it may be sent again once it was sent."""
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        sent = dict(headers or {}) | {"Accept": accept} | ({} if content is None else {"Content-Type": _JSON})
        reply = self._send(method, path, content, sent)
        for attempt in range(1, ATTEMPTS):
            if reply.status not in (0, *_BUSY) or not (again or reply.unsent):
                break
            time.sleep(_pause(attempt, reply.wait))
            reply = self._send(method, path, content, sent)
        if reply.status == 0:
            raise ServerUnavailable(f"{self.place} {reply.trouble}")
        if not 200 <= reply.status < 300:
            raise self._error(reply)
        if accept not in ("*/*", reply.kind):
            raise ServerUnavailable(f"{self.place} sent {reply.kind or 'something'!r} instead of {accept!r}")
        return reply.content

    def _send(self, method: str, path: str, content: bytes | None, headers: Mapping[str, str]) -> _Reply:
        """Send a request once. Nothing is raised, so that no trace of it holds the token."""
        from http.client import HTTPConnection, HTTPException, HTTPSConnection

        kind = HTTPSConnection if self.place.secure else HTTPConnection
        connection = kind(self.place.host, self.place.port, timeout=_CONNECT_SECONDS)
        sent = False
        try:
            connection.connect()
            connection.sock.settimeout(self._timeout)
            sent = True
            secret = {"Authorization": self._token.header()}
            connection.request(method, self.place.base + path, content, {**headers, **secret})
            response = connection.getresponse()
            body = response.read(_LARGEST + 1)
            if len(body) > _LARGEST:
                return _Reply(0, trouble=f"sent more than {_LARGEST} bytes, which is no answer", unsent=False)
            if response.length:
                return _Reply(0, trouble="ended the connection within its reply")
            media = (response.headers.get_content_type() if "content-type" in response.headers else "").lower()
            wait = response.headers.get("retry-after", "")
            return _Reply(response.status, body, media, float(wait) if wait.isdigit() else 0.0)
        except (OSError, HTTPException) as error:
            return _Reply(0, trouble=_trouble(error, sent=sent, seconds=self._timeout), unsent=not sent)
        finally:
            connection.close()

    def _error(self, reply: _Reply) -> DiscreetError:
        """The error that a reply tells of."""
        try:
            document = json.loads(self._token.hidden_in(reply.content)) if reply.kind == wire.PROBLEM else None
        except (ValueError, RecursionError):
            document = None
        if isinstance(document, dict):
            return wire.error_of(document)
        words = "is it the address of a discreet server?"
        return ServerUnavailable(f"{self.place} answered with status {reply.status} and no reason; {words}")


def _trouble(error: Exception, *, sent: bool, seconds: float) -> str:
    """What went wrong, in words; texts of the system name no secret."""
    if isinstance(error, TimeoutError):
        return f"did not answer within {seconds:g} s" if sent else f"cannot be reached within {_CONNECT_SECONDS:g} s"
    reason = getattr(error, "strerror", None) or getattr(error, "verify_message", None) or type(error).__name__
    return f"ended the connection ({reason})" if sent else f"cannot be reached: {reason}"


def _pause(attempt: int, stated: float) -> float:
    """Seconds before the next attempt: twice as long each time, of which up to half is left to chance."""
    longest = min(_LONGEST_PAUSE, max(stated, _PAUSE * 2.0 ** (attempt - 1)))
    return longest * (0.5 + int(SYSTEM.words(1)[0] >> 11) / 2**54)
