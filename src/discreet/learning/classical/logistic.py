"""Logistic regression, in two ways: objective perturbation, or a few noisy steps in the metric of a noisy XᵀX.

"objective" (`objective.perturbed`) is ε-DP and draws noise once. "steps" releases noisy gradients: with δ > 0 their
Gaussian noise grows with √columns where Laplace noise grows with columns, so from some 70 columns on it is the smaller.
Measured on Adult (public, 34 columns), objective perturbation against steps with δ = 1e-5: 0.832 and 0.828 of the test
rows right at ε = 0.1, 0.843 and 0.845 at ε = 1, 0.851 and 0.849 at ε = 10 (bench/results/classical.md).

Böhning, Lindsay 1988: the Hessian of the logistic loss is at most XᵀX/4, for several classes at most XᵀX/2 in each, so
w − 4(XᵀX)⁻¹·gradient never overshoots. All sums are whole and exact, and no convergence has to be proven for privacy.
"""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import reading
from discreet.learning.classical.bayes import normalised
from discreet.learning.classical.estimator import Classifier, Floats
from discreet.learning.classical.objective import Perturbation, perturbation, perturbed
from discreet.learning.classical.sums import (
    UNIT,
    Ints,
    Noise,
    Part,
    indicators,
    length,
    mirrored,
    noisy_float,
    norms,
    planned,
    products,
    row_square,
    snapped,
    triangle,
    triangle_part,
)
from discreet.noise import Entropy

_METRIC = Fraction(1, 4)  # its share of the budget


