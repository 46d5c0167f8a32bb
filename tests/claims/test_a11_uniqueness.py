"""A11: columns that are harmless one by one become a fingerprint together; uniqueness is measured per column set."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from tests.real_data import FOLDER, needs

from discreet.anonymity import Classes
from discreet.anonymity.risk import population_uniques
from discreet.anonymity.uniques import unique_sets, uniqueness
from discreet.tables import read_table

ADULT = "adult/adult_arx.csv"
TRAIN = "adult/adult_train.parquet"
QUASI = ["sex", "age", "race", "marital-status", "education", "native-country", "workclass", "occupation"]


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


def census(seed: int, people: int = 12_000) -> dict[str, list[str]]:
    """People with columns of uneven values, some of which depend on others; `school years` says what `degree` says."""
    rng = np.random.default_rng(seed)
    age = rng.integers(17, 90, people)
    degree = rng.choice(16, people, p=rng.dirichlet(np.full(16, 1.5)))
    job = (degree // 4 + rng.choice(10, people, p=rng.dirichlet(np.full(10, 1.0)))) % 14
    country = np.where(rng.random(people) < 0.9, 0, rng.integers(1, 40, people))
    columns = {"age": age, "sex": rng.integers(0, 2, people), "degree": degree, "job": job, "country": country}
    columns["school years"] = degree * 7 % 16
    return {name: [str(value) for value in values] for name, values in columns.items()}


@pytest.mark.claim("A11")
@pytest.mark.parametrize("seed", [1, 2])
def test_uniqueness_of_column_sets_is_that_of_counting_by_hand(seed: int) -> None:
    people = census(seed)
    together = ["age", "sex", "degree", "job", "country"]
    rows = list(zip(*(people[name] for name in together), strict=True))
    alone = sum(1 for count in Counter(rows).values() if count == 1)
    assert uniqueness(people, together) == pytest.approx(alone / len(rows))
    assert alone / len(rows) > 0.2
    found = unique_sets(people, share="0.1", largest=4)
    assert {part.name: part.twin for part in found.columns}["school years"] == "degree"
    assert found.sets
    for part in found.sets:
        assert part.share == pytest.approx(uniqueness(people, part.columns))
        assert part.share >= 0.1
        assert all(uniqueness(people, [c for c in part.columns if c != gone]) < 0.1 for gone in part.columns)


@pytest.mark.claim("A11")
@pytest.mark.parametrize("seed", [1, 2])
def test_sample_uniques_of_a_generated_population(seed: int) -> None:
    """One in ten of a population that is known: Pitman's estimate of who is unique in all of it, within a third."""
    people = census(seed, 30_000)
    sampled_estimate(read_table(people), ["age", "sex", "degree", "job", "country"], seed)


def sampled_estimate(table: Any, columns: list[str], seed: int) -> None:
    population = Classes.of_table(table, columns)
    chosen = np.random.default_rng(seed).permutation(table.num_rows)[: table.num_rows // 10]
    of_row = population.of_row[chosen]
    sample = Classes.numbered(np.unique(of_row, return_inverse=True)[1])
    alone = np.flatnonzero(np.bincount(of_row, minlength=population.count) == 1)
    truth = int(np.count_nonzero(population.sizes[alone] == 1))
    found = population_uniques(sample, population=table.num_rows)
    assert found.sample_uniques == len(alone)
    assert found.still_unique == pytest.approx(truth, rel=1 / 3)


@pytest.mark.claim("A11")
@needs(ADULT)
def test_eight_columns_of_adult_single_out_46_5_percent() -> None:
    table = read_table(FOLDER / ADULT)
    assert uniqueness(table, QUASI) == pytest.approx(0.465, abs=0.0005)
    found = unique_sets(table, QUASI, share="0.4", largest=8)
    assert found.complete
    assert found.together == pytest.approx(0.465, abs=0.0005)
    assert found.columns[0].name == "age"  # what the others miss most
    assert all(part.alone < 0.001 for part in found.columns)
    for part in found.columns:
        assert part.without == pytest.approx(uniqueness(table, [name for name in QUASI if name != part.name]))


@pytest.mark.claim("A11")
@needs(TRAIN)
def test_the_minimal_sets_of_all_fifteen_columns_of_adult() -> None:
    table = read_table(FOLDER / TRAIN)
    found = unique_sets(table, share="0.5", largest=4)
    assert found.columns[0].name == "fnlwgt"
    assert found.sets[0].columns == ("fnlwgt", "occupation")
    assert {part.name: part.twin for part in found.columns}["education-num"] == "education"
    for one in found.sets:
        assert one.share == pytest.approx(uniqueness(table, one.columns))
        assert all(uniqueness(table, [c for c in one.columns if c != gone]) < 0.5 for gone in one.columns)


@pytest.mark.claim("A11")
@needs(ADULT)
def test_of_the_unique_in_a_sample_the_estimate_finds_who_is_unique_in_the_population() -> None:
    """Adult as the population, one in ten as the sample: Pitman's estimate within a third of the truth."""
    sampled_estimate(read_table(FOLDER / ADULT), QUASI, 8)
