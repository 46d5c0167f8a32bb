"""Operations on dates and times, each with the span that its values lie in.

Differences and shifts are arithmetic on whole numbers: a date is a number of days, a time one of microseconds, both
from 1970 on. What would leave the years 1 to 9999 is null.
"""

from collections.abc import Sequence
from datetime import date, datetime, timedelta
from fractions import Fraction

from discreet.sql.algebra import functions, kinds
from discreet.sql.algebra.conditions import WHOLE, beside, compare, in_steps, range_of, step_of
from discreet.sql.algebra.expression import Constant, Expression, call, constant
from discreet.sql.algebra.kinds import (
    FIRST,
    LAST,
    UNITS,
    Day,
    Fixed,
    Kind,
    Moment,
    Text,
    Unsupported,
    calendar_of,
    truncated,
)

DATE_PARTS: dict[str, tuple[int, int]] = {
    "year": (-5877641, 5881580),
    "quarter": (1, 4),
    "month": (1, 12),
    "week": (1, 53),
    "day": (1, 31),
    "dayofyear": (1, 366),
    "dayofweek": (0, 6),
    "isodow": (1, 7),
    "hour": (0, 23),
    "minute": (0, 59),
    "second": (0, 59),
}
"""The parts of dates and times, and the range that each has whatever the date."""


def date_part(name: str, value: Expression) -> Expression:
    """The year, month, … of a date or time."""
    if name not in DATE_PARTS:
        raise Unsupported(f"the part {name!r} of a date", f"one of {', '.join(DATE_PARTS)}")
    if isinstance(value.kind, Day) and name in ("hour", "minute", "second"):
        raise Unsupported(f"the {name} of a date", "take it from a time (timestamp)")
    _expect_date(value, Day | Moment, name.upper())
    lower, upper = DATE_PARTS[name]
    span = bounds_of(value)
    if name == "year" and span is not None:
        lower, upper = span[0].year, span[1].year
    return call(name, value, kind=Fixed(WHOLE, lower, upper))


def truncate_date(unit: str, value: Expression) -> Expression:
    """The first moment of the year, month, … that a date or time lies in."""
    if unit not in UNITS:
        raise Unsupported(f"DATE_TRUNC to {unit!r}", f"one of {', '.join(UNITS)}")
    _expect_date(value, Day | Moment, "DATE_TRUNC")
    timed = isinstance(value.kind, Moment) and unit in ("hour", "minute")
    span = bounds_of(value)
    if span is None:
        return call("truncate", value, constant(unit), kind=Moment() if timed else Day())
    kind = _spanned(*(truncated(unit, end) for end in span))
    return call("truncate", value, constant(unit), kind=kind, domain=calendar_of(unit, *span))


def _spanned(first: date, last: date) -> Kind:
    """Dates from the first to the last, or times where these are times."""
    return Moment(first, last) if isinstance(first, datetime) and isinstance(last, datetime) else Day(first, last)


def day_of(value: Expression) -> Expression:
    """The date of a time."""
    _expect_date(value, Day | Moment, "CAST to DATE")
    if isinstance(value.kind, Day):
        return value
    span = bounds_of(value)
    return call("to_day", value, kind=Day() if span is None else Day(*(truncated("day", end) for end in span)))


def bounds_of(value: Expression) -> tuple[date, date] | None:
    """The first and the last date or time that a value can be, where that is known."""
    match value.kind:
        case Day(date() as first, date() as last) | Moment(datetime() as first, datetime() as last):
            return first, last
        case Day() | Moment() if isinstance(value, Constant) and isinstance(value.value, date):
            return value.value, value.value
        case _:
            return None


def _expect_date(value: Expression, kind: object, what: str) -> None:
    if not isinstance(value.kind, kind):  # type: ignore[arg-type]
        raise Unsupported(f"{what} of {value.kind}", "use a column of the right kind")


# As whole numbers

MICROSECOND = Fraction(1, 10**6)
_FIRST_MOMENT, _LAST_MOMENT = datetime.min, datetime.max
_DAYS = (kinds.day_number(FIRST), kinds.day_number(LAST))
_MOMENTS = (kinds.microsecond_number(_FIRST_MOMENT), kinds.microsecond_number(_LAST_MOMENT))


def number_of_day(value: Expression) -> Expression:
    """How many days after 1970-01-01 a date is."""
    _expect_date(value, Day, "the number of days")
    first, last = bounds_of(value) or (FIRST, LAST)
    ends = kinds.day_number(first), kinds.day_number(last)
    if isinstance(value, Constant):
        return constant(ends[0])
    return call("day_number", value, kind=Fixed(WHOLE, *ends))


