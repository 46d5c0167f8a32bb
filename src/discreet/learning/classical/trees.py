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
from discreet.learning.classical.exact_sums import Ints, weighted
from discreet.mechanisms import Exponential, Geometric
from discreet.noise import DeterministicEntropy, Entropy, uniform_below
from discreet.privacy.loss import BoundedRange, Loss, Parallel, Pure, Repeated, Together

_GRID = 1 << 16
_WEIGHT = 1 << 8  # of a row of weight 1; divides _GRID
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
    are chosen with `Exponential` from scores of sensitivity `_GRID` (`split_scores`). A row is in one leaf and adds 1,
    or with weights at most `_WEIGHT` (`Rows`), to one count there: geometric noise of that over leaf. Levels and
    leaves compose.
    """

    depth: int
    split: Fraction
    leaf: Fraction

    @property
    def moved(self) -> Loss:
        """The same from the mechanisms that `grown` makes: a row moves scores by _GRID and one leaf by 1."""
        each = Exponential(epsilon=self.split, sensitivity=_GRID).loss if self.depth else Pure(0)
        return Together(Repeated(each, max(self.depth, 1)), Geometric(epsilon=self.leaf, sensitivity=1).loss)

    @property
    def loss(self) -> Loss:
        """All levels, then the leaves."""
        return (
            Together(Repeated(BoundedRange(self.split), self.depth), Pure(self.leaf)) if self.depth else Pure(self.leaf)
        )


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows between which candidates they lie, their classes, and how much each counts: from 0 to `unit`."""

    codes: Ints
    groups: Ints
    amounts: Ints
    unit: int

    @classmethod
    def of(cls, codes: Ints, groups: Ints, weights: Floats | None) -> "Rows":
        """Weights from 0 to 1 are cut to whole numbers of 1/_WEIGHT, so that sums are exact."""
        unit = 1 if weights is None else _WEIGHT
        return cls(codes, groups, weighted(np.full((len(codes), 1), unit), weights)[:, 0], unit)

    def part(self, chosen: NDArray[np.bool_]) -> "Rows":
        """Some of the rows."""
        return Rows(self.codes[chosen], self.groups[chosen], self.amounts[chosen], self.unit)

    def sums(self, places: Ints, count: int) -> Ints:
        """How much the rows at each of `count` places add: whole numbers, exact below 2⁵³."""
        return np.bincount(places, self.amounts, count).astype(np.int64)


