"""B1: what ε-DP and (ε, δ)-DP say, checked on every set of outputs of mechanisms as they are shipped."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.statistical.power import Stream, assert_follows, assert_rejected

from discreet.mechanisms import KRR, Exponential, Gaussian, Geometric, RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.loss import Pure

pytestmark = pytest.mark.claim("B1")


def worst_excess(channel: Channel, pairs: list[tuple[int, int]], epsilon: float) -> float:
    """Greatest Pr[M(x) ∈ S] − e^ε·Pr[M(x′) ∈ S] over the given pairs and every set S of outputs."""
    rows = np.asarray(channel.as_float().matrix)
    outputs = range(rows.shape[1])
    sets = [list(s) for size in range(len(outputs) + 1) for s in itertools.combinations(outputs, size)]
    return max(rows[x, s].sum() - math.exp(epsilon) * rows[y, s].sum() for x, y in pairs for s in sets)


def both_ways(count: int, *, adjacent: bool) -> list[tuple[int, int]]:
    return [(x, y) for x, y in itertools.permutations(range(count), 2) if not adjacent or abs(x - y) == 1]


MECHANISMS = {
    "randomized response": lambda epsilon: (
        RandomizedResponse.for_epsilon(epsilon=epsilon).channel(),
        RandomizedResponse.for_epsilon(epsilon=epsilon).loss,
        both_ways(2, adjacent=False),
    ),
    "k-RR over six answers": lambda epsilon: (
        KRR(epsilon=epsilon, size=6).channel(),
        KRR(epsilon=epsilon, size=6).loss,
        both_ways(6, adjacent=False),
    ),
    "geometric noise on a count from 0 to 8": lambda epsilon: (
        Geometric(epsilon=epsilon, sensitivity=1).channel(8),
        Geometric(epsilon=epsilon, sensitivity=1).loss,
        both_ways(9, adjacent=True),
    ),
    "the exponential mechanism on votes": lambda epsilon: (
        Exponential(epsilon=epsilon, sensitivity=1).channel({"x": [3, 2, 2, 0], "x'": [2, 3, 3, 1]}),
        Exponential(epsilon=epsilon, sensitivity=1).loss,
        both_ways(2, adjacent=False),
    ),
}


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
@pytest.mark.parametrize("name", MECHANISMS)
def test_pure_privacy_bounds_every_set_of_outputs(name: str, epsilon: str) -> None:
    """Pr[M(x) ∈ S] ≤ e^ε·Pr[M(x′) ∈ S] for all S at the ε that is stated, and for no ε a hundredth smaller."""
    channel, loss, pairs = MECHANISMS[name](epsilon)
    stated = guarantee(loss, delta=0).epsilon
    assert stated == pytest.approx(float(epsilon))
    assert worst_excess(channel, pairs, stated) <= 1e-12
    if "exponential" not in name:  # which normalizes, so that its ε is attained in the limit only
        assert worst_excess(channel, pairs, 0.99 * stated) > 0


@pytest.mark.parametrize("epsilon", ["0.1", "1", "5"])
def test_what_is_released_follows_the_matrix(epsilon: str) -> None:
    """The matrix above is the mechanism: draws follow it, and not that of an ε which is 30 % larger."""
    stream = Stream()
    released = np.asarray(KRR(epsilon=epsilon, size=6).release(np.zeros(200_000, int), entropy=stream))

    def cdf_at(scale: float):  # type: ignore[no-untyped-def]
        channel = KRR(epsilon=Fraction(epsilon) * Fraction(scale), size=6).channel().as_float()
        ends = np.cumsum(np.asarray(channel.matrix)[0])
        return lambda x: np.where(x < 0, 0.0, ends[np.clip(x, 0, 5).astype(int)])

    assert_follows(released, cdf_at(1), f"k-RR at ε = {epsilon}", stream)
    if epsilon == "1":
        assert_rejected(released, cdf_at(1), cdf_at(1.3), "k-RR, ε 30 % larger", stream)


@pytest.mark.parametrize("epsilon", ["0", "0.3", "1", "2"])
def test_approximate_privacy_bounds_every_set_of_outputs(epsilon: str) -> None:
    """A count with Gaussian noise σ = 1, outputs beyond ±4 merged: Pr[S] ≤ e^ε·Pr′[S] + δ for all sets, attained."""
    mechanism = Gaussian(sigma=1, sensitivity=1, granularity=1)

    def row(secret: int) -> list[float]:
        inner = [mechanism.probability(z - secret) for z in range(-3, 4)]
        low = sum(mechanism.probability(z - secret) for z in range(-40, -3))
        return [low, *inner, sum(mechanism.probability(z - secret) for z in range(4, 41))]

    channel = Channel([row(0), row(1)], normalize=True)
    assert sum(row(0)) == pytest.approx(1, abs=1e-12)
    stated = float(delta_for(mechanism.loss, epsilon=epsilon).delta)
    worst = worst_excess(channel, both_ways(2, adjacent=True), float(epsilon))
    assert 0.7 * stated < worst <= stated * (1 + 1e-12)


def test_zero_is_perfect_privacy_and_infinity_none() -> None:
    assert delta_for(Pure(0), epsilon=0).delta == 0  # the same distribution: no set tells x from x′
    revealing = [delta_for(Pure(epsilon), epsilon=0).delta for epsilon in (0, Fraction(1, 10), 1, 5, 50)]
    assert revealing == sorted(revealing)
    assert revealing[-1] == pytest.approx(1)  # a test that is right nearly always
    truthful = KRR(epsilon=50, size=6).channel()
    assert float(truthful.probability(2, 2)) == pytest.approx(1)
    assert worst_excess(KRR(epsilon="1e-9", size=6).channel(), both_ways(6, adjacent=False), 0) < 1e-8
