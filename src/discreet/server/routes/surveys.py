"""Surveys: made by a collector, answered by anybody in a browser that randomizes, counted and estimated here.

What comes is private before it leaves the device, so the page and the door for reports need no token. A survey is known
by its digest: reports to another question, or twice, do not count (`local.collection`).
"""

import json
import re
import threading
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, ConfigDict

from discreet import durable
from discreet.errors import InvalidParameter, ServerUnavailable
from discreet.local.collection.collector import Collection
from discreet.local.collection.survey import Survey
from discreet.local.collection.survey_page import page
from discreet.server.access import Right
from discreet.server.problems import Refused
from discreet.server.routes.callers import Guarded, allowed, in_thread, service_of
from discreet.server.routes.results import document_response
from discreet.server.session import Place, Session

router = APIRouter(tags=["surveys"], route_class=Guarded)

PAGE, REPORTS = "/surveys/{survey}", "/surveys/{survey}/reports"
OPEN = frozenset({PAGE, REPORTS})
"""Paths that need no token: people who answer have none."""

_LINES = 10_000

MOST_WAITING = 200
"""How many people who sent reports may wait; they need no token, so they wait apart from those who ask."""

_WRITING = threading.Lock()
Collecting = Annotated[Session, Depends(allowed(Right.SURVEYS))]


class SurveyBody(BaseModel):
    """A survey: what its TOML file says (`discreet local`), as JSON."""

    model_config = ConfigDict(extra="forbid")

    survey: dict[str, Any]


@router.post("/v1/datasets/{dataset}/surveys", status_code=201)
async def make(request: Request, session: Collecting, body: SurveyBody) -> Response:
    """Make a survey: from now on its page is open to everybody who has the link."""
    survey = Survey.from_json(body.survey)
    folder, name = surveys_folder(session.place), survey_id(survey)
    others = [place for place in service_of(request).places.values() if place is not session.place]
    if any((surveys_folder(place) / f"{name}.json").exists() for place in others):  # its reports are theirs
        hint = "give it another name or version"
        raise InvalidParameter("survey", survey.name, "a survey that no other dataset of this server has", hint)

    def work() -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        durable.replace(folder / f"{name}.json", json.dumps(survey.to_json()).encode())

    await in_thread(request, session, work)
    document = {"id": name, "page": f"/surveys/{name}", "reports": f"/surveys/{name}/reports"}
    return document_response(document, 201)


@router.get("/v1/datasets/{dataset}/surveys")
async def surveys(session: Collecting) -> Response:
    """The surveys of a dataset."""
    entries = []
    for path in sorted(surveys_folder(session.place).glob("*.json")):
        survey = Survey.from_json(json.loads(path.read_bytes()))
        entries.append({"id": survey_id(survey), "name": survey.name, "question": survey.question})
    return document_response({"surveys": entries})


@router.get("/v1/datasets/{dataset}/surveys/{survey}/estimate")
async def estimate(
    request: Request,
    session: Collecting,
    survey: str,
    confidence: Annotated[str, Query(max_length=20)] = "0.95",
) -> Response:
    """What people said together, with intervals; of places, a map without intervals."""
    known, store = find_survey([session.place], survey)

    def work() -> dict[str, Any]:
        with _WRITING:
            result = Collection(store).estimate(known, confidence=None if known.places else confidence)
        return result.to_json()

    return document_response(await in_thread(request, session, work))


@router.get(PAGE, response_class=Response)
async def answer_page(request: Request, survey: str) -> Response:
    """The page that asks the question and randomizes the answer in the browser."""
    known, _ = find_survey(service_of(request).places.values(), survey)
    endpoint = str(request.url_for("collect", survey=survey))
    return Response(page(known, endpoint=endpoint), media_type="text/html")


@router.post(REPORTS, name="collect")
async def collect(request: Request, survey: str) -> Response:
    """Take reports, one a line. What came before, is malformed or belongs elsewhere is counted and dropped."""
    known, store = find_survey(service_of(request).places.values(), survey)
    if request.app.state.survey_limiter.statistics().tasks_waiting >= MOST_WAITING:
        refusal = ServerUnavailable("many people answer just now; send it again in a moment: it counts once")
        raise Refused(refusal, 503, **{"retry-after": "2"})
    lines = (await request.body()).splitlines()
    if len(lines) > _LINES:
        raise Refused(InvalidParameter("reports", len(lines), f"at most {_LINES} lines", "send them in parts"), 413)

    def work() -> Any:
        with _WRITING:
            return Collection(store).add(known, lines)

    counts = await anyio.to_thread.run_sync(work, limiter=request.app.state.survey_limiter)
    return document_response({"accepted": counts.accepted, "rejected": counts.rejected, **counts.reasons})


def survey_id(survey: Survey) -> str:
    """The id of a survey in addresses: the hexadecimal digits of its digest, which everybody may know."""
    return survey.digest.rpartition("/")[2]


def writing() -> threading.Lock:
    """Held while the store of a survey is read or written: one thread at a time."""
    return _WRITING


def surveys_folder(place: Place) -> Path:
    """Where the surveys of a dataset are kept: a folder beside its policy."""
    return place.tokens.path.with_suffix(".surveys")


def find_survey(places: Any, name: str) -> tuple[Survey, Path]:
    """A survey by its digest, and the store of its reports."""
    if re.fullmatch(r"[0-9a-f]{32}", name):
        for place in places:
            path = surveys_folder(place) / f"{name}.json"
            if path.is_file():
                return Survey.from_json(json.loads(path.read_bytes())), path.with_suffix(".duckdb")
    raise Refused(InvalidParameter("survey", name, "the id of a survey of this server"), 404)
