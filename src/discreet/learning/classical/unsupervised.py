"""Histograms, densities smoothed from them, and k-means.

k-means is by Lloyd's iterations with noisy sums and counts (DPLloyd: Blum, Dwork, McSherry, Nissim 2005).
"""

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Columns, Estimator, Floats
from discreet.learning.classical.exact_sums import (
    UNIT,
    Ints,
    Noise,
    Part,
    Reach,
    indicators,
    planned,
    products,
    reach_of,
    snapped,
    weighted,
)
from discreet.learning.classical.inputs import Groups, groups_of
from discreet.noise import DeterministicEntropy, Entropy, uniform_below

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
        bounds: inputs.Bounds,
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
        box = inputs.box_of(self.bounds, self._columns())
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
        bounds: inputs.Bounds,
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
        results = [self._at(values[start : start + 1000]) for start in range(0, len(values), 1000)]
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.concatenate(results)), np.float64)

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


_FINE = 1 << 20
_CANDIDATES = 200


class KMeans(Columns):
    """Cluster centers, (ε, δ)-differentially private.

    bounds      (low, high) of the columns; distances are those of the scaled columns, each from −1 to 1
    max_iter    how many iterations to pay for; each gets the same share of the budget. None: `turns_for`
    seed        of the centers to start from: public, spread out in the bounds, chosen without looking at the data
    one_hot     columns that are indicators of one category, as in `Ridge`; they are scaled to [0, 1], so that two
                categories are √2 apart, and the ends of another column 2
    rows        as in `Ridge`

    `labels_` and `inertia_` are not kept: they are facts about single rows. Call `predict`.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. Given the centers (public, then noisy), a row belongs to one cluster and adds 1 to its count and z to its
    sums: `Part`s below. A weight makes neither larger (`exact_sums.weighted`), and does not say which cluster it is.
    Iterations compose (`exact_sums.planned` with `times`).

    >>> import numpy as np
    >>> x = np.vstack([np.full((1000, 1), -0.8), np.full((1000, 1), 0.8)])
    >>> model = KMeans(n_clusters=2, epsilon=4, delta=0, bounds=(-1, 1)).fit(x)
    >>> np.sort(model.cluster_centers_[:, 0]).round(1).tolist()
    [-0.8, 0.8]
    """

    kind = "clusterer"
    _estimator_type = "clusterer"
    cluster_centers_: Floats
    n_iter_: int

    def __init__(
        self,
        *,
        n_clusters: int,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        max_iter: int | None = None,
        seed: int = 0,
        one_hot: Any = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.n_clusters, self.epsilon, self.delta, self.bounds = n_clusters, epsilon, delta, bounds
        self.max_iter, self.seed, self.one_hot, self.rows, self.entropy = max_iter, seed, one_hot, rows, entropy

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`. Weights lie between 0 and 1."""
        values = self._begin(X)
        weights = inputs.weights(sample_weight, len(values))
        groups = groups_of(self.one_hot, self._columns())
        box = inputs.box_of(self.bounds, self._columns(), groups=groups).centered(but=groups)
        reach = reach_of(values.shape[1], groups=groups)
        clusters = integer(self.n_clusters, "n_clusters", at_least=1, at_most=10**5)
        usual = turns_for(epsilon=self.epsilon)
        turns = integer(usual if self.max_iter is None else self.max_iter, "max_iter", at_least=1, at_most=10**4)
        parts = cluster_parts(reach, 1 if weights is None else UNIT)
        noise = planned(parts, epsilon=self.epsilon, delta=self.delta, times=turns, rows=self.rows)
        z = snapped(values, box, reach)
        ones = np.full((len(z), 1), parts[0].unit, np.int64)
        adds = weighted(ones, weights), weighted(z, weights)
        centers = spread(clusters, values.shape[1], seed=self.seed, groups=groups)
        for _ in range(turns):
            centers = _moved(assigned(z, centers), adds, centers, noise, parts[0].unit, self.entropy)
        self.cost_, self.n_iter_ = noise.loss, turns
        self._box, self._scaled = box, centers
        self.cluster_centers_ = box.center + box.half * centers
        return self

    def predict(self, X: Any) -> Ints:
        """The nearest center of each row."""
        return nearest(self._near(X), self._scaled)

    def fit_predict(self, X: Any, y: Any = None) -> Ints:
        """`fit`, then `predict` of the same rows: what comes out is as private as they are."""
        return self.fit(X, y).predict(X)

    def transform(self, X: Any) -> Any:
        """Distances to the centers, in scaled columns."""
        return self._table(X, np.sqrt(np.maximum(_squares(self._near(X), self._scaled), 0)))

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """`fit`, then `transform` of the same rows: what comes out is as private as they are."""
        return self.fit(X, y).transform(X)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the sum of squared distances. Exact, so for public or held-out data only."""
        return -float(np.maximum(_squares(self._near(X), self._scaled).min(axis=1), 0).sum())

    @property
    def _n_features_out(self) -> int:
        return len(self._scaled)

    def _near(self, X: Any) -> Floats:
        values = self._later(X)
        return np.asarray((values - self._box.center) / self._box.half, np.float64)


def turns_for(*, epsilon: Number) -> int:
    """How many iterations are worth their noise: few for a small ε. A rule of thumb found on Adult, which is public.

    >>> [turns_for(epsilon=e) for e in ("0.1", 1, 10)]
    [3, 6, 10]
    """
    return int(min(max(round(6 * float(rational(epsilon, "epsilon", above=0)) ** 0.3), 3), 10))


def cluster_parts(reach: Reach, unit: int = 1) -> list[Part]:
    """What a row adds to the count (`unit`, of which weights leave a part) and to the sums of its cluster.

    The count's share is (4·d·ρ²)^(1/3) against d for the sums, ρ = 0.225 (Su, Cao, Li, Bertino, Jin 2016); a category
    counts as one of the d columns.
    """
    weight = Fraction((4 * reach.units * 0.225**2) ** (1 / 3)).limit_denominator(1000)
    share = weight / (reach.units + weight)
    return [Part(unit, unit**2, unit, share), Part(reach.l1, reach.square, UNIT, 1 - share)]


def spread(clusters: int, columns: int, *, seed: int, groups: Groups = ()) -> Floats:
    """Public centers in [−1, 1]: each the farthest from those before among random candidates, seen from the walls too.

    In the columns of a category a candidate is one of its indicators, and has no walls.

    >>> spread(3, 2, seed=1).shape
    (3, 2)
    """
    entropy = DeterministicEntropy(integer(seed, "seed"))
    draws = np.asarray(uniform_below(_FINE, (_CANDIDATES + clusters, columns), entropy=entropy), np.float64)
    candidates = draws / _FINE * 2 - 1
    free = np.ones(columns, bool)
    for group in map(list, groups):
        free[group], candidates[:, group] = False, candidates[:, group] == candidates[:, group].max(axis=1)[:, None]
    wall = (1 - np.abs(candidates[:, free])).min(axis=1, initial=np.inf)
    chosen: list[int] = []
    gap = np.full(len(candidates), np.inf)
    for _ in range(clusters):
        best = int(np.argmax(np.minimum(gap, 2 * wall)))
        chosen.append(best)
        gap = np.minimum(gap, np.sqrt(((candidates - candidates[best]) ** 2).sum(axis=1)))
        gap[best] = -1.0
    return np.asarray(candidates[chosen])


def nearest(z: Floats, centers: Floats) -> Ints:
    """The place of the nearest center; the first of those equally near."""
    return np.asarray(_squares(z, centers).argmin(axis=1), np.int64)


def _squares(z: Floats, centers: Floats) -> Floats:
    return np.asarray((z**2).sum(axis=1)[:, None] - 2 * z @ centers.T + (centers**2).sum(axis=1), np.float64)


def _moved(
    clusters: Ints, adds: tuple[Ints, Ints], centers: Floats, noise: Noise, unit: int, entropy: Entropy | None
) -> Floats:
    """One iteration: noisy means of the clusters; a cluster that noise could have made keeps its center.

    `adds` is what each row adds to the count, in units, and to the sums. Assignments are exact (`assigned`), so no
    other row moves one by way of rounding.
    """
    ones = indicators(clusters, len(centers))
    count = noise.add(0, products(ones, adds[0])[:, 0], entropy) / unit
    total = noise.add(1, products(ones, adds[1]), entropy)
    sure = count > max(1.0, 2 * noise.deviation(0) / unit)
    means = np.clip(total / UNIT / np.maximum(count, 1)[:, None], -1, 1)
    return np.asarray(np.where(sure[:, None], means, centers), np.float64)


def assigned(z: Ints, centers: Floats) -> Ints:
    """The nearest center by exact whole arithmetic: a function of the row and the centers alone.

    Centers are snapped to whole numbers c; Σc² − 2·z·c is then below 2⁵³ for up to 2²⁰ columns, exact in any order.
    """
    whole = np.rint(centers * UNIT)
    scores = (whole**2).sum(axis=1) - 2 * (z.astype(np.float64) @ whole.T)
    return np.asarray(scores.argmin(axis=1), np.int64)
