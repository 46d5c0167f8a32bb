"""What an attacker gains from a synthetic table: a person whom nobody resembles, and people of whom nobody is alike.

The same attacks are tried on the raw table, where they must succeed: else they would show nothing.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

import discreet
from discreet.attacks.tables.inference import Inference
from discreet.attacks.tables.singling_out import SinglingOut
from discreet.noise import DeterministicEntropy
from discreet.synthetic.fit.relaxed import Settings

POLICY = """
[dataset]
name = "town"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 5
delta = "1e-5"
[tables.people]
source = "python"
unit = "row"
[tables.people.columns]
age = {type = "integer", lower = 0, upper = 99}
income = {type = "integer", lower = 0, upper = 99999}
street = {type = "integer", lower = 0, upper = 299}
ill = {type = "boolean", nullable = false}
"""
PLANTED = {"age": 99, "income": 99_999, "street": 299, "ill": True}
COLUMNS = ["age", "income", "street", "ill"]


def people(many, seed, planted=False):
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, many)
    columns = {
        "age": age,
        "income": rng.integers(1000, 50_000, many),
        "street": rng.integers(0, 200, many),
        "ill": rng.random(many) < 0.3 + 0.4 * (age > 60),
    }
    if planted:
        for name, value in PLANTED.items():
            columns[name][0] = value
    return pa.table(columns)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """The raw table, the synthetic one, and people who were not in it."""
    path = tmp_path_factory.mktemp("town") / "town.toml"
    path.write_text(POLICY, encoding="utf-8")
    raw = people(1500, 1, planted=True)
    with discreet.open(path, tables={"people": raw}) as data:
        data._curator = replace(data._curator, entropy=DeterministicEntropy(5))
        bins = {"age": 10, "income": 10, "street": 10}
        made = data.synthesize("people", epsilon=2, bins=bins, settings=Settings(iterations=60))
        return raw, made.table, people(1500, 2)


def verdicts(released, raw, others):
    given = {"released": released, "people": raw, "controls": others}
    asked = {"known": COLUMNS[:3], "secret": COLUMNS[3]}
    return {
        "singling out, one column": SinglingOut(**given, columns=COLUMNS).run().verdict,
        "singling out, three columns": SinglingOut(**given, columns=COLUMNS, width=3, tries=500).run().verdict,
        "inference": Inference(**given, **asked).run().verdict,
    }


def test_attacks_fall_on_the_raw_table_and_not_on_the_synthetic_one(tables):
    raw, made, others = tables
    found = verdicts(raw, raw, others)
    assert found["singling out, three columns"] == "falls"
    assert found["inference"] == "falls"
    assert set(verdicts(made, raw, others).values()) <= {"holds", "undecided"}  # 1,500 people do not decide everything


def test_nobody_like_the_planted_person_is_there(tables):
    """They stand alone in the last bin of three columns; a synthetic row with all three would be an accident of noise,
    and one with their very values is one in a bin of 10 · 10,000 · 30."""
    raw, made, _ = tables
    assert PLANTED in raw.to_pylist()
    assert PLANTED not in made.to_pylist()
    real = {tuple(row.values()) for row in raw.to_pylist()}
    assert sum(tuple(row.values()) in real for row in made.to_pylist()) <= 2
