"""Statements drawn from a grammar: refused in words or answered, never an error of the engine, never a raw value."""

import random
from dataclasses import replace
from datetime import date, datetime

import duckdb
import pyarrow as pa
import pytest
from sqlglot.expressions import FUNCTION_BY_NAME

import discreet
from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.engines import duckdb as duckdb_engine
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.plan import plan_parts
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import InvalidInput, InvalidQuery
from discreet.privacy.loss import Pure
from discreet.sql.plan.planner import Terms, plan

POLICY = """
dataset = {name = "fuzz", neighbors = "add or remove one", time_floor = 0}
budget = {epsilon = 1000000, delta = "0.5", everyone = "all"}
[tables.p]
source = "python"
unit = "who"
max_groups_per_unit = 2
max_rows_per_group = 2
columns.who = {type = "integer"}
columns.a = {type = "integer", lower = -50, upper = 90}
columns.b = {type = "integer", lower = 0, upper = 20, nullable = false}
columns.free = {type = "integer"}
columns.r = {type = "real", lower = -3, upper = 3, granularity = "0.25"}
columns.t = {type = "text"}
columns.v = {type = "text", values = ["red", "green"]}
columns.f = {type = "boolean"}
columns.d = {type = "date", lower = 1960-01-01, upper = 2026-12-31}
columns.u = {type = "date"}
columns.m = {type = "timestamp", lower = 1960-01-01, upper = 2026-12-31}
"""
MORE = """
[tables.people]
source = "python"
unit = "who"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.who = {type = "integer"}
columns.age = {type = "integer", lower = 0, upper = 120}
columns.v = {type = "text", values = ["red", "green"]}
columns.town = {type = "text"}
[tables.o]
source = "python"
unit = "who"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.oid = {type = "integer"}
columns.who = {type = "integer"}
columns.d = {type = "date", lower = 2024-01-01, upper = 2024-12-31}
columns.x = {type = "integer", lower = -5, upper = 9}
columns.r = {type = "real", lower = -3, upper = 3, granularity = "0.25"}
columns.t = {type = "text"}
[tables.i]
source = "python"
unit = "o.who via oid"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.iid = {type = "integer"}
columns.oid = {type = "integer"}
columns.x = {type = "integer", lower = 0, upper = 30}
columns.f = {type = "boolean"}
[tables.j]
source = "python"
unit = "i.o.who via iid"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.iid = {type = "integer"}
columns.y = {type = "integer", lower = -9, upper = 9, nullable = false}
[tables.rows_]
source = "python"
unit = "row"
columns.v = {type = "text", values = ["red", "green"]}
columns.x = {type = "integer", lower = 0, upper = 9}
[tables.c]
source = "python"
unit = "public"
columns.v = {type = "text", values = ["red", "green"]}
columns.t = {type = "text"}
columns.w = {type = "integer", lower = -2, upper = 2}
"""
SECRET = "s3cr3t"
RECEIPT = Receipt("fuzz", "ann", 1, "2026-11-15T10:00:00Z", "9f2c", Pure(1), 1.0, 0.0, False, 1.0)


def rows() -> pa.Table:
    draw = random.Random(1)
    size = 300

    def some(values):
        return [draw.choice(values) for _ in range(size)]

    days = [None, date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29)]
    moments = [
        None,
        datetime(1, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59),
        datetime(2024, 2, 29, 12),
        datetime(9999, 12, 31),
    ]
    return pa.table(
        {
            "who": list(range(size)),
            "a": some([None, -(2**63), -50, -1, 0, 1, 89, 90, 2**63 - 1]),
            "b": some([None, -1, 0, 1, 20, 21]),
            "free": some([None, -(2**63), 0, 2**63 - 1]),
            "r": some([None, float("nan"), float("inf"), -0.0, 0.1, 3.0, -1e300]),
            "t": [
                f"{SECRET}{at}" if at % 3 else draw.choice(["", "12", "-3.5", "2024-02-29", "x" * 3000])
                for at in range(size)
            ],
            "v": some([None, "red", "green", f"{SECRET}!"]),
            "f": some([None, True, False]),
            "d": pa.array(some(days), pa.date32()),
            "u": pa.array(some(days), pa.date32()),
            "m": pa.array(some(moments), pa.timestamp("us")),
        }
    )


