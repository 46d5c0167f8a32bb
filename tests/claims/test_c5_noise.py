"""C5: planar Laplace noise, density ε²/2π·e^(−ε·d), drawn exactly on a grid; geo-indistinguishability of the noise."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from tests.noise.reference import CONTEXT, laplace_pmf, real
from tests.statistical.power import Stream, assert_follows

from discreet.noise import planar_laplace
from discreet.noise.geometric import _spherical


@pytest.mark.claim("C5")
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_moving_the_secret_by_d_changes_no_probability_by_more_than_exp_of_d_over_scale(dimensions):
    """P(z − x) ≤ e^(d(x,x')/t)·P(z − x') on a window of the grid, by the sampler's own proposal and acceptance."""
    scale = Fraction(5, 2)
    sampler = _spherical(scale, dimensions)

    def weight(point):
        lo, hi = sampler._acceptance(list(point))(128)
        proposal = CONTEXT.mpf(1)
        for x in point:
            proposal *= laplace_pmf(sampler._wide, x)
        return float(proposal * real(Fraction(lo + hi, 2 << 128)))

    reach = 2 if dimensions == 3 else 4
    window = list(itertools.product(range(-reach, reach + 1), repeat=dimensions))
    weights = {point: weight(point) for point in itertools.product(range(-2 * reach, 2 * reach + 1), repeat=dimensions)}
    worst = 0.0
    for z, move in itertools.product(window, window):
        moved = tuple(a - b for a, b in zip(z, move, strict=True))
        distance = math.dist(move, (0,) * dimensions)
        if distance:
            worst = max(worst, math.log(weights[z] / weights[moved]) / distance)
    assert worst <= float(1 / scale) * (1 + 1e-12)
    assert worst >= float(1 / scale) * (1 - 1e-12), "and the bound is reached, so ε is not understated by looseness"


@pytest.mark.claim("C5")
def test_on_a_fine_grid_the_noise_has_the_planar_laplace_density():
    """Radius r has distribution function 1 − (1 + εr)e^(−εr); mean 2/ε."""
    epsilon, step = 0.5, 1 / 10_000
    stream = Stream()
    points = planar_laplace(20_000, 40_000, entropy=stream) * step
    radius = np.hypot(points[:, 0], points[:, 1])
    bins = np.floor(radius * 100).astype(np.int64)

    def cdf(k):
        r = np.maximum(k + 1, 0) / 100
        return 1 - (1 + epsilon * r) * np.exp(-epsilon * r)

    assert_follows(bins, cdf, "planar Laplace of ε = 0.5", stream)
    assert abs(radius.mean() - 2 / epsilon) < 0.1
