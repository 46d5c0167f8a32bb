"""Mechanisms that add noise to numbers: geometric, Laplace, discrete Gaussian.

All noise is a whole number of grid steps from an exact sampler. `sensitivity` is the most that one unit can move the
value under the neighbor relation in force: in ℓ1 norm for geometric and Laplace, in ℓ2 norm for Gaussian.

Places: planar Laplace noise on a grid, for geo-indistinguishability and d-privacy in any dimension.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, exp, expm1, log, sinh, tanh

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, exp_down, float_down, float_up, integer, log_down, log_up, rational, sqrt_bounds
from discreet.fields import Converted, DisplayMixin, Integer, Rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import Grid, Steps, add, countable, drawable, failure_probability, whole
from discreet.noise import Entropy, discrete_gaussian, discrete_laplace, planar_laplace, staircase
from discreet.privacy.accounting.rounding import decimal_up, short_up
from discreet.privacy.loss import Concentrated, Loss, PerDistance, Pure

DEEP = Fraction(10**5)  # e^−DEEP is zero among floats
_FINENESS = 1024  # steps in one sensitivity, where the caller declares no granularity; snapping costs 1/1024 of noise


def sensitivity_of(value: Number, name: str = "sensitivity") -> Fraction:
    """A sensitivity; a float covers both what it prints as and what it is, since values are floats too."""
    exact = rational(value, name, above=0)
    return max(exact, Fraction(float(value))) if isinstance(value, float | np.floating) else exact


class Sensitivity(Converted[Number, Fraction]):
    """A field that holds a sensitivity."""

    def __init__(self) -> None:
        super().__init__(sensitivity_of)


class Granularity(Converted[Number | None, Fraction]):
    """The step of a grid; where none is written, the mechanism puts in its own (`granularity_of`)."""

    def __init__(self) -> None:
        super().__init__(lambda value, _: value, default=None)  # type: ignore[arg-type, return-value]


@dataclass(frozen=True, kw_only=True)
class Geometric(DisplayMixin):
    """Discrete Laplace noise on whole numbers, P(noise = k) ∝ exp(−|k|·ε/Δ) (Ghosh, Roughgarden, Sundararajan 2009).

    Guarantee: ε-DP for a whole number, or a vector of them, that one unit moves by at most Δ in ℓ1 norm.
    Proof. P(x + noise = z)/P(x' + noise = z) = exp((|z − x'|₁ − |z − x|₁)·ε/Δ) ≤ e^ε by the triangle inequality.

    >>> Geometric(epsilon="0.5", sensitivity=1).interval("0.95")
    6
    """

    epsilon: Rational = Rational(above=0)
    sensitivity: Integer = Integer(at_least=1)

    def __post_init__(self) -> None:
        drawable(self.scale, epsilon=self.epsilon, sensitivity=self.sensitivity)

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    @property
    def scale(self) -> Fraction:
        """Δ/ε."""
        return self.sensitivity / self.epsilon

    @property
    def variance(self) -> float:
        """2q/(1 − q)² with q = e^(−ε/Δ), a little below the continuous 2(Δ/ε)²."""
        return _laplace_variance(self.scale)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int | Steps:
        """value + noise: an int for an int, an int64 array for an array. Held at the ends of int64."""
        return on_integers(value, discrete_laplace, self.scale, entropy)

    def interval(self, confidence: Number) -> int:
        """The least w such that |noise| ≤ w with at least this probability, for each number."""
        return _laplace_width(self.scale, failure_probability(confidence))

    def probability(self, noise: int) -> float:
        """P(noise = k)."""
        return _laplace_probability(self.scale, noise)

    def channel(self, most: int) -> Channel:
        """The truncated geometric mechanism on {0 … most}: what falls outside moves to the nearer end; in rationals."""
        from discreet.mechanisms.optimal import geometric_channel

        return geometric_channel(integer(most, "most", at_least=1, at_most=1000), self.epsilon / self.sensitivity)


@dataclass(frozen=True, kw_only=True)
class Laplace(DisplayMixin):
    """Laplace noise for real values, on a grid (Dwork, McSherry, Nissim, Smith 2006; on a grid after Mironov 2012).

    The value is snapped to the grid and discrete Laplace noise is added in whole steps. Without a declared
    granularity the grid has 1024·dimension steps to one sensitivity: the scale is at most Δ/ε·(1 + 1/1024), the density
    close to (ε/2Δ)·exp(−ε|z − y|/Δ), the variance to 2(Δ/ε)². Values are held at ±2^62 steps.

    Guarantee: ε-DP for `dimension` real numbers that one unit moves by at most Δ in ℓ1 norm.
    Proof. If coordinate i moves by δᵢ, Σδᵢ ≤ Δ, its snapped value moves by at most ⌈δᵢ/g⌉ steps (`Grid.snap`), together
    by at most ⌈Δ/g⌉ + dimension − 1 whole steps; the scale is that many steps over ε, the rest is `Geometric`'s proof.

    >>> Laplace(epsilon=1, sensitivity=10).interval("0.95")
    29.96...
    """

    epsilon: Rational = Rational(above=0)
    sensitivity: Sensitivity = Sensitivity()
    granularity: Granularity = Granularity()
    dimension: Integer = Integer(at_least=1, default=1)

    def __post_init__(self) -> None:
        object.__setattr__(self, "granularity", granularity_of(self.granularity, self.sensitivity, self.dimension))
        drawable(self._steps, epsilon=self.epsilon, sensitivity=self.sensitivity, granularity=self.granularity)

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise in the value's own unit: Δ/ε, and a little more where snapping needs it."""
        return self._steps * self.granularity

    @property
    def _steps(self) -> Fraction:
        return (ceil(self.sensitivity / self.granularity) + self.dimension - 1) / self.epsilon

    @property
    def variance(self) -> float:
        """The variance of the noise (snapping adds at most g²/4 of squared error)."""
        return _laplace_variance(self._steps) * float(self.granularity) ** 2

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float | NDArray[np.float64]:
        """value + noise, on the grid: a float for a number, a float64 array for a vector."""
        return on_grid(value, self.granularity, self.dimension, discrete_laplace, self._steps, entropy)

    def interval(self, confidence: Number) -> float:
        """A w such that |release − value| ≤ w with at least this probability, for each number; snapping included."""
        width = _laplace_width(self._steps, failure_probability(confidence))
        return float_up((width + Fraction(1, 2)) * self.granularity)

    def probability(self, noise: int) -> float:
        """P(noise = k steps of the grid)."""
        return _laplace_probability(self._steps, noise)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian(DisplayMixin):
    """Discrete Gaussian noise for whole numbers, one or a vector of them (Canonne, Kamath, Steinke 2020).

    Guarantee: ρ-zCDP with ρ = Δ²/2σ² for integers that one unit moves by at most Δ in ℓ2 norm; Δ² is a whole number, so
    it is stated squared. Proof. CKS 2020, Theorem 14: N_ℤ(0, σ²) in every coordinate gives ‖shift‖²/2σ²-zCDP for shifts
    in ℤ^d. Nothing is snapped, since nothing needs to be.

    It states zCDP and no more: which shift of norm Δ is the worst for (ε,δ)-DP depends on its direction, and the
    continuous profile does not bound all of them. `RoundedGaussian` has the continuous profile, in any dimension, for
    1/12 more variance: 6 % less noise for one release at ε = 1 and δ = 1e-6.

    >>> DiscreteGaussian(sigma=10, squared_sensitivity=3).loss
    Concentrated(rho=0.015)
    """

    sigma: Rational = Rational(above=0)
    squared_sensitivity: Integer = Integer(at_least=1)

    def __post_init__(self) -> None:
        drawable(self.sigma, sigma=self.sigma)

    @classmethod
    def for_rho(cls, *, rho: Number, squared_sensitivity: int) -> "DiscreteGaussian":
        """The least noise (to 12 digits) that is ρ-zCDP.

        >>> float(DiscreteGaussian.for_rho(rho="0.5", squared_sensitivity=9).sigma)
        3.0
        """
        exact = rational(rho, "rho", above=0)
        size = integer(squared_sensitivity, "squared_sensitivity", at_least=1)
        return cls(sigma=decimal_up(sqrt_up(size / (2 * exact))), squared_sensitivity=size)

    @property
    def loss(self) -> Loss:
        """ρ-zCDP."""
        return Concentrated(short_up(self.squared_sensitivity / (2 * self.sigma**2)))

    @property
    def variance(self) -> float:
        """At most σ² (CKS 2020, Corollary 9)."""
        return float(self.sigma) ** 2

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int | Steps:
        """value + noise: an int for an int, an int64 array for an array. Held at the ends of int64."""
        return on_integers(value, discrete_gaussian, self.sigma, entropy)

    def interval(self, confidence: Number) -> int:
        """A w such that |noise| ≤ w with at least this probability, for each number by itself."""
        return gaussian_width(self.sigma, failure_probability(confidence))


