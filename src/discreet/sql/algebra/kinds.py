"""What an expression over private rows can be: its kind, with bounds where it has them.

Numbers are *fixed-point*: whole numbers of steps, so that the private engine computes with integers alone. Adding finds
a common step, multiplying multiplies steps, dividing by a constant only renames the step. Every node knows an interval
that its steps cannot leave, so nothing overflows and a sum has a sensitivity.
"""

from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from math import gcd, lcm

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
