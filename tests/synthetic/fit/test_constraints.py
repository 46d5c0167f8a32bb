import numpy as np
import pytest

from discreet.errors import InvalidParameter
from discreet.synthetic.measure.noisy_marginals import Allowed, at_most, groups


def test_at_most_compares_codes_in_either_order_of_columns():
    assert at_most(0, 1, (2, 3)).table.tolist() == [[True, True, True], [False, True, True]]
    turned = at_most(1, 0, (2, 3))
    assert turned.attributes == (0, 1)
    assert turned.holds(np.array([[0, 0], [0, 1], [1, 1], [1, 2]])).tolist() == [True, False, True, False]


def test_at_most_compares_values_of_bins_where_they_are_given():
    started, ended = [0, 10, 20], [4, 14]  # A's least values, B's greatest
    found = at_most(0, 1, (3, 2), lower=started, upper=ended)
    assert found.table.tolist() == [[True, True], [False, True], [False, False]]


def test_a_missing_value_goes_with_all():
    found = at_most(0, 1, (3, 3), missing=True)
    assert found.table[2].all()
    assert found.table[:, 2].all()
    assert not found.table[1, 0]


def test_constraints_that_share_a_column_are_one_group():
    sizes = (2,) * 6
    parts = [at_most(0, 1, sizes), at_most(2, 3, sizes), at_most(4, 5, sizes), at_most(1, 2, sizes)]
    found = {tuple(columns): len(together) for columns, together in groups(parts)}
    assert found == {(0, 1, 2, 3): 3, (4, 5): 1}
    assert groups([]) == []


@pytest.mark.parametrize(
    ("attributes", "table"),
    [
        ((0, 1), np.ones((2, 2), bool)),
        ((0, 1), np.ones((2, 3))),
        ((0, 1), np.zeros((2, 3), bool)),
        ((1, 0), np.ones((3, 2), bool)),
        ((7,), np.ones(2, bool)),
    ],
)
def test_bad_constraints_are_refused(attributes, table):
    with pytest.raises(InvalidParameter):
        Allowed(attributes, table, (2, 3))


@pytest.mark.parametrize("given", [{"lower": [1]}, {"upper": [1]}])
def test_bad_bins_are_refused(given):
    with pytest.raises(InvalidParameter, match="lower"):
        at_most(0, 1, (2, 3), **given)


def test_a_column_is_not_compared_with_itself():
    with pytest.raises(InvalidParameter, match="another column"):
        at_most(1, 1, (2, 3))
