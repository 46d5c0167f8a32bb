"""Private quantiles, median, minimum and maximum: the exponential mechanism over a declared range (Smith 2011).

Candidates are all grid points from `lower` to `upper`. A point's score is minus the distance of its rank to the rank
wanted; points between two neighboring data values share one score, so the choice is among at most 2n + 1 stretches,
each with as many copies as it has points, whatever the size of the range.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, integer, log_up, plain, rational
from discreet.fields import Choice, Converted, DisplayMixin, Integer, Rational
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import Grid, countable, failure_probability, finite
from discreet.mechanisms.stochastic import Label
from discreet.noise import Entropy, softmax, softmax_each, uniform_below, uniform_each
from discreet.privacy.loss import BoundedRange, Loss
from discreet.privacy.unit import Neighbors, relation

_Stretches = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
"""First point, number of points and score of each stretch of the range."""


def _share(value: Number, name: str) -> Fraction:
    exact = rational(value, name, at_least=0, at_most=1)
    if exact.denominator > 10**6:
        raise InvalidParameter(name, value, "a share with at most six decimals")
    return exact


def _rank(value: int | None, name: str) -> Any:
    return None if value is None else integer(value, name, at_least=0)


@dataclass(frozen=True, kw_only=True)
class Range(DisplayMixin):
    """Where answers may lie: the grid points from lower to upper, declared without looking at the data.

    >>> Range(lower=0, upper=120, granularity=1).points
    121
    """

    lower: Rational = Rational()
    upper: Rational = Rational()
    granularity: Converted[Number, Fraction] = Converted(lambda value, _: Grid(value).step)

    def __post_init__(self) -> None:
        span = (self.upper - self.lower) / self.granularity
        given = f"[{plain(self.lower)}, {plain(self.upper)}] by {plain(self.granularity)}"
        if span < 0 or span.denominator != 1:
            raise InvalidParameter("range", given, "upper − lower to be a multiple of the granularity")
        if max(abs(self.lower), abs(self.upper)) / self.granularity >= 2**61:
            raise InvalidParameter("range", given, "fewer than 2^61 steps from zero")

    @property
    def points(self) -> int:
        """How many answers are possible."""
        return int((self.upper - self.lower) / self.granularity) + 1

    def steps(self, values: ArrayLike) -> NDArray[np.int64]:
        """Sorted values in steps from `lower`, each clamped to the range by itself."""
        base = ceil(self.lower / self.granularity)
        offset = self.lower - base * self.granularity
        array = np.atleast_1d(finite(values, "values"))
        if array.ndim != 1:
            raise InvalidData(f"values: got {array.ndim} dimensions, expected a list of numbers")
        snapped = Grid(self.granularity).snap(array.astype(np.float64) - float(offset) if offset else array, "values")
        return np.sort(np.clip(snapped, base, base + self.points - 1) - base)

    def value(self, step: int) -> float:
        """The answer at a step."""
        return float(self.lower + step * self.granularity)

    def listed(self) -> list[float]:
        """All answers, from lower to upper."""
        countable(self.points, "range")
        return [self.value(step) for step in range(self.points)]


class _PointOfRange(DisplayMixin):
    """The exponential mechanism over the points of a declared range, which the data cut into stretches of one score."""

    epsilon: Rational
    within: Converted[Range, Range]

    @property
    def loss(self) -> Loss:
        """Bounded range ε."""
        return BoundedRange(self.epsilon)

    def _stretches(self, values: ArrayLike) -> tuple[_Stretches, Fraction]:
        """(first point, number of points, score) of each stretch, and the scale of the scores."""
        raise NotImplementedError

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float:
        """The private answer: a point of the declared range."""
        (starts, copies, scores), scale = self._stretches(value)
        chosen = int(softmax(scores, scale, multiplicity=copies, entropy=entropy))
        step = int(starts[chosen]) + int(uniform_below(int(copies[chosen]), entropy=entropy))
        return self.within.value(step)

    def probabilities(self, values: ArrayLike) -> NDArray[np.float64]:
        """The probability of each point of the range, to float precision: a row of the mechanism's channel."""
        (_, copies, scores), scale = self._stretches(values)
        return _probabilities(copies, scores, scale)

    def channel(self, datasets: Mapping[Label, ArrayLike]) -> Channel:
        """The channel from datasets, each with its label, to the points of the range."""
        rows = np.array([self.probabilities(values) for values in datasets.values()])
        return Channel(rows, inputs=datasets.keys(), outputs=self.within.listed())


