"""The privacy models in one place, a target (several of them at once), and verifying a table against it.

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

from discreet.anonymity.classes import Bools, Classes, Ints, Sensitive, rows_of
from discreet.anonymity.models.closeness import BoundPresence, Closeness, Likeness, Presence
from discreet.anonymity.models.diversity import AlphaK, DistinctDiversity, EntropyDiversity, RecursiveDiversity
from discreet.anonymity.models.model import Bound, BoundColumn, KAnonymity, Model, Words, unit_codes, units_in
from discreet.errors import InvalidData, InvalidParameter

__all__ = [
    "AlphaK",
    "Bound",
    "BoundTarget",
    "Closeness",
    "DistinctDiversity",
    "EntropyDiversity",
    "Finding",
    "KAnonymity",
    "Likeness",
    "Model",
    "Presence",
    "RecursiveDiversity",
    "SuppressedRows",
    "Target",
    "Verdict",
    "Words",
    "judge",
    "unit_codes",
    "units_in",
    "verify",
]


@dataclass(frozen=True, slots=True)
class Target:
    """Several models, all of which every class must satisfy.

    `unit` is the column that names the person of each row, where a person may have several: then all models count
    people (`models.model`); else a row is taken for a person. Monotone if each model is: a union that satisfies each
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
            if not isinstance(model, Model):
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
        parts = tuple(model.bind(table, quasi=quasi, feasible=feasible) for model in self.models)
        if self.unit is None:
            return BoundTarget(self, parts)
        counted = unit_codes(table, self.unit) if units is None else units
        people = len(np.unique(counted))
        for model in self.models:
            if feasible and people < (k := getattr(model, "k", 0)):
                raise InvalidParameter("k", k, f"at most the number of different {self.unit!r} ({people})")
        return BoundTarget(self, tuple(part.by_unit(counted) for part in parts))


@dataclass(frozen=True, slots=True, eq=False)
class BoundTarget:
    """A target that knows the table."""

    model: Target
    parts: tuple[Bound, ...]

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


