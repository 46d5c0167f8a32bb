"""B14: utility as expected loss U(π, K, ℓ), and Bayes-optimal remapping by a user with a prior."""

from fractions import Fraction
from itertools import product

import pytest

from discreet.mechanisms.bayesian import expected_loss, remap
from discreet.mechanisms.channel import Channel, deterministic
from discreet.mechanisms.optimal import geometric_channel

pytestmark = pytest.mark.claim("B14")


def absolute(y, z):
    return abs(y - z)


def test_the_formula_by_hand():
    """π = (1/2, 1/3, 1/6), ℓ = |y − z|: 1/2·(1/4·1) + 1/3·(1/4 + 1/4) + 1/6·(1/4·1)."""
    K = Channel([["3/4", "1/4", 0], ["1/4", "1/2", "1/4"], [0, "1/4", "3/4"]])
    assert expected_loss(K, ["1/2", "1/3", "1/6"], absolute) == Fraction(1, 8) + Fraction(1, 6) + Fraction(1, 24)


@pytest.mark.parametrize("prior", [["3/4", "1/8", "1/8"], ["1/10", "1/10", "8/10"], [0, "1/2", "1/2"]])
@pytest.mark.parametrize("loss", [absolute, lambda y, z: int(y != z), lambda y, z: (y - z) ** 2])
def test_no_other_function_serves_the_user_better(prior, loss):
    """All 27 functions of the three outputs."""
    K = geometric_channel(2, "0.5")
    served = expected_loss(K.then(remap(K, prior=prior, loss=loss)), prior, loss)
    others = [
        expected_loss(K.then(deterministic(lambda z, f=f: f[z], range(3), range(3))), prior, loss)
        for f in product(range(3), repeat=3)
    ]
    assert served == min(others)
    assert served < expected_loss(K, prior, loss)  # taking the report at its word is worse here


def test_a_user_who_knows_that_a_count_is_not_zero_moves_zeros_up():
    K = geometric_channel(4, 1)
    user = remap(K, prior=[0, 0, "1/3", "1/3", "1/3"], loss=absolute)
    assert [user.matrix[z].argmax() for z in range(5)] == [2, 2, 2, 3, 4]
