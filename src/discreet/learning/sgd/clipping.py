"""Clipped gradients, added up on an integer grid: what one example changes is bounded exactly.

Rows are made whole, and products of whole numbers are added exactly, in float32 wherever that is exact (`Total`).

>>> import numpy as np
>>> from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum
>>> from discreet.learning.sgd.gradients import Outer
>>> lot = [Outer(np.array([[3.0, 4.0]], np.float32), np.array([[1.0]], np.float32))]  # one example, of norm 5
>>> total = clipped_sum(lot, Clip(1))
>>> (total.units[0] / UNITS).round(2).tolist(), total.norms.tolist()
([[0.6], [0.8]], [5.0])

Batch invariance: what is computed for an example does not depend on the others in its lot, bit for bit.

BLAS chooses its kernel by the shape of all that it is given, and the kernel may treat rows differently by their index:
so one more example in a lot can change the last bits of what is computed for the others (OpenBLAS does both: it has
other kernels for small products, and its kernels for AVX2 round every second group of six rows differently). A last bit
can open a ReLU or move a norm across a bound; then what an example changes would not be bounded by its clipping norm.

Guarantee: a row of `product(x, weights)` depends on that row and on the weights alone, if BLAS rounds by shape, index
and number of threads and by nothing else, and if the rows that this machine was asked about show all differences.
Proof. BLAS is given blocks of one shape always, and rows stand only at indexes that are all treated alike: which ones
they are is asked of the machine at hand, once for each shape and number of threads, on public numbers. Before a run
`require_batch_invariance` tries the whole model in the same way.

>>> from discreet.learning.networks.layers import Dense
>>> from discreet.learning.networks.network import Network, Softmax
>>> from discreet.learning.sgd.clipping import is_batch_invariant
>>> is_batch_invariant(Network([Dense(2)], Softmax(), inputs=(3,)))
True
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidData
from discreet.exact import Number, rational
from discreet.learning.sgd.gradients import Array, Floats, Gradient, Ints, Outer, Rows, Trainable
from discreet.noise import DeterministicEntropy
from discreet.threads import threads_in_force

UNITS = 1 << 30
"""The clipping norm in steps of the grid on which gradients are summed."""

MOST = 1 << 22
"""The largest lot: beyond it a sum could leave the whole numbers that a float holds exactly."""

_UNITS_BITS = UNITS.bit_length() - 1
_FINER = 8  # how much finer the steps of the narrow side are, in their root mean square
_NUMPY = 1024  # numbers that NumPy buffers: with more, it would spread each row's factor over a buffer
_SHRINK = 1 - 2.0**-12  # makes room for the rounding of norms and scales
_BLOCK = 1 << 16  # numbers at a time: the scratch array stays in the processor's cache


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
    them in float64, with or without fused products, gives the same exact result; `quantize.Total` uses float32 where it
    is exact too. What an example contributes is made by elementary operations on its own numbers, in an order that
    depends on the length of rows and the number of parameters alone: sides are first laid out in memory in one way
    (`plain`), because NumPy chooses how to add by layout too, and a lot of one row has every layout at once.
    """
    units = tuple(np.zeros(gradient.shape, np.int64) for gradient in gradients)
    return ClippedSum(units, Clipping(clip, units, share=share).add(gradients))


