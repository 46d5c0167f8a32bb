"""B12: the guarantee does not depend on the adversary's prior."""

from fractions import Fraction

import pytest

from discreet.mechanisms.bayesian import posterior, prior_independence, spread_priors
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.optimal import geometric_channel

pytestmark = pytest.mark.claim("B12")

PRIORS = 300


@pytest.mark.parametrize("epsilon", ["0.2", "1"])
def test_the_odds_between_neighbors_change_by_at_most_e_to_the_epsilon(epsilon):
    channel = geometric_channel(4, epsilon)
    check = prior_independence(channel, "line", epsilon=epsilon, priors=spread_priors(5, count=PRIORS))
    assert check.holds
    assert check.priors == PRIORS
    assert check.largest == channel.ratio("line") <= check.allowed * (1 + Fraction(1, 2**60))


def test_beliefs_in_a_local_secret_change_by_at_most_e_to_the_epsilon():
    """In the local model also p(x|z) ≤ e^ε·π(x): p(z) is an average of p(z|x'), each at least e^−ε·p(z|x)."""
    channel = Channel([[4, 2, 1], [2, 3, 2], [1, 2, 4]], normalize=True)
    growth = channel.ratio("all")
    closest = Fraction(1)
    for prior in spread_priors(3, count=PRIORS):
        after = posterior(channel, prior)
        change = max((after.matrix / [list(prior)]).max(), (list(prior) / after.matrix).max())
        assert change <= growth
        closest = max(closest, change)
    assert closest > growth * Fraction(8, 10)  # some prior comes close: the bound is not idle


def test_without_privacy_some_prior_is_betrayed():
    leaky = Channel([["99/100", "1/100"], ["1/2", "1/2"]])
    assert not prior_independence(leaky, "all", epsilon=1, priors=spread_priors(2, count=PRIORS)).holds
