"""From a block to a bounded aggregate: a draft, and the rules that fill it in, one after another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from discreet.curator.catalog import Table
from discreet.errors import InternalError, InvalidQuery
from discreet.sql.algebra import functions
from discreet.sql.algebra.expression import Constant, Expression, substitute
from discreet.sql.algebra.kinds import MOST, Fixed
from discreet.sql.algebra.relations import (
    Bound,
    Count,
    Distinct,
    Distribution,
    Frequencies,
    Group,
    Key,
    Measure,
    People,
    Sum,
    declared_condition,
)
from discreet.sql.algebra.rows import Filter, Rows, at_most_one_row, private_tables, unit_of
from discreet.sql.algebra.verification import computed_below

Function = Literal["count", "people", "distinct", "sum", "mean", "quantile", "least", "greatest", "bin", "mode"]
Statistic = Literal["variance", "deviation", "covariance", "correlation", "determination", "slope", "intercept"]


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """An aggregate: rows (with a value), people (with such a row), the sum, the mean or the spread of a value.

    `other` is the second value of a statistic of pairs: null exactly where the first is. `sample`: divided by n − 1.
    `probability` is that of a quantile; `edges` are those of a histogram, in steps, and `bin` says which count of it.
    Of the `places` most frequent values, `place` says which.
    """

    function: Function | Statistic
    value: Expression | None
    other: Expression | None = None
    sample: bool = False
    probability: Fraction = Fraction(0)
    edges: tuple[int, ...] = ()
    bin: int = 0
    places: int = 0
    place: int = 0


@dataclass(frozen=True, slots=True)
class Direct:
    """An aggregate that is a measure, in steps."""

    measure: int
    step: Fraction

    @property
    def indices(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return (self.measure,)


@dataclass(frozen=True, slots=True)
class Mean:
    """An aggregate that is offset + (sum of value − offset)/count, held within the bounds of the value."""

    total: int
    count: int
    kind: Fixed
    offset: int

    @property
    def indices(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return self.total, self.count


@dataclass(frozen=True, slots=True)
class Total:
    """A sum that shares the measures of a mean: (sum of value − offset) + offset·count."""

    total: int
    count: int
    step: Fraction
    offset: int

    @property
    def indices(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        return self.total, self.count


@dataclass(frozen=True, slots=True)
class Sums:
    """The sums of a value about its middle: Σ(value − offset), and Σ((value − offset)² − half) where it is needed."""

    total: int
    kind: Fixed
    offset: int
    square: int | None = None
    half: int = 0

    @property
    def reach(self) -> int:
        """The farthest that the value is from the offset, in steps."""
        return max((self.kind.upper or 0) - self.offset, self.offset - (self.kind.lower or 0))


@dataclass(frozen=True, slots=True)
class Spread:
    """A statistic of second order, made of the count of rows and centered sums, of one value or of a pair.

    `product` is Σ(x − offset of x)·(y − offset of y). `sample` multiplies a variance or covariance by n/(n − 1).
    """

    statistic: Statistic
    count: int
    x: Sums
    y: Sums | None = None
    product: int | None = None
    sample: bool = False

    @property
    def indices(self) -> tuple[int, ...]:
        """The measures that it is made of."""
        sums = [self.x] if self.y is None else [self.x, self.y]
        parts = [index for each in sums for index in (each.total, each.square)]
        return tuple(index for index in (*parts, self.product, self.count) if index is not None)


@dataclass(frozen=True, slots=True)
class Target:
    """A rank to be aimed at: beside the quantile by the mechanism's own error, below (side −1), above (1) or not (0).

    `share` is its part of the ε of its quantile. A quantile is released with one target on each side, each of which is
    beyond it except with half of the failure probability; an extreme is its own end, and has all of it.
    """

    distribution: int
    probability: Fraction
    side: Literal[-1, 0, 1]
    share: Fraction

    @property
    def ends(self) -> int:
        """Among how many ends the failure probability is divided."""
        return 1 if self.share == 1 else 2


@dataclass(frozen=True, slots=True)
class Rank:
    """A quantile, minimum or maximum: a released target, and those that bound it (None: the bounds of the value).

    `peers` are all quantiles of the same values, by probability: released values are put into the same order.
    """

    target: int
    low: int | None
    high: int | None
    kind: Fixed
    distribution: int
    peers: tuple[int, ...]

    @property
    def indices(self) -> tuple[int, ...]:
        """It is made of no measure."""
        return ()


@dataclass(frozen=True, slots=True)
class Bin:
    """A count of a histogram: values above the edge before it, up to and with its own; the last has no edge."""

    tally: int
    bin: int
    distribution: int

    @property
    def indices(self) -> tuple[int, ...]:
        """It is made of no measure."""
        return ()


@dataclass(frozen=True, slots=True)
class Named:
    """One of the most frequent values: which of the chosen lists, and its place there."""

    top: int
    place: int
    distribution: int

    @property
    def indices(self) -> tuple[int, ...]:
        """It is made of no measure."""
        return ()


Derived = Direct | Mean | Total | Spread | Rank | Bin | Named


@dataclass(frozen=True, slots=True)
class Limits:
    """Contribution bounds that the question states; None: the policy's hold."""

    groups: int | None = None
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Draft:
    """Rows, keys and aggregates of a block; the rules fill in the rest."""

    rows: Rows
    keys: tuple[Key, ...]
    calls: tuple[AggregateCall, ...]
    limits: Limits
    measures: tuple[Measure, ...] = ()
    distributions: tuple[Distribution | Frequencies, ...] = ()
    targets: tuple[Target, ...] = ()
    tallies: tuple[tuple[int, tuple[int, ...]], ...] = ()
    tops: tuple[tuple[int, int], ...] = ()
    derived: tuple[Derived, ...] = ()
    bound: Bound | None = None

    @property
    def tables(self) -> tuple[Table, ...]:
        """The private tables that are read."""
        return private_tables(self.rows)

    def limit(self, name: Literal["groups", "rows"]) -> int | None:
        """A contribution bound: the question's own, or the largest that the policy states for a table that is read."""
        stated = [bound for table in self.tables if (bound := getattr(table, name)) is not None]
        return getattr(self.limits, name) or max(stated, default=None)


