"""Hostile clients: each ends as a closed connection, nothing is charged, and nothing private is told."""

import os
import random
import socket
import ssl
import struct
import time

import pyarrow as pa
import pytest
from tests.server.postgres.conftest import listening
from tests.server.postgres.test_scram import client_final

from discreet import errors
from discreet.curator.curator import OWNER
from discreet.errors import AccessDenied
from discreet.server.postgres import answers
from discreet.server.postgres import frames as fr
from discreet.server.postgres import statements as st
from discreet.server.postgres.answers import Result, Stop, Stopped
from discreet.server.postgres.connection import Connection, Door, End, Run, Send
from discreet.server.postgres.listener import Patience
from discreet.server.postgres.settings import Settings
from discreet.server.session import Session
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


STRANGE = [
    start(), struct.pack("!ii", 8, fr.SSL_REQUEST), struct.pack("!iiii", 16, fr.CANCEL_REQUEST, 1, 2),
    message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", 10) + b"n,,n=,r=ab"), message(b"p", b"c=biws,r=ab,p=AAAA"),
    message(b"Q", b"SELECT 1\0"), message(b"P", b"\0SELECT 1\0\0\0"), message(b"B", b"\0\0\0\0\0\0\0\0"),
    message(b"S"), message(b"X"), message(b"E", b"\0\0\0\0\0"), message(b"D", b"S\0"),
]  # fmt: skip
"""Frames of callers who are not known."""


def fuzz(count, seed):
    """So many frames, random or bent, at connections in every state before a caller is known; how many ended."""
    choice, ended, sent = random.Random(seed), 0, 0
    while sent < count:
        connection = Connection(nobody())
        for _ in range(choice.randrange(1, 6)):
            data = bytearray(choice.choice(STRANGE))
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


def test_a_client_of_a_newer_version_is_told_which_version_is_spoken(door):
    said = Connection(nobody()).receive(start(version=fr.VERSION + 2))[0].data
    assert said == message(b"v", struct.pack("!ii", fr.VERSION, 0))  # the major version too, as libpq 18 reads it
    if psycopg.pq.version() >= 180000:
        with psycopg.connect(**(door.target | {"dbname": "clinic", "max_protocol_version": "latest"})) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)


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


# Callers who are known


class Fake:
    """Answers without a dataset; what would be charged is counted."""

    def __init__(self):
        from types import SimpleNamespace

        self.settings, self.process, self.cursors, self.asked, self.size = Settings(), 0, {}, 0, 3
        self.session = SimpleNamespace(catalog=SimpleNamespace(name="clinic", tables={}))

    def describe(self, statement, values, types):
        return pa.schema({"n": pa.int64()})

    def run(self, statement, values, schema, stop):
        self.asked += 1
        return Result(pa.table({"n": pa.array(range(self.size), pa.int64())}), "SELECT")


