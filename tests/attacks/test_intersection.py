"""Two k-anonymous releases of the same people."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from discreet.attacks.answers.intersection import Intersection, two_hospitals
from discreet.errors import DiscreetError, InvalidData, InvalidParameter

ON = ["age", "zip", "sex"]


def anonymous(table, k, order):
    """k rows and k rows and so on, in the order of two columns: intervals for numbers, * for sex; all k-anonymous."""
    rows = np.lexsort([table[name] for name in reversed(order)])
    labels = {name: np.empty(len(rows), object) for name in ON}
    ends = [*range(0, len(rows) - 2 * k + 1, k), len(rows)] if len(rows) >= 2 * k else [0, len(rows)]
    for start, end in zip(ends[:-1], ends[1:], strict=True):
        part = rows[start:end]
        for name in ("age", "zip"):
            values = [table[name][row] for row in part]
            labels[name][part] = f"{min(values)}-{max(values)}"
        labels["sex"][part] = "*"
    return {name: list(values) for name, values in labels.items()} | {"condition": table["condition"]}


def least_class(release):
    return min(np.unique(np.array([release[name] for name in ON], str), axis=1, return_counts=True)[1])


@pytest.fixture(scope="module")
def hospitals():
    return two_hospitals(people=600, shared=300, conditions=30, seed=3)


def releases(hospitals, k=5):
    first, second = anonymous(hospitals.first, k, ["age", "zip"]), anonymous(hospitals.second, k, ["zip", "age"])
    assert min(map(least_class, (first, second))) >= k
    return [first, second]


def attack(hospitals, tables, **more):
    return Intersection(
        releases=tables, known=hospitals.both, outside=hospitals.neither, on=ON, sensitive="condition", **more
    )


def test_two_tables_pin_many_people_whom_one_does_not(hospitals):
    report = attack(hospitals, releases(hospitals)).run()
    alone = [report.facts[f"pinned by release {i} alone"].value for i in (1, 2)]
    assert max(alone) < 0.05
    assert report.success.value > 0.2
    assert report.success.low > max(report.facts[f"pinned by release {i} alone"].high for i in (1, 2))
    assert report.verdict == "falls"
    assert report.facts["left with one value, and it is wrong"] == 0  # a release of truths never rules out the truth


def test_the_truth_is_always_left(hospitals):
    sets, truth = attack(hospitals, releases(hospitals)).candidates(hospitals.both)
    assert all(found[np.arange(len(truth)), truth].all() for found in sets)
    assert sets[0].sum(axis=1).min() >= 1


def test_against_brute_force(hospitals):
    from discreet.attacks.tables.rules import covered

    tables = releases(hospitals)
    sets, truth = attack(hospitals, tables).candidates(hospitals.both)
    for person in range(0, 300, 29):
        for release, found in zip(tables, sets, strict=True):
            values = {
                release["condition"][row]
                for row in range(600)
                if all(covered(release[name][row], np.array([hospitals.both[name][person]]))[0] for name in ON)
            }
            assert found[person].sum() == len(values)


def test_larger_k_pins_fewer(hospitals):
    shares = [attack(hospitals, releases(hospitals, k)).run().success.value for k in (2, 5, 20)]
    assert shares[0] > shares[1] > shares[2]


def test_tables_of_other_people_pin_nobody(hospitals):
    """The defended case: releases made from a fresh sample, which hold nothing of those attacked."""
    other = two_hospitals(people=600, shared=300, conditions=30, seed=99)
    report = attack(hospitals, releases(other)).run()
    assert report.verdict == "holds"
    assert report.success.value < 0.05


def test_one_release_and_other_kinds_of_tables(hospitals):
    first, second = releases(hospitals)
    expected = attack(hospitals, [first, second]).run().success
    assert attack(hospitals, [pa.table(first), pd.DataFrame(second)]).run().success == expected
    single = Intersection(releases=[first], known=hospitals.both, on=ON, sensitive="condition").run()
    assert single.control is None
    assert single.success == single.facts["pinned by release 1 alone"]


def test_labels_explained_by_the_attacker():
    release = {"town": ["north"], "ill": ["flu"]}
    known = {"town": ["Uppsala", "Malmö"], "ill": ["flu", "flu"]}
    report = Intersection(
        releases=[release, release],
        known=known,
        on=["town"],
        sensitive="ill",
        covers={"town": {"north": ["Uppsala"]}},
    ).run()
    assert report.success.hits == 1  # no row fits the other: nothing is said about them
    assert report.facts["people whom no row of some release fits"] == 1


def test_a_release_whose_labels_cannot_be_read_is_not_called_safe():
    release = {"age": ["<<twenties>>"] * 4, "ill": ["flu", "burn", "flu", "none"]}
    with pytest.raises(InvalidData, match="release 2: no row of it fits any of the 1 known people"):
        Intersection(
            releases=[{"age": ["*"], "ill": ["flu"]}, release],
            known={"age": [25], "ill": ["flu"]},
            on=["age"],
            sensitive="ill",
        ).run()


def test_examples_are_for_the_owner_only(hospitals):
    report = attack(hospitals, releases(hospitals)).run()
    assert report.worst
    assert "row" in report.text(owner=True).rsplit("\n", 1)[1]
    assert all(example not in report.text() for example in report.worst)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"releases": []}, InvalidParameter, "releases"),
        ({"releases": {"age": [1]}}, InvalidParameter, "releases"),
        ({"on": "age"}, InvalidParameter, "on"),
        ({"on": []}, InvalidParameter, "on"),
        ({"on": ["age", "shoe"]}, InvalidParameter, "'shoe'"),
        ({"sensitive": "age"}, InvalidParameter, "sensitive"),
        ({"sensitive": "wealth"}, InvalidParameter, "wealth"),
        ({"known": {"age": [], "ill": []}}, InvalidData, "known: it has no rows"),
        ({"releases": [{"age": [], "ill": []}]}, InvalidData, "release 1"),
        ({"known": {"age": [25], "ill": [None]}}, InvalidData, "1 people have no 'ill'"),
        ({"known": 3}, DiscreetError, "known"),
    ],
)
def test_bad_input(change, error, words):
    table = {"age": ["2*", "30"], "ill": ["secret illness", "none"]}
    given = {
        "releases": [table],
        "known": {"age": [25], "ill": ["secret illness"]},
        "on": ["age"],
        "sensitive": "ill",
    }
    with pytest.raises(error, match=words) as caught:
        Intersection(**given | change).run()
    assert "secret illness" not in str(caught.value)


def test_hospitals_repeat_and_share(hospitals):
    again = two_hospitals(people=600, shared=300, conditions=30, seed=3)
    assert again.first == hospitals.first
    rows = [set(zip(*table.values(), strict=True)) for table in (hospitals.first, hospitals.second, hospitals.both)]
    assert rows[2] <= rows[0]
    assert rows[2] <= rows[1]
    with pytest.raises(InvalidParameter, match="shared"):
        two_hospitals(people=5, shared=6, seed=1)


def test_missing_values_rule_nothing_out():
    release = {"age": ["2*", None], "ill": ["flu", "burn"]}
    known = {"age": [25, 31, None], "ill": ["flu", "burn", "flu"]}
    sets, truth = Intersection(releases=[release], known=known, on=["age"], sensitive="ill").candidates(known)
    assert sets[0][:, :2].sum(axis=1).tolist() == [2, 1, 2]
    hidden = {"age": ["2*"], "ill": [None]}
    report = Intersection(releases=[hidden, release], known=known, on=["age"], sensitive="ill").run()
    assert report.success.hits == 1  # the person of 31
