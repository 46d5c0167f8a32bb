import pytest
from tests.curator.test_policy import GOOD


def test_init_drafts_and_check_asks_for_the_decisions(discreet, tmp_path):
    (tmp_path / "people.csv").write_text("name,age\nZebulon,41\n")
    printed = discreet("init", "people.csv")
    assert printed.code == 0
    assert "Zebulon" not in printed.out
    assert discreet("init", "people.csv", "-o", "policy.toml").code == 0
    assert (tmp_path / "policy.toml").read_text() == printed.out
    refused = discreet("check", "policy.toml")
    assert refused.code == 1
    assert "5 open decisions" in refused.err


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
