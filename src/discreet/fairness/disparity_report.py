"""A fairness report: rates of every group, gaps by every criterion, with intervals, as data, text, JSON and a page.

>>> from discreet.fairness.disparity_report import fairness_report
>>> table = {"y": [1, 0] * 100, "yhat": [1, 0] * 60 + [0, 0] * 40, "sex": ["f"] * 100 + ["m"] * 100}
>>> result = fairness_report(table, label="y", prediction="yhat", group="sex")
>>> print(result.views[0].gap("statistical parity").difference)
0.400 (0.273 to 0.514)

A fairness report as a page: a verdict for each gap, rates of groups with error bars, strata, calibration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.fairness.bootstrap import REPLICATES, Replicates, checked_replicates
from discreet.fairness.bootstrap import gaps as bootstrap_gaps
from discreet.fairness.cells import CALIBRATION, CONDITIONAL, CRITERIA, METRICS, Cells, metric
from discreet.fairness.gaps import (
    CAUTIONS,
    NOTHING,
    Adjusted,
    Estimate,
    Gap,
    Limits,
    Rates,
    Sampling,
    adjusted,
    family,
    gap,
    judged,
    plain_gap,
    smallness,
)
from discreet.mechanisms.mechanism import failure_probability
from discreet.noise import Entropy
from discreet.report import Bars, Chart, Facts, Grid, Heading, Line, Page, Part, Text, Verdict

LEAST = 20
Method = Literal["exact", "bootstrap"]


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """Parity within strata: the worst gap of a stratum, and the gap of rates standardized to the strata's shares.

    `strata` are gaps within single strata, each with limits of its own; `incomparable` counts strata in which fewer
    than two groups are large enough.
    """

    given: str
    gap: Gap
    adjusted: Adjusted | None
    strata: tuple[tuple[str, int, Gap], ...]
    incomparable: int

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "given": self.given,
            "gap": self.gap.as_dict(),
            "adjusted": None if self.adjusted is None else self.adjusted.as_dict(),
            "strata": [{"stratum": name, "rows": rows, **entry.as_dict()} for name, rows, entry in self.strata],
            "strata_that_cannot_be_compared": self.incomparable,
        }


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """All about one way to tell groups apart: one attribute, or the intersection of several."""

    name: str
    groups: tuple[str, ...]
    sizes: tuple[int, ...]
    rates: dict[str, tuple[Estimate, ...]]
    tries: dict[str, tuple[int, ...]]
    gaps: tuple[Gap, ...]
    conditional: Conditional | None
    calibration: "Calibration | None"
    small: tuple[str, ...]

    def gap(self, criterion: str) -> Gap:
        """The gap by a criterion."""
        known = {entry.criterion: entry for entry in self.all_gaps}
        if criterion not in known:
            raise InvalidParameter("criterion", criterion, ", ".join(known))
        return known[criterion]

    def rate(self, name: str, group: str) -> Estimate:
        """A rate of a group, with its limits."""
        if name not in self.rates:
            raise InvalidParameter("metric", name, ", ".join(self.rates))
        if group not in self.groups:
            raise InvalidParameter("group", group, f"one of {', '.join(self.groups)}")
        return self.rates[name][self.groups.index(group)]

    @property
    def all_gaps(self) -> tuple[Gap, ...]:
        """Also that within strata, and that of calibration."""
        more = [part.gap for part in (self.conditional, self.calibration) if part is not None]
        return (*self.gaps, *more)

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        document: dict[str, Any] = {"by": self.name, "groups": {}}
        for place, name in enumerate(self.groups):
            document["groups"][name] = {"rows": self.sizes[place]} | {
                rate.replace(" ", "_"): result[place].as_dict() | {"of": self.tries[rate][place]}
                for rate, result in self.rates.items()
            }
        document["gaps"] = [entry.as_dict() for entry in self.gaps]
        document["conditional_parity"] = None if self.conditional is None else self.conditional.as_dict()
        document["calibration"] = None if self.calibration is None else self.calibration.as_dict(self.groups)
        document["too_small"] = list(self.small)
        return document


@dataclass(frozen=True, slots=True, eq=False)
class FairnessReport:
    """What was found, by each sensitive attribute and by all together."""

    cells: Cells
    views: tuple[View, ...]
    confidence: Fraction
    least: int
    tolerance: Fraction | None
    method: Method

    @property
    def fails(self) -> tuple[tuple[str, Gap], ...]:
        """Gaps that surely exceed the tolerance."""
        if self.tolerance is None:
            return ()
        limit = float(self.tolerance)
        return tuple(
            (view.name, entry) for view in self.views for entry in view.all_gaps if entry.difference.low > limit
        )

    def view(self, name: str) -> View:
        """By one attribute ("race") or by an intersection ("race × sex")."""
        for view in self.views:
            if view.name == name:
                return view
        raise InvalidParameter("view", name, f"one of {', '.join(view.name for view in self.views)}")

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON can hold it."""
        return {
            "rows": self.cells.rows,
            "dropped": self.cells.dropped,
            "confidence": float(self.confidence),
            "limits": self.method,
            "least": self.least,
            "tolerance": None if self.tolerance is None else float(self.tolerance),
            "notes": list(self.cells.notes),
            "views": [view.as_dict() for view in self.views],
        }

    def text(self) -> str:
        """The report for a terminal."""
        lines = [self.lead]
        for view in self.views:
            sizes = ", ".join(f"{name} {rows:,}" for name, rows in zip(view.groups, view.sizes, strict=True) if rows)
            lines += ["", f"by {view.name}: {sizes}"]
            for entry in view.all_gaps:
                word, sentence, _ = judged(entry, self.tolerance)
                lines.append(f"  {entry.criterion:<19} {entry.difference!s:<24} {word}: {sentence}")
            if view.conditional is not None and view.conditional.adjusted is not None:
                lines.append(f"  {'adjusted parity':<19} {view.conditional.adjusted.difference}")
            lines += [f"  {sentence}" for sentence in view.small]
        return "\n".join(lines)

    @property
    def lead(self) -> str:
        """What was counted and what the limits are, in one line."""
        left = f", {self.cells.dropped:,} left out because a value is missing" if self.cells.dropped else ""
        percent = f"{float(100 * self.confidence):g}"
        notes = " ".join(("", *self.cells.notes))
        return f"{self.cells.rows:,} rows{left}; gaps are differences, with limits at {percent} % confidence.{notes}"

    def page(self, title: str = "Fairness") -> "Page":
        """The report as a page with pictures."""

        return page(self, title)

    def _repr_html_(self) -> str:
        return self.page().fragment()

    def __str__(self) -> str:
        return self.text()


