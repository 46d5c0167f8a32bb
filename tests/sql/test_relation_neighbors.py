"""Joins, chains of keys and steps on every neighbor of tiny databases: the declared sensitivity holds, and is attained.

A database is the rows of *others* and the rows of one person, in several tables. All contents of that person (of a
pool) are tried, under both relations. The others' rows lie in another order whenever the person is there: what depends
on where rows lie, and not on what they hold, shows as a difference that nobody may make.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, combinations, product
from typing import Any

import duckdb
import pytest

from discreet.curator.catalog import Catalog, Column, Link, Table
from discreet.curator.engines.duckdb import _read_all
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.algebra.relations import sensitivity_of
from discreet.sql.algebra.rows import Exists, Join, Step, nodes_of
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release import private_sql
from discreet.sql.release.release import Release

TYPES = {"integer": "BIGINT", "text": "VARCHAR", "date": "DATE"}
PEOPLE = Table("people", [Column("id", "integer"), Column("age", "integer", lower=0, upper=3)], unit=Unit("id"))
ORDERS = Table(
    "orders",
    [
        Column("oid", "integer"),
        Column("who", "integer"),
        Column("day", "integer", lower=0, upper=3),
        Column("x", "integer", lower=-1, upper=2),
        Column("g", "text", values=["a", "b"]),
    ],
    unit=Unit("who"),
)
ITEMS = Table(
    "items",
    [Column("oid", "integer"), Column("p", "integer", lower=0, upper=2)],
    unit=Unit("orders.who"),
    link=Link("oid", table="orders", key="oid"),
)
CODES = Table("codes", [Column("g", "text"), Column("z", "text", values=["hot", "cold"])], unit=None)
TABLES = (PEOPLE, ORDERS, ITEMS, CODES)
ADD, CHANGE = Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE

Rows = tuple[tuple[Any, ...], ...]
Content = tuple[Rows, Rows, Rows]
"""The rows of people, orders and items."""
Cells = dict[Any, tuple[int, ...]]
"""The measures of each group."""

OTHERS: tuple[Content, ...] = (
    ((), (), ()),
    (
        ((2, 1), (3, 3)),
        ((10, 2, 1, 2, "a"), (11, 2, 1, -1, "b"), (12, 2, 1, 2, "b"), (13, 3, 0, 1, None), (10, 3, 2, 2, "a")),
        ((10, 1), (10, 2), (12, 0), (99, 1)),
    ),
)
PUBLIC = (("a", "hot"), ("a", "cold"), ("b", "cold"), (None, "hot"))


def subsets(rows: Sequence[Any], most: int) -> list[tuple[Any, ...]]:
    return list(chain.from_iterable(combinations(rows, size) for size in range(most + 1)))


@cache
def contents() -> tuple[Content, ...]:
    """What the person may have: nothing, or rows of their own, with order numbers that others have too."""
    people = subsets([(1, 2), (1, 9)], 2)
    orders = subsets([(1, 1, 0, 9, "a"), (2, 1, 0, -9, "a"), (10, 1, 1, 2, "b"), (3, 1, 0, None, "z")], 3)
    found = [(p, o, i) for p, o in product(people, orders) for i in subsets([(1, 2), (1, 0), (2, 9)], 2)]
    usable = [c for c in found if all(item[0] in {order[0] for order in c[1]} for item in c[2])]
    return (*usable[:: len(usable) // 45], (((1, 2),), (), ()))


@dataclass(frozen=True)
class Form:
    """A question, and the relations under which its bound is attained by some neighbors."""

    sql: str
    tight: tuple[Neighbors, ...] = (ADD,)
    bounds: tuple[int, int] = (1, 2)


FORMS = [
    Form("SELECT COUNT(*) FROM people JOIN orders ON id = who"),
    Form("SELECT g, COUNT(*), SUM(x) FROM people JOIN orders ON id = who GROUP BY g", bounds=(2, 1)),
    Form("SELECT COUNT(*), SUM(x) FROM people LEFT JOIN orders ON id = who AND x > age"),
    Form("SELECT COUNT(*), COUNT(age) FROM people RIGHT JOIN orders ON id = who"),
    Form("SELECT COUNT(*) FROM people FULL JOIN orders ON id = who AND day = 0"),
    Form("SELECT COUNT(*) FROM orders a JOIN orders b ON a.who = b.who AND a.x < b.x"),
    Form("SELECT COUNT(*), SUM(p) FROM items"),
    Form("SELECT COUNT(*), SUM(x) FROM items JOIN orders ON items.oid = orders.oid"),
    Form("SELECT COUNT(*) FROM items i JOIN orders o ON i.oid = o.oid JOIN people ON who = id"),
    Form("SELECT z, COUNT(*) FROM orders JOIN codes ON orders.g = codes.g GROUP BY z", bounds=(2, 2)),
    Form("SELECT z, COUNT(*) FROM orders LEFT JOIN codes USING (g) GROUP BY z", bounds=(1, 2)),
    Form("SELECT COUNT(*) FROM orders, codes", bounds=(1, 4)),
    Form("SELECT COUNT(DISTINCT id) FROM people WHERE id IN (SELECT who FROM orders WHERE x > 0)", tight=(ADD, CHANGE)),
    Form("SELECT COUNT(*) FROM people WHERE id NOT IN (SELECT who FROM orders)", bounds=(1, 1)),
    Form("SELECT COUNT(*) FROM orders WHERE oid IN (SELECT oid FROM items WHERE p > 0)"),
    Form("SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.oid = o.oid AND p > x)"),
    Form("SELECT COUNT(*) FROM orders WHERE g IN (SELECT g FROM codes WHERE z = 'hot')"),
    Form("SELECT COUNT(*), SUM(n) FROM (SELECT who, COUNT(*) AS n FROM orders GROUP BY who)", tight=(ADD, CHANGE)),
    Form("SELECT COUNT(*) FROM (SELECT who, SUM(x) AS s FROM orders GROUP BY who HAVING COUNT(*) > 1) WHERE s > 0"),
    Form("SELECT SUM(m), AVG(t) FROM (SELECT who, AVG(x) AS m, MIN(x) AS t FROM orders GROUP BY who)", tight=()),
    Form("SELECT g, COUNT(*) FROM (SELECT DISTINCT who, g FROM orders) GROUP BY g", bounds=(2, 1)),
    Form("SELECT SUM(x) FROM (SELECT x, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day) AS k FROM orders) WHERE k = 1"),
    Form("SELECT g, COUNT(*) FROM (SELECT g, ROW_NUMBER() OVER (PARTITION BY who ORDER BY day DESC) AS k FROM orders) WHERE k = 1 GROUP BY g"),
    Form("SELECT SUM(b) FROM (SELECT LAG(x) OVER (PARTITION BY who ORDER BY day) AS b, x FROM orders) WHERE x > b", tight=()),
    Form("SELECT COUNT(*) FROM (SELECT x, RANK() OVER (PARTITION BY who ORDER BY day) AS k, MAX(x) OVER (PARTITION BY who) AS m FROM orders) WHERE k = 1 AND x = m", bounds=(1, 1)),
    Form("SELECT SUM(n) FROM people JOIN (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS o ON o.who = id"),
    Form("SELECT COUNT(*), SUM(n) FROM people LEFT JOIN (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS o ON o.who = id"),
    Form("SELECT SUM(n) FROM (SELECT o.who, COUNT(*) AS n FROM people LEFT JOIN (SELECT who, day FROM orders) AS o ON o.who = id AND day + 2 = age GROUP BY id, o.who)", bounds=(1, 1), tight=()),
    Form("SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS a FULL JOIN (SELECT who, MAX(x) AS m FROM orders GROUP BY who) AS b ON a.who = b.who AND n < m", bounds=(1, 1)),
    Form("SELECT COUNT(*) FROM (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS a FULL JOIN (SELECT id FROM people GROUP BY id) AS b ON a.who = b.id", bounds=(1, 1), tight=(ADD, CHANGE)),
    Form("SELECT COUNT(*), SUM(n) FROM (SELECT oid, COUNT(*) AS n FROM items GROUP BY oid)", bounds=(1, 1)),
    Form("SELECT COUNT(*) FROM orders WHERE oid IN (SELECT oid FROM items GROUP BY oid HAVING SUM(p) > 1)"),
    Form("SELECT SUM(LEAST(k, 2)) FROM (SELECT ROW_NUMBER() OVER (PARTITION BY oid ORDER BY p) AS k FROM items) WHERE k < 3", tight=()),
    Form("SELECT g, COUNT(*), SUM(x) FROM people JOIN orders ON id = who WHERE g IN ('a', 'c') GROUP BY g"),
    Form("SELECT day, COUNT(*) FROM orders WHERE day >= 1 AND day < 3 GROUP BY day", bounds=(2, 1), tight=()),
    Form("SELECT COUNT(DISTINCT x) FROM people JOIN orders ON id = who", bounds=(1, 1)),
    Form("SELECT g, COUNT(DISTINCT p), COUNT(DISTINCT who) FROM items JOIN orders USING (oid) GROUP BY g", bounds=(2, 2)),
    Form("SELECT COUNT(*), SUM(v) FROM (SELECT who, x AS v FROM orders UNION ALL SELECT id, age FROM people)"),
    Form("SELECT COUNT(*), SUM(p * x) FROM items NATURAL JOIN orders"),
    Form("SELECT COUNT(*) FROM people WHERE EXISTS (SELECT 1 FROM orders o WHERE o.who = id AND NOT EXISTS (SELECT 1 FROM items i WHERE i.oid = o.oid AND p > 0))"),
    Form("WITH o AS (SELECT who, x FROM orders WHERE day = 0) SELECT COUNT(*), SUM(a.x) FROM o AS a LEFT JOIN o AS b ON a.who = b.who AND a.x <> b.x"),
    Form("SELECT COUNT(*), SUM(x) FROM people, orders WHERE id = who AND x >= age - 1"),
    Form("SELECT COUNT(*), COUNT(m) FROM orders FULL JOIN (SELECT who, MAX(x) AS m FROM orders WHERE day = 1 GROUP BY who) AS b USING (who)", tight=(ADD, CHANGE)),
    Form("SELECT z, COUNT(*) FROM codes RIGHT JOIN orders USING (g) GROUP BY z", bounds=(2, 1), tight=(ADD, CHANGE)),
    Form("SELECT COUNT(*) FROM orders WHERE g NOT IN (SELECT g FROM codes WHERE z = 'cold')", tight=()),
    Form("SELECT COUNT(*) FROM orders o WHERE NOT EXISTS (SELECT 1 FROM codes c WHERE c.g = o.g AND z = 'hot')"),
    Form("SELECT COUNT(*), SUM(age) FROM people WHERE id NOT IN (SELECT who FROM orders WHERE x > 0)", bounds=(1, 1)),
    Form("SELECT COUNT(*) FROM orders o LEFT JOIN items i ON i.oid = o.oid WHERE i.oid IS NULL"),
    Form("SELECT COUNT(*) FROM (SELECT DISTINCT id FROM people) LEFT JOIN orders ON id = who WHERE oid NOT IN (SELECT oid FROM items WHERE p > 0)"),
    Form("SELECT SUM(s), COUNT(*) FROM (SELECT who, COUNT(*) FILTER (WHERE g = 'a') / COUNT(*) AS s FROM orders GROUP BY who) WHERE s > 0.3", tight=()),
    Form("SELECT COUNT(*) FROM items i JOIN items j ON i.oid = j.oid AND i.p < j.p"),
    Form("SELECT SUM(LEAST(GREATEST(s, 0), 3)) FROM (SELECT SUM(x) OVER (PARTITION BY who ORDER BY day) AS s FROM orders)", tight=()),
    Form("SELECT COUNT(*) FROM (SELECT DENSE_RANK() OVER (PARTITION BY who ORDER BY x DESC) AS k, COUNT(*) OVER (PARTITION BY who, g) AS c FROM orders) WHERE k < 3 AND c < 2"),
    Form("SELECT SUM(b) FROM (SELECT LEAD(x) OVER (PARTITION BY who ORDER BY day, g) AS b FROM orders)", tight=()),
    Form("SELECT g, SUM(x) FROM (SELECT * FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY who ORDER BY day, x) = 1) GROUP BY g", bounds=(1, 1), tight=(ADD, CHANGE)),
    Form("SELECT SUM(n), COUNT(*) FROM (SELECT w, COUNT(*) AS n FROM (SELECT who AS w, x FROM orders UNION ALL SELECT id, age FROM people) GROUP BY w)"),
    Form("SELECT k, COUNT(*) FROM (SELECT id, 'p' AS k FROM people UNION ALL SELECT who, 'o' FROM orders UNION ALL SELECT who, 'i' FROM items JOIN orders USING (oid)) GROUP BY k", bounds=(2, 1), tight=(ADD, CHANGE)),
    Form("SELECT SUM(d), SUM(f) FROM (SELECT who, COUNT(DISTINCT x) AS d, COUNT(*) FILTER (WHERE g = 'a') AS f FROM orders GROUP BY who)"),
    Form("SELECT AVG(s) FROM (SELECT who, AVG(CASE WHEN g = 'a' THEN 1 ELSE 0 END) AS s FROM orders GROUP BY who HAVING COUNT(*) > 1)", bounds=(1, 1)),
    Form("SELECT g, SUM(n), COUNT(DISTINCT who) FROM (SELECT who, g, COUNT(*) AS n FROM orders GROUP BY who, g) GROUP BY g", bounds=(2, 1)),
    Form("WITH f AS (SELECT who, MIN(day) AS first FROM orders GROUP BY who) SELECT first, o.day - first AS age, COUNT(DISTINCT o.who), COUNT(*) FROM f JOIN orders o ON f.who = o.who GROUP BY 1, 2", bounds=(2, 1)),
    Form("SELECT VAR_POP(x), CORR(x, age), COVAR_POP(x, age) FROM people JOIN orders ON id = who"),
    Form("SELECT g, REGR_SLOPE(x, p), STDDEV(p) FROM items JOIN orders USING (oid) GROUP BY g", bounds=(1, 1)),
    Form("SELECT SUM(COALESCE(n, 0)), AVG(n * 1.5) FROM people LEFT JOIN (SELECT who, COUNT(*) AS n FROM orders GROUP BY who) AS o ON o.who = id"),
    Form("SELECT g, age > 1 AS t, COUNT(*), AVG(x) FROM people FULL JOIN orders ON id = who GROUP BY ROLLUP (g, t)", bounds=(2, 1)),
]  # fmt: skip


def release_of(form: Form, neighbors: Neighbors) -> Release:
    known = Catalog("shop", TABLES, neighbors=neighbors)
    groups, rows = form.bounds
    made = plan([form.sql], known, Terms(epsilon=1, delta="1e-6", groups=groups, rows=rows))
    assert made.verify(known) == made.loss
    (release,) = made.releases
    return release


class Database:
    """A schema for each content, filled once; what is asked of many is asked in each."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(config={"threads": 1})
        _read_all(self.connection)  # the optimizers of the engine: others take a tenth of a second a question
        self.schemas: dict[tuple[Content, Content], str] = {}
        self.answers: dict[tuple[str, Content], list[Cells]] = {}

    def answer(self, others: Content, sql: str, measures: int) -> list[Cells]:
        """What each content of the person gives; both relations often ask the same."""
        if (sql, others) not in self.answers:
            self.answers[sql, others] = [self.cells(others, own, sql, measures) for own in contents()]
        return self.answers[sql, others]

    def use(self, others: Content, own: Content) -> None:
        if (others, own) not in self.schemas:
            name = self.schemas[others, own] = f"s{len(self.schemas)}"
            self.connection.execute(f"CREATE SCHEMA {name}")
            self.connection.execute(f"USE {name}")
            self.fill(CODES, PUBLIC)
            for table, theirs, mine in zip(TABLES[:3], others, own, strict=True):
                self.fill(table, (*theirs[::-1], *mine) if any(own) else theirs)
        self.connection.execute(f"USE {self.schemas[others, own]}")

    def fill(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
        columns = ", ".join(f"{column.name} {TYPES[column.kind]}" for column in table.columns)
        self.connection.execute(f"CREATE TABLE {table.name} ({columns})")
        if rows:
            marks = ", ".join("(" + ", ".join("?" * len(row)) + ")" for row in rows)
            self.connection.execute(
                f"INSERT INTO {table.name} VALUES {marks}", [value for row in rows for value in row]
            )

    def cells(self, others: Content, own: Content, sql: str, measures: int) -> Cells:
        self.use(others, own)
        result = self.connection.execute(sql, {"salt": "5a17"} if "$salt" in sql else None)
        names = [part[0] for part in result.description or ()]
        keys = [i for i, name in enumerate(names) if name not in {"units", *(f"m{i}" for i in range(measures))}]
        places = [names.index(f"m{i}") for i in range(measures)]
        return {tuple(row[i] for i in keys): tuple(row[i] for i in places) for row in result.fetchall()}


@pytest.fixture(scope="module")
def database() -> Database:
    return Database()


def moved(left: Cells, right: Cells, measure: int) -> tuple[int, int]:
    gaps = [
        abs(left.get(key, (0,) * 99)[measure] - right.get(key, (0,) * 99)[measure])
        for key in left.keys() | right.keys()
    ]
    return sum(gaps), sum(gap * gap for gap in gaps)


def largest(database: Database, release: Release, sql: str, neighbors: Neighbors) -> list[tuple[int, int]]:
    """The most that a change of the one person moves each measure, in ℓ1 and ℓ2 squared."""
    count = len(release.aggregate.measures)
    most = [(0, 0)] * count
    for others in OTHERS:
        found = database.answer(others, sql, count)
        assert not any(map(any, contents()[:1]))
        pairs = combinations(found, 2) if neighbors is CHANGE else ((found[0], other) for other in found[1:])
        for left, right in pairs:
            for i in range(count):
                l1, l2 = moved(left, right, i)
                most[i] = max(most[i][0], l1), max(most[i][1], l2)
    return most


@pytest.mark.quick_cases(44)
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.sql[:90])
def test_no_person_moves_more_than_the_sensitivity(database: Database, form: Form, neighbors: Neighbors) -> None:
    release = release_of(form, neighbors)
    most = largest(database, release, private_sql.write(release.aggregate), neighbors)
    stated = [sensitivity_of(m, release.aggregate.source, neighbors) for m in release.aggregate.measures]
    for (l1, l2), size in zip(most, stated, strict=True):
        assert l1 <= size.l1
        assert l2 <= size.l2_squared
    if neighbors in form.tight:
        assert any(l1 == size.l1 for (l1, _), size in zip(most, stated, strict=True)), (most, stated)


