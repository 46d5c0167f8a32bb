"""What a row meets in joins is bounded by what is public, so that no row chooses how long an answer takes."""

from collections import Counter

import pyarrow as pa
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InternalError, InvalidQuery
from discreet.sql.algebra.expression import MOST_WORK
from discreet.sql.algebra.fan_out import crossings, most_matches
from discreet.sql.algebra.relations import PAIR
from discreet.sql.plan import planner
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.text.sources import MOST_RELATIONS

POLICY = """
dataset = {name = "shop", neighbors = "add or remove one", time_floor = 0}
budget = {epsilon = 1000, everyone = "all"}
[tables.people]
source = "python"
unit = "id"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.id = {type = "integer"}
columns.age = {type = "integer", lower = 0, upper = 99}
[tables.orders]
source = "python"
unit = "who"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.oid = {type = "integer"}
columns.who = {type = "integer"}
columns.g = {type = "text"}
columns.x = {type = "integer", lower = 0, upper = 9}
[tables.items]
source = "python"
unit = "orders.who via oid"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.oid = {type = "integer"}
columns.p = {type = "integer", lower = 0, upper = 9}
[tables.codes]
source = "python"
unit = "public"
columns.g = {type = "text"}
columns.z = {type = "integer"}
[tables.wide]
source = "python"
unit = "public"
columns.k = {type = "integer"}
"""
CODES = {"g": ["a", "a", "a", "b", "b", None, None], "z": [1, 2, 1, 1, None, 5, 6]}
MOST = MOST_WORK // PAIR
WHOLE = len(CODES["g"])


@pytest.fixture(scope="module")
def shop():
    tables = {
        "people": pa.table({"id": [1, 2], "age": [30, 40]}),
        "orders": pa.table({"oid": [1, 2, 3], "who": [1, 1, 2], "g": ["a", "b", None], "x": [1, 2, 3]}),
        "items": pa.table({"oid": [1, 1, 3], "p": [1, 2, 3]}),
        "codes": pa.table({"g": pa.array(CODES["g"], pa.string()), "z": pa.array(CODES["z"], pa.int64())}),
        "wide": pa.table({"k": list(range(MOST + 2))}),
    }
    with discreet.open(parse_policy(POLICY), tables=tables, ledger=Ledger(MemoryStore()), analyst="ann") as data:
        yield data


def relation(data, sql):
    (release,) = plan([sql], data.catalog, Terms(epsilon=1)).releases
    return release.group.source


def test_how_often_values_of_a_public_table_repeat_is_known(shop):
    counts = [Counter(value for value in CODES[name] if value is not None) for name in ("g", "z")]
    assert shop.catalog.table("codes").repeats == (WHOLE, *(max(each.values()) for each in counts))
    assert shop.catalog.table("wide").repeats == (MOST + 2, 1)
    assert shop.catalog.table("orders").repeats == ()


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT COUNT(*) FROM orders", 1),
        ("SELECT COUNT(*) FROM orders JOIN codes ON orders.g = codes.g", 3),
        ("SELECT COUNT(*) FROM orders LEFT JOIN codes ON x = z AND x > 1", 3),
        ("SELECT COUNT(*) FROM orders LEFT JOIN (SELECT g AS h, z + 1 AS y FROM codes) AS c ON orders.g = h", 3),
        ("SELECT COUNT(*) FROM orders JOIN codes ON orders.g = codes.g AND x = z", 3),
        ("SELECT COUNT(*) FROM orders JOIN codes ON x < z", WHOLE),
        ("SELECT COUNT(*) FROM orders, codes, codes AS d WHERE orders.g = codes.g AND d.z = codes.z", 9),
        ("SELECT COUNT(*) FROM orders JOIN wide ON x = k", 1),
        ("SELECT COUNT(*) FROM orders WHERE g IN (SELECT g FROM codes)", 3),
        ("SELECT COUNT(*) FROM orders WHERE EXISTS (SELECT 1 FROM codes WHERE z > x)", WHOLE),
        (
            "SELECT COUNT(*) FROM (SELECT who FROM orders JOIN codes ON x < z UNION ALL SELECT id FROM people)",
            WHOLE + 1,
        ),
        ("SELECT COUNT(*) FROM people JOIN (SELECT who FROM orders JOIN codes ON x < z) AS o ON id = o.who", WHOLE),
    ],
)
def test_matches_are_those_of_the_public_rows(shop, sql, most):
    assert most_matches(relation(shop, sql)) == most


