"""Tables of the same people: small ones for enumeration, and a clinic with strong dependences."""

import duckdb
import numpy as np
import pyarrow as pa

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.privacy.unit import Unit
from discreet.synthetic.fit.relaxed import Settings

ADD, CHANGE = "add or remove one", "change one"
QUICK = Settings(iterations=40)
CONNECTION = duckdb.connect(config={"threads": 1})

PEOPLE = Table(
    "people",
    [
        Column("id", "integer"),
        Column("a", "integer", lower=0, upper=1, nullable=False),
        Column("b", "text", values=["x", "y"]),
    ],
    unit=Unit("id"),
)
VISITS = Table(
    "visits",
    [Column("id", "integer"), Column("c", "boolean", nullable=False), Column("d", "integer", lower=0, upper=2)],
    unit=Unit("id"),
)
TESTS = Table("tests", [Column("id", "integer"), Column("e", "boolean")], unit=Unit("id"))
TYPES = {"integer": pa.int64(), "text": pa.string(), "boolean": pa.bool_()}


def catalog(neighbors=ADD, tables=(PEOPLE, VISITS, TESTS)):
    return Catalog("small", tables, neighbors=neighbors)


class Fetching:
    """An engine over rows in memory: for each table a list of tuples, the key first. It promises no order of rows."""

    dialect = "duckdb"

    def __init__(self, tables=(PEOPLE, VISITS, TESTS), **rows):
        for table in tables:  # of the engine that was made last
            CONNECTION.register(table.name, arrow(table, rows.get(table.name, [])))

    def fetch(self, sql, *, salt=""):
        found = CONNECTION.sql(sql, params={"salt": salt} if "$salt" in sql else None).to_arrow_table()
        return found.take(pa.array(range(found.num_rows - 1, -1, -1), pa.int64()))


def arrow(table, rows):
    listed = zip(*rows, strict=True) if rows else [()] * len(table.columns)
    pairs = zip(listed, table.columns, strict=True)
    return pa.table({one.name: pa.array(values, TYPES[str(one.kind)]) for values, one in pairs})


POLICY = """
[dataset]
name = "clinic"
neighbors = "{neighbors}"
[budget]
everyone = "all"
epsilon = {epsilon}
delta = "1e-5"
[tables.people]
source = "python"
unit = "id"
[tables.people.columns]
id = {{type = "{key}"}}
age = {{type = "integer", lower = 0, upper = 99, nullable = false}}
sex = {{type = "text", values = ["f", "m"], nullable = false}}
[tables.visits]
source = "python"
unit = "patient"
[tables.visits.columns]
patient = {{type = "{key}"}}
ward = {{type = "text", values = ["eye", "heart"], nullable = false}}
came = {{type = "integer", lower = 0, upper = 30}}
went = {{type = "integer", lower = 0, upper = 30}}
age = {{type = "integer", lower = 0, upper = 9}}
note = {{type = "text"}}
[tables.tests]
source = "python"
unit = "id"
[tables.tests.columns]
id = {{type = "{key}"}}
bad = {{type = "boolean", nullable = false}}
[tables.rooms]
unit = "public"
source = "python"
[tables.rooms.columns]
beds = {{type = "integer", lower = 0, upper = 9}}
[tables.staff]
source = "python"
unit = "row"
[tables.staff.columns]
age = {{type = "integer", lower = 0, upper = 99}}
"""
ASKED = {"people": {"bins": {"age": 10}}, "visits": {"rows_per_person": 4, "exclude": ["note", "age"], "bins": {"came": 6, "went": 6}}}  # fmt: skip


def clinic(people=3000, seed=1):
    """The old come often, and to the heart; the young seldom, and to the eye."""
    rng = np.random.default_rng(seed)
    age, sex = rng.integers(0, 100, people), rng.choice(["f", "m"], people)
    often = rng.binomial(4, np.where(age >= 50, 0.8, 0.1))
    who = np.repeat(np.arange(people), often)
    ward = np.where(rng.random(len(who)) < np.where(age[who] >= 50, 0.95, 0.05), "heart", "eye")
    came = rng.integers(0, 25, len(who))
    went = came + np.where(ward == "heart", rng.integers(3, 6, len(who)), rng.integers(0, 2, len(who)))
    tested = np.flatnonzero(sex == "f")
    return {
        "people": pa.table({"id": np.arange(people), "age": age, "sex": sex}),
        "visits": pa.table({"patient": who, "ward": ward, "came": came, "went": went, "age": who % 10, "note": ["secret"] * len(who)}),
        "tests": pa.table({"id": tested, "bad": age[tested] >= 50}),
        "rooms": pa.table({"beds": [1, 2]}),
        "staff": pa.table({"age": [30, 40]}),
    }  # fmt: skip


def opened(folder, tables=None, *, neighbors=ADD, key="integer", epsilon=20):
    path = folder / "clinic.toml"
    path.write_text(POLICY.format(neighbors=neighbors, key=key, epsilon=epsilon), encoding="utf-8")
    return discreet.open(path, tables=clinic() | (tables or {}))


def made(data, tables=ASKED, **more):
    return data.synthesize_linked(tables, **{"epsilon": 2, "settings": QUICK} | more)
