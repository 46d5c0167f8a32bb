"""Fingerprints: sets of columns, each harmless by itself, that together single people out.

A set of columns singles out a share s of the rows if that share is alone with its values. Adding a column never
makes a row less alone, so the sets that reach a given share are the supersets of the *minimal* ones, and those are
found level by level: only sets all of whose parts fail are looked at (Abedjan, Naumann 2011; Heise et al. 2013,
"Scalable discovery of unique column combinations"). Partitions of the rows are refined column by column, and rows
that are alone already are dropped from them (stripped partitions, Huhtala et al. 1999).

>>> from discreet.anonymity.uniques import unique_sets
>>> people = {"sex": ["F", "F", "M", "M"], "born": [1980, 1990, 1980, 1990], "town": ["Pisa"] * 4}
>>> result = unique_sets(people, share=1)
>>> [(unique.columns, unique.share) for unique in result.sets]
[(('sex', 'born'), 1.0)]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Any

import numpy as np

from discreet.anonymity.classes import Bools, Ints, numbered, rows_of
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.tables import column, texts

LARGEST = 5
MOST_SETS = 100_000
_DENSE = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueSet:
    """A set of columns and the share of the rows that it singles out."""

    columns: tuple[str, ...]
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPart:
    """One column's part in singling people out.

    `alone`: the share that it singles out by itself; `without`: the share that all the other columns single out;
    `twin`: an earlier column that separates the same rows, so that either can stand for the other.
    """

    name: str
    distinct: int
    alone: float
    without: float
    twin: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprints:
    """The minimal sets that single out at least `threshold` of the rows, and each column's part.

    `sets` hold at most `largest` columns; columns with a twin are left out of them. `complete` says that there is no
    larger minimal set. `columns` come in order of what they add to all the others, then of what they do alone.
    `counted`: what shares are of, "rows" or, where units were given, "people"; `rows` is their number.
    """

    rows: int
    threshold: float
    largest: int
    together: float
    sets: tuple[UniqueSet, ...]
    columns: tuple[ColumnPart, ...]
    looked_at: int
    complete: bool
    counted: str = "rows"

    def text(self) -> str:
        """The findings in a few lines."""
        whole = (
            f"All {len(self.columns)} columns together single out {self.together:.1%} of {self.rows} {self.counted}."
        )
        if not self.sets:
            return whole + f" No set of up to {self.largest} columns singles out {self.threshold:.0%}."
        lines = [f"{column_set.share:6.1%}  {', '.join(column_set.columns)}" for column_set in self.sets]
        return "\n".join([whole, f"Minimal sets that single out at least {self.threshold:.0%}:", *lines])

    def as_dict(self) -> dict[str, Any]:
        """The findings for JSON."""
        return {
            "counted": self.counted,
            "rows": self.rows,
            "threshold": self.threshold,
            "all_columns": self.together,
            "largest": self.largest,
            "complete": self.complete,
            "sets": [{"columns": list(column_set.columns), "share": column_set.share} for column_set in self.sets],
            "columns": [
                {"name": c.name, "distinct": c.distinct, "alone": c.alone, "without": c.without, "twin": c.twin}
                for c in self.columns
            ],
        }


def uniqueness(table: Any, columns: Sequence[str]) -> float:
    """The share of the rows that are alone with their values in these columns. A missing value is a value here.

    >>> uniqueness({"sex": ["F", "F", "M"], "born": [1980, 1980, 1980]}, ["sex", "born"])
    0.3333333333333333
    """
    arrow = rows_of(table)
    keys = numbered(_coded(arrow, _names(arrow, columns)))
    return int(np.count_nonzero(np.bincount(keys) == 1)) / len(keys)


def unique_sets(
    table: Any,
    columns: Sequence[str] | None = None,
    *,
    share: Number,
    largest: int = LARGEST,
    most: int = MOST_SETS,
    units: Ints | None = None,
) -> Fingerprints:
    """All minimal sets of at most `largest` columns that single out at least `share` of the rows.

    Exact: a set is in the answer if and only if it reaches the share and no set within it does. Where more than `most`
    sets would have to be looked at, the search ends with a smaller `largest`, which the answer states.

    `units`: the person of each row as a number, where one may have several rows. People are counted then: a
    person is singled out where nobody else has the values of one of their rows.

    >>> visits = {"ill": ["flu", "HIV", "flu"]}
    >>> unique_sets(visits, share="0.5", units=np.array([0, 0, 1])).sets[0].share
    0.5
    """
    arrow = rows_of(table)
    names = _names(arrow, columns if columns is not None else arrow.column_names)
    wanted = rational(share, "share", above=0, at_most=1)
    integer(largest, "largest", at_least=1)
    coded = _coded(arrow, names)
    count = arrow.num_rows
    if units is not None:
        if len(units) != count:
            raise InvalidData(f"units: expected one for each of the {count} rows, got {len(units)}")
        people, units = np.unique(units, return_inverse=True)
        count = len(people)
    needed = -(-wanted.numerator * count // wanted.denominator)  # rounded up
    twins = _twins(coded)
    different = [codes for place, codes in enumerate(coded) if twins[place] is None]
    together, without = _left_out(different, units)
    search = _Search(different, needed, together, without, units)
    result = search.run(min(largest, len(names)), integer(most, "most", at_least=1))
    own = [name for place, name in enumerate(names) if twins[place] is None]
    sets = [UniqueSet(columns=tuple(own[i] for i in places), share=alone / count) for places, alone in result]
    parts = _parts(names, coded, twins, [alone / count for alone in (together, *without)], units)
    return Fingerprints(
        rows=count,
        threshold=float(wanted),
        largest=search.reached,
        together=together / count,
        sets=tuple(sorted(sets, key=lambda column_set: (len(column_set.columns), -column_set.share))),
        columns=parts,
        looked_at=search.looked_at,
        complete=search.complete,
        counted="rows" if units is None else "people",
    )


class _Search:
    """The level-wise search over columns given as codes; a set is a tuple of places."""

    def __init__(self, coded: list[Ints], needed: int, together: int, without: list[int], units: Ints | None) -> None:
        order = np.argsort([-int(codes.max()) for codes in coded], kind="stable")  # many values first: short partitions
        self._order = [int(place) for place in order]
        self._coded = [coded[place] for place in self._order]
        self._needed = needed
        rows = np.arange(len(coded[0]))
        self._whole = _Partition(rows, np.zeros_like(rows), 1)
        if units is not None:
            self._whole = _OfPeople(rows, np.zeros_like(rows), 1, units, np.zeros(int(units.max()) + 1, bool))
        self.looked_at = 0
        self.complete, self.reached = True, 0
        self._stack: list[tuple[int, _Partition]] = []
        self._hopeless = together < needed
        # what fails with all columns but one fails in every part of it: that one is needed
        self._essential = frozenset(at for at, place in enumerate(self._order) if without[place] < needed)

    def run(self, largest: int, most: int) -> list[tuple[tuple[int, ...], int]]:
        """The minimal sets with the number of rows that each singles out."""
        result: list[tuple[tuple[int, ...], int]] = []
        self.reached = largest
        level: list[tuple[int, ...]] = [(place,) for place in range(len(self._coded))]
        if self._hopeless:
            return []
        while level:
            if len(level[0]) > largest or (len(level[0]) > 1 and self.looked_at + len(level) > most):
                self.reached, self.complete = len(level[0]) - 1, False
                break
            sizes = [(places, self._alone_at_most(places)) for places in level]
            result += [pair for pair in sizes if pair[1] >= self._needed]
            failed = [places for places, alone in sizes if alone < self._needed]
            level = list(islice(_candidates(failed), most + 1))
        return [(tuple(sorted(self._order[place] for place in places)), alone) for places, alone in result]

    def _alone_at_most(self, places: tuple[int, ...]) -> int:
        """How many rows these columns single out; −1 where it is known that they are too few."""
        return self._alone(places) if self._essential.issubset(places) else -1

    def _alone(self, places: tuple[int, ...]) -> int:
        """How many these columns single out; partitions of the shared beginning are kept between calls."""
        self.looked_at += 1
        shared = 0
        while shared < min(len(self._stack), len(places) - 1) and self._stack[shared][0] == places[shared]:
            shared += 1
        del self._stack[shared:]
        part = self._stack[-1][1] if self._stack else self._whole
        for place in places[shared:-1]:
            part = part.refined(self._coded[place])
            self._stack.append((place, part))
        return self._whole.most - part.left_after(self._coded[places[-1]])


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    """The rows that are not alone yet, and the class of each; classes of one are dropped."""

    rows: Ints
    of_row: Ints
    count: int

    @property
    def most(self) -> int:
        """How many there are to single out."""
        return len(self.rows)

    def refined(self, codes: Ints) -> "_Partition":
        """The same, separated further by a column."""
        of_row, sizes = self._numbered(codes)
        kept = sizes > 1
        stays = kept[of_row]
        return _Partition(self.rows[stays], (np.cumsum(kept) - 1)[of_row[stays]], int(kept.sum()))

    def left_after(self, codes: Ints) -> int:
        """How many rows would not be alone after separating further by a column."""
        keys, span = self._keys(codes)
        if span <= _DENSE * len(keys) + 1024:
            sizes = np.bincount(keys, minlength=1)
            return len(keys) - int(np.count_nonzero(sizes == 1))
        keys.sort()
        same = keys[1:] == keys[:-1]
        return int(np.count_nonzero(same)) + int(np.count_nonzero(same & ~np.append(False, same[:-1])))

    def _keys(self, codes: Ints) -> tuple[Ints, int]:
        here = codes[self.rows]
        values = int(codes.max()) + 1
        return self.of_row * values + here, self.count * values

    def _numbered(self, codes: Ints) -> tuple[Ints, Ints]:
        keys, span = self._keys(codes)
        if span <= _DENSE * len(keys) + 1024:
            return keys, np.bincount(keys, minlength=1)
        _, of_row, sizes = np.unique(keys, return_inverse=True, return_counts=True)
        return of_row, sizes


@dataclass(frozen=True, slots=True, eq=False)
class _OfPeople(_Partition):
    """The same for people with several rows: the rows that no one person has for themselves, and who has such."""

    units: Ints
    singled: Bools  # of each person

    @property
    def most(self) -> int:
        """How many people there are."""
        return len(self.singled)

    def refined(self, codes: Ints) -> "_OfPeople":
        """The same, separated further by a column."""
        of_row, own = self._separated(codes)
        left, of_left = np.unique(of_row[~own], return_inverse=True)
        return _OfPeople(self.rows[~own], of_left.astype(np.int64), len(left), self.units, self._with(own))

    def left_after(self, codes: Ints) -> int:
        """How many people would not be singled out after separating further by a column."""
        return int(np.count_nonzero(~self._with(self._separated(codes)[1])))

    def _separated(self, codes: Ints) -> tuple[Ints, Bools]:
        of_row = numbered([self._keys(codes)[0]])
        return of_row, _of_one(of_row, self.units[self.rows])

    def _with(self, own: Bools) -> Bools:
        singled = self.singled.copy()
        singled[self.units[self.rows[own]]] = True
        return singled


def _of_one(keys: Ints, units: Ints) -> Bools:
    """Of each row, whether only one unit has its key."""
    low, high = np.full(int(keys.max(initial=0)) + 1, len(units)), np.full(int(keys.max(initial=0)) + 1, -1)
    np.minimum.at(low, keys, units)
    np.maximum.at(high, keys, units)
    return np.asarray((low == high)[keys])


def _candidates(failed: list[tuple[int, ...]]) -> Iterator[tuple[int, ...]]:
    """Sets one larger, all of whose parts fail: two failing sets that differ in their last column are joined."""
    known = set(failed)
    start = 0
    while start < len(failed):
        stop = start
        while stop < len(failed) and failed[stop][:-1] == failed[start][:-1]:
            stop += 1
        for first, second in combinations(failed[start:stop], 2):
            joined = (*first, second[-1])
            if all(joined[:skip] + joined[skip + 1 :] in known for skip in range(len(joined) - 2)):
                yield joined
        start = stop


def _parts(
    names: Sequence[str], coded: list[Ints], twins: list[int | None], shares: list[float], units: Ints | None
) -> tuple[ColumnPart, ...]:
    """Each column's part, the heaviest first; `shares`: of all columns together, then without each different one."""
    together, *without = shares
    count = len(coded[0]) if units is None else int(units.max()) + 1
    doubled = {twin for twin in twins if twin is not None}
    own = iter(without)
    parts = []
    for place, name in enumerate(names):
        twin = twins[place]
        rest = together if twin is not None else next(own)
        parts.append(
            ColumnPart(
                name=name,
                distinct=int(coded[place].max()) + 1,
                alone=_singles(coded[place], units) / count,
                without=together if place in doubled else rest,
                twin=None if twin is None else names[twin],
            )
        )
    return tuple(sorted(parts, key=lambda part: (part.without, -part.alone)))


