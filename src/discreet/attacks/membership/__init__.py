"""Membership inference: can one tell from a model whose data it was trained on, and what does that say of its ε?

Models enter as arrays of what they answer, so any library's will do.

- black box, from outputs: `LossThreshold`, `Lira`, `Rmia` (with `References`, trained through a `Trainer`);
- white box, from weights and gradients: `GradientNorm`, `GradientAlignment`, `CanaryGradients`;
- gray box, from a sequence of models: `Checkpoints`.

Each is a value with `run()`, an `AttackReport`, and `find()`, a `MembershipFinding`: the curve and, where members were
drawn by fair `coins` or by independent trials, a lower bound on ε beside the claim. `MembershipReport` is one page,
before and after.
"""

from discreet.attacks.membership.attack import MembershipAttack, MembershipFinding, trials
from discreet.attacks.membership.black_box import (
    Checkpoints,
    Lira,
    LossThreshold,
    PredictiveModel,
    References,
    Rmia,
    Trainer,
    splits,
)
from discreet.attacks.membership.membership_report import MembershipReport
from discreet.attacks.membership.one_run import epsilon_of_guesses, one_run
from discreet.attacks.membership.scores import EpsilonBound, Roc, Scores, check_apart, flags
from discreet.attacks.membership.white_box import (
    CanaryGradients,
    GradientAlignment,
    GradientNorm,
    check_norms,
    coins,
    directions,
)

__all__ = [
    "CanaryGradients",
    "Checkpoints",
    "EpsilonBound",
    "GradientAlignment",
    "GradientNorm",
    "Lira",
    "LossThreshold",
    "MembershipAttack",
    "MembershipFinding",
    "MembershipReport",
    "PredictiveModel",
    "References",
    "Rmia",
    "Roc",
    "Scores",
    "Trainer",
    "check_apart",
    "check_norms",
    "coins",
    "directions",
    "epsilon_of_guesses",
    "flags",
    "one_run",
    "splits",
    "trials",
]
