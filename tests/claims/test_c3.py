"""C3: ε-LDP for any finite channel; k-ary randomised response."""

import math
from fractions import Fraction

import pytest

from discreet.exact import exp_down
from discreet.mechanisms.channel import Channel

pytestmark = pytest.mark.claim("C3")


def flat(k, growth):
    """p(y|x) = e^ε/(k−1+e^ε) if y = x, else 1/(k−1+e^ε)."""
    return Channel([[growth if x == y else 1 for y in range(k)] for x in range(k)], normalise=True)


@pytest.mark.parametrize("k", [2, 3, 10, 50])
@pytest.mark.parametrize("epsilon", ["0.1", "1", "4"])
def test_flat_response_has_exactly_its_epsilon(k, epsilon):
    growth = exp_down(Fraction(epsilon))
    channel = flat(k, growth)
    assert channel.probability(0, 0) == growth / (k - 1 + growth)
    assert channel.probability(0, 1) == 1 / (k - 1 + growth)
    assert channel.ratio("all") == growth
    assert channel.epsilon("all") == float(epsilon)


def test_the_coin_form_is_ln_3():
    coin = Channel([["3/4", "1/4"], ["1/4", "3/4"]])
    assert coin.ratio("all") == 3
    assert coin.epsilon("all") == pytest.approx(math.log(3))


def test_any_finite_channel():
    """The local model compares every two inputs, also those that are far apart."""
    channel = Channel([["4/7", "2/7", "1/7"], ["2/7", "3/7", "2/7"], ["1/7", "2/7", "4/7"]])
    assert channel.ratio("all") == 4
    assert channel.ratio("line") == 2
    assert Channel([[1, 0, 0], ["1/3", "1/3", "1/3"]]).epsilon("all") == math.inf
