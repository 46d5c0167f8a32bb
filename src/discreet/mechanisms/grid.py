"""Values on a grid: noise is added to whole numbers of steps, never to floats."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, rational

Steps = NDArray[np.int64]

_CLAMP = 2**62


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of a rational step.

    >>> Grid("0.01").snap([0.125, 3])
    array([ 13, 300])
    """

    step: Fraction

    def __init__(self, step: Number) -> None:
        object.__setattr__(self, "step", rational(step, "granularity", above=0))

    def snap(self, values: ArrayLike, name: str = "value") -> Steps:
        """The nearest grid point of each value as a whole number of steps, halves upwards.

        Guarantee: values at most Δ apart snap to points at most ⌈Δ/step⌉ steps apart.
        Proof. x ↦ ⌊x/step + 1/2⌋ is monotone and commutes with shifts by whole steps, and is computed exactly:
        in floats where the distance to the next half exceeds their error, in rationals elsewhere. Values beyond
        ±2^62 steps are clamped there, which brings no two of them further apart.
        """
        array = finite(values, name)
        if array.dtype.kind in "iu" and self.step == 1:
            held: Steps = np.clip(array, -_CLAMP, _CLAMP).astype(np.int64)
            return held
        with np.errstate(over="ignore", invalid="ignore"):
            floats = array.astype(np.float64) / float(self.step) + 0.5
            floors = np.floor(floats)
            unsure = np.minimum(floats - floors, floors + 1 - floats) <= np.abs(floats) * 2.0**-50 + 2.0**-50
        steps: Steps = np.clip(floors, -_CLAMP, _CLAMP).astype(np.int64)
        for place in zip(*np.nonzero(unsure), strict=True):
            steps[place] = self._snap_one(array[place].item())
        return steps

    def _snap_one(self, value: float) -> int:
        exact = Fraction(value) / self.step
        return max(-_CLAMP, min(_CLAMP, int((2 * exact + 1) // 2)))

    def floats(self, steps: Steps) -> NDArray[np.float64]:
        """The grid points as floats, rounded to nearest: a function of the released steps alone."""
        return np.multiply(steps, float(self.step), dtype=np.float64)


def add(steps: Steps, noise: Steps) -> Steps:
    """steps + noise, held at the ends of int64 instead of wrapping around: a function of the exact sum alone.

    >>> add(np.array([2**62, 5]), np.array([2**62, -7])).tolist() == [2**63 - 1, -2]
    True
    """
    with np.errstate(over="ignore"):
        total = steps + noise
    wrapped = (steps >= 0) == (noise >= 0)
    wrapped &= (total >= 0) != (steps >= 0)
    return np.where(wrapped, np.where(steps >= 0, 2**63 - 1, -(2**63)), total)


def finite(values: ArrayLike, name: str) -> NDArray[np.generic]:
    """Real numbers as an array; NaN, infinities, booleans, text and objects are refused by position."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise InvalidData(f"{name}: expected numbers in a regular array") from None
    if array.dtype.kind not in "iuf":
        raise InvalidData(f"{name}: got {array.dtype}, expected whole numbers or floats")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(np.atleast_1d(array))))
        where = "" if array.ndim == 0 else f" at position {place[0] if len(place) == 1 else place}"
        raise InvalidData(f"{name}: got NaN or an infinity{where}, expected finite numbers; remove or clamp them first")
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def whole(values: ArrayLike, name: str) -> Steps:
    """Whole numbers that fit 62 bits, as int64; floats are refused, since rounding them is a decision.

    >>> whole([1, 2], "count")
    array([1, 2])
    """
    array = finite(values, name)
    if array.dtype.kind == "f":
        raise InvalidData(f"{name}: got floats, expected whole numbers; round them first, or use Laplace with a grid")
    if array.size and max(int(array.max()), -int(array.min())) >= 2**62:
        raise InvalidData(f"{name}: expected whole numbers below 2^62 in size")
    return array.astype(np.int64)
