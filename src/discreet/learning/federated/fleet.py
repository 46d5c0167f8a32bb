"""How the conductor reaches its clients: a protocol of two methods, and a fleet in one process for experiments."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from numpy.typing import ArrayLike

from discreet.errors import InvalidParameter
from discreet.exact import integer
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.keys import Identity
from discreet.learning.federated.member import Member
from discreet.learning.networks.network import Network

Rows = tuple[ArrayLike, ArrayLike]
Wire = Callable[[str, bytes], bytes | None]
"""(client, answer) → what arrives at the coordinator; None if nothing does."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """Something that came in. `client` is whom the transport takes it to be from; that is believed by nobody.

    `failure`: nothing came, and the transport knows why.
    """

    client: str
    data: bytes = b""
    failure: str = ""


class Fleet(Protocol):
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


class InProcessFleet:
    """Clients in this process, each with its own rows. With a `seed` a run can be repeated exactly, and is not private.

    >>> import numpy as np
    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> network = Network([Dense(2)], Softmax(), inputs=(3,))
    >>> plan = Federation(
    ...     clients=2, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> rows = np.eye(4, 3), [0, 1, 0, 1]
    >>> fleet = InProcessFleet(plan, network, {"ann": rows, "bob": rows})
    >>> [arrival.client for arrival in fleet.ask({"bob": b"junk"})]
    ['bob']
    """

    def __init__(
        self,
        federation: Federation,
        network: Network,
        data: Mapping[str, Rows],
        *,
        seed: int | None = None,
        wire: Wire | None = None,
    ) -> None:
        if len(data) != federation.clients:
            raise InvalidParameter("data", f"rows of {len(data)} clients", f"those of all {federation.clients}")
        people = {name: Identity.new() if seed is None else seeded_identity(seed, name) for name in data}
        self.keys: Mapping[str, bytes] = {name: person.public for name, person in people.items()}
        self.members = {
            name: Member(
                federation,
                network,
                name,
                people[name],
                self.keys,
                *rows,
                secret=None if seed is None else seeded_secret(seed, name),
            )
            for name, rows in data.items()
        }
        self._wire = wire

    def ask(self, orders: Mapping[str, bytes]) -> Sequence[Arrival]:
        """One client after the other."""
        found = []
        for name, order in orders.items():
            try:
                sent = self.members[name].answer(order)
            except Exception as error:  # a client that breaks is not the coordinator's end
                found.append(Arrival(name, failure=f"it failed with {type(error).__name__}"))
                continue
            came = sent if self._wire is None else self._wire(name, sent)
            if came is not None:
                found.append(Arrival(name, came))
        return found


def seeded_secret(seed: int, name: str) -> bytes:
    """A client's secret for a run that is to be repeated exactly. **Never private.**

    >>> len(seeded_secret(1, "ann"))
    32
    """
    return _seeded("secret", seed, name)


def seeded_identity(seed: int, name: str) -> Identity:
    """A client's identity for a run that is to be repeated exactly. **Never private.**

    >>> seeded_identity(1, "ann") == seeded_identity(1, "ann")
    True
    """
    return Identity(_seeded("identity", seed, name))


def _seeded(what: str, seed: int, name: str) -> bytes:
    return hashlib.sha256(f"discreet federated {what} {integer(seed, 'seed')} {name}".encode()).digest()
