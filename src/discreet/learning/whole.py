"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import loop
from discreet.learning.gradients import Array, Floats, Ints

ROWS = 224
"""Rows of an outer product at a time."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_SHORT = 1 << 10  # squares that are added up in float32


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
    """How fine sides are made, see `Total._made_whole`, and how many units of the sum a product of steps is.

    `one`: which side has one number more, 1, that is not written down.
    """

    fine: float
    room: float
    units: int
    one: str | None


class Total:
    """Products narrowᵀ·wide of whole numbers are added to an array, exactly, up to `rows` at a time.

    Proof. Whole numbers up to 2²⁴ are floats of float32. Where the absolute values of all that a product adds up for
    an entry, Σ_i|v_ij|·|w_ik|, sum to at most that, every order of adding them is exact. The sum is at most
    Σ_i|v_ij|·max_k|w_ik|, which is found by adding up to 224 numbers that are not negative in float32, so within 2⁻¹⁵,
    and is compared with 2²⁴·(1 − 2⁻⁸). Where it does not hold, which is decided for many rows together but changes no
    result, float64 is used.
    """

    rows = ROWS

    def __init__(self, onto: Ints, steps: Steps) -> None:
        """`onto` has a row for each number of the narrow side, and a column for each of the wide one."""
        self._steps = steps
        self._onto, self._last = (onto[:, :-1], onto[:, -1]) if steps.one == "wide" else (onto, onto[:, -1])
        self._narrow = np.empty((self.rows, self._onto.shape[0]), np.float32)
        self._wide = np.empty((self.rows, self._onto.shape[1]), np.float32)
        self._product = np.empty(self._onto.shape, np.float32)

    def add(self, rows: Sides) -> None:
        """Make both sides whole, multiply, and add up."""
        if _make_whole.fast is None and not rows.weight.all():
            rows = rows.some(rows.weight > 0)
        count = len(rows.wide)
        if not count:
            return
        wide, narrow = self._wide[:count], self._narrow[:count]
        if not self._made_whole(rows, wide, narrow) <= _EXACT:
            self._onto += np.matmul(narrow.T, wide, dtype=np.float64).astype(np.int64) * self._steps.units
            return
        np.matmul(narrow.T, wide, out=self._product)
        if _add.fast is not None:
            _add.fast(self._product, self._steps.units, self._onto)
        else:
            self._onto += self._product.astype(np.int64) * self._steps.units

    def _made_whole(self, rows: Sides, whole: Array, cut: Array) -> float:
        """Wide rows scaled and rounded, into `whole`; narrow ones scaled by what room is left and cut, into `cut`.

        Products of both are at most weight·‖v‖·‖w‖·room long, and the wide rows get about √(weight·‖v‖·‖w‖·fine)
        steps. The one of a narrow side is the last column of `cut`. Returned is the most that the absolute values of
        what an entry of the product adds up can sum to.
        """
        fine, room, units, one = self._steps
        if _make_whole.fast is not None:
            sums, ones = np.zeros(cut.shape[1], np.float32), np.zeros(cut.shape[1])
            most = _make_whole.fast(*rows, fine, room, one == "wide", one == "narrow", whole, cut, sums, ones)
            if one == "wide":
                self._last += ones.astype(np.int64) * units
            return float(most)
        length = np.sqrt(rows.wide_square)
        scale = np.sqrt(rows.weight * np.sqrt(rows.wide_square * rows.narrow_square) * fine) / length
        scale = scale.astype(np.float32)
        np.rint(np.multiply(rows.wide, scale[:, None], out=whole), out=whole)
        squares = squared_norms(whole)
        if one == "wide":
            squares += np.square(np.rint(scale), dtype=np.float64)
        norms = np.sqrt(squares)
        factor = rows.weight * length * room / np.maximum(norms, 1)  # a norm below 1 is 0, of a row of zeros
        np.multiply(rows.narrow, factor.astype(np.float32)[:, None], out=cut[:, : rows.narrow.shape[1]])
        if one == "narrow":
            cut[:, -1] = factor
        np.trunc(cut, out=cut)
        if one == "wide":
            self._last += np.matmul(np.rint(scale), cut, dtype=np.float64).astype(np.int64) * units
        peaks = np.maximum(whole.max(axis=1), -whole.min(axis=1))
        return float(np.matmul(peaks, np.abs(cut)).max())


@loop(reorder=True)
def _make_whole(  # type: ignore[no-untyped-def]
    wide, narrow, wide_square, narrow_square, weight, fine, room, one, last, whole, cut, sums, ones
):
    """See `Total._made_whole`. No entry of `whole` is above 2²⁴, by its scale: all of them fit into 32 bits."""
    for i in range(wide.shape[0]):
        if not weight[i] > 0:
            whole[i, :], cut[i, :] = 0, 0
            continue
        length, square, peak = np.sqrt(wide_square[i]), np.float64(0), np.int32(0)
        scale = np.float32(np.sqrt(weight[i] * np.sqrt(wide_square[i] * narrow_square[i]) * fine) / length)
        for start in range(0, wide.shape[1], _SHORT):
            given, made, some = wide[i, start : start + _SHORT], whole[i, start : start + _SHORT], np.float32(0)
            for j in range(given.size):
                rounded = np.rint(given[j] * scale)
                made[j] = rounded
                some += rounded * rounded
                peak = max(peak, np.abs(np.int32(rounded)))  # floats would be compared one at a time
            square += some
        rounded = np.rint(scale)
        if one:
            square += np.float64(rounded) * np.float64(rounded)
        factor = np.float32(weight[i] * length * room / max(np.sqrt(square), 1.0))
        for j in range(narrow.shape[1]):
            cut[i, j] = np.trunc(narrow[i, j] * factor)
        if last:
            cut[i, narrow.shape[1]] = np.trunc(factor)
        for j in range(cut.shape[1]):
            sums[j] += np.float32(peak) * np.abs(cut[i, j])
        if one:
            for j in range(narrow.shape[1]):
                ones[j] += np.float64(rounded) * np.float64(cut[i, j])
    return sums.max()


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
def _add(product, units, onto):  # type: ignore[no-untyped-def]
    for i in range(product.shape[0]):
        for j in range(product.shape[1]):
            onto[i, j] += np.int64(product[i, j]) * units
