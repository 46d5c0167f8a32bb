"""Callers who are silent, slow or endless: each is told so and let go, before anybody else has to wait."""

import json
import socket
import threading

import pytest
from tests.serving import COUNT

from discreet.server import connections
from discreet.server.console.sign_in import SIGN_IN
from discreet.server.service import Limits

resource = pytest.importorskip("resource")


def said(house, *parts):
    """What the server says to these bytes until it closes."""
    with socket.create_connection(("127.0.0.1", house.port), 60) as near:
        for part in parts:
            near.sendall(part)
        return b"".join(iter(lambda: near.recv(65536), b""))


@pytest.mark.parametrize(
    "begun",
    [b"", b"GET /healthz HTTP/1.1\r\nHost: x\r\n", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET"],
    ids=range(3),
)
def test_a_head_that_does_not_end_is_not_waited_for(fresh, monkeypatch, begun):
    house = fresh()
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    reply = said(house, begun)
    assert reply.rpartition(b"HTTP/1.1 ")[2].startswith(b"408 ")
    assert house.call("GET", "/healthz", None).status == 200


def test_a_head_without_an_end_is_not_kept(house):
    with socket.create_connection(("127.0.0.1", house.port), 60) as near:
        near.sendall(b"GET /healthz HTTP/1.1\r\n")
        sent, reply = 0, b""
        near.settimeout(0.001)
        while not reply and sent < 100 * connections.HEAD_BYTES:
            near.settimeout(10)
            try:
                near.sendall(b"X: " + b"a" * 8000 + b"\r\n")
            except ConnectionError:
                break
            sent += 8000
            near.settimeout(0.001)
            try:
                reply = near.recv(100)
            except TimeoutError:
                continue
            except ConnectionError:
                break
    assert reply == b"" or reply.startswith(b"HTTP/1.1 431 ")
    assert sent < 100 * connections.HEAD_BYTES


def test_a_body_that_does_not_come_is_not_waited_for(fresh):
    house = fresh(limits=Limits(body_seconds=0.2))
    head = (
        "POST /v1/datasets/clinic/ask HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 90\r\n"
    )
    reply = said(
        house, f"{head}Connection: close\r\nAuthorization: Bearer {house.tokens['ann']}\r\n\r\n".encode(), b'{"sql"'
    )
    status, _, rest = reply.partition(b"\r\n")
    assert b" 408 " in status
    assert json.loads(rest.partition(b"\r\n\r\n")[2])["code"] == "invalid-parameter"
    assert house.charges() == 0
    assert house.ask(COUNT, "0.1").status == 200


def test_large_bodies_share_the_memory_that_they_may_take(fresh):
    """Before callers are known, too: the page that one signs in with reads a body, as does that of a survey."""
    house = fresh(limits=Limits(bodies=300_000))
    head = "POST {} HTTP/1.1\r\nHost: x\r\nContent-Type: {}\r\nContent-Length: 400000\r\n{}\r\n"
    token = f"Authorization: Bearer {house.tokens['ann']}\r\n"
    path, form = "/v1/datasets/clinic/ask", "application/json"
    with socket.create_connection(("127.0.0.1", house.port), 60) as first:
        first.sendall(head.format(path, form, token).encode() + b" " * 200_000)
        while house.service.held < 200_000:
            assert house.call("GET", "/healthz", None).status == 200
        reply = house.call("POST", path, "ann", b" " * 200_000)
        assert (reply.status, reply.code) == (503, "server-unavailable")
        assert int(reply.headers["retry-after"]) >= 1
        sign_in = house.call("POST", SIGN_IN, None, b"x" * 200_000, Content_Type="text/plain", Origin=house.url)
        assert sign_in.status == 503
        assert house.ask(COUNT, "0.1").status == 200  # small ones are always read
    while house.service.held:
        assert house.call("GET", "/healthz", None).status == 200
    assert house.call("POST", path, "ann", b" " * 200_000).status != 503


def test_as_many_files_are_asked_for_as_connections_need():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, before[1]), before[1]))
        held = connections.most_connections(1500)
        allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        assert allowed == min(2012, before[1])
        assert held <= allowed - 512
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_people_who_answer_surveys_do_not_hold_up_who_asks(fresh):
    """They need no token: were they as many as the server has threads, nobody else would get an answer."""
    from tests.server.test_jobs_and_surveys import SURVEY

    from discreet.server.routes import surveys

    house = fresh(limits=Limits(threads=2))
    reports = house.call("POST", "/v1/datasets/clinic/surveys", "carl", {"survey": SURVEY.to_json()}).json["reports"]
    replies = []

    def send():
        replies.append(
            house.call("POST", reports, None, SURVEY.respond("yes").line.encode(), Content_Type="text/plain")
        )

    threads = [threading.Thread(target=send) for _ in range(8)]
    with surveys.writing():
        for thread in threads:
            thread.start()
        while house.app.state.survey_limiter.statistics().tasks_waiting < 6:
            assert any(thread.is_alive() for thread in threads)
        assert house.ask(COUNT, "0.1").status == 200
    for thread in threads:
        thread.join()
    assert [reply.json["accepted"] for reply in replies] == [1] * 8
