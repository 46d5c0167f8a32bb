"""A chart as inline SVG: no script, no fonts to load, nothing fetched."""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise
from textwrap import wrap

import numpy as np

from discreet.report.axis import Axis, label
from discreet.report.chart import Bars, Chart, Heat, Line, Points

COLORS = ("#2c6c8c", "#c2572b", "#5b8a3c", "#7a5195", "#b08d1f", "#4a4a4a", "#c0487a", "#2f8f83")
RAMP = ((250, 250, 245), (198, 219, 214), (107, 168, 178), (44, 108, 140), (20, 54, 96))
_WIDTH, _HEIGHT = 640, 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 16, 42, 48
_INK, _FAINT = "#333", "#e2e2dc"
_MOST_NAMES = 40
_LINE = 70  # longer titles take several lines
_LETTER = 6.6  # the width of a letter of text, about
_SIN, _COS = math.sin(math.radians(35)), math.cos(math.radians(35))  # of the slant of long names
_LONGEST, _WIDEST = 24, 170  # letters of a slanted name; the margin for names of rows


def drawn(chart: Chart) -> str:
    """The chart as one `<svg>` element."""
    marks = chart.marks
    if isinstance(marks[0], Heat):
        return _heat(chart, marks[0])
    bars = [mark for mark in marks if isinstance(mark, Bars)]
    return _bars(chart, bars) if bars else _curves(chart, [m for m in marks if isinstance(m, Line | Points)])


# Lines and points


def _curves(chart: Chart, marks: list[Line | Points]) -> str:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    across = Axis.over(_all(marks, "x"), length=width, log=chart.log_x, given=chart.x_range)
    up = Axis.over(_all(marks, "y", "low", "high"), length=height, log=chart.log_y, given=chart.y_range)
    parts = [_ground(across, up, chart)]
    for number, mark in enumerate(marks):
        color = COLORS[number % len(COLORS)]
        parts.append(_line(mark, across, up, color) if isinstance(mark, Line) else _points(mark, across, up, color))
    return _framed(chart, parts)


def _line(mark: Line, across: Axis, up: Axis, color: str) -> str:
    runs = _runs(mark, across, up)
    dash = ' stroke-dasharray="6 4"' if mark.dashed else ""
    band = "" if mark.low is None else _band(mark, across, up, color)
    paths = "".join(
        f'<path d="M{" L".join(f"{x:.1f},{y:.1f}" for x, y in run)}" fill="none" stroke="{color}" stroke-width="2"'
        f"{dash}/>"
        for run in runs
    )
    return band + paths


def _band(mark: Line, across: Axis, up: Axis, color: str) -> str:
    rows = [
        (x, a, b)
        for x, a, b in zip(_of(mark.x), _of(mark.low), _of(mark.high), strict=True)
        if not math.isnan(x + a + b)
    ]
    upper = [f"{across.place(x):.1f},{up.length - up.place(b):.1f}" for x, _, b in rows]
    lower = [f"{across.place(x):.1f},{up.length - up.place(a):.1f}" for x, a, _ in reversed(rows)]
    return f'<polygon points="{" ".join(upper + lower)}" fill="{color}" fill-opacity="0.15"/>'


