"""Rationals, and real functions of rationals with directed rounding.

Every ε, δ, scale and sensitivity is a `Fraction` inside discreet. Where a formula leaves the rationals
(exp, log, sqrt), the functions here return two integers that enclose the true value, so that a caller
can always round towards privacy, or ask again with more bits.
"""

import math
import re
import sys
from collections.abc import Callable, Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.errors import InvalidParameter

Number = int | Fraction | Decimal | str | float
"""What callers may write for a number: 1, Fraction(1, 3), Decimal("0.1"), "0.1", "1/3", 0.1."""

_DECIMAL = re.compile(r"\s*[+-]?(\d[\d_]*(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?\s*")
_RATIO = re.compile(r"\s*[+-]?\d+\s*/\s*\d+\s*")
_MOST_BITS = 4096
_FLOAT_BITS = 996  # a rational of fewer is below 1e300, and a float
_MOST_TEXT = 3000  # room for any rational of that many bits


def rational(
    value: Number,
    name: str,
    *,
    above: int | Fraction | None = None,
    at_least: int | Fraction | None = None,
    below: int | Fraction | None = None,
    at_most: int | Fraction | None = None,
) -> Fraction:
    """Read a number that a person wrote as an exact rational, within the stated limits.

    A float means the shortest decimal that prints as that float, which is what the person typed: 0.1 is
    one tenth, not 0.1000000000000000055.

    >>> rational(0.1, "epsilon"), rational("1/3", "epsilon"), rational("2.5e-3", "epsilon")
    (Fraction(1, 10), Fraction(1, 3), Fraction(1, 400))
    >>> rational(-1, "scale", above=0)
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: scale: got -1, expected a number > 0
    """

    def expected() -> str:
        return _words("a number", {">": above, "≥": at_least, "<": below, "≤": at_most})

    exact = _parse(value, name, expected)
    inside = (
        (above is None or exact > above)
        and (at_least is None or exact >= at_least)
        and (below is None or exact < below)
        and (at_most is None or exact <= at_most)
    )
    if not inside:
        raise InvalidParameter(name, value, expected())
    return exact


def integer(value: int, name: str, *, at_least: int | None = None, at_most: int | None = None) -> int:
    """Read a whole number (a Python or NumPy integer, not a bool) within the stated limits.

    >>> integer(3, "count", at_least=1)
    3
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.bool_)
    exact = int(value) if whole else 0
    if not whole or (at_least is not None and exact < at_least) or (at_most is not None and exact > at_most):
        raise InvalidParameter(name, value, _words("a whole number", {"≥": at_least, "≤": at_most}))
    return exact


def _words(kind: str, limits: Mapping[str, int | Fraction | None]) -> str:
    """What is expected; put into words only for those who wrote something else."""
    stated = [f"{sign} {limit}" for sign, limit in limits.items() if limit is not None]
    return kind + (" " + " and ".join(stated) if stated else "")


def _parse(value: Number, name: str, expected: Callable[[], str]) -> Fraction:  # noqa: PLR0912 - one branch a type
    if isinstance(value, Fraction):
        exact = value
    elif isinstance(value, bool | np.bool_):
        raise InvalidParameter(name, value, expected(), "True and False are not numbers here")
    elif isinstance(value, int | np.integer):
        exact = Fraction(int(value))
    elif isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise InvalidParameter(name, value, expected(), "it must be finite")
        exact = Fraction(float.__repr__(value) if isinstance(value, float) else str(value))
    elif isinstance(value, Decimal):
        if not value.is_finite():
            raise InvalidParameter(name, value, expected(), "it must be finite")
        if abs(value.adjusted()) > 9999 or len(value.as_tuple().digits) > 9999:
            raise InvalidParameter(name, "a Decimal out of reach", expected())
        exact = Fraction(value)
    elif isinstance(value, str):
        try:
            exact = _read(value)
        except ZeroDivisionError:
            raise InvalidParameter(name, value, expected(), "its denominator is zero") from None
        except ValueError:
            raise InvalidParameter(name, value, expected(), "write it as 0.5, 1e-6 or 1/3") from None
    else:
        hint = f"a {type(value).__name__} is not a number; use an int, Fraction, Decimal, float or decimal string"
        raise InvalidParameter(name, value, expected(), hint)
    if max(exact.numerator.bit_length(), exact.denominator.bit_length()) > _MOST_BITS:
        raise InvalidParameter(name, f"a number of over {_MOST_BITS} bits", expected())
    return exact


@lru_cache(maxsize=1024)
def _read(text: str) -> Fraction:
    if len(text) > _MOST_TEXT or not (_DECIMAL.fullmatch(text) or _RATIO.fullmatch(text)):
        raise ValueError
    return Fraction(text.replace(" ", ""))


def exp_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers lo ≤ 2^bits·e^x ≤ hi, with hi − lo ≤ 2 when x ≤ 0.

    Proof. For x ≤ 0 let y = −x and r = y/2^k ≤ 2⁻⁸. In fixed point with P fraction bits, r is known to one
    unit u = 2⁻ᴾ. Each Taylor term tⱼ₊₁ = tⱼ·r/(j+1) of e⁻ʳ is computed with two floors, so its error obeys
    eⱼ₊₁ ≤ eⱼ·2⁻⁸ + u + 2u, hence eⱼ < 4u; the first omitted term is below u and the series alternates, so
    J terms give e⁻ʳ within (4J + 1)u. Squaring k times doubles the relative error each time and both ends
    are rounded outwards. P exceeds `bits` by more than k + log₂(4J + 1) + 2, so the final width is below
    one unit of 2^−bits before the outward rounding to integers. For x > 0, e^x = 1/e^−x, ends swapped.

    >>> exp_bounds(Fraction(0), 8), exp_bounds(Fraction(-1), 20)
    ((256, 256), (385749, 385750))
    """
    if x == 0:
        return 1 << bits, 1 << bits
    if x > 0:
        inner = bits + 3 * math.ceil(x) + 16
        lo, hi = exp_bounds(-x, inner)
        return (1 << (bits + inner)) // hi, -((-1 << (bits + inner)) // lo)
    y = -x
    if y > bits:  # e^−y < 2^−bits
        return 0, 1
    k = math.ceil(y).bit_length() + 8
    precision = bits + k + 24 + bits.bit_length()
    one = 1 << precision
    r = (y.numerator << precision) // (y.denominator << k)
    total, term, j = one, one, 0
    while term:
        j += 1
        term = ((term * r) >> precision) // j
        total += -term if j & 1 else term
    slack = 4 * j + 2
    lo, hi = total - slack, total + slack
    for _ in range(k):
        lo = (lo * lo) >> precision
        hi = -((-hi * hi) >> precision)
    shift = precision - bits
    return max(lo >> shift, 0), -((-hi) >> shift)