def compute_below_joins(draft: Draft) -> Draft:
    """Compute dear operations on one table's columns where the table is read, not on what a join or step has chosen."""
    wanted = [*(key.value for key in draft.keys), *(v for call in draft.calls for v in (call.value, call.other) if v)]
    rows, names = computed_below(draft.rows, wanted)
    if rows == draft.rows:
        return draft
    keys = tuple(replace(key, value=substitute(key.value, names)) for key in draft.keys)

    def lowered(value: Expression | None) -> Expression | None:
        return None if value is None else substitute(value, names)

    calls = tuple(replace(call, value=lowered(call.value), other=lowered(call.other)) for call in draft.calls)
    return replace(draft, rows=rows, keys=keys, calls=calls)


def keep_declared_groups(draft: Draft) -> Draft:
    """Filter rows to declared groups, so that none of a unit's places is wasted on a group that is not answered."""
    rows = draft.rows
    for key in draft.keys:
        condition = declared_condition(key)
        if condition is not None:
            rows = Filter(rows, condition)
    return replace(draft, rows=rows)


_ONE = Fraction(1)


def choose_measures(draft: Draft) -> Draft:
    """Each aggregate from as few measures as possible; equal measures are released once.

    A mean is the middle of the bounds plus (sum of distances from the middle) ÷ count: the sum about the middle is
    half as sensitive, and the same rows weigh in both. Where the mean of a value is asked for, its sum is taken from
    the same two measures instead of a third. Variances and what is like them need the sums of squares and products of
    such distances beside the two.
    """
    measures: dict[Measure, int] = {}
    plain = ("count", "people", "distinct", "sum", *_RANKED)
    centered = {value for call in draft.calls if call.function not in plain for value in (call.value, call.other)}
    distributions, targets = _targets(draft.calls)
    binned = [call for call in draft.calls if call.function == "bin"]
    tallies = tuple(dict.fromkeys((distributions.index(_distribution(call)), call.edges) for call in binned))
    chosen = replace(draft, distributions=distributions, targets=targets, tallies=tallies)
    chosen = replace(chosen, tops=_tops(chosen))
    derived = tuple(
        _ranked(call, chosen) if call.function in _RANKED else derive(call, measures, centered) for call in draft.calls
    )
    return replace(chosen, measures=tuple(measures), derived=derived)


