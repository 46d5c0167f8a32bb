"""What a chart shows, as data: lines, points, bars, intervals, a matrix; and the axes they stand on.

>>> from discreet.report.marks import Axis
>>> axis = Axis.over([0.0, 9.3], length=100)
>>> axis.pixel(0.0), [label for _, label in axis.ticks()]
(0.0, ['0', '2', '4', '6', '8', '10'])
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData

Floats = NDArray[np.float64]


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


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Numbers at places on a map, `north` and `east` in degrees: a disc each, perhaps within a circle at `high`."""

    labels: Sequence[str]
    values: ArrayLike
    north: ArrayLike
    east: ArrayLike
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    def __post_init__(self) -> None:
        _store_named(self, "north", "east")


Mark = Line | Points | Bars | Intervals | Heat | Places


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


THIN = "\N{NARROW NO-BREAK SPACE}"  # between thousands
_TICKS = 5
_MOST_DECADES = 8


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic scale from `low` to `high` over `length` pixels."""

    low: float
    high: float
    length: float
    log: bool = False

    @classmethod
    def over(
        cls, values: Iterable[float], *, length: float, log: bool = False, given: tuple[float, float] | None = None
    ) -> "Axis":
        """A scale that shows all the finite values; on a logarithmic one, the positive ones."""
        shown = [value for value in values if math.isfinite(value) and (value > 0 or not log)]
        low, high = given or ((min(shown), max(shown)) if shown else (1.0, 10.0) if log else (0.0, 1.0))
        if log:
            low = low if low > 0 else min(shown, default=high / 10)
            return cls(*_decades(low, high), length, log=True)
        if high - low <= 1e-9 * max(abs(low), abs(high)):
            low, high = low - (abs(low) or 1) / 2, high + (abs(high) or 1) / 2
        if given is None:
            step = _step(high - low)
            low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
        return cls(low, high, length)

    def pixel(self, value: float) -> float:
        """The pixel of a value; values beyond the axis stand at its end."""
        if self.log:
            part = (math.log(max(value, self.low)) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(max(part, 0.0), 1.0) * self.length

    def ticks(self) -> list[tuple[float, str]]:
        """Pixels and labels of the ticks."""
        if self.log:
            first, last = round(math.log10(self.low)), round(math.log10(self.high))
            every = max(1, math.ceil((last - first) / _MOST_DECADES))
            values = [10.0**power for power in range(first, last + 1, every)]
            values = [value for value in values if self.low * 0.999 <= value <= self.high * 1.001]
        else:
            step = _step(self.high - self.low)
            start = math.ceil(self.low / step - 1e-9)
            values = [(start + i) * step for i in range(int((self.high - start * step) / step + 1e-9) + 1)]
        return [(self.pixel(value), label(value)) for value in values]


def label(value: float) -> str:
    """A short number for people.

    >>> label(0.30000000000000004), label(12000.0), label(1e-5), label(2_000_000.0)
    ('0.3', '12\u202f000', '1e-5', '2\u202f000\u202f000')
    >>> label(-4000.0)
    '−4\u202f000'
    """
    if value < 0:
        return f"−{label(-value)}" if value <= -1e-15 else "0"
    if value < 1e-15:
        return "0"
    if 1e-3 <= value < 1e8:
        return f"{value:.6g}" if value < 1000 else f"{value:,.0f}".replace(",", THIN)
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else f"{float(mantissa):.3g}"


def _step(span: float) -> float:
    """A round step that gives about five ticks."""
    raw = span / _TICKS
    power = 10.0 ** math.floor(math.log10(raw))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)


def _decades(low: float, high: float) -> tuple[float, float]:
    """Whole decades around both."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    return 10.0**first, 10.0 ** max(last, first + 1)
