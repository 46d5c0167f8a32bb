"""B4 (and B2): sensitivities on [0, 1]ⁿ, in closed form and found by exhaustive search on a grid."""

import math
import statistics
from fractions import Fraction

import pytest
from tests.mechanisms import closed_forms as forms

from discreet.mechanisms.neighbor_graph import sensitivity
from discreet.privacy.unit import Neighbors

pytestmark = pytest.mark.claim("B4")

CHANGE = Neighbors.CHANGE_ONE
GRID = [Fraction(k, 4) for k in range(5)]
N = 5


def found(query, size=N, neighbors=CHANGE):
    return sensitivity(query, domain=GRID, size=size, neighbors=neighbors, ordered=False).value


def test_average_is_one_over_n():
    assert found(lambda x: sum(x) / len(x)) == forms.average_sensitivity(size=N, neighbors=CHANGE) == Fraction(1, N)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_standard_deviation_is_below_one_over_root_n(size):
    closed = forms.deviation_sensitivity(size=size, neighbors=CHANGE)
    assert found(lambda x: statistics.pstdev(map(float, x)), size) == pytest.approx(float(closed), abs=1e-12)
    assert float(closed) == pytest.approx(math.sqrt(size - 1) / size)
    assert closed < 1 / math.sqrt(size)


@pytest.mark.parametrize("query", [max, min, math.prod, statistics.median_low], ids=["max", "min", "product", "median"])
def test_max_product_and_median_are_one(query):
    assert found(query) == forms.extreme_sensitivity(neighbors=CHANGE) == 1


def test_the_median_of_an_odd_number_needs_no_convention():
    assert found(statistics.median) == 1


@pytest.mark.parametrize("neighbors", list(Neighbors))
def test_count_and_sum_are_one(neighbors):
    assert found(lambda x: sum(v > Fraction(1, 2) for v in x), neighbors=neighbors) == 1
    assert found(sum, neighbors=neighbors) == 1
    assert forms.count_sensitivity(neighbors=neighbors) == forms.sum_sensitivity(neighbors=neighbors) == 1


@pytest.mark.claim("B2")
@pytest.mark.parametrize(("neighbors", "expected"), [(Neighbors.ADD_OR_REMOVE_ONE, 1), (CHANGE, 2)])
def test_a_histogram_has_one_or_two(neighbors, expected):
    def histogram(x):
        return [x.count(v) for v in GRID]

    assert found(histogram, size=3, neighbors=neighbors) == expected
    assert forms.histogram_sensitivity(neighbors=neighbors) == expected