def _runs(mark: Line, across: Axis, up: Axis) -> list[list[tuple[float, float]]]:
    """Runs of points without a gap between them."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(_of(mark.x), _of(mark.y), strict=True):
        if math.isnan(x) or math.isnan(y):
            runs.append([])
        else:
            runs[-1].append((across.place(x), up.length - up.place(y)))
    return [run for run in runs if run]


def _points(mark: Points, across: Axis, up: Axis, color: str) -> str:
    low, high = (_of(mark.y) if side is None else _of(side) for side in (mark.low, mark.high))
    shown = []
    for x, y, a, b in zip(_of(mark.x), _of(mark.y), low, high, strict=True):
        if math.isnan(x) or math.isnan(y):
            continue
        left, top = across.place(x), up.length - up.place(y)
        if a != b:
            shown.append(_whisker(left, up.length - up.place(a), up.length - up.place(b), color))
        shown.append(f'<circle cx="{left:.1f}" cy="{top:.1f}" r="3" fill="{color}" fill-opacity="0.75"/>')
    return "".join(shown)


# Bars


def _bars(chart: Chart, bars: list[Bars]) -> str:
    width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    names = bars[0].labels
    values = [0.0, *_all(bars, "values", "low", "high")]
    up = Axis.over(values, length=height, log=chart.log_y, given=chart.y_range)
    slot = width / max(len(names), 1)
    thick = slot * 0.8 / len(bars)
    parts = [_rows(up, width, chart)]
    for number, mark in enumerate(bars):
        parts += [_bar(mark, i, slot * (i + 0.1) + thick * number, thick, up, number) for i in range(len(names))]
    shown, depth = _names(names, slot, height, _LEFT)
    return _framed(chart, [*parts, shown], deeper=depth)


def _bar(mark: Bars, place: int, left: float, thick: float, up: Axis, number: int) -> str:
    value = float(_of(mark.values)[place])
    if math.isnan(value):
        return ""
    zero = up.place(up.low if up.log else 0.0)
    ends = sorted((zero, up.place(value)))
    color = COLORS[number % len(COLORS)]
    title = f"<title>{escape(mark.labels[place])}: {label(value)}</title>"
    shape = (
        f'<rect x="{left:.1f}" y="{up.length - ends[1]:.1f}" width="{max(thick - 1, 0.5):.1f}" '
        f'height="{max(ends[1] - ends[0], 0.5):.1f}" fill="{color}">{title}</rect>'
    )
    if mark.low is None:
        return shape
    a, b = float(_of(mark.low)[place]), float(_of(mark.high)[place])
    return shape + _whisker(left + thick / 2, up.length - up.place(a), up.length - up.place(b), _INK)


def _names(names: Sequence[str], slot: float, height: float, left: float) -> tuple[str, float]:
    """The names below their places, slanted where they are too long to stand side by side; and how deep they reach.

    A slanted name is cut where it would leave the picture on the left.
    """
    every = max(1, math.ceil(len(names) / _MOST_NAMES))
    if max(map(len, names), default=0) * 7 <= slot * every:
        straight = [
            f'<text x="{slot * (i + 0.5):.1f}" y="{height + 16}" text-anchor="middle">{escape(name)}</text>'
            for i, name in enumerate(names)
            if i % every == 0
        ]
        return "".join(straight), 0.0
    shown, longest = [], 0
    for i in range(0, len(names), every):
        x = slot * (i + 0.5)
        text = _short(names[i], min(_LONGEST, int((left + x) / (_LETTER * _COS))))
        longest = max(longest, len(text))
        turn = f' transform="rotate(-35 {x:.1f} {height + 12})" text-anchor="end"'
        shown.append(f'<text x="{x:.1f}" y="{height + 12}"{turn}>{escape(text)}</text>')
    return "".join(shown), max(0.0, longest * _LETTER * _SIN - 10)


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


# Heat


def _heat(chart: Chart, mark: Heat) -> str:
    matrix = np.asarray(mark.values, np.float64)
    finite = matrix[np.isfinite(matrix)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    title = 18 if chart.y else 0
    margin = min(_WIDEST, max(_LEFT, title + 14 + _LETTER * max((len(str(name)) for name in mark.rows), default=0)))
    width, height = _WIDTH - margin - _RIGHT - 60, _HEIGHT - _TOP - _BOTTOM
    side, tall = width / matrix.shape[1], height / matrix.shape[0]
    cells = [
        f'<rect x="{j * side:.2f}" y="{i * tall:.2f}" width="{side + 0.3:.2f}" height="{tall + 0.3:.2f}" '
        f'fill="{_shade(matrix[i, j], low, high)}"/>'
        for i in range(matrix.shape[0])
        for j in range(matrix.shape[1])
    ]
    every = max(1, math.ceil(len(mark.rows) / 24))
    left = [
        f'<text x="-6" y="{(i + 0.5) * tall + 4:.1f}" text-anchor="end">'
        f"{escape(_short(str(name), int((margin - title - 12) / _LETTER)))}</text>"
        for i, name in enumerate(mark.rows)
        if i % every == 0
    ]
    ends = f'<text x="{width + 24}" y="10">{high:.3g}</text><text x="{width + 24}" y="{height}">{low:.3g}</text>'
    key = "".join(
        f'<rect x="{width + 8}" y="{height * (1 - (i + 1) / 20):.1f}" width="12" height="{height / 20 + 0.5:.1f}" '
        f'fill="{_shade(low + (high - low) * i / 19, low, high)}"/>'
        for i in range(20)
    )
    names, depth = _names([str(name) for name in mark.columns], side, height, margin) if mark.columns else ("", 0.0)
    return _framed(chart, [*cells, *left, key, ends, names], deeper=depth, left=margin)


def _shade(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "#ffffff"
    part = (value - low) / (high - low) * (len(RAMP) - 1) if high > low else 0.0
    first = min(int(part), len(RAMP) - 2)
    mixed = [round(a + (b - a) * (part - first)) for a, b in zip(RAMP[first], RAMP[first + 1], strict=True)]
    return f"#{mixed[0]:02x}{mixed[1]:02x}{mixed[2]:02x}"


# What all charts share


def _framed(chart: Chart, parts: list[str], *, deeper: float = 0.0, left: float = _LEFT) -> str:
    title = wrap(chart.title, _LINE) or [""]
    legend, rows = _legend(chart, _WIDTH - left - _RIGHT)
    top = _TOP + 17 * (len(title) - 1) + 15 * max(rows - 1, 0)
    height = round(_HEIGHT + deeper + top - _TOP)
    across, up = left + (_WIDTH - left - _RIGHT) / 2, top + (_HEIGHT - _TOP - _BOTTOM) / 2
    lines = "".join(
        f'<text x="{left:.0f}" y="{16 + 17 * i}" font-size="14" font-weight="600">{escape(line)}</text>'
        for i, line in enumerate(title)
    )
    words = (
        f'{lines}<text x="{across}" y="{height - 8}" text-anchor="middle">{escape(chart.x)}</text>'
        f'<text x="14" y="{up}" text-anchor="middle" transform="rotate(-90 14 {up})">{escape(chart.y)}</text>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(chart.title)}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="{_INK}">'
        f'{words}<g transform="translate({left:.0f},{top})">{"".join(parts)}{legend}</g></svg>'
    )


def _ground(across: Axis, up: Axis, chart: Chart) -> str:
    columns = "".join(
        f'<path d="M{x:.1f},0 V{up.length}" stroke="{_FAINT}"/>'
        f'<text x="{x:.1f}" y="{up.length + 16}" text-anchor="middle">{text}</text>'
        for x, text in _apart(across.ticks())
    )
    return columns + _rows(up, across.length, chart)


def _rows(up: Axis, width: float, chart: Chart) -> str:
    lines = "".join(
        f'<path d="M0,{up.length - y:.1f} H{width}" stroke="{_FAINT}"/>'
        f'<text x="-8" y="{up.length - y + 4:.1f}" text-anchor="end">{text}</text>'
        for y, text in up.ticks()
    )
    return lines + f'<path d="M0,{up.length} H{width}" stroke="{_INK}"/>'


def _apart(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Ticks whose labels do not touch."""
    near = any(b[0] - a[0] < 7 * max(len(a[1]), len(b[1])) for a, b in pairwise(ticks))
    return ticks[::2] if near else ticks


