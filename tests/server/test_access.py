"""Who may do what: every route, for every role and dataset, from the application itself; and tricks to pass by."""

import ast
import contextlib
import json
import socket
from pathlib import Path

import pytest
from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from tests.serving import COUNT, PEOPLE

from discreet.errors import InternalError
from discreet.server import app as application
from discreet.server.access import RIGHTS, Right, Throttle
from discreet.server.tokens import Role, new_token

ALL, ASKING, OWNERS, COLLECTING = (
    ("owner", "analyst", "collector"),
    ("owner", "analyst"),
    ("owner",),
    ("owner", "collector"),
)
ANYBODY, ANY_TOKEN = "anybody", "any token"
D = "/v1/datasets/{dataset}"
RULES = {
    ("GET", "/healthz"): ANYBODY,
    ("GET", "/readyz"): ANYBODY,
    ("GET", "/version"): ANYBODY,
    ("GET", "/metrics"): ANYBODY,
    ("GET", "/surveys/{survey}"): ANYBODY,
    ("POST", "/surveys/{survey}/reports"): ANYBODY,
    ("GET", "/v1/datasets"): ANY_TOKEN,
    ("GET", "/v1/jobs/{job}"): ANY_TOKEN,
    ("DELETE", "/v1/jobs/{job}"): ANY_TOKEN,
    ("GET", "/v1/jobs/{job}/result"): ANY_TOKEN,
    ("GET", D): ALL,
    ("POST", f"{D}/explain"): ASKING,
    ("POST", f"{D}/ask"): ASKING,
    ("GET", f"{D}/answers/{{answer}}"): ASKING,
    ("POST", f"{D}/jobs"): ASKING,
    ("GET", f"{D}/budget"): ASKING,
    ("GET", f"{D}/statement"): ALL,
    ("GET", f"{D}/ledger"): OWNERS,
    ("POST", f"{D}/ledger/verify"): OWNERS,
    ("POST", f"{D}/ledger/head"): OWNERS,
    ("GET", f"{D}/tokens"): OWNERS,
    ("DELETE", f"{D}/tokens/{{which}}"): OWNERS,
    ("POST", f"{D}/reports/risk"): OWNERS,
    ("POST", f"{D}/reports/attack"): OWNERS,
    ("POST", f"{D}/surveys"): COLLECTING,
    ("GET", f"{D}/surveys"): COLLECTING,
    ("GET", f"{D}/surveys/{{survey}}/estimate"): COLLECTING,
}
"""Who may call what, written down a second time: a route that is not here fails, as does one that is gone."""


def routes(house):
    return sorted(
        (method, route.path)
        for route in house.app.routes
        if isinstance(route, APIRoute) and route.include_in_schema  # of the others: console/test_rights.py
        for method in route.methods
        if method not in ("HEAD", "OPTIONS")
    )


def test_every_route_has_a_rule_and_every_rule_a_route(house):
    assert routes(house) == sorted(RULES)


def filled(path, dataset):
    values = {"dataset": dataset, "survey": "0" * 32, "job": "0" * 32, "answer": "x", "which": "nobody"}
    return path.format(**values)


@pytest.mark.parametrize("rule", sorted(RULES), ids=" ".join)
@pytest.mark.parametrize("who", [*PEOPLE, "nobody", "stranger"])
def test_a_route_lets_in_whom_it_should_and_nobody_else(house, rule, who):
    method, path = rule
    wanted = RULES[rule]
    house.service.throttle = Throttle(free=10**6)
    token = {"nobody": None, "stranger": new_token()}.get(who, who)
    for dataset in ("clinic", "school", "nowhere") if "{dataset}" in path else ("",):
        reply = house.call(method, filled(path, dataset), token, {} if method == "POST" else None)
        role, datasets = PEOPLE.get(who, ("", []))
        if wanted == ANYBODY:
            expected = reply.status not in (401, 403)
        elif not role:
            expected = reply.status == 401 and reply.headers["www-authenticate"].startswith("Bearer")
        elif wanted == ANY_TOKEN:
            expected = reply.status not in (401, 403)
        elif dataset not in datasets:
            expected = reply.status == 404 and reply.code == "invalid-parameter"
        elif role not in wanted:
            expected = reply.status == 403 and reply.code == "access-denied"
        else:
            expected = reply.status not in (401, 403, 500) and (reply.status != 404 or "{survey}" in path)
        assert expected, (dataset, reply)


