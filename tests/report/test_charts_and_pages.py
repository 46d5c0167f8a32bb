"""Charts and pages: whole, escaped, right places, no crash on strange numbers."""

import math
import re
import sys
from datetime import datetime, timedelta
from itertools import pairwise
from xml.dom.minidom import parseString

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.report import (
    Bars,
    Chart,
    Facts,
    Grid,
    Heading,
    Heat,
    Intervals,
    Line,
    Page,
    Places,
    Points,
    Text,
    Tiles,
    Verdict,
)
from discreet.report.calendar_axis import time_axis
from discreet.report.marks import Axis, label
from discreet.report.picture import Dots, Fill, Stroke, Words

NUMBERS = st.lists(st.floats(allow_infinity=False, width=32), min_size=1, max_size=8)


@given(NUMBERS, st.booleans(), st.booleans(), st.sampled_from([Line, Points]))
def test_any_numbers_give_a_picture_that_is_xml(values, log_x, log_y, kind):
    chart = Chart("t <&> t", [kind(list(range(1, len(values) + 1)), values, "l<")], log_x=log_x, log_y=log_y)
    assert parseString(chart.svg()).documentElement.tagName == "svg"
    assert "nan" not in chart.svg().replace("aria", "")
    assert "inf" not in chart.svg()


@given(NUMBERS)
def test_any_numbers_give_bars(values):
    svg = Chart("t", [Bars([f"n{i}" for i in range(len(values))], values)]).svg()
    parseString(svg)
    assert svg.count("<title>") == sum(not math.isnan(v) for v in values)


@given(st.lists(NUMBERS.filter(lambda v: len(v) >= 3).map(lambda v: v[:3]), min_size=1, max_size=5))
def test_any_matrix_gives_heat(rows):
    parseString(Chart("t", [Heat(rows, rows=["r"] * len(rows), columns=["a", "b", "c"])]).svg())


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_ticks_are_few_ordered_and_on_the_axis(low, span):
    axis = Axis.over([low, low + span], length=100)
    places = [place for place, _ in axis.ticks()]
    assert 2 <= len(places) <= 12
    assert places == sorted(places)
    assert axis.pixel(low) >= 0
    assert axis.pixel(low + span) <= 100
    assert axis.pixel(low) <= axis.pixel(low + span)


@given(st.floats(1e-300, 1e300), st.floats(1, 1e6))
def test_a_logarithmic_axis_spans_whole_decades(low, factor):
    axis = Axis.over([low, low * factor, -1.0, 0.0], length=10, log=True)
    assert axis.low <= low * 1.001
    assert axis.high >= low * factor * 0.999 or axis.high >= low * factor / 1.01
    assert 1 <= len(axis.ticks()) <= 12


def boxes(chart):
    """Left, top, right and bottom of what has a title: the bars."""
    for shape in chart.picture().shapes:
        if isinstance(shape, Fill) and shape.title:
            x, y = zip(*shape.outlines[0], strict=True)
            yield min(x), min(y), max(x), max(y)


