"""Dates as whole numbers: the days, weeks, months, … of a span, and the moves between them, all exact."""

from calendar import monthrange
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import overload

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
