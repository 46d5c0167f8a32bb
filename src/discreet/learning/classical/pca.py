"""Principal components of a noisy covariance (Dwork, Talwar, Thakurta, Zhang 2014, "Analyze Gauss")."""

from fractions import Fraction
from typing import Any, Self

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer
from discreet.learning.classical import reading
from discreet.learning.classical.estimator import Floats, Transformer
from discreet.learning.classical.one_hot import groups_of
from discreet.learning.classical.sums import (
    UNIT,
    mirrored,
    planned,
    products,
    reach_of,
    snapped,
    triangle,
    triangle_part,
)
from discreet.noise import Entropy


class PCA(Transformer):
    """Principal components, (ε, δ)-differentially private.

    bounds   (low, high) of the columns; each is scaled to [−1, 1] before the sums and back after them
    norm     the largest norm of a scaled row; rows beyond are shortened. norm=1 asks for rows within the unit ball, the
             usual setting; it has no default, because it decides about noise and bias; None: what the bounds imply
    one_hot  columns that are indicators of one category, as in `Ridge`
    rows     as in `Ridge`

    Guarantee: `fit` costs `cost_` under "add or remove one", which is (ε, δ)-DP.
    Proof. A row adds the upper triangle of vvᵀ, v = (1, z), bounded in `sums.triangle_part`. Centering, eigenvalues and
    eigenvectors come from the noisy matrix.

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
        bounds: reading.Bounds,
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
        box = reading.box_of(self.bounds, self._columns(), groups=groups)
        reach = reach_of(columns, norm=self.norm, groups=groups)
        part = triangle_part(reach.with_constant, Fraction(1))
        noise = planned([part], epsilon=self.epsilon, delta=self.delta, rows=self.rows)
        z = snapped(values, box, reach)
        v = np.hstack([np.full((len(z), 1), UNIT), z])
        noisy = noise.add(0, triangle(products(v, v)), self.entropy)
        self.cost_ = noise.loss
        self._settle(mirrored(noisy, columns + 1) / UNIT**2, box, kept)
        return self

    def _settle(self, gram: Floats, box: reading.Box, kept: int) -> None:
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
        values, _ = reading.features(X)
        return np.asarray(values @ self.components_ + self.mean_, np.float64)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
