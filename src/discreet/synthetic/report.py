"""Pages about a synthetic table: one from noisy numbers alone, and one for the owner's eyes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.curator.answer import Receipt
from discreet.errors import InvalidData, MissingExtra
from discreet.report import Bars, Chart, Facts, Grid, Heading, Heat, Page, Part, Text, Tiles
from discreet.synthetic.linked.result import LinkedTables
from discreet.synthetic.quality import Closeness, LostRows, Residual, area_under_curve, closeness
from discreet.synthetic.reading import Codes
from discreet.synthetic.result import SyntheticTable
from discreet.synthetic.schema import Schema

_SHOWN = 12


def public_page(made: SyntheticTable) -> Page:
    """What can be said from noisy numbers alone: it was paid for with the table, and may be published with it."""
    parts: list[Part] = [
        *_summary(made.receipt, {"synthetic rows": len(made.codes), "marginals measured": len(made.measurements)}),
        Heading("How it was made"),
        Facts(_told(made.plan.explain())),
        Heading("What is lost"),
        *_lost(made.lost()),
        Heading("How well it fits what was measured"),
        *_misfits(made.schema, made.residuals()),
        Heading("Columns"),
        *[_column(made.schema, made.codes, place, None) for place in range(len(made.schema.names))],
    ]
    return Page(f"Synthetic {made.plan.table.name}", parts, _LEAD)


def linked_page(made: LinkedTables) -> Page:
    """The same, for several tables of the same people."""
    rows = {one.name: len(one.codes) for one in made.fit()}
    parts = _summary(made.receipt, {f"synthetic rows of {name}": many for name, many in rows.items()})
    parts += [Heading("How they were made"), Facts(_told(made.plan.explain()))]
    first = len(made.plan.own)
    lost = made.lost()
    for turn, one in enumerate(made.fit()):
        parts += [Heading(f"{one.name}: what is lost"), *_lost(lost[one.name])]
        shown = range(first if turn else 0, len(one.schema.names))
        parts += [Heading(f"{one.name}: how well it fits what was measured"), *_misfits(one.schema, one.residuals())]
        parts += [Heading(f"{one.name}: columns"), *[_column(one.schema, one.codes, place, None) for place in shown]]
    return Page(f"Synthetic {', '.join(part.table.name for part in made.plan.parts)}", parts, _LEAD)


_LEAD = "Nobody here exists. Made from noisy counts alone: differentially private; safe to publish."
_CAVEATS = (
    "Counts of one and two columns are near the true ones; what only three or more columns together say is not kept.",
    "Rows are not people: no row stands for anybody, and single rows mean nothing.",
    "Numbers that follow from few rows are mostly noise.",
)


def _summary(receipt: Receipt | None, numbers: dict[str, int]) -> list[Part]:
    """The numbers that matter most, what was paid and when, and what not to do with it."""
    tiles = [(f"{many:,}", what) for what, many in numbers.items()]
    facts = {} if receipt is None else {"cost": str(receipt), "released": receipt.when[:10] or "–"}
    return [Tiles(tiles), *([Facts(facts)] if facts else []), Heading("Before you use it"), *map(Text, _CAVEATS)]


def _told(explained: str) -> dict[str, str]:
    """What a plan says, line by line; a name that is there twice is told apart by the line before."""
    found: dict[str, str] = {}
    last = ""
    for line in explained.splitlines():
        name, _, words = line.partition("  ")
        key = f"{name} ({last})" if name in found else name
        found[key] = words.strip()
        last = name if name not in ("useful",) else last
    return found


def linked_quality(made: LinkedTables, real: Sequence[Codes]) -> Page:
    """Several synthetic tables against the real rows (`LinkedPlan.read`). Exact, and so for the owner's eyes only.

    People are compared with how many rows they have, and rows with the columns of their person.
    """
    parts: list[Part] = []
    for one, codes in zip(made.fit(), real, strict=True):
        parts.append(Heading(one.name))
        if len(codes) and len(one.codes):
            parts += Quality(one.schema, codes, one.codes).page().parts
        else:
            parts.append(Text(f"Nothing to compare: {len(codes)} real rows, {len(one.codes)} synthetic ones."))
    note = "For the owner's eyes only: it compares with the real rows, and is not private. Do not publish it."
    return Page(f"Quality of synthetic {', '.join(part.table.name for part in made.plan.parts)}", parts, note)


def _lost(found: Sequence[LostRows]) -> list[Part]:
    if not found:
        return [Text("Nothing: every value of every row has a code.")]
    told = (
        "Rows with a missing or undeclared value are left out where the column cannot be null; elsewhere such values, "
        "and those that were not found, count as missing. From noisy counts, with where the exact ones are at 95 %."
    )
    rows = []
    for each in found:
        low, high = each.interval
        what = "rows left out" if each.left_out else "count as missing"
        rows.append([each.column, f"{max(0, each.rows):,}", f"{low:,} to {high:,}", what])
    return [Text(told), Grid(["column", "about", "95 %", "what"], rows)]


def _misfits(schema: Schema, residuals: Sequence[Residual]) -> list[Part]:
    found = sorted(residuals, key=lambda one: -one.misfit)[:_SHOWN]
    worst = [[" × ".join(schema.names[a] for a in one.attributes), f"{one.misfit:.2f}"] for one in found]
    told = "The mean squared gap to each noisy marginal, in units of its noise: about 1 is as near as noise allows."
    return [Text(told), Grid(["marginal", "misfit"], worst)]


@dataclass(frozen=True, eq=False)
class Quality:
    """A synthetic table against the real rows. Exact, and so for the owner's eyes only.

    >>> import numpy as np
    >>> from discreet.curator.catalog import Column
    >>> from discreet.synthetic.schema import Attribute, Schema
    >>> schema = Schema([Attribute.of(Column(name, "boolean", nullable=False)) for name in "ab"])
    >>> rows = np.array([[0, 0], [1, 1], [0, 1], [1, 0]] * 50)
    >>> Quality(schema, rows, rows).closeness(2).mean
    0.0
    """

    schema: Schema
    real: Codes
    synthetic: Codes

    def __post_init__(self) -> None:
        if not len(self.real) or not len(self.synthetic):
            raise InvalidData("quality: expected rows in both tables")

    def closeness(self, order: int) -> Closeness:
        """Total variation over all marginals of one order."""
        return closeness(self.real, self.synthetic, self.schema.sizes, order)

    def predicts(self, target: str, test: Codes | None = None) -> dict[str, float]:
        """The area under the curve of gradient boosting on real test rows: trained on real rows, and on synthetic ones.

        The target is a column; its last known value is predicted against the others. Without test rows, a third of the
        real ones are kept apart from training.
        """
        place = self.schema.place(target)
        if test is None:
            third = np.arange(len(self.real)) % 3 == 0
            train, test = self.real[~third], self.real[third]
        else:
            train = self.real
        positive = self.schema.attributes[place].known - 1
        return {
            name: _area(np.delete(rows, place, axis=1), rows[:, place] == positive, test, place, positive)
            for name, rows in (("real", train), ("synthetic", self.synthetic))
        }

    def associations(self, codes: Codes) -> "np.typing.NDArray[np.float64]":
        """Cramér's V of each pair of columns: 0 where they are independent, 1 where one decides the other."""
        from discreet.synthetic.marginals import counts

        sizes, many = self.schema.sizes, len(self.schema.sizes)
        found = np.eye(many)
        for first in range(many):
            for second in range(first + 1, many):
                table = counts(codes, sizes, (first, second)) / len(codes)
                found[first, second] = found[second, first] = _cramer(table)
        return found

    def facts(self, target: str | None = None) -> dict[str, Any]:
        """The main numbers."""
        told: dict[str, Any] = {"real rows": len(self.real), "synthetic rows": len(self.synthetic)}
        for order in range(1, min(3, len(self.schema.sizes)) + 1):
            found = self.closeness(order)
            told[f"{order}-way total variation"] = round(found.mean, 4)
            told[f"{order}-way of a fresh sample"] = round(found.floor, 4)
        if len(self.schema.sizes) > 1:
            told["score of pairs (of 1000)"] = round(self.closeness(2).score)
        if target is not None:
            told |= self._predicted(target)
        return told

    def _predicted(self, target: str) -> dict[str, Any]:
        try:
            found = self.predicts(target)
        except MissingExtra as missing:
            return {"area under curve": str(missing)}
        positive = f"{target} = {self._positive(target)}"
        return {
            f"area under curve of {positive}, trained on {name} rows": round(value, 4) for name, value in found.items()
        }

    def _positive(self, target: str) -> str:
        """The value that is predicted, in words."""
        attribute = self.schema.attributes[self.schema.place(target)]
        return attribute.labels[attribute.known - 1]

    def page(self, *, target: str | None = None, attacks: list[Part] | None = None) -> Page:
        """A report for the owner."""
        names = list(self.schema.names)
        parts: list[Part] = [
            Text("For the owner's eyes only: what follows compares with the real rows, and is not private."),
            Facts(self.facts(target)),
        ]
        if len(names) > 1:
            order, furthest = self.closeness(2), []
            for place in np.argsort(-np.asarray(order.distances))[:_SHOWN].tolist():
                pair = " × ".join(names[a] for a in order.marginals[place])
                furthest.append([pair, f"{order.distances[place]:.3f}", f"{order.floors[place]:.3f}"])
            parts += [Heading("Pairs that are furthest off"), Grid(["pair", "distance", "of a fresh sample"], furthest)]
            parts += [
                Heading("Which columns go together (Cramér's V)"),
                Chart("Real", [Heat(self.associations(self.real), names, names)]),
                Chart("Synthetic", [Heat(self.associations(self.synthetic), names, names)]),
            ]
        parts += [*(attacks or []), Heading("Columns")]
        parts += [_column(self.schema, self.synthetic, place, self.real) for place in range(len(names))]
        return Page("Quality of a synthetic table", parts)


