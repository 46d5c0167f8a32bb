"""A chart as data: its marks, its axes, its words. `layout` turns it into shapes.

>>> from discreet.report import Bars, Chart
>>> Chart("Shares", [Bars(["attack", "guessing"], [0.9, 0.5])], y="share").svg().count("<title>")
2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData

if TYPE_CHECKING:
    from discreet.report.picture import Picture

Floats = NDArray[np.float64]
Range = tuple[float, float]


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points, perhaps in steps, perhaps with a band from `low` to `high`; NaN leaves a gap."""

    x: ArrayLike
    y: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dashed: bool = False
    steps: bool = False

    def __post_init__(self) -> None:
        _store(self, "x", "y", "low", "high")


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Points, perhaps with error bars from `low` to `high`."""

    x: ArrayLike
    y: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __post_init__(self) -> None:
        _store(self, "x", "y", "low", "high")


@dataclass(frozen=True, slots=True, eq=False)
class Bars:
    """Named bars from zero, perhaps with error bars and with limits as ticks; several stand side by side."""

    labels: Sequence[str]
    values: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    limits: ArrayLike | None = None

    def __post_init__(self) -> None:
        _store_named(self, "limits")


@dataclass(frozen=True, slots=True, eq=False)
class Intervals:
    """Named values, one a row, each a dot on its interval; an infinite end goes on beyond the picture."""

    labels: Sequence[str]
    values: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __post_init__(self) -> None:
        _store_named(self)


@dataclass(frozen=True, slots=True, eq=False)
class Heat:
    """A matrix as colors, the first row on top.

    A map has an `aspect` (width by height), a `scale` (length as a share of the width, its words) and colors by the
    square root, up to `top`.
    """

    values: ArrayLike
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()
    aspect: float | None = None
    scale: tuple[float, str] | None = None
    top: float | None = None

    def __post_init__(self) -> None:
        matrix = np.asarray(self.values, np.float64)
        if matrix.ndim != 2 or not matrix.size:
            raise InvalidData(f"heat: got an array of shape {matrix.shape}, expected a matrix")
        object.__setattr__(self, "values", matrix)


Mark = Line | Points | Bars | Intervals | Heat


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

    def picture(self) -> "Picture":
        """The chart as shapes."""
        from discreet.report.layout import layout

        return layout(self)

    def svg(self) -> str:
        """The chart as an SVG element that needs nothing else."""
        return self.picture().svg()

    def save(self, path: str | Path) -> Path:
        """Save as SVG (needs nothing) or as PNG or PDF (the extra `plot`), as the name's ending says; the path."""
        return self.picture().save(path)

    def _repr_svg_(self) -> str:
        return self.svg()


def _store_named(mark: Any, *more: str) -> None:
    """Keep the labels as texts and the named fields as arrays of their length."""
    object.__setattr__(mark, "labels", tuple(str(label) for label in mark.labels))
    _store(mark, "values", "low", "high", *more)
    if len(mark.labels) != len(mark.values):
        raise InvalidData(f"{type(mark).__name__.lower()}: {len(mark.labels)} labels for {len(mark.values)} values")


def _store(mark: Any, *names: str) -> None:
    """Keep the named fields as arrays of one length."""
    lengths = set()
    for name in names:
        given = getattr(mark, name)
        if given is None:
            continue
        array = np.asarray(given, np.float64)
        if array.ndim != 1:
            raise InvalidData(f"{type(mark).__name__.lower()}: {name} has {array.ndim} dimensions, expected one")
        object.__setattr__(mark, name, array)
        lengths.add(array.size)
    if len(lengths) > 1:
        raise InvalidData(f"{type(mark).__name__.lower()}: its parts have different lengths {sorted(lengths)}")
    if (getattr(mark, "low", None) is None) != (getattr(mark, "high", None) is None):
        raise InvalidData(f"{type(mark).__name__.lower()}: give both low and high, or neither")
