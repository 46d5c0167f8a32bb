"""What a mechanism is: noise, cost and error on one screen; and the grid of its values.

Noise is added to whole numbers of steps of a `Grid`, never to floats. Snapping is exact, by operations that do not
depend on the numbers.
"""

import sys
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, plain, rational
from discreet.fields import Converted
from discreet.noise import Entropy
from discreet.noise.sampler import LARGEST
from discreet.privacy.loss import Loss


class Mechanism(Protocol):
    """How a value is released. Settings are public; `release` is the only method that sees a private value.

    Without an `entropy`, all noise comes from the operating system's (`noise.SystemEntropy`).
    """

    @property
    def loss(self) -> Loss:
        """What one release costs."""
        ...

    def release(self, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        """The private release."""
        ...

    def interval(self, confidence: Number) -> Any:
        """How far the release can be from the truth, with at least this probability; each mechanism says in what.

        It is for each number of a release by itself, however many there are. For m of them together ask for
        1 − (1 − confidence)/m, which holds all by the union bound. Mechanisms that choose speak of their one choice;
        those whose error depends on how many candidates, answers, reports or records there are ask for that.
        """
        ...


def failure_probability(confidence: Number) -> Fraction:
    """1 − confidence, for 0 < confidence ≤ 1 − 1e-300.

    >>> failure_probability("0.95")
    Fraction(1, 20)
    """
    rest = 1 - rational(confidence, "confidence", above=0, below=1)
    if rest < Fraction(1, 10**300):
        raise InvalidParameter("confidence", confidence, "at most 1 − 1e-300")
    return rest


def drawable(scale: Fraction, **settings: int | Fraction) -> None:
    """Refuse settings whose noise would not fit 64 bits: when the mechanism is made, not when it is paid for."""
    if scale > LARGEST:
        given = ", ".join(f"{name}={plain(Fraction(value))}" for name, value in settings.items())
        raise InvalidParameter(
            "noise", f"scale {float_up(scale):.3g} ({given})", "at most 2^52 steps", "use a coarser grid"
        )


def countable(size: float, what: str, *, most: int = 20_000_000) -> None:
    """Refuse to list more probabilities than memory should hold; releasing needs no such list."""
    if size > most:
        raise InvalidParameter(what, f"{size:.3g} numbers", f"at most {most:,}", "look at a smaller case")


_FINEST = Fraction(1, 10**290)
Steps = NDArray[np.int64]
_Limb = NDArray[np.uint64]
_Wide = tuple[_Limb, _Limb]
"""Whole numbers modulo 2^128: their upper and lower 64 bits."""

MOST = 2**62
"""Steps beyond this, on either side, are clamped to it."""

_FEW = 32  # so many are quicker as Python integers
_LOW = np.uint64(2**32 - 1)
_HALF = np.uint64(32)
_WORD = 2.0**64


def _step(value: Number, _: str) -> Fraction:
    exact = rational(value, "granularity", above=0)
    if not _FINEST <= exact <= 1 / _FINEST:
        raise InvalidParameter("granularity", value, "between 1e-290 and 1e290")
    return exact


@dataclass(frozen=True)
class Grid:
    """Multiples of a rational step.

    >>> Grid("0.01").snap([0.125, 3])
    array([ 13, 300])
    """

    step: Converted[Number, Fraction] = Converted(_step)

    def snap(self, values: ArrayLike, name: str = "value") -> Steps:
        """The nearest grid point of each value as a whole number of steps, halves upwards.

        Guarantee: values at most Δ apart snap to points at most ⌈Δ/step⌉ steps apart.
        Proof. x ↦ ⌊x/step + 1/2⌋ is monotone and commutes with shifts by whole steps, and is computed exactly: in
        floats if the step is a power of two, in whole numbers elsewhere (`nearest`). Values beyond ±2^62
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
        if down < 2**53 and max(reach, 1) * up < 2**53:
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
        raise InvalidData(f"{name}: got floats together with whole numbers above 2^53; write all of them as floats")
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


# Snapping


def nearest(values: NDArray[Any], step: Fraction) -> Steps:
    """⌊x/step + 1/2⌋ for finite floats or integers x, exactly, clamped to ±2^62.

    Which operations are made depends on the step and on how many values there are, never on the values.

    >>> nearest(np.array([0.25, -0.25, 1e300]), Fraction(1, 10)).tolist()
    [3, -2, 4611686018427387904]
    """
    exponent = _exponent(step)
    if values.dtype.kind in "iu":
        exponent = min(exponent, 0)
    ratio = step / Fraction(2) ** exponent  # P/Q
    flat = values.ravel()
    if flat.size <= _FEW or ratio.numerator >= 1 << 114:
        return np.array([_nearest_one(x, step) for x in flat.tolist()], np.int64).reshape(values.shape)
    if values.dtype.kind in "iu" and step >= 2**66:
        return np.zeros(values.shape, np.int64)
    negative = flat < 0
    far, sizes, wide = (_of_floats if values.dtype.kind == "f" else _of_integers)(flat, step, exponent)
    quotients = np.where(far, MOST, _divided(sizes / float(step), wide, negative, ratio))
    return np.where(negative, -quotients, quotients).reshape(values.shape)


def _exponent(step: Fraction) -> int:
    """An e such that floats of at least step/4 are whole multiples of 2^e, and 2^54 ≤ step/2^e < 2^56.

    The unit in the last place of a float above 2^l/4 is at least 2^(l − 54); 2^l ≤ step < 2^(l+2) here.
    """
    return step.numerator.bit_length() - step.denominator.bit_length() - 1 - 54


def _nearest_one(value: float, step: Fraction) -> int:
    up, down = value.as_integer_ratio()
    size = step.numerator * down
    return max(-MOST, min(MOST, (2 * up * step.denominator + size) // (2 * size)))


def _of_floats(
    values: NDArray[Any], step: Fraction, exponent: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64], _Wide]:
    """Which are beyond the clamp; the sizes of the others as floats, and as whole multiples of 2^exponent.

    What is smaller than a quarter of a step snaps to zero as zero does.
    """
    most = _float_below(MOST * step)
    sizes = np.abs(values.astype(np.float64))
    far = sizes > most
    np.minimum(sizes, most, out=sizes)
    sizes *= sizes >= _float_below(step / 4)
    scaled = np.ldexp(sizes, -exponent)  # exact
    upper = np.floor(scaled / _WORD)
    return far, sizes, (upper.astype(np.uint64), (scaled - upper * _WORD).astype(np.uint64))


def _of_integers(
    values: NDArray[Any], step: Fraction, exponent: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64], _Wide]:
    """`_of_floats` for integers; the exponent is at most 0."""
    words = values.astype(np.int64).view(np.uint64) if values.dtype.kind == "i" else values.astype(np.uint64)
    sizes = np.where(values < 0, np.uint64(0) - words, words)
    most = np.uint64(min(int(MOST * step), 2**64 - 1))
    far = sizes > most
    np.minimum(sizes, most, out=sizes)
    up = min(-exponent, 127)  # beyond, the clamp leaves nothing but zeros
    if up >= 64:
        return far, sizes.astype(np.float64), (sizes << np.uint64(up - 64), np.zeros_like(sizes))
    upper = sizes >> np.uint64(64 - up) if up else np.zeros_like(sizes)
    return far, sizes.astype(np.float64), (upper, sizes << np.uint64(up))


def _divided(rough: NDArray[np.float64], sizes: _Wide, negative: NDArray[np.bool_], ratio: Fraction) -> Steps:
    """⌊|x|/step + 1/2⌋, or the same less a hair if x is negative, from float quotients within 2^11 of it.

    Proof. For |x| = X·2^e and step = (P/Q)·2^e it is ⌊N/2P⌋ with N = 2XQ + P, or 2XQ + P − 1 if x is negative, since
    ⌈(n − P)/2P⌉ = ⌊(n + P − 1)/2P⌋. With a k that is wrong by at most 2^12, R = N − 2kP is less than 2^13·P ≤ 2^127 in
    size, so its residue modulo 2^128 is enough to know it. Floats then tell R/2P to within 1, and k is wrong by at most
    one; what is left is compared with 0 and with 2P.
    """
    p, q = ratio.numerator, ratio.denominator
    sums = _add(_times(sizes, 2 * q), _constant(p, rough.size))
    sums = _add(sums, _signed(-negative.astype(np.int64)))
    result = np.rint(rough).astype(np.int64)
    rest = _subtract(sums, _times(_signed(result), 2 * p))
    more = np.floor((rest[0].view(np.int64) * _WORD + rest[1]) / float(2 * p)).astype(np.int64)
    rest = _subtract(rest, _times(_signed(more), 2 * p))
    over = _subtract(rest, _constant(2 * p, rough.size))
    result += more
    result -= rest[0].view(np.int64) < 0
    result += over[0].view(np.int64) >= 0
    return result


def _constant(value: int, size: int) -> _Wide:
    return np.full(size, value >> 64 & 2**64 - 1, np.uint64), np.full(size, value & 2**64 - 1, np.uint64)


def _signed(values: Steps) -> _Wide:
    return (values >> 63).view(np.uint64), values.view(np.uint64)


def _add(a: _Wide, b: _Wide) -> _Wide:
    low = a[1] + b[1]
    return a[0] + b[0] + (low < a[1]), low


def _subtract(a: _Wide, b: _Wide) -> _Wide:
    return a[0] - b[0] - (a[1] < b[1]), a[1] - b[1]


def _times(a: _Wide, factor: int) -> _Wide:
    """a·factor modulo 2^128, in 32-bit halves of the lower words."""
    high, low = np.uint64(factor >> 64 & 2**64 - 1), np.uint64(factor & 2**64 - 1)
    a0, a1, b0, b1 = a[1] & _LOW, a[1] >> _HALF, low & _LOW, low >> _HALF
    first, cross, other = a0 * b0, a0 * b1, a1 * b0
    middle = (first >> _HALF) + (cross & _LOW) + (other & _LOW)
    upper = a1 * b1 + (cross >> _HALF) + (other >> _HALF) + (middle >> _HALF)
    return upper + a[0] * low + a[1] * high, (middle << _HALF) | (first & _LOW)


def _float_below(x: Fraction) -> float:
    """The largest float that is not above x ≥ 0."""
    if x >= Fraction(sys.float_info.max):
        return sys.float_info.max
    rounded = x.numerator / x.denominator
    return float(np.nextafter(rounded, 0)) if Fraction(rounded) > x else rounded
