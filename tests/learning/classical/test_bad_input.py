"""Every refusal comes in clear words, and before any noise is drawn."""

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.learning import classical
from discreet.learning.classical import (
    PCA,
    CategoricalNB,
    DecisionTreeClassifier,
    GaussianNB,
    Histogram,
    KMeans,
    LinearRegression,
    LogisticRegression,
    StandardScaler,
    choose,
)
from discreet.privacy import guarantee

X, Y = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5]]), [0, 1, 1]


class Untouched:
    """Fails if anything is drawn."""

    def words(self, count):
        raise AssertionError("noise was drawn")


def bayes(**more):
    return GaussianNB(**{"epsilon": 1, "delta": 0, "bounds": (0, 1), "classes": [0, 1], "entropy": Untouched(), **more})


def linear(**more):
    fixed = {"epsilon": 1, "delta": 0, "bounds": (0, 1), "target_bounds": (0, 1), "entropy": Untouched()}
    return LinearRegression(**{**fixed, **more})


@pytest.mark.parametrize(
    ("x", "y", "words"),
    [
        ([[np.nan, 1.0]], [0], "NaN or inf at position"),
        ([[np.inf, 1.0]], [0], "NaN or inf at position"),
        ([["a", "b"]], [0], "got text"),
        (np.empty((0, 2)), [], "0 sample"),
        (np.empty((3, 0)), [0, 1, 1], "0 feature"),
        ([1.0, 2.0], [0, 1], "Reshape your data"),
        (X, [0, 1], "3 rows but 2 targets"),
        (X, None, "the target y is None"),
        (X, [0, 1, 2], "position 2 is not among the declared classes"),
        (X, ["a", "b", "a"], "different kinds"),
        (X, [0.5, 1, 1], "Unknown label type"),
        (X, [0, None, 1], "Unknown label type"),
        (X, [[0, 1]] * 3, "one value for each row"),
        (X * 1j, Y, "Complex"),
    ],
)
def test_data(x, y, words):
    with pytest.raises(InvalidInput, match=words):
        bayes().fit(x, y)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 1}, "delta"),
        ({"bounds": None}, "bounds: got None"),
        ({"bounds": [(0, 1)]}, "bounds for column 1 too"),
        ({"bounds": [(0, 1)] * 3}, "one pair for each column"),
        ({"bounds": [(0, 1), (2, 2)]}, "low ≥ high for column 1"),
        ({"bounds": "0-1"}, "bounds"),
        ({"bounds": [(0, 1), (0, 1, 2)]}, "a pair"),
        ({"bounds": (0, float("inf"))}, "bounds"),
        ({"classes": None}, "classes"),
        ({"classes": [1, 1]}, "two different labels"),
        ({"rows": 2}, "a larger ε for about 2 rows"),
        ({"rows": 0}, "rows"),
    ],
)
def test_settings(settings, words):
    with pytest.raises(InvalidParameter, match=words):
        bayes(**settings).fit(X, Y)


def test_missing_bounds_are_named():
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["age", "pay"])
    with pytest.raises(InvalidParameter, match="none for column 'pay'"):
        bayes(bounds={"age": (0, 1)}).fit(frame, Y)
    bayes(bounds={"age": (0, 1), "pay": (0, 1)}, entropy=None).fit(frame, Y)


@pytest.mark.parametrize(
    "kind", [GaussianNB, LogisticRegression, LinearRegression, KMeans, PCA, StandardScaler, Histogram]
)
def test_privacy_parameters_have_no_defaults_and_are_keywords(kind):
    with pytest.raises(TypeError, match="epsilon"):
        kind()
    with pytest.raises(TypeError):
        kind(1, 0)


def test_one_class_in_the_data_is_no_trouble_where_classes_are_declared():
    model = bayes(entropy=None, epsilon=100).fit(np.repeat(X, 50, axis=0), [1] * 150)
    assert set(model.predict(X)) <= {0, 1}
    with pytest.raises(InvalidData, match="1 class"):
        bayes(classes="public").fit(X, [1, 1, 1])


def test_a_constant_column_is_no_trouble():
    x = np.hstack([np.linspace(0, 1, 500)[:, None], np.full((500, 1), 0.5)])
    model = linear(epsilon=50, entropy=None).fit(x, x[:, 0])
    assert np.isfinite(model.coef_).all()


@pytest.mark.filterwarnings("ignore:expect little")
def test_tiny_data_and_tiny_epsilon_give_finite_models():
    for model in (
        linear(epsilon="0.001", entropy=None),
        bayes(epsilon="0.001", entropy=None),
        LogisticRegression(epsilon="0.001", delta=0, bounds=(0, 1), classes=[0, 1]),
        DecisionTreeClassifier(epsilon="0.001", bounds=(0, 1), classes=[0, 1]),
    ):
        assert np.isfinite(model.fit(X, Y).predict(X)).all()


