"""Per-example gradients in the form in which they come, their norms, and their clipped sum on an integer grid.

The gradient of a dense layer for one example is an outer product a ⊗ b of its input and of the gradient at its output.
Its norm is ‖a‖·‖b‖ and the weighted sum over a lot is one matrix product: per-example gradients are never formed
(Goodfellow 2015, "Efficient per-example gradient computations"; Li, Tramèr, Liang, Hashimoto 2022, "ghost clipping").
Other layers form theirs (`Rows`), a part of the lot at a time.

>>> import numpy as np
>>> from discreet.learning.gradients import UNITS, Clip, Outer, clipped_sum
>>> lot = [Outer(np.array([[3.0, 4.0]], np.float32), np.array([[1.0]], np.float32))]  # one example, of norm 5
>>> total = clipped_sum(lot, Clip(1))
>>> (total.units[0] / UNITS).round(2).tolist(), total.norms.tolist()
([[0.6], [0.8]], [5.0])
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, rational

Array = NDArray[np.float32]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNITS = 1 << 30
"""The clipping norm in steps of the grid on which gradients are summed."""

MOST = 1 << 22
"""The largest lot: beyond it a sum could leave the whole numbers that a float holds exactly."""

_SIDE = 1 << 15  # √UNITS: what each factor of an outer product contributes
_SHORT = 1 << 10  # squares that are added up in float32
_SHRINK = 1 - 2.0**-12  # makes room for the rounding of norms and scales
_LEAST, _GREATEST = 2.0**-60, 2.0**60  # squared norms outside count as zero
_BLOCK = 1 << 16  # numbers at a time: the scratch array stays in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """One parameter matrix; the gradient of example i is left[i] ⊗ right[i].

    >>> Outer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32)).formed().shape
    (5, 3, 2)
    """

    left: Array
    right: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self.left.shape[1], self.right.shape[1]

    @property
    def sides(self) -> tuple[Array, ...]:
        """What is multiplied."""
        return self.left, self.right

    def formed(self) -> Array:
        """Each example's gradient, formed."""
        return self.left[:, :, None] * self.right[:, None, :]

    def summed(self) -> Array:
        """The plain sum over the lot: without clipping, so never released."""
        total: Array = self.left.T @ self.right
        return total


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """One parameter; the gradient of example i is values[i].

    >>> Rows(np.ones((5, 3, 2), np.float32)).sides[0].shape
    (5, 6)
    """

    values: Array

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self.values.shape[1:]

    @property
    def sides(self) -> tuple[Array, ...]:
        """One row of numbers for each example."""
        return (self.values.reshape(len(self.values), math.prod(self.shape)),)

    def formed(self) -> Array:
        """Each example's gradient, as it is."""
        return self.values

    def summed(self) -> Array:
        """The plain sum over the lot: without clipping, so never released."""
        total: Array = self.values.sum(axis=0)
        return total


Gradient = Outer | Rows


@dataclass(frozen=True, slots=True)
class Clip:
    """How gradients are clipped: all parameters together to `norm`, or each to its share of it.

    `shares`, one for each parameter, are squared shares of the norm and add up to at most 1: flat clipping has none.

    >>> Clip("0.5", shares=("1/2", "1/2")).shares
    (Fraction(1, 2), Fraction(1, 2))
    """

    norm: Fraction
    shares: tuple[Fraction, ...] | None = None

    def __init__(self, norm: Number, shares: Sequence[Number] | None = None) -> None:
        exact = rational(norm, "norm", at_least=Fraction(1, 1 << 40), at_most=1 << 40)
        object.__setattr__(self, "norm", exact)
        parts = None if shares is None else tuple(rational(share, "shares", above=0, at_most=1) for share in shares)
        if parts is not None and sum(parts) > 1:
            raise InvalidData(f"clipping shares add up to {float(sum(parts)):.6g}, expected at most 1")
        object.__setattr__(self, "shares", parts)


@dataclass(frozen=True, slots=True, eq=False)
class ClippedSum:
    """Clipped gradients added up, in units of the clipping norm / `UNITS`, a whole number for each parameter.

    `norms` are the norms before clipping: private, for the adaptive choice of a norm and for nobody's eyes.

    >>> one = ClippedSum((np.array([1, 2]),), np.array([5.0]))
    >>> both = one + one
    >>> both.units[0].tolist(), both.norms.tolist()
    ([2, 4], [5.0, 5.0])
    """

    units: tuple[Ints, ...]
    norms: Floats

    def __add__(self, other: "ClippedSum") -> "ClippedSum":
        added = tuple(a + b for a, b in zip(self.units, other.units, strict=True))
        return ClippedSum(added, np.concatenate([self.norms, other.norms]))


