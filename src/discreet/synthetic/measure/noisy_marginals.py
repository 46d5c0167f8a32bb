"""Noisy marginals: the one place where counts of private rows meet noise.

Several marginals are measured at once. Their noise is Gaussian, rounded to whole numbers, so they cost together what
one Gaussian release costs, by its exact profile; how much noise each gets is a public decision.
"""

import json
import math
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational, sqrt_bounds
from discreet.mechanisms.mechanism import add
from discreet.noise import Entropy, rounded_gaussian
from discreet.privacy.accounting.rounding import decimal_down, decimal_up
from discreet.privacy.calibration import gaussian_multiplier
from discreet.privacy.loss import GaussianNoise
from discreet.privacy.unit import Neighbors, relation
from discreet.synthetic.measure.marginals import (
    Attributes,
    Ints,
    cells,
    checked_attributes,
    checked_codes,
    checked_sizes,
    counts,
    ones,
    pairs,
    triples,
)

_SHARES = {1: 0.1, 2: 0.9, 3: 0.2}  # of the budget to columns, to pairs, and to triples (taken from the pairs' share)
_SMALL = 500  # cells of a triple with the target
_FEWEST, _MOST = Fraction(1, 8), Fraction(1 << 40)  # noise that can be drawn, and noise that is of any use
_BITS = 80


@dataclass(frozen=True, slots=True)
class Design:
    """Which marginals are measured together, and with how much noise each. A unit has at most `rows_per_unit` rows.

    >>> float(Design((2, 3), ((0,), (0, 1)), (10, 10), neighbors="add or remove one").loss.multiplier)
    7.07106781186
    """

    sizes: tuple[int, ...]
    marginals: tuple[Attributes, ...]
    sigmas: tuple[Fraction, ...]
    neighbors: Neighbors
    rows_per_unit: int

    def __init__(
        self,
        sizes: Sequence[int],
        marginals: Sequence[Sequence[int]],
        sigmas: Sequence[Number],
        *,
        neighbors: Neighbors | str,
        rows_per_unit: int = 1,
    ) -> None:
        exact = checked_sizes(sizes)
        named = tuple(checked_attributes(each, exact) for each in marginals)
        if not named or len(named) != len(sigmas):
            raise InvalidParameter("sigmas", f"{len(sigmas)} for {len(named)} marginals", "one for each marginal, ≥ 1")
        noise = tuple(rational(sigma, "sigmas", at_least=_FEWEST, at_most=_MOST) for sigma in sigmas)
        object.__setattr__(self, "sizes", exact)
        object.__setattr__(self, "marginals", named)
        object.__setattr__(self, "sigmas", noise)
        object.__setattr__(self, "neighbors", relation(neighbors))
        object.__setattr__(self, "rows_per_unit", integer(rows_per_unit, "rows_per_unit", at_least=1, at_most=10**6))

    @property
    def loss(self) -> GaussianNoise:
        """What measuring all of them costs: one Gaussian release.

        Guarantee: `measure` costs this, for the neighbors named. Proof. Adding a unit of k ≤ K rows adds whole numbers
        ≥ 0 that sum to k to each marginal: an ℓ2 norm of at most K. Changing a unit adds one such vector and takes
        another away; their squared distance is at most 2K², since their product is not negative. Dividing the i-th
        marginal by σ_i leaves a shift of squared norm at most S = s·Σ 1/σ_i² (s = K² or 2K²) under standard normal
        noise, which is one Gaussian of multiplier 1/√S (project on the shift). Counts are whole, so rounding the noise
        to whole numbers is post-processing of the continuous release (`noise.normal`).
        """
        shift = self._inverse * squared_sensitivity(self.neighbors, self.rows_per_unit)
        return GaussianNoise(decimal_down(Fraction(sqrt_bounds(1 / shift, _BITS)[0], 1 << _BITS), 12))

    @property
    def sigma_left_out(self) -> Fraction:
        """The noise on the number of rows that are in no marginal, with which that number costs nothing more.

        Guarantee: `count_left_out` and `measure` together cost `loss`. Proof. With S = Σ 1/σ_i², this is σ ≥ 1/√S. A
        unit has at most K rows: k of them are counted in every marginal, and l others in one cell each of what is left
        out, k + l ≤ K. In units of the noise they shift the release by a squared norm of at most k²·S + l²/σ² ≤
        (k² + l²)·S ≤ K²·S, which `loss` has for k = K. Changing a unit takes one such vector away and adds another; no
        entry of either is negative, so the squared distance is at most 2·K²·S, as there.
        """
        return decimal_up(root_up(1 / self._inverse), 9)

    @property
    def _inverse(self) -> Fraction:
        """Σ 1/σ², rounded up."""
        each = Counter(self.sigmas).items()
        return sum((count * decimal_up(1 / (sigma * sigma), 40) for sigma, count in each), Fraction(0))

    def noise_alone(self, rows: int) -> float:
        """The mean total variation that noise alone would cause in the pairs of so many rows, before any fitting.

        A fit removes some two thirds of it. Where this is near 1 or above, the budget is too small for the table.

        >>> design = design_for((2, 3), epsilon=1, delta="1e-9", neighbors="add or remove one")
        >>> design.noise_alone(100) > 0.1 > design.noise_alone(10_000)
        True
        """
        exact = integer(rows, "rows", at_least=1)
        widest = [each for each in zip(self.marginals, self.sigmas, strict=True) if len(each[0]) == 2]
        chosen = widest or list(zip(self.marginals, self.sigmas, strict=True))
        noise = [cells(marginal, self.sizes) * float(sigma) for marginal, sigma in chosen]
        return sum(noise) / len(noise) / math.sqrt(2 * math.pi) / exact


