"""When a released value fits a known one: rules for one column.

A rule says which known values each released value (a *label*) covers: itself, numbers near it, texts a few edits away,
everything that a coarsened label such as `130**` or `[20, 30)` stands for.

>>> from discreet.attacks.tables.rules import Within
>>> Within(tolerance=2).relation(np.array([30, 40]), np.array([28, 29, 33, 41])).values.tolist()
[0, 1, 3]

What a coarsened label stands for.

=====================================  =========================================================================
label                                  covers
=====================================  =========================================================================
`*`, `**`, `***`                       every value
`130**`, `3*`, `1987-**-**`            texts (or numbers and dates as texts) that agree; a star is one character,
                                       and stars at the end may stand for fewer (shorter texts are filled up with
                                       spaces), or for any ending where no value has that length
`[20, 30)`, `(20, 30]`, `[20, 30]`     numbers or dates in the interval
`20-29`, `20–29`, `20…29`              numbers from 20 to 29; a whole range `20-29` also covers 29.5
`<30`, `<=30`, `≤30`, `>40`, `≥40`     numbers or dates below or above
`40+`                                  numbers from 40
`1987`, `1987-03`, `1980s`             dates (and whole years) of that year, month or decade
`48.85…48.86,2.35…2.36`                places "latitude,longitude" in the cell
`{a, b}`                               the values listed
anything else                          the value itself
=====================================  =========================================================================

Every label covers the value that is written like it. Known texts that are all numbers, or all dates, are read as such.
Labels that need a hierarchy ("Asia", "white collar") are
explained by `covers`.
"""

import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.tables.columns import Codes, Column, as_numbers, as_texts, coded, kind, missing
from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational

Covers = Mapping[str, Collection[Any]] | Callable[[str, Any], bool]
"""What labels stand for: a mapping from labels to values, or a function of a label and a value."""

Mask = NDArray[np.bool_]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DATE = r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?"
_POINT = rf"(?:{_DATE}|{_NUMBER}|[-+]?(?:inf|∞))"
_INTERVAL = re.compile(rf"\s*([\[(])\s*({_POINT})\s*[,;–…]\s*({_POINT})\s*([\])])\s*")
_RANGE = re.compile(rf"\s*({_NUMBER})\s*(?:-|–|…|\.\.\.?)\s*({_NUMBER})\s*")
_HALF = re.compile(rf"\s*(<=|>=|<|>|≤|≥)\s*({_POINT})\s*")
_PLUS = re.compile(rf"\s*({_NUMBER})\s*\+\s*")
_SET = re.compile(r"\s*\{(.*)\}\s*", re.DOTALL)
_MONTH = re.compile(r"\d{4}(-\d\d)?")
_DECADE = re.compile(r"\d{3}0s")
_CELL = re.compile(rf"({_NUMBER})…({_NUMBER})\s*,\s*({_NUMBER})…({_NUMBER})")


class Known:
    """Known values, with what labels are compared to: texts, numbers (dates as days since 1970), lengths.

    >>> Known(np.array([28.0, np.nan])).texts.tolist()
    ['28', '']
    """

    def __init__(self, values: Column) -> None:
        self.values, self.held = values, ~missing(values)
        self._read = _read(values) if kind(values) == "text" else values
        self.kind = kind(self._read)

    @cached_property
    def texts(self) -> NDArray[np.str_]:
        """The values as texts, empty where missing."""
        return np.where(self.held, as_texts(self.values), "").astype("U")

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How long the texts are."""
        return np.strings.str_len(self.texts)

    @cached_property
    def places(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Latitudes and longitudes of texts that are places; NaN where they are not."""
        place = re.compile(rf"\s*({_NUMBER})\s*,\s*({_NUMBER})\s*")
        result = [place.fullmatch(text) for text in self.texts.tolist()]
        points = np.array([[math.nan] * 2 if match is None else list(map(float, match.groups())) for match in result])
        return points[:, 0], points[:, 1]

    @cached_property
    def numbers(self) -> NDArray[np.float64]:
        """The values as numbers; NaN where missing."""
        return as_numbers(self._read)


def covered(label: str, values: Column | Known, covers: Covers | None = None) -> Mask:
    """Which of the values a label stands for; a missing value is covered by no label.

    >>> ages = np.array([19, 20, 28, 30, 41])
    >>> [int(covered(label, ages).sum()) for label in ("*", "2*", "[20, 30)", "<30", "≥40", "20-30", "28")]
    [5, 2, 2, 3, 1, 3, 1]
    >>> covered("Asia", np.array(["Japan", "Peru"], object), {"Asia": ["Japan", "India"]}).tolist()
    [True, False]
    """
    known = values if isinstance(values, Known) else Known(values)
    if covers is not None and (not isinstance(covers, Mapping) or label in covers):
        return known.held & _explained(label, known, covers)
    if label and not label.strip("*"):
        return known.held
    forms = (_same, _ordered, _pattern, _listed, _placed)
    return np.asarray(known.held & np.any([form(label, known) for form in forms], axis=0))


