"""Gray box: the attacker has not the training's inside, but its sequence of published models.

Each checkpoint was trained on the members again, so what it gained on them adds up, while the noise of single
checkpoints averages out (Nasr, Shokri, Houmansadr 2019, section on several epochs; Jagielski et al. 2023, "How to
combine membership-inference attacks on multiple updated machine learning models").

>>> import numpy as np
>>> from discreet.attacks.membership import Checkpoints
>>> rng = np.random.default_rng(1)
>>> inside, easy = np.arange(400) < 200, rng.normal(size=400)
>>> path = [-np.logaddexp(0, -(easy + t * inside / 2 + rng.normal(size=400))) for t in range(10)]
>>> Checkpoints(confidences=path, members=inside).find().auc().value > 0.85
True
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.lira import logits
from discreet.attacks.membership.scores import Floats, log_confidences
from discreet.errors import InvalidData


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Checkpoints(MembershipAttack):
    """`confidences` are ln p(y | x) of each checkpoint (checkpoints × targets), the earliest first.

    The earliest is what the others are compared with: it makes up for targets that are easy for every model.
    """

    confidences: ArrayLike

    attack: ClassVar[str] = "checkpoints"
    sees: ClassVar[str] = "outputs of a sequence of models (gray box)"

    def scores(self) -> Floats:
        """The mean gain of the logit over the first checkpoint."""
        path = logits(log_confidences(self.confidences, "confidences", dimensions=2))
        if len(path) < 2:
            raise InvalidData("confidences: got one checkpoint, expected two or more")
        return np.asarray((path[1:] - path[0]).mean(axis=0))
