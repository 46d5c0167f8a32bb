"""A whole round in one process: for experiments, tests, and to see what each side sends."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.federated.client import Client
from discreet.learning.federated.coordinator import Coordinator, Total
from discreet.learning.federated.keys import Identity
from discreet.learning.federated.messages import PHASES, Message
from discreet.learning.federated.terms import Terms
from discreet.noise import Entropy

Wire = Callable[[str, bytes], bytes | None]
"""(client, message) → what arrives at the coordinator; None if nothing does."""


def rehearse(
    terms: Terms,
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

    >>> from discreet.learning.federated import Identity, Terms, rehearse
    >>> people = {name: Identity.new() for name in ("ann", "bob", "eve")}
    >>> terms = Terms(
    ...     round_id=bytes(16), clients={name: person.public for name, person in people.items()},
    ...     threshold=2, colluding=0, length=2, bound=100, noise=None,
    ... )
    >>> inputs = {"ann": [1, 2], "bob": [10, -20], "eve": [100, 100]}
    >>> total = rehearse(terms, people, inputs, leaving={"eve": "masked"})
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
