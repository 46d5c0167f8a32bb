"""`discreet synth` with several tables, as a person types it."""

import json

import numpy as np
import pyarrow.csv
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import discreet
from discreet.cli import cli, synth_linked
from discreet.errors import BudgetExceeded, InvalidParameter

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 9
delta = "1e-5"
[tables.people]
source = "people.csv"
unit = "id"
[tables.people.columns]
id = {type = "integer"}
age = {type = "integer", lower = 0, upper = 100, nullable = false}
sex = {type = "text", values = ["f", "m"], nullable = false}
town = {type = "text"}
[tables.visits]
source = "visits.csv"
unit = "patient"
[tables.visits.columns]
patient = {type = "integer"}
arrived = {type = "integer", lower = 0, upper = 99, nullable = false}
left = {type = "integer", lower = 0, upper = 99, nullable = false}
age = {type = "integer", lower = 0, upper = 9, nullable = false}
urgent = {type = "boolean", nullable = false}
note = {type = "text"}
"""
BOTH = ["--table", "people", "--table", "visits"]
TERMS = [*BOTH, "--epsilon", "2", "--rows-per-person", "visits=3", "--exclude", "town,visits.note", "--bins", "people.age=5", "--bins", "arrived=4", "--bins", "visits.left=0,30,60,99"]  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    ages = rng.integers(0, 101, 1500).tolist()
    people = [f"{one},{age},{'fm'[one % 2]},{'Oslo'}\n" for one, age in enumerate(ages)]
    visits = [
        f"{one},{day},{min(99, day + 9)},{one % 10},{str(age > 50).lower()},secret\n"
        for one, age in enumerate(ages)
        for day in rng.integers(0, 99, 3 if age > 50 else 1).tolist()
    ]
    (tmp_path / "people.csv").write_text("id,age,sex,town\n" + "".join(people))
    (tmp_path / "visits.csv").write_text("patient,arrived,left,age,urgent,note\n" + "".join(visits))
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def spent(folder):
    with discreet.open(folder / "clinic.toml") as data:
        return len(data._curator.ledger.charges("clinic"))


def test_explained_made_and_reported(folder):
    policy = folder / "clinic.toml"
    told = run("synth", policy, *TERMS, "--explain")
    assert told.exit_code == 0
    for part in ("synthesize people, visits together", "people.age (5), people.sex (2), rows in visits (4)", "at most 3 rows of a person", "ε 2 at δ 1e-05"):  # fmt: skip
        assert part in told.stdout
    assert spent(folder) == 0
    out, page, private = folder / "made", folder / "made" / "page.html", folder / "owner.html"
    done = run(
        "synth", policy, *TERMS, "-o", out, "--report", page, "--owner-report", private, "--json",
        "--at-most", "visits.arrived <= left", "--never", "people.sex=f, people.age=0 to 19", "--never", "urgent=yes, visits.age=3",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert "charged as #2" in told["cost"]
    assert told["folder"] == str(out)
    tables = {name: parquet.read_table(out / f"{name}.parquet") for name in ("people", "visits")}
    assert told["rows"] == {name: table.num_rows for name, table in tables.items()}
    assert tables["visits"].column_names == ["patient", "arrived", "left", "age", "urgent"]
    persons = {row["id"]: row for row in tables["people"].to_pylist()}
    for row in persons.values():
        assert row["sex"] == "m" or row["age"] >= 20
    for row in tables["visits"].to_pylist():
        assert row["patient"] in persons
        assert row["arrived"] <= row["left"]
        assert not (row["urgent"] and row["age"] == 3)
    assert f"wrote {private}: it compares with real rows; do not publish it" in done.stderr
    assert "owner" not in page.read_text(encoding="utf-8")
    compared = private.read_text(encoding="utf-8")
    for words in ("Do not publish it", "people.sex", "rows in visits", "real rows", "urgent"):
        assert words in compared
    assert compared.count("2-way total variation") == 2
    assert spent(folder) == 1


def test_the_same_again_is_free_and_csv(folder):
    policy = folder / "clinic.toml"
    first = run("synth", policy, *TERMS, "-o", folder / "a", "--format", "csv")
    assert first.exit_code == 0
    lines = dict(line.split("  ", 1) for line in first.stdout.splitlines())
    assert [name.strip() for name in lines] == [
        "folder",
        "rows of people",
        "rows of visits",
        "lost of people",
        "lost of visits",
        "cost",
    ]
    (folder / "b").mkdir()
    (folder / "b" / "other.txt").write_text("it may have other files")
    again = run("synth", policy, *TERMS, "-o", folder / "b", "--format", "csv", "--json")
    assert "free" in json.loads(again.stdout)["cost"]
    assert set(json.loads(again.stdout)["lost"]["visits"][0]) == {"column", "rows", "interval", "left_out"}
    for name in ("people", "visits"):
        assert (folder / "a" / f"{name}.csv").read_bytes() == (folder / "b" / f"{name}.csv").read_bytes()
    assert pyarrow.csv.read_csv(folder / "a" / "people.csv").column_names == ["id", "age", "sex"]


def test_every_name_may_be_in_any_case_and_tables_in_any_order(folder):
    told = run("synth", folder / "clinic.toml", "--table", "Visits", "--table", "PEOPLE", "--epsilon", 1, "--explain", "--rows-per-person", "VISITS=2",
               "--columns", "Sex", "--columns", "visits.URGENT,VISITS.Age", "--values", "people.sex=f,m,x")  # fmt: skip
    assert told.exit_code == 0, told.output
    assert "a person         people.sex (3), rows in visits (3)" in told.stdout
    assert "a row of visits  urgent (2), age (10); at most 2 rows" in told.stdout


def test_one_table_takes_rows_each_with_or_without_its_name(folder):
    policy = folder / "clinic.toml"
    for said in ("3", "visits=3", "VISITS=3"):
        told = run(
            "synth",
            policy,
            "--table",
            "visits",
            "--epsilon",
            1,
            "--exclude",
            "note",
            "--rows-per-person",
            said,
            "--explain",
        )
        assert "at most 3 of their rows are used" in told.stdout
    for words, arguments in {
        "the only table is visits": ["--rows-per-person", "people=3"],
        "state it once": ["--rows-per-person", "3", "--rows-per-person", "2"],
        "write 3, or with several tables visits=3": ["--rows-per-person", "=3"],
        "--format is for several tables": ["--format", "csv"],
    }.items():
        told = run("synth", policy, "--table", "visits", "--epsilon", 1, "--exclude", "note", "--explain", *arguments)
        assert told.exit_code == 2
        assert words in told.output
    told = run("synth", policy, "--epsilon", 1, "--explain")
    assert "state the table: --table with one of people, visits" in told.output


REFUSED = {
    "state where to write: -o FOLDER": [],
    "--discover: for one table alone": ["--discover", "town"],
    "--target, --adaptive: for one table alone": ["--target", "sex", "--adaptive", 2],
    "--rows: for one table alone": ["--rows", 10],
    "--model graphical: for one table alone": ["--model", "graphical"],
    "--controls: for one table alone": ["--controls", "people.csv"],
    "age: more than one table has this column; write people.age or visits.age": ["--bins", "age=3"],
    "height: no column of people, visits has this name": ["--exclude", "height"],
    "of which table? write visits=3": ["--rows-per-person", "3"],
    "--rows-per-person beds=3: expected one of people, visits": ["--rows-per-person", "beds=3"],
    "--rows-per-person visits=…: state it once": ["--rows-per-person", "visits=4"],
    "--bins people.age=…: state it once": ["--bins", "PEOPLE.age=4"],
    "not of people and visits": ["--never", "sex=f, urgent=yes"],
    "is about the rows of one table": ["--at-most", "people.age <= arrived"],
    "--table people: name each table once": ["--table", "People"],
    "write 3, or with several tables visits=3": ["--rows-per-person", "visits=0"],
    "is not one of": ["--format", "xlsx"],
}


@pytest.mark.parametrize("words", list(REFUSED))
def test_wrong_usage_is_told_in_words_and_costs_nothing(folder, words, monkeypatch):
    monkeypatch.chdir(folder)
    out = [] if words.startswith("state where") else ["-o", "made"]
    done = run("synth", "clinic.toml", *TERMS, *REFUSED[words], *out)
    assert done.exit_code == 2
    assert words in " ".join(done.output.split())
    assert spent(folder) == 0
    assert not (folder / "made").exists()


def test_files_that_are_there_already_are_kept(folder):
    policy = folder / "clinic.toml"
    (folder / "taken").mkdir()
    (folder / "taken" / "visits.parquet").write_text("mine")
    (folder / "file").write_text("mine")
    for words, arguments in {
        "visits.parquet exists already": ["-o", folder / "taken"],
        "is no folder; several tables need one": ["-o", folder / "file"],
        "there is no such folder": ["-o", folder / "nowhere" / "made"],
        "page.html: there is no such folder": ["-o", folder / "made", "--report", folder / "nowhere" / "page.html"],
        "file exists already": ["-o", folder / "made", "--owner-report", folder / "file"],
        "two of the files would have one name": ["-o", folder / "made", "--report", folder / "p.html", "--owner-report", folder / "p.html"],
        "would have one name": ["-o", folder / "made", "--report", folder / "made" / "people.parquet"],
    }.items():  # fmt: skip
        done = run("synth", policy, *TERMS, *arguments)
        assert done.exit_code == 1
        assert words in done.output
    assert (folder / "taken" / "visits.parquet").read_text() == "mine"
    assert not (folder / "made").exists()
    assert spent(folder) == 0


def test_what_the_plan_refuses(folder):
    policy = folder / "clinic.toml"
    for words, arguments in {
        "noise alone": ["--people", 3],
        "two columns": ["--at-most", "arrived"],
        "one of the synthetic columns": ["--at-most", "arrived <= patient"],
        "declared values": ["--columns", "town"],
    }.items():
        terms = [*BOTH, "--epsilon", 1, "--exclude", "note"] if words == "declared values" else TERMS
        with pytest.raises(InvalidParameter, match=words):
            run("synth", policy, *terms, *arguments, "-o", folder / "made")
    with pytest.raises(InvalidParameter, match="a table of dataset"):
        run("synth", policy, *TERMS, "--table", "beds", "-o", folder / "made")
    with pytest.raises(BudgetExceeded):
        run("synth", policy, *TERMS, "--epsilon", 20, "-o", folder / "made")
    assert not (folder / "made").exists()
    assert spent(folder) == 0


def test_a_bar_for_each_table(monkeypatch):
    """Each is at its end and closed before the next is drawn, however few steps a fit took."""
    seen = []

    class Bar:
        pos = 0

        def __init__(self, length, label, file):
            self.length, self.label = length, label

        def __enter__(self):
            seen.append(("open", self.label))
            return self

        def __exit__(self, *_):
            seen.append(("close", self.label, self.pos))

        def update(self, steps):
            self.pos += steps

    monkeypatch.setattr(synth_linked.click, "progressbar", Bar)
    with synth_linked._progress_bar(100) as told:
        for name, steps in (("people", 3), ("visits", 2)):
            for step in range(1, steps + 1):
                told(name, step, 1.0)
    assert seen == [("open", "fitting people"), ("close", "fitting people", 100), ("open", "fitting visits"), ("close", "fitting visits", 100)]  # fmt: skip


def test_help_tells_of_several_tables():
    told = " ".join(run("synth", "--help").output.split())
    for words in (
        "Repeat --table for tables of the same people",
        "--rows-per-person visits=4",
        "a folder",
        "work with one table only",
    ):
        assert words in told
