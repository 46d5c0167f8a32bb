"""Mechanisms whose answer is one of a few: randomized response, binary and k-ary."""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, exp_down, exp_up, float_up, integer, log_up, plain, rational
from discreet.fields import Converted, DisplayMixin, Integer, Rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable, failure_probability, regular
from discreet.noise import Entropy, bernoulli, uniform_below
from discreet.privacy.loss import Loss, Pure

_MOST_EPSILON = 1000  # beyond, an answer is a plain answer


def _number_or_none(value: Number | None, name: str) -> Any:
    return None if value is None else rational(value, name, at_least=0)


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse(DisplayMixin):
    """One bit, told truthfully with probability `truth`, otherwise flipped (Warner 1965).

    Four ways to write the same mechanism, converted into one another exactly:

    - `for_epsilon(epsilon=ε)`: truth e^ε/(1 + e^ε), rounded down to a rational, towards privacy;
    - `from_coins(heads=p)`: with probability p the truth, else a second, fair coin; p = 1/2 gives 3/4–1/4 and ε = ln 3;
    - `from_keep(keep=α)`: keep with probability α, else a uniform answer: ε = ln((1+α)/(1−α)) ≈ 2α;
    - `from_gain(gain=g)`: truth (1 + g)/2, so g is the gain over guessing.

    Guarantee: ε-DP for the bit, ε = ln(truth/(1 − truth)).
    Proof. Every output has probability truth or 1 − truth, and truth ≥ 1/2.

    >>> coins = RandomizedResponse.from_coins(heads="1/2")
    >>> coins.truth, round(float(coins.epsilon), 6), coins.keep
    (Fraction(3, 4), 1.098612, Fraction(1, 2))
    """

    truth: Rational = Rational(at_least=Fraction(1, 2), below=1)
    epsilon: Converted[Number | None, Fraction] = Converted(_number_or_none, default=None)
    """It may be stated, if it is not less than ln(truth/(1 − truth))."""

    def __post_init__(self) -> None:
        ratio, stated = self.truth / (1 - self.truth), self.epsilon
        if stated is None:
            object.__setattr__(self, "epsilon", log_up(ratio))
        elif ratio > exp_down(stated, 256):
            raise InvalidParameter("epsilon", plain(stated), f"at least {float_up(log_up(ratio))} for this truth")

    @classmethod
    def for_epsilon(cls, *, epsilon: Number) -> "RandomizedResponse":
        """Truth with probability e^ε/(1 + e^ε), at most 2^−96 less.

        >>> RandomizedResponse.for_epsilon(epsilon=1).loss
        Pure(epsilon=1)
        """
        exact = rational(epsilon, "epsilon", above=0, at_most=_MOST_EPSILON)
        return cls(truth=1 / (1 + min(exp_up(-exact), Fraction(1))), epsilon=exact)

    @classmethod
    def from_coins(cls, *, heads: Number) -> "RandomizedResponse":
        """The truth on heads, else whatever a second, fair coin says.

        >>> RandomizedResponse.from_coins(heads="1/2") == RandomizedResponse.from_keep(keep="1/2")
        True
        """
        return cls.from_keep(keep=rational(heads, "heads", at_least=0, below=1))

    @classmethod
    def from_keep(cls, *, keep: Number) -> "RandomizedResponse":
        """Keep the answer with probability α, else replace it by a uniform one.

        >>> RandomizedResponse.from_keep(keep="0.5").truth
        Fraction(3, 4)
        """
        return cls(truth=(1 + rational(keep, "keep", at_least=0, below=1)) / 2)

    @classmethod
    def from_gain(cls, *, gain: Number) -> "RandomizedResponse":
        """Truth with probability (1 + g)/2.

        >>> RandomizedResponse.from_gain(gain="0.5").truth
        Fraction(3, 4)
        """
        return cls(truth=(1 + rational(gain, "gain", at_least=0, below=1)) / 2)

    @property
    def keep(self) -> Fraction:
        """α (and g, and the first coin's p): 2·truth − 1."""
        return 2 * self.truth - 1

    @property
    def loss(self) -> Loss:
        """ε-DP for the respondent's own bit."""
        return Pure(self.epsilon)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> bool | NDArray[np.bool_]:
        """The noisy bit, or an array of them: booleans, or 0 and 1."""
        bits = _categories(value, 2)
        lie = bernoulli(1 - self.truth, bits.shape, entropy=entropy)
        noisy = np.logical_xor(bits, lie)
        return bool(noisy) if noisy.ndim == 0 else noisy

    def interval(self, confidence: Number, *, reports: int = 1) -> float:
        """A w such that the share of ones estimated from this many reports is within w of the truth.

        Hoeffding 1963: the mean of n bits is within √(ln(2/β)/2n) of its expectation with probability 1 − β;
        unbiasing divides by 2·truth − 1.
        """
        return _hoeffding(confidence, reports, self.keep)

    def channel(self) -> Channel:
        """The 2×2 matrix, in rationals."""
        return Channel([[self.truth, 1 - self.truth], [1 - self.truth, self.truth]], inputs=[0, 1], outputs=[0, 1])


