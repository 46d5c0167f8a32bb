"""The frame around the marks of a chart: title, legend, axes and names; and what fits beside what.

>>> from discreet.report.frame import apart
>>> [text for _, text in apart([(0, "-50 000"), (20, "0"), (40, "50 000")])]
['0']
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.report.marks import Axis, Floats
from discreet.report.picture import SIZE, Fill, Picture, Shape, Stroke, Words, moved, rectangle

if TYPE_CHECKING:
    from discreet.report.chart import Chart

WIDTH, WIDE = 460.0, 720.0  # of a picture: two stand side by side on a page, one fills a phone; and where more is shown
HEIGHT = 200.0  # of the area with the marks
LEFT, RIGHT, BOTTOM = 62.0, 20.0, 24.0
LETTER, WIDER = 7.0, 8.0  # the width of a letter of text, about; and of a name that must not be cut
BOLD = 9.2  # the width of a letter of a title
LINE = 14.0  # the height of a line of a name that has two
FAINT, SOFT = 0.14, 0.7  # opacities of lines of the grid, and of words beside the data
WIDEST = 170.0  # the margin for names of rows
_MOST_NAMES = 40
_SLANT = math.radians(35)  # of names of columns that are too long to stand side by side
_LONGEST = 24  # letters of a slanted name


def framed(
    chart: "Chart",
    shapes: Sequence[Shape],
    left: float,
    width: float,
    height: float,
    depth: float = 0.0,
    *,
    right: float = RIGHT,
    lying: bool = False,
) -> Picture:
    """The marks with title, legend and names of the axes around them. Rows, which lie, have their values across."""
    across, up = (chart.y, "") if lying else (chart.x, chart.y)
    right = max(right, *(word.x + WIDER * len(word.text) / 2 - width for word in _level(shapes)))
    full = left + width + right
    title = wrap(chart.title, int(full / BOLD)) or [""]
    legend, rows = _legend(chart, full)
    top = 12 + 19 * len(title) + 19 * rows
    bottom = BOTTOM + depth + (22 if across else 0)
    words: list[Shape] = [Words(2, 17 + 19 * i, line, size=15, bold=True) for i, line in enumerate(title)]
    words += moved(legend, 2, 17 + 19 * len(title))
    middle = height / 2 + top
    if across:
        words.append(Words(left + width / 2, top + height + bottom - 6, across, "middle", opacity=SOFT))
    if up:
        size = min(SIZE, SIZE * (top + height) / (LETTER * len(up)))  # as small as it must be to be whole
        words.append(Words(13, middle, up, "middle", size=size, turn=-90, opacity=SOFT))
    return Picture(full, round(top + height + bottom), [*words, *moved(shapes, left, top)], chart.title)


def _level(shapes: Sequence[Shape]) -> list[Words]:
    """Words that stand around their place, such as the last number of an axis, which must not be cut; one at least."""
    results = [shape for shape in shapes if isinstance(shape, Words) and shape.anchor == "middle" and not shape.turn]
    return results or [Words(0.0, 0.0, "")]


def side_axis(up: Axis, width: float) -> list[Shape]:
    """Lines and numbers of the axis upwards."""
    ticks = up.ticks()
    lines = [((0.0, up.length - y), (width, up.length - y)) for y, _ in ticks]
    shapes: list[Shape] = [Stroke(lines, opacity=FAINT)] if lines else []
    shapes += [Words(-8, up.length - y + 4.5, text, "end", opacity=SOFT) for y, text in ticks]
    return [*shapes, Stroke([((0, up.length), (width, up.length))], opacity=SOFT)]


def apart(ticks: list[tuple[float, str]]) -> list[tuple[float, str]]:
    """Ticks whose labels do not touch: of every other one those with 0, which is never left out."""
    near = any(b[0] - a[0] < (LETTER + 1) * max(len(a[1]), len(b[1])) for a, b in pairwise(ticks))
    first = next((place % 2 for place, (_, text) in enumerate(ticks) if text == "0"), 0)
    return ticks[first::2] if near else ticks


def _legend(chart: "Chart", width: float) -> tuple[list[Shape], int]:
    """What the colors mean, in as many rows as it takes; and how many."""
    shapes: list[Shape] = []
    x, row = 0.0, -1
    for number, mark in enumerate(chart.marks):
        name = shortened(getattr(mark, "label", ""), int(width / WIDER) - 5)
        wide = 30 + WIDER * len(name)
        if name and (row < 0 or x + wide > width):
            x, row = 0.0, row + 1
        if name:
            y = 19.0 * row
            shapes += [Fill([rectangle(x, y - 9, 11, 11)], number), Words(x + 16, y, name, size=SIZE - 0.5)]
            x += wide
    return shapes, row + 1


def all_of(marks: Sequence[Any], *names: str) -> list[float]:
    """The numbers of the named fields of marks, where they have them."""
    values = [getattr(mark, name, None) for mark in marks for name in names]
    return [number for array in values if array is not None for number in array.tolist()]


def floats(values: object) -> Floats:
    """A field of a mark as an array."""
    return np.asarray(values, np.float64)


def names_below(names: Sequence[str], slot: float, height: float, left: float) -> tuple[list[Shape], float]:
    """The names below their places, slanted where they are too long to stand side by side; and how deep they reach.

    A slanted name is cut where it would leave the picture on the left.
    """
    every = max(1, math.ceil(len(names) / _MOST_NAMES))
    if max(map(len, names), default=0) * LETTER <= slot * every:
        at = range(0, len(names), every)
        return [Words(slot * (i + 0.5), height + 17, names[i], "middle", opacity=SOFT) for i in at], 0.0
    shown: list[Shape] = []
    longest = 0
    for i in range(0, len(names), every):
        x = slot * (i + 0.5)
        text = shortened(names[i], min(_LONGEST, int((left + x) / (LETTER * math.cos(_SLANT)))))
        longest = max(longest, len(text))
        shown.append(Words(x, height + 13, text, "end", turn=-35, opacity=SOFT))
    return shown, max(0.0, longest * LETTER * math.sin(_SLANT) - 10)


def two_lines(name: str, most: int) -> list[str]:
    """A name in one line, or in two, of which the second may be cut."""
    lines = wrap(name, most) if len(name) > most else [name]
    return [*lines[:1], *([shortened(" ".join(lines[1:]), most)] if len(lines) > 1 else [])]


def shortened(text: str, most: int) -> str:
    """A text of at most so many letters.

    >>> shortened("neighborhood", 8)
    'neighbo…'
    """
    return text if len(text) <= most else text[: max(most - 1, 1)] + "…"