MEASURED = [form for form in FORMS if " JOIN " in form.sql and form.bounds != (1, 1)][::4]


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("form", MEASURED, ids=lambda form: form.sql[:90])
def test_no_person_moves_what_measures_the_bounds_by_more_than_stated(database: Database, form: Form) -> None:
    """`--measure-bounds`: counts and sums of all groups together, under wider bounds."""
    groups, rows = form.bounds
    for neighbors in (ADD, CHANGE):
        known = Catalog("shop", TABLES, neighbors=neighbors)
        terms = Terms(epsilon=1, delta="1e-6", groups=groups, rows=rows, measure_bounds=True)
        made = plan([form.sql], known, terms)
        whole = [made.releases[index] for _, index in made.measured]
        assert whole
        for release in whole:
            most = largest(database, release, private_sql.write(release.aggregate), neighbors)
            for (l1, _), measure, noise in zip(most, release.aggregate.measures, release.noises, strict=True):
                stated = sensitivity_of(measure, release.aggregate.source, neighbors)
                assert l1 <= stated.l1 <= noise.sensitivity


LONG_CHAIN = (
    Table("people", [Column("id", "integer")], unit=Unit("id")),
    Table("orders", [Column("oid", "integer"), Column("who", "integer")], unit=Unit("who")),
    Table(
        "parcels",
        [Column("pid", "integer"), Column("oid", "integer")],
        unit=Unit("orders.who"),
        link=Link("oid", table="orders", key="oid"),
    ),
    Table(
        "items",
        [Column("pid", "integer"), Column("p", "integer", lower=0, upper=2)],
        unit=Unit("orders.who"),
        link=Link("pid", table="parcels", key="pid"),
    ),
)
ORDERS_OF, PARCELS_OF, ITEMS_OF = [(1, 1), (2, 1), (7, 1)], [(5, 1), (6, 2)], [(5, 2), (6, 1), (5, 9), (6, None)]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*), SUM(p) FROM items",
        "SELECT COUNT(*), SUM(p) FROM items JOIN parcels USING (pid) JOIN orders USING (oid)",
        "SELECT COUNT(*), SUM(n) FROM (SELECT pid, COUNT(*) AS n FROM items GROUP BY pid)",
    ],
)
def test_no_person_moves_more_than_stated_at_the_end_of_two_keys(sql: str, neighbors: Neighbors) -> None:
    """Items of parcels of orders of people, keys that lead to two people or to nobody among them.

    What leads to others too (order 7) stays when the person goes: it is their row as well, and only the link is theirs.
    """
    known = Catalog("shop", LONG_CHAIN, neighbors=neighbors)
    made = plan([sql], known, Terms(epsilon=1, groups=1, rows=2))
    assert made.verify(known) == made.loss
    (release,) = made.releases
    written, count = private_sql.write(release.aggregate), len(release.aggregate.measures)
    own = [
        parts
        for parts in product(subsets(ORDERS_OF, 3), subsets(PARCELS_OF, 2), subsets(ITEMS_OF, 2))
        if {oid for _, oid in parts[1]} <= {oid for oid, _ in parts[0]}
        and {pid for pid, _ in parts[2]} <= {pid for pid, _ in parts[1]}
    ]
    assert len(own) > 25
    found = [chain_totals(written, count, parts) for parts in own]
    pairs = list(combinations(found, 2) if neighbors is CHANGE else ((found[0], other) for other in found[1:]))
    most = [max(abs(left[i] - right[i]) for left, right in pairs) for i in range(count)]
    stated = [sensitivity_of(m, release.aggregate.source, neighbors).l1 for m in release.aggregate.measures]
    assert all(l1 <= size for l1, size in zip(most, stated, strict=True)), (most, stated)
    assert any(l1 == size for l1, size in zip(most, stated, strict=True)), (most, stated)


