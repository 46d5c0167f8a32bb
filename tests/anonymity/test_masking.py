"""From a policy file to a released table: every method, every role, and what goes wrong."""

import json

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes, Policy, anonymize
from discreet.anonymity.models import verify
from discreet.errors import InvalidData, InvalidParameter
from discreet.noise.entropy import DeterministicEntropy

ROWS = st.lists(
    st.tuples(st.sampled_from(["13053", "13068", "14850", "14853"]), st.integers(20, 60), st.sampled_from("abc")),
    min_size=6,
    max_size=40,
)


def policy(**changes):
    document = {
        "anonymity": {"k": 2, "method": "local"},
        "columns": {
            "zip": {"quasi": "prefixes"},
            "age": {"quasi": "intervals", "widths": [5, 10, 20], "low": 0, "high": 99},
            "illness": "sensitive",
        },
    }
    return Policy.of({name: {**document[name], **changes.get(name, {})} for name in document})


def table(rows):
    zips, ages, ills = zip(*rows, strict=True)
    return {"zip": list(zips), "age": list(ages), "illness": list(ills)}


@given(ROWS, st.integers(1, 5), st.sampled_from(["local", "optimal"]))
@settings(max_examples=30, deadline=None)
def test_what_is_released_satisfies_the_policy_when_it_is_read_again(rows, k, method):
    released = anonymize(table(rows), policy(anonymity={"k": k, "method": method, "suppression": 0.3}))
    classes = Classes.of_table(released.table, ["zip", "age"])
    assert not classes.count or classes.sizes.min() >= k
    gone = classes.of_row < 0
    told = [None if 0 < gone.sum() < k and hidden else row[2] for row, hidden in zip(rows, gone, strict=True)]
    assert released.table["illness"].to_pylist() == told  # fewer than k suppressed rows lose their secrets
    assert released.verdict.holds
    assert 0 <= released.recoding.ncp <= 1
    assert released.suppressed <= 0.3 * len(rows) + sum(t == "*" for t in released.table["zip"].to_pylist())


