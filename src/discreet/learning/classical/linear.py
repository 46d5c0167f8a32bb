"""Linear and ridge regression, in three ways; which one is taken depends on settings alone.

"gradient" (`descent.descended`) takes many steps along noisy sums of clipped gradients; with δ > 0 it has the least
noise from about five columns on (decision 33). "objective" (`objective.perturbed`) is ε-DP, draws noise for each weight
once, and minimizes a loss that is a parabola for small residuals and straight for large ones. "statistics" draws noise
for XᵀX and Xᵀy, summed exactly (Vu, Slavkovic 2009; Wang 2018, "Revisiting differentially private linear regression",
AdaSSP); everything after is post-processing, the choice of the ridge too (`adaptive_solution`). It has no bias where
residuals are skewed, but noise for each pair of columns: from three columns or categories on it is much the worse
(decision 33).
"""

import math
import warnings
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, rational
from discreet.learning.classical import exact_sums, inputs, objective
from discreet.learning.classical.descent import STEPS, Pace, Steps, blur, descended, descent_parts, scores
from discreet.learning.classical.estimator import Floats, Regressor
from discreet.learning.classical.exact_sums import (
    UNIT,
    Ints,
    Noise,
    Part,
    Reach,
    mirrored,
    noisy_float,
    norms,
    planned,
    products,
    reach_of,
    snapped,
    triangle,
    triangle_part,
    warn_of_noise,
    weighted,
)
from discreet.learning.classical.inputs import groups_of
from discreet.learning.classical.objective import Perturbation, perturbation, perturbed
from discreet.noise import Entropy
from discreet.privacy.loss import Loss, Pure

_SHARES = Fraction(9, 20), Fraction(7, 20), Fraction(1, 5)  # of Σzzᵀ, Σz·y and Σz, after that of the count and Σy
_SHARES_THROUGH_ZERO = Fraction(1, 2), Fraction(1, 2)
_RIDGES = 40  # each twice the one before
_CAUTION = 1.0  # how many of its own deviations an estimated loss is raised by
_COUNT = Fraction(1, 50)  # the share of the noisy count before objective perturbation
_LEAST = Fraction(1, 4)  # of the penalty: a ridge of 1. A smaller one asks for more noise on the weights themselves
_MOVED = 0.005  # how far noise may move predictions, as a mean square in half widths of the target
_WEAK = 6  # times what drowns sums of rows, noise on weights is taken for, in the warning
_UNBIASED = 1.5  # so many times the noise is borne for a method without bias
_DRAWN = 1.5  # times the noise of a descent counts, as weights are drawn towards the last of its steps
_FIRST = Part(4 * UNIT, 4 * UNIT * UNIT, UNIT, Fraction(1, 25))  # `Ridge._first`, before a descent
_PATH = 0.05  # of a descent, as in `Pace`
_STABLE = 3.0  # over the mean ‖v‖², which is at least the curvature, for the first rate: beyond 3.8 momentum diverges
_WIDEST, _TRUST = 8.0, 300  # of a clip; so many rows per deviation of the noise for each 1 of it


