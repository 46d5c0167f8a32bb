"""Totals of released groups for GROUPING SETS, ROLLUP and CUBE: measures are added up, so totals fit their parts.

The finest groups are released and nothing else; every coarser set is post-processing. What is computed from measures, a
mean or a variance, is computed from their totals.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import ceil, expm1, log
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.exact import Number
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian, rounded_width
from discreet.mechanisms.mechanism import failure_probability

if TYPE_CHECKING:
    import pyarrow

Steps = NDArray[np.int64]


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
