"""The generated town: repeatable, plausible, and as identifiable as the literature says."""

import numpy as np
import pytest

from discreet.attacks.generated import TODAY, town
from discreet.attacks.tables.linkage import uniqueness
from discreet.errors import InvalidParameter

QUASI = ["zip", "sex", "born"]


def test_the_same_seed_gives_the_same_town_and_another_another():
    one, again, other = (town(people=3000, seed=seed, slips="0.1", visits=2) for seed in (1, 1, 2))
    assert one.people.equals(again.people)
    assert one.voters.equals(again.voters)
    assert one.visits.equals(again.visits)
    assert (one.patients == again.patients).all()
    assert not one.people.equals(other.people)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_about_87_percent_are_unique_by_zip_sex_and_birth(seed):
    people = town(people=100_000, seed=seed).people
    assert 0.86 < uniqueness(people, QUASI) < 0.88  # Sweeney 2000: 87 %
    assert uniqueness(people, ["zip", "sex"]) == 0
    assert uniqueness(people, ["sex", "born"]) < 0.4


def test_with_larger_zip_codes_it_is_golles_figure():
    people = town(people=230_000, zips=10, seed=1).people
    assert 0.61 < uniqueness(people, QUASI) < 0.65  # Golle 2006: 63 %


def test_the_tables_fit_together():
    place = town(people=20_000, seed=5, visits=3)
    everybody = {row["person"]: row for row in place.people.to_pylist()}
    assert len(everybody) == 20_000
    for voter in place.voters.to_pylist():
        person = everybody[voter["person"]]
        assert all(voter[name] == person[name] for name in voter)
        assert (TODAY.astype(object) - voter["born"]).days >= 18 * 365.25 - 1
    rows = place.visits.to_pylist()
    assert len(rows) == len(place.patients) > 2000
    assert len(set(place.patients)) == 2000
    for row, patient in zip(rows, place.patients, strict=True):
        assert all(row[name] == everybody[patient][name] for name in ("zip", "sex", "born", "race"))
        assert row["born"] <= row["admitted"] < TODAY.astype(object)
        assert row["condition"] != "pregnancy" or row["sex"] == "F"
    assert "name" not in place.visits.column_names


def test_slips_change_one_place_of_some_entries():
    plain, slipped = (town(people=20_000, seed=5, slips=share).voters for share in (0, "0.2"))
    zips = np.array(plain["zip"]) != np.array(slipped["zip"])
    born = np.array(plain["born"]) != np.array(slipped["born"])
    assert not (zips & born).any()
    assert 0.15 < (zips | born).mean() < 0.21
    gap = np.abs(np.array(plain["born"], "datetime64[D]") - np.array(slipped["born"], "datetime64[D]")).astype(int)
    assert gap.max() == 3


@pytest.mark.parametrize(
    "settings",
    [
        {"people": 0},
        {"people": True},
        {"zips": 0},
        {"registered": 2},
        {"admitted": 0},
        {"visits": 0},
        {"slips": -1},
        {"seed": -1},
    ],
)
def test_bad_settings(settings):
    with pytest.raises(InvalidParameter, match=next(iter(settings))):
        town(**{"people": 100, "seed": 1, **settings})


def test_the_smallest_town():
    assert town(people=1, seed=0, admitted=1).visits.num_rows == 1
