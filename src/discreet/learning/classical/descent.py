"""Noisy gradient descent for logistic regression: each row's gradient is clipped, sums are whole, noise is Gaussian.

With δ > 0 this has the least noise of the methods here but in few dimensions: a gradient is clipped to norm 1 or 2,
whatever the number of columns and classes, while objective perturbation must allow for the longest row. All rows are in
every step, so nothing has to be known of how many there are; a noisy count sets the clip and the length of the steps.

The constants were chosen on generated tables of 2 to 200 columns, 2 to 10 classes and 300 to 40,000 rows
(docs/decisions/0026-regressions-that-choose.md).
"""

import math
from fractions import Fraction

import numpy as np

from discreet.learning.classical.bayes import normalized
from discreet.learning.classical.sums import UNIT, Floats, Ints, Noise, Part, Reach, norms, products
from discreet.noise import Entropy

STEPS = 100
_COUNT = Fraction(1, 50)  # the share of the noisy count
_MOMENTUM, _AVERAGED = 0.9, 5.0  # the mean is over the last fifth of the steps, about
_LONGEST = 1600.0  # the largest sum of the learning rates, were they not to fall
_PATH = 0.75  # the length of all steps together, in rows per deviation of the noise
_PLENTY = 2000  # so many rows per deviation of the noise allow a clip of 2 instead of 1


def descent_parts(reach: Reach, outputs: int, columns: int, steps: int) -> list[Part]:
    """What a row v within `reach` adds to the count, and to each of the gradients, in clips.

    Proof. It adds q ⊗ v with ‖q‖·‖v‖ ≤ UNIT² (`clipped`) and ‖q ⊗ v‖ = ‖q‖·‖v‖. In ℓ1 norm that is at most
    √(outputs·columns) times as much (Cauchy, Schwarz), and at most ‖q‖₁·‖v‖₁, q being the residuals of `residuals`,
    of ℓ1 norm at most UNIT for one output and 2·UNIT for several, or shorter (a clip is at least 1).
    """
    l1 = min(math.isqrt(outputs * columns * UNIT**4), (1 if outputs == 1 else 2) * UNIT * reach.l1)
    return [Part(1, 1, 1, _COUNT), Part(l1, UNIT**4, UNIT * UNIT, 1 - _COUNT, steps)]


def blur(noise: Noise, steps: int) -> float:
    """The deviation of the noise in the mean over the steps of a sum of gradients, in clips, in each coordinate."""
    return noise.deviation(1) / (UNIT * UNIT) / math.sqrt(steps)


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


def descended(v: Ints, target: Ints, noise: Noise, steps: int, penalty: float, entropy: Entropy | None) -> Floats:
    """Weights after the steps: momentum, rates that fall to 0, and the mean of the last weights.

    Guarantee: costs `noise.loss` if `noise` was planned for `descent_parts`. Proof. Rows are seen by the count and by
    the gradients alone, both released with noise; weights come from earlier releases, so the steps compose adaptively.
    """
    squares = norms(v)
    count = max(float(noise.add(0, np.array([len(v)]), entropy)[0]), 1.0)
    trust = count / blur(noise, steps)
    clip = 1.0 if trust < _PLENTY else 2.0
    rate = min(2 * (1 - _MOMENTUM) / steps * _PATH * trust / clip, _LONGEST / steps)
    weights = np.zeros((v.shape[1], target.shape[1]))
    speed, mean, sure, keep = weights, weights, 0.0, max(1 - _AVERAGED / steps, 0.0)
    for step in range(steps):
        exact = products(v, clipped(residuals(v, weights, target), squares, clip))
        slope = clip * noise.add(1, exact, entropy) / UNIT**2 + penalty * weights
        speed = _MOMENTUM * speed + slope / count
        weights = weights - rate * (1 - step / steps) * speed
        mean, sure = keep * mean + (1 - keep) * weights, keep * sure + 1 - keep
    return np.asarray(mean / sure, np.float64)


def residuals(v: Ints, weights: Floats, target: Ints) -> Ints:
    """(p − target)·UNIT for each row and class, cut to whole numbers towards zero.

    Guarantee: one class (two labels): |q| ≤ UNIT. Several: ‖q‖₁ ≤ 2·UNIT and ‖q‖² ≤ 2·UNIT², exactly: rows where
    rounding of floats broke that would count as zero.
    Proof. p and the target both add up to 1, so ‖p − target‖₁ ≤ 2 and ‖p − target‖² ≤ 2; cutting makes nothing larger,
    and both norms are then measured in whole numbers. A row's numbers do not depend on other rows (`_scores`).
    """
    with np.errstate(all="ignore"):
        scores = np.clip(_scores(v, weights), -700, 700)
        chances = 1 / (1 + np.exp(-scores)) if target.shape[1] == 1 else np.exp(normalized(scores))
    q = np.clip(np.trunc((chances - target) * UNIT), -UNIT, UNIT).astype(np.int64)
    if target.shape[1] > 1:
        q[(norms(q) > 2 * UNIT * UNIT) | (np.abs(q).sum(axis=1) > 2 * UNIT)] = 0
    return q


def _scores(v: Ints, weights: Floats) -> Floats:
    """v·weights/UNIT, weights rounded to about 30 bits of the largest: a row's scores depend on this row alone.

    Proof. A matrix product of floats is rounded in an order that may depend on how many rows there are. Here it adds up
    whole numbers: |v| ≤ UNIT = 2¹⁵, and weights become whole numbers of size at most 2^(37 − b) + ½ for fewer than 2^b
    columns; so all sums are below 2⁵³, and exact in every order.
    """
    finite = np.nan_to_num(weights)
    largest = max(int(np.frexp(np.abs(finite).max(initial=0.0))[1]), -900)
    steps = 37 - v.shape[1].bit_length() - largest
    return np.asarray(np.ldexp(v.astype(np.float64) @ np.rint(np.ldexp(finite, steps)), -steps - 15), np.float64)