def several() -> dict[str, pa.Table]:
    """Tables whose keys are shared, missing and null; people with many rows; ends of ranges, and beyond."""
    draw = random.Random(2)
    people, orders, items = 60, 300, 400

    def some(values, size):
        return [draw.choice(values) for _ in range(size)]

    whole = [None, -(2**63), -5, -1, 0, 1, 9, 2**63 - 1]
    texts = [None, "", "red", "x" * 3000]
    who = [None, *range(people), *range(20), 0, 2**63 - 1, -(2**63)]
    days = [None, date(1, 1, 1), date(2024, 1, 1), date(2024, 2, 29), date(9999, 12, 31)]
    reals = [None, float("nan"), float("inf"), float("-inf"), -0.0, 0.1, 3.0, 1e300]
    oid = [None, *range(orders // 2), *range(orders // 2), *range(orders // 3), 2**63 - 1]
    owners = [0 if at % 4 == 0 else draw.choice(who) for at in range(len(oid))]
    return {
        "p": rows().slice(0, 120),
        "people": pa.table(
            {
                "who": pa.array(who, pa.int64()),
                "age": pa.array(some(whole, len(who)), pa.int64()),
                "v": pa.array(some([None, "red", "green", f"{SECRET}?"], len(who))),
                "town": [f"{SECRET}{at}" for at in range(len(who))],
            }
        ),
        "o": pa.table(
            {
                "oid": pa.array(oid, pa.int64()),
                "who": pa.array(owners, pa.int64()),
                "d": pa.array(some(days, len(oid)), pa.date32()),
                "x": pa.array(some(whole, len(oid)), pa.int64()),
                "r": pa.array(some(reals, len(oid)), pa.float64()),
                "t": [draw.choice(texts) if at % 3 else f"{SECRET}{owner}" for at, owner in enumerate(owners)],
            }
        ),
        "i": pa.table(
            {
                "iid": pa.array(some([None, *range(100)], items), pa.int64()),
                "oid": pa.array(some([None, 10**9, *range(orders)], items), pa.int64()),
                "x": pa.array(some(whole, items), pa.int64()),
                "f": pa.array(some([None, True, False], items), pa.bool_()),
            }
        ),
        "j": pa.table(
            {
                "iid": pa.array(some([None, *range(120)], items), pa.int64()),
                "y": pa.array(some(whole, items), pa.int64()),
            }
        ),
        "rows_": pa.table({"v": some([None, "red", "green"], 50), "x": pa.array(some(whole, 50), pa.int64())}),
        "c": pa.table({"v": ["red", "red", "green", None], "t": ["a", None, "b", "c"], "w": [1, 99, -1, 0]}),
    }


class Grammar(random.Random):
    """Random statements, as text."""

    def number(self, depth: int) -> str:
        if depth <= 0:
            return self.choice(["a", "b", "r", "free", "a", "b", str(self.randint(-3, 40)), "0.5", "NULL"])
        x, y = self.number(depth - 1), self.number(depth - 1)
        unit = self.choice(["day", "week", "month", "quarter", "year", "hour", "minute", "second", "eon"])
        part = self.choice(["year", "month", "week", "dow", "epoch", "hour"])
        return self.choice(
            [
                f"({x} {self.choice(['+', '-', '*', '/', '//', '%', '**'])} {y})",
                f"{self.choice(['ABS', 'SIGN', 'TRUNC', 'FLOOR', 'SQRT', 'LN', 'LOG10', 'LOG2', 'EXP', 'ROUND', 'LOG'])}({x})",
                f"POWER({x}, {self.choice(['2', '3', '0.5', '-1', y])})",
                f"WIDTH_BUCKET({x}, {self.randint(-2, 2)}, {self.randint(1, 30)}, {self.randint(0, 5)})",
                f"DATE_DIFF('{unit}', {self.moment(depth - 1)}, {self.moment(depth - 1)})",
                f"({self.moment(depth - 1)} - {self.moment(depth - 1)})",
                f"AGE({self.moment(depth - 1)}, {self.moment(depth - 1)})",
                f"EXTRACT({part} FROM {self.moment(depth - 1)})",
                f"CAST({self.text(depth - 1)} AS {self.choice(['INTEGER', 'DECIMAL(9, 2)', 'BIGINT', 'DOUBLE'])})",
                f"LENGTH({self.text(depth - 1)})",
                f"CASE WHEN {self.condition(depth - 1)} THEN {x} ELSE {y} END",
                f"{self.choice(['LEAST', 'GREATEST', 'COALESCE', 'NULLIF'])}({x}, {y})",
            ]
        )

    def moment(self, depth: int) -> str:
        if depth <= 0:
            return self.choice(["d", "u", "m", "DATE '2020-02-29'", "'1969-12-31'"])
        x, unit = self.moment(depth - 1), self.choice(["DAY", "WEEK", "MONTH", "YEAR", "HOUR"])
        return self.choice(
            [
                f"DATE_TRUNC('{unit.lower()}', {x})",
                f"({x} {self.choice('+-')} INTERVAL {self.choice([0, 1, 13, 5000, 99999])} {unit})",
                f"({x} {self.choice('+-')} {self.number(depth - 1)})",
                f"MAKE_DATE({self.number(0)}, {self.number(0)}, {self.number(0)})",
                f"LAST_DAY({x})",
                f"CAST({self.choice([x, self.text(depth - 1)])} AS {self.choice(['DATE', 'TIMESTAMP'])})",
                f"{self.choice(['LEAST', 'GREATEST', 'COALESCE'])}({x}, {self.moment(0)})",
            ]
        )

    def text(self, depth: int) -> str:
        if depth <= 0:
            return self.choice(["t", "v", "'x'", "''"])
        x = self.text(depth - 1)
        return self.choice(
            [
                f"{self.choice(['LOWER', 'UPPER', 'TRIM'])}({x})",
                f"SUBSTRING({x}, {self.randint(0, 3)}, {self.randint(0, 60)})",
                f"SPLIT_PART({x}, {self.choice(['3', chr(39) + '3' + chr(39), chr(39) * 2])}, {self.randint(0, 2)})",
                f"REPLACE({x}, 'e', '{self.choice(['', 'zz'])}')",
                f"CAST({self.choice([self.number(depth - 1), self.moment(depth - 1), 'f'])} AS TEXT)",
                f"STRFTIME({self.moment(depth - 1)}, '{self.choice(['%Y-%m', '%d.%m.%Y', '%B', '%H:%M'])}')",
                f"({x} || {self.text(0)})",
            ]
        )

    def condition(self, depth: int) -> str:
        pattern = self.choice(["^s.c", "\\d+$", "(a|b)*c", "a.{20}z", "[", "(s3)+", "[^x]"])
        return self.choice(
            [
                "f",
                f"{self.number(depth - 1)} {self.choice(['<', '=', '>=', '<>'])} {self.number(depth - 1)}",
                f"{self.moment(depth - 1)} {self.choice(['<', '>='])} {self.moment(depth - 1)}",
                f"{self.text(depth - 1)} = {self.text(0)}",
                f"REGEXP_MATCHES({self.text(depth - 1)}, '{pattern}')",
                f"{self.number(depth - 1)} IS {self.choice(['NULL', 'NOT NULL', 'DISTINCT FROM 3'])}",
                f"{self.moment(depth - 1)} BETWEEN {self.moment(0)} AND {self.moment(0)}",
                f"CONTAINS({self.text(0)}, '3')",
            ]
        )

    def key(self) -> str:
        """Something to group by that is no text of a private row."""
        return self.choice(
            [f"DATE_TRUNC('month', {self.moment(1)})", "v", "f", f"SIGN({self.number(1)})", f"YEAR({self.moment(1)})"]
        )

    def statement(self) -> str:
        depth = self.randint(1, 3)
        clause = self.choice(["", "", " WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, max_groups_contributed = 1)"])
        aggregate = self.choice(
            ["COUNT(*)", f"SUM({self.number(depth)})", f"AVG({self.number(depth)})", f"COUNT({self.moment(depth)})"]
        )
        where = f" WHERE {self.condition(depth)}" if self.random() < 0.6 else ""
        return self.choice(
            [
                f"SELECT{clause} {aggregate} AS n FROM p{where}",
                f"SELECT{clause} {aggregate} AS n, DP_INTERVAL_LOW(n) AS low FROM p{where}",
                f"SELECT{clause} {self.key()} AS k, {aggregate} AS n FROM p{where} GROUP BY 1 ORDER BY 2 LIMIT 5",
                f"SELECT{clause} COUNT(*) FILTER (WHERE {self.condition(depth)}) / NULLIF({aggregate}, 0) AS n FROM p{where}",
                f"SELECT n + 1 AS n FROM (SELECT{clause} {aggregate} AS n FROM p{where}) q",
            ]
        )


COLUMNS = {
    "p": {"who": "u", "a": "n", "r": "n", "t": "t", "v": "v", "f": "b", "d": "d"},
    "people": {"who": "u", "age": "n", "v": "v", "town": "t"},
    "o": {"oid": "k", "who": "u", "d": "d", "x": "n", "r": "n", "t": "t"},
    "i": {"iid": "k", "oid": "k", "x": "n", "f": "b"},
    "j": {"iid": "k", "y": "n"},
    "rows_": {"v": "v", "x": "n"},
    "c": {"v": "v", "t": "t", "w": "n"},
}
"""Of each table, its columns: u(nit), k(ey), n(umber), t(ext), v (text with values), b(oolean), d(ate)."""
PRIVATE = ("p", "people", "o", "i", "j")

Scope = dict[str, str]
"""Names, with the letters of `COLUMNS`."""


class Relations(random.Random):
    """Random statements over several tables: joins, queries in FROM, IN and EXISTS, steps, windows, unions."""

    made = 0

    def named(self, scope: Scope, letters: str, otherwise: str) -> str:
        found = [name for name, letter in scope.items() if letter in letters]
        return self.choice(found) if found and self.random() < 0.95 else otherwise

    def alias(self) -> str:
        self.made += 1
        return f"q{self.made}"

    def number(self, scope: Scope) -> str:
        x, y = self.named(scope, "n", "3"), self.named(scope, "nnk", "NULL")
        day = self.named(scope, "d", "DATE '2024-05-05'")
        return self.choice(
            [x, x, x, f"({x} + {y})", f"LEAST({x}, 4)", f"COALESCE({x}, {self.named(scope, 'n', '0')})", f"ABS({x}) * 2",
            f"CASE WHEN {x} > 2 THEN {y} ELSE 1 END", f"LEAST(GREATEST({y}, -9), 9)", f"LENGTH({self.named(scope, 'tv', 'NULL')})",
            f"EXTRACT(month FROM {day})", f"{x} // 3", f"{x} / {y}"]
        )  # fmt: skip

    def condition(self, scope: Scope) -> str:
        x, y = self.number(scope), self.number(scope)
        return self.choice(
            [f"{x} {self.choice(['<', '=', '>=', '<>'])} {y}", f"{self.named(scope, 'tv', 'NULL')} IS NOT NULL",
            f"{self.named(scope, 'd', 'NULL')} >= DATE '2024-02-01'", f"{x} IS NOT DISTINCT FROM {y}", f"NOT {x} BETWEEN 0 AND 4",
            f"{self.named(scope, 'b', 'TRUE')}", f"({x} > 1 OR {y} IS NULL)", f"{self.named(scope, 'tv', 'NULL')} IN ('red', 'blue')"]
        )  # fmt: skip

    def source(self, depth: int) -> tuple[str, Scope]:
        """What stands in FROM, and its columns."""
        pick = self.random()
        if depth <= 0 or pick < 0.25:
            name = self.choice([*PRIVATE, *PRIVATE, "c", "rows_"]) if self.random() < 0.3 else self.choice(PRIVATE)
            alias = self.alias()
            return f"{name} AS {alias}", {f"{alias}.{column}": letter for column, letter in COLUMNS[name].items()}
        if pick < 0.6:
            return self.join(depth)
        query, scope = self.query(depth - 1)
        alias = self.alias()
        return f"({query}) AS {alias}", {f"{alias}.{name}": letter for name, letter in scope.items()}

    def join(self, depth: int) -> tuple[str, Scope]:
        (left, mine), (right, theirs) = self.source(depth - 1), self.source(0 if self.random() < 0.6 else depth - 1)
        if " JOIN " in right and not right.startswith("("):
            right, theirs = self.source(0)
        both = mine | theirs
        ties = [f"{a} = {b}" for a in mine for b in theirs if mine[a] == theirs[b] and mine[a] in "uk"]
        ties = [tie for tie in ties if tie.split(".")[1].split(" ")[0] == tie.rsplit(".", 1)[1]] or ties
        tie = self.choice(ties) if ties and self.random() < 0.9 else self.condition(both)
        kind = self.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
        if self.random() < 0.1:
            using = self.choice(["who", "oid", "iid", "v", "x"])
            return self.choice(
                [f"{left} {kind} {right} USING ({using})", f"{left} NATURAL {kind} {right}", f"{left}, {right}"]
            ), both
        further = f" AND {self.condition(both)}" if self.random() < 0.35 else ""
        return f"{left} {kind} {right} ON {tie}{further}", both

    def where(self, scope: Scope, depth: int) -> str:
        parts = [self.condition(scope)] if self.random() < 0.5 else []
        if depth > 0 and self.random() < 0.3:
            parts.append(self.nested(scope, depth))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def nested(self, scope: Scope, depth: int) -> str:
        source, inner = self.source(depth - 1)
        negated = self.choice(["", "NOT "])
        key = self.named(scope, "uk", "1")
        other = self.choice(
            [name for name in inner if name.endswith(key.rpartition(".")[2])] or [self.named(inner, "ukv", "1")]
        )
        if self.random() < 0.5:
            distinct = self.choice(["", "DISTINCT "])
            return f"{key} {negated}IN (SELECT {distinct}{other} FROM {source}{self.where(inner, 0)})"
        further = f" AND {self.condition(scope | inner)}" if self.random() < 0.4 else ""
        return f"{negated}EXISTS (SELECT 1 FROM {source} WHERE {key} = {other}{further})"

    def query(self, depth: int) -> tuple[str, Scope]:
        """A query that gives rows: some columns, one row a person, numbered rows, or the rows of two queries."""
        source, scope = self.source(depth)
        where = self.where(scope, depth)
        unit = self.named(scope, "u", "who")
        other = self.named(scope, "tvdbk", "1")
        pick = self.random()
        if pick < 0.35:
            values = [
                "COUNT(*)",
                f"SUM({self.number(scope)})",
                f"AVG({self.number(scope)})",
                f"MIN({self.number(scope)})",
            ]
            values += [
                f"COUNT(DISTINCT {other})",
                f"COUNT(*) FILTER (WHERE {self.condition(scope)})",
                f"MAX({self.number(scope)})",
            ]
            a, b = self.sample(values, 2)
            keys, listed, more = self.choice(
                [(unit, f"{unit} AS who", {}), (f"{unit}, {other}", f"{unit} AS who, {other} AS g", {"g": "v"})]
            )
            having = self.choice(["", "", f" HAVING {a} > 1", f" HAVING {self.choice(values)} IS NOT NULL"])
            return f"SELECT {listed}, {a} AS n, {b} AS m FROM {source}{where} GROUP BY {keys}{having}", {
                "who": "u",
                "n": "n",
                "m": "n",
            } | more
        if pick < 0.45:
            return f"SELECT DISTINCT {unit} AS who, {other} AS g FROM {source}{where}", {"who": "u", "g": "v"}
        if pick < 0.65:
            order = self.choice([self.number(scope), other, f"{other} DESC", f"{self.number(scope)} NULLS FIRST"])
            more = self.choice(["", "", f", {other}"])
            call = self.choice(["ROW_NUMBER()", "RANK()", "DENSE_RANK()", f"LAG({self.number(scope)})", f"LEAD({other})",
                               f"SUM({self.number(scope)})", "COUNT(*)", f"MAX({self.number(scope)})"])  # fmt: skip
            qualify = self.choice(["", "", " QUALIFY k = 1"])
            over = f"{call} OVER (PARTITION BY {unit}{more} ORDER BY {order}) AS k"
            return f"SELECT {unit} AS who, {self.number(scope)} AS n, {over} FROM {source}{where}{qualify}", {
                "who": "u",
                "n": "n",
                "k": "n",
            }
        columns = f"{unit} AS who, {self.number(scope)} AS n, {other} AS g"
        if pick < 0.8:
            right, theirs = self.source(0)
            listed = f"{self.named(theirs, 'u', '1')}, {self.number(theirs)}, {self.named(theirs, 'tvdbk', 'NULL')}"
            union = self.choice(["UNION ALL", "UNION ALL", "UNION ALL", "UNION", "EXCEPT"])
            return f"SELECT {columns} FROM {source}{where} {union} SELECT {listed} FROM {right}", {
                "who": "u",
                "n": "n",
                "g": "v",
            }
        if pick < 0.85:
            return f"SELECT * FROM {source}{where}", {name.rpartition(".")[2]: letter for name, letter in scope.items()}
        return f"SELECT {columns} FROM {source}{where}", {"who": "u", "n": "n", "g": "v"}

    def aggregate(self, scope: Scope) -> str:
        x, y = self.number(scope), self.number(scope)
        return self.choice(
            ["COUNT(*)", "COUNT(*)", f"SUM({x})", f"SUM({x})", f"AVG({x})", f"COUNT(DISTINCT {self.named(scope, 'u', 'who')})",
            f"COUNT(DISTINCT {self.named(scope, 'tvkn', '1')})", f"MEDIAN({x})", f"QUANTILE_CONT({x}, [0.1, 0.9])", f"MIN({x})", f"MAX({x})",
            f"PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY {x})", f"HISTOGRAM({x}, [0, 3, 7])", f"VAR_POP({x})", f"CORR({x}, {y})",
            f"MODE({self.named(scope, 'tvbdn', '1')})", f"APPROX_TOP_K({x}, {self.randint(0, 3)})", f"MODE({self.named(scope, 'vb', '1')}) FILTER (WHERE {self.condition(scope)})",
            f"SUM({x}) FILTER (WHERE {self.condition(scope)})", f"SUM({x}) / NULLIF(COUNT(*), 0)", f"QUANTILE_DISC({x}, 1.5)"]
        )  # fmt: skip

    def statement(self) -> str:
        depth = self.randint(0, 3)
        source, scope = self.source(depth)
        where, n, m = self.where(scope, depth), self.aggregate(scope), self.aggregate(scope)
        key = self.named(scope, "vvbdt", "1 + 1")
        key = self.choice(
            [key, key, f"{self.number(scope)} // 2", f"DATE_TRUNC('month', {self.named(scope, 'd', 'NULL')})"]
        )
        return self.choice(
            [
                f"SELECT {n} AS n FROM {source}{where}",
                f"SELECT {n} AS n, {m} AS m, DP_INTERVAL_HIGH(n) AS high FROM {source}{where}",
                f"SELECT {key} AS g, {n} AS n, DP_INTERVAL_LOW(n) AS low FROM {source}{where} GROUP BY 1 ORDER BY 2 LIMIT 5",
                f"SELECT {key} AS g, {n} AS n FROM {source}{where} GROUP BY g HAVING COUNT(*) > 2",
                f"WITH s AS (SELECT * FROM {source}{where}) SELECT COUNT(*) AS n FROM s a JOIN s b ON a.who = b.who",
                f"SELECT {key} AS g, GROUPING({key}) AS h, {n} AS n FROM {source}{where} GROUP BY {self.choice(['ROLLUP', 'CUBE'])} ({key})",
                f"SELECT n - 1 AS n FROM (SELECT {n} AS n FROM {source}{where}) AS z",
            ]
        )


@pytest.fixture(scope="module")
def data():
    with discreet.open(parse_policy(POLICY), tables={"p": rows()}, ledger=Ledger(MemoryStore())) as opened:
        yield opened


@pytest.fixture(scope="module")
def shop():
    with DuckDBEngine(parse_policy(POLICY + MORE).catalog, several()) as engine:
        yield engine


def check_statement(text: str, catalog: Catalog, engine: DuckDBEngine) -> bool:
    """Whether it was answered; a plan verifies, is read back from its document as it was, and runs."""
    try:
        made = plan([text], catalog, Terms(epsilon=1, delta="1e-9"))
        assert made.verify(catalog) == made.loss, text
        parts = plan_parts(made.document(), "query", 1, ["neighbors", "releases"])
        assert replace(made, releases=parts["releases"]).document() == made.document(), text
        shown = str(made.explain())
    except InvalidInput as refusal:
        shown, made = str(refusal), None
    assert SECRET not in shown, text
    if made is not None:
        found = made.finish(made.run(engine, None), RECEIPT, engine)[0]
        assert SECRET not in str(found.table.to_pylist()), text
    return made is not None


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(20))
def test_a_statement_is_refused_or_answered(data, seed):
    draw = Grammar(seed)
    answered = 0
    for _ in range(30):
        text = draw.statement()
        try:
            shown = str(data.ask(text, epsilon=None if "OPTIONS" in text else 1, delta="1e-9").table.to_pylist())
            answered += 1
        except InvalidInput as refusal:
            shown = str(refusal)
        assert SECRET not in shown, text
    assert answered > 0


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))])
def test_a_statement_over_several_tables_is_refused_or_answered(shop, seed):
    catalog, draw = parse_policy(POLICY + MORE).catalog, Relations(seed)
    answered = sum(check_statement(draw.statement(), catalog, shop) for _ in range(60))
    assert answered > 6


