"""What joins our models with the attacks on membership: the same numbers by another way, and what is refused."""

from fractions import Fraction

import numpy as np
import pytest

from discreet.attacks.membership import Rmia
from discreet.curator.catalog import Column
from discreet.errors import InvalidData, InvalidParameter
from discreet.gallery.models import (
    Targets,
    attacks_on,
    canaries,
    gradient_norms,
    log_confidences,
    reference_models,
    without_privacy,
)
from discreet.learning.column_model import ColumnModel, Features, Shape, Target
from discreet.learning.sgd.recipe import Adam, Adaptive, Recipe, Sgd
from discreet.learning.sgd.training import train
from discreet.noise import DeterministicEntropy
from discreet.privacy.accounting import guarantee

COLUMNS = tuple(Column(f"c{k}", "integer", lower=0, upper=9) for k in range(5))
ILL = Shape(Features(COLUMNS), Target(Column("ill", "boolean")), (6,), "tanh")
AGE = Shape(Features(COLUMNS), Target(Column("age", "integer", lower=0, upper=100)), (), "tanh")


def table(count, seed):
    rng = np.random.default_rng(seed)
    made = {one.name: rng.integers(0, 10, count) for one in COLUMNS}
    return made | {"ill": rng.random(count) < 0.5, "age": rng.integers(0, 100, count)}


def targets(shape=ILL, population=None):
    return Targets.of(shape, table(60, 1), table(50, 2), population)


def start(shape=ILL):
    return ColumnModel(shape, shape.network.start(seed=1))


# --- models ----------------------------------------------------------------------------------------------------------


def test_targets_stand_members_first_and_rows_without_a_target_are_left_out():
    members = table(60, 1) | {"ill": [True] * 30 + [None] * 30}
    found = Targets.of(ILL, members, table(50, 2), table(40, 3))
    assert found.members.tolist() == [True] * 30 + [False] * 50
    assert found.people == 80
    assert len(found.x) == len(found.y) == 120


def test_twins_are_counted():
    assert targets().shared == 0
    both = table(60, 1)
    assert Targets.of(ILL, both, both).shared == 60


def test_confidences_and_norms_are_those_of_the_model():
    model, found = start(), targets()
    shares = model.predict_proba({one.name: table(60, 1)[one.name] for one in COLUMNS})
    said = log_confidences(ILL.network, model.parameters, found.x, found.y)
    assert said[:60] == pytest.approx(np.log(shares[np.arange(60), found.y[:60]]), abs=1e-5)
    _, gradients = ILL.network.gradients(model.parameters, found.x, found.y)
    formed = np.concatenate([one.formed().reshape(110, -1) for one in gradients], axis=1)
    norms = gradient_norms(ILL.network, model.parameters, found.x, found.y)
    assert norms == pytest.approx(np.linalg.norm(formed, axis=1), rel=1e-5)


def test_what_is_known_decides_which_attacks_there_are():
    model, found = start(), targets()
    assert [one.attack for one in attacks_on(model, found)] == ["loss threshold", "gradient norm"]
    references = reference_models(ILL, found, count=2, seed=1)
    assert [one.attack for one in attacks_on(model, found, references=references)][2:] == ["LiRA"]
    more = targets(population=table(40, 3))
    references = reference_models(ILL, more, count=2, seed=1)
    assert references.confidences.shape == (2, 150)
    last = attacks_on(model, more, references=references, against="it")[-1]
    assert isinstance(last, Rmia)
    assert len(last.scores()) == 110
    assert last.against == "it"


def test_a_model_that_predicts_a_number_is_attacked_by_its_loss():
    model, found = start(AGE), targets(AGE)
    loss, norm = attacks_on(model, found)
    output = model.output(table(60, 1))[:, 0]
    assert -loss.scores()[:60] == pytest.approx((output - found.y[:60]) ** 2 / 2, rel=1e-4)
    assert np.isfinite(norm.scores()).all()
    with pytest.raises(InvalidParameter, match="predicts a number"):
        attacks_on(model, found, references=reference_models(ILL, targets(), count=2, seed=1))


