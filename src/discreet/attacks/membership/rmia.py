"""Black box, RMIA: does the model favor the target more than it favors other people? (Zarifzadeh et al. 2024)

Zarifzadeh, Liu, Shokri, "Low-cost high-power membership inference attacks": a target x is compared with people z of
whom the model knows nothing: LR(x, z) = (p(x | model)/p(x)) / (p(z | model)/p(z)), where p(·) is a mean over reference
models; the score of x is the share of z with LR(x, z) ≥ γ. One reference model may do. Offline, where no reference
model had x in, p(x) ≈ ((1 + a)·p_out(x) + (1 − a))/2 (their offline approximation; a between 0 and 1).

>>> import numpy as np
>>> from discreet.attacks.membership import References, Rmia
>>> rng = np.random.default_rng(1)
>>> inside, easy = np.arange(600) < 200, rng.normal(size=600) * 3  # the last 200 are the population
>>> def model(members):
...     return -np.logaddexp(0, -(easy + 2 * members + 0.5 * rng.normal(size=600)))
>>> target, out = model(inside), np.zeros((2, 600), bool)
>>> references = References.of([model(one) for one in out], out)
>>> attack = Rmia(
...     confidences=target[:400], references=references.of_targets(range(400)), members=inside[:400],
...     population=target[400:], population_references=references.of_targets(range(400, 600)),
... )
>>> attack.find().auc().value > 0.8
True
"""

from dataclasses import dataclass
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.lira import Mode, check_references, resolved
from discreet.attacks.membership.references import References
from discreet.attacks.membership.scores import FEWEST, Floats, log_confidences
from discreet.errors import InvalidData
from discreet.exact import Number, rational


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rmia(MembershipAttack):
    """`confidences` are ln p(y | x) of the model on the targets, `population` on people who were in no training set.

    `references` and `population_references` say the same of models one knows. `gamma` ≥ 1; `scale` is a. `mode` as in
    `Lira`.
    """

    confidences: ArrayLike
    references: References
    population: ArrayLike
    population_references: References
    gamma: Number = 2
    scale: Number = 0.3
    mode: Mode = "auto"

    attack: ClassVar[str] = "RMIA"
    sees: ClassVar[str] = "outputs, reference models, a population (black box)"

    def scores(self) -> Floats:
        """The share of the population that the target is ahead of, by γ at least; ties in it by the ratio itself."""
        gamma = float(rational(self.gamma, "gamma", at_least=1))
        scale = float(rational(self.scale, "scale", at_least=0, at_most=1))
        online = resolved(self.mode, self.references) == "online"
        mine = _ratio(self.confidences, self.references, "targets", scale, online=online)
        theirs = np.sort(_ratio(self.population, self.population_references, "population", scale, online=online))
        if len(theirs) < FEWEST:
            raise InvalidData(f"population: {len(theirs)} people, expected {FEWEST} at least")
        ahead = np.searchsorted(theirs, mine - log(gamma), side="right") / len(theirs)
        return np.asarray(ahead + _ranks(mine) / (2 * len(theirs)))


def _ratio(given: ArrayLike, references: References, name: str, scale: float, *, online: bool) -> Floats:
    """ln p(x | model) − ln p(x)."""
    seen = np.maximum(log_confidences(given, name), -745.0)
    check_references(references, len(seen), name)
    table, inside = np.exp(references.confidences), references.inside
    without = np.where(inside, 0, table).sum(axis=0) / (~inside).sum(axis=0)
    mean = ((1 + scale) * without + (1 - scale)) / 2
    if online:
        counts = inside.sum(axis=0)
        known = np.where(inside, table, 0).sum(axis=0) / np.maximum(counts, 1)
        mean = np.where(counts > 0, (known + without) / 2, mean)
    return np.asarray(seen - np.log(np.maximum(mean, np.exp(-745.0))))


def _ranks(ratio: Floats) -> Floats:
    """Ranks from 0 to below 1, equal ones for equal ratios: within a step of the share they decide."""
    return np.asarray(np.searchsorted(np.sort(ratio), ratio, side="left") / len(ratio))
