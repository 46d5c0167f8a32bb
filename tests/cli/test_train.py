"""`discreet train` and `discreet predict`, as a person types them."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from discreet.cli import cli
from discreet.errors import BudgetExceeded, DiscreetError

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
ill = {type = "boolean"}
"""
TERMS = ["--epsilon", "2", "--delta", "1e-6", "--examples", "3000", "--epochs", "5"]


@pytest.fixture
def folder(tmp_path):
    ages = np.random.default_rng(0).integers(0, 100, 3000)
    (tmp_path / "people.csv").write_text("age,ill\n" + "".join(f"{a},{str(a > 50).lower()}\n" for a in ages))
    (tmp_path / "clinic.toml").write_text(POLICY)
    return tmp_path


def run(*arguments):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)


def test_explained_trained_and_used(folder):
    told = run("train", folder / "clinic.toml", "people", "ill", *TERMS, "--explain")
    assert told.exit_code == 0
    assert "2 → 32 → 2" in told.output
    model, page = folder / "ill.model", folder / "curve.html"
    done = run("train", folder / "clinic.toml", "people", "ill", *TERMS, "-o", model, "--report", page, "--json")
    assert done.exit_code == 0, done.output
    assert "charged as #2" in json.loads(done.stdout)["cost"]
    assert "<svg" in page.read_text(encoding="utf-8")
    out = folder / "said.csv"
    found = run("predict", model, folder / "people.csv", "-o", out, "--json")
    assert json.loads(found.stdout)["accuracy"] > 0.85
    assert out.read_text().splitlines()[0] == "age,ill,predicted"
    assert "exists already" in run("predict", model, folder / "people.csv", "-o", out).output
    assert "exists already" in run("train", folder / "clinic.toml", "people", "ill", *TERMS, "-o", model).output


def test_what_is_refused(folder):
    assert "state where to write" in run("train", folder / "clinic.toml", "people", "ill", *TERMS).output
    with pytest.raises(BudgetExceeded):
        run("train", folder / "clinic.toml", "people", "ill", "--epsilon", 9, *TERMS[2:], "-o", folder / "m")
    assert not (folder / "m").exists()
    with pytest.raises(DiscreetError, match="nothing"):
        run("train", folder / "clinic.toml", "people", "nothing", *TERMS, "--explain")
    assert "whole numbers" in run("train", folder / "clinic.toml", "people", "ill", *TERMS, "--hidden", "x").output
    (folder / "bad.model").write_text("no")
    with pytest.raises(DiscreetError, match="bad.model"):
        run("predict", folder / "bad.model", folder / "people.csv")
