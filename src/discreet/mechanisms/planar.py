"""Places: planar Laplace noise on a grid, for geo-indistinguishability and d-privacy in any dimension."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, sqrt_bounds
from discreet.fields import Converted, Integer, Rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import Grid, add, countable, drawable, failure_probability
from discreet.noise import Entropy, planar_laplace
from discreet.privacy.loss import Loss, PerDistance


@dataclass(frozen=True, kw_only=True)
class PlanarLaplace:
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
