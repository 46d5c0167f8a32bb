"""Leaving out, coarsening, hiding, padding (claim A1)."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.anonymity import Classes, Hierarchy
from discreet.anonymity.masking import coarsened, padded, redacted, suppressed
from discreet.errors import InvalidData, InvalidParameter
from discreet.noise.entropy import DeterministicEntropy


@pytest.mark.claim("A1")
def test_redaction_and_coarsening():
    patients = {"name": ["Ann", "Bob"], "zip": ["13053", "14850"], "age": [28, 41]}
    ages = Hierarchy.rows("age", [(age, "<30" if age < 30 else "≥30") for age in range(120)])
    table = redacted(patients, ["name"])
    table = coarsened(table, Hierarchy.prefixes("zip", table.column("zip")), level=2)
    assert coarsened(table, ages, level=1).to_pydict() == {"zip": ["130**", "148**"], "age": ["<30", "≥30"]}


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 6))
def test_padding_fills_every_class_and_changes_no_row(keys, k):
    table = {"zip": [str(key) for key in keys], "sick": [f"s{i}" for i in range(len(keys))]}
    whole, added = padded(table, ["zip"], k=k, entropy=DeterministicEntropy(1))
    assert Classes.of_table(whole, ["zip"]).sizes.min() >= k
    assert added == sum(max(0, k - count) for count in Counter(keys).values())
    assert whole.num_rows == len(keys) + added
    before, after = (Counter(zip(t["zip"], t["sick"], strict=True)) for t in (table, whole.to_pydict()))
    assert before <= after
    assert set(whole.to_pydict()["sick"]) <= set(table["sick"])


def test_dummies_are_not_found_by_their_place():
    """Of many paddings, the dummy stands last about as often as anywhere: P(≥ 60 of 300) < 1e-6 if it is 1 in 10."""
    table = {"zip": ["a"] * 8 + ["b"], "sick": [str(i) for i in range(9)]}
    last = 0
    for seed in range(300):
        whole, _ = padded(table, ["zip"], k=2, entropy=DeterministicEntropy(seed))
        rows = list(zip(whole["zip"].to_pylist(), whole["sick"].to_pylist(), strict=True))
        last += rows[-1][0] == "b" and rows[-1][1] != "8"
    assert 3 <= last < 60


def test_hiding_rows():
    table = suppressed({"zip": ["13053", None], "age": [1, 2]}, np.array([True, False]), ["zip", "age"])
    assert table.to_pydict() == {"zip": ["*", ""], "age": ["*", "2"]}
    with pytest.raises(InvalidData, match="each of the 1 rows"):
        suppressed({"zip": ["1"]}, np.array([1]), ["zip"])


@pytest.mark.parametrize("k", [0, -1, True, 2.5, "3"])
def test_a_bad_k_is_refused(k):
    with pytest.raises(InvalidParameter):
        padded({"zip": ["a"]}, ["zip"], k=k)


def test_what_is_not_there_cannot_be_changed():
    with pytest.raises(InvalidParameter, match="zip"):
        redacted({"zip": ["a"]}, ["name"])
    with pytest.raises(InvalidParameter, match="0 to 1"):
        coarsened({"zip": ["a"]}, Hierarchy.flat("zip", ["a"]), level=2)
    with pytest.raises(InvalidData, match="no rows"):
        padded({"zip": []}, ["zip"], k=2)
