"""What travels in a round: a `Request` from the coordinator to one client, and the client's answer, both as bytes.

With secure aggregation answers are the messages of `messages`; with a trusted coordinator an `Update`. A client that
will not or cannot answer says so: `Declined`.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

import numpy as np

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import rational
from discreet.learning.federated.crypto import signed_by
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.messages import PHASES, Message, Signed, decode, pack, unpack
from discreet.learning.sgd.clipping import UNITS
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
Kind = Literal[
    "died", "late", "replayed", "wrong round", "wrong shape", "NaN", "too large", "malformed", "refused", "declined"
]
_HALF = 15  # bits
_NANS = np.array([0x7FF8 << 48, 0xFFF8 << 48], np.uint64)  # as floats: what NumPy calls NaN; as whole numbers: huge


@dataclass(frozen=True, slots=True)
class Request:
    """What the coordinator asks of a client. It is not signed, because it is not believed (`Member`).

    `content` is the message of the coordinator that opens this phase, `model` the parameters where they are needed. In
    the first phase of a secure round the content is the `fingerprint` of the model that will come.

    >>> order = Request(federation=bytes(32), run=bytes(16), number=3, phase="update", content=b"", model=b"")
    >>> Request.decode(order.encode()) == order
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
    def decode(cls, data: bytes) -> "Request":
        """The order that these bytes are."""
        value = unpack(data) if isinstance(data, bytes) else ()
        kinds = (str, bytes, bytes, str, str, bytes, bytes)
        if not isinstance(value, tuple) or tuple(map(type, value)) != kinds or value[0] != "order":
            raise InvalidData("this is not an order of a coordinator")
        number = value[3]
        if not (number.isascii() and number.isdigit()) or str(int(number[:20])) != number:
            raise InvalidData("the number of the round is not a number")
        return cls(value[1], value[2], int(number), *value[4:])


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


@dataclass(frozen=True, slots=True)
class Arrival:
    """Something that came in. `client` is whom the transport takes it to be from; that is believed by nobody.

    `failure`: nothing came, and the transport knows why.
    """

    client: str
    data: bytes = b""
    failure: str = ""


class Transport(Protocol):
    """All clients, as the coordinator reaches them."""

    @property
    def keys(self) -> Mapping[str, bytes]:
        """The public key of every client's identity, by name. It does not change."""
        ...

    def ask(self, orders: Mapping[str, bytes]) -> Sequence[Arrival]:
        """Send an order to each of these clients; everything that came in before time was up, in any order.

        That may be answers to earlier orders, copies, anything. It does not raise for what a client did.
        """
        ...


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that is not in the sum: whose it is said to be, in which phase, what is wrong with it."""

    client: str
    phase: str
    kind: Kind
    reason: str


class AnswerCheck:
    """Remembers what came and which rounds there were, through all rounds of a run.

    >>> judge = AnswerCheck({"ann": bytes(32)})
    >>> judge.open(b"round 1")
    >>> judge.read(Arrival("ann", b"junk"), "update")
    Dropped(client='ann', phase='update', kind='malformed', reason='the message ends too early')
    """

    def __init__(self, keys: dict[str, bytes]) -> None:
        self._keys = keys
        self._now: set[bytes] = set()
        self._over: set[bytes] = set()
        self._seen: set[bytes] = set()

    def open(self, *contexts: bytes) -> None:
        """From now on these contexts are this round's; those before are over."""
        self._over |= self._now
        self._now = set(contexts)

    def also(self, context: bytes) -> None:
        """One more context of this round: secure rounds get one with the list of participants."""
        self._now.add(context)

    def read(self, arrival: Arrival, phase: str) -> Signed | Dropped:
        """A message of this round, signed by its sender and new; or why it is not."""
        whose = arrival.client if arrival.client in self._keys else ""
        if arrival.failure:
            return Dropped(whose, phase, "died", arrival.failure)
        try:
            message = decode_answer(arrival.data)
        except InvalidData as error:
            return Dropped(whose, phase, "malformed", str(error))
        if not isinstance(message, Signed):
            return Dropped(whose, phase, "refused", "clients do not send such messages")
        stamp = message.body()
        if not signed_by(self._keys.get(message.sender, b""), getattr(message, "signature", b""), stamp):
            return Dropped(whose, phase, "refused", "it is not signed by a client of this federation")
        return self._placed(message, phase, stamp)

    def _placed(self, message: Signed, phase: str, stamp: bytes) -> Signed | Dropped:
        if stamp in self._seen:
            return Dropped(message.sender, phase, "replayed", "the same message arrived before; the first one counts")
        self._seen.add(stamp)
        if message.context in self._over:
            return Dropped(message.sender, phase, "late", "it belongs to a round that is over")
        if message.context not in self._now:
            return Dropped(message.sender, phase, "wrong round", "it belongs to no round of this run")
        if isinstance(message, Declined):
            kind: Kind = "NaN" if message.reason == NAN else "declined"
            return Dropped(message.sender, phase, kind, message.reason[:200])
        return message


def checked_vector(message: Update, federation: Federation, length: int) -> Ints | Dropped:
    """The vector of an update if it is as it should be: so that no client has more influence than was agreed on.

    Guarantee: at level "client" its norm is at most UNITS, exactly.
    """
    try:
        vector = unpack_vector(message.vector, length)
    except InvalidData as error:
        return Dropped(message.sender, Update.kind, "wrong shape", str(error))
    most = federation.bound
    if bool((vector > most).any() or (vector < -most).any()):
        if np.isin(np.frombuffer(message.vector, "<u8"), _NANS).any():
            return Dropped(message.sender, Update.kind, "NaN", "it holds floats that are not numbers")
        return Dropped(message.sender, Update.kind, "too large", f"a number is larger in size than {most}")
    if federation.level == "client" and squared_norm(vector) > UNITS**2:
        return Dropped(message.sender, Update.kind, "too large", "its norm is larger than the clipping norm")
    return vector


def squared_norm(vector: Ints) -> int:
    """The sum of squares, exactly, of whole numbers up to 2³⁰ in size; at most 2³¹ of them.

    >>> squared_norm(np.array([3, -4, 1 << 30])) == 25 + (1 << 60)
    True
    """
    high, low = vector >> _HALF, vector & ((1 << _HALF) - 1)  # v = 2^15·high + low, each at most 2^15 in size
    squares = int(np.dot(high, high)), int(np.dot(high, low)), int(np.dot(low, low))
    return (squares[0] << 2 * _HALF) + (squares[1] << (_HALF + 1)) + squares[2]
