"""The relational algebra of private reading: few nodes, frozen, and only a bounded relation can be aggregated.

::

    Rows ─ Group ─ Bound ─ Aggregate          (`rows`: scans, filters, joins, steps over one person's rows)

What one unit can do to an `Aggregate` follows from its `Bound` alone, so an aggregate without one cannot be written.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import Any, Literal

from discreet.errors import InternalError
from discreet.exact import plain
from discreet.privacy.unit import Neighbors
from discreet.sql.algebra import conditions
from discreet.sql.algebra.expression import (
    Call,
    Constant,
    Domain,
    Expression,
    Field,
    Leaf,
    Slot,
    leaves_of,
    work_of_key,
    work_on_a_row,
)
from discreet.sql.algebra.fan_out import most_matches
from discreet.sql.algebra.kinds import Calendar, Day, Fixed, Kind, Text, Truth, Unsupported
from discreet.sql.algebra.rows import (
    Compute,
    Filter,
    Rows,
    conjuncts_of,
    expressions_above_scans,
    expressions_of,
    is_scanned,
    nodes_of,
)
from discreet.sql.algebra.verification import derived_again

PAIR = 25
"""The most nanoseconds that it takes to find a pair of rows that are joined, or to compare two."""

LARGEST_DOMAIN = 10_000_000
"""No more groups than these are answered."""


def domain_of(value: Expression) -> Domain | None:
    """The values that a key can take, where they are public and few enough to be answered all."""
    domain = value.domain
    return None if domain is None or len(domain) > LARGEST_DOMAIN else domain


def known_groups(value: Expression, rows: Rows) -> Domain | None:
    """The values that a key can take over rows that conditions have chosen: no empty group beyond them is answered.

    Conditions are text of the statement, so these are as public as those of `domain_of`, and some of them. A row with
    another value would have no number (`private_sql.value_number`), and count nowhere.
    """
    tests = list(_comparisons(rows))
    if not tests:
        return domain_of(value)
    plain = _spelled_out(value, _computed(rows))
    current = plain
    for leaf in dict.fromkeys(leaves_of(plain)):
        within = _narrowed(leaf, tests)
        if leaf != plain and within.domain is not None and within.domain != leaf.domain:
            current = _over(current, leaf, within)
    result = _narrowed(current, tests, of=plain)
    return domain_of(result) if result.domain else domain_of(value)


def _computed(rows: Rows) -> dict[tuple[int, int], Expression]:
    """What stands for a value that is computed below a join, by its number and place."""
    nodes = (node for node in nodes_of(rows) if isinstance(node, Compute))
    return {(node.index, i): value for node in nodes for i, value in enumerate(node.columns)}


def _spelled_out(value: Expression, computed: Mapping[tuple[int, int], Expression]) -> Expression:
    """An expression over columns as they are scanned, wherever parts of it are computed: for comparing expressions."""
    match value:
        case Field():
            return replace(value, optional=False)
        case Slot() if (value.source, value.index) in computed:
            return _spelled_out(computed[value.source, value.index], computed)
        case Slot():
            return replace(value, optional=False, nullable=False)
        case Call():
            return replace(value, arguments=tuple(_spelled_out(part, computed) for part in value.arguments))
        case _:
            return value


Comparison = tuple[Expression, str, list[Constant]]
"""What is compared, how, and with which constants."""


def _comparisons(rows: Rows) -> Iterator[Comparison]:
    """What conditions between AND compare with constants, wherever they stand in a relation.

    A column has its number from one scan or step, so what stands above it sees values that passed, or null.
    """
    computed = _computed(rows)
    for node in nodes_of(rows):
        if isinstance(node, Filter):
            for part in conjuncts_of(_spelled_out(node.condition, computed)):
                match part:
                    case Call("in", (subject, *values)) if all(isinstance(value, Constant) for value in values):
                        yield subject, "in", [value for value in values if isinstance(value, Constant)]
                    case Call(name, (subject, Constant() as other)) if name in _ENDS:
                        yield subject, name, [other]
                    case Call(name, (Constant() as other, subject)) if name in _ENDS:
                        yield subject, _ENDS[name], [other]


_ENDS = {
    "equal": "equal", "less": "greater", "less_equal": "greater_equal", "greater": "less",
    "greater_equal": "less_equal",
}  # fmt: skip
"""Comparisons, and what each is with its sides exchanged."""


def _narrowed(value: Expression, tests: Sequence[Comparison], of: Expression | None = None) -> Slot:
    """A stand-in for an expression, with the values only that comparisons of it with constants leave."""
    domain, kind = value.domain, value.kind
    for subject, name, constants in tests:
        if subject == (value if of is None else of):
            domain = _chosen(domain, kind, name, constants)
    if isinstance(kind, Fixed) and isinstance(domain, range) and domain:
        kind = replace(kind, lower=domain[0], upper=domain[-1])
    if isinstance(kind, Day) and isinstance(domain, Calendar):
        kind = Day(domain[0], domain[-1])
    return Slot(-1, 0, kind, value.nullable, domain)


def _chosen(domain: Domain | None, kind: Kind, name: str, constants: list[Constant]) -> Domain | None:
    """The values of a domain for which a comparison with constants can be true; those named, where none is known."""
    kinds = {
        (type(constant.kind), getattr(constant.kind, "step", None))
        for constant in constants
        if constant.value is not None
    }
    if kinds != {(type(kind), getattr(kind, "step", None))} or any(constant.value is None for constant in constants):
        return domain
    values = [constant.value for constant in constants]
    if name in ("in", "equal"):
        ordered: Any = domain if isinstance(domain, tuple) else sorted(set(values))
        known = domain if domain is None or isinstance(domain, range) else frozenset(domain)
        return tuple(value for value in ordered if value in values and (known is None or value in known)) or domain
    if domain is None or isinstance(domain, tuple) or isinstance(kind, Text | Truth):
        return domain
    test: Any = {"less": lt, "less_equal": le, "greater": gt, "greater_equal": ge}[name]
    first = bisect_left(domain, True, key=lambda value: bool(test(value, values[0])) == name.startswith("greater"))
    part = slice(first, None) if name.startswith("greater") else slice(0, first)
    if isinstance(domain, range):
        return domain[part] or domain
    places = range(len(domain))[part]
    return Calendar(domain.unit, domain[places[0]], domain[places[-1]]) if places else domain


def _over(value: Expression, leaf: Leaf, within: Slot) -> Expression:
    """An expression over a column of fewer values, derived again; itself where that cannot be said."""
    if value == leaf:
        return within
    if not isinstance(value, Call):
        return value
    parts = tuple(_over(part, leaf, within) for part in value.arguments)
    try:
        kind, nullable, domain = derived_again(replace(value, arguments=parts))
    except (Unsupported, InternalError):
        return value
    return value if kind is None else replace(value, arguments=parts, kind=kind, nullable=nullable, domain=domain)


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by, and the values it can take where that is public; None: keys are selected privately.

    `name` is for people: what a key is called changes nothing about it.
    """

    name: str = field(compare=False, repr=False)
    value: Expression
    domain: Domain | None

    @property
    def size(self) -> int | None:
        """How many groups it makes, null included where it can be null."""
        return None if self.domain is None else len(self.domain) + self.value.nullable


