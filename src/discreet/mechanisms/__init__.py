"""How a value is released: each mechanism states its noise, its loss and its error on one screen."""

from discreet.mechanisms.additive import DiscreteGaussian, Geometric, Laplace, PlanarLaplace, Staircase
from discreet.mechanisms.aggregates import Histogram, Mean, Sum
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.gaussian import Gaussian, RoundedGaussian
from discreet.mechanisms.mechanism import Mechanism
from discreet.mechanisms.partitions import GaussianThreshold, LaplaceThreshold, OptimalSelection
from discreet.mechanisms.quantile import Extreme, Quantile, Range
from discreet.mechanisms.randomized_response import KRR, RandomizedResponse
from discreet.mechanisms.selection import AboveThreshold, Exponential, PermuteAndFlip, ReportNoisyMax

__all__ = [
    "KRR",
    "AboveThreshold",
    "Channel",
    "DiscreteGaussian",
    "Exponential",
    "Extreme",
    "Gaussian",
    "GaussianThreshold",
    "Geometric",
    "Histogram",
    "Laplace",
    "LaplaceThreshold",
    "Mean",
    "Mechanism",
    "OptimalSelection",
    "PermuteAndFlip",
    "PlanarLaplace",
    "Quantile",
    "RandomizedResponse",
    "Range",
    "ReportNoisyMax",
    "RoundedGaussian",
    "Staircase",
    "Sum",
]