@lru_cache(maxsize=4096)
def gaussian_width(sigma: Fraction, tail: Fraction) -> int:
    """A whole w with P(|N_ℤ(0, σ²)| > w) ≤ tail: w ≥ σ·z for the normal quantile z of 1 − tail/2.

    For whole k ≥ 1, P(noise ≥ k) ≤ P(N(0, σ²) ≥ k − 1) (CKS 2020, Proposition 25).
    """
    return ceil(sigma * normal_quantile(tail / 2))


def normal_quantile(tail: Fraction) -> Fraction:
    """A z with P(Z > z) ≤ tail for a standard normal Z, at most 2e-12 above the least.

    >>> round(float(normal_quantile(Fraction(1, 40))), 6)
    1.959964
    """
    from scipy.special import ndtri

    least = float(-ndtri(float(tail)))
    return Fraction(least + abs(least) * 1e-12 + 1e-300)


def laplace_tail(scale: Fraction, tail: Fraction) -> int:
    """The least whole w ≥ 0 with P(noise > w) ≤ tail for discrete Laplace noise: q^(w+1)/(1+q) ≤ tail."""
    q = exp_down(-1 / scale) if scale >= Fraction(1, 64) else Fraction(0)
    ratio = 1 / ((1 + q) * tail)
    return max(0, ceil(scale * log_up(ratio)) - 1) if ratio > 1 else 0