class DecisionTreeClassifier(Classifier):
    """A decision tree, ε-differentially private.

    bounds       (low, high) of the features; candidates for splits lie evenly between them
    classes      declared, or "public" as in `GaussianNB`
    max_depth    the depth of every leaf
    thresholds   how many candidates a feature has; or, for each column, a list of its own (public knowledge)
    split_share  how much of ε goes to the choice of splits; the rest to the leaves' counts
    rows         about how many rows there are, if that is public: an ε that cannot work is refused

    `fit` takes weights of rows, from 0 to 1.

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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        plan = self.plan()
        values, groups = self._begin_classes(X, y)
        box = inputs.box_of(self.bounds, self._columns())
        cuts = _cuts(self.thresholds, box)
        every, weights = np.arange(values.shape[1]), inputs.weights(sample_weight, len(values))
        rows = Rows.of(binned(values, cuts), groups, weights)
        self.tree_ = grown(rows, len(self.classes_), cuts, plan, every, self.entropy)
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

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn, and spend `cost_`."""
        trees = integer(self.n_estimators, "n_estimators", at_least=1, at_most=10**4)
        each = None if self.rows is None else max(1, integer(self.rows, "rows", at_least=1) // trees)
        plan = _plan(self.epsilon, self.max_depth, self.split_share, each)
        values, groups = self._begin_classes(X, y)
        cuts = _cuts(self.thresholds, inputs.box_of(self.bounds, self._columns()))
        subsets = _subsets(trees, values.shape[1], self.max_features, self.seed)
        rows = Rows.of(binned(values, cuts), groups, inputs.weights(sample_weight, len(values)))
        part = np.asarray(uniform_below(trees, len(values), entropy=self.entropy))
        self.estimators_ = [
            grown(rows.part(part == t), len(self.classes_), cuts, plan, subsets[t], self.entropy) for t in range(trees)
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
    rows: Rows, classes: int, cuts: Sequence[Floats], plan: TreePlan, features: Ints, entropy: Entropy | None
) -> Tree:
    """Choose the splits level by level, then count the leaves: all that sees rows. Guarantee and proof: `TreePlan`."""
    inner = 2**plan.depth - 1
    feature, threshold = np.zeros(inner, np.int64), np.zeros(inner)
    column, cut = _candidates(cuts, features)
    at, split = np.zeros(len(rows.codes), np.int64), np.zeros(inner, np.int64)
    for level in range(plan.depth):
        chooser = Exponential(epsilon=plan.split, sensitivity=_GRID)
        scores = split_scores(rows, at, 2**level, classes, cuts, features)
        for place in range(2**level):
            best = chooser.release(scores[place], entropy=entropy)
            node = 2**level - 1 + place
            feature[node], split[node] = column[best], cut[best]
            threshold[node] = cuts[column[best]][cut[best]]
        nodes = at + 2**level - 1
        at = 2 * at + (rows.codes[np.arange(len(at)), feature[nodes]] > split[nodes])
    counts = rows.sums(at * classes + rows.groups, (inner + 1) * classes).reshape(inner + 1, classes)
    noisy = Geometric(epsilon=plan.leaf, sensitivity=rows.unit).release(counts, entropy=entropy)
    released = np.asarray(noisy, np.float64) / rows.unit
    return Tree(feature, threshold, settled(released, plan.leaf), importances(released, feature, len(cuts)))


def importances(noisy: Floats, feature: Ints, columns: int) -> Floats:
    """How much of the impurity (Gini) each column's splits take away, by the noisy counts of the leaves; adds up to 1.

    >>> importances(np.array([[9.0, 0.0], [0.0, 9.0]]), np.array([1]), 2).tolist()
    [0.0, 1.0]
    """
    counts, result = np.maximum(noisy, 0.0), np.zeros(columns)
    while len(counts) > 1:
        parents = counts.reshape(-1, 2, counts.shape[1]).sum(axis=1)
        gained = np.maximum(_mixed(parents) - _mixed(counts).reshape(-1, 2).sum(axis=1), 0.0)
        np.add.at(result, feature[len(parents) - 1 : 2 * len(parents) - 1], gained)
        counts = parents
    return np.asarray(result / max(float(result.sum()), 1e-300), np.float64)


def _mixed(counts: Floats) -> Floats:
    """n times the Gini impurity of each node."""
    total = counts.sum(axis=1)
    return np.asarray(total - (counts**2).sum(axis=1) / np.maximum(total, 1e-300), np.float64)


def split_scores(rows: Rows, at: Ints, nodes: int, classes: int, cuts: Sequence[Floats], features: Ints) -> Ints:
    """For each node, the purity of every candidate split: Σ over both sides of ⌊_GRID·Σ_c n_c²/n⌋, a whole number.

    It is n minus n times the Gini impurity after the split, so that the purest split has the highest score.

    Guarantee: one row more or less changes a score by at most _GRID. Proof. It changes one side, where it adds at most
    1 to n_a of its class a. With S = Σn_c², S/n has the slope (2·n_a·n − S)/n² along n_a. As n_a² ≤ S ≤ n², it is at
    most (2·n_a·n − n_a²)/n² ≤ 1 and at least −1; from an empty side S/n goes from 0 to what was added. Flooring values
    at most _GRID apart, a whole number, leaves them at most _GRID apart.
    """
    scores = []
    for j in features:
        bins = len(cuts[j]) + 1
        cells = rows.sums((at * bins + rows.codes[:, j]) * classes + rows.groups, nodes * bins * classes)
        upto = cells.reshape(nodes, bins, classes).cumsum(axis=1)
        left, total = upto[:, :-1], upto[:, -1:]
        scores.append(_purity(left, rows.unit) + _purity(total - left, rows.unit))
    return np.concatenate(scores, axis=1)


def _purity(counts: Ints, unit: int = 1) -> Ints:
    """⌊_GRID·Σn_c²/n⌋ for counts in units, in whole arithmetic; where n²·_GRID/unit has no 63 bits, in Python's."""
    total, scale = counts.sum(axis=-1), _GRID // unit
    if total.size and int(total.max()) ** 2 * scale >= 1 << 63:
        counts, total = counts.astype(object), total.astype(object)
    squares = (counts * counts).sum(axis=-1)
    return np.asarray(squares * scale // np.maximum(total, 1), np.int64)


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
    cuts = [np.unique(np.array([float(rational(cut, "thresholds")) for cut in column])) for column in thresholds]
    if not all(map(len, cuts)):
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