@lru_cache(maxsize=256)
def declared_condition(key: Key) -> Expression | None:
    """The condition that a key is one of its values; None where it always is."""
    if key.domain is None:
        return None
    stated = isinstance(key.value, Field) and key.value.column.values is not None
    if isinstance(key.domain, range | Calendar) or not (stated or isinstance(key.value, Slot)):
        return None
    inside = conditions.among(key.value, [Constant(value, key.value.kind) for value in key.domain])
    return conditions.either(inside, conditions.is_null(key.value)) if key.value.nullable else inside


@dataclass(frozen=True, slots=True)
class Group:
    """Rows in cells, one for each combination of keys; with no key, one cell."""

    source: Rows
    keys: tuple[Key, ...]

    @property
    def size(self) -> int | None:
        """How many groups are answered, whatever the data hold; None where that must be found privately."""
        total = 1
        for key in self.keys:
            if key.size is None:
                return None
            total *= key.size
        return total


@dataclass(frozen=True, slots=True)
class Bound:
    """Each unit counts in at most `groups` groups, and in each with the weight of at most `rows` rows.

    Which groups: those with the smallest digest of (unit, keys), a fair draw (`curator.draw`). Where a unit has
    n > `rows` rows in a cell, each of them weighs rows/n: whatever is added up over them, t, becomes ⌊t·rows/n + h⌋
    with h in [0, 1) from the same digest. Sums and counts shrink together, so means and shares are not bent, and
    rounding is not biased. Both depend on that unit's rows alone.
    """

    source: Group
    groups: int
    rows: int


