"""What an audit found, as a value and as a report."""

from dataclasses import dataclass, field
from fractions import Fraction
from math import exp, floor, inf, isfinite, log
from typing import Any

from discreet.attacks.audit.bound import Counts, epsilon_at_least, ratio_bound
from discreet.attacks.audit.events import Event
from discreet.attacks.audit.outputs import Outputs
from discreet.attacks.report import AttackReport, Share
from discreet.exact import float_up, printed_up

_SHOWN_EPSILON = 20  # ratios up to e^20 are written as numbers


_OPPOSITES = (
    *((" of at least ", " below "), (" of at most ", " above "), (" is at least ", " is below ")),
    *((" is at most ", " is above "), (" ≥ ", " < "), (" ≤ ", " > ")),
    *((" appears", " is missing"), (" is missing", " appears")),
)


@dataclass(frozen=True, slots=True)
class Tested:
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

    @property
    def shares(self) -> tuple[float, float]:
        """How often it happened on x and on the neighbor."""
        mine = self.counts.hits / self.counts.trials
        other = self.counts.other_hits / self.counts.other_trials
        return (mine, other) if self.favors_x else (other, mine)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A lower bound on ε at δ, with its confidence, beside the claim.

    `epsilon` is 0 where nothing tells x from its neighbor; `broken` says that the bound exceeds the claim.
    """

    name: str
    delta: Fraction
    claimed: Fraction | None
    confidence: Fraction
    draws: int
    tested: tuple[Tested, ...]
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
        doubt = (1 - self.confidence) / (2 * max(1, len(self.tested)))
        return max(0.0, epsilon_at_least(counts, delta=self.delta, doubt=doubt))

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
        spare = f", beyond δ {float(self.delta):.3g}" if self.delta else ""
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
        reference is the most that the claim allows, e^ε/(1 + e^ε); without a claim it is a coin. The verdict is
        "falls" or "leaks" exactly where the claim is broken.
        """
        from discreet.attacks.audit.charts import charts

        allowed = 0.5 if self.claimed is None else speaks_rightly(float_up(self.claimed))
        return AttackReport(
            attack="audit",
            against=self.name,
            goal="tell from one output whether a person's data was in it",
            people=1,
            success=self._success(),
            baseline=Share.known(allowed),
            confidence=float(self.confidence),
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
        low = speaks_rightly(best.epsilon)
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
        doubt = float((1 - self.confidence) / (2 * max(1, len(self.tested))))
        power = min(float(self.claimed), 300.0) + log(log(1 / doubt)) - log(1 - float(self.delta))
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


def speaks_rightly(epsilon: float) -> float:
    """e^ε/(1 + e^ε): how often a guess may be right under ε-DP, given that the guesser speaks up.

    >>> speaks_rightly(0.0), round(speaks_rightly(1.0), 4), speaks_rightly(inf)
    (0.5, 0.7311, 1.0)
    """
    if epsilon == -inf:
        return 0.0
    return 1 / (1 + exp(-epsilon)) if epsilon > -700 else 0.0


def _likely_first(tested: Tested) -> tuple[float, float]:
    p, q = tested.shares
    return (p, q) if tested.favors_x else (q, p)


def _number(value: float) -> float | str:
    return floor(value * 10**6) / 10**6 if isfinite(value) else "∞"
