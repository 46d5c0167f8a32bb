"""What an audit gives back: gaps with two intervals each, from noisy counts; everything done with it is free."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.curator.answer import Receipt
from discreet.fairness.cells import ALL, CONDITIONAL, CRITERIA, METRICS, Axis, Cells, metric
from discreet.fairness.disparity_report import estimates
from discreet.fairness.gaps import CAUTIONS, Adjusted, Estimate, Gap, adjusted, family, gap, judged, plain_gap
from discreet.fairness.noisy_rates import Covers, Noisy, tail
from discreet.report import Bars, Chart, Facts, Grid, Heading, Page, Part, Text, Verdict

if TYPE_CHECKING:
    from discreet.fairness.audit import FairnessPlan

_SHOWN = ("selection rate", "true positive rate", "false positive rate", "precision", "accuracy")


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
        told = {"value": self.table.as_dict()["value"]}
        return told | {
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
        told: dict[str, Any] = {"by": self.name, "groups": {}}
        for place, name in enumerate(self.groups):
            told["groups"][name] = {"units": self.sizes[place].as_dict()} | {
                rate.replace(" ", "_"): result[place].as_dict() for rate, result in self.rates.items()
            }
        told["gaps"] = [
            own.as_dict()
            | {side: Both(getattr(own, side), getattr(all_, side)).as_dict() for side in ("difference", "ratio")}
            for own, all_ in self.gaps
        ]
        told["adjusted"] = None if self.adjusted is None else [side.as_dict() for side in self.adjusted]
        told["too_small"] = list(self.small)
        return told


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
        parts: list[Part] = [Facts({"asked": self.plan.text, "cost": str(self.receipt)}), *map(Text, self._apart())]
        for view in self.views:
            parts += _parts(view)
        parts += [Heading("What these numbers do not say"), *[Text(words) for words in CAUTIONS]]
        return Page(title, parts, lead=self.lead)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def __str__(self) -> str:
        return self.text()


def answer(plan: "FairnessPlan", released: NDArray[np.int64], receipt: Receipt) -> FairnessAnswer:
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
            said.append(f"{name}: {about} are too few beside the noise to say anything{on}.")
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
