"""C5 (mechanism side): planar Laplace on a grid: its density, its geo-indistinguishability, its other dimensions.

The noise itself is shown in test_c5_noise.py.
"""

from fractions import Fraction
from math import dist, exp, log, pi

import numpy as np
import pytest
from tests.statistical.power import Stream

from discreet.mechanisms import Geometric, PlanarLaplace

pytestmark = pytest.mark.claim("C5")

F = Fraction
EPSILON = "0.7"


def cell(label: str) -> tuple[int, ...]:
    return tuple(int(part) for part in label.split(","))


@pytest.mark.parametrize("granularity", ["1/2", "1/4", "1/8"])
def test_the_density_approaches_the_textbook_one(granularity):
    """P(cell)/g² against ε²/2π·e^(−ε·d) at the middle of a box, ever closer on finer grids."""
    g, size = F(granularity), 9
    channel = PlanarLaplace(epsilon=EPSILON, unit="km", granularity=granularity).channel(size, size)
    epsilon = float(F(EPSILON))
    for z in ("4,4", "4,6", "3,3", "1,4"):
        density = channel.probability("4,4", z) / float(g) ** 2
        expected = epsilon**2 / (2 * pi) * exp(-epsilon * dist(cell(z), (4, 4)) * float(g))
        assert density == pytest.approx(expected, rel=float(g) ** 2 * epsilon**2)


@pytest.mark.parametrize("granularity", ["1", "1/4"])
def test_geo_indistinguishability_on_the_grid(granularity):
    """The tightest ε with P(z|x) ≤ e^(ε·d(x,x'))·P(z|x') is the one stated, d the Euclidean distance."""
    g = float(F(granularity))
    channel = PlanarLaplace(epsilon=EPSILON, unit="km", granularity=granularity).channel(5, 4)
    assert channel.d_privacy(lambda a, b: dist(cell(a), cell(b)) * g) == pytest.approx(0.7, abs=1e-9)


def test_within_a_radius_it_is_differential_privacy():
    """ε-DP among all places at most r apart, with ε = ε·(r + a cell's diagonal); checked on the channel."""
    mechanism = PlanarLaplace(epsilon=EPSILON, unit="km", granularity=1)
    channel = mechanism.channel(4, 4)
    for radius in (1, 2, 3):
        near = [(a, b) for a in channel.inputs for b in channel.inputs if 0 < dist(cell(a), cell(b)) <= radius]
        found = channel.epsilon(near)
        assert found <= 0.7 * radius + 1e-9
        assert found <= float(mechanism.loss.within(radius).epsilon)
        assert found > 0.7 * radius * 0.99


def test_the_mean_distance_is_two_over_epsilon():
    stream, n = Stream(), 20_000
    mechanism = PlanarLaplace(epsilon=log(2), unit="km", granularity="1/20")
    places = np.zeros((n, 2))
    away = np.hypot(*(mechanism.release(places, entropy=stream) - places).T)
    assert away.mean() == pytest.approx(2 / log(2), rel=6 * 0.71 / n**0.5 + 0.002), stream


def test_one_dimension_is_the_geometric_mechanism():
    stream = Stream()
    line, count = PlanarLaplace(epsilon="1/4", unit="steps", granularity=1, dimensions=1), Geometric(epsilon="1/4", sensitivity=1)  # fmt: skip
    released = line.release(np.zeros((40_000, 1)), entropy=stream)[:, 0].astype(int)
    for k in range(-3, 4):
        assert (released == k).mean() == pytest.approx(count.probability(k), abs=0.02)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_more_dimensions_need_longer_noise(dimensions):
    """E‖noise‖ = dimensions/ε for the density ∝ e^(−ε‖z‖): the radius has a gamma law."""
    stream, n = Stream(), 5000
    mechanism = PlanarLaplace(epsilon="1/10", unit="m", granularity=1, dimensions=dimensions)
    radii = np.linalg.norm(mechanism.release(np.zeros((n, dimensions)), entropy=stream), axis=1)
    assert radii.mean() == pytest.approx(10 * dimensions, rel=6 / (dimensions * n) ** 0.5 + 0.01), stream
