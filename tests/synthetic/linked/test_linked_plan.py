"""Linked tables through the gate: what is charged, what names say, what is read, what is refused before spending."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from tests.synthetic.linked.clinic_tables import (
    ADD,
    ASKED,
    CHANGE,
    PEOPLE,
    QUICK,
    TESTS,
    VISITS,
    Fetching,
    catalog,
    clinic,
    made,
    opened,
)

from discreet.curator.catalog import Column, Table
from discreet.errors import BudgetExceeded, InternalError, InvalidParameter, ReleaseFailed
from discreet.privacy.accounting import guarantee
from discreet.privacy.unit import Unit
from discreet.requests import LinkedSynthesis
from discreet.synthetic import linked_plan
from discreet.synthetic.fit.relaxed import Settings
from discreet.synthetic.measure.noisy_marginals import Design
from discreet.synthetic.planner import plan_linked

BOTH = {"people": {}, "visits": {"rows_per_person": 2}}


def plan(tables=BOTH, known=None, **more):
    return plan_linked(LinkedSynthesis(tables=tables, **{"epsilon": 1, "delta": "1e-6"} | more), known or catalog())


# --- through the gate -----------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
def test_it_is_charged_what_it_costs_and_free_the_second_time(tmp_path, neighbors):
    with opened(tmp_path, neighbors=neighbors) as data:
        priced = data.plan(LinkedSynthesis(tables=ASKED, epsilon=2, settings=QUICK))
        assert not data._curator.ledger.charges("clinic")
        first = made(data)
        charges = data._curator.ledger.charges("clinic")
        assert [one.loss for one in charges] == [priced.loss] == [first.plan.loss]
        assert not first.receipt.free
        again = made(data)
        assert again.receipt.free
        assert all(again.tables[name].equals(first.tables[name]) for name in ("people", "visits"))
        assert not made(data, ASKED | {"tests": {}}).receipt.free
        assert len(data._curator.ledger.charges("clinic")) == 2


def test_rules_and_how_it_is_fitted_may_change_for_nothing(tmp_path):
    with opened(tmp_path) as data:
        made(data)
        ruled = {**ASKED, "visits": {**ASKED["visits"], "at_most": ["came <= went"]}}
        assert made(data, ruled, settings=Settings(iterations=20), people=3000).receipt.free


def test_what_is_said_before_anything_is_spent(tmp_path):
    with opened(tmp_path) as data:
        told = data.plan(LinkedSynthesis(tables={**ASKED, "tests": {}}, epsilon=1)).explain()
        for part in ("synthesize people, visits, tests together", "people (by id), visits (by patient), tests (by id)", "ε 1 at δ 1e-05",
                     "people.age (10), people.sex (2), rows in visits (5), rows in tests (2)", "ward (2), came (7), went (7); at most 4 rows of a person, behind their own columns",
                     "bad (2); at most 1 row of a person", "those in people; rows of others are left out", "people; with fewer, the result is mostly noise", "marginals", "MB", "s of one core"):  # fmt: skip
            assert part in told
        alone = data.plan(LinkedSynthesis(tables={"visits": ASKED["visits"]}, epsilon=1)).explain()
        assert "a person         rows in visits (5)" in alone
        assert "everybody who has a row" in alone
        assert "behind" not in alone
        assert not data._curator.ledger.charges("clinic")


def test_what_the_budget_cannot_pay_is_refused_and_nothing_is_read(tmp_path, monkeypatch):
    with opened(tmp_path, epsilon=1) as data:
        monkeypatch.setattr(type(data._curator.engine), "fetch", lambda self, sql: pytest.fail("a row was read"))
        with pytest.raises(BudgetExceeded):
            made(data, epsilon=3)
        assert not data._curator.ledger.charges("clinic")


def test_a_failure_is_opaque_and_stays_charged(tmp_path, monkeypatch):
    with opened(tmp_path) as data:
        monkeypatch.setattr(linked_plan, "measure", lambda *_, **__: 1 / 0)
        with pytest.raises(ReleaseFailed) as caught:
            made(data)
        assert "division" not in str(caught.value)
        assert len(data._curator.ledger.charges("clinic")) == 1


# --- the price ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("epsilon", ["0.01", 1, 100])
@pytest.mark.parametrize(
    "tables", [BOTH, {**BOTH, "tests": {"rows_per_person": 1000}}, {"tests": {"rows_per_person": 50}}]
)
def test_the_stated_epsilon_covers_the_loss(tables, epsilon, neighbors):
    one = plan(tables, catalog(neighbors), epsilon=epsilon)
    assert one.verify(catalog(neighbors)) == one.loss
    spent = guarantee(one.loss, delta=one.delta).epsilon
    assert 0.999 * float(epsilon) < spent <= float(epsilon) * (1 + 1e-9)
    together = sum(1 / one.loss.multiplier**2 for one in one.designs())
    assert together <= 1 / one.loss.multiplier**2


def test_noise_grows_with_the_rows_of_a_person():
    least = [min(plan({"people": {}, "visits": {"rows_per_person": many}}).designs()[1].sigmas) for many in (1, 2, 8)]
    assert [float(one / least[0]) for one in least] == pytest.approx([1, 2, 8])


def test_the_more_rows_the_wider_the_bins_of_how_many():
    numbers = [
        plan({"people": {}, "visits": {"rows_per_person": many}}).record.attributes[-1] for many in (1, 40, 41, 1000)
    ]
    assert [one.size for one in numbers] == [2, 32, 32, 32]
    assert plan({"people": {}, "visits": {"rows_per_person": 39}}).record.sizes[-1] == 40
    assert numbers[-1].labels[0] == "0 to 30"


def test_a_plan_that_was_tampered_with_is_refused_at_the_gate(monkeypatch):
    one = plan()
    with pytest.raises(InternalError, match="other neighbors"):
        one.verify(catalog(CHANGE))
    other = Table("visits", VISITS.columns, unit=Unit("id"), rows=7)
    with pytest.raises(InternalError, match="another table"):
        one.verify(catalog(tables=(PEOPLE, other, TESTS)))
    assert replace(one, multiplier=one.multiplier / 2).verify(catalog()) != one.loss
    many = replace(one.people, rows_each=2)
    with pytest.raises(InternalError, match="one row each"):
        replace(one, people=many)
    quiet = Design(one.record.sizes, ((0,),), (1,), neighbors=ADD)
    monkeypatch.setattr(linked_plan, "design", lambda *_, **__: quiet)
    with pytest.raises(InternalError, match="less noise"):
        one.verify(catalog())


def test_names_are_the_same_where_releases_are():
    names = [
        plan(tables, **more).digest
        for tables, more in [
            (BOTH, {}),
            ({"people": {"rows_per_person": 1}, "VISITS": {"rows_per_person": 2}}, {"people": 1000}),
            ({"people": {"columns": ["a", "B"]}, "visits": {"rows_per_person": 2, "never": ["c=yes, d=2"]}}, {}),
            ({"people": {"values": {"b": ["x", "y"]}}, "visits": {"rows_per_person": 2, "bins": {"d": 3}}}, {"settings": Settings(iterations=9)}),
        ]
    ]  # fmt: skip
    assert len(set(names)) == 1


def test_names_differ_where_releases_do():
    two = {"people": {}, "visits": {"rows_per_person": 2}}
    asked = [
        (two, {}, catalog()),
        (two, {}, catalog(CHANGE)),
        (two, {"epsilon": 2}, catalog()),
        (two, {"delta": "1e-7"}, catalog()),
        ({**two, "visits": {"rows_per_person": 3}}, {}, catalog()),
        ({**two, "visits": {"rows_per_person": 2, "bins": {"d": 2}}}, {}, catalog()),
        ({**two, "visits": {"rows_per_person": 2, "columns": ["d", "c"]}}, {}, catalog()),
        ({**two, "people": {"exclude": ["a"]}}, {}, catalog()),
        ({**two, "people": {"values": {"b": ["y", "x"]}}}, {}, catalog()),
        ({**two, "tests": {}}, {}, catalog()),
        ({"people": {}, "visits": {}}, {}, catalog()),
        ({"visits": {}, "people": {}}, {}, catalog()),  # the visits have the people
        ({"people": {"rows_per_person": 2}, "visits": {"rows_per_person": 2}}, {}, catalog()),
        ({"visits": {"rows_per_person": 2}}, {}, catalog()),
        (two, {}, catalog(tables=(PEOPLE, Table("visits", VISITS.columns, unit=Unit("id"), rows=2), TESTS))),
    ]
    names = [plan(tables, known, **more).digest for tables, more, known in asked]
    assert len(set(names)) == len(names)


# --- what is read ---------------------------------------------------------------------------------------------------


def test_rows_stand_behind_the_columns_of_their_person():
    rows = {
        "people": [(5, 1, "y"), (3, 0, "x"), (4, 1, None)],
        "visits": [(3, True, 0), (4, False, 2), (3, False, 1), (8, True, 1)],
        "tests": [(4, True)],
    }
    records, visits, tests = plan({**BOTH, "tests": {}}).read(Fetching(**rows))
    assert sorted(map(tuple, records.tolist())) == [(0, 0, 2, 0), (1, 1, 0, 0), (1, 2, 1, 1)]
    assert sorted(map(tuple, visits.tolist())) == [(0, 0, 0, 1), (0, 0, 1, 0), (1, 2, 0, 2)]
    assert tests.tolist() == [[1, 2, 1]]


def test_without_a_table_of_people_everybody_with_a_row_is_one():
    rows = {"visits": [(3, True, 0)] * 3 + [(8, True, 1)], "tests": [(8, True), (9, None), (None, True)]}
    one = plan({"visits": {"rows_per_person": 2}, "tests": {"rows_per_person": 2}})
    records, visits, tests = one.read(Fetching(**rows))
    assert one.record.names == ("rows in visits", "rows in tests")
    assert sorted(map(tuple, records.tolist())) == [(0, 1), (1, 1), (2, 0)]
    assert sorted(map(tuple, visits.tolist())) == [(1, 0), (1, 0), (1, 1)]
    assert sorted(map(tuple, tests.tolist())) == [(1,), (2,)]


def test_rows_without_a_code_and_people_without_one_are_left_out():
    rows = {"people": [(1, None, "x"), (2, 0, "z")], "visits": [(1, True, 0), (2, None, 0), (2, True, 9)]}
    records, visits = plan().read(Fetching(**rows))
    assert records.tolist() == [[0, 2, 1]]
    assert visits.tolist() == [[0, 2, 1, 2]]


def test_nothing_and_one_row():
    for rows in ({}, {"visits": [(1, True, 0)]}, {"people": [(None, 0, "x")]}):
        assert [len(part) for part in plan().read(Fetching(**rows))] == [0, 0]
    records, visits = plan().read(Fetching(people=[(1, 0, "x")]))
    assert records.tolist() == [[0, 0, 0]]
    assert len(visits) == 0


@pytest.mark.parametrize("key", ["integer", "text"])
def test_keys_are_the_same_whatever_their_source_stores(tmp_path, key):
    tables = clinic(50)
    kinds = (
        {"people": "int32", "visits": "int64"} if key == "integer" else {"people": "string", "visits": "large_string"}
    )
    for name, kind in kinds.items():
        tables[name] = tables[name].set_column(0, tables[name].column_names[0], tables[name].column(0).cast(kind))
    tables["tests"] = tables["tests"].set_column(0, "id", tables["tests"].column(0).cast("uint16" if key == "integer" else "string"))  # fmt: skip
    with opened(tmp_path, tables, key=key) as data:
        one = data.plan(LinkedSynthesis(tables={**ASKED, "tests": {}}, epsilon=1))
        records, visits, tests = one.read(data._curator.engine)
        assert [len(part) for part in (records, visits, tests)] == [50, tables["visits"].num_rows, tables["tests"].num_rows]  # fmt: skip
        found = made(data, {**ASKED, "tests": {}}).tables
        assert {str(table.column(0).type) for table in found.values()} == {{"integer": "int64", "text": "string"}[key]}


def test_keys_of_text_are_compared_as_they_are():
    columns = [Column("id", "text"), Column("e", "boolean")]
    known = catalog(tables=[Table(name, columns, unit=Unit("id")) for name in ("people", "visits")])
    words = ["a", "A", "ä", "a\u0308", "a ", "", "𝔘", "日本"]
    engine = Fetching(known.tables.values(), people=[(word, True) for word in words], visits=[(word, True) for word in words for _ in "ab"])  # fmt: skip
    records, visits = plan({"people": {}, "visits": {"rows_per_person": 2}}, known).read(engine)
    assert records.tolist() == [[1, 2]] * len(words)
    assert len(visits) == 2 * len(words)


def test_no_value_of_a_file_makes_a_release_fail(tmp_path):
    (tmp_path / "people.csv").write_text("id,a\n1,1\n1,x\n,\n1.0,0\n9223372036854775808,1\nnan,1\n2\n\xff,\n", encoding="latin-1")  # fmt: skip
    (tmp_path / "visits.csv").write_text('id,d\n1,\n2.5,inf\n"2",2020-02-30\n-0,1\n0,1e400\n', encoding="utf-8")
    (tmp_path / "odd.toml").write_text(
        """
