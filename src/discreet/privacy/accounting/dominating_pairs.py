"""Dominating pairs: for each atomic loss the worst pair (P, Q), seen through its privacy loss L = ln P/Q.

A pair dominates a mechanism when its privacy profile is nowhere below the mechanism's; dominating pairs compose,
adaptively too (Zhu, Dong, Wang 2022, Thm 10). A pair is asked for three things only: a typical loss, how far the
loss reaches, and the P- and Q-mass of L in each cell (−∞, e₀], (e₀, e₁], …, (eₙ, ∞). Masses are differences taken
on the side where they are small, so they keep their digits in the tails.
"""

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from discreet.errors import NoGuarantee
from discreet.privacy.accounting.itemization import Bill, Choice, Item, Normal
from discreet.privacy.accounting.profile import concentrated
from discreet.privacy.accounting.rounding import Array, discrete_cells, loss_up, noise_down, normal_cells
from discreet.privacy.loss import (
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    LaplaceNoise,
    Pure,
    SampledGaussian,
)

Cells = tuple[Array, Array]


class Pair(Protocol):
    """A dominating pair."""

    @property
    def scale(self) -> float:
        """A typical size of the loss."""

    @property
    def most(self) -> float:
        """The greatest loss, inf where there is none."""

    def reach(self, tail: float) -> tuple[float, float]:
        """Limits that L leaves with P-probability at most `tail` on each side."""

    def cells(self, edges: Array) -> Cells:
        """P-mass and Q-mass of L in (−∞, e₀], (e₀, e₁], …, (eₙ, ∞)."""


def removing(item: Item) -> "Pair | Worst":  # noqa: PLR0911
    """The pair for P = data with the unit, Q = data without it."""
    match item:
        case Choice(bills):
            return Worst(tuple(removing(_lone(each)) for each in bills))
        case Pure(limit):
            return Response(_usual(loss_up(limit)))
        case BoundedRange(limit):
            return Bounded(_usual(loss_up(limit)))
        case LaplaceNoise(multiplier):
            return Laplace(_usual(loss_up(1 / multiplier)))
        case Normal(square):
            return Gaussian(math.sqrt(_usual(loss_up(square))))
        case DiscreteGaussianNoise(sigma, sensitivity):
            _usual(loss_up(sensitivity / sigma))
            return DiscreteGaussian(noise_down(sigma), sensitivity)
        case SampledGaussian(rate, multiplier):
            _usual(loss_up(1 / multiplier))
            return Sampled(loss_up(rate), noise_down(multiplier), adding=False)
        case Concentrated(rho):
            return concentrated(loss_up(rho))
        case _:
            raise NoGuarantee(f"no dominating pair is known for {type(item).__name__}; the Rényi accountant may answer")


def adding(item: Item) -> "Pair | Worst":
    """The pair for P = data without the unit, Q = data with it. All but the sampled Gaussian are symmetric."""
    match item:
        case SampledGaussian(rate, multiplier):
            _usual(loss_up(1 / multiplier))
            return Sampled(loss_up(rate), noise_down(multiplier), adding=True)
        case Choice(bills):
            return Worst(tuple(adding(_lone(each)) for each in bills))
        case _:
            return removing(item)


def _lone(each: Bill) -> Item:
    match each.items:
        case ((item, 1),):
            return item
        case _:
            raise NoGuarantee("a parallel part that is a composition itself has no pair of one step; `pld` makes one")


def _usual(size: float) -> float:
    if size > 300:
        raise NoGuarantee("single losses beyond e^300 are out of reach of the numerical accountant; use `rdp`")
    return size


def one_sided(item: Item) -> bool:
    """Whether adding and removing differ."""
    match item:
        case SampledGaussian():
            return True
        case Choice(bills):
            return any(one_sided(part) for each in bills for part, _ in each.items)
        case _:
            return False