def known(answers, **changes):
    """A connection whose caller has proved to know the token."""
    verifier = ScramVerifier.of("token", b"salt" * 4, 1)
    connection = Connection(nobody(verifier=lambda *_: verifier, open=lambda *_: answers, **changes))
    connection.receive(start())
    first = b"n,,n=ann,r=clientnonce"
    said = connection.receive(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
    final, _ = client_final(said[0].data[9:], "n=ann,r=clientnonce", "token", "n,,")
    drive(connection, message(b"p", final))
    assert connection.known
    return connection


def drive(connection, data):
    """Everything that a connection says to these bytes; its work is done at once."""
    said, acts = b"", connection.receive(data)
    while acts:
        act = acts.pop(0)
        said += act.data if isinstance(act, Send) else b""
        if isinstance(act, Run):
            try:
                result, error = act.work(), None
            except Exception as failure:
                result, error = None, failure
            acts += connection.done(result, error)
    return said


KNOWN = [
    message(b"Q", b"SELECT 1; SELECT 2\0"), message(b"Q", b"SET discreet.epsilon = 1\0"), message(b"S"), message(b"H"),
    message(b"P", b"a\0SELECT $1,$2\0\0\0"), message(b"P", b"\0SELECT 1\0\0\1\0\0\0\x14"), message(b"D", b"Sa\0"),
    message(b"B", b"\0a\0\0\0\0\2\0\0\0\1x\xff\xff\xff\xff\0\0"), message(b"B", b"p\0\0\0\0\0\0\0\0"),
    message(b"D", b"P\0"), message(b"E", b"\0\0\0\0\2"), message(b"E", b"p\0\0\0\0\0"), message(b"C", b"Sa\0"),
    message(b"Q", b"BEGIN\0"), message(b"Q", b"DECLARE c CURSOR FOR SELECT 1\0"), message(b"Q", b"FETCH 2 FROM c\0"),
    message(b"Q", b"COPY (SELECT 1) TO STDOUT (FORMAT csv)\0"), message(b"d", b"x"), message(b"F", b"\0\0\0\0"),
]  # fmt: skip
"""Frames of callers who are known."""


def fuzz_known(count, seed):
    """So many frames, whole or bent and in any order, at connections of a known caller; how many statements ran."""
    choice, sent, asked = random.Random(seed), 0, 0
    while sent < count:
        answers = Fake()
        connection = known(answers)
        for _ in range(choice.randrange(1, 60)):
            data = bytearray(choice.choice(KNOWN))
            if choice.random() < 0.3:
                data[choice.randrange(len(data))] = choice.randrange(256)
            if choice.random() < 0.05:
                data = data[: choice.randrange(len(data) + 1)]
            sent += 1
            said = drive(connection, bytes(data))
            assert b"XX000" not in said, (bytes(data), said)
            if connection.ended:
                break
        asked += answers.asked
    return asked


def test_fuzzed_frames_of_a_known_caller_never_break_the_server():
    assert fuzz_known(2_000, 3) > 30


@pytest.mark.slow
def test_hundreds_of_thousands_of_fuzzed_frames_of_a_known_caller():
    assert fuzz_known(300_000, 4) > 5_000


def test_a_portal_of_which_some_rows_were_taken_is_suspended_and_then_says_how_many_were_left():
    def letters(said):
        found = []
        while said:
            size = struct.unpack("!i", said[1:5])[0]
            found.append(said[:1] + (said[5:size] if said[:1] == b"C" else b""))
            said = said[size + 1 :]
        return b" ".join(found)

    for few, first, rest in (
        (2, b"D D s", b"D CSELECT 1"),
        (3, b"D D D s", b"CSELECT 0"),
        (4, b"D D D CSELECT 3", b"CSELECT 0"),
    ):
        connection, execute = known(Fake()), message(b"E", b"\0" + struct.pack("!i", few))
        drive(connection, message(b"P", b"\0SELECT 1\0\0\0") + message(b"B", b"\0\0\0\0\0\0\0\0"))
        assert letters(drive(connection, execute)) == first
        assert letters(drive(connection, execute)) == rest


@pytest.mark.parametrize(
    "data",
    [
        message(b"Q", b"SELECT 1 AS " + b"x" * 2_000 + b"\0"),
        message(b"P", b"\0SELECT 1 AS " + b"x" * 2_000 + b"\0\0\0"),
        message(b"B", b"\0a\0\0\0\0\2\0\0\0\1x" + struct.pack("!i", 2_000) + b"x" * 2_000 + b"\0\0"),
    ],
)
def test_reading_what_is_long_is_work_for_which_nobody_else_waits(data):
    connection = known(Fake())
    drive(connection, message(b"P", b"a\0SELECT $1, $2\0\0\0"))
    assert isinstance(connection.receive(data)[-1], Run)


def test_a_list_of_parameters_is_looked_at_once(clinic, monkeypatch):
    looked, near = [], answers._near
    monkeypatch.setattr(answers, "_near", lambda *given: looked.append(1) or near(*given))
    asked = "SELECT COUNT(*) FROM visits WHERE age IN (" + ", ".join(f"${i}" for i in range(1, 301)) + ")"
    catalog = clinic.service.places["clinic"].data().catalog
    assert answers.parameter_types(asked, (), 300, catalog) == (20,) * 300
    assert len(looked) == 1


@pytest.mark.parametrize(
    ("before", "asked"),
    [
        (b"", b"SELECT 1"),
        (b"BEGIN; DECLARE c CURSOR FOR SELECT 1", b"FETCH ALL FROM c"),
        (b"", b"COPY (SELECT 1) TO STDOUT"),
        (b"", b"COPY (SELECT 1) TO STDOUT (FORMAT binary)"),
    ],
)
def test_many_rows_are_written_a_part_at_a_time(before, asked):
    connection = known(large := Fake())
    large.size = 25_000
    drive(connection, message(b"Q", before + b"\0"))
    acts, sizes, said = connection.receive(message(b"Q", asked + b"\0")), [], b""
    while acts:
        act = acts.pop(0)
        if isinstance(act, Run):
            acts += connection.done(act.work())
        elif isinstance(act, Send):
            said += act.data
            sizes.append(len(act.data))
    assert max(sizes) < 300_000
    rows, kind = 0, b"d" if asked.startswith(b"COPY") else b"D"
    while said:
        rows += said[:1] == kind
        said = said[struct.unpack("!i", said[1:5])[0] + 1 :]
    assert rows == 25_000 + asked.endswith(b"binary)")  # and what ends a file


@pytest.mark.parametrize("asked", [b"SELECT 1", b"COPY (SELECT 1) TO STDOUT", b"DECLARE c CURSOR FOR SELECT 1"])
def test_an_answer_that_is_too_large_is_refused(asked):
    connection = known(large := Fake(), result=20_000)
    large.size = 2_501
    said = drive(connection, message(b"Q", asked + b"\0"))
    assert b"result: got '20008 bytes', expected at most 20000" in said
    assert b"LIMIT" in said
    large.size = 2_500
    assert b"expected" not in drive(connection, message(b"Q", asked + b"\0"))


def test_what_a_connection_keeps_is_bounded():
    connection = known(Fake(), most=10_000_000)
    drive(connection, message(b"Q", b"BEGIN\0") + message(b"P", b"a\0SELECT $1\0\0\0"))
    value, said = b"x" * 9_000_000, b""
    for place in range(10):
        bound = b"p%d\0a\0\0\0\0\1" % place + struct.pack("!i", len(value)) + value + b"\0\0"
        said += drive(connection, message(b"B", bound))
    assert b"at most 64000000" in said


def test_a_failure_while_a_dataset_is_opened_ends_the_connection():
    def broken(*_):
        raise OSError("secret words")

    connection = Connection(nobody(open=broken))
    connection.receive(start())
    first = b"n,,n=ann,r=clientnonce"
    said = connection.receive(message(b"p", b"SCRAM-SHA-256\0" + struct.pack("!i", len(first)) + first))
    final, _ = client_final(said[0].data[9:], "n=ann,r=clientnonce", "x", "n,,")
    (run,) = connection.receive(message(b"p", final))
    with pytest.raises(OSError, match="secret"):
        run.work()
    acts = connection.done(None, OSError("secret words"))
    assert isinstance(acts[-1], End)
    assert b"FATAL" in acts[0].data
    assert b"secret" not in acts[0].data


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (errors.EngineUnavailable("PostgreSQL at postgresql://curator@db/secret does not answer"), "57P03"),
        (errors.LedgerUnavailable("the ledger /srv/secret.ledger cannot grow"), "57P03"),
        (errors.LedgerDamaged("row 4 of /srv/secret.ledger was edited"), "57P03"),
        (KeyError("secret"), "XX000"),
    ],
)
def test_what_only_the_owner_may_know_of_a_failure_is_not_told(door, monkeypatch, caplog, error, state):
    def failing(self, question, **named):
        raise error

    monkeypatch.setattr(Session, "answers", failing)
    monkeypatch.setattr(OWNER, "handlers", [caplog.handler])
    client = psycopg.connect(**door.target, dbname="clinic", autocommit=True, options="-c discreet.epsilon=1")
    with client, pytest.raises(psycopg.Error) as refusal:
        client.execute("SELECT COUNT(*) FROM visits WHERE age = 101")
    assert refusal.value.sqlstate == state
    assert "secret" not in str(refusal.value)
    assert "secret" in caplog.text


