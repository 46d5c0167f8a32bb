"""A fair classifier from any that takes weights: a reduction to weighted classification (Agarwal et al. 2018).

The error is minimized under the constraint that each group's rate is within a tolerance of everybody's. The best
response to multipliers of the constraints is the estimator, fitted with weights |c| and labels c < 0 for the costs c of
predicting positive (their section 3). The best lottery of all classifiers so far is found by a linear program. Each
round adds four classifiers: the responses to multipliers that follow exponentiated gradient, to the prices that the
linear program puts on its constraints (column generation; Dantzig, Wolfe 1960), to those prices scaled down, and to the
mean of all prices so far, scaled down. Scaling
is for estimators that minimize another loss than the error: under large multipliers they all but forget the labels, and
smaller ones give a more accurate classifier that is as fair.
"""

from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InternalError, InvalidParameter, MissingExtra
from discreet.exact import Number, integer, rational
from discreet.fairness.cells import Criterion
from discreet.fairness.repair.thresholds import Codes, Floats, People, draw_predictions, linear
from discreet.noise import Entropy

_DUST = 1e-9
_GAIN = 1e-5  # of a lottery's value that counts as progress
_SCALES = 8  # halvings of the multipliers that are tried in turn
_PATIENCE = 2 * _SCALES  # rounds without progress before the search ends


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
        parts = [
            chance * _predictions(model, features) for model, chance in zip(self.models, self.chances, strict=True)
        ]
        return np.asarray(np.clip(np.sum(parts, axis=0), 0, 1), np.float64)

    def predict(self, features: Any, *, entropy: Entropy | None = None) -> Codes:
        """Predictions 0 and 1: one classifier is drawn for each row."""
        return draw_predictions(self.probabilities(features), entropy)


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
        raise InvalidParameter("criterion", criterion, "statistical parity, equal opportunity or equalized odds")
    search = _Search(estimator, features, people.label, _Moments.of(people, wanted), slack, weight)
    chances = search.run(integer(rounds, "rounds", at_least=1, at_most=10_000))
    kept = np.flatnonzero(chances > _DUST)
    share = chances[kept] / chances[kept].sum()
    worst = float(np.abs(share @ np.array(search.violations)[kept]).max())
    error = float(share @ np.array(search.errors)[kept])
    return Mixture(tuple(search.models[k] for k in kept), tuple(map(float, share)), criterion, error, worst)


class _Search:
    """The classifiers fitted so far, with their errors and violations on the rows."""

    def __init__(
        self, estimator: Any, features: Any, label: Codes, moments: "_Moments", slack: float, weight: str
    ) -> None:
        self.estimator, self.features, self.label, self.weight = estimator, features, label, weight
        self.moments, self.slack, self.bound = moments, slack, 1 / slack
        self.models: list[Any] = []
        self.errors: list[float] = []
        self.violations: list[Floats] = []

    def run(self, rounds: int) -> Floats:
        """Fit classifiers for so many rounds, or while the lottery gets better; the chances of the best one."""
        logs = np.zeros(2 * len(self.moments.rows))
        mean, best, stale = np.zeros(len(logs)), np.inf, 0
        for number in range(rounds):
            top = max(logs.max(), 0)
            powers = np.exp(logs - top)
            self._respond(self.bound * powers / (np.exp(-top) + powers.sum()))
            logs += 2 / self.bound * (np.concatenate([self.violations[-1], -self.violations[-1]]) - self.slack)
            result = self._lottery()
            stale = 0 if result.value < best - _GAIN else stale + 1
            if stale > _PATIENCE:
                break
            best = min(best, result.value)
            mean += (result.prices - mean) / (number + 1)
            scale = 0.5 ** (number % _SCALES)
            for multipliers in (result.prices, result.prices * scale, mean * scale)[:: 2 if scale == 1 else 1]:
                self._respond(multipliers)
        return self._lottery().chances

    def _respond(self, multipliers: Floats) -> None:
        """Fit the best response to multipliers of (rate − everybody's ≤ slack, everybody's − rate ≤ slack)."""
        half = len(self.moments.rows)
        costs = self.moments.costs(multipliers[:half] - multipliers[half:])
        model = _fitted(self.estimator, self.features, costs, self.weight)
        predictions = _predictions(model, self.features)
        self.models.append(model)
        self.errors.append(float(np.mean(predictions != self.label)))
        self.violations.append(self.moments.of_predictions(predictions))

    def _lottery(self) -> "_Lottery":
        return _lottery(np.array(self.errors), np.array(self.violations), self.slack, self.bound)


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
    model.fit(features, wanted, **{weight: np.abs(costs) / np.abs(costs).mean()})
    return model


