"""Standard scaler: noisy means and deviations of columns, from one release of exact sums."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.exact import Number
from discreet.learning.classical import reading
from discreet.learning.classical.estimator import Floats, Transformer
from discreet.learning.classical.sums import UNIT, Ints, Noise, Part, indicators, planned, products, snapped
from discreet.noise import Entropy


class StandardScaler(Transformer):
    """Columns shifted to mean 0 and scaled to deviation 1, both (ε, δ)-differentially private.

    `bounds` are declared; `rows` as in `Ridge`. A column whose noisy variance is not positive is only shifted.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds to the sums of `moment_sums` no more than `moment_part` says; the rest is post-processing.

    >>> import numpy as np
    >>> x = np.linspace(10, 20, 1000)[:, None]
    >>> scaler = StandardScaler(epsilon=5, delta=0, bounds=(0, 30)).fit(x)
    >>> bool(abs(scaler.mean_[0] - 15) < 1), scaler.cost_
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
        """Learn, and spend `cost_`."""
        values = self._begin(X)
        box = reading.box_of(self.bounds, self._columns()).upward()
        noise = planned([moment_part(values.shape[1])], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z = snapped(values, box)
        count, mean, var = noisy_moments(z, np.zeros(len(z), np.int64), 1, noise, self.entropy)
        self.cost_ = noise.loss
        self.n_samples_seen_ = float(count[0])
        self.mean_, self.var_ = box.center + box.half * mean[0], box.half**2 * var[0]
        self.scale_ = np.where(self.var_ > 0, np.sqrt(np.maximum(self.var_, 0)), 1.0)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns, which stay as they are."""
        self._fitted()
        return self._names_in(input_features)

    def transform(self, X: Any) -> Any:
        """(x − mean)/deviation."""
        values = self._later(X)
        shifted = values - self.mean_ if self.with_mean else values
        return self._table(X, np.asarray(shifted / self.scale_ if self.with_std else shifted, np.float64))

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the units of the data."""
        self._fitted()
        values, _ = reading.features(X)
        grown = values * self.scale_ if self.with_std else values
        return np.asarray(grown + self.mean_ if self.with_mean else grown, np.float64)


def moment_part(columns: int) -> Part:
    """What a row adds to the sums of `moment_sums`, in its group.

    Proof. In a column with 0 ≤ u ≤ 1 it adds (1 − u)², 2u(1 − u) and u² (in units of UNIT²): none is negative and they
    add up to 1. So the ℓ1 norm is exactly 1 for each column, and the squared norm at most 1. Every row is in one group,
    so other groups' sums do not move. Count, sum and sum of squares, released side by side, would cost up to three
    times that.
    """
    return Part(columns * UNIT**2, columns * UNIT**4, UNIT**2)


def moment_sums(u: Ints, groups: Ints, count: int) -> Ints:
    """Exact sums over the rows of each group and column of (1 − u)², 2u(1 − u) and u², for u from 0 to UNIT.

    These are Bernstein's polynomials of degree 2. With U = UNIT they are nU² − 2U·Σu + Σu², 2U·Σu − 2Σu² and Σu².

    >>> moment_sums(np.array([[0], [UNIT], [UNIT // 2]]), np.array([0, 0, 1]), 2)[:, :, 0] / UNIT**2
    array([[1.  , 0.  , 1.  ],
           [0.25, 0.5 , 0.25]])
    """
    ones = indicators(groups, count)
    number, first, second = ones.sum(axis=0)[:, None], products(ones, u), products(ones, u * u)
    sums = number * UNIT**2 - 2 * UNIT * first + second, 2 * UNIT * first - 2 * second, second
    return np.stack(sums, axis=1)


def noisy_moments(
    u: Ints, groups: Ints, count: int, noise: Noise, entropy: Entropy | None
) -> tuple[Floats, Floats, Floats]:
    """Noisy counts, means and variances (of values scaled to 0 to 1) of each group; a variance may come out 0.

    Each column's three sums add up to the count, so the count is the mean over columns.
    """
    noisy = noise.add(0, moment_sums(u, groups, count), entropy) / UNIT**2
    rows = np.maximum(noisy.sum(axis=1).mean(axis=1), 1.0)
    held = np.maximum(noisy, 0.0)
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1.0)
    mean = shares[:, 2] + shares[:, 1] / 2
    return rows, mean, np.maximum(shares[:, 2] - mean**2, 0.0)
