"""Fine noisy counts of wide columns: where values lie, at every scale, and bins that hold about equally many.

A column's range is cut into 16 parts, each of them into 16, and so on down to single steps of its grid. On every level
the rows in each part are counted with noise; only parts with clearly more rows than noise are looked into. From these
counts alone follow the bins of a column for which none were declared, and where inside a wide bin values are drawn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.noise import Entropy
from discreet.privacy.unit import Neighbors
from discreet.synthetic.measure.noisy_marginals import Ints, root_up, squared_sensitivity, with_noise

BINS = 32
"""Bins of a column for which none were declared."""

_BITS = 4  # a part is cut into 16
_LEVELS = 5
_LOOKED_INTO = 4.0  # noise deviations: parts with more rows are cut further
_CLEAR = 3.5  # noise deviations: parts with more rows are taken to hold what was counted
_REST = 2.0  # noise deviations: what is left over counts where it is more
_DECAY = 0.5  # of what is left over, from one part to the next away from the clear ones
_MOST = 512  # parts of one level that are cut further
_FINEST = 1 << 12  # quantiles that are tried, to end up with enough bins
_LONG = 6  # an end bin is long that is so many times as wide as its nearer half of rows
_TAIL = 4  # bins more that a long end is cut into
_SEEN = 16  # fine counts that see all but such a part of a bin's rows need no more bins


@dataclass(frozen=True, slots=True)
class Cells:
    """A range of `points` whole steps as cells of `width` steps each, the last maybe fewer.

    >>> Cells.over(100), Cells.over(1 << 40).count <= 1 << 20
    (Cells(points=100, width=1, levels=2), True)
    """

    points: int
    width: int
    levels: int

    @classmethod
    def over(cls, points: int) -> "Cells":
        """Cells of single steps where 16⁵ suffice, else of as few as suffice."""
        width = -(-points // (1 << _BITS * _LEVELS))
        count, levels = -(-points // width), 1
        while 1 << _BITS * levels < count:
            levels += 1
        return cls(points, width, levels)

    @property
    def count(self) -> int:
        """How many cells there are."""
        return -(-self.points // self.width)


Level = tuple[list[int], list[int]]
"""Parts of one level, by their number from the left, and their noisy counts."""


def sigma_of(cells: Sequence[Cells], multiplier: Fraction, neighbors: Neighbors, rows_per_unit: int) -> Fraction:
    """The noise on each count of these columns, with which all of them are one Gaussian release of this multiplier.

    Guarantee: `count` of each of the columns with this noise costs together one Gaussian release of `multiplier`.
    Proof. The parts of a level are disjoint: a unit of at most K rows moves their counts by at most K in ℓ2 norm, and a
    changed one by √2·K (`Design.loss`). There are Σ levels such levels. Which parts are counted depends on noisy counts
    of the level before alone, so it is a choice among counts that all have noise already.
    """
    levels = sum(each.levels for each in cells)
    return multiplier * root_up(levels * squared_sensitivity(neighbors, rows_per_unit))


def count(positions: Ints, cells: Cells, sigma: Fraction, *, entropy: Entropy | None = None) -> list[Level]:
    """Noisy counts on the tree; `positions` are steps from the lower end, of the rows where the value is known.

    Guarantee: `sigma_of`.

    >>> from discreet.noise import DeterministicEntropy
    >>> levels = count(np.full(1000, 7), Cells.over(100), Fraction(2), entropy=DeterministicEntropy(1))
    >>> [len(parts) for parts, _ in levels], levels[1][0][7], abs(levels[1][1][7] - 1000) < 20
    ([7, 16], 7, True)
    """
    at = np.sort(np.asarray(positions, np.int64) // cells.width)
    parts, result = np.zeros(1, np.int64), []
    for level in range(1, cells.levels + 1):
        shift = _BITS * (cells.levels - level)
        parts = (parts[:, None] << _BITS | np.arange(1 << _BITS)).ravel()
        parts = parts[parts << shift < cells.count]
        exact = np.searchsorted(at, (parts + 1) << shift) - np.searchsorted(at, parts << shift)
        noisy = with_noise(exact, sigma, entropy)
        result.append((parts.tolist(), noisy.tolist()))
        order = np.argsort(-noisy, kind="stable")[:_MOST]
        parts = np.sort(parts[order[noisy[order] > _LOOKED_INTO * float(sigma)]])
        if not len(parts):
            break
    return result


@dataclass(frozen=True, slots=True, eq=False)
class Density:
    """How many rows are expected in each of neighboring stretches of steps: starts ascending, the first 0."""

    starts: Ints  # one more than masses
    masses: NDArray[np.float64]
    unseen: float = 0.0  # so many rows may be in a part where none were seen

    def below(self, positions: Any) -> NDArray[np.float64]:
        """How many rows lie below each position; inside a stretch they are spread evenly."""
        return np.asarray(np.interp(positions, self.starts, np.concatenate([[0.0], np.cumsum(self.masses)])))


def density(levels: Sequence[Level], cells: Cells, sigma: float) -> Density:
    """Where rows lie, from noisy counts alone.

    Of the parts of a part, those with clearly more rows than noise get what was counted. What is left goes to the
    others, the less the farther from those: noise in many empty parts must not add up to rows far away.

    >>> found = density([([0, 1, 2], [900, 3, -5])], Cells(3, 1, 1), 5.0)
    >>> found.masses.round().tolist()
    [898.0, 0.0, 0.0]
    """
    known = [dict(zip(parts, noisy, strict=True)) for parts, noisy in levels]
    starts: list[int] = []
    masses: list[float] = []

    def spread(level: int, part: int, mass: float) -> None:
        children = [part << _BITS | n for n in range(1 << _BITS)]
        here = known[level] if level < len(known) else {}
        if children[0] not in here:
            starts.append(part << _BITS * (cells.levels - level))
            masses.append(mass)
            return
        present = [child for child in children if child in here]
        for child, share in zip(
            present, _shared(mass, [here[each] for each in present], sigma, root=not level), strict=True
        ):
            spread(level + 1, child, share)

    spread(0, 0, max(1.0, float(sum(levels[0][1]))))
    ends = np.minimum(np.array([*starts, cells.count]) * cells.width, cells.points)
    return Density(ends, np.array(masses), _LOOKED_INTO * sigma)


def _shared(mass: float, noisy: Sequence[int], sigma: float, *, root: bool) -> NDArray[np.float64]:
    """A part's rows among its parts."""
    counted = np.asarray(noisy, np.float64)
    clear = counted > _CLEAR * sigma
    if not clear.any():
        return np.full(len(counted), mass / len(counted))
    rest = mass - float(counted[clear].sum())
    noise = sigma * max(1 + int(clear.sum()), int((~clear).sum()) if root else 0) ** 0.5
    far = np.abs(np.arange(len(counted))[:, None] - np.flatnonzero(clear)).min(axis=1)
    decay = np.where(clear, 0.0, _DECAY**far)
    if rest <= _REST * noise or not decay.any():
        return np.where(clear, counted * (mass / counted[clear].sum()), 0.0)
    return np.where(clear, counted, rest * decay / decay.sum())


