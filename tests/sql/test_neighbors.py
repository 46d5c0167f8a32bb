"""Every form of question on every neighbor of tiny tables: the declared sensitivity holds, and is not vacuous.

What is run is the SQL that the product generates, on the real DuckDB. Thousands of tiny tables are loaded at once: each
has an id, and the generated text is run for each id through a LATERAL join in which a CTE of the private table's name
holds the rows of that id alone. `test_many_tables_at_once_is_one_after_the_other` checks that this changes nothing.

A table is the rows of *others* and the rows of one unit. All contents of that unit are tried (values outside the bounds,
nulls, NaN and undeclared groups included), so that all pairs of neighbors over these others are compared, under both
relations: the unit's rows are there or not, or they are replaced by any other rows of it (or of another id).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from fractions import Fraction
from functools import cache
from itertools import chain, combinations, combinations_with_replacement, product

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidQuery
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.quantile import GroupedQuantile
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.algebra import relations
from discreet.sql.algebra.relations import Bound, Measure
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release.private_sql import write, write_distinct, write_values
from discreet.sql.release.release import Release

NAN, INF = math.nan, math.inf
SALT = "5a17"
DAYS = [date(2024, 1, 1), date(2024, 2, 29), date(2023, 5, 5), date(1, 1, 1)]
BOTH = (Neighbors.ADD_OR_REMOVE_ONE, Neighbors.CHANGE_ONE)
TYPES = {
    "p": pa.int64(),
    "g": pa.string(),
    "s": pa.string(),
    "flag": pa.bool_(),
    "k": pa.int64(),
    "city": pa.string(),
    "x": pa.int64(),
    "w": pa.int64(),
    "r": pa.float64(),
    "q": pa.float64(),
    "d": pa.date32(),
    "m": pa.timestamp("us"),
    "e": pa.date32(),
}
COLUMNS = [
    Column("p", "integer"),
    Column("g", "text", values=["a", "b"]),
    Column("s", "text", values=["a", "b"], nullable=False),
    Column("flag", "boolean"),
    Column("k", "integer", lower=0, upper=2),
    Column("city", "text"),
    Column("x", "integer", lower=-1, upper=2),
    Column("w", "integer"),
    Column("r", "real", lower=0, upper=1, granularity="0.5"),
    Column("q", "real"),
    Column("d", "date", values=["2024-01-01", "2024-02-29"]),
    Column("m", "timestamp"),
    Column("e", "date", lower="2024-01-30", upper="2024-03-02"),
]

Row = tuple[tuple[str, object], ...]
"""A row: the columns that matter to a form; all others are null."""


@dataclass(frozen=True)
class Form:
    """A question, the values that its columns take, and under which relations its bound is attained."""

    sql: str
    values: tuple[tuple[str, tuple[object, ...]], ...]
    tight: tuple[Neighbors, ...] = ()
    person_only: bool = False
    delta: str | None = None
    longest: int = 2

    @property
    def pool(self) -> list[Row]:
        names = [name for name, _ in self.values]
        return [tuple(zip(names, row, strict=True)) for row in product(*(values for _, values in self.values))]

    @property
    def grouped(self) -> bool:
        return "GROUP BY" in self.sql


def form(sql: str, *, tight: Sequence[Neighbors] = (), longest: int = 2, **given: object) -> Form:
    options = {name: given.pop(name) for name in ("person_only", "delta") if name in given}
    return Form(
        sql, tuple((name, tuple(values)) for name, values in given.items()), tuple(tight), longest=longest, **options
    )


ADD, CHANGE = BOTH
G = ("a", "b", "z", None)
X = (-9, 0, 2, 9, None)
FORMS = [
    form("SELECT COUNT(*) FROM t", tight=BOTH, x=(0, None), longest=4),
    form("SELECT COUNT(*) AS n FROM t WHERE flag AND x >= 1", tight=BOTH, x=(-9, 1, None), flag=(True, False, None)),
    form("SELECT COUNT(x) FROM t", tight=BOTH, x=(0, 9, None), longest=4),
    form("SELECT COUNT(r), COUNT(q) FROM t", r=(NAN, 0.3, None), q=(NAN, None)),
    form("SELECT COUNT(*) FILTER (WHERE flag), COUNT_IF(x > 0) FROM t", tight=BOTH, x=(-1, 2), flag=(True, False, None)),
    form("SELECT SUM(x) FROM t", tight=BOTH, x=X, longest=4),
    form("SELECT SUM(-x) AS s FROM t WHERE x < 1", x=X, longest=3),
    form("SELECT SUM(r) FROM t", tight=BOTH, r=(NAN, -INF, -1.0, 0.24, 0.25, 0.75, INF, None), longest=3),
    form("SELECT AVG(x) FROM t", tight=BOTH, x=X, longest=4),
    form("SELECT AVG(r) FROM t", tight=BOTH, r=(NAN, -INF, 0.26, 0.74, INF, None), longest=3),
    form("SELECT SUM(x), AVG(x), COUNT(*), COUNT(x) FROM t", x=X, longest=3),
    form("SELECT SUM(x) FILTER (WHERE flag), AVG(x) FILTER (WHERE x > 0) FROM t", x=X, flag=(True, False, None)),
    form("SELECT SUM(CASE WHEN flag THEN x ELSE -x END) FROM t", tight=BOTH, x=X, flag=(True, False, None)),
    form("SELECT SUM(flag) FROM t", tight=BOTH, flag=(True, False, None), longest=4),
    form("SELECT SUM(x * x - 2 * x), SUM(ABS(x)), SUM(x * r) FROM t", x=(-9, 0, 1, 9, None), r=(NAN, 0.3, INF)),
    form("SELECT SUM(LEAST(GREATEST(w, 0), 2)) FROM t", tight=BOTH, w=(-(2**63), 1, 2**63 - 1, None), longest=3),
    form("SELECT SUM(LEAST(x, k)), SUM(GREATEST(x, k, 1)) FROM t", x=(-9, 9, None), k=(-9, 1, 9, None)),
    form("SELECT SUM(ROUND(r * 3)), SUM(FLOOR(x / 2)), SUM(k % 2), SUM(k // 2) FROM t", x=(-9, 1, 9), r=(NAN, 0.3, 1.0), k=(-9, 1, 9)),
    form("SELECT SUM(LEAST(LENGTH(city), 4)) FROM t WHERE city LIKE '%o%'", tight=BOTH, city=("oslo", "roma", "x", "", None)),
    form("SELECT COUNT(*) FROM t WHERE q > 0.5 OR city IN ('oslo', 'x')", q=(NAN, INF, 0.4, None), city=("oslo", None)),
    form("SELECT SUM(COALESCE(x, 2)), SUM(NULLIF(x, 2)) FROM t", x=X, longest=3),
    form("SELECT SUM(x / k), AVG(r / x) FROM t", x=(-9, 0, 1, None), k=(-9, 0, 1, 9, None), r=(NAN, 0.3, INF)),
    form("SELECT SUM(SQRT(x + 3)), SUM(LN(x + 3)), SUM(EXP(r)), SUM(SIGN(x)) FROM t", x=(-9, 0, 9, None), r=(NAN, 0.3, -INF)),
    form("SELECT SUM(POWER(x, 2)), SUM(WIDTH_BUCKET(x, 0, 2, 2)), SUM(TRUNC(r)) FROM t", x=(-9, 1, 9, None), r=(NAN, 0.7, -INF)),
    form("SELECT SUM(DATE_DIFF('day', DATE '2024-02-01', e)), AVG(AGE(e, DATE '2020-02-29')) FROM t", e=(*DAYS, None)),
    form("SELECT SUM((e + x) - e), COUNT(e + INTERVAL 1 MONTH) FROM t WHERE e + x >= '2024-02-01'", e=(*DAYS, None), x=(-9, 9, None)),
    form("SELECT SUM(CAST(city AS DECIMAL(3, 1))), COUNT(CAST(city AS DATE)) FROM t", city=("9", "-99.99", "1e9", "2024-02-29", None)),
    form("SELECT DATE_TRUNC('month', e) AS k, COUNT(*), SUM(x) FROM t GROUP BY 1", tight=[ADD], e=(*DAYS, None), x=(-9, 9)),
    form("SELECT COUNT(*) FROM t WHERE REGEXP_MATCHES(city, '^o.*o$') OR SPLIT_PART(city, 'o', 2) = 'sl'", city=("oslo", "x", None)),
    form("SELECT VAR_POP(x), STDDEV(x), AVG(x) FROM t", tight=[ADD], x=X, longest=4),
    form("SELECT CORR(r, x), COVAR_POP(r, x), REGR_R2(r, x) FROM t", x=(-9, 1, 9, None), r=(NAN, 0.3, INF)),
    form("SELECT g, REGR_SLOPE(r, x), REGR_INTERCEPT(r, x), REGR_AVGY(r, x), REGR_COUNT(r, x) FROM t GROUP BY g", g=("a", "z", None), x=(-9, 9), r=(None, 1.0)),
    form("SELECT VARIANCE(x) FILTER (WHERE flag), COVAR_SAMP(k, x) FILTER (WHERE flag) FROM t", x=(-9, 9), k=(0, None), flag=(True, None)),
    form("SELECT g, COUNT(*) FROM t GROUP BY g", tight=BOTH, g=G, longest=3),
    form("SELECT g, SUM(x), COUNT(x) FROM t GROUP BY g", tight=[ADD], g=G, x=(-9, 9, None)),
    form("SELECT g, AVG(r) FROM t WHERE r IS NOT NULL GROUP BY g", g=G, r=(NAN, -1.0, 9.0)),
    form("SELECT s, COUNT(*) FROM t GROUP BY s", tight=BOTH, s=G, longest=3),
    form("SELECT flag, COUNT(*) FROM t GROUP BY flag", tight=BOTH, flag=(True, False, None), longest=4),
    form("SELECT k, COUNT(*), SUM(x) FROM t GROUP BY k", tight=[ADD], k=(-9, 1, 9, None), x=(-9, 9)),
    form("SELECT k + 1, COUNT(*) FROM t GROUP BY 1", tight=BOTH, k=(-9, 0, 1, 2, 9, None), longest=3),
    form("SELECT CASE WHEN x < 0 THEN 'low' WHEN x < 2 THEN 'mid' END AS b, COUNT(*) FROM t GROUP BY b", tight=BOTH, x=X, longest=3),
    form("SELECT x > 0, COALESCE(g, '?'), COUNT(*) FROM t GROUP BY ALL", tight=[ADD], g=G, x=(-9, 9, None)),
    form("SELECT g, flag, COUNT(*), SUM(x) FROM t GROUP BY g, flag", g=("a", "z", None), flag=(True, None), x=(-9, 9)),
    form("SELECT g, SUM(y) FROM (SELECT g, x + 1 AS y FROM t WHERE x > -1) AS i GROUP BY g", tight=BOTH, g=G, x=(-9, 0, 9)),
    form("WITH i AS (SELECT g, x * 2 AS y FROM t), j AS (SELECT * FROM i WHERE y < 4) SELECT SUM(y) FROM j", g=("a",), x=X, longest=3),
    form("WITH i AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT MAX(n) FROM i", tight=BOTH, g=G, longest=3),
    form("SELECT city, COUNT(*) FROM t GROUP BY city", tight=BOTH, delta="1e-3", city=("oslo", "rome", "", "bern", "ZOË", None)),
    form("SELECT city, g, SUM(x) FROM t GROUP BY city, g", tight=[ADD], delta="1e-3", city=("oslo", "rome"), g=("a", "b", "z"), x=(-9, 9)),
    form("SELECT w, AVG(x) FROM t GROUP BY w", delta="1e-3", w=(-(2**63), 0, 5), x=(-9, 9, None)),
    form("SELECT LOWER(city) FROM t GROUP BY 1", delta="1e-3", city=("Oslo", "OSLO", "rome", None), longest=3),
    form("SELECT d, COUNT(*) FROM t GROUP BY d", tight=BOTH, d=(DAYS[0], DAYS[1], DAYS[2], None), longest=3),
    form("SELECT EXTRACT(month FROM d) AS mo, COUNT(*) FROM t WHERE d < '2024-12-31' GROUP BY mo", d=(DAYS[0], DAYS[1], DAYS[3], None), longest=3),
    form("SELECT DATE_TRUNC('year', m), SUM(HOUR(m)) FROM t GROUP BY 1", delta="1e-3", m=(datetime(1, 1, 1), datetime(9999, 12, 31, 23), datetime(2024, 2, 29, 12), None), longest=3),
    form("SELECT COUNT(DISTINCT p) FROM t", tight=BOTH, person_only=True, x=(0, None), longest=4),
    form("SELECT COUNT(DISTINCT p) FILTER (WHERE x > 0), COUNT(*) FROM t", tight=BOTH, person_only=True, x=X, longest=3),
    form("SELECT g, COUNT(DISTINCT p), AVG(x) FROM t GROUP BY g", person_only=True, g=G, x=(-9, 9)),
    form("SELECT city, COUNT(DISTINCT p) FROM t GROUP BY city", tight=BOTH, person_only=True, delta="1e-3", city=("oslo", "rome", "", "bern", "ZOË", None)),
]  # fmt: skip
ROW_FORMS = [one for one in FORMS if not one.person_only]
BOUNDS = [(1, 1), (1, 3), (2, 1), (2, 2), (3, 1), (3, 3)]


# --- tables ---------------------------------------------------------------------------------------------------------


def contents(one: Form, ids: Sequence[int | None]) -> list[list[Row]]:
    """All that a unit can hold, up to a size, and some long contents (more rows than every bound); nothing is first."""
    pool = one.pool
    short = chain.from_iterable(combinations_with_replacement(pool, n) for n in range(one.longest + 1))
    few = chain.from_iterable(combinations(pool, n) for n in (1, 2, 3, 4)) if len(pool) <= 6 else combinations(pool, 1)
    long = ([row for row in rows for _ in range(times)] for rows in few for times in (3, 4))
    last = dict.fromkeys(row[-1] for row in pool if row[-1][1] == row[-1][1])  # without NaN, which equals nothing
    wide = ([row for row in pool if row[-1] == value for _ in range(times)] for value in last for times in (1, 3))
    whole = ([row for row in pool for _ in range(times)] for times in (1, 3))
    found = [list(rows) for rows in chain(short, long, wide, whole)]
    return [[]] + [[(("p", i), *row) for row in rows] for i in ids for rows in found if rows]


def others(one: Form) -> list[list[Row]]:
    """The rows of everybody else: nobody, one, and several of whom one has no id and one has many rows."""
    pool = one.pool
    crowd = [(("p", i), *pool[i % len(pool)]) for i in (2, 3, 5)] + [(("p", 4), *row) for row in pool[:6] * 2]
    return [[], [(("p", 2), *pool[0])], [*crowd, (("p", None), *pool[-1])]]


def neighborhoods(one: Form, unit: str) -> list[list[list[Row]]]:
    """For each choice of others, the tables that differ in one unit only; the first is without it."""
    if unit == "person":
        return [[rest + mine for mine in contents(one, (1, 8))] for rest in others(one)]
    pool = [(("p", 1), *row) for row in one.pool]
    post_queries = chain.from_iterable(combinations_with_replacement(pool, n) for n in (0, 1, 2))
    kept = list(post_queries) if len(pool) <= 9 else [(), *((row,) for row in pool), tuple(pool)]
    return [[list(rest), *([*rest, row] for row in pool)] for rest in kept]


def arrow(tables: Iterable[Sequence[Row]]) -> pa.Table:
    columns: dict[str, list[object]] = {name: [] for name in ("id", *TYPES)}
    for place, rows in enumerate(tables):
        for row in rows:
            given = dict(row)
            columns["id"].append(place)
            for name in TYPES:
                columns[name].append(given.get(name))
    kinds = {"id": pa.int64()} | TYPES
    return pa.table({name: pa.array(values, kinds[name]) for name, values in columns.items()})


def catalog(unit: str, neighbors: Neighbors, columns: Sequence[Column] = tuple(COLUMNS)) -> Catalog:
    return Catalog("d", [Table("t", columns, unit=Unit("p" if unit == "person" else None))], neighbors=neighbors)


def release_of(one: Form, unit: str, neighbors: Neighbors, bounds: tuple[int, int] = (1, 1)) -> Release:
    groups, rows = bounds if unit == "person" else (None, None)
    terms = Terms(epsilon=1, delta=one.delta, groups=groups, rows=rows)
    (found,) = plan([one.sql], catalog(unit, neighbors), terms).releases
    return found


@dataclass(frozen=True)
class Found:
    """For each table (axis 0), measure (axis 1) and group (axis 2) the exact number; and the units of each group."""

    measures: np.ndarray
    units: np.ndarray


@cache
def loaded(one: Form, unit: str) -> tuple[duckdb.DuckDBPyConnection, list[int]]:
    """All tables of a form in one connection, and how many there are in each neighborhood."""
    around = neighborhoods(one, unit)
    connection = duckdb.connect(":memory:", config={"threads": 1})
    rows = arrow(chain.from_iterable(around))
    connection.register("given", rows)
    connection.execute("CREATE TABLE every AS FROM given")
    connection.execute(f"CREATE TABLE ids AS SELECT range AS id FROM range({sum(map(len, around))})")
    return connection, [len(tables) for tables in around]


def read(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql, params={"salt": SALT} if "$salt" in sql else None).to_arrow_table()


def run_all(one: Form, unit: str, release: Release) -> list[Found]:
    """What the generated SQL finds in each table, one neighborhood after the other."""
    connection, sizes = loaded(one, unit)
    columns = ", ".join(TYPES)
    inner = f'WITH "t" AS (SELECT {columns} FROM every WHERE every.id = ids.id) {write(release.aggregate)}'
    found = read(connection, f"SELECT ids.id AS id, found.* FROM ids, LATERAL ({inner}) AS found")
    whole = vectors(release, found, found.column("id").to_numpy(), sum(sizes))
    ends = np.cumsum(sizes)[:-1]
    return [Found(*parts) for parts in zip(np.split(whole.measures, ends), np.split(whole.units, ends), strict=True)]


def vectors(release: Release, found: pa.Table, tables: np.ndarray, count: int) -> Found:
    """The measures over all groups, put where the product puts them: declared groups, or every key that was found."""
    if release.group.size is not None:
        size, alone = release.group.size, np.zeros(found.num_rows, np.int64)
        places = found.column("g").to_numpy() if release.group.keys else alone
        inside = np.ones(len(places), bool)
    else:
        keys = list(zip(*(found.column(f"k{i}").to_pylist() for i in range(len(release.group.keys))), strict=True))
        known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        places, inside = np.array([known[key] for key in keys], np.int64), np.ones(len(keys), bool)
        size = len(known)
    measures = np.zeros((count, len(release.aggregate.measures), size), np.int64)
    units = np.zeros((count, size), np.int64)
    for i in range(measures.shape[1]):
        measures[tables[inside], i, places] = found.column(f"m{i}").to_numpy()[inside]
    units[tables[inside], places] = found.column("units").to_numpy()[inside]
    return Found(measures, units)


# --- the check ------------------------------------------------------------------------------------------------------


def differences(values: np.ndarray, neighbors: Neighbors) -> np.ndarray:
    """By how much the first axis moves: from the table without the unit, or between any two contents of it."""
    if neighbors is Neighbors.ADD_OR_REMOVE_ONE:
        return values[1:] - values[0]
    if not values.size:  # no group in any of the tables: nothing moves
        return np.zeros((1, *values.shape[1:]), values.dtype)
    distinct = np.unique(values, axis=0)  # equal answers differ by nothing
    return (distinct[:, None] - distinct[None, :]).reshape(-1, *values.shape[1:])


def largest_moves(found: Sequence[Found], measure: int, neighbors: Neighbors) -> tuple[int, int]:
    """The largest move of one measure that was seen: in ℓ1, and in ℓ2 squared."""
    moved = [differences(one.measures[:, measure], neighbors) for one in found]
    return max(int(np.abs(d).sum(-1).max()) for d in moved), max(int((d**2).sum(-1).max()) for d in moved)


Of = Callable[[Measure, Bound, Neighbors], relations.Sensitivity]


def check(one: Form, unit: str, bounds: tuple[int, int] = (1, 1), of: Of = relations.sensitivity_of) -> None:
    release = release_of(one, unit, ADD, bounds)
    found = run_all(one, unit, release)
    for neighbors in BOTH:
        planned = release_of(one, unit, neighbors, bounds)
        assert write(planned.aggregate) == write(release.aggregate)
        bound = planned.aggregate.source
        for place, measure in enumerate(planned.aggregate.measures):
            stated = of(measure, bound, neighbors)
            l1, squared = largest_moves(found, place, neighbors)
            where = f"{measure}, {neighbors}, {unit}, bounds {bounds}"
            assert l1 <= stated.l1, f"{where}: moved by {l1} in ℓ1, stated {stated.l1}"
            assert squared <= stated.l2_squared, f"{where}: moved by {squared} in ℓ2², stated {stated.l2_squared}"
            if neighbors in one.tight and attainable(bound, neighbors, found[0].units.shape[1]):
                assert l1 == stated.l1, f"{where}: stated {stated}, but nothing moves it by more than {l1}"
                assert squared == stated.l2_squared, f"{where}: stated {stated}, but {squared} is the most"
        check_units(found, relations.keys_changed(bound, neighbors), neighbors)
        check_noise(planned, neighbors)


def attainable(bound: Bound, neighbors: Neighbors, groups: int) -> bool:
    """Where keys come from the data, a change moves 2·G groups only if there are so many in these tables."""
    return neighbors is ADD or bound.source.size is not None or groups >= 2 * bound.groups


def check_units(found: Sequence[Found], keys: int, neighbors: Neighbors) -> None:
    for one in found:
        moved = differences(one.units, neighbors)
        assert np.abs(moved).max(initial=0) <= 1
        assert (moved != 0).sum(-1).max(initial=0) <= keys


def check_noise(release: Release, neighbors: Neighbors) -> None:
    """The mechanisms of the plan are made for what was just found to hold."""
    bound = release.aggregate.source
    for measure, noise in zip(release.aggregate.measures, release.noises, strict=True):
        stated = relations.sensitivity_of(measure, bound, neighbors)
        enough = (
            noise.sensitivity >= stated.l1
            if isinstance(noise, Geometric)
            else noise.squared_sensitivity >= stated.l2_squared
        )
        assert enough
    assert (release.selection is None) == (release.group.size is not None)
    if release.selection is not None:
        assert release.selection.keys >= relations.keys_changed(bound, neighbors)


DIFFERENT = [
    form("SELECT COUNT(DISTINCT x) FROM t", tight=[ADD], x=X, longest=4),
    form("SELECT COUNT(DISTINCT city) FILTER (WHERE flag) FROM t", city=("oslo", "", "rome", None), flag=(True, None)),
    form("SELECT g, COUNT(DISTINCT x) FROM t GROUP BY g", g=G, x=(-9, 0, 1, None)),
    form("SELECT city, COUNT(DISTINCT d) FROM t GROUP BY city", delta="1e-3", city=("oslo", "rome"), d=(DAYS[0], DAYS[1], None)),
    form("SELECT COUNT(DISTINCT q) FROM t", q=(NAN, -0.0, 0.0, INF, None)),
]  # fmt: skip


def different(one: Form, unit: str, release: Release) -> list[Found]:
    """The numbers of different values in each group of each table."""
    if unit == "row":
        return run_all(one, unit, release)
    connection, sizes = loaded(one, unit)
    inner = f'WITH "t" AS (SELECT {", ".join(TYPES)} FROM every WHERE every.id = ids.id) {write_distinct(release.aggregate, 0)}'
    found = read(
        connection, f"SELECT ids.id AS id, found.*, found.c AS m0, 1 AS units FROM ids, LATERAL ({inner}) AS found"
    )
    whole = vectors(release, found, found.column("id").to_numpy(), sum(sizes))
    ends = np.cumsum(sizes)[:-1]
    return [Found(*parts) for parts in zip(np.split(whole.measures, ends), np.split(whole.units, ends), strict=True)]


@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("one", DIFFERENT, ids=lambda one: one.sql)
def test_numbers_of_different_values_move_by_no_more_than_stated(one: Form, unit: str) -> None:
    for bounds in (BOUNDS if one.grouped else [(1, 1), (1, 2), (1, 3)]) if unit == "person" else [(1, 1)]:
        for neighbors in BOTH:
            release = release_of(one, unit, neighbors, bounds)
            (measure,), bound = release.aggregate.measures, release.aggregate.source
            stated = relations.sensitivity_of(measure, bound, neighbors)
            l1, squared = largest_moves(different(one, unit, release), 0, neighbors)
            where = f"{neighbors}, {unit}, bounds {bounds}"
            assert l1 <= stated.l1, where
            assert squared <= stated.l2_squared, where
            if neighbors in one.tight:
                assert (l1, squared) == (stated.l1, stated.l2_squared), where
            check_noise(release, neighbors)


RANKED = [
    form("SELECT QUANTILE_CONT(x, 0.25), MEDIAN(x), MIN(x), MAX(x) FROM t", tight=[ADD], x=X, longest=4),
    form("SELECT MEDIAN(r) FILTER (WHERE flag), QUANTILE_DISC(r, 1) FROM t", r=(NAN, -INF, 0.3, None), flag=(True, None)),
    form("SELECT g, PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x), MAX(x) FROM t GROUP BY g", tight=[ADD], g=G, x=(-9, 1, 9, None)),
    form("SELECT city, MEDIAN(x), MIN(x) FROM t GROUP BY city", delta="1e-3", city=("oslo", "rome", None), x=(-9, 9)),
]  # fmt: skip


def multisets(one: Form, unit: str, release: Release, index: int) -> list[np.ndarray]:
    """How often each value is in each group of each table (axes: table, group, value), a neighborhood each."""
    connection, sizes = loaded(one, unit)
    inner = f'WITH "t" AS (SELECT {", ".join(TYPES)} FROM every WHERE every.id = ids.id) '
    inner += write_values(release.aggregate, index)
    found = read(connection, f"SELECT ids.id AS id, found.* FROM ids, LATERAL ({inner}) AS found")
    distribution = release.aggregate.distributions[index]
    if release.group.size is None:
        keys = found.column("k0").to_pylist()
        known = {key: place for place, key in enumerate(dict.fromkeys(keys))}
        places, size = np.array([known[key] for key in keys], np.int64), max(1, len(known))
    else:
        size = release.group.size
        places = found.column("g").to_numpy() if release.group.keys else np.zeros(found.num_rows, np.int64)
    whole = np.zeros((sum(sizes), size, distribution.points), np.int64)
    lower = 0 if isinstance(distribution, relations.Frequencies) else distribution.kind.lower
    steps = found.column("v").to_numpy() - lower
    np.add.at(whole, (found.column("id").to_numpy(), places, steps), found.column("c").to_numpy())
    return np.split(whole, np.cumsum(sizes)[:-1])


def scores(counts: np.ndarray, mechanism: GroupedQuantile) -> np.ndarray:
    """Of each point, minus the distance of its ranks to the one wanted, times the denominator of the probability."""
    upto = counts.cumsum(-1)
    share, parts = mechanism.probability.numerator, mechanism.probability.denominator
    wanted = share * upto[..., -1:] + mechanism.shift * parts
    low, high = parts * (upto - counts) - wanted, wanted - parts * upto
    if mechanism.shift < 0:
        low[..., 0] = 0
    if mechanism.shift > 0:
        high[..., -1] = 0
    return -np.maximum(0, np.maximum(low, high))


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("one", RANKED, ids=lambda one: one.sql)
def test_ranks_move_by_no_more_than_stated(one: Form, unit: str) -> None:
    """All neighbors: a unit has at most `rows` values in a group, and moves the scores of points as far as was proved."""
    for bounds in (BOUNDS if one.grouped else [(1, 1), (1, 2), (1, 3)]) if unit == "person" else [(1, 1)]:
        for neighbors in BOTH:
            release = release_of(one, unit, neighbors, bounds)
            moves = dict.fromkeys(range(len(release.choices)), Fraction(0))
            found = [multisets(one, unit, release, i) for i in range(len(release.aggregate.distributions))]
            for place, choice in enumerate(release.choices):
                for counts in found[choice.distribution]:
                    rows = (
                        release.aggregate.source.rows
                        if release.aggregate.distributions[choice.distribution].keep == "even"
                        else 1
                    )
                    assert np.abs(counts[1:].sum(-1) - counts[0].sum(-1)).max(initial=0) <= rows
                    whole = differences(counts, neighbors)
                    bins = relations.tally_sensitivity(release.aggregate.source, neighbors)
                    assert np.abs(whole).sum((-2, -1)).max(initial=0) <= bins
                    moved = differences(scores(counts, choice.mechanism), neighbors)
                    most = int(np.abs(moved).max(-1).sum(-1).max(initial=0))
                    moves[place] = max(moves[place], Fraction(most, choice.mechanism.probability.denominator))
            for place, choice in enumerate(release.choices):
                where = f"{choice}, {neighbors}, {unit}, bounds {bounds}"
                assert moves[place] <= choice.mechanism.sensitivity, where
                if neighbors in one.tight and choice.mechanism.shift == 0:
                    assert moves[place] == choice.mechanism.sensitivity, where


FREQUENT = [
    form("SELECT MODE(g), MODE(flag) FROM t", tight=[ADD], g=G, flag=(True, False, None), longest=3),
    form("SELECT APPROX_TOP_K(x, 2), MODE(x) FILTER (WHERE flag) FROM t", tight=BOTH, x=X, flag=(True, None), longest=3),
    form("SELECT g, MODE(k) FROM t GROUP BY g", tight=[ADD], g=G, k=(-9, 1, 9, None)),
    form("SELECT MODE(DATE_TRUNC('month', e)), MODE(d), MODE(r) FROM t", e=(*DAYS, None), d=(DAYS[0], DAYS[2]), r=(NAN, 0.3)),
    form("SELECT MODE(CASE WHEN x > 0 THEN 'high' WHEN x < 0 THEN 'low' END) FROM t", tight=BOTH, x=X, longest=4),
    form("SELECT city, MODE(g) FROM t GROUP BY city", delta="1e-3", city=("oslo", "rome", None), g=("a", "b", "z")),
]  # fmt: skip


@pytest.mark.quick_cases(6)
@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("one", FREQUENT, ids=lambda one: one.sql)
def test_counts_of_frequent_values_move_by_no_more_than_stated(one: Form, unit: str) -> None:
    """All neighbors: all counts of values together move as far as was proved; what was not declared counts nowhere."""
    for bounds in (BOUNDS if one.grouped else [(1, 1), (1, 2), (1, 3)]) if unit == "person" else [(1, 1)]:
        for neighbors in BOTH:
            release = release_of(one, unit, neighbors, bounds)
            most = 0
            for top in release.tops:
                for counts in multisets(one, unit, release, top.distribution):
                    moved = np.abs(differences(counts, neighbors)).sum((-2, -1))
                    most = max(most, int(moved.max(initial=0)))
                assert most <= top.mechanism.sensitivity, f"{top}, {neighbors}, {unit}, bounds {bounds}"
            stated = release.tops[0].mechanism.sensitivity
            if neighbors in one.tight:
                assert most == stated, f"{neighbors}, {unit}, bounds {bounds}"
            assert release.losses(neighbors)


@pytest.mark.parametrize("neighbors", BOTH, ids=str)
@pytest.mark.parametrize(("sql", "places"), [("SELECT MODE(g) FROM t", 1), ("SELECT APPROX_TOP_K(k, 2) FROM t", 2)])
def test_the_laws_of_frequent_values_are_within_e_to_the_epsilon(sql, places, neighbors) -> None:
    """The exact law of the chosen values, from the rows of every pair of neighbors: no ratio above e^ε, and near it."""
    one = form(sql, g=G, longest=3) if places == 1 else form(sql, k=(-9, 1, 9, None), longest=3)
    release = release_of(one, "person", neighbors, (1, 2))
    (top,) = release.tops
    worst = 0.0
    for counts in multisets(one, "person", release, 0):
        tables = np.unique(counts[1:, 0], axis=0)
        others = counts[:1, 0] if neighbors is ADD else tables
        for mine, theirs in product(tables, others):
            law, base = dict(top.mechanism.probabilities(mine)), dict(top.mechanism.probabilities(theirs))
            worst = max(worst, *(abs(math.log(law[key] / base[key])) for key in law))
    assert top.mechanism.places == places
    assert 0.35 * float(top.mechanism.epsilon) < worst <= float(top.mechanism.epsilon) + 1e-9


@pytest.mark.quick_cases(24)
@pytest.mark.parametrize("one", ROW_FORMS, ids=lambda one: one.sql)
def test_one_row(one: Form) -> None:
    check(one, "row")


@pytest.mark.quick_cases(7)
@pytest.mark.parametrize("one", FORMS, ids=lambda one: one.sql)
def test_one_person(one: Form) -> None:
    for bounds in BOUNDS if one.grouped else [(1, 1), (1, 2), (1, 3)]:
        check(one, "person", bounds)


@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("wrong", [
    lambda s: relations.Sensitivity(s.l1 - 1, s.l2_squared),
    lambda s: relations.Sensitivity(s.l1, s.l2_squared - 1),
], ids=["ℓ1", "ℓ2²"])  # fmt: skip
@pytest.mark.parametrize(
    "sql",
    ["SELECT SUM(x) FROM t", "SELECT g, COUNT(*) FROM t GROUP BY g", "SELECT city, COUNT(*) FROM t GROUP BY city"],
)
def test_the_check_rejects_a_smaller_bound(sql: str, wrong, unit: str) -> None:
    """The enumeration notices a sensitivity that is too small by one."""
    one = next(one for one in FORMS if one.sql == sql)
    with pytest.raises(AssertionError, match=": moved by"):
        check(one, unit, (1, 2), lambda *given: wrong(relations.sensitivity_of(*given)))


# --- the way it is run ----------------------------------------------------------------------------------------------


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("one", ROW_FORMS[::5], ids=lambda one: one.sql)
def test_many_tables_at_once_is_one_after_the_other(one: Form, unit: str) -> None:
    """The product's own engine, given one table, finds what the LATERAL join found in it."""
    release = release_of(one, unit, ADD, (2, 2))
    everything = run_all(one, unit, release)
    around = neighborhoods(one, unit)
    for hood, table in [(0, 0), (0, 1), (-1, 0), (-1, len(around[-1]) // 2), (-1, -1)]:
        rows = around[hood][table]
        with DuckDBEngine(catalog(unit, ADD), {"t": arrow([rows])}) as engine:
            found = engine.fetch(write(release.aggregate), salt=SALT)
        if release.group.size is None:
            assert sorted(found.column("units").to_pylist()) == sorted(u for u in everything[hood].units[table] if u)
        else:
            exact = vectors(release, found, np.zeros(found.num_rows, np.int64), 1)
            assert (exact.measures[0] == everything[hood].measures[table]).all()


def test_rows_of_nobody_count_nowhere() -> None:
    """A row without an id belongs to no unit, so nothing would bound it."""
    one = FORMS[22]
    release = release_of(one, "person", ADD, (2, 2))
    rows = [(("p", None), *row) for row in one.pool]
    with DuckDBEngine(catalog("person", ADD), {"t": arrow([rows])}) as engine:
        assert sum(engine.fetch(write(release.aggregate)).column("units").to_pylist()) == 0


PEOPLE = st.dictionaries(
    st.integers(-3, 12),
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "z", None]),
            st.sampled_from(["oslo", "rome", "", None]),
            st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-3, 5)),
            st.one_of(st.none(), st.floats(), st.floats(-1, 2)),
        ),
        max_size=25,
    ),
    min_size=1,
    max_size=8,
)
MIXED = "SELECT {keys}, COUNT(*), COUNT(r), COUNT(DISTINCT p), SUM(x), AVG(r), SUM(x * x) FROM t GROUP BY {keys}"


