"""The conductor of federated learning: whom to ask, what to make of the answers, and the next model.

It knows neither rows nor wires: clients are reached through a `Fleet`. The same conductor runs experiments in one
process and real clients over a network; sums are of whole numbers, so the same randomness gives the same models.

>>> import numpy as np
>>> from discreet.learning.federated import Federation, InProcessFleet, run
>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Network, Softmax
>>> from discreet.learning.sgd.recipe import Sgd
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> plan = Federation(
...     clients=3, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
... )
>>> rows = np.eye(4, 3), [0, 1, 0, 1]
>>> outcome = run(plan, network, InProcessFleet(plan, network, {"ann": rows, "bob": rows, "eve": rows}))
>>> len(outcome.reports), outcome.reports[-1].arrived, outcome.parameters[0].shape
(5, ('ann', 'bob', 'eve'), (4, 2))
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from discreet.errors import InvalidParameter, ReleaseFailed
from discreet.learning.federated.federation import Federation
from discreet.learning.federated.fleet import Fleet
from discreet.learning.federated.gathering import Gathered, Gathering, SecureGathering, TrustedGathering
from discreet.learning.federated.orders import NEVER
from discreet.learning.federated.progress import Progress, Report
from discreet.learning.networks.network import Network
from discreet.learning.sgd.clipping import UNITS
from discreet.learning.sgd.gradients import Ints, Parameters
from discreet.learning.sgd.run_state import State
from discreet.learning.sgd.training import step
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.loss import Loss


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
    def abandoned(self) -> tuple[int, ...]:
        """The rounds without a sum: paid for, and the model is as it was before them."""
        return tuple(report.number for report in self.reports if report.abandoned)

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
    checkpoint: Path | str | None = None,
) -> Outcome:
    """All rounds; `each` is called after every one of them, with its report and the model.

    Guarantee: the models, the clipping norms and the noisy losses of all rounds cost `federation.loss`. See
    `Federation`; what the coordinator itself sees costs `federation.loss_to_coordinator`.

    A client that dies, or sends what cannot be used, is dropped from its round and reported. A secure round that loses
    too many is abandoned, the model stays as it is, and the next round goes on. Without enough clients that take part
    in this run at all, and if no round had anybody's update, there is no outcome (`ReleaseFailed`).

    checkpoint: a file that holds the run. A coordinator that died goes on from it, with the next round; the one that
    was open is abandoned, because clients answer once. Without it, a coordinator that died cannot go on: clients
    decline another run.
    """
    keys = _keys(federation, fleet)
    with Progress.open(federation, network, keys, checkpoint, entropy) as progress:
        gathering = _gathering(federation, network, fleet, keys, progress.run, entropy)
        state = progress.state
        for number in range(len(progress.reports), federation.rounds):
            progress.begin(number)
            clip, gathered = state.clip, gathering.gather(number, state.parameters, state.clip)
            noisy = _noisy(federation, gathered, entropy)
            noisy_loss = None if noisy is None else _step(state, noisy, federation)
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
            progress.end(report)
            if each is not None:
                each(report, [p.copy() for p in state.parameters])
            _require_members(federation, progress.reports)
    _require_updates(progress.reports)
    return Outcome(state.parameters, tuple(progress.reports), federation)


def _require_members(federation: Federation, reports: list[Report]) -> None:
    """Fail once so many clients will not take part in this run that no further round can have a sum."""
    lost: dict[str, str] = {}
    for report in reports:
        lost |= {
            drop.client: drop.reason for drop in report.dropped if drop.kind == "declined" and drop.reason in NEVER
        }
        lost = {name: reason for name, reason in lost.items() if name not in report.arrived}
    needed = max(1, federation.threshold)
    if federation.clients - len(lost) >= needed:
        return
    why = "; ".join(f"{list(lost.values()).count(reason)}: {reason}" for reason in sorted(set(lost.values())))
    raise ReleaseFailed(
        f"{len(lost)} of {federation.clients} clients decline this run, {needed} are needed ({why}). "
        "A run that was begun before goes on from its checkpoint; a new one needs clients that agree to pay again"
    )


def _require_updates(reports: list[Report]) -> None:
    """Fail if the model is what it was at the start, with noise at most.

    Guarantee: whether this fails depends on who came, not on rows.
    """
    if any(report.arrived for report in reports) or not any(report.asked or report.abandoned for report in reports):
        return
    reasons = [report.abandoned or "nobody's update arrived" for report in reports]
    raise ReleaseFailed(
        f"none of the {len(reports)} rounds has anybody's update, so there is no model; all of them are spent. "
        f"The last round: {reasons[-1]}"
    )


def _keys(federation: Federation, fleet: Fleet) -> dict[str, bytes]:
    keys = dict(sorted(fleet.keys.items(), key=lambda item: item[0].encode()))
    if len(keys) != federation.clients:
        raise InvalidParameter("fleet", f"{len(keys)} clients", f"the {federation.clients} of the federation")
    return keys


def _gathering(
    federation: Federation,
    network: Network,
    fleet: Fleet,
    keys: Mapping[str, bytes],
    run_id: bytes,
    entropy: Entropy | None,
) -> Gathering:
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
