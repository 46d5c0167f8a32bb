"""B10: ε's add over releases on the same data, whoever asks and over several datasets; disjoint parts cost the maximum."""

import itertools
import math
from fractions import Fraction

import pytest

from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise, LaplaceNoise, Loss, Parallel, Pure, Repeated, Together

TRUTH = {Fraction(1, 2): math.exp(0.5) / (1 + math.exp(0.5)), Fraction(1): math.e / (1 + math.e)}


def worst_ratio(releases: list[Fraction], one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Greatest ln P/Q over all joint outputs of independent randomised responses to the given secret bits."""

    def chance(output: tuple[int, ...], secret: tuple[int, ...]) -> float:
        return math.prod(
            TRUTH[e] if out == bit else 1 - TRUTH[e] for e, out, bit in zip(releases, output, secret, strict=True)
        )

    outputs = itertools.product((0, 1), repeat=len(releases))
    return max(math.log(chance(o, one) / chance(o, other)) for o in outputs)


@pytest.mark.claim("B10")
def test_epsilons_add_exactly() -> None:
    loss = Together(Pure("0.5"), Repeated(LaplaceNoise(4), 4), Pure("1e-9"))
    assert guarantee(loss, delta=0).epsilon == pytest.approx(1.500000001, rel=1e-15)


@pytest.mark.claim("B10")
def test_the_sum_is_attained_by_asking_about_the_same_person() -> None:
    """Two answers about one bit, by enumeration: exactly ε₁ + ε₂, so no smaller bound could hold."""
    releases = [Fraction(1, 2), Fraction(1)]
    joint = worst_ratio(releases, one=(1, 1), other=(0, 0))
    assert joint == pytest.approx(guarantee(Together(*map(Pure, releases)), delta=0).epsilon, rel=1e-12)


@pytest.mark.claim("B10")
def test_whoever_asks_and_whichever_dataset_holds_the_person() -> None:
    """Three datasets with the same people, two analysts each: the bill is one sum, in any order and grouping."""
    per_dataset: list[Loss] = [Together(Pure("0.1"), Pure("0.2")) for _ in range(3)]
    flat = Together(*[Pure("0.1")] * 3, *[Pure("0.2")] * 3)
    assert guarantee(Together(*per_dataset), delta=0) == guarantee(flat, delta=0)
    assert guarantee(flat, delta=0).epsilon == pytest.approx(0.9, rel=1e-15)


@pytest.mark.claim("B10")
def test_disjoint_parts_cost_the_maximum() -> None:
    """Neighbours differ in one person, who is in one part: by enumeration the worst is max(ε₁, ε₂), not the sum."""
    releases = [Fraction(1, 2), Fraction(1)]
    in_first = worst_ratio(releases, one=(1, 0), other=(0, 0))
    in_second = worst_ratio(releases, one=(0, 1), other=(0, 0))
    stated = guarantee(Parallel(*map(Pure, releases)), delta=0).epsilon
    assert max(in_first, in_second) == pytest.approx(stated, rel=1e-12)
    assert stated == 1


@pytest.mark.claim("B10")
@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-9"])
def test_with_delta_both_rules_hold_and_composition_grows_with_the_root(delta: str) -> None:
    one = GaussianNoise(10)
    assert guarantee(Parallel(one, one, GaussianNoise(20)), delta=delta) == guarantee(one, delta=delta)
    hundred = guarantee(Repeated(LaplaceNoise(100), 100), delta=delta).epsilon
    assert hundred < 1  # against 100 · 1/100 = 1 by adding
    assert hundred > guarantee(Repeated(LaplaceNoise(100), 25), delta=delta).epsilon * 1.5
