"""What linked tables look like: keys that join, rules that hold, dependences that are kept, strange tables."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from tests.synthetic.linked.clinic_tables import ASKED, QUICK, clinic, made, opened

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Unit
from discreet.requests import LinkedSynthesis
from discreet.synthetic.fit.relaxed import RelaxedTable, Settings
from discreet.synthetic.fit.row_sampling import draw, draw_given, possible
from discreet.synthetic.linked_tables import _copied, _stopping, files
from discreet.synthetic.measure.noisy_marginals import Allowed, Measurement, at_most, total
from discreet.synthetic.planner import plan_linked

RULED = {
    "people": {"bins": {"age": 10}, "never": ["sex=f, age=0 to 9", "sex=m, age=90 to 99"]},
    "visits": {
        "rows_per_person": 4,
        "exclude": ["note", "age"],
        "bins": {"came": 4, "went": 7},
        "at_most": ["came <= went"],
        "never": ["ward=eye, went=missing"],
    },
    "tests": {},
}


def columns(table):
    return {name: np.array(table.column(name).to_pylist()) for name in table.column_names}


def numbers(visits, people, key="patient"):
    """How many rows each person has, in the order of the people."""
    return np.bincount(visits[key].astype(np.int64), minlength=len(people["id"]) + 1)[people["id"].astype(np.int64)]


@pytest.fixture(scope="module")
def strong(tmp_path_factory):
    """People and visits at ε = 4, always with the same noise."""
    with opened(tmp_path_factory.mktemp("strong"), clinic(5000)) as data:
        data._curator = replace(data._curator, entropy=DeterministicEntropy(3))
        found = made(data, {**ASKED, "tests": {}}, epsilon=4, settings=Settings(iterations=300))
        return found, found.plan.read(data._curator.engine)


# --- what is kept ---------------------------------------------------------------------------------------------------


def test_tables_have_the_columns_of_the_private_ones_and_about_as_many_rows(strong):
    found, real = strong
    assert {name: table.column_names for name, table in found.tables.items()} == {
        "people": ["id", "age", "sex"],
        "visits": ["patient", "ward", "came", "went"],
        "tests": ["id", "bad"],
    }
    for table, codes in zip(found.tables.values(), real, strict=True):
        assert table.num_rows == pytest.approx(len(codes), rel=0.1)


def test_keys_of_rows_are_those_of_people_and_nobody_has_more_rows_than_used(strong):
    found, _ = strong
    people, visits, tests = (columns(table) for table in found.tables.values())
    assert people["id"].tolist() == list(range(1, len(people["id"]) + 1))
    assert set(visits["patient"]) <= set(people["id"])
    assert np.bincount(visits["patient"]).max() <= 4
    assert np.bincount(tests["id"]).max() == 1


def test_how_many_rows_a_person_has_depends_on_who_they_are(strong):
    """In truth 3.2 visits of the old, 0.4 of the young; tests of women alone."""
    found, _ = strong
    people, visits, tests = (columns(table) for table in found.tables.values())
    many, old = numbers(visits, people), people["age"] >= 50
    assert many[old].mean() == pytest.approx(3.2, abs=0.3)
    assert many[~old].mean() == pytest.approx(0.4, abs=0.2)
    tested = numbers(tests, people, "id")
    assert tested[people["sex"] == "f"].mean() > 0.85
    assert tested[people["sex"] == "m"].mean() < 0.15


def test_what_rows_say_depends_on_who_their_person_is_and_on_each_other(strong):
    """In truth the old come to the heart (95 in 100) and the young to the eye; and stay 3.5 days longer there."""
    found, _ = strong
    people, visits, tests = (columns(table) for table in found.tables.values())
    old = people["age"][visits["patient"] - 1] >= 50
    assert np.mean(visits["ward"][old] == "heart") > 0.85
    assert np.mean(visits["ward"][~old] == "heart") < 0.5  # were it independent of age, 0.85
    bad = tests["bad"][people["age"][tests["id"] - 1] >= 50]
    assert bad.mean() > 0.85
    known = [row for row in found.tables["visits"].to_pylist() if None not in row.values()]
    came, went = (np.array([row[name] for row in known]) for name in ("came", "went"))
    heart = np.array([row["ward"] == "heart" for row in known])
    assert np.corrcoef(came, went)[0, 1] > 0.7
    assert went[heart].mean() > went[~heart].mean() + 0.5


def test_the_real_rows_are_near_and_a_wrong_join_would_not_be(strong):
    """Pairs of a person's column and a row's: 0.02 or so off; joined at random they are far off."""
    from discreet.synthetic.quality import closeness

    found, real = strong
    visits = found.fit()[1]
    own = len(found.plan.own)
    crossed = [(a, b) for a in range(own) for b in range(own, len(visits.schema.sizes))]
    near = closeness(real[1], visits.codes, visits.schema.sizes, 2, marginals=crossed)
    shuffled = np.column_stack([np.random.default_rng(1).permutation(visits.codes[:, :own]), visits.codes[:, own:]])
    apart = closeness(real[1], shuffled, visits.schema.sizes, 2, marginals=crossed)
    assert near.mean < 0.1
    assert dict(zip(apart.marginals, apart.distances, strict=True))[0, own] > 0.15
    assert dict(zip(near.marginals, near.distances, strict=True))[0, own] < 0.1


def test_without_a_table_of_people_rows_keep_their_number(tmp_path):
    with opened(tmp_path, clinic(4000)) as data:
        found = made(data, {"visits": ASKED["visits"], "tests": {"rows_per_person": 2}}, epsilon=4)
        assert found.fit()[0].name == "people of visits, tests"
        assert list(found.tables) == ["visits", "tests"]
        visits, tests = (columns(table) for table in found.tables.values())
        many = np.bincount(np.bincount(visits["patient"].astype(int)), minlength=5)
        true = np.bincount(np.bincount(np.array(clinic(4000)["visits"].column(0))), minlength=5)
        assert len(many) == 5
        assert np.abs(many[1:] - true[1:]).max() < 250
        assert np.bincount(tests["id"].astype(int)).max() <= 2
        assert found.page().html().count("rows in visits") > 1


def test_a_person_with_more_rows_than_are_used(tmp_path):
    tables = clinic(100)
    rows = pa.table({"patient": [7] * 5000, "ward": ["eye"] * 5000, "came": [1] * 5000, "went": [2] * 5000, "age": [3] * 5000, "note": ["x"] * 5000})  # fmt: skip
    with opened(tmp_path, tables | {"visits": rows}) as data:
        found = made(data, epsilon=4)
        assert found.tables["visits"].num_rows < 200
        assert len(found.plan.read(data._curator.engine)[1]) == 4


def test_how_many_rows_is_drawn_from_bins_where_there_may_be_many(tmp_path):
    people = 1000
    tables = clinic(people)
    many = np.where(np.arange(people) % 2, 60, 3)
    who = np.repeat(np.arange(people), many)
    tables["tests"] = pa.table({"id": who, "bad": who % 2 == 1})
    with opened(tmp_path, tables) as data:
        data._curator = replace(data._curator, entropy=DeterministicEntropy(3))
        found = made(
            data, {"people": {"columns": ["sex"]}, "tests": {"rows_per_person": 64}}, epsilon=10, settings=Settings()
        )
        assert found.plan.record.sizes == (2, 32)
        tests, persons = columns(found.tables["tests"]), found.tables["people"].num_rows
        rows = np.bincount(tests["id"], minlength=persons + 1)[1:]
        assert rows.max() <= 64
        assert np.mean((rows >= 59) & (rows <= 62)) == pytest.approx(0.5, abs=0.1)
        assert np.mean((rows >= 2) & (rows <= 4)) == pytest.approx(0.5, abs=0.1)


# --- rules ----------------------------------------------------------------------------------------------------------


def test_rules_hold_in_every_row_of_each_table(tmp_path):
    with opened(tmp_path) as data:
        found = made(data, RULED, epsilon=1)
        assert found.tables["people"].num_rows > 1000
        for row in found.tables["people"].to_pylist():
            assert row["age"] >= 10 if row["sex"] == "f" else row["age"] < 90
        visits = found.tables["visits"].to_pylist()
        assert len(visits) > 1000
        for row in visits:
            assert row["came"] is None or row["went"] is None or row["came"] <= row["went"]
            assert row["ward"] != "eye" or row["went"] is not None


def test_rules_hold_where_there_is_next_to_nothing(tmp_path):
    """Few rows, many rules, and noise alone: what was paid for can be drawn all the same."""
    columns = [f"c{n}" for n in range(5)]
    chain = [f"{a} <= {b}" for a, b in zip(columns, columns[1:], strict=False)]
    policy = """
