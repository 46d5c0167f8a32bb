"""From noisy measures to the numbers that were asked for, with intervals. All of it is post-processing.

An interval covers the number that the same bounded aggregate would have without noise: what bounding changed is told in
the notes of the answer.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.mechanisms.grid import Grid, add
from discreet.sql.algebra import Sum
from discreet.sql.draft import Derived, Direct, Mean, Total
from discreet.sql.release import Release

Numbers = NDArray[np.int64] | NDArray[np.float64]
Steps = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Values:
    """Released numbers, one a group; `missing` where there is none (a mean of nothing)."""

    numbers: Numbers
    missing: NDArray[np.bool_] | None = None


def values(release: Release, derived: Derived, measures: list[Steps]) -> Values:
    """The numbers that an aggregate has in each group."""
    match derived:
        case Direct():
            return Values(_numbers(measures[derived.measure], derived.step))
        case Total():
            total, count = measures[derived.total], measures[derived.count]
            return Values(_sum(total, count, derived))
        case Mean():
            total, count = measures[derived.total], measures[derived.count]
            mean = (derived.offset + total / np.maximum(count, 1)) * float(derived.kind.step)
            return Values(_held(mean, derived), count < 1)


def interval(
    release: Release, derived: Derived, measures: list[Steps], doubt: Fraction
) -> tuple[NDArray[np.float64] | Steps, NDArray[np.float64] | Steps]:
    """Low and high ends that hold the number without noise, each with probability at least 1 − doubt.

    A number made of two measures uses half of the doubt for each: both lie within their widths with probability at
    least 1 − doubt, and the ends are the extremes over such pairs. Counts are never negative, nor are their ends.
    """
    if isinstance(derived, Direct):
        width = release.noises[derived.measure].interval(1 - doubt)
        ends = [add(measures[derived.measure], np.int64(sign * width)) for sign in (-1, 1)]  # type: ignore[arg-type]
        if not isinstance(release.aggregate.measures[derived.measure], Sum):
            ends = [np.maximum(end, 0) for end in ends]
        return _numbers(ends[0], derived.step), _numbers(ends[1], derived.step)
    total, count = measures[derived.total], measures[derived.count]
    wide, far = (release.noises[place].interval(1 - doubt / 2) for place in (derived.total, derived.count))
    if isinstance(derived, Total):
        slack = float((wide + abs(derived.offset) * far) * derived.step)
        middle = _sum(total, count, derived)
        return _below(middle - slack), _above(middle + slack)
    lows, highs = total.astype(np.float64) - wide, total.astype(np.float64) + wide
    few, many = np.maximum(count - far, 1).astype(np.float64), np.maximum(count + far, 1).astype(np.float64)
    step = float(derived.kind.step)
    low = (derived.offset + np.where(lows >= 0, lows / many, lows / few)) * step
    high = (derived.offset + np.where(highs >= 0, highs / few, highs / many)) * step
    return _held(_below(low), derived), _held(_above(high), derived)


def _sum(total: Steps, count: Steps, derived: Total) -> NDArray[np.float64] | Steps:
    """total + offset·count, exactly; held at the ends of 64 bits."""
    reach = int(np.abs(count).max(initial=0)) * abs(derived.offset)
    if reach < 2**61 and int(np.abs(total).max(initial=0)) < 2**61:
        return _numbers(total + derived.offset * count, derived.step)
    exact = (int(a) + derived.offset * int(b) for a, b in zip(total, count, strict=True))
    return _numbers(np.array([max(-(2**63), min(2**63 - 1, one)) for one in exact], np.int64), derived.step)


def _numbers(steps: Steps, step: Fraction) -> NDArray[np.float64] | Steps:
    return steps if step == 1 else Grid(step).floats(steps)


def _held(numbers: NDArray[np.float64], derived: Mean) -> NDArray[np.float64]:
    """Held within the bounds of the value, where its mean is known to lie."""
    lower, upper = derived.kind.lower or 0, derived.kind.upper or 0
    return np.clip(numbers, float(lower * derived.kind.step), float(upper * derived.kind.step))


def _below(numbers: NDArray[np.floating] | Steps) -> NDArray[np.float64]:
    return np.nextafter(numbers.astype(np.float64), -np.inf)


def _above(numbers: NDArray[np.floating] | Steps) -> NDArray[np.float64]:
    return np.nextafter(numbers.astype(np.float64), np.inf)
