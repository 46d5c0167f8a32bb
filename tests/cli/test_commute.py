import pyarrow.parquet as pq


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
