"""One row more, the same released values: what moves beneath the noise is bounded by the noise's own scales."""

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.special
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.learning.classical import (
    PCA,
    CategoricalNB,
    DecisionTreeClassifier,
    GaussianNB,
    Histogram,
    KernelDensity,
    KMeans,
    LinearRegression,
    LogisticRegression,
    RandomForestClassifier,
    Ridge,
    StandardScaler,
    closeness,
    exact_sums,
    trees,
)
from discreet.learning.classical.descent import scores
from discreet.learning.classical.exact_sums import UNIT
from discreet.learning.classical.logistic import residuals
from discreet.mechanisms import Exponential, Geometric
from discreet.noise import DeterministicEntropy
from discreet.privacy import guarantee
from discreet.privacy.calibration import gaussian_multiplier

pytestmark = pytest.mark.filterwarnings("ignore:expect little")
EPSILON = Fraction(3, 2)
DELTA = Fraction(1, 10**5)
BOUNDS = (-2, 3)
STATISTICS, GRADIENT = {"method": "statistics"}, {"method": "gradient"}

MODELS = [
    lambda **b: LinearRegression(**b, **STATISTICS, bounds=BOUNDS, target_bounds=(-1, 2)),
    lambda **b: LinearRegression(
        **b, **STATISTICS, bounds=BOUNDS, target_bounds=(5, 9), fit_intercept=False, norm="0.7"
    ),
    lambda **b: Ridge(**b, **STATISTICS, bounds=[(0, 1), (5, 9)], target_bounds=(-1, 2), norm=1),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1], method="steps", max_iter=3),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1, 2], method="steps", norm="0.5", max_iter=3),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1], method="steps", l1="0.8", max_iter=3),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1], method="gradient", max_iter=3),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1, 2], method="gradient", norm="0.5", max_iter=3),
    lambda **b: LogisticRegression(**b, bounds=BOUNDS, classes=[0, 1], method="steps", one_hot=[[0, 1]], max_iter=3),
    lambda **b: LinearRegression(**b, **STATISTICS, bounds=BOUNDS, target_bounds=(-1, 2), one_hot=[[0, 1]]),
    lambda **b: PCA(**b, bounds=BOUNDS, norm=None, one_hot=[[0, 1]]),
    lambda **b: KMeans(**b, bounds=BOUNDS, n_clusters=3, max_iter=3, one_hot=[[0, 1]]),
    lambda **b: GaussianNB(**b, bounds=BOUNDS, classes=[0, 1, 2]),
    lambda **b: PCA(**b, bounds=BOUNDS, norm=1),
    lambda **b: PCA(**b, bounds=BOUNDS, norm=None),
    lambda **b: LinearRegression(**b, **GRADIENT, bounds=BOUNDS, target_bounds=(-1, 2)),
    lambda **b: Ridge(**b, **GRADIENT, bounds=BOUNDS, target_bounds=(-1, 2), one_hot=[[0, 1]], fit_intercept=False),
    lambda **b: StandardScaler(**b, bounds=BOUNDS),
    lambda **b: KMeans(**b, bounds=BOUNDS, n_clusters=3, max_iter=3),
    lambda **b: Histogram(**b, bounds=BOUNDS, bins=4),
    lambda **b: KernelDensity(**b, bounds=BOUNDS, bins=4, bandwidth=1),
]
numbers = st.floats(-1e6, 1e6) | st.sampled_from([-2.0, 3.0, 0.0, 0.5, 5.0, 9.0, 1e300, -1e300])
row = st.tuples(numbers, numbers, st.integers(0, 1))
table = st.lists(row, min_size=1, max_size=5)


class Tape:
    """Stands for `Noise.add`: records exact sums; the second run is given what the first released."""

    def __init__(self) -> None:
        self.exact: list[list] = [[], []]
        self.released: list = []
        self.turn = 0

    def add(self, noise, part, exact, entropy):
        place = len(self.exact[self.turn])
        self.exact[self.turn].append((noise, part, exact))
        if not self.turn:
            draw = DeterministicEntropy(place)
            self.released.append(ADD(noise, part, exact, draw))
        return self.released[place]


ADD = exact_sums.Noise.add


