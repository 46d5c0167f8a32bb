"""The Iterative Bayesian Update: the most likely distribution of the true values, from noisy reports.

p_x ← Σ_y q_y·p_x·C_xy / Σ_z p_z·C_zy (Agrawal, Aggarwal 2001; ElSalamouny, Palamidessi 2020), for any channel: it is
the EM algorithm, so the likelihood never falls (Dempster, Laird, Rubin 1977), and the likelihood is concave, so there
is one maximum where C is invertible. In the words of `models`: p ← p·backward(q/forward(p)).

Two cautions, both measured on check-ins in San Francisco (planar Laplace, ln 2 a km). The maximum itself is a poor map:
it fits the noise, and few iterations act as smoothing, so when to stop matters. And a method that climbs faster comes
to a rougher map of the same likelihood: the earth mover's distance at the likelihood of 500 plain iterations was 0.196
km for these, 0.202 for a line search and 0.236 for a search of three dimensions (means of six runs). See `ibu`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.local.estimation.linear_maps import ChannelModel, Floats
from discreet.noise import Entropy, bernoulli
from discreet.noise.entropy import SYSTEM

Counts = NDArray[np.int64]
Stop = Literal["held-out", "gain"]
Progress = Callable[[int, float], None]
"""Called after each iteration with its number and the log-likelihood."""

_FOLDS = 5
_LEAST_SHARE = 0.1  # of itself that an accelerated step leaves to a cell
_MOST_COINS = 20_000_000
_TINY = 1e-300


@dataclass(frozen=True, slots=True)
class IBUResult:
    """An estimate and how it was reached.

    `likelihoods` is the trace of Σ_y counts·ln q_y, the start included; it never falls. `evaluations` counts maps: one
    is a forward and a backward, those of held-out fits included. `stopped_by` is "iterations", "gain" or "held-out".
    `impossible` counts reports that the model gives probability 0, which say nothing and were left out.
    """

    shares: Floats
    likelihoods: Floats
    evaluations: float
    stopped_by: str
    impossible: int

    @property
    def iterations(self) -> int:
        """How many steps were taken."""
        return len(self.likelihoods) - 1


def ibu(
    model: ChannelModel,
    counts: ArrayLike,
    *,
    start: ArrayLike | None = None,
    iterations: int = 500,
    accelerate: bool = True,
    memory: int | None = None,
    stop: Stop | None = "held-out",
    tolerance: Number = "1e-9",
    progress: Progress | None = None,
    entropy: Entropy | None = None,
) -> IBUResult:
    """The Iterative Bayesian Update from the counts of each output.

    `accelerate` searches, in each iteration, for the best step in the span of the plain step and the `memory` steps
    before. Since `forward` is linear this costs half a map more; the likelihood stays monotone (see `_Run.search`).
    With two steps of memory it reaches the likelihood of 500 plain iterations after 6 to 37 maps. With none, a line
    search, it needs more (17 to 36 on check-ins with wide noise, 150 and above elsewhere), but its estimates stay close
    to those of plain iterations, which are smoother than others of the same likelihood. If not given, memory is 0 with
    "held-out" and else 2. Plain iterations (`accelerate=False`) gave the best maps.

    No rule for stopping looks at the truth. At most `iterations` are made, and with

    - "held-out": as many as give reports left out of the fit (a fifth at a time, by thinning) the largest likelihood;
    - "gain": until an iteration gains at most `tolerance` times the log-likelihood;
    - None: only the number of iterations.

    >>> from discreet.local.estimation.linear_maps import DenseModel
    >>> result = ibu(DenseModel([[0.75, 0.25], [0.25, 0.75]]), [60, 40], stop="gain")
    >>> result.shares.round(6).tolist(), result.stopped_by
    ([0.7, 0.3], 'gain')
    """
    limit = integer(iterations, "iterations", at_least=0, at_most=10_000_000)
    least = float(rational(tolerance, "tolerance", at_least=0, below=1))
    if stop not in ("held-out", "gain", None):
        raise InvalidParameter("stop", stop, "'held-out', 'gain' or None")
    seen = read_counts(model, counts)
    first = _read_start(model, start)
    kept, impossible = _possible(model, seen, first)
    steps = _steps(accelerate, (0 if stop == "held-out" else 2) if memory is None else memory)
    maps, most = 0, limit
    if stop == "held-out":
        most, maps = _best_held_out(model, kept, first, limit, steps, entropy)
    run = _Run(model, kept[None], first, steps)
    trace = [float(run.likelihood[0])]
    why = "iterations" if most == limit else "held-out"
    for k in range(1, most + 1):
        run.advance()
        trace.append(float(run.likelihood[0]))
        if progress is not None:
            progress(k, trace[-1])
        if stop == "gain" and trace[-1] - trace[-2] <= least * abs(trace[-1]):
            why = "gain"
            break
    return IBUResult(run.shares[0], np.array(trace), (run.maps + maps) / 2, why, impossible)


def ibu_batch(
    model: ChannelModel, counts: ArrayLike, *, iterations: int, accelerate: bool = True, memory: int = 2
) -> Floats:
    """The same for many vectors of counts at once (rows), each with the same number of iterations; for `bootstrap`.

    >>> from discreet.local.estimation.linear_maps import KRRModel
    >>> ibu_batch(KRRModel(truth="3/4", other="1/4", size=2), [[60, 40], [50, 50]], iterations=60).round(4).tolist()
    [[0.7, 0.3], [0.5, 0.5]]
    """
    rows = whole_counts(counts)
    if rows.ndim != 2 or rows.shape[1] != model.outputs or not rows.any(axis=1).all():
        raise InvalidData(f"counts: got shape {rows.shape}, expected rows of {model.outputs} counts, none all zero")
    run = _Run(model, rows, _read_start(model, None), _steps(accelerate, memory))
    for _ in range(integer(iterations, "iterations", at_least=0)):
        run.advance()
    return run.shares


class _Run:
    """Iterations on a batch (rows) of counts. `maps` counts calls of forward and of backward."""

    def __init__(self, model: ChannelModel, counts: Counts, start: Floats, steps: int) -> None:
        self.model, self.maps, self._memory = model, 0, steps
        self._live = np.flatnonzero(counts.any(axis=0))  # outputs that were never seen take no part in the likelihood
        self.counts = counts[:, self._live].astype(np.float64)
        self._totals = self.counts.sum(axis=1, keepdims=True)
        self.shares = np.repeat(start[None], len(counts), axis=0)
        self.seen = self._forward(self.shares, least=model.rounding)
        self.likelihood = self._likelihood(self.seen)
        self._moves: list[Floats] = []
        self._images: list[Floats] = []

    def advance(self) -> None:
        """One iteration: the plain step, or the best in its span with the steps before."""
        target = self._update()
        if self._memory < 0:
            self._move_to(target, self._forward(target, least=self.model.rounding))
            return
        step = target - self.shares
        image = self._forward(step)
        self.search([step, *self._moves], np.stack([image, *self._images]))

    def search(self, moves: list[Floats], images: Floats) -> None:
        """The best point p + Σ aᵢ·movesᵢ by Newton's method in the few aᵢ (the log-likelihood is concave in them).

        forward is linear, so the likelihood of every such point follows from the images already computed. Shares that
        the point would make smaller than a tenth of what they are, or negative, are held there. If the point so
        mended is less likely than the plain step, the plain step is taken, which never lowers the likelihood.
        Conjugate directions for EM: Jamshidian, Jennrich 1993; searching the span of several: Narkiss, Zibulevsky 2005.
        """
        plain_seen = np.maximum(self.seen + images[0], self.model.rounding)
        weights = self._maximize(images)
        point = self.shares + sum(w[:, None] * move for w, move in zip(weights.T, moves, strict=True))
        point = np.maximum(point, _LEAST_SHARE * self.shares)
        point /= point.sum(axis=1, keepdims=True)
        seen = self._forward(point, least=self.model.rounding)
        worse = self._likelihood(seen) < self._likelihood(plain_seen)
        point[worse] = (self.shares + moves[0])[worse]
        seen[worse] = plain_seen[worse]
        self._move_to(point, seen)

    def _move_to(self, shares: Floats, seen: Floats) -> None:
        likelihood = self._likelihood(seen)
        stay = likelihood < self.likelihood  # rounding, at the maximum
        shares[stay], seen[stay], likelihood[stay] = self.shares[stay], self.seen[stay], self.likelihood[stay]
        if self._memory > 0:
            self._moves = [shares - self.shares, *self._moves][: self._memory]
            self._images = [seen - self.seen, *self._images][: self._memory]
        self.shares, self.seen, self.likelihood = shares, seen, likelihood

    def _update(self) -> Floats:
        """p·backward(q/forward(p)), the sum put right."""
        ratios = np.zeros((len(self.shares), self.model.outputs))
        ratios[:, self._live] = self.counts / self._totals / self.seen
        self.maps += 1
        target = self.shares * np.maximum(self.model.backward(ratios), 0)
        return np.asarray(target / target.sum(axis=1, keepdims=True))

    def _forward(self, shares: Floats, least: float | None = None) -> Floats:
        self.maps += 1
        seen = self.model.forward(shares)[:, self._live]
        return seen if least is None else np.maximum(seen, max(least, _TINY))

    def _likelihood(self, seen: Floats) -> Floats:
        return np.asarray((self.counts * np.log(np.maximum(seen, _TINY))).sum(axis=1))

    def _maximize(self, images: Floats, most: int = 25) -> Floats:
        """The weights a (a row for each of the batch) with the largest likelihood of seen + a·images."""
        weights = np.zeros((len(self.shares), len(images)))
        weights[:, 0] = 1  # the plain step
        by_row = np.ascontiguousarray(images.transpose(1, 0, 2))
        seen = self.seen + images[0]
        best = self._likelihood(seen)
        for _ in range(most):
            slopes = self.counts / np.maximum(seen, _TINY)
            gradient = (by_row @ slopes[:, :, None])[:, :, 0]
            bent = by_row * (np.sqrt(self.counts) / np.maximum(seen, _TINY))[:, None, :]
            newton = _solve(bent @ bent.transpose(0, 2, 1), gradient)
            length = self._damping((newton[:, None, :] @ by_row)[:, 0, :], seen, best)
            weights += length[:, None] * newton
            seen = self.seen + (weights[:, None, :] @ by_row)[:, 0, :]
            now = self._likelihood(seen)
            if (now - best < 1e-3).all():
                break
            best = now
        return weights

    def _damping(self, change: Floats, seen: Floats, best: Floats) -> Floats:
        """1, 1/2, 1/4, … for each row: the first that keeps what was seen possible and the likelihood no lower."""
        length = np.ones(len(change))
        least = best - 1e-13 * np.abs(best)
        for _ in range(20):
            tried = seen + length[:, None] * change
            bad = (tried <= 0).any(axis=1) | (self._likelihood(tried) < least)
            if not bad.any():
                return length
            length[bad] /= 2
        length[bad] = 0
        return length


def _solve(curvature: Floats, gradient: Floats) -> Floats:
    """Newton's direction; scaled to a unit diagonal, since moves differ in size by far, and lifted off singularity."""
    scale = np.sqrt(np.maximum(np.einsum("bii->bi", curvature), _TINY))
    unit = curvature / (scale[:, :, None] * scale[:, None, :]) + 1e-12 * np.eye(curvature.shape[1])
    return np.asarray(np.linalg.solve(unit, (gradient / scale)[:, :, None])[:, :, 0] / scale)