@dataclass(frozen=True, kw_only=True)
class Quantile(_PointOfRange):
    """The value below which a share `probability` of the data lies; 1/2 is the median.

    Guarantee: ε-bounded range, hence ε-DP. Proof. The score of a point o is −dist(q·n, [#{x < o}, #{x ≤ o}]). Adding or
    removing one value moves both counts by 0 or 1 and q·n by q, so the distance changes by at most max(q, 1 − q);
    changing one value moves the counts by at most 1 and leaves n. The rest is the exponential mechanism with that
    sensitivity. Clamping and snapping act on each value by itself.

    >>> ages = Range(lower=0, upper=120, granularity=1)
    >>> median = Quantile(epsilon=50, probability="1/2", within=ages, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    >>> median.release([30] * 1000)
    30.0
    """

    epsilon: Rational = Rational(above=0)
    probability: Converted[Number, Fraction] = Converted(_share)
    within: Converted[Range, Range] = Converted(lambda value, _: _range(value))
    neighbors: Converted[Neighbors | str, Neighbors] = Converted(lambda value, _: relation(value))

    @property
    def sensitivity(self) -> Fraction:
        """How far one unit can move a score, in ranks."""
        if self.neighbors is Neighbors.CHANGE_ONE:
            return Fraction(1)
        return max(self.probability, 1 - self.probability)

    def _stretches(self, values: ArrayLike) -> tuple[_Stretches, Fraction]:
        starts, copies, below, upto = _cut(self.within.steps(values), self.within.points)
        share, parts = self.probability.numerator, self.probability.denominator
        wanted = share * int(upto[-1])
        scores = -np.maximum(0, np.maximum(parts * below - wanted, wanted - parts * upto))
        return (starts, copies, scores), 2 * self.sensitivity * parts / self.epsilon

    def interval(self, confidence: Number) -> float:
        """How far the rank of the answer can be from the one wanted, with at least this probability."""
        return float_up(
            2 * self.sensitivity / self.epsilon * log_up(self.within.points / failure_probability(confidence))
        )


@dataclass(frozen=True, kw_only=True)
class Extreme(_PointOfRange):
    """The minimum or maximum, told by a value that only a few data lie beyond.

    The true extreme depends on one person alone, so the mechanism aims at the value that `rank` others lie beyond: by
    default as many as the exponential mechanism's own error at 95 %, so that the answer is seldom outside the data. Of
    fewer than `rank` values it aims at the one that all of them lie beyond.

    Guarantee: ε-bounded range, hence ε-DP, under both neighbor relations. Proof. Let a be the number of values beyond
    o, and b the number of those not before o. The score −dist(rank, [a, b]) moves by at most 1, since one added,
    removed or changed value moves each number by at most 1.

    >>> Extreme(epsilon=50, side="max", within=Range(lower=0, upper=100, granularity=1)).release([7] * 1000)
    7.0
    """

    epsilon: Rational = Rational(above=0)
    side: Choice = Choice("min", "max")
    within: Converted[Range, Range] = Converted(lambda value, _: _range(value))
    rank: Converted[int | None, int] = Converted(_rank, default=None)

    def __post_init__(self) -> None:
        if self.rank is None:
            object.__setattr__(self, "rank", ceil(self.interval("0.95")))

    def _stretches(self, values: ArrayLike) -> tuple[_Stretches, Fraction]:
        starts, copies, below, upto = _cut(self.within.steps(values), self.within.points)
        count = upto[-1]
        fewest, most = (below, upto) if self.side == "min" else (count - upto, count - below)
        scores = -np.maximum(0, np.maximum(fewest - self.rank, self.rank - most))
        return (starts, copies, scores), 2 / self.epsilon

    def interval(self, confidence: Number) -> float:
        """How far the number of data beyond the answer can be from min(rank, n), of n data, at this confidence.

        That number is any from #{x beyond it} to #{x not before it}. These ranges meet from one point to the next and
        cover 0 to n, so for n ≥ rank the best score is 0. Of fewer data than `rank` all scores are rank − n lower than
        the same for n, which changes no probability. The rest is the exponential mechanism's bound.
        """
        return float_up(2 / self.epsilon * log_up(self.within.points / failure_probability(confidence)))


class Multisets(NamedTuple):
    """Whole numbers from 0 on with how often they occur, in each of `size` groups: one entry a group and number."""

    groups: NDArray[np.int64]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    size: int


