"""Uniform whole numbers and coins, exactly."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, integer, rational
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.sampler import Integers, Size, sample, shape, sixteen_bits
from discreet.noise.table import Table, below, ceiling, pad, whole_words

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
