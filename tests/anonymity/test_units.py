"""People who have several rows: all that is counted counts people, for tables in which it is known who they are."""

from collections import Counter
from itertools import permutations
from math import log
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.anonymity import Classes, Policy, anonymize
from discreet.anonymity.models import (
    AlphaK,
    Closeness,
    DistinctDiversity,
    EntropyDiversity,
    KAnonymity,
    Likeness,
    Presence,
    RecursiveDiversity,
    Target,
    unit_codes,
    units_in,
    verify,
)
from discreet.anonymity.risk import risk
from discreet.errors import InvalidData, InvalidParameter

ROWS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(0, 5), st.sampled_from(["flu", "cold", "ulcer", ""])),
    min_size=3,
    max_size=14,
).filter(lambda rows: any(ill for _, _, ill in rows))


def table(rows: list[tuple[str, int, str]]) -> dict[str, list[Any]]:
    zips, people, ills = zip(*rows, strict=True)
    return {"zip": list(zips), "who": [f"p{person}" for person in people], "ill": list(ills)}


def people_with(rows: list[tuple[str, int, str]], place: str | None) -> dict[int, set[str]]:
    """The known values of each person in a class (None: in the table)."""
    found: dict[int, set[str]] = {}
    for zip_, person, ill in rows:
        if place in (None, zip_):
            found.setdefault(person, set()).update({ill} - {""})
    return found


def matching(sets: list[set[str]]) -> int:
    """The most values that as many people hold, one each; by trying everything."""
    values = sorted(set().union(*sets))
    best = 0
    for chosen in permutations(range(len(sets)), min(len(values), len(sets))):
        for order in permutations(values, len(chosen)):
            best = max(best, sum(value in sets[i] for i, value in zip(chosen, order, strict=True)))
    return best


def votes(sets: list[set[str]]) -> dict[str, float]:
    """Each person's vote, divided among their values; as shares."""
    count: Counter[str] = Counter()
    for held in sets:
        for value in held:
            count[value] += 1 / len(held)  # type: ignore[assignment]
    total = sum(count.values())
    return {value: amount / total for value, amount in count.items()}


@given(ROWS)
@settings(max_examples=40)
def test_every_model_counts_people(rows: list[tuple[str, int, str]]) -> None:
    data = table(rows)
    classes = Classes.of_table(data, ["zip"])
    order = [data["zip"][classes.of_row.tolist().index(number)] for number in range(classes.count)]
    models: list[Any] = [
        KAnonymity(2), DistinctDiversity(2, "ill"), AlphaK("0.5", 1, "ill"), Likeness(1, "ill"), Closeness("0.3", "ill"),
        EntropyDiversity("1.5", "ill"), RecursiveDiversity(2, 2, "ill"),
    ]  # fmt: skip
    k, distinct, alpha, beta, t, entropy, recursive = (
        part.measure(classes) for part in Target.of(*models, unit="who").bind(data, feasible=False).parts
    )
    everybody = [held for held in people_with(rows, None).values() if held]
    for number, place in enumerate(order):
        persons = people_with(rows, place)
        sets = [held for held in persons.values() if held]
        assert k[number] == len(persons)
        if not sets:
            assert distinct[number] == 0
            continue
        holders = Counter(value for held in sets for value in held)
        assert distinct[number] == matching(sets)
        assert alpha[number] == pytest.approx(max(holders.values()) / len(sets))
        wider = Counter(value for held in everybody for value in held)
        gains = [holders[v] / len(sets) / (wider[v] / len(everybody)) - 1 for v in holders]
        assert beta[number] == pytest.approx(max(0, *gains), abs=1e-12)
        here, there = votes(sets), votes(everybody)
        assert t[number] == pytest.approx(sum(abs(here.get(v, 0) - share) for v, share in there.items()) / 2, abs=1e-9)
        assert log(entropy[number]) == pytest.approx(-sum(p * log(p) for p in here.values()), abs=1e-9)
        tail = len(sets) - max(holders.values())
        assert recursive[number] == pytest.approx(max(holders.values()) / tail if tail else np.inf)


