"""The curves of recovery."""

import math

import pytest

from discreet.attacks.answers.reconstruction import against_budget, against_noise, population
from discreet.errors import InvalidParameter

SMALL = {"people": 120, "questions": 480, "seed": 2}


@pytest.mark.parametrize("method", ["lp", "least squares"])
def test_the_fall_lies_around_the_root_of_n(method):
    curve = against_noise(**SMALL, ratios=[0, 0.05, 0.3, 10], method=method)
    shares = [share.value for share in curve.shares]
    assert min(shares[:2]) > 0.95
    assert shares[1] > shares[2] > 0.6
    assert shares[3] < curve.guessing + 4.9 * 0.5 / math.sqrt(120)


def test_the_budget_decides():
    curve = against_budget(**SMALL, epsilons=["0.1", 1, 100, 10_000])
    shares = [share.value for share in curve.shares]
    assert max(shares[:2]) < curve.guessing + 4.9 * 0.5 / math.sqrt(120)
    assert shares[3] == 1


def test_rare_bits_fall_back_to_the_marginal():
    curve = against_budget(**SMALL, epsilons=[1], rate=0.1)
    assert curve.shares[0].value <= curve.guessing + 0.05
    assert curve.shares[0].value > curve.guessing - 0.1  # the attacker knows the marginal too


def test_the_picture_and_the_repeat():
    curve = against_noise(**SMALL, ratios=[0, 0.1, 1])
    assert "<svg" in curve.chart().svg()
    assert len(curve.chart().marks[0].x) == 2
    assert against_noise(**SMALL, ratios=[0, 0.1, 1]) == curve


def test_bad_input():
    for change in ({"people": 1}, {"questions": 0}, {"seed": -1}, {"rate": 2.0}):
        with pytest.raises(InvalidParameter, match=next(iter(change))):
            against_noise(**SMALL | {"ratios": [1]} | change)
    with pytest.raises(InvalidParameter, match="ratios"):
        against_noise(**SMALL, ratios=[-1])
    with pytest.raises(InvalidParameter, match="epsilons"):
        against_budget(**SMALL, epsilons=[0])
    assert population(10, 1, 0).all()
