"""The discrete Gaussian N_ℤ(0, σ²), P(K = k) ∝ exp(−k²/2σ²), exactly (Canonne, Kamath, Steinke 2020).

|K| is split into a block and a place in it. Let m be a power of two near σ/32 (m = 1 for σ < 64). Non-negative
integers fall into blocks [mh, mh + m), h ≥ 0; negative ones, by absolute value, into blocks [mh + 1, mh + m], h ≥ 0.
Let e be the absolute value nearest zero in a block.

1. Draw a block with probability ∝ exp(−e²/2σ²), by lazy inversion (`table.Table`).
2. Draw L uniformly from {0 … m−1}.
3. Accept |K| = e + L with probability exp(−((e + L)² − e²)/2σ²) = exp(−L(2e + L)/2σ²); else start again.

Proof. Each k lies in one block, and is proposed with probability ∝ exp(−e²/2σ²)/m and accepted with
exp(−(k² − e²)/2σ²): the product is ∝ exp(−k²/2σ²). For σ < 64 there is nothing to reject; above, about 1 in 80 is. How
often a draw starts again is independent of what it returns, so time tells nothing about the noise.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, rational
from discreet.noise.entropy import Entropy
from discreet.noise.sampler import (
    LARGEST,
    Enclosure,
    Integers,
    Size,
    Sums,
    accept,
    accept_one,
    cumulative,
    sample_often,
    times,
)

_GUARD = 64


def discrete_gaussian(sigma: Number, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Draws of K with P(K = k) ∝ exp(−k²/(2·sigma²)), on all integers.

    >>> from discreet.noise import DeterministicEntropy
    >>> discrete_gaussian(100, size=3, entropy=DeterministicEntropy(1)).dtype
    dtype('int64')
    """
    try:
        sampler = _gaussian(sigma)
    except TypeError:  # what cannot be hashed is not a number either
        sampler = _Gaussian(_sigma(sigma))
    return sample_often(sampler, size, entropy)


def _sigma(sigma: Number) -> Fraction:
    exact = rational(sigma, "sigma", above=0)
    if exact > LARGEST:
        raise InvalidParameter("sigma", sigma, "at most 2^52", "use a coarser grid, so that noise fits 64 bits")
    return exact


@lru_cache(maxsize=32, typed=True)
def _gaussian(sigma: Number) -> "_Gaussian":
    return _Gaussian(_sigma(sigma))


class _Gaussian:
    """Sampler for one σ; block 2h holds the non-negative integers from mh, block 2h + 1 the negative ones."""

    def __init__(self, sigma: Fraction) -> None:
        self._twice_variance = 2 * sigma * sigma
        self._float_twice_variance = float(self._twice_variance)
        self._shift = max(0, int(sigma).bit_length() - 6)  # m = 2^shift, 32 ≤ σ/m < 64
        self.blocks = cumulative(lambda bits: _block_sums(sigma, 1 << self._shift, bits))

    def draw(self, entropy: Entropy) -> int:
        low = (1 << self._shift) - 1
        while True:
            first, second, third = (int(word) for word in entropy.words(3))
            block = self.blocks.pick(first, entropy)
            negative, place = block & 1, second & low
            nearest = ((block >> 1) << self._shift) + negative
            if not low or self._accepts(place, nearest, third, entropy):
                return ((nearest + place) ^ -negative) + negative  # −|K| if negative, without a branch

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.flatnonzero(~self._propose(entropy, out))
        while pending.size:
            part = np.empty(pending.size, np.int64)
            accepted = self._propose(entropy, part)
            out[pending] = part
            pending = pending[~accepted]

    def _propose(self, entropy: Entropy, out: Integers) -> NDArray[np.bool_]:
        """One proposal for each position of `out`, and which of them are accepted."""
        block = self.blocks.picks(entropy, out.size)
        negative = block & 1
        np.right_shift(block, 1, out=out, casting="unsafe")
        out <<= self._shift
        out += negative  # e
        accepted = np.ones(out.size, np.bool_)
        if self._shift:
            place = (entropy.words(out.size) >> np.uint64(64 - self._shift)).astype(np.int64)
            exponent = place * (2.0 * out + place)
            exponent /= self._float_twice_variance
            accepted = accept(exponent, lambda k: self._acceptance(int(place[k]), int(out[k])), entropy)
            out += place
        np.negative(out, out=out, where=negative.astype(np.bool_))
        return accepted

    def _accepts(self, place: int, nearest: int, word: int, entropy: Entropy) -> bool:
        gamma = place * (2 * nearest + place) / self._float_twice_variance
        return accept_one(gamma, self._acceptance(place, nearest), word, entropy)

    def _acceptance(self, place: int, nearest: int) -> Enclosure:
        return lambda bits: exp_bounds(-place * (2 * nearest + place) / self._twice_variance, bits)


def _block_sums(sigma: Fraction, m: int, bits: int) -> Sums:
    """Enclosures of the weights exp(−e²/2σ²) summed up to each block, and of the sum over all blocks.

    With c = m²/2σ², the weights are a(h) = e^(−ch²) and, on the negative side, a(h)·e^(−hm/σ²)·e^(−1/2σ²). Both come
    from products of constants, rounded outwards. Stops at the first h whose tail is negligible: from h on the two sides
    add up to at most 2·a(h)/(1 − a(h+1)/a(h)), because the ratio falls as h grows.
    """
    precision = bits + _GUARD
    one = 1 << precision
    variance = sigma * sigma
    step = exp_bounds(-m * m / variance, precision)  # a(h+1)/a(h) falls by this factor from h to h + 1
    ratio = exp_bounds(-m * m / (2 * variance), precision)  # a(h+1)/a(h)
    tilt_step = exp_bounds(-m / variance, precision)
    tilt = exp_bounds(-1 / (2 * variance), precision)  # e^(−hm/σ²)·e^(−1/2σ²)
    weight, weights = (one, one), []
    while True:
        weights += [weight, times(weight, tilt, precision)]
        weight, tilt = times(weight, ratio, precision), times(tilt, tilt_step, precision)
        ratio = times(ratio, step, precision)
        tail = 2 * weight[1] * one // (one - ratio[1]) + 1
        if tail < one >> (bits + 4):
            break
    lows, highs = accumulate(lo for lo, _ in weights), accumulate(hi for _, hi in weights)
    sums = list(zip(lows, highs, strict=True))
    return sums, (sums[-1][0], sums[-1][1] + tail)
