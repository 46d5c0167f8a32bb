"""Decision trees and random forests: splits chosen by the exponential mechanism, leaves counted with geometric noise.

Both are ε-DP without δ. A tree is complete, of a depth fixed in advance: where to stop never depends on the data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter
from discreet.exact import Number, integer, rational
from discreet.learning.classical import inputs
from discreet.learning.classical.estimator import Classifier, Floats
from discreet.learning.classical.exact_sums import Ints
from discreet.mechanisms import Exponential, Geometric
from discreet.noise import DeterministicEntropy, Entropy, uniform_below
from discreet.privacy.loss import BoundedRange, Loss, Parallel, Pure, Repeated, Together

_GRID = 1 << 16
_DEEPEST = 12


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """A complete tree: at inner node i go to 2i + 1 if x[feature] ≤ threshold, else to 2i + 2; leaves hold chances."""

    feature: Ints
    threshold: Floats
    chances: Floats
    importances: Floats | None = None

    def leaves(self, values: Floats) -> Ints:
        """Which leaf each row reaches."""
        at = np.zeros(len(values), np.int64)
        while len(at) and at[0] < len(self.feature):
            right = values[np.arange(len(values)), self.feature[at]] > self.threshold[at]
            at = 2 * at + 1 + right
        return at - len(self.feature)


@dataclass(frozen=True, slots=True)
class TreePlan:
    """How ε is spent on a tree: each level's splits cost `split`, the leaves `leaf`.

    Guarantee: growing and counting a tree costs `loss` under "add or remove one".
    Proof. A row is in one node of each level, so choosing all splits of a level costs what choosing one does, and they
    are chosen with `Exponential` from scores of sensitivity `_GRID` (`split_scores`). A row is in one leaf and adds 1
    to one count there: geometric noise of scale 1/leaf. Levels and leaves compose.
    """

    depth: int
    split: Fraction
    leaf: Fraction

    @property
    def loss(self) -> Loss:
        """All levels, then the leaves."""
        return (
            Together(Repeated(BoundedRange(self.split), self.depth), Pure(self.leaf)) if self.depth else Pure(self.leaf)
        )


class DecisionTreeClassifier(Classifier):
    """A decision tree, ε-differentially private.

    bounds       (low, high) of the features; candidates for splits lie evenly between them
    classes      declared, or "public" as in `GaussianNB`
    max_depth    the depth of every leaf
    thresholds   how many candidates a feature has; or, for each column, a list of its own (public knowledge)
    split_share  how much of ε goes to the choice of splits; the rest to the leaves' counts
    rows         about how many rows there are, if that is public: an ε that cannot work is refused

    Guarantee: `fit` costs `cost_` under "add or remove one", which is ε-DP; proof in `TreePlan`.

    >>> import numpy as np
    >>> x = np.linspace(0, 1, 2000)[:, None]
    >>> model = DecisionTreeClassifier(epsilon=2, bounds=(0, 1), classes=["low", "high"], max_depth=2)
    >>> model.fit(x, np.where(x[:, 0] > 0.5, "high", "low")).predict([[0.1], [0.9]]).tolist()
    ['low', 'high']
    """

    def __init__(
        self,
        *,
        epsilon: Number,
        bounds: inputs.Bounds,
        classes: Any,
        max_depth: int = 4,
        thresholds: int | Sequence[Sequence[float]] = 16,
        split_share: Number = 0.7,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.bounds, self.classes, self.max_depth = epsilon, bounds, classes, max_depth
        self.thresholds, self.split_share, self.rows, self.entropy = thresholds, split_share, rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        plan = self.plan()
        values, groups = self._begin_classes(X, y)
        box = inputs.box_of(self.bounds, self._columns())
        cuts = _cuts(self.thresholds, box)
        every = np.arange(values.shape[1])
        self.tree_ = grown(binned(values, cuts), groups, len(self.classes_), cuts, plan, every, self.entropy)
        self.cost_ = plan.loss
        return self

    def plan(self) -> TreePlan:
        """How ε will be spent, from settings alone."""
        return _plan(self.epsilon, self.max_depth, self.split_share, self.rows)

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, in the order of `classes_`."""
        values = self._later(X)
        return np.asarray(self.tree_.chances[self.tree_.leaves(values)], np.float64)

    @property
    def feature_importances_(self) -> Floats:
        """The columns' shares in telling the classes apart, from noisy counts: free after `fit` (`importances`)."""
        self._fitted()
        return np.asarray(self.tree_.importances)


