"""Numerical accounting of a fixed plan by its privacy loss distribution.

Tight to about 0.01 % of ε for up to a million releases; the allowance for floating-point errors grows with their
number, to about 0.5 % at a billion (measured on Gaussians, whose exact ε is known).

The plan is written as atoms with counts; each atom has a dominating pair (`pairs`), which is rounded
pessimistically to a lattice and convolved under a tilt (`lattice`). Both orders of neighbors are computed where
they differ.

Guarantee: the ε (or δ) returned is never below the exact one of the worst mechanisms with this loss, composed
adaptively. Proof: dominating pairs compose (Zhu, Dong, Wang 2022, Thm 10); rounding to the lattice keeps
domination; truncated and wrapped mass is counted as infinite loss; floating-point error is bounded and added
(`lattice.convolved`).

Parts without a pair of their own get one from a bound on their profile (`envelope`): ρ-zCDP from its conversion to
(ε, δ). No split of δ between such a part and the rest is better, because a split only says that the pairs' composition
at ε₁ + ε₂ has δ ≤ δ₁ + δ₂.

Parallel parts whose branches cannot be ordered: at the top the greatest answer counts. Inside a composition the
split may depend on earlier answers, so a maximum over fixed branches would *not* be sound; there the branches'
profiles are joined pointwise, those of branches that are compositions after they were bounded at many ε's.

More than `_MOST_ITEMS` unlike losses are merged: near ones are replaced by one that covers them all (`merging`).
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_down, float_up, rational
from discreet.privacy.accounting import dominating_pairs as pairs
from discreet.privacy.accounting import profile
from discreet.privacy.accounting.itemization import Bill, Choice, Item, Items, Normal, bill, merged
from discreet.privacy.accounting.loss_lattice import (
    Cumulants,
    Lattice,
    Sketch,
    Total,
    added_variance,
    convolved,
    cumulants,
    rounded,
    window,
)
from discreet.privacy.accounting.profile import Envelope, envelope, knots
from discreet.privacy.accounting.rounding import SLACK, Array, crossing, mills, no_delta_left, raised, short_up
from discreet.privacy.loss import Approximate, Concentrated, DiscreteGaussianNoise, Loss, Pure

_TOLERANCE = 5e-5  # what rounding may add to ε, relatively
_SHORTEST, _LONGEST = 1 << 15, 1 << 21
_MOST_ITEMS = 2000
_FEW = 32  # unlike pairs up to which every guess is made with care
_MOST_RELEASES = 10**10  # beyond, the allowance for floating-point errors costs more than `rdp` does
_LEAST_DELTA = 1e-290
_FLOOR = 1e-300  # the least δ > 0 that is ever stated
_DEPTHS = (-0.5, -3.0, -8.0, -18.0, -40.0, -90.0, -190.0, -380.0, -660.0)  # ln δ around which profiles are followed


def epsilon(loss: Loss, *, delta: Number) -> float:
    """The least ε, rounded up, for which the plan is (ε, δ)-DP.

    >>> from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Repeated, Together
    >>> plan = Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100))
    >>> round(epsilon(plan, delta="1e-6"), 3)
    5.392
    """
    target = rational(delta, "delta", at_least=0, below=1)
    return max(_epsilon(branch, target) for branch in _branches(bill(loss)))


def delta(loss: Loss, *, epsilon: Number) -> float:
    """The least δ, rounded up, for which the plan is (ε, δ)-DP.

    >>> from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Repeated, Together
    >>> plan = Together(Repeated(LaplaceNoise(10), 100), Repeated(GaussianNoise(20), 100))
    >>> 0.99e-6 < delta(plan, epsilon="5.3917") < 1.01e-6
    True
    """
    target = min(float_down(rational(epsilon, "epsilon", at_least=0)), 1e9)
    return max(_delta(branch, target) for branch in _branches(bill(loss)))


def _branches(total: Bill) -> tuple[Bill, ...]:
    match total.items:
        case ((Choice(bills), 1),):
            return bills
        case _:
            return (total,)


def _epsilon(total: Bill, delta: Fraction) -> float:
    items, spent = _without_delta(total)
    if not items and spent <= delta:
        return 0.0
    if spent >= delta:
        raise NoGuarantee(no_delta_left(delta, spent))
    left = (delta - spent) / (1 - spent)
    match items:
        case ((item, 1),) if not isinstance(item, Choice | Concentrated):
            return profile.least_epsilon(item, left)
        case _:
            target = float_down(left)
            if target < _LEAST_DELTA:
                raise NoGuarantee(f"δ below {_LEAST_DELTA:g} is out of reach of the numerical accountant; use `rdp`")
            return min(max(_least(paired, target) for paired in _directions(form)) for form in _forms(items))


def _delta(total: Bill, epsilon: float) -> float:
    items, spent = _without_delta(total)
    match items:
        case ():
            inner = 0.0
        case ((item, 1),) if not isinstance(item, Choice | Concentrated):
            inner = profile.of(item, epsilon)
        case _:
            inner = min(max(_look_up(paired, epsilon) for paired in _directions(form)) for form in _forms(items))
    return min(1.0, float_up(spent + (1 - spent) * Fraction(inner)))


AnyPair = pairs.Pair | pairs.Worst
Paired = Sequence[tuple[AnyPair, int]]


def _without_delta(total: Bill) -> tuple[Items, Fraction]:
    """The bill with each (ε, δ) replaced by ε, and the probability, rounded up, that any δ strikes.

    (ε, δ)-DP is ε-DP except with probability δ (Kairouz, Oh, Viswanath 2015, Thm 3.1), so n of them are n of ε-DP
    except with probability 1 − (1−δ)ⁿ.
    """
    if total.count > _MOST_RELEASES:
        raise NoGuarantee(f"more than {_MOST_RELEASES:g} releases are too many for floating point; use `rdp`")
    counts: dict[Item, int] = {}
    survival, union = 0.0, Fraction(0)
    for item, count in total.items:
        kept = item
        if isinstance(item, Approximate):
            union += count * item.delta
            survival += count * math.log1p(-float_up(item.delta)) if item.delta < 1 else -math.inf
            kept = Pure(item.epsilon)
        if kept != Pure(0):
            counts[kept] = counts.get(kept, 0) + count
    spent = min(Fraction(1), union, Fraction(raised(-math.expm1(survival)))) if union else Fraction(0)
    return tuple(counts.items()), spent


def _forms(items: Items) -> list[Items]:
    """The ways to write a bill: beside ρ-zCDP, Gaussian noise may be its own pair or part of the ρ."""
    rest = tuple(each for each in items if not isinstance(each[0], Concentrated | Normal | DiscreteGaussianNoise))
    rho = sum((count * _rho(item) for item, count in items), Fraction(0))
    if len(rest) >= len(items) - 1 or not any(isinstance(item, Concentrated) for item, _ in items):
        return [items]
    return [items, (*rest, (Concentrated(short_up(rho)), 1))]


def _rho(item: Item) -> Fraction:
    """ρ of what is Gaussian or ρ-zCDP, 0 of other items (see `zcdp`)."""
    match item:
        case Concentrated(rho):
            return rho
        case Normal(square):
            return square / 2
        case DiscreteGaussianNoise(sigma, sensitivity):
            return sensitivity**2 / sigma**2 / 2
        case _:
            return Fraction(0)


def _directions(items: Items) -> list[Paired]:
    """The pairs of all items with the unit removed, and where that differs with it added."""
    both = (False, True) if any(pairs.one_sided(item) for item, _ in items) else (False,)
    few = merged(items, most=_MOST_ITEMS)
    return [_paired(few, adding) for adding in both]


def _paired(items: Items, adding: bool) -> Paired:
    return [(_pair(item, adding), count) for item, count in items]


def _pair(item: Item, adding: bool) -> AnyPair:
    match item:
        case Choice(bills):
            return pairs.Worst(tuple(_branch(each, adding) for each in bills))
        case _:
            return pairs.adding(item) if adding else pairs.removing(item)


def _branch(each: Bill, adding: bool) -> AnyPair:
    match each.items:
        case ((item, 1),) if not isinstance(item, Approximate):
            return _pair(item, adding)
        case _:
            return _composed(each, adding)


def _composed(each: Bill, adding: bool) -> Envelope:
    """A pair that dominates a whole bill."""
    epsilons, removed, added = _profiles(each)
    return envelope(epsilons, added, removed) if adding else envelope(epsilons, removed, added)


@lru_cache(maxsize=64)
def _profiles(each: Bill) -> tuple[Array, Array, Array]:
    """Many ε's, and δ at each, rounded up, with the unit removed and with it added."""
    items, spent = _without_delta(each)
    few = merged(items, most=_MOST_ITEMS)
    both = [_paired(few, adding) for adding in (False, True)] if items else []
    top = min(max(map(_farthest, both)), max(map(_most, both))) if both else 1.0
    spreads = [math.sqrt(cumulants(_rough(paired, 1e-12), 0.0).variance) for paired in both]
    epsilons = knots(top, max(min(spreads, default=1.0), top / 4096))
    share = float_up(spent)
    nothing = np.zeros_like(epsilons)
    inner = [_profile(paired, epsilons) for paired in both] or [nothing, nothing]
    removed, added = (((1 - share) * values + share) * (1 + SLACK) for values in inner)
    return epsilons, removed, added


