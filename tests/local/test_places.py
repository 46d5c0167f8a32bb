"""Planar reports and the metric mechanism: words, exact channels, kernels, sampling, odd input."""

import math
from fractions import Fraction
from itertools import pairwise, product

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.statistical.power import ALPHA, Stream

from discreet.errors import InvalidChannel, InvalidData, InvalidParameter
from discreet.exact import log_up
from discreet.local.oracles.metric import MetricResponse
from discreet.local.places.areas import Area
from discreet.local.places.planar import PlanarReport, laplace_folded, lattice_sum, per_km
from discreet.noise import DeterministicEntropy
from discreet.privacy.loss import PerDistance

F = Fraction
SMALL = Area.plane(width="0.4", height="0.3", cell="0.1")
NOISES, OUTSIDES = ("laplace", "geometric"), ("keep", "clamp", "remap")
KINDS = list(product(NOISES, OUTSIDES))


# Words


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("ln 2 at 1 km", math.log(2)),
        ("ln2 within 1km", math.log(2)),
        ("ln 4 at 500 m", 2 * math.log(4)),
        ("0.7 per km", 0.7),
        ("1/2 at 0.25 km", 2),
        ("ln 8 at 2 km", math.log(8) / 2),
        ("0.7", 0.7),
        (0.7, 0.7),
        (F(7, 10), 0.7),
    ],
)
def test_words(words, value):
    assert float(per_km(words)) == pytest.approx(value, rel=1e-12)


def test_logarithms_are_rounded_towards_privacy():
    assert per_km("ln 2 at 1 km") < log_up(F(2))
    assert log_up(F(2)) - per_km("ln 2 at 1 km") < F(1, 2**90)


@pytest.mark.parametrize(
    "words",
    ["ln 1 at 1 km", "ln 2 at 0 km", "ln 2 at 1 mile", "at 1 km", "two", "", "0", -1, math.nan, True, "0 per km"],
)
def test_words_that_say_nothing(words):
    with pytest.raises(InvalidParameter):
        per_km(words)


# The guarantee, on exact channels


@pytest.mark.parametrize(("noise", "outside"), KINDS)
@pytest.mark.parametrize("epsilon", ["1/2", "7", "40"])
def test_the_channel_has_the_stated_epsilon_and_no_less(noise, outside, epsilon):
    report = PlanarReport(SMALL, epsilon=epsilon, noise=noise, outside=outside)
    found = report.channel().d_privacy(SMALL.distance)
    assert found <= float(report.epsilon) * (1 + 1e-12) + 1e-12
    if outside != "remap":  # uniform replacement hides more
        assert found >= float(report.epsilon) * (1 - 1e-9)


@pytest.mark.parametrize("outside", ["keep", "clamp"])
def test_geometric_noise_is_private_in_the_manhattan_distance_at_a_lower_rate(outside):
    report = PlanarReport(SMALL, epsilon=3, noise="geometric", outside=outside)

    def manhattan(a, b):
        (r, c), (s, d) = divmod(a, 4), divmod(b, 4)
        return (abs(r - s) + abs(c - d)) / 10

    assert report.channel().d_privacy(manhattan) == pytest.approx(3 / math.sqrt(2), rel=1e-9)


def test_the_loss_counts_the_diagonal_of_a_cell():
    loss = PlanarReport(SMALL, epsilon="ln 2 at 1 km").loss
    assert isinstance(loss, PerDistance)
    assert loss.unit == "km"
    assert loss.slack >= F(1, 10) * F(14142135623730950, 10**16)
    assert float(loss.within(1).epsilon) == pytest.approx(math.log(2) * (1 + 0.1 * math.sqrt(2)), rel=1e-4)


# Kernels


@pytest.mark.parametrize("t", ["1/10", "1/2", "1.9", "2", "3", "14.427"])
def test_the_lattice_sum(t):
    reach = math.ceil(50 * F(t)) + 2
    z = np.arange(-reach, reach + 1)
    assert lattice_sum(t) == pytest.approx(float(np.exp(-np.hypot(z[:, None], z) / float(F(t))).sum()), rel=1e-14)


def test_the_lattice_sum_of_wide_noise():
    """Poisson's sum at 40 digits: Σ over k of 2πt²(1 + (2πt|k|)²)^(−3/2), whose terms k ≠ 0 are tiny for t = 1000."""
    t = mpmath.mpf(1000)
    total = mpmath.mpf(0)
    zeta, beta = mpmath.zeta(1.5), (mpmath.zeta(1.5, 0.25) - mpmath.zeta(1.5, 0.75)) / 8
    total = 2 * mpmath.pi * t**2 * (1 + 4 * zeta * beta / (2 * mpmath.pi * t) ** 3)  # next term is 1e-8 smaller still
    assert lattice_sum(1000) == pytest.approx(float(total), rel=1e-15)


