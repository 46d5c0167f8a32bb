"""A chart as data: its marks, its axes, its words. How it is drawn is the business of `svg` and `picture`.

>>> from discreet.report import Bars, Chart
>>> Chart("Shares", [Bars(["attack", "guessing"], [0.9, 0.5])], y="share").svg().count("<rect")
2
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter

Floats = NDArray[np.float64]
Range = tuple[float, float]
_PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A line through points, perhaps with a band from `low` to `high`; NaN leaves a gap."""

    x: ArrayLike
    y: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None
    dashed: bool = False

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
    """Named bars from zero, perhaps with error bars. Several in one chart stand side by side over the same names."""

    labels: Sequence[str]
    values: ArrayLike
    label: str = ""
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "labels", tuple(str(label) for label in self.labels))
        _store(self, "values", "low", "high")
        if len(self.labels) != len(np.asarray(self.values)):
            raise InvalidData(f"bars: {len(self.labels)} labels for {len(np.asarray(self.values))} values")


@dataclass(frozen=True, slots=True, eq=False)
class Heat:
    """A matrix as colors, the first row on top."""

    values: ArrayLike
    rows: Sequence[str] = ()
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        matrix = np.asarray(self.values, np.float64)
        if matrix.ndim != 2 or not matrix.size:
            raise InvalidData(f"heat: got an array of shape {matrix.shape}, expected a matrix")
        object.__setattr__(self, "values", matrix)


Mark = Line | Points | Bars | Heat


@dataclass(frozen=True, slots=True, eq=False)
class Chart:
    """A title, marks and axes. A chart of a `Heat` holds nothing else; `Bars` share a chart with no other kind.

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

    def __post_init__(self) -> None:
        object.__setattr__(self, "marks", tuple(self.marks))
        if not self.marks:
            raise InvalidData(f"chart {self.title!r}: it has no marks")
        kinds = {type(mark) for mark in self.marks}
        if len(kinds) > 1 and kinds & {Bars, Heat}:
            raise InvalidData(f"chart {self.title!r}: bars or heat stand in a chart of their own")
        bars = [mark for mark in self.marks if isinstance(mark, Bars)]
        if any(mark.labels != bars[0].labels for mark in bars):
            raise InvalidData(f"chart {self.title!r}: its bars have different labels")

    def svg(self) -> str:
        """The chart as an SVG element that needs nothing else."""
        from discreet.report.svg import drawn

        return drawn(self)

    def save(self, path: str | Path) -> Path:
        """Save as SVG (needs nothing) or as PNG or PDF (the extra `plot`), as the name's ending says; the path."""
        target = Path(path)
        ending = target.suffix.lower()
        if ending not in _PICTURES:
            raise InvalidParameter("path", target.name, f"a name that ends in {', '.join(_PICTURES)}")
        if ending == ".svg":
            target.write_text(self.svg(), encoding="utf-8")
            return target
        from discreet.report.picture import save

        return save(self, target)

    def _repr_svg_(self) -> str:
        return self.svg()


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
