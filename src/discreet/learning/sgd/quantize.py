"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.learning.sgd.gradients import Array, Floats, Ints

ROWS = 224
"""Rows of an outer product at a time."""

LEAST, GREATEST = 2.0**-60, 2.0**60
"""Squared norms outside count as zero."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_HALVED = 64  # rows that are taken in two halves where float32 is not exact for all
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
    result, fewer rows are taken, and at last float64. The narrow side is multiplied by a power of two, `units`: so is
    every sum. The one of a side is multiplied apart from its other numbers, which may be much smaller.
    """

    rows = ROWS

    def __init__(self, onto: Ints, steps: Steps) -> None:
        """`onto` has a row for each number of the narrow side, and a column for each of the wide one."""
        self.steps = steps
        self._onto, self._last = onto, onto[0]
        if steps.one == _WIDE:
            self._onto, self._last = onto[:, :-1], onto[:, -1]
        elif steps.one == _NARROW:
            self._onto, self._last = onto[:-1], onto[-1]
        self.narrow = np.empty((self.rows, self._onto.shape[0]), np.float32)
        self.wide = np.empty((self.rows, self._onto.shape[1]), np.float32)
        self._product = np.empty(self._onto.shape, np.float32)

    def add(self, rows: Sides) -> None:
        """Make both sides whole, multiply, and add up."""
        for start, stop in turns(len(rows.wide)):
            some = rows.some(slice(start, stop))
            if not some.weight.all():
                some = some.some(some.weight > 0)
            count = len(some.wide)
            if not count:
                continue
            peaks, ones = self._made_whole(some)
            self._multiply(0, count, peaks)
            if self.steps.one == _WIDE:
                self._last += np.matmul(ones, self.narrow[:count], dtype=np.float64).astype(np.int64)
            elif self.steps.one == _NARROW:
                exact = float(np.matmul(peaks, ones)) <= _EXACT * self.steps.units
                kind = np.float32 if exact else np.float64
                self._last += np.matmul(ones, self.wide[:count], dtype=kind).astype(np.int64)

    def _multiply(self, start: int, stop: int, peaks: Array) -> None:
        """Add the product of these rows of `narrow` and `wide`, whose largest entries are `peaks`.

        Two products of half the rows in float32 take less time than one in float64.
        """
        narrow, wide = self.narrow[start:stop], self.wide[start:stop]
        most = float(np.matmul(peaks[start:stop], np.abs(narrow)).max(initial=0))
        if most <= _EXACT * self.steps.units:
            self._onto += np.matmul(narrow.T, wide, out=self._product).astype(np.int64)
        elif stop - start >= _HALVED:
            middle = (start + stop) // 2
            self._multiply(start, middle, peaks)
            self._multiply(middle, stop, peaks)
        else:
            self._onto += np.matmul(narrow.T, wide, dtype=np.float64).astype(np.int64)

    def _made_whole(self, rows: Sides) -> tuple[Array, Array]:
        """Wide rows scaled and rounded, into `wide`; narrow ones scaled by what room is left and cut, into `narrow`.

        Products of both are at most weight·‖v‖·‖w‖·room long, and the wide rows get about √(weight·‖v‖·‖w‖·fine)
        steps. Returned are the largest absolute values of wide rows, and what becomes of the one of a side.
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
        factor = factor.astype(np.float32)
        np.trunc(np.multiply(rows.narrow, factor[:, None], out=cut), out=cut)
        cut *= units
        peaks = np.maximum(whole.max(axis=1, initial=0), -whole.min(axis=1, initial=0))
        return peaks, np.trunc(factor) * np.float32(units) if one == _NARROW else ones


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
