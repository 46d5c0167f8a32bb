"""What a collector sees: surveys made, shared by a link or a QR code, and estimates that grow as reports arrive."""

import json
import math
from html import escape
from typing import Annotated, Any

import numpy as np
import segno
from fastapi import APIRouter, Depends, Request, Response

from discreet.errors import InvalidData
from discreet.local.collection.collector import Collection
from discreet.local.collection.survey import RANDOMIZERS, Survey
from discreet.local.collection.survey_page import cost_words, how_words
from discreet.report import Chart, Heat, Intervals
from discreet.report.page import shown
from discreet.server.access import Right
from discreet.server.console.page_shell import ConsoleRoute, counted, dataset_path, page, visiting
from discreet.server.routes.callers import allowed, in_thread
from discreet.server.routes.results import document_response
from discreet.server.routes.surveys import SurveyBody, find_survey, survey_id, surveys_folder, writing
from discreet.server.session import Session

router = APIRouter(
    prefix="/console/datasets/{dataset}/surveys", tags=["console"], include_in_schema=False, route_class=ConsoleRoute
)

Collecting = Annotated[Session, Depends(allowed(Right.SURVEYS))]
Looking = Annotated[Session, Depends(visiting(Right.SURVEYS))]


@router.get("")
async def surveys_page(session: Looking) -> Response:
    """The surveys of a dataset, and a form for a new one."""
    entries = []
    for path in sorted(surveys_folder(session.place).glob("*.json")):
        survey = Survey.from_json(json.loads(path.read_bytes()))
        link = dataset_path(session.place.name, f"/surveys/{survey_id(survey)}")
        words = f'{escape(survey.question)}</a> <span class="soft">{escape(survey.name)}</span>'
        entries.append(f'<li><a href="{link}">{words}</li>')
    known = f"<ul>{''.join(entries)}</ul>" if entries else '<p class="empty">There is none yet. Make one below.</p>'
    options = "".join(f"<option>{name}</option>" for name in RANDOMIZERS)
    lead = "People answer on their own device, which changes the answer at random before anything is sent."
    body = f"{known}{_FORM.format(options=options)}"
    return page("Surveys", body, session=session, current="/surveys", script="surveys.js", lead=lead)


@router.post("/preview")
async def preview(request: Request, session: Collecting, body: SurveyBody) -> Response:
    """What a survey would do and cost each person, in the words that they will read."""

    def work() -> dict[str, str]:
        survey = Survey.from_json(body.survey)
        return {"how": shown(how_words(survey)), "cost": shown(cost_words(survey))}

    return document_response(await in_thread(request, session, work))


@router.get("/{survey}")
async def survey_page(request: Request, session: Looking, survey: str) -> Response:
    """A survey: its link, its QR code, and what people said so far."""
    known, _ = find_survey([session.place], survey)
    address = str(request.url_for("answer_page", survey=survey))
    code = segno.make(address, error="m").svg_inline(border=2, omitsize=True)
    body = (
        f'<p class="lead">{escape(known.question)}</p>'
        f'<div class="qr" role="img" aria-label="QR code of the link">{code}</div>'
        f'<p><a href="{escape(address)}">{escape(address)}</a></p><p>{escape(shown(cost_words(known)))}</p>'
        f'<h2>What people said</h2><div id="estimate" data-survey="{escape(survey)}" aria-live="polite"></div>'
    )
    return page("Survey", body, session=session, current="/surveys", script="surveys.js")


@router.get("/{survey}/estimate")
async def estimate(request: Request, session: Collecting, survey: str) -> Response:
    """What people said together so far, as a picture with intervals; of places, a map."""
    known, store = find_survey([session.place], survey)

    def work() -> dict[str, Any]:
        if not store.exists():
            return {"reports": 0, "svg": None}
        try:
            with writing():
                result = Collection(store).estimate(known, confidence=None if known.places else "0.95")
        except InvalidData:
            return {"reports": 0, "svg": None}
        return {"reports": result.reports, "svg": _chart(known, result).svg()}

    return document_response(await in_thread(request, session, work))


def _chart(survey: Survey, result: Any) -> Chart:
    title = f"{survey.question[:60]} ({counted(result.reports, 'report')})"
    if survey.places:
        area = survey.area
        shares = result.shares.reshape(area.rows, area.columns)
        heat = Heat(shares[::-1], aspect=area.columns / area.rows, scale=_scale(area.columns * float(area.cell)))
        return Chart(title, [heat], x="share of people in each cell; north is up")
    shares, labels = np.clip(result.shares, 0, 1), survey.labels  # of few reports, estimates lie outside
    marks = [Intervals(labels, shares, low=result.low, high=result.high)]
    return Chart(title, marks, y="share of people; intervals hold together at 95 %")


def _scale(wide: float) -> tuple[float, str]:
    """A scale for a map that is so many km wide: its share of the width, and its words.

    >>> _scale(3.0), _scale(40.0)
    ((0.3333333333333333, '1 km'), (0.25, '10 km'))
    """
    length = 10.0 ** math.floor(math.log10(wide / 2))
    return length / wide, f"{length:g} km"


_FORM = """
<h2>New survey</h2><form id="survey"><div class="fields">
<label class="whole">Question
<input id="text" required maxlength="300" placeholder="How did you come to work today?"></label>
<label>Short name
<input id="name" required maxlength="60" pattern="[a-z0-9][a-z0-9_\\-]*" placeholder="commute"></label>
<label>Randomizer <select id="randomizer" aria-describedby="randomizers">{options}</select></label>
<label>ε of one report <input id="epsilon" value="ln 3" maxlength="20"></label>
<label>Times a person is asked <input id="times" value="1" inputmode="numeric" maxlength="5"></label>
<label class="whole" id="for-answers">Answers, one a line <textarea id="answers" rows="4"></textarea></label>
</div><div id="for-places" class="fields" hidden>
<label>Latitude <input id="latitude" inputmode="decimal"></label>
<label>Longitude <input id="longitude" inputmode="decimal"></label>
<label>Width, km <input id="width" value="3" inputmode="decimal"></label>
<label>Height, km <input id="height" value="3" inputmode="decimal"></label>
<label>Cell, km <input id="cell" value="0.1" inputmode="decimal"></label></div>
<p id="randomizers" class="soft">Which randomizer: k-rr for a few answers, hadamard for many, planar laplace for
places on a map.</p><div id="words" aria-live="polite"></div><p id="refusal" class="refusal" role="status"></p>
<button class="main" disabled>Make the survey</button></form>
"""
