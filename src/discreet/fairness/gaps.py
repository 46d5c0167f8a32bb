"""Gaps between groups, with intervals that hold for all comparisons together.

A criterion compares rates in one or more *families*: the true and false positive rates of equalized odds, the strata of
conditional parity. Its gap is the largest difference of two groups within a family, its ratio the least rate over the
largest. The limits of a gap follow from limits of every difference that hold together (Bonferroni 1936), so they cover
also where the groups do not differ at all, where the bootstrap of a largest difference fails. Where noise decides which
groups are large enough to be compared, the limits are those for all groups: so they hold whichever are shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from discreet.fairness.cells import Criterion, Metric, metric, shares
from discreet.intervals import clopper_pearson

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its limits; NaN where nothing can be said."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if not np.isfinite(self.value):
            return "–"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"

    def as_dict(self) -> dict[str, float | None]:
        """The numbers by name; None where there are none."""
        named = {"value": self.value, "low": self.low, "high": self.high}
        return {name: float(number) if np.isfinite(number) else None for name, number in named.items()}


NOTHING = Estimate(np.nan, np.nan, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Rates:
    """Rates of groups in families: hits of tries, and how many counted cells are in both and only in tries."""

    names: tuple[str, ...]
    hits: Floats  # family × group
    tries: Floats
    parts: tuple[int, int] = (1, 1)

    @property
    def values(self) -> Floats:
        """hits/tries, which noise may take outside [0, 1]; NaN where there are no tries."""
        nothing = np.full(self.hits.shape, np.nan)
        result: Floats = np.divide(self.hits, self.tries, out=nothing, where=self.tries > 0)
        return result


class Limits(Protocol):
    """How sure rates are: from sampling, from noise, or from both."""

    def limits(self, rates: Rates, alpha: float) -> tuple[Floats, Floats]:
        """Lower and upper limits of every rate; each misses its rate with probability `alpha` at most.

        From noise they may lie outside [0, 1], so that differences can be computed from them; show them clipped.
        """
        ...

    def usable(self, rates: Rates) -> Flags:
        """Which rates have enough rows to be compared."""
        ...

    @property
    def ancillary(self) -> bool:
        """Whether what is usable says nothing about the rates, so that limits need to hold for the usable ones only."""
        ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """Rows are a sample: exact limits (Clopper, Pearson 1934). Rates of fewer than `least` rows are not compared."""

    least: int = 1

    def limits(self, rates: Rates, alpha: float) -> tuple[Floats, Floats]:
        """Lower and upper limits of every rate."""
        return clopper_pearson(rates.hits, rates.tries, confidence=1 - alpha)

    def usable(self, rates: Rates) -> Flags:
        """Those of at least `least` rows."""
        return rates.tries >= max(self.least, 1)

    @property
    def ancillary(self) -> bool:
        """Sizes of groups are what they are: limits hold given them."""
        return True


@dataclass(frozen=True, slots=True)
class Gap:
    """How far groups are apart by one criterion.

    `where` names the family in which they are farthest apart, `highest` and `lowest` the two groups there. `left_out`
    are groups too small to be compared, `comparisons` is how many differences the limits hold for together.
    """

    criterion: str
    difference: Estimate
    ratio: Estimate
    highest: str = ""
    lowest: str = ""
    where: str = ""
    left_out: tuple[str, ...] = ()
    comparisons: int = 0

    @property
    def differs(self) -> bool:
        """Whether the groups surely differ, at the confidence of the limits."""
        return self.difference.low > 0

    def as_dict(self) -> dict[str, Any]:
        """The gap as JSON can hold it."""
        return {
            "criterion": self.criterion,
            "difference": self.difference.as_dict(),
            "ratio": self.ratio.as_dict(),
            "highest": self.highest,
            "lowest": self.lowest,
            "where": self.where,
            "left_out": list(self.left_out),
            "comparisons": self.comparisons,
        }


def family(tables: NDArray[Any], measure: Metric, merged: int = 1, names: Sequence[str] = ("",)) -> Rates:
    """The rates of a metric, from tables of label × prediction by group, or by family and group."""
    hits, tries = (np.asarray(part, np.float64) for part in shares(tables, measure))
    inside, rest = measure.parts
    return Rates(tuple(names), np.atleast_2d(hits), np.atleast_2d(tries), (inside * merged, rest * merged))


def gap(criterion: Criterion, families: Sequence[Rates], groups: Sequence[str], limits: Limits, alpha: float) -> Gap:
    """The gap of a criterion over some families of rates."""
    usable = [limits.usable(rates) & np.isfinite(rates.values) for rates in families]
    compared = [flags & (flags.sum(axis=1, keepdims=True) > 1) for flags in usable]
    ever = np.any([flags.any(axis=0) for flags in usable], axis=0)
    left_out = tuple(name for name, used in zip(groups, ever, strict=True) if not used)
    counts = [flags.sum(axis=1) if limits.ancillary else np.full(len(flags), len(groups)) for flags in compared]
    if not any(flags.any() for flags in compared):
        return Gap(criterion.name, NOTHING, NOTHING, left_out=left_out)
    pairs = sum(int((count * (count - 1) // 2).sum()) for count in counts)
    parts = [_differences(r, f, limits, alpha / pairs) for r, f in zip(families, compared, strict=True)]
    several = sum(int(count.sum()) for count in counts)
    ratios = [_ratios(r, f, limits, alpha / several) for r, f in zip(families, compared, strict=True)]
    difference = Estimate(*(max(part[k] for part in parts) for k in range(3)))
    ratio = Estimate(*(min(part[k] for part in ratios) for k in range(3)))
    place, highest, lowest = _farthest(families, compared)
    return Gap(criterion.name, difference, ratio, groups[highest], groups[lowest], place, left_out, pairs)


def square_and_add(
    first: tuple[Floats, Floats, Floats], second: tuple[Floats, Floats, Floats]
) -> tuple[Floats, Floats]:
    """Limits of differences of independent shares, each (value, low, high): Newcombe 1998, method 10, of arrays."""
    (p, low_p, high_p), (q, low_q, high_q) = first, second
    below, above = np.hypot(p - low_p, high_q - q), np.hypot(high_p - p, q - low_q)
    return np.maximum(p - q - below, -1), np.minimum(p - q + above, 1)


def _differences(rates: Rates, used: Flags, limits: Limits, alpha: float) -> tuple[float, float, float]:
    """The largest difference within a family; the limits of the largest, if each pair misses with `alpha` at most."""
    low, high = limits.limits(rates, alpha)
    result = (0.0, 0.0, 0.0)
    for k in np.flatnonzero(used.any(axis=1)):
        here = widest(*(side[k, used[k]] for side in (rates.values, low, high)))
        result = tuple(map(max, result, here))  # type: ignore[assignment]
    return result


def widest(value: Floats, low: Floats, high: Floats) -> tuple[float, float, float]:
    """The largest difference of independent estimates, and the limits of it if those of every pair hold together."""
    first, second = np.triu_indices(len(value), 1)
    high_side, two = ((value[side], low[side], high[side]) for side in (first, second))
    a, b = square_and_add(high_side, two)
    surely, perhaps = np.maximum(np.maximum(a, -b), 0), np.maximum(np.abs(a), np.abs(b))
    return min(float(np.ptp(value)), 1.0), float(surely.max()), float(perhaps.max())


def _ratios(rates: Rates, used: Flags, limits: Limits, alpha: float) -> tuple[float, float, float]:
    """The least ratio of two rates of a family; its limits follow from those of all rates, which hold together.

    Guarantee: if every rate lies within its limits, the least over the largest lies within these.
    """
    low, high = limits.limits(rates, alpha)
    result = (np.inf, np.inf, np.inf)
    for k in np.flatnonzero(used.any(axis=1)):
        value, least, most = (np.clip(side[k, used[k]], 0, 1) for side in (rates.values, low, high))
        here = (_over(value.min(), value.max()), _over(least.min(), most.max()), _over(most.min(), least.max(), 1.0))
        result = tuple(map(_less, result, here))  # type: ignore[assignment]
    return tuple(number if np.isfinite(number) else np.nan for number in result)  # type: ignore[return-value]


def _over(part: float, whole: float, otherwise: float = np.nan) -> float:
    return min(float(part / whole), 1.0) if whole > 0 else otherwise


def _less(before: float, now: float) -> float:
    return before if np.isnan(now) else min(before, now)


def _farthest(families: Sequence[Rates], used: Sequence[Flags]) -> tuple[str, int, int]:
    """In which family groups are farthest apart, the highest group there and the lowest."""
    best = (-1.0, "", 0, 0)
    for rates, flags in zip(families, used, strict=True):
        for k in np.flatnonzero(flags.any(axis=1)):
            value = np.where(flags[k], rates.values[k], np.nan)
            spread = float(np.nanmax(value) - np.nanmin(value))
            if spread > best[0]:
                best = (spread, rates.names[k], int(np.nanargmax(value)), int(np.nanargmin(value)))
    return best[1:]


def plain_gap(
    tables: NDArray[Any],
    criterion: Criterion,
    groups: Sequence[str],
    limits: Limits,
    alpha: float,
    merged: int = 1,
) -> Gap:
    """The gap of a criterion that compares whole groups, from tables of label × prediction by group.

    >>> from discreet.fairness.cells import CRITERIA
    >>> tables = np.array([[[50, 50], [0, 0]], [[80, 20], [0, 0]]])
    >>> result = plain_gap(tables, CRITERIA["statistical parity"], ["f", "m"], Sampling(), 0.05)
    >>> print(result.difference, result.highest)
    0.300 (0.163 to 0.425) f
    """
    several = len(criterion.metrics) > 1
    families = [family(tables, metric(name), merged, [name if several else ""]) for name in criterion.metrics]
    return gap(criterion, families, groups, limits, alpha)


@dataclass(frozen=True, slots=True)
class Adjusted:
    """Rates as they would be if every group were spread over the strata alike (direct standardization).

    `covered` is the share of rows in strata in which all the compared groups occur; others cannot be compared.
    """

    difference: Estimate
    rates: tuple[Estimate, ...]
    highest: str
    lowest: str
    covered: float

    def as_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "difference": self.difference.as_dict(),
            "rates": [estimate.as_dict() for estimate in self.rates],
            "highest": self.highest,
            "lowest": self.lowest,
            "covered": self.covered,
        }


def adjusted(strata: Rates, compared: Flags, groups: Sequence[str], limits: Limits, alpha: float) -> Adjusted | None:
    """The gap of rates standardized to the strata's shares of all rows, which are taken as given.

    Limits of a weighted sum by square-and-add (Zou, Donner 2008). None if no stratum holds all the compared groups.
    """
    common = ((strata.tries > 0) | ~compared).all(axis=1)
    size = np.maximum(strata.tries.sum(axis=1), 0)
    if compared.sum() < 2 or not common.any() or not size[common].sum():
        return None
    weights = size[common] / size[common].sum()
    many = int(compared.sum()) if limits.ancillary else len(groups)
    pairs = many * (many - 1) // 2
    low, high = (side[common] for side in limits.limits(strata, alpha / pairs))
    value = strata.values[common]
    mean = weights @ np.nan_to_num(value)
    below, above = (np.sqrt(weights**2 @ np.nan_to_num(value - side) ** 2) for side in (low, high))
    ends = mean - below, mean + above
    estimates = tuple(
        Estimate(float(m), float(a), float(b)) if used else NOTHING
        for m, a, b, used in zip(*(np.clip(side, 0, 1) for side in (mean, *ends)), compared, strict=True)
    )
    difference = Estimate(*widest(mean[compared], ends[0][compared], ends[1][compared]))
    shown = np.where(compared, mean, np.nan)
    names = (groups[int(np.nanargmax(shown))], groups[int(np.nanargmin(shown))])
    return Adjusted(difference, estimates, *names, float(size[common].sum() / size.sum()))


CAUTIONS = (
    "A gap is a fact about a table, not its cause. Equal rates can hide unequal treatment, and unequal rates can have "
    "reasons that are legitimate: name those as given, and look at parity within strata.",
    "Unless the base rates of groups are equal or the predictions perfect, predictive parity and equalized odds cannot "
    "both hold (Chouldechova 2017; Kleinberg, Mullainathan, Raghavan 2016). Choose what matters and say why.",
    "Labels are taken for the truth. Where they come from decisions of people (arrests, past loans), what is unfair in "
    "them is invisible here.",
    "The confidence bounds assume that the rows are a random sample of the people for whom the model is meant.",
)


def judged(gap: Gap, tolerance: Fraction | None) -> tuple[str, str, bool | None]:
    """A word, a sentence and a tone (good, bad, neither) on a gap.

    >>> result = Gap("statistical parity", Estimate(0.3, 0.2, 0.4), Estimate(0.5, 0.4, 0.6), "f", "m")
    >>> judged(result, Fraction(1, 10))
    ('exceeds', 'f highest, m lowest; surely more than 0.1', False)
    """
    difference = gap.difference
    if not np.isfinite(difference.value):
        return "no statement", "fewer than two groups are large enough", None
    where = f" ({gap.where})" if gap.where and len(gap.where) < 60 else ""
    ends = f"{gap.highest} highest, {gap.lowest} lowest{where}" if gap.highest != gap.lowest else "all are equal"
    if tolerance is not None:
        limit = float(tolerance)
        if difference.low > limit:
            return "exceeds", f"{ends}; surely more than {limit:g}", False
        if difference.high <= limit:
            return "within", f"{ends}; surely at most {limit:g}", True
        return "open", f"{ends}; may be more or less than {limit:g}", None
    if gap.differs:
        return "differ", ends, None
    return "not shown", f"{ends}; the rows do not show that the groups differ", None


def smallness(
    groups: Sequence[str],
    sizes: Sequence[int],
    rates: Mapping[str, Sequence[Estimate]],
    tries: Mapping[str, Sequence[int]],
    least: int,
) -> tuple[str, ...]:
    """Sentences on the groups that are too small to say anything, in all or in some respects."""
    said = []
    empty = [name for name, size in zip(groups, sizes, strict=True) if not size]
    if empty:
        shown = ", ".join(empty[:5]) + (f" and {len(empty) - 5} more" if len(empty) > 5 else "")
        said.append(f"No rows: {shown}.")
    for place, (name, size) in enumerate(zip(groups, sizes, strict=True)):
        if not size:
            continue
        if size < least:
            chosen = rates["selection rate"][place]
            reach = f"its selection rate may be anywhere from {chosen.low:.2f} to {chosen.high:.2f}"
            said.append(f"{name}: {size} rows are too few to say anything; {reach}.")
            continue
        few = [rate for rate in tries if tries[rate][place] < least]
        if few:
            said.append(f"{name}: too few rows for its {_and(few)}.")
    return tuple(said)


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
