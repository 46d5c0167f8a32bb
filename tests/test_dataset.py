"""The front door: from a policy and data to answers, on every kind of source."""

import json
import sqlite3
import subprocess
import sys
import threading
from fractions import Fraction

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import (
    BudgetExceeded,
    InvalidData,
    InvalidParameter,
    InvalidQuery,
    LedgerConflict,
    LedgerDamaged,
    ReleaseFailed,
)
from discreet.privacy.loss import Approximate, Pure, Together

POLICY = """
[dataset]
name = "clinic"
neighbors = "{neighbors}"

[budget]
epsilon = "{epsilon}"
{delta}

[budget.analysts.bob]
epsilon = "1"

[tables.visits]
source = "{source}"
unit = "patient"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.patient = {{ type = "integer" }}
columns.ward = {{ type = "text", values = ["a", "b"] }}
columns.cost = {{ type = "real", lower = 0, upper = 100, granularity = "0.5" }}
columns.night = {{ type = "boolean" }}
columns.doctor = {{ type = "text" }}
columns.day = {{ type = "date", values = ["2024-01-01", "2024-01-02"] }}

[tables.wards]
source = "python"
unit = "public"
columns.ward = {{ type = "text" }}
columns.beds = {{ type = "integer" }}
"""
VISITS = pa.table(
    {
        "patient": pa.array([1, 1, 2, 3, 3, 3, 4, None], pa.int64()),
        "ward": ["a", "b", "a", "a", "b", "c", None, "a"],
        "cost": [10.0, 20.0, 30.0, 400.0, None, 1.0, float("nan"), 5.0],
        "night": [True, False, None, True, True, False, True, True],
        "doctor": ["x"] * 7 + ["y"],
        "day": pa.array([19723, 19724, 19723, 19724, 19723, 19999, None, 19723], pa.date32()),
    }
)
WARDS = pa.table({"ward": ["a", "b"], "beds": [10, 20]})
SURE = 10**6
"""An ε at which noise on small numbers is zero but for a chance of e^−10000."""


@pytest.fixture
def clinic(tmp_path):
    """Open a clinic; every call makes a fresh ledger unless one is given."""
    opened = []

    def open_it(
        *, source="python", visits=VISITS, epsilon=10**9, delta='delta = "1e-3"', neighbors="add or remove one", **more
    ):
        text = POLICY.format(source=source, epsilon=epsilon, delta=delta, neighbors=neighbors)
        text = text.replace("[budget]", more.pop("dataset", "") + "\n[budget]", 1)
        path = tmp_path / "clinic.toml"
        path.write_text(
            text.replace('[budget.analysts.bob]\nepsilon = "1"', more.pop("caps", 'everyone = "all"')), encoding="utf-8"
        )
        tables = {"wards": WARDS} | ({"visits": visits} if source == "python" else {})
        data = discreet.open(path, tables=tables, **{"ledger": Ledger(MemoryStore()), "analyst": "ann"} | more)
        opened.append(data)
        return data

    yield open_it
    for data in opened:
        data.close()


def rows(answer):
    return answer.table.to_pylist()


def test_counts_sums_and_means_of_people(clinic):
    data = clinic()
    answer = data.ask(
        "SELECT ward, COUNT(*) AS n, SUM(cost) AS total, COUNT(cost) AS known, COUNT(DISTINCT patient) AS people "
        "FROM visits GROUP BY ward ORDER BY ward NULLS LAST", epsilon=5 * SURE,
    )  # fmt: skip
    assert rows(answer) == [
        {"ward": "a", "n": 3, "total": 140.0, "known": 3, "people": 3},
        {"ward": "b", "n": 2, "total": 20.0, "known": 1, "people": 2},
        {"ward": None, "n": 1, "total": 0.0, "known": 0, "people": 1},
    ]
    mean = data.ask("SELECT AVG(cost) AS mean FROM visits WHERE ward = 'a'", epsilon=SURE)
    assert rows(mean) == [{"mean": pytest.approx(140 / 3)}]


def test_nobody_weighs_more_than_the_bounds(clinic):
    data = clinic(visits=pa.table({**{n: VISITS.column(n) for n in VISITS.column_names},
                                   "patient": [1] * 8, "ward": ["a"] * 8, "cost": [50.0] * 7 + [None]}))  # fmt: skip
    answer = data.ask("SELECT COUNT(*) AS n, AVG(cost) AS mean, COUNT(DISTINCT patient) AS p FROM visits", epsilon=SURE)
    (row,) = rows(answer)
    assert (row["n"], row["p"]) == (3, 1)
    wide = data.ask("SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits", epsilon=SURE, rows=100)
    assert rows(wide) == [{"n": 8, "s": 350.0}]
    assert any("counts as at most 3 rows" in note for note in answer.notes)
    assert any("100 rows" in note for note in wide.notes)


