"""A small federation of five clients, and wires that change what they send."""

from dataclasses import replace

import numpy as np

from discreet.learning.federated import Arrival, Federation, InProcessClients, Secure, run
from discreet.learning.federated.exchange import decode_answer
from discreet.learning.federated.member import seeded_identity
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.recipe import Sgd
from discreet.noise import DeterministicEntropy

NETWORK = Network([Dense(2)], Softmax(), inputs=(3,))
SECURE = Secure(threshold="3/5", colluding=0)
NAMES = ("ann", "bob", "cid", "dan", "eve")


def plan(**changes):
    settings_ = dict(clients=5, rounds=3, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None)
    return Federation(**(settings_ | changes))


def some_rows(seed, count=20, truth=((2.0, -1.0, 0.5), (-1.0, 1.0, 0.0))):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 3)).astype(np.float32)
    return x, (x @ np.array(truth).T + rng.normal(size=(count, 2)) * 0.1).argmax(axis=1)


DATA = {name: some_rows(place) for place, name in enumerate(NAMES)}
EMPTY = {name: (np.zeros((0, 3)), np.zeros(0, int)) for name in NAMES}


def trained(federation, data=DATA, *, wire=None, seed=7, each=None, network=NETWORK):
    fleet = InProcessClients(federation, network, data, seed=seed, wire=wire)
    return run(federation, network, fleet, entropy=DeterministicEntropy(seed), each=each)


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(first.parameters, second.parameters, strict=True))


class Wire:
    """What one client sends is changed on the way: `change(client, phase or kind, bytes, round)`."""

    def __init__(self, fleet, change):
        self._fleet, self.keys, self._change, self._asks = fleet, fleet.keys, change, 0

    def ask(self, orders):
        found = []
        for arrival in self._fleet.ask(orders):
            found += self._change(arrival, self._asks)
        self._asks += 1
        return found


def changed(federation, change, seed=7, each=None):
    fleet = Wire(InProcessClients(federation, NETWORK, DATA, seed=seed), change)
    return run(federation, NETWORK, fleet, entropy=DeterministicEntropy(seed), each=each)


def without_bob(rounds_=(1,)):
    """The run in which nothing of bob's arrives in these rounds."""
    return changed(plan(), lambda arrival, at: [] if arrival.client == "bob" and at in rounds_ else [arrival])


def kinds(outcome, name="bob"):
    return [(report.number, drop.kind) for report in outcome.reports for drop in report.dropped if drop.client == name]


def resigned(arrival, **fields):
    """bob's message with other content, and his signature."""
    message = replace(decode_answer(arrival.data), **fields)
    return Arrival(arrival.client, message.signed(seeded_identity(7, "bob")).encode())


def vector(message, change):
    return change(np.frombuffer(message.vector, "<i8").copy()).astype("<i8").tobytes()


def only_bob(change):
    """Change what bob sends in round 1."""

    def at_one(arrival, at):
        return [change(arrival)] if arrival.client == "bob" and at == 1 else [arrival]

    return at_one
