"""fairlearn's repairs in this house's words (the extra `fairness`): for those who use it already, or want its variants.

Its threshold optimizer searches a grid where `thresholds.equalize` is exact; its exponentiated gradient stops by a
duality gap where `reduction` makes a fixed number of rounds.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter, MissingExtra
from discreet.exact import Number, rational

Floats = NDArray[np.float64]
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
        found = _part("postprocessing").ThresholdOptimizer(
            estimator=estimator, constraints=short, predict_method="auto", grid_size=1000
        )
    elif method == "exponentiated gradient":
        parts = _part("reductions")
        found = parts.ExponentiatedGradient(
            estimator, getattr(parts, moment)(difference_bound=slack), eps=slack, max_iter=50
        )
    elif method == "grid search":
        parts = _part("reductions")
        found = parts.GridSearch(estimator, getattr(parts, moment)(difference_bound=slack), grid_size=20)
    else:
        raise InvalidParameter("method", method, "'threshold optimizer', 'exponentiated gradient' or 'grid search'")
    found.fit(features, np.asarray(label), sensitive_features=np.asarray(group))
    return Repaired(found, method == "threshold optimizer")


def _part(name: str) -> Any:
    try:
        return import_module(f"fairlearn.{name}")
    except ImportError:
        raise MissingExtra("fairlearn", "fairness") from None