def fairness_report(
    table: Any,
    *,
    group: str | Sequence[str],
    confidence: Number = "0.95",
    least: int = LEAST,
    tolerance: Number | None = None,
    limits: Method = "exact",
    replicates: int = REPLICATES,
    entropy: Entropy | None = None,
    **columns: Any,
) -> FairnessReport:
    """The report on a table; `columns` are those of `Cells.of`: label, prediction, score, given, positive, missing, ….

    Groups of fewer than `least` rows (in a rate's denominator) are shown, but not compared. `tolerance` is the largest
    gap that is accepted: with it the report says which gaps surely exceed it. `limits`: "exact" (Clopper–Pearson for
    rates, Newcombe for differences) or "bootstrap" for the gaps.
    """
    cells = Cells.of(table, group=group, **columns)
    return report_cells(
        cells,
        confidence=confidence,
        least=least,
        tolerance=tolerance,
        limits=limits,
        replicates=replicates,
        entropy=entropy,
    )


def report_cells(
    cells: Cells,
    *,
    confidence: Number = "0.95",
    least: int = LEAST,
    tolerance: Number | None = None,
    limits: Method = "exact",
    replicates: int = REPLICATES,
    entropy: Entropy | None = None,
) -> FairnessReport:
    """The report on counted cells."""
    rest = failure_probability(confidence)
    smallest = integer(least, "least", at_least=1)
    accepted = None if tolerance is None else rational(tolerance, "tolerance", at_least=0, at_most=1)
    if limits not in ("exact", "bootstrap"):
        raise InvalidParameter("limits", limits, "'exact' or 'bootstrap'")
    drawn = None
    if limits == "bootstrap":
        drawn = Replicates.of(cells, checked_replicates(replicates, float(rest)), entropy=entropy)
    views = tuple(
        _view(view, place, drawn, Sampling(smallest), float(rest)) for place, view in enumerate(cells.views())
    )
    return FairnessReport(cells, views, 1 - rest, smallest, accepted, limits)


