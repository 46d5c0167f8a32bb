"""A run that is resumed is the run that was paid for: same settings, same rows, same components."""

import json
import os
import subprocess
import sys
import warnings
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from discreet import durable
from discreet.errors import InvalidData
from discreet.learning.estimators import DPClassifier, DPRegressor
from discreet.learning.sgd import training
from discreet.learning.sgd.preprocessing import PrivatePca
from discreet.learning.sgd.run_state import Checkpoint
from discreet.privacy.loss import Together


class Killed(BaseException):
    """The process is gone."""


def table(seed, rows=600, columns=4):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, size=(rows, columns))
    return x, np.where(x[:, 0] + x[:, 1] > 0, "yes", "no")


def classifier(path, **settings):
    given = {"hidden": (), "epsilon": 50, "delta": "1e-5", "bounds": "unit", "classes": ["no", "yes"], "rows": 600}
    point = Checkpoint(path, every=5)
    return DPClassifier(**given | {"project": 2, "project_share": "1/3", "steps": 20, "checkpoint": point} | settings)


def stopped(monkeypatch, model, x, y, step=0):
    """Fit until so many steps are made, then die."""
    whole = training._advance

    def advance(network, state, *rest):
        if state.step == step:
            raise Killed
        whole(network, state, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(training, "_advance", advance)
        with pytest.raises(Killed):
            model.fit(x, y)


def same(model, other):
    arrays = zip((*model.parameters_, model._projection.directions), (*other.parameters_, other._projection.directions),
                 strict=True)  # fmt: skip
    return all(np.array_equal(a, b) for a, b in arrays)


# What a run is bound to


@pytest.mark.parametrize("step", [0, 7])
def test_components_that_were_paid_with_fifty_are_not_had_for_a_half(tmp_path, monkeypatch, step):
    """The second run reported ε 0.5 and used components released at ε 30."""
    x, y = table(1)
    stopped(monkeypatch, classifier(tmp_path / "run"), x, y, step)
    with pytest.raises(InvalidData, match="checkpoint of another"):
        classifier(tmp_path / "run", epsilon="0.5").fit(x, y)
    assert same(first := classifier(tmp_path / "run").fit(x, y), classifier(tmp_path / "run").fit(x, y))
    assert isinstance(first.cost_, Together)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"project_share": "1/2"}, "another"),
        ({"project": 3}, "another"),
        ({"project": None}, "another"),
        ({"hidden": (3,)}, "another network"),
        ({"clip": 2}, "another recipe"),
        ({"delta": "1e-6"}, "another"),
    ],
    ids=str,
)
def test_other_settings_are_refused(tmp_path, monkeypatch, settings, words):
    x, y = table(1)
    stopped(monkeypatch, classifier(tmp_path / "run"), x, y)
    with pytest.raises(InvalidData, match=f"checkpoint of {words}.*delete it to start a new run, which costs again"):
        classifier(tmp_path / "run", **settings).fit(x, y)


def test_other_noise_of_the_components_alone_is_refused(tmp_path):
    """The recipe, the network and the rows are the same: what differs is how the components were released."""
    x, y = table(1)
    network, recipe = (model := classifier(tmp_path / "run").fit(x, y)).network_, model.recipe_
    scaled, places = model._box.scaled(x), (y == "yes").astype(int)
    released = {"dimensions": 2, "multiplier": model._plan(x.shape[1])[0].multiplier, "rows": 600, "whiten": "1/4"}
    for change in ({"multiplier": 9}, {"rows": 601}, {"whiten": "1/2"}):
        with pytest.raises(InvalidData, match="checkpoint of another projection"):
            training.train(
                network, scaled, places, recipe, pca=PrivatePca(**released | change), checkpoint=model.checkpoint
            )
    assert training.train(
        network, scaled, places, recipe, pca=PrivatePca(**released), checkpoint=model.checkpoint
    ).projection


def one_bit(x, y):
    x = x.copy()
    x[17, 3] = np.nextafter(x[17, 3], 1)
    return x, y


def one_label(x, y):
    y = y.copy()
    y[17] = {"yes": "no", "no": "yes"}[y[17]]
    return x, y


@pytest.mark.parametrize(
    "change",
    [
        lambda x, y: table(2),
        lambda x, y: (x[:-1], y[:-1]),
        lambda x, y: (x[::-1], y[::-1]),
        one_bit,
        one_label,
    ],
    ids=["another table", "one row less", "another order", "one bit", "one label"],
)
@pytest.mark.parametrize("project", [2, None])
def test_other_rows_get_neither_components_nor_weights(tmp_path, monkeypatch, change, project):
    x, y = table(1)
    settings = {"project": project, "bounds": (-2, 2)}
    stopped(monkeypatch, classifier(tmp_path / "killed", **settings), x, y, step=7)
    classifier(tmp_path / "finished", **settings).fit(x, y)
    for name in ("killed", "finished"):
        if project is None and change is one_bit:
            continue  # float32, as the network sees it, has not this bit
        with pytest.raises(InvalidData, match="checkpoint of other rows"):
            classifier(tmp_path / name, **settings).fit(*change(x, y))


def test_a_regressor_is_bound_too(tmp_path):
    x, _ = table(1)
    settings = {"hidden": (), "epsilon": 50, "delta": "1e-5", "bounds": "unit", "target_bounds": (-1, 1), "rows": 600}
    model = DPRegressor(**settings, steps=5, checkpoint=Checkpoint(tmp_path / "run", every=5)).fit(x, x[:, 0])
    with pytest.raises(InvalidData, match="other rows"):
        model.fit(x, x[:, 1])


# Copies of an estimator


