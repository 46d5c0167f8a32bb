"""The same training without privacy, to compare with. **What it returns tells about the rows.**

>>> import numpy as np
>>> from discreet.learning.layers import Dense
>>> from discreet.learning.losses import Softmax
>>> from discreet.learning.network import Network
>>> from discreet.learning.optimizers import Sgd
>>> from discreet.learning.plain import train_without_privacy
>>> network = Network([Dense(2)], Softmax(), inputs=(2,))
>>> x, y = np.array([[1, 0], [0, 1]] * 50), np.array([0, 1] * 50)
>>> parameters = train_without_privacy(network, x, y, Sgd(1), lot=10, steps=50)
>>> bool((network.predict(parameters, x).argmax(axis=1) == y).all())
True
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.exact import integer
from discreet.learning.gradients import Array
from discreet.learning.network import Network, Parameters
from discreet.learning.optimizers import Optimizer
from discreet.noise import DeterministicEntropy, uniform_below
from discreet.threads import blas_threads


def train_without_privacy(
    network: Network, x: Array, y: NDArray[Any], optimizer: Optimizer, *, lot: int, steps: int, seed: int = 1
) -> Parameters:
    """Plain stochastic gradient descent on lots drawn with replacement. No guarantee: for comparison on public data."""
    x, y = network.examples(x), network.loss.targets(np.asarray(y), network.outputs)
    size, count = integer(lot, "lot", at_least=1), integer(steps, "steps", at_least=1)
    entropy = DeterministicEntropy(seed)
    parameters = network.start(seed=seed)
    memory = optimizer.memory(parameters)
    with blas_threads(1):
        for step in range(count):
            chosen = np.asarray(uniform_below(len(x), size, entropy=entropy))
            _, gradients = network.gradients(parameters, x[chosen], y[chosen])
            means = [gradient.summed() / np.float32(size) for gradient in gradients]
            optimizer.step(parameters, memory, means, step / count)
    return parameters