def test_references_learn_their_half_and_repeat():
    found = targets()
    first, again = (reference_models(ILL, found, count=2, seed=3) for _ in range(2))
    assert np.array_equal(first.confidences, again.confidences)
    inside, outside = first.confidences[first.inside].mean(), first.confidences[~first.inside].mean()
    assert inside > outside


def test_the_plain_model_learns():
    x = np.tile(np.eye(5, ILL.features.width, dtype=np.float32), (40, 1))
    y = np.tile(np.array([0, 1, 0, 1, 1]), 40)
    model = without_privacy(ILL, x, y, seed=1)
    assert log_confidences(ILL.network, model.parameters, x, y).min() > np.log(0.8)


def test_a_table_without_targets_is_refused():
    with pytest.raises(InvalidData, match="no row has a known 'ill'"):
        Targets.of(ILL, table(60, 1) | {"ill": [None] * 60}, table(50, 2))


# --- canaries --------------------------------------------------------------------------------------------------------


def recipe(**settings):
    return Recipe(**{"rate": 1, "lot": 50, "steps": 6, "multiplier": 1, "clip": 1, "optimizer": Sgd(1)} | settings)


def silent(network, x, y, plan, **settings):
    """The training with next to no noise: what is observed is what canaries add."""
    from dataclasses import replace

    return train(network, x, y, replace(plan, multiplier=Fraction(1, 1 << 20)), **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"clip": "0.01"},
        {"clip": 100, "lot": "0.5"},
        {"adaptive": Adaptive(quantile="0.9")},
        {"per_layer": True},
        {"optimizer": Adam(1), "average": "0.9"},
        {"steps": 40, "curve": 0},
        {"copies": 2},
    ],
    ids=str,
)
def test_a_canary_adds_one_clipping_norm_to_its_weight_in_every_step(settings):
    found = canaries(
        recipe(**settings), delta="1e-5", count=100, seed=1, trainer=silent, entropy=DeterministicEntropy(1)
    )
    seen = np.asarray(found.observed)
    assert seen.shape == (settings.get("steps", 6), 100)
    assert seen[:, found.members] == pytest.approx(1, abs=0.005)
    assert seen[:, ~found.members] == pytest.approx(0, abs=0.005)


def test_in_sampled_steps_it_is_there_as_often_as_the_rate_says():
    plan = recipe(rate="1/4", steps=50)
    found = canaries(plan, delta="1e-5", count=400, seed=1, trainer=silent, entropy=DeterministicEntropy(1))
    share = (np.asarray(found.observed)[:, found.members] > 0.5).mean()
    assert abs(share - 0.25) < 5 * np.sqrt(0.25 * 0.75 / (50 * 200))


def test_the_noise_is_what_the_attack_is_told():
    found = canaries(recipe(multiplier=3), delta="1e-5", count=2000, seed=1, entropy=DeterministicEntropy(1))
    outside = np.asarray(found.observed)[:, ~found.members]
    assert outside.std() == pytest.approx(float(found.noise), rel=0.06)
    assert outside.mean() == pytest.approx(0, abs=5 * 3 / np.sqrt(outside.size))


def test_the_claim_is_that_of_the_recipe():
    plan = recipe(rate="1/4")
    found = canaries(plan, delta="1e-5", count=64, seed=1).find()
    assert float(found.claimed) == pytest.approx(guarantee(plan.loss, delta="1e-5").epsilon)
    assert (found.design, found.curve) == ("coins", "any")
    assert canaries(recipe(), delta="1e-5", count=64, seed=1).find().curve == "gaussian"
    with pytest.raises(InvalidParameter, match="count"):
        canaries(plan, delta="1e-5", count=10, seed=1)
