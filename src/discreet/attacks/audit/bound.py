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
"""

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log

from discreet.intervals import lower_limit, upper_limit

_SPARE = 1 - Fraction(1, 1 << 20)  # confidences are floats: this much of the doubt covers their rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How often an event came about on the side where it is likelier, and on the other."""

    hits: int
    trials: int
    other_hits: int
    other_trials: int

    def limits(self, doubt: Fraction) -> tuple[float, float]:
        """(a, b) of the theorem, each wrong with probability at most `doubt`.

        >>> a, b = Counts(hits=900, trials=1000, other_hits=100, other_trials=1000).limits(Fraction(1, 100))
        >>> round(a, 3), round(b, 3)
        (0.876, 0.124)
        """
        confidence = 1 - doubt * _SPARE
        low = lower_limit(self.hits, self.trials, confidence=confidence)
        return float(low), float(upper_limit(self.other_hits, self.other_trials, confidence=confidence))

    def far_limits(self, doubt: Fraction) -> tuple[float, float]:
        """The opposite ends: at most this often on the likelier side, at least this often on the other."""
        confidence = 1 - doubt * _SPARE
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


def epsilon_at_least(counts: Counts, *, delta: Fraction, doubt: Fraction) -> float:
    """A lower bound on ε at this δ from one event; each of its two limits fails with probability at most `doubt`.

    Guarantee: see the theorem above. Below 0, or −inf, where the counts prove nothing.

    >>> counts = Counts(hits=7300, trials=10_000, other_hits=2700, other_trials=10_000)  # a coin of ε = 1
    >>> round(epsilon_at_least(counts, delta=Fraction(0), doubt=Fraction(1, 200)), 2)
    0.94
    """
    low, high = counts.limits(doubt)
    return ratio_bound(low, high, float(delta))


def ratio_bound(low: float, high: float, delta: float) -> float:
    """ln((a − δ)/b), −inf where a ≤ δ.

    >>> round(ratio_bound(0.75, 0.25, 0.0), 4)
    1.0986
    """
    if low <= delta:
        return -inf
    return log((low - delta) / high) if high > 0 else inf
