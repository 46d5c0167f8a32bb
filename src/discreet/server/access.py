"""Who may do what: a right for each act, roles that have it, and patience with callers who guess.

Every route names its right; one that names none does not start (`app`). Nothing is allowed that is not in the table.
"""

import threading
import time
from collections import OrderedDict
from enum import StrEnum
from ipaddress import IPv6Address, IPv6Network
from types import MappingProxyType

from discreet.errors import AccessDenied
from discreet.server.tokens import Role, Token


class Right(StrEnum):
    """Something that a caller may do with a dataset."""

    SCHEMA = "see what is publicly known of the tables"
    ASK = "ask questions and start jobs, which are charged"
    BUDGET = "see what was spent, and what is left"
    STATEMENT = "read the privacy statement"
    LEDGER = "read the record of all charges, and verify it"
    TOKENS = "list and revoke tokens"
    SURVEYS = "make surveys, and see what they collected"
    REPORTS = "have an uploaded file tested for anonymity, or attacked"
    POLICY = "draft a policy from a schema, and have it checked"
    EXACT = "see exact numbers, which are not private: what bounds leave out"


_OWNER, _ANALYST, _COLLECTOR = Role.OWNER, Role.ANALYST, Role.COLLECTOR
RIGHTS = MappingProxyType(
    {
        Right.SCHEMA: frozenset({_OWNER, _ANALYST, _COLLECTOR}),
        Right.ASK: frozenset({_OWNER, _ANALYST}),
        Right.BUDGET: frozenset({_OWNER, _ANALYST}),
        Right.STATEMENT: frozenset({_OWNER, _ANALYST, _COLLECTOR}),
        Right.LEDGER: frozenset({_OWNER}),
        Right.TOKENS: frozenset({_OWNER}),
        Right.SURVEYS: frozenset({_OWNER, _COLLECTOR}),
        Right.REPORTS: frozenset({_OWNER}),
        Right.POLICY: frozenset({_OWNER}),
        Right.EXACT: frozenset({_OWNER}),
    }
)
"""Which roles have which right."""


def require(token: Token, right: Right) -> None:
    """`AccessDenied` unless the role of a token has the right.

    >>> from datetime import UTC, datetime
    >>> require(Token("0" * 12, "ann", Role.ANALYST, datetime.now(UTC)), Right.LEDGER)
    Traceback (most recent call last):
    discreet.errors.AccessDenied: the role of 'ann' is analyst; only the role owner may read the ...
    """
    if token.role not in RIGHTS[right]:
        able = " or ".join(sorted(RIGHTS[right]))
        raise AccessDenied(f"the role of {token.name!r} is {token.role}; only the role {able} may {right}")


class Throttle:
    """How long somebody must wait who was refused too often: each failure above a few doubles it.

    Failures are forgotten after `memory` seconds without one, and only so many addresses are remembered.

    >>> throttle = Throttle(free=2)
    >>> [throttle.failed("192.0.2.1") for _ in range(4)]
    [0.0, 0.0, 1.0, 2.0]
    >>> throttle.wait("192.0.2.1") > 1, throttle.wait("192.0.2.2")
    (True, 0.0)
    """

    def __init__(self, *, free: int = 10, most: float = 300.0, memory: float = 900.0, addresses: int = 10_000) -> None:
        self._free, self._most, self._memory, self._addresses = free, most, memory, addresses
        self._failures: OrderedDict[str, tuple[int, float, float]] = OrderedDict()  # count, last time, wait until
        self._lock = threading.Lock()

    def failed(self, address: str) -> float:
        """Count a failure; the seconds for which further tries are refused."""
        address = _network(address)
        with self._lock:
            now = time.monotonic()
            count, last, _ = self._failures.pop(address, (0, now, 0.0))
            count = 1 if now - last > self._memory else count + 1
            over = count - self._free
            pause = min(self._most, 2.0 ** min(over - 1, 30)) if over > 0 else 0.0
            self._failures[address] = (count, now, now + pause)
            while len(self._failures) > self._addresses:
                self._failures.popitem(last=False)
            return pause

    def wait(self, address: str) -> float:
        """The seconds for which tries from an address are refused now."""
        with self._lock:
            _, _, until = self._failures.get(_network(address), (0, 0.0, 0.0))
            return max(0.0, until - time.monotonic())


def _network(address: str) -> str:
    """An address as it is throttled: of IPv6, the /64 network, in which one caller has all addresses.

    >>> _network("2001:db8::1:2"), _network("::ffff:192.0.2.1"), _network("192.0.2.1")
    ('2001:db8::/64', '192.0.2.1', '192.0.2.1')
    """
    if ":" not in address:
        return address
    try:
        known = IPv6Address(address.partition("%")[0])
    except ValueError:
        return address
    return str(known.ipv4_mapped or IPv6Network((known, 64), strict=False))
