"""A small model to try attacks on: logistic regression by full-batch gradient descent, with or without DP noise.

For tests and lessons: its noise is drawn by NumPy's generator from a seed, so it protects nobody's data. With clipping
norm C and noise z it is the Gaussian mechanism of noise z·C on sums of sensitivity C (add or remove one row), `steps`
times in a row: together as private as one with noise z/√steps (Dong, Roth, Su 2022, corollary 3.3: composition of
Gaussian differential privacy).

>>> import numpy as np
>>> rng = np.random.default_rng(1)
>>> x, y = rng.normal(size=(50, 100)), rng.integers(0, 2, 50)
>>> model = Logistic(x=x, y=y, steps=100, rate=1)(np.arange(25), 3)
>>> bool(model.scores(x[:25], y[:25]).min() > np.log(0.9))  # fitted by heart
True
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.scores import Floats, Ints
from discreet.attacks.membership.white_box import norms


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Logistic:
    """A trainer: `(indices, seed) -> LogisticModel`. `y` is 0 or 1.

    `clip` is the norm that each row's gradient is clipped to (None: not at all), `noise` the standard deviation of the
    noise in units of `clip` (of 1 without clipping: a planted mistake).
    """

    x: ArrayLike
    y: ArrayLike
    steps: int = 50
    rate: float = 1.0
    clip: float | None = None
    noise: float = 0.0

    def __call__(self, indices: Ints, seed: int, /) -> "LogisticModel":
        """Train on the rows at these positions, from zero weights."""
        x, y = np.asarray(self.x, np.float64)[indices], np.asarray(self.y)[indices]
        return self.train(x, y, seed)

    def train(self, x: Floats, y: ArrayLike, seed: int, planted: Floats | None = None) -> "LogisticModel":
        """Train on rows; `planted` gradients (canaries × weights) are added at every step, clipped like the others."""
        rng, weights = np.random.default_rng([seed, 5]), np.zeros(x.shape[1])
        path, sums = [weights], []
        for _ in range(self.steps):
            rows = LogisticModel(weights).gradients(x, y)
            rows = rows if planted is None else np.concatenate([rows, planted])
            total = self._clipped(rows).sum(axis=0)
            total = total + self.noise * (self.clip or 1.0) * rng.normal(size=total.shape)
            weights = weights - self.rate * total / max(len(x), 1)
            path.append(weights)
            sums.append(total)
        return LogisticModel(weights, tuple(path), np.array(sums))

    def _clipped(self, rows: Floats) -> Floats:
        if self.clip is None:
            return rows
        return np.asarray(rows * np.minimum(1, self.clip / np.maximum(norms(rows), 1e-300))[:, None])


@dataclass(frozen=True, slots=True, eq=False)
class LogisticModel:
    """Weights, the way to them, and the noisy sums of gradients along it (steps × weights)."""

    weights: Floats
    path: tuple[Floats, ...] = ()
    sums: Floats = field(default_factory=lambda: np.empty((0, 0)))

    def scores(self, x: ArrayLike, y: ArrayLike, /) -> Floats:
        """ln p(y | x).

        >>> LogisticModel(np.zeros(2)).scores([[1.0, 2.0]], [1]).round(4).tolist()
        [-0.6931]
        """
        margins = (2 * np.asarray(y, np.float64) - 1) * (np.asarray(x, np.float64) @ self.weights)
        return np.asarray(-np.logaddexp(0, -margins))

    def gradients(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """The gradient of each row's loss (rows × weights).

        >>> LogisticModel(np.zeros(2)).gradients([[1.0, 2.0]], [1]).tolist()
        [[-0.5, -1.0]]
        """
        rows, signs = np.asarray(x, np.float64), 2 * np.asarray(y, np.float64) - 1
        slope = -signs * np.exp(-np.logaddexp(0, signs * (rows @ self.weights)))
        return np.asarray(slope[:, None] * rows)

    def checkpoints(self, x: ArrayLike, y: ArrayLike) -> Floats:
        """`scores` of every model on the way (steps + 1 × rows)."""
        return np.array([LogisticModel(weights).scores(x, y) for weights in self.path])
