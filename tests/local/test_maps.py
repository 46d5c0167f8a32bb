"""Maps: pages that load nothing, pictures, one scale, honest captions."""

import builtins
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

from discreet.errors import InvalidData, InvalidParameter, MissingExtra
from discreet.local.places import maps
from discreet.local.places.areas import Area
from discreet.local.places.maps import Map, draw, page, save_page, scale_bar
from discreet.local.places.transport import Bounds

AREA = Area.plane(width="0.4", height="0.3", cell="0.1")
TRUE = np.arange(12.0)
THREE = [Map("true", TRUE), Map("noisy", TRUE[::-1], distance=0.25), Map("estimated", np.ones(12), distance=0.125)]


def svgs(text: str) -> list[ElementTree.Element]:
    parts = re.findall(r"<figure>(<svg.*?</svg>\n.*?</svg>)", text, re.DOTALL)
    return [ElementTree.fromstring(part) for part in parts]  # noqa: S314 - our own page


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_a_page_is_self_contained():
    text = page(THREE, AREA, title="Check-ins")
    tags = Tags()
    tags.feed(text)
    assert tags.tags.count("figure") == 3
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.tags)
    assert tags.links == []
    assert "http" not in text.replace("http-equiv", "")
    assert "matplotlib" not in page.__code__.co_names
    for caption in ("true", "noisy: 0.250 km from the truth", "estimated: 0.125 km from the truth"):
        assert f"<figcaption>{caption}</figcaption>" in text


def test_every_cell_stands_where_it_is():
    """One cell with everything: one rectangle, counted from the north."""
    only = np.zeros(12)
    only[1 * 4 + 2] = 1  # row 1 from the south, column 2
    (svg,) = svgs(page([Map("one", only)], AREA, title="x"))
    (cell,) = [path for path in svg[0] if path.tag == "path"]
    assert cell.get("d") == "M2 1h1v1h-1z"
    assert cell.get("fill") == "#0c1630"


def test_equal_neighbors_are_one_run():
    (svg,) = svgs(page([Map("flat", np.ones(12))], AREA, title="x"))
    assert [path.get("d") for path in svg[0] if path.tag == "path"] == [f"M0 {y}h4v1h-4z" for y in range(3)]


def test_one_color_scale_for_all():
    """A quarter of the first map's largest share has the middle color in every map; more than all is cut."""
    first = np.array([8, 2] + [0] * 10) / 10
    second = np.array([2, 8] + [0] * 10) / 10
    one, two = svgs(page([Map("a", first), Map("b", second)], AREA, title="x"))

    def fills(svg):
        return [path.get("fill") for path in svg[0] if path.tag == "path"]

    assert fills(one) == fills(two)[::-1]
    assert fills(one) == [maps._color(64), maps._color(32)]
    crowded = svgs(page([Map("a", np.ones(12)), Map("b", first)], AREA, title="x"))[1]
    assert fills(crowded) == [maps._color(64)]


def test_text_is_escaped():
    text = page([Map('<script>alert("x")</script>', TRUE)], AREA, title="<i>A & B</i>")
    assert "<script" not in text
    assert "&lt;script&gt;" in text
    assert "<h1>&lt;i&gt;A &amp; B&lt;/i&gt;</h1>" in text
    assert "{caption}" not in page([Map("{caption}", TRUE)], AREA, title="x").replace(
        "{caption}</figcaption>", ""
    ).replace('"{caption}"', "")


def test_large_grids_are_merged_and_say_so():
    area = Area.plane(width=40, height=32, cell="0.1")
    shares = np.random.default_rng(1).random(area.size)
    text = page([Map("large", shares)], area, title="x")
    assert "Cells are merged 3 × 3" in text
    assert len(text) < 2_000_000
    assert "merged" not in page(THREE, AREA, title="x")


@pytest.mark.parametrize(("width", "length"), [(3, 0.5), (4, 1), (10, 2), (100, 20), ("0.4", 0.1), (25, 5)])
def test_scale_bars_are_round(width, length):
    assert scale_bar(Area.plane(width=width, height=width, cell="0.1")) == pytest.approx(length)
    (svg,) = svgs(page([Map("a", np.ones(16))], Area.plane(width=4, height=4, cell=1), title="x"))
    bar = svg.find("path")
    assert bar.get("d").endswith("h75.0")  # 1 of 4 km in 300 pixels
    assert svg.find("text").text == "1 km"


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures(tmp_path, ending):
    pytest.importorskip("matplotlib")
    path = draw(tmp_path / f"maps.{ending}", THREE, AREA, title="Check-ins")
    content = path.read_bytes()
    assert content.startswith({"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending])
    assert len(content) > 3000
    if ending == "png":
        width, height = (int.from_bytes(content[k : k + 4], "big") for k in (16, 20))
        assert width > 2 * height


def test_pages_are_written(tmp_path):
    path = save_page(tmp_path / "maps.html", THREE, AREA, title="Straße")
    assert path.read_text(encoding="utf-8") == page(THREE, AREA, title="Straße")


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
    assert "<svg" in page(THREE, AREA, title="x")
    with pytest.raises(MissingExtra, match="matplotlib"):
        draw(tmp_path / "maps.png", THREE, AREA, title="x")


def test_maps_that_cannot_be_drawn(tmp_path):
    with pytest.raises(InvalidParameter, match="ends in"):
        draw(tmp_path / "maps.gif", THREE, AREA, title="x")
    for bad in ([1, 2], [np.nan] * 12, ["a"] * 12):
        with pytest.raises(InvalidData):
            page([Map("bad", bad)], AREA, title="x")
    with pytest.raises(InvalidData, match="none"):
        page([], AREA, title="x")
    assert "<path fill" not in page([Map("empty", np.zeros(12)), Map("negative", -np.ones(12))], AREA, title="x")


def test_bounds_of_a_distance_are_not_told_as_a_distance():
    area = Area.plane(width=2, height=1, cell=1)
    told = page([Map("estimated", [1, 0], distance=Bounds(0.19, 0.215))], area, title="t")
    assert "estimated: between 0.190 and 0.215 km from the truth" in told
