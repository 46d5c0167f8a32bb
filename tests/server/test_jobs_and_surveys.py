"""Jobs, surveys, reports on uploads, the owner's record: each from its beginning to its end, as a caller would."""

import io
import json
import threading
import time
import zipfile

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.serving import BY_REGION, CLINIC, COUNT

from discreet.errors import LedgerUnavailable
from discreet.local.collection.survey import Survey
from discreet.server.jobs import request_of
from discreet.server.service import Limits
from discreet.server.tokens import TokenFile

JOBS = "/v1/datasets/clinic/jobs"
TRAINING = {
    "table": "visits", "target": "region", "features": ["age"], "epsilon": "4", "delta": "1e-6", "examples": 400,
}  # fmt: skip


def finished(house, job, who="ann"):
    assert job.status == 202, job
    path = f"/v1/jobs/{job.json['id']}"
    for _ in range(1200):
        state = house.call("GET", path, who)
        if state.json["state"] not in ("waiting", "running"):
            return path, state.json
        time.sleep(0.05)
    raise AssertionError(state)


def test_a_question_as_a_job(house):
    before = house.charges()
    path, state = finished(
        house, house.call("POST", JOBS, "ann", {"kind": "question", "request": {"sql": COUNT, "epsilon": "0.33"}})
    )
    assert (state["state"], state["progress"]) == ("done", 1.0)
    assert house.call("GET", f"{path}/result").json["columns"] == ["n"]
    assert house.call("GET", f"{path}/result", Accept="text/csv").content.startswith(b"n\n")
    assert house.charges() == before + 1
    for stranger in ("bob", "olga", "sue"):
        for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/result")):
            assert house.call(method, path + end, stranger).status == 404


def test_bounds_synthesis_and_their_forms(house):
    path, state = finished(
        house, house.call("POST", JOBS, "ann", {"kind": "bounds", "request": {"table": "visits", "epsilon": "0.5"}})
    )
    assert state["state"] == "done", state
    assert house.call("GET", f"{path}/result").json
    request = {"table": "visits", "epsilon": "60", "columns": ["age", "region"], "people": 400}
    path, state = finished(house, house.call("POST", JOBS, "ann", {"kind": "synthesis", "request": request}))
    assert state["state"] == "done", state
    table = parquet.read_table(io.BytesIO(house.call("GET", f"{path}/result").content))
    assert {"age", "region"} < set(table.column_names)
    arrow = house.call("GET", f"{path}/result", Accept="application/vnd.apache.arrow.stream").content
    assert pa.ipc.open_stream(arrow).read_all().equals(table)
    assert house.call("GET", f"{path}/result", Accept="text/csv").content.count(b"\n") == table.num_rows + 1
    assert b"<html" in house.call("GET", f"{path}/result", Accept="text/html").content
    assert house.call("GET", f"{path}/result", Accept="application/json").json["receipt"]["charge"]


def test_training_as_a_job(house):
    request = TRAINING | {"model": "logistic"}
    path, state = finished(house, house.call("POST", JOBS, "ann", {"kind": "training", "request": request}))
    assert state["state"] == "done", state
    assert len(house.call("GET", f"{path}/result", Accept="application/octet-stream").content) > 100
    assert house.call("GET", f"{path}/result", Accept="application/json").json["receipt"]["charge"]


PATIENTS = """
[tables.patients]
source = "patients.csv"
unit = "patient_id"
max_groups_per_unit = 1
max_rows_per_group = 1
[tables.patients.columns]
patient_id = {type = "integer", nullable = false}
sex = {type = "text", values = ["f", "m"]}
ill = {type = "text", values = ["no", "yes"]}
home = {type = "text", values = ["a", "b"]}
work = {type = "text", values = ["a", "b"]}
"""