@dataclass(frozen=True, slots=True, eq=False)
class Measurement:
    """A marginal with noise of standard deviation `sigma` on each count. Public."""

    attributes: Attributes
    counts: Ints
    sigma: float


def design_for(
    sizes: Sequence[int],
    *,
    epsilon: Number,
    delta: Number,
    neighbors: Neighbors | str,
    rows_per_unit: int = 1,
    target: int | None = None,
    most_cells: int = _SMALL,
) -> Design:
    """All columns and all pairs (and the small triples with the target, if there is one), for (ε, δ)-DP.

    >>> from discreet.privacy.accounting import guarantee
    >>> design = design_for((2, 3, 4), epsilon=1, delta="1e-9", neighbors="add or remove one")
    >>> len(design.marginals), 0.9999 < guarantee(design.loss, delta="1e-9").epsilon <= 1
    (6, True)
    """
    multiplier = gaussian_multiplier(epsilon=epsilon, delta=delta, method="analytic")
    return design(
        sizes,
        multiplier=multiplier,
        neighbors=neighbors,
        rows_per_unit=rows_per_unit,
        target=target,
        most_cells=most_cells,
    )


def design(
    sizes: Sequence[int],
    *,
    multiplier: Number,
    neighbors: Neighbors | str,
    rows_per_unit: int = 1,
    target: int | None = None,
    most_cells: int = _SMALL,
) -> Design:
    """The same, for the cost of one Gaussian release of this noise multiplier.

    A tenth of the budget goes to single columns, the rest to pairs; with a target, a fifth of the whole goes to
    triples. Inside each kind a marginal's share grows with cells^(2/3). Proof that this is best for the sum over the
    marginals of the noise in all their cells, Σ c_i·σ_i, where Σ 1/σ_i² is given: Lagrange's condition is
    c_i = λ/σ_i³, so the share 1/σ_i² is ∝ c_i^(2/3).

    >>> made = design((2, 3, 4), multiplier=5, neighbors="add or remove one", target=0)
    >>> made.marginals[-1], made.loss.multiplier >= 5
    ((0, 1, 2), True)
    """
    exact = checked_sizes(sizes)
    place = None if target is None else integer(target, "target", at_least=0, at_most=len(exact) - 1)
    kinds = {1: ones(exact), 2: pairs(exact)}
    kinds[3] = () if place is None else triples(exact, most_cells=most_cells, target=place)
    return allotted(
        exact,
        [*kinds[1], *kinds[2], *kinds[3]],
        multiplier=multiplier,
        neighbors=neighbors,
        rows_per_unit=rows_per_unit,
    )


