"""What scikit-learn users expect of columns: names, tables, importances. All of it is post-processing."""

import numpy as np
import pytest

pytest.importorskip("pandas")
import pandas as pd

from discreet.errors import InvalidData, InvalidParameter
from discreet.learning.classical import PCA, DecisionTreeClassifier, KMeans, RandomForestClassifier, StandardScaler
from discreet.noise import DeterministicEntropy

RNG = np.random.default_rng(1)
X = pd.DataFrame(RNG.uniform(-1, 1, (3000, 3)), columns=["age", "pay", "hours"], index=np.arange(3000) + 7)
BUDGET = {"epsilon": 5, "delta": "1e-6", "bounds": (-1, 1)}


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (StandardScaler(**BUDGET), ["age", "pay", "hours"]),
        (PCA(**BUDGET, norm=1, n_components=2), ["pca0", "pca1"]),
        (KMeans(**BUDGET, n_clusters=2), ["kmeans0", "kmeans1"]),
    ],
)
def test_transformed_columns_have_names(model, names):
    assert isinstance(model.fit_transform(X), np.ndarray)
    assert model.get_feature_names_out().tolist() == names
    plain = model.transform(X)
    shown = model.set_output(transform="pandas").transform(X)
    assert list(shown.columns) == names
    assert (shown.index == X.index).all()
    assert (shown.to_numpy() == plain).all()
    with pytest.raises(InvalidData, match="not equal"):
        model.get_feature_names_out(["a", "b", "c"])
    with pytest.raises(InvalidParameter, match="transform"):
        model.set_output(transform="csv")
    model.set_output(transform="default")


def test_a_pipeline_passes_names_on():
    make_pipeline = pytest.importorskip("sklearn.pipeline").make_pipeline
    pipeline = make_pipeline(StandardScaler(**BUDGET), PCA(**{**BUDGET, "bounds": (-3, 3)}, norm=3, n_components=1))
    shown = pipeline.set_output(transform="pandas").fit_transform(X)
    assert list(shown.columns) == pipeline.get_feature_names_out().tolist() == ["pca0"]


@pytest.mark.parametrize("kind", [DecisionTreeClassifier, RandomForestClassifier])
def test_the_column_that_decides_is_the_important_one(kind):
    model = kind(epsilon=5, bounds=(-1, 1), classes=[False, True], entropy=DeterministicEntropy(1))
    found = model.fit(X, X["pay"].to_numpy() > 0).feature_importances_
    assert found.argmax() == 1
    assert found[1] > 0.7
    assert found.sum() == pytest.approx(1)