def test_a_person_is_in_at_most_so_many_groups(clinic):
    data = clinic()
    for groups, most in ((1, 1), (2, 2)):
        answer = data.ask(
            "SELECT ward, COUNT(*) FILTER (WHERE patient = 3) AS n FROM visits GROUP BY ward",
            epsilon=SURE,
            groups=groups,
        )
        assert sum(row["n"] for row in rows(answer)) == most


def test_groups_from_the_data_are_named_privately(clinic):
    data = clinic(visits=pa.table({"patient": range(2000), "doctor": ["x"] * 1999 + ["only one"],
                                   "ward": ["a"] * 2000, "cost": [1.0] * 2000, "night": [True] * 2000,
                                   "day": pa.nulls(2000, pa.date32())}))  # fmt: skip
    with pytest.raises(InvalidQuery, match="doctor come from the data.*delta"):
        data.ask("SELECT doctor, COUNT(*) FROM visits GROUP BY doctor", epsilon=1)
    answer = data.ask("SELECT doctor, COUNT(*) AS n FROM visits GROUP BY doctor", epsilon=1, delta="1e-9")
    assert [row["doctor"] for row in rows(answer)] == ["x"]
    assert answer.receipt.delta == 1e-9
    assert answer.receipt.loss == Together(Pure("1/2"), Approximate("1/2", "1e-9"))


def test_declared_dates_are_groups(clinic):
    answer = clinic().ask(
        "SELECT day, COUNT(*) AS n FROM visits GROUP BY day ORDER BY day NULLS LAST", epsilon=SURE, rows=9
    )
    assert [(str(row["day"]), row["n"]) for row in rows(answer)] == [("2024-01-01", 3), ("2024-01-02", 2), ("None", 1)]


def test_absent_groups_are_answered_too(clinic):
    data = clinic(visits=VISITS.slice(0, 0))
    answer = data.ask(
        "SELECT ward, night, COUNT(*) AS n, AVG(cost) AS m FROM visits GROUP BY ward, night", epsilon=SURE
    )
    assert len(answer) == 9
    assert {row["n"] for row in rows(answer)} == {0}
    assert {row["m"] for row in rows(answer)} == {None}
    assert rows(data.ask("SELECT COUNT(*) AS n, SUM(cost) AS s FROM visits", epsilon=SURE)) == [{"n": 0, "s": 0.0}]


def test_the_total_is_what_was_stated(clinic):
    data = clinic()
    for sql in (
        "SELECT AVG(cost) FROM visits",
        "SELECT ward, COUNT(*), SUM(cost), AVG(cost) FROM visits GROUP BY ward",
    ):
        before = data.budget().spent
        assert data.ask(sql, epsilon="0.3").receipt.epsilon == 0.3
        assert data.budget().spent == pytest.approx(before + 0.3)


def test_the_same_question_is_free_and_the_same(clinic):
    data = clinic()
    first = data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.1")
    again = data.ask("select WARD, count(*) AS n from Visits group by 1 order by n", epsilon="0.1")
    assert (first.receipt.free, again.receipt.free) == (False, True)
    assert sorted(map(str, rows(first))) == sorted(str({"ward": r["WARD"], "n": r["n"]}) for r in rows(again))
    assert data.budget().charges == 1
    half = data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.1", confidence="0.5")
    assert half.receipt.free
    assert data.explain("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.1").budget["free"]
    assert not data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.2").receipt.free
    assert not data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon="0.1", rows=1).receipt.free


def test_nothing_of_what_others_asked_is_given_or_told(clinic):
    """Bob may spend 0.5; ann's answer at ε 5 is neither free for him nor visible in a free explanation."""
    caps = '[budget.analysts.bob]\nepsilon = "0.5"\n[budget.everyone]\nepsilon = "10"'
    data = clinic(epsilon=10, delta="", caps=caps)
    asked = "SELECT COUNT(*) FROM visits"
    unseen = data.explain(asked, epsilon=5, analyst="eve").budget
    data.ask(asked, epsilon=5, analyst="ann")
    with pytest.raises(BudgetExceeded, match="the cap of 'bob'"):
        data.ask(asked, epsilon=5, analyst="bob")
    seen = data.explain(asked, epsilon=5, analyst="eve").budget
    assert (unseen["free"], seen["free"]) == (False, False)
    assert data.explain(asked, epsilon=5, analyst=" ANN").budget["free"]
    paid = data.ask(asked, epsilon=5, analyst="eve")
    assert not paid.receipt.free
    assert data.ask(asked, epsilon=5, analyst="Eve").receipt.charge == paid.receipt.charge


