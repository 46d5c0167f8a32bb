"""Naive Bayes: Gaussian and categorical, from noisy sums of each class."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Classifier, Floats
from discreet.learning.classical.exact_sums import Ints, Part, planned, snapped
from discreet.learning.classical.transformers import moment_part, noisy_moments
from discreet.noise import Entropy


class GaussianNB(Classifier):
    """Gaussian naive Bayes, (ε, δ)-differentially private.

    `bounds` of the features and `classes` are declared: that somebody has a rare label is private. `classes="public"`
    states that the labels that occur are public. `rows` as in `Ridge`. Variances are raised by (`smoothing` · half the
    bounds' width)², because noise can make them vanish.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds to the sums of its own class alone, and by no more than `transformers.moment_part` says.

    >>> import numpy as np
    >>> x = np.vstack([np.full((500, 1), -1.0), np.full((500, 1), 1.0)])
    >>> model = GaussianNB(epsilon=2, delta=0, bounds=(-3, 3), classes=["no", "yes"])
    >>> model.fit(x, ["no"] * 500 + ["yes"] * 500).predict([[-1.0], [1.0]]).tolist(), model.cost_
    (['no', 'yes'], Pure(epsilon=Fraction(2, 1)))
    """

    theta_: Floats
    var_: Floats
    class_prior_: Floats
    class_count_: Floats

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        classes: Any,
        smoothing: Number = "0.03",
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.classes = epsilon, delta, bounds, classes
        self.smoothing, self.rows, self.entropy = smoothing, rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        values, groups = self._begin_classes(X, y)
        box = inputs.box_of(self.bounds, self._columns()).upward()
        more = float(rational(self.smoothing, "smoothing", above=0, at_most=1)) / 2
        noise = planned([moment_part(values.shape[1])], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        count, mean, var = noisy_moments(snapped(values, box), groups, len(self.classes_), noise, self.entropy)
        self.cost_ = noise.loss
        self.class_count_, self.class_prior_ = count, count / count.sum()
        self.theta_ = box.center + box.half * mean
        self.var_ = box.half**2 * (var + more**2)
        self._box = box
        return self

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of the classes."""
        values = np.clip(self._later(X), self._box.low, self._box.high)
        joint = np.tile(np.log(self.class_prior_), (len(values), 1))
        for k in range(len(self.classes_)):
            away = (values - self.theta_[k]) ** 2 / self.var_[k] + np.log(2 * np.pi * self.var_[k])
            joint[:, k] -= away.sum(axis=1) / 2
        return normalized(joint)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(np.exp(self.predict_log_proba(X)), np.float64)


class CategoricalNB(Classifier):
    """Categorical naive Bayes, (ε, δ)-differentially private. Features are whole numbers 0, 1, …, below `categories`.

    `categories` (one number for all columns, or one for each) and `classes` are declared. `alpha` is added to every
    count. `rows` as in `Ridge`.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds 1 to one cell for each column: `columns` in ℓ1 norm and in squared ℓ2 norm. Class sizes are
    averages over columns of these noisy cells.

    >>> model = CategoricalNB(epsilon=4, delta=0, categories=2, classes=[0, 1])
    >>> model.fit([[0], [1]] * 500, [0, 1] * 500).predict([[0], [1]]).tolist()
    [0, 1]
    """

    feature_log_prob_: list[Floats]
    category_count_: list[Floats]
    class_count_: Floats
    class_log_prior_: Floats
    n_categories_: NDArray[np.int64]

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        categories: int | Sequence[int],
        classes: Any,
        alpha: Number = 1,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.categories, self.classes = epsilon, delta, categories, classes
        self.alpha, self.rows, self.entropy = alpha, rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        values, groups = self._begin_classes(X, y)
        columns = values.shape[1]
        sizes = _sizes(self.categories, self._columns())
        codes = _codes(values, sizes)
        alpha = float(rational(self.alpha, "alpha", above=0))
        part = Part(l1=columns, square=columns, unit=1)
        noise = planned([part], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        exact = category_counts(codes, groups, sizes, len(self.classes_))
        noisy = [noise.add(0, table, self.entropy).astype(np.float64) for table in exact]
        self.cost_ = noise.loss
        self._settle(noisy, alpha, sizes)
        return self

    def _settle(self, noisy: list[Floats], alpha: float, sizes: Sequence[int]) -> None:
        self.n_categories_, self.category_count_ = np.array(sizes), noisy
        self.class_count_ = np.maximum(np.mean([table.sum(axis=1) for table in noisy], axis=0), 1.0)
        self.class_log_prior_ = np.log(self.class_count_ / self.class_count_.sum())
        smooth = [np.maximum(table, 0.0) + alpha for table in noisy]
        self.feature_log_prob_ = [np.log(table / table.sum(axis=1, keepdims=True)) for table in smooth]

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities of the classes."""
        codes = _codes(self._later(X), self.n_categories_.tolist())
        joint = np.tile(self.class_log_prior_, (len(codes), 1))
        for column, table in enumerate(self.feature_log_prob_):
            joint += table[:, codes[:, column]].T
        return normalized(joint)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        return np.asarray(np.exp(self.predict_log_proba(X)), np.float64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags


def category_counts(codes: Ints, groups: Ints, sizes: Sequence[int], classes: int) -> list[Ints]:
    """For each column, how many rows of each class (down) have each category (across).

    >>> import numpy as np
    >>> category_counts(np.array([[0], [1], [1]]), np.array([0, 0, 1]), [2], 2)[0].tolist()
    [[1, 1], [0, 1]]
    """
    tables = (
        np.bincount(groups * size + codes[:, column], minlength=classes * size) for column, size in enumerate(sizes)
    )
    return [table.reshape(classes, -1).astype(np.int64) for table in tables]


def normalized(joint: Floats) -> Floats:
    """Logarithms of probabilities that add up to 1 in each row."""
    shifted = joint - joint.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), np.float64)


def _sizes(categories: Any, columns: Sequence[str]) -> list[int]:
    if categories is None or isinstance(categories, str):
        raise InvalidParameter("categories", categories, "how many categories each column has", "declare them")
    if np.ndim(categories) == 0:
        return [integer(categories, "categories", at_least=1, at_most=10**6)] * len(columns)
    sizes = [integer(size, "categories", at_least=1, at_most=10**6) for size in categories]
    if len(sizes) != len(columns):
        raise InvalidParameter("categories", f"{len(sizes)} numbers for {len(columns)} columns", "one for each column")
    return sizes


def _codes(values: Floats, sizes: Sequence[int]) -> Ints:
    if (values < 0).any():
        raise InvalidData("X: Negative values in data passed to CategoricalNB; categories are 0, 1, 2, …")
    odd = np.argwhere((values != np.floor(values)) | (values >= np.array(sizes)))
    if len(odd):
        place = tuple(int(axis) for axis in odd[0])
        raise InvalidData(f"X: position {place} is not a whole number below the declared number of categories")
    return values.astype(np.int64)
