"""Earth mover's distance: against small brute-force problems, known answers, and its own bounds."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import wasserstein_distance

from discreet.errors import InvalidData, InvalidParameter
from discreet.local.places.areas import Area
from discreet.local.places.maps import Bounds, distance, earth_mover, earth_mover_bounds

GRID = Area.plane(width=3, height=3, cell=1)
CITY = Area.plane(width=3, height=3, cell="0.1")


def by_matching(p: list[int], q: list[int], area: Area) -> float:
    """Unit masses: the best of all one-to-one plans (Birkhoff: a transport problem of whole numbers has one)."""
    sources, sinks = (np.repeat(np.arange(area.size), counts).tolist() for counts in (p, q))
    plans = itertools.permutations(sinks)
    return min(sum(area.distance(a, b) for a, b in zip(sources, plan, strict=True)) for plan in plans) / len(sources)


@given(st.lists(st.integers(0, 8), min_size=5, max_size=5), st.lists(st.integers(0, 8), min_size=5, max_size=5))
@settings(max_examples=40)
def test_against_all_plans(sources, sinks):
    p, q = (np.bincount(cells, minlength=9).tolist() for cells in (sources, sinks))
    assert earth_mover(p, q, GRID) == pytest.approx(by_matching(p, q, GRID), abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(2, 40))
@settings(max_examples=30)
def test_on_a_line(seed, cells):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(cells, 0.3), 2)
    line = Area.plane(width=cells, height=1, cell=1)
    places = np.arange(cells)
    assert earth_mover(p, q, line) == pytest.approx(wasserstein_distance(places, places, p, q), abs=1e-8)


def test_a_shift_costs_its_length():
    p = np.zeros((30, 30))
    p[3:12, 5:20] = np.random.default_rng(1).random((9, 15))
    moved = np.roll(p, (7, 4), axis=(0, 1))
    assert earth_mover(p, moved, CITY) == pytest.approx(math.hypot(0.7, 0.4), rel=1e-9)


def test_to_one_point_it_is_the_mean_distance():
    p = np.random.default_rng(2).random(900)
    point = np.zeros(900)
    point[137] = 5
    mean = np.average(np.hypot(*(CITY.centers() - CITY.centers([137])).T), weights=p)
    assert earth_mover(p, point, CITY) == pytest.approx(mean, rel=1e-9)
    assert earth_mover(point, p, CITY) == pytest.approx(mean, rel=1e-9)


def test_it_is_a_metric_in_km():
    rng = np.random.default_rng(5)
    p, q, r = rng.dirichlet(np.full(9, 0.5), 3)
    there, back = earth_mover(p, q, GRID), earth_mover(q, p, GRID)
    assert there == pytest.approx(back, abs=1e-10)
    assert earth_mover(p, p, GRID) == 0
    assert earth_mover(p, 7 * p, GRID) == pytest.approx(0, abs=1e-12)
    assert there <= earth_mover(p, r, GRID) + earth_mover(r, q, GRID) + 1e-10
    tenth = Area.plane(width="0.3", height="0.3", cell=Fraction(1, 10))
    assert earth_mover(p, q, tenth) == pytest.approx(there / 10, rel=1e-9)


def test_nearly_equal_maps():
    """Differences of the size of rounding must neither crash the solver nor show."""
    p = np.random.default_rng(3).random(900)
    p /= p.sum()
    q = p * (1 + 1e-15 * np.random.default_rng(4).standard_normal(900))
    assert earth_mover(p, q, CITY) < 1e-14
    q = p.copy()
    q[0] += 1e-9
    assert 0 < earth_mover(p, q, CITY) < 5e-9


@pytest.mark.parametrize("seed", [1, 2])
def test_a_city_is_solved_and_proven_by_prices(seed):
    """The optimum found by column generation equals the full linear program's."""
    from scipy.optimize import linprog
    from scipy.sparse import kron

    area = Area.plane(width=12, height=12, cell=1)
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.full(144, 0.2), 2)
    away = np.hypot(*(area.centers()[:, None] - area.centers()).transpose(2, 0, 1))
    sums = kron(np.eye(144), np.ones((1, 144))), kron(np.ones((1, 144)), np.eye(144))
    found = linprog(
        away.ravel(), A_eq=np.vstack([s.toarray() for s in sums])[:-1], b_eq=np.concatenate([p, q])[:-1] * 1e6
    )
    assert earth_mover(p, q, area) == pytest.approx(found.fun / 1e6, abs=1e-9)


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.floats(0.02, 5))
@settings(max_examples=25)
def test_bounds_enclose(seed, most, concentration):
    rng = np.random.default_rng(seed)
    area = Area(rows=int(rng.integers(1, 9)), columns=int(rng.integers(1, 9)), cell="0.5")
    p, q = rng.gamma(concentration, size=(2, area.size)) + 1e-9
    found, exact = earth_mover_bounds(p, q, area, most_cells=most), earth_mover(p, q, area)
    assert 0 <= found.lower <= exact * (1 + 1e-8) + 1e-9
    assert exact <= found.upper * (1 + 1e-8) + 1e-9


