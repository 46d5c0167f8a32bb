"""Gaussian noise, rounded to a grid: every statement about the continuous Gaussian holds, in any dimension.

The value is a whole number of steps and K is the whole number nearest to a Gaussian (`noise.rounded_gaussian`), so
value + K is value + Gaussian, rounded: a function of what the continuous mechanism releases (decision 9).
"""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, isqrt, pi

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, float_up, integer, plain, rational
from discreet.fields import DisplayMixin, Integer, Rational
from discreet.mechanisms.additive import (
    Granularity,
    Sensitivity,
    granularity_of,
    normal_quantile,
    on_grid,
    on_integers,
    sensitivity_of,
    sqrt_up,
)
from discreet.mechanisms.mechanism import Steps, drawable, failure_probability
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.accounting.rounding import decimal_up, short_up
from discreet.privacy.loss import GaussianNoise, Loss

LEAST = Fraction(1, 8)
"""The least σ in steps: with less, one step would be eight deviations, and there would be no privacy."""


@dataclass(frozen=True, kw_only=True)
class Gaussian(DisplayMixin):
    """Gaussian noise for real values, rounded to a grid (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006).

    Without a declared granularity the grid has 1024·⌈√dimension⌉ steps to one sensitivity. Values are held at ±2^62
    steps.

    Guarantee: that of continuous Gaussian noise of deviation σ for `dimension` real numbers that one unit moves by at
    most Δ' in ℓ2 norm, where Δ' = g·⌈Δ/g⌉ for one number and Δ + g√dimension for several, Δ the ℓ2 sensitivity and g
    the granularity.
    Proof. Snapping moves coordinates whose values are δᵢ apart to at most δᵢ/g + 1 steps apart (⌈δ/g⌉ for one), so by
    the triangle inequality ‖·‖₂ grows by at most √dimension steps. Rounding after the noise is post-processing.

    It is not ε-DP for any ε: the likelihood ratio of a Gaussian is unbounded in the tails.

    >>> Gaussian(sigma=5, sensitivity=1).loss
    GaussianNoise(multiplier=5)
    """

    sigma: Rational = Rational(above=0)
    sensitivity: Sensitivity = Sensitivity()
    granularity: Granularity = Granularity()
    dimension: Integer = Integer(at_least=1, default=1)

    def __post_init__(self) -> None:
        root = isqrt(self.dimension - 1) + 1
        object.__setattr__(self, "granularity", granularity_of(self.granularity, self.sensitivity, root))
        _check(self._steps, sigma=self.sigma, granularity=self.granularity)

    @classmethod
    def for_rho(
        cls, *, rho: Number, sensitivity: Number, granularity: Number | None = None, dimension: int = 1
    ) -> "Gaussian":
        """The least noise (to 12 digits) that is ρ-zCDP.

        >>> float(Gaussian.for_rho(rho="0.5", sensitivity=3).sigma)
        3.0
        """
        multiplier = sqrt_up(1 / (2 * rational(rho, "rho", above=0)))
        return cls._of(multiplier, sensitivity, granularity, dimension)

    @classmethod
    def for_guarantee(
        cls,
        *,
        epsilon: Number,
        delta: Number,
        sensitivity: Number,
        granularity: Number | None = None,
        dimension: int = 1,
    ) -> "Gaussian":
        """The least noise (to 12 digits) for (ε,δ)-DP, by the exact condition (Balle, Wang 2018, Theorem 8).

        >>> float(Gaussian.for_guarantee(epsilon=1, delta="1e-6", sensitivity=1).sigma)
        4.2246...
        """
        from discreet.privacy.calibration import gaussian_multiplier

        multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
        return cls._of(multiplier, sensitivity, granularity, dimension)

    @classmethod
    def _of(cls, multiplier: Fraction, sensitivity: Number, granularity: Number | None, dimension: int) -> "Gaussian":
        """The mechanism whose σ is this many times what one unit can move, or the least σ that the grid allows."""
        size = sensitivity_of(sensitivity)
        wide = max(size, granularity_of(granularity, size))  # any σ that the grid allows
        shape = cls(sigma=wide, sensitivity=size, granularity=granularity, dimension=dimension)
        sigma = max(decimal_up(shape.moved_steps * shape.granularity * multiplier), LEAST * shape.granularity)
        return cls(sigma=sigma, sensitivity=size, granularity=shape.granularity, dimension=dimension)

    @property
    def moved_steps(self) -> Fraction:
        """Δ'/g: how many steps one unit can move the snapped value, in ℓ2 norm."""
        if self.dimension == 1:
            return Fraction(ceil(self.sensitivity / self.granularity))
        return self.sensitivity / self.granularity + sqrt_up(Fraction(self.dimension))

    @property
    def loss(self) -> Loss:
        """Continuous Gaussian noise of σ/Δ', rounded down."""
        return GaussianNoise(1 / short_up(self.moved_steps / self._steps))

    @property
    def _steps(self) -> Fraction:
        return self.sigma / self.granularity

    @property
    def variance(self) -> float:
        """The variance of the noise: σ², and a twelfth of g² for rounding (snapping adds at most g²/4 more)."""
        return rounded_variance(self._steps) * float(self.granularity) ** 2

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float | NDArray[np.float64]:
        """value + noise, on the grid: a float for a number, a float64 array for a vector."""
        return on_grid(value, self.granularity, self.dimension, rounded_gaussian, self._steps, entropy)

    def interval(self, confidence: Number) -> float:
        """A w such that |release − value| ≤ w with at least this probability, for each number; snapping included."""
        width = rounded_width(self._steps, failure_probability(confidence))
        return float_up((width + Fraction(1, 2)) * self.granularity)

    def probability(self, noise: int) -> float:
        """P(noise = k steps of the grid), to float precision."""
        return rounded_probability(self._steps, noise)