@lru_cache(maxsize=4096)
def _laplace_width(scale: Fraction, tail: Fraction) -> int:
    return laplace_tail(scale, tail / 2)


def _laplace_variance(scale: Fraction) -> float:
    """2q/(1−q)² = 1/(2 sinh²(1/2t)), q = e^(−1/t)."""
    half = float(min(1 / (2 * scale), DEEP))
    return 1 / (2 * sinh(half) ** 2) if half < 300 else 0.0


def _laplace_probability(scale: Fraction, noise: int) -> float:
    rate = float(min(1 / scale, DEEP))
    return tanh(rate / 2) * exp(-float(min(abs(noise) / scale, DEEP)))


def granularity_of(granularity: Number | None, sensitivity: Fraction, crossings: int = 1) -> Fraction:
    """The step of the grid: as declared, or 1/1024 of the sensitivity, divided by what snapping adds in steps.

    Snapping can move every number across one half more than the sensitivity does. `crossings` is how many steps that
    adds to the sensitivity at most, in the norm of the mechanism.
    """
    if granularity is None:
        return Grid(sensitivity / (_FINENESS * crossings)).step
    step = Grid(granularity).step
    if sensitivity / step > 2**40:
        raise InvalidParameter(
            "granularity", granularity, f"at least {float(sensitivity / 2**40):.3g}", "it is too fine"
        )
    return step


def on_integers(value: ArrayLike, sampler: object, scale: Fraction, entropy: Entropy | None) -> int | Steps:
    """Whole numbers plus noise of this scale, held at the ends of int64."""
    steps = whole(value, "value")
    if steps.ndim == 0:
        noise = int(sampler(scale, entropy=entropy))  # type: ignore[operator]
        return max(-(2**63), min(2**63 - 1, int(steps) + noise))
    return add(steps, np.asarray(sampler(scale, steps.shape, entropy=entropy)))  # type: ignore[operator]


def on_grid(
    value: ArrayLike, granularity: Fraction, dimension: int, sampler: object, scale: Fraction, entropy: Entropy | None
) -> float | NDArray[np.float64]:
    """The value snapped to the grid, plus noise of this scale in whole steps."""
    grid = Grid(granularity)
    steps = shaped(grid.snap(value), dimension)
    noise = np.asarray(sampler(scale, steps.shape, entropy=entropy))  # type: ignore[operator]
    released = grid.floats(add(steps, noise))
    return float(released) if released.ndim == 0 else released


def shaped(steps: Steps, dimension: int) -> Steps:
    """The steps, if there are as many as one release holds."""
    if steps.size != dimension:
        raise InvalidData(
            f"value: got {steps.size} numbers, expected {dimension}; "
            "set dimension= to the number of values in one release, since its sensitivity covers them all"
        )
    return steps


def sqrt_up(x: Fraction, bits: int = 64) -> Fraction:
    """√x rounded up, by at most 2^−bits.

    >>> float(sqrt_up(Fraction(2)))
    1.4142135623730951
    """
    return Fraction(sqrt_bounds(x, bits)[1], 1 << bits)


