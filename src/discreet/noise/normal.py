"""The Gaussian N(0, σ²) rounded to whole numbers, exactly: K = the whole number nearest to σZ, Z standard normal.

What is released on an integer grid with this noise is a rounding of what the continuous Gaussian mechanism releases.
So every guarantee of the continuous one holds, in any dimension, sampled or not, without a correction.

Let m be a power of two near σ/64 (m = 1 for σ < 128), a(h) = exp(−(mh)²/2σ²), and e(L) = exp(−L(2mh + L)/2σ²), so that
a(h)·e(L) = exp(−(mh + L)²/2σ²). |X| = |σZ| falls into blocks [mh, mh + m), h ≥ 0.

Single draws, and σ ≥ 2³⁷:

1. Draw a block h with probability ∝ a(h), by lazy inversion (`table.Table`).
2. Draw L uniformly from the reals in [0, m): 63 bits of L/m at once, more only if they matter.
3. Accept |X| = mh + L with probability e(L); else start again.
4. Give it a random sign, and round.

Proof. A point of block h is proposed with density ∝ a(h)/m and accepted with e(L): the product is ∝ exp(−x²/2σ²).

Arrays, where a comparison for each draw would take a third of the time:

1. Draw j with probability ∝ a(j), and L: 31 bits of L/m at once. If j ≥ 1, then |X| = m(j − 1) + L.
2. If j = 0, which happens to one in 80 to 160 (σ ≥ 128): draw h with P(h ≥ k) = a(k), and accept |X| = mh + L with
   probability p = (e(L) − e(m))/(1 − e(m)); else start again.
3. Give it a random sign, and round. L is the distance to the end of the block if X is negative, so X = mk + L for both.

Proof. With S = Σa(j), a point of block h comes with density a(h + 1)/Sm from 1 and, as a(0) = 1 and
a(h) − a(h + 1) = a(h)·(1 − e(m)), with density (1/S)·a(h)·(1 − e(m))·p/m = (a(h)·e(L) − a(h + 1))/Sm from 2. The sum is
a(h)·e(L)/Sm, which is ∝ exp(−x²/2σ²).

Rounding looks at the bits of L down to ½, which are known. How often a draw starts again is independent of what it
returns. Floats decide acceptance only where they can prove it. For single draws and σ ≥ 2³⁷, `accept` holds what its
own proof asks. For arrays, p = expm1(W − γ)/expm1(W), γ = L(2mh + L)/2σ² ≤ W = m(2mh + m)/2σ². What is open of L leaves
γ open by at most 2⁻³⁰·W, and a few roundings of 2⁻⁵³ of W are less. An error δ of W − γ moves p by at most
δ·e^W/expm1(W) ≤ 2δ·max(1, 1/W). W is below 2⁷ in every block that the table of 2 lists, and other blocks are not left
to floats; so p̂ is within 2⁻²² of p, and decides against U, of which 53 bits are known, where they differ by 2⁻²⁰.

Elsewhere `below` compares rationals, while both U and L are revealed bit by bit.
"""

from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import prod

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, exp_bounds, rational
from discreet.noise.entropy import SYSTEM, Entropy, Words
from discreet.noise.sampler import (
    LARGEST,
    UNDECIDED,
    Enclosure,
    Integers,
    Interval,
    Size,
    Sums,
    accept,
    accept_one,
    below,
    ceiling,
    cumulative,
    pad,
    sample_often,
    shape,
    times,
    whole_words,
)

_GUARD = 64
_LONG, _SHORT = 63, 31  # bits of L/m that are drawn at once; one more bit of the word is the sign
_PLACES = (1 << _SHORT) - 1
_MARGIN = 2.0**-20
_FEW, _BLOCK = 1 << 15, 1 << 17  # larger arrays are drawn so many at a time: what is rare has a cost for each call


