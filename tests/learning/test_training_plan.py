"""Training through the gate: charged before a row is read, one row for each person, nothing learned for free."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import BudgetExceeded, InternalError, InvalidData, InvalidParameter, ReleaseFailed
from discreet.learning.classical import exact_sums, linear, logistic, objective, trees
from discreet.learning.column_model import ColumnModel, Features, Target, packed
from discreet.learning.training_plan import plan_training as plan
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise, Pure, Together
from discreet.privacy.unit import Unit
from discreet.requests import Training

COLUMNS = [
    Column("person", "integer"),
    Column("age", "integer", lower=0, upper=100),
    Column("ward", "text", values=["a", "b"]),
    Column("ill", "boolean"),
    Column("note", "text"),
]
TABLE = Table("visits", COLUMNS, unit=Unit("person"), groups=1, rows=1)
CATALOG = Catalog(
    "clinic", [TABLE, Table("wards", [Column("beds", "integer")], unit=None)], neighbors="add or remove one"
)
REQUEST = Training(
    table="visits", target="ill", features=["age", "ward"], epsilon=2, delta="1e-6", examples=2000, epochs=3
)
POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = "{epsilon}"
delta = "1e-5"
[tables.visits]
source = "python"
unit = "person"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.visits.columns]
person = {{type = "integer"}}
age = {{type = "integer", lower = 0, upper = 100}}
ward = {{type = "text", values = ["a", "b"]}}
ill = {{type = "boolean"}}
"""


def visits(people=2000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, people)
    return pa.table({"person": np.arange(people), "age": age, "ward": rng.choice(["a", "b"], people), "ill": age > 50})


def opened(tmp_path, table, epsilon=5):
    path = tmp_path / "clinic.toml"
    path.write_text(POLICY.format(epsilon=epsilon), encoding="utf-8")
    return discreet.open(path, tables={"visits": table})


def test_a_model_is_trained_charged_and_kept(tmp_path):
    table = visits()
    with opened(tmp_path, table) as data:
        words = data.plan(Training(table="visits", target="ill", epsilon=2, delta="1e-6", examples=2000)).explain()
        assert "one person, by person; one of their rows is used" in words
        assert data.budget().charges == 0 if hasattr(data.budget(), "charges") else True
        model = data.train("visits", "ill", epsilon=2, delta="1e-6", examples=2000)
        assert not model.receipt.free
        assert model.score(table) > 0.85
        assert set(model.predict(table)) <= {True, False}
        assert np.allclose(model.predict_proba(table).sum(axis=1), 1, atol=1e-5)
        assert len(model.losses) == model.plan.recipe.steps
        assert "<svg" in model.page().html()
        assert "<th>protects</th>" in model.page().html()
        again = data.train("visits", "ill", epsilon=2, delta="1e-6", examples=2000)
        assert again.receipt.free
        assert all((a == b).all() for a, b in zip(model.parameters, again.parameters, strict=True))


def test_numbers_are_predicted_within_their_bounds(tmp_path):
    table = visits()
    with opened(tmp_path, table) as data:
        model = data.train("visits", "age", features=["ill"], epsilon=3, delta="1e-6", examples=2000)
        predicted = model.predict(table)
        assert predicted.min() >= 0
        assert predicted.max() <= 100
        assert model.score(table) > 0.4
        with pytest.raises(InvalidData, match="a number, not a class"):
            model.predict_proba(table)


def test_what_cannot_be_paid_is_refused_before_a_row_is_read(tmp_path, monkeypatch):
    with opened(tmp_path, visits(), epsilon=1) as data:
        monkeypatch.setattr(data._curator.engine, "fetch", lambda sql: pytest.fail("a row was read"), raising=False) if hasattr(data._curator.engine, "__dict__") else None  # fmt: skip
        with pytest.raises(BudgetExceeded):
            data.train("visits", "ill", epsilon=4, delta="1e-6", examples=2000)


def test_a_failure_is_opaque_and_stays_charged(tmp_path, monkeypatch):
    with opened(tmp_path, visits()) as data:
        monkeypatch.setattr("discreet.learning.training_plan.train", lambda *_, **__: 1 / 0)
        with pytest.raises(ReleaseFailed) as caught:
            data.train("visits", "ill", epsilon=1, delta="1e-6", examples=2000)
        assert "division" not in str(caught.value)


def test_the_stated_epsilon_covers_the_loss():
    made = plan(REQUEST, CATALOG)
    assert guarantee(made.loss, delta=made.delta).epsilon <= float(made.epsilon) * (1 + 1e-9)
    assert made.verify(CATALOG) == made.loss


