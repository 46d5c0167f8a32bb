"""The messages of a round: frozen values, and one way to write each as bytes (`Message.encode`, `decode`).

=================  ==============  ==============================================================================
message            from            says
=================  ==============  ==============================================================================
`Advertisement`    client          my two public keys of this round
`Roster`           coordinator     everybody's advertisements
`Sharing`          client          sealed shares of my two secrets for each other client, commitments to them
`Delivery`         coordinator     the sealed shares meant for one client
`Masked`           client          my vector, under its masks
`Survivors`        coordinator     whose vectors are in the sum
`Agreement`        client          I was shown this list of survivors, and no other
`Agreements`       coordinator     everybody's agreements
`Unmasking`        client          a share of each survivor's seed, and of the mask key of each client that left
=================  ==============  ==============================================================================

A client signs every message. What the coordinator sends is not signed, because it is not believed: clients check the
signatures of other clients in it. `context` is the digest of the terms, and after the roster of the terms and the
roster (`context_of`): whatever was made for another round, or for another list of participants, is refused. The terms
(`RoundSettings`) are everything that is public and agreed before a round begins.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self, get_type_hints

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.fields import Converted, Integer
from discreet.learning.federated.crypto import KEY, Identity, signed_by
from discreet.learning.federated.noise_shares import GaussianShare, NoiseShare, PolyaShare

Packed = str | bytes | tuple[Any, ...]
_DEEPEST = 4
_LETTERS = {str: b"s", bytes: b"b", tuple: b"t"}


@dataclass(frozen=True, slots=True)
class Message:
    """What all messages have."""

    kind: ClassVar[str] = ""
    context: bytes

    def encode(self) -> bytes:
        """The message as bytes; `decode` reads them back.

        >>> decode(Survivors(bytes(32), ("ann", "bob")).encode())
        Survivors(context=b'...', names=('ann', 'bob'))
        """
        return pack((type(self).kind, *(getattr(self, field.name) for field in fields(self))))


@dataclass(frozen=True, slots=True)
class Signed(Message):
    """What all messages of clients have. `signature` comes last, and signs all the rest."""

    sender: str

    def body(self) -> bytes:
        """What is signed: a digest of everything but the signature."""
        content = (getattr(self, field.name) for field in fields(self) if field.name != "signature")
        return hashlib.sha256(pack((f"discreet secure aggregation 1: {type(self).kind}", *content))).digest()

    def signed(self, identity: Identity) -> Self:
        """The same message with the sender's signature."""
        changed: dict[str, Any] = {"signature": identity.sign(self.body())}
        return replace(self, **changed)

    def is_by(self, public: bytes) -> bool:
        """Whether the holder of this identity signed the message.

        >>> ann, bob = Identity.new(), Identity.new()
        >>> message = Agreement(bytes(32), "ann", ("ann", "bob"), ("ann",)).signed(ann)
        >>> message.is_by(ann.public), message.is_by(bob.public)
        (True, False)
        """
        signature: bytes = getattr(self, "signature", b"")
        return signed_by(public, signature, self.body())


@dataclass(frozen=True, slots=True)
class Advertisement(Signed):
    """A client's public keys: for sealing letters to it, and for agreeing on masks with it."""

    kind: ClassVar[str] = "advertisement"
    sealing: bytes
    padding: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Roster(Message):
    """The encoded advertisements of all clients that take part, in the order of their names."""

    kind: ClassVar[str] = "roster"
    advertisements: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Sharing(Signed):
    """A sealed letter to each other client with its two shares; digests of the seed and of all shares."""

    kind: ClassVar[str] = "sharing"
    recipients: tuple[str, ...]
    letters: tuple[bytes, ...]
    seed: bytes
    holders: tuple[str, ...]
    seed_shares: tuple[bytes, ...]
    key_shares: tuple[bytes, ...]
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Delivery(Message):
    """The letters to one client, and who wrote them."""

    kind: ClassVar[str] = "delivery"
    recipient: str
    dealers: tuple[str, ...]
    letters: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Masked(Signed):
    """A client's vector under its masks, little endian, and with whom it has masks."""

    kind: ClassVar[str] = "masked"
    sharers: tuple[str, ...]
    vector: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Survivors(Message):
    """The clients whose vectors are in the sum, in the order of their names."""

    kind: ClassVar[str] = "survivors"
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Agreement(Signed):
    """A client's word that it was shown these sharers and these survivors."""

    kind: ClassVar[str] = "agreement"
    sharers: tuple[str, ...]
    survivors: tuple[str, ...]
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Agreements(Message):
    """Who agreed, and their signatures under the same agreement."""

    kind: ClassVar[str] = "agreements"
    signers: tuple[str, ...]
    signatures: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Unmasking(Signed):
    """Shares: of the seeds of survivors, of the mask keys of those who left; empty where a letter was unreadable."""

    kind: ClassVar[str] = "unmasking"
    survivors: tuple[str, ...]
    seed_shares: tuple[bytes, ...]
    left: tuple[str, ...]
    key_shares: tuple[bytes, ...]
    signature: bytes = b""


