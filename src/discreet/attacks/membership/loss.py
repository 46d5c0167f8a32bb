"""Black box, the plainest: whoever the model fits well was in (Yeom, Giacomelli, Fredrikson, Jha 2018).

"Privacy risk in machine learning: analyzing the connection to overfitting", adversary 1: call a target a member if its
loss is below a threshold. No reference model is needed; targets that are easy for every model are mistaken for members.

>>> import numpy as np
>>> from discreet.attacks.membership import LossThreshold
>>> rng = np.random.default_rng(1)
>>> inside = np.arange(400) < 200
>>> overfit = rng.exponential(np.where(inside, 0.02, 1.0))
>>> LossThreshold(losses=overfit, members=inside).run().verdict
'falls'
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.scores import Floats, numbers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LossThreshold(MembershipAttack):
    """`losses` are the model's losses on the targets; +∞ is allowed."""

    losses: ArrayLike

    attack: ClassVar[str] = "loss threshold"
    sees: ClassVar[str] = "outputs (black box)"

    def scores(self) -> Floats:
        """Minus the loss."""
        return np.asarray(-numbers(self.losses, "losses", infinite=True))
