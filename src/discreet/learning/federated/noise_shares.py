"""Noise in shares: each client adds a little, the sum carries the guarantee, and nobody knows all of it.

Every client draws its share independently. If at least `honest` of the clients in the sum follow the protocol and keep
their share secret, the sum is as private as stated, whatever the others add, and however many more shares are in it.
Proof. Fix `honest` of them. The released sum is (values + their noise) + (what all others sent), and the others' part
is independent of that noise: a function of the first bracket and of independent randomness, so no easier to tell apart.

The release is that sum modulo 2^k, again a function of it: **wrapping around never costs privacy**. It would cost
accuracy, so `reach` bounds the noise of the whole sum except with probability `WRAP` and k leaves room for it.

=================  ==================  =============================================================================
`GaussianShare`    Concentrated(ρ)     a discrete Gaussian each. For vectors: learning
`PolyaShare`       Pure(ε)             the difference of two Pólya variables each; `honest` of them add up to discrete
                                       Laplace noise exactly. For counts and short vectors
=================  ==================  =============================================================================

Why these. Both are drawn exactly by lazy inversion (`noise.sampler`). Sums of discrete Gaussians are not discrete
Gaussians, but so close to them once σ ≥ 2 that the correction has no digit left in ρ (see `GaussianShare`). Skellam
noise is infinitely divisible, but its Rényi bound is larger than the Gaussian's and large Poisson variables would need
a sampler of their own. Binomial noise has bounded support, hence no bound of the Rényi kind at all.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil

import numpy as np

from discreet.errors import InvalidParameter, NoGuarantee
from discreet.exact import Number, exp_bounds, exp_up, integer, log_up, rational, sqrt_bounds
from discreet.noise import Entropy, discrete_gaussian
from discreet.noise.entropy import SYSTEM
from discreet.noise.sampler import Integers, Sums, Table, cumulative
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.accounting.rounding import decimal_down, decimal_up
from discreet.privacy.loss import Approximate, Concentrated, Loss, Pure, Repeated, SampledGaussian, Together

WRAP = Fraction(1, 2**64)
"""The most probable that any number of an honest round's sum wraps around: a wrong sum, not a leak."""

_GUARD = 64
_TWICE_PI_SQUARED = Fraction(19739, 1000)  # 2π² = 19.7392…, rounded down
_LISTED = 64  # terms of the sum over clients that are computed one by one
_LARGEST_SCALE = 512  # so that the table of a Pólya variable has fewer than 2^15 entries
_BITS = 96
_FINE = 64  # the least σ of a share for which the proof is made
_LONGEST = 1 << 27
_LADDER = tuple(Fraction(1, 10**k) for k in range(14, 6, -1))


