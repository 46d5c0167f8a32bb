"""Exact geometric noise: discrete Laplace of any rational scale, staircase, planar Laplace.

**Geometric and discrete Laplace**, without rejection. G with P(G = k) ∝ e^(−k/t), k = 0, 1, 2, …, is written in mixed
radix: G = r₀ + M₁r₁ + M₂r₂ + …. Since e^(−k/t) factors over the digits, **the digits are independent**, each a
truncated geometric variable with ratio e^(−Mⱼ/t); the last one is unbounded. Each digit is one small table
(`sampler.Table`), whatever the scale.

The discrete Laplace variable K with P(K = k) ∝ e^(−|k|/t), q = e^(−1/t), needs one more bit: P(K < 0) = q/(1+q), and
both K given K ≥ 0 and −1−K given K < 0 are distributed as G, because P(K = −1−k)/P(K = k) = q for all k ≥ 0. So with
an independent bit S, P(S = 1) = q/(1+q): K = G if S = 0, else −1−G. The bit is drawn together with the lowest digit:
outcome j = 2r₀ + S. In two's complement, K = G XOR −S.

Cumulative probabilities of the lowest digit, m its size (m = ∞ if it is the only one): after (r, S=1) it is
(1 − q^(r+1))/(1 − q^m), and after (r, S=0) it is (1 − c·q^(r+1))/(1 − q^m) with c = 2/(1+q).

The number of words and of table look-ups depends on the scale alone, so the time of a draw does not depend on it.

**Staircase noise** on the integers (Geng, Viswanath 2014). P(k) ∝ e^(−ε·⌊(|k| + n − r)/n⌋): steps of width n, the first
one cut to r on either side of zero. With q = e^(−ε), |k| falls in the first stair with weight r (k ≥ 0 alone), and on
the rest, r + nG + U with G geometric of ratio q and U uniform below n, with weight nq/(1−q). So: a coin of probability
r(1−q)/(r(1−q) + nq), then a uniform place. The sign is a fair coin; "minus zero" is drawn again, so that 0 keeps half
its weight, as k and −k each do.

**Laplace noise in the plane**, and in any dimension, on the integer grid: P(z) ∝ exp(−‖z‖₂/scale). This is the planar
geometric (grid planar Laplace) distribution of geo-indistinguishability (Andrés, Bordenabe, Chatzikokolakis,
Palamidessi 2013), here with nothing cut off.

1. Draw each of the d coordinates from the discrete Laplace distribution of a scale t' ≥ t√d.
2. Accept z with probability exp(−(‖z‖₂/t − ‖z‖₁/t')); else start again.

Proof. ‖z‖₁ ≤ √d·‖z‖₂ (Cauchy–Schwarz), so the exponent is not positive; the product of proposal and acceptance is
∝ exp(−‖z‖₂/t). In the plane π/4 ≈ 78 % are accepted, independently of the point returned.
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from math import ceil, isqrt

import numpy as np

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import Number, exp_bounds, integer, rational, sqrt_bounds
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.sampler import LARGEST, Enclosure, Integers, Size, Table, accept, sample_often, shape
from discreet.noise.uniform import bernoulli, uniform_below

_LOW, _HIGH = 512, 1024  # sizes of the lowest digit and of the others
_NATS = 45  # e^−45 < 2^−64: an unbounded digit is listed that far, the rest is for the undecided path
_GUARD = 128


def geometric(scale: Number, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Draws of G ≥ 0 with P(G = k) ∝ exp(−k/scale).

    >>> 0 <= geometric(3)
    True
    """
    return sample_often(_cached(_geometric, scale), size, entropy)


