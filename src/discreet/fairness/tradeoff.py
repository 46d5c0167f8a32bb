"""What fairness costs in accuracy, and what privacy costs each group.

>>> from discreet.fairness.tradeoff import tradeoff
>>> result = tradeoff([0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0], ["f", "f", "m", "m"], ["statistical parity"])
>>> round(result.unconstrained, 3), round(result.cost("statistical parity"), 3)
(1.0, 0.25)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, plain, printed_up, rational
from discreet.fairness.bootstrap import uniforms
from discreet.fairness.cells import Cells, Criterion, metric
from discreet.fairness.cells import rates as metric_rates
from discreet.fairness.column_codes import coded
from discreet.fairness.disparity_report import estimates
from discreet.fairness.gaps import Estimate, Sampling, family, plain_gap
from discreet.fairness.repair.thresholds import Thresholds, equalize
from discreet.mechanisms.mechanism import failure_probability
from discreet.noise import DeterministicEntropy, Entropy
from discreet.report import Chart, Grid, Line, Page, Part, Text
from discreet.tables import read_table

_COMPARED = ("statistical parity", "equal opportunity", "equalized odds")


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """By criterion, the best thresholds for each gap allowed, from the least to that of no constraint at all."""

    curves: dict[str, tuple[Thresholds, ...]]
    left_out: dict[str, int] = field(default_factory=dict)
    """Groups too small to be compared, with their numbers of rows: no rule was fitted to them."""

    @property
    def unconstrained(self) -> float:
        """The accuracy without any constraint."""
        return max(points[-1].accuracy for points in self.curves.values())

    def cost(self, criterion: str) -> float:
        """The accuracy that closing the gap costs."""
        if criterion not in self.curves:
            raise InvalidParameter("criterion", criterion, ", ".join(self.curves))
        return self.unconstrained - self.curves[criterion][0].accuracy

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        curves: dict[str, Any] = {
            name: [{"tolerance": point.tolerance, "gap": point.gap, "accuracy": point.accuracy} for point in points]
            for name, points in self.curves.items()
        }
        return curves | ({"left out": self.left_out} if self.left_out else {})

    def text(self) -> str:
        """The rules at a gap of zero, and what they are compared with."""
        rules = [points[0].text() for points in self.curves.values()]
        return "\n".join([*rules, f"without constraint: accuracy {self.unconstrained:.4f}", *self._small()])

    def _small(self) -> list[str]:
        """What is said of groups that were left out."""
        return [f"left out, too few rows: {name} ({rows})" for name, rows in self.left_out.items()]

    def chart(self) -> Chart:
        """The curves."""
        lines = [
            Line([point.gap for point in points], [point.accuracy for point in points], name)
            for name, points in self.curves.items()
        ]
        return Chart("Accuracy against the gap allowed", lines, x="gap", y="accuracy")

    def page(self, title: str = "What fairness costs") -> Page:
        """The curves, and the rules at a gap of zero."""
        rows = [(name, points[-1].gap, points[-1].accuracy, points[0].accuracy) for name, points in self.curves.items()]
        header = ("criterion", "gap of the most accurate", "its accuracy", "accuracy at gap 0")
        rules = [(name, *rule) for name, points in self.curves.items() for rule in points[0].words()]
        words = "Rules are fitted to these rows; on others a gap of zero holds up to chance."
        told = Grid(
            ("criterion", "group", "positive"), rules, "The rules at a gap of 0: thresholds, or a lottery of them."
        )
        small = [Text(line) for line in self._small()]
        return Page(title, [self.chart(), Grid(header, rows), told, Text(words), *small])

    def _repr_html_(self) -> str:
        return self.page().fragment()


def tradeoff(
    score: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    criteria: Sequence[str] = _COMPARED,
    *,
    steps: int = 11,
    least: int = 1,
) -> Tradeoff:
    """The best accuracy of thresholds on a score for `steps` gaps from 0 to that of the most accurate thresholds.

    Groups of fewer than `least` rows are left out: the rates of a few rows are chance, and equalizing them would cost
    everybody accuracy for nothing.
    """
    kept, left_out = _large(group, integer(least, "least", at_least=1))
    given = np.asarray(score)[kept], np.asarray(label)[kept], np.asarray(group)[kept]
    curves = {}
    for name in criteria:
        free = equalize(*given, criterion=name, tolerance=1)
        allowed = np.linspace(0, free.gap, max(2, steps))[:-1]
        points = [equalize(*given, criterion=name, tolerance=float(t)) for t in allowed]
        curves[name] = (*points, free)
    return Tradeoff(curves, left_out)


def _large(group: ArrayLike, least: int) -> tuple[NDArray[np.bool_], dict[str, int]]:
    """Which rows are in groups of at least `least` rows, and the sizes of the other groups."""
    result = coded(read_table({"group": np.asarray(group)}), "group")
    sizes = np.bincount(result.codes[result.codes >= 0], minlength=len(result.values))
    small = {name: int(size) for name, size in zip(result.values, sizes, strict=True) if size < least}
    if len(small) == len(result.values):
        raise InvalidData(f"group: every group has fewer than {least} rows; ask for fewer with least")
    kept = (result.codes < 0) | (sizes[np.maximum(result.codes, 0)] >= least)  # missing ones are refused later
    return kept, small


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
            "epsilon": [None if epsilon is None else printed_up(epsilon) for epsilon in self.epsilons],
            "rows": dict(zip(self.groups, self.sizes, strict=True)),
            "groups": {name: [estimate.as_dict() for estimate in result] for name, result in self.rates.items()},
            "runs": {name: [list(ends) for ends in result] for name, result in self.runs.items()},
            "gap": [estimate.as_dict() for estimate in self.gaps],
        }

    def lost(self, group: str) -> float:
        """How much lower a group's rate is at the least ε than at the largest."""
        return self.rates[group][-1].value - self.rates[group][0].value

    def chart(self) -> Chart:
        """The rate of each group against ε, with limits; without privacy as dashed lines."""
        private = [k for k, epsilon in enumerate(self.epsilons) if epsilon is not None]
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
        for k, epsilon in enumerate(self.epsilons):
            result = [f"{self.rates[name][k]}{_between(self.runs[name][k])}" for name in self.groups]
            rows.append(("none" if epsilon is None else plain(epsilon), *result, str(self.gaps[k])))
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
    """A rate of each group at every ε, from labels, predictions and groups of test rows.

    Private training can cost small groups more than large ones (Bagdasaryan, Poursaeed, Shmatikov 2019). Give such
    outcomes for each ε, or a list of them, one for each of several trainings; `None` stands for no privacy at all.

    >>> y, a = [1, 0] * 50, ["f"] * 50 + ["m"] * 50
    >>> result = effect({"0.5": (y, [1] * 100, a), None: (y, y, a)})
    >>> [round(rate.value, 2) for rate in result.rates["f"]]
    [0.5, 1.0]
    """
    if not outcomes:
        raise InvalidData("outcomes: there are none")
    measure, rest = metric(rate), failure_probability(confidence)
    known = {None if key is None else rational(key, "epsilon", above=0): value for key, value in outcomes.items()}
    order = sorted((key for key in known if key is not None), key=float)
    epsilons: tuple[Fraction | None, ...] = (*order, *([None] if None in known else []))
    groups, counted = _tables([known[key] for key in epsilons])
    sizes = tuple(int(n) for n in counted[0][0].sum(axis=(1, 2)))
    limits, criterion = Sampling(least), Criterion(f"equal {rate}", (rate,), "")
    result, gaps, runs = [], [], []
    for tables in counted:  # training × group × label × prediction
        mean = tables.mean(axis=0)
        shares, each = family(mean, measure), metric_rates(tables, measure)
        result.append(estimates(shares.values[0], *(side[0] for side in limits.limits(shares, float(rest)))))
        gaps.append(plain_gap(mean, criterion, groups, limits, float(rest)).difference)
        runs.append(list(zip(each.min(axis=0).tolist(), each.max(axis=0).tolist(), strict=True)))
    rates = {name: tuple(each[g] for each in result) for g, name in enumerate(groups)}
    ends = {name: tuple(each[g] for each in runs) for g, name in enumerate(groups)}
    return Effect(rate, epsilons, groups, sizes, rates, ends, tuple(gaps), 1 - rest)


