import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.synthetic.measure.noisy_marginals import (
    cells,
    checked_attributes,
    checked_codes,
    checked_sizes,
    counts,
    ones,
    pairs,
    triples,
)


@given(st.data())
def test_counts_are_those_of_counting_one_by_one(data):
    sizes = tuple(data.draw(st.lists(st.integers(1, 5), min_size=2, max_size=4)))
    rows = data.draw(st.integers(0, 30))
    seed = data.draw(st.integers(0, 2**32 - 1))
    codes = np.random.default_rng(seed).integers(0, sizes, (rows, len(sizes)))
    which = tuple(sorted(data.draw(st.sets(st.integers(0, len(sizes) - 1), min_size=1))))
    expected = np.zeros([sizes[one] for one in which], int)
    for row in codes:
        expected[tuple(row[list(which)])] += 1
    found = counts(codes, sizes, which)
    assert found.dtype == np.int64
    assert (found == expected).all()
    assert found.size == cells(which, sizes)


def test_columns_of_one_code_enter_no_pair_and_no_triple():
    assert ones((1, 2)) == ((0,), (1,))
    assert pairs((1, 2, 3)) == ((1, 2),)
    assert triples((1, 2, 3, 4), most_cells=100) == ((1, 2, 3),)
    assert triples((2, 2, 3, 4), most_cells=12, target=2) == ((0, 1, 2),)


@pytest.mark.parametrize("sizes", [(), (0,), (2, -1), (2.5,), (True,), "23", (2,) * 1001, (10**8,), None])
def test_sizes_that_are_none_are_refused(sizes):
    with pytest.raises(InvalidParameter, match="sizes"):
        checked_sizes(sizes)


@pytest.mark.parametrize(
    "codes",
    [
        np.zeros((2, 3), int),
        np.zeros(2, int),
        np.zeros((2, 2)),
        np.zeros((2, 2), bool),
        np.array([[0, 3]]),
        np.array([[-1, 0]]),
        [["a", "b"]],
        np.array([[0, np.nan]]),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes):
    with pytest.raises(InvalidData):
        checked_codes(codes, (2, 3))


def test_a_refusal_names_no_value():
    with pytest.raises(InvalidData, match="column 1 holds codes outside of 0 … 2") as refused:
        checked_codes(np.array([[0, 7354]]), (2, 3))
    assert "7354" not in str(refused.value)


@pytest.mark.parametrize("attributes", [(), (1, 0), (0, 0), (5,), (-1,), (0, 1, 2)])
def test_attributes_that_do_not_fit_are_refused(attributes):
    with pytest.raises(InvalidParameter, match="attributes"):
        checked_attributes(attributes, (1000, 1000, 1000))
