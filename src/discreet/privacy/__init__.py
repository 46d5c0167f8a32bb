"""What a release costs, as data: losses, units, budgets and accountants."""

from discreet.privacy.accounting import Guarantee, delta_for, guarantee
from discreet.privacy.budget import Budget, Spending, Spent
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
    disjoint,
    from_json,
    to_json,
)
from discreet.privacy.unit import Neighbors, Unit

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
    "Neighbors",
    "Parallel",
    "PerDistance",
    "Pure",
    "Repeated",
    "SampledGaussian",
    "Spending",
    "Spent",
    "Together",
    "Unit",
    "delta_for",
    "disjoint",
    "from_json",
    "guarantee",
    "to_json",
]
