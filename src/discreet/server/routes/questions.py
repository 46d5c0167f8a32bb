"""Datasets, what is publicly known of them, and questions: priced, answered, found again."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StrictFloat, StrictInt, StrictStr
from starlette.requests import ClientDisconnect

from discreet.requests import Question
from discreet.server.access import Right
from discreet.server.routes.callers import Guarded, allowed, in_thread, require_still_valid, service_of, tokens_of
from discreet.server.routes.results import CSV, PARQUET, answers_kind, answers_response, document_response
from discreet.server.session import Session
from discreet.wire import ARROW, catalog_document, question_named, question_of

router = APIRouter(prefix="/v1", tags=["questions"], route_class=Guarded)

Number = StrictStr | StrictInt | StrictFloat
"""ε, δ and their like: a JSON number, or text where it must be exact."""

FORMS: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in (CSV, PARQUET, ARROW)}}}
"""What answers are beside JSON."""

_LONGEST, _SHORT = 200_000, 10_000


class QuestionBody(BaseModel):
    """A question: SQL and its terms. Several statements are planned together: one ε pays for all of them."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": {"sql": "SELECT 1", "epsilon": "0.1"}})

    sql: Annotated[str, Field(max_length=_LONGEST)] | list[Annotated[str, Field(max_length=_LONGEST)]]
    epsilon: Number | None = None
    error: Number | None = None
    delta: Number | None = None
    groups: int | None = None
    rows: int | None = None
    confidence: Number | None = None
    measure_bounds: bool | None = None

    @property
    def question(self) -> Any:
        """The question, as Python has it."""
        return question_of(self.model_dump(exclude_none=True))


Asking = Annotated[Session, Depends(allowed(Right.ASK))]
Seeing = Annotated[Session, Depends(allowed(Right.SCHEMA))]
Key = Annotated[str | None, Header(alias="Idempotency-Key", min_length=1, max_length=200)]
Intervals = Annotated[bool, Query(description="In CSV, Parquet: columns for the ends of intervals, too.")]


@router.get("/datasets")
async def datasets(request: Request) -> Response:
    """The datasets that the token opens, and in which role."""
    tokens, places = await tokens_of(request), service_of(request).places
    entries = []
    for name, token in sorted(tokens.items()):
        catalog = places[name].policy.catalog
        tables = [table.name for table in catalog.tables.values()]
        entry = {"name": name, "role": str(token.role), "analyst": token.name, "protects": catalog.protects}
        entries.append(entry | {"tables": tables})
    return document_response({"datasets": entries})


@router.get("/datasets/{dataset}")
async def schema(session: Seeing) -> Response:
    """What is publicly known of a dataset: tables, columns, bounds, values."""
    document = catalog_document(session.catalog)
    return document_response(document | {"role": str(session.token.role), "analyst": session.token.name})


@router.post("/datasets/{dataset}/explain")
async def explain(request: Request, session: Asking, body: QuestionBody) -> Response:
    """What asking would cost and do, and what is left. Free."""
    question = body.question
    explanation = await in_thread(request, session, lambda: session.explain(question))
    return document_response(explanation.to_json() | {"words": str(explanation)})


@router.post("/datasets/{dataset}/ask", responses=FORMS)
async def ask(
    request: Request, session: Asking, body: QuestionBody, idempotency_key: Key = None, intervals: Intervals = False
) -> Response:
    """The answer to a question, charged; the same question again is free.

    With an `Idempotency-Key`, a request that is repeated is never charged twice. JSON, CSV, Parquet or an Arrow stream,
    as `Accept` says.
    """
    question, text = body.question, await request.body()
    if len(text) <= _SHORT:
        session.place.bodies.put((request.headers.get("content-type", ""), text), question)
    return await _answer(request, session, question, idempotency_key, intervals=intervals)


async def _answer(
    request: Request, session: Session, question: Question, key: str | None = None, *, intervals: bool = False
) -> Response:
    kind = answers_kind(request, question)
    require_still_valid(session)
    known: Response | None = session.known_response(question, f"{kind}{intervals}") if key is None else None
    if known is not None:
        service_of(request).count("answers", "free")
        return known
    answers = session.remembered(question) if key is None else None
    if answers is None:
        answers = await in_thread(request, session, lambda: session.answers(question, key=key))
    free = answers[0].receipt.free
    service_of(request).count("answers", "free" if free else "charged")
    response = answers_response(request, answers, question, intervals=intervals)
    if free and len(response.body) <= _SHORT:
        session.know_response(question, f"{kind}{intervals}", answers[0].receipt.remaining, response)
    return response


async def _asked_again(request: Request, session: Session) -> Response | None:
    """The response to the very bytes that were asked before: they are not taken apart again."""
    if request.url.query or "idempotency-key" in request.headers:
        return None
    try:
        text = await request.body()
    except ClientDisconnect:
        return None  # for the framework to tell
    question = session.place.bodies.get((request.headers.get("content-type", ""), text))
    return None if question is None else await _answer(request, session, question)


ask.repeated = _asked_again  # type: ignore[attr-defined]


@router.get("/datasets/{dataset}/answers/{answer}", responses=FORMS)
async def answer(request: Request, session: Asking, answer: str, intervals: Intervals = False) -> Response:
    """An answer that was given before, by its id. Never charged."""
    question = question_named(answer)
    answers = await in_thread(request, session, lambda: session.answers(question, only_free=True))
    return answers_response(request, answers, question, intervals=intervals)
