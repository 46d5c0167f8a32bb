"""Logistic regression, in three ways; which one is expected to err least is taken, from settings alone.

"objective" (`objective.perturbed`) is ε-DP and draws noise once, Laplace noise that grows with the columns. "gradient"
takes many steps along noisy sums of clipped gradients: with δ > 0 it has the least noise from about five columns or
three classes on, because a gradient is clipped to norm 1 or 2, whatever the number of columns and classes, while
objective perturbation must allow for the longest row. All rows are in every step, so nothing has to be known of how
many there are; a noisy count sets the clip and the length of the steps. "steps" takes a few steps in the metric of a
noisy XᵀX. All sums are whole and exact, and no convergence has to be proven for privacy.

The constants were chosen on generated tables of 2 to 200 columns, 2 to 10 classes and 300 to 40,000 rows
(docs/decisions/0026-regressions-that-choose.md).
"""

import math
from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import exact_sums, inputs, objective
from discreet.learning.classical.descent import STEPS, Pace, Steps, blur, descended, descent_parts, scores
from discreet.learning.classical.estimator import Classifier
from discreet.learning.classical.exact_sums import (
    UNIT,
    Floats,
    Ints,
    Part,
    Reach,
    indicators,
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
from discreet.learning.classical.moments import normalized
from discreet.learning.classical.objective import Perturbation, perturbation, perturbed
from discreet.noise import Entropy
from discreet.privacy.loss import Loss

_PLENTY = 2000  # so many rows per deviation of the noise allow a clip of 2 instead of 1


def residuals(v: Ints, weights: Floats, target: Ints) -> Ints:
    """(p − target)·UNIT for each row and class, cut to whole numbers towards zero.

    Guarantee: one class (two labels): |q| ≤ UNIT. Several: ‖q‖₁ ≤ 2·UNIT and ‖q‖² ≤ 2·UNIT², exactly: rows where
    rounding of floats broke that would count as zero.
    Proof. p and the target both add up to 1, so ‖p − target‖₁ ≤ 2 and ‖p − target‖² ≤ 2; cutting makes nothing larger,
    and both norms are then measured in whole numbers. A row's numbers do not depend on other rows (`descent.scores`).
    """
    with np.errstate(all="ignore"):
        levels = np.clip(scores(v, weights), -700, 700)
        chances = 1 / (1 + np.exp(-levels)) if target.shape[1] == 1 else np.exp(normalized(levels))
    q = np.clip(np.trunc((chances - target) * UNIT), -UNIT, UNIT).astype(np.int64)
    if target.shape[1] > 1:
        q[(norms(q) > 2 * UNIT * UNIT) | (np.abs(q).sum(axis=1) > 2 * UNIT)] = 0
    return q


_METRIC = Fraction(1, 4)  # its share of the budget


class LogisticRegression(Classifier):
    """Logistic regression for two or more classes, (ε, δ)-differentially private.

    bounds     (low, high) of the features: one pair, a pair for each column, or pairs by column name
    classes    declared, or "public" as in `GaussianNB`
    norm       the largest norm of a scaled row (each column from −1 to 1), √columns if None; a smaller one means less
               noise, and longer rows are shortened
    l1         the largest Σ|z| of a scaled row, what `norm` implies if None: it sets Laplace noise; longer rows are
               shortened
    C          as in scikit-learn: a penalty ‖w‖²/2C, here on the weights of the scaled columns, constant included;
               "objective" takes a larger one where ε is too small for it (`objective.perturbation`)
    method     "objective", "gradient", "steps", or None: "objective" where delta=0 or where it is expected to err less
               than "gradient" (`expected_errors`)
    max_iter   how many steps to pay for; None: 100 for "gradient"; for "steps" 12√ε, and 5·ε^0.3 where delta=0, within
               limits (`steps_for`)
    one_hot    columns that are indicators of one category, as in `Ridge`
    rows       as in `Ridge`; the noisy count that warns without it is part of "gradient"

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP, ε-DP for delta=0 and for "objective".
    Proof. "objective": in `objective`; which method is taken depends on settings alone. "steps": a row adds to the
    metric the upper triangle of vvᵀ, v = (1, z), bounded in `exact_sums.triangle_part`; and to each gradient q ⊗ v, q
    being the whole numbers of `residuals`: ‖q ⊗ v‖² = ‖q‖²·‖v‖², ‖q ⊗ v‖₁ = ‖q‖₁·‖v‖₁. "gradient": a row adds 1 to a
    count, and to each gradient q ⊗ v with a clipped q (`descent_parts`). The weights at which residuals are taken come
    from earlier noisy sums, so releases compose adaptively (`exact_sums.planned`). Weights of rows, from 0 to 1, make q
    shorter, and v in the metric.

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
        bounds: inputs.Bounds,
        classes: Any,
        norm: Number | None = None,
        l1: Number | None = None,
        C: Number = 1,
        method: str | None = None,
        max_iter: int | None = None,
        one_hot: Any = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.norm, self.l1, self.C, self.method, self.max_iter = norm, l1, C, method, max_iter
        self.one_hot, self.rows, self.entropy = one_hot, rows, entropy

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        penalty = 1 / rational(self.C, "C", above=0)
        values, labels = self._begin_classes(X, y)
        weights = inputs.weights(sample_weight, len(values))
        groups = groups_of(self.one_hot, self._columns())
        box = inputs.box_of(self.bounds, self._columns(), groups=groups)
        reach = reach_of(values.shape[1], norm=self.norm, l1=self.l1, groups=groups)
        plan = self._plan(values.shape[1], reach.with_constant, penalty, len(self.classes_))
        z = snapped(values, box, reach)
        v = np.hstack([np.full((len(z), 1), UNIT), z])
        target = indicators(labels, len(self.classes_))
        target = target if len(self.classes_) > 2 else target[:, 1:]
        if isinstance(plan, Perturbation):
            result, self.cost_, self.n_iter_ = perturbed(v, target, plan, self.entropy, weights), plan.noise.loss, 1
        else:
            run = self._descended if plan.clipped else stepped
            result = run(v, target, plan, float(penalty), self.entropy, weights)
            self.cost_, self.n_iter_ = plan.loss, plan.steps
        self.coef_ = (result[1:] / box.half[:, None]).T
        self.intercept_ = result[0] - self.coef_ @ box.center
        return self

    def _descended(
        self, v: Ints, target: Ints, plan: Steps, penalty: float, entropy: Entropy | None, weights: Floats | None
    ) -> Floats:
        """Weights after steps along clipped gradients, whose clip and length a noisy count sets."""
        count = max(float(plan.noise.add(0, np.array([len(v)]), entropy)[0]), 1.0)
        if self.rows is None:
            warn_of_noise(blur(plan) * math.sqrt(v.shape[1] * target.shape[1]), round(count), level=5, paid=True)
        pace = Pace(count, 1.0 if count / blur(plan) < _PLENTY else 2.0, path=0.75, longest=1600.0)
        start = np.zeros((v.shape[1], target.shape[1]))
        return descended(residuals, v, target, plan, pace, start, penalty, entropy, weights)

    def loss(self, columns: int, classes: int) -> Loss:
        """What `fit` will cost for rows of so many columns and so many classes, from settings alone."""
        return self._plan_of(columns, classes)[0].noise.loss

    def moved(self, columns: int, classes: int) -> Loss:
        """The same from the noise that `fit` draws and from what a row moves, not from what was planned."""
        (plan, reach), outputs = self._plan_of(columns, classes), classes if classes > 2 else 1
        if isinstance(plan, Perturbation):
            return objective.moved(plan, columns + 1, classes, reach.l1)
        if plan.clipped:
            return exact_sums.moved(plan.noise, descent_parts(reach, outputs, columns + 1, plan.steps))
        return exact_sums.moved(plan.noise, gradient_parts(reach, outputs, plan.steps))

    def _plan_of(self, columns: int, classes: int) -> "tuple[Perturbation | Steps, Reach]":
        groups = groups_of(self.one_hot, [str(j) for j in range(columns)])
        reach = reach_of(columns, norm=self.norm, l1=self.l1, groups=groups).with_constant
        return self._plan(columns, reach, 1 / rational(self.C, "C", above=0), classes), reach

    def _plan(self, columns: int, reach: Reach, penalty: Fraction, classes: int) -> "Perturbation | Steps":
        """How the budget is spent, from settings alone; `reach` is that of v = (1, z)."""
        if self.method not in (None, "objective", "gradient", "steps"):
            raise InvalidParameter("method", self.method, '"objective", "gradient", "steps" or None')
        outputs = 1 if classes == 2 else classes

        def once(rows: int | None) -> Perturbation:
            sizes = {"l1": reach.l1, "square": reach.square}
            return perturbation(columns + 1, classes, **sizes, epsilon=self.epsilon, least=penalty, rows=rows)

        def often(rows: int | None, *, clipped: bool) -> Steps:
            usual = STEPS if clipped else steps_for(epsilon=self.epsilon, delta=self.delta)
            steps = integer(usual if self.max_iter is None else self.max_iter, "max_iter", at_least=1, at_most=10**4)
            parts = gradient_parts(reach, outputs, steps)
            if clipped:
                parts = descent_parts(reach, outputs, columns + 1, steps)
            return Steps(planned(parts, epsilon=self.epsilon, delta=self.delta, rows=rows), steps, clipped)

        if self.method == "steps":
            return often(self.rows, clipped=False)
        pure = not rational(self.delta, "delta", at_least=0, below=1)
        method = "objective" if self.method is None and pure else self.method
        if method is None:
            first, second = expected_errors(once(None), often(None, clipped=True))
            method = "objective" if first <= second else "gradient"
        plan = once(self.rows) if method == "objective" else often(self.rows, clipped=True)
        each = plan.deviation if isinstance(plan, Perturbation) else blur(plan)
        warn_of_noise(each * math.sqrt(outputs * (columns + 1)), self.rows, level=4)
        return plan

    def decision_function(self, X: Any) -> Floats:
        """w·x + intercept: one number a row for two classes, else one for each class."""
        scores = self._later(X) @ self.coef_.T + self.intercept_
        return np.asarray(scores[:, 0] if len(self.classes_) == 2 else scores, np.float64)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of the classes."""
        scores = self.decision_function(X)
        return normalized(np.stack([np.zeros(len(scores)), scores], axis=1) if scores.ndim == 1 else scores)

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


def expected_errors(once: Perturbation, often: Steps) -> tuple[float, float]:
    """How far off a sum of gradients is, in each coordinate: with objective perturbation, and with clipped gradients.

    The first has its noise and the pull Λ·w of its penalty, for weights of size 1; Λ grows with the number of classes.
    The second has the noise in the mean of all steps, doubled, as weights are drawn towards the last of them.
    """
    return math.hypot(once.deviation, float(once.penalty)), 2 * blur(often)


def gradient_parts(reach: Reach, outputs: int, steps: int) -> list[Part]:
    """What a row adds to the metric, and to each of the gradients; see `LogisticRegression` and `residuals`."""
    factor = 1 if outputs == 1 else 2
    gradient = Part(factor * UNIT * reach.l1, factor * UNIT * UNIT * reach.square, UNIT * UNIT, 1 - _METRIC, steps)
    return [triangle_part(reach, _METRIC), gradient]


def stepped(
    v: Ints,
    target: Ints,
    plan: Steps,
    penalty: float,
    entropy: Entropy | None,
    sample_weight: Floats | None = None,
) -> Floats:
    """Weights after some steps in the metric of XᵀX; all that sees rows is released with noise.

    Böhning, Lindsay 1988: the Hessian of the logistic loss is at most XᵀX/4, for several classes at most XᵀX/2 in each,
    so w − 4(XᵀX)⁻¹·gradient never overshoots.
    """
    curve = 0.25 if target.shape[1] == 1 else 0.5
    rows = weighted(v, None if sample_weight is None else np.sqrt(sample_weight))
    noise = plan.noise
    gram = mirrored(noise.add(0, triangle(products(rows, rows)), entropy), v.shape[1]) / UNIT**2
    metric = _inverse(gram * curve, noisy_float(noise.deviation(0)), penalty)
    weights = np.zeros((v.shape[1], target.shape[1]))
    for _ in range(plan.steps):
        exact = products(v, weighted(residuals(v, weights, target), sample_weight))
        noisy = noise.add(1, exact, entropy) / UNIT**2
        weights = weights - metric @ (noisy + penalty * weights)
    return weights


def _inverse(bound: Floats, deviation: float, penalty: float) -> Floats:
    """(bound + penalty)⁻¹, eigenvalues held above what noise alone can reach."""
    values, vectors = np.linalg.eigh(bound)
    floor = max(deviation * np.sqrt(len(bound)) / 4, 1e-9 * max(float(values[-1]), 1.0))
    return np.asarray((vectors / (np.maximum(values, floor) + penalty)) @ vectors.T, np.float64)
