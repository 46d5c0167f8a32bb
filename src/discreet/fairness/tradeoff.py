"""What fairness costs: accuracy against the gap that is allowed, for thresholds on a score.

>>> from discreet.fairness.tradeoff import tradeoff
>>> found = tradeoff([0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0], ["f", "f", "m", "m"], ["statistical parity"])
>>> round(found.unconstrained, 3), round(found.cost("statistical parity"), 3)
(1.0, 0.25)
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.fairness.reading import coded
from discreet.fairness.repair.thresholds import Thresholds, equalize
from discreet.report import Chart, Grid, Line, Page, Text
from discreet.tables import read_table

CRITERIA = ("statistical parity", "equal opportunity", "equalized odds")


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
            name: [{"tolerance": one.tolerance, "gap": one.gap, "accuracy": one.accuracy} for one in points]
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
            Line([one.gap for one in points], [one.accuracy for one in points], name)
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
    criteria: Sequence[str] = CRITERIA,
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
    found = coded(read_table({"group": np.asarray(group)}), "group")
    sizes = np.bincount(found.codes[found.codes >= 0], minlength=len(found.values))
    small = {name: int(size) for name, size in zip(found.values, sizes, strict=True) if size < least}
    if len(small) == len(found.values):
        raise InvalidData(f"group: every group has fewer than {least} rows; ask for fewer with least")
    kept = (found.codes < 0) | (sizes[np.maximum(found.codes, 0)] >= least)  # missing ones are refused later
    return kept, small
