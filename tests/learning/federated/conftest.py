"""Parties to a round, with identities that are made once."""

from collections.abc import Callable

import pytest

from discreet.learning.federated import Client, Coordinator, Identity, NoiseShare, RoundSettings
from discreet.noise import DeterministicEntropy

IDENTITIES = {name: Identity.new(entropy=DeterministicEntropy(place)) for place, name in enumerate("abcdefgh")}


def make_terms(
    count: int,
    threshold: int,
    *,
    length: int = 3,
    bound: int = 1000,
    colluding: int = 0,
    round_id: bytes = b"r" * 16,
    noise: NoiseShare | None = None,
) -> RoundSettings:
    clients = {name: IDENTITIES[name].public for name in "abcdefgh"[:count]}
    return RoundSettings(
        round_id=round_id,
        clients=clients,
        threshold=threshold,
        colluding=colluding,
        length=length,
        bound=bound,
        noise=noise,
    )


class Table:
    """All parties of a round around one table, for tests that go step by step."""

    def __init__(self, terms: RoundSettings) -> None:
        self.terms = terms
        self.coordinator = Coordinator(terms)
        self.clients = {name: Client(terms, name, IDENTITIES[name]) for name in terms.names}

    def advertised(self):
        for client in self.clients.values():
            assert self.coordinator.receive(client.advertise().encode()) is None
        return self.coordinator.roster()

    def shared(self):
        roster = self.advertised()
        for client in self.clients.values():
            assert self.coordinator.receive(client.share(roster).encode()) is None
        return self.coordinator.deliveries()

    def masked(self, values=None):
        deliveries = self.shared()
        zeros = [0] * self.terms.length
        for name, client in self.clients.items():
            sent = client.mask(deliveries[name], (values or {}).get(name, zeros))
            assert self.coordinator.receive(sent.encode()) is None
        return self.coordinator.survivors()

    def agreed(self, values=None):
        survivors = self.masked(values)
        for client in self.clients.values():
            assert self.coordinator.receive(client.agree(survivors).encode()) is None
        return self.coordinator.agreements()


@pytest.fixture
def terms() -> Callable[..., RoundSettings]:
    return make_terms


@pytest.fixture
def identities() -> dict[str, Identity]:
    return IDENTITIES


@pytest.fixture
def table() -> Callable[..., Table]:
    return lambda *args, **settings: Table(make_terms(*args, **settings))
