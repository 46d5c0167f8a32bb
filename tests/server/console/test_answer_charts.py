"""Which chart fits an answer, from its columns; and that pictures show what was released."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from discreet.curator.answer import _example
from discreet.errors import InvalidParameter
from discreet.server.console.answer_charts import chart_of, columns_of, kinds_of


def answer(**columns):
    """An answer whose column n has intervals."""
    table = pa.table(columns)
    ends = (pa.array([value - 1 for value in columns["n"]]), pa.array([value + 1 for value in columns["n"]]))
    return replace(_example(), table=table, intervals={"n": ends})


DAYS = [dt.date(2020, 1, day) for day in (3, 1, 2)]


@pytest.mark.parametrize(
    ("columns", "kinds"),
    [
        ({"region": ["a", "b"], "n": [1, 2]}, ["bars"]),
        ({"day": DAYS, "n": [1, 2, 3]}, ["line", "bars"]),
        ({"year": [2020, 2021, 2022], "n": [1, 2, 3]}, ["line", "bars"]),
        ({"region": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "m"], "n": [1, 2, 3, 4]}, ["bars", "map"]),
        ({"lat": [1.0, 1.0, 2.0], "lon": [5.0, 6.0, 5.0], "n": [1, 2, 3]}, ["map", "bars"]),
        ({"n": [7]}, ["bars"]),
    ],
)
def test_the_kind_of_chart_follows_from_the_columns(columns, kinds):
    made = answer(**columns)
    assert kinds_of(made) == kinds
    assert columns_of(made) == ["n"]
    for kind in kinds:
        assert chart_of(made, kind, "n").svg().startswith("<svg")


def test_a_line_is_in_the_order_of_time_with_its_band():
    chart = chart_of(answer(day=DAYS, n=[30, 10, 20]), "line", "n")
    line = chart.marks[0]
    assert line.x.tolist() == [0, 1, 2]
    assert line.y.tolist() == [10, 20, 30]
    assert line.low.tolist() == [9, 19, 29]
    assert chart.x == "days since 2020-01-01"


def test_years_are_counted_from_the_first():
    chart = chart_of(answer(year=[2022, 2020, 2021], n=[3, 1, 2]), "line", "n")
    assert chart.marks[0].x.tolist() == [0, 1, 2]
    assert chart.x == "year, counted from 2020"


@pytest.mark.parametrize("order", [("lat", "lon"), ("lon", "lat")])
def test_a_map_of_places_has_the_north_on_top_and_the_west_on_the_left(order):
    places = {"lat": [1.0, 1.0, 2.0], "lon": [5.0, 6.0, 5.0]}
    chart = chart_of(answer(**{name: places[name] for name in order}, n=[10, 20, 30]), "map", "n")
    assert chart.marks[0].values.tolist() == [[30, 0], [10, 20]]


def test_bars_carry_the_intervals_that_were_released():
    bars = chart_of(answer(region=["a", None], n=[1, 2]), "bars", "n").marks[0]
    assert bars.low.tolist() == [0, 1]
    assert bars.high.tolist() == [2, 3]


def test_a_column_that_cannot_be_drawn_is_refused_in_words():
    with pytest.raises(InvalidParameter, match="expected one of n"):
        chart_of(_example(), "bars", "region")
    with pytest.raises(InvalidParameter, match="expected one of bars"):
        chart_of(_example(), "line", "n")
    empty = replace(_example(), table=_example().table.slice(0, 0), intervals={})
    assert kinds_of(empty) == []
