"""A dominating pair made from an upper bound on a privacy profile: for losses known by a bound only.

Let H(t) be the profile of a pair (P, Q) at t = e^ε, in both orders bounded at some knots. H is convex and falls from
H(0) = 1. So it lies below the lower convex hull of the bounds at the knots, and every convex, falling function from 1
that is at least (1 − t)₊ is the profile of a pair (Zhu, Dong, Wang 2022, §3): here of one with a lump of P-mass at
each corner of the hull, and what the last knot leaves at infinity. That pair dominates, so it composes like any other.

Floating point. What a composition takes from a part is its profile: δ(ε) = ∫ H(e^(ε−x)) dP′(x) grows with H at every
point. The lumps' own profile is computed again as a sum of positive terms and all lumps are raised until it is nowhere
below the bounds, so errors in finding the hull cost tightness only.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from discreet.errors import NoGuarantee
from discreet.privacy.accounting.gaussian_tails import Array
from discreet.privacy.accounting.rounding import SLACK

_PER_UNIT = 16  # knots to a typical loss
_DEEPEST = 690.0  # bounds are followed down to δ = e^−690
_FARTHEST = 600.0


@dataclass(frozen=True, slots=True, eq=False)
class Envelope:
    """Lumps of P-mass at increasing losses, and P-mass at infinity."""

    loss: Array
    mass: Array
    infinite: float

    @property
    def scale(self) -> float:
        """The deviation of the finite losses under P."""
        mean = float(self.mass @ self.loss)
        return max(math.sqrt(float(self.mass @ (self.loss - mean) ** 2)), 1e-100)

    @property
    def most(self) -> float:
        """The greatest loss, inf where there is mass at infinity."""
        return math.inf if self.infinite else float(self.loss[-1])

    def reach(self, tail: float) -> tuple[float, float]:
        """The least range of lumps outside of which there is at most `tail` on each side."""
        below, above = np.cumsum(self.mass), np.cumsum(self.mass[::-1])
        first = min(int(np.searchsorted(below, tail, side="right")), len(self.loss) - 1)
        last = min(int(np.searchsorted(above, tail, side="right")), len(self.loss) - 1)
        return float(self.loss[first]), float(self.loss[::-1][last])

    def cells(self, edges: Array) -> tuple[Array, Array]:
        """Each lump in its cell; Q-mass without P-mass below all edges."""
        at = np.searchsorted(edges, self.loss, side="left")
        q_mass = self.mass * np.exp(-self.loss)
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        p += np.bincount(at, weights=self.mass, minlength=len(p))
        q += np.bincount(at, weights=q_mass, minlength=len(q))
        p[-1] += self.infinite
        q[0] += max(0.0, 1 - float(q_mass.sum()))
        return p, q


def knots(top: float, scale: float) -> Array:
    """ε's from 0 to the top, closer together than a typical loss."""
    if top > _FARTHEST:
        raise NoGuarantee("losses beyond e^600 are out of reach of the numerical accountant; use `rdp`")
    return np.linspace(0.0, top, min(max(math.ceil(_PER_UNIT * top / scale), 64), 1024) + 1)


def envelope(epsilons: Array, forward: Array, backward: Array) -> Envelope:
    """The dominating pair of all (P, Q) whose δ(ε) is at most `forward`, and that of (Q, P) at most `backward`.

    Bounds are at increasing ε's that start at 0. Below 0: H(t) = 1 − t + t·H′(1/t), H′ being the profile of (Q, P).

    >>> response = [(np.e - 1) / (np.e + 1), 0.0]
    >>> pair = envelope(np.array([0.0, 1.0]), np.array(response), np.array(response))
    >>> pair.loss.tolist(), pair.mass.round(6).tolist(), pair.infinite
    ([-1.0, 1.0], [0.268941, 0.731059], 0.0)
    """
    forward, backward = np.minimum(forward, 1.0), np.minimum(backward, 1.0)
    start = min(float(forward[0]), float(backward[0]))  # at t = 1 both orders have the same profile
    loss = np.concatenate(([-np.inf], -epsilons[:0:-1], [0.0], epsilons[1:]))
    with np.errstate(under="ignore"):
        depth = np.concatenate(([0.0], np.exp(-epsilons[:0:-1]) * (1 - backward[:0:-1]), [1 - start]))  # 1 − H
    height = np.concatenate(([start], forward[1:]))
    corners = _hull(loss, depth, height)
    heights = np.concatenate((1 - depth, height[1:]))[corners]
    at = loss[corners]
    mass = _masses(at, np.array([_fall(depth, height, i, j) for i, j in pairwise(corners)]))
    infinite = float(heights[-1])
    gap = np.subtract.outer(at, at[1:])  # corner − lump
    own = np.where(gap < 0, -np.expm1(np.minimum(gap, 0.0)), 0.0) @ mass + infinite
    raised = (
        1 + SLACK + max(0.0, float(np.max(heights / np.where(own > 0, own, 1.0), where=heights > 0, initial=1.0)) - 1)
    )
    some = mass > 0
    return Envelope(at[1:][some], mass[some] * raised, infinite * raised)


