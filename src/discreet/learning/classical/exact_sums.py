"""Exact whole sums over rows, and exact noise on them.

A row is clamped to its declared bounds, scaled to [−1, 1] and snapped to whole numbers from −UNIT to UNIT. What a model
needs is a sum over rows of whole numbers: the values, their squares, their products, ones. All sums are exact, so they
do not depend on the order of rows, and what one row adds is bounded exactly.

>>> import numpy as np
>>> from discreet.learning.classical.exact_sums import UNIT, Part, planned
>>> count = Part(l1=1, square=1, unit=1)
>>> planned([count], epsilon=1, delta=0).loss
Pure(epsilon=1)
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter, NoiseWarning
from discreet.exact import Number, float_up, integer, rational, sqrt_bounds
from discreet.learning.classical.inputs import Box, Groups
from discreet.noise import Entropy, discrete_laplace
from discreet.noise.normal import rounded_gaussian
from discreet.noise.sampler import LARGEST
from discreet.privacy.accounting.rounding import decimal_up
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise, Loss, Pure, Repeated, Together

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

UNIT = 1 << 15
"""Whole numbers for the scaled value 1. Products of two are below 2³⁰."""

MOST_ROWS = 1 << 31
_BLOCK = 1 << 16  # rows at a time: 2¹⁶ products below 2³⁰ are exact in float64 in any order
_ROOT_BITS = 64
_DOUBTFUL = 0.3  # the size of the noise, in rows per row, from which models were found to be of little use


@dataclass(frozen=True, slots=True)
class Part:
    """Some of the numbers of one release: the most that one row adds to them.

    `l1` and `square` bound the ℓ1 norm and the squared ℓ2 norm of what a row adds, `unit` any one number of it;
    `share` is the part's share of the budget, over all the `times` that it is released.
    """

    l1: int
    square: int
    unit: int
    share: Fraction = Fraction(1)
    times: int = 1


@dataclass(frozen=True, slots=True)
class Reach:
    """How long a row z of whole numbers can be: Σz² ≤ square, Σ|z| ≤ l1, and Σ|z| ≤ UNIT in each group of columns."""

    square: int
    l1: int
    units: int
    groups: Groups = ()

    @property
    def with_constant(self) -> "Reach":
        """That of (UNIT, z); groups are left out."""
        return Reach(self.square + UNIT * UNIT, self.l1 + UNIT, self.units + 1)


def reach_of(columns: int, *, norm: Number | None = None, l1: Number | None = None, groups: Groups = ()) -> Reach:
    """What bounds, declared norms of the scaled row, and categories imply; `units` counts a category as one column.

    Guarantee: rows with |z| ≤ UNIT, groups of Σ|z| ≤ UNIT, ‖z‖ ≤ norm·UNIT and ‖z‖₁ ≤ l1·UNIT are within it.
    Proof. A group of ℓ1 norm at most UNIT has ℓ2 norm at most UNIT: so each of the `units` adds at most UNIT² to the
    square and UNIT to the sum. ‖z‖₁ ≤ √columns·‖z‖ (Cauchy, Schwarz), a whole number; and ‖z‖² ≤ UNIT·‖z‖₁.

    >>> reach_of(4) == Reach(4 * UNIT**2, 4 * UNIT, 4), reach_of(4, norm=1) == Reach(UNIT**2, 2 * UNIT, 4)
    (True, True)
    >>> reach_of(4, groups=((1, 2, 3),)) == Reach(2 * UNIT**2, 2 * UNIT, 2, ((1, 2, 3),))
    True
    """
    units = columns - sum(max(len(group) - 1, 0) for group in groups)
    square, least = units * UNIT * UNIT, Fraction(1, 1000)
    if norm is not None:
        square = min(square, math.floor(rational(norm, "norm", at_least=least) ** 2 * UNIT * UNIT))
    most = min(units * UNIT, math.isqrt(columns * square))
    if l1 is not None:
        most = min(most, math.floor(rational(l1, "l1", at_least=least) * UNIT))
    return Reach(min(square, UNIT * most), most, units, groups)


@dataclass(frozen=True, slots=True)
class Noise:
    """Noise for the parts of one release: discrete Laplace or rounded Gaussian, a scale for each part."""

    gaussian: bool
    scales: tuple[Fraction, ...]
    loss: Loss

    def add(self, part: int, sums: Ints, entropy: Entropy | None) -> Ints:
        """The sums of a part with fresh noise."""
        draw = rounded_gaussian if self.gaussian else discrete_laplace
        return np.asarray(sums + draw(self.scales[part], sums.shape, entropy=entropy), np.int64)

    def deviation(self, part: int) -> float:
        """The standard deviation of the noise on each number of a part, nearly."""
        return float(self.scales[part]) * (1 if self.gaussian else math.sqrt(2))


def planned(
    parts: Sequence[Part],
    *,
    epsilon: Number,
    delta: Number,
    times: int = 1,
    rows: int | None = None,
    stated: Number | None = None,
) -> Noise:
    """The noise with which these parts may be released `times` times, all together for (ε, δ).

    Guarantee: under "add or remove one" the releases cost `Noise.loss`, which is (ε, δ)-DP. Under "change one" a row
    leaves and another enters: Pure(2ε), or a Gaussian of half the multiplier.
    Proof. δ = 0: part p has scale b_p = l1_p/(share_p·ε/times), so one release has log ratio at most
    Σ l1_p/b_p ≤ ε/times (`mechanisms.Geometric`). Gaussian: σ_p = m·√(square_p/share_p). Dividing each part by its σ_p
    leaves a shift of squared norm at most Σ square_p/σ_p² ≤ 1/m² under standard normal noise; rounding to whole numbers
    is post-processing, since the sums are whole (`noise.normal`). `times` Gaussians of multiplier √times·m₁ shift by
    1/m₁² together, also if each is chosen after seeing those before (Dong, Roth, Su 2022: composition of Gaussian DP).
    A part that is released `part.times` times has its share divided by them. Where δ > 0 both hold, and the one with
    less noise is taken: a choice by public settings.

    If the owner states that there are about `rows` rows, an ε whose noise drowns them is refused here; as `stated`, if
    that is the ε of which this is a share.
    """
    target, at = rational(epsilon, "epsilon", above=0), rational(delta, "delta", at_least=0, below=1)
    count = integer(times, "times", at_least=1)
    if sum(part.share for part in parts) > 1:
        raise InvalidParameter("share", "shares that add up to more than 1", "at most 1")
    noise = _laplace(parts, target, count)
    if at:
        other = _gaussian(parts, target, at, count)
        noise = min(noise, other, key=lambda one: sum(math.log(one.deviation(p)) for p in range(len(parts))))
    _possible(noise, parts, epsilon if stated is None else stated, rows)
    return noise


def _laplace(parts: Sequence[Part], epsilon: Fraction, times: int) -> Noise:
    each = epsilon / times
    alone = [Pure(part.share * each / part.times) for part in parts]
    scales = tuple(part.l1 * part.times / (part.share * each) for part in parts)
    return Noise(False, scales, _together(parts, Pure(each), alone, times))


def _gaussian(parts: Sequence[Part], epsilon: Fraction, delta: Fraction, times: int) -> Noise:
    once = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    each = decimal_up(once * root_up(Fraction(times)))
    multipliers = [decimal_up(each * root_up(part.times / part.share)) for part in parts]
    scales = (decimal_up(m * root_up(Fraction(part.square))) for m, part in zip(multipliers, parts, strict=True))
    alone = [GaussianNoise(m) for m in multipliers]
    loss = _together(parts, GaussianNoise(each), alone, times)
    return Noise(True, tuple(max(scale, Fraction(1, 8)) for scale in scales), loss)


def _together(parts: Sequence[Part], joint: Loss, alone: Sequence[Loss], times: int) -> Loss:
    """One loss for parts that are released side by side; part by part where they are released at different times."""
    loss = joint
    if any(part.times > 1 for part in parts):
        loss = Together(*(Repeated(one, part.times) for one, part in zip(alone, parts, strict=True)))
    return loss if times == 1 else Repeated(loss, times)


def _possible(noise: Noise, parts: Sequence[Part], epsilon: Number, rows: int | None) -> None:
    if max(noise.scales) > LARGEST:
        raise InvalidParameter("epsilon", epsilon, "a larger ε", "its noise would not fit the grid of exact sums")
    if rows is None:
        return
    count = integer(rows, "rows", at_least=1, at_most=MOST_ROWS)
    drowned = max(noise.deviation(place) / (part.unit * count) for place, part in enumerate(parts))
    if drowned >= 1:
        raise InvalidParameter(
            "epsilon",
            epsilon,
            f"a larger ε for about {count} rows",
            f"the noise would be {drowned:.3g} times the largest possible sum; "
            "use fewer columns, a smaller norm, or more rows",
        )


def moved(noise: Noise, parts: Sequence[Part]) -> Loss:
    """What releases with this noise cost, from its scales and from what a row adds: not from what `planned` states.

    Proof: that of `planned`, read backwards; a Gaussian of deviation 1 that is shifted by r has the multiplier 1/r.

    >>> moved(planned([Part(2, 4, 1)], epsilon=1, delta=0), [Part(2, 4, 1)])
    Pure(epsilon=1)
    """
    pairs = list(zip(parts, noise.scales, strict=True))
    if not noise.gaussian:
        return Pure(sum((part.l1 * part.times / scale for part, scale in pairs), Fraction(0)))
    shift = sum((part.square * part.times / scale**2 for part, scale in pairs), Fraction(0))
    return GaussianNoise(1 / root_up(shift))


def warn_of_noise(size: float, rows: int | None, *, level: int, paid: bool = False) -> None:
    """Warn that noise of this size (a norm, in rows) will drown what `rows` rows can say.

    Rows all alike would say 1 each; what distinguishes classes or moves a target is some tenths of that. `rows` is what
    the owner states, and the warning comes before anything is paid; or a noisy count that was paid for, since the exact
    number may be private (`paid`). None: nothing is said. Where warnings are errors, the first refuses a fit that costs
    nothing then, the second ends one that was paid for.
    """
    if rows is None or size < _DOUBTFUL * rows:
        return
    warnings.warn(
        f"expect little: the noise will have the size of {size:,.0f} rows, of about {rows:,}; use a larger ε, fewer "
        "columns, a smaller norm, declared categories (one_hot), or δ > 0",
        RuntimeWarning if paid else NoiseWarning,
        stacklevel=level,
    )


def root_up(x: Fraction) -> Fraction:
    """A rational not below √x, near to it.

    >>> float(root_up(Fraction(9)))
    3.0
    """
    return Fraction(sqrt_bounds(x, _ROOT_BITS)[1], 1 << _ROOT_BITS)


def snapped(values: Floats, box: Box, reach: Reach | None = None) -> Ints:
    """Rows clamped, scaled and snapped: whole numbers from −UNIT to UNIT, within `reach` where given.

    Guarantee: the bounds hold exactly, whatever the values are. Proof. `Box.scaled` ends in a clip to [−1, 1], so
    rounding to nearest stays within ±UNIT. Norms are added up in int64, squares below 2⁶³ for up to 2³² columns; what
    is above a bound is shortened in floats, cut towards zero and measured again, and would count as zero if still
    above. Groups come first: what shortens a row afterwards shortens its groups too.
    """
    z = box.scaled(values)
    z *= UNIT
    whole = np.rint(z).astype(np.int64)
    if reach is None:
        return whole
    for group in reach.groups:
        _hold_group(z, whole, np.array(group, np.intp))
    long = _beyond(whole, reach)
    if len(long):
        rows = np.ascontiguousarray(z[long])  # so that sums of a row do not depend on others
        squares, sums = (rows**2).sum(axis=1), np.abs(rows).sum(axis=1)
        shrink = np.minimum(np.minimum(1.0, np.sqrt(reach.square / squares)), reach.l1 / sums)
        whole[long] = np.trunc(rows * (shrink * (1 - 2.0**-40))[:, None]).astype(np.int64)
        whole[_beyond(whole, reach)] = 0
    return whole


def weighted(whole: Ints, weights: Floats | None) -> Ints:
    """Whole numbers times weights from 0 to 1, row by row, cut towards zero: no entry becomes larger.

    Proof. A product of floats of which one is at most 1 is rounded to at most the other, because rounding is monotone
    and whole numbers below 2⁵³ are floats. So every bound on norms of a row holds afterwards, too.

    >>> weighted(np.array([[4, -3]]), np.array([0.5])).tolist()
    [[2, -1]]
    """
    return whole if weights is None else np.trunc(whole * weights[:, None]).astype(np.int64)


def _hold_group(z: Floats, whole: Ints, group: NDArray[np.intp]) -> None:
    """Shorten a category's columns, in both arrays, where Σ|z| is above UNIT: such a row is not one-hot."""
    odd = np.flatnonzero(np.abs(whole[:, group]).sum(axis=1) > UNIT)
    if not len(odd):
        return
    cells = np.ascontiguousarray(whole[np.ix_(odd, group)])
    shorter = np.trunc(cells * (UNIT * (1 - 2.0**-40) / np.abs(cells).sum(axis=1))[:, None]).astype(np.int64)
    shorter[np.abs(shorter).sum(axis=1) > UNIT] = 0
    whole[np.ix_(odd, group)], z[np.ix_(odd, group)] = shorter, shorter


