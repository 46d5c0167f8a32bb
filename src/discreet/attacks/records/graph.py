"""Who is this node? From a few people known in both, two networks are laid one over the other.

Narayanan, Shmatikov 2009, "De-anonymizing Social Networks": from seeds, people known in both networks, the mapping
grows. A node of the attacker's network is compared with every released node: they score Σ 1/√degree over the
neighbors of the one that are mapped to neighbors of the other. The best is taken if its eccentricity, its lead over
the second best in standard deviations, is above a threshold; if the best match of the released node, found the other
way round in the same manner, is the node itself; and both are looked at again as the mapping grows, until it rests.

What differs from the paper, and why. A sweep looks at all nodes at once, by sparse matrix products, and then changes
the mapping, so the order of nodes does not matter. Only nodes with at least `support` mapped neighbors in common are
compared, and the standard deviation is taken over those: over all nodes, nearly all of which score 0, it would be
small and the test empty. Nodes that are mapped already remain candidates, so that early errors are repaired: in a trial
(10,000 people, 50 seeds) this raised the share of people found from 0.26 to 0.81 and cut the errors from 0.25 to 0.02.

>>> from discreet.attacks.records.graph import GraphMatching
>>> from discreet.attacks.records.networks import overlapping, society
>>> pair = overlapping(society(nodes=2000, mean=20, seed=1), node_overlap="0.7", edge_overlap="0.7", seed=2)
>>> attack = GraphMatching(
...     released=pair.released, auxiliary=pair.auxiliary, seeds=pair.seeds(30, seed=3), truth=pair.truth
... )
>>> report = attack.run()
>>> report.verdict, report.success.value > 0.7, report.facts["named wrongly"].value < 0.1
('falls', True, True)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.attacks.attack_report import AttackReport, Share, setting
from discreet.attacks.records.networks import Ints, Network, find_seeds
from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.report import Chart, Line

Mapping = NDArray[np.int64]
"""For each node of the attacker's network the released node, −1 where none is named."""

