import tomllib

import pytest
from tests.curator.test_policy import GOOD

from discreet.curator.policy import read_policy


def test_init_drafts_and_check_asks_for_the_decisions(discreet, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\nZebulon,41\n")
    printed = discreet("init", "people.csv")
    assert printed.code == 0
    assert "Zebulon" not in printed.out
    assert discreet("init", "people.csv", "-o", "policy.toml").code == 0
    assert (tmp_path / "policy.toml").read_text() == printed.out
    refused = discreet("check", "policy.toml")
    assert refused.code == 1
    assert "6 open decisions" in refused.err


def test_init_as_json(discreet, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\nAda,36\n")
    plain = discreet("init", "people.csv").out
    facts = discreet("init", "people.csv", "--json").json
    assert facts == {"policy": plain, "undecided": plain.count('"?"'), "file": None}
    assert facts["undecided"] > 0
    assert discreet("init", "people.csv", "-o", "policy.toml", "--json").json["file"] == "policy.toml"
    assert (tmp_path / "policy.toml").read_text() == plain


def test_init_never_overwrites(discreet, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\n")
    (tmp_path / "policy.toml").write_text("precious")
    printed = discreet("init", "people.csv", "-o", "policy.toml")
    assert printed.code == 1
    assert "exists already" in printed.err
    assert (tmp_path / "policy.toml").read_text() == "precious"


def test_check_in_words_and_json(discreet, tmp_path):
    (tmp_path / "policy.toml").write_text(GOOD)
    assert "protects one person, by patient_id" in discreet("check", "policy.toml").out
    told = discreet("check", "policy.toml", "--json").json
    assert told["budget"] == {"epsilon": 0.1, "delta": 1e-6, "delta_for_keys": 5e-7}
    assert told["tables"]["visits"]["protects"] == "one person, by patient_id"
    assert told["tables"]["regions"]["protects"] is None


@pytest.mark.parametrize(
    "words", [["init", "missing.parquet"], ["check", "missing.toml"], ["init", "."], ["check", "."]]
)
def test_bad_files_are_one_clear_error(discreet, words):
    printed = discreet(*words)
    assert printed.code == 1
    assert printed.err.startswith("discreet: ")
    assert "Traceback" not in printed.err


def test_init_takes_several_files_and_names_them_from_where_the_policy_is(discreet, tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "rules").mkdir()
    for name in ("patients", "visits"):
        (tmp_path / "data" / f"{name}.csv").write_text("patient_id\n1\n")
    printed = discreet("init", "data/patients.csv", "data/visits.csv", "-o", "rules/policy.toml")
    assert printed.code == 0
    policy = tomllib.loads((tmp_path / "rules" / "policy.toml").read_text())
    assert [table["source"] for table in policy["tables"].values()] == ["../data/patients.csv", "../data/visits.csv"]
    assert discreet("init").code == 2


FITTING = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 1
[tables.visits]
source = "visits.csv"
unit = "pid"
max_groups_per_unit = 1
max_rows_per_group = 2
columns.pid = {type = "integer"}
columns.age = {type = "integer", lower = 0, upper = 100}
"""


@pytest.fixture
def clinic(tmp_path):
    (tmp_path / "policy.toml").write_text(FITTING)
    (tmp_path / "visits.csv").write_text("pid,age\n1,4711\n1,30\n1,31\n")
    return tmp_path


def test_check_reads_rows_only_where_it_is_told_to(discreet, clinic):
    printed = discreet("check", "policy.toml")
    assert (printed.code, printed.err) == (0, "")
    assert "4711" not in printed.out
    assert "EYES ONLY" not in printed.out
    printed = discreet("check", "policy.toml", "--data")
    assert (printed.code, printed.err) == (0, "")
    assert printed.out.index("EYES ONLY") < printed.out.index("4,711")
    told = discreet("check", "policy.toml", "--json")
    assert "4711" not in told.out
    assert told.json["findings"] == []


def test_check_with_data_as_json(discreet, clinic):
    told = discreet("check", "policy.toml", "--data", "--json").json
    assert "not differentially private" in told["data"]["warning"]
    assert told["data"]["tables"]["visits"]["columns"]["age"]["above"] == 1
    assert told["data"]["tables"]["visits"]["contributions"][0]["left_out"][0] == {
        "groups": None, "rows": 2, "share": pytest.approx(1 / 3),
    }  # fmt: skip
    assert told["dataset"] == "clinic"


@pytest.mark.parametrize("words", [[], ["--data"]])
def test_check_does_not_approve_what_does_not_fit(discreet, clinic, words):
    (clinic / "visits.csv").write_text("patient,age\n1,30\n")
    printed = discreet("check", "policy.toml", *words)
    assert printed.code == 3
    assert "error: table 'visits', column 'pid': got 'no such column in its source'" in printed.out
    assert printed.err == "discreet: policy.toml does not fit its files: 1 error\n"
    (clinic / "visits.csv").unlink()
    printed = discreet("check", "policy.toml", *words, "--json")
    assert printed.code == 3
    assert "No such file" in printed.out


def test_check_reads_text_that_is_no_number_under_data(discreet, clinic):
    (clinic / "visits.csv").write_text("pid,age\n1,young\n2,old\n")
    assert discreet("check", "policy.toml").code == 0
    printed = discreet("check", "policy.toml", "--data")
    assert printed.code == 3
    assert "2 of 2 values are not of type integer, and count as null" in printed.out
    assert "young" not in printed.out


def test_check_writes_nothing(discreet, clinic):
    before = sorted(path.name for path in clinic.iterdir())
    discreet("check", "policy.toml", "--data")
    assert sorted(path.name for path in clinic.iterdir()) == before


OLD = """
# our clinic
[dataset]
name = "clinic"
neighbours = "change one"   # as before

[budget]
epsilon = 3

[tables.visits]
source = "visits.csv"
unit = "rows"
groups = 2                  # two wards
rows = 5
columns.rows = {type = "integer"}
columns.groups = {type = "text"}
"""


def test_a_policy_of_an_earlier_version_is_upgraded(discreet, tmp_path):
    path = tmp_path / "clinic.toml"
    path.write_text(OLD)
    (tmp_path / "visits.csv").write_text("rows,groups\n1,a\n")
    refused = discreet("check", "clinic.toml")
    assert refused.code == 1
    assert "'neighbours' is called 'neighbors' now; `discreet check --upgrade POLICY` rewrites the file" in refused.err
    done = discreet("check", "--upgrade", "clinic.toml")
    assert done.code == 0, done.err
    assert (tmp_path / "clinic.toml.old").read_text() == OLD
    new = path.read_text()
    assert "# our clinic" in new
    assert "max_groups_per_unit = 2                  # two wards" in new
    assert 'columns.rows = {type = "integer"}' in new
    policy = read_policy(path)
    table = policy.catalog.table("visits")
    assert (table.groups, table.rows, policy.caps, policy.everyone) == (2, 5, {}, None)
    again = discreet("check", "--upgrade", "clinic.toml")
    assert "nothing to rewrite" in again.err
    assert path.read_text() == new


def test_a_policy_that_does_not_say_who_may_ask_is_refused(discreet, tmp_path):
    path = tmp_path / "clinic.toml"
    path.write_text(OLD.replace("neighbours", "neighbors").replace("groups = 2", "").replace("rows = 5", ""))
    refused = discreet("check", "clinic.toml")
    assert refused.code == 1
    assert "[budget]: got 'no analysts and no everyone', expected who may ask" in refused.err