@dataclass(frozen=True, slots=True)
class GaussianShare:
    """A discrete Gaussian N_ℤ(0, σ²) on each number of each client (after Kairouz, Liu, Steinke 2021).

    Guarantee: ρ-zCDP with ρ = ½·(Δ/(σ√n) + τ√d)² for d whole numbers that one unit moves by at most Δ in ℓ2 norm,
    where n = `honest`, τ = Σ ln((1 + ηₖ)/(1 − ηₖ)) over k = 1 … n − 1, ηₖ = 2·Σ_j exp(−2π²j²σ²k/(k + 1)), j ≥ 1.

    Proof. 1. Let f be the distribution of the sum of n shares and g(x) = exp(−x²/2nσ²). Then L ≤ f(x)/(C·g(x)) ≤ U for
    some constant C, with U/L = e^τ. By induction over the number of shares: if fₖ(x) is between L and U times
    C·exp(−x²/2kσ²), then fₖ₊₁(z) = Σₓ fₖ(x)f₁(z − x) is between L and U times C'·Σₓ exp(−x²/2kσ² − (z − x)²/2σ²). The
    exponent is −z²/2(k + 1)σ² − (x − m)²/2s² with s² = σ²k/(k + 1) and some real m, and Σₓ exp(−(x − m)²/2s²) =
    √(2π)·s·(1 + 2·Σ_j exp(−2π²s²j²)·cos 2πjm) by Poisson's summation formula: within 1 ± ηₖ of √(2π)·s.
    2. So ln f/P stays in an interval of length τ, P the discrete Gaussian N_ℤ(0, nσ²). For such a pair
    K(α) = ln E_P[(f/P)^α] has K(0) = K(1) = 0 and K'' ≤ τ²/4 (a variance on an interval of length τ), so
    K(α) ≤ α(α − 1)τ²/8: the Rényi divergence of order α is at most ατ²/8, in either order (bounded range implies zCDP:
    Cesar, Rogers 2021), and dατ²/8 for d independent numbers.
    3. From f moved by a to P moved by a, to P, to f: √ρ adds up, by the triangle inequality for Rényi divergences of
    Bun and Steinke (2016, where they prove group privacy), D_α(A|C) ≤ kα/(kα − 1)·D_β(A|B) + D_kα(B|C) with
    β = (kα − 1)/(k − 1): it gives α·(ρ₁k/(k − 1) + ρ₂k), least for k = 1 + √(ρ₁/ρ₂), where it is α·(√ρ₁ + √ρ₂)². The
    middle step has ρ = |a|²/2nσ² (Canonne, Kamath, Steinke 2020, on the discrete Gaussian's concentrated privacy).
    Together √ρ ≤ Δ/√(2nσ²) + 2·τ√(d/8). ∎

    The correction is small: for σ = 2 and n = 100, τ < 1e-16. KLS state the same form with 10·Σ exp(−2π²σ²k/(k + 1))
    for τ; the proof above needs about 4 in the place of 10.

    >>> share = GaussianShare(sigma=10, honest=4, sensitivity=1, dimension=1)
    >>> float(share.loss.rho), 1 / (2 * 10**2 * 4)
    (0.00125, 0.00125)
    """

    sigma: Fraction
    honest: int
    sensitivity: Fraction
    dimension: int

    def __init__(self, *, sigma: Number, honest: int, sensitivity: Number, dimension: int) -> None:
        object.__setattr__(self, "sigma", rational(sigma, "sigma", at_least=Fraction(1, 2), at_most=2**40))
        object.__setattr__(self, "honest", integer(honest, "honest", at_least=1, at_most=10**6))
        object.__setattr__(self, "sensitivity", rational(sensitivity, "sensitivity", above=0))
        object.__setattr__(self, "dimension", integer(dimension, "dimension", at_least=1))

    @classmethod
    def within(cls, *, rho: Number, honest: int, sensitivity: Number, dimension: int) -> "GaussianShare":
        """The least noise, to about nine digits, that keeps ρ-zCDP; never less than σ = 1/2.

        >>> share = GaussianShare.within(rho="1/800", honest=4, sensitivity=1, dimension=1000)
        >>> float(share.sigma), share.loss.rho <= Fraction(1, 800)
        (10.00000001, True)
        """
        target = rational(rho, "rho", above=0)
        reach = rational(sensitivity, "sensitivity", above=0)
        low = _sqrt_up(reach**2 / (2 * target * integer(honest, "honest", at_least=1)))
        low = max(low, Fraction(1, 2))

        def share_with(factor: Fraction) -> "GaussianShare":
            sigma = decimal_up(low * factor, 10)
            return cls(sigma=sigma, honest=honest, sensitivity=reach, dimension=dimension)

        step = Fraction(1, 10**9)
        few, enough = 0, 0  # in steps: σ = low·(1 + enough·step) keeps ρ, σ = low·(1 + few·step) does not
        while share_with(1 + enough * step).loss.rho > target:
            few, enough = enough, 2 * enough + 1
        while enough - few > 1:
            middle = (few + enough) // 2
            few, enough = (few, middle) if share_with(1 + middle * step).loss.rho <= target else (middle, enough)
        return share_with(1 + enough * step)

    @property
    def loss(self) -> Concentrated:
        """ρ-zCDP, rounded up."""
        main = self.sensitivity**2 / (2 * self.sigma**2 * self.honest)
        rest = _tau(self.sigma, self.honest) ** 2 * self.dimension / 2
        rho = main + rest + 2 * _sqrt_up(main * rest)
        return Concentrated(rho if rho == main else decimal_up(rho, 20))

    def draw(self, length: int, *, entropy: Entropy | None = None) -> Integers:
        """One client's share."""
        return np.asarray(discrete_gaussian(self.sigma, (length,), entropy=entropy))

    def reach(self, clients: int, length: int) -> int:
        """What the noise of the sum stays within, in every number, except with probability `WRAP`.

        Proof. E[e^(λX)] ≤ e^(λ²σ²/2) for X of N_ℤ(0, σ²), because Σₓ exp(−(x − m)²/2σ²) is greatest for whole m
        (Poisson's formula). So the sum of n of them leaves ±x with probability at most 2·exp(−x²/2nσ²) (Chernoff); the
        union over the numbers.
        """
        return ceil(_sqrt_up(2 * clients * self.sigma**2 * log_up(2 * length / WRAP)))

    def __str__(self) -> str:
        limits = f"sensitivity {self.sensitivity} over {self.dimension}"
        return f"gaussian shares, sigma {self.sigma}, honest {self.honest}, {limits}"


