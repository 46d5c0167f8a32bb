"""A million people report one of 100 or of 10,000 values, and a collector estimates the shares.

Peers handle one report after the other, so their time grows with the reports: what takes them long is timed on fewer
and multiplied, and the remark says on how many. Their local hashing is left out: multi-freq-ldpy's crashes with the
current xxhash, and both would take hours at k = 10,000 (ANCHORS).

Reports are estimated from three places: numbers in memory (a million rows of 10,000 bits are 1.25 GB, and each bit is
looked at), a collector's store, and the counts alone. The hundred million reports are written into their store by SQL;
the million through `append`, as lines would be.
"""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

REPORTS = 1_000_000
SIZES = (100, 10_000)
QUICK_TO_REPORT = ("k-RR", "Hadamard", "OLH", "BLH")
ORACLES = {
    "k-RR": ("KRR", "one value"),
    "Hadamard": ("HadamardResponse", "one code"),
    "OLH": ("OptimizedHashing", "one code; a field's linear maps"),
    "BLH": ("BinaryHashing", "one code; a field's linear maps"),
    "SUE": ("SymmetricUnary", "packed bits, exact"),
    "OUE": ("OptimizedUnary", "packed bits, exact"),
    "subset selection": ("SubsetSelection", "packed bits, exact"),
}

STORED = {
    "k-RR": "k-rr",
    "Hadamard": "hadamard",
    "SUE": "symmetric unary",
    "OUE": "optimized unary",
    "subset selection": "subset",
}
_HUNDRED = "k-RR, k = 100: estimate from a store of a hundred million reports"


