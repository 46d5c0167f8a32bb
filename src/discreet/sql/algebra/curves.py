"""Logarithms and the exponential function of bounded numbers, as tables: whole numbers that are the same everywhere.

Libraries of engines do not agree on the last digit of a logarithm. So where an argument can take few values only, the
nearest step of each result is computed when the question is planned, exactly, and the engine looks it up.
"""

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

from discreet.exact import exp_bounds, log_bounds
from discreet.sql.algebra.conditions import range_of, step_of
from discreet.sql.algebra.expression import Expression, call
from discreet.sql.algebra.functions import GRIDS
from discreet.sql.algebra.kinds import Fixed, Unsupported

MOST_ARGUMENTS = 10_000
"""Values of an argument: so many are looked up."""

_MOST_STEPS = 2**40

CURVES: dict[str, Callable[[float], float]] = {"ln": math.log, "log10": math.log10, "log2": math.log2, "exp": math.exp}


def curve(name: str, value: Expression) -> Expression:
    """The logarithm or exponential function of a number, to the nearest step; null where there is none."""
    word = name.upper()
    range_of(word, value)
    kind, step = value.kind, step_of(value)
    first, last = _arguments(name, kind)
    if first > last:
        raise Unsupported(f"{word} of numbers that are all zero or less", "use numbers above 0")
    if last - first >= MOST_ARGUMENTS:
        hint = f"at most {MOST_ARGUMENTS:,} values can be looked up: ROUND it to fewer digits first"
        raise Unsupported(f"{word} of {last - first + 1:,} values ({kind})", hint)
    if name == "exp" and last * step > 40:
        raise Unsupported(f"EXP of {kind}", "use narrower bounds: at most 40")
    nullable = value.nullable or first > range_of(word, value)[0]
    grid = _grid(name, step, first, last)
    ends = (_nearest(name, end * step, grid) for end in (first, last))
    return call(name, value, kind=Fixed(grid, *ends), nullable=nullable)


def table(name: str, kind: Fixed, grid: Fraction) -> tuple[int, list[int]]:
    """The first argument that has a value, and the values from there on, in steps of the grid."""
    first, last = _arguments(name, kind)
    return first, list(_values(name, kind.step, first, last, grid))


def _values(name: str, step: Fraction, first: int, last: int, grid: Fraction) -> Iterator[int]:
    return (_nearest(name, steps * step, grid) for steps in range(first, last + 1))


def _arguments(name: str, kind: object) -> tuple[int, int]:
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise Unsupported(f"{name.upper()} of a number without bounds", "declare bounds in the policy")
    return (kind.lower if name == "exp" else max(1, kind.lower)), kind.upper


def _grid(name: str, step: Fraction, first: int, last: int) -> Fraction:
    """The finest grid on which all results are below 2^40 steps."""
    most = max(abs(CURVES[name](float(end * step))) for end in (first, last))
    return next(grid for grid in GRIDS if grid == 1 or most / grid < _MOST_STEPS)


@cache
def _nearest(name: str, x: Fraction, grid: Fraction) -> int:
    """The whole number nearest to f(x)/grid.

    Floats are off by less than 2^−50 of the result, which is below 2^−10 steps; nearer to a half, bounds decide.
    """
    guess = Fraction(CURVES[name](float(x))) / grid
    near = math.floor(guess + Fraction(1, 2))
    if abs(guess - near) < Fraction(49, 100):
        return near
    bits = 64
    while True:
        low, high = (math.floor(end / grid + Fraction(1, 2)) for end in _enclosure(name, x, bits))
        if low == high:
            return low
        bits *= 2


def _enclosure(name: str, x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals that f(x) lies between."""
    scale = Fraction(1, 1 << bits)
    if name == "exp":
        low, high = exp_bounds(x, bits)
        return low * scale, high * scale
    low, high = log_bounds(x, bits)
    if name == "ln":
        return low * scale, high * scale
    least, most = log_bounds(Fraction({"log2": 2, "log10": 10}[name]), bits)
    ends = [Fraction(top, bottom) for top in (low, high) for bottom in (least, most)]
    return min(ends), max(ends)
