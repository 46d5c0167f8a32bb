"""The bootstrap of rows (Efron 1979): a multinomial draw of cells, so that a thousand replicates cost next to nothing.

Resampling simulates and releases nothing: no guarantee of privacy rests on it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import integer
from discreet.fairness.cells import CONDITIONAL, CRITERIA, Cells, Criterion, metric, shares
from discreet.fairness.gaps import NOTHING, Estimate, Gap
from discreet.noise import Entropy
from discreet.noise.entropy import SYSTEM

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

REPLICATES = 1000
_AT_ONCE = 4_000_000  # cells in memory
_TAILS = 9.0  # standard deviations of a Poisson number that a table reaches
_SPARE = 5.0  # standard deviations that the total of Poisson numbers stays below the number of rows
_MOST_PAIRS = 20_000_000


# Drawing


def resampled(counts: ArrayLike, replicates: int, *, entropy: Entropy | None = None) -> Counts:
    """Rows of counts, each as many draws with replacement as there are rows: multinomial numbers.

    Independent Poisson numbers are, given their total, multinomial; with a mean total five deviations below the number
    n of rows, the missing rows, about 5√n, are drawn one at a time. A replicate whose total exceeds n, with probability
    below 1e-6, is drawn again. Exact but for the 53 bits of a uniform number and of a Poisson probability.

    >>> resampled([3, 0, 5], 4).sum(axis=1).tolist()
    [8, 8, 8, 8]
    """
    given = np.asarray(counts)
    if given.dtype.kind not in "iu" or given.ndim != 1 or (given < 0).any() or not given.any():
        raise InvalidData("counts: expected whole numbers ≥ 0 on one axis, not all zero")
    times = integer(replicates, "replicates", at_least=1)
    return _drawn(given.astype(np.int64), times, SYSTEM if entropy is None else entropy).T


def _drawn(counts: Counts, times: int, entropy: Entropy) -> Counts:
    """As `resampled`, a row for each cell."""
    total = int(counts.sum())
    share = max(0.0, 1 - _SPARE / total**0.5)
    rows = np.zeros((counts.size, times), np.int64)
    again = np.arange(times)
    while again.size:
        rows[:, again] = _poisson(counts * share, again.size, entropy)
        again = again[rows[:, again].sum(axis=0) > total]
    _complete(rows, counts, total, entropy)
    return rows


def _poisson(means: Floats, times: int, entropy: Entropy) -> Counts:
    """Independent Poisson numbers by inversion: one table for all cells of the same mean."""
    from scipy.special import pdtr

    rows = np.zeros((means.size, times), np.int64)
    order = np.argsort(means, kind="stable")
    for places in np.split(order, np.flatnonzero(np.diff(means[order])) + 1):
        mean = float(means[places[0]])
        if not mean:
            continue
        reach = _TAILS * mean**0.5 + 40
        first = max(0, int(mean - reach))
        upto = pdtr(np.arange(first, int(mean + reach)), mean)
        spots = uniforms(times * places.size, entropy)
        rows[places] = (first + np.searchsorted(upto, spots, side="right")).reshape(-1, times)
    return rows


def _complete(rows: Counts, counts: Counts, total: int, entropy: Entropy) -> None:
    """Draw the rows that are still missing, one at a time."""
    missing = total - rows.sum(axis=0)
    owner = np.repeat(np.arange(counts.size), counts) if total <= _AT_ONCE else None
    ends = np.cumsum(counts) / total
    width = max(1, _AT_ONCE // max(int(missing.max()), 1))
    for start in range(0, missing.size, width):
        part = missing[start : start + width]
        spots = uniforms(int(part.sum()), entropy)
        place = np.searchsorted(ends, spots, side="right") if owner is None else owner[(spots * total).astype(np.int64)]
        column = np.repeat(np.arange(part.size), part)
        drawn = np.bincount(np.minimum(place, counts.size - 1) * part.size + column, minlength=counts.size * part.size)
        rows[:, start : start + part.size] += drawn.reshape(-1, part.size)


def uniforms(count: int, entropy: Entropy | None = None) -> Floats:
    """Uniform numbers in [0, 1) of 53 bits, for simulation.

    >>> bool((uniforms(5) < 1).all())
    True
    """
    words = (SYSTEM if entropy is None else entropy).words(count)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


# Replicates of rates


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Tables of label × prediction of every replicate, by group (of each view), by stratum and by score bin."""

    cells: Cells
    tables: list[NDArray[Any]]  # of each view: replicate × group × 2 × 2
    strata: list[NDArray[Any]]  # of each view: replicate × stratum × group × 2 × 2
    bins: list[NDArray[Any]]

    @classmethod
    def of(cls, cells: Cells, replicates: int = REPLICATES, *, entropy: Entropy | None = None) -> "Replicates":
        """Draw the replicates; all metrics of all views are functions of them."""
        times = integer(replicates, "replicates", at_least=100, at_most=1_000_000)
        flat = cells.counts.reshape(-1)
        seen = np.flatnonzero(flat)  # a cell without a row is never drawn
        kinds: list[list[Any]] = [[], [], []]
        for start in range(0, times, max(1, _AT_ONCE // seen.size)):
            many = min(max(1, _AT_ONCE // seen.size), times - start)
            drawn = _drawn(flat[seen], many, SYSTEM if entropy is None else entropy)
            for kind, part in zip(kinds, _summed(cells, drawn, seen), strict=True):
                kind.append(part)
        return cls(cells, *([np.concatenate(view) for view in zip(*kind, strict=True)] for kind in kinds))


def _summed(cells: Cells, drawn: Counts, seen: Counts) -> tuple[list[Any], list[Any], list[Any]]:
    """The tables of each view, from draws of the cells that hold a row."""
    *sizes, strata, bins, _, _ = cells.counts.shape
    *places, stratum, level, label, prediction = np.unravel_index(seen, cells.counts.shape)
    groups, count = np.ravel_multi_index(tuple(places), tuple(sizes)), int(np.prod(sizes))
    outcome = label * 2 + prediction
    by_stratum = _gathered(drawn, (stratum * count + groups) * 4 + outcome, (strata, *sizes, 2, 2))
    by_bin = _gathered(drawn, (level * count + groups) * 4 + outcome, (bins, *sizes, 2, 2)) if bins > 1 else None
    kinds: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for chosen in views(len(sizes)):
        others = tuple(1 + k for k in range(len(sizes)) if k not in chosen)
        part = by_stratum.sum(axis=others).reshape(strata, -1, 2, 2, drawn.shape[1])
        kinds[0].append(np.moveaxis(part.sum(axis=0), -1, 0))
        kinds[1].append(np.moveaxis(part, -1, 0))
        if by_bin is not None:
            kinds[2].append(np.moveaxis(by_bin.sum(axis=others).reshape(bins, -1, 2, 2, drawn.shape[1]), -1, 0))
    return kinds


def views(attributes: int) -> list[tuple[int, ...]]:
    """Which attributes are in each view: each alone, then all together."""
    alone = [(k,) for k in range(attributes)]
    return alone + ([tuple(range(attributes))] if attributes > 1 else [])


def _gathered(drawn: Counts, place: Counts, shape: tuple[int, ...]) -> Any:
    """Sum rows that have the same place; the last axis is the replicate."""
    order = np.argsort(place, kind="stable")
    result, starts = np.unique(place[order], return_index=True)
    out = np.zeros((int(np.prod(shape)), drawn.shape[1]), np.int64)
    out[result] = np.add.reduceat(drawn[order], starts, axis=0)
    return out.reshape(*shape, drawn.shape[1])


# Limits from replicates


def bootstrap_gap(
    criterion: Criterion,
    observed: Sequence[tuple[Floats, Floats]],
    repeated: Sequence[tuple[Floats, Floats]],
    names: Sequence[Sequence[str]],
    groups: Sequence[str],
    *,
    least: int,
    alpha: float,
) -> Gap:
    """The gap of a criterion, with limits from replicates.

    `observed` has hits and tries of each metric, family × group; `repeated` the same of each replicate. Limits are
    those of all differences together: difference ± c deviations, c the quantile of the largest standardized deviation
    of a replicate, at least the normal one. A deviation is at least that of a share half a row from 0 or 1, so that a
    rate of 0 is not taken for sure.
    """
    from scipy.special import ndtri

    result = [
        _Family(h[k], t[k], hr[:, k], tr[:, k], name[k], least)
        for (h, t), (hr, tr), name in zip(observed, repeated, names, strict=True)
        for k in range(len(h))
    ]
    ever = np.any([family.used for family in result], axis=0)
    left_out = tuple(name for name, used in zip(groups, ever, strict=True) if not used)
    result = [family for family in result if family.used.sum() > 1]
    if not result:
        return Gap(criterion.name, NOTHING, NOTHING, left_out=left_out)
    least_reach = float(-ndtri(alpha / 2))
    reach = max(
        least_reach,
        np.quantile(np.max([family.largest() for family in result], axis=0), 1 - alpha, method="higher"),
    )
    width = max(
        least_reach,
        np.quantile(np.max([family.farthest() for family in result], axis=0), 1 - alpha, method="higher"),
    )
    difference = Estimate(*(max(part) for part in zip(*(family.difference(reach) for family in result), strict=True)))
    ratios = [family.ratio(width) for family in result]
    ratio = Estimate(*(float(np.nanmin(side)) if np.isfinite(side).any() else np.nan for side in np.array(ratios).T))
    where = max(result, key=lambda family: float(np.ptp(family.value)))
    high, low = (int(np.flatnonzero(where.used)[place]) for place in (where.value.argmax(), where.value.argmin()))
    pairs = sum(len(family.value) * (len(family.value) - 1) // 2 for family in result)
    return Gap(criterion.name, difference, ratio, groups[high], groups[low], where.name, left_out, pairs)


class _Family:
    """One family of rates and its replicates, of the groups that are large enough."""

    def __init__(self, hits: Floats, tries: Floats, hits_r: Floats, tries_r: Floats, name: str, least: int) -> None:
        self.used = tries >= max(least, 1)
        self.name = name
        h, t = hits[self.used].astype(np.float64), tries[self.used].astype(np.float64)
        self.value = h / t
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = hits_r[:, self.used] / tries_r[:, self.used]
        self.repeated = np.where(np.isfinite(drawn), drawn, self.value)
        near = (h + 0.5) / (t + 1)
        self.spread = np.maximum(self.repeated.std(axis=0, ddof=1), np.sqrt(near * (1 - near) / (t + 1)))

    def pairs(self) -> tuple[Counts, Counts]:
        return np.triu_indices(len(self.value), 1)

    def largest(self) -> Floats:
        """Of each replicate, the largest standardized deviation of a difference."""
        first, second = self.pairs()
        away, result = self.repeated - self.value, np.zeros(len(self.repeated))
        for start in range(0, first.size, max(1, _MOST_PAIRS // len(away))):
            a, b = (side[start : start + max(1, _MOST_PAIRS // len(away))] for side in (first, second))
            scaled = np.abs(away[:, a] - away[:, b]) / np.hypot(self.spread[a], self.spread[b])
            np.maximum(result, scaled.max(axis=1), out=result)
        return result

    def farthest(self) -> Floats:
        """Of each replicate, the largest standardized deviation of a rate."""
        return np.asarray((np.abs(self.repeated - self.value) / self.spread).max(axis=1))

    def difference(self, reach: float) -> tuple[float, float, float]:
        first, second = self.pairs()
        d, width = np.abs(self.value[first] - self.value[second]), reach * np.hypot(*self.spread[[first, second]])
        return float(np.ptp(self.value)), float(max((d - width).max(), 0)), float(min((d + width).max(), 1))

    def ratio(self, reach: float) -> tuple[float, float, float]:
        low, high = (np.clip(self.value + sign * reach * self.spread, 0, 1) for sign in (-1, 1))
        value = self.value.min() / self.value.max() if self.value.max() > 0 else np.nan
        most = min(1.0, high.min() / low.max()) if low.max() > 0 else 1.0
        return float(value), float(low.min() / high.max()), float(most)


def gaps(
    replicates: Replicates,
    view: int,
    criteria: Sequence[str] | None = None,
    *,
    least: int = 1,
    alpha: float = 0.05,
) -> tuple[Gap, ...]:
    """The gaps of a view of the cells by several criteria (all that apply, unless named), with bootstrap limits.

    >>> from discreet.fairness.cells import Cells
    >>> cells = Cells.of_arrays([1, 0] * 500, [1, 0] * 400 + [0, 0] * 100, ["f"] * 500 + ["m"] * 500)
    >>> result = gaps(Replicates.of(cells, 200), 0, ["statistical parity"])[0]
    >>> round(result.difference.value, 2), result.differs
    (0.2, True)
    """
    cells = replicates.cells.views()[view]
    tables, _ = cells.tables()
    known = [CRITERIA[name] for name in criteria] if criteria is not None else list(CRITERIA.values())
    result = [
        bootstrap_gap(
            rule,
            [tuple(np.atleast_2d(part) for part in shares(tables, metric(name))) for name in rule.metrics],  # type: ignore[misc]
            [tuple(part[:, None] for part in shares(replicates.tables[view], metric(name))) for name in rule.metrics],  # type: ignore[misc]
            [[name if len(rule.metrics) > 1 else ""] for name in rule.metrics],
            cells.attributes[0].values,
            least=least,
            alpha=alpha,
        )
        for rule in known
        if cells.labeled or not rule.labeled
    ]
    if len(cells.strata) > 1 and criteria is None:
        by_stratum, _ = cells.strata_tables()
        selection = metric("selection rate")
        result.append(
            bootstrap_gap(
                CONDITIONAL,
                [shares(by_stratum, selection)],  # type: ignore[list-item]
                [shares(replicates.strata[view], selection)],  # type: ignore[list-item]
                [cells.strata.values],
                cells.attributes[0].values,
                least=least,
                alpha=alpha,
            )
        )
    return tuple(result)


def checked_replicates(replicates: int, alpha: float) -> int:
    """As many as limits at this confidence need."""
    times = integer(replicates, "replicates", at_least=100, at_most=1_000_000)
    if times * alpha < 5:
        raise InvalidParameter("replicates", replicates, f"at least {int(np.ceil(5 / alpha))} for this confidence")
    return times
