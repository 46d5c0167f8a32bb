"""Normal and discrete normal probabilities keep their digits in the tails."""

import math

import mpmath as mp
import numpy as np
import pytest

from discreet.privacy.accounting import rounding as tails


@pytest.mark.parametrize("x", [-30.0, -5.0, 0.0, 1.0, 2.99, 3.01, 8.0, 30.0, 1e4])
def test_mills_ratio(x: float) -> None:
    with mp.workdps(60):
        ratio = mp.erfc(mp.mpf(x) / mp.sqrt(2)) / 2 / mp.npdf(mp.mpf(x))
        assert abs(tails.mills(x) / ratio - 1) < 1e-14
        assert abs(tails.mills_slope(x) / (1 - mp.mpf(x) * ratio) - 1) < 1e-13


def test_normal_cells() -> None:
    edges = np.array([-30.0, -29.9, -1.0, -0.999, 0.0, 0.5, 20.0, 20.001, 37.0])
    cells = tails.normal_cells(edges)
    assert cells.sum() == pytest.approx(1, abs=1e-15)
    with mp.workdps(400):
        ends = [-mp.inf, *map(mp.mpf, edges), mp.inf]
        exact = [mp.ncdf(b) - mp.ncdf(a) for a, b in zip(ends, ends[1:], strict=False)]
    assert np.allclose(cells, [float(e) for e in exact], rtol=1e-11, atol=0)


@pytest.mark.parametrize("sigma", [0.05, 0.3, 1.0, 7.5, 40.0])
def test_discrete_tail(sigma: float) -> None:
    with mp.workdps(60):
        reach = math.ceil(50 * sigma) + 3
        terms = {x: mp.e ** (-(mp.mpf(x) ** 2) / (2 * mp.mpf(sigma) ** 2)) for x in range(-reach, reach + 1)}
        total = sum(terms.values())
        assert abs(tails.discrete_total(sigma) / total - 1) < 1e-14
        for k in {-reach // 2, -3, -1, 0, 1, 2, math.ceil(sigma), math.ceil(10 * sigma), math.ceil(30 * sigma)}:
            exact = sum(mass for x, mass in terms.items() if x >= k) / total
            if exact > 1e-300:
                assert abs(tails.discrete_tail(sigma, np.array([float(k)]))[0] / exact - 1) < 1e-12


def test_discrete_tail_beyond_the_table_joins_it() -> None:
    k = np.array([-100.0, 0.0, 1.0, 100.0, 3000.0, 20_000.0, 60_000.0, 75_000.0])
    below = tails.discrete_tail(2000.0, k)
    tails_before, tails._TABLE_UP_TO = tails._TABLE_UP_TO, 1000.0
    try:
        above = tails.discrete_tail(2000.0, k)
    finally:
        tails._TABLE_UP_TO = tails_before
    assert np.allclose(below, above, rtol=1e-12, atol=0)


def test_discrete_cells_are_differences() -> None:
    cells = tails.discrete_cells(3.0, np.array([-7.0, -2.0, -2.0, 0.0, 4.0, 90.0]))
    assert cells.sum() == pytest.approx(1, abs=1e-15)
    assert cells[2] == 0
    assert cells[3] == pytest.approx(tails.discrete_terms(3.0, np.array([-2.0, -1.0])).sum(), rel=1e-13)
    assert 0 < cells[-1] < 1e-190
