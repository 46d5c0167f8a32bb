"""Hostile clients: each ends as a closed connection, nothing is charged, and nothing private is told."""

import random
import socket
import ssl
import struct
import time

import pytest
from tests.server.postgres.conftest import listening

from discreet.errors import AccessDenied
from discreet.server.postgres import frames as fr
from discreet.server.postgres.connection import Connection, Door, End, Run, Send
from discreet.server.postgres.listener import Patience
from discreet.server.tokens import ScramVerifier

psycopg = pytest.importorskip("psycopg")


def refused(*_):
    raise AccessDenied("nobody")


def nobody(**changes):
    """A door through which nobody comes."""
    settings = {
        "verifier": lambda user, dataset: ScramVerifier.of("x", b"salt" * 4, 1),
        "open": refused, "refused": lambda: 0.0, "wait": lambda: 0.0, "tls": False, "clear_text": True,
    }  # fmt: skip
    return Door(**(settings | changes))


def start(user="ann", database="clinic", version=fr.VERSION):
    body = struct.pack("!i", version) + b"".join(fr.text(t) for t in ("user", user, "database", database)) + b"\0"
    return struct.pack("!i", len(body) + 4) + body


def message(letter, body=b""):
    return letter + struct.pack("!i", len(body) + 4) + body


def fuzz(count, seed):
    """So many frames, random or bent, at connections in every state before a caller is known; how many ended."""
    choice, ended, sent = random.Random(seed), 0, 0
    whole = [
        start(), struct.pack("!ii", 8, fr.SSL_REQUEST), struct.pack("!iiii", 16, fr.CANCEL_REQUEST, 1, 2),
        message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 10) + b"n,,n=,r=ab"), message(b"p", b"c=biws,r=ab,p=AAAA"),
        message(b"Q", b"SELECT 1\0"), message(b"P", b"\0SELECT 1\0\0\0"), message(b"B", b"\0\0\0\0\0\0\0\0"),
        message(b"S"), message(b"X"), message(b"E", b"\0\0\0\0\0"), message(b"D", b"S\0"),
    ]  # fmt: skip
    while sent < count:
        connection = Connection(nobody())
        for _ in range(choice.randrange(1, 6)):
            data = bytearray(choice.choice(whole))
            for _ in range(choice.randrange(4)):
                data[choice.randrange(len(data))] = choice.randrange(256)
            if choice.random() < 0.2:
                data = data[: choice.randrange(len(data) + 1)]
            sent += 1
            for act in connection.receive(bytes(data)):
                assert not isinstance(act, Run) or connection.busy
                if isinstance(act, Run):
                    connection.done(None, AccessDenied("nobody"))
                ended += isinstance(act, End)
            assert not connection.known
            assert connection.frames.waiting <= fr.FIRST_MOST + 100
            if connection.ended:
                break
    return ended


def test_fuzzed_frames_never_raise_and_never_let_anybody_in():
    assert fuzz(20_000, 1) > 3_000


@pytest.mark.slow
def test_a_million_fuzzed_frames():
    assert fuzz(1_000_000, 2) > 100_000


@pytest.mark.parametrize("length", [0, 3, 4, 7, 10_001, 2**24, 2**31 - 1, -1, -(2**31)])
def test_a_length_that_cannot_be_ends_the_connection_before_anything_is_kept(length):
    connection = Connection(nobody())
    acts = connection.receive(struct.pack("!i", length) + b"x" * 20)
    assert isinstance(acts[-1], End)
    assert b"FATAL" in acts[0].data


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_messages_in_pieces_are_whole_messages(cut):
    connection, data = Connection(nobody()), start()
    acts = [act for i in range(0, len(data), cut) for act in connection.receive(data[i : i + cut])]
    assert [type(act) for act in acts] == [Send]
    assert b"SCRAM-SHA-256" in acts[0].data


def test_what_cannot_come_now_ends_the_connection():
    for early in (message(b"Q", b"SELECT 1\0"), message(b"S"), message(b"P", b"\0SELECT 1\0\0\0")):
        connection = Connection(nobody())
        connection.receive(start())
        assert isinstance(connection.receive(early)[-1], End)


def test_bytes_that_come_with_the_wish_for_tls_are_refused():
    connection = Connection(nobody(tls=True))
    acts = connection.receive(struct.pack("!ii", 8, fr.SSL_REQUEST) + start())
    assert isinstance(acts[-1], End)
    assert not any(isinstance(act, Send) and act.data == b"S" for act in acts)


