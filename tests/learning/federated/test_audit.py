"""Canaries in federated rounds: the ε that is proven stays below the claim, and exceeds it where noise is missing.

The attacker sees the models of all rounds. A canary is a client (or a row) whose gradient is one clipping norm in a
weight of its own; a fair coin decides whether it is there.
"""

from fractions import Fraction
from math import ceil, isqrt, sqrt
from unittest.mock import patch

import numpy as np
import pytest

from discreet.attacks.membership import CanaryGradients, coins
from discreet.learning.federated import Federation, InProcessClients, Secure, rounds, run
from discreet.learning.federated.noise_shares import GaussianShare
from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Squared
from discreet.learning.sgd.recipe import Sgd
from discreet.noise import DeterministicEntropy, discrete_gaussian, rounded_gaussian
from discreet.privacy.accounting import guarantee

DELTA = "1e-5"
LOUD = np.float32(1024)
COUNTS = {"client": 400, "example": 1200}


def canary(network, k, clip=1.0):
    """The row whose gradient lies in weight k alone, far longer than the clipping norm."""
    (inputs,), (width,) = network.inputs, network.outputs
    x, y = np.zeros((1, inputs), np.float32), np.zeros((1, width), np.float32)
    x[0, k // width], y[0, k % width] = LOUD, clip
    return x, y


def audited(level, secure, rate, seed):
    count = COUNTS[level]
    side = isqrt(count - 1) + 1
    network = Network([Dense(ceil(count / side))], Squared(), (side,))
    inside = coins(count, seed=seed)
    clients = count if level == "client" else 5
    extra = {} if level == "client" else {"examples": count // 2}
    plan = Federation.for_budget(
        epsilon=2, delta=DELTA, against="models", clients=clients, rounds=8, level=level, rate=rate, clip=1,
        optimizer=Sgd("1e-6"), secure=secure, **extra,
    )  # fmt: skip
    rows = [canary(network, k) if inside[k] else (np.zeros((0, side)), np.zeros((0, *network.outputs)))
            for k in range(count)]  # fmt: skip
    held = [[np.concatenate(part) for part in zip(*rows[c::clients], strict=True)] for c in range(clients)]
    models = []
    start = network.start(seed=plan.seed)[0]
    with patch.object(Network, "start", lambda self, seed: [np.zeros_like(start)]):
        fleet = InProcessClients(plan, network, {f"c{c:04}": tuple(one) for c, one in enumerate(held)}, seed=seed)
        run(plan, network, fleet, entropy=DeterministicEntropy(seed), each=lambda _, model: models.append(model[0]))
    path = np.array([np.zeros_like(start), *models])[:, :-1].reshape(9, -1).astype(np.float64)
    return CanaryGradients(
        directions=None,
        observed=(np.diff(path, axis=0) * float(plan.lot) / 1e-6)[:, :count],
        members=inside,
        design="coins",
        curve="gaussian" if plan.rate == 1 else "any",
        claimed=(guarantee(plan.loss, delta=DELTA).epsilon, DELTA),
        rate=plan.rate,
        noise=float(plan.multiplier) / sqrt(1 - sum(plan.riders)),
        confidence="0.999",
        seed=seed,
    ).find()


KINDS = {
    "clients": ("client", None, 1),
    "clients, sampled": ("client", None, "1/2"),
    "rows": ("example", None, 1),
    "rows under masks": ("example", Secure(threshold=1, colluding=0), 1),
    "rows under masks, sampled": ("example", Secure(threshold=1, colluding=0), "1/2"),
}


def twentieth(scale, shape, *, entropy=None):
    return rounded_gaussian(scale / 20, shape, entropy=entropy)


def twentieth_share(self, length, *, entropy=None):
    return np.asarray(discrete_gaussian(self.sigma / 20, (length,), entropy=entropy))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("kind", KINDS)
def test_no_audit_of_the_rounds_as_they_are_exceeds_their_epsilon_and_a_twentieth_of_the_noise_is_seen(kind):
    right = audited(*KINDS[kind], seed=2)
    assert not right.broken, right.bound
    assert right.auc().value > 0.55  # an audit that sees something
    with patch.object(rounds, "rounded_gaussian", twentieth), patch.object(GaussianShare, "draw", twentieth_share):
        wrong = audited(*KINDS[kind], seed=2)
    assert wrong.broken, wrong.bound
    assert right.claimed == wrong.claimed < Fraction(201, 100)
