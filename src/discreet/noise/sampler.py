"""Exact draws from any distribution whose cumulative probabilities can be enclosed, as arrays of any shape.

**Lazy inversion** (`Table`). A uniform real U in [0, 1) is revealed 16 or 64 bits at a time. The outcome is the first i
with U < F(i), where F(0) < F(1) < … → 1 are the cumulative probabilities. Each F(i) is known through integers that
enclose 2^b·F(i) for every precision b asked for. As long as the revealed bits leave a comparison open, and only then,
more are drawn and F(i) is enclosed more tightly. So every decision is the one that infinite precision would make: the
draws follow F exactly, not up to rounding.

Guarantee: if `enclose(i, bits)` returns lo ≤ 2^bits·F(i) ≤ hi, a draw returns i with probability
F(i) − F(i−1) exactly, given independent uniform words.

Proof. With u the first b bits of U as an integer, u ≤ 2^b·U < u + 1. If u + 1 ≤ lo then U < F(i); if
u ≥ hi then U ≥ F(i); else the loop takes b + 64. The interval [u, u+1)/2^b shrinks to U, and U ≠ F(i)
with probability one, so the loop ends. The tables below store T(i) = the lower end at 64 bits and rely on
hi ≤ T(i) + 2, which is checked when they are built: a word w decides against every T(i) except those with
w − 1 ≤ T(i) ≤ w. The 16-bit guide answers only where all 2^48 words of a cell agree and are decided.

**Coins of probability e^(−γ)** (`accept`), for many γ at once: floats decide where they can prove it, rationals
elsewhere. Proof. The floats γ̂ are within 2^−48 of the true γ ≥ 0 relatively, or within 2^−42 absolutely, or NaN. A
relative error η moves e^(−γ) by at most γe^(−γ)η ≤ η/e, an absolute one by at most itself. NumPy's exp is within 4
units in the last place by its documentation, 2^−50 (tests hold it to 2^−49 against 200-bit arithmetic). So p̂ =
exp(−γ̂) is within 2^−41 of p (γ̂ is held at 256, where both are below 2^−300). The top 53 bits of a word, exact in a
float, give v ≤ U < v + 2^−53. If v and p̂ differ by at least 2^−40, then U < p if and only if v < p̂. Otherwise, and
for NaN, which happens to one coin in 2^39, `below` compares with the rational enclosure of p.
"""

import math
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import ceil, exp, sqrt
from typing import Protocol, overload

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError, InvalidParameter
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM, Entropy, process

Integers = NDArray[np.int64]
Size = int | tuple[int, ...] | None

LARGEST = 2**52
"""Scales above this are refused: up to it, an int64 overflows with probability below e^−2048 (and is caught)."""

_MOST = 1 << 33
_FEW = 16
_BLOCK = 1 << 15  # draws at a time: the scratch arrays stay in the processor's cache


class Sampler(Protocol):
    """A distribution on the integers, with its decision tables ready."""

    def draw(self, entropy: Entropy) -> int:
        """One draw: the quick path for a single number."""
        ...

    def fill(self, entropy: Entropy, out: Integers) -> None:
        """Independent draws into a one-dimensional array."""
        ...