def test_answers_are_shared_where_the_owner_says_so_and_receipts_name_nobody(clinic):
    data = clinic(epsilon=10, delta="", dataset="share_answers = true")
    asked = "SELECT COUNT(*) AS n FROM visits"
    paid = data.ask(asked, epsilon=5, analyst="ann")
    shared, own = (data.ask(asked, epsilon=5, analyst=who) for who in ("bob", "Ann"))
    assert rows(shared) == rows(own) == rows(paid)
    assert (shared.receipt.analyst, shared.receipt.charge, shared.receipt.when) == ("", 0, "")
    assert "ann" not in json.dumps(shared.to_json())
    assert str(shared.receipt) == "free: shared by the analyst who paid for it"
    assert (own.receipt.analyst, own.receipt.charge, str(own.receipt)) == ("ann", 2, "free: cached from charge #2")
    assert data.budget().charges == 1


def test_analysts_who_are_not_named_are_refused_or_have_the_cap_of_everyone(clinic):
    data = clinic(epsilon=10, delta="", caps='[budget.analysts.bob]\nepsilon = "1"')
    with pytest.raises(BudgetExceeded, match=r"'eve' has no cap .*\[budget.everyone\] to the policy"):
        data.ask("SELECT COUNT(*) FROM visits", epsilon="0.1", analyst="eve")
    assert not data.explain("SELECT COUNT(*) FROM visits", epsilon="0.1", analyst="eve").budget["affordable"]
    assert data.budget().charges == 0


def test_an_answer_replaced_in_the_file_is_not_given(clinic, tmp_path):
    data = clinic(ledger=tmp_path / "clinic.ledger")
    data.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    for blob in ("x'00'", "CAST('forged' AS BLOB)"):
        connection = sqlite3.connect(tmp_path / "clinic.ledger", isolation_level=None)
        connection.execute("DROP TRIGGER IF EXISTS answers_stay_fixed")
        connection.execute(f"UPDATE answers SET answer = {blob}")
        connection.close()
        with pytest.raises(LedgerDamaged, match="the answer kept for charge #2 is not the one that was released"):
            data.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1)


def test_post_processing_is_any_sql(clinic):
    answer = clinic().ask(
        "WITH n AS (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) "
        "SELECT w.ward, n / beds AS rate, RANK() OVER (ORDER BY n DESC) AS place "
        "FROM n JOIN wards AS w ON w.ward = n.ward ORDER BY place", epsilon=SURE,
    )  # fmt: skip
    assert rows(answer) == [{"ward": "a", "rate": 0.3, "place": 1}, {"ward": "b", "rate": 0.1, "place": 2}]


def test_public_tables_cost_nothing(clinic):
    data = clinic()
    assert rows(data.ask("SELECT SUM(beds) AS beds FROM wards")) == [{"beds": 30}]
    assert data.budget().spent == 0


def test_what_cannot_be_computed_is_found_before_paying(clinic):
    data = clinic()
    for sql in ("SELECT no_such_function(COUNT(*)) FROM visits", "SELECT COUNT(*) AS n FROM visits ORDER BY nothing"):
        with pytest.raises((InvalidParameter, InvalidQuery)):
            data.ask(sql, epsilon=1)
    assert data.budget().charges == 0


def test_batch_pays_once_and_shares(clinic):
    data = clinic()
    both = data.batch(
        ["SELECT COUNT(*) AS n FROM visits", "SELECT COUNT(*) AS m, AVG(cost) AS mean FROM visits"], epsilon="0.9"
    )
    assert rows(both[0])[0]["n"] == rows(both[1])[0]["m"]  # one release for both
    assert data.budget().charges == 1
    assert data.budget().spent == 0.9
    for wrong in ("SELECT 1", [], None):
        with pytest.raises(InvalidParameter):
            data.batch(wrong, epsilon=1)