def _area(features: Codes, labels: "np.typing.NDArray[np.bool_]", test: Codes, place: int, positive: int) -> float:
    """The area under the curve on the test rows; not a number where there is nothing to tell apart."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier  # type: ignore[import-untyped]
    except ImportError:
        raise MissingExtra("scikit-learn", "learn") from None
    truth = test[:, place] == positive
    if not features.shape[1] or any(one.all() or not one.any() for one in (labels, truth)):
        return float("nan")
    model = HistGradientBoostingClassifier(random_state=0).fit(features, labels)
    return area_under_curve(model.predict_proba(np.delete(test, place, axis=1))[:, 1], truth)


def _column(schema: Schema, synthetic: Codes, place: int, real: Codes | None) -> Chart:
    attribute = schema.attributes[place]
    labels, size = attribute.labels, attribute.size
    shown = np.arange(size)
    marks: list[Bars] = []
    for rows, label in ((real, "real"), (synthetic, "synthetic")):
        if rows is not None:
            shares = np.bincount(rows[:, place], minlength=size) / max(len(rows), 1)
            if size > 40 and not marks:
                shown = np.sort(np.argsort(-shares)[:40])
            marks.append(Bars([labels[n] for n in shown], shares[shown], label))
    return Chart(schema.names[place], marks, y="share of rows")


def _cramer(shares: "np.typing.NDArray[np.float64]") -> float:
    """Cramér's V (1946) of a table of shares."""
    expected = shares.sum(axis=1, keepdims=True) * shares.sum(axis=0, keepdims=True)
    some = expected > 0
    square = float(((shares - expected)[some] ** 2 / expected[some]).sum())
    least = min(int((shares.sum(axis=1) > 0).sum()), int((shares.sum(axis=0) > 0).sum())) - 1
    return float(np.sqrt(min(square / least, 1.0))) if least > 0 else 0.0
