"""The coordinator's side of one round: collect, check, pass on, add up. It learns the sum and who took part.

::

    receive(Advertisement)…  roster()      ▸ everybody
    receive(Sharing)…        deliveries()  ▸ one each
    receive(Masked)…         survivors()   ▸ all of them
    receive(Agreement)…      agreements()  ▸ all of them
    receive(Unmasking)…      total()

`receive` never raises for what a client sent: it returns a `Refusal` with the reason, and keeps it for the report. Who
has sent nothing valid when a phase is closed is dropped; so is who signed two different messages in one phase. The
round goes on while at least `threshold` clients are left, else `ReleaseFailed` says how many were and who was dropped.
Messages that are not signed by their sender are refused, but nobody is dropped for them: anyone may have sent them.

Masked vectors are kept until their phase is closed: 4 or 8 bytes a number and client.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter, ReleaseFailed
from discreet.learning.federated import crypto
from discreet.learning.federated.client import Client, mask_context, own_mask, pair_mask
from discreet.learning.federated.crypto import KEY, Identity, commitment, public, recover, usable
from discreet.learning.federated.messages import (
    PHASES,
    Advertisement,
    Agreement,
    Agreements,
    Delivery,
    Masked,
    Message,
    Roster,
    RoundSettings,
    Sharing,
    Signed,
    Survivors,
    Unmasking,
    context_of,
    decode,
)
from discreet.noise import Entropy

_S = TypeVar("_S", bound=Signed)
_LONGEST_NAME = 200
Wire = Callable[[str, bytes], bytes | None]
"""(client, message) → what arrives at the coordinator; None if nothing does."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that was not accepted: whose it was said to be, in which phase, and why."""

    client: str
    phase: str
    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Total:
    """The result of a round: the sum over the clients in it, and all that was refused on the way."""

    values: NDArray[np.int64]
    clients: tuple[str, ...]
    refusals: tuple[Refusal, ...]


