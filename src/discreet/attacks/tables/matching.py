"""Who fits whom over several columns, without ever forming all pairs.

The labels of a column are put into layers, such that within a layer no two cover the same value (`Relation.layers`). A
released row then has a layer in each column; for all rows with the same layers every known value has at most one label,
so that one join by equality finds who fits them. Exact columns and full-domain generalization need one layer, dates
within 3 days seven, a hierarchy at most its height. The cost is (combinations of layers that occur) × (known people).

The released rows nearest to a person, ties included, over columns of any kind.

The distance is Gower's (1971), a mean over the columns: for numbers and dates how many of the released values lie
between the two (as a share, so that no outlier squeezes the rest together), for texts 0 or 1, for coarsened labels 0
where the label covers the value; a missing value is at distance 1 from everything. Rows that look the same are one
*class*. Distances are whole numbers, so that ties are ties: all the classes at the least distance are found.

>>> from discreet.attacks.tables.matching import Space
>>> space = Space({"age": np.array([20, 30, 30]), "sex": np.array(["F", "M", "M"], object)})
>>> near = space.nearest({"age": np.array([29]), "sex": np.array(["M"], object)})
>>> space.classes, near.classes.tolist(), space.of_row.tolist()
(2, [1], [0, 1, 1])
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.tables.columns import Codes, Column, as_numbers, as_texts, coded, distinct, kind
from discreet.attacks.tables.rules import Coarse, Rule, rule_for
from discreet.exact import integer

Mask = NDArray[np.bool_]
_OFTEN = 10  # a value that this many rows should have is not missing from all of them by chance (e^-10)
_FEW = 0.05  # of the people may have a value that no released one covers: errors, people who were left out


@dataclass(frozen=True, slots=True)
class Fit:
    """Who fits whom. For each released row: how many people fit, and the only one who does (-1: none or several).

    For each person: how many released rows they fit.
    """

    people: Codes
    person: Codes
    rows: Codes


@dataclass(frozen=True, slots=True)
class _Side:
    """A column of both tables: codes of labels and of values, and how labels cover values."""

    labels: Codes
    values: Codes
    count: int
    layer: Codes
    owners: list[Codes]
    agreement: float
    unfit: int
    idle: Mask  # of labels: whether they cover nobody
    covered: Mask  # of values: whether some label covers them
    labeled: bool  # not numbers or dates on both sides


class Join:
    """The columns of a released and of a known table, ready to be joined.

    >>> join = Join({"zip": np.array(["130**"], object)}, {"zip": np.array(["13053", "14850"], object)}, {})
    >>> join.fit().person.tolist(), join.fit().rows.tolist()
    ([0], [1, 0])
    """

    def __init__(self, released: Mapping[str, Column], known: Mapping[str, Column], rules: Mapping[str, Rule]) -> None:
        self.names = tuple(released)
        self.rules = {name: rules.get(name) or rule_for(released[name], known[name]) for name in self.names}
        self._sides = {name: _side(released[name], known[name], self.rules[name]) for name in self.names}
        self.shape = len(next(iter(released.values()))), len(next(iter(known.values())))

    def fit(self, names: Sequence[str] | None = None, *, rows: Mask | None = None, people: Mask | None = None) -> Fit:
        """Who fits whom in all the named columns (all, if none are named), among some rows and people (all)."""
        sides = [self._sides[name] for name in (self.names if names is None else names)]
        labels, row_class, row_sizes = _classes([side.labels for side in sides], rows)
        values, folk_class, folk_sizes = _classes([side.values for side in sides], people)
        counts, someone = np.zeros(len(row_sizes), np.int64), np.zeros(len(row_sizes), np.int64)
        fitted = np.zeros(len(folk_sizes), np.int64)
        for result, classes in _matches(sides, labels, values):
            counts += np.bincount(classes, folk_sizes[result], len(counts)).astype(np.int64)
            someone[classes] = result
            fitted[result] += row_sizes[classes]
        return _expand(row_class, folk_class, counts, someone, fitted)

    def fits(self, row: Codes, person: Codes) -> Mask:
        """Whether each row is fitted by the person beside it."""
        result = np.ones(len(row), bool)
        for side in self._sides.values():
            result &= _fits(side, row, person) & (side.labels[row] >= 0) & (side.values[person] >= 0)
        return result

    def misread(self, row: Codes, person: Codes) -> dict[str, float]:
        """For each column of texts or of mixed kinds, the share of rows that fit nobody, not even their own person.

        Their own people are given beside them; where something is missing, they fit.
        """
        return {
            name: float((~_fits(side, row, person) & np.append(side.idle, False)[side.labels[row]]).mean())
            for name, side in self._sides.items()
            if side.labeled
        }

    def uncovered(self, people: Mask | None = None) -> dict[str, float]:
        """For each column that is not of numbers or dates on both sides, the share of people whom no label covers.

        A value so rare that it may be missing from as many rows by chance does not count, unless nobody is covered.
        """
        among = np.ones(self.shape[1], bool) if people is None else people
        sides = {name: side for name, side in self._sides.items() if side.labeled and among.any()}
        return {name: _uncovered(side, side.values[among]) for name, side in sides.items()}

    def agreement(self, name: str) -> float:
        """How often a random row and a random person fit in a column: u in Fellegi and Sunter 1969."""
        return self._sides[name].agreement

    def unfit(self, name: str) -> int:
        """How many different labels of a column fit nobody, and may not have been understood."""
        return self._sides[name].unfit


def _side(released: Column, known: Column, rule: Rule) -> _Side:
    (labels,), (values,) = coded(released), coded(known)
    distinct_labels, distinct_values = (distinct(a, c) for a, c in ((released, labels), (known, values)))
    relation = rule.relation(distinct_labels, distinct_values)
    layer, owners = relation.layers()
    shares = [np.bincount(codes[codes >= 0], minlength=1) / len(codes) for codes in (labels, values)]
    agreement = float((shares[0][relation.labels] * shares[1][relation.values]).sum()) if len(relation.values) else 0.0
    idle = np.diff(relation.starts) == 0
    unfit = sum(rule.strange(label) for label in as_texts(distinct_labels[idle]))
    covered = np.bincount(relation.values, minlength=len(distinct_values)) > 0
    labeled = not kind(released) == kind(known) != "text"
    return _Side(labels, values, len(distinct_labels), layer, owners, agreement, unfit, idle, covered, labeled)


def _fits(side: _Side, row: Codes, person: Codes) -> Mask:
    """Whether rows and people fit in one column; where something is missing, they do."""
    label, value = side.labels[row], side.values[person]
    held = np.flatnonzero((label >= 0) & (value >= 0))
    result = np.ones(len(row), bool)
    result[held] = np.stack(side.owners)[side.layer[label[held]], value[held]] == label[held]
    return result


def _uncovered(side: _Side, values: Codes) -> float:
    held = values[values >= 0]
    lost = ~side.covered[held]
    if not len(held) or lost.all():
        return float(bool(len(held)))
    expected = np.bincount(held, minlength=len(side.covered)) / len(held) * (side.labels >= 0).sum()
    return float((lost & (expected[held] >= _OFTEN)).mean())


def unread(shares: Mapping[str, float], what: str) -> tuple[str, ...]:
    """Sentences on columns in which more than one in twenty do not fit, so that labels may have been misread.

    >>> unread({"land": 0.5, "zip": 0.01}, "the people")
    ("column 'land': no released value covers that of 50 % of the people; explain coarsened labels (covers), ...",)
    """
    hint = "explain coarsened labels (covers), or allow for errors; as it is, failing shows nothing"
    return tuple(
        f"column {name!r}: no released value covers that of {100 * share:.0f} % of {what}; {hint}"
        for name, share in shares.items()
        if share > _FEW
    )


def _classes(columns: list[Codes], among: Mask | None) -> tuple[list[Codes], Codes, Codes]:
    """The distinct rows of some columns (by column), the class of each row (-1: something is missing), their sizes."""
    held = [codes >= 0 for codes in columns] + ([] if among is None else [among])
    whole = np.flatnonzero(np.all(held, axis=0))
    of_row = np.full(len(columns[0]), -1)
    (keys,) = keyed([[codes[whole] for codes in columns]])
    _, first, inverse, sizes = np.unique(keys, return_index=True, return_inverse=True, return_counts=True)
    of_row[whole] = inverse
    return [codes[whole[first]] for codes in columns], of_row, sizes


def keyed(tables: list[list[Codes]]) -> list[Codes]:
    """One number for each row of codes ≥ 0, the same for the same row in all the tables.

    >>> keyed([[np.array([0, 1]), np.array([2, 0])], [np.array([1]), np.array([0])]])
    [array([2, 3]), array([3])]
    """
    lengths = np.cumsum([len(table[0]) for table in tables])[:-1]
    key, most = np.zeros(sum(len(table[0]) for table in tables), np.int64), 1
    for column in zip(*tables, strict=True):
        codes = np.concatenate(column)
        size = int(codes.max(initial=0)) + 1
        if most > (1 << 62) // size:
            key = np.unique(key, return_inverse=True)[1]
            most = int(key.max(initial=0)) + 1
        key, most = key * size + codes, most * size
    return np.split(key, lengths)


def _matches(sides: list[_Side], rows: list[Codes], folk: list[Codes]) -> Iterator[tuple[Codes, Codes]]:
    """For each combination of layers: classes of people, each once, and the class of rows that each of them fits."""
    if not len(rows[0]) or not len(folk[0]):
        return
    layers = np.stack([side.layer[codes] for side, codes in zip(sides, rows, strict=True)])
    combinations, which = np.unique(layers, axis=1, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    for combination, classes in zip(combinations.T, groups, strict=True):
        labels = [side.owners[i][codes] for side, i, codes in zip(sides, combination, folk, strict=True)]
        held = np.flatnonzero(np.all([place >= 0 for place in labels], axis=0))
        theirs, mine = keyed([[place[held] for place in labels], [codes[classes] for codes in rows]])
        sort = np.argsort(mine)
        place = np.minimum(np.searchsorted(mine[sort], theirs), len(mine) - 1)
        result = mine[sort][place] == theirs
        yield held[result], classes[sort[place[result]]]


def _expand(row_class: Codes, folk_class: Codes, people: Codes, someone: Codes, fitted: Codes) -> Fit:
    """From classes to rows and persons."""
    member = np.zeros(len(fitted), np.int64)
    member[folk_class[folk_class >= 0]] = np.flatnonzero(folk_class >= 0)
    each = np.where(row_class >= 0, people[row_class], 0) if len(people) else np.zeros(len(row_class), np.int64)
    only = np.full(len(row_class), -1)
    sure = np.flatnonzero(each == 1)
    only[sure] = member[someone[row_class[sure]]]
    rows = np.where(folk_class >= 0, fitted[folk_class], 0) if len(fitted) else np.zeros(len(folk_class), np.int64)
    return Fit(each, only, rows)


Ints = NDArray[np.int32]

_UNIT = 1 << 20  # a distance of 1 in one column
_ASKED, _TILE = 64, 2048  # a tile of distances stays in the cache


@dataclass(frozen=True, slots=True)
class Near:
    """The nearest classes: those of person i stand at `starts[i]:starts[i + 1]`."""

    starts: Codes
    classes: Codes

    @property
    def person(self) -> Codes:
        """The person of each pair."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))


