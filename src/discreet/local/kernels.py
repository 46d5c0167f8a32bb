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
_MOST_SCALE_SUMMED = 60


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
    """Σ e^(−‖z‖₂/t) over all integer points z of the plane: the normalizer of planar Laplace noise on a grid.

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


def radius_within(scale: Number, share: Number) -> float:
    """A radius in cells that holds at most this share of planar Laplace noise; rounded down.

    Guarantee: wherever in its cell a place u is, P(‖noise − u‖ < radius) ≤ share.
    Proof. Up to t = 60 the cell is cut into squares (one eighth of it will do: the noise is symmetric), and what a disc
    holds about any point of a square is at most what a disc wider by half the square's diagonal holds about its
    middle; those sums are taken over the grid, with 1e-9 to spare for floats. Beyond, with h = √½, each grid point
    stands for its unit square, within h of it: Σ_{‖z‖ < R} e^(−‖z‖/t) is at most e^(h/t)·∫_{‖x‖ < R + h} e^(−‖x‖/t),
    and Σ_{‖z‖ ≥ R} at least e^(−h/t)·∫_{‖x‖ ≥ R + h}; with Z the sum over all z, either shows that the disc holds no
    more than the share, and the larger R is taken. A disc about u lies in one about 0 that is wider by h.

    >>> radius_within(10, "0.5") < 16.79 < radius_within(10, "0.51")
    True
    """
    from scipy.special import gammainccinv, gammaincinv

    t, most = float(rational(scale, "scale", above=0)), float(rational(share, "share", above=0, below=1))
    half = math.sqrt(0.5)
    if t > _MOST_SCALE_SUMMED:
        total = lattice_sum(scale) / (2 * math.pi * t**2)
        inside = float(gammaincinv(2, most * total * math.exp(-half / t)))
        outside = float(gammainccinv(2, min((1 - most) * total * math.exp(half / t), 1.0)))
        return max(t * max(inside, outside) * (1 - 1e-9) - 2 * half, 0.0)
    reach = math.ceil(t * float(gammaincinv(2, most))) + 2
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = (np.exp(-np.hypot(z[:, None], z) / t) / lattice_sum(scale)).ravel()
    cuts = max(2, min(8, math.ceil(16 / t)))
    middles = (np.arange(cuts) + 0.5) / (2 * cuts)
    radii = [_disc(weights, z, (x, y), most) for i, x in enumerate(middles) for y in middles[: i + 1]]
    return max(min(*radii, reach - 1.0) - half / (2 * cuts) - 1e-9, 0.0)


def _disc(weights: Floats, z: Floats, middle: tuple[float, float], most: float) -> float:
    """The radius at which a disc about a point begins to hold more than this share of the weights."""
    away = np.hypot(z[:, None] - middle[0], z - middle[1]).ravel()
    order = np.argsort(away)
    beyond = np.flatnonzero(np.cumsum(weights[order]) > most * (1 - 1e-9))
    return float(away[order[beyond[0]]]) if beyond.size else math.inf


def _frozen(array: Floats) -> Floats:
    array.setflags(write=False)
    return array
