"""C1, C2, C3 as the local model uses them: the four forms, unbiasing with an interval that covers, k-RR."""

from fractions import Fraction
from math import e, exp, log, sqrt

import numpy as np
import pytest
from scipy.stats import binom

from discreet.local import KRR, BinaryResponse
from discreet.mechanisms import RandomizedResponse
from discreet.noise import DeterministicEntropy

F = Fraction


@pytest.mark.claim("C1")
def test_the_four_forms_are_one_oracle():
    """Coins 1/2, keep 1/2, gain 1/2 and truth e^ε/(1+e^ε) at ε = ln 3 (up to rounding) estimate alike."""
    forms = [
        RandomizedResponse.from_coins(heads="1/2"),
        RandomizedResponse.from_keep(keep="1/2"),
        RandomizedResponse.from_gain(gain="1/2"),
        RandomizedResponse.for_epsilon(epsilon=log(3)),
    ]
    for form in forms:
        oracle = BinaryResponse.from_mechanism(form)
        assert oracle.estimate([40, 60], reports=100).shares == pytest.approx([0.3, 0.7], abs=1e-12)
        assert float(oracle.epsilon) == pytest.approx(log(3), abs=1e-15)
        assert oracle.channel().epsilon("all") == pytest.approx(log(3), abs=1e-15)
    assert len({BinaryResponse.from_mechanism(form) for form in forms[:3]}) == 1


@pytest.mark.claim("C2")
@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 3.0])
def test_unbiasing_is_the_textbook_formula(epsilon):
    """z = (y − 1/(1+e^ε))·(e^ε+1)/(e^ε−1); E[z] = x for both x."""
    oracle = BinaryResponse(epsilon=epsilon)
    z = [(y - 1 / (1 + exp(epsilon))) * (exp(epsilon) + 1) / (exp(epsilon) - 1) for y in (0, 1)]
    for y in (0, 1):
        assert oracle.estimate(oracle.tally([y]), reports=1).shares[1] == pytest.approx(z[y])
    for x in (0, 1):
        chances = oracle.channel().matrix[x].astype(float)
        assert chances @ np.array(z) == pytest.approx(x, abs=1e-12)


@pytest.mark.claim("C2")
def test_the_error_of_a_mean_is_of_order_one_over_epsilon_root_n():
    """The standard deviation is √(e^ε)/(e^ε−1)/√n, so ε·√n times it is within a tenth of 1 for ε ≤ 1, any share."""
    for epsilon in (0.01, 0.1, 0.5, 1.0):
        for reports in (100, 10_000, 10**6):
            deviation = sqrt(BinaryResponse(epsilon=epsilon).variance(0.3) / reports)
            assert 0.9 < epsilon * sqrt(reports) * deviation <= 1
    stream, slopes = DeterministicEntropy(11), []
    for epsilon in (0.25, 1.0):
        for reports in (400, 6400):
            oracle, told = BinaryResponse(epsilon=epsilon), np.arange(reports) % 4 == 0
            errors = [
                oracle.estimate(oracle.tally(oracle.randomize(told, entropy=stream)), reports=reports).shares[1] - 0.25
                for _ in range(300)
            ]
            slopes.append(epsilon * sqrt(reports) * np.std(errors))
    assert slopes == pytest.approx([1] * 4, rel=0.25)


@pytest.mark.claim("C2")
@pytest.mark.parametrize("reports", [1, 7, 60])
def test_the_interval_of_a_mean_covers(reports):
    """Exactly: all numbers of ones among the people, all numbers of ones among the reports."""
    oracle = BinaryResponse(epsilon=1)
    p, q = float(oracle.truth), float(oracle.other)
    for confidence in ("0.5", "0.95"):
        told = [oracle.estimate([reports - ones, ones], reports=reports) for ones in range(reports + 1)]
        limits = [shares.interval(confidence, simultaneous=False) for shares in told]
        for true in range(reports + 1):
            law = np.convolve(
                binom.pmf(range(true + 1), true, p), binom.pmf(range(reports - true + 1), reports - true, q)
            )
            covered = [low[1] - 1e-12 <= true / reports <= high[1] + 1e-12 for low, high in limits]
            assert law[covered].sum() >= float(F(confidence))


@pytest.mark.claim("C3")
@pytest.mark.parametrize("size", [2, 3, 10, 40])
def test_flat_response_tells_the_truth_with_its_formula(size):
    """p(y|x) = e^ε/(k−1+e^ε) if y = x else 1/(k−1+e^ε), and the channel is ε-LDP, no less."""
    oracle = KRR(epsilon=1, size=size)
    assert float(oracle.truth) == pytest.approx(e / (size - 1 + e))
    assert float(oracle.other) == pytest.approx(1 / (size - 1 + e))
    channel = oracle.channel()
    assert channel.probability(1, 1) == oracle.truth
    assert channel.probability(0, 1) == oracle.other
    assert channel.epsilon("all") == 1
