"""Questions over HTTP: charged once, free again, the same bytes for the same request, in the form that is accepted."""

import csv
import io
import json
import threading
import zlib
from base64 import urlsafe_b64encode

import pytest
from pyarrow import parquet
from tests import serving
from tests.serving import BY_REGION, COUNT

from discreet import wire
from discreet.curator.curator import Curator
from discreet.requests import Question
from discreet.sql.plan.query_plan import QueryPlan

ASK = "/v1/datasets/clinic/ask"


def test_an_answer_is_charged_and_the_same_again_is_free(house):
    before = house.charges()
    first, again = house.ask(BY_REGION, "0.25"), house.ask(BY_REGION, "0.25")
    assert first.status == again.status == 200
    assert (first.json["receipt"]["free"], again.json["receipt"]["free"]) == (False, True)
    assert first.json["rows"] == again.json["rows"]
    assert house.charges() == before + 1
    kept = house.call("GET", f"/v1/datasets/clinic/answers/{first.json['id']}")
    assert kept.json["rows"] == first.json["rows"]
    for name in (wire.answer_id(Question(BY_REGION, epsilon="0.77")), "x", "🙂", "A" * 5000):
        assert house.call(
            "GET", f"/v1/datasets/clinic/answers/{name.encode().hex() if name == '🙂' else name}"
        ).status in (402, 422)
    assert house.charges() == before + 1


@pytest.mark.parametrize("epsilon", ["NaN", "Infinity", "-1", "0", "many"])
def test_an_epsilon_that_is_none_is_refused_and_nothing_is_charged(house, epsilon):
    before = house.charges()
    reply = house.ask(COUNT, epsilon)
    assert reply.status == 422
    assert reply.code == "invalid-parameter"
    assert house.charges() == before


def test_explaining_is_free_and_says_what_asking_costs(house):
    before = house.charges()
    reply = house.call("POST", "/v1/datasets/clinic/explain", "ann", {"sql": COUNT, "epsilon": 0.31})
    assert reply.json["epsilon"] == 0.31
    assert reply.json["budget"]["affordable"]
    assert house.charges() == before
    reply = house.call("POST", "/v1/datasets/clinic/explain", "bob", {"sql": COUNT, "epsilon": 31})
    assert not reply.json["budget"]["affordable"]


def test_a_batch_is_one_charge(house):
    before = house.charges()
    reply = house.call("POST", ASK, "ann", {"sql": [COUNT, BY_REGION], "epsilon": "0.4"})
    assert [answer["columns"] for answer in reply.json["answers"]] == [["n"], ["region", "n", "age"]]
    assert house.charges() == before + 1
    assert (
        house.call("POST", ASK, "ann", {"sql": [COUNT, BY_REGION], "epsilon": "0.4"}, Accept="text/csv").status == 406
    )


def test_json_csv_parquet_and_arrow_hold_the_same_answer(house):
    forms = {kind: house.ask(BY_REGION, "0.26", Accept=kind) for kind in
             ("application/json", "text/csv", "application/vnd.apache.parquet", wire.ARROW)}  # fmt: skip
    for kind, reply in forms.items():
        assert reply.status == 200
        assert reply.headers["content-type"].partition(";")[0] == kind
        assert "charged as #" in reply.headers["x-discreet-receipt"] or "free" in reply.headers["x-discreet-receipt"]
    document = forms["application/json"].json
    rows = [dict(zip(document["columns"], row, strict=True)) for row in document["rows"]]
    assert parquet.read_table(io.BytesIO(forms["application/vnd.apache.parquet"].content)).to_pylist() == rows
    assert wire.answers_from_arrow(forms[wire.ARROW].content)[0].table.to_pylist() == rows
    lines = list(csv.DictReader(io.StringIO(forms["text/csv"].content.decode())))
    assert [line["region"] or None for line in lines] == [row["region"] for row in rows]
    wide = house.call("POST", f"{ASK}?intervals=true", "ann", {"sql": BY_REGION, "epsilon": "0.26"}, Accept="text/csv")
    assert len(next(csv.reader(io.StringIO(wide.content.decode())))) > 3
    assert (
        house.ask(BY_REGION, "0.26", Accept="text/html, text/csv;q=0.5").headers["content-type"].startswith("text/csv")
    )


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("text/csv;q=0.1, application/json;q=0.9", "application/json"),
        ("text/csv; q=0.9, application/json; q=0.1", "text/csv"),
        ("*/*;q=0.1, text/csv", "text/csv"),
        ("application/*, application/json;q=0", wire.ARROW),
        ("text/html, */*;q=0.1", "application/json"),
        ("text/*", "text/csv"),
        ("", "application/json"),
    ],
)
def test_the_form_is_the_one_that_is_liked_best(house, header, kind):
    """Once, the first that was named was sent, however little it was liked."""
    assert house.ask(BY_REGION, "0.26", Accept=header).headers["content-type"].partition(";")[0] == kind


