"""Sparse records: checks, generated catalogs, what is told to an attacker and what an owner may do."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from discreet.attacks.records.ratings import Ratings, catalog, coarse, common, planted
from discreet.errors import InvalidData, InvalidInput

ALPHA = 1e-6


def entries(ratings):
    days = np.zeros(len(ratings)) if ratings.day is None else ratings.day
    rows = zip(ratings.person.tolist(), ratings.item.tolist(), ratings.rating.tolist(), days.tolist(), strict=True)
    return sorted(rows)


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), min_size=1, unique=True), st.randoms())
def test_entries_are_sorted_and_none_is_lost(pairs, random):
    random.shuffle(pairs)
    who, what = np.array(pairs).T
    how, when = np.arange(len(pairs)) % 5 + 1, np.arange(len(pairs)) * 3
    ratings = Ratings.of(who, what, how, when, people=7, items=10)
    assert entries(ratings) == sorted(zip(who.tolist(), what.tolist(), how.tolist(), when.tolist(), strict=True))
    key = ratings.item.astype(int) * 7 + ratings.person
    assert (np.diff(key) > 0).all()
    for item in range(10):
        assert (ratings.item[ratings.starts[item] : ratings.starts[item + 1]] == item).all()
    assert ratings.support.tolist() == np.bincount(what, minlength=10).tolist()


def test_dates_say_the_same_as_days():
    dates = np.datetime64("1970-01-01") + np.array([10, 11, 12, 400])
    columns = [0, 0, 1, 1], [0, 2, 1, 2], [5, 3, 2, 4]
    assert entries(Ratings.of(*columns, [10, 11, 12, 400])) == entries(Ratings.of(*columns, dates))


BAD = {
    "a person below 0": (lambda: Ratings.of([0, -1], [0, 1], [1, 2]), "person: 1 .* position 1"),
    "an item too large": (lambda: Ratings.of([0, 1], [0, 7], [1, 2], items=5), "item: 1 numbers lie outside 0 … 4"),
    "a person too large": (lambda: Ratings.of([0, 9], [0, 1], [1, 2], people=2), "person: 1 .* position 1"),
    "a rating that is NaN": (lambda: Ratings.of([0, 1], [0, 1], [1, np.nan]), "rating: 1 are not finite.*position 1"),
    "an infinite rating": (lambda: Ratings.of([0, 1], [0, 1], [np.inf, 1]), "position 0"),
    "texts": (lambda: Ratings.of(["a"], [0], [1]), "person: expected a flat array of whole numbers"),
    "fractions as items": (lambda: Ratings.of([0], [0.5], [1]), "item: expected"),
    "booleans": (lambda: Ratings.of([True], [0], [1]), "person: expected"),
    "texts as ratings": (lambda: Ratings.of([0], [0], ["good"]), "rating: expected"),
    "a square": (lambda: Ratings.of([[0]], [[0]], [[1]]), "shape"),
    "nothing": (lambda: Ratings.of([], [], []), "no entries"),
    "different lengths": (lambda: Ratings.of([0, 1], [0], [1]), "different lengths"),
    "days of another length": (lambda: Ratings.of([0], [0], [1], day=[1, 2]), "different lengths"),
    "a missing date": (
        lambda: Ratings.of([0], [0], [1], day=np.array(["NaT"], "M8[D]")),
        "1 dates are missing, the first at position 0",
    ),
    "a day far away": (lambda: Ratings.of([0], [0], [1], day=[2**40]), "day"),
    "fractions of days": (lambda: Ratings.of([0], [0], [1], day=[1.5]), "day: expected"),
    "the same twice": (lambda: Ratings.of([4, 1, 4], [2, 1, 2], [1, 2, 3]), "1 entries repeat .* position 2"),
    "nobody": (lambda: catalog(people=0, items=5, mean=1, seed=0), "people"),
    "a mean above the items": (lambda: catalog(people=5, items=5, mean=6, seed=0), "mean"),
    "a least above half": (lambda: catalog(people=5, items=5, mean=2, least=4, seed=0), "least"),
    "a negative seed": (lambda: catalog(people=5, items=5, mean=2, seed=-1), "seed"),
    "more targets than people": (lambda: planted(small(), targets=50, absent=50, known=2, seed=0), "targets"),
    "more known than rated": (lambda: planted(small(), targets=40, absent=40, known=29, seed=0), "known"),
    "coarse without days": (lambda: coarse(small().without_days(), days=3), "dates"),
}


def small():
    return catalog(people=100, items=60, mean=12, seed=1)


@pytest.mark.parametrize("case", BAD, ids=str)
def test_bad_input_is_refused_without_a_private_value(case):
    call, words = BAD[case]
    with pytest.raises(InvalidInput, match=words):
        call()


def test_the_ratings_themselves_are_not_in_the_message():
    with pytest.raises(InvalidData) as caught:
        Ratings.of([0, 1, 31337], [0, 1, 4], [1.25, np.nan, 77.75], people=31338)
    assert not any(text in str(caught.value) for text in ("1.25", "77.75", "31337"))


def test_a_catalog_is_the_same_every_time_and_long_tailed():
    first, again = (catalog(people=3000, items=1000, mean=40, seed=3) for _ in range(2))
    other = catalog(people=3000, items=1000, mean=40, seed=4)
    assert entries(first) == entries(again) != entries(other)
    each = np.sort(np.bincount(first.person, minlength=3000))[::-1]
    assert 36 < each.mean() < 44
    assert each[:300].sum() > 0.3 * each.sum()  # a tenth of the people, three tenths of the ratings
    support = np.sort(first.support)[::-1]
    assert support[:100].sum() > 0.3 * support.sum()
    assert set(np.unique(first.rating)) == {1, 2, 3, 4, 5}
    assert 0 <= first.day.min() <= first.day.max() < 2000


def test_popularity_falls_as_it_is_told_to():
    def steepness(popularity):
        support = catalog(people=5000, items=1000, mean=20, seed=2, popularity=popularity).support
        return np.log(support[:50].mean() / support[-500:].mean())

    assert steepness("0.5") < steepness(1) < steepness("1.5")


def test_what_is_told_is_true_up_to_the_stated_errors():
    everybody = catalog(people=2000, items=600, mean=40, seed=5)
    case = planted(everybody, targets=150, absent=100, known=6, seed=6, rating_error=0, day_error=0, wrong=0)
    released = {(p, i): (r, d) for p, i, r, d in entries(case.released)}
    original = {(i, r, d) for _, i, r, d in entries(everybody)}
    assert case.released.people == 1900
    for person, item, rating, day in entries(case.auxiliary):
        if person < 150:
            assert released[int(case.truth[person]), item] == (rating, day)
        else:
            assert case.truth[person] == -1
            assert (item, rating, day) in original
    assert np.bincount(case.auxiliary.person).tolist() == [6] * 250
    assert len(set(case.truth[:150].tolist())) == 150


def test_the_records_of_people_outside_are_taken_out():
    everybody = catalog(people=300, items=200, mean=30, seed=7)
    case = planted(everybody, targets=1, absent=200, known=1, seed=8)
    assert np.bincount(case.released.person, minlength=100).min() >= 1
    assert case.released.people == 100
    assert len(case.released) < len(everybody)


def test_errors_come_as_often_as_stated():
    everybody = catalog(people=4000, items=900, mean=40, seed=9)
    case = planted(everybody, targets=1000, absent=0, known=8, seed=1, rating_error="0.3", day_error=10, wrong="0.2")
    released = {(p, i): (r, d) for p, i, r, d in entries(case.released)}
    told = entries(case.auxiliary)
    true = [(r, d, *released[key]) for p, i, r, d in told if (key := (int(case.truth[p]), i)) in released]
    n = len(told)
    wrong = n - len(true)  # a few replacements are undone because the person has rated them as well
    assert binom.ppf(ALPHA, n, 0.2 * 0.75) < wrong <= binom.isf(ALPHA, n, 0.2)
    off = sum(a != b for a, _, b, _ in true)
    assert binom.ppf(ALPHA, len(true), 0.3) <= off <= binom.isf(ALPHA, len(true), 0.3)
    assert all(abs(a - b) <= 1 and 1 <= a <= 5 for a, _, b, _ in true)
    late = np.array([a - b for _, a, _, b in true])
    assert np.abs(late).max() == 10
    assert abs(late.mean()) < 5 * 6.06 / np.sqrt(len(late))  # uniform on −10 … 10: σ = 6.06


def test_what_an_owner_may_do():
    ratings = catalog(people=1000, items=200, mean=25, seed=1)
    assert set(coarse(ratings, days=100).day % 100) == {50}
    assert (np.abs(coarse(ratings, days=100).day - ratings.day) <= 50).all()
    few = common(ratings, items=7)
    assert (few.support > 0).sum() == 7
    assert few.support.sum() == np.sort(ratings.support)[-7:].sum()
