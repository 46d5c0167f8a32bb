"""Rows of packed coins: many bits of one probability, 64 in a word, exactly."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.noise.entropy import SYSTEM, Entropy

Words = NDArray[np.uint64]

_MOST_WORDS = 1 << 30  # 8 GiB in one call
_BLOCK = 1 << 15  # words at a time: they stay in the processor's cache
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
        for start in range(0, bits.size, _BLOCK):
            _compare(exact, bits[start : start + _BLOCK], SYSTEM if entropy is None else entropy)
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
