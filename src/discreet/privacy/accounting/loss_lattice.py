"""Privacy losses on a lattice: a dominating pair rounded to multiples of a step, and their sum near one point.

Rounding. The P-mass p and Q-mass q of a cell (a, b] move to its two ends so that both are kept: the pair that
results has, at the ends, the same profile as before, and in between the chord above it (profiles are convex in
e^ε). So it dominates; this is "connect the dots" (Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). P-mass
below the lattice is rounded up to its first point, P-mass above it counts as infinite loss.

Sum. The loss of a composition is the sum of independent losses under P. Its distribution is a convolution power,
computed by Fourier transform of *tilted* masses p·e^(θx)/M(θ). With θ at the saddle point the tilted sum is
centered at the ε of interest, where δ = 1e-12 is as easy as δ = 0.1, and a window of some standard deviations
around it suffices.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet.errors import NoGuarantee
from discreet.privacy.accounting.dominating_pairs import Pair, Worst
from discreet.privacy.accounting.rounding import Array

_UNIT = 2.0**-52
_FINE = 1024  # cells are single steps up to this many steps from zero, then 1/1024 of their distance
_FARTHEST, _LAST_EDGE = 690.0, 700.0  # e^700 is still a float; greater losses count as infinite
_WIDEST = 2.0**50  # steps: beyond, positions on the lattice would not be exact
_CHERNOFF = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 11.0, 16.0, 25.0, 40.0)


@dataclass(frozen=True, slots=True)
class Lattice:
    """One rounded pair, released `count` times: P-masses at multiples of the step, the rest at infinity.

    `spread` is the second moment that splitting each cell between its ends may have added.
    """

    index: NDArray[np.int64]
    loss: Array
    mass: Array
    spread: Array
    infinite: float
    step: float
    count: int


class Cumulants(NamedTuple):
    """ln M(θ) of a total loss, its first derivative (the tilted mean) and its second (the tilted variance)."""

    value: float
    mean: float
    variance: float


def rounded(pair: Pair | Worst, *, step: float, tail: float, count: int, fine: int = _FINE) -> Lattice:
    """The pair on multiples of `step`, P-mass of at most `tail` at infinity."""
    low, high = (min(max(end, -_FARTHEST), _FARTHEST) / step for end in pair.reach(tail))
    if high - low > _WIDEST:
        raise NoGuarantee("losses of such different sizes do not fit on one lattice; the Rényi accountant may answer")
    end = math.floor(_LAST_EDGE / step)
    first, last = max(math.floor(low) - 1, -end), min(math.ceil(high) + 1, end)
    index = _graded(first, last, keep=(round(low), round(high)), fine=fine)
    loss = _scaled(index, step)
    cut = connect(pair, loss)
    kept = cut.mass > 0
    if not kept.any():
        raise NoGuarantee("single losses beyond e^690 are out of reach of the numerical accountant; use `rdp`")
    return Lattice(index[kept], loss[kept], cut.mass[kept], cut.spread[kept], cut.infinite, step, count)


class Cut(NamedTuple):
    """A pair rounded to edges: P-mass at each edge, spread of the cell above it, P-mass at infinity."""

    mass: Array
    spread: Array
    infinite: float


def connect(pair: Pair | Worst, edges: Array) -> Cut:
    """The pair rounded to the edges."""
    if isinstance(pair, Worst):
        return _joined(edges, [connect(part, edges) for part in pair.parts])
    p, q = pair.cells(edges)
    inside, width = p[1:-1], np.diff(edges)
    up = np.clip((inside - q[1:-1] * np.exp(edges[:-1])) / -np.expm1(-width), 0.0, inside)
    mass, spread = np.zeros(len(edges)), np.zeros(len(edges))
    mass[:-1] += inside - up
    mass[1:] += up
    mass[0] += p[0]
    spread[:-1] = np.divide(up * (inside - up), inside, out=np.zeros_like(up), where=inside > 0) * width**2
    return Cut(mass, spread, float(p[-1]))


def _joined(edges: Array, parts: Sequence[Cut]) -> Cut:
    """The rounded pair whose profile is the greatest of the parts' at every edge, and the chord in between.

    At t = e^edge, H(t) = P(L > edge) − t·Q(L > edge) falls with slope −Q(L > edge). Where one part is greatest on
    both sides of an edge its own mass is kept, digit by digit; where the lead changes, the chords give the mass.
    """
    t = np.exp(edges)
    mass = np.array([each.mass for each in parts])
    slope = np.cumsum((mass / t)[:, ::-1], axis=1)[:, ::-1] - mass / t  # Q(L > edge)
    fall = np.concatenate((slope[:, :-1] * np.diff(t), [[each.infinite] for each in parts]), axis=1)
    height = np.cumsum(fall[:, ::-1], axis=1)[:, ::-1]
    lead = _leaders(height)
    at = np.arange(len(edges))
    top = height[lead, at]
    chord = -np.diff(top) / np.diff(t)
    same = lead[1:] == lead[:-1]
    q_above = np.append(np.where(same, slope[lead[:-1], at[:-1]], chord), 0.0)
    q_below = np.append((1 - top[0]) / t[0], q_above[:-1])
    own = np.append(True, same) & np.append(same, True)
    joined = np.where(own, mass[lead, at], np.maximum(t * (q_below - q_above), 0.0))
    return Cut(joined, np.max([each.spread for each in parts], axis=0), float(top[-1]))


def _leaders(height: Array) -> NDArray[np.int64]:
    """Which part is greatest at each edge; the lead does not change for a difference of rounding errors."""
    leaders: NDArray[np.int64] = np.argmax(height, axis=0)
    current = int(leaders[-1])
    for i in range(height.shape[1] - 1, -1, -1):
        if height[leaders[i], i] > height[current, i] * (1 + 1e-14):
            current = int(leaders[i])
        leaders[i] = current
    return leaders


def _graded(first: int, last: int, *, keep: tuple[int, int], fine: int = _FINE) -> NDArray[np.int64]:
    """Whole numbers from first to last: all of them near zero, then ever fewer; lumps may lie at those to keep."""
    if last - first <= 8 * fine:
        return np.arange(first, last + 1)
    marks = _marks(fine)
    inner = marks[np.searchsorted(marks, first, side="right") : np.searchsorted(marks, last)]
    both = np.sort(np.concatenate(([first, last], [end for end in keep if first < end < last], inner)))
    index: NDArray[np.int64] = both[np.append(True, np.diff(both) > 0)].astype(np.int64)
    return index


@lru_cache(maxsize=4)
def _marks(fine: int) -> NDArray[np.int64]:
    """Whole numbers up to `fine` from zero, then each about 1/`fine` farther than the one before, on both sides."""
    growth = np.arange(math.ceil(fine * math.log(2 * _WIDEST / fine)) + 1) / fine
    side = np.unique(np.concatenate((np.arange(1, fine), np.ceil(fine * np.exp(growth)).astype(np.int64))))
    return np.concatenate((-side[::-1], [0], side))


def _scaled(index: NDArray[np.int64], step: float) -> Array:
    return np.asarray(index * step, dtype=np.float64)


def _dot(a: Array, b: Array) -> float:
    """Σ aᵢ·bᵢ on one thread: a threaded product of such short vectors costs more than it saves."""
    return float((a * b).sum())


class Sketch(tuple[Lattice, ...]):
    """Coarse lattices from which tilts and windows are guessed, laid end to end so that many are tilted at once."""

    @cached_property
    def _flat(self) -> tuple[Array, Array, NDArray[np.int64], NDArray[np.int64], Array]:
        sizes = np.array([len(each.loss) for each in self])
        starts = np.cumsum(sizes) - sizes
        loss = np.concatenate([each.loss for each in self])
        mass = np.concatenate([each.mass for each in self])
        return loss, mass, sizes, starts, np.array([float(each.count) for each in self])

    def cumulants(self, theta: float) -> Cumulants:
        """As the function of this name, with sums that may lose some digits."""
        loss, mass, sizes, starts, counts = self._flat
        top = theta * loss[starts + sizes - 1 if theta >= 0 else starts]
        weights = mass * np.exp(theta * loss - np.repeat(top, sizes))
        total = np.add.reduceat(weights, starts)
        mean = np.add.reduceat(weights * loss, starts) / total
        variance = np.add.reduceat(weights * (loss - np.repeat(mean, sizes)) ** 2, starts) / total
        return Cumulants(float(counts @ (top + np.log(total))), float(counts @ mean), float(counts @ variance))


def cumulants(lattices: Sequence[Lattice], theta: float) -> Cumulants:
    """Of the total of all lattices, each `count` times."""
    if isinstance(lattices, Sketch):
        return lattices.cumulants(theta)
    value, mean, variance = 0.0, 0.0, 0.0
    for each in lattices:
        logarithm, weights = tilted(each, theta)
        average = _dot(weights, each.loss)
        value += each.count * logarithm
        mean += each.count * average
        variance += each.count * _dot(weights, (each.loss - average) ** 2)
    return Cumulants(value, mean, variance)


def tilted(lattice: Lattice, theta: float) -> tuple[float, Array]:
    """ln M(θ), and the masses p·e^(θx)/M(θ), which sum to 1."""
    exponents = theta * lattice.loss
    top = float(exponents.max())
    weights = lattice.mass * np.exp(exponents - top)
    total = float(weights.sum())
    return top + math.log(total), weights / total


def added_variance(lattices: Sequence[Lattice], theta: float) -> float:
    """At most what rounding added to the tilted variance of the total (two thirds of it where cells are smooth)."""
    added = 0.0
    for each in lattices:
        logarithm, _ = tilted(each, theta)
        added += each.count * _dot(each.spread, np.exp(np.minimum(theta * each.loss - logarithm, 700.0)))
    return added


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of losses in a window: P-masses at `loss`, and an upper bound on all P-mass above the window.

    `error` bounds the relative floating-point error of the masses, `shift` that of the losses they stand at.
    """

    loss: Array
    mass: Array
    beyond: float
    error: float
    shift: float

    def delta(self, epsilon: float) -> float:
        """δ(ε), rounded up; 1 where ε is below the window."""
        at = epsilon - self.shift
        if at < self.loss[0]:
            return 1.0
        first = int(np.searchsorted(self.loss, at, side="right"))
        inside = -_dot(self.mass[first:], np.expm1(at - self.loss[first:]))
        return min(1.0, inside * (1 + self.error) + self.beyond)


