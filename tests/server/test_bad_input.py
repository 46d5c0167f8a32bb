"""Bad input: a clear 4xx each; nothing is charged, nothing is lost, and no token is repeated."""

import json
import logging
import socket
from datetime import timedelta
from http.client import HTTPConnection

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.serving import BY_REGION, COUNT

from discreet.server.access import Throttle
from discreet.server.service import LOG, Limits, log
from discreet.server.tokens import TokenFile, new_token

ASK = "/v1/datasets/clinic/ask"
INJECTIONS = [
    "SELECT COUNT(*) FROM visits; DROP TABLE visits",
    "SELECT COUNT(*) FROM visits; SELECT * FROM visits",
    "SELECT * FROM visits",
    "SELECT patient_id, COUNT(*) AS n FROM visits GROUP BY patient_id",
    "SELECT COUNT(*) FROM visits UNION ALL SELECT age FROM visits",
    "SELECT COUNT(*) FROM visits WHERE age = (SELECT MAX(age) FROM visits)",
    "SELECT COUNT(*) FROM read_csv('visits.csv')",
    "SELECT COUNT(*) FROM read_csv_auto('/etc/passwd')",
    "SELECT COUNT(*) FROM 'visits.csv'",
    "SELECT COUNT(*) FROM \"/etc/passwd\"",
    "SELECT content FROM read_text('clinic.tokens')",
    "COPY visits TO '/tmp/out.csv'",
    "COPY (SELECT * FROM visits) TO 'out.parquet'",
    "ATTACH 'clinic.ledger' AS l",
    "INSTALL httpfs", "LOAD httpfs",
    "PRAGMA database_list",
    "SET enable_external_access = true",
    "INSERT INTO visits VALUES (1, 2, '2020-01-01', 3, 'north')",
    "UPDATE visits SET age = 0", "DELETE FROM visits", "CREATE TABLE t AS SELECT * FROM visits",
    "EXPLAIN ANALYZE SELECT COUNT(*) FROM visits",
    "SELECT COUNT(*) FROM information_schema.tables",
    "SELECT COUNT(*) FROM duckdb_tables()",
    "SELECT COUNT(*) FROM sqlite_master",
    "SELECT getenv('HOME') AS h FROM visits GROUP BY 1",
    "SELECT COUNT(*) FROM visits WHERE region = 'north' OR 1/0 = 1 --",
    "SELECT COUNT(*) FROM visits WHERE CAST(region AS INTEGER) = 1",
    "SELECT COUNT(*) FROM visits WHERE error('x')",
    "SELECT COUNT(*) /* */ FROM visits WHERE EXISTS (SELECT 1 FROM rows)",
    "SELECT STRING_AGG(region) FROM visits", "SELECT LIST(age) FROM visits", "SELECT FIRST(age) FROM visits",
    "SELECT ANY_VALUE(patient_id) FROM visits", "SELECT ARG_MAX(patient_id, age) FROM visits",
    "'; SELECT * FROM visits; --", "\x00", "", " ", ";", "--", "SELECT", "💥" * 1000, "(" * 5000, "SELECT " + "(" * 3000 + "1",
    "SELECT COUNT(*) FROM visits WHERE " + " OR ".join(["age = 1"] * 3000),
]  # fmt: skip


@pytest.mark.parametrize("sql", INJECTIONS, ids=range(len(INJECTIONS)))
def test_sql_that_is_no_question_is_refused_or_planned_and_touches_nothing(house, sql):
    """What is planned at all is free here: nothing but a plan is asked for, and nothing is charged for it."""
    before, rows = house.charges(), (house.folder / "visits.csv").read_bytes()
    reply = house.call("POST", "/v1/datasets/clinic/explain", "ann", {"sql": sql, "epsilon": "0.01"})
    assert reply.status in (200, 422), reply
    if reply.status == 422:
        asked = house.ask(sql)
        assert asked.status == 422
        assert asked.json["detail"] == reply.json["detail"]
        assert not any(
            word in asked.json["detail"] for word in ("duckdb", "Binder Error", "Catalog Error", "Traceback")
        )
    assert house.charges() == before
    assert (house.folder / "visits.csv").read_bytes() == rows
    assert house.ask(COUNT, "0.011").status == 200


BODIES = [
    (b"", 422), (b"{", 400), (b"nonsense", 400), (b"[]", 422), (b"null", 422), (b"1", 422), (b'"x"', 422),
    (b'{"sql": 1, "epsilon": 1}', 422), (b'{"epsilon": 1}', 422), (b'{"sql": [], "epsilon": 1}', 422),
    (b'{"sql": [1], "epsilon": 1}', 422), (b'{"sql": "SELECT 1", "epsilon": []}', 422),
    (b'{"sql": "SELECT 1", "epsilon": {}}', 422), (b'{"sql": "SELECT 1", "epsilon": true}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": NaN}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": Infinity}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1e400}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "nan"}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": -0.5}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "delta": "x"}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "groups": 0}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": 1, "confidence": 2}', 422),
    (b'{"sql": "SELECT COUNT(*) AS n FROM visits"}', 422),
    (b'{"sql": "\xff", "epsilon": 1}', 400), (b"[" * 50_000, 400), (b'{"a":' * 20_000, 400),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), BODIES, ids=range(len(BODIES)))
