"""Membership inference: can one tell from a model whose data it was trained on, and what does that say of its ε?

Models enter as arrays of what they answer, so any library's will do.

- black box, from outputs: `LossThreshold`, `Lira`, `Rmia` (with `References`, trained through a `Trainer`);
- white box, from weights and gradients: `GradientNorm`, `GradientAlignment`, `CanaryGradients`;
- gray box, from a sequence of models: `Checkpoints`.

Each is a value with `run()`, an `AttackReport`, and `find()`, a `Found`: the curve and, where members were drawn by
fair `coins` or by independent trials, a lower bound on ε beside the claim. `MembershipReport` is one page, before and
after.
"""

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.bound import EpsilonBound
from discreet.attacks.membership.canaries import CanaryGradients, check_norms, coins, directions
from discreet.attacks.membership.checkpoints import Checkpoints
from discreet.attacks.membership.found import Found
from discreet.attacks.membership.gradients import GradientAlignment, GradientNorm
from discreet.attacks.membership.lira import Lira
from discreet.attacks.membership.logistic import Logistic, LogisticModel
from discreet.attacks.membership.loss import LossThreshold
from discreet.attacks.membership.onerun import epsilon_of_guesses, one_run
from discreet.attacks.membership.references import Model, References, Trainer, splits
from discreet.attacks.membership.report import MembershipReport
from discreet.attacks.membership.rmia import Rmia
from discreet.attacks.membership.roc import Roc
from discreet.attacks.membership.scores import Scores, check_apart, flags
from discreet.attacks.membership.trials import trials

__all__ = [
    "CanaryGradients",
    "Checkpoints",
    "EpsilonBound",
    "Found",
    "GradientAlignment",
    "GradientNorm",
    "Lira",
    "Logistic",
    "LogisticModel",
    "LossThreshold",
    "MembershipAttack",
    "MembershipReport",
    "Model",
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
