"""Which groups may be named: private selection of keys that come from the data.

A key that only one person has must stay hidden except with probability δ. Counts are numbers of *units* (people) with
each key; `keys` is the most keys that one unit can appear under, enforced before counting.

All three are for "add or remove one" (`neighbors`). Changing one unit is removing it and adding another: (ε,δ)-DP of
a selection is (2ε, (1 + e^ε)·δ)-DP under "change one" (group privacy), so state ε/2 and δ/(1 + e^(ε/2)) for it.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from math import ceil, expm1, log1p
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, exp_down, integer, plain
from discreet.fields import DisplayMixin, Integer, Rational
from discreet.mechanisms.additive import laplace_tail, normal_quantile
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import add, drawable, failure_probability, whole
from discreet.noise import Entropy, discrete_laplace
from discreet.noise.uniform import Coins
from discreet.privacy.loss import Approximate, Loss, Together
from discreet.privacy.unit import Neighbors

_LEAST_DELTA = Fraction(1, 10**300)
_LONGEST = 2_000_000
_MOST_RATE = Fraction(700)
"""e^ε is more than 1/δ for every δ there can be, so that a greater ε changes nothing."""


@dataclass(frozen=True, kw_only=True)
class OptimalSelection(DisplayMixin):
    """Keep each key with the largest probability that (ε,δ)-DP allows (Desfontaines, Voss, Gipson, Mandinyan 2022).

    π(0) = 0 and π(n+1) = min(e^ε·π(n) + δ, 1 − e^(−ε)(1 − π(n) − δ), 1) (their Theorem 1), with e^ε rounded down to a
    rational and each π(n) to a multiple of δ·2^−96 or less, both towards privacy; ε and δ are one key's shares ε/keys
    and δ/keys.

    Guarantee: (ε,δ)-DP under "add or remove one" for keys that one unit appears under at most `keys` times, once each.
    Proof. For one key and counts n, n+1 the four inequalities of (ε,δ)-DP on {drop, keep} bound π(n+1) from above by
    the two expressions (the other two hold as π rises), and rounding goes down. Keys compose by basic composition.

    >>> OptimalSelection(epsilon=1, delta="1e-5", keys=1).release([0, 1000]).tolist()
    [False, True]
    """

    epsilon: Rational = Rational(above=0)
    delta: Rational = Rational(at_least=_LEAST_DELTA, below=1)
    keys: Integer = Integer(at_least=1)
    neighbors: ClassVar[Neighbors] = Neighbors.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _check_delta(self.delta, self.keys)
        rate = min(float(self.epsilon / self.keys), 10.0)  # the table is shorter where it is more
        if 2 * log1p(expm1(rate) / (2 * float(self.delta / self.keys))) > _LONGEST * rate:
            raise InvalidParameter(
                "epsilon", plain(self.epsilon), "more for each key", "the table is too long; use LaplaceThreshold"
            )

    @property
    def loss(self) -> Loss:
        """(ε,δ)-DP for all keys together."""
        return Approximate(self.epsilon, self.delta)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> NDArray[np.bool_]:
        """Which keys to keep, given how many units each has."""
        table = _keep_coins(self.epsilon / self.keys, self.delta / self.keys)
        return table.flip(np.minimum(_counts(value), len(table) - 1), entropy)

    def keep(self, units: int) -> Fraction:
        """π(units): the probability that a key with this many units is kept."""
        table = _keep_coins(self.epsilon / self.keys, self.delta / self.keys)
        return table.probability(min(integer(units, "units", at_least=0), len(table) - 1))

    def interval(self, confidence: Number) -> int:
        """The least count that is kept with at least this probability."""
        wanted = 1 - failure_probability(confidence)
        return next(n for n in count() if self.keep(n) >= wanted)

    def channel(self, most: int) -> Channel:
        """From counts 0 … most of one key to drop (0) or keep (1), in rationals."""
        kept = [self.keep(n) for n in range(integer(most, "most", at_least=1) + 1)]
        return Channel([[1 - p, p] for p in kept], inputs=range(most + 1), outputs=[0, 1])


class _Threshold(DisplayMixin):
    """Keys whose noisy count reaches a threshold are kept, counts included."""

    @property
    def threshold(self) -> int:
        """The least noisy count that is kept."""
        raise NotImplementedError

    def _noisy(self, counts: NDArray[np.int64], entropy: Entropy | None) -> NDArray[np.int64]:
        raise NotImplementedError

    def release(
        self, value: ArrayLike, /, *, entropy: Entropy | None = None
    ) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """Which keys to keep, and the noisy counts (0 where a key is not kept).

        Keys with no unit at all are never kept: they are not in the data, so naming them would be invention.
        """
        counts = _counts(value)
        noisy = self._noisy(counts, entropy)
        kept = (noisy >= self.threshold) & (counts > 0)
        return kept, np.where(kept, noisy, 0)


@dataclass(frozen=True, kw_only=True)
class LaplaceThreshold(_Threshold):
    """Discrete Laplace noise on each count; keys whose noisy count reaches the threshold are kept, counts included.

    Guarantee: (ε,δ)-DP under "add or remove one". Proof. One unit moves `keys` counts by 1 each: ℓ1 sensitivity `keys`,
    ε-DP for keys present on both sides. A key of that unit alone is kept with probability
    P(1 + noise ≥ threshold) ≤ δ/keys.

    >>> LaplaceThreshold(epsilon=1, delta="1e-5", keys=1).threshold
    13
    """

    epsilon: Rational = Rational(above=0)
    delta: Rational = Rational(at_least=_LEAST_DELTA, below=1)
    keys: Integer = Integer(at_least=1)
    neighbors: ClassVar[Neighbors] = Neighbors.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _check_delta(self.delta, self.keys)
        drawable(self.scale, epsilon=self.epsilon, keys=self.keys)

    @property
    def loss(self) -> Loss:
        """(ε,δ)-DP for all keys and counts together."""
        return Approximate(self.epsilon, self.delta)

    @property
    def scale(self) -> Fraction:
        """The scale of the noise on each count."""
        return self.keys / self.epsilon

    @property
    def threshold(self) -> int:
        """The least noisy count that is kept."""
        return laplace_tail(self.scale, self.delta / self.keys) + 2

    def _noisy(self, counts: NDArray[np.int64], entropy: Entropy | None) -> NDArray[np.int64]:
        return add(counts, np.asarray(discrete_laplace(self.scale, counts.shape, entropy=entropy)))

    def interval(self, confidence: Number) -> int:
        """The least w with |noisy count − count| ≤ w at this confidence, for each count before the threshold."""
        return laplace_tail(self.scale, failure_probability(confidence) / 2)


@dataclass(frozen=True, kw_only=True)
class GaussianThreshold(_Threshold):
    """Gaussian noise on each count, rounded; keys whose noisy count reaches the threshold are kept, counts included.

    Guarantee: that of continuous Gaussian noise of σ/√keys, plus δ, under "add or remove one". Proof. One unit moves
    `keys` counts by 1: ℓ2 sensitivity √keys, and the noise is a rounded Gaussian (`gaussian`). A key of that unit alone
    is kept with probability P(1 + noise ≥ threshold) = P(N(0, σ²) ≥ threshold − 3/2) ≤ δ/keys.

    >>> GaussianThreshold(sigma=3, delta="1e-5", keys=1).threshold
    15
    """

    sigma: Rational = Rational(above=0)
    delta: Rational = Rational(at_least=_LEAST_DELTA, below=1)
    keys: Integer = Integer(at_least=1)
    neighbors: ClassVar[Neighbors] = Neighbors.ADD_OR_REMOVE_ONE

    def __post_init__(self) -> None:
        _check_delta(self.delta, self.keys)
        RoundedGaussian(sigma=self.sigma, squared_sensitivity=self.keys)

    @property
    def loss(self) -> Loss:
        """Gaussian noise for the counts, and δ for the keys."""
        return Together(self._noise.loss, Approximate(0, self.delta))

    @property
    def _noise(self) -> RoundedGaussian:
        return RoundedGaussian(sigma=self.sigma, squared_sensitivity=self.keys)

    @property
    def threshold(self) -> int:
        """The least noisy count that is kept."""
        return max(2, ceil(Fraction(3, 2) + self.sigma * normal_quantile(self.delta / self.keys)))

    def _noisy(self, counts: NDArray[np.int64], entropy: Entropy | None) -> NDArray[np.int64]:
        return np.asarray(self._noise.release(counts, entropy=entropy))

    def interval(self, confidence: Number) -> int:
        """The least w with |noisy count − count| ≤ w at this confidence, for each count before the threshold."""
        return self._noise.interval(confidence)


@lru_cache(maxsize=32)
def _keep_coins(epsilon: Fraction, delta: Fraction) -> Coins:
    """The coins π(n) for n = 0, 1, … up to the first n with π(n) = 1."""
    epsilon = min(epsilon, _MOST_RATE)  # less than what is paid for, and no key would be kept more often
    bits = 96 + int(1 / delta).bit_length()
    one = 1 << bits
    growth = int(exp_down(epsilon, bits) * one)  # e^ε, rounded down
    charge = delta.numerator * one // delta.denominator
    shares = [0]
    while shares[-1] < one:
        now = shares[-1]
        rising = now * growth // one + charge
        falling = one + (now + charge - one) * one // growth if now + charge < one else one  # floors: towards privacy
        shares.append(min(rising, falling, one))
    return Coins(shares, bits)


def _check_delta(delta: Fraction, keys: int) -> None:
    if delta / keys < _LEAST_DELTA:
        raise InvalidParameter("delta", f"{plain(delta)} for {keys} keys", "at least 1e-300 a key")


def _counts(value: ArrayLike) -> NDArray[np.int64]:
    counts = np.atleast_1d(whole(value, "counts"))
    if counts.ndim != 1 or (counts.size and counts.min() < 0):
        raise InvalidData("counts: expected a one-dimensional list of whole numbers ≥ 0")
    return counts