def discrete_laplace(scale: Number, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Draws of K with P(K = k) ∝ exp(−|k|/scale), on all integers.

    >>> from discreet.noise import DeterministicEntropy
    >>> discrete_laplace("2.5", size=(2, 3), entropy=DeterministicEntropy(1)).shape
    (2, 3)
    """
    return sample_often(_cached(_laplace, scale), size, entropy)


def _cached(make: Callable[[Number], "_Digits"], scale: Number) -> "_Digits":
    """The sampler of this scale, kept by what the caller wrote: reading a number costs as much as a draw."""
    try:
        return make(scale)
    except TypeError:  # what cannot be hashed is not a number either
        return make(_scale(scale))


def _scale(scale: Number) -> Fraction:
    exact = rational(scale, "scale", above=0)
    if exact > LARGEST:
        raise InvalidParameter("scale", scale, "at most 2^52", "use a coarser grid, so that noise fits 64 bits")
    return exact


class _Digits:
    """Sampler of r₀ + M₁r₁ + …, signed by the lowest table's extra bit if `signed`."""

    def __init__(self, scale: Fraction, *, signed: bool) -> None:
        self._signed = signed
        self.digits = list(_layout(scale, signed=signed))

    def draw(self, entropy: Entropy) -> int:
        words = entropy.words(len(self.digits)).tolist()
        total = sign = 0
        for word, (radix, table) in zip(words, self.digits, strict=True):
            digit = table.pick(word, entropy)
            if self._signed and radix == 1:
                sign, digit = digit & 1, digit >> 1
            total += radix * digit
        return total ^ -sign

    def fill(self, entropy: Entropy, out: Integers) -> None:
        (_, lowest), *others = self.digits
        first = lowest.picks(entropy, out.size)
        np.right_shift(first, 1, out=out, casting="unsafe") if self._signed else np.copyto(out, first)
        for radix, table in others:
            digit = table.picks(entropy, out.size)
            if digit.max(initial=0) > (2**63 - 1 - out.max(initial=0)) // radix:
                raise InternalError("a draw left 64 bits; its probability is below e^-2048")
            out += np.multiply(digit, radix, dtype=np.int64)
        if self._signed:
            out ^= -(first & 1)


@lru_cache(maxsize=32, typed=True)
def _geometric(scale: Number) -> _Digits:
    return _Digits(_scale(scale), signed=False)


@lru_cache(maxsize=32, typed=True)
def _laplace(scale: Number) -> _Digits:
    return _Digits(_scale(scale), signed=True)


def _layout(scale: Fraction, *, signed: bool) -> Iterator[tuple[int, Table]]:
    """(radix, table) for each digit; the last is the first one that can be unbounded in a small table."""
    radix = 1
    while True:
        rate = radix / scale
        size = _LOW if radix == 1 else _HIGH
        unbounded = ceil(_NATS / rate) <= size
        yield radix, _digit_table(rate, None if unbounded else size, signed=signed and radix == 1)
        if unbounded:
            return
        radix *= size


def _digit_table(rate: Fraction, size: int | None, *, signed: bool) -> Table:
    """The table of a digit with ratio e^−rate on {0 … size−1}, or on all of ℕ; outcomes 2r + S if signed."""
    listed = size or ceil(_NATS / rate)
    bits = 64 + 48 + ceil(1 / rate).bit_length()  # 1 − e^(−rate·size) has that many leading zeros; checked by Table
    one = 1 << bits
    powers = _powers(rate, listed, bits)
    bounds = []
    for r in range(listed):
        if signed:
            bounds.append(_fraction(_halved(powers[r + 1], powers[1], one), powers[-1] if size else (0, 0), one, 64))
        bounds.append(_fraction(powers[r + 1], powers[-1] if size else (0, 0), one, 64))

    def enclose(i: int, bits: int) -> tuple[int, int]:
        fine = bits + _GUARD
        r, positive = (i >> 1, not i & 1) if signed else (i, False)
        power, total = exp_bounds(-rate * (r + 1), fine), exp_bounds(-rate * size, fine) if size else (0, 0)
        if positive:
            power = _halved(power, exp_bounds(-rate, fine), 1 << fine)
        return _fraction(power, total, 1 << fine, bits)

    if size:
        return Table(bounds[:-1], enclose, outcomes=len(bounds))
    last = next(i for i, (lo, _) in enumerate(bounds) if lo >= (1 << 64) - 2)
    return Table(bounds[: last + 1], enclose)


def _powers(rate: Fraction, count: int, bits: int) -> list[tuple[int, int]]:
    """Enclosures of 2^bits·e^(−rate·i) for i = 0 … count, by repeated multiplication rounded outwards."""
    lo = hi = 1 << bits
    step_lo, step_hi = exp_bounds(-rate, bits)
    powers = [(lo, hi)]
    for _ in range(count):
        lo, hi = (lo * step_lo) >> bits, -((-hi * step_hi) >> bits)
        powers.append((lo, hi))
    return powers


def _halved(power: tuple[int, int], q: tuple[int, int], one: int) -> tuple[int, int]:
    """2·power/(1 + q), enclosed: what remains of `power` when the outcome S = 0 has been counted too."""
    return 2 * power[0] * one // (one + q[1]), -(-2 * power[1] * one // (one + q[0]))


def _fraction(power: tuple[int, int], total: tuple[int, int], one: int, bits: int) -> tuple[int, int]:
    """Enclosure of 2^bits·(1 − power)/(1 − total), all given as multiples of 1/one."""
    lo = ((one - power[1]) << bits) // (one - total[0])
    hi = -((-(one - power[0]) << bits) // (one - total[1]))
    return max(lo, 0), min(hi, 1 << bits)


def staircase(
    *, epsilon: Number, width: int, first: int, size: Size = None, entropy: Entropy | None = None
) -> int | Integers:
    """Draws of K with P(K = k) ∝ exp(−epsilon·⌊(|k| + width − first)/width⌋), 1 ≤ first ≤ width.

    >>> isinstance(staircase(epsilon=1, width=10, first=4), int)
    True
    """
    step = integer(width, "width", at_least=1, at_most=2**40)
    head = integer(first, "first", at_least=1, at_most=step)
    exact = rational(epsilon, "epsilon", above=0)
    if step / exact > LARGEST:
        raise InvalidParameter("width", width, "width/epsilon at most 2^52", "use a coarser grid")
    return sample_often(_staircase(exact, step, head), size, entropy)


@lru_cache(maxsize=32)
def _staircase(epsilon: Fraction, width: int, first: int) -> "_Staircase":
    return _Staircase(epsilon, width, first)


class _Staircase:
    def __init__(self, epsilon: Fraction, width: int, first: int) -> None:
        self._scale, self._width, self._first = 1 / epsilon, width, first
        self._in_first = _first_stair(epsilon, width, first)

    def draw(self, entropy: Entropy) -> int:
        out = np.empty(1, np.int64)
        self.fill(entropy, out)
        return int(out[0])

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.arange(out.size)
        while pending.size:
            count = pending.size
            near = self._in_first.picks(entropy, count) == 0
            stairs = np.asarray(geometric(self._scale, count, entropy=entropy))
            if stairs.max(initial=0) > 2**62 // self._width:
                raise InternalError("a draw left 64 bits; its probability is below e^-1000")
            beyond = stairs * self._width
            beyond += uniform_below(self._width, count, entropy=entropy) + self._first
            sizes = np.where(near, uniform_below(self._first, count, entropy=entropy), beyond)
            negative = np.asarray(bernoulli("1/2", count, entropy=entropy))
            out[pending] = np.where(negative, -sizes, sizes)
            pending = pending[negative & (sizes == 0)]


def _first_stair(epsilon: Fraction, width: int, first: int) -> Table:
    """The coin r(1−q)/(r(1−q) + nq) = 1 − nq/(r + (n−r)q), rising as q falls."""

    def enclose(_: int, bits: int) -> tuple[int, int]:
        fine = bits + 64
        one = 1 << fine
        lo, hi = (
            Fraction((one - q) * first, (one - q) * first + width * q) for q in reversed(exp_bounds(-epsilon, fine))
        )
        return (lo.numerator << bits) // lo.denominator, -((-hi.numerator << bits) // hi.denominator)

    return Table([enclose(0, 64)], enclose, outcomes=2)


_BLOCK = 1 << 14


def planar_laplace(
    scale: Number, size: Size = None, *, dimensions: int = 2, entropy: Entropy | None = None
) -> Integers:
    """Grid points z with P(z) ∝ exp(−‖z‖₂/scale); the last axis holds the coordinates.

    >>> planar_laplace(10).shape, planar_laplace(10, size=5).shape, planar_laplace(10, dimensions=3).shape
    ((2,), (5, 2), (3,))
    """
    exact = rational(scale, "scale", above=0)
    if exact > LARGEST // 1024:
        raise InvalidParameter("scale", scale, "at most 2^42", "use a coarser grid, so that noise fits 64 bits")
    count = integer(dimensions, "dimensions", at_least=1, at_most=8)
    source = SYSTEM if entropy is None else entropy
    sampler = _spherical(exact, count)
    out = np.empty((*(() if size is None else shape(size)), count), np.int64)
    points = out.reshape(-1, count)
    for start in range(0, len(points), _BLOCK):
        sampler.fill(source, points[start : start + _BLOCK])
    return out


@lru_cache(maxsize=32)
def _spherical(scale: Fraction, dimensions: int) -> "_Spherical":
    return _Spherical(scale, dimensions)


class _Spherical:
    def __init__(self, scale: Fraction, dimensions: int) -> None:
        self._scale = scale
        self._wide = scale * Fraction(isqrt(dimensions << 20) + 1, 1 << 10)  # t' just above t√d
        self._floats = float(scale), float(self._wide)

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.arange(len(out))
        while pending.size:
            points = np.asarray(discrete_laplace(self._wide, (pending.size, out.shape[1]), entropy=entropy))
            out[pending] = points
            pending = pending[~self._accepted(points, entropy)]

    def _accepted(self, points: Integers, entropy: Entropy) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        scale, wide = self._floats
        sizes = np.abs(points).astype(np.float64)
        with np.errstate(all="ignore"):  # a scale below the floats: 0/0 is left to the rationals
            near, far = sizes.sum(axis=1) / wide, np.sqrt(np.square(sizes).sum(axis=1)) / scale
            gamma = np.where(far <= 64, np.maximum(far - near, 0), np.nan)  # up to 64, its error is below 2^−43
        return accept(gamma, lambda k: self._acceptance(points[k].tolist()), entropy)

    def _acceptance(self, point: list[int]) -> Enclosure:
        square = sum(x * x for x in point) / (self._scale * self._scale)
        near = sum(abs(x) for x in point) / self._wide

        def enclose(bits: int) -> tuple[int, int]:
            fine = bits + 8
            lo, hi = (Fraction(root, 1 << fine) - near for root in sqrt_bounds(square, fine))
            return exp_bounds(-hi, bits)[0], min(exp_bounds(-max(lo, Fraction(0)), bits)[1], 1 << bits)

        return enclose
