"""What comes out of a question depends on noisy numbers and choices alone, byte for byte.

With the noise and the names that are selected held fixed, everything that leaves the gate is the same for any private
table, in whatever order an engine returns its groups: the bytes that are kept, the tables, their order, the intervals,
the notes and the receipts.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from itertools import count
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import GroupedQuantile
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan

PRIVATE = [
    Column("p", "integer"),
    Column("ward", "text", values=["north", "south", "west"]),
    Column("city", "text"),
    Column("day", "date"),
    Column("code", "integer"),
    Column("x", "integer", lower=0, upper=9),
    Column("flag", "boolean"),
]
KNOWN = Catalog(
    "clinic",
    [
        Table("visits", PRIVATE, unit=Unit("p"), groups=9, rows=2),
        Table("wards", [Column("ward", "text"), Column("beds", "integer")], unit=None),
    ],
    neighbors="add or remove one",
)
WARDS = pa.table({"ward": ["north", "south"], "beds": [12, 9]})
CITIES = ["Zürich", "oslo", "", "Bern", "ÅL", None]
"""Six cities that many people have: these are selected. Any others are not."""
MANY = 3


def table(people: Sequence[int], *, extra: Sequence[str] = (), order: int = 1, x: int = 1) -> pa.Table:
    """Everybody in every common city; people in `extra` cities alone; rows forwards, or backwards, or far apart."""
    rows = [(p, ["north", "south", None][p % 3], city, date(2024, 1 + i, 1), i - 2, x + p % 4, True)
            for p in people for i, city in enumerate(CITIES)]  # fmt: skip
    rows += [(1000 + i, "west", city, date.fromordinal(700_000 + i), 77 + i, 9, None) for i, city in enumerate(extra)]
    rows = rows[::order] if order in (1, -1) else [row for start in range(order) for row in rows[start::order]]
    types = [pa.int64(), pa.string(), pa.string(), pa.date32(), pa.int64(), pa.int64(), pa.bool_()]
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=[c.name for c in PRIVATE])


TABLES = [
    table(range(3)),
    table(range(4)),  # one more person
    table(range(3), order=-1),
    table(range(50), order=7, x=5),
    table([5, 9, 12, 400], extra=["aaa", "zzz", "Bergen"], order=5),
    table(range(2000, 2400), extra=[f"town {i}" for i in range(300)], order=11),
]

QUESTIONS: dict[str, list[str]] = {
    "one number": ["SELECT COUNT(*) AS n, AVG(x) AS m FROM visits"],
    "declared groups": ["SELECT ward, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m FROM visits GROUP BY ward"],
    "people": ["SELECT ward, COUNT(DISTINCT p) AS n FROM visits GROUP BY ward"],
    "selected texts": ["SELECT city, COUNT(*) AS n, AVG(x) AS m FROM visits GROUP BY city"],
    "selected people": ["SELECT city, COUNT(DISTINCT p) AS n FROM visits GROUP BY city"],
    "different values": ["SELECT city, COUNT(DISTINCT ward) AS w, COUNT(DISTINCT x) AS n FROM visits GROUP BY city"],
    "histograms": ["SELECT city, HISTOGRAM(x, [2, 5]) AS h FROM visits GROUP BY city"],
    "quantiles": ["SELECT ward, MEDIAN(x) AS m, MAX(x) AS h FROM visits GROUP BY ward"],
    "selected quantiles": ["SELECT city, QUANTILE_CONT(x, [0.1, 0.9]) AS q, MIN(x) AS n FROM visits GROUP BY city"],
    "names alone": ["SELECT city FROM visits GROUP BY city"],
    "selected numbers": ["SELECT code, COUNT(*) AS n FROM visits GROUP BY code"],
    "selected days": ["SELECT day, SUM(x) AS s FROM visits GROUP BY day"],
    "ties": ["SELECT city, COUNT(*) AS n FROM visits GROUP BY city ORDER BY n - n"],
    "the largest": ["SELECT city, COUNT(*) AS n FROM visits GROUP BY city ORDER BY n DESC, city LIMIT 3"],
    "first": ["SELECT city, COUNT(*) AS n FROM visits GROUP BY city LIMIT 2"],
    "shares": ["SELECT city, n / SUM(n) OVER () AS share FROM (SELECT city, COUNT(*) AS n FROM visits GROUP BY city)"],
    "public": [
        "SELECT beds, n FROM wards JOIN (SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward) AS i USING (ward)"
    ],
    "a join": [
        "SELECT a.city, COUNT(*) AS n, AVG(b.x) AS m FROM visits a LEFT JOIN visits b ON a.p = b.p AND a.city = b.city GROUP BY a.city"
    ],
    "a join of a public table": [
        "SELECT city, COUNT(*) AS n, COUNT(beds) AS b FROM visits LEFT JOIN wards ON visits.ward = wards.ward GROUP BY city"
    ],
    "all of a FULL join": [
        "SELECT COUNT(*) AS n FROM visits a FULL JOIN visits b ON a.p = b.p AND a.x > b.x WHERE a.p IS NOT NULL"
    ],
    "those who are in": [
        "SELECT city, COUNT(*) AS n FROM visits WHERE p IN (SELECT p FROM visits WHERE flag) AND NOT EXISTS "
        "(SELECT 1 FROM visits v WHERE v.p = visits.p AND v.x > 99) GROUP BY city"
    ],
    "counts of people": [
        "SELECT n, COUNT(*) AS m FROM (SELECT p, LEAST(COUNT(*), 9) AS n FROM visits GROUP BY p) GROUP BY n LIMIT 1"
    ],
    "means of people": [
        "SELECT AVG(n) AS m, MEDIAN(s) AS q FROM (SELECT p, COUNT(*) AS n, AVG(x) AS s FROM visits GROUP BY p)"
    ],
    "first visits": [
        "SELECT ward, COUNT(*) AS n FROM (SELECT ward, ROW_NUMBER() OVER (PARTITION BY p ORDER BY day) AS k FROM visits) "
        "WHERE k = 1 GROUP BY ward"
    ],
    "a union": [
        "SELECT g, COUNT(*) AS n FROM (SELECT p, city AS g FROM visits UNION ALL SELECT p, ward FROM visits) "
        "WHERE g IS NULL OR g NOT IN ('west', 'north', 'south') GROUP BY g"
    ],
    "totals": ["SELECT ward, flag, GROUPING(ward) AS g, COUNT(*) AS n FROM visits GROUP BY ROLLUP (ward, flag)"],
    "ends": ["SELECT city, COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM visits GROUP BY city"],
    "several": [
        "SELECT city, COUNT(*) AS n FROM visits GROUP BY city",
        "SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward",
        "SELECT flag, code, COUNT(*) AS n FROM visits WHERE flag GROUP BY flag, code",
    ],
}


class Shuffled:
    """The real engine, which returns its rows in some other order."""

    dialect = "duckdb"

    def __init__(self, engine: DuckDBEngine, seed: int) -> None:
        self.engine, self.version, self.random = engine, "as it is", np.random.default_rng(seed)

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        found = self.engine.fetch(sql, salt=salt)
        if "visits" not in sql:
            return found
        return found.take(pa.array(self.random.permutation(found.num_rows)))


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Noisy numbers by their place, the same whatever the true ones are; names of groups that many people have."""
    started = count()

    def noisy(self: Any, value: Any, *, entropy: Any = None) -> Any:
        return np.arange(len(value)) * 37 % 11 + 100 + next(started)

    for kind in (Geometric, RoundedGaussian):
        monkeypatch.setattr(kind, "release", noisy)
    monkeypatch.setattr(OptimalSelection, "release", lambda self, units, *, entropy=None: np.asarray(units) >= MANY)
    chosen = lambda self, value, *, entropy=None: (np.arange(value.size) * 5 + next(started)) % self.points  # noqa: E731
    monkeypatch.setattr(GroupedQuantile, "release", chosen)

    def start() -> None:
        nonlocal started
        started = count()

    return start