@dataclass(frozen=True, kw_only=True)
class Staircase(DisplayMixin):
    """Staircase noise (Geng, Viswanath 2014): the least expected |noise| of all ε-DP additive noises, on a grid.

    The first stair takes the share γ = 1/(1 + e^(ε/2)) of a step (their Theorem 2, ℓ1 cost), rounded to the grid.

    Guarantee: ε-DP for a real number that one unit moves by at most Δ.
    Proof. ⌊(|k| + n − r)/n⌋ changes by at most 1 when k moves by at most n = ⌈Δ/g⌉ steps, so the ratio is at most e^ε.

    >>> from discreet.mechanisms import Laplace
    >>> Staircase(epsilon=4, sensitivity=1).variance < Laplace(epsilon=4, sensitivity=1).variance
    True
    """

    epsilon: Rational = Rational(above=0)
    sensitivity: Sensitivity = Sensitivity()
    granularity: Granularity = Granularity()

    def __post_init__(self) -> None:
        object.__setattr__(self, "granularity", granularity_of(self.granularity, self.sensitivity))
        settings = {"epsilon": self.epsilon, "sensitivity": self.sensitivity, "granularity": self.granularity}
        drawable(self.width / self.epsilon, **settings)

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    @property
    def width(self) -> int:
        """n, the steps in one stair."""
        return ceil(self.sensitivity / self.granularity)

    @property
    def first(self) -> int:
        """r, the steps in the first stair on either side of zero."""
        share = 1 / (1 + exp(min(float(self.epsilon), 1400.0) / 2))
        return max(1, round(share * self.width))

    @property
    def variance(self) -> float:
        """The variance of the noise: first stair, then Σⱼ q^(j+1)·Σᵤ(r + jn + u)² by the sums of q^j, jq^j, j²q^j."""
        n, r, (q, p) = self.width, self.first, self._ratio
        flat = n * r**2 + r * n * (n - 1) + (n - 1) * n * (2 * n - 1) / 6
        slope, curve = 2 * n**2 * r + n**2 * (n - 1), n**3
        beyond = q * (flat / p + slope * q / p**2 + curve * q * (1 + q) / p**3)
        squares = 2 * ((r - 1) * r * (2 * r - 1) / 6 + beyond)
        return squares / self._mass * float(self.granularity) ** 2

    @property
    def _ratio(self) -> tuple[float, float]:
        """q = e^(−ε) and 1 − q."""
        rate = float(min(self.epsilon, DEEP))
        return exp(-rate), -expm1(-rate)

    @property
    def _mass(self) -> float:
        """Σ over all k of e^(−ε·stair), the normalizing constant."""
        q, p = self._ratio
        return 2 * self.first + 2 * self.width * q / p - 1

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float:
        """value + noise, on the grid."""
        steps = shaped(Grid(self.granularity).snap(value), 1)
        noise = staircase(epsilon=self.epsilon, width=self.width, first=self.first, size=steps.shape, entropy=entropy)
        return float(Grid(self.granularity).floats(add(steps, np.asarray(noise))).item())

    def interval(self, confidence: Number) -> float:
        """A w such that |release − value| ≤ w with at least this probability, for each number; snapping included.

        Beyond w = r − 1 − v (v ≥ 0) lie v + nq/(1−q) on either side; beyond w = r + jn + u, 0 ≤ u < n, lie
        q^(j+1)·(n − 1 − u + nq/(1−q)). The least w whose share is small enough, a billionth of it to spare.
        """
        n, r, (q, p) = self.width, self.first, self._ratio
        tail = n * q / p  # beyond the first stair, on one side
        log_room = float_down(log_down(failure_probability(confidence))) - 1e-9 + log(self._mass / 2)
        if q == 0 or log_room >= log(tail):
            steps = max(0, ceil(r - 1 - (exp(log_room) - tail)))
        else:
            rate = float(self.epsilon)
            stair = max(0, ceil((log(tail) - log_room) / rate) - 1)
            steps = r + stair * n + min(n - 1, max(0, ceil(n - 1 + tail - exp(log_room + (stair + 1) * rate))))
        return float_up((steps + Fraction(1, 2)) * self.granularity)


