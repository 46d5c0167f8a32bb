"""Local recoding: every class is lifted by itself, only as far as its own rows need.

Xu, Wang, Pei, Wang, Shi, Fu 2006 ("Utility-based anonymization using local recoding") showed how much less is lost
than by lifting whole columns. Here cells of the generalization lattice are opened cheapest first, each by the rows
that are left in it; what remains at the end joins the classes nearest to it, or takes a few of their rows along.

Groups of tuples with the least node above each, and the joining of what is left over to the nearest group.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Bools, Classes, Floats, Ints, numbered
from discreet.anonymity.recoding import Aim, Coded, DistinctRows, Recoding, firsts
from discreet.errors import InvalidData
from discreet.exact import Number, rational
from discreet.noise.entropy import Entropy
from discreet.noise.uniform import uniform_below

HIDDEN = -2
"""Instead of the number of a group: the rows of this tuple are suppressed."""
_TRIED = 8  # so many of the nearest groups are tried for a tuple that is left over
_MISSES = 200  # when so many tuples found no group, the rest will not either
_MOST_PLACINGS = 20_000_000  # tuples left over × groups beyond which they are not placed one by one


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
    if len(rest) and len(groups.people) and len(rest) * len(groups.people) <= _MOST_PLACINGS:
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


MOST_NODES = 1_000_000
_SLACK = 0.005  # a node is counted again only for cells that are dearer by more than this: fewer counts, same loss
_WORK = 600_000_000  # nodes × tuples beyond which only some nodes are looked at while many rows are left
_NEVER = 2.0  # dearer than any cell


def local(coded: Coded, model: Aim, *, suppression: Number = 0, entropy: Entropy | None = None) -> Recoding:
    """Classes that satisfy the (bound) model, each lifted to the least common ancestor of its rows in every column.

    Guarantee: the model holds for every class of the result, and at most ⌊suppression · rows⌋ rows are suppressed.
    Proof: the classes of the result are judged before it is returned; the limit is counted down. A result exists
    whenever the whole table satisfies the model, since in the worst case all rows become one class; and for a monotone
    model only then. A class may be lifted to `*` in every column: it is a class of the result like any other, but in
    the released table nobody can tell its rows from suppressed ones.

    A row that fits nowhere is suppressed, or joins a class, or takes as few rows as it needs from a class that can
    spare them, whichever loses least: one outlier costs k rows, not its whole neighborhood. So rows of equal
    quasi-identifiers may get different values. Which of them do is drawn at random, so for k-anonymity who knows the
    algorithm and everybody's quasi-identifiers learns nothing more.

    The loss is not the least possible one (finding that is NP-hard: Meyerson, Williams 2004). Up to which of equal rows
    is drawn, the result does not depend on the order of the rows, except where the model's own columns break ties.

    >>> from discreet.anonymity import Hierarchy
    >>> from discreet.anonymity.models import KAnonymity
    >>> table = {"sex": ["F", "F", "M", "M"], "age": [30, 30, 31, 38]}
    >>> ages = Hierarchy.intervals("age", low=30, high=39, widths=(5,))
    >>> coded = Coded.of(table, [Hierarchy.flat("sex", ["F", "M"]), ages])
    >>> local(coded, KAnonymity(2).bind(table)).table(table).to_pydict()
    {'sex': ['F', 'F', 'M', 'M'], 'age': ['30', '30', '*', '*']}
    """
    tuples = DistinctRows.of(coded, model)
    fault = tuples.at_fault()
    if fault:
        raise InvalidData(
            f"not even all {tuples.rows} rows as one class satisfy {fault}: no recoding can; lower the target"
        )
    limit = int(rational(suppression, "suppression", at_least=0, at_most=1) * tuples.rows)
    groups = min(_candidates(tuples, limit, entropy), key=lambda candidate: candidate.loss)
    of_row = groups.of_tuple[groups.tuples.of_row]
    heights = np.array([[hierarchy.height] for hierarchy in coded.hierarchies])
    levels = np.where(of_row >= 0, groups.levels[:, np.maximum(of_row, 0)], heights).astype(np.int8)
    recoding = Recoding(coded, levels, of_row < 0)
    if not model.holds(recoding.classes).all():
        raise InvalidData(f"no recoding was found in which every class satisfies {model.model.name}")
    return recoding


def _candidates(tuples: DistinctRows, limit: int, entropy: Entropy | None) -> Iterator[Groups]:
    """Ways to group the tuples: from cheap cells up, unless the lattice is too large; and from the top down.

    For k-anonymity cheap cells first is always better, as far as was seen. A model of a sensitive column may run out
    of rare values that way, so both are tried.
    """
    small = math.prod(tuples.shape) <= MOST_NODES
    if small:
        yield join(Groups.of(tuples, _Cover(tuples).run()), limit=limit, entropy=entropy)
    if tuples.aim.codes or not small:
        yield specialized(tuples)


@dataclass(slots=True, eq=False)
class _Cover:
    """Opens cells, the cheapest first, as long as enough rows are left in one."""

    tuples: DistinctRows
    of_tuple: Ints = field(init=False)
    rest: Ints = field(init=False)
    classes: int = 0

    def run(self) -> Ints:
        """The class of each tuple; −1 for those that no cell took."""
        self.of_tuple = np.full(self.tuples.count, -1, np.int64)
        self.rest = np.arange(self.tuples.count)
        self._sweep()
        return self.of_tuple

    def _sweep(self) -> None:
        """Look at nodes in the order of the cheapest cell that each may still have.

        A node's key is a lower bound on that: the rows that are left only become fewer, so the least cost among its
        cells only grows. A node without a cell of enough rows will never have one again.
        """
        lows = _lows(self.tuples)
        order = np.argsort(lows, axis=None, kind="stable")
        heap = [(float(lows.flat[node]), place, int(node)) for place, node in enumerate(order)]  # sorted: a heap
        work = _WORK // 8 if self.tuples.aim.codes else _WORK  # a model of a sensitive column takes longer to judge
        stride = max(1, -(-len(heap) * len(self.rest) // work))
        enough, later = len(self.rest) // stride, []
        while heap and len(self.rest):
            key, place, node = heapq.heappop(heap)
            if len(self.rest) > enough and place % stride and heap:
                later.append((key, place, node))
                continue
            limit = (heap[0][0] if heap else _NEVER) + _SLACK
            again = self._open(tuple(int(level) for level in np.unravel_index(node, lows.shape)), limit)
            if again < _NEVER:
                heapq.heappush(heap, (again, place, node))
            if later and len(self.rest) <= enough:
                heap, later = sorted(heap + later), []

    def _open(self, levels: tuple[int, ...], limit: float) -> float:
        """Take the node's cells that cost at most `limit` and satisfy the model; the cost of the next one."""
        tuples, rest = self.tuples, self.rest
        cells, weights = tuples.cells(levels, rest), tuples.weights[rest]
        sizes = np.bincount(cells, weights).astype(np.int64)
        large = sizes >= tuples.aim.model.least
        if not large.any():
            return _NEVER
        if tuples.aim.codes:
            large &= tuples.aim.take(rest).holds(Classes(cells, sizes, weights))
        costs = np.where(large, tuples.costs(levels, rest[firsts(cells, len(sizes))]), _NEVER)
        chosen = large & (costs <= limit)
        self._take(cells, chosen)
        return float(costs[~chosen].min(initial=_NEVER))

    def _take(self, cells: Ints, chosen: Bools) -> None:
        if not chosen.any():
            return
        taken = chosen[cells]
        numbers = self.classes + np.cumsum(chosen) - 1
        self.of_tuple[self.rest[taken]] = numbers[cells[taken]]
        self.classes = int(numbers[-1]) + 1
        self.rest = self.rest[~taken]


