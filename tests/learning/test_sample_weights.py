"""Weights of rows, from 0 to 1: a row of weight 0 is not there, one of weight w adds at most w times as much."""

import numpy as np
import pytest

from discreet.errors import InvalidData
from discreet.learning import (
    CategoricalNB,
    DecisionTreeClassifier,
    DPClassifier,
    DPRegressor,
    GaussianNB,
    KMeans,
    LinearRegression,
    LogisticRegression,
    RandomForestClassifier,
    Ridge,
    StandardScaler,
)
from discreet.learning.classical.exact_sums import UNIT, planned, reach_of, weighted
from discreet.learning.classical.linear import statistics
from discreet.learning.classical.unsupervised import cluster_parts
from discreet.noise import DeterministicEntropy

LARGE = {"epsilon": 1000, "delta": "1e-6", "bounds": (-1, 1)}
NETWORK = {"hidden": (), "rows": 4000, "steps": 60, "progress": False}
TREE = {"epsilon": 1000, "bounds": (-1, 1), "classes": [0, 1], "max_depth": 2}
REGRESSIONS = {
    "linear": lambda: LinearRegression(**LARGE, target_bounds=(-4, 4), entropy=DeterministicEntropy(1)),
    "ridge": lambda: Ridge(**LARGE, target_bounds=(-4, 4), entropy=DeterministicEntropy(1)),
    "network": lambda: DPRegressor(**LARGE, **NETWORK, target_bounds=(-4, 4), entropy=DeterministicEntropy(1)),
}
CLASSIFIERS = {
    **{
        method: lambda method=method: LogisticRegression(
            **LARGE, classes=[0, 1], method=method, entropy=DeterministicEntropy(1)
        )
        for method in ("objective", "gradient", "steps")
    },
    "network": lambda: DPClassifier(**LARGE, **NETWORK, classes=[0, 1], entropy=DeterministicEntropy(1)),
    "bayes": lambda: GaussianNB(**LARGE, classes=[0, 1], entropy=DeterministicEntropy(1)),
    "tree": lambda: DecisionTreeClassifier(**TREE, entropy=DeterministicEntropy(1)),
    "forest": lambda: RandomForestClassifier(**TREE, n_estimators=2, entropy=DeterministicEntropy(1)),
}


def two_populations(n=4000):
    """Half of the rows follow one law, half the opposite: weights decide which is learned."""
    x = np.random.default_rng(3).uniform(-1, 1, (n, 1))
    first = np.arange(n) % 2 == 0
    return x, np.where(first, 3.0, -3.0) * x[:, 0], first


@pytest.mark.parametrize("name", REGRESSIONS)
def test_regressions_follow_the_rows_that_count(name):
    x, y, first = two_populations()
    for chosen in (first, ~first):
        model = REGRESSIONS[name]().fit(x, y, sample_weight=np.where(chosen, 1.0, 0.0))
        assert model.score(x[chosen], y[chosen]) > 0.9
    third = REGRESSIONS[name]().fit(x, y, sample_weight=np.where(first, 1.0, 0.5))
    assert third.predict([[0.5]])[0] == pytest.approx(0.5, abs=0.25)  # (1·3 − ½·3)/(1 + ½)·½


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classifiers_follow_the_rows_that_count(name):
    x, y, first = two_populations()
    labels = (y > 0).astype(int)
    for chosen in (first, ~first):
        model = CLASSIFIERS[name]().fit(x, labels, sample_weight=np.where(chosen, 1.0, 0.1))
        assert model.score(x[chosen], labels[chosen]) > 0.9


@pytest.mark.parametrize("make", [*REGRESSIONS.values(), *CLASSIFIERS.values()])
def test_weights_of_one_change_nothing_and_cost_nothing(make):
    x, y, _ = two_populations(400)
    labels = (y > 0).astype(int)
    plain, same = make().fit(x, labels), make().fit(x, labels, sample_weight=np.ones(400))
    assert plain.cost_ == same.cost_
    assert np.allclose(plain.predict(x), same.predict(x), atol=1e-6)


@pytest.mark.parametrize("bad", [[-0.1, 1], [0, 1.5], [np.nan, 1], [1], [[1, 1]]])
@pytest.mark.parametrize(
    "make", [REGRESSIONS["ridge"], *(CLASSIFIERS[name] for name in ("steps", "network", "bayes", "tree", "forest"))]
)
def test_other_weights_are_refused_before_anything_is_spent(make, bad):
    model = make()
    with pytest.raises(InvalidData, match="sample_weight"):
        model.fit([[0.0], [1.0]], [0, 1], sample_weight=bad)
    assert not hasattr(model, "cost_")


def test_categories_count_by_their_weights():
    codes, labels = np.array([[0], [1]] * 500), [0, 0] * 250 + [1, 1] * 250
    weights = np.array([1.0, 0.25] * 500)
    model = CategoricalNB(**{k: LARGE[k] for k in ("epsilon", "delta")}, categories=2, classes=[0, 1])
    counts = model.fit(codes, labels, sample_weight=weights).category_count_[0]
    assert counts == pytest.approx(np.array([[250, 62.5], [250, 62.5]]), abs=1)


