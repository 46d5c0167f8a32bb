"""Mondrian against a slow recursion, and columns of every kind."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes
from discreet.anonymity.models import DistinctDiversity, KAnonymity, Target
from discreet.anonymity.recoding import global_recoding
from discreet.errors import InvalidData, InvalidParameter


def slow(columns: list[list[int]], k: int, rows: list[int]) -> list[frozenset[int]]:
    """Strict Mondrian as the paper has it: the widest column whose median cut is allowed."""
    whole = [max(column) - min(column) for column in columns]

    def width(j: int) -> float:
        values = [columns[j][row] for row in rows]
        return (max(values) - min(values)) / whole[j] if whole[j] else 0.0

    for j in sorted(range(len(columns)), key=lambda j: -width(j)):
        if width(j) == 0:
            break
        values = sorted(columns[j][row] for row in rows)
        median = values[len(values) // 2]
        below = [row for row in rows if columns[j][row] < median]
        upto = [row for row in rows if columns[j][row] <= median]
        choices = [left for left in (below, upto) if 0 < len(left) < len(rows)]
        left = min(choices, key=lambda left: abs(2 * len(left) - len(rows)))
        right = [row for row in rows if row not in left]
        if len(left) >= k and len(right) >= k:
            return slow(columns, k, left) + slow(columns, k, right)
    return [frozenset(rows)]


def boxes(part: global_recoding.Partition) -> set[frozenset[int]]:
    of_row = part.classes.of_row
    return {frozenset(np.flatnonzero(of_row == number).tolist()) for number in range(part.classes.count)}


@st.composite
def numbers(draw: st.DrawFn) -> tuple[list[list[int]], int]:
    rows, k = draw(st.integers(1, 30)), draw(st.integers(1, 4))
    columns = draw(
        st.lists(
            st.lists(st.integers(0, draw(st.sampled_from([0, 2, 50]))), min_size=rows, max_size=rows),
            min_size=1,
            max_size=3,
        )
    )
    return columns, min(k, rows)


@given(case=numbers())
@settings(max_examples=80)
def test_the_slow_recursion_finds_the_same_boxes(case: tuple[list[list[int]], int]) -> None:
    columns, k = case
    table = {f"x{j}": column for j, column in enumerate(columns)}
    part = global_recoding.partition(table, list(table), KAnonymity(k).bind(table))
    assert boxes(part) == set(slow(columns, k, list(range(len(columns[0])))))
    assert part.classes.sizes.min() >= k
    assert 0 <= part.ncp <= 1


@given(case=numbers(), holes=st.integers(0, 2**30))
@settings(max_examples=40)
def test_labels_hold_their_values_and_name_the_classes(case: tuple[list[list[int]], int], holes: int) -> None:
    columns, k = case
    rng = np.random.default_rng(holes)
    table = {f"x{j}": [None if rng.random() < 0.2 else value for value in column] for j, column in enumerate(columns)}
    part = global_recoding.partition(table, list(table), KAnonymity(k).bind({"x": columns[0]}))
    released = part.table(table)
    for name, values in table.items():
        for value, label in zip(values, released.column(name).to_pylist(), strict=True):
            if label != "*":
                assert (value is None) == (label is None)
            if label is not None and label != "*":
                low, _, high = label.strip("[]").partition("–")
                assert int(low) <= value <= int(high or low)
    texts = [released.column(name).fill_null("").to_pylist() for name in table]
    rows = list(zip(*texts, strict=True))
    assert len(set(rows)) == part.classes.count  # no two classes look the same
    assert min(rows.count(row) for row in set(rows)) >= k


def test_the_loss_by_hand() -> None:
    table = {"age": [20, 24, 60, 70]}
    part = global_recoding.partition(table, ["age"], KAnonymity(2).bind(table))
    assert part.table(table).column("age").to_pylist() == ["[20–24]", "[20–24]", "[60–70]", "[60–70]"]
    assert part.ncp == pytest.approx((2 * 4 / 50 + 2 * 10 / 50) / 4)


def test_ties_are_never_separated() -> None:
    table = {"age": [30] * 6 + [40]}
    part = global_recoding.partition(table, ["age"], KAnonymity(2).bind(table))
    assert part.table(table).column("age").to_pylist() == ["[30–40]"] * 7
    same = {"age": [30] * 6}
    assert global_recoding.partition(same, ["age"], KAnonymity(2).bind(same)).ncp == 0


def test_missing_values_are_separated_first() -> None:
    table = {"age": [None, None, 20, 30, 40, 50], "kg": [60, 61, 62, 63, 64, 65]}
    part = global_recoding.partition(table, ["age"], KAnonymity(2).bind(table))
    assert part.table(table).column("age").to_pylist() == [None, None, "[20–30]", "[20–30]", "[40–50]", "[40–50]"]
    alone = {"age": [None, 20, 20, 20]}
    part = global_recoding.partition(alone, ["age"], KAnonymity(2).bind(alone))
    assert part.table(alone).column("age").to_pylist() == ["*"] * 4
    assert part.ncp == 1


def test_a_column_that_is_missing_altogether() -> None:
    table = {"age": pyarrow.array([None, None], pyarrow.int64()), "kg": [1, 2]}
    part = global_recoding.partition(table, ["age", "kg"], KAnonymity(1).bind(table))
    assert part.table(table).to_pydict() == {"age": [None, None], "kg": ["1", "2"]}
    nothing = {"age": [None, None]}
    assert global_recoding.partition(nothing, ["age"], KAnonymity(2).bind(nothing)).ncp == 0


@pytest.mark.parametrize(
    ("values", "label"),
    [
        ([datetime.date(1987, 3, 12), datetime.date(1991, 11, 2)], "[1987-03-12–1991-11-02]"),
        (["1991-11-02", "1987-03-12"], "[1987-03-12–1991-11-02]"),
        ([datetime.datetime(2020, 1, 1, 12), datetime.datetime(2020, 1, 2)], "[2020-01-01 12:00:00"),
        (["100", "20"], "[20–100]"),
        (["1.5", "20"], "[1.5–20]"),
        ([1.5, 2.0], "[1.5–2]"),
        ([Decimal("1.5"), Decimal("2")], "[1.5–2]"),
        ([2**62, 2**62 + 1], "[4611686018427387904–4611686018427387905]"),
        ([-5, 3], "[-5–3]"),
    ],
)
def test_values_of_many_kinds(values: list[Any], label: str) -> None:
    table = {"x": values}
    released = global_recoding.partition(table, ["x"], KAnonymity(2).bind(table)).table(table)
    assert all(text.startswith(label) for text in released.column("x").to_pylist())


def test_dates_are_cut_like_numbers() -> None:
    days = ["2001-01-01", "2001-01-05", "2003-01-01", "2003-02-01"]
    part = global_recoding.partition({"born": days}, ["born"], KAnonymity(2).bind({"born": days}))
    assert boxes(part) == {frozenset({0, 1}), frozenset({2, 3})}


@given(seed=st.integers(0, 2**30))
@settings(max_examples=40)
def test_other_models_hold_for_every_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = {"x": rng.integers(0, 50, 60), "y": rng.normal(size=60), "disease": rng.choice(3, 60, p=[0.6, 0.3, 0.1])}
    aim = Target.of(KAnonymity(3), DistinctDiversity(2, "disease")).bind(table)
    part = global_recoding.partition(table, ["x", "y"], aim)
    assert aim.holds(part.classes).all()
    assert part.classes.count > 1
    assert (Classes.numbered(part.classes.of_row).sizes == part.classes.sizes).all()


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["Pisa", "Rome"], "not all its values are numbers"),
        ([1.0, float("inf")], "the value of row 2 is infinite"),
        ([True, False], "neither numbers nor dates"),
        ([[1], [2]], "neither numbers nor dates"),
    ],
)
def test_values_without_an_order_are_refused(values: list[Any], problem: str) -> None:
    with pytest.raises(InvalidData, match=problem) as told:
        global_recoding.partition({"x": values}, ["x"], KAnonymity(1).bind({"x": values}))
    assert "Pisa" not in str(told.value)


def test_not_a_number_is_missing() -> None:
    table = {"x": [float("nan"), 1.0]}
    part = global_recoding.partition(table, ["x"], KAnonymity(2).bind(table))
    assert part.table(table).column("x").to_pylist() == ["*", "*"]


def test_targets_and_names_that_cannot_be() -> None:
    table = {"x": [1, 2, 3], "disease": ["plague"] * 3}
    with pytest.raises(InvalidData, match="the table has 3 rows, but 5-anonymity"):
        global_recoding.partition(table, ["x"], KAnonymity(5).bind(table, feasible=False))
    with pytest.raises(InvalidData, match="not even all 3 rows"):
        global_recoding.partition(table, ["x"], DistinctDiversity(2, "disease").bind(table, feasible=False))
    aim = KAnonymity(1).bind(table)
    for names in ([], "x", ["x", "x"]):
        with pytest.raises(InvalidData, match="quasi-identifier"):
            global_recoding.partition(table, names, aim)
    with pytest.raises(InvalidParameter, match="column"):
        global_recoding.partition(table, ["y"], aim)
    with pytest.raises(InvalidData, match="no rows"):
        global_recoding.partition({"x": []}, ["x"], aim)
    with pytest.raises(InvalidData, match="of 3 rows, the table has 1"):
        global_recoding.partition(table, ["x"], aim).table({"x": [1]})


def test_one_row() -> None:
    table = {"x": [7]}
    assert global_recoding.partition(table, ["x"], KAnonymity(1).bind(table)).table(table).to_pydict() == {"x": ["7"]}


def test_the_largest_numbers_there_are():
    made = global_recoding.partition({"a": [1e308, -1e308, 0.0, 1.0]}, ["a"], KAnonymity(2).bind({"a": [1.0] * 4}))
    assert made.classes.sizes.tolist() == [2, 2]
    assert 0 < made.ncp < 1
