"""Pure ε adds up exactly."""

from fractions import Fraction

import pytest

from discreet.errors import NoGuarantee
from discreet.privacy.accounting import pure
from discreet.privacy.loss import (
    Approximate,
    BoundedRange,
    Concentrated,
    DiscreteGaussianNoise,
    GaussianNoise,
    LaplaceNoise,
    Loss,
    Parallel,
    PerDistance,
    Pure,
    Repeated,
    SampledGaussian,
    Together,
)


@pytest.mark.parametrize(
    ("loss", "epsilon"),
    [
        (Together(), 0),
        (Pure("0.1"), Fraction(1, 10)),
        (BoundedRange("1/3"), Fraction(1, 3)),
        (LaplaceNoise(7), Fraction(1, 7)),
        (Approximate(2, 0), 2),
        (Repeated(Pure("0.1"), 10**6), 10**5),
        (Together(Pure("0.1"), Pure("0.2")), Fraction(3, 10)),
        (Parallel(Pure(1), Together(Pure(1), Pure("0.01")), Pure("0.5")), Fraction(101, 100)),
        (Repeated(Parallel(Pure(1), LaplaceNoise("0.5")), 3), 6),
        (Together(SampledGaussian(0, 1), DiscreteGaussianNoise(1, 0), Concentrated(0)), 0),
    ],
)
def test_exact(loss: Loss, epsilon: Fraction) -> None:
    assert pure.epsilon(loss) == epsilon


@pytest.mark.parametrize(
    "loss",
    [
        GaussianNoise(10**9),
        DiscreteGaussianNoise(10**9, 1),
        SampledGaussian("1e-9", 10**9),
        Concentrated("1e-30"),
        Approximate(1, "1e-30"),
        Parallel(Pure(1), GaussianNoise(1)),
        Together(Pure(1), Repeated(GaussianNoise(1), 1)),
    ],
)
def test_refused_with_advice(loss: Loss) -> None:
    with pytest.raises(NoGuarantee, match="ask with delta > 0"):
        pure.epsilon(loss)


def test_distance_needs_a_radius() -> None:
    with pytest.raises(NoGuarantee, match="within"):
        pure.epsilon(PerDistance(1, "km", 0))
    assert pure.epsilon(PerDistance(1, "km", 0).within(3)) == 3


def test_beside_an_additive_delta() -> None:
    loss = Together(Repeated(Approximate(1, "1e-9"), 2), Pure("0.5"))
    assert pure.epsilon(loss, additive_delta=True) == Fraction(5, 2)
    with pytest.raises(NoGuarantee):
        pure.epsilon(Together(loss, GaussianNoise(1)), additive_delta=True)