@dataclass(frozen=True, kw_only=True)
class RoundedGaussian(DisplayMixin):
    """Gaussian noise for whole numbers, one or a vector of them, rounded to whole numbers.

    Guarantee: that of continuous Gaussian noise of deviation σ for integers that one unit moves by at most Δ in ℓ2
    norm; Δ² is a whole number, so it is stated squared.
    Proof. The release is the continuous mechanism's, rounded: post-processing. Nothing is snapped.

    >>> RoundedGaussian(sigma=10, squared_sensitivity=4).loss
    GaussianNoise(multiplier=5)
    """

    sigma: Rational = Rational(above=0)
    squared_sensitivity: Integer = Integer(at_least=1)

    def __post_init__(self) -> None:
        _check(self.sigma, sigma=self.sigma)

    @classmethod
    def for_rho(cls, *, rho: Number, squared_sensitivity: int) -> "RoundedGaussian":
        """The least noise (to 12 digits) that is ρ-zCDP; never below σ = 1/8.

        >>> float(RoundedGaussian.for_rho(rho="0.5", squared_sensitivity=9).sigma)
        3.0
        """
        size = integer(squared_sensitivity, "squared_sensitivity", at_least=1)
        square = size / (2 * rational(rho, "rho", above=0))
        return cls(sigma=max(decimal_up(sqrt_up(square)), LEAST), squared_sensitivity=size)

    @classmethod
    def for_guarantee(cls, *, epsilon: Number, delta: Number, squared_sensitivity: int) -> "RoundedGaussian":
        """The least noise (to 12 digits) for (ε,δ)-DP, by the exact condition (Balle, Wang 2018, Theorem 8).

        >>> float(RoundedGaussian.for_guarantee(epsilon=1, delta="1e-6", squared_sensitivity=1).sigma)
        4.2246...
        """
        from discreet.privacy.calibration import gaussian_multiplier

        multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
        return cls.for_multiplier(multiplier=multiplier, squared_sensitivity=squared_sensitivity)

    @classmethod
    def for_multiplier(cls, *, multiplier: Number, squared_sensitivity: int, among: int = 1) -> "RoundedGaussian":
        """The noise of one of `among` releases that together cost `GaussianNoise(multiplier)`; never below σ = 1/8.

        >>> RoundedGaussian.for_multiplier(multiplier=10, squared_sensitivity=9, among=4).sigma
        Fraction(60, 1)
        """
        size = integer(squared_sensitivity, "squared_sensitivity", at_least=1)
        square = Fraction(size * integer(among, "among", at_least=1))
        sigma = decimal_up(sqrt_up(square) * rational(multiplier, "multiplier", above=0))
        return cls(sigma=max(sigma, LEAST), squared_sensitivity=size)

    @property
    def loss(self) -> Loss:
        """Continuous Gaussian noise of σ/Δ, rounded down."""
        return GaussianNoise(1 / short_up(sqrt_up(Fraction(self.squared_sensitivity)) / self.sigma))

    @property
    def variance(self) -> float:
        """The variance of the noise: σ², and a twelfth for rounding."""
        return rounded_variance(self.sigma)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int | Steps:
        """value + noise: an int for an int, an int64 array for an array. Held at the ends of int64."""
        return on_integers(value, rounded_gaussian, self.sigma, entropy)

    def interval(self, confidence: Number) -> int:
        """The least w such that |noise| ≤ w with at least this probability, for each number."""
        return rounded_width(self.sigma, failure_probability(confidence))

    def probability(self, noise: int) -> float:
        """P(noise = k), to float precision."""
        return rounded_probability(self.sigma, noise)


