"""A generated town for linkage: its people, its hospital's visits without names, its voter list with names.

Nobody in it exists. Ages are roughly those of the US census of 2000, ZIP codes differ in size, conditions depend on
age and sex. What matters for linkage is how many share a ZIP code. Sweeney 2000 estimated that 87 % of the population
of the United States is unique by 5-digit ZIP code, sex and date of birth; Golle 2006, from the census of 2000, found
63 %. The town has about 6,500 people a ZIP code unless told otherwise, of whom 87 to 88 % are unique; with 23,000 a
ZIP code 63 % are.

>>> from discreet.attacks.generated import town
>>> place = town(people=2000, seed=1)
>>> place.people.num_rows, place.visits.column_names
(2000, ['zip', 'sex', 'born', 'race', 'admitted', 'condition'])

Generated files on which every attack can be tried: a town, its hospitals, its raters and its callers.

>>> from discreet.attacks.generated import samples
>>> [name for name, _, _ in samples(people=200, seed=1)][:3]
['visits.csv', 'voters.csv', 'patients.csv']
"""

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from discreet.attacks.answers.intersection import two_hospitals
from discreet.attacks.records.networks import overlapping, society
from discreet.attacks.records.ratings import catalog, planted
from discreet.exact import Number, integer, rational

if TYPE_CHECKING:
    import pyarrow


Rng = np.random.Generator
Texts = NDArray[np.object_]

TODAY = np.datetime64("2000-04-01")
"""The day of the voter list."""

_PER_ZIP = 6500
_ZIP_SPREAD = 0.5  # of the logarithm of a ZIP code's size
_AGES = (68, 73, 73, 72, 67, 69, 73, 81, 80, 71, 62, 48, 38, 34, 31, 26, 18, 10, 4, 1)  # per thousand, in fives
_RACES = {"white": 75, "black": 12, "hispanic": 7, "asian": 4, "native": 1, "other": 1}
_SCHOOLING = {"none": 4, "school": 24, "high school": 38, "college": 22, "degree": 12}
_CONDITIONS = {
    # name: (weight at 20 years, weight at 80 years, share of women)
    "asthma": (10, 4, 0.5),
    "broken bone": (12, 8, 0.45),
    "cancer": (1, 14, 0.5),
    "depression": (8, 4, 0.6),
    "diabetes": (2, 10, 0.45),
    "heart disease": (1, 22, 0.4),
    "infection": (12, 10, 0.5),
    "injury": (16, 6, 0.35),
    "pneumonia": (3, 12, 0.5),
    "prostate disease": (0, 6, 0.0),
    "pregnancy": (24, 0, 1.0),
    "stroke": (0, 10, 0.5),
}


def _words(text: str) -> list[str]:
    return text.split()


_WOMEN = _words(
    "Mary Patricia Linda Barbara Elizabeth Jennifer Maria Susan Margaret "
    "Dorothy Lisa Nancy Karen Betty Helen Sandra Donna Carol Ruth Sharon"
)
_MEN = _words(
    "James John Robert Michael William David Richard Charles Joseph "
    "Thomas Daniel Paul Mark Donald George Kenneth Steven Edward Brian Ronald"
)
_FIRST_HALVES = _words(
    "Ash Black Brad Carl Dun East Fair Glen Hart Hol King Lang Mar Nor Oak Pres Rad Stan Thorn West Whit Win"
)
_LAST_HALVES = _words("berg bury by combe dale den field ford ham land ley man more son stead ton wick wood worth")


@dataclass(frozen=True, slots=True, eq=False)
class Town:
    """Tables about the same people; `patients` is what only the judge knows: the person of each visit.

    `people` and `voters` have the column `person`, one each.
    """

    people: "pyarrow.Table"
    voters: "pyarrow.Table"
    visits: "pyarrow.Table"
    patients: Texts


def town(
    *,
    people: int = 50_000,
    seed: int,
    zips: int | None = None,
    registered: Number = "0.7",
    admitted: Number = "0.1",
    visits: int = 1,
    slips: Number = 0,
) -> Town:
    """A town: `registered` of its adults vote, `admitted` of all were in hospital, up to `visits` times.

    `slips` is the share of voters whose entry is wrong in one place: another ZIP code, or a date of birth up to three
    days off. The same seed gives the same town.

    >>> first, again = town(people=500, seed=3), town(people=500, seed=3)
    >>> first.voters.equals(again.voters), bool((first.patients == again.patients).all())
    (True, True)
    """
    count = integer(people, "people", at_least=1)
    rng = np.random.default_rng(integer(seed, "seed", at_least=0))
    places = max(1, round(count / _PER_ZIP)) if zips is None else integer(zips, "zips", at_least=1, at_most=90_000)
    everybody = _people(count, places, rng)
    voters = _voters(everybody, float(rational(registered, "registered", at_least=0, at_most=1)), rng)
    voters = _with_slips(voters, float(rational(slips, "slips", at_least=0, at_most=1)), rng)
    share = float(rational(admitted, "admitted", above=0, at_most=1))
    stays, patients = _visits(everybody, share, integer(visits, "visits", at_least=1), rng)
    return Town(_table(everybody), _table(voters), _table(stays), patients)


