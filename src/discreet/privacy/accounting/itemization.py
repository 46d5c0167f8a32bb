"""A loss as a bill: which atomic losses it holds, and how often.

Every accountant walks over a loss with `fold`, so there is **one place that multiplies by a count** and one
that knows what Together and Parallel mean. `bill` uses it to write a loss as atoms with counts: nesting and
order disappear, equal atoms are counted, Gaussians become one Gaussian, parts that cannot matter are dropped.

Fewer items for a long bill: near ones are replaced by one that covers them all.

Guarantee: the merged bill covers the bill (`bill.item_covers`, checked for every item), so what bounds it bounds the
bill. Which items are merged matters for tightness only: near items are joined where that adds the least to the sum of
squared losses, which is about the variance of the total.
"""

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar, assert_never, get_args

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.privacy.accounting.rounding import loss_up, noise_down, short_up
from discreet.privacy.loss import (
    Approximate,
    Atom,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    PerDistance,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)

_NEARLY_ALL = 1 - Fraction(1, 10**9)
"""A sample this large is taken for everybody, which costs no less."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Algebra(Generic[T]):
    """What an accountant must know to add up a loss: the price of an atom, and how prices combine."""

    atom: Callable[[Atom], T]
    times: Callable[[int, T], T]
    total: Callable[[Sequence[T]], T]
    most: Callable[[Sequence[T]], T]


def fold(loss: Loss, algebra: Algebra[T]) -> T:
    """The price of a loss, from the prices of its atoms.

    Nothing is the total of no losses; a loss repeated 0 times is nothing.

    >>> from discreet.privacy.loss import Pure, Repeated, Together
    >>> count = Algebra(atom=lambda a: 1, times=lambda n, x: n * x, total=sum, most=max)
    >>> fold(Together(Pure(1), Repeated(Together(Pure(1), Pure(2)), 3)), count)
    7
    """
    known(loss)
    match loss:
        case Repeated(inner, count):
            return algebra.times(count, fold(inner, algebra)) if count else algebra.total([])
        case Together(parts):
            return algebra.total([fold(part, algebra) for part in parts])
        case Parallel(parts):
            return algebra.most([fold(part, algebra) for part in parts]) if parts else algebra.total([])
        case (
            Pure()
            | BoundedRange()
            | Approximate()
            | Concentrated()
            | LaplaceNoise()
            | GaussianNoise()
            | DiscreteGaussianNoise()
            | SampledGaussian()
            | PerDistance()
        ):
            return algebra.atom(loss)
    assert_never(loss)


def known(loss: Loss) -> Loss:
    """The loss itself, after making sure that it is one.

    >>> from discreet.privacy.loss import Pure
    >>> known(Pure(1))
    Pure(epsilon=1)
    """
    if type(loss) not in get_args(Loss):
        raise InvalidParameter("loss", loss, "a loss, such as Pure(epsilon)", "see discreet.privacy.loss")
    return loss


def rationals(atom: Callable[[Atom], Fraction]) -> Algebra[Fraction]:
    """The plainest algebra: exact prices that add up, the greatest over disjoint parts.

    >>> from discreet.privacy.loss import Parallel, Pure, Repeated, Together
    >>> fold(Parallel(Repeated(Pure("0.1"), 5), Pure("0.4")), rationals(lambda atom: atom.epsilon))
    Fraction(1, 2)
    """
    return Algebra(atom=atom, times=_rational_times, total=_rational_total, most=_rational_most)


def _rational_times(count: int, each: Fraction) -> Fraction:
    return count * each


def _rational_total(parts: Sequence[Fraction]) -> Fraction:
    return sum(parts, Fraction(0))


def _rational_most(parts: Sequence[Fraction]) -> Fraction:
    return max(parts)


@dataclass(frozen=True, slots=True)
class Normal:
    """All the Gaussian noise of a bill: Gaussian noise of deviation 1 against a shift by μ, with μ² = `square`.

    n independent Gaussians of multipliers mᵢ are one of μ² = Σ 1/mᵢ²: project on the direction of the shift.
    """

    square: Fraction


@dataclass(frozen=True, slots=True)
class Choice:
    """One of these bills, whichever the unit falls under; none of them covers another."""

    bills: tuple["Bill", ...]


Item = (
    Pure
    | BoundedRange
    | Approximate
    | Concentrated
    | LaplaceNoise
    | Normal
    | DiscreteGaussianNoise
    | SampledGaussian
    | PerDistance
    | Choice
)


@dataclass(frozen=True, slots=True)
class Bill:
    """Items with counts, in a fixed order, so that equal bills are equal values."""

    items: tuple[tuple[Item, int], ...]

    @property
    def count(self) -> int:
        """How many releases."""
        return sum(count for _, count in self.items)


NOTHING = Bill(())


def bill(loss: Loss) -> Bill:
    """The loss as atoms with counts.

    >>> from discreet.privacy.loss import GaussianNoise, Pure, Repeated, Together
    >>> bill(Together(Repeated(GaussianNoise(2), 8), Pure(1), Pure(1))).items
    ((Normal(square=Fraction(2, 1)), 1), (Pure(epsilon=1), 2))
    """
    return _bill(known(loss))


@lru_cache(maxsize=256)
def _bill(loss: Loss) -> Bill:
    return fold(loss, Algebra(atom=_of_atom, times=_times, total=_total, most=_most))


def _of_atom(atom: Atom) -> Bill:  # noqa: PLR0911
    """One atom in its simplest form: the same loss, written in one way only."""
    match atom:
        case Pure(epsilon) | BoundedRange(epsilon):
            return _one(atom) if epsilon else NOTHING
        case Approximate(epsilon, delta):
            return _one(atom) if delta else _of_atom(Pure(epsilon))
        case Concentrated(rho):
            return _one(atom) if rho else NOTHING
        case GaussianNoise(multiplier):
            return _one(Normal(1 / multiplier**2))
        case DiscreteGaussianNoise(_, sensitivity):
            return _one(atom) if sensitivity else NOTHING
        case SampledGaussian(rate, multiplier):
            if rate > _NEARLY_ALL:
                return _of_atom(GaussianNoise(multiplier))
            return _one(atom) if rate else NOTHING
        case LaplaceNoise() | PerDistance():
            return _one(atom)
    assert_never(atom)


def _one(item: Item) -> Bill:
    return Bill(((item, 1),))


def _times(count: int, inner: Bill) -> Bill:
    return _collected((item, count * number) for item, number in inner.items)


def _total(bills: Sequence[Bill]) -> Bill:
    return _collected(pair for each in bills for pair in each.items)


def _collected(pairs: Iterable[tuple[Item, int]]) -> Bill:
    counts: dict[Item, int] = {}
    square, rho = Fraction(0), Fraction(0)
    for item, count in pairs:
        match item:
            case Normal():
                square += count * item.square
            case Concentrated():
                rho += count * item.rho
            case _:
                counts[item] = counts.get(item, 0) + count
    if square:
        counts[Normal(square)] = 1
    if rho:
        counts[Concentrated(short_up(rho))] = 1
    return Bill(tuple(sorted(counts.items(), key=_sort_key))) if len(counts) > 1 else Bill(tuple(counts.items()))


def _sort_key(pair: tuple[Item, int]) -> tuple[str, str, int]:
    item, count = pair
    return type(item).__name__, str([getattr(item, part.name) for part in fields(item)]), count


def _most(bills: Sequence[Bill]) -> Bill:
    """The branches that no other branch covers: one is itself, several are a `Choice`."""
    branches: list[Bill] = []
    for candidate in dict.fromkeys(inner for each in bills for inner in _branches(each)):
        if not any(covers(kept, candidate) for kept in branches):
            branches = [kept for kept in branches if not covers(candidate, kept)] + [candidate]
    return branches[0] if len(branches) == 1 else _one(Choice(tuple(sorted(branches, key=repr))))


def _branches(each: Bill) -> tuple[Bill, ...]:
    match each.items:
        case ((Choice(bills), 1),):
            return bills
        case _:
            return (each,)


def covers(more: Bill, less: Bill) -> bool:
    """Whether `more` is certainly at least as costly: each item of `less` is paired with a greater one.

    >>> from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Pure, Together
    >>> covers(bill(Together(Pure(1), GaussianNoise(2))), bill(LaplaceNoise(1)))
    True
    """
    left = dict(more.items)
    for item, count in less.items:
        match_ = next((other for other, n in left.items() if n >= count and item_covers(other, item)), None)
        if match_ is None:
            return False
        del left[match_]
    return True


def uncovered(losses: Sequence[Loss]) -> list[Loss]:
    """The losses that no other of them covers, each once.

    >>> from discreet.privacy.loss import LaplaceNoise, Pure
    >>> uncovered([Pure(1), LaplaceNoise(2), Pure(1), Pure("0.5")])
    [Pure(epsilon=1)]
    """
    kept: dict[Bill, Loss] = {}
    for new, loss in {bill(loss): loss for loss in losses}.items():
        if not any(covers(other, new) for other in kept):
            kept = {other: it for other, it in kept.items() if not covers(new, other)} | {new: loss}
    return list(kept.values())


def item_covers(more: Item, less: Item) -> bool:  # noqa: PLR0911, PLR0912
    """Whether every pair of distributions allowed by `less` is no easier to tell apart than one of `more`."""
    if more == less:
        return True
    match more, less:
        case Pure(a), (Pure(b) | BoundedRange(b)):
            return a >= b
        case Pure(a), LaplaceNoise(m):
            return a * m >= 1
        case BoundedRange(a), BoundedRange(b):
            return a >= b
        case Approximate(a, d), Approximate(b, e):
            return a >= b and d >= e
        case Approximate(a, _), (Pure() | BoundedRange() | LaplaceNoise()):
            return item_covers(Pure(a), less)
        case Concentrated(a), Concentrated(b):
            return a >= b
        case Concentrated(a), Normal(square):
            return 2 * a >= square
        case LaplaceNoise(m), LaplaceNoise(n):
            return m <= n
        case Normal(a), Normal(b):
            return a >= b
        case Normal(a), SampledGaussian(_, m):
            return a * m**2 >= 1
        case SampledGaussian(q, m), SampledGaussian(r, n):  # a mixture with less of the shifted part, or wider
            return q >= r and m <= n
        case DiscreteGaussianNoise(s, d), DiscreteGaussianNoise(t, e):
            return s == t and d >= e
        case _:
            return False


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