def spent(make, rows, delta) -> Fraction:
    """Σ ‖shift‖₁/scale of Laplace noise, Σ (‖shift‖/σ)² of Gaussian noise, over a whole fit, exactly."""
    tape, budget = Tape(), {"epsilon": EPSILON, "delta": delta}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact_sums.Noise, "add", lambda *given: tape.add(*given))  # noqa: PLW0108 - a method would not be bound
        for tape.turn, kept in enumerate((rows, rows[:-1])):
            x, y = np.array([r[:2] for r in kept]), np.array([r[2] for r in kept])
            make(**budget).fit(x, y)
    total = Fraction(0)
    assert len(tape.exact[0]) == len(tape.exact[1]) > 0
    for (noise, part, first), (_, _, second) in zip(*tape.exact, strict=True):
        shift = [abs(int(d)) for d in (first - second).ravel()]
        scale = noise.scales[part]
        total += sum(d * d for d in shift) / scale**2 if noise.gaussian else sum(shift) / scale
    return total, noise


@pytest.mark.parametrize("make", MODELS)
@given(rows=table, last=row)
@settings(max_examples=12)
def test_pure(make, rows, last):
    found, noise = spent(make, [*rows, last], 0)
    assert found <= EPSILON
    assert guarantee(noise.loss, delta=0).epsilon <= float(EPSILON)


@pytest.mark.parametrize("make", MODELS)
@given(rows=table, last=row)
@settings(max_examples=8)
def test_with_delta(make, rows, last):
    found, noise = spent(make, [*rows, last], DELTA)
    if noise.gaussian:
        multiplier = gaussian_multiplier(epsilon=EPSILON, delta=DELTA, method="analytic")
        assert found <= 1 / multiplier**2
    else:
        assert found <= EPSILON
    assert guarantee(noise.loss, delta=DELTA).epsilon <= float(EPSILON) * (1 + 1e-4)


@pytest.mark.parametrize("place", [0, 3, 6, 7, 9, 10, 11])
def test_bounds_are_nearly_reached(place):
    """A row at the corner of the bounds moves as much as is paid for, within a factor: noise is not wasted."""
    found, _ = spent(MODELS[place], [(3.0, 3.0, 1), (3.0, 3.0, 1)], 0)
    assert found >= EPSILON * Fraction(3, 10)


@given(codes=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1)), min_size=1, max_size=8))
def test_categories(codes):
    rows = [(float(a), float(b), a % 2) for a, b in codes]
    found, _ = spent(lambda **b: CategoricalNB(**b, categories=[4, 2], classes=[0, 1]), [(0.0, 0.0, 0), *rows], 0)
    assert found == EPSILON


@given(
    codes=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=12
    ),
    unweighted=st.booleans(),
)
def test_scores_of_splits(codes, unweighted):
    x, y = np.array([[c[0]] for c in codes]), np.array([c[1] for c in codes])
    at, cuts = np.array([c[2] for c in codes]), [np.array([0.5, 1.5, 2.5])]
    rows = trees.Rows.of(x, y, None if unweighted else np.array([c[3] for c in codes]))
    more = trees.split_scores(rows, at, 2, 3, cuts, np.array([0]))
    less = trees.split_scores(rows.part(np.arange(len(codes)) < len(codes) - 1), at[:-1], 2, 3, cuts, np.array([0]))
    moved = np.abs(more - less)
    assert moved.max() <= trees._GRID
    assert not moved[1 - at[-1]].any()  # the other node is not touched


def test_scores_reach_their_sensitivity_and_are_exact():
    x, y = np.zeros((4, 1), np.int64), np.array([0, 0, 0, 0])
    cuts = [np.array([0.5])]
    for weights in (None, np.ones(4)):
        rows = trees.Rows.of(x, y, weights)
        four = trees.split_scores(rows, np.zeros(4, np.int64), 1, 2, cuts, np.array([0]))
        three = trees.split_scores(rows.part(np.arange(4) > 0), np.zeros(3, np.int64), 1, 2, cuts, np.array([0]))
        assert int(four[0, 0] - three[0, 0]) == trees._GRID
    big = np.array([[1 << 24, 1]])
    assert trees._purity(big)[0] == ((1 << 48) + 1) * trees._GRID // ((1 << 24) + 1)