@dataclass(frozen=True, slots=True)
class _Limited:
    """Pairs whose L never leaves the interval from −ε to ε."""

    limit: float

    @property
    def scale(self) -> float:
        """ε."""
        return self.limit

    @property
    def most(self) -> float:
        """ε."""
        return self.limit

    def reach(self, tail: float) -> tuple[float, float]:
        """Bounded."""
        return -self.limit, self.limit


@dataclass(frozen=True, slots=True)
class Response(_Limited):
    """Randomized response, the worst ε-DP pair (Kairouz, Oh, Viswanath 2015, Thm 3.1): L = ±ε."""

    def cells(self, edges: Array) -> Cells:
        """Two lumps."""
        truth = 1 / (1 + math.exp(-self.limit))
        lie = math.exp(-self.limit) * truth
        p, q = np.zeros(len(edges) + 1), np.zeros(len(edges) + 1)
        _add_lump(edges, self.limit, p, truth, q, lie)
        _add_lump(edges, -self.limit, p, lie, q, truth)
        return p, q


@dataclass(frozen=True, slots=True)
class Laplace(_Limited):
    """Laplace noise: lumps of L at ±ε, and P-density e^((L−ε)/2)/4 between them."""

    def cells(self, edges: Array) -> Cells:
        """Two lumps, and the exponentials between them integrated."""
        p, q = _exponential_cells(self.limit, edges)
        p, q = p / 2, q / 2
        _add_lump(edges, self.limit, p, 0.5, q, math.exp(-self.limit) / 2)
        _add_lump(edges, -self.limit, p, math.exp(-self.limit) / 2, q, 0.5)
        return p, q


@dataclass(frozen=True, slots=True)
class Bounded(_Limited):
    """L within an interval of length ε: P(L > x) = (1 − e^((x−ε)/2))/(1 − e^−ε) for |x| ≤ ε.

    These are the P and Q whose profile is `profile._bounded_range`: Q(L > x) = −dδ/de^x, P(L > x) = δ + e^x·Q(L > x).
    """

    def cells(self, edges: Array) -> Cells:
        """The exponentials integrated."""
        p, q = _exponential_cells(self.limit, edges)
        total = -math.expm1(-self.limit)
        return p / total, q / total


def _exponential_cells(limit: float, edges: Array) -> Cells:
    """∫ of e^((x−ε)/2)/2 and of e^(−(x+ε)/2)/2 over each cell, within |x| ≤ ε."""
    x = np.concatenate(([-limit], np.clip(edges, -limit, limit), [limit]))
    growth = np.expm1(np.diff(x) / 2)
    return np.exp((x[:-1] - limit) / 2) * growth, np.exp(-(x[1:] + limit) / 2) * growth


