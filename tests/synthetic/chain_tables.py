"""Generated tables with known structure."""

import numpy as np
from numpy.typing import NDArray

ADD = "add or remove one"


def chain(rows: int, sizes: tuple[int, ...], seed: int, copy: float = 0.7) -> NDArray[np.int64]:
    """Each column repeats the one before it (as far as its codes allow) with probability `copy`, else is uniform."""
    rng = np.random.default_rng(seed)
    codes = np.empty((rows, len(sizes)), np.int64)
    for column, size in enumerate(sizes):
        fresh = rng.integers(0, size, rows)
        kept = rng.random(rows) < copy if column else np.zeros(rows, bool)
        codes[:, column] = np.where(kept, codes[:, column - 1] % size if column else 0, fresh)
    return codes
