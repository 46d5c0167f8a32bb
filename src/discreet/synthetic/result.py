"""What a synthesis gives: noisy marginals that were paid for, rows that follow from them, and pages.

One page is made from noisy numbers alone, another is for the owner's eyes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Column, ColumnType, Table
from discreet.errors import InvalidData, MissingExtra
from discreet.noise import DeterministicEntropy, Entropy
from discreet.report import Bars, Chart, Facts, Grid, Heading, Heat, Page, Part, Text, Tiles
from discreet.synthetic.columns.rules import Rule, allowed, enforce_order
from discreet.synthetic.columns.schema import Schema
from discreet.synthetic.columns.units import Codes
from discreet.synthetic.fit import graphical, relaxed
from discreet.synthetic.fit.row_sampling import draw
from discreet.synthetic.measure.adaptive import Recipe
from discreet.synthetic.measure.fine_counts import Level
from discreet.synthetic.measure.noisy_marginals import Allowed, Design, MarginalModel, Measurement
from discreet.synthetic.quality import Closeness, LostRows, Residual, area_under_curve, closeness, lost_rows, residuals

if TYPE_CHECKING:
    from discreet.report import Page

_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Section:
    """What a public page says of one synthetic table; columns before `first` are those of its person."""

    name: str
    schema: Schema
    codes: Codes
    lost: Sequence[LostRows]
    residuals: Sequence[Residual]
    first: int = 0


def public_page(
    sections: Sequence[Section], *, title: str, receipt: Receipt | None, explained: str, numbers: dict[str, int]
) -> Page:
    """What can be said from noisy numbers alone: it was paid for with the tables, and may be published with them."""
    several = len(sections) > 1
    parts = _summary(receipt, numbers)
    parts += [Heading(f"How {'they were' if several else 'it was'} made"), Facts(_told(explained))]
    for section in sections:
        shown = range(section.first, len(section.schema.names))
        for words, told in (
            ("what is lost", _lost(section.lost)),
            ("how well it fits what was measured", _misfits(section.schema, section.residuals)),
            ("columns", [_column(section.schema, section.codes, place, None) for place in shown]),
        ):
            parts += [Heading(f"{section.name}: {words}" if several else words[0].upper() + words[1:]), *told]
    return Page(title, parts, _LEAD)


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
    results: dict[str, str] = {}
    last = ""
    for line in explained.splitlines():
        name, _, words = line.partition("  ")
        key = f"{name} ({last})" if name in results else name
        results[key] = words.strip()
        last = name if name not in ("useful",) else last
    return results


def linked_quality(made: Sequence[tuple[str, Schema, Codes]], real: Sequence[Codes], *, title: str) -> Page:
    """Several synthetic tables against the real rows (`LinkedPlan.read`). Exact, and so for the owner's eyes only.

    People are compared with how many rows they have, and rows with the columns of their person.
    """
    parts: list[Part] = []
    for (name, schema, synthetic), codes in zip(made, real, strict=True):
        parts.append(Heading(name))
        if len(codes) and len(synthetic):
            parts += Quality(schema, codes, synthetic).page().parts
        else:
            parts.append(Text(f"Nothing to compare: {len(codes)} real rows, {len(synthetic)} synthetic ones."))
    note = "For the owner's eyes only: it compares with the real rows, and is not private. Do not publish it."
    return Page(title, parts, note)


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
    result = sorted(residuals, key=lambda residual: -residual.misfit)[:_SHOWN]
    worst = [
        [" × ".join(schema.names[a] for a in residual.attributes), f"{residual.misfit:.2f}"] for residual in result
    ]
    told = "The mean squared gap to each noisy marginal, in units of its noise: about 1 is as near as noise allows."
    return [Text(told), Grid(["marginal", "misfit"], worst)]


@dataclass(frozen=True, eq=False)
class Quality:
    """A synthetic table against the real rows. Exact, and so for the owner's eyes only.

    >>> import numpy as np
    >>> from discreet.curator.catalog import Column
    >>> from discreet.synthetic.columns.schema import Attribute, Schema
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
        from discreet.synthetic.measure.noisy_marginals import counts

        sizes, many = self.schema.sizes, len(self.schema.sizes)
        result = np.eye(many)
        for first in range(many):
            for second in range(first + 1, many):
                table = counts(codes, sizes, (first, second)) / len(codes)
                result[first, second] = result[second, first] = _cramer(table)
        return result

    def facts(self, target: str | None = None) -> dict[str, Any]:
        """The main numbers."""
        told: dict[str, Any] = {"real rows": len(self.real), "synthetic rows": len(self.synthetic)}
        for order in range(1, min(3, len(self.schema.sizes)) + 1):
            result = self.closeness(order)
            told[f"{order}-way total variation"] = round(result.mean, 4)
            told[f"{order}-way of a fresh sample"] = round(result.floor, 4)
        if len(self.schema.sizes) > 1:
            told["score of pairs (of 1000)"] = round(self.closeness(2).score)
        if target is not None:
            told |= self._predicted(target)
        return told

    def _predicted(self, target: str) -> dict[str, Any]:
        try:
            result = self.predicts(target)
        except MissingExtra as missing:
            return {"area under curve": str(missing)}
        positive = f"{target} = {self._positive(target)}"
        return {
            f"area under curve of {positive}, trained on {name} rows": round(value, 4) for name, value in result.items()
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
    if not features.shape[1] or any(marks.all() or not marks.any() for marks in (labels, truth)):
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


Fitting = Literal["relaxed", "graphical"]
Progress = Callable[[int, float], None]


class _TablePlan(Protocol):
    """What a synthetic table needs to know of its plan."""

    @property
    def table(self) -> Table: ...
    @property
    def rules(self) -> tuple[Rule, ...]: ...
    @property
    def recipe(self) -> Recipe | None: ...
    @property
    def rows(self) -> int | None: ...
    @property
    def model(self) -> Fitting: ...
    @property
    def settings(self) -> relaxed.Settings: ...
    def schema(self, found: dict[str, list[str]], fine: dict[str, list[Level]] | None = None) -> Schema: ...
    def design(self, schema: Schema) -> Design: ...
    def told(self, found: dict[str, list[str]]) -> str: ...


@dataclass(frozen=True, eq=False)
class SyntheticTable:
    """Noisy marginals that were paid for, and the synthetic rows that follow from them. All done with it is free."""

    plan: _TablePlan
    measurements: tuple[Measurement, ...]
    head: dict[str, Any]
    receipt: Receipt
    seed: bytes

    @cached_property
    def schema(self) -> Schema:
        """The columns as codes."""
        return self.plan.schema(self.head["found"], self.head.get("fine"))

    def fit(self, progress: Progress | None = None) -> MarginalModel:
        """The model of the table, fitted once: a relaxed table, or a graphical model."""
        if "_model" not in self.__dict__:
            self.__dict__["_model"] = self._fitted(progress)
        model: MarginalModel = self.__dict__["_model"]
        return model

    def _fitted(self, progress: Progress | None) -> MarginalModel:
        sizes, settings = self.schema.sizes, self.plan.settings
        if self.plan.model == "graphical":
            return graphical.fit(sizes, self.measurements, iterations=settings.iterations)
        return relaxed.fit(sizes, self.measurements, settings=settings, allowed=self._allowed, progress=progress)

    @cached_property
    def _allowed(self) -> list[Allowed]:
        """What rules allow; what decides what is read off the noisy counts."""
        return allowed(self.plan.rules, self.schema, self.measurements)

    @cached_property
    def codes(self) -> Codes:
        """The synthetic rows as codes."""
        model = self.fit()
        if isinstance(model, relaxed.RelaxedTable):
            return draw(model, rows=self.plan.rows, allowed=self._allowed, entropy=self._entropy(1))
        assert isinstance(model, graphical.GraphicalTable)  # noqa: S101 (there are no others)
        return model.draw(rows=self.plan.rows, entropy=self._entropy(1))

    @cached_property
    def table(self) -> Any:
        """The synthetic rows, as an Arrow table with the columns of the private one and keys of its own."""
        drawn = self.schema.draw(self.codes, self._entropy(2))
        made = self.schema.write(enforce_order(self.plan.rules, self.schema, self.codes, drawn), self.codes)
        key = self.plan.table.unit.key if self.plan.table.unit else None
        if key is None:
            return made
        column = self.plan.table.column(key)
        return made.add_column(0, column.name, self._keys(column))

    @property
    def found(self) -> dict[str, tuple[str, ...]]:
        """The values of each column whose values were found privately."""
        return {name: tuple(values) for name, values in self.head["found"].items()}

    def residuals(self) -> tuple[Residual, ...]:
        """How well the fit meets each noisy marginal: from noisy numbers alone."""
        return residuals(self.measurements, self.fit())

    def lost(self) -> tuple[LostRows, ...]:
        """How many rows were left out, and how many values count as missing: from noisy numbers alone."""
        first = self.plan.design(self.schema) if self.plan.recipe is None else self.plan.recipe.first
        counts = self.head.get("left_out", ())  # older releases do not have it
        told = list(zip(self.schema.strict, counts, strict=False))
        return lost_rows(self.schema, self.measurements, told, float(first.sigma_left_out))

    def page(self) -> "Page":
        """A report from noisy numbers alone: it may be published."""
        from discreet.synthetic.result import Section, public_page

        name = self.plan.table.name
        section = Section(name, self.schema, self.codes, self.lost(), self.residuals())
        numbers = {"synthetic rows": len(self.codes), "marginals measured": len(self.measurements)}
        terms: dict[str, Any] = {
            "receipt": self.receipt,
            "explained": self.plan.told(self.head["found"]),
            "numbers": numbers,
        }
        return public_page([section], title=f"Synthetic {name}", **terms)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def save(self, path: str | Path) -> Path:
        """Write the rows as .parquet or .csv; the path."""
        from discreet.tables import write

        return write(self.table, path)

    def _keys(self, column: Column) -> Any:
        """New keys: a synthetic person for each row, or for as many rows as the noisy numbers say."""
        import pyarrow

        persons = _persons(len(self.codes), self.head.get("rows_a_person"), self._entropy(3))
        kind = pyarrow.int64() if column.kind is ColumnType.INTEGER else pyarrow.string()
        return pyarrow.array(persons + 1).cast(kind)

    def _entropy(self, purpose: int) -> Entropy:
        return DeterministicEntropy(int.from_bytes(self.seed[:7], "big") * 8 + purpose)


def _persons(rows: int, at_least: Sequence[int] | None, entropy: Entropy) -> Codes:
    """Which synthetic person each row belongs to: rows are in random order, so any split is."""
    if at_least is None:
        return np.arange(rows, dtype=np.int64)
    many = np.minimum.accumulate(np.maximum(np.asarray(at_least, np.float64), 0.0))
    exactly = np.append(many[:-1] - many[1:], many[-1])  # people with exactly n rows
    if exactly.sum() <= 0:
        return np.arange(rows, dtype=np.int64)
    ends = np.cumsum(exactly) / exactly.sum()
    drawn = (entropy.words(rows) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    sizes = np.searchsorted(ends, drawn, side="right") + 1
    return np.repeat(np.arange(rows), np.minimum(sizes, len(ends)))[:rows].astype(np.int64)
