"""Rounding towards privacy, roots found from the safe side, and why an accountant refuses."""

import math
from collections.abc import Callable
from fractions import Fraction

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
