"""Who rated what, how and when: sparse records, and a generated catalog of them for attacks to be tried on.

>>> from discreet.attacks.records.ratings import catalog, planted
>>> everybody = catalog(people=300, items=200, mean=30, seed=1)
>>> case = planted(everybody, targets=20, absent=10, known=6, seed=2)
>>> case.released.people, case.auxiliary.people, int((case.truth < 0).sum())
(290, 30, 10)

What an owner may do to ratings before they are released, to be tried against attacks.

>>> from discreet.attacks.records.ratings import coarse, common
>>> from discreet.attacks.records.ratings import catalog
>>> everybody = catalog(people=300, items=200, mean=30, seed=1)
>>> len(common(coarse(everybody, days=30), items=50)) < len(everybody)
True
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from discreet.errors import InvalidData, InvalidParameter
from discreet.exact import Number, integer, rational

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.floating[Any]]
Rng = np.random.Generator

BEST = 5  # ratings are 1 … 5
_MOST_RATING = 1_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """Entries of a sparse table of people × items, sorted by item and then by person, at most one for each pair.

    `person`, `item`, `rating` and `day` are parallel arrays; `day` is None where dates are not known. The entries of
    item i stand at `starts[i]:starts[i + 1]`. Use `Ratings.of`, which checks and sorts.
    """

    person: Ints
    item: Ints
    rating: Floats
    day: Ints | None
    starts: Ints
    people: int
    items: int

    @classmethod
    def of(
        cls,
        person: ArrayLike,
        item: ArrayLike,
        rating: ArrayLike,
        day: ArrayLike | None = None,
        *,
        people: int | None = None,
        items: int | None = None,
    ) -> "Ratings":
        """Ratings from columns: numbers of people and items from 0, finite ratings, and days as integers or dates.

        >>> Ratings.of([0, 0, 1], [0, 2, 2], [5, 3, 4], day=[10, 11, 400]).support.tolist()
        [1, 0, 2]
        >>> Ratings.of([0, 0], [1, 1], [5, 3])
        Traceback (most recent call last):
        ...
        discreet.errors.InvalidData: ratings: 1 entries repeat a person and item, the first at position 1
        """
        who, what = _numbers(person, "person", people), _numbers(item, "item", items)
        how, when = _ratings(rating), None if day is None else _days(day)
        lengths = {len(who), len(what), len(how), len(who if when is None else when)}
        if len(lengths) > 1:
            raise InvalidData(f"ratings: columns have different lengths: {sorted(lengths)}")
        if not len(who):
            raise InvalidData("ratings: there are no entries; give at least one")
        size = int(who.max()) + 1 if people is None else people, int(what.max()) + 1 if items is None else items
        order = _order(who, what, size[0])
        return cls.of_sorted(who[order], what[order], how[order], None if when is None else when[order], *size)

    @classmethod
    def of_sorted(cls, who: Ints, what: Ints, how: Floats, when: Ints | None, people: int, items: int) -> "Ratings":
        """Ratings from columns that keep every rule already: nothing is checked."""
        starts = np.zeros(items + 1, np.int64)
        np.cumsum(np.bincount(what, minlength=items), out=starts[1:])
        return cls(who, what, how, when, starts, people, items)

    def __len__(self) -> int:
        """How many entries."""
        return len(self.person)

    @property
    def support(self) -> Ints:
        """How many people rated each item."""
        return np.diff(self.starts)

    def where(self, chosen: NDArray[np.bool_]) -> "Ratings":
        """The chosen entries alone; people and items keep their numbers.

        >>> len(Ratings.of([0, 1], [0, 0], [5, 3]).where(np.array([True, False])))
        1
        """
        day = None if self.day is None else self.day[chosen]
        return self.of_sorted(self.person[chosen], self.item[chosen], self.rating[chosen], day, self.people, self.items)

    def without_days(self) -> "Ratings":
        """The same without dates."""
        return Ratings(self.person, self.item, self.rating, None, self.starts, self.people, self.items)


@dataclass(frozen=True, slots=True, eq=False)
class Planted:
    """A release, what an attacker knows of some people, and which records are theirs: −1 = not in the release.

    `people` are the numbers that the attacked people had before.
    """

    released: Ratings
    auxiliary: Ratings
    truth: Ints
    people: Ints


# Generated catalogs


def catalog(
    *, people: int, items: int, mean: Number, seed: int, days: int = 2000, least: int = 1, popularity: Number = 1
) -> Ratings:
    """People who rated items: few items are rated by many (Zipf), few people rate much (log-normal), on several visits.

    Item r is rated in proportion to (r + items/100)^−popularity. A person rates about `mean` items and at least
    `least`, on visits spread over `days`: about one for each 8 ratings. Ratings are 1 to 5: the item's quality, the
    person's mildness and chance.

    >>> ratings = catalog(people=1000, items=500, mean=40, seed=7)
    >>> 30 < len(ratings) / 1000 < 50, bool(ratings.support[:10].mean() > 5 * ratings.support[-250:].mean())
    (True, True)
    """
    for name, size in (("people", people), ("items", items), ("days", days), ("least", least)):
        integer(size, name, at_least=1)
    if least > items // 2:
        raise InvalidParameter("least", least, f"at most half of the {items} items")
    average = float(rational(mean, "mean", at_least=1, at_most=items))
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    keys = _pairs(rng, people, items, average, least, float(rational(popularity, "popularity", at_least=0)))
    what = (keys // people).astype(np.int32)
    who = (keys - what.astype(np.int64) * people).astype(np.int32)
    return Ratings.of_sorted(
        who, what, _opinions(rng, who, what, people, items), _visits(rng, who, people, days), people, items
    )


def planted(
    ratings: Ratings,
    *,
    targets: int,
    absent: int,
    known: int,
    seed: int,
    rating_error: Number = "0.2",
    day_error: int = 14,
    wrong: Number = "0.1",
) -> Planted:
    """Publish a catalog under new numbers, and tell an attacker `known` ratings of some people, with errors.

    `targets` people are in the release and `absent` are not: their records are taken out. Of the known ratings a share
    `rating_error` is off by one, dates are off by up to `day_error` days, and a share `wrong` is of items that were
    chosen at random, as popular as those that the person rated.

    >>> case = planted(catalog(people=100, items=90, mean=20, seed=1), targets=5, absent=5, known=4, seed=3)
    >>> len(case.auxiliary), bool((case.truth[:5] >= 0).all()), case.truth[5:].tolist()
    (40, True, [-1, -1, -1, -1, -1])
    """
    integer(known, "known", at_least=1)
    chosen = integer(targets, "targets", at_least=0) + integer(absent, "absent", at_least=0)
    if not 0 < chosen <= ratings.people - 1:
        raise InvalidParameter("targets + absent", chosen, f"1 … {ratings.people - 1}, fewer than the people")
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    able = np.flatnonzero(np.bincount(ratings.person, minlength=ratings.people) >= known)
    if len(able) < chosen:
        raise InvalidParameter("known", known, f"a number of ratings that at least {chosen} people have")
    off, mistaken = (
        float(rational(x, n, at_least=0, at_most=1)) for x, n in ((rating_error, "rating_error"), (wrong, "wrong"))
    )
    late = integer(day_error, "day_error", at_least=0)
    who = rng.choice(able, chosen, replace=False)
    number = np.full(ratings.people, -1, np.int32)
    stay = np.setdiff1d(np.arange(ratings.people), who[targets:])
    number[stay] = rng.permutation(len(stay))
    known_ratings = recalled(rng, ratings, who, known, wrong=mistaken, off=off, days=late)
    return Planted(_renumbered(ratings, number, len(stay)), known_ratings, number[who], who)


# How a catalog is drawn


def _pairs(rng: Rng, people: int, items: int, mean: float, least: int, popularity: float) -> NDArray[np.int64]:
    """Sorted numbers item·people + person of the rated pairs; repetitions are drawn anew, at most four times."""
    spread = 1.0  # of the log-normal law: the busiest tenth of the people gives about four tenths of the ratings
    busy = rng.lognormal(np.log(mean) - spread**2 / 2, spread, people)
    wanted = np.clip(np.rint(busy), least, items // 2).astype(np.int64)
    chance = (np.arange(1, items + 1) + items / 100) ** -popularity
    edges = np.cumsum(chance / chance.sum())
    keys, missing = np.empty(0, np.int64), wanted
    for _ in range(5):
        who = np.repeat(np.arange(people), missing)
        what = np.minimum(np.searchsorted(edges, rng.random(len(who))), items - 1)
        more = np.sort(what * people + who)
        keys = np.sort(np.concatenate([keys, more]), kind="stable")  # two sorted runs: merged, not sorted anew
        keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
        missing = wanted - np.bincount(keys % people, minlength=people)
        if missing.sum() < wanted.sum() / 1000:
            break
    return keys


def _opinions(rng: Rng, who: Ints, what: Ints, people: int, items: int) -> Floats:
    quality, mildness = rng.normal(3.5, 0.5, items), rng.normal(0, 0.4, people)
    opinion = quality[what] + mildness[who] + rng.normal(0, 0.9, len(who))
    return np.clip(np.rint(opinion), 1, BEST).astype(np.float32)


def _visits(rng: Rng, who: Ints, people: int, days: int) -> Ints:
    """The day of each entry: a person's visits are spread evenly over their time, which begins at a random day."""
    visits = 1 + np.bincount(who, minlength=people) // 8
    first = np.concatenate([[0], np.cumsum(visits)])
    owner = np.repeat(np.arange(people), visits)
    begin, length = rng.random(people) * days, rng.random(people)
    when = begin[owner] + rng.random(len(owner)) * length[owner] * (days - begin[owner])
    which = first[who] + (rng.random(len(who)) * visits[who]).astype(np.int64)
    return np.asarray(np.minimum(when[which], days - 1), np.int32)