def _lows(tuples: DistinctRows) -> Floats:
    """The least that any cell costs, at every node."""
    lows: Floats = np.zeros(())
    for ladder, codes in zip(tuples.ladders, tuples.codes, strict=True):
        lows = np.add.outer(lows, ladder.costs[:, np.unique(codes)].min(axis=1))
    return lows


# From the top down


def specialized(tuples: DistinctRows) -> Groups:
    """From the top down: one class of all rows, taken apart while every part satisfies the model.

    As Fung, Wang, Yu 2005 ("Top-down specialization"), but each group of rows goes its own way. Nothing is ever left
    over, which matters for models of a sensitive column: taking cheap cells first can use up the rare values.

    Each step takes all groups that can still be taken apart, and each of these along the column that saves most. Proof
    that every group satisfies the model: the parts that are split off are judged, and so is what stays behind.
    """
    of_tuple = np.zeros(tuples.count, np.int64)
    active = np.arange(tuples.count)  # tuples of groups that changed in the last step
    while len(active):
        groups = Groups.of(tuples, of_tuple)
        parts = _best(groups, active)
        moved = parts > 0
        changed = np.zeros(len(groups.people), np.bool_)
        changed[of_tuple[active[moved]]] = True
        grown = changed[of_tuple[active]]
        apart = numbered([of_tuple[active[moved]], parts[moved]])
        of_tuple[active[moved]] = len(groups.people) + apart
        of_tuple = numbered([of_tuple])  # a group whose parts all left is no more
        active = active[grown]
    return Groups.of(tuples, of_tuple)


