"""Weights of a dishonest coordinator: a first layer that sorts the rows of a batch into bins.

All units look along the same direction and differ in their biases: unit j is active for rows beyond the j-th quantile.
The next layer treats all units alike, so two neighboring units differ by the rows of one bin, and a bin with one row
gives it away (Fowl et al. 2022, the imprint module). The quantiles come from rows that the coordinator has or makes up.
"""

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.updates.reading import Floats
from discreet.errors import InvalidData
from discreet.exact import integer

_SMALL = 1e-3


def imprint(known: ArrayLike, *, units: int, outputs: int, seed: int) -> tuple[Floats, Floats]:
    """Two dense layers, each a matrix whose last row is its biases, with ReLU between them.

    >>> first, second = imprint([[0.0, 1.0], [1.0, 0.0], [0.5, 0.2]], units=4, outputs=3, seed=1)
    >>> first.shape, second.shape
    ((3, 4), (5, 3))
    """
    rows = np.asarray(known, np.float64)
    if rows.ndim != 2 or len(rows) < 2 or not np.isfinite(rows).all():
        raise InvalidData("known: expected two rows of finite numbers or more")
    integer(units, "units", at_least=2)
    integer(outputs, "outputs", at_least=2)
    way = np.random.default_rng([integer(seed, "seed", at_least=0), 8]).normal(size=rows.shape[1])
    way /= np.maximum(rows.std(axis=0), 1e-12) * np.sqrt(rows.shape[1])
    bins = np.quantile(rows @ way, (np.arange(units) + 0.5) / units)
    second = np.zeros((units + 1, outputs))
    second[:-1] = _SMALL / units * np.arange(1, outputs + 1) ** 2  # no class at the mean: every row has a slope
    return np.vstack([np.tile(way[:, None], units), -bins]), second
