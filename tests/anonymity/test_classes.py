"""Classes against a dictionary of tuples; suppressed rows never count."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes, Coded, Hierarchy, Recoding
from discreet.anonymity.classes import numbered
from discreet.errors import InvalidData

TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.tuples(*[st.integers(0, 5)] * width), min_size=1, max_size=40)
)


@given(TABLES, st.data())
@settings(max_examples=40)
def test_classes_are_the_distinct_rows(rows, data):
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    weights = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows))))
    classes = Classes.of(columns, suppressed=hidden, weights=weights)
    expected = Counter()
    for row, gone, weight in zip(rows, hidden, weights, strict=True):
        expected[row] += 0 if gone else int(weight)
    expected = {row: count for row, count in expected.items() if count}
    assert classes.sizes.tolist() == [expected[row] for row in sorted(expected)]
    order = {row: place for place, row in enumerate(sorted(expected))}
    assert classes.of_row.tolist() == [-1 if gone else order[row] for row, gone in zip(rows, hidden, strict=True)]


def test_huge_codes_do_not_overflow():
    big = np.array([2**61, 0, 2**61, 5])
    assert numbered([big, big, big, np.array([1, 0, 1, 0])]).tolist() == [2, 0, 2, 1]


def test_no_columns_and_no_rows():
    with pytest.raises(InvalidData):
        Classes.of([])
    assert Classes.of([np.array([], np.int64)]).count == 0


def test_a_released_table_is_read_again_without_its_suppressed_rows():
    released = {"zip": ["130**", "*", "130**", "*"], "age": ["<30", "*", "<30", "≥40"], "illness": ["a", "b", "c", "d"]}
    classes = Classes.of_table(released, ["zip", "age"])
    assert classes.of_row.tolist() == [1, -1, 1, 0] or classes.of_row.tolist() == [0, -1, 0, 1]
    assert sorted(classes.sizes.tolist()) == [1, 2]
    with pytest.raises(InvalidData, match="quasi"):
        Classes.of_table(released, [])


@given(TABLES, st.data())
@settings(max_examples=40)
def test_a_recoding_costs_what_its_cells_cost(rows, data):
    names = [f"c{i}" for i in range(len(rows[0]))]
    leaves = [Hierarchy.rows(name, [(v, v // 2) for v in range(6)]) for name in names]
    table = {name: list(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    coded = Coded.of(table, leaves)
    levels = np.array([data.draw(st.lists(st.integers(0, 2), min_size=len(rows), max_size=len(rows))) for _ in names])
    hidden = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))))
    recoding = Recoding(coded, levels.astype(np.int8), hidden)
    price = {0: 0.0, 1: 1 / 5, 2: 1.0}
    cells = [1.0 if hidden[r] else price[levels[c, r]] for c in range(len(names)) for r in range(len(rows))]
    assert recoding.ncp == pytest.approx(np.mean(cells))
    shown = recoding.table(table).to_pydict()
    for c, name in enumerate(names):
        for r, row in enumerate(rows):
            text = {0: str(row[c]), 1: str(row[c] // 2), 2: "*"}[2 if hidden[r] else levels[c, r]]
            assert shown[name][r] == text
    again = Classes.of_table(shown, names)
    gone = hidden | (levels == 2).all(axis=0)
    assert (again.of_row < 0).tolist() == gone.tolist()


def test_a_recoding_fits_its_own_table_only():
    coded = Coded.of({"sex": ["F"]}, [Hierarchy.flat("sex", ["F", "M"])])
    with pytest.raises(InvalidData, match="1 rows, the table has 2"):
        Recoding.full_domain(coded, [0], np.array([False])).table({"sex": ["F", "M"]})
    with pytest.raises(InvalidData, match="no rows"):
        Coded.of({"sex": []}, [Hierarchy.flat("sex", ["F"])])
    with pytest.raises(InvalidData, match="no quasi-identifiers"):
        Coded.of({"sex": ["F"]}, [])
