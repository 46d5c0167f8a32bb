"""Where a number stands on an axis, and where its ticks are.

>>> from discreet.report.axis import Axis
>>> axis = Axis.over([0.0, 9.3], length=100)
>>> axis.pixel(0.0), [label for _, label in axis.ticks()]
(0.0, ['0', '2', '4', '6', '8', '10'])
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

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
    ('0.3', '12\u202f000', '1e-5', '2e6')
    """
    if value == 0 or abs(value) < 1e-15:
        return "0"
    if 1e-3 <= abs(value) < 1e6:
        return f"{value:.6g}" if abs(value) < 1000 else f"{value:,.0f}".replace(",", THIN)
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