def test_bodies_that_are_no_questions(house, body, status):
    before = house.charges()
    reply = house.call("POST", ASK, "ann", body)
    assert reply.status == status, reply
    assert reply.code in ("invalid-parameter", "invalid-query")
    assert house.charges() == before


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"sql": ', "body: got 'Expecting value at character 8', expected a document of JSON"),
        (b'{"sql": "x", "epsilon": true}', "expected a valid string, or a valid integer, or a valid number"),
        (b'{"sql": "x", "analyst": "bob"}', "analyst: got 'a field that nobody knows'"),
        (b'{"epsilon": 1}', "sql: got 'nothing', expected a value"),
        (b'{"sql": ["x", 1], "epsilon": 1}', "sql: got 'something else', expected a valid string"),
    ],
)
def test_what_does_not_fit_the_schema_is_told_in_words(house, body, words):
    reply = house.call("POST", ASK, "ann", body)
    assert words in reply.json["detail"]
    assert not any(code in reply.json["detail"] for code in ("_type", "_invalid", "_forbidden", "constrained"))


@pytest.mark.parametrize("status", ["wrong", "expired", "revoked"])
def test_tokens_that_open_nothing_are_refused_in_the_same_words(fresh, status):
    house = fresh()
    file = TokenFile(house.folder / "clinic.tokens")
    token = new_token()
    if status != "wrong":
        token, kept = file.create(
            "ann", "analyst", lifetime=timedelta(milliseconds=1 if status == "expired" else 10**9)
        )
    if status == "revoked":
        assert house.call("GET", "/v1/datasets", token).status == 200
        file.revoke(kept.id)
    reply = house.call("POST", ASK, token, {"sql": COUNT, "epsilon": 1})
    assert (reply.status, reply.code) == (401, "access-denied")
    assert "not known, was revoked or has expired" in reply.json["detail"]
    assert house.charges() == 0


def test_a_large_body_is_refused_whether_its_size_is_told_or_not(house):
    before = house.charges()
    reply = house.call("POST", ASK, "ann", b"x", Content_Length="104857600")
    assert (reply.status, reply.code) == (413, "invalid-parameter")
    connection = HTTPConnection("127.0.0.1", house.port, timeout=30)
    try:
        chunks = (b"x" * 1_000_000 for _ in range(100))  # 100 MB, of which 10 are read
        connection.request("POST", ASK, chunks, {"Authorization": f"Bearer {house.tokens['ann']}"}, encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # the server had closed
    finally:
        connection.close()
    assert status == 413
    assert house.charges() == before
    assert house.call("GET", "/healthz", None).status == 200


def test_who_sends_a_large_body_before_reading_is_told_why_it_is_refused(house):
    """Where the connection is to be closed, the reply was lost: the system resets it while something is unread."""
    for told in ("Content-Length: 40000000", "Transfer-Encoding: chunked"):
        head = f"POST {ASK} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n{told}\r\n"
        with socket.create_connection(("127.0.0.1", house.port), 60) as near:
            near.sendall(f"{head}Authorization: Bearer {house.tokens['ann']}\r\n\r\n".encode())
            for _ in range(40):
                part = b"x" * 1_000_000
                near.sendall(part if "Length" in told else b"%x\r\n%s\r\n" % (len(part), part))
            if "chunked" in told:
                near.sendall(b"0\r\n\r\n")
            reply = b"".join(iter(lambda: near.recv(65536), b""))
        assert reply.startswith(b"HTTP/1.1 413 ")
        assert b"at most 10000000 bytes" in reply


def test_a_result_that_is_too_large_is_kept_and_told(fresh):
    house = fresh(limits=Limits(result=50))
    reply = house.ask(BY_REGION, "0.5")
    assert (reply.status, reply.code) == (413, "invalid-parameter")
    assert "paid for is kept" in reply.json["detail"]
    assert house.charges() == 1


def test_too_many_questions_of_one_token_are_refused_for_free(house):
    service, token = house.service, house.service.places["clinic"].tokens.find(house.tokens["olga"])
    entered = [service.work(token) for _ in range(service.limits.each)]
    for context in entered:
        context.__enter__()
    try:
        reply = house.ask(COUNT, "0.013", who="olga")
        assert (reply.status, reply.code) == (429, "server-unavailable")
        assert int(reply.headers["retry-after"]) >= 1
        assert house.ask(COUNT, "0.013", who="ann").status == 200
    finally:
        for context in entered:
            context.__exit__(None, None, None)
    assert house.ask(COUNT, "0.013", who="olga").status == 200


def test_guessing_tokens_is_throttled_by_address(fresh):
    house = fresh()
    house.service.throttle = Throttle(free=3)
    statuses = [house.call("GET", "/v1/datasets", new_token()).status for _ in range(6)]
    assert statuses == [401] * 4 + [429] * 2
    reply = house.call("GET", "/v1/datasets", "ann")
    assert reply.status == 429  # from there, nobody comes in for a while
    assert int(reply.headers["retry-after"]) >= 1
    reply = house.call("GET", "/v1/datasets", "ann", X_Forwarded_For="192.0.2.7")
    assert reply.status == 429  # an address that is only stated is not believed


def test_a_throttle_forgets_addresses_and_waits_longer_each_time():
    throttle = Throttle(free=1, addresses=10, most=8)
    assert [throttle.failed("a") for _ in range(6)] == [0, 1, 2, 4, 8, 8]
    for n in range(50):
        throttle.failed(f"b{n}")
    assert len(throttle._failures) == 10
    assert throttle.wait("a") == 0


def test_whoever_has_a_network_of_ipv6_is_one_caller():
    throttle = Throttle(free=1)
    assert [throttle.failed(f"2001:db8::{n}") for n in range(3)] == [0, 1, 2]
    assert throttle.wait("2001:db8::ffff") > 0
    assert throttle.wait("2001:db8:0:1::1") == 0


@pytest.mark.parametrize("accept", ["image/png", "application/xml", "nonsense", "text/csv;q=0"])
def test_a_form_that_is_not_offered_is_refused_before_the_charge(house, accept):
    before = house.charges()
    reply = house.ask(BY_REGION, "0.0123", Accept=accept)
    assert (reply.status, reply.code) == (406, "invalid-parameter")
    assert house.charges() == before


# Tokens and private values in logs and errors


@pytest.fixture
def logged(monkeypatch):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage() + str(record.exc_info or ""))
    monkeypatch.setattr(LOG, "handlers", [handler])
    monkeypatch.setattr(LOG, "propagate", False)
    LOG.setLevel(logging.INFO)
    return lines


