"""Histograms with noisy counts, and densities smoothed from them."""

import math
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import reading
from discreet.learning.classical.estimator import Estimator, Floats
from discreet.learning.classical.sums import Ints, Part, planned
from discreet.noise import Entropy

_MOST_CELLS = 10**7


class Histogram(Estimator):
    """Counts of rows in cells of equal width, (ε, δ)-differentially private.

    bounds   (low, high) of the columns; values outside count in the outermost cells
    bins     how many cells along each column
    rows     as in `Ridge`

    `counts_` is as released, so it may be negative; `density_` is held at 0 and adds up to 1 over the bounds.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP (ε-DP for delta=0).
    Proof. A row adds 1 to one cell; the cells are public.

    >>> import numpy as np
    >>> model = Histogram(epsilon=1, delta=0, bounds=(0, 10), bins=5).fit(np.full((1000, 1), 3.0))
    >>> int(model.counts_.argmax()), model.edges_[0].tolist()
    (1, [0.0, 2.0, 4.0, 6.0, 8.0, 10.0])
    """

    kind = "density_estimator"
    counts_: Ints
    density_: Floats
    edges_: list[Floats]

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: reading.Bounds,
        bins: int = 10,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.bins, self.rows, self.entropy = bins, rows, entropy

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count, and spend `cost_`."""
        values = self._begin(X)
        columns = values.shape[1]
        bins = integer(self.bins, "bins", at_least=1, at_most=_MOST_CELLS)
        if columns * math.log(bins) > math.log(_MOST_CELLS):
            hint = "fewer bins, or some of the columns"
            raise InvalidParameter("bins", bins, f"at most {_MOST_CELLS} cells in {columns} columns", hint)
        box = reading.box_of(self.bounds, self._columns())
        noise = planned([Part(1, 1, 1)], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        edges = [np.linspace(low, high, bins + 1) for low, high in zip(box.low, box.high, strict=True)]
        exact = cell_counts(values, edges)
        self.counts_ = noise.add(0, exact, self.entropy)
        self.cost_, self.edges_, self._box = noise.loss, edges, box
        self.density_ = self._shares() * float(np.prod(bins / (box.high - box.low)))
        return self

    def _shares(self) -> Floats:
        """The share of each cell; equal shares where noise has left nothing."""
        held = np.maximum(self.counts_, 0).astype(np.float64)
        return held / held.sum() if held.any() else np.full(held.shape, 1 / held.size)

    def score_samples(self, X: Any) -> Floats:
        """The logarithm of the density at each row; −inf outside of the bounds."""
        values = self._later(X)
        inside = ((values >= self._box.low) & (values <= self._box.high)).all(axis=1)
        with np.errstate(divide="ignore"):
            return np.where(inside, np.log(self.density_[tuple(cells(values, self.edges_).T)]), -np.inf)

    def score(self, X: Any, y: Any = None) -> float:
        """The sum of `score_samples`. Exact, so for public or held-out data only."""
        return float(self.score_samples(X).sum())


class KernelDensity(Histogram):
    """A density smoothed with Gaussian kernels from a noisy histogram. Settings, guarantee and proof are `Histogram`'s.

    bandwidth   the kernel's deviation, in the unit of the data; the same for all columns

    >>> import numpy as np
    >>> x = np.linspace(4, 6, 3000)[:, None]
    >>> model = KernelDensity(epsilon=1, delta=0, bounds=(0, 10), bandwidth="0.5").fit(x)
    >>> model.score_samples([[5.0], [9.0]]).argmax()
    np.int64(0)
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: reading.Bounds,
        bandwidth: Number,
        bins: int = 50,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.bandwidth = epsilon, delta, bounds, bandwidth
        self.bins, self.rows, self.entropy = bins, rows, entropy

    def fit(self, X: Any, y: Any = None) -> Self:
        """Count, and spend `cost_`."""
        self._width = float(rational(self.bandwidth, "bandwidth", above=0))
        super().fit(X, y)
        return self

    def score_samples(self, X: Any) -> Floats:
        """The logarithm of the smoothed density at each row."""
        values = self._later(X)
        found = [self._at(values[start : start + 1000]) for start in range(0, len(values), 1000)]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.concatenate(found)), np.float64)

    def _at(self, values: Floats) -> Floats:
        """Σ over cells of share · product over columns of the kernel at the cell's middle, a column at a time."""
        left: Floats = np.broadcast_to(self._shares(), (len(values), *self.counts_.shape))
        for column in reversed(range(values.shape[1])):
            edges = self.edges_[column]
            away = (values[:, column, None] - (edges[:-1] + edges[1:]) / 2) / self._width
            kernel = np.exp(-(away**2) / 2) / (self._width * math.sqrt(2 * math.pi))
            left = np.einsum("n...b,nb->n...", left, kernel)
        return left


def cells(values: Floats, edges: list[Floats]) -> Ints:
    """In which cell of each column a value lies; the last cell is closed, values outside are in the outermost.

    >>> cells(np.array([[0.0], [2.5], [9.0]]), [np.array([0.0, 1.0, 2.0, 3.0])])[:, 0].tolist()
    [0, 2, 2]
    """
    places = [np.searchsorted(edge[1:-1], values[:, j], side="right") for j, edge in enumerate(edges)]
    return np.stack(places, axis=1).astype(np.int64)


def cell_counts(values: Floats, edges: list[Floats]) -> NDArray[np.int64]:
    """How many rows lie in each cell.

    >>> cell_counts(np.array([[0.5], [2.5]]), [np.array([0.0, 1.0, 2.0, 3.0])]).tolist()
    [1, 0, 1]
    """
    shape = tuple(len(edge) - 1 for edge in edges)
    flat = np.ravel_multi_index(tuple(cells(values, edges).T), shape)
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape).astype(np.int64)