class Coordinator:
    """The coordinator of one round.

    >>> from discreet.learning.federated import Coordinator, Identity, RoundSettings
    >>> clients = {name: Identity.new().public for name in ("ann", "bob")}
    >>> terms = RoundSettings(
    ...     round_id=bytes(16), clients=clients, threshold=2, colluding=0, length=3, bound=10, noise=None
    ... )
    >>> coordinator = Coordinator(terms)
    >>> coordinator.receive(b"junk")
    Refusal(client='', phase='advertisement', reason='the message ends too early')
    >>> coordinator.roster()
    Traceback (most recent call last):
    discreet.errors.ReleaseFailed: the round was abandoned: 0 clients sent a valid advertisement, 2 are needed; ...
    """

    def __init__(self, terms: RoundSettings) -> None:
        self.terms = terms
        self.refusals: list[Refusal] = []
        self._phase = 0
        self._expected = terms.names
        self._banned: set[str] = set()
        self._context = terms.digest
        self._got: dict[str, Signed] = {}
        self._keys: dict[str, Advertisement] = {}
        self._sharings: dict[str, Sharing] = {}
        self._sharers: tuple[str, ...] = ()
        self._masks = b""
        self._survivors: tuple[str, ...] = ()
        self._sum = np.zeros(0, crypto.dtype(terms.bits))

    @property
    def phase(self) -> str:
        """Which message of clients is awaited now; "over" after the last, or when the round was abandoned."""
        return PHASES[self._phase].kind if self._phase < len(PHASES) else "over"

    @property
    def missing(self) -> tuple[str, ...]:
        """Clients that may still send what this phase awaits."""
        return tuple(name for name in self._expected if name not in self._got and name not in self._banned)

    def receive(self, data: bytes) -> Refusal | None:
        """Take a message; None if it is accepted, else why it is not."""
        sender = ""
        try:
            message = decode(data)
            sender = getattr(message, "sender", "")[:_LONGEST_NAME]
            self._accept(message)
        except InvalidData as error:
            refusal = Refusal(sender, self.phase, str(error))
            self.refusals.append(refusal)
            return refusal
        return None

    def roster(self) -> Roster:
        """Close the first phase: everybody's keys, for everybody."""
        self._keys = self._close(Advertisement)
        roster = Roster(self.terms.digest, tuple(message.encode() for message in self._keys.values()))
        self._context = context_of(self.terms.digest, roster)
        return roster

    def deliveries(self) -> dict[str, Delivery]:
        """Close the second phase: to each client that shared its secrets, the letters of the others that did."""
        self._sharings = self._close(Sharing)
        self._sharers = tuple(self._sharings)
        self._masks = mask_context(self._context, self._sharers)
        return {name: self._delivery(name) for name in self._sharers}

    def survivors(self) -> Survivors:
        """Close the third phase: whose vectors are in the sum."""
        masked = self._close(Masked)
        self._survivors = tuple(masked)
        self._sum = np.zeros(self.terms.length, crypto.dtype(self.terms.bits))
        for message in masked.values():
            self._sum += np.frombuffer(message.vector, self._sum.dtype)
        return Survivors(self._context, self._survivors)

    def agreements(self) -> Agreements:
        """Close the fourth phase: who signed the list of survivors."""
        signed = self._close(Agreement)
        return Agreements(self._context, tuple(signed), tuple(message.signature for message in signed.values()))

    def total(self) -> Total:
        """Close the last phase: recover the seeds of survivors and the mask keys of the others, take the masks off."""
        answers = self._close(Unmasking)
        for name in self._survivors:
            seed = self._recovered(name, answers, "seed")
            crypto.apply(self._sum, own_mask(seed, self._masks), add=False)
        for gone in self._sharers:
            if gone not in self._survivors:
                self._remove_masks(gone, self._recovered(gone, answers, "key"))
        values = crypto.signed(self._sum, self.terms.bits)
        return Total(values, self._survivors, tuple(self.refusals))

    def _close(self, kind: type[_S]) -> dict[str, _S]:
        """End the phase that awaits this kind of message; the valid ones, in the order of names."""
        if self._phase >= len(PHASES) or PHASES[self._phase] is not kind:
            raise InvalidData(f"this round awaits: {self.phase}; the phase of {kind.kind} messages is not open")
        valid = {name: self._got.get(name) for name in self._expected}
        got = {name: message for name, message in valid.items() if isinstance(message, kind)}
        for name in self.missing:
            self.refusals.append(Refusal(name, self.phase, "dropped: nothing valid came before the phase was closed"))
        if len(got) < self.terms.threshold:
            sent = f"{len(got)} client{'s' * (len(got) != 1)} sent a valid {kind.kind}"
            raise self._abandoned(f"{sent}, {self.terms.threshold} are needed")
        self._phase, self._expected, self._got = self._phase + 1, tuple(got), {}
        return got

    def _abandoned(self, reason: str) -> ReleaseFailed:
        self._phase = len(PHASES)
        dropped = sorted({refusal.client for refusal in self.refusals if refusal.client})
        names = ", ".join(dropped[:20]) + (", …" if len(dropped) > 20 else "")
        return ReleaseFailed(f"the round was abandoned: {reason}; dropped or refused: {names or 'nobody'}")

    def _accept(self, message: Message) -> None:
        if not isinstance(message, Signed):
            raise InvalidData(f"clients do not send a {type(message).kind} message")
        place = PHASES.index(type(message))
        if place != self._phase:
            early = "late: its phase is closed" if place < self._phase else "too early: its phase is not open yet"
            raise InvalidData(f"the {type(message).kind} came {early}")
        self._authenticate(message)
        if message.sender in self._got:
            self._second(message)
        _CHECKS[type(message)](self, message)
        self._got[message.sender] = message

    def _authenticate(self, message: Signed) -> None:
        name = message.sender
        if name not in self.terms.clients:
            raise InvalidData("the sender is not a client of this round")
        if message.context != self._context:
            raise InvalidData("the message belongs to another round, or to another list of participants")
        if not message.is_by(self.terms.clients[name]):
            raise InvalidData("the message is not signed by its sender")
        if name not in self._expected or name in self._banned:
            raise InvalidData("the sender was dropped from this round before")

    def _second(self, message: Signed) -> None:
        """A copy changes nothing. Two different messages, both signed, show that the sender cheats, or is broken."""
        if self._got[message.sender].body() == message.body():
            raise InvalidData("the same message arrived before; the first one counts")
        del self._got[message.sender]
        self._banned.add(message.sender)
        raise InvalidData("dropped: the sender signed two different messages for one phase")

    def _check_advertisement(self, message: Advertisement) -> None:
        if not usable(message.sealing) or not usable(message.padding):
            raise InvalidData("no secret can be agreed with these keys")

    def _check_sharing(self, message: Sharing) -> None:
        others = tuple(name for name in self._keys if name != message.sender)
        digests = (message.seed, *message.seed_shares, *message.key_shares)
        counts = len(message.letters), len(message.seed_shares), len(message.key_shares)
        complete = counts == (len(others), len(self._keys), len(self._keys)) and message.holders == tuple(self._keys)
        if message.recipients != others or not complete or any(len(digest) != KEY for digest in digests):
            raise InvalidData("the shares are not one for each client on the roster")

    def _check_masked(self, message: Masked) -> None:
        if message.sharers != self._sharers:
            raise InvalidData("the vector has masks with others than those who shared their secrets")
        crypto.parse(message.vector, self.terms.bits, self.terms.length)

    def _check_agreement(self, message: Agreement) -> None:
        if message.sharers != self._sharers or message.survivors != self._survivors:
            raise InvalidData("the sender agreed to another list of survivors")

    def _check_unmasking(self, message: Unmasking) -> None:
        left = tuple(name for name in self._sharers if name not in self._survivors)
        counts = len(message.seed_shares), len(message.key_shares)
        lists = (message.survivors, message.left) == (self._survivors, left)
        if not lists or counts != (len(self._survivors), len(left)):
            raise InvalidData("the shares are not one for each client that shared its secrets")

    def _delivery(self, name: str) -> Delivery:
        dealers = tuple(dealer for dealer in self._sharers if dealer != name)
        letters = (self._sharings[d].letters[self._sharings[d].recipients.index(name)] for d in dealers)
        return Delivery(self._context, name, dealers, tuple(letters))

    def _recovered(self, owner: str, answers: dict[str, Unmasking], what: str) -> bytes:
        """A client's seed or mask key, from shares that are what it promised to give out."""
        promised = self._sharings[owner]
        marks = dict(zip(promised.holders, _marks(promised, what), strict=True))
        shares = {}
        for holder, answer in answers.items():
            share = _share_of(answer, owner, what)
            if share and commitment(share, f"{what} share".encode()) == marks[holder]:
                shares[self.terms.points[holder]] = share
            else:
                fault = "was not the one promised" if share else "could not be read"
                reason = f"its share of the {what} of {owner!r} {fault}: one of the two is wrong"
                self.refusals.append(Refusal(holder, Unmasking.kind, reason))
        try:
            secret = recover(shares, threshold=self.terms.threshold)
            true = public(secret) == self._keys[owner].padding if what == "key" else _is_seed(secret, promised)
        except InvalidData as error:
            reason = f"the {what} of {owner!r} is lost, by its fault or that of those who hold its shares: {error}"
            raise self._abandoned(reason) from None
        if not true:
            raise self._abandoned(f"{owner!r} shared something else than its {what}")
        return secret

    def _remove_masks(self, gone: str, secret: bytes) -> None:
        """Take off the masks that survivors share with a client that left: what it would have added, is added."""
        for name in self._survivors:
            key = pair_mask(secret, self._keys[name].padding, self._masks, (gone, name))
            crypto.apply(self._sum, key, add=crypto.adds(gone, name))


