"""Zero-concentrated differential privacy: ρ adds up exactly, and converts tightly to (ε, δ)."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import assert_never

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_down, rational, text_up
from discreet.privacy.accounting.itemization import fold, rationals
from discreet.privacy.accounting.rounding import SLACK, log, loss_up, raised, short_up, unbounded
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


def rho(loss: Loss) -> Fraction:
    """The ρ of ρ-zCDP, exactly. A loss with δ > 0 has none and is refused; `rdp` keeps such a δ beside its curve.

    Guarantee: every release of this loss is ρ-zCDP. ρ's add, adaptively too (Bun, Steinke 2016, Lemma 1.7);
    over disjoint parts the largest counts.

    >>> from discreet.privacy.loss import BoundedRange, GaussianNoise, Pure, Repeated, Together
    >>> rho(Together(Repeated(GaussianNoise(20), 1000), Pure("0.1"), BoundedRange("0.1")))
    Fraction(201, 160)
    """
    return fold(loss, rationals(_atom))


def epsilon(rho: Number, *, delta: Number) -> float:
    """The least ε, rounded up, that ρ-zCDP gives at δ (Canonne, Kamath, Steinke 2020, Prop. 12).

    ε = min over α > 1 of αρ + ln(1/(αδ))/(α−1) + ln(1 − 1/α). Every α gives a sound ε, so how near the
    minimum the search comes matters for tightness only.

    >>> round(epsilon("1.25", delta="1e-6"), 5)
    8.84589
    """
    exact, at = _rho(rho), rational(delta, "delta", at_least=0, below=1)
    if not exact:
        return 0.0
    if not at:
        raise NoGuarantee("zCDP gives no ε at δ = 0; ask with delta > 0")
    cost, budget = loss_up(exact), log(at)
    if cost > 1e100:
        raise NoGuarantee("ρ beyond 1e100 protects nobody")

    def bound(t: float) -> float:
        order = 1 + math.exp(t)
        return order * cost - (budget + math.log(order)) * math.exp(-t) - math.log1p(math.exp(-t))

    best = _least(bound, math.log(max(-budget, 1e-3) / cost) / 2)
    size = cost * (1 + math.exp(best)) + (abs(budget) + abs(best) + 1) * math.exp(-best)
    return max(0.0, bound(best) + SLACK * size)


def delta(rho: Number, *, epsilon: Number) -> float:
    """The least δ, rounded up, that ρ-zCDP gives at ε (same proposition).

    δ = min over α > 1 of e^((α−1)(αρ−ε))/(α−1)·(1 − 1/α)^α.

    >>> round(delta("1.25", epsilon="8.84589") * 1e6, 4)
    1.0
    """
    exact, at = _rho(rho), rational(epsilon, "epsilon", at_least=0)
    if not exact:
        return 0.0
    cost, budget = loss_up(exact), min(float_down(at), 1e30)
    if cost > 1e100:
        return 1.0

    def bound(t: float) -> float:
        order = 1 + math.exp(t)
        return math.exp(t) * (order * cost - budget) - t - order * math.log1p(math.exp(-t))

    start = math.log(max(budget / cost - 1, 1e-3) / 2)
    best = _least(bound, start)
    size = math.exp(best) * ((1 + math.exp(best)) * cost + budget) + abs(best) + 1
    return min(1.0, raised(math.exp(min(0.0, bound(best) + SLACK * size))))


def _rho(value: Number) -> Fraction:
    """ρ as given, or a sum of so many different ρ's that it has to be shortened first."""
    return rational(short_up(value) if isinstance(value, Fraction) else value, "rho", at_least=0)


def _least(f: Callable[[float], float], start: float) -> float:
    """An argument near the minimum of a function with one valley: walk downhill, then golden sections."""
    step = 0.5
    low, high = start - step, start + step
    while f(low) < f(low + step) and low > -600:
        low = max(low - step, -600.0)
        step *= 1.5
    step = 0.5
    while f(high) < f(high - step) and high < 300:
        high = min(high + step, 300.0)
        step *= 1.5
    ratio = (math.sqrt(5) - 1) / 2
    inner = [high - ratio * (high - low), low + ratio * (high - low)]
    values = [f(inner[0]), f(inner[1])]
    for _ in range(48):
        if values[0] < values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - ratio * (high - low)
            values[0] = f(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + ratio * (high - low)
            values[1] = f(inner[1])
    return inner[0] if values[0] < values[1] else inner[1]


def _atom(atom: Atom) -> Fraction:  # noqa: PLR0911
    match atom:
        case Pure(limit) | Approximate(limit, 0):
            return limit**2 / 2  # Bun, Steinke 2016, Prop. 1.4
        case BoundedRange(limit):
            return limit**2 / 8  # Dong, Durfee, Rogers 2020; Rogers, Steinke 2021
        case LaplaceNoise(multiplier):
            return 1 / multiplier**2 / 2  # as pure
        case Concentrated(cost):
            return cost
        case GaussianNoise(multiplier):
            return 1 / multiplier**2 / 2  # Bun, Steinke 2016, Prop. 1.6
        case DiscreteGaussianNoise(sigma, sensitivity):
            return sensitivity**2 / sigma**2 / 2  # Canonne, Kamath, Steinke 2020, Thm 4
        case SampledGaussian(rate, multiplier):
            return 1 / multiplier**2 / 2 if rate else Fraction(0)  # sampling mixes: Rényi divergence is quasi-convex
        case Approximate(_, extra):
            raise NoGuarantee(
                f"a loss of δ = {text_up(extra)} has no ρ; the Rényi accountant keeps δ separate from its curve"
            )
        case PerDistance(_, unit):
            raise NoGuarantee(unbounded(unit))
    assert_never(atom)
