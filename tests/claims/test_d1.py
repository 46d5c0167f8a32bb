"""D1: DP-SGD. Poisson lots with probability L/N, clipping to norm C, noise σC, mean over L, a step; ε by accountants."""

import math

import numpy as np
import pytest

from discreet.learning.networks.layers import Dense
from discreet.learning.networks.network import Network, Softmax
from discreet.learning.sgd.clipping import UNITS, Clip, clipped_sum
from discreet.learning.sgd.recipe import Recipe, Sgd
from discreet.learning.sgd.training import State, contributions, train
from discreet.noise import DeterministicEntropy, poisson_sample
from discreet.noise.normal import rounded_gaussian
from discreet.privacy.accounting import guarantee, pld, rdp
from discreet.privacy.loss import Repeated, SampledGaussian

pytestmark = pytest.mark.claim("D1")

NETWORK = Network([Dense(3)], Softmax(), inputs=(4,))
RNG = np.random.default_rng(1)
X, Y = RNG.normal(size=(500, 4)).astype(np.float32), RNG.integers(0, 3, 500)
RECIPE = Recipe(rate="1/10", lot=50, steps=1, multiplier=2, clip="1/2", optimizer=Sgd(3), curve=0)


def test_a_step_is_the_step_of_the_algorithm():
    """Recomputed line by line, with the same coins and the same noise, in float64."""
    state = train(NETWORK, X, Y, RECIPE, entropy=DeterministicEntropy(9))
    entropy = DeterministicEntropy(9)
    lot = poisson_sample("1/10", 500, entropy=entropy)
    start = NETWORK.start(seed=1)
    _, (gradient,) = NETWORK.gradients(start, X[lot], Y[lot])
    each = gradient.formed().astype(np.float64)
    norms = np.sqrt(np.square(each).sum(axis=(1, 2)))
    clipped = each / np.maximum(1, norms / 0.5)[:, None, None]
    drawn = rounded_gaussian(2 * UNITS, start[0].size + 2, entropy=entropy)  # two numbers more follow the gradient
    noise = drawn[:-2].reshape(start[0].shape) / UNITS * 0.5
    expected = start[0] - 3 * (clipped.sum(axis=0) + noise) / 50
    np.testing.assert_allclose(state.parameters[0], expected, atol=2e-4)
    assert (norms > 0.5).any()


def test_every_example_is_clipped_and_the_sum_is_what_is_released():
    start = NETWORK.start(seed=1)
    _, gradients = NETWORK.gradients(start, X * 100, Y)
    total = clipped_sum(gradients, Clip("1/2"))
    assert np.linalg.norm(total.units[0] / UNITS) <= len(X)
    for k in range(20):
        alone = contributions(NETWORK, State.start(NETWORK, RECIPE), X * 100, Y, np.array([k]), RECIPE)
        assert sum(v**2 for v in alone.tolist()) <= UNITS**2


def test_the_cost_is_sampled_gaussian_by_the_number_of_steps():
    run = Recipe(rate="0.01", lot=600, steps=10_000, multiplier=4, clip=1, optimizer=Sgd(1))
    assert run.loss == Repeated(SampledGaussian("0.01", 4), 10_000)
    by_pld, by_moments = pld.epsilon(run.loss, delta="1e-5"), rdp.epsilon(rdp.curve(run.loss), delta="1e-5")
    assert by_pld < by_moments < 1.26  # Abadi et al. 2016, section 5.2: 1.26 by their moments accountant
    assert guarantee(run.loss, delta="1e-5").by == "pld"
    assert math.isclose(by_moments, 1.035, abs_tol=0.001)
