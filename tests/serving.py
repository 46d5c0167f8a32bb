"""Servers for tests: on loopback, in a thread of this process, with two datasets and people of every role."""

import json
import socket
import threading
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn")

from discreet.server.app import create_app  # noqa: E402 (needs the extra)
from discreet.server.connections import Connection  # noqa: E402
from discreet.server.service import Limits, Service  # noqa: E402
from discreet.server.session import open_places  # noqa: E402
from discreet.server.tokens import TokenFile  # noqa: E402

CLINIC = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
witness = "witness"
time_floor = 0

[budget]
epsilon = "100000"
delta = "1e-3"

[budget.analysts.ann]
epsilon = "50000"
delta = "1e-4"

[budget.analysts.bob]
epsilon = "1"

[budget.analysts.olga]
epsilon = "1000"

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
"""A dataset with a large budget, for many tests: ann may spend a lot, bob little, nobody else but olga, its owner."""

SCHOOL = """
[dataset]
name = "school"
neighbors = "change one"
witness = "witness"
time_floor = 0

[budget]
epsilon = "10"

[budget.everyone]
epsilon = "2"

[tables.pupils]
source = "pupils.csv"
unit = "row"

[tables.pupils.columns]
grade = {type = "integer", lower = 1, upper = 6}
"""
"""A second dataset: who comes to the clinic has nothing to do here."""

PEOPLE = {
    "ann": ("analyst", ["clinic"]),
    "bob": ("analyst", ["clinic"]),
    "olga": ("owner", ["clinic"]),
    "carl": ("collector", ["clinic"]),
    "sue": ("analyst", ["school"]),
    "otto": ("owner", ["school"]),
    "both": ("analyst", ["clinic", "school"]),
}
"""Who may come in: a role, and the datasets that the token opens. Nobody named `both` has a cap in the clinic."""

COUNT = "SELECT COUNT(*) AS n FROM visits"
BY_REGION = "SELECT region, COUNT(*) AS n, AVG(age) AS age FROM visits GROUP BY region"


def write_house(folder: Path, *, clinic: str = CLINIC, school: str = SCHOOL, rows: int = 900) -> list[str]:
    """Write two policies and their data into a folder; the paths of the policies."""
    folder.mkdir(parents=True, exist_ok=True)
    visits = [
        f"{i % 400},{i % 90},2020-03-{i % 28 + 1:02},{i % 40 / 4},{'south' if i % 2 else 'north'}" for i in range(rows)
    ]
    (folder / "visits.csv").write_text("patient_id,age,day,cost,region\n" + "\n".join(visits) + "\n")
    (folder / "pupils.csv").write_text("grade\n" + "\n".join(str(i % 6 + 1) for i in range(200)) + "\n")
    policies = {"clinic": clinic, "school": school}
    for name, text in policies.items():
        (folder / f"{name}.toml").write_text(text)
    return [str(folder / f"{name}.toml") for name in policies]


def make_tokens(folder: Path) -> dict[str, str]:
    """A token for everybody in `PEOPLE`, by name."""
    made: dict[str, str] = {}
    for name, (role, datasets) in PEOPLE.items():
        for dataset in datasets:
            made[name], _ = TokenFile(folder / f"{dataset}.tokens").create(name, role, text=made.get(name))
    return made


class Listener:
    """A server of uvicorn in a thread of this process."""

    def __init__(self, app: Any, **config: Any) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.port = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        settings = {
            "log_config": None,
            "access_log": False,
            "lifespan": "on",
            "ws": "none",
            "http": Connection,
            "server_header": False,
            "proxy_headers": False,
        } | config
        self._server = uvicorn.Server(uvicorn.Config(app, **settings))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> "Listener":
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        self._socket.close()


class Reply:
    """What came back: a status, headers by their small names, and a content."""

    def __init__(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.status, self.headers, self.content = status, headers, content

    @property
    def json(self) -> Any:
        return json.loads(self.content)

    @property
    def code(self) -> str:
        """The stable code of a problem."""
        assert self.headers["content-type"] == "application/problem+json", self
        return self.json["code"]

    def __repr__(self) -> str:
        return f"<{self.status} {self.content[:500]!r}>"


class House:
    """A running server, its people and its places."""

    def __init__(self, folder: Path, service: Service, listener: Listener, app: Any, tokens: dict[str, str]) -> None:
        self.folder, self.service, self.app, self.tokens = folder, service, app, tokens
        self.url, self.port = listener.url, listener.port

    def call(self, method: str, path: str, who: str | None = "ann", body: Any = None, **headers: str) -> Reply:
        """The reply to a request of somebody, by name or with a token as text; headers have _ for -."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if who is not None:
            sent["Authorization"] = f"Bearer {self.tokens.get(who, who)}"
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request(method, path, body, sent)
            response = connection.getresponse()
            return Reply(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def ask(self, sql: str, epsilon: Any = "0.01", who: str = "ann", **headers: str) -> Reply:
        """The reply to a question about the clinic."""
        return self.call("POST", "/v1/datasets/clinic/ask", who, {"sql": sql, "epsilon": epsilon}, **headers)

    def charges(self, dataset: str = "clinic") -> int:
        """How many charges the ledger has."""
        return len(self.service.places[dataset].ledger.charges(dataset))


class running:  # noqa: N801 (a context manager, used as a function)
    """Run a server over a folder that `write_house` has written, with tokens for everybody."""

    def __init__(self, folder: Path, *, limits: Limits | None = None, tokens: dict[str, str] | None = None, **app: Any):
        self._folder, self._app = folder, app
        self._tokens = make_tokens(folder) if tokens is None else tokens
        policies = [str(folder / f"{name}.toml") for name in ("clinic", "school")]
        self._service = Service(open_places(policies), limits or Limits())

    def __enter__(self) -> House:
        app = create_app(self._service, **self._app)
        self._listener = Listener(app).__enter__()
        return House(self._folder, self._service, self._listener, app, self._tokens)

    def __exit__(self, *_: object) -> None:
        self._listener.__exit__()
        self._service.close()
