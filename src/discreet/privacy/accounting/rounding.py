"""Rounding towards privacy, roots found from the safe side, and why an accountant refuses.

Probabilities of the normal and of the discrete normal distribution, with relative accuracy in the tails.

Whatever is subtracted here is subtracted on the side where it is small, so that a mass of 1e-200 is known to
many digits. The scalar functions use `math` only; the array functions load scipy.special when first called.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from discreet.exact import float_down, float_up, plain, text_up

SLACK = 1e-12
"""A relative allowance for a closed formula of a few dozen floating-point steps (each errs by about 1e-16)."""


def raised(x: float, relative: float = SLACK) -> float:
    """A float certainly above the exact value that `x` ≥ 0 approximates with that relative error.

    >>> raised(1.0) > 1, raised(0.0) > 0
    (True, True)
    """
    return math.nextafter(x * (1 + relative), math.inf)


def loss_up(x: Fraction) -> float:
    """A loss parameter (ε, a rate) as a float not below it, and not so small that its square vanishes.

    >>> loss_up(Fraction(1, 2)), loss_up(Fraction(1, 10**400))
    (0.5, 1e-100)
    """
    return max(float_up(x), 1e-100)


def noise_down(x: Fraction) -> float:
    """A noise parameter (σ, a multiplier) as a float not above it, and not so great that its square overflows.

    >>> noise_down(Fraction(1, 2)), noise_down(Fraction(10) ** 400)
    (0.5, 1e+100)
    """
    return min(float_down(x), 1e100)


def decimal_up(x: Fraction, digits: int = 12) -> Fraction:
    """The least decimal of that many significant digits that is not below x > 0.

    >>> decimal_up(Fraction(2, 3), 4), decimal_up(Fraction(5), 4)
    (Fraction(6667, 10000), Fraction(5, 1))
    """
    unit = _unit(x, digits)
    return -(-x // unit) * unit


def decimal_down(x: Fraction, digits: int = 12) -> Fraction:
    """The greatest decimal of that many significant digits that is not above x > 0.

    >>> decimal_down(Fraction(2, 3), 4)
    Fraction(3333, 5000)
    """
    unit = _unit(x, digits)
    return (x // unit) * unit


def _unit(x: Fraction, digits: int) -> Fraction:
    """One unit of the last digit: 10^(k − digits) where 10^(k−1) ≤ x < 10^k."""
    k = math.floor((x.numerator.bit_length() - x.denominator.bit_length() - 1) * math.log10(2)) + 1
    while Fraction(10) ** k <= x:
        k += 1
    return Fraction(10) ** (k - digits)


def short_up(x: Fraction) -> Fraction:
    """x itself where its digits are few, else a decimal of 60 digits not below it.

    >>> short_up(Fraction(1, 3)), short_up(sum(Fraction(1, n) for n in range(1, 2000))) > 8
    (Fraction(1, 3), True)
    """
    return x if x.denominator.bit_length() <= 512 else decimal_up(x, 60)


def snapped(f: Callable[[float], bool], x: float) -> float:
    """x, or the shorter decimal next to and below it where that holds too.

    >>> snapped(lambda x: x >= 1, 1.0000000000000002), snapped(lambda x: x > 1, 1.0000000000000002)
    (1.0, 1.0000000000000002)
    """
    short = float(f"{x:.12g}")
    return short if short < x and f(short) else x


def log(x: Fraction) -> float:
    """ln x for any rational x > 0, also where float(x) is 0 or infinite.

    >>> round(log(Fraction(1, 10**1000)), 6)
    -2302.585093
    """
    if Fraction(1, 2) < x < 2:
        return math.log1p(float(x - 1))
    k = x.numerator.bit_length() - x.denominator.bit_length()
    return k * math.log(2) + math.log(x / Fraction(2) ** k)  # digits are kept, however long the fraction is


def crossing(
    f: Callable[[float], float],
    low: float,
    high: float,
    *,
    relative: float = 1e-13,
    absolute: float = 0.0,
    steps: int = 200,
) -> tuple[float, float]:
    """Two close arguments between which the increasing function f passes zero; f(low) ≤ 0 ≤ f(high) is assumed.

    Regula falsi in the Illinois form, with a bisection whenever three steps did not halve the interval.
    The second argument always has f ≥ 0, the first f ≤ 0, so that a caller can take the safe one.

    >>> low, high = crossing(lambda x: x * x - 2, 0.0, 2.0)
    >>> low <= 2**0.5 <= high, high - low < 1e-12
    (True, True)
    """
    at_low, at_high = f(low), f(high)
    last, width, stale = 0, high - low, 0
    for _ in range(steps):
        if high - low <= max(absolute, relative * max(abs(low), abs(high))) or at_low == 0 == at_high:
            break
        guess = (low * at_high - high * at_low) / (at_high - at_low) if stale < 3 else math.nan
        if not low < guess < high:
            guess, stale = low + (high - low) / 2, 0
        if not low < guess < high:
            break
        value = f(guess)
        if value < 0:
            low, at_low, at_high = guess, value, at_high / 2 if last < 0 else at_high
        else:
            high, at_high, at_low = guess, value, at_low / 2 if last > 0 else at_low
        last = -1 if value < 0 else 1
        stale = stale + 1 if high - low > width / 2 else 0
        width = width if stale else high - low
    return low, high


def unbounded(unit: str) -> str:
    """Why d-privacy alone gives no ε."""
    return f"d-privacy per {unit} gives an ε only inside a radius; use PerDistance(...).within(distance)"


def no_delta_left(delta: Fraction, spent: Fraction) -> str:
    """Why a δ that key selection has used up gives no ε."""
    return (
        f"δ = {plain(delta)} does not cover the additive δ = {text_up(spent)} of this loss (key selection and "
        "other (ε, δ) parts); ask with a greater delta"
    )


Array = NDArray[np.float64]

_TABLE_UP_TO = 2000.0
_REACH = 39.0  # e^(−39²/2) < 1e-330: beyond this many σ a float is zero


def mills(x: float) -> float:
    """Mills' ratio Q(x)/φ(x) of the standard normal distribution, for x ≥ −37.

    >>> round(mills(0.0), 6), round(mills(1e6) * 1e6, 6)
    (1.253314, 1.0)
    """
    if x > 3:
        return 1 / (x + _mills_tail(x))
    return math.erfc(x / math.sqrt(2)) / 2 * math.exp(x * x / 2) * math.sqrt(2 * math.pi)


def mills_slope(x: float) -> float:
    """−d/dx of Mills' ratio: 1 − x·mills(x), without cancellation for large x.

    >>> round(mills_slope(0.0), 6), round(mills_slope(1e6) * 1e12, 6)
    (1.0, 1.0)
    """
    if x > 3:
        tail = _mills_tail(x)
        return tail / (x + tail)
    return 1 - x * mills(x)


def _mills_tail(x: float) -> float:
    """c in Q/φ = 1/(x + c): Laplace's continued fraction 1/(x + 2/(x + 3/(x + …))), converged for x > 3."""
    c = x
    for k in range(40, 1, -1):
        c = x + k / c
    return 1 / c


