"""Private principal components, and private means and deviations, to prepare rows for training.

Components: Dwork, Talwar, Thakurta, Zhang 2014 ("Analyze Gauss"): one Gaussian mechanism on the sum of x⊗x over rows of
norm at most 1. What is computed from the noisy matrix is free.

>>> import numpy as np
>>> from discreet.learning.sgd.preprocessing import PrivatePca
>>> from discreet.noise import DeterministicEntropy
>>> rows = np.zeros((1000, 4)); rows[:, 2] = np.linspace(-1, 1, 1000)
>>> found = PrivatePca(1, multiplier=5, rows=1000).release(rows, entropy=DeterministicEntropy(1))
>>> np.abs(found.directions[:, 0]).round(1).tolist()
[0.0, 0.0, 1.0, 0.0]

Standardization: Tramèr, Boneh 2021 ("Differentially private learning needs better features") normalize wavelet features
so. Two noisy sums, of the rows and of their squares, each row's share in both bounded.

>>> from discreet.learning.sgd.preprocessing import PrivateStandard
>>> rows = np.tile([[0.3, -0.1], [0.5, -0.3]], (5000, 1))
>>> found = PrivateStandard(multiplier=2, rows=10_000, norm=1, squares=1).release(rows)
>>> found.mean.round(2).tolist(), found.deviation.round(1).tolist()
([0.4, -0.2], [0.1, 0.1])
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, integer, rational, sqrt_bounds
from discreet.learning.sgd.clipping import product
from discreet.learning.sgd.gradients import Array, Ints
from discreet.noise import Entropy
from discreet.noise.normal import rounded_gaussian
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise

PCA_GRID = 1 << 14
"""The norm 1 in steps of the grid on which rows are snapped."""

_PART = 1 << 12  # rows at a time: 2^12 squares of at most 2^28 stay below 2^53
_WIDEST_PCA = 1 << 13  # columns: the matrix of moments has their square
_ROOT = Fraction(sqrt_bounds(Fraction(1, 2), 60)[1], 1 << 60)  # 1/√2, rounded up


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """Directions (one a column), the mean square of rows along each, and how rows are made from them. Public.

    A row is shortened to norm 1 if it is longer, projected, and each direction is divided by its spread to the power
    `whiten`: 0 keeps the spreads, 1 makes them equal. In the mean, coordinates have mean square 1.
    """

    directions: NDArray[np.float64]
    spreads: NDArray[np.float64]
    whiten: float

    def apply(self, x: Any) -> Array:
        """Rows in the new coordinates.

        >>> one = Projection(np.eye(2, 1), np.array([0.25]), 0.5)
        >>> one.apply(np.array([[0.5, 0.1]])).tolist()
        [[1.0]]
        """
        rows = _rows(x, len(self.directions)).astype(np.float32, order="C")
        root = np.sqrt(self.spreads)
        shrunk = root**-self.whiten
        scale = shrunk * math.sqrt(len(root) / float(np.square(root * shrunk).sum()))
        lengths = np.maximum(1, np.sqrt(np.vecdot(rows, rows)))[:, None]
        matrix = (self.directions * scale).astype(np.float32)
        projected: Array = product(rows, matrix) / lengths  # a row's image depends on the row alone
        return projected


@dataclass(frozen=True, slots=True)
class PrivatePca:
    """The first principal components (not centered) of rows shortened to norm 1, at the cost of one Gaussian release.

    `rows` is the public number of rows, about: it sets the scale of what comes out, and no more.
    """

    dimensions: int
    multiplier: Fraction
    rows: Fraction
    whiten: Fraction

    def __init__(self, dimensions: int, *, multiplier: Number, rows: Number, whiten: Number = "1/4") -> None:
        exact = rational(multiplier, "multiplier", at_least=Fraction(1, 1 << 20), at_most=1 << 20)
        object.__setattr__(self, "dimensions", integer(dimensions, "dimensions", at_least=1, at_most=_WIDEST_PCA))
        object.__setattr__(self, "multiplier", exact)
        object.__setattr__(self, "rows", rational(rows, "rows", at_least=1))
        object.__setattr__(self, "whiten", rational(whiten, "whiten", at_least=0, at_most=1))

    @classmethod
    def for_share(
        cls, dimensions: int, *, epsilon: Number, delta: Number, share: Number, rows: Number, whiten: Number = "1/4"
    ) -> "PrivatePca":
        """Give it a share of the budget: noise 1/√share times that of a Gaussian release that spends all of (ε, δ).

        In the terms of Gaussian privacy (Dong, Roth, Su 2022) μ² adds up, and this is the part `share` of it.

        >>> float(round(PrivatePca.for_share(60, epsilon=2, delta="1e-5", share="0.1", rows=100).multiplier, 2))
        6.3
        """
        part = rational(share, "share", above=0, below=1)
        whole = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
        root = Fraction(sqrt_bounds(1 / part, 40)[1], 1 << 40)
        multiplier = Fraction(math.ceil(whole * root * 10**6), 10**6)
        return cls(dimensions, multiplier=multiplier, rows=rows, whiten=whiten)

    @property
    def loss(self) -> GaussianNoise:
        """One Gaussian release of sensitivity 1, under "add or remove one"."""
        return GaussianNoise(self.multiplier)

    def release(self, x: Any, *, entropy: Entropy | None = None) -> Projection:
        """The projection of these rows.

        Guarantee: costs `loss` under "add or remove one". Proof. A row becomes whole numbers k with Σk² ≤ GRID²
        (`_snapped`) and adds k⊗k to the sum, exactly. Of the symmetric matrix, the diagonal gets Gaussian noise of
        deviation s = multiplier·GRID², and each pair of equal entries above and below it one noise of at least s/√2.
        A row moves the entries, each divided by its deviation, by a vector of squared norm
        (Σ_i k_i⁴ + 2·Σ_{i<j} k_i²k_j²)/s² = (Σk²)²/s² ≤ 1/multiplier². Noise is rounded to the grid of the sums.
        """
        rows = _rows(x, None)
        columns = rows.shape[1]
        if self.dimensions > columns:
            raise InvalidData(f"{self.dimensions} components of {columns} columns; ask for at most {columns}")
        noisy = _noisy(_moments(rows), self.multiplier, entropy)
        values, vectors = np.linalg.eigh(noisy / float(PCA_GRID * PCA_GRID))
        first = np.argsort(values)[::-1][: self.dimensions]
        spreads = np.maximum(values[first], max(float(values[first[0]]), 1e-9) * 1e-3) / float(self.rows)
        return Projection(vectors[:, first], spreads, float(self.whiten))


def _noisy(total: Ints, multiplier: Fraction, entropy: Entropy | None) -> NDArray[np.float64]:
    columns = len(total)
    scale = multiplier * PCA_GRID * PCA_GRID
    above = np.triu_indices(columns, 1)
    noisy = np.zeros((columns, columns))
    noisy[above] = total[above] + rounded_gaussian(scale * _ROOT, len(above[0]), entropy=entropy)
    noisy += noisy.T
    noisy[np.diag_indices(columns)] = total.diagonal() + rounded_gaussian(scale, columns, entropy=entropy)
    return noisy


def _moments(rows: NDArray[Any]) -> Ints:
    """Σ k⊗k over the rows on the grid, exactly: sums stay below 2⁵³ within a part, and parts are added as integers."""
    total = np.zeros((rows.shape[1], rows.shape[1]), np.int64)
    for part in _snapped(rows):
        total += (part.T @ part).astype(np.int64)
    return total


def _snapped(rows: NDArray[Any]) -> Iterator[NDArray[np.float64]]:
    """Rows shortened to norm 1, times PCA_GRID, cut to whole numbers; a row that is still too long would be left out.

    Squares of whole numbers up to PCA_GRID in rows of up to 2¹³ are summed exactly, so rounding has no part in this
    check.
    """
    for start in range(0, len(rows), _PART):
        part = rows[start : start + _PART].astype(np.float64, order="C")  # sums of a row do not depend on others
        with np.errstate(all="ignore"):
            lengths = np.maximum(1, np.sqrt(np.vecdot(part, part)))
            whole = np.trunc(np.clip(part * (PCA_GRID * (1 - 2.0**-40) / lengths)[:, None], -PCA_GRID, PCA_GRID))
        whole[~(np.vecdot(whole, whole) <= PCA_GRID * PCA_GRID)] = 0
        yield whole


def _rows(x: Any, columns: int | None) -> NDArray[Any]:
    rows = np.asarray(x)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub" or not 0 < rows.shape[1] <= _WIDEST_PCA:
        raise InvalidData(
            f"rows of shape {rows.shape} and type {rows.dtype}, expected up to {_WIDEST_PCA} columns of numbers"
        )
    if columns is not None and rows.shape[1] != columns:
        raise InvalidData(f"rows of {rows.shape[1]} columns, expected {columns}")
    return rows


GRID = 1 << 24
"""The bounds of a row in steps of the grid; half of the squared sensitivity is for each of the two sums."""

_HALF = math.isqrt(GRID * GRID // 2)
_WIDEST = 1 << 15  # columns: so many squares of at most _HALF² stay below 2^63


@dataclass(frozen=True, slots=True, eq=False)
class Standard:
    """A mean and a deviation for each column. Public."""

    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def apply(self, x: Any) -> Array:
        """(x − mean)/deviation, as float32.

        >>> Standard(np.array([1.0]), np.array([2.0])).apply([[5.0]]).tolist()
        [[2.0]]
        """
        rows = np.asarray(x, np.float32) - self.mean.astype(np.float32)
        rows /= self.deviation.astype(np.float32)
        return rows


@dataclass(frozen=True, slots=True)
class PrivateStandard:
    """Rows are shortened to `norm`, their squares to `squares`: public bounds. `rows`: about how many there are.

    `least` is the smallest deviation that is believed, as a share of the median one: noise may hide smaller ones.
    """

    multiplier: Fraction
    rows: Fraction
    norm: Fraction
    squares: Fraction
    least: Fraction

    def __init__(
        self, *, multiplier: Number, rows: Number, norm: Number, squares: Number, least: Number = "1/3"
    ) -> None:
        exact = rational(multiplier, "multiplier", at_least=Fraction(1, 1 << 16), at_most=1 << 20)
        object.__setattr__(self, "multiplier", exact)
        object.__setattr__(self, "rows", rational(rows, "rows", at_least=1))
        object.__setattr__(self, "norm", rational(norm, "norm", above=0))
        object.__setattr__(self, "squares", rational(squares, "squares", above=0))
        object.__setattr__(self, "least", rational(least, "least", above=0, at_most=1))

    @property
    def loss(self) -> GaussianNoise:
        """One Gaussian release of sensitivity 1, under "add or remove one"."""
        return GaussianNoise(self.multiplier)

    def release(self, x: Any, *, entropy: Entropy | None = None) -> Standard:
        """Means and deviations of these rows.

        Guarantee: costs `loss` under "add or remove one". Proof. A row adds two vectors of whole numbers, of squared
        norm at most GRID²/2 each, checked in whole numbers (`_whole`); sums are exact; noise has multiplier·GRID.
        """
        rows = np.asarray(x)
        if rows.ndim != 2 or rows.dtype.kind not in "fiu" or rows.shape[1] > _WIDEST:
            words = f"rows of shape {rows.shape} and type {rows.dtype}"
            raise InvalidData(f"{words}, expected rows and up to {_WIDEST} columns of numbers")
        total = np.zeros((2, rows.shape[1]), np.int64)
        for first, second in self._shares(rows):
            total += np.stack([first.sum(axis=0), second.sum(axis=0)])
        noisy = (total + rounded_gaussian(self.multiplier * GRID, total.shape, entropy=entropy)) / _HALF
        mean, square = noisy[0] * float(self.norm / self.rows), noisy[1] * float(self.squares / self.rows)
        variance = square - mean**2
        middle = max(float(np.median(variance)), 1e-12)
        return Standard(mean, np.sqrt(np.maximum(variance, middle * float(self.least) ** 2)))

    def _shares(self, rows: NDArray[Any]) -> Iterator[tuple[Ints, Ints]]:
        for start in range(0, len(rows), _PART):
            part = rows[start : start + _PART].astype(np.float64, order="C")  # sums of a row do not depend on others
            with np.errstate(all="ignore"):
                yield _whole(part, float(self.norm)), _whole(part * part, float(self.squares))


def _whole(part: NDArray[np.float64], norm: float) -> Ints:
    """Rows shortened to the norm, as whole numbers of squared norm at most _HALF²; a row that is longer becomes 0."""
    lengths = np.sqrt(np.vecdot(part, part))
    factor = _HALF * (1 - 2.0**-30) / np.maximum(lengths, norm)
    whole: Ints = np.nan_to_num(np.trunc(part * factor[:, None])).clip(-_HALF, _HALF).astype(np.int64)
    whole[~((whole * whole).sum(axis=1) <= _HALF * _HALF)] = 0
    return whole
