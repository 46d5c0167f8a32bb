"""Groups of tuples with the least node above each, and the joining of what is left over to the nearest group."""

from dataclasses import dataclass, replace

import numpy as np

from discreet.anonymity.classes import Classes, Floats, Ints, numbered
from discreet.anonymity.recoding import DistinctRows, firsts
from discreet.noise.entropy import Entropy
from discreet.noise.uniform import uniform_below

HIDDEN = -2
"""Instead of the number of a group: the rows of this tuple are suppressed."""
_TRIED = 8  # so many of the nearest groups are tried for a tuple that is left over
_MISSES = 200  # when so many tuples found no group, the rest will not either
_WORK = 20_000_000  # tuples left over × groups beyond which they are not placed one by one


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each tuple and, for each group, a member, its people and its least common node.

    A tuple of no group yet is at −1, a suppressed one at −2. `levels` (columns × groups) are the levels of the least
    common ancestors: with a member they name the node.
    """

    tuples: DistinctRows
    of_tuple: Ints
    members: Ints
    people: Ints
    levels: Ints

    @classmethod
    def of(cls, tuples: DistinctRows, of_tuple: Ints) -> "Groups":
        """Groups numbered 0, 1, 2, …"""
        placed = np.flatnonzero(of_tuple >= 0)
        groups = of_tuple[placed]
        people = np.bincount(groups, tuples.weights[placed]).astype(np.int64)
        return cls(tuples, of_tuple, placed[firsts(groups, len(people))], people, _levels(tuples, placed, groups))

    @property
    def ncp(self) -> float:
        """What a row costs on average, when each group is lifted to its least common node."""
        columns = zip(self.tuples.ladders, self.tuples.codes, self.levels, strict=True)
        costs = sum(ladder.costs[levels, codes[self.members]] for ladder, codes, levels in columns)
        return float(costs @ self.people / self.people.sum())

    @property
    def loss(self) -> float:
        """What a row costs on average, where each row that is in no group costs 1."""
        total = int(self.tuples.weights.sum())
        placed = int(self.people.sum())
        return (self.ncp * placed + total - placed) / total if placed else 1.0

    def with_tuples(self, alike: Ints) -> tuple[Ints, Floats]:
        """For each group with some more tuples of equal leaves: the levels of its node, and how much dearer all is."""
        more = self.tuples.weights[alike].sum()
        levels, before, after = self._lifted(alike[0])
        return levels, (self.people + more) * after - self.people * before

    def with_companions(self, alike: Ints) -> Floats:
        """The same for a group of these tuples and of just enough rows of each group; infinite where it has too few.

        An upper limit: the rows that are nearest may cost less than the node of the whole group.
        """
        least, more = self.tuples.aim.model.least, int(self.tuples.weights[alike].sum())
        taken = max(least - more, 1)
        _, before, after = self._lifted(alike[0])
        return np.where(self.people >= least + taken, more * after + taken * (after - before), np.inf)

    def _lifted(self, row: int) -> tuple[Ints, Floats, Floats]:
        """The levels of each group with one more tuple, and what a row of it costs before and after."""
        tuples = self.tuples
        levels, before, after = np.empty_like(self.levels), np.zeros(len(self.people)), np.zeros(len(self.people))
        for j, (ladder, codes) in enumerate(zip(tuples.ladders, tuples.codes, strict=True)):
            leaves = codes[self.members]
            levels[j] = np.maximum(self.levels[j], ladder.common(codes[row])[leaves])
            before += ladder.costs[self.levels[j], leaves]
            after += ladder.costs[levels[j], leaves]
        return levels, before, after


def join(groups: Groups, *, limit: int = 0, entropy: Entropy | None = None) -> Groups:
    """The same groups with all tuples in one, but for at most `limit` rows that are suppressed (`HIDDEN`).

    A tuple that is left over joins a near group, or takes a few rows of one with it, whichever loses less and leaves
    the model satisfied; else all that is left becomes one group. Suppressed are those that would cost most, where that
    is more than a suppressed row costs.
    """
    rest = np.flatnonzero(groups.of_tuple < 0)
    if len(rest) and len(groups.people) and len(rest) * len(groups.people) <= _WORK:
        groups = _hide(groups, rest, limit) if limit else groups
        groups = _one_by_one(groups, np.flatnonzero(groups.of_tuple == -1), entropy)
    rest = np.flatnonzero(groups.of_tuple == -1)
    return _all_together(groups, rest) if len(rest) else groups


def _hide(groups: Groups, rest: Ints, limit: int) -> Groups:
    """The dearest of the tuples left over suppressed, at most so many rows."""
    of_tuple = groups.of_tuple.copy()
    costs = []
    for alike in _alike(groups.tuples, rest):
        rows = int(groups.tuples.weights[alike].sum())
        least = min(float(groups.with_tuples(alike)[1].min()), float(groups.with_companions(alike).min()))
        if least > rows:
            costs.append((-least / rows, rows, alike))
    for _, rows, alike in sorted(costs, key=lambda entry: entry[:2]):
        if rows <= limit:
            of_tuple[alike] = HIDDEN
            limit -= rows
    return replace(groups, of_tuple=of_tuple)


def _one_by_one(groups: Groups, rest: Ints, entropy: Entropy | None) -> Groups:
    """Each tuple to where it makes things least dear, among the nearest places that satisfy the model.

    DistinctRows that differ only in what the model looks at go together, and rows that go with them are drawn at random
    among those of equal quasi-identifiers: where a row goes tells nothing about its secret beyond what its
    quasi-identifiers tell, and that the model was satisfied.
    """
    misses = 0
    for alike in _alike(groups.tuples, rest):
        levels, dearer = groups.with_tuples(alike)
        split = np.where(dearer > 0, groups.with_companions(alike), np.inf)
        costs, count = np.concatenate([dearer, split]), len(groups.people)
        tried = (
            _grown(groups, alike, place, levels) if place < count else _taken(groups, alike, place - count, entropy)
            for place in _least(costs, _TRIED).tolist()
            if np.isfinite(costs[place])
        )
        result = next((made for made in tried if made is not None), None)
        misses += result is None
        if misses > _MISSES:
            break
        groups = groups if result is None else result
    return groups


def _grown(groups: Groups, alike: Ints, group: int, levels: Ints) -> Groups | None:
    """The groups with some tuples in one of them; None where that does not satisfy the model."""
    if not _satisfied(groups.tuples, np.concatenate([np.flatnonzero(groups.of_tuple == group), alike])):
        return None
    groups.of_tuple[alike] = group
    groups.people[group] += groups.tuples.weights[alike].sum()
    groups.levels[:, group] = levels[:, group]
    return groups


def _taken(groups: Groups, alike: Ints, group: int, entropy: Entropy | None) -> Groups | None:
    """The groups with a new one: some tuples, and the fewest rows of a group that are needed; None if that fails."""
    tuples = groups.tuples
    members = np.flatnonzero(groups.of_tuple == group)
    rows = _nearest_rows(tuples, members, int(alike[0]), entropy)
    least = tuples.aim.model.least
    wanted = max(least - int(tuples.weights[alike].sum()), 1)
    while wanted <= len(rows) - least:
        parted, fresh = tuples.split(rows[:wanted])
        stay = members[parted.weights[members] > 0]
        if _satisfied(parted, np.concatenate([alike, fresh])) and _satisfied(parted, stay):
            of_tuple = np.append(groups.of_tuple, np.full(len(fresh), len(groups.people)))
            of_tuple[alike] = len(groups.people)
            of_tuple[parted.weights == 0] = HIDDEN  # a tuple that was taken whole has no row left
            return Groups.of(parted, of_tuple)
        wanted *= 2
    return None


def _nearest_rows(tuples: DistinctRows, members: Ints, row: int, entropy: Entropy | None) -> Ints:
    """The rows of some tuples, those first that cost least together with another tuple; equal rows in random order."""
    costs, leaves_of = np.zeros(len(members)), numbered(list(tuples.codes[:, members]))
    for ladder, codes in zip(tuples.ladders, tuples.codes, strict=True):
        leaves = codes[members]
        costs += ladder.costs[ladder.common(codes[row])[leaves], leaves]
    of_member = np.full(tuples.count, -1)
    of_member[members] = np.arange(len(members))
    rows = np.flatnonzero(of_member[tuples.of_row] >= 0)
    member = of_member[tuples.of_row[rows]]
    words = np.asarray(uniform_below(2**63, len(rows), entropy=entropy))
    return rows[np.lexsort((words, leaves_of[member], costs[member].round(12)))]


def _alike(tuples: DistinctRows, rest: Ints) -> list[Ints]:
    """DistinctRows of equal quasi-identifiers, which stand one after the other."""
    if not len(rest):
        return []
    leaves = tuples.codes[:, rest]
    return np.split(rest, np.flatnonzero((leaves[:, 1:] != leaves[:, :-1]).any(axis=0)) + 1)


def _all_together(groups: Groups, rest: Ints) -> Groups:
    """One group of all that is left, with as many of the nearest groups as it takes; in the end all of them."""
    _, dearer = groups.with_tuples(rest[:1]) if len(groups.people) else (None, np.empty(0))
    order = np.argsort(dearer, kind="stable")
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1  # the last place is that of tuples left over
    hidden = groups.of_tuple == HIDDEN
    place = np.where(hidden, len(order), rank[np.maximum(groups.of_tuple, -1)])
    taken = 0
    while taken < len(order) and not _satisfied(groups.tuples, np.flatnonzero(place < taken)):
        taken = min(max(2 * taken, 1), len(order))
    return Groups.of(groups.tuples, np.where(hidden, HIDDEN, np.maximum(place - taken + 1, 0)))


def _least(amounts: Floats, count: int) -> Ints:
    """Where the least amounts stand, in ascending order; of equals, the first ones."""
    most = np.partition(amounts, count - 1)[count - 1] if len(amounts) > count else np.inf
    places = np.flatnonzero(amounts <= most)
    return places[np.argsort(amounts[places], kind="stable")[:count]]


def _satisfied(tuples: DistinctRows, members: Ints) -> bool:
    weights = tuples.weights[members]
    classes = Classes(np.zeros(len(members), np.int64), np.array([weights.sum()]), weights)
    return bool(tuples.aim.take(members).holds(classes)[0])


def _levels(tuples: DistinctRows, placed: Ints, groups: Ints) -> Ints:
    """The level of the least common ancestor of each group, in each column."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    levels = np.zeros((len(tuples.ladders), len(starts)), np.int64)
    for j, (ladder, codes) in enumerate(zip(tuples.ladders, tuples.codes, strict=True)):
        leaves = codes[placed[order]]
        for nodes in ladder.nodes:
            along = nodes[leaves]
            levels[j] += np.minimum.reduceat(along, starts) != np.maximum.reduceat(along, starts)
    return levels
