"""The labels of an update: with softmax and cross entropy the last layer's biases have the gradient Σ (p − y).

It is negative for a class only if a row of that class is in the update, and of one row exactly for its class (Zhao,
Mopuri, Bilen 2020, "iDLG: improved deep leakage from gradients").

>>> import numpy as np
>>> from discreet.attacks.updates import UpdateLabels
>>> p, labels = np.full((200, 4), 0.25), np.arange(200) % 4
>>> report = UpdateLabels(biases=p - np.eye(4)[labels], labels=labels[:, None]).run()
>>> report.success.value, report.baseline.value, report.verdict
(1.0, 0.25, 'falls')
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.report import AttackReport, Share
from discreet.errors import InvalidData


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class UpdateLabels:
    """`biases` are the gradient of the last layer's biases, for each update (of a change by descent, minus it).

    `labels` is the judge's: the classes, from 0, of the rows behind each update.
    """

    biases: Sequence[ArrayLike] | NDArray[np.float64] = field(repr=False)
    labels: Sequence[ArrayLike] | NDArray[np.int64] = field(repr=False)
    against: str = "each client's update"
    confidence: float = 0.95

    def run(self) -> AttackReport:
        """Name the class with the most negative slope; the guesser names the commonest class."""
        slopes, held = self._checked()
        named = slopes.argmin(axis=1)
        hits = sum(bool((one == name).any()) for one, name in zip(held, named, strict=True))
        common = int(np.bincount(np.concatenate(held)).argmax())
        guessed = sum(bool((one == common).any()) for one in held)
        silent = int((slopes == slopes[:, :1]).all(axis=1).sum())
        return AttackReport(
            attack="labels from updates",
            against=self.against,
            goal="name a class that is in a client's update",
            people=len(held),
            success=Share.counted(hits, len(held), confidence=self.confidence),
            baseline=Share.counted(guessed, len(held), confidence=self.confidence),
            confidence=self.confidence,
            facts={
                "attacker sees": "the last layer's part of each update (white box)",
                "rows in an update": f"{np.mean([len(one) for one in held]):.4g}",
                "classes": slopes.shape[1],
            },
            unread=(f"{silent} updates have the same slope for every class",) if silent else (),
        )

    def _checked(self) -> tuple[NDArray[np.float64], list[NDArray[np.int64]]]:
        try:
            slopes = np.asarray(self.biases, np.float64)
            held = [np.asarray(one) for one in self.labels]
        except (TypeError, ValueError):
            raise InvalidData("biases: expected one row of numbers for each update, as many as classes") from None
        if slopes.ndim != 2 or slopes.shape[1] < 2 or len(slopes) != len(held) or not held:
            raise InvalidData(f"biases: got shape {slopes.shape} for {len(held)} updates; expected updates × classes")
        if not np.isfinite(slopes).all():
            raise InvalidData("biases: they hold numbers that are not finite; leave such an update out")
        for place, one in enumerate(held):
            if one.dtype.kind not in "iu" or one.ndim != 1 or not len(one):
                raise InvalidData(f"labels: those of update {place} are not classes from 0, one for each row")
            if one.min() < 0 or one.max() >= slopes.shape[1]:
                raise InvalidData(f"labels: update {place} has a class outside 0 … {slopes.shape[1] - 1}")
        return slopes, [one.astype(np.int64) for one in held]
