"""What all classical models share: the scikit-learn protocol, without scikit-learn.

Settings are stored as given and read when `fit` is called, so that `clone`, `Pipeline` and `GridSearchCV` work. Every
call of `fit` draws fresh noise and costs `cost_` again.

scikit-learn is imported only inside methods that scikit-learn itself calls, or to raise the exceptions that it expects.
"""

import copy
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidInput, InvalidParameter, NoGuarantee
from discreet.exact import Number
from discreet.learning.classical import inputs
from discreet.learning.classical.exact_sums import UNIT, snapped
from discreet.mechanisms import Exponential
from discreet.noise import Entropy
from discreet.privacy.budget import counting, paying
from discreet.privacy.loss import Approximate, Loss
from discreet.threads import blas_threads

Floats = NDArray[np.float64]


def _single_threaded(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` whose matrix products use as many threads as the model's `threads` says, else one."""

    @wraps(fit)
    def single_threaded(model: Any, *given: Any, **more: Any) -> Any:
        with blas_threads(getattr(model, "threads", 1)):
            return fit(model, *given, **more)

    return single_threaded


def _counted(fit: Callable[..., Any]) -> Callable[..., Any]:
    """A `fit` that enters what it spends; one that is called by another `fit` of the same model is part of that."""

    @wraps(fit)
    def counted(model: Any, *given: Any, **more: Any) -> Any:
        if not counting() or "_entered" in vars(model):
            return fit(model, *given, **more)
        try:
            most = Approximate(model.epsilon, getattr(model, "delta", 0))
        except InvalidInput:  # `fit` refuses it in its own words
            most = Approximate(0, 1)
        model._entered = True
        try:
            with paying(most) as settle:
                fitted = fit(model, *given, **more)
                settle(model.cost_)
                return fitted
        finally:
            del model._entered

    return counted


class Estimator:
    """Settings by name, columns by name, and a clear word where `fit` was not called."""

    kind: ClassVar[str | None] = None
    cost_: Loss
    n_features_in_: int

    @classmethod
    def _names(cls) -> list[str]:
        return sorted(name for name in inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings, as they were given."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **settings: Any) -> Self:
        """Change settings; they take effect when `fit` is called."""
        for name, value in settings.items():
            if name not in self._names():
                raise InvalidParameter(name, value, f"one of the settings {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name, None)!r}" for name in self._names())
        return f"{type(self).__name__}({shown})"

    def __init_subclass__(cls, **settings: Any) -> None:
        """Every `fit` is entered in the open `Spending` blocks, and uses one thread for matrix products."""
        super().__init_subclass__(**settings)
        if "fit" in cls.__dict__:
            cls.fit = _single_threaded(_counted(cls.__dict__["fit"]))  # type: ignore[attr-defined]

    def __getstate__(self) -> dict[str, Any]:
        if counting() and not hasattr(self, "cost_"):
            advice = "use n_jobs=1, or joblib.parallel_config(backend='threading')"
            raise NoGuarantee(f"fits in another process cannot be counted within a Spending block; {advice}")
        return self.__dict__.copy()

    def __deepcopy__(self, memory: dict[int, Any]) -> Self:
        twin = type(self).__new__(type(self))
        twin.__dict__ |= copy.deepcopy(self.__dict__, memory)
        return twin

    def _begin(self, X: Any) -> Floats:
        """The features that `fit` was given; remembers how many there are and their names."""
        values, names = inputs.features(X)
        self.n_features_in_ = values.shape[1]
        if names is not None:
            self.feature_names_in_ = np.asarray(names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
        return values

    def _columns(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [repr(name) for name in names] if names is not None else [str(j) for j in range(self.n_features_in_)]

    def _later(self, X: Any) -> Floats:
        """The features given to a fitted model."""
        self._fitted()
        values, names = inputs.features(X)
        inputs.same_columns(type(self).__name__, values, names, self)
        return values

    def _fitted(self) -> None:
        if not hasattr(self, "cost_"):
            raise _not_fitted(type(self).__name__)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "cost_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import (  # type: ignore[import-untyped]
            ClassifierTags,
            RegressorTags,
            Tags,
            TargetTags,
            TransformerTags,
        )

        supervised = self.kind in ("classifier", "regressor")
        tags = Tags(estimator_type=self.kind, target_tags=TargetTags(required=supervised), non_deterministic=True)
        if self.kind == "classifier":
            tags.classifier_tags = ClassifierTags(poor_score=True)
        if self.kind == "regressor":
            tags.regressor_tags = RegressorTags(poor_score=True)
        if hasattr(self, "transform"):
            tags.transformer_tags = TransformerTags()
        return tags


class Classifier(Estimator):
    """A model that says which class; its classes are declared, never read from the data in silence."""

    kind = "classifier"
    _estimator_type = "classifier"
    classes: Any
    classes_: NDArray[Any]

    def _begin_classes(self, X: Any, y: Any) -> tuple[Floats, NDArray[np.int64]]:
        """Features and the place of each label among the classes; all refusals happen here, before noise is drawn."""
        declared = inputs.declared_classes(self.classes)
        inputs.target_given(type(self).__name__, y)
        values = self._begin(X)
        labels = inputs.labels(y, len(values))
        self.classes_ = inputs.public_classes(labels) if declared is None else declared
        return values, inputs.places(labels, self.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(chances, axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right predictions. It looks at `y` without noise: for public or held-out data only."""
        guesses = self.predict(X)
        weights = inputs.weights(sample_weight, len(guesses))
        return float(np.average(guesses == inputs.labels(y, len(guesses)), weights=weights))


class Regressor(Estimator):
    """A model that says a number."""

    kind = "regressor"
    _estimator_type = "regressor"

    def predict(self, X: Any) -> Floats:
        """A number for each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R². It looks at `y` without noise: for public or held-out data only."""
        guesses = self.predict(X)
        truth, weights = inputs.numbers(y, len(guesses)), inputs.weights(sample_weight, len(guesses))
        spread = float(np.average((truth - np.average(truth, weights=weights)) ** 2, weights=weights))
        missed = float(np.average((truth - guesses) ** 2, weights=weights))
        return 1 - missed / spread if spread else float(missed == 0)


class Columns(Estimator):
    """A model whose `transform` makes columns: their names, and the kind of table that they come in."""

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the columns that `transform` makes, as scikit-learn has them: pca0, pca1, …"""
        self._fitted()
        self._names_in(input_features)
        return np.array([f"{type(self).__name__.lower()}{place}" for place in range(self._n_features_out)], object)

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` gives: "default" (an array), "pandas" or "polars"; None changes nothing."""
        if transform not in (None, *_TABLES):
            raise InvalidParameter("transform", transform, f"one of {', '.join(_TABLES)}, or None")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    @property
    def _n_features_out(self) -> int:
        raise NotImplementedError

    def _names_in(self, given: Any) -> NDArray[Any]:
        """The names of the columns that `fit` was given, x0, x1, … if it was given none; other ones are refused."""
        seen = getattr(self, "feature_names_in_", None)
        if given is None:
            return np.array([f"x{j}" for j in range(self.n_features_in_)], object) if seen is None else seen
        names = np.asarray(given, object)
        if seen is not None and not np.array_equal(seen, names):
            raise InvalidData("input_features is not equal to feature_names_in_")
        if len(names) != self.n_features_in_:
            raise InvalidData(f"input_features should have length equal to number of features, {self.n_features_in_}")
        return names

    def _table(self, X: Any, values: Floats) -> Any:
        """The values in the kind of table that was asked for, of this model or of scikit-learn as a whole."""
        kind = getattr(self, "_sklearn_output_config", {}).get("transform")
        if kind is None and "sklearn" in sys.modules:
            import sklearn  # type: ignore[import-untyped]

            kind = sklearn.get_config()["transform_output"]
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame(values, index=getattr(X, "index", None), columns=self.get_feature_names_out())
        if kind == "polars":
            import polars as pl

            return pl.DataFrame(values, schema=self.get_feature_names_out().tolist(), orient="row")
        return values


_TABLES = "default", "pandas", "polars"


class Transformer(Columns):
    """A model that changes rows."""

    kind = "transformer"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        raise NotImplementedError

    def transform(self, X: Any) -> Any:
        """The rows, changed."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """`fit`, then `transform` of the same rows: what comes out is as private as they are."""
        return self.fit(X, y).transform(X)


def _not_fitted(name: str) -> Exception:
    words = f"This {name} instance is not fitted yet: call fit before using it"
    if "sklearn" not in sys.modules:
        return InvalidData(words)
    from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

    kind = type("NotFitted", (InvalidData, NotFittedError), {})
    return kind(words)  # type: ignore[no-any-return]


AnyModel = TypeVar("AnyModel")


@dataclass(frozen=True, slots=True)
class Choice(Generic[AnyModel]):
    """The chosen model and its place; `loss` is what the choice cost, the models' own training not included."""

    model: AnyModel
    place: int
    loss: Loss


def choose(
    models: Sequence[AnyModel],
    scores: Any,
    *,
    epsilon: Number,
    sensitivity: Number,
    monotone: bool = False,
    entropy: Entropy | None = None,
) -> Choice[AnyModel]:
    """One of the models, better scores being exponentially more probable.

    Guarantee: ε-DP (ε-bounded range) if one unit changes each score by at most `sensitivity`, and all in the same
    direction if `monotone`; proof in `mechanisms.Exponential`. Scores are whole numbers: counts of right answers
    (`correct_answers`: sensitivity 1, monotone under "add or remove one") or `closeness`.

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


def correct_answers(models: Sequence[Any], X: Any, y: Any) -> list[int]:
    """How many rows each classifier gets right. Private: for `choose` with sensitivity=1, monotone=True.

    The models must not have been changed by these rows, or their training must have been paid for. What a model says of
    a row must depend on this row alone: a linear algebra library may break that in a last bit, so for a row that lies
    within a rounding of the border between two classes.
    """
    truth = inputs.labels(y, len(inputs.features(X)[0]))
    return [int((np.asarray(model.predict(X)) == truth).sum()) for model in models]


def closeness(models: Sequence[Any], X: Any, y: Any, *, target_bounds: inputs.Bounds) -> list[int]:
    """For each regressor, Σ over rows of UNIT² minus a quarter of its squared error, both clamped to `target_bounds`.

    Private: for `choose` with sensitivity=`UNIT`², monotone=True.
    Proof. Targets and predictions are snapped to [−UNIT, UNIT], so a quarter of a squared difference is at most UNIT²;
    every row adds between 0 and UNIT², a whole number, to every score. What a model says of a row must depend on this
    row alone, see `correct_answers`.
    """
    truth = inputs.numbers(y, len(inputs.features(X)[0]))
    box = inputs.box_of(target_bounds, ["y"], "target_bounds").centered()
    exact = snapped(truth[:, None], box)[:, 0]
    guesses = (snapped(np.nan_to_num(np.asarray(model.predict(X), np.float64))[:, None], box)[:, 0] for model in models)
    return [int((UNIT * UNIT - (exact - guess) ** 2 // 4).sum()) for guess in guesses]