@settings(max_examples=25)
@example({0: []}, [], "city", 1, 1)  # nobody has a row
@given(PEOPLE, st.lists(st.sampled_from(["a", "b", "z", None]), max_size=30), st.sampled_from(["g", "city", "g, city"]),
       st.integers(1, 3), st.integers(1, 4))  # fmt: skip
def test_larger_tables(people, other, keys, groups, rows) -> None:
    """Any person among several, with many rows of any numbers: out, or replaced by other rows."""
    one = form(MIXED.format(keys=keys), delta="1e-3", x=(0,))
    release = release_of(one, "person", ADD, (groups, rows))

    def table(persons):
        return [
            tuple(zip(("p", "g", "city", "x", "r"), (i, *row), strict=True))
            for i, mine in persons.items()
            for row in mine
        ]

    first = next(iter(people))
    replaced = people | {first: [(g, "oslo", 9, 0.4) for g in other]}
    tables = [table({i: mine for i, mine in people.items() if i != first}), table(people), table(replaced)]
    found = fetched(release, tables)
    for neighbors in BOTH:
        bound = release.aggregate.source
        for place, measure in enumerate(release.aggregate.measures):
            stated = relations.sensitivity_of(measure, bound, neighbors)
            l1, squared = largest_moves([found], place, neighbors)
            assert l1 <= stated.l1
            assert squared <= stated.l2_squared
        check_units([found], relations.keys_changed(bound, neighbors), neighbors)


