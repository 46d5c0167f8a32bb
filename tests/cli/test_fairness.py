"""`discreet fairness`, as a person types it."""

import numpy as np
import pytest

POLICY = """
[dataset]
name = "bank"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 2
[tables.people]
source = "people.csv"
unit = "id"
[tables.people.columns]
id = {type = "integer"}
sex = {type = "text", values = ["f", "m"]}
age = {type = "integer", lower = 0, upper = 100}
y = {type = "integer", values = [0, 1]}
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    n = 1200
    sex, age, y = rng.choice(["f", "m"], n), rng.integers(0, 100, n), rng.integers(0, 2, n)
    yhat, score = np.where(sex == "m", y, rng.integers(0, 2, n)), np.round(rng.random(n), 3)
    rows = list(zip(range(n), sex, age, y, yhat, score, strict=True))
    lines = [f"{i},{s},{a},{t},{p},{c}" for i, s, a, t, p, c in rows]
    (tmp_path / "predictions.csv").write_text("id,sex,age,y,yhat,score\n" + "\n".join(lines) + "\n")
    (tmp_path / "people.csv").write_text("id,sex,age,y\n" + "".join(f"{i},{s},{a},{t}\n" for i, s, a, t, _, _ in rows))
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def test_a_report_is_printed_written_and_judged(discreet, folder):
    words = ["fairness", "report", "predictions.csv", "--label", "y", "--prediction", "yhat", "--group", "sex"]
    done = discreet(*words, "--given", "age", "--bins", "age=30,60", "--score", "score", "-o", "report.html")
    assert done.code == 0, done.err
    assert "equalized odds" in done.out
    assert "calibration" in done.out
    assert "<svg" in (folder / "report.html").read_text(encoding="utf-8")
    again = discreet(*words, "-o", "report.html")
    assert again.code == 1
    assert "exists already" in again.err
    told = discreet(*words, "--json", "--bootstrap", 200).json
    assert told["limits"] == "bootstrap"
    assert told["views"][0]["gaps"][2]["criterion"] == "equalized odds"
    assert discreet(*words, "--tolerance", "0.1").code == 3
    assert discreet(*words, "--tolerance", "0.9").code == 0


def test_what_a_report_refuses_in_one_line(discreet, folder):
    words = ["fairness", "report", "predictions.csv", "--label", "y", "--group", "sex"]
    for more, said in (
        (["--prediction", "score"], "say a threshold"),
        (["--prediction", "nothing"], "nothing"),
        ([], "name the column of predictions"),
        (["--prediction", "yhat", "--given", "age", "--bins", "age"], "a number of bins"),
        (["--prediction", "yhat", "--given", "age", "--bins", "age=x"], "a number of bins"),
        (["--prediction", "age"], "classes"),
    ):
        done = discreet(*words, *more)
        assert done.code in (1, 2)
        assert said in done.err
    assert discreet(*words, "--score", "score", "--threshold", "0.5").code == 0
    assert discreet(*words, "--prediction", "yhat", "--given", "age", "--bins", "age=50,").code == 0


def test_what_closing_gaps_costs(discreet, folder):
    done = discreet(
        "fairness", "tradeoff", "predictions.csv", "--label", "y", "--score", "score", "--group", "sex", "-o", "c.html"
    )
    assert done.code == 0, done.err
    assert "equalized odds: gap" in done.out
    assert "<svg" in (folder / "c.html").read_text(encoding="utf-8")
    told = discreet(
        "fairness", "tradeoff", "predictions.csv", "--label", "y", "--score", "score", "--group", "sex", "--json"
    ).json
    assert told["statistical parity"][0]["gap"] < 1e-6


def test_groups_below_the_least_are_left_out_of_the_cost(discreet, folder):
    rows = [f"{i % 2},{(i % 7) / 7},{'f' if i % 3 else 'm'}" for i in range(90)] + ["0,0.9,x", "1,0.1,x"]
    (folder / "few.csv").write_text("y,score,sex\n" + "\n".join(rows) + "\n", encoding="utf-8")
    words = ("fairness", "tradeoff", "few.csv", "--label", "y", "--score", "score", "--group", "sex")
    assert "left out, too few rows: x (2)" in discreet(*words).out
    assert discreet(*words, "--json").json["left out"] == {"x": 2}
    assert "left out" not in discreet(*words, "--least", 2).out


def test_an_audit_is_explained_charged_and_kept(discreet, folder):
    words = ["fairness", "audit", "policy.toml", "predictions.csv", "--table", "people", "--label", "y", "--group", "sex",
             "--prediction", "yhat", "--epsilon", 1]  # fmt: skip
    told = discreet(*words, "--explain")
    assert told.code == 0, told.err
    assert "noisy counts" in told.out
    done = discreet(*words, "-o", "audit.html")
    assert done.code == 0, done.err
    assert "charged as #2 to bank, 1 left" in done.out
    assert "<svg" in (folder / "audit.html").read_text(encoding="utf-8")
    again = discreet(*words, "--json").json
    assert again["receipt"]["free"]
    assert discreet(*words[:-1], 5).code == 5
    assert "epsilon" in discreet(*words[:-1], "x").err