@pytest.mark.parametrize("kind", ["application/json", "text/csv", wire.ARROW])
def test_the_same_bytes_again_say_the_same_and_open_nothing_else(house, kind):
    asked = {"sql": BY_REGION, "epsilon": "0.2801"}
    replies = [house.call("POST", ASK, "ann", asked, Accept=kind) for _ in range(4)]
    assert {reply.status for reply in replies} == {200}
    assert {reply.headers["content-type"] for reply in replies} == {replies[0].headers["content-type"]}
    if kind == "application/json":
        assert [reply.json["rows"] for reply in replies] == [replies[0].json["rows"]] * 4
        assert [reply.json["receipt"]["free"] for reply in replies[1:]] == [True] * 3
        ids = {reply.headers["x-request-id"] for reply in replies}
        assert len(ids) == 4
    elif kind == "text/csv":
        assert {reply.content for reply in replies} == {replies[0].content}
    before = house.charges()
    assert house.call("POST", ASK, "carl", asked, Accept=kind).status == 403
    assert house.call("POST", ASK, None, asked, Accept=kind).status == 401
    assert house.call("POST", ASK, "ann", asked, Accept="text/html").status == 406
    assert house.call("POST", ASK, "ann", asked, **{"Content-Type": "text/plain"}).status == 422
    assert house.call("POST", ASK, "ann", asked, **{"Idempotency-Key": ""}).status == 422
    assert house.call("POST", f"{ASK}?intervals=maybe", "ann", asked).status == 422
    assert house.charges() == before
    assert house.call("POST", ASK, "olga", asked).json["receipt"]["analyst"] == "olga"


@pytest.mark.parametrize(
    "term",
    [
        {"epsilon": [1]}, {"epsilon": {}}, {"epsilon": True}, {"groups": {}}, {"groups": "x"}, {"rows": 1.5},
        {"confidence": []}, {"measure_bounds": "yes"}, {"measure_bounds": {}}, {"sql": [[COUNT]]},
    ],
    ids=str,
)  # fmt: skip
def test_an_id_that_holds_no_question_is_refused(house, term):
    """A list or a mapping in the place of a number was a failure of the server."""
    reply = house.call("GET", f"/v1/datasets/clinic/answers/{packed(json.dumps({'sql': COUNT, 'epsilon': 1} | term))}")
    assert (reply.status, reply.code) == (422, "invalid-parameter")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"sql":' * 100_000, "[]", "null", '{"sql": "\\ud800"}'], ids=range(5))
def test_an_id_that_holds_another_document_is_refused(house, text):
    assert house.call("GET", f"/v1/datasets/clinic/answers/{packed(text)}").status == 422


def packed(text):
    return urlsafe_b64encode(zlib.compress(text.encode())).decode().rstrip("=")


def test_what_floats_cannot_hold_is_explained(house):
    reply = house.call("POST", "/v1/datasets/clinic/explain", "ann", {"sql": COUNT, "epsilon": 10**400})
    assert (reply.status, reply.json["epsilon"], reply.json["budget"]["affordable"]) == (200, None, False)


