"""Randomized response of one bit, and of one of k answers (k-RR): the report is a value of the domain."""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike

from discreet import mechanisms
from discreet.errors import InvalidParameter
from discreet.exact import Number
from discreet.fields import Integer
from discreet.local.estimation.frequencies import Frequencies
from discreet.local.oracles.oracle import (
    CodeReports,
    Epsilon,
    Integers,
    SupportOracle,
    read_epsilon,
    read_tally,
    read_values,
)
from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.noise import Entropy


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

    >>> from discreet.local.oracles.krr import BinaryResponse
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
            raise InvalidParameter("truth", float(response.truth), "more than 1/2", "fair coins say nothing")
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

    >>> from discreet.local.oracles.krr import KRR
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
