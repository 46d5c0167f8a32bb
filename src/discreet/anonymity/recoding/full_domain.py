"""The best full-domain generalization: one level for each column, few rows suppressed, least information lost.

LeFevre, DeWitt, Ramakrishnan 2005 ("Incognito") and Kohlmayer, Prasser et al. 2012 ("Flash") search the same lattice;
here a bound on the loss leads, and classes are counted by rolling finer ones up.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from discreet.anonymity.classes import Bools, Classes, Ints, numbered
from discreet.anonymity.recoding import Aim, Coded, DistinctRows, Levels, Recoding, firsts, nodes_of
from discreet.errors import InvalidData
from discreet.exact import Number, rational

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_NODES = 5_000_000
_TIE = 1e-12  # losses that differ by no more are equal: sums round
_MOST_KEPT = 1 << 23  # counted pieces that are kept for rolling up, over all nodes


def optimal(coded: Coded, model: Aim, *, suppression: Number) -> Recoding:
    """The full-domain generalization of least NCP that suppresses at most a share `suppression` of the rows.

    At a node of the lattice the rows of every class for which the (bound) model does not hold are suppressed. A node
    is *feasible* if these are at most ⌊suppression · rows⌋. Among all feasible nodes the result has the least NCP (a
    suppressed row costs 1), up to the rounding of floating-point sums; of equals, the one with the fewest levels in
    all, so that no finer node is as good, and of these the one that lifts later columns first. The order of the rows
    does not matter. A column that can have one value only keeps it: hiding it gains nothing.

    Guarantee: the model holds for every class of the result. Proof: all rows of the other classes are suppressed.

    What is left out cannot be better. Proof. Write g(v) for the mean cost of the cells at node v without suppression.
    (1) A row costs at most 1, so suppressing never lowers a cost: NCP(v) ≥ g(v). A node with g(v) > the least NCP
    found so far cannot improve on it. (2) A class at v is a union of classes at any finer node u ≤ v, so the rows in
    classes of fewer people than `model.least`, which no class of the model may have, are at u a superset of those at
    v. If at v they exceed the limit, no u ≤ v is feasible. For k-anonymity these are all the suppressed rows. (3) If
    nothing may be suppressed and the model is monotone, feasibility at u means that all classes at u satisfy it, hence
    their unions at v do: an infeasible v has no feasible u ≤ v. With suppression (3) would be wrong: the union of a
    class that holds with one that does not may fail, so only (1) and (2) are used.

    >>> from discreet.anonymity import Hierarchy
    >>> from discreet.anonymity.models import KAnonymity
    >>> table = {"sex": ["F", "M", "F", "M"], "age": [30, 31, 32, 34]}
    >>> ages = Hierarchy.intervals("age", low=30, high=39, widths=(5,))
    >>> coded = Coded.of(table, [Hierarchy.flat("sex", ["F", "M"]), ages])
    >>> best = optimal(coded, KAnonymity(2).bind(table), suppression=0)
    >>> best.table(table).to_pydict()
    {'sex': ['F', 'M', 'F', 'M'], 'age': ['30-34', '30-34', '30-34', '30-34']}
    >>> round(best.ncp, 4)
    0.2222
    """
    share = rational(suppression, "suppression", at_least=0, at_most=1)
    tuples = DistinctRows.of(coded, model)
    nodes_of(tuples.shape, MOST_NODES)
    limit = int(share * tuples.rows)
    search = _Search(tuples, limit)
    levels = search.run()
    if levels is None:
        raise InvalidData(_infeasible(tuples, limit))
    levels = tuple(level if h.leaves > 1 else 0 for h, level in zip(coded.hierarchies, levels, strict=True))
    return Recoding.full_domain(coded, levels, ~_held(tuples, levels)[tuples.of_row])


def _infeasible(tuples: DistinctRows, limit: int) -> str:
    name = tuples.aim.model.name
    fault = tuples.at_fault()
    why = f"; even all {tuples.rows} rows as one class do not satisfy {fault}" if fault else ""
    return f"no full-domain generalization satisfies {name} with at most {limit} of {tuples.rows} rows suppressed{why}"


def _held(tuples: DistinctRows, levels: Levels) -> Bools:
    """Whether the model holds for the class of each tuple at a node."""
    classes = Classes.numbered(tuples.cells(levels, np.arange(tuples.count)), weights=tuples.weights)
    return tuples.aim.holds(classes)[classes.of_row]


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The classes of a node, in parts: tuples that share a class and all that the model looks at are one piece.

    `members` has a tuple for each piece, `weights` its people, `of_piece` its class, `sizes` the people of classes.
    """

    members: Ints
    weights: Ints
    of_piece: Ints
    sizes: Ints