class Ridge(Regressor):
    """Linear regression with a penalty alpha·‖w‖², (ε, δ)-differentially private.

    bounds          (low, high) of the features: one pair, a pair for each column, or pairs by column name
    target_bounds   (low, high) of the target
    norm            the largest norm of a scaled row (each column from −1 to 1), √columns if None; a smaller one means
                    less noise, and longer rows are shortened
    one_hot         columns that are indicators of one category, which have norm 1 together: lists of names or
                    positions, a list for each category, or an encoder (`one_hot_columns`). Columns given by name then
                    need no bounds. Rows with several indicators of one category are shortened
    method          "gradient", "objective", "statistics", or None: the one that is expected to err least (`_best`)
    rows            about how many rows there are, if that is public: an ε that cannot work is refused, one that will
                    give little is warned of, before anything is paid. Without it the warning comes from a noisy count

    `fit` takes weights of rows, from 0 to 1. Predictions are held within `target_bounds`. Where noise asks for a ridge
    beyond the penalty, `ridge_` says how much was added to XᵀX of the scaled columns; `inf` means that noise drowned
    all statistics, and predictions are the noisy mean.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP (ε-DP for delta=0).
    Proof. "objective": in `objective`; the scale of residuals there is public. "gradient": in `descent`; what is
    released before the steps is four numbers of at most UNIT (`_pace`). "statistics": a row adds to the sums the
    upper triangle of zzᵀ, z·y, UNIT·z and (UNIT², UNIT·y). z is clamped, snapped and within `exact_sums.reach_of`
    (`exact_sums.snapped`), |y| ≤ UNIT; so the first is bounded in `exact_sums.triangle_part`, the next two by
    ‖z·y‖ ≤ ‖z‖·UNIT in both norms, and the last by 2·UNIT² and, squared, 2·UNIT⁴. Each has a fixed share of the budget
    (`exact_sums.planned`). What is computed from the noisy sums is post-processing. A weight w of a row multiplies z, y
    and the constant UNIT by √w, in "gradient" what the row adds by w: nothing becomes longer (`exact_sums.weighted`).

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = Ridge(epsilon=10, delta="1e-6", bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, 3 * x[:, 0])
    >>> bool(abs(model.coef_[0] - 3) < 0.2), model.cost_  # in so few dimensions Laplace noise is the smaller
    (True, Pure(epsilon=10))
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
        method: str | None = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.alpha, self.fit_intercept, self.norm, self.one_hot = alpha, fit_intercept, norm, one_hot
        self.method, self.rows, self.entropy = method, rows, entropy

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
        reach = reach_of(values.shape[1], norm=self.norm, groups=groups)
        plan = self._plan(reach, values.shape[1])
        if not self.fit_intercept:
            box, goal = box.through_zero(), goal.through_zero()
        elif not isinstance(plan, Noise):
            goal = goal.centered()
        z, y, self._goal = snapped(values, box, reach), snapped(targets[:, None], goal), goal
        if isinstance(plan, ObjectivePerturbation):
            self._minimize(z, y, weights, plan, alpha, box)
        elif isinstance(plan, Steps):
            self._descend(z, y, weights, plan, alpha, box)
        else:
            self._sum(z, y, weights, plan, alpha, box)
        return self

    def predict(self, X: Any) -> Floats:
        """w·x + intercept, within the declared bounds of the target."""
        values = self._later(X) @ self.coef_ + self.intercept_
        return np.asarray(np.clip(values, self._goal.low[0], self._goal.high[0]), np.float64)

    def loss(self, columns: int) -> Loss:
        """What `fit` will cost for rows of so many columns, from settings alone."""
        groups = groups_of(self.one_hot, [str(j) for j in range(columns)])
        return self._plan(reach_of(columns, norm=self.norm, groups=groups), columns).loss

    def moved(self, columns: int) -> Loss:
        """The same from the noise that `fit` draws and from what a row moves, not from what was planned."""
        reach = reach_of(columns, norm=self.norm, groups=groups_of(self.one_hot, [str(j) for j in range(columns)]))
        plan = self._plan(reach, columns)
        if isinstance(plan, Noise):
            return exact_sums.moved(plan, self._parts(reach))
        constant = int(self.fit_intercept)
        if isinstance(plan, Steps):
            return exact_sums.moved(plan.noise, self._steps(reach, columns))
        weights = objective.moved(plan.weights, columns + constant, 1, reach.l1 + constant * UNIT)
        return Pure(1 / plan.count.scales[0] + weights.epsilon)

    def _plan(self, reach: Reach, columns: int) -> "ObjectivePerturbation | Steps | Noise":
        """How the budget is spent, from settings alone."""
        if self.method not in (None, "gradient", "objective", "statistics"):
            raise InvalidParameter("method", self.method, '"gradient", "objective", "statistics" or None')
        method, size = self.method or self._best(reach, columns), math.sqrt(columns)
        if method == "objective":
            once = self._once(reach, columns, self.rows)
            warn_of_noise(_WEAK * once.deviation * size, self.rows, level=4)
            return once
        if method == "gradient":
            descent = self._descent(reach, columns, self.rows)
            warn_of_noise(_WEAK * blur(descent) * size, self.rows, level=4)
            return descent
        sums = planned(self._parts(reach), epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        warn_of_noise(noisy_float(sums.deviation(1)) * size, self.rows, level=4)
        return sums

    def _best(self, reach: Reach, columns: int) -> str:
        """The method that is expected to err least, all compared by their noise in sums of rows.

        A smaller clip in a descent than the rows need has a bias, which is not in this comparison (`_pace`).
        """
        size, width = math.sqrt(columns), math.sqrt(columns + int(self.fit_intercept))
        once, sums = self._once(reach, columns), planned(self._parts(reach), epsilon=self.epsilon, delta=self.delta)
        noise = {"objective": math.hypot(once.deviation * width, 4 * float(once.weights.penalty))}
        if rational(self.delta, "delta", at_least=0, below=1):
            noise["gradient"] = _DRAWN * blur(self._descent(reach, columns)) * width
        least = min(noise, key=noise.__getitem__)
        return least if noisy_float(sums.deviation(0)) * size > _UNBIASED * noise[least] else "statistics"

    def _once(self, reach: Reach, columns: int, rows: int | None = None) -> "ObjectivePerturbation":
        constant = int(self.fit_intercept)
        return ObjectivePerturbation.planned(
            reach.with_constant if constant else reach, columns + constant, self.epsilon, rows
        )

    def _descent(self, reach: Reach, columns: int, rows: int | None = None) -> Steps:
        parts = self._steps(reach, columns)
        return Steps(planned(parts, epsilon=self.epsilon, delta=self.delta, rows=rows), STEPS, clipped=True)

    def _steps(self, reach: Reach, columns: int) -> list[Part]:
        constant = int(self.fit_intercept)
        return descent_parts(reach.with_constant if constant else reach, 1, columns + constant, STEPS, _FIRST)

    def _minimize(
        self, z: Ints, y: Ints, weights: Floats | None, plan: "ObjectivePerturbation", alpha: float, box: inputs.Box
    ) -> None:
        """Weights of scores 2(v·w − y)/step, by objective perturbation; XᵀX weighs a quarter there."""
        columns = z.shape[1]
        count = plan.noisy_count(len(z), self.entropy)
        if self.rows is None:
            warn_of_noise(_WEAK * plan.deviation * math.sqrt(columns), round(count), level=4, paid=True)
        self.ridge_ = plan.ridge(count, columns)
        more = np.maximum((self.ridge_ + alpha / box.half**2) / 4 - float(plan.weights.penalty), 0.0)
        if self.fit_intercept:
            z, more = np.hstack([np.full((len(z), 1), UNIT), z]), np.concatenate([[0.0], more])
        offset = np.asarray(y * (2 / (plan.step * UNIT)), np.float64)
        self._keep(perturbed(z, offset, plan.weights, self.entropy, weights, more)[:, 0] * (plan.step / 2), box)
        self.cost_ = plan.loss

    def _descend(self, z: Ints, y: Ints, weights: Floats | None, plan: Steps, alpha: float, box: inputs.Box) -> None:
        """Weights by steps from a noisy mean on."""
        columns, ones = z.shape[1], np.full((len(z), 1), UNIT)
        v = np.hstack([ones, z]) if self.fit_intercept else z
        pace, mean = self._pace(v, y, weights, plan)
        if self.rows is None:
            warn_of_noise(_WEAK * blur(plan) * math.sqrt(columns), round(pace.count), level=4, paid=True)
        penalty, start = np.zeros((v.shape[1], 1)), np.zeros((v.shape[1], 1))
        penalty[-columns:, 0] = alpha / box.half**2
        start[: v.shape[1] - columns] = mean
        result = descended(residuals, v, y, plan, pace, start, penalty, self.entropy, weights)
        self._keep(result[:, 0], box)
        self.cost_, self.ridge_ = plan.loss, 0.0

    def _pace(self, v: Ints, y: Ints, weights: Floats | None, plan: Steps) -> tuple[Pace, float]:
        """How far steps go, and the mean of the target: from noisy sums of 1, y, y² and ‖v‖, each of at most UNIT.

        Gradients are clipped at twice what rows have when the mean is predicted, as far as noise allows: a smaller clip
        draws predictions from the mean to the median, a larger one is more noise.
        """
        longest = int(np.ceil(np.sqrt(v.shape[1]))) * UNIT
        lengths = np.minimum(np.floor(np.sqrt(norms(v)) / longest * UNIT), UNIT).astype(np.int64)
        each = np.stack([np.full(len(v), UNIT), y[:, 0], y[:, 0] ** 2 // UNIT, lengths], axis=1)
        sums = plan.noise.add(0, weighted(each, weights).sum(axis=0), self.entropy) / UNIT
        count = max(float(sums[0]), 1.0)
        mean, square, length = (sums[1:] / count).tolist()
        mean = min(max(mean, -1.0), 1.0)
        spread, size = math.sqrt(min(max(square - mean**2, 0.0), 1.0)), max(length * longest / UNIT, 0.3)
        clip = max(1.0, min(2 * spread * size, count / blur(plan) / _TRUST, _WIDEST))
        return Pace(count, clip, path=_PATH, longest=_STABLE * plan.steps / size**2), mean

    def _keep(self, found: Floats, box: inputs.Box) -> None:
        """Coefficients in the units of the data, from weights of scaled columns, the constant first."""
        goal = self._goal
        constant, slopes = (found[0], found[1:]) if self.fit_intercept else (0.0, found)
        self.coef_ = slopes / box.half * goal.half[0]
        at_center = goal.center[0] + goal.half[0] * constant
        self.intercept_ = float(at_center - self.coef_ @ box.center) if self.fit_intercept else 0.0

    def _sum(self, z: Ints, y: Ints, weights: Floats | None, noise: Noise, alpha: float, box: inputs.Box) -> None:
        """Weights from noisy sums."""
        roots = None if weights is None else np.sqrt(weights)
        ones = np.full((len(z), 1), UNIT)
        exact = statistics(weighted(z, roots), weighted(y, roots), weighted(ones, roots), self.fit_intercept)
        noisy = [noise.add(part, sums, self.entropy) / UNIT**2 for part, sums in enumerate(exact)]
        self.cost_ = noise.loss
        self._solve(noisy, [noisy_float(noise.deviation(part)) for part in range(len(noisy))], alpha, box)

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

    def _solve(self, noisy: list[Floats], deviations: list[float], alpha: float, box: inputs.Box) -> None:
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
                stacklevel=4,
            )
        goal = self._goal
        self.coef_ = weights / box.half * goal.half[0]
        at_center = goal.center[0] + goal.half[0] * (mean_y - mean @ weights)
        self.intercept_ = float(at_center - self.coef_ @ box.center) if self.fit_intercept else 0.0


class LinearRegression(Ridge):
    """Least squares, (ε, δ)-differentially private: `Ridge` without a penalty. Settings, guarantee and proof are its.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = LinearRegression(epsilon=10, delta=0, bounds=(-1, 1), target_bounds=(-4, 4)).fit(x, 3 * x[:, 0] + 1)
    >>> abs(model.intercept_ - 1) < 0.2, model.cost_
    (True, Pure(epsilon=10))
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
        method: str | None = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.target_bounds = epsilon, delta, bounds, target_bounds
        self.fit_intercept, self.norm, self.one_hot = fit_intercept, norm, one_hot
        self.method, self.rows, self.entropy = method, rows, entropy

    def _alpha(self) -> Number:
        return 0


