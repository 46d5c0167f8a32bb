"""Columns of any table, in one form; missing values match nothing; errors name columns, never values."""

import datetime

import numpy as np
import pandas
import polars
import pyarrow
import pytest
from pyarrow import csv, parquet

from discreet.attacks.tables.columns import as_numbers, as_texts, coded, columns, distinct, kind, missing
from discreet.errors import InvalidData, InvalidParameter

ROWS = {
    "zip": ["02138", "13053", None],
    "age": [28, 31, 45],
    "income": [1.5, None, 2.0],
    "born": [datetime.date(1990, 1, 2), None, datetime.date(1955, 7, 31)],
}


@pytest.fixture(params=["dict", "arrow", "pandas", "polars", "csv", "parquet"])
def table(request, tmp_path):
    arrow = pyarrow.table(ROWS)
    if request.param == "csv":
        csv.write_csv(arrow, tmp_path / "t.csv")
        return tmp_path / "t.csv"
    if request.param == "parquet":
        parquet.write_table(arrow, tmp_path / "t.parquet")
        return str(tmp_path / "t.parquet")
    return {
        "dict": lambda: ROWS,
        "arrow": lambda: arrow,
        "pandas": lambda: pandas.DataFrame(ROWS),
        "polars": lambda: polars.DataFrame(ROWS),
    }[request.param]()


def test_every_form_reads_the_same(table):
    read = columns(table)
    assert list(read) == list(ROWS)
    assert read["zip"].tolist() == ["02138", "13053", None]  # the leading zero stays
    assert read["age"].dtype == np.int64
    assert read["age"].tolist() == [28, 31, 45]
    np.testing.assert_array_equal(read["income"], [1.5, np.nan, 2.0])
    assert as_texts(read["born"]).tolist() == ["1990-01-02", None, "1955-07-31"]
    assert [kind(column) for column in read.values()] == ["text", "number", "number", "date"]
    assert [missing(column).tolist().index(True) for name, column in read.items() if name != "age"] == [2, 1, 1]


def test_missing_is_equal_to_nothing():
    a, b = coded(np.array(["x", None], object), np.array([None, "x", "y"], object))
    assert a.tolist() == [0, -1]
    assert b[0] == -1
    assert b[1] == 0
    floats, whole = coded(np.array([np.nan, -0.0]), np.array([0, 3]))
    assert floats.tolist()[0] == -1
    assert floats[1] == whole[0]  # −0 is 0
    dates = coded(np.array(["NaT", "2000-01-01"], "datetime64[D]"))[0]
    assert dates.tolist() == [-1, 0]


def test_different_kinds_are_compared_as_texts():
    a, b = coded(np.array([28, 3]), np.array(["3", "28.0"], object))
    assert a[1] == b[0]
    assert b[1] not in a.tolist()


def test_large_whole_numbers_keep_every_digit():
    read = columns({"id": pyarrow.array([2**60 + 1, None, 2**60])})["id"]
    codes = coded(read)[0]
    assert codes[0] != codes[2]
    assert codes[1] == -1


def test_other_types():
    words = pyarrow.array(["a", "b", "a"]).dictionary_encode()
    times = pyarrow.array([0, 1, None], pyarrow.timestamp("us"))
    flags = pyarrow.array([True, None, False])
    read = columns(pyarrow.table({"w": words, "t": times, "f": flags, "d": pyarrow.nulls(3)}))
    assert read["w"].tolist() == ["a", "b", "a"]
    assert missing(read["t"]).tolist() == [False, False, True]
    assert kind(read["f"]) == "text"
    assert missing(read["f"]).tolist() == [False, True, False]
    assert missing(read["d"]).all()
    with pytest.raises(InvalidData, match=r"column 'x': values of type list.* cannot be compared"):
        columns({"x": [[1], [2]]})


def test_a_csv_column_that_is_not_all_numbers_stays_text(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1;1;\n2x;2.5;\n")
    read = columns(tmp_path / "t.csv")
    assert read["a"].tolist() == ["1", "2x"]
    assert read["b"].tolist() == [1.0, 2.5]
    assert missing(read["c"]).all()


def test_texts_that_are_all_dates_are_dates():
    assert kind(columns({"d": ["1990-01-02", None, "1991-12-31"]})["d"]) == "date"
    assert kind(columns({"d": ["1990-01-02", "1991-13-31"]})["d"]) == "text"
    assert kind(columns({"d": ["1990-01", "1991-12"]})["d"]) == "text"
    assert kind(columns({"d": [None, None]})["d"]) == "text"


def test_numbers_and_distinct_values():
    assert as_numbers(np.array(["1970-01-03"], "datetime64[D]")).tolist() == [2.0]
    with pytest.raises(InvalidData, match="texts are not numbers"):
        as_numbers(np.array(["a"], object))
    column = np.array(["b", None, "a", "b"], object)
    assert distinct(column, coded(column)[0]).tolist() == ["b", "a"]


@pytest.mark.parametrize(
    ("table", "names", "error", "words"),
    [
        ({"age": [30]}, ["sex"], InvalidParameter, "without a column 'sex'.*it has: age"),
        ({"age": [30]}, ["age", "age"], InvalidParameter, "'age' is there twice"),
        ({"age": [30]}, "age", InvalidParameter, "expected a list of names"),
        ({"age": [30, 31], "sex": ["F"]}, None, InvalidData, "different lengths"),
        ({"age": []}, ["age"], InvalidData, "it has no rows"),
        ({}, None, InvalidData, "it has no columns"),
        (pyarrow.table([[1], [2]], names=["a", "a"]), ["a"], InvalidData, "two columns are named 'a'"),
        (3, None, InvalidParameter, "expected a pyarrow Table"),
    ],
)
def test_bad_tables(table, names, error, words):
    with pytest.raises(error, match=words):
        columns(table, names)


def test_errors_hold_no_private_value():
    with pytest.raises(InvalidData) as caught:
        columns({"age": [41231, "secret-text"]})
    assert "41231" not in str(caught.value)
    assert "secret-text" not in str(caught.value)
