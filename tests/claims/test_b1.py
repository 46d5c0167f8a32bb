"""B1: what ε-DP and (ε, δ)-DP say, checked on every set of outputs of a small mechanism."""

import itertools
import math
from fractions import Fraction

import pytest

from discreet.privacy.accounting import delta_for, guarantee
from discreet.privacy.accounting.tails import discrete_total
from discreet.privacy.loss import DiscreteGaussianNoise, Pure


def sets(outputs: range) -> list[tuple[int, ...]]:
    return [chosen for size in range(len(outputs) + 1) for chosen in itertools.combinations(outputs, size)]


@pytest.mark.claim("B1")
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_pure_bounds_every_set_and_is_attained(epsilon: float) -> None:
    """k-ary response over six values: Pr[M(x) ∈ S] ≤ e^ε·Pr[M(x′) ∈ S] for all 64 sets S, with equality for one."""
    values = range(6)
    total = len(values) - 1 + math.exp(epsilon)
    ratios = []
    for x, other in itertools.permutations(values, 2):
        for chosen in sets(values)[1:]:
            p = sum(math.exp(epsilon) if z == x else 1.0 for z in chosen) / total
            q = sum(math.exp(epsilon) if z == other else 1.0 for z in chosen) / total
            ratios.append(math.log(p / q))
    assert max(ratios) == pytest.approx(guarantee(Pure(epsilon), delta=0).epsilon, rel=1e-12)


@pytest.mark.claim("B1")
@pytest.mark.parametrize("epsilon", ["0", "0.3", "1", "2"])
def test_approximate_bounds_every_set_and_is_attained(epsilon: str) -> None:
    """An integer with discrete Gaussian noise σ = 1, outputs beyond ±4 merged: Pr[S] ≤ e^ε·Pr′[S] + δ for all sets."""
    total = discrete_total(1.0)

    def chance(output: int, secret: int) -> float:
        reach = {-4: range(-40, -3), 4: range(4, 41)}.get(output, range(output, output + 1))
        return sum(math.exp(-((z - secret) ** 2) / 2) for z in reach) / total

    stated = float(delta_for(DiscreteGaussianNoise(1, 1), epsilon=epsilon).delta)
    excess = [
        sum(chance(z, x) - math.exp(float(epsilon)) * chance(z, y) for z in chosen)
        for chosen in sets(range(-4, 5))
        for x, y in ((0, 1), (1, 0))
    ]
    assert max(excess) <= stated * (1 + 1e-12)
    assert max(excess) == pytest.approx(stated, rel=1e-3)


@pytest.mark.claim("B1")
def test_zero_is_perfect_privacy_and_infinity_none() -> None:
    assert delta_for(Pure(0), epsilon=0).delta == 0  # the same distribution: no set tells x from x′
    revealing = [delta_for(Pure(epsilon), epsilon=0).delta for epsilon in (0, Fraction(1, 10), 1, 5, 50)]
    assert revealing == sorted(revealing)
    assert revealing[-1] == pytest.approx(1)  # a test that is right nearly always
