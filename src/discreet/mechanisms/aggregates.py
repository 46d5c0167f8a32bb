"""Sums, means and histograms of records that clip, know their sensitivity and state their cost.

Each record is clipped to a declared `Range` (or looked up among declared categories) by itself, and becomes whole
numbers of grid steps, which are added exactly. State `epsilon` for ε-DP by geometric noise, or `rho` for Gaussian noise
of ρ-zCDP, whose loss is that of the continuous Gaussian. NaN and infinities are refused, by position: what a missing
value counts as is the caller's decision.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, float_up, integer, rational
from discreet.fields import Converted, DisplayMixin, Integer
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.mechanism import Grid, Steps, failure_probability
from discreet.mechanisms.quantile import Range
from discreet.noise import Entropy
from discreet.privacy.loss import Loss
from discreet.privacy.unit import Neighbors, relation

_MOST = 2**62 - 1
_MOST_RECORDS = 2**31
_MOST_CATEGORIES = 10_000_000


class Cost(Converted[Number | None, Fraction | None]):
    """ε or ρ; the other one is not said."""

    def __init__(self) -> None:
        def convert(value: Number | None, name: str) -> Fraction | None:
            return None if value is None else rational(value, name, above=0)

        super().__init__(convert, default=None)


@dataclass(frozen=True, kw_only=True)
class Sum(DisplayMixin):
    """The sum of records, each clipped to a declared range: one number, or `dimension` of them.

    Guarantee: ε-DP, or Gaussian noise of ρ-zCDP, for the neighbor relation stated.
    Proof. A record is d = `dimension` whole numbers from L to U, in steps. Under "change one" one record moves each sum
    by at most U − L, under "add or remove one" by at most max(|L|, |U|). So by d times that in ℓ1 norm and √d times in
    ℓ2 norm. Sums are exact, and holding them at ±2^62 brings no two further apart. The rest is `Geometric` or
    `RoundedGaussian`.

    >>> ages = Range(lower=0, upper=120, granularity=1)
    >>> total = Sum(epsilon=1, within=ages, neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    >>> total.sensitivity, total.interval("0.95")
    (120, 359.0)
    >>> abs(total.release([30, 40, 999]) - 190) < 5000
    True
    """

    epsilon: Cost = Cost()
    rho: Cost = Cost()
    within: Converted[Range, Range] = Converted(lambda value, _: _whole_range(value))
    neighbors: Converted[Neighbors | str, Neighbors] = Converted(lambda value, _: relation(value))
    dimension: Integer = Integer(at_least=1, default=1)

    def __post_init__(self) -> None:
        _ = self._noise  # refuses now what could not be drawn later

    @property
    def sensitivity(self) -> int:
        """The most that one unit can move each sum, in steps of the grid."""
        low, high = _ends(self.within)
        return high - low if self.neighbors is Neighbors.CHANGE_ONE else max(abs(low), abs(high))

    @property
    def loss(self) -> Loss:
        """ε-DP, or Gaussian noise."""
        return self._noise.loss

    @property
    def _noise(self) -> Geometric | RoundedGaussian:
        return _noise(self.epsilon, self.rho, self.dimension, self.sensitivity)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float | NDArray[np.float64]:
        """The noisy sum of records: a list of numbers, or of rows of `dimension` numbers."""
        sums = _sums(_records(value, self.within, self.dimension))
        return _floats(self._noise.release(sums, entropy=entropy), self.within.granularity, self.dimension)

    def interval(self, confidence: Number, *, records: int = 0) -> float:
        """A w with |release − sum of the clipped records| ≤ w at this confidence, for each number.

        Snapping moves each record by at most half a step. It is not counted unless you say how many `records` there
        are, and does not happen to values on the grid.
        """
        count = integer(records, "records", at_least=0)
        return float_up((self._noise.interval(confidence) + Fraction(count, 2)) * self.within.granularity)


@dataclass(frozen=True, kw_only=True)
class Mean(DisplayMixin):
    """The mean of records, each clipped to a declared range: one number, or `dimension` of them.

    Under "change one" the number of records is public: state it as `size`. Under "add or remove one" it is private, and
    two sums are released for each number: of the distances to the lower end of the range, A, and to the upper end, B.
    Their sum tells the number of records, A/(A + B) the mean's place in the range.

    Guarantee: ε-DP, or Gaussian noise of ρ-zCDP, for the neighbor relation stated.
    Proof. Let d = `dimension`, and U − L steps in the range. Change one: as for `Sum`. Add or remove one: a record adds
    (x − L, U − x) to each of d pairs of sums, U − L in ℓ1 norm and at most that in ℓ2 norm. The mean is a function of
    the noisy sums.

    >>> ages = Range(lower=0, upper=120, granularity=1)
    >>> mean = Mean(epsilon=1, within=ages, neighbors=Neighbors.CHANGE_ONE, size=1000)
    >>> mean.interval("0.95")
    0.859...
    >>> 40 < mean.release([30] * 500 + [60] * 500) < 50
    True
    """

    epsilon: Cost = Cost()
    rho: Cost = Cost()
    within: Converted[Range, Range] = Converted(lambda value, _: _whole_range(value))
    neighbors: Converted[Neighbors | str, Neighbors] = Converted(lambda value, _: relation(value))
    size: Converted[int | None, int | None] = Converted(
        lambda value, name: None if value is None else integer(value, name, at_least=1), default=None
    )
    dimension: Integer = Integer(at_least=1, default=1)

    def __post_init__(self) -> None:
        if (self.neighbors is Neighbors.CHANGE_ONE) != (self.size is not None):
            raise InvalidParameter(
                "size", self.size, "the number of records for 'change one', none for 'add or remove one'",
                "only when records change, and do not come or go, is their number public",
            )  # fmt: skip
        _ = self._noise  # refuses now what could not be drawn later

    @property
    def loss(self) -> Loss:
        """ε-DP, or Gaussian noise."""
        return self._noise.loss

    @property
    def _noise(self) -> Geometric | RoundedGaussian:
        return _noise(self.epsilon, self.rho, self.dimension, self.within.points - 1)

    def release(self, value: ArrayLike, /, *, entropy: Entropy | None = None) -> float | NDArray[np.float64]:
        """The noisy mean of records, a point of the range: of a list of numbers, or of rows of `dimension` numbers."""
        records = _records(value, self.within, self.dimension)
        if self.size is not None and len(records) != self.size:
            raise InvalidData(f"value: expected {self.size} records, as stated; state their number as size=")
        low, high = _ends(self.within)
        span = high - low
        above, below = _sums(records - low), _sums(high - records)
        if self.size is not None:
            shares = np.asarray(self._noise.release(above, entropy=entropy)) / (span * self.size)
        else:
            noisy = np.asarray(self._noise.release(np.stack([above, below]), entropy=entropy))
            parts = np.maximum(noisy, 0).astype(np.float64)
            total = parts.sum(axis=0)
            shares = np.where(total > 0, parts[0] / np.maximum(total, 1), 0.5)
        means = float(self.within.lower) + np.clip(shares, 0, 1) * float(span * self.within.granularity)
        return float(means[0]) if self.dimension == 1 else means

    def interval(self, confidence: Number, *, records: int | None = None) -> float:
        """A w with |release − mean of the clipped records| ≤ w at this confidence, for each number; snapping included.

        If their number is private, say for how many `records`: it holds if there are as many, or more.
        Proof. If the noise of A and of B is at most v in size, the noisy share of A in A + B is at most
        (A + v)/(A + v + B − v) = A/(A + B) + v/n(U − L), or it is 1 and B ≤ v; downwards it is the same with A and B
        exchanged. With a public size n the noise of A, divided by n(U − L), is the error.
        """
        given = self.size if records is None else records
        if given is None or (self.size is not None and records is not None):
            raise InvalidParameter("records", records, "how many there are if that is private, else nothing")
        count = integer(given, "records", at_least=1)
        width = self._noise.interval(1 - failure_probability(confidence) / (1 if self.size is not None else 2))
        span = self.within.points - 1
        return float_up((min(Fraction(width, count), Fraction(span)) + Fraction(1, 2)) * self.within.granularity)


@dataclass(frozen=True, kw_only=True)
class Histogram(DisplayMixin):
    """How many records fall into each of the declared categories.

    Categories are declared without looking at the data, so empty ones are counted too. A record of no category is
    refused, by position: declare one for it.

    Guarantee: ε-DP, or Gaussian noise of ρ-zCDP, for the neighbor relation stated.
    Proof. Adding or removing a record moves one count by 1; changing one moves at most two by 1: sensitivity 1 or 2 in
    ℓ1 norm, and squared in ℓ2 norm. The rest is `Geometric` or `RoundedGaussian`.

    >>> blood = Histogram(epsilon=1, categories=["A", "B", "AB", "0"], neighbors=Neighbors.ADD_OR_REMOVE_ONE)
    >>> blood.interval("0.95"), blood.release(["A", "0", "0"]).shape
    (3, (4,))
    """

    epsilon: Cost = Cost()
    rho: Cost = Cost()
    categories: Converted[Iterable[Hashable], tuple[Hashable, ...]] = Converted(lambda value, _: _categories(value))
    neighbors: Converted[Neighbors | str, Neighbors] = Converted(lambda value, _: relation(value))

    def __post_init__(self) -> None:
        _ = self._noise  # refuses now what could not be drawn later

    @property
    def sensitivity(self) -> int:
        """How many counts one unit can move by 1: the ℓ1 sensitivity, and the square of the ℓ2 sensitivity."""
        return 2 if self.neighbors is Neighbors.CHANGE_ONE else 1

    @property
    def loss(self) -> Loss:
        """ε-DP, or Gaussian noise."""
        return self._noise.loss

    @property
    def _noise(self) -> Geometric | RoundedGaussian:
        return _noise(self.epsilon, self.rho, self.sensitivity, 1)

    def release(self, value: Iterable[Any], /, *, entropy: Entropy | None = None) -> Steps:
        """The noisy count of each category, in the order declared."""
        places = {category: place for place, category in enumerate(self.categories)}
        counts = np.zeros(len(places), np.int64)
        for category, count in _tally(value, places).items():
            counts[places[category]] = count
        return np.asarray(self._noise.release(counts, entropy=entropy))

    def interval(self, confidence: Number) -> int:
        """The least w with |noisy count − count| ≤ w at this confidence, for each count."""
        return self._noise.interval(confidence)


def _noise(epsilon: Fraction | None, rho: Fraction | None, many: int, each: int) -> Geometric | RoundedGaussian:
    """Noise for whole numbers of which one unit moves `many` by at most `each`, the cost being stated in one way."""
    match epsilon, rho:
        case Fraction(), None:
            return Geometric(epsilon=epsilon, sensitivity=many * each)
        case None, Fraction():
            return RoundedGaussian.for_rho(rho=rho, squared_sensitivity=many * each**2)
        case _:
            hint = "epsilon for ε-DP, rho for Gaussian noise of ρ-zCDP"
            raise InvalidParameter("epsilon", f"epsilon={epsilon}, rho={rho}", "one of the two", hint)


def _whole_range(within: Range) -> Range:
    if not isinstance(within, Range) or within.points < 2:
        raise InvalidParameter("within", within, "a Range(lower=…, upper=…, granularity=…) of at least two points")
    if (within.lower / within.granularity).denominator != 1:
        raise InvalidParameter("within", within, "lower and upper to be multiples of the granularity")
    return within


def _ends(within: Range) -> tuple[int, int]:
    return int(within.lower / within.granularity), int(within.upper / within.granularity)


def _records(value: ArrayLike, within: Range, dimension: int) -> Steps:
    """Rows of whole steps, each number clipped to the range by itself."""
    steps = Grid(within.granularity).snap(value)
    if steps.size == 0 and steps.ndim <= 2:
        return np.zeros((0, dimension), np.int64)
    expected = 1 if dimension == 1 else 2
    if steps.ndim != expected or (expected == 2 and steps.shape[1] != dimension):
        words = "a list of numbers" if dimension == 1 else f"rows of {dimension} numbers"
        raise InvalidData(f"value: got {steps.ndim} axes, expected {words}, one for each record")
    if len(steps) > _MOST_RECORDS:
        raise InvalidData("value: expected at most 2^31 records; add parts of them up first")
    return np.clip(steps, *_ends(within)).reshape(-1, dimension)


def _sums(records: Steps) -> Steps:
    """Exact sums of the columns, held at ±(2^62 − 1): upper and lower halves are added apart, so nothing overflows."""
    high, low = (records >> 32).sum(axis=0), (records & (2**32 - 1)).sum(axis=0)
    exact = [(int(a) << 32) + int(b) for a, b in zip(high, low, strict=True)]
    return np.array([max(-_MOST, min(_MOST, total)) for total in exact], np.int64)


def _floats(steps: Any, granularity: Fraction, dimension: int) -> float | NDArray[np.float64]:
    released = Grid(granularity).floats(np.asarray(steps))
    return float(released[0]) if dimension == 1 else released


def _categories(categories: Iterable[Hashable]) -> tuple[Hashable, ...]:
    if isinstance(categories, str | bytes):
        raise InvalidParameter("categories", categories, "a list of categories", "one text is not a list")
    try:
        declared = tuple(categories)
        distinct = len(set(declared))
    except TypeError:
        raise InvalidParameter("categories", type(categories).__name__, "a list of values that can be hashed") from None
    if not 1 <= len(declared) <= _MOST_CATEGORIES or distinct != len(declared) or any(map(_is_nan, declared)):
        raise InvalidParameter(
            "categories", f"{len(declared)}, {distinct} of them distinct", f"1 to {_MOST_CATEGORIES:,}, all distinct"
        )
    return declared


def _is_nan(category: Hashable) -> bool:
    return isinstance(category, float) and isnan(category)


def _tally(value: Iterable[Any], places: dict[Hashable, int]) -> Counter[Hashable]:
    """How many records each category has; records of no category are refused by position."""
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__") or getattr(value, "ndim", 1) != 1:
        raise InvalidData("value: expected a list of categories, one for each record")
    records = value.tolist() if isinstance(value, np.ndarray) else list(value)
    for position, record in enumerate(records):
        if not isinstance(record, Hashable) or record not in places:
            raise InvalidData(f"value: the record at position {position} has no declared category; declare one for it")
    return Counter(records)
