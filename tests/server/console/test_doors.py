"""The door of the console without a browser: cookies, origins, rights, throttling, what leaves and what does not."""

import json
from dataclasses import replace
from http.client import HTTPConnection

import pytest
from starlette.requests import Request
from starlette.responses import Response
from tests.server.console.doors import COOKIE, cookie_of, sign_in

from discreet.attacks.attack_report import AttackReport, Share
from discreet.curator.settings import Allowance
from discreet.privacy.budget import Budget
from discreet.server.browser_sessions import BrowserSessions, check_origin, set_cookie
from discreet.server.console import gallery_pages
from discreet.server.console.page_shell import ASSETS, WAYS
from discreet.server.problems import Refused


def test_a_token_opens_a_session_and_is_kept_nowhere_in_the_page(house):
    reply = sign_in(house, "ann")
    header = reply.headers["set-cookie"].lower()
    assert reply.status == 204
    assert "httponly" in header
    assert "samesite=strict" in header
    assert "secure" not in header  # loopback without TLS
    page = house.call("GET", "/console/datasets/clinic", None, cookie=cookie_of(reply))
    assert page.status == 200
    assert house.tokens["ann"].encode() not in page.content
    assert b"<script>" not in page.content
    assert "unsafe-inline" not in page.headers["content-security-policy"]


def test_over_tls_the_cookie_is_secure_and_of_this_host_alone():
    scope = {"type": "http", "method": "POST", "scheme": "https", "path": "/", "query_string": b"", "headers": []}
    reply = Response(status_code=204)
    set_cookie(Request(scope | {"server": ("clinic.example", 443)}), reply, "secret")
    header = reply.headers["set-cookie"]
    assert header.startswith("__Host-discreet=")
    assert "; secure" in header.lower()
    assert "path=/" in header.lower()


@pytest.mark.parametrize("origin", ["https://clinic.example", "http://clinic.example"])
def test_over_tls_a_page_of_the_same_host_without_tls_cannot_act(origin):
    headers = [(b"host", b"clinic.example"), (b"origin", origin.encode())]
    scope = {"type": "http", "method": "POST", "scheme": "https", "path": "/", "query_string": b"", "headers": headers}
    if origin.startswith("https"):
        check_origin(Request(scope))
    else:
        with pytest.raises(Refused, match="another origin"):
            check_origin(Request(scope))


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:1"},
        {},
        {"origin": "own", "sec_fetch_site": "same-site"},
    ],
)
def test_pages_of_other_origins_cannot_act_with_the_cookie(house, headers):
    cookie = cookie_of(sign_in(house, "ann"))
    sent = {name: house.url if value == "own" else value for name, value in headers.items()}
    before = house.charges()
    body = {"sql": "SELECT COUNT(*) AS forged FROM visits", "epsilon": "0.01"}
    reply = house.call("POST", "/v1/datasets/clinic/ask", None, body, cookie=cookie, **sent)
    assert reply.status == 403
    assert house.charges() == before


def test_a_page_of_another_port_cannot_read_with_the_cookie(house):
    cookie = cookie_of(sign_in(house, "ann"))
    reply = house.call("GET", "/v1/datasets/clinic/budget", None, cookie=cookie, sec_fetch_site="same-site")
    assert reply.status == 403


def test_the_same_cookie_acts_from_a_page_of_this_server(house):
    cookie = cookie_of(sign_in(house, "ann"))
    body = {"sql": "SELECT COUNT(*) AS n FROM visits", "epsilon": "0.01"}
    reply = house.call("POST", "/v1/datasets/clinic/explain", None, body, cookie=cookie, origin=house.url)
    assert reply.status == 200


def test_signing_out_ends_the_session_on_the_server(house):
    cookie = cookie_of(sign_in(house, "ann"))
    assert house.call("POST", "/console/sign-out", None, cookie=cookie, origin=house.url).status == 204
    assert house.call("GET", "/v1/datasets/clinic", None, cookie=cookie).status == 401
    assert house.call("GET", "/console", None, cookie=cookie).headers["location"] == "/console/sign-in"


def test_a_revoked_token_ends_its_sessions_at_once(fresh):
    house = fresh()
    cookie = cookie_of(sign_in(house, "ann"))
    assert house.call("GET", "/v1/datasets/clinic", None, cookie=cookie).status == 200
    house.service.places["clinic"].tokens.revoke("ann")
    assert house.call("GET", "/v1/datasets/clinic", None, cookie=cookie).status == 401


def test_guessing_tokens_at_the_door_is_throttled(fresh):
    house = fresh()
    statuses = [sign_in(house, "discreet_0123456789ab_" + "x" * 43).status for _ in range(12)]
    assert statuses[:10] == [403] * 10
    assert statuses[-1] == 429