[dataset]
name = "few"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 50
delta = "1e-5"
""" + "".join(
        f'[tables.{name}]\nsource = "python"\nunit = "id"\n[tables.{name}.columns]\nid = {{type = "integer"}}\n'
        + "".join(f'{one} = {{type = "integer", lower = 0, upper = 9, nullable = false}}\n' for one in columns)
        for name in ("people", "visits")
    )
    (tmp_path / "few.toml").write_text(policy)
    import discreet

    rows = pa.table({"id": [1], **{one: [9 - n] for n, one in enumerate(columns)}})  # it breaks every rule
    for epsilon in ("0.1", "0.2", 10):
        with discreet.open(tmp_path / "few.toml", tables={"people": rows, "visits": rows}) as data:
            asked = {"people": {"at_most": chain}, "visits": {"at_most": chain, "rows_per_person": 2}}
            found = data.synthesize_linked(asked, epsilon=epsilon, settings=Settings(iterations=3))
            for table in found.tables.values():
                for row in table.to_pylist():
                    assert [row[one] for one in columns] == sorted(row[one] for one in columns)


# --- strange tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty", [("people",), ("visits",), ("people", "visits", "tests"), ()])
def test_empty_tables_and_one_row(tmp_path, empty):
    tables = {name: table.slice(0, 0 if name in empty else 1) for name, table in clinic().items()}
    with opened(tmp_path, tables) as data:
        found = made(data, {**ASKED, "tests": {}}, epsilon="0.5")
        people, visits, tests = (columns(table) for table in found.tables.values())
        assert len(people["id"]) >= 1
        assert set(visits["patient"].tolist()) | set(tests["id"].tolist()) <= set(people["id"].tolist())
        assert "Synthetic people, visits, tests" in found.page().html()
        real = found.plan.read(data._curator.engine)
        assert "not private" in found.quality_page(real).html()
        assert found.quality_page(real).html().count("Nothing to compare") >= len(set(empty))


def test_null_keys_are_nobody(tmp_path):
    tables = clinic(200)
    for name, key in (("people", "id"), ("visits", "patient")):
        keys = pa.nulls(tables[name].num_rows, pa.int64())
        tables[name] = tables[name].set_column(0, key, keys)
    with opened(tmp_path, tables) as data:
        found = made(data, epsilon=10)
        assert [len(part) for part in found.plan.read(data._curator.engine)] == [0, 0]
        assert found.tables["people"].num_rows < 60


def test_columns_of_one_name_in_two_tables_are_different_columns(tmp_path):
    asked = {"people": {"bins": {"age": 5}}, "visits": {"rows_per_person": 4, "columns": ["age"]}}
    with opened(tmp_path) as data:
        found = made(data, asked)
        assert found.fit()[1].schema.names == ("people.age", "people.sex", "age")
        assert found.fit()[1].schema.sizes == (5, 2, 11)
        assert found.tables["visits"].column_names == ["patient", "age"]
        assert max(one for one in found.tables["visits"].column("age").to_pylist() if one is not None) <= 9
        assert max(found.tables["people"].column("age").to_pylist()) > 9


def test_columns_of_one_code_do_no_harm(tmp_path):
    asked = {"people": {"columns": ["age"], "bins": {"age": 1}}, "visits": {"rows_per_person": 2, "columns": ["ward"], "values": {"ward": ["eye"]}}}  # fmt: skip
    with opened(tmp_path) as data:
        found = made(data, asked, epsilon=4)
        assert set(found.tables["visits"].column("ward").to_pylist()) == {"eye"}


# --- fitting and drawing --------------------------------------------------------------------------------------------


def test_it_is_fitted_once_and_tells_of_each_table(tmp_path):
    with opened(tmp_path, clinic(300)) as data:
        found, told = made(data, {**ASKED, "tests": {}}), []
        first = found.fit(lambda name, step, misfit: told.append((name, step)))
        assert list(dict(told)) == ["people", "visits", "tests"]
        assert told[0] == ("people", 1)
        assert found.fit(lambda *_: pytest.fail("fitted again")) is first
        assert [one.model.iterations for one in first] == [dict(told)[one.name] for one in first]
        assert all(len(one.residuals()) == len(one.measurements) for one in first)


def test_what_was_copied_does_not_excuse_a_gap_to_what_was_measured():
    """Cells without noise count in the mean squared gap; the fit stops where that of the measured cells is as wished."""
    measured = [Measurement((2,), np.array([30, 50]), 2.0), Measurement((0, 2), np.array([[10, 20], [30, 20]]), 4.0)]
    copied = [Measurement((0, 1), np.zeros((3, 6), np.int64), 3.0)]
    assert _stopping(Settings(misfit=0.8), measured, copied).misfit == pytest.approx(0.2)
    assert _stopping(Settings(), measured, []) == Settings()


def test_what_is_copied_from_people_adds_up_to_the_rows_that_were_measured():
    columns = [Column("id", "integer"), Column("x", "boolean", nullable=False), Column("y", "boolean", nullable=False)]
    known = Catalog("c", [Table(name, columns, unit=Unit("id")) for name in ("p", "v")], neighbors="change one")
    one = plan_linked(LinkedSynthesis(tables={"p": {}, "v": {"rows_per_person": 2}}, epsilon=1, delta="1e-6"), known)
    schema = one.joined(one.others[0])
    measured = (Measurement((2,), np.array([30, 50]), 2.0), Measurement((0, 2), np.array([[10, 20], [30, 20]]), 4.0))
    own = np.array([[0, 0]] * 10 + [[1, 0]] * 20 + [[1, 1]] * 10)
    (copied,) = _copied(own, schema, measured)
    assert copied.attributes == (0, 1)
    assert copied.counts.tolist() == [[20, 0], [40, 20]]
    assert copied.counts.sum() == total(measured) == 80
    assert copied.sigma == 3
    assert _copied(own[:0], schema, measured) == []
    assert _copied(np.empty((5, 0), np.int64), one.others[0].schema, measured[:1]) == []


def test_rows_are_drawn_given_their_first_columns():
    """A mixture of three soft rows: each row goes to one by Bayes' rule, and keeps its order."""
    soft = np.array(
        [[0.9, 0.1, 0.8, 0.2, 1, 0, 0], [0.1, 0.9, 0.8, 0.2, 0, 1, 0], [0.5, 0.5, 0, 1, 0, 0, 1]], np.float32
    )
    table = RelaxedTable((2, 2, 3), 100.0, soft, 1.0, 1, "misfit")
    given = np.repeat(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), 30_000, axis=0)
    drawn = draw_given(table, given, sweeps=0, entropy=DeterministicEntropy(1))
    assert drawn.shape == (120_000, 1)
    for place, (a, b) in enumerate([(0, 0), (0, 1), (1, 0), (1, 1)]):
        level = soft[:, a] * soft[:, 2 + b]
        shares = np.bincount(drawn[place * 30_000 : (place + 1) * 30_000, 0], minlength=3) / 30_000
        assert shares == pytest.approx(level / level.sum(), abs=0.02)  # 5 standard deviations are 0.0145
    assert draw_given(table, given[:0]).shape == (0, 1)
    assert draw_given(table, np.empty((7, 0), np.int64)).shape == (7, 3)


