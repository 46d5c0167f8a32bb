"""Exact random numbers: every draw has the stated distribution exactly, given uniform random bits."""

from discreet.noise.categorical import accept_each, categorical, softmax, softmax_each
from discreet.noise.entropy import DeterministicEntropy, Entropy, SystemEntropy
from discreet.noise.gaussian import discrete_gaussian
from discreet.noise.geometric import discrete_laplace, geometric, planar_laplace, staircase
from discreet.noise.normal import add_rounded_gaussian, rounded_gaussian
from discreet.noise.uniform import bernoulli, bernoulli_exp, poisson_sample, uniform_below, uniform_each

__all__ = [
    "DeterministicEntropy",
    "Entropy",
    "SystemEntropy",
    "accept_each",
    "add_rounded_gaussian",
    "bernoulli",
    "bernoulli_exp",
    "categorical",
    "discrete_gaussian",
    "discrete_laplace",
    "geometric",
    "planar_laplace",
    "poisson_sample",
    "rounded_gaussian",
    "softmax",
    "softmax_each",
    "staircase",
    "uniform_below",
    "uniform_each",
]