BROKE_THE_GATE = [
    "SELECT COUNT(*) AS n FROM (SELECT who, LENGTH(v) AS n FROM people) a JOIN o ON a.who = o.who AND GREATEST(n, -9) < x",
    "SELECT COUNT(*) AS n FROM people q RIGHT JOIN o ON q.who = o.who AND LENGTH(town) IS NOT DISTINCT FROM age",
    "SELECT SUM(k.y / k.y) AS n FROM j LEFT JOIN j AS k ON j.iid = k.iid",
    "SELECT COUNT(*) AS n FROM o LEFT JOIN people q ON q.who = o.who WHERE CAST(town AS DECIMAL(6, 2)) > 3",
]  # fmt: skip


AFTER_A_CHARGE = [
    "SELECT d AS g, CORR(LEAST(GREATEST(oid, -9), 9), r / x) AS n FROM o GROUP BY CUBE (d)",
    "SELECT CORR(ABS(n) * 2, n) AS r FROM (SELECT who, v, AVG(age) AS n FROM people WHERE 5 < LEAST(age, 4) GROUP BY who, v)",
]  # fmt: skip


@pytest.mark.parametrize("text", AFTER_A_CHARGE)
def test_intervals_of_very_large_noise_are_found(shop, text):
    """A step of 10^-6 in sums of squares: scales near 2^52, where 1 − e^(−1/scale) has hardly a digit in floats."""
    assert check_statement(text, parse_policy(POLICY + MORE).catalog, shop)


