"""`discreet attack membership`, `audit-training` and `coins`, as a person types them."""

import csv

import numpy as np
import pytest

from discreet.attacks.membership import coins
from discreet.curator.catalog import Column
from discreet.gallery.models import Targets, without_privacy
from discreet.learning.column_model import ColumnModel, Features, Shape, Target
from discreet.learning.sgd import training
from discreet.tables import read_table, write

COLUMNS = tuple(Column(f"c{k}", "integer", lower=0, upper=9) for k in range(20))
ILL = Shape(Features(COLUMNS), Target(Column("ill", "boolean")), (16,), "relu")
AGE = Shape(Features(COLUMNS[:3]), Target(Column("age", "integer", lower=0, upper=100)), (), "tanh")
TEST = ("attack", "membership", "ill.model", "--members", "in.csv", "--others", "out.csv")


def rows(count, seed):
    rng = np.random.default_rng(seed)
    made = {one.name: rng.integers(0, 10, count).tolist() for one in COLUMNS}
    return made | {"ill": rng.integers(0, 2, count).tolist(), "age": rng.integers(0, 100, count).tolist()}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Four hundred people split by coins, a model that knows the one half by heart, and one that knows nobody."""
    folder = tmp_path_factory.mktemp("models")
    write(read_table(rows(400, 1)), folder / "people.csv")
    write(read_table(rows(60, 2)), folder / "more.csv")
    inside = coins(400, seed=5)
    table = rows(400, 1)
    sides = [
        {name: np.array(values)[chosen].tolist() for name, values in table.items()} for chosen in (inside, ~inside)
    ]
    for name, side in zip(("in", "out"), sides, strict=True):
        write(read_table(side), folder / f"{name}.csv")
    targets = Targets.of(ILL, *sides)
    without_privacy(ILL, targets.x[targets.members], targets.y[targets.members], seed=1).save(folder / "ill.model")
    ColumnModel(ILL, ILL.network.start(seed=1)).save(folder / "blank.model")
    ColumnModel(AGE, AGE.network.start(seed=1)).save(folder / "age.model")
    return folder


@pytest.fixture
def attack(discreet, files, monkeypatch, tmp_path):
    for path in files.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return discreet


def test_a_model_that_knows_its_rows_by_heart_falls(attack, tmp_path):
    done = attack(*TEST, "--report", "page.html", "--plot", "roc.svg")
    assert done.code == 0, done.err
    assert "loss threshold" in done.out
    assert "no claim tested" in done.out
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Membership inference: ill.model" in page
    assert "ROC" in (tmp_path / "roc.svg").read_text(encoding="utf-8")
    assert "exists already" in attack(*TEST, "--report", "page.html").err
    found = attack(*TEST, "--json").json
    assert [one["verdict"] for one in found["after"]] == ["falls", "falls"]
    assert found["before"] == []
    assert attack(*TEST, "--must-hold").code == 3


def test_a_claim_is_tested_only_with_coins(attack):
    claim = ("--epsilon", "1/4", "--delta", "1e-5", "--json")
    without, with_coins = attack(*TEST, *claim), attack(*TEST, "--coins", *claim)
    assert (without.code, with_coins.code) == (0, 3)
    assert without.json["after"][0]["facts"]["claim"] == "not tested"
    assert with_coins.json["broken"]
    assert with_coins.json["after"][0]["facts"]["ε is at least"] > 0.25


def test_a_model_that_knows_nobody_is_not_refuted(attack):
    words = [word if word != "ill.model" else "blank.model" for word in TEST]
    done = attack(*words, "--coins", "--epsilon", "1/4", "--delta", "1e-5", "--plain", "--json")
    assert done.code == 0
    assert not done.json["broken"]
    before, after = done.json["before"][0]["facts"], done.json["after"][0]["facts"]
    assert before["ε is at least"] > 0.25
    assert before["claim"] == "none"
    assert after["claim"] == "not refuted"


def test_references_bring_lira_and_a_population_rmia(attack):
    done = attack(*TEST, "--references", "2", "--population", "more.csv", "--json")
    assert [one["attack"] for one in done.json["after"]] == ["loss threshold", "gradient norm", "LiRA", "RMIA"]


def test_twins_are_mentioned(attack, tmp_path):
    (tmp_path / "out.csv").write_text((tmp_path / "in.csv").read_text())
    assert "exactly like a member" in attack(*TEST).err


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("--references", "3"), 2, "odd"),
        (("--population", "more.csv"), 2, "--references"),
        (("--coins", "--epsilon", "-1"), 1, "claimed"),
        (("--confidence", "2"), 2, "between 0 and 1"),
        (("--report", "page.txt"), 2, ".html"),
    ],
)
def test_bad_usage_of_membership(attack, words, code, message):
    done = attack(*TEST, *words)
    assert done.code == code
    assert message in done.err


def test_a_file_that_is_no_model_and_a_model_of_numbers(attack):
    done = attack("attack", "membership", "people.csv", *TEST[3:])
    assert done.code == 1
    assert "people.csv is not a model" in done.err
    numbers = ("attack", "membership", "age.model", *TEST[3:])
    assert attack(*numbers, "--json").code == 0
    assert "predicts a number" in attack(*numbers, "--references", "2").err


def test_a_pickle_is_read_only_if_it_is_trusted(attack, tmp_path):
    """Reading it runs code, so it takes a word. Trusted, a model that knows its rows by heart falls."""
    import pickle

    import pandas as pd
    from sklearn.ensemble import RandomForestClassifier

    rows = pd.read_csv(tmp_path / "in.csv")
    tree = RandomForestClassifier(50, random_state=1).fit(rows.drop(columns="ill"), rows["ill"])
    (tmp_path / "tree.pkl").write_bytes(pickle.dumps(tree))
    words = ("attack", "membership", "tree.pkl", *TEST[3:], "--target", "ill", "--json")
    refused = attack(*words)
    assert (refused.code, refused.out) == (1, "")
    assert "--trust-pickle" in refused.err
    assert "discreet.attacks.membership" in refused.err
    found = attack(*words, "--trust-pickle")
    assert found.code == 0, found.err
    (after,) = found.json["after"]
    assert (after["attack"], after["verdict"]) == ("loss threshold", "falls")
    assert "--target" in attack("attack", "membership", "tree.pkl", *TEST[3:], "--trust-pickle").err
    (tmp_path / "list.pkl").write_bytes(pickle.dumps([1]))
    other = attack("attack", "membership", "list.pkl", *TEST[3:], "--target", "ill", "--trust-pickle")
    assert "expected a classifier with predict_proba" in other.err
    (tmp_path / "net.onnx").write_bytes(b"of another library")
    foreign = attack("attack", "membership", "net.onnx", *TEST[3:])
    assert (foreign.code, foreign.out) == (1, "")
    assert "discreet.attacks.membership" in foreign.err


def test_an_audit_of_the_training(discreet, tmp_path):
    words = ("attack", "audit-training", "--epsilon", "4", "--delta", "1e-5", "--steps", "2", "--canaries", "512")
    done = discreet(*words, "--json", "--report", "audit.html", "--plot", "audit.svg")
    assert done.code == 0, done.err
    (found,) = done.json["after"]
    assert found["attack"] == "canary gradients"
    assert found["facts"]["claimed ε"] == pytest.approx(4, rel=1e-3)
    assert (tmp_path / "audit.html").stat().st_size > 5000


def test_an_audit_of_a_training_without_noise_ends_with_3(discreet, monkeypatch):
    monkeypatch.setattr(training, "add_rounded_gaussian", lambda scale, onto, *, entropy=None: None)
    words = ("attack", "audit-training", "--epsilon", "2", "--delta", "1e-5", "--canaries", "512")
    done = discreet(*words)
    assert done.code == 3
    assert "broken: A claim is refuted" in done.out


def lines(path):
    return list(csv.reader(path.read_text().splitlines()))


def test_coins_split_a_table(attack, tmp_path):
    words = ("attack", "coins", "people.csv", "--members", "a.csv", "--others", "b.csv")
    told = attack(*words, "--seed", "5", "--json").json
    sides = [lines(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert [len(side) - 1 for side in sides] == [told["members"], told["others"]]
    assert sides[0][0] == sides[1][0]
    everybody = lines(tmp_path / "people.csv")[1:]
    assert sorted(sides[0][1:] + sides[1][1:]) == sorted(everybody)
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "in.csv").read_text()
    assert "exists already" in attack(*words).err
    assert attack(*words, "--force").code == 0
    first = (tmp_path / "a.csv").read_text()
    assert attack(*words, "--force").code == 0
    assert (tmp_path / "a.csv").read_text() != first
    assert attack("attack", "coins", "people.csv", "--members", "a.csv", "--others", "a.csv").code == 2
