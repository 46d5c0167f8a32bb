"""A mean that was estimated from reports, and the evidence that its limits rest on."""

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from discreet.exact import Number, float_down
from discreet.local.frequencies import mean_reach
from discreet.mechanisms.mechanism import doubt


class Evidence(Protocol):
    """What was counted, and how far from the truth that can be."""

    def limits(self, tail: float) -> tuple[float, float]:
        """Limits that miss the mean of the grid points with probability at most `tail`."""
        ...


@dataclass(frozen=True, slots=True)
class Mean:
    """An unbiased mean, so it may lie beyond the bounds; `variance` is an upper bound of its variance.

    The variance is that of the noise for the people who reported; sampling them from more people is not in it.

    >>> from discreet.local.numeric import StochasticRounding
    >>> told = StochasticRounding(epsilon=1, lower=0, upper=1).estimate([55, 100], reports=100)
    >>> round(told.value, 3), [round(end, 2) for end in told.interval("0.95")]
    (0.608, [0.38, 0.82])
    """

    value: float
    variance: float
    reports: int
    lower: float
    upper: float
    evidence: Evidence

    def interval(self, confidence: Number) -> tuple[float, float]:
        """Limits, within the bounds, of the true mean; proven for any number of reports, snapping included."""
        low, high = self.evidence.limits(float_down(doubt(confidence)))
        return min(max(low, self.lower), self.upper), max(min(high, self.upper), self.lower)


@dataclass(frozen=True, slots=True)
class Spread:
    """Reports that tell their own variance: its mean is base + slope·E[T], T in [0, top] with this observed mean."""

    base: float
    slope: float
    mean: float
    top: float

    def limit(self, reports: int, tail: float) -> float:
        """An upper limit of the mean variance that is too low with probability at most `tail`.

        Proof. E[T²] ≤ top·E[T], so the mean of T is below E[T] − s with probability at most exp(−n·s²/(2·top·E[T]))
        (Maurer 2003, for terms ≥ 0). With s such that this is `tail`, √E[T] ≤ √c + √(c + mean), c = top·ln(1/tail)/2n.

        >>> round(Spread(base=1.0, slope=0.5, mean=2.0, top=4.0).limit(10**6, 0.01), 4)
        2.0043
        """
        c = self.top * math.log(1 / tail) / (2 * reports)
        return self.base + self.slope * (math.sqrt(c) + math.sqrt(c + self.mean)) ** 2


@dataclass(frozen=True, slots=True)
class Bounded:
    """The mean of independent terms of bounded variance, each within `reach` of its expectation.

    `variance` is the largest that there can be, `least` the smallest; `spread` is what the reports tell of it.

    >>> [round(end, 4) for end in Bounded(0.5, 0.25, 1.0, 10_000, 0.0).limits(0.05)]
    [0.4863, 0.5137]
    """

    value: float
    variance: float
    reach: float
    reports: int
    slack: float
    least: float = 0.0
    spread: Spread | None = None

    def limits(self, tail: float) -> tuple[float, float]:
        """Limits by `mean_reach`; where reports tell their variance, a tenth of the tail is spent on that."""
        variance, rest = self.variance, tail
        if self.spread is not None:
            variance, rest = min(variance, self.spread.limit(self.reports, tail / 10)), 0.9 * tail
        away = float(mean_reach(np.asarray(variance), self.reach, self.reports, rest, self.least)) + self.slack
        return self.value - away, self.value + away

    def moved(self, start: float, step: float, slack: float) -> "Bounded":
        """The same of start + step·(the terms)."""
        square = step**2
        spread = None
        if self.spread is not None:
            spread = replace(self.spread, base=self.spread.base * square, slope=self.spread.slope * square)
        value, reach = start + step * self.value, self.reach * step
        return Bounded(value, self.variance * square, reach, self.reports, slack, self.least * square, spread)