@pytest.mark.parametrize(("t", "rows", "columns"), [("1/2", 1, 1), ("3", 2, 5), ("14.427", 30, 7), ("5", 1, 40)])
def test_folded_kernels_against_brute_force(t, rows, columns):
    reach = math.ceil(50 * F(t)) + max(rows, columns)
    z = np.arange(-reach, reach + 1)
    mass = np.exp(-np.hypot(z[:, None], z) / float(F(t)))
    mass /= mass.sum()
    expected = np.zeros((2 * rows + 1, 2 * columns + 1))
    np.add.at(expected, np.ix_(np.clip(z, -rows, rows) + rows, np.clip(z, -columns, columns) + columns), mass)
    found = laplace_folded(F(t), rows, columns)
    assert np.abs(found / expected - 1).max() < 1e-11
    assert found.sum() == pytest.approx(1, abs=1e-14)


def test_wide_noise_on_a_fine_grid():
    """1 m cells at ln 2 per km: a scale of 1443 cells, corner mass by difference."""
    found = laplace_folded(1 / (per_km("ln 2 at 1 km") / 1000), 60, 40)
    assert found.sum() == pytest.approx(1, abs=1e-13)
    assert found.min() > 0
    assert found[0, 0] == pytest.approx(0.25, abs=0.03)
    t = 1000 / math.log(2)
    assert found[60, 40] == pytest.approx(1 / (2 * math.pi * t**2), rel=1e-6)


@pytest.mark.parametrize(("noise", "outside"), KINDS)
@pytest.mark.parametrize("epsilon", ["1/2", "7", "40", "400"])
@pytest.mark.parametrize("area", [SMALL, Area.plane(width=5, height=1, cell=1), Area.plane(width=1, height=1, cell=1)])
def test_the_linear_map_is_the_channel(noise, outside, epsilon, area):
    report = PlanarReport(area, epsilon=epsilon, noise=noise, outside=outside)
    model, matrix = report.model(), report.channel().matrix
    assert (model.size, model.outputs) == matrix.shape == (report.size, report.codes)
    assert np.abs(model.forward(np.eye(report.size)) - matrix).max() < 1e-13
    assert np.abs(model.backward(np.eye(report.codes)) - matrix.T).max() < 1e-13


