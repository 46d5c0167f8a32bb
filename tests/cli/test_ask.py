"""`discreet ask` and `discreet explain`, end to end over small files: what they print, exit with, charge and refuse."""

import csv
import io
import json
import logging
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from discreet.cli.ask import split_statements
from discreet.curator.answer import _field
from discreet.sql.plan.query_plan import QueryPlan

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"

[budget]
epsilon = "100000"
delta = "1e-6"
analysts.bob = {epsilon = "1"}
everyone = {epsilon = "1000000", delta = "1e-6"}

[tables.visits]
source = "SOURCE"
unit = "patient"
max_groups_per_unit = 3
max_rows_per_group = 4

[tables.visits.columns]
patient = {type = "integer", nullable = false}
age = {type = "integer", lower = 0, upper = 120, nullable = false}
region = {type = "text", values = ["north", "süd 南", "a,\\"b\\""], nullable = false}
day = {type = "date"}

[tables.regions]
source = "regions.csv"
unit = "public"
columns.region = {type = "text"}
columns.country = {type = "text"}
"""
ROWS = [(i // 2, 20 + i % 50, ["north", "süd 南", 'a,"b"'][i % 3], f"2026-01-{1 + i % 3:02}") for i in range(300)]
COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
SURE = ("--epsilon", "3000")  # so much that the noise is nothing


def write_csv(path):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("patient", "age", "region", "day"), *ROWS])


def write_clinic(folder):
    write_csv(folder / "visits.csv")
    (folder / "regions.csv").write_text("region,country\nnorth,N\n")
    (folder / "policy.toml").write_text(POLICY.replace("SOURCE", "visits.csv"), encoding="utf-8")
    return folder


@pytest.fixture
def folder(tmp_path):
    return write_clinic(tmp_path)


@pytest.fixture
def run(discreet, folder):
    return discreet


def edited(folder, old, new):
    path = folder / "policy.toml"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def charges(run):
    told = run("ledger", "policy.toml", "--json").json["rows"]
    return [row for row in told if row["kind"] == "charge"]


# --- answers -----------------------------------------------------------------------------------------------


def test_the_table_the_notes_and_the_receipt_are_printed(run):
    printed = run("ask", "policy.toml", BY_REGION, *SURE)
    assert (printed.code, printed.err) == (0, "")
    lines = printed.out.splitlines()
    assert lines[0].split() == ["region", "n"]
    assert lines[1].split()[:2] == ["north", "100"]
    assert "süd 南" in printed.out
    assert "a person counts in at most 3 groups" not in printed.out  # there are only three
    assert "rows without patient are left out" in lines
    assert lines[-1] == "ε 3000 charged as #2 to clinic, 97000 left"


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_csv_parquet_and_duckdb_files_give_the_same(run, folder, kind):
    import duckdb

    source = {"csv": "visits.csv", "parquet": "visits.parquet", "duckdb": "visits.duckdb#visits"}[kind]
    if kind == "parquet":
        duckdb.sql(f"COPY (FROM '{folder}/visits.csv') TO '{folder}/visits.parquet'")
    if kind == "duckdb":
        with duckdb.connect(str(folder / "visits.duckdb")) as connection:
            connection.execute(f"CREATE TABLE visits AS FROM '{folder}/visits.csv'")
    edited(folder, 'source = "visits.csv"', f'source = "{source}"')
    told = run(
        "ask",
        "policy.toml",
        "SELECT region, COUNT(*), SUM(age) FROM visits GROUP BY ALL",
        "--epsilon",
        "90000",
        "--json",
    ).json
    sums = {name: sum(age for _, age, region, _ in ROWS if region == name) for name in ("north", "süd 南", 'a,"b"')}
    assert told["rows"] == [[name, 100, total] for name, total in sums.items()]


def test_json_is_one_object_with_everything(run):
    told = run("ask", "policy.toml", BY_REGION, "--epsilon", "0.5", "--analyst", "李明", "--json").json
    assert told["columns"] == ["region", "n"]
    assert [row[0] for row in told["rows"]] == ["north", "süd 南", 'a,"b"']
    assert set(told["intervals"]) == {"n"}
    assert told["receipt"]["epsilon"] == 0.5
    assert told["receipt"]["analyst"] == "李明"
    assert told["notes"]


def test_csv_is_the_table_alone_and_reads_back(run):
    printed = run("ask", "policy.toml", BY_REGION, *SURE, "--csv")
    assert list(csv.reader(io.StringIO(printed.out))) == [
        ["region", "n"],
        ["north", "100"],
        ["süd 南", "100"],
        ['a,"b"', "100"],
    ]
    assert "charged as #2" in printed.err
    wide = run("ask", "policy.toml", BY_REGION, *SURE, "--csv", "--intervals")
    read = list(csv.DictReader(io.StringIO(wide.out)))
    assert list(read[0]) == ["region", "n", "n low", "n high"]
    assert all(float(row["n low"]) <= float(row["n"]) <= float(row["n high"]) for row in read)
    assert "free: cached from charge #2" in wide.err


def test_fields_of_csv():
    import datetime as dt

    values = [
        None,
        "",
        True,
        1.5,
        float("nan"),
        7,
        dt.date(2026, 1, 2),
        dt.datetime(2026, 1, 2, 3),
        [1, "a"],
        " x",
        "a\nb",
    ]
    assert [_field(value) for value in values] == [
        "", '""', "true", "1.5", "nan", "7", "2026-01-02", "2026-01-02 03:00:00", '"[1, ""a""]"', '" x"', '"a\nb"',
    ]  # fmt: skip


def test_the_same_question_again_is_free_and_gives_the_same(run):
    first = run("ask", "policy.toml", COUNT, "--epsilon", "0.1", "--json").json
    again = run("ask", "policy.toml", COUNT, "--epsilon", "0.1", "--json").json
    assert again["rows"] == first["rows"]
    assert (first["receipt"]["free"], again["receipt"]["free"]) == (False, True)
    assert len(charges(run)) == 1


def test_what_is_computed_from_the_same_aggregates_is_free_too(run):
    run("ask", "policy.toml", BY_REGION, *SURE)
    shares = f"SELECT region, n / SUM(n) OVER () AS share FROM ({BY_REGION}) ORDER BY region"
    told = run("ask", "policy.toml", shares, *SURE, "--json").json
    assert told["receipt"]["free"]
    assert [row[1] for row in told["rows"]] == [pytest.approx(1 / 3)] * 3


def test_the_error_that_is_wanted(run):
    told = run("ask", "policy.toml", COUNT, "--error", "20", "--confidence", "0.9", "--json").json
    low, high = told["intervals"]["n"]["low"][0], told["intervals"]["n"]["high"][0]
    assert (high - low) / 2 <= 20
    assert told["confidence"] == 0.9
    assert 0 < told["receipt"]["epsilon"] < 1


def test_groups_from_the_data_need_a_delta(run):
    by_day = "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day"
    printed = run("ask", "policy.toml", by_day, *SURE)
    assert printed.code == 4
    assert "needs a delta" in printed.err
    told = run("ask", "policy.toml", by_day, *SURE, "--delta", "1e-7", "--json").json
    assert told["rows"] == [["2026-01-01", 100], ["2026-01-02", 100], ["2026-01-03", 100]]
    assert told["receipt"]["delta"] == 1e-7


def test_contribution_bounds_of_the_question(run):
    one = run("ask", "policy.toml", COUNT, *SURE, "--rows", "1", "--json").json
    assert one["rows"] == [[150]]  # 150 people with two visits each
    alone = run("ask", "policy.toml", BY_REGION, *SURE, "--groups", "1", "--json").json
    assert sum(row[1] for row in alone["rows"]) == 150


def test_an_answer_without_rows(run):
    none = f"{BY_REGION} HAVING COUNT(*) > 1000000"
    assert run("ask", "policy.toml", none, *SURE).out.splitlines()[0].split() == ["region", "n"]
    assert run("ask", "policy.toml", none, *SURE, "--json").json["rows"] == []
    assert run("ask", "policy.toml", none, *SURE, "--csv").out == "region,n\n"


def test_a_wide_answer(run):
    columns = ", ".join(f"COUNT(*) FILTER (WHERE age > {n}) AS above_{n}" for n in range(20, 60))
    told = run("ask", "policy.toml", f"SELECT {columns} FROM visits", "--epsilon", "90000", "--json").json
    assert told["rows"] == [[sum(age > n for _, age, _, _ in ROWS) for n in range(20, 60)]]
    assert len(run("ask", "policy.toml", f"SELECT {columns} FROM visits", "--epsilon", "90000").out.splitlines()) > 3


def test_public_tables_cost_nothing_and_need_no_epsilon(run):
    told = run("ask", "policy.toml", "SELECT country FROM regions", "--json").json
    assert told["rows"] == [["N"]]
    assert told["receipt"]["epsilon"] == 0


def test_released_values_join_public_tables(run):
    joined = f"SELECT country, n FROM ({BY_REGION}) AS v JOIN regions ON v.region = regions.region"
    assert run("ask", "policy.toml", joined, *SURE, "--json").json["rows"] == [["N", 100]]


@pytest.mark.parametrize("name", ["answer.png", "answer.svg", "answer.pdf"])
def test_a_picture(run, folder, name):
    printed = run("ask", "policy.toml", BY_REGION, *SURE, "--plot", name)
    assert (printed.code, printed.err) == (0, f"wrote {name}\n")
    if name.endswith(".svg"):
        drawn = (folder / name).read_text(encoding="utf-8")
        assert drawn.startswith("<svg")
        assert [region in drawn for region in ("north", "süd 南")] == [True] * 2
    else:
        assert (folder / name).stat().st_size > 3000


def test_a_picture_that_cannot_be_drawn_loses_no_answer(run):
    printed = run("ask", "policy.toml", f"SELECT region FROM ({BY_REGION})", *SURE, "--plot", "x.png")
    assert printed.code == 1
    assert "north" in printed.out
    assert "charged as #2" in printed.out
    assert "a column of numbers" in printed.err


# --- several, from pipes and files -------------------------------------------------------------------------


def test_several_statements_are_one_charge(run):
    printed = run("ask", "policy.toml", COUNT, BY_REGION, "SELECT AVG(age) AS mean FROM visits", "--epsilon", "30000")
    assert printed.code == 0
    assert [word in printed.out for word in ("300", "north", "mean")] == [True] * 3
    assert printed.out.count("charged as #2") == 1
    assert printed.out.rstrip().endswith("70000 left")
    made = charges(run)
    assert [charge["epsilon"] for charge in made] == [30000]
    told = run("ask", "policy.toml", f"{COUNT}; {BY_REGION}", "--epsilon", "3", "--json").json
    assert [answer["columns"] for answer in told["answers"]] == [["n"], ["region", "n"]]


def test_statements_from_a_pipe_and_from_files(run, folder):
    first = run("ask", "policy.toml", "-", *SURE, "--json", stdin=f"-- how many?\n{COUNT};\n").json
    assert first["rows"] == [[300]]
    (folder / "q.sql").write_text(f"\ufeff{COUNT};\n\n{BY_REGION} -- ;\n;", encoding="utf-8")
    both = run("ask", "policy.toml", "--file", "q.sql", *SURE, "--json").json
    assert len(both["answers"]) == 2
    again = run("ask", "policy.toml", COUNT, "--file", "q.sql", *SURE, "--json").json
    assert len(again["answers"]) == 3


@pytest.mark.parametrize(
    ("words", "stdin"),
    [
        ([], None),
        ([""], None),
        (["-"], ""),
        (["-"], "-- nothing but a comment\n;;"),
        (["--file", "nowhere.sql"], None),
        (["--file", "."], None),
        (["--file", "latin.sql"], None),
        ([COUNT, "--json", "--csv"], None),
        ([COUNT, "--intervals"], None),
        ([COUNT, BY_REGION, "--csv"], None),
        ([COUNT, BY_REGION, "--plot", "x.png"], None),
        ([COUNT, "--plot", "x.gif"], None),
        ([COUNT, "--groups", "x"], None),
    ],
)
def test_wrong_usage_is_exit_code_2_and_asks_nothing(run, folder, words, stdin):
    (folder / "latin.sql").write_bytes(b"SELECT '\xff'")
    printed = run("ask", "policy.toml", *words, "--epsilon", "1", stdin=stdin)
    assert (printed.code, printed.out) == (2, "")
    assert "Error: " in printed.err
    assert not (folder / "policy.ledger").exists()


def test_neither_epsilon_nor_error_says_what_to_write(run):
    for command in ("ask", "explain"):
        printed = run(command, "policy.toml", COUNT)
        assert printed.code == 2
        assert "--epsilon 0.5; or how exact it must be: --error 100" in printed.err
    assert "not both" in run("explain", "policy.toml", COUNT, "--epsilon", "1", "--error", "1").err


def test_a_relative_error_takes_two_charges(run):
    printed = run("ask", "policy.toml", COUNT, "--epsilon", "10", "--error", "60%")
    assert printed.code == 0
    assert "a first release found the sizes from which the ε of this answer follows (ε 1 charged as #2" in printed.out
    refused = run("ask", "policy.toml", COUNT, "--epsilon", "1", "--error", "0.0001%")
    assert refused.code not in (0, 4)  # something was charged
    assert "ε 0.1 charged as #" in refused.err
    assert run("ask", "policy.toml", COUNT, "--error", "60%").code == 4


@pytest.mark.parametrize(
    ("text", "whole", "rest"),
    [
        ("", [], ""),
        (";;", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT ';é';SELECT \"a;b\" ; x", ["SELECT ';é'", 'SELECT "a;b"'], "x"),
        ("SELECT 1 /* ; */; -- ;", ["SELECT 1 /* ; */"], ""),
        ("SELECT $$ ; $$;", ["SELECT $$ ; $$"], ""),
        ("SELECT '", [], "SELECT '"),
        ("SELECT /* ;", [], "SELECT /* ;"),
    ],
)
def test_where_statements_end(text, whole, rest):
    assert split_statements(text) == (whole, rest)


# --- refusals ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        (["--epsilon", "nan"], "epsilon: got 'nan'"),
        (["--epsilon", "-1"], "epsilon: got '-1'"),
        (["--epsilon", "0"], "epsilon: got '0'"),
        (["--epsilon", "inf"], "epsilon: got 'inf'"),
        (["--epsilon", "much"], "epsilon: got 'much'"),
        (["--error", "nan"], "error: got 'nan'"),
        (["--error", "-5"], "error: got '-5'"),
        (["--error", "0.1"], "error: got '0.1'"),
        (["--epsilon", "1", "--delta", "1"], "delta: got '1'"),
        (["--epsilon", "1", "--confidence", "95"], "confidence: got '95'"),
        (["--epsilon", "1", "--rows", "0"], "rows: got 0"),
        (["--epsilon", "1", "--groups", "-3"], "groups: got -3"),
        (["--epsilon", "1", "--analyst", " "], "analyst: got ' '"),
    ],
)
def test_bad_terms_are_one_line_and_charge_nothing(run, terms, said):
    printed = run("ask", "policy.toml", COUNT, *terms)
    assert (printed.code, printed.out) == (1, "")
    assert printed.err.startswith(f"discreet: {said}")
    assert printed.err.count("\n") == 1
    assert charges(run) == []


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE visits",
        "SELECT * FROM visits",
        f"{COUNT}; DROP TABLE visits",
        f"{COUNT}; ATTACH 'x.db'",
        "SELECT * FROM read_csv('/etc/passwd')",
        "COPY visits TO '/tmp/x.csv'",
        "SELECT COUNT(*) FROM visits WHERE age > (SELECT MAX(age) FROM visits)",
        "SELECT patient, COUNT(*) FROM visits GROUP BY patient",
        "SELECT COUNT(*) FROM visits, visits AS other",
        "SELECT COUNT(*) FROM visits WHERE error(region) = 'x'",
        "SELECT " + "(" * 5000 + "1" + ")" * 5000,
        "SELECT 'left open",
        "SELECT '\udcff' FROM visits",
        "\x00",
    ],
)
def test_hostile_sql_is_refused_and_charges_nothing(run, folder, sql):
    printed = run("ask", "policy.toml", sql, *SURE)
    assert (printed.code, printed.out) == (4 if sql.isprintable() else 1, "")
    assert "discreet: " in printed.err
    assert "Traceback" not in printed.err
    assert charges(run) == []
    assert (folder / "visits.csv").exists()


def test_an_unknown_column_is_pointed_at(run):
    printed = run("ask", "policy.toml", "SELECT COUNT(*)\nFROM visits\nWHERE agee > 3", *SURE)
    assert printed.code == 4
    assert printed.err == (
        "discreet: line 3, column 7: there is no column 'agee' here; there are: age, day, patient, region\n"
        "  WHERE agee > 3\n"
        "        ^\n"
    )


def test_a_missing_policy_and_missing_data(run, folder):
    assert "got 'nowhere.toml'" in run("ask", "nowhere.toml", COUNT, *SURE).err
    (folder / "visits.csv").unlink()
    printed = run("ask", "policy.toml", COUNT, *SURE)
    assert printed.code == 1
    assert "visits" in printed.err
    assert not (folder / "policy.ledger").exists()


def test_an_exhausted_budget_is_exit_code_5_and_loses_nothing(run):
    first = run("ask", "policy.toml", COUNT, "--epsilon", "99999.5", "--json").json
    printed = run("ask", "policy.toml", BY_REGION, "--epsilon", "1")
    assert (printed.code, printed.out) == (5, "")
    assert printed.err.startswith("discreet: the budget of 'clinic' cannot pay")
    assert len(charges(run)) == 1
    assert run("ask", "policy.toml", COUNT, "--epsilon", "99999.5", "--json").json["rows"] == first["rows"]
    assert run("ask", "policy.toml", BY_REGION, "--epsilon", "0.5").code == 0


def test_the_cap_of_an_analyst(run):
    printed = run("ask", "policy.toml", COUNT, "--epsilon", "2", "--analyst", "bob")
    assert printed.code == 5
    assert printed.err.startswith("discreet: the cap of 'bob' in 'clinic' cannot pay")
    assert run("ask", "policy.toml", COUNT, "--epsilon", "2", "--analyst", "ann").code == 0


def test_an_edited_budget_is_refused_until_it_is_put_on_record(run, folder):
    run("ask", "policy.toml", COUNT, "--epsilon", "1")
    edited(folder, 'epsilon = "100000"', 'epsilon = "200000"')
    for command in ("ask", "explain", "shell"):
        words = [] if command == "shell" else [BY_REGION]
        printed = run(command, "policy.toml", *words, "--epsilon", "1", stdin="")
        assert (printed.code, printed.out) == (1, "")
        assert "is open with budget ε 100000, δ 1e-06" in printed.err
        assert "discreet ledger amend policy.toml --by WHO --why TEXT" in printed.err
    assert run("ledger", "amend", "policy.toml", "--by", "board", "--why", "agreed", "--yes").code == 0
    assert run("ask", "policy.toml", BY_REGION, "--epsilon", "150000").code == 0


def test_another_unit_is_another_promise(run, folder):
    run("ask", "policy.toml", COUNT, "--epsilon", "1")
    edited(folder, 'unit = "patient"\nmax_groups_per_unit = 3\nmax_rows_per_group = 4', 'unit = "row"')
    assert "discreet ledger amend" in run("ask", "policy.toml", COUNT, "--epsilon", "1").err


# --- what goes wrong after the charge ----------------------------------------------------------------------


def test_the_owner_finds_why_a_release_failed_and_the_analyst_does_not(run, folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("row 17 of Zebulon")

    monkeypatch.setattr(QueryPlan, "run", fail)
    printed = run("ask", "policy.toml", COUNT, "--epsilon", "1", "--owner-log", "owner.log")
    assert printed.code == 1
    assert "charge #2 was made, but its release failed" in printed.err
    assert "Zebulon" not in printed.out + printed.err
    log = folder / "owner.log"
    assert "charge #2 of clinic: the release failed" in log.read_text()
    assert "row 17 of Zebulon" in log.read_text()
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    handlers = logging.getLogger("discreet.owner").handlers
    left = [one for one in handlers if str(getattr(one, "baseFilename", "")).endswith("owner.log")]
    assert left == []
    run("ask", "policy.toml", COUNT, "--epsilon", "1", "--owner-log", "owner.log")
    assert log.read_text().count("the release failed") == 2


def test_an_owner_log_that_cannot_be_written_charges_nothing(run, folder):
    printed = run("ask", "policy.toml", COUNT, "--epsilon", "1", "--owner-log", "no/where.log")
    assert printed.code == 1
    assert "cannot write no/where.log" in printed.err
    assert not (folder / "policy.ledger").exists()


def stop(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("discreet.curator.ledger.Ledger.buy", "stopped: nothing was charged"),
        ("discreet.sql.plan.query_plan.QueryPlan.run", "charged as #2: it stopped before there was an answer"),
        ("discreet.sql.plan.query_plan.QueryPlan.finish", "charged as #2: what it released is cached"),
    ],
)
def test_an_interrupted_question_says_whether_it_was_charged(run, monkeypatch, place, said):
    with monkeypatch.context() as patch:
        patch.setattr(place, stop)
        printed = run("ask", "policy.toml", COUNT, "--epsilon", "1")
    assert printed.code == 130
    assert said in printed.err
    assert len(charges(run)) == ("charged as #2" in said)
    told = run("ask", "policy.toml", COUNT, "--epsilon", "1", "--json").json
    assert told["receipt"]["free"] == ("is cached" in said)


def test_a_statement_that_fails_on_released_values_says_that_it_was_charged(run):
    printed = run("ask", "policy.toml", f"SELECT error('oh') FROM ({COUNT})", "--epsilon", "1")
    assert (printed.code, printed.out) == (1, "")
    assert "#2" in printed.err
    assert "is cached" in printed.err
    assert printed.err.count("is cached") == 1
    assert len(charges(run)) == 1
    assert run("ask", "policy.toml", COUNT, "--epsilon", "1", "--json").json["receipt"]["free"]


# --- explain -----------------------------------------------------------------------------------------------


def files(folder):
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_explain_costs_nothing_and_writes_nothing(run, folder):
    before = files(folder)
    printed = run("explain", "policy.toml", BY_REGION, "--epsilon", "0.5")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.startswith("costs ε 0.5\nleaves ε 99999.5 of the 100000 that is left\n")
    assert "geometric noise" in printed.out
    assert files(folder) == before
    run("ask", "policy.toml", BY_REGION, "--epsilon", "0.5")
    before = files(folder)
    assert "free: the answer is cached" in run("explain", "policy.toml", BY_REGION, "--epsilon", "0.5").out
    assert "leaves ε 99999 of the 99999.5" in run("explain", "policy.toml", COUNT, "--epsilon", "0.5").out
    assert files(folder) == before


def test_explain_as_json_of_one_and_of_several(run):
    told = run("explain", "policy.toml", COUNT, "--error", "20", "--json").json
    assert told["statements"] == [COUNT]
    assert told["budget"]["affordable"]
    assert told["releases"][0]["measures"][0]["error"] <= 20
    both = run("explain", "policy.toml", COUNT, BY_REGION, "--epsilon", "1", "--json").json
    assert both["epsilon"] == 1
    assert len(both["releases"]) == 2


def test_explain_says_what_cannot_be_paid_and_refuses_what_cannot_be_asked(run):
    told = run("explain", "policy.toml", COUNT, "--epsilon", "2", "--analyst", "bob", "--json").json
    assert told["budget"]["affordable"] is False
    assert run("explain", "policy.toml", "SELECT * FROM visits", "--epsilon", "1").code == 4
    assert run("explain", "policy.toml", "-", "--epsilon", "1", stdin=COUNT).code == 0


def test_explain_does_not_spoil_a_ledger_of_other_datasets(run, folder):
    run("ask", "policy.toml", COUNT, "--epsilon", "1")
    other = (folder / "policy.toml").read_text(encoding="utf-8").replace('name = "clinic"', 'name = "other"')
    source = re.search('source = "(visits[^"]*)"', other)[1]
    shutil.copy(folder / source, folder / f"other {source}")  # other data: the same would be known again
    other = other.replace(source, f"other {source}")
    (folder / "other.toml").write_text(
        other.replace("[budget]", 'ledger = "policy.ledger"\n[budget]', 1), encoding="utf-8"
    )
    before = files(folder)
    assert "of the 100000 that is left" in run("explain", "other.toml", COUNT, "--epsilon", "1").out
    assert files(folder) == before


# --- as a process ------------------------------------------------------------------------------------------


def test_in_a_shell_pipeline(folder):
    script = Path(sys.executable).parent / "discreet"
    done = subprocess.run(
        [
            "bash",
            "-c",
            f"echo '{COUNT}' | {script} ask policy.toml - --epsilon 3000 --json | {sys.executable} -m json.tool",
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["rows"] == [[300]]
    assert done.stderr == ""


# --- warnings -------------------------------------------------------------------------------------------------------

LOOSE = "SELECT AVG(2026 - YEAR(day)) AS age FROM visits"


def test_a_warning_comes_before_the_charge(run):
    """On standard error, so that a pipe stays clean; also where the budget cannot pay and nothing is charged."""
    refused = run("ask", "policy.toml", LOOSE, "--epsilon", "999999")
    assert refused.err.startswith("warning: noise is scaled to the range of (2026 - year(day))")
    assert "cannot pay" in refused.err
    assert not charges(run)
    paid = run("ask", "policy.toml", LOOSE, "--epsilon", "1", "--json")
    assert paid.code == 0
    assert paid.err.startswith("warning: noise is scaled to the range of (2026 - year(day))")
    assert paid.json["notes"][0] == paid.err.strip()
    assert run("explain", "policy.toml", LOOSE, "--epsilon", "1", "--json").json["warnings"] == [paid.err.strip()[9:]]
    assert len(charges(run)) == 1