@given(ROWS, st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_mondrian_cuts_numbers(rows, k):
    given_ = {"age": [r[1] for r in rows], "kg": [float(r[1] * 7 % 40) for r in rows]}
    made = Policy.of({
        "anonymity": {"k": k, "method": "mondrian"},
        "columns": {"age": {"quasi": "number"}, "kg": {"quasi": "number"}},
    })  # fmt: skip
    released = anonymize(given_, made)
    assert Classes.of_table(released.table, ["age", "kg"]).sizes.min() >= k
    assert "Recoded (mondrian)" in released.text()
    assert "information lost" in released.page().html()


def strangers(count, ill):
    """A hundred people of one place and four illnesses, and so many strangers who have nothing in common."""
    rows = [("13053", 30, "abcd"[i % 4]) for i in range(100)]
    return table(rows + [(f"{i + 2}0000", (1, 99, 21, 79, 41, 61)[i], ill[i % len(ill)]) for i in range(count)])


@pytest.mark.parametrize("method", ["optimal", "local"])
@pytest.mark.parametrize(
    ("count", "ill", "failing"),
    [
        (1, "x", ("5-anonymity", "distinct 2-diversity", "0.5-closeness")),
        (6, "x", ("distinct 2-diversity", "0.5-closeness")),  # six strangers with one secret
        (6, "abcd", ()),
        (4, "abcd", ("5-anonymity",)),
    ],
)
def test_suppressed_rows_satisfy_the_models_or_lose_their_secrets(method, count, ill, failing):
    models = {"illness": {"sensitive": [{"model": "distinct", "l": 2}, {"model": "closeness", "t": 0.5}]}}
    settings = {"k": 5, "method": method, "suppression": "0.06"}
    released = anonymize(strangers(count, ill), policy(anonymity=settings, columns=models))
    secrets = released.table["illness"].to_pylist()[100:]
    assert released.suppressed == count
    assert released.table["illness"].to_pylist()[:100] == ["a", "b", "c", "d"] * 25
    hidden = released.verdict.hidden
    assert len(hidden.failing) == len(failing)
    assert all(name.startswith(start) for name, start in zip(hidden.failing, failing, strict=True))
    if failing:
        assert secrets == [None] * count
        assert "their values of illness were removed" in released.text()
        assert "their values of illness were removed" in released.page().html()
        assert released.as_dict()["verdict"]["suppressed_rows"]["removed"] == ["illness"]
    else:
        assert secrets == list(ill * 2)[:count]
        assert "As one class they satisfy every model, and keep their sensitive values." in released.text()
        assert "as one class they satisfy every model" in released.page().html()


def test_dummies_fill_small_classes():
    rows = [("13053", 30, "a")] * 5 + [("14850", 50, "b")]
    made = policy(anonymity={"k": 3, "method": "optimal", "suppression": 0.5, "small": "dummies"})
    released = anonymize(table(rows), made, entropy=DeterministicEntropy(1))
    assert Classes.of_table(released.table, ["zip", "age"]).sizes.min() >= 3
    assert released.table.num_rows == 6 + released.dummies
    assert released.dummies > 0
    assert "made-up rows" in released.text()


def test_every_role(tmp_path):
    (tmp_path / "jobs.csv").write_text("nurse;health;*\nmedic;health;*\nsmith;craft;*\n", encoding="utf-8")
    (tmp_path / "policy.toml").write_text(
        """
        [anonymity]
        k = 2
        method = "optimal"
        suppression = 0.5
        [columns]
        name = "identifier"
        visit = "other"
        job = { quasi = "jobs.csv" }
        born = { quasi = "dates" }
        home = { quasi = "grid", cells = [0.1, 1], from = ["lat", "lon"] }
        ward = { coarsen = "prefixes", level = 1 }
        illness = { sensitive = [{ model = "distinct", l = 2 }, { model = "closeness", t = 0.9 }] }
        """,
        encoding="utf-8",
    )
    people = pandas.DataFrame(
        {
            "name": ["A", "B", "C", "D"], "visit": [1, 2, 3, 4], "job": ["nurse", "medic", "smith", "smith"],
            "born": ["1980-01-02", "1980-01-03", "1990-05-06", "1990-05-07"], "lat": [48.85, 48.86, 41.9, 41.91],
            "lon": [2.35, 2.34, 12.5, 12.51], "ward": ["A1", "A2", "B1", "B2"], "illness": ["a", "b", "a", "b"],
        }
    )  # fmt: skip
    released = anonymize(people, Policy.read(tmp_path / "policy.toml"))
    assert "name" not in released.table.column_names
    assert "lat" not in released.table.column_names
    shown = released.table.to_pydict()
    assert shown["visit"] == [1, 2, 3, 4]
    assert shown["ward"] == ["A*", "A*", "B*", "B*"]
    assert set(shown["job"]) <= {"health", "craft", "smith", "*"}
    assert released.verdict.holds
    json.dumps(released.as_dict())


def test_presence_releases_members_only():
    rows = [("13053", 30, "a", "yes")] * 3 + [("13053", 30, "b", "no")] * 4 + [("14850", 50, "a", "yes")] * 3
    rows += [("14850", 51, "b", "no")] * 4
    people = table([row[:3] for row in rows]) | {"treated": [row[3] for row in rows]}
    made = policy(anonymity={"presence": {"low": 0, "high": 0.5, "member": "treated"}})
    released = anonymize(people, made)
    assert released.table.num_rows == 6
    assert "treated" not in released.table.column_names
    assert verify(released.table, quasi=["zip", "age"], models=made.target.models[:1]).holds


SECRET = "Xylophone"


@pytest.mark.parametrize(
    ("changes", "data", "words"),
    [
        ({}, {"zip": ["1"] * 3, "age": [1, 2, 3]}, "illness"),
        ({}, {"zip": ["1"] * 3, "age": [1, 2, 3], "illness": ["a"] * 3, "name": [SECRET] * 3}, "column 'name'"),
        ({}, {"zip": ["1"] * 3, "age": [1, 2, 1000], "illness": ["a"] * 3}, "'age': 1 values .*rows 3"),
        ({"anonymity": {"k": 9}}, {"zip": ["1"] * 3, "age": [1, 2, 3], "illness": ["a"] * 3}, r"number of rows \(3\)"),
        ({}, {"zip": [], "age": [], "illness": []}, "no rows"),
        ({"columns": {"illness": {"sensitive": {"model": "distinct", "l": 5}}}}, {"zip": ["1"] * 3, "age": [1, 2, 3], "illness": [SECRET, "a", "a"]}, "5"),
    ],
)  # fmt: skip
def test_faults_are_named_without_private_values(changes, data, words):
    with pytest.raises((InvalidData, InvalidParameter), match=words) as caught:
        anonymize(data, policy(**changes))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"anonymity": {"k": 2, "method": "local"}},
        {"anonymity": {"k": 0, "method": "local"}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": True, "method": "local"}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2, "method": "magic"}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2, "method": "local", "kk": 1}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": "other"}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": {"quasi": "wizard"}}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": {"quasi": "flat", "widths": [1]}}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": {"quasi": "number"}}},
        {"anonymity": {"k": 2, "method": "mondrian"}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": {"quasi": "flat"}, "s": {"sensitive": {"model": "?"}}}},
        {"anonymity": {"k": 2, "method": "local"}, "columns": {"a": {"quasi": "flat"}, "s": {"sensitive": {"model": "distinct"}}}},
        {"anonymity": {"k": 2, "method": "local", "presence": 3}, "columns": {"a": {"quasi": "flat"}}},
        {"anonymity": {"k": 2, "method": "optimal", "suppression": 2}, "columns": {"a": {"quasi": "flat"}}},
    ],
)  # fmt: skip
def test_policies_that_make_no_sense_are_refused(document):
    with pytest.raises((InvalidData, InvalidParameter)):
        Policy.of(document)