_RANKED = ("quantile", "least", "greatest", "bin", "mode")
_SHARES: tuple[tuple[Literal[-1, 0, 1], Fraction], ...] = (
    (0, Fraction(1, 2)),
    (-1, Fraction(1, 4)),
    (1, Fraction(1, 4)),
)
"""A quantile has half of its ε, and each end of its interval a quarter."""


def _distribution(call: AggregateCall) -> Distribution | Frequencies:
    if call.value is None or call.function not in _RANKED:
        raise InternalError("ranks of nothing reached the rules")
    if call.function == "mode":
        return Frequencies(call.value)
    return Distribution(call.value, call.function if call.function in ("least", "greatest") else "even")


def _tops(draft: Draft) -> tuple[tuple[int, int], ...]:
    """Of each value the longest list of its most frequent ones that is asked for: shorter ones are its beginning."""
    longest: dict[int, int] = {}
    for call in draft.calls:
        if call.function == "mode":
            index = draft.distributions.index(_distribution(call))
            longest[index] = max(longest.get(index, 0), call.places)
    return tuple(longest.items())


def _targets(calls: Sequence[AggregateCall]) -> tuple[tuple[Distribution | Frequencies, ...], tuple[Target, ...]]:
    """What is ranked, and which ranks are aimed at: a maximum from below, so that the data have something beyond it."""
    ranked = [call for call in calls if call.function in _RANKED]
    distributions = tuple(dict.fromkeys(_distribution(call) for call in ranked))
    targets: dict[Target, None] = {}
    for call in ranked:
        index = distributions.index(_distribution(call))
        if call.function == "quantile":
            targets |= dict.fromkeys(Target(index, call.probability, side, share) for side, share in _SHARES)
        elif call.function in ("least", "greatest"):
            targets[_extreme(index, call)] = None
    return distributions, tuple(targets)


def _extreme(index: int, call: AggregateCall) -> Target:
    return Target(index, _ONE, -1, _ONE) if call.function == "greatest" else Target(index, Fraction(0), 1, _ONE)


def _ranked(call: AggregateCall, draft: Draft) -> Rank | Bin | Named:
    """Where a quantile, an extreme, a count of a histogram or a frequent value is among what is chosen."""
    distribution, targets = _distribution(call), draft.targets
    index = draft.distributions.index(distribution)
    if isinstance(distribution, Frequencies):
        return Named([of for of, _ in draft.tops].index(index), call.place, index)
    if call.function == "bin":
        return Bin(draft.tallies.index((index, call.edges)), call.bin, index)
    kind = distribution.kind
    if call.function != "quantile":
        target = targets.index(_extreme(index, call))
        low, high = (target, None) if call.function == "greatest" else (None, target)
        return Rank(target, low, high, kind, index, (target,))
    value, low, high = (targets.index(Target(index, call.probability, side, share)) for side, share in _SHARES)
    peers = [i for i, target in enumerate(targets) if target.distribution == index and target.side == 0]
    peers.sort(key=lambda i: targets[i].probability)
    return Rank(value, low, high, kind, index, tuple(peers))


def derive(  # noqa: PLR0911 (one return a form)
    call: AggregateCall, measures: dict[Measure, int], centered: set[Expression | None]
) -> Derived:
    """How an aggregate is computed from measures; those that are not there yet are added."""
    value = call.value
    if call.function == "distinct" and value is not None:
        return Direct(_index_of(measures, Distinct(value)), _ONE)
    if call.function == "people":
        return Direct(_index_of(measures, People(value)), _ONE)
    if call.function == "count" or value is None:
        return Direct(_index_of(measures, Count(value)), _ONE)
    kind = value.kind
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise InternalError("a sum without bounds reached the rules")
    if call.function == "sum" and value not in centered:
        return Direct(_index_of(measures, Sum(value, 0)), kind.step)
    squared = call.function not in ("sum", "mean", "covariance")
    sums = _sums(value, measures, squared=squared)
    counted = call.other if call.function == "mean" and call.other is not None else value  # null in the same rows
    count = _index_of(measures, Count(counted if counted.nullable else None))
    if call.function == "mean":
        return Mean(sums.total, count, kind, sums.offset)
    if call.function == "sum":
        return Total(sums.total, count, kind.step, sums.offset)
    return _spread(call, value, sums, count, measures)