def _predictions(model: Any, features: Any) -> Floats:
    return np.asarray(model.predict(features), np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Lottery:
    """Chances of classifiers, the price of each constraint, and error plus penalty."""

    chances: Floats
    prices: Floats
    value: float


def _lottery(errors: Floats, violations: Floats, slack: float, bound: float) -> _Lottery:
    """The lottery of the least error.

    Beyond the slack each unit of violation costs `bound` (their equation 3).
    """
    from scipy.optimize import linprog

    count, rows = len(errors), violations.T
    excess = -np.ones((2 * len(rows), 1))
    inequalities = np.hstack([np.vstack([rows, -rows]), excess])
    result = linprog(
        np.append(errors, bound),
        A_ub=inequalities,
        b_ub=np.full(2 * len(rows), slack),
        A_eq=np.append(np.ones(count), 0)[None],
        b_eq=[1],
        bounds=[(0, 1)] * count + [(0, None)],
    )
    if result.x is None or result.fun is None:
        raise InternalError("no lottery was found, though any single classifier is one")
    chances = np.asarray(np.clip(result.x[:count], 0, 1), np.float64)
    prices = np.asarray(np.maximum(-result.ineqlin.marginals, 0), np.float64)
    return _Lottery(chances, prices, float(result.fun))


# fairlearn, for those who use it already, or want its variants (the extra `fairness`): its threshold optimizer
# searches a grid where `thresholds.equalize` is exact; its exponentiated gradient stops by a duality gap


Method = Literal["threshold optimizer", "exponentiated gradient", "grid search"]
_CONSTRAINTS = {
    "statistical parity": ("demographic_parity", "DemographicParity"),
    "equal opportunity": ("true_positive_rate_parity", "TruePositiveRateParity"),
    "equalized odds": ("equalized_odds", "EqualizedOdds"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Repaired:
    """A fitted fairlearn model. `by_group`: predicting needs the sensitive attribute."""

    model: Any
    by_group: bool

    def probabilities(self, features: Any, group: ArrayLike) -> Floats:
        """The chance of each row to be predicted positive."""
        given = {"sensitive_features": np.asarray(group)} if self.by_group else {}
        if hasattr(self.model, "_pmf_predict"):
            return np.asarray(self.model._pmf_predict(features, **given), np.float64)[:, 1]
        return np.asarray(self.model.predict(features, **given), np.float64)


def repaired(
    estimator: Any,
    features: Any,
    label: ArrayLike,
    group: ArrayLike,
    *,
    criterion: str,
    method: Method,
    tolerance: Number = "0.01",
) -> Repaired:
    """Fit one of fairlearn's repairs around an estimator. `tolerance` bounds a rate's distance from everybody's.

    The threshold optimizer knows no tolerance here: it closes the gap.
    """
    if criterion not in _CONSTRAINTS:
        raise InvalidParameter("criterion", criterion, ", ".join(_CONSTRAINTS))
    slack = float(rational(tolerance, "tolerance", above=0, below=1))
    short, moment = _CONSTRAINTS[criterion]
    if method == "threshold optimizer":
        result = _part("postprocessing").ThresholdOptimizer(
            estimator=estimator, constraints=short, predict_method="auto", grid_size=1000
        )
    elif method == "exponentiated gradient":
        parts = _part("reductions")
        result = parts.ExponentiatedGradient(
            estimator, getattr(parts, moment)(difference_bound=slack), eps=slack, max_iter=50
        )
    elif method == "grid search":
        parts = _part("reductions")
        result = parts.GridSearch(estimator, getattr(parts, moment)(difference_bound=slack), grid_size=20)
    else:
        raise InvalidParameter("method", method, "'threshold optimizer', 'exponentiated gradient' or 'grid search'")
    result.fit(features, np.asarray(label), sensitive_features=np.asarray(group))
    return Repaired(result, method == "threshold optimizer")


def _part(name: str) -> Any:
    try:
        return import_module(f"fairlearn.{name}")
    except ImportError:
        raise MissingExtra("fairlearn", "fairness") from None
