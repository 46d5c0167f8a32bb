"""The public page of a commuting map, in a real browser where there is one."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.errors import InvalidData, InvalidParameter
from discreet.synthetic.commuting import Flows, Places
from discreet.synthetic.commuting.public_page import MOST_PLACES, Outlines

POLICY = """
[dataset]
name = "county"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 20
[tables.people]
source = "python"
unit = "row"
columns.home = {type = "text"}
columns.work = {type = "text"}
"""
NASTY = "</script><b>é & \"co\", 'x'"
NAMES = ["a", "b", NASTY, "d"]
PLACES = {"name": NAMES, "lat": [48.0, 48.1, 48.2, 48.0], "lon": [11.0, 11.1, 11.0, 11.3]}
RING = np.array([[-0.04, -0.04], [0.04, -0.04], [0.04, 0.04], [-0.04, 0.04], [-0.04, -0.04]])


def outlines(names=NAMES[:3]):
    """Squares around all places but the last."""
    features = []
    for name in names:
        place = NAMES.index(name)
        ring = np.add(RING, (PLACES["lon"][place], PLACES["lat"][place])).tolist()
        geometry = {"type": "Polygon", "coordinates": [ring]}
        properties = {"area": 3, "code": name, "NAME": f"Town {place}"}
        features.append({"type": "Feature", "properties": properties, "geometry": geometry})
    return {"type": "FeatureCollection", "features": features}


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    path = tmp_path_factory.mktemp("county") / "county.toml"
    path.write_text(POLICY)
    homes = [NAMES[(n // 3) % 7 % 4] for n in range(6000)]
    works = [NAMES[n % 3] for n in range(6000)]
    with discreet.open(path, tables={"people": pa.table({"home": homes, "work": works})}) as data:
        yield data


@pytest.fixture(scope="module")
def commute(dataset):
    """Maps of the county; the same settings again are free."""

    def make(**settings):
        return dataset.commute(
            "people", **{"places": PLACES, "epsilon": 1} | settings, origin="home", destination="work"
        )

    return make


@pytest.fixture
def opened(browser, tmp_path):
    def open_(page, address=""):
        path = page.save(tmp_path / f"map{len(list(tmp_path.iterdir()))}.html")
        browser.open(path.as_uri() + address)
        return browser

    return open_


def rows_of(browser):
    return browser.run("[...document.querySelectorAll('#rows tr')].map(r => [...r.cells].map(c => c.textContent))")


def test_choosing_shows_counts_with_bands(opened, commute):
    made = commute()
    browser = opened(made.page(outlines()))
    table = made.public().table().to_pylist()
    for place, name in enumerate(NAMES[:3]):
        browser.run(f"(() => {{ const s = document.getElementById('place'); s.value = '{place}';"
                    " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
        expected = sorted((row for row in table if row["destination"] == name), key=lambda row: -row["people"])
        shown = rows_of(browser)
        assert [int(re.sub(r"\s", "", row[1])) for row in shown] == [row["people"] for row in expected]
        bands = [[int(re.sub(r"\s", "", end)) for end in row[2].split(" to ")] for row in shown]
        assert bands == [[row["low"], row["high"]] for row in expected]
        assert f"Town {place}" in browser.text("where")
        mean = sum(row["people"] * row["km"] for row in expected) / sum(row["people"] for row in expected)
        assert f"{mean:.1f} km" in browser.text("tiles")
    assert not browser.complaints()
    assert browser.run("performance.getEntriesByType('resource').length") == 0, "it loads nothing"


def test_choosing_on_the_map_and_by_address(opened, commute):
    browser = opened(commute().page(outlines()), "#b")
    assert "Town 1" in browser.text("where")
    assert browser.run("document.querySelectorAll('#picture path.place').length") == 3
    assert browser.run("document.querySelectorAll('#picture circle.place').length") == 1, "no outline: a dot"
    browser.run("document.querySelectorAll('#picture path.place')[0].dispatchEvent(new MouseEvent('click'))")
    assert "Town 0" in browser.text("where")
    assert browser.run("document.getElementById('place').value") == "0"
    assert browser.run("location.hash") == "#a"
    assert not browser.complaints()


def test_no_dot_is_cut_off_at_the_edge(opened, commute):
    browser = opened(commute().page())
    outside = """(() => {
      const frame = document.querySelector("#picture circle.place").ownerSVGElement.viewBox.baseVal;
      return [...document.querySelectorAll("#picture circle.place")].filter((dot) => {
        const [x, y, r] = ["cx", "cy", "r"].map((name) => dot[name].baseVal.value);
        return x - r < 0 || y - r < 0 || x + r > frame.width || y + r > frame.height;
      }).length; })()"""
    for place in range(browser.run("document.getElementById('place').options.length")):
        browser.run(f"(() => {{ const s = document.getElementById('place'); s.selectedIndex = {place};"
                    " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
        assert browser.run(outside) == 0


def test_keys_are_enough(opened, commute):
    browser = opened(commute().page())
    # the page starts at the largest place of work, which noise may make the last in the list
    first = "place.selectedIndex = 0; place.dispatchEvent(new Event('change', {bubbles: true})); place.focus()"
    browser.run(f"{{ const place = document.getElementById('place'); {first} }}")
    assert browser.run("document.getElementById('place').options.length") > 1
    before = browser.text("where")
    for kind in ("keyDown", "keyUp"):
        browser.call("Input.dispatchKeyEvent", type=kind, key="ArrowDown", code="ArrowDown", windowsVirtualKeyCode=40)
    for kind in ("keyDown", "keyUp"):  # where the first key opened a list, this one closes it
        browser.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13)
    browser.wait(f"document.getElementById('where').textContent !== {json.dumps(before)}")


def test_downloads_say_what_the_table_says(opened, commute):
    made = commute()
    browser = opened(made.page(outlines()))
    table = made.public().table()
    read = list(csv.DictReader(io.StringIO(browser.run("discreet.csv(discreet.ends)"), newline="")))
    expected = {(row["origin"], row["destination"]): row for row in table.to_pylist()}
    assert len(read) == len(expected)
    for row in read:
        true = expected[row["origin"], row["destination"]]
        assert [int(row[name]) for name in ("people", "low", "high")] == [true[n] for n in ("people", "low", "high")]
    geojson = json.loads(browser.run("discreet.geojson(0)"))
    assert {part["geometry"]["type"] for part in geojson["features"]} == {"Polygon", "Point"}
    assert sum(part["properties"]["people"] for part in geojson["features"]) == made.flows.to(0)[1].sum()
    lines = made.public().geojson()["features"]
    assert len(lines) == len(expected)
    assert lines[0]["geometry"] == {"type": "LineString", "coordinates": [[11.0, 48.0], [11.0, 48.0]]}


def test_a_phone_shows_all_of_it(opened, commute):
    browser = opened(commute().page(outlines()))
    browser.call("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    try:
        assert browser.run("document.documentElement.scrollWidth") == 390
    finally:
        browser.call("Emulation.clearDeviceMetricsOverride")


def test_the_page_says_what_was_paid_and_runs_its_own_script_only(commute):
    made = commute()
    html = made.page().html()
    assert f"charge #{made.receipt.charge} of county" in html
    assert made.plan.digest[:16] in html
    assert made.receipt.when[:10] in html
    assert re.search(r"default-src 'none'; script-src 'sha256-[\w+/=]{44}'; style-src", html)
    assert html.count("<script>") == 1
    assert "</script><b>" not in html


def test_bands_are_of_sums_where_origins_were_put_together(opened, commute):
    made = commute(bands=[5, 15])
    shown = made.public()
    assert shown.table().column("low").null_count == len(shown.table())
    browser = opened(made.page(), "#a")
    rows = rows_of(browser)
    assert [row[0] for row in rows] == ["0 to 5 km", "5 to 15 km", "more than 15 km"]
    assert sum(int(re.sub(r"\s", "", row[1])) for row in rows) == made.flows.to(0)[1].sum()
    regions = dict(zip(NAMES, ["x", "y", "y", "y"], strict=True))
    rows = rows_of(opened(commute(groups=regions).page(), "#b"))
    assert {row[0] for row in rows} == {"the place itself", "x", "y"}
    assert "no bands" in commute(hubs=2).page().html()


def test_a_map_without_people(opened, commute):
    made = commute()
    browser = opened(replace(made, flows=Flows(made.flows.places, [], [], [])).page(outlines()))
    assert "nobody" in browser.text("where")
    assert not browser.complaints()


def test_km_have_no_geojson(commute):
    plane = {"name": NAMES, "x_km": [0, 1, 2, 3], "y_km": [0, 0, 0, 1]}
    made = commute(places=plane, epsilon="0.5")
    assert "viewBox" in made.page().html()
    with pytest.raises(InvalidParameter, match="latitude"):
        made.public().geojson()
    with pytest.raises(InvalidParameter, match="latitude"):
        made.page(outlines())


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"type": "Point"}, "FeatureCollection"),
        ({"features": [{"type": "Feature", "geometry": None}]}, "no polygon"),
        (outlines(["a"]) | {"features": outlines(["a"])["features"] * 0}, "no polygon"),
        ("missing.geojson", "cannot read"),
    ],
)
def test_outlines_that_cannot_be_used(given, expected):
    with pytest.raises(InvalidData, match=expected):
        Outlines.read(given, Places.read(PLACES))


def test_too_many_places_for_a_page(commute):
    made = commute()
    wide = Places([str(n) for n in range(MOST_PLACES + 1)], np.zeros((MOST_PLACES + 1, 2)))
    with pytest.raises(InvalidParameter, match="on a page"):
        replace(made, flows=Flows(wide, [0], [0], [1])).page()
