import json

import pyarrow.parquet as pq
import pytest


def made(run, tmp_path):
    assert run("commute", "city", "--blocks", "100", "--workers", "2000", "-o", "city").code == 0
    return ("city/people.parquet", "city/places.csv")


def test_a_city_and_its_map(discreet, tmp_path):
    files = made(discreet, tmp_path)
    told = discreet(
        "commute",
        "synthesize",
        *files,
        "--epsilon",
        "1",
        "--bands",
        "0.3,1,2",
        "-o",
        "map.csv",
        "--report",
        "map.html",
        "--json",
    )
    assert told.json["people"] == 2000
    assert (tmp_path / "map.csv").read_text().startswith('"origin","destination","people"') or "origin" in (
        tmp_path / "map.csv"
    ).read_text()
    assert "<svg" in (tmp_path / "map.html").read_text()
    assert "do not publish" in told.err
    assert discreet("commute", "synthesize", *files, "--epsilon", "1", "-o", "map.csv").code == 1, "it exists"
    assert discreet("commute", "synthesize", *files, "--epsilon", "1", "--persons", "-o", "persons.parquet").code == 0
    assert pq.read_table(tmp_path / "persons.parquet").num_rows == 2000


def test_explain_reads_nothing(discreet, tmp_path):
    files = made(discreet, tmp_path)
    told = discreet("commute", "synthesize", *files, "--epsilon", "1", "--hubs", "5", "--explain")
    assert "chosen privately" in told.out
    assert discreet("commute", "synthesize", *files, "--epsilon", "1").code == 2
    assert discreet("commute", "synthesize", *files, "--epsilon", "0", "-o", "x.csv").code == 1


def test_priors(discreet):
    told = discreet(
        "commute", "prior", "1000000", "--epsilon", "7", "--delta", "1e-6", "--cells", "1000", "--json"
    ).json
    assert 912 < told["pure"] < 914
    assert told["approximate"] < told["probabilistic"] < 1
    assert discreet("commute", "prior", "10", "--epsilon", "1", "--delta", "0.1").code == 2


def test_regions_and_strangers(discreet, tmp_path):
    (tmp_path / "people.csv").write_text("id,home,work\n1,a,b\n2,b,b\n3,a,a\n")
    (tmp_path / "places.csv").write_text("town,lat,lon\na,48.1,11.5\nb,48.2,11.6\n")
    (tmp_path / "regions.csv").write_text("town,region\na,south\nb,north\n")
    ask = (
        "commute",
        "synthesize",
        "people.csv",
        "places.csv",
        "--epsilon",
        "2",
        "--origin",
        "home",
        "--destination",
        "work",
    )
    assert discreet(*ask, "--groups", "regions.csv", "-o", "one.csv").code == 0
    (tmp_path / "people.csv").write_text("id,home,work\n1,a,mars\n")
    refused = discreet(*ask, "-o", "two.csv")
    assert refused.code == 1
    assert "no place of the map" in refused.err
    assert not (tmp_path / "two.csv").exists()


POLICY = """
[dataset]
name = "city"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 2
[tables.people]
source = "people.csv"
unit = "id"
columns.id = {type = "integer"}
columns.home = {type = "text"}
columns.work = {type = "text"}
"""
SQUARE = [[11.0, 48.0], [11.2, 48.0], [11.2, 48.2], [11.0, 48.0]]


@pytest.fixture
def city(tmp_path):
    (tmp_path / "city.toml").write_text(POLICY)
    rows = "".join(f"{n},{'ab'[n % 2]},{'aab'[n % 3]}\n" for n in range(900))
    (tmp_path / "people.csv").write_text("id,home,work\n" + rows)
    (tmp_path / "places.csv").write_text("town,lat,lon\na,48.1,11.1\nb,48.3,11.6\n")
    (tmp_path / "plane.csv").write_text("town,x,y\na,0,1\nb,2,3\n")
    feature = {"properties": {"town": "a"}, "geometry": {"type": "Polygon", "coordinates": [SQUARE]}}
    (tmp_path / "outlines.geojson").write_text(json.dumps({"features": [feature]}))
    (tmp_path / "other.geojson").write_text(json.dumps({"features": [feature | {"properties": {"town": "z"}}]}))
    return (
        "commute",
        "release",
        "city.toml",
        "places.csv",
        "--epsilon",
        "1",
        "--origin",
        "home",
        "--destination",
        "work",
    )


def test_a_release_is_charged_once_and_written(discreet, tmp_path, city):
    told = discreet(*city, "-o", "map.csv", "--json").json
    assert told["cost"].startswith("ε 1 charged")
    assert told["destinations"] == 2
    again = discreet(
        *city, "--page", "map.html", "--geojson", "map.geojson", "--outlines", "outlines.geojson", "--json"
    ).json
    assert again["cost"].startswith("free")
    header, *lines = (tmp_path / "map.csv").read_text().splitlines()
    assert header.replace('"', "") == "origin,destination,people,low,high,km"
    flows = json.loads((tmp_path / "map.geojson").read_text())["features"]
    assert len(flows) == len(lines) == told["flows"]
    page = (tmp_path / "map.html").read_text()
    assert "differentially private" in page
    assert '"shapes":{"a":"M' in page


@pytest.mark.parametrize(
    ("wrong", "code", "words"),
    [
        ((), 2, "where to"),
        (("-o", "map.txt"), 2, ".csv"),
        (("--page", "map.pdf"), 2, "ends in .html"),
        (("-o", "people.csv"), 1, "exists already"),
        (("-o", "map.csv", "--outlines", "outlines.geojson"), 2, "--page"),
        (("--page", "map.html", "--outlines", "other.geojson"), 1, "no polygon"),
        (("--page", "map.html", "--outlines", "places.csv"), 1, "not JSON"),
        (("-o", "map.csv", "--table", "pets"), 1, "pets"),
        (("-o", "map.csv", "--epsilon", "3"), 5, "budget"),
    ],
)
def test_what_is_refused_is_not_charged(discreet, city, wrong, code, words):
    told = discreet(*city, *wrong)
    assert told.code == code
    assert words in told.err
    assert discreet(*city, "--epsilon", "2", "-o", "fine.csv").code == 0, "the whole budget is left"


def test_km_and_explain(discreet, city):
    plane = ["plane.csv" if word == "places.csv" else word for word in city]
    refused = discreet(*plane, "--geojson", "map.geojson")
    assert refused.code == 2
    assert "latitude" in refused.err
    assert "and works" in discreet(*city, "--explain").out
    assert discreet(*plane, "--page", "map.html").code == 0