def _best(groups: Groups, active: Ints) -> Ints:
    """For each active tuple, the part into which the best split of its group puts it; 0 stays behind."""
    best = np.zeros(len(groups.people))
    parts = np.zeros(len(active), np.int64)
    of_active = groups.of_tuple[active]
    for column in range(len(groups.tuples.ladders)):
        split = _split(groups, active, column)
        better = split.saved > best
        best = np.where(better, split.saved, best)
        parts = np.where(better[of_active], split.parts, parts)
    return parts


@dataclass(frozen=True, slots=True, eq=False)
class _Split:
    """What taking every group apart along one column would save, and the part of each tuple (0 stays behind)."""

    saved: Floats
    parts: Ints


def _split(groups: Groups, active: Ints, column: int) -> _Split:
    """Children that satisfy the model leave; the others stay behind together, with the smallest child if need be."""
    tuples, ladder = groups.tuples, groups.tuples.ladders[column]
    of_active = groups.of_tuple[active]
    leaves = tuples.codes[column, active]
    levels = groups.levels[column][of_active]
    below = np.maximum(levels - 1, 0)
    children = numbered([of_active, ladder.nodes[below, leaves]])
    parents = np.zeros(int(children.max()) + 1, np.int64)
    parents[children] = of_active
    leave = _holds(tuples, active, children)
    leave &= (levels > 0)[_any_member(children, len(parents))]
    leave = _repaired(groups, active, children, parents, leave)
    savings = (ladder.costs[levels, leaves] - ladder.costs[below, leaves]) * tuples.weights[active] * leave[children]
    saved = np.bincount(of_active, savings, minlength=len(groups.people)).astype(np.float64)
    return _Split(saved, np.where(leave[children], children + 1, 0))


def _repaired(groups: Groups, active: Ints, children: Ints, parents: Ints, leave: Bools) -> Bools:
    """Keep the smallest leaving child where those that stay do not satisfy the model; if that fails too, keep all."""
    tuples, count = groups.tuples, len(groups.people)
    sizes = np.bincount(children, tuples.weights[active], minlength=len(parents))
    for last in (False, True):
        bad = _residue_fails(groups, active, children, leave)
        if not bad.any():
            break
        stay = bad[parents] if last else _smallest(parents, np.where(leave, sizes, np.inf), count) & bad[parents]
        leave = leave & ~stay
    return leave


def _residue_fails(groups: Groups, active: Ints, children: Ints, leave: Bools) -> Bools:
    """For each group, whether some of it stays behind and does not satisfy the model."""
    fails = np.zeros(len(groups.people), np.bool_)
    staying = ~leave[children]
    if staying.any():
        owners = groups.of_tuple[active[staying]]
        residues = numbered([owners])
        holds = _holds(groups.tuples, active[staying], residues)
        fails[owners] = ~holds[residues]
    return fails


def _smallest(parents: Ints, sizes: Floats, count: int) -> Bools:
    """The first smallest child of each parent."""
    order = np.lexsort((sizes, parents))
    first = np.zeros(len(parents), np.bool_)
    first[order[np.flatnonzero(np.diff(parents[order], prepend=-1))]] = True
    return first


def _holds(tuples: DistinctRows, members: Ints, of_member: Ints) -> Bools:
    return tuples.aim.take(members).holds(Classes.numbered(of_member, weights=tuples.weights[members]))


def _any_member(groups: Ints, count: int) -> NDArray[np.int64]:
    member = np.zeros(count, np.int64)
    member[groups] = np.arange(len(groups))
    return member
