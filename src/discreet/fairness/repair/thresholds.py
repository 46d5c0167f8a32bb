"""A (randomized) threshold for each group, so that rates are equal and accuracy is lost as little as possible.

The rows that any repair is fitted to (`People`), and weights for them (`reweigh`), stand first.

Hardt, Price, Srebro 2016, section 3.2: the rates that a group can have by mixing thresholds on its score are the region
below its ROC curve's hull. A demand that rates be equal (or within a tolerance) and the accuracy are linear in the
mixture, so the best one is the solution of a linear program over the corners of the hulls: exact, without a grid.

>>> from discreet.fairness.repair import equalize
>>> score, label = [0.9, 0.8, 0.4, 0.7, 0.3, 0.1], [1, 1, 0, 1, 0, 0]
>>> fitted = equalize(score, label, ["f", "f", "f", "m", "m", "m"], criterion="equalized odds")
>>> round(fitted.accuracy, 6), round(fitted.gap, 6)
(1.0, 0.0)
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InternalError, InvalidData, InvalidParameter
from discreet.exact import Number, rational
from discreet.fairness.cells import CRITERIA, Criterion
from discreet.fairness.column_codes import classes, coded
from discreet.fairness.column_codes import numbers as read_numbers
from discreet.noise import Entropy
from discreet.tables import read_table

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
LINEAR = ("statistical parity", "equal opportunity", "equalized odds", "equal accuracy")
"""Criteria whose rates are averages over predictions, so that mixing predictors mixes the rates."""


@dataclass(frozen=True, slots=True, eq=False)
class People:
    """Labels 0 and 1, group of each row as a place among `groups`."""

    label: Codes
    group: Codes
    groups: tuple[str, ...]

    @classmethod
    def of(cls, label: ArrayLike, group: ArrayLike) -> "People":
        """From arrays; nothing may be missing.

        >>> People.of([True, False], ["m", "f"]).group.tolist()
        [1, 0]
        """
        arrow = read_table({"label": np.asarray(label), "group": np.asarray(group)})
        truth = classes([coded(arrow, "label")], [])[0][0]
        result = coded(arrow, "group")
        if not len(truth) or (truth < 0).any() or (result.codes < 0).any():
            raise InvalidData("labels and groups: a value is missing, or there are none; leave such rows out")
        return cls(truth, result.codes, result.values)

    def shares(self, criterion: Criterion) -> list[tuple[NDArray[np.bool_], str]]:
        """For each rate of a criterion, which rows are in its denominator; and the rate's name."""
        parts = {"true positive rate": self.label == 1, "false positive rate": self.label == 0}
        everybody = np.ones(len(self.label), bool)
        return [(parts.get(name, everybody), name) for name in criterion.metrics]


def linear(name: str) -> Criterion:
    """A criterion that repairs can close.

    >>> linear("equalized odds").metrics
    ('true positive rate', 'false positive rate')
    """
    if name not in LINEAR:
        raise InvalidParameter("criterion", name, ", ".join(LINEAR))
    return CRITERIA[name]


def scores_of(score: ArrayLike, rows: int) -> Floats:
    """Finite scores, as many as there are rows."""
    result = read_numbers(read_table({"score": np.asarray(score)}), "score")
    if len(result) != rows or np.isnan(result).any():
        raise InvalidData(f"scores: expected {rows} numbers, none missing")
    return result


def places_of(group: ArrayLike, known: tuple[str, ...]) -> Codes:
    """The place of each row's group among known ones."""
    result = coded(read_table({"group": np.asarray(group)}), "group")
    strange = [value for value in result.values if value not in known]
    if strange or (result.codes < 0).any():
        raise InvalidParameter("group", strange[0] if strange else None, f"one of {', '.join(known)}")
    of_value = np.array([known.index(value) for value in result.values], np.int64)
    placed: Codes = of_value[result.codes]
    return placed


def draw_predictions(chances: Floats, entropy: Any = None) -> Codes:
    """Predictions 0 and 1 with the given chances of 1."""
    from discreet.fairness.bootstrap import uniforms

    return (uniforms(len(chances), entropy) < chances).astype(np.int64)


