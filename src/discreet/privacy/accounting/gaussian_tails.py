"""Probabilities of the normal and of the discrete normal distribution, with relative accuracy in the tails.

Whatever is subtracted here is subtracted on the side where it is small, so that a mass of 1e-200 is known to
many digits. The scalar functions use `math` only; the array functions load scipy.special when first called.
"""

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

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