def normal_cells(edges: Array) -> Array:
    """Standard normal masses of (−∞, e₀], (e₀, e₁], …, (eₙ, ∞) for increasing edges.

    >>> normal_cells(np.array([-1.0, 1.0])).round(4).tolist()
    [0.1587, 0.6827, 0.1587]
    """
    from scipy.special import ndtr

    below = np.concatenate(([0.0], ndtr(edges), [1.0]))
    above = np.concatenate(([1.0], ndtr(-edges), [0.0]))
    right = np.concatenate(([-np.inf], edges)) > 0
    masses: Array = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    return masses


def discrete_cells(sigma: float, edges: Array) -> Array:
    """Masses of X < e₀, e₀ ≤ X < e₁, …, eₙ ≤ X for X ~ N_ℤ(0, σ²) and non-decreasing whole edges.

    >>> discrete_cells(1.0, np.array([0.0, 1.0])).round(4).tolist()
    [0.3005, 0.3989, 0.3005]
    """
    above = np.concatenate(([1.0], discrete_tail(sigma, edges), [0.0]))  # P(X ≥ e)
    below = np.concatenate(([0.0], discrete_tail(sigma, 1 - edges), [1.0]))  # P(X < e) = P(X ≥ 1 − e)
    right = np.concatenate(([-np.inf], edges)) > 0
    masses: Array = np.where(right, above[:-1] - above[1:], below[1:] - below[:-1])
    return masses


def discrete_tail(sigma: float, k: Array) -> Array:
    """P(X ≥ k) for X ~ N_ℤ(0, σ²) and whole k.

    Up to σ = 2000 by adding the terms from the small end (relative error below 1e-12). Above, by
    Euler–Maclaurin to the third derivative: with |k| ≤ 39σ the first omitted term is below 1e-14 of the sum.

    >>> discrete_tail(3.0, np.array([0.0, 1.0])).round(6).tolist()
    [0.56649, 0.43351]
    """
    far = np.abs(np.where(k > 0, k, 1 - k))
    if sigma <= _TABLE_UP_TO:
        table = _suffix_sums(sigma)
        tail = table[np.minimum(far, len(table) - 1).astype(np.int64)]
    else:
        tail = _euler_maclaurin(sigma, far)
    return np.where(k > 0, tail, 1 - tail)


@lru_cache(maxsize=16)
def _suffix_sums(sigma: float) -> Array:
    """P(X ≥ k) for k = 0, 1, …, the last entry being 0."""
    terms = discrete_terms(sigma, np.arange(math.ceil(_REACH * sigma) + 1, dtype=np.float64))
    return np.append(np.cumsum(terms[::-1])[::-1], 0.0)


def discrete_terms(sigma: float, x: Array) -> Array:
    """P(X = x) for X ~ N_ℤ(0, σ²) and whole x.

    >>> discrete_terms(1.0, np.array([0.0, 1.0])).round(4).tolist()
    [0.3989, 0.242]
    """
    return np.exp(-((x / sigma) ** 2) / 2) / discrete_total(sigma)


def discrete_total(sigma: float) -> float:
    """Σ exp(−x²/2σ²) over the whole numbers; for σ ≥ 2 it is σ√2π to 1e-33 (Poisson summation).

    >>> round(discrete_total(1.0), 6), round(discrete_total(0.01), 6)
    (2.506628, 1.0)
    """
    if sigma >= 2:
        return sigma * math.sqrt(2 * math.pi)
    return 1 + 2 * math.fsum(math.exp(-((x / sigma) ** 2) / 2) for x in range(1, math.ceil(_REACH * sigma) + 1))


def _euler_maclaurin(sigma: float, k: Array) -> Array:
    from scipy.special import ndtr

    z = k / sigma
    term = np.exp(-(z**2) / 2)
    corrections = 0.5 + z / (12 * sigma) + (3 * z - z**3) / (720 * sigma**3)
    tail: Array = ndtr(-z) + term * corrections / (sigma * math.sqrt(2 * math.pi))
    return tail
