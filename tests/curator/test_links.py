"""Tables that reach their people by a chain of keys: in the policy, at the front door, in the owner's view."""

from pathlib import Path

import pyarrow as pa
import pytest

import discreet
from discreet.curator.policy import parse_policy
from discreet.errors import InvalidParameter
from discreet.requests import FairnessAudit, LinkedSynthesis, Synthesis, Training

POLICY = """
dataset = {{name = "shop", neighbors = "add or remove one", witness = "none", time_floor = 0}}
budget = {{epsilon = 1000000, delta = "1e-6", everyone = "all"}}
[tables.orders]
source = "python"
unit = "customer"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.id = {{type = "integer"}}
columns.customer = {{type = "integer"}}
[tables.items]
source = "python"
unit = "{items}"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.order_id = {{type = "integer"}}
columns.item = {{type = "integer"}}
columns.price = {{type = "integer", lower = 0, upper = 9}}
[tables.notes]
source = "python"
unit = "{notes}"
columns.item = {{type = "integer"}}
columns.stars = {{type = "integer", lower = 0, upper = 5}}
"""
ITEMS, NOTES = "orders.customer via order_id = id", "items via item"
TABLES = {
    "orders": pa.table({"id": [1, 2, 3, 4], "customer": [7, 7, 8, None]}),
    "items": pa.table({"order_id": [1, 1, 2, 3, 4, 99], "item": [1, 2, 3, 4, 5, 6], "price": [1, 2, 3, 4, 5, 6]}),
    "notes": pa.table({"item": [1, 2, 4, 5, 77], "stars": [5, 4, 3, 2, 1]}),
}


def policy_text(items: str = ITEMS, notes: str = NOTES) -> str:
    return POLICY.format(items=items, notes=notes)


@pytest.fixture
def shop(tmp_path: Path) -> discreet.Dataset:
    file = tmp_path / "shop.toml"
    file.write_text(policy_text())
    return discreet.open(file, tables=TABLES)


def test_a_chain_names_the_unit_where_it_ends() -> None:
    catalog = parse_policy(policy_text()).catalog
    for name, chain in {"items": ["orders"], "notes": ["items", "orders"], "orders": []}.items():
        table = catalog.table(name)
        assert [step.name for step in catalog.chain(table)] == chain
        assert str(table.unit) == ("one person, by customer" if name == "orders" else "one person, by orders.customer")
    assert "items, one person, by orders.customer" in catalog.protects


@pytest.mark.parametrize(
    ("items", "notes", "problem"),
    [
        ("orders.customer via nothing", NOTES, "a column of table 'items'"),
        ("orders.customer via order_id", NOTES, "a column of table 'orders'"),
        ("orders.price via order_id = id", NOTES, "orders.customer via order_id"),
        ("nowhere.customer via order_id", NOTES, "tables of this dataset"),
        (ITEMS, "notes via item", "circle"),
        (ITEMS, "items.price via item", "orders.customer via item"),
        ("row", NOTES, "ends at a person"),
        ("public", NOTES, "ends at a person|no bound"),
    ],
)
def test_a_chain_that_leads_nowhere_is_refused(items: str, notes: str, problem: str) -> None:
    text = policy_text(items, notes)
    if items in ("row", "public"):
        text = text.replace("max_groups_per_unit = 2\nmax_rows_per_group = 3\ncolumns.order_id", "columns.order_id")
    with pytest.raises(InvalidParameter, match=problem):
        parse_policy(text)


def test_rows_count_for_the_people_that_their_keys_lead_to(shop: discreet.Dataset) -> None:
    """Items of orders of nobody, and of orders that do not exist, count nowhere."""
    with shop:
        sql = "SELECT COUNT(*) AS n, SUM(price) AS s FROM items"
        answer = shop.ask(sql, epsilon=100_000, rows=3)  # noise of scale 0.001
        assert [round(float(answer.column(name)[0])) for name in ("n", "s")] == [4, 10]
        answer = shop.ask("SELECT SUM(stars) AS s FROM notes JOIN items USING (item)", epsilon=100_000, rows=3)
        assert float(answer.column("s")[0]) == 12


@pytest.mark.parametrize(
    "request_",
    [
        Synthesis(table="items", epsilon=1),
        LinkedSynthesis(tables=["orders", "items"], epsilon=1),
        Training(table="items", target="price", epsilon=1, delta="1e-6", examples=10),
        FairnessAudit(table="items", predictions={}, label="price", group="item", epsilon=1),
    ],
    ids=lambda request: type(request).__name__,
)
def test_only_sql_follows_a_chain(shop: discreet.Dataset, request_: object) -> None:
    with shop, pytest.raises(InvalidParameter, match="reaches its unit by order_id → orders.id"):
        shop.plan(request_)  # type: ignore[call-overload]


def test_the_owner_reads_what_a_chain_means(shop: discreet.Dataset) -> None:
    from discreet.curator.policy import explain

    with shop:
        assert "Table notes (python): private; protects one person, by orders.customer." in explain(shop.policy)
