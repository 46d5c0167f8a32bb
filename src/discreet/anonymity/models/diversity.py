"""l-diversity in its three forms, and (α, k)-anonymity: limits on how sure a class makes one of a secret.

Machanavajjhala, Kifer, Gehrke, Venkitasubramaniam 2007 ("l-Diversity: privacy beyond k-anonymity", ACM TKDD 1(1));
Wong, Li, Fu, Wang 2006 ("(α, k)-anonymity: an enhanced k-anonymity model for privacy preserving data publishing").

Shares are among the known values of a class; a class without any known value satisfies none of these models.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from discreet.anonymity.classes import Bools, Cells, Floats, Ints, Sensitive
from discreet.anonymity.models.model import SLACK, ColumnModel, ColumnName
from discreet.errors import InvalidParameter
from discreet.exact import Number, rational
from discreet.fields import Converted, Integer, Rational

_FINEST = 10**6  # products of a limit's parts and of counts stay whole numbers of 64 bits


def coarse(value: Number, name: str, **limits: int) -> Fraction:
    """A limit that can be compared with quotients of counts in whole numbers of 64 bits."""
    exact = rational(value, name, **limits)
    if max(exact.numerator, exact.denominator) > _FINEST:
        raise InvalidParameter(name, value, "a number of at most six decimals")
    return exact


class _Diversity(ColumnModel):
    """What the forms of l-diversity share: a class needs l different values."""

    l: Any  # noqa: E741 - its name in the field

    @property
    def least(self) -> int:
        """A class needs a person for each of l values."""
        return int(self.l)

    def sensitive(self, table: Any, *, feasible: bool) -> Sensitive:
        """Its column; `feasible`: with at least l different values."""
        column = Sensitive.of(table, self.column)
        if feasible and self.l > column.present:
            expected = f"at most {column.present}, the number of different values of column {self.column!r}"
            raise InvalidParameter("l", float(self.l) if self.l.denominator > 1 else int(self.l), expected)
        return column


@dataclass(frozen=True)
class DistinctDiversity(_Diversity):
    """Distinct l-diversity: every class has at least l different values of the sensitive column.

    Monotone: the values of a union of classes include those of each.

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 3 + ["148**"] * 2, "disease": ["flu", "flu", "ulcer", "cancer", "cancer"]}
    >>> bound = DistinctDiversity(2, "disease").bind(table)
    >>> bound.measure(Classes.of_table(table, ["zip"])).tolist()
    [2.0, 1.0]
    """

    l: Integer = Integer(at_least=1)  # noqa: E741 - its name in the field
    column: ColumnName = ColumnName()
    symbol: ClassVar[str] = "l"
    worst: ClassVar[str] = "smallest"

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"distinct {self.l}-diversity of {self.column!r}",
            f"The rows that may be a person's hold at least {self.l} different values of {self.column!r}.",
            "One value may still be far more likely than the others, or all of them may be alike (three kinds of "
            "cancer), and somebody who can rule values out is left with fewer.",
        )

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether each class has l values."""
        return cells.distinct >= self.l

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """How many values each class has."""
        return cells.distinct.astype(np.float64)


@dataclass(frozen=True)
class EntropyDiversity(_Diversity):
    """Entropy l-diversity: the entropy of the sensitive column in every class is at least log l (Definition 4.1).

    Monotone. Proof. The distribution of a union is the mixture of the distributions, weighted by size, and entropy is
    concave: H(λp + (1−λ)q) ≥ λH(p) + (1−λ)H(q) ≥ log l.

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 4, "disease": ["flu", "flu", "ulcer", "cancer"]}
    >>> EntropyDiversity(3, "disease").bind(table).measure(Classes.of_table(table, ["zip"])).round(3).tolist()
    [2.828]
    """

    l: Rational = Rational(at_least=1)  # noqa: E741 - its name in the field
    column: ColumnName = ColumnName()
    symbol: ClassVar[str] = "l"
    worst: ClassVar[str] = "smallest"
    divided: ClassVar[bool] = True

    @property
    def least(self) -> int:
        """The entropy of n people is at most log n."""
        return math.ceil(float(self.l) * (1 - SLACK))

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"entropy {shown(self.l)}-diversity of {self.column!r}",
            f"Among the rows that may be a person's, {self.column!r} is as uncertain on average as "
            f"{shown(self.l)} equally likely values.",
            "A single value may still be likely where many rare ones make up for it; what somebody knows beside the "
            "table takes values away.",
        )

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether the entropy of each class is log l or more."""
        return (entropy(cells) >= math.log(float(self.l)) - SLACK) & (cells.known > 0)

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """exp(entropy): how many equally likely values would be as uncertain."""
        return np.where(cells.known > 0, np.exp(entropy(cells)), 0.0)


@dataclass(frozen=True)
class RecursiveDiversity(_Diversity):
    """Recursive (c, l)-diversity: r₁ < c·(r_l + … + r_m), with r₁ ≥ r₂ ≥ … the counts of a class's values (Def. 4.2).

    Monotone. Proof. With counts f and g: the tail r_l + … is the least over sets A of l − 1 values of the people
    outside A, a minimum of sums, so tail(f + g) ≥ tail(f) + tail(g); r₁ is a maximum, so r₁(f + g) ≤ r₁(f) + r₁(g)
    < c·tail(f) + c·tail(g) ≤ c·tail(f + g).

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 6, "disease": ["a", "a", "a", "b", "b", "c"]}
    >>> RecursiveDiversity(3, 2, "disease").bind(table).measure(Classes.of_table(table, ["zip"])).tolist()
    [1.0]
    """

    c: Converted[Number, Fraction] = Converted(lambda value, name: coarse(value, name, above=0))
    l: Integer = Integer(at_least=2)  # noqa: E741 - its name in the field
    column: ColumnName = ColumnName()
    symbol: ClassVar[str] = "c above"

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"recursive ({shown(self.c)}, {self.l})-diversity of {self.column!r}",
            f"Even after {self.l - 2} values of {self.column!r} are ruled out, the likeliest of those left is less "
            f"than {shown(self.c)} times as frequent as the rarer ones together.",
            "Somebody who can rule out more values than that, or who knows that values are alike, learns more.",
        )

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether r₁ < c·tail, in whole numbers."""
        return self.c.denominator * cells.largest(cells.people) < self.c.numerator * cells.tail(self.l - 1)

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """r₁ over the tail: the model holds where this is below c."""
        tail = cells.tail(self.l - 1)
        return np.where(tail > 0, cells.largest(cells.people) / np.maximum(tail, 1), np.inf)

    def reached(self, measured: Floats) -> tuple[float, str]:
        """The largest quotient of a class."""
        value, words = super().reached(measured)
        return value, f"a class with fewer than {self.l} values" if math.isinf(value) else words