def _farthest(paired: Paired) -> float:
    """Roughly the ε at which δ is as small as floats allow."""
    rough = _rough(paired, _LEAST_DELTA)
    return cumulants(rough, _saddle(rough, math.log(_LEAST_DELTA))).mean


def _profile(paired: Paired, epsilons: Array) -> Array:
    """δ(ε) at increasing ε's, rounded up, from windows around the saddle points of several δ's."""
    best = np.ones_like(epsilons)
    for log_delta in _DEPTHS:
        delta = math.exp(log_delta)
        rough = _rough(paired, delta)
        theta = _saddle(rough, log_delta)
        total = _total(paired, rough, theta, delta, cumulants(rough, theta).mean)
        best = np.minimum(best, [total.delta(float(epsilon)) for epsilon in epsilons])
    most = _most(paired)
    return np.where(epsilons >= most, 0.0, np.maximum(best, _FLOOR))


def _least(paired: Paired, delta: float) -> float:
    return min(_search(paired, delta), _most(paired))


def _search(paired: Paired, delta: float) -> float:
    """The least ε with δ(ε) ≤ δ: look where the saddle point says, and again where the answer was if far from it."""
    rough = _rough(paired, delta)
    theta = _saddle(rough, math.log(delta))
    near = cumulants(rough, theta)
    result = _look(paired, rough, theta, near.mean, delta)
    for _ in range(4):
        if result is not None and abs(result - near.mean) <= 0.1 * near.mean:
            break
        theta = _tilt_to(rough, result) if result is not None else 1.5 * theta + _unit_tilt(near)
        near = cumulants(rough, theta)
        again = _look(paired, rough, theta, near.mean if result is None else result, delta)
        if result is not None:
            return min(result, again) if again is not None else result
        result = again
    if result is None:
        raise NoGuarantee("the numerical accountant found no ε for this δ; the Rényi accountant may answer")
    return result


