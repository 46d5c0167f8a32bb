"""The Gaussian N(0, σ²) rounded to whole numbers, exactly: K = the whole number nearest to σZ, Z standard normal.

What is released on an integer grid with this noise is a rounding of what the continuous Gaussian mechanism releases.
So every guarantee of the continuous one holds, in any dimension, sampled or not, without a correction.

Let m be a power of two near σ/32 (m = 1 for σ < 64). |X| = |σZ| falls into blocks [mh, mh + m), h ≥ 0.

1. Draw a block with probability ∝ exp(−(mh)²/2σ²), by lazy inversion (`table.Table`).
2. Draw L uniformly from the reals in [0, m): 63 bits of L/m at once, more only if they matter.
3. Accept |X| = mh + L with probability exp(−((mh + L)² − (mh)²)/2σ²) = exp(−L(2mh + L)/2σ²); else start again.
4. Give it a random sign, and round.

Proof. A point x of block h is proposed with density ∝ exp(−(mh)²/2σ²)/m and accepted with exp(−(x² − (mh)²)/2σ²): the
product is ∝ exp(−x²/2σ²). Rounding looks at the bits of L down to ½, which are known. How often a draw starts again is
independent of what it returns. Floats decide acceptance only where they can prove it:

- Arrays: L/m is known to 31 bits, which leaves γ = L(2mh + L)/2σ² open by at most 2⁻³¹·m(mh + m)/σ² ≤ 2⁻²³ in every
  block that the table lists (σ ≥ 1/8); other blocks are not left to floats. The float32 of γ carries eight roundings
  of 2⁻²⁴, which move p by at most 2⁻²¹/e, and its exponential is within 2⁻²¹ (a few units in the last place; tests hold
  it to that). So p̂ is within 2⁻²³ + 2⁻²¹/e + 2⁻²¹ < 2⁻²⁰ of p, 2¹⁶·p̂ within 1/16. U is known to 16 bits,
  u ≤ 2¹⁶·U < u + 1. If 2¹⁶·p̂ − u is above 1 + 1/8 then U < p, if it is below −1/8 then U ≥ p.
- Single draws, and σ ≥ 2³⁶: L/m is known to 63 bits, and `accept` holds what its own proof asks.

Elsewhere `below` compares rationals, while both U and L are revealed bit by bit.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, rational
from discreet.noise.accept import Enclosure, accept, accept_one
from discreet.noise.enclosure import Sums, cumulative, times
from discreet.noise.entropy import Entropy
from discreet.noise.sampler import LARGEST, Integers, Size, sample_often, sixteen_bits
from discreet.noise.table import below

_GUARD = 64
_LONG, _SHORT = 63, 31  # bits of L/m that are drawn at once; one more bit of the word is the sign
_MARGIN = 0.125


def rounded_gaussian(sigma: Number, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Draws of the whole number nearest to a Gaussian of mean 0 and standard deviation `sigma`.

    >>> from discreet.noise import DeterministicEntropy
    >>> rounded_gaussian(100, size=3, entropy=DeterministicEntropy(1)).dtype
    dtype('int64')
    """
    return sample_often(_rounded(_sigma(sigma)), size, entropy)


def _sigma(sigma: Number) -> Fraction:
    exact = rational(sigma, "sigma", above=0)
    if not Fraction(1, 8) <= exact <= LARGEST:
        raise InvalidParameter("sigma", sigma, "between 1/8 and 2^52", "choose another grid")
    return exact


@lru_cache(maxsize=32)
def _rounded(sigma: Fraction) -> "_Rounded":
    return _Rounded(sigma)