def reweigh(label: ArrayLike, group: ArrayLike) -> Floats:
    """Weights under which label and group are independent (Kamiran, Calders 2012), for training of any kind.

    They are P(A = a)·P(Y = y)/P(A = a, Y = y) for each row; give them as `sample_weight`.

    Weighted, each group has the same share of positive labels. A label that does not occur in a group gets no weight,
    since no row has it: then the shares stay apart.

    >>> reweigh([1, 1, 0, 1, 0, 0], ["f", "f", "f", "m", "m", "m"]).round(3).tolist()
    [0.75, 0.75, 1.5, 1.5, 0.75, 0.75]
    """
    people = People.of(label, group)
    counts = np.zeros((len(people.groups), 2))
    np.add.at(counts, (people.group, people.label), 1)
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0) / counts.sum()
    weights = np.divide(expected, counts, out=np.zeros_like(counts), where=counts > 0)
    result: Floats = weights[people.group, people.label]
    return result


_DUST = 1e-9


@dataclass(frozen=True, slots=True)
class Rule:
    """A lottery of thresholds: a score of at least the threshold drawn is positive. −inf: all are, inf: none is."""

    thresholds: tuple[float, ...]
    chances: tuple[float, ...]

    def probabilities(self, score: Floats) -> Floats:
        """The chance of each score to be predicted positive."""
        parts = [chance * (score >= cut) for cut, chance in zip(self.thresholds, self.chances, strict=True)]
        return np.asarray(np.clip(np.sum(parts, axis=0), 0, 1), np.float64)

    def text(self) -> str:
        """The rule in words.

        >>> Rule((0.5,), (1.0,)).text(), Rule((0.5, float("-inf")), (0.75, 0.25)).text()
        ('score ≥ 0.5', '0.75 × score ≥ 0.5 + 0.25 × everybody')
        """
        if len(self.thresholds) == 1:
            return _cut(self.thresholds[0])
        parts = zip(self.thresholds, self.chances, strict=True)
        return " + ".join(f"{chance:.3g} × {_cut(cut)}" for cut, chance in parts)


@dataclass(frozen=True, slots=True, eq=False)
class Thresholds:
    """A rule for each group; `accuracy` and `gap` are those expected on the rows it was fitted to."""

    criterion: str
    tolerance: float
    rules: dict[str, Rule]
    accuracy: float
    gap: float

    def probabilities(self, score: ArrayLike, group: ArrayLike) -> Floats:
        """The chance of each row to be predicted positive."""
        place = places_of(group, tuple(self.rules))
        values = scores_of(score, len(place))
        result = np.zeros(len(values))
        for k, rule in enumerate(self.rules.values()):
            result[place == k] = rule.probabilities(values[place == k])
        return result

    def predict(self, score: ArrayLike, group: ArrayLike, *, entropy: Entropy | None = None) -> Codes:
        """Predictions 0 and 1: where a rule is a lottery, it is drawn for each row."""
        return draw_predictions(self.probabilities(score, group), entropy)

    def text(self) -> str:
        """The rules in words."""
        head = f"{self.criterion}: gap {round(self.gap, 9):.3g}, accuracy {self.accuracy:.4f} on the rows fitted to"
        return "\n".join([head, *(f"  {name}: {rule}" for name, rule in self.words())])

    def words(self) -> list[tuple[str, str]]:
        """Each group with its rule."""
        return [(name, rule.text()) for name, rule in self.rules.items()]


def equalize(
    score: ArrayLike, label: ArrayLike, group: ArrayLike, *, criterion: str, tolerance: Number = 0
) -> Thresholds:
    """The most accurate rules with a gap of at most `tolerance` by a criterion, on the rows given.

    Criteria are statistical parity, equal opportunity, equalized odds and equal accuracy.
    """
    people, wanted = People.of(label, group), linear(criterion)
    slack = float(rational(tolerance, "tolerance", at_least=0, at_most=1))
    hulls = [_Hull.of(scores_of(score, len(people.label)), people, k) for k in range(len(people.groups))]
    mixed = _solved(hulls, wanted, slack)
    rules = {}
    for name, hull, chances in zip(people.groups, hulls, mixed, strict=True):
        kept = np.flatnonzero(chances > _DUST)
        share = chances[kept] / chances[kept].sum()
        rules[name] = Rule(tuple(map(float, hull.cuts[kept])), tuple(map(float, share)))
    return Thresholds(criterion, slack, rules, _accuracy(hulls, mixed), _gap(hulls, mixed, wanted))