class Space:
    """Released rows, ready to be searched."""

    def __init__(self, released: Mapping[str, Column]) -> None:
        codes = [coded(column)[0] + 1 for column in released.values()]
        (keys,) = keyed([codes])
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        self.of_row: Codes = inverse
        self.classes = len(first)
        self._all = dict(released)
        self._columns = {name: column[first] for name, column in released.items()}

    def nearest(self, people: Mapping[str, Column], *, neighbors: int = 1) -> Near:
        """The nearest classes of each person; with more neighbors, all at most as far as the k-th nearest."""
        count = integer(neighbors, "neighbors", at_least=1)
        wanted = {name: people[name] for name in self._columns}
        same = self._same(wanted) if count == 1 else np.full(len(next(iter(wanted.values()))), -1)
        asked = np.flatnonzero(same < 0)
        axes = [self._axis(name, wanted[name][asked]) for name in self._columns]
        person, classes = _search(axes, len(asked), self.classes, min(count, self.classes))
        person = np.concatenate([np.flatnonzero(same >= 0), asked[person]])
        classes = np.concatenate([same[same >= 0], classes])
        order = np.argsort(person, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(person, minlength=len(same)))])
        return Near(starts, classes[order])

    def _same(self, people: Mapping[str, Column]) -> Codes:
        """The class that is equal to each person in every column, -1 for none; coarsened labels equal nobody."""
        if any(isinstance(rule_for(self._columns[name], column), Coarse) for name, column in people.items()):
            return np.full(len(next(iter(people.values()))), -1)
        pairs = [coded(self._columns[name], column) for name, column in people.items()]
        mine, theirs = keyed([[pair[0] + 1 for pair in pairs], [pair[1] + 1 for pair in pairs]])
        whole = np.all([pair[1] >= 0 for pair in pairs], axis=0)
        order = np.argsort(mine)
        place = np.minimum(np.searchsorted(mine[order], theirs), len(mine) - 1)
        return np.where(whole & (mine[order][place] == theirs), order[place], -1)

    def _axis(self, name: str, people: Column) -> "_Axis":
        mine = self._columns[name]
        if kind(mine) != "text" and kind(mine) == kind(people):
            return _Number.of(self._all[name], mine, people)
        rule = rule_for(mine, people)
        if isinstance(rule, Coarse) and len(people):
            return _Label.of(mine, people, rule)
        return _Text.of(mine, people)


