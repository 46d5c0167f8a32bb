"""Batch invariance: what is computed for an example does not depend on the others in its lot, bit for bit.

BLAS chooses its kernel by the shape of all that it is given, and the kernel may treat rows differently by their index:
so one more example in a lot can change the last bits of what is computed for the others (OpenBLAS does both: it has
other kernels for small products, and its kernels for AVX2 round every second group of six rows differently). A last bit
can open a ReLU or move a norm across a bound; then what an example changes would not be bounded by its clipping norm.

Guarantee: a row of `product(x, weights)` depends on that row and on the weights alone, if BLAS rounds by shape, index
and number of threads and by nothing else, and if the rows that this machine was asked about show all differences.
Proof. BLAS is given blocks of one shape always, and rows stand only at indexes that are all treated alike: which ones
they are is asked of the machine at hand, once for each shape and number of threads, on public numbers. Before a run
`require_batch_invariance` tries the whole model in the same way.

>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Network, Softmax
>>> from discreet.learning.sgd.batch_invariance import is_batch_invariant
>>> is_batch_invariant(Network([Dense(2)], Softmax(), inputs=(3,)))
True
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidData
from discreet.learning.sgd.clipping import Clip, clipped_sum
from discreet.learning.sgd.gradients import Array, Trainable
from discreet.noise import DeterministicEntropy
from discreet.threads import threads_in_force

_ROWS = 64  # in each product that BLAS is given
_ASKED = 8  # rows that are tried at every place


def product(x: Array, weights: Array) -> Array:
    """x @ weights, row by row.

    >>> x, weights = np.ones((3, 2), np.float32), np.ones((2, 1), np.float32)
    >>> product(x, weights).tolist()
    [[2.0], [2.0], [2.0]]
    """
    width = weights.shape[1]
    if width == 1:  # BLAS has products with a single vector of their own, which go by alignment too
        weights = np.repeat(weights, 2, axis=1)
    places = _alike(*weights.shape, weights.flags.c_contiguous, threads_in_force())
    y = np.empty((len(x), weights.shape[1]), np.float32)
    whole = len(x) - len(x) % len(places)
    if len(places) == _ROWS:
        blocks = x[:whole].reshape(whole // _ROWS, _ROWS, x.shape[1])
        np.matmul(blocks, weights, out=y[:whole].reshape(len(blocks), _ROWS, weights.shape[1]))
    else:
        y[:whole] = _apart(x[:whole], weights, places)
    if whole < len(x):
        last = np.zeros((len(places), x.shape[1]), np.float32)
        last[: len(x) - whole] = x[whole:]
        found = np.matmul(last[None], weights)[0] if len(places) == _ROWS else _apart(last, weights, places)
        y[whole:] = found[: len(x) - whole]
    return y[:, :width]


def _apart(x: Array, weights: Array, places: NDArray[np.int64]) -> Array:
    """The product with rows at the given places of blocks of zeros; a whole number of blocks."""
    blocks = np.zeros((len(x) // len(places), _ROWS, x.shape[1]), np.float32)
    blocks[:, places] = x.reshape(len(blocks), len(places), x.shape[1])
    found: Array = np.matmul(blocks, weights)[:, places]
    return found.reshape(len(x), weights.shape[1])


@lru_cache(maxsize=256)
def _alike(inner: int, width: int, contiguous: bool, threads: tuple[int, ...]) -> NDArray[np.int64]:
    """The places of a block whose rows are rounded like the first, for products of this shape, order and threads."""
    weights = _numbers(inner * width, 1).reshape((inner, width) if contiguous else (width, inner))
    rows = _numbers(_ASKED * inner, 2).reshape(_ASKED, 1, inner)
    found = np.matmul(np.repeat(rows, _ROWS, axis=1), weights if contiguous else weights.T)
    return np.flatnonzero((found == found[:, :1]).all(axis=(0, 2)))


def _numbers(count: int, seed: int) -> Array:
    """Public numbers between −1 and 1 to ask with."""
    words = DeterministicEntropy(seed).words(count)
    return (words.view(np.int64) * 2.0**-63).astype(np.float32)


_COUNT = 70  # more than a block of `product`
_PARTS = (slice(0, 1), slice(0, 33), slice(1, None), slice(5, 69), slice(64, None))


def require_batch_invariance(network: Trainable) -> None:
    """Refuse to train where rows depend on one another: no bound on one example's influence would hold."""
    if not is_batch_invariant(network):
        raise InternalError(
            "on this machine an example's gradient depends on the other examples of its lot, by rounding; "
            "please report the processor and what numpy.show_config() prints, and try OPENBLAS_NUM_THREADS=1"
        )


def is_batch_invariant(network: Trainable) -> bool:
    """Whether losses, gradients and their norms are the same, bit for bit, in several parts of a lot."""
    return _tried(network, threads_in_force())


@lru_cache(maxsize=64)
def _tried(network: Trainable, threads: tuple[int, ...]) -> bool:
    """The same, tried once for each number of threads."""
    x = _numbers(_COUNT * math.prod(network.inputs), 0).reshape(_COUNT, *network.inputs)
    parameters = network.start(seed=0)
    together = _rows(network, parameters, x)
    for part in _PARTS:
        fewer = _rows(network, parameters, x[part])
        if not all(np.array_equal(a[part], b) for a, b in zip(together, fewer, strict=True)):
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
