"""Generated files on which every attack can be tried: a town, its hospitals, its raters and its callers.

>>> from discreet.attacks.samples import samples
>>> [name for name, _, _ in samples(people=200, seed=1)][:3]
['visits.csv', 'voters.csv', 'patients.csv']
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from discreet.attacks.intersection import two_hospitals
from discreet.attacks.networks import overlapping, society
from discreet.attacks.ratings import catalog, planted
from discreet.attacks.voters import town

if TYPE_CHECKING:
    import pyarrow

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
        ("patients.csv", "the judge's: whose visit each is", pyarrow.table({"person": place.patients})),
        ("people.csv", "people of a study: their data, released as it is", inside),
        ("others.csv", "people who were not in the study: the control", outside),
        ("everybody.csv", "the judge's: both, and who was a member", study.append_column("member", [member])),
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
        ("both.csv", "the judge's: people who were at both", pyarrow.table(made.both)),
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
        ("raters.csv", "the judge's: whose record is whose", pyarrow.table(truth)),
    ]


def _networks(seed: int) -> Made:
    """Calls between invented numbers, friendships between people with names, and some who are known in both."""
    import pyarrow

    network = society(nodes=2000, mean=20, seed=seed)
    pair = overlapping(network, node_overlap="0.7", edge_overlap="0.7", seed=seed)

    def edges(one: Any, name: str) -> "pyarrow.Table":
        return pyarrow.table({"a": [f"{name}{i}" for i in one.source], "b": [f"{name}{i}" for i in one.target]})

    def pairs(mine: Any, theirs: Any) -> "pyarrow.Table":
        return pyarrow.table({"person": [f"P{i}" for i in mine], "number": [f"n{i}" for i in theirs]})

    common = np.flatnonzero(pair.truth >= 0)
    seeds = pair.seeds(30, seed=seed)
    return [
        ("calls.csv", "who calls whom, released under invented numbers", edges(pair.released, "n")),
        ("friends.csv", "who is a friend of whom, with names", edges(pair.auxiliary, "P")),
        ("numbers.csv", "the judge's: whose number is whose", pairs(common, pair.truth[common])),
        ("seeds.csv", "a few people whose number is known", pairs(seeds[:, 0], seeds[:, 1])),
    ]