# What is told to an attacker


def _renumbered(ratings: Ratings, number: Ints, people: int) -> Ratings:
    """The entries of people who have a number ≥ 0, under that number."""
    kept = ratings.where(number[ratings.person] >= 0)
    who = number[kept.person]
    order = np.argsort(kept.item.astype(np.int64) * people + who)
    day = None if kept.day is None else kept.day[order]
    return Ratings.of_sorted(who[order], kept.item[order], kept.rating[order], day, people, ratings.items)


def recalled(
    rng: Rng, ratings: Ratings, who: Ints, known: int, *, wrong: float, off: float = 0.0, days: int = 0
) -> Ratings:
    """`known` entries of each person in `who`, numbered in that order, as badly as they are remembered.

    >>> few = recalled(np.random.default_rng(1), Ratings.of([0, 0, 1], [0, 1, 1], [5, 3, 4]), np.array([0]), 2, wrong=0)
    >>> few.rating.tolist()
    [5.0, 3.0]
    """
    rank = np.full(ratings.people, -1, np.int32)
    rank[who] = np.arange(len(who))
    theirs = np.flatnonzero(rank[ratings.person] >= 0)
    owner = rank[ratings.person[theirs]]
    order = np.lexsort((rng.random(len(theirs)), owner))
    begin = np.searchsorted(owner[order], np.arange(len(who)))
    entry = theirs[order[(begin[:, None] + np.arange(known)).ravel()]]  # people × known
    person = np.repeat(np.arange(len(who)), known)
    taken = np.unique(owner.astype(np.int64) * ratings.items + ratings.item[theirs])
    entry = _mistaken(rng, ratings, entry, person, taken, wrong)
    how = _misjudged(rng, ratings.rating[entry], off, np.unique(ratings.rating))
    when = None if ratings.day is None else ratings.day[entry] + rng.integers(-days, days + 1, len(entry))
    return Ratings.of(person, ratings.item[entry], how, when, people=len(who), items=ratings.items)


