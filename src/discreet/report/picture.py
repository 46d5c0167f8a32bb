"""A chart as PNG or PDF, through matplotlib (the extra `plot`)."""

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import MissingExtra
from discreet.report.chart import Bars, Chart, Heat, Line, Points
from discreet.report.svg import COLORS, RAMP


def save(chart: Chart, path: Path) -> Path:
    """Draw a chart and save it; the path."""
    try:
        import_module("matplotlib")
    except ImportError:
        raise MissingExtra("matplotlib", "plot") from None
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes: Any = figure.subplots()
    draw(chart, axes)
    figure.savefig(path, dpi=150)
    return path


def draw(chart: Chart, axes: Any) -> None:
    """Draw a chart on axes of matplotlib."""
    bars = sum(isinstance(mark, Bars) for mark in chart.marks)
    for number, mark in enumerate(chart.marks):
        _mark(mark, axes, COLORS[number % len(COLORS)], number, bars)
    axes.set_title(chart.title)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if chart.log_x:
        axes.set_xscale("log")
    if chart.log_y:
        axes.set_yscale("log")
    axes.set_xlim(chart.x_range)
    axes.set_ylim(chart.y_range)
    axes.spines[["top", "right"]].set_visible(False)
    if any(getattr(mark, "label", "") for mark in chart.marks):
        axes.legend(frameon=False)


def _mark(mark: Line | Points | Bars | Heat, axes: Any, color: str, number: int, bars: int) -> None:
    match mark:
        case Line():
            axes.plot(mark.x, mark.y, color=color, label=mark.label or None, linestyle="--" if mark.dashed else "-")
            if mark.low is not None:
                axes.fill_between(mark.x, mark.low, mark.high, color=color, alpha=0.15, linewidth=0)
        case Points():
            axes.errorbar(mark.x, mark.y, _reach(mark, mark.y), fmt="o", color=color, label=mark.label or None, ms=4)
        case Bars():
            places = np.arange(len(mark.labels)) + (number - (bars - 1) / 2) * 0.8 / bars
            reach = _reach(mark, mark.values)
            axes.bar(places, mark.values, 0.8 / bars, yerr=reach, color=color, label=mark.label or None)
            axes.set_xticks(range(len(mark.labels)), mark.labels, rotation=30, ha="right")
        case Heat():
            _heat(mark, axes)


def _heat(mark: Heat, axes: Any) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    colors = LinearSegmentedColormap.from_list("discreet", [tuple(c / 255 for c in rgb) for rgb in RAMP])
    image = axes.imshow(mark.values, cmap=colors, aspect="auto")
    axes.figure.colorbar(image, ax=axes)
    if mark.columns:
        axes.set_xticks(range(len(mark.columns)), mark.columns, rotation=30, ha="right")
    if mark.rows:
        axes.set_yticks(range(len(mark.rows)), mark.rows)


def _reach(mark: Points | Bars, values: Any) -> Any:
    if mark.low is None:
        return None
    center = np.asarray(values, np.float64)
    reach = np.stack([center - np.asarray(mark.low), np.asarray(mark.high) - center])
    return np.maximum(np.nan_to_num(reach), 0)
