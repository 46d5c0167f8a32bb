"""What a round is about: everything that is public and agreed before it begins."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.fields import Converted, Integer
from discreet.learning.federated.crypto import KEY
from discreet.learning.federated.messages import pack
from discreet.learning.federated.noise_shares import GaussianShare, NoiseShare, PolyaShare

_MOST_CLIENTS = 1000
_LONGEST = 1 << 27


@dataclass(frozen=True, kw_only=True)
class RoundSettings:
    """The terms of one round of secure aggregation. Its digest is in every message: another round's are refused.

    - `round_id`: at least 16 bytes that no other round has.
    - `clients`: the name of each client and the public half of its `Identity`.
    - `threshold`: so many clients must stay to the end, and so many shares recover a secret.
    - `colluding`: the most clients that may work with a cheating coordinator.
    - `length`, `bound`: each client's vector has that many whole numbers, none larger than the bound in size.
    - `noise`: the share of noise that every client adds, or None.

    2·threshold > clients + colluding is required; `discreet.learning.federated` tells why. With noise, the guarantee
    counts on `honest` shares, and only threshold − colluding honest clients are sure to be in the sum.

    >>> from discreet.learning.federated import Identity, RoundSettings
    >>> keys = {name: Identity.new().public for name in ("ann", "bob", "eve")}
    >>> terms = RoundSettings(
    ...     round_id=bytes(16), clients=keys, threshold=3, colluding=1, length=1000, bound=500, noise=None
    ... )
    >>> terms.names, terms.bits
    (('ann', 'bob', 'eve'), 12)
    """

    round_id: bytes
    clients: Converted[Mapping[str, bytes], dict[str, bytes]] = Converted(lambda clients, _: _clients(clients))
    threshold: Integer = Integer(at_least=2)
    colluding: Integer = Integer(at_least=0)
    length: Integer = Integer(at_least=1, at_most=_LONGEST)
    bound: Integer = Integer(at_least=0, at_most=2**62)
    noise: NoiseShare | None

    def __post_init__(self) -> None:
        if type(self.round_id) is not bytes or not 16 <= len(self.round_id) <= 256:
            raise InvalidParameter("round_id", self.round_id, "16 to 256 bytes that no other round has")
        integer(self.threshold, "threshold", at_most=len(self.clients))
        _check_colluding(self.colluding, len(self.clients), self.threshold)
        _check_noise(self.noise, self.length, self.threshold - self.colluding)
        if self.bits > 64:
            hint = "use a coarser grid, so that the sum fits 64 bits"
            raise InvalidParameter("bound", self.bound, f"sums of at most 64 bits, not {self.bits}", hint)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All clients, in the order of their names."""
        return tuple(self.clients)

    @cached_property
    def bits(self) -> int:
        """k: vectors are added modulo 2^k, the least for which no sum of honest clients wraps around.

        Proof. |sum| ≤ clients·bound + reach < 2^(k−1), where reach = 0 without noise, and is exceeded by the noise with
        probability at most `noise.WRAP`. So the sum is the one number from −2^(k−1) to 2^(k−1) − 1 that it
        is modulo 2^k.
        """
        reach = 0 if self.noise is None else self.noise.reach(len(self.clients), self.length)
        return (len(self.clients) * self.bound + reach).bit_length() + 1

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that stand for all of these terms."""
        numbers = (self.threshold, self.colluding, self.length, self.bound)
        keys = tuple(self.clients.values())
        text = pack(("terms", self.round_id, self.names, keys, tuple(map(str, numbers)), str(self.noise)))
        return hashlib.sha256(text).digest()

    @cached_property
    def points(self) -> dict[str, int]:
        """Where each client's shares are evaluated: 1, 2, …"""
        return {name: place + 1 for place, name in enumerate(self.names)}

    def __hash__(self) -> int:
        return hash(self.digest)


def _clients(clients: Mapping[str, bytes]) -> dict[str, bytes]:
    expected = "a mapping from the names of 2 to 1000 clients to the public keys of their identities"
    if not isinstance(clients, Mapping) or not 2 <= len(clients) <= _MOST_CLIENTS:
        raise InvalidParameter("clients", clients, expected)
    for name, key in clients.items():
        if type(name) is not str or not 1 <= len(name) <= 200 or not name.isprintable():
            raise InvalidParameter("clients", name, expected, "a name has 1 to 200 printable letters")
        if type(key) is not bytes or len(key) != KEY:
            raise InvalidParameter("clients", key, expected, f"the key of {name!r} is not 32 bytes")
    if len(set(clients.values())) != len(clients):
        raise InvalidParameter("clients", "two names with one key", expected, "each client has its own identity")
    return dict(sorted(clients.items(), key=lambda item: item[0].encode()))


def _check_colluding(colluding: int, clients: int, threshold: int) -> None:
    if 2 * threshold <= clients + colluding:
        least = (clients + colluding) // 2 + 1
        expected = f"a threshold of at least {least} for {clients} clients of which {colluding} may collude"
        hint = "else a cheating coordinator could show two lists of survivors"
        raise InvalidParameter("threshold", threshold, expected, hint)


def _check_noise(noise: NoiseShare | None, length: int, honest: int) -> None:
    if noise is None:
        return
    if not isinstance(noise, GaussianShare | PolyaShare):
        raise InvalidParameter("noise", noise, "a GaussianShare, a PolyaShare or None")
    if noise.honest > honest:
        expected = f"noise that counts on at most threshold − colluding = {honest} honest clients"
        raise InvalidParameter("noise", f"noise that counts on {noise.honest}", expected, "more may drop out")
    if isinstance(noise, GaussianShare) and noise.dimension < length:
        expected = f"noise for vectors of at least {length} numbers"
        raise InvalidParameter("noise", f"noise for vectors of {noise.dimension}", expected)
