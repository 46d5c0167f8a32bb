"""Time on an axis: instants as days since the first, and ticks that people read as dates or hours.

>>> from datetime import date
>>> days, ticks = time_axis([date(2024, 1, 1), date(2024, 7, 1), date(2024, 12, 1)])
>>> days, [text for _, text in ticks]
([0.0, 182.0, 335.0], ['Jan 2024', 'Apr 2024', 'Jul 2024', 'Oct 2024'])
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import date, datetime, timedelta
from itertools import islice, takewhile

_MOST = 5  # ticks
_DAY = 86_400.0
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

Instant = date | datetime
Ticks = list[tuple[float, str]]


def time_axis(instants: Sequence[Instant]) -> tuple[list[float], Ticks]:
    """Instants as days since the least of them, and ticks at round dates between the least and the greatest."""
    moments = [_moment(instant) for instant in instants]
    if not moments:
        return [], []
    first, last = min(moments), max(moments)
    at = [_days(moment - first) for moment in moments]
    return at, [(_days(moment - first), text) for moment, text in _ticks(first, last)]


def year_ticks(first: int, last: int) -> Ticks:
    """Ticks for years that are numbers, which have no thin spaces.

    >>> year_ticks(2015, 2024)
    [(2016, '2016'), (2018, '2018'), (2020, '2020'), (2022, '2022'), (2024, '2024')]
    """
    step = next((step for step in _TENS if (last - first) / step < _MOST), _TENS[-1])
    return [(year, str(year)) for year in range(-(-first // step) * step, last + 1, step)]


def _ticks(first: datetime, last: datetime) -> list[tuple[datetime, str]]:
    """The finest round ticks of which there are few enough."""
    for walk, write in _STEPS:
        from_first = (moment for moment in walk(first) if moment >= first)
        results = list(islice(takewhile(lambda moment: moment <= last, from_first), _MOST + 1))
        if len(results) <= _MOST:
            return [(moment, write(moment)) for moment in results]
    return []


def _seconds(step: int) -> Callable[[datetime], Iterator[datetime]]:
    """Every so many seconds, in step with midnight."""

    def walk(first: datetime) -> Iterator[datetime]:
        midnight = first.replace(hour=0, minute=0, second=0, microsecond=0)
        past = (first - midnight).total_seconds()
        moment = midnight + timedelta(seconds=-(-past // step) * step)
        while True:
            yield moment
            if datetime.max - moment < timedelta(seconds=step):  # the end of the calendar
                return
            moment += timedelta(seconds=step)

    return walk


def _months(step: int) -> Callable[[datetime], Iterator[datetime]]:
    """The first days of every so many months, in step with the year 0."""

    def walk(first: datetime) -> Iterator[datetime]:
        month = (first.year * 12 + first.month - 1) // step * step
        while month // 12 <= date.max.year:
            if month >= 12:
                yield first.replace(
                    year=month // 12, month=month % 12 + 1, day=1, hour=0, minute=0, second=0, microsecond=0
                )
            month += step

    return walk


def _moment(instant: Instant) -> datetime:
    if isinstance(instant, datetime):
        return instant.replace(tzinfo=None)
    return datetime(instant.year, instant.month, instant.day)


def _days(span: timedelta) -> float:
    return span.total_seconds() / _DAY


def _as_second(moment: datetime) -> str:
    return moment.strftime("%H:%M:%S")


def _as_minute(moment: datetime) -> str:
    return moment.strftime("%H:%M") if moment.hour or moment.minute else _as_day(moment)


def _as_day(moment: datetime) -> str:
    return f"{_MONTHS[moment.month - 1]} {moment.day}"


def _as_month(moment: datetime) -> str:
    return f"{_MONTHS[moment.month - 1]} {moment.year}"


def _as_year(moment: datetime) -> str:
    return str(moment.year)


_TENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_STEPS: tuple[tuple[Callable[[datetime], Iterator[datetime]], Callable[[datetime], str]], ...] = (
    *((_seconds(step), _as_second) for step in (1, 5, 15, 30)),
    *((_seconds(60 * step), _as_minute) for step in (1, 5, 15, 30)),
    *((_seconds(3600 * step), _as_minute) for step in (1, 3, 6, 12)),
    *((_seconds(86_400 * step), _as_day) for step in (1, 2, 5, 10, 14)),
    *((_months(step), _as_month) for step in (1, 2, 3, 6)),
    *((_months(12 * step), _as_year) for step in _TENS),
)
"""From the finest to the coarsest: how to walk, and how to write where one stands."""
