"""What a release costs, as data: losses, units, budgets and accountants."""

from discreet.privacy.accounting import Guarantee, delta_for, guarantee
from discreet.privacy.budget import Budget, Spent
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
    from_json,
    to_json,
)
from discreet.privacy.unit import Neighbours, Unit

__all__ = [
    "Approximate",
    "BoundedRange",
    "Budget",
    "Concentrated",
    "DiscreteGaussianNoise",
    "GaussianNoise",
    "Guarantee",
    "LaplaceNoise",
    "Loss",
    "Neighbours",
    "Parallel",
    "PerDistance",
    "Pure",
    "Repeated",
    "SampledGaussian",
    "Spent",
    "Together",
    "Unit",
    "delta_for",
    "from_json",
    "guarantee",
    "to_json",
]