def _view(view: Cells, place: int, drawn: Replicates | None, limits: Sampling, alpha: float) -> View:
    groups = view.attributes[0].values
    tables, merged = view.tables()
    sizes = tuple(int(n) for n in tables.sum(axis=(1, 2)))
    rates, tries = {}, {}
    for name, measure in METRICS.items():
        if view.labeled or not measure.labeled:
            result = family(tables, measure, merged)
            rates[name] = estimates(result.values[0], *(side[0] for side in limits.limits(result, alpha)))
            tries[name] = tuple(int(n) for n in result.tries[0])
    inside = None
    if drawn is None:
        known = [criterion for criterion in CRITERIA.values() if view.labeled or not criterion.labeled]
        gaps = tuple(plain_gap(tables, criterion, groups, limits, alpha, merged) for criterion in known)
    else:
        found_gaps = bootstrap_gaps(drawn, place, least=limits.least, alpha=alpha)
        gaps = tuple(entry for entry in found_gaps if entry.criterion != CONDITIONAL.name)
        inside = next((entry for entry in found_gaps if entry.criterion == CONDITIONAL.name), None)
    conditional = conditional_parity(view, limits, alpha, inside) if len(view.strata) > 1 else None
    calibrated = calibration(view, limits, alpha) if view.labeled and len(view.bins) > 1 else None
    small = smallness(groups, sizes, rates, tries, limits.least)
    return View(view.attributes[0].name, groups, sizes, rates, tries, gaps, conditional, calibrated, small)


def conditional_parity(view: Cells, limits: Limits, alpha: float, inside: Gap | None = None) -> Conditional:
    """Parity within strata of a view on one axis; `inside` is its gap, if it is known already."""
    groups = view.attributes[0].values
    tables, merged = view.strata_tables()
    selection = metric("selection rate")
    strata = family(tables, selection, merged, view.strata.values)
    whole = gap(CONDITIONAL, [strata], groups, limits, alpha) if inside is None else inside
    single = []
    for k, name in enumerate(view.strata.values):
        result = gap(CONDITIONAL, [family(tables[k], selection, merged, [name])], groups, limits, alpha)
        if np.isfinite(result.difference.value):
            single.append((name, max(0, round(float(strata.tries[k].sum()))), result))
    total, parts = view.tables()
    compared = limits.usable(family(total, selection, parts))[0]
    single.sort(key=lambda row: -row[2].difference.value)
    spread = adjusted(strata, compared, groups, limits, alpha)
    return Conditional(view.strata.name, whole, spread, tuple(single), len(view.strata) - len(single))


