"""B9, measured: no test between neighbors beats 2e^ε/(1+e^ε); randomized response reaches it, others stay below."""

import pytest

from discreet.attacks.audit.targets import Guessing
from discreet.mechanisms import Geometric, RandomizedResponse
from discreet.mechanisms.bayesian import guess_bound
from discreet.mechanisms.optimal import geometric_channel

pytestmark = pytest.mark.claim("B9")
SURE = 1 - 1e-6
TRIALS = 40_000


@pytest.mark.parametrize("epsilon", ["0.1", "0.5", "1", "3"])
def test_randomized_response_reaches_the_bound(epsilon):
    channel = RandomizedResponse.for_epsilon(epsilon=epsilon).channel()
    report = Guessing(
        mechanism=channel, first=False, second=True, epsilon=epsilon, trials=TRIALS, seed=9, confidence=SURE
    ).run()
    low, high = report.facts["at least, at most"]
    assert low <= guess_bound(epsilon) <= high
    assert high - low < 0.04
    assert report.verdict == "holds"


@pytest.mark.parametrize("epsilon", ["0.5", "1", "3"])
def test_the_geometric_mechanism_stays_below(epsilon):
    """Between neighboring counts its best test is within the bound, and so is what is measured."""
    channel = geometric_channel(10, epsilon)
    report = Guessing(
        mechanism=channel, first=4, second=5, epsilon=epsilon, trials=TRIALS, seed=9, confidence=SURE
    ).run()
    assert report.facts["at least, at most"][0] <= report.facts["best test, exactly"] <= guess_bound(epsilon)
    assert report.verdict == "holds"


def test_released_counts_are_measured_too():
    """The real sampler, called: neighboring counts 100 and 101."""
    noise = Geometric(epsilon=1, sensitivity=1)
    report = Guessing(mechanism=noise, first=100, second=101, epsilon=1, trials=5000, confidence=SURE).run()
    assert report.verdict == "holds"


def test_half_the_noise_is_caught():
    """A mechanism that claims ε and spends 2ε."""
    channel = RandomizedResponse.for_epsilon(epsilon=2).channel()
    report = Guessing(mechanism=channel, first=False, second=True, epsilon=1, trials=TRIALS, confidence=SURE).run()
    assert report.verdict == "falls"
