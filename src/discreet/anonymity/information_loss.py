"""What coarsening costs: how much a released table still says about the original one.

Released values are read as a reader without further knowledge reads them: a coarse value stands for each of the leaves
below it with equal chance, and a suppressed row for every leaf.
"""

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from discreet.anonymity.classes import Classes, Floats, Ints
from discreet.anonymity.hierarchy import Hierarchy
from discreet.anonymity.recoding import Recoding
from discreet.errors import InvalidData
from discreet.exact import integer

_NOTHING = 1e-24  # what rounding leaves of a square
_LARGEST_PAIR = 4_000_000  # cells of a joint table of two columns; larger pairs are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far a column's distribution moved.

    `variation` is the total variation over its leaves; `moved` the earth mover's distance in its hierarchy, which
    forgives moves among near leaves: both from 0 (the same) to 1. `ncp` is the mean penalty of its cells.
    """

    name: str
    variation: float
    moved: float
    ncp: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDrift:
    """How far two columns' joint distribution moved, and how strongly they hang together before and after (V)."""

    first: str
    second: str
    variation: float
    before: float
    after: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Utility:
    """What a recoding costs.

    `ncp`: normalized certainty penalty, 0 (nothing lost) to 1 (everything). `discernibility`: Σ size² over classes
    plus rows × suppressed rows (Bayardo, Agrawal 2005). `average`: C_avg, the mean class size over k (LeFevre, DeWitt,
    Ramakrishnan 2006): 1 is the best. `sizes`, `times`: how many classes there are of each size.
    """

    ncp: float
    discernibility: int
    average: float | None
    mean_size: float
    median_size: float
    suppressed_share: float
    sizes: tuple[int, ...]
    times: tuple[int, ...]
    drifts: tuple[Drift, ...]
    pairs: tuple[PairDrift, ...]
    left_out: tuple[tuple[str, str], ...]

    def as_dict(self) -> dict[str, Any]:
        """The measures for JSON."""
        return {
            "ncp": self.ncp,
            "discernibility": self.discernibility,
            "average_class_over_k": self.average,
            "mean_class_size": self.mean_size,
            "median_class_size": self.median_size,
            "suppressed_share": self.suppressed_share,
            "class_sizes": dict(zip(map(str, self.sizes), self.times, strict=True)),
            "columns": [
                {"name": d.name, "variation": d.variation, "moved": d.moved, "ncp": d.ncp} for d in self.drifts
            ],
            "pairs": [
                {"columns": [p.first, p.second], "variation": p.variation, "v_before": p.before, "v_after": p.after}
                for p in self.pairs
            ],
        }

    def text(self) -> str:
        """The measures in a few lines."""
        worst = max(self.drifts, key=lambda drift: drift.variation)
        over = "" if self.average is None else f", {self.average:.3g} times the least possible"
        return "\n".join(
            [
                f"NCP {self.ncp:.4f}, {self.suppressed_share:.2%} of rows suppressed",
                f"class size {self.mean_size:.3g} on average{over}, median {self.median_size:.3g}",
                f"discernibility {self.discernibility}",
                f"largest drift {worst.variation:.3f} (total variation) in {worst.name!r}",
            ]
        )


def utility(recoding: Recoding, *, k: int | None = None) -> Utility:
    """All measures of a recoding; `k`, where classes were to have at least k people.

    >>> from discreet.anonymity import Coded
    >>> coded = Coded.of({"zip": ["13053", "13068", "14850", "14853"]},
    ...                  [Hierarchy.prefixes("zip", ["13053", "13068", "14850", "14853"])])
    >>> result = utility(Recoding.full_domain(coded, [3], np.zeros(4, bool)), k=2)
    >>> round(result.ncp, 3), result.discernibility, result.average
    (0.333, 8, 1.0)
    """
    classes = recoding.classes
    pairs, left_out = pair_drifts(recoding)
    sizes, times = np.unique(classes.sizes, return_counts=True)
    return Utility(
        ncp=recoding.ncp,
        discernibility=discernibility(classes),
        average=None if k is None or not classes.count else average_class_size(classes, k=k),
        mean_size=float(classes.sizes.mean()) if classes.count else 0.0,
        median_size=float(np.median(classes.sizes)) if classes.count else 0.0,
        suppressed_share=float(recoding.suppressed.mean()),
        sizes=tuple(sizes.tolist()),
        times=tuple(times.tolist()),
        drifts=drifts(recoding),
        pairs=pairs,
        left_out=left_out,
    )


def discernibility(classes: Classes) -> int:
    """Σ size² over classes, plus the number of all rows for each suppressed one.

    >>> discernibility(Classes.numbered(np.array([0, 0, 1, 1, 1, -1])))
    19
    """
    sizes = classes.sizes.astype(object) if classes.sizes.sum() > 3e9 else classes.sizes
    rows = len(classes.of_row) if classes.weights is None else int(classes.weights.sum())
    return int((sizes * sizes).sum()) + rows * (rows - int(classes.sizes.sum()))


def average_class_size(classes: Classes, *, k: int) -> float:
    """C_avg = (released rows/classes)/k.

    >>> average_class_size(Classes.numbered(np.array([0, 0, 1, 1, 1, 1])), k=2)
    1.5
    """
    integer(k, "k", at_least=1)
    if not classes.count:
        raise InvalidData("there are no classes: every row is suppressed")
    return float(classes.sizes.sum() / classes.count / k)