def log_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers lo ≤ 2^bits·ln x ≤ hi, with hi − lo ≤ 2.

    Proof. x = 2^k·m with 1/2 < m < 2, and ln m = 2·atanh((m−1)/(m+1)), ln 2 = 2·atanh(1/3); see
    `_atanh_bounds` for the series. The guard bits exceed the bits of k and of the number of terms.

    >>> log_bounds(Fraction(1), 30), log_bounds(Fraction(3), 20)
    ((0, 0), (1151978, 1151979))
    """
    if x <= 0:
        raise InvalidParameter("x", x, "a number > 0", "the logarithm of zero or less does not exist")
    if x == 1:
        return 0, 0
    k = x.numerator.bit_length() - x.denominator.bit_length()
    m = x / (Fraction(1 << k) if k >= 0 else Fraction(1, 1 << -k))
    precision = bits + 24 + k.bit_length() + bits.bit_length()
    m_lo, m_hi = _atanh_bounds((m - 1) / (m + 1), precision)
    two_lo, two_hi = _atanh_bounds(Fraction(1, 3), precision)
    lo = 2 * m_lo + 2 * k * (two_lo if k >= 0 else two_hi)
    hi = 2 * m_hi + 2 * k * (two_hi if k >= 0 else two_lo)
    shift = precision - bits
    return lo >> shift, -((-hi) >> shift)


def _atanh_bounds(z: Fraction, precision: int) -> tuple[int, int]:
    """Bounds on 2^precision·atanh z for |z| ≤ 1/3, by Σ z^(2j+1)/(2j+1).

    Proof. Powers lose at most 3 units each (z², the product, both floored; |z| < 1 shrinks what was lost
    before), the division one more; the omitted tail is below one unit once the power is zero.
    """
    sign = -1 if z < 0 else 1
    z = abs(z)
    power = (z.numerator << precision) // z.denominator
    square = (power * power) >> precision
    total, j = 0, 0
    while power:
        total += power // (2 * j + 1)
        power = (power * square) >> precision
        j += 1
    slack = 4 * j + 4
    return (total - slack, total + slack) if sign > 0 else (-total - slack, -total + slack)


def sqrt_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers lo ≤ 2^bits·√x ≤ hi, with hi − lo ≤ 1.

    >>> sqrt_bounds(Fraction(2), 10), sqrt_bounds(Fraction(9, 4), 1)
    ((1448, 1449), (3, 3))
    """
    if x < 0:
        raise InvalidParameter("x", x, "a number ≥ 0", "negative numbers have no square root here")
    scaled, rest = divmod(x.numerator << (2 * bits), x.denominator)
    root = math.isqrt(scaled)
    return root, root if root * root == scaled and not rest else root + 1


