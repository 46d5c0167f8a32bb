"""Joins, chains of keys, steps over one person's rows: with its noise switched off, the answer is plain DuckDB's.

Bounds are wide enough here that nothing is bounded. What must not be joined is refused with its place.
"""

import random
from collections.abc import Iterator
from datetime import date, timedelta
from fractions import Fraction
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Link, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.plan import from_document, to_document
from discreet.errors import InternalError, InvalidParameter, InvalidQuery
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.mechanism import whole
from discreet.privacy.unit import Unit
from discreet.sql.algebra import conditions
from discreet.sql.algebra.expression import constant, field, work_on_a_row
from discreet.sql.algebra.kinds import Fixed
from discreet.sql.algebra.relations import Sum
from discreet.sql.algebra.rows import (
    Compute,
    Filter,
    Join,
    Part,
    PersonAggregate,
    Projection,
    PublicScan,
    Rows,
    Scan,
    Step,
    Window,
    WindowCall,
    at_most_one_row,
    nodes_of,
)
from discreet.sql.algebra.verification import verify_rows
from discreet.sql.plan.planner import Terms, plan

REGIONS = ["n", "s", "w"]
PRIVATE = {
    "customers": Table(
        "customers",
        [
            Column("id", "integer", nullable=False),
            Column("region", "text", values=REGIONS),
            Column("age", "integer", lower=0, upper=99),
        ],
        unit=Unit("id"),
        groups=50,
        rows=999,
    ),
    "orders": Table(
        "orders",
        [
            Column("oid", "integer"),
            Column("customer", "integer"),
            Column("day", "date"),
            Column("amount", "integer", lower=0, upper=100),
            Column("code", "text"),
        ],
        unit=Unit("customer"),
        groups=50,
        rows=999,
    ),
    "items": Table(
        "items",
        [Column("oid", "integer"), Column("item", "integer"), Column("price", "integer", lower=0, upper=20)],
        unit=Unit("orders.customer"),
        link=Link("oid", table="orders", key="oid"),
        groups=50,
        rows=999,
    ),
    "notes": Table(
        "notes",
        [Column("item", "integer"), Column("stars", "integer", lower=0, upper=5)],
        unit=Unit("orders.customer"),
        link=Link("item", table="items", key="item"),
        groups=50,
        rows=999,
    ),
    "rows": Table("rows", [Column("code", "text"), Column("x", "integer", lower=0, upper=9)], unit=Unit()),
}
CODES = Table("codes", [Column("code", "text"), Column("zone", "text", values=["hot", "cold"])], unit=None)
CATALOG = Catalog("shop", [*PRIVATE.values(), CODES], neighbors="add or remove one")


def tables(seed: int) -> dict[str, pa.Table]:
    draw = random.Random(seed)
    people = range(draw.randrange(3, 9))
    orders = [
        (
            oid,
            draw.choice([*people, None]),
            date(2024, 1, 1) + timedelta(days=draw.randrange(60)),
            draw.randrange(101),
            draw.choice(["a", "b", "c", "d", None]),
        )
        for oid in range(25)
    ]
    items = [(draw.randrange(28), item, draw.choice([*range(21), None])) for item in range(60)]
    notes = [(draw.randrange(65), draw.randrange(6)) for _ in range(50)]
    customers = [(p, draw.choice([*REGIONS, None]), draw.randrange(100)) for p in [*people, 77] if draw.random() < 0.9]
    data: dict[str, list[Any]] = {
        "customers": customers or [(1, "n", 3)],
        "orders": orders,
        "items": items,
        "notes": notes,
        "rows": [(draw.choice(["a", "b", "z", None]), draw.randrange(10)) for _ in range(20)],
        "codes": [("a", "hot"), ("b", "cold"), ("c", "hot"), ("e", "cold")],
    }
    kinds = {"integer": pa.int64(), "text": pa.string(), "date": pa.date32()}
    made = {}
    for name, listed in data.items():
        columns = CATALOG.table(name).columns
        arrays = [pa.array(c, kinds[column.kind]) for c, column in zip(zip(*listed, strict=True), columns, strict=True)]
        made[name] = pa.table(arrays, names=[column.name for column in columns])
    return made


