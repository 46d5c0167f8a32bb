"""What adversaries and users can infer, against enumeration."""

import math
from fractions import Fraction
from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidChannel, InvalidParameter
from discreet.exact import exp_down
from discreet.mechanisms.bayesian import (
    answer_prior,
    best_test,
    expected_loss,
    guess_bound,
    oblivious,
    posterior,
    prior_independence,
    remap,
    spread_priors,
    vulnerability,
)
from discreet.mechanisms.channel import Channel, deterministic, identity

COIN = Channel([["3/4", "1/4"], ["1/4", "3/4"]])


def rows(length, least=0):
    return st.lists(st.integers(least, 5), min_size=length, max_size=length).filter(any)


@st.composite
def cases(draw, least=0):
    n, m = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    channel = Channel(draw(st.lists(rows(m, least), min_size=n, max_size=n)), normalize=True)
    weights = draw(rows(n))
    return channel, [Fraction(w, sum(weights)) for w in weights]


losses = st.sampled_from(
    [lambda y, z: abs(y - z), lambda y, z: int(y != z), lambda y, z: (y - z) ** 2 - y, lambda y, z: Fraction(y * z, 3)]
)


@given(cases())
def test_posterior_is_bayes_rule_and_its_rows_sum_to_one(case):
    channel, prior = case
    after = posterior(channel, prior)
    assert after.matrix.sum(axis=1).tolist() == [1] * len(after.inputs)
    for z in after.inputs:
        total = sum(prior[x] * channel.matrix[x, z] for x in channel.inputs)
        for x in channel.inputs:
            assert after.probability(z, x) == prior[x] * channel.matrix[x, z] / total
    in_float = posterior(channel.as_float(), [float(p) for p in prior])
    np.testing.assert_allclose(in_float.matrix, after.matrix.astype(float), atol=1e-12)


@settings(max_examples=50)
@given(cases(), losses)
def test_no_deterministic_map_beats_the_remap(case, loss):
    channel, prior = case
    best = expected_loss(channel.then(remap(channel, prior=prior, loss=loss)), prior, loss)
    for images in product(channel.inputs, repeat=len(channel.outputs)):
        other = channel.then(deterministic(lambda z, images=images: images[z], channel.outputs, channel.inputs))
        assert best <= expected_loss(other, prior, loss)


@given(cases(), losses)
def test_expected_loss_is_the_triple_sum(case, loss):
    channel, prior = case
    expected = sum(
        prior[y] * channel.matrix[y, z] * Fraction(loss(y, z)) for y in channel.inputs for z in channel.outputs
    )
    assert expected_loss(channel, prior, loss) == expected
    table = [[loss(y, z) for z in channel.outputs] for y in channel.inputs]
    assert expected_loss(channel, prior, table) == expected
    assert expected_loss(channel.as_float(), prior, loss) == pytest.approx(float(expected))


@given(cases())
def test_vulnerability_is_the_gain_of_the_best_guess(case):
    channel, prior = case
    guesser = remap(channel, prior=prior, loss=lambda x, g: int(x != g))
    assert 1 - vulnerability(channel, prior) == expected_loss(channel.then(guesser), prior, lambda x, g: int(x != g))
    assert vulnerability(channel, prior) >= max(prior)


@given(cases(least=1))
def test_no_test_between_two_inputs_beats_the_bound(case):
    channel, _ = case
    ratio = channel.ratio("all")
    outputs = range(len(channel.outputs))
    subsets = list(chain.from_iterable(combinations(outputs, k) for k in range(len(outputs) + 1)))
    for x, y in product(channel.inputs, repeat=2):
        successes = [sum(channel.matrix[x, z] for z in s) + 1 - sum(channel.matrix[y, z] for z in s) for s in subsets]
        assert best_test(channel, x, y) == max(successes) <= 2 * ratio / (1 + ratio)


def test_the_guess_bound_is_reached_by_randomized_response():
    assert best_test(COIN, 0, 1) == Fraction(2 * 3, 1 + 3)
    assert guess_bound(math.log(3)) == pytest.approx(1.5)
    assert guess_bound(0) == 1
    assert guess_bound(1000) == 2
    for epsilon in (-1, math.nan, math.inf):
        with pytest.raises(InvalidParameter, match="epsilon"):
            guess_bound(epsilon)