def _look(paired: Paired, rough: Sequence[Lattice], theta: float, epsilon: float, delta: float) -> float | None:
    """The least ε with δ(ε) ≤ δ in the window tilted by θ; None where that window ends too low."""
    total = _total(paired, rough, theta, delta, epsilon)
    low, high = max(0.0, float(total.loss[0]) + 2 * total.shift), float(total.loss[-1])
    if total.delta(high) > delta:
        return None
    return _crossing(total, delta, low, high, cumulants(rough, theta)) if total.delta(low) > delta else low


def _crossing(total: Total, delta: float, low: float, high: float, near: Cumulants) -> float:
    width = 0.05 * math.sqrt(near.variance)

    def spare(epsilon: float) -> float:
        value = total.delta(epsilon)
        return math.log(delta / value) if value > 0 else 1.0

    inner_low, inner_high = near.mean - width, near.mean + width  # the estimate is good nearly always
    if low < inner_low and spare(inner_low) < 0:
        low = inner_low
    if inner_high < high and spare(inner_high) >= 0:
        high = inner_high
    return crossing(spare, low, high, relative=1e-9)[1]


def _look_up(paired: Paired, epsilon: float) -> float:
    """δ(ε), from the window whose saddle point is ε.

    What lies beyond 1e-9 of δ is cut off and must not attract the tilt, so δ is guessed first and the guess improved.
    Below the greatest loss δ is never 0, also where floats are: that would claim pure ε-DP for noise with tails.
    """
    if epsilon >= _most(paired):
        return 0.0
    best, guess = 1.0, _LEAST_DELTA
    for _ in range(3):
        rough = _rough(paired, guess)
        theta = _tilt_to(rough, epsilon)
        guess = max(_LEAST_DELTA, math.exp(min(0.0, _log_delta(cumulants(rough, theta), theta))))
    for _ in range(4):
        before, best = best, min(best, _total(paired, rough, theta, guess, epsilon).delta(epsilon))
        if 0.5 * guess < best < 2 * guess or best > 0.5 * before:
            break
        guess = max(_LEAST_DELTA, best if best < guess else 1e-3 * best)
        rough = _rough(paired, guess)
        theta = _tilt_to(rough, epsilon)
    return max(best, _FLOOR)


def _most(paired: Paired) -> float:
    """The greatest total loss, rounded up: at this ε, δ is 0."""
    return raised(sum(n * pair.most for pair, n in paired))


def _rough(paired: Paired, delta: float) -> Sequence[Lattice]:
    """Coarse lattices from which tilts, windows and steps are guessed; the result is computed from fine ones."""
    count = sum(n for _, n in paired)
    if len(paired) <= _FEW:
        return [rounded(pair, step=pair.scale / 16, tail=delta * 1e-9 / count, count=n) for pair, n in paired]
    return Sketch(rounded(pair, step=pair.scale / 4, tail=delta * 1e-9 / count, count=n, fine=32) for pair, n in paired)


