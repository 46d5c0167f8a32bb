"""Numerical accounting of a fixed plan by its privacy loss distribution.

Tight to about 0.01 % of ε for up to a million releases; the allowance for floating-point errors grows with their
number, to about 0.5 % at a billion (measured on Gaussians, whose exact ε is known).

The plan is written as atoms with counts; each atom has a dominating pair (`pairs`), which is rounded
pessimistically to a lattice and convolved under a tilt (`lattice`). Both orders of neighbours are computed where
they differ.

Guarantee: the ε (or δ) returned is never below the exact one of the worst mechanisms with this loss, composed
adaptively. Proof: dominating pairs compose (Zhu, Dong, Wang 2022, Thm 10); rounding to the lattice keeps
domination; truncated and wrapped mass is counted as infinite loss; floating-point error is bounded and added
(`lattice.convolved`).

Parallel parts whose branches cannot be ordered: at the top the greatest answer counts. Inside a composition the
split may depend on earlier answers, so a maximum over fixed branches would *not* be sound; there the branches'
profiles are joined pointwise, which is possible for atomic branches and refused for others.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_down, float_up, rational
from discreet.privacy.accounting import pairs, profile
from discreet.privacy.accounting.bill import Bill, Choice, Item, bill
from discreet.privacy.accounting.lattice import (
    Cumulants,
    Lattice,
    Total,
    added_variance,
    convolved,
    cumulants,
    rounded,
    window,
)
from discreet.privacy.accounting.refusal import no_delta_left
from discreet.privacy.accounting.rounding import crossing, raised
from discreet.privacy.accounting.tails import mills
from discreet.privacy.loss import Approximate, Loss, Pure

_TOLERANCE = 5e-5  # what rounding may add to ε, relatively
_SHORTEST, _LONGEST = 1 << 15, 1 << 21
_MOST_ITEMS = 200
_MOST_RELEASES = 10**10  # beyond, the allowance for floating-point errors costs more than `rdp` does
_LEAST_DELTA = 1e-290
_FLOOR = 1e-300  # the least δ > 0 that is ever stated


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
        case ((item, 1),) if not isinstance(item, Choice):
            return profile.least_epsilon(item, left)
        case _:
            target = float_down(left)
            if target < _LEAST_DELTA:
                raise NoGuarantee(f"δ below {_LEAST_DELTA:g} is out of reach of the numerical accountant; use `rdp`")
            return max(_least(_paired(items, pair_of), target) for pair_of in _directions(items))


def _delta(total: Bill, epsilon: float) -> float:
    items, spent = _without_delta(total)
    match items:
        case ():
            inner = 0.0
        case ((item, 1),) if not isinstance(item, Choice):
            inner = profile.of(item, epsilon)
        case _:
            inner = max(_look_up(_paired(items, pair_of), epsilon) for pair_of in _directions(items))
    return min(1.0, float_up(spent + (1 - spent) * Fraction(inner)))


Items = tuple[tuple[Item, int], ...]
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


def _directions(items: Items) -> list[Callable[[Item], AnyPair]]:
    both = any(pairs.one_sided(item) for item, _ in items)
    return [pairs.removing, pairs.adding] if both else [pairs.removing]


def _paired(items: Items, pair_of: Callable[[Item], AnyPair]) -> Paired:
    if len(items) > _MOST_ITEMS:
        raise NoGuarantee(f"more than {_MOST_ITEMS} different losses are too many to convolve; use `rdp`")
    return [(pair_of(item), count) for item, count in items]


def _least(paired: Paired, delta: float) -> float:
    return min(_search(paired, delta), _most(paired))


def _search(paired: Paired, delta: float) -> float:
    """The least ε with δ(ε) ≤ δ: look where the saddle point says, and again where the answer was if far from it."""
    rough = _rough(paired, delta)
    theta = _saddle(rough, math.log(delta))
    near = cumulants(rough, theta)
    found = _look(paired, rough, theta, near.mean, delta)
    for _ in range(4):
        if found is not None and abs(found - near.mean) <= 0.1 * near.mean:
            break
        theta = _tilt_to(rough, found) if found is not None else 1.5 * theta + _unit_tilt(near)
        near = cumulants(rough, theta)
        again = _look(paired, rough, theta, near.mean if found is None else found, delta)
        if found is not None:
            return min(found, again) if again is not None else found
        found = again
    if found is None:
        raise NoGuarantee("the numerical accountant found no ε for this δ; the Rényi accountant may answer")
    return found


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


def _rough(paired: Paired, delta: float) -> list[Lattice]:
    count = sum(n for _, n in paired)
    return [rounded(pair, step=pair.scale / 16, tail=delta * 1e-9 / count, count=n) for pair, n in paired]


def _total(paired: Paired, rough: Sequence[Lattice], theta: float, delta: float, epsilon: float) -> Total:
    """The total loss around ε, on a lattice so fine that rounding hardly matters there."""
    middle = cumulants(rough, theta)
    low = max(0.0, min(epsilon, middle.mean - 3 * math.sqrt(middle.variance)))
    bottom, top = window(rough, theta, delta=delta, floor=low)
    fine = _fine(paired, middle, theta, top - bottom, delta, epsilon)
    bottom, top = window(fine, theta, delta=delta, floor=low - 2 * fine[0].step)
    return convolved(fine, theta, bottom=bottom, top=min(top, bottom + 2 * _LONGEST * fine[0].step))


def _fine(paired: Paired, middle: Cumulants, theta: float, width: float, delta: float, epsilon: float) -> list[Lattice]:
    """Lattices whose rounding adds so little variance v to the total that ε grows by less than `_TOLERANCE`.

    Rounding keeps P- and Q-mass, so it raises K(θ) by about θ(θ+1)v/2, and with it ε by (θ+1)v/2.
    """
    count = sum(n for _, n in paired)
    allowed = 2 * _TOLERANCE * max(epsilon, 0.1 * math.sqrt(middle.variance)) / (1 + theta)
    least = max(width / _LONGEST, min(pair.scale for pair, _ in paired) / 4096)
    step = max(least, min(math.sqrt(6 * allowed / count), width / _SHORTEST))
    for _ in range(8):
        step = _aligned(paired, step)
        fine = [rounded(pair, step=step, tail=delta * 1e-9 / count, count=n) for pair, n in paired]
        added = added_variance(fine, theta)
        if added <= 1.6 * allowed or step <= least:
            break
        step = max(least, step * max(0.1, 0.8 * allowed / added))
    return fine


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