@dataclass(frozen=True, slots=True)
class _Text:
    mine: NDArray[Any]
    theirs: NDArray[Any]

    @classmethod
    def of(cls, mine: Column, people: Column) -> "_Text":
        a, b = coded(mine, people)
        narrow = np.int8 if max(a.max(), b.max(initial=0)) < 127 else np.int32  # narrow numbers compare faster
        return cls(np.where(a < 0, -2, a).astype(narrow), b.astype(narrow))

    def add(self, asked: slice, tile: slice, work: "_Work") -> None:
        np.not_equal(self.theirs[asked, None], self.mine[tile], out=work.differ)
        np.add(work.count, work.differ.view(np.int8), out=work.count)


@dataclass(frozen=True, slots=True)
class _Number:
    mine: Ints
    theirs: Ints
    clip: bool

    @classmethod
    def of(cls, every: Column, mine: Column, people: Column) -> "_Number":
        at = [as_numbers(column) for column in (every, mine, people)]
        values, counts = np.unique(at[0][~np.isnan(at[0])], return_counts=True)
        rank = (np.cumsum(counts) - counts / 2) / max(1, counts.sum())
        places = [np.interp(x, values, rank) if len(values) else np.full(len(x), np.nan) for x in at[1:]]
        gone = [np.isnan(x) for x in at[1:]]
        whole = [
            np.where(lost, far, np.round(np.nan_to_num(place) * _UNIT)).astype(np.int32)
            for place, lost, far in zip(places, gone, (-_UNIT, 2 * _UNIT), strict=True)
        ]
        return cls(whole[0], whole[1], bool(gone[0].any() or gone[1].any()))

    def add(self, asked: slice, tile: slice, work: "_Work") -> None:
        np.subtract(self.theirs[asked, None], self.mine[tile], out=work.gap)
        np.abs(work.gap, out=work.gap)
        if self.clip:
            np.minimum(work.gap, _UNIT, out=work.gap)
        np.add(work.far, work.gap, out=work.far)


