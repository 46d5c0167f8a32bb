"""Durable charges: one caller, 32 threads, eight processes; against the least that SQLite needs for a durable row.

The limit is one row of the same size a transaction, `synchronous=FULL`, in a loop: it reads, checks and hashes nothing.
"""

import os
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

ONE, THREADS, PROCESSES = "charges of one caller", "charges of 32 threads", "charges of eight processes"
OURS, ALONE, LIMIT = "discreet", "discreet, one caller", "bare insert (limit)"
USUAL = "BEGIN IMMEDIATE in each process"
ROW_BYTES = 3000


def comparison(*, quick: bool) -> Comparison:
    """How many charges a second, alone and among many callers."""
    few, many, seconds = (20, 96, 0.3) if quick else (500, 4800, 5.0)
    contestants = (
        Contestant(ONE, OURS, discreet_one, {"n": few}, few),
        Contestant(ONE, LIMIT, bare_one, {"n": few}, few),
        Contestant(THREADS, OURS, discreet_threads, {"n": many}, many),
        Contestant(THREADS, ALONE, discreet_one, {"n": few}, few),
        Contestant(THREADS, LIMIT, bare_one, {"n": few}, few, remark="one caller: SQLite has one writer"),
        Contestant(PROCESSES, OURS, discreet_processes, {"seconds": seconds}),
        Contestant(PROCESSES, USUAL, bare_processes, {"seconds": seconds}, remark="SQLite's own waiting, no filter"),
    )
    return Comparison("ledger", "Durable charges", contestants, tuple(_bars()), rounds=3)


def _bars() -> list[Bar]:
    rate, share = "per second", "min/max share"
    return [
        Bar("at least 1000 a second", THREADS, OURS, measure=rate, at_least=1000),
        Bar("at least 1.5 × one caller", THREADS, OURS, ALONE, measure=rate, at_least=1.5),
        Bar("at most 5 × a bare insert", ONE, OURS, LIMIT, measure="median ms", at_most=5),
        Bar("median under 10 ms", ONE, OURS, measure="median ms", at_most=10),
        Bar("no process gets less than half of another's", PROCESSES, OURS, measure=share, at_least=0.5),
    ]


# The contestants


def discreet_one(n: int) -> Timed:
    charge = _charging(_folder() / "ledger.db")
    charge()
    return lambda: _each(charge, n)


def bare_one(n: int) -> Timed:
    insert = _inserting(_folder() / "bare.db")
    insert()
    return lambda: _each(insert, n)


def discreet_threads(n: int) -> Timed:
    charge = _charging(_folder() / "ledger.db")
    charge()

    def many() -> None:
        for _ in range(n // 32):
            charge()

    def timed() -> dict[str, float]:
        threads = [threading.Thread(target=many) for _ in range(32)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"per second": n // 32 * 32 / (time.perf_counter() - start)}

    return timed


def discreet_processes(seconds: float) -> Timed:
    path = _folder() / "ledger.db"
    return _processes(lambda: _charging(path), seconds)


def bare_processes(seconds: float) -> Timed:
    path = _folder() / "bare.db"
    return _processes(lambda: _inserting(path), seconds)


def _charging(path: Path) -> Callable[[], object]:
    from discreet.curator.ledger import Ledger, digest
    from discreet.curator.stores.sqlite import SqliteStore
    from discreet.privacy.budget import Budget
    from discreet.privacy.loss import Pure

    ledger, loss, statement = Ledger(SqliteStore(path)), Pure("0.001"), digest("SELECT 1")
    ledger.open("a", Budget(epsilon=10**6, delta="1e-6"))
    return lambda: ledger.charge("a", analyst="ann", statement=statement, loss=loss)


def _inserting(path: Path) -> Callable[[], object]:
    connection = sqlite3.connect(path, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, what TEXT)")
    what = "x" * ROW_BYTES

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT INTO rows (what) VALUES (?)", (what,))
        connection.execute("COMMIT")

    return insert


def _each(act: Callable[[], object], n: int) -> dict[str, float]:
    clock = [time.perf_counter()]
    for _ in range(n):
        act()
        clock.append(time.perf_counter())
    waits = [after - before for before, after in pairwise(clock)]
    return {"per second": n / (clock[-1] - clock[0]), "median ms": 1e3 * statistics.median(waits)}


def _processes(make: Callable[[], Callable[[], object]], seconds: float) -> Timed:
    """Eight processes for some seconds: how many in all, and the least share against the greatest."""
    make()()

    def child(writing: int, start: float) -> None:
        act, count = make(), 0
        time.sleep(max(0.0, start - time.monotonic()))
        while time.monotonic() < start + seconds:
            act()
            count += 1
        os.write(writing, b"%d\n" % count)

    def timed() -> dict[str, float]:
        reading, writing = os.pipe()
        start, children = time.monotonic() + 1, [0] * 8
        for n in range(8):
            children[n] = os.fork()
            if children[n] == 0:
                try:
                    child(writing, start)
                finally:
                    os._exit(0)
        codes = [os.waitpid(pid, 0)[1] for pid in children]
        shares = [int(word) for word in os.read(reading, 1000).split()]
        if any(codes) or len(shares) != 8:
            raise RuntimeError("a process did not end well")
        return {"per second": sum(shares) / seconds, "min/max share": min(shares) / max(shares)}

    return timed


_KEPT: list[Any] = []


def _folder() -> Path:
    """A new folder on the disk, removed when the process ends."""
    _KEPT.append(tempfile.TemporaryDirectory(prefix="bench-ledger-"))
    return Path(_KEPT[-1].name)