def test_a_canceled_question_is_not_begun_though_another_is(door):
    answers = door.listener._session_of("ann", "clinic")
    answers.settings.set("discreet.epsilon", "1")
    before, (piece,) = door.charges(), st.pieces("SELECT COUNT(*) FROM visits WHERE age = 101")
    with pytest.raises(Stopped):
        answers.run(piece.statement, [], None, Stop(wanted=True))
    assert door.charges() == before
    answers.run(piece.statement, [], None, Stop())
    assert door.charges() == before + 1


def test_a_message_that_trickles_ends_the_connection_of_a_known_caller_too(clinic):
    with (
        listening(clinic.service, patience=Patience(message=0.5)) as made,
        psycopg.connect(
            host="127.0.0.1", port=made.port, user="ann", password=clinic.tokens["ann"], dbname="clinic"
        ) as client,
        socket.socket(fileno=os.dup(client.pgconn.socket)) as wire,
    ):
        for sign in message(b"Q", b"SELECT 1" + b" " * 400 + b"\0"):
            if not made.listener.connections:
                break
            wire.send(bytes([sign]))
            time.sleep(0.05)
        assert not made.listener.connections
        client.close()


def test_many_strangers_do_not_keep_others_out(clinic):
    with listening(clinic.service, patience=Patience(unknown=5, login=600)) as made:
        strangers = [socket.create_connection(("127.0.0.1", made.port)) for _ in range(20)]
        with psycopg.connect(
            host="127.0.0.1", port=made.port, user="ann", password=clinic.tokens["ann"], dbname="clinic"
        ) as client:
            assert client.execute("SELECT 1").fetchone() == (1,)
        assert len(made.listener.strangers) <= 5
        for each in strangers:
            each.close()


def test_what_is_said_waits_for_a_client_who_does_not_read(clinic):
    with listening(clinic.service) as made:
        client = psycopg.connect(
            host="127.0.0.1", port=made.port, user="ann", password=clinic.tokens["ann"], dbname="clinic"
        )
        wire = socket.socket(fileno=os.dup(client.pgconn.socket))
        (server,) = made.listener.connections.values()
        wire.sendall(message(b"Q", b"SELECT repeat('x', 4000000) AS x\0") * 20)
        deadline = time.monotonic() + 120
        while server._taken is None and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        assert server._transport.get_write_buffer_size() < 10_000_000
        wire.close()
        client.close()


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
