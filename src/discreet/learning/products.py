"""Matrix products in which a row of the result depends on that row of the input alone, bit for bit.

BLAS chooses its kernel by the shape of all that it is given, and the kernel may treat rows differently by their place:
so one more example in a lot can change the last bits of what is computed for the others (OpenBLAS does both: it has
other kernels for small products, and its kernels for AVX2 round every second group of six rows differently). Then what
an example changes would not be bounded by what it is clipped to.

Guarantee: a row of `product(x, weights)` depends on that row and on the weights alone, if BLAS rounds by shape, place
and number of threads and by nothing else, and if the rows that this machine was asked about show all differences.
Proof. BLAS is given blocks of one shape always, and rows stand only at places that are all treated alike: which ones
they are is asked of the machine at hand, once for each shape and number of threads, on public numbers. `company` tries
whole networks.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.learning.gradients import Array
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
