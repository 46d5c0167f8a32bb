"""Private means and deviations of many columns at once, to standardize rows with: one Gaussian release.

Tramèr, Boneh 2021 ("Differentially private learning needs better features") normalize wavelet features so. Two noisy
sums, of the rows and of their squares, each row's share in both bounded.

>>> import numpy as np
>>> from discreet.learning.standard import PrivateStandard
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
from discreet.exact import Number, rational
from discreet.learning.gradients import Array, Ints
from discreet.noise import Entropy
from discreet.noise.normal import rounded_gaussian
from discreet.privacy.loss import GaussianNoise

GRID = 1 << 24
"""The bounds of a row in steps of the grid; half of the squared sensitivity is for each of the two sums."""

_HALF = math.isqrt(GRID * GRID // 2)
_PART = 1 << 12
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