def test_a_dataset_that_exists_and_one_that_does_not_look_the_same(house):
    known, unknown = (house.call("GET", f"/v1/datasets/{name}", "ann") for name in ("school", "nowhere"))
    assert known.json["detail"].replace("school", "nowhere") == unknown.json["detail"]
    assert (known.status, known.code) == (unknown.status, unknown.code)


def test_rights_are_a_closed_table():
    assert set(RIGHTS) == set(Right)
    assert all(roles and roles <= set(Role) for roles in RIGHTS.values())
    assert RIGHTS[Right.LEDGER] == RIGHTS[Right.TOKENS] == RIGHTS[Right.REPORTS] == {Role.OWNER}


def test_an_application_with_a_route_without_a_right_does_not_start():
    router = APIRouter()

    @router.get("/v1/datasets/{dataset}/leak")
    async def leak(dataset: str) -> str:
        return dataset

    with pytest.raises(InternalError, match="must name one"):
        application.right_of(router.routes[0])


def test_every_route_is_looked_at_when_the_application_starts(house, monkeypatch):
    seen = []
    monkeypatch.setattr(application, "right_of", seen.append)
    made = application.create_app(house.service)
    assert {route.path for route in seen if route.include_in_schema} == {path for _, path in RULES}
    assert len(made.routes) == len(seen) + 1  # and the document of the API
    monkeypatch.undo()
    included = FastAPI()
    included.include_router(APIRouter())
    with pytest.raises(InternalError, match="not a route that names a right"):
        application.right_of(included.routes[-1])


# Before a body is read


@pytest.mark.parametrize("who", [None, "stranger"])
def test_a_stranger_is_refused_before_the_body_is_looked_at(house, who):
    house.service.throttle = Throttle(free=10**6)
    for body in (b"{", b"[" * 100_000, b"\xff", b'{"sql": 1}'):
        assert house.call("POST", "/v1/datasets/clinic/ask", who and new_token(), body).status == 401


@pytest.mark.parametrize("who", ["carl", "sue"])
def test_who_may_not_ask_is_refused_before_the_body_is_looked_at(house, who):
    assert house.call("POST", "/v1/datasets/clinic/ask", who, b"{").status in (403, 404)


# Headers and paths


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Basic {}", "{}", "Token {}", "Bearer {}x", "Bearer x{}", "Bearer {} {}", "Bearer,{}"],
)
def test_headers_that_name_no_token_are_refused(house, header):
    house.service.throttle = Throttle(free=10**6)
    reply = house.call("GET", "/v1/datasets", None, Authorization=header.replace("{}", house.tokens["ann"]))
    assert reply.status == 401, reply
    assert house.tokens["ann"] not in reply.content.decode()


def test_a_token_is_read_from_its_header_alone(house):
    token = house.tokens["olga"]
    for path in (
        f"/v1/datasets?token={token}",
        f"/v1/datasets?access_token={token}",
        f"/v1/datasets?Authorization=Bearer%20{token}",
    ):
        assert house.call("GET", path, None).status == 401
    assert house.call("GET", "/v1/datasets", None, Cookie=f"token={token}").status == 401
    assert house.call("GET", "/v1/datasets", None, X_Forwarded_Authorization=f"Bearer {token}").status == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Analyst": "olga"},
        {"X_Forwarded_User": "olga"},
        {"X_Remote_User": "olga"},
        {"X_HTTP_Method_Override": "DELETE"},
        {"X_Original_URL": "/v1/datasets/clinic/ledger"},
        {"X_Rewrite_URL": "/v1/datasets/clinic/ledger"},
    ],
)
def test_headers_change_neither_who_asks_nor_what(house, headers):
    assert house.call("GET", "/v1/datasets", "ann", **headers).json["datasets"][0]["analyst"] == "ann"
    assert house.call("GET", "/v1/datasets/clinic/ledger", "ann", **headers).status == 403


