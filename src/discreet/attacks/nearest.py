"""The released rows nearest to a person, ties included, over columns of any kind.

The distance is Gower's (1971), a mean over the columns: for numbers and dates how many of the released values lie
between the two (as a share, so that no outlier squeezes the rest together), for texts 0 or 1, for coarsened labels 0
where the label covers the value; a missing value is at distance 1 from everything. Rows that look the same are one
*class*. Distances are whole numbers, so that ties are ties: all the classes at the least distance are found.

>>> from discreet.attacks.nearest import Space
>>> space = Space({"age": np.array([20, 30, 30]), "sex": np.array(["F", "M", "M"], object)})
>>> near = space.nearest({"age": np.array([29]), "sex": np.array(["M"], object)})
>>> space.classes, near.classes.tolist(), space.of_row.tolist()
(2, [1], [0, 1, 1])
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.matching import keyed
from discreet.attacks.rules import Coarse, rule_for
from discreet.attacks.tables import Codes, Column, as_numbers, coded, distinct, kind
from discreet.exact import integer

Ints = NDArray[np.int32]
Mask = NDArray[np.bool_]

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
    found: list[tuple[Codes, Codes]] = []
    for start in range(0, people, _ASKED):
        far = _distances(axes, slice(start, min(start + _ASKED, people)), classes)
        least = far.min(axis=1) if neighbors == 1 else np.partition(far, neighbors - 1, axis=1)[:, neighbors - 1]
        person, nearest = np.nonzero(far <= least[:, None])
        found.append((start + person, nearest))
    empty = np.empty(0, np.int64)
    return np.concatenate([p for p, _ in found] or [empty]), np.concatenate([c for _, c in found] or [empty])


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