def _beyond(whole: Ints, reach: Reach) -> Ints:
    """The rows that are longer than allowed."""
    columns = whole.shape[1]
    odd = np.zeros(len(whole), bool)
    if reach.square < UNIT * UNIT * columns:
        odd |= norms(whole) > reach.square
    if reach.l1 < UNIT * columns:
        odd |= np.abs(whole).sum(axis=1) > reach.l1
    return np.flatnonzero(odd)


def norms(whole: Ints) -> Ints:
    """The squared norm of each row, exactly."""
    return np.asarray((whole * whole).sum(axis=1), np.int64)


def products(left: Ints, right: Ints) -> Ints:
    """leftᵀ·right, exactly, for entries whose products are at most UNIT² in size.

    Guarantee: exact. Proof. In a block of 2¹⁶ rows all partial sums are whole and below 2¹⁶·2³⁰ < 2⁵³, so float64
    products and sums are exact in any order; blocks are added up in int64, exact for up to 2³¹ rows.

    >>> products(np.array([[1], [2]]), np.array([[3], [4]])).tolist()
    [[11]]
    """
    if len(left) > MOST_ROWS:
        raise InvalidData(f"got {len(left)} rows, expected at most {MOST_ROWS}")
    total = np.zeros((left.shape[1], right.shape[1]), np.int64)
    for start in range(0, len(left), _BLOCK):
        a, b = left[start : start + _BLOCK], right[start : start + _BLOCK]
        total += (a.astype(np.float64).T @ b.astype(np.float64)).astype(np.int64)
    return total


