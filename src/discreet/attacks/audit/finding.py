"""From counts to a lower bound on ε: what two Clopper–Pearson limits prove.

Theorem. Let P and Q be the distributions of the outputs on x and on a neighbor, and let S₁ … S_K be events that were
fixed before the counts were drawn (they may depend on other draws in any way). Let kᵢ of n independent draws from the
side where Sᵢ is expected to be likelier lie in Sᵢ, and lᵢ of m independent draws from the other side. With

    aᵢ = the one-sided lower Clopper–Pearson limit of kᵢ of n at confidence 1 − α/2K,
    bᵢ = the one-sided upper Clopper–Pearson limit of lᵢ of m at confidence 1 − α/2K,

every pair (P, Q) that is (ε,δ)-indistinguishable in both directions has, with probability at least 1 − α,

    ε ≥ ln((aᵢ − δ)/bᵢ)   and   ε ≥ ln((1 − bᵢ − δ)/(1 − aᵢ))   for all i at once.

Proof. Given the draws that fixed the events, kᵢ and lᵢ are binomial, so each limit fails with probability at most α/2K
(Clopper, Pearson 1934), and any of the 2K limits with probability at most α (Boole). If none fails, (ε,δ)-DP says
aᵢ ≤ P(Sᵢ) ≤ e^ε·Q(Sᵢ) + δ ≤ e^ε·bᵢ + δ, and on the complement, with P and Q exchanged,
1 − bᵢ ≤ Q(Sᵢᶜ) ≤ e^ε·P(Sᵢᶜ) + δ ≤ e^ε·(1 − aᵢ) + δ. Solve both for ε. Nothing is assumed of the mechanism but that its
draws are independent; the largest of the 2K bounds holds because all of them hold at once.  ∎

Pictures of an audit: outputs with the event shaded, likelihood ratios beside e^ε, the bound beside the claim.

What an audit found, as a value and as a report.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, floor, inf, isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.attack_report import AttackReport, Share
from discreet.attacks.audit.outputs import Floats, Outputs
from discreet.attacks.audit.scores import Event
from discreet.errors import InvalidParameter
from discreet.exact import Number, float_up, printed_up, rational
from discreet.intervals import lower_limit, upper_limit
from discreet.report import Bars, Chart, Line, Points

SPARE = 1 - Fraction(
    1, 1 << 20
)  # confidences and tails are floats: this much of the failure probability covers their rounding


def failure_probability_of(confidence: Number) -> Fraction:
    """1 − confidence, exactly.

    >>> failure_probability_of("0.95")
    Fraction(1, 20)
    """
    exact = rational(confidence, "confidence", above=0, below=1)
    if 1 - exact < Fraction(1, 10**9):
        raise InvalidParameter("confidence", confidence, "at most 1 − 1e-9")
    return 1 - exact


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often an event came about on the side where it is likelier, and on the other."""

    hits: int
    trials: int
    other_hits: int
    other_trials: int

    def limits(self, failure_probability: Fraction) -> tuple[float, float]:
        """(a, b) of the theorem, each wrong with probability at most `failure_probability`.

        >>> a, b = Counts(hits=900, trials=1000, other_hits=100, other_trials=1000).limits(Fraction(1, 100))
        >>> round(a, 3), round(b, 3)
        (0.876, 0.124)
        """
        confidence = 1 - failure_probability * SPARE
        low = lower_limit(self.hits, self.trials, confidence=confidence)
        return float(low), float(upper_limit(self.other_hits, self.other_trials, confidence=confidence))

    def far_limits(self, failure_probability: Fraction) -> tuple[float, float]:
        """The opposite ends: at most this often on the likelier side, at least this often on the other."""
        confidence = 1 - failure_probability * SPARE
        high = upper_limit(self.hits, self.trials, confidence=confidence)
        return float(high), float(lower_limit(self.other_hits, self.other_trials, confidence=confidence))

    @property
    def complement(self) -> "Counts":
        """The same draws, counted outside the event; the sides change places."""
        return Counts(
            hits=self.other_trials - self.other_hits,
            trials=self.other_trials,
            other_hits=self.trials - self.hits,
            other_trials=self.trials,
        )