def _people(count: int, places: int, rng: Rng) -> dict[str, Any]:
    weights = _sizes(places)
    codes = np.sort(rng.choice(np.arange(1000, 99_951), places, replace=False))
    zips = np.array([f"{code:05d}" for code in codes], object)[rng.choice(places, count, p=weights / weights.sum())]
    age = 5 * rng.choice(len(_AGES), count, p=np.array(_AGES) / sum(_AGES)) + rng.random(count) * 5
    born = TODAY - np.ceil(age * 365.25).astype(np.int64)
    sex = np.where(rng.random(count) < 0.48 + age / 1000, "F", "M").astype(object)
    first = np.where(sex == "F", _pick(_WOMEN, count, rng), _pick(_MEN, count, rng))
    last = [a + b for a in _FIRST_HALVES for b in _LAST_HALVES]
    adult = age >= 18
    return {
        "person": np.array([f"P{number:07d}" for number in rng.permutation(count)], object),
        "name": first + " " + _pick(last, count, rng),
        "zip": zips,
        "sex": sex,
        "born": born,
        "race": _pick(list(_RACES), count, rng, np.array(list(_RACES.values()))),
        "married": np.where(adult & (rng.random(count) < 0.55), "yes", "no").astype(object),
        "schooling": np.where(
            adult, _pick(list(_SCHOOLING), count, rng, np.array(list(_SCHOOLING.values()))), "school"
        ).astype(object),
    }


def _sizes(places: int) -> NDArray[np.float64]:
    """Sizes of ZIP codes: quantiles of a log-normal distribution, so that all towns are alike in this."""
    ranks = (np.arange(places) + 0.5) / places
    return np.exp(_ZIP_SPREAD * np.array([NormalDist().inv_cdf(rank) for rank in ranks]))


def _voters(people: dict[str, Any], share: float, rng: Rng) -> dict[str, Any]:
    adult = _age(people["born"]) >= 18
    listed = rng.permutation(np.flatnonzero(adult & (rng.random(len(adult)) < share)))
    return {name: people[name][listed] for name in ("person", "name", "zip", "sex", "born")}


def _with_slips(voters: dict[str, Any], share: float, rng: Rng) -> dict[str, Any]:
    count = len(voters["zip"])
    wrong, moved = rng.random(count) < share, rng.random(count) < 0.5
    others = voters["zip"][rng.permutation(count)]
    days = rng.integers(1, 4, count) * rng.choice([-1, 1], count)
    zips = np.where(wrong & moved, others, voters["zip"])
    return {**voters, "zip": zips, "born": voters["born"] + np.where(wrong & ~moved, days, 0)}


def _visits(people: dict[str, Any], share: float, most: int, rng: Rng) -> tuple[dict[str, Any], Texts]:
    count = len(people["zip"])
    patients = rng.choice(count, max(1, round(share * count)), replace=False)
    rows = rng.permutation(np.repeat(patients, rng.integers(1, most + 1, len(patients))))
    told = {name: people[name][rows] for name in ("zip", "sex", "born", "race")}
    day = np.maximum(TODAY - rng.integers(1, 366, len(rows)), told["born"])
    return {**told, "admitted": day, "condition": _condition(told["born"], told["sex"], rng)}, people["person"][rows]


def _condition(born: NDArray[Any], sex: Texts, rng: Rng) -> Texts:
    """Each condition's weight goes from that at 20 to that at 80 years; women and men have their shares of it."""
    young, old, women = (np.array(column, float) for column in zip(*_CONDITIONS.values(), strict=True))
    at = np.clip((_age(born) - 20) / 60, 0, 1)[:, None]
    weight = (young * (1 - at) + old * at) * np.where((sex == "F")[:, None], women, 1 - women)
    limits = np.cumsum(weight, axis=1)
    drawn = (rng.random(len(born))[:, None] * limits[:, -1:] >= limits).sum(axis=1)
    return np.asarray(np.array(list(_CONDITIONS), object)[np.minimum(drawn, len(_CONDITIONS) - 1)])


def _pick(names: list[str], count: int, rng: Rng, weights: NDArray[Any] | None = None) -> Texts:
    """Names at random; the k-th is 1/(k + 3) as common as the first unless weights are given."""
    common = 1 / (np.arange(len(names)) + 3) if weights is None else weights
    return np.asarray(np.array(names, object)[rng.choice(len(names), count, p=common / common.sum())])


