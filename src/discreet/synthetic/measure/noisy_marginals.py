"""Noisy marginals: the one place where counts of private rows meet noise.

Several marginals are measured at once. Their noise is Gaussian, rounded to whole numbers, so they cost together what
one Gaussian release costs, by its exact profile; how much noise each gets is a public decision.

Tables of codes and their marginals: how many rows have each combination of codes in a few columns.

A table is an integer array (rows, columns); column j holds codes 0 … sizes[j] − 1. A marginal is named by its columns'
positions, ascending.

`Allowed` says what is known about every row without looking at any: combinations of codes that cannot occur.
"""

import json
import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, combinations, pairwise
from typing import Any, Protocol

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

Attributes = tuple[int, ...]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_COLUMNS = 1000
MOST_CELLS = 10**7
"""Cells of one marginal."""


def checked_sizes(sizes: Sequence[int]) -> tuple[int, ...]:
    """The number of codes of each column.

    >>> checked_sizes([2, 3])
    (2, 3)
    """
    if isinstance(sizes, str | bytes) or not isinstance(sizes, Sequence) or not 0 < len(sizes) <= MOST_COLUMNS:
        raise InvalidParameter("sizes", sizes, f"the number of codes of 1 to {MOST_COLUMNS} columns")
    return tuple(integer(size, "sizes", at_least=1, at_most=MOST_CELLS) for size in sizes)


def checked_codes(codes: Any, sizes: Sequence[int]) -> NDArray[Any]:
    """A table of codes that fits the sizes; the message of a refusal names a column and no value.

    >>> checked_codes([[0, 2], [1, 0]], (2, 3)).shape
    (2, 2)
    """
    table, exact = np.asarray(codes), checked_sizes(sizes)
    if table.ndim != 2 or table.dtype.kind not in "iu" or table.shape[1] != len(exact):
        expected = f"whole numbers in {len(exact)} columns"
        raise InvalidData(f"codes of shape {table.shape} and type {table.dtype}, expected {expected}")
    for column, size in enumerate(exact):
        if len(table) and not (table[:, column].min() >= 0 and table[:, column].max() < size):
            raise InvalidData(f"column {column} holds codes outside of 0 … {size - 1}")
    return table


def checked_attributes(attributes: Iterable[int], sizes: Sequence[int]) -> Attributes:
    """The columns of a marginal: positions, ascending, of a marginal that is not too large.

    >>> checked_attributes([0, 2], (2, 3, 4))
    (0, 2)
    """
    results = tuple(integer(attribute, "attributes", at_least=0, at_most=len(sizes) - 1) for attribute in attributes)
    if not results or list(results) != sorted(set(results)):
        raise InvalidParameter("attributes", results, "one or more column positions, ascending, each once")
    if cells(results, sizes) > MOST_CELLS:
        hint = "leave a column out, or give it fewer codes"
        raise InvalidParameter("attributes", results, f"a marginal of at most {MOST_CELLS:,} cells", hint)
    return results


def cells(attributes: Attributes, sizes: Sequence[int]) -> int:
    """How many cells the marginal of these columns has.

    >>> cells((0, 2), (2, 3, 4))
    8
    """
    return math.prod(sizes[attribute] for attribute in attributes)


def counts(codes: NDArray[Any], sizes: Sequence[int], attributes: Attributes) -> Ints:
    """How many rows fall into each cell, exactly.

    >>> counts(np.array([[0, 1], [0, 1], [1, 0]]), (2, 2), (0, 1)).tolist()
    [[0, 2], [1, 0]]
    """
    shape = tuple(sizes[attribute] for attribute in attributes)
    flat = np.zeros(len(codes), np.int64)
    for attribute, size in zip(attributes, shape, strict=True):
        flat *= size
        flat += codes[:, attribute]
    return np.bincount(flat, minlength=math.prod(shape)).reshape(shape)


