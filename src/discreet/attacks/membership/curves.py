r"""How well may one tell "in" from "out" under a claim? Two families of curves, and what right guesses refute of them.

A claim bounds true positives by false ones: TPR ≤ F(FPR) for every test, F concave and increasing (Dong, Roth, Su 2022,
"Gaussian differential privacy": F = 1 − f for the trade-off function f). `Plain` is (ε,δ)-DP; `Gaussian` is the curve
of one Gaussian release of sensitivity μ standard deviations, which is what many of them amount to as well.

Theorem 4 (in the manner of Mahloujifar, Melis, Chaudhuri 2024, "Auditing f-differential privacy in one run"; proved
here in the form that is used). In the setting of `onerun`, with exactly r guesses on m coins of which W are right, let
p_j = P[W = j], R_w = Σ_{j ≥ w} j·p_j and H_w = Σ_{j ≥ w} (r − j)·p_j. Then for all w ≥ 1

    R_w/m ≤ F(H_{w−1}/m),  that is,  H_{w−1} ≥ m·F⁻¹(R_w/m).

Proof. Fix a place i, the other coins and a side s. The event {guess i is s, and W ≥ w if coin i is s} has at most F(x)
probability when coin i is s, if x is its probability when it is not; there the guess is wrong and W, one less, is at
least w − 1. Take means over s and the other coins, then over i; F is concave (Jensen):
P[guess i right, W ≥ w] and P[guess i wrong, W ≥ w − 1] average to R_w/m and H_{w−1}/m.  ∎

Corollary (what `refuted` computes). Suppose P[W ≥ v] ≥ α. With κ_j = j/(r − j), R_w = R_{w+1} + κ_w·(H_w − H_{w+1}), so
for w < v, summing by parts, R_w = (R_v − κ_{v−1}·H_v) + κ_w·H_w + Σ_{w < j < v} (κ_j − κ_{j−1})·H_j. The bracket is at
least α·r/(r − v + 1), since j − κ_{v−1}·(r − j) grows with j and is r/(r − v + 1) at j = v. All coefficients are
positive, so lower bounds go down step by step: R_v ≥ α·v; H_w ≥ max(H_{w+1}, m·F⁻¹(R_{w+1}/m)); then R_w from them. But
R_0 + H_0 = r: if the bounds exceed r at any step, P[W ≥ v] < α under every training within the curve.  ∎

>>> from discreet.attacks.membership.curves import Gaussian, Plain, refuted
>>> refuted(Plain(1.0, 0.0), canaries=1000, guesses=1000, right=800, level=0.05)  # ε = 1 allows 731 of 1,000
True
>>> refuted(Plain(1.0, 0.0), canaries=1000, guesses=1000, right=740, level=0.05)
False
"""

from dataclasses import dataclass
from math import erfc, exp, inf, sqrt
from statistics import NormalDist

_NORMAL = NormalDist()
_TINY = 1e-300
_SLACK = 1e-9  # of the inverse, towards not refuting: more than its rounding


@dataclass(frozen=True, slots=True)
class Plain:
    """(ε,δ)-DP: TPR ≤ e^ε·FPR + δ, and the same of the complements with the sides exchanged."""

    epsilon: float
    delta: float

    def inverse(self, true: float) -> float:
        """The least false-positive rate that allows this true-positive rate.

        >>> Plain(0.0, 0.25).inverse(0.75)
        0.5
        """
        grown = exp(min(self.epsilon, 700.0))
        return max(0.0, (true - self.delta) / grown, 1 - self.delta - (1 - true) * grown)


@dataclass(frozen=True, slots=True)
class Gaussian:
    """One Gaussian release: N(0, 1) against N(μ, 1)."""

    mu: float

    def inverse(self, true: float) -> float:
        """The least false-positive rate that allows this true-positive rate: Φ(Φ⁻¹(t) − μ).

        >>> round(Gaussian(1.0).inverse(0.5), 4)
        0.1587
        """
        if true < _TINY:
            return 0.0
        return _cdf(_NORMAL.inv_cdf(true) - self.mu) if true < 1 else 1.0

    def epsilon(self, delta: float) -> float:
        """ε at δ, rounded down (Dong, Roth, Su 2022, corollary 2.13; Balle, Wang 2018, theorem 8).

        >>> round(Gaussian(1.0).epsilon(1e-5), 3), Gaussian(0.0).epsilon(0.0)
        (4.377, 0.0)
        """
        if self.mu <= 0:
            return 0.0
        if delta <= 0:
            return inf
        low, high = 0.0, self.mu**2 / 2 + 40 * self.mu
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if self.delta(middle) > delta else (low, middle)
        return low * (1 - _SLACK)

    def delta(self, epsilon: float) -> float:
        """δ at ε: Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ)."""
        from scipy.special import log_ndtr

        return _cdf(self.mu / 2 - epsilon / self.mu) - exp(epsilon + float(log_ndtr(-self.mu / 2 - epsilon / self.mu)))


Curve = Plain | Gaussian


def refuted(curve: Curve, *, canaries: int, guesses: int, right: int, level: float) -> bool:
    """Whether so many right guesses, of a number that was fixed beforehand, have a probability below `level`.

    Guarantee: True only if P[W ≥ right] < level for every training within the curve, by theorem 4. Steps that could
    still show it are left out far below `right`: that only loses power.
    """
    m, r, v = canaries, guesses, right
    if not 0 < v <= r:
        return False
    bound_r, bound_h, sums = level * v, 0.0, level * r / (r - v + 1)
    before, last = _odds(v - 1, r), 0.0
    for w in range(v - 1, max(-1, v - 50 - int(12 * sqrt(r))), -1):
        bound_h = max(bound_h, m * curve.inverse(min(1.0, bound_r / m)) * (1 - _SLACK) - _TINY)
        kappa = _odds(w, r)
        sums += (before - kappa) * last
        bound_r = max(bound_r, sums + kappa * bound_h)
        before, last = kappa, bound_h
        if bound_r + bound_h > r * (1 + _SLACK):
            return True
    return False


def normal_shift(true: float, false: float) -> float:
    """The least μ whose curve allows these rates: Φ⁻¹(TPR) − Φ⁻¹(FPR).

    >>> round(normal_shift(0.8413447, 0.5), 4)
    1.0
    """
    if true <= 0 or false >= 1:
        return -inf
    if true >= 1 or false <= 0:
        return inf
    return _NORMAL.inv_cdf(true) - _NORMAL.inv_cdf(false)


def _odds(right: int, guesses: int) -> float:
    return right / (guesses - right)


def _cdf(value: float) -> float:
    return erfc(-value / sqrt(2)) / 2