def number_of_moment(value: Expression) -> Expression:
    """How many seconds after 1970-01-01 a time is, to the microsecond."""
    _expect_date(value, Moment, "the number of seconds")
    ends = [kinds.microsecond_number(end) if isinstance(end, datetime) else 0 for end in bounds_of(value) or ()]
    low, high = (ends[0], ends[1]) if ends else _MOMENTS
    if isinstance(value, Constant):
        return constant(low * MICROSECOND)
    return call("microsecond_number", value, kind=Fixed(MICROSECOND, low, high))


def day_of_number(value: Expression) -> Expression:
    """The date that is so many days after 1970-01-01; null outside the years 1 to 9999."""
    if step_of(value).denominator != 1:
        raise Unsupported("a part of a day added to a date", "add whole days")
    whole = in_steps(value, WHOLE)
    low, high = _inside(whole, _DAYS)
    ends = (date.fromordinal(end - _DAYS[0] + 1) for end in (low, high))
    nullable = value.nullable or (low, high) != range_of("+", whole)
    return call("day_of_number", whole, kind=Day(*ends), nullable=nullable)


def moment_of_number(value: Expression) -> Expression:
    """The time that is so many seconds after 1970-01-01; null outside the years 1 to 9999."""
    if (step_of(value) / MICROSECOND).denominator != 1:
        raise Unsupported("seconds finer than a microsecond", "use whole microseconds")
    steps = in_steps(value, MICROSECOND)
    low, high = _inside(steps, _MOMENTS)
    ends = (_FIRST_MOMENT + timedelta(microseconds=end - _MOMENTS[0]) for end in (low, high))
    nullable = value.nullable or (low, high) != range_of("+", steps)
    return call("moment_of_number", steps, kind=Moment(*ends), nullable=nullable)


def _inside(value: Expression, ends: tuple[int, int]) -> tuple[int, int]:
    low, high = range_of("+", value)
    if low > ends[1] or high < ends[0]:
        raise Unsupported("a date outside the years 1 to 9999", "use a smaller interval")
    return max(low, ends[0]), min(high, ends[1])


def moment_of(value: Expression) -> Expression:
    """A date as the first moment of its day; a time stays as it is."""
    if isinstance(value, Constant) and isinstance(value.value, date) and not isinstance(value.value, datetime):
        return constant(datetime.combine(value.value, datetime.min.time()))
    _expect_date(value, Day | Moment, "CAST to TIMESTAMP")
    if isinstance(value.kind, Moment):
        return value
    return moment_of_number(functions.multiply(number_of_day(value), constant(86400)))


# Differences and shifts

_INDEX = {"quarter": 4, "month": 12}
_SECONDS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
_MOST_MONTHS = 12 * 10_000


def difference(unit: str, start: Expression, end: Expression) -> Expression:
    """DATE_DIFF: how many beginnings of a unit lie after the start and up to the end; complete weeks."""
    start, end = beside(start, end), beside(end, start)
    for value in (start, end):
        _expect_date(value, Day | Moment, "DATE_DIFF")
    if unit == "week":
        days = functions.subtract(_index("day", end), _index("day", start))
        return functions.truncate_number(functions.divide(days, constant(7)))
    if unit in ("hour", "minute", "second") and any(isinstance(value.kind, Moment) for value in (start, end)):
        start, end = moment_of(start), moment_of(end)
    return functions.subtract(_index(unit, end), _index(unit, start))


def _index(unit: str, value: Expression) -> Expression:
    """The number of the unit that a date or time lies in, counted from any beginning."""
    match unit:
        case "year":
            return date_part("year", value)
        case "quarter" | "month":
            years = functions.multiply(date_part("year", value), constant(_INDEX[unit]))
            return functions.add(years, date_part(unit, value))
        case "day":
            return number_of_day(day_of(value))
        case "hour" | "minute" | "second" if isinstance(value.kind, Moment):
            return functions.floor_of(functions.divide(number_of_moment(value), constant(_SECONDS[unit])))
        case _:
            hint = f"one of {', '.join(UNITS)}; hours of times only: CAST(day AS TIMESTAMP)"
            raise Unsupported(f"DATE_DIFF in {unit!r} of {value.kind}", hint)


def years_between(start: Expression, end: Expression) -> Expression:
    """Complete years from one date to another, as ages are told; somebody born on February 29 is older on March 1."""
    start, end = beside(start, end), beside(end, start)
    years = difference("year", start, end)
    places = [
        functions.add(functions.multiply(date_part("month", value), constant(100)), date_part("day", value))
        for value in (end, start)
    ]
    return functions.subtract(years, functions.number_of(compare("less", *places)))