def test_made_up_rows_belong_to_the_optimum():
    rows = table([("13053", 30, "a")] * 4)
    with pytest.raises(InvalidParameter, match="'optimal'"):
        anonymize(rows, policy(anonymity={"small": "dummies"}))
    boxes = {"anonymity": {"k": 2, "method": "mondrian", "suppression": 0.1}, "columns": {"age": {"quasi": "number"}}}
    with pytest.raises(InvalidParameter, match="'optimal' or 'local'"):
        anonymize({"age": [1, 2, 3]}, Policy.of(boxes))
    models = {"illness": {"sensitive": {"model": "distinct", "l": 1}}}
    with pytest.raises(InvalidParameter, match="made-up rows"):
        anonymize(rows, policy(anonymity={"method": "optimal", "small": "dummies"}, columns=models))


def test_a_policy_that_is_no_file_or_no_toml(tmp_path):
    with pytest.raises(InvalidParameter, match="exists"):
        Policy.read(tmp_path / "none.toml")
    (tmp_path / "p.toml").write_text("k = = 3", encoding="utf-8")
    with pytest.raises(InvalidData, match="not TOML"):
        Policy.read(tmp_path / "p.toml")


def test_missing_values_form_their_own_class_or_are_hidden():
    people = {"zip": ["13053", None, None, "13053"], "age": [30, 30, 30, 30], "illness": ["a", "b", "a", "b"]}
    released = anonymize(people, policy())
    assert np.bincount(Classes.of_table(released.table, ["zip", "age"]).of_row).tolist() in ([2, 2], [4])


@pytest.mark.parametrize(
    "role", ["other", "identifier", "sensitive", {"quasi": "flat"}, {"coarsen": "flat", "level": 1}]
)
def test_a_column_of_two_roles_is_refused(role):
    home = {"quasi": "grid", "cells": [1], "from": ["lat", "lon"]}
    with pytest.raises(InvalidData, match="'lat' has two roles"):
        Policy.of({"anonymity": {"k": 2, "method": "local"}, "columns": {"home": home, "lat": role}})
    settings = {"k": 2, "method": "local", "presence": {"low": 0, "high": 1, "member": "in"}}
    with pytest.raises(InvalidData, match="'in' has two roles"):
        Policy.of({"anonymity": settings, "columns": {"zip": {"quasi": "flat"}, "in": role}})


def test_the_order_of_rows_and_a_second_run_change_nothing():
    rng = np.random.default_rng(3)
    rows = [(str(z), int(a), str(i)) for z, a, i in zip(rng.integers(13000, 13060, 200), rng.integers(20, 60, 200), rng.integers(0, 4, 200), strict=True)]  # fmt: skip
    order = rng.permutation(200)
    for method in ("local", "optimal"):
        given = policy(anonymity={"method": method})
        first, again = anonymize(table(rows), given).table, anonymize(table(rows), given).table
        assert first.equals(again)
        shuffled = anonymize(table([rows[i] for i in order]), given).table
        assert shuffled.equals(first.take(order))


def test_a_column_of_one_value_is_not_hidden():
    """Every level costs nothing: the value stays, and the rows are not taken for suppressed ones."""
    for method in ("optimal", "local"):
        made = Policy.of({"anonymity": {"k": 5, "method": method}, "columns": {"a": {"quasi": "flat"}}})
        released = anonymize({"a": ["x"] * 5}, made)
        assert released.table.column("a").to_pylist() == ["x"] * 5
        assert released.suppressed == 0


def test_a_level_is_a_number():
    columns = {"a": {"quasi": "flat"}, "b": {"coarsen": "flat", "level": True}}
    with pytest.raises(InvalidParameter, match="columns.b"):
        Policy.of({"anonymity": {"k": 2, "method": "local"}, "columns": columns})
