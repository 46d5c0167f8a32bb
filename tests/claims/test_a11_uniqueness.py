"""A11: columns that are harmless one by one become a fingerprint together; uniqueness is measured per column set."""

import os
from pathlib import Path

import numpy as np
import pytest

from discreet.anonymity import Classes
from discreet.anonymity.population import population_uniques
from discreet.anonymity.uniques import unique_sets, uniqueness
from discreet.tables import as_arrow

DATA = Path(os.environ.get("DISCREET_DATA") or Path(__file__).resolve().parents[3] / "shared" / "data")
ADULT = DATA / "adult" / "adult_arx.csv"
TRAIN = DATA / "adult" / "adult_train.parquet"
COMPAS = DATA / "compas.csv"
QUASI = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]

needs_adult = pytest.mark.skipif(not ADULT.exists(), reason=f"{ADULT} is not there; set DISCREET_DATA")
needs_train = pytest.mark.skipif(not TRAIN.exists(), reason=f"{TRAIN} is not there; set DISCREET_DATA")


@pytest.mark.claim("A11")
def test_harmless_columns_become_a_fingerprint() -> None:
    """Ten columns of four values among 500 people: none singles out anybody, together they single out nearly all."""
    generator = np.random.default_rng(20261116)
    people = {f"font {place}": generator.integers(0, 4, 500).tolist() for place in range(10)}
    assert all(uniqueness(people, [name]) == 0 for name in people)
    assert uniqueness(people, list(people)) > 0.99
    found = unique_sets(people, share="0.5", largest=6)
    assert found.sets
    assert all(4 <= len(one.columns) <= 6 for one in found.sets)


@pytest.mark.claim("A11")
@needs_adult
def test_eight_columns_of_adult_single_out_46_5_percent() -> None:
    table = as_arrow(ADULT)
    assert uniqueness(table, QUASI) == pytest.approx(0.465, abs=0.0005)
    found = unique_sets(table, QUASI, share="0.4", largest=8)
    assert found.complete
    assert found.together == pytest.approx(0.465, abs=0.0005)
    assert found.columns[0].name == "age"  # what the others miss most
    assert all(part.alone < 0.001 for part in found.columns)
    for part in found.columns:
        assert part.without == pytest.approx(uniqueness(table, [name for name in QUASI if name != part.name]))


@pytest.mark.claim("A11")
@needs_train
def test_the_minimal_sets_of_all_fifteen_columns_of_adult() -> None:
    table = as_arrow(TRAIN)
    found = unique_sets(table, share="0.5", largest=4)
    assert found.columns[0].name == "fnlwgt"
    assert found.sets[0].columns == ("fnlwgt", "occupation")
    assert {part.name: part.twin for part in found.columns}["education-num"] == "education"
    for one in found.sets:
        assert one.share == pytest.approx(uniqueness(table, one.columns))
        assert all(uniqueness(table, [c for c in one.columns if c != gone]) < 0.5 for gone in one.columns)


@pytest.mark.claim("A11")
@needs_adult
def test_of_the_unique_in_a_sample_the_estimate_finds_who_is_unique_in_the_population() -> None:
    """Adult as the population, one in ten as the sample: Pitman's estimate within a third of the truth."""
    table = as_arrow(ADULT)
    population = Classes.of_table(table, QUASI)
    chosen = np.random.default_rng(8).permutation(table.num_rows)[:3016]
    of_row = population.of_row[chosen]
    sample = Classes.numbered(np.unique(of_row, return_inverse=True)[1])
    alone = np.flatnonzero(np.bincount(of_row, minlength=population.count) == 1)
    truth = int(np.count_nonzero(population.sizes[alone] == 1))
    found = population_uniques(sample, population=table.num_rows)
    assert found.sample_uniques == len(alone)
    assert found.still_unique == pytest.approx(truth, rel=1 / 3)


@pytest.mark.claim("A11")
@pytest.mark.skipif(not COMPAS.exists(), reason=f"{COMPAS} is not there; set DISCREET_DATA")
def test_sex_and_birth_date_in_compas() -> None:
    table = as_arrow(COMPAS)
    if "dob" not in table.column_names:
        pytest.skip("this copy of the COMPAS data holds no dates of birth")
    assert uniqueness(table, ["sex", "dob"]) == pytest.approx(0.678, abs=0.0005)
