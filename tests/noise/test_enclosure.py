"""Enclosures stay enclosures, and tables made of them decide as the true weights do."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.noise.sampler import cumulative, ratio, times

F = Fraction
PRECISION = 40
ends = st.tuples(st.integers(1, 1 << 60), st.integers(0, 5)).map(lambda pair: (pair[0], pair[0] + pair[1]))
fractions = st.tuples(st.integers(0, (1 << PRECISION) - 6), st.integers(0, 5)).map(lambda p: (p[0], p[0] + p[1]))


@given(ends, ends, st.integers(1, 200))
def test_a_ratio_contains_all_ratios_and_no_more_than_it_must(part, whole, bits):
    low, high = ratio(part, whole, bits)
    least, most = F(part[0] << bits, whole[1]), F(part[1] << bits, whole[0])
    assert low <= least < low + 1
    assert min(most, 1 << bits) <= high < most + 1
    assert high <= 1 << bits


@given(fractions, fractions)
def test_a_product_contains_all_products_and_no_more_than_it_must(a, b):
    low, high = times(a, b, PRECISION)
    one = 1 << PRECISION
    assert low <= F(a[0] * b[0], one) < low + 1
    assert high - 1 < F(a[1] * b[1], one) <= high


def halves(bits: int):
    """The weights 2^−h, h ≥ 0, summed up as far as `bits` need."""
    count, one = bits + 8, 1 << (bits + 70)
    sums = [(2 * one - (one >> h),) * 2 for h in range(count)]
    return sums, (sums[-1][0], 2 * one)


def test_a_table_of_halves_is_the_geometric_distribution(scripted):
    table = cumulative(halves)
    for h, threshold in enumerate(table.thresholds.tolist()):
        true = (1 << 64) - ((1 << 64) >> (h + 1))
        assert threshold <= true <= threshold + 2, h
    for h in (0, 1, 5, 40):  # P(outcome ≤ h) = 1 − 2^−(h+1)
        edge = (1 << 64) - (1 << (63 - h))
        assert table.pick(edge - 3, scripted([])) == h
        assert table.pick(edge + 3, scripted([])) == h + 1
        assert table.pick(edge - 1, scripted([1 << 63, 0, 0])) == h
        assert table.pick(edge, scripted([1 << 63, 0, 0])) == h + 1


@pytest.mark.parametrize("ones", [1, 2, 3])
def test_a_table_goes_on_beyond_what_it_lists(ones, scripted):
    table = cumulative(halves)
    words = [(1 << 64) - 1] * ones + [(1 << 64) - (1 << 60) - 5]  # 64·ones + 3 ones, then a zero
    assert table.pick(words[0], scripted([*words[1:], 7, 7])) == 64 * ones + 3
