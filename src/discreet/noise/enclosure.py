"""Enclosures of positive numbers by integers, and decision tables from enclosed weights."""

from collections.abc import Callable

from discreet.noise.table import Table

Interval = tuple[int, int]
Sums = tuple[list[Interval], Interval]
"""Enclosures of the weights summed up to each outcome, and of the sum over all of them, to one precision."""


def cumulative(sums: Callable[[int], Sums]) -> Table:
    """The decision table of an infinite distribution, from sums of its weights to any precision."""

    def enclose(i: int, bits: int) -> Interval:
        parts, total = sums(bits)
        return ratio(parts[i] if i < len(parts) else (parts[-1][0], total[1]), total, bits)

    parts, total = sums(64)
    bounds = [ratio(part, total, 64) for part in parts]
    last = next(i for i, (lo, _) in enumerate(bounds) if lo >= (1 << 64) - 2)
    return Table(bounds[: last + 1], enclose)


def ratio(part: Interval, total: Interval, bits: int) -> Interval:
    """2^bits·part/total, rounded outwards, at most 2^bits.

    >>> ratio((1, 1), (3, 3), 8)
    (85, 86)
    """
    return (part[0] << bits) // total[1], min(-((-part[1] << bits) // total[0]), 1 << bits)


def times(a: Interval, b: Interval, precision: int) -> Interval:
    """The product of two numbers below 2^precision that stand for fractions of it, rounded outwards.

    >>> times((8, 8), (9, 10), 4)
    (4, 5)
    """
    return (a[0] * b[0]) >> precision, -((-a[1] * b[1]) >> precision)
