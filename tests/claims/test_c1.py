"""C1: randomized response in its four textbook forms, converted into one another exactly."""

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.statistical.power import Stream, band

from discreet.exact import exp_bounds, log_down
from discreet.mechanisms import RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.privacy.accounting import guarantee

pytestmark = pytest.mark.claim("C1")

F = Fraction
shares = st.fractions(0, F(999, 1000), max_denominator=1000)


def two_coins(heads: Fraction) -> Channel:
    """The story itself, every toss enumerated: heads, tell the truth; tails, say what a fair second coin shows."""
    rows = {}
    for bit in (0, 1):
        rows[bit] = {0: F(0), 1: F(0)}
        rows[bit][bit] += heads
        for second in (0, 1):
            rows[bit][second] += (1 - heads) * F(1, 2)
    return Channel([[rows[bit][0], rows[bit][1]] for bit in (0, 1)])


def test_three_quarters_is_the_logarithm_of_three():
    mechanism = RandomizedResponse.from_coins(heads="1/2")
    assert mechanism.channel() == Channel([["3/4", "1/4"], ["1/4", "3/4"]])
    assert mechanism.channel().ratio("all") == 3
    assert float(mechanism.epsilon) == pytest.approx(log(3), abs=1e-15)
    assert exp_bounds(mechanism.epsilon, 200)[1] >= 3 << 200  # e^ε is not below 3: rounded towards privacy
    back = RandomizedResponse.for_epsilon(epsilon=log_down(F(3)))
    assert 0 <= F(3, 4) - back.truth < F(1, 10**25)


@given(shares)
def test_coins_keep_and_gain_are_one_mechanism(share):
    coins = RandomizedResponse.from_coins(heads=share)
    assert coins == RandomizedResponse.from_keep(keep=share) == RandomizedResponse.from_gain(gain=share)
    assert coins == RandomizedResponse(truth=(1 + share) / 2)
    assert coins.channel() == two_coins(share)
    assert coins.keep == share
    assert RandomizedResponse.from_gain(gain=coins.keep) == coins
    assert RandomizedResponse.from_coins(heads=2 * coins.truth - 1) == coins


@given(shares.filter(bool))
def test_alpha_costs_the_logarithm_of_one_plus_over_one_minus(alpha):
    mechanism = RandomizedResponse.from_keep(keep=alpha)
    assert mechanism.channel().ratio("all") == (1 + alpha) / (1 - alpha)
    assert float(mechanism.epsilon) == pytest.approx(log((1 + alpha) / (1 - alpha)), abs=1e-12)


def test_a_small_alpha_costs_two_alpha():
    for alpha in (F(1, 100), F(1, 1000)):
        epsilon = float(RandomizedResponse.from_keep(keep=alpha).epsilon)
        assert epsilon == pytest.approx(2 * float(alpha), rel=float(alpha) ** 2)


@given(st.fractions(F(1, 100), 10, max_denominator=100))
def test_epsilon_tells_the_truth_with_its_logistic(epsilon):
    mechanism = RandomizedResponse.for_epsilon(epsilon=epsilon)
    assert float(mechanism.truth) == pytest.approx(exp(epsilon) / (1 + exp(epsilon)), rel=1e-14)
    again = RandomizedResponse.from_gain(gain=mechanism.keep)
    assert again.truth == mechanism.truth
    assert again.channel() == mechanism.channel()
    assert abs(epsilon - again.epsilon) < F(1, 2**80)
    assert mechanism.channel().epsilon("all") == pytest.approx(float(epsilon), rel=1e-12)
    assert guarantee(mechanism.loss, delta=0).epsilon == pytest.approx(float(epsilon), rel=1e-15)


@pytest.mark.parametrize("form", ["epsilon", "coins", "keep", "gain"])
def test_each_form_tells_the_truth_as_often_as_it_says(form):
    """Warner's design measured: ln 3 in every form, three truths in four answers."""
    mechanism = {
        "epsilon": lambda: RandomizedResponse.for_epsilon(epsilon=log_down(F(3))),
        "coins": lambda: RandomizedResponse.from_coins(heads="1/2"),
        "keep": lambda: RandomizedResponse.from_keep(keep="1/2"),
        "gain": lambda: RandomizedResponse.from_gain(gain="1/2"),
    }[form]()
    assert guarantee(mechanism.loss, delta=0).epsilon == pytest.approx(log(3), rel=1e-12)
    stream, n = Stream(), 100_000
    truths = np.count_nonzero(mechanism.release(np.ones(n, bool), entropy=stream))
    assert abs(truths / n - 0.75) < band(n), stream
    for wrong in (3**0.7, 3**1.3):  # an ε that is 30 % off is told apart
        assert abs(wrong / (1 + wrong) - 0.75) > 2 * band(n)


def test_no_gain_is_perfect_privacy_and_no_use():
    mechanism = RandomizedResponse.from_gain(gain=0)
    assert mechanism.channel().epsilon("all") == 0
    assert mechanism.interval("0.95") == float("inf")
