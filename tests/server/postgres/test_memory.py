"""What a server keeps in memory after frames that are broken on purpose."""

import os
import random
import resource
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import serving
from tests.server.postgres.test_hostile import KNOWN, STRANGE, message

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

SERVE = """
import resource, sys
from tests.server.postgres.conftest import listening
from discreet.server.postgres.listener import Patience
from discreet.server.service import Service
from discreet.server.session import open_places

hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
service = Service(open_places(sys.argv[1:]))
with listening(service, patience=Patience(unknown=20_000, login=600)) as made:
    print(made.port, flush=True)
    sys.stdin.read()
    print(service.places["clinic"].data().budget().charges, flush=True)
service.close()
"""


@contextmanager
def serving_alone(folder):
    """A server in a process of its own: how to reach it, and the megabytes that it holds; nothing may be charged."""
    policies, root = serving.write_house(folder), str(Path(__file__).parents[3])
    tokens, paths = serving.make_tokens(folder), [str(Path(root) / "src"), root, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen([sys.executable, "-c", SERVE, *policies], env=environment, **pipes) as process:
        port = int(process.stdout.readline())
        target = {"host": "127.0.0.1", "port": port, "user": "ann", "password": tokens["ann"], "dbname": "clinic"}

        def held():
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            return pages * resource.getpagesize() / 1e6

        try:
            yield target, held
            with psycopg.connect(**target) as client:
                assert client.execute("SELECT 1").fetchone() == (1,)
        finally:
            charges, _ = process.communicate(timeout=120)
        assert int(charges) == 0


def bent(choice, frames):
    """One of the frames; three in ten with another byte somewhere, one in twenty cut short."""
    data = bytearray(choice.choice(frames))
    if choice.random() < 0.3:
        data[choice.randrange(len(data))] = choice.randrange(256)
    return bytes(data[: choice.randrange(len(data))] if choice.random() < 0.05 else data)


def send(wire, data, *, over=False):
    """Send bytes, and read until the other side is done with them, gone, or waits for more; `over` says that none come."""
    try:
        wire.sendall(data)
        if over:
            wire.shutdown(socket.SHUT_WR)
        while wire.recv(65536):
            pass
    except OSError:
        pass


def attack(target, choice, count):
    """So many frames, about half of them of callers who are not known."""
    sent = 0
    while sent < count:
        if choice.random() < 0.92:
            frames = [bent(choice, STRANGE) for _ in range(8)]
            address = f"127.{choice.randrange(1, 255)}.{choice.randrange(256)}.{choice.randrange(1, 255)}"
            place = (target["host"], target["port"])  # from many addresses: who guesses at one is slowed down
            with socket.create_connection(place, timeout=60, source_address=(address, 0)) as wire:
                send(wire, b"".join(frames), over=True)
        else:
            frames = [choice.choice(KNOWN) for _ in range(100)]
            frames[choice.randrange(100)] = bent(choice, KNOWN)
            with psycopg.connect(**target) as client, socket.socket(fileno=os.dup(client.pgconn.socket)) as wire:
                wire.settimeout(0.5)
                send(wire, b"".join(frames) + message(b"X"))
                client.close()
        sent += len(frames)


@pytest.mark.slow
def test_a_hundred_thousand_hostile_frames_leave_memory_as_it_was(tmp_path):
    with serving_alone(tmp_path) as (target, held):
        choice = random.Random(5)
        attack(target, choice, 20_000)  # caches and pools fill: they are bounded
        before = held()
        attack(target, choice, 100_000)
        print(f"{before:.0f} MB before, {held():.0f} MB after")
        assert held() - before < 50  # 500 bytes a frame, or 6 kB a connection, that stayed would be seen
