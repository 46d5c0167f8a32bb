"""The trade between people rightly and people wrongly called members, with limits; low false-positive rates first.

Carlini et al. 2022 ("Membership inference attacks from first principles", section IV): an attack that is sure of a few
people is worse for them than one that is a little right about everybody, and an average hides it. So the curve is
drawn on logarithmic axes, and the true-positive rate is told at false-positive rates of 1 % and 0.1 %.

>>> from discreet.attacks.membership.roc import Roc
>>> from discreet.attacks.membership.scores import Scores
>>> roc = Roc.of(Scores.pair(range(50, 150), range(100)))
>>> roc.at(0.01, confidence=0.95).true
51.0 % (40.8–61.1 %; 51 of 100)
"""

from dataclasses import dataclass

import numpy as np

from discreet.attacks.membership.scores import Floats, Ints, Scores
from discreet.attacks.report import Share
from discreet.intervals import clopper_pearson
from discreet.report import Chart, Line
from discreet.report.chart import Mark

_DRAWN = 240  # points of a drawn curve


@dataclass(frozen=True, slots=True)
class Point:
    """A threshold on the curve: everyone at or above it is called a member."""

    threshold: float
    true: Share
    false: Share


@dataclass(frozen=True, slots=True, eq=False)
class Roc:
    """How many members and non-members lie at or above each threshold; the first threshold is +∞.

    Equal scores are never torn apart: a threshold takes all of them or none.
    """

    thresholds: Floats
    hits: Ints
    alarms: Ints
    members: int
    outsiders: int

    @classmethod
    def of(cls, scores: Scores) -> "Roc":
        """The curve of these scores."""
        values = np.unique(scores.values)[::-1]
        counts = [
            len(side) - np.searchsorted(np.sort(side), values, side="left") for side in (scores.inside, scores.outside)
        ]
        hits, alarms = (np.concatenate([[0], count]).astype(np.int64) for count in counts)
        return cls(np.concatenate([[np.inf], values]), hits, alarms, len(scores.inside), len(scores.outside))

    def at(self, rate: float, *, confidence: float) -> Point:
        """The lowest threshold whose false-positive rate on these targets is at most `rate`.

        The threshold depends on non-members only, so the limits of the true-positive rate are those of a binomial
        (Clopper, Pearson 1934); the false-positive rate has limits of its own.
        """
        place = int(np.searchsorted(self.alarms, rate * self.outsiders * (1 + 1e-12), side="right")) - 1
        return self.point(place, confidence=confidence)

    def point(self, place: int, *, confidence: float) -> Point:
        """The threshold at a place of the curve."""
        true = Share.counted(int(self.hits[place]), self.members, confidence=confidence)
        false = Share.counted(int(self.alarms[place]), self.outsiders, confidence=confidence)
        return Point(float(self.thresholds[place]), true, false)

    def auc(self, *, confidence: float) -> Share:
        """The probability that a member scores above a non-member; equal scores count half.

        The limits are Hoeffding's for two-sample U-statistics (1963, section 5b): ±√(ln(2/α)/(2·min(n₀, n₁))). They
        hold for every number of targets that were drawn independently; they are wide.

        >>> Roc.of(Scores.pair([1] * 20, [1] * 20)).auc(confidence=0.95).value
        0.5
        """
        steps = np.diff(self.alarms) * (self.hits[1:] + self.hits[:-1]) / 2
        area = float(steps.sum() / (self.members * self.outsiders))
        reach = float(np.sqrt(np.log(2 / (1 - confidence)) / (2 * min(self.members, self.outsiders))))
        return Share(value=area, low=max(0.0, area - reach), high=min(1.0, area + reach))

    def line(self, label: str, *, confidence: float | None = None) -> Line:
        """The curve as a line, with a band of Clopper–Pearson limits where a confidence is given."""
        places = self._places()
        false = np.maximum(self.alarms[places] / self.outsiders, self.least)
        true = self.hits[places] / self.members
        if confidence is None:
            return Line(false, np.maximum(true, self.least), label)
        low, high = clopper_pearson(self.hits[places], self.members, confidence=confidence)
        return Line(false, np.maximum(true, self.least), label, np.maximum(low, self.least), high)

    @property
    def least(self) -> float:
        """Where logarithmic axes begin: rates below stand at their edge."""
        return float(10.0 ** np.floor(np.log10(1 / max(self.members, self.outsiders))))

    def _places(self) -> Ints:
        """Places to draw: the corners of the curve, thinned out where there are many."""
        last = np.concatenate([np.flatnonzero(np.diff(self.alarms)), [len(self.alarms) - 1]])
        first = np.concatenate([[0], last[:-1] + 1])
        corners = np.unique(np.concatenate([first, last]))
        if len(corners) <= _DRAWN:
            return corners
        return corners[np.unique(np.geomspace(1, len(corners), _DRAWN).astype(np.int64)) - 1]


def roc_chart(title: str, curves: dict[str, Roc], *, confidence: float | None = None) -> Chart:
    """Curves on logarithmic axes, with the diagonal of guessing.

    >>> scores = Scores.pair(range(50, 150), range(100))
    >>> roc_chart("an attack", {"attack": Roc.of(scores)}, confidence=0.95).log_x
    True
    """
    edge = min(roc.least for roc in curves.values())
    marks: list[Mark] = [Line([edge, 1.0], [edge, 1.0], "guessing", dashed=True)]
    marks += [roc.line(name, confidence=confidence) for name, roc in curves.items()]
    return Chart(
        title,
        marks,
        x="false positives: share of people outside who are called members",
        y="true positives",
        log_x=True,
        log_y=True,
        x_range=(edge, 1.0),
        y_range=(edge, 1.0),
    )
