"""Flower as it is deployed: a SuperLink and SuperNodes, each a process of its own, on free ports of this machine."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import discreet

HERE = "127.0.0.1"
PROJECT = """
[project]
name = "trial-app"
version = "1.0.0"
description = "The federation of test_flower"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "discreet"

[tool.flwr.app.components]
serverapp = "trial_app.server:app"
clientapp = "trial_app.client:app"

[tool.flwr.app.config]
kind = ""
out = ""
limit = 1
"""
CONNECTION = '[superlink]\ndefault = "here"\n\n[superlink.here]\naddress = "{address}"\n{trust}\n'
SOURCES = Path(discreet.__file__).parents[1]


class Deployment:
    """All processes carry a mark in their environment, so that they can be found again, whoever started them.

    app: the folder of the app that is run. tls: a folder with ca.crt, server.crt and server.key; None: no encryption.
    """

    def __init__(self, folder, names, *, app=None, tls=None):
        self.app, self.tls = app or folder / "trial-app", tls
        self.folder, self.mark = folder, secrets.token_hex(16)
        self.ports = dict(zip(["superlink", *names], free_ports(1 + len(names)), strict=True))
        self.address = f"{HERE}:{self.ports['superlink']}"
        self.processes = {}
        if app is None:
            write_app(self.app)

    def start(self, patience=240):
        trust = ["--insecure"]
        if self.tls is not None:
            files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            trust = [word for name, file in files.items() for word in (f"--ssl-{name}", self.tls / file)]
        self._spawn("superlink", "flower-superlink", *trust, "--host", HERE, "--port", self.ports["superlink"])
        self._await_port("superlink", patience)
        for name in self.ports:
            if name != "superlink":
                self.start_node(name)

    def start_node(self, name):
        home = self.home(name)
        settings = f'name="{name}" home="{home}" mortal=1'
        place = ("--superlink", self.address, "--host", HERE, "--port", self.ports[name])
        trust = ["--insecure"] if self.tls is None else ["--root-certificates", self.tls / "ca.crt"]
        self._spawn(name, "flower-supernode", *trust, *place, "--node-config", settings)

    def run(self, **settings):
        """Submit the app, as a person does; it goes on by itself."""
        home = self.home("person")
        trust = "insecure = true" if self.tls is None else f'root-certificates = "{self.tls / "ca.crt"}"'
        (home / "config.toml").write_text(CONNECTION.format(address=self.address, trust=trust))
        values = (f'{key}="{value}"' if isinstance(value, str) else f"{key}={value}" for key, value in settings.items())
        command = ["flwr", "run", self.app, "here", "--run-config", " ".join(values)]
        subprocess.run(command, env=self._environment("person"), check=True, capture_output=True, timeout=240)

    def wait_for(self, path, patience, holding=b""):
        """Until a file is there, and holds these bytes."""
        until = time.monotonic() + patience
        while not path.exists() or holding not in path.read_bytes():
            for name, process in self.processes.items():
                assert process.poll() is None, f"{name} has ended:\n{self.tail(name)}"
            assert time.monotonic() < until, "\n".join(f"--- {name}\n{self.tail(name)}" for name in self.ports)
            time.sleep(0.2)
        return path

    def kill(self, name):
        """As when the power fails: everything that belongs to one node, at once."""
        process = self.processes.pop(name)
        kill_all(f"DISCREET_NODE={name} {self.mark}")
        process.wait()

    def kill_server_app(self):
        """The coordinator alone: the SuperLink, which started it, stays."""
        for process in marked(f"DISCREET_NODE=superlink {self.mark}"):
            with contextlib.suppress(OSError):
                if b"flwr-serverapp" in Path(f"/proc/{process}/cmdline").read_bytes():
                    os.kill(process, signal.SIGKILL)

    def stop(self):
        kill_all(self.mark)
        for process in self.processes.values():
            process.wait()

    def home(self, name):
        home = self.folder / name
        home.mkdir(exist_ok=True)
        return home

    def tail(self, name):
        log = self.folder / f"{name}.log"
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return "\n".join([line for line in lines if "uvicorn.access" not in line][-40:])

    def _spawn(self, name, *command):
        """Each in a session of its own, as on a machine of its own: so the system shares its time out among them."""
        words, environment = list(map(str, command)), self._environment(name)
        with open(self.folder / f"{name}.log", "ab") as log:
            self.processes[name] = subprocess.Popen(
                words, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
            )

    def _environment(self, name):
        kept = {key: value for key, value in os.environ.items() if "proxy" not in key.lower() and key != "PYTHONPATH"}
        return kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(SOURCES),
            "OPENBLAS_NUM_THREADS": "1",
            "FLWR_HOME": str(self.home(name)),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3",
            "DISCREET_NODE": f"{name} {self.mark}",
        }

    def _await_port(self, name, patience):
        until = time.monotonic() + patience
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HERE, self.ports[name]), timeout=1):
                return
            assert self.processes[name].poll() is None, f"{name} has ended:\n{self.tail(name)}"
            assert time.monotonic() < until, f"{name} does not listen:\n{self.tail(name)}"
            time.sleep(0.2)


def write_app(folder):
    """The app that is bundled: this federation, and two modules that name its parts."""
    package = folder / "trial_app"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(PROJECT)
    (package / "__init__.py").touch()
    shutil.copy(Path(__file__).with_name("flower_trial.py"), package)
    for name, place in (("server", 0), ("client", 1)):
        (package / f"{name}.py").write_text(f"from trial_app.flower_trial import apps\n\napp = apps()[{place}]\n")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind((HERE, 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


def marked(mark):
    """The ids of all processes with this text in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def kill_all(mark):
    """Until none is left: a process may start another one meanwhile."""
    until = time.monotonic() + 30
    while (left := marked(mark)) and time.monotonic() < until:
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(0.1)