@pytest.mark.parametrize("text", BROKE_THE_GATE)
def test_dear_operations_below_joins_state_their_own_nulls(shop, text):
    """What is computed below a join is what the gate derives from its arguments, nulls included."""
    assert check_statement(text, parse_policy(POLICY + MORE).catalog, shop)


def test_days_of_people_are_groups(shop):
    """As many as the policy's bounds have, which are too many to list in a condition: none is needed."""
    text = "SELECT g, COUNT(*) AS n FROM (SELECT who, d AS g FROM p GROUP BY who, d) GROUP BY g"
    assert check_statement(text, parse_policy(POLICY + MORE).catalog, shop)


def test_a_natural_join_by_a_name_of_two_tables_is_refused():
    text = "SELECT COUNT(*) FROM o JOIN people q ON o.who = q.who NATURAL JOIN p"
    with pytest.raises(InvalidQuery, match="NATURAL JOIN by .*: not one column of each side"):
        plan([text], parse_policy(POLICY + MORE).catalog, Terms(epsilon=1))


ORDERED = [
    "SELECT v, COUNT(*) AS n, SUM(x) AS s FROM people JOIN o ON people.who = o.who GROUP BY v",
    "SELECT t, COUNT(*) AS n, SUM(r) AS s FROM o LEFT JOIN people ON people.who = o.who AND age > x GROUP BY t",
    "SELECT COUNT(*) AS n, SUM(i.x) AS s FROM people FULL JOIN o ON people.who = o.who FULL JOIN i ON i.oid = o.oid AND i.x > age",
    "SELECT SUM(y) AS s, COUNT(DISTINCT i.x) AS n, MEDIAN(y) AS m FROM j JOIN i ON j.iid = i.iid JOIN o ON i.oid = o.oid",
    "SELECT t, SUM(x) AS s FROM (SELECT who, t, x, ROW_NUMBER() OVER (PARTITION BY who ORDER BY d) AS k FROM o) WHERE k <= 2 GROUP BY t",
    "SELECT SUM(b) AS s, COUNT(*) AS n FROM (SELECT who, x, LAG(r) OVER (PARTITION BY who ORDER BY d DESC) AS b, LEAD(t) OVER (PARTITION BY who, d ORDER BY x) AS t FROM o) WHERE t IS NOT NULL",
    "SELECT k, SUM(s) AS s FROM (SELECT who, SUM(x) OVER (PARTITION BY who ORDER BY d) AS s, RANK() OVER (PARTITION BY who ORDER BY r) AS k FROM o) WHERE k < 4 GROUP BY k",
    "SELECT SUM(m) AS s, SUM(n) AS n, MEDIAN(a) AS q FROM (SELECT who, AVG(r) AS m, SUM(x) AS n, MIN(x) AS a FROM o GROUP BY who)",
    "SELECT g, COUNT(*) AS n FROM (SELECT DISTINCT who, t AS g FROM o) GROUP BY g",
    "SELECT g, COUNT(DISTINCT n) AS n FROM (SELECT who, x AS n, t AS g FROM o UNION ALL SELECT who, age, v FROM people) GROUP BY g",
    "SELECT t, MODE(x) AS m, APPROX_TOP_K(d, 2) AS k FROM o GROUP BY t",
    "SELECT t, QUANTILE_CONT(r, [0.1, 0.9]) AS q, MAX(x) AS m, HISTOGRAM(x, [0, 3]) AS h FROM o GROUP BY t",
    "SELECT COUNT(*) AS n, VAR_POP(x) AS v FROM o WHERE oid IN (SELECT oid FROM i WHERE f) AND NOT EXISTS (SELECT 1 FROM people q WHERE q.who = o.who AND age > x)",
    "SELECT c.t, COUNT(*) AS n, SUM(w) AS s FROM rows_ JOIN c ON rows_.v = c.v GROUP BY c.t",
    "SELECT v, d, COUNT(*) AS n FROM people JOIN o ON people.who = o.who GROUP BY ROLLUP (v, d)",
]  # fmt: skip