def shift(value: Expression, count: int, unit: str) -> Expression:
    """A date or time and an interval that is written in the statement."""
    _expect_date(value, Day | Moment, "an interval added to something")
    if unit in MONTHS:
        return _plus_months(value, count * MONTHS[unit])
    if unit not in _SECONDS or (isinstance(value.kind, Day) and unit not in ("day", "week")):
        raise Unsupported(
            f"{unit}s added to {value.kind}", "add days, weeks, months, quarters or years; hours to times"
        )
    if isinstance(value.kind, Day):
        return shift_days(value, constant(count * _SECONDS[unit] // 86400))
    return moment_of_number(functions.add(number_of_moment(value), constant(count * _SECONDS[unit])))


def shift_days(value: Expression, days: Expression) -> Expression:
    """A date and a number of days, which may come from a column."""
    return day_of_number(functions.add(number_of_day(value), days))


def _plus_months(value: Expression, months: int) -> Expression:
    if abs(months) > _MOST_MONTHS:
        raise Unsupported("an interval this long", "use at most 10,000 years")
    whole = (_FIRST_MOMENT, _LAST_MOMENT) if isinstance(value.kind, Moment) else (FIRST, LAST)
    span = bounds_of(value) or whole
    ends, clipped = [], False
    for end in span:
        try:
            ends.append(kinds.plus_months(end, months))
        except OverflowError:
            ends.append(whole[months > 0])
            clipped = True
    if ends[0] == ends[1] == whole[months > 0] and clipped:
        raise Unsupported("a date outside the years 1 to 9999", "use a smaller interval")
    nullable = value.nullable or clipped
    return call("plus_months", value, constant(months), kind=_spanned(*ends), nullable=nullable)


def make_date(year: Expression, month: Expression, day: Expression) -> Expression:
    """The date of a year, month and day; null where there is none, and outside the years 1 to 9999."""
    for part in (year, month, day):
        if step_of(part) != 1:
            raise Unsupported("MAKE_DATE of numbers that are not whole", "ROUND them first")
    first, last = FIRST.year, LAST.year
    if isinstance(year.kind, Fixed) and year.kind.lower is not None and year.kind.upper is not None:
        first, last = max(first, year.kind.lower), min(last, year.kind.upper)
    if first > last:
        raise Unsupported("MAKE_DATE outside the years 1 to 9999", "use another year")
    return call("make_date", year, month, day, kind=Day(date(first, 1, 1), date(last, 12, 31)), nullable=True)


def last_day(value: Expression) -> Expression:
    """The last day of the month of a date."""
    following = _plus_months(truncate_date("month", value), 1)
    return shift_days(following, constant(-1))


def outermost(latest: bool, values: Sequence[Expression]) -> Expression:
    """The earliest or the latest of several dates or times; nulls are left out."""
    dated = [value for value in values if isinstance(value.kind, Day | Moment)]
    same = [beside(value, dated[0]) for value in values]
    if all(isinstance(value.kind, Day) for value in same):
        return day_of_number(functions.extreme(latest, [number_of_day(value) for value in same]))
    return moment_of_number(functions.extreme(latest, [number_of_moment(moment_of(value)) for value in same]))


FORMATS = {"%Y": 4, "%m": 2, "%d": 2, "%H": 2, "%M": 2}
"""What STRFTIME may write of a date, each with its number of characters."""

_LISTED = 20_000


def format_date(value: Expression, pattern: Expression) -> Expression:
    """A date in the digits of its year, month and day: STRFTIME."""
    _expect_date(value, Day | Moment, "STRFTIME")
    text = pattern.value if isinstance(pattern, Constant) and isinstance(pattern.value, str) else ""
    parts = _format_parts(text)
    if not parts or (isinstance(value.kind, Day) and {"%H", "%M"} & set(parts)):
        raise Unsupported("STRFTIME with this format", f"use {', '.join(FORMATS)} and the signs - / . : and blank")
    domain = None
    listed = value.domain if isinstance(value.kind, Day) else day_of(value).domain
    if listed is not None and len(listed) <= _LISTED and not {"%H", "%M"} & set(parts):
        domain = tuple(dict.fromkeys(_formatted(day, parts) for day in listed if isinstance(day, date)))
    size = sum(FORMATS.get(part, 1) for part in parts)
    return call("format_date", value, constant(text), kind=Text(size), domain=domain)


def _format_parts(text: str) -> list[str]:
    parts, rest = [], text
    while rest:
        part = rest[:2] if rest[0] == "%" else rest[0]
        if part not in FORMATS and part not in tuple("-/.: "):
            return []
        parts.append(part)
        rest = rest[len(part) :]
    return parts if len(parts) <= 20 else []


def _formatted(day: date, parts: Sequence[str]) -> str:
    numbers = {"%Y": f"{day.year:04}", "%m": f"{day.month:02}", "%d": f"{day.day:02}"}
    return "".join(numbers.get(part, part) for part in parts)