class Clipping:
    """The same for a lot that comes in parts: sums are added to arrays of whole numbers, one for each parameter.

    >>> lot = [Outer(np.array([[3.0, 4.0]], np.float32), np.array([[1.0]], np.float32))]
    >>> onto = np.zeros((2, 1), np.int64)
    >>> clipping = Clipping(Clip(1), [onto])
    >>> clipping.add(lot).tolist(), clipping.add(lot).tolist(), (onto / UNITS).round(2).tolist()
    ([5.0], [5.0], [[1.2], [1.6]])
    """

    def __init__(self, clip: Clip, onto: Sequence[Ints], *, share: Number = 1) -> None:
        root, shares = math.sqrt(rational(share, "share", above=0, at_most=1)), clip.shares or ()
        if shares and len(shares) != len(onto):
            raise InvalidData(f"{len(shares)} clipping shares for {len(onto)} parameters")
        self._limits = Limits(float(clip.norm), root, np.array([float(part) ** 0.5 for part in shares]))
        self._onto = onto
        self._sums: dict[tuple[int, bool | None], _RowsSum | _OuterSum] = {}

    def add(self, gradients: Sequence[Gradient]) -> Floats:
        """Add what the examples of one part contribute; their norms before clipping, for nobody's eyes."""
        _check(gradients, self._onto)
        gradients = [gradient.plain() for gradient in gradients]
        with np.errstate(all="ignore"):
            np.setbufsize(_NUMPY)  # until the end of this block
            squares = _lengths(gradients)
            norms, weights = self._weights(squares)
            for place, gradient in enumerate(gradients):
                self._sum(place, gradient).add(gradient, squares[place], weights[place])
        return norms

    def _weights(self, squares: Floats) -> tuple[Floats, Floats]:
        """The norms of the examples, and for each parameter and example √share·min(1, norm/‖g‖)/norm, or 0.

        With clipping shares, of the parameter's own norm and share. It is 0 where a parameter gets nothing.
        """
        usable = ((squares >= LEAST) & (squares <= GREATEST)).all(axis=1)
        products = np.where(usable, squares[:, 0] * squares[:, 1], 0.0)
        norms, (norm, root, roots) = np.sqrt(_added(products)), self._limits
        if not roots.size:
            return norms, np.where(usable, root / np.maximum(norms, norm), 0.0)
        each = roots[:, None]
        return norms, np.where(usable, root * each / np.maximum(np.sqrt(products), norm * each), 0.0)

    def _sum(self, place: int, gradient: Gradient) -> Any:
        """What adds up the gradients of this parameter that come in this form."""
        key = place, gradient.one if isinstance(gradient, Outer) else None
        if key not in self._sums:
            onto = self._onto[place]
            self._sums[key] = _OuterSum(gradient, onto) if isinstance(gradient, Outer) else _RowsSum(onto)
        return self._sums[key]


def shaped(vector: NDArray[Any], like: Sequence[Any]) -> list[NDArray[Any]]:
    """A vector in parts that have the shapes of these, one after the other: views of it.

    >>> [part.tolist() for part in shaped(np.arange(5), [np.zeros((2, 2)), np.zeros(1)])]
    [[[0, 1], [2, 3]], [4]]
    """
    result, start = [], 0
    for one in like:
        end = start + math.prod(one.shape)
        result.append(vector[start:end].reshape(one.shape))
        start = end
    return result


def _added(rows: Floats) -> Floats:
    """The rows one after the other: NumPy's sum would add in another order if they had one column."""
    total = np.zeros(rows.shape[1])
    for row in rows:
        total += row
    return total


def _check(gradients: Sequence[Gradient], onto: Sequence[Ints]) -> None:
    if [gradient.shape for gradient in gradients] != [part.shape for part in onto]:
        shapes = [gradient.shape for gradient in gradients], [part.shape for part in onto]
        raise InvalidData(f"gradients of shapes {shapes[0]}, expected those of the parameters, {shapes[1]}")
    counts = {len(side) for gradient in gradients for side in gradient.sides}
    if len(counts) != 1:
        raise InvalidData(f"gradients of {sorted(counts)} examples, expected one number of examples for all parameters")
    if max(counts) > MOST:
        raise InvalidData(f"a lot of {max(counts)} examples, expected at most {MOST}")


