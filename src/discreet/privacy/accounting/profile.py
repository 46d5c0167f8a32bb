"""Privacy profiles in closed form: the least δ at each ε ≥ 0 for one atomic loss.

The profile of a pair (P, Q) is δ(ε) = sup over S of P(S) − e^ε·Q(S), the hockey-stick divergence. Every
function here is a sound upper bound: the formula is exact and the result is raised by its floating-point error.

For losses known by a bound on their profile only, a dominating pair is made from the bound (`envelope`). Let H(t) be
the profile of a pair (P, Q) at t = e^ε, in both orders bounded at some knots. H is convex and falls from H(0) = 1. So
it lies below the lower convex hull of the bounds at the knots, and every convex, falling function from 1 that is at
least (1 − t)₊ is the profile of a pair (Zhu, Dong, Wang 2022, §3): here of one with a lump of P-mass at each corner of
the hull, and what the last knot leaves at infinity. That pair dominates, so it composes like any other.

Floating point. What a composition takes from a part is its profile: δ(ε) = ∫ H(e^(ε−x)) dP′(x) grows with H at every
point. The lumps' own profile is computed again as a sum of positive terms and all lumps are raised until it is nowhere
below the bounds, so errors in finding the hull cost tightness only.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import assert_never

import numpy as np

from discreet.errors import NoGuarantee
from discreet.exact import Number, float_down, float_up, rational
from discreet.privacy.accounting.itemization import Bill, Choice, Item, Normal, bill
from discreet.privacy.accounting.rounding import (
    SLACK,
    Array,
    crossing,
    discrete_terms,
    discrete_total,
    loss_up,
    mills,
    mills_slope,
    no_delta_left,
    noise_down,
    raised,
    snapped,
)
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    LaplaceNoise,
    Loss,
    PerDistance,
    Pure,
    SampledGaussian,
)

_LATTICE_UP_TO = 1e4
_NO_PRIVACY = 10**12  # (shift/σ)² beyond which δ is taken for 1
_SMALLEST = 0.99e-300  # below this δ floats lose digits; the Rényi accountant works with logarithms there


def delta(loss: Loss, *, epsilon: Number) -> float:
    """The least δ, rounded up, for which one atomic loss (or any number of Gaussians) is (ε, δ)-DP.

    >>> from discreet.privacy.loss import GaussianNoise, LaplaceNoise
    >>> round(delta(GaussianNoise("4.22468"), epsilon=1) * 1e6, 4)
    1.0
    >>> delta(LaplaceNoise(2), epsilon="0.5")
    0.0
    """
    item = _single(bill(loss))
    return of(item, min(float_down(rational(epsilon, "epsilon", at_least=0)), 1e9)) if item else 0.0


def epsilon(loss: Loss, *, delta: Number) -> float:
    """The least ε, rounded up, for which one atomic loss (or any number of Gaussians) is (ε, δ)-DP.

    >>> from discreet.privacy.loss import GaussianNoise, Repeated
    >>> round(epsilon(Repeated(GaussianNoise(20), 1000), delta="1e-6"), 5)
    8.30623
    """
    item = _single(bill(loss))
    return least_epsilon(item, rational(delta, "delta", at_least=0, below=1)) if item else 0.0


def _single(total: Bill) -> Item | None:
    match total.items:
        case ():
            return None
        case ((item, 1),) if not isinstance(item, Choice | Concentrated | PerDistance):
            return item
        case _:
            raise NoGuarantee("a closed profile exists for one atomic loss only; compose with `pld` or `rdp`")


def least_epsilon(item: Item, delta: Fraction) -> float:
    """The least ε at which the profile of `item` is at most δ."""
    if isinstance(item, Approximate):
        return _beside(item, delta)
    target = float_down(delta)
    if of(item, 0.0) <= target:
        return 0.0
    if target < _SMALLEST:
        raise NoGuarantee("δ below 1e-300 is out of reach of the closed profiles; use `rdp` or `pure`")
    high = 1.0
    while of(item, high) > target:
        high *= 2
        if high > 1e9:
            raise NoGuarantee("no ε below 1e9 meets this δ; this loss protects nobody")

    def spare(at: float) -> float:
        value = of(item, at)
        return math.log(target / value) if value > 0 else 1.0

    return snapped(lambda at: of(item, at) <= target, crossing(spare, 0.0, high)[1])


def _beside(item: Approximate, delta: Fraction) -> float:
    """(ε₀, δ₀)-DP at δ: ε₀-DP at (δ − δ₀)/(1 − δ₀), exactly."""
    if delta < item.delta:
        raise NoGuarantee(no_delta_left(delta, item.delta))
    if delta == item.delta:
        return float_up(item.epsilon)
    left = (delta - item.delta) / (1 - item.delta)
    return (
        min(float_up(item.epsilon), least_epsilon(Pure(item.epsilon), left))
        if left >= _SMALLEST
        else float_up(item.epsilon)
    )


def of(item: Item, epsilon: float) -> float:  # noqa: PLR0911
    """δ(ε) of one item, in the worse of the two orders, rounded up."""
    match item:
        case Pure(limit):
            return _response(loss_up(limit), epsilon)
        case BoundedRange(limit):
            return _bounded_range(loss_up(limit), epsilon)
        case Approximate(limit, extra):
            inner = _response(loss_up(limit), epsilon)
            return min(1.0, float_up(extra + (1 - extra) * Fraction(inner)))
        case LaplaceNoise(multiplier):
            return _laplace(loss_up(1 / multiplier), epsilon)
        case Normal(square):
            return gaussian(math.sqrt(loss_up(square)), epsilon) if square < _NO_PRIVACY else 1.0
        case DiscreteGaussianNoise(sigma, sensitivity):
            near = sensitivity**2 < _NO_PRIVACY * sigma**2
            return _discrete_gaussian(noise_down(sigma), sensitivity, epsilon) if near else 1.0
        case SampledGaussian(rate, multiplier):
            near = _NO_PRIVACY * multiplier**2 > 1
            return _sampled(loss_up(rate), noise_down(multiplier), epsilon) if near else 1.0
        case Concentrated() | PerDistance() | Choice():
            raise NoGuarantee(f"{type(item).__name__} has no closed privacy profile")
    assert_never(item)


def _response(limit: float, epsilon: float) -> float:
    """ε₀-DP: randomized response is the worst pair (Kairouz, Oh, Viswanath 2015, Thm 3.1): (e^ε₀ − e^ε)/(1 + e^ε₀)."""
    return raised(-math.expm1(epsilon - limit) / (1 + math.exp(-limit))) if epsilon < limit else 0.0


def _laplace(limit: float, epsilon: float) -> float:
    """Laplace noise with ε₀ = 1/multiplier: 1 − e^((ε − ε₀)/2) (Balle, Barthe, Gaboardi 2018, Thm 3)."""
    return raised(-math.expm1((epsilon - limit) / 2)) if epsilon < limit else 0.0


def _bounded_range(limit: float, epsilon: float) -> float:
    """ln P/Q within an interval of length ε₀: (1 − e^((ε − ε₀)/2))² ÷ (1 − e^−ε₀).

    Proof (compare Dong, Durfee, Rogers 2020). Let Y = Q/P, so E_P[Y] = 1 and Y lies in [e^−t, e^(ε₀−t)] for
    some t in [0, ε₀]. δ(ε) = E_P[(1 − e^ε·Y)₊] is convex in Y, hence largest when Y takes its two extreme
    values; the mass at e^−t is then (1 − e^(t−ε₀))/(1 − e^−ε₀) and δ(ε) = (1 − e^(t−ε₀))(1 − e^(ε−t))/(1 − e^−ε₀).
    The product is greatest at t = (ε + ε₀)/2.
    """
    if epsilon >= limit:
        return 0.0
    return raised(math.expm1((epsilon - limit) / 2) ** 2 / -math.expm1(-limit))


def gaussian(mu: float, epsilon: float) -> float:
    """Deviation 1 against a shift by μ: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle, Wang 2018, Thm 8).

    With a, b = ε/μ ∓ μ/2 and Mills' ratio R this is φ(a)·(R(a) − R(b)) = φ(a)·∫ₐᵇ (1 − x·R(x)) dx: no
    subtraction of nearly equal numbers, in the tails nor for small μ.

    >>> gaussian(1.0, 0.0) >= 0.38292492
    True
    """
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    density = math.exp(-a * a / 2) / math.sqrt(2 * math.pi)
    slack = SLACK + min(1e-15 * (1 + abs(a)) * b, 1.0)  # a and b are known to 2 units in the last place of b
    if mu <= 1:
        nodes, weights = _legendre()
        integral = sum(w * mills_slope(a + mu * x) for x, w in zip(nodes, weights, strict=True))
        return raised(density * mu * integral, slack)
    if a >= 0:
        return raised(density * (mills(a) - mills(b)), slack)
    return min(1.0, raised(math.erfc(a / math.sqrt(2)) / 2 - density * mills(b), slack))


@lru_cache(maxsize=1)
def _legendre() -> tuple[list[float], list[float]]:
    """Gauss–Legendre nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(16)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


