"""Reading a table again: which models does a release satisfy, and what does it reach?

>>> from discreet.anonymity.models import DistinctDiversity, KAnonymity
>>> from discreet.anonymity.verdict import verify
>>> released = {"zip": ["130**"] * 2 + ["148**"] * 2 + ["*"], "ill": ["flu", "ulcer", "cancer", "cancer", "flu"]}
>>> verdict = verify(released, quasi=["zip"], models=[KAnonymity(2), DistinctDiversity(2, "ill")])
>>> print(verdict.text())
4 of 5 rows are in 2 classes of 2 to 2 people; 1 row is suppressed.
holds    2-anonymity: reached k = 2
fails    distinct 2-diversity of 'ill': reached l = 1; 1 class with 2 people fails
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.bound import Measured, Model, Words
from discreet.anonymity.classes import Classes
from discreet.anonymity.models import Target
from discreet.anonymity.presence import BoundPresence
from discreet.anonymity.sensitive import rows_of
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

    def text(self) -> str:
        """One line."""
        failed = f"; {_many(self.failing_classes, 'class', 'classes')} with {self.failing_people} people " + (
            "fails" if self.failing_classes == 1 else "fail"
        )
        mark = "holds " if self.holds else "fails "
        return f"{mark}   {self.name}: reached {self.reached_words}" + (failed if self.failing_classes else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What the models find in a released table. Suppressed rows are in no class and are judged by no model."""

    rows: int
    suppressed: int
    classes: int
    smallest: int
    largest: int
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        """Whether every model holds in every class."""
        return all(finding.holds for finding in self.findings)

    def text(self) -> str:
        """The verdict in a few lines; aggregate facts only."""
        kept = f"{self.rows - self.suppressed} of {self.rows} rows are in {_many(self.classes, 'class', 'classes')}"
        sizes = f" of {self.smallest} to {self.largest} people" if self.classes else ""
        gone = f"; {_many(self.suppressed, 'row is', 'rows are')} suppressed." if self.suppressed else "."
        return "\n".join([kept + sizes + gone, *[finding.text() for finding in self.findings]])

    def as_dict(self) -> dict[str, Any]:
        """The verdict for JSON."""
        return {
            "rows": self.rows,
            "suppressed": self.suppressed,
            "classes": self.classes,
            "smallest_class": self.smallest,
            "largest_class": self.largest,
            "holds": self.holds,
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
) -> Verdict:
    """Judge a table as it is, texts such as 130** and <30 included; rows with `*` everywhere are suppressed rows.

    A model that no class of this table could reach is found to fail; it is not an error here.
    """
    arrow = rows_of(table)
    hidden = None if suppressed is None else _mask(suppressed, arrow.num_rows)
    classes = Classes.of_table(arrow, tuple(quasi), suppressed=hidden)
    target = models if isinstance(models, Target) else Target.of(*models)
    return judge(classes, target.bind(arrow, quasi=tuple(quasi), feasible=False).parts)


def judge(classes: Classes, bounds: Sequence[Measured]) -> Verdict:
    """Judge classes of rows by models that are bound to the table."""
    weights = np.ones(len(classes.of_row), np.int64) if classes.weights is None else classes.weights
    return Verdict(
        rows=int(weights.sum()),
        suppressed=int(weights[classes.of_row < 0].sum()),
        classes=classes.count,
        smallest=int(classes.sizes.min()) if classes.count else 0,
        largest=int(classes.sizes.max()) if classes.count else 0,
        findings=tuple(_finding(classes, bound) for bound in bounds),
    )


def _finding(classes: Classes, bound: Measured) -> Finding:
    fits = bound.holds(classes)
    reached, words = bound.reached(classes)
    unseen = isinstance(bound, BoundPresence) and bound.unseen > 0 and bound.model.low != 0
    return Finding(
        name=bound.model.name,
        holds=bool(fits.all()) and not unseen,
        reached=reached,
        reached_words=words,
        failing_classes=int(np.count_nonzero(~fits)),
        failing_people=int(classes.sizes[~fits].sum()),
        words=bound.model.words,
    )


def _mask(suppressed: Any, rows: int) -> NDArray[np.bool_]:
    mask = np.asarray(suppressed)
    if mask.dtype != np.bool_ or mask.shape != (rows,):
        raise InvalidData(f"suppressed: expected true or false for each of the {rows} rows")
    return mask


def _many(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"