def allotted(
    sizes: Sequence[int],
    marginals: Sequence[Attributes],
    *,
    multiplier: Number,
    neighbors: Neighbors | str,
    rows_per_unit: int = 1,
) -> Design:
    """These marginals, with noise allotted as `design` says, for the cost of one Gaussian release of this multiplier.

    >>> allotted((2, 3), [(0, 1)], multiplier=5, neighbors="add or remove one").sigmas[0] >= 5
    True
    """
    exact = rational(multiplier, "multiplier", above=0, at_most=1 << 40)
    square = squared_sensitivity(relation(neighbors), integer(rows_per_unit, "rows_per_unit", at_least=1))
    whole = exact * Fraction(sqrt_bounds(Fraction(square), _BITS)[1], 1 << _BITS)
    sigmas = [
        max(_FEWEST, decimal_up(whole * Fraction((1 + 1e-9) / math.sqrt(share)), 9))
        for share in _shares(sizes, marginals)
    ]
    return Design(sizes, marginals, sigmas, neighbors=neighbors, rows_per_unit=rows_per_unit)


def _shares(sizes: Sequence[int], marginals: Sequence[Attributes]) -> list[float]:
    """Each marginal's share of the budget; together 1."""
    orders = [min(len(each), 3) for each in marginals]
    wanted = {order: _SHARES[order] for order in sorted(set(orders))}
    if 2 in wanted and 3 in wanted:
        wanted[2] -= wanted[3]
    sizes_of = [cells(each, sizes) ** (2 / 3) for each in marginals]
    sums = {order: sum(s for s, o in zip(sizes_of, orders, strict=True) if o == order) for order in wanted}
    rest = sum(wanted.values())
    return [wanted[o] / rest * s / sums[o] for s, o in zip(sizes_of, orders, strict=True)]


def measure(codes: Any, design: Design, *, entropy: Entropy | None = None) -> tuple[Measurement, ...]:
    """Count, and add noise.

    Guarantee: costs `design.loss`. Proof there; counts are exact and rows enter nothing else.

    >>> from discreet.noise import DeterministicEntropy
    >>> plan = Design((2, 2), ((0, 1),), (1,), neighbors="add or remove one")
    >>> rows = np.zeros((1000, 2), np.int64)
    >>> found, = measure(rows, plan, entropy=DeterministicEntropy(1))
    >>> bool(abs(found.counts[0, 0] - 1000) < 10), found.counts.shape
    (True, (2, 2))
    """
    table = checked_codes(codes, design.sizes)
    return tuple(
        noisy(table, design.sizes, marginal, sigma, entropy)
        for marginal, sigma in zip(design.marginals, design.sigmas, strict=True)
    )


def count_left_out(reasons: Ints, kinds: int, design: Design, *, entropy: Entropy | None = None) -> tuple[int, ...]:
    """Count the rows that no marginal counts, by reason, and add noise.

    `reasons` has a code from 0 to kinds − 1 for each row that is left out, and for no other.

    Guarantee: costs nothing beside `measure` of the other rows by the same design. Proof: `Design.sigma_left_out`.

    >>> from discreet.noise import DeterministicEntropy
    >>> plan = Design((2, 2), ((0, 1),), (1,), neighbors="add or remove one")
    >>> found = count_left_out(np.zeros(500, np.int64), 2, plan, entropy=DeterministicEntropy(1))
    >>> abs(found[0] - 500) < 10, abs(found[1]) < 10
    (True, True)
    """
    if not kinds:
        return ()
    table = checked_codes(np.asarray(reasons, np.int64)[:, None], (kinds,))
    found = noisy(table, (kinds,), (0,), design.sigma_left_out, entropy)
    return tuple(found.counts.tolist())


