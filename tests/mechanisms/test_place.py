"""Planar Laplace on a grid: d-privacy of its channel, its noise summed shell by shell, points in and points out."""

from fractions import Fraction
from math import ceil, dist, exp, floor, hypot, isqrt, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import stable

from discreet.errors import InvalidData, InvalidParameter
from discreet.mechanisms import PlanarLaplace
from discreet.mechanisms.mechanism import Grid
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import PerDistance

F = Fraction


def cell(label: str) -> tuple[int, int]:
    x, y = label.split(",")
    return int(x), int(y)


def metric(granularity: Fraction):
    return lambda a, b: dist(cell(a), cell(b)) * float(granularity)


def shells(dimensions: int, radius: int) -> np.ndarray:
    """How many grid points lie at squared distance 0, 1, 2, … radius² from the origin."""
    count = np.zeros(radius * radius + 1)
    count[0] = 1
    for _ in range(dimensions):
        before = count.copy()
        for k in range(1, radius + 1):
            count[k * k :] += 2 * before[: len(before) - k * k]
    return count


def radius_law(scale: float, dimensions: int) -> tuple[np.ndarray, np.ndarray]:
    """The exact law of ‖noise‖₂ in steps: (radii, probabilities)."""
    reach = min(160, ceil(scale * (40 + 4 * dimensions)) + 3)
    count = shells(dimensions, reach)
    radii = np.sqrt(np.arange(len(count)))
    weights = count * np.exp(-radii / scale)
    return radii, weights / weights.sum()


# --- privacy -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("width", "height"), [(4, 4), (5, 3)])
@pytest.mark.parametrize(("epsilon", "granularity"), [("0.7", "1"), ("1.5", "0.5"), ("0.2", "2"), ("3", "1")])
def test_the_clamped_channel_is_d_private_with_exactly_its_epsilon(width, height, epsilon, granularity):
    mechanism = PlanarLaplace(epsilon=epsilon, unit="km", granularity=granularity)
    channel = mechanism.channel(width, height)
    tightest = channel.d_privacy(metric(F(granularity)))
    assert tightest == pytest.approx(float(F(epsilon)), abs=1e-9)
    assert isinstance(mechanism.loss, PerDistance)
    assert (mechanism.loss.epsilon, mechanism.loss.unit) == (F(epsilon), "km")


@pytest.mark.parametrize(("width", "height"), [(1, 6), (2, 2), (7, 1)])
def test_gathering_a_whole_side_costs_no_more(width, height):
    channel = PlanarLaplace(epsilon=1, unit="km", granularity=1).channel(width, height)
    assert 0.5 < channel.d_privacy(metric(F(1))) <= 1 + 1e-9


@pytest.mark.parametrize("epsilon", ["0.4", "1.2"])
def test_the_channel_without_clamping_is_d_private_with_exactly_its_epsilon(epsilon):
    """P(z|x) = w(z − x)/Σw on the whole plane: a window of outputs far wider than the inputs, nothing gathered."""
    scale = float(1 / F(epsilon))
    outputs = [(x, y) for x in range(-8, 12) for y in range(-8, 12)]
    inputs = [(x, y) for x in range(4) for y in range(4)]
    logs = np.array([[-dist(x, z) / scale for z in outputs] for x in inputs])
    worst = max(
        np.abs(logs[i] - logs[j]).max() / dist(inputs[i], inputs[j]) for i in range(len(inputs)) for j in range(i)
    )
    assert worst == pytest.approx(float(F(epsilon)), abs=1e-9)


def test_the_channel_is_the_noise_gathered_on_the_box():
    """An independent sum in plain Python: every offset goes to the nearest cell of the box."""
    mechanism = PlanarLaplace(epsilon="1.3", unit="km", granularity=1)
    channel = mechanism.channel(3, 2)
    reach = 45
    offsets = [(a, b, exp(-1.3 * hypot(a, b))) for a in range(-reach, reach + 1) for b in range(-reach, reach + 1)]
    total = sum(w for _, _, w in offsets)
    for x in range(3):
        for y in range(2):
            expected = dict.fromkeys(channel.outputs, 0.0)
            for a, b, weight in offsets:
                expected[f"{min(2, max(0, x + a))},{min(1, max(0, y + b))}"] += weight / total
            row = [channel.probability(f"{x},{y}", z) for z in channel.outputs]
            assert row == pytest.approx(list(expected.values()), abs=1e-12)


