"""What fairness costs: accuracy against the gap that is allowed, for thresholds on a score.

>>> from discreet.fairness.tradeoff import tradeoff
>>> found = tradeoff([0.9, 0.8, 0.7, 0.6], [1, 1, 1, 0], ["f", "f", "m", "m"], ["statistical parity"])
>>> round(found.unconstrained, 3), round(found.cost("statistical parity"), 3)
(1.0, 0.25)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from discreet.drawing import Chart, Grid, Line, Page, Text
from discreet.errors import InvalidParameter
from discreet.fairness.repair.thresholds import Thresholds, equalise

CRITERIA = ("statistical parity", "equal opportunity", "equalised odds")


@dataclass(frozen=True, slots=True, eq=False)
class Tradeoff:
    """By criterion, the best thresholds for each gap allowed, from the least to that of no constraint at all."""

    curves: dict[str, tuple[Thresholds, ...]]

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
        return {
            name: [{"tolerance": one.tolerance, "gap": one.gap, "accuracy": one.accuracy} for one in points]
            for name, points in self.curves.items()
        }

    def text(self) -> str:
        """The rules at a gap of zero, and what they are compared with."""
        rules = [points[0].text() for points in self.curves.values()]
        return "\n".join([*rules, f"without constraint: accuracy {self.unconstrained:.4f}"])

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
        return Page(title, [self.chart(), Grid(header, rows), told, Text(words)])

    def _repr_html_(self) -> str:
        return self.page().fragment()


def tradeoff(
    score: ArrayLike,
    label: ArrayLike,
    group: ArrayLike,
    criteria: Sequence[str] = CRITERIA,
    *,
    steps: int = 11,
) -> Tradeoff:
    """The best accuracy of thresholds on a score for `steps` gaps from 0 to that of the most accurate thresholds."""
    curves = {}
    for name in criteria:
        free = equalise(score, label, group, criterion=name, tolerance=1)
        allowed = np.linspace(0, free.gap, max(2, steps))[:-1]
        points = [equalise(score, label, group, criterion=name, tolerance=float(t)) for t in allowed]
        curves[name] = (*points, free)
    return Tradeoff(curves)
