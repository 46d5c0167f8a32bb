"""Groups of tuples with the least node above each, and the joining of what is left over to the nearest group."""

from dataclasses import dataclass

import numpy as np

from discreet.anonymity.classes import Classes
from discreet.anonymity.tuples import Floats, Ints, Tuples, firsts

_TRIED = 8  # so many of the nearest groups are tried for a tuple that is left over
_MISSES = 200  # when so many tuples found no group, the rest will not either
_WORK = 20_000_000  # tuples left over × groups beyond which they are not placed one by one


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """The group of each tuple (−1: none yet) and, for each group, a member, its people and its least common node.

    `levels` (columns × groups) are the levels of the least common ancestors: with a member they name the node.
    """

    tuples: Tuples
    of_tuple: Ints
    members: Ints
    people: Ints
    levels: Ints

    @classmethod
    def of(cls, tuples: Tuples, of_tuple: Ints) -> "Groups":
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

    def with_tuples(self, alike: Ints) -> tuple[Ints, Floats]:
        """For each group with some more tuples of equal leaves: the levels of its node, and how much dearer all is."""
        tuples, one, more = self.tuples, alike[0], self.tuples.weights[alike].sum()
        levels, before, after = np.empty_like(self.levels), np.zeros(len(self.people)), np.zeros(len(self.people))
        for j, (ladder, codes) in enumerate(zip(tuples.ladders, tuples.codes, strict=True)):
            leaves = codes[self.members]
            apart = ladder.nodes != ladder.nodes[:, codes[one], None]
            common = apart.sum(axis=0)  # levels nest: two leaves are apart up to their least common level
            levels[j] = np.maximum(self.levels[j], common[leaves])
            before += ladder.costs[self.levels[j], leaves]
            after += ladder.costs[levels[j], leaves]
        return levels, (self.people + more) * after - self.people * before


def join(groups: Groups) -> Groups:
    """The same groups with every tuple in one: near ones where the model still holds, else one large group."""
    rest = np.flatnonzero(groups.of_tuple < 0)
    if len(rest) and len(groups.people) and len(rest) * len(groups.people) <= _WORK:
        groups = _one_by_one(groups, rest)
        rest = np.flatnonzero(groups.of_tuple < 0)
    return _all_together(groups, rest) if len(rest) else groups


def _one_by_one(groups: Groups, rest: Ints) -> Groups:
    """Each tuple into the group that it makes least dear, among the nearest that still satisfy the model.

    Tuples that differ only in what the model looks at go together: where a row goes tells nothing about its secret
    beyond what its quasi-identifiers tell.
    """
    tuples = groups.tuples
    of_tuple, people, levels = groups.of_tuple.copy(), groups.people.copy(), groups.levels.copy()
    now = Groups(tuples, of_tuple, groups.members, people, levels)
    misses = 0
    for alike in _alike(tuples, rest):
        joined, dearer = now.with_tuples(alike)
        group = next((g for g in _least(dearer, _TRIED) if _satisfied(tuples, _with(of_tuple, g, alike))), None)
        if group is None:
            misses += 1
            if misses > _MISSES:
                break
            continue
        of_tuple[alike] = group
        people[group] += tuples.weights[alike].sum()
        levels[:, group] = joined[:, group]
    return now


def _alike(tuples: Tuples, rest: Ints) -> list[Ints]:
    """Tuples of equal quasi-identifiers, which stand one after the other."""
    leaves = tuples.codes[:, rest]
    return np.split(rest, np.flatnonzero((leaves[:, 1:] != leaves[:, :-1]).any(axis=0)) + 1)


def _with(of_tuple: Ints, group: int, more: Ints) -> Ints:
    return np.concatenate([np.flatnonzero(of_tuple == group), more])


def _all_together(groups: Groups, rest: Ints) -> Groups:
    """One group of all that is left, with as many of the nearest groups as it takes; in the end all of them."""
    _, dearer = groups.with_tuples(rest[:1]) if len(groups.people) else (None, np.empty(0))
    order = np.argsort(dearer, kind="stable")
    rank = np.empty(len(order) + 1, np.int64)
    rank[order], rank[-1] = np.arange(len(order)), -1  # the last place is that of −1: tuples left over
    taken = 1 if len(order) else 0
    while taken < len(order) and not _satisfied(groups.tuples, np.flatnonzero(rank[groups.of_tuple] < taken)):
        taken = min(2 * taken, len(order))
    merged = rank[groups.of_tuple] - taken + 1
    return Groups.of(groups.tuples, np.maximum(merged, 0))


def _least(amounts: Floats, count: int) -> Ints:
    """Where the least amounts stand, in ascending order; of equals, the first ones."""
    most = np.partition(amounts, count - 1)[count - 1] if len(amounts) > count else np.inf
    places = np.flatnonzero(amounts <= most)
    return places[np.argsort(amounts[places], kind="stable")[:count]]


def _satisfied(tuples: Tuples, members: Ints) -> bool:
    weights = tuples.weights[members]
    classes = Classes(np.zeros(len(members), np.int64), np.array([weights.sum()]), weights)
    return bool(tuples.aim.take(members).holds(classes)[0])


def _levels(tuples: Tuples, placed: Ints, groups: Ints) -> Ints:
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