class Recorder:
    """The real engine, and everything that it returned: sorted, since rows of a result have no order."""

    dialect, version = "duckdb", ""

    def __init__(self, engine: DuckDBEngine) -> None:
        self.engine, self.results = engine, []

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        result = self.engine.fetch(sql, salt="5a17")
        self.results.append((sql, sorted(map(repr, result.to_pylist()))))
        return result


def exact_results(
    texts: list[str], tables: dict[str, pa.Table], threads: int, patch: pytest.MonkeyPatch
) -> list[object]:
    """What the engine computed for each statement before any noise; None where a statement is refused."""
    catalog, connect = parse_policy(POLICY + MORE).catalog, duckdb_engine._connect
    results: list[object] = []
    with patch.context() as inner:
        inner.setattr(duckdb_engine, "_connect", lambda folder: connect(folder).execute(f"SET threads = {threads}"))
        with DuckDBEngine(catalog, tables) as engine:
            for text in texts:
                recorder = Recorder(engine)
                try:
                    made = plan([text], catalog, Terms(epsilon=1, delta="1e-9"))
                except InvalidInput:
                    results.append(None)
                    continue
                made.run(recorder, None)
                results.append(recorder.results)
    return results


def shuffled(table: pa.Table, seed: int, copies: int = 1) -> pa.Table:
    """The rows of so many copies of a table in another order."""
    places = [at for at in range(table.num_rows) for _ in range(copies)]
    random.Random(seed).shuffle(places)
    return table.take(pa.array(places, pa.int64()))


