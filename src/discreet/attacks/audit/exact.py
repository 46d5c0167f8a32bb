"""The exact audit of a finite mechanism: its channel tells ε, or δ at the ε claimed, without a single draw."""

from dataclasses import dataclass
from fractions import Fraction
from math import isfinite
from typing import Any

from discreet.attacks.audit.audit import Claim, claim
from discreet.attacks.audit.finding import speaks_rightly
from discreet.attacks.report import AttackReport, Share
from discreet.errors import InvalidParameter
from discreet.exact import Number, float_up
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.graph import Neighborhood
from discreet.report import Bars, Chart, Line


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelAudit:
    """A channel (or rows of probabilities), which inputs are neighbors, and what was claimed.

    `neighbors` is "all", "line", pairs of inputs or whatever a channel takes; (x, x') in a list audits one pair.

    Guarantee: for a channel of rationals the ε found is the tightest one, rounded up in its last digit
    (`Channel.epsilon`); for floats it is that of the entries given.

    >>> found = ChannelAudit(channel=[["3/4", "1/4"], ["1/4", "3/4"]], claimed=1)
    >>> round(found.epsilon, 4), found.broken, found.run().verdict
    (1.0986, True, 'falls')
    """

    channel: Any
    neighbors: Neighborhood = "all"
    claimed: Claim | None = None
    delta: Number | None = None
    name: str = "a channel"

    def __post_init__(self) -> None:
        claim(self.claimed, self.delta)
        if not isinstance(self.channel, Channel):
            object.__setattr__(self, "channel", Channel(self.channel))
        if len(self.channel.inputs) < 2:
            raise InvalidParameter("channel", f"{len(self.channel.inputs)} input", "two inputs or more to compare")

    @property
    def epsilon(self) -> float:
        """The tightest ε at the δ in question."""
        return float(self.channel.epsilon(self.neighbors, delta=self._delta))

    @property
    def delta_at_claim(self) -> float | None:
        """The least δ for which the claimed ε holds; None without a claim."""
        epsilon = claim(self.claimed, self.delta)[0]
        return None if epsilon is None else float(self.channel.delta(epsilon, self.neighbors))

    @property
    def broken(self) -> bool:
        """Whether the channel needs a larger δ than was claimed at the claimed ε."""
        needed = self.delta_at_claim
        return needed is not None and self._exceeds(needed)

    def run(self) -> AttackReport:
        """Audit, and report."""
        epsilon, found = claim(self.claimed, self.delta)[0], self.epsilon
        if epsilon is not None and not self.broken:
            found = min(found, float_up(epsilon))  # rounding up must not accuse
        allowed = 0.5 if epsilon is None else speaks_rightly(float_up(epsilon))
        return AttackReport(
            attack="audit, exact",
            against=self.name,
            goal="tell from one output whether a person's data was in it",
            people=1,
            success=Share.known(speaks_rightly(found)),
            baseline=Share.known(allowed),
            confidence=1.0,
            tolerance=0.0,
            facts=self._facts(),
            charts=self._charts(),
            remarks=("Every output of every pair of neighbors was compared: nothing is left to chance.",),
        )

    @property
    def _delta(self) -> Fraction:
        return claim(self.claimed, self.delta)[1]

    def _exceeds(self, needed: float) -> bool:
        """δ needed at the claimed ε is above the δ claimed; for rationals without rounding."""
        epsilon = claim(self.claimed, self.delta)[0]
        if not self.channel.exact or epsilon is None:
            return needed > float(self._delta) + 1e-12
        return Fraction(repr(needed)) > self._delta and (self._delta > 0 or self.epsilon > epsilon)

    def _facts(self) -> dict[str, Any]:
        epsilon, worst = claim(self.claimed, self.delta)[0], self.channel.worst(self.neighbors)
        return {
            "ε": self.epsilon if isfinite(self.epsilon) else "∞",
            "at δ": float(self._delta),
            "claimed ε": "none" if epsilon is None else float_up(epsilon),
            "δ at the claimed ε": "none" if epsilon is None else self.delta_at_claim,
            "claim": "none" if epsilon is None else "broken" if self.broken else "holds",
            "worst output": "none" if worst is None else str(worst),
        }

    def _charts(self) -> tuple[Chart, ...]:
        curve = self.channel.curve(self.neighbors)
        shown = Line([e for e, _ in curve], [d for _, d in curve], "least δ")
        epsilon, found = claim(self.claimed, self.delta)[0], min(self.epsilon, 50.0)
        names, values = (["ε"], [found]) if epsilon is None else (["claimed ε", "ε"], [float_up(epsilon), found])
        return (
            Chart(f"{self.name}: δ for every ε", [shown], x="ε", y="δ"),
            Chart(f"{self.name}: claimed and true", [Bars(names, values)], y="ε"),
        )
