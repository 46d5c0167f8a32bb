"""A server on loopback, in a thread, and people who may come in."""

import socket
import threading
import time
from types import SimpleNamespace

import pytest

uvicorn = pytest.importorskip("uvicorn")

from discreet.server.app import create_app  # noqa: E402 (needs the extra)
from discreet.server.service import Service  # noqa: E402
from discreet.server.session import open_places  # noqa: E402
from discreet.server.tokens import TokenFile  # noqa: E402

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "witness"
time_floor = 0

[budget]
epsilon = "100"
delta = "1e-6"

[budget.analysts.ann]
epsilon = "50"

[budget.analysts.bob]
epsilon = "1"

[tables.visits]
source = "visits.csv"
unit = "patient_id"
max_groups_per_unit = 2
max_rows_per_group = 5

[tables.visits.columns]
patient_id = {type = "integer", nullable = false}
age = {type = "integer", lower = 0, upper = 120}
day = {type = "date", lower = "2020-01-01", upper = "2020-12-31"}
cost = {type = "real", lower = 0, upper = "10.5", granularity = "0.25"}
region = {type = "text", values = ["north", "south"]}
"""


class Listener:
    """A server of uvicorn in a thread of this process."""

    def __init__(self, app):
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self):
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "clinic.toml").write_text(POLICY)
    rows = [
        f"{i % 400},{i % 90},2020-03-{i % 28 + 1:02},{i % 40 / 4},{'south' if i % 2 else 'north'}" for i in range(900)
    ]
    (tmp_path / "visits.csv").write_text("patient_id,age,day,cost,region\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def server(folder, monkeypatch):
    """The address, the tokens of ann, bob and olga, and the ledger."""
    monkeypatch.delenv("DISCREET_URL", raising=False)
    monkeypatch.delenv("DISCREET_TOKEN", raising=False)
    monkeypatch.setattr("discreet.client.transport._PAUSE", 0.001)
    monkeypatch.setattr("discreet.client.transport._LONGEST_PAUSE", 0.01)
    places = open_places([str(folder / "clinic.toml")])
    tokens = TokenFile(folder / "clinic.tokens")
    made = {
        name: tokens.create(name, role)[0] for name, role in (("ann", "analyst"), ("bob", "analyst"), ("olga", "owner"))
    }
    service = Service(places)
    with Listener(create_app(service)) as listener:
        yield SimpleNamespace(
            url=listener.url, tokens=made, place=places["clinic"], file=tokens, policy=folder / "clinic.toml"
        )
    service.close()
