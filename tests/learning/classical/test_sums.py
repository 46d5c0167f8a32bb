from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidParameter
from discreet.learning.classical.exact_sums import UNIT, Part, planned, products, reach_of, snapped
from discreet.learning.classical.inputs import box_of
from discreet.learning.classical.moments import moment_part, moment_sums
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
    l1=st.sampled_from(["0.01", "0.5", "1.2", "2.9", None]),
    groups=st.sampled_from([(), ((0, 2),), ((1,), (0, 2)), ((0, 1, 2),)]),
)
def test_rows_are_within_all_bounds_exactly(rows, norm, l1, groups):
    reach = reach_of(3, norm=norm, l1=l1, groups=groups)
    whole = snapped(np.array(rows), box_of([(-1, 1), (0, 5), (10, 1000)], list("abc")), reach)
    for row in whole.tolist():
        assert all(abs(z) <= UNIT for z in row)
        assert all(sum(abs(row[j]) for j in group) <= UNIT for group in groups)
        assert sum(z * z for z in row) <= reach.square <= UNIT**2 * (3 - sum(len(group) - 1 for group in groups))
        assert sum(map(abs, row)) <= reach.l1


def test_long_rows_keep_their_direction_and_what_length_they_may():
    whole = snapped(np.array([[0.8, -0.4, 0.0]]), box_of((-1, 1), list("abc")), reach_of(3, l1="0.6"))
    assert np.abs(whole - np.array([[0.4, -0.2, 0.0]]) * UNIT).max() <= 2


def test_rows_inside_the_norm_are_not_shortened():
    whole = snapped(np.array([[0.5, 0.25, 0.0]]), box_of((-1, 1), list("abc")), reach_of(3, norm=1))
    assert whole.tolist() == [[UNIT // 2, UNIT // 4, 0]]


def test_products_are_exact_beyond_a_block():
    left = np.full((70_000, 1), UNIT)
    left[::2] = 1
    assert products(left, left)[0, 0] == 35_000 * (UNIT * UNIT + 1)


def test_too_few_rows_are_refused_in_words():
    with pytest.raises(InvalidParameter, match="a larger ε for about 10 rows"):
        planned([Part(1, 1, 1)], epsilon="0.01", delta=0, rows=10)
    planned([Part(1, 1, 1)], epsilon="0.01", delta=0, rows=1000)


@given(st.lists(st.integers(0, UNIT), min_size=1, max_size=5), st.integers(0, UNIT))
def test_moments_are_exact_and_a_row_moves_them_by_one(values, more):
    u = np.array([*values, more])[:, None]
    less, all_ = (moment_sums(part, np.zeros(len(part), np.int64), 1)[0, :, 0].tolist() for part in (u[:-1], u))
    assert less == [sum(f(v) for v in values) for f in BERNSTEIN]
    assert sum(abs(a - b) for a, b in zip(all_, less, strict=True)) == UNIT**2 == moment_part(1).l1
    assert sum((a - b) ** 2 for a, b in zip(all_, less, strict=True)) <= moment_part(1).square


BERNSTEIN = (lambda v: (UNIT - v) ** 2, lambda v: 2 * v * (UNIT - v), lambda v: v * v)
