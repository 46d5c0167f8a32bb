"""Scores of an attack: one number for each target, larger where the attacker believes in membership; and who was in.

>>> from discreet.attacks.membership.scores import Scores
>>> scores = Scores.of([0.1 * i for i in range(40)], [i >= 20 for i in range(40)])
>>> len(scores.inside), len(scores.outside)
(20, 20)

A lower bound on ε that membership scores prove: which theorem, what was counted, with what confidence.

What may be concluded depends on how the targets came to be members, and nothing else:

- `"coins"`: one training run; each target was put in or left out by a fair coin of its own. See `one_run`.
- `"trials"`: each score is from a training run of its own, all of them independent. See `trials`.
- `"unknown"`: anything else, such as a training set and a test set. Then no ε follows. Scores of one model depend on
  one another, and members may differ from non-members for reasons other than membership, so (TPR, FPR) of one model
  bounds nothing, however sure the attack is.

`curve="gaussian"` asks for more of the claim, and so finds more: that the training is as private as one Gaussian
release (as full-batch DP-SGD is, and as accountants of Gaussian noise claim). The bound is then on that release's μ,
told as its ε at δ, and holds for trainings with such a curve only; `curve="any"` holds for all.

In both designs leaving a target out must give a neighbor in the sense of the claim (add or remove one).

The trade between people rightly and people wrongly called members, with limits; low false-positive rates first.

Carlini et al. 2022 ("Membership inference attacks from first principles", section IV): an attack that is sure of a few
people is worse for them than one that is a little right about everybody, and an average hides it. So the curve is
drawn on logarithmic axes, and the true-positive rate is told at false-positive rates of 1 % and 0.1 %.

>>> from discreet.attacks.membership.scores import Roc
>>> from discreet.attacks.membership.scores import Scores
>>> roc = Roc.of(Scores.pair(range(50, 150), range(100)))
>>> roc.at(0.01, confidence=0.95).true
51.0 % (40.8–61.1 %; 51 of 100)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.attack_report import Share
from discreet.errors import InvalidData, InvalidParameter
from discreet.intervals import clopper_pearson
from discreet.report import Chart, Line
from discreet.report.marks import Mark

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]

FEWEST = 20  # of members, and of non-members: with fewer nothing can be shown
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """A score for each target, and whether it was in the training data. Only the order of the scores counts."""

    values: Floats
    members: Bools

    @classmethod
    def of(cls, values: ArrayLike, members: ArrayLike) -> "Scores":
        """Read, check, and keep."""
        read = numbers(values, "scores", infinite=True)
        flags = who(members, len(read))
        return cls(read, flags)

    @classmethod
    def pair(cls, inside: ArrayLike, outside: ArrayLike) -> "Scores":
        """From the scores of members and those of non-members.

        >>> len(Scores.pair(range(30), range(25)))
        55
        """
        sides = [numbers(inside, "scores of members", infinite=True)]
        sides.append(numbers(outside, "scores of non-members", infinite=True))
        return cls.of(np.concatenate(sides), np.repeat([True, False], [len(side) for side in sides]))

    def __len__(self) -> int:
        return len(self.values)

    @property
    def inside(self) -> Floats:
        """The scores of members."""
        return self.values[self.members]

    @property
    def outside(self) -> Floats:
        """The scores of non-members."""
        return self.values[~self.members]

    @property
    def mute(self) -> bool:
        """Whether all scores are equal: the attack says nothing."""
        return bool((self.values == self.values[0]).all())

    def halves(self, seed: int) -> tuple["Scores", "Scores"]:
        """Two halves, each with half of the members and half of the others; which is by lot, never by the scores."""
        rng = np.random.default_rng([seed, 6])
        first = np.zeros(len(self), bool)
        for side in (True, False):
            order = rng.permutation(np.flatnonzero(self.members == side))
            first[order[: len(order) // 2]] = True
        return Scores(self.values[first], self.members[first]), Scores(self.values[~first], self.members[~first])


def numbers(given: ArrayLike, name: str, *, dimensions: int = 1, infinite: bool = False) -> Floats:
    """An array of numbers; errors say where, never what.

    >>> numbers([0.5, float("nan")], "losses")
    Traceback (most recent call last):
    discreet.errors.InvalidData: losses: NaN at position 1; leave such targets out, or repair the model
    """
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "fiu":
            raise TypeError
        read = array.astype(np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"{name}: expected an array of numbers, of one length along each axis") from None
    if read.ndim != dimensions:
        raise InvalidData(f"{name}: got {read.ndim} dimensions, expected {dimensions}")
    if not read.size:
        raise InvalidData(f"{name}: it is empty")
    bad = np.isnan(read) if infinite else ~np.isfinite(read)
    if bad.any():
        kind = "NaN" if np.isnan(read).any() else "an infinite number"
        where = np.argwhere(np.isnan(read) if kind == "NaN" else bad)[0]
        place = ", ".join(str(int(part)) for part in where)
        raise InvalidData(f"{name}: {kind} at position {place}; leave such targets out, or repair the model")
    return read


def log_confidences(given: ArrayLike, name: str, *, dimensions: int = 1) -> Floats:
    """ln p(y | x) of the true class: at most 0; −∞ where the model excludes the truth.

    >>> log_confidences([0.9, 0.8], "confidences")
    Traceback (most recent call last):
    discreet.errors.InvalidData: confidences: 2 above 0; expected ln p of the true class (minus the loss), not p
    """
    read = numbers(given, name, dimensions=dimensions, infinite=True)
    above = int((read > _ROUNDING).sum())
    if above:
        raise InvalidData(f"{name}: {above} above 0; expected ln p of the true class (minus the loss), not p")
    return np.minimum(read, 0.0)


def who(members: ArrayLike, count: int) -> Bools:
    """Which targets were in: one True or False for each, enough of both."""
    flags = np.asarray(members)
    if flags.dtype != np.bool_:
        raise InvalidData("members: expected True or False for each target; see `flags` for lists of positions")
    if flags.shape != (count,):
        raise InvalidData(f"members: got shape {flags.shape} for {count} targets; expected one flag for each target")
    inside = int(flags.sum())
    for name, size in (("members", inside), ("non-members", count - inside)):
        if size < FEWEST:
            raise InvalidData(f"members: {size} {name} among {count} targets; expected {FEWEST} of each kind at least")
    return flags


def flags(members: Sequence[int] | Ints, outsiders: Sequence[int] | Ints) -> tuple[Ints, Bools]:
    """Positions of the targets, members first, with their flags; from two lists of positions that share none.

    >>> positions, inside = flags([4, 2], [7])
    >>> positions.tolist(), inside.tolist()
    ([4, 2, 7], [True, True, False])
    >>> flags([1, 2, 3], [3, 4])
    Traceback (most recent call last):
    discreet.errors.InvalidData: 1 target stands among members and among non-members; who was in must be known
    """
    sides = [np.asarray(side) for side in (members, outsiders)]
    if any(side.dtype.kind not in "iu" or side.ndim != 1 for side in sides):
        raise InvalidData("members, outsiders: expected lists of positions (whole numbers)")
    for name, side in zip(("members", "outsiders"), sides, strict=True):
        if len(np.unique(side)) < len(side):
            raise InvalidData(f"{name}: {len(side) - len(np.unique(side))} of {len(side)} positions stand there twice")
    _refuse_shared(len(np.intersect1d(sides[0], sides[1])))
    return np.concatenate(sides).astype(np.int64), np.repeat([True, False], [len(side) for side in sides])


def check_apart(inside: ArrayLike, outside: ArrayLike) -> None:
    """Refuse rows (of features, say) that stand among the members and, the same, among the non-members.

    >>> check_apart([[1, 2], [3, 4]], [[5, 6]])
    """
    known = {row.tobytes() for row in _rows(inside)}
    _refuse_shared(sum(row.tobytes() in known for row in _rows(outside)))


def _rows(given: ArrayLike) -> list[NDArray[Any]]:
    return [np.ascontiguousarray(row, np.float64) + 0.0 for row in np.asarray(given, np.float64)]


def _refuse_shared(count: int) -> None:
    if count:
        stand = "target stands" if count == 1 else "targets stand"
        raise InvalidData(f"{count} {stand} among members and among non-members; who was in must be known")


Design = Literal["coins", "trials", "unknown"]
Family = Literal["any", "gaussian"]
DESIGNS = ("coins", "trials", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonBound:
    """With at least this confidence the mechanism is not (ε′,δ)-DP for any ε′ below `epsilon`."""

    epsilon: float
    delta: Fraction
    confidence: Fraction
    theorem: str
    counted: str

    def breaks(self, claimed: Fraction | None) -> bool:
        """Whether the bound is above what was claimed.

        >>> bound = EpsilonBound(epsilon=2.0, delta=Fraction(0), confidence=Fraction(9, 10), theorem="", counted="")
        >>> bound.breaks(Fraction(1)), bound.breaks(None)
        (True, False)
        """
        return claimed is not None and self.epsilon > claimed


def family_of(curve: str, delta: Fraction) -> Family:
    """A family of curves by its name."""
    if curve == "gaussian" and not delta:
        raise InvalidParameter("delta", 0, "a number above 0 for curve='gaussian'", "a Gaussian has no ε at δ = 0")
    for known in ("any", "gaussian"):
        if curve == known:
            return known
    raise InvalidParameter("curve", curve, "'any' or 'gaussian'")


def design_of(design: str) -> Design:
    """A design by its name."""
    for known in ("coins", "trials", "unknown"):
        if design == known:
            return known
    hint = "coins: one run, a fair coin for each target; trials: a run for each score; unknown: anything else"
    raise InvalidParameter("design", design, " or ".join(map(repr, DESIGNS)), hint)


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
