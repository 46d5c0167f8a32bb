"""What sampling gives where the noise is made of many shares: almost what it gives with one Gaussian.

A sum of discrete Gaussians is no rounded Gaussian, and theorems on sampled Gaussian noise are about Gaussians. But on a
grid as fine as ours the two can hardly be told apart, and what is left of the difference is paid for in δ.
"""

import math
from fractions import Fraction
from functools import lru_cache

from discreet.errors import NoGuarantee
from discreet.exact import exp_up
from discreet.learning.federated.noise import GaussianShare
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.accounting.rounding import decimal_down
from discreet.privacy.loss import Approximate, Loss, Repeated, SampledGaussian, Together

_FINE = 64  # the least σ of a share for which the proof is made
_LONGEST = 1 << 27
_LADDER = tuple(Fraction(1, 10**k) for k in range(14, 6, -1))


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
    the sum, but from what does not depend on these shares, coins or vectors: they are under pads until the sum is out.

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
