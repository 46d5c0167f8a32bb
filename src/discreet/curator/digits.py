"""A released value with its interval, as text: the digits that the interval leaves open are not shown."""

import datetime as dt
import math
import numbers
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeGuard

NULL = "–"

_MOST_PLACES = 15  # decimals of a number shown; a float holds no more
_SLACK = Fraction(1, 2**50)  # relative: what the rounding of floats may have added to an end of an interval


def quoted(value: Any, low: Any = None, high: Any = None) -> str:
    """A value with its interval: "1234 ± 56" where it is symmetric about the value, else "1234 [1200, 1250]".

    Digits that the interval leaves open are not shown: two digits of the half-width are kept. Whole numbers stay
    whole. Ends are rounded outwards, so what is shown covers the interval (but for the last bits of floats). An
    unknown end, None or NaN, leaves the value alone.

    >>> quoted(1234, 1178, 1290), quoted(3.14159, 3.12929, 3.15389), quoted(1234.6, 1200.1, 1250.2)
    ('1234 ± 56', '3.142 ± 0.013', '1235 [1200, 1251]')
    >>> quoted(None), quoted(2 / 3), quoted(5, 5, 5), quoted(1e-20, 9e-21, 1.1e-20)
    ('–', '0.666667', '5 ± 0', '1.00e-20 ± 0.10e-20')
    """
    return " ".join(part for part in parts(value, low, high) if part)


def parts(value: Any, low: Any, high: Any) -> tuple[str, str]:
    """The two halves of `quoted`: the value, and the interval ("" where there is none to show).

    >>> parts(1234, 1178, 1290)
    ('1234', '± 56')
    """
    if any(x is None or _is_nan(x) for x in (value, low, high)):
        return plain_text(value), ""
    if not all(map(is_number, (value, low, high))) or not _is_finite(value):
        return plain_text(value), f"[{plain_text(low)}, {plain_text(high)}]"
    center, ends = _exact(value), [_exact(end) if _is_finite(end) else None for end in (low, high)]
    if ends == [center, center]:
        return _in_full(value), "± 0"
    apart = [abs(end - center) for end in ends if end is not None]
    if not any(apart):  # the only finite end, if any, is the value itself
        return _in_full(value), "± inf" if not apart else f"[{_in_full(low)}, {_in_full(high)}]"
    slack = max(abs(x) for x in (center, *ends) if x is not None) * _SLACK
    if not any(isinstance(x, float) for x in (value, low, high)):
        slack = Fraction(0)
    return _rounded(_Digits.of(value, max(apart)), slack, center, low, high)


def plain_text(value: Any) -> str:
    """Any single value as text, without an interval; floats with six significant digits, or all before the point.

    >>> plain_text(0.1 + 0.2), plain_text(1234567.8), plain_text(True), plain_text(dt.date(2026, 1, 2))
    ('0.3', '1234568', 'true', '2026-01-02')
    """
    match value:
        case None:
            return NULL
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return value.isoformat(sep=" ")
        case dt.date() | dt.time():
            return value.isoformat()
        case _ if is_number(value):
            return _number_alone(value)
        case _:
            return str(value)


def _rounded(digits: "_Digits", slack: Fraction, center: Fraction, low: Any, high: Any) -> tuple[str, str]:
    shown = digits.near(center)
    if _is_finite(low) and _is_finite(high):
        below, above = center - _exact(low), _exact(high) - center
        if min(below, above) >= 0 and abs(above - below) <= max(digits.unit / 2, slack):
            half = max(_exact(high) - shown, shown - _exact(low)) - slack
            return digits.text(shown), f"± {digits.text(digits.up(half))}"
    left = digits.text(-digits.up(-_exact(low) - slack)) if _is_finite(low) else plain_text(low)
    right = digits.text(digits.up(_exact(high) - slack)) if _is_finite(high) else plain_text(high)
    return digits.text(shown), f"[{left}, {right}]"


@dataclass(frozen=True, slots=True)
class _Digits:
    """How numbers that belong together are written: a common power of ten, and decimals after the point."""

    power: int
    places: int

    @classmethod
    def of(cls, value: Any, width: Fraction) -> "_Digits":
        """Digits for a value that is known to within `width`: two significant ones of the width."""
        if _is_whole(value):
            return cls(0, 0)
        power = _common_power(max(abs(_exact(value)), width))
        unit = Fraction(10) ** (_magnitude(width) - 1)
        shown = math.ceil(width / unit) * unit  # 0.996 is shown as 1.0, not as 1.00
        return cls(power, min(max(1 + power - _magnitude(shown), 0), _MOST_PLACES))

    @property
    def unit(self) -> Fraction:
        return Fraction(10) ** (self.power - self.places)

    def near(self, x: Fraction) -> Fraction:
        return round(x / self.unit) * self.unit

    def up(self, x: Fraction) -> Fraction:
        return math.ceil(x / self.unit) * self.unit

    def text(self, x: Fraction) -> str:
        steps = round(x / self.unit)
        whole, rest = divmod(abs(steps), 10**self.places)
        point = f".{rest:0{self.places}}" if self.places else ""
        power = f"e{self.power}" if self.power else ""
        return f"{'-' if steps < 0 else ''}{whole}{point}{power}"


def _number_alone(value: Any) -> str:
    if _is_nan(value):
        return "NaN"
    if not _is_finite(value):
        return "inf" if value > 0 else "-inf"
    if _is_whole(value) or isinstance(value, Decimal):
        return _in_full(value)
    exact = _exact(value)
    power = _common_power(abs(exact))
    places = max(5 + power - _magnitude(exact), 0) if exact else 0
    text = _Digits(power, places).text(exact)
    digits, e, exponent = text.partition("e")
    return (digits.rstrip("0").rstrip(".") if "." in digits else digits) + e + exponent


def _in_full(value: Any) -> str:
    """A number with every digit that it has."""
    if not _is_finite(value):
        return _number_alone(value)
    if _is_whole(value):
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value:f}"
    return float.__repr__(float(value) + 0.0).replace("e+", "e").removesuffix(".0")  # + 0.0: no "-0"


def is_number(value: Any) -> TypeGuard[Any]:
    """Whether it is a number; true and false are none.

    >>> is_number(Decimal("0.5")), is_number(True), is_number("1")
    (True, False, False)
    """
    return isinstance(value, numbers.Real | Decimal) and not isinstance(value, bool)


def _is_nan(value: Any) -> bool:
    return is_number(value) and not isinstance(value, numbers.Rational) and math.isnan(value)


def _is_finite(value: Any) -> bool:
    return isinstance(value, numbers.Rational) or math.isfinite(value)


def _is_whole(value: Any) -> bool:
    """Whole by type, not by chance: integers, and decimals without places (sums of integers come as these)."""
    if isinstance(value, Decimal):
        return int(value.as_tuple().exponent) >= 0
    return isinstance(value, numbers.Integral)


def _exact(value: Any) -> Fraction:
    return (
        Fraction(float.__repr__(float(value))) if not isinstance(value, Decimal | numbers.Rational) else Fraction(value)
    )


def _common_power(x: Fraction) -> int:
    """0 for numbers that read well without a power of ten, else that of x."""
    return 0 if not x or Fraction(1, 10**4) <= x < 10**15 else _magnitude(x)


def _magnitude(x: Fraction) -> int:
    """⌊log₁₀ |x|⌋, exactly."""
    guess = len(str(abs(x.numerator))) - len(str(x.denominator))
    return guess if abs(x) >= Fraction(10) ** guess else guess - 1
