"""A chart as data (its marks, its axes, its words), and its layout: where everything stands.

Few or long-named bars lie in rows, many short-named ones stand.

>>> from discreet.report import Bars, Chart
>>> Chart("Shares", [Bars(["attack", "guessing"], [0.9, 0.5])], y="share").svg().count("<title>")
2
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np

from discreet.errors import InvalidData
from discreet.report.marks import Axis, Bars, Floats, Heat, Intervals, Line, Mark, Points, label
from discreet.report.picture import SIZE, Dots, Fill, Picture, Point, Shape, Stroke, Words, moved, rectangle

WIDTH, WIDE = 460.0, 720.0  # of a picture: two stand side by side on a page, one fills a phone; and where more is shown
_HEIGHT = 200.0  # of the area with the marks
_LEFT, _RIGHT, _BOTTOM = 62.0, 20.0, 24.0
_LETTER, _WIDER = 7.0, 8.0  # the width of a letter of text, about; and of a name that must not be cut
_BOLD = 9.2  # the width of a letter of a title
_LINE = 14.0  # the height of a line of a name that has two
_FAINT, _SOFT = 0.14, 0.7  # opacities of lines of the grid, and of words beside the data
_ROW, _THICK = 24.0, 15.0  # the height of a row, and of the bar in it
_MOST_NAMES, _MOST_ROWS, _FEW = 40, 40, 4
_WIDEST = 170.0  # the margin for names of rows
_SLANT = math.radians(35)  # of names of columns that are too long to stand side by side
_LONGEST = 24  # letters of a slanted name
_LEVELS = 64  # of color


def layout(chart: "Chart") -> Picture:
    """The chart as a picture."""
    first = chart.marks[0]
    if isinstance(first, Heat):
        return _heat(chart, first)
    named: list[Any] = [mark for mark in chart.marks if isinstance(mark, Bars | Intervals)]
    if not named:
        return _curves(chart, [mark for mark in chart.marks if isinstance(mark, Line | Points)])
    return _columns(chart, named) if _stand(named) else _rows(chart, named)


# Lines and points


def _curves(chart: "Chart", marks: list[Line | Points]) -> Picture:
    width = WIDTH - _LEFT - _RIGHT
    height = width if chart.square else _HEIGHT
    across = Axis.over(_all(marks, "x"), length=width, log=chart.log_x, given=chart.x_range)
    up = Axis.over(_all(marks, "y", "low", "high"), length=height, log=chart.log_y, given=chart.y_range)
    ticks = _apart(across.ticks())
    shapes: list[Shape] = [Stroke([((x, 0), (x, height)) for x, _ in ticks], opacity=_FAINT)] if ticks else []
    shapes += [Words(x, height + 17, text, "middle", opacity=_SOFT) for x, text in ticks]
    shapes += _side(up, width)
    for number, mark in enumerate(marks):
        shapes += _line(mark, across, up, number) if isinstance(mark, Line) else _points(mark, across, up, number)
    return _framed(chart, shapes, _LEFT, width, height)


def _line(mark: Line, across: Axis, up: Axis, color: int) -> Iterator[Shape]:
    if mark.low is not None:
        rows = [row for row in zip(_of(mark.x), _of(mark.low), _of(mark.high), strict=True) if not math.isnan(sum(row))]
        upper = [(across.pixel(x), up.length - up.pixel(high)) for x, _, high in rows]
        lower = [(across.pixel(x), up.length - up.pixel(low)) for x, low, _ in reversed(rows)]
        if rows:
            yield Fill([upper + lower], color, 0.16)
    if runs := _runs(mark, across, up):
        yield Stroke(runs, color, 2, dashed=mark.dashed)


def _runs(mark: Line, across: Axis, up: Axis) -> list[list[Point]]:
    """Runs of points without a gap between them."""
    runs: list[list[Point]] = [[]]
    for x, y in zip(_of(mark.x), _of(mark.y), strict=True):
        if math.isnan(x) or math.isnan(y):
            runs.append([])
            continue
        point = (across.pixel(x), up.length - up.pixel(y))
        if mark.steps and runs[-1]:
            runs[-1].append((point[0], runs[-1][-1][1]))
        runs[-1].append(point)
    return [run for run in runs if run]


def _points(mark: Points, across: Axis, up: Axis, color: int) -> Iterator[Shape]:
    low, high = (_of(mark.y) if side is None else _of(side) for side in (mark.low, mark.high))
    centers: list[Point] = []
    for x, y, a, b in zip(_of(mark.x), _of(mark.y), low, high, strict=True):
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
    fits = max(map(len, names), default=0) * _LETTER <= (WIDTH - _LEFT - _RIGHT) / max(len(names), 1)
    return len(names) > _MOST_ROWS or (fits and len(names) > _FEW)


def _columns(chart: "Chart", bars: list[Bars]) -> Picture:
    names = bars[0].labels
    width = (WIDE if len(names) * len(bars) > 24 else WIDTH) - _LEFT - _RIGHT
    up = Axis.over([0.0, *_all(bars, "values", "low", "high")], length=_HEIGHT, log=chart.log_y, given=chart.y_range)
    slot = width / max(len(names), 1)
    thick = slot * 0.8 / len(bars)
    shapes = _side(up, width)
    zero = up.length - up.pixel(up.low if up.log else 0.0)
    for number, mark in enumerate(bars):
        for index, value in enumerate(_of(mark.values)):
            if math.isnan(value):
                continue
            left, top = slot * (index + 0.1) + thick * number, up.length - up.pixel(value)
            box = rectangle(left, min(zero, top), max(thick - 1, 0.5), max(abs(zero - top), 0.5))
            shapes.append(Fill([box], number, title=f"{names[index]}: {label(value)}"))
            if mark.low is not None:
                a, b = (up.length - up.pixel(_of(end)[index]) for end in (mark.low, mark.high))
                shapes += [] if math.isnan(a + b) else [_whisker(left + thick / 2, a, b, "ink")]
    below, depth = _names(names, slot, _HEIGHT, _LEFT)
    return _framed(chart, [*shapes, *below], _LEFT, width, _HEIGHT, depth)


def _rows(chart: "Chart", marks: list[Any]) -> Picture:
    """Named values one below the other: bars from zero, or dots on their intervals."""
    names, bars = marks[0].labels, isinstance(marks[0], Bars)
    left = min(_WIDEST, 16 + _WIDER * max(map(len, names), default=0))
    end = 46.0 if bars and len(marks) == 1 else _RIGHT  # room for the numbers at the ends of bars
    width = WIDTH - left - end
    shown = [0.0, *_all(marks, "values", "low", "high", "limits")] if bars else _all(marks, "values", "low", "high")
    across = Axis.over(shown, length=width, log=chart.log_y, given=chart.y_range)
    lines = [_two_lines(name, int((left - 10) / (_WIDER - 0.2))) for name in names]
    tall = max(_ROW, _THICK * len(marks) + 7 if bars else 0, _LINE * max(map(len, lines), default=0) + 4)
    height = tall * max(len(names), 1)
    ticks = _apart(across.ticks())
    shapes: list[Shape] = [Stroke([((x, 0), (x, height)) for x, _ in ticks], opacity=_FAINT)] if ticks else []
    shapes += [Words(x, height + 17, text, "middle", opacity=_SOFT) for x, text in ticks]
    for i, parts in enumerate(lines):
        first = tall * (i + 0.5) + 4.5 - _LINE * (len(parts) - 1) / 2
        shapes += [Words(-8, first + _LINE * j, part, "end") for j, part in enumerate(parts)]
    for number, mark in enumerate(marks):
        for index in range(len(names)):
            middle = tall * (index + 0.5)
            top = middle + _THICK * (number - len(marks) / 2)
            shapes += _bar(mark, index, across, top, number, alone=len(marks) == 1) if bars else []
            shapes += [] if bars else _interval(mark, index, across, middle, number)
    return _framed(chart, shapes, left, width, height, right=end)


def _bar(mark: Bars, index: int, across: Axis, top: float, color: int, *, alone: bool) -> Iterator[Shape]:
    value, middle = float(_of(mark.values)[index]), top + _THICK / 2
    zero = across.pixel(across.low if across.log else 0.0)
    farthest = zero
    if not math.isnan(value):
        at = across.pixel(value)
        box = rectangle(min(zero, at), top + 1, max(abs(at - zero), 0.5), _THICK - 2)
        yield Fill([box], color, title=f"{mark.labels[index]}: {label(value)}")
        farthest = max(at, zero)
    if mark.low is not None:
        a, b = (float(_of(end)[index]) for end in (mark.low, mark.high))
        if not math.isnan(a + b):
            yield _lying(across.pixel(a), across.pixel(b), middle)
            farthest = max(farthest, across.pixel(b))
    if mark.limits is not None and not math.isnan(limit := float(_of(mark.limits)[index])):
        at = across.pixel(limit)
        yield Stroke([((at, top - 3), (at, top + _THICK + 3))], "alert", 2.5)
    if alone and not math.isnan(value):
        yield Words(
            farthest + 5, middle + 4.5, label(float(f"{value:.3g}") if abs(value) < 1000 else value), opacity=_SOFT
        )


def _lying(low: float, high: float, y: float) -> Stroke:
    return Stroke([((low, y), (high, y)), ((low, y - 4), (low, y + 4)), ((high, y - 4), (high, y + 4))], "ink", 1.3)


def _interval(mark: Intervals, index: int, across: Axis, y: float, color: int) -> Iterator[Shape]:
    value = float(_of(mark.values)[index])
    low, high = (math.nan if end is None else float(_of(end)[index]) for end in (mark.low, mark.high))
    if not math.isnan(low + high) or (math.isinf(low) and math.isinf(high)):
        a, b = across.pixel(low), across.pixel(high)
        yield Stroke([((a, y), (b, y))], color, 2, 0.6)
        for end, x, side in ((low, a, 1), (high, b, -1)):
            if math.isinf(end):  # it goes on
                yield Fill([((x, y), (x + 7 * side, y - 4), (x + 7 * side, y + 4))], color, 0.6)
    if math.isfinite(value):
        yield Dots([(across.pixel(value), y)], color, 3.5)


def _names(names: Sequence[str], slot: float, height: float, left: float) -> tuple[list[Shape], float]:
    """The names below their places, slanted where they are too long to stand side by side; and how deep they reach.

    A slanted name is cut where it would leave the picture on the left.
    """
    every = max(1, math.ceil(len(names) / _MOST_NAMES))
    if max(map(len, names), default=0) * _LETTER <= slot * every:
        at = range(0, len(names), every)
        return [Words(slot * (i + 0.5), height + 17, names[i], "middle", opacity=_SOFT) for i in at], 0.0
    shown: list[Shape] = []
    longest = 0
    for i in range(0, len(names), every):
        x = slot * (i + 0.5)
        text = _short(names[i], min(_LONGEST, int((left + x) / (_LETTER * math.cos(_SLANT)))))
        longest = max(longest, len(text))
        shown.append(Words(x, height + 13, text, "end", turn=-35, opacity=_SOFT))
    return shown, max(0.0, longest * _LETTER * math.sin(_SLANT) - 10)


def _two_lines(name: str, most: int) -> list[str]:
    """A name in one line, or in two, of which the second may be cut."""
    lines = wrap(name, most) if len(name) > most else [name]
    return [*lines[:1], *([_short(" ".join(lines[1:]), most)] if len(lines) > 1 else [])]


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"


# Heat


def _heat(chart: "Chart", mark: Heat) -> Picture:
    matrix = np.asarray(mark.values, np.float64)
    finite = matrix[np.isfinite(matrix)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if mark.aspect is not None:
        low, high = 0.0, mark.top or high or 1.0
    title = 20 if chart.y else 0
    margin = min(_WIDEST, 14 + title + _LETTER * max((len(str(name)) for name in mark.rows), default=0))
    full = WIDE if matrix.shape[1] > 14 and mark.columns else WIDTH
    width = full - margin - _RIGHT - 62
    height = _HEIGHT if mark.aspect is None else min(max(width / mark.aspect, 60), 520)
    if matrix.shape[0] > 9 and mark.aspect is None:
        height = min(24.0 * matrix.shape[0], width)
    if mark.aspect is not None:
        width = height * mark.aspect if height * mark.aspect < width else width
    side, tall = width / matrix.shape[1], height / matrix.shape[0]
    shapes = _cells(matrix, low, high, side, tall, root=mark.aspect is not None)
    shapes.append(Stroke([[*rectangle(0, 0, width, height), (0, 0)]], opacity=0.3))
    every, most = max(1, math.ceil(len(mark.rows) / 24)), int((margin - title - 12) / _LETTER)
    shapes += [
        Words(-6, (i + 0.5) * tall + 4.5, _short(str(name), most), "end")
        for i, name in enumerate(mark.rows)
        if i % every == 0
    ]
    if mark.scale is not None:
        length, words = mark.scale
        shapes += [Stroke([((10, height - 10), (10 + length * width, height - 10))], "alert", 3)]
        shapes += [Words(10, height - 16, words, color="alert")]
    shapes += _key(width, height, low, high, root=mark.aspect is not None)
    names, depth = _names([str(n) for n in mark.columns], side, height, margin) if mark.columns else ([], 0.0)
    deep = depth if mark.columns or chart.x else -_BOTTOM + 6
    return _framed(chart, [*shapes, *names], margin, width, height, deep, right=_RIGHT + 62)


def _cells(matrix: Floats, low: float, high: float, side: float, tall: float, *, root: bool) -> list[Shape]:
    """Runs of cells of one color in a row, one shape for each color; cells without a number are left out."""
    share = np.clip((matrix - low) / (high - low) if high > low else np.zeros_like(matrix), 0, 1)
    share = np.where(np.isfinite(matrix), np.sqrt(share) if root else share, -1.0)
    levels = np.ceil(share * _LEVELS - 1e-9).astype(np.int64)
    runs: dict[int, list[Sequence[Point]]] = {}
    for y, row in enumerate(levels.tolist()):
        ends = [x for x in range(1, len(row) + 1) if x == len(row) or row[x] != row[x - 1]]
        for start, end in zip([0, *ends], ends, strict=False):
            if row[start] >= (1 if root else 0):
                runs.setdefault(row[start], []).append(rectangle(start * side, y * tall, (end - start) * side, tall))
    return [Fill(boxes, 0, _shade(level / _LEVELS), crisp=True) for level, boxes in sorted(runs.items())]


def _shade(share: float) -> float:
    return 0.03 + 0.97 * share


def _key(width: float, height: float, low: float, high: float, *, root: bool) -> list[Shape]:
    """What the colors mean."""
    boxes: list[Shape] = [
        Fill([rectangle(width + 10, height * (1 - (i + 1) / 20), 12, height / 20)], 0, _shade(i / 19), crisp=True)
        for i in range(20)
    ]
    middle = low + (high - low) / (4 if root else 2)
    ends = ((10, high), (height / 2 + 4, middle), (height, low))
    return boxes + [Words(width + 27, y, label(float(f"{value:.3g}")), opacity=_SOFT) for y, value in ends]


# What all charts share


def _framed(
    chart: "Chart",
    shapes: Sequence[Shape],
    left: float,
    width: float,
    height: float,
    depth: float = 0.0,
    *,
    right: float = _RIGHT,
) -> Picture:
    """The marks with title, legend and names of the axes around them. Rows have their values across."""
    lying = isinstance(chart.marks[0], Bars | Intervals) and not _stand([*chart.marks])
    across, up = (chart.y, "") if lying else (chart.x, chart.y)
    full = left + width + right
    title = wrap(chart.title, int(full / _BOLD)) or [""]
    legend, rows = _legend(chart, full)
    top = 12 + 19 * len(title) + 19 * rows
    bottom = _BOTTOM + depth + (22 if across else 0)
    words: list[Shape] = [Words(2, 17 + 19 * i, line, size=15, bold=True) for i, line in enumerate(title)]
    words += moved(legend, 2, 17 + 19 * len(title))
    middle = height / 2 + top
    if across:
        words.append(Words(left + width / 2, top + height + bottom - 6, across, "middle", opacity=_SOFT))
    if up:
        words.append(Words(13, middle, up, "middle", turn=-90, opacity=_SOFT))
    return Picture(full, round(top + height + bottom), [*words, *moved(shapes, left, top)], chart.title)


def _side(up: Axis, width: float) -> list[Shape]:
    """Lines and numbers of the axis upwards."""
    ticks = up.ticks()
    lines = [((0.0, up.length - y), (width, up.length - y)) for y, _ in ticks]
    shapes: list[Shape] = [Stroke(lines, opacity=_FAINT)] if lines else []
    shapes += [Words(-8, up.length - y + 4.5, text, "end", opacity=_SOFT) for y, text in ticks]
    return [*shapes, Stroke([((0, up.length), (width, up.length))], opacity=_SOFT)]


def _apart(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Ticks whose labels do not touch."""
    near = any(b[0] - a[0] < (_LETTER + 1) * max(len(a[1]), len(b[1])) for a, b in pairwise(ticks))
    return ticks[::2] if near else ticks


