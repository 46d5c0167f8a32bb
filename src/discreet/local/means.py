"""A mean that was estimated from reports, and the evidence that its limits rest on."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.exact import Number, float_down
from discreet.local.frequencies import bernstein_reach
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
class Bounded:
    """The mean of independent terms of bounded variance, each within `reach` of its expectation.

    >>> [round(end, 4) for end in Bounded(0.5, 0.25, 1.0, 10_000, 0.0).limits(0.05)]
    [0.4863, 0.5137]
    """

    value: float
    variance: float
    reach: float
    reports: int
    slack: float

    def limits(self, tail: float) -> tuple[float, float]:
        """Bernstein's limits (`bernstein_reach`)."""
        away = float(bernstein_reach(np.asarray(self.variance), self.reach, self.reports, tail)) + self.slack
        return self.value - away, self.value + away
