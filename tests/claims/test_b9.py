"""B9: post-processing is free, and no test between neighbors beats 2e^ε/(1+e^ε)."""

import math
from fractions import Fraction
from itertools import product

import pytest

from discreet.exact import exp_down
from discreet.mechanisms.bayesian import best_test, guess_bound
from discreet.mechanisms.channel import Channel, deterministic
from discreet.mechanisms.optimal import geometric_channel

pytestmark = pytest.mark.claim("B9")


def test_every_function_of_a_release_is_free():
    """All 3⁴ = 81 functions of the output of a mechanism with four outputs, and their mixtures with coins."""
    release = geometric_channel(3, 1)
    for images in product("abc", repeat=4):
        after = release.then(deterministic(lambda z, images=images: images[z], range(4)))
        assert after.ratio("line") <= release.ratio("line")
    coin = Channel([["1/2", "1/3", "1/6"], [0, "1/2", "1/2"], [1, 0, 0], ["1/4", "1/4", "1/2"]])
    assert release.then(coin).ratio("line") < release.ratio("line")


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3"])
def test_the_guessing_game(epsilon):
    """Randomized response reaches the bound, the geometric mechanism stays below it."""
    growth = exp_down(Fraction(epsilon))
    response = Channel([[growth, 1], [1, growth]], normalize=True)
    assert best_test(response, 0, 1) == 2 * growth / (1 + growth)
    assert float(best_test(response, 0, 1)) == pytest.approx(guess_bound(epsilon), abs=1e-15)
    counts = geometric_channel(10, epsilon)
    for y in range(10):
        assert best_test(counts, y, y + 1) <= 2 * growth / (1 + growth)


def test_not_much_better_than_random():
    assert guess_bound("0.1") == pytest.approx(1.05, abs=1e-3)  # a random guess succeeds with 1
    assert guess_bound(math.log(3)) == pytest.approx(1.5)
    assert guess_bound(0) == 1