@dataclass(frozen=True, kw_only=True)
class GroupedQuantile(DisplayMixin):
    """In each of many groups, the point from 0 to points − 1 whose rank is nearest to q·n + shift, of n values.

    A `shift` aims that many ranks beside the quantile; then the first (below: shift < 0) or the last point counts as if
    it had as many ranks more as are needed, so that small groups are answered by the end of the range.
    `sensitivity` is the most that one unit moves the scores of a group, added up over all groups.

    Guarantee: ε-bounded range for all groups together, hence ε-DP. Proof. In each group this is the exponential
    mechanism with scale s = 2·sensitivity/ε: where one unit moves scores by at most D, the log-ratio lies in an
    interval of length 2D/s (Durfee, Rogers 2019, Lemma 3.2). Groups are drawn independently, so log-ratios add up, and
    so do the lengths of their intervals: to at most 2·sensitivity/s = ε. Counting an end of the range as having any
    rank below (above) takes away one of the two terms whose largest is the distance, which moves no faster for that.

    >>> numbers = Multisets(np.array([0, 0, 1]), np.array([3, 7, 5]), np.array([500, 500, 900]), size=2)
    >>> settings = {"points": 10, "shift": 0, "sensitivity": 1}
    >>> GroupedQuantile(epsilon=50, probability="3/4", **settings).release(numbers).tolist()
    [7, 5]
    """

    epsilon: Rational = Rational(above=0)
    probability: Converted[Number, Fraction] = Converted(_share)
    points: Integer = Integer(at_least=1, at_most=2**61)
    shift: Integer = Integer()
    sensitivity: Rational = Rational(above=0)

    @property
    def loss(self) -> Loss:
        """Bounded range ε."""
        return BoundedRange(self.epsilon)

    @property
    def scale(self) -> Fraction:
        """What ranks are divided by."""
        return 2 * self.sensitivity / self.epsilon

    def release(self, value: Multisets, /, *, entropy: Entropy | None = None) -> NDArray[np.int64]:
        """The private quantile of each group."""
        firsts, starts, copies, scores = self._stretches(value)
        scale = self.scale * self.probability.denominator
        chosen = softmax_each(scores, firsts, scale, multiplicity=copies, entropy=entropy)
        return starts[chosen] + uniform_each(copies[chosen], entropy=entropy)

    def interval(self, confidence: Number) -> float:
        """How far the rank of an answer can be from the one wanted, in one group, with at least this probability."""
        return float_up(self.scale * log_up(self.points / failure_probability(confidence)))

    def probabilities(self, value: Multisets) -> list[NDArray[np.float64]]:
        """For each group, the probability of each point, to float precision: a row of the mechanism's channel."""
        firsts, _, copies, scores = self._stretches(value)
        scale = self.scale * self.probability.denominator
        parts = zip(np.split(copies, firsts[1:]), np.split(scores, firsts[1:]), strict=True)
        return [_probabilities(each, score, scale) for each, score in parts]

    def _stretches(self, value: Multisets) -> tuple[NDArray[np.int64], ...]:
        """Where groups begin, and of each stretch its first point, its number of points and its score."""
        ends = np.repeat(np.arange(value.size), 2)  # the ends of the range stand alone, with whatever is there
        groups = np.concatenate((value.groups, ends))
        values = np.concatenate((value.values, np.tile([0, self.points - 1], value.size)))
        counts = np.concatenate((value.counts, np.zeros(ends.size, np.int64)))
        order = np.lexsort((values, groups))
        groups, values, counts = groups[order], values[order], counts[order]
        new = np.append(True, (np.diff(groups) != 0) | (np.diff(values) != 0)) if groups.size else np.zeros(0, np.bool_)
        distinct = np.flatnonzero(new)
        counts = np.add.reduceat(counts, distinct) if groups.size else counts
        groups, values = groups[distinct], values[distinct]
        firsts = np.searchsorted(groups, np.arange(value.size))
        sizes = np.diff(np.append(firsts, groups.size))
        total = np.cumsum(counts)
        upto = total - np.repeat(total[firsts] - counts[firsts], sizes)
        n = np.repeat(upto[firsts + sizes - 1], sizes)
        share, parts = self.probability.numerator, self.probability.denominator
        if int(n.max(initial=0)) * parts + abs(self.shift) * parts >= 1 << 60:
            raise InvalidData("values: got too many to be ranked in 64 bits")
        wanted = share * n + self.shift * parts
        low, high = parts * (upto - counts) - wanted, wanted - parts * upto
        if self.shift < 0:
            low[firsts] = 0
        if self.shift > 0:
            high[firsts + sizes - 1] = 0
        here = -np.maximum(0, np.maximum(low, high))
        after = -np.abs(parts * upto - wanted)
        last = np.zeros(groups.size, np.bool_)
        last[firsts + sizes - 1] = True
        gaps = np.where(last, 0, np.append(values[1:], 0) - values - 1)
        starts = np.stack((values, values + 1), axis=1).ravel()
        copies = np.stack((np.ones_like(values), gaps), axis=1).ravel()
        return 2 * firsts, starts, copies, np.stack((here, after), axis=1).ravel()


def _probabilities(copies: NDArray[np.int64], scores: NDArray[np.int64], scale: Fraction) -> NDArray[np.float64]:
    countable(int(copies.sum()), "probabilities")
    weights = np.repeat(np.exp((scores - scores[copies > 0].max()) / float(scale)), copies)
    return np.asarray(weights / weights.sum())


def _cut(steps: NDArray[np.int64], points: int) -> tuple[NDArray[np.int64], ...]:
    """The range cut at the data: (first point, number of points, #{x < it}, #{x ≤ it}) of each stretch, in order."""
    values, counts = np.unique(steps, return_counts=True)
    before = np.concatenate(([0], np.cumsum(counts)))
    starts = np.empty(2 * values.size + 1, np.int64)  # gap, value, gap, value, …, gap
    starts[0], starts[1::2], starts[2::2] = 0, values, values + 1
    copies = np.diff(np.append(starts, points))
    return starts, copies, np.repeat(before, 2)[:-1], np.repeat(before, 2)[1:]


def _range(within: Range) -> Range:
    if not isinstance(within, Range):
        raise InvalidParameter("within", within, "a Range(lower=…, upper=…, granularity=…)")
    return within
