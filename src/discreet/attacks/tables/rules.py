"""When a released value fits a known one: rules for one column.

A rule says which known values each released value (a *label*) covers: itself, numbers near it, texts a few edits away,
everything that a coarsened label such as `130**` or `[20, 30)` stands for.

>>> from discreet.attacks.tables.rules import Within
>>> Within(tolerance=2).relation(np.array([30, 40]), np.array([28, 29, 33, 41])).values.tolist()
[0, 1, 3]
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.tables.columns import Codes, Column, as_numbers, as_texts, coded, kind
from discreet.attacks.tables.coverage import Covers, Known, covered, looks_coarse, understood
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational

_MOST_PAIRS = 100_000_000
_MOST_TEXT_PAIRS = 50_000_000
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Relation:
    """Which values (by position) each label covers: those of label i stand at `starts[i]:starts[i + 1]`."""

    starts: Codes
    values: Codes
    size: int

    @classmethod
    def of_pairs(cls, labels: Codes, values: Codes, *, count: int, size: int) -> "Relation":
        """A relation between `count` labels and `size` values, from pairs.

        >>> Relation.of_pairs(np.array([1, 0]), np.array([5, 3]), count=2, size=6).values.tolist()
        [3, 5]
        """
        order = np.argsort(labels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=count))])
        return cls(starts, values[order], size)

    @property
    def labels(self) -> Codes:
        """The label of each pair."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def layers(self) -> tuple[Codes, list[Codes]]:
        """The layer of each label, and for each layer the label that covers each value (-1: none).

        >>> relation = Relation(np.array([0, 2, 4]), np.array([0, 1, 1, 2]), 3)  # labels {0, 1} and {1, 2}
        >>> relation.layers()[0].tolist()
        [0, 1]
        """
        layer = np.zeros(len(self.starts) - 1, np.int64)
        if not np.any(np.bincount(self.values, minlength=1) > 1):
            owner = np.full(self.size, -1)
            owner[self.values] = self.labels
            return layer, [owner]
        owners: list[Codes] = []
        for label in np.argsort(np.diff(self.starts), kind="stable").tolist():
            mine = self.values[self.starts[label] : self.starts[label + 1]]
            layer[label] = next((i for i, owner in enumerate(owners) if (owner[mine] < 0).all()), len(owners))
            if layer[label] == len(owners):
                owners.append(np.full(self.size, -1))
            owners[layer[label]][mine] = label
        return layer, owners


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How a column is compared; `error` is the chance that the two entries of one person do not fit.

    `error` matters only where a linkage allows columns to disagree: m = 1 − error in Fellegi and Sunter 1969.
    """

    error: Number = field(default="1/100")

    def relation(self, labels: Column, values: Column) -> Relation:
        """The values that each label covers; both are distinct and not missing."""
        raise NotImplementedError

    def strange(self, label: str) -> bool:
        """Whether a label that covers nothing may not have been understood."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact(Rule):
    """The same value.

    >>> Exact().relation(np.array([3, 5]), np.array([5, 4])).values.tolist()
    [0]
    """

    def relation(self, labels: Column, values: Column) -> Relation:
        """Each label covers itself."""
        return _equal(*coded(labels, values), size=len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Within(Rule):
    """Numbers at most `tolerance` apart; dates at most so many days apart.

    >>> Within(tolerance=2).relation(np.array([30, 40]), np.array([28, 29, 33, 41])).values.tolist()
    [0, 1, 3]
    """

    tolerance: Number

    def relation(self, labels: Column, values: Column) -> Relation:
        """Each label covers the values between label − tolerance and label + tolerance."""
        reach = float(rational(self.tolerance, "tolerance", at_least=0))
        a, b = (_numbers(side, "Within") for side in (labels, values))
        order = np.argsort(b, kind="stable")
        first = np.searchsorted(b[order], a - reach, "left")
        return _of_ranges(first, np.searchsorted(b[order], a + reach, "right"), order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Starts(Rule):
    """Texts with the same first letters; capitals do not matter.

    >>> Starts(letters=2).relation(np.array(["Ann"], object), np.array(["Bo", "anna"], object)).values.tolist()
    [1]
    """

    letters: int

    def relation(self, labels: Column, values: Column) -> Relation:
        """Each label covers the texts that begin as it does."""
        count = integer(self.letters, "letters", at_least=1)
        short = [np.array([t[:count].casefold() for t in as_texts(side)], object) for side in (labels, values)]
        return _equal(*coded(*short), size=len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edits(Rule):
    """Texts at most so many edits (letters changed, added or left out; Levenshtein 1966) apart.

    >>> Edits(most=1).relation(np.array(["Smith"], object), np.array(["Smyth", "Smiths", "Jones"], object)).values
    array([0, 1])
    """

    most: int = 1

    def relation(self, labels: Column, values: Column) -> Relation:
        """Each label covers the texts near it."""
        limit = integer(self.most, "most", at_least=0)
        if len(labels) * len(values) > _MOST_TEXT_PAIRS:
            got = f"{len(labels):,} × {len(values):,} different texts"
            raise InvalidParameter("Edits", got, f"at most {_MOST_TEXT_PAIRS:,} pairs", "use Starts for this column")
        a, b = (_letters(as_texts(side)) for side in (labels, values))
        pairs = list(_near_texts(a, b, limit))
        left, right = (np.concatenate([p[i] for p in pairs] or [np.empty(0, np.int64)]) for i in (0, 1))
        return Relation.of_pairs(left, right, count=len(labels), size=len(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coarse(Rule):
    """Coarsened labels: `130**`, `3*`, `*`, `[20, 30)`, `20-29`, `<30`, `≥40`, `1987-03`, `{a, b}`; see `coverage`.

    `covers` explains other labels: a mapping from labels to the values that they stand for, or a function of a label
    and a value.

    >>> Coarse().relation(np.array(["3*", "<30"], object), np.array([28, 34, 39])).values.tolist()
    [1, 2, 0]
    """

    covers: Covers | None = None

    def relation(self, labels: Column, values: Column) -> Relation:
        """Each label covers what it stands for."""
        known = Known(values)
        result = [np.flatnonzero(covered(label, known, self.covers)) for label in as_texts(labels)]
        total = sum(len(covered) for covered in result)
        if total > _MOST_PAIRS:
            raise InvalidParameter("labels", f"{total:,} label-value pairs", f"at most {_MOST_PAIRS:,}")
        starts = np.concatenate([[0], np.cumsum([len(covered) for covered in result])])
        return Relation(starts, np.concatenate(result or [np.empty(0, np.int64)]), len(values))

    def strange(self, label: str) -> bool:
        """Whether a label has no known form and no explanation."""
        return not understood(label, self.covers)


def rule_for(released: Column, known: Column) -> Rule:
    """The rule for a column about which nothing was said: `Coarse` where labels look coarsened, else `Exact`.

    >>> rule_for(np.array(["130**"], object), np.array(["13053"], object))
    Coarse(error='1/100', covers=None)
    """
    if released.dtype.kind == "b" or kind(released) == kind(known) != "text":
        return Exact()
    if kind(released) != kind(known):  # 1987 for a date, "20-29" for a number
        return Coarse()
    return Coarse() if looks_coarse(set(released.tolist()), set(known.tolist())) else Exact()


def _equal(labels: Codes, values: Codes, *, size: int) -> Relation:
    order = np.argsort(values, kind="stable")
    first, last = (np.searchsorted(values[order], labels, side) for side in ("left", "right"))
    return _of_ranges(first, last, order) if size else Relation(np.zeros(len(labels) + 1, np.int64), order, 0)


def _of_ranges(first: Codes, last: Codes, order: Codes) -> Relation:
    """Labels that cover order[first:last]."""
    counts = np.maximum(last - first, 0)
    starts = np.concatenate([[0], np.cumsum(counts)])
    if starts[-1] > _MOST_PAIRS:
        got = f"{starts[-1]:,} pairs of values that fit"
        raise InvalidParameter("tolerance", got, f"at most {_MOST_PAIRS:,}", "take a smaller tolerance")
    places = np.arange(starts[-1]) - np.repeat(starts[:-1] - first, counts)
    return Relation(starts, order[places], len(order))


def _numbers(column: Column, rule: str) -> NDArray[np.float64]:
    if kind(column) == "text":
        raise InvalidParameter("rule", _Rule(rule), "numbers or dates on both sides", "use Edits or Starts for texts")
    return as_numbers(column)


class _Rule(str):
    """A rule's name, shown without quotation marks."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{self} on a column of texts"


def _letters(texts: Column) -> NDArray[Any]:
    """Texts as rows of code points, 0 after the end."""
    if not len(texts):
        return np.zeros((0, 1), np.uint32)
    wide = np.array([text.casefold() for text in texts], "U")
    return wide.view(np.uint32).reshape(len(texts), -1) if wide.itemsize else np.zeros((len(texts), 1), np.uint32)


def _near_texts(a: NDArray[Any], b: NDArray[Any], limit: int) -> Iterator[tuple[Codes, Codes]]:
    """Pairs at most `limit` edits apart; letters that only one of the texts has rule most pairs out cheaply."""
    bags = [np.stack([((t % 32 == i) & (t > 0)).sum(axis=1) for i in range(32)]).astype(np.int16) for t in (a, b)]
    step = max(1, _BLOCK // max(1, len(b)))
    for start in range(0, len(a), step):
        over = np.zeros((len(a[start : start + step]), len(b)), np.int16)
        under = over.copy()
        for mine, theirs in zip(bags[0][:, start : start + step], bags[1], strict=True):
            gap = mine[:, None] - theirs
            over += np.maximum(gap, 0)
            under -= np.minimum(gap, 0)
        left, right = np.nonzero(np.maximum(over, under) <= limit)
        near = _edits(a[start + left], b[right]) <= limit
        yield start + left[near], right[near]


def _edits(a: NDArray[Any], b: NDArray[Any]) -> Codes:
    """The edit distance of the texts in each row (Wagner, Fischer 1974), all rows at once."""
    lengths = [(side > 0).sum(axis=1) for side in (a, b)]
    row = np.broadcast_to(np.arange(b.shape[1] + 1), (len(a), b.shape[1] + 1)).copy()
    result = np.where(lengths[0] == 0, lengths[1], 0)
    for i in range(a.shape[1]):
        above, row = row, np.empty_like(row)
        row[:, 0] = i + 1
        for j in range(b.shape[1]):
            changed = above[:, j] + (a[:, i] != b[:, j])
            row[:, j + 1] = np.minimum(changed, np.minimum(above[:, j + 1], row[:, j]) + 1)
        done = lengths[0] == i + 1
        result[done] = row[done, lengths[1][done]]
    return result
