"""What travels in a round: an `Order` from the coordinator to one client, and the client's answer, both as bytes.

With secure aggregation answers are the messages of `messages`; with a trusted coordinator an `Update`. A client that
will not or cannot answer says so: `Declined`.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import rational
from discreet.learning.federated.messages import PHASES, Message, Signed, decode
from discreet.learning.federated.packing import pack, unpack
from discreet.learning.sgd.gradients import Array, Ints, Parameters

UPDATE = "update"
"""The one phase of a round with a trusted coordinator."""

SECURE = tuple(phase.kind for phase in PHASES)
"""The phases of a secure round."""

NAN = "its update is not a finite number"
"""The reason of a client whose own computation failed."""

OTHER_RUN = "this client takes part in another run; another one would cost again"
UNPAID = "this client's own budget does not pay for this run"
NEVER = (OTHER_RUN, UNPAID)
"""Reasons of a client that will not answer any round of this run."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the coordinator asks of a client. It is not signed, because it is not believed (`Member`).

    `content` is the message of the coordinator that opens this phase, `model` the parameters where they are needed. In
    the first phase of a secure round the content is the `fingerprint` of the model that will come.

    >>> order = Order(federation=bytes(32), run=bytes(16), number=3, phase="update", content=b"", model=b"")
    >>> Order.decode(order.encode()) == order
    True
    """

    federation: bytes
    run: bytes
    number: int
    phase: str
    content: bytes
    model: bytes

    def encode(self) -> bytes:
        """The order as bytes."""
        number = str(self.number)
        return pack(("order", self.federation, self.run, number, self.phase, self.content, self.model))

    @classmethod
    def decode(cls, data: bytes) -> "Order":
        """The order that these bytes are."""
        value = unpack(data) if isinstance(data, bytes) else ()
        kinds = (str, bytes, bytes, str, str, bytes, bytes)
        if not isinstance(value, tuple) or tuple(map(type, value)) != kinds or value[0] != "order":
            raise InvalidData("this is not an order of a coordinator")
        number = value[3]
        if not (number.isascii() and number.isdigit()) or str(int(number[:20])) != number:
            raise InvalidData("the number of the round is not a number")
        return cls(value[1], value[2], int(number), *value[4:])


def round_id(federation: bytes, run: bytes, number: int, model: bytes = b"") -> bytes:
    """32 bytes that stand for one round of one run of the federation with this digest, and for its model's fingerprint.

    >>> round_id(bytes(32), bytes(16), 1) == round_id(bytes(32), bytes(16), 2)
    False
    """
    return hashlib.sha256(pack(("discreet federated round 1", federation, run, str(number), model))).digest()


def fingerprint(model: bytes) -> bytes:
    """32 bytes that stand for a model and its clipping norm, as they are sent.

    >>> fingerprint(b"one model") == fingerprint(b"another")
    False
    """
    return hashlib.sha256(model).digest()


@dataclass(frozen=True, slots=True)
class Update(Signed):
    """A client's vector, for a coordinator that is trusted with it: whole numbers of 64 bits, little endian."""

    kind: ClassVar[str] = "update"
    vector: bytes
    signature: bytes = b""


@dataclass(frozen=True, slots=True)
class Declined(Signed):
    """A client's word that it does not answer, and why. The reason names nothing private."""

    kind: ClassVar[str] = "declined"
    reason: str
    signature: bytes = b""


def decode_answer(data: bytes) -> Message:
    """What a client sent.

    >>> decode_answer(Declined(bytes(32), "ann", "no time").encode())
    Declined(context=b'...', sender='ann', reason='no time', signature=b'')
    >>> decode_answer(b"junk")
    Traceback (most recent call last):
    discreet.errors.InvalidData: the message ends too early
    """
    value = unpack(data) if isinstance(data, bytes) else ()
    if not isinstance(value, tuple) or not value:
        raise InvalidData("this is not an answer of a client")
    types = tuple(map(type, value[1:]))
    if value[0] == Update.kind and types == (bytes, str, bytes, bytes):
        return Update(*value[1:])
    if value[0] == Declined.kind and types == (bytes, str, str, bytes):
        return Declined(*value[1:])
    return decode(data)


def pack_model(parameters: Sequence[Array], clip: Fraction) -> bytes:
    """The model and the clipping norm of a round.

    >>> start = [np.array([[1, 2]], np.float32)]
    >>> again, clip = unpack_model(pack_model(start, Fraction(1, 3)), start)
    >>> again[0].tolist(), clip
    ([[1.0, 2.0]], Fraction(1, 3))
    """
    return pack((str(clip), *(np.asarray(p, "<f4").tobytes() for p in parameters)))


def unpack_model(data: bytes, like: Sequence[Array]) -> tuple[Parameters, Fraction]:
    """The model and the clipping norm; refused if its shapes are not those of the network.

    Infinite and NaN parameters are let through: an update computed from them is bounded like any other.
    """
    value = unpack(data)
    wanted = [4 * p.size for p in like]
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        raise InvalidData("this is not a model")
    if [len(part) if isinstance(part, bytes) else None for part in value[1:]] != wanted:
        raise InvalidData("the model has other shapes than this network")
    try:
        clip = rational(value[0], "clip", at_least=Fraction(1, 10**6), at_most=10**6)
    except InvalidParameter as error:
        raise InvalidData(str(error)) from None
    arrays = (np.frombuffer(part, "<f4").astype(np.float32) for part in value[1:])
    return [array.reshape(p.shape) for array, p in zip(arrays, like, strict=True)], clip


def pack_vector(vector: Ints) -> bytes:
    """Whole numbers as they are sent.

    >>> pack_vector(np.array([1, -1])).hex()
    '0100000000000000ffffffffffffffff'
    """
    return vector.astype("<i8").tobytes()


def unpack_vector(data: bytes, length: int) -> Ints:
    """Whole numbers as they came; wrong shapes are refused."""
    if len(data) != 8 * length:
        held = f"{len(data) // 8} numbers" if len(data) % 8 == 0 else f"{len(data)} bytes"
        raise InvalidData(f"the vector holds {held}, expected {length} numbers")
    return np.frombuffer(data, "<i8").astype(np.int64)
