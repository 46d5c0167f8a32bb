"""One running server for all tests that leave its tokens and settings alone; `fresh` makes one of a test's own."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import serving
from tests.serving import House

from discreet.server.service import Service
from discreet.server.session import Place


@pytest.fixture(scope="session")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A running server with the clinic, the school, and tokens of every role (`serving.PEOPLE`)."""
    folder = tmp_path_factory.mktemp("house")
    serving.write_house(folder)
    with serving.running(folder) as made:
        yield made


@pytest.fixture(scope="session")
def service(house: House) -> Service:
    """What the running server holds."""
    return house.service


@pytest.fixture(scope="session")
def place(service: Service) -> Place:
    """The clinic, as callers find it."""
    return service.places["clinic"]


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Make a server of this test's own: `fresh(clinic=…, limits=…)`."""
    with ExitStack() as closing:

        def make(*, rows: int = 900, clinic: str = serving.CLINIC, **running: Any) -> House:
            serving.write_house(tmp_path, clinic=clinic, rows=rows)
            return closing.enter_context(serving.running(tmp_path, **running))

        yield make
