"""B10: ε's add over releases on the same data, whoever asks and over several datasets; disjoint parts cost the maximum."""

import itertools
import math
from fractions import Fraction

import pytest

from discreet.mechanisms import Geometric, RandomizedResponse
from discreet.mechanisms.channel import Channel
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Loss, Parallel, Repeated, Together

pytestmark = pytest.mark.claim("B10")

RESPONSES = [RandomizedResponse.for_epsilon(epsilon="1/2"), RandomizedResponse.for_epsilon(epsilon=1)]
COUNTS = [Geometric(epsilon="1/2", sensitivity=1), Geometric(epsilon=1, sensitivity=1)]


def worst_ratio(channels: list[Channel], first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """Greatest |ln P/Q| over all joint outputs of independent releases, one of each channel, on two sets of inputs."""
    outputs = itertools.product(*(channel.outputs for channel in channels))

    def chance(output: tuple[int, ...], inputs: tuple[int, ...]) -> float:
        parts = zip(channels, inputs, output, strict=True)
        return math.prod(float(channel.probability(given, out)) for channel, given, out in parts)

    return max(abs(math.log(chance(output, first) / chance(output, second))) for output in outputs)


@pytest.mark.parametrize("mechanisms", [RESPONSES, COUNTS], ids=["randomized response", "geometric counts"])
def test_the_sum_is_attained_by_asking_about_the_same_person(mechanisms: list[RandomizedResponse]) -> None:
    """Two answers about one bit, by enumeration: exactly ε₁ + ε₂, so no smaller bound could hold."""
    channels = [mechanism.channel() if mechanisms is RESPONSES else mechanism.channel(1) for mechanism in mechanisms]
    joint = worst_ratio(channels, (1, 1), (0, 0))
    stated = guarantee(Together(*(mechanism.loss for mechanism in mechanisms)), delta=0).epsilon
    assert joint == pytest.approx(stated, rel=1e-9)
    assert stated == 1.5


def test_epsilons_add_exactly() -> None:
    loss = Together(RESPONSES[0].loss, Repeated(LaplaceNoise(4), 4), Geometric(epsilon="1e-9", sensitivity=3).loss)
    assert guarantee(loss, delta=0).epsilon == pytest.approx(1.500000001, rel=1e-15)


def test_whoever_asks_and_whichever_dataset_holds_the_person() -> None:
    """Three datasets with the same people, two analysts each: the bill is one sum, in any order and grouping."""
    asked = [RandomizedResponse.for_epsilon(epsilon=epsilon) for epsilon in ("0.1", "0.2")]
    per_dataset: list[Loss] = [Together(*(mechanism.loss for mechanism in asked)) for _ in range(3)]
    flat = Together(*[mechanism.loss for mechanism in asked for _ in range(3)])
    assert guarantee(Together(*per_dataset), delta=0) == guarantee(flat, delta=0)
    assert guarantee(flat, delta=0).epsilon == pytest.approx(0.9, rel=1e-15)
    six = worst_ratio([mechanism.channel() for mechanism in asked] * 3, (1,) * 6, (0,) * 6)
    assert six == pytest.approx(0.9, rel=1e-9)


def test_disjoint_parts_cost_the_maximum_where_a_person_comes_or_goes() -> None:
    """Add or remove one: one count, of the part with that person, moves by one. By enumeration the worst is max(ε)."""
    channels = [mechanism.channel(3) for mechanism in COUNTS]
    arrivals = [((a, b), (a + i, b + j)) for a in range(3) for b in range(3) for i, j in ((1, 0), (0, 1))]
    stated = guarantee(Parallel(*(mechanism.loss for mechanism in COUNTS)), delta=0).epsilon
    assert max(worst_ratio(channels, one, other) for one, other in arrivals) == pytest.approx(stated, rel=1e-9)
    assert stated == 1


def test_disjoint_parts_cost_the_sum_where_a_person_moves() -> None:
    """Change one: who moves from one part to the other changes both counts, so the cost is that of both together."""
    channels = [mechanism.channel(3) for mechanism in COUNTS]
    moves = [((a + 1, b), (a, b + 1)) for a in range(3) for b in range(3)]
    stated = guarantee(Together(*(mechanism.loss for mechanism in COUNTS)), delta=0).epsilon
    assert max(worst_ratio(channels, one, other) for one, other in moves) == pytest.approx(stated, rel=1e-9)
    assert stated == Fraction(3, 2)


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
def test_with_delta_both_rules_hold_and_composition_grows_with_the_root(delta: str) -> None:
    one = GaussianNoise(10)
    assert guarantee(Parallel(one, one, GaussianNoise(20)), delta=delta) == guarantee(one, delta=delta)
    hundred = guarantee(Repeated(LaplaceNoise(100), 100), delta=delta).epsilon
    assert hundred < 1  # against 100 · 1/100 = 1 by adding
    assert hundred > guarantee(Repeated(LaplaceNoise(100), 25), delta=delta).epsilon * 1.5
