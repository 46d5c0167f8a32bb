"""Limits of rates from noisy counts: of the table's own rate (noise alone), or the population's (and sampling).

A rate is p = N/D, both sums of counts. Released are Ñ and D̃, with noise of a public law on every count. For the true p,
Ñ − p·D̃ is noise alone: (1 − p)·A − p·B, where A is the noise of the cells in N and B that of the cells only in D. So
the values p for which |Ñ − p·D̃| is not too large for that law are limits that hold (Fieller 1954), also where D̃ is
small or negative: they are then wide. The laws of A and of B are powers of a characteristic function on a ring of whole
numbers; where the noise is wide, of multiples of a step of 1/24 of its scale.

For the population N is binomial given D, and its deviation is added by square-and-add (Newcombe 1998) with that of the
noise; for D stands an upper limit of it. Everything here reads released values and public settings only.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.fairness.gaps import Flags, Rates
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian

Floats = NDArray[np.float64]
Noise = Geometric | RoundedGaussian
Covers = Literal["table", "population"]

_FINE = 24.0  # steps in one scale of the noise: above, whole numbers are told apart no more finely
_GRID = 33  # values of p at which the reach of noise is computed, with lines between them
_MARGIN = 0.5  # of a step, added to that reach: lines fall short of it by up to 0.45 of a step (tests/fairness)
_PLACES = 49  # values of p at which membership is first tried
_BISECTIONS = 30
_ANGLES = 257  # values of p at which the sampling of a rate is computed
_AT_ONCE = 4096  # rates
_BEYOND = 1.0  # how far limits may lie outside [0, 1]: differences need them as they are
_EXACT = 50.0  # variance up to which binomial quantiles are exact
_FOR_SIZE = 0.1  # of alpha, for the upper limit of D
_SMALL = 0.01  # the chance that it is wrong to say that a group is large enough


@dataclass(frozen=True, slots=True)
class Noisy:
    """How sure rates of noisy counts are.

    What holds (coverage, not privacy): each interval of a table's own rate holds it with probability at least
    1 − alpha over the noise, as far as the margin covers what is lost between the places where the law is computed,
    which is tested and not proven. Intervals of the population's rate, and of differences, rest on square-and-add and
    are approximate; they are tested by coverage.

    Limits and rates of noisy counts may lie outside [0, 1]; they are shown within, but differences are computed from
    them as they are. Rates are compared whose denominator exceeds `least` by twice what noise makes (at 99 %).
    """

    noise: Noise
    covers: Covers
    least: int = 1

    def __post_init__(self) -> None:
        if self.covers not in ("table", "population"):
            raise InvalidParameter("covers", self.covers, "'table' or 'population'")

    def limits(self, rates: Rates, alpha: float) -> tuple[Floats, Floats]:
        """Lower and upper limits of every rate.

        >>> counts = Rates(("",), np.array([[30.0]]), np.array([[100.0]]))
        >>> noisy = Noisy(Geometric(epsilon=1, sensitivity=1), "table")
        >>> [round(float(side[0, 0]), 3) for side in noisy.limits(counts, 0.05)]
        [0.273, 0.325]
        """
        hits, tries = rates.hits.ravel(), rates.tries.ravel()
        low, high = np.empty_like(hits), np.empty_like(hits)
        for start in range(0, hits.size, _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            low[part], high[part] = self._limits(hits[part], tries[part], rates.parts, alpha)
        return low.reshape(rates.hits.shape), high.reshape(rates.hits.shape)

    def _limits(self, hits: Floats, tries: Floats, parts: tuple[int, int], alpha: float) -> tuple[Floats, Floats]:
        if self.covers == "table":
            up = down = _Reach(noise_reach(self.noise, *parts, alpha), None)
        else:
            share = alpha * (1 - _FOR_SIZE)
            size = np.ceil(np.maximum(tries + tail(self.noise, sum(parts), alpha * _FOR_SIZE), 1))
            sampled = _binomial_reach(size, share / 2)
            up = down = _Reach(noise_reach(self.noise, *parts, share), sampled)
        down = _Reach(down.noise[::-1], down.sampled)  # Binomial(n, 1 − p) is what is left of Binomial(n, p)
        low, high = _lower(hits, tries, up), 1 - _lower(tries - hits, tries, down)
        return low, np.maximum(low, high)

    def usable(self, rates: Rates) -> Flags:
        """Those of which it is sure that they have enough rows, and far more than noise makes."""
        return rates.tries >= max(self.least, 1) + 2 * tail(self.noise, sum(rates.parts), _SMALL)

    @property
    def ancillary(self) -> bool:
        """What is usable depends on the noise: limits of a gap must hold whichever groups come out as usable."""
        return False


@dataclass(frozen=True, slots=True, eq=False)
class _Reach:
    """How far Ñ may be above p·D̃: by noise, and by sampling (for each rate, at `_ANGLES` values of p)."""

    noise: Floats
    sampled: Floats | None

    def __call__(self, p: Floats) -> Floats:
        """p has a row for each rate. Outside [0, 1] the weights of A and B add up to more than 1."""
        whole = np.abs(1 - p) + np.abs(p)
        place = np.abs(p) / whole * (len(self.noise) - 1)
        first = np.minimum(place.astype(np.int64), len(self.noise) - 2)
        before, after = self.noise[first], self.noise[first + 1]
        away = (before + (after - before) * (place - first)) * whole
        if self.sampled is None:
            return np.asarray(away)
        place = np.arcsin(np.sqrt(np.clip(p, 0, 1))) * (2 / np.pi) * (_ANGLES - 1)
        first = np.minimum(place.astype(np.int64), _ANGLES - 2)
        ends = (np.take_along_axis(self.sampled, first + k, axis=1) for k in (0, 1))
        before, after = ends
        return np.asarray(np.hypot(away, before + (after - before) * (place - first)))


def _binomial_reach(size: Floats, alpha: float) -> Floats:
    """The quantile of Binomial(size, p) less its mean, for p = sin² of equal angles, where it changes evenly.

    By the skew-corrected normal quantile (Cornish, Fisher 1938) where the variance is large.
    """
    from scipy.special import ndtri
    from scipy.stats import binom

    p = np.broadcast_to(np.sin(np.linspace(0, np.pi / 2, _ANGLES)) ** 2, (size.size, _ANGLES))
    n = np.broadcast_to(size[:, None], p.shape)
    z, variance = float(-ndtri(alpha)), n * p * (1 - p)
    reach: Floats = z * np.sqrt(variance) + (z * z - 1) * (1 - 2 * p) / 6 + 0.5
    few = variance < _EXACT
    reach[few] = binom.ppf(1 - alpha, n[few], p[few]) - n[few] * p[few]
    return reach


def _lower(hits: Floats, tries: Floats, reach: _Reach) -> Floats:
    """The least p with Ñ − p·D̃ ≤ reach(p), not far outside [0, 1]; the estimate itself where there is none."""
    hair = 1e-9 * (1 + np.abs(hits[:, None]))

    def inside(p: Floats) -> Flags:
        return np.asarray(hits[:, None] - p * tries[:, None] <= reach(p) + hair)

    ends = -_BEYOND, 1 + _BEYOND
    guess = np.clip(np.divide(hits, tries, out=np.ones_like(hits), where=tries > 0), *ends)
    places = np.sort(np.column_stack([np.tile(np.linspace(*ends, _PLACES), (hits.size, 1)), guess]), axis=1)
    within = inside(places)
    first = np.where(within.any(axis=1), within.argmax(axis=1), -1)
    rows = np.arange(hits.size)
    high = np.where(first < 0, guess, places[rows, first])
    low = np.where(first > 0, places[rows, np.maximum(first - 1, 0)], high)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        held = inside(middle[:, None])[:, 0]
        low, high = np.where(held, low, middle), np.where(held, middle, high)
    return low  # the outer end


# The law of the noise


@lru_cache(maxsize=256)
def noise_reach(noise: Noise, inside: int, rest: int, alpha: float) -> Floats:
    """For p from 0 to 1, the least t with P(|(1 − p)·A − p·B| > t) ≤ alpha, and a margin; A and B are sums of draws.

    >>> geometric = Geometric(epsilon=1, sensitivity=1)
    >>> round(float(noise_reach(geometric, 1, 1, 0.05)[0]), 6), geometric.interval("0.95")
    (3.5, 3)
    """
    step, first, second = _ring(noise, inside, rest)
    half = np.linspace(0, 1, _GRID)[: _GRID // 2 + 1]
    rising = _quantiles(first, second, half, alpha)
    falling = _quantiles(second, first, half, alpha)
    return (np.concatenate([rising, falling[-2::-1]]) + _MARGIN) * step


def tail(noise: Noise, draws: int, alpha: float) -> float:
    """The least t with P(sum of so many draws > t) ≤ alpha.

    >>> tail(Geometric(epsilon=1, sensitivity=1), 1, 0.025)
    3.0
    """
    step, law, _ = _ring(noise, draws, 0)
    above = _above(law)
    return float(np.argmax(above <= alpha) - len(law) // 2 + (step > 1)) * step


def _ring(noise: Noise, inside: int, rest: int) -> tuple[float, Floats, Floats]:
    """Laws of two sums of draws, each centered in its array, in units of a step."""
    scale = noise.scale if isinstance(noise, Geometric) else noise.sigma
    step = max(1.0, float(scale) / _FINE)
    unit = scale / Fraction(step) if step > 1 else scale
    kind = isinstance(noise, Geometric)
    return step, _law(kind, float(unit), inside), _law(kind, float(unit), rest)


@lru_cache(maxsize=256)
def _law(geometric: bool, scale: float, draws: int) -> Floats:
    """P(sum = k) for k from −m to m: the power of the characteristic function, inverted on a ring of 2m + 1 numbers.

    Sums beyond m, with probability below 1e-12, are counted at the other end of the ring.
    """
    reach = int(np.ceil(scale * (9 * (2 * draws) ** 0.5 + 40))) + 4 if draws else 1
    size = 2 * reach + 1
    angle = 2 * np.pi * np.arange(size // 2 + 1) / size
    if geometric:
        ratio = np.exp(-1 / scale)
        wave = (1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(angle) + ratio**2)
    else:
        from scipy.special import ndtr

        reached = np.arange(-int(np.ceil(12 * scale)) - 2, int(np.ceil(12 * scale)) + 3)
        outer, inner = np.abs(reached) - 0.5, np.abs(reached) + 0.5  # a Gaussian variable, rounded
        mass = ndtr(-outer / scale) - ndtr(-inner / scale)
        wave = np.cos(np.outer(angle, reached)) @ (mass / mass.sum())
    law = np.fft.irfft(wave**draws, size)
    return np.asarray(np.clip(np.fft.fftshift(law), 0, None), np.float64)


def _above(law: Floats) -> Floats:
    """P(sum > k) for k from −m to m."""
    return np.asarray(np.maximum(np.concatenate([np.cumsum(law[::-1])[::-1][1:], [0.0]]), 0))


def _quantiles(first: Floats, second: Floats, shares: Floats, alpha: float) -> Floats:
    """For p ≤ 1/2 the least t with 2·P((1 − p)·A − p·B > t) ≤ alpha: both tails, as the law is symmetric."""
    above, middle = _above(first), len(first) // 2
    seen = np.flatnonzero(second > 1e-17)
    values, mass = seen - len(second) // 2, second[seen]
    low, high = np.full(shares.size, -1.0), np.full(shares.size, float(len(first) + len(second)))
    for _ in range(_BISECTIONS):
        t = (low + high) / 2
        need = np.floor((t[:, None] + shares[:, None] * values) / (1 - shares[:, None]) + 1e-9).astype(np.int64)
        place = need + middle
        chance = np.where(place < 0, 1.0, above[np.clip(place, 0, len(above) - 1)])
        enough = 2 * (chance @ mass) <= alpha
        low, high = np.where(enough, low, t), np.where(enough, t, high)
    return high