def ones(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every column by itself."""
    return tuple((attribute,) for attribute in range(len(sizes)))


def pairs(sizes: Sequence[int]) -> tuple[Attributes, ...]:
    """Every pair of columns that have more than one code each.

    >>> pairs((2, 1, 3, 2))
    ((0, 2), (0, 3), (2, 3))
    """
    return tuple(combinations([attribute for attribute, size in enumerate(sizes) if size > 1], 2))


def triples(sizes: Sequence[int], *, most_cells: int, target: int | None = None) -> tuple[Attributes, ...]:
    """Every triple of columns (with the target among them, if one is named) of at most so many cells.

    >>> triples((2, 3, 4, 5), most_cells=40, target=0)
    ((0, 1, 2), (0, 1, 3), (0, 2, 3))
    """
    live = [attribute for attribute, size in enumerate(sizes) if size > 1]
    result = (each for each in combinations(live, 3) if target is None or target in each)
    return tuple(each for each in result if cells(each, sizes) <= most_cells)


class MarginalModel(Protocol):
    """A fitted table: what it expects in each cell of any marginal."""

    @property
    def total(self) -> float:
        """The number of rows."""
        ...

    def marginal(self, attributes: Attributes) -> Floats:
        """The counts expected in each cell."""
        ...


Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Allowed:
    """Which combinations of codes of some columns may occur; the others are structural zeros. Public knowledge.

    >>> married_children = Allowed((0, 1), np.array([[True, False], [True, True]]), (2, 2))
    >>> married_children.holds(np.array([[0, 0], [0, 1]])).tolist()
    [True, False]
    """

    attributes: Attributes
    table: Bools

    def __init__(self, attributes: Sequence[int], table: Any, sizes: Sequence[int]) -> None:
        named = checked_attributes(attributes, sizes)
        cells = np.asarray(table)
        shape = tuple(sizes[attribute] for attribute in named)
        if cells.dtype != np.bool_ or cells.shape != shape:
            raise InvalidParameter("table", f"{cells.dtype} of shape {cells.shape}", f"booleans of shape {shape}")
        if not cells.any():
            raise InvalidParameter("table", "nothing allowed", "one combination at least")
        object.__setattr__(self, "attributes", named)
        object.__setattr__(self, "table", cells)

    def holds(self, codes: NDArray[Any]) -> Bools:
        """Which rows satisfy it."""
        return np.asarray(self.table[tuple(codes[:, attribute] for attribute in self.attributes)])

    @property
    def is_order(self) -> bool:
        """Whether one of two columns is at most the other: what codes go with is nested, in three steps or more.

        >>> at_most(0, 1, (3, 3)).is_order, Allowed((0, 1), np.eye(3, dtype=bool), (3, 3)).is_order
        (True, False)
        """
        if len(self.attributes) != 2:
            return False
        rows = self.table[np.argsort(self.table.sum(axis=1), kind="stable")]
        return bool((rows[:-1] <= rows[1:]).all()) and len(np.unique(rows, axis=0)) > 2


def at_most(
    first: int, second: int, sizes: Sequence[int], *, lower: Any = None, upper: Any = None, missing: bool = False
) -> Allowed:
    """A ≤ B for two ordered columns: a pair of codes is allowed where some value of A's is ≤ some value of B's.

    By default the codes are compared. `lower[i]` is the least value of A with code i and `upper[j]` the greatest of B
    with code j, where their bins differ. If `missing`, the last code of each column means missing and goes with all.

    >>> at_most(0, 1, (3, 3)).table.astype(int).tolist()
    [[1, 1, 1], [0, 1, 1], [0, 0, 1]]
    """
    if first == second:
        raise InvalidParameter("second", second, f"another column than {first}")
    checked_attributes(sorted((first, second)), sizes)
    low = np.arange(sizes[first]) if lower is None else np.asarray(lower)
    high = np.arange(sizes[second]) if upper is None else np.asarray(upper)
    if low.shape != (sizes[first],) or high.shape != (sizes[second],):
        raise InvalidParameter(
            "lower", f"{low.shape} and {high.shape}", f"{sizes[first]} numbers, and {sizes[second]} for upper"
        )
    table = low[:, None] <= high[None, :]
    if missing:
        table[-1, :] = table[:, -1] = True
    return Allowed(sorted((first, second)), table if first < second else table.T, sizes)


def groups(allowed: Sequence[Allowed]) -> list[tuple[list[int], list[Allowed]]]:
    """Constraints that share columns, directly or through others, together with all their columns.

    >>> chain = [at_most(0, 1, (2, 2, 2, 2)), at_most(1, 3, (2, 2, 2, 2))]
    >>> [columns for columns, _ in groups(chain)]
    [[0, 1, 3]]
    """
    results: list[tuple[set[int], list[Allowed]]] = []
    for rule in allowed:
        touching = [group for group in results if group[0] & set(rule.attributes)]
        columns = set(rule.attributes).union(*(group[0] for group in touching))
        together = [each for group in touching for each in group[1]]
        results = [group for group in results if not any(group is other for other in touching)]
        results.append((columns, [*together, rule]))
    return [(sorted(columns), together) for columns, together in results]


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
    result = noisy(table, (kinds,), (0,), design.sigma_left_out, entropy)
    return tuple(result.counts.tolist())


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