def test_what_a_row_meets_is_paid_for_with_its_nanoseconds(shop):
    """Each pair has its price, and what is computed above has its own for each of them."""
    (release,) = plan(["SELECT COUNT(*) FROM orders JOIN codes ON x < z"], shop.catalog, Terms(epsilon=1)).releases
    assert release.aggregate.work_of_matches > (WHOLE - 1) * PAIR  # and the comparison
    before = shop.remaining
    with pytest.raises(InvalidQuery, match="one row may meet .* rows of public tables, which 100 µs do not suffice"):
        shop.ask("SELECT COUNT(*) AS n FROM orders JOIN wide ON k < 5", epsilon=1)
    with pytest.raises(InvalidQuery, match="one row may meet"):
        shop.ask("SELECT COUNT(*) FROM orders, codes a, codes b, codes c, codes d, codes e, codes f", epsilon=1)
    assert shop.remaining == before


@pytest.mark.parametrize(
    ("sql", "most"),
    [
        ("SELECT COUNT(*) FROM people", 0),
        ("SELECT COUNT(*) FROM orders", 1),
        ("SELECT COUNT(*) FROM people JOIN orders ON id = who", 1),
        ("SELECT COUNT(*) FROM people JOIN orders ON id = who JOIN items ON items.oid = orders.oid", 1),
        ("SELECT COUNT(*) FROM orders a JOIN orders b ON a.who = b.who", 2),
        ("SELECT COUNT(*) FROM items a JOIN items b ON a.oid = b.oid", 2),
        ("SELECT COUNT(*) FROM orders JOIN (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS s ON orders.who = s.who", 1),
        ("SELECT COUNT(*) FROM orders JOIN (SELECT who, g, COUNT(*) AS n FROM orders GROUP BY who, g) AS s ON orders.who = s.who AND orders.g = s.g", 1),
        ("SELECT COUNT(*) FROM orders JOIN (SELECT who, g, COUNT(*) AS n FROM orders GROUP BY who, g) AS s ON orders.who = s.who", 2),
        ("SELECT COUNT(*) FROM orders o WHERE who IN (SELECT who FROM orders) AND EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND p > x)", 1),
        ("SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM orders i WHERE i.who = o.who AND i.x > o.x)", 2),
        ("SELECT COUNT(*) FROM (SELECT who FROM orders UNION ALL SELECT who FROM orders)", 1),
    ],
)  # fmt: skip
def test_how_often_rows_of_a_person_are_paired(shop, sql, most):
    assert crossings(relation(shop, sql)) == most


SEVERAL = [
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.who = b.who JOIN orders c ON a.who = c.who",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.who = b.who WHERE EXISTS (SELECT 1 FROM orders c WHERE c.who = a.who AND c.x > a.x)",
    "SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM orders a JOIN orders b ON a.who = b.who JOIN orders c ON a.who = c.who WHERE a.who = id)",
]  # fmt: skip


@pytest.mark.parametrize("sql", SEVERAL)
def test_rows_of_a_person_are_not_paired_again_and_again(shop, sql, monkeypatch):
    """Refused before anything is charged; and where the planner let it pass, at the gate."""
    before = shop.remaining
    with pytest.raises(InvalidQuery, match="each of a person's rows would meet the others more than once"):
        shop.ask(sql, epsilon=1)
    monkeypatch.setattr(planner, "MOST_CROSSINGS", 9)
    with pytest.raises(InternalError, match="pairs a person's rows with each other more often"):
        shop.ask(sql, epsilon=1)
    assert shop.remaining == before


def test_a_text_that_doubles_is_refused_before_it_is_planned(shop):
    doubled = ", ".join(f"a{i} AS (SELECT * FROM a{i - 1} UNION ALL SELECT * FROM a{i - 1})" for i in range(1, 40))
    with pytest.raises(InvalidQuery, match=f"more than {MOST_RELATIONS} times"):
        shop.ask(f"WITH a0 AS (SELECT who FROM orders), {doubled} SELECT COUNT(*) FROM a39", epsilon=1)