def _discrete_gaussian(sigma: float, sensitivity: int, epsilon: float) -> float:
    """N_ℤ(0, σ²) against a shift by s, exactly: Σ over x ≥ k of f(x) − e^ε·f(x + s) (Canonne et al. 2020, Thm 7).

    k is the first whole number above t = εσ²/s − s/2, where the terms become positive. Smaller shifts give no
    more: f is log-concave, so the best test is a half-line, and P(X ≥ k) − e^ε·P(X ≥ k + s) grows with s.

    t is the difference of two numbers that may be far greater than it, so it is lowered by their rounding errors:
    beside one lump of probability, δ is as small as the distance of ε from that lump's loss.

    Above σ = 10⁴ the sum is bounded: the trapezoidal rule for g ≥ 0 on [t, ∞) with g(t) = 0 differs from ∫ g by
    at most Var(g′)/8 + sup g′/8, and |g′| ≤ (1 + s/σ)·(s/σ²)·f(max(t, 0)) here, falling, rising and falling once.
    """
    start = epsilon * sigma**2 / sensitivity - sensitivity / 2
    start -= 16 * 2.0**-53 * (epsilon * sigma**2 / sensitivity + sensitivity / 2)
    if sigma > _LATTICE_UP_TO:
        mu = sensitivity / sigma
        excess = (1 + mu) * mu / sigma * math.exp(-((max(start, 0.0) / sigma) ** 2) / 2) / discrete_total(sigma)
        return min(1.0, raised(gaussian(mu, epsilon) + excess))
    if start > 40 * sigma:
        return raised(0.0)
    first = max(math.floor(start), math.floor(-40 * sigma))
    x = first + np.arange(math.ceil(max(first + 8 * sigma, 40 * sigma)) - first + 2, dtype=np.float64)
    gap = np.minimum((start - x) * (sensitivity / sigma**2), 0.0)  # ε − ln f(x)/f(x + s)
    return min(1.0, raised(float(-(discrete_terms(sigma, x) @ np.expm1(gap)))))


def _sampled(rate: float, multiplier: float, epsilon: float) -> float:
    """Gaussian noise over a Poisson sample, both orders (Zhu, Dong, Wang 2022; formulas derived here).

    With q the rate, N₀ and N₁ the noise without and with the shift, and δ_G the profile of (N₁, N₀):
    removing, P = (1−q)N₀ + qN₁ against N₀, P − e^ε·N₀ = q·(N₁ − e^ε₁·N₀) with e^ε₁ = 1 + (e^ε − 1)/q;
    adding, N₀ − e^ε·P = A·(N₀ − e^ε₂·N₁) with A = 1 − (1−q)e^ε and e^ε₂ = q·e^ε/A, nothing where A ≤ 0.
    """
    removing = epsilon + math.log1p(-(1 - rate) * math.expm1(-epsilon) / rate)
    worst = rate * gaussian(1 / multiplier, removing)
    share = rate - (1 - rate) * math.expm1(min(epsilon, 700.0))
    if share > 0:
        adding = epsilon + math.log(rate) - math.log(share)
        worst = max(worst, share * gaussian(1 / multiplier, max(adding, 0.0)))
    return raised(worst)


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
