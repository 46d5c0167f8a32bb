"""Values of public columns: named by a policy, and known of public tables themselves."""

from datetime import date

import pyarrow as pa
import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import explain, parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InvalidParameter

POLICY = """
dataset = {{name = "h", neighbors = "add or remove one"}}
budget = {{epsilon = 100, everyone = "all"}}
[tables.visits]
source = "python"
unit = "row"
columns.region = {{type = "text", values = {values}}}
columns.day = {{type = "date"}}
[tables.regions]
source = "python"
unit = "public"
columns.name = {{type = "text"}}
columns.code = {{type = "integer"}}
columns.since = {{type = "date"}}
columns.area = {{type = "real"}}
"""
VISITS = pa.table({"region": ["north", "south", "nowhere"], "day": pa.array([None] * 3, pa.date32())})


def regions(names, **columns):
    size = len(names)
    columns = {"code": list(range(size)), "since": [date(1990, 1, 1 + i % 28) for i in range(size)]} | columns
    return pa.table({"name": pa.array(names, pa.string()), **columns, "area": [0.5] * size})


def opened(table, values='"regions.name"'):
    tables = {"visits": VISITS, "regions": table}
    return discreet.open(parse_policy(POLICY.format(values=values)), tables=tables, ledger=Ledger(MemoryStore()))


def test_values_of_a_public_column_are_groups_that_need_no_delta():
    with opened(regions(["south", "north", None, "north", "west"])) as data:
        column = data.catalog.table("visits").column("region")
        assert column.values == ("north", "south", "west")
        answer = data.ask("SELECT region, COUNT(*) AS n FROM visits GROUP BY region", epsilon=50)
    found = {row["region"]: row["n"] for row in answer.table.to_pylist()}
    assert found == {"north": 1, "south": 1, "west": 0, None: 0}


def test_what_is_true_of_a_public_table_is_known():
    with opened(regions(["south", "north", None])) as data:
        name, code, since, area = data.catalog.table("regions").columns
    assert (name.values, name.nullable) == (("north", "south"), True)
    assert (code.lower, code.upper, code.nullable, code.values) == (0, 2, False, (0, 1, 2))
    assert (since.earliest, since.latest) == (date(1990, 1, 1), date(1990, 1, 3))
    assert (area.lower, area.values) == (None, None)


def test_too_many_values_of_a_public_table_are_not_listed():
    with opened(regions([f"r{i}" for i in range(1001)]), '["north"]') as data:
        name, code, *_ = data.catalog.table("regions").columns
    assert name.values is None
    assert (code.values, code.upper) == (None, 1000)


def test_no_private_row_is_read_to_know_them():
    """Tables of Python are copied when they are read: the private one is not."""
    with opened(regions(["north"])) as data:
        assert [table for table, _ in data._curator.engine._waiting] == ["visits"]


@pytest.mark.parametrize("names", [[], [None], [f"r{i}" for i in range(1001)]])
def test_no_values_or_too_many_are_refused(names):
    with pytest.raises(InvalidParameter, match=r"\[tables.visits\] columns.region values.*1 to 1,000"):
        opened(
            regions(
                names, since=pa.array([None] * len(names), pa.date32()), code=pa.array([None] * len(names), pa.int64())
            )
        )


def test_values_that_cannot_be_declared_are_refused():
    with pytest.raises(InvalidParameter, match="a text of 1,001 characters"):
        opened(regions(["x" * 1001]))


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ('"nosuch.name"', "of a public table"),
        ('"regions.nosuch"', "of a public table"),
        ('"visits.region"', "of a public table"),
        ('"regions"', "of a public table"),
        ('"regions.code"', "a public column of type text"),
        ('"regions.area"', "a public column of type text"),
    ],
)
def test_references_that_name_nothing_public_are_refused(values, said):
    with pytest.raises(InvalidParameter, match=r"\[tables.visits\] columns.region values") as refusal:
        parse_policy(POLICY.format(values=values))
    assert said in str(refusal.value)


def test_a_policy_says_where_values_come_from():
    said = explain(parse_policy(POLICY.format(values='"regions.name"')))
    assert "region: text (groups by the values of regions.name cost nothing extra)" in said
