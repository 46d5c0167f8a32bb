"""One of several models by the exponential mechanism: as probable as it should be, and at the stated cost."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidInput
from discreet.learning.classical import choose, correct_answers
from discreet.noise import DeterministicEntropy
from discreet.privacy import guarantee

DRAWS = 4000
Z = 5.0  # two-sided false alarms below 1e-6


class Says:
    def __init__(self, label):
        self.label = label

    def predict(self, X):
        return np.full(len(X), self.label)


@pytest.mark.parametrize(("monotone", "factor"), [(False, 0.5), (True, 1.0)])
def test_better_models_are_exponentially_more_probable(monotone, factor):
    entropy = DeterministicEntropy(3)
    drawn = [
        choose("ab", [0, 2], epsilon=1, sensitivity=1, monotone=monotone, entropy=entropy).place for _ in range(DRAWS)
    ]

    def within(weight):
        chance = 1 / (1 + np.exp(-2 * weight))
        return abs(np.mean(drawn) - chance) < Z * np.sqrt(chance * (1 - chance) / DRAWS)

    assert within(factor)
    assert not within(1.3 * factor)


def test_the_choice_says_what_it_cost():
    found = choose(["a", "b"], [0, 10**6], epsilon="0.5", sensitivity=1)
    assert (found.model, found.place) == ("b", 1)
    assert guarantee(found.loss, delta=0).epsilon == Fraction(1, 2)


@given(st.lists(st.sampled_from(["x", "y"]), min_size=2, max_size=8))
def test_one_row_moves_all_scores_by_at_most_one_and_upwards(labels):
    models, x = [Says("x"), Says("y")], np.zeros((len(labels), 1))
    more, less = correct_answers(models, x, labels), correct_answers(models, x[1:], labels[1:])
    assert sorted(a - b for a, b in zip(more, less, strict=True)) == [0, 1]
    assert more == [labels.count("x"), labels.count("y")]


@pytest.mark.parametrize("scores", [[], [1], [[1, 2]], [1.5, 2], [np.nan, 1]])
def test_scores_that_cannot_be_are_refused(scores):
    with pytest.raises(InvalidInput):
        choose(["a", "b"], scores, epsilon=1, sensitivity=1)
    with pytest.raises(InvalidData, match="0 models"):
        choose([], [], epsilon=1, sensitivity=1)
