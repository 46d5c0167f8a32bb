import csv
import io
import json
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import binom

from discreet.local.collection.survey import Report, read_survey
from discreet.noise import DeterministicEntropy

COMMUTE = """
name = "commute"
version = 1
question = "How did you come to work today?"
domain = ["on foot", "bicycle", "bus or train", "car"]
randomizer = "k-rr"
epsilon = "ln 3"
times = 2
"""
CITY = """
name = "city"
version = 1
question = "Where are you?"
randomizer = "planar laplace"
epsilon = "ln 2 at 1 km"
times = 1
[domain]
latitude = 37.7855
longitude = -122.4075
width = 2
height = 2
cell = "0.2"
"""
PLANE = CITY.partition("[domain]")[0] + '[domain]\nwidth = 3\nheight = 2\ncell = "0.5"\n'


@pytest.fixture
def surveys(discreet, tmp_path):
    for name, text in (("commute", COMMUTE), ("city", CITY), ("plane", PLANE)):
        (tmp_path / f"{name}.toml").write_text(text)
    return discreet


@pytest.fixture
def collected(surveys, tmp_path):
    """A store with 2000 reports of 1000 cyclists and 1000 drivers."""
    survey = read_survey(tmp_path / "commute.toml")
    sent = [survey.respond(answer).line for answer in ["bicycle", "car"] * 1000]
    assert surveys("local", "collect", "store.duckdb", "commute.toml", stdin="\n".join(sent)).code == 0
    return surveys


# respond


def test_respond_prints_one_report(surveys):
    printed = surveys("local", "respond", "commute.toml", "bicycle")
    assert printed.code == 0
    assert printed.err == ""
    report = Report.parse(printed.out)
    assert report.line + "\n" == printed.out
    assert report.survey == read_survey("commute.toml").digest
    assert report.report in range(4)


def test_respond_randomizes(surveys):
    seen = {Report.parse(surveys("local", "respond", "commute.toml", "car").out).report for _ in range(60)}
    assert len(seen) > 1  # all equal with probability below 2^-59


def test_the_answer_can_come_by_a_pipe(surveys):
    printed = surveys("local", "respond", "commute.toml", "-", stdin="bus or train\n")
    assert Report.parse(printed.out).report in range(4)


def test_an_answer_that_was_not_offered_is_not_repeated(surveys):
    printed = surveys("local", "respond", "commute.toml", "helicopter")
    assert printed.code == 1
    assert printed.out == ""
    assert printed.err.startswith("discreet: answer: not one that the survey offers; expected one of: on foot")
    assert "helicopter" not in printed.err


def test_no_answer_is_wrong_usage(surveys):
    printed = surveys("local", "respond", "commute.toml")
    assert printed.code == 2
    assert "ANSWER is missing" in printed.err


def test_places_are_answers_too(surveys):
    report = Report.parse(surveys("local", "respond", "city.toml", "37.78,-122.41").out)
    assert read_survey("city.toml").planar().valid([report.report]).all()
    assert surveys("local", "respond", "city.toml", "nowhere").code == 1


def test_explain_says_what_it_costs_and_sends_nothing(surveys):
    printed = surveys("local", "respond", "commute.toml", "car", "--explain")
    assert printed.code == 0
    assert "report fits the answer  0.5" in printed.out
    assert "at most 3 times as likely" in printed.out
    assert '"id"' not in printed.out
    told = surveys("local", "respond", "commute.toml", "--explain", "--json").json
    assert abs(told["epsilon"] - np.log(3)) < 1e-9
    assert told["reports_at_most"] == 2
    assert abs(told["report_fits_another"] - 1 / 6) < 1e-9


