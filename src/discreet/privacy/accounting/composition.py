"""Composition theorems: pure ε; (ε, δ) by the basic and the advanced theorem, and the optimal one for equal losses."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

import numpy as np

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_down, float_up, rational, text_up
from discreet.privacy.accounting.itemization import Algebra, bill, fold, rationals
from discreet.privacy.accounting.rounding import (
    Array,
    crossing,
    log,
    loss_up,
    no_delta_left,
    raised,
    snapped,
    unbounded,
)
from discreet.privacy.loss import (
    Approximate,
    Atom,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    PerDistance,
    Pure,
    SampledGaussian,
)

_BINOMIAL_SLACK = 1e-10
_MOST_LOSSES = 10**9


@dataclass(frozen=True, slots=True)
class Sums:
    """Σε, Σδ, and for the advanced theorem Σε·tanh(ε/2) (rounded up) and Σε²."""

    epsilon: Fraction
    delta: Fraction
    mean: float
    square: Fraction


def pure(loss: Loss, *, additive_delta: bool = False) -> Fraction:
    """The least ε for which basic composition gives ε-DP, exactly.

    With `additive_delta` the δ of (ε, δ) parts is left out: the release is then ε-DP except with the probability
    that `basic` adds up, and the caller must count that apart.

    Guarantee: every release of this loss is ε-DP. ε's add over releases on the same data, also when each is
    chosen after seeing the ones before (Dwork, McSherry, Nissim, Smith 2006); over disjoint parts the unit
    is in one part only, so the largest counts (McSherry 2009, Thm 4).

    >>> from discreet.privacy.loss import LaplaceNoise, Parallel, Pure, Repeated, Together
    >>> pure(Together(Repeated(Pure("0.1"), 3), Parallel(LaplaceNoise(5), LaplaceNoise(2))))
    Fraction(4, 5)
    """
    return fold(loss, rationals(_beside_delta if additive_delta else _pure_atom))


def basic(loss: Loss) -> tuple[Fraction, Fraction]:
    """(Σε, Σδ), exactly: basic composition (Dwork, Roth 2014, Thm 3.16), the greatest of each over disjoint parts.

    >>> from discreet.privacy.loss import Approximate, Pure, Repeated, Together
    >>> basic(Together(Repeated(Approximate("0.1", "1e-9"), 10), Pure(1)))
    (Fraction(2, 1), Fraction(1, 100000000))
    """
    total = _sums(loss)
    return total.epsilon, total.delta


def advanced(loss: Loss, *, delta: Number) -> float:
    """ε by advanced composition (Dwork, Rothblum, Vadhan 2010, Thm III.3), rounded up, for losses with an ε each.

    ε = Σεᵢ·tanh(εᵢ/2) + √(2·ln(1/δ′)·Σεᵢ²), where δ′ is what the δᵢ leave of δ. Proof: each privacy loss lies in
    [−εᵢ, εᵢ] and its mean, whatever came before, is at most that of randomized response, εᵢ·tanh(εᵢ/2) (a relative
    entropy; the theorem's εᵢ(e^εᵢ − 1) is a bound on it); Azuma's inequality does the rest.

    >>> from discreet.privacy.loss import Pure, Repeated
    >>> round(advanced(Repeated(Pure("0.01"), 10_000), delta="1e-6"), 4)
    5.7565
    """
    total = _sums(loss)
    at = rational(delta, "delta", at_least=0, below=1)
    if not total.square and total.delta <= at:
        return 0.0
    if at <= total.delta:
        raise NoGuarantee(no_delta_left(at, total.delta))
    return raised(total.mean + math.sqrt(2 * -log(at - total.delta) * float_up(total.square)))


def optimal_epsilon(loss: Loss, *, delta: Number) -> float:
    """The exact ε of n equal (ε₀, δ₀) losses at δ (Kairouz, Oh, Viswanath 2015, Thm 3.3), rounded up.

    >>> from discreet.privacy.loss import Pure, Repeated
    >>> round(optimal_epsilon(Repeated(Pure("0.01"), 10_000), delta="1e-6"), 5)
    4.88552
    """
    at = rational(delta, "delta", at_least=0, below=1)
    each, extra, count = _equal(loss)
    spent = _any_of(extra, count)
    if not each * count and spent <= at:
        return 0.0
    if at <= spent:
        raise NoGuarantee(no_delta_left(at, spent))
    target = float_down((at - spent) / (1 - spent))
    if target < 1e-290:
        raise NoGuarantee("δ below 1e-290 is out of reach of the optimal composition; use `rdp` or `pure`")
    losses, masses = _responses(loss_up(each), count)
    if _hockey_stick(losses, masses, 0.0) <= target:
        return 0.0

    def spare(epsilon: float) -> float:
        value = _hockey_stick(losses, masses, epsilon)
        return math.log(target / value) if value > 0 else 1.0

    bracket = crossing(spare, 0.0, float_up(each * count))
    least = snapped(lambda x: _hockey_stick(losses, masses, x) <= target, bracket[1])
    return min(float_up(each * count), least)


def optimal_delta(loss: Loss, *, epsilon: Number) -> float:
    """The exact δ of n equal (ε₀, δ₀) losses at ε (same theorem), rounded up.

    >>> from discreet.privacy.loss import Pure, Repeated
    >>> round(optimal_delta(Repeated(Pure("0.01"), 10_000), epsilon="4.88552") * 1e6, 4)
    1.0
    """
    at = rational(epsilon, "epsilon", at_least=0)
    each, extra, count = _equal(loss)
    spent = _any_of(extra, count)
    inner = _hockey_stick(*_responses(loss_up(each), count), float_down(at)) if at < each * count else 0.0
    return min(1.0, float_up(spent + (1 - spent) * Fraction(min(inner, 1.0))))


def _sums(loss: Loss) -> Sums:
    return fold(loss, Algebra(atom=_atom, times=_times, total=_total, most=_most))


def _atom(atom: Atom) -> Sums:
    epsilon, delta = _parameters(atom)
    near = float_up(epsilon)
    return Sums(epsilon, delta, raised(near * math.tanh(near / 2)) if epsilon else 0.0, epsilon**2)


def _parameters(atom: Atom) -> tuple[Fraction, Fraction]:
    match atom:
        case Pure(limit) | BoundedRange(limit):
            return limit, Fraction(0)
        case Approximate(limit, extra):
            return limit, extra
        case LaplaceNoise(multiplier):
            return 1 / multiplier, Fraction(0)
        case GaussianNoise() | DiscreteGaussianNoise() | SampledGaussian() | Concentrated():
            raise NoGuarantee(f"{type(atom).__name__} has no single (ε, δ); `zcdp`, `rdp` and `pld` compose its curve")
        case PerDistance(_, unit):
            raise NoGuarantee(unbounded(unit))
    assert_never(atom)


def _times(count: int, each: Sums) -> Sums:
    mean = raised(float_up(Fraction(count)) * each.mean) if each.mean else 0.0
    return Sums(count * each.epsilon, min(Fraction(1), count * each.delta), mean, count * each.square)


def _total(parts: Sequence[Sums]) -> Sums:
    mean = raised(math.fsum(part.mean for part in parts)) if any(part.mean for part in parts) else 0.0
    zero = Fraction(0)
    return Sums(
        sum((part.epsilon for part in parts), zero),
        min(Fraction(1), sum((part.delta for part in parts), zero)),
        mean,
        sum((part.square for part in parts), zero),
    )


def _most(parts: Sequence[Sums]) -> Sums:
    return Sums(
        max(part.epsilon for part in parts),
        max(part.delta for part in parts),
        max(part.mean for part in parts),
        max(part.square for part in parts),
    )


def _equal(loss: Loss) -> tuple[Fraction, Fraction, int]:
    """(ε₀, δ₀, n) where the loss is n releases of (ε₀, δ₀) each."""
    match bill(loss).items:
        case ():
            return Fraction(0), Fraction(0), 0
        case (((Pure() | BoundedRange() | LaplaceNoise() | Approximate()) as atom, count),) if count <= _MOST_LOSSES:
            return *_parameters(atom), count
        case _:
            raise NoGuarantee("the optimal composition is for up to 1e9 equal (ε, δ) losses; `pld` takes others")


def _any_of(extra: Fraction, count: int) -> Fraction:
    """1 − (1−δ₀)ⁿ, rounded up."""
    if not extra or not count:
        return Fraction(0)
    if extra == 1:
        return Fraction(1)
    return min(Fraction(1), count * extra, Fraction(raised(-math.expm1(count * math.log1p(-float_up(extra))))))


def _responses(each: float, count: int) -> tuple[Array, Array]:
    """Losses (n − 2l)·ε₀ of n randomized responses of which l lied, and their probabilities.

    Ratios of neighboring binomial terms are added up as logarithms from the mode, and the sum is made 1: within
    40 deviations of the mode, where all but 1e-300 of the mass lies, terms are right to about 1e-11, relatively.
    """
    if each > 1e6:
        raise NoGuarantee("the optimal composition takes losses of ε ≤ 1e6 each; use `pure`")
    lie = math.exp(-each) / (1 + math.exp(-each))
    mode, width = count * lie, 40 * (math.sqrt(count * lie) + 1)
    lies = np.arange(max(0, math.floor(mode - width)), min(count, math.ceil(mode + width)) + 1, dtype=np.float64)
    ratios = np.log((count - lies[:-1]) / (lies[:-1] + 1)) - each
    middle = min(max(math.floor(mode) - int(lies[0]), 0), len(ratios))
    left, right = -np.cumsum(ratios[:middle][::-1])[::-1], np.cumsum(ratios[middle:])
    logs = np.concatenate((left, [0.0], right))
    terms = np.exp(logs - logs.max())
    return (count - 2 * lies) * each, terms / terms.sum()


def _hockey_stick(losses: Array, masses: Array, epsilon: float) -> float:
    """Σ over losses above ε of mass·(1 − e^(ε − loss)), raised by the error of the terms."""
    above = losses > epsilon
    return raised(-float((masses[above] * np.expm1(epsilon - losses[above])).sum()), _BINOMIAL_SLACK)


def _beside_delta(atom: Atom) -> Fraction:
    return atom.epsilon if isinstance(atom, Approximate) else _pure_atom(atom)


def _pure_atom(atom: Atom) -> Fraction:
    match atom:
        case Pure(limit) | BoundedRange(limit):
            return limit
        case LaplaceNoise(multiplier):
            return 1 / multiplier
        case Approximate(limit, 0):
            return limit
        case DiscreteGaussianNoise(_, 0) | SampledGaussian(0, _) | Concentrated(0):
            return Fraction(0)
        case Approximate(_, delta):
            raise NoGuarantee(f"a loss of δ = {text_up(delta)} is not pure ε-DP for any ε; ask with delta > 0")
        case GaussianNoise() | DiscreteGaussianNoise() | SampledGaussian() | Concentrated():
            raise NoGuarantee(
                f"{type(atom).__name__} is not pure ε-DP for any ε, because of its tails; ask with delta > 0"
            )
        case PerDistance(_, unit):
            raise NoGuarantee(unbounded(unit))
    assert_never(atom)
