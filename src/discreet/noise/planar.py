"""Laplace noise in the plane, and in any dimension, on the integer grid: P(z) ∝ exp(−‖z‖₂/scale), exactly.

This is the planar geometric (grid planar Laplace) distribution of geo-indistinguishability (Andrés, Bordenabe,
Chatzikokolakis, Palamidessi 2013), here with nothing cut off.

1. Draw each of the d coordinates from the discrete Laplace distribution of a scale t' ≥ t√d.
2. Accept z with probability exp(−(‖z‖₂/t − ‖z‖₁/t')); else start again.

Proof. ‖z‖₁ ≤ √d·‖z‖₂ (Cauchy–Schwarz), so the exponent is not positive; the product of proposal and acceptance is
∝ exp(−‖z‖₂/t). In the plane π/4 ≈ 78 % are accepted, independently of the point returned.
"""

from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, integer, rational, sqrt_bounds
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.geometric import discrete_laplace
from discreet.noise.sampler import LARGEST, Integers, Size, shape
from discreet.noise.table import Enclosure, accept

_BLOCK = 1 << 14


def planar_laplace(
    scale: Number, size: Size = None, *, dimensions: int = 2, entropy: Entropy | None = None
) -> Integers:
    """Grid points z with P(z) ∝ exp(−‖z‖₂/scale); the last axis holds the coordinates.

    >>> planar_laplace(10).shape, planar_laplace(10, size=5).shape, planar_laplace(10, dimensions=3).shape
    ((2,), (5, 2), (3,))
    """
    exact = rational(scale, "scale", above=0)
    if exact > LARGEST // 1024:
        raise InvalidParameter("scale", scale, "at most 2^42", "use a coarser grid, so that noise fits 64 bits")
    count = integer(dimensions, "dimensions", at_least=1, at_most=8)
    source = SYSTEM if entropy is None else entropy
    sampler = _spherical(exact, count)
    out = np.empty((*(() if size is None else shape(size)), count), np.int64)
    points = out.reshape(-1, count)
    for start in range(0, len(points), _BLOCK):
        sampler.fill(source, points[start : start + _BLOCK])
    return out


@lru_cache(maxsize=32)
def _spherical(scale: Fraction, dimensions: int) -> "_Spherical":
    return _Spherical(scale, dimensions)


class _Spherical:
    def __init__(self, scale: Fraction, dimensions: int) -> None:
        self._scale = scale
        self._wide = scale * Fraction(isqrt(dimensions << 20) + 1, 1 << 10)  # t' just above t√d
        self._floats = float(scale), float(self._wide)

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.arange(len(out))
        while pending.size:
            points = np.asarray(discrete_laplace(self._wide, (pending.size, out.shape[1]), entropy=entropy))
            out[pending] = points
            pending = pending[~self._accepted(points, entropy)]

    def _accepted(self, points: Integers, entropy: Entropy) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        scale, wide = self._floats
        sizes = np.abs(points).astype(np.float64)
        with np.errstate(all="ignore"):  # a scale below the floats: 0/0 is left to the rationals
            near, far = sizes.sum(axis=1) / wide, np.sqrt(np.square(sizes).sum(axis=1)) / scale
            gamma = np.where(far <= 64, np.maximum(far - near, 0), np.nan)  # up to 64, its error is below 2^−43
        return accept(gamma, lambda k: self._acceptance(points[k].tolist()), entropy)

    def _acceptance(self, point: list[int]) -> Enclosure:
        square = sum(x * x for x in point) / (self._scale * self._scale)
        near = sum(abs(x) for x in point) / self._wide

        def enclose(bits: int) -> tuple[int, int]:
            fine = bits + 8
            lo, hi = (Fraction(root, 1 << fine) - near for root in sqrt_bounds(square, fine))
            return exp_bounds(-hi, bits)[0], min(exp_bounds(-max(lo, Fraction(0)), bits)[1], 1 << bits)

        return enclose
