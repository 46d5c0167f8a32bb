"""Linear and ridge regression from noisy sufficient statistics: XᵀX and Xᵀy, summed exactly, released once.

After Vu, Slavkovic 2009 and Wang 2018 ("Revisiting differentially private linear regression", AdaSSP), with whole sums
and exact noise. Everything after the noise is post-processing, the choice of the ridge too (`adaptive_solution`).
"""

import math
import warnings
from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.exact import Number, rational
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Floats, Regressor
from discreet.learning.classical.exact_sums import (
    UNIT,
    Ints,
    Noise,
    Part,
    Reach,
    mirrored,
    noisy_float,
    planned,
    products,
    reach_of,
    snapped,
    triangle,
    triangle_part,
    warn_of_noise,
    weighted,
)
from discreet.learning.classical.one_hot import groups_of
from discreet.noise import Entropy

_SHARES = Fraction(9, 20), Fraction(7, 20), Fraction(1, 5)  # of Σzzᵀ, Σz·y and Σz, after that of the count and Σy
_SHARES_THROUGH_ZERO = Fraction(1, 2), Fraction(1, 2)
_RIDGES = 40  # each twice the one before
_CAUTION = 1.0  # how many of its own deviations an estimated loss is raised by


class Ridge(Regressor):
    """Linear regression with a penalty alpha·‖w‖², (ε, δ)-differentially private.

    bounds          (low, high) of the features: one pair, a pair for each column, or pairs by column name
    target_bounds   (low, high) of the target
    norm            the largest norm of a scaled row (each column from −1 to 1), √columns if None; a smaller one means
                    less noise, and longer rows are shortened
    one_hot         columns that are indicators of one category, which have norm 1 together: lists of names or
                    positions, a list for each category, or an encoder (`one_hot_columns`). Columns given by name then
                    need no bounds. Rows with several indicators of one category are shortened
    rows            about how many rows there are, if that is public: an ε that cannot work is refused, one that will
                    give little is warned of. The number is not needed otherwise; a noisy count is among the sums

    `fit` takes weights of rows, from 0 to 1. Predictions are held within `target_bounds`. Where noise asks for a ridge
    beyond the penalty, `ridge_` says how much was added to XᵀX of the scaled columns; `inf` means that noise drowned
    all and predictions are the noisy mean.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP (ε-DP for delta=0).
    Proof. A row adds to the sums the upper triangle of zzᵀ, z·y, UNIT·z and (UNIT², UNIT·y). z is clamped, snapped and
    within `exact_sums.reach_of` (`exact_sums.snapped`), |y| ≤ UNIT; so the first is bounded in
    `exact_sums.triangle_part`, the next two by ‖z·y‖ ≤ ‖z‖·UNIT in both norms, and the last by 2·UNIT² and, squared,
    2·UNIT⁴. Each has a fixed share of the budget (`exact_sums.planned`). What is computed from the noisy sums is
    post-processing. A weight w of
    a row multiplies z, y and the constant UNIT by √w, which makes nothing longer (`exact_sums.weighted`).

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = Ridge(epsilon=10, delta="1e-6", bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, 3 * x[:, 0])
    >>> bool(abs(model.coef_[0] - 3) < 0.2), model.cost_  # in so few dimensions Laplace noise is the smaller
    (True, Pure(epsilon=Fraction(10, 1)))
    """

    coef_: Floats
    intercept_: float
    ridge_: float

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        target_bounds: inputs.Bounds,
        alpha: Number = 1,
        fit_intercept: bool = True,
        norm: Number | None = None,
        one_hot: Any = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.alpha, self.fit_intercept, self.norm, self.one_hot = alpha, fit_intercept, norm, one_hot
        self.rows, self.entropy = rows, entropy

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        inputs.target_given(type(self).__name__, y)
        values = self._begin(X)
        targets = inputs.numbers(y, len(values))
        groups = groups_of(self.one_hot, self._columns())
        box = inputs.box_of(self.bounds, self._columns(), groups=groups)
        goal = inputs.box_of(self.target_bounds, ["y"], "target_bounds")
        alpha = float(rational(self._alpha(), "alpha", at_least=0))
        weights = inputs.weights(sample_weight, len(values))
        roots = None if weights is None else np.sqrt(weights)
        reach = reach_of(values.shape[1], norm=self.norm, groups=groups)
        noise = self._noise(reach, values.shape[1])
        z, target, ones = snapped(values, box, reach), snapped(targets[:, None], goal), np.full((len(values), 1), UNIT)
        exact = statistics(weighted(z, roots), weighted(target, roots), weighted(ones, roots), self.fit_intercept)
        noisy = [noise.add(part, sums, self.entropy) / UNIT**2 for part, sums in enumerate(exact)]
        self.cost_ = noise.loss
        self._solve(noisy, [noisy_float(noise.deviation(part)) for part in range(len(noisy))], alpha, box, goal)
        return self

    def predict(self, X: Any) -> Floats:
        """w·x + intercept, within the declared bounds of the target."""
        found = self._later(X) @ self.coef_ + self.intercept_
        return np.asarray(np.clip(found, self._goal.low[0], self._goal.high[0]), np.float64)

    def noise(self, columns: int) -> Noise:
        """The noise that `fit` will draw for rows of so many columns, and its loss, from settings alone."""
        groups = groups_of(self.one_hot, [str(j) for j in range(columns)])
        return self._noise(reach_of(columns, norm=self.norm, groups=groups), columns)

    def _noise(self, reach: Reach, columns: int) -> Noise:
        noise = planned(self._parts(reach), epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        warn_of_noise(noisy_float(noise.deviation(1)) * math.sqrt(columns), self.rows, level=4)
        return noise

    def _alpha(self) -> Number:
        return self.alpha

    def _parts(self, reach: Reach) -> list[Part]:
        """What a row adds to each of the `statistics`; the proof is that of the class."""
        square = UNIT * UNIT
        base = max(Fraction(1, 10), Fraction(1, reach.units + 2)) if self.fit_intercept else Fraction(0)
        shares = [(1 - base) * share for share in (_SHARES if self.fit_intercept else _SHARES_THROUGH_ZERO)]
        sums = [Part(reach.l1 * UNIT, reach.square * square, square, share) for share in shares[1:]]
        last = [Part(2 * square, 2 * square * square, square, base)] if self.fit_intercept else []
        return [triangle_part(reach, shares[0]), *sums, *last]

    def _solve(
        self, noisy: list[Floats], deviations: list[float], alpha: float, box: inputs.Box, goal: inputs.Box
    ) -> None:
        """Coefficients in the units of the data, from noisy sums of scaled values."""
        inner, right, mean_y, follows, drift = mirrored(noisy[0], len(box.half)), noisy[1], 0.0, deviations[1], 0.0
        mean = np.zeros(len(right))
        if self.fit_intercept:
            rows = max(float(noisy[3][0]), 3 * deviations[3], 1.0)
            mean, mean_y = np.clip(noisy[2] / rows, -1, 1), float(np.clip(noisy[3][1] / rows, -1, 1))
            inner, right = inner - rows * np.outer(mean, mean), right - rows * mean * mean_y
            follows, drift = math.hypot(follows, deviations[2] * mean_y), 2 * deviations[2] ** 2 / rows
        penalty = np.diag(alpha / box.half**2)
        weights, self.ridge_ = adaptive_solution(inner + penalty, right, (deviations[0], follows), drift)
        if math.isinf(self.ridge_):
            warnings.warn(
                "expect little: noise drowned the features, and predictions are the noisy mean of the target",
                RuntimeWarning,
                stacklevel=3,
            )
        self._goal = goal
        self.coef_ = weights / box.half * goal.half[0]
        at_center = goal.center[0] + goal.half[0] * (mean_y - mean @ weights)
        self.intercept_ = float(at_center - self.coef_ @ box.center) if self.fit_intercept else 0.0


class LinearRegression(Ridge):
    """Least squares, (ε, δ)-differentially private: `Ridge` without a penalty. Settings, guarantee and proof are its.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = LinearRegression(epsilon=10, delta=0, bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, 3 * x[:, 0] + 1)
    >>> abs(model.intercept_ - 1) < 0.2, model.cost_
    (True, Pure(epsilon=Fraction(10, 1)))
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        target_bounds: inputs.Bounds,
        fit_intercept: bool = True,
        norm: Number | None = None,
        one_hot: Any = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.fit_intercept, self.norm, self.one_hot = fit_intercept, norm, one_hot
        self.rows, self.entropy = rows, entropy

    def _alpha(self) -> Number:
        return 0


def statistics(z: Ints, y: Ints, ones: Ints, constant: bool) -> list[Ints]:
    """The upper triangle of Σzzᵀ, and Σz·y; with a constant also Σz, and the count with Σy, all in units of UNIT².

    >>> import numpy as np
    >>> [part.tolist() for part in statistics(np.array([[2], [3]]), np.array([[5], [6]]), np.ones((2, 1), int), False)]
    [[13], [28]]
    """
    gram, cross = triangle(products(z, z)), products(z, y)[:, 0]
    if not constant:
        return [gram, cross]
    return [gram, cross, products(z, ones)[:, 0], np.array([products(ones, ones)[0, 0], products(ones, y)[0, 0]])]


def adaptive_solution(
    matrix: Floats, right: Floats, deviations: tuple[float, float], drift: float
) -> tuple[Floats, float]:
    """(matrix + ridge)⁻¹·right and the ridge, where both have noise of these deviations in each entry.

    The least ridge lifts the least eigenvalue to √size·deviation, about what noise alone can reach: the adaptive ridge
    of Wang 2018 (AdaSSP), with the eigenvalue read off the noisy matrix itself. Of this and larger ones the ridge is
    taken that has the least error as far as the noisy sums can tell. The loss of weights w under the exact sums A and b
    is wᵀAw − 2bᵀw and a constant. Noisy A and b underestimate it, since w follows their noise; by Stein's lemma
    (Stein 1981), for M = (A + ridge)⁻¹ and deviations s and t, by about 2s²(‖w‖²·tr M + wᵀMw) and 2t²·tr M. `drift`
    times ‖w‖² is the loss by noise in the means. Where no ridge is expected to be better than no weights, they are 0
    and the ridge infinite; an estimate is raised by its own deviation, 2t‖w‖ + √2·s‖w‖², so that luck does not choose.

    >>> adaptive_solution(np.array([[4.0]]), np.array([2.0]), (0.001, 0.001), 0)[0].round(2).tolist()
    [0.5]
    >>> adaptive_solution(np.array([[4.0]]), np.array([2.0]), (9.0, 9.0), 0)
    (array([0.]), inf)
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = max(deviations[0] * math.sqrt(len(matrix)), 1e-9 * max(float(values[-1]), 1.0))
    least, turned = max(0.0, floor - float(values[0])), vectors.T @ right
    best, chosen, ridge = 0.0, np.zeros(len(matrix)), math.inf
    for more in (0.0, *(floor * 2.0 ** np.arange(-2, _RIDGES - 2))):
        inverse = 1 / (values + least + more)
        weights = turned * inverse
        trace, square = float(inverse.sum()), weights * weights
        follows_matrix = deviations[0] ** 2 * (float(square.sum()) * trace + float(square @ inverse))
        loss = float(square @ values) - 2 * float(turned @ weights)
        loss += 2 * follows_matrix + 2 * deviations[1] ** 2 * trace + drift * float(square.sum())
        size = math.sqrt(float(square.sum()))
        loss += _CAUTION * (2 * deviations[1] * size + math.sqrt(2) * deviations[0] * size * size)
        if loss < best:
            best, chosen, ridge = loss, weights, least + more
    return np.asarray(vectors @ chosen, np.float64), ridge