[dataset]
name = "odd"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 5
delta = "1e-5"
[tables.people]
source = "people.csv"
unit = "id"
columns.id = {type = "integer"}
columns.a = {type = "boolean"}
[tables.visits]
source = "visits.csv"
unit = "id"
columns.id = {type = "integer"}
columns.d = {type = "integer", lower = 0, upper = 5}
""",
        encoding="utf-8",
    )
    import discreet

    with discreet.open(tmp_path / "odd.toml") as data:
        found = data.synthesize_linked({"people": {}, "visits": {"rows_per_person": 3}}, epsilon=1, settings=QUICK)
        assert list(found.tables) == ["people", "visits"]


# --- what is refused before anything is spent -----------------------------------------------------------------------

VISITED = ASKED["visits"]
REFUSED = {
    "an unknown table": ({"people": {}, "beds": {}}, {}, "a table of dataset"),
    "an unknown setting": ({"people": {"target": "age"}, "visits": VISITED}, {}, "people: got 'target', expected any of columns, exclude"),
    "settings that are no mapping": ({"people": 3, "visits": VISITED}, {}, "people: got 3, expected a mapping"),
    "settings of any type": ({"people": {1: 2, "x": 3}, "visits": VISITED}, {}, "1, x"),
    "a table of rows": ({"people": {}, "staff": {}}, {}, "rows name a person"),
    "a public table": ({"people": {}, "rooms": {}}, {}, "rows name a person"),
    "one table": ({"people": {}}, {}, "two tables or more"),
    "one name": ("people", {}, "names of tables, or a mapping"),
    "no tables": ({}, {}, "one table or more"),
    "a number": (7, {}, "names of tables, or a mapping"),
    "names that are none": ([1, 2], {}, "names of tables, or a mapping"),
    "lists of what is none": ([{"people": {}}, ["visits"]], {}, "names of tables, or a mapping"),
    "a table twice": (["people", "people"], {}, "each table once"),
    "a table twice, in any case": (["people", "PEOPLE"], {}, "each table once"),
    "no rows": ({"people": {}, "visits": {**VISITED, "rows_per_person": 0}}, {}, "rows_per_person: got 0, expected .*≥ 1"),
    "half a row": ({"people": {}, "visits": {**VISITED, "rows_per_person": 1.5}}, {}, "whole number"),
    "too many rows": ({"people": {}, "visits": {**VISITED, "rows_per_person": 1001}}, {}, "≤ 1000"),
    "a column that is not there": ({"people": {"columns": ["height"]}, "visits": VISITED}, {}, "a column of table 'people'"),
    "the columns of another table": ({"people": {"bins": {"ward": 3}}, "visits": VISITED}, {}, "one of the synthetic columns"),
    "an undeclared domain": ({"people": {}, "visits": {"rows_per_person": 2}}, {}, "declared values"),
    "no columns": ({"people": {"columns": []}, "visits": VISITED}, {}, "at least one column"),
    "a column twice": ({"people": {"columns": ["age", "AGE"]}, "visits": VISITED}, {}, "each column once"),
    "rules of another table": ({"people": {"never": ["sex=f, ward=eye"]}, "visits": VISITED}, {}, "one of the synthetic columns"),
    "rules that contradict each other": ({"people": {"columns": ["sex", "age"], "bins": {"age": 1}, "never": ["sex=f, age=0 to 99", "sex=m, age=0 to 99"]}, "visits": VISITED}, {}, "rules that a row can obey together"),
    "too little budget": (ASKED, {"people": 20, "epsilon": "0.1"}, "noise alone would be"),
    "no people": (ASKED, {"people": 0}, "≥ 1"),
    "too little memory": (ASKED, {"settings": Settings(memory=1000)}, "memory: got '1,000 bytes'"),
    "settings that are none": (ASKED, {"settings": {"iterations": 3}}, "Settings"),
    "no epsilon": (ASKED, {"epsilon": 0}, "> 0"),
    "no delta": (ASKED, {"delta": 0}, "δ above 0"),
    "a delta of one": (ASKED, {"delta": 1}, "< 1"),
}  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("clinic"), clinic(20)) as found:
        yield found


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_refused(name, data):
    tables, more, words = REFUSED[name]
    with pytest.raises(InvalidParameter, match=words):
        data.synthesize_linked(tables, **{"epsilon": 1} | more)
    assert not data._curator.ledger.charges("clinic")


def test_the_key_is_no_column_even_if_it_has_bounds():
    bounded = [Column("id", "integer", lower=0, upper=9), Column("e", "boolean")]
    known = catalog(tables=[PEOPLE, Table("tests", bounded, unit=Unit("id"))])
    with pytest.raises(InvalidParameter, match="names the person"):
        plan({"people": {}, "tests": {"columns": ["id", "e"]}}, known)


def test_keys_of_different_types_and_floating_keys_are_refused():
    texts = Table("tests", [Column("id", "text"), Column("e", "boolean")], unit=Unit("id"))
    with pytest.raises(InvalidParameter, match=r"people.id \(integer\), tests.id \(text\)', expected keys of one type"):
        plan({"people": {}, "tests": {}}, catalog(tables=[PEOPLE, texts]))
    floats = [
        Table(name, [Column("id", "real"), Column("e", "boolean")], unit=Unit("id")) for name in ("people", "tests")
    ]
    with pytest.raises(InvalidParameter, match="whole numbers or texts"):
        plan({"people": {}, "tests": {}}, catalog(tables=floats))


def test_columns_that_go_together_too_many_ways_are_refused():
    wide = [Column("id", "integer"), Column("x", "integer", lower=0, upper=10**6)]
    known = catalog(tables=[Table(name, wide, unit=Unit("id")) for name in ("people", "tests")])
    with pytest.raises(InvalidParameter, match="people.x .*with x .*combinations"):
        plan({name: {"bins": {"x": 4000}} for name in ("people", "tests")}, known)


def test_the_first_table_with_one_row_a_person_has_the_people():
    assert plan(["people", "visits"]).people.table.name == "people"
    assert plan(["visits", "people"]).people.table.name == "visits"
    assert plan({"visits": {"rows_per_person": 2}, "tests": {}, "people": {}}).people.table.name == "tests"
    one = plan({"visits": {"rows_per_person": 2}, "tests": {"rows_per_person": 2}})
    assert one.people is None
    assert [part.table.name for part in one.parts] == ["visits", "tests"]
    assert sum(Fraction(1) / each.loss.multiplier**2 for each in one.designs()) <= 1 / one.multiplier**2


def test_counts_of_tables_and_columns_of_alike_names_do_not_clash():
    columns = [Column("id", "integer"), Column("x", "boolean")]
    known = catalog(tables=[Table(name, columns, unit=Unit("id")) for name in ("makes", "people", "useful")])
    told = plan({"makes": {}, "people": {"rows_per_person": 2}, "useful": {"rows_per_person": 3}}, known).explain()
    assert "synthesize makes, people, useful together" in told
    one = plan({"people": {"rows_per_person": 2}, "makes": {"rows_per_person": 2}}, known)
    engine = Fetching(known.tables.values(), people=[(1, True)], makes=[(1, False)])
    assert np.array_equal(one.read(engine)[0], [[1, 1]])
