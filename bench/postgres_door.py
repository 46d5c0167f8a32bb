"""PostgreSQL's door: free questions a second on 32 connections, and the CPU of a connection with SCRAM.

Run alone: `python -m bench.postgres_door [REMARK]`. Clients run in a process of their own. It writes
bench/results/postgres_door.md: rates of a busy machine say little, CPU of the server for each says more.
"""

import asyncio
import subprocess
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

from bench.report import machine

CONNECTIONS, SECONDS, CONNECTS = 32, 5.0, 100

_CLIENT = """
import asyncio, sys, time
import asyncpg
port, token = int(sys.argv[1]), sys.argv[2]
connections, seconds, connects = int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
target = dict(host="127.0.0.1", port=port, user="ann", password=token, database="clinic")
sql = "SELECT region, COUNT(*) AS n FROM visits GROUP BY region"
async def main():
    clients = [await asyncpg.connect(**target, server_settings={"discreet.epsilon": "1"}) for _ in range(connections)]
    await clients[0].fetch(sql)
    end, count = time.monotonic() + seconds, [0] * connections
    async def ask(i):
        while time.monotonic() < end:
            await clients[i].execute(sql)
            count[i] += 1
    await asyncio.gather(*(ask(i) for i in range(connections)))
    print(sum(count) / seconds, flush=True)
    for client in clients:
        await client.close()
    input()
    for _ in range(connects):
        await (await asyncpg.connect(**target)).close()
    print("connected", flush=True)
asyncio.run(main())
"""


async def measure() -> None:
    """Print both numbers, and keep them."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    serving = import_module("tests.serving")
    from discreet.server.postgres.listener import Listener
    from discreet.server.service import Service
    from discreet.server.session import open_places

    folder = Path(tempfile.mkdtemp())
    service = Service(open_places(serving.write_house(folder)))
    listener = Listener(service, port=0)
    port = await listener.start()
    given = [str(port), serving.make_tokens(folder)["ann"], str(CONNECTIONS), str(SECONDS), str(CONNECTS)]
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _CLIENT, *given, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    if client.stdout is None or client.stdin is None:
        raise RuntimeError("no client")
    before = time.process_time()
    rate = float(await client.stdout.readline())
    asked = (time.process_time() - before) / (rate * SECONDS)
    print(
        f"free questions on {CONNECTIONS} connections: {rate:,.0f}/s (wanted: 1,000/s), {asked * 1000:.2f} ms CPU each"
    )
    before = time.process_time()
    client.stdin.write(b"\n")
    await client.stdin.drain()
    await client.stdout.readline()
    each = (time.process_time() - before) / CONNECTS
    print(f"connect with SCRAM: {each * 1000:.1f} ms of the server's CPU (wanted: 30 ms)")
    await client.wait()
    await listener.stop()
    service.close()
    write(rate, asked, each, " ".join(sys.argv[1:]))


def write(rate: float, asked: float, connected: float, remark: str) -> None:
    """Keep what was measured, with what must be known of the machine."""
    facts = machine()
    lines = [
        "# PostgreSQL's door",
        "",
        f"{facts['date']}, {facts['cores']} cores, {facts['system']}, Python {facts['python']}. "
        "Made by `python -m bench.postgres_door`." + (f" {remark}" if remark else ""),
        "",
        "| case | bar | measured | CPU of the server | verdict |",
        "|---|---|---|---|---|",
        f"| a free question again, on {CONNECTIONS} connections | at least 1,000 a second | {rate:,.0f} a second "
        f"| {asked * 1000:.2f} ms each | {'pass' if rate >= 1000 else 'FAIL'} |",
        f"| connecting with SCRAM | below 30 ms of CPU | | {connected * 1000:.2f} ms each "
        f"| {'pass' if connected < 0.03 else 'FAIL'} |",
    ]
    path = Path(__file__).with_name("results") / "postgres_door.md"
    path.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(measure())
