"""The server over real sockets on loopback: durable asks, free ones, its start, its memory, slow beside quick.

The server is `discreet serve` in a process of its own; 64 clients are the process that is timed: keep-alive connections
that send their next request when the reply to the last has come. Every charged ask of a client is another statement,
which another analyst has had explained before: the plan is cached, the charge and the answer are not.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.harness import Bar, Comparison, Contestant, Timed

CHARGED, FREE, START = "durable asks of 64 clients", "free asks of 64 clients", "start"
MEMORY, SLOW, CLOCK = "memory over many asks", "quick asks beside slow ones", "when answers leave"
OURS, ALONE = "discreet", "without slow questions"
RATE, P99 = "per second", "p99 ms"
CLIENTS = 64


def comparison(*, quick: bool) -> Comparison:
    """How many asks a second, how late the latest, how much memory, how soon it starts."""
    each, many, rows = (2, 256, 10_000) if quick else (40, 100_000, 1_000_000)
    contestants = (
        Contestant(CHARGED, OURS, charged, {"each": each}, each * CLIENTS, remark="time_floor 0.05"),
        Contestant(FREE, OURS, free, {"each": 5 * each}, 5 * each * CLIENTS),
        Contestant(START, OURS, start),
        Contestant(MEMORY, OURS, memory, {"asks": many}, many, remark="one in fifty is charged"),
        Contestant(SLOW, OURS, beside, {"rows": rows, "each": each, "slow": 2}, remark="two slow at a time"),
        Contestant(SLOW, ALONE, beside, {"rows": rows, "each": each, "slow": 0}),
        Contestant(CLOCK, OURS, clock, {"asks": 4 if quick else 60}, remark="time_floor 0.1, the default"),
    )
    return Comparison("server", "The server under load", contestants, tuple(_bars()), rounds=1)


def _bars() -> list[Bar]:
    return [
        Bar("at least 500 durable asks a second", CHARGED, OURS, measure=RATE, at_least=500),
        Bar("99 of 100 within 250 ms", CHARGED, OURS, measure=P99, at_most=250),
        Bar("at least 2,000 free asks a second", FREE, OURS, measure=RATE, at_least=2000),
        Bar("ready within 2 s", START, OURS, measure="ready s", at_most=2),
        Bar("the second half of the asks adds at most 5 % of memory", MEMORY, OURS, measure="grew %", at_most=5),
        Bar("99 of 100 quick asks within 500 ms beside slow ones", SLOW, OURS, measure=P99, at_most=500),
        Bar("95 of 100 answers within 15 ms after a step of the grid", CLOCK, OURS, measure="on grid %", at_least=95),
    ]


# The contestants


def charged(each: int) -> Timed:
    """Asks that are charged: every client its own statements, planned before."""

    def timed() -> dict[str, float]:
        with _serving(_questions(each), floor="0.05") as server:
            return server.load([server.asks(client, range(each)) for client in range(CLIENTS)])

    return timed


def free(each: int) -> Timed:
    """Asks that were charged before, again and again."""

    def timed() -> dict[str, float]:
        with _serving(_questions(4), floor="0") as server:
            server.load([server.asks(client, range(4)) for client in range(CLIENTS)])
            return server.load([server.asks(client, range(4)) * (each // 4 + 1) for client in range(CLIENTS)])

    return timed


def start() -> Timed:
    """From the command to the first `GET /readyz` that says so."""

    def timed() -> dict[str, float]:
        with _serving(_questions(1), floor="0") as server:
            return {"ready s": server.ready_s}

    return timed


def memory(asks: int) -> Timed:
    """What the server holds in the middle and at the end of many asks, one in fifty of them charged."""

    def timed() -> dict[str, float]:
        paid = asks // (50 * CLIENTS) + 2
        with _serving(_questions(paid), floor="0") as server:
            held = []
            for half in (range(paid // 2), range(paid // 2, paid)):
                server.load([[ask for n in half for ask in server.asks(c, [n]) * 50] for c in range(CLIENTS)])
                held.append(server.memory_mb())
            return {"half MB": held[0], "end MB": held[1], "grew %": 100 * (held[1] / held[0] - 1)}

    return timed


def beside(rows: int, each: int, slow: int) -> Timed:
    """Quick asks of some clients while others ask what takes the engine a while."""

    def timed() -> dict[str, float]:
        with _serving(_questions(each), floor="0.05", rows=rows) as server:
            slow_asks = [server.slow_asks(client, 200) for client in range(slow)]
            quick = [server.asks(client, range(each)) for client in range(slow, 8)]
            return server.load(quick, beside=slow_asks)

    return timed


def clock(asks: int) -> Timed:
    """When answers leave, seen from the client: how far after a step of the time grid."""

    def timed() -> dict[str, float]:
        with _serving(_questions(asks), floor="0.1") as server:
            seconds = server.latencies([server.asks(0, range(asks))])
            late = [min(s - step for step in (0.1, 0.2, 0.5, 1.0, 2.0) if step <= s) for s in seconds]
            return {"on grid %": 100 * sum(wait < 0.015 for wait in late) / asks, "median ms": 1e3 * _median(seconds)}

    return timed


def _questions(count: int) -> list[str]:
    """So many statements that the engine answers in little time."""
    sql = "SELECT COUNT(*) AS n, SUM(age) AS s FROM visits WHERE age < {} AND day > {}"
    return [sql.format(20 + n % 90, n) for n in range(count)]


# The server


POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "witness"
time_floor = "{floor}"
[budget]
epsilon = "1000000"
[budget.everyone]
epsilon = "100000"
[tables.visits]
source = "visits.parquet"
unit = "person"
max_groups_per_unit = 2
max_rows_per_group = 5
[tables.visits.columns]
person = {{type = "integer", nullable = false}}
age = {{type = "integer", lower = 0, upper = 120}}
day = {{type = "integer", lower = 0, upper = 100000}}
[tables.history]
source = "history.parquet"
unit = "person"
max_groups_per_unit = 2
max_rows_per_group = 5
[tables.history.columns]
person = {{type = "integer", nullable = false}}
age = {{type = "integer", lower = 0, upper = 120}}
day = {{type = "integer", lower = 0, upper = 100000}}
"""


