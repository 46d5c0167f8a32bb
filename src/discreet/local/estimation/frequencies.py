"""Estimated shares of the values of a domain: unbiased, with variances, intervals that cover, and the two repairs.

>>> from discreet.local.estimation.frequencies import Frequencies
>>> told = Frequencies([1.1, -0.1], variance=[0.01, 0.01], reports=100)
>>> told.clipped().tolist(), told.projected().tolist()
([1.0, 0.0], [1.0, 0.0])
"""

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, float_down
from discreet.fields import Converted, Integer
from discreet.mechanisms.mechanism import failure_probability

Floats = NDArray[np.float64]
ConfidenceBounds = tuple[Floats, Floats]


class Evidence(Protocol):
    """What was counted, and how far from the truth that can be; each oracle knows more than a variance."""

    def confidence_bounds(self, tail: float) -> ConfidenceBounds:
        """Lower and upper bounds of each share; each value's miss its share with probability at most `tail`."""
        ...


def _vector(values: ArrayLike, name: str) -> Floats:
    """A copy as floats: one axis, at least one number, all finite."""
    try:
        array = np.array(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InvalidData(f"{name}: expected a list of numbers") from None
    if array.ndim != 1 or not array.size or not np.isfinite(array).all():
        raise InvalidData(f"{name}: expected at least one number on one axis, all of them finite")
    return array


class MeanEvidence(Protocol):
    """What was counted, and how far from the truth that can be."""

    def confidence_bounds(self, tail: float) -> tuple[float, float]:
        """Bounds that miss the mean of the grid points with probability at most `tail`."""
        ...


@dataclass(frozen=True, slots=True)
class Mean:
    """An unbiased mean, so it may lie beyond the bounds; `variance` is an upper bound of its variance.

    The variance is that of the noise for the people who reported; sampling them from more people is not in it.

    >>> from discreet.local.oracles.numeric import StochasticRounding
    >>> told = StochasticRounding(epsilon=1, lower=0, upper=1).estimate([55, 100], reports=100)
    >>> round(told.value, 3), [round(end, 2) for end in told.interval("0.95")]
    (0.608, [0.38, 0.82])
    """

    value: float
    variance: float
    reports: int
    lower: float
    upper: float
    evidence: MeanEvidence

    def interval(self, confidence: Number) -> tuple[float, float]:
        """Confidence bounds of the true mean, within the range; proven for any number of reports, with snapping."""
        low, high = self.evidence.confidence_bounds(float_down(failure_probability(confidence)))
        return min(max(low, self.lower), self.upper), max(min(high, self.upper), self.lower)


@dataclass(frozen=True, slots=True)
class Spread:
    """Reports that tell their own variance: its mean is base + slope·E[T], T in [0, top] with this observed mean."""

    base: float
    slope: float
    mean: float
    top: float

    def upper_bound(self, reports: int, tail: float) -> float:
        """An upper bound of the mean variance that is too low with probability at most `tail`.

        Proof. E[T²] ≤ top·E[T], so the mean of T is below E[T] − s with probability at most exp(−n·s²/(2·top·E[T]))
        (Maurer 2003, for terms ≥ 0). With s such that this is `tail`, √E[T] ≤ √c + √(c + mean), c = top·ln(1/tail)/2n.

        >>> round(Spread(base=1.0, slope=0.5, mean=2.0, top=4.0).upper_bound(10**6, 0.01), 4)
        2.0043
        """
        c = self.top * math.log(1 / tail) / (2 * reports)
        return self.base + self.slope * (math.sqrt(c) + math.sqrt(c + self.mean)) ** 2


@dataclass(frozen=True, slots=True)
class Bounded:
    """The mean of independent terms of bounded variance, each within `reach` of its expectation.

    `variance` is the largest that there can be, `least` the smallest; `spread` is what the reports tell of it. `skew`
    is the largest ratio of a term's third absolute moment to its variance, which is at most `reach`.

    >>> [round(end, 4) for end in Bounded(0.5, 0.25, 1.0, 10_000, 0.0).confidence_bounds(0.05)]
    [0.4863, 0.5137]
    """

    value: float
    variance: float
    reach: float
    reports: int
    slack: float
    least: float = 0.0
    spread: Spread | None = None
    skew: float = math.inf

    def confidence_bounds(self, tail: float) -> tuple[float, float]:
        """Bounds by `mean_reach`; where reports tell their variance, a tenth of the tail is spent on that."""
        variance, rest = self.variance, tail
        if self.spread is not None:
            variance, rest = min(variance, self.spread.upper_bound(self.reports, tail / 10)), 0.9 * tail
        given = (np.asarray(variance), self.reach, self.reports, rest, self.least, self.skew)
        away = float(mean_reach(*given)) + self.slack
        return self.value - away, self.value + away

    def moved(self, start: float, step: float, slack: float) -> "Bounded":
        """The same of start + step·(the terms)."""
        square = step**2
        spread = None
        if self.spread is not None:
            spread = replace(self.spread, base=self.spread.base * square, slope=self.spread.slope * square)
        value, reach, skew = start + step * self.value, self.reach * step, self.skew * step
        return Bounded(value, self.variance * square, reach, self.reports, slack, self.least * square, spread, skew)


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Shares of values among those who reported, with the variance that the randomizers' noise gives them.

    `shares` are unbiased, so they may be negative or above one; `clipped` and `projected` repair that, at the price
    of a bias. `variance` estimates the variance of each share for the people who reported: the sampling of
    people out of a larger population is not in it (it adds at most 1/(4·reports)).
    """

    shares: Converted[ArrayLike, Floats] = Converted(_vector)
    variance: Converted[ArrayLike, Floats] = Converted(_vector)
    reports: Integer = Integer(at_least=1)
    evidence: Evidence | None = None

    def __post_init__(self) -> None:
        if self.variance.shape != self.shares.shape or (self.variance < 0).any():
            raise InvalidData(f"variance: expected {self.shares.size} numbers ≥ 0, one for each share")
        self.shares.setflags(write=False)
        self.variance.setflags(write=False)

    @property
    def size(self) -> int:
        """How many values the domain has."""
        return self.shares.size

    def interval(self, confidence: Number, *, simultaneous: bool = True) -> ConfidenceBounds:
        """Confidence bounds (low, high), within [0, 1], of the true shares.

        `simultaneous`: all of them hold together with this probability (Bonferroni: each value gets an equal part of
        the doubt); otherwise each one by itself. Where the oracle left its evidence the bounds are proven for
        any number of reports (see `Support`); without it they are normal, good for many reports.
        """
        rest = failure_probability(confidence) / (self.size if simultaneous else 1)
        tail = float_down(rest)
        low, high = self._normal(tail) if self.evidence is None else self.evidence.confidence_bounds(tail)
        return np.clip(low, 0, 1), np.clip(high, 0, 1)

    def _normal(self, tail: float) -> ConfidenceBounds:
        from scipy.special import ndtri

        reach = -float(ndtri(tail / 2)) * np.sqrt(self.variance)
        return self.shares - reach, self.shares + reach

    def clipped(self) -> Floats:
        """The shares with negative ones set to zero and the rest divided by their sum; see `clip`."""
        return clip(self.shares)

    def projected(self) -> Floats:
        """The distribution nearest to the shares; see `project`."""
        return project(self.shares)


# The two repairs


def clip(shares: ArrayLike) -> Floats:
    """Negative shares become zero, the others are divided by their sum; the uniform distribution if none is positive.

    >>> clip([0.9, 0.3, -0.2]).round(6).tolist()
    [0.75, 0.25, 0.0]
    """
    kept = np.maximum(_vector(shares, "shares"), 0)
    top = kept.max()
    if not top:
        return np.full(kept.shape, 1 / kept.size)
    kept /= top  # so that the sum cannot overflow
    return np.asarray(kept / kept.sum())


def project(shares: ArrayLike) -> Floats:
    """The distribution at the least Euclidean distance: max(share − t, 0), with t such that the sum is one.

    Held, Wolfe, Crowder 1974: t is the mean excess of the largest shares that stay positive.

    >>> project([0.9, 0.3, -0.2]).round(6).tolist()
    [0.8, 0.2, 0.0]
    """
    given = _vector(shares, "shares")
    given = given - given.max()  # the projection does not change, and the largest is known to stay
    falling = -np.sort(-given)
    excess = (np.cumsum(falling) - 1) / np.arange(1, given.size + 1)
    last = np.flatnonzero(falling > excess)[-1]
    kept = np.maximum(given - excess[last], 0)
    return np.asarray(kept / kept.sum())


# Evidence


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """How many reports support each value: its own with probability `truth`, those of others with `other`.

    These are the "pure" protocols of Wang, Blocki, Li, Jha 2017, who give estimate and variance.
    """

    counts: NDArray[np.int64]
    reports: int
    truth: Fraction
    other: Fraction

    @property
    def gain(self) -> Fraction:
        """truth − other: what a person's value moves the expected count of its support."""
        return self.truth - self.other

    def frequencies(self) -> Frequencies:
        """share = (count/n − other)/(truth − other); its expectation is the true share, since each report is linear."""
        shares = (self.counts / self.reports - float(self.other)) / float(self.gain)
        spread = support_variance(np.clip(shares, 0, 1), self.truth, self.other) / self.reports
        return Frequencies(shares, spread, self.reports, self)

    def confidence_bounds(self, tail: float) -> ConfidenceBounds:
        """Clopper–Pearson bounds of the mean probability of support, carried over to shares.

        Guarantee: whoever has which value, the bounds of a value miss its share with probability at most `tail`; the
        same holds for the share in a population of which the people are a random sample.
        Proof. See `binomial_bounds`: the count is a sum of independent coins with mean probability
        other + share·gain, a rising function of the share.
        """
        low, high = binomial_bounds(self.counts, self.reports, tail)
        return (low - float(self.other)) / float(self.gain), (high - float(self.other)) / float(self.gain)


def support_variance(share: Floats | float, truth: Fraction, other: Fraction) -> Floats:
    """Variance, per report, of a share estimated from support counts: (f·p(1−p) + (1−f)·q(1−q))/(p−q)².

    Wang, Blocki, Li, Jha 2017 (pure protocols), for people whose values are fixed. At share 0, the n·MSE of papers.

    >>> from fractions import Fraction
    >>> float(support_variance(0.0, Fraction(3, 4), Fraction(1, 4)))
    0.75
    """
    square = (truth - other) ** 2
    without, within = other * (1 - other) / square, truth * (1 - truth) / square
    return np.asarray(share * float(within) + (1 - np.asarray(share, np.float64)) * float(without))


def binomial_bounds(counts: ArrayLike, trials: int, tail: float) -> ConfidenceBounds:
    """Bounds of the mean probability of independent coins, equal or not, from how many of them show heads.

    Guarantee: the bounds miss the mean probability r with probability at most `tail`.
    Proof. Clopper and Pearson 1934 for equal coins, with half of the tail on each side. For unequal ones, Hoeffding
    1956 (on successes in independent trials): if m ≥ n·r + 1 then P(heads ≥ m) is at most that of equal coins. The
    lower bound exceeds r only if heads ≥ m, the least m whose binomial tail is ≤ t = min(1 − e^(−tail/2), 1/4). If
    m < n·r + 1 and n·r ≥ 1, the binomial tail at m is above 1/4 (Greenberg, Mohri 2014), so this does not occur. If
    n·r < 1 it leaves m = 1: 1 − (1−r)^n ≤ t gives n·r ≤ −ln(1 − t) ≤ tail/2, and P(heads ≥ 1) ≤ n·r. The upper bound
    by symmetry.

    >>> low, high = binomial_bounds([0, 5, 10], 10, 0.05)
    >>> low.round(3).tolist(), high.round(3).tolist()
    ([0.0, 0.187, 0.691], [0.309, 0.813, 1.0])
    """
    from scipy.special import betainccinv, betaincinv

    heads = np.asarray(counts, np.float64)
    t = min(-np.expm1(-tail / 2), 0.25)
    low = np.where(heads > 0, betaincinv(np.maximum(heads, 1), trials - heads + 1, t), 0.0)
    high = np.where(heads < trials, betainccinv(heads + 1, np.maximum(trials - heads, 1), t), 1.0)
    return low, high


def bernstein_reach(variance: Floats, bound: float, reports: int, tail: float) -> Floats:
    """How far the mean of independent terms can be from its expectation, given their mean variance and a bound.

    Bernstein 1946: with L = ln(2/tail), √(2·V·L/n + (R·L/3n)²) + R·L/3n is exceeded with probability at most `tail`.

    >>> float(bernstein_reach(np.array(0.25), 1.0, 10_000, 0.05).round(4))
    0.0137
    """
    doubts = np.log(2 / tail)
    linear = bound * doubts / (3 * reports)
    return np.asarray(np.sqrt(2 * variance * doubts / reports + linear**2) + linear)


def mean_reach(
    variance: Floats, bound: float, reports: int, tail: float, least: float = 0.0, skew: float = math.inf
) -> Floats:
    """How far the mean of independent terms can be from its expectation: Bernstein's, or the normal law's.

    `least` is a lower bound of the mean variance, known beforehand; with it the normal law may be used. So is `skew`,
    an upper bound of each term's third absolute moment over its variance.

    Guarantee: for terms within `bound` of their expectations, of mean variance at most `variance`, the reach is
    exceeded with probability at most `tail`.
    Proof. Berry and Esseen, with 0.56 for terms of any laws (Shevtsova 2010): the law of the sum, divided by its
    deviation, is within e = 0.56·Σρ/(Σσ²)^1.5 of the normal one. ρ ≤ s·σ² for s = min(bound, skew), so e ≤
    0.56·s/√(n·least). Hence P(|mean − expectation| > z·√(V/n)) ≤ 2Φ(−z) + 2e, which is `tail` for the z below. Which
    of the two is used depends on what is known beforehand alone, not on what was reported; both grow with the variance.

    >>> [float(mean_reach(np.array(0.25), 1.0, 10**6, 0.05, least).round(6)) for least in (0.0, 0.25)]
    [0.001359, 0.00099]
    """
    from scipy.special import ndtri

    off = 0.56 * min(bound, skew) / np.sqrt(reports * least) if least > 0 else np.inf
    if off < tail / 2 and (z := -float(ndtri(tail / 2 - off))) < np.sqrt(2 * np.log(2 / tail)):
        return np.asarray(z * np.sqrt(variance / reports))
    return bernstein_reach(variance, bound, reports, tail)