def epsilon_at_least(counts: Counts, *, delta: Fraction, failure_probability: Fraction) -> float:
    """A lower bound on ε at this δ from one event; each of its two limits fails with this probability at most.

    Guarantee: see the theorem above. Below 0, or −inf, where the counts prove nothing.

    >>> counts = Counts(hits=7300, trials=10_000, other_hits=2700, other_trials=10_000)  # a coin of ε = 1
    >>> round(epsilon_at_least(counts, delta=Fraction(0), failure_probability=Fraction(1, 200)), 2)
    0.94
    """
    low, high = counts.limits(failure_probability)
    return ratio_bound(low, high, float(delta))


def ratio_bound(low: float, high: float, delta: float) -> float:
    """ln((a − δ)/b), −inf where a ≤ δ.

    >>> round(ratio_bound(0.75, 0.25, 0.0), 4)
    1.0986
    """
    if low <= delta:
        return -inf
    return log((low - delta) / high) if high > 0 else inf


_BINS = 60
_TITLE = 60  # letters of an event in a title
_NAMED = 12  # outputs that get a bar each
_SEEN = 10  # draws of either side that a plotted ratio rests on


def charts(finding: "Finding") -> tuple[Chart, ...]:
    """The charts of a finding; only the last one where nothing tells the sides apart."""
    if not finding.tested:
        return (_beside(finding),)
    best = finding.tested[0]
    few = len(np.unique(np.concatenate([side.whole for side in finding.sides]))) <= _NAMED
    return (*(_bar_chart(finding, best) if few else _spread(finding, best)), _beside(finding))


def _beside(finding: "Finding") -> Chart:
    """The lower bound beside the claim."""
    proven = min(finding.epsilon, 50.0)
    names, values = ["ε is at least"], [proven]
    if finding.claimed is not None:
        names, values = ["claimed ε", *names], [float_up(finding.claimed), *values]
    return Chart(f"{finding.name}: claimed and proven", [Bars(names, values)], y="ε")


def _bar_chart(finding: "Finding", best: "TestedEvent") -> tuple[Chart, ...]:
    """A bar for each output; those of the event are marked."""
    codes = np.unique(np.concatenate([side.whole for side in finding.sides]))
    shares = [_shares(side, codes) for side in finding.sides]
    inside = {int(code) for side in finding.sides for code in np.unique(side.whole[_inside(best, side)])}
    shown = {code: text for side in finding.sides for code, text in side.shown.items()}
    texts = [shown.get(int(code), "…") for code in codes]
    order = sorted(range(len(codes)), key=lambda at: _natural(texts[at]))
    labels = [f"{texts[at][:24]}{' ★' if int(codes[at]) in inside else ''}" for at in order]
    sides = [Bars(labels, share[order], name) for share, name in zip(shares, ("x", "neighbor"), strict=True)]
    return (Chart(f"{finding.name}: outputs (★ {best.words[:_TITLE]})", sides, y="share of outputs"),)


def _natural(text: str) -> tuple[float, str]:
    """Numbers by their size, other outputs by their text."""
    try:
        return float(text), ""
    except ValueError:
        return inf, text


def _shares(side: Outputs, codes: NDArray[np.int64]) -> Floats:
    return np.bincount(np.searchsorted(codes, side.whole), minlength=len(codes)) / len(side)


