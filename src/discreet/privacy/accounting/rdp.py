"""Rényi accounting: a curve of Rényi divergences over fixed orders, with an additive δ beside it.

Curves add up when each release is chosen after seeing the ones before, so this is also what a privacy filter
keeps (Feldman, Zrnic 2021).

Rényi divergences of atomic losses, as upper bounds that are exact up to floating-point error.

D_α(P‖Q) = ln E_Q[(P/Q)^α] / (α − 1), the greater of both directions, at an array of orders α > 1. Where the
expectation is close to 1 its excess over 1 is computed as a sum of positive terms, so that tiny divergences,
which are multiplied by large counts later, keep their digits.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import assert_never

import numpy as np

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.exact import Number, float_down, float_up, rational
from discreet.privacy.accounting.itemization import Algebra, fold
from discreet.privacy.accounting.rounding import (
    SLACK,
    Array,
    log,
    loss_up,
    no_delta_left,
    noise_down,
    raised,
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

# fmt: off
ORDERS: tuple[float, ...] = (
    1.01, 1.015, 1.02, 1.03, 1.04, 1.055, 1.075, 1.1, 1.15, 1.2, 1.3,
    1.4, 1.45, 1.5, 1.55, 1.6, 1.65, 1.7, 1.78, 1.86, 1.95,
    2.0, 2.1, 2.2, 2.35, 2.5, 2.65, 2.8, 3.0, 3.2, 3.4, 3.7, 4.0, 4.3, 4.6, 5.0, 5.3, 5.7, 6.2, 6.7, 7.2, 7.8, 8.5, 9.2,
    10.0, 11.0, 12.0, 13.0, 14.0, 16.0, 17.0, 19.0, 21.0, 23.0, 25.0, 28.0, 30.0, 33.0, 36.0, 40.0, 44.0, 48.0, 53.0,
    58.0, 64.0, 76.0, 91.0, 108.0, 128.0, 152.0, 181.0, 215.0, 256.0, 304.0, 362.0, 431.0, 512.0, 609.0, 724.0, 861.0,
    1024.0, 1218.0, 1448.0, 1722.0, 2048.0, 2435.0, 2896.0, 3444.0, 4096.0, 5793.0, 8192.0,
)
# fmt: on
"""The orders of every ledger, **permanent**: stored totals are only comparable over the same orders.

