"""What the coordinator makes of what comes in: is it this round's, is it new, does it fit; and if not, why not.

=============  ========================================================================================
kind           means
=============  ========================================================================================
died           nothing came before time was up, or the transport reports a failure
late           it belongs to a round, or to a phase, that is over
replayed       the same message came before
wrong round    it belongs to no round that was opened: another run, another federation, another list
wrong shape    the vector has another length
NaN            the client says so, or sent floats that are not numbers
too large      the vector is larger than the federation allows
malformed      it cannot be read
refused        it is not signed by its sender, the sender was not asked, …: the reason says
declined       the client says that it does not answer: the reason says
=============  ========================================================================================
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from discreet.errors import InvalidData
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.fleet import Arrival
from discreet.learning.federated.keys import signed_by
from discreet.learning.federated.messages import Signed
from discreet.learning.federated.orders import NAN, Declined, Update, decode_answer, unpack_vector
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.gradients import Ints

Kind = Literal[
    "died", "late", "replayed", "wrong round", "wrong shape", "NaN", "too large", "malformed", "refused", "declined"
]
_HALF = 15  # bits
_NANS = np.array([0x7FF8 << 48, 0xFFF8 << 48], np.uint64)  # as floats: what NumPy calls NaN; as whole numbers: huge


@dataclass(frozen=True, slots=True)
class Dropped:
    """Something that is not in the sum: whose it is said to be, in which phase, what is wrong with it."""

    client: str
    phase: str
    kind: Kind
    reason: str


class Judge:
    """Remembers what came and which rounds there were, through all rounds of a run.

    >>> judge = Judge({"ann": bytes(32)})
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
            return Dropped(message.sender, phase, "replayed", "the same message came before; the first one stands")
        self._seen.add(stamp)
        if message.context in self._over:
            return Dropped(message.sender, phase, "late", "it belongs to a round that is over")
        if message.context not in self._now:
            return Dropped(message.sender, phase, "wrong round", "it belongs to no round of this run")
        if isinstance(message, Declined):
            kind: Kind = "NaN" if message.reason == NAN else "declined"
            return Dropped(message.sender, phase, kind, message.reason[:200])
        return message


def vector_of(message: Update, federation: Federation, length: int) -> Ints | Dropped:
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