def exp_down(x: Fraction, bits: int = 96) -> Fraction:
    """A rational certainly not above e^x, at most 2^(2−bits) away relatively.

    >>> 0 <= math.exp(-1) - exp_down(Fraction(-1)) < 1e-16
    True
    """
    bits += max(0, -math.floor(x) * 3 // 2)
    return Fraction(exp_bounds(x, bits)[0], 1 << bits)


def exp_up(x: Fraction, bits: int = 96) -> Fraction:
    """A rational certainly not below e^x, at most 2^(2−bits) away relatively.

    >>> exp_down(Fraction(1)) < exp_up(Fraction(1))
    True
    """
    bits += max(0, -math.floor(x) * 3 // 2)
    return Fraction(exp_bounds(x, bits)[1], 1 << bits)


def log_down(x: Fraction, bits: int = 96) -> Fraction:
    """A rational certainly not above ln x.

    >>> float(log_down(Fraction(3)))
    1.0986122886681098
    """
    return Fraction(log_bounds(x, bits)[0], 1 << bits)


def log_up(x: Fraction, bits: int = 96) -> Fraction:
    """A rational certainly not below ln x.

    >>> log_down(Fraction(3)) < log_up(Fraction(3))
    True
    """
    return Fraction(log_bounds(x, bits)[1], 1 << bits)


def float_up(x: Fraction) -> float:
    """The smallest float that is not below x (inf where none is).

    >>> float_up(Fraction(1, 10)) >= Fraction(1, 10), float_up(Fraction(1, 2))
    (True, 0.5)
    """
    try:
        near = float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.nextafter(math.inf, 0)
    return near if Fraction(near) >= x else math.nextafter(near, math.inf)


def float_down(x: Fraction) -> float:
    """The largest float that is not above x (−inf where none is).

    >>> float_down(Fraction(1, 10)) <= Fraction(1, 10)
    True
    """
    return 0.0 - float_up(-x)


@lru_cache(maxsize=4096)
def printed_up(x: Fraction) -> float:
    """The least float that is not below x when read as `rational` reads floats: as the decimal that it prints as.

    For results that people see: exactly 3/10 prints as 0.3, not as the next float after it.

    >>> printed_up(Fraction(3, 10)), float_up(Fraction(3, 10))
    (0.3, 0.30000000000000004)
    """
    above = float_up(x)
    near = max(math.nextafter(above, -math.inf), -sys.float_info.max) if math.isfinite(above) else math.inf
    while math.isfinite(near) and Fraction(repr(near)) < x:
        near = math.nextafter(near, math.inf)
    return near + 0.0  # not −0.0


def printed_down(x: Fraction) -> float:
    """The greatest float that is not above x when read as the decimal that it prints as: for what is left of a budget.

    >>> printed_down(Fraction(3, 10)), printed_down(Fraction(1, 3))
    (0.3, 0.3333333333333333)
    """
    return 0.0 - printed_up(-x)


def text_up(x: Fraction | float, digits: int = 6) -> str:
    """A number in at most so many significant digits, rounded up: **the way to print a cost**.

    A float is read as the decimal that it prints as, like everywhere.

    >>> text_up(Fraction(1, 3)), text_up(0.3), text_up(1.23e-6, 2), text_up(math.inf)
    ('0.333334', '0.3', '1.3e-06', 'inf')
    """
    return _text(x, digits, ROUND_CEILING)


def text_down(x: Fraction | float, digits: int = 6) -> str:
    """A number in at most so many significant digits, rounded down: the way to print what is left.

    >>> text_down(Fraction(2, 3)), text_down(0.7), text_down(Fraction(-1, 3), 2)
    ('0.666666', '0.7', '-0.34')
    """
    return _text(x, digits, ROUND_FLOOR)


def _text(x: Fraction | float, digits: int, rounding: str) -> str:
    if isinstance(x, float | np.floating) and not math.isfinite(x):
        return str(float(x))
    exact = x if isinstance(x, Fraction) else rational(x, "number")
    short = Context(prec=digits, rounding=rounding).divide(Decimal(exact.numerator), Decimal(exact.denominator))
    if short and not -300 < short.adjusted() < 300:
        return str(short.normalize()).lower()
    return f"{float(short):.{digits}g}"  # a decimal of so few digits survives being a float


def plain(x: Fraction) -> str:
    """An exact, short text of a rational: a decimal where one ends, else "p/q". `rational` reads it back.

    >>> plain(Fraction(1, 8)), plain(Fraction(1, 3)), plain(Fraction(5)), plain(Fraction(1, 10**9))
    ('0.125', '1/3', '5', '1e-09')
    """
    if x.denominator == 1 and -(10**15) < x.numerator < 10**15:
        return str(x.numerator)
    near = float(x) if x.numerator.bit_length() - x.denominator.bit_length() < _FLOAT_BITS else math.inf
    if math.isfinite(near) and Fraction(repr(near)) == x:
        return repr(near)
    return str(x)