class LogisticRegression(Classifier):
    """Logistic regression for two or more classes, (ε, δ)-differentially private.

    bounds     (low, high) of the features: one pair, a pair for each column, or pairs by column name
    classes    declared, or "public" as in `GaussianNB`
    norm       the largest norm of a scaled row (each column from −1 to 1), √columns if None; a smaller one means less
               noise, and longer rows are shortened. Columns of one category's indicators have norm 1 together
    l1         the largest Σ|z| of a scaled row, what `norm` implies if None: it sets Laplace noise. Columns of one
               category's indicators count 1 together; longer rows are shortened
    C          as in scikit-learn: a penalty ‖w‖²/2C, here on the weights of the scaled columns, constant included;
               "objective" takes a larger one where ε is too small for it (`objective.perturbation`)
    method     "objective", "steps", or None: "objective" where delta=0 or where its noise is the smaller
    max_iter   how many "steps" to pay for; None: 12√ε, and 5·ε^0.3 where delta=0, within limits (`steps_for`)
    rows       as in `Ridge`; the number of rows is not needed and not released

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP, ε-DP for delta=0 and for "objective".
    Proof. "objective": in `objective`; which method is taken depends on settings alone. "steps": a row adds to the
    metric the upper triangle of vvᵀ, v = (1, z), bounded in `sums.triangle_part`; and to each gradient q ⊗ v, q being
    the whole numbers of `residuals`: ‖q ⊗ v‖² = ‖q‖²·‖v‖², ‖q ⊗ v‖₁ = ‖q‖₁·‖v‖₁. The weights at which residuals are
    taken come from earlier noisy sums, so releases compose adaptively (`sums.planned`).

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 2000)[:, None]
    >>> model = LogisticRegression(epsilon=2, delta="1e-6", bounds=(-1, 1), classes=["left", "right"])
    >>> model.fit(x, np.where(x[:, 0] > 0, "right", "left")).predict([[-0.5], [0.5]]).tolist()
    ['left', 'right']
    """

    coef_: Floats
    intercept_: Floats
    n_iter_: int

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: reading.Bounds,
        classes: Any,
        norm: Number | None = None,
        l1: Number | None = None,
        C: Number = 1,
        method: str | None = None,
        max_iter: int | None = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.norm, self.l1, self.C, self.method, self.max_iter = norm, l1, C, method, max_iter
        self.rows, self.entropy = rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        penalty = 1 / rational(self.C, "C", above=0)
        values, groups = self._begin_classes(X, y)
        box = reading.box_of(self.bounds, self._columns())
        square = row_square(values.shape[1], self.norm)
        sums = length(values.shape[1], square, self.l1)
        plan = self._plan(values.shape[1], min(square, UNIT * sums), sums, penalty)
        z = snapped(values, box, square, sums)
        v = np.hstack([np.full((len(z), 1), UNIT), z])
        target = indicators(groups, len(self.classes_))
        target = target if len(self.classes_) > 2 else target[:, 1:]
        if isinstance(plan, Perturbation):
            weights, self.cost_, self.n_iter_ = perturbed(v, target, plan, self.entropy), plan.noise.loss, 1
        else:
            noise, steps = plan
            weights, self.cost_, self.n_iter_ = (
                self._stepped(v, target, noise, steps, float(penalty)),
                noise.loss,
                steps,
            )
        self.coef_ = (weights[1:] / box.half[:, None]).T
        self.intercept_ = weights[0] - self.coef_ @ box.centre
        return self

    def _plan(self, columns: int, square: int, l1: int, penalty: Fraction) -> Perturbation | tuple[Noise, int]:
        """How the budget is spent, from settings alone."""
        if self.method not in (None, "objective", "steps"):
            raise InvalidParameter("method", self.method, '"objective", "steps" or None')
        usual = steps_for(epsilon=self.epsilon, delta=self.delta)
        steps = integer(usual if self.max_iter is None else self.max_iter, "max_iter", at_least=1, at_most=10**4)
        pure = not rational(self.delta, "delta", at_least=0, below=1)
        classes, parts = len(self.classes_), gradient_parts(columns, square, l1, len(self.classes_) > 2, steps)

        def once(rows: int | None) -> Perturbation:
            sizes = {"l1": l1 + UNIT, "square": square + UNIT * UNIT}
            return perturbation(columns + 1, classes, **sizes, epsilon=self.epsilon, least=penalty, rows=rows)

        def often(rows: int | None) -> Noise:
            return planned(parts, epsilon=self.epsilon, delta=self.delta, rows=rows)

        if self.method == "objective" or (self.method is None and pure):
            return once(self.rows)
        if self.method is None and once(None).deviation <= noisy_float(often(None).deviation(1)):
            return once(self.rows)
        return often(self.rows), steps

    def _stepped(self, v: Ints, target: Ints, noise: Noise, steps: int, penalty: float) -> Floats:
        """Weights after some steps; all that sees rows is released with noise."""
        curve = 0.25 if target.shape[1] == 1 else 0.5
        gram = mirrored(noise.add(0, triangle(products(v, v)), self.entropy), v.shape[1]) / UNIT**2
        metric = _inverse(gram * curve, noisy_float(noise.deviation(0)), penalty)
        weights = np.zeros((v.shape[1], target.shape[1]))
        for _ in range(steps):
            exact = products(v, residuals(v, weights, target))
            noisy = noise.add(1, exact, self.entropy) / UNIT**2
            weights = weights - metric @ (noisy + penalty * weights)
        return weights

    def decision_function(self, X: Any) -> Floats:
        """w·x + intercept: one number a row for two classes, else one for each class."""
        scores = self._later(X) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores, np.float64)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of the classes."""
        scores = self.decision_function(X)
        return normalised(np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(np.exp(self.predict_log_proba(X)), np.float64)


def steps_for(*, epsilon: Number, delta: Number) -> int:
    """How many steps are worth their noise: few for a small ε. A rule of thumb found on Adult, which is public.

    >>> [steps_for(epsilon=e, delta="1e-5") for e in ("0.1", 1, 10)], [steps_for(epsilon=e, delta=0) for e in (1, 10)]
    ([6, 12, 38], [5, 10])
    """
    size = float(rational(epsilon, "epsilon", above=0))
    if rational(delta, "delta", at_least=0, below=1):
        return int(min(max(round(12 * size**0.5), 6), 60))
    return int(min(max(round(5 * size**0.3), 3), 20))


def gradient_parts(columns: int, square: int, l1: int, several: bool, steps: int) -> list[Part]:
    """What a row adds to the metric, and to each of the gradients; see `LogisticRegression` and `residuals`."""
    factor = 2 if several else 1
    whole = square + UNIT * UNIT
    gradient = Part(factor * UNIT * (l1 + UNIT), factor * UNIT * UNIT * whole, UNIT * UNIT, 1 - _METRIC, steps)
    return [triangle_part(columns, square, constant=True, share=_METRIC, l1=Fraction(l1, UNIT)), gradient]


def residuals(v: Ints, weights: Floats, target: Ints) -> Ints:
    """(p − target)·UNIT for each row and class, cut to whole numbers towards zero.

    Guarantee: one class (two labels): |q| ≤ UNIT. Several: ‖q‖₁ ≤ 2·UNIT and ‖q‖² ≤ 2·UNIT², exactly: rows where
    rounding of floats broke that would count as zero.
    Proof. p and the target both add up to 1, so ‖p − target‖₁ ≤ 2 and ‖p − target‖² ≤ 2; cutting makes nothing larger,
    and both norms are then measured in whole numbers. A row's numbers do not depend on other rows (`_scores`).
    """
    with np.errstate(all="ignore"):
        scores = np.clip(_scores(v, weights), -700, 700)
        chances = 1 / (1 + np.exp(-scores)) if target.shape[1] == 1 else np.exp(normalised(scores))
    q = np.clip(np.trunc((chances - target) * UNIT), -UNIT, UNIT).astype(np.int64)
    if target.shape[1] > 1:
        q[(norms(q) > 2 * UNIT * UNIT) | (np.abs(q).sum(axis=1) > 2 * UNIT)] = 0
    return q


def _scores(v: Ints, weights: Floats) -> Floats:
    """v·weights/UNIT, weights rounded to about 30 bits of the largest: a row's scores depend on this row alone.

    Proof. A matrix product of floats is rounded in an order that may depend on how many rows there are. Here it adds up
    whole numbers: |v| ≤ UNIT = 2¹⁵, and weights become whole numbers of size at most 2^(37 − b) + ½ for fewer than 2^b
    columns; so all sums are below 2⁵³, and exact in every order.
    """
    finite = np.nan_to_num(weights)
    largest = max(int(np.frexp(np.abs(finite).max(initial=0.0))[1]), -900)
    steps = 37 - v.shape[1].bit_length() - largest
    return np.asarray(np.ldexp(v.astype(np.float64) @ np.rint(np.ldexp(finite, steps)), -steps - 15), np.float64)


def _inverse(bound: Floats, deviation: float, penalty: float) -> Floats:
    """(bound + penalty)⁻¹, eigenvalues held above what noise alone can reach."""
    values, vectors = np.linalg.eigh(bound)
    floor = max(deviation * np.sqrt(len(bound)) / 4, 1e-9 * max(float(values[-1]), 1.0))
    return np.asarray((vectors / (np.maximum(values, floor) + penalty)) @ vectors.T, np.float64)
