from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.learning.classical.reading import box_of
from discreet.learning.classical.sums import UNIT, Part, planned, products, row_square, snapped
from discreet.noise import DeterministicEntropy

DRAWS = 40_000
Z = 5.0  # two-sided false alarms below 1e-6


@pytest.mark.parametrize("delta", [0, "1e-6"])
@pytest.mark.parametrize("part", [0, 1])
def test_noise_has_the_stated_scale_and_not_another(delta, part):
    parts = [Part(3000, 10**4, 10**4, Fraction(1, 4)), Part(7000, 10**5, 10**4, Fraction(3, 4))]
    noise = planned(parts, epsilon="0.5", delta=delta)
    drawn = noise.add(part, np.zeros(DRAWS, np.int64), DeterministicEntropy(7)).astype(float)
    size = np.abs(drawn)
    scale = float(noise.scales[part])
    mean, spread = (scale * np.sqrt(2 / np.pi), scale * np.sqrt(1 - 2 / np.pi)) if noise.gaussian else (scale, scale)
    assert noise.gaussian == bool(delta)
    assert abs(size.mean() - mean) < Z * spread / np.sqrt(DRAWS)
    assert abs(size.mean() - 1.3 * mean) > Z * 1.3 * spread / np.sqrt(DRAWS)
    expected = 3000 * 4 / 0.5 if not delta else None
    if expected and part == 0:
        assert scale == expected


def test_shares_must_not_exceed_one():
    with pytest.raises(InvalidParameter, match="share"):
        planned([Part(1, 1, 1), Part(1, 1, 1)], epsilon=1, delta=0)


@given(
    rows=st.lists(st.lists(st.floats(-1e12, 1e12), min_size=3, max_size=3), min_size=1, max_size=4),
    norm=st.sampled_from(["0.01", "0.3", "1", "1.5", None]),
)
def test_rows_are_within_both_bounds_exactly(rows, norm):
    square = row_square(3, norm)
    whole = snapped(np.array(rows), box_of([(-1, 1), (0, 5), (10, 1000)], list("abc")), square)
    for row in whole.tolist():
        assert all(abs(z) <= UNIT for z in row)
        assert sum(z * z for z in row) <= square


def test_rows_inside_the_norm_are_not_shortened():
    whole = snapped(np.array([[0.5, 0.25, 0.0]]), box_of((-1, 1), list("abc")), row_square(3, 1))
    assert whole.tolist() == [[UNIT // 2, UNIT // 4, 0]]


def test_products_are_exact_beyond_a_block():
    left = np.full((70_000, 1), UNIT)
    left[::2] = 1
    assert products(left, left)[0, 0] == 35_000 * (UNIT * UNIT + 1)


def test_too_few_rows_are_refused_in_words():
    with pytest.raises(InvalidParameter, match="a larger ε for about 10 rows"):
        planned([Part(1, 1, 1)], epsilon="0.01", delta=0, rows=10)
    planned([Part(1, 1, 1)], epsilon="0.01", delta=0, rows=1000)