def _add_lump(edges: Array, loss: float, p: Array, p_mass: float, q: Array, q_mass: float) -> None:
    """Add a lump to the cell it lies in; cells are open below and closed above."""
    at = int(np.searchsorted(edges, loss, side="left"))
    p[at] += p_mass
    q[at] += q_mass


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Deviation 1 against a shift by μ: L ~ N(μ²/2, μ²) under P and N(−μ²/2, μ²) under Q."""

    mu: float

    @property
    def scale(self) -> float:
        """μ."""
        return self.mu

    @property
    def most(self) -> float:
        """None."""
        return math.inf

    def reach(self, tail: float) -> tuple[float, float]:
        """μ²/2 ± μz."""
        z = _quantile(tail)
        return self.mu**2 / 2 - self.mu * z, self.mu**2 / 2 + self.mu * z

    def cells(self, edges: Array) -> Cells:
        """Normal cells."""
        z = edges / self.mu
        return normal_cells(z - self.mu / 2), normal_cells(z + self.mu / 2)


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """X ~ N_ℤ(0, σ²) under P, X + s ~ N_ℤ(0, σ²) under Q: L = (2sX + s²)/2σ²."""

    sigma: float
    sensitivity: int

    @property
    def scale(self) -> float:
        """s/σ."""
        return self.sensitivity / self.sigma

    @property
    def most(self) -> float:
        """None."""
        return math.inf

    def reach(self, tail: float) -> tuple[float, float]:
        """P(X ≥ zσ + 2) is below the normal tail at z, up to a factor below 1 + 1/σ that the 2 outweighs."""
        x = max(_quantile(tail) * self.sigma + 2, 2.0)
        return self._loss(-x), self._loss(x)

    def _loss(self, x: float) -> float:
        return self.sensitivity * (2 * x + self.sensitivity) / (2 * self.sigma**2)

    def cells(self, edges: Array) -> Cells:
        """L ≤ e when X < first, the first whole number above (2σ²e − s²)/2s."""
        first = np.floor(edges * (self.sigma**2 / self.sensitivity) - self.sensitivity / 2) + 1
        return discrete_cells(self.sigma, first), discrete_cells(self.sigma, first + self.sensitivity)


@dataclass(frozen=True, slots=True)
class Sampled:
    """N₀ = N(0, σ²) and the mixture (1−q)N₀ + qN(1, σ²): L = ±ln(1 − q + q·e^((2x−1)/2σ²)).

    Removing the unit puts the mixture at P, adding it puts N₀ there; both orders are needed (Zhu, Dong, Wang 2022).
    """

    rate: float
    multiplier: float
    adding: bool

    @property
    def scale(self) -> float:
        """Roughly the deviation of L."""
        m = self.multiplier
        return min(self.rate * math.sqrt(math.expm1(min(1 / m**2, 50.0))), 1 / m)

    @property
    def most(self) -> float:
        """ln 1/(1−q) when adding: the sample may have missed the unit."""
        return -math.log1p(-self.rate) if self.adding else math.inf

    def reach(self, tail: float) -> tuple[float, float]:
        """Losses at −σz and at σz (1 + σz under the mixture)."""
        x = self.multiplier * _quantile(tail)
        if self.adding:
            return -self._loss(x), -self._loss(-x)
        return self._loss(-x), self._loss(1 + x)

    def _loss(self, x: float) -> float:
        exponent = (x - 0.5) / self.multiplier**2
        return float(np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + exponent))

    def cells(self, edges: Array) -> Cells:
        """Normal cells between the x of each edge."""
        if self.adding:
            p, q = self._removing_cells(-edges[::-1])
            return q[::-1], p[::-1]
        return self._removing_cells(edges)

    def _removing_cells(self, edges: Array) -> Cells:
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            share = np.maximum(1 - (1 - self.rate) / self.rate * np.expm1(-edges), 0.0)
            x = self.multiplier**2 * (edges + np.log(share)) + 0.5
        z = np.where(share > 0, x, -np.inf) / self.multiplier
        base = normal_cells(z)
        return (1 - self.rate) * base + self.rate * normal_cells(z - 1 / self.multiplier), base


@dataclass(frozen=True, slots=True)
class Worst:
    """Whichever of these pairs: its profile is the greatest of theirs, which is a profile again (it stays convex).

    It has no cells of its own; `lattice.connect` joins the rounded profiles of its parts.
    """

    parts: tuple["Pair | Worst", ...]

    @property
    def scale(self) -> float:
        """The least of the parts'."""
        return min(part.scale for part in self.parts)

    @property
    def most(self) -> float:
        """The greatest of the parts'."""
        return max(part.most for part in self.parts)

    def reach(self, tail: float) -> tuple[float, float]:
        """The widest."""
        lows, highs = zip(*(part.reach(tail) for part in self.parts), strict=True)
        return min(lows), max(highs)


def _quantile(tail: float) -> float:
    """z with a normal tail of at most `tail` beyond it."""
    from scipy.special import ndtri

    return float(-ndtri(max(tail, 1e-305))) * (1 + 1e-9)
