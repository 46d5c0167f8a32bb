"""Unary encodings: a report is a bit for each value of the domain, each bit randomized on its own.

A report is a row of ⌈k/64⌉ int64 words; value v is bit v mod 64 of word v div 64, and bits beyond the domain are zero.
Packed bits are the smallest regular form: a list of the values that are set would hold k/(e^ε+1) of them, more than
k/64 words while ε < 4.1, and rows of different lengths. For large ε and k `OptimizedHashing` and
`HadamardResponse` are as accurate or nearly, with a few bytes a report.

A collector needs one sum for each value: `SELECT sum(word0 & 1), sum((word0 >> 1) & 1), …`.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb, isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import exp_down
from discreet.fields import Integer
from discreet.local.estimation.frequencies import Frequencies
from discreet.local.oracles.oracle import (
    Epsilon,
    Integers,
    SupportOracle,
    as_rows,
    read_tally,
    read_values,
    well_formed_rows,
)
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable
from discreet.noise import Entropy, bernoulli, uniform_below
from discreet.noise.entropy import SYSTEM
from discreet.noise.uniform import Words, last_mask, random_bits

_MOST_SIZE = 1 << 24
_TILE = 1 << 13  # words that are counted together
_BLOCK = 1 << 21  # words at a time


class _SetReports(SupportOracle):
    """A report is a set of values as packed bits, and supports those."""

    @property
    def report_width(self) -> int:
        """⌈size/64⌉ words."""
        return -(-self.size // 64)

    @property
    def tally_size(self) -> int:
        """A number for each value."""
        return self.size


class _UnaryOracle(_SetReports):
    """Each bit is randomized on its own."""

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """A row of packed bits for each value: set with probability `truth` at the value, with `other` elsewhere."""
        true = read_values(values, self.size)
        source = SYSTEM if entropy is None else entropy
        bits = random_bits(self.other, true.size, self.size, entropy=source)
        set_bits(bits, true, np.asarray(bernoulli(self.truth, true.shape, entropy=source)))
        return bits.view(np.int64)

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows have the right number of words and no bit beyond the domain."""
        return valid_bits(reports, self.size)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports have each value's bit set."""
        return tally_bits(reports, self.size)

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """(count/n − other)/(truth − other): unbiased."""
        counts, count = read_tally(tally, self.size, reports)
        return self._frequencies(counts, count)

    def channel(self) -> Channel:
        """p(bits | value) for up to 12 values; outputs are the words."""
        if self.size > 12:
            raise InvalidParameter("size", self.size, "at most 12 for a channel of 2^size outputs")
        patterns = [bits[::-1] for bits in product((0, 1), repeat=self.size)]  # pattern number n has the bits of n
        chance = {True: self.truth, False: self.other}

        def probability(value: int, bits: tuple[int, ...]) -> Fraction:
            total = Fraction(1)
            for index, bit in enumerate(bits):
                total *= chance[index == value] if bit else 1 - chance[index == value]
            return total

        rows = [[probability(value, bits) for bits in patterns] for value in range(self.size)]
        return Channel(rows, inputs=range(self.size), outputs=range(len(patterns)))


@dataclass(frozen=True, kw_only=True)
class SymmetricUnary(_UnaryOracle):
    """SUE, the encoding of RAPPOR: each bit is told truthfully with probability e^(ε/2)/(1 + e^(ε/2)).

    Erlingsson, Pihur, Korolova 2014; Wang, Blocki, Li, Jha 2017. Variance e^(ε/2)/(e^(ε/2)−1)² a report.

    Guarantee: ε-LDP.
    Proof. Two values differ in two bits of the encoding, each of which has likelihood ratio at most
    truth/(1 − truth) ≤ e^(ε/2), because e^(ε/2) was rounded down.

    >>> from discreet.local.oracles.sets import SymmetricUnary
    >>> round(SymmetricUnary(epsilon=1, size=100).variance(), 2)
    3.92
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    @property
    def truth(self) -> Fraction:
        """The probability that the value's own bit is set."""
        growth = exp_down(self.epsilon / 2)
        return growth / (1 + growth)

    @property
    def other(self) -> Fraction:
        """The probability that another bit is set."""
        return 1 - self.truth


@dataclass(frozen=True, kw_only=True)
class OptimizedUnary(_UnaryOracle):
    """OUE: the value's own bit is a fair coin, the others are set with probability 1/(1 + e^ε).

    Wang, Blocki, Li, Jha 2017: the two probabilities with the least variance for rare values, which is
    4e^ε/(e^ε−1)² a report.

    Guarantee: ε-LDP.
    Proof. Two values differ in two bits; their likelihood ratio is at most truth·(1 − other)/((1 − truth)·other) =
    (1 − other)/other ≤ e^ε, because e^ε was rounded down.

    >>> from discreet.local.oracles.sets import OptimizedUnary
    >>> oracle = OptimizedUnary(epsilon=1, size=100)
    >>> oracle.randomize([5, 99]).shape, round(oracle.variance(), 2)
    ((2, 2), 3.68)
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    @property
    def truth(self) -> Fraction:
        """The probability that the value's own bit is set: one half."""
        return Fraction(1, 2)

    @property
    def other(self) -> Fraction:
        """The probability that another bit is set."""
        return 1 / (1 + exp_down(self.epsilon))