def rounded_gaussian(sigma: Number, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Draws of the whole number nearest to a Gaussian of mean 0 and standard deviation `sigma`.

    >>> from discreet.noise import DeterministicEntropy
    >>> rounded_gaussian(100, size=3, entropy=DeterministicEntropy(1)).dtype
    dtype('int64')
    """
    sampler, dims = _rounded(_sigma(sigma)), None if size is None else shape(size)
    if dims is None or prod(dims) <= _FEW:
        return sample_often(sampler, size, entropy)
    out = np.empty(dims, np.int64)
    flat = out.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        sampler.fill(SYSTEM if entropy is None else entropy, flat[start : start + _BLOCK])
    return out


def add_rounded_gaussian(sigma: Number, onto: Integers, *, entropy: Entropy | None = None) -> None:
    """Add draws of `rounded_gaussian` to an array of whole numbers of one axis, in place.

    >>> from discreet.noise import DeterministicEntropy
    >>> sums = np.array([1000, 2000])
    >>> add_rounded_gaussian(1, sums, entropy=DeterministicEntropy(1))
    >>> bool(abs(sums - [1000, 2000]).max() < 10)
    True
    """
    if not isinstance(onto, np.ndarray) or onto.dtype != np.int64 or onto.ndim != 1:
        raise InvalidParameter("onto", type(onto).__name__, "an array of int64 of one axis")
    if onto.size <= _FEW:
        onto += rounded_gaussian(sigma, onto.size, entropy=entropy)
        return
    sampler = _rounded(_sigma(sigma))
    for start in range(0, onto.size, _BLOCK):
        here = onto[start : start + _BLOCK]
        here += sampler.more(SYSTEM if entropy is None else entropy, here.size)


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
        self._shift = max(0, int(sigma).bit_length() - 7)  # m = 2^shift, 64 ≤ σ/m < 128
        self._scale = 2.0**self._shift / self._float_twice_variance**0.5
        self.blocks = cumulative(lambda bits: _block_sums(sigma, 1 << self._shift, bits))
        self.steps = cumulative(lambda bits: _step_sums(sigma, 1 << self._shift, bits))
        self._share: float | None = None

    def draw(self, entropy: Entropy) -> int:
        while True:
            first, second, third = (int(word) for word in entropy.words(3))
            block, place, negative = self.blocks.pick(first, entropy), second >> 1, second & 1
            if accept_one(self._gamma(block, place), self._acceptance(block, place, _LONG, entropy), third, entropy):
                size = (block << self._shift) + ((place + (1 << (_LONG - 1 - self._shift))) >> (_LONG - self._shift))
                return (size ^ -negative) + negative  # −|K| if negative, without a branch

    def fill(self, entropy: Entropy, out: Integers) -> None:
        """Accepted proposals; a few more than are needed are made, so that one round is enough as a rule."""
        room = np.empty(out.size + _spare(out.size), np.int64)
        accepted = (self._propose if self._shift < _SHORT else self._propose_large)(entropy, room)
        out[:] = room[: out.size]
        pending, spare = np.flatnonzero(~accepted[: out.size]), room[out.size :][accepted[out.size :]]
        used = min(pending.size, spare.size)
        out[pending[:used]] = spare[:used]
        if used < pending.size:
            out[pending[used:]] = self.more(entropy, pending.size - used)

    def more(self, entropy: Entropy, count: int) -> Integers:
        out = np.empty(count, np.int64)
        self.fill(entropy, out)
        return out

    @property
    def _rare_share(self) -> float:
        """The share of 16-bit words for which the guide says j = 0, or leaves j open."""
        if self._share is None:
            self._share = float((self.blocks.guide <= 0).mean())
        return self._share

    def _bits(self, entropy: Entropy, count: int) -> tuple[NDArray[np.uint16], NDArray[np.uint32], Words]:
        """What proposals are made from: 16 bits for each block, a sign and 31 bits of L/m; and words for rare ones."""
        first, second = (count + 3) // 4, (count + 1) // 2
        drawn = entropy.words(first + second + 3 * ceiling(count, self._rare_share))
        return (
            drawn[:first].view(np.uint16)[:count],
            drawn[first : first + second].view(np.uint32)[:count],
            drawn[first + second :],
        )

    def _propose(self, entropy: Entropy, out: Integers) -> NDArray[np.bool_]:
        """One proposal for each position of `out`, and which of them are accepted; see the module for the proof.

        All are made as if the guide said j ≥ 1; the few for which it does not, `rare`, are made again.
        """
        short, words, more = self._bits(entropy, out.size)
        block = self.blocks.guide.take(short)
        rare, accepted = np.flatnonzero(block <= 0), np.ones(out.size, np.bool_)
        block -= 1
        block[rare], accepted[rare] = self._rare(rare, short, words, more, entropy)
        self._numbers(block, words, out)
        return accepted

    def _rare(
        self,
        rare: NDArray[np.int64],
        short: NDArray[np.uint16],
        words: NDArray[np.uint32],
        more: Words,
        entropy: Entropy,
    ) -> tuple[NDArray[np.int16], NDArray[np.bool_]]:
        """The blocks of proposals for which the guide says j = 0, or leaves j open; which of them are accepted.

        Three words more for each: the next bits of j, those of the steps, and the coin. They are taken from `more` if
        there are enough; which is known from the proposals, not from those words. Floats decide what they can. Others
        are made up to as many as are ever rare at once, and thrown away: the work does not tell how many were.
        """
        padded = pad(rare, ceiling(short.size, self._rare_share))
        needed = 3 * padded.size
        first, second, third = (more if needed <= more.size else entropy.words(needed))[:needed].reshape(3, padded.size)
        short, place = short.take(padded), _distance(words.take(padded))
        guess = self.blocks.guide.take(short)
        block = np.where(guess == UNDECIDED, self.blocks.search(whole_words(short, first), entropy), guess)
        steps = self.steps.search(second, entropy)
        steep, heads = block == 0, self._accepted(steps, place, third, entropy)
        block = np.where(steep, steps, block - 1).astype(np.int16)
        return block[: rare.size], (heads | ~steep)[: rare.size]

    def _numbers(self, block: NDArray[np.int16], words: NDArray[np.uint32], out: Integers) -> Integers:
        """mk + L, rounded: k is the block, or −1 − block if the first bit of the word says so, L its other bits."""
        block ^= (words.view(np.int32) >> np.int32(31)).astype(np.int16)  # −1 − h if negative
        place = words & np.uint32(_PLACES)
        place += np.uint32(1 << (_SHORT - 1 - self._shift))
        place >>= np.uint32(_SHORT - self._shift)
        np.left_shift(block, self._shift, out=out, dtype=np.int64)
        out += place
        return out

    def _accepted(
        self, block: Integers, place: NDArray[np.uint32], words: Words, entropy: Entropy
    ) -> NDArray[np.bool_]:
        """Coins of probability (e(L) − e(m))/(1 − e(m)), U beginning with `words`: floats decide nearly all."""
        scale = self._scale
        start, length = block * (2 * scale), place * (2.0**-_SHORT * scale)
        with np.errstate(all="ignore"):  # whatever the caller set: an overflow must not tell of a draw
            whole = (start + scale) * scale
            gap = np.expm1(whole - (start + length) * length) / np.expm1(whole)
            gap -= (words >> np.uint64(11)) * 2.0**-53
        heads: NDArray[np.bool_] = gap > 0
        for k in np.flatnonzero(~(np.abs(gap) >= _MARGIN) | (block >= len(self.steps.thresholds))):
            heads[k] = below(int(words[k]), self._chance(int(block[k]), int(place[k]), entropy), entropy)
        return heads

    def _chance(self, block: int, place: int, entropy: Entropy) -> Enclosure:
        """The chance to accept in a steep part of a block, given the first bits of L/m."""
        inner = self._acceptance(block, place, _SHORT, entropy)
        most = self._exponent(block, Fraction(1 << self._shift))

        def enclose(bits: int) -> tuple[int, int]:
            precise = bits + _GUARD
            near, far, one = inner(precise), exp_bounds(-most, precise), 1 << precise
            low, high = max(near[0] - far[1], 0), near[1] - far[0]
            return (low << bits) // (one - far[0]), min(-((-high << bits) // (one - far[1])), 1 << bits)

        return enclose

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


def _spare(count: int) -> int:
    """How many proposals more than are needed are made."""
    return count // 64 + 16


def _distance(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """L/m in units of 2⁻³¹: the last 31 bits, or if the first bit says that X is negative, what they lack to 1."""
    return (words ^ (words >> np.uint32(31)) * np.uint32(_PLACES)) & np.uint32(_PLACES)


def _block_sums(sigma: Fraction, m: int, bits: int) -> Sums:
    """Enclosures of the weights a(h) = exp(−(mh)²/2σ²) summed up to each block, and of the sum over all blocks.

    Stops at the first h whose tail is negligible: from h on they add up to at most a(h)/(1 − a(h+1)/a(h)), because the
    ratio falls as h grows.
    """
    weights, tail = _block_weights(sigma, m, bits)
    lows, highs = accumulate(lo for lo, _ in weights), accumulate(hi for _, hi in weights)
    sums = list(zip(lows, highs, strict=True))
    return sums, (sums[-1][0], sums[-1][1] + tail)


def _step_sums(sigma: Fraction, m: int, bits: int) -> Sums:
    """Enclosures of a(0) − a(h+1), the weights a(h) − a(h+1) summed up to each block, and of their sum over all, 1."""
    weights, _ = _block_weights(sigma, m, bits)
    one = weights[0][0]
    return [(one - hi, one - lo) for lo, hi in weights[1:]], (one, one)


def _block_weights(sigma: Fraction, m: int, bits: int) -> tuple[list[Interval], int]:
    """Enclosures of a(0), a(1), …, and a bound on the sum of those that are left out, in units of 2^−(bits + guard)."""
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
            return [*weights, weight], tail
