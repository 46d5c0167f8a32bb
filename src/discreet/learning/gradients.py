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

_UNITS_BITS = UNITS.bit_length() - 1
_FINER = 8  # how much finer the steps of the narrow side are, in their root mean square
_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_ROWS = 224  # of an outer product at a time
_THIN, _FEW = 32, 32  # up to so many columns of a narrow side, so many rows at a time are added up in float32
_MANY = 64  # products, and those of one turn, whose sum is below 2³¹
_NUMPY = 1024  # numbers that NumPy buffers: with more, it would spread each row's factor over a buffer
_SHORT = 1 << 10  # squares that are added up in float32
_SHRINK = 1 - 2.0**-12  # makes room for the rounding of norms and scales
_LEAST, _GREATEST = 2.0**-60, 2.0**60  # squared norms outside count as zero
_BLOCK = 1 << 16  # numbers at a time: the scratch array stays in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class Outer:
    """One parameter matrix; the gradient of example i is left[i] ⊗ right[i]; with `one`, (left[i], 1) ⊗ right[i].

    >>> Outer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32)).formed().shape
    (5, 3, 2)
    >>> Outer(np.ones((5, 3), np.float32), np.ones((5, 2), np.float32), one=True).formed().shape
    (5, 4, 2)
    """

    left: Array
    right: Array
    one: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the parameter."""
        return self.left.shape[1] + self.one, self.right.shape[1]

    @property
    def sides(self) -> tuple[Array, ...]:
        """What is multiplied."""
        return self.left, self.right

    def formed(self) -> Array:
        """Each example's gradient, formed."""
        found: Array = self.left[:, :, None] * self.right[:, None, :]
        return np.concatenate([found, self.right[:, None, :]], axis=1) if self.one else found

    def summed(self) -> Array:
        """The plain sum over the lot: without clipping, so never released."""
        total = np.empty(self.shape, np.float32)
        np.matmul(self.left.T, self.right, out=total[: self.left.shape[1]])
        if self.one:
            np.sum(self.right, axis=0, out=total[-1])
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
    zero. For `Outer`, let w be the wider side and v the other: w is scaled and rounded, by whatever rule, to whole
    numbers ŵ; then v is scaled by (c/norm)·U·‖w‖/‖ŵ‖ and cut towards zero to v̂. The example contributes v̂ ⊗ ŵ in steps
    of UNITS/U, U a power of two by the shape of the parameter (`_bits`). Cutting makes no entry larger, so
    ‖v̂‖·‖ŵ‖ ≤ U·c·‖g_p‖/norm, and in exact arithmetic the squared norm over all parameters is at most
    UNITS²·Σ(c·‖g_p‖/norm)² ≤ UNITS².

    Rounding. Up to 2¹⁰ squares are added up in float32, in an order that is not ours to choose, so relatively within
    (2¹⁰ + 1)·2⁻²⁴, while nothing leaves the range of floats; such sums are added up in float64. A parameter for which
    the squared norm of a side is not between 2⁻⁶⁰ and 2⁶⁰, NaN among them, gets nothing from the example, so nothing
    leaves the range: squares below 2⁻¹²⁶ may be lost, but fewer than 2³³ of them are less than 2⁻³³ of 2⁻⁶⁰. So norms
    ‖v‖, ‖w‖, ‖ŵ‖ are known to 2⁻¹⁵ and a little, ‖g‖ to 2⁻¹⁴ and a little; the scale of v carries those of ‖ŵ‖, of ‖v‖
    within ‖g‖, and three roundings of 2⁻²⁴, because no scale is above 2¹⁰⁰, and one below 2⁻¹²⁶ leaves nothing to add.
    The factor 1 − 2⁻¹² outweighs them, 2⁻¹⁴ and a little for `Rows` and for `Outer`. The scale of w need not be right.

    What is added up are whole numbers whose absolute values sum to at most MOST·UNITS < 2⁵³, so every order of adding
    them in float64, with or without fused products, gives the same exact result; `_Total` uses float32 where it is
    exact too. What an example contributes is made by elementary operations on its own numbers; only the sum of squares
    could depend on the length of the row, which is the same in every lot.
    """
    count = _count(gradients)
    with np.errstate(all="ignore"):
        sides = [_lengths(gradient) for gradient in gradients]
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


def _lengths(gradient: Gradient) -> list[Floats]:
    """The squared norms of each side."""
    found = [_squares(side) for side in gradient.sides]
    if isinstance(gradient, Outer) and gradient.one:
        found[0] += 1
    return found


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
            return _outer(gradient, squares, weight, usable)
        case _:
            assert_never(gradient)


def _outer(gradient: Outer, squares: Sequence[Floats], weight: Floats, usable: NDArray[np.bool_]) -> Ints:
    """The sum of outer products of whole vectors; see `clipped_sum` for the proof.

    In its root mean square, the wide side has about 30 steps at the clipping norm, fewer for a short gradient, and the
    narrow one eight times as many: rounding moves an example by about 1 % of its norm, cutting makes it 0.2 % shorter.
    """
    left, right, turned = gradient.left, gradient.right, gradient.left.shape[1] > gradient.right.shape[1]
    if not usable.all():
        left, right, weight = left[usable], right[usable], weight[usable]
        squares = [square[usable] for square in squares]
    wide, narrow = (left, right) if turned else (right, left)
    bits, length = _bits(gradient.shape), np.sqrt(squares[0 if turned else 1])
    fine = 2.0**bits * math.sqrt(wide.shape[1] / narrow.shape[1]) / _FINER
    scale = (np.sqrt(weight * np.sqrt(squares[0] * squares[1]) * fine) / length).astype(np.float32)
    buffered = np.setbufsize(_NUMPY)
    total = _added_up(wide, narrow, scale, weight * length * (2.0**bits * _SHRINK), gradient.one, turned)
    np.setbufsize(buffered)
    total <<= _UNITS_BITS - bits
    return total


def _added_up(wide: Array, narrow: Array, scale: Array, room: Floats, one: bool, turned: bool) -> Ints:
    """Both sides made whole, multiplied and added up, some rows at a time; the one belongs to the left side."""
    ones = np.rint(scale) if one and turned else np.zeros(len(scale), np.float32)
    columns, last = narrow.shape[1], one and not turned
    total, bias = _Total(columns + last, wide.shape[1], len(wide)), np.zeros(columns + last)
    for start in range(0, len(wide), total.rows):
        here = slice(start, start + total.rows)
        whole, cut = total.rooms(len(wide) - start)
        np.rint(np.multiply(wide[here], scale[here, None], out=whole), out=whole)
        norms = np.sqrt(_squares(whole) + np.square(ones[here], dtype=np.float64))
        factor = (room[here] / np.maximum(norms, 1)).astype(np.float32)  # a norm below 1 is 0, of a row of zeros
        np.multiply(narrow[here], factor[:, None], out=cut[:, :columns])
        cut[:, columns:] = factor[:, None]
        np.trunc(cut, out=cut)
        total.add(norms)
        bias += np.matmul(ones[here], cut, dtype=np.float64) if turned else 0
    found = total.found()
    if not turned:
        return found
    return np.concatenate([found.T, bias.astype(np.int64)[None]]) if one else np.ascontiguousarray(found.T)


def _bits(shape: tuple[int, ...]) -> int:
    """The clipping norm in steps of the products of a matrix, as a power of two: public, and finer for larger ones."""
    return min(max(round(13 + math.log2(math.prod(shape)) / 2), 20), _UNITS_BITS)


class _Total:
    """The sum of products narrowᵀ·wide of whole numbers, exactly, `rows` at a time.

    Proof. Whole numbers up to 2²⁴ are floats of float32. Where the absolute values of all that a product adds up for
    an entry, Σ_i|v_ij|·|w_ik|, sum to at most that, every order of adding them is exact. The sum is at most
    Σ_i|v_ij|·‖w_i‖, and at most the norm of column j of v times that of column k of w (Cauchy–Schwarz). Either is
    found by adding up to 224 numbers that are not negative in float32, so within 2⁻¹⁵, and is compared with
    2²⁴·(1 − 2⁻⁸). Where it does not hold, which is decided for many rows together but changes no result, float64 is
    used. Sums of at most 100 products are below 2³¹.
    """

    def __init__(self, narrow: int, wide: int, count: int) -> None:
        self.rows = -(-max(count, 1) // -(-max(count, 1) // _ROWS))
        few = _FEW if narrow <= _THIN else self.rows
        parts = -(-self.rows // few)
        self._narrow = np.empty((parts, few, narrow), np.float32)
        self._wide = np.empty((parts, few, wide), np.float32)
        self._product = np.empty((parts, narrow, wide), np.float32)
        self._whole = np.empty((parts, narrow, wide), np.int32)
        self._small, self._added = np.zeros((narrow, wide), np.int32), 0
        self._large: Ints | None = None

    def rooms(self, count: int) -> tuple[Array, Array]:
        """Where to put at most so many wide and narrow rows, before `add`; what is left of the last part is zero."""
        found = []
        for room in (self._wide, self._narrow):
            flat = room.reshape(room.shape[0] * room.shape[1], room.shape[2])
            flat[min(count, self.rows) :] = 0
            found.append(flat[: min(count, self.rows)])
        return found[0], found[1]

    def add(self, norms: Floats) -> None:
        """Add what is in the rooms; `norms` are at least those of the wide rows."""
        turned = self._narrow.transpose(0, 2, 1)
        if not self._exact(norms):
            self._set_aside(np.matmul(turned, self._wide, dtype=np.float64).sum(axis=0).astype(np.int64))
            return
        np.copyto(self._whole, np.matmul(turned, self._wide, out=self._product), casting="unsafe")
        self._small += self._whole[0] if len(self._whole) == 1 else self._whole.sum(axis=0, dtype=np.int32)
        self._added += len(self._whole)
        if self._added > _MANY:
            self._set_aside(self._small.astype(np.int64))
            self._small[...], self._added = 0, 0

    def _exact(self, norms: Floats) -> bool:
        """Whether float32 is exact: by the norms of wide rows if there are few columns, else by those of columns."""
        parts, few, width = self._narrow.shape
        if width <= _THIN:
            padded = np.zeros(parts * few, np.float32)
            padded[: len(norms)] = norms
            return bool(np.matmul(padded.reshape(parts, 1, few), np.abs(self._narrow)).max() <= _EXACT)
        most = [float(np.einsum("ij,ij->j", side[0], side[0]).max()) for side in (self._narrow, self._wide)]
        return most[0] * most[1] <= _EXACT**2

    def _set_aside(self, more: Ints) -> None:
        self._large = more if self._large is None else self._large + more

    def found(self) -> Ints:
        """What was added up."""
        whole = self._small.astype(np.int64)
        return whole if self._large is None else whole + self._large


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