@dataclass(frozen=True)
class AlphaK(ColumnModel):
    """(α, k)-anonymity: every class has at least k people, and no sensitive value has a share above α in it.

    This is the general form of Wong et al. 2006, for every value of the column.
    Monotone: sizes add up, and the share of a value in a union is a mean of its shares.

    >>> from discreet.anonymity import Classes
    >>> table = {"zip": ["130**"] * 4, "disease": ["flu", "flu", "flu", "cancer"]}
    >>> AlphaK("0.5", 2, "disease").bind(table).measure(Classes.of_table(table, ["zip"])).tolist()
    [0.75]
    """

    alpha: Converted[Number, Fraction] = Converted(lambda value, name: coarse(value, name, above=0, at_most=1))
    k: Integer = Integer(at_least=1)
    column: ColumnName = ColumnName()
    symbol: ClassVar[str] = "α"

    @property
    def least(self) -> int:
        """k people, and enough values that none exceeds α."""
        return max(self.k, math.ceil(1 / self.alpha))

    @property
    def _texts(self) -> tuple[str, str, str]:
        return (
            f"({shown(self.alpha)}, {self.k})-anonymity of {self.column!r}",
            f"At least {self.k} rows may be a person's, and no value of {self.column!r} makes up more than "
            f"{float(self.alpha):.3g} of them.",
            "A value that is rare in the table may still be many times likelier in a class, and what somebody knows "
            "beside the table can rule values out.",
        )

    def sensitive(self, table: Any, *, feasible: bool) -> Sensitive:
        """Its column; `feasible`: with enough values and rows."""
        column = Sensitive.of(table, self.column)
        if feasible and self.alpha * column.present < 1:
            expected = f"at least 1/{column.present}, as column {self.column!r} has {column.present} different values"
            raise InvalidParameter("alpha", self.alpha, expected)
        if feasible and len(column.codes) < self.k:
            raise InvalidParameter("k", self.k, f"at most the number of rows ({len(column.codes)})")
        return column

    def holds(self, cells: Cells, sizes: Ints, column: Sensitive) -> Bools:
        """Whether each class has k people and no share above α, in whole numbers."""
        even = self.alpha.denominator * cells.largest(cells.people) <= self.alpha.numerator * cells.known
        return (sizes >= self.k) & even & (cells.known > 0)

    def measure(self, cells: Cells, sizes: Ints, column: Sensitive) -> Floats:
        """The largest share of a value in each class."""
        return np.where(cells.known > 0, cells.largest(cells.shares), np.inf)


def entropy(cells: Cells) -> Floats:
    """The entropy of the known values of each class, in nats: log n − Σ c·log c / n.

    >>> entropy(Cells.of_counts(np.array([[2, 2], [3, 0]]))).round(6).tolist()
    [0.693147, 0.0]
    """
    known = np.maximum(cells.known, 1)
    return np.log(known) - cells.total(cells.people * np.log(cells.people)) / known


def shown(number: Number) -> str:
    """A parameter as people write it.

    >>> shown(Fraction(1, 5)), shown(Fraction(3)), shown(Fraction(1, 3))
    ('0.2', '3', '1/3')
    """
    exact = Fraction(number)
    short = f"{float(exact):.6g}"
    return short if Fraction(short) == exact else str(exact)