def everything(texts: list[str], rows: pa.Table, seed: int, *, delta: str | None = "1e-6") -> list[Any]:
    """All that leaves the gate."""
    ledger = Ledger(MemoryStore(), clock=Clock())
    ledger.open("clinic", Budget(epsilon=10, delta="1e-3"))
    made = plan(texts, KNOWN, Terms(epsilon=1, delta=delta, groups=9))
    with DuckDBEngine(KNOWN, {"visits": rows, "wards": WARDS}) as engine:
        run = QueryPlan.run
        seen: list[Any] = []
        with patch.object(QueryPlan, "run", lambda *given: seen.append(run(*given)) or seen[0]):
            answers = Curator(KNOWN, Shuffled(engine, seed), ledger).release(made, analyst="ann")
    for answer in answers:
        ends = {name: [end.to_pylist() for end in pair] for name, pair in answer.intervals.items()}
        seen += [answer.table.to_pylist(), answer.table.schema, ends, answer.notes, answer.receipt]
        seen += [str(answer), answer._repr_html_(), answer.to_json()]
    return seen


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize("name", QUESTIONS)
def test_what_comes_out_depends_on_noisy_numbers_and_choices_alone(name: str, fixed: Any) -> None:
    found = []
    for seed, rows in enumerate(TABLES):
        fixed()
        found.append(everything(QUESTIONS[name], rows, seed))
    assert len(found[0][1]) >= 1
    for other in found[1:]:
        for first, here in zip(found[0], other, strict=True):
            assert here == first