def test_a_plan_that_was_tampered_with_is_refused_at_the_gate():
    made = plan(REQUEST, CATALOG)
    wider = replace(made, shape=replace(made.shape, features=Features((Column("age", "integer", lower=0, upper=200),))))
    other = replace(made, table=Table("visits", COLUMNS, unit=Unit()))
    for changed in (wider, other):
        with pytest.raises(InternalError):
            changed.verify(CATALOG)
    quieter = replace(made, recipe=replace(made.recipe, multiplier=made.recipe.multiplier / 2))
    assert quieter.verify(CATALOG) != made.loss


def test_names_differ_where_releases_do():
    made = plan(REQUEST, CATALOG)
    same = plan(REQUEST, CATALOG)
    assert made.digest == same.digest
    for changes in ({"epochs": 2}, {"hidden": (8,)}, {"features": ["age"]}, {"epsilon": 1}, {"activation": "tanh"}, {"lot": 100}):  # fmt: skip
        assert plan(replace(REQUEST, **changes), CATALOG).digest != made.digest


def test_one_person_is_one_example_whatever_their_rows():
    import duckdb

    made = plan(REQUEST, CATALOG)
    many = pa.table({"person": [1, 1, 1, 2, None, 3], "age": [30, 20, 40, 50, 60, 10], "ward": ["a", "b", "a", "b", "a", None], "ill": [True, False, True, None, True, False]})  # fmt: skip
    connection = duckdb.connect()
    connection.register("visits", many)
    rows = sorted(connection.sql(made.sql, params={"salt": "5a17"}).fetchall(), key=str)
    (mine,) = (row for row in rows if row in [(30, "a", True), (20, "b", False), (40, "a", True)])
    assert rows == sorted([mine, (50, "b", None), (10, None, False)], key=str)
    fewer = many.filter(pa.array([p != 1 for p in many["person"].to_pylist()]))
    connection.register("visits", fewer)
    left = connection.sql(made.sql, params={"salt": "5a17"}).fetchall()
    assert sorted(left, key=str) == [row for row in rows if row != mine]


def test_values_that_nobody_declared_are_missing():
    features = Features((COLUMNS[1], COLUMNS[2], COLUMNS[3]))
    encoded = features.encode({"age": [None, 1000, -5], "ward": ["z", None, "b"], "ill": [None, True, False]})
    assert encoded.tolist() == [[0, 1, 0, 0, 1, 0, 1], [1, 0, 0, 0, 1, 1, 0], [-1, 0, 0, 1, 0, -1, 0]]
    spelled = Features((COLUMNS[3],)).encode({"ill": ["true", "False", "1", "no", "?", None]})
    assert spelled.tolist() == [[1, 0], [-1, 0], [1, 0], [-1, 0], [0, 1], [0, 1]]
    codes, known = Target(COLUMNS[2]).encode({"ward": ["b", "z", None]})
    assert codes[known].tolist() == [1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"target": "note"}, "declared values or bounds"),
        ({"features": ["note"]}, "declared bounds or values"),
        ({"features": []}, "at least one column"),
        ({"features": ["person"]}, "declared bounds"),
        ({"features": ["ill"]}, "other than the target"),
        ({"features": ["nothing"]}, "nothing"),
        ({"table": "wards", "target": "beds"}, "bounds"),
        ({"table": "nowhere"}, "nowhere"),
        ({"examples": 0}, "examples"),
        ({"examples": 20}, "a larger ε for 20 examples"),
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 0}, "delta"),
        ({"hidden": (0,)}, "hidden"),
        ({"activation": "magic"}, "activation"),
        ({"epochs": -1}, "epochs"),
        ({"lot": 5000}, "lot"),
    ],
)
def test_wishes_that_make_no_sense_are_refused_before_anything_is_spent(changes, words):
    with pytest.raises((InvalidParameter, InvalidData), match=words):
        plan(replace(REQUEST, **changes), CATALOG)


def test_other_neighbors_have_no_proof():
    changing = Catalog("clinic", [TABLE], neighbors="change one")
    with pytest.raises(InvalidParameter, match="add or remove one"):
        plan(REQUEST, changing)


def test_a_model_is_saved_and_read_again(tmp_path):
    shape = plan(REQUEST, CATALOG).shape
    model = ColumnModel(shape, shape.network.start(seed=1))
    again = ColumnModel.load(model.save(tmp_path / "ill.model"))
    table = visits(50)
    assert (again.predict_proba(table) == model.predict_proba(table)).all()
    assert again.shape == shape


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", packed([np.ones(1, np.float32)], {"form": "other"}), packed([], {})])  # fmt: skip
def test_a_file_that_is_no_model_is_named(tmp_path, content):
    (tmp_path / "x.model").write_bytes(content)
    with pytest.raises(InvalidData, match="x.model"):
        ColumnModel.load(tmp_path / "x.model")
    with pytest.raises(InvalidParameter, match="exists"):
        ColumnModel.load(tmp_path / "missing.model")