@dataclass(frozen=True, slots=True)
class Count:
    """How many rows have a value (None: how many rows there are)."""

    value: Expression | None

    def __str__(self) -> str:
        return "count of rows" if self.value is None else f"count of {self.value}"


@dataclass(frozen=True, slots=True)
class People:
    """How many units have a row with a value (None: a row)."""

    value: Expression | None

    def __str__(self) -> str:
        return "count of people" + ("" if self.value is None else f" with {self.value}")


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of value − offset, in steps, over rows where it is not null."""

    value: Expression
    offset: int

    @property
    def kind(self) -> Fixed:
        """The kind of the value, whose bounds are known."""
        if not isinstance(self.value.kind, Fixed) or not self.value.kind.bounded:
            raise InternalError("a sum without bounds was planned")
        return self.value.kind

    @property
    def reach(self) -> int:
        """The most steps that one row can add, in size."""
        lower, upper = self.kind.lower or 0, self.kind.upper or 0
        return max(abs(lower - self.offset), abs(upper - self.offset))

    def __str__(self) -> str:
        return f"sum of {self.value}" + (f" about {plain(self.offset * self.kind.step)}" if self.offset else "")


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many different values there are; of each unit at most `Bound.rows` of them, by the fair draw, in a cell."""

    value: Expression

    def __str__(self) -> str:
        return f"count of distinct {self.value}"


Measure = Count | People | Sum | Distinct
"""A whole number in each cell, which each unit changes by a bounded amount."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """The values of a bounded number in each cell, as a multiset that is ranked: what quantiles are chosen from.

    `keep` says which of a unit's values in a cell count. "even": at most `Bound.rows` of them, evenly spaced in their
    order from an offset of the fair draw, so each of n > rows counts with probability rows/n. "least" or "greatest":
    that one value.
    """

    value: Expression
    keep: Literal["even", "least", "greatest"]

    @property
    def kind(self) -> Fixed:
        """The kind of the value, whose bounds are known."""
        if not isinstance(self.value.kind, Fixed) or not self.value.kind.bounded:
            raise InternalError("a quantile without bounds was planned")
        return self.value.kind

    @property
    def points(self) -> int:
        """How many values there can be."""
        return (self.kind.upper or 0) - (self.kind.lower or 0) + 1

    def __str__(self) -> str:
        each = {"even": "values of", "least": "least values a unit of", "greatest": "greatest values a unit of"}
        return f"{each[self.keep]} {self.value}"


@dataclass(frozen=True, slots=True)
class Frequencies:
    """How often each of the declared values of an expression occurs in each cell: what modes are chosen from.

    Of a unit's values in a cell, those count that a `Distribution` with `keep` "even" would count.
    """

    value: Expression

    @property
    def keep(self) -> Literal["even"]:
        """Which of a unit's values count, as in a `Distribution`."""
        return "even"

    @property
    def domain(self) -> Domain:
        """The values that there can be, null aside; known beforehand."""
        domain = values_of(self.value)
        if domain is None:
            raise InternalError("a mode of values that are not declared was planned")
        return domain

    @property
    def points(self) -> int:
        """How many values there can be."""
        return len(self.domain)

    def __str__(self) -> str:
        return f"frequencies of {self.value}"