def chain_totals(sql: str, measures: int, own: Sequence[Rows]) -> tuple[int, ...]:
    """The measures over two others and one person, some of whose keys the others have too."""
    others = ([(7, 2), (8, 3), (8, 2)], [(9, 7), (4, 8)], [(9, 1), (4, 2), (4, None)])
    with duckdb.connect(config={"threads": 1}) as connection:
        for table, theirs, mine in zip(LONG_CHAIN[1:], others, own, strict=True):
            columns = ", ".join(f"{column.name} BIGINT" for column in table.columns)
            connection.execute(f"CREATE TABLE {table.name} ({columns})")
            connection.executemany(f"INSERT INTO {table.name} VALUES (?, ?)", [*mine, *theirs])
        result = connection.execute(sql, {"salt": "5a17"} if "$salt" in sql else None)
        names, row = [part[0] for part in result.description or ()], result.fetchone()
    return tuple(0 if row is None else row[names.index(f"m{i}")] for i in range(measures))


DIFFERENT = [
    Form("SELECT COUNT(DISTINCT x) FROM people JOIN orders ON id = who"),
    Form("SELECT COUNT(DISTINCT x) FROM people FULL JOIN orders ON id = who AND day = 0", bounds=(1, 1), tight=(ADD, CHANGE)),
    Form("SELECT g, COUNT(DISTINCT p) FROM items JOIN orders USING (oid) GROUP BY g", bounds=(2, 1)),
    Form("SELECT z, COUNT(DISTINCT day) FROM orders JOIN codes USING (g) GROUP BY z", bounds=(2, 2), tight=()),
    Form("SELECT COUNT(DISTINCT b.x) FROM orders a JOIN orders b ON a.who = b.who AND a.day <= b.day"),
    Form("SELECT COUNT(DISTINCT n) FROM (SELECT who, COUNT(*) AS n FROM orders GROUP BY who)", bounds=(1, 1), tight=()),
]  # fmt: skip


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("neighbors", [ADD, CHANGE])
@pytest.mark.parametrize("form", DIFFERENT, ids=lambda form: form.sql[:90])
def test_numbers_of_different_values_move_by_no_more_than_stated(
    database: Database, form: Form, neighbors: Neighbors
) -> None:
    release = release_of(form, neighbors)
    (measure,) = release.aggregate.measures
    sql = f"SELECT * EXCLUDE (c), c AS m0 FROM ({private_sql.write_distinct(release.aggregate, 0)})"
    ((l1, l2),) = largest(database, release, sql, neighbors)
    size = sensitivity_of(measure, release.aggregate.source, neighbors)
    assert l1 <= size.l1
    assert l2 <= size.l2_squared
    assert neighbors not in form.tight or l1 == size.l1


