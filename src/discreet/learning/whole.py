"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import loop
from discreet.learning.gradients import Array, Floats, Ints

ROWS = 224
"""Rows of an outer product at a time."""

LEAST, GREATEST = 2.0**-60, 2.0**60
"""Squared norms outside count as zero."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_SHORT = 1 << 10  # squares that are added up in float32
_WIDE, _NARROW = 0, 1  # sides


class Sides(NamedTuple):
    """Rows of both sides, their squared norms, and what they are to be multiplied by: 0 if they are left out."""

    wide: Array
    narrow: Array
    wide_square: Floats
    narrow_square: Floats
    weight: Floats

    def some(self, here: "slice | NDArray[np.bool_]") -> "Sides":
        """Some of the rows."""
        return Sides(
            self.wide[here], self.narrow[here], self.wide_square[here], self.narrow_square[here], self.weight[here]
        )


class Steps(NamedTuple):
    """How fine sides are made, see `Total._made_whole`; how many units of the sum a step is, a power of two.

    `one`: which side, 0 for the wide one and 1 for the narrow one, has one number more, 1, that is not written down.
    """

    fine: float
    room: float
    units: int
    one: int | None


class Total:
    """Products narrowᵀ·wide of whole numbers are added to an array, exactly, up to `rows` at a time.

    Proof. Whole numbers up to 2²⁴ are floats of float32. Where the absolute values of all that a product adds up for
    an entry, Σ_i|v_ij|·|w_ik|, sum to at most that, every order of adding them is exact. The sum is at most
    Σ_i|v_ij|·max_k|w_ik|, which is found by adding up to 224 numbers that are not negative in float32, so within 2⁻¹⁵,
    and is compared with 2²⁴·(1 − 2⁻⁸). Where it does not hold, which is decided for many rows together but changes no
    result, float64 is used. The narrow side is multiplied by a power of two, `units`, afterwards: so is every sum.
    """

    rows = ROWS

    def __init__(self, onto: Ints, steps: Steps) -> None:
        """`onto` has a row for each number of the narrow side, and a column for each of the wide one."""
        self.steps = steps
        self._onto, self._last = (onto[:, :-1], onto[:, -1]) if steps.one == _WIDE else (onto, onto[:, 0])
        self.narrow = np.empty((self.rows, self._onto.shape[0]), np.float32)
        self.wide = np.empty((self.rows, self._onto.shape[1]), np.float32)
        self._product = np.empty(self._onto.shape, np.float32)

    def add(self, rows: Sides) -> None:
        """Make both sides whole, multiply, and add up."""
        for start, stop in turns(len(rows.wide)):
            some = rows.some(slice(start, stop))
            if not some.weight.all():
                some = some.some(some.weight > 0)
            most, ones = self._made_whole(some)
            self.multiply(len(some.wide), most)
            self.add_ones(ones)

    def multiply(self, count: int, most: float) -> None:
        """Add the product of what lies in the first rows of `wide` and `narrow`.

        `most`: at least what the absolute values of all that an entry of the product adds up sum to, but for 2⁻¹⁵.
        """
        if not count:
            return
        wide, turned = self.wide[:count], self.narrow[:count].T
        if not most <= _EXACT:
            self._onto += np.matmul(turned, wide, dtype=np.float64).astype(np.int64)
            return
        np.matmul(turned, wide, out=self._product)
        if _add.fast is not None:
            _add.fast(self._product, self._onto)
        else:
            self._onto += self._product.astype(np.int64)

    def add_ones(self, ones: Floats) -> None:
        """Add the products with the one of a wide side, if it has it."""
        if self.steps.one == _WIDE:
            self._last += ones.astype(np.int64)

    def _made_whole(self, rows: Sides) -> tuple[float, Floats]:
        """Wide rows scaled and rounded, into `wide`; narrow ones scaled by what room is left and cut, into `narrow`.

        Products of both are at most weight·‖v‖·‖w‖·room long, and the wide rows get about √(weight·‖v‖·‖w‖·fine)
        steps. The one of a narrow side is its last column. For what is returned see `multiply` and `add_ones`.
        """
        (fine, room, units, one), count = self.steps, len(rows.wide)
        whole, cut = self.wide[:count], self.narrow[:count]
        length = np.sqrt(rows.wide_square)
        scale = np.sqrt(rows.weight * np.sqrt(rows.wide_square * rows.narrow_square) * fine) / length
        scale = scale.astype(np.float32)
        np.rint(np.multiply(rows.wide, scale[:, None], out=whole), out=whole)
        squares, ones = squared_norms(whole), np.rint(scale)
        if one == _WIDE:
            squares += np.square(ones, dtype=np.float64)
        norms = np.sqrt(squares)
        factor = rows.weight * length * room / np.maximum(norms, 1)  # a norm below 1 is 0, of a row of zeros
        np.multiply(rows.narrow, factor.astype(np.float32)[:, None], out=cut[:, : rows.narrow.shape[1]])
        if one == _NARROW:
            cut[:, -1] = factor
        np.trunc(cut, out=cut)
        peaks = np.maximum(whole.max(axis=1, initial=0), -whole.min(axis=1, initial=0))
        most = float(np.matmul(peaks, np.abs(cut)).max())
        cut *= units
        return most, np.matmul(ones, cut, dtype=np.float64)


def turns(count: int) -> list[tuple[int, int]]:
    """So many rows in parts of about the same length, of at most `Total.rows` each.

    >>> turns(300)
    [(0, 150), (150, 300)]
    """
    step = -(-count // max(-(-count // Total.rows), 1))
    return [(start, min(start + step, count)) for start in range(0, count, max(step, 1))]


class Limits(NamedTuple):
    """The clipping norm, the root of the share of it that gradients get, and those of each parameter, if any."""

    norm: float
    root: float
    roots: Floats


def add_at_once(totals: Sequence[Total], sides: tuple[Array, ...], limits: Limits) -> Floats | None:
    """Clip rows, make them whole, multiply, and add up: the norms of the rows. Sides: wide, narrow, wide, narrow, …

    In compiled loops, row by row, because reading such rows once more would take longer than the arithmetic. None if
    loops are not compiled: nothing else decides, because NumPy may round norms in another way.
    """
    if _make_whole.fast is None:
        return None
    rooms = tuple(room for total in totals for room in (total.wide, total.narrow))
    scales = np.array([(*total.steps[:3], -1 if total.steps.one is None else total.steps.one) for total in totals])
    widest = max(len(total.narrow[0]) for total in totals)
    sums, ones = np.empty((len(totals), widest), np.float32), np.zeros((len(totals), widest))
    norms = np.empty(len(sides[0]))
    for start, stop in turns(len(norms)):
        _make_whole.fast(sides, start, scales, *limits, rooms, sums, ones, norms[start:stop])
        for total, bound in zip(totals, sums.max(axis=1).tolist(), strict=True):
            total.multiply(stop - start, bound)
    for total, row in zip(totals, ones, strict=True):
        total.add_ones(row[: len(total.narrow[0])])
    return norms


@loop(reorder=True)
def _make_whole(  # type: ignore[no-untyped-def]
    sides, start, scales, norm, root, roots, rooms, sums, ones, norms
):
    """See `clipping.Clipping._weights` and `Total._made_whole`.

    No entry of a whole row is above 2²⁴, by its scale: all of them fit into 32 bits.
    """
    squares = np.empty((len(scales), 2))
    sums[:] = 0
    for i in range(norms.size):
        total = 0.0
        for p in range(len(scales)):
            for side in range(2):
                row, square = sides[2 * p + side][start + i], np.float64(scales[p, 3] == side)
                for begin in range(0, row.size, _SHORT):
                    given, some = row[begin : begin + _SHORT], np.float32(0)
                    for j in range(given.size):
                        some += given[j] * given[j]
                    square += some
                squares[p, side] = square
            if not (LEAST <= squares[p, 0] <= GREATEST and LEAST <= squares[p, 1] <= GREATEST):
                squares[p, :] = 0
            total += squares[p, 0] * squares[p, 1]
        norms[i] = math.sqrt(total)
        for p in range(len(scales)):
            wide, narrow = sides[2 * p][start + i], sides[2 * p + 1][start + i]
            whole, cut = rooms[2 * p][i], rooms[2 * p + 1][i]
            units = np.float32(scales[p, 2])
            both, length = math.sqrt(squares[p, 0] * squares[p, 1]), math.sqrt(squares[p, _WIDE])
            if both == 0:
                whole[:], cut[:] = 0, 0
                continue
            weight = root * roots[p] / max(both, norm * roots[p]) if roots.size else root / max(norms[i], norm)
            scale = np.float32(math.sqrt(weight * both * scales[p, 0]) / length)
            square, peak = np.float64(0), np.int32(0)
            for begin in range(0, wide.size, _SHORT):
                given, made, some = wide[begin : begin + _SHORT], whole[begin : begin + _SHORT], np.float32(0)
                for j in range(given.size):
                    rounded = np.rint(given[j] * scale)
                    made[j] = rounded
                    some += rounded * rounded
                    peak = max(peak, np.abs(np.int32(rounded)))  # floats would be compared one at a time
                square += some
            rounded = np.float64(np.rint(scale)) if scales[p, 3] == _WIDE else 0.0
            factor = np.float32(weight * length * scales[p, 1] / max(math.sqrt(square + rounded * rounded), 1.0))
            cut[cut.size - 1] = np.trunc(factor)  # the one of a narrow side; else the loop writes over it
            for j in range(narrow.size):
                cut[j] = np.trunc(narrow[j] * factor)
            for j in range(cut.size):
                sums[p, j] += np.float32(peak) * np.abs(cut[j])
                cut[j] *= units
                ones[p, j] += rounded * np.float64(cut[j])


def squared_norms(rows: Array, out: Floats | None = None) -> Floats:
    """The squared norm of each row.

    >>> squared_norms(np.ones((1, 3), np.float32)).tolist()
    [3.0]
    """
    total = np.empty(len(rows)) if out is None else out
    total[:] = np.vecdot(rows[:, :_SHORT], rows[:, :_SHORT])
    for start in range(_SHORT, rows.shape[1], _SHORT):
        part = rows[:, start : start + _SHORT]
        total += np.vecdot(part, part)
    return total


@loop()
def _add(product, onto):  # type: ignore[no-untyped-def]
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            onto[i, j] += np.int64(product[i, j])