@pytest.mark.parametrize("noise", NOISES)
def test_what_the_kernel_lacks_lies_further(noise):
    """The kept kernel is the middle of a much wider one, and its mass outside is what the wider one has there."""
    near = PlanarReport(SMALL, epsilon=3, noise=noise, margin=2).kernel()
    wide = PlanarReport(SMALL, epsilon=3, noise=noise, margin=300).kernel()
    rows, columns = (w - n for w, n in zip(wide.shape, near.shape, strict=True))
    middle = wide[rows // 2 : rows // 2 + near.shape[0], columns // 2 : columns // 2 + near.shape[1]]
    assert np.abs(near / middle - 1).max() < 1e-12
    assert wide.sum() == pytest.approx(1, abs=1e-12)
    assert 0.2 < 1 - near.sum() < 0.95


def test_agrees_with_the_mechanism_that_it_goes_through():
    from discreet.mechanisms import PlanarLaplace

    mechanism = PlanarLaplace(epsilon=7, unit="km", granularity="0.1").channel(3, 4)
    ours = PlanarReport(SMALL, epsilon=7, outside="clamp").channel()
    assert np.abs(mechanism.matrix - ours.matrix).max() < 1e-14


# Sampling


@pytest.mark.parametrize(("noise", "outside"), KINDS)
def test_reports_follow_the_channel(noise, outside):
    """In ℓ1 distance, which has mean at most √(k/n) and falls as McDiarmid says; scales 30 % off are rejected."""
    n, cell, stream = 60_000, 6, Stream()
    kept = {"margin": 4} if outside == "keep" else {}
    report = PlanarReport(SMALL, epsilon=20, noise=noise, outside=outside, **kept)
    counts = report.tally(report.randomize(np.full(n, cell), entropy=stream))
    limit = math.sqrt(report.codes / n) + math.sqrt(2 * math.log(1 / ALPHA) / n)
    row = report.channel().matrix[cell]
    assert counts.sum() == n
    assert np.abs(counts / n - row).sum() < limit, stream
    for factor in (F(10, 13), F(13, 10)):
        wrong = PlanarReport(SMALL, epsilon=20 * factor, noise=noise, outside=outside, **kept).channel().matrix[cell]
        assert np.abs(wrong - row).sum() > 2 * limit  # so it would be refused
        assert np.abs(counts / n - wrong).sum() > limit, stream


@pytest.mark.parametrize("noise", NOISES)
def test_intervals_cover(noise):
    area = Area.plane(width=2, height=2, cell="0.05")
    report = PlanarReport(area, epsilon=3, noise=noise, margin=200)
    start = area.size // 2
    codes = report.randomize(np.full(5000, start), entropy=DeterministicEntropy(3))
    row, column = np.divmod(codes, report.window[1])
    here = divmod(start, area.columns)
    away = np.hypot(row - report.margin - here[0], column - report.margin - here[1]) * 0.05
    for confidence in (0.5, 0.9, 0.99):
        covered = (away <= report.interval(confidence)).mean()
        assert covered > confidence - 0.03
    assert report.interval("0.5") < np.quantile(away, 0.5) * (1.15 if noise == "laplace" else 2.2)


def test_the_same_stream_gives_the_same_reports():
    report = PlanarReport(SMALL, epsilon=6)
    cells = np.arange(12).repeat(5)
    one, two = (report.randomize(cells, entropy=DeterministicEntropy(5)) for _ in range(2))
    assert (one == two).all()
    assert (report.randomize(cells, entropy=DeterministicEntropy(6)) != one).any()
    assert report.randomize([]).tolist() == []


@given(st.integers(1, 6), st.integers(1, 6), st.sampled_from(NOISES), st.sampled_from(OUTSIDES), st.integers(-8, 8))
@settings(max_examples=60)
def test_reports_are_always_valid(rows, columns, noise, outside, power):
    area = Area(rows=rows, columns=columns, cell="0.1")
    report = PlanarReport(area, epsilon=F(2) ** power, noise=noise, outside=outside)
    reports = report.randomize(np.arange(area.size))
    assert report.valid(reports).all()
    tally = report.tally(reports)
    assert tally.sum() == area.size
    assert report.inside(tally).shape == (area.size,)
    assert report.codes == math.prod(report.window) + (outside == "keep")


def test_the_noisy_map_is_the_middle_of_the_window():
    report = PlanarReport(SMALL, epsilon=1000, margin=2)  # noise is rarer than e^−100
    tally = report.tally(report.randomize(np.arange(12).repeat(np.arange(12))))
    assert report.inside(tally).tolist() == list(range(12))
    assert tally[-1] == 0


# Odd input


def test_malformed_reports_are_named():
    report = PlanarReport(SMALL, epsilon=6, outside="clamp")
    odd = np.array([0, 11, 12, -1, 2.5, math.nan, math.inf])
    assert report.valid(odd).tolist() == [True, True, False, False, False, False, False]
    assert report.valid(np.array([1, None, "3", "x"], object)).tolist() == [True, False, False, False]
    with pytest.raises(InvalidData):
        report.tally(odd)
    with pytest.raises(InvalidData):
        report.inside([1, 2, 3])


@pytest.mark.parametrize("values", [[12], [-1], [0.5], [math.nan], ["a"], [[0]]])
def test_values_that_are_no_cells(values):
    with pytest.raises(InvalidData):
        PlanarReport(SMALL, epsilon=1).randomize(values)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0},
        {"epsilon": 1, "noise": "gaussian"},
        {"epsilon": 1, "outside": "drop"},
        {"epsilon": 1, "outside": "clamp", "margin": 3},
        {"epsilon": 1, "margin": -1},
        {"epsilon": 1, "margin": True},
        {"epsilon": "1e-15"},
    ],
)
def test_settings_that_cannot_be(settings):
    with pytest.raises(InvalidParameter):
        PlanarReport(SMALL, **settings)
    with pytest.raises(InvalidParameter):
        PlanarReport("San Francisco", epsilon=1)


def test_a_channel_that_is_too_large_is_refused():
    with pytest.raises(InvalidParameter, match="at most"):
        PlanarReport(Area.plane(width=30, height=30, cell="0.1"), epsilon="ln 2 at 1 km").channel()


# Any metric


def ring(size):
    return lambda a, b: min(abs(a - b), size - abs(a - b))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "5"])
