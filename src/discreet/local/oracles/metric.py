"""Whole numbers 0 … size − 1 with noise that protects near numbers more than far ones (d-privacy on a line).

Each response states two losses: `per_distance`, ε for each unit of distance, and `loss`, the plain ε-LDP of the whole
range, at most ε·(size − 1). Reports are numbers of the same range; a collector counts them with GROUP BY. The
mean is estimated unbiased in closed form; the distribution through `channel` (`inversion.invert`, `ibu`).

>>> from discreet.local.estimation.inversion import invert
>>> from discreet.local.oracles.metric import ClampedGeometric
>>> ages = ClampedGeometric(epsilon="0.5", size=4)
>>> reports = ages.randomize([0, 1, 1, 3])
>>> invert(ages.channel(), ages.tally(reports)).size
4
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_up, integer, plain, rational
from discreet.fields import Converted, Integer, Rational
from discreet.local.estimation.frequencies import Bounded, Mean, Spread
from discreet.local.oracles.oracle import CodeReports, Integers, read_tally, read_values
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import Grid, countable, regular
from discreet.mechanisms.neighbor_graph import Metric, distances
from discreet.mechanisms.optimal import geometric_channel
from discreet.mechanisms.stochastic import Label, read_labels
from discreet.noise import Entropy, accept_each, discrete_laplace, softmax, uniform_below
from discreet.noise.categorical import exponents
from discreet.noise.entropy import SYSTEM
from discreet.privacy.loss import Loss, PerDistance, Pure

Floats = NDArray[np.float64]

_MOST_SIZE = 1 << 24
_MOST_PLACES = 256


@dataclass(frozen=True, kw_only=True)
class _Line(CodeReports):
    """What responses on 0 … size − 1 have in common."""

    epsilon: Rational = Rational(at_least=Fraction(1, 10**9), at_most=100)
    size: Integer = Integer(at_least=2, at_most=_MOST_SIZE)

    @property
    def codes(self) -> int:
        """The numbers of the range."""
        return self.size

    @property
    def per_distance(self) -> PerDistance:
        """ε for each unit of distance between two numbers."""
        return PerDistance(self.epsilon, "unit", 0)

    @property
    def loss(self) -> Loss:
        """The ε-LDP of the whole range."""
        return Pure(self.epsilon * (self.size - 1))

    def estimate(self, tally: ArrayLike, *, reports: int) -> Mean:
        """The unbiased mean: the average of what each report says (`_worth`); for intervals see `Bounded`."""
        counts, count = read_tally(tally, self.size, reports, total=1)
        worth, variances = self._worth(), self._variances()
        value, most = float(counts @ worth) / count, float(variances.max())
        reach = float(worth.max() - worth.min())
        least, spread = float(variances.min()), self._spread(counts, count)
        skew = self._third() / least if least > 0 else math.inf
        evidence = Bounded(value, most, reach, count, 0.0, least, spread, skew)
        return Mean(value, most / count, count, 0.0, float(self.size - 1), evidence)

    def _spread(self, counts: Integers, count: int) -> Spread | None:
        """What the counts tell of the mean variance, where they do."""
        return None

    def _third(self) -> float:
        """An upper bound of E|φ(y) − x|³ for every x, where there is one."""
        return math.inf

    def variance(self, value: int) -> float:
        """The variance of one report's unbiased estimate where the person's number is `value`."""
        return float(self._variances()[integer(value, "value", at_least=0, at_most=self.size - 1)])

    def _worth(self) -> Floats:
        """φ with Σ_y p(y|x)·φ(y) = x for every x."""
        raise NotImplementedError

    def _variances(self) -> Floats:
        """Σ_y p(y|x)·φ(y)² − x² for every x."""
        raise NotImplementedError


class ClampedGeometric(_Line):
    """Two-sided geometric noise, P(noise = k) ∝ e^(−ε|k|), then clamped: what falls outside moves to the nearer end.

    Ghosh, Roughgarden, Sundararajan 2009: for whole numbers no other response at the same ε per unit serves any user
    better, whatever their prior and monotone loss, once they remap reports.

    Guarantee: ε-d-private for d = |x − x'|, and ε·(size − 1)-LDP.
    Proof. P(x + noise = z)/P(x' + noise = z) = e^(ε(|z − x'| − |z − x|)) ≤ e^(ε|x − x'|) by the triangle inequality;
    clamping is post-processing.

    Unbiased: let α = e^(−ε). Given that x + noise ≤ 0, how far it lies below 0 has the law ∝ α^k, whatever x is, with
    mean α/(1−α). So a report of 0 is worth −α/(1−α), one of the top as much above it, others their own number.
    Each end hides a geometric variable of variance α/(1−α)², hence Var(x) =
    α/(1−α)²·(2 − (α^x + α^(size−1−x))/(1+α)).

    >>> steps = ClampedGeometric(epsilon=1, size=5)
    >>> steps.loss, steps.channel().d_privacy("line") <= 1
    (Pure(epsilon=4), True)
    """

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One number of the range for each value."""
        true = read_values(values, self.size)
        noise = np.asarray(discrete_laplace(1 / self.epsilon, true.shape, entropy=entropy))
        return np.asarray(np.clip(true + noise, 0, self.size - 1), np.int64)

    def _worth(self) -> Floats:
        worth = np.arange(self.size, dtype=np.float64)
        beyond = 1 / np.expm1(float(self.epsilon))  # α/(1 − α)
        worth[0] -= beyond
        worth[-1] += beyond
        return worth

    def _variances(self) -> Floats:
        rate, index = float(self.epsilon), np.arange(self.size)
        alpha = exp(-rate)
        ends = np.exp(-rate * index) + np.exp(-rate * (self.size - 1 - index))
        return np.asarray(alpha / expm1(-rate) ** 2 * (2 - ends / (1 + alpha)))

    def _spread(self, counts: Integers, count: int) -> Spread | None:
        """A report is at the low end with probability α^x/(1+α): Var is α/(1−α)²·(1 + P(report at no end))."""
        unit = exp(-float(self.epsilon)) / expm1(-float(self.epsilon)) ** 2
        return Spread(unit, unit, float(counts[1:-1].sum()) / count, 1.0)

    def _third(self) -> float:
        """E|noise|³: what a report is worth, less x, is the mean of the noise given the report (Jensen)."""
        rate = float(self.epsilon)
        alpha = exp(-rate)
        return 2 * alpha * (1 + 4 * alpha + alpha**2) / ((1 + alpha) * (-expm1(-rate)) ** 3) * (1 + 1e-9)

    def channel(self) -> Channel:
        """p(report | value) for up to 1000 numbers; e^(−ε) is rounded up to a rational, by less than 2^−60."""
        return geometric_channel(self.size - 1, self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ClampedLaplace(CodeReports):
    """Laplace noise on a bounded interval of real numbers, on a grid: `ClampedGeometric` in whole steps.

    A number is taken to the nearest grid point of [lower, upper], to an end if it lies beyond; reports are numbers of
    steps from lower. `epsilon` is for each unit of the numbers themselves.

    Guarantee: e^(ε·(d + granularity)) for numbers at distance d, and ε·(upper − lower)-LDP.
    Proof. Snapping puts numbers at distance d at most ⌈d/g⌉ < d/g + 1 steps apart (`Grid.snap`), clamping no further,
    and the geometric noise has ε·g for each step.

    >>> hours = ClampedLaplace(epsilon="0.5", lower=0, upper=24, granularity="0.25")
    >>> hours.per_distance, hours.loss
    (PerDistance(epsilon=0.5, unit='unit', slack=0.25), Pure(epsilon=12))
    """

    epsilon: Rational = Rational(above=0)
    lower: Rational = Rational()
    upper: Rational = Rational()
    granularity: Converted[Number, Fraction] = Converted(lambda step, _: Grid(step).step)

    def __post_init__(self) -> None:
        for name, end in (("lower", self.lower), ("upper", self.upper)):
            steps = end / self.granularity
            if steps.denominator != 1 or abs(steps) > 2**60:
                expected = f"a multiple of the granularity {plain(self.granularity)}, at most 2^60 of them"
                raise InvalidParameter(name, plain(end), expected)
        if not self.lower < self.upper:
            raise InvalidParameter("upper", plain(self.upper), f"a number above lower = {plain(self.lower)}")
        self.geometric  # noqa: B018 - refuses what it cannot draw

    @property
    def codes(self) -> int:
        """The steps of the interval."""
        return self.geometric.size

    @property
    def geometric(self) -> ClampedGeometric:
        """The same response in steps."""
        steps = int((self.upper - self.lower) / self.granularity)
        return ClampedGeometric(epsilon=self.epsilon * self.granularity, size=steps + 1)

    @property
    def per_distance(self) -> PerDistance:
        """ε for each unit of distance; snapping may add one step."""
        return PerDistance(self.epsilon, "unit", self.granularity)

    @property
    def loss(self) -> Loss:
        """The ε-LDP of the whole interval."""
        return Pure(self.epsilon * (self.upper - self.lower))

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """A number of steps above `lower` for each number."""
        steps, first = Grid(self.granularity).snap(np.atleast_1d(regular(values, "values")), "values"), self._first
        return self.geometric.randomize(np.clip(steps - first, 0, self.geometric.size - 1), entropy=entropy)

    @property
    def _first(self) -> int:
        return int(self.lower / self.granularity)

    def estimate(self, tally: ArrayLike, *, reports: int) -> Mean:
        """The mean, unbiased for the snapped numbers; intervals include half a step of snapping."""
        mean, step, low = self.geometric.estimate(tally, reports=reports), float(self.granularity), float(self.lower)
        noise: Bounded = mean.evidence  # type: ignore[assignment]
        evidence = noise.moved(low, step, step / 2)
        return Mean(evidence.value, mean.variance * step**2, mean.reports, low, float(self.upper), evidence)

    def variance(self, value: Number) -> float:
        """The variance of one report's unbiased estimate where the person's number is `value`."""
        given = rational(value, "value", at_least=self.lower, at_most=self.upper)
        index = int((given - self.lower) / self.granularity + Fraction(1, 2))
        return self.geometric.variance(index) * float(self.granularity) ** 2

    def channel(self) -> Channel:
        """p(step | step) for up to 1000 steps."""
        return self.geometric.channel()


class ExponentialResponse(_Line):
    """The d-private exponential response on a line: p(y|x) ∝ e^(−ε|x − y|/2) over the numbers of the range.

    McSherry, Talwar 2007, scored by distance; d-privacy: Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013.
    Half of ε pays for the normalization, so `ClampedGeometric` is the better response on a line; this one never piles
    reports up at the ends, and works alike in any metric.

    Guarantee: ε-d-private for d = |x − x'|, and ε/2·(size − 1)-LDP, no less.
    Proof. With q = e^(−ε/2), p(y|x) = q^|x−y|/Z(x). q^|x−y| ≤ q^(−d)·q^|x'−y| by the triangle inequality, and summed
    over y, Z(x') ≤ q^(−d)·Z(x). For the whole range let n = size − 1 and x < x' (the rest by symmetry): Z is concave,
    so Z(x) ≥ Z(0) = Z(n), and Z(x') ≤ q^(−(n−x'))·Z(n); hence p(y|x)/p(y|x') ≤ q^(−(x'−x)−(n−x')) ≤ q^(−n), reached
    by y = x = 0 and x' = n.

    Unbiased: p is T/Z with T = q^|x−y|, whose inverse is tridiagonal, (1, 1+q², …, 1 | −q)/(1−q²) (Kac, Murdock, Szegő
    1953); so φ = T⁻¹(x·Z(x)) has Σ_y p(y|x)·φ(y) = x.

    >>> answer = ExponentialResponse(epsilon="1.386294361119890618", size=3)  # 2·ln 2
    >>> answer.channel().as_float().matrix.round(4).tolist()[1:]
    [[0.25, 0.5, 0.25], [0.1429, 0.2857, 0.5714]]
    """

    @property
    def loss(self) -> Loss:
        """The ε-LDP of the whole range: ε/2·(size − 1), for the ends have equal normalizers."""
        return Pure(self.epsilon * (self.size - 1) / 2)

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One number of the range for each value; at most about three attempts each, on average.

        Proof. Both ways draw y from a proposal and accept it with a probability that makes the product ∝ q^|x−y|:
        discrete Laplace noise, refused outside the range; or, where the range is short against 2/ε, a uniform y
        accepted with probability q^|x−y|. The first accepts at least (1 − q^size)/(1 + q), the second 1/e.
        """
        true, source = read_values(values, self.size), SYSTEM if entropy is None else entropy
        out, pending = true.copy(), np.arange(true.size)
        while pending.size:
            drawn, accepted = self._propose(true[pending], source)
            out[pending[accepted]] = drawn[accepted]
            pending = pending[~accepted]
        return out

    def _propose(self, true: Integers, entropy: Entropy) -> tuple[Integers, NDArray[np.bool_]]:
        scale = 2 / self.epsilon
        if self.size - 1 <= scale:
            drawn = np.asarray(uniform_below(self.size, true.shape, entropy=entropy), np.int64)
            return drawn, accept_each(np.abs(drawn - true), scale, entropy=entropy)
        drawn = true + np.asarray(discrete_laplace(scale, true.shape, entropy=entropy))
        return drawn, np.asarray((drawn >= 0) & (drawn < self.size))

    @property
    def _q(self) -> float:
        return exp(-float(self.epsilon) / 2)

    def _sums(self, of: Floats) -> Floats:
        """Σ_y q^|x−y|·of(y) for every x, by one pass in each direction."""
        from scipy.signal import lfilter

        rest = [1.0], [1.0, -self._q]
        forth: Floats = lfilter(*rest, of)
        back: Floats = lfilter(*rest, of[::-1])[::-1]
        return np.asarray(forth + back - of)

    def _worth(self) -> Floats:
        target = np.arange(self.size) * self._sums(np.ones(self.size))
        inner = np.full(self.size, 1 + self._q**2)
        inner[[0, -1]] = 1.0
        worth = inner * target
        worth[1:] -= self._q * target[:-1]
        worth[:-1] -= self._q * target[1:]
        return np.asarray(worth / -expm1(-float(self.epsilon)))

    def _variances(self) -> Floats:
        means = self._sums(self._worth() ** 2) / self._sums(np.ones(self.size))
        return np.maximum(means - np.arange(self.size, dtype=np.float64) ** 2, 0)

    def channel(self) -> Channel:
        """p(report | value), e^(−ε/2) rounded up to a rational by less than 2^−60: never less private."""
        countable(self.size**2, "channel", most=1_000_000)
        q = min(exp_up(-self.epsilon / 2, 64), Fraction(1))
        powers = [q**k for k in range(self.size)]
        rows = [[powers[abs(x - y)] for y in range(self.size)] for x in range(self.size)]
        return Channel(rows, inputs=range(self.size), outputs=range(self.size), normalize=True)


@dataclass(frozen=True, slots=True, init=False, eq=False)
class MetricResponse(CodeReports):
    """One of a few places, words or settings, at any distances: z with probability ∝ exp(−ε·d(x, z)/2).

    Where every place sees the same distances to all others (a ring, the discrete metric, the corners of a cube), the
    normalizer is constant and the factor ½ is dropped (Chatzikokolakis, Andrés, Bordenabe, Palamidessi 2013).

    `metric` is "discrete", "line", a matrix or a function of two labels; floats are read as the decimals they print as.

    Guarantee: P(z|x) ≤ e^(ε·d(x,x'))·P(z|x') for all x, x', z. Proof. Let N(x) = Σ_z e^(−ε·d(x,z)/2s), s such that
    |d(x,z) − d(x',z)| ≤ s·d(x,x') for all three: 1 where the triangle inequality holds, else found by looking at all
    triples. The ratio of numerators is then at most e^(ε·d(x,x')/2), and so is that of normalizers; where those are
    equal only the first remains, and ε need not be halved. Sampling is exact (`noise.softmax`).

    >>> ring = MetricResponse(range(4), lambda a, b: min(abs(a - b), 4 - abs(a - b)), epsilon=1, unit="steps")
    >>> ring.constant, round(ring.channel().d_privacy(lambda a, b: min(abs(a - b), 4 - abs(a - b))), 9)
    (True, 1.0)
    """

    labels: tuple[Label, ...]
    epsilon: Fraction
    unit: str
    constant: bool
    stretch: Fraction
    _steps: NDArray[np.object_]
    _denominator: int

    def __init__(self, labels: Iterable[Label], metric: Metric, *, epsilon: Number, unit: str) -> None:
        names = tuple(labels)
        read = read_labels(names, len(names), "place")
        if not 1 <= len(read) <= _MOST_PLACES:
            raise InvalidParameter("labels", f"{len(read)} of them", f"1 to {_MOST_PLACES}")
        steps, denominator = _whole_distances(distances(metric, read))
        fields = {
            "labels": read,
            "epsilon": rational(epsilon, "epsilon", above=0),
            "unit": PerDistance(0, unit, 0).unit,
            "constant": len({tuple(sorted(row)) for row in steps.tolist()}) == 1,
            "stretch": _stretch(steps),
            "_steps": steps,
            "_denominator": denominator,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @property
    def loss(self) -> Loss:
        """ε for each unit of distance."""
        return PerDistance(self.epsilon, self.unit, 0)

    @property
    def size(self) -> int:
        """How many places there are."""
        return len(self.labels)

    @property
    def codes(self) -> int:
        """The places."""
        return self.size

    @property
    def scale(self) -> Fraction:
        """What distances are divided by: 2s/ε, or s/ε where the normalizer is constant."""
        return (1 if self.constant else 2) * self.stretch / self.epsilon

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One report for each position in `labels`."""
        true = read_values(values, self.size)
        reports = np.empty(true.shape, np.int64)
        for index in np.unique(true):
            chosen = true == index
            count = int(np.count_nonzero(chosen))
            reports[chosen] = softmax(-self._steps[index], self._wide, count, entropy=entropy)
        return reports

    def channel(self) -> Channel:
        """The channel, to float precision."""
        weights = np.exp([-exponents(-row, self._wide) for row in self._steps])
        return Channel(weights, self.labels, self.labels, normalize=True)

    @property
    def _wide(self) -> Fraction:
        return self.scale * self._denominator


def _whole_distances(matrix: NDArray[np.generic]) -> tuple[NDArray[np.object_], int]:
    """Distances as whole numbers over one denominator, exactly."""
    rows = matrix.tolist()
    if any(value == math.inf for row in rows for value in row):
        raise InvalidParameter("metric", "an infinite distance", "finite ones", "give each part its own mechanism")
    exact = [[rational(value, "distance") for value in row] for row in rows]
    denominator = math.lcm(*(value.denominator for row in exact for value in row))
    steps = np.array([[int(value * denominator) for value in row] for row in exact], dtype=object)
    return steps, denominator


def _stretch(steps: NDArray[np.object_]) -> Fraction:
    """The least s ≥ 1 with |d(x,z) − d(x',z)| ≤ s·d(x,x') for all x, x', z."""
    worst = Fraction(1)
    for x in range(len(steps)):
        gaps = np.abs(steps - steps[x]).max(axis=1)
        for other in np.flatnonzero(gaps > steps[x]).tolist():
            if not steps[x, other]:
                raise InvalidParameter(
                    "metric", "places at distance 0 that are unequally far from a third", "a metric", "merge them"
                )
            worst = max(worst, Fraction(gaps[other], steps[x, other]))
    return worst