def test_the_tables_differ_in_what_is_not_given_out(fixed: Any) -> None:
    """Without the fakes, they would not look alike: true counts, groups and orders of the engine all differ."""
    sql = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
    (release,) = plan([sql], KNOWN, Terms(epsilon=1, delta="1e-6")).releases
    seen = set()
    from discreet.sql.release.private_sql import write

    for rows in TABLES:
        with DuckDBEngine(KNOWN, {"visits": rows, "wards": WARDS}) as engine:
            found = engine.fetch(write(release.aggregate))
        seen.add((found.num_rows, tuple(found.column("units").to_pylist()[:6])))
    assert len(seen) >= 4


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ward, MAX(CASE WHEN ward = 'north' THEN 3 ELSE 7 END) AS v FROM visits GROUP BY ward",
        "SELECT city, QUANTILE_CONT(LEAST(GREATEST(code, -5), 99), 0.4) AS v FROM visits GROUP BY city",
    ],
)
def test_quantiles_stay_with_their_groups_in_any_order(sql: str) -> None:
    """With hardly any noise: the same table however the engine orders groups and values."""
    rows = table(range(60), x=0, order=7)
    seen = []
    for seed in (1, 2, 3):
        made = plan([sql], KNOWN, Terms(epsilon=10**5, delta="1e-3"))
        with DuckDBEngine(KNOWN, {"visits": rows, "wards": WARDS}) as engine:
            seen.append(made.releases[0].run(Shuffled(engine, seed), None))
    assert seen[0].equals(seen[1])
    assert seen[1].equals(seen[2])
    assert len(set(seen[0].column("q0").to_pylist())) > 1


@pytest.mark.parametrize("name", ["declared groups", "people", "selected texts", "selected numbers"])
def test_numbers_stay_with_their_groups_in_any_order(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without noise, and with all names: the same table however the engine orders what it found."""
    for kind in (Geometric, RoundedGaussian):
        monkeypatch.setattr(kind, "release", lambda self, value, *, entropy=None: value)
    monkeypatch.setattr(OptimalSelection, "release", lambda self, units, *, entropy=None: np.asarray(units) > 0)
    (first, second, third) = (everything(QUESTIONS[name], TABLES[4], seed)[1] for seed in (1, 2, 3))
    assert first == second == third
    assert len({row["n"] for row in first}) > 1
