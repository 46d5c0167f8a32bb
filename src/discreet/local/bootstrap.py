"""How far an estimate can be off: the bootstrap, for estimators whose error has no formula.

The reports are resampled with replacement and estimated again, many times (Efron 1979). The intervals cover what the
noise and the sampling of people do. They do not cover a bias: of smoothing by few iterations, or of shares held at 0.

Resampling touches reports only, which are private already: no guarantee rests on it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer
from discreet.local import frequencies
from discreet.local.ibu import Counts, ibu_batch, inverse_binomial, read_counts
from discreet.local.inversion import invert_batch
from discreet.local.models import Floats, Model
from discreet.mechanisms.mechanism import doubt
from discreet.noise import Entropy, uniform_below

Estimator = Callable[[Floats], Floats]
"""From rows of counts to rows of shares."""

_MOST_DRAWS = 50_000_000
_MOST_CELLS = 8_000_000


@dataclass(frozen=True, slots=True)
class Intervals:
    """An estimate with limits. `simultaneous`: all hold together with this confidence, else each by itself."""

    shares: Floats
    low: Floats
    high: Floats
    confidence: Fraction
    simultaneous: bool
    replicates: int


def bootstrap(
    model: Model,
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
    the quantile of the largest standardised deviation, so that all values are held at once.

    >>> from discreet.local.models import FlatModel
    >>> coin = FlatModel(truth="3/4", other="1/4", size=2)
    >>> found = bootstrap(coin, [6000, 4000], confidence="0.95", method="inversion")
    >>> bool(found.low[0] < 0.7 < found.high[0])
    True
    """
    rest = doubt(confidence)
    tail = float(rest)
    times = integer(replicates, "replicates", at_least=20, at_most=1_000_000)
    if times * rest < 1:
        raise InvalidParameter("replicates", replicates, f"at least {ceil(1 / rest)} for this confidence")
    seen = read_counts(model, counts)
    estimator = _estimator(model, method, iterations, accelerate, memory)
    shares = estimator(seen[None].astype(np.float64))[0]
    repeated = np.concatenate([estimator(part) for part in _resamples(seen, times, entropy)])
    low, high = (_together if simultaneous else _apart)(shares, repeated, tail)
    return Intervals(shares, low, high, 1 - rest, simultaneous, times)


def resample(counts: ArrayLike, replicates: int, *, entropy: Entropy | None = None) -> Counts:
    """Rows of counts of as many reports, drawn with replacement: multinomial numbers.

    Up to 5·10^7 draws in all, one report at a time, exactly. Beyond, by halving: the reports of a range of outputs are
    split between its halves by a binomial number, inverted in floats; the work does not grow with the reports.

    >>> resample([3, 0, 5], 4).sum(axis=1).tolist()
    [8, 8, 8, 8]
    """
    given = np.asarray(counts, np.int64)
    if given.ndim != 1 or given.min(initial=0) < 0 or not given.any():
        raise InvalidData("counts: expected numbers ≥ 0 on one axis, not all zero")
    times = integer(replicates, "replicates", at_least=1)
    rows = np.zeros((times, given.size), np.int64)
    seen = np.flatnonzero(given)  # what was never reported is never drawn
    few = int(given.sum()) * times <= _MOST_DRAWS
    rows[:, seen] = (_draw_each if few else _draw_by_halving)(given[seen], times, entropy)
    return rows


def _draw_each(counts: Counts, times: int, entropy: Entropy | None) -> Counts:
    ends = np.cumsum(counts)
    total = int(ends[-1])
    owner = np.repeat(np.arange(counts.size), counts)  # of each report
    rows = np.empty((times, counts.size), np.int64)
    for i in range(times):
        rows[i] = np.bincount(owner[uniform_below(total, total, entropy=entropy)], minlength=counts.size)
    return rows


def _draw_by_halving(counts: Counts, times: int, entropy: Entropy | None) -> Counts:
    width = 1 << (counts.size - 1).bit_length()
    padded = np.zeros(width, np.int64)
    padded[: counts.size] = counts
    rows = np.full((times, 1), counts.sum(), np.int64)
    while rows.shape[1] < width:
        halves = padded.reshape(2 * rows.shape[1], -1).sum(axis=1).reshape(-1, 2)
        share = halves[:, 0] / np.maximum(halves.sum(axis=1), 1)
        first = inverse_binomial(rows, np.broadcast_to(share, rows.shape), entropy=entropy)
        rows = np.stack([first, rows - first], axis=2).reshape(times, -1)
    return rows[:, : counts.size]


def _resamples(counts: Counts, times: int, entropy: Entropy | None) -> list[Floats]:
    """The replicates in parts that fit into memory."""
    at_once = max(1, _MOST_CELLS // counts.size)
    sizes = [min(at_once, times - start) for start in range(0, times, at_once)]
    return [resample(counts, size, entropy=entropy).astype(np.float64) for size in sizes]


def _estimator(model: Model, method: object, iterations: int, accelerate: bool, memory: int) -> Estimator:
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