def _lengths(gradients: Sequence[Gradient]) -> Floats:
    """The squared norms of the sides of each gradient and example; 1 for a side that is not there."""
    result = np.ones((len(gradients), 2, len(gradients[0].sides[0])))
    for place, gradient in enumerate(gradients):
        for side, rows in enumerate(gradient.sides):
            squared_norms(rows, out=result[place, side])
        if isinstance(gradient, Outer) and gradient.one:
            result[place, 0] += 1
    return result


class _RowsSum:
    """The sum of what the examples contribute to a parameter whose gradients are formed."""

    def __init__(self, onto: Ints) -> None:
        self._onto = onto

    def add(self, gradient: Rows, squares: Floats, weight: Floats) -> None:
        summed = np.zeros(math.prod(gradient.shape))
        for part in _whole(gradient.sides[0], weight * UNITS):
            summed += part.sum(axis=0, dtype=np.float64)
        self._onto += summed.astype(np.int64).reshape(gradient.shape)


class _OuterSum:
    """The sum of outer products of whole vectors; see `clipped_sum` for the proof.

    In its root mean square, the wide side has about 30 steps at the clipping norm, fewer for a short gradient, and the
    narrow one eight times as many: rounding moves an example by about 1 % of its norm, cutting makes it 0.2 % shorter.
    """

    def __init__(self, gradient: Outer, onto: Ints) -> None:
        left, right = gradient.left.shape[1], gradient.right.shape[1]
        self._turned = left > right
        narrow, wide = (right, left) if self._turned else (left, right)
        bits = _bits(gradient.shape)
        steps = Steps(
            fine=2.0**bits * math.sqrt(wide / narrow) / _FINER,
            room=2.0**bits * _SHRINK,
            units=1 << (_UNITS_BITS - bits),
            one=int(not self._turned) if gradient.one else None,  # it belongs to the left side
        )
        self.total = Total(onto.T if self._turned else onto, steps)

    def sides(self, gradient: Outer) -> tuple[Array, Array]:
        """The wide one and the narrow one."""
        return (gradient.left, gradient.right) if self._turned else (gradient.right, gradient.left)

    def add(self, gradient: Outer, squares: Floats, weight: Floats) -> None:
        wide = int(not self._turned)
        self.total.add(Sides(*self.sides(gradient), squares[wide], squares[1 - wide], weight))


def _bits(shape: tuple[int, ...]) -> int:
    """The clipping norm in steps of the products of a matrix, as a power of two: public, and finer for larger ones."""
    return min(max(round(13 + math.log2(math.prod(shape)) / 2), 20), _UNITS_BITS)


