"""How the curator's cost grows with rows and groups in each engine, and how fast a shared ledger charges.

    python -m bench.engines duckdb 100000 1000000
    python -m bench.engines postgres 100000 1000000 --address postgresql://user@host/database
    python -m bench.engines ledger --address postgresql://user@host/database

PostgreSQL and the ledger need a database that may be written to; a schema `discreet_bench` is made in it.
"""

import argparse
import resource
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.dialects import dialect_of
from discreet.curator.ledger import Ledger, digest
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Unit
from discreet.sql.plan.planner import Terms, plan

SQL = "SELECT g, COUNT(*) AS n, SUM(x) AS s FROM visits GROUP BY g"
COLUMNS = "i // 4 AS patient, (i * 2654435761) % {groups} AS g, (i * 40503) % 1000 AS x"


def catalog(groups: int) -> Catalog:
    columns = [
        Column("patient", "integer", nullable=False),
        Column("g", "integer", lower=0, upper=groups - 1, nullable=False),
        Column("x", "integer", lower=0, upper=999),
    ]
    visits = Table("visits", columns, unit=Unit("patient"), groups=2, rows=2)
    return Catalog("bench", [visits], neighbors="add or remove one")


def engine_of(name: str, rows: int, groups: int, address: str, folder: Path) -> Any:
    import duckdb

    file = folder / f"visits-{rows}-{groups}.parquet"
    made = COLUMNS.format(groups=groups)
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT {made} FROM range({rows}) t(i)) TO '{file}' (FORMAT parquet)")  # noqa: S608
    if name == "duckdb":
        from discreet.curator.engines.duckdb import DuckDBEngine

        return DuckDBEngine(catalog(groups), {"visits": str(file)})
    if name == "spark":
        from discreet.curator.engines.spark import SparkEngine

        return SparkEngine(catalog(groups), {"visits": f"parquet:{file}"}, address=address or "local[2]")
    import psycopg

    from discreet.curator.engines.postgres import PostgresEngine

    with psycopg.connect(address, autocommit=True) as server:
        server.execute("DROP SCHEMA IF EXISTS discreet_bench CASCADE")
        server.execute("CREATE SCHEMA discreet_bench")
        columns = made.replace("//", "/")
        query = f"SELECT {columns} FROM generate_series(0::bigint, {rows - 1}) i"  # noqa: S608
        server.execute(f"CREATE TABLE discreet_bench.visits AS {query}".encode())
        server.execute("ANALYZE discreet_bench.visits")
    return PostgresEngine(catalog(groups), {"visits": "discreet_bench.visits"}, address=address)


def measure(name: str, rows: int, groups: int, address: str) -> dict[str, float]:
    """Seconds of wall and of the curator's own CPU, and its memory, for the exact aggregates of one question."""
    (release,) = plan([SQL], catalog(groups), Terms(epsilon=1)).releases
    with tempfile.TemporaryDirectory() as folder, engine_of(name, rows, groups, address, Path(folder)) as engine:
        sql = release.statements(dialect_of(name))[0]
        wall, cpu = time.perf_counter(), time.process_time()
        found = engine.fetch(sql, salt="ab")
        spent = {"wall_s": time.perf_counter() - wall, "curator_cpu_s": time.process_time() - cpu}
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return {"rows": rows, "groups": found.num_rows, **spent, "peak_mb": peak}


def charges(address: str, connections: int = 32, seconds: float = 10) -> float:
    """Charges a second to one account from many connections, each a store of its own."""
    from discreet.curator.stores.postgres import PostgresStore

    stores = [PostgresStore(address) for _ in range(connections)]
    ledgers = [Ledger(store) for store in stores]
    ledgers[0].open("bench", Budget(epsilon=10**9))
    end, counts = time.monotonic() + seconds, [0] * connections

    def work(place: int) -> None:
        while time.monotonic() < end:
            ledgers[place].charge("bench", analyst="ann", statement=digest("q"), loss=Pure("1/1000"))
            counts[place] += 1

    threads = [threading.Thread(target=work, args=(place,)) for place in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for store in stores:
        store.close()
    print(f"least and most of one connection: {min(counts)}, {max(counts)}")
    return sum(counts) / seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["duckdb", "postgres", "spark", "ledger"])
    parser.add_argument("rows", nargs="*", type=int)
    parser.add_argument("--groups", type=int, default=1000)
    parser.add_argument("--address", default="")
    given = parser.parse_args()
    if given.what == "ledger":
        print(f"{charges(given.address):.0f} charges a second")
    for rows in given.rows:
        found = measure(given.what, rows, given.groups, given.address)
        print(given.what, ", ".join(f"{name} {value:,.2f}" for name, value in found.items()))


if __name__ == "__main__":
    main()
