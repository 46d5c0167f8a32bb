"""The plan of a private fairness audit, and its answer: gaps with two intervals each, from noisy counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.answer import Receipt
from discreet.curator.catalog import NUMERIC, Catalog, Column, ColumnType, Table
from discreet.curator.contribution_draw import require_same, rows_each
from discreet.curator.engines import Engine
from discreet.curator.engines.dialects import DUCKDB, Dialect, dialect_of
from discreet.curator.plan import PrivatePlan, plan_document
from discreet.errors import InternalError, InvalidParameter
from discreet.exact import integer, text_up
from discreet.fairness.cells import ALL, CONDITIONAL, CRITERIA, METRICS, Axis, Cells, metric
from discreet.fairness.column_codes import NONE, Predictions
from discreet.fairness.disparity_report import estimates
from discreet.fairness.gaps import CAUTIONS, Adjusted, Estimate, Gap, adjusted, family, gap, judged, plain_gap
from discreet.fairness.noisy_rates import Covers, Noise, Noisy, tail
from discreet.mechanisms.additive import Geometric
from discreet.noise import Entropy
from discreet.privacy.loss import GaussianNoise, Loss, Pure
from discreet.privacy.unit import Neighbors
from discreet.report import Bars, Chart, Facts, Grid, Heading, Page, Part, Text, Verdict

MOST_CELLS = 500_000
LEAST = 20
_SHOWN = ("selection rate", "true positive rate", "false positive rate", "precision", "accuracy")


@dataclass(frozen=True, slots=True)
class Categories:
    """How a declared column tells units apart: by its values, or by edges between its bounds; all of it public."""

    column: Column
    values: tuple[str, ...]
    edges: tuple[float, ...] = ()

    @classmethod
    def of(cls, column: Column, bins: "int | Sequence[float] | None") -> "Categories":
        """From a column of the catalog: declared values, true and false, or bounds and `bins`."""
        if bins is None:
            declared = declared_values(column)
            if declared is None:
                hint = "declare its values in the policy, or state bins"
                raise InvalidParameter("group or given", column.name, "a column with declared values", hint)
            return cls(column, tuple(value_text(value) for value in declared))
        if column.kind not in NUMERIC:
            raise InvalidParameter("bins", column.name, "a column of numbers")
        edges = _edges(column, bins)
        inner = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
        return cls(column, (f"< {edges[0]:g}", *inner, f"≥ {edges[-1]:g}"), edges)

    def places(self, values: Any) -> NDArray[np.int64]:
        """The place of each value, −1 where it is missing or not declared. It fails on no value."""
        if self.edges:
            numbers = values.cast("double", safe=False).to_numpy(zero_copy_only=False)
            result = np.searchsorted(self.edges, numbers, side="right")
            return np.where(np.isnan(numbers), -1, result).astype(np.int64)
        return places(values, declared_values(self.column) or ())


@dataclass(frozen=True, slots=True, repr=False)
class FairnessPlan(PrivatePlan):
    """Everything about an audit, decided before a row is seen.

    Guarantee: `run` gives out what `loss` covers. Proof. `sql` yields one row for each unit, the same whatever the
    other units are; each such row is counted in one place, found from the row, the catalog and the predictions alone.
    So one unit more or less changes one count by 1, and changing a unit's data lowers one count and raises another:
    ℓ1 sensitivity 1 or 2, squared ℓ2 sensitivity 1 or 2. The counts are released by `noise`, which is for that.
    """

    table: Table
    key: Column
    groups: tuple[Categories, ...]
    strata: tuple[Categories, ...]
    label: Column
    truth: tuple[int, ...]
    predictions: Predictions
    neighbors: Neighbors
    noise: Noise
    epsilon: Fraction
    delta: Fraction
    confidence: Fraction = Fraction(19, 20)
    least: int = LEAST

    def __post_init__(self) -> None:
        if not self.table.private:
            raise InvalidParameter("table", self.table.name, "a private table", "of public rows make a report")
        if self.predictions.kind is not self.key.kind:
            raise InvalidParameter("predictions", str(self.predictions.kind), f"keys of type {self.key.kind}")
        used = [column.name.casefold() for column in self.columns]
        if len(set(used)) < len(used):
            raise InvalidParameter("columns", ", ".join(used), "key, label, groups and given, each column once")
        if self.cells > MOST_CELLS:
            raise InvalidParameter(
                "group and given", f"{self.cells:,} cells", f"at most {MOST_CELLS:,}", "coarsen them"
            )

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns that are read."""
        return (self.key, *(axis.column for axis in (*self.groups, *self.strata)), self.label)

    @property
    def shape(self) -> tuple[int, ...]:
        """Groups, strata, label, and prediction: 0, 1 or none."""
        return (*(len(axis.values) for axis in self.groups), prod(len(axis.values) for axis in self.strata), 2, 3)

    @property
    def cells(self) -> int:
        """How many counts are released: one more, of units that are in no cell."""
        return prod(self.shape) + 1

    @property
    def text(self) -> str:
        """What was asked."""
        given = f" given {', '.join(axis.column.name for axis in self.strata)}" if self.strata else ""
        by = ", ".join(axis.column.name for axis in self.groups)
        return (
            f"audit {len(self.predictions)} predictions {self.predictions.digest[:16]} of {self.label.name} "
            f"by {by}{given} in {self.table.name}"
        )

    def document(self) -> dict[str, Any]:
        """What is released and how; the predictions by their digest."""
        return plan_document(
            "fairness audit",
            1,
            table=self.table,
            neighbors=self.neighbors,
            key=self.key,
            groups=self.groups,
            strata=self.strata,
            label=self.label,
            positive=self.truth,
            noise=self.noise,
            predictions={"key_type": self.predictions.kind, "digest": self.predictions.digest},
        )

    @property
    def loss(self) -> Loss:
        """What the audit costs."""
        return self.noise.loss

    def verify(self, catalog: Catalog) -> Loss:
        """The loss, from the noise and the sensitivity that the catalog's neighbors imply."""
        require_same(self.table, self.columns, self.neighbors, catalog)
        unit = person_column(self.table)
        if unit is not None and unit.casefold() != self.key.name.casefold():
            raise InternalError("a plan joins predictions by another column than the unit's")
        moved = sensitivity(self.neighbors)
        stated = self.noise.sensitivity if isinstance(self.noise, Geometric) else self.noise.squared_sensitivity
        if stated != moved:
            raise InternalError("a plan has noise for another sensitivity than one unit's")
        if isinstance(self.noise, Geometric):
            return Pure(self.noise.epsilon * moved / self.noise.sensitivity)
        loss = self.noise.loss
        if not isinstance(loss, GaussianNoise) or loss.multiplier**2 * moved > self.noise.sigma**2:
            raise InternalError("a plan adds less noise to its counts than its loss says")
        return loss

    @property
    def sql(self) -> str:
        """One row for each unit, the columns that are used."""
        return self._sql(DUCKDB)

    def _sql(self, dialect: Dialect) -> str:
        keyed = person_column(self.table) is not None
        return rows_each(self.table, self.columns[1:] if keyed else self.columns, dialect, most=1, keyed=keyed)

    def run(self, engine: Engine, entropy: Entropy | None) -> bytes:
        """Count the units and give out noisy counts."""
        counts = self.counted(engine.fetch(self._sql(dialect_of(engine.dialect))))
        return np.asarray(self.noise.release(counts, entropy=entropy), "<i8").tobytes()

    def counted(self, rows: Any) -> NDArray[np.int64]:
        """How many units are in each cell; the last count is of those in none."""
        named = {column.name: rows.column(place).combine_chunks() for place, column in enumerate(self.columns)}
        axes = [axis.places(named[axis.column.name]) for axis in (*self.groups, *self.strata)]
        label = places(named[self.label.name], declared_values(self.label) or ())
        truth = np.append(self.truth, -1)[label]
        predicted = self.predictions.look_up(named[self.key.name])
        sizes = (*(len(axis.values) for axis in (*self.groups, *self.strata)), 2, NONE + 1)
        placed = np.all([codes >= 0 for codes in (*axes, truth)], axis=0)
        chosen = tuple(codes[placed] for codes in (*axes, truth, predicted))
        cell = np.full(len(placed), self.cells - 1)
        cell[placed] = np.ravel_multi_index(chosen, sizes)
        return np.bincount(cell, minlength=self.cells).astype(np.int64)

    def finish(self, released: bytes, receipt: Receipt, engine: Engine) -> "FairnessAnswer":
        """The gaps with their limits, from the noisy counts alone."""
        return answer(self, np.frombuffer(released, "<i8"), receipt)

    def explain(self) -> str:
        """What the audit would cost and do, in words."""
        once = "" if person_column(self.table) is None else "; one of their rows is counted"
        width = tail(self.noise, 4 * prod(self.shape[1:-2]), 0.025)
        lines = {
            "task": self.text,
            "protects": f"{self.table.unit}{once} ({self.neighbors})",
            "cost": f"ε {text_up(self.epsilon)}" + (f" at δ {text_up(self.delta, 3)}" if self.delta else ""),
            "releases": f"{self.cells:,} noisy counts; every gap is computed from them",
            "noise": f"within ±{self.noise.interval('0.95'):,} on each count, at 95 % confidence",
            "in a group's size": f"±{width:,.0f} by {self.groups[0].column.name}; in a rate of 1,000 units about "
            f"±{width / 1000:.2g}",
        }
        margin = max(map(len, lines))
        return "\n".join(f"{name:<{margin}}  {value}" for name, value in lines.items())


