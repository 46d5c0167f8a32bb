"""Oracles whose report is one code: randomized response of a bit or of k answers (k-RR), Hadamard response.

A report of k-RR is a value of the domain. One of Hadamard response is one of about k codes; half of a block of them
support each value. A collector counts `SELECT report, count(*) … GROUP BY report`; one fast Walsh–Hadamard transform
gives all estimates.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet import mechanisms
from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_down, rational
from discreet.fields import Integer
from discreet.local.estimation.frequencies import ConfidenceBounds, Floats, Frequencies, Support, binomial_bounds
from discreet.local.oracles.oracle import (
    CodeReports,
    Epsilon,
    Integers,
    PureLDP,
    Stated,
    SupportOracle,
    read_epsilon,
    read_tally,
    read_values,
)
from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable
from discreet.noise import Entropy, bernoulli, uniform_below
from discreet.noise.entropy import SYSTEM


class _ValueOracle(CodeReports, SupportOracle):
    """A report supports the one value that it names."""

    @property
    def codes(self) -> int:
        """The values."""
        return self.size

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """(count/n − other)/(truth − other): unbiased, and the shares sum to one."""
        counts, count = read_tally(tally, self.size, reports, total=1)
        return self._frequencies(counts, count)


@dataclass(frozen=True, init=False)
class BinaryResponse(_ValueOracle):
    """One bit by randomized response (Warner 1965); `mechanisms.RandomizedResponse` has its four textbook forms.

    Guarantee: ε-LDP, the mechanism's own.
    Estimates unbias as z = (y − 1/(1+e^ε))·(e^ε+1)/(e^ε−1); variance e^ε/(e^ε−1)² a report, whatever the share.

    >>> from discreet.local.oracles.responses import BinaryResponse
    >>> coin = BinaryResponse.from_mechanism(RandomizedResponse.from_coins(heads="1/2"))
    >>> coin.estimate([4, 6], reports=10).shares.round(6).tolist(), coin.variance()
    ([0.3, 0.7], 0.75)
    """

    response: RandomizedResponse

    def __init__(self, *, epsilon: Number) -> None:
        self.__dict__["response"] = RandomizedResponse.for_epsilon(epsilon=read_epsilon(epsilon))

    @classmethod
    def from_mechanism(cls, response: RandomizedResponse) -> "BinaryResponse":
        """The oracle of a response in any of its forms."""
        if response.keep < Fraction(1, 10**13):
            raise InvalidParameter("truth", float(response.truth), "more than 1/2", "fair coins carry no information")
        oracle = object.__new__(cls)
        oracle.__dict__["response"] = response
        return oracle

    @property
    def epsilon(self) -> Fraction:  # type: ignore[override]
        """What one report costs."""
        return self.response.epsilon

    @property
    def size(self) -> int:  # type: ignore[override]
        """Two: no and yes."""
        return 2

    @property
    def truth(self) -> Fraction:
        """The probability of the true bit."""
        return self.response.truth

    @property
    def other(self) -> Fraction:
        """The probability of the other bit."""
        return 1 - self.response.truth

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One noisy bit, 0 or 1, for each value."""
        return np.asarray(self.response.release(read_values(values, 2), entropy=entropy)).astype(np.int64)

    def channel(self) -> Channel:
        """The 2×2 matrix."""
        return self.response.channel()


@dataclass(frozen=True, kw_only=True)
class KRR(_ValueOracle):
    """k-RR: the true value with probability e^ε/(k−1+e^ε), each other with 1/(k−1+e^ε).

    Kairouz, Bonawitz, Ramage 2016. The best oracle while k < 3e^ε + 2 (Wang et al. 2017), poor for large k: variance
    (k−2+e^ε)/(e^ε−1)² a report.
    Guarantee: ε-LDP, that of `mechanisms.KRR`.

    >>> from discreet.local.oracles.responses import KRR
    >>> oracle = KRR(epsilon=1, size=100)
    >>> oracle.tally(oracle.randomize([3, 4, 5])).sum(), round(oracle.variance(), 1)
    (np.int64(3), 34.1)
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=2**31)

    @property
    def response(self) -> mechanisms.KRR:
        """The mechanism that makes the reports."""
        return mechanisms.KRR(epsilon=self.epsilon, size=self.size)

    @property
    def truth(self) -> Fraction:
        """The probability of the true value."""
        return self.response.truth

    @property
    def other(self) -> Fraction:
        """The probability of each other value."""
        return self.response.other

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One noisy value for each value."""
        return np.asarray(self.response.release(read_values(values, self.size), entropy=entropy), np.int64)

    def channel(self) -> Channel:
        """The k×k matrix."""
        return self.response.channel()