_CHECKS: dict[type[Signed], Callable[..., None]] = {
    Advertisement: Coordinator._check_advertisement,
    Sharing: Coordinator._check_sharing,
    Masked: Coordinator._check_masked,
    Agreement: Coordinator._check_agreement,
    Unmasking: Coordinator._check_unmasking,
}


def _marks(sharing: Sharing, what: str) -> tuple[bytes, ...]:
    return sharing.seed_shares if what == "seed" else sharing.key_shares


def _share_of(answer: Unmasking, owner: str, what: str) -> bytes:
    names, shares = (answer.survivors, answer.seed_shares) if what == "seed" else (answer.left, answer.key_shares)
    return shares[names.index(owner)]


def _is_seed(secret: bytes, sharing: Sharing) -> bool:
    return commitment(secret, b"seed") == sharing.seed


def simulate_round(
    terms: RoundSettings,
    identities: Mapping[str, Identity],
    inputs: Mapping[str, ArrayLike],
    *,
    leaving: Mapping[str, str] | None = None,
    wire: Wire | None = None,
    entropy: Entropy | None = None,
) -> Total:
    """The total of a round in which all follow the protocol, except that some leave, and that the wire may do anything.

    `leaving` names the first message that a client no longer sends: "advertisement", "sharing", "masked", "agreement"
    or "unmasking". A client that refuses something leaves at that point.

    >>> from discreet.learning.federated import Identity, RoundSettings, simulate_round
    >>> people = {name: Identity.new() for name in ("ann", "bob", "eve")}
    >>> terms = RoundSettings(
    ...     round_id=bytes(16), clients={name: person.public for name, person in people.items()},
    ...     threshold=2, colluding=0, length=2, bound=100, noise=None,
    ... )
    >>> inputs = {"ann": [1, 2], "bob": [10, -20], "eve": [100, 100]}
    >>> total = simulate_round(terms, people, inputs, leaving={"eve": "masked"})
    >>> total.values, total.clients
    (array([ 11, -18]), ('ann', 'bob'))
    """
    coordinator = Coordinator(terms)
    clients = {name: Client(terms, name, identities[name], entropy=entropy) for name in inputs}
    round_ = _Round(coordinator, _leaving(leaving or {}), wire or _straight)
    round_.collect(clients, 0, lambda client: client.advertise())
    roster = coordinator.roster()
    round_.collect(clients, 1, lambda client: client.share(roster))
    deliveries = coordinator.deliveries()
    clients = {name: clients[name] for name in deliveries}
    round_.collect(clients, 2, lambda client: client.mask(deliveries[client.name], inputs[client.name]))
    survivors = coordinator.survivors()
    clients = {name: clients[name] for name in survivors.names}
    round_.collect(clients, 3, lambda client: client.agree(survivors))
    agreements = coordinator.agreements()
    clients = {name: clients[name] for name in agreements.signers}
    round_.collect(clients, 4, lambda client: client.unmask(agreements))
    return coordinator.total()


class _Round:
    def __init__(self, coordinator: Coordinator, leaving: dict[str, int], wire: Wire) -> None:
        self._coordinator, self._leaving, self._wire = coordinator, leaving, wire

    def collect(self, clients: Mapping[str, Client], phase: int, step: Callable[[Client], Message]) -> None:
        """Ask each client that is still there for its message, and hand over what arrives."""
        for name, client in clients.items():
            if self._leaving.get(name, len(PHASES)) <= phase:
                continue
            try:
                sent = step(client).encode()
            except InvalidData:
                self._leaving[name] = phase
                continue
            arrived = self._wire(name, sent)
            if arrived is not None:
                self._coordinator.receive(arrived)


def _straight(client: str, message: bytes) -> bytes:
    return message


def _leaving(leaving: Mapping[str, str]) -> dict[str, int]:
    kinds: list[Any] = [phase.kind for phase in PHASES]
    for kind in leaving.values():
        if kind not in kinds:
            raise InvalidParameter("leaving", kind, f"one of {', '.join(kinds)}")
    return {name: kinds.index(kind) for name, kind in leaving.items()}