def window(lattices: Sequence[Lattice], theta: float, *, delta: float, floor: float) -> tuple[float, float]:
    """Ends of a window outside of which nothing matters at this δ, by Chernoff's bound P(X > x) ≤ e^(K(s) − s·x).

    Above the top there is P-mass of at most e^−18 of δ, and, as above and below the tilted sum wraps around into the
    window, tilted mass of at most e^−25. A window that is too small costs tightness, not soundness.
    """
    middle = cumulants(lattices, theta)
    width = max(math.sqrt(middle.variance), lattices[0].step)
    budget = math.log(max(delta, 1e-308)) - 18
    above = [(s, cumulants(lattices, s).value) for s in _around(theta, 1 / width)]
    below = [(s, cumulants(lattices, s).value) for s in _around(theta, -1 / width)]
    top = min((k - budget) / s for s, k in above)
    top = max(top, min((k - middle.value + 25) / (s - theta) for s, k in above))
    bottom = max((middle.value - k - 25) / (theta - s) for s, k in below)
    highest = sum(each.count * float(each.loss[-1]) for each in lattices)
    lowest = sum(each.count * float(each.loss[0]) for each in lattices)
    return max(min(bottom, floor), lowest), min(top, highest)


def convolved(lattices: Sequence[Lattice], theta: float, *, bottom: float, top: float) -> Total:
    """The sum of the lattices' losses between bottom and top.

    Soundness. Circular convolution adds to each point the tilted mass of all points a whole number of windows
    away: nothing inside is lost, and what lies above the window is bounded by Chernoff and counted as infinite
    loss, as is the mass the lattices hold at infinity.

    Floating point. With u = 2⁻⁵²: the transform f of masses that sum to 1 errs by a few u, fⁿ by n·|f|ⁿ⁻¹ times
    that, and the inverse transform by the mean of this over all frequencies, which is a few n·u of the greatest
    tilted mass (the mean of |f|ⁿ): every tilted mass is known to 64·(n + 1000)·u of the greatest one, and that much
    is added to each; n·ln M(θ) errs by a few n·u too, a factor as great. Measured against extended precision:
    under a hundredth of it. Each cell's P- and Q-mass is known to a few u of the mass on its lighter side;
    this can move that much mass by one cell, which changes M(θ) by no more than a shift of all losses by it.
    """
    step, count = lattices[0].step, sum(each.count for each in lattices)
    error = 64 * (count + 1000) * _UNIT
    first, length = math.floor(bottom / step), _fast_length(math.ceil(top / step) - math.floor(bottom / step) + 2)
    spectrum: NDArray[np.complex128] = np.ones(length // 2 + 1, dtype=np.complex128)
    base, logarithm, shift, infinite = 0, 0.0, 0.0, 0.0
    for each in lattices:
        log_m, weights = tilted(each, theta)
        center = round(_dot(weights, each.loss) / step)
        folded = np.bincount((each.index - center) % length, weights=weights, minlength=length)
        spectrum *= np.fft.rfft(folded) ** each.count
        base += each.count * center
        logarithm += each.count * log_m
        shift += each.count * _edge_error(each, theta, log_m)
        infinite += each.count * each.infinite
    sums = np.roll(np.fft.irfft(spectrum, length), (base - first) % length)
    loss = _scaled(first + np.arange(length), step)
    with np.errstate(over="ignore", under="ignore"):
        mass = (np.maximum(sums, 0.0) + error * sums.max()) * np.exp(np.minimum(logarithm - theta * loss, 700.0))
    above = 0.0 if _all_below(lattices, float(loss[-1])) else _above(lattices, theta, float(loss[-1]))
    return Total(loss, mass, (infinite + above) * (1 + error), error, shift + 4 * _UNIT * abs(float(loss[-1])))


def _edge_error(lattice: Lattice, theta: float, log_m: float) -> float:
    """What rounding in the cells' masses can move the loss by, seen under the tilt."""
    below = np.cumsum(lattice.mass)
    above = np.cumsum(lattice.mass[::-1])[::-1]
    lighter = np.minimum(np.minimum(below, above), 1.0)
    return 16 * _UNIT * _dot(lighter, np.exp(np.minimum(theta * lattice.loss - log_m, 700.0)))


def _all_below(lattices: Sequence[Lattice], top: float) -> bool:
    return sum(each.count * float(each.loss[-1]) for each in lattices) <= top


def _above(lattices: Sequence[Lattice], theta: float, top: float) -> float:
    """Chernoff's bound on P(X > top): every tilt gives one, and the slope K′(s) − top says where a better one is."""
    width = max(math.sqrt(cumulants(lattices, theta).variance), lattices[0].step)
    tilts = _around(theta, 1 / width)
    least, low, high = 0.0, 0, len(tilts)
    while low < high:
        middle = (low + high) // 2
        at = cumulants(lattices, tilts[middle])
        least = min(least, at.value - tilts[middle] * top)
        low, high = (middle + 1, high) if at.mean < top else (low, middle)
    return math.exp(least)


def _around(theta: float, unit: float) -> list[float]:
    """Tilts on one side of θ to try in Chernoff's bound."""
    unit = math.copysign(max(abs(unit), 1e-9 * theta), unit)
    return [theta + c * unit for c in _CHERNOFF]


def _fast_length(least: int) -> int:
    """The least even length ≥ `least` of the form 2^a, 3·2^a, 5·2^a, 9·2^a or 15·2^a."""
    powers = (odd << max(1, math.ceil(math.log2(least / odd))) for odd in (1, 3, 5, 9, 15))
    return min(size for size in powers if size >= least)
