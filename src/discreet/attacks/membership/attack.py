"""What all membership attacks share: who was in, how they came to be in, what was claimed; find, and report."""

from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from discreet.attacks.audit.audit import Claim, claim
from discreet.attacks.membership.bound import Design, Family, design_of, doubt_of, family_of
from discreet.attacks.membership.found import Found
from discreet.attacks.membership.scores import Floats, Scores
from discreet.attacks.report import AttackReport
from discreet.exact import Number, integer


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MembershipAttack:
    """A guess for each target, and what the judge knows.

    `members` says of each target whether it was in. `design` says how that came about, and with it what may be
    concluded about ε (see `bound`): "coins" (one run; a fair coin for each target), "trials" (a run of its own for each
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

    def find(self) -> Found:
        """The scores, the curve, the bound on ε.

        Guarantee: with at least the stated confidence the bound does not exceed the true ε; see `onerun` and `trials`
        for what each design must fulfil.
        """
        epsilon, delta = claim(self.claimed, self.delta)
        return Found.of(
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