def _spread(finding: "Finding", best: "TestedEvent") -> tuple[Chart, ...]:
    """Histograms over the output (one number) or over the score of the event (anything else)."""
    alone = finding.sides[0].width == 1 and np.isfinite(finding.sides[0].numbers).any()
    values = [side.numbers[:, 0] if alone else best.event.score.of(side) for side in finding.sides]
    edges = _edges(np.concatenate(values))
    if not alone and len(np.unique(np.concatenate(values))) <= 2:
        return (_inside_or_not(finding, best),)
    if len(edges) < 3:
        return ()
    centers = (edges[1:] + edges[:-1]) / 2
    counts = [np.histogram(side, edges)[0] for side in values]
    inside = sum(np.histogram(v[_inside(best, s)], edges)[0] for v, s in zip(values, finding.sides, strict=True))
    share = inside / np.maximum(counts[0] + counts[1], 1)
    axis = "output" if alone else best.event.score.words
    sizes = [count / len(side) for count, side in zip(counts, finding.sides, strict=True)]
    top = float(np.max(sizes))
    shade = Line(
        centers, np.zeros(len(centers)), "the event", low=np.zeros(len(centers)), high=top * share, dashed=True
    )
    lines = [Line(centers, size, name) for size, name in zip(sizes, ("x", "neighbor"), strict=True)]
    title = f"{finding.name}: outputs; shaded: {best.words[:_TITLE]}"
    outputs = Chart(title, [shade, *lines], x=axis, y="share of outputs")
    return (outputs, *_ratios(finding, centers, counts, axis))


def _inside_or_not(finding: "Finding", best: "TestedEvent") -> Chart:
    """How often the event comes about on either side, where outputs lie on no line."""
    names = ("x", "neighbor")
    bars = [Bars([best.words[:_TITLE], "not so"], [p, 1 - p], name) for p, name in zip(best.shares, names, strict=True)]
    return Chart(f"{finding.name}: what tells the sides apart", bars, y="share of outputs", y_range=(0, 1))


def _ratios(finding: "Finding", centers: Floats, counts: list[NDArray[np.int64]], axis: str) -> tuple[Chart, ...]:
    """The likelihood ratio in each bin, beside e^ε and e^−ε of the claim."""
    seen = (counts[0] >= _SEEN) & (counts[1] >= _SEEN)
    if not seen.any():
        return ()
    ratio = counts[0][seen] / len(finding.sides[0]) / (counts[1][seen] / len(finding.sides[1]))
    error = np.exp(2 * np.sqrt(1 / counts[0][seen] + 1 / counts[1][seen]))
    marks: list[Line | Points] = [Points(centers[seen], ratio, "seen", low=ratio / error, high=ratio * error)]
    if finding.claimed is not None and isfinite(claim := float_up(finding.claimed)) and claim < 300:
        ends = [float(centers[0]), float(centers[-1])]
        marks += [Line(ends, [exp(claim)] * 2, "e^ε claimed", dashed=True), Line(ends, [exp(-claim)] * 2, dashed=True)]
    return (
        Chart(f"{finding.name}: likelihood ratio", marks, x=axis, y="p(output | x) / p(output | neighbor)", log_y=True),
    )


def _edges(values: Floats) -> Floats:
    fine = values[np.isfinite(values)]
    if not len(fine):
        return np.empty(0)
    low, high = np.quantile(fine, [0.002, 0.998])
    if not low < high:
        return np.empty(0)
    whole = bool((fine == np.rint(fine)).all()) and high - low < _BINS
    return np.arange(np.floor(low) - 0.5, high + 1) if whole else np.linspace(low, high, _BINS + 1)


def _inside(best: "TestedEvent", side: Outputs) -> NDArray[np.bool_]:
    holds = best.event.holds(side)
    return ~holds if best.outside else holds


_SHOWN_EPSILON = 20  # ratios up to e^20 are written as numbers


_OPPOSITES = (
    *((" of at least ", " below "), (" of at most ", " above "), (" is at least ", " is below ")),
    *((" is at most ", " is above "), (" ≥ ", " < "), (" ≤ ", " > ")),
    *((" appears", " is missing"), (" is missing", " appears")),
)