@overload
def sample(sampler: Sampler, size: None, entropy: Entropy | None) -> int: ...
@overload
def sample(sampler: Sampler, size: int | tuple[int, ...], entropy: Entropy | None) -> Integers: ...
@overload
def sample(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers: ...
def sample(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers:
    """One int for `size=None`, else an int64 array of that shape."""
    source = SYSTEM if entropy is None else entropy
    if size is None:
        return sampler.draw(source)
    return _few_or_many(sampler, shape(size), source, lambda: sampler.draw(source))


@overload
def sample_often(sampler: Sampler, size: None, entropy: Entropy | None) -> int: ...
@overload
def sample_often(sampler: Sampler, size: int | tuple[int, ...], entropy: Entropy | None) -> Integers: ...
@overload
def sample_often(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers: ...
def sample_often(sampler: Sampler, size: Size, entropy: Entropy | None) -> int | Integers:
    """`sample` for samplers that are kept: single draws of the system's entropy are made 64 at a time.

    The time of handing out a number that was drawn before does not depend on it: common outcomes of a single
    draw are found a little sooner, because their part of the table is in the cache.
    """
    if entropy is not None:
        return sample(sampler, size, entropy)
    if size is None:
        return _POOLS.take(sampler)
    return _few_or_many(sampler, shape(size), SYSTEM, lambda: _POOLS.take(sampler))


class _Pools(threading.local):
    """One thread's numbers that were drawn and not yet handed out; a forked process drops its parent's."""

    def __init__(self) -> None:
        self._numbers: dict[Sampler, list[int]] = {}
        self._owner = process()

    def take(self, sampler: Sampler) -> int:
        if self._owner != process() or len(self._numbers) > 64:
            self._numbers, self._owner = {}, process()
        while True:
            try:
                return self._numbers[sampler].pop()
            except (KeyError, IndexError):  # none left; a signal handler may have taken the last one just now
                self._numbers[sampler] = _filled(sampler, (64,), SYSTEM).tolist()


_POOLS = _Pools()


def _few_or_many(sampler: Sampler, dims: tuple[int, ...], source: Entropy, one: Callable[[], int]) -> Integers:
    """A short array is made of single draws: filling takes more words, and time, for outcomes the guide leaves open."""
    count = math.prod(dims)
    if count > _FEW:
        return _filled(sampler, dims, source)
    return np.array([one() for _ in range(count)], np.int64).reshape(dims)


def _filled(sampler: Sampler, dims: tuple[int, ...], source: Entropy) -> Integers:
    out = np.empty(dims, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        sampler.fill(source, flat[start : start + _BLOCK])
    return out


def shape(size: int | tuple[int, ...]) -> tuple[int, ...]:
    """Read a size as NumPy does, refusing what is negative, fractional or absurd.

    >>> shape(3), shape((2, 3)), shape(())
    ((3,), (2, 3), ())
    """
    dims = size if isinstance(size, tuple) else (size,)
    exact = tuple(integer(dim, "size", at_least=0, at_most=_MOST) for dim in dims)
    if math.prod(exact) > _MOST or len(exact) > 32:
        raise InvalidParameter("size", size, "at most 2^33 draws on at most 32 axes in one call", "draw in parts")
    return exact


def sixteen_bits(entropy: Entropy, count: int) -> NDArray[np.uint16]:
    """`count` independent uniform 16-bit words."""
    return entropy.words((count + 3) // 4).view(np.uint16)[:count]


Enclose = Callable[[int, int], tuple[int, int]]
"""(i, bits) → integers lo ≤ 2^bits·F(i) ≤ hi."""

_TOP = 1 << 64
UNDECIDED = -1
"""What the guide says where it takes more than 16 bits to tell."""


class Table:
    """The decision table of one distribution on 0, 1, 2, … (finite if `outcomes` is given).

    `bounds` are the enclosures of F(0), F(1), … at 64 bits: all but the last for a finite distribution; for an
    infinite one, up to the first whose lower end reaches 2^64 − 2, where every word is undecided anyway.
    """

    def __init__(self, bounds: Sequence[tuple[int, int]], enclose: Enclose, outcomes: int | None = None) -> None:
        lows = [min(lo, _TOP - 1) for lo, _ in bounds]
        if any(hi > lo + 2 for lo, (_, hi) in zip(lows, bounds, strict=True)) or lows != sorted(lows):
            raise InternalError("a decision table was built from enclosures that are too wide or out of order")
        if outcomes is None and (not lows or lows[-1] < _TOP - 2):
            raise InternalError("the decision table of an infinite distribution ends before its tail")
        if len(lows) >= 2**15 - 1:
            raise InternalError("a decision table is too long for its 16-bit guide")
        self._enclose = enclose
        self._outcomes = outcomes
        self.thresholds = np.array(lows, np.uint64)
        # 2^k − 1 entries, so that every binary search takes the same number of steps
        self._list = lows + [_TOP] * ((1 << len(lows).bit_length()) - 1 - len(lows))
        self._below = [-2, *lows]  # the threshold below outcome i; none is below outcome 0
        self._guide: NDArray[np.int16] | None = None
        self.open_share = 1.0  # of the 16-bit words, what the guide leaves open; known when it is made

    def pick(self, word: int, entropy: Entropy) -> int:
        """The outcome for one word, drawing more bits only if the word leaves it open."""
        count = bisect_right(self._list, word)
        if word - self._below[count] <= 1:
            return self._resolve(word, entropy)
        return count

    def picks(self, entropy: Entropy, count: int) -> NDArray[np.int16]:
        """`count` independent outcomes, by 16-bit words and the guide; what it leaves open by 64-bit words.

        Rare outcomes are left open more often than common ones. So as many words are taken and looked up as are ever
        open at once (`ceiling`), and what is not needed is thrown away: the work does not tell how many were rare.
        """
        short = sixteen_bits(entropy, count)
        result = self.guide.take(short)
        open_ = np.flatnonzero(result == UNDECIDED)
        padded = pad(open_, ceiling(count, self.open_share))
        outcomes = self.search(whole_words(short[padded], entropy.words(padded.size)), entropy)
        result[open_] = outcomes[: open_.size]
        return result

    @property
    def guide(self) -> NDArray[np.int16]:
        """For each value of the first 16 bits of U: the outcome, or `UNDECIDED` if the other bits matter."""
        return self._guide if self._guide is not None else self._make_guide()

    def search(self, words: NDArray[np.uint64], entropy: Entropy) -> Integers:
        """The outcomes of U whose first 64 bits are given, drawing more only for those that these leave open."""
        counts = self.thresholds.searchsorted(words, side="right")
        below = self.thresholds[np.maximum(counts - 1, 0)]
        for k in np.flatnonzero((counts > 0) & (words - below <= 1)):
            counts[k] = _fitting(self._resolve(int(words[k]), entropy))
        return counts

    def _make_guide(self) -> NDArray[np.int16]:
        """For each value of the top 16 bits: the outcome if the other 48 cannot matter, else undecided."""
        cells = (self.thresholds >> np.uint64(48)).astype(np.int64)
        later = ((self.thresholds + np.uint64(1)) >> np.uint64(48)).astype(np.int64) + 1
        later[self.thresholds == np.uint64(_TOP - 1)] = 1 << 16
        reached = np.cumsum(np.bincount(cells, minlength=1 << 16))  # T ≤ the cell's last word
        certain = np.cumsum(np.bincount(later, minlength=(1 << 16) + 1))[:-1]  # T + 2 ≤ the cell's first word
        self._guide = np.where(certain == reached, reached, UNDECIDED).astype(np.int16)
        self.open_share = float((self._guide == UNDECIDED).mean())
        return self._guide

    def _resolve(self, word: int, entropy: Entropy) -> int:
        """Compare the lazily revealed U with F(i), F(i+1), … at growing precision."""
        i = bisect_right(self._list, word - 2)
        seen, bits = word, 64
        while self._outcomes is None or i < self._outcomes - 1:
            lo, hi = self._enclose(i, bits)
            if seen + 1 <= lo:
                return i
            if seen >= hi:
                i += 1
            else:
                seen = (seen << 64) | int(entropy.words(1)[0])
                bits += 64
        return i


def ceiling(count: int, share: float) -> int:
    """How many of `count` independent events of probability `share` happen at most, but for a chance below e^−45.

    Bernstein: P(X ≥ μ + t) ≤ exp(−t²/(2μ + 2t/3)), which is e^−45 at t = 15 + √(225 + 90μ).

    >>> ceiling(64, 0.03), ceiling(32768, 0.03), ceiling(5, 1.0), ceiling(0, 0.5)
    (37, 1296, 5, 0)
    """
    mean = count * share
    return min(count, ceil(mean + 15 + sqrt(225 + 90 * mean)))


def pad(positions: NDArray[np.intp], size: int) -> NDArray[np.intp]:
    """The positions, followed by zeros up to this size; all of them if they are more.

    >>> pad(np.array([3, 5]), 4).tolist(), pad(np.array([3, 5]), 1).tolist()
    ([3, 5, 0, 0], [3, 5])
    """
    padded = np.zeros(max(size, positions.size), np.intp)
    padded[: positions.size] = positions
    return padded


def whole_words(short: NDArray[np.uint16], rest: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Words that begin with these 16 bits, and go on with the first 48 of others."""
    return (short.astype(np.uint64) << np.uint64(48)) | (rest >> np.uint64(16))


def _fitting(outcome: int) -> int:
    if outcome >= 2**15 - 1:  # tables list all but 2^−64 of an infinite distribution in far fewer outcomes
        raise InternalError("an outcome left its table; its probability is below e^-1000")
    return outcome


def below(word: int, enclose: Callable[[int], tuple[int, int]], entropy: Entropy) -> bool:
    """Whether a uniform U with first word `word` lies below p, given enclosures of 2^bits·p."""
    seen, bits = word, 64
    while True:
        lo, hi = enclose(bits)
        if seen + 1 <= lo:
            return True
        if seen >= hi:
            return False
        seen = (seen << 64) | int(entropy.words(1)[0])
        bits += 64


_MARGIN = 2.0**-40
_UNIT = 2.0**-53

Enclosure = Callable[[int], tuple[int, int]]
"""bits → integers lo ≤ 2^bits·p ≤ hi."""


def accept(gamma: NDArray[np.float64], exact: Callable[[int], Enclosure], entropy: Entropy) -> NDArray[np.bool_]:
    """True at each position with probability exactly e^(−γ) there. Overwrites `gamma`."""
    words = entropy.words(gamma.size)
    with np.errstate(all="ignore"):  # whatever the caller set: an underflow must not tell of a draw
        np.minimum(gamma, 256, out=gamma)  # subnormals would take longer and tell how far; NaN stays
        np.exp(np.negative(gamma, out=gamma), out=gamma)
    gamma -= (words >> np.uint64(11)) * _UNIT  # p̂ − v
    heads: NDArray[np.bool_] = gamma > 0
    for k in np.flatnonzero(~(np.abs(gamma, out=gamma) >= _MARGIN)):  # NaN is undecided, not tails
        heads[k] = below(int(words[k]), exact(int(k)), entropy)
    return heads


def accept_one(gamma: float, exact: Enclosure, word: int, entropy: Entropy) -> bool:
    """`accept` for a single coin, whose first word is given."""
    gap = exp(-gamma) - (word >> 11) * _UNIT
    return gap > 0 if abs(gap) >= _MARGIN else below(word, exact, entropy)


Interval = tuple[int, int]
Sums = tuple[list[Interval], Interval]
"""Enclosures of the weights summed up to each outcome, and of the sum over all of them, to one precision."""


def cumulative(sums: Callable[[int], Sums]) -> Table:
    """The decision table of an infinite distribution, from sums of its weights to any precision."""

    def enclose(i: int, bits: int) -> Interval:
        parts, total = sums(bits)
        return ratio(parts[i] if i < len(parts) else (parts[-1][0], total[1]), total, bits)

    parts, total = sums(64)
    bounds = [ratio(part, total, 64) for part in parts]
    last = next(i for i, (lo, _) in enumerate(bounds) if lo >= (1 << 64) - 2)
    return Table(bounds[: last + 1], enclose)


def ratio(part: Interval, total: Interval, bits: int) -> Interval:
    """2^bits·part/total, rounded outwards, at most 2^bits.

    >>> ratio((1, 1), (3, 3), 8)
    (85, 86)
    """
    return (part[0] << bits) // total[1], min(-((-part[1] << bits) // total[0]), 1 << bits)


def times(a: Interval, b: Interval, precision: int) -> Interval:
    """The product of two numbers below 2^precision that stand for fractions of it, rounded outwards.

    >>> times((8, 8), (9, 10), 4)
    (4, 5)
    """
    return (a[0] * b[0]) >> precision, -((-a[1] * b[1]) >> precision)