def test_respondents_are_never_told_of_more_noise_than_there_is(surveys):
    """From wherever in its cell: 40,000 reports of places in one cell."""
    told = surveys("local", "respond", "city.toml", "--explain", "--json").json
    report = read_survey("city.toml").randomizes()
    area, people = report.area, 40_000
    cell = area.size // 2 + area.columns // 2
    codes = report.randomize([cell] * people, entropy=DeterministicEntropy(5))
    rows, columns = np.divmod(codes, report.window[1])
    middles = (np.stack([columns, rows], axis=-1) - report.margin + 0.5) * float(area.cell)
    inside = codes < report.window[0] * report.window[1]
    for share, name in ((0.5, "50_%_of_reports_beyond_km"), (0.95, "5_%_of_reports_beyond_km")):
        for corner in ((-0.49, -0.49), (0, 0), (0.49, 0.3)):
            place = area.centers()[cell] + np.array(corner) * float(area.cell)
            near = int((inside & (np.hypot(*(middles - place).T) < told[name])).sum())
            assert binom.sf(near - 1, people, share) > 1e-6
            assert near > 0.5 * share * people  # and it says something


def test_the_account_of_the_device_is_charged(surveys, tmp_path):
    respond = ("local", "respond", "commute.toml", "car", "--account", "me.jsonl")
    first = surveys(*respond)
    assert first.code == 2
    assert "--allow" in first.err
    second = surveys(*respond, "--allow", "1.5")
    assert second.code == 0
    assert Report.parse(second.out)
    assert "which cost ε = 1.09862" in second.err
    assert "of 1.5 is left" in second.err
    third = surveys(*respond)
    assert third.code == 5
    assert third.out == ""
    assert "nothing was sent" in third.err
    assert "car" not in (tmp_path / "me.jsonl").read_text()


def test_a_survey_says_how_often(surveys):
    respond = ("local", "respond", "commute.toml", "car", "--account", "me.jsonl", "--allow", "100")
    assert [surveys(*respond).code for _ in range(3)] == [0, 0, 5]
    assert "2 of at most 2 reports" in surveys(*respond).err