def test_a_fairness_audit_linked_tables_and_a_map_as_jobs(fresh, tmp_path):
    lines = [f"{n},{'fm'[n % 2]},{('no', 'yes')[n % 3 == 0]},{'ab'[n % 2]},{'ab'[n % 5 == 0]}" for n in range(400)]
    (tmp_path / "patients.csv").write_text("patient_id,sex,ill,home,work\n" + "\n".join(lines) + "\n")
    house = fresh(clinic=CLINIC + PATIENTS)
    predictions = {"patient_id": list(range(400)), "prediction": [("no", "yes")[n % 2] for n in range(400)]}
    audit = {
        "table": "patients", "predictions": predictions, "label": "ill", "positive": "yes", "group": "sex", "key": "patient_id",
        "epsilon": "2",
    }  # fmt: skip
    path, state = finished(house, house.call("POST", JOBS, "ann", {"kind": "fairness-audit", "request": audit}))
    assert state["state"] == "done", state
    assert house.call("GET", f"{path}/result").json["words"]
    assert b"<html" in house.call("GET", f"{path}/result", Accept="text/html").content
    linked = {
        "tables": {"visits": {"columns": ["region"]}, "patients": {"columns": ["sex", "ill"]}},
        "epsilon": "60",
        "people": 400,
    }
    path, state = finished(house, house.call("POST", JOBS, "ann", {"kind": "linked-synthesis", "request": linked}))
    assert state["state"] == "done", state
    assert len(zipfile.ZipFile(io.BytesIO(house.call("GET", f"{path}/result").content)).namelist()) >= 2
    places = {"name": ["a", "b"], "latitude": [50.0, 50.1], "longitude": [8.0, 8.1]}
    commute = {"table": "patients", "places": places, "origin": "home", "destination": "work", "epsilon": "2"}
    path, state = finished(house, house.call("POST", JOBS, "ann", {"kind": "commute", "request": commute}))
    assert state["state"] == "done", state
    assert parquet.read_table(io.BytesIO(house.call("GET", f"{path}/result").content)).num_rows
    assert house.charges() == 3


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "nonsense", "request": {}},
        {"kind": "synthesis", "request": {"table": "nowhere", "epsilon": 1}},
        {"kind": "synthesis", "request": {"table": "visits"}},
        {"kind": "synthesis", "request": {"table": "visits", "epsilon": 1, "odd": 1}},
        {
            "kind": "training",
            "request": {"table": "visits", "target": "region", "epsilon": "NaN", "delta": 0, "examples": 1},
        },
        {
            "kind": "commute",
            "request": {"table": "visits", "places": {}, "origin": "x", "destination": "y", "epsilon": 1},
        },
        {"kind": "question", "request": {"sql": "SELECT * FROM visits", "epsilon": 1}},
        {"kind": "question", "request": {"sql": COUNT, "epsilon": 1}, "analyst": "olga"},
        {"kind": "question", "request": {"sql": COUNT, "epsilon": [1]}},
        {"kind": "question", "request": {"sql": COUNT, "epsilon": "NaN"}},
        {"kind": "question", "request": {"sql": COUNT, "epsilon": 1, "error": "5%", "measure_bounds": "yes"}},
        {"kind": "question", "request": {"sql": "SELECT odd FROM visits", "epsilon": 1, "error": "5%"}},
        {"kind": "training", "request": TRAINING | {"optimizer": "adam"}},
        {"kind": "training", "request": TRAINING | {"recipe": {"adaptive": "yes"}}},
    ],
    ids=range(14),
)
def test_jobs_that_cannot_be_done_are_refused_before_they_wait(house, body):
    before = house.charges()
    reply = house.call("POST", JOBS, "ann", body)
    assert reply.status == 422, reply
    assert house.charges() == before


def test_a_job_that_waits_can_be_canceled_and_one_that_runs_goes_on(fresh, monkeypatch):
    house, free = fresh(limits=Limits(jobs=1)), threading.Event()
    run = "discreet.sql.plan.query_plan.QueryPlan.run"
    from discreet.sql.plan.query_plan import QueryPlan

    original = QueryPlan.run
    monkeypatch.setattr(run, lambda self, *engine: (free.wait(30), original(self, *engine))[1])
    first, second = (
        house.call("POST", JOBS, "ann", {"kind": "question", "request": {"sql": sql, "epsilon": 1}})
        for sql in (COUNT, BY_REGION)
    )
    while house.call("GET", f"/v1/jobs/{first.json['id']}").json["state"] != "running":
        time.sleep(0.02)
    assert house.call("GET", f"/v1/jobs/{second.json['id']}/result").status == 409
    assert house.call("DELETE", f"/v1/jobs/{second.json['id']}").json["state"] == "canceled"
    assert house.call("DELETE", f"/v1/jobs/{first.json['id']}").json["state"] == "running"
    free.set()
    assert finished(house, first)[1]["state"] == "done"
    assert house.charges() == 1


