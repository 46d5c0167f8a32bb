"""B2: two neighbor relations, both first-class; a histogram has ℓ1 sensitivity 1 under one and 2 under the other."""

from fractions import Fraction
from itertools import combinations_with_replacement

import numpy as np
import pytest
from tests.mechanisms.closed_forms import histogram_sensitivity

from discreet.mechanisms import Geometric, Quantile, Range
from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Neighbors

pytestmark = pytest.mark.claim("B2")

F = Fraction
ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE
CELLS = "abc"


def histogram(people) -> list[int]:
    return [list(people).count(cell) for cell in CELLS]


def neighbors(relation: Neighbors, size: int):
    for people in combinations_with_replacement(CELLS, size):
        for cell in CELLS:
            yield people, (*people, cell) if relation is ADD else (*people[1:], cell)


def spent(mechanism: Geometric, relation: Neighbors) -> Fraction:
    """The largest ln P(z|x)/P(z|x') over all neighbors and all histograms z: Σ|cell − cell'|/scale, exactly."""
    moved = max(
        sum(abs(a - b) for a, b in zip(histogram(x), histogram(y), strict=True)) for x, y in neighbors(relation, 3)
    )
    return moved / mechanism.scale


@pytest.mark.parametrize(("relation", "expected"), [(ADD, 1), (CHANGE, 2)], ids=str)
def test_the_sensitivity_of_a_histogram(relation, expected):
    found = sensitivity(histogram, domain=CELLS, size=3, neighbors=relation)
    assert found.value == histogram_sensitivity(neighbors=relation) == expected


@pytest.mark.parametrize(("relation", "moves"), [(ADD, 1), (CHANGE, 2)], ids=str)
def test_a_noisy_histogram_costs_exactly_its_epsilon_under_the_relation_it_was_made_for(relation, moves):
    assert spent(Geometric(epsilon="0.8", sensitivity=moves), relation) == F(8, 10)


def test_the_wrong_relation_costs_twice_as_much():
    made_for_add = Geometric(epsilon="0.8", sensitivity=1)
    assert spent(made_for_add, CHANGE) == 2 * F(8, 10)


def test_protecting_against_change_needs_twice_the_noise():
    people = ["a"] * 5 + ["b"] * 3
    noise = {}
    for relation, moves in ((ADD, 1), (CHANGE, 2)):
        mechanism = Geometric(epsilon="0.05", sensitivity=moves)
        released = mechanism.release(np.tile(histogram(people), 5000), entropy=DeterministicEntropy(2))
        noise[relation] = np.abs(released - np.tile(histogram(people), 5000)).mean()
    assert noise[CHANGE] / noise[ADD] == pytest.approx(2, rel=0.1)


def test_both_relations_are_first_class():
    """A mechanism whose noise depends on the relation must be told which, in plain words."""
    within = Range(lower=0, upper=9, granularity=1)
    with pytest.raises(TypeError):
        Quantile(epsilon=1, probability="1/2", within=within)
    for relation in Neighbors:
        by_name = Quantile(epsilon=1, probability="1/2", within=within, neighbors=str(relation))
        assert by_name == Quantile(epsilon=1, probability="1/2", within=within, neighbors=relation)
    assert [str(relation) for relation in Neighbors] == ["add or remove one", "change one"]