_BLOCK = 4_000_000  # products of one block of rows: bounds the memory
_REST = 1000  # the mapping rests when fewer than one in so many nodes change
_WORST = 5


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The attacker's result: the mapping after each sweep, the seeds' first; and the seeds, as pairs."""

    history: tuple[Mapping, ...]
    seeds: NDArray[np.int64]

    @property
    def mapping(self) -> Mapping:
        """The mapping in the end."""
        return self.history[-1]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GraphMatching:
    """Name the nodes of a released network with the help of another one, whose nodes have names.

    `seeds` are pairs (auxiliary node, released node); without them they are looked for (`seeds.find_seeds`). `truth[i]`
    is the released node of auxiliary node i, −1 if it has none. Whatever is named for people who are not in the release
    is a false claim. They are also the control: for each a node is drawn as if it were theirs, and the control is how
    often just that one is named. `threshold` is the least eccentricity (the paper's θ, 0.5). `support` are the least
    numbers of common mapped neighbors, one after the other: strict first, to begin with few errors. `curve` are
    numbers of seeds for which the attack is repeated with the first of the seeds, for the chart.
    """

    released: Network
    auxiliary: Network
    truth: ArrayLike
    seeds: ArrayLike | None = None
    threshold: Number = setting("Match the best node if it leads by this many σ.", default="0.5")
    support: Sequence[int] = setting(
        "The least number of common neighbors, strictest first.", default=(3, 2), kind="numbers"
    )
    sweeps: int = setting("The largest number of sweeps.", default=50, least=1)
    curve: Sequence[int] = setting("Draw the curve at these numbers of seeds.", default=(), kind="numbers")
    against: str = setting("Its name in the report.", default="the network without names")
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name, network in (("released", self.released), ("auxiliary", self.auxiliary)):
            if not isinstance(network, Network):
                raise InvalidParameter(name, f"a {type(network).__name__}", "a Network; make it with Network.of(…)")
        if self.released.directed != self.auxiliary.directed:
            raise InvalidData("one network is directed and the other is not; make both alike")
        _checked_truth(self.truth, self.auxiliary.nodes, self.released.nodes)
        if self.seeds is not None:
            _checked_seeds(self.seeds, self.auxiliary.nodes, self.released.nodes)
        rational(self.threshold, "threshold", at_least=0)
        integer(self.sweeps, "sweeps", at_least=1)
        if not self.support:
            raise InvalidParameter("support", self.support, "at least one number, such as (3, 2)")
        for number in (*self.support, *self.curve):
            integer(number, "support and curve", at_least=1)

    def match(self, seeds: int | None = None) -> Matched:
        """What the attacker finds, from all seeds or the first so many, without looking at the truth."""
        if self.seeds is None:
            pairs = find_seeds(self.released, self.auxiliary)
        else:
            pairs = _checked_seeds(self.seeds, self.auxiliary.nodes, self.released.nodes)
        return Matched(tuple(_propagate(self, pairs[:seeds])), pairs[:seeds])

    def run(self) -> AttackReport:
        """Attack the whole network, and judge."""
        result = self.match()
        judge = _Judge.of(self, result)
        return AttackReport(
            attack="graph matching",
            against=self.against,
            goal="name the released node of a person of another network",
            people=judge.people,
            success=judge.share(judge.count(result.mapping)[0], judge.people),
            baseline=Share.known(1 / self.released.nodes),
            control=judge.luck(result.mapping) if judge.strangers else None,
            confidence=self.confidence,
            facts=_facts(self, result, judge),
            worst=_worst(self, result, judge),
            charts=_charts(self, result, judge),
            remarks=_remarks(self, result),
        )


# Propagation


def _propagate(attack: GraphMatching, seeds: NDArray[np.int64]) -> Iterator[Mapping]:
    """The mapping after each sweep, until it rests at the last support."""
    there, back = _Side.of(attack.auxiliary, attack.released), _Side.of(attack.released, attack.auxiliary)
    mapping, inverse = there.choice.copy(), back.choice.copy()
    mapping[seeds[:, 0]], inverse[seeds[:, 1]] = seeds[:, 1], seeds[:, 0]
    fixed, taken = mapping >= 0, inverse >= 0
    limit, supports = float(rational(attack.threshold, "threshold")), list(attack.support)
    yield mapping.copy()
    for _ in range(attack.sweeps):
        offers = there.best(mapping, np.flatnonzero(~fixed), taken, supports[0], limit)
        nodes = np.flatnonzero(offers >= 0)
        answers = back.best(inverse, offers[nodes], fixed, supports[0], limit)
        nodes = nodes[answers[offers[nodes]] == nodes]  # the reverse match: each released node answers with one node
        before = mapping.copy(), inverse.copy()
        _join(mapping, inverse, nodes, offers[nodes])
        yield mapping.copy()
        changed = mapping != before[0]
        there.look_again(changed)
        back.look_again(inverse != before[1])
        if changed.sum() <= max(2, (mapping >= 0).sum() // _REST):
            supports.pop(0)
            there.stale[:] = back.stale[:] = True
        if not supports:
            return


def _join(mapping: Mapping, inverse: Mapping, nodes: Ints, images: Ints) -> None:
    """Map nodes to images, one to one, and loosen what they were mapped to before."""
    owners, former = inverse[images], mapping[nodes]
    mapping[owners[owners >= 0]] = -1
    inverse[former[former >= 0]] = -1
    mapping[nodes], inverse[images] = images, nodes


@dataclass(slots=True)
class _Side:
    """Nodes of one network, to be compared with those of the other.

    `near` has a row for each node and a column for each neighbor, out-neighbors beside in-neighbors if directed;
    `far` a row for each such neighbor in the other network and a column for each node that it is a neighbor of. Its
    values are complex: the real part 1/√degree of that node, the imaginary part 1, so that a product holds scores and
    counts of common mapped neighbors. `choice` is each node's best match so far, −1 if none stands out, and `stale`
    says whether one of its neighbors has been mapped anew since.
    """

    near: Any
    far: Any
    choice: Mapping
    stale: NDArray[np.bool_]

    @classmethod
    def of(cls, network: Network, other: Network) -> "_Side":
        from scipy import sparse

        near, far = network.adjacency(), other.adjacency()
        if network.directed:
            near = sparse.hstack([near, near.T], format="csr")
            far = sparse.vstack([_scored(far.T.tocsr()), _scored(far)], format="csr")
        else:
            far = _scored(far)
        return cls(near, far, np.full(network.nodes, -1, np.int64), np.ones(network.nodes, bool))

    def best(self, mapping: Mapping, nodes: Ints, barred: NDArray[np.bool_], support: int, limit: float) -> Mapping:
        """Each node's best match; those of the given nodes are brought up to date."""
        rows = nodes[self.stale[nodes]]
        self.choice[rows], self.stale[rows] = -1, False
        moved = _relabeled(self.near[rows], mapping, self.far.shape[0])
        for part in _blocks(moved, self.far):
            row, column, lead = _outstanding(moved[part] @ self.far, barred, support)
            clear = lead > limit
            self.choice[rows[part.start + row[clear]]] = column[clear]
        return self.choice

    def look_again(self, changed: NDArray[np.bool_]) -> None:
        """The neighbors of nodes that have been mapped anew are stale."""
        ends = np.tile(changed, self.near.shape[1] // len(changed)).astype(np.float32)
        self.stale |= (self.near @ ends) > 0


def _scored(adjacency: Any) -> Any:
    """1/√(entries of the column) + i at each entry: Narayanan and Shmatikov's weight, and a count."""
    degree = np.bincount(adjacency.indices, minlength=adjacency.shape[1])
    scored = adjacency.astype(np.complex64)
    scored.data = (1 / np.sqrt(degree[adjacency.indices]) + 1j).astype(np.complex64)
    return scored


def _relabeled(rows: Any, mapping: Mapping, width: int) -> Any:
    """Rows of neighbors under the numbers of the other network; neighbors that are not mapped are left out."""
    from scipy import sparse

    size, half = len(mapping), width // max(1, rows.shape[1] // len(mapping))
    image = mapping[rows.indices % size]
    kept = np.flatnonzero(image >= 0)
    column = image[kept] + rows.indices[kept] // size * half
    starts = np.searchsorted(kept, rows.indptr)
    ones = np.ones(len(kept), np.complex64)
    return sparse.csr_array((ones, column, starts), shape=(rows.shape[0], width))


def _blocks(moved: Any, far: Any) -> Iterator[slice]:
    """Ranges of rows with about as many products in each."""
    work = np.concatenate([[0], np.cumsum(np.diff(far.indptr)[moved.indices])])[moved.indptr]
    marks = np.searchsorted(work, np.arange(_BLOCK, work[-1], _BLOCK))
    edges = np.unique(np.concatenate([[0], marks, [moved.shape[0]]]))
    for begin, end in pairwise(edges):
        if work[end] > work[begin]:
            yield slice(int(begin), int(end))


def _outstanding(product: Any, barred: NDArray[np.bool_], support: int) -> tuple[Ints, Ints, NDArray[np.float64]]:
    """Rows with a candidate, the best candidate's column, and its lead in standard deviations; alone it leads by ∞."""
    kept = np.flatnonzero((product.data.imag > support - 0.5) & ~barred[product.indices])
    starts = np.searchsorted(kept, product.indptr)
    row = np.flatnonzero(np.diff(starts))
    if not len(row):
        return row, row, np.zeros(0)
    column, score = product.indices[kept], product.data.real[kept].astype(np.float64)
    first, count = starts[row], np.diff(starts)[row]
    top = np.maximum.reduceat(score, first)
    mean = np.add.reduceat(score, first) / count
    spread = np.sqrt(np.maximum(np.add.reduceat(score**2, first) / count - mean**2, 0))
    peaks = np.flatnonzero(score == np.repeat(top, count))
    best = peaks[np.searchsorted(peaks, first)]
    score[best] = 0
    gap = top - np.maximum.reduceat(score, first)
    lead = np.divide(gap, spread, out=np.zeros(len(row)), where=spread > 1e-6 * top)
    return row, column[best], np.where(count == 1, np.inf, lead)


# The judge


@dataclass(frozen=True, slots=True)
class _Judge:
    """Who is who: people in both networks (without seeds that were given) and strangers, who are in one alone.

    Strangers have a released node drawn at random, to see what luck brings.
    """

    truth: Ints
    common: NDArray[np.bool_]
    alone: NDArray[np.bool_]
    confidence: float

    @classmethod
    def of(cls, attack: GraphMatching, matches: Matched) -> "_Judge":
        truth = _checked_truth(attack.truth, attack.auxiliary.nodes, attack.released.nodes)
        common, alone = truth >= 0, truth < 0
        if attack.seeds is not None:
            common[matches.seeds[:, 0]] = alone[matches.seeds[:, 0]] = False
        drawn = np.random.default_rng(0).integers(attack.released.nodes, size=len(truth))
        return cls(np.where(truth >= 0, truth, drawn), common, alone, attack.confidence)

    @property
    def people(self) -> int:
        return int(self.common.sum())

    @property
    def strangers(self) -> int:
        return int(self.alone.sum())

    def count(self, mapping: Mapping) -> tuple[int, int, int]:
        """People named rightly, people named wrongly, strangers named."""
        named = mapping >= 0
        right = self.common & (mapping == self.truth)
        return int(right.sum()), int((self.common & named & ~right).sum()), int((self.alone & named).sum())

    def luck(self, mapping: Mapping) -> Share:
        """How often a stranger is named as the node that was drawn for them."""
        return self.share(int((mapping == self.truth)[self.alone].sum()), self.strangers)

    def share(self, hits: int, trials: int) -> Share:
        return Share.counted(hits, trials, confidence=self.confidence)


def _facts(attack: GraphMatching, matches: Matched, judge: _Judge) -> dict[str, Any]:
    right, wrong, outside = judge.count(matches.mapping)
    named = right + wrong + outside
    truth = np.asarray(attack.truth)
    seeds_right = int((truth[matches.seeds[:, 0]] == matches.seeds[:, 1]).sum())
    return {
        "released nodes and edges": f"{attack.released.nodes:,} and {len(attack.released):,}",
        "attacker's nodes and edges": f"{attack.auxiliary.nodes:,} and {len(attack.auxiliary):,}",
        "seeds "
        + ("found" if attack.seeds is None else "given"): f"{len(matches.seeds):,}, of which {seeds_right:,} right",
        "named wrongly": judge.share(wrong, judge.people),
        "not named": judge.share(judge.people - right - wrong, judge.people),
        "strangers named all the same": judge.share(outside, judge.strangers),
        "of all names given, right": judge.share(right, named),
        "sweeps": len(matches.history) - 1,
    }


def _charts(attack: GraphMatching, matches: Matched, judge: _Judge) -> tuple[Chart, ...]:
    counts = np.array([judge.count(mapping) for mapping in matches.history])
    sizes = (judge.people, judge.people, max(1, judge.strangers))
    labels = ("named rightly", "named wrongly", "strangers named")
    lines = [Line(list(range(len(counts))), (counts[:, i] / sizes[i]).tolist(), labels[i]) for i in range(3)]
    growth = Chart("How the mapping grows", lines, x="sweep", y="share of people", y_range=(0, 1))
    charts = [growth, _by_degree(attack, matches, judge)]
    numbers = sorted({n for n in attack.curve if n < len(matches.seeds)})
    if numbers:
        steps = [judge.count(attack.match(n).mapping) for n in numbers] + [judge.count(matches.mapping)]
        x = [*numbers, len(matches.seeds)]
        curves = [Line(x, [step[i] / judge.people for step in steps], labels[i]) for i in range(2)]
        charts.append(Chart("How many seeds it takes", curves, x="seeds", y="share of people", y_range=(0, 1)))
    return tuple(charts)


def _by_degree(attack: GraphMatching, matches: Matched, judge: _Judge) -> Chart:
    """The share named rightly among people with 1, 2–3, 4–7, … neighbors."""
    octave = np.log2(np.maximum(attack.auxiliary.degrees, 1)).astype(np.int64)
    people = np.bincount(octave[judge.common], minlength=1)
    right = np.bincount(octave[judge.common & (matches.mapping == judge.truth)], minlength=len(people))
    filled = np.flatnonzero(people)
    line = Line((2.0**filled).tolist(), (right[filled] / people[filled]).tolist(), "named rightly")
    title, x = "Who is found", "neighbors in the attacker's network"
    return Chart(title, [line], x=x, y="share of people", log_x=True, y_range=(0, 1))


def _worst(attack: GraphMatching, matches: Matched, judge: _Judge) -> tuple[str, ...]:
    right = np.flatnonzero(judge.common & (matches.mapping == judge.truth))
    degrees = attack.auxiliary.degrees
    first = right[np.argsort(-degrees[right], kind="stable")][:_WORST]
    return tuple(f"person {i} is released node {judge.truth[i]} ({degrees[i]} neighbors)" for i in first)


def _remarks(attack: GraphMatching, matches: Matched) -> tuple[str, ...]:
    remarks = ["People in a network depend on one another; the limits take them as independent and are too narrow."]
    if attack.seeds is None and not len(matches.seeds):
        remarks.append("No seeds were found, so nothing could be named.")
    return tuple(remarks)


# Checks


def _checked_truth(truth: ArrayLike, nodes: int, images: int) -> Mapping:
    array = np.asarray(truth)
    if array.shape != (nodes,) or array.dtype.kind not in "iu":
        raise InvalidData(f"truth: expected {nodes} whole numbers, one for each auxiliary node; got {array.shape}")
    bad = (array < -1) | (array >= images)
    if bad.any():
        where = f"the first at position {int(np.argmax(bad))}"
        raise InvalidData(f"truth: {int(bad.sum())} numbers lie outside −1 … {images - 1}, {where}")
    taken = np.sort(array[array >= 0])
    if (taken[1:] == taken[:-1]).any():
        raise InvalidData("truth: two people have the same released node; each node belongs to one")
    if not len(taken):
        raise InvalidData("truth: nobody is in both networks; give at least one person who is")
    return array.astype(np.int64)


def _checked_seeds(seeds: ArrayLike, nodes: int, images: int) -> NDArray[np.int64]:
    array = np.asarray(seeds)
    if array.ndim != 2 or array.shape[1:] != (2,) or not len(array) or array.dtype.kind not in "iu":
        raise InvalidData(f"seeds: expected pairs (auxiliary node, released node), at least one; got {array.shape}")
    bad = (array < 0).any(1) | (array[:, 0] >= nodes) | (array[:, 1] >= images)
    if bad.any():
        raise InvalidData(
            f"seeds: {int(bad.sum())} name a node that does not exist, the first at position {int(np.argmax(bad))}"
        )
    for side, name in enumerate(("an auxiliary", "a released")):
        ends = np.sort(array[:, side])
        if (ends[1:] == ends[:-1]).any():
            raise InvalidData(f"seeds: they contradict: {name} node is in two pairs; keep one pair of each")
    return array.astype(np.int64)