def _spread(call: AggregateCall, value: Expression, sums: Sums, count: int, measures: dict[Measure, int]) -> Spread:
    match call.function:
        case "count" | "people" | "distinct" | "sum" | "mean" | "quantile" | "least" | "greatest" | "bin" | "mode":
            raise InternalError(f"a {call.function} was to be made of squares")
    if call.other is None:
        return Spread(call.function, count, sums, sample=call.sample)
    other = _sums(call.other, measures, squared=call.function in ("correlation", "determination"))
    product = functions.multiply(_distance(value, sums.offset), _distance(call.other, other.offset))
    return Spread(call.function, count, sums, other, _index_of(measures, Sum(product, 0)), call.sample)


def _sums(value: Expression, measures: dict[Measure, int], *, squared: bool) -> Sums:
    """The centered sums of a value; squares are taken about half of the largest, which halves their sensitivity too."""
    kind = value.kind
    if not isinstance(kind, Fixed) or kind.lower is None or kind.upper is None:
        raise InternalError("a sum without bounds reached the rules")
    middle = (kind.lower + kind.upper) // 2
    total = _index_of(measures, Sum(value, middle))
    if not squared:
        return Sums(total, kind, middle)
    distance = functions.absolute(_distance(value, middle))
    square = functions.multiply(distance, distance)
    half = (square.kind.upper or 0) // 2 if isinstance(square.kind, Fixed) else 0
    return Sums(total, kind, middle, _index_of(measures, Sum(square, half)), half)


def _distance(value: Expression, offset: int) -> Expression:
    """value − offset, which is given in its steps."""
    step = value.kind.step if isinstance(value.kind, Fixed) else _ONE
    return functions.subtract(value, Constant(offset, Fixed(step, offset, offset))) if offset else value


def _index_of(measures: dict[Measure, int], measure: Measure) -> int:
    """The place of a measure among those that are there, by hash: expressions are long to compare."""
    return measures.setdefault(measure, len(measures))


def bound_contributions(draft: Draft) -> Draft:
    """Wrap the groups in a `Bound`: one row is one contribution; a person's are limited as stated.

    Where a person has one row at most, there is nothing to bound.
    """
    group = Group(draft.rows, draft.keys)
    if unit_of(draft.rows).key is None or at_most_one_row(draft.rows):
        return replace(draft, bound=Bound(group, 1, 1))
    most = group.size
    names = " and ".join(repr(table.name) for table in draft.tables)
    groups = 1 if most == 1 else draft.limit("groups")
    if groups is None:
        hint = "state a number of groups, or let the policy's table say `max_groups_per_unit = …`"
        raise InvalidQuery(f"nothing states in how many groups a person of {names} may count", hint)
    weighs = any(isinstance(measure, Count | Sum | Distinct) for measure in draft.measures)
    weighs = weighs or any(distribution.keep == "even" for distribution in draft.distributions)
    rows = draft.limit("rows") if weighs else 1
    if rows is None:
        hint = "state a number of rows, or let the policy's table say `max_rows_per_group = …`"
        raise InvalidQuery(f"nothing states how many rows of a person of {names} may count in a group", hint)
    for measure in draft.measures:
        if isinstance(measure, Sum) and measure.reach * rows >= MOST:
            raise InvalidQuery(
                f"{measure} over {rows} rows is too large for 64 bits", "use fewer rows or narrower bounds"
            )
    return replace(draft, bound=Bound(group, groups if most is None else min(groups, most), rows))


Rule = Callable[[Draft], Draft]

RULES: tuple[Rule, ...] = (
    compute_below_joins,
    keep_declared_groups,
    choose_measures,
    bound_contributions,
)


def apply_rules(draft: Draft) -> Draft:
    """The draft after all rules."""
    for rule in RULES:
        draft = rule(draft)
    return draft