@dataclass(frozen=True, kw_only=True)
class PlanarLaplace(DisplayMixin):
    """Planar Laplace noise (Andrés, Bordenabe, Chatzikokolakis, Palamidessi 2013), exactly, on a grid.

    A point is snapped to the grid of cell size `granularity` and moved to the grid point z with probability
    ∝ exp(−ε·d(x, z)), d the Euclidean distance: close to the density ε²/2π·e^(−ε·d) where cells are small.

    Guarantee: P(z|x) ≤ e^(ε·d(x,x'))·P(z|x') between grid points, and e^(ε·(d + g√dimensions)) between any points.
    Proof. The grid is infinite and the noise invariant under its shifts, so both have the same normalizing constant,
    and d(x', z) − d(x, z) ≤ d(x, x'). Snapping moves each coordinate by at most g/2, so each point by at most
    g√dimensions/2.

    >>> PlanarLaplace(epsilon="0.7", unit="km", granularity="0.1").loss.within(1).epsilon < 0.8
    True
    """

    epsilon: Rational = Rational(above=0)
    unit: Converted[str, str] = Converted(lambda value, _: PerDistance(0, value, 0).unit)
    granularity: Converted[Number, Fraction] = Converted(lambda value, _: Grid(value).step)
    dimensions: Integer = Integer(at_least=1, at_most=8, default=2)

    def __post_init__(self) -> None:
        drawable(1024 * self.scale, epsilon=self.epsilon, granularity=self.granularity)

    @property
    def loss(self) -> Loss:
        """ε for each unit of distance, one cell's diagonal included; `.within(radius)` turns it into ε-DP."""
        diagonal = self.granularity * Fraction(sqrt_bounds(Fraction(self.dimensions), 32)[1], 1 << 32)
        return PerDistance(self.epsilon, self.unit, diagonal)

    @property
    def scale(self) -> Fraction:
        """1/ε in grid steps."""
        return 1 / (self.epsilon * self.granularity)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> NDArray[np.float64]:
        """The noisy point, or points: an array whose last axis holds the coordinates."""
        grid = Grid(self.granularity)
        steps = grid.snap(value, "point")
        if steps.ndim == 0 or steps.shape[-1] != self.dimensions:
            raise InvalidData(
                f"point: got shape {steps.shape}, expected {self.dimensions} coordinates on the last axis"
            )
        noise = planar_laplace(self.scale, steps.shape[:-1], dimensions=self.dimensions, entropy=entropy)
        return grid.floats(add(steps, noise))

    def interval(self, confidence: Number) -> float:
        """A radius that holds the noise with at least this probability, snapping included.

        In the plane 1 − (1 + εr)e^(−εr) = confidence (Andrés et al. 2013, §4.2), a gamma law in any dimension; one cell
        diagonal is added because the grid noise is a discretization of that density (tests sum it exactly).
        """
        from scipy.special import gammainccinv

        tail = float(failure_probability(confidence))
        radius = float(gammainccinv(self.dimensions, tail)) / float(self.epsilon)  # ∫ r^(d−1)e^(−εr) is a gamma law
        return radius + float(self.granularity) * float(np.sqrt(self.dimensions))

    def channel(self, width: int, height: int) -> Channel:
        """The channel on a width × height box of cells (labels "x,y"); noise that leaves it lands on the nearest cell.

        To float precision: the noise is summed up to where less than e^−45 of it remains.
        """
        if self.dimensions != 2:
            raise InvalidParameter("dimensions", self.dimensions, "2", "the channel is drawn for the plane")
        nx, ny = integer(width, "width", at_least=1), integer(height, "height", at_least=1)
        reach = max(nx, ny) + ceil(45 * self.scale) + 1
        countable(max(4 * reach**2, (nx * ny) ** 2), "channel")
        offsets = np.arange(-reach, reach + 1)
        weights = np.exp(-np.hypot(offsets[:, None], offsets) / float(self.scale))
        weights /= weights.sum()
        rows = [_clamped(weights, reach, x, y, nx, ny) for x in range(nx) for y in range(ny)]
        labels = [f"{x},{y}" for x in range(nx) for y in range(ny)]
        return Channel(np.array(rows), inputs=labels, outputs=labels, normalize=True)


def _clamped(weights: NDArray[np.float64], reach: int, x: int, y: int, nx: int, ny: int) -> NDArray[np.float64]:
    """Noise centered on (x, y), summed onto the box: cells beyond a side go to that side."""
    return np.add.reduceat(
        np.add.reduceat(weights, _starts(reach, x, nx), axis=0), _starts(reach, y, ny), axis=1
    ).ravel()


def _starts(reach: int, at: int, cells: int) -> list[int]:
    """Where each cell's offsets begin: the first cell takes all that lies before it, the last all after."""
    return [0, *(reach - at + cell for cell in range(1, cells))]
