"""The conductor of federated learning: whom to ask, what to make of the answers, and the next model.

It knows neither rows nor wires: clients are reached through a `Fleet`. The same conductor runs experiments in one
process and real clients over a network; sums are of whole numbers, so the same randomness gives the same models.

>>> import numpy as np
>>> from discreet.learning.federated import Federation, InProcessFleet, run
>>> from discreet.learning.layers import Dense
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
>>> from discreet.learning.optimisers import Sgd
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> plan = Federation(
...     clients=3, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimiser=Sgd(1), secure=None
... )
>>> rows = np.eye(4, 3), [0, 1, 0, 1]
>>> outcome = run(plan, network, InProcessFleet(plan, network, {"ann": rows, "bob": rows, "eve": rows}))
>>> len(outcome.reports), outcome.reports[-1].arrived, outcome.parameters[0].shape
(5, ('ann', 'bob', 'eve'), (4, 2))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from discreet.errors import InvalidParameter
from discreet.learning.clipping import UNITS
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.fleet import Fleet
from discreet.learning.federated.gathering import Gathered, Gathering, SecureGathering, TrustedGathering
from discreet.learning.federated.judging import Dropped
from discreet.learning.federated.keys import random_key
from discreet.learning.gradients import Ints
from discreet.learning.network import Network, Parameters
from discreet.learning.state import State
from discreet.learning.training import step
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.loss import Loss

_RUN = 16


@dataclass(frozen=True, slots=True)
class Report:
    """One round. `asked`, `arrived`, `dropped` are for the coordinator: who took part is not covered by the loss.

    number: from 0. arrived: who is in the sum. abandoned: why there is no sum, or "". clip: the clipping norm of this
    round. noisy_loss: the mean loss of the model before this round, with noise, if the federation keeps a curve.
    """

    number: int
    asked: tuple[str, ...]
    arrived: tuple[str, ...]
    dropped: tuple[Dropped, ...]
    abandoned: str
    clip: float
    noisy_loss: float | None
    federation: Federation

    @property
    def spent(self) -> Loss:
        """What those who see the models have learned by now. An abandoned round counts: its sum may have been seen."""
        return self.federation.after(self.number + 1).loss

    def words(self) -> str:
        """The round in a line."""
        away = "; ".join(f"{drop.client or 'somebody'} {drop.kind} ({drop.phase})" for drop in self.dropped)
        state = f"abandoned: {self.abandoned}" if self.abandoned else f"{len(self.arrived)} of {len(self.asked)}"
        return f"round {self.number}: {state}" + (f"; {away}" if away else "")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """The model, and what happened on the way."""

    parameters: Parameters
    reports: tuple[Report, ...]
    federation: Federation

    @property
    def loss(self) -> Loss:
        """What those who see the model, and the models before it, learn."""
        return self.federation.loss

    @property
    def curve(self) -> list[float]:
        """The noisy loss of each round that has one: covered by `loss`."""
        return [report.noisy_loss for report in self.reports if report.noisy_loss is not None]


Each = Callable[[Report, Parameters], None]


def run(
    federation: Federation,
    network: Network,
    fleet: Fleet,
    *,
    entropy: Entropy | None = None,
    each: Each | None = None,
) -> Outcome:
    """All rounds; `each` is called after every one of them, with its report and the model.

    Guarantee: the models, the clipping norms and the noisy losses of all rounds cost `federation.loss`. See
    `Federation`; what the coordinator itself sees costs `federation.loss_to_coordinator`.

    A client that dies, or sends what cannot be used, is dropped from its round and reported. A secure round that loses
    too many is abandoned, the model stays as it is, and the next round goes on.
    """
    keys = _keys(federation, fleet)
    state, reports = State.start(network, federation.recipe), list[Report]()
    gathering = _gathering(federation, network, fleet, keys, entropy)
    for number in range(federation.rounds):
        clip, gathered = state.clip, gathering.gather(number, state.parameters, state.clip)
        noisy = _noisy(federation, gathered, entropy)
        noisy_loss = None if noisy is None else _step(state, noisy, federation)
        state.step = number + 1
        report = Report(
            number,
            gathered.asked,
            gathered.arrived,
            gathered.dropped,
            gathered.abandoned,
            float(clip),
            noisy_loss,
            federation,
        )
        reports.append(report)
        if each is not None:
            each(report, [p.copy() for p in state.parameters])
    return Outcome(state.parameters, tuple(reports), federation)


def _keys(federation: Federation, fleet: Fleet) -> dict[str, bytes]:
    keys = dict(sorted(fleet.keys.items(), key=lambda item: item[0].encode()))
    if len(keys) != federation.clients:
        raise InvalidParameter("fleet", f"{len(keys)} clients", f"the {federation.clients} of the federation")
    return keys


def _gathering(
    federation: Federation, network: Network, fleet: Fleet, keys: Mapping[str, bytes], entropy: Entropy | None
) -> Gathering:
    run_id = random_key(entropy)[:_RUN]
    kind = TrustedGathering if federation.secure is None else SecureGathering
    return kind(federation, network, fleet, dict(keys), run_id, entropy)


def _noisy(federation: Federation, gathered: Gathered, entropy: Entropy | None) -> Ints | None:
    """The sum with its noise: the coordinator's, or already in it. None if there is no sum.

    Guarantee: with a trusted coordinator there is always a sum, if only of nothing, and it always gets its noise.
    """
    total = gathered.total
    if total is None or federation.secure is not None or not federation.multiplier:
        return total
    noise: Ints = np.asarray(rounded_gaussian(federation.multiplier * UNITS, total.shape, entropy=entropy))
    return total + noise


def _step(state: State, noisy: Ints, federation: Federation) -> float | None:
    """The next model from a noisy sum, and the noisy loss of this one, if the federation keeps a curve."""
    step(state, noisy, federation.recipe, UNITS * federation.grain)
    return state.losses[-1] if federation.curve else None
