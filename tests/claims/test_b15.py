"""B15: the geometric mechanism is universally optimal for counts; for sums of {0,1,2} no mechanism is."""

import math

import pytest

from discreet.mechanisms.bayesian import expected_loss, remap, spread_priors
from discreet.mechanisms.optimal import geometric_channel, optimum, universal_gap

pytestmark = pytest.mark.claim("B15")

LOSSES = {
    "absolute": lambda y, z: abs(y - z),
    "squared": lambda y, z: (y - z) ** 2,
    "wrong": lambda y, z: int(y != z),
    "off by more than one": lambda y, z: int(abs(y - z) > 1),
    "worse for large counts": lambda y, z: (1 + y) * abs(y - z),
}
SOLVER = 1e-8


@pytest.mark.parametrize("name", sorted(LOSSES))
@pytest.mark.parametrize("epsilon", ["0.25", "1"])
def test_the_geometric_mechanism_serves_every_user_of_a_count(name, epsilon):
    """Ghosh, Roughgarden, Sundararajan 2009, Theorem 1.3, for 20 priors on 0..6 and each monotone loss."""
    loss = LOSSES[name]
    geometric = geometric_channel(6, epsilon).as_float()
    for prior in spread_priors(7, count=20):
        best = optimum(prior=prior, loss=loss, epsilon=epsilon, neighbors="line")
        served = geometric.then(remap(geometric, prior=prior, loss=loss))
        assert expected_loss(served, prior, loss) == pytest.approx(best.lp_value, abs=SOLVER)
        assert float(best.value) == pytest.approx(best.lp_value, abs=1e-6)


def test_the_hypothesis_of_a_monotone_loss_is_needed():
    """A user who only asks whether the count is even (loss 1 for the wrong parity) can be served better than by it."""

    def parity(y, z):
        return (y + z) % 2

    geometric = geometric_channel(6, 1).as_float()
    gaps = []
    for prior in spread_priors(7, count=10):
        best = optimum(prior=prior, loss=parity, epsilon=1, neighbors="line").lp_value
        gaps.append(expected_loss(geometric.then(remap(geometric, prior=prior, loss=parity)), prior, parity) - best)
    assert min(gaps) > -SOLVER
    assert max(gaps) > 0.05


def test_several_users_of_a_count_share_one_mechanism_without_loss():
    users = [(["1/2", 0, 0, "1/2", 0], LOSSES["absolute"]), ([0, "1/2", "1/2", 0, 0], LOSSES["absolute"])]
    assert abs(universal_gap(epsilon=1, neighbors="line", users=users, inputs=range(5)).gap) < SOLVER
    users = list(zip(spread_priors(4, count=3), (LOSSES[n] for n in ("absolute", "squared", "wrong")), strict=True))
    assert abs(universal_gap(epsilon=1, neighbors="line", users=users, inputs=range(4)).gap) < SOLVER


def within_two(a, b):
    """Neighboring sums of values in {0,1,2}: one person moves the sum by at most 2."""
    return abs(a - b) <= 2


def test_no_mechanism_serves_these_two_users_of_a_sum():
    """Brenner, Nissim 2010: the sum of two values in {0,1,2}, two priors, one loss |y − z|, ε = 1.

    User 1 believes in 0 or 3, which are two steps apart: 1 and 2 neighbor both. Reports 0 and 3 suffice for this user.
    If 1 and 2 are reported as 0 with probability q, then 0 is reported as 3 with at least (1−q)/e and 3 as 0 with at
    least q/e, a loss of 3/(2e) whatever q is; it is reached only if 1 and 2 give every output alike, since 0 and 3 must
    cover the larger of the two, output by output. Then user 2, who believes in 1 or 2 and could get 1/(1+e), learns
    nothing and loses 1/2. The least joint loss is indeed worse by 1/2 − 1/(1+e) = 0.231.
    """
    users = [(["1/2", 0, 0, "1/2", 0], LOSSES["absolute"]), ([0, "1/2", "1/2", 0, 0], LOSSES["absolute"])]
    found = universal_gap(epsilon=1, neighbors=within_two, users=users, inputs=range(5))
    assert found.separate == pytest.approx(3 / (2 * math.e) + 1 / (1 + math.e), abs=SOLVER)
    assert found.gap == pytest.approx(1 / 2 - 1 / (1 + math.e), abs=SOLVER)


def test_nor_these_two_with_priors_of_full_support():
    """One person, sum 0, 1 or 2: priors 1/2, 1/4, 1/4 and 1/7, 2/7, 4/7."""
    users = [(["1/2", "1/4", "1/4"], LOSSES["absolute"]), (["1/7", "2/7", "4/7"], LOSSES["absolute"])]
    found = universal_gap(epsilon=1, neighbors=within_two, users=users, inputs=range(3))
    assert found.gap > 0.1
    assert abs(universal_gap(epsilon=1, neighbors="line", users=users, inputs=range(3)).gap) < SOLVER