@pytest.mark.parametrize("name", ["analyst", "role", "cap", "epsilon_cap", "token", "dataset", "allowance", "key"])
def test_a_parameter_changes_neither_who_asks_nor_what_may_be_spent(house, name):
    before = house.charges()
    body = {"sql": COUNT, "epsilon": "2", name: "olga"}
    assert house.call("POST", "/v1/datasets/clinic/ask", "bob", body).status == 422
    reply = house.call("POST", f"/v1/datasets/clinic/ask?{name}=olga", "bob", {"sql": COUNT, "epsilon": "2"})
    assert reply.code == "budget-exceeded"
    assert "'bob'" in reply.json["detail"]
    assert house.charges() == before


@pytest.mark.parametrize(
    "path",
    [
        "/v1/datasets/clinic/../school", "/v1/datasets/school%2f..%2fclinic/ledger", "/v1/datasets/clinic/ledger/",
        "/v1/datasets/clinic//ledger", "//v1/datasets/clinic/ledger", "/v1/datasets/clinic%00/ledger",
        "/v1/datasets/%2e%2e/clinic/ledger", "/V1/datasets/clinic/ledger", "/v1/datasets/clinic/ledger;.css",
        "/v1/datasets/CLINIC/ledger", "/v1/datasets/clinic/ledger%2f..", "/v1/./datasets/clinic/ledger",
        "/surveys/../v1/datasets/clinic/ledger", "/surveys/..%2f..%2fclinic.tokens", "/surveys/%2e%2e%2fclinic",
        "/static/../clinic.tokens", "/clinic.tokens", "/.git/config", "/docs", "/redoc",
    ],
)  # fmt: skip
def test_paths_that_are_written_oddly_open_nothing(house, path):
    for who in ("ann", None):
        reply = house.call("GET", path, who)
        assert reply.status in (307, 401, 403, 404), reply
        assert b"discreet_" not in reply.content
        assert b'"rows"' not in reply.content


@pytest.mark.parametrize(
    "lines",
    [
        b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {0}\r\nAuthorization: Bearer {1}\r\n\r\n",
        b"POST /v1/datasets/clinic/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/datasets/clinic/ask HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/datasets/clinic/ask HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde",
        b"GET /v1/datasets HTTP/1.1\r\nHost: x\r\nAuthorization : Bearer {0}\r\n\r\n",
        b"GET /v1/datasets HTTP/9.9\r\nHost: x\r\n\r\n",
        b"GE\x00T /v1/datasets HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
    ],
    ids=range(10),
)
def test_requests_that_are_no_http_open_nothing(house, lines):
    lines = lines.replace(b"{0}", b"x").replace(b"{1}", house.tokens["olga"].encode())
    with socket.create_connection(("127.0.0.1", house.port), 10) as near:
        near.settimeout(3)
        near.sendall(lines)
        with contextlib.suppress(OSError):  # it may have been closed by then
            near.shutdown(socket.SHUT_WR)
        try:
            content = b"".join(iter(lambda: near.recv(65536), b""))
        except TimeoutError:
            content = b""
        except ConnectionResetError:
            content = b""
    assert b"HTTP/1.1 2" not in content
    assert house.call("GET", "/healthz", None).status == 200