@dataclass(slots=True, eq=False)
class _Search:
    """The state of one search: the best node so far, the nodes that are still open, and counted classes."""

    tuples: DistinctRows
    limit: int
    best: float = np.inf
    levels: Levels | None = None
    open: "NDArray[np.bool_]" = field(init=False)
    counted: dict[Levels, _Pieces] = field(default_factory=dict)
    kept: int = 0

    def run(self) -> Levels | None:
        """First a quick descent to a good node, then every open node whose bound is below the best."""
        bounds = self.tuples.bounds()
        self.open = np.ones(bounds.shape, np.bool_)
        self._descend()
        order = np.argsort(bounds, axis=None, kind="stable")
        if self._prunes:  # from coarse to fine: an infeasible node closes all finer ones
            order = order[::-1]
        for place in order[bounds.ravel()[order] <= self.best + _TIE]:
            levels = tuple(int(level) for level in np.unravel_index(place, bounds.shape))
            if self.open[levels] and bounds[levels] <= self.best + _TIE:
                self._try(levels)
        return self.levels

    @property
    def _prunes(self) -> bool:
        model = self.tuples.aim.model
        return model.least > 1 or (model.monotone and not self.limit)

    def _descend(self) -> None:
        """From the coarsest node downwards, always to the feasible finer neighbor that saves most."""
        here: Levels | None = tuple(size - 1 for size in self.tuples.shape)
        if here is not None and not self._try(here):
            return
        while here is not None:
            here = next((finer for finer in self._finer(here) if self.open[finer] and self._try(finer)), None)

    def _finer(self, levels: Levels) -> list[Levels]:
        """The neighbors one level below, the greatest saving first."""
        savings = [
            (ladder.means[level - 1] - ladder.means[level], j)
            for j, (ladder, level) in enumerate(zip(self.tuples.ladders, levels, strict=True))
            if level
        ]
        return [tuple(level - (i == j) for i, level in enumerate(levels)) for _, j in sorted(savings)]

    def _try(self, levels: Levels) -> bool:
        """Judge a node: whether it is feasible. Keep it if it is the best so far; close what it rules out."""
        tuples, model = self.tuples, self.tuples.aim.model
        pieces = self._pieces(levels)
        classes = Classes(pieces.of_piece, pieces.sizes, pieces.weights)
        failing = ~tuples.aim.take(pieces.members).holds(classes)
        suppressed = int(pieces.sizes[failing].sum())
        self.open[levels] = False
        if suppressed > self.limit:
            small = int(pieces.sizes[pieces.sizes < model.least].sum())
            if small > self.limit or (model.monotone and not self.limit):
                self.open[tuple(slice(level + 1) for level in levels)] = False
            return False
        lost = failing[pieces.of_piece]
        saved = tuples.costs(levels, pieces.members[lost]) @ pieces.weights[lost]
        general = sum(ladder.means[level] for ladder, level in zip(tuples.ladders, levels, strict=True))
        cost = float(general + (suppressed - saved) / tuples.rows)
        if self.levels is None or cost < self.best - _TIE or (cost <= self.best + _TIE and _finer(levels, self.levels)):
            self.best, self.levels = min(cost, self.best), levels
        return True

    def _pieces(self, levels: Levels) -> _Pieces:
        """The classes of a node, rolled up from those of a finer node: the same with its highest levels lowered."""
        if levels in self.counted:
            return self.counted[levels]
        if not any(levels):
            pieces = _rolled(self.tuples, levels, np.arange(self.tuples.count), self.tuples.weights)
        else:
            below = max(levels) - 1
            finer = self._pieces(tuple(min(level, below) for level in levels))
            pieces = _rolled(self.tuples, levels, finer.members, finer.weights)
        if self.kept + len(pieces.members) <= _MOST_KEPT:
            self.counted[levels] = pieces
            self.kept += len(pieces.members)
        return pieces


def _finer(levels: Levels, others: Levels) -> bool:
    """Whether a node is to be preferred to another that costs as much."""
    return (sum(levels), levels) < (sum(others), others)


def _rolled(tuples: DistinctRows, levels: Levels, members: Ints, weights: Ints) -> _Pieces:
    """The pieces of a node, from tuples that stand for the pieces of a finer one."""
    cells = tuples.cells(levels, members)
    codes = tuples.aim.codes
    pieces = numbered([cells, *[code[members] for code in codes]]) if codes else cells
    people = np.bincount(pieces, weights).astype(np.int64)
    first = firsts(pieces, len(people))
    of_piece = cells[first]
    sizes = np.bincount(of_piece, people).astype(np.int64) if codes else people
    return _Pieces(members[first], people, of_piece, sizes)