def test_an_analyst_sees_no_other_analyst(house):
    house.ask(COUNT, "0.27", who="olga")
    house.ask(COUNT, "0.27", who="ann")
    assert [row["analyst"] for row in house.call("GET", "/v1/datasets/clinic/budget", "ann").json["analysts"]] == [
        "ann"
    ]
    everybody = {row["analyst"] for row in house.call("GET", "/v1/datasets/clinic/budget", "olga").json["analysts"]}
    assert {"ann", "olga"} <= everybody
    assert house.ask(COUNT, "0.27", who="ann").json["receipt"]["analyst"] == "ann"


def test_the_cap_is_the_one_of_the_name_of_the_token(fresh):
    house = fresh()
    assert house.ask(COUNT, "0.6", who="bob").status == 200
    refused = house.ask(BY_REGION, "0.6", who="bob")
    assert (refused.status, refused.code) == (402, "budget-exceeded")
    assert "the cap of 'bob'" in refused.json["detail"]
    assert (
        house.ask(COUNT, "0.1", who="both").code == "budget-exceeded"
    )  # nobody named it, and there is none for everyone
    pupils = {"sql": "SELECT COUNT(*) AS n FROM pupils", "epsilon": "1.5"}
    assert house.call("POST", "/v1/datasets/school/ask", "sue", pupils).status == 200  # the cap of everyone is 2
    assert house.call("POST", "/v1/datasets/school/ask", "sue", pupils | {"epsilon": "1.4"}).status == 402


# Requests that are repeated


def test_a_request_that_is_repeated_gets_the_same_bytes_and_pays_once(house):
    before = house.charges()
    for accept in ("application/json", wire.ARROW, "text/csv"):
        replies = [house.ask(BY_REGION, "0.28", Idempotency_Key=f"k {accept}", Accept=accept) for _ in range(3)]
        assert len({reply.content for reply in replies}) == 1
        assert len({reply.headers["x-discreet-receipt"] for reply in replies}) == 1
    assert house.charges() == before + 1
    other = house.ask(BY_REGION, "0.281", Idempotency_Key="k one")
    assert not other.json["receipt"]["free"]


def test_a_key_that_was_used_for_another_question_is_a_conflict(house):
    assert house.ask(COUNT, "0.29", Idempotency_Key="conflict").status == 200
    before = house.charges()
    reply = house.ask(BY_REGION, "0.29", Idempotency_Key="conflict")
    assert (reply.status, reply.code) == (409, "ledger-conflict")
    assert house.ask(COUNT, "0.29", who="olga", Idempotency_Key="conflict").status == 200  # a key is of its analyst
    assert house.charges() == before + 1


def test_a_key_names_its_terms_too(house):
    first = house.ask(COUNT, "0.292", Idempotency_Key="terms")
    before = house.charges()
    reply = house.ask(COUNT, "0.5", Idempotency_Key="terms")
    assert (reply.status, reply.code) == (409, "ledger-conflict")
    assert house.charges() == before
    assert house.ask(COUNT, "0.292", Idempotency_Key="terms").content == first.content


@pytest.mark.parametrize("key", ["", "x" * 201])
def test_keys_have_a_length(house, key):
    assert house.ask(COUNT, "0.29", Idempotency_Key=key).status == 422