def test_a_wrong_epsilon_would_show():
    channel = PlanarLaplace(epsilon=1, unit="km", granularity=1).channel(4, 4)
    assert channel.d_privacy(metric(F(13, 10))) == pytest.approx(1 / 1.3, abs=1e-9)
    assert channel.d_privacy("discrete") > 1  # distance 1 for all: far cells cost more than ε


@pytest.mark.parametrize("gap", [1e-9, 0.3, 1.0, 1.7])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_the_loss_holds_between_places_and_not_only_between_grid_points(gap, dimensions):
    """Two places a hair apart may snap a whole cell apart; what is stated for that distance must cover it (P2)."""
    mechanism = PlanarLaplace(epsilon=1, unit="km", granularity=1, dimensions=dimensions)
    here = np.full(dimensions, 0.5 - 1e-10)
    there = here + gap / sqrt(dimensions)
    steps = Grid(1).snap(np.array([here, there]))
    true_loss = dist(steps[0], steps[1]) * 1.0  # ε per km, cells of 1 km, reached along the line through both
    stated = mechanism.loss.within(F(dist(here, there)))
    assert true_loss <= float(stated.epsilon) + 1e-12


@given(st.lists(st.tuples(*[st.floats(-50, 50)] * 2), min_size=1, max_size=4), st.sampled_from(["1", "0.1", "1/3"]))
def test_no_two_places_are_told_apart_better_than_stated(coordinates, granularity):
    """In rationals: (steps apart)²·g² ≤ (distance + slack)², with the distance rounded down."""
    here, there = zip(*coordinates, strict=True)
    mechanism = PlanarLaplace(epsilon=1, unit="km", granularity=granularity, dimensions=len(here))
    steps = Grid(granularity).snap(np.array([here, there]))
    apart = F(granularity) ** 2 * sum((int(a) - int(b)) ** 2 for a, b in steps.T)
    square = sum((F(a) - F(b)) ** 2 for a, b in coordinates)
    distance = F(isqrt(floor(square * 2**120)), 2**60)
    assert apart <= (distance + F(1, 2**59) + mechanism.loss.slack) ** 2


@pytest.mark.parametrize("dimensions", range(1, 9))
def test_the_slack_is_one_diagonal_of_a_cell_rounded_up(dimensions):
    slack = PlanarLaplace(epsilon=1, unit="km", granularity="0.1", dimensions=dimensions).loss.slack
    assert slack**2 >= dimensions * F(1, 100)
    assert (slack - F(1, 10**6)) ** 2 < dimensions * F(1, 100)


# --- the noise ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("scale", ["0.05", "0.2", "0.3", "0.5", "1", "2", "5"])
def test_the_radius_holds_the_noise_and_snapping(dimensions, scale):
    mechanism = PlanarLaplace(epsilon=1 / F(scale), unit="cells", granularity=1, dimensions=dimensions)
    radii, law = radius_law(float(F(scale)), dimensions)
    for confidence in ("0.05", "0.5", "0.9", "0.95", "0.99", "0.9999"):
        radius = mechanism.interval(confidence)
        inside = radii <= radius - sqrt(dimensions) / 2 + 1e-12  # snapping moves a point by half a diagonal at most
        assert law[inside].sum() >= float(F(confidence)) - 1e-12


def test_the_radius_is_not_wasteful():
    mechanism = PlanarLaplace(epsilon="0.2", unit="km", granularity=1)
    radii, law = radius_law(5, 2)
    least = radii[np.searchsorted(np.cumsum(law), 0.95)]
    assert least <= mechanism.interval("0.95") <= least + 2.5