def _mistaken(rng: Rng, ratings: Ratings, entry: Ints, person: Ints, taken: Ints, wrong: float) -> Ints:
    """A share `wrong` of the entries, replaced by somebody else's of an item that the person has not rated."""
    other = rng.integers(len(ratings), size=len(entry))
    key = person * ratings.items + ratings.item[other]
    first = np.zeros(len(entry), bool)
    first[np.unique(key, return_index=True)[1]] = True
    change = first & ~np.isin(key, taken) & (rng.random(len(entry)) < wrong)
    return np.where(change, other, entry)


def _misjudged(rng: Rng, rating: Floats, off: float, levels: Floats) -> Floats:
    """A share `off` of the ratings, moved to the next level up or down."""
    place = np.searchsorted(levels, rating)
    step = np.where(rng.random(len(rating)) < 0.5, 1, -1)
    step = np.where((place + step >= len(levels)) | (place + step < 0), -step, step)
    moved = np.clip(place + step * (rng.random(len(rating)) < off), 0, len(levels) - 1)
    return np.asarray(levels[moved], np.float32)


# Checks


def _flat(values: ArrayLike, name: str, kinds: str, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in kinds):
        raise InvalidData(f"{name}: expected a flat array of {what}, got {array.dtype} of shape {array.shape}")
    return array


