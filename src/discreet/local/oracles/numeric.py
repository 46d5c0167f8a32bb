"""The mean of one bounded number a person: one bit, a piecewise uniform report, or a mixture of the two.

A number in [lower, upper] is taken to the nearest of `steps` + 1 grid points (beyond the bounds, to the bound): index k
= 0 … steps. Reports are whole numbers; the collector keeps sums and counts of them, which add up over batches: `SELECT
sum(report), count(*)`, for `Piecewise` a sum of squares too. Everything is exact on the grid: probabilities are
rationals with e^ε rounded down, and the estimate is unbiased for the mean of the indices. Snapping moves that mean by
at most half a step, which intervals include; where the numbers lie on the grid it moves nothing.

>>> hours = Piecewise(epsilon=1, lower=0, upper=24, steps=96)
>>> int(hours.tally(hours.randomize([7.5, 8, 6.25]))[1])
3
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, exp_down, float_up, integer, plain, rational
from discreet.fields import Integer, Rational
from discreet.local.estimation.frequencies import Bounded, Mean, MeanEvidence, Spread, binomial_bounds
from discreet.local.oracles.oracle import CodeReports, Epsilon, Integers, PureLDP, read_codes, well_formed
from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import countable, finite, regular
from discreet.noise import Entropy, bernoulli, uniform_below
from discreet.noise.entropy import SYSTEM

__all__ = ["Bounded", "Hybrid", "Mean", "Piecewise", "StochasticRounding"]

_MOST_STEPS = 1 << 24
_MOST_REPORTS = 1 << 37  # sums of codes below 2^25 stay in int64
_FAR = 10**100  # bounds whose squares, with the noise, are still floats
_HYBRID_FROM = Fraction(61, 100)  # ε* of Wang et al. 2019, eq. 5, where the piecewise mechanism begins to pay


@dataclass(frozen=True, kw_only=True)
class _Numeric(CodeReports, PureLDP):
    """What the three have in common: the grid, and estimates that are affine in sums of codes."""

    epsilon: Epsilon = Epsilon()
    lower: Rational = Rational(at_least=-_FAR, at_most=_FAR)
    upper: Rational = Rational(at_least=-_FAR, at_most=_FAR)
    steps: Integer = Integer(at_least=1, at_most=_MOST_STEPS, default=1024)

    def __post_init__(self) -> None:
        if (self.upper - self.lower) * _FAR < 1:
            wanted = f"a number above lower = {plain(self.lower)} by 1e-100 at least"
            raise InvalidParameter("upper", plain(self.upper), wanted)

    @property
    def step(self) -> Fraction:
        """The distance of two grid points."""
        return (self.upper - self.lower) / self.steps

    def grid_indices(self, values: ArrayLike) -> Integers:
        """The nearest grid point of each number, 0 … steps; numbers beyond the bounds are taken to the bound."""
        array = np.atleast_1d(finite(values, "values")) if np.size(regular(values, "values")) else np.zeros(0)
        if array.ndim != 1:
            raise InvalidData("values: expected numbers on one axis")
        bounded = np.clip(array.astype(np.float64), float(self.lower), float(self.upper))
        share = (bounded / 2 - float(self.lower) / 2) / float((self.upper - self.lower) / 2)
        return np.clip(np.floor(share * self.steps + 0.5), 0, self.steps).astype(np.int64)

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One code for each number."""
        return self._draw(self.grid_indices(values), SYSTEM if entropy is None else entropy)

    def _draw(self, indices: Integers, entropy: Entropy) -> Integers:
        raise NotImplementedError

    @property
    def tally_size(self) -> int:
        """Two: a sum and a count."""
        return 2

    def tally(self, reports: ArrayLike) -> Integers:
        """The sum of the codes, and how many there are."""
        return _sum_and_count(read_codes(reports, self.codes))

    def _moment(self, index: int | Fraction) -> Fraction:
        """The variance of one report's estimate of the index, in steps²."""
        raise NotImplementedError

    def variance(self, value: Number) -> float:
        """The variance of one report's unbiased estimate where the person's number is `value`."""
        given = rational(value, "value", at_least=self.lower, at_most=self.upper)
        return float(self._moment(int((given - self.lower) / self.step + Fraction(1, 2))) * self.step**2)

    @cached_property
    def _worst(self) -> Fraction:
        """The largest variance over all indices: it is quadratic and symmetric in the index."""
        return max(self._moment(0), self._moment(self.steps // 2), self._moment((self.steps + 1) // 2))

    @property
    def influence(self) -> float:
        """What one report can move the estimated mean, times the number of reports; rounded up.

        Guarantee: whatever a share β of n reports says, it moves the estimate by at most β·influence, from what it
        would be with any other β·n reports in their index, or without them. Some sets of reports reach that.
        Proof. The estimate is the mean of n numbers, each told by one report alone, from an interval of this length. To
        replace m of them changes their sum by at most m·influence, which is reached where they told one end and now
        tell the other. To add m to n − m others moves their mean x̄ to x̄ + (m/n)·(ȳ − x̄), ȳ the mean of the m, and both
        means lie in the interval. Clipping to the bounds moves two numbers no further apart.
        """
        least, most = self._extremes
        return float_up((most - least) * self.step)

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        """The least and the greatest index that one report can tell."""
        raise NotImplementedError

    def channel(self) -> Channel:
        """p(code | index) for up to a million entries, in rationals."""
        countable((self.steps + 1) * self.codes, "channel", most=1_000_000)
        rows = [self._row(index) for index in range(self.steps + 1)]
        return Channel(rows, inputs=range(self.steps + 1), outputs=range(self.codes))

    def _row(self, index: int) -> list[Fraction]:
        raise NotImplementedError

    def _mean(self, index: Fraction, moment: Fraction, reports: int, evidence: Bounded | MeanEvidence) -> Mean:
        """The mean of indices as one of numbers; `evidence`, where it is `Bounded`, is in steps."""
        value, variance = float(self.lower + self.step * index), float(moment * self.step**2)
        if isinstance(evidence, Bounded):
            evidence = evidence.moved(float(self.lower), float(self.step), float(self.step / 2))
        return Mean(value, variance / reports, reports, float(self.lower), float(self.upper), evidence)

    @cached_property
    def _least(self) -> Fraction:
        """The least variance over all indices, which are 0 … steps; it is quadratic and symmetric in the index."""
        return min(self._moment(0), self._moment(Fraction(self.steps, 2)))


class StochasticRounding(_Numeric):
    """One bit: the number is rounded at random to one of the bounds, and that bit told by randomized response.

    Duchi, Jordan, Wainwright 2018 (section 3.2.1, one dimension). With t the truth probability, the bit is 1 with
    probability (1 − t) + (k/steps)·(2t − 1), affine in the index k, hence the unbiased estimate
    k̂ = steps·(bit − (1 − t))/(2t − 1). On [−1, 1] the variance is ((e^ε+1)/(e^ε−1))² − x².

    Guarantee: ε-LDP.
    Proof. Both bits have a probability between 1 − t and t, and t/(1 − t) ≤ e^ε because t was rounded down.

    >>> bit = StochasticRounding(epsilon=1, lower=-1, upper=1)
    >>> round(bit.variance(0), 3), bit.channel().epsilon("all") <= 1
    (4.683, True)
    """

    @cached_property
    def response(self) -> RandomizedResponse:
        """What is done with the rounded bit."""
        return RandomizedResponse.for_epsilon(epsilon=self.epsilon)

    @property
    def codes(self) -> int:
        """Two: the bits."""
        return 2

    def _draw(self, indices: Integers, entropy: Entropy) -> Integers:
        up = np.asarray(uniform_below(self.steps, indices.shape, entropy=entropy)) < indices  # with probability k/steps
        return np.asarray(self.response.release(up, entropy=entropy)).astype(np.int64)

    def estimate(self, tally: ArrayLike, *, reports: int) -> Mean:
        """The unbiased mean. Its variance is that of people who are all at the mean, the largest there can be.

        Intervals are Clopper–Pearson's for the mean probability of a 1 (`binomial_bounds`): a sum of independent coins.
        """
        ((ones, count),) = _read(tally, reports, 2)
        index = self.steps * (Fraction(ones, count) - 1 + self.response.truth) / self.response.keep
        inside = min(max(index, Fraction(0)), Fraction(self.steps))
        return self._mean(index, self._moment(inside), count, _Coins(ones, count, self))

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        away = self.steps * (1 - self.response.truth) / self.response.keep
        return -away, self.steps + away

    def _moment(self, index: int | Fraction) -> Fraction:
        p = (1 - self.response.truth) + Fraction(index) / self.steps * self.response.keep
        return p * (1 - p) * (self.steps / self.response.keep) ** 2

    def _row(self, index: int) -> list[Fraction]:
        p = (1 - self.response.truth) + Fraction(index, self.steps) * self.response.keep
        return [1 - p, p]


class Piecewise(_Numeric):
    """A report from a window of codes about the number with high probability, else from the codes outside it.

    Wang, Xiao, Yang, Zhao, Hui, Shin, Shin, Yu 2019 (section III.B), on a grid: there are N + W codes, N = `steps`, and
    index k has the window k … k + W − 1. Codes in the window have probability a, the others b, a = e^ε·b. The
    paper's window is C − 1 wide and moves by C + 1, a ratio of e^(−ε/2): W = N·e^(−ε/2), rounded, at least 1.

    Guarantee: ε-LDP for every W.
    Proof. Every code has probability a or b whatever the index, and a/b is e^ε rounded down.
    Unbiased, exactly: Σ_y y·p(y|k) = b·Σ_y y + (a − b)·Σ_{window} y, and the window's sum is W·(k + (W − 1)/2): affine
    in k with slope (a − b)·W > 0, which the estimate inverts. On [−1, 1] and fine grids the variance is the paper's
    x²/(e^(ε/2)−1) + (e^(ε/2)+3)/(3(e^(ε/2)−1)²).

    >>> wave = Piecewise(epsilon=2, lower=-1, upper=1, steps=10)
    >>> wave.window, wave.codes, wave.channel().epsilon("all")
    (4, 14, 2.0)
    """

    @cached_property
    def window(self) -> int:
        """W: how many codes are likely."""
        return max(1, round(self.steps * exp_down(-self.epsilon / 2)))

    @property
    def codes(self) -> int:
        """N + W."""
        return self.steps + self.window

    @cached_property
    def _likely(self) -> tuple[Fraction, Fraction]:
        """(a, b): the probability of a code in the window, and of one outside."""
        growth = exp_down(self.epsilon)
        outside = 1 / (self.steps + self.window * growth)
        return growth * outside, outside

    @cached_property
    def _affine(self) -> tuple[Fraction, Fraction]:
        """(c, g) with E[code | k] = c + g·k."""
        (a, b), w, m = self._likely, self.window, self.codes
        return b * m * (m - 1) / 2 + (a - b) * w * (w - 1) / 2, (a - b) * w

    def _draw(self, indices: Integers, entropy: Entropy) -> Integers:
        """In the window with probability W·a, uniformly; else one of the N codes outside, which skip over it."""
        inside = np.asarray(bernoulli(self.window * self._likely[0], indices.shape, entropy=entropy))
        near = np.asarray(uniform_below(self.window, indices.shape, entropy=entropy))
        far = np.asarray(uniform_below(self.steps, indices.shape, entropy=entropy))
        outside = np.where(far < indices, far, far + self.window)
        return np.where(inside, indices + near, outside).astype(np.int64)

    def estimate(self, tally: ArrayLike, *, reports: int) -> Mean:
        """The unbiased mean, with the variance of the worst numbers; intervals are narrower (`_spread`).

        The third number of the tally, the sum of squares, tells how far numbers are from the middle, and so their
        variance.
        """
        sums, squares = _split(tally, self._half_steps)
        ((total, count),), (shift, gain) = _read(sums, reports, self.codes), self._affine
        index = (Fraction(total, count) - shift) / gain
        reach, spread = float((self.codes - 1) / gain), self._spread(squares, count)
        terms = (float(index), float(self._worst), reach, count, 0.0, float(self._least), spread, self._skew)
        return self._mean(index, self._worst, count, Bounded(*terms))

    @property
    def _unit(self) -> int:
        """In how many half steps of codes squares are counted: one, up to 4096 codes; so sums stay in int64."""
        return -(-self.codes // 4096)

    @property
    def _half_steps(self) -> int:
        """The largest distance of a code from the middle of all, in these units."""
        return -(-(self.codes - 1) // self._unit)

    @property
    def tally_size(self) -> int:
        """Three: a sum, a count and a sum of squares."""
        return 3

    def tally(self, reports: ArrayLike) -> Integers:
        """The sum of the codes, how many there are, and the sum of their squared distances from the middle."""
        codes = read_codes(reports, self.codes)
        away = -(-np.abs(2 * codes - (self.codes - 1)) // self._unit)
        return np.append(_sum_and_count(codes), (away**2).sum(dtype=np.int64))

    def _spread(self, squares: int, count: int) -> Spread:
        """How the mean variance follows from E[T], T the squared distance of a report's estimate from the middle.

        Proof. With c the middle of all indices, the variance at index k is A + B·(k − c)², B ≥ 0, and so E[T | k] =
        A + (1 + B)·(k − c)². Hence the mean variance is A + B·(E[T] − A)/(1 + B). Distances are rounded up.
        """
        half, middle = Fraction(self.steps, 2), self._moment(Fraction(self.steps, 2))
        bend = max((self._moment(0) - middle) / half**2, Fraction(0))
        square = (Fraction(self._unit, 2) / self._affine[1]) ** 2
        mean, top = float(square * squares / count), float(square * self._half_steps**2)
        return Spread(float(middle / (1 + bend)), float(bend / (1 + bend)), mean, top)

    @cached_property
    def _skew(self) -> float:
        """An upper bound of E|k̂ − k|³ over the variance, for every index k.

        Proof. E|k̂ − k|³ is b·Σ over all codes + (a − b)·Σ over the window of |(y − c)/g − k|³. In the first sum y is
        fixed, in the second y − k is: both are sums of convex functions of k. So between two points it is at most its
        larger end; the variance, quadratic in k with its vertex in the middle, is at least its smaller end. Both are
        symmetric about the middle, up to which the points go.
        """
        points = [Fraction(self.steps * i, 64) for i in range(33)]
        thirds, variances = ([moment(k) for k in points] for moment in (self._third, self._moment))
        ends = zip(pairwise(thirds), pairwise(variances), strict=True)
        return float_up(max(max(third) / min(variance) for third, variance in ends))

    def _third(self, index: Fraction) -> Fraction:
        """E|k̂ − k|³ at an index k."""
        (a, b), (shift, gain) = self._likely, self._affine
        everywhere = _cubes(self.codes, shift + gain * index)
        return (b * everywhere + (a - b) * _cubes(self.window, shift + (gain - 1) * index)) / gain**3

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        shift, gain = self._affine
        return -shift / gain, (self.codes - 1 - shift) / gain

    def _moment(self, index: int | Fraction) -> Fraction:
        return self._square(index) - index**2

    def _square(self, index: int | Fraction) -> Fraction:
        """E[k̂²]: b·Σ over all codes + (a − b)·Σ over the window of ((y − c)/g)²."""
        (a, b), (shift, gain) = self._likely, self._affine
        window = _squares(index + self.window, shift) - _squares(index, shift)
        return (b * _squares(self.codes, shift) + (a - b) * window) / gain**2

    def _row(self, index: int) -> list[Fraction]:
        a, b = self._likely
        return [b] * index + [a] * self.window + [b] * (self.steps - index)


class Hybrid(_Numeric):
    """With probability α = 1 − e^(−ε/2) the piecewise report, else the one bit; up to ε = 0.61 always the bit.

    Wang et al. 2019, section III.C: the variance hardly depends on the number, and at worst it is below that of both
    parts. Codes 0 … N + W − 1 are those of `Piecewise`, the last two are the bits of `StochasticRounding`.

    Guarantee: ε-LDP.
    Proof. The coin that chooses is thrown without looking at the number, and each part is ε-LDP; that a report shows
    which part made it does not matter, since p(code | k) is then α or 1 − α times that part's.

    >>> both = Hybrid(epsilon=2, lower=0, upper=1, steps=8)
    >>> both.codes, both.channel().epsilon("all")
    (13, 2.0)
    """

    @cached_property
    def piecewise(self) -> Piecewise:
        """The part that reports one of many codes."""
        return Piecewise(epsilon=self.epsilon, lower=self.lower, upper=self.upper, steps=self.steps)

    @cached_property
    def rounding(self) -> StochasticRounding:
        """The part that reports a bit."""
        return StochasticRounding(epsilon=self.epsilon, lower=self.lower, upper=self.upper, steps=self.steps)

    @cached_property
    def alpha(self) -> Fraction:
        """The probability of the piecewise part."""
        return 1 - exp_down(-self.epsilon / 2) if self.epsilon > _HYBRID_FROM else Fraction(0)

    @property
    def codes(self) -> int:
        """N + W + 2."""
        return self.piecewise.codes + 2

    def _draw(self, indices: Integers, entropy: Entropy) -> Integers:
        many = np.asarray(bernoulli(self.alpha, indices.shape, entropy=entropy))
        codes, bits = self.piecewise._draw(indices, entropy), self.rounding._draw(indices, entropy)
        return np.where(many, codes, self.piecewise.codes + bits).astype(np.int64)

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which reports are codes that a device can send: where it always sends the bit, others would lie louder."""
        fine = well_formed(reports, self.codes)
        if not self.alpha:
            fine &= ~well_formed(reports, self.piecewise.codes)
        return fine

    @property
    def tally_size(self) -> int:
        """Four: a sum and a count of each part."""
        return 4

    def tally(self, reports: ArrayLike) -> Integers:
        """The sum and number of the piecewise codes, then of the bits."""
        codes, first = read_codes(reports, self.codes), self.piecewise.codes
        if not self.valid(codes).all():
            raise InvalidData("reports: expected bits alone at this ε; drop the malformed ones first (`valid`)")
        parts = codes[codes < first], codes[codes >= first] - first
        return np.concatenate([_sum_and_count(part) for part in parts])

    def estimate(self, tally: ArrayLike, *, reports: int) -> Mean:
        """The mean of what each report says: unbiased, since each part is. Variance and interval as for `Piecewise`."""
        (codes, many), (bits, few) = _read(tally, reports, self.piecewise.codes, 2)
        count = many + few
        if many and not self.alpha:
            raise InvalidData("tally: expected no piecewise codes, which no device sends at this ε")
        (shift, gain), response = self.piecewise._affine, self.rounding.response
        total = (codes - many * shift) / gain + self.steps * (bits - few * (1 - response.truth)) / response.keep
        least, most = self._extremes
        if not many and not self.alpha:
            return self.rounding.estimate([bits, few], reports=count)
        index, reach = total / count, float(most - least)
        terms = (float(index), float(self._worst), reach, count, 0.0, float(self._least))
        return self._mean(index, self._worst, count, Bounded(*terms))

    @property
    def _extremes(self) -> tuple[Fraction, Fraction]:
        bit, many = self.rounding._extremes, self.piecewise._extremes
        return (min(bit[0], many[0]), max(bit[1], many[1])) if self.alpha else bit

    def _moment(self, index: int | Fraction) -> Fraction:
        bit = self.rounding._moment(index) + index**2
        return self.alpha * self.piecewise._square(index) + (1 - self.alpha) * bit - index**2

    def _row(self, index: int) -> list[Fraction]:
        many, few = self.piecewise._row(index), self.rounding._row(index)
        return [self.alpha * p for p in many] + [(1 - self.alpha) * p for p in few]


# Evidence


@dataclass(frozen=True, slots=True)
class _Coins:
    """Bits that are 1 with mean probability (1 − truth) + keep·(mean's share of the range)."""

    ones: int
    reports: int
    of: StochasticRounding

    def confidence_bounds(self, tail: float) -> tuple[float, float]:
        """Clopper–Pearson bounds, carried over to the mean; see `binomial_bounds`."""
        of, lie, keep = self.of, float(1 - self.of.response.truth), float(self.of.response.keep)
        low, high = ((float(p) - lie) / keep for p in binomial_bounds(self.ones, self.reports, tail))
        lower, width, half = float(of.lower), float(of.upper - of.lower), float(of.step / 2)
        return lower + width * low - half, lower + width * high + half


# Sums


def _sum_and_count(codes: Integers) -> Integers:
    return np.array([codes.sum(dtype=np.int64), codes.size], np.int64)


def _squares(below: int | Fraction, shift: Fraction) -> Fraction:
    """Σ (y − shift)² over y = 0 … below − 1."""
    squares, twice = (below - 1) * below * (2 * below - 1) / Fraction(6), below * (below - 1)
    return squares - shift * twice + shift**2 * below


def _cubes(below: int, shift: Fraction) -> Fraction:
    """Σ |y − shift|³ over y = 0 … below − 1."""
    negative = min(max(ceil(shift), 0), below)
    return _signed_cubes(below, shift) - 2 * _signed_cubes(negative, shift)


def _signed_cubes(below: int, shift: Fraction) -> Fraction:
    """Σ (y − shift)³ over y = 0 … below − 1."""
    once = Fraction(below * (below - 1), 2)
    return once**2 - 3 * shift * _squares(below, Fraction(0)) + 3 * shift**2 * once - shift**3 * below


def _split(tally: ArrayLike, most: int) -> tuple[Any, int]:
    """A tally without its last number, and that: a sum of squares of whole numbers up to `most`."""
    array = regular(tally, "tally")
    if array.dtype.kind not in "iu" or array.shape != (3,):
        raise InvalidData("tally: expected 3 whole numbers, as `tally` gives them")
    squares, count = int(array[2]), int(array[1])
    if not 0 <= squares <= most**2 * max(count, 0):
        raise InvalidData("tally: expected sums that this many reports can have, as returned by `tally`")
    return array[:2], squares


def _read(tally: ArrayLike, reports: int, *codes: int) -> list[tuple[int, int]]:
    """(sum, count) for each kind of report, of which there are so many codes."""
    count, array = integer(reports, "reports", at_least=1, at_most=_MOST_REPORTS), regular(tally, "tally")
    if array.dtype.kind not in "iu" or array.shape != (2 * len(codes),):
        raise InvalidData(f"tally: expected {2 * len(codes)} whole numbers, as `tally` gives them")
    pairs = [(int(total), int(counted)) for total, counted in array.reshape(-1, 2).tolist()]
    if any(not 0 <= total <= (below - 1) * counted for (total, counted), below in zip(pairs, codes, strict=True)):
        raise InvalidData("tally: expected sums that this many reports can have, as returned by `tally`")
    if (counted_in_all := sum(counted for _, counted in pairs)) != count:
        raise InvalidParameter("reports", reports, f"{counted_in_all}, as the tally says", "count valid reports")
    return pairs