def _whole(rows: Array, scale: Floats) -> Iterator[Array]:
    """Rows times their scales, cut to whole numbers towards zero, some at a time; rows of scale 0 are left out."""
    if not scale.all():
        rows, scale = rows[scale > 0], scale[scale > 0]
    factors = (scale * _SHRINK).astype(np.float32)[:, None]
    step = max(1, _BLOCK // max(1, rows.shape[1]))
    room = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
    for start in range(0, len(rows), step):
        here = factors[start : start + step]
        part = np.multiply(rows[start : start + step], here, out=room[: len(here)])
        yield np.trunc(part, out=part)


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


_ROWS = 64  # in each product that BLAS is given
_ASKED = 8  # rows that are tried at every place


def product(x: Array, weights: Array) -> Array:
    """x @ weights, row by row.

    >>> x, weights = np.ones((3, 2), np.float32), np.ones((2, 1), np.float32)
    >>> product(x, weights).tolist()
    [[2.0], [2.0], [2.0]]
    """
    width = weights.shape[1]
    if width == 1:  # BLAS has products with a single vector of their own, which go by alignment too
        weights = np.repeat(weights, 2, axis=1)
    places = _alike(*weights.shape, weights.flags.c_contiguous, threads_in_force())
    y = np.empty((len(x), weights.shape[1]), np.float32)
    whole = len(x) - len(x) % len(places)
    if len(places) == _ROWS:
        blocks = x[:whole].reshape(whole // _ROWS, _ROWS, x.shape[1])
        np.matmul(blocks, weights, out=y[:whole].reshape(len(blocks), _ROWS, weights.shape[1]))
    else:
        y[:whole] = _apart(x[:whole], weights, places)
    if whole < len(x):
        last = np.zeros((len(places), x.shape[1]), np.float32)
        last[: len(x) - whole] = x[whole:]
        result = np.matmul(last[None], weights)[0] if len(places) == _ROWS else _apart(last, weights, places)
        y[whole:] = result[: len(x) - whole]
    return y[:, :width]


def _apart(x: Array, weights: Array, places: NDArray[np.int64]) -> Array:
    """The product with rows at the given places of blocks of zeros; a whole number of blocks."""
    blocks = np.zeros((len(x) // len(places), _ROWS, x.shape[1]), np.float32)
    blocks[:, places] = x.reshape(len(blocks), len(places), x.shape[1])
    result: Array = np.matmul(blocks, weights)[:, places]
    return result.reshape(len(x), weights.shape[1])


@lru_cache(maxsize=256)
def _alike(inner: int, width: int, contiguous: bool, threads: tuple[int, ...]) -> NDArray[np.int64]:
    """The places of a block whose rows are rounded like the first, for products of this shape, order and threads."""
    weights = _numbers(inner * width, 1).reshape((inner, width) if contiguous else (width, inner))
    rows = _numbers(_ASKED * inner, 2).reshape(_ASKED, 1, inner)
    result = np.matmul(np.repeat(rows, _ROWS, axis=1), weights if contiguous else weights.T)
    return np.flatnonzero((result == result[:, :1]).all(axis=(0, 2)))


def _numbers(count: int, seed: int) -> Array:
    """Public numbers between −1 and 1 to ask with."""
    words = DeterministicEntropy(seed).words(count)
    return (words.view(np.int64) * 2.0**-63).astype(np.float32)


_COUNT = 70  # more than a block of `product`
_PARTS = (slice(0, 1), slice(0, 33), slice(1, None), slice(5, 69), slice(64, None))


def require_batch_invariance(network: Trainable) -> None:
    """Refuse to train where rows depend on one another: no bound on one example's influence would hold."""
    if not is_batch_invariant(network):
        raise InternalError(
            "on this machine an example's gradient depends on the other examples of its lot, by rounding; "
            "please report the processor and what numpy.show_config() prints, and try OPENBLAS_NUM_THREADS=1"
        )


def is_batch_invariant(network: Trainable) -> bool:
    """Whether losses, gradients and their norms are the same, bit for bit, in several parts of a lot."""
    return _tried(network, threads_in_force())


@lru_cache(maxsize=64)
def _tried(network: Trainable, threads: tuple[int, ...]) -> bool:
    """The same, tried once for each number of threads."""
    x = _numbers(_COUNT * math.prod(network.inputs), 0).reshape(_COUNT, *network.inputs)
    parameters = network.start(seed=0)
    together = _rows(network, parameters, x)
    for part in _PARTS:
        fewer = _rows(network, parameters, x[part])
        if not all(np.array_equal(a[part], b) for a, b in zip(together, fewer, strict=True)):
            return False
    return True


def _rows(network: Trainable, parameters: Sequence[Array], x: Array) -> list[NDArray[Any]]:
    y = _targets(network, len(x))
    with np.errstate(all="ignore"):
        losses, gradients = network.gradients(parameters, x, y)
    return [losses, *(side for gradient in gradients for side in gradient.sides), clipped_sum(gradients, Clip(1)).norms]


def _targets(network: Trainable, count: int) -> NDArray[Any]:
    """Targets to try with: one number for each example, or as many as come out."""
    trial = np.zeros((count, *network.outputs), np.int64)
    try:
        return network.loss.targets(trial[:, 0], network.outputs)
    except InvalidData:
        return network.loss.targets(trial, network.outputs)
