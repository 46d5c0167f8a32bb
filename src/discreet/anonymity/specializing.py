"""From the top down: one class of all rows, taken apart along the hierarchies while every part satisfies the model.

As Fung, Wang, Yu 2005 ("Top-down specialization"), but each group of rows goes its own way (local recoding). Nothing is
ever left over, which matters for models of a sensitive column: taking cheap cells first can use up the rare values.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from discreet.anonymity.classes import Classes, numbered
from discreet.anonymity.joining import Groups
from discreet.anonymity.tuples import Bools, Floats, Ints, Tuples


def specialized(tuples: Tuples) -> Groups:
    """Groups that all satisfy the model, provided that the whole table does.

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


def _holds(tuples: Tuples, members: Ints, of_member: Ints) -> Bools:
    return tuples.aim.take(members).holds(Classes.numbered(of_member, weights=tuples.weights[members]))


def _any_member(groups: Ints, count: int) -> NDArray[np.int64]:
    member = np.zeros(count, np.int64)
    member[groups] = np.arange(len(groups))
    return member
