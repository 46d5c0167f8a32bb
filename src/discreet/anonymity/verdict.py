"""Reading a table again: which models does a release satisfy, and what does it reach?

>>> from discreet.anonymity.models import DistinctDiversity, KAnonymity
>>> from discreet.anonymity.verdict import verify
>>> released = {"zip": ["130**"] * 2 + ["148**"] * 2 + ["*"], "ill": ["flu", "ulcer", "cancer", "cancer", "flu"]}
>>> verdict = verify(released, quasi=["zip"], models=[KAnonymity(2), DistinctDiversity(2, "ill")])
>>> print(verdict.text())
4 of 5 rows are in 2 classes of 2 to 2 rows; 1 row is suppressed.
holds    2-anonymity: reached k = 2
fails    distinct 2-diversity of 'ill': reached l = 1; 1 class with 2 rows fails
fails    suppressed rows: as one class they fail 2-anonymity, distinct 2-diversity of 'ill', and they keep their secrets
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import BoundColumn, Ints, Measured, Model, Words
from discreet.anonymity.classes import Classes
from discreet.anonymity.models import Target
from discreet.anonymity.presence import BoundPresence
from discreet.anonymity.sensitive import Sensitive, rows_of
from discreet.anonymity.units import ByUnit, units_in
from discreet.errors import InvalidData


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
class Hidden:
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
    hidden: Hidden | None = None
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
    """Judge a table as it is, texts such as 130** and <30 included; rows with `*` everywhere are suppressed rows.

    A model that no class of this table could reach is found to fail; it is not an error here. `sensitive`: columns
    with secrets that no model names; they matter for suppressed rows. `units`: for a target with a unit, the unit of
    each row as a number, where the table does not hold that column.
    """
    arrow = rows_of(table)
    hidden = None if suppressed is None else _mask(suppressed, arrow.num_rows)
    classes = Classes.of_table(arrow, tuple(quasi), suppressed=hidden)
    target = models if isinstance(models, Target) else Target.of(*models)
    bounds = target.bind(arrow, quasi=tuple(quasi), feasible=False, units=units).parts
    secrets = tuple(Sensitive.of(arrow, name) for name in sensitive)
    return judge(classes, bounds, secrets)


def judge(classes: Classes, bounds: Sequence[Measured], secrets: Sequence[Sensitive] = ()) -> Verdict:
    """Judge classes of rows by models that are bound to the table, and suppressed rows as one class."""
    weights = np.ones(len(classes.of_row), np.int64) if classes.weights is None else classes.weights
    units = next((bound.units for bound in bounds if isinstance(bound, ByUnit)), None)
    sizes = classes.sizes if units is None else units_in(classes, units)
    return Verdict(
        rows=int(weights.sum()),
        suppressed=int(weights[classes.of_row < 0].sum()),
        classes=classes.count,
        smallest=int(sizes.min()) if classes.count else 0,
        largest=int(sizes.max()) if classes.count else 0,
        findings=tuple(_finding(classes, bound, sizes) for bound in bounds),
        hidden=_hidden(classes, weights, bounds, secrets),
        counted="rows" if units is None else "people",
    )


def _hidden(classes: Classes, weights: Ints, bounds: Sequence[Measured], secrets: Sequence[Sensitive]) -> Hidden | None:
    """The suppressed rows as one class; None where there are none."""
    gone = classes.of_row < 0
    if not gone.any():
        return None
    one = Classes.numbered(np.where(gone, 0, -1), weights=classes.weights)
    plain = [bound.bound if isinstance(bound, ByUnit) else bound for bound in bounds]
    columns = [*secrets, *(bound.column for bound in plain if isinstance(bound, BoundColumn))]
    failing = [
        bound.model.name
        for bound in bounds
        if not isinstance(bound, BoundPresence) and not bool(bound.holds(one).all())
    ]
    told = any(bool((column.codes[gone] >= 0).any()) for column in columns)
    return Hidden(rows=int(weights[gone].sum()), failing=tuple(failing), told=told)


def _finding(classes: Classes, bound: Measured, sizes: Ints) -> Finding:
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


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
