"""Uniform whole numbers and coins, exactly: one by one, as Poisson samples, or packed 64 in a word.

A Poisson sample says which of many coins land heads, without throwing each. Independent coins of probability p are
thrown in their order. Let G be how many land tails before one lands heads: P(G ≥ k) = (1 − p)^k, and what comes after a
head does not depend on what came before. So with independent gaps G₁, G₂, … the heads are at G₁, G₁ + 1 + G₂, …:
exactly, because the gaps are drawn exactly (`table.Table`, from enclosures of (1 − p)^k). Heads at or beyond the last
coin are not looked at. The table ends at K: its last outcome says that K coins landed tails, with probability (1 −
p)^K, and those after them are thrown anew.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, integer, rational
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.sampler import (
    Integers,
    Size,
    Table,
    below,
    ceiling,
    pad,
    sample,
    shape,
    sixteen_bits,
    times,
    whole_words,
)

_WORD = 1 << 64
_BLOCK = 1 << 17  # coins at a time


def uniform_below(
    bound: int, size: Size = None, *, entropy: Entropy | None = None
) -> int | Integers | NDArray[np.object_]:
    """Uniform whole numbers in {0, …, bound − 1}; arrays hold Python integers where 64 bits do not suffice.

    Proof. A word w < ⌊2^64/n⌋·n is uniform over whole copies of {0 … n−1}, so w mod n is uniform; the rest
    (fewer than n words of 2^64) is drawn again. Larger bounds draw as many bits as n − 1 has and start again
    while the result is not below n.

    >>> 0 <= uniform_below(6) < 6
    True
    """
    exact = integer(bound, "bound", at_least=1)
    source = SYSTEM if entropy is None else entropy
    if exact <= 1 << 63:
        return sample(_Below(exact), size, source)
    if size is None:
        return _large(exact, source)
    out = np.empty(shape(size), object)
    for position in np.ndindex(out.shape):
        out[position] = _large(exact, source)
    return out


def uniform_each(bounds: NDArray[np.int64], *, entropy: Entropy | None = None) -> NDArray[np.int64]:
    """A uniform whole number below each of the bounds, which are from 1 to 2^62.

    Proof. As for `uniform_below`: a word below ⌊2^64/n⌋·n is uniform modulo n, and others are drawn again.

    >>> uniform_each(np.array([1, 1, 1])).tolist()
    [0, 0, 0]
    """
    limits = np.asarray(bounds)
    if limits.dtype.kind not in "iu" or (limits.size and not 1 <= limits.min() <= limits.max() <= 1 << 62):
        raise InvalidParameter("bounds", limits.dtype, "whole numbers from 1 to 2^62")
    source = SYSTEM if entropy is None else entropy
    each = limits.astype(np.uint64).ravel()
    rest = (np.uint64(_WORD - 1) % each + np.uint64(1)) % each  # 2^64 mod n
    most = np.uint64(_WORD - 1) - rest
    words = source.words(each.size).copy()
    while (again := np.flatnonzero(words > most)).size:
        words[again] = source.words(again.size)
    return (words % each).astype(np.int64).reshape(limits.shape)


def bernoulli(p: Number, size: Size = None, *, entropy: Entropy | None = None) -> bool | NDArray[np.bool_]:
    """Coins that are True with probability exactly p, a rational and a public setting (its table is kept).

    >>> bernoulli(1), bernoulli(0), bernoulli("1/3", size=4).dtype
    (True, False, dtype('bool'))
    """
    exact = rational(p, "p", at_least=0, at_most=1)
    return _flip(_coin(exact), size, entropy)


def bernoulli_exp(gamma: Number, size: Size = None, *, entropy: Entropy | None = None) -> bool | NDArray[np.bool_]:
    """Coins that are True with probability exactly e^(−gamma), gamma ≥ 0 a rational and a public setting.

    >>> bernoulli_exp(0), bernoulli_exp(10**6)
    (True, False)
    """
    exact = rational(gamma, "gamma", at_least=0)
    return _flip(_exp_coin(exact), size, entropy)


class Coins:
    """Many coins, the i-th with probability numerators[i]/2^bits, thrown by position.

    >>> Coins([0, 1 << 64], 64).flip(np.array([0, 1, 1])).tolist()
    [False, True, True]
    """

    def __init__(self, numerators: Sequence[int], bits: int) -> None:
        self._numerators, self._bits = numerators, bits
        self._thresholds = np.array([min(n >> (bits - 64), _WORD - 1) for n in numerators], np.uint64)

    def __len__(self) -> int:
        return len(self._numerators)

    def probability(self, which: int) -> Fraction:
        """The probability of one coin."""
        return Fraction(self._numerators[which], 1 << self._bits)

    def flip(self, which: Integers, entropy: Entropy | None = None) -> NDArray[np.bool_]:
        """Throw the coin named at each position; a word equal to the threshold is decided by more bits."""
        source = SYSTEM if entropy is None else entropy
        words, thresholds = source.words(which.size), self._thresholds[which]
        heads: NDArray[np.bool_] = words < thresholds
        for k in np.flatnonzero(words == thresholds):
            heads[k] = below(int(words[k]), enclosing(self.probability(int(which[k]))), source)
        return heads


class _Below:
    def __init__(self, bound: int) -> None:
        self._bound = bound
        self._most = _WORD // bound * bound - 1

    def draw(self, entropy: Entropy) -> int:
        while (word := int(entropy.words(1)[0])) > self._most:
            pass
        return word % self._bound

    def fill(self, entropy: Entropy, out: Integers) -> None:
        words = entropy.words(out.size)
        if self._bound & (self._bound - 1) == 0:
            np.copyto(out, words & np.uint64(self._bound - 1), casting="unsafe")
            return
        most = np.uint64(self._most)
        while (again := np.flatnonzero(words > most)).size:
            words[again] = entropy.words(again.size)
        quotient = words // np.uint64(self._bound)  # NumPy divides by a constant quickly, its remainder is slow
        np.copyto(out, words - quotient * np.uint64(self._bound), casting="unsafe")


def _large(bound: int, entropy: Entropy) -> int:
    bits = (bound - 1).bit_length()
    count = -(-bits // 64)
    while True:
        value = int.from_bytes(entropy.words(count).tobytes(), "little") >> (64 * count - bits)
        if value < bound:
            return value


def _flip(coin: Table, size: Size, entropy: Entropy | None) -> bool | NDArray[np.bool_]:
    source = SYSTEM if entropy is None else entropy
    if size is None:
        return coin.pick(int(source.words(1)[0]), source) == 0
    out = np.empty(shape(size), np.bool_)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        _toss(coin, source, flat[start : start + _BLOCK])
    return out


def _toss(coin: Table, entropy: Entropy, out: NDArray[np.bool_]) -> None:
    """Many coins: the first 16 bits of U tell unless they are those of p; then 48 more do, and rarely still more.

    Proof. The only threshold of the table is T, T ≤ 2^64·p ≤ T + 2. A word with top 16 bits below ⌊T/2^48⌋ is below T,
    so U < p; with top 16 bits above ⌊(T + 1)/2^48⌋ it is at least T + 2, so U ≥ p. As in `Table.picks`, as many words
    are looked up as are ever open at once: where p is small, the coins that land heads are among them.
    """
    threshold = int(coin.thresholds[0])
    first, last = threshold >> 48, (threshold + 1) >> 48
    short = sixteen_bits(entropy, out.size)
    np.less(short, first, out=out)
    open_ = np.flatnonzero(short == first if first == last else (short >= first) & (short <= last))
    padded = pad(open_, ceiling(out.size, (last - first + 1) / 2**16))
    outcomes = coin.search(whole_words(short[padded], entropy.words(padded.size)), entropy)
    out[open_] = outcomes[: open_.size] == 0


@lru_cache(maxsize=64)
def _coin(p: Fraction) -> Table:
    enclose = enclosing(p)
    return Table([enclose(64)], lambda _, bits: enclose(bits), outcomes=2)


def enclosing(p: Fraction) -> Callable[[int], tuple[int, int]]:
    """For any number of bits, the whole numbers next to 2^bits·p.

    >>> enclosing(Fraction(1, 3))(8)
    (85, 86)
    """

    def enclose(bits: int) -> tuple[int, int]:
        scaled, rest = divmod(p.numerator << bits, p.denominator)
        return scaled, scaled + bool(rest)

    return enclose


@lru_cache(maxsize=64)
def _exp_coin(gamma: Fraction) -> Table:
    def enclose(_: int, bits: int) -> tuple[int, int]:
        return exp_bounds(-gamma, bits)

    return Table([enclose(0, 64)], enclose, outcomes=2)


_GUARD = 64
_RARE, _OFTEN = Fraction(1, 2000), Fraction(1, 8)  # the table is not too long; coins are not as quick
_ENOUGH = 16  # K is so many times 1/p: it is reached once in ten million draws
_MANY = 1 << 12  # for fewer coins a table is not made
_MOST = 1 << 33


def poisson_sample(p: Number, count: int, *, entropy: Entropy | None = None) -> Integers:
    """The numbers among 0, …, count − 1 that a Poisson sample takes, each with probability exactly p, in their order.

    >>> poisson_sample(1, 3).tolist(), poisson_sample(0, 3).tolist()
    ([0, 1, 2], [])
    """
    exact, size = rational(p, "p", at_least=0, at_most=1), integer(count, "count", at_least=0, at_most=_MOST)
    source = SYSTEM if entropy is None else entropy
    if size < _MANY or not _RARE <= exact <= _OFTEN:
        return np.flatnonzero(bernoulli(exact, size, entropy=source))
    gaps, parts, last = _gaps(exact), [], -1
    most = len(gaps.thresholds)
    while last < size:
        mean = (size - last) * float(exact)
        drawn = gaps.picks(source, int(mean + 4 * math.sqrt(mean)) + 16)  # enough, as a rule
        heads = drawn < most
        ends = last + np.cumsum(drawn + heads, dtype=np.int64)
        last = int(ends[-1])
        parts.append(ends if heads.all() else ends[heads])
    result = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return result[: result.searchsorted(size)]


@lru_cache(maxsize=32)
def _gaps(p: Fraction) -> Table:
    """The decision table of min(G, K): F(i) = P(G ≤ i) = 1 − (1 − p)^(i + 1) for i < K."""
    tails, bits = 1 - p, 64 + _GUARD
    once = enclosing(tails)(bits)
    power = once
    bounds: list[tuple[int, int]] = []
    for _ in range(math.ceil(_ENOUGH / p)):
        bounds.append(((1 << 64) + (-power[1] >> _GUARD), (1 << 64) - (power[0] >> _GUARD)))
        power = times(power, once, bits)

    return Table(bounds, lambda i, precision: enclosing(1 - tails ** (i + 1))(precision), outcomes=len(bounds) + 1)


Words = NDArray[np.uint64]

_MOST_WORDS = 1 << 30  # 8 GiB in one call
_WORDS_AT_ONCE = 1 << 15  # words at a time: they stay in the processor's cache
_ALL = np.uint64(2**64 - 1)


def random_bits(p: Number, rows: int, size: int, *, entropy: Entropy | None = None) -> Words:
    """`rows` × ⌈size/64⌉ words of independent bits, each set with probability exactly p; bits beyond `size` are zero.

    Proof. Each bit compares a uniform real U in [0, 1), revealed one binary digit at a time, with p = 0.d₁d₂d₃…: the
    first digit in which they differ decides, and U < p where U's is 0. All 64 bits of a word look at the same digit of
    p and at their own digit of U, one bit of a random word. A word is finished when all of its bits are decided,
    after about 8 digits; p is rational, so any digit can be had exactly. If p ends, what is still open is U ≥ p.

    >>> random_bits("1/3", rows=2, size=100).shape, random_bits(1, rows=1, size=3).tolist()
    ((2, 2), [[7]])
    """
    exact = rational(p, "p", at_least=0, at_most=1)
    count, width = integer(rows, "rows", at_least=0), -(-integer(size, "size", at_least=1) // 64)
    if count * width > _MOST_WORDS:
        raise InvalidParameter("rows", f"{count} of {width} words", "at most 2^30 words in one call", "draw in parts")
    bits = np.full(count * width, _ALL if exact == 1 else 0, np.uint64)
    if 0 < exact < 1:
        for start in range(0, bits.size, _WORDS_AT_ONCE):
            _compare(exact, bits[start : start + _WORDS_AT_ONCE], SYSTEM if entropy is None else entropy)
    table = bits.reshape(count, width)
    table[:, -1] &= last_mask(size)
    return table


def last_mask(size: int) -> np.uint64:
    """The bits of the last word that belong to a row of `size` bits.

    >>> int(last_mask(66)), int(last_mask(64)) == 2**64 - 1
    (3, True)
    """
    return _ALL if size % 64 == 0 else np.uint64((1 << size % 64) - 1)


def _compare(p: Fraction, out: Words, entropy: Entropy) -> None:
    """U < p for each bit of `out`, whole words at a time; words that are finished are set aside now and then."""
    out[:] = 0
    below, undecided, unfinished = out, np.full(out.size, _ALL), np.arange(out.size)
    rest, digit = p, 0
    while unfinished.size and rest:
        digit += 1
        one, rest = divmod(2 * rest, 1)
        random = entropy.words(undecided.size)
        if one:
            np.invert(random, out=random)
        random &= undecided  # where the digits differ: U has 0 and p has 1, or the other way round
        undecided ^= random
        if one:
            below |= random
        if digit >= 8 and digit % 3 == 2:
            out[unfinished] = below
            left = np.flatnonzero(undecided)
            below, undecided, unfinished = below[left], undecided[left], unfinished[left]
    out[unfinished] = below
