"""Responses: JSON for people and scripts, Arrow without loss, CSV and Parquet for tables, as `Accept` says."""

import io
import json
import re
from collections.abc import Sequence
from typing import Any

from fastapi import Request, Response

from discreet.curator.answer import Answer
from discreet.errors import InvalidParameter
from discreet.requests import Question
from discreet.server.problems import Refused
from discreet.server.routes.callers import service_of
from discreet.wire import ARROW, answer_document, answers_to_arrow

JSON, CSV, PARQUET, HTML = "application/json", "text/csv", "application/vnd.apache.parquet", "text/html"


_NEVER = re.compile(r"q\s*=\s*0(\.0*)?\s*(;|$)")


def accepted(request: Request, *offered: str) -> str:
    """The first media type that a request accepts of those offered; the first where it accepts anything."""
    header = request.headers.get("accept", "*/*")
    parts = [part.strip().lower().partition(";") for part in header.split(",")]
    wanted = [kind.strip() for kind, _, terms in parts if not _NEVER.search(terms)]
    for kind in wanted:
        for offer in offered:
            if kind in (offer, "*/*") or (kind.endswith("/*") and offer.startswith(kind[:-1])):
                return offer
    raise Refused(InvalidParameter("Accept", header, f"one of {', '.join(offered)}"), 406)


def document_response(document: Any, status: int = 200) -> Response:
    """A JSON document."""
    return Response(json.dumps(document, ensure_ascii=False, allow_nan=False), status, media_type=JSON)


def answers_kind(request: Request, question: Question) -> str:
    """The media type in which answers to a question leave; known before anything is charged."""
    return accepted(request, JSON, ARROW, *((CSV, PARQUET) if len(question.statements) == 1 else ()))


def answers_response(
    request: Request, answers: Sequence[Answer], question: Question, *, intervals: bool = False
) -> Response:
    """Answers in the form that the request accepts."""
    kind = answers_kind(request, question)
    match kind:
        case "application/json" if isinstance(question.sql, str):
            content = _text(answer_document(answers[0], question))
        case "application/json":
            content = _text({"answers": [answer_document(answer) for answer in answers]})
        case "text/csv":
            content = answers[0].to_csv(intervals=intervals).encode()
        case "application/vnd.apache.parquet":
            content = parquet(answers[0].to_arrow(intervals=intervals))
        case _:
            content = answers_to_arrow(answers)
    headers = {"x-discreet-receipt": str(answers[0].receipt).encode("ascii", "replace").decode()}
    return sized(request, content, kind, headers)


def sized(request: Request, content: bytes, kind: str, headers: dict[str, str] | None = None) -> Response:
    """A response, unless it is larger than the server sends."""
    most = service_of(request).limits.result
    if len(content) > most:
        hint = "what was paid for is kept: ask the same with LIMIT, or accept Parquet or Arrow, for free"
        raise Refused(InvalidParameter("result", f"{len(content)} bytes", f"at most {most}", hint), 413)
    return Response(content, headers=headers, media_type=kind)


def parquet(table: Any) -> bytes:
    """A table as a Parquet file."""
    from pyarrow import parquet as files

    sink = io.BytesIO()
    files.write_table(table, sink)
    return sink.getvalue()


def _text(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, allow_nan=False).encode("utf-8", "backslashreplace")
