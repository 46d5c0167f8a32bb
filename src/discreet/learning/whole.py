"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

from typing import NamedTuple

import numpy as np

from discreet.compiled import loop
from discreet.learning.gradients import Array, Floats, Ints

ROWS = 224
"""Rows of an outer product at a time."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_THIN, _FEW = 32, 32  # up to so many columns of a narrow side, so many rows at a time are added up in float32
_MANY = 64  # products, and those of one turn, whose sum is below 2³¹
_SHORT = 1 << 10  # squares that are added up in float32


class Sides(NamedTuple):
    """Rows of both sides, the scales of the wide ones, and how long their products may be.

    one: the wide side has one number more, 1, that is not written down. last: the narrow side has.
    """

    wide: Array
    narrow: Array
    scale: Array
    room: Floats
    one: bool
    last: bool


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

    def __init__(self, narrow: int, wide: int) -> None:
        self._few = _FEW if narrow <= _THIN else self.rows
        parts = -(-self.rows // self._few)
        self._narrow = np.empty((parts * self._few, narrow), np.float32)
        self._wide = np.empty((parts * self._few, wide), np.float32)
        self._product = np.empty((parts, narrow, wide), np.float32)
        self._small, self._added = np.zeros((narrow, wide), np.int32), 0
        self._large: Ints | None = None

    def add(self, sides: Sides) -> None:
        """Make both sides whole, multiply, and add up."""
        count = len(sides.wide)
        norms = made_whole(sides, self._wide[:count], self._narrow[:count])
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

    def cut(self, count: int) -> Array:
        """The narrow rows that were added last."""
        return self._narrow[:count]

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


def made_whole(sides: Sides, whole: Array, cut: Array) -> Floats:
    """Wide rows scaled and rounded, into `whole`; narrow ones scaled by what room is left and cut, into `cut`.

    The norms of the rounded rows are returned. The one of a narrow side is the last column of `cut`.
    """
    if _make_whole.fast is not None:
        norms = np.empty(len(whole))
        _make_whole.fast(*sides, whole, cut, norms)
        return norms
    np.rint(np.multiply(sides.wide, sides.scale[:, None], out=whole), out=whole)
    squares = squared_norms(whole)
    if sides.one:
        squares += np.square(np.rint(sides.scale), dtype=np.float64)
    norms = np.sqrt(squares)
    factor = (sides.room / np.maximum(norms, 1)).astype(np.float32)  # a norm below 1 is 0, of a row of zeros
    np.multiply(sides.narrow, factor[:, None], out=cut[:, : sides.narrow.shape[1]])
    if sides.last:
        cut[:, -1] = factor
    np.trunc(cut, out=cut)
    return norms


@loop(reorder=True)
def _make_whole(wide, narrow, scale, room, one, last, whole, cut, norms):  # type: ignore[no-untyped-def]
    for i in range(wide.shape[0]):
        factor, square = scale[i], 0.0
        for j in range(wide.shape[1]):
            rounded = np.rint(wide[i, j] * factor)
            whole[i, j] = rounded
            square += rounded * rounded
        if one:
            square += np.float64(np.rint(factor)) * np.float64(np.rint(factor))
        norms[i] = np.sqrt(square)
        left = np.float32(room[i] / max(norms[i], 1.0))
        for j in range(narrow.shape[1]):
            cut[i, j] = np.trunc(narrow[i, j] * left)
        if last:
            cut[i, narrow.shape[1]] = np.trunc(left)


def _exact(narrow: Array, wide: Array, norms: Floats) -> bool:
    """Whether float32 is exact: by the norms of wide rows if there are few columns, else by those of columns."""
    parts, few, width = narrow.shape
    if width <= _THIN:
        padded = np.zeros(parts * few, np.float32)
        padded[: len(norms)] = norms
        return bool(np.matmul(padded.reshape(parts, 1, few), np.abs(narrow)).max() <= _EXACT)
    most = [float(_columns(side[0]).max()) for side in (narrow, wide)]
    return most[0] * most[1] <= _EXACT**2


def squared_norms(rows: Array) -> Floats:
    """The squared norm of each row."""
    total = np.zeros(len(rows))
    for start in range(0, rows.shape[1], _SHORT):
        part = rows[:, start : start + _SHORT]
        total += np.vecdot(part, part)
    return total


def _columns(rows: Array) -> Array:
    """The squared norms of the columns, added up in float32."""
    total = np.zeros(rows.shape[1], np.float32)
    if _square_columns.fast is None:
        return np.einsum("ij,ij->j", rows, rows, out=total)
    _square_columns.fast(rows, total)
    return total


@loop()
def _square_columns(rows, total):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            total[j] += rows[i, j] * rows[i, j]


@loop()
def _added_to(products, total):  # type: ignore[no-untyped-def]
    for k in range(products.shape[0]):
        for i in range(products.shape[1]):
            for j in range(products.shape[2]):
                total[i, j] += np.int32(products[k, i, j])
