"""One planner for networks: the gate and the estimators have the same defaults and refuse the same runs."""

import warnings

import numpy as np
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InvalidParameter, NoiseWarning
from discreet.learning.estimators import DPClassifier, DPRegressor
from discreet.learning.training_plan import network_defaults, plan_training
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Unit
from discreet.requests import Training

NUMBERS = [Column(f"x{place}", "integer", lower=-1, upper=1) for place in range(4)]
TABLE = Table("people", [*NUMBERS, Column("ill", "boolean"), Column("cost", "integer", lower=0, upper=9)], unit=Unit())
CATALOG = Catalog("clinic", [TABLE], neighbors="add or remove one")
FEATURES = [column.name for column in NUMBERS]
WIDTH = 8  # each column has a number that says that it is missing


def behind_the_gate(target, rows, **settings):
    request = Training(
        table="people", target=target, features=FEATURES, epsilon=1, delta="1e-6", examples=rows, **settings
    )
    return plan_training(request, CATALOG)


def estimated(target, rows, **settings):
    given = {"epsilon": 1, "delta": "1e-6", "bounds": "unit", "rows": rows, **settings}
    if target == "ill":
        return DPClassifier(**given, classes=[False, True])._plan(WIDTH)
    return DPRegressor(**given, target_bounds=(0, 9))._plan(WIDTH)


@pytest.mark.parametrize("target", ["ill", "cost"])
@pytest.mark.parametrize("rows", [500, 2000, 20_000])
def test_the_gate_and_the_estimators_plan_alike(target, rows):
    plan = behind_the_gate(target, rows)
    _, network, recipe = estimated(target, rows)
    assert plan.recipe == recipe
    assert plan.shape.network == network


def test_a_plan_states_the_settings_that_were_set_for_it():
    document = behind_the_gate("ill", 20_000).document()
    assert document["network"]["hidden_widths"] == [32]
    assert document["network"]["activation"] == "relu"
    assert document["recipe"]["steps"] == 300
    assert document["recipe"]["expected_lot"] == {"rational": "4800"}
    assert document["recipe"]["averaging_decay"] == {"rational": "0.95"}
    assert document["recipe"]["optimizer"]["learning_rate"] == {"float": "2.0"}


@pytest.mark.parametrize("stated", [{"hidden": (5, 3)}, {"activation": "tanh"}, {"lot": 100}, {"clip": 2}])
def test_what_is_stated_is_used(stated):
    plan = behind_the_gate("ill", 20_000, **stated)
    _, network, recipe = estimated("ill", 20_000, **stated)
    assert (plan.recipe, plan.shape.network) == (recipe, network)
    default = behind_the_gate("ill", 20_000)
    assert (plan.recipe, plan.shape) != (default.recipe, default.shape)


@pytest.mark.parametrize(("rows", "settings"), [(20, {}), (300, {"hidden": (1000,)})])
def test_both_refuse_what_noise_would_drown(rows, settings):
    with pytest.raises(InvalidParameter, match=f"a larger ε for {rows} examples.*over the run"):
        behind_the_gate("ill", rows, **settings)
    model = DPClassifier(epsilon=1, delta="1e-6", bounds="unit", rows=rows, classes=[False, True], **settings)
    with pytest.raises(InvalidParameter, match=f"a larger ε for {rows} examples.*over the run"):
        model.fit(np.zeros((rows, WIDTH)), np.arange(rows) % 2 > 0)


def test_both_warn_of_what_is_nearly_drowned():
    with pytest.raises(NoiseWarning, match="expect little"):
        behind_the_gate("ill", 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        behind_the_gate("ill", 2000)


def test_more_rows_more_budget_fewer_features_never_make_a_smaller_network():
    facts = {"examples": 2000, "epsilon": 1, "delta": "1e-6", "features": 20}
    few = network_defaults(**facts)
    assert few.hidden == ()
    for change in ({"examples": 20_000}, {"epsilon": 12}, {"features": 2}):
        more = network_defaults(**facts | change)
        assert more.hidden
        assert few.learning_rate < more.learning_rate
    assert network_defaults(**facts | {"delta": "1e-3", "features": 14}).hidden
    assert network_defaults(**facts | {"delta": "1e-12", "features": 14}).hidden == ()


def test_two_thousand_rows_of_sixty_columns_teach_something_at_epsilon_one():
    """Five classes from sixty columns: .64 here; hidden layers of 32 and 100 at fixed rates had .49 and .42."""
    rng = np.random.default_rng(11)
    x = np.hstack([np.eye(9)[rng.integers(0, 9, 4000)] for _ in range(6)] + [rng.uniform(-1, 1, (4000, 6))])
    scores = x @ rng.normal(size=(60, 5))
    y = (2 * (scores - scores.mean(axis=0)) + rng.gumbel(size=scores.shape)).argmax(axis=1)
    model = DPClassifier(
        epsilon=1, delta="1e-6", bounds="unit", rows=2000, classes=range(5), entropy=DeterministicEntropy(1)
    )
    assert model.fit(x[:2000], y[:2000]).score(x[2000:], y[2000:]) > 0.57
