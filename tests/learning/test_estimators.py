"""DPClassifier and DPRegressor: they learn, they say what they cost, and refuse before anything is spent."""

import io
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest

from discreet.errors import BudgetExceeded, InvalidData, InvalidInput, InvalidParameter, NoiseWarning
from discreet.learning import estimators
from discreet.learning.estimators import DPClassifier, DPRegressor
from discreet.learning.sgd import training
from discreet.learning.sgd.recipe import Adaptive
from discreet.learning.sgd.run_state import Bar, Checkpoint, curve_noise
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import Repeated, Together

RNG = np.random.default_rng(20261116)
X = RNG.uniform(-1, 1, size=(3000, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
NUMBERS = 10 + 5 * X[:, 0]


def classifier(**settings):
    given = {"hidden": (), "epsilon": 2, "delta": "1e-5", "bounds": "unit", "classes": ["no", "yes"], "rows": 3000}
    return DPClassifier(**given | {"steps": 40, "entropy": DeterministicEntropy(1)} | settings)


def regressor(**settings):
    given = {"hidden": (), "epsilon": 2, "delta": "1e-5", "bounds": "unit", "target_bounds": (0, 20), "rows": 3000}
    return DPRegressor(**given | {"steps": 40, "entropy": DeterministicEntropy(1)} | settings)


def test_a_classifier_learns_and_says_what_it_cost():
    model = classifier().fit(X, Y)
    assert model.score(X, Y) > 0.9
    assert model.classes_.tolist() == ["no", "yes"]
    chances = model.predict_proba(X[:7])
    assert chances.shape == (7, 2)
    np.testing.assert_allclose(chances.sum(axis=1), 1, rtol=1e-6)
    assert isinstance(model.cost_, Repeated)
    assert model.epsilon_ == guarantee(model.cost_, delta="1e-5").epsilon <= 2
    assert len(model.curve_) == 40
    assert abs(model.loss_ - 0.3) < 5 * curve_noise(model.recipe_)
    assert "<svg" in model.learning_curve().svg()


def test_a_hidden_layer_and_a_projection():
    model = classifier(hidden=(20,), project=3, project_share="1/5", activation="tanh").fit(X, Y)
    assert model.score(X, Y) > 0.7
    assert isinstance(model.cost_, Together)
    assert 1.99 < model.epsilon_ <= 2
    assert [p.shape for p in model.parameters_] == [(4, 20), (21, 2)]


def test_a_regressor_learns():
    model = regressor().fit(X, NUMBERS)
    assert model.score(X, NUMBERS) > 0.8
    assert model.predict(X).min() >= 0
    assert model.predict(X).max() <= 20
    assert model.epsilon_ <= 2


@pytest.mark.parametrize("labels", [[0, 1], [False, True], [-1, 7]])
def test_labels_of_many_kinds(labels):
    y = np.array(labels)[(Y == "yes").astype(int)]
    model = classifier(classes=labels).fit(X, y)
    assert set(model.predict(X).tolist()) <= set(labels)
    assert model.score(X, y) > 0.9


def test_a_constant_column_and_values_beyond_the_bounds_do_no_harm():
    wide = np.column_stack([X, np.ones(3000), np.full(3000, 1e300)])
    assert classifier().fit(wide, Y).score(wide, Y) > 0.85


def test_data_frames_and_their_names():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = classifier(bounds=dict.fromkeys("abcd", (-1, 1))).fit(frame, pd.Series(Y))
    assert model.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(InvalidData, match="feature names"):
        model.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize(
    ("settings", "x", "y", "words"),
    [
        ({"bounds": None}, X, Y, "bounds: got None"),
        ({"bounds": "wide"}, X, Y, "'unit'"),
        ({"bounds": [(0, 1)]}, X, Y, "4 columns"),
        ({"bounds": (1, 1)}, X, Y, "low < high"),
        ({"classes": None}, X, Y, "classes: got None.*rare label is private"),
        ({"classes": ["yes"]}, X, Y, "at least two"),
        ({"classes": ["no", "maybe"]}, X, Y, "position .* is not among the declared classes"),
        ({"classes": "public"}, X, np.full(3000, "yes"), "number of classes"),
        ({"rows": None}, X, Y, "rows: got None.*may be private"),
        ({"rows": 0}, X, Y, "rows"),
        ({"epsilon": 0}, X, Y, "epsilon"),
        ({"epsilon": float("nan")}, X, Y, "epsilon"),
        ({"delta": 0}, X, Y, "delta"),
        ({"hidden": 5}, X, Y, "hidden: got 5"),
        ({"hidden": (0,)}, X, Y, "hidden"),
        ({"activation": "gelu"}, X, Y, "activation"),
        ({"project": 9}, X, Y, "at most the 4 columns"),
        ({"project": 2, "project_share": 1}, X, Y, "share"),
        ({"steps": 0}, X, Y, "steps"),
        ({"lot": 3001}, X, Y, "lot: got 3001"),
        ({"clip": -1}, X, Y, "clip"),
        ({"learning_rate": 0}, X, Y, "rate"),
        ({}, X[:, 0], Y, "2D array"),
        ({}, X[:-1], Y, "2999 rows but 3000 targets"),
        ({}, np.where(X > 0.999, np.nan, X), Y, "NaN or inf at position"),
        ({}, X.astype(str), Y, "text"),
        ({}, X[:0], Y[:0], "0 sample"),
    ],
    ids=str,
)
def test_refused_before_anything_is_spent(settings, x, y, words, scripted):
    with pytest.raises(InvalidInput, match=f"(?s){words}"):
        classifier(**{"entropy": scripted([])} | settings).fit(x, y)


def test_sparse_matrices_are_refused_in_words(scripted):
    from scipy.sparse import csr_array

    with pytest.raises(InvalidData, match="toarray"):
        classifier(entropy=scripted([])).fit(csr_array(X), Y)


def test_too_little_budget_for_the_rows_is_refused_in_words(scripted):
    """Forty rows at ε = 0.1 and 100,000 parameters: the noise is larger than all that the rows could say."""
    model = classifier(hidden=(1000, 100), epsilon="0.1", rows=40, entropy=scripted([]))
    with pytest.raises(InvalidParameter, match="parameters; noise of .* in each mean gradient.* take fewer parameters"):
        model.fit(X[:40], Y[:40])


def test_a_doubtful_run_is_announced_before_it_spends(scripted):
    model = classifier(hidden=(100,), epsilon=1, rows=300, entropy=scripted([]))
    with pytest.raises(NoiseWarning, match="expect little"):  # warnings are errors here: nothing was drawn
        model.fit(X[:300], Y[:300])


def test_explain_reads_nothing_and_spends_nothing():
    words = classifier(hidden=(8,), project=2).explain(4)
    assert "2 private components" in words
    assert "40 steps on lots of about 3000" in words
    assert "42 parameters" in words


def test_a_projection_that_takes_everything_is_refused(scripted):
    with pytest.raises((BudgetExceeded, InvalidParameter)):
        classifier(project=2, project_share="1.5", entropy=scripted([])).fit(X, Y)


def test_not_fitted():
    with pytest.raises(InvalidData, match="not fitted"):
        classifier().predict(X)
    with pytest.raises(InvalidData, match="not fitted"):
        classifier().learning_curve()


def test_without_a_curve():
    model = classifier(curve=0).fit(X, Y)
    assert np.isnan(model.loss_)
    with pytest.raises(InvalidData, match="no learning curve"):
        model.learning_curve()


def test_an_adaptive_norm_can_be_asked_for():
    assert classifier(adaptive=Adaptive()).fit(X, Y).score(X, Y) > 0.85


def test_a_training_that_runs_away_is_said_so():
    with pytest.raises(RuntimeWarning, match="ran away.*smaller learning_rate"):
        classifier(learning_rate=10**40, momentum=0).fit(X, Y)


def test_settings_in_the_way_of_scikit_learn():
    model = classifier(hidden=(3,))
    twin = DPClassifier(**model.get_params())
    assert twin.get_params() == model.get_params()
    assert all(twin.get_params()[name] is value for name, value in model.get_params().items())
    assert model.set_params(steps=7).steps == 7
    with pytest.raises(InvalidParameter, match="one of the settings"):
        model.set_params(epsilom=1)
    assert "epsilon=2" in repr(model)


def test_scikit_learn_clones_and_pipes_it():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.base import clone, is_classifier, is_regressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    assert sklearn.__version__
    model = clone(classifier())
    assert is_classifier(model)
    assert is_regressor(regressor())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert make_pipeline(FunctionTransformer(), model).fit(X, Y).score(X, Y) > 0.9


def test_a_fitted_model_travels():
    model = classifier().fit(X, Y)
    back = pickle.loads(pickle.dumps(model))
    assert (back.predict(X) == model.predict(X)).all()


def test_a_resumed_fit_pays_neither_projection_nor_training_twice(tmp_path, monkeypatch, scripted):
    """The first is stopped after the projection; the second must not release it again; the third finds all done."""
    settings = {"project": 2, "checkpoint": Checkpoint(tmp_path / "run", every=10)}

    def stop(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(training, "_advance", stop)
        with pytest.raises(KeyboardInterrupt):
            classifier(**settings).fit(X, Y)
    monkeypatch.setattr(estimators.PrivatePca, "release", stop)
    second = classifier(**settings).fit(X, Y)
    third = classifier(**settings, entropy=scripted([])).fit(X, Y)
    assert all((a == b).all() for a, b in zip(second.parameters_, third.parameters_, strict=True))
    assert third.curve_ == second.curve_


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_is_for_terminals_only():
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        bar = Bar(200, stream)
        for step in range(1, 201):
            bar.show(step, 0.5)
    assert plain.getvalue() == ""
    drawn = terminal.getvalue()
    assert drawn.count("\r") == 101
    assert drawn.endswith("step 200 of 200  noisy loss 0.500   \n")


def test_fit_writes_nothing_where_there_is_no_terminal(capsys):
    classifier().fit(X, Y)
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_the_package_exports_every_estimator_and_importing_it_imports_none():
    import discreet.learning as learning
    from discreet.learning import classical

    models = {name for name in classical.__all__ if hasattr(getattr(classical, name), "fit")}
    assert set(learning.__all__) == models | {"DPClassifier", "DPRegressor", "choose"}
    assert learning.DPClassifier is DPClassifier
    assert all(getattr(learning, name) is getattr(classical, name) for name in models)
    assert set(learning.__all__) <= set(dir(learning))
    with pytest.raises(AttributeError, match="DPCluster"):
        _ = learning.DPCluster
    code = "import sys, discreet.learning; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