class _Rounded:
    """Sampler for one σ; block h holds the reals from mh to mh + m."""

    def __init__(self, sigma: Fraction) -> None:
        self._twice_variance = 2 * sigma * sigma
        self._float_twice_variance = float(self._twice_variance)
        self._shift = max(0, int(sigma).bit_length() - 6)  # m = 2^shift, 32 ≤ σ/m < 64
        self.blocks = cumulative(lambda bits: _block_sums(sigma, 1 << self._shift, bits))

    def draw(self, entropy: Entropy) -> int:
        while True:
            first, second, third = (int(word) for word in entropy.words(3))
            block, place, negative = self.blocks.pick(first, entropy), second >> 1, second & 1
            if accept_one(self._gamma(block, place), self._acceptance(block, place, _LONG, entropy), third, entropy):
                size = (block << self._shift) + ((place + (1 << (_LONG - 1 - self._shift))) >> (_LONG - self._shift))
                return (size ^ -negative) + negative  # −|K| if negative, without a branch

    def fill(self, entropy: Entropy, out: Integers) -> None:
        """Accepted proposals; a few more than are missing are made, so that one more round is enough as a rule."""
        propose = self._propose if self._shift < _SHORT else self._propose_large
        pending = np.flatnonzero(~propose(entropy, out))
        while pending.size:
            spare = np.empty(pending.size + pending.size // 8 + 16, np.int64)
            found = spare[propose(entropy, spare)][: pending.size]
            out[pending[: found.size]] = found
            pending = pending[found.size :]

    def _propose(self, entropy: Entropy, out: Integers) -> NDArray[np.bool_]:
        """One proposal for each position of `out`, and which of them are accepted; see the module for the proof."""
        block = self.blocks.picks(entropy, out.size)
        words = entropy.words((out.size + 1) // 2).view(np.uint32)[: out.size]
        place = words & np.uint32((1 << _SHORT) - 1)
        rest = place + np.uint32(1 << (_SHORT - 1 - self._shift))
        rest >>= np.uint32(_SHORT - self._shift)
        sign = words.view(np.int32) >> np.int32(31)  # −1 or 0
        out[:] = _signed(block, sign.astype(np.int16))
        out *= 1 << self._shift
        out += _signed(rest.view(np.int32), sign)
        return self._accepted(block, place, entropy)

    def _accepted(self, block: NDArray[np.int16], place: NDArray[np.uint32], entropy: Entropy) -> NDArray[np.bool_]:
        """Coins of probability exp(−L(2mh + L)/2σ²): 16 bits of U and floats decide all but about one in 50,000."""
        scale = 2.0**self._shift / self._float_twice_variance**0.5
        length = place.astype(np.float32)
        length *= np.float32(2.0**-_SHORT * scale)  # L/√2σ
        gamma = block.astype(np.float32)
        gamma *= np.float32(2 * scale)
        gamma += length
        gamma *= length
        with np.errstate(all="ignore"):  # whatever the caller set: an underflow must not tell of a draw
            np.exp(np.negative(np.minimum(gamma, 80, out=gamma), out=gamma), out=gamma)
        coins = sixteen_bits(entropy, block.size)
        gamma *= 65536
        gamma -= coins.astype(np.float32)  # 2^16·(p − u), where u ≤ U < u + 2^−16
        gamma -= np.float32(0.5)
        heads: NDArray[np.bool_] = gamma > 0
        open_ = np.abs(gamma, out=gamma) < np.float32(0.5 + _MARGIN)
        if block.max(initial=0) >= len(self.blocks.thresholds):
            open_ |= block >= len(self.blocks.thresholds)  # beyond the table: the error of γ has no bound there
        for k in np.flatnonzero(open_):
            word = (int(coins[k]) << 48) | (int(entropy.words(1)[0]) >> 16)
            heads[k] = below(word, self._acceptance(int(block[k]), int(place[k]), _SHORT, entropy), entropy)
        return heads

    def _propose_large(self, entropy: Entropy, out: Integers) -> NDArray[np.bool_]:
        """`_propose` where 31 bits of L do not reach down to ½."""
        out[:] = self.blocks.picks(entropy, out.size)
        words = entropy.words(out.size)
        place = words >> np.uint64(1)
        length = place * 2.0 ** (self._shift - _LONG)  # L
        gamma = (out * 2.0 ** (self._shift + 1) + length) * length
        gamma /= self._float_twice_variance
        accepted = accept(gamma, lambda k: self._acceptance(int(out[k]), int(place[k]), _LONG, entropy), entropy)
        place += np.uint64(1 << (_LONG - 1 - self._shift))
        place >>= np.uint64(_LONG - self._shift)
        out <<= self._shift
        out += place.view(np.int64)
        negative = (words & np.uint64(1)).view(np.int64)
        out ^= -negative
        out += negative
        return accepted

    def _gamma(self, block: int, place: int) -> float:
        length = place * 2.0 ** (self._shift - _LONG)
        return (block * 2.0 ** (self._shift + 1) + length) * length / self._float_twice_variance

    def _acceptance(self, block: int, place: int, known: int, entropy: Entropy) -> Enclosure:
        """The chance to accept, given the first bits of L/m: more are drawn when they are needed, and only then."""
        seen = place

        def enclose(bits: int) -> tuple[int, int]:
            nonlocal seen, known
            while known < bits - 1:
                seen, known = (seen << 64) | int(entropy.words(1)[0]), known + 64
            unit = Fraction(1 << self._shift, 1 << known)
            near, far = (self._exponent(block, unit * part) for part in (seen, seen + 1))
            return exp_bounds(-far, bits)[0], exp_bounds(-near, bits)[1]

        return enclose

    def _exponent(self, block: int, length: Fraction) -> Fraction:
        return length * (2 * (block << self._shift) + length) / self._twice_variance


def _signed(size: NDArray[Any], sign: NDArray[Any]) -> NDArray[Any]:
    """−size where the sign is −1, size where it is 0, without a branch."""
    signed: NDArray[Any] = size ^ sign
    signed -= sign
    return signed


def _block_sums(sigma: Fraction, m: int, bits: int) -> Sums:
    """Enclosures of the weights a(h) = exp(−(mh)²/2σ²) summed up to each block, and of the sum over all blocks.

    Stops at the first h whose tail is negligible: from h on they add up to at most a(h)/(1 − a(h+1)/a(h)), because the
    ratio falls as h grows.
    """
    precision = bits + _GUARD
    one = 1 << precision
    step = exp_bounds(-m * m / (sigma * sigma), precision)  # a(h+1)/a(h) falls by this factor from h to h + 1
    ratio = exp_bounds(-m * m / (2 * sigma * sigma), precision)  # a(h+1)/a(h)
    weight, weights = (one, one), []
    while True:
        weights.append(weight)
        weight, ratio = times(weight, ratio, precision), times(ratio, step, precision)
        tail = weight[1] * one // (one - ratio[1]) + 1
        if tail < one >> (bits + 4):
            break
    lows, highs = accumulate(lo for lo, _ in weights), accumulate(hi for _, hi in weights)
    sums = list(zip(lows, highs, strict=True))
    return sums, (sums[-1][0], sums[-1][1] + tail)