@pytest.mark.parametrize("count", [2, 8])
def test_a_bar_twice_as_long_is_drawn_twice_as_long(count):
    """Few bars lie in rows, more stand."""
    first, second, *_ = boxes(Chart("t", [Bars([str(i) for i in range(count)], [1, 2] * (count // 2))]))
    side = 0 if count == 2 else 1
    assert second[side + 2] - second[side] == pytest.approx(2 * (first[side + 2] - first[side]), abs=0.2)


@pytest.mark.parametrize("labels", [["a", "b"], list("abcdefgh")])
def test_bars_of_nothing_stand_at_the_beginning_of_the_axis(labels):
    svg = Chart("t", [Bars(labels, [0.0] * len(labels))], y="%").svg()
    assert "−" not in svg
    assert ">1<" in svg


def test_two_bars_do_not_fill_a_screen():
    picture = Chart("t", [Bars(["attack", "guessing"], [0.9, 0.5])], y="share").picture()
    assert picture.height < 130
    assert all(bottom - top < 20 for _, top, _, bottom in boxes(Chart("t", [Bars(["a", "b"], [1, 2])])))


def test_a_line_stands_where_its_numbers_are():
    chart = Chart("t", [Line([0, 10], [0, 1])], x_range=(0, 10), y_range=(0, 1))
    (line,) = [shape.lines for shape in chart.picture().shapes if isinstance(shape, Stroke) and shape.color == 0]
    (x0, y0), (x1, y1) = line[0]
    assert (x1 - x0, y0 - y1) == (pytest.approx(378), pytest.approx(200))


def test_steps_hold_a_value_until_the_next():
    chart = Chart("t", [Line([0, 1, 2], [0, 1, 2], steps=True)])
    (line,) = [shape.lines[0] for shape in chart.picture().shapes if isinstance(shape, Stroke) and shape.color == 0]
    assert len(line) == 5
    assert all(a[0] == b[0] or a[1] == b[1] for a, b in pairwise(line))


def test_gaps_break_a_line_and_bands_are_drawn():
    chart = Chart("t", [Line([1, 2, 3, 4], [1, math.nan, 2, 3], low=[0, 0, 1, 2], high=[2, 2, 3, 4], dashed=True)])
    (line,) = [shape for shape in chart.picture().shapes if isinstance(shape, Stroke) and shape.color == 0]
    assert [len(run) for run in line.lines] == [1, 2]
    assert any(isinstance(shape, Fill) and shape.opacity < 0.5 for shape in chart.picture().shapes)
    assert "stroke-dasharray" in chart.svg()


def test_an_interval_without_an_end_goes_on():
    chart = Chart("t", [Intervals(["a", "b"], [1, math.nan], low=[-math.inf, 0], high=[2, 3])])
    shapes = chart.picture().shapes
    assert sum(isinstance(shape, Fill) for shape in shapes) == 1
    assert sum(isinstance(shape, Dots) for shape in shapes) == 1
    assert "inf" not in chart.svg()
    assert "nan" not in chart.svg()


def test_limits_stand_as_ticks():
    chart = Chart("t", [Bars(["a", "b"], [1, 2], limits=[2, math.nan])])
    (tick,) = [shape for shape in chart.picture().shapes if isinstance(shape, Stroke) and shape.color == "alert"]
    (x, _), _ = tick.lines[0]
    assert x == pytest.approx(next(box[2] for box in list(boxes(chart))[1:]))


def test_a_map_is_colored_by_the_root_up_to_its_top():
    heat = Heat([[1.0, 4.0], [0.0, 16.0]], aspect=1.0, scale=(0.25, "1 km"), top=4.0)
    cells = [shape for shape in Chart("t", [heat]).picture().shapes if isinstance(shape, Fill) and shape.crisp][:2]
    assert [len(shape.outlines) for shape in cells] == [1, 2]  # the least is empty; more than the top looks like it
    assert cells[0].opacity == pytest.approx(0.03 + 0.97 / 2)
    assert cells[1].opacity == 1


def test_a_page_escapes_everything():
    evil = "<script>alert(1)</script>"
    parts = [
        Heading(evil),
        Text(evil),
        Facts({evil: evil}),
        Grid([evil], [[evil]], caption=evil),
        Verdict(evil, evil),
        Tiles([(evil, evil)]),
    ]
    parts += [
        Chart(evil, [Bars([evil], [1], evil)], x=evil, y=evil),
        Chart(evil, [Heat([[1]], rows=[evil], columns=[evil])]),
    ]
    html = Page(evil, parts, lead=evil).html()
    assert "<script" not in html
    assert "default-src 'none'" in html


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
@pytest.mark.parametrize(
    "mark",
    [Line([1, 2], [3, 4], "a", low=[2, 3], high=[4, 5]), Points([1], [2], low=[1], high=[3]), Bars(["x"], [1], low=[0], high=[2]), Heat([[1, 2]], rows=["r"], columns=["a", "b"]), Intervals(["$x_", "東京"], [1, 2], low=[0, 1], high=[2, math.inf])],
)  # fmt: skip
def test_every_mark_is_saved_in_every_form(tmp_path, mark, ending):
    path = Chart("t", [mark], log_y=not isinstance(mark, Heat)).save(tmp_path / f"c.{ending}")
    assert path.read_bytes().startswith({"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    assert path.stat().st_size > 500


def test_a_picture_as_svg_needs_no_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    chart = Chart("t", [Line([1, 2], [3, 4])])
    assert chart.save(tmp_path / "c.svg").exists()
    with pytest.raises(MissingExtra, match="plot"):
        chart.save(tmp_path / "c.png")


def test_what_cannot_be_drawn_is_said(tmp_path):
    for wrong in (
        lambda: Line([1], [1, 2]), lambda: Line([1], [1], low=[1]), lambda: Bars(["a"], [1, 2]), lambda: Heat([1]),
        lambda: Line([[1]], [[1]]), lambda: Chart("t", [Bars(["a"], [1]), Line([1], [1])]),
        lambda: Chart("t", [Bars(["a"], [1]), Bars(["b"], [1])]),
    ):  # fmt: skip
        with pytest.raises(InvalidData):
            wrong()
    with pytest.raises(InvalidParameter, match=r"\.svg"):
        Chart("t", [Line([1], [1])]).save(tmp_path / "c.gif")


def test_labels_are_short():
    assert [label(v) for v in (0.0, 0.5, 1000.0, 999999.0, 1e7, 1e8, -2e-4, 12.5)] == ["0", "0.5", "1\u202f000", "999\u202f999", "10\u202f000\u202f000", "1e8", "−0.0002", "12.5"]  # fmt: skip


def _words(chart):
    return [shape for shape in chart.picture().shapes if isinstance(shape, Words)]


def test_long_titles_and_legends_take_several_lines():
    title = " ".join(["many words"] * 12)
    chart = Chart(title, [Line([1, 2], [1, 2], f"a curve with a long name {i}") for i in range(6)])
    words = _words(chart)
    assert title not in [one.text for one in words]
    assert all(len(one.text) <= 60 for one in words)
    legend = [one for one in words if one.text.startswith("a curve")]
    assert len(legend) == 6
    assert max(one.x + 7 * len(one.text) for one in legend) <= chart.picture().width
    assert chart.picture().height > Chart("t", [Line([1, 2], [1, 2])]).picture().height + 60


def test_long_names_stay_within_the_picture():
    names = [f"a very long name of a column {i}" for i in range(75)]
    bars, heat = (
        Chart("b", [Bars(names, range(75))]),
        Chart("h", [Heat([[0.0] * 20] * 20, names[:20], names[:20])], y="rows"),
    )
    for chart, count in ((bars, 38), (heat, 20)):
        slanted = [one for one in _words(chart) if one.turn == -35]
        assert len(slanted) == count
        assert all(one.x - 7 * len(one.text) * math.cos(math.radians(35)) >= -7 for one in slanted)
    longer = [f"{name}, and then some more of it" for name in names[:9]]
    for chart, start in ((heat, "a very"), (Chart("r", [Bars(longer, range(9))]), "a column")):
        rows = [word for word in _words(chart) if word.text.startswith(start) and not word.turn]
        assert len(rows) >= 9
        assert all(word.text.endswith("…") and word.x - 7 * len(word.text) >= 0 for word in rows)


def test_bars_with_long_names_lie_as_long_as_their_names_can_be_read():
    names = [f"a very long name of a column {i}" for i in range(60)]
    words = _words(Chart("b", [Bars(names, range(60))]))
    assert not any(word.turn for word in words)
    assert sum(word.anchor == "end" and word.text.startswith("a very") for word in words) == 60


def test_a_number_at_the_end_of_a_bar_does_not_stand_on_the_tick_of_its_limit():
    chart = Chart("spent", [Bars(["all", "bob"], [11.5, 0], limits=[60, 2])])
    shapes = chart.picture().shapes
    ticks = [s.lines[0][0][0] for s in shapes if isinstance(s, Stroke) and s.color == "alert"]
    numbers = [s.x for s in shapes if isinstance(s, Words) and s.text in ("11.5", "0") and s.anchor == "start"]
    assert numbers[1] > ticks[1] + 2
    assert numbers[0] + 30 < ticks[0]


def test_names_of_rows_have_two_lines_where_one_is_short_of_room():
    names = ["loss threshold, before", "loss"]
    words = [word for word in _words(Chart("r", [Bars(names, [1, 2])])) if word.anchor == "end"]
    assert [word.text for word in words] == ["loss threshold,", "before", "loss"]
    assert words[1].y - words[0].y >= 13, "lines do not overlap"
    assert words[2].y - words[1].y >= 13


def test_titles_are_wrapped_as_wide_as_they_are_drawn():
    title = "attribute inference: tell the condition of a person from zip, sex, born"
    picture = Chart(title, [Bars(["attack", "guessing"], [1, 0.2])]).picture()
    lines = [shape.text for shape in picture.shapes if isinstance(shape, Words) and shape.bold]
    assert " ".join(lines) == title
    assert max(len(line) for line in lines) * 9 <= picture.width


def test_words_are_set_as_numbers_in_tables_are():
    html = Page("t", [Text("1,000 people, 95 % of them"), Verdict("holds", "by 5 %")], "of 2,000").html()
    assert "of 2\u202f000" in html
    assert "1\u202f000 people, 95\xa0% of them" in html
    assert "by 5\xa0%" in html


def test_a_long_page_lists_its_headings_and_a_short_one_does_not():
    page = Page("t", [Heading(words) for words in ("One & all", "Two", "Two", "ε")]).html()
    links = re.findall(r'href="#([^"]+)"', page)
    assert links == re.findall(r'<h2 id="([^"]+)"', page)
    assert len(set(links)) == 4
    assert "<nav" not in Page("t", [Heading("One")]).html()


def test_a_page_loads_nothing_and_has_a_dark_side():
    html = Page("t", [Chart("c", [Line([1, 2], [1, 2])])]).html()
    assert "prefers-color-scheme:dark" in html
    assert not re.search(r"(src|href)=|url\(|@import", html)
    assert "uppercase" not in html  # ε stays ε


def test_verdicts_have_their_color_and_thousands_thin_spaces():
    html = Page("t", [Grid(("v", "n"), [("holds", 12345), ("falls", None)]), Verdict("undecided", "x")]).html()
    assert '<b class="good">holds</b>' in html
    assert '<b class="bad">falls</b>' in html
    assert "12\u202f345" in html
    assert 'class="verdict open"' in html


def test_a_caption_is_no_narrower_than_the_page():
    page = Page("t", [Grid(("a", "n"), [("x", 1)], "A <long> caption")]).html()
    assert '<p class="caption">A &lt;long&gt; caption</p><div class="wide"><table' in page
    assert '<th class="number">n</th>' in page


def words_of(chart):
    return [shape for shape in chart.picture().shapes if isinstance(shape, Words)]


@pytest.mark.parametrize("value", [9.0, 149_999.0, 999_999_999.0])
def test_the_number_at_the_end_of_a_bar_stays_in_the_picture(value):
    chart = Chart("People", [Bars(["Ashvale", "Northam"], [value, value / 7])])
    most = max(shape.x + 6.9 * len(shape.text) for shape in words_of(chart) if shape.anchor == "start")
    assert most <= chart.picture().width


@pytest.mark.parametrize("kind", [Intervals, Line])
def test_the_last_number_of_an_axis_stays_in_the_picture(kind):
    ends = [0.0, 26_000.0, 260_000.0]
    mark = Intervals(["a", "b", "c"], ends) if kind is Intervals else Line(ends, ends)
    picture = Chart("t", [mark]).picture()
    for word in picture.shapes:
        if isinstance(word, Words) and word.anchor == "middle" and not word.turn:
            assert word.x + 3.9 * len(word.text) <= picture.width


def test_zero_is_never_left_out_of_an_axis():
    chart = Chart(
        "n", [Bars(["a", "b", "c"], [172_000.0, -9000.0, 3.0], low=[160_000, -19_000, -9], high=[180_000, 9, 9])]
    )
    assert "0" in [shape.text for shape in words_of(chart)]


def test_the_name_of_an_axis_is_as_small_as_it_must_be():
    name = "p(output | x) / p(output | neighbor), of all that came"
    (title,) = [shape for shape in words_of(Chart("r", [Line([0, 1], [1, 2])], y=name)) if shape.text == name]
    assert title.size * len(name) * 7 / 13 <= 240


def test_discs_have_areas_like_their_numbers_and_names_that_do_not_touch():
    names = [f"town {place}" for place in range(12)]
    mark = Places(names, [4.0] + [1.0] * 11, [50 + place / 4 for place in range(12)], [0.0] * 12)
    shapes = Chart("Towns", [mark]).picture().shapes
    radii = {shape.title: np.ptp([x for x, _ in shape.outlines[0]]) / 2 for shape in shapes if isinstance(shape, Fill)}
    assert radii["town 0: 4"] == pytest.approx(2 * radii["town 5: 1"], rel=0.02)
    tags = sorted((s.x, s.y) for s in shapes if isinstance(s, Words) and s.text in names)
    assert len(tags) > 4
    assert all(b[0] > a[0] + 40 or abs(b[1] - a[1]) > 12 for a, b in pairwise(tags))
    highest = min((shape for shape in shapes if isinstance(shape, Fill)), key=lambda shape: shape.outlines[0][0][1])
    assert highest.title.startswith("town 11")  # the northernmost


def test_places_without_coordinates_or_numbers_are_left_out():
    mark = Places(["a", "b"], [np.nan, 2.0], [50.0, np.nan], [1.0, 2.0], low=[0.0, 1.0], high=[3.0, 4.0])
    assert Chart("Towns", [mark]).svg().count("<title>") == 1
    assert Chart("Nowhere", [Places(["a"], [1.0], [np.nan], [np.nan])]).svg().count("<title>") == 0


@pytest.mark.parametrize("seconds", [1, 70, 4000, 100_000, 10**6, 10**7, 10**8, 10**10, 2 * 10**11])
def test_a_time_axis_has_few_ticks_within_its_ends(seconds):
    first = datetime(1999, 12, 31, 23, 58, 7)
    days, ticks = time_axis([first + timedelta(seconds=seconds), first])
    assert days == [pytest.approx(seconds / 86_400), 0]
    assert 1 <= len(ticks) <= 5
    assert all(0 <= place <= days[0] for place, _ in ticks)
    assert len({text for _, text in ticks}) == len(ticks)


def test_a_column_of_names_or_dashes_is_no_column_of_numbers():
    html = Page("t", [Grid(["who", "n"], [["–", "1,200"], ["–", "–"]])]).html()
    assert "<th>who</th>" in html
    assert '<th class="number">n</th>' in html


def test_dates_in_tables_do_not_break_and_long_words_have_room():
    html = Page("t", [Grid(["when", "what"], [["2026-11-18 20:10", "a long story " * 9]])]).html()
    assert '<td class="whole">2026-11-18 20:10</td>' in html
    assert '<td class="long">a long story' in html


@pytest.mark.parametrize("most", [9.0, 57_000.0, 900_000.0])
@pytest.mark.parametrize("kind", ["line", "columns"])
def test_numbers_of_an_axis_do_not_run_into_its_name(most, kind):
    marks = [Line([0, 1], [0, most])] if kind == "line" else [Bars(list("abcdef"), [most] * 6)]
    words = words_of(Chart("n by month", marks, y="n"))
    numbers = [shape for shape in words if shape.anchor == "end"]
    assert numbers
    assert min(shape.x - 7.5 * len(shape.text) for shape in numbers) >= 16  # the name is as high as it is written