@dataclass(frozen=True, slots=True)
class TestedEvent:
    """An event on fresh draws: counts on its likelier side and on the other, their limits, and the ε they prove."""

    event: Event
    counts: Counts
    low: float
    high: float
    epsilon: float
    favors_x: bool
    outside: bool  # whether the complement of the event was used

    @property
    def words(self) -> str:
        """The event in words."""
        plain = self.event.words
        if not self.outside:
            return plain
        turned = next((plain.replace(*pair) for pair in _OPPOSITES if plain.count(pair[0]) == 1), plain)
        return turned if turned != plain and " or " not in plain else f"not ({plain})"

    @property
    def rank(self) -> float:
        """Its ε, less a little where the event takes explaining: the plainer of two alike is shown."""
        return self.epsilon - (0.0 if self.event.score.plain else 0.02 + 0.03 * abs(self.epsilon))

    def clear(self, claimed: Fraction | None) -> bool:
        """Whether it refutes the claim and anybody sees what it is."""
        return self.event.score.plain and claimed is not None and self.epsilon > claimed

    @property
    def shares(self) -> tuple[float, float]:
        """How often it happened on x and on the neighbor."""
        mine = self.counts.hits / self.counts.trials
        other = self.counts.other_hits / self.counts.other_trials
        return (mine, other) if self.favors_x else (other, mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A lower bound on ε at δ, with its confidence, beside the claim.

    `tested`: the event to show is first, one about the last bits of floats only where no plain one refutes the claim.
    `epsilon` is 0 where nothing tells x from its neighbor; `broken` says that the bound exceeds the claim.
    """

    name: str
    delta: Fraction
    claimed: Fraction | None
    confidence: Fraction
    draws: int
    tested: tuple[TestedEvent, ...]
    sides: tuple[Outputs, Outputs] = field(repr=False)

    @property
    def epsilon(self) -> float:
        """The lower bound."""
        return max([0.0, *(tested.epsilon for tested in self.tested)])

    @property
    def provable(self) -> float:
        """The largest bound that so many draws can prove: of an event that is sure on one side, never on the other.

        A claim above it cannot be refuted by this audit, whatever the mechanism does.
        """
        mine, other = map(len, self.sides)
        counts = Counts(hits=mine, trials=mine, other_hits=0, other_trials=other)
        failure_probability = (1 - self.confidence) / (2 * max(1, len(self.tested)))
        return max(0.0, epsilon_at_least(counts, delta=self.delta, failure_probability=failure_probability))

    @property
    def beyond_reach(self) -> bool:
        """Whether no outcome of this audit could have refuted the claim."""
        return self.claimed is not None and self.provable <= self.claimed

    @property
    def verdict_on_claim(self) -> str:
        """`broken`, `not refuted`, `not testable` (no outcome could have refuted it), or `none` without a claim."""
        if self.claimed is None:
            return "none"
        return "broken" if self.broken else "not testable" if self.beyond_reach else "not refuted"

    @property
    def broken(self) -> bool:
        """Whether the bound is above what was claimed."""
        return self.claimed is not None and self.epsilon > self.claimed

    @property
    def event(self) -> str:
        """The event that proves the bound, or nearly so in plainer words."""
        return self.tested[0].words if self.tested else "none found"

    @property
    def seen(self) -> str:
        """What gives the mechanism away, as a sentence; "" where nothing does."""
        if not self.tested:
            return ""
        p, q = (f"{100 * share:.3g} %" for share in self.tested[0].shares)
        times = f", {exp(self.estimate):.3g} times as often" if self.estimate < _SHOWN_EPSILON else ""
        allowed = (
            ""
            if self.claimed is None or self.claimed > _SHOWN_EPSILON
            else (f"; the claim allows {exp(float_up(self.claimed)):.3g} times")
        )
        spare = f", beyond δ {printed_up(self.delta)}" if self.delta else ""
        return f"{self.event}: {p} of the outputs on x, {q} on its neighbor{times}{spare}{allowed}."

    @property
    def estimate(self) -> float:
        """ln((p − δ)/q) at the observed shares of the best event: no bound, and ∞ where q was never seen."""
        if not self.tested:
            return 0.0
        p, q = _likely_first(self.tested[0])
        return max(0.0, ratio_bound(p, q, float(self.delta)))

    def report(self) -> AttackReport:
        """The finding in the form of all attacks.

        The game: x or its neighbor, each with probability ½, gives one output; the attacker speaks up if it lies in
        the event, and names the likelier side. Success is how often that is right, p/(p + q), with δ taken off p. The
        reference is the most that the claim allows, e^ε/(1 + e^ε); without a claim it is a coin. With a claim, the
        verdict is "falls" exactly where it is broken: near 1, no difference is too small to matter.
        """

        allowed = 0.5 if self.claimed is None else guess_bound_when_sure(float_up(self.claimed))
        return AttackReport(
            attack="audit",
            against=self.name,
            goal="tell from one output whether a person's data was in it",
            people=1,
            success=self._success(),
            baseline=Share.known(allowed),
            confidence=float(self.confidence),
            tolerance=0.0 if self.broken else 0.05,
            facts=self._facts(),
            charts=charts(self),
            remarks=self._remarks(),
            unread=self._unreachable(),
        )

    def _success(self) -> Share:
        if not self.tested:
            return Share(value=0.5, low=0.0, high=1.0)
        best = self.tested[0]
        p, q = _likely_first(best)
        gained = max(0.0, p - float(self.delta))
        low = guess_bound_when_sure(best.epsilon)
        value = gained / (gained + q) if gained + q > 0 else 0.5
        most, least = best.counts.far_limits((1 - self.confidence) / (2 * len(self.tested)))
        most = max(0.0, most - float(self.delta))
        high = most / (most + least) if most + least > 0 else 1.0
        return Share(value=max(low, value), low=low, high=max(low, value, high))

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "ε is at least": _number(self.epsilon),
            "at δ": float(self.delta),
            "with confidence": float(self.confidence),
            "claimed ε": "none" if self.claimed is None else printed_up(self.claimed),
            "claim": self.verdict_on_claim,
            "ε that could have been proved, at most": _number(self.provable),
            "ε of the observed shares": _number(self.estimate),
            "event": self.event,
        }
        if self.tested:
            p, q = self.tested[0].shares
            facts |= {"probability of the event on x": p, "probability on the neighbor": q}
            own = self.tested[0].epsilon
            facts |= {"ε that this event proves": _number(own)} if own < self.epsilon else {}
        return facts | {"events counted": len(self.tested), "draws": self.draws}

    def _unreachable(self) -> tuple[str, ...]:
        """What is said where the claim lies above anything that the draws can prove."""
        if not self.beyond_reach or self.claimed is None:
            return ()
        failure_probability = float((1 - self.confidence) / (2 * max(1, len(self.tested))))
        power = min(float(self.claimed), 300.0) + log(log(1 / failure_probability)) - log(1 - float(self.delta))
        return (
            f"{self.draws // 2:,} draws of each side prove an ε of {self.provable:.2f} at most: they could not have "
            f"refuted {printed_up(self.claimed)}; that takes more than {2 * exp(power):.2g} of each.",
        )

    def _remarks(self) -> tuple[str, ...]:
        compared = (
            "Guessing here means a coin."
            if self.claimed is None
            else "Guessing here means the best guess that the claim allows: right with probability e^ε/(1 + e^ε)."
        )
        return (
            *([f"Seen: {self.seen}"] if self.tested else []),
            compared,
            "An audit refutes a claim or does not; it never proves one: other inputs and other events were not tried.",
        )


def guess_bound_when_sure(epsilon: float) -> float:
    """e^ε/(1 + e^ε): how often a guess may be right under ε-DP, given that the guesser speaks up.

    >>> guess_bound_when_sure(0.0), round(guess_bound_when_sure(1.0), 4), guess_bound_when_sure(inf)
    (0.5, 0.7311, 1.0)
    """
    if epsilon == -inf:
        return 0.0
    return 1 / (1 + exp(-epsilon)) if epsilon > -700 else 0.0


def _likely_first(tested: TestedEvent) -> tuple[float, float]:
    p, q = tested.shares
    return (p, q) if tested.favors_x else (q, p)


def _number(value: float) -> float | str:
    return floor(value * 10**6) / 10**6 if isfinite(value) else "∞"
