"""Rows made whole, and sums of products of whole numbers, exactly, in float32 wherever that is exact."""

import numpy as np

from discreet.compiled import loop
from discreet.learning.gradients import Array, Floats, Ints

ROWS = 192
"""Rows of an outer product at a time."""

_EXACT = (1 << 24) * (1 - 2.0**-8)  # whole numbers of float32, with room for the rounding of bounds
_THIN, _FEW = 32, 32  # up to so many columns of a narrow side, so many rows at a time are added up in float32
_MANY = 64  # products, and those of one turn, whose sum is below 2³¹
_SHORT = 1 << 10  # squares that are added up in float32


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
        few = _FEW if narrow <= _THIN else self.rows
        parts = -(-self.rows // few)
        self._few = few
        self._narrow = np.empty((parts * few, narrow), np.float32)
        self._wide = np.empty((parts * few, wide), np.float32)
        self._product = np.empty((parts, narrow, wide), np.float32)
        self._small, self._added = np.zeros((narrow, wide), np.int32), 0
        self._large: Ints | None = None
        self._sides: tuple[Array, Array] = self._narrow[None], self._wide[None]

    def rooms(self, count: int) -> tuple[Array, Array]:
        """Where to put at most so many wide and narrow rows, before `add`; what is left of the last part is zero."""
        few = min(self._few, count)
        parts = -(-count // few)
        for room in (self._narrow, self._wide):
            room[count : parts * few] = 0
        narrow, wide = (room[: parts * few].reshape(parts, few, room.shape[1]) for room in (self._narrow, self._wide))
        self._sides = narrow, wide
        return self._wide[:count], self._narrow[:count]

    def add(self, norms: Floats) -> None:
        """Add what is in the rooms; `norms` are at least those of the wide rows."""
        narrow, wide = self._sides
        turned, parts = narrow.transpose(0, 2, 1), len(narrow)
        if not self._exact(norms):
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

    def _exact(self, norms: Floats) -> bool:
        """Whether float32 is exact: by the norms of wide rows if there are few columns, else by those of columns."""
        narrow, wide = self._sides
        parts, few, width = narrow.shape
        if width <= _THIN:
            padded = np.zeros(parts * few, np.float32)
            padded[: len(norms)] = norms
            return bool(np.matmul(padded.reshape(parts, 1, few), np.abs(narrow)).max() <= _EXACT)
        most = [float(_columns(side[0]).max()) for side in (narrow, wide)]
        return most[0] * most[1] <= _EXACT**2

    def _set_aside(self, more: Ints) -> None:
        self._large = more if self._large is None else self._large + more

    def found(self) -> Ints:
        """What was added up."""
        whole = self._small.astype(np.int64)
        return whole if self._large is None else whole + self._large


def made_whole(rows: Array, scale: Array, out: Array) -> Floats:
    """Rows times their scales, rounded to whole numbers, into `out`; the squared norms of these."""
    if _round_rows.fast is None:
        np.rint(np.multiply(rows, scale[:, None], out=out), out=out)
        return squared_norms(out)
    squares = np.empty(len(rows))
    _round_rows.fast(rows, scale, out, squares)
    return squares


@loop(reorder=True)
def _round_rows(rows, scale, out, squares):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        factor, square = scale[i], 0.0
        for j in range(rows.shape[1]):
            whole = np.rint(rows[i, j] * factor)
            out[i, j] = whole
            square += whole * whole
        squares[i] = square


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