def estimates(values: Any, low: Any, high: Any) -> tuple[Estimate, ...]:
    """Numbers and limits side by side; where there is no number, there is nothing."""
    return tuple(
        Estimate(float(v), float(a), float(b)) if np.isfinite(v) else NOTHING
        for v, a, b in zip(values, low, high, strict=True)
    )


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Calibration:
    """How often the outcome occurs at each level of the score, by group.

    `gap` compares groups within bins. Where scores are probabilities, `excess` is each group's mean score less its base
    rate (limits: of the base rate; the scores are taken as given), and `error` the mean distance |frequency − mean
    score| over bins weighted by their rows: a description without limits, too large by chance in small groups.
    """

    bins: tuple[str, ...]
    rates: Rates  # bin × group
    low: Floats
    high: Floats
    gap: Gap
    means: Floats | None
    excess: tuple[Estimate, ...]
    error: tuple[float, ...]

    def as_dict(self, groups: tuple[str, ...]) -> dict[str, Any]:
        """As JSON can hold it."""
        document: dict[str, Any] = {"gap": self.gap.as_dict(), "bins": list(self.bins)}
        document["frequency"] = {
            name: [Estimate(*map(float, numbers)).as_dict() | {"rows": int(rows)} for *numbers, rows in zip(
                self.rates.values[:, g], self.low[:, g], self.high[:, g], self.rates.tries[:, g], strict=True)]
            for g, name in enumerate(groups)
        }  # fmt: skip
        if self.means is not None:
            document["mean_score_less_base_rate"] = {
                name: excess.as_dict() for name, excess in zip(groups, self.excess, strict=True)
            }
            document["mean_distance"] = {
                name: value if np.isfinite(value) else None for name, value in zip(groups, self.error, strict=True)
            }
        return document


def calibration(view: Cells, limits: Limits, alpha: float) -> Calibration:
    """The calibration of a view of the cells, on one axis of groups.

    >>> table = {"y": [0, 1, 1, 1] * 50, "s": [0.25, 0.25, 0.75, 0.75] * 50, "sex": ["f", "m"] * 100}
    >>> cells = Cells.of(table, label="y", score="s", threshold="0.5", group="sex", score_bins=2)
    >>> result = calibration(cells.by("sex"), Sampling(), 0.05)
    >>> [round(gap.value, 2) for gap in result.excess]
    [0.0, -0.5]
    """
    tables, merged = view.bin_tables()
    names = [f"{view.bins.name} {value}" for value in view.bins.values]
    rates = family(tables, metric("base rate"), merged, names)
    result = gap(CALIBRATION, [rates], view.attributes[0].values, limits, alpha)
    low, high = limits.limits(rates, alpha)
    if view.scores is None:
        return Calibration(view.bins.values, rates, low, high, result, None, (), ())
    means = np.divide(view.scores.T, rates.tries, out=np.full(rates.tries.shape, np.nan), where=rates.tries > 0)
    excess = _excess(view, limits, alpha)
    weights = rates.tries / np.maximum(rates.tries.sum(axis=0), 1)
    error = np.where(
        rates.tries.sum(axis=0) > 0, (weights * np.nan_to_num(np.abs(rates.values - means))).sum(0), np.nan
    )
    return Calibration(view.bins.values, rates, low, high, result, means, excess, tuple(map(float, error)))


def _excess(view: Cells, limits: Limits, alpha: float) -> tuple[Estimate, ...]:
    whole, merged = view.tables()
    base = family(whole, metric("base rate"), merged)
    low, high = limits.limits(base, alpha)
    scores = np.asarray(view.scores).sum(axis=1)
    return tuple(
        Estimate(float(total / n - p), float(total / n - b), float(total / n - a)) if n > 0 else NOTHING
        for total, n, p, a, b in zip(scores, base.tries[0], base.values[0], low[0], high[0], strict=True)
    )


_MOST_GROUPS = 24
_FEW = 12
_SHOWN = ("selection rate", "true positive rate", "false positive rate", "precision", "accuracy")


def page(report: "FairnessReport", title: str) -> Page:
    """The whole report.

    >>> from discreet.fairness.disparity_report import fairness_report
    >>> table = {"yhat": [1, 0] * 20, "sex": ["f"] * 20 + ["m"] * 20}
    >>> result = fairness_report(table, prediction="yhat", group="sex")
    >>> "statistical parity" in page(result, "Fairness").html()
    True
    """
    parts: list[Part] = []
    for view in report.views:
        parts += _view_parts(report, view)
    parts += [Heading("What these numbers do not say"), *[Text(words) for words in CAUTIONS]]
    return Page(title, parts, lead=report.lead)


