"""From many independent training runs to a lower bound on ε: true- and false-positive rates at a threshold.

Half of the scores choose thresholds, the other half counts; the theorem and its proof stand in `attacks.audit.finding`
(Clopper, Pearson 1934; for membership: Jagielski, Ullman, Oprea 2020, "Auditing differentially private machine
learning", and Nasr et al. 2021, "Adversary instantiation").

>>> import numpy as np
>>> from discreet.attacks.membership.scores import Scores
>>> from discreet.attacks.membership.trials import trials
>>> rng = np.random.default_rng(1)
>>> scores = Scores.pair(1 + rng.laplace(size=20_000), rng.laplace(size=20_000))  # ε = 1
>>> 0.85 < trials(scores, delta=0, confidence="0.95").epsilon < 1
True
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.attacks.audit.finding import Counts, epsilon_at_least
from discreet.attacks.membership.one_run import Gaussian, normal_shift
from discreet.attacks.membership.scores import SPARE, Bools, EpsilonBound, Family, Floats, Scores, doubt_of, family_of
from discreet.exact import Number, integer, rational
from discreet.intervals import lower_limit, upper_limit

_THRESHOLDS = 240
_EVENTS = 2  # thresholds that the second half is counted at


def trials(scores: Scores, *, delta: Number, confidence: Number, curve: Family = "any", seed: int = 0) -> EpsilonBound:
    """The bound that the scores of independent runs prove, in both directions and both orientations.

    Guarantee: if each score is from a run of its own (with the target for members, without it for the others), all
    runs are independent and the training is (ε,δ)-DP, the bound exceeds ε with probability at most 1 − confidence.
    Proof. The half that is counted is chosen by lot and independent of the thresholds; then the theorem of
    `audit.finding` holds for the K = 2 events {score ≥ t} or {score < t}, each likelier on the side named by the
    first half, with 2K one-sided limits at doubt α/2K. With `curve="gaussian"` (Nasr et al. 2023, "Tight auditing of
    differentially private machine learning") the same limits a ≤ TPR ≤ Φ(Φ⁻¹(FPR) + μ), FPR ≤ b give
    μ ≥ Φ⁻¹(a) − Φ⁻¹(b), and ε is that of μ at δ.  ∎
    """
    spare, doubt = rational(delta, "delta", at_least=0, below=1), doubt_of(confidence)
    first, second = scores.halves(integer(seed, "seed", at_least=0))
    share, family = doubt / (2 * _EVENTS), family_of(curve, spare)
    events = _choose(first, spare, share, family)
    found = [(*_best(event.counts(second), spare, share, family), event) for event in events]
    epsilon, counts, event = max(found, key=lambda one: one[0])
    return EpsilonBound(
        epsilon=max(0.0, epsilon),
        delta=spare,
        confidence=1 - doubt,
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


def _best(counts: Counts, delta: Fraction, doubt: Fraction, curve: Family) -> tuple[float, Counts]:
    """The better of the bounds on the event and on its complement: both rest on the same two limits."""
    if curve == "gaussian":
        return Gaussian(normal_shift(*counts.limits(doubt))).epsilon(float(delta)), counts
    return max(((epsilon_at_least(one, delta=delta, doubt=doubt), one) for one in (counts, counts.complement)), key=_of)


def _of(found: tuple[float, Counts]) -> float:
    return found[0]


def _choose(scores: Scores, delta: Fraction, doubt: Fraction, curve: Family) -> list[_Event]:
    """The most promising events: high and low scores, each by the event itself and by its complement.

    The promise is the bound on these scores, at a doubt divided by the number of thresholds: a threshold that leads by
    luck in the tails is not taken.
    """
    thresholds = _candidates(scores.values)
    confidence = float(1 - doubt * SPARE / len(thresholds))
    inside, outside = np.sort(scores.inside), np.sort(scores.outside)
    found: list[tuple[float, _Event]] = []
    for above in (True, False):
        hits, alarms = (_count(side, thresholds, above=above) for side in (inside, outside))
        low = lower_limit(hits, len(inside), confidence=confidence)
        high = upper_limit(alarms, len(outside), confidence=confidence)
        for promise in [_shifts(low, high)] if curve == "gaussian" else _ratios(low, high, float(delta)):
            place = int(np.argmax(promise))
            found.append((float(promise[place]), _Event(float(thresholds[place]), above)))
    return [event for _, event in sorted(found, key=lambda one: -one[0])[:_EVENTS]]


def _shifts(low: Floats, high: Floats) -> Floats:
    """μ at each threshold."""
    from scipy.special import ndtri

    return np.asarray(ndtri(np.clip(low, 1e-15, 1 - 1e-15)) - ndtri(np.clip(high, 1e-15, 1 - 1e-15)))


def _ratios(low: Floats, high: Floats, delta: float) -> list[Floats]:
    """Both bounds at each threshold: by the event, and by its complement."""
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.log(np.maximum(low - delta, 0) / high)
        turned = np.log(np.maximum(1 - high - delta, 0) / (1 - low))
    return [np.asarray(np.fmax(one, -np.inf)) for one in (direct, turned)]


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