def test_rates_are_rational():
    made = plan(replace(REQUEST, examples=30_000, lot=700), CATALOG)
    assert made.recipe.rate == Fraction(7, 300)


@pytest.mark.parametrize(
    ("model", "target", "least"), [("logistic", "ill", 0.95), ("tree", "ill", 0.95), ("linear", "age", 0.5)]
)
def test_classical_models_are_trained_through_the_gate(model, target, least, tmp_path):
    """Charged what was planned, which a fit costs indeed; saved and read again; nearly as good as the truth allows."""
    table = visits(people=4000)
    features = ["age", "ward"] if target == "ill" else ["ill", "ward"]
    told = {"features": features, "epsilon": 2, "delta": "1e-6", "examples": 4000, "model": model}
    with opened(tmp_path, table) as data:
        planned = data.plan(Training(table="visits", target=target, **told))
        assert guarantee(planned.loss, delta="1e-6").epsilon <= 2
        trained = data.train("visits", target, **told)
        again = data.train("visits", target, **told)
    assert trained.plan == planned
    assert all(np.array_equal(a, b) for a, b in zip(trained.parameters, again.parameters, strict=True))
    assert trained.score(table) > least
    path = trained.save(tmp_path / "kept.model")
    assert np.array_equal(ColumnModel.load(path).predict(table), trained.predict(table))
    assert model in planned.explain() or model == "tree"


NUMBER = {"model": "linear", "target": "age"}


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "logistic", "delta": 0},
        {"model": "logistic", "epsilon": 1},
        {**NUMBER, "features": ["ill", "ward"], "delta": 0},
        {**NUMBER, "features": ["ill"]},
    ],
)
def test_half_the_noise_that_is_stated_is_refused_at_the_gate(changes, monkeypatch):
    """The cost is found from the scales and from what a row moves, not from what planning says."""
    made, true = plan(replace(REQUEST, **changes), CATALOG), exact_sums.planned
    assert made.verify(CATALOG) == made.loss

    def quieter(*given, **more):
        noise = true(*given, **more)
        return replace(noise, scales=tuple(scale / 2 for scale in noise.scales))

    for module in (linear, logistic, objective):
        monkeypatch.setattr(module, "planned", quieter)
    assert made.loss
    with pytest.raises(InternalError, match="further"):
        made.verify(CATALOG)


def test_a_tree_that_spends_twice_is_refused_at_the_gate(monkeypatch):
    made, true = plan(replace(REQUEST, model="tree"), CATALOG), trees._plan
    assert made.verify(CATALOG) == made.loss
    monkeypatch.setattr(trees, "_plan", lambda *given: replace(true(*given), leaf=2 * true(*given).leaf))
    with pytest.raises(InternalError, match="smaller ε"):
        made.verify(CATALOG)


@pytest.mark.parametrize("model", [{"model": "tree"}, {"model": "logistic"}, {**NUMBER, "features": ["ill"]}])
def test_a_classical_model_that_states_less_than_its_noise_costs_is_refused_at_the_gate(model, monkeypatch):
    made = plan(replace(REQUEST, **model), CATALOG)
    stated = made.loss
    less = Pure("0.001") if isinstance(stated, Pure | Together) else GaussianNoise(2 * stated.multiplier)
    monkeypatch.setattr(type(made.recipe), "loss", lambda *_: less)
    assert made.loss == less
    with pytest.raises(InternalError, match="further"):
        made.verify(CATALOG)


def test_a_model_that_cost_something_else_does_not_leave(monkeypatch):
    made = plan(replace(REQUEST, model="tree"), CATALOG)
    x, y = np.zeros((5, made.shape.features.width), np.float32), np.zeros(5, np.int64)
    monkeypatch.setattr(type(made.recipe), "loss", lambda *_: Pure(1))
    with pytest.raises(InternalError, match="another cost"):
        made.recipe.fitted(made.shape, x, y, None)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model": "forest"}, "model"),
        ({"model": "linear"}, "linear"),
        ({"model": "logistic", "target": "age", "features": ["ward"]}, "classes"),
        ({"model": "logistic", "examples": 3, "epsilon": "0.001"}, "epsilon"),
        ({"model": "tree", "depth": 13}, "depth"),
    ],
)
def test_classical_models_that_make_no_sense_are_refused(changes, words):
    with pytest.raises(InvalidParameter, match=words):
        plan(replace(REQUEST, **changes), CATALOG)