def test_a_constant_normalizer_is_used_and_attains_epsilon(epsilon):
    for labels, metric in ((range(7), ring(7)), (range(5), "discrete"), (list(product((0, 1), repeat=3)), cube)):
        response = MetricResponse(labels, metric, epsilon=epsilon, unit="steps")
        assert response.constant
        assert response.channel().d_privacy(metric) == pytest.approx(float(F(epsilon)), rel=1e-9)


def cube(a, b):
    return sum(x != y for x, y in zip(a, b, strict=True))


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=2, max_size=8, unique=True), st.integers(1, 50)
)
@settings(max_examples=60)
def test_any_places_are_private(places, tenths):
    response = MetricResponse(places, math.dist, epsilon=F(tenths, 10), unit="km")
    found = response.channel().d_privacy(math.dist)
    assert found <= tenths / 10 * (1 + 1e-9)
    assert found >= tenths / 20 * (1 - 1e-9) or response.constant
    assert response.loss == PerDistance(F(tenths, 10), "km", 0)


def test_distances_that_break_the_triangle_inequality_cost_noise():
    """0–1 and 1–2 are near, 0–2 far: s = (5 − 1)/1, and the guarantee holds for these distances as they are."""
    far = [[0, 1, 5], [1, 0, 1], [5, 1, 0]]
    response = MetricResponse(["a", "b", "c"], far, epsilon=1, unit="km")
    assert response.stretch == 4
    assert response.channel().d_privacy(far) <= 1
    assert MetricResponse(range(3), "line", epsilon=1, unit="km").stretch == 1


def test_rounded_distances_keep_the_guarantee():
    """√2 and √5 as floats are not additive; ε holds for the decimals that were given, in rationals."""
    points = [(0, 0), (1, 1), (2, 2), (1, 3)]
    response = MetricResponse(points, math.dist, epsilon=3, unit="km")
    assert 1 <= response.stretch < 1 + F(1, 10**14)


def test_metric_reports_follow_the_channel():
    response = MetricResponse(["home", "work", "shop"], [[0, 2, 3], [2, 0, 4], [3, 4, 0]], epsilon=1, unit="km")
    assert not response.constant
    n, stream = 20_000, Stream()
    reports = response.randomize(np.arange(3).repeat(n), entropy=stream)
    for place in range(3):
        seen = response.tally(reports[place * n : (place + 1) * n]) / n
        assert np.abs(seen - response.channel().matrix[place]).max() < math.sqrt(math.log(6e6) / (2 * n)), stream
    wrong = MetricResponse(["home", "work", "shop"], [[0, 2, 3], [2, 0, 4], [3, 4, 0]], epsilon="1.3", unit="km")
    assert np.abs(wrong.channel().matrix - response.channel().matrix).max() > 2 * math.sqrt(math.log(6e6) / (2 * n))
    assert response.valid([0, 3, math.nan]).tolist() == [True, False, False]


def test_twins_are_treated_alike():
    twins = [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    response = MetricResponse(range(3), twins, epsilon=1, unit="km")
    matrix = response.channel().matrix
    assert matrix[0].tolist() == matrix[1].tolist()
    with pytest.raises(InvalidParameter, match="merge"):
        MetricResponse(range(3), [[0, 0, 1], [0, 0, 2], [1, 2, 0]], epsilon=1, unit="km")


def test_metrics_that_cannot_be():
    for metric in ([[0, 1], [2, 0]], [[0, -1], [-1, 0]], [[1, 1], [1, 0]], "far", [[0, math.nan], [math.nan, 0]]):
        with pytest.raises(InvalidChannel):
            MetricResponse(range(2), metric, epsilon=1, unit="km")
    for labels, metric in (([], "line"), (range(300), "line"), (range(2), [[0, math.inf], [math.inf, 0]])):
        with pytest.raises((InvalidParameter, InvalidChannel)):
            MetricResponse(labels, metric, epsilon=1, unit="km")
    with pytest.raises(InvalidParameter):
        MetricResponse(range(2), "line", epsilon=0, unit="km")


def test_more_privacy_is_never_less_noise():
    """The expected distance to the report falls as ε grows."""
    places = np.arange(6)
    away = np.abs(places[:, None] - places)
    means = [
        (MetricResponse(range(6), "line", epsilon=e, unit="steps").channel().matrix * away).sum()
        for e in ("1/10", "1/2", "2", "10")
    ]
    assert all(a > b for a, b in pairwise(means))
