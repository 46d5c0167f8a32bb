"""Values on a grid: noise is added to whole numbers of steps, never to floats."""

import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.mechanisms.snapping import MOST, Steps, nearest

_FINEST = Fraction(1, 10**290)


@dataclass(frozen=True, slots=True)
class Grid:
    """Multiples of a rational step.

    >>> Grid("0.01").snap([0.125, 3])
    array([ 13, 300])
    """

    step: Fraction

    def __init__(self, step: Number) -> None:
        exact = rational(step, "granularity", above=0)
        if not _FINEST <= exact <= 1 / _FINEST:
            raise InvalidParameter("granularity", step, "between 1e-290 and 1e290")
        object.__setattr__(self, "step", exact)

    def snap(self, values: ArrayLike, name: str = "value") -> Steps:
        """The nearest grid point of each value as a whole number of steps, halves upwards.

        Guarantee: values at most Δ apart snap to points at most ⌈Δ/step⌉ steps apart.
        Proof. x ↦ ⌊x/step + 1/2⌋ is monotone and commutes with shifts by whole steps, and is computed exactly: in
        floats if the step is a power of two, in whole numbers elsewhere (`snapping.nearest`). Values beyond ±2^62
        steps are clamped there, which brings no two further apart.

        The operations made depend on the step and on the number of values, not on the values.
        """
        array = finite(values, name)
        if array.dtype.kind in "iu" and self.step == 1:
            return np.asarray(np.clip(array, -MOST, MOST), np.int64)
        if array.dtype.kind == "f" and _power_of_two(self.step):
            with np.errstate(all="ignore"):
                quotients = np.asarray(array.astype(np.float64) / float(self.step))
                floors = np.floor(quotients)
                return np.asarray(np.clip(floors + (quotients - floors >= 0.5), -MOST, MOST), np.int64)
        return nearest(array, self.step)

    def floats(self, steps: Steps) -> NDArray[np.float64]:
        """The grid points as floats, rounded to nearest: a function of the released steps alone."""
        up, down = self.step.numerator, self.step.denominator
        reach = max(int(steps.max(initial=0)), -int(steps.min(initial=0)))
        if down < 2**53 and reach * up < 2**53:
            return np.asarray(steps * up / down)  # two exact floats, rounded once
        return np.array([_quotient(k * up, down) for k in steps.ravel().tolist()], np.float64).reshape(steps.shape)


def _quotient(numerator: int, denominator: int) -> float:
    """The float nearest to a quotient, at most the largest one in size."""
    try:
        return numerator / denominator
    except OverflowError:
        return sys.float_info.max if numerator > 0 else -sys.float_info.max


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
    array = regular(values, name)
    if array.dtype.kind not in "iuf" or array.dtype.itemsize > 8:
        raise InvalidData(f"{name}: got {array.dtype}, expected whole numbers or floats of at most 64 bits")
    if array.dtype.kind == "f" and not hasattr(values, "dtype") and _mixed(values):
        raise InvalidData(f"{name}: got floats beside whole numbers above 2^53; write all of them as floats")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        place = tuple(int(axis[0]) for axis in np.nonzero(~np.isfinite(np.atleast_1d(array))))
        where = "" if array.ndim == 0 else f" at position {place[0] if len(place) == 1 else place}"
        raise InvalidData(f"{name}: got NaN or an infinity{where}, expected finite numbers; remove or clamp them first")
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def regular(values: ArrayLike, name: str) -> NDArray[np.generic]:
    """An array of any kind; ragged lists are refused."""
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InvalidData(f"{name}: expected numbers in a regular array") from None


def _mixed(values: object) -> bool:
    """Whether a list that NumPy reads as floats holds whole numbers that a float cannot."""
    flat = np.asarray(values, dtype=object).ravel()
    return any(isinstance(value, int | np.integer) and abs(int(value)) > 2**53 for value in flat)


def _power_of_two(step: Fraction) -> bool:
    return (step.numerator & (step.numerator - 1)) == 0 and (step.denominator & (step.denominator - 1)) == 0


def whole(values: ArrayLike, name: str) -> Steps:
    """Whole numbers that fit 62 bits, as int64; floats are refused, since rounding them is a decision.

    >>> whole([1, 2], "count")
    array([1, 2])
    """
    array = finite(values, name)
    if not array.size:
        return np.zeros(array.shape, np.int64)
    if array.dtype.kind == "f":
        raise InvalidData(f"{name}: got floats, expected whole numbers; round them first, or use Laplace with a grid")
    if max(int(array.max()), -int(array.min())) >= 2**62:
        raise InvalidData(f"{name}: expected whole numbers below 2^62 in size")
    return array.astype(np.int64)
