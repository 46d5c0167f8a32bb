"""For every test and every example in sources and documents: a state directory of its own; one thread of BLAS."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

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
