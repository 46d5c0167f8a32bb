"""B13: oblivious mechanisms K = H∘f: privacy between databases and reports, utility between answers and reports."""

from itertools import product

import pytest

from discreet.mechanisms.bayesian import answer_prior, expected_loss, oblivious
from discreet.mechanisms.neighbor_graph import hamming, sensitivity
from discreet.mechanisms.optimal import geometric_channel
from discreet.privacy.unit import Neighbors

pytestmark = pytest.mark.claim("B13")

DATABASES = list(product([0, 1], repeat=4))
H = geometric_channel(4, "0.5")


def neighbors(a, b):
    return hamming(a, b) == 1


def test_privacy_is_measured_between_databases():
    """A count has sensitivity 1, so K is as private between neighboring databases as H between consecutive counts."""
    assert sensitivity(sum, domain=[0, 1], size=4, neighbors=Neighbors.CHANGE_ONE).value == 1
    K = oblivious(sum, DATABASES, H)
    assert K.ratio(neighbors) == H.ratio("line")
    assert K.epsilon(neighbors) <= 0.5


def test_a_query_of_twice_the_sensitivity_costs_twice():
    def double(rows):
        return 2 * sum(rows[:2])

    assert oblivious(double, DATABASES, H).ratio(neighbors) == H.ratio("line") ** 2


def test_utility_is_measured_between_answers():
    """The expected loss over databases is that over answers under the prior that the query induces."""
    K = oblivious(sum, DATABASES, H)
    over_databases = expected_loss(K, "uniform", lambda rows, z: abs(sum(rows) - z))
    induced = answer_prior(sum, DATABASES, "uniform", range(5))
    assert over_databases == expected_loss(H, induced, lambda y, z: abs(y - z))


def test_databases_with_one_answer_are_not_told_apart():
    K = oblivious(sum, DATABASES, H)
    same = [(a, b) for a, b in product(DATABASES, repeat=2) if a < b and sum(a) == sum(b)]
    assert K.ratio(same) == 1
