"""Pictures as shapes: written as SVG without any dependency, as PNG and PDF through matplotlib (the extra `plot`).

>>> from discreet.report.picture import Fill, Picture, rectangle
>>> Picture(10, 10, [Fill([rectangle(0, 0, 5, 10)], 0)], "half").svg().count("<path")
1
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, assert_never

from discreet.errors import InvalidParameter, MissingExtra

COLORS = ("#2f6fb3", "#c2572b", "#4f8a3c", "#7a5195", "#a8831a", "#5b6675", "#c0487a", "#2f8f83")
PICTURES = (".svg", ".png", ".pdf")
SIZE = 13.0  # of letters
_INK, _ALERT = "#1d2430", "#b8432f"
_FONT = "system-ui, 'Segoe UI', 'Liberation Sans', sans-serif"
_POINTS = 0.72  # points of a unit: a hundred units are an inch

Color = int | str  # a series by its number, "ink" or "alert"
Point = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Fill:
    """Filled outlines of one color."""

    outlines: Sequence[Sequence[Point]]
    color: Color = "ink"
    opacity: float = 1.0
    title: str = ""
    crisp: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Stroke:
    """Lines of one color."""

    lines: Sequence[Sequence[Point]]
    color: Color = "ink"
    width: float = 1.0
    opacity: float = 1.0
    dashed: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Dots:
    """Round dots of one color and size."""

    centers: Sequence[Point]
    color: Color = 0
    radius: float = 3.0
    opacity: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """A line of text; `turn` is its slope in degrees, clockwise."""

    x: float
    y: float
    text: str
    anchor: str = "start"
    size: float = SIZE
    bold: bool = False
    turn: float = 0.0
    color: Color = "ink"
    opacity: float = 1.0


Shape = Fill | Stroke | Dots | Words


@dataclass(frozen=True, slots=True, eq=False)
class Picture:
    """Shapes on a canvas, y downwards; the one path from any chart or map to a file."""

    width: float
    height: float
    shapes: Sequence[Shape]
    title: str

    def svg(self, *, background: str | None = None, inline: bool = False) -> str:
        """One `<svg>` element that needs nothing else; text takes the color of the page around it."""
        space = "" if inline else 'xmlns="http://www.w3.org/2000/svg" '  # a page in HTML knows it
        ground = f'<rect width="100%" height="100%" fill="{background}"/>' if background else ""
        size = f'viewBox="0 0 {_n(self.width)} {_n(self.height)}" width="{_n(self.width)}" height="{_n(self.height)}"'
        return (
            f'<svg {space}{size} role="img" aria-label="{escape(self.title)}" '
            f'font-family="{_FONT}" color="{_INK}">{ground}{"".join(map(_svg, self.shapes))}</svg>'
        )

    def save(self, path: str | Path) -> Path:
        """Save as SVG, PNG or PDF, as the ending of the name says; the path."""
        target = checked_path(path)
        try:
            if target.suffix.lower() == ".svg":
                target.write_text(self.svg(background="#fff"), encoding="utf-8")
            else:
                _save_figure(self, target)
        except OSError as error:
            raise InvalidParameter("path", str(path), "a file that can be written", str(error)) from None
        return target

    @classmethod
    def beside(cls, pictures: "Sequence[Picture]", title: str) -> "Picture":
        """Several pictures in a row under one title."""
        left, top = 0.0, 30.0
        shapes: list[Shape] = [Words(8, 20, title, size=16, bold=True)]
        for picture in pictures:
            shapes += moved(picture.shapes, left, top)
            left += picture.width
        return cls(left, top + max((picture.height for picture in pictures), default=0.0), shapes, title)


def checked_path(path: Any, *endings: str) -> Path:
    """Refuse a picture or page that could not be drawn or written, before any work.

    >>> checked_path("answer.gif")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: path: got 'answer.gif', expected a name that ends in .svg, .png or .pdf
    """
    allowed = endings or PICTURES
    ending = Path(path).suffix.lower() if isinstance(path, str | Path) else ""
    if ending not in allowed:
        expected = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
        raise InvalidParameter("path", path, f"a name that ends in {expected}")
    if not Path(path).parent.is_dir():
        raise InvalidParameter("path", str(path), "a file in a folder that exists", "make the folder first")
    if ending in (".png", ".pdf"):
        try:
            import_module("matplotlib")
        except ImportError:
            raise MissingExtra("matplotlib", "plot") from None
    return Path(path)


def rectangle(x: float, y: float, width: float, height: float) -> Sequence[Point]:
    """The outline of a rectangle.

    >>> rectangle(0, 0, 2, 1)
    ((0, 0), (2, 0), (2, 1), (0, 1))
    """
    return ((x, y), (x + width, y), (x + width, y + height), (x, y + height))


# SVG


def _svg(shape: Shape) -> str:
    match shape:
        case Fill():
            shown = "".join(_steps(outline) + "Z" for outline in shape.outlines)
            crisp = ' shape-rendering="crispEdges"' if shape.crisp else ""
            title = f"<title>{escape(shape.title)}</title>" if shape.title else ""
            return f'<path {_paint(shape)} fill="currentColor"{crisp} d="{shown}">{title}</path>'
        case Stroke():
            shown = "".join(map(_steps, shape.lines))
            dash = ' stroke-dasharray="6 4"' if shape.dashed else ""
            line = f'fill="none" stroke="currentColor" stroke-width="{_n(shape.width)}"{dash}'
            return f'<path {_paint(shape)} {line} d="{shown}"/>'
        case Dots():
            dots = (f'<circle cx="{_n(x)}" cy="{_n(y)}" r="{_n(shape.radius)}"/>' for x, y in shape.centers)
            return f'<g {_paint(shape)} fill="currentColor">{"".join(dots)}</g>'
        case Words():
            anchor = "" if shape.anchor == "start" else f' text-anchor="{shape.anchor}"'
            bold = ' font-weight="600"' if shape.bold else ""
            turn = f' transform="rotate({_n(shape.turn)} {_n(shape.x)} {_n(shape.y)})"' if shape.turn else ""
            at = f'x="{_n(shape.x)}" y="{_n(shape.y)}" font-size="{_n(shape.size)}"{anchor}{bold}{turn}'
            return f'<text {_paint(shape)} fill="currentColor" {at}>{escape(shape.text)}</text>'
        case _:
            assert_never(shape)


def _paint(shape: Shape) -> str:
    """Color and opacity; a page may give the classes other colors in the dark."""
    faint = f' opacity="{shape.opacity:.3g}"' if shape.opacity < 1 else ""
    match shape.color:
        case int():
            number = shape.color % len(COLORS)
            return f'class="c{number}" color="{COLORS[number]}"{faint}'
        case "alert":
            return f'class="alert" color="{_ALERT}"{faint}'
        case _:
            return f'class="ink"{faint}'


def _steps(points: Sequence[Point]) -> str:
    """The points as commands of a path."""
    (x, y), *rest = ((_n(x), _n(y)) for x, y in points)
    words = [f"M{x},{y}"]
    for a, b in rest:
        words.append(f"H{a}" if b == y else f"V{b}" if a == x else f"L{a},{b}")
        x, y = a, b
    return "".join(words)


def _n(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if value % 1 else str(int(value))


def _moved(shape: Shape, x: float, y: float) -> Shape:
    match shape:
        case Fill():
            return replace(shape, outlines=[[(a + x, b + y) for a, b in outline] for outline in shape.outlines])
        case Stroke():
            return replace(shape, lines=[[(a + x, b + y) for a, b in line] for line in shape.lines])
        case Dots():
            return replace(shape, centers=[(a + x, b + y) for a, b in shape.centers])
        case Words():
            return replace(shape, x=shape.x + x, y=shape.y + y)
        case _:
            assert_never(shape)


def moved(shapes: Sequence[Shape], x: float, y: float) -> list[Shape]:
    """The shapes, elsewhere.

    >>> moved([Words(1, 2, "a")], 10, 20)[0].x
    11
    """
    return [_moved(shape, x, y) for shape in shapes]


# PNG and PDF


def _save_figure(picture: Picture, path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(picture.width / 100, picture.height / 100))
    axes: Any = figure.add_axes((0, 0, 1, 1))
    axes.set_axis_off()
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    for shape in picture.shapes:
        _draw(axes, shape)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a letter without a shape is a box
        figure.savefig(path, dpi=200)


def _draw(axes: Any, shape: Shape) -> None:
    from matplotlib.collections import LineCollection, PolyCollection

    color = COLORS[shape.color % len(COLORS)] if isinstance(shape.color, int) else _ALERT
    color = _INK if shape.color == "ink" else color
    match shape:
        case Fill():
            axes.add_collection(PolyCollection(shape.outlines, facecolors=color, alpha=shape.opacity, linewidths=0))
        case Stroke():
            style = (0, (6, 4)) if shape.dashed else "solid"
            look: dict[str, Any] = {
                "colors": color,
                "alpha": shape.opacity,
                "linewidths": shape.width * _POINTS,
                "linestyles": style,
            }
            axes.add_collection(LineCollection(shape.lines, **look))
        case Dots() if shape.centers:
            x, y = zip(*shape.centers, strict=True)
            size = (2 * shape.radius * _POINTS) ** 2
            axes.scatter(x, y, s=size, c=color, alpha=shape.opacity, linewidths=0)
        case Words():
            side = {"start": "left", "middle": "center", "end": "right"}[shape.anchor]
            turn = {"rotation": -shape.turn, "rotation_mode": "anchor"}
            look = {"fontsize": shape.size * _POINTS, "fontweight": "bold" if shape.bold else "normal", "color": color}
            look |= {"alpha": shape.opacity, "ha": side, "va": "baseline", "parse_math": False}
            axes.text(shape.x, shape.y, shape.text, **look, **turn)