_MOST_SIZE = (1 << 24) - 1


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(CodeReports, PureLDP):
    """The value is a row of a Hadamard matrix of one of several blocks; codes where it is +1 are e^ε times likelier.

    Acharya, Sun, Zhang 2019. There are B blocks of b codes, b a power of two; a block serves b − 1 values, each a row
    other than the first (all ones) of the b×b Sylvester matrix. A report is a code where the value's row is +1 with
    probability e^ε/(e^ε + 2B − 1), else any other code. B is the power of two with the least variance,
    (2B − 1 + e^ε)²/(B·(e^ε−1)²) a report (values spread evenly over the blocks): one block up to ε = 1.34, which is
    the one bit of Hadamard with variance ((e^ε+1)/(e^ε−1))², about (e^ε−1)/2 blocks beyond.

    Guarantee: ε-LDP.
    Proof. Every value has b/2 codes of one probability and K − b/2 of another; their ratio is
    (truth/(b/2))/((1 − truth)/(K − b/2)) = truth·(2B − 1)/(1 − truth), which is e^ε with e^ε rounded down.

    >>> from discreet.local.oracles.responses import HadamardResponse
    >>> oracle = HadamardResponse(epsilon=1, size=100)
    >>> oracle.blocks, oracle.block, round(oracle.variance(), 2)
    (1, 128, 4.68)
    """

    epsilon: Epsilon = Epsilon()
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)
    blocks: Stated = Stated(at_least=1)  # a power of two

    def __post_init__(self) -> None:
        if not self.blocks:
            object.__setattr__(self, "blocks", self._best_blocks())
        if self.blocks > self.size or self.blocks & (self.blocks - 1):
            raise InvalidParameter("blocks", self.blocks, f"a power of two up to size = {self.size}")

    def _best_blocks(self) -> int:
        growth = exp_down(self.epsilon)
        choices = [1 << e for e in range(self.size.bit_length()) if 1 << e <= self.size]
        return min(choices, key=lambda blocks: (2 * blocks - 1 + growth) ** 2 / blocks)

    @property
    def block(self) -> int:
        """b: how many codes a block has, a power of two above the number of values that it serves."""
        return 1 << (-(-self.size // self.blocks)).bit_length()

    @property
    def codes(self) -> int:
        """K: how many codes there are."""
        return self.blocks * self.block

    @property
    def truth(self) -> Fraction:
        """The probability that a report supports the true value."""
        growth = exp_down(self.epsilon)
        return growth / (growth + 2 * self.blocks - 1)

    @property
    def _step(self) -> Fraction:
        """A share is the mean of this for a supporting code, of minus this for another of the block, else of 0."""
        unlike = (1 - self.truth) / (2 * self.blocks - 1)  # of each half block that is not the value's
        return 1 / (self.truth - unlike)

    @property
    def influence(self) -> float:
        """What one report can move an estimated share, times the number of reports: twice the step."""
        return float(2 * self._step)

    def variance(self, share: float = 0.0) -> float:
        """The variance of one estimated share, times the number of reports; others spread evenly over the blocks."""
        own = float(rational(share, "share", at_least=0, at_most=1))
        half = float((1 - self.truth) / (2 * self.blocks - 1))
        same = float(self.truth) + half  # P(block) for the block's own values; 2·half for others
        hit = own * same + (1 - own) * (same + 2 * half * (self.blocks - 1)) / self.blocks
        return float(self._step) ** 2 * hit - own

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One code for each value.

        Proof. A uniform column whose sign is wrong is repaired by a flip of the row's lowest bit, which pairs columns
        of opposite signs: so it is uniform over those of the right sign. Of the 2B − 1 half blocks that are not the
        value's, one is its own block's −1 half; the others are whole blocks, two halves each.
        """
        true, source = read_values(values, self.size), SYSTEM if entropy is None else entropy
        block, row = self._block_and_row(true)
        column = np.asarray(uniform_below(self.block, true.size, entropy=source))
        away = ~np.asarray(bernoulli(self.truth, true.size, entropy=source))
        wrong = ((np.bitwise_count(row & column) & 1) != 0) != away
        if self.blocks > 1:
            half = np.asarray(uniform_below(2 * self.blocks - 1, true.size, entropy=source))
            elsewhere = away & (half > 0)
            block = np.where(elsewhere, (block + (half + 1) // 2) % self.blocks, block)
            wrong &= ~elsewhere
        return np.asarray(block * self.block + (column ^ np.where(wrong, row & -row, 0)), np.int64)

    def _block_and_row(self, values: Integers) -> tuple[Integers, Integers]:
        """The block and the row of each value: neighbors go to different blocks, so that blocks fill evenly."""
        return values % self.blocks, values // self.blocks + 1

    def estimate(self, tally: ArrayLike, *, reports: int) -> Frequencies:
        """step·(supporting − other codes of the block)/n: unbiased.

        Proof. Rows of the matrix are orthogonal to one another and to the first: a report of another value of the block
        has as many codes of either sign in each half, one of another block is uniform over the block; both give 0 in
        expectation, the value itself step·(truth − unlike) = 1.
        """
        counts, count = read_tally(tally, self.codes, reports, total=1)
        balance = walsh_hadamard(counts.reshape(self.blocks, self.block))
        block, row = self._block_and_row(np.arange(self.size))
        signed, hits = balance[block, row], balance[block, 0]
        if self.blocks == 1:
            return Support((count + signed) // 2, count, self.truth, Fraction(1, 2)).frequencies()
        step = float(self._step)
        shares = step * signed / count
        spread = np.maximum(step**2 * hits / count - np.clip(shares, 0, 1), 0) / count
        return Frequencies(shares, spread, count, _Signed(shares, hits, count, step))

    def channel(self) -> Channel:
        """p(code | value)."""
        countable(self.size * self.codes, "channel", most=1_000_000)
        likely, unlikely = self.truth * 2 / self.block, (1 - self.truth) / (self.codes - self.block // 2)
        block, row = self._block_and_row(np.arange(self.size)[:, None])
        code = np.arange(self.codes)
        supports = (code // self.block == block) & ((np.bitwise_count(row & code % self.block) & 1) == 0)
        rows = [[likely if yes else unlikely for yes in line] for line in supports.tolist()]
        return Channel(rows, inputs=range(self.size), outputs=range(self.codes))


@dataclass(frozen=True, slots=True, eq=False)
class _Signed:
    """Shares that are means of ±step over the reports of a block, and 0 for reports outside."""

    shares: Floats
    hits: Integers
    reports: int
    step: float

    def confidence_bounds(self, tail: float) -> ConfidenceBounds:
        """Bernstein's, with the variance bounded by the reports of the block: a tenth of the tail is spent on that.

        Proof. The terms are independent and within R = step + 1 of their expectation, which is 1 for those who hold the
        value and else 0: their mean variance is S − share, S = step²·(mean probability of the block), which
        `binomial_bounds` bounds. With L = ln(2/tail), a = 2L/n and b = R·L/3n Bernstein says that d = |estimate −
        share| has (d − b)² ≤ a·(S − share) + b²; with share = estimate ∓ d that is quadratic in d.
        """
        _, most = binomial_bounds(self.hits, self.reports, tail / 10)
        log = np.log(2 / (0.9 * tail))
        a, b = 2 * log / self.reports, (self.step + 1) * log / (3 * self.reports)
        rest = 4 * a * (self.step**2 * most - self.shares)
        below, above = (half + np.sqrt(np.maximum(half**2 + rest / 4, 0)) for half in (b + a / 2, b - a / 2))
        return self.shares - below, self.shares + np.maximum(above, 0)


@dataclass(frozen=True, slots=True)
class HadamardModel:
    """The channel of Hadamard response as a linear map, by the fast transform, for any number of values.

    With b the probability of a code that does not support x: C[x, code] = b + (a − b)·1[the code supports x], and
    1[…] = (1 + (−1)^popcount(row & column))/2 within the block of x.

    >>> model = HadamardModel(HadamardResponse(epsilon=1, size=5000))
    >>> model.outputs, float(model.forward(np.full(5000, 1 / 5000)).sum().round(9))
    (8192, 1.0)
    """

    oracle: HadamardResponse

    @property
    def size(self) -> int:
        """The number of values."""
        return self.oracle.size

    @property
    def outputs(self) -> int:
        """The number of codes."""
        return self.oracle.codes

    @property
    def rounding(self) -> float:
        """0: every probability is far above what sums of floats lose."""
        return 0.0

    def forward(self, p: ArrayLike) -> Floats:
        """q = b·Σp + (a − b)·(Σ over the block + transform)/2."""
        shares = np.asarray(p, np.float64)
        block, row = self.oracle._block_and_row(np.arange(self.size))
        table = np.zeros((*shares.shape[:-1], self.oracle.blocks, self.oracle.block))
        table[..., block, row] = shares
        seen = self._supported(table).reshape(*shares.shape[:-1], self.outputs)
        low, gain = self._chances
        return np.asarray(low * shares.sum(axis=-1, keepdims=True) + gain * seen)

    def backward(self, r: ArrayLike) -> Floats:
        """The transpose: the matrix of the transform is symmetric."""
        weights = np.asarray(r, np.float64)
        block, row = self.oracle._block_and_row(np.arange(self.size))
        table = weights.reshape(*weights.shape[:-1], self.oracle.blocks, self.oracle.block)
        low, gain = self._chances
        return np.asarray(low * weights.sum(axis=-1, keepdims=True) + gain * self._supported(table)[..., block, row])

    @property
    def _chances(self) -> tuple[float, float]:
        low = (1 - self.oracle.truth) / (self.oracle.codes - self.oracle.block // 2)
        return float(low), float(self.oracle.truth * 2 / self.oracle.block - low)

    @staticmethod
    def _supported(table: Floats) -> Floats:
        """For each row of a block, the sum over the columns that have an even number of bits in common with it."""
        flat = table.reshape(-1, table.shape[-1])
        return np.asarray((flat.sum(axis=1, keepdims=True) + walsh_hadamard(flat)) / 2).reshape(table.shape)


def walsh_hadamard(table: NDArray[Any]) -> NDArray[Any]:
    """Σ_j (−1)^popcount(i & j)·row[j] for every i and row of a table, its length a power of two; exact for integers.

    >>> walsh_hadamard(np.array([[1, 2, 0, 4]])).tolist()
    [[7, -5, -1, 3]]
    """
    rows, length = table.shape
    out = table
    span = 1
    while span < length:
        pairs = out.reshape(rows, -1, 2, span)
        out = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        span *= 2
    return out.reshape(rows, length)