def test_sessions_end_when_idle_and_when_old(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("discreet.server.browser_sessions.time.monotonic", lambda: now[0])
    sessions = BrowserSessions(idle=10, longest=25)
    cookie = sessions.begin({"clinic": "id"})
    for now[0] in (9, 18, 24):
        assert sessions.ids(cookie)
    now[0] = 26
    assert sessions.ids(cookie) == {}
    cookie = sessions.begin({"clinic": "id"})
    now[0] += 11
    assert sessions.ids(cookie) == {}


PAGES = [f"/console/datasets/clinic{way.path}" for way in WAYS]


@pytest.mark.parametrize("who", ["ann", "olga", "carl"])
def test_a_role_sees_its_pages_and_no_others(house, who):
    cookie = cookie_of(sign_in(house, who))
    seen = {path for path in PAGES if house.call("GET", path, None, cookie=cookie).status == 200}
    allowed = {
        "ann": {"", "/schema", "/history", "/make", "/budget", "/statement"},
        "olga": {way.path for way in WAYS},
        "carl": {"/schema", "/surveys", "/statement"},
    }[who]
    assert seen == {f"/console/datasets/clinic{path}" for path in allowed}


@pytest.mark.parametrize("path", PAGES)
def test_nobody_sees_a_page_without_a_session(house, path):
    reply = house.call("GET", path, None)
    assert (reply.status, reply.headers["location"]) == (303, "/console/sign-in")


@pytest.mark.parametrize("path", ["/policy/draft", "/policy/check", "/policy/picture", "/surveys/preview"])
def test_acts_of_owners_and_collectors_are_not_for_analysts(house, path):
    reply = house.call("POST", f"/console/datasets/clinic{path}", "ann", {})
    assert reply.status == 403


def test_analysts_see_their_own_charges_alone(fresh):
    house = fresh()
    house.ask("SELECT COUNT(*) AS of_ann FROM visits", who="ann")
    house.ask("SELECT COUNT(*) AS of_bob FROM visits", who="bob")
    pages = {who: house.call("GET", "/console/datasets/clinic/history", who).content for who in ("ann", "bob")}
    assert b"of_ann" in pages["ann"]
    assert b"of_bob" not in pages["ann"]
    assert b"of_ann" not in pages["bob"]


def test_what_is_left_is_what_the_caller_may_still_spend(fresh):
    house = fresh()
    tokens = house.service.places["clinic"].tokens
    capped, _ = tokens.create("ann", "analyst", allowance=Allowance(total=Budget(epsilon="0.5")))
    cookie = cookie_of(sign_in(house, capped))
    for path in ("/console", "/console/datasets/clinic"):
        assert "ε 0.5 of 0.5 left for you" in house.call("GET", path, None, cookie=cookie).content.decode()
    body = {"sql": "SELECT COUNT(*) AS left_over FROM visits", "epsilon": "0.25"}
    price = house.call("POST", "/console/datasets/clinic/price", capped, body).json["budget"]
    assert (price["own"], price["affordable"]) == (0.5, True)
    assert house.call("POST", "/v1/datasets/clinic/ask", capped, body).status == 200
    assert house.call("GET", "/v1/datasets/clinic/budget", capped).json["analysts"][0]["left"] == 0.25
    job = {"kind": "bounds", "request": {"table": "visits", "by": ["region"], "epsilon": "1"}}
    told = house.call("POST", "/console/datasets/clinic/job-price", capped, job).json["budget"]
    assert (told["own"], told["affordable"]) == (0.25, False)


def test_history_opens_questions_at_the_price_that_was_paid_and_no_jobs(fresh):
    house = fresh()
    house.ask("SELECT COUNT(*) AS n FROM visits", who="ann", epsilon="0.3")
    job = {"kind": "bounds", "request": {"table": "visits", "by": ["region"], "epsilon": "1"}}
    begun = house.call("POST", "/v1/datasets/clinic/jobs", "ann", job).json
    while begun["state"] in ("waiting", "running"):
        begun = house.call("GET", f"/v1/jobs/{begun['id']}", "ann").json
    page = house.call("GET", "/console/datasets/clinic/history", "ann").content.decode()
    assert page.count("<code>") == 2
    assert page.count("data-sql=") == 1
    assert 'data-epsilon="0.3"' in page


def test_a_refused_page_still_knows_who_is_signed_in(house):
    cookie = cookie_of(sign_in(house, "carl"))
    reply = house.call("GET", "/console/datasets/clinic/budget", None, cookie=cookie)
    assert reply.status == 403
    assert b"carl, collector" in reply.content
    assert b"data-sign-out" in reply.content


@pytest.mark.parametrize("path", ["/console/nowhere", "/gallery/nothing", "/nowhere"])
def test_a_browser_at_no_page_gets_a_page_and_a_program_a_document(house, path):
    shown = house.call("GET", path, None, accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert shown.status == 404
    assert b"<!doctype html>" in shown.content
    assert b'href="/gallery"' in shown.content
    if path != "/gallery/nothing":
        assert house.call("GET", path, None).json["code"] == "no-such-path"


def test_a_chart_is_never_charged(house):
    body = {"sql": "SELECT COUNT(*) AS never_asked FROM visits", "epsilon": "0.013"}
    before = house.charges()
    assert house.call("POST", "/console/datasets/clinic/chart", "ann", body).status == 402
    assert house.charges() == before


def test_a_price_is_never_charged_and_holds_no_private_sql(house):
    before = house.charges()
    body = {"sql": "SELECT region, COUNT(*) AS n FROM visits GROUP BY region", "epsilon": "0.017"}
    reply = house.call("POST", "/console/datasets/clinic/price", "ann", body)
    assert reply.json["preview"].startswith("<svg")
    assert "sql" not in reply.json["releases"][0]
    assert house.charges() == before


def test_a_policy_in_the_browser_cannot_read_files_of_the_server(house):
    from base64 import b64encode

    text = (
        (house.folder / "clinic.toml").read_text().replace('"visits.csv"', json.dumps(str(house.folder / "visits.csv")))
    )
    part = b64encode(b"patient_id,age,day,cost,region\n").decode()
    body = {"name": "visits.csv", "schema_part": part, "text": text}
    reply = house.call("POST", "/console/datasets/clinic/policy/check", "olga", body)
    assert reply.status == 422
    assert "the file whose schema was given" in reply.json["detail"]
    fine = house.call(
        "POST",
        "/console/datasets/clinic/policy/check",
        "olga",
        body | {"text": (house.folder / "clinic.toml").read_text()},
    )
    assert fine.status == 200
    far = '[dataset]\nengine = "postgres"\naddress = "postgresql://olga@127.0.0.1:1/clinic"'
    text = (house.folder / "clinic.toml").read_text().replace("[dataset]", far)
    reply = house.call("POST", "/console/datasets/clinic/policy/check", "olga", body | {"text": text})
    assert reply.status == 422
    assert "a policy whose tables are files" in reply.json["detail"]
    for name in ("../visits.csv", "/etc/passwd", "visits.txt"):
        assert (
            house.call(
                "POST", "/console/datasets/clinic/policy/draft", "olga", {"name": name, "schema_part": part}
            ).status
            == 422
        )


def test_the_package_carries_every_file_that_pages_name(house):
    cookie = cookie_of(sign_in(house, "olga"))
    for path in PAGES:
        html = house.call("GET", path, None, cookie=cookie).content.decode()
        for name in html.split("/console/assets/")[1:]:
            assert name.partition('"')[0] in ASSETS
    for name, (content, kind) in ASSETS.items():
        if kind.startswith("text/javascript"):
            for line in content.decode().splitlines():
                if line.startswith("import ") and " from " in line:
                    assert line.split('"./')[1].split('"')[0] in ASSETS, (name, line)
            assert b"innerHTML" not in content
            assert b"http://" not in content
            assert b"https://" not in content


def test_steps_of_an_exhibit_say_which_attack_they_are_where_several_are_against_the_same():
    shares = {"success": Share.known(0.5), "baseline": Share.known(0.5), "confidence": 0.95, "goal": "g", "people": 9}
    reports = [AttackReport(attack=attack, against=against, **shares) for attack, against in ("ax", "bx", "ay")]
    assert gallery_pages._titles(reports) == ["Against x: a", "Against x: b", "Against y"]
    assert gallery_pages._verdicts(reports).rows[0] == ["x: a", "holds", "50 %", "50 %"]
    assert "the same attack" not in gallery_pages._result(reports[0])
    assert "the same attack on people" in gallery_pages._result(replace(reports[0], control=Share.known(0.7)))


def test_epsilon_is_never_upper_cased():
    assert b"uppercase" not in ASSETS["console.css"][0] + ASSETS["report.css"][0]


def test_a_cookie_header_that_is_no_cookie_opens_nothing(house):
    connection = HTTPConnection("127.0.0.1", house.port, timeout=20)
    connection.request("GET", "/v1/datasets", headers={"Cookie": f"{COOKIE}=\x80\xff; {COOKIE}"})
    assert connection.getresponse().status == 401
    connection.close()