def test_a_job_of_a_token_that_was_revoked_meanwhile_is_not_begun(fresh, monkeypatch):
    house, free = fresh(limits=Limits(jobs=1)), threading.Event()
    monkeypatch.setattr("discreet.server.jobs._finished", lambda made, job: (free.wait(30), made)[1])
    house.call("POST", JOBS, "olga", {"kind": "question", "request": {"sql": COUNT, "epsilon": 1}})
    waiting = house.call("POST", JOBS, "ann", {"kind": "question", "request": {"sql": COUNT, "epsilon": 1}})
    assert waiting.status == 202
    assert house.call("DELETE", "/v1/datasets/clinic/tokens/ann", "olga").status == 200
    free.set()
    job = house.app.state.jobs._jobs[waiting.json["id"]][0]
    while job.ended is None:
        time.sleep(0.02)
    assert (job.state, type(job.error).__name__) == ("failed", "AccessDenied")
    assert house.charges() == 1


def test_a_job_that_failed_tells_no_path(fresh, monkeypatch):
    house = fresh()
    words = f"the ledger {house.folder}/clinic.ledger cannot grow"
    monkeypatch.setattr(
        "discreet.server.session.Session.answers", lambda *_, **__: (_ for _ in ()).throw(LedgerUnavailable(words))
    )
    path, state = finished(
        house, house.call("POST", JOBS, "ann", {"kind": "question", "request": {"sql": COUNT, "epsilon": 1}})
    )
    problem = state["problem"]
    assert (state["state"], problem["status"], problem["code"]) == ("failed", 503, "ledger-unavailable")
    result = house.call("GET", f"{path}/result")
    assert (result.status, result.code) == (503, "ledger-unavailable")
    assert str(house.folder) not in json.dumps(state) + result.content.decode()


AUDIT = {
    "table": "visits",
    "label": "region",
    "group": "region",
    "prediction": "age",
    "positive": "zzz",
    "epsilon": "1",
}
MAP = {"table": "visits", "origin": "region", "destination": "region", "epsilon": "1"}


@pytest.mark.parametrize("name", ["visits.csv", "pupils.csv", "clinic.toml"])
def test_a_text_where_a_table_belongs_is_the_table_and_no_file_of_the_server(house, name):
    """Once, a path was read: an analyst was told the values of a private column for nothing."""
    path = house.folder / name
    for kind, body in (
        ("fairness-audit", AUDIT | {"predictions": str(path)}),
        ("commute", MAP | {"places": str(path)}),
    ):
        for start in (JOBS, "/console/datasets/clinic/job-price"):
            reply = house.call("POST", start, "ann", {"kind": kind, "request": body})
            assert reply.status == 422, reply
            assert "patient_id" not in reply.content.decode()
            assert "classes are" not in reply.content.decode()
    attack = {
        "attack": "single-out",
        "tables": {},
        "settings": dict.fromkeys(("released", "people", "controls"), str(path)),
    }
    reply = house.call("POST", "/v1/datasets/clinic/reports/attack", "olga", attack)
    assert (reply.status, reply.json["facts"]["name"]) == (422, "tables")
    for odd in ({"released": TABLE, "path": TABLE}, dict.fromkeys(("released", "people", "controls"), str(path))):
        assert house.call("POST", "/v1/datasets/clinic/reports/attack", "olga", attack | {"tables": odd}).status == 422