def values_of(value: Expression) -> Domain | None:
    """The values that an expression takes beside null, also where a FILTER makes others null; None: not known."""
    if isinstance(value, Call) and value.operation == "case" and value.domain is None:
        _, inner, *others = value.arguments
        if len(others) == 1 and isinstance(others[0], Constant) and others[0].value is None:
            return values_of(inner)
    return domain_of(value)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Whole numbers for each group of a bounded relation."""

    source: Bound
    measures: tuple[Measure, ...]
    distributions: tuple[Distribution | Frequencies, ...] = ()

    @property
    def parts(self) -> list[Expression]:
        """All expressions that are computed on each row: conditions, steps, keys, values of measures and ranks."""
        group = self.source.source
        values = [part.value for part in (*self.measures, *self.distributions) if part.value is not None]
        return [*expressions_of(group.source), *(key.value for key in group.keys), *values]

    @property
    def parts_above_scans(self) -> list[Expression]:
        """Those that are computed only on rows that a join, a step or a condition below it has chosen."""
        group = self.source.source
        if is_scanned(group.source):
            return []
        values = [part.value for part in (*self.measures, *self.distributions) if part.value is not None]
        declared = [] if group.size is None else [declared_condition(key) for key in group.keys]  # not asked as such
        above = [part for part in expressions_above_scans(group.source) if part not in declared]
        return [*above, *(key.value for key in group.keys), *values]

    @property
    def work(self) -> int:
        """The most nanoseconds that one row takes: all expressions, being grouped by its keys, and what it meets."""
        numbered = [part.value for part in self.distributions if isinstance(part, Frequencies)]
        grouped = sum(work_of_key(value) for value in (*(key.value for key in self.source.source.keys), *numbered))
        return sum(work_on_a_row(part) for part in self.parts) + grouped + self.work_of_matches

    @property
    def work_of_matches(self) -> int:
        """The most nanoseconds that the public rows take which one row meets, beyond the first."""
        matches = most_matches(self.source.source.source)
        return (matches - 1) * (PAIR + sum(map(work_on_a_row, self.parts_above_scans)))


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The most that a change of one unit moves the vector of all groups: in ℓ1, and in ℓ2 squared; whole steps."""

    l1: int
    l2_squared: int


def sensitivity_of(measure: Measure, bound: Bound, neighbors: Neighbors) -> Sensitivity:
    """The sensitivity of a measure over a bounded relation, under a neighbor relation.

    Guarantee: for any two datasets that differ in one unit, the vectors of this measure over all groups differ by at
    most `l1` in ℓ1 norm and √`l2_squared` in ℓ2 norm.
    Proof. The vector is the sum over units of vectors v that depend on that unit's rows alone; v is zero outside at
    most G groups (`Bound.groups`) and between −a and b within, where −a ≤ 0 ≤ b are whole: 0 and 1 for People, 0 and R
    for Count, R·min(0, lower − offset) and R·max(0, upper − offset) for Sum. (n ≤ R rows add up to that; n > R rows
    that add t, between n/R times the ends, count as ⌊t·R/n + h⌋ with 0 ≤ h < 1, which lies between the same ends since
    they are whole.) Let c = max(a, b). *Add or remove one* moves the total by one v: ℓ1 ≤ G·c, ℓ2² ≤ G·c².
    *Change one* replaces v by w. In k groups where both are, it moves by at most a + b; in at most 2(G − k) where one
    of them is, by at most c. (`Distinct` is not such a sum. It counts the values of a union of sets that depend on one
    unit each, with at most R values in at most G groups: taking a set out of a group takes away at most R, putting one
    in adds at most R, so both together move by at most R, which is a + b with a = 0 and b = R.) There are `size`
    groups, so 2G − k ≤ size. Since a + b ≤ 2c, ℓ1 is greatest at the least such k; ℓ2² is linear in k, so greatest at
    the least or at k = G. Clamping totals moves no two further apart.
    """
    low, high = contribution_range(measure, bound)
    most, spread, groups = max(1, -low, high), max(1, high - low), bound.groups
    if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
        return Sensitivity(groups * most, groups * most**2)
    size = bound.source.size
    both = 0 if size is None else max(0, 2 * groups - size)
    l1 = both * spread + 2 * (groups - both) * most
    return Sensitivity(l1, max(groups * spread**2, both * spread**2 + 2 * (groups - both) * most**2))


