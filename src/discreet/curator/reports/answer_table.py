"""Released tables for people: as text with intervals, as HTML with error bars, as a chart.

Everything here sees released values only. Column names, text values and notes were written by owners, analysts and
people in the data: they are escaped for HTML, and unprintable characters (terminal codes, line breaks, changes of
writing direction) are shown as codes.
"""

import datetime as dt
import html
import math
import numbers
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from discreet.report import Chart

MOST_ROWS = 40
MOST_GROUPS = 60

_WIDEST = 60  # letters of a text in a terminal's table
_LONGEST = 500  # and in HTML
_BAR, _MARGIN = 120, 4  # width of an error bar's drawing, and of its margins, in pixels


@dataclass(frozen=True, slots=True)
class Column:
    """The rows of one column that are shown; `lows` and `highs` are all None where no interval is known."""

    name: str
    values: Sequence[Any]
    lows: Sequence[Any]
    highs: Sequence[Any]
    numeric: bool

    @property
    def has_intervals(self) -> bool:
        """Whether any row has an interval.

        >>> Column("n", [1], [None], [None], numeric=True).has_intervals
        False
        """
        return any(low is not None and high is not None for low, high in zip(self.lows, self.highs, strict=True))

    def __iter__(self) -> Iterator[tuple[Any, Any, Any]]:
        return zip(self.values, self.lows, self.highs, strict=True)


# ------------------------------------------------------------------------------------------------------ text and HTML


def text_table(columns: Sequence[Column], rows: int, footer: Sequence[str]) -> str:
    """An aligned table for a terminal, and the lines beneath it. `rows` says how many there are in all.

    >>> print(text_table([Column("n", [7, 123], [5, 121], [9, 125], numeric=True)], 3, ["note"]))
          n
      7 ± 2
    123 ± 2
    … and 1 more row
    note
    """
    blocks = [_block(column) for column in columns]
    lines = ["  ".join(cells).rstrip() for cells in zip(*blocks, strict=True)]
    return "\n".join([*lines, *_more(columns, rows), *(printable(line) for line in footer)])


def _block(column: Column) -> list[str]:
    """The lines of one column, header first, all of one width; the values of numbers end at the same place."""
    cells = [parts(*row) for row in column]
    cells = [(_cut(printable(left), _WIDEST), printable(right)) for left, right in cells]
    left_width, right_width = (max((text_width(cell[i]) for cell in cells), default=0) for i in (0, 1))
    gap = " " if right_width else ""
    name = _cut(printable(column.name), _WIDEST)
    width = max(text_width(name), left_width + len(gap) + right_width)
    body = [_pad(left, left_width, right=column.numeric) + gap + _pad(right, right_width) for left, right in cells]
    return [_pad(text, width, right=column.numeric) for text in (name, *body)]


def _more(columns: Sequence[Column], rows: int) -> list[str]:
    left = rows - min((len(column.values) for column in columns), default=rows)
    return [f"… and {left} more row{'s' if left > 1 else ''}"] if left else []