def test_a_clone_has_no_checkpoint_and_keeps_all_else(tmp_path):
    from sklearn.base import clone
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer

    model = classifier(tmp_path / "run")
    copy = clone(model)
    assert copy.checkpoint is None
    assert {**model.get_params(), "checkpoint": None} == copy.get_params()
    assert clone(make_pipeline(FunctionTransformer(), model))[-1].checkpoint is None
    assert model.checkpoint is not None


def test_folds_share_nothing(tmp_path):
    """Every fold is a training of its own; the file of the model that was cloned stays as it is."""
    from sklearn.model_selection import GridSearchCV, cross_val_score

    x, y = table(1)
    model = classifier(tmp_path / "run").fit(x, y)
    before = (tmp_path / "run").read_bytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = cross_val_score(model, x, y, cv=4)
        search = GridSearchCV(model, {"clip": [1, 2]}, cv=2).fit(x, y)
    assert len(scores) == 4
    assert scores.min() > 0.7
    assert not same(search.best_estimator_, model)
    assert (tmp_path / "run").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"run", "run.key"}


# What the file tells


def test_the_file_tells_nothing_of_the_rows_without_its_key(tmp_path):
    """Who knows the whole table and guesses right could confirm it from a digest without a key: as private as a row."""
    x, y = table(1)
    marks = []
    for name in "ab":
        classifier(tmp_path / name).fit(x, y)
        with np.load(tmp_path / name) as stored:
            header = json.loads(stored["header"].tobytes())
            assert not any(600 in stored[part].shape for part in stored.files)
        assert set(header) == {"format", "recipe", "network", "shape of examples", "projection", "rows", "step", "clip"}
        marks.append(header["rows"])
        key = tmp_path / f"{name}.key"
        assert key.stat().st_mode & 0o777 == 0o600
        assert key.read_bytes() not in (tmp_path / name).read_bytes()
    assert marks[0] != marks[1]


def test_a_new_run_has_a_new_key(tmp_path):
    x, y = table(1)
    keys = set()
    for _ in range(2):
        classifier(tmp_path / "run").fit(x, y)
        keys.add((tmp_path / "run.key").read_bytes())
        (tmp_path / "run").unlink()
    assert len(keys) == 2


@pytest.mark.parametrize("key", [None, b"", b"short", bytes(32)])
def test_without_its_key_a_checkpoint_is_refused(tmp_path, key):
    x, y = table(1)
    classifier(tmp_path / "run").fit(x, y)
    (tmp_path / "run.key").unlink()
    if key is not None:
        (tmp_path / "run.key").write_bytes(key)
    with pytest.raises(InvalidData, match=r"run\.key|other rows"):
        classifier(tmp_path / "run").fit(x, y)
    assert (tmp_path / "run").exists()


# Processes that die


def components(path):
    """The components on disk."""
    if not path.exists():
        return None
    with np.load(path) as stored:
        return stored["directions"]


WRITES = 5  # the components, and steps 5, 10, 15 and 20


@pytest.mark.parametrize("moment", range(1, 2 * WRITES + 2))
def test_whenever_it_dies_components_on_disk_are_not_released_again(tmp_path, monkeypatch, moment):
    """Die before and after each file gets its name; the run that goes on has the components that were on disk."""
    path, calls = tmp_path / "run", {"settled": 0, "released": 0}
    settle, released = durable.settle, PrivatePca.release

    def tick():
        calls["settled"] += 1
        if calls["settled"] == moment:
            raise Killed

    def dying(sink, beside, path):
        tick()
        settle(sink, beside, path)
        tick()

    def release(self, *args, **settings):
        calls["released"] += 1
        return released(self, *args, **settings)

    monkeypatch.setattr("discreet.learning.sgd.run_state.settle", dying)
    monkeypatch.setattr(PrivatePca, "release", release)
    with nullcontext() if moment > 2 * WRITES else pytest.raises(Killed):
        classifier(path).fit(*table(1))
    kept = components(path)
    model = classifier(path).fit(*table(1))
    assert (kept is None) == (moment == 1)
    assert calls["released"] == (2 if kept is None else 1)
    assert kept is None or np.array_equal(kept, model._projection.directions)
    assert {file.name for file in tmp_path.iterdir()} == {"run", "run.key"}


DRIVER = """
import os, random, signal, sys, time
sys.path.insert(0, {tests!r})
from test_resuming import *
path, x, y = Path({path!r}), *table(1)
chance, seen, steps, kills = random.Random(5), set(), [], 0
classifier(path.with_name("warm")).fit(x, y)
began = time.monotonic()
classifier(path.with_name("whole"), steps=300).fit(x, y)
whole = time.monotonic() - began
for attempt in range(13):
    child = os.fork()
    if not child:
        classifier(path, steps=300).fit(x, y)
        os._exit(0)
    if attempt < 12:
        time.sleep(chance.uniform(0, whole / 4))
        os.kill(child, signal.SIGKILL)
    kills += os.waitpid(child, 0)[1] != 0
    if path.exists():
        with np.load(path) as stored:
            seen.add(stored["directions"].tobytes())
            steps.append(json.loads(stored["header"].tobytes())["step"])
print(len(seen), steps == sorted(steps), steps[-1], kills > 2)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="NO FORK: processes are not killed at random moments")
def test_killed_at_random_moments_a_run_has_one_projection_and_never_goes_back(tmp_path):
    code = DRIVER.format(tests=str(Path(__file__).parent), path=str(tmp_path / "run"))
    settings = {"env": os.environ | {"OPENBLAS_NUM_THREADS": "1"}, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=600, **settings)
    assert done.stdout.split() == ["1", "True", "300", "True"], done.stderr
