"""What one client adds to a round's sum: a vector of whole numbers, whatever its rows are.

>>> import numpy as np
>>> from fractions import Fraction
>>> from discreet.learning.federated import Federation
>>> from discreet.learning.federated.client_updates import update
>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Softmax
>>> from discreet.learning.networks.network import Network
>>> from discreet.learning.sgd.recipe import Sgd
>>> network = Network([Dense(2)], Softmax(), inputs=(3,))
>>> plan = Federation(
...     clients=10, rounds=5, level="client", rate=1, multiplier=1, clip=1, optimizer=Sgd(1), secure=None
... )
>>> mine = update(plan, network, network.start(seed=1), Fraction(1), np.eye(4, 3), np.array([0, 1, 0, 1]))
>>> mine.vector.shape, mine.finite
((10,), True)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.learning.federated.federation import Federation, Local
from discreet.learning.networks.network import Network
from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum
from discreet.learning.sgd.gradients import Array, Ints, Parameters, Rows
from discreet.learning.sgd.run_state import State
from discreet.learning.sgd.training import RIDERS, contributions
from discreet.noise import Entropy, poisson_sample

_AT_ONCE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class Contribution:
    """A client's vector, in units of the clipping norm / `UNITS`; zero, and not `finite`, where floats failed.

    `finite` depends on the rows: it may be told to a coordinator that is trusted with the rows, and to nobody else.
    """

    vector: Ints
    finite: bool


def length(network: Network) -> int:
    """How many whole numbers a client sends.

    >>> from discreet.learning.networks.layers import Dense
    >>> from discreet.learning.networks.network import Softmax
    >>> length(Network([Dense(2)], Softmax(), inputs=(3,)))
    10
    """
    return sum(p.size for p in network.start(seed=0)) + RIDERS


def update(
    federation: Federation,
    network: Network,
    parameters: Sequence[Array],
    clip: Fraction,
    x: Array,
    y: NDArray[Any],
    *,
    entropy: Entropy | None = None,
) -> Contribution:
    """What a client adds, from the global parameters and its own rows; `entropy` draws its lot at level "example".

    Guarantee: whatever parameters, clip and rows are, at level "client" the vector's norm is at most UNITS, exactly; at
    level "example" one row more or less changes the vector by at most UNITS, whatever the coins of other rows are.
    """
    x, y = network.examples(x), network.loss.targets(np.asarray(y), network.outputs)
    if federation.level == "example":
        return _of_examples(federation, network, parameters, clip, x, y, entropy)
    return _of_client(federation, network, parameters, clip, x, y)


def _of_examples(
    federation: Federation,
    network: Network,
    parameters: Sequence[Array],
    clip: Fraction,
    x: Array,
    y: NDArray[Any],
    entropy: Entropy | None,
) -> Contribution:
    """The clipped gradients of a lot, added up, and clamped to what is sent.

    Proof. `training.contributions` has the bound for the sum. Clamping each number to an interval brings no two
    vectors further apart. What is not finite adds nothing, example by example. No part of a lot is larger than a sum
    takes, which would be refused with words about the lot.
    """
    lot = poisson_sample(federation.rate, len(x), entropy=entropy)
    state = State(0, list(parameters), [], [], clip)
    total = contributions(network, state, x, y, lot, federation.recipe)
    most = federation.bound // federation.grain
    return Contribution(np.clip(total, -most, most), True)


def _of_client(
    federation: Federation,
    network: Network,
    parameters: Sequence[Array],
    clip: Fraction,
    x: Array,
    y: NDArray[Any],
) -> Contribution:
    """The client's move as one clipped vector, and its riders.

    Proof. `clipped_sum` of a lot of one "example", which is the whole move, has norm at most √(1 − s)·UNITS, where s is
    the share of the riders; rider j is a whole number of size at most √s_j·UNITS (`_rider`); Σs_j = s.
    """
    nothing = np.zeros(sum(p.size for p in parameters) + RIDERS, np.int64)
    if not len(x):
        return Contribution(nothing, True)
    with np.errstate(all="ignore"):
        loss, move = _move(network, parameters, x, y, federation.local)
        finite = bool(np.isfinite(loss) and all(np.isfinite(part).all() for part in move))
        if not finite:
            return Contribution(nothing, False)
        found = clipped_sum([Rows(part[None]) for part in move], Clip(clip), share=1 - sum(federation.riders))
    level = min(max(loss / float(federation.worst_loss), 0.0), 1.0)
    small = 1.0 if found.norms[0] <= float(clip) else -1.0
    riders = [_rider(value, share) for value, share in zip((level, small), federation.riders, strict=True)]
    units = [part.ravel() for part in found.units]
    return Contribution(np.concatenate([*units, np.array(riders, np.int64)]), True)


def _rider(value: float, share: Fraction) -> int:
    """A value of size at most 1 in whole numbers of size at most √share·UNITS.

    Proof. A float of size at most 1 times the whole number ⌊√share·UNITS⌋ < 2⁵³ is rounded to at most that number,
    because rounding is monotone, and cut towards zero.
    """
    return math.trunc(value * math.isqrt(int(share * UNITS * UNITS)))


def _move(
    network: Network, parameters: Sequence[Array], x: Array, y: NDArray[Any], local: Local | None
) -> tuple[float, Parameters]:
    """The client's mean loss, and the direction it moves away from: its gradient, or what its own steps take off."""
    loss, gradient = _mean_gradient(network, parameters, x, y)
    if local is None:
        return loss, gradient
    own = [np.array(p, np.float32) for p in parameters]
    lots = 1 if local.batch is None else -(-len(x) // local.batch)
    for step in range(local.epochs * lots):
        part = slice(step % lots, None, lots)
        if step or lots > 1:
            _, gradient = _mean_gradient(network, own, x[part], y[part])
        for mine, slope in zip(own, gradient, strict=True):
            np.subtract(mine, np.float32(local.rate) * slope, out=mine)
    return loss, [np.asarray(p - q, np.float32) for p, q in zip(parameters, own, strict=True)]


def _mean_gradient(
    network: Network, parameters: Sequence[Array], x: Array, y: NDArray[Any]
) -> tuple[float, Parameters]:
    """The mean of losses and gradients over all rows, some at a time."""
    total, sums = 0.0, [np.zeros(p.shape, np.float64) for p in parameters]
    size = getattr(network, "part", None) or _AT_ONCE
    for start in range(0, len(x), size):
        losses, gradients = network.gradients(parameters, x[start : start + size], y[start : start + size])
        total += float(losses.sum(dtype=np.float64))
        for added, gradient in zip(sums, gradients, strict=True):
            np.add(added, gradient.summed(), out=added)
    return total / len(x), [(added / len(x)).astype(np.float32) for added in sums]
