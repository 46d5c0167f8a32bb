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
from discreet.anonymity.units import ByUnit, unit_codes
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

    `unit` is the column that names the person of each row, where a person may have several: then all models count
    people (see `units`); else a row is taken for a person. Monotone if each model is: a union that satisfies each
    satisfies all. By units only k and distinct diversity are: people and their values only join, but a person in both
    parts of a union counts once, so shares are no longer averaged.

    >>> Target.of(KAnonymity(5), KAnonymity(3)).least
    5
    """

    models: tuple[Model, ...]
    unit: str | None = None

    def __post_init__(self) -> None:
        if not self.models:
            raise InvalidParameter("models", "none", "at least one privacy model, e.g. KAnonymity(5)")
        for model in self.models:
            if not hasattr(model, "bind") or not hasattr(model, "monotone"):
                raise InvalidParameter("models", model, "privacy models, e.g. KAnonymity(5)")
            if self.unit is not None and isinstance(model, Presence):
                expected = "no δ-presence, which counts rows of a population; give a row for each person"
                raise InvalidParameter("unit", self.unit, expected)

    @classmethod
    def of(cls, *models: "Model | Target", unit: str | None = None) -> "Target":
        """A target of models; targets among them are taken apart, and their unit is kept."""
        parts = [part for model in models for part in (model.models if isinstance(model, Target) else (model,))]
        named = {model.unit for model in models if isinstance(model, Target)} | {unit}
        if len(named - {None}) > 1:
            raise InvalidParameter("unit", sorted(filter(None, named)), "one unit for all models")
        return cls(tuple(parts), next(iter(named - {None}), None))

    @property
    def name(self) -> str:
        """The names of its models, and what they count."""
        return ", ".join(model.name for model in self.models) + (f", by {self.unit!r}" if self.unit else "")

    @property
    def monotone(self) -> bool:
        """Whether all its models are."""
        by_unit = all(isinstance(model, KAnonymity | DistinctDiversity) for model in self.models)
        return all(model.monotone for model in self.models) and (self.unit is None or by_unit)

    @property
    def least(self) -> int:
        """No class of fewer people can satisfy it."""
        return max(model.least for model in self.models)

    @property
    def words(self) -> tuple[Words, ...]:
        """What each promises and what it does not."""
        return tuple(model.words for model in self.models)

    def bind(
        self, table: Any, *, quasi: Sequence[str] = (), feasible: bool = True, units: Ints | None = None
    ) -> "BoundTarget":
        """All its models with the table; `units`: the unit of each row as a number, if the table does not name it."""
        parts: tuple[Measured, ...] = tuple(model.bind(table, quasi=quasi, feasible=feasible) for model in self.models)
        if self.unit is None:
            return BoundTarget(self, parts)
        counted = unit_codes(table, self.unit) if units is None else units
        people = len(np.unique(counted))
        for model in self.models:
            if feasible and people < (k := getattr(model, "k", 0)):
                raise InvalidParameter("k", k, f"at most the number of different {self.unit!r} ({people})")
        return BoundTarget(self, tuple(ByUnit.of(part, counted) for part in parts))


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