def test_tables_of_a_job_are_the_text_of_a_csv_file_or_columns(house):
    for places in (
        "name,lat,lon\nnorth,50,8\nsouth,50,9\n",
        {"name": ["north", "south"], "lat": [50, 50], "lon": [8, 9]},
    ):
        request = request_of("commute", MAP | {"places": places})
        assert house.service.places["clinic"].data().plan(request).places.names == ("north", "south")


@pytest.mark.parametrize(
    ("kind", "request_"),
    [
        ("synthesis", {"table": "visits", "epsilon": 1, "columns": 5}),
        ("synthesis", {"table": "visits", "epsilon": 1, "values": "x"}),
        ("synthesis", {"table": ["visits"], "epsilon": {}}),
        ("linked-synthesis", {"tables": {"visits": {"columns": 5}}, "epsilon": 1}),
        ("training", {"table": "visits", "target": "region", "features": ["age"], "epsilon": 1, "delta": "1e-7",
                      "examples": 400, "recipe": {"odd": 1}}),
        ("bounds", {"table": "visits", "epsilon": 1, "columns": {"age": 1}}),
        ("fairness-audit", AUDIT | {"predictions": [1]}),
    ],
    ids=range(7),
)  # fmt: skip
def test_fields_of_other_shapes_are_refused_in_words(house, kind, request_):
    before = house.charges()
    reply = house.call("POST", JOBS, "ann", {"kind": kind, "request": request_})
    assert (reply.status, reply.code) == (422, "invalid-parameter"), reply
    assert house.charges() == before


# Surveys


SURVEY = Survey(
    name="coin", version=1, question="Heads?", domain=["no", "yes"], randomizer="k-rr", epsilon="3", times=1
)


def test_a_survey_from_its_page_to_its_estimate(house):
    made = house.call("POST", "/v1/datasets/clinic/surveys", "carl", {"survey": SURVEY.to_json()})
    assert made.status == 201, made
    links = made.json
    page = house.call("GET", links["page"], None)
    assert page.status == 200
    assert b"Heads?" in page.content
    assert f"{house.url}{links['reports']}".encode() in page.content
    lines = [SURVEY.respond("yes" if n < 150 else "no").line for n in range(200)]
    sent = "\n".join([*lines, "nonsense", lines[0]]).encode()
    counts = house.call("POST", links["reports"], None, sent, Content_Type="text/plain").json
    assert (counts["accepted"], counts["rejected"]) == (200, 2)
    again = house.call("POST", links["reports"], None, "\n".join(lines).encode(), Content_Type="text/plain").json
    assert (again["accepted"], again["replayed"]) == (0, 200)
    other = Survey(
        name="dice", version=1, question="Six?", domain=["no", "yes"], randomizer="k-rr", epsilon="3", times=1
    )
    odd = house.call("POST", links["reports"], None, other.respond("yes").line.encode(), Content_Type="text/plain").json
    assert odd["accepted"] == 0
    listed = house.call("GET", "/v1/datasets/clinic/surveys", "olga").json["surveys"]
    assert [entry["id"] for entry in listed].count(links["id"]) == 1
    found = house.call("GET", f"/v1/datasets/clinic/surveys/{links['id']}/estimate", "carl")
    assert found.status == 200, found
    assert found.json["reports"] == 200
    assert house.call("GET", f"/v1/datasets/clinic/surveys/{links['id']}/estimate?confidence=2", "carl").status == 422
    many = b"x\n" * 10_001
    assert house.call("POST", links["reports"], None, many, Content_Type="text/plain").status == 413
    for odd_id in ("0" * 32, "../clinic", links["id"].upper(), links["id"] + "0"):
        assert house.call("GET", f"/surveys/{odd_id}", None).status == 404


def test_a_survey_belongs_to_one_dataset(fresh):
    """Its page and its reports have one address: who made the same for another dataset could take the reports."""
    house = fresh()
    otto = TokenFile(house.folder / "school.tokens").create("cora", "collector")[0]
    body = {"survey": SURVEY.to_json()}
    assert house.call("POST", "/v1/datasets/school/surveys", otto, body).status == 201
    reply = house.call("POST", "/v1/datasets/clinic/surveys", "carl", body)
    assert (reply.status, reply.code) == (422, "invalid-parameter")
    assert house.call("POST", "/v1/datasets/school/surveys", otto, body).status == 201