@dataclass(frozen=True, slots=True, eq=False)
class _Hull:
    """The corners of the hull of a group's ROC curve: threshold, true positives and false positives there."""

    cuts: Floats
    true: Floats
    false: Floats
    positives: float
    negatives: float

    @classmethod
    def of(cls, score: Floats, people: People, group: int) -> "_Hull":
        mine = people.group == group
        values, truth = score[mine], people.label[mine]
        order = np.argsort(-values, kind="stable")
        last = np.append(np.flatnonzero(np.diff(values[order])), len(order) - 1)  # the last row of each score
        true, false = (np.append(0, np.cumsum(truth[order] == y)[last]).astype(np.float64) for y in (1, 0))
        cuts = np.concatenate([[np.inf], values[order][last[:-1]], [-np.inf]])
        corners = _upper(false, true)
        return cls(cuts[corners], true[corners], false[corners], float(true[-1]), float(false[-1]))

    def rate(self, name: str) -> Floats | None:
        """A rate at each corner; None where nobody is in its denominator."""
        everybody = self.positives + self.negatives
        match name:
            case "selection rate":
                return (self.true + self.false) / everybody
            case "true positive rate":
                return self.true / self.positives if self.positives else None
            case "false positive rate":
                return self.false / self.negatives if self.negatives else None
        return self.right / everybody

    @property
    def right(self) -> Floats:
        """Rows predicted rightly at each corner."""
        return self.true + self.negatives - self.false


def _upper(x: Floats, y: Floats) -> NDArray[np.int64]:
    """The corners of the upper hull of points that rise in both, the first and last among them (Andrew 1979)."""
    kept: list[int] = []
    for k, (a, b) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        while len(kept) > 1:
            p, q = kept[-2], kept[-1]
            if (x[q] - x[p]) * (b - y[p]) < (y[q] - y[p]) * (a - x[p]):
                break
            kept.pop()
        kept.append(k)
    return np.array(kept)


def _solved(hulls: list[_Hull], criterion: Criterion, slack: float) -> list[Floats]:
    """Maximize the rows predicted rightly, with lo ≤ rate ≤ lo + slack in each group, lo a variable of each rate."""
    from scipy.optimize import linprog

    sizes = [len(hull.cuts) for hull in hulls]
    starts, rates = np.cumsum([0, *sizes]), len(criterion.metrics)
    width = int(starts[-1]) + rates
    upper, limits = [], []
    for m, name in enumerate(criterion.metrics):
        for g, hull in enumerate(hulls):
            rate = hull.rate(name)
            if rate is None:
                continue
            row = np.zeros(width)
            row[starts[g] : starts[g + 1]], row[starts[-1] + m] = rate, -1
            upper += [row, -row]
            limits += [slack, 0.0]
    once = np.zeros((len(hulls), width))
    for g in range(len(hulls)):
        once[g, starts[g] : starts[g + 1]] = 1
    total = sum(hull.positives + hull.negatives for hull in hulls)
    worth = np.concatenate([*(-hull.right / total for hull in hulls), np.zeros(rates)])
    bounds = [(0, 1)] * int(starts[-1]) + [(0, 1)] * rates
    result = linprog(worth, A_ub=np.array(upper), b_ub=limits, A_eq=once, b_eq=np.ones(len(hulls)), bounds=bounds)
    if result.x is None:
        raise InternalError("no thresholds were found, though always and never predicting positive are equal")
    return [np.clip(result.x[starts[g] : starts[g + 1]], 0, 1) for g in range(len(hulls))]


def _accuracy(hulls: list[_Hull], mixed: list[Floats]) -> float:
    right = sum(float(hull.right @ chances) for hull, chances in zip(hulls, mixed, strict=True))
    return right / sum(hull.positives + hull.negatives for hull in hulls)


def _gap(hulls: list[_Hull], mixed: list[Floats], criterion: Criterion) -> float:
    widest = 0.0
    for name in criterion.metrics:
        known = [(hull.rate(name), chances) for hull, chances in zip(hulls, mixed, strict=True)]
        values = [float(rate @ chances) for rate, chances in known if rate is not None]
        widest = max(widest, max(values, default=0.0) - min(values, default=0.0))
    return widest


def _cut(threshold: float) -> str:
    if np.isinf(threshold):
        return "nobody" if threshold > 0 else "everybody"
    return f"score ≥ {threshold:.4g}"