def sensitivity(neighbors: Neighbors) -> int:
    """How far one unit moves the counts, in ℓ1 norm, and in squared ℓ2 norm: it is in one cell.

    >>> sensitivity(Neighbors.CHANGE_ONE)
    2
    """
    return 1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2


def declared_values(column: Column) -> tuple[Any, ...] | None:
    """The values that a column can have, where they are declared."""
    if column.values is not None and column.kind is not ColumnType.TIMESTAMP:
        return column.values
    return (False, True) if column.kind is ColumnType.BOOLEAN else None


def value_text(value: Any) -> str:
    """A value as text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _edges(column: Column, bins: "int | Sequence[float]") -> tuple[float, ...]:
    if isinstance(bins, Sequence):
        edges = tuple(sorted({float(edge) for edge in bins}))
        if not edges or not np.isfinite(edges).all():
            raise InvalidParameter(f"bins of {column.name}", bins, "at least one finite edge")
        return edges
    count = integer(bins, f"bins of {column.name}", at_least=2, at_most=100)
    if column.lower is None or column.upper is None:
        raise InvalidParameter(f"bins of {column.name}", bins, "edges", "the column has no declared bounds")
    return tuple(float(column.lower + (column.upper - column.lower) * k / count) for k in range(1, count))


def places(values: Any, declared: Sequence[Any]) -> NDArray[np.int64]:
    """The place of each value among the declared ones, −1 if it is not there. It fails on no value.

    >>> import pyarrow
    >>> places(pyarrow.array([True, None, False]), (False, True)).tolist()
    [1, -1, 0]
    """
    encoded = values.dictionary_encode()
    known = {value_text(value): place for place, value in enumerate(declared)}
    of_value = [known.get(value_text(value), -1) for value in encoded.dictionary.to_pylist()]
    codes = encoded.indices.fill_null(len(of_value)).to_numpy(zero_copy_only=False)
    result: NDArray[np.int64] = np.array([*of_value, -1], np.int64)[codes]
    return result


def person_column(table: Table) -> str | None:
    """The column that names persons, where the unit is a person."""
    return table.unit.key if table.unit else None


@dataclass(frozen=True, slots=True)
class Both:
    """The same number with the limits of the table's own value (noise) and of the population's (noise and sampling)."""

    table: Estimate
    population: Estimate

    def __str__(self) -> str:
        if not np.isfinite(self.table.value):
            return "–"
        own, all_ = self.table, self.population
        return f"{own.value:.3f} (table {own.low:.3f} to {own.high:.3f}, population {all_.low:.3f} to {all_.high:.3f})"

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        document = {"value": self.table.as_dict()["value"]}
        return document | {
            name: {end: side.as_dict()[end] for end in ("low", "high")}
            for name, side in (("table", self.table), ("population", self.population))
        }


@dataclass(frozen=True, slots=True, eq=False)
class AuditView:
    """One way to tell groups apart. Gaps come in pairs: with limits for the table, and for the population."""

    name: str
    groups: tuple[str, ...]
    sizes: tuple[Estimate, ...]
    rates: dict[str, tuple[Both, ...]]
    gaps: tuple[tuple[Gap, Gap], ...]
    adjusted: tuple[Adjusted, Adjusted] | None
    small: tuple[str, ...]

    def gap(self, criterion: str, covers: Covers = "population") -> Gap:
        """The gap by a criterion."""
        return next(pair for pair in self.gaps if pair[0].criterion == criterion)[covers == "population"]

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        document: dict[str, Any] = {"by": self.name, "groups": {}}
        for place, name in enumerate(self.groups):
            document["groups"][name] = {"units": self.sizes[place].as_dict()} | {
                rate.replace(" ", "_"): result[place].as_dict() for rate, result in self.rates.items()
            }
        document["gaps"] = [
            own.as_dict()
            | {side: Both(getattr(own, side), getattr(all_, side)).as_dict() for side in ("difference", "ratio")}
            for own, all_ in self.gaps
        ]
        document["adjusted"] = None if self.adjusted is None else [side.as_dict() for side in self.adjusted]
        document["too_small"] = list(self.small)
        return document


@dataclass(frozen=True, slots=True, eq=False)
class FairnessAnswer:
    """The gaps of submitted predictions over private labels and attributes, and what they cost.

    `cells` are noisy counts (some may be negative), `unpredicted` the noisy numbers of units without a prediction by
    group, `unplaced` that of units whose label, group or stratum is missing or not declared.
    """

    plan: "FairnessPlan"
    cells: Cells
    views: tuple[AuditView, ...]
    unpredicted: dict[str, Estimate]
    unplaced: Estimate
    receipt: Receipt

    def view(self, name: str) -> AuditView:
        """By one attribute ("race") or by an intersection ("race × sex")."""
        return next(view for view in self.views if view.name == name)

    def gap(self, criterion: str, covers: Covers = "population") -> Gap:
        """The gap by a criterion in the first view."""
        return self.views[0].gap(criterion, covers)

    def as_dict(self) -> dict[str, Any]:
        """The answer as JSON can hold it."""
        return {
            "audit": self.plan.text,
            "confidence": float(self.plan.confidence),
            "receipt": self.receipt.to_json(),
            "units_without_prediction": {name: estimate.as_dict() for name, estimate in self.unpredicted.items()},
            "units_in_no_cell": self.unplaced.as_dict(),
            "views": [view.as_dict() for view in self.views],
        }

    @property
    def lead(self) -> str:
        """What the two intervals hold."""
        percent = f"{float(100 * self.plan.confidence):g}"
        return (
            f"Each gap has two intervals at {percent} %: of the table's own gap (noise alone), and of the gap among "
            "all those of whom the units are a random sample (noise and sampling)."
        )

    def text(self) -> str:
        """The answer for a terminal."""
        lines = [self.lead]
        for view in self.views:
            sizes = ", ".join(f"{n} ≈{max(0, round(s.value)):,}" for n, s in zip(view.groups, view.sizes, strict=True))
            lines += ["", f"by {view.name}: {sizes}"]
            for own, all_ in view.gaps:
                word, sentence, _ = judged(all_, None)
                lines.append(f"  {own.criterion:<19} {Both(own.difference, all_.difference)}  {word}: {sentence}")
            if view.adjusted is not None:
                own, all_ = (side.difference for side in view.adjusted)  # type: ignore[assignment]
                lines.append(f"  {'adjusted parity':<19} {Both(own, all_)}")  # type: ignore[arg-type]
            lines += [f"  {sentence}" for sentence in view.small]
        return "\n".join([*lines, "", *self._apart(), str(self.receipt)])

    def _apart(self) -> list[str]:
        without = sum(estimate.value for estimate in self.unpredicted.values())
        return [
            f"units without a prediction: about {max(0, round(without)):,}; "
            f"with a label or attribute missing or not declared: about {max(0, round(self.unplaced.value)):,}"
        ]

    def page(self, title: str = "Private fairness audit") -> Page:
        """The answer as a page with pictures."""
        parts: list[Part] = [Facts({"request": self.plan.text, "cost": str(self.receipt)}), *map(Text, self._apart())]
        for view in self.views:
            parts += _parts(view)
        parts += [Heading("What these numbers do not say"), *[Text(words) for words in CAUTIONS]]
        return Page(title, parts, lead=self.lead)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def __str__(self) -> str:
        return self.text()


def answer(plan: FairnessPlan, released: NDArray[np.int64], receipt: Receipt) -> FairnessAnswer:
    """Gaps and limits from the noisy counts that a plan released."""
    counts = released[:-1].reshape(plan.shape)
    attributes = tuple(Axis(axis.column.name, axis.values) for axis in plan.groups)
    cells = Cells(counts[..., None, :, :2], attributes, _strata(plan), ALL)
    alpha = float(1 - plan.confidence)
    views = tuple(_view(plan, view, alpha) for view in cells.views())
    width = tail(plan.noise, 1, alpha / 2)
    unplaced = _count(float(released[-1]), width)
    return FairnessAnswer(plan, cells, views, _unpredicted(plan, counts[..., 2], alpha), unplaced, receipt)


def _strata(plan: "FairnessPlan") -> Axis:
    if not plan.strata:
        return ALL
    names = [""]
    for axis in plan.strata:
        names = [f"{before}, {value}" if before else value for before in names for value in axis.values]
    return Axis(" × ".join(axis.column.name for axis in plan.strata), tuple(names))


def _unpredicted(plan: "FairnessPlan", counts: NDArray[np.int64], alpha: float) -> dict[str, Estimate]:
    """By the first attribute."""
    axis = plan.groups[0]
    totals = counts.sum(axis=tuple(range(1, counts.ndim)))
    width = tail(plan.noise, counts.size // len(axis.values), alpha / 2)
    return {name: _count(float(n), width) for name, n in zip(axis.values, totals, strict=True)}


def _count(value: float, width: float) -> Estimate:
    return Estimate(value, max(0.0, value - width), max(0.0, value + width))


def _view(plan: "FairnessPlan", view: Cells, alpha: float) -> AuditView:
    groups = view.attributes[0].values
    tables, merged = view.tables()
    sides = [Noisy(plan.noise, covers, plan.least) for covers in ("table", "population")]
    rates = {}
    for name, measure in METRICS.items():
        result = family(tables, measure, merged)
        both = [
            estimates(*(np.clip(side, 0, 1)[0] for side in (result.values, *limits.limits(result, alpha))))
            for limits in sides
        ]
        rates[name] = tuple(Both(own, all_) for own, all_ in zip(*both, strict=True))
    gaps = [
        tuple(plain_gap(tables, criterion, groups, limits, alpha, merged) for limits in sides)
        for criterion in CRITERIA.values()
    ]
    spread = None
    if len(view.strata) > 1:
        by_stratum, parts = view.strata_tables()
        selection = metric("selection rate")
        strata = family(by_stratum, selection, parts, view.strata.values)
        gaps.append(tuple(gap(CONDITIONAL, [strata], groups, limits, alpha) for limits in sides))
        compared = sides[0].usable(family(tables, selection, merged))[0]
        found_spread = [adjusted(strata, compared, groups, limits, alpha) for limits in sides]
        spread = None if None in found_spread else (found_spread[0], found_spread[1])
    width = tail(plan.noise, 4 * merged, alpha / 2)
    sizes = tuple(_count(float(n), width) for n in tables.sum(axis=(1, 2)))
    small = _small(groups, sizes, gaps)
    return AuditView(view.attributes[0].name, groups, sizes, rates, tuple(gaps), spread, small)  # type: ignore[arg-type]


def _small(groups: Sequence[str], sizes: Sequence[Estimate], gaps: Sequence[tuple[Gap, ...]]) -> tuple[str, ...]:
    said = []
    for name, size in zip(groups, sizes, strict=True):
        out = [pair[0].criterion for pair in gaps if name in pair[0].left_out]
        if out:
            about = f"about {max(0, round(size.value))} units (at most {size.high:.0f})"
            on = f" on {', '.join(out)}" if len(out) < len(gaps) else ""
            said.append(f"{name}: {about} are too few compared with the noise to say anything{on}.")
    return tuple(said)


# The page


def _parts(view: AuditView) -> list[Part]:
    parts: list[Part] = [Heading(f"By {view.name}")]
    for own, all_ in view.gaps:
        word, sentence, good = judged(all_, None)
        numbers = f"gap {Both(own.difference, all_.difference)}. " if np.isfinite(own.difference.value) else ""
        parts.append(Verdict(f"{own.criterion}: {word}.", f"{numbers}{sentence}.", good))
    parts += [Text(sentence) for sentence in view.small]
    rows = [
        (name, f"{max(0, round(size.value)):,}", *(_short(view.rates[rate][place]) for rate in _SHOWN))
        for place, (name, size) in enumerate(zip(view.groups, view.sizes, strict=True))
    ]
    caption = "Noisy rates; in brackets the limits for the population, each for itself."
    parts.append(Grid((view.name, "units, about", *_SHOWN), rows, caption))
    for name in _SHOWN:
        result = view.rates[name]
        known = [k for k, both in enumerate(result) if np.isfinite(both.table.value)]
        if known:
            values, low, high = (
                [getattr(result[k].population, end) for k in known] for end in ("value", "low", "high")
            )
            bars = Bars([view.groups[k] for k in known], values, low=low, high=high)
            parts.append(Chart(f"{name}, by {view.name}", [bars], y=name, y_range=(0, 1)))
    return parts


def _short(both: Both) -> str:
    side = both.population
    return "–" if not np.isfinite(side.value) else f"{side.value:.3f} ({side.low:.2f}–{side.high:.2f})"
