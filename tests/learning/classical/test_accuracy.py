"""At a large ε the models are near to those of scikit-learn; seeds are fixed, so nothing here is a lottery."""

import numpy as np
import pytest
from tests.conftest import LazyModule

from discreet.learning import classical
from discreet.noise import DeterministicEntropy

cluster, decomposition = LazyModule("sklearn.cluster"), LazyModule("sklearn.decomposition")
linear_model, naive_bayes = LazyModule("sklearn.linear_model"), LazyModule("sklearn.naive_bayes")
preprocessing, tree = LazyModule("sklearn.preprocessing"), LazyModule("sklearn.tree")
RNG = np.random.default_rng(3)
X = np.clip(RNG.normal([0.5, -1, 2], [1, 0.5, 0.8], (20_000, 3)), -4, 4)
Y = np.clip(X @ [1.0, -2.0, 0.5] + 0.3 + RNG.normal(0, 0.1, len(X)), -12, 12)
LABELS = np.array(["low", "middle", "high"])[(Y > 2).astype(int) + (Y > 4)]
BOX = {"bounds": (-4, 4)}
CLASSES = ["low", "middle", "high"]


@pytest.fixture(params=[0, "1e-6"])
def budget(request):
    return {"epsilon": 20, "delta": request.param, "entropy": DeterministicEntropy(1)}


def test_linear(budget):
    ours = classical.LinearRegression(**budget, **BOX, target_bounds=(-12, 12)).fit(X, Y)
    theirs = linear_model.LinearRegression().fit(X, Y)
    assert np.allclose(ours.coef_, theirs.coef_, atol=0.1)
    assert abs(ours.intercept_ - theirs.intercept_) < 0.2
    assert ours.score(X, Y) > theirs.score(X, Y) - 0.01


def test_ridge_shrinks_as_it_should(budget):
    ours = classical.Ridge(**budget, **BOX, target_bounds=(-12, 12), alpha=20_000).fit(X, Y)
    assert np.allclose(ours.coef_, linear_model.Ridge(alpha=20_000).fit(X, Y).coef_, atol=0.1)


def test_without_intercept(budget):
    ours = classical.LinearRegression(**budget, **BOX, target_bounds=(-12, 12), fit_intercept=False).fit(X, Y)
    assert np.allclose(ours.coef_, linear_model.LinearRegression(fit_intercept=False).fit(X, Y).coef_, atol=0.1)
    assert ours.intercept_ == 0


def test_logistic(budget):
    two = LABELS != "low"
    ours = classical.LogisticRegression(**budget, **BOX, classes=[False, True]).fit(X, two)
    theirs = linear_model.LogisticRegression().fit(X, two)
    assert ours.score(X, two) > theirs.score(X, two) - 0.02
    assert ours.coef_.shape == (1, 3)
    several = classical.LogisticRegression(**budget, **BOX, classes=CLASSES).fit(X, LABELS)
    assert several.score(X, LABELS) > linear_model.LogisticRegression().fit(X, LABELS).score(X, LABELS) - 0.08
    assert np.allclose(several.predict_proba(X[:9]).sum(axis=1), 1)


def test_gaussian_bayes(budget):
    ours = classical.GaussianNB(**budget, **BOX, classes=CLASSES).fit(X, LABELS)
    theirs = naive_bayes.GaussianNB().fit(X, LABELS)
    assert np.allclose(ours.theta_, theirs.theta_, atol=0.05)
    assert np.allclose(ours.var_, theirs.var_, atol=0.05)
    assert np.allclose(ours.class_prior_, theirs.class_prior_, atol=0.01)
    assert ours.score(X, LABELS) > theirs.score(X, LABELS) - 0.01


def test_categorical_bayes(budget):
    codes = np.clip(np.floor(X + 4), 0, 7)
    ours = classical.CategoricalNB(**budget, categories=8, classes=CLASSES).fit(codes, LABELS)
    theirs = naive_bayes.CategoricalNB(min_categories=8).fit(codes, LABELS)
    assert ours.score(codes, LABELS) > theirs.score(codes, LABELS) - 0.01


def test_components(budget):
    ours = classical.PCA(**budget, **BOX, norm=None, n_components=2).fit(X)
    theirs = decomposition.PCA(n_components=2).fit(X)
    assert np.allclose(np.abs(ours.components_), np.abs(theirs.components_), atol=0.1)
    assert np.allclose(ours.explained_variance_, theirs.explained_variance_, rtol=0.1)
    assert ours.inverse_transform(ours.transform(X[:5])).shape == (5, 3)


def test_scaler(budget):
    ours = classical.StandardScaler(**budget, **BOX).fit(X)
    theirs = preprocessing.StandardScaler().fit(X)
    assert np.allclose(ours.mean_, theirs.mean_, atol=0.02)
    assert np.allclose(ours.scale_, theirs.scale_, atol=0.02)
    assert np.allclose(ours.inverse_transform(ours.transform(X[:5])), X[:5])


def test_clusters(budget):
    spots = np.repeat([[-3.0, -3.0], [3.0, -3.0], [0.0, 3.0]], 3000, axis=0)
    near = spots + RNG.normal(0, 0.3, spots.shape)
    ours = classical.KMeans(**budget, **BOX, n_clusters=3, seed=2).fit(near)
    theirs = cluster.KMeans(3, n_init=3, random_state=0).fit(near)
    order = np.lexsort(ours.cluster_centers_.round(0).T), np.lexsort(theirs.cluster_centers_.round(0).T)
    assert np.allclose(ours.cluster_centers_[order[0]], theirs.cluster_centers_[order[1]], atol=0.1)


@pytest.mark.parametrize("forest", [False, True])
def test_trees(forest):
    kind = classical.RandomForestClassifier if forest else classical.DecisionTreeClassifier
    ours = kind(epsilon=20, **BOX, classes=CLASSES, max_depth=5, entropy=DeterministicEntropy(1)).fit(X, LABELS)
    theirs = tree.DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, LABELS)
    assert ours.score(X, LABELS) > theirs.score(X, LABELS) - 0.05


def test_histogram_and_density(budget):
    one = classical.Histogram(**budget, **BOX, bins=16).fit(X[:, :1])
    assert np.abs(one.counts_ - np.histogram(X[:, 0], 16, (-4, 4))[0]).max() < 20
    assert abs(one.density_.sum() * 0.5 - 1) < 1e-9
    smooth = classical.KernelDensity(**budget, **BOX, bins=64, bandwidth="0.2").fit(X[:, :2])
    at = np.array([[0.5, -1.0]])
    truth = 1 / (2 * np.pi * np.sqrt(1.04) * np.sqrt(0.29))
    assert abs(np.exp(smooth.score_samples(at))[0] - truth) < 0.05