def drifts(recoding: Recoding) -> tuple[Drift, ...]:
    """How far each column's distribution moved."""
    costs = np.where(recoding.suppressed, 1.0, recoding.costs).mean(axis=1)
    result = []
    for place, hierarchy in enumerate(recoding.coded.hierarchies):
        before = np.bincount(recoding.coded.codes[place], minlength=hierarchy.leaves) / recoding.coded.rows
        after = spread(recoding, place)
        variation, moved = _apart(before, after, hierarchy)
        result.append(Drift(name=hierarchy.name, variation=variation, moved=moved, ncp=float(costs[place])))
    return tuple(result)


def spread(recoding: Recoding, place: int) -> Floats:
    """A released column's distribution over leaves, each coarse value spread evenly over those below it.

    >>> from discreet.anonymity import Coded
    >>> coded = Coded.of({"sex": ["F", "F", "M"]}, [Hierarchy.flat("sex", ["F", "M"])])
    >>> spread(Recoding.full_domain(coded, [1], np.zeros(3, bool)), 0).tolist()
    [0.5, 0.5]
    """
    hierarchy = recoding.coded.hierarchies[place]
    nodes, covers, leaf_nodes = _flat(hierarchy)
    cells = nodes[_levels(recoding, place), recoding.coded.codes[place]]
    mass = np.bincount(cells, minlength=len(covers)) / covers
    return np.asarray(mass[leaf_nodes].sum(axis=0) / recoding.coded.rows)


def pair_drifts(recoding: Recoding) -> tuple[tuple[PairDrift, ...], tuple[tuple[str, str], ...]]:
    """How far the columns' joint distributions moved, two by two; and the pairs left out because they are too large."""
    result, left_out = [], []
    hierarchies = recoding.coded.hierarchies
    for first, second in combinations(range(len(hierarchies)), 2):
        names = hierarchies[first].name, hierarchies[second].name
        if hierarchies[first].leaves * hierarchies[second].leaves > _LARGEST_PAIR:
            left_out.append(names)
            continue
        before, after = _joints(recoding, first, second)
        result.append(
            PairDrift(
                first=names[0],
                second=names[1],
                variation=float(np.abs(before - after).sum() / 2),
                before=association(before),
                after=association(after),
            )
        )
    return tuple(result), tuple(left_out)


def association(joint: Floats) -> float:
    """Cramér's V of a joint distribution: 0 where the two are independent, 1 where one tells the other.

    √(Σ (p_ij − p_i·p_j)²/(p_i·p_j) / (min(rows, columns) − 1)), over rows and columns that occur (Cramér 1946).

    >>> association(np.array([[0.5, 0.0], [0.0, 0.5]])), association(np.full((2, 2), 0.25))
    (1.0, 0.0)
    """
    rows, columns = joint.sum(axis=1), joint.sum(axis=0)
    present = joint[np.ix_(rows > 0, columns > 0)]
    smaller = min(present.shape) - 1
    if smaller < 1:
        return 0.0
    expected = np.outer(rows[rows > 0], columns[columns > 0])
    squared = float((((present - expected) ** 2) / expected).sum() / smaller)
    return 0.0 if squared < _NOTHING else min(squared, 1.0) ** 0.5


def _joints(recoding: Recoding, first: int, second: int) -> tuple[Floats, Floats]:
    """The joint distribution of two columns over their leaves, before and after."""
    mine, theirs = recoding.coded.hierarchies[first], recoding.coded.hierarchies[second]
    codes, rows = recoding.coded.codes, recoding.coded.rows
    before = np.bincount(
        codes[first].astype(np.int64) * theirs.leaves + codes[second], minlength=mine.leaves * theirs.leaves
    )
    nodes_mine, covers_mine, leaves_mine = _flat(mine)
    nodes_theirs, covers_theirs, leaves_theirs = _flat(theirs)
    cells = nodes_mine[_levels(recoding, first), codes[first]] * len(covers_theirs)
    cells = cells + nodes_theirs[_levels(recoding, second), codes[second]]
    counts = np.bincount(cells, minlength=len(covers_mine) * len(covers_theirs)).reshape(len(covers_mine), -1)
    mass = counts / covers_mine[:, None] / covers_theirs
    half = np.add.reduce([mass[nodes] for nodes in leaves_mine])  # leaves of the first × nodes of the second
    after = np.add.reduce([half[:, nodes] for nodes in leaves_theirs])
    return before.reshape(mine.leaves, theirs.leaves) / rows, after / rows


def _flat(hierarchy: Hierarchy) -> tuple[Ints, Floats, Ints]:
    """All nodes numbered through the levels: the node of (level, leaf), the leaves that each covers, and again."""
    starts = np.cumsum([0, *[len(labels) for labels in hierarchy.labels[:-1]]])
    nodes = np.stack(hierarchy.codes).astype(np.int64) + starts[:, None]
    covers = np.concatenate([hierarchy.covers(level) for level in range(hierarchy.height + 1)])
    return nodes, np.maximum(covers, 1).astype(np.float64), nodes


def _levels(recoding: Recoding, place: int) -> Ints:
    """The level of each row's cell; suppressed rows are at the top."""
    top = recoding.coded.hierarchies[place].height
    return np.where(recoding.suppressed, top, recoding.levels[place]).astype(np.int64)


def _apart(before: Floats, after: Floats, hierarchy: Hierarchy) -> tuple[float, float]:
    """The total variation over leaves, and its mean over the levels below the top (`closeness.hierarchical`)."""
    difference = before - after
    levels = [np.bincount(hierarchy.codes[level], difference) for level in range(hierarchy.height)]
    apart = [float(np.abs(level).sum() / 2) for level in levels]
    return apart[0], float(np.mean(apart))
