"""Fewer items for a long bill: near ones are replaced by one that covers them all.

Guarantee: the merged bill covers the bill (`bill.item_covers`, checked for every item), so what bounds it bounds the
bill. Which items are merged matters for tightness only: near items are joined where that adds the least to the sum of
squared losses, which is about the variance of the total.
"""

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from discreet.errors import NoGuarantee
from discreet.privacy.accounting.itemization import Item, item_covers
from discreet.privacy.accounting.rounding import loss_up, noise_down, short_up
from discreet.privacy.loss import (
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    LaplaceNoise,
    Pure,
    SampledGaussian,
)

Items = tuple[tuple[Item, int], ...]
Mergeable = Pure | BoundedRange | LaplaceNoise | SampledGaussian


def merged(items: Items, *, most: int) -> Items:
    """Items that cover the given ones, at most about `most` of them; those given where they are few enough.

    >>> few = merged(tuple((LaplaceNoise(m), 1) for m in range(1, 101)), most=50)
    >>> len(few), sum(count for _, count in few)
    (50, 100)
    """
    if len(items) <= most:
        return items
    kinds: dict[type[Item], list[tuple[Mergeable, int]]] = {}
    rest: list[tuple[Item, int]] = []
    rho = Fraction(0)
    for item, count in items:
        match item:
            case Pure() | BoundedRange() | LaplaceNoise() | SampledGaussian():
                kinds.setdefault(type(item), []).append((item, count))
            case DiscreteGaussianNoise(sigma, sensitivity):  # profiles of different σ cross; ρ's do not
                rho += count * sensitivity**2 / sigma**2 / 2
            case Concentrated():
                rho += count * item.rho
            case _:
                rest.append((item, count))
    if rho:
        rest.append((Concentrated(short_up(rho)), 1))
    room = most - len(rest)
    if room < len(kinds):
        raise NoGuarantee(f"more than {most} parallel parts in one plan are too many to convolve; use `rdp`")
    total = sum(len(each) for each in kinds.values())
    for each in kinds.values():
        rest.extend(_fewer(each, max(1, room * len(each) // total)))
    return tuple(rest)


@dataclass(slots=True)
class _Class:
    """Neighboring items under one that covers them; `before` and `after` are the classes beside it."""

    cover: Mergeable
    count: int
    members: list[Mergeable]
    before: int
    after: int
    version: int = 0


def _fewer(items: Sequence[tuple[Mergeable, int]], most: int) -> list[tuple[Item, int]]:
    """Items of one kind under at most `most` covers."""
    ordered = _ordered(items, most)
    classes = {i: _Class(item, count, [item], i - 1, i + 1) for i, (item, count) in enumerate(ordered)}
    heap = [(_increase(classes[i], classes[i + 1]), i, 0, i + 1, 0) for i in range(len(ordered) - 1)]
    heapq.heapify(heap)
    while len(classes) > most:
        _, left, left_version, right, right_version = heapq.heappop(heap)
        if left not in classes or right not in classes:
            continue
        a, b = classes[left], classes[right]
        if (a.version, b.version) != (left_version, right_version):
            continue
        a.cover, a.count, a.after = _cover(a.cover, b.cover), a.count + b.count, b.after
        a.members.extend(b.members)
        a.version += 1
        del classes[right]
        if a.after in classes:
            classes[a.after].before = left
            heapq.heappush(heap, (_increase(a, classes[a.after]), left, a.version, a.after, classes[a.after].version))
        if a.before in classes:
            before = classes[a.before]
            heapq.heappush(heap, (_increase(before, a), a.before, before.version, left, a.version))
    for each in classes.values():
        if not all(item_covers(each.cover, member) for member in each.members):
            raise NoGuarantee("unlike losses could not be merged; the Rényi accountant may answer")
    return [(each.cover, each.count) for each in classes.values()]


def _increase(a: _Class, b: _Class) -> float:
    return (
        (a.count + b.count) * _square(_cover(a.cover, b.cover))
        - a.count * _square(a.cover)
        - b.count * _square(b.cover)
    )


def _ordered(items: Sequence[tuple[Mergeable, int]], most: int) -> list[tuple[Mergeable, int]]:
    """Near items next to each other: by size, and sampled Gaussians by bands of noise, to and fro by rate."""
    by_noise = sorted(items, key=lambda each: (_noise(each[0]), _square(each[0])))
    if not isinstance(items[0][0], SampledGaussian):
        return sorted(by_noise, key=lambda each: _square(each[0]))
    bands = max(1, math.isqrt(most))
    cuts = [len(by_noise) * i // bands for i in range(bands + 1)]
    ordered: list[tuple[Mergeable, int]] = []
    for i in range(bands):
        band = sorted(by_noise[cuts[i] : cuts[i + 1]], key=lambda each: _square(each[0]), reverse=bool(i % 2))
        ordered.extend(band)
    return ordered


def _noise(item: Mergeable) -> Fraction:
    return item.multiplier if isinstance(item, SampledGaussian) else Fraction(0)


def _cover(a: Mergeable, b: Mergeable) -> Mergeable:
    """The least item of this kind that covers both."""
    match a, b:
        case SampledGaussian(q, m), SampledGaussian(r, n):
            return SampledGaussian(max(q, r), min(m, n))
        case _:
            return a if item_covers(a, b) else b


def _square(item: Mergeable) -> float:
    """About the mean square of the loss."""
    match item:
        case Pure(epsilon):
            return loss_up(epsilon) ** 2
        case BoundedRange(epsilon):
            return loss_up(epsilon) ** 2 / 4
        case LaplaceNoise(multiplier):
            return noise_down(multiplier) ** -2
        case SampledGaussian(rate, multiplier):
            inverse = noise_down(multiplier) ** -2
            return min(loss_up(rate) ** 2 * math.expm1(min(inverse, 50.0)), inverse)