α − 1 grows by about 1.1 where common budgets (ε from 0.1 to 20) have their best order, which costs at most
0.25 % of ε against the best order of all, by 1.19 above and 1.4 below.
"""


@dataclass(frozen=True, slots=True)
class Curve:
    """Rényi divergence at most `values[i]` at order `orders[i]`, in both directions, except with probability δ.

    δ-approximate Rényi DP: both distributions are mixtures that give weight 1 − δ to a pair with these
    divergences (Bun, Steinke 2016, Def. 8.1, for Rényi divergences of single orders).
    """

    orders: tuple[float, ...]
    values: tuple[float, ...]
    delta: Fraction


def curve(loss: Loss, orders: Sequence[float] = ORDERS) -> Curve:
    """The Rényi curve of a loss over the given orders, rounded up.

    Guarantee: each value bounds the Rényi divergence of every release of this loss from above. Curves add,
    adaptively too (Mironov 2017, Prop. 1); over disjoint parts the greatest value at each order counts; the
    additive δ's add, and their greatest counts over disjoint parts.

    >>> from discreet.privacy.loss import Approximate, GaussianNoise, Repeated, Together
    >>> total = curve(Together(Repeated(GaussianNoise(20), 1000), Approximate("0.1", "1e-9")), orders=(2, 8))
    >>> [round(value, 4) for value in total.values], total.delta
    ([2.51, 10.0367], Fraction(1, 1000000000))
    """
    at = _checked(orders)
    algebra = Algebra(
        atom=lambda atom: _atom(atom, at),
        times=_times,
        total=lambda parts: _total(parts, at),
        most=_most,
    )
    return fold(loss, algebra)


def epsilon(spent: Curve, *, delta: Number) -> float:
    """The least ε, rounded up, that a curve gives at δ (Canonne, Kamath, Steinke 2020, Prop. 12; Balle et al. 2020).

    At each order α: ε = value + ln((α−1)/α) − (ln δ′ + ln α)/(α−1), where δ′ is what the additive δ leaves.

    >>> from discreet.privacy.loss import GaussianNoise, Repeated
    >>> round(epsilon(curve(Repeated(GaussianNoise(20), 1000)), delta="1e-6"), 3)
    8.855
    """
    left = rational(delta, "delta", at_least=0, below=1) - spent.delta
    if not any(spent.values) and left >= 0:
        return 0.0
    if left <= 0:
        raise NoGuarantee(no_delta_left(rational(delta, "delta"), spent.delta))
    alpha, value = np.array(spent.orders), np.array(spent.values)
    budget = log(left)
    bounds = value + np.log1p(-1 / alpha) - (budget + np.log(alpha)) / (alpha - 1)
    slack = SLACK * (value + (abs(budget) + np.log(alpha) + 1) / (alpha - 1))
    best = float(np.min(bounds + slack))
    if not math.isfinite(best):
        raise NoGuarantee("the Rényi divergence is infinite at every order; this loss protects nobody")
    return max(0.0, best)


def delta(spent: Curve, *, epsilon: Number) -> Fraction:
    """The least δ, rounded up, that a curve gives at ε, its additive δ included (same proposition).

    >>> from discreet.privacy.loss import GaussianNoise, Repeated
    >>> round(float(delta(curve(Repeated(GaussianNoise(20), 1000)), epsilon="8.855")) * 1e6, 2)
    1.0
    """
    at = min(float_down(rational(epsilon, "epsilon", at_least=0)), 1e300)
    if not any(spent.values):
        return spent.delta
    alpha, value = np.array(spent.orders), np.array(spent.values)
    with np.errstate(over="ignore"):
        logs = (alpha - 1) * (value - at) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
        slack = SLACK * ((alpha - 1) * (value + at) + np.abs(np.log(alpha - 1)) + 2)
    best = min(0.0, float(np.min(logs + slack)))
    return min(Fraction(1), spent.delta + Fraction(raised(math.exp(best))))


def _checked(orders: Sequence[float]) -> tuple[float, ...]:
    if orders is ORDERS:
        return ORDERS
    try:
        at = tuple(float(order) for order in orders)
    except (TypeError, ValueError):
        at = ()
    if not at or not all(1.01 <= order <= 1e4 for order in at):  # where the errors stated in `renyi` hold
        raise InvalidParameter("orders", orders, "numbers from 1.01 to 10000", "rdp.ORDERS suits most uses")
    return at


@lru_cache(maxsize=4096)
def _atom(atom: Atom, orders: tuple[float, ...]) -> Curve:
    extra = atom.delta if isinstance(atom, Approximate) else Fraction(0)
    with np.errstate(over="ignore"):
        values = np.maximum(_divergences(atom, np.array(orders)), 0.0) * (1 + SLACK)
        return Curve(orders, tuple(_up(values).tolist()), extra)


def _divergences(atom: Atom, orders: Array) -> Array:  # noqa: PLR0911
    match atom:
        case Pure(limit) | Approximate(limit, _):
            # (ε,δ): the worst pair is randomized response except with probability δ (Kairouz et al. 2015, Thm 3.1)
            return response(loss_up(limit), orders)
        case BoundedRange(limit):
            return bounded_range(loss_up(limit), orders)
        case LaplaceNoise(multiplier):
            return laplace(loss_up(1 / multiplier), orders)
        case Concentrated(rho):
            return orders * float_up(rho)
        case GaussianNoise(multiplier):
            return orders * float_up(1 / multiplier**2 / 2)  # Mironov 2017, Prop. 7
        case DiscreteGaussianNoise(sigma, sensitivity):
            return orders * float_up(sensitivity**2 / sigma**2 / 2)  # Canonne, Kamath, Steinke 2020, Prop. 5
        case SampledGaussian(rate, multiplier):
            return sampled_gaussian(loss_up(rate) if rate else 0.0, noise_down(multiplier), orders)
        case PerDistance(_, unit):
            raise NoGuarantee(unbounded(unit))
    assert_never(atom)


def _times(count: int, each: Curve) -> Curve:
    with np.errstate(over="ignore"):
        values = _up(float_up(Fraction(count)) * np.array(each.values))
    return Curve(each.orders, tuple(values.tolist()), min(Fraction(1), count * each.delta))


def _total(parts: Sequence[Curve], orders: tuple[float, ...]) -> Curve:
    values = np.zeros(len(orders))
    with np.errstate(over="ignore"):
        for part in parts:
            values = _up(values + np.array(part.values))
    extra = sum((part.delta for part in parts), Fraction(0))
    return Curve(orders, tuple(values.tolist()), min(Fraction(1), extra))


def _most(parts: Sequence[Curve]) -> Curve:
    values = np.max([part.values for part in parts], axis=0)
    return Curve(parts[0].orders, tuple(values.tolist()), max(part.delta for part in parts))


def _up(values: Array) -> Array:
    """One unit in the last place up, zero staying zero (nothing was rounded there)."""
    return np.where(values > 0, np.nextafter(values, np.inf), 0.0)


_SERIES_SLACK = 1e-10  # binomial coefficients up to order 10⁴ through lgamma: 3e4 × 2⁻⁵² × a few
_INTEGRAL_SLACK = 1e-11
_NARROWEST = 0.05
_NO_PRIVACY = 1e100


def response(limit: float, orders: Array) -> Array:
    """Randomized response, the worst ε-DP pair: ln(cosh((α − ½)ε)/cosh(ε/2))/(α − 1) (Mironov 2017, Prop. 5).

    It is the worst because E_Q[(P/Q)^α] is convex in the ratio, which lies in [e^−ε, e^ε] and averages 1.

    >>> response(1.0, np.array([2.0])).round(6).tolist()
    [0.735326]
    """
    if limit > _NO_PRIVACY:
        return np.full_like(orders, np.inf)
    near = np.minimum(orders * limit, 1.0) / orders
    small = np.log1p(2 * np.sinh(orders * near / 2) * np.sinh((orders - 1) * near / 2) / np.cosh(near / 2))
    large = (orders - 1) * limit + np.log1p(np.exp(-(2 * orders - 1) * limit)) - math.log1p(math.exp(-limit))
    return np.minimum(np.where(orders * limit < 1, small, large) / (orders - 1), limit)


def bounded_range(limit: float, orders: Array) -> Array:
    """ln P/Q within an interval of length ε: the least of αε²/8, of randomized response, and of the exact curve.

    αε²/8: Dong, Durfee, Rogers 2020; Rogers, Steinke 2021. Exact: as for the profile (`profile._bounded_range`),
    convexity makes two values t, t − ε of ln P/Q the worst case. With T = e^ε and u = e^t the moment is
    u^(α−1)·(A − B·u)/(T − 1), A = T − T^(1−α), B = 1 − T^(1−α), greatest at u = (α−1)A/(αB), which gives
    D = ln u + (ln A − ln α − ln(T − 1))/(α − 1). It loses digits for small ε: an absolute allowance covers that.

    >>> bounded_range(1.0, np.array([2.0, 50.0])).round(6).tolist()
    [0.240229, 0.909321]
    """
    if limit > _NO_PRIVACY:
        return np.full_like(orders, np.inf)
    log_a = limit + np.log(-np.expm1(-orders * limit))
    log_b = np.log(-np.expm1(-(orders - 1) * limit))
    log_t = limit + math.log(-math.expm1(-limit))
    best = np.log1p(-1 / orders) + log_a - log_b
    size = 1 + abs(log_t) + np.abs(log_a) + np.abs(log_b) + np.log(orders)
    exact = best + (log_a - np.log(orders) - log_t + 1e-15 * size) / (orders - 1) + 1e-15 * size
    return np.minimum(np.minimum(orders * limit**2 / 8, response(limit, orders)), exact)


def laplace(limit: float, orders: Array) -> Array:
    """Laplace noise: ln(α/(2α−1)·e^((α−1)ε) + (α−1)/(2α−1)·e^(−αε))/(α − 1) (Mironov 2017, Prop. 6).

    The excess over 1 is (α·g((α−1)ε) + (α−1)·g(−αε))/(2α−1) with g(x) = e^x − 1 − x ≥ 0.

    >>> laplace(1.0, np.array([2.0])).round(6).tolist()
    [0.619124]
    """
    if limit > _NO_PRIVACY:
        return np.full_like(orders, np.inf)
    width = 2 * orders - 1
    with np.errstate(over="ignore", invalid="ignore"):
        excess = (
            orders * _beyond_linear((orders - 1) * limit) + (orders - 1) * _beyond_linear(-orders * limit)
        ) / width
        small = np.log1p(excess)
    large = np.logaddexp(np.log(orders / width) + (orders - 1) * limit, np.log((orders - 1) / width) - orders * limit)
    return np.where(orders * limit < 1, small, large) / (orders - 1)


def _beyond_linear(x: Array) -> Array:
    """e^x − 1 − x, without cancellation near zero."""
    series = x**2 / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5 * (1 + x / 6 * (1 + x / 7 * (1 + x / 8 * (1 + x / 9)))))))
    return np.where(np.abs(x) < 0.01, series, np.expm1(x) - x)


def sampled_gaussian(rate: float, multiplier: float, orders: Array) -> Array:
    """Gaussian noise over a Poisson sample (Mironov, Talwar, Zhang 2019).

    D_α(mixture‖N₀) is the greater direction (their Thm 5). Whole orders by their closed form, the others by
    numerical integration. Never above the unsampled α/2σ² (Rényi divergence is quasi-convex), which alone
    answers for broken orders below σ = 0.05, where there is no privacy to measure.

    >>> sampled_gaussian(0.01, 1.0, np.array([2.0, 2.5])).round(8).tolist()
    [0.00017181, 0.00021758]
    """
    if multiplier < 1 / _NO_PRIVACY:
        return np.full_like(orders, np.inf if rate else 0.0)
    bound = orders / (2 * multiplier**2)
    if rate in (0.0, 1.0):
        return bound * rate
    whole = orders == np.floor(orders)
    values = bound.copy()
    values[whole] = [_whole_order(rate, multiplier, int(order)) for order in orders[whole]]
    if multiplier >= _NARROWEST and not whole.all():
        values[~whole] = _broken_orders(rate, multiplier, orders[~whole])
    return np.minimum(values, bound)


def _whole_order(rate: float, multiplier: float, order: int) -> float:
    """ln(1 + Σ C(α,k)·(1−q)^(α−k)·q^k·(e^((k²−k)/2σ²) − 1))/(α−1) over k ≥ 2: their §3.3 less the binomial identity."""
    from scipy.special import gammaln

    k = np.arange(2, order + 1, dtype=np.float64)
    binomial = gammaln(order + 1.0) - gammaln(k + 1) - gammaln(order - k + 1)
    grown = k * (k - 1) / (2 * multiplier**2)
    logs = binomial + (order - k) * math.log1p(-rate) + k * math.log(rate) + _log_expm1(grown)
    return _log_one_plus_sum(logs, _SERIES_SLACK) / (order - 1)


def _broken_orders(rate: float, multiplier: float, orders: Array) -> Array:
    """E_N₀[(1+y)^α − 1 − αy] by the trapezoidal rule, y = q·(e^((2x−1)/2σ²) − 1) being the ratio less its mean 1.

    The integrand is analytic in the strip |Im x| < πσ² (1 + y = 0 beyond) and dies like a Gaussian, so with step
    h·σ the rule errs by a factor of about e^(−2π·min(π·σ, 2π/h)/h) < 1e-20 (Trefethen, Weideman 2014, Thm 5.1);
    12σ beyond the peaks at 0 and α the integrand has fallen by e^−72. Rounding is covered by the slack.
    """
    step = min(0.4, 0.35 * multiplier)
    nodes = np.arange(-12.0, orders.max() / multiplier + 12.0, step)
    exponent = (nodes - 0.5 / multiplier) / multiplier
    log_ratio = np.logaddexp(math.log1p(-rate), math.log(rate) + exponent)
    with np.errstate(over="ignore"):
        y = rate * np.expm1(np.minimum(exponent, 700.0))
    weight = -(nodes**2) / 2 - math.log(2 * math.pi) / 2 + math.log(step)
    values = [
        _log_one_plus_sum(weight + _log_excess(order, y, log_ratio), _INTEGRAL_SLACK) / (order - 1) for order in orders
    ]
    return np.array(values)


def _log_excess(order: float, y: Array, log_ratio: Array) -> Array:
    """ln((1+y)^α − 1 − αy): Taylor's series for small y, logarithms for large y."""
    power = order * log_ratio
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        middle = np.log(np.expm1(power) - order * y)
        large = power + np.log1p((order - 1) * np.exp(-power) - order * np.exp(log_ratio - power))
        term = np.ones_like(y)
        total = term.copy()
        for k in range(3, 13):
            term = term * y * ((order - k + 1) / k)
            total = total + term
        small = np.log(order * (order - 1) / 2) + 2 * np.log(np.abs(y)) + np.log(total)
    return np.where(np.abs(order * y) < 0.02, small, np.where(power > 20, large, middle))


def _log_expm1(x: Array) -> Array:
    """ln(e^x − 1) for x > 0."""
    return np.where(x > 1, x + np.log1p(-np.exp(-np.maximum(x, 1.0))), np.log(np.expm1(np.minimum(x, 1.0))))


def _log_one_plus_sum(logs: Array, slack: float) -> float:
    """ln(1 + (1 + slack)·Σ e^logs)."""
    top = float(np.max(logs))
    if top == -math.inf:
        return 0.0
    total = top + math.log(float(np.sum(np.exp(logs - top)))) + slack
    return math.log1p(math.exp(total)) if total < 30 else total + math.log1p(math.exp(-total))
