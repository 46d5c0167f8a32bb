"""Jobs: started, asked after, canceled; and their results as tables, models, pages or documents."""

import tempfile
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict

from discreet.errors import InvalidParameter
from discreet.server.access import Right
from discreet.server.jobs import Job, Jobs, request_of
from discreet.server.problems import Refused, status_of
from discreet.server.routes.callers import Guarded, allowed, in_thread, tokens_of
from discreet.server.routes.results import (
    CSV,
    HTML,
    JSON,
    PARQUET,
    accepted,
    answers_response,
    document_response,
    sized,
)
from discreet.server.session import Session
from discreet.wire import ARROW, problem_document

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=Guarded)

FILE = "application/octet-stream"


class JobBody(BaseModel):
    """What to do: a kind, and the fields of its request (`discreet.requests`)."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    request: dict[str, Any]


def jobs_of(request: Request) -> Jobs:
    """The jobs of the server behind a request."""
    jobs: Jobs = request.app.state.jobs
    return jobs


@router.post("/datasets/{dataset}/jobs", status_code=202)
async def start(request: Request, session: Annotated[Session, Depends(allowed(Right.ASK))], body: JobBody) -> Response:
    """Start a job: a question, synthetic tables, a model, a map, bounds, an audit. It is charged when it begins."""
    wanted = request_of(body.kind, body.request)
    job = await in_thread(request, session, lambda: jobs_of(request).start(session, body.kind, wanted))
    return document_response(job.to_json(), 202)


async def _job(request: Request, job: str) -> Job:
    try:
        return jobs_of(request).find(job, await tokens_of(request))
    except InvalidParameter as refusal:
        raise Refused(refusal, 404) from None


OwnJob = Annotated[Job, Depends(_job)]


@router.get("/jobs/{job}")
async def state(job: OwnJob) -> Response:
    """How far a job has come."""
    document = job.to_json()
    if job.error is None:
        return document_response(document)
    return document_response(document | {"problem": problem_document(job.error, status=status_of(job.error))})


@router.delete("/jobs/{job}")
async def cancel(request: Request, job: OwnJob) -> Response:
    """Take a job out of the queue; one that runs is charged already, and goes on."""
    return document_response(jobs_of(request).cancel(job).to_json())


@router.get("/jobs/{job}/result")
async def result(request: Request, job: OwnJob) -> Response:
    """What a job released: tables as Parquet or CSV, models as files, pages as HTML, documents as JSON."""
    if job.error is not None:
        raise job.error
    if job.state != "done":
        raise Refused(InvalidParameter("job", job.state, "a job that is done", "ask after it first"), 409)
    return await anyio.to_thread.run_sync(lambda: _response(request, job), limiter=request.app.state.limiter)


def _response(request: Request, job: Job) -> Response:
    made = job.result
    match job.kind:
        case "question":
            return answers_response(request, made, job.request)
        case "synthesis" | "commute":
            kind = accepted(request, PARQUET, CSV, ARROW, HTML, JSON)
            table = made.table() if callable(made.table) else made.table
            return _table(request, table, kind, made)
        case "linked-synthesis":
            accepted(request, "application/zip")
            return sized(request, _zip(made), "application/zip")
        case "training":
            kind = accepted(request, FILE, HTML, JSON)
            content = _file(made, ".model") if kind == FILE else b""
            return sized(request, content, FILE) if content else _page(request, made, kind)
        case "bounds":
            return document_response(made.to_json())
        case _:
            return _page(request, made, accepted(request, JSON, HTML))


def _table(request: Request, table: Any, kind: str, made: Any) -> Response:
    if kind in (HTML, JSON):
        return _page(request, made, kind)
    if kind == ARROW:
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        return sized(request, bytes(sink.getvalue()), kind)
    from discreet.tables import write

    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        path = Path(folder) / ("table.csv" if kind == CSV else "table.parquet")
        write(table, str(path))
        return sized(request, path.read_bytes(), kind)


def _page(request: Request, made: Any, kind: str) -> Response:
    if kind == JSON:
        return document_response({"words": str(made), "receipt": made.receipt.to_json()})
    return sized(request, made.page().html().encode(), HTML)


def _file(made: Any, ending: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
        return Path(made.save(Path(folder) / f"result{ending}")).read_bytes()


def _zip(made: Any) -> bytes:
    sink = BytesIO()
    with tempfile.TemporaryDirectory(prefix="discreet-") as folder, zipfile.ZipFile(sink, "w") as archive:
        for path in made.save(folder):
            archive.write(path, Path(path).name)
    return sink.getvalue()
