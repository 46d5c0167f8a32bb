"""Matrices as colors, and numbers at places as discs.

>>> from discreet.report import Chart, Places
>>> Chart("Two towns", [Places(["north", "south"], [1, 2], [54.0, 51.0], [-2.0, 0.0])]).svg().count("<title>")
2
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from discreet.report.frame import (
    BOTTOM,
    FAINT,
    HEIGHT,
    LETTER,
    RIGHT,
    SOFT,
    WIDE,
    WIDEST,
    WIDTH,
    floats,
    framed,
    names_below,
    shortened,
)
from discreet.report.marks import Floats, Heat, Places, label
from discreet.report.picture import Fill, Picture, Point, Shape, Stroke, Words, rectangle

if TYPE_CHECKING:
    from discreet.report.chart import Chart

_LEVELS = 64  # of color
_LARGEST, _EDGE, _SIDES = 30.0, 46.0, 36  # the radius of a disc, the room around discs, the corners of one


# Colors


def heat(chart: "Chart", mark: Heat) -> Picture:
    """A matrix as colors with their key; of a map, in its proportions."""
    matrix = np.asarray(mark.values, np.float64)
    finite = matrix[np.isfinite(matrix)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if mark.aspect is not None:
        low, high = 0.0, mark.top or high or 1.0
    title = 20 if chart.y else 0
    margin = min(WIDEST, 14 + title + LETTER * max((len(str(name)) for name in mark.rows), default=0))
    full = WIDE if matrix.shape[1] > 14 and mark.columns else WIDTH
    width = full - margin - RIGHT - 62
    height = HEIGHT if mark.aspect is None else min(max(width / mark.aspect, 60), 520)
    if matrix.shape[0] > 9 and mark.aspect is None:
        height = min(24.0 * matrix.shape[0], width)
    if mark.aspect is not None:
        width = height * mark.aspect if height * mark.aspect < width else width
    side, tall = width / matrix.shape[1], height / matrix.shape[0]
    shapes = _cells(matrix, low, high, side, tall, root=mark.aspect is not None)
    shapes.append(Stroke([[*rectangle(0, 0, width, height), (0, 0)]], opacity=0.3))
    every, most = max(1, math.ceil(len(mark.rows) / 24)), int((margin - title - 12) / LETTER)
    shapes += [
        Words(-6, (i + 0.5) * tall + 4.5, shortened(str(name), most), "end")
        for i, name in enumerate(mark.rows)
        if i % every == 0
    ]
    if mark.scale is not None:
        length, words = mark.scale
        shapes += [Stroke([((10, height - 10), (10 + length * width, height - 10))], "alert", 3)]
        shapes += [Words(10, height - 16, words, color="alert")]
    shapes += _key(width, height, low, high, root=mark.aspect is not None)
    names, depth = names_below([str(n) for n in mark.columns], side, height, margin) if mark.columns else ([], 0.0)
    deep = depth if mark.columns or chart.x else -BOTTOM + 6
    return framed(chart, [*shapes, *names], margin, width, height, deep, right=RIGHT + 62)


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
    return boxes + [Words(width + 27, y, label(float(f"{value:.3g}")), opacity=SOFT) for y, value in ends]


# Discs at places


def places(chart: "Chart", mark: Places) -> Picture:
    """Discs whose areas are the numbers, north up; the circle around a disc is the upper end of its interval."""
    north, east = floats(mark.north), floats(mark.east)
    at_rest = np.isfinite(north + east)
    narrower = math.cos(math.radians(float(np.abs(north[at_rest]).mean()))) if at_rest.any() else 1.0
    tall, broad = (float(np.ptp(ends[at_rest])) if at_rest.any() else 0.0 for ends in (north, east * narrower))
    width = WIDTH - 2 * RIGHT
    unit = min((width - 2 * _EDGE) / max(broad, 1e-9), 420 / max(tall, 1e-9))  # pixels of a degree of latitude
    unit = unit if max(broad, tall) > 0 else 1.0
    height = tall * unit + 2 * _EDGE
    left = (width - broad * unit) / 2
    values = np.maximum(np.nan_to_num(floats(mark.values)), 0)
    upper = values if mark.high is None else np.maximum(np.nan_to_num(floats(mark.high)), values)
    most = float(upper.max(initial=0)) or 1.0
    shapes: list[Shape] = [Stroke([[*rectangle(0, 0, width, height), (0, 0)]], opacity=FAINT)]
    spots: list[tuple[float, float, float, int]] = []
    for i in np.flatnonzero(at_rest)[np.argsort(-values[at_rest], kind="stable")].tolist():
        x = left + (east[i] * narrower - float((east * narrower)[at_rest].min())) * unit
        y = _EDGE + (float(north[at_rest].max()) - north[i]) * unit
        inner, outer = (_LARGEST * math.sqrt(part[i] / most) for part in (values, upper))
        words = f"{mark.labels[i]}: {label(float(floats(mark.values)[i]))}"
        shapes.append(Fill([_circle(x, y, max(inner, 1.5))], 0, 0.55, title=words))
        shapes += [Stroke([[*_circle(x, y, outer), (x + outer, y)]], 0, 1.2, 0.8)] if outer > inner else []
        spots.append((x, y, outer, i))
    shapes += _tags(spots, mark.labels, width, height)
    return framed(chart, shapes, RIGHT, width, height, 0.0 if chart.x else -BOTTOM + 6)


def _circle(x: float, y: float, radius: float) -> list[Point]:
    turns = (2 * math.pi * i / _SIDES for i in range(_SIDES))
    return [(x + radius * math.cos(turn), y + radius * math.sin(turn)) for turn in turns]


def _tags(
    spots: Sequence[tuple[float, float, float, int]], labels: Sequence[str], width: float, height: float
) -> list[Shape]:
    """Names beside discs, those of the greatest first; one for which there is no room is left to the disc's title."""
    taken = [(x - 0.8 * r, y - 0.8 * r, x + 0.8 * r, y + 0.8 * r) for x, y, r, _ in spots]
    shapes: list[Shape] = []
    for x, y, radius, i in spots:
        text = shortened(labels[i], 18)
        long = LETTER * len(text)
        choices = ((x + radius + 4, y + 4.5), (x - radius - 6 - long, y + 4.5), (x - long / 2, y - radius - 5),
                   (x - long / 2, y + radius + 14))  # fmt: skip
        for start, base in choices:
            box = (start, base - 11, start + long, base + 3)
            inside = box[0] >= 2 and box[2] <= width - 2 and box[1] >= 2 and box[3] <= height - 2
            if inside and not any(_touch(box, other) for other in taken):
                shapes.append(Words(start, base, text))
                taken.append(box)
                break
    return shapes


def _touch(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
