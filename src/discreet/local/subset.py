"""Subset selection: a report is a set of values of fixed size, which holds the true value more often than others.

A report is the set as packed bits, ⌈k/64⌉ int64 words as in `unary`: at the best size k/(e^ε+1) a list of the values
would be longer while ε < 4.1. A collector needs one sum for each value:
`SELECT sum(word0 & 1), sum((word0 >> 1) & 1), …`.
"""

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, exp_down, integer
from discreet.local.frequencies import Frequencies
from discreet.local.oracle import Integers, SupportOracle, as_rows, read_epsilon, read_tally, read_values
from discreet.local.unary import set_bits, tally_bits, valid_bits
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable
from discreet.noise import Entropy, bernoulli, uniform_below
from discreet.noise.bits import Words, random_bits
from discreet.noise.entropy import SYSTEM

_MOST_SIZE = 1 << 24
_BLOCK = 1 << 21  # words at a time


@dataclass(frozen=True, slots=True)
class SubsetSelection(SupportOracle):
    """A set of `chosen` values: with probability `truth` a uniform one with the true value, else one without it.

    Wang, Huang, Wang, Nie, Xu, Yang, Hadjicostas 2016; Ye, Barg 2018: truth = w·e^ε/(w·e^ε + k − w), w either of
    the whole numbers beside k/(e^ε+1), whichever has less variance. For w = 1 it is k-ary randomized response.

    Guarantee: ε-LDP.
    Proof. A set with the value has probability truth/C(k−1, w−1), one without it (1 − truth)/C(k−1, w); the ratio is
    truth/(1 − truth)·(k − w)/w, a rising function of truth, which is e^ε with e^ε rounded down.

    >>> from discreet.local.subset import SubsetSelection
    >>> oracle = SubsetSelection(epsilon=1, size=100)
    >>> oracle.chosen, oracle.randomize([5]).shape, round(oracle.variance(), 2)
    (27, (1, 2), 3.59)
    """

    epsilon: Fraction
    size: int

    def __init__(self, *, epsilon: Number, size: int) -> None:
        object.__setattr__(self, "epsilon", read_epsilon(epsilon))
        object.__setattr__(self, "size", integer(size, "size", at_least=2, at_most=_MOST_SIZE))

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
        told, source = read_values(values, self.size), SYSTEM if entropy is None else entropy
        likely = self.chosen - 2 * isqrt(self.chosen) if self._sparse else self.chosen  # few rows may have too many
        bits = random_bits(Fraction(max(likely, 0), self.size), told.size, self.size, entropy=source)
        set_bits(bits, told, np.asarray(bernoulli(self.truth, told.shape, entropy=source)))
        step = max(1, _BLOCK // bits.shape[1])
        for start in range(0, told.size, step):
            self._level(bits[start : start + step], told[start : start + step], source)
        return bits.view(np.int64)

    @property
    def _sparse(self) -> bool:
        """Whether set bits are too few to be found by looking at random places."""
        return 16 * self.chosen < self.size

    def _level(self, bits: Words, told: Integers, entropy: Entropy) -> None:
        """Set or clear uniformly chosen bits, never the value's own, until `chosen` are set in every row."""
        excess = np.bitwise_count(bits).sum(axis=1, dtype=np.int64) - self.chosen
        if self._sparse:
            full = np.flatnonzero(excess > 0)
            own = bits[full, told[full] >> 6] & (np.uint64(1) << (told[full] & 63).astype(np.uint64))
            bits[full] = 0
            bits[full, told[full] >> 6] = own
            excess[full] = (own != 0) - self.chosen
        rows = np.flatnonzero(excess)
        while rows.size:
            place = np.asarray(uniform_below(self.size - 1, rows.size, entropy=entropy))
            place += place >= told[rows]
            word, mask = place >> 6, np.uint64(1) << (place & 63).astype(np.uint64)
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