@given(rows=table, last=row)
@settings(max_examples=20)
def test_tree_replayed(rows, last):
    """With the same splits released, a row moves scores of one node a level and one count of one leaf."""
    seen: list[list] = [[], []]
    script: list = []
    with pytest.MonkeyPatch.context() as patch:

        def release(kind):
            true = kind.release

            def told(self, value, /, *, entropy=None):
                place = len(seen[turn])
                seen[turn].append((self, np.asarray(value)))
                if not turn:
                    script.append(true(self, value, entropy=DeterministicEntropy(place)))
                return script[place]

            return told

        for kind in (Exponential, Geometric):
            patch.setattr(kind, "release", release(kind))
        for turn, kept in enumerate(([*rows, last], rows)):  # noqa: B007 - `told` reads it
            x, y = np.array([r[:2] for r in kept]), np.array([r[2] for r in kept])
            DecisionTreeClassifier(epsilon=1, bounds=BOUNDS, classes=[0, 1], max_depth=2, thresholds=3).fit(x, y)
    total = Fraction(0)
    for (mechanism, first), (_, second) in zip(*seen, strict=True):
        moved = np.abs(first - second)
        if isinstance(mechanism, Exponential):
            total += Fraction(int(moved.max())) / mechanism.sensitivity * mechanism.epsilon
        else:
            assert int(moved.sum()) == 1
            total += mechanism.epsilon / mechanism.sensitivity
    assert total <= 1


def test_a_forest_costs_what_one_tree_costs():
    x, y = np.linspace(0, 1, 50)[:, None], np.arange(50) % 2
    model = RandomForestClassifier(epsilon=1, bounds=(0, 1), classes=[0, 1], n_estimators=3, max_depth=0)
    model.fit(x, y)
    assert len(model.cost_.losses) == 3
    assert guarantee(model.cost_, delta=0).epsilon == 1


class Constant:
    def __init__(self, value: float) -> None:
        self.value = value

    def predict(self, X):
        return np.full(len(X), self.value)


@given(y=st.lists(numbers, min_size=2, max_size=6), guess=numbers)
def test_closeness_moves_by_at_most_its_sensitivity(y, guess):
    x = np.zeros((len(y), 1))
    (all_rows,) = closeness([Constant(guess)], x, y, target_bounds=BOUNDS)
    (fewer,) = closeness([Constant(guess)], x[1:], y[1:], target_bounds=BOUNDS)
    assert 0 <= all_rows - fewer <= exact_sums.UNIT**2


@pytest.mark.parametrize("columns", [1, 3, 60, 300])
@pytest.mark.parametrize("classes", [1, 4])
def test_residuals_of_a_row_do_not_depend_on_other_rows(columns, classes):
    """A matrix product of floats may be rounded by how many rows there are; a last bit can move a residual by one."""
    rng = np.random.default_rng(columns)
    v = rng.integers(-UNIT, UNIT + 1, (500, columns))
    for size in (1e-3, 1.0, 30.0, 1e5):
        weights = rng.normal(size=(columns, classes)) * size / math.sqrt(columns)
        target = np.zeros((500, classes), np.int64)
        whole, exact = residuals(v, weights, target), np.clip((v / UNIT) @ weights, -700, 700)
        for some in (slice(0, 1), slice(0, 2), slice(3, 10), slice(0, 64), slice(1, 66), slice(100, 433)):
            assert (scores(v[some], weights) == scores(v, weights)[some]).all()
            assert (residuals(v[some], weights, target[some]) == whole[some]).all()
        chances = 1 / (1 + np.exp(-exact)) if classes == 1 else scipy.special.softmax(exact, axis=1)
        assert np.abs(whole - chances * UNIT).max() <= 1 + UNIT * 2.0**-20 * max(size, 1)


@pytest.mark.parametrize("weights", [0.0, 1e-320, 1e308, np.inf, -np.inf, np.nan])
def test_residuals_at_weights_of_any_size(weights):
    v, target = np.array([[UNIT, 0], [UNIT, -UNIT], [UNIT, 5]]), np.array([[0], [1], [0]])
    q = residuals(v, np.array([[weights], [1.0]]), target)
    assert (np.abs(q) <= UNIT).all()
