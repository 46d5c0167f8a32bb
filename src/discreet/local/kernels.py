"""Probabilities of displacements on a grid, for models of planar noise; what lies beyond the window is folded in."""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

from discreet.exact import Number, rational
from discreet.local.projection import Floats
from discreet.mechanisms.mechanism import countable

_NATS = 45  # what lies beyond e^−45 of the largest term changes no float
_MOST_TERMS = 200_000_000


@lru_cache(maxsize=16)
def geometric_folded(scale: Fraction, rows: int, columns: int) -> Floats:
    """Discrete Laplace noise on each axis: q^|d|·(1 − q)/(1 + q) within, and q^n/(1 + q) from n on."""
    q = math.exp(-1 / float(scale))
    axes = []
    for reach in (rows, columns):
        chances = q ** np.abs(np.arange(-reach, reach + 1)) * math.tanh(0.5 / float(scale))
        chances[[0, -1]] = q**reach / (1 + q)
        axes.append(chances)
    return _frozen(np.outer(*axes))


@lru_cache(maxsize=16)
def laplace_folded(scale: Fraction, rows: int, columns: int) -> Floats:
    """Planar Laplace noise: e^(−‖d‖/t)/Z within; sides and corners stand for all displacements beyond them."""
    t = float(scale)
    i, j = np.arange(rows), np.arange(columns)
    quarter = np.zeros((rows + 1, columns + 1))  # displacements ≥ 0; the others mirror them
    quarter[:-1, :-1] = np.exp(-np.hypot(i[:, None], j) / t)
    quarter[-1, :-1] = _tails(rows, columns, t)
    quarter[:-1, -1] = _tails(columns, rows, t)
    total = lattice_sum(scale)
    quarter[-1, -1] = _corner(rows, columns, t, quarter, total)
    half = np.concatenate([quarter[:0:-1], quarter])
    return _frozen(np.concatenate([half[:, :0:-1], half], axis=1) / total)


def _tails(start: int, count: int, t: float) -> Floats:
    """Σ_{i ≥ start} e^(−√(i² + j²)/t) for j = 0 … count − 1, right relatively."""
    end = math.ceil(math.sqrt((math.hypot(start, count) + _NATS * t) ** 2 - count**2)) + 1 + math.ceil(_NATS * t)
    countable(float(end - start) * count, "kernel", most=_MOST_TERMS)
    i = np.arange(start, end, dtype=np.float64)
    return np.array([np.exp(-np.hypot(i, j) / t).sum() for j in range(count)])


def _corner(rows: int, columns: int, t: float, quarter: Floats, total: float) -> float:
    """Σ_{i ≥ rows, j ≥ columns} e^(−√(i² + j²)/t): added up, or, for wide noise, what all else leaves to the total."""
    away = math.hypot(rows, columns) + _NATS * t
    i = np.arange(rows, math.sqrt(away**2 - columns**2) + 1)
    j = np.arange(columns, math.sqrt(away**2 - rows**2) + 1)
    if i.size * j.size <= 4_000_000:
        return float(np.exp(-np.hypot(i[:, None], j) / t).sum())
    weights = np.outer([1] + [2] * rows, [1] + [2] * columns) * quarter  # its corner is still 0
    return max(float(total - weights.sum()) / 4, 0.0)


def lattice_sum(scale: Number) -> float:
    """Σ e^(−‖z‖₂/t) over all integer points z of the plane: the normaliser of planar Laplace noise on a grid.

    Poisson summation: Σ_z e^(−‖z‖/t) = 2πt²·Σ_k (1 + (2πt‖k‖)²)^(−3/2) (Stein, Weiss 1971: Poisson kernel). For t ≥ 2
    the terms k ≠ 0 are expanded in 1/(2πt‖k‖)², and Σ_{k≠0} ‖k‖^(−2s) = 4ζ(s)β(s) (Lorenz 1871; Hardy 1920), β being
    Dirichlet's. Below, the sum is taken as it stands.

    >>> round(lattice_sum(10) / (2 * math.pi * 100), 6)
    1.000036
    """
    from scipy.special import binom, zeta

    t = float(rational(scale, "scale", above=0))
    if t < 2:
        z = np.arange(1, math.ceil(_NATS * t) + 2)
        return float(1 + 4 * np.exp(-np.hypot(z[:, None], z - 1) / t).sum())  # a quarter turn of x ≥ 1, y ≥ 0
    j = np.arange(10)
    s = j + 1.5
    dirichlet = (zeta(s, 0.25) - zeta(s, 0.75)) / 4**s
    series = binom(-1.5, j) * (2 * math.pi * t) ** (-2 * s) * 4 * zeta(s, 1) * dirichlet
    return 2 * math.pi * t**2 * float(1 + series.sum())


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
