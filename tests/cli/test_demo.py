"""`discreet demo`: made-up people behind a fresh budget, and the console on them."""

import json
import os
import signal
import subprocess
import sys
from http.client import HTTPConnection

import pytest
from click.testing import CliRunner

import discreet
from discreet.cli import cli
from discreet.curator.owner.exact_view import exact_view
from discreet.curator.policy import read_policy


@pytest.fixture
def demo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        return CliRunner().invoke(cli, ["demo", *arguments])

    return run


def test_a_town_is_made_and_every_start_has_a_new_budget(demo, tmp_path):
    for _ in range(2):
        facts = json.loads(demo("--json").stdout)
        with discreet.open(facts["policy"], analyst="ann") as data:
            assert data.budget().charges == 0
            answer = data.ask("SELECT condition, COUNT(*) AS n FROM visits GROUP BY condition", epsilon=1)
            assert len(answer) >= 10
    assert set(facts["tokens"]) == {"olga", "ann", "bob", "carl"}


def test_every_value_of_the_town_is_within_what_its_policy_declares(demo):
    policy = read_policy(json.loads(demo("--json").stdout)["policy"])
    table = exact_view(policy).tables[0]
    assert [column.name for column in table.columns if column.below or column.above or column.undeclared] == []
    assert exact_view(policy).findings == ()


def test_a_hospital_of_make_demo_is_taken_with_a_ledger_of_its_own(demo, tmp_path):
    facts = json.loads(demo("--folder", "hospital", "--json").stdout)
    folder = tmp_path / "hospital"
    text = (folder / "console.toml").read_text()
    (folder / "policy.toml").write_text(text.replace("console-witness", "witness"))
    (folder / "policy.ledger").write_text("spent")
    (folder / "generated.json").write_text("{}")
    (folder / "visits.parquet").chmod(0o644)
    again = json.loads(demo("--folder", "hospital", "--json").stdout)
    assert again["policy"] == facts["policy"]
    assert (folder / "console.toml").read_text() == text
    assert (folder / "policy.ledger").read_text() == "spent"
    assert (folder / "visits.parquet").stat().st_mode & 0o777 == 0o600


def test_files_of_somebody_else_are_left_alone(demo, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "console.toml").write_text("mine")
    result = demo("--folder", "mine")
    assert result.exit_code == 2
    assert (tmp_path / "mine" / "console.toml").read_text() == "mine"


def test_without_the_server_nothing_is_made_and_no_token_is_printed(demo, tmp_path, monkeypatch):
    monkeypatch.setattr("discreet.server.run.find_spec", lambda package: None)
    result = demo("--serve")
    assert str(result.exception) == "fastapi and uvicorn are not installed; run: pip install 'discreet[server]'"
    assert not result.stdout
    assert not list(tmp_path.iterdir())


def test_the_console_opens_on_it(tmp_path):
    pytest.importorskip("uvicorn")
    command = [sys.executable, "-m", "discreet", "demo", "--serve", "--port", "0", "--json"]
    program = subprocess.Popen(
        command,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"},
    )
    try:
        facts = json.loads(program.stdout.readline())
        tokens = facts["tokens"]
        lines = iter(program.stderr.readline, "")
        address = next(line["listening"] for line in map(json.loads, lines) if "listening" in line)
        assert facts["console"] == f"{address}/"
        connection = HTTPConnection(address.partition("//")[2], timeout=30)
        headers = {"origin": address, "content-type": "application/json"}
        connection.request("POST", "/console/sign-in", json.dumps({"token": tokens["ann"]}), headers)
        response = connection.getresponse()
        assert response.status == 204
        response.read()
        cookie = response.getheader("set-cookie").partition(";")[0]
        connection.request("GET", "/console/datasets/town", headers={"cookie": cookie})
        assert b"Ask town" in connection.getresponse().read()
        connection.close()
    finally:
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=60)