def _total(paired: Paired, rough: Sequence[Lattice], theta: float, delta: float, epsilon: float) -> Total:
    """The total loss around ε, on a lattice so fine that rounding hardly matters there."""
    middle = cumulants(rough, theta)
    low = max(0.0, min(epsilon, middle.mean - 3 * math.sqrt(middle.variance)))
    bottom, top = window(rough, theta, delta=delta, floor=low)
    margin = 0.0 if len(paired) <= _FEW else 0.02 * (top - bottom)
    step = _step(paired, middle, theta, top - bottom, delta, epsilon)
    fine = _rounded(paired, step, delta, sum(n for _, n in paired))
    bottom, top = min(bottom - margin, low - 2 * step), top + margin + 2 * step
    return convolved(fine, theta, bottom=bottom, top=min(top, bottom + 2 * _LONGEST * step))


def _step(paired: Paired, middle: Cumulants, theta: float, width: float, delta: float, epsilon: float) -> float:
    """A step so small that rounding adds too little variance v to the total for ε to grow by more than `_TOLERANCE`.

    Rounding keeps P- and Q-mass, so it raises K(θ) by about θ(θ+1)v/2, and with it ε by (θ+1)v/2.
    """
    count, sample = sum(n for _, n in paired), _sample(paired)
    spare = min(10.0, len(paired) / len(sample))  # many unlike pairs take time: a thousandth is near enough there
    allowed = 2 * spare * _TOLERANCE * max(epsilon, 0.1 * math.sqrt(middle.variance)) / (1 + theta)
    least = max(width / _LONGEST, min(pair.scale for pair, _ in paired) / 4096)
    shortest = _SHORTEST if len(paired) <= _FEW else _SHORTEST // 8
    step = max(least, min(math.sqrt(6 * allowed / count), width / shortest))
    for _ in range(8):
        step = _aligned(paired, step)
        added = added_variance(_rounded(sample, step, delta, count), theta)
        if added <= 1.6 * allowed or step <= least:
            break
        step = max(least, step * max(0.1, 0.8 * allowed / added))
    return step


def _sample(paired: Paired) -> Paired:
    """Some of many pairs, each counted for those of nearly its size."""
    if len(paired) <= _FEW:
        return paired
    ordered = sorted(paired, key=lambda each: each[0].scale)
    groups = [ordered[len(ordered) * i // _FEW : len(ordered) * (i + 1) // _FEW] for i in range(_FEW)]
    return [(group[-1][0], sum(n for _, n in group)) for group in groups]


def _rounded(paired: Paired, step: float, delta: float, count: int) -> list[Lattice]:
    return [rounded(pair, step=step, tail=delta * 1e-9 / count, count=n) for pair, n in paired]


def _aligned(paired: Paired, step: float) -> float:
    """A step of which the most important lump is a multiple, so that it need not be split."""
    lumps = [(n * pair.limit**2, pair.limit) for pair, n in paired if isinstance(pair, pairs.Response | pairs.Laplace)]
    if not lumps:
        return step
    limit = max(lumps)[1]
    return limit / math.ceil(limit / step)


def _saddle(rough: Sequence[Lattice], log_delta: float) -> float:
    """The tilt θ ≥ 0 at whose mean δ is about right."""

    def spare(theta: float) -> float:
        return log_delta - _log_delta(cumulants(rough, theta), theta)

    return _tilt(spare, rough)


def _tilt_to(rough: Sequence[Lattice], epsilon: float) -> float:
    """The tilt θ ≥ 0 whose mean is ε, or as near as the support allows."""

    def spare(theta: float) -> float:
        return cumulants(rough, theta).mean - epsilon

    return _tilt(spare, rough)


def _tilt(spare: Callable[[float], float], rough: Sequence[Lattice]) -> float:
    """The θ ≥ 0 at which an increasing function passes zero, roughly; a great θ where it never does."""
    if spare(0.0) >= 0:
        return 0.0
    high = _unit_tilt(cumulants(rough, 0.0))
    most = 1e5 / max(float(each.loss[-1]) for each in rough)
    while spare(high) < 0 and high < most:
        high *= 2
    return crossing(spare, 0.0, high, relative=1e-3)[1] if spare(high) >= 0 else high


def _unit_tilt(at: Cumulants) -> float:
    return 1 / math.sqrt(max(at.variance, 1e-200))


def _log_delta(at: Cumulants, theta: float) -> float:
    """Saddle-point estimate of ln δ at ε = the tilted mean, exact for a Gaussian total.

    δ = e^(K − θε)·(B(θs) − B((1+θ)s)) with s² the tilted variance and B(x) = e^(x²/2)·Q(x).
    """
    s = math.sqrt(at.variance)
    gap = (mills(theta * s) - mills((1 + theta) * s)) / math.sqrt(2 * math.pi)
    return at.value - theta * at.mean + (math.log(gap) if gap > 0 else -math.inf)