def noisy(
    codes: NDArray[Any], sizes: Sequence[int], marginal: Attributes, sigma: Fraction, entropy: Entropy | None
) -> Measurement:
    """One marginal with fresh noise; its cost is a Gaussian release of σ divided by √(squared sensitivity)."""
    exact = counts(codes, sizes, marginal)
    noise = np.asarray(rounded_gaussian(sigma, exact.shape, entropy=entropy))
    return Measurement(marginal, add(exact, noise), float(sigma))


def with_noise(exact: Ints, sigma: Fraction, entropy: Entropy | None) -> Ints:
    """Whole counts with Gaussian noise that is rounded to whole numbers."""
    return add(exact, np.asarray(rounded_gaussian(sigma, exact.shape, entropy=entropy)))


def squared_sensitivity(neighbors: Neighbors, rows_per_unit: int) -> int:
    """The most that one unit moves a marginal, in squared ℓ2 norm; the proof is in `Design.loss`.

    >>> squared_sensitivity(Neighbors.CHANGE_ONE, 3)
    18
    """
    return rows_per_unit**2 * (1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2)


def share_of(multiplier: Fraction, share: Fraction) -> Fraction:
    """The multiplier of a release that takes this share of 1/multiplier², rounded up.

    Guarantee: Gaussian releases of shares that add up to at most 1 cost together at most one of `multiplier`. Proof.
    Their inverse squares add up (Dong, Roth, Su 2022, "Gaussian differential privacy", on composition).

    >>> float(share_of(Fraction(3), Fraction(1, 4)))
    6.0
    """
    return multiplier * root_up(1 / share)


def root_up(value: Fraction | int) -> Fraction:
    """The square root, rounded up.

    >>> root_up(2) ** 2 > 2
    True
    """
    return Fraction(sqrt_bounds(Fraction(value), 64)[1], 1 << 64)


def total(measurements: Sequence[Measurement]) -> float:
    """The number of rows, from the noisy marginals alone: each adds up to it, with a known variance. At least 1.

    >>> total([Measurement((0,), np.array([60, 41]), 1.0), Measurement((1,), np.array([52, 51]), 1.0)])
    102.0
    """
    sums = np.array([float(measurement.counts.sum()) for measurement in some(measurements)])
    weights = np.array([1 / (measurement.counts.size * measurement.sigma**2) for measurement in measurements])
    return max(1.0, float(sums @ weights / weights.sum()))


def some(measurements: Sequence[Measurement]) -> Sequence[Measurement]:
    """The measurements, of which there must be one at least."""
    if not measurements:
        raise InvalidData("no measurements; expected one at least")
    return measurements


def packed(measurements: Sequence[Measurement]) -> bytes:
    """Measurements as bytes, the same for the same measurements.

    >>> one, = unpacked(packed([Measurement((0,), np.array([3, -1]), 2.5)]))
    >>> one.attributes, one.counts.tolist(), one.sigma
    ((0,), [3, -1], 2.5)
    """
    heads = [{"attributes": m.attributes, "shape": m.counts.shape, "sigma": m.sigma} for m in measurements]
    head = json.dumps(heads, separators=(",", ":")).encode()
    body = b"".join(m.counts.astype("<i8").tobytes() for m in measurements)
    return len(head).to_bytes(8, "big") + head + zlib.compress(body, 6)


def unpacked(stored: bytes) -> tuple[Measurement, ...]:
    """What `packed` wrote."""
    try:
        size = int.from_bytes(stored[:8], "big")
        heads = json.loads(stored[8 : 8 + size])
        flat = np.frombuffer(zlib.decompress(stored[8 + size :]), "<i8").astype(np.int64)
        ends = [0, *accumulate(math.prod(head["shape"]) for head in heads)]
        if ends[-1] != len(flat):
            raise ValueError(f"{len(flat)} counts")
        return tuple(
            Measurement(tuple(head["attributes"]), flat[start:end].reshape(head["shape"]), float(head["sigma"]))
            for head, (start, end) in zip(heads, pairwise(ends), strict=True)
        )
    except (ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
        raise InvalidData("measurements: these bytes are not what was written") from error
