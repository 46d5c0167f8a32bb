"""Black box, LiRA: how likely is this confidence if the target was in, and if it was not? (Carlini et al. 2022)

"Membership inference attacks from first principles": the logit of the confidence in the true class, ln(p/(1 − p)), is
near normal over training runs, so a few reference models give its mean with the target in and without it (algorithm 1,
online) or without it alone (section V-C, offline). With few models one standard deviation is shared by all targets
(section VI-C, "fixed variance").

>>> import numpy as np
>>> from discreet.attacks.membership import Lira, References, splits
>>> rng = np.random.default_rng(1)
>>> inside, easy = rng.random(400) < 0.5, rng.normal(size=400) * 3
>>> def model(members):
...     return -np.logaddexp(0, -(easy + 1.5 * members + 0.5 * rng.normal(size=400)))
>>> split = splits(400, count=8, seed=2)
>>> references = References.of([model(one) for one in split], split)
>>> found = Lira(confidences=model(inside), references=references, members=inside, design="coins").find()
>>> found.auc().value > 0.9, found.bound.epsilon > 1
(True, True)
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.attacks.membership.attack import MembershipAttack
from discreet.attacks.membership.references import References
from discreet.attacks.membership.scores import Bools, Floats, log_confidences
from discreet.errors import InvalidData, InvalidParameter

Mode = Literal["auto", "online", "offline"]

_OWN = 32  # models with and without a target, from which on it has a standard deviation of its own
_LEAST = 1e-6  # a standard deviation
_NEAR_ONE = -(2.0**-53)  # a confidence that a float cannot tell from 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Lira(MembershipAttack):
    """`confidences` are ln p(y | x) of the model on the targets; `references` say the same of models one knows.

    `mode` is online (models with and without each target), offline (without it; those with it are passed over) or
    auto: online if the references allow it.
    """

    confidences: ArrayLike
    references: References
    mode: Mode = "auto"

    attack: ClassVar[str] = "LiRA"
    sees: ClassVar[str] = "outputs, reference models (black box)"

    def scores(self) -> Floats:
        """The logarithm of the likelihood ratio; offline, how far above the models without the target."""
        seen = logits(log_confidences(self.confidences, "confidences"))
        check_references(self.references, len(seen))
        online = resolved(self.mode, self.references) == "online"
        table, inside = logits(self.references.confidences), self.references.inside
        without = _Side.of(table, ~inside)
        if not online:
            return np.asarray((seen - without.mean) / without.spread)
        return _Side.of(table, inside).log_density(seen) - without.log_density(seen)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """Mean and standard deviation of each target's logit over some of the models."""

    mean: Floats
    spread: Floats

    @classmethod
    def of(cls, table: Floats, chosen: Bools) -> "_Side":
        counts = chosen.sum(axis=0)
        mean = np.where(chosen, table, 0).sum(axis=0) / counts
        squares = np.where(chosen, (table - mean) ** 2, 0).sum(axis=0)
        if counts.min() >= _OWN:
            return cls(mean, np.maximum(np.sqrt(squares / (counts - 1)), _LEAST))
        free = int((counts - 1).sum())
        shared = float(np.sqrt(squares.sum() / free)) if free else 1.0
        return cls(mean, np.full(len(mean), max(shared, _LEAST)))

    def log_density(self, seen: Floats) -> Floats:
        return np.asarray(-(((seen - self.mean) / self.spread) ** 2) / 2 - np.log(self.spread))


def logits(confidences: Floats) -> Floats:
    """ln(p/(1 − p)) from ln p, finite.

    >>> logits(np.log([0.5, 0.9])).round(4).tolist(), bool(np.isfinite(logits(np.array([0.0, -np.inf]))).all())
    ([0.0, 2.1972], True)
    """
    kept = np.clip(confidences, -745.0, _NEAR_ONE)
    return np.asarray(kept - np.log(-np.expm1(kept)))


def check_references(references: References, targets: int, name: str = "targets") -> None:
    """Refuse references of other targets, and targets that no model was trained without."""
    if references.confidences.shape[1] != targets:
        raise InvalidData(f"references: they know {references.confidences.shape[1]} targets, not {targets} {name}")
    always = int(references.inside.all(axis=0).sum())
    if always:
        raise InvalidData(f"references: {always} {name} are in every model; train some without them")


def resolved(mode: str, references: References) -> Literal["online", "offline"]:
    """The mode meant."""
    if mode not in ("auto", "online", "offline"):
        raise InvalidParameter("mode", mode, "'auto', 'online' or 'offline'")
    if mode == "online" and not references.online:
        missing = int((~references.inside.any(axis=0)).sum())
        raise InvalidData(f"references: {missing} targets are in no model; train some with them, or use mode='offline'")
    return "online" if references.online and mode != "offline" else "offline"
