"""Descent along noisy sums of clipped gradients: how regressions are fitted where δ > 0 and columns are many.

A gradient is clipped to norm 1 or a little more, whatever the number of columns and classes, while objective
perturbation must allow for the longest row in ℓ1 norm, and sums of XᵀX for every pair of columns. All rows are in each
step, so nothing has to be known of how many there are: noisy sums set the clip and the length of the steps. All sums
are whole and exact, and no convergence has to be proven for privacy (decisions 26 and 33).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from discreet.learning.classical.exact_sums import UNIT, Floats, Ints, Noise, Part, Reach, norms, products, weighted
from discreet.noise import Entropy
from discreet.privacy.loss import Loss

STEPS = 100
COUNT = Part(1, 1, 1, Fraction(1, 50))
_MOMENTUM, _AVERAGED = 0.9, 5.0  # the mean is over the last fifth of the steps, about

Residuals = Callable[[Ints, Floats, Ints], Ints]
"""What rows v with these weights miss their targets by: whole numbers, those of a row from this row alone."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Noise for a number of steps, of clipped gradients or in a metric."""

    noise: Noise
    steps: int
    clipped: bool

    @property
    def loss(self) -> Loss:
        """What all of them cost."""
        return self.noise.loss


@dataclass(frozen=True, slots=True)
class Pace:
    """How far steps go, from a noisy count, and the norm that gradients are clipped to.

    count     about how many rows there are
    clip      at least 1
    path      the length of all steps together, in rows per deviation of the noise
    longest   the largest sum of the learning rates, were they not to fall
    """

    count: float
    clip: float
    path: float
    longest: float


def descent_parts(reach: Reach, outputs: int, columns: int, steps: int, first: Part = COUNT) -> list[Part]:
    """What a row v within `reach` adds to what is released first (a count), and to each of the gradients, in clips.

    Proof. It adds q ⊗ v with ‖q‖·‖v‖ ≤ UNIT² (`clipped`) and ‖q ⊗ v‖ = ‖q‖·‖v‖. In ℓ1 norm that is at most
    √(outputs·columns) times as much (Cauchy, Schwarz), and at most ‖q‖₁·‖v‖₁, q being residuals, of ℓ1 norm at most
    UNIT for one output and 2·UNIT for several, or shorter (a clip is at least 1).
    """
    l1 = min(math.isqrt(outputs * columns * UNIT**4), (1 if outputs == 1 else 2) * UNIT * reach.l1)
    return [first, Part(l1, UNIT**4, UNIT * UNIT, 1 - first.share, steps)]


def blur(plan: Steps) -> float:
    """The deviation of the noise in the mean over the steps of a sum of gradients, in clips, in each coordinate."""
    return plan.noise.deviation(1) / (UNIT * UNIT) / math.sqrt(plan.steps)


def clipped(q: Ints, squares: Ints, clip: float = 1.0) -> Ints:
    """Residuals over `clip`, shortened so that ‖q‖·‖v‖ ≤ UNIT²; `squares` are those of the rows v, at least 1.

    Guarantee: exact, and a row's numbers depend on this row alone. Proof. ‖q‖²·‖v‖² ≤ UNIT⁴ holds exactly if ‖q‖² is
    at most the whole part of UNIT⁴/‖v‖², whole numbers below 2⁶¹. Longer q are shortened in floats, cut towards zero
    and measured again, and would count as zero if still too long.

    >>> clipped(np.array([[UNIT], [UNIT // 8]]), np.array([4 * UNIT**2, 4 * UNIT**2])).tolist()
    [[16383], [4096]]
    """
    most = UNIT**4 // squares
    shrink = np.minimum(1 / clip, np.sqrt(most / np.maximum(norms(q), 1)) * (1 - 2.0**-40))
    shorter = np.trunc(q * shrink[:, None]).astype(np.int64)
    shorter[norms(shorter) > most] = 0
    return shorter


def descended(
    residuals: Residuals,
    v: Ints,
    target: Ints,
    plan: Steps,
    pace: Pace,
    start: Floats,
    penalty: Floats | float,
    entropy: Entropy | None,
    sample_weight: Floats | None = None,
) -> Floats:
    """Weights after the steps: momentum, rates that fall to 0, and the mean of the last weights.

    `penalty` draws weights to 0, implicitly, so that a large one does not overshoot.

    Guarantee: costs `plan.loss` with what was released first, if its noise was planned for `descent_parts`. Proof. Rows
    are seen by what came first and by the gradients alone, all released with noise; weights come from earlier releases,
    so the steps compose adaptively. A row v = 0 is measured as if it had norm 1/UNIT, and adds nothing.
    """
    squares, steps, count, clip = np.maximum(norms(v), 1), plan.steps, pace.count, pace.clip
    rate = min(2 * (1 - _MOMENTUM) / steps * pace.path * count / (blur(plan) * clip), pace.longest / steps)
    weights, speed, mean, sure = start, np.zeros_like(start), np.zeros_like(start), 0.0
    keep = max(1 - _AVERAGED / steps, 0.0)
    for step in range(steps):
        shorter = clipped(residuals(v, weights, target), squares, clip)
        exact = products(v, weighted(shorter, sample_weight))
        speed = _MOMENTUM * speed + clip * plan.noise.add(1, exact, entropy) / UNIT**2 / count
        far = rate * (1 - step / steps)
        weights = (weights - far * speed) / (1 + far * penalty / (count * (1 - _MOMENTUM)))
        mean, sure = keep * mean + (1 - keep) * weights, keep * sure + 1 - keep
    return np.asarray(mean / sure, np.float64)


def scores(v: Ints, weights: Floats) -> Floats:
    """v·weights/UNIT, weights rounded to about 30 bits of the largest: a row's scores depend on this row alone.

    Proof. A matrix product of floats is rounded in an order that may depend on how many rows there are. Here it adds up
    whole numbers: |v| ≤ UNIT = 2¹⁵, and weights become whole numbers of size at most 2^(37 − b) + ½ for fewer than 2^b
    columns; so all sums are below 2⁵³, and exact in every order.
    """
    finite = np.nan_to_num(weights)
    largest = max(int(np.frexp(np.abs(finite).max(initial=0.0))[1]), -900)
    steps = 37 - v.shape[1].bit_length() - largest
    return np.asarray(np.ldexp(v.astype(np.float64) @ np.rint(np.ldexp(finite, steps)), -steps - 15), np.float64)
