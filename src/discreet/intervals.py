"""Confidence limits of shares, from counts.

>>> from discreet.intervals import clopper_pearson
>>> low, high = clopper_pearson(9, 10, confidence=0.95)
>>> round(float(low), 3), round(float(high), 3)
(0.555, 0.997)
"""

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter

Floats = NDArray[np.float64]


def clopper_pearson(
    successes: ArrayLike, trials: ArrayLike, *, confidence: float | Fraction
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two-sided limits of a probability.

    Guarantee: the limits hold the true probability with at least the stated confidence, whatever it is.
    Proof. Clopper, Pearson 1934: each limit is the probability at which a count as extreme has probability
    (1 − confidence)/2; the two tails add up.

    >>> [float(limit) for limit in clopper_pearson(0, 0, confidence=0.95)]
    [0.0, 1.0]
    """
    tail = (1 - _level(confidence)) / 2
    return _low(successes, trials, tail), _high(successes, trials, tail)


def lower_limit(successes: ArrayLike, trials: ArrayLike, *, confidence: float | Fraction) -> NDArray[Any]:
    """The one-sided lower limit: the probability is at least this much, with the stated confidence.

    >>> round(float(lower_limit(9, 10, confidence=0.95)), 3)
    0.606
    """
    return _low(successes, trials, 1 - _level(confidence))


def upper_limit(successes: ArrayLike, trials: ArrayLike, *, confidence: float | Fraction) -> NDArray[Any]:
    """The one-sided upper limit: the probability is at most this much, with the stated confidence.

    >>> round(float(upper_limit(0, 100, confidence=0.95)), 4)
    0.0295
    """
    return _high(successes, trials, 1 - _level(confidence))


def newcombe(first: tuple[float, float, float], second: tuple[float, float, float]) -> tuple[float, float]:
    """Limits of a difference of two independent shares, each given as (value, low, high).

    Newcombe 1998, method 10 (square-and-add): d − √((p₁−l₁)² + (u₂−p₂)²) to d + √((u₁−p₁)² + (p₂−l₂)²). Approximate;
    with Clopper–Pearson limits of the parts it errs on the wide side.

    >>> low, high = newcombe((0.9, 0.8, 0.95), (0.5, 0.4, 0.6))
    >>> round(low, 3), round(high, 3)
    (0.259, 0.512)
    """
    (p, low_p, high_p), (q, low_q, high_q) = first, second
    below, above = np.hypot(p - low_p, high_q - q), np.hypot(high_p - p, q - low_q)
    return float(max(-1.0, p - q - below)), float(min(1.0, p - q + above))


def _low(successes: ArrayLike, trials: ArrayLike, tail: float) -> Floats:
    from scipy.special import betaincinv

    hits, tries = _counts(successes, trials)
    return np.where(hits > 0, betaincinv(np.maximum(hits, 1), tries - hits + 1, tail), 0.0)


def _high(successes: ArrayLike, trials: ArrayLike, tail: float) -> Floats:
    from scipy.special import betainccinv

    hits, tries = _counts(successes, trials)
    return np.where(hits < tries, betainccinv(hits + 1, np.maximum(tries - hits, 1), tail), 1.0)


def _counts(successes: ArrayLike, trials: ArrayLike) -> tuple[Floats, Floats]:
    hits, tries = np.broadcast_arrays(np.asarray(successes, np.float64), np.asarray(trials, np.float64))
    if not (np.isfinite(hits).all() and np.isfinite(tries).all()):
        raise InvalidData("successes and trials must be finite")
    if (hits < 0).any() or (hits > tries).any():
        raise InvalidData("successes must lie between 0 and the number of trials")
    return hits, tries


def _level(confidence: float | Fraction) -> float:
    if isinstance(confidence, bool) or not isinstance(confidence, int | float | Fraction) or not 0 < confidence < 1:
        raise InvalidParameter("confidence", confidence, "a number strictly between 0 and 1, e.g. 0.95")
    return float(confidence)
