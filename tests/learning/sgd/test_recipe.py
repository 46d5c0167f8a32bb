"""Recipes: the budget decides the noise or the steps; accounting against other accountants; bad settings."""

from fractions import Fraction

import pytest

from discreet.errors import BudgetExceeded, InvalidInput, InvalidParameter
from discreet.learning.sgd.recipe import Adaptive, Recipe, Sgd, multiplier_for, steps_for
from discreet.privacy.accounting import guarantee, pld, rdp
from discreet.privacy.calibration import sampled_gaussian_multiplier
from discreet.privacy.loss import GaussianNoise, Repeated, SampledGaussian, Together

F = Fraction
REST = {"clip": 1, "optimizer": Sgd("0.1")}


@pytest.mark.parametrize(
    ("steps", "by_moments", "by_pld", "paper"), [(10_000, 1.035, 0.947, 1.26), (40_000, 2.210, 2.033, 2.55)]
)
def test_published_values(steps, by_moments, by_pld, paper):
    """q = 0.01, σ = 4, δ = 1e-5, 100 and 400 epochs; the paper is Abadi et al. 2016."""
    run = Recipe(rate="0.01", lot=600, steps=steps, multiplier=4, **REST).loss
    assert rdp.epsilon(rdp.curve(run), delta="1e-5") == pytest.approx(by_moments, abs=0.001)
    assert pld.epsilon(run, delta="1e-5") == pytest.approx(by_pld, abs=0.0005)
    assert by_pld < by_moments < paper


def test_pld_agrees_with_another_accountant():
    from dp_accounting.pld import privacy_loss_distribution as other

    one = other.from_gaussian_mechanism(4.0, sampling_prob=0.01, value_discretization_interval=1e-4)
    ours = pld.epsilon(Repeated(SampledGaussian("0.01", 4), 10_000), delta="1e-5")
    assert ours == pytest.approx(one.self_compose(10_000).get_epsilon_for_delta(1e-5), rel=1e-3)


@pytest.mark.parametrize("epsilon", ["0.5", "2", "8"])
def test_for_budget_ends_where_the_budget_ends(epsilon):
    made = Recipe.for_budget(epsilon=epsilon, delta="1e-5", rate="0.02", epochs=20, examples=50_000, **REST)
    assert made.steps == 1000
    assert made.lot == 1000
    spent = guarantee(made.loss, delta="1e-5").epsilon
    assert 0.999 * float(epsilon) < spent <= float(epsilon)
    assert made.multiplier == pytest.approx(
        sampled_gaussian_multiplier(epsilon=epsilon, delta="1e-5", rate="0.02", steps=1000), rel=1e-5
    )


def test_what_is_spent_beside_is_counted_in():
    beside = GaussianNoise(8)
    alone = Recipe.for_budget(epsilon=2, delta="1e-5", rate="0.05", steps=200, examples=9000, **REST)
    both = Recipe.for_budget(epsilon=2, delta="1e-5", rate="0.05", steps=200, examples=9000, beside=beside, **REST)
    assert both.multiplier > alone.multiplier
    assert 1.998 < guarantee(Together(beside, both.loss), delta="1e-5").epsilon <= 2


def test_with_the_noise_given_the_budget_decides_the_steps():
    made = Recipe.for_budget(epsilon=1, delta="1e-5", rate="0.01", multiplier=2, examples=1000, **REST)
    one_more = Repeated(SampledGaussian("0.01", 2), made.steps + 1)
    assert guarantee(made.loss, delta="1e-5").epsilon <= 1 < guarantee(one_more, delta="1e-5").epsilon


def test_full_lots_are_the_plain_gaussian():
    found = multiplier_for(F(1), F("1e-6"), F(1), 100)
    assert guarantee(Repeated(GaussianNoise(found), 100), delta="1e-6").epsilon == pytest.approx(1, rel=1e-4)


def test_no_budget_left():
    with pytest.raises(BudgetExceeded, match="besides training already costs"):
        Recipe.for_budget(
            epsilon=1, delta="1e-5", rate="0.01", steps=10, examples=10, beside=GaussianNoise("0.5"), **REST
        )
    with pytest.raises(BudgetExceeded, match="one step with noise 0.1"):
        steps_for(F(1), F("1e-5"), F("0.5"), F("0.1"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": 10, "epochs": 2},
        {},
        {"steps": 10, "multiplier": 1},
        {"steps": 0},
        {"steps": 1.5},
        {"steps": 5, "epsilon": 0},
        {"steps": 5, "epsilon": -1},
        {"steps": 5, "epsilon": float("nan")},
        {"steps": 5, "delta": 0},
        {"steps": 5, "delta": 1},
        {"steps": 5, "rate": 0},
        {"steps": 5, "rate": "1.01"},
        {"steps": 5, "examples": 0},
        {"epochs": -1},
        {"steps": True},
    ],
    ids=str,
)
def test_bad_budgets(wrong):
    settings = {"epsilon": 1, "delta": "1e-5", "rate": "0.1", "examples": 100} | REST | wrong
    with pytest.raises(InvalidInput):
        Recipe.for_budget(**settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"multiplier": 0},
        {"clip": 0},
        {"clip": float("inf")},
        {"lot": 0},
        {"curve": "0.3"},
        {"average": 1},
        {"copies": 0},
        {"memory": 10},
        {"seed": "x"},
        {"adaptive": Adaptive(), "per_layer": True},
    ],
    ids=str,
)
def test_bad_recipes(wrong):
    with pytest.raises(InvalidParameter):
        Recipe(**{"rate": "0.1", "lot": 10, "steps": 5, "multiplier": 1} | REST | wrong)


def test_riders_never_take_more_than_half():
    made = Recipe(rate=1, lot=1, steps=1, multiplier=1, curve="1/4", adaptive=Adaptive(share="1/4"), **REST)
    assert sum(made.riders) == F(1, 2)