DATA = {seed: tables(seed) for seed in range(3)}


@pytest.fixture(scope="module", params=sorted(DATA))
def seed(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def engine(seed: int) -> Iterator[DuckDBEngine]:
    with DuckDBEngine(CATALOG, DATA[seed]) as made:
        yield made


@pytest.fixture(scope="module")
def plain(seed: int) -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, table in DATA[seed].items():
            connection.register(f"raw_{name}", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM raw_{name}")
        # what has no person is left out of every answer
        connection.execute("DELETE FROM orders WHERE customer IS NULL")
        connection.execute("DELETE FROM items WHERE oid NOT IN (SELECT oid FROM orders)")
        connection.execute("DELETE FROM notes WHERE item NOT IN (SELECT item FROM items)")
        yield connection


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Geometric, "release", lambda _, value, **__: whole(value, "value"))


JOINS = [
    "SELECT COUNT(*) AS n, SUM(amount) AS s, AVG(age) AS m FROM customers JOIN orders ON id = customer",
    "SELECT region, COUNT(*) AS n FROM customers c JOIN orders o ON c.id = o.customer GROUP BY region",
    "SELECT COUNT(*) AS n FROM customers c, orders o WHERE c.id = o.customer AND amount > 20 AND age > 30",
    "SELECT COUNT(*) AS n FROM customers c JOIN orders o ON c.id = o.customer AND o.amount > c.age",
    "SELECT COUNT(*) AS n, COUNT(amount) AS k, SUM(amount) AS s FROM customers LEFT JOIN orders ON id = customer",
    "SELECT COUNT(*) AS n, COUNT(amount) AS k FROM customers LEFT JOIN orders ON id = customer AND amount > 50",
    "SELECT COUNT(*) AS n, COUNT(age) AS k FROM customers RIGHT JOIN orders ON id = customer",
    "SELECT COUNT(*) AS n, COUNT(age) AS k, COUNT(amount) AS j FROM customers FULL JOIN orders ON id = customer AND amount > 50",
    "SELECT COUNT(*) AS n, SUM(b) AS s FROM customers LEFT JOIN (SELECT customer, COALESCE(amount, 0) + 1 AS b FROM orders WHERE amount > 60) AS o ON id = customer",
    "SELECT COUNT(*) AS n FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.day < b.day",
    "SELECT COUNT(*) AS n FROM (SELECT id AS customer, age FROM customers) JOIN orders USING (customer) WHERE age < 60",
    "SELECT COUNT(*) AS n FROM (SELECT id AS customer, age FROM customers) NATURAL JOIN orders",
    "SELECT COUNT(*) AS n FROM (SELECT id AS customer, age FROM customers) FULL JOIN orders USING (customer) WHERE customer > 2",
    "SELECT COUNT(*) AS n, SUM(price) AS s FROM items",
    "SELECT COUNT(*) AS n, SUM(price) AS s FROM items JOIN orders ON items.oid = orders.oid WHERE amount > 10",
    "SELECT COUNT(*) AS n FROM orders JOIN items USING (oid) JOIN customers ON customers.id = orders.customer WHERE age > 20",
    "SELECT COUNT(*) AS n, SUM(stars) AS s FROM notes",
    "SELECT COUNT(*) AS n, SUM(stars * price) AS s FROM notes JOIN items ON notes.item = items.item",
    "SELECT COUNT(*) AS n FROM items a JOIN items b ON a.oid = b.oid AND a.item < b.item",
    "SELECT zone, COUNT(*) AS n FROM orders JOIN codes ON orders.code = codes.code GROUP BY zone",
    "SELECT zone, COUNT(*) AS n FROM orders LEFT JOIN codes USING (code) GROUP BY zone",
    "SELECT COUNT(*) AS n FROM codes JOIN orders USING (code)",
    "SELECT COUNT(*) AS n FROM codes c, orders o, customers p WHERE c.code = o.code AND p.id = o.customer AND zone = 'hot'",
    "SELECT COUNT(*) AS n, COUNT(zone) AS k FROM codes RIGHT JOIN orders ON orders.code = codes.code",
    "SELECT COUNT(*) AS n FROM orders, codes WHERE amount > 90",
    "SELECT COUNT(*) AS n FROM orders JOIN (SELECT code AS k FROM codes WHERE zone = 'hot') AS h ON h.k = orders.code",
    "SELECT zone, COUNT(*) AS n, SUM(x) AS s FROM rows JOIN codes ON rows.code = codes.code GROUP BY zone",
    "SELECT COUNT(*) AS n, COUNT(zone) AS k FROM rows LEFT JOIN codes ON rows.code = codes.code",
    "SELECT COUNT(*) AS n, SUM(x) AS s FROM (SELECT amount AS x, customer FROM orders UNION ALL SELECT age, id FROM customers)",
    "SELECT COUNT(*) AS n FROM customers JOIN orders ON id = customer WHERE LOWER(code) < region",
    "SELECT UPPER(LEFT(code, 1)) = 'A' AS k, COUNT(*) AS n FROM customers LEFT JOIN orders ON id = customer AND code NOT LIKE '%b%' GROUP BY k",
    "SELECT COUNT(*) AS n FROM orders, codes WHERE (orders.code = codes.code AND amount > 70) OR (orders.code = codes.code AND zone = 'hot' AND amount < 20)",
    "SELECT SUM(CASE WHEN codes.code LIKE 'a%' THEN amount ELSE 0 END) AS s, COUNT(*) AS n FROM orders JOIN codes ON orders.code = codes.code",
    "SELECT SUM(k) AS s FROM (SELECT customer, COUNT(*) FILTER (WHERE LOWER(code) LIKE '%a%' OR region = 'n') AS k FROM orders JOIN customers ON id = customer GROUP BY customer)",
    "WITH o AS (SELECT customer, amount FROM orders WHERE amount > 30) SELECT COUNT(*) AS n FROM o AS a JOIN o AS b ON a.customer = b.customer",
]
SEMI_JOINS = [
    "SELECT COUNT(*) AS n FROM customers WHERE id IN (SELECT customer FROM orders WHERE amount > 60)",
    "SELECT COUNT(*) AS n FROM customers WHERE id NOT IN (SELECT customer FROM orders WHERE amount > 60)",
    "SELECT COUNT(*) AS n FROM orders WHERE oid IN (SELECT oid FROM items WHERE price > 10)",
    "SELECT COUNT(*) AS n FROM items WHERE oid IN (SELECT DISTINCT oid FROM orders WHERE amount > 50) AND price > 2",
    "SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id AND o.amount > c.age)",
    "SELECT COUNT(*) AS n FROM customers c WHERE NOT EXISTS (SELECT * FROM orders WHERE customer = c.id AND amount > 20)",
    "SELECT COUNT(*) AS n FROM orders WHERE code IN (SELECT code FROM codes WHERE zone = 'hot')",
    "SELECT COUNT(*) AS n FROM orders WHERE code NOT IN (SELECT code FROM codes WHERE zone = 'hot')",
    "SELECT COUNT(*) AS n FROM rows WHERE code IN (SELECT code FROM codes)",
    "SELECT COUNT(*) AS n FROM orders WHERE oid NOT IN (SELECT oid FROM items WHERE price > 10)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id FROM customers) LEFT JOIN orders ON id = customer WHERE oid NOT IN (SELECT oid FROM items)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT id FROM customers) LEFT JOIN orders ON id = customer WHERE NOT oid IN (SELECT oid FROM items WHERE price > 3)",
    "SELECT COUNT(*) AS n FROM customers c JOIN orders o ON c.id = o.customer WHERE EXISTS (SELECT 1 FROM items WHERE items.oid = o.oid)",
    "SELECT COUNT(*) AS n FROM customers c WHERE EXISTS (SELECT 1 FROM orders o JOIN items i ON i.oid = o.oid WHERE o.customer = c.id AND i.price > 15)",
]
STEPS = [
    "SELECT COUNT(*) AS n, AVG(k) AS m, SUM(k) AS s FROM (SELECT customer, COUNT(*) AS k FROM orders GROUP BY customer)",
    "SELECT COUNT(*) AS n FROM (SELECT customer, COUNT(*) AS k FROM orders GROUP BY customer) WHERE k > 3",
    "SELECT COUNT(*) AS n FROM (SELECT customer FROM orders GROUP BY customer HAVING COUNT(*) > 2 AND MAX(amount) > 50)",
    "SELECT AVG(s) AS m FROM (SELECT customer, SUM(amount) AS s FROM orders GROUP BY customer)",
    "SELECT SUM(m) AS m FROM (SELECT customer, MAX(amount) - MIN(amount) AS m FROM orders GROUP BY 1)",
    "SELECT COUNT(*) AS n FROM (SELECT customer, AVG(amount) AS m FROM orders GROUP BY customer) WHERE m > 40.5",
    "SELECT SUM(k) AS s FROM (SELECT customer, COUNT(DISTINCT code) AS k FROM orders GROUP BY customer)",
    "SELECT SUM(k) AS s FROM (SELECT customer, COUNT(*) FILTER (WHERE amount > 50) AS k FROM orders GROUP BY customer)",
    "SELECT COUNT(*) AS n, SUM(k) AS s FROM (SELECT customer, code, COUNT(*) AS k FROM orders GROUP BY customer, code)",
    "SELECT COUNT(*) AS n FROM (SELECT DISTINCT customer, code FROM orders)",
    "SELECT COUNT(DISTINCT customer) AS n FROM (SELECT DISTINCT customer, code FROM orders)",
    "SELECT SUM(amount) AS s, COUNT(*) AS n FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day, oid) AS k FROM orders) WHERE k = 1",
    "SELECT SUM(amount) AS s FROM (SELECT customer, amount FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY day DESC, oid) = 1)",
    "SELECT COUNT(*) AS n FROM (SELECT amount, LAG(amount) OVER (PARTITION BY customer ORDER BY day, oid) AS before FROM orders) WHERE amount > before",
    "SELECT COUNT(*) AS n FROM (SELECT amount, COUNT(*) OVER (PARTITION BY customer) AS k, MAX(amount) OVER (PARTITION BY customer) AS m FROM orders) WHERE k > 2 AND amount = m",
    "SELECT region, AVG(k) AS m FROM customers JOIN (SELECT customer, COUNT(*) AS k FROM orders GROUP BY customer) AS o ON o.customer = id GROUP BY region",
    "SELECT COUNT(*) AS n, SUM(k) AS s FROM customers LEFT JOIN (SELECT customer, LEAST(COUNT(*), 5) AS k FROM orders GROUP BY customer) AS o ON o.customer = id",
    "WITH f AS (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) SELECT COUNT(*) AS n FROM orders JOIN f USING (customer) WHERE day > first",
    "WITH f AS (SELECT customer, MIN(day) AS first FROM orders GROUP BY customer) SELECT COUNT(DISTINCT f.customer) AS n FROM f JOIN orders o ON o.customer = f.customer WHERE o.day > f.first",
    "SELECT COUNT(*) AS n, SUM(k) AS s FROM (SELECT oid, COUNT(*) AS k FROM items GROUP BY oid)",
    "SELECT COUNT(*) AS n FROM (SELECT oid FROM items GROUP BY oid HAVING SUM(price) > 20)",
    "SELECT COUNT(*) AS n FROM orders WHERE oid IN (SELECT oid FROM items GROUP BY oid HAVING COUNT(*) > 2)",
    "SELECT COUNT(*) AS n FROM orders o JOIN (SELECT oid, SUM(price) AS s FROM items GROUP BY oid) AS i ON i.oid = o.oid WHERE s < o.amount",
    "SELECT SUM(price) AS s FROM (SELECT price, ROW_NUMBER() OVER (PARTITION BY oid ORDER BY item) AS k FROM items) WHERE k = 1",
    "SELECT AVG(r) AS m FROM (SELECT customer, LEAST(COUNT(*), 9) * 2 AS r FROM orders GROUP BY customer)",
    "SELECT COUNT(*) AS n FROM (SELECT customer, COUNT(*) FILTER (WHERE amount > 50) / COUNT(*) AS r FROM orders GROUP BY customer) WHERE r > 0.4",
    "SELECT r > 0.4 AS k, COUNT(*) AS n FROM (SELECT customer, COUNT(*) FILTER (WHERE amount > 50) / COUNT(*) AS r FROM orders GROUP BY customer) GROUP BY 1",
    "SELECT SUM(k) AS s FROM (SELECT customer, COUNT(*) + 1 AS k FROM orders GROUP BY customer)",
    "SELECT AVG(COALESCE(k, 0)) AS m, SUM(COALESCE(s, 0)) AS s FROM customers LEFT JOIN (SELECT customer, COUNT(*) AS k, SUM(amount) AS s FROM orders GROUP BY customer) AS o ON o.customer = id",
    "SELECT AVG(k * 1.5) AS m, SUM(k + d) AS s, AVG(CASE WHEN k > 3 THEN k ELSE 0 END) AS c FROM (SELECT customer, COUNT(*) AS k, COUNT(DISTINCT code) AS d FROM orders GROUP BY customer)",
]


def rows_of(engine: DuckDBEngine, sql: str) -> list[tuple[Any, ...]]:
    made = plan([sql], CATALOG, Terms(epsilon=1))
    assert made.verify(CATALOG) == made.loss
    ((table),) = [made.finish(made.run(_Salted(engine), None), None, engine)[0].table]  # type: ignore[arg-type]
    return [tuple(row.values()) for row in table.to_pylist()]


class _Salted:
    def __init__(self, engine: DuckDBEngine) -> None:
        self.engine, self.dialect, self.version = engine, engine.dialect, engine.version

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        return self.engine.fetch(sql, salt="00")


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("sql", [*JOINS, *SEMI_JOINS, *STEPS])
def test_without_noise_it_is_what_duckdb_says(engine: DuckDBEngine, plain: duckdb.DuckDBPyConnection, sql: str) -> None:
    mine = [row for row in rows_of(engine, sql) if any(isinstance(v, float | int) and v for v in row)]
    theirs = [tuple(0 if v is None and i else v for i, v in enumerate(row)) for row in plain.sql(sql).fetchall()]
    theirs = [row for row in theirs if any(isinstance(v, float | int) and v for v in row)]
    shown = sorted((tuple(_number(v) for v in row) for row in mine), key=repr)
    assert shown == sorted((tuple(_number(v) for v in row) for row in theirs), key=repr)


def _number(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, int | float) else value


REFUSED = {
    "SELECT COUNT(*) FROM customers JOIN orders ON age = amount": "tie rows of one person",
    "SELECT COUNT(*) FROM customers, orders": "tie rows of one person",
    "SELECT COUNT(*) FROM customers JOIN orders ON id = oid": "tie rows of one person",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.code = b.code": "tie rows of one person",
    "SELECT COUNT(*) FROM orders WHERE code IN (SELECT code FROM orders)": "tie rows of one person",
    "SELECT COUNT(*) FROM orders o WHERE EXISTS (SELECT 1 FROM customers WHERE age > o.amount)": "tie rows of one person",
    "SELECT COUNT(*) FROM rows JOIN orders ON rows.code = orders.code": "units of their own",
    "SELECT COUNT(*) FROM rows JOIN codes ON rows.x > 3": "one public row only",
    "SELECT COUNT(*) FROM codes LEFT JOIN orders USING (code)": "rows of a public table that nobody has",
    "SELECT COUNT(*) FROM orders FULL JOIN codes USING (code)": "rows of a public table that nobody has",
    "SELECT COUNT(*) FROM customers JOIN (SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer, code HAVING COUNT(*) > 1) o ON o.n = id": "tie rows",
    "SELECT customer, COUNT(*) FROM orders GROUP BY customer": "would name people",
    "SELECT * FROM orders": "private rows",
    "SELECT customer FROM orders UNION ALL SELECT id FROM customers": "private rows",
    "SELECT COUNT(*) FROM (SELECT DISTINCT code FROM orders)": "DISTINCT over rows of several people",
    "SELECT COUNT(*) FROM (SELECT amount, ROW_NUMBER() OVER (ORDER BY day) AS k FROM orders) WHERE k = 1": "not one person's",
    "SELECT COUNT(*) FROM (SELECT amount, ROW_NUMBER() OVER (PARTITION BY code ORDER BY day) AS k FROM orders)": "not one person's",
    "SELECT COUNT(*) FROM (SELECT amount, SUM(amount) OVER (PARTITION BY customer ORDER BY day ROWS 2 PRECEDING) AS k FROM orders)": "frame",
    "SELECT COUNT(*) FROM (SELECT customer, amount FROM orders GROUP BY customer)": "neither grouped by nor aggregated",
    "SELECT COUNT(*) FROM (SELECT customer, MEDIAN(amount) AS m FROM orders GROUP BY customer)": "not supported",
    "SELECT COUNT(*) FROM customers c JOIN orders o ON c.id = o.customer JOIN orders p ON p.day = o.day": "tie rows",
    "SELECT COUNT(*) FROM orders JOIN customers ON customer = id WHERE oid = 3 AND code = codes.code": "no column",
    "SELECT COUNT(*) FROM orders a JOIN orders b ON a.customer = b.customer WHERE amount > 3": "more than one table",
    "SELECT COUNT(*) FROM orders WHERE amount > (SELECT AVG(amount) FROM orders)": "released value",
    "SELECT COUNT(*) FROM orders WHERE customer IN (SELECT customer FROM orders GROUP BY code)": "released values",
    "SELECT COUNT(*) FROM orders JOIN (SELECT code, COUNT(*) AS n FROM orders GROUP BY code) USING (code)": "released values",
    "SELECT COUNT(*) FROM orders SEMI JOIN customers ON id = customer": "SEMI",
    "SELECT COUNT(*) FROM orders ASOF JOIN customers ON id = customer": "ASOF",
    "SELECT COUNT(*) FROM (SELECT oid FROM orders UNION SELECT id FROM customers)": "UNION",
    "SELECT SUM(k) FROM (SELECT amount, RANK() OVER (PARTITION BY customer) AS k FROM orders)": "without ORDER BY",
}


@pytest.mark.parametrize("sql", REFUSED)
def test_what_would_tie_people_together_is_refused_with_its_place(sql: str) -> None:
    with pytest.raises(InvalidQuery, match=REFUSED[sql]):
        plan([sql], CATALOG, Terms(epsilon=1))


@pytest.mark.parametrize(
    ("link", "unit", "expected"),
    [
        (Link("oid", table="nowhere", key="oid"), "orders.customer", "tables of this dataset"),
        (Link("oid", table="codes", key="code"), "orders.customer", "ends at a person"),
        (Link("oid", table="rows", key="x"), "orders.customer", "ends at a person"),
        (Link("oid", table="orders", key="code"), "orders.customer", "same type"),
        (Link("oid", table="orders", key="oid"), "orders.oid", "where the chain ends"),
        (Link("oid", table="items", key="oid"), "orders.customer", "circle"),
    ],
)
def test_a_chain_that_does_not_end_at_a_person_is_refused(link: Link, unit: str, expected: str) -> None:
    items = Table("items", PRIVATE["items"].columns, unit=Unit(unit), link=link)
    others = [table for table in (*PRIVATE.values(), CODES) if table.name not in ("items", "notes")]
    with pytest.raises(InvalidParameter, match=expected):
        Catalog("shop", [*others, items], neighbors="change one")


def _rows(sql: str) -> Rows:
    (release,) = plan([sql], CATALOG, Terms(epsilon=1)).releases
    return release.group.source


ORDERS, ROWS, PUBLIC_CODES = Scan(PRIVATE["orders"], 0), Scan(PRIVATE["rows"], 0), PublicScan(CODES, 1)
AMOUNT, CODE = field(PRIVATE["orders"].column("amount")), field(CODES.column("code"), 1)
TAMPERED: dict[str, tuple[Rows, str]] = {
    "another table": (Scan(Table("orders", PRIVATE["orders"].columns, unit=Unit("oid")), 0), "another table"),
    "a private table as public": (Join(ORDERS, PublicScan(PRIVATE["customers"], 1), "inner", None), "another table"),
    "a public table as private": (Scan(CODES, 0), "another table"),
    "no chain": (Scan(PRIVATE["items"], 0, ()), "another chain"),
    "another chain": (Scan(PRIVATE["items"], 0, (PRIVATE["customers"],)), "another chain"),
    "one number twice": (Join(ORDERS, Scan(PRIVATE["customers"], 0), "inner", None), "same number"),
    "rows of nobody are kept": (Join(ORDERS, PUBLIC_CODES, "full", None), "nobody's"),
    "rows of their own meet": (Join(ROWS, Scan(PRIVATE["rows"], 1), "inner", None), "nothing ties"),
    "rows of their own meet people": (Join(ROWS, Scan(PRIVATE["orders"], 1), "inner", None), "different units"),
    "one row becomes several": (Join(ROWS, PUBLIC_CODES, "inner", None), "several of one"),
    "a lookup by what is not compared": (Join(ROWS, PUBLIC_CODES, "inner", None, (CODE,)), "does not compare"),
    "steps over rows of their own": (Step(ROWS, (), (PersonAggregate("count", None),), 1), "unit is a row"),
    "a condition that is a number": (Filter(ORDERS, AMOUNT), "neither true nor false"),
    "a column of nothing": (Filter(ORDERS, conditions.compare("equal", CODE, constant("a"))), "another column"),
    "a step over what is not there": (Step(ORDERS, (CODE,), (), 2), "another column"),
    "a sum without bounds": (Step(ORDERS, (), (PersonAggregate("sum", field(PRIVATE["orders"].column("oid"))),), 1), "without bounds"),
    "kinds that differ": (Projection((Part(ORDERS, (AMOUNT,)), Part(Scan(PRIVATE["orders"], 1), (field(PRIVATE["orders"].column("code"), 1),))), 2), "different kinds"),
    "a column computed from what is not there": (Compute(ORDERS, (CODE,), 2), "another column"),
    "a window over what is not there": (Window(ORDERS, (WindowCall("lag", CODE, (), ()),), 2), "another column"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_the_gate_derives_rows_again(name: str) -> None:
    """A build that joins, chains or steps otherwise than the catalog allows is refused before anything is charged."""
    rows, problem = TAMPERED[name]
    with pytest.raises(InternalError, match=problem):
        verify_rows(rows, CATALOG)


@pytest.mark.parametrize("sql", [JOINS[7], JOINS[26], SEMI_JOINS[4], STEPS[13], STEPS[17]])
def test_relations_are_read_back_from_their_documents(sql: str) -> None:
    rows = _rows(sql)
    assert from_document(to_document(rows)) == rows
    verify_rows(from_document(to_document(rows)), CATALOG)


def test_work_above_a_join_is_limited() -> None:
    sql = "SELECT COUNT(*) FROM customers JOIN orders ON id = customer WHERE LOWER(code || region) = 'a'"
    with pytest.raises(InvalidQuery, match="µs on a row that a join or step has chosen"):
        plan([sql], CATALOG, Terms(epsilon=1))
    plan([sql.replace("LOWER(code || region)", "LOWER(LEFT(code, 9)) || LEFT(region, 9)")], CATALOG, Terms(epsilon=1))
    (release,) = plan([sql.replace("code || region", "code")], CATALOG, Terms(epsilon=1)).releases
    assert not any(map(work_on_a_row, release.aggregate.parts_above_scans))  # the condition is below the join


def test_dear_operations_on_one_table_are_computed_where_it_is_read() -> None:
    sql = "SELECT LOWER(code) = region AS k, COUNT(*) FROM customers JOIN orders ON id = customer GROUP BY k"
    (release,) = plan([sql], CATALOG, Terms(epsilon=1)).releases
    (computed,) = [node for node in nodes_of(release.group.source) if isinstance(node, Compute)]
    assert isinstance(computed.source, Scan)
    assert [str(value) for value in computed.columns] == ["lower(code)"]


def test_one_row_a_person_needs_no_bounds() -> None:
    for sql in (STEPS[0], STEPS[11], STEPS[12]):
        (release,) = plan([sql], CATALOG, Terms(epsilon=1)).releases
        assert (release.aggregate.source.groups, release.aggregate.source.rows) == (1, 1), sql
    for sql in (STEPS[8], STEPS[13], STEPS[18]):
        (release,) = plan([sql], CATALOG, Terms(epsilon=1)).releases
        assert not at_most_one_row(release.group.source), sql


EACH = "(SELECT customer, COUNT(*) AS k, SUM(amount) AS s FROM orders GROUP BY customer)"


def test_ranks_of_a_count_per_person_are_those_of_duckdb(
    engine: DuckDBEngine, plain: duckdb.DuckDBPyConnection
) -> None:
    wanted = "QUANTILE_DISC(k, 0.31), QUANTILE_DISC(k, 0.77), QUANTILE_DISC(s, 0.58)"
    made = plan([f"SELECT {wanted} FROM {EACH}"], CATALOG, Terms(epsilon=10**5))
    answer = made.finish(made.run(_Salted(engine), None), None, engine)[0]  # type: ignore[arg-type]
    assert [tuple(row.values()) for row in answer.table.to_pylist()] == plain.sql(
        f"SELECT {wanted} FROM {EACH}"
    ).fetchall()


@pytest.mark.parametrize(
    "wanted",
    ["SUM(k)", "AVG(k)", "MEDIAN(k)", "QUANTILE_CONT(k, [0.1, 0.9])", "MIN(k)", "MAX(k)", "HISTOGRAM(k, [1, 3])",
     "MODE(k)", "APPROX_TOP_K(k, 2)",
     "VARIANCE(k)", "STDDEV_POP(k)", "CORR(k, s)", "PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY k)"],
)  # fmt: skip
def test_every_aggregate_clamps_a_count_per_person_and_says_so(wanted: str) -> None:
    made = plan([f"SELECT {wanted} FROM {EACH}"], CATALOG, Terms(epsilon=1, rows=7))
    assert made.verify(CATALOG) == made.loss
    (release,) = made.releases
    values = [*release.aggregate.distributions, *(m for m in release.aggregate.measures if isinstance(m, Sum))]
    assert any(value.value.kind == Fixed(Fraction(1), 1, 7) for value in values)
    assert "k of a person is clamped to 1 to 7" in str(made.explain())
