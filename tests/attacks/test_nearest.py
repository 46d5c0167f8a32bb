"""The nearest rows, ties included, against brute force."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.attacks.tables.matching import Space
from discreet.errors import InvalidParameter

rows = st.lists(
    st.tuples(st.one_of(st.none(), st.integers(0, 6)), st.one_of(st.none(), st.sampled_from("abc")), st.integers(0, 3)),
    min_size=1,
    max_size=15,
)


def table(given_rows):
    return {
        "n": np.array([np.nan if row[0] is None else row[0] for row in given_rows], float),
        "t": np.array([row[1] for row in given_rows], object),
        "m": np.array([row[2] for row in given_rows]),
    }


def ranks(values, at):
    """The share of released values below, half of those equal."""
    held = values[~np.isnan(values)]
    if np.isnan(at) or not len(held):
        return np.nan
    points = np.unique(held)
    return float(np.interp(at, points, [((held < p).sum() + (held == p).sum() / 2) / len(held) for p in points]))


def distance(released, people, i, j):
    total = float(released["t"][j] is None or people["t"][i] is None or released["t"][j] != people["t"][i])
    for name in ("n", "m"):
        values = released[name].astype(float)
        gap = abs(ranks(values, values[j]) - ranks(values, float(people[name][i])))
        total += 1.0 if np.isnan(gap) else gap
    return total


@given(released=rows, people=rows, neighbors=st.integers(1, 3))
def test_nearest_are_those_of_brute_force(released, people, neighbors):
    a, b = table(released), table(people)
    space = Space(a)
    near = space.nearest(b, neighbors=neighbors)
    for i in range(len(people)):
        classes = near.classes[near.starts[i] : near.starts[i + 1]]
        first = [int(np.flatnonzero(space.of_row == c)[0]) for c in range(space.classes)]
        far = np.array([distance(a, b, i, j) for j in first])
        limit = np.sort(far)[min(neighbors, space.classes) - 1]
        assert set(np.flatnonzero(far < limit - 1e-4)) <= set(classes.tolist())
        assert set(classes.tolist()) <= set(np.flatnonzero(far < limit + 1e-4))


def test_equal_rows_are_found_at_once_however_near_others_are():
    values = np.array([0.0, 1e-12, 5.0, 7.0])
    near = Space({"x": values}).nearest({"x": values})
    assert near.classes.tolist() == [0, 1, 2, 3]


def test_all_ties_are_found():
    space = Space({"x": np.array(["a", "b", "c"], object)})
    assert sorted(space.nearest({"x": np.array(["z"], object)}).classes.tolist()) == [0, 1, 2]


def test_coarsened_labels_are_near_what_they_cover():
    space = Space({"age": np.array(["[20, 30)", "[30, 40)", "*", None], object)})
    near = space.nearest({"age": np.array([25, 35])})
    found = [
        {space.of_row.tolist().index(c) for c in near.classes[near.starts[i] : near.starts[i + 1]]} for i in (0, 1)
    ]
    assert found == [{0, 2}, {1, 2}]


def test_an_outlier_does_not_squeeze_the_rest():
    """With distances over the range, 1 and 2 would be the same beside a billion."""
    space = Space({"pay": np.array([1.0, 2.0, 1e9]), "zip": np.array(["a", "b", "b"], object)})
    near = space.nearest({"pay": np.array([1.9]), "zip": np.array(["b"], object)})
    assert space.of_row.tolist().index(int(near.classes[0])) == 1


def test_many_columns_of_texts():
    columns = {f"c{i}": np.array(["a", "b"], object) for i in range(200)}
    near = Space(columns).nearest({name: np.array(["b"], object) for name in columns}, neighbors=2)
    assert len(near.classes) == 2


def test_bad_settings():
    with pytest.raises(InvalidParameter, match="neighbors"):
        Space({"x": np.array([1])}).nearest({"x": np.array([1])}, neighbors=0)
