"""Variances, correlations and regressions from noisy centered sums, with the extremes over what the noise allows.

With n rows, A = Σ(x − m), Q = Σ(x − m)² and P = Σ(x − m)(y − k), the variance is Q/n − (A/n)² and the covariance
P/n − (A/n)(B/n), for any m and k. Numbers here are in steps of their values until the last line of each function.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, expm1, log
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InternalError
from discreet.exact import Number
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian, rounded_width
from discreet.mechanisms.mechanism import failure_probability
from discreet.sql.algebra.rules import Spread, Sums

if TYPE_CHECKING:
    import pyarrow


Floats = NDArray[np.float64]
Steps = NDArray[np.int64]
_TINY = 1e-300
_SLACK = 2.0**-40
"""More than floats lose in a few sums and products, as a part of the largest variance."""


class Box(NamedTuple):
    """The least and the largest that each number can be, one pair a group."""

    low: Floats
    high: Floats

    def held(self, low: float, high: float) -> "Box":
        """Cut to what is known of it beforehand."""
        return Box(np.clip(self.low, low, high), np.clip(self.high, low, high))

    def scaled(self, factor: float) -> "Box":
        """Times a positive factor."""
        return Box(self.low * factor, self.high * factor)

    def times(self, other: "Box") -> "Box":
        """All products."""
        corners = [a * b for a in self for b in other]
        return Box(np.minimum.reduce(corners), np.maximum.reduce(corners))


def spread_values(spread: Spread, measures: list[Steps]) -> tuple[Floats, NDArray[np.bool_]]:
    """The statistic in each group, and where there is none: too few rows, or no variance to divide by."""
    exact = [Box(each.astype(np.float64), each.astype(np.float64)) for each in measures]
    least = 2 if spread.sample else 1
    statistic = _Extremes(spread, exact, least)
    numbers = statistic.box().low
    missing = (measures[spread.count] < least) | np.isnan(numbers)
    return np.where(missing, 0.0, numbers), missing


def spread_interval(spread: Spread, measures: list[Steps], width: Callable[[int], int]) -> Box:
    """Confidence bounds: extremes over all measures within their widths; NaN where there are none.

    Where the true measures lie within the widths, and the statistic exists, it is in the box: each step is the range of
    a continuous function over a box that holds its arguments, or a larger range.
    """
    boxes = [Box(np.empty(0), np.empty(0))] * len(measures)
    for index in spread.indices:
        center, far = measures[index].astype(np.float64), width(index)
        boxes[index] = Box(center - far, center + far)
    return _Extremes(spread, boxes, 2 if spread.sample else 1, slack=_SLACK).box()


class _Extremes:
    """The range of a statistic over boxes of its measures; a box of no width gives the statistic itself."""

    def __init__(self, spread: Spread, boxes: list[Box], least: int, *, slack: float = 0.0) -> None:
        self.spread, self.boxes, self.slack = spread, boxes, slack
        count = boxes[spread.count]
        few, many = np.maximum(count.low, least), np.maximum(count.high, least)
        self.inverse = Box(1 / many, 1 / few)
        self.factor = Box(many / (many - 1), few / (few - 1)) if spread.sample else Box(np.ones(1), np.ones(1))

    def box(self) -> Box:
        """The statistic in the units of its values."""
        x, y, step = self.spread.x, self.spread.y, float(self.spread.x.kind.step)
        if y is not None:
            return self._of_pairs(x, y, step, float(y.kind.step))
        variance = self._variance(x).times(self.factor).held(0.0, self._most(x, x))
        if self.spread.statistic == "variance":
            return variance.scaled(step**2)
        return Box(np.sqrt(variance.low), np.sqrt(variance.high)).scaled(step)

    def _of_pairs(self, x: Sums, y: Sums, step_x: float, step_y: float) -> Box:
        match self.spread.statistic:
            case "covariance":
                most = self._most(x, y)
                return self._covariance(x, y).times(self.factor).held(-most, most).scaled(step_x * step_y)
            case "correlation":
                return self._correlation(x, y)
            case "determination":
                low, high = self._correlation(x, y)
                least = np.where((low <= 0) & (high >= 0), 0.0, np.minimum(low**2, high**2))
                return Box(least, np.maximum(low**2, high**2))
            case "slope":
                return self._slope(x, y).scaled(step_y / step_x)
            case "intercept":
                fall, mean = self._slope(x, y).times(self._mean(x)), self._mean(y)
                return Box(mean.low - fall.high, mean.high - fall.low).scaled(step_y)
            case _:
                raise InternalError(f"a {self.spread.statistic} of two values was planned")

    def _most(self, x: Sums, y: Sums) -> float:
        """The largest covariance of two values (Popoviciu 1935): of a sample, twice that, at two rows."""
        return self._half_widths(x, y) * (2 if self.spread.sample else 1)

    def _mean(self, sums: Sums) -> Box:
        lower, upper = float(sums.kind.lower or 0), float(sums.kind.upper or 0)
        low, high = self.boxes[sums.total].times(self.inverse)
        wide = self.slack * max(abs(lower), abs(upper))
        return Box(low + sums.offset - wide, high + sums.offset + wide).held(lower, upper)

    def _variance(self, sums: Sums) -> Box:
        """half + T·t − A²·t² over the box, t = 1/n: for each t it rises with T and falls with |A|."""
        if sums.square is None:
            raise InternalError("a variance without squares was planned")
        total, squares = self.boxes[sums.total], self.boxes[sums.square]
        farthest = np.maximum(np.abs(total.low), np.abs(total.high)) ** 2
        nearest = np.where((total.low <= 0) & (total.high >= 0), 0.0, np.minimum(total.low**2, total.high**2))
        high = sums.half + self._largest(squares.high, -nearest)
        low = sums.half - self._largest(-squares.low, farthest)
        wide = self.slack * sums.reach**2
        return Box(low - wide, high + wide).held(0.0, self._half_widths(sums, sums))

    def _covariance(self, x: Sums, y: Sums) -> Box:
        """P·t − A·B·t² over the box: for each t it rises with P and falls with A·B."""
        if self.spread.product is None:
            raise InternalError("a covariance without products was planned")
        product, both = self.boxes[self.spread.product], self.boxes[x.total].times(self.boxes[y.total])
        high, low = self._largest(product.high, -both.low), -self._largest(-product.low, both.high)
        wide, most = self.slack * x.reach * y.reach, self._half_widths(x, y)
        return Box(low - wide, high + wide).held(-most, most)

    def _half_widths(self, x: Sums, y: Sums) -> float:
        width_x, width_y = ((sums.kind.upper or 0) - (sums.kind.lower or 0) for sums in (x, y))
        return width_x / 2 * (width_y / 2)

    def _largest(self, linear: Floats, quadratic: Floats) -> Floats:
        """The largest linear·t + quadratic·t² over t = 1/n: at an end, or at the vertex."""
        with np.errstate(divide="ignore", invalid="ignore"):
            vertex = np.nan_to_num(-linear / (2 * quadratic), nan=0.0, posinf=0.0, neginf=0.0)
        tried = (self.inverse.low, self.inverse.high, np.clip(vertex, self.inverse.low, self.inverse.high))
        return np.asarray(np.maximum.reduce([linear * t + quadratic * t**2 for t in tried]))

    def _correlation(self, x: Sums, y: Sums) -> Box:
        variances = self._variance(x).times(self._variance(y))
        deviations = Box(np.sqrt(variances.low), np.sqrt(variances.high))
        return _quotient(self._covariance(x, y), deviations, known=self.slack > 0).held(-1.0, 1.0)

    def _slope(self, x: Sums, y: Sums) -> Box:
        return _quotient(self._covariance(x, y), self._variance(x), known=False)


def _quotient(above: Box, below: Box, *, known: bool) -> Box:
    """All quotients by what is not negative; NaN where that may be zero, unless bounds of the quotient are `known`."""
    few, many = np.maximum(below.low, _TINY), np.maximum(below.high, _TINY)
    with np.errstate(over="ignore"):  # an end that is infinite holds everything
        low = np.where(above.low >= 0, above.low / many, above.low / few)
        high = np.where(above.high >= 0, above.high / few, above.high / many)
    unknown = (below.low <= 0) & (not known)
    return Box(np.where(unknown, np.nan, low), np.where(unknown, np.nan, high))


@dataclass(frozen=True, slots=True)
class AddedNoise:
    """The noise of a sum of `times` numbers that were released with the same noise."""

    noise: Geometric | RoundedGaussian
    times: int

    def interval(self, confidence: Number) -> int:
        """A w such that |sum of the noises| ≤ w with at least this probability.

        Geometric noise: for every 0 < λ < 1/t, P(S ≥ s) ≤ E[e^(λK)]^n·e^(−λs) (Chernoff), where E[e^(λK)] =
        (1 − q)²/((1 − qe^λ)(1 − qe^−λ)) with q = e^(−1/t); both sides have half of the failure probability. Gaussian
        noise: n numbers that were rounded by at most ½ each are within n/2 of one Gaussian number of deviation σ√n.
        """
        tail = failure_probability(confidence)
        if self.times == 1:
            return self.noise.interval(confidence)
        if not self.times:
            return 0
        if isinstance(self.noise, Geometric):
            apart = self.times * self.noise.interval(1 - tail / self.times)  # each within its own width
            return min(apart, _chernoff(float(self.noise.scale), self.times, float(tail)))
        root = Fraction(ceil(self.times**0.5 * 10**6) + 1, 10**6)
        return rounded_width(self.noise.sigma * root, tail) + ceil(self.times / 2) + 1


@cache
def _chernoff(scale: float, times: int, tail: float) -> int:
    """The least width over many λ, each of which gives a valid one; a millionth more than floats could lose.

    1 − qe^λ = −expm1(λ − 1/t) keeps all its digits where t is large, and 1 − q would have few left, or none.
    """
    fall = 1 / scale
    widths = []
    for part in range(1, 200):
        rate = part / 200 * fall
        moment = 2 * log(-expm1(-fall)) - log(-expm1(rate - fall)) - log(-expm1(-rate - fall))
        widths.append((times * moment + log(2 / tail)) / rate)
    return ceil(min(widths) * 1.000001)


@dataclass(frozen=True, slots=True)
class Level:
    """Groups of one set of keys: the first of its cells stands for each, `cells` says how many there are.

    Groups come in the order of their first cells, which is that of their keys.
    """

    first: Steps
    group: Steps
    cells: Steps

    def totals(self, numbers: Steps) -> Steps:
        """The sums over the cells of each group."""
        sums = np.zeros(self.cells.size, np.int64)
        np.add.at(sums, self.group, numbers)
        return sums


def level_of(keys: "Sequence[pyarrow.Array]", size: int) -> Level:
    """The groups that these keys make of `size` cells; with no key, one group, of no cell where there is none.

    >>> import pyarrow as pa
    >>> level_of([pa.array(["b", "a", "b", None])], 4).cells.tolist()
    [2, 1, 1]
    """
    codes = np.zeros(size, np.int64)
    for key in keys:
        encoded: Any = key.dictionary_encode("encode")
        digits = np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
        _, codes = np.unique(codes * max(1, len(encoded.dictionary)) + digits, return_inverse=True)
    if not keys:
        return Level(np.zeros(min(1, size), np.int64), codes, np.array([size]))
    _, first, group, cells = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return Level(first[order], place[group], cells[order])