class _Server:
    """A running server, and requests to it."""

    def __init__(self, process: Any, port: int, tokens: list[str], questions: list[str], ready_s: float) -> None:
        self._process, self._port, self._tokens, self._questions = process, port, tokens, questions
        self.ready_s = ready_s

    def asks(self, client: int, numbers: Any) -> list[bytes]:
        return [self._request("ask", client, self._questions[n], "0.01") for n in numbers]

    def slow_asks(self, client: int, count: int) -> list[bytes]:
        sql = "SELECT COUNT(DISTINCT person) AS n, SUM(age) AS s FROM history WHERE (age * {0} + day) % 7 < 5"
        return [self._request("ask", client, sql.format(n + 2), "0.01") for n in range(count)]

    def _request(self, verb: str, client: int, sql: str, epsilon: str) -> bytes:
        body = json.dumps({"sql": sql, "epsilon": epsilon})
        return (
            f"POST /v1/datasets/clinic/{verb} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
            f"Content-Type: application/json\r\n"
            f"Authorization: Bearer {self._tokens[client]}\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()

    def explain_all(self) -> None:
        """Have every statement planned, by somebody who asks nothing else."""
        asyncio.run(_clients(self._port, [[self._request("explain", -1, sql, "0.01") for sql in self._questions]]))

    def load(self, scripts: list[list[bytes]], *, beside: list[list[bytes]] | None = None) -> dict[str, float]:
        cpu, began = self.cpu_s(), time.perf_counter()
        seconds = self.latencies(scripts, beside=beside)
        wall, cpu = time.perf_counter() - began, self.cpu_s() - cpu
        ordered, count = sorted(seconds), len(seconds)
        return {
            RATE: count / wall, "median ms": 1e3 * ordered[count // 2], P99: 1e3 * ordered[int(0.99 * count)],
            "server CPU ms": 1e3 * cpu / count,
        }  # fmt: skip

    def latencies(self, scripts: list[list[bytes]], *, beside: list[list[bytes]] | None = None) -> list[float]:
        return asyncio.run(_clients(self._port, scripts, beside or []))

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024 / 1e6

    def cpu_s(self) -> float:
        """CPU seconds of the server alone."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _serving(questions: list[str], *, floor: str, rows: int = 2000) -> Iterator[_Server]:
    """`discreet serve` over a new dataset, with an analyst for each client and one more, who has all explained."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    from discreet.server.tokens import TokenFile

    with tempfile.TemporaryDirectory(prefix="bench-server-") as name:
        folder = Path(name)
        (folder / "clinic.toml").write_text(POLICY.format(floor=floor))
        for table, count in (("visits", 2000), ("history", rows)):
            n = np.arange(count)
            columns = {"person": n % (count // 2), "age": n % 97, "day": n % 9973}
            parquet.write_table(pa.table(columns), folder / f"{table}.parquet")
        file = TokenFile(folder / "clinic.tokens")
        tokens = [file.create(f"analyst {client}", "analyst")[0] for client in range(CLIENTS + 1)]
        began = time.perf_counter()
        command = [sys.executable, "-m", "discreet", "serve", str(folder / "clinic.toml"), "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            try:
                port = _port(process)
                asyncio.run(_clients(port, [[b"GET /readyz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"]]))
                server = _Server(process, port, tokens, questions, time.perf_counter() - began)
                _drain(process)
                server.explain_all()
                yield server
            finally:
                process.terminate()
                process.wait(60)


def _port(process: Any) -> int:
    for line in process.stderr:
        if '"listening"' in line:
            return int(json.loads(line)["listening"].rpartition(":")[2])
    raise RuntimeError("the server did not start")


def _drain(process: Any) -> None:
    """Read the log of the server, as something must."""
    threading.Thread(target=lambda: [None for _ in process.stderr], daemon=True).start()


# The clients


class _Client(asyncio.Protocol):
    """One connection that sends its requests one after another, and notes how long each took."""

    def __init__(self, requests: list[bytes], done: "asyncio.Future[None]") -> None:
        self._requests, self.done = requests, done
        self._buffer, self._wanted, self._sent = b"", 0, 0.0
        self.seconds: list[float] = []

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        if len(self.seconds) == len(self._requests) or self.done.done():
            self._transport.close()
            if not self.done.done():
                self.done.set_result(None)
            return
        self._sent = time.perf_counter()
        self._transport.write(self._requests[len(self.seconds)])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if not self._wanted:
            head, found, _ = self._buffer.partition(b"\r\n\r\n")
            if not found:
                return
            if b" 200 " not in head[:20]:
                self.done.set_exception(RuntimeError(self._buffer.decode(errors="replace")))
                return
            self._wanted = len(head) + 4 + int(head.lower().partition(b"content-length:")[2].split()[0])
        if len(self._buffer) >= self._wanted:
            self.seconds.append(time.perf_counter() - self._sent)
            self._buffer, self._wanted = b"", 0
            self._next()

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or RuntimeError("the server closed a connection"))


async def _clients(port: int, scripts: Sequence[list[bytes]], beside: Sequence[list[bytes]] = ()) -> list[float]:
    """Run the scripts at the same time; how long each request took. Those beside stop when the others have ended."""
    others = [await _connected(port, script) for script in beside]
    clients = [await _connected(port, script) for script in scripts]
    await asyncio.gather(*(client.done for client in clients))
    for client in others:
        if not client.done.done():
            client.done.set_result(None)
    return [second for client in clients for second in client.seconds]


async def _connected(port: int, script: list[bytes]) -> "_Client":
    loop = asyncio.get_running_loop()
    client = _Client(script, loop.create_future())
    await loop.create_connection(lambda: client, "127.0.0.1", port)
    return client


def _median(values: list[float]) -> float:
    return statistics.median(values)
