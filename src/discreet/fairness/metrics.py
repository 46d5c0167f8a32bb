"""Rates of a group, each a share of cells: how many of the rows in `denominator` are in `numerator`.

>>> import numpy as np
>>> from discreet.fairness.metrics import METRICS, rates
>>> table = np.array([[50, 10], [5, 35]])  # label 0: 50 predicted 0, 10 predicted 1; label 1: 5 and 35
>>> {name: round(float(rates(table, one)), 3) for name, one in METRICS.items() if "positive rate" in name}
{'true positive rate': 0.875, 'false positive rate': 0.167}
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidParameter

Floats = NDArray[np.float64]
Places = tuple[tuple[int, int], ...]
"""Cells of the 2 × 2 table, as (label, prediction)."""

_N = ((0, 0), (0, 1), (1, 0), (1, 1))


@dataclass(frozen=True, slots=True)
class Metric:
    """A share of cells, and what it means. `labeled`: it needs true labels."""

    name: str
    words: str
    numerator: Places
    denominator: Places
    labeled: bool = True

    @property
    def parts(self) -> tuple[int, int]:
        """How many cells are in the numerator, and how many only in the denominator."""
        return len(self.numerator), len(self.denominator) - len(self.numerator)


METRICS = {
    one.name: one
    for one in (
        Metric("selection rate", "predicted positive", ((0, 1), (1, 1)), _N, labeled=False),
        Metric("base rate", "truly positive", ((1, 0), (1, 1)), _N),
        Metric("accuracy", "predicted rightly", ((0, 0), (1, 1)), _N),
        Metric("error rate", "predicted wrongly", ((0, 1), (1, 0)), _N),
        Metric("true positive rate", "of the truly positive, predicted positive", ((1, 1),), ((1, 0), (1, 1))),
        Metric("false positive rate", "of the truly negative, predicted positive", ((0, 1),), ((0, 0), (0, 1))),
        Metric("true negative rate", "of the truly negative, predicted negative", ((0, 0),), ((0, 0), (0, 1))),
        Metric("false negative rate", "of the truly positive, predicted negative", ((1, 0),), ((1, 0), (1, 1))),
        Metric("precision", "of those predicted positive, truly positive", ((1, 1),), ((0, 1), (1, 1))),
        Metric("negative precision", "of those predicted negative, truly negative", ((0, 0),), ((0, 0), (1, 0))),
    )
}


@dataclass(frozen=True, slots=True)
class Criterion:
    """A demand of fairness: these rates are the same in all groups."""

    name: str
    metrics: tuple[str, ...]
    words: str

    @property
    def labeled(self) -> bool:
        """Whether it needs true labels."""
        return any(METRICS[name].labeled for name in self.metrics)


CRITERIA = {
    one.name: one
    for one in (
        Criterion("statistical parity", ("selection rate",), "P[Ŷ = 1 | A] is the same in all groups"),
        Criterion("equal opportunity", ("true positive rate",), "P[Ŷ = 1 | Y = 1, A] is the same in all groups"),
        Criterion(
            "equalized odds",
            ("true positive rate", "false positive rate"),
            "P[Ŷ = 1 | Y = y, A] is the same in all groups, for both y",
        ),
        Criterion("predictive parity", ("precision",), "P[Y = 1 | Ŷ = 1, A] is the same in all groups"),
        Criterion("equal accuracy", ("accuracy",), "P[Ŷ = Y | A] is the same in all groups"),
    )
}
CONDITIONAL = Criterion(
    "conditional parity", ("selection rate",), "P[Ŷ = 1 | A, X = x] is the same in all groups, for every stratum x"
)
CALIBRATION = Criterion(
    "calibration", ("base rate",), "P[Y = 1 | A, score] is the same in all groups, for every bin of the score"
)


def metric(name: str) -> Metric:
    """A metric by its name."""
    if name not in METRICS:
        raise InvalidParameter("metric", name, ", ".join(METRICS))
    return METRICS[name]


def shares(counts: ArrayLike, one: Metric) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """Numerators and denominators of a metric; the last two axes of `counts` are label and prediction.

    >>> [int(part) for part in shares([[50, 10], [5, 35]], METRICS["precision"])]
    [35, 45]
    """
    array = np.asarray(counts)
    hits, tries = (sum(array[..., y, p] for y, p in places) for places in (one.numerator, one.denominator))
    return np.asarray(hits), np.asarray(tries)


def rates(counts: ArrayLike, one: Metric) -> Floats:
    """The metric of each table; NaN where nobody is in its denominator."""
    hits, tries = (np.asarray(part, np.float64) for part in shares(counts, one))
    found: Floats = np.divide(hits, tries, out=np.full(hits.shape, np.nan), where=tries > 0)
    return found