def rank_sensitivity(distribution: Distribution, probability: Fraction, bound: Bound, neighbors: Neighbors) -> Fraction:
    """The most that a change of one unit moves rank scores, as `GroupedQuantile` has them, added up over all groups.

    Guarantee: for any two datasets that differ in one unit, the largest moves of any point's score in each group add up
    to at most this, for the quantile of this probability. Proof. Of n values, the score of a point o is minus the
    distance of q·n + shift to [#{x < o}, #{x ≤ o}]. A unit has at most R values in each of at most G groups (R = 1
    where it keeps one). Putting b ≤ R values into a group moves each of the two counts by some c with 0 ≤ c ≤ b and q·n
    by q·b, so their differences move by c − q·b, between −q·b and (1 − q)·b: by at most R·m with m = max(q, 1 − q).
    Taking them out is the reverse. *Add or remove one*: G groups, each by R·m. *Change one*: in k groups where both
    the old and the new values are, the moves add up to between −q·R − (1 − q)·R and the opposite, at most R; in at most
    2(G − k) others, by R·m each. Since R ≤ 2·R·m, the sum is greatest at the least k with 2G − k ≤ `size`.
    """
    rows = Fraction(bound.rows if distribution.keep == "even" else 1)
    alone, groups = rows * max(probability, 1 - probability), bound.groups
    if neighbors is not Neighbors.CHANGE_ONE:
        return groups * alone
    size = bound.source.size
    both = 0 if size is None else max(0, 2 * groups - size)
    return both * rows + 2 * (groups - both) * alone


def tally_sensitivity(bound: Bound, neighbors: Neighbors) -> int:
    """The most that a change of one unit moves the counts of all bins, or values, of all groups, in ℓ1.

    Guarantee: for any two datasets that differ in one unit, the counts differ by at most this. Proof. A unit has at
    most R values in each of at most G groups, each counted once: a vector v ≥ 0 whose numbers add up to at most G·R.
    *Add or remove one* moves the counts by one v, *change one* by v − w, at most 2·G·R.
    """
    return bound.groups * bound.rows * (2 if neighbors is Neighbors.CHANGE_ONE else 1)


def keys_changed(bound: Bound, neighbors: Neighbors) -> int:
    """In how many groups a change of one unit can change the number of units, by one each.

    Proof. A unit is in at most G groups; changing it takes it out of at most G and puts it into at most G.
    """
    return bound.groups * (1 if neighbors is Neighbors.ADD_OR_REMOVE_ONE else 2)


def contribution_range(measure: Measure, bound: Bound) -> tuple[int, int]:
    """The least and the most that one unit adds to one group where it counts."""
    match measure:
        case People():
            return 0, 1
        case Count() | Distinct():
            return 0, bound.rows
        case Sum():
            lower, upper = (measure.kind.lower or 0) - measure.offset, (measure.kind.upper or 0) - measure.offset
            return bound.rows * min(0, lower), bound.rows * max(0, upper)
