import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom
from tests.synthetic.chain_tables import chain

from discreet.errors import InvalidData, InvalidParameter
from discreet.synthetic.measure.noisy_marginals import Measurement
from discreet.synthetic.quality import area_under_curve, closeness, distance, residuals, sampling_floor

SIZES = (3, 4, 5)
CODES = chain(2000, SIZES, 1)


def test_a_table_is_near_to_itself_and_far_from_another():
    same = closeness(CODES, CODES[::-1], SIZES, 2)
    assert same.mean == 0
    assert same.score == 1000
    assert same.marginals == ((0, 1), (0, 2), (1, 2))
    other = closeness(np.zeros((5, 3), int), np.ones((9, 3), int), SIZES, 3)
    assert other.mean == pytest.approx(1)


def test_the_worst_marginal_is_named():
    broken = CODES.copy()
    broken[:, 2] = np.random.default_rng(0).permutation(broken[:, 2])
    found = closeness(CODES, broken, SIZES, 2)
    assert found.worst[0] == (1, 2)
    assert found.distances[0] == 0


def test_the_floor_is_what_drawing_anew_gives():
    rng = np.random.default_rng(1)
    drawn = [closeness(CODES, CODES[rng.integers(0, 2000, 2000)], SIZES, 3) for _ in range(30)]
    assert np.mean([one.mean for one in drawn]) == pytest.approx(drawn[0].floor, rel=0.05)


@given(st.floats(0.001, 0.999), st.integers(1, 60))
def test_the_floor_of_one_cell_is_the_mean_deviation_of_a_binomial(share, rows):
    numbers = np.arange(rows + 1)
    expected = np.abs(numbers - rows * share) @ binom.pmf(numbers, rows, share) / rows
    assert sampling_floor(np.array([share, 1 - share]), rows) == pytest.approx(expected, rel=1e-6)


def test_certain_cells_have_no_floor():
    assert sampling_floor(np.array([1.0, 0.0]), 10) == 0


def test_residuals_are_about_one_for_the_truth():
    class Truth:
        total = 1000.0

        def marginal(self, attributes):
            return np.full(4000, 0.25)

    noisy = np.random.default_rng(1).normal(0.25, 30, 4000).round().astype(int)
    (found,) = residuals([Measurement((0,), noisy, 30.0)], Truth())
    assert found.misfit == pytest.approx(1, abs=6 * np.sqrt(2 / 4000))


def test_only_the_marginals_named_are_compared():
    assert closeness(CODES, CODES, SIZES, 2, marginals=[(0, 2)]).marginals == ((0, 2),)


@pytest.mark.parametrize("change", [{"order": 0}, {"order": 4}, {"marginals": [(0,)]}, {"marginals": []}])
def test_bad_orders_are_refused(change):
    given = {"order": 2} | change
    with pytest.raises(InvalidParameter):
        closeness(CODES, CODES, SIZES, given.pop("order"), **given)


def test_a_table_without_rows_is_refused():
    with pytest.raises(InvalidData, match="without rows"):
        closeness(CODES, CODES[:0], SIZES, 1)


def test_the_area_under_the_curve_of_perfect_useless_and_tied_scores():
    labels = np.array([0, 0, 1, 1])
    assert area_under_curve([1, 2, 3, 4], labels) == 1
    assert area_under_curve([4, 3, 2, 1], labels) == 0
    assert area_under_curve([1, 1, 1, 1], labels) == 0.5


@pytest.mark.parametrize(("scores", "labels"), [([1, 2], [1, 1]), ([1, 2, 3], [0, 1]), ([np.nan, 1], [0, 1]), ([], [])])
def test_scores_that_do_not_fit_are_refused(scores, labels):
    with pytest.raises(InvalidData):
        area_under_curve(scores, labels)


def test_distance_is_between_zero_and_one_and_symmetric():
    one, other = np.array([0.2, 0.8]), np.array([0.7, 0.3])
    assert distance(one, other) == distance(other, one) == pytest.approx(0.5)
