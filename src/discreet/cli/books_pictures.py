"""What was spent, as charts: row by row, and by whom."""

from collections.abc import Sequence
from fractions import Fraction
from math import nan
from typing import TYPE_CHECKING

from discreet.cli.ledger_rows import Entry
from discreet.curator.report import BudgetReport, visible
from discreet.exact import float_up

if TYPE_CHECKING:
    from discreet.report import Chart

_MOST = 30  # analysts in a chart


def spending_chart(entries: Sequence[Entry]) -> "Chart":
    """The total after each row, and the budget that was in force."""
    from discreet.report import Chart, Line

    rows = range(len(entries))
    spent = Line(rows, [_drawable(entry.total) for entry in entries], "spent", steps=True)
    limit = Line(rows, [_drawable(entry.budget.epsilon) for entry in entries], "budget", steps=True, dashed=True)
    return Chart("What was spent", [spent, limit], x="rows of the ledger, in order", y="ε")


def budget_chart(report: BudgetReport) -> "Chart":
    """A bar for everybody together and one for each analyst (the greatest spenders), with limits as ticks."""
    from discreet.report import Bars, Chart

    greatest = sorted(report.analysts, key=lambda analyst: analyst.spent, reverse=True)[:_MOST]
    names = ["everybody", *(visible(analyst.analyst)[:40] for analyst in greatest)]
    spent = [_drawable(report.spent), *(_drawable(analyst.spent) for analyst in greatest)]
    caps = [report.epsilon, *(analyst.cap.epsilon if analyst.cap else None for analyst in greatest)]
    limits = [nan if cap is None else _drawable(cap) for cap in caps]
    return Chart("What was spent, by whom", [Bars(names, spent, limits=limits)], y="ε; a red tick is the limit")


def _drawable(value: Fraction | float) -> float:
    """A number on an axis; what has no place on one is left out."""
    near = float_up(value) if isinstance(value, Fraction) else value
    return near if near < 1e100 else nan
