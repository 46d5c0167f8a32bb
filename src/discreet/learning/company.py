"""Does an example's gradient depend on its company? It must not; here the machine at hand is asked.

A matrix product of float32 numbers is rounded in an order that the linear algebra library chooses by the shape of the
product, so in a lot of 600 and in a lot of 601 the same example could have gradients that differ in the last bit. A
last bit can open a ReLU or move a norm across a bound; then one example more would change what the others contribute,
and the sensitivity would not be what it is said to be. Layers show the library products of one shape only
(`layers.product`); that a row's place does not matter either is a property of the library, tried here on public
numbers before a run.

>>> from discreet.learning.company import independent
>>> from discreet.learning.layers import Dense
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
>>> independent(Network([Dense(2)], Softmax(), inputs=(3,)))
True
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidData
from discreet.learning.clipping import Clip, clipped_sum
from discreet.learning.gradients import Array
from discreet.learning.starting import normal
from discreet.learning.trainable import Trainable
from discreet.threads import threads_in_force

_COUNT = 70  # more than a block of `layers.product`
_COMPANIES = (slice(0, 1), slice(0, 33), slice(1, None), slice(5, 69), slice(64, None))


def require_independent(network: Trainable) -> None:
    """Refuse to train where rows depend on one another: no bound on one example's influence would hold."""
    if not independent(network):
        raise InternalError(
            "on this machine an example's gradient depends on the other examples of its lot, by rounding; "
            "please report the processor and what numpy.show_config() prints, and try OPENBLAS_NUM_THREADS=1"
        )


def independent(network: Trainable) -> bool:
    """Whether losses, gradients and their norms are the same, bit for bit, in several companies and places."""
    return _tried(network, threads_in_force())


@lru_cache(maxsize=64)
def _tried(network: Trainable, threads: tuple[int, ...]) -> bool:
    """The same, tried once for each number of threads."""
    x = normal(0)((_COUNT, *network.inputs)).astype(np.float32)
    parameters = network.start(seed=0)
    together = _rows(network, parameters, x)
    for company in _COMPANIES:
        fewer = _rows(network, parameters, x[company])
        if not all(np.array_equal(a[company], b) for a, b in zip(together, fewer, strict=True)):
            return False
    return True


def _rows(network: Trainable, parameters: Sequence[Array], x: Array) -> list[NDArray[Any]]:
    y = _targets(network, len(x))
    with np.errstate(all="ignore"):
        losses, gradients = network.gradients(parameters, x, y)
    return [losses, *(side for gradient in gradients for side in gradient.sides), clipped_sum(gradients, Clip(1)).norms]


def _targets(network: Trainable, count: int) -> NDArray[Any]:
    """Targets to try with: one number for each example, or as many as come out."""
    trial = np.zeros((count, *network.outputs), np.int64)
    try:
        return network.loss.targets(trial[:, 0], network.outputs)
    except InvalidData:
        return network.loss.targets(trial, network.outputs)
