"""How the cost of the curator grows with rows and with groups in each engine: one question with a count and a sum.

    python -m bench engines
    python -m bench.engines spark-2 1000000 --groups 1000    one point
    python -m bench.engines ledger                           charges a second over 32 connections

PostgreSQL is the server of `DISCREET_BENCH_POSTGRES`, the address of a database that may be written to: a schema
`discreet_bench` is made in it. Without it its lines are in trouble. Rows are made by another process, so "CPU" and
"peak MB" are the curator's own: with DuckDB, which works in its process, without servers and JVMs.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

SQL = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY g"
COLUMNS = "i // 4 AS patient, (i * 2654435761) % {groups} AS g, (i * 40503) % 1000 AS x"
ENGINES = {
    "duckdb": "DuckDB, in the curator",
    "postgres": "PostgreSQL",
    "spark-1": "Spark, 1 core",
    "spark-2": "Spark, 2 cores",
}
GROUPS, ROWS = 1000, 1_000_000
BY_ROWS, BY_GROUPS = f"rows, {GROUPS:,} groups", f"groups, {ROWS:,} rows"
_KEPT: list[Any] = []


def comparison(*, quick: bool) -> Comparison:
    """CPU and memory of the curator's process as rows and groups grow."""
    most = {"duckdb": 8, "postgres": 7, "spark-1": 7, "spark-2": 7}
    lines = [
        Contestant(BY_ROWS, _who(name, 10**power), point, {"name": name, "rows": 10**power, "groups": GROUPS})
        for name in ENGINES
        for power in range(5, 6 if quick else most[name] + 1)
    ]
    lines += [
        Contestant(BY_GROUPS, _who(name, groups), point, {"name": name, "rows": ROWS, "groups": groups})
        for name in ENGINES
        for groups in (() if quick else (10_000, 100_000))
    ]
    return Comparison(
        "engines",
        "Where the rows are: growth of the curator's cost",
        tuple(lines),
        () if quick else tuple(_bars()),
        rounds=1,
    )


def _who(name: str, size: int) -> str:
    return f"discreet, {ENGINES[name]}: {size:,}"


def _bars() -> list[Bar]:
    flat = [
        Bar(
            f"100 times the rows, at most {times} × the {words}",
            BY_ROWS,
            _who(name, 10**7),
            _who(name, 10**5),
            measure,
            at_most=times,
        )
        for name in ENGINES
        if name != "duckdb"
        for measure, words, times in (("cpu_s", "CPU", 3), ("peak_mb", "memory", 1.2))
    ]
    linear = [
        Bar("10 times the groups, at most 12 × the CPU", BY_GROUPS, _who(name, 100_000), _who(name, 10_000), at_most=12)
        for name in ENGINES
    ]
    return flat + linear


def point(name: str, rows: int, groups: int) -> Timed:
    """The exact aggregates of one question, fetched from an engine that is open and warm."""
    from discreet.curator.engines.dialects import dialect_of
    from discreet.sql.plan.planner import Terms, plan

    folder = tempfile.TemporaryDirectory(prefix="bench-engines-")
    engine = engine_of(name, rows, groups, Path(folder.name))
    _KEPT.extend((folder, engine))
    (release,) = plan([SQL], catalog(groups), Terms(epsilon=1)).releases
    (sql, *_) = release.statements(dialect_of(name.partition("-")[0]))
    engine.fetch("SELECT 1 AS one")

    def timed() -> dict[str, float]:
        start = time.perf_counter()
        found = engine.fetch(sql, salt="ab")
        return {"rows": rows, "groups": found.num_rows, "seconds": time.perf_counter() - start}

    return timed


def catalog(groups: int) -> Any:
    from discreet.curator.catalog import Catalog, Column, Table
    from discreet.privacy.unit import Unit

    columns = [
        Column("patient", "integer", nullable=False),
        Column("g", "integer", lower=0, upper=groups - 1, nullable=False),
        Column("x", "integer", lower=0, upper=999),
    ]
    visits = Table("visits", columns, unit=Unit("patient"), groups=2, rows=2)
    return Catalog("bench", [visits], neighbors="add or remove one")


