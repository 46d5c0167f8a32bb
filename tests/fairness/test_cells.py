"""Counting: every way in gives the same cells; classes, missing values, bins and what is refused."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.fairness.cells import Cells
from discreet.fairness.column_codes import binned

TABLE = {
    "y": [1, 0, 1, 0, 1, 0],
    "yhat": [1, 1, 0, 0, 1, 0],
    "sex": ["f", "f", "f", "m", "m", "m"],
    "job": ["a", "b", "a", "a", "b", "b"],
}
NAMES = {"label": "y", "prediction": "yhat", "group": "sex"}


def by_hand(table, label="y", prediction="yhat", group="sex"):
    groups = sorted(set(table[group]))
    counts = np.zeros((len(groups), 2, 2), int)
    for y, p, a in zip(table[label], table[prediction], table[group], strict=True):
        counts[groups.index(a), y, p] += 1
    return counts


@pytest.mark.parametrize("kind", ["columns", "arrow", "pandas", "polars", "csv", "parquet", "arrays", "counts"])
def test_every_way_in_gives_the_same_cells(kind, tmp_path):
    frame = pd.DataFrame(TABLE)
    if kind == "csv":
        frame.to_csv(tmp_path / "t.csv", index=False)
    if kind == "parquet":
        frame.to_parquet(tmp_path / "t.parquet")
    if kind == "arrays":
        cells = Cells.of_arrays(np.array(TABLE["y"]), np.array(TABLE["yhat"]), np.array(TABLE["sex"]))
    elif kind == "counts":
        counted = frame.groupby(["y", "yhat", "sex"]).size().reset_index(name="n")
        cells = Cells.of(counted, **NAMES, count="n")
    else:
        table = {
            "columns": TABLE, "arrow": pa.table(TABLE), "pandas": frame, "polars": pl.DataFrame(TABLE),
            "csv": tmp_path / "t.csv", "parquet": str(tmp_path / "t.parquet"),
        }[kind]  # fmt: skip
        cells = Cells.of(table, **NAMES)
    assert (cells.tables()[0] == by_hand(TABLE)).all()
    assert cells.rows == 6


def test_counts_from_sql_are_cells_too():
    import duckdb

    connection = duckdb.connect()
    connection.register("people", pa.table(TABLE))
    counted = connection.sql("SELECT sex, job, y, yhat, COUNT(*) AS n FROM people GROUP BY ALL").to_arrow_table()
    cells = Cells.of(counted, **NAMES, given="job", count="n")
    assert (cells.counts == Cells.of(TABLE, **NAMES, given="job").counts).all()


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("ab"), st.sampled_from("xyz")), min_size=1))
def test_views_are_sums_of_the_intersection(rows):
    y, p, a, b = (np.array(side) for side in zip(*rows, strict=True))
    cells = Cells.of({"y": y, "p": p, "a": a, "b": b}, label="y", prediction="p", group=["a", "b"])
    both = cells.by("a", "b")
    assert both.rows == len(rows)
    for name, values in (("a", a), ("b", b)):
        view = cells.by(name)
        for place, value in enumerate(view.attributes[0].values):
            for label in (0, 1):
                for prediction in (0, 1):
                    counted = ((values == value) & (y == label) & (p == prediction)).sum()
                    assert view.tables()[0][place, label, prediction] == counted
        inside = [
            k for k, group in enumerate(both.attributes[0].values) if view.attributes[0].values[0] in group.split(", ")
        ]
        assert (both.tables()[0][inside].sum(axis=0) == view.tables()[0][0]).all()
        assert view.merged * len(view.attributes[0]) == len(both.attributes[0])


def test_several_attributes_come_alone_and_together():
    names = [
        view.attributes[0].name for view in Cells.of(TABLE, label="y", prediction="yhat", group=["sex", "job"]).views()
    ]
    assert names == ["sex", "job", "sex × job"]


def test_categories_without_a_row_are_empty_groups():
    frame = pd.DataFrame(TABLE)
    frame["sex"] = pd.Categorical(frame["sex"], categories=["x", "m", "f"])
    cells = Cells.of(frame, **NAMES)
    assert cells.attributes[0].values == ("x", "m", "f")
    assert cells.tables()[0].sum(axis=(1, 2)).tolist() == [0, 3, 3]


# --- classes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, 1],
        [1.0, 0.0, 1.0],
        [True, False, True],
        ["1", "0", "1"],
        ["yes", "no", "yes"],
        ["True", "False", "True"],
        [1, -1, 1],
        ["Y", "N", "Y"],
    ],
)
def test_two_classes_that_need_no_word(values):
    cells = Cells.of({"p": values, "a": ["x", "x", "y"]}, prediction="p", group="a")
    assert cells.tables()[0][:, 0].tolist() == [[1, 1], [0, 1]]
    assert not cells.labeled


def test_labels_and_predictions_may_be_spelled_differently():
    cells = Cells.of({"y": [True, False], "p": [1.0, 0.0], "a": ["x", "x"]}, label="y", prediction="p", group="a")
    assert cells.tables()[0][0].tolist() == [[1, 0], [0, 1]]


def test_one_class_alone_is_known_by_its_name():
    none = Cells.of({"y": [0, 0], "p": [0, 0], "a": ["x", "y"]}, label="y", prediction="p", group="a")
    assert none.tables()[0][:, 0, 0].tolist() == [1, 1]
    words = Cells.of(
        {"y": ["good", "bad"], "p": ["bad", "bad"], "a": ["x", "y"]},
        label="y", prediction="p", group="a", positive="good",
    )  # fmt: skip
    assert words.tables()[0].tolist() == [[[0, 0], [1, 0]], [[1, 0], [0, 0]]]


def test_more_than_two_classes_are_one_against_the_rest():
    table = {"y": [0, 1, 1, 0], "risk": ["Low", "Medium", "High", "High"], "a": ["x"] * 4}
    with pytest.raises(InvalidParameter, match="risk: got '3 classes', expected two classes.*state which are positive"):
        Cells.of(table, label="y", prediction="risk", group="a")
    cells = Cells.of(table, label="y", prediction="risk", group="a", positive=["Medium", "High"])
    assert cells.tables()[0][0].tolist() == [[1, 1], [0, 2]]
    assert cells.notes == ("risk: High or Medium against Low.",)
    three = Cells.of(
        {"y": ["a", "b", "c"], "p": ["a", "c", "c"], "g": ["x"] * 3}, label="y", prediction="p", group="g", positive="c"
    )
    assert three.tables()[0][0].tolist() == [[1, 1], [0, 1]]


def test_two_strange_classes_need_a_word():
    table = {"p": ["granted", "denied"], "a": ["x", "y"]}
    with pytest.raises(InvalidParameter, match="classes are: denied, granted"):
        Cells.of(table, prediction="p", group="a")
    with pytest.raises(InvalidParameter, match="positive: got 'given', expected a class of p"):
        Cells.of(table, prediction="p", group="a", positive="given")
    assert Cells.of(table, prediction="p", group="a", positive="granted").tables()[0][:, 0].tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize("values", [[0.2, 0.9, 1.0], ["0.2", "0.9", "1"]])
def test_probabilities_where_classes_are_expected(values):
    table = {"y": [0, 1, 1], "p": values, "a": ["x"] * 3}
    for positive in ((), "1"):
        with pytest.raises(
            InvalidParameter, match="p: got 'numbers between 0 and 1', expected classes; say a threshold"
        ):
            Cells.of(table, label="y", prediction="p", group="a", positive=positive)
    cells = Cells.of(table, label="y", prediction="p", group="a", threshold="0.9")
    assert cells.tables()[0][0].tolist() == [[1, 0], [0, 2]]
    assert Cells.of(table, label="y", score="p", group="a", threshold="0.95").tables()[0][0].tolist() == [
        [1, 0],
        [1, 1],
    ]
    with pytest.raises(InvalidParameter, match="y: got 'numbers between 0 and 1'"):
        Cells.of({"y": values, "p": [0, 1, 1], "a": ["x"] * 3}, label="y", prediction="p", group="a")


# --- missing values -------------------------------------------------------------------------------------------------

GAPPY = {
    "y": ["1", "0", "", "1", "0"],
    "p": ["1", "0", "1", "", "1"],
    "a": ["x", "?", "x", "y", None],
    "x": ["1", "2", "3", "4", "5"],
}
GAPPY_NAMES = {"label": "y", "prediction": "p", "group": "a", "absent": ["?"]}


def test_missing_values_are_refused_left_out_or_a_group():
    with pytest.raises(InvalidData, match="4 of 5 rows lack a value.*missing='drop'.*missing='group'"):
        Cells.of(GAPPY, **GAPPY_NAMES)
    dropped = Cells.of(GAPPY, **GAPPY_NAMES, missing="drop")
    assert (dropped.rows, dropped.dropped) == (1, 4)
    kept = Cells.of(GAPPY, **GAPPY_NAMES, missing="group")
    assert kept.attributes[0].values == ("x", "y", "(missing)")
    assert (kept.rows, kept.dropped) == (3, 2)  # a row without label or prediction belongs nowhere
    assert kept.tables()[0][2].tolist() == [[1, 1], [0, 0]]
    with pytest.raises(InvalidParameter, match="'error', 'drop' or 'group'"):
        Cells.of(GAPPY, **GAPPY_NAMES, missing="ignore")


def test_nan_and_none_are_missing_in_numbers_too():
    table = {"p": [1.0, np.nan, 0.0], "a": ["x", "x", "y"]}
    assert Cells.of(table, prediction="p", group="a", missing="drop").rows == 2
    frame = pd.DataFrame({"p": [1, 0, 1], "s": [0.5, None, 0.25], "a": ["x", "x", "y"]})
    assert Cells.of(frame, prediction="p", score="s", group="a", missing="drop").rows == 2


def test_nothing_left_is_said():
    with pytest.raises(InvalidData, match="no row has all the values"):
        Cells.of({"p": ["", ""], "a": ["x", "y"]}, prediction="p", group="a", missing="drop")
    with pytest.raises(InvalidData, match="no rows"):
        Cells.of(pa.table({"p": pa.array([], pa.int64()), "a": pa.array([], pa.string())}), prediction="p", group="a")


# --- strata, bins, scores -------------------------------------------------------------------------------------------


def test_numbers_are_binned_at_edges_or_in_equal_parts():
    assert binned("age", [17, 25, 44, 45, np.nan], [25, 45]).codes.tolist() == [0, 1, 1, 2, -1]
    four = binned("x", np.arange(100), 4)
    assert np.bincount(four.codes).tolist() == [25, 25, 25, 25]
    ties = binned("x", [0] * 90 + [1] * 10, 4)
    assert set(np.bincount(ties.codes).tolist()) == {90, 10}
    assert binned("x", [3.0, 3.0], 3).values == ("all",)
    for wrong in (1, 0, [], [np.inf], 2.5):
        with pytest.raises(InvalidParameter, match="bins of x"):
            binned("x", [1.0, 2.0], wrong)


def test_strata_are_the_combinations_that_occur():
    cells = Cells.of(
        {**TABLE, "age": [20, 30, 40, 50, 60, 70]}, **NAMES, given=["job", "age"], bins={"age": [45]}
    )  # fmt: skip
    assert cells.strata.name == "job × age"
    assert cells.strata.values == ("a, < 45", "a, ≥ 45", "b, < 45", "b, ≥ 45")
    assert cells.counts.sum() == 6
    with pytest.raises(InvalidParameter, match="bins: got 'pay'"):
        Cells.of(TABLE, **NAMES, bins={"pay": 3})


def test_a_column_of_many_values_must_be_binned():
    many = {"p": [0, 1] * 200, "a": ["x", "y"] * 200, "pay": np.arange(400)}
    with pytest.raises(
        InvalidParameter, match="pay: got '400 different values', expected at most 100; bin its numbers"
    ):
        Cells.of(many, prediction="p", group="a", given="pay")
    assert len(Cells.of(many, prediction="p", group="a", given="pay", bins={"pay": 5}).strata) == 5
    assert len(Cells.of(many, prediction="p", group="pay", bins={"pay": 5}).attributes[0]) == 5
    text = {**many, "pay": [f"w{k}" for k in range(400)]}
    with pytest.raises(InvalidData, match="not all its values are numbers"):
        Cells.of(text, prediction="p", group="a", given="pay", bins={"pay": 5})


def test_probabilities_have_bins_of_equal_width_and_levels_their_own():
    table = {"y": [0, 1], "p": [0, 1], "s": [0.05, 1.0], "a": ["x", "y"]}
    cells = Cells.of(table, label="y", prediction="p", score="s", group="a", score_bins=5)
    assert cells.bins.values[0] == "0 to 0.2"
    assert cells.bin_tables()[0].sum(axis=(1, 2, 3)).tolist() == [1, 0, 0, 0, 1]
    assert cells.scores.tolist() == [[0.05, 0, 0, 0, 0], [0, 0, 0, 0, 1.0]]
    levels = Cells.of({**table, "s": [3, 10]}, label="y", prediction="p", score="s", group="a")
    assert levels.bins.values == ("3", "10")
    assert levels.scores is None


def test_too_many_cells_are_refused():
    table = {"p": [0, 1] * 50} | {f"a{k}": [str(n) for n in range(100)] for k in range(4)}
    with pytest.raises(InvalidParameter, match="cells.*at most 4,000,000"):
        Cells.of(table, prediction="p", group=list(table)[1:])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"prediction": "nothing"}, "nothing"),
        ({"label": "nothing"}, "nothing"),
        ({"group": "nothing"}, "nothing"),
        ({"group": []}, "at least one column"),
        ({"group": ["sex", "sex"]}, "each once"),
        ({"given": "nothing"}, "nothing"),
        ({"prediction": None}, "name the column of predictions"),
        ({"count": "sex"}, "not all its values are numbers"),
        ({"threshold": "much"}, "threshold"),
    ],
)
def test_what_is_refused(changes, words):
    with pytest.raises((InvalidParameter, InvalidData), match=words):
        Cells.of(TABLE, **{**NAMES, **changes})


def test_counts_must_be_whole():
    for bad in ([1, -1], [0.5, 1], [1, None]):
        with pytest.raises(InvalidData, match="whole numbers ≥ 0"):
            Cells.of({"p": [0, 1], "a": ["x", "y"], "n": bad}, prediction="p", group="a", count="n")


def test_a_view_needs_known_attributes():
    cells = Cells.of(TABLE, **NAMES)
    for names in ((), ("race",)):
        with pytest.raises(InvalidParameter, match="some of sex"):
            cells.by(*names)
