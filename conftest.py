"""For every test and every example in sources and documents: a state directory of its own; one thread of BLAS.

In CI also the same noise every time, so that a landing is not a lottery: thousands of statistical tests, each of which
may fail once in a million runs, and many more that merely tell noise from an answer. Elsewhere all noise is fresh.
"""

import hashlib
import itertools
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: on a busy machine, threads of products only wait


@pytest.fixture(scope="session")
def state_homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the state directories are, by number: `mktemp` would list all earlier ones to name the next."""
    folder = tmp_path_factory.mktemp("state")
    return (folder / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def state_home(state_homes: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Witnesses of a test, and of the programs that it starts, are its own."""
    folder = next(state_homes)
    folder.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(folder))
    return folder


class RepeatableSystem:
    """The module `os` as `noise.entropy` sees it in CI: its random bytes follow from the name of the running test.

    A forked child and every other process get the operating system's bytes: they must differ from their parent's.
    """

    def __init__(self) -> None:
        self.process = os.getpid()
        self.name, self.calls = "", itertools.count()

    def __getattr__(self, attribute: str) -> Any:
        return getattr(os, attribute)

    def urandom(self, size: int) -> bytes:
        """Bytes of the running test's stream; every call goes on in it."""
        if os.getpid() != self.process:
            return os.urandom(size)
        return hashlib.shake_256(f"{self.name} {next(self.calls)}".encode()).digest(size)

    @contextmanager
    def during(self, name: str) -> Iterator[None]:
        """Draws start anew, and go on afterwards where they were."""
        from discreet.noise import entropy

        before = self.name, self.calls
        self.name, self.calls = name, itertools.count()
        entropy._Forks.note()  # as after a fork, what was drawn before and not yet used is dropped
        try:
            yield
        finally:
            self.name, self.calls = before
            entropy._Forks.note()


_system = RepeatableSystem() if os.environ.get("CI") else None


def pytest_configure() -> None:
    """In CI, `noise.entropy` asks the stand-in."""
    if _system:
        from discreet.noise import entropy

        entropy.os = _system  # type: ignore[assignment]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """A test's noise follows from its name, whatever ran before it."""
    if not _system:
        return (yield)
    with _system.during(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef: Any, request: pytest.FixtureRequest) -> Generator[None, Any, Any]:
    """What many tests share must not depend on which of them is first."""
    if not _system or fixturedef.scope == "function":
        return (yield)
    with _system.during(f"{request.node.nodeid} {fixturedef.argname} {getattr(request, 'param_index', 0)}"):
        return (yield)
