"""Charts and pages: whole, escaped, right places, no crash on strange numbers."""

import math
import re
from xml.dom.minidom import parseString

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidData, InvalidParameter
from discreet.report import Bars, Chart, Facts, Grid, Heading, Heat, Line, Page, Points, Text, Verdict
from discreet.report.axis import Axis, label

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
    assert svg.count("<rect") == sum(not math.isnan(v) for v in values)


@given(st.lists(NUMBERS.filter(lambda v: len(v) >= 3).map(lambda v: v[:3]), min_size=1, max_size=5))
def test_any_matrix_gives_heat(rows):
    parseString(Chart("t", [Heat(rows, rows=["r"] * len(rows), columns=["a", "b", "c"])]).svg())


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_ticks_are_few_ordered_and_on_the_axis(low, span):
    axis = Axis.over([low, low + span], length=100)
    places = [place for place, _ in axis.ticks()]
    assert 2 <= len(places) <= 12
    assert places == sorted(places)
    assert axis.place(low) >= 0
    assert axis.place(low + span) <= 100
    assert axis.place(low) <= axis.place(low + span)


@given(st.floats(1e-300, 1e300), st.floats(1, 1e6))
def test_a_logarithmic_axis_spans_whole_decades(low, factor):
    axis = Axis.over([low, low * factor, -1.0, 0.0], length=10, log=True)
    assert axis.low <= low * 1.001
    assert axis.high >= low * factor * 0.999 or axis.high >= low * factor / 1.01
    assert 1 <= len(axis.ticks()) <= 12


def test_a_bar_twice_as_high_is_drawn_twice_as_high():
    svg = Chart("t", [Bars(["a", "b"], [1, 2])]).svg()
    first, second = (float(h) for h in re.findall(r'<rect[^>]* height="([\d.]+)"', svg))
    assert second == pytest.approx(2 * first, abs=0.2)


def test_a_line_stands_where_its_numbers_are():
    svg = Chart("t", [Line([0, 10], [0, 1])], x_range=(0, 10), y_range=(0, 1)).svg()
    path = re.search(r'<path d="M([\d.]+),([\d.]+) L([\d.]+),([\d.]+)" fill="none"', svg)
    x0, y0, x1, y1 = (float(v) for v in path.groups())
    assert (x0, y1) == (0, 0)
    assert x1 > 500
    assert y0 > 200


def test_gaps_break_a_line_and_bands_are_drawn():
    svg = Chart("t", [Line([1, 2, 3, 4], [1, math.nan, 2, 3], low=[0, 0, 1, 2], high=[2, 2, 3, 4], dashed=True)]).svg()
    assert svg.count('fill="none" stroke="#2c6c8c"') == 2
    assert "<polygon" in svg
    assert "stroke-dasharray" in svg


def test_a_page_escapes_everything():
    evil = "<script>alert(1)</script>"
    parts = [Heading(evil), Text(evil), Facts({evil: evil}), Grid([evil], [[evil]], caption=evil), Verdict(evil, evil)]
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
    [Line([1, 2], [3, 4], "a", low=[2, 3], high=[4, 5]), Points([1], [2], low=[1], high=[3]), Bars(["x"], [1], low=[0], high=[2]), Heat([[1, 2]], rows=["r"], columns=["a", "b"])],
)  # fmt: skip
def test_every_mark_is_saved_in_every_form(tmp_path, mark, ending):
    path = Chart("t", [mark], log_y=not isinstance(mark, Heat)).save(tmp_path / f"c.{ending}")
    assert path.stat().st_size > 500


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
    assert [label(v) for v in (0.0, 0.5, 1000.0, 999999.0, 1e6, -2e-4, 12.5)] == ["0", "0.5", "1,000", "999,999", "1e6", "-0.0002", "12.5"]  # fmt: skip


def _texts(svg):
    return [(node.getAttribute("x"), node.firstChild.data if node.firstChild else "") for node in parseString(svg).getElementsByTagName("text")]  # fmt: skip


def test_long_titles_and_legends_take_several_lines():
    title = " ".join(["many words"] * 12)
    chart = Chart(title, [Line([1, 2], [1, 2], f"a curve with a long name {i}") for i in range(6)])
    texts = [text for _, text in _texts(chart.svg())]
    assert title not in texts
    assert all(len(text) <= 72 for text in texts)
    places = [float(x) + 6.6 * len(text) for x, text in _texts(chart.svg()) if text.startswith("a curve")]
    assert len(places) == 6
    assert max(places) <= 640 - 70
    assert parseString(chart.svg()).documentElement.getAttribute("height") > "340"


def test_long_names_stay_within_the_picture():
    names = [f"a very long name of a column {i}" for i in range(20)]
    bars, heat = Chart("b", [Bars(names, range(20))]), Chart("h", [Heat([[0.0] * 20] * 20, names, names)], y="rows")
    for chart, margin in ((bars, 70), (heat, 170)):
        slanted = re.findall(r'<text x="([\d.]+)" y="[\d.]+" transform="rotate\(-35[^>]*>([^<]*)<', chart.svg())
        assert len(slanted) == 20
        for x, text in slanted:
            assert margin + float(x) - 6.6 * len(text) * math.cos(math.radians(35)) >= -7
    rows = re.findall(r'<text x="-6"[^>]*>([^<]*)<', heat.svg())
    assert all(text.endswith("…") and 6.6 * len(text) <= 170 - 12 for text in rows)


def test_a_caption_is_no_narrower_than_the_page():
    page = Page("t", [Grid(("a", "n"), [("x", 1)], "A <long> caption")]).html()
    assert '<p class="caption">A &lt;long&gt; caption</p><table' in page
    assert '<th class="number">n</th>' in page
