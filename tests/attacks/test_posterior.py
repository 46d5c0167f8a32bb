"""Beliefs: Bayes' rule in rationals."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.attacks.answers.accumulation import Belief, posterior_chart
from discreet.errors import InvalidData, InvalidInput, InvalidParameter
from discreet.mechanisms import Channel
from discreet.mechanisms.bayesian import posterior
from discreet.mechanisms.channel import identity


@st.composite
def channels(draw):
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    matrix = [[draw(st.integers(1, 9)) for _ in range(columns)] for _ in range(rows)]
    weights = [draw(st.integers(1, 9)) for _ in range(rows)]
    return Channel(matrix, normalize=True), weights


@given(channels())
def test_one_step_is_the_channels_own_posterior(drawn):
    channel, weights = drawn
    prior = Belief(dict(enumerate(weights)))
    expected = posterior(channel, [Fraction(w, sum(weights)) for w in weights])
    for answer in channel.outputs:
        found = prior.after(channel, answer)
        assert sum(found.weights.values()) == 1
        assert all(found[s] == expected.probability(answer, s) for s in channel.inputs)


@given(channels(), st.data())
def test_the_order_of_answers_does_not_matter(drawn, data):
    channel, weights = drawn
    first, second = (data.draw(st.sampled_from(channel.outputs)) for _ in range(2))
    prior = Belief(dict(enumerate(weights)))
    assert prior.after(channel, first).after(channel, second) == prior.after(channel, second).after(channel, first)


def test_certainty_has_no_entropy():
    certain = Belief.uniform("abcd").after(identity("abcd"), "c")
    assert (certain.entropy, certain.largest, certain.candidates) == (0, 1, ("c",))
    assert Belief.uniform("abcd").entropy == 2
    assert Belief.uniform(range(6)).of(lambda s: s % 3).weights == dict.fromkeys(range(3), Fraction(1, 3))


def test_impossible_and_unknown():
    belief = Belief.uniform("ab").after(identity("abc"), "a")
    with pytest.raises(InvalidData, match="impossible"):
        belief.after(identity("abc"), "c")
    with pytest.raises(InvalidInput):
        belief.after(identity("abc"), "z")
    with pytest.raises(InvalidParameter, match="1 secrets without a row"):
        Belief.uniform("abd").after(identity("abc"), "a")
    with pytest.raises(InvalidParameter, match="one of the 2 secrets"):
        belief["z"]


@pytest.mark.parametrize("weights", [{}, {"a": 0}])
def test_a_belief_needs_weight(weights):
    with pytest.raises(InvalidData):
        Belief(weights)


def test_negative_weights():
    with pytest.raises(InvalidParameter, match="weight"):
        Belief({"a": -1, "b": 2})


def test_the_chart_has_a_group_a_secret():
    chart = posterior_chart({"before": Belief.uniform("ab").weights, "after": Belief({"a": 1}).weights}, "Who?")
    assert [mark.label for mark in chart.marks] == ["before", "after"]
    assert list(chart.marks[1].values) == [1.0, 0.0]
    assert "<svg" in chart.svg()