@given(ROWS)
@settings(max_examples=40)
def test_a_row_for_each_person_changes_nothing(rows: list[tuple[str, int, str]]) -> None:
    """Where everybody has one row, people are rows."""
    data = table(rows) | {"who": [f"p{i}" for i in range(len(rows))]}
    models: list[Any] = [
        KAnonymity(2),
        DistinctDiversity(2, "ill"),
        Closeness("0.3", "ill"),
        RecursiveDiversity(2, 2, "ill"),
    ]
    by_row, by_person = (
        verify(data, quasi=["zip"], models=Target.of(*models, unit=unit)).as_dict() for unit in (None, "who")
    )
    assert by_person | {"counted": "rows"} == by_row
    classes = Classes.of_table(data, ["zip"])
    assert risk(classes, units=unit_codes(data, "who")).prosecutor == risk(classes).prosecutor


@given(ROWS)
@settings(max_examples=40)
def test_what_is_called_monotone_is(rows: list[tuple[str, int, str]]) -> None:
    data = table(rows)
    target = Target.of(KAnonymity(2), DistinctDiversity(2, "ill"), unit="who")
    assert target.monotone
    bound = target.bind(data, feasible=False)
    if bound.holds(Classes.of_table(data, ["zip"])).all():
        assert bound.holds(Classes.numbered(np.zeros(len(rows), np.int64))).all()
    assert not Target.of(KAnonymity(2), AlphaK("0.5", 2, "ill"), unit="who").monotone


