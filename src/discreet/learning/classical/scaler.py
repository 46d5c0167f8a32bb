"""Standard scaler: noisy means and deviations of columns, from one release of exact sums."""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.exact import Number
from discreet.learning.classical import reading
from discreet.learning.classical.estimator import Floats, Transformer
from discreet.learning.classical.sums import UNIT, Ints, Noise, Part, length, planned, products, row_square, snapped
from discreet.noise import Entropy


class StandardScaler(Transformer):
    """Columns shifted to mean 0 and scaled to deviation 1, both (ε, δ)-differentially private.

    `bounds` are declared; `rows` as in `Ridge`. A column whose noisy variance is not positive is only shifted.

    Guarantee: `fit` costs `loss_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds 1 to the count, z to the sums and z² to the sums of squares, bounded in `moment_parts`.

    >>> import numpy as np
    >>> x = np.linspace(10, 20, 1000)[:, None]
    >>> scaler = StandardScaler(epsilon=5, delta=0, bounds=(0, 30)).fit(x)
    >>> bool(abs(scaler.mean_[0] - 15) < 1), scaler.loss_
    (True, Pure(epsilon=Fraction(5, 1)))
    """

    mean_: Floats
    var_: Floats
    scale_: Floats
    n_samples_seen_: float

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: reading.Bounds,
        with_mean: bool = True,
        with_std: bool = True,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.with_mean, self.with_std, self.rows, self.entropy = with_mean, with_std, rows, entropy

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn, and spend `loss_`."""
        values = self._begin(X)
        box = reading.box_of(self.bounds, self._columns()).centred()
        noise = planned(moment_parts(values.shape[1]), epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z = snapped(values, box)
        count, mean, var = noisy_moments(z, np.zeros(len(z), np.int64), 1, noise, self.entropy)
        self.loss_ = noise.loss
        self.n_samples_seen_ = float(count[0])
        self.mean_, self.var_ = box.centre + box.half * mean[0], box.half**2 * var[0]
        self.scale_ = np.where(self.var_ > 0, np.sqrt(np.maximum(self.var_, 0)), 1.0)
        return self

    def transform(self, X: Any) -> Floats:
        """(x − mean)/deviation."""
        values = self._later(X)
        shifted = values - self.mean_ if self.with_mean else values
        return np.asarray(shifted / self.scale_ if self.with_std else shifted, np.float64)

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the units of the data."""
        self._fitted()
        values, _ = reading.features(X)
        grown = values * self.scale_ if self.with_std else values
        return np.asarray(grown + self.mean_ if self.with_mean else grown, np.float64)


def moment_parts(columns: int) -> list[Part]:
    """What a row adds to a count, to sums and to sums of squares of its columns, in its group.

    Proof. 1; |z| ≤ UNIT in each column; z² ≤ UNIT². Every row is in one group, so other groups' sums do not move.
    """
    square = row_square(columns, None)
    return [
        Part(1, 1, 1, Fraction(1, 10)),
        Part(length(columns, square), square, UNIT, Fraction(9, 20)),
        Part(square, UNIT * UNIT * square, UNIT * UNIT, Fraction(9, 20)),
    ]


def sums_of(z: Ints, groups: Ints, count: int) -> tuple[Ints, Ints, Ints]:
    """Exact counts, sums and sums of squares in each group.

    >>> import numpy as np
    >>> [part.tolist() for part in sums_of(np.array([[3], [4], [5]]), np.array([0, 1, 1]), 2)]
    [[1, 2], [[3], [9]], [[9], [41]]]
    """
    ones = np.zeros((len(z), count), np.int64)
    ones[np.arange(len(z)), groups] = 1
    return ones.sum(axis=0), products(ones, z), products(ones, z * z)


def noisy_moments(
    z: Ints, groups: Ints, count: int, noise: Noise, entropy: Entropy | None
) -> tuple[Floats, Floats, Floats]:
    """Noisy counts, means and variances (of scaled values) of each group; a variance may come out 0."""
    noisy = [noise.add(part, sums, entropy) for part, sums in enumerate(sums_of(z, groups, count))]
    rows = np.maximum(noisy[0], 1).astype(np.float64)
    mean = np.clip(noisy[1] / UNIT / rows[:, None], -1, 1)
    var = np.clip(noisy[2] / UNIT**2 / rows[:, None], 0, 1) - mean**2
    return rows, mean, np.maximum(var, 0.0)
