"""Choosing among models by the exponential mechanism (McSherry, Talwar 2007)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from discreet.errors import InvalidData
from discreet.exact import Number
from discreet.learning.classical import reading
from discreet.learning.classical.sums import UNIT, snapped
from discreet.mechanisms import Exponential
from discreet.noise import Entropy
from discreet.privacy.budget import paying
from discreet.privacy.loss import Loss

Model = TypeVar("Model")


@dataclass(frozen=True, slots=True)
class Choice(Generic[Model]):
    """The chosen model and its place; `loss` is what the choice cost, the models' own training not included."""

    model: Model
    place: int
    loss: Loss


def choose(
    models: Sequence[Model],
    scores: Any,
    *,
    epsilon: Number,
    sensitivity: Number,
    monotone: bool = False,
    entropy: Entropy | None = None,
) -> Choice[Model]:
    """One of the models, better scores being exponentially more probable.

    Guarantee: ε-DP (ε-bounded range) if one unit changes each score by at most `sensitivity`, and all in the same
    direction if `monotone`; proof in `mechanisms.Exponential`. Scores are whole numbers: counts of right answers
    (`right_answers`: sensitivity 1, monotone under "add or remove one") or `closeness`.

    >>> choose(["small", "large"], [10, 5000], epsilon=1, sensitivity=1).model
    'large'
    """
    candidates = list(models)
    if not candidates or len(candidates) != np.size(scores):
        raise InvalidData(f"got {len(candidates)} models and {np.size(scores)} scores, expected as many, at least one")
    mechanism = Exponential(epsilon=epsilon, sensitivity=sensitivity, monotone=monotone)
    with paying(mechanism.loss):
        place = mechanism.release(scores, entropy=entropy)
    return Choice(candidates[place], place, mechanism.loss)


def right_answers(models: Sequence[Any], X: Any, y: Any) -> list[int]:
    """How many rows each classifier gets right. Private: for `choose` with sensitivity=1, monotone=True.

    The models must not have been changed by these rows, or their training must have been paid for. What a model says of
    a row must depend on this row alone: a linear algebra library may break that in a last bit, so for a row that lies
    within a rounding of the border between two classes.
    """
    truth = reading.labels(y, len(reading.features(X)[0]))
    return [int((np.asarray(model.predict(X)) == truth).sum()) for model in models]


def closeness(models: Sequence[Any], X: Any, y: Any, *, target_bounds: reading.Bounds) -> list[int]:
    """For each regressor, Σ over rows of UNIT² minus a quarter of its squared error, both clamped to `target_bounds`.

    Private: for `choose` with sensitivity=`UNIT`², monotone=True.
    Proof. Targets and predictions are snapped to [−UNIT, UNIT], so a quarter of a squared difference is at most UNIT²;
    every row adds between 0 and UNIT², a whole number, to every score. What a model says of a row must depend on this
    row alone, see `right_answers`.
    """
    truth = reading.numbers(y, len(reading.features(X)[0]))
    box = reading.box_of(target_bounds, ["y"], "target_bounds").centered()
    exact = snapped(truth[:, None], box)[:, 0]
    guesses = (snapped(np.nan_to_num(np.asarray(model.predict(X), np.float64))[:, None], box)[:, 0] for model in models)
    return [int((UNIT * UNIT - (exact - guess) ** 2 // 4).sum()) for guess in guesses]
