"""A server on loopback, in a thread, and people who may come in."""

from types import SimpleNamespace

import pytest
from tests import serving

from discreet.server.tokens import TokenFile

CLINIC = serving.CLINIC.replace('"100000"', '"100"').replace('"50000"', '"50"')


@pytest.fixture
def folder(tmp_path):
    serving.write_house(tmp_path, clinic=CLINIC)
    return tmp_path


@pytest.fixture
def server(folder, monkeypatch):
    """The address, the tokens of ann, bob and olga, and the ledger."""
    monkeypatch.delenv("DISCREET_URL", raising=False)
    monkeypatch.delenv("DISCREET_TOKEN", raising=False)
    monkeypatch.setattr("discreet.client.transport._PAUSE", 0.001)
    monkeypatch.setattr("discreet.client.transport._LONGEST_PAUSE", 0.01)
    with serving.running(folder) as house:
        place = house.service.places["clinic"]
        file = TokenFile(folder / "clinic.tokens")
        yield SimpleNamespace(url=house.url, tokens=house.tokens, place=place, file=file, policy=folder / "clinic.toml")