PHASES: tuple[type[Signed], ...] = (Advertisement, Sharing, Masked, Agreement, Unmasking)
"""What clients send, in the order of the phases of a round."""
_ALL: tuple[type[Message], ...] = (*PHASES, Roster, Delivery, Survivors, Agreements)
_KINDS: dict[str, type[Message]] = {message.kind: message for message in _ALL}


def decode(data: bytes) -> Message:
    """The message that these bytes are; anything that is not exactly one message is refused.

    >>> decode(b"junk")
    Traceback (most recent call last):
    discreet.errors.InvalidData: the message ends too early
    """
    if not isinstance(data, bytes):
        raise InvalidData(f"a message is bytes, not {type(data).__name__}")
    value = unpack(data)
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str) or value[0] not in _KINDS:
        raise InvalidData("this is not a message of a round of secure aggregation")
    kind, content = _KINDS[value[0]], value[1:]
    checks = _FIELDS[kind.kind]
    if len(content) != len(checks) or not all(check(part) for check, part in zip(checks, content, strict=True)):
        raise InvalidData(f"the fields of this {kind.kind} are not as they should be")
    return kind(*content)


def context_of(digest: bytes, roster: Roster) -> bytes:
    """The digest of the terms together with the list of participants and their keys.

    >>> context_of(bytes(32), Roster(bytes(32), ())) == context_of(bytes(32), Roster(bytes(32), (b"x",)))
    False
    """
    return hashlib.sha256(pack(("context", digest, roster.encode()))).digest()


def in_order(names: tuple[str, ...]) -> bool:
    """Whether names are sorted, each once: there is one way only to write a list of clients.

    >>> in_order(("ann", "bob")), in_order(("ann", "ann")), in_order(("bob", "ann"))
    (True, False, False)
    """
    coded = [name.encode() for name in names]
    return all(first < second for first, second in pairwise(coded))


def _checks(kind: type[Message]) -> list[Callable[[Any], bool]]:
    hints = get_type_hints(kind)
    return [_CHECKS[hints[field.name]] for field in fields(kind)]


def _names(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, str) for part in value) and in_order(value)


def _texts(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(part, bytes) for part in value)


_CHECKS: dict[Any, Callable[[Any], bool]] = {
    bytes: lambda value: isinstance(value, bytes),
    str: lambda value: isinstance(value, str),
    tuple[str, ...]: _names,
    tuple[bytes, ...]: _texts,
}
_FIELDS = {name: _checks(kind) for name, kind in _KINDS.items()}


# Values as bytes: one way to write each, so that what is signed cannot be read in two ways. A value is text, bytes, or
# a tuple of values: one letter for its kind, eight bytes for its size (of a tuple: how many), then its content.


def pack(value: Packed) -> bytes:
    """The value as bytes.

    >>> pack(("a", b"bc"))
    b't\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02s\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01ab\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02bc'
    """
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def unpack(data: bytes) -> Packed:
    """The value that these bytes are; anything that `pack` would not have written is refused.

    >>> unpack(pack(("a", (b"bc", "ä"))))
    ('a', (b'bc', 'ä'))
    >>> unpack(b"s")
    Traceback (most recent call last):
    discreet.errors.InvalidData: the message ends too early
    """
    value, end = _read(memoryview(data), 0, 0)
    if end != len(data):
        raise InvalidData("there is something after the end of the message")
    return value


def _write(value: Packed, parts: list[bytes]) -> None:
    content = value.encode() if isinstance(value, str) else value
    parts += [_LETTERS[type(value)], len(content).to_bytes(8, "big")]
    if isinstance(content, tuple):
        for item in content:
            _write(item, parts)
    else:
        parts.append(content)


def _read(data: memoryview, start: int, depth: int) -> tuple[Packed, int]:
    begin = start + 9
    kind, size = bytes(data[start : start + 1]), int.from_bytes(data[start + 1 : begin], "big")
    if begin > len(data) or size > len(data) - begin:  # every value of a tuple takes at least one byte
        raise InvalidData("the message ends too early")
    if kind == b"t" and depth < _DEEPEST:
        return _items(data, begin, size, depth)
    content = bytes(data[begin : begin + size])
    if kind == b"b":
        return content, begin + size
    if kind == b"s":
        return _text(content), begin + size
    raise InvalidData("the message holds something of an unknown kind")


def _items(data: memoryview, begin: int, count: int, depth: int) -> tuple[Packed, int]:
    items = []
    for _ in range(count):
        item, begin = _read(data, begin, depth + 1)
        items.append(item)
    return tuple(items), begin


def _text(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InvalidData("the message holds text that is not UTF-8") from None


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
