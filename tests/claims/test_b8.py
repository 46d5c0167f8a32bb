"""B8: the exponential mechanism: its law, its ε, its utility bound, and four things people use it for."""

from fractions import Fraction
from itertools import product
from math import log

import numpy as np
import pytest
from tests.statistical.power import Stream, band

from discreet.mechanisms import Exponential, Quantile, Range
from discreet.privacy.unit import Neighbors

pytestmark = pytest.mark.claim("B8")

F = Fraction
CANDIDATES = "abc"


def votes(people) -> list[int]:
    return [list(people).count(c) for c in CANDIDATES]


def elections(size: int):
    """Every election and every one that differs in one ballot."""
    for people in product(CANDIDATES, repeat=size):
        for i, other in product(range(size), CANDIDATES):
            yield people, (*people[:i], other, *people[i + 1 :])


def test_the_law_is_proportional_to_exp_of_the_score():
    p = Exponential(epsilon=1, sensitivity=3).probabilities([0, 6, 12])
    assert p[1] / p[0] == pytest.approx(np.exp(1 * 6 / (2 * 3)))
    assert p[2] / p[1] == pytest.approx(np.exp(1))


def test_choosing_a_winner_is_private_for_every_election_of_three():
    mechanism = Exponential(epsilon="0.6", sensitivity=1)
    rows = {people: np.log(mechanism.probabilities(votes(people))) for people in product(CANDIDATES, repeat=3)}
    worst = max(np.abs(rows[x] - rows[y]).max() for x, y in elections(3))
    assert 0.3 < worst <= 0.6 + 1e-9


def test_adding_a_ballot_moves_all_scores_one_way_and_costs_half():
    monotone = Exponential(epsilon="0.6", sensitivity=1, monotone=True)
    worst = 0.0
    for people in product(CANDIDATES, repeat=3):
        for ballot in CANDIDATES:
            before, after = (monotone.probabilities(votes(p)) for p in (people, (*people, ballot)))
            worst = max(worst, float(np.abs(np.log(before / after)).max()))
    assert worst <= 0.6 + 1e-9
    assert monotone.scale == Exponential(epsilon="0.6", sensitivity=1).scale / 2


@pytest.mark.parametrize("candidates", [10, 1000])
@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_the_utility_loss_is_small_with_high_probability(candidates, epsilon):
    """score ≥ best − (2Δ/ε)(ln|O| + t) except with probability e^−t; exactly, and as measured."""
    mechanism = Exponential(epsilon=epsilon, sensitivity=1)
    scores = np.random.default_rng(1).integers(0, 200, candidates)
    p = mechanism.probabilities(scores)
    for t in (1, 3):
        bound = 2 / float(F(epsilon)) * (log(candidates) + t)
        assert p[scores < scores.max() - bound].sum() <= np.exp(-t)
        assert mechanism.interval(1 - F(np.exp(-t)), candidates=candidates) == pytest.approx(bound)
    stream, runs = Stream(), 1000
    losses = scores.max() - scores[[mechanism.release(scores, entropy=stream) for _ in range(runs)]]
    width = mechanism.interval("0.9", candidates=candidates)
    assert (losses > width).mean() <= 0.1 + band(runs), stream


def test_the_loss_grows_with_the_logarithm_of_the_candidates():
    """All but one candidate at the same distance below the best: the distance at which half the mass is lost."""
    mechanism = Exponential(epsilon=1, sensitivity=1)
    halves = []
    for count in (11, 101, 1001, 10_001):
        gap = next(g for g in range(200) if mechanism.probabilities([g] + [0] * (count - 1))[0] >= 0.5)
        halves.append(gap)
    growth = np.diff(halves)
    assert all(abs(step - 2 * log(10)) <= 1 for step in growth)


def test_a_median():
    ages = np.random.default_rng(2).integers(0, 100, 1001)
    mechanism = Quantile(
        epsilon=1, probability="1/2", within=Range(lower=0, upper=120, granularity=1), neighbors=Neighbors.CHANGE_ONE
    )
    stream = Stream()
    answers = np.array([mechanism.release(ages, entropy=stream) for _ in range(100)])
    ranks = np.array([(ages <= a).sum() for a in answers])
    width = mechanism.interval("0.99")
    assert (np.abs(ranks - 500.5) <= width + np.bincount(ages).max()).mean() > 0.9, stream


def test_a_price():
    """Bidders' values 1, 1, 1, 3.01: noise on a price of 3.01 loses everything, choosing by revenue does not."""
    bids = [F(1)] * 3 * 40 + [F("3.01")] * 40
    prices = [F(k, 100) for k in range(1, 500)]
    revenue = [p * sum(b >= p for b in bids) for p in prices]
    mechanism = Exponential(epsilon=2, sensitivity=5)  # one bidder changes a revenue by at most the top price
    p = mechanism.probabilities(revenue)
    expected = sum(float(r) * chance for r, chance in zip(revenue, p, strict=True))
    assert expected >= float(max(revenue)) - mechanism.interval("0.9", candidates=len(prices))
    assert expected > 0.85 * float(max(revenue))
    assert mechanism.release(revenue) in range(len(prices))


def test_a_model():
    """Right answers on a validation set of 2000 people: one person changes each count by at most 1."""
    right = [1400, 1812, 1790, 1633]
    mechanism = Exponential(epsilon="0.5", sensitivity=1)
    assert mechanism.probabilities(right)[1] > 0.99
    assert mechanism.interval("0.99", candidates=4) < 25
