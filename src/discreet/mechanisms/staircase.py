"""Staircase noise: the least expected error of all additive noise for ε-DP."""

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, log

import numpy as np
from numpy.typing import ArrayLike

from discreet.exact import Number, float_down, float_up, log_down, rational
from discreet.mechanisms.additive import DEEP, granularity_of, sensitivity_of, shaped
from discreet.mechanisms.grid import Grid, add
from discreet.mechanisms.mechanism import drawable, failure_probability
from discreet.noise import Entropy, staircase
from discreet.privacy.loss import Loss, Pure


@dataclass(frozen=True, slots=True)
class Staircase:
    """Staircase noise (Geng, Viswanath 2014): the least expected |noise| of all ε-DP additive noises, on a grid.

    The first stair takes the share γ = 1/(1 + e^(ε/2)) of a step (their Theorem 2, ℓ1 cost), rounded to the grid.

    Guarantee: ε-DP for a real number that one unit moves by at most Δ.
    Proof. ⌊(|k| + n − r)/n⌋ changes by at most 1 when k moves by at most n = ⌈Δ/g⌉ steps, so the ratio is at most e^ε.

    >>> from discreet.mechanisms import Laplace
    >>> Staircase(epsilon=4, sensitivity=1).variance < Laplace(epsilon=4, sensitivity=1).variance
    True
    """

    epsilon: Fraction
    sensitivity: Fraction
    granularity: Fraction

    def __init__(self, *, epsilon: Number, sensitivity: Number, granularity: Number | None = None) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", above=0))
        object.__setattr__(self, "sensitivity", sensitivity_of(sensitivity))
        object.__setattr__(self, "granularity", granularity_of(granularity, self.sensitivity))
        drawable(self.width / self.epsilon, epsilon=epsilon, sensitivity=sensitivity, granularity=self.granularity)

    @property
    def loss(self) -> Loss:
        """ε-DP."""
        return Pure(self.epsilon)

    @property
    def width(self) -> int:
        """n, the steps in one stair."""
        return ceil(self.sensitivity / self.granularity)

    @property
    def first(self) -> int:
        """r, the steps in the first stair on either side of zero."""
        share = 1 / (1 + exp(min(float(self.epsilon), 1400.0) / 2))
        return max(1, round(share * self.width))

    @property
    def variance(self) -> float:
        """The variance of the noise: first stair, then Σⱼ q^(j+1)·Σᵤ(r + jn + u)² by the sums of q^j, jq^j, j²q^j."""
        n, r, (q, p) = self.width, self.first, self._ratio
        flat = n * r**2 + r * n * (n - 1) + (n - 1) * n * (2 * n - 1) / 6
        slope, curve = 2 * n**2 * r + n**2 * (n - 1), n**3
        beyond = q * (flat / p + slope * q / p**2 + curve * q * (1 + q) / p**3)
        squares = 2 * ((r - 1) * r * (2 * r - 1) / 6 + beyond)
        return squares / self._mass * float(self.granularity) ** 2

    @property
    def _ratio(self) -> tuple[float, float]:
        """q = e^(−ε) and 1 − q."""
        rate = float(min(self.epsilon, DEEP))
        return exp(-rate), -expm1(-rate)

    @property
    def _mass(self) -> float:
        """Σ over all k of e^(−ε·stair), the normalizing constant."""
        q, p = self._ratio
        return 2 * self.first + 2 * self.width * q / p - 1

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float:
        """value + noise, on the grid."""
        steps = shaped(Grid(self.granularity).snap(value), 1)
        noise = staircase(epsilon=self.epsilon, width=self.width, first=self.first, size=steps.shape, entropy=entropy)
        return float(Grid(self.granularity).floats(add(steps, np.asarray(noise))).item())

    def interval(self, confidence: Number) -> float:
        """A w such that |release − value| ≤ w with at least this probability, for each number; snapping included.

        Beyond w = r − 1 − v (v ≥ 0) lie v + nq/(1−q) on either side; beyond w = r + jn + u, 0 ≤ u < n, lie
        q^(j+1)·(n − 1 − u + nq/(1−q)). The least w whose share is within the doubt, a billionth of it to spare.
        """
        n, r, (q, p) = self.width, self.first, self._ratio
        tail = n * q / p  # beyond the first stair, on one side
        log_room = float_down(log_down(failure_probability(confidence))) - 1e-9 + log(self._mass / 2)
        if q == 0 or log_room >= log(tail):
            steps = max(0, ceil(r - 1 - (exp(log_room) - tail)))
        else:
            rate = float(self.epsilon)
            stair = max(0, ceil((log(tail) - log_room) / rate) - 1)
            steps = r + stair * n + min(n - 1, max(0, ceil(n - 1 + tail - exp(log_room + (stair + 1) * rate))))
        return float_up((steps + Fraction(1, 2)) * self.granularity)