def comparison(*, quick: bool) -> Comparison:
    """Issue 4: reports in under 0.3 s a million; estimates in under 0.3 s, local hashing in under 5 s."""
    parts = tuple(c for size in SIZES for c in _contestants(size, REPORTS // 20 if quick else REPORTS))
    parts += tuple(_stores(REPORTS // 20 if quick else REPORTS))
    if not quick:
        parts += tuple(c for size in SIZES for c in _peers(size))
    return Comparison("local", "The local model: a million reports, ε = 1", parts, tuple(_bars()), rounds=3)


def _contestants(size: int, reports: int) -> list[Contestant]:
    found = []
    for name, (kind, remark) in ORACLES.items():
        few = reports if name in QUICK_TO_REPORT or size < 1000 else reports // 10  # a million are scaled from fewer
        works: tuple[tuple[str, Any, int, float], ...] = (
            (_report(name, size), randomize, few, few / REPORTS),
            (_count(name, size), count, reports, reports / REPORTS),
            (_estimate(name, size), estimate, reports, 1),
        )
        for case, prepare, people, work in works:
            asked = {"kind": kind, "size": size, "reports": people}
            found.append(Contestant(case, "discreet", prepare, asked, work, "", remark))
    return found


def _stores(reports: int) -> list[Contestant]:
    found = []
    for name, kind in STORED.items():
        asked = {"kind": kind, "size": 10_000, "reports": reports}
        found.append(Contestant(_stored(name), "discreet", stored, asked, 1, "", "a DuckDB file"))
    many = {"size": 100, "reports": 100 * reports}
    return [*found, Contestant(_HUNDRED, "discreet", hundred_million, many, 1, "", "a DuckDB file")]


def _peers(size: int) -> list[Contestant]:
    """Who, what, how many reports are timed at k = 100 and at k = 10,000."""
    known: tuple[tuple[str, str, tuple[int, int]], ...] = (
        ("multi-freq-ldpy", "k-RR", (100_000, 100_000)),
        ("multi-freq-ldpy", "OUE", (100_000, 2_000)),
        ("multi-freq-ldpy", "subset selection", (20_000, 1_000)),
        ("pure-ldp", "k-RR", (100_000, 100_000)),
        ("pure-ldp", "OUE", (20_000, 1_000)),
    )
    found = []
    for peer, name, counts in known:
        reports = counts[SIZES.index(size)]
        asked = {"peer": peer, "name": name, "size": size, "reports": reports}
        remark = f"{reports:,} timed, the rest reckoned; not a secure source"
        for case, prepare in ((_report(name, size), peer_randomize), (_count(name, size), peer_count)):
            found.append(Contestant(case, peer, prepare, asked, reports / REPORTS, peer, remark))
    return found


def _bars() -> list[Bar]:
    quick = ((name, size) for size in SIZES for name in QUICK_TO_REPORT)
    bars = [Bar("under 0.3 s", _report(name, size), "discreet", at_most=0.3) for name, size in quick]
    for name in ORACLES:
        limit = 5.0 if name in ("OLH", "BLH") else 0.3
        cases = (_count(name, 10_000), _estimate(name, 10_000))
        bars.extend(Bar(f"under {limit:g} s", case, "discreet", at_most=limit) for case in cases)
    return bars + [Bar("under 0.3 s", _stored(name), "discreet", at_most=0.3) for name in STORED]


def _report(name: str, size: int) -> str:
    return f"{name}, k = {size:,}: randomize"


def _count(name: str, size: int) -> str:
    return f"{name}, k = {size:,}: count the reports and estimate"


def _stored(name: str) -> str:
    return f"{name}, k = 10,000: estimate from a store of a million reports"


def _estimate(name: str, size: int) -> str:
    return f"{name}, k = {size:,}: estimate from counts"


# The contestants


def randomize(kind: str, size: int, reports: int) -> Timed:
    oracle, values = _oracle(kind, size), _values(size, reports)
    oracle.randomize(values[:1000])
    return lambda: oracle.randomize(values)


def count(kind: str, size: int, reports: int) -> Timed:
    oracle, told = _oracle(kind, size), _told(kind, size, reports)
    oracle.estimate(oracle.tally(told[:1000]), reports=1000)

    def timed() -> dict[str, float]:
        shares = oracle.estimate(oracle.tally(told), reports=len(told)).shares
        return {"MB of reports": told.nbytes / 1e6, "shares": float(len(shares))}

    return timed


def estimate(kind: str, size: int, reports: int) -> Timed:
    oracle, told = _oracle(kind, size), _told(kind, size, reports)
    tally = oracle.tally(told)
    oracle.estimate(oracle.tally(told[:1000]), reports=1000)

    def timed() -> None:
        oracle.estimate(tally, reports=len(told))

    return timed


def stored(kind: str, size: int, reports: int) -> Timed:
    """A store to which the reports were added, in parts."""
    from discreet.local.collection.collector import Collection
    from discreet.local.collection.duckdb_store import Batch, Counts
    from discreet.noise.entropy import SYSTEM

    survey, store = _survey(kind, size), Collection(Path(tempfile.mkdtemp()) / "reports.duckdb")
    told = _repeated(survey.randomizes(), size, reports)
    for start in range(0, reports, 50_000):
        part = told[start : start + 50_000]
        ids = SYSTEM.words(2 * len(part)).tobytes().hex()
        batch = Batch([ids[32 * n : 32 * n + 32] for n in range(len(part))], part, Counts())
        store.store.append(survey, batch, datetime.now(UTC))
    return _from_store(store, survey)


def hundred_million(size: int, reports: int) -> Timed:
    """A store into which codes were written by SQL."""
    import duckdb

    from discreet.local.collection.collector import Collection

    survey, path = _survey("k-rr", size), Path(tempfile.mkdtemp()) / "reports.duckdb"
    Collection(path).add(survey, ["no report"])
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "INSERT INTO reports SELECT uuid(), 1, 2, now()::TIMESTAMP, hash(n) % ?, NULL FROM range(?) AS one(n)",
            [size, reports],
        )
        connection.execute("INSERT INTO batches VALUES (1, 2, now()::TIMESTAMP, ?, 0, 0, 0, 0, 0)", [reports])
    return _from_store(Collection(path), survey)


def _from_store(store: Any, survey: Any) -> Timed:
    from shutil import rmtree

    store.estimate(survey, confidence=None)

    def timed() -> dict[str, float]:
        found = store.estimate(survey, confidence=None)
        size = store.store.path.stat().st_size / 1e6
        rmtree(store.store.path.parent)
        return {"MB of reports": size, "reports": float(found.reports)}

    return timed


def _survey(kind: str, size: int) -> Any:
    from discreet.local.collection.survey import Survey

    domain = [f"{n}" for n in range(size)]
    return Survey(name="bench", version=1, question="?", domain=domain, randomizer=kind, epsilon=1, times=1)


def _told(kind: str, size: int, reports: int) -> Any:
    return _repeated(_oracle(kind, size), size, reports)


def _repeated(oracle: Any, size: int, reports: int) -> Any:
    """Reports; those of many bits are made for some people and repeated."""
    import numpy

    some = oracle.randomize(_values(size, 10_000))
    if some.ndim == 1:
        return oracle.randomize(_values(size, reports))
    return numpy.tile(some, (-(-reports // len(some)), 1))[:reports]


def _values(size: int, reports: int) -> Any:
    import numpy

    return numpy.arange(reports) * 7919 % size


def _oracle(kind: str, size: int) -> Any:
    import discreet.local

    return getattr(discreet.local, kind)(epsilon=1, size=size)


# Peers: a function that makes one report, and one that estimates from a list of them


def peer_randomize(peer: str, name: str, size: int, reports: int) -> Timed:
    report, _ = _peer(peer, name, size)
    values = _values(size, reports).tolist()
    report(values[0])  # compiles
    return lambda: [report(value) for value in values] and None


def peer_count(peer: str, name: str, size: int, reports: int) -> Timed:
    report, estimate = _peer(peer, name, size)
    told = [report(value) for value in _values(size, reports).tolist()]

    def timed() -> dict[str, float]:
        return {"shares": float(len(estimate(told)))}

    return timed


def _peer(peer: str, name: str, size: int) -> tuple[Callable[[int], Any], Callable[[list[Any]], Any]]:
    return (_multi_freq_ldpy if peer == "multi-freq-ldpy" else _pure_ldp)(name, size)


def _multi_freq_ldpy(name: str, size: int) -> tuple[Callable[[int], Any], Callable[[list[Any]], Any]]:
    from importlib import import_module

    kind = {"k-RR": "GRR", "OUE": "UE", "subset selection": "SS"}[name]
    oracle = import_module(f"multi_freq_ldpy.pure_frequency_oracles.{kind}")
    client, server = getattr(oracle, f"{kind}_Client"), getattr(oracle, f"{kind}_Aggregator_MI")
    settings = (1.0,) if kind == "UE" else (size, 1.0)
    return lambda value: client(value, size, 1.0), lambda told: server(told, *settings)


def _pure_ldp(name: str, size: int) -> tuple[Callable[[int], Any], Callable[[list[Any]], Any]]:
    from importlib import import_module

    part, kind, extra = {"k-RR": ("direct_encoding", "DE", {}), "OUE": ("unary_encoding", "UE", {"use_oue": True})}[
        name
    ]
    oracle = import_module(f"pure_ldp.frequency_oracles.{part}")
    client = getattr(oracle, f"{kind}Client")(epsilon=1.0, d=size, **extra)
    server = getattr(oracle, f"{kind}Server")(epsilon=1.0, d=size, **extra)

    def estimate(told: list[Any]) -> Any:
        for report in told:
            server.aggregate(report)
        return server.estimate_all(range(1, size + 1))

    return lambda value: client.privatise(value + 1), estimate
