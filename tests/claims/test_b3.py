"""B3: "is this mechanism private?" for any finite mechanism. The heights example gives ∞, 0, ∞, ε."""

import math
from fractions import Fraction

import numpy as np
import pytest

from discreet.exact import exp_down
from discreet.mechanisms.channel import Channel, constant, deterministic, identity

pytestmark = pytest.mark.claim("B3")

HEIGHTS = range(50, 251)  # the rounded average height in cm: 201 answers


def almost_truth(growth):
    """The truth with probability growth/(200 + growth), each other height with 1/(200 + growth)."""
    return Channel([[growth if x == z else 1 for z in HEIGHTS] for x in HEIGHTS], HEIGHTS, HEIGHTS, normalize=True)


@pytest.mark.parametrize("neighbors", ["all", "line"])
class TestHeights:
    def test_the_truth_is_not_private(self, neighbors):
        truth = identity(HEIGHTS)
        assert truth.epsilon(neighbors) == math.inf
        assert truth.delta(10, neighbors) == 1

    def test_always_150_is_perfectly_private(self, neighbors):
        assert constant(HEIGHTS, 150).epsilon(neighbors) == 0

    def test_one_threshold_is_not_private(self, neighbors):
        tall_or_short = deterministic(lambda x: 100 if x < 150 else 200, HEIGHTS)
        assert tall_or_short.epsilon(neighbors) == math.inf
        assert str(tall_or_short.worst([(149, 150)])) == (
            "output 100 has probability 1 for input 149 and 0 for its neighbor 150"
        )
        assert tall_or_short.epsilon([(100, 101)]) == 0  # only the threshold itself leaks

    @pytest.mark.quick_cases(2)
    @pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
    def test_almost_the_truth_has_exactly_epsilon(self, neighbors, epsilon):
        growth = exp_down(Fraction(epsilon))
        channel = almost_truth(growth)
        assert channel.ratio(neighbors) == growth
        assert channel.epsilon(neighbors) == float(epsilon)

    def test_the_same_in_floating_point(self, neighbors):
        e = math.e
        rows = np.full((201, 201), 1 / (200 + e))
        np.fill_diagonal(rows, e / (200 + e))
        assert Channel(rows).epsilon(neighbors) == pytest.approx(1, abs=1e-14)


def test_the_curve_of_almost_the_truth():
    """δ(ε') = (e^ε − e^ε')/(200 + e^ε): the one output z = x counts, as long as ε' < ε."""
    for epsilon, delta in almost_truth(exp_down(Fraction(1))).curve("line", [0, "0.25", "0.5", 1]):
        assert delta == pytest.approx((math.e - math.exp(epsilon)) / (200 + math.e), abs=1e-15)
