"""Responses: JSON for people and scripts, Arrow without loss, CSV and Parquet for tables, as `Accept` says."""

import io
import json
import math
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


_QUALITY = re.compile(r"q\s*=\s*(0(?:\.\d*)?|1(?:\.0*)?)\s*")


def accepted(request: Request, *offered: str) -> str:
    """The media type, of those offered, that a request likes best (RFC 9110, section 12.5.1).

    Of several that it likes as much, the one that it names first; of those that it names none of, the first offered.
    """
    header = request.headers.get("accept", "").strip() or "*/*"
    ranges = [_range(part) for part in header.lower().split(",")]
    best: tuple[float, int] | None = None
    chosen = ""
    for offer in offered:
        known = [(ranges.index(each), each[1]) for kind in _ranges_of(offer) for each in ranges if each[0] == kind]
        if not known or known[0][1] <= 0:
            continue
        rank = (known[0][1], -known[0][0])
        if best is None or rank > best:
            best, chosen = rank, offer
    if best is None:
        raise Refused(InvalidParameter("Accept", header, f"one of {', '.join(offered)}"), 406)
    return chosen


def _range(part: str) -> tuple[str, float]:
    """A media type or a range of them, and how well it is liked."""
    kind, *terms = part.split(";")
    liked = [float(result[1]) for term in terms if (result := _QUALITY.fullmatch(term.strip()))]
    return kind.strip(), liked[0] if liked else 1.0


def _ranges_of(offer: str) -> tuple[str, str, str]:
    """What may be written for a media type, the most specific first."""
    return offer, f"{offer.partition('/')[0]}/*", "*/*"


def document_response(document: Any, status: int = 200) -> Response:
    """A JSON document; a number that is not finite, which JSON has none of, is null."""
    try:
        text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(_finite(document), ensure_ascii=False, allow_nan=False)
    return Response(text, status, media_type=JSON)


def _finite(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return None
        case dict():
            return {name: _finite(part) for name, part in value.items()}
        case list() | tuple():
            return [_finite(part) for part in value]
    return value


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