# When to stop


def _best_held_out(
    model: ChannelModel, counts: Counts, start: Floats, limit: int, steps: int, entropy: Entropy | None
) -> tuple[int, int]:
    """The number of iterations, at most `limit`, that predicts reports left out best, summed over folds; maps made.

    Each report falls into one of five folds, independently of everything, so those of a fold are independent of the
    rest given the truth. The search ends once twice as many iterations as the best so far have found no better.
    """
    if counts.sum() < 2 * _FOLDS:
        raise InvalidData(f"counts: got fewer than {2 * _FOLDS} reports, too few to hold some out; use another `stop`")
    folds = thin(counts, _FOLDS, entropy=entropy)
    training = counts - folds
    run = _Run(model, training[training.any(axis=1)], start, steps)
    held = folds[training.any(axis=1)][:, training.any(axis=0)]
    best, most = 0, -np.inf
    for k in range(limit + 1):
        predicted = float((held * np.log(np.maximum(run.seen, _TINY))).sum())
        if predicted > most:
            best, most = k, predicted
        if k >= 2 * best + 10 or k == limit:
            break
        run.advance()
    return best, run.maps * len(held)


def thin(counts: ArrayLike, parts: int, *, entropy: Entropy | None = None) -> Counts:
    """Counts split into `parts` rows that sum to them: each report goes to one, uniformly and independently.

    >>> thin([100, 7], 5).sum(axis=0).tolist()
    [100, 7]
    """
    rest = whole_counts(counts).copy()
    if rest.ndim != 1:
        raise InvalidData("counts: expected numbers of reports on one axis")
    rows = np.empty((integer(parts, "parts", at_least=1), rest.size), np.int64)
    for i in range(len(rows) - 1):
        rows[i] = binomial(rest, 1 / (len(rows) - i), entropy=entropy)
        rest -= rows[i]
    rows[-1] = rest
    return rows