def _legend(chart: "Chart", width: float) -> tuple[list[Shape], int]:
    """What the colors mean, in as many rows as it takes; and how many."""
    shapes: list[Shape] = []
    x, row = 0.0, -1
    for number, mark in enumerate(chart.marks):
        name = _short(getattr(mark, "label", ""), int(width / _LETTER) - 5)
        wide = 30 + _LETTER * len(name)
        if name and (row < 0 or x + wide > width):
            x, row = 0.0, row + 1
        if name:
            y = 19.0 * row
            shapes += [Fill([rectangle(x, y - 9, 11, 11)], number), Words(x + 16, y, name, size=SIZE - 0.5)]
            x += wide
    return shapes, row + 1


def _all(marks: Sequence[Any], *names: str) -> list[float]:
    values = [getattr(mark, name, None) for mark in marks for name in names]
    return [number for array in values if array is not None for number in array.tolist()]


def _of(values: object) -> Floats:
    return np.asarray(values, np.float64)


Range = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A title, marks and axes. `Heat`, `Bars` and `Intervals` share a chart with no other kind.

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
    square: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(self.marks))
        if not self.marks:
            raise InvalidData(f"chart {self.title!r}: it has no marks")
        kinds = {type(mark) for mark in self.marks}
        if len(kinds) > 1 and kinds & {Bars, Intervals, Heat}:
            raise InvalidData(f"chart {self.title!r}: bars, intervals or heat stand in a chart of their own")
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
