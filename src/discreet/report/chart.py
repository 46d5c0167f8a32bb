"""A chart as data (its marks, its axes, its words), and its layout: where everything stands.

Few or long-named bars lie in rows, many short-named ones stand.

>>> from discreet.report import Bars, Chart
>>> Chart("Shares", [Bars(["attack", "guessing"], [0.9, 0.5])], y="share").svg().count("<title>")
2
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discreet.errors import InvalidData
from discreet.report.frame import (
    FAINT,
    HEIGHT,
    LEFT,
    LETTER,
    LINE,
    RIGHT,
    SOFT,
    WIDE,
    WIDER,
    WIDEST,
    WIDTH,
    all_of,
    apart,
    floats,
    framed,
    names_below,
    side_axis,
    two_lines,
)
from discreet.report.maps import heat, places
from discreet.report.marks import Axis, Bars, Heat, Intervals, Line, Mark, Places, Points, label
from discreet.report.picture import Dots, Fill, Picture, Point, Shape, Stroke, Words, rectangle

_ROW, _THICK = 24.0, 15.0  # the height of a row, and of the bar in it
_MOST_ROWS, _FEW = 60, 4


def layout(chart: "Chart") -> Picture:
    """The chart as a picture."""
    first = chart.marks[0]
    if isinstance(first, Heat):
        return heat(chart, first)
    if isinstance(first, Places):
        return places(chart, first)
    named: list[Any] = [mark for mark in chart.marks if isinstance(mark, Bars | Intervals)]
    if not named:
        return _curves(chart, [mark for mark in chart.marks if isinstance(mark, Line | Points)])
    return _columns(chart, named) if _stand(named) else _rows(chart, named)


# Lines and points


def _curves(chart: "Chart", marks: list[Line | Points]) -> Picture:
    height = WIDTH - LEFT - RIGHT if chart.square else HEIGHT
    up = Axis.over(all_of(marks, "y", "low", "high"), length=height, log=chart.log_y, given=chart.y_range)
    margin = _margin(chart, up)
    width = WIDTH - margin - RIGHT
    ends = (chart.x_ticks[0][0], chart.x_ticks[-1][0]) if chart.x_ticks else None
    shown = all_of(marks, "x")
    across = Axis.over(shown, length=width, log=chart.log_x, given=chart.x_range or _around(shown, ends))
    ticks = apart([(across.pixel(x), text) for x, text in chart.x_ticks] or across.ticks())
    shapes: list[Shape] = [Stroke([((x, 0), (x, height)) for x, _ in ticks], opacity=FAINT)] if ticks else []
    shapes += [Words(x, height + 17, text, "middle", opacity=SOFT) for x, text in ticks]
    shapes += side_axis(up, width)
    for number, mark in enumerate(marks):
        shapes += _line(mark, across, up, number) if isinstance(mark, Line) else _points(mark, across, up, number)
    return framed(chart, shapes, margin, width, height)


def _margin(chart: "Chart", up: Axis) -> float:
    """Room on the left for the numbers of the axis upwards, and for its name."""
    long = max((len(text) for _, text in up.ticks()), default=0)
    return max(LEFT, WIDER * long + (30 if chart.y else 12))


def _around(values: Sequence[float], ends: tuple[float, float] | None) -> tuple[float, float] | None:
    """From the least to the greatest of the values and the ends, where ends are given and differ."""
    if ends is None:
        return None
    finite = [value for value in (*values, *ends) if math.isfinite(value)]
    return (min(finite), max(finite)) if min(finite) < max(finite) else None


def _line(mark: Line, across: Axis, up: Axis, color: int) -> Iterator[Shape]:
    if mark.low is not None:
        rows = [
            row
            for row in zip(floats(mark.x), floats(mark.low), floats(mark.high), strict=True)
            if not math.isnan(sum(row))
        ]
        upper = [(across.pixel(x), up.length - up.pixel(high)) for x, _, high in rows]
        lower = [(across.pixel(x), up.length - up.pixel(low)) for x, low, _ in reversed(rows)]
        if rows:
            yield Fill([upper + lower], color, 0.16)
    if runs := _runs(mark, across, up):
        yield Stroke(runs, color, 2, dashed=mark.dashed)


def _runs(mark: Line, across: Axis, up: Axis) -> list[list[Point]]:
    """Runs of points without a gap between them."""
    runs: list[list[Point]] = [[]]
    for x, y in zip(floats(mark.x), floats(mark.y), strict=True):
        if math.isnan(x) or math.isnan(y):
            runs.append([])
            continue
        point = (across.pixel(x), up.length - up.pixel(y))
        if mark.steps and runs[-1]:
            runs[-1].append((point[0], runs[-1][-1][1]))
        runs[-1].append(point)
    return [run for run in runs if run]


def _points(mark: Points, across: Axis, up: Axis, color: int) -> Iterator[Shape]:
    low, high = (floats(mark.y) if side is None else floats(side) for side in (mark.low, mark.high))
    centers: list[Point] = []
    for x, y, a, b in zip(floats(mark.x), floats(mark.y), low, high, strict=True):
        if math.isnan(x) or math.isnan(y):
            continue
        left = across.pixel(x)
        if a != b and not math.isnan(a + b):
            yield _whisker(left, up.length - up.pixel(a), up.length - up.pixel(b), color)
        centers.append((left, up.length - up.pixel(y)))
    small = len(centers) > 500
    yield Dots(centers, color, 1.2 if small else 3, 0.5 if small else 0.8)


def _whisker(x: float, low: float, high: float, color: int | str) -> Stroke:
    return Stroke([((x, low), (x, high)), ((x - 4, low), (x + 4, low)), ((x - 4, high), (x + 4, high))], color, 1.3)


# Named values


def _stand(marks: list[Any]) -> bool:
    """Whether bars stand: where there are many of them, or enough whose names fit below."""
    names = marks[0].labels
    if isinstance(marks[0], Intervals) or any(getattr(mark, "limits", None) is not None for mark in marks):
        return False
    fits = max(map(len, names), default=0) * LETTER <= (WIDTH - LEFT - RIGHT) / max(len(names), 1)
    return len(names) > _MOST_ROWS or (fits and len(names) > _FEW)


def _columns(chart: "Chart", bars: list[Bars]) -> Picture:
    names = bars[0].labels
    up = Axis.over(_from_zero(bars), length=HEIGHT, log=chart.log_y, given=chart.y_range)
    margin = _margin(chart, up)
    width = (WIDE if len(names) * len(bars) > 24 else WIDTH) - margin - RIGHT
    slot = width / max(len(names), 1)
    thick = slot * 0.8 / len(bars)
    shapes = side_axis(up, width)
    zero = up.length - up.pixel(up.low if up.log else 0.0)
    for number, mark in enumerate(bars):
        for index, value in enumerate(floats(mark.values)):
            if math.isnan(value):
                continue
            left, top = slot * (index + 0.1) + thick * number, up.length - up.pixel(value)
            box = rectangle(left, min(zero, top), max(thick - 1, 0.5), max(abs(zero - top), 0.5))
            shapes.append(Fill([box], number, title=f"{names[index]}: {label(value)}"))
            if mark.low is not None:
                a, b = (up.length - up.pixel(floats(end)[index]) for end in (mark.low, mark.high))
                shapes += [] if math.isnan(a + b) else [_whisker(left + thick / 2, a, b, "ink")]
    below, depth = names_below(names, slot, HEIGHT, margin)
    return framed(chart, [*shapes, *below], margin, width, HEIGHT, depth)


def _rows(chart: "Chart", marks: list[Any]) -> Picture:
    """Named values one below the other: bars from zero, or dots on their intervals."""
    names, bars = marks[0].labels, isinstance(marks[0], Bars)
    left = min(WIDEST, 16 + WIDER * max(map(len, names), default=0))
    end = 10 + LETTER * max(map(len, map(_end_label, floats(marks[0].values).tolist())), default=0)
    end = max(46.0, end) if bars and len(marks) == 1 else RIGHT  # room for the numbers at the ends of bars
    width = WIDTH - left - end
    shown = _from_zero(marks) if bars else all_of(marks, "values", "low", "high")
    across = Axis.over(shown, length=width, log=chart.log_y, given=chart.y_range)
    lines = [two_lines(name, int((left - 10) / (WIDER - 0.2))) for name in names]
    tall = max(_ROW, _THICK * len(marks) + 7 if bars else 0, LINE * max(map(len, lines), default=0) + 4)
    height = tall * max(len(names), 1)
    ticks = apart(across.ticks())
    shapes: list[Shape] = [Stroke([((x, 0), (x, height)) for x, _ in ticks], opacity=FAINT)] if ticks else []
    shapes += [Words(x, height + 17, text, "middle", opacity=SOFT) for x, text in ticks]
    for i, parts in enumerate(lines):
        first = tall * (i + 0.5) + 4.5 - LINE * (len(parts) - 1) / 2
        shapes += [Words(-8, first + LINE * j, part, "end") for j, part in enumerate(parts)]
    for number, mark in enumerate(marks):
        for index in range(len(names)):
            middle = tall * (index + 0.5)
            top = middle + _THICK * (number - len(marks) / 2)
            shapes += _bar(mark, index, across, top, number, alone=len(marks) == 1) if bars else []
            shapes += [] if bars else _interval(mark, index, across, middle, number)
    return framed(chart, shapes, left, width, height, right=end, lying=True)


def _from_zero(bars: Sequence[Any]) -> list[float]:
    """What an axis of bars spans: zero, and all they show; where that is nothing but zero, up to one."""
    shown = all_of(bars, "values", "low", "high", "limits")
    return [0.0, *(shown if any(value != 0 for value in shown) else [1.0])]


def _bar(mark: Bars, index: int, across: Axis, top: float, color: int, *, alone: bool) -> Iterator[Shape]:
    value, middle = float(floats(mark.values)[index]), top + _THICK / 2
    zero = across.pixel(across.low if across.log else 0.0)
    farthest = zero
    if not math.isnan(value):
        at = across.pixel(value)
        box = rectangle(min(zero, at), top + 1, max(abs(at - zero), 0.5), _THICK - 2)
        yield Fill([box], color, title=f"{mark.labels[index]}: {label(value)}")
        farthest = max(at, zero)
    if mark.low is not None:
        a, b = (float(floats(end)[index]) for end in (mark.low, mark.high))
        if not math.isnan(a + b):
            yield _lying(across.pixel(a), across.pixel(b), middle)
            farthest = max(farthest, across.pixel(b))
    words = _end_label(value) if alone else ""
    if mark.limits is not None and not math.isnan(limit := float(floats(mark.limits)[index])):
        at = across.pixel(limit)
        yield Stroke([((at, top - 3), (at, top + _THICK + 3))], "alert", 2.5)
        if farthest - 5 < at < farthest + 8 + LETTER * len(words):
            farthest = at + 3  # the number stands beyond the tick
    if words:
        yield Words(farthest + 5, middle + 4.5, words, opacity=SOFT)


def _end_label(value: float) -> str:
    return "" if math.isnan(value) else label(float(f"{value:.3g}") if abs(value) < 1000 else value)


def _lying(low: float, high: float, y: float) -> Stroke:
    return Stroke([((low, y), (high, y)), ((low, y - 4), (low, y + 4)), ((high, y - 4), (high, y + 4))], "ink", 1.3)


def _interval(mark: Intervals, index: int, across: Axis, y: float, color: int) -> Iterator[Shape]:
    value = float(floats(mark.values)[index])
    low, high = (math.nan if end is None else float(floats(end)[index]) for end in (mark.low, mark.high))
    if not math.isnan(low + high) or (math.isinf(low) and math.isinf(high)):
        a, b = across.pixel(low), across.pixel(high)
        yield Stroke([((a, y), (b, y))], color, 2, 0.6)
        for end, x, side in ((low, a, 1), (high, b, -1)):
            if math.isinf(end):  # it goes on
                yield Fill([((x, y), (x + 7 * side, y - 4), (x + 7 * side, y + 4))], color, 0.6)
    if math.isfinite(value):
        yield Dots([(across.pixel(value), y)], color, 3.5)


Range = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A title, marks and axes. `Heat`, `Places`, `Bars` and `Intervals` share a chart with no other kind.

    `x_ticks` names places on the axis across, such as dates.

    >>> Chart("Empty", [])
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidData: chart 'Empty': it has no marks
    """

    title: str
    marks: Sequence[Mark]
    x: str = ""
    y: str = ""
    log_x: bool = False
    log_y: bool = False
    x_range: Range | None = None
    y_range: Range | None = None
    x_ticks: Sequence[tuple[float, str]] = ()
    square: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(self.marks))
        if not self.marks:
            raise InvalidData(f"chart {self.title!r}: it has no marks")
        kinds = {type(mark) for mark in self.marks}
        if len(kinds) > 1 and kinds & {Bars, Intervals, Heat, Places}:
            raise InvalidData(f"chart {self.title!r}: bars, intervals, places or heat stand in a chart of their own")
        named = [mark.labels for mark in self.marks if isinstance(mark, Bars | Intervals)]
        if any(labels != named[0] for labels in named):
            raise InvalidData(f"chart {self.title!r}: its bars have different labels")

    def __repr__(self) -> str:
        return f"<Chart: {self.title}>"

    def picture(self) -> Picture:
        """The chart as shapes."""
        return layout(self)

    def svg(self) -> str:
        """The chart as an SVG element that needs nothing else."""
        return self.picture().svg()

    def save(self, path: str | Path) -> Path:
        """Save as SVG (needs nothing) or as PNG or PDF (the extra `plot`), as the name's ending says; the path."""
        return self.picture().save(path)

    def _repr_svg_(self) -> str:
        return self.svg()