@dataclass(frozen=True, kw_only=True)
class KRR(DisplayMixin):
    """k-RR: one of k answers, the true one with probability e^ε/(k − 1 + e^ε), each other with 1/(k − 1 + e^ε).

    Kairouz, Bonawitz, Ramage 2016. The probability is rounded down to a rational, towards privacy.

    Guarantee: ε-DP for the answer.
    Proof. Probabilities are `truth` ≤ e^ε/(k−1+e^ε) or `other` = (1 − truth)/(k − 1); their ratio grows with `truth`,
    up to e^ε at the limit.

    >>> KRR(epsilon=1, size=4).loss
    Pure(epsilon=1)
    """

    epsilon: Rational = Rational(above=0, at_most=_MOST_EPSILON)
    size: Integer = Integer(at_least=2, at_most=2**31)

    @property
    def truth(self) -> Fraction:
        """The probability of the true answer."""
        growth = exp_down(self.epsilon)
        return growth / (self.size - 1 + growth)

    @property
    def other(self) -> Fraction:
        """The probability of each other answer."""
        return (1 - self.truth) / (self.size - 1)

    @property
    def loss(self) -> Loss:
        """ε-DP for the respondent's own answer."""
        return Pure(self.epsilon)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> int | NDArray[np.int64]:
        """The noisy answer in {0 … k−1}, or an array of them."""
        answers = _categories(value, self.size)
        lie = np.asarray(bernoulli(1 - self.truth, answers.shape, entropy=entropy))
        shift = np.asarray(uniform_below(self.size - 1, answers.shape, entropy=entropy)) + 1
        noisy = np.where(lie, (answers + shift) % self.size, answers)
        return int(noisy) if noisy.ndim == 0 else noisy

    def interval(self, confidence: Number, *, reports: int = 1) -> float:
        """A w such that the estimated share of any one answer is within w of the truth (Hoeffding, unbiased)."""
        return _hoeffding(confidence, reports, self.truth - self.other)

    def channel(self) -> Channel:
        """The k×k matrix, in rationals."""
        countable(self.size**2, "channel", most=4_000_000)
        rows = [[self.truth if x == y else self.other for y in range(self.size)] for x in range(self.size)]
        return Channel(rows, inputs=range(self.size), outputs=range(self.size))


def _hoeffding(confidence: Number, reports: int, gain: Fraction) -> float:
    """√(ln(2/β)/2n), divided by what one person's answer moves the mean of a report."""
    count = integer(reports, "reports", at_least=1)
    spread = sqrt(float_up(log_up(2 / failure_probability(confidence))) / (2 * count))
    return spread / float(gain) if float(gain) else inf


def _categories(value: ArrayLike, size: int) -> NDArray[np.int64]:
    """Whole numbers in {0 … size−1} (booleans count as 0 and 1)."""
    array = regular(value, "value")
    if array.dtype.kind not in "biu" or (array.size and (array.min() < 0 or array.max() >= size)):
        raise InvalidData(f"value: expected whole numbers from 0 to {size - 1}; number the answers first")
    return array.astype(np.int64)