class RandomForestClassifier(Classifier):
    """Trees over disjoint parts of the rows, ε-differentially private. Settings as in `DecisionTreeClassifier`, and

    n_estimators   how many trees; every row is given to one of them by an exact coin of its own
    max_features   how many features each tree may use, chosen by the public `seed`; None: all

    Guarantee: `fit` costs `cost_` under "add or remove one", which is ε-DP.
    Proof. Given the coins, which no row's data or place decides, one row more or less changes the part of one tree
    (parallel composition); each tree is ε-DP by `TreePlan`. Under "change one" a row is removed and another added to
    the same part, as the coins are the same: `group(cost_, 2)`.

    >>> import numpy as np
    >>> x = np.linspace(0, 1, 3000)[:, None]
    >>> model = RandomForestClassifier(epsilon=3, bounds=(0, 1), classes=[0, 1], n_estimators=3, max_depth=2)
    >>> model.fit(x, (x[:, 0] > 0.5).astype(int)).predict([[0.1], [0.9]]).tolist()
    [0, 1]
    """

    estimators_: list[Tree]

    def __init__(
        self,
        *,
        epsilon: Number,
        bounds: inputs.Bounds,
        classes: Any,
        n_estimators: int = 4,
        max_depth: int = 4,
        max_features: int | None = None,
        thresholds: int | Sequence[Sequence[float]] = 16,
        split_share: Number = 0.7,
        seed: int = 0,
        rows: int | None = None,
        entropy: Entropy | None = None,
    ) -> None:
        self.epsilon, self.bounds, self.classes, self.max_depth = epsilon, bounds, classes, max_depth
        self.n_estimators, self.max_features, self.seed = n_estimators, max_features, seed
        self.thresholds, self.split_share, self.rows, self.entropy = thresholds, split_share, rows, entropy

    def fit(self, X: Any, y: Any) -> Self:
        """Learn, and spend `cost_`."""
        trees = integer(self.n_estimators, "n_estimators", at_least=1, at_most=10**4)
        each = None if self.rows is None else max(1, integer(self.rows, "rows", at_least=1) // trees)
        plan = _plan(self.epsilon, self.max_depth, self.split_share, each)
        values, groups = self._begin_classes(X, y)
        cuts = _cuts(self.thresholds, inputs.box_of(self.bounds, self._columns()))
        subsets = _subsets(trees, values.shape[1], self.max_features, self.seed)
        codes = binned(values, cuts)
        part = np.asarray(uniform_below(trees, len(values), entropy=self.entropy))
        self.estimators_ = [
            grown(codes[part == t], groups[part == t], len(self.classes_), cuts, plan, subsets[t], self.entropy)
            for t in range(trees)
        ]
        self.cost_ = Parallel(*[plan.loss] * trees)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """The mean over the trees of each class's probability."""
        values = self._later(X)
        return np.asarray(np.mean([tree.chances[tree.leaves(values)] for tree in self.estimators_], axis=0))

    @property
    def feature_importances_(self) -> Floats:
        """The mean over the trees of their `importances`."""
        self._fitted()
        return np.asarray(np.mean([np.asarray(tree.importances) for tree in self.estimators_], axis=0), np.float64)


def grown(
    codes: NDArray[np.int64],
    groups: Ints,
    classes: int,
    cuts: Sequence[Floats],
    plan: TreePlan,
    features: Ints,
    entropy: Entropy | None,
) -> Tree:
    """Choose the splits level by level, then count the leaves: all that sees rows. Guarantee and proof: `TreePlan`."""
    inner = 2**plan.depth - 1
    feature, threshold = np.zeros(inner, np.int64), np.zeros(inner)
    column, cut = _candidates(cuts, features)
    at, split = np.zeros(len(codes), np.int64), np.zeros(inner, np.int64)
    for level in range(plan.depth):
        chooser = Exponential(epsilon=plan.split, sensitivity=_GRID)
        scores = split_scores(codes, groups, at, 2**level, classes, cuts, features)
        for place in range(2**level):
            best = chooser.release(scores[place], entropy=entropy)
            node = 2**level - 1 + place
            feature[node], split[node] = column[best], cut[best]
            threshold[node] = cuts[column[best]][cut[best]]
        nodes = at + 2**level - 1
        at = 2 * at + (codes[np.arange(len(codes)), feature[nodes]] > split[nodes])
    counts = np.bincount(at * classes + groups, minlength=(inner + 1) * classes).reshape(inner + 1, classes)
    noisy = Geometric(epsilon=plan.leaf, sensitivity=1).release(counts.astype(np.int64), entropy=entropy)
    released = np.asarray(noisy, np.float64)
    return Tree(feature, threshold, settled(released, plan.leaf), importances(released, feature, len(cuts)))


def importances(noisy: Floats, feature: Ints, columns: int) -> Floats:
    """How much of the impurity (Gini) each column's splits take away, by the noisy counts of the leaves; adds up to 1.

    >>> importances(np.array([[9.0, 0.0], [0.0, 9.0]]), np.array([1]), 2).tolist()
    [0.0, 1.0]
    """
    counts, found = np.maximum(noisy, 0.0), np.zeros(columns)
    while len(counts) > 1:
        parents = counts.reshape(-1, 2, counts.shape[1]).sum(axis=1)
        gained = np.maximum(_mixed(parents) - _mixed(counts).reshape(-1, 2).sum(axis=1), 0.0)
        np.add.at(found, feature[len(parents) - 1 : 2 * len(parents) - 1], gained)
        counts = parents
    return np.asarray(found / max(float(found.sum()), 1e-300), np.float64)


def _mixed(counts: Floats) -> Floats:
    """n times the Gini impurity of each node."""
    total = counts.sum(axis=1)
    return np.asarray(total - (counts**2).sum(axis=1) / np.maximum(total, 1e-300), np.float64)


def split_scores(
    codes: Ints, groups: Ints, at: Ints, nodes: int, classes: int, cuts: Sequence[Floats], features: Ints
) -> Ints:
    """For each node, the purity of every candidate split: Σ over both sides of ⌊_GRID·Σ_c n_c²/n⌋, a whole number.

    It is n minus n times the Gini impurity after the split, so that the purest split has the highest score.

    Guarantee: one row more or less changes a score by at most _GRID. Proof. It changes one side. With S = Σn_c², one
    row of class a more changes S/n by (2·n_a·n + n − S)/(n(n + 1)). As n_a² ≤ S ≤ n²: at most
    (2·n_a·n + n − n_a²)/(n(n + 1)) ≤ 1 (at n_a = n), at least (n − n²)/(n(n + 1)) > −1; an empty side goes from 0 to 1.
    Flooring values at most _GRID apart, a whole number, leaves them at most _GRID apart.
    """
    found = []
    for j in features:
        bins = len(cuts[j]) + 1
        cells = np.bincount((at * bins + codes[:, j]) * classes + groups, minlength=nodes * bins * classes)
        upto = cells.reshape(nodes, bins, classes).cumsum(axis=1).astype(np.int64)
        left, total = upto[:, :-1], upto[:, -1:]
        found.append(_purity(left) + _purity(total - left))
    return np.concatenate(found, axis=1)


def _purity(counts: Ints) -> Ints:
    """⌊_GRID·Σn_c²/n⌋ in whole arithmetic: n²·2¹⁶ fits 63 bits for up to 2²³ rows; beyond, Python's integers do it."""
    total = counts.sum(axis=-1)
    if total.size and int(total.max()) >= 1 << 23:
        counts, total = counts.astype(object), total.astype(object)
    squares = (counts * counts).sum(axis=-1)
    return np.asarray(squares * _GRID // np.maximum(total, 1), np.int64)


def settled(noisy: Floats, leaf: Fraction) -> Floats:
    """Chances in each leaf from its noisy counts, pulled towards those of its ancestors as far as noise may speak.

    A count speaks against its parent's chances with the weight of its own rows; the parent counts as 2/ε rows.

    >>> settled(np.array([[100.0, 0.0], [0.0, 0.0]]), Fraction(1)).round(2).tolist()
    [[1.0, 0.0], [0.99, 0.01]]
    """
    pull = 2 / float(leaf)
    levels = [noisy]
    while len(levels[-1]) > 1:
        levels.append(levels[-1].reshape(-1, 2, noisy.shape[1]).sum(axis=1))
    chances = np.full((1, noisy.shape[1]), 1 / noisy.shape[1])
    for depth, counts in enumerate(reversed(levels)):
        above = chances if not depth else np.repeat(chances, 2, axis=0)
        weights = np.maximum(counts, 0.0) + pull * above
        chances = weights / weights.sum(axis=1, keepdims=True)
    return np.asarray(chances, np.float64)


def binned(values: Floats, cuts: Sequence[Floats]) -> Ints:
    """Between which candidates each value lies: x ≤ cuts[t] exactly if its code is at most t.

    >>> binned(np.array([[0.5], [0.6]]), [np.array([0.5])]).tolist()
    [[0], [1]]
    """
    columns = [np.searchsorted(cuts[j], values[:, j], side="left") for j in range(values.shape[1])]
    return np.stack(columns, axis=1).astype(np.int64)


def _candidates(cuts: Sequence[Floats], features: Ints) -> tuple[Ints, Ints]:
    column = np.concatenate([np.full(len(cuts[j]), j) for j in features])
    return column.astype(np.int64), np.concatenate([np.arange(len(cuts[j])) for j in features])


def _cuts(thresholds: Any, box: inputs.Box) -> list[Floats]:
    columns = len(box.low)
    if not isinstance(thresholds, list | tuple | np.ndarray):
        count = integer(thresholds, "thresholds", at_least=1, at_most=10**5)
        return [np.linspace(box.low[j], box.high[j], count + 2)[1:-1] for j in range(columns)]
    if len(thresholds) != columns:
        raise InvalidParameter("thresholds", f"{len(thresholds)} lists for {columns} columns", "a list for each column")
    cuts = [np.unique(np.array([float(rational(cut, "thresholds")) for cut in one])) for one in thresholds]
    if any(not len(one) for one in cuts):
        raise InvalidParameter("thresholds", "an empty list", "at least one number for each column")
    return cuts


def _plan(epsilon: Number, max_depth: int, split_share: Number, rows: int | None) -> TreePlan:
    target = rational(epsilon, "epsilon", above=0)
    depth = integer(max_depth, "max_depth", at_least=0, at_most=_DEEPEST)
    share = rational(split_share, "split_share", above=0, below=1) if depth else Fraction(0)
    plan = TreePlan(depth, target * share / max(depth, 1), target * (1 - share))
    if rows is not None and 2 / plan.leaf >= Fraction(integer(rows, "rows", at_least=1), 2**depth):
        hint = "the noise would drown the leaves; use a smaller depth, fewer trees or more rows"
        raise InvalidParameter("epsilon", epsilon, f"a larger ε for {rows} rows in {2**depth} leaves of a tree", hint)
    return plan


def _subsets(trees: int, columns: int, count: int | None, seed: int) -> list[Ints]:
    """The features of each tree: public coins."""
    if count is None:
        return [np.arange(columns)] * trees
    kept = integer(count, "max_features", at_least=1)
    if kept > columns:
        raise InvalidParameter("max_features", kept, f"at most {columns}, the number of columns")
    entropy = DeterministicEntropy(integer(seed, "seed"))
    keys = np.asarray(uniform_below(1 << 62, (trees, columns), entropy=entropy))
    return [np.sort(np.argsort(row)[:kept]) for row in keys]