def test_commands_at_once_do_not_answer_too_often(surveys, tmp_path):
    """Five at the same moment at a survey that asks twice: two lines are printed, and two are in the account."""
    run = "from discreet.cli import main; main()"
    words = ["local", "respond", "commute.toml", "car", "--account", "me.jsonl", "--allow", "100"]
    started = [
        subprocess.Popen([sys.executable, "-c", run, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(5)
    ]
    told = [process.communicate() for process in started]
    assert sorted(process.returncode for process in started) == [0, 0, 5, 5, 5]
    assert len([Report.parse(out) for out, _ in told if out]) == 2
    assert sum("2 of at most 2 reports" in err for _, err in told) == 3
    assert len((tmp_path / "me.jsonl").read_text().splitlines()) == 3  # a heading, two reports


def test_a_place_costs_what_the_whole_area_costs(surveys):
    printed = surveys("local", "respond", "city.toml", "37.78,-122.41", "--account", "me.jsonl", "--allow", "100")
    assert "which cost ε = 2.15" in printed.err  # ln 2 · (2√2 + a cell's diagonal)


# collect and estimate


def test_collect_counts(surveys):
    line = surveys("local", "respond", "commute.toml", "car").out
    other = surveys("local", "respond", "city.toml", "37.78,-122.41").out
    with open("lines", "w") as file:
        file.write(line + line + "hello\n" + other)
    printed = surveys("local", "collect", "store.duckdb", "commute.toml", "lines", "--json")
    assert printed.json == {
        "accepted": 1, "rejected": 3, "malformed": 1, "other_survey": 1, "other_version": 0, "out_of_domain": 0, "replayed": 1,
    }  # fmt: skip
    again = surveys("local", "collect", "store.duckdb", "commute.toml", "-", stdin=line)
    assert again.code == 0
    assert "replayed       1" in again.out


def test_estimate_prints_a_table(collected):
    printed = collected("local", "estimate", "store.duckdb", "commute.toml")
    lines = printed.out.splitlines()
    assert lines[0].split() == ["answer", "share", "low", "high"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["on foot", "bicycle", "bus or train", "car"]
    assert "2000 reports, by inversion, all intervals at 0.95; 2000 accepted, 0 rejected" in printed.err


def test_estimate_in_json_and_csv_say_the_same(collected):
    document = collected("local", "estimate", "store.duckdb", "commute.toml", "--json", "--confidence", "0.999999").json
    printed = collected("local", "estimate", "store.duckdb", "commute.toml", "--csv", "--confidence", "0.999999")
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert document["reports"] == 2000
    for row, told, truth in zip(rows, document["answers"], [0, 0.5, 0, 0.5], strict=True):
        assert row["answer"] == told["answer"]
        assert [float(row[name]) for name in ("share", "low", "high")] == [told[n] for n in ("share", "low", "high")]
        assert told["low"] <= truth <= told["high"]
    assert collected("local", "estimate", "store.duckdb", "commute.toml", "--csv", "--json").code == 2


def test_estimate_after_a_recount(collected, tmp_path):
    asked = ("local", "estimate", "store.duckdb", "commute.toml")
    assert collected(*asked, "--recount", "--json").json == collected(*asked, "--json").json
    import duckdb

    with duckdb.connect(str(tmp_path / "store.duckdb")) as connection:
        connection.execute("UPDATE batches SET accepted = accepted + 1")
    refused = collected(*asked, "--recount")
    assert refused.code != 0
    assert "changed by other means" in refused.err


def test_estimate_by_ibu(collected):
    document = collected("local", "estimate", "store.duckdb", "commute.toml", "--json", "--method", "ibu").json
    shares = [row["share"] for row in document["answers"]]
    assert document["method"] == "ibu"
    assert min(shares) >= 0
    assert abs(sum(shares) - 1) < 1e-9


def test_estimate_draws(collected, tmp_path):
    printed = collected("local", "estimate", "store.duckdb", "commute.toml", "--plot", "shares.svg")
    assert printed.code == 0
    assert "wrote shares.svg" in printed.err
    assert "<svg" in (tmp_path / "shares.svg").read_text()
    assert collected("local", "estimate", "store.duckdb", "commute.toml", "--plot", "shares.doc").code == 2


def test_words_for_what_is_missing(surveys):
    printed = surveys("local", "estimate", "none.duckdb", "commute.toml")
    assert printed.code == 1
    assert printed.err.startswith("discreet: store: got 'none.duckdb', expected an existing collection")
    assert "No such file" in surveys("local", "estimate", "none.duckdb", "none.toml").err
    missing = surveys("local", "collect", "store.duckdb", "commute.toml", "none.jsonl")
    assert missing.code == 1
    assert "cannot read none.jsonl" in missing.err
    surveys("local", "collect", "store.duckdb", "commute.toml", stdin="")
    empty = surveys("local", "estimate", "store.duckdb", "commute.toml")
    assert empty.code == 1
    assert "expected an existing collection" in empty.err  # no line, no store


# map


@pytest.fixture
def points(tmp_path):
    """A hundred people at two places, one outside, one nowhere."""
    rows = ["lat,lon,people", "37.7855,-122.4075,60", "37.790,-122.400,40", "38.5,-122.4,7", "north,-122.4,1"]
    (tmp_path / "points.csv").write_text("\n".join(rows) + "\n")


def test_maps_of_points(surveys, points, tmp_path):
    printed = surveys(
        "local", "map", "city.toml", "points.csv", "--weight", "people", "-o", "map.html", "--seed", "3", "--json"
    )
    told = printed.json
    assert (told["people"], told["malformed"], told["outside"]) == (100, 1, 1)
    assert 0 < told["estimated_km_from_the_truth"] < 2
    text = (tmp_path / "map.html").read_text()
    assert text.count("<figure>") == 3
    assert f"{told['estimated_km_from_the_truth']:.3f} km from the truth" in text
    again = surveys(
        "local", "map", "city.toml", "points.csv", "--weight", "people", "-o", "again.svg", "--seed", "3", "--json"
    )
    assert again.json == told
    assert "<svg" in (tmp_path / "again.svg").read_text()


def test_maps_of_points_in_km(surveys, tmp_path):
    (tmp_path / "km.csv").write_text("x,y\n0.2,0.2\n2.9,1.9\n2.9,1.9\nnan,1\n")
    printed = surveys(
        "local", "map", "plane.toml", "km.csv", "--latitude", "y", "--longitude", "x", "-o", "m.png", "--json"
    )
    assert (printed.json["people"], printed.json["malformed"]) == (3, 1)
    assert (tmp_path / "m.png").stat().st_size > 1000


def test_maps_of_a_store(surveys, tmp_path):
    survey = read_survey(tmp_path / "city.toml")
    sent = "\n".join(survey.respond((37.7855, -122.4075)).line for _ in range(300))
    surveys("local", "collect", "places.duckdb", "city.toml", stdin=sent)
    printed = surveys("local", "map", "city.toml", "places.duckdb", "-o", "map.html")
    assert "reports  300" in printed.out
    assert (tmp_path / "map.html").read_text().count("<figure>") == 2
    table = surveys("local", "estimate", "places.duckdb", "city.toml", "--plot", "map.png")
    assert table.out.splitlines()[0].split() == ["cell", "latitude", "longitude", "x_km", "y_km", "share"]
    assert len(table.out.splitlines()) == 21
    rows = surveys("local", "estimate", "places.duckdb", "city.toml", "--json").json["answers"]
    assert len(rows) == 100
    assert abs(sum(row["share"] for row in rows) - 1) < 1e-9


def test_maps_that_cannot_be_drawn(surveys, points):
    def code(*words):
        printed = surveys("local", "map", *words)
        return printed.code, printed.err

    assert code("city.toml", "points.csv", "-o", "map.doc")[0] == 2
    assert code("city.toml", "points.csv", "-o", "no/map.html")[0] == 2
    assert code("city.toml", "points.csv")[0] == 2
    assert "got 'breite'" in code("city.toml", "points.csv", "--latitude", "breite", "-o", "m.html")[1]
    assert "a file that exists" in code("city.toml", "none.csv", "-o", "m.html")[1]
    assert "a survey of places" in code("commute.toml", "points.csv", "-o", "m.html")[1]
    assert "none of 4 lines lies in the area" in code("plane.toml", "points.csv", "-o", "m.html")[1]


# page


def test_a_page_is_written_once(surveys, tmp_path):
    printed = surveys("local", "page", "commute.toml", "-o", "page.html", "--endpoint", "https://example.org/in")
    assert printed.code == 0
    assert "wrote page.html" in printed.err
    assert "How did you come to work today?" in (tmp_path / "page.html").read_text()
    assert surveys("local", "page", "commute.toml", "-o", "page.html").code == 1
    assert surveys("local", "page", "commute.toml", "-o", "b.html", "--json").json["survey"].startswith("commute/1/")
    assert surveys("local", "page", "commute.toml").out.startswith("<!doctype html>")
    assert surveys("local", "page", "commute.toml", "--json").code == 2


def test_pages_that_cannot_be_made(surveys):
    assert '"kind": "planar"' in surveys("local", "page", "city.toml").out
    assert surveys("local", "page", "commute.toml", "--endpoint", "http://example.org").code == 1


# simulate


def test_simulations_tell_the_error_before_anybody_is_asked(surveys):
    words = ("local", "simulate", "commute.toml", "--people", "20000", "--shares", "0.4,0.3,0.2,0.1", "--seed", "1")
    printed = surveys(*words)
    assert printed.out.splitlines()[0].split() == ["answer", "truth", "share", "low", "high"]
    assert "intervals that hold                  4 of 4" in printed.out
    told = surveys(*words, "--json").json
    assert [row["truth"] for row in told["answers"]] == [0.4, 0.3, 0.2, 0.1]
    assert told["largest_error"] == max(abs(row["share"] - row["truth"]) for row in told["answers"]) < 0.05
    assert surveys(*words).out == printed.out


def test_more_people_make_smaller_errors(surveys):
    def error(people):
        words = ("--people", people, "--seed", "1", "--json")
        return surveys("local", "simulate", "commute.toml", *words).json["mean_error"]

    assert error(1_000_000) < 0.005 < 0.03 < error(40)


@pytest.mark.parametrize("shares", ["1,2", "a,b,c,d", "0,0,0,0", "-1,1,1,1", ""])
def test_shares_that_are_none(surveys, shares):
    assert surveys("local", "simulate", "commute.toml", "--people", "10", "--shares", shares).code == 1


def test_simulated_places(surveys):
    told = surveys("local", "simulate", "plane.toml", "--people", "500", "--shares", "uniform", "--json").json
    assert told["method"] == "ibu"
    assert told["estimated_km_from_the_truth"] > 0
    assert len(told["answers"]) == 24


def test_json_everywhere(surveys):
    assert json.loads(surveys("local", "respond", "commute.toml", "car", "--json").out)["version"] == 1
