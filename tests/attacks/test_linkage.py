"""Linkage names people in a raw table, and nobody where the table is coarse enough; it never claims without a reason."""

import numpy as np
import pyarrow
import pytest
from tests.real_data import FOLDER, needs

from discreet.attacks.generated import town
from discreet.attacks.tables.columns import columns
from discreet.attacks.tables.linkage import (
    Linkage,
    LinkedSecret,
    claims,
    fingerprint,
    uniqueness,
    weights,
)
from discreet.attacks.tables.matching import Join
from discreet.attacks.tables.rules import Coarse, Edits, Starts, Within
from discreet.errors import InvalidData, InvalidParameter

ADULT = FOLDER / "adult" / "adult_arx.csv"
needs_adult = needs("adult/adult_arx.csv")

QUASI = ["zip", "sex", "born"]
SURE = 1 - 1e-6


@pytest.fixture(scope="module")
def place():
    return town(people=20_000, seed=11)


def run(place, released=None, **more):
    settings = {"known": place.voters, "on": QUASI, "name": "person", "truth": place.patients} | more
    return Linkage(released=place.visits if released is None else released, **settings).run()


def coarsened(visits):
    """ZIP codes to their first digit, birthdays to decades, sex hidden."""
    years = [born.year // 10 * 10 for born in visits["born"].to_pylist()]
    return {
        "zip": [zip_code[0] + "****" for zip_code in visits["zip"].to_pylist()],
        "sex": ["*"] * visits.num_rows,
        "born": [f"[{year}-01-01, {year + 10}-01-01)" for year in years],
    }


def test_a_raw_table_falls(place):
    report = run(place, confidence=SURE)
    assert report.verdict == "falls"
    assert report.success.low > 0.8
    assert report.baseline.value == 1 / place.visits.num_rows
    assert report.control.high < 0.03
    assert report.facts["claims that are right"].low > 0.85
    assert "row" in report.worst[0]
    assert report.worst[0] not in report.text() + report.json() + report.page().html()


def test_a_coarse_table_holds(place):
    report = run(place, coarsened(place.visits), confidence=SURE)
    assert report.verdict == "holds"
    assert report.success.hits == 0
    assert report.facts["expected share named by guessing among those who fit"] < 0.01
    assert not report.remarks


def test_everybody_on_the_list_and_all_unique():
    people = {"id": np.arange(50), "x": np.arange(50) * 2}
    report = Linkage(released={"x": people["x"][:20]}, known=people, on=["x"], name="id", truth=np.arange(20)).run()
    assert report.success.value == 1
    assert report.control.value == 0
    assert report.control.trials == 30
    assert report.people == 20


def test_a_claim_needs_both_sides_to_be_alone():
    """Two rows that one person fits are claimed only where a person may have several rows."""
    known = {"id": ["a", "b"], "x": [1, 2]}
    released = {"x": [1, 1, 2]}
    once = Linkage(released=released, known=known, on=["x"], name="id", truth=["a", None, "b"]).run()
    assert once.success.hits == 1
    assert once.facts["rows claimed"] == 1
    several = Linkage(released=released, known=known, on=["x"], name="id", truth=["a", "a", "b"], repeated=True).run()
    assert several.success.hits == 2
    # a row of somebody else among those claimed for a: not named correctly
    mixed = Linkage(released=released, known=known, on=["x"], name="id", truth=["a", None, "b"], repeated=True).run()
    assert mixed.success.hits == 1


def test_outsiders_are_claimed_wrongly_and_counted():
    """The list holds none of the real patients' twins; each outsider fits a row alone."""
    known = {"id": ["in", "out"], "x": [1, 2]}
    report = Linkage(released={"x": [1, 2]}, known=known, on=["x"], name="id", truth=["in", None]).run()
    assert report.control.hits == 1
    assert report.facts["claims that are right"].value == 0.5
    assert report.verdict != "falls"


def test_missing_values_are_never_linked():
    known = {"id": ["a", "b"], "x": [None, 2]}
    report = Linkage(released={"x": [None, 2]}, known=known, on=["x"], name="id", truth=["a", "b"]).run()
    assert report.success.hits == 1


def test_dates_some_days_off_are_linked():
    """Every entry has a slip, half of them a birthday up to three days off."""
    place = town(people=20_000, seed=12, zips=8, slips=1)
    exact = run(place)
    near = run(place, on={"zip": None, "sex": None, "born": Within(tolerance=3)})
    assert exact.success.value < 0.1
    assert near.success.value > 0.35
    assert near.verdict == "falls"


def test_slips_are_forgiven_where_the_rest_is_telling():
    """Two lists of the same people, one with slips: birthdays a few days off fit, and another ZIP code is forgiven."""
    place = town(people=10_000, seed=13, zips=20, slips="0.4")
    settings = {
        "released": {name: place.voters[name] for name in ("name", "zip", "sex", "born")},
        "known": place.people,
        "on": {"name": None, "zip": None, "sex": None, "born": Within(tolerance=3)},
        "name": "person",
        "truth": place.voters["person"].to_pylist(),
    }
    strict, forgiving = (Linkage(**settings, slips=slips).run() for slips in (0, 1))
    assert strict.success.value < 0.85
    assert forgiving.success.value > 0.93
    assert forgiving.facts["claims that are right"].value > 0.97
    assert forgiving.control.value < 0.05


def test_slips_are_not_forgiven_where_the_rest_tells_little(place):
    """Sex and birthday alone weigh less than the length of the list."""
    assert run(place, slips=1).facts["rows claimed"] == run(place).facts["rows claimed"]


def test_a_perfect_fit_is_not_given_up_for_a_near_one():
    """The second person differs from the first in one of six telling columns, and has no row."""
    columns = {f"c{i}": np.array([0, 0, 2, 3, 4, 5, 6, 7]) for i in range(5)} | {"c5": np.arange(8)}
    released = {name: column[[0, 2, 3, 4, 5, 6, 7]] for name, column in columns.items()}
    claimed, _ = claims(Join(released, columns, {}), slips=1)
    assert claimed.tolist() == [0, 2, 3, 4, 5, 6, 7]
    alone, _ = claims(
        Join({n: c[:1] for n, c in released.items()}, {n: c[1:] for n, c in columns.items()}, {}), slips=1
    )
    assert alone.tolist() == [0]  # where there is no perfect fit, the near one is claimed


def test_weights_of_columns_are_bits():
    join = Join({"x": np.arange(1024)}, {"x": np.arange(1024)}, {})
    agree, differ = weights(join)["x"]
    assert agree == pytest.approx(10 + np.log2(0.99))
    assert differ == pytest.approx(np.log2(0.01 / (1 - 1 / 1024)))


def test_typing_errors_in_names():
    known = {"id": [0, 1, 2], "name": ["Smith", "Miller", "Jones"]}
    released = {"name": ["Smyth", "Millr", "Garcia"]}
    for rule, hits in ((None, 0), (Edits(most=1), 2), (Starts(letters=2), 2)):
        report = Linkage(released=released, known=known, on={"name": rule}, name="id", truth=[0, 1, 2]).run()
        assert report.success.hits == hits


def test_labels_of_a_hierarchy_are_explained():
    known = {"id": ["a", "b"], "job": ["nurse", "smith"]}
    released = {"job": ["health", "craft"]}
    silent = Linkage(released=released, known=known, on={"job": Coarse()}, name="id", truth=["a", "b"]).run()
    assert silent.success.hits == 0
    assert "Coarse(covers=" in silent.remarks[0]
    told = Coarse(covers={"health": ["nurse", "doctor"], "craft": ["smith"]})
    report = Linkage(released=released, known=known, on={"job": told}, name="id", truth=["a", "b"]).run()
    assert report.success.hits == 2
    assert not report.remarks
    plain = Linkage(released=released, known=known, on=["job"], name="id", truth=["a", "b"]).run()
    assert "fits anybody" in plain.remarks[0]


def test_a_synthetic_table_gives_no_secret_away_and_a_raw_one_does(place):
    """Columns drawn independently from the margins link nobody to their own condition."""
    rng = np.random.default_rng(3)
    visits = place.visits
    synthetic = visits.select([])
    for name in visits.column_names:
        drawn = visits[name].take(pyarrow.array(rng.integers(0, visits.num_rows, visits.num_rows)))
        synthetic = synthetic.append_column(name, drawn)
    condition = dict(zip(place.patients, visits["condition"].to_pylist(), strict=True))
    known = place.people
    patient = np.array([one in condition for one in known["person"].to_pylist()])
    others = rng.choice(list(condition.values()), known.num_rows)
    answers = [condition.get(one, other) for one, other in zip(known["person"].to_pylist(), others, strict=True)]
    settings = {"known": known, "on": QUASI, "secret": "condition", "answers": answers, "members": patient}
    raw = LinkedSecret(released=visits, **settings, confidence=SURE).run()
    made = LinkedSecret(released=synthetic, **settings, confidence=SURE).run()
    assert raw.verdict == "falls"
    assert raw.success.low > 0.75
    assert made.verdict == "undecided"  # so sure of the rarest secrets nobody can be
    assert made.risk.value < 0.03
    usual = LinkedSecret(released=synthetic, **settings).run()
    assert {usual.whole.verdict, *(group.verdict for group in usual.groups[:-1])} == {"holds"}
    assert usual.groups[-1].success.hits == 0
    assert {group.verdict for group in raw.groups[:-1]} == {"falls"}


def rare(people, seed=0):
    """A list of people of whom 1 in 200 has a rare secret; everybody differs by age and zip."""
    rng = np.random.default_rng(seed)
    secret = np.where(np.arange(people) % 200 == 7, "HIV", "none").astype(object)
    return {"zip": np.arange(people) % 97, "age": rng.permutation(people), "ill": secret}


@pytest.mark.parametrize("outside", [0, 600])
def test_a_rare_secret_that_is_read_off_a_raw_table_never_holds(outside):
    """3 of 600 have it; guessing "none" is right about 99.5 %, and the table tells everything."""
    people = rare(600)
    others = {name: column[:outside] for name, column in rare(600, seed=1).items()}
    others["age"] = others["age"] + 1000
    known = {name: np.concatenate([people[name], others[name]]) for name in people}
    attack = {"known": known, "on": ["zip", "age"], "secret": "ill", "answers": known["ill"]}
    report = LinkedSecret(released=people, members=np.arange(600 + outside) < 600, **attack).run()
    assert report.success.value == 1
    assert report.verdict in ("falls", "undecided")
    assert report.groups[0].success.hits == 3


def test_a_rare_secret_of_many_falls_and_of_a_table_of_others_does_not():
    """60 of 12,000 have it: enough to say that it is read off the raw table, and that other people's table tells none."""
    people, others = rare(12_000), rare(12_000, seed=1)
    known = {name: np.concatenate([people[name], others[name]]) for name in people}
    known["age"][12_000:] += 20_000
    attack = {"known": known, "on": ["zip", "age"], "secret": "ill", "members": np.arange(24_000) < 12_000}
    raw = LinkedSecret(released=people, answers=known["ill"], **attack).run()
    assert (raw.verdict, raw.groups[0].verdict) == ("falls", "falls")
    shuffled = people | {"ill": np.random.default_rng(2).permutation(people["ill"])}
    assert LinkedSecret(released=shuffled, answers=known["ill"], **attack).run().verdict == "holds"


def test_uniqueness_and_fingerprints():
    rng = np.random.default_rng(1)
    table = {f"c{i}": rng.integers(0, 4, 2000) for i in range(8)}
    steps = fingerprint(table, list(table))
    shares = [share for _, share in steps]
    assert shares == sorted(shares)
    assert shares[0] == 0
    assert shares[-1] == uniqueness(table, list(table)) > 0.9
    assert {name for name, _ in steps} == set(table)
    assert uniqueness({"a": [None, None, 1, 1]}, ["a"]) == 0.5


def test_the_claims_of_a_million_are_found_without_forming_pairs():
    """10⁵ × 10⁵ here; the same code did 10⁶ × 10⁶ in 5 s. All pairs would not fit in memory."""
    rng = np.random.default_rng(2)
    people = {"a": rng.integers(0, 1000, 100_000), "b": rng.integers(0, 1000, 100_000)}
    claimed, fit = claims(Join(people, people, {}))
    made = np.flatnonzero(claimed >= 0)
    assert (claimed[made] == made).all()
    assert (fit.people == 1).mean() == pytest.approx(np.exp(-0.1), abs=0.01)


@needs_adult
def test_adult_is_unique_as_others_found():
    """46.5 % of the rows are unique by the eight quasi-identifiers; each is linked, and nobody else."""
    table = columns(ADULT)
    names = [name for name in table if name != "salary-class"]
    assert uniqueness(table, names) == pytest.approx(0.465, abs=0.0005)
    known = table | {"id": np.arange(30_162)}
    report = Linkage(released=ADULT, known=known, on=names, name="id", truth=known["id"]).run()
    assert report.success.value == uniqueness(table, names)
    assert report.facts["claims that are right"].value == 1


KNOWN = {"id": ["ann-secret", "bob-secret"], "x": [1, 2]}


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (
            {"known": {"id": ["ann-secret", "ann-secret"], "x": [1, 2]}},
            InvalidData,
            "1 names appear again .first in row 2",
        ),
        ({"known": {"id": ["ann-secret", None], "x": [1, 2]}}, InvalidData, "row 2 has no name"),
        ({"known": {"id": ["ann-secret"], "y": [1]}}, InvalidParameter, "known: got a table without a column 'x'"),
        ({"released": {"y": [1, 2]}}, InvalidParameter, "released: got a table without a column 'x'"),
        ({"released": {"x": []}, "truth": []}, InvalidData, "released: it has no rows"),
        ({"on": []}, InvalidData, "it has no columns"),
        ({"on": "x"}, InvalidParameter, "a list of names"),
        ({"truth": ["ann-secret"]}, InvalidData, "got 1 names, expected 2"),
        ({"truth": ["x", "y"]}, InvalidData, "nobody can be named"),
        ({"truth": ["ann-secret", "ann-secret"]}, InvalidData, "repeated=True"),
        ({"slips": 1}, InvalidParameter, "slips"),
        ({"name": "nom"}, InvalidParameter, "without a column 'nom'"),
    ],
)
def test_bad_input(change, error, words):
    settings = {
        "released": {"x": [1, 2]},
        "known": KNOWN,
        "on": ["x"],
        "name": "id",
        "truth": ["ann-secret", "bob-secret"],
    }
    with pytest.raises(error, match=words) as caught:
        Linkage(**settings | change).run()
    assert "ann-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"members": [True]}, "expected 2 of each"),
        ({"members": [False, False]}, "nobody"),
        ({"answers": ["y"]}, "expected 2"),
    ],
)
def test_bad_answers(change, words):
    settings = {
        "released": {"x": [1, 2], "s": ["y", "n"]},
        "known": KNOWN,
        "on": ["x"],
        "secret": "s",
        "answers": ["y", "n"],
    }
    with pytest.raises(InvalidData, match=words):
        LinkedSecret(**settings | {"members": [True, False]} | change).run()


def test_a_column_of_one_value_tells_nothing():
    known = {"id": ["a", "b"], "x": [1, 1]}
    report = Linkage(released={"x": [1, 1]}, known=known, on=["x"], name="id", truth=["a", "b"]).run()
    assert report.success.hits == 0
    assert report.facts["expected share named by guessing among those who fit"] == 0.5
