"""A fair classifier from any that takes weights: a reduction to weighted classification (Agarwal et al. 2018).

The error is minimised under the constraint that each group's rate is within a tolerance of everybody's. The multipliers
of the constraints follow exponentiated gradient; the best response to them is the estimator, fitted with weights |c|
and labels c < 0 for the costs c of predicting positive (their section 3). Of all classifiers that were met, the best
lottery is found by a linear program.
"""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.fairness.metrics import Criterion
from discreet.fairness.repair.people import Codes, Floats, People, linear, thrown
from discreet.noise import Entropy

_DUST = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """A lottery of classifiers; `error` and `violation` are those on the rows it was fitted to."""

    models: tuple[Any, ...]
    chances: tuple[float, ...]
    criterion: str
    error: float
    violation: float

    def probabilities(self, features: Any) -> Floats:
        """The chance of each row to be predicted positive."""
        parts = [chance * _said(model, features) for model, chance in zip(self.models, self.chances, strict=True)]
        return np.asarray(np.clip(np.sum(parts, axis=0), 0, 1), np.float64)

    def predict(self, features: Any, *, entropy: Entropy | None = None) -> Codes:
        """Predictions 0 and 1: one classifier is drawn for each row."""
        return thrown(self.probabilities(features), entropy)


def reduction(
    estimator: Any,
    features: Any,
    label: ArrayLike,
    group: ArrayLike,
    *,
    criterion: str,
    tolerance: Number,
    rounds: int = 50,
    weight: str = "sample_weight",
) -> Mixture:
    """Fit a lottery of classifiers whose rates in each group are within `tolerance` of everybody's.

    So two groups are at most twice the tolerance apart, on the rows given. `estimator` has `fit(features, label,
    sample_weight=…)` and `predict`; it is copied, not changed. `weight` names that argument, as in a pipeline
    ("model__sample_weight"). Where no lottery of the classifiers met reaches the tolerance, the nearest is given:
    `violation` tells.
    """
    people, wanted = People.of(label, group), linear(criterion)
    slack = float(rational(tolerance, "tolerance", above=0, below=1))
    if wanted.name == "equal accuracy":
        raise InvalidParameter("criterion", criterion, "statistical parity, equal opportunity or equalised odds")
    moments = _Moments.of(people, wanted)
    bound, logs = 1 / slack, np.zeros(2 * len(moments.rows))
    step = 2 / bound
    models, errors, violations = [], [], []
    for _ in range(integer(rounds, "rounds", at_least=1, at_most=10_000)):
        powers = np.exp(logs - max(logs.max(), 0))
        multipliers = bound * powers / (np.exp(-max(logs.max(), 0)) + powers.sum())
        half = len(moments.rows)
        model = _fitted(estimator, features, moments.costs(multipliers[:half] - multipliers[half:]), weight)
        said = _said(model, features)
        models.append(model)
        errors.append(float(np.mean(said != people.label)))
        violations.append(moments.of_predictions(said))
        logs += step * (np.concatenate([violations[-1], -violations[-1]]) - slack)
    chances = _lottery(np.array(errors), np.array(violations), slack, bound)
    kept = np.flatnonzero(chances > _DUST)
    share = chances[kept] / chances[kept].sum()
    worst = float(np.abs(share @ np.array(violations)[kept]).max())
    error = float(share @ np.array(errors)[kept])
    return Mixture(tuple(models[k] for k in kept), tuple(map(float, share)), criterion, error, worst)


@dataclass(frozen=True, slots=True, eq=False)
class _Moments:
    """The constraints: rows · predictions is a group's rate less everybody's, for each group and rate."""

    rows: Floats
    base: Floats

    @classmethod
    def of(cls, people: People, criterion: Criterion) -> "_Moments":
        rows = []
        for inside, _ in people.shares(criterion):
            for k in range(len(people.groups)):
                mine = inside & (people.group == k)
                if mine.any():
                    rows.append(mine / mine.sum() - inside / inside.sum())
        return cls(np.array(rows), (1 - 2 * people.label) / len(people.label))

    def of_predictions(self, said: Floats) -> Floats:
        return np.asarray(self.rows @ said)

    def costs(self, multipliers: Floats) -> Floats:
        """What predicting positive costs in each row, over predicting negative."""
        return np.asarray(self.base + multipliers @ self.rows)


@dataclass(frozen=True, slots=True)
class _Always:
    """Predicts the same for everybody."""

    value: int

    def predict(self, features: Any) -> Codes:
        return np.full(len(features), self.value)


def _fitted(estimator: Any, features: Any, costs: Floats, weight: str) -> Any:
    wanted = (costs < 0).astype(np.int64)
    if wanted.min() == wanted.max():
        return _Always(int(wanted[0]))
    model = deepcopy(estimator)
    model.fit(features, wanted, **{weight: np.abs(costs) * len(costs)})
    return model


def _said(model: Any, features: Any) -> Floats:
    return np.asarray(model.predict(features), np.float64)


def _lottery(errors: Floats, violations: Floats, slack: float, bound: float) -> Floats:
    """The least error over lotteries; beyond the slack each unit of violation costs `bound` (their equation 3)."""
    from scipy.optimize import linprog

    count, rows = len(errors), violations.T
    excess = -np.ones((2 * len(rows), 1))
    inequalities = np.hstack([np.vstack([rows, -rows]), excess])
    found = linprog(
        np.append(errors, bound),
        A_ub=inequalities,
        b_ub=np.full(2 * len(rows), slack),
        A_eq=np.append(np.ones(count), 0)[None],
        b_eq=[1],
        bounds=[(0, 1)] * count + [(0, None)],
    )
    if found.x is None:
        raise InternalError("no lottery was found, though any single classifier is one")
    return np.asarray(np.clip(found.x[:count], 0, 1), np.float64)
