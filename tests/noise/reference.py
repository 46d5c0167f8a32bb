"""The true distributions in 700-bit arithmetic (mpmath): what the decision tables are compared with."""

from fractions import Fraction
from functools import lru_cache

import mpmath

CONTEXT = mpmath.MPContext()
CONTEXT.prec = 700
WORD = 1 << 64


def real(x: Fraction | int) -> mpmath.mpf:
    x = Fraction(x)
    return CONTEXT.mpf(x.numerator) / x.denominator


def exp(x: Fraction | int) -> mpmath.mpf:
    return CONTEXT.exp(real(x))


def laplace_pmf(scale: Fraction, k: int) -> mpmath.mpf:
    """P(K = k) ∝ e^(−|k|/scale)."""
    q = exp(-1 / scale)
    return (1 - q) / (1 + q) * exp(-abs(k) / scale)


def geometric_pmf(scale: Fraction, k: int) -> mpmath.mpf:
    return (1 - exp(-1 / scale)) * exp(-k / scale)


def digit_cdf(rate: Fraction, size: int | None, *, signed: bool, i: int) -> mpmath.mpf:
    """P(digit ≤ i) for a geometric digit of ratio e^−rate on {0 … size−1} or ℕ, by summing probabilities.

    If signed, outcome 2r + S carries an independent bit S with P(S = 1) = q/(1+q).
    """
    q, total = _digit_constants(rate, size)
    r, s = (i >> 1, i & 1) if signed else (i, 1)
    power = q**r
    here = power * (1 - q)
    return (1 - power + (here if s else here / (1 + q))) / total


@lru_cache(maxsize=256)
def digit_cdfs(rate: Fraction, size: int | None, count: int, *, signed: bool) -> list[mpmath.mpf]:
    """The first `count` values of `digit_cdf`, each power from the one before."""
    q, total = _digit_constants(rate, size)
    values, power = [], CONTEXT.mpf(1)
    while len(values) < count:
        if signed:
            values.append((1 - power + power * (1 - q) / (1 + q)) / total)
        values.append((1 - power * q) / total)
        power *= q
    return values[:count]


@lru_cache(maxsize=256)
def _digit_constants(rate: Fraction, size: int | None) -> tuple[mpmath.mpf, mpmath.mpf]:
    return exp(-rate), 1 - (exp(-rate * size) if size else 0)


@lru_cache(maxsize=64)
def block_cdf(sigma: Fraction, m: int) -> list[mpmath.mpf]:
    """P(block ≤ i) of the discrete Gaussian's blocks, ∝ exp(−e²/2σ²), e the member nearest to zero."""
    weights, h = [], 0
    while not weights or weights[-2] > CONTEXT.mpf(2) ** -690:
        weights += [exp(-Fraction((m * h) ** 2) / (2 * sigma**2)), exp(-Fraction((m * h + 1) ** 2) / (2 * sigma**2))]
        h += 1
    total = CONTEXT.fsum(weights)
    sums, so_far = [], CONTEXT.mpf(0)
    for weight in weights:
        so_far += weight
        sums.append(so_far / total)
    return sums


def gaussian_total(sigma: Fraction) -> mpmath.mpf:
    """Σ over all integers of exp(−k²/2σ²); for σ > 8 by Poisson summation (the next term is below 2^−1800)."""
    if sigma > 8:
        return real(sigma) * CONTEXT.sqrt(2 * CONTEXT.pi) * (1 + 2 * CONTEXT.exp(-2 * (CONTEXT.pi * real(sigma)) ** 2))
    reach = int(sigma * 32) + 40
    return 1 + 2 * CONTEXT.fsum(exp(-Fraction(k * k) / (2 * sigma**2)) for k in range(1, reach))


def first_above(u: mpmath.mpf, cdf: "list[mpmath.mpf]") -> int:
    """The outcome of inversion: the first i with u < F(i)."""
    return next(i for i, f in enumerate(cdf) if u < f)


def leading_words(x: mpmath.mpf, count: int) -> list[int]:
    """The first `count` 64-bit words of the binary expansion of x in [0, 1)."""
    whole = int(CONTEXT.floor(x * CONTEXT.mpf(2) ** (64 * count)))
    return [(whole >> (64 * (count - 1 - j))) % WORD for j in range(count)]


def from_words(words: list[int]) -> mpmath.mpf:
    """The real number that the words begin, all later bits zero."""
    whole = 0
    for word in words:
        whole = whole << 64 | word
    return CONTEXT.mpf(whole) / CONTEXT.mpf(2) ** (64 * len(words))
