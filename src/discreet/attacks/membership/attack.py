"""What a membership attack found, as a value and as a report: the curve, and ε at least beside ε claimed.

What all membership attacks share: who was in, how they came to be in, what was claimed; find, and report.
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.attack_report import AttackReport, Share
from discreet.attacks.audit.audit import Claim, claim
from discreet.attacks.membership.one_run import one_run
from discreet.attacks.membership.scores import (
    Design,
    EpsilonBound,
    Family,
    Floats,
    Point,
    Roc,
    Scores,
    design_of,
    doubt_of,
    family_of,
    roc_chart,
)
from discreet.attacks.membership.trials import trials
from discreet.exact import Number, float_up, integer
from discreet.report import Bars, Chart

RATES = (0.01, 0.001)  # false-positive rates that are told
_TRIED = (0.001, 0.01, 0.1, 0.5)  # false-positive rates that success is judged at: the best on the first half
_CLEAR = 2.0  # standard deviations; where no rate leads so clearly the last is taken, at which a leak hides least
_MUTE = "All scores are equal: the attack says nothing about anybody."
_NO_BOUND = (
    "No bound on ε: it needs members drawn by fair coins (design='coins') or a training run for each score "
    "(design='trials'). Rates of one model with members chosen otherwise prove nothing about ε."
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipFinding:
    """Scores of an attack and what follows from them.

    `bound` is None where the design allows no conclusion about ε.
    """

    attack: str
    sees: str
    against: str
    scores: Scores = field(repr=False)
    roc: Roc = field(repr=False)
    design: Design
    curve: Family
    claimed: Fraction | None
    delta: Fraction
    confidence: Fraction
    seed: int
    bound: EpsilonBound | None

    @classmethod
    def of(
        cls,
        *,
        attack: str,
        sees: str,
        against: str,
        scores: Scores,
        design: Design,
        curve: Family,
        claimed: Fraction | None,
        delta: Fraction,
        confidence: Fraction,
        seed: int,
    ) -> "MembershipFinding":
        """Judge the scores."""
        return cls(
            attack=attack,
            sees=sees,
            against=against,
            scores=scores,
            roc=Roc.of(scores),
            design=design,
            curve=curve,
            claimed=claimed,
            delta=delta,
            confidence=confidence,
            seed=seed,
            bound=bound_of(scores, design, curve, delta=delta, confidence=confidence, seed=seed),
        )

    @property
    def broken(self) -> bool:
        """Whether the bound is above what was claimed."""
        return self.bound is not None and self.bound.breaks(self.claimed)

    @property
    def claim(self) -> str:
        """What became of the claim, in words."""
        if self.claimed is None:
            return "none"
        if self.bound is None:
            return "not tested"
        return "broken" if self.broken else "not refuted"

    def at(self, confidence: Fraction) -> "MembershipFinding":
        """The same scores, judged with another confidence."""
        bound = bound_of(self.scores, self.design, self.curve, delta=self.delta, confidence=confidence, seed=self.seed)
        return replace(self, confidence=confidence, bound=bound)

    def rates(self) -> dict[float, Point]:
        """True positives at low false-positive rates."""
        return {rate: self.roc.at(rate, confidence=float(self.confidence)) for rate in RATES}

    def auc(self) -> Share:
        """The area under the curve."""
        return self.roc.auc(confidence=float(self.confidence))

    def report(self) -> AttackReport:
        """The finding in the form of all attacks.

        Half of the targets choose a threshold; on the other half success is the share of members that it names, and
        the control the share of non-members that it names: the same attack on people outside. A guesser who has not
        seen the model and names as many people as the threshold aims at names that share of either.

        Where success does not show it, but all targets together do, that members crowd at either end of the scores
        (`crowded`), the model does not hold: few people may be exposed, or the attack may look the wrong way round.
        """
        point, rate = self._point()
        report = AttackReport(
            attack=self.attack,
            against=self.against,
            goal="say of a person that the model was trained on their data",
            people=len(self.scores),
            success=point.true,
            baseline=Share.known(rate),
            control=point.false,
            confidence=float(self.confidence),
            facts=self.facts(),
            charts=self.charts(),
            remarks=self._remarks(),
            unread=(_MUTE,) if self.scores.mute else (),
        )
        if report.verdict != "holds":
            return report
        return replace(report, unread=crowded(self.scores, confidence=float(self.confidence)))

    def facts(self) -> dict[str, Any]:
        """The measured numbers."""
        facts: dict[str, Any] = {
            "attacker sees": self.sees,
            "members": self.roc.members,
            "non-members": self.roc.outsiders,
        }
        facts |= {f"true positives at {_percent(rate)} false": point.true for rate, point in self.rates().items()}
        facts |= {
            "AUC": f"{(auc := self.auc()).value:.3f} ({auc.low:.3f}–{auc.high:.3f})",
            "ε is at least": None if self.bound is None else round(self.bound.epsilon, 6),
            "at δ": float(self.delta),
            "with confidence": float(self.confidence),
            "claimed ε": "none" if self.claimed is None else float_up(self.claimed),
            "claim": self.claim,
        }
        return facts | ({} if self.bound is None else {"counted": self.bound.counted, "by": self.bound.theorem})

    def charts(self) -> tuple[Chart, ...]:
        """The curve on logarithmic axes; the bound beside the claim."""
        curve = roc_chart(f"{self.attack}: ROC", {self.attack: self.roc}, confidence=float(self.confidence))
        return (curve,) if self.bound is None else (curve, beside([self], f"{self.attack}: claimed and proven"))

    def _point(self) -> tuple[Point, float]:
        """The threshold that does best on the first half, judged on the second; the rate it aims at."""
        first, second = (Roc.of(half) for half in self.scores.halves(self.seed))
        sure = float(self.confidence)
        tried = [(rate, first.at(rate, confidence=sure)) for rate in _TRIED]
        rate, best = max(tried, key=lambda one: _lead(one[1]))
        if _lead(best) < _CLEAR:
            rate, best = tried[-1]
        place = int((second.thresholds >= best.threshold).sum()) - 1
        return second.point(place, confidence=sure), rate

    def _remarks(self) -> tuple[str, ...]:
        made = []
        coarse = [rate for rate in RATES if rate * self.roc.outsiders < 1]
        if coarse:
            rates = " and ".join(_percent(rate) for rate in coarse)
            made.append(
                f"{self.roc.outsiders:,} non-members are too few to see {rates} of false positives: "
                "those rates are told at no false positive at all."
            )
        made.append(_NO_BOUND if self.bound is None else _WHAT)
        return tuple(made)


def crowded(scores: Scores, *, confidence: float) -> tuple[str, ...]:
    """Where more members stand beyond the k-th last non-member than chance brings there, at either end; in words.

    Guarantee: if scores say nothing of membership, with at most 1 − confidence probability anything is found. Proof.
    Then all orders of members and non-members are equally likely (equal scores only make members fewer: they must
    stand strictly beyond). At least j members stand beyond the k-th non-member if among the last j + k − 1 targets are
    fewer than k non-members: a hypergeometric tail. Boole over both ends and all k.

    >>> crowded(Scores.pair(range(50), range(50)), confidence=0.95)
    ()
    >>> crowded(Scores.pair(range(50), range(40, 90)), confidence=0.95)
    ('More members than chance allows stand among the lowest scores: the attack looks the wrong way round.',)
    """
    from scipy.stats import hypergeom

    outside, count = len(scores.outside), len(scores)
    places = sorted({max(1, round(rate * outside)) for rate in _TRIED})
    doubt = (1 - confidence) / (2 * len(places))
    found = []
    for sign, words in _ENDS:
        inside, others = sign * scores.inside, np.sort(sign * scores.outside)[::-1]
        beyond = [int((inside > others[k - 1]).sum()) for k in places]
        tails = [hypergeom.cdf(k - 1, count, outside, j + k - 1) for k, j in zip(places, beyond, strict=True)]
        if min(tails) < doubt:
            found.append(words)
    return tuple(found)


_ENDS = (
    (1, "More members than chance allows stand among the highest scores: too few people to call it success, but some."),
    (-1, "More members than chance allows stand among the lowest scores: the attack looks the wrong way round."),
)
_WHAT = (
    "The bound refutes a smaller ε or does not; it never proves a larger one safe: stronger attacks may find more. "
    "It counts only if leaving a target out gives a neighbor in the sense of the claim."
)


def bound_of(
    scores: Scores, design: Design, curve: Family, *, delta: Fraction, confidence: Fraction, seed: int
) -> EpsilonBound | None:
    """The bound that the design allows.

    >>> scores = Scores.pair(range(50), range(50))
    >>> bound_of(scores, "unknown", "any", delta=Fraction(0), confidence=Fraction(19, 20), seed=0) is None
    True
    """
    match design:
        case "coins":
            return one_run(scores, delta=delta, confidence=confidence, curve=curve, seed=seed)
        case "trials":
            return trials(scores, delta=delta, confidence=confidence, curve=curve, seed=seed)
        case "unknown":
            return None


def beside(found: list[MembershipFinding], title: str) -> Chart:
    """ε at least beside ε claimed, for each finding; no claim is a gap."""
    names = [one.attack if len(found) > 1 else one.against for one in found]
    proven = [0.0 if one.bound is None else one.bound.epsilon for one in found]
    bars = [Bars(names, proven, "ε is at least")]
    if any(one.claimed is not None for one in found):
        claimed = [0.0 if one.claimed is None else float_up(one.claimed) for one in found]
        bars = [Bars(names, claimed, "ε claimed"), *bars]
    return Chart(title, bars, y="ε")


def _lead(point: Point) -> float:
    """True above false positives, in standard deviations (pooled)."""
    sides = [(one.hits or 0, one.trials or 1) for one in (point.true, point.false)]
    pooled = (sides[0][0] + sides[1][0] + 1) / (sides[0][1] + sides[1][1] + 2)
    spread = sqrt(pooled * (1 - pooled) * (1 / sides[0][1] + 1 / sides[1][1]))
    return (point.true.value - point.false.value) / spread


def _percent(rate: float) -> str:
    return f"{100 * rate:g} %"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipAttack:
    """A guess for each target, and what the judge knows.

    `members` says of each target whether it was in. `design` says how that came about, and with it what may be
    concluded about ε (see `scores`): "coins" (one run; a fair coin for each), "trials" (a run of its own for each
    score) or "unknown". `curve` is "any", or "gaussian" for a training whose privacy is that of one Gaussian release.
    `claimed` is ε, (ε, δ) or a loss (with `delta`). `seed` draws the halves and the order of equal
    scores; choose it before you see the scores.
    """

    members: ArrayLike
    against: str = "the model"
    design: Design = "unknown"
    curve: Family = "any"
    claimed: Claim | None = None
    delta: Number | None = None
    confidence: Number = 0.95
    seed: int = 0

    attack: ClassVar[str] = "membership"
    sees: ClassVar[str] = ""

    def __post_init__(self) -> None:
        integer(self.seed, "seed", at_least=0)
        design_of(self.design)
        doubt_of(self.confidence)
        family_of(self.curve, claim(self.claimed, self.delta)[1])

    def scores(self) -> Floats:
        """A score for each target, larger where the attacker believes in membership. It never looks at `members`."""
        raise NotImplementedError

    def find(self) -> MembershipFinding:
        """The scores, the curve, the bound on ε.

        Guarantee: with at least the stated confidence the bound does not exceed the true ε; see `one_run` and `trials`
        for what each design must fulfil.
        """
        epsilon, delta = claim(self.claimed, self.delta)
        return MembershipFinding.of(
            attack=self.attack,
            sees=self.sees,
            against=self.against,
            scores=Scores.of(self.scores(), self.members),
            design=self.design,
            curve=self.curve,
            claimed=epsilon,
            delta=delta,
            confidence=1 - doubt_of(self.confidence),
            seed=self.seed,
        )

    def run(self) -> AttackReport:
        """Attack, and judge: `charts` hold the curve, `facts` the rates and the bound beside the claim."""
        return self.find().report()