def clipped_sum(gradients: Sequence[Gradient], clip: Clip, *, share: Number = 1) -> ClippedSum:
    """The sum over a lot of each example's gradient, clipped and snapped to the grid.

    Guarantee: one example more or less changes the result by a vector of whole numbers whose norm is at most `UNITS`,
    exactly, whatever the example is; with `share`, at most √share·UNITS. The sum does not depend on order, nor on how
    the lot is cut into parts.

    Proof. Write c for the example's factor min(1, norm/‖g‖). For `Rows`, c·g/norm·UNITS is cut to whole numbers towards
    zero. For `Outer`, a/‖a‖ and c·‖a‖·b/norm, both times √UNITS, are cut towards zero, and the example contributes the
    outer product of the two whole vectors. Cutting makes no entry larger, so in exact arithmetic the squared norm over
    all parameters is at most UNITS²·Σ(c·‖g_p‖/norm)² ≤ UNITS².

    Rounding. Up to 2¹⁰ squares are added up in float32, in an order that is not ours to choose, so relatively within
    (2¹⁰ + 1)·2⁻²⁴, while nothing leaves the range of floats; such sums are added up in float64. A parameter for which
    the squared norm of a side is not between 2⁻⁶⁰ and 2⁶⁰, NaN among them, gets nothing from the example, so nothing
    leaves the range: squares below 2⁻¹²⁶ may be lost, but fewer than 2³³ of them are less than 2⁻³³ of 2⁻⁶⁰. So norms
    ‖a‖, ‖b‖ are known to 2⁻¹⁵ and a little, ‖g‖ to 2⁻¹⁴ and a little; a scale of one side carries these and three
    roundings of 2⁻²⁴, because no scale is above 2⁶⁰·√UNITS, and one below 2⁻¹²⁶ leaves nothing to add. The factor
    1 − 2⁻¹² in each scale outweighs both, 2⁻¹⁴ for `Rows` and 2⁻¹³ against 2⁻¹¹ for the two sides of `Outer`.

    What is added up are whole numbers whose absolute values sum to at most MOST·UNITS < 2⁵³, so every order of adding
    them in float64, with or without fused products, gives the same exact result. What an example contributes is made
    by elementary operations on its own numbers; only the sum of squares could depend on the length of the row, which
    is the same in every lot.
    """
    count = _count(gradients)
    with np.errstate(all="ignore"):
        sides = [[_squares(side) for side in gradient.sides] for gradient in gradients]
        usable = [_usable(squares) for squares in sides]
        squares = [np.where(ok, math.prod(parts), 0.0) for ok, parts in zip(usable, sides, strict=True)]
        norms: Floats = np.sqrt(sum(squares, np.zeros(count)))
        root = math.sqrt(rational(share, "share", above=0, at_most=1))
        weights = [root * weight for weight in _weights(squares, norms, clip)]
        units = tuple(map(_added, gradients, sides, weights, usable))
    return ClippedSum(units, norms)


def _count(gradients: Sequence[Gradient]) -> int:
    counts = {len(side) for gradient in gradients for side in gradient.sides}
    if len(counts) != 1:
        raise InvalidData(f"gradients of {sorted(counts)} examples, expected one number of examples for all parameters")
    (count,) = counts
    if count > MOST:
        raise InvalidData(f"a lot of {count} examples, expected at most {MOST}")
    return count


def _squares(rows: Array) -> Floats:
    """The squared norm of each row."""
    total = np.zeros(len(rows))
    for start in range(0, rows.shape[1], _SHORT):
        part = rows[:, start : start + _SHORT]
        total += np.vecdot(part, part)
    return total


def _usable(squares: Sequence[Floats]) -> NDArray[np.bool_]:
    usable = np.ones(len(squares[0]), np.bool_)
    for square in squares:
        usable &= (square >= _LEAST) & (square <= _GREATEST)
    return usable


def _weights(squares: Sequence[Floats], norms: Floats, clip: Clip) -> list[Floats]:
    """For each parameter, min(1, norm/‖g‖)/norm for each example; with clipping shares, of its own norm and share."""
    norm = float(clip.norm)
    if clip.shares is None:
        return [1 / np.maximum(norms, norm)] * len(squares)
    if len(clip.shares) != len(squares):
        raise InvalidData(f"{len(clip.shares)} clipping shares for {len(squares)} parameters")
    roots = [float(share) ** 0.5 for share in clip.shares]
    return [root / np.maximum(np.sqrt(square), norm * root) for root, square in zip(roots, squares, strict=True)]


def _added(gradient: Gradient, squares: Sequence[Floats], weight: Floats, usable: NDArray[np.bool_]) -> Ints:
    """The sum of what the examples contribute to one parameter."""
    match gradient:
        case Rows():
            summed = np.zeros(math.prod(gradient.shape))
            for part in _whole(gradient.sides[0], weight * UNITS, usable):
                summed += part.sum(axis=0, dtype=np.float64)
            return summed.astype(np.int64).reshape(gradient.shape)
        case Outer():
            length = np.sqrt(squares[0])
            left = _joined(gradient.left, _SIDE / length, usable)
            right = _joined(gradient.right, weight * length * _SIDE, usable)
            wide = gradient.shape[0] > gradient.shape[1]  # BLAS is quicker with the wide one on the right
            total: Floats = (right.T @ left).T if wide else left.T @ right
            return total.astype(np.int64, order="C")
        case _:
            assert_never(gradient)


def _joined(rows: Array, scale: Floats, usable: NDArray[np.bool_]) -> Floats:
    whole, done = np.empty((int(usable.sum()), rows.shape[1])), 0
    for part in _whole(rows, scale, usable):
        whole[done : done + len(part)] = part
        done += len(part)
    return whole


def _whole(rows: Array, scale: Floats, usable: NDArray[np.bool_]) -> Iterator[Array]:
    """Rows times their scales, cut to whole numbers towards zero, some at a time; unusable rows are left out."""
    if not usable.all():
        rows, scale = rows[usable], scale[usable]
    factors = (scale * _SHRINK).astype(np.float32)[:, None]
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    room = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
    for start in range(0, len(rows), step):
        here = factors[start : start + step]
        part = np.multiply(rows[start : start + step], here, out=room[: len(here)])
        yield np.trunc(part, out=part)
