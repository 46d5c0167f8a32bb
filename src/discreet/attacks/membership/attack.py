"""What all membership attacks share: who was in, what was claimed; a finding as a value and as a report.

A finding has the curve, and ε at least beside ε claimed. From many independent training runs the lower bound on ε
(`trials`) comes from true- and false-positive rates at a threshold: half of the scores choose thresholds, the other
half counts; the theorem and its proof stand in `attacks.audit.finding` (Clopper, Pearson 1934; for membership:
Jagielski, Ullman, Oprea 2020, "Auditing differentially private machine learning", and Nasr et al. 2021, "Adversary
instantiation").

>>> import numpy as np
>>> from discreet.attacks.membership.scores import Scores
>>> from discreet.attacks.membership.attack import trials
>>> rng = np.random.default_rng(1)
>>> scores = Scores.pair(1 + rng.laplace(size=20_000), rng.laplace(size=20_000))  # ε = 1
>>> 0.85 < trials(scores, delta=0, confidence="0.95").epsilon < 1
True
"""

from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.attack_report import AttackReport, Share
from discreet.attacks.audit.audit import Claim, claim
from discreet.attacks.audit.finding import SPARE, Counts, epsilon_at_least, failure_probability_of
from discreet.attacks.membership.one_run import Gaussian, normal_shift, one_run
from discreet.attacks.membership.scores import (
    Bools,
    Design,
    EpsilonBound,
    Family,
    Floats,
    Point,
    Roc,
    Scores,
    design_of,
    family_of,
    roc_chart,
)
from discreet.exact import Number, float_up, integer, rational
from discreet.intervals import lower_limit, upper_limit
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
    design: Design
    curve: Family
    claimed: Fraction | None
    delta: Fraction
    confidence: Fraction
    seed: int
    roc: Roc = field(init=False, repr=False)
    bound: EpsilonBound | None = field(init=False)

    def __post_init__(self) -> None:
        bound = bound_of(
            self.scores, self.design, self.curve, delta=self.delta, confidence=self.confidence, seed=self.seed
        )
        object.__setattr__(self, "roc", Roc.of(self.scores))
        object.__setattr__(self, "bound", bound)

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
        return replace(self, confidence=confidence)

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
        (`crowded_ends`), the model does not hold: few people may be exposed, or the attack may look the wrong way.
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
        return replace(report, unread=crowded_ends(self.scores, confidence=float(self.confidence)))

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
        return (curve,) if self.bound is None else (curve, epsilon_chart([self], f"{self.attack}: claimed and proven"))

    def _point(self) -> tuple[Point, float]:
        """The threshold that does best on the first half, judged on the second; the rate it aims at."""
        first, second = (Roc.of(half) for half in self.scores.halves(self.seed))
        sure = float(self.confidence)
        tried = [(rate, first.at(rate, confidence=sure)) for rate in _TRIED]
        rate, best = max(tried, key=lambda trial: _lead(trial[1]))
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


def crowded_ends(scores: Scores, *, confidence: float) -> tuple[str, ...]:
    """Where more members stand beyond the k-th last non-member than chance brings there, at either end; in words.

    Guarantee: if scores say nothing of membership, with at most 1 − confidence probability anything is found. Proof.
    Then all orders of members and non-members are equally likely (equal scores only make members fewer: they must
    stand strictly beyond). At least j members stand beyond the k-th non-member if among the last j + k − 1 targets are
    fewer than k non-members: a hypergeometric tail. Boole over both ends and all k.

    >>> crowded_ends(Scores.pair(range(50), range(50)), confidence=0.95)
    ()
    >>> crowded_ends(Scores.pair(range(50), range(40, 90)), confidence=0.95)
    ('More members than chance allows stand among the lowest scores: the attack looks the wrong way round.',)
    """
    from scipy.stats import hypergeom

    outside, count = len(scores.outside), len(scores)
    ranks = np.array(sorted({max(1, round(rate * outside)) for rate in _TRIED}))
    failure_probability = (1 - confidence) / (2 * len(ranks))
    result = []
    for sign, words in _ENDS:
        inside, others = sign * scores.inside, np.sort(sign * scores.outside)[::-1]
        beyond = [int((inside > others[k - 1]).sum()) for k in ranks]
        tails = hypergeom.cdf(ranks - 1, count, outside, np.array(beyond) + ranks - 1)
        if tails.min() < failure_probability:
            result.append(words)
    return tuple(result)


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


def epsilon_chart(findings: list[MembershipFinding], title: str) -> Chart:
    """ε at least beside ε claimed, for each finding; no claim is a gap."""
    names = [finding.attack if len(findings) > 1 else finding.against for finding in findings]
    proven = [0.0 if finding.bound is None else finding.bound.epsilon for finding in findings]
    bars = [Bars(names, proven, "ε is at least")]
    if any(finding.claimed is not None for finding in findings):
        claimed = [0.0 if finding.claimed is None else float_up(finding.claimed) for finding in findings]
        bars = [Bars(names, claimed, "ε claimed"), *bars]
    return Chart(title, bars, y="ε")


def _lead(point: Point) -> float:
    """True above false positives, in standard deviations (pooled)."""
    sides = [(share.hits or 0, share.trials or 1) for share in (point.true, point.false)]
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
        failure_probability_of(self.confidence)
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
        return MembershipFinding(
            attack=self.attack,
            sees=self.sees,
            against=self.against,
            scores=Scores.of(self.scores(), self.members),
            design=self.design,
            curve=self.curve,
            claimed=epsilon,
            delta=delta,
            confidence=1 - failure_probability_of(self.confidence),
            seed=self.seed,
        )

    def run(self) -> AttackReport:
        """Attack, and judge: `charts` hold the curve, `facts` the rates and the bound beside the claim."""
        return self.find().report()


