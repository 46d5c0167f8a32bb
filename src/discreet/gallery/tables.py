"""Exhibits on released tables: linkage, homogeneity, inference, fingerprints, two releases together."""

from typing import Any

import numpy as np

from discreet.anonymity import Policy, anonymize
from discreet.anonymity.uniques import unique_sets
from discreet.attacks.inference import Inference, Linkability
from discreet.attacks.intersection import Intersection, two_hospitals
from discreet.attacks.linkage import Linkage, LinkedSecret
from discreet.attacks.singling import SinglingOut
from discreet.attacks.voters import Town, town
from discreet.gallery.exhibit import Exhibit, Shown
from discreet.mechanisms.additive import Geometric
from discreet.noise import DeterministicEntropy
from discreet.report import Bars, Chart, Grid, Part, Text

_QUASI = ("zip", "sex", "born")
_CONDITION, _SCHOOLING = "condition", "schooling"
_EPSILON = 1


def _policy(k: int, models: list[dict[str, Any]]) -> Policy:
    columns = {
        "zip": {"quasi": "prefixes"},
        "sex": {"quasi": "flat"},
        "born": {"quasi": "dates"},
        "race": {"quasi": "flat"},
        "admitted": {"coarsen": "dates", "level": 2},
        "condition": {"sensitive": models},
    }
    return Policy.of({"anonymity": {"k": k, "method": "local"}, "columns": columns})


def _linkage(seed: int) -> Shown:
    place = town(people=20_000, seed=seed)
    coarse = anonymize(place.visits, _policy(5, [])).table
    settings: dict[str, Any] = {"known": place.voters, "on": list(_QUASI), "name": "person", "truth": place.patients}
    reports = [
        Linkage(released=place.visits, against="the table without names", **settings).run(),
        Linkage(released=coarse, against="the table made 5-anonymous", **settings).run(),
        _secrets(place, _independent(place.visits, seed), f"a table of independent columns, ε = {_EPSILON}"),
    ]
    return Shown(reports)


def _secrets(place: Town, released: Any, against: str) -> Any:
    """Learning the condition of voters through the row that is linked with them."""
    answers, members = _answers(place)
    return LinkedSecret(
        released=released, known=place.voters, on=list(_QUASI), answers=answers, members=members, against=against,
        repeated=True, secret=_CONDITION,
    ).run()  # fmt: skip


def _answers(place: Town) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.bool_]]]:
    """For each voter, the condition of their visit; and who had one."""
    condition = dict(zip(place.patients.tolist(), place.visits["condition"].to_pylist(), strict=True))
    names = place.voters["person"].to_pylist()
    inside = np.array([name in condition for name in names])
    common = place.visits["condition"].to_pylist()
    return [condition.get(name, common[i % len(common)]) for i, name in enumerate(names)], inside


def _independent(table: Any, seed: int) -> dict[str, list[Any]]:
    """A synthetic table: each column drawn by itself from its noisy histogram (one row of one person a visit)."""
    entropy, rng = DeterministicEntropy(seed), np.random.default_rng(seed)
    made: dict[str, list[Any]] = {}
    for name in table.column_names:
        values, counts = np.unique(table[name].to_pylist(), return_counts=True)
        noise = Geometric(epsilon=f"{_EPSILON}/{len(table.column_names)}", sensitivity=1)
        noisy = np.maximum(np.asarray(noise.release(counts, entropy=entropy)), 0).astype(float)
        made[name] = rng.choice(values, table.num_rows, p=noisy / noisy.sum()).tolist()
    return made


def _homogeneity(seed: int) -> Shown:
    visits = _clinics(4000, seed)
    reports = []
    for models, words in (
        ([], "5-anonymous"),
        ([{"model": "distinct", "l": 3}], "5-anonymous, 3 conditions in each class"),
    ):
        policy = Policy.of({
            "anonymity": {"k": 5, "method": "optimal"},
            "columns": {
                "zip": {"quasi": "prefixes"},
                "age": {"quasi": "intervals", "low": 0, "high": 99, "widths": [10, 20, 40]},
                _CONDITION: {"sensitive": models},
            },
        })  # fmt: skip
        released = anonymize(visits, policy).table
        attack = Intersection(
            releases=[released], known=visits, outside=_clinics(4000, seed + 1, in_clinic=False), on=list(policy.names),
            sensitive=_CONDITION, against=f"one table, {words}",
        )  # fmt: skip
        reports.append(attack.run())
    return Shown(reports)


