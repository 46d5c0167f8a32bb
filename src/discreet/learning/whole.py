"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.compiled import loop
from discreet.learning.gradients import Array, Floats, Ints

ROWS = 224
"""Rows of an outer product at a time."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_THIN, _FEW = 32, 32  # up to so many columns of a narrow side, so many rows at a time are added up in float32
_MANY = 64  # products, and those of one turn, whose sum is below 2³¹
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


class Total:
    """The sum of products narrowᵀ·wide of whole numbers, exactly, up to `rows` at a time.

    Proof. Whole numbers up to 2²⁴ are floats of float32. Where the absolute values of all that a product adds up for
    an entry, Σ_i|v_ij|·|w_ik|, sum to at most that, every order of adding them is exact. The sum is at most
    Σ_i|v_ij|·‖w_i‖, and at most the norm of column j of v times that of column k of w (Cauchy–Schwarz). Either is
    found by adding up to 224 numbers that are not negative in float32, so within 2⁻¹⁵, and is compared with
    2²⁴·(1 − 2⁻⁸). Where it does not hold, which is decided for many rows together but changes no result, float64 is
    used. Sums of at most 100 products are below 2³¹.
    """

    rows = ROWS

    def __init__(self, narrow: int, wide: int, *, fine: float, room: float, one: str | None) -> None:
        """`one`: which side has one number more, 1, that is not written down. fine, room: see `_made_whole`."""
        columns = narrow + (one == "narrow")
        self._few = _FEW if columns <= _THIN else self.rows
        parts = -(-self.rows // self._few)
        self._narrow = np.empty((parts * self._few, columns), np.float32)
        self._wide = np.empty((parts * self._few, wide), np.float32)
        self._product = np.empty((parts, columns, wide), np.float32)
        self._small, self._added = np.zeros((columns, wide), np.int32), 0
        self._large: Ints | None = None
        self._fine, self._room, self._one = fine, room, one
        self._ones = np.zeros(narrow)

    def add(self, rows: Sides) -> None:
        """Make both sides whole, multiply, and add up."""
        if _make_whole.fast is None and not rows.weight.all():
            rows = rows.some(rows.weight > 0)
        count = len(rows.wide)
        if not count:
            return
        norms = self._made_whole(rows, self._wide[:count], self._narrow[:count])
        narrow, wide = self._parted(count)
        turned, parts = narrow.transpose(0, 2, 1), len(narrow)
        if not _exact(narrow, wide, norms):
            self._set_aside(np.matmul(turned, wide, dtype=np.float64).sum(axis=0).astype(np.int64))
            return
        product = np.matmul(turned, wide, out=self._product[:parts])
        if _added_to.fast is not None:
            _added_to.fast(product, self._small)
        else:
            self._small += product.astype(np.int32).sum(axis=0, dtype=np.int32)
        self._added += parts
        if self._added > _MANY:
            self._set_aside(self._small.astype(np.int64))
            self._small[...], self._added = 0, 0

    @property
    def ones(self) -> Ints:
        """The products with the one of the wide side, added up."""
        return self._ones.astype(np.int64)

    def _made_whole(self, rows: Sides, whole: Array, cut: Array) -> Floats:
        """Wide rows scaled and rounded, into `whole`; narrow ones scaled by what room is left and cut, into `cut`.

        The norms of the rounded rows are returned. Products of both are at most weight·‖v‖·‖w‖·room long, and the wide
        rows get about √(weight·‖v‖·‖w‖·fine) steps. The one of a narrow side is the last column of `cut`.
        """
        one, last = self._one == "wide", self._one == "narrow"
        if _make_whole.fast is not None:
            norms = np.empty(len(whole))
            _make_whole.fast(*rows, self._fine, self._room, one, last, whole, cut, norms, self._ones)
            return norms
        length = np.sqrt(rows.wide_square)
        scale = np.sqrt(rows.weight * np.sqrt(rows.wide_square * rows.narrow_square) * self._fine) / length
        scale = scale.astype(np.float32)
        np.rint(np.multiply(rows.wide, scale[:, None], out=whole), out=whole)
        squares = squared_norms(whole)
        if one:
            squares += np.square(np.rint(scale), dtype=np.float64)
        norms = np.sqrt(squares)
        factor = rows.weight * length * self._room / np.maximum(norms, 1)  # a norm below 1 is 0, of a row of zeros
        np.multiply(rows.narrow, factor.astype(np.float32)[:, None], out=cut[:, : rows.narrow.shape[1]])
        if last:
            cut[:, -1] = factor
        np.trunc(cut, out=cut)
        if one:
            self._ones += np.matmul(np.rint(scale), cut, dtype=np.float64)
        return norms

    def _parted(self, count: int) -> tuple[Array, Array]:
        """The rows in parts, a few in each where the narrow side is thin; what is left of the last part is zero."""
        few = min(self._few, count)
        parts = -(-count // few)
        if parts * few > count:
            self._narrow[count : parts * few] = self._wide[count : parts * few] = 0
        narrow, wide = (room[: parts * few].reshape(parts, few, room.shape[1]) for room in (self._narrow, self._wide))
        return narrow, wide

    def _set_aside(self, more: Ints) -> None:
        self._large = more if self._large is None else self._large + more

    def found(self) -> Ints:
        """What was added up."""
        whole = self._small.astype(np.int64)
        return whole if self._large is None else whole + self._large


@loop(reorder=True)
def _make_whole(  # type: ignore[no-untyped-def]
    wide, narrow, wide_square, narrow_square, weight, fine, room, one, last, whole, cut, norms, ones
):
    for i in range(wide.shape[0]):
        if not weight[i] > 0:
            whole[i, :], cut[i, :], norms[i] = 0, 0, 0
            continue
        length, square = np.sqrt(wide_square[i]), 0.0
        scale = np.float32(np.sqrt(weight[i] * np.sqrt(wide_square[i] * narrow_square[i]) * fine) / length)
        for j in range(wide.shape[1]):
            rounded = np.rint(wide[i, j] * scale)
            whole[i, j] = rounded
            square += rounded * rounded
        rounded = np.rint(scale)
        if one:
            square += np.float64(rounded) * np.float64(rounded)
        norms[i] = np.sqrt(square)
        factor = np.float32(weight[i] * length * room / max(norms[i], 1.0))
        for j in range(narrow.shape[1]):
            cut[i, j] = np.trunc(narrow[i, j] * factor)
        if last:
            cut[i, narrow.shape[1]] = np.trunc(factor)
        if one:
            for j in range(narrow.shape[1]):
                ones[j] += np.float64(rounded) * np.float64(cut[i, j])


def _exact(narrow: Array, wide: Array, norms: Floats) -> bool:
    """Whether float32 is exact: by the norms of wide rows if there are few columns, else by those of columns."""
    parts, few, width = narrow.shape
    if _bound.fast is not None:
        columns = np.zeros(width + wide.shape[2], np.float32)
        return bool(_bound.fast(narrow, wide, norms, width <= _THIN, columns) <= _EXACT)
    if width <= _THIN:
        padded = np.zeros(parts * few, np.float32)
        padded[: len(norms)] = norms
        return bool(np.matmul(padded.reshape(parts, 1, few), np.abs(narrow)).max() <= _EXACT)
    most = [float(np.einsum("ij,ij->j", side[0], side[0]).max()) for side in (narrow, wide)]
    return most[0] * most[1] <= _EXACT**2


@loop()
def _bound(narrow, wide, norms, thin, columns):  # type: ignore[no-untyped-def]
    """The most that the absolute values of what an entry adds up can sum to; `columns` is zero, and room to work."""
    parts, few, width = narrow.shape
    most = np.float32(0)
    if thin:
        for part in range(parts):
            columns[:width] = 0
            for i in range(part * few, min((part + 1) * few, norms.size)):
                norm = np.float32(norms[i])
                for j in range(width):
                    columns[j] += norm * np.abs(narrow[part, i - part * few, j])
            most = max(most, columns[:width].max())
        return np.float64(most)
    for i in range(few):
        for j in range(width):
            columns[j] += narrow[0, i, j] * narrow[0, i, j]
        for j in range(wide.shape[2]):
            columns[width + j] += wide[0, i, j] * wide[0, i, j]
    return np.sqrt(np.float64(columns[:width].max()) * np.float64(columns[width:].max()))


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
def _added_to(products, total):  # type: ignore[no-untyped-def]
    for k in range(products.shape[0]):
        for i in range(products.shape[1]):
            for j in range(products.shape[2]):
                total[i, j] += np.int32(products[k, i, j])
