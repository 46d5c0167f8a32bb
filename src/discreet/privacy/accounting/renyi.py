"""Rényi divergences of atomic losses, as upper bounds that are exact up to floating-point error.

D_α(P‖Q) = ln E_Q[(P/Q)^α] / (α − 1), the greater of both directions, at an array of orders α > 1. Where the
expectation is close to 1 its excess over 1 is computed as a sum of positive terms, so that tiny divergences,
which are multiplied by large counts later, keep their digits.
"""

import math

import numpy as np

from discreet.privacy.accounting.tails import Array

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