def _left_out(coded: list[Ints], units: Ints | None) -> tuple[int, list[int]]:
    """How many all columns single out, and how many without each of them.

    Without column i they are numbered by the columns before it and those after it, each numbered step by step.
    """
    nothing = np.zeros(len(coded[0]), np.int64)
    after = [nothing]
    for codes in reversed(coded[1:]):
        after.append(numbered([codes, after[-1]]))
    before, without = nothing, []
    for codes, rest in zip(coded, reversed(after), strict=True):
        without.append(_singles(numbered([before, rest]), units) if len(coded) > 1 else 0)
        before = numbered([before, codes])
    return _singles(before, units), without


def _singles(keys: Ints, units: Ints | None) -> int:
    if units is None:
        return int(np.count_nonzero(np.bincount(keys) == 1))
    return len(np.unique(units[_of_one(keys, units)]))


def _twins(coded: list[Ints]) -> list[int | None]:
    """For each column an earlier one that separates the same rows, if there is one."""
    first: dict[bytes, int] = {}
    twins: list[int | None] = []
    for place, codes in enumerate(coded):
        key = codes.tobytes()  # codes are numbered as values appear: equal partitions have equal codes
        twins.append(first.get(key))
        first.setdefault(key, place)
    return twins


def _coded(table: Any, names: Sequence[str]) -> list[Ints]:
    """The columns as whole numbers, numbered as their values appear."""
    coded = []
    for name in names:
        result = texts(column(table, name)).dictionary_encode()
        coded.append(np.asarray(result.indices).astype(np.int64))
    return coded


def _names(table: Any, columns: Sequence[str]) -> tuple[str, ...]:
    if isinstance(columns, str):
        raise InvalidParameter("columns", columns, "several names, e.g. ['sex', 'zip']")
    names = tuple(columns)
    if not names or len(set(names)) != len(names):
        raise InvalidParameter("columns", list(names), "at least one name, each once")
    for name in names:
        column(table, name)
    return names