@dataclass(frozen=True, slots=True)
class _Label:
    far: NDArray[Any]  # labels × values: 0 where covered
    mine: Codes
    theirs: Codes

    @classmethod
    def of(cls, mine: Column, people: Column, rule: Coarse) -> "_Label":
        (a,), (b,) = coded(mine), coded(people)
        labels, values = (distinct(column, codes) for column, codes in ((mine, a), (people, b)))
        relation = rule.relation(labels, values)
        far = np.full((len(labels) + 1, len(values) + 1), _UNIT, np.int32)  # the last of each: missing
        far[relation.labels, relation.values] = 0
        return cls(far, a, b)

    def add(self, asked: slice, tile: slice, work: "_Work") -> None:
        np.add(work.far, self.far[self.mine[tile]][:, self.theirs[asked]].T, out=work.far)


_Axis = _Text | _Number | _Label


@dataclass(frozen=True, slots=True)
class _Work:
    """Memory for one tile: distances so far, differences of one column, texts that differ."""

    far: Ints
    gap: Ints
    differ: Mask
    count: NDArray[Any]

    @classmethod
    def of(cls, asked: int, width: int, axes: int) -> "_Work":
        kinds = (np.int32, np.int32, np.bool_, np.int8 if axes < 128 else np.int16)
        return cls(*(np.zeros((asked, width), kind) for kind in kinds))  # type: ignore[arg-type]

    def cleared(self) -> "_Work":
        self.far[:] = 0
        self.count[:] = 0
        return self


def _search(axes: list[_Axis], people: int, classes: int, neighbors: int) -> tuple[Codes, Codes]:
    """Pairs of people and the classes at most as far as their `neighbors`-th nearest."""
    result: list[tuple[Codes, Codes]] = []
    for start in range(0, people, _ASKED):
        far = _distances(axes, slice(start, min(start + _ASKED, people)), classes)
        least = far.min(axis=1) if neighbors == 1 else np.partition(far, neighbors - 1, axis=1)[:, neighbors - 1]
        person, nearest = np.nonzero(far <= least[:, None])
        result.append((start + person, nearest))
    empty = np.empty(0, np.int64)
    return np.concatenate([p for p, _ in result] or [empty]), np.concatenate([c for _, c in result] or [empty])


def _distances(axes: list[_Axis], asked: slice, classes: int) -> Ints:
    """The distance of some people to every class, tile by tile."""
    far = np.empty((asked.stop - asked.start, classes), np.int32)
    whole = _Work.of(len(far), min(_TILE, classes), len(axes))
    for left in range(0, classes, _TILE):
        tile = slice(left, min(left + _TILE, classes))
        width = tile.stop - left
        work = whole.cleared() if width == whole.far.shape[1] else _Work.of(len(far), width, len(axes))
        for axis in axes:
            axis.add(asked, tile, work)
        np.multiply(work.count, np.int32(_UNIT), out=work.gap)
        np.add(work.far, work.gap, out=far[:, tile])
    return far