def test_requests_under_one_key_at_the_same_time_pay_once(house):
    before, replies = house.charges(), []
    threads = [
        threading.Thread(target=lambda: replies.append(house.ask(COUNT, "0.293", Idempotency_Key="together")))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({reply.content for reply in replies}) == 1
    assert house.charges() == before + 1


def test_a_key_is_known_after_the_server_was_started_anew(tmp_path):
    serving.write_house(tmp_path)
    with serving.running(tmp_path) as house:
        first = house.ask(BY_REGION, "0.5", Idempotency_Key="once")
        tokens = house.tokens
    with serving.running(tmp_path, tokens=tokens) as house:
        assert house.ask(COUNT, "0.5", Idempotency_Key="once").status == 409
        again = house.ask(BY_REGION, "0.5", Idempotency_Key="once")
        assert again.content == first.content
        assert house.charges() == 1


def test_a_charge_that_gave_no_answer_is_not_used_for_another_run(tmp_path, monkeypatch):
    """A second run would be a refund: whether the first failed may depend on rows."""
    serving.write_house(tmp_path)
    with serving.running(tmp_path) as house, monkeypatch.context() as broken:
        broken.setattr("discreet.sql.plan.query_plan.QueryPlan.run", lambda *_: 1 / 0)
        failed = house.ask(COUNT, "0.5", Idempotency_Key="lost")
        assert (failed.status, failed.code) == (500, "release-failed")
        assert "ZeroDivision" not in failed.content.decode()
        tokens = house.tokens
    with serving.running(tmp_path, tokens=tokens) as house:
        again = house.ask(COUNT, "0.5", Idempotency_Key="lost")
        assert (again.status, again.code) == (500, "release-failed")
        assert "charge #" in again.json["detail"]
        assert house.charges() == 1
        assert house.ask(COUNT, "0.5", Idempotency_Key="new").status == 200


TWO_STEPS = {"sql": "SELECT AVG(age) AS a FROM visits", "epsilon": "30", "error": "3%"}


def test_a_key_names_both_releases_of_a_question_with_an_error(tmp_path, monkeypatch):
    """Once, another ε under the same key was charged, and so was a retry after the second release had failed."""
    serving.write_house(tmp_path)
    run, runs = QueryPlan.run, []
    monkeypatch.setattr(QueryPlan, "run", lambda *a: (runs.append(1), 1 / 0 if len(runs) in broken else run(*a))[1])
    broken = (2, 3)
    with serving.running(tmp_path) as house:

        def ask(key, **terms):
            return house.call("POST", ASK, "ann", TWO_STEPS | terms, Idempotency_Key=key)

        for _ in range(2):  # its second release fails: charged, and never again
            assert (ask("second").code, house.charges()) == ("release-failed", 2)
        for _ in range(2):  # its first release fails
            assert (ask("first", epsilon="31").code, house.charges()) == ("release-failed", 3)
        good = ask("good", epsilon="32")
        assert (good.status, house.charges()) == (200, 5)
        for other in ({"epsilon": "33"}, {"epsilon": "32", "error": "4%"}, {"sql": COUNT, "epsilon": "32"}):
            assert (ask("good", **other).code, house.charges()) == ("ledger-conflict", 5)
        single = house.call("POST", ASK, "ann", {"sql": TWO_STEPS["sql"], "epsilon": "1"}, Idempotency_Key="first")
        assert (single.code, house.charges()) == ("ledger-conflict", 5)
        tokens = house.tokens
    with serving.running(tmp_path, tokens=tokens) as house:
        assert ask("good", epsilon="32").content == good.content
        assert ask("second").code == ask("first", epsilon="31").code == "release-failed"
        found = house.call("GET", f"/v1/datasets/clinic/answers/{good.json['id']}")
        assert found.json["rows"] == good.json["rows"]
        unknown = wire.answer_id(Question(TWO_STEPS["sql"], epsilon="40", error="3%"))
        assert house.call("GET", f"/v1/datasets/clinic/answers/{unknown}").status == 402
        assert house.charges() == 5


def test_every_release_goes_through_the_one_gate(house, monkeypatch):
    seen, release = [], Curator.release
    monkeypatch.setattr(
        Curator, "release", lambda self, plan, **who: (seen.append(who["analyst"]), release(self, plan, **who))[1]
    )
    house.ask(COUNT, "0.294")
    house.call("POST", ASK, "olga", {"sql": [COUNT, BY_REGION], "epsilon": "0.294"})
    assert seen == ["ann", "olga"]


def test_statements_and_schemas_are_those_of_the_policy(house):
    schema = house.call("GET", "/v1/datasets/clinic", "carl").json
    assert [column["name"] for column in schema["tables"][0]["columns"]] == [
        "patient_id",
        "age",
        "day",
        "cost",
        "region",
    ]
    assert (schema["role"], schema["analyst"]) == ("collector", "carl")
    text = house.call("GET", "/v1/datasets/clinic/statement", "carl", Accept="text/markdown")
    assert text.content.decode().startswith("# Privacy statement: clinic")
    assert house.call("GET", "/v1/datasets/clinic/statement", "carl", Accept="application/json").json
