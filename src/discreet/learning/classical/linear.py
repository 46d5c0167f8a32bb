"""Linear and ridge regression from noisy sufficient statistics: XᵀX and Xᵀy, summed exactly, released once.

After Vu, Slavkovic 2009 and Wang 2018 ("Revisiting differentially private linear regression", SSP), with whole sums and
exact noise. Everything after the noise is post-processing.
"""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.exact import Number, rational
from discreet.learning.classical import reading
from discreet.learning.classical.estimator import Floats, Regressor
from discreet.learning.classical.sums import (
    UNIT,
    Ints,
    Part,
    length,
    mirrored,
    noisy_float,
    planned,
    products,
    row_square,
    snapped,
    triangle,
    triangle_part,
)
from discreet.noise import Entropy

_HALF = Fraction(1, 2)


class Ridge(Regressor):
    """Linear regression with a penalty alpha·‖w‖², (ε, δ)-differentially private.

    bounds          (low, high) of the features: one pair, a pair for each column, or pairs by column name
    target_bounds   (low, high) of the target
    norm            the largest norm of a scaled row (each column from −1 to 1), √columns if None; a smaller one means
                    less noise, and longer rows are shortened
    rows            about how many rows there are, if that is public: an ε that cannot work is refused. The number is
                    not needed otherwise; the model releases a noisy count among its sums

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP (ε-DP for delta=0).
    Proof. A row adds to the sums the upper triangle of vvᵀ and v·y, v = (1, z): z is clamped, snapped and of squared
    norm at most `row_square` (`sums.snapped`), |y| ≤ UNIT, so (`sums.triangle_part`) the first part is bounded, and
    ‖v·y‖² ≤ ‖v‖²·UNIT², ‖v·y‖₁ ≤ ‖v‖₁·UNIT. Each gets half of the budget (`sums.planned`). What is computed from the
    noisy sums is post-processing.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = Ridge(epsilon=10, delta="1e-6", bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, 3 * x[:, 0])
    >>> bool(abs(model.coef_[0] - 3) < 0.2), model.cost_  # in so few dimensions Laplace noise is the smaller
    (True, Pure(epsilon=Fraction(10, 1)))
    """

    coef_: Floats
    intercept_: float

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: reading.Bounds,
        target_bounds: reading.Bounds,
        alpha: Number = 1,
        fit_intercept: bool = True,
        norm: Number | None = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.alpha, self.fit_intercept, self.norm, self.rows, self.entropy = alpha, fit_intercept, norm, rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        reading.target_given(type(self).__name__, y)
        values = self._begin(X)
        targets = reading.numbers(y, len(values))
        box = reading.box_of(self.bounds, self._columns())
        goal = reading.box_of(self.target_bounds, ["y"], "target_bounds")
        alpha = float(rational(self._alpha(), "alpha", at_least=0))
        noise = planned(self._parts(values.shape[1]), epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        v = self._rows(values, box)
        gram, cross = statistics(v, snapped(targets[:, None], goal))
        gram, cross = (noise.add(part, sums, self.entropy) for part, sums in enumerate((gram, cross)))
        self.cost_ = noise.loss
        deviation = noisy_float(noise.deviation(0))
        self._solve(mirrored(gram, v.shape[1]) / UNIT**2, cross / UNIT**2, deviation, alpha, box, goal)
        return self

    def predict(self, X: Any) -> Floats:
        """w·x + intercept."""
        return np.asarray(self._later(X) @ self.coef_ + self.intercept_, np.float64)

    def _alpha(self) -> Number:
        return self.alpha

    def _parts(self, columns: int) -> list[Part]:
        square = row_square(columns, self.norm)
        one = 1 if self.fit_intercept else 0
        l1, whole = length(columns, square) + one * UNIT, square + one * UNIT * UNIT
        cross = Part(l1 * UNIT, whole * UNIT * UNIT, UNIT * UNIT, _HALF)
        return [triangle_part(columns, square, constant=bool(one), share=_HALF), cross]

    def _rows(self, values: Floats, box: reading.Box) -> Ints:
        z = snapped(values, box, row_square(values.shape[1], self.norm))
        return np.hstack([np.full((len(z), 1), UNIT), z]) if self.fit_intercept else z

    def _solve(
        self, gram: Floats, cross: Floats, deviation: float, alpha: float, box: reading.Box, goal: reading.Box
    ) -> None:
        """Coefficients in the units of the data, from noisy sums of scaled values."""
        first, ones, mean_y = int(self.fit_intercept), max(float(gram[0, 0]), 1.0), 0.0
        mean = np.zeros(len(gram) - first)
        inner, right = gram[first:, first:], cross[first:]
        if self.fit_intercept:
            mean, mean_y = np.clip(gram[0, 1:] / ones, -1, 1), float(np.clip(cross[0] / ones, -1, 1))
            inner, right = inner - ones * np.outer(mean, mean), right - ones * mean * mean_y
        weights = repaired_solution(inner + np.diag(alpha / box.half**2), right, deviation)
        self.coef_ = weights / box.half * goal.half[0]
        at_centre = goal.centre[0] + goal.half[0] * (mean_y - mean @ weights)
        self.intercept_ = float(at_centre - self.coef_ @ box.centre) if self.fit_intercept else 0.0


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
        bounds: reading.Bounds,
        target_bounds: reading.Bounds,
        fit_intercept: bool = True,
        norm: Number | None = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.fit_intercept, self.norm, self.rows, self.entropy = fit_intercept, norm, rows, entropy

    def _alpha(self) -> Number:
        return 0


def statistics(v: Ints, y: Ints) -> tuple[Ints, Ints]:
    """The upper triangle of Σvvᵀ, and Σv·y.

    >>> import numpy as np
    >>> [part.tolist() for part in statistics(np.array([[1, 2], [1, 3]]), np.array([[5], [6]]))]
    [[2, 5, 13], [11, 28]]
    """
    return triangle(products(v, v)), products(v, y)[:, 0]


def repaired_solution(matrix: Floats, right: Floats, deviation: float) -> Floats:
    """matrix⁻¹·right, where noise may have made the matrix indefinite.

    All eigenvalues are shifted so that the least is at least √size·deviation, about what noise alone can reach: the
    adaptive ridge of Wang 2018 (AdaSSP), with the least eigenvalue read off the noisy matrix itself.
    """
    values, vectors = np.linalg.eigh(matrix)
    floor = max(deviation * np.sqrt(len(matrix)), 1e-9 * max(float(values[-1]), 1.0))
    shifted = values + max(0.0, floor - float(values[0]))
    return np.asarray(vectors @ ((vectors.T @ right) / shifted), np.float64)