def _tables(outcomes: list[Outcome | list[Outcome]]) -> tuple[tuple[str, ...], list[Any]]:
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


INCOMES = ("under 20", "20 to 40", "40 to 60", "60 to 80", "over 80")
SHARES = {"square": (0.1, 0.2, 0.3, 0.25, 0.15), "round": (0.3, 0.3, 0.2, 0.15, 0.05)}
"""How the two groups are spread over incomes."""
REPAYS = (0.1, 0.3, 0.6, 0.8, 0.95)
"""The chance to repay, by income, the same in both groups."""
_ROUND = 0.4  # of the people


def generated_loans(people: int = 20_000, *, entropy: Entropy | None = None) -> dict[str, Any]:
    """People with group, income, score (the chance to repay), whether they repay and whether the bank lends.

    Two groups differ in income, and the bank lends by income alone, where repayment is likelier than not. Repayment
    depends on income and on nothing else. So equals are treated equally (conditional parity given income holds), and
    yet one group gets fewer loans (statistical parity fails): equal shares of loans would cost accuracy. The same
    people each time, by default.

    >>> loans = generated_loans(people=1000)
    >>> sorted(loans), len(loans["income"])
    (['granted', 'group', 'income', 'repays', 'score'], 1000)
    """
    count = integer(people, "people", at_least=1, at_most=10_000_000)
    source = DeterministicEntropy(9) if entropy is None else entropy
    group = np.where(uniforms(count, source) < _ROUND, 1, 0)
    upto = np.cumsum([SHARES["square"], SHARES["round"]], axis=1)[group]
    income = np.minimum((uniforms(count, source)[:, None] >= upto).sum(axis=1), len(INCOMES) - 1)
    score = np.array(REPAYS)[income]
    return {
        "group": np.array(list(SHARES))[group],
        "income": np.array(INCOMES)[income],
        "score": score,
        "repays": (uniforms(count, source) < score).astype(np.int64),
        "granted": (score > 0.5).astype(np.int64),
    }


def expected_rates() -> dict[str, float]:
    """The share of each group that gets a loan, expected: what `generated_loans` comes close to.

    >>> {name: round(share, 2) for name, share in expected_rates().items()}
    {'square': 0.7, 'round': 0.4}
    """
    lends = np.array(REPAYS) > 0.5
    return {name: float(np.array(shares)[lends].sum()) for name, shares in SHARES.items()}
