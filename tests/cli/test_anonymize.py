"""`discreet anonymize` and `discreet risk`, as a person types them."""

import json

import pytest
from click.testing import CliRunner

from discreet.cli import cli

DATA = "name,zip,age,illness\nAnn,13053,28,flu\nBob,13068,29,flu\nCy,14850,47,cold\nDi,14853,49,flu\n"
POLICY = """
[anonymity]
k = 2
method = "local"
[columns]
name = "identifier"
zip = { quasi = "prefixes" }
age = { quasi = "intervals", widths = [10, 20], low = 0, high = 119 }
illness = "sensitive"
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "data.csv").write_text(DATA, encoding="utf-8")
    (tmp_path / "policy.toml").write_text(POLICY, encoding="utf-8")
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def test_a_table_is_anonymized_and_reported(files):
    done = run(
        "anonymize", files / "data.csv", files / "policy.toml", "-o", files / "out.csv", "--report", files / "r.html"
    )
    assert done.exit_code == 0
    lines = (files / "out.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].replace('"', "") == "zip,age,illness"
    assert sorted(line.replace('"', "") for line in lines[1:]) == ["130**,20-29,flu"] * 2 + [
        "1485*,40-49,cold",
        "1485*,40-49,flu",
    ]
    assert "does not promise" in (files / "r.html").read_text(encoding="utf-8")
    assert "2-anonymity: reached k = 2" in done.output


def test_json_and_parquet(files):
    done = run("anonymize", files / "data.csv", files / "policy.toml", "-o", files / "out.parquet", "--json")
    assert json.loads(done.stdout)["verdict"]["holds"] is True
    assert (files / "out.parquet").stat().st_size > 100


def test_people_are_counted_where_they_are_named(files):
    (files / "visits.csv").write_text(DATA.replace("Bob", "Ann").replace("13068,29", "13053,28"), encoding="utf-8")
    by_row = run("risk", files / "visits.csv", "--quasi", "zip,age")
    assert "4 rows, 3 classes; 2 rows (50.0%) are unique" in by_row.output
    by_person = run("risk", files / "visits.csv", "--quasi", "zip,age", "--unit", "name", "--report", files / "r.html")
    assert "3 people, 3 classes; 3 people (100.0%) are unique" in by_person.output
    policy = (files / "policy.toml").read_text(encoding="utf-8").replace("k = 2", 'k = 2\nunit = "name"')
    (files / "people.toml").write_text(policy, encoding="utf-8")
    done = run("anonymize", files / "visits.csv", files / "people.toml", "-o", files / "out.csv", "--json")
    assert json.loads(done.stdout)["verdict"]["counted"] == "people"
    assert "Ann" not in (files / "out.csv").read_text(encoding="utf-8")


def test_files_are_not_written_over(files):
    arguments = ("anonymize", files / "data.csv", files / "policy.toml", "-o", files / "out.csv")
    assert run(*arguments).exit_code == 0
    again = run(*arguments)
    assert again.exit_code == 1
    assert "exists already" in again.output
    assert run(*arguments, "--force").exit_code == 0


def test_a_strange_ending_is_refused_before_work(files):
    done = run("anonymize", files / "data.csv", files / "policy.toml", "-o", files / "out.xlsx")
    assert done.exit_code == 2
    assert "--output" in done.output


def test_risk(files):
    done = run("risk", files / "data.csv", "--quasi", "zip,age", "--sensitive", "illness", "--report", files / "r.html")
    assert done.exit_code == 0
    assert "4 rows (100.0%) are unique" in done.output
    assert "prosecutor" in (files / "r.html").read_text(encoding="utf-8")
    found = json.loads(run("risk", files / "data.csv", "--quasi", "zip", "--json", "--population", 100).stdout)
    assert found["unique_rows"] == 4
    assert found["unique_sets"]["sets"]