@dataclass(frozen=True, slots=True)
class PolyaShare:
    """The difference of two Pólya variables (negative binomial of order 1/n) on each number (Goryczka, Xiong 2015).

    Guarantee: ε-DP for whole numbers that one unit moves by at most Δ in ℓ1 norm.
    Proof. The Pólya variable of order r and ratio q = e^(−ε/Δ), P(k) ∝ Γ(k + r)/(Γ(r)·k!)·q^k, has the generating
    function ((1 − q)/(1 − qz))^r. The product of n = `honest` of them with r = 1/n is (1 − q)/(1 − qz): a geometric
    variable. So n shares add up to the difference of two independent geometric variables of ratio q, P(k) ∝ q^|k|
    exactly, and the rest is the geometric mechanism (`mechanisms.additive.Geometric`).

    >>> PolyaShare(epsilon="0.5", honest=10, sensitivity=1).loss
    Pure(epsilon=0.5)
    """

    epsilon: Fraction
    honest: int
    sensitivity: int

    def __init__(self, *, epsilon: Number, honest: int, sensitivity: int) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", above=0))
        object.__setattr__(self, "honest", integer(honest, "honest", at_least=1, at_most=10**6))
        object.__setattr__(self, "sensitivity", integer(sensitivity, "sensitivity", at_least=1))
        if self.scale > _LARGEST_SCALE:
            hint = "use a coarser grid, or GaussianShare"
            raise InvalidParameter("epsilon", epsilon, f"at least sensitivity/{_LARGEST_SCALE}", hint)

    @property
    def scale(self) -> Fraction:
        """Δ/ε, the scale of the sum's discrete Laplace noise."""
        return self.sensitivity / self.epsilon

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    def draw(self, length: int, *, entropy: Entropy | None = None) -> Integers:
        """One client's share."""
        source = SYSTEM if entropy is None else entropy
        table = polya(self.scale, self.honest)
        share: Integers = table.picks(source, length).astype(np.int64) - table.picks(source, length)
        return share

    def reach(self, clients: int, length: int) -> int:
        """What the noise of the sum stays within, in every number, except with probability `WRAP`.

        Proof. The sum of N shares is A − B, both Pólya of order r = N/n. By Chernoff's bound at z = q^(−1/2),
        P(A ≥ x) ≤ ((1 − q)/(1 − √q))^r·q^(x/2) ≤ 2^r·e^(−x/2t), t the scale; the same for B; the union
        over the numbers.
        """
        order = -(-clients // self.honest)
        return ceil(2 * self.scale * (log_up(2 * length / WRAP) + order * log_up(Fraction(2))))

    def __str__(self) -> str:
        return f"polya shares, epsilon {self.epsilon}, honest {self.honest}, sensitivity {self.sensitivity}"


@lru_cache(maxsize=32)
def polya(scale: Fraction, honest: int) -> Table:
    """The decision table of the Pólya variable of order 1/honest and ratio e^(−1/scale).

    >>> from discreet.noise import DeterministicEntropy
    >>> polya(Fraction(2), 10).picks(DeterministicEntropy(1), 1000).min()
    np.int16(0)
    """
    return cumulative(lambda bits: _polya_sums(scale, honest, bits))


def _polya_sums(scale: Fraction, honest: int, bits: int) -> Sums:
    """Enclosures of the weights wₖ = wₖ₋₁·q·(k − 1 + 1/n)/k, w₀ = 1, summed up to each k, and of the sum over all.

    From k on they add up to at most wₖ/(1 − q), because wₖ₊₁ ≤ q·wₖ.
    """
    precision = bits + _GUARD
    one = 1 << precision
    low_q, high_q = exp_bounds(-1 / scale, precision)
    low = high = one
    weights, k = [], 0
    while True:
        weights.append((low, high))
        k += 1
        up, down = (k - 1) * honest + 1, k * honest
        low, high = (low * low_q * up // down) >> precision, -((-high * high_q * up // down) >> precision)
        tail = high * one // (one - high_q) + 1
        if tail < one >> (bits + 4):
            break
    lows, highs = accumulate(lo for lo, _ in weights), accumulate(hi for _, hi in weights)
    sums = list(zip(lows, highs, strict=True))
    return sums, (sums[-1][0], sums[-1][1] + tail)


@lru_cache(maxsize=256)
def _tau(sigma: Fraction, honest: int) -> Fraction:
    """τ of `GaussianShare`, rounded up. ηₖ falls as k grows, so the terms after the first few are taken as equal."""
    listed = [_term(sigma, k) for k in range(1, min(honest, _LISTED + 1))]
    return sum(listed, Fraction(0)) + (listed[-1] * (honest - 1 - len(listed)) if listed else 0)


def _term(sigma: Fraction, k: int) -> Fraction:
    """ln((1 + η)/(1 − η)), rounded up, with η ≤ 2x/(1 − x³), x = exp(−2π²σ²k/(k + 1)), because j² ≥ 1 + 3(j − 1).

    For σ ≥ 1/2, x ≤ e^(−2.4) and η < 0.18. ln((1 + η)/(1 − η)) = 2·atanh η ≤ 2η/(1 − η²).
    """
    exponent = min(_TWICE_PI_SQUARED * sigma**2 * Fraction(k, k + 1), Fraction(1000))
    x = decimal_up(exp_up(-exponent), 15)
    eta = decimal_up(2 * x / (1 - x**3), 15)
    return decimal_up(2 * eta / (1 - eta**2), 15)


def _sqrt_up(x: Fraction) -> Fraction:
    if not x:
        return x
    bits = _BITS + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return Fraction(sqrt_bounds(x, bits)[1], 1 << bits)


NoiseShare = GaussianShare | PolyaShare


def shared_loss(rate: Fraction, share: GaussianShare, sensitivity: int, rounds: int) -> Loss:
    """The loss of `rounds` sums over Poisson samples with at least `share.honest` such shares of noise in each.

    Guarantee: neighbors, of which one has a vector of norm at most `sensitivity` more, chosen with chance `rate`, are
    told apart no better than this loss says; vectors have at most 2²⁷ numbers.

    Proof. 1. *One round.* Let n = `share.honest`, σ = `share.sigma` ≥ 64, s² = nσ². The sum F of n shares is within a
    factor e^±τ of P = N_ℤ(0, s²) in every point, τ < 10⁻⁴⁰⁰ (`GaussianShare`, step 1). Let G be N(0, s²) rounded.
    P(k) = exp(−k²/2s²)/Z with Z ≥ √(2π)·s (Poisson's formula), and G(k) = exp(−k²/2s²)/(√(2π)·s)·I with
    I = ∫ exp(−u²/2s²)·cosh(ku/s²) du over |u| ≤ ½, at least 1 − 1/24s². So P(k) ≤ G(k)/(1 − 1/24s²) for all k, and the
    total variation distance Σ(P − G)⁺ is at most 1/(24s² − 1); that of F and G at most 1/23s² (s ≥ 64); for vectors at
    most 2²⁷ times that.
    2. *The run.* With G in the place of F it would be Repeated(SampledGaussian(rate, s/sensitivity), rounds), since G
    is a rounding of the Gaussian. Draw F and G as equal as can be: the two runs differ with probability at most
    β = rounds·2²⁷/23s², on either neighbor. Let d(ε) be the least δ of the run with G, d'(ε) of the run with F. From
    P' ≤ P + β, P ≤ e^ε·Q + d and Q ≤ Q' + β: d'(ε) ≤ d(ε) + (1 + e^ε)β.
    3. *As a loss.* Together(run, Approximate(0, δ₀)) has the least δ of d + δ₀(1 − d). Let d(ε₀) ≤ δ₀/2 and
    (1 + e^ε₀)β ≤ δ₀·min(½, 1 − d(0)), which is what `slack` finds. For 0 ≤ ε ≤ ε₀, d'(ε) ≤ d(ε) + δ₀(1 − d(ε)), since
    d(ε) ≤ d(0). For ε > ε₀, d'(ε) ≤ d'(ε₀) ≤ δ₀/2 + δ₀/2. For ε < 0 it follows with the neighbors exchanged, both
    ways being covered: d(ε) = 1 − e^ε + e^ε·d(−ε) for every pair, and the claim for −ε becomes that for ε. ∎ More
    shares in a sum are independent of these n, and so change nothing (`noise`). The coordinator may choose who is in
    the sum, but from what does not depend on these shares, coins or vectors: they are under masks until the sum is out.

    Where no δ₀ up to 10⁻⁷ will do, sampling is not counted on: ρ-zCDP of each sum (`GaussianShare.loss`), which holds
    for a vector that is in the sum for sure, and so for one that is in it by chance (Rényi divergences are quasi-convex
    in the pair: van Erven, Harremoës 2014, on joint convexity).
    """
    multiplier = _multiplier(share, sensitivity)
    extra = slack(rate, multiplier, sensitivity, rounds) if share.sigma >= _FINE else None
    if extra is None:
        return Repeated(share.loss, rounds)
    return Together(Repeated(SampledGaussian(rate, multiplier), rounds), Approximate(0, extra))


@lru_cache(maxsize=256)
def slack(rate: Fraction, multiplier: Fraction, sensitivity: int, rounds: int) -> Fraction | None:
    """δ₀ of `shared_loss`: what shares of noise in the place of one Gaussian may cost; None if more than 10⁻⁷.

    >>> slack(Fraction(1, 10), Fraction(2), 1 << 40, 50)
    Fraction(1, 100000000000000)
    """
    run = Repeated(SampledGaussian(rate, multiplier), rounds)
    beta = rounds * Fraction(_LONGEST) / (23 * (multiplier * sensitivity) ** 2)
    left = 1 - delta_for(run, epsilon=0).delta
    for extra in _LADDER:
        try:
            epsilon = guarantee(run, delta=extra / 2).epsilon
        except NoGuarantee:
            continue
        if epsilon < 200 and (1 + exp_up(Fraction(epsilon))) * beta <= extra * min(Fraction(1, 2), left):
            return extra
    return None


def _multiplier(share: GaussianShare, sensitivity: int) -> Fraction:
    """√n·σ/sensitivity, rounded down."""
    square = share.honest * share.sigma**2 / sensitivity**2
    bits = 64
    root = math.isqrt((square.numerator << 2 * bits) // square.denominator)
    return decimal_down(Fraction(root, 1 << bits), 15)
