"""The d-private mechanism of any finite metric: places, words or settings at stated distances."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, rational
from discreet.local.oracle import Integers, read_codes, read_values, well_formed
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.graph import Metric, distances
from discreet.mechanisms.stochastic import Label, read_labels
from discreet.noise import Entropy, softmax
from discreet.noise.categorical import exponents
from discreet.privacy.loss import Loss, PerDistance

_MOST_PLACES = 256


@dataclass(frozen=True, slots=True, init=False, eq=False)
class MetricResponse:
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
    def scale(self) -> Fraction:
        """What distances are divided by: 2s/ε, or s/ε where the normalizer is constant."""
        return (1 if self.constant else 2) * self.stretch / self.epsilon

    def randomize(self, values: ArrayLike, *, entropy: Entropy | None = None) -> Integers:
        """One report for each position in `labels`."""
        places = read_values(values, self.size)
        reports = np.empty(places.shape, np.int64)
        for place in np.unique(places):
            chosen = places == place
            count = int(np.count_nonzero(chosen))
            reports[chosen] = softmax(-self._steps[place], self._wide, count, entropy=entropy)
        return reports

    def valid(self, reports: ArrayLike) -> NDArray[np.bool_]:
        """Which reports could have come from this randomizer."""
        return well_formed(reports, self.size)

    def tally(self, reports: ArrayLike) -> Integers:
        """How many reports there are of each place."""
        return np.bincount(read_codes(reports, self.size), minlength=self.size).astype(np.int64)

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