def _age(born: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray((TODAY - born).astype(np.int64) / 365.25)


def _table(columns: dict[str, Any]) -> "pyarrow.Table":
    import pyarrow

    return pyarrow.table(columns)


Made = list[tuple[str, str, "pyarrow.Table"]]
"""The name of a file, what it is for, and its table."""


def samples(*, people: int, seed: int) -> Made:
    """All files, for a town of so many people; the same seed gives the same ones. Nobody in them exists."""
    return [*_town(people, seed), *_hospitals(seed), *_ratings(seed), *_networks(seed)]


def _town(people: int, seed: int) -> Made:
    """Visits without names, voters with names; and people in and not in a study, who have the same columns."""
    import pyarrow

    place = town(people=people, seed=seed)
    study = town(people=max(2, people // 10), seed=seed + 1, zips=10, admitted=1).visits.drop_columns(["admitted"])
    half = study.num_rows // 2
    inside, outside = study.slice(0, half), study.slice(half)
    member = np.repeat(["yes", "no"], [half, study.num_rows - half])
    return [
        ("visits.csv", "hospital visits, released without names", place.visits),
        ("voters.csv", "the voter list, with names", place.voters),
        ("patients.csv", "for the judge: whose visit each is", pyarrow.table({"person": place.patients})),
        ("people.csv", "people of a study: their data, released as it is", inside),
        ("others.csv", "people who were not in the study: the control", outside),
        ("everybody.csv", "for the judge: both, and who was a member", study.append_column("member", [member])),
        ("shuffled.csv", "a release of the study that keeps each column and breaks all ties", _shuffled(inside, seed)),
    ]


def _shuffled(table: "pyarrow.Table", seed: int) -> "pyarrow.Table":
    """Each column in an order of its own."""
    import pyarrow

    rng = np.random.default_rng(seed)
    return pyarrow.table({name: table[name].take(rng.permutation(table.num_rows)) for name in table.column_names})


def _hospitals(seed: int) -> Made:
    """Two releases about overlapping people, coarsened in two ways."""
    import pyarrow

    made = two_hospitals(people=1000, shared=200, seed=seed)
    north = {**made.first, "age": _tens(made.first["age"], 0), "zip": [f"{z // 10}*" for z in made.first["zip"]]}
    south = {**made.second, "age": _tens(made.second["age"], 5), "zip": [f"{z // 10}*" for z in made.second["zip"]]}
    return [
        ("north.csv", "patients of one hospital, coarsened", pyarrow.table(north)),
        ("south.csv", "patients of another, coarsened otherwise", pyarrow.table(south)),
        ("both.csv", "for the judge: people who were at both", pyarrow.table(made.both)),
        ("neither.csv", "people who were at neither: the control", pyarrow.table(made.neither)),
    ]


def _tens(ages: list[Any], start: int) -> list[str]:
    lows = [(age - start) // 10 * 10 + start for age in ages]
    return [f"{low}-{low + 9}" for low in lows]


def _ratings(seed: int) -> Made:
    """A catalog under invented names, and a few ratings under true ones."""
    import pyarrow

    everybody = catalog(people=3000, items=800, mean=40, seed=seed)
    case = planted(everybody, targets=150, absent=150, known=8, seed=seed)

    def table(ratings: Any, name: str) -> "pyarrow.Table":
        return pyarrow.table(
            {
                "person": [f"{name}{person}" for person in ratings.person],
                "item": [f"film {item}" for item in ratings.item],
                "rating": ratings.rating.astype(int),
                "day": ratings.day,
            }
        )

    truth = {
        "person": [f"P{number}" for number in range(len(case.truth))],
        "record": [f"r{record}" if record >= 0 else None for record in case.truth.tolist()],
    }
    return [
        ("ratings.csv", "ratings, released under invented names", table(case.released, "r")),
        ("reviews.csv", "a few ratings that are known of people with names", table(case.auxiliary, "P")),
        ("raters.csv", "for the judge: whose record is whose", pyarrow.table(truth)),
    ]


def _networks(seed: int) -> Made:
    """Calls between invented numbers, friendships between people with names, and some who are known in both."""
    import pyarrow

    network = society(nodes=2000, mean=20, seed=seed)
    pair = overlapping(network, node_overlap="0.7", edge_overlap="0.7", seed=seed)

    def edges(network: Any, name: str) -> "pyarrow.Table":
        return pyarrow.table({"a": [f"{name}{i}" for i in network.source], "b": [f"{name}{i}" for i in network.target]})

    def pairs(mine: Any, theirs: Any) -> "pyarrow.Table":
        return pyarrow.table({"person": [f"P{i}" for i in mine], "number": [f"n{i}" for i in theirs]})

    common = np.flatnonzero(pair.truth >= 0)
    seeds = pair.seeds(30, seed=seed)
    return [
        ("calls.csv", "who calls whom, released under invented numbers", edges(pair.released, "n")),
        ("friends.csv", "who is a friend of whom, with names", edges(pair.auxiliary, "P")),
        ("numbers.csv", "for the judge: whose number is whose", pairs(common, pair.truth[common])),
        ("seeds.csv", "a few people whose number is known", pairs(seeds[:, 0], seeds[:, 1])),
    ]
