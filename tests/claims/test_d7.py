"""D7: model choice by the exponential mechanism; classical models as users of the field expect."""

import math

import numpy as np
import pytest

from discreet.learning import classical
from discreet.mechanisms import Exponential
from discreet.noise import DeterministicEntropy
from discreet.privacy import guarantee

RNG = np.random.default_rng(11)
X = np.clip(RNG.normal(0, 0.4, (8000, 2)), -1, 1)
Y = np.where(X @ [1.0, 1.0] > 0, "yes", "no")


@pytest.mark.claim("D7")
def test_the_best_model_is_exponentially_more_probable():
    scores = [10, 12, 15]
    chances = Exponential(epsilon=1, sensitivity=1, monotone=True).probabilities(scores)
    assert math.isclose(chances[2] / chances[0], math.exp(5))
    entropy = DeterministicEntropy(4)
    drawn = [
        classical.choose("abc", scores, epsilon=1, sensitivity=1, monotone=True, entropy=entropy).place
        for _ in range(4000)
    ]
    share = np.bincount(drawn, minlength=3) / len(drawn)
    assert np.abs(share - chances).max() < 5 * 0.5 / math.sqrt(len(drawn))


@pytest.mark.claim("D7")
def test_models_are_trained_chosen_and_paid_for():
    budget = {"delta": 0, "bounds": (-1, 1), "classes": ["no", "yes"]}
    models = [
        classical.LogisticRegression(epsilon="0.001", entropy=DeterministicEntropy(1), **budget).fit(
            X[:4000], Y[:4000]
        ),
        classical.LogisticRegression(epsilon=4, entropy=DeterministicEntropy(2), **budget).fit(X[:4000], Y[:4000]),
    ]
    right = classical.correct_answers(models, X[4000:], Y[4000:])
    choice = classical.choose(models, right, epsilon=1, sensitivity=1, monotone=True, entropy=DeterministicEntropy(3))
    assert choice.model is models[1]
    assert choice.model.score(X, Y) > 0.95
    assert [guarantee(model.cost_, delta=0).epsilon for model in models] == pytest.approx([0.001, 4])
    assert guarantee(choice.loss, delta=0).epsilon == 1
