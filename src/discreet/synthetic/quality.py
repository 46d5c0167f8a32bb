"""How near a synthetic table is to the real one, in numbers.

Whatever compares with real rows here is exact, and so for the owner's eyes only; `residuals` uses noisy marginals
alone and may be shown to anybody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.synthetic.columns.schema import Schema
from discreet.synthetic.measure.noisy_marginals import (
    Attributes,
    MarginalModel,
    Measurement,
    checked_attributes,
    checked_codes,
    checked_sizes,
    counts,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Closeness:
    """Total variation over all marginals of one order, and what an honest sample of the real rows would have."""

    order: int
    marginals: tuple[Attributes, ...]
    distances: tuple[float, ...]
    floors: tuple[float, ...]

    @property
    def mean(self) -> float:
        """The mean distance: 0 is the same, 1 is nothing in common."""
        return float(np.mean(self.distances))

    @property
    def worst(self) -> tuple[Attributes, float]:
        """The marginal that is furthest off, and how far."""
        place = int(np.argmax(self.distances))
        return self.marginals[place], self.distances[place]

    @property
    def floor(self) -> float:
        """The mean distance that drawing as many rows anew from the real table would have."""
        return float(np.mean(self.floors))

    @property
    def score(self) -> float:
        """1000·(1 − mean distance): the scale of NIST's k-marginal score, which is over triples with an area."""
        return 1000 * (1 - self.mean)


def closeness(
    real: Any, synthetic: Any, sizes: Sequence[int], order: int, *, marginals: Sequence[Attributes] | None = None
) -> Closeness:
    """The distances of all marginals of one order, or of those named. Exact: for the owner's eyes.

    >>> rows = np.array([[0, 0], [1, 1]])
    >>> found = closeness(rows, np.array([[0, 0], [1, 0]]), (2, 2), 2)
    >>> found.mean, found.worst
    (0.5, ((0, 1), 0.5))
    """
    exact = checked_sizes(sizes)
    truth, made = (_some_rows(checked_codes(codes, exact)) for codes in (real, synthetic))
    wide = integer(order, "order", at_least=1, at_most=len(exact))
    named = list(combinations(range(len(exact)), wide)) if marginals is None else list(marginals)
    chosen = tuple(checked_attributes(each, exact) for each in named)
    if not chosen or any(len(each) != wide for each in chosen):
        raise InvalidParameter("marginals", marginals, f"one or more of {wide} columns each")
    distances, floors = [], []
    for each in chosen:
        share = counts(truth, exact, each) / len(truth)
        distances.append(distance(share, counts(made, exact, each) / len(made)))
        floors.append(sampling_floor(share, len(made)))
    return Closeness(wide, chosen, tuple(distances), tuple(floors))


def distance(shares: NDArray[Any], others: NDArray[Any]) -> float:
    """Total variation: half the sum of the absolute differences of two tables of shares.

    >>> distance(np.array([0.5, 0.5]), np.array([0.25, 0.75]))
    0.25
    """
    return float(np.abs(shares - others).sum() / 2)


def sampling_floor(shares: Floats, rows: int) -> float:
    """The expected total variation between these shares and those of so many rows drawn from them.

    The mean absolute deviation of a binomial number of rows, exactly: E|X − mp| = 2·v·(1 − p)·P(X = v), where v is the
    least whole number above mp (De Moivre 1730; Johnson 1957).

    >>> round(sampling_floor(np.array([0.5, 0.5]), 1), 6), round(sampling_floor(np.array([0.5, 0.5]), 2), 6)
    (0.5, 0.25)
    """
    from scipy.special import betaln, xlog1py, xlogy

    p = shares[(shares > 0) & (shares < 1)].astype(np.float64)
    v = np.minimum(np.floor(rows * p) + 1, rows)
    ways = -np.log(rows + 1) - betaln(rows - v + 1, v + 1)
    deviation = 2 * v * (1 - p) * np.exp(ways + xlogy(v, p) + xlog1py(rows - v, -p))
    return float(deviation.sum() / (2 * rows))


@dataclass(frozen=True, slots=True)
class Residual:
    """How a fitted table meets one noisy marginal: the mean squared gap in units of the noise's variance, about 1."""

    attributes: Attributes
    misfit: float


def residuals(measurements: Sequence[Measurement], model: MarginalModel) -> tuple[Residual, ...]:
    """The misfit of each measurement, from noisy numbers alone; far above 1 means structure that was not fitted.

    >>> class Flat:
    ...     total = 4.0
    ...     def marginal(self, attributes):
    ...         return np.array([2.0, 2.0])
    >>> residuals([Measurement((0,), np.array([4, 0]), 2.0)], Flat())
    (Residual(attributes=(0,), misfit=1.0),)
    """
    results = []
    for measurement in measurements:
        gap = (model.marginal(measurement.attributes) - measurement.counts) / measurement.sigma
        results.append(Residual(measurement.attributes, float(np.mean(gap * gap))))
    return tuple(results)


@dataclass(frozen=True, slots=True)
class LostRows:
    """How many rows had a value that no code stands for, by a noisy count.

    left_out: such rows are in no marginal and in no synthetic row; else their value counts as missing.

    >>> print(LostRows("sex", 41, 10.0, left_out=True))
    sex: about 41 rows left out (95 %: 21 to 61)
    """

    column: str
    rows: int
    sigma: float
    left_out: bool

    @property
    def interval(self) -> tuple[int, int]:
        """Where the exact number is, with probability 95 %."""
        margin = ceil(1.96 * self.sigma)
        return max(0, self.rows - margin), max(0, self.rows + margin)

    def __str__(self) -> str:
        low, high = self.interval
        what = "left out" if self.left_out else "missing or of another value"
        return f"{self.column}: about {max(0, self.rows):,} rows {what} (95 %: {low:,} to {high:,})"


def lost_rows(
    schema: Schema,
    measurements: Sequence[Measurement],
    left_out: Sequence[tuple[str, int]],
    sigma: float,
    *,
    first: int = 0,
) -> tuple[LostRows, ...]:
    """What was lost, from noisy numbers alone: rows left out, and values of the columns from `first` on."""
    results = [LostRows(name, rows, sigma, left_out=True) for name, rows in left_out]
    for measured in measurements:
        place = measured.attributes[0]
        attribute = schema.attributes[place]
        if len(measured.attributes) == 1 and place >= first and attribute.missing:
            rows = int(measured.counts[attribute.known])
            results.append(LostRows(attribute.column.name, rows, measured.sigma, left_out=False))
    return tuple(results)


def area_under_curve(scores: Any, labels: Any) -> float:
    """The chance that a row with label 1 has a greater score than one with label 0; ties count half.

    >>> area_under_curve([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])
    0.75
    """
    from scipy.stats import rankdata

    values, truth = np.asarray(scores, np.float64), np.asarray(labels).astype(np.bool_)
    positives = int(truth.sum())
    if (
        values.shape != truth.shape
        or values.ndim != 1
        or not 0 < positives < len(truth)
        or not np.isfinite(values).all()
    ):
        raise InvalidData("scores and labels: expected as many finite numbers as labels 0 and 1, and both labels")
    ranks = rankdata(values)[truth].sum()
    return float((ranks - positives * (positives + 1) / 2) / (positives * (len(truth) - positives)))


def _some_rows(codes: NDArray[Any]) -> NDArray[Any]:
    if not len(codes):
        raise InvalidData("a table without rows has no shares; expected one row at least")
    return codes