def test_no_token_no_question_and_no_answer_is_in_the_log_or_in_an_error(house, logged):
    house.service.throttle = Throttle(free=10**6)
    token, secret = house.tokens["ann"], new_token()
    replies = [
        house.ask(f"SELECT COUNT(*) AS n FROM visits WHERE region = '{token}'"),
        house.ask(f"SELECT {token} FROM visits"),
        house.ask(COUNT, token),
        house.ask(COUNT, "0.014", Idempotency_Key=token),
        house.call("GET", f"/v1/datasets/{token}"),
        house.call("GET", f"/v1/jobs/{token}"),
        house.call("GET", f"/surveys/{token}", None),
        house.call("GET", "/v1/datasets", secret),
        house.call("GET", "/v1/datasets", f"{token}x"),
        house.call("GET", f"/{token}", None),
        house.call("POST", ASK, "ann", {"sql": COUNT, token: 1}),
        house.call("DELETE", f"/v1/datasets/clinic/tokens/{token}", "olga"),
    ]
    log = "\n".join(logged)
    assert len(logged) >= len(replies)
    for hidden in (token, secret, token[24:], COUNT, "visits", "0.014"):
        assert hidden not in log
    for line in logged:
        facts = json.loads(line)
        assert set(facts) == {"request", "method", "path", "status", "ms", "token"}
        assert facts["token"] in ("", *(text[9:21] for text in house.tokens.values()))
    for reply in replies:
        assert secret not in reply.content.decode()


def test_what_looks_like_a_token_is_hidden_in_the_log(logged):
    token = new_token()
    log(note=f"Bearer {token}", nested={"x": [token]})
    assert token not in logged[0]
    assert token[:21] in logged[0]


# Schemas: whatever fits them, and whatever does not, is answered with a status that the document knows


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ("sql", "epsilon", "error", "delta", "groups", "rows", "confidence", "measure_bounds", "kind", "request", "table",
          "quasi", "survey", "attack", "tables", "settings")  # fmt: skip


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    path=st.sampled_from(["explain", "jobs", "reports/risk", "reports/attack", "surveys"]),
    body=JSON | st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4),
)
def test_any_document_is_answered_or_refused_in_words(house, path, body):
    before = house.charges()
    reply = house.call("POST", f"/v1/datasets/clinic/{path}", "olga", body)
    assert reply.status < 500, (body, reply)
    if reply.status >= 400:
        assert reply.code
        assert reply.json["detail"]
    assert house.charges() == before


def test_two_hundred_silent_connections_do_not_stop_it(house):
    near = []
    try:
        for _ in range(200):
            near.append(socket.create_connection(("127.0.0.1", house.port), 10))
            near[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")  # and never more
        assert house.ask(COUNT, "0.015").status == 200
    finally:
        for one in near:
            one.close()