@dataclass(frozen=True, slots=True)
class ObjectivePerturbation:
    """A noisy count, then weights by objective perturbation.

    Guarantee: costs `loss`, ε. Proof. The count costs its share of ε, a row adding at most 1 to it; the weights cost
    the rest, whatever ridge is added to their penalty: it is chosen from the count and from settings
    (`objective`: larger penalties are free).
    """

    step: float
    count: Noise
    weights: Perturbation

    @classmethod
    def planned(cls, reach: Reach, columns: int, epsilon: Number, rows: int | None = None) -> "ObjectivePerturbation":
        """How to spend ε on rows v within `reach`, of so many columns.

        The loss is straight from residuals of `step` half widths of the target on, about √ε/2, a power of two: a
        smaller one means less noise, and more bias where residuals are skewed.
        """
        target = rational(epsilon, "epsilon", above=0)
        step = 2.0 ** min(max(round(math.log2(float(target)) / 2 - 1), -3), 2)
        count = planned([Part(1, 1, 1)], epsilon=target * _COUNT, delta=0)
        free = Fraction(reach.square, UNIT * UNIT) / (Fraction("1.9") * target)  # the determinant then costs nothing
        sizes, least = {"l1": reach.l1, "square": reach.square}, max(free, _LEAST)
        share = target * (1 - _COUNT)
        rest = perturbation(columns, 1, **sizes, least=least, epsilon=share, rows=rows, stated=epsilon)
        return cls(step, count, rest)

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise in each coordinate of Xᵀ·residuals."""
        return 2 * self.step * self.weights.deviation

    @property
    def loss(self) -> Loss:
        """What a release costs."""
        return Pure(sum(loss.epsilon for loss in (self.count.loss, self.weights.noise.loss) if isinstance(loss, Pure)))

    def noisy_count(self, rows: int, entropy: Entropy | None) -> float:
        """About how many rows there are, at least 1."""
        return max(float(self.count.add(0, np.array([rows]), entropy)[0]), 1.0)

    def ridge(self, count: float, columns: int) -> float:
        """The ridge on XᵀX, from a noisy count.

        Noise of deviation s moves predictions by a mean square of Σ s²λ/(λ + ridge)²/rows, λ being the eigenvalues of
        XᵀX, so by at most columns·s²/(4·ridge·rows): this is held to `_MOVED`, and the ridge to √columns·s at least.
        """
        blur = self.deviation * math.sqrt(columns)
        return max(blur, blur**2 / (4 * _MOVED * count), 4 * float(self.weights.penalty))


def residuals(v: Ints, weights: Floats, y: Ints) -> Ints:
    """(v·w − y)·UNIT for each row, cut to whole numbers from −UNIT to UNIT; a row's depends on this row alone."""
    missed = np.clip(scores(v, weights) - y / UNIT, -1, 1)
    return np.asarray(np.trunc(missed * UNIT), np.int64)


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