def test_budget_runs_out_for_all_together(clinic):
    data = clinic(epsilon=1, delta="")
    data.ask("SELECT COUNT(*) FROM visits", epsilon="0.6", analyst="ann")
    told = data.explain("SELECT COUNT(*) FROM visits", epsilon="0.6001")
    assert not told.budget["affordable"]
    with pytest.raises(BudgetExceeded):
        data.ask("SELECT COUNT(*) FROM visits", epsilon="0.6001", analyst="eve")
    assert data.budget().charges == 1
    data.ask("SELECT COUNT(*) FROM visits", epsilon="0.4", analyst="eve")
    assert data.budget().remaining == 0


def test_caps_of_single_analysts(clinic):
    data = clinic(epsilon=10, delta="", caps='[budget.analysts.bob]\nepsilon = "1"\n[budget.everyone]\nepsilon = "10"')
    data.ask("SELECT COUNT(*) FROM visits", epsilon="0.7", analyst="bob")
    assert not data.explain("SELECT COUNT(*) FROM visits", epsilon="0.701", analyst="bob").budget["affordable"]
    with pytest.raises(BudgetExceeded, match="bob"):
        data.ask("SELECT COUNT(*) FROM visits", epsilon="0.701", analyst="bob")
    data.ask("SELECT COUNT(*) FROM visits", epsilon="0.701", analyst="ann")