def binomial(trials: Counts, p: float, *, entropy: Entropy | None = None) -> Counts:
    """Binomial numbers, one for each number of trials: by coins, or by inversion in floats where they are very many.

    For resampling only: it adds no noise that anybody's privacy rests on.

    >>> binomial(np.array([0, 10**12]), 0.5)[1] > 4 * 10**11
    np.True_
    """
    ends = np.cumsum(trials)
    if ends[-1] <= _MOST_COINS:
        heads = np.concatenate([[0], np.cumsum(bernoulli(p, int(ends[-1]), entropy=entropy))])
        return np.asarray(heads[ends] - heads[ends - trials], np.int64)
    return inverse_binomial(trials, np.full(trials.shape, p), entropy=entropy)


def inverse_binomial(trials: Counts, p: Floats, *, entropy: Entropy | None = None) -> Counts:
    """The least m with P(Binomial(trials, p) ≤ m) ≥ u for a uniform u of 53 bits.

    By `scipy.stats` up to a variance of 1000; above, by the normal quantile with its correction for skewness (Cornish,
    Fisher 1938), which is then right to a fraction of a unit.

    >>> inverse_binomial(np.array([5, 5]), np.array([0.0, 1.0])).tolist()
    [0, 5]
    """
    from scipy.special import ndtri
    from scipy.stats import binom

    words = (SYSTEM if entropy is None else entropy).words(trials.size).reshape(trials.shape)
    uniform = ((words >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    z, variance = ndtri(uniform), trials * p * (1 - p)
    drawn = np.floor(trials * p + z * np.sqrt(variance) + (z * z - 1) * (1 - 2 * p) / 6 + 0.5)
    few = variance <= 1000
    drawn[few] = binom.ppf(uniform[few], trials[few], p[few])
    return np.clip(drawn, 0, trials).astype(np.int64)


# Reading what callers give


def read_counts(model: ChannelModel, counts: ArrayLike) -> Counts:
    """Whole numbers ≥ 0, one for each output and not all zero; flat, or in the shape of the model's window.

    >>> from discreet.local.estimation.linear_maps import KRRModel
    >>> read_counts(KRRModel(truth="3/4", other="1/4", size=2), [1, -1])
    Traceback (most recent call last):
    discreet.errors.InvalidData: counts: one is negative, expected numbers of reports ≥ 0
    """
    array = whole_counts(counts)
    if array.shape not in ((model.outputs,), getattr(model, "window", None)) or array.size != model.outputs:
        raise InvalidData(f"counts: got shape {array.shape}, expected {model.outputs} counts, one for each output")
    if not array.any():
        raise InvalidData("counts: all are zero; there is nothing to estimate from")
    return array.ravel()


def whole_counts(counts: ArrayLike) -> Counts:
    """Whole numbers ≥ 0 of any shape.

    >>> whole_counts([[1, 2.0]]).tolist()
    [[1, 2]]
    """
    try:
        array = np.asarray(counts)
    except (ValueError, TypeError, OverflowError):
        raise InvalidData("counts: expected numbers in a regular array") from None
    if array.dtype.kind not in "iuf":
        raise InvalidData(f"counts: got {array.dtype}, expected numbers of reports")
    if not np.isfinite(array).all() or (array != np.floor(array)).any() or (array >= 2**53).any():
        raise InvalidData("counts: one is NaN, infinite, fractional or beyond 2^53, expected numbers of reports")
    if (array < 0).any():
        raise InvalidData("counts: one is negative, expected numbers of reports ≥ 0")
    return array.astype(np.int64)


def _read_start(model: ChannelModel, start: ArrayLike | None) -> Floats:
    if start is None:
        return np.full(model.size, 1 / model.size)
    try:
        shares = np.array(start, np.float64).ravel()
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.size != model.size or not np.isfinite(shares).all() or (shares < 0).any() or not shares.any():
        raise InvalidData(f"start: expected {model.size} shares ≥ 0, not all zero; zeros stay zero for ever")
    return np.asarray(shares / shares.sum())


def _possible(model: ChannelModel, counts: Counts, start: Floats) -> tuple[Counts, int]:
    """The counts without reports that have no chance (none told from 0) from any input that `start` allows."""
    chance = model.forward(start) > model.rounding
    kept = np.where(chance, counts, 0)
    if not kept.any():
        raise InvalidData("counts: every report is impossible under this model; is it the channel that was used?")
    return kept, int(counts.sum() - kept.sum())


def _steps(accelerate: bool, memory: int) -> int:
    """How many earlier steps to search along; −1 for plain iterations."""
    if not isinstance(accelerate, bool):
        raise InvalidParameter("accelerate", accelerate, "True or False")
    return integer(memory, "memory", at_least=0, at_most=16) if accelerate else -1