def test_released_points_lie_within_the_radius_as_often_as_promised():
    mechanism = PlanarLaplace(epsilon=log(2), unit="km", granularity="0.1")
    places = np.random.default_rng(1).uniform(-5, 5, (20_000, 2))
    released = mechanism.release(places, entropy=DeterministicEntropy(2))
    away = np.hypot(*(released - places).T)
    for confidence in (0.5, 0.9):
        share = (away <= mechanism.interval(str(confidence))).mean()
        assert share >= confidence - 5 * sqrt(0.25 / 20_000)
        assert share <= confidence + 0.08  # one cell diagonal of 0.14 km beside a radius of several km


# --- what is released -------------------------------------------------------------------------------------------------


def test_points_keep_their_shape_and_fall_on_the_grid():
    mechanism = PlanarLaplace(epsilon=1, unit="km", granularity="1/8")
    for shape in [(2,), (1, 2), (4, 3, 2), (0, 2)]:
        released = mechanism.release(np.full(shape, 0.3), entropy=DeterministicEntropy(1))
        assert released.shape == shape
        assert released.dtype == np.float64
        assert (released * 8 == np.round(released * 8)).all()


def test_only_the_cell_matters():
    mechanism = PlanarLaplace(epsilon=1, unit="km", granularity=1)
    released = {
        tuple(mechanism.release(place, entropy=DeterministicEntropy(3)))
        for place in ([0.1, -0.3], [0.1 + 2**-50, 0.2], [-0.5, 0.49999999])
    }
    assert len(released) == 1


def test_one_dimension_and_many():
    for dimensions in (1, 3, 8):
        mechanism = PlanarLaplace(epsilon=1, unit="m", granularity=1, dimensions=dimensions)
        assert mechanism.release(np.zeros(dimensions)).shape == (dimensions,)


def test_the_scale_is_in_steps():
    assert PlanarLaplace(epsilon="0.5", unit="km", granularity="0.1").scale == 20


# --- what is refused ---------------------------------------------------------------------------------------------------

GOOD = {"epsilon": 1, "unit": "km", "granularity": 1}


@pytest.mark.parametrize("name", ["epsilon", "granularity"])
@pytest.mark.parametrize("bad", [0, -1, float("nan"), float("inf"), "x", None, True, [1]], ids=stable)
def test_bad_numbers_are_refused(name, bad):
    with pytest.raises(InvalidParameter, match=name):
        PlanarLaplace(**{**GOOD, name: bad})


@pytest.mark.parametrize("unit", ["", None, 5, b"km", ["km"]], ids=stable)
def test_bad_units_are_refused(unit):
    with pytest.raises(InvalidParameter, match="unit"):
        PlanarLaplace(**{**GOOD, "unit": unit})


@pytest.mark.parametrize("dimensions", [0, 9, -1, 2.0, "2", None, True], ids=stable)
def test_bad_dimensions_are_refused(dimensions):
    with pytest.raises(InvalidParameter, match="dimensions"):
        PlanarLaplace(**GOOD, dimensions=dimensions)


@pytest.mark.parametrize(
    "point",
    [1.5, [1.5], [1, 2, 3], [[1], [2]], [], None, "1,2", ["1", "2"], [True, False], [float("nan"), 0], [0, float("inf")],
     [[1, 2], [3]], 1j, np.zeros((2, 0))],
    ids=stable,
)  # fmt: skip
def test_bad_points_are_refused(point):
    with pytest.raises(InvalidData):
        PlanarLaplace(**GOOD).release(point)


@pytest.mark.parametrize(("width", "height"), [(0, 1), (1, 0), (-1, 2), (1.5, 2), (True, 2), (None, 2), ("3", 3)])
def test_bad_boxes_are_refused(width, height):
    with pytest.raises(InvalidParameter, match="width|height"):
        PlanarLaplace(**GOOD).channel(width, height)


def test_the_channel_is_for_the_plane():
    with pytest.raises(InvalidParameter, match="dimensions"):
        PlanarLaplace(**GOOD, dimensions=3).channel(2, 2)


def test_noise_that_does_not_fit_64_bits_is_refused():
    with pytest.raises(InvalidParameter):
        PlanarLaplace(epsilon="1e-14", unit="m", granularity=1).release([0.0, 0.0])