def test_few_rows_obey_a_rule_that_the_table_gives_hardly_a_chance():
    soft = np.array([[1e-7, 1 - 1e-7, 1 - 1e-7, 1e-7, 0.5, 0.5]] * 10, np.float32)
    table = RelaxedTable((2, 2, 2), 3.0, soft, 1.0, 1, "misfit")
    rule = at_most(0, 1, (2, 2, 2))
    for seed in range(20):
        assert rule.holds(draw(table, allowed=[rule], entropy=DeterministicEntropy(seed))).all()


def test_rules_that_no_row_obeys_are_told_from_those_that_some_do():
    sizes = (3, 3, 3, 2)
    less = [Allowed(pair, np.triu(np.ones((3, 3), bool), 1), sizes) for pair in ((0, 1), (1, 2))]
    assert possible([], sizes)
    assert possible(less, sizes)  # 0 < 1 < 2
    never = np.ones((3, 3, 2), bool)
    never[0, 2] = False
    assert possible([*less, Allowed((0, 1, 3), never, sizes)], sizes)
    never[0, 1] = False
    assert not possible([*less, Allowed((0, 1, 3), never, sizes)], sizes)
    assert not possible([*less, Allowed((0, 2), np.triu(np.ones((3, 3), bool), 1).T, sizes)], sizes)


