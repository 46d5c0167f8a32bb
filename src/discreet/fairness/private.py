"""What ε does to each group: the rates of private models, trained at several ε, side by side.

Private training can cost small groups more than large ones (Bagdasaryan, Poursaeed, Shmatikov 2019). Give the labels,
predictions and groups of test rows for each ε, or a list of such outcomes, one for each of several trainings; `None`
stands for no privacy at all.

>>> from discreet.fairness.private import effect
>>> y, a = [1, 0] * 50, ["f"] * 50 + ["m"] * 50
>>> found = effect({"0.5": (y, [1] * 100, a), None: (y, y, a)})
>>> [round(one.value, 2) for one in found.rates["f"]]
[0.5, 1.0]
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData
from discreet.exact import Number, plain, printed_up, rational
from discreet.fairness.cells import Cells
from discreet.fairness.gaps import Estimate, Sampling, family, plain_gap
from discreet.fairness.metrics import Criterion, metric
from discreet.fairness.metrics import rates as metric_rates
from discreet.fairness.report import estimates
from discreet.mechanisms.mechanism import failure_probability
from discreet.report import Chart, Grid, Line, Page, Part, Text

Outcome = tuple[ArrayLike, ArrayLike, ArrayLike]
"""Labels, predictions and groups of the same rows."""


@dataclass(frozen=True, slots=True, eq=False)
class Effect:
    """A rate of each group for every ε, in rising order; the last may be without privacy (None).

    Rates are means over trainings, their limits those of one set of test rows; `runs` has the least and the largest
    rate of a training.
    """

    name: str
    epsilons: tuple[Fraction | None, ...]
    groups: tuple[str, ...]
    sizes: tuple[int, ...]
    rates: dict[str, tuple[Estimate, ...]]
    runs: dict[str, tuple[tuple[float, float], ...]]
    gaps: tuple[Estimate, ...]
    confidence: Fraction

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "rate": self.name,
            "epsilon": [None if one is None else printed_up(one) for one in self.epsilons],
            "rows": dict(zip(self.groups, self.sizes, strict=True)),
            "groups": {name: [one.as_dict() for one in found] for name, found in self.rates.items()},
            "runs": {name: [list(ends) for ends in found] for name, found in self.runs.items()},
            "gap": [one.as_dict() for one in self.gaps],
        }

    def lost(self, group: str) -> float:
        """How much lower a group's rate is at the least ε than at the largest."""
        return self.rates[group][-1].value - self.rates[group][0].value

    def chart(self) -> Chart:
        """The rate of each group against ε, with limits; without privacy as dashed lines."""
        private = [k for k, one in enumerate(self.epsilons) if one is not None]
        if not private:
            raise InvalidData("there is no ε to draw")
        at = [float(self.epsilons[k] or 0) for k in private]
        lines = []
        for name, size in zip(self.groups, self.sizes, strict=True):
            values, low, high = (
                [getattr(self.rates[name][k], end) for k in private] for end in ("value", "low", "high")
            )
            lines.append(Line(at, values, f"{name} ({size:,})", low=low, high=high))
            if self.epsilons[-1] is None:
                flat = [self.rates[name][-1].value] * 2
                lines.append(Line([min(at), max(at)], flat, f"{name}, no privacy", dashed=True))
        return Chart(f"{self.name} of each group", lines, x="ε", y=self.name, log_x=len(at) > 1)

    def page(self, title: str = "What ε does to each group") -> Page:
        """The curves, and the gap at every ε."""
        rows = []
        for k, one in enumerate(self.epsilons):
            found = [f"{self.rates[name][k]}{_between(self.runs[name][k])}" for name in self.groups]
            rows.append(("none" if one is None else plain(one), *found, str(self.gaps[k])))
        words = (
            f"Limits at {float(100 * self.confidence):g} % are those of the test rows. Another training run at the "
            "same ε comes out differently: train several times before saying that a group lost."
        )
        parts: list[Part] = [self.chart(), Grid(("ε", *self.groups, "gap"), rows), Text(words)]
        return Page(title, parts)

    def _repr_html_(self) -> str:
        return self.page().fragment()


def effect(
    outcomes: Mapping[Any, Outcome | list[Outcome]],
    *,
    rate: str = "accuracy",
    confidence: Number = "0.95",
    least: int = 1,
) -> Effect:
    """A rate of each group at every ε, from labels, predictions and groups of test rows."""
    if not outcomes:
        raise InvalidData("outcomes: there are none")
    one, rest = metric(rate), failure_probability(confidence)
    known = {None if key is None else rational(key, "epsilon", above=0): value for key, value in outcomes.items()}
    order = sorted((key for key in known if key is not None), key=float)
    epsilons: tuple[Fraction | None, ...] = (*order, *([None] if None in known else []))
    groups, counted = _counted([known[key] for key in epsilons])
    sizes = tuple(int(n) for n in counted[0][0].sum(axis=(1, 2)))
    limits, criterion = Sampling(least), Criterion(f"equal {rate}", (rate,), "")
    found, gaps, runs = [], [], []
    for tables in counted:  # training × group × label × prediction
        mean = tables.mean(axis=0)
        shares, each = family(mean, one), metric_rates(tables, one)
        found.append(estimates(shares.values[0], *(side[0] for side in limits.limits(shares, float(rest)))))
        gaps.append(plain_gap(mean, criterion, groups, limits, float(rest)).difference)
        runs.append(list(zip(each.min(axis=0).tolist(), each.max(axis=0).tolist(), strict=True)))
    rates = {name: tuple(each[g] for each in found) for g, name in enumerate(groups)}
    ends = {name: tuple(each[g] for each in runs) for g, name in enumerate(groups)}
    return Effect(rate, epsilons, groups, sizes, rates, ends, tuple(gaps), 1 - rest)


def _counted(outcomes: list[Outcome | list[Outcome]]) -> tuple[tuple[str, ...], list[Any]]:
    """The groups, and tables of label × prediction by training and group for each ε."""
    views = [
        [Cells.of_arrays(*run).by("group") for run in (runs if isinstance(runs, list) else [runs])] for runs in outcomes
    ]
    if not all(views):
        raise InvalidData("outcomes: an ε has no training")
    first = views[0][0]
    sizes = first.tables()[0].sum(axis=(1, 2))
    for view in [view for runs in views for view in runs]:
        same = view.attributes == first.attributes
        if not same or (view.tables()[0].sum(axis=(1, 2)) != sizes).any():
            raise InvalidData("outcomes: the groups differ between ε; use the same test rows for all")
    return first.attributes[0].values, [np.stack([view.tables()[0] for view in runs]) for runs in views]


def _between(ends: tuple[float, float]) -> str:
    return "" if ends[0] == ends[1] else f"; trainings {ends[0]:.3f} to {ends[1]:.3f}"
