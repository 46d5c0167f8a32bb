"""`discreet synth`, as a person types it."""

import json

import numpy as np
import pyarrow.csv
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import discreet
from discreet.cli import cli
from discreet.errors import BudgetExceeded, InvalidParameter

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 3
delta = "1e-5"
[tables.people]
source = "people.csv"
unit = "row"
[tables.people.columns]
age = {type = "integer", lower = 0, upper = 100}
left = {type = "integer", lower = 0, upper = 100}
ward = {type = "text"}
ill = {type = "boolean"}
"""
TERMS = ["--epsilon", "1", "--exclude", "ward", "--bins", "age=5", "--bins", "left=0,50,100"]


def rows(many, seed):
    ages = np.random.default_rng(seed).integers(0, 101, many)
    lines = (f"{a},{min(100, a + 1)},{'ab'[int(a > 50)]},{str(a > 50).lower()}\n" for a in ages.tolist())
    return "age,left,ward,ill\n" + "".join(lines)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "people.csv").write_text(rows(800, 0))
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def spent(folder):
    with discreet.open(folder / "clinic.toml") as data:
        return len(data._curator.ledger.charges("clinic"))


def test_what_a_plan_says_of_itself_is_json_where_that_is_asked(folder):
    words = run("synth", folder / "clinic.toml", *TERMS, "--explain").stdout.splitlines()
    said = json.loads(run("synth", folder / "clinic.toml", *TERMS, "--explain", "--json").stdout)
    assert list(said) == [line.split("  ")[0] for line in words]
    assert all(line.endswith(said[name]) for line, name in zip(words, said, strict=True))
    assert said["cost"].startswith("ε ")


def test_explained_made_and_reported(folder):
    told = run("synth", folder / "clinic.toml", *TERMS, "--explain")
    assert told.exit_code == 0
    for part in ("age (6), left (3), ill (3)", "ε 1 at δ 1e-05", "MB", "s of one core"):
        assert part in told.output
    assert spent(folder) == 0
    (folder / "others.csv").write_text(rows(800, 1))
    out, page, private = folder / "made.parquet", folder / "page.html", folder / "owner.html"
    done = run(
        "synth", folder / "clinic.toml", *TERMS, "-o", out, "--report", page, "--owner-report", private,
        "--controls", folder / "others.csv", "--at-most", "age <= left", "--never", "ill=yes, left=0 to 49", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert "charged as #2" in told["cost"]
    table = parquet.read_table(out)
    assert table.num_rows == told["rows"]
    for row in table.to_pylist():
        assert row["age"] is None or row["left"] is None or row["age"] <= row["left"]
        assert not row["ill"] or row["left"] is None or row["left"] >= 50
    assert "do not publish it" in done.stderr
    assert "owner" not in page.read_text(encoding="utf-8")
    attacked = private.read_text(encoding="utf-8")
    assert "What an attacker gains" in attacked
    assert "singling out" in attacked
    assert "attribute inference" in attacked
    again = run("synth", folder / "clinic.toml", *TERMS, "-o", folder / "again.csv", "--json")
    assert "free" in json.loads(again.stdout)["cost"]
    assert pyarrow.csv.read_csv(folder / "again.csv").column_names == ["age", "left", "ill"]


def test_values_are_given_or_found(folder):
    given = run("synth", folder / "clinic.toml", "--epsilon", 1, "--columns", "ward", "--values", "ward=a, b", "-o", folder / "g.csv", "--json")  # fmt: skip
    assert given.exit_code == 0, given.output
    found = run("synth", folder / "clinic.toml", "--epsilon", 1, "--columns", "ward", "--discover", "ward", "-o", folder / "f.csv", "--json")  # fmt: skip
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["found"] == {"ward": 2}
    for name in ("g.csv", "f.csv"):
        assert {"a", "b"} <= set(pyarrow.csv.read_csv(folder / name).column("ward").to_pylist())


def test_dates_have_bounds_in_one_option(folder):
    """As the guide and the refusal of a column without bounds say: LOW..HIGH, found between them privately."""
    policy = folder / "clinic.toml"
    policy.write_text(POLICY + 'born = {type = "date"}\n')
    days = np.datetime64("1950-01-01") + np.random.default_rng(2).integers(0, 9000, 800)
    lines = (folder / "people.csv").read_text().splitlines()
    dated = [f"{line},{day}" for line, day in zip(lines, ["born", *days.tolist()], strict=True)]
    (folder / "people.csv").write_text("\n".join(dated) + "\n")
    with pytest.raises(InvalidParameter, match=r"give bounds \(1950-01-01\.\.2024-12-31\)"):
        run("synth", policy, *TERMS, "--explain")
    bounds = ["--bins", "born=1940-01-01..1989-12-31"]
    told = run("synth", policy, *TERMS, *bounds, "--explain")
    assert "equally many rows in each: born" in told.output
    made = run("synth", policy, *TERMS, *bounds, "-o", folder / "made.parquet")
    assert made.exit_code == 0, made.output
    born = [day.isoformat() for day in parquet.read_table(folder / "made.parquet")["born"].to_pylist() if day]
    assert len(born) > 500
    assert "1940-01-01" <= min(born) <= max(born) <= "1989-12-31"


def test_what_is_refused_before_anything_is_spent(folder):
    policy = folder / "clinic.toml"
    (folder / "taken.csv").write_text("")
    for words, arguments in {
        "state where to write": [],
        "ends in .parquet or .csv": ["-o", folder / "made.txt"],
        "exists already": ["-o", folder / "taken.csv"],
        "no such folder": ["-o", folder / "nowhere" / "made.csv"],
        "write age=10": ["-o", folder / "m.csv", "--bins", "age"],
        "write ward=north,south": ["-o", folder / "m.csv", "--values", "ward"],
        "is not one of": ["-o", folder / "m.csv", "--model", "magic"],
    }.items():
        done = run("synth", policy, *TERMS, *arguments)
        assert done.exit_code != 0
        assert words in done.output
    for words, arguments in {
        "one of the synthetic columns": ["--target", "height"],
        "noise alone": ["--people", 3],
        "two columns": ["--at-most", "age"],
    }.items():
        with pytest.raises(InvalidParameter, match=words):
            run("synth", policy, *TERMS, *arguments, "-o", folder / "m.csv")
    with pytest.raises(InvalidParameter, match="declared values"):
        run("synth", policy, "--epsilon", 1, "--explain")
    with pytest.raises(BudgetExceeded):
        run("synth", policy, *TERMS, "--epsilon", 9, "-o", folder / "m.csv")
    assert not (folder / "m.csv").exists()
    assert spent(folder) == 0


def test_rules_from_a_file_hold_and_what_is_lost_is_told(folder):
    (folder / "rules.txt").write_text("# public\nwhen age=0 to 19 then ill=False\nward decides ill\n")
    made = run("synth", folder / "clinic.toml", "--epsilon", 2, "--exclude", "left", "--bins", "age=5", "--values", "ward=a,b",
               "--rule", "never ward=b, age=0 to 19", "--rules", folder / "rules.txt", "-o", folder / "made.csv", "--json")  # fmt: skip
    assert made.exit_code == 0, made.output
    table = pyarrow.csv.read_csv(folder / "made.csv").to_pylist()
    assert len(table) > 500
    assert not any(row["age"] is not None and row["age"] <= 19 and row["ill"] is not False for row in table)
    assert not any(row["age"] is not None and row["age"] <= 19 and row["ward"] == "b" for row in table)
    for ward in ("a", "b"):
        assert len({row["ill"] for row in table if row["ward"] == ward}) == 1
    lost = json.loads(made.stdout.splitlines()[-1])["lost"]
    assert {each["column"] for each in lost} == {"age", "ward", "ill"}
