"""PostgreSQL's door on loopback, in a thread: in clear text, and with TLS."""

import asyncio
import datetime as dt
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
from tests import serving

from discreet.server.postgres.listener import Listener
from discreet.server.service import Service
from discreet.server.session import open_places


@contextmanager
def listening(service, **settings):
    """A listener in a thread with a loop of its own; its port."""
    loop, listener, started = asyncio.new_event_loop(), Listener(service, port=0, **settings), threading.Event()
    found = {}

    def run():
        asyncio.set_event_loop(loop)
        found["port"] = loop.run_until_complete(listener.start())
        started.set()
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert started.wait(20)
    try:
        yield SimpleNamespace(port=found["port"], listener=listener)
    finally:
        asyncio.run_coroutine_threadsafe(listener.stop(), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(20)
        loop.close()


def make_certificate(folder):
    """A certificate of localhost that signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    (folder / "cert.pem").write_bytes(made.public_bytes(form))
    (folder / "key.pem").write_bytes(
        key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="session")
def clinic(tmp_path_factory):
    """The datasets, and a token for everybody."""
    folder = tmp_path_factory.mktemp("postgres")
    service = Service(open_places(serving.write_house(folder)))
    yield SimpleNamespace(service=service, tokens=serving.make_tokens(folder), folder=folder)
    service.close()


@pytest.fixture(scope="session")
def door(clinic):
    """The door in clear text: its port, tokens, and the ledger's count of charges."""
    with listening(clinic.service) as made:
        place = clinic.service.places["clinic"]
        yield SimpleNamespace(
            port=made.port, listener=made.listener, tokens=clinic.tokens, place=place, service=clinic.service,
            charges=lambda: place.data().budget().charges,
            target={"host": "127.0.0.1", "port": made.port, "user": "ann", "password": clinic.tokens["ann"]},
        )  # fmt: skip


@pytest.fixture(scope="session")
def secure(clinic):
    """The door with TLS."""
    certificate, key = make_certificate(clinic.folder)
    with listening(clinic.service, certificate=certificate, key=key) as made:
        yield SimpleNamespace(port=made.port, tokens=clinic.tokens, certificate=certificate, listener=made.listener)