class TestPriors:
    @settings(max_examples=30)
    @given(cases(least=1))
    def test_odds_change_by_the_likelihood_ratio_under_every_prior(self, case):
        channel, prior = case
        check = prior_independence(channel, "all", epsilon=channel.epsilon("all"), priors=[prior, "uniform"])
        assert check.holds
        assert check.largest == channel.ratio("all")

    def test_a_false_claim_is_found_out(self):
        epsilon = COIN.epsilon("all")
        assert prior_independence(COIN, "all", epsilon=epsilon).holds
        assert not prior_independence(COIN, "all", epsilon=epsilon * 0.999).holds
        assert prior_independence(COIN.as_float(), "all", epsilon=epsilon, priors=[[0.01, 0.99]]).holds
        assert not prior_independence(COIN.as_float(), "all", epsilon=epsilon * 0.999, priors=[[0.01, 0.99]]).holds
        assert not prior_independence(identity([0, 1]), "all", epsilon=50, priors=["uniform"]).holds

    def test_inputs_that_are_ruled_out_beforehand_have_no_odds(self):
        check = prior_independence(identity([0, 1, 2]), "line", epsilon=1, priors=[["1/2", 0, "1/2"]])
        assert check.holds
        with pytest.raises(InvalidChannel, match="there are none to check"):
            prior_independence(COIN, "all", epsilon=1, priors=[])

    def test_spread_priors_are_exact_distinct_and_reach_everywhere(self):
        priors = list(spread_priors(3, count=400))
        assert all(sum(p) == 1 and min(p) > 0 for p in priors)
        assert len(set(priors)) == 400
        means = np.array([[float(x) for x in p] for p in priors]).mean(axis=0)
        np.testing.assert_allclose(means, 1 / 3, atol=0.02)
        corners = [max(float(p[i]) for p in priors) for i in range(3)]
        assert min(corners) > 0.9
        assert list(spread_priors(3, count=5)) == priors[:5]
        for size, count in ((0, 1), (2, 0), (True, 1)):
            with pytest.raises(InvalidParameter):
                list(spread_priors(size, count=count))

    @pytest.mark.parametrize(
        ("prior", "message"),
        [
            ([1], "got 1 probabilities, expected 2"),
            (["1/2", "1/3"], "the prior sums to 5/6"),
            ([0.5, 0.4], r"the prior sums to 0\.9"),
            ([2, -1], "the prior has -1 for 1"),
            ([math.nan, 1.0], "prior of 0: got nan"),
            ({"x": 1}, "unknown input 'x'"),
            ("flat", "expected 'uniform'"),
            (7, "expected a list of probabilities"),
            (np.ones((2, 2)), "expected a list of probabilities"),
            ([True, False], "True and False"),
        ],
    )
    def test_bad_priors(self, prior, message):
        with pytest.raises(InvalidChannel, match=message):
            posterior(COIN, prior)

    def test_kinds_of_priors(self):
        expected = posterior(COIN, ["1/4", "3/4"])
        assert posterior(COIN, {1: Fraction(3, 4), 0: Fraction(1, 4)}) == expected
        assert posterior(COIN, (Fraction(1, 4), Fraction(3, 4))) == expected
        assert not posterior(COIN, np.array([0.25, 0.75])).exact
        assert posterior(COIN, {1: 1}).matrix.tolist() == [[0, 1], [0, 1]]


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda y, z: math.nan, "loss: row 0, column 0: got nan"),
        (lambda y, z: None, "loss: row 0, column 0"),
        (lambda y, z: y == z, "loss: .*True and False"),
        ([[0, 1]], "loss: inputs: got 2 labels, expected 1"),
        ([[0, 1, 2], [1, 2, 3]], "loss: outputs: got 2 labels, expected 3"),
        ("abs", "loss: matrix: got a str"),
    ],
)
def test_bad_losses(loss, message):
    with pytest.raises(InvalidChannel, match=message):
        expected_loss(COIN, "uniform", loss)


def test_remap_into_other_guesses():
    half = Fraction(1, 2)
    cautious = remap(COIN, prior="uniform", loss=lambda y, g: abs(y - g) ** 3, guesses=[0, half, 1])
    assert [cautious.probability(z, half) for z in COIN.outputs] == [1, 1]
    with pytest.raises(InvalidChannel, match="guess 0 appears twice"):
        remap(COIN, prior="uniform", loss=lambda y, g: 0, guesses=[0, 0])


def test_oblivious_mechanisms_see_only_the_answer():
    databases = list(product([0, 1], repeat=3))
    growth = exp_down(Fraction(1))
    mechanism = Channel([[growth if y == z else 1 for z in range(4)] for y in range(4)], normalize=True)
    whole = oblivious(sum, databases, mechanism)
    assert whole.inputs == tuple(databases)
    for database in databases:
        for z in range(4):
            assert whole.probability(database, z) == mechanism.probability(sum(database), z)
    assert answer_prior(sum, databases, "uniform", range(4)).tolist() == [Fraction(c, 8) for c in (1, 3, 3, 1)]
    with pytest.raises(InvalidChannel, match="unknown output 2"):
        oblivious(sum, databases, COIN)