@pytest.mark.parametrize("share", [1.0, 0.25])
def test_columns_and_clusters_follow_the_rows_that_count(share):
    """Half of the rows lie about −0.6 and 0.2, half about 0.6 and −0.2."""
    rng, first = np.random.default_rng(4), np.arange(4000) % 2 == 0
    sides = np.where(first, -0.6, 0.6) + np.where(np.arange(4000) % 4 < 2, 0.0, np.where(first, 0.8, -0.8))
    x = (sides + rng.uniform(-0.1, 0.1, 4000))[:, None]
    weights = np.where(first, share, 0.0)
    scaler = StandardScaler(**LARGE, entropy=DeterministicEntropy(1)).fit(x, sample_weight=weights)
    assert (scaler.mean_[0], scaler.scale_[0]) == pytest.approx((x[first].mean(), x[first].std()), abs=0.01)
    assert scaler.n_samples_seen_ == pytest.approx(2000 * share, abs=5)
    model = KMeans(**LARGE, n_clusters=2, entropy=DeterministicEntropy(1)).fit(x, sample_weight=weights)
    assert np.sort(model.cluster_centers_[:, 0]) == pytest.approx([-0.6, 0.2], abs=0.02)
    plain = KMeans(**LARGE, n_clusters=2, entropy=DeterministicEntropy(1)).fit(x)
    assert model.cost_ == plain.cost_
    assert not np.allclose(np.sort(plain.cluster_centers_[:, 0]), [-0.6, 0.2], atol=0.05)
    for make in (StandardScaler(**LARGE), KMeans(**LARGE, n_clusters=2)):
        with pytest.raises(InvalidData, match="sample_weight"):
            make.fit(x, sample_weight=weights + 1)


def test_the_noise_of_weighted_clusters_covers_what_a_row_adds():
    """A row of weight 1 adds as much to the parts as they say, one of weight 1/3 less, whichever cluster is its own."""
    reach = reach_of(2)
    (counts, sums), noisy = cluster_parts(reach, UNIT), cluster_parts(reach)
    z = np.array([[UNIT, -UNIT]])
    for weight in (1.0, 1 / 3):
        ones, values = weighted(np.full((1, 1), UNIT), np.array([weight])), weighted(z, np.array([weight]))
        assert (int(ones.sum()) == counts.l1 == counts.unit) == (weight == 1)
        assert int(ones.sum()) <= counts.l1
        assert int((ones**2).sum()) <= counts.square
        assert int(np.abs(values).sum()) <= sums.l1
    scales = [planned(parts, epsilon=1, delta=0).scales for parts in ((counts, sums), noisy)]
    assert scales[0] == (scales[1][0] * UNIT, scales[1][1])


def test_no_weight_makes_a_row_add_more():
    """In whole numbers: each entry, so each norm that noise is planned for."""
    rng = np.random.default_rng(5)
    z = rng.integers(-UNIT, UNIT + 1, (500, 4))
    weights = rng.choice([0.0, 1.0, 1 - 2.0**-53, 1e-300, 0.5, 1 / 3], 500)
    assert (np.abs(weighted(z, weights)) <= np.abs(z)).all()
    y, ones = rng.integers(-UNIT, UNIT + 1, (500, 1)), np.full((500, 1), UNIT)
    for k in range(500):
        here, root = slice(k, k + 1), np.sqrt(weights[k : k + 1])
        small = statistics(weighted(z[here], root), weighted(y[here], root), weighted(ones[here], root), True)
        large = statistics(z[here], y[here], ones[here], True)
        assert all((np.abs(a) <= np.abs(b)).all() for a, b in zip(small, large, strict=True))


def test_scores_take_weights():
    """A row of weight 0 is not judged; weights are those of scikit-learn's scores."""
    from sklearn.metrics import accuracy_score, r2_score

    rng = np.random.default_rng(5)
    x, weights = rng.uniform(-1, 1, (500, 2)), rng.random(500)
    y = x[:, 0] + rng.normal(0, 0.3, 500)
    line = LinearRegression(epsilon=10, delta=0, bounds=(-1, 1), target_bounds=(-3, 3)).fit(x, y)
    sides = GaussianNB(epsilon=10, delta=0, bounds=(-1, 1), classes=[0, 1]).fit(x, (y > 0).astype(int))
    assert line.score(x, y, weights) == pytest.approx(r2_score(y, line.predict(x), sample_weight=weights))
    right = accuracy_score(y > 0, sides.predict(x) == 1, sample_weight=weights)
    assert sides.score(x, (y > 0).astype(int), sample_weight=weights) == pytest.approx(right)
    assert line.score(x, y, weights) != pytest.approx(line.score(x, y), abs=1e-6)
