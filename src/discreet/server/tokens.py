"""Tokens: who a caller is, in which role, for which dataset, and how much that caller may spend.

A token is 256 random bits, shown once. Its file, beside the policy and for its owner's eyes, keeps a hash of it, and
what PostgreSQL's clients need to prove that they know it (SCRAM, RFC 5802); neither can be turned back into the token.
"""

import hashlib
import hmac
import json
import os
import re
import threading
from base64 import b64decode, b64encode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from discreet import durable
from discreet.curator.policy import Policy
from discreet.curator.settings import NO_LIMIT, Allowance, analyst_name
from discreet.curator.stores import Clock, SystemClock
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import plain
from discreet.noise.entropy import SYSTEM
from discreet.privacy.budget import Budget

_VERSION = 1
_PREFIX = "discreet"
_SHAPE = re.compile(rf"{_PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")
_PATIENCE = 10.0
_ITERATIONS = 4096
"""Of SCRAM: RFC 7677 asks for at least as many. A token has 256 random bits, so more would protect nothing."""


class Role(StrEnum):
    """What somebody may do with a dataset.

    >>> print(Role.ANALYST)
    analyst
    """

    OWNER = "owner"
    ANALYST = "analyst"
    COLLECTOR = "collector"


class ScramVerifier(NamedTuple):
    """What a server must know to check, by SCRAM-SHA-256, that a client knows a token (RFC 5802, section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes

    @classmethod
    def of(cls, secret: str, salt: bytes, iterations: int = _ITERATIONS) -> "ScramVerifier":
        """The verifier of a secret."""
        salted = hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, iterations)
        client = hmac.digest(salted, b"Client Key", "sha256")
        return cls(salt, iterations, hashlib.sha256(client).digest(), hmac.digest(salted, b"Server Key", "sha256"))


@dataclass(frozen=True, slots=True)
class Token:
    """A token as it is kept: everything but the token itself.

    `name` is the analyst (as `analyst_name` writes it) that charges are made to; two tokens of one name share a cap.
    """

    id: str
    name: str
    role: Role
    created: datetime
    expires: datetime | None = None
    revoked: datetime | None = None
    allowance: Allowance = NO_LIMIT
    hash: bytes = field(default=b"", repr=False)
    verifier: ScramVerifier = field(default=ScramVerifier(b"", 0, b"", b""), repr=False)

    def is_valid(self, now: datetime) -> bool:
        """Whether it opens anything at a time."""
        return self.revoked is None and (self.expires is None or now < self.expires)

    def state(self, now: datetime) -> str:
        """In one word, for people."""
        if self.revoked is not None:
            return "revoked"
        return "valid" if self.is_valid(now) else "expired"


def tokens_path(policy: Policy) -> Path:
    """Where the tokens of a policy are kept: beside its file, named like it."""
    if policy.file is None:
        raise InvalidParameter("policy", None, "the path of a policy file", "tokens are kept beside it")
    return policy.file.with_suffix(".tokens")


class TokenFile:
    """The tokens of one dataset. What another process changes holds from the next look on: revocation works at once.

    >>> import tempfile
    >>> tokens = TokenFile(Path(tempfile.mkdtemp()) / "clinic.tokens")
    >>> text, token = tokens.create("Ann", Role.ANALYST)
    >>> tokens.find(text).name, tokens.find(text[:-1] + "?") is None
    ('ann', True)
    >>> _ = tokens.revoke(token.id)
    >>> tokens.find(text) is None
    True
    """

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        self.path = path
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._tokens: dict[str, Token] = {}

    def create(
        self,
        name: str,
        role: Role | str,
        *,
        lifetime: timedelta | None = None,
        allowance: Allowance = NO_LIMIT,
        text: str | None = None,
    ) -> tuple[str, Token]:
        """A new token and what is kept of it. `text` is one that was made for another dataset, to open this one too."""
        who, now = analyst_name(name), self._clock.now()
        if role not in list(Role):
            raise InvalidParameter("role", role, f"one of {', '.join(Role)}")
        if lifetime is not None and lifetime <= timedelta(0):
            raise InvalidParameter("lifetime", str(lifetime), "a time above 0")
        secret = text or new_token()
        parts = _SHAPE.fullmatch(secret)
        if parts is None:
            raise InvalidParameter("token", "a text", "a token as `discreet token create` prints it")
        token = Token(
            parts[1], who, Role(role), now, None if lifetime is None else now + lifetime, None, allowance,
            _hash(secret), ScramVerifier.of(secret, random_bytes(16)),
        )  # fmt: skip
        self._change(lambda tokens: _added(tokens, token))
        return secret, token

    def revoke(self, which: str) -> list[Token]:
        """Revoke a token by its id, or all tokens of a name; those that were valid before are returned."""
        now = self._clock.now()
        name = analyst_name(which)
        revoked = [token for token in self.all() if which in (token.id,) or token.name == name if token.revoked is None]
        if not revoked:
            raise InvalidParameter("token", which, "the id or the name of a token that is not revoked")
        ids = {token.id for token in revoked}
        self._change(lambda tokens: {k: replace(t, revoked=now) if k in ids else t for k, t in tokens.items()})
        return revoked

    def all(self) -> list[Token]:
        """Every token, in the order in which they were made."""
        return sorted(self._current().values(), key=lambda token: token.created)

    def find(self, text: str) -> Token | None:
        """The valid token of this text, or None. Whether an id is known and how far a text fits shows in no time."""
        parts = _SHAPE.fullmatch(text) if isinstance(text, str) else None
        token = self._current().get(parts[1]) if parts else None
        kept = token.hash if token is not None else bytes(32)
        same = hmac.compare_digest(_hash(text if isinstance(text, str) else ""), kept)
        return token if same and token is not None and token.is_valid(self._clock.now()) else None

    def still_valid(self, token: Token) -> bool:
        """Whether a token that was valid is so now: not revoked since, and not expired."""
        kept = self._current().get(token.id)
        return kept is not None and kept.is_valid(self._clock.now())

    def valid(self, name: str) -> list[Token]:
        """The valid tokens of a name."""
        who, now = analyst_name(name), self._clock.now()
        return [token for token in self.all() if token.name == who and token.is_valid(now)]

    def _current(self) -> dict[str, Token]:
        with self._lock:
            try:
                status = os.stat(self.path)
            except FileNotFoundError:
                self._seen, self._tokens = None, {}
                return self._tokens
            seen = (status.st_mtime_ns, status.st_size, status.st_ino)
            if seen != self._seen:
                self._tokens, self._seen = _read(self.path), seen
            return self._tokens

    def _change(self, change: Callable[[dict[str, Token]], dict[str, Token]]) -> None:
        with durable.locked(self.path, patience=_PATIENCE):
            tokens = change(_read(self.path) if self.path.exists() else {})
            document = {"version": _VERSION, "tokens": [_written(token) for token in tokens.values()]}
            durable.replace(self.path, json.dumps(document, indent=1).encode())


def new_token() -> str:
    """A new token: an id that may be told, and 256 random bits that may not.

    >>> bool(_SHAPE.fullmatch(new_token()))
    True
    """
    return f"{_PREFIX}_{random_bytes(6).hex()}_{urlsafe_b64encode(random_bytes(32)).decode().rstrip('=')}"


def without_tokens(text: str) -> str:
    """A text in which every token is hidden but for its id.

    >>> without_tokens("Bearer discreet_0123456789ab_" + "x" * 43)
    'Bearer discreet_0123456789ab_…'
    """
    return re.sub(rf"({_PREFIX}_[0-9a-f]{{12}}_)[A-Za-z0-9_-]+", r"\1…", text)


def random_bytes(count: int) -> bytes:
    """Bytes of the operating system's, for names that nobody may guess.

    >>> len(random_bytes(16))
    16
    """
    return SYSTEM.words(-(-count // 8)).tobytes()[:count]


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _added(tokens: Mapping[str, Token], token: Token) -> dict[str, Token]:
    if token.id in tokens:
        raise InvalidParameter("token", token.id, "a token that is not in this file yet")
    return {**tokens, token.id: token}


# As a file


def _written(token: Token) -> dict[str, Any]:
    def limits(budget: Budget | None) -> dict[str, str] | None:
        names = ("epsilon", "delta", "delta_for_keys")
        return None if budget is None else {name: plain(getattr(budget, name)) for name in names}

    def moment(time: datetime | None) -> str | None:
        return None if time is None else time.astimezone(UTC).isoformat()

    return {
        "id": token.id,
        "name": token.name,
        "role": str(token.role),
        "created": moment(token.created),
        "expires": moment(token.expires),
        "revoked": moment(token.revoked),
        "total": limits(token.allowance.total),
        "daily": limits(token.allowance.daily),
        "sha256": token.hash.hex(),
        "scram": [
            b64encode(part).decode() if isinstance(part, bytes) else part for part in token.verifier
        ],
    }  # fmt: skip


def _read(path: Path) -> dict[str, Token]:
    try:
        document = json.loads(path.read_bytes())
        if document["version"] != _VERSION:
            raise InvalidData(
                f"{path.name} has the form {document['version']}, expected {_VERSION}; use a newer discreet"
            )
        return {token.id: token for token in map(_token, document["tokens"])}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, InvalidData):
            raise
        raise InvalidData(f"{path.name} is not a file of tokens; restore it, or remove it and make new ones") from None
    except OSError as error:
        raise InvalidData(f"{path.name} cannot be read: {error.strerror or error}") from None


def _token(entry: Mapping[str, Any]) -> Token:
    def moment(text: str | None) -> datetime | None:
        return None if text is None else datetime.fromisoformat(text)

    def limits(budget: Mapping[str, str] | None) -> Budget | None:
        return None if budget is None else Budget(**budget)

    salt, iterations, stored, server = entry["scram"]
    return Token(
        entry["id"], entry["name"], Role(entry["role"]), datetime.fromisoformat(entry["created"]),
        moment(entry["expires"]), moment(entry["revoked"]),
        Allowance(limits(entry["total"]), limits(entry["daily"])), bytes.fromhex(entry["sha256"]),
        ScramVerifier(b64decode(salt), int(iterations), b64decode(stored), b64decode(server)),
    )  # fmt: skip
