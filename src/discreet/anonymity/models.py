"""The privacy models in one place, and a target: several of them at once.

=====================  ==========================================================  =========================
model                  what every class must have                                  monotone because
=====================  ==========================================================  =========================
`KAnonymity`           at least k people                                           sizes add up
`DistinctDiversity`    at least l sensitive values                                 values only join
`EntropyDiversity`     entropy of the sensitive column at least log l              entropy is concave
`RecursiveDiversity`   r₁ < c·(r_l + … + r_m)                                      tails are super-additive
`AlphaK`               at least k people, no value above a share α                 shares are averaged
`Closeness`            a distribution within t of the table's                      distances are convex
`Likeness`             no value's share above (1 + β) times that of the table      shares are averaged
`Presence`             a share of its population between low and high              shares are averaged
=====================  ==========================================================  =========================

All of them hold for a union of classes for which they hold; the proofs stand in their docstrings.

>>> from discreet.anonymity import Classes
>>> from discreet.anonymity.models import DistinctDiversity, KAnonymity, Target
>>> table = {"zip": ["130**"] * 2 + ["148**"] * 2, "disease": ["flu", "ulcer", "cancer", "cancer"]}
>>> target = Target.of(KAnonymity(2), DistinctDiversity(2, "disease")).bind(table)
>>> target.holds(Classes.of_table(table, ["zip"])).tolist()
[True, False]
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import Bools, Bound, Ints, KAnonymity, Measured, Model, Words
from discreet.anonymity.classes import Classes
from discreet.anonymity.closeness import Closeness, Likeness
from discreet.anonymity.diversity import AlphaK, DistinctDiversity, EntropyDiversity, RecursiveDiversity
from discreet.anonymity.presence import Presence
from discreet.errors import InvalidParameter

__all__ = [
    "AlphaK",
    "Bound",
    "BoundTarget",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "KAnonymity",
    "Likeness",
    "Measured",
    "Model",
    "Presence",
    "RecursiveDiversity",
    "Target",
    "Words",
]


@dataclass(frozen=True, slots=True)
class Target:
    """Several models, all of which every class must satisfy.

    Monotone if each of them is: a union that satisfies each satisfies all.

    >>> Target.of(KAnonymity(5), KAnonymity(3)).least
    5
    """

    models: tuple[Model, ...]

    def __post_init__(self) -> None:
        if not self.models:
            raise InvalidParameter("models", "none", "at least one privacy model, e.g. KAnonymity(5)")
        for model in self.models:
            if not hasattr(model, "bind") or not hasattr(model, "monotone"):
                raise InvalidParameter("models", model, "privacy models, e.g. KAnonymity(5)")

    @classmethod
    def of(cls, *models: "Model | Target") -> "Target":
        """A target of models; targets among them are taken apart."""
        parts = [part for model in models for part in (model.models if isinstance(model, Target) else (model,))]
        return cls(tuple(parts))

    @property
    def name(self) -> str:
        """The names of its models."""
        return ", ".join(model.name for model in self.models)

    @property
    def monotone(self) -> bool:
        """Whether all its models are."""
        return all(model.monotone for model in self.models)

    @property
    def least(self) -> int:
        """No class of fewer people can satisfy it."""
        return max(model.least for model in self.models)

    @property
    def words(self) -> tuple[Words, ...]:
        """What each promises and what it does not."""
        return tuple(model.words for model in self.models)

    def bind(self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True) -> "BoundTarget":
        """All its models with the table."""
        return BoundTarget(self, tuple(model.bind(table, quasi=quasi, feasible=feasible) for model in self.models))


@dataclass(frozen=True, slots=True, eq=False)
class BoundTarget:
    """A target that knows the table."""

    model: Target
    parts: tuple[Measured, ...]

    @property
    def rows(self) -> int | None:
        """How many rows the classes must have."""
        return next((part.rows for part in self.parts if part.rows is not None), None)

    @property
    def codes(self) -> tuple[Ints, ...]:
        """What else must agree before rows may be collapsed: all that any of its models looks at."""
        return tuple(codes for part in self.parts for codes in part.codes)

    def take(self, rows: NDArray[Any]) -> "BoundTarget":
        """The same for some of the rows."""
        return replace(self, parts=tuple(part.take(rows) for part in self.parts))

    def holds(self, classes: Classes) -> Bools:
        """Whether all models hold, for each class."""
        fits = np.ones(classes.count, np.bool_)
        for part in self.parts:
            fits &= part.holds(classes)
            if not fits.any():
                break
        return fits