def assert_order_does_not_matter(texts: list[str], patch: pytest.MonkeyPatch, copies: int = 1) -> int:
    """Bit for bit, on one thread and on four; how many statements were answered."""
    tables = [{name: shuffled(rows, seed, copies) for name, rows in several().items()} for seed in (0, 1, 2)]
    first, second, third = (exact_results(texts, *given, patch) for given in zip(tables, (1, 4, 4), strict=True))
    for text, *results in zip(texts, first, second, third, strict=True):
        assert results[0] == results[1] == results[2], text
    return sum(result is not None for result in first)


def test_where_rows_lie_changes_no_exact_number(monkeypatch):
    assert assert_order_does_not_matter(ORDERED, monkeypatch) == len(ORDERED)


@pytest.mark.slow
def test_where_rows_of_large_tables_lie_changes_no_exact_number(monkeypatch):
    """Several row groups of the engine in each of the smaller tables, so that threads share the work."""
    few = [text for text in ORDERED if "JOIN" not in text and "EXISTS" not in text]
    assert assert_order_does_not_matter(few, monkeypatch, 1200) == len(few)


@pytest.mark.parametrize("seed", [1000, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1001, 1010))])
def test_where_rows_lie_changes_no_exact_number_of_any_statement(seed, monkeypatch):
    draw = Relations(seed)
    assert assert_order_does_not_matter([draw.statement() for _ in range(60)], monkeypatch) > 6


