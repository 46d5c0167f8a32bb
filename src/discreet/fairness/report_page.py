"""A fairness report as a page: a verdict for each gap, rates of groups with error bars, strata, calibration."""

from typing import TYPE_CHECKING

import numpy as np

from discreet.fairness.cells import CALIBRATION, CONDITIONAL, CRITERIA
from discreet.fairness.gaps import CAUTIONS, Estimate, judged
from discreet.report import Bars, Chart, Facts, Grid, Heading, Line, Page, Part, Text, Verdict

if TYPE_CHECKING:
    from discreet.fairness.disparity_report import Conditional, FairnessReport, View

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
        parts += _view(report, view)
    parts += [Heading("What these numbers do not say"), *[Text(words) for words in CAUTIONS]]
    return Page(title, parts, lead=report.lead)


def _view(report: "FairnessReport", view: "View") -> list[Part]:
    parts: list[Part] = [Heading(f"By {view.name}")]
    words = {criterion.name: criterion.words for criterion in (*CRITERIA.values(), CONDITIONAL, CALIBRATION)}
    for gap in view.all_gaps:
        word, sentence, good = judged(gap, report.tolerance)
        numbers = f"gap {gap.difference}, ratio {gap.ratio}. " if np.isfinite(gap.difference.value) else ""
        parts.append(Verdict(f"{gap.criterion}: {word}.", f"{numbers}{sentence}. ({words[gap.criterion]}.)", good))
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
