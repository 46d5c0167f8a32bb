"""Which chart fits an answer, from its columns; and that pictures show what was released."""

import datetime as dt
from dataclasses import replace

import pyarrow as pa
import pytest

from discreet.curator.answer import _example
from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Unit
from discreet.report import Places
from discreet.server.console.answer_charts import chart_of, columns_of, kinds_of, located_by


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
        ({"region": ["a", "a", "b", "b"], "sex": ["f", "m", "f", "m"], "n": [1, 2, 3, 4]}, ["bars", "heatmap"]),
        ({"lat": [1.0, 1.0, 2.0], "lon": [5.0, 6.0, 5.0], "n": [1, 2, 3]}, ["map", "bars"]),
        ({"town": ["a", "b"], "latitude": [1.0, 2.5], "longitude": [5.0, 6.5], "n": [1, 2]}, ["map", "bars"]),
        ({"sex": ["f", "m"], "lat": [1.0, 1.0], "lng": [5.0, 5.0], "n": [1, 2]}, ["bars"]),
        ({"n": [7]}, ["bars"]),
    ],
)
def test_the_kind_of_chart_follows_from_the_columns(columns, kinds):
    made = answer(**columns)
    assert kinds_of(made) == kinds
    assert columns_of(made) == ["n"]
    for kind in kinds:
        assert chart_of(made, kind, "n").svg().startswith("<svg")


def test_where_bars_would_not_show_all_of_two_columns_colors_come_first():
    keys = [(a, b) for a in "abcdefghi" for b in "abcdefghi"]
    made = answer(one=[a for a, _ in keys], two=[b for _, b in keys], n=[1] * len(keys))
    assert kinds_of(made) == ["heatmap", "bars"]


def test_a_line_is_in_the_order_of_time_with_its_band():
    chart = chart_of(answer(day=DAYS, n=[30, 10, 20]), "line", "n")
    line = chart.marks[0]
    assert line.x.tolist() == [0, 1, 2]
    assert line.y.tolist() == [10, 20, 30]
    assert line.low.tolist() == [9, 19, 29]
    assert (chart.x, dict(chart.x_ticks)[1.0]) == ("day", "Jan 2")


def test_years_stand_on_the_axis_as_years():
    chart = chart_of(answer(year=[2022, 2020, 2021], n=[3, 1, 2]), "line", "n")
    assert chart.marks[0].x.tolist() == [2020, 2021, 2022]
    assert [text for _, text in chart.x_ticks] == ["2020", "2021", "2022"]
    assert ">2021<" in chart.svg()


def test_few_whole_numbers_stand_on_the_axis_each():
    chart = chart_of(answer(month=list(range(1, 13)), n=list(range(12))), "line", "n")
    assert [text for _, text in chart.x_ticks] == [str(month) for month in range(1, 13)]


def test_coordinates_alone_are_no_numbers_to_draw():
    places = replace(_example(), table=pa.table(TOWNS), intervals={})
    assert columns_of(places) == []
    assert kinds_of(places) == []


def test_months_stand_on_the_axis_as_months():
    months = [dt.date(2020 + place // 12, place % 12 + 1, 1) for place in range(18)]
    shown = chart_of(answer(month=months, n=list(range(18))), "line", "n").svg()
    assert ">Jul 2020<" in shown
    assert "days since" not in shown


@pytest.mark.parametrize("order", [("lat", "lon"), ("lon", "lat")])
def test_a_map_of_places_has_the_north_on_top_and_the_west_on_the_left(order):
    places = {"lat": [1.0, 1.0, 2.0], "lon": [5.0, 6.0, 5.0]}
    chart = chart_of(answer(**{name: places[name] for name in order}, n=[10, 20, 30]), "map", "n")
    values = chart.marks[0].values.tolist()
    assert values[1] == [10, 20]
    assert values[0][0] == 30
    assert values[0][1] != values[0][1]  # nothing was answered there
    assert chart.x == "each within ± 1"


TOWNS = {"town": ["low", "high"], "latitude": [50.5, 54.0], "longitude": [-4.0, 1.0]}


def towns(private=False):
    """A catalog with a table of towns and their coordinates."""
    columns = [Column("town", "text", values=("low", "high")), Column("latitude", "real"), Column("longitude", "real")]
    people = Table("people", [Column("person", "integer")], unit=Unit("person"))
    return Catalog("land", [Table("towns", columns, unit=Unit() if private else None), people], neighbors="change one")


def test_places_far_apart_are_discs_where_they_lie():
    made = answer(**TOWNS, n=[10, 40])
    mark = chart_of(made, "map", "n").marks[0]
    assert isinstance(mark, Places)
    assert mark.labels == ("low", "high")
    assert (mark.north.tolist(), mark.east.tolist(), mark.high.tolist()) == ([50.5, 54.0], [-4.0, 1.0], [11, 41])


def test_named_places_are_located_by_a_public_table_and_no_other():
    asked = []

    def read(sql):
        asked.append(sql)
        return replace(_example(), table=pa.table(TOWNS), intervals={})

    made = answer(town=["high", "low"], n=[1, 2])
    located = located_by(made, towns(), read)
    assert located == {"low": (50.5, -4.0), "high": (54.0, 1.0)}
    assert asked == ['SELECT "town", "latitude", "longitude" FROM "towns" LIMIT 2000']
    assert kinds_of(made, located) == ["bars", "map"]
    assert chart_of(made, "map", "n", located).marks[0].north.tolist() == [54.0, 50.5]
    assert located_by(made, towns(private=True), read) is None
    assert located_by(answer(age=[1, 2], n=[1, 2]), towns(), read) is None
    assert len(asked) == 1


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