def test_what_no_soft_row_has_is_drawn_all_the_same():
    soft = np.array([[1, 0, 1, 0], [1, 0, 0, 1]], np.float32)
    table = RelaxedTable((2, 2), 100.0, soft, 1.0, 1, "misfit")
    drawn = draw_given(table, np.ones((1000, 1), np.int64), entropy=DeterministicEntropy(1))
    assert 300 < drawn.sum() < 700


# --- files and pages ------------------------------------------------------------------------------------------------


def test_tables_are_written_into_a_folder(tmp_path):
    with opened(tmp_path, clinic(200)) as data:
        found = made(data)
        paths = found.save(tmp_path / "a" / "b")
        assert [path.name for path in paths] == ["people.parquet", "visits.parquet"]
        assert parquet.read_table(paths[1]).equals(found.tables["visits"])
        assert [path.name for path in found.save(tmp_path / "c", form="csv")] == ["people.csv", "visits.csv"]
        assert csv.read_csv(tmp_path / "c" / "people.csv").num_rows == found.tables["people"].num_rows
        with pytest.raises(InvalidParameter, match="'parquet' or 'csv'"):
            found.save(tmp_path / "d", form="xlsx")
        assert not (tmp_path / "d").exists()


@pytest.mark.parametrize("name", ["a/b", "..", "a\\b", "c:d", "a\0b"])
def test_names_of_tables_that_are_no_names_of_files_are_refused(name):
    columns = [Column("id", "integer"), Column("x", "boolean")]
    known = Catalog("c", [Table(one, columns, unit=Unit("id")) for one in ("p", name)], neighbors="change one")
    one = plan_linked(LinkedSynthesis(tables=["p", name], epsilon=1, delta="1e-6"), known)
    with pytest.raises(InvalidParameter, match="names of files"):
        files(one, "made", form="csv")