# --- any expression -------------------------------------------------------------------------------------------------

ATOMS = st.sampled_from(
    ["x", "k", "r", "0", "1", "2.5", "-3", "LEAST(GREATEST(w, -4), 9)", "LEAST(LENGTH(city), 3)", "MONTH(d)"]
)
TESTS = st.sampled_from(
    ["flag", "x > 0", "r <= 0.3", "q > 0", "city LIKE 'o%'", "w IS NULL", "NOT flag", "k IN (1, 2)", "g = 'a'"]
)


def deeper(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    two = st.tuples(inner, inner)
    one = st.sampled_from(["-({})", "ABS({})", "FLOOR({})", "CEIL({})", "ROUND({})", "ROUND({}, 1)", "ROUND({}, -1)", "({}) / 4",
                           "({}) % 3", "({}) // 2", "({}) * 1.5", "CAST({} AS INTEGER)", "({}) / -0.5"])  # fmt: skip
    both = st.sampled_from(
        ["({}) + ({})", "({}) - ({})", "({}) * ({})", "LEAST({}, {})", "GREATEST({}, {})", "COALESCE({}, {})"]
    )
    return st.one_of(
        st.builds(lambda text, a: text.format(a), one, inner),
        st.builds(lambda text, pair: text.format(*pair), both, two),
        st.builds(lambda test, pair: f"CASE WHEN {test} THEN {pair[0]} ELSE {pair[1]} END", TESTS, two),
        st.builds(lambda test, a: f"CASE WHEN {test} THEN {a} END", TESTS, inner),
    )


HARD = list(product((-(2**63), -1, 1, 2**63 - 1, None), (NAN, -INF, 0.25, 0.75, 1e308, None), (True, None)))
HARD_ROWS = [
    (("p", i), ("w", i - 30), ("x", n), ("k", n), ("r", r), ("q", r), ("flag", flag), ("city", ("oslo", "", None)[i % 3]),
     ("g", ("a", "z", None)[i % 3]), ("d", (DAYS[i % 4], None)[i % 2]))
    for i, (n, r, flag) in enumerate(HARD)
]  # fmt: skip


@settings(max_examples=80, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.recursive(ATOMS, deeper, max_leaves=6))
def test_any_expression_stays_within_its_range_and_never_fails(text: str) -> None:
    """One group a row (w tells them apart): each row's value is null or within the range that the plan scales noise to."""
    one = form(f"SELECT w, SUM({text}) FROM t GROUP BY w", delta="1e-3", x=(0,))
    try:
        release = release_of(one, "row", ADD)
    except InvalidQuery:
        assume(False)
    (measure,) = release.aggregate.measures
    shared_connection().register("t", arrow([HARD_ROWS]).drop_columns("id"))
    found = read(shared_connection(), write(release.aggregate)).column("m0").to_pylist()
    shared_connection().unregister("t")
    kind = measure.kind
    assert len(found) == len(HARD_ROWS)
    assert min(0, kind.lower) <= min(found)
    assert max(found) <= max(0, kind.upper)


def fetched(release: Release, tables: Sequence[Sequence[Row]]) -> Found:
    """What the generated SQL finds in a few tables, one query each."""
    connection = shared_connection()
    parts = []
    for place, rows in enumerate(tables):
        connection.register("t", arrow([rows]).drop_columns("id"))
        found = read(connection, write(release.aggregate))
        parts.append(found.append_column("id", pa.array([place] * found.num_rows, pa.int64())))
        connection.unregister("t")
    whole = pa.concat_tables(parts)
    return vectors(release, whole, whole.column("id").to_numpy(), len(tables))


@cache
def shared_connection() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(":memory:", config={"threads": 1})


# --- promises that the data break -----------------------------------------------------------------------------------


def moved_by_a_person(sql: str, columns: Sequence[Column], unit: Unit, rows: dict[str, object]) -> tuple[int, int]:
    """By how much the last row's unit moves a sum, and what is stated for it."""
    tables = Table("t", columns, unit=unit)
    terms = Terms(epsilon=1, groups=1, rows=1) if unit.key else Terms(epsilon=1)
    (release,) = plan([sql], Catalog("d", [tables], neighbors=ADD), terms).releases
    whole = pa.table(rows)
    totals = []
    for table in (whole, whole.slice(0, whole.num_rows - 1)):
        with DuckDBEngine(Catalog("d", [tables], neighbors=ADD), {"t": table}) as engine:
            totals.append(engine.fetch(write(release.aggregate)).column("m0").to_pylist()[0])
    return abs(totals[0] - totals[1]), relations.sensitivity_of(
        release.aggregate.measures[0], release.aggregate.source, ADD
    ).l1


INTERNAL = ["k0", "v0", "t0", "n", "units", "m0", "one", "c", "hash", "u", "U"]


@pytest.mark.parametrize("name", INTERNAL)
def test_no_column_is_taken_for_another_by_its_name(name: str) -> None:
    """The generated SQL has names of its own; a private column may have the same."""
    columns = [Column("p", "integer"), Column(name, "integer", lower=0, upper=1)]
    rows = {"p": [1, 2, 900_000], name: [0, 1, 1]}
    moved, stated = moved_by_a_person(f'SELECT SUM("{name}") FROM t', columns, Unit("p"), rows)
    assert moved <= stated == 1


@pytest.mark.parametrize("never_null", [
    (Column("c", "integer", lower=0, upper=10, nullable=False), pa.array([3, 3, None], pa.int64())),
    (Column("c", "real", lower=0, upper=10, granularity=1, nullable=False), pa.array([3.0, 3.0, NAN])),
], ids=["null", "NaN"])  # fmt: skip
@pytest.mark.parametrize("sql", [
    "SELECT SUM(LEAST(GREATEST(w, 0), c)) FROM t",
    "SELECT SUM(GREATEST(LEAST(w, 0), -c)) FROM t",
    "SELECT SUM(COALESCE(c, 2) + c * c) FROM t",
])  # fmt: skip
def test_a_null_where_the_policy_says_never_null_costs_accuracy_only(never_null, sql: str) -> None:
    column, values = never_null
    for w in (10**12, -(10**12)):
        rows = {"w": pa.array([1, 2, w]), "c": values}
        moved, stated = moved_by_a_person(sql, [Column("w", "integer"), column], Unit(), rows)
        assert moved <= stated


# --- exact ε --------------------------------------------------------------------------------------------------------


def law(noise: Geometric, value: int, reach: int) -> np.ndarray:
    """P(value + noise = z) for z from −reach to reach."""
    return np.array([noise.probability(z - value) for z in range(-reach, reach + 1)])


@pytest.mark.quick_cases(5)
@pytest.mark.parametrize("unit", ["row", "person"])
@pytest.mark.parametrize("neighbors", BOTH, ids=str)
@pytest.mark.parametrize(("sql", "values"), [
    ("SELECT COUNT(*) FROM t WHERE flag", {"flag": (True, False, None)}),
    ("SELECT SUM(CASE WHEN flag THEN x ELSE -x END) FROM t", {"flag": (True, False), "x": (-9, 9, None)}),
    ("SELECT s, COUNT(*) FROM t GROUP BY s", {"s": ("a", "b", "z")}),
])  # fmt: skip
def test_the_laws_of_neighbors_are_within_e_to_the_epsilon(sql, values, neighbors, unit) -> None:
    """Exact output distributions, every pair of neighbors: no ratio above e^ε; and ε is attained where stated."""
    one = form(sql, **values)
    release = release_of(one, unit, neighbors, (1, 2))
    (noise,) = release.noises
    assert isinstance(noise, Geometric)
    worst = 0.0
    for found in run_all(one, unit, release):
        answers = np.unique(found.measures[:, 0], axis=0)
        start = found.measures[:1, 0] if neighbors is ADD else answers
        for mine, theirs in product(answers, start):
            ratio = 0.0
            for a, b in zip(mine, theirs, strict=True):  # independent noise: ratios multiply, each has its own worst z
                p, q = law(noise, int(a), 40), law(noise, int(b), 40)
                ratio += float(np.log(p / q).max())
            worst = max(worst, ratio)
    assert worst <= float(noise.epsilon) + 1e-9
    assert worst == pytest.approx(float(noise.epsilon), rel=1e-9)


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("neighbors", BOTH, ids=str)
@pytest.mark.parametrize("bounds", [(1, 1), (2, 1)])
def test_selected_keys_and_their_counts_are_within_epsilon_and_delta(neighbors, bounds) -> None:
    """The joint law of kept keys and noisy counts, exactly: its hockey-stick divergence at ε is at most δ."""
    one = form("SELECT city, COUNT(*) FROM t GROUP BY city", delta="0.002", city=("oslo", "rome"))
    groups, rows = bounds
    terms = Terms(epsilon=2, delta="0.002", groups=groups, rows=rows)
    planned = plan([one.sql], catalog("person", neighbors), terms)
    (release,) = planned.releases
    selection, (noise,) = release.selection, release.noises
    assert selection is not None
    total = float(planned.epsilon)
    assert total == 2
    assert planned.delta == Fraction("0.002")

    @cache
    def key(units: int, count: int) -> np.ndarray:
        """Dropped, or kept with a noisy count."""
        keep = float(selection.keep(units))
        return np.concatenate([[1 - keep], keep * law(noise, count, 60)])

    def joint(table: int) -> np.ndarray:
        """Keys are independent of one another."""
        pairs = zip(found.units[table].tolist(), found.measures[table, 0].tolist(), strict=True)
        return np.multiply.outer(*(key(*pair) for pair in pairs))

    tables = [[(("p", i), ("city", city)) for i, city in rows] for rows in crowds()]
    found = fetched(release, tables)
    assert found.units.shape[1] == 2
    seen = 0.0
    for i, j in neighboring(tables, neighbors):
        p, q = joint(i), joint(j)
        spent = float(np.maximum(p - math.exp(total) * q, 0).sum())
        assert spent <= 0.002 + 1e-9
        seen = max(seen, spent)
    assert seen >= 0.002 / selection.keys - 1e-6  # a key of one person alone is named with probability δ/keys


def crowds() -> list[list[tuple[int, str]]]:
    """Persons 1 to 3, each with no city, one, or both."""
    cities = [(), ("oslo",), ("rome",), ("oslo", "rome")]
    return [[(i, city) for i, mine in enumerate(held, 1) for city in mine] for held in product(cities, repeat=3)]


def neighboring(tables: Sequence[Sequence[Row]], neighbors: Neighbors) -> list[tuple[int, int]]:
    """Pairs that differ in one person: out or in, or changed."""
    held = [{i: frozenset(row for row in rows if row[0] == ("p", i)) for i in (1, 2, 3)} for rows in tables]
    pairs = []
    for i, j in product(range(len(tables)), repeat=2):
        changed = [p for p in (1, 2, 3) if held[i][p] != held[j][p]]
        if len(changed) == 1 and (neighbors is CHANGE or not held[i][changed[0]] or not held[j][changed[0]]):
            pairs.append((i, j))
    return pairs