def visits(people: int, seed: int, most: int = 6) -> dict[str, list[Any]]:
    """People with one to `most` visits each, at the same place but at different ages of their lives."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), rng.integers(1, most + 1, people))
    zips, ages = rng.integers(13000, 13030, people), rng.integers(20, 70, people)
    return {
        "who": [f"P{i}" for i in who],
        "zip": zips[who].astype(str).tolist(),
        "age": (ages[who] + rng.integers(0, 3, len(who))).tolist(),
        "ill": rng.choice(["flu", "cold", "ulcer", "asthma"], len(who)).tolist(),
    }


def policy(method: str, *, unit: str | None = "who", models: Any = (), **settings: Any) -> Policy:
    quasi = "number" if method == "mondrian" else None
    columns: dict[str, Any] = {
        "zip": "other" if quasi else {"quasi": "prefixes"},
        "age": {"quasi": "number"} if quasi else {"quasi": "intervals", "widths": [5, 10, 20], "low": 0, "high": 99},
        "ill": {"sensitive": list(models)},
    }
    columns |= {} if unit else {"who": "identifier"}
    chosen = {"k": 5, "method": method, **settings} | ({"unit": unit} if unit else {})
    return Policy.of({"anonymity": chosen, "columns": columns})


def test_five_visits_of_one_person_are_one_person() -> None:
    data: dict[str, Any] = {"who": ["Ann"] * 5 + [f"P{i}" for i in range(5)], "zip": ["13053"] * 5 + ["14850"] * 5}
    data |= {"age": [30] * 5 + [50] * 5, "ill": ["HIV"] * 5 + ["flu"] * 5}
    by_row = anonymize(data, policy("local", unit=None))
    assert by_row.verdict.smallest == 5  # all of Ann's rows
    assert "'who' has 6 values in 10 rows" in by_row.text()
    assert "5 to 5 rows" in by_row.text()
    by_person = anonymize(data, policy("local"))
    assert by_person.table.column_names == ["zip", "age", "ill"]
    classes = Classes.of_table(by_person.table, ["zip", "age"])
    assert by_person.verdict.counted == "people"
    assert not classes.count or units_in(classes, unit_codes(data, "who")).min() >= 5
    assert len(set(by_person.table.column("zip").to_pylist())) == 1


@pytest.mark.parametrize(("people", "seed"), [(60, 1), (300, 2)])
@pytest.mark.parametrize("method", ["local", "optimal", "mondrian"])
def test_classes_of_a_release_hold_k_people(method: str, people: int, seed: int) -> None:
    """Counted again from the released texts and the true people, for every method."""
    data = visits(people, seed)
    models = [{"model": "distinct", "l": 2}] if method != "mondrian" else []
    hiding: dict[str, Any] = {"suppression": 0.1} if method == "optimal" else {}
    released = anonymize(data, policy(method, models=models, **hiding))
    names = list(released.policy.names)
    rows = zip(*(released.table.column(name).to_pylist() for name in names), strict=True)
    persons: dict[Any, set[str]] = {}
    for row, who in zip(rows, data["who"], strict=True):
        persons.setdefault(row, set()).add(who)
    stars = ("*",) * len(names)
    assert min(len(held) for row, held in persons.items() if row != stars) >= 5
    assert released.verdict.smallest >= 5
    assert "P1" not in released.page().html()
    without = anonymize(data, policy(method, unit=None, models=models))
    fewest = units_in(Classes.of_table(without.table, names), unit_codes(data, "who"))
    assert fewest.size == 0 or fewest.min() < 5  # what counting rows lets through


def test_the_risk_of_a_person_is_that_of_their_smallest_class() -> None:
    """Ann is alone in class 1 and one of three in class 0; Bob and Cy are two of three."""
    classes = Classes.numbered(np.array([0, 0, 0, 0, 1, 1, -1]))
    units = np.array([0, 0, 1, 2, 0, 0, 3])
    found = risk(classes, units=units, threshold="0.5")
    assert (found.rows, found.suppressed, found.sample_uniques, found.counted) == (3, 1, 1, "people")
    assert found.prosecutor.highest == 1
    assert found.prosecutor.mean == pytest.approx((1 + 1 / 3 + 1 / 3) / 3)
    assert found.prosecutor.at_risk == pytest.approx(1 / 3)
    assert "3 people, 1 suppressed, 2 classes; 1 person (33.3%)" in found.text()
    assert risk(classes, units=units, population=30).population_uniques is not None
    with pytest.raises(InvalidParameter, match="at least the number of people"):
        risk(classes, units=units, population=2)
    with pytest.raises(InvalidData, match="each of the 7 rows"):
        risk(classes, units=units[:3])


def test_repeated_rows_do_not_lower_a_risk() -> None:
    """Everybody ten times over: by rows the risk is a tenth of what it is by people."""
    rng = np.random.default_rng(4)
    cell = rng.integers(0, 200, 300)
    once, tenfold = Classes.numbered(np.unique(cell, return_inverse=True)[1]), np.repeat(np.arange(300), 10)
    many = Classes.numbered(np.repeat(once.of_row, 10))
    assert risk(many).prosecutor.mean == pytest.approx(risk(once).prosecutor.mean / 10)
    by_people = risk(many, units=tenfold, population=6000)
    assert by_people.prosecutor == risk(once).prosecutor
    assert by_people.journalist is not None
    assert by_people.journalist == risk(once, population=6000).journalist


def test_bad_input() -> None:
    data = {"zip": ["a"] * 3, "who": ["x", "", "y"], "ill": ["u", "v", "w"]}
    with pytest.raises(InvalidData, match="unit 'who': 1 of 3 rows have no value"):
        Target.of(KAnonymity(2), unit="who").bind(data)
    with pytest.raises(InvalidParameter, match="different 'zip' \\(1\\)"):
        Target.of(KAnonymity(2), unit="zip").bind(data)
    with pytest.raises(InvalidParameter, match="δ-presence"):
        Target.of(Presence(0, 1, member="in"), unit="who")
    with pytest.raises(InvalidParameter, match="one unit"):
        Target.of(Target.of(KAnonymity(2), unit="a"), unit="b")
    with pytest.raises(InvalidData, match="'ill' has two roles"):
        policy("local", unit="ill")
    with pytest.raises(InvalidParameter, match=r"anonymity\.unit"):
        policy("local", unit=3)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="a row is no person"):
        anonymize(visits(20, 1), policy("optimal", small="dummies"))
