"""Estimators from noisy sums: standard scaler, principal components, naive Bayes.

Principal components are those of Dwork et al. 2014, "Analyze Gauss"; naive Bayes takes sums of each class.
"""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Classifier, Floats, Transformer
from discreet.learning.classical.exact_sums import (
    UNIT,
    Ints,
    Noise,
    Part,
    indicators,
    mirrored,
    planned,
    products,
    reach_of,
    snapped,
    triangle,
    triangle_part,
    weighted,
)
from discreet.learning.classical.inputs import groups_of
from discreet.noise import Entropy


class StandardScaler(Transformer):
    """Columns shifted to mean 0 and scaled to deviation 1, both (ε, δ)-differentially private.

    `bounds` are declared; `rows` as in `Ridge`. A column whose noisy variance is not positive is only shifted.

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds to the sums of `moment_sums` no more than `moment_part` says; the rest is post-processing.

    >>> import numpy as np
    >>> x = np.linspace(10, 20, 1000)[:, None]
    >>> scaler = StandardScaler(epsilon=5, delta=0, bounds=(0, 30)).fit(x)
    >>> bool(abs(scaler.mean_[0] - 15) < 1), scaler.cost_
    (True, Pure(epsilon=5))
    """

    mean_: Floats
    var_: Floats
    scale_: Floats
    n_samples_seen_: float

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        with_mean: bool = True,
        with_std: bool = True,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds = epsilon, delta, bounds
        self.with_mean, self.with_std, self.rows, self.entropy = with_mean, with_std, rows, entropy

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`. Weights lie between 0 and 1."""
        values = self._begin(X)
        weights = inputs.weights(sample_weight, len(values))
        box = inputs.box_of(self.bounds, self._columns()).upward()
        noise = planned([moment_part(values.shape[1])], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z = snapped(values, box)
        count, mean, var = noisy_moments(z, np.zeros(len(z), np.int64), 1, noise, self.entropy, weights)
        self.cost_ = noise.loss
        self.n_samples_seen_ = float(count[0])
        self.mean_, self.var_ = box.center + box.half * mean[0], box.half**2 * var[0]
        self.scale_ = np.where(self.var_ > 0, np.sqrt(np.maximum(self.var_, 0)), 1.0)
        return self

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """The names of the columns, which stay as they are."""
        self._fitted()
        return self._names_in(input_features)

    def transform(self, X: Any) -> Any:
        """(x − mean)/deviation."""
        values = self._later(X)
        shifted = values - self.mean_ if self.with_mean else values
        return self._table(X, np.asarray(shifted / self.scale_ if self.with_std else shifted, np.float64))

    def inverse_transform(self, X: Any) -> Floats:
        """Back to the units of the data."""
        self._fitted()
        values, _ = inputs.features(X)
        grown = values * self.scale_ if self.with_std else values
        return np.asarray(grown + self.mean_ if self.with_mean else grown, np.float64)


def moment_part(columns: int) -> Part:
    """What a row adds to the sums of `moment_sums`, in its group.

    Proof. In a column with 0 ≤ u ≤ 1 it adds (1 − u)², 2u(1 − u) and u² (in units of UNIT²): none is negative and they
    add up to 1. So the ℓ1 norm is exactly 1 for each column, and the squared norm at most 1. Every row is in one group,
    so other groups' sums do not move. Count, sum and sum of squares, released side by side, would cost up to three
    times that. A weight makes none of the three larger (`exact_sums.weighted`).
    """
    return Part(columns * UNIT**2, columns * UNIT**4, UNIT**2)


def moment_sums(u: Ints, groups: Ints, count: int, sample_weight: Floats | None = None) -> Ints:
    """Exact sums over the rows of each group and column of (1 − u)², 2u(1 − u) and u², for u from 0 to UNIT.

    These are Bernstein's polynomials of degree 2. With U = UNIT they are nU² − 2U·Σu + Σu², 2U·Σu − 2Σu² and Σu².

    >>> moment_sums(np.array([[0], [UNIT], [UNIT // 2]]), np.array([0, 0, 1]), 2)[:, :, 0] / UNIT**2
    array([[1.  , 0.  , 1.  ],
           [0.25, 0.5 , 0.25]])
    """
    ones = indicators(groups, count)
    if sample_weight is not None:
        each = (UNIT - u) ** 2, 2 * u * (UNIT - u), u * u
        return np.stack([products(ones, weighted(part, sample_weight)) for part in each], axis=1)
    number, first, second = ones.sum(axis=0)[:, None], products(ones, u), products(ones, u * u)
    sums = number * UNIT**2 - 2 * UNIT * first + second, 2 * UNIT * first - 2 * second, second
    return np.stack(sums, axis=1)


def noisy_moments(
    u: Ints, groups: Ints, count: int, noise: Noise, entropy: Entropy | None, sample_weight: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Noisy counts, means and variances (of values scaled to 0 to 1) of each group; a variance may come out 0.

    Each column's three sums add up to the count, so the count is the mean over columns.
    """
    noisy = noise.add(0, moment_sums(u, groups, count, sample_weight), entropy) / UNIT**2
    rows = np.maximum(noisy.sum(axis=1).mean(axis=1), 1.0)
    held = np.maximum(noisy, 0.0)
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1.0)
    mean = shares[:, 2] + shares[:, 1] / 2
    return rows, mean, np.maximum(shares[:, 2] - mean**2, 0.0)


class PCA(Transformer):
    """Principal components, (ε, δ)-differentially private.

    bounds   (low, high) of the columns; each is scaled to [−1, 1] before the sums and back after them
    norm     the largest norm of a scaled row; rows beyond are shortened. norm=1 asks for rows within the unit ball, the
             usual setting; it has no default, because it decides about noise and bias; None: what the bounds imply
    one_hot  columns that are indicators of one category, as in `Ridge`
    rows     as in `Ridge`

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds the upper triangle of vvᵀ, v = (1, z), bounded in `exact_sums.triangle_part`. Centering,
    eigenvalues and eigenvectors come from the noisy matrix.

    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 5000)[:, None] * [1.0, 1.0]
    >>> model = PCA(n_components=1, epsilon=2, delta="1e-6", bounds=(-1, 1), norm="1.5").fit(x)
    >>> np.abs(model.components_).round(1).tolist()
    [[0.7, 0.7]]
    """

    components_: Floats
    explained_variance_: Floats
    explained_variance_ratio_: Floats
    mean_: Floats
    n_components_: int

    def __init__(
        self,
        *,
        epsilon: Number,
        delta: Number,
        bounds: inputs.Bounds,
        norm: Number | None,
        n_components: int | None = None,
        one_hot: Any = None,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.delta, self.bounds, self.norm = epsilon, delta, bounds, norm
        self.n_components, self.one_hot, self.rows, self.entropy = n_components, one_hot, rows, entropy

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        values = self._begin(X)
        columns = values.shape[1]
        kept = columns if self.n_components is None else integer(self.n_components, "n_components", at_least=1)
        if kept > columns:
            raise InvalidParameter("n_components", kept, f"at most {columns}, the number of columns")
        groups = groups_of(self.one_hot, self._columns())
        box = inputs.box_of(self.bounds, self._columns(), groups=groups)
        reach = reach_of(columns, norm=self.norm, groups=groups)
        part = triangle_part(reach.with_constant, Fraction(1))
        noise = planned([part], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z = snapped(values, box, reach)
        v = np.hstack([np.full((len(z), 1), UNIT), z])
        noisy = noise.add(0, triangle(products(v, v)), self.entropy)
        self.cost_ = noise.loss
        self._settle(mirrored(noisy, columns + 1) / UNIT**2, box, kept)
        return self

    def _settle(self, gram: Floats, box: inputs.Box, kept: int) -> None:
        rows = max(float(gram[0, 0]), 1.0)
        mean = np.clip(gram[0, 1:] / rows, -1, 1)
        scaled = gram[1:, 1:] / rows - np.outer(mean, mean)
        values, vectors = np.linalg.eigh(scaled * np.outer(box.half, box.half))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
        self.n_components_, self.mean_ = kept, box.center + box.half * mean
        self.components_ = np.ascontiguousarray((vectors * signs).T[:kept])
        self.explained_variance_ = values[:kept].copy()
        self.explained_variance_ratio_ = values[:kept] / max(float(values.sum()), 1e-300)

    def transform(self, X: Any) -> Any:
        """Coordinates along the components."""
        return self._table(X, np.asarray((self._later(X) - self.mean_) @ self.components_.T, np.float64))

    def inverse_transform(self, X: Any) -> Floats:
        """The rows that have these coordinates."""
        self._fitted()
        values, _ = inputs.features(X)
        return np.asarray(values @ self.components_ + self.mean_, np.float64)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


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
    (['no', 'yes'], Pure(epsilon=2))
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`; weights of rows are from 0 to 1."""
        values, groups = self._begin_classes(X, y)
        weights = inputs.weights(sample_weight, len(values))
        box = inputs.box_of(self.bounds, self._columns()).upward()
        more = float(rational(self.smoothing, "smoothing", above=0, at_most=1)) / 2
        noise = planned([moment_part(values.shape[1])], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z, classes = snapped(values, box), len(self.classes_)
        count, mean, var = noisy_moments(z, groups, classes, noise, self.entropy, weights)
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
    Proof. A row adds 1 to one cell for each column: `columns` in ℓ1 norm and in squared ℓ2 norm; with weights UNIT or
    less (`exact_sums.weighted`). Class sizes are averages over columns of these noisy cells.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`; weights of rows are from 0 to 1."""
        values, groups = self._begin_classes(X, y)
        columns, weights = values.shape[1], inputs.weights(sample_weight, len(values))
        sizes = _sizes(self.categories, self._columns())
        codes = _codes(values, sizes)
        alpha = float(rational(self.alpha, "alpha", above=0))
        unit = 1 if weights is None else UNIT
        amounts = weighted(np.full((len(values), 1), unit), weights)[:, 0]
        part = Part(l1=columns * unit, square=columns * unit * unit, unit=unit)
        noise = planned([part], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        exact = category_counts(codes, groups, sizes, len(self.classes_), amounts)
        noisy = [noise.add(0, table, self.entropy) / unit for table in exact]
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


def category_counts(codes: Ints, groups: Ints, sizes: Sequence[int], classes: int, amounts: Ints) -> list[Ints]:
    """For each column, how much rows of each class (down) with each category (across) add: exact below 2⁵³.

    >>> import numpy as np
    >>> category_counts(np.array([[0], [1], [1]]), np.array([0, 0, 1]), [2], 2, np.array([1, 1, 1]))[0].tolist()
    [[1, 1], [0, 1]]
    """
    tables = (
        np.bincount(groups * size + codes[:, column], amounts, classes * size) for column, size in enumerate(sizes)
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