_THRESHOLDS = 240
_EVENTS = 2  # thresholds that the second half is counted at


def trials(scores: Scores, *, delta: Number, confidence: Number, curve: Family = "any", seed: int = 0) -> EpsilonBound:
    """The bound that the scores of independent runs prove, in both directions and both orientations.

    Guarantee: if each score is from a run of its own (with the target for members, without it for the others), all
    runs are independent and the training is (ε,δ)-DP, the bound exceeds ε with probability at most 1 − confidence.
    Proof. The half that is counted is chosen by lot and independent of the thresholds; then the theorem of
    `audit.finding` holds for the K = 2 events {score ≥ t} or {score < t}, each likelier on the side named by the
    first half, with 2K one-sided limits at failure probability α/2K. With `curve="gaussian"` (Nasr et al. 2023,
    "Tight auditing of differentially private machine learning") the same limits a ≤ TPR ≤ Φ(Φ⁻¹(FPR) + μ), FPR ≤ b give
    μ ≥ Φ⁻¹(a) − Φ⁻¹(b), and ε is that of μ at δ.  ∎
    """
    spare, failure_probability = rational(delta, "delta", at_least=0, below=1), failure_probability_of(confidence)
    first, second = scores.halves(integer(seed, "seed", at_least=0))
    share, family = failure_probability / (2 * _EVENTS), family_of(curve, spare)
    events = _choose(first, spare, share, family)
    result = [(*_best(event.counts(second), spare, share, family), event) for event in events]
    epsilon, counts, event = max(result, key=lambda bound: bound[0])
    return EpsilonBound(
        epsilon=max(0.0, epsilon),
        delta=spare,
        confidence=1 - failure_probability,
        theorem="Clopper–Pearson limits of independent runs, thresholds chosen on other runs (Jagielski et al. 2020)"
        + (", for a Gaussian curve (Nasr et al. 2023)" if curve == "gaussian" else ""),
        counted=_words(event, counts),
    )


@dataclass(frozen=True, slots=True)
class _Event:
    """Scores at or above the threshold, or below it; likelier for members, or for the others."""

    threshold: float
    above: bool

    def counts(self, scores: Scores) -> Counts:
        inside, outside = (self._holds(side) for side in (scores.inside, scores.outside))
        return Counts(
            hits=int(inside.sum()), trials=len(inside), other_hits=int(outside.sum()), other_trials=len(outside)
        )

    def _holds(self, values: Floats) -> Bools:
        return np.asarray(values >= self.threshold if self.above else values < self.threshold)


def _best(counts: Counts, delta: Fraction, failure_probability: Fraction, curve: Family) -> tuple[float, Counts]:
    """The better of the bounds on the event and on its complement: both rest on the same two limits."""
    if curve == "gaussian":
        return Gaussian(normal_shift(*counts.limits(failure_probability))).epsilon(float(delta)), counts
    bounds = [
        (epsilon_at_least(side, delta=delta, failure_probability=failure_probability), side)
        for side in (counts, counts.complement)
    ]
    return max(bounds, key=lambda bound: bound[0])


def _choose(scores: Scores, delta: Fraction, failure_probability: Fraction, curve: Family) -> list[_Event]:
    """The most promising events: high and low scores, each by the event itself and by its complement.

    The promise is the bound on these scores, at a failure probability divided by the number of thresholds: a
    threshold that leads by luck in the tails is not taken.
    """
    thresholds = _candidates(scores.values)
    confidence = float(1 - failure_probability * SPARE / len(thresholds))
    inside, outside = np.sort(scores.inside), np.sort(scores.outside)
    result: list[tuple[float, _Event]] = []
    for above in (True, False):
        hits, alarms = (_count(side, thresholds, above=above) for side in (inside, outside))
        low = lower_limit(hits, len(inside), confidence=confidence)
        high = upper_limit(alarms, len(outside), confidence=confidence)
        for promise in [_shifts(low, high)] if curve == "gaussian" else _ratios(low, high, float(delta)):
            place = int(np.argmax(promise))
            result.append((float(promise[place]), _Event(float(thresholds[place]), above)))
    return [event for _, event in sorted(result, key=lambda pair: -pair[0])[:_EVENTS]]


def _shifts(low: Floats, high: Floats) -> Floats:
    """μ at each threshold."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(low, 1e-15, 1 - 1e-15)) - ndtri(np.clip(high, 1e-15, 1 - 1e-15)))


def _ratios(low: Floats, high: Floats, delta: float) -> list[Floats]:
    """Both bounds at each threshold: by the event, and by its complement."""
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log(np.maximum(low - delta, 0) / high)
        turned = np.log(np.maximum(1 - high - delta, 0) / (1 - low))
    return [np.asarray(np.fmax(bound, -np.inf)) for bound in (direct, turned)]


def _candidates(values: Floats) -> Floats:
    """Values that the scores take: all if they are few, else quantiles, closer together towards both ends."""
    distinct = np.unique(values)
    if len(distinct) <= _THRESHOLDS:
        return distinct
    ranks = np.unique(np.geomspace(1, len(distinct) // 2, _THRESHOLDS // 2).astype(np.int64)) - 1
    return np.unique(np.concatenate([distinct[ranks], distinct[len(distinct) - 1 - ranks]]))


def _count(ordered: Floats, thresholds: Floats, *, above: bool) -> Floats:
    below = np.searchsorted(ordered, thresholds, side="left")
    return np.asarray(len(ordered) - below if above else below, np.float64)


def _words(event: _Event, counts: Counts) -> str:
    side = "high" if event.above else "low"
    return (
        f"a {side} score or its contrary: {counts.hits:,} of {counts.trials:,} runs on one side, "
        f"{counts.other_hits:,} of {counts.other_trials:,} on the other"
    )