def indicators(places: Ints, count: int) -> Ints:
    """For each row, a 1 at its place among `count`.

    >>> indicators(np.array([1, 0]), 2).tolist()
    [[0, 1], [1, 0]]
    """
    ones = np.zeros((len(places), count), np.int64)
    ones[np.arange(len(places)), places] = 1
    return ones


def triangle(symmetric: Ints) -> Ints:
    """The upper triangle, with the diagonal, of a symmetric matrix."""
    return np.asarray(symmetric[np.triu_indices(len(symmetric))], np.int64)


def mirrored(upper: Ints | Floats, size: int) -> Floats:
    """The symmetric matrix of an upper triangle.

    >>> mirrored(np.array([1, 2, 3]), 2).tolist()
    [[1.0, 2.0], [2.0, 3.0]]
    """
    full = np.zeros((size, size))
    full[np.triu_indices(size)] = upper
    return np.asarray(full + np.triu(full, 1).T)


def triangle_part(reach: Reach, share: Fraction) -> Part:
    """What a row v within `reach` adds to the upper triangle of Σvvᵀ.

    Proof. Σ_{i≤j}(vᵢvⱼ)² = (‖v‖⁴ + Σvᵢ⁴)/2 and Σvᵢ⁴ ≤ UNIT²·‖v‖². Σ_{i≤j}|vᵢvⱼ| = (‖v‖₁² + ‖v‖²)/2.
    """
    whole, sum_ = reach.square, reach.l1
    return Part((sum_ * sum_ + whole) // 2, (whole * whole + UNIT * UNIT * whole) // 2, UNIT * UNIT, share)


def noisy_float(deviation: float) -> float:
    """A deviation in whole numbers as one of products of scaled values."""
    return float_up(Fraction(deviation)) / (UNIT * UNIT)