def _pad(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def text_width(text: str) -> int:
    """Cells of a terminal that a text takes: two for East Asian wide letters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in text)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def printable(text: str) -> str:
    r"""A text with unprintable characters as codes: it cannot command a terminal or break a line.

    >>> print(printable("né\x1b[2J\n"))
    né\x1b[2J\n
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


_STYLE = """<style>
.discreet-answer {font-variant-numeric: tabular-nums; overflow-x: auto}
.discreet-answer table {border-collapse: collapse; border: 0; color: inherit; background: transparent}
.discreet-answer th, .discreet-answer td {padding: .25em .8em; text-align: left; border: 0; color: inherit;
 border-bottom: 1px solid rgba(128,128,128,.3); background: transparent; white-space: nowrap}
.discreet-answer th {font-weight: 600; border-bottom: 1px solid rgba(128,128,128,.8)}
.discreet-answer .number {text-align: right}
.discreet-answer .interval {opacity: .7}
.discreet-answer svg {vertical-align: middle; margin-left: .8em}
.discreet-answer p {margin: .4em 0 0 0; font-size: .9em; opacity: .8}
</style>"""


def html_table(columns: Sequence[Column], rows: int, footer: Sequence[str]) -> str:
    """A table in HTML that needs nothing else, with an error bar in each cell that has an interval.

    Colors are those of the page around it, so it reads well on light and on dark.

    >>> "&lt;b&gt;" in html_table([Column("<b>", [1], [0], [2], numeric=True)], 1, [])
    True
    """
    head = "".join(f"<th{_kind(column)}>{_escaped(column.name)}</th>" for column in columns)
    blocks = [_html_cells(column) for column in columns]
    body = "\n".join(f"<tr>{''.join(cells)}</tr>" for cells in zip(*blocks, strict=True))
    beneath = "\n".join(f"<p>{_escaped(line)}</p>" for line in [*_more(columns, rows), *footer])
    return (
        f'<div class="discreet-answer">\n{_STYLE}\n<table>\n<thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n{beneath}\n</div>"
    )


def _html_cells(column: Column) -> list[str]:
    scale = _Scale.of(column) if column.numeric and column.has_intervals else None
    cells = []
    for value, low, high in column:
        text, interval = parts(value, low, high)
        inner = _escaped(_cut(text, _LONGEST))
        if interval:
            inner += f' <span class="interval">{_escaped(interval)}</span>'
        if scale is not None:
            inner += scale.drawing(value, low, high)
        cells.append(f"<td{_kind(column)}>{inner}</td>")
    return cells


def _kind(column: Column) -> str:
    return ' class="number"' if column.numeric else ""


def _escaped(text: str) -> str:
    return html.escape(printable(text), quote=True)


@dataclass(frozen=True, slots=True)
class _Scale:
    """From the numbers of a column to pixels; what lies outside or is infinite is drawn at the edge."""

    least: float
    most: float

    @classmethod
    def of(cls, column: Column) -> "_Scale":
        numbers_seen = [as_float(x) for row in column for x in row]
        finite = [x for x in numbers_seen if math.isfinite(x)]
        return cls(min(finite, default=0.0), max(finite, default=0.0))

    def pixel(self, x: float) -> float:
        span = self.most / 2 - self.least / 2  # halves, since the difference of two floats may be infinite
        share = (max(min(x, self.most), self.least) / 2 - self.least / 2) / span if span > 0 else 0.5
        return round(_MARGIN + share * (_BAR - 2 * _MARGIN), 1)

    def drawing(self, value: Any, low: Any, high: Any) -> str:
        at, left, right = (as_float(x) for x in (value, low, high))
        inner = ""
        if not math.isnan(left) and not math.isnan(right) and not math.isnan(at):
            a, b = self.pixel(left), self.pixel(right)
            caps = "".join(f"M{self.pixel(x)} 4V12" for x in (left, right) if math.isfinite(x))  # no end, no cap
            inner += f'<path d="M{a} 8H{b}{caps}" stroke="currentColor" fill="none" opacity=".6"/>'
        if not math.isnan(at):
            inner += f'<circle cx="{self.pixel(at)}" cy="8" r="3" fill="currentColor"/>'
        return f'<svg width="{_BAR}" height="16" aria-hidden="true">{inner}</svg>'


def as_float(x: Any) -> float:
    """A number as the nearest float, for drawing; NaN for what is no number.

    >>> from decimal import Decimal
    >>> as_float(Decimal("0.5")), as_float("a")
    (0.5, nan)
    """
    return float(x) if is_number(x) else math.nan


def chart(column: Column, labels: Sequence[str], notes: Sequence[str]) -> "Chart":
    """A column as dots on their intervals, one row a group.

    >>> chart(Column("n", [7, 9], [5, 8], [9, 10], numeric=True), ["north", "south"], []).title
    'n'
    """
    from discreet.report import Chart, Intervals

    values, lows, highs = ([as_float(x) for x in side] for side in (column.values, column.lows, column.highs))
    shown = [_cut(printable(label), _WIDEST) for label in labels]
    name = _cut(printable(column.name), _WIDEST)
    return Chart(name, [Intervals(shown, values, low=lows, high=highs)], y="; ".join(map(printable, notes)))


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
