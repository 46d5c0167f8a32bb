"""Maps: pages that load nothing, pictures, one scale, honest captions."""

import builtins
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.local.places.areas import Area
from discreet.local.places.maps import Bounds, Map, charts, page, picture, scale_bar
from discreet.report.picture import Fill, Stroke

AREA = Area.plane(width="0.4", height="0.3", cell="0.1")
TRUE = np.arange(12.0)
THREE = [Map("true", TRUE), Map("noisy", TRUE[::-1], distance=0.25), Map("estimated", np.ones(12), distance=0.125)]


def cells(maps_: list[Map], area: Area = AREA) -> list[list[Fill]]:
    """The colored cells of each map; the key beside them has squares of a fixed width."""
    found = []
    for chart in charts(maps_, area)[0]:
        fills = [shape for shape in chart.picture().shapes if isinstance(shape, Fill) and shape.crisp]
        found.append(fills[: len(fills) - 20])
    return found


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_a_page_is_self_contained():
    text = page(THREE, AREA, title="Check-ins").html()
    tags = Tags()
    tags.feed(text)
    assert tags.tags.count("figure") == 3
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.tags)
    assert tags.links == []
    assert "http" not in text.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    for caption in ("true", "noisy: 0.250 km from the truth", "estimated: 0.125 km from the truth"):
        assert f'aria-label="{caption}"' in text


def test_every_cell_stands_where_it_is():
    """One cell with everything: one rectangle, counted from the north."""
    only = np.zeros(12)
    only[1 * 4 + 2] = 1  # row 1 from the south, column 2
    ((cell,),) = cells([Map("one", only)])
    ((frame,),) = cells([Map("flat", np.ones((3, 4)))])
    (left, top), (right, bottom) = np.array([cell.outlines[0][i] for i in (0, 2)])
    origin, end = np.array(frame.outlines[0][0]), np.array(frame.outlines[-1][2])
    width, height = end - origin
    assert (left - origin[0], right - origin[0]) == (pytest.approx(width / 2), pytest.approx(3 * width / 4))
    assert (top - origin[1], bottom - origin[1]) == (pytest.approx(height / 3), pytest.approx(2 * height / 3))
    assert cell.opacity == 1


def test_equal_neighbors_are_one_run():
    ((flat,),) = cells([Map("flat", np.ones(12))])
    assert len(flat.outlines) == 3


def test_one_color_scale_for_all():
    """A quarter of the first map's largest share has the middle color in every map; more than all is cut."""
    first = np.array([8, 2] + [0] * 10) / 10
    second = np.array([2, 8] + [0] * 10) / 10
    one, two = cells([Map("a", first), Map("b", second)])
    assert [fill.opacity for fill in one] == [fill.opacity for fill in two] == [pytest.approx(0.03 + 0.97 / 2), 1]
    _, crowded = cells([Map("a", np.ones(12)), Map("b", first)])
    assert [fill.opacity for fill in crowded] == [1]


def test_text_is_escaped():
    text = page([Map('<script>alert("x")</script>', TRUE)], AREA, title="<i>A & B</i>").html()
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<h1>&lt;i&gt;A &amp; B&lt;/i&gt;</h1>" in text


def test_large_grids_are_merged_and_say_so():
    area = Area.plane(width=40, height=32, cell="0.1")
    shares = np.random.default_rng(1).random(area.size)
    text = page([Map("large", shares)], area, title="x").html()
    assert "Cells are merged 3 × 3" in text
    assert len(text) < 2_000_000
    assert "merged" not in page(THREE, AREA, title="x").html()


@pytest.mark.parametrize(("width", "length"), [(3, 0.5), (4, 1), (10, 2), (100, 20), ("0.4", 0.1), (25, 5)])
def test_scale_bars_are_round(width, length):
    assert scale_bar(Area.plane(width=width, height=width, cell="0.1")) == pytest.approx(length)
    ((chart,), _) = charts([Map("a", np.ones(16))], Area.plane(width=4, height=4, cell=1))
    (bar,) = [
        shape.lines[0] for shape in chart.picture().shapes if isinstance(shape, Stroke) and shape.color == "alert"
    ]
    (flat,) = cells([Map("a", np.ones(16))], Area.plane(width=4, height=4, cell=1))[0]
    assert bar[1][0] - bar[0][0] == pytest.approx((flat.outlines[0][2][0] - flat.outlines[0][0][0]) / 4)  # 1 of 4 km
    assert chart.marks[0].scale == (0.25, "1 km")


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures(tmp_path, ending):
    path = picture(THREE, AREA, title="Check-ins").save(tmp_path / f"maps.{ending}")
    content = path.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}[ending])
    assert len(content) > 3000
    if ending == "png":
        width, height = (int.from_bytes(content[k : k + 4], "big") for k in (16, 20))
        assert width > 2 * height


def test_pages_are_written(tmp_path):
    path = page(THREE, AREA, title="Straße").save(tmp_path / "maps.html")
    assert path.read_text(encoding="utf-8") == page(THREE, AREA, title="Straße").html()


def test_without_matplotlib(tmp_path, monkeypatch):
    real = builtins.__import__

    def none(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setattr(builtins, "__import__", none)
    assert "<svg" in page(THREE, AREA, title="x").html()
    assert picture(THREE, AREA, title="x").save(tmp_path / "maps.svg").exists()
    with pytest.raises(MissingExtra, match="matplotlib"):
        picture(THREE, AREA, title="x").save(tmp_path / "maps.png")


def test_maps_that_cannot_be_drawn(tmp_path):
    with pytest.raises(InvalidParameter, match="ends in"):
        picture(THREE, AREA, title="x").save(tmp_path / "maps.gif")
    for bad in ([1, 2], [np.nan] * 12, ["a"] * 12):
        with pytest.raises(InvalidData):
            page([Map("bad", bad)], AREA, title="x")
    with pytest.raises(InvalidData, match="none"):
        page([], AREA, title="x")
    assert cells([Map("empty", np.zeros(12)), Map("negative", -np.ones(12))]) == [[], []]


def test_bounds_of_a_distance_are_not_told_as_a_distance():
    area = Area.plane(width=2, height=1, cell=1)
    told = page([Map("estimated", [1, 0], distance=Bounds(0.19, 0.215))], area, title="t").html()
    assert "estimated: between 0.190 and 0.215 km from the truth" in told