def quantile_starts(found: Density, bins: int = BINS) -> list[int]:
    """The starts of so many bins of about equally many rows each, and their end; single steps with many stand alone.

    A first or last bin that is long for where its rows lie is cut further, each part wider than the one before: what
    few people have far out may be too little for fine counts, but not for the counts of bins.

    >>> even = Density(np.array([0, 100]), np.array([50.0]))
    >>> quantile_starts(even, 4)
    [0, 25, 50, 75, 100]
    >>> quantile_starts(Density(np.array([0, 7, 8, 100]), np.array([0.0, 90.0, 10.0])), 4)
    [0, 7, 8, 54, 100]
    >>> skewed = Density(np.array([0, 100, 10_000]), np.array([50.0, 0.0]), unseen=5.0)
    >>> quantile_starts(skewed, 12)[-5:]
    [114, 204, 600, 2340, 10000]
    """
    edges = _equal(found, bins)
    sides = [side for side in (0, 1) if _long_end(found, edges, side)]
    if not sides or bins < 3 * _TAIL or found.unseen * bins * _SEEN < found.masses.sum():
        return edges
    edges = _equal(found, bins - _TAIL * len(sides))
    return _widened(sorted({*edges, *(cut for side in sides for cut in _long_end(found, edges, side))}), bins)


def _equal(found: Density, bins: int) -> list[int]:
    """Bins of about equally many rows."""
    low, high = bins, _FINEST
    best = _cuts(found, low)
    while low < high:
        middle = (low + high + 1) // 2
        cuts = _cuts(found, middle)
        if len(cuts) < bins:
            low, best = middle, cuts
        else:
            high = middle - 1
    return _widened([0, *best, int(found.starts[-1])], bins)


def _widened(edges: list[int], bins: int) -> list[int]:
    """So many bins, of these and the halves of what is widest; there are more steps than bins."""
    while len(edges) <= bins:
        wide = int(np.argmax(np.diff(edges)))
        edges.insert(wide + 1, (edges[wide] + edges[wide + 1]) // 2)
    return edges


def _long_end(found: Density, edges: list[int], side: int) -> list[int]:
    """Cuts of the first (0) or last (1) bin, each part wider than the one nearer to the middle; none if it is not long.

    Distances are from the inner edge: to where half of the bin's rows are, then in equal ratios to the far end.
    """
    inner, outer = (edges[-2], edges[-1]) if side else (edges[1], edges[0])
    wanted = found.below([inner, outer]).mean()
    sums = found.below(found.starts)
    half = abs(float(np.interp(wanted, sums, found.starts)) - inner)
    length = abs(outer - inner)
    if length < _LONG * max(half, 1.0):
        return []
    ratio = (length / max(half, 1.0)) ** (1 / (_TAIL + 1))
    cuts = [inner + (1 if side else -1) * round(max(half, 1.0) * ratio**n) for n in range(1, _TAIL + 1)]
    return [cut for cut in cuts if min(inner, outer) < cut < max(inner, outer)]


def _cuts(found: Density, many: int) -> list[int]:
    """Where so many quantiles lie, each once, without the ends."""
    sums = np.cumsum(found.masses)
    wanted = np.arange(1, many) * (sums[-1] / many)
    stretch = np.minimum(np.searchsorted(sums, wanted), len(sums) - 1)
    inside = np.clip((wanted - sums[stretch]) / np.maximum(found.masses[stretch], 1e-300) + 1, 0, 1)
    start, wide = found.starts[stretch], np.diff(found.starts)[stretch]
    cuts = start + np.rint(inside * wide).astype(np.int64)
    alone, times = np.unique(stretch[wide == 1], return_counts=True)
    both = [found.starts[each : each + 1 + (n > 1)] for each, n in zip(alone, times, strict=True)]
    cuts = np.concatenate([cuts[wide > 1], *both])
    return [int(cut) for cut in np.unique(cuts) if 0 < cut < found.starts[-1]]