RANKED = [
    Form("SELECT MEDIAN(x), MIN(x), MAX(x) FROM people FULL JOIN orders ON id = who AND day = 0"),
    Form("SELECT g, MEDIAN(p), MODE(p), MAX(p) FROM items JOIN orders USING (oid) GROUP BY g", bounds=(2, 1)),
    Form("SELECT z, HISTOGRAM(x, [0]), MIN(x) FROM orders LEFT JOIN codes USING (g) GROUP BY z", bounds=(1, 2)),
    Form("SELECT MEDIAN(a.x + b.x), MODE(b.g) FROM orders a JOIN orders b ON a.who = b.who", bounds=(1, 3)),
    Form("SELECT MEDIAN(n), MAX(n), MODE(n) FROM (SELECT who, LEAST(COUNT(*), 3) AS n FROM orders GROUP BY who)"),
]  # fmt: skip


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("form", RANKED, ids=lambda form: form.sql[:90])
def test_a_person_adds_few_values_in_few_groups_and_moves_no_others(database: Database, form: Form) -> None:
    """What ranks, bins and frequent values are proved from: values of others stay, whoever else is there."""
    release = release_of(form, ADD)
    bound = release.aggregate.source
    groups, reached = bound.groups if bound.source.keys else 1, 0
    for index, distribution in enumerate(release.aggregate.distributions):
        rows = bound.rows if distribution.keep == "even" else 1
        sql = f"SELECT * EXCLUDE (c), c AS m0 FROM ({private_sql.write_values(release.aggregate, index)})"
        for others in OTHERS:
            without, *having = database.answer(others, sql, 1)
            for cells in having:
                assert all(cells.get(key, (0,)) >= count for key, count in without.items())
                added: dict[Any, int] = {}
                for key, (count,) in cells.items():
                    more = count - without.get(key, (0,))[0]
                    added[key[:-1]] = added.get(key[:-1], 0) + more
                assert max(added.values(), default=0) <= rows
                assert sum(map(bool, added.values())) <= groups
                reached = max(reached, sum(added.values()))
    assert reached == groups * bound.rows


