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
roster (`context_of`): whatever was made for another round, or for another list of participants, is refused.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any, ClassVar, Self, get_type_hints

from discreet.errors import InvalidData
from discreet.learning.federated.crypto import Identity, signed_by

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