@pytest.mark.parametrize(
    "survey", [{}, {"name": "x"}, {**SURVEY.to_json(), "epsilon": "NaN"}, {**SURVEY.to_json(), "name": "../../x"}]
)
def test_surveys_that_are_none_are_refused(house, survey):
    reply = house.call("POST", "/v1/datasets/clinic/surveys", "carl", {"survey": survey})
    assert reply.status == 422, reply


# Reports on tables that an owner uploads


TABLE = {"age": [30 + n % 7 for n in range(60)], "zip": [n % 5 for n in range(60)], "ill": [n % 2 for n in range(60)]}


def test_risk_and_attack_reports(house):
    before = house.charges()
    body = {"table": TABLE, "quasi": ["age", "zip"], "sensitive": ["ill"]}
    found = house.call("POST", "/v1/datasets/clinic/reports/risk", "olga", body)
    assert found.status == 200, found
    assert found.json["words"]
    text = "age,zip\n" + "\n".join(f"{30 + n % 7},{n % 5}" for n in range(60))
    as_csv = house.call("POST", "/v1/datasets/clinic/reports/risk", "olga", {"table": text, "quasi": ["age", "zip"]})
    assert as_csv.status == 200
    page = house.call("POST", "/v1/datasets/clinic/reports/risk", "olga", body, Accept="text/html")
    assert b"<html" in page.content
    for odd in (
        {**body, "quasi": ["nowhere"]},
        {**body, "threshold": "x"},
        {**body, "table": "a,b\n1"},
        {**body, "table": {}},
    ):
        assert house.call("POST", "/v1/datasets/clinic/reports/risk", "olga", odd).status == 422
    tables = {"released": TABLE, "people": TABLE, "controls": TABLE}
    attack = {"attack": "single-out", "tables": tables, "settings": {"tries": 50}}
    reply = house.call("POST", "/v1/datasets/clinic/reports/attack", "olga", attack)
    assert reply.status == 200, reply
    assert reply.json["words"]
    assert house.call("POST", "/v1/datasets/clinic/reports/attack", "olga", {**attack, "tables": {}}).status == 422
    assert house.call("POST", "/v1/datasets/clinic/reports/attack", "olga", {**attack, "attack": "x"}).status == 422
    assert house.charges() == before


# The owner's record


def test_the_record_has_charges_and_acts_of_owners(fresh):
    house = fresh()
    house.ask(COUNT, "0.5")
    assert house.call("POST", "/v1/datasets/clinic/ledger/verify", "olga").json["verified"]
    head = house.call("POST", "/v1/datasets/clinic/ledger/head", "olga").json
    assert head["account"] == "clinic"
    assert house.call("DELETE", "/v1/datasets/clinic/tokens/bob", "olga").json["revoked"]
    assert house.call("DELETE", "/v1/datasets/clinic/tokens/bob", "olga").status == 422
    assert house.call("GET", "/v1/datasets", "bob").status == 401
    rows = list(house.service.places["clinic"].ledger.history("clinic"))
    assert [(row.kind, row.who) for row in rows] == [
        ("open", ""),
        ("charge", "ann"),
        ("answer", ""),
        ("amend", "olga"),
        ("amend", "olga"),
    ]
    assert "revoked token" in rows[-1].why
    shown = house.call("GET", "/v1/datasets/clinic/ledger?last=2", "olga").json["rows"]
    assert len(shown) == 2
    assert COUNT not in str(house.call("GET", "/v1/datasets/clinic/ledger", "olga").content)
    assert COUNT in house.call("GET", "/v1/datasets/clinic/ledger?texts=true", "olga").content.decode()
    states = {
        entry["name"]: entry["state"]
        for entry in house.call("GET", "/v1/datasets/clinic/tokens", "olga").json["tokens"]
    }
    assert (states["bob"], states["ann"]) == ("revoked", "valid")
