"""Starting values: standard normal numbers from a public seed. They hide nothing and need not be secret."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from discreet.noise import DeterministicEntropy
from discreet.noise.normal import rounded_gaussian

_GRID = 1 << 20


def normal(seed: int) -> Callable[[tuple[int, ...]], NDArray[np.float64]]:
    """A source of arrays of standard normal numbers, the same for the same seed.

    >>> normal(1)((2,)).shape, bool((normal(1)((3,)) == normal(1)((3,))).all())
    ((2,), True)
    """
    entropy = DeterministicEntropy(seed)
    return lambda shape: np.asarray(rounded_gaussian(_GRID, shape, entropy=entropy)) / _GRID
