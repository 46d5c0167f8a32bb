"""Matrix inversion: the true distribution as r = q·C⁻¹, and the two repairs of what is not a distribution.

The estimate is unbiased and needs no iterations, but where the channel says little the noise is blown up: shares come
out negative or above one. `clip` and `project` mend that; `ibu` avoids it.

>>> from discreet.local.estimation.inversion import clip, invert
>>> from discreet.mechanisms.channel import Channel
>>> coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
>>> [str(share) for share in invert(coin, [6, 4])], [str(share) for share in invert(coin, [4, 1])]
(['7/10', '3/10'], ['11/10', '-1/10'])
>>> [str(share) for share in clip(invert(coin, [4, 1]))]
['1', '0']

How far an estimate can be off: the bootstrap, for estimators whose error has no formula.

The reports are resampled with replacement and estimated again, many times (Efron 1979). So that a report that nobody
happened to send is not taken for one that nobody can send, one report is added to those that are drawn from: that of a
person with a uniformly random value.

What the confidence bounds hold is said by `Intervals.covers`:

- "truth": the true shares, with about the stated confidence. Unbiased estimates (inversion) have such bounds, and so
  has IBU on a flat or dense channel that can be inverted: a share near 0 is held at 0 in nearly all replicates,
  which would leave no width, so the bounds are stretched to hold those of inversion too;
- "noise": where another survey of the same people, with the same estimator, would come out. Not in it is the estimate's
  bias: of few iterations, which smooth, of shares held at 0, of repairs. **The true share of a cell of a map often lies
  outside, above all near 0**: what a map says about single cells rests on the smoothing, not on the reports.

Resampling touches reports only, which are private already: no guarantee rests on it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidChannel, InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.local.estimation import frequencies
from discreet.local.estimation.ibu import Counts, binomial, ibu_batch, inverse_binomial, read_counts, whole_counts
from discreet.local.estimation.linear_maps import ChannelModel, ConvolutionModel, DenseModel, Floats, KRRModel, dense
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.mechanism import failure_probability
from discreet.noise import Entropy, uniform_below
from discreet.noise.entropy import SYSTEM

Shares = NDArray[Any]
"""float64, or an object array of Fractions where channel and counts are exact."""

LARGEST_CONDITION = 1e12
"""Beyond this, the digits of a float do not suffice to invert."""

_MOST_EXACT = 200
_MOST_CELLS = 4_000_000


def invert(channel: Channel | ChannelModel, counts: ArrayLike) -> Shares:
    """The shares r with r·C = q, q the shares of the reports; they sum to 1 and may be negative.

    With more outputs than inputs, the right inverse Cᵀ(CCᵀ)⁻¹ of least squares. In Fractions where the channel is exact
    and the counts are whole or rational (up to 200 inputs; any number if the channel is flat), else in floats:
    a flat channel in closed form, a convolution whose reports are all kept by one division of Fourier transforms,
    anything else by singular values.

    >>> invert(KRRModel(truth="1/2", other="1/4", size=3), [2, 1, 1]).tolist()
    [1.0, 0.0, 0.0]
    """
    if isinstance(channel, Channel) and channel.exact:
        return _invert_exactly(channel, _exact_counts(counts, len(channel.outputs)))
    model = DenseModel(channel) if isinstance(channel, Channel) else channel
    seen = read_counts(model, counts).astype(np.float64)
    result: Shares = invert_batch(model, seen[None])[0]
    return result


def invert_batch(model: ChannelModel, counts: Floats) -> Floats:
    """The same in floats for many vectors of counts at once (rows).

    >>> invert_batch(KRRModel(truth="3/4", other="1/4", size=2), np.array([[6, 4], [4, 1]])).round(12).tolist()
    [[0.7, 0.3], [1.1, -0.1]]
    """
    reported = counts / counts.sum(axis=1, keepdims=True)
    if isinstance(model, KRRModel):
        return _invert_flat(model, reported)
    if isinstance(model, ConvolutionModel) and _all_kept(model):
        return _divide_waves(model, reported)
    return _least_squares(model, reported)


def clip(shares: ArrayLike) -> Shares:
    """Negative shares become zero, the others are divided by their sum; in Fractions if they are.

    >>> clip([Fraction(9, 10), Fraction(3, 10), Fraction(-2, 10)]).tolist()
    [Fraction(3, 4), Fraction(1, 4), Fraction(0, 1)]
    """
    exact = _fractions(shares)
    if exact is None:
        return frequencies.clip(np.ravel(shares))
    kept = [max(share, Fraction(0)) for share in exact]
    total = sum(kept)
    return _objects([share / total if total else Fraction(1, len(kept)) for share in kept])


def project(shares: ArrayLike) -> Shares:
    """The distribution at the least Euclidean distance, in O(k log k); in Fractions if the shares are.

    It is max(share − t, 0) with t such that the sum is one; t is the mean excess of the largest shares that stay
    positive (Held, Wolfe, Crowder 1974; Duchi et al. 2008).

    >>> project([Fraction(9, 10), Fraction(3, 10), Fraction(-2, 10)]).tolist()
    [Fraction(4, 5), Fraction(1, 5), Fraction(0, 1)]
    """
    exact = _fractions(shares)
    if exact is None:
        return frequencies.project(np.ravel(shares))
    total, level = Fraction(0), Fraction(0)
    for count, share in enumerate(sorted(exact, reverse=True), 1):
        total += share
        if share * count > total - 1:
            level = (total - 1) / count
    return _objects([max(share - level, Fraction(0)) for share in exact])


# In rationals


def _invert_exactly(channel: Channel, counts: list[Fraction]) -> Shares:
    total = sum(counts)
    reported = [count / total for count in counts]
    flat = _flat_entries(channel)
    if flat is not None:
        truth, other = flat
        if truth == other and len(reported) > 1:
            raise InvalidChannel(_singular("all rows are equal"))
        return _objects([(q - other) / (truth - other) if truth != other else q for q in reported])
    size = len(channel.inputs)
    if size > _MOST_EXACT:
        raise InvalidChannel(
            f"{size} inputs are too many for rationals (at most {_MOST_EXACT}); use channel.as_float()"
        )
    rows = channel.matrix
    if len(channel.outputs) == size:
        return _objects(_solve_exactly(rows.T, reported))
    weights = _solve_exactly(rows @ rows.T, list(rows @ np.array(reported, dtype=object)))
    return _objects(weights)


def _flat_entries(channel: Channel) -> tuple[Fraction, Fraction] | None:
    """(truth, other) if there are two entries only, one of them on the diagonal."""
    matrix = channel.matrix
    size = len(matrix)
    if matrix.shape != (size, size):
        return None
    if size == 1:
        return matrix[0, 0], Fraction(0)
    truth, other = matrix[0, 0], matrix[0, 1]
    aside = matrix[~np.eye(size, dtype=bool)]
    return (truth, other) if (np.diag(matrix) == truth).all() and (aside == other).all() else None


def _solve_exactly(matrix: Shares, right: Sequence[Fraction]) -> list[Fraction]:
    """Gauss–Jordan elimination of matrix·x = right."""
    rows = [[*map(Fraction, row), value] for row, value in zip(matrix.tolist(), right, strict=True)]
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            raise InvalidChannel(_singular("its rows are not independent"))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        top = [value / rows[k][k] for value in rows[k]]
        rows[k] = top
        for i, row in enumerate(rows):
            if i != k and row[k]:
                rows[i] = [value - row[k] * above for value, above in zip(row, top, strict=True)]
    return [row[-1] for row in rows]


def _exact_counts(counts: ArrayLike, outputs: int) -> list[Fraction]:
    values: list[Number] = list(np.ravel(np.asarray(counts, dtype=object)))
    if len(values) != outputs or np.ndim(np.asarray(counts, dtype=object)) != 1:
        raise InvalidData(f"counts: got {len(values)}, expected {outputs}, one for each output")
    try:
        exact = [rational(value, "count", at_least=0) for value in values]
    except ValueError:
        raise InvalidData("counts: one is negative, NaN or not a number, expected numbers of reports ≥ 0") from None
    if not any(exact):
        raise InvalidData("counts: all are zero; there is nothing to estimate from")
    return exact


def _fractions(shares: ArrayLike) -> list[Fraction] | None:
    values = list(np.ravel(np.asarray(shares, dtype=object)))
    return values if values and all(isinstance(value, Fraction) for value in values) else None


def _objects(values: list[Fraction]) -> Shares:
    result = np.empty(len(values), dtype=object)
    result[:] = values
    return result


# In floats


def _invert_flat(model: KRRModel, reported: Floats) -> Floats:
    gain = float(model.truth - model.other)
    if model.size == 1:
        return reported
    if gain == 0:
        raise InvalidChannel(_singular("all rows are equal"))
    return np.asarray((reported - float(model.other)) / gain)


def _all_kept(model: ConvolutionModel) -> bool:
    return model.border == "outside" and not model.beyond


def _divide_waves(model: ConvolutionModel, reported: Floats) -> Floats:
    """Division of Fourier transforms: the convolution on the whole window, undone; the area is cut out of it.

    The window holds every report, so on a circle of its size the convolution does not wrap around, and nobody was
    outside the area: cutting leaves the estimate unbiased.
    """
    from scipy.fft import irfftn, rfftn

    axes = tuple(range(1, 1 + len(model.window)))
    placed = np.zeros(model.window)
    placed[tuple(slice(0, n) for n in model.kernel.shape)] = model.kernel
    spectrum = rfftn(placed)
    sizes = np.abs(spectrum)
    if not sizes.min() * LARGEST_CONDITION > sizes.max():  # a frequency of this circle is wiped out: not of the line
        return _least_squares(model, reported)
    waves = rfftn(reported.reshape(-1, *model.window), axes=axes) / spectrum
    whole = irfftn(waves, s=model.window, axes=axes)
    inside = tuple(slice(0, n) for n in model.shape)  # the kernel stands at 0, not at −margin: cells x come out at x
    return np.ascontiguousarray(whole[(slice(None), *inside)]).reshape(len(reported), -1)


def _least_squares(model: ChannelModel, reported: Floats) -> Floats:
    """q·C⁺ through the singular values, which say whether the digits suffice."""
    if model.size * model.outputs > _MOST_CELLS:
        raise InvalidChannel(
            f"{model.size} × {model.outputs} entries are too many to invert; use `ibu`, or keep what falls outside"
        )
    matrix = dense(model)
    left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
    if model.outputs < model.size or not sizes[-1] * LARGEST_CONDITION > sizes[0]:
        raise InvalidChannel(_singular("its rows are not independent, or too nearly dependent for floats"))
    return np.asarray(((reported @ right.T) / sizes) @ left.T)


def _singular(why: str) -> str:
    return f"the channel cannot be inverted: {why}; use `ibu`, which takes any channel"


Estimator = Callable[[Floats], Floats]
"""From rows of counts to rows of shares."""

_MOST_DRAWS = 50_000_000
_CELLS_AT_ONCE = 8_000_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """An estimate with confidence bounds. `simultaneous`: all hold together with this confidence, else each by itself.

    `covers` says of what: of the "truth", or only of the "noise" of the estimate, whose bias may be larger.
    """

    shares: Floats
    low: Floats
    high: Floats
    confidence: Fraction
    simultaneous: bool
    replicates: int
    covers: Literal["truth", "noise"]


def bootstrap(
    model: ChannelModel,
    counts: ArrayLike,
    *,
    confidence: Number,
    method: Literal["ibu", "inversion", "clip", "project"] | Estimator = "ibu",
    iterations: int = 30,
    accelerate: bool = True,
    memory: int = 2,
    replicates: int = 200,
    simultaneous: bool = True,
    entropy: Entropy | None = None,
) -> Intervals:
    """Intervals of an estimate from the counts of each output.

    `method` is "ibu" (with a fixed number of iterations: take that of the estimate in question, and the same
    `accelerate` and `memory`), "inversion", its repairs "clip" and "project", or a function of rows of counts.

    Each by itself: the quantiles of the replicates. Simultaneous: shares ± c standard deviations of the replicates, c
    the quantile of the largest standardized deviation, so that all values are held at once. What they hold is said by
    `covers` (see the head of this module): bounds of an IBU map are too narrow for the truth, above all near 0.

    >>> from discreet.local.estimation.linear_maps import KRRModel
    >>> coin = KRRModel(truth="3/4", other="1/4", size=2)
    >>> result = bootstrap(coin, [6000, 4000], confidence="0.95", method="inversion")
    >>> bool(result.low[0] < 0.7 < result.high[0]), result.covers
    (True, 'truth')
    """
    rest = failure_probability(confidence)
    tail = float(rest)
    times = integer(replicates, "replicates", at_least=20, at_most=1_000_000)
    if times * rest < 1:
        raise InvalidParameter("replicates", replicates, f"at least {ceil(1 / rest)} for this confidence")
    seen = read_counts(model, counts)
    estimator = _estimator(model, method, iterations, accelerate, memory)
    resamples, bounds = _resamples(model, seen, times, entropy), _together if simultaneous else _apart
    shares, low, high = _with_bounds(estimator, bounds, seen, resamples, tail)
    unbiased = method == "inversion"
    if method == "ibu" and _invertible(model, seen):
        _, least, most = _with_bounds(lambda rows: invert_batch(model, rows), bounds, seen, resamples, tail)
        low, high, unbiased = np.minimum(low, np.clip(least, 0, 1)), np.maximum(high, np.clip(most, 0, 1)), True
    return Intervals(shares, low, high, 1 - rest, simultaneous, times, "truth" if unbiased else "noise")


def _with_bounds(
    estimator: Estimator, bounds: Callable[..., tuple[Floats, Floats]], seen: Counts, rows: list[Counts], tail: float
) -> tuple[Floats, Floats, Floats]:
    """The estimate, and bounds from its replicates."""
    shares = estimator(seen[None].astype(np.float64))[0]
    repeated = np.concatenate([estimator(part.astype(np.float64)) for part in rows])
    return shares, *bounds(shares, repeated, tail)


def _invertible(model: ChannelModel, seen: Counts) -> bool:
    """Whether inversion says something: on a list of answers, not on a map, where its noise would swamp all shares."""
    if not isinstance(model, KRRModel | DenseModel):
        return False
    try:
        invert_batch(model, seen[None].astype(np.float64))
    except InvalidChannel:
        return False
    return True


def resample(counts: ArrayLike, replicates: int, *, entropy: Entropy | None = None) -> Counts:
    """Rows of counts of as many reports, drawn with replacement: multinomial numbers.

    Up to 5·10^7 draws in all, one report at a time, exactly. Beyond, by halving: the reports of a range of outputs are
    split between its halves by a binomial number, inverted in floats; the work does not grow with the reports.

    >>> resample([3, 0, 5], 4).sum(axis=1).tolist()
    [8, 8, 8, 8]
    """
    given = whole_counts(counts)
    if given.ndim != 1 or not given.any():
        raise InvalidData("counts: expected numbers ≥ 0 on one axis, not all zero")
    return _drawn(given, np.full(integer(replicates, "replicates", at_least=1), given.sum()), entropy)


def _drawn(counts: Counts, sizes: Counts, entropy: Entropy | None) -> Counts:
    """A row of so many draws for each size."""
    rows = np.zeros((sizes.size, counts.size), np.int64)
    seen = np.flatnonzero(counts)  # what was never reported is never drawn
    few = int(sizes.sum()) <= _MOST_DRAWS
    rows[:, seen] = (_draw_each if few else _draw_by_halving)(counts[seen], sizes, entropy)
    return rows


def _draw_each(counts: Counts, sizes: Counts, entropy: Entropy | None) -> Counts:
    total = int(counts.sum())
    owner = np.repeat(np.arange(counts.size), counts)  # of each report
    rows = np.empty((sizes.size, counts.size), np.int64)
    for i, size in enumerate(sizes.tolist()):
        rows[i] = np.bincount(owner[uniform_below(total, size, entropy=entropy)], minlength=counts.size)
    return rows


def _draw_by_halving(counts: Counts, sizes: Counts, entropy: Entropy | None) -> Counts:
    width = 1 << (counts.size - 1).bit_length()
    padded = np.zeros(width, np.int64)
    padded[: counts.size] = counts
    rows = sizes.reshape(-1, 1).astype(np.int64)
    while rows.shape[1] < width:
        halves = padded.reshape(2 * rows.shape[1], -1).sum(axis=1).reshape(-1, 2)
        share = halves[:, 0] / np.maximum(halves.sum(axis=1), 1)
        first = inverse_binomial(rows, np.broadcast_to(share, rows.shape), entropy=entropy)
        rows = np.stack([first, rows - first], axis=2).reshape(sizes.size, -1)
    return rows[:, : counts.size]


def _resamples(model: ChannelModel, counts: Counts, times: int, entropy: Entropy | None) -> list[Counts]:
    """The replicates, in parts that fit into memory: each draw is the added report with probability 1/(n + 1)."""
    at_once, total = max(1, _CELLS_AT_ONCE // counts.size), int(counts.sum())
    parts = []
    for start in range(0, times, at_once):
        many = np.full(min(at_once, times - start), total)
        added = binomial(many, 1 / (total + 1), entropy=entropy)
        parts.append(_drawn(counts, many - added, entropy) + _added(model, added, entropy))
    return parts


def _added(model: ChannelModel, sizes: Counts, entropy: Entropy | None) -> Counts:
    """Rows of so many reports of people with uniformly random values."""
    upto = np.cumsum(np.maximum(model.forward(np.full(model.size, 1 / model.size)), 0))
    words = (SYSTEM if entropy is None else entropy).words(int(sizes.sum()))
    spots = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53 * upto[-1]
    rows = np.zeros((sizes.size, model.outputs), np.int64)
    place = np.minimum(np.searchsorted(upto, spots, side="right"), model.outputs - 1)
    np.add.at(rows, (np.repeat(np.arange(sizes.size), sizes), place), 1)
    return rows


def _estimator(model: ChannelModel, method: object, iterations: int, accelerate: bool, memory: int) -> Estimator:
    match method:
        case "ibu":
            return lambda rows: ibu_batch(model, rows, iterations=iterations, accelerate=accelerate, memory=memory)
        case "inversion":
            return lambda rows: invert_batch(model, rows)
        case "clip":
            return lambda rows: np.array([frequencies.clip(row) for row in invert_batch(model, rows)])
        case "project":
            return lambda rows: np.array([frequencies.project(row) for row in invert_batch(model, rows)])
        case _ if callable(method):
            return method
    raise InvalidParameter("method", method, "'ibu', 'inversion', 'clip', 'project' or a function of rows of counts")


def _apart(shares: Floats, repeated: Floats, tail: float) -> tuple[Floats, Floats]:
    low = np.quantile(repeated, tail / 2, axis=0, method="lower")
    high = np.quantile(repeated, 1 - tail / 2, axis=0, method="higher")
    return np.minimum(low, shares), np.maximum(high, shares)


def _together(shares: Floats, repeated: Floats, tail: float) -> tuple[Floats, Floats]:
    spread = repeated.std(axis=0, ddof=1)
    away = np.abs(repeated - shares)
    ratio = np.divide(away, spread, out=np.zeros_like(away), where=spread > 0)
    reach = np.quantile(ratio.max(axis=1), 1 - tail, method="higher") * spread
    return shares - reach, shares + reach