def test_bounds_on_a_large_grid():
    """Two bumps 5 km apart on 100 × 100 cells: about 5 km, to within a block's size."""
    area = Area.plane(width=10, height=10, cell="0.1")
    x, y = area.centers().T
    p, q = (np.exp(-((x - a) ** 2 + (y - b) ** 2) / 0.5) for a, b in ((3, 3), (6, 7)))
    found = earth_mover_bounds(p, q, area)
    assert 4.99 < found.lower < 5.01 < found.upper < 5.4
    assert earth_mover_bounds(p, p, area) == Bounds(0, 0)


def test_what_is_no_map():
    for bad in ([1] * 8, [math.nan] + [1] * 8, [-1] + [1] * 8, [0] * 9, ["a"] * 9):
        with pytest.raises(InvalidData):
            earth_mover(bad, [1] * 9, GRID)
        with pytest.raises(InvalidData):
            earth_mover_bounds([1] * 9, bad, GRID)
    area = Area.plane(width=100, height=100, cell=1)
    with pytest.raises(InvalidParameter, match="earth_mover_bounds"):
        earth_mover(np.arange(10_000), np.arange(10_000)[::-1], area)
    with pytest.raises(InvalidParameter):
        earth_mover_bounds([1] * 9, [1] * 9, GRID, most_cells=0)


@pytest.mark.parametrize("cell", ["1e-9", "1e-5", "1e9"])
def test_the_unit_of_length_does_not_matter(cell):
    """The solver's tolerances are absolute: cells of a micrometer were not solved, or solved wrongly."""
    rng = np.random.default_rng(3)
    for rows, columns in ((2, 6), (6, 5), (25, 25)):
        p, q = rng.random((2, rows * columns)) ** 4
        plain = earth_mover(p, q, Area(rows=rows, columns=columns, cell=1))
        assert earth_mover(p, q, Area(rows=rows, columns=columns, cell=cell)) == pytest.approx(
            plain * float(Fraction(cell)), rel=1e-8
        )


def test_huge_counts_do_not_overflow_into_no_distance():
    line = Area.plane(width=3, height=1, cell=1)
    assert earth_mover([1e308, 1e308, 0], [0, 0, 1], line) == pytest.approx(1.5)


def test_a_distance_is_exact_or_says_that_it_is_not():
    rng = np.random.default_rng(4)
    small, large = Area.plane(width=50, height=50, cell=1), Area.plane(width=51, height=50, cell=1)
    p, q = np.zeros((2, 2500))
    p[:20], q[-30:] = rng.random(20), rng.random(30)
    known = distance(p, q, small)
    assert known.exact
    assert known.lower == earth_mover(p, q, small)
    p, q = rng.random((2, 2550)) ** 4
    found = distance(p, q, large)
    assert not found.exact
    assert found == earth_mover_bounds(p, q, large)
    assert str(found).startswith("between ")