# Verifying a table


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one model finds: whether it holds in every class, and how many classes and people it fails."""

    name: str
    holds: bool
    reached: float
    reached_words: str
    failing_classes: int
    failing_people: int
    words: Words

    def text(self, counted: str = "rows") -> str:
        """One line; `counted`: what is counted, rows or people."""
        failed = f"; {_many(self.failing_classes, 'class', 'classes')} with {self.failing_people} {counted} " + (
            "fails" if self.failing_classes == 1 else "fail"
        )
        mark = "holds " if self.holds else "fails "
        return f"{mark}   {self.name}: reached {self.reached_words}" + (failed if self.failing_classes else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class SuppressedRows:
    """What becomes of the secrets of suppressed rows, which are in no class.

    Whoever finds a person in no class knows that their row is among these: they are a class too. `failing` are the
    models that they do not satisfy as one; `told` whether they hold any sensitive value; `removed` the columns whose
    values were taken out of them for that reason.
    """

    rows: int
    failing: tuple[str, ...]
    told: bool
    removed: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether they satisfy every model as one class, or hold no sensitive value."""
        return not (self.failing and self.told)

    def text(self) -> str:
        """One line."""
        failed = f"as one class they fail {', '.join(self.failing)}"
        if self.removed:
            return f"holds    suppressed rows: {failed}; their values of {', '.join(self.removed)} were removed"
        if not self.told:
            return "holds    suppressed rows: they hold no sensitive value"
        if not self.failing:
            return "holds    suppressed rows: as one class they satisfy every model"
        return f"fails    suppressed rows: {failed}, and they keep their secrets"

    def as_dict(self) -> dict[str, Any]:
        """The same for JSON."""
        plain = {"rows": self.rows, "holds": self.holds, "failing_models": list(self.failing)}
        return plain | {"hold_sensitive_values": self.told, "removed": list(self.removed)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the models find in a released table; suppressed rows are in no class, and are judged as one (`hidden`).

    `counted` says what class sizes count: rows, or people where a unit was given.
    """

    rows: int
    suppressed: int
    classes: int
    smallest: int
    largest: int
    findings: tuple[Finding, ...]
    hidden: SuppressedRows | None = None
    counted: str = "rows"

    @property
    def holds(self) -> bool:
        """Whether every model holds in every class, and suppressed rows give no secret away."""
        return all(finding.holds for finding in self.findings) and (self.hidden is None or self.hidden.holds)

    def text(self) -> str:
        """The verdict in a few lines; aggregate facts only."""
        kept = f"{self.rows - self.suppressed} of {self.rows} rows are in {_many(self.classes, 'class', 'classes')}"
        sizes = f" of {self.smallest} to {self.largest} {self.counted}" if self.classes else ""
        gone = f"; {_many(self.suppressed, 'row is', 'rows are')} suppressed." if self.suppressed else "."
        lines = [kept + sizes + gone, *[finding.text(self.counted) for finding in self.findings]]
        return "\n".join(lines + ([self.hidden.text()] if self.hidden else []))

    def as_dict(self) -> dict[str, Any]:
        """The verdict for JSON."""
        return {
            "rows": self.rows,
            "suppressed": self.suppressed,
            "classes": self.classes,
            "smallest_class": self.smallest,
            "largest_class": self.largest,
            "counted": self.counted,
            "holds": self.holds,
            "suppressed_rows": None if self.hidden is None else self.hidden.as_dict(),
            "models": [
                {
                    "model": finding.name,
                    "holds": finding.holds,
                    "reached": finding.reached if np.isfinite(finding.reached) else None,
                    "reached_words": finding.reached_words,
                    "failing_classes": finding.failing_classes,
                    "failing_people": finding.failing_people,
                    "promises": finding.words.promise,
                    "does_not_promise": finding.words.gap,
                }
                for finding in self.findings
            ],
        }


def verify(
    table: Any,
    *,
    quasi: Sequence[str],
    models: "Sequence[Model] | Target",
    suppressed: NDArray[np.bool_] | None = None,
    sensitive: Sequence[str] = (),
    units: Ints | None = None,
) -> Verdict:
    """Judge a released table as it is, with texts such as 130** and <30.

    Rows with `*` everywhere are suppressed rows.

    A model that no class of this table could reach is found to fail; it is not an error here. `sensitive`: columns
    with secrets that no model names; they matter for suppressed rows. `units`: for a target with a unit, the unit of
    each row as a number, where the table does not hold that column.

    >>> released = {"zip": ["130**"] * 2 + ["148**"] * 2 + ["*"], "ill": ["flu", "ulcer", "cancer", "cancer", "flu"]}
    >>> verdict = verify(released, quasi=["zip"], models=[KAnonymity(2), DistinctDiversity(2, "ill")])
    >>> print(verdict.text())
    4 of 5 rows are in 2 classes of 2 to 2 rows; 1 row is suppressed.
    holds    2-anonymity: reached k = 2
    fails    distinct 2-diversity of 'ill': reached l = 1; 1 class with 2 rows fails
    fails    suppressed rows: as one class they fail 2-anonymity, ...
    """
    arrow = rows_of(table)
    hidden = None if suppressed is None else _mask(suppressed, arrow.num_rows)
    classes = Classes.of_table(arrow, tuple(quasi), suppressed=hidden)
    target = models if isinstance(models, Target) else Target.of(*models)
    bounds = target.bind(arrow, quasi=tuple(quasi), feasible=False, units=units).parts
    secrets = tuple(Sensitive.of(arrow, name) for name in sensitive)
    return judge(classes, bounds, secrets)


def judge(classes: Classes, bounds: Sequence[Bound], secrets: Sequence[Sensitive] = ()) -> Verdict:
    """Judge classes of rows by models that are bound to the table, and suppressed rows as one class."""
    weights = np.ones(len(classes.of_row), np.int64) if classes.weights is None else classes.weights
    units = next((bound.units for bound in bounds if bound.units is not None), None)
    sizes = classes.sizes if units is None else units_in(classes, units)
    return Verdict(
        rows=int(weights.sum()),
        suppressed=int(weights[classes.of_row < 0].sum()),
        classes=classes.count,
        smallest=int(sizes.min()) if classes.count else 0,
        largest=int(sizes.max()) if classes.count else 0,
        findings=tuple(_finding(classes, bound, sizes) for bound in bounds),
        hidden=_suppressed_rows(classes, weights, bounds, secrets),
        counted="rows" if units is None else "people",
    )


def _suppressed_rows(
    classes: Classes, weights: Ints, bounds: Sequence[Bound], secrets: Sequence[Sensitive]
) -> SuppressedRows | None:
    """The suppressed rows as one class; None where there are none."""
    gone = classes.of_row < 0
    if not gone.any():
        return None
    hidden = Classes.numbered(np.where(gone, 0, -1), weights=classes.weights)
    columns = [*secrets, *(bound.column for bound in bounds if isinstance(bound, BoundColumn))]
    failing = [
        bound.model.name
        for bound in bounds
        if not isinstance(bound, BoundPresence) and not bool(bound.holds(hidden).all())
    ]
    told = any(bool((column.codes[gone] >= 0).any()) for column in columns)
    return SuppressedRows(rows=int(weights[gone].sum()), failing=tuple(failing), told=told)


def _finding(classes: Classes, bound: Bound, sizes: Ints) -> Finding:
    fits = bound.holds(classes)
    reached, words = bound.reached(classes)
    unseen = isinstance(bound, BoundPresence) and bound.unseen > 0 and bound.model.low != 0
    return Finding(
        name=bound.model.name,
        holds=bool(fits.all()) and not unseen,
        reached=reached,
        reached_words=words,
        failing_classes=int(np.count_nonzero(~fits)),
        failing_people=int(sizes[~fits].sum()),
        words=bound.model.words,
    )


def _mask(suppressed: Any, rows: int) -> NDArray[np.bool_]:
    mask = np.asarray(suppressed)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise InvalidData(f"suppressed: expected true or false for each of the {rows} rows")
    return mask


def _many(count: int, singular: str, several: str) -> str:
    return f"{count} {singular if count == 1 else several}"
