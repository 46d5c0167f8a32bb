"""Smoothed maps: an average of likely estimates that are distributions, on cities of several sizes; never a crash."""

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.estimation.ibu import ibu
from discreet.local.estimation.linear_maps import dense
from discreet.local.places.areas import Area
from discreet.local.places.maps import Coarse, _cosines, earth_mover, one_cluster, smooth_field, smoothed
from discreet.local.places.planar import PlanarReport
from discreet.noise import DeterministicEntropy

TOWN = Area.plane(width=3, height=2, cell="0.25")


def drawn(report, shares, people=4000, seed=1):
    cells = np.repeat(np.arange(report.size), np.random.default_rng(seed).multinomial(people, shares))
    return report.tally(report.randomize(cells, entropy=DeterministicEntropy(seed)))


def bump(area, x, y, radius):
    away = np.hypot(*(area.centers() - [x, y]).T)
    weights = np.exp(-((away / radius) ** 2) / 2) + 0.02
    return weights / weights.sum()


SIZES, PEOPLE, OUTSIDE = [(1, 1), (3, 1), (1, 4), (5, 4)], [1, 50, 5000], ["keep", "clamp", "remap"]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("size", "people", "outside"), [
    (size, people, OUTSIDE[(i + j) % 3]) for i, size in enumerate(SIZES) for j, people in enumerate(PEOPLE)
])  # fmt: skip
def test_every_part_is_a_distribution(size, people, outside):
    """A Latin square: any two of the three settings meet."""
    report = PlanarReport(Area.plane(width=size[0], height=size[1], cell=1), epsilon="1", outside=outside)
    found = smoothed(report, report.tally(report.randomize([0] * people, entropy=DeterministicEntropy(people))))
    for shares in (found.shares, found.plain, found.field, found.cluster):
        assert shares.shape == (report.size,)
        assert (shares >= 0).all()
        assert shares.sum() == pytest.approx(1, abs=1e-9)
    assert found.parts
    assert found.shares == pytest.approx(sum(getattr(found, name) for name in found.parts) / len(found.parts))


def test_blocks_add_up_what_the_channel_says():
    report = PlanarReport(TOWN, epsilon="2")
    counts = drawn(report, bump(TOWN, 1, 1, 0.4))
    coarse = Coarse.of(report, counts)
    assert coarse.counts.sum() == counts.sum()
    assert coarse.matrix.sum(axis=1) == pytest.approx(np.ones(TOWN.size))
    assert coarse.matrix.shape[1] <= 18 * 18 + 1
    matrix = dense(report.model())  # the last block is what fell beyond the window
    assert coarse.matrix[:, -1] == pytest.approx(matrix[:, -1], abs=1e-12)


def test_clear_reports_are_followed():
    """Little noise and many people: all three see the town where it is."""
    truth = bump(TOWN, 2.1, 0.6, 0.4)
    report = PlanarReport(TOWN, epsilon="20")
    found = smoothed(report, drawn(report, truth, people=20_000))
    for shares in (found.plain, found.field, found.cluster, found.shares):
        assert earth_mover(shares, truth, TOWN) < 0.05


@pytest.mark.slow
def test_wide_noise_is_smoothed():
    """Where noise is wider than the town, the average is nearer than 500 iterations of IBU, over six draws."""
    truth = bump(TOWN, 1.9, 0.8, 0.45)
    report = PlanarReport(TOWN, epsilon="ln 2 at 1 km")
    pairs = [compared(report, truth, seed=seed) for seed in range(6)]
    better, usual = np.mean(pairs, axis=0)
    assert better < usual


def compared(report, truth, people=4000, seed=1):
    """How far the smoothed map and that of 500 plain iterations are from the truth, in km."""
    counts = drawn(report, truth, people=people, seed=seed)
    found = smoothed(report, counts, entropy=DeterministicEntropy(seed)).shares
    plain = ibu(report.model(), counts, iterations=500, accelerate=False, stop=None).shares
    return [earth_mover(shares, truth, report.area) for shares in (found, plain)]


def clusters(area, seed, count=9):
    """A made-up city: so many clusters of different sizes and weights."""
    chance = np.random.default_rng(seed)
    side = float(area.width)
    bumps = [chance.exponential() * bump(area, *chance.uniform(0, side, 2), chance.uniform(0.02, 0.1) * side)
             for _ in range(count)]  # fmt: skip
    return sum(bumps) / sum(map(np.sum, bumps))


@pytest.mark.slow
@pytest.mark.parametrize(("side", "cell"), [(3, "0.15"), (8, "0.4")])
@pytest.mark.parametrize("people", [2000, 10_000, 50_000])
def test_maps_of_other_cities_are_no_worse(side, cell, people):
    """Cities of nine clusters: on the large ones an average with one cluster was up to twice as far as IBU."""
    area = Area.plane(width=side, height=side, cell=cell)
    report = PlanarReport(area, epsilon="ln 2 at 1 km")
    pairs = np.array([compared(report, clusters(area, seed), people, seed) for seed in (31, 32)])
    assert np.exp(np.log(pairs[:, 0] / pairs[:, 1]).mean()) < 1.03


def test_a_part_that_the_reports_refute_is_dropped():
    """Two towns 7 km apart are not one cluster: its likelihood is hundreds of nats behind."""
    area = Area.plane(width=8, height=8, cell="0.5")
    truth = (bump(area, 0.8, 0.8, 0.4) + bump(area, 7.2, 7.2, 0.4)) / 2
    report = PlanarReport(area, epsilon="ln 2 at 1 km")
    counts = drawn(report, truth, people=10_000)
    found = smoothed(report, counts, entropy=DeterministicEntropy(1))
    assert "cluster" not in found.parts
    better, usual = compared(report, truth, people=10_000)
    assert better < 1.02 * usual
    coarse = Coarse.of(report, counts)
    for name in found.parts:
        assert coarse.fit(getattr(found, name)) > coarse.fit(found.cluster) + 5


def test_waves_are_orthogonal():
    waves, pace = _cosines(TOWN)
    assert waves.T @ waves / TOWN.size == pytest.approx(np.eye(waves.shape[1]), abs=1e-12)
    assert waves.mean(axis=0) == pytest.approx(np.zeros(waves.shape[1]), abs=1e-12)
    assert (pace > 0).all()


def test_the_fits_climb():
    """Both fits are likelier than the uniform map."""
    report = PlanarReport(TOWN, epsilon="1")
    coarse = Coarse.of(report, drawn(report, bump(TOWN, 1, 1, 0.3)))
    flat = coarse.fit(np.full(TOWN.size, 1 / TOWN.size))
    assert coarse.fit(smooth_field(coarse, TOWN)) > flat + 10
    assert coarse.fit(one_cluster(coarse, TOWN)) > flat + 10


def test_bad_input():
    report = PlanarReport(TOWN, epsilon="1")
    with pytest.raises(InvalidParameter, match="PlanarReport"):
        smoothed(TOWN, [1])
    with pytest.raises(InvalidData, match="counts"):
        smoothed(report, [1, 2])
    with pytest.raises(InvalidData, match="zero"):
        smoothed(report, np.zeros(report.codes, int))
    with pytest.raises(InvalidParameter, match="iterations"):
        smoothed(report, np.ones(report.codes, int), iterations=-1)
    large = PlanarReport(Area.plane(width=101, height=100, cell=1), epsilon="1")
    with pytest.raises(InvalidParameter, match="larger cells"):
        smoothed(large, np.ones(large.codes, int))