def test_the_grammar_reaches_both_sides():
    draw = Grammar(0)
    texts = [draw.statement() for _ in range(300)]
    for word in (
        "DATE_DIFF",
        "REGEXP_MATCHES",
        "WIDTH_BUCKET",
        "INTERVAL",
        "SPLIT_PART",
        "LN(",
        "MAKE_DATE",
        "OPTIONS",
        "DP_INTERVAL",
    ):
        assert any(word in text for text in texts), word


CALLS = ("", "a", "a, 2", "v, 'x', 3", "a, [0.5, 0.2]", "DISTINCT a", "d")
FORMS = ("SELECT {} FROM p", "SELECT {} WITHIN GROUP (ORDER BY a) FROM p", "SELECT COUNT(*) FROM p WHERE {} = 1")


def test_every_function_that_is_known_anywhere_is_planned_or_refused_in_words():
    """All that the engine and the parser have by name, with too few arguments, too many, or of the wrong kind."""
    listed = duckdb.sql(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type <> 'table'"
    ).fetchall()
    names = sorted(
        {name.casefold() for (name,) in listed if name.isidentifier()} | {*map(str.casefold, FUNCTION_BY_NAME)}
    )
    assert len(names) > 1000
    catalog, planned = parse_policy(POLICY).catalog, 0
    for place, name in enumerate(names):
        for i in range(3):
            call = CALLS[(3 * place + i) % len(CALLS)]
            text = FORMS[(place + i) % len(FORMS)].format(f"{name}({call})")
            try:
                plan([text], catalog, Terms(epsilon=1, delta="1e-6"))
                planned += 1
            except InvalidInput:
                continue
            except Exception as error:
                raise AssertionError(text) from error
    assert planned > 10
