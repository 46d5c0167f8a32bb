"""What an expression over private rows can be: its kind, with bounds where it has them.

Numbers are *fixed-point*: whole numbers of steps, so that the private engine computes with integers alone. Adding finds
a common step, multiplying multiplies steps, dividing by a constant only renames the step. Every node knows an interval
that its steps cannot leave, so nothing overflows and a sum has a sensitivity.

Dates as whole numbers: the days, weeks, months, … of a span, and the moves between them, all exact.
"""

from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from math import gcd, lcm
from typing import overload

from discreet.exact import plain

MOST = 2**62
"""No expression may reach this many steps: it could not be computed in 64 bits."""


class Unsupported(Exception):
    """An operation does not accept these arguments; becomes an `InvalidQuery` that points at the text."""

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem)
        self.problem, self.hint = problem, hint


@dataclass(frozen=True, slots=True)
class Fixed:
    """Whole numbers of steps: from lower·step to upper·step; None where there is no bound.

    >>> print(Fixed(Fraction(1, 100), 0, 500))
    0 to 5 in steps of 0.01
    """

    step: Fraction
    lower: int | None
    upper: int | None

    @property
    def bounded(self) -> bool:
        """Whether both ends are known."""
        return self.lower is not None and self.upper is not None

    def __str__(self) -> str:
        step = "whole numbers" if self.step == 1 else f"steps of {plain(self.step)}"
        if not self.bounded:
            return f"numbers without bounds ({step})"
        return f"{self._end(self.lower)} to {self._end(self.upper)}" + ("" if self.step == 1 else f" in {step}")

    def _end(self, steps: int | None) -> str:
        return "–" if steps is None else plain(steps * self.step)


@dataclass(frozen=True, slots=True)
class Real:
    """Floating-point numbers of a column without bounds or granularity: they can be compared, not computed with."""

    def __str__(self) -> str:
        return "real numbers without bounds and granularity"


@dataclass(frozen=True, slots=True)
class Text:
    """Text of at most `length` characters; columns are cut to `catalog.TEXT` as they are read."""

    length: int

    def __str__(self) -> str:
        return "text"


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false."""

    def __str__(self) -> str:
        return "true or false"


@dataclass(frozen=True, slots=True)
class Day:
    """Dates from the first to the last; of the years 1 to 9999 where no bound is known."""

    lower: date | None = None
    upper: date | None = None

    def __str__(self) -> str:
        return "dates" if self.lower is None else f"dates from {self.lower} to {self.upper}"


@dataclass(frozen=True, slots=True)
class Moment:
    """Times without a zone from the first to the last; of the years 1 to 9999 where no bound is known."""

    lower: datetime | None = None
    upper: datetime | None = None

    def __str__(self) -> str:
        return "times" if self.lower is None else f"times from {self.lower} to {self.upper}"


@dataclass(frozen=True, slots=True)
class Nothing:
    """The constant NULL, which fits every kind."""

    def __str__(self) -> str:
        return "null"


Kind = Fixed | Real | Text | Truth | Day | Moment | Nothing


def common_step(left: Fraction, right: Fraction) -> Fraction:
    """The largest step that both are whole multiples of.

    >>> common_step(Fraction(1, 4), Fraction(1, 6))
    Fraction(1, 12)
    """
    bottom = lcm(left.denominator, right.denominator)
    top = gcd(left.numerator * (bottom // left.denominator), right.numerator * (bottom // right.denominator))
    return Fraction(top, bottom)


FIRST, LAST = date.min, date.max
"""Dates outside the years 1 to 9999 count as null when they are read."""

MOST_DATES = 1_000_000
"""No more dates or times than these are listed."""

UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute")
"""What dates and times can be truncated to, the longest first."""

_MONTHS = {"year": 12, "quarter": 3, "month": 1}
_SPANS = {
    "week": timedelta(days=7), "day": timedelta(days=1), "hour": timedelta(hours=1), "minute": timedelta(minutes=1),
}  # fmt: skip


def truncated(unit: str, value: date) -> date:
    """The first moment of the unit that a date or time lies in: a date, but for hours and minutes.

    >>> truncated("week", date(2024, 2, 29)), truncated("quarter", datetime(2024, 12, 31, 23, 59))
    (datetime.date(2024, 2, 26), datetime.date(2024, 10, 1))
    """
    if isinstance(value, datetime):
        if unit in ("hour", "minute"):
            return value.replace(minute=0 if unit == "hour" else value.minute, second=0, microsecond=0)
        value = value.date()
    elif unit in ("hour", "minute"):
        return value
    match unit:
        case "week":
            return value - timedelta(days=value.weekday())
        case "day":
            return value
        case _:
            months = _MONTHS[unit]
            return value.replace(month=(value.month - 1) // months * months + 1, day=1)


def plus_months(value: date, months: int) -> date:
    """So many months later, at the last day of the month where that is shorter; `OverflowError` outside all years.

    >>> plus_months(date(2024, 1, 31), 1), plus_months(date(2024, 2, 29), -12)
    (datetime.date(2024, 2, 29), datetime.date(2023, 2, 28))
    """
    year, month = divmod(value.year * 12 + value.month - 1 + months, 12)
    if not FIRST.year <= year <= LAST.year:
        raise OverflowError(f"year {year}")
    return value.replace(year=year, month=month + 1, day=min(value.day, monthrange(year, month + 1)[1]))


def day_number(value: date) -> int:
    """How many days after 1970-01-01 a date is.

    >>> day_number(date(1969, 12, 31))
    -1
    """
    return value.toordinal() - date(1970, 1, 1).toordinal()


def microsecond_number(value: datetime) -> int:
    """How many microseconds after 1970-01-01 a time is.

    >>> microsecond_number(datetime(1970, 1, 1, 0, 0, 1))
    1000000
    """
    return (value - datetime(1970, 1, 1)) // timedelta(microseconds=1)


def calendar_of(unit: str, first: date, last: date) -> "Calendar | None":
    """The units that the dates or times of a span lie in, where there are few enough to be listed."""
    unit = "day" if unit in ("hour", "minute") and not isinstance(first, datetime) else unit
    listed = Calendar(unit, truncated(unit, first), truncated(unit, last))
    return listed if len(listed) <= MOST_DATES else None


@dataclass(frozen=True, slots=True)
class Calendar(Sequence[date]):
    """All units from the one that `first` begins to the one that `last` begins, each by its first moment.

    >>> len(Calendar("month", date(2020, 1, 1), date(2026, 12, 1)))
    84
    >>> list(Calendar("quarter", date(2024, 10, 1), date(2025, 1, 1)))
    [datetime.date(2024, 10, 1), datetime.date(2025, 1, 1)]
    """

    unit: str
    first: date
    last: date

    def __len__(self) -> int:
        if self.unit in _MONTHS:
            months = (self.last.year - self.first.year) * 12 + self.last.month - self.first.month
            return months // _MONTHS[self.unit] + 1
        return (self.last - self.first) // _SPANS[self.unit] + 1

    @overload
    def __getitem__(self, place: int) -> date: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[date]: ...
    def __getitem__(self, place: int | slice) -> date | Sequence[date]:
        if isinstance(place, slice):
            return [self[at] for at in range(len(self))[place]]
        if not -len(self) <= place < len(self):
            raise IndexError(place)
        place %= len(self)
        if self.unit in _MONTHS:
            return plus_months(self.first, place * _MONTHS[self.unit])
        return self.first + place * _SPANS[self.unit]

    def __iter__(self) -> Iterator[date]:
        return (self[place] for place in range(len(self)))