# Foreign origins


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://127.0.0.1",
        "http://127.0.0.1.evil.example:{port}",
        "file://",
        "x",
        "http://[x",
    ],
)
def test_pages_of_other_places_cannot_call(house, origin):
    origin = origin.replace("{port}", str(house.port))
    for method, path in (("GET", "/v1/datasets"), ("POST", "/v1/datasets/clinic/ask"), ("OPTIONS", "/v1/datasets")):
        reply = house.call(method, path, "ann", Origin=origin)
        assert reply.status == 403, reply
        assert not [name for name in reply.headers if name.startswith("access-control")]
    assert house.call("GET", "/v1/datasets", "ann", Origin=house.url).status == 200


def test_an_origin_that_the_owner_names_may_call(fresh):
    house = fresh(origins=["https://lab.example"])
    assert house.call("GET", "/v1/datasets", Origin="https://lab.example").status == 200
    assert house.call("GET", "/v1/datasets", Origin="https://lab.example.evil").status == 403


def test_browsers_let_a_page_of_a_named_origin_call(fresh):
    """Without these headers they send no token, and show the page no reply (Fetch Standard, "CORS protocol")."""
    house = fresh(origins=["https://lab.example"])
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization,content-type"}
    path = "/v1/datasets/clinic/ask"
    preflight = house.call("OPTIONS", path, None, Origin="https://lab.example", **asked)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "https://lab.example"
    assert {"authorization", "content-type", "idempotency-key"} <= set(
        preflight.headers["access-control-allow-headers"].split(", ")
    )
    assert {"GET", "POST", "DELETE"} <= set(preflight.headers["access-control-allow-methods"].split(", "))
    assert house.call("OPTIONS", path, None, Origin="https://evil.example", **asked).status == 403
    for who, status in (("ann", 200), (None, 401), ("carl", 403)):
        reply = house.call("POST", path, who, {"sql": COUNT, "epsilon": "0.1"}, Origin="https://lab.example")
        assert reply.status == status
        assert reply.headers["access-control-allow-origin"] == "https://lab.example"
        assert reply.headers["vary"] == "origin"
        assert "access-control-allow-credentials" not in reply.headers  # no cookies: a page has a token, or nothing
    assert "access-control-allow-origin" not in house.call("GET", "/v1/datasets", Origin=house.url).headers


def test_every_reply_has_headers_that_are_safe(house):
    for path, who in (("/v1/datasets", "ann"), ("/v1/datasets", None), ("/nowhere", None), ("/healthz", None)):
        headers = house.call("GET", path, who).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers or "uvicorn" not in headers["server"]
        assert headers["x-request-id"]


def test_what_is_public_is_public_and_no_more(house):
    house.ask(COUNT, "0.017")
    for path in ("/healthz", "/readyz", "/version", "/metrics", "/openapi.json"):
        reply = house.call("GET", path, None)
        assert reply.status == 200
        text = reply.content.decode()
        assert not any(word in text for word in ("patient_id", 'ann"', "SELECT COUNT", "0.017", str(house.folder)))
    document = json.loads(house.call("GET", "/openapi.json", None).content)
    assert set(document["paths"]) == {path for _, path in RULES}


def test_the_document_says_where_a_token_goes_and_what_errors_look_like(house):
    document = json.loads(house.call("GET", "/openapi.json", None).content)
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for (method, path), who in RULES.items():
        operation = document["paths"][path][method.lower()]
        assert operation.get("security") == (None if who == ANYBODY else [{"token": []}])
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        assert "422" not in operation["responses"]
    assert "ValidationError" not in json.dumps(document)
    forms = document["paths"][f"{D}/ask"]["post"]["responses"]["200"]["content"]
    assert {"application/json", "text/csv", "application/vnd.apache.parquet"} < set(forms)
    problem = house.call("GET", "/v1/datasets", None).json
    assert set(document["components"]["schemas"]["Problem"]["required"]) <= set(problem)


def test_no_page_imports_attacks_before_somebody_looks_at_them():
    """They were a quarter of the time that a server took to start."""
    for path in Path(application.__file__).parent.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert not [name for name in names if name.startswith(("discreet.gallery", "discreet.attacks"))], path