def _fall(depth: Array, height: Array, i: int, j: int) -> float:
    """H(tᵢ) − H(tⱼ), from 1 − H where that is small, from H where that is."""
    zero = len(depth) - 1
    if j <= zero:
        return float(depth[j] - depth[i])
    if i >= zero:
        return float(height[i - zero] - height[j - zero])
    return float(1 - depth[i] - height[j - zero])


def _hull(loss: Array, depth: Array, height: Array) -> list[int]:
    """The corners of the lower convex hull, by Andrew's monotone chain; slopes are compared times t in the middle."""
    corners: list[int] = []
    for new in range(len(loss)):
        while len(corners) >= 2:
            first, last = corners[-2:]
            before = _fall(depth, height, first, last) / -math.expm1(loss[first] - loss[last])
            after = _fall(depth, height, last, new) / math.expm1(loss[new] - loss[last])
            if before > after:
                break
            corners.pop()
        corners.append(new)
    return corners


def _masses(at: Array, falls: Array) -> Array:
    """P-mass at each corner but the first (t = 0): t times the difference of the slopes on both sides of it."""
    gaps = np.diff(at)
    below = falls / -np.expm1(-gaps)
    above = np.append(falls[1:] / np.expm1(gaps[1:]), 0.0)
    masses: Array = np.maximum(below - above, 0.0)
    return masses


@lru_cache(maxsize=64)
def concentrated(rho: float) -> Envelope:
    """The pair that dominates every ρ-zCDP release.

    >>> pair = concentrated(0.5)
    >>> bool(pair.mass.sum() >= 1), pair.infinite < 1e-290
    (True, True)
    """
    epsilons = knots(rho + 2 * math.sqrt(_DEEPEST * rho), math.sqrt(2 * rho))
    bounds = concentrated_deltas(rho, epsilons)
    return envelope(epsilons, bounds, bounds)


def concentrated_deltas(rho: float, epsilons: Array) -> Array:
    """δ of ρ-zCDP at each ε, rounded up (Canonne, Kamath, Steinke 2020, Prop. 12; total variation).

    ln δ = (α−1)(αρ − ε) − ln(α−1) + α·ln(1 − 1/α), least where (2α−1)ρ + ln(1 − 1/α) = ε; every α > 1 is sound. The
    total variation is at most √(ρ/2) (Pinsker) and √(1 − e^−ρ) (Bretagnolle, Huber 1979), as KL ≤ ρ.

    >>> concentrated_deltas(1.25, np.array([0.0, 8.84589])).round(7).tolist()
    [0.7859947, 1e-06]
    """
    low, high = np.full_like(epsilons, -80.0), np.full_like(epsilons, 80.0)  # ln(α − 1)
    for _ in range(60):
        middle = (low + high) / 2
        more = np.exp(middle)
        over = (2 * more + 1) * rho - np.log1p(1 / more) > epsilons
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    more = np.exp(low)
    order = 1 + more
    logs = more * (order * rho - epsilons) - low - order * np.log1p(1 / more)
    size = more * (order * rho + epsilons) + np.abs(low) + order * np.log1p(1 / more) + 1
    with np.errstate(under="ignore"):
        deltas = np.exp(np.minimum(logs + SLACK * size, 0.0))
    variation = min(math.sqrt(rho / 2), math.sqrt(-math.expm1(-rho)))
    bounds: Array = np.minimum(np.maximum(deltas, 1e-305), variation) * (1 + SLACK)
    return bounds