def looks_coarse(labels: Collection[Any], values: Collection[Any]) -> bool:
    """Whether a column of texts holds labels, none of the known values, that are written as coarsened ones.

    >>> looks_coarse({"130**"}, {"13053"}), looks_coarse({"Don*"}, {"Don*"}), looks_coarse({"Ann"}, {"Bo"})
    (True, False, False)
    """
    return any(_written(label) for label in labels if label is not None and label not in values)


def understood(label: str, covers: Covers | None = None) -> bool:
    """Whether a label is explained, or written in one of the forms of coarsened labels.

    >>> understood("130**"), understood("<30"), understood("Asia"), understood("Asia", {"Asia": []})
    (True, True, False, True)
    """
    explained = covers is not None and (not isinstance(covers, Mapping) or label in covers)
    return explained or _written(label)


def _written(label: str) -> bool:
    """Whether a label is written in one of the forms of coarsened labels."""
    forms = (_INTERVAL, _RANGE, _HALF, _PLUS, _SET, _MONTH, _DECADE, _CELL)
    return "*" in label or any(form.fullmatch(label) for form in forms)


def _read(values: Column) -> Column:
    """Texts as numbers or dates, if all of them (but missing and empty ones) are; else as they are."""
    held = [text.strip() for text in as_texts(values) if text and text.strip()]
    plain = [None if text is None else text.strip() or None for text in as_texts(values)]
    if held and all(re.fullmatch(_NUMBER, text) for text in held):
        return np.array([math.nan if text is None else float(text) for text in plain])
    if held and all(re.fullmatch(_DATE, text) for text in held):
        return np.array([np.datetime64("NaT") if text is None else np.datetime64(text) for text in plain], "M8[us]")
    return values


def _explained(label: str, known: Known, covers: Covers) -> Mask:
    if not isinstance(covers, Mapping):
        return np.array([bool(covers(label, value)) for value in known.values.tolist()], bool)
    return np.isin(known.texts, [str(value) for value in covers[label]])


def _same(label: str, known: Known) -> Mask:
    same = np.asarray(known.texts == label, bool)
    if known.kind == "number" and re.fullmatch(_NUMBER, label.strip()):
        same |= known.numbers == _point(label)
    return same


def _ordered(label: str, known: Known) -> Mask:
    """Intervals, ranges and half-lines."""
    if known.kind == "text":
        return _none(known)
    at = known.numbers
    if result := _INTERVAL.fullmatch(label):
        left, low, high, right = result.groups()
        return (at >= _point(low) if left == "[" else at > _point(low)) & _below(at, high, closed=right == "]")
    if result := _HALF.fullmatch(label):
        sign, limit = result.groups()
        if sign[0] in "<≤":
            return _below(at, limit, closed=sign != "<")
        return at > _point(limit) if sign == ">" else at >= _point(limit)
    return _ranged(label, known) if known.kind == "number" else _none(known)


def _ranged(label: str, known: Known) -> Mask:
    """20-29 and 40+."""
    at = known.numbers
    if result := _PLUS.fullmatch(label):
        return at >= _point(result.group(1))
    if result := _RANGE.fullmatch(label):
        low, high = result.groups()
        whole = low.lstrip("+-").isdigit() and high.lstrip("+-").isdigit() and _point(low) < _point(high)
        return (at >= _point(low)) & (at < _point(high) + 1 if whole else at <= _point(high))
    return _none(known)


def _pattern(label: str, known: Known) -> Mask:
    """Stars for characters; a year or a month for dates."""
    if known.kind == "date" and _MONTH.fullmatch(label):
        return np.strings.startswith(known.texts, label)
    if known.kind != "text" and _DECADE.fullmatch(label):
        return np.strings.startswith(known.texts, label[:3]) & (known.lengths >= 4)
    if "*" not in label:
        return _none(known)
    stem = label.rstrip("*")
    if "*" not in stem:
        begins = np.strings.startswith(np.strings.ljust(known.texts, len(stem)), stem)
        return begins & (known.lengths <= len(label)) if (known.lengths == len(label)).any() else begins
    form = re.compile(".".join(re.escape(part) for part in label.split("*")), re.DOTALL)
    return np.array([form.fullmatch(text) is not None for text in known.texts.tolist()], bool)


def _listed(label: str, known: Known) -> Mask:
    result = _SET.fullmatch(label)
    if not result:
        return _none(known)
    parts = [_same(part.strip(), known) for part in result.group(1).split(",")]
    return np.asarray(np.any(parts, axis=0), bool)


def _placed(label: str, known: Known) -> Mask:
    """Cells of latitude and longitude."""
    result = _CELL.fullmatch(label.strip())
    if not result or known.kind != "text":
        return _none(known)
    south, north, west, east = map(float, result.groups())
    latitude, longitude = known.places
    return (latitude >= south) & (latitude < north) & (longitude >= west) & (longitude < east)


def _below(at: NDArray[np.float64], limit: str, *, closed: bool) -> Mask:
    return at <= _point(limit) if closed else at < _point(limit)


def _point(text: str) -> float:
    plain = text.strip().replace("∞", "inf")
    if re.fullmatch(_DATE, plain):
        return float(as_numbers(np.array([plain], "datetime64[us]"))[0])
    return float(plain)


def _none(known: Known) -> Mask:
    return np.zeros(len(known.values), bool)


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