def rounded_width(sigma: Fraction, tail: Fraction) -> int:
    """A whole w with P(|K| > w) ≤ tail, K a rounded Gaussian: P(|K| > w) = P(|N(0, σ²)| > w + 1/2).

    >>> rounded_width(Fraction(10), Fraction(1, 20))
    20
    """
    return max(0, ceil(sigma * normal_quantile(tail / 2) - Fraction(1, 2)))


def rounded_probability(sigma: Fraction, noise: int) -> float:
    """P(K = k) = Φ((k + 1/2)/σ) − Φ((k − 1/2)/σ), from the side where both are small.

    >>> round(rounded_probability(Fraction(1), 0), 6)
    0.382925
    """
    from scipy.special import ndtr

    near, far = (float((abs(noise) + half) / sigma) for half in (-Fraction(1, 2), Fraction(1, 2)))
    return float(ndtr(-near) - ndtr(-far))


def rounded_variance(sigma: Fraction) -> float:
    """E[K²] = σ² + 1/12 + Σ (−1)^m·(4σ² + 1/(πm)²)·e^(−2(πmσ)²), K a rounded Gaussian.

    Proof. K = X − S(X), X ~ N(0, σ²), where S(x) = Σ (−1)^(m+1)·sin(2πmx)/πm is the part that rounding takes away.
    E[X·sin aX] = aσ²·e^(−a²σ²/2); S² = 1/12 + Σ (−1)^m·cos(2πmx)/(πm)² and E[cos aX] = e^(−a²σ²/2).

    >>> round(rounded_variance(Fraction(2)), 6)
    4.083333
    """
    square, total = float(sigma) ** 2, float(sigma) ** 2 + 1 / 12
    for m in range(1, 16):
        total += (-1) ** m * (4 * square + 1 / (pi * m) ** 2) * exp(-min(2 * square * (pi * m) ** 2, 700))
    return total


def _check(steps: Fraction, **settings: Fraction) -> None:
    """Refuse a σ that the sampler cannot draw: when the mechanism is made, not when it is paid for."""
    drawable(steps, **settings)
    if steps < LEAST:
        given = ", ".join(f"{name}={plain(value)}" for name, value in settings.items())
        raise InvalidParameter("sigma", given, "at least 1/8 of a step of the grid", "use a finer grid")