def engine_of(name: str, rows: int, groups: int, folder: Path) -> Any:
    made = COLUMNS.format(groups=groups)
    if name == "postgres":
        return _postgres(made, rows, groups)
    file = folder / "visits.parquet"
    copy = f"COPY (SELECT {made} FROM range({rows}) t(i)) TO '{file}' (FORMAT parquet)"  # noqa: S608
    subprocess.run([sys.executable, "-c", f"import duckdb; duckdb.execute({copy!r})"], check=True)
    if name == "duckdb":
        from discreet.curator.engines.duckdb import DuckDBEngine

        return DuckDBEngine(catalog(groups), {"visits": str(file)})
    from discreet.curator.engines.spark import SparkEngine

    return SparkEngine(catalog(groups), {"visits": f"parquet:{file}"}, address=f"local[{name[-1]}]")


def _postgres(made: str, rows: int, groups: int) -> Any:
    import psycopg

    from discreet.curator.engines.postgres import PostgresEngine

    with psycopg.connect(_address(), autocommit=True) as server:
        server.execute("DROP SCHEMA IF EXISTS discreet_bench CASCADE")
        server.execute("CREATE SCHEMA discreet_bench")
        query = f"SELECT {made.replace('//', '/')} FROM generate_series(0::bigint, {rows - 1}) i"  # noqa: S608
        server.execute(f"CREATE UNLOGGED TABLE discreet_bench.visits AS {query}".encode())
        server.execute("ANALYZE discreet_bench.visits")
    return PostgresEngine(catalog(groups), {"visits": "discreet_bench.visits"}, address=_address())


def _address() -> str:
    if address := os.environ.get("DISCREET_BENCH_POSTGRES"):
        return address
    raise SystemExit("state the address of a PostgreSQL database in DISCREET_BENCH_POSTGRES")


# The shared ledger


def charges(connections: int = 32, seconds: float = 10) -> dict[str, float]:
    """Charges a second to one account from many connections, each a store of its own."""
    from discreet.curator.ledger import Ledger, digest
    from discreet.curator.stores.postgres import PostgresStore
    from discreet.privacy.budget import Budget
    from discreet.privacy.loss import Pure

    stores = [PostgresStore(_address()) for _ in range(connections)]
    ledgers = [Ledger(store) for store in stores]
    ledgers[0].open("bench", Budget(epsilon=10**9))
    charge: Callable[[Ledger], object] = lambda ledger: ledger.charge(  # noqa: E731
        "bench", analyst="ann", statement=digest("q"), loss=Pure("1/1000")
    )
    for ledger in ledgers:
        charge(ledger)
    start, cpu, counts = time.monotonic(), time.process_time(), [0] * connections

    def work(place: int) -> None:
        while time.monotonic() < start + seconds:
            charge(ledgers[place])
            counts[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wall, cpu = time.monotonic() - start, time.process_time() - cpu
    for store in stores:
        store.close()
    each = {"least of one connection": min(counts), "most of one connection": max(counts)}
    return {"charges a second": sum(counts) / wall, "CPU ms of callers a charge": cpu / sum(counts) * 1e3, **each}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=[*ENGINES, "ledger"])
    parser.add_argument("rows", nargs="*", type=int)
    parser.add_argument("--groups", type=int, default=GROUPS)
    given = parser.parse_args()
    found = [charges()] if given.what == "ledger" else []
    for rows in given.rows:
        timed = point(given.what, rows, given.groups)
        cpu = time.process_time()
        facts = timed()
        found.append({**facts, "CPU s": time.process_time() - cpu} if isinstance(facts, dict) else {})
    for facts in found:
        print(given.what, ", ".join(f"{name} {value:,.2f}" for name, value in facts.items()))


if __name__ == "__main__":
    main()
