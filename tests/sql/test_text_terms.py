"""In the text itself: terms, ends of intervals, and what the catalog answers."""

import pyarrow as pa
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InvalidQuery
from discreet.sql.text.statement import without_options

POLICY = """
dataset = {name = "shop", neighbors = "add or remove one"}
budget = {epsilon = 20, delta = "1e-3", everyone = "all"}
[tables.sales]
source = "python"
unit = "who"
max_groups_per_unit = 2
max_rows_per_group = 2
columns.who = {type = "integer", nullable = false}
columns.city = {type = "text", values = ["rome", "oslo"]}
columns.price = {type = "integer", lower = 0, upper = 9}
columns.day = {type = "date", lower = 2024-01-01, upper = 2024-12-31}
[tables.cities]
source = "python"
unit = "public"
columns.city = {type = "text"}
columns.people = {type = "integer"}
"""
SALES = pa.table(
    {
        "who": list(range(200)),
        "city": ["rome", "oslo"] * 100,
        "price": [3] * 200,
        "day": pa.array([None] * 200, pa.date32()),
    }
)
CITIES = pa.table({"city": ["rome", "oslo"], "people": [2_800_000, 700_000]})


@pytest.fixture
def data():
    with discreet.open(
        parse_policy(POLICY), tables={"sales": SALES, "cities": CITIES}, ledger=Ledger(MemoryStore())
    ) as opened:
        yield opened


CLAUSE = "WITH DIFFERENTIAL_PRIVACY OPTIONS"


# Terms


def test_an_error_and_an_epsilon_in_the_text_are_two_steps(data):
    text = f"SELECT {CLAUSE} (epsilon = 15, error = '20%', max_groups_contributed = 1) AVG(price) AS m FROM sales"
    answer = data.ask(text)
    assert "a first release found the sizes" in answer.notes[0]
    assert answer.receipt.epsilon <= 13.5
    with pytest.raises(InvalidQuery, match="error is stated twice"):
        data.ask(text, error="10%", epsilon=15)
    again = data.ask("SELECT AVG(price) AS m FROM sales", epsilon=15, error="20%", groups=1)
    assert again.receipt.free


def test_terms_in_the_text_are_terms(data):
    answer = data.ask(
        f"SELECT {CLAUSE} (epsilon = 2, max_rows_contributed = 1, confidence = 0.5) COUNT(*) AS n FROM sales"
    )
    assert (answer.receipt.epsilon, answer.confidence) == (2, 0.5)
    beside = data.plan(
        discreet.requests.Question("SELECT COUNT(*) AS n FROM sales", epsilon=2, rows=1, confidence="0.5")
    )
    inside = data.plan(
        discreet.requests.Question(f"SELECT {CLAUSE}(EPSILON='2', max_rows_contributed=1) COUNT(*) AS n FROM sales")
    )
    assert inside.digest == beside.digest


def test_terms_hold_for_the_whole_batch(data):
    texts = [f"SELECT {CLAUSE} (epsilon = 3) COUNT(*) AS n FROM sales", "SELECT SUM(price) AS s FROM sales"]
    answers = data.batch(texts)
    assert {answer.receipt.epsilon for answer in answers} == {3}


def test_terms_in_an_inner_select_count_too(data):
    plan = data.plan(
        discreet.requests.Question(
            "SELECT n FROM (select with differential_privacy options (epsilon = 1)\nCOUNT(*) AS n FROM sales)"
        )
    )
    assert plan.epsilon == 1


@pytest.mark.parametrize(
    ("options", "terms", "said", "place"),
    [
        ("(epsilon = 2)", {"epsilon": 1}, "epsilon is stated twice", "2)"),
        ("(epsilon = 2, epsilon = 3)", {}, "epsilon is stated twice", "epsilon = 3"),
        ("(epsilon = 2, max_groups_contributed = 1.5)", {}, "max_groups_contributed is not a number", "1.5"),
        ("(epsilon = NULL)", {}, "epsilon is not a number", "NULL"),
        ("(epsilon = -1)", {}, "epsilon is not a number", "-1"),
        ("(epsilon = 1 + 1)", {}, "more than a number", "+ 1"),
        ("(epsilon 1)", {}, "not name = value", "epsilon 1"),
        ("()", {}, "not name = value", ") COUNT"),
        ("(epsilon = 1", {}, "more than a number", "COUNT"),
        (" COUNT", {}, "OPTIONS without parentheses", "COUNT"),
        ("(epsilom = 1)", {}, "the option 'epsilom' is not known", "epsilom"),
        ("(privacy_unit_column = who)", {}, "the unit is stated by the owner's policy", "privacy_unit"),
    ],
)
def test_terms_that_cannot_be_are_refused_where_they_stand(data, options, terms, said, place):
    text = f"SELECT {CLAUSE}{options} COUNT(*) AS n FROM sales"
    with pytest.raises(InvalidQuery) as refusal:
        data.ask(text, **terms)
    assert said in str(refusal.value)
    assert str(refusal.value).startswith(f"line 1, column {text.index(place) + 1}: ")
    assert data.budget().charges == 0


