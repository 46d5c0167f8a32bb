"""What was spent, as pictures: row by row, and by whom."""

import warnings
from collections.abc import Callable, Sequence
from fractions import Fraction
from math import nan
from typing import Any

from discreet.cli import show
from discreet.cli.ledger_rows import Entry
from discreet.curator.report import BudgetReport, visible
from discreet.exact import float_up


def picture(path: str, draw: Callable[[Any], None]) -> None:
    """Draw and save it, whatever script the names are written in."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a name in a script that the font has not
        show.picture(path, draw)


def draw_spending(axes: Any, entries: Sequence[Entry]) -> None:
    """The total after each row, and the budget that was in force."""
    places = range(len(entries))
    axes.step(places, [_drawable(one.total) for one in entries], where="post", label="spent")
    limits = [_drawable(one.budget.epsilon) for one in entries]
    axes.step(places, limits, where="post", color="0.5", ls="--", label="budget")
    axes.set(xlabel="rows of the ledger, in order", ylabel="ε", ylim=(0, None), title="what was spent")
    axes.legend(frameon=False)


def draw_budget(axes: Any, report: BudgetReport, most: int = 30) -> None:
    """A bar for everybody together and one for each analyst (the greatest spenders), with limits as marks."""
    greatest = sorted(report.analysts, key=lambda one: one.spent, reverse=True)[:most]
    names = ["everybody", *(visible(one.analyst)[:40] for one in greatest)]
    spent = [_drawable(report.spent), *(_drawable(one.spent) for one in greatest)]
    limits = [report.epsilon, *(one.cap.epsilon if one.cap else None for one in greatest)]
    places = range(len(names))
    axes.barh(places, spent, color="#3b6ea5")
    marks = [(_drawable(limit), place) for place, limit in zip(places, limits, strict=True) if limit is not None]
    axes.plot(*zip(*marks, strict=True), "|", color="black", markersize=18)
    axes.set_yticks(places, names, parse_math=False)
    axes.invert_yaxis()
    axes.set(xlabel="ε spent; | is the limit", xlim=(0, None))


def _drawable(value: Fraction | float) -> float:
    """A number on an axis; what has no place on one is left out."""
    near = float_up(value) if isinstance(value, Fraction) else value
    return near if near < 1e100 else nan