def test_clear_text_is_refused_where_tls_is_spoken():
    connection = Connection(nobody(tls=True, clear_text=False))
    acts = connection.receive(start())
    assert isinstance(acts[-1], End)
    assert b"28000" in acts[0].data


def closed(port, data, seconds=20):
    """Whether the server closes a connection on which these bytes came."""
    with socket.create_connection(("127.0.0.1", port), timeout=seconds) as client:
        client.sendall(data)
        while client.recv(65536):
            pass
    return True


def test_hostile_sockets_are_closed_and_nothing_is_charged(door):
    before = door.charges()
    for data in (b"GET / HTTP/1.1\r\n\r\n", struct.pack("!i", 2**31 - 1), start(version=2 << 16), b"\x16\x03\x01" * 50):
        assert closed(door.port, data)
    assert closed(door.port, struct.pack("!iiii", 16, fr.CANCEL_REQUEST, 1, 2))
    assert door.charges() == before


def test_a_slow_caller_is_not_waited_for(clinic):
    with listening(clinic.service, patience=Patience(login=0.3, message=0.3)) as made:
        started = time.monotonic()
        assert closed(made.port, start()[:5])
        assert closed(made.port, b"")
        assert time.monotonic() - started < 20
        with socket.create_connection(("127.0.0.1", made.port), timeout=20):
            pass


@pytest.mark.slow
def test_thousands_of_idle_connections_leave_room_for_others(clinic):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    count = min(10_000, (hard - 500) // 2)
    with listening(clinic.service, patience=Patience(unknown=20_000, login=600)) as made:
        idle = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(count)]
        with psycopg.connect(
            host="127.0.0.1", port=made.port, user="ann", password=clinic.tokens["ann"], dbname="clinic"
        ) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        for each in idle:
            each.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_too_many_wrong_tokens_are_slowed_down(door):
    door.service.throttle.__init__(free=2)
    for _ in range(4):
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(**(door.target | {"dbname": "clinic", "password": "wrong"}))
    with pytest.raises(psycopg.OperationalError, match="too many wrong tokens"):
        psycopg.connect(**(door.target | {"dbname": "clinic"}))
    door.service.throttle.__init__()


def test_names_that_hold_sql_are_names(door):
    with psycopg.connect(**(door.target | {"dbname": "clinic", "autocommit": True})) as client:
        client.execute("SET discreet.epsilon = 1")
        for sql in (
            'SELECT COUNT(*) FROM "visits; DROP TABLE visits"',
            "SELECT COUNT(*) FROM visits WHERE region = (SELECT region FROM visits LIMIT 1)",
            "SELECT * FROM visits",
            "SELECT * FROM pg_catalog.pg_class, visits",
            "SELECT read_text('/etc/passwd')",
            "SELECT * FROM pg_read_file('/etc/passwd')",
            "INSERT INTO visits VALUES (1)",
            "CALL pragma_version()",
            "ATTACH 'x.db'",
        ):
            with pytest.raises(psycopg.Error) as refusal:
                client.execute(sql)
            assert "2020-03" not in str(refusal.value)
            assert "root:" not in str(refusal.value)


# TLS


def test_tls_by_request_directly_and_bound_to_the_certificate(secure):
    target = {"host": "localhost", "hostaddr": "127.0.0.1", "port": secure.port, "user": "ann", "dbname": "clinic"}
    target |= {"password": secure.tokens["ann"], "sslrootcert": str(secure.certificate), "sslmode": "verify-full"}
    ways = [{"channel_binding": "require"}, {"channel_binding": "disable"}]
    if psycopg.pq.version() >= 170000:
        ways.append({"sslnegotiation": "direct", "channel_binding": "require"})
    for way in ways:
        with psycopg.connect(**target, **way) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
    with pytest.raises(psycopg.OperationalError, match="clear text is refused"):
        psycopg.connect(**(target | {"sslmode": "disable"}))


def test_direct_tls_without_the_name_of_the_protocol_is_closed(secure):
    context = ssl.create_default_context(cafile=str(secure.certificate))
    with socket.create_connection(("127.0.0.1", secure.port), timeout=20) as client:
        try:
            with context.wrap_socket(client, server_hostname="localhost") as wrapped:
                assert wrapped.recv(100) == b""
        except (ssl.SSLError, ConnectionError):
            pass