def test_the_same_term_twice_is_no_conflict(data):
    assert data.ask(f"SELECT {CLAUSE} (epsilon = 1.0) COUNT(*) AS n FROM sales", epsilon="1").receipt.epsilon == 1


def test_a_refusal_after_the_clause_points_right(data):
    with pytest.raises(InvalidQuery, match="line 2, column 13: there is no column"):
        data.ask(f"SELECT {CLAUSE}\n(epsilon=1) nosuch, COUNT(*) FROM sales GROUP BY 1")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 'WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1)' AS t",
        "SELECT 1 -- WITH DIFFERENTIAL_PRIVACY",
        "SELECT ' WITH DIFFERENTIAL_PRIVACY",
    ],
)
def test_a_text_that_only_speaks_of_it_stays_as_it_is(text):
    assert without_options(text) == (text, {})


# Ends of intervals


def ends(data, sql, **terms):
    return data.ask(sql, **({"epsilon": 1} | terms)).table.to_pylist()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(COUNT(*)) AS low, DP_INTERVAL_HIGH(COUNT(*)) AS high FROM sales",
        "SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, dp_interval_high(n) AS high FROM sales",
        "SELECT n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM (SELECT COUNT(*) AS n FROM sales) q",
        "WITH q AS (SELECT COUNT(*) AS n FROM sales) SELECT n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM q",
        "SELECT c * 2 + 1 AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM (SELECT COUNT(*) AS c FROM sales)",
        "SELECT n, low, high FROM (SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM sales) q",
        "SELECT city, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM sales GROUP BY city ORDER BY DP_INTERVAL_LOW(n)",
        "SELECT SUM(price) / 2 + COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low, DP_INTERVAL_HIGH(n) AS high FROM sales",
        "SELECT AVG(price) AS n, DP_INTERVAL_LOW(AVG(price)) AS low, DP_INTERVAL_HIGH(AVG(price)) AS high FROM sales",
    ],
)
def test_ends_are_those_of_the_answer(data, sql):
    answer = data.ask(sql, epsilon=1)
    low, high = ([end.as_py() for end in part] for part in answer.intervals["n"])
    assert [row["low"] for row in answer.table.to_pylist()] == low
    assert [row["high"] for row in answer.table.to_pylist()] == high
    nobody = [row["n"] < 0 and row.get("city", "") is None for row in answer.table.to_pylist()]  # a count cut at 0
    assert all(first < last or alone for first, last, alone in zip(low, high, nobody, strict=True))


def test_ends_can_be_filtered_by(data):
    rows = ends(data, "SELECT city, COUNT(*) AS n FROM sales GROUP BY city HAVING DP_INTERVAL_LOW(COUNT(*)) > 1000000")
    assert rows == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DP_INTERVAL_LOW(city), COUNT(*) AS n FROM sales GROUP BY city",
        "SELECT DP_INTERVAL_LOW(SQRT(COUNT(*))) FROM sales",
        "SELECT DP_INTERVAL_LOW(1)",
        "SELECT DP_INTERVAL_LOW(COUNT(*), 2) FROM sales",
        "SELECT DP_INTERVAL_LOW(people) FROM cities",
    ],
)
def test_where_no_interval_is_known_that_is_said(data, sql):
    with pytest.raises(InvalidQuery, match="no interval is known for DP_INTERVAL_LOW"):
        data.ask(sql, epsilon=1)


# The catalog


def test_the_catalog_answers_for_free(data):
    tables = data.ask("SHOW TABLES;")
    assert tables.table.to_pylist() == [
        {"name": "sales", "kind": "private", "protects": "one person, by who"},
        {"name": "cities", "kind": "public", "protects": None},
    ]
    described = {row["column_name"]: row for row in data.ask("describe Sales").table.to_pylist()}
    assert described["who"]["key"] == "unit"
    assert (described["price"]["lower"], described["price"]["upper"], described["price"]["column_type"]) == (
        "0",
        "9",
        "BIGINT",
    )
    assert (described["day"]["lower"], described["day"]["upper"]) == ("2024-01-01", "2024-12-31")
    assert described["city"]["values"] == "rome, oslo"
    assert data.ask('SHOW COLUMNS FROM "sales"').table.to_pylist() == list(described.values())
    assert tables.receipt.epsilon == 0
    assert tables.receipt.charge == 0


def test_information_schema_is_a_table_like_any_other(data):
    rows = ends(
        data, "SELECT table_name, COUNT(*) AS n FROM information_schema.columns c GROUP BY table_name ORDER BY n"
    )
    assert rows == [{"table_name": "cities", "n": 2}, {"table_name": "sales", "n": 4}]
    assert ends(data, "SELECT table_name FROM information_schema.tables WHERE table_catalog = 'shop' ORDER BY 1") == [
        {"table_name": "cities"},
        {"table_name": "sales"},
    ]


@pytest.mark.parametrize(
    "sql",
    [
        "DESCRIBE nosuch",
        "SHOW COLUMNS FROM nosuch",
        "SELECT * FROM information_schema.schemata",
        "SHOW DATABASES",
        "DESCRIBE SELECT 1",
    ],
)
def test_what_the_catalog_does_not_have_is_refused(data, sql):
    with pytest.raises(InvalidQuery):
        data.ask(sql)