def _view_parts(report: "FairnessReport", view: "View") -> list[Part]:
    parts: list[Part] = [Heading(f"By {view.name}")]
    words = {criterion.name: criterion.words for criterion in (*CRITERIA.values(), CONDITIONAL, CALIBRATION)}
    for each in view.all_gaps:
        word, sentence, good = judged(each, report.tolerance)
        numbers = f"gap {each.difference}, ratio {each.ratio}. " if np.isfinite(each.difference.value) else ""
        parts.append(Verdict(f"{each.criterion}: {word}.", f"{numbers}{sentence}. ({words[each.criterion]}.)", good))
    parts += [Text(sentence) for sentence in view.small]
    parts += [_rates(view), *_charts(view)]
    if view.conditional is not None:
        parts += _conditional(view, view.conditional)
    return [*parts, *_calibration(view)]


def _rates(view: "View") -> Grid:
    shown = [name for name in ("base rate", *_SHOWN) if name in view.rates]
    rows = [
        (name, size, *(_short(view.rates[rate][place]) for rate in shown))
        for place, (name, size) in enumerate(zip(view.groups, view.sizes, strict=True))
        if size
    ]
    caption = "Rates of each group, with exact (Clopper–Pearson) limits for each by itself."
    return Grid((view.name, "rows", *shown), rows, caption)


def _short(estimate: Estimate) -> str:
    return "–" if not np.isfinite(estimate.value) else f"{estimate.value:.3f} ({estimate.low:.2f}–{estimate.high:.2f})"


def _charts(view: "View") -> list[Part]:
    places = [place for place in np.argsort(view.sizes)[::-1] if view.sizes[place]][:_MOST_GROUPS]
    labels = [view.groups[place] for place in places]
    parts: list[Part] = []
    for name in _SHOWN:
        if name not in view.rates:
            continue
        result = [view.rates[name][place] for place in places]
        known = [place for place, estimate in enumerate(result) if np.isfinite(estimate.value)]
        if not known:
            continue
        values, low, high = ([getattr(result[k], side) for k in known] for side in ("value", "low", "high"))
        bars = Bars([labels[k] for k in known], values, low=low, high=high)
        parts.append(Chart(f"{name}, by {view.name}", [bars], y=name, y_range=(0, 1)))
    return parts


def _conditional(view: "View", strata: "Conditional") -> list[Part]:
    parts: list[Part] = [Heading(f"By {view.name}, given {strata.given}")]
    if strata.adjusted is not None:
        whole = view.gap("statistical parity").difference
        parts.append(
            Facts(
                {
                    "gap without regard to strata": str(whole),
                    "gap if all groups were spread over the strata alike": str(strata.adjusted.difference),
                    "rows in strata that hold all groups": f"{strata.adjusted.covered:.1%}",
                    "strata that cannot be compared": strata.incomparable,
                }
            )
        )
    rows = [
        (name, size, str(entry.difference), entry.highest, entry.lowest) for name, size, entry in strata.strata[:_FEW]
    ]
    more = f" {len(strata.strata) - _FEW} more are not shown." if len(strata.strata) > _FEW else ""
    caption = f"Gaps of the selection rate within strata, largest first; each with limits of its own.{more}"
    return [*parts, Grid((strata.given, "rows", "gap", "highest", "lowest"), rows, caption)] if rows else parts


def _calibration(view: "View") -> list[Part]:
    result = view.calibration
    if result is None:
        return []
    places = [place for place in np.argsort(view.sizes)[::-1] if view.sizes[place]][:6]
    steps = np.arange(1, len(result.bins) + 1)
    lines = [
        Line(steps, result.rates.values[:, g], view.groups[g], low=result.low[:, g], high=result.high[:, g])
        for g in places
    ]
    parts: list[Part] = [
        Heading(f"Calibration by {view.name}"),
        Chart("How often the outcome occurs at each level of the score", lines, x="bin of the score", y="frequency"),
    ]
    if result.means is not None:
        rows = [(view.groups[g], str(result.excess[g]), result.error[g]) for g in places]
        caption = "A positive first number: the scores say more than happens. The second is a description only."
        header = (view.name, "mean score less base rate", "mean distance over bins")
        parts.append(Grid(header, rows, caption))
    return parts