# Rows of packed bits


def set_bits(bits: Words, indices: Integers, on: NDArray[np.bool_]) -> None:
    """Set bit indices[i] of row i to on[i]."""
    row = np.arange(indices.size)
    word, mask = indices >> 6, np.uint64(1) << (indices & 63).astype(np.uint64)
    others = bits[row, word] & ~mask
    bits[row, word] = np.where(on, others | mask, others)


def valid_bits(reports: ArrayLike, size: int) -> NDArray[np.bool_]:
    """Which rows are ⌈size/64⌉ words without a bit beyond `size`."""
    rows = as_rows(reports)
    fine = well_formed_rows(rows, -(-size // 64))
    if not fine.any():
        return fine
    if rows.dtype.kind != "O":
        last = rows[:, -1]
    else:
        last = np.array([row[-1] if ok else 0 for row, ok in zip(rows, fine, strict=True)], np.int64)
    return np.asarray(fine & ((last.astype(np.uint64) & ~last_mask(size)) == 0))


def tally_bits(reports: ArrayLike, size: int) -> Integers:
    """How many rows have each of the first `size` bits set; none may have another."""
    rows, width = as_rows(reports), -(-size // 64)
    problem = InvalidData(f"reports: expected rows of {width} int64 words; drop the malformed ones first (`sift`)")
    if not well_formed_rows(rows, width).all():
        raise problem
    words = np.array(rows.tolist(), np.int64) if rows.dtype == object else rows.astype(np.int64, copy=False)
    counts = count_bits(words.reshape(-1, width))
    if counts[size:].any():
        raise problem
    return counts[:size]


def count_bits(rows: Integers) -> Integers:
    """How many rows have each bit set: the sums of the columns, 64 columns at a time.

    A full adder on whole words turns three words of one weight into one of that weight and one of twice the weight, so
    many rows shrink to a few of each weight (carry-save addition, as in the population count of Harley and Seal), and
    only those are unpacked. Rows are added in tiles that stay in the processor's cache.
    """
    words = np.ascontiguousarray(rows).view(np.uint64)
    width = words.shape[1]
    height = max(1, _TILE // width)
    pairs = len(words) // (2 * height)
    tiles = words[: 2 * pairs * height].reshape(2 * pairs, height * width)
    totals = np.zeros(64 * width, np.int64)
    for weight, tile in [(1, words[2 * pairs * height :]), *_carry_save(tiles)]:
        bits = np.unpackbits(tile.reshape(-1, width).view(np.uint8), axis=1, bitorder="little")
        totals += weight * bits.sum(axis=0, dtype=np.int64)
    return totals


def _carry_save(tiles: Words) -> list[tuple[int, Words]]:
    """An even number of tiles, added bit by bit: a few tiles with weights that have the same sum.

    Level j holds a sum of weight 2^j. Two tiles of that weight go into it and make a carry of weight 2^(j+1); every
    second carry goes up with the one that waited for it.
    """
    pairs, length = len(tiles) // 2, tiles.shape[1]
    levels = pairs.bit_length()
    sums = [np.zeros(length, np.uint64) for _ in range(levels)]
    carries = [(np.empty(length, np.uint64), np.empty(length, np.uint64)) for _ in range(levels)]
    half, both = np.empty(length, np.uint64), np.empty(length, np.uint64)
    for pair in range(pairs):
        a, b = tiles[2 * pair], tiles[2 * pair + 1]
        for level in range(levels):
            second = pair >> level & 1
            total, carry = sums[level], carries[level][second]
            np.bitwise_xor(a, b, half)
            np.bitwise_and(a, b, carry)
            np.bitwise_and(half, total, both)
            np.bitwise_or(carry, both, carry)
            np.bitwise_xor(total, half, total)
            if not second:
                break
            a, b = carries[level]
    waiting = [(2 << level, carries[level][0]) for level in range(levels) if pairs >> level & 1]
    return [(1 << level, total) for level, total in enumerate(sums)] + waiting


@dataclass(frozen=True, kw_only=True)
class SubsetSelection(_SetReports):
    """A set of `chosen` values: with probability `truth` a uniform one with the true value, else one without it.

    Wang, Huang, Wang, Nie, Xu, Yang, Hadjicostas 2016; Ye, Barg 2018: truth = w·e^ε/(w·e^ε + k − w), w either of
    the whole numbers beside k/(e^ε+1), whichever has less variance. For w = 1 it is k-ary randomized response.

    Guarantee: ε-LDP.
    Proof. A set with the value has probability truth/C(k−1, w−1), one without it (1 − truth)/C(k−1, w); the ratio is
    truth/(1 − truth)·(k − w)/w, a rising function of truth, which is e^ε with e^ε rounded down.

    >>> from discreet.local.oracles.sets import SubsetSelection
    >>> oracle = SubsetSelection(epsilon=1, size=100)
    >>> oracle.chosen, oracle.randomize([5]).shape, round(oracle.variance(), 2)
    (27, (1, 2), 3.59)
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    @property
    def chosen(self) -> int:
        """How many values a report names."""
        near = int(self.size / (exp_down(self.epsilon) + 1))
        return min(max(near, 1), near + 1, key=self._variance)

    @property
    def truth(self) -> Fraction:
        """The probability that the set holds the true value."""
        return self._probabilities(self.chosen)[0]

    @property
    def other(self) -> Fraction:
        """The probability that the set holds any given other value."""
        return self._probabilities(self.chosen)[1]

    def _probabilities(self, chosen: int) -> tuple[Fraction, Fraction]:
        growth = exp_down(self.epsilon)
        truth = chosen * growth / (chosen * growth + self.size - chosen)
        return truth, (chosen - truth) / (self.size - 1)

    def _variance(self, chosen: int) -> Fraction:
        truth, other = self._probabilities(chosen)
        return other * (1 - other) / (truth - other) ** 2

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """A row of packed bits with `chosen` of them set, for each value.

        Proof. The value's own bit is a coin. The others start as independent coins, so that, however many are set, each
        set of that many is as likely as any other; setting or clearing uniformly chosen ones until the number is
        right keeps that, and so does starting anew from none because of the number alone. About √w bits are
        changed, where drawing the set one by one would take w steps.
        """
        true, source = read_values(values, self.size), SYSTEM if entropy is None else entropy
        likely = self.chosen - 2 * isqrt(self.chosen) if self._sparse else self.chosen  # few rows may have too many
        bits = random_bits(Fraction(max(likely, 0), self.size), true.size, self.size, entropy=source)
        set_bits(bits, true, np.asarray(bernoulli(self.truth, true.shape, entropy=source)))
        step = max(1, _BLOCK // bits.shape[1])
        for start in range(0, true.size, step):
            self._level(bits[start : start + step], true[start : start + step], source)
        return bits.view(np.int64)

    @property
    def _sparse(self) -> bool:
        """Whether set bits are too few to be found by looking at random bits."""
        return 16 * self.chosen < self.size

    def _level(self, bits: Words, true: Integers, entropy: Entropy) -> None:
        """Set or clear uniformly chosen bits, never the value's own, until `chosen` are set in every row."""
        excess = np.bitwise_count(bits).sum(axis=1, dtype=np.int64) - self.chosen
        if self._sparse:
            full = np.flatnonzero(excess > 0)
            own = bits[full, true[full] >> 6] & (np.uint64(1) << (true[full] & 63).astype(np.uint64))
            bits[full] = 0
            bits[full, true[full] >> 6] = own
            excess[full] = (own != 0) - self.chosen
        rows = np.flatnonzero(excess)
        while rows.size:
            index = np.asarray(uniform_below(self.size - 1, rows.size, entropy=entropy))
            index += index >= true[rows]
            word, mask = index >> 6, np.uint64(1) << (index & 63).astype(np.uint64)
            change = ((bits[rows, word] & mask) != 0) == (excess[rows] > 0)
            bits[rows[change], word[change]] ^= mask[change]
            excess[rows[change]] -= np.sign(excess[rows[change]])
            rows = rows[excess[rows] != 0]

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which rows have the right number of words and exactly `chosen` bits, all within the domain."""
        rows = as_rows(reports)
        fine = valid_bits(rows, self.size)
        if fine.any():
            kept = np.array(rows[fine].tolist(), np.int64) if rows.dtype.kind == "O" else rows[fine]
            fine[fine] = np.bitwise_count(kept.astype(np.uint64)).sum(axis=1, dtype=np.int64) == self.chosen
        return fine

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports name each value."""
        rows = as_rows(reports)
        counts = tally_bits(rows, self.size)
        if counts.sum() != len(rows) * self.chosen:
            raise InvalidData(f"reports: expected sets of {self.chosen} values; drop the malformed ones first (`sift`)")
        return counts

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """(count/n − other)/(truth − other): unbiased, and the shares sum to one."""
        counts, count = read_tally(tally, self.size, reports, total=self.chosen)
        return self._frequencies(counts, count)

    def channel(self) -> Channel:
        """p(set | value); outputs are the sets as tuples of values."""
        countable(self.size * comb(self.size, self.chosen), "channel", most=200_000)
        sets = list(combinations(range(self.size), self.chosen))
        within = self.truth / comb(self.size - 1, self.chosen - 1)
        without = (1 - self.truth) / comb(self.size - 1, self.chosen)
        rows = [[within if value in chosen else without for chosen in sets] for value in range(self.size)]
        return Channel(rows, inputs=range(self.size), outputs=sets)
