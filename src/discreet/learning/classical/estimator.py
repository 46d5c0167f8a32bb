"""What all classical models share: the scikit-learn protocol, without scikit-learn.

Settings are stored as given and read when `fit` is called, so that `clone`, `Pipeline` and `GridSearchCV` work. Every
call of `fit` draws fresh noise and costs `cost_` again.

scikit-learn is imported only inside methods that scikit-learn itself calls, or to raise the exceptions that it expects.
"""

import inspect
import sys
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.classical import reading
from discreet.privacy.loss import Loss

Floats = NDArray[np.float64]


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

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def _begin(self, X: Any) -> Floats:
        """The features that `fit` was given; remembers how many there are and their names."""
        values, names = reading.features(X)
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
        values, names = reading.features(X)
        reading.same_columns(type(self).__name__, values, names, self)
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
        declared = reading.declared_classes(self.classes)
        reading.target_given(type(self).__name__, y)
        values = self._begin(X)
        labels = reading.labels(y, len(values))
        self.classes_ = reading.public_classes(labels) if declared is None else declared
        return values, reading.places(labels, self.classes_)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        raise NotImplementedError

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row."""
        chances = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(chances, axis=1)])

    def score(self, X: Any, y: Any) -> float:
        """The share of right predictions. It looks at `y` without noise: for public or held-out data only."""
        guesses = self.predict(X)
        return float(np.mean(guesses == reading.labels(y, len(guesses))))


class Regressor(Estimator):
    """A model that says a number."""

    kind = "regressor"
    _estimator_type = "regressor"

    def predict(self, X: Any) -> Floats:
        """A number for each row."""
        raise NotImplementedError

    def score(self, X: Any, y: Any) -> float:
        """R². It looks at `y` without noise: for public or held-out data only."""
        guesses = self.predict(X)
        truth = reading.numbers(y, len(guesses))
        spread = float(((truth - truth.mean()) ** 2).sum())
        missed = float(((truth - guesses) ** 2).sum())
        return 1 - missed / spread if spread else float(missed == 0)


class Transformer(Estimator):
    """A model that changes rows."""

    kind = "transformer"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        raise NotImplementedError

    def transform(self, X: Any) -> Floats:
        """The rows, changed."""
        raise NotImplementedError

    def fit_transform(self, X: Any, y: Any = None) -> Floats:
        """`fit`, then `transform` of the same rows: what comes out is as private as they are."""
        return self.fit(X, y).transform(X)


def _not_fitted(name: str) -> Exception:
    words = f"This {name} instance is not fitted yet: call fit before using it"
    if "sklearn" not in sys.modules:
        return InvalidData(words)
    from sklearn.exceptions import NotFittedError  # type: ignore[import-untyped]

    kind = type("NotFitted", (InvalidData, NotFittedError), {})
    return kind(words)  # type: ignore[no-any-return]
