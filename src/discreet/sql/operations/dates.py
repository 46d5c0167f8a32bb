"""Operations on dates and times.

Engines give dates within the years 1 to 9999, or null (`curator.engines`): there, none of these is null by itself.
"""

from datetime import date, datetime
from fractions import Fraction

from discreet.sql.expression import Expression, Unfit, call, constant
from discreet.sql.kinds import Day, Fixed, Moment

PARTS: dict[str, tuple[int, int]] = {
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

TRUNCATIONS = ("year", "quarter", "month", "week", "day", "hour", "minute")


def part(name: str, one: Expression) -> Expression:
    """The year, month, … of a date or time."""
    if name not in PARTS:
        raise Unfit(f"the part {name!r} of a date", f"one of {', '.join(PARTS)}")
    if isinstance(one.kind, Day) and name in ("hour", "minute", "second"):
        raise Unfit(f"the {name} of a date", "take it from a time (timestamp)")
    _expect(one, Day | Moment, name.upper())
    lower, upper = PARTS[name]
    return call(name, one, kind=Fixed(Fraction(1), lower, upper))


def truncate(unit: str, one: Expression) -> Expression:
    """The first moment of the year, month, … that a date or time lies in."""
    if unit not in TRUNCATIONS:
        raise Unfit(f"DATE_TRUNC to {unit!r}", f"one of {', '.join(TRUNCATIONS)}")
    _expect(one, Day | Moment, "DATE_TRUNC")
    kind = Moment() if isinstance(one.kind, Moment) and unit in ("hour", "minute") else Day()
    return call("truncate", one, constant(unit), kind=kind)


def day_of(one: Expression) -> Expression:
    """The date of a time."""
    _expect(one, Day | Moment, "CAST to DATE")
    return one if isinstance(one.kind, Day) else call("to_day", one, kind=Day())


def iso(kind: type[date], written: str) -> date:
    """A date or time from its ISO text."""
    try:
        value = kind.fromisoformat(written.strip())
    except ValueError:
        raise Unfit(f"the text {written!r} beside a date", "write dates as '2024-12-31'") from None
    if isinstance(value, datetime) and value.tzinfo is not None:
        raise Unfit("a time with a zone", "write it without a zone")
    return value


def _expect(one: Expression, kind: object, what: str) -> None:
    if not isinstance(one.kind, kind):  # type: ignore[arg-type]
        raise Unfit(f"{what} of {one.kind}", "use a column of the right kind")
