"""A lower bound on ε that membership scores prove: which theorem, what was counted, with what confidence.

What may be concluded depends on how the targets came to be members, and nothing else:

- `"coins"`: one training run; each target was put in or left out by a fair coin of its own. See `onerun`.
- `"trials"`: each score is from a training run of its own, all of them independent. See `trials`.
- `"unknown"`: anything else, such as a training set and a test set. Then no ε follows. Scores of one model depend on
  one another, and members may differ from non-members for reasons other than membership, so (TPR, FPR) of one model
  bounds nothing, however sure the attack is.

`curve="gaussian"` asks for more of the claim, and so finds more: that the training is as private as one Gaussian
release (as full-batch DP-SGD is, and as accountants of Gaussian noise claim). The bound is then on that release's μ,
told as its ε at δ, and holds for trainings with such a curve only; `curve="any"` holds for all.

In both designs leaving a target out must give a neighbor in the sense of the claim (add or remove one).
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from discreet.errors import InvalidParameter
from discreet.exact import Number, rational

Design = Literal["coins", "trials", "unknown"]
Family = Literal["any", "gaussian"]
DESIGNS = ("coins", "trials", "unknown")

SPARE = 1 - Fraction(1, 1 << 20)  # tails are floats: this much of the doubt covers their rounding


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


def doubt_of(confidence: Number) -> Fraction:
    """1 − confidence, exactly.

    >>> doubt_of("0.95")
    Fraction(1, 20)
    """
    exact = rational(confidence, "confidence", above=0, below=1)
    if 1 - exact < Fraction(1, 10**9):
        raise InvalidParameter("confidence", confidence, "at most 1 − 1e-9")
    return 1 - exact


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