def _whisker(x: float, low: float, high: float, color: str) -> str:
    if math.isnan(low + high):
        return ""
    return (
        f'<path d="M{x:.1f},{low:.1f} V{high:.1f} M{x - 4:.1f},{low:.1f} h8 M{x - 4:.1f},{high:.1f} h8" '
        f'stroke="{color}" fill="none"/>'
    )


def _legend(chart: Chart, width: float) -> tuple[str, int]:
    """What the colors mean, in as many rows as it takes, the last one just above the picture; and how many."""
    rows: list[list[tuple[float, str, str]]] = []
    x = width
    for number, mark in enumerate(chart.marks):
        name = _short(getattr(mark, "label", ""), int(width / _LETTER) - 4)
        wide = 26 + _LETTER * len(name)
        if name and x + wide > width:
            rows.append([])
            x = 6.0
        if name:
            rows[-1].append((x, name, COLORS[number % len(COLORS)]))
            x += wide
    shown = [
        f'<rect x="{x:.0f}" y="{-13 - 15 * up}" width="10" height="10" fill="{color}"/>'
        f'<text x="{x + 14:.0f}" y="{-4 - 15 * up}">{escape(name)}</text>'
        for up, row in enumerate(reversed(rows))
        for x, name, color in row
    ]
    return "".join(shown), len(rows)


def _all(marks: list[Bars] | list[Line | Points], *names: str) -> list[float]:
    found: list[float] = []
    for mark in marks:
        for name in names:
            values = getattr(mark, name, None)
            if values is not None:
                found += values.tolist()
    return found


def _of(values: object) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.asarray(values, np.float64)
