"""One of many, exactly: by rational weights, or by the softmax of rational scores."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import accumulate
from math import lcm

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData
from discreet.exact import Number, exp_bounds, float_down, rational
from discreet.noise.entropy import SYSTEM, Entropy
from discreet.noise.sampler import Enclosure, Integers, Size, accept, below, sample, shape
from discreet.noise.uniform import uniform_below, uniform_each

_INT64 = 2**63 - 1


def categorical(weights: ArrayLike, size: Size = None, *, entropy: Entropy | None = None) -> int | Integers:
    """Positions i with probability exactly weights[i]/Σ weights; weights are whole or rational, not all zero.

    >>> categorical([0, 5, 0]), categorical(["1/3", "2/3"], size=4).shape
    (1, (4,))
    """
    source = SYSTEM if entropy is None else entropy
    counts, _ = whole_numbers(weights, "weights")
    if not counts.size or counts.min() < 0 or not counts.any():
        raise InvalidData("weights: expected at least one, none negative, not all zero")
    ends = list(accumulate(counts.tolist()))
    cumulative = np.array(ends, np.int64 if ends[-1] <= _INT64 else object)
    if size is None:
        return int(np.searchsorted(cumulative, uniform_below(ends[-1], entropy=source), side="right"))
    places = uniform_below(ends[-1], shape(size), entropy=source)
    return np.asarray(np.searchsorted(cumulative, places, side="right"), np.int64)


def softmax(
    scores: ArrayLike,
    scale: Number,
    size: Size = None,
    *,
    multiplicity: ArrayLike | None = None,
    entropy: Entropy | None = None,
) -> int | Integers:
    """Positions i with probability exactly ∝ multiplicity[i]·exp(scores[i]/scale); scores whole or rational.

    The time depends on the number of scores alone.

    >>> softmax([0, 0, 10**6], scale=1), softmax(["0.5", "1/3"], scale="1/10", size=3).shape
    (2, (3,))
    """
    values, denominator = whole_numbers(scores, "scores")
    if not values.size:
        raise InvalidData("scores: got none, expected at least one candidate")
    copies = None if multiplicity is None else _copies(multiplicity, values)
    return sample(_Softmax(values, rational(scale, "scale", above=0) * denominator, copies), size, entropy)


def softmax_each(
    scores: Integers, starts: Integers, scale: Number, *, multiplicity: Integers, entropy: Entropy | None = None
) -> Integers:
    """For each stretch of scores, which begin at `starts`, a position drawn as `softmax` draws it; all at once.

    Scores are below 2^61 in size, and some multiplicity of each stretch is not zero.

    >>> softmax_each(np.array([0, 9, 5]), np.array([0, 2]), "1/100", multiplicity=np.array([1, 1, 7])).tolist()
    [1, 2]
    """
    exact = rational(scale, "scale", above=0)
    if scores.shape != multiplicity.shape or scores.ndim != 1 or (starts.size and int(starts[0])):
        raise InvalidData("scores: expected one multiplicity for each, and the first stretch at 0")
    sizes = np.diff(np.append(starts, scores.size))
    if sizes.size and (sizes.min() < 1 or np.abs(scores).max() >= 1 << 61 or multiplicity.min() < 0):
        raise InvalidData("scores: expected at least one in each stretch, below 2^61; multiplicity: none negative")
    if not starts.size:
        return np.zeros(0, np.int64)
    return _Stretches(scores, starts, sizes, exact, multiplicity).draw(SYSTEM if entropy is None else entropy)


def exponents(scores: ArrayLike, scale: Number) -> NDArray[np.float64]:
    """(best − score)/scale of each score, to float precision: minus the logarithms of `softmax`'s weights.

    >>> exponents([10**18, 10**18 + 1], scale=2).tolist()
    [0.5, 0.0]
    """
    values, denominator = whole_numbers(scores, "scores")
    if not values.size:
        raise InvalidData("scores: got none, expected at least one candidate")
    return _exponents(values, values.max(), rational(scale, "scale", above=0) * denominator)


class _Softmax:
    """Rejection from integer weights that lie just above the true ones.

    The true weight of i is wᵢ = cᵢ·e^(−dᵢ/t)·2^k/M, where dᵢ = max − scoreᵢ, cᵢ its multiplicity, M a power of two not
    below the largest cᵢe^(−dᵢ/t) and 2^k leaves room for all of them in 63 bits. Draw i with probability ∝ Wᵢ,
    integers with Wᵢ ≥ wᵢ, exactly; accept with probability wᵢ/Wᵢ, exactly; else start again. Then
    P(i) ∝ Wᵢ·wᵢ/Wᵢ = wᵢ.

    Wᵢ = ⌊ŵᵢ(1 + 2^−40)⌋ + 1 for the float ŵᵢ of wᵢ: the exponent is right to 2^−51 relatively or 2^−48 absolutely and
    below 128 (beyond that, wᵢ < 1 ≤ Wᵢ), so ŵᵢ is right to 2^−43 relatively and Wᵢ ≥ wᵢ. Rejections are rarer than
    2^−16 a draw.
    """

    def __init__(
        self, scores: NDArray[np.int64] | NDArray[np.object_], scale: Fraction, copies: Integers | None
    ) -> None:
        self._scale, self._copies = scale, copies
        live = scores if copies is None else scores[copies > 0]
        self._top = live.max()
        self._scores = scores
        with np.errstate(all="ignore"):  # whatever the caller set: an underflow must not tell of a score
            weights = np.exp(-np.minimum(_exponents(scores, self._top, scale), 128))  # subnormals would take longer
        if copies is not None:
            weights *= copies
        self._exponent = 62 - scores.size.bit_length() - _power_above(weights.max())  # of 2^k/M
        self._weights = np.ldexp(weights, self._exponent)
        self._covers = (self._weights * (1 + 2.0**-40)).astype(np.int64) + 1
        if copies is not None:
            self._covers[copies == 0] = 0
        self._ends = np.cumsum(self._covers)

    def draw(self, entropy: Entropy) -> int:
        out = np.empty(1, np.int64)
        self.fill(entropy, out)
        return int(out[0])

    def fill(self, entropy: Entropy, out: Integers) -> None:
        pending = np.arange(out.size)
        while pending.size:
            places = uniform_below(int(self._ends[-1]), pending.size, entropy=entropy)
            chosen = np.searchsorted(self._ends, places, side="right")
            out[pending] = chosen
            pending = pending[~self._accepted(chosen, entropy)]

    def _accepted(self, chosen: Integers, entropy: Entropy) -> NDArray[np.bool_]:
        words = entropy.words(chosen.size)
        p = self._weights[chosen] / self._covers[chosen]
        gap = p - (words >> np.uint64(11)) * 2.0**-53
        heads: NDArray[np.bool_] = gap > 0
        for k in np.flatnonzero(np.abs(gap) < 2.0**-40):
            heads[k] = below(int(words[k]), self._acceptance(int(chosen[k])), entropy)
        return heads

    def _acceptance(self, i: int) -> Enclosure:
        """Bounds on wᵢ/Wᵢ."""
        gamma = Fraction(int(self._top) - int(self._scores[i])) / self._scale
        copies = 1 if self._copies is None else int(self._copies[i])
        return _acceptance(gamma, copies, int(self._covers[i]), self._exponent)


class _Stretches:
    """`_Softmax` in each of many stretches: weights Wᵢ ≥ wᵢ are made and accepted alike, each with its 2^k/M."""

    def __init__(self, scores: Integers, starts: Integers, sizes: Integers, scale: Fraction, copies: Integers) -> None:
        self._scale, self._copies, self._starts, self._sizes = scale, copies, starts, sizes
        tops = np.maximum.reduceat(np.where(copies > 0, scores, -(1 << 62)), starts)
        if tops.min() <= -(1 << 61):
            raise InvalidData("multiplicity: expected some of each stretch not to be zero")
        self._gaps = np.maximum(np.repeat(tops, sizes) - scores, 0)
        with np.errstate(all="ignore"):  # whatever the caller set: an underflow must not tell of a score
            weights = np.exp(-np.minimum(_exponents(-self._gaps, 0, scale), 128)) * copies
        powers = np.frexp(np.maximum.reduceat(weights, starts))[1].astype(np.int64)
        self._exponents = np.repeat(62 - np.frexp(sizes.astype(np.float64))[1] - powers, sizes)
        self._weights = np.ldexp(weights, self._exponents)
        self._covers = np.where(copies > 0, (self._weights * (1 + 2.0**-40)).astype(np.int64) + 1, 0)
        self._ends = np.cumsum(self._covers.astype(np.uint64), dtype=np.uint64)  # modulo 2^64: differences are right

    def draw(self, entropy: Entropy) -> Integers:
        before = self._ends[self._starts] - self._covers[self._starts].astype(np.uint64)
        last = self._starts + self._sizes - 1
        totals = (self._ends[last] - before).astype(np.int64)
        out = np.empty(self._starts.size, np.int64)
        pending = np.arange(self._starts.size)
        while pending.size:
            places = uniform_each(totals[pending], entropy=entropy).astype(np.uint64)
            out[pending] = self._search(self._starts[pending], last[pending], places, before[pending])
            pending = pending[~self._accepted(out[pending], entropy)]
        return out

    def _search(
        self, low: Integers, high: Integers, places: NDArray[np.uint64], before: NDArray[np.uint64]
    ) -> Integers:
        """The first position of each stretch whose end is beyond the place: all searched at once, by halves."""
        for _ in range(int(self._sizes.max()).bit_length()):
            middle = (low + high) // 2
            beyond = self._ends[middle] - before > places
            low, high = np.where(beyond, low, np.minimum(middle + 1, high)), np.where(beyond, middle, high)
        return low

    def _accepted(self, chosen: Integers, entropy: Entropy) -> NDArray[np.bool_]:
        words = entropy.words(chosen.size)
        gap = self._weights[chosen] / self._covers[chosen] - (words >> np.uint64(11)) * 2.0**-53
        heads: NDArray[np.bool_] = gap > 0
        for k in np.flatnonzero(np.abs(gap) < 2.0**-40):
            i = int(chosen[k])
            parts = (Fraction(int(self._gaps[i])) / self._scale, int(self._copies[i]), int(self._covers[i]))
            heads[k] = below(int(words[k]), _acceptance(*parts, int(self._exponents[i])), entropy)
        return heads


def _acceptance(gamma: Fraction, copies: int, cover: int, exponent: int) -> Enclosure:
    """Bounds on wᵢ/Wᵢ, where wᵢ = copies·e^−γ·2^exponent."""

    def enclose(bits: int) -> tuple[int, int]:
        lo, hi = exp_bounds(-gamma, bits + 128 + exponent)
        ceiling = -(-copies * hi >> 128)
        return (copies * lo >> 128) // cover, -(-ceiling // cover)

    return enclose


def accept_each(deficits: ArrayLike, scale: Number, *, entropy: Entropy | None = None) -> NDArray[np.bool_]:
    """Coins that are True with probability exactly exp(−deficit/scale), one for each whole deficit ≥ 0.

    >>> accept_each(np.array([0, 10**9]), 1)
    array([ True, False])
    """
    exact = rational(scale, "scale", above=0)
    gaps, denominator = whole_numbers(deficits, "deficits")
    if denominator != 1 or (gaps.size and gaps.min() < 0):
        raise InvalidData("deficits: expected whole numbers ≥ 0")

    def enclosure(k: int) -> Enclosure:
        return lambda bits: exp_bounds(-int(gaps[k]) / exact, bits)

    return accept(_exponents(-gaps, 0, exact), enclosure, SYSTEM if entropy is None else entropy)


def whole_numbers(values: ArrayLike, name: str) -> tuple[NDArray[np.int64] | NDArray[np.object_], int]:
    """A vector of whole or rational numbers as integers over one common denominator. Floats are refused.

    >>> whole_numbers(["1/2", 3, "0.25"], "scores")
    (array([ 2, 12,  1]), 4)
    """
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        array = values
        if array.ndim == 1 and (array.dtype != np.uint64 or not array.size or array.max() <= _INT64):
            return array.astype(np.int64), 1
    if isinstance(values, np.ndarray) and values.dtype.kind not in "iuO":
        raise InvalidData(
            f"{name}: got an array of {values.dtype}, expected whole numbers; "
            "multiply by a fixed factor and round, so that sensitivity is exact"
        )
    if isinstance(values, str | bytes) or not isinstance(values, Sequence | np.ndarray) or _dimensions(values) != 1:
        raise InvalidData(f"{name}: expected a one-dimensional sequence of whole or rational numbers")
    exact = [_exact(value, name, place) for place, value in enumerate(values)]
    denominator = lcm(*(value.denominator for value in exact)) if exact else 1
    whole = [int(value * denominator) for value in exact]
    fits = all(-_INT64 <= value <= _INT64 for value in whole)
    return np.array(whole, np.int64 if fits else object), denominator


def _dimensions(values: ArrayLike) -> int:
    try:
        return np.ndim(values)
    except ValueError:  # ragged
        return -1


def _exact(value: object, name: str, place: int) -> Fraction:
    if isinstance(value, float | np.floating):
        raise InvalidData(
            f"{name}: got a float at position {place}, expected a whole number, Fraction or decimal string"
        )
    try:
        return rational(value, name)  # type: ignore[arg-type]
    except ValueError:
        raise InvalidData(f"{name}: position {place} is not a whole or rational number") from None


def _copies(multiplicity: ArrayLike, scores: NDArray[np.int64] | NDArray[np.object_]) -> Integers:
    counts, denominator = whole_numbers(multiplicity, "multiplicity")
    if denominator != 1 or counts.dtype == object or counts.shape != scores.shape:
        raise InvalidData(f"multiplicity: expected {scores.size} whole numbers below 2^63, one for each score")
    if counts.min() < 0 or not counts.any():
        raise InvalidData("multiplicity: expected none negative and not all zero")
    return counts.astype(np.int64)


def _exponents(scores: NDArray[np.int64] | NDArray[np.object_], top: int, scale: Fraction) -> NDArray[np.float64]:
    """(top − score)/scale as floats right to 2^−51 relatively, or to 2^−48 absolutely; 0 for scores above the top.

    Differences of int64 fit uint64. Scales beyond the floats are held at their ends, where e^(−d/scale) is 0 or 1 to
    far more than that. Larger integers are divided as rationals and rounded once.
    """
    if scores.dtype == object:
        ratios = (Fraction(max(int(top) - int(score), 0)) / scale for score in scores)
        return np.array([float(min(ratio, Fraction(10**6))) for ratio in ratios])
    gaps = np.where(scores > top, 0, np.uint64(int(top) & (2**64 - 1)) - scores.view(np.uint64))
    divisor = min(max(float_down(scale), 5e-324), 1e308)
    with np.errstate(over="ignore"):
        return gaps.astype(np.float64) / divisor


def _power_above(x: float) -> int:
    """The least e with x < 2^e."""
    return int(np.frexp(x)[1])