def test_other_refusals():
    with pytest.raises(InvalidParameter, match="target_bounds"):
        linear(target_bounds=None).fit(X, Y)
    with pytest.raises(InvalidParameter, match="n_components"):
        PCA(epsilon=1, delta=0, bounds=(0, 1), norm=1, n_components=3, entropy=Untouched()).fit(X)
    with pytest.raises(InvalidData, match="whole number below"):
        CategoricalNB(epsilon=1, delta=0, categories=2, classes=[0, 1], entropy=Untouched()).fit([[2], [0]], [0, 1])
    with pytest.raises(InvalidParameter, match="cells"):
        Histogram(epsilon=1, delta=0, bounds=(0, 1), bins=10_000, entropy=Untouched()).fit(X)
    with pytest.raises(InvalidParameter, match="leaves"):
        DecisionTreeClassifier(epsilon=1, bounds=(0, 1), classes=[0, 1], rows=20, entropy=Untouched()).fit(X, Y)
    logistic = {"epsilon": 1, "delta": 0, "bounds": (0, 1), "classes": [0, 1], "entropy": Untouched()}
    with pytest.raises(InvalidParameter, match="method"):
        LogisticRegression(**logistic, method="newton").fit(X, Y)
    with pytest.raises(InvalidParameter, match="l1"):
        LogisticRegression(**logistic, l1=0).fit(X, Y)
    with pytest.raises(InvalidParameter, match="a larger ε for about 3 rows"):
        LogisticRegression(**logistic, rows=3).fit(X, Y)
    with pytest.raises(InvalidParameter, match="epsilon: got '0.1',"):  # as stated, no share
        LinearRegression(
            epsilon="0.1", delta=0, bounds=(0, 1), target_bounds=(0, 1), method="objective", rows=3, entropy=Untouched()
        ).fit(np.zeros((3, 5)), Y)
    with pytest.raises(InvalidData, match="models"):
        choose(["a"], [1, 2], epsilon=1, sensitivity=1)
    with pytest.raises(InvalidParameter, match="settings"):
        bayes().set_params(speed=1)
    with pytest.raises(InvalidInput, match="not fitted"):
        bayes().predict(X)


BUDGET = {"epsilon": 1, "delta": 0, "bounds": (0, 1)}
EVERY = {
    "LinearRegression": {**BUDGET, "target_bounds": (0, 1)},
    "Ridge": {**BUDGET, "target_bounds": (0, 1)},
    "LogisticRegression": {**BUDGET, "classes": ["a", "b"]},
    "GaussianNB": {**BUDGET, "classes": ["a", "b"]},
    "CategoricalNB": {"epsilon": 1, "delta": 0, "categories": 2, "classes": ["a", "b"]},
    "PCA": {**BUDGET, "norm": None},
    "StandardScaler": BUDGET,
    "KMeans": {**BUDGET, "n_clusters": 2},
    "DecisionTreeClassifier": {"epsilon": 1, "bounds": (0, 1), "classes": ["a", "b"]},
    "RandomForestClassifier": {"epsilon": 1, "bounds": (0, 1), "classes": ["a", "b"]},
    "Histogram": BUDGET,
    "KernelDensity": {**BUDGET, "bandwidth": 1},
}
TABLE = np.tile([[0.0, 1.0], [1.0, 1.0]], (300, 1))  # the second column is constant


def made(name, **more):
    return getattr(classical, name)(**{**EVERY[name], **more})


def targets(name):
    return np.array(["a", "b"] * 300) if "classes" in EVERY[name] else TABLE[:, 0]


def test_every_model_is_listed():
    assert set(EVERY) == {name for name in classical.__all__ if hasattr(getattr(classical, name), "fit")}


@pytest.mark.parametrize("name", EVERY)
def test_too_small_a_budget_for_the_rows_is_refused_before_noise_is_drawn(name):
    with pytest.raises(InvalidParameter, match="a larger ε for"):
        made(name, epsilon="0.01", rows=20, entropy=Untouched()).fit(TABLE, targets(name))


@pytest.mark.parametrize("name", EVERY)
def test_a_constant_column_and_one_class_give_finite_models(name):
    y = np.full(600, "a") if "classes" in EVERY[name] else targets(name)
    model = made(name, epsilon=10).fit(TABLE, y)
    for call in ("predict_proba", "predict", "transform", "score_samples"):
        if hasattr(model, call):
            found = getattr(model, call)(TABLE)
            assert found.dtype.kind == "U" or np.isfinite(found).all()
    if "classes" in EVERY[name]:
        assert set(model.predict(TABLE)) <= {"a", "b"}


@pytest.mark.parametrize("name", EVERY)
def test_labels_are_text_and_the_cost_is_said(name):
    model = made(name, epsilon=10).fit(TABLE, targets(name))
    assert guarantee(model.cost_, delta=0).epsilon <= 10
    assert not hasattr(model, "loss_")
    if "classes" in EVERY[name]:
        assert model.classes_.tolist() == ["a", "b"]
        assert model.predict(TABLE[:2]).tolist() == ["a", "b"]
