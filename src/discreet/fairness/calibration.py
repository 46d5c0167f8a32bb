"""Calibration within groups: of people of one score, is the outcome as frequent in every group?

>>> from discreet.fairness.cells import Cells
>>> from discreet.fairness.calibration import calibration
>>> from discreet.fairness.gaps import Sampling
>>> table = {"y": [0, 1, 1, 1] * 50, "s": [0.25, 0.25, 0.75, 0.75] * 50, "sex": ["f", "m"] * 100}
>>> cells = Cells.of(table, label="y", score="s", threshold="0.5", group="sex", score_bins=2)
>>> found = calibration(cells.by("sex"), Sampling(), 0.05)
>>> [round(one.value, 2) for one in found.excess]
[0.0, -0.5]
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.fairness.cells import Cells
from discreet.fairness.gaps import NOTHING, Estimate, Gap, Limits, Rates, family, gap
from discreet.fairness.metrics import CALIBRATION, metric

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """How often the outcome occurs at each level of the score, by group.

    `gap` compares groups within bins. Where scores are probabilities, `excess` is each group's mean score less its base
    rate (limits: of the base rate; the scores are taken as given), and `error` the mean distance |frequency − mean
    score| over bins weighted by their rows: a description without limits, too large by chance in small groups.
    """

    bins: tuple[str, ...]
    rates: Rates  # bin × group
    low: Floats
    high: Floats
    gap: Gap
    means: Floats | None
    excess: tuple[Estimate, ...]
    error: tuple[float, ...]

    def as_dict(self, groups: tuple[str, ...]) -> dict[str, Any]:
        """As JSON can hold it."""
        told: dict[str, Any] = {"gap": self.gap.as_dict(), "bins": list(self.bins)}
        told["frequency"] = {
            name: [Estimate(*map(float, numbers)).as_dict() | {"rows": int(rows)} for *numbers, rows in zip(
                self.rates.values[:, g], self.low[:, g], self.high[:, g], self.rates.tries[:, g], strict=True)]
            for g, name in enumerate(groups)
        }  # fmt: skip
        if self.means is not None:
            told["mean_score_less_base_rate"] = {
                name: one.as_dict() for name, one in zip(groups, self.excess, strict=True)
            }
            told["mean_distance"] = {
                name: value if np.isfinite(value) else None for name, value in zip(groups, self.error, strict=True)
            }
        return told


def calibration(view: Cells, limits: Limits, doubt: float) -> Calibration:
    """The calibration of a view of the cells, on one axis of groups."""
    tables, merged = view.bin_tables()
    names = [f"{view.bins.name} {value}" for value in view.bins.values]
    rates = family(tables, metric("base rate"), merged, names)
    found = gap(CALIBRATION, [rates], view.attributes[0].values, limits, doubt)
    low, high = limits.limits(rates, doubt)
    if view.scores is None:
        return Calibration(view.bins.values, rates, low, high, found, None, (), ())
    means = np.divide(view.scores.T, rates.tries, out=np.full(rates.tries.shape, np.nan), where=rates.tries > 0)
    excess = _excess(view, limits, doubt)
    weights = rates.tries / np.maximum(rates.tries.sum(axis=0), 1)
    error = np.where(
        rates.tries.sum(axis=0) > 0, (weights * np.nan_to_num(np.abs(rates.values - means))).sum(0), np.nan
    )
    return Calibration(view.bins.values, rates, low, high, found, means, excess, tuple(map(float, error)))


def _excess(view: Cells, limits: Limits, doubt: float) -> tuple[Estimate, ...]:
    whole, merged = view.tables()
    base = family(whole, metric("base rate"), merged)
    low, high = limits.limits(base, doubt)
    scores = np.asarray(view.scores).sum(axis=1)
    return tuple(
        Estimate(float(total / n - p), float(total / n - b), float(total / n - a)) if n > 0 else NOTHING
        for total, n, p, a, b in zip(scores, base.tries[0], base.values[0], low[0], high[0], strict=True)
    )