def test_accuracy_first(clinic):
    data = clinic()
    answer = data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", error=12)
    low, high = answer.intervals["n"]
    assert all((b.as_py() - a.as_py()) <= 24 for a, b in zip(low, high, strict=True))
    less = data.explain("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=answer.receipt.epsilon * 0.99)
    assert less.releases[0]["measures"][0]["error"] > 12  # hardly less ε would have done
    with pytest.raises(InvalidQuery, match="AVG"):
        data.ask("SELECT AVG(cost) FROM visits", error=1)
    with pytest.raises(InvalidParameter, match="at least 0.5"):
        data.ask("SELECT SUM(cost) FROM visits", error="0.1")


@pytest.mark.parametrize("terms", [{}, {"epsilon": 1, "error": 1}, {"epsilon": 0}, {"epsilon": float("nan")}, {"epsilon": "x"},
                                   {"epsilon": 1, "delta": 2}, {"epsilon": 1, "groups": 0}, {"epsilon": 1, "rows": 1.5},
                                   {"epsilon": 1, "confidence": 1}, {"error": -1}, {"epsilon": float("inf")}])  # fmt: skip
def test_wrong_terms_are_refused_and_cost_nothing(clinic, terms):
    data = clinic()
    with pytest.raises(InvalidParameter):
        data.ask("SELECT COUNT(*) FROM visits", **terms)
    assert data.budget().charges == 0


def test_all_sources_give_the_same(clinic, tmp_path):
    pq.write_table(VISITS, tmp_path / "visits.parquet")
    duckdb.sql(f"COPY (SELECT * FROM read_parquet('{tmp_path}/visits.parquet')) TO '{tmp_path}/visits.csv' (HEADER)")
    with duckdb.connect(str(tmp_path / "base.duckdb")) as base:
        base.execute(f"CREATE TABLE visits AS SELECT * FROM read_parquet('{tmp_path}/visits.parquet')")
    frame = pandas.DataFrame(VISITS.to_pydict())
    sql = "SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY ward ORDER BY ward NULLS LAST"
    expected = rows(clinic().ask(sql, epsilon=SURE))
    for source in ("visits.parquet", "visits.csv", "base.duckdb#visits"):
        assert rows(clinic(source=source).ask(sql, epsilon=SURE)) == expected
    for table in (frame, polars.from_arrow(VISITS)):
        assert rows(clinic(visits=table).ask(sql, epsilon=SURE)) == expected


def test_the_ledger_is_a_file_beside_the_policy_and_outlives_the_process(clinic, tmp_path):
    pq.write_table(VISITS, tmp_path / "visits.parquet")
    with clinic(source="visits.parquet", ledger=None) as data:
        first = data.ask("SELECT COUNT(*) AS n FROM visits", epsilon="0.25")
    assert (tmp_path / "clinic.ledger").exists()
    code = (
        "import discreet, pyarrow as pa\n"
        f"data = discreet.open({str(tmp_path / 'clinic.toml')!r}, tables={{'wards': pa.table({{'ward': ['a'], 'beds': [1]}})}})\n"
        "answer = data.ask('SELECT COUNT(*) AS n FROM visits', epsilon='0.25')\n"
        "print(answer.receipt.free, answer.column('n')[0])"
    )
    # wards are given anew, so the data are not the same, and neither is the answer's key
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert run.stdout.split()[0] == "False"
    with clinic(source="visits.parquet", ledger=None) as data:
        assert data.budget().charges == 2
        assert rows(first)[0]["n"] is not None


def test_files_that_stay_the_same_are_asked_once_across_openings(tmp_path):
    (tmp_path / "p.csv").write_text("age\n30\n40\n", encoding="utf-8")
    (tmp_path / "p.toml").write_text(
        '[dataset]\nname = "p"\nneighbors = "change one"\n[budget]\neveryone = "all"\nepsilon = 3\n[tables.p]\nsource = "p.csv"\n'
        'unit = "row"\ncolumns.age = {type = "integer", lower = 0, upper = 120}\n', encoding="utf-8",
    )  # fmt: skip
    answers = []
    for _ in range(2):
        with discreet.open(tmp_path / "p.toml") as data:
            answers.append(data.ask("SELECT SUM(age) AS s FROM p", epsilon=1))
    assert [answer.receipt.free for answer in answers] == [False, True]
    assert rows(answers[0]) == rows(answers[1])
    with discreet.open(tmp_path / "p.toml") as data:
        (tmp_path / "p.csv").write_text("age\n30\n40\n50\n", encoding="utf-8")
        with pytest.raises(InvalidData, match="changed"):
            data.ask("SELECT SUM(age) AS s FROM p", epsilon=1)
        assert data.budget().charges == 1
    with discreet.open(tmp_path / "p.toml") as data:
        assert not data.ask("SELECT SUM(age) AS s FROM p", epsilon=1).receipt.free


def test_another_budget_or_unit_needs_an_amendment(clinic):
    ledger = Ledger(MemoryStore())
    clinic(ledger=ledger)
    with pytest.raises(LedgerConflict, match="amend"):
        clinic(ledger=ledger, epsilon=5)
    with pytest.raises(LedgerConflict, match="change one"):
        clinic(ledger=ledger, neighbors="change one")


def test_a_failed_release_is_charged_and_says_nothing(clinic, caplog):
    data = clinic()

    def broken(sql):
        raise RuntimeError("secret 42")

    object.__setattr__(
        data._curator,
        "engine",
        type("Broken", (), {"dialect": "duckdb", "version": data._version, "fetch": staticmethod(broken)})(),
    )
    with pytest.raises(ReleaseFailed) as caught:
        data.ask("SELECT COUNT(*) FROM visits", epsilon=1)
    assert "42" not in str(caught.value)
    assert caught.value.__context__ is None
    assert data.budget().charges == 1


def test_threads_share_a_dataset(clinic):
    data, found = clinic(), []

    def ask(i):
        found.append(data.ask("SELECT COUNT(*) AS n FROM visits", epsilon=SURE + i).column("n")[0])

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [7] * 8
    assert data.budget().charges == 8


def test_opening_says_what_is_missing(tmp_path):
    policy = parse_policy(POLICY.format(source="python", epsilon=1, delta="", neighbors="change one"))
    with pytest.raises(InvalidParameter, match="ledger"):
        discreet.open(policy, tables={"visits": VISITS, "wards": WARDS})
    with pytest.raises(InvalidParameter, match="nurses"):
        discreet.open(policy, tables={"visits": VISITS, "wards": WARDS, "nurses": WARDS}, ledger=Ledger(MemoryStore()))
    with pytest.raises((InvalidParameter, InvalidData), match="wards"):
        discreet.open(policy, tables={"visits": VISITS}, ledger=Ledger(MemoryStore()))
    with pytest.raises(AttributeError):
        discreet.no_such_name  # noqa: B018


def test_gaussian_noise_where_it_is_smaller(clinic):
    data = clinic()
    told = data.explain("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=1, delta="1e-6")
    assert told.releases[0]["measures"][0]["noise"] == "geometric"  # 2 groups a person: too few
    many = "SELECT CAST(cost AS INTEGER) AS c, COUNT(*) AS n FROM visits GROUP BY c"
    told = data.explain(many, epsilon=1, delta="1e-6", groups=101, rows=1)
    assert told.releases[0]["measures"][0]["noise"] == "Gaussian"
    assert (told.epsilon, told.delta) == (1, Fraction(1, 10**6))
    answer = data.ask(many, epsilon=1, delta="1e-6", groups=101, rows=1)
    assert len(answer) == 102
    assert set(answer.intervals) == {"n"}


@pytest.mark.parametrize(("sql", "columns"), [
    ("SELECT * FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS t WHERE n > -1000 LIMIT 2", {"n"}),
    ("WITH t AS (SELECT ward, COUNT(*) AS n, SUM(cost) AS s FROM visits GROUP BY ward) SELECT ward, n, s / n AS mean FROM t", {"n", "mean"}),
    ("WITH t AS (SELECT ward AS w, COUNT(*) AS n FROM visits GROUP BY ward) SELECT n / beds AS rate, beds FROM t JOIN wards ON w = ward", {"rate"}),
    ("SELECT a.n - b.n AS d FROM (SELECT COUNT(*) AS n FROM visits) AS a, (SELECT COUNT(*) AS n FROM visits WHERE night) AS b", {"d"}),
    ("SELECT n FROM (SELECT COUNT(*) AS n FROM visits UNION ALL SELECT COUNT(*) FROM visits WHERE night) AS t", set()),
    ("SELECT SUM(n) AS n FROM (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS t", set()),
    ("WITH t AS (SELECT COUNT(*) AS n FROM visits) SELECT a.n, b.n AS m FROM t AS a, t AS b", {"n", "m"}),
    ("SELECT DISTINCT n FROM (SELECT COUNT(*) AS n FROM visits) AS t", set()),
])  # fmt: skip
def test_intervals_pass_through_simple_outer_queries(clinic, sql, columns):
    answer = clinic().ask(sql, epsilon="0.5")
    assert set(answer.intervals) == columns
    for name in columns:
        low, high = answer.intervals[name]
        for value, a, b in zip(answer.column(name), low, high, strict=True):
            assert a.as_py() is None or a.as_py() <= max(value, 0) <= b.as_py() or name in ("mean", "rate", "d")
    assert not any("released" in name for name in answer.table.column_names)
    exact = clinic().ask(sql, epsilon=10**7)
    for name in columns:
        low, high = exact.intervals[name]
        assert all(a.as_py() is None or b.as_py() - a.as_py() < 1e-6 for a, b in zip(low, high, strict=True))


def test_asking_does_not_import_pandas(tmp_path):
    """Where pandas is installed, importing it takes longer than the answer."""
    (tmp_path / "p.csv").write_text("age,sex\n30,f\n40,m\n", encoding="utf-8")
    (tmp_path / "p.toml").write_text(
        '[dataset]\nname = "p"\nneighbors = "change one"\n[budget]\neveryone = "all"\nepsilon = 30\ndelta = "1e-6"\n[tables.p]\n'
        'source = "p.csv"\nunit = "row"\ncolumns.age = {type = "integer", lower = 0, upper = 120}\n'
        'columns.sex = {type = "text", values = ["f", "m"]}\n', encoding="utf-8",
    )  # fmt: skip
    code = (
        "import sys, discreet\n"
        f"data = discreet.open({str(tmp_path / 'p.toml')!r})\n"
        "print(data.explain('SELECT sex, AVG(age) AS a FROM p GROUP BY sex', epsilon=1))\n"
        "print(data.ask('SELECT sex, AVG(age) AS a FROM p GROUP BY sex ORDER BY a', epsilon=1))\n"
        "print(data.ask('SELECT age, COUNT(*) AS n FROM p WHERE age > 3 GROUP BY age', epsilon=1, delta='1e-7'))\n"
        "print(sorted({'pandas', 'polars', 'matplotlib'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def test_what_fails_after_the_charge_says_what_is_cached(clinic):
    data = clinic()
    with pytest.raises(InvalidQuery, match="#2 released is cached"):
        data.ask("SELECT error('x') FROM (SELECT COUNT(*) AS n FROM visits)", epsilon=1)
    assert data.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1).receipt.free


def test_rows_chosen_for_their_noise_are_named(clinic):
    data = clinic()
    top = data.ask("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward ORDER BY n DESC LIMIT 1", epsilon=1)
    assert any("chosen for their noisy values" in note for note in top.notes)
    every = data.ask("SELECT ward, COUNT(*) AS n FROM visits WHERE night GROUP BY ward ORDER BY n DESC", epsilon=1)
    assert not any("chosen" in note for note in every.notes)


def test_a_failure_passes_nothing_on(clinic):
    data = clinic()

    def broken(sql):
        raise RuntimeError("secret 42")

    engine = type("Broken", (), {"dialect": "duckdb", "version": data._version, "fetch": staticmethod(broken)})()
    object.__setattr__(data._curator, "engine", engine)
    with pytest.raises(ReleaseFailed) as caught:
        data.ask("SELECT COUNT(*) FROM visits", epsilon=1)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