def test_every_kind_of_step_is_among_the_forms() -> None:
    kinds = {type(node) for form in FORMS for node in nodes_of(release_of(form, ADD).group.source)}
    assert {Join, Exists, Step} <= kinds


def test_rows_that_are_equal_have_one_place_in_all_orders() -> None:
    """Two orders might place equal rows each in its own way, by where they lie or by chance: both end with one number.

    The engine usually places them alike, so that no table shows it reliably: the text is looked at.
    """
    inner = (
        "LAG(x) OVER (PARTITION BY who ORDER BY day DESC) AS b, LEAD(g) OVER (PARTITION BY who, day ORDER BY x) AS t"
    )
    sql = f"SELECT SUM(b), COUNT(*) FROM (SELECT who, {inner} FROM orders) WHERE t IS NOT NULL"
    written = private_sql.write(release_of(Form(sql), ADD).aggregate)
    orders = re.findall(r"(?:lag|lead)\(w\dv\) OVER \((.*?)\) AS", written)
    assert len(orders) == 2
    assert all(order.endswith(" LAST, place") for order in orders)
    (number,) = re.findall(r"row_number\(\) OVER \((.*?)\) AS place", written)
    assert number.startswith("PARTITION BY u ORDER BY ")
    assert all(f"{name} ASC" in number for name in ("w0v", "w0o0", "w1v", "w1p0", "w1o0"))