def _clinics(people: int, seed: int, *, in_clinic: bool = True) -> dict[str, list[Any]]:
    """Visits in 60 ZIP codes; in a third of them the clinic treats one illness. Other people there have any."""
    rng = np.random.default_rng(seed)
    zips, ages, ills = rng.integers(0, 60, people), rng.integers(18, 90, people), rng.integers(0, 8, people)
    special = np.where((zips < 20) & in_clinic, zips // 10, ills)
    return {
        "zip": [f"{13000 + 100 * z}" for z in zips],
        "age": ages.tolist(),
        _CONDITION: [f"illness {ill}" for ill in special],
    }


def _numbers(table: Any, k: int, models: list[dict[str, Any]]) -> Policy:
    """All columns but the condition and the sex are numbers, to be cut by Mondrian."""
    columns: dict[str, Any] = {name: {"quasi": "number"} for name in table if name not in (_CONDITION, "sex")}
    columns |= {"sex": "other"} if "sex" in table else {}
    return Policy.of(
        {"anonymity": {"k": k, "method": "mondrian"}, "columns": columns | {_CONDITION: {"sensitive": models}}}
    )


def _fingerprints(seed: int) -> Shown:
    place = town(people=20_000, seed=seed)
    people = place.people.drop_columns(["person"])
    found = unique_sets(people, share="0.5", largest=4)
    rows = [[", ".join(one.columns), one.share] for one in found.sets[:12]]
    bars = Bars([column.name for column in found.columns], [column.alone for column in found.columns])
    parts: list[Part] = [
        Text(f"All {len(found.columns)} columns together single out {found.together:.1%} of {found.rows:,} people."),
        Grid(["columns together", "share of people singled out"], rows, "the smallest sets that single out half"),
        Chart("Share of people that each column singles out alone", [bars], y="share", y_range=(0, 1)),
    ]
    return Shown(more=parts)


def _inference(seed: int) -> Shown:
    place = town(people=32_000, seed=seed)
    people = place.people.drop_columns(["person"])
    order = np.random.default_rng(seed).permutation(people.num_rows)
    inside, outside, other = (people.take(order[part::4]) for part in range(3))
    known = [name for name in people.column_names if name != _SCHOOLING]
    half = len(known) // 2
    common: dict[str, Any] = {"people": inside, "controls": outside, "seed": seed}
    reports = []
    for released, against in ((inside, "an exact copy"), (other, "a table of other people")):
        reports += [
            Inference(released=released, known=known, secret=_SCHOOLING, against=against, **common).run(),
            SinglingOut(released=released, width=3, against=against, tries=2000, **common).run(),
            Linkability(released=released, left=known[:half], right=known[half:], against=against, **common).run(),
        ]
    return Shown(reports)


def _intersection(seed: int) -> Shown:
    pair = two_hospitals(people=4000, shared=2000, conditions=60, seed=seed)
    reports = []
    for k in (2, 5, 10):
        policy = _numbers(pair.first, k, [])
        releases = [anonymize(hospital, policy).table for hospital in (pair.first, pair.second)]
        reports.append(
            Intersection(
                releases=releases, known=pair.both, outside=pair.neither, on=list(policy.names), sensitive=_CONDITION,
                against=f"two tables, each {k}-anonymous",
            ).run()
        )  # fmt: skip
    return Shown(reports)


EXHIBITS = (
    Exhibit(
        name="linkage",
        title="A table without names, and a list with them",
        claims=("A3",),
        words="A hospital's table without names is joined with the voter list by ZIP code, sex and date of birth",
        show=_linkage,
    ),
    Exhibit(
        name="homogeneity",
        title="Everybody in the class has the same secret",
        claims=("A2",),
        words="Nobody is named, but where all rows of a class share their condition it is told all the same",
        show=_homogeneity,
    ),
    Exhibit(
        name="fingerprints",
        title="Harmless columns become a fingerprint",
        claims=("A11",),
        words="Which columns together single people out, found by looking at all sets of up to four",
        show=_fingerprints,
    ),
    Exhibit(
        name="inference",
        title="Inference, singling out and linkability",
        claims=(),
        words="The three risks that data protection authorities name, against a copy and against other people's table",
        show=_inference,
    ),
    Exhibit(
        name="intersection",
        title="Two k-anonymous tables of the same people",
        claims=("A6",),
        words="Two hospitals publish k-anonymous tables; whoever was in both is in the intersection of two classes",
        show=_intersection,
    ),
)