def _refuse(bad: NDArray[np.bool_], name: str, problem: str) -> None:
    if bad.any():
        raise InvalidData(f"{name}: {int(bad.sum())} {problem}, the first at position {int(np.argmax(bad))}")


def _numbers(values: ArrayLike, name: str, size: int | None) -> Ints:
    """Numbers from 0 to below size, as int32."""
    array = _flat(values, name, "iu", "whole numbers")
    most = np.iinfo(np.int32).max if size is None else integer(size, f"number of {name}s", at_least=1)
    _refuse((array < 0) | (array >= most), name, f"numbers lie outside 0 … {most - 1}")
    return array.astype(np.int32)


def _ratings(values: ArrayLike) -> Floats:
    array = _flat(values, "rating", "iuf", "numbers").astype(np.float64)
    _refuse(~(np.abs(array) <= _MOST_RATING), "rating", f"are not finite, or beyond ±{_MOST_RATING:,}")
    return array.astype(np.float32)


def _days(values: ArrayLike) -> Ints:
    array = _flat(values, "day", "iuM", "whole numbers or dates")
    if array.dtype.kind == "M":
        _refuse(np.isnat(array), "day", "dates are missing")
        array = array.astype("datetime64[D]").astype(np.int64)
    _refuse(np.abs(array.astype(np.float64)) > 2**30, "day", "lie beyond ±2^30; count in days")
    return array.astype(np.int32)


def _order(who: Ints, what: Ints, people: int) -> Ints:
    """The order by item and person; refuses repetitions."""
    key = what.astype(np.int64) * people + who
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), bool)
    again[order[1:]] = key[order[1:]] == key[order[:-1]]
    _refuse(again, "ratings", "entries repeat a person and item")
    return order


def coarse(ratings: Ratings, *, days: int) -> Ratings:
    """Dates are published as the middle of periods of `days` days.

    >>> coarse(Ratings.of([0, 0], [0, 1], [5, 3], day=[3, 17]), days=10).day.tolist()
    [5, 15]
    """
    if ratings.day is None:
        raise InvalidParameter("ratings", "ratings without dates", "ratings with dates, which can be made coarse")
    width = integer(days, "days", at_least=1)
    day = ratings.day // width * width + width // 2
    return Ratings(ratings.person, ratings.item, ratings.rating, day, ratings.starts, ratings.people, ratings.items)


def common(ratings: Ratings, *, items: int) -> Ratings:
    """Only the most often rated items are published.

    >>> len(common(Ratings.of([0, 0, 1], [0, 1, 1], [5, 3, 4]), items=1))
    2
    """
    most = np.argsort(-ratings.support, kind="stable")[: integer(items, "items", at_least=1)]
    return ratings.where(np.isin(ratings.item, most))