def test_pages(strong):
    found, real = strong
    public = found.page().html()
    for words in (
        "Synthetic people, visits, tests",
        "rows of visits",
        "people.age",
        "how well it fits",
        "charged as #",
    ):
        assert words in public
    assert "owner" not in public
    assert "<th>memory</th>" not in public  # what was expected to be needed is no fact about the tables
    assert found._repr_html_() in public
    private = found.quality_page(real).html()
    for words in ("For the owner's eyes only", "Do not publish it", "Quality of synthetic people, visits, tests", "2-way total variation", "rows in visits"):  # fmt: skip
        assert words in private.replace("&#x27;", "'")


def test_it_needs_no_more_than_is_said(tmp_path):
    with opened(tmp_path, clinic(200)) as data:
        one = data.plan(LinkedSynthesis(tables=ASKED, epsilon=1))
        made(data, settings=replace(QUICK, memory=one.memory()))
        with pytest.raises(InvalidParameter, match="memory"):
            made(data, settings=replace(QUICK, memory=one.memory() - 1))


def test_rows_of_nobody_and_rows_without_a_code_are_told(tmp_path):
    columns = [Column("id", "integer"), Column("x", "boolean", nullable=False)]
    known = Catalog("c", [Table(name, columns, unit=Unit("id")) for name in ("p", "v")], neighbors="add or remove one")
    one = plan_linked(LinkedSynthesis(tables={"p": {}, "v": {}}, epsilon=4, delta="1e-6", settings=QUICK), known)
    people = pa.table({"id": range(1000), "x": [None] * 100 + [True] * 900})
    rows = pa.table({"id": range(1200), "x": [True] * 1000 + [None] * 200})
    with DuckDBEngine(known, {"p": people, "v": rows}) as engine:
        found = one.finish(one.run(engine, None), None, None).lost()
    assert [each.column for each in found["p"]] == ["x"]
    assert [each.column for each in found["v"]] == ["x", "id"]  # of people who are not in p, too
    for each, wanted in zip((*found["p"], *found["v"]), (100, 200, 100), strict=True):
        assert each.left_out
        assert abs(each.rows - wanted) < 7 * each.sigma < 30
