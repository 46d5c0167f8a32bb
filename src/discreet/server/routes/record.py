"""What was spent and by whom: the budget, the ledger, the privacy statement, tokens."""

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from discreet.curator.reports.budget_report import entries_of
from discreet.curator.reports.statement_sections import privacy_statement
from discreet.server.access import Right
from discreet.server.routes.callers import Guarded, allowed, in_thread
from discreet.server.routes.results import JSON, accepted, document_response
from discreet.server.session import Session

router = APIRouter(prefix="/v1/datasets/{dataset}", tags=["record"], route_class=Guarded)

MARKDOWN = "text/markdown; charset=utf-8"


@router.get("/budget")
async def budget(request: Request, session: Annotated[Session, Depends(allowed(Right.BUDGET))]) -> Response:
    """What was spent and is left; an analyst sees no other analyst."""
    report = await in_thread(request, session, session.budget)
    return document_response(report.to_json() | {"words": str(report)})


@router.get("/statement")
async def statement(request: Request, session: Annotated[Session, Depends(allowed(Right.STATEMENT))]) -> Response:
    """The privacy statement, as Markdown or JSON: whom is protected, against what, at which ε, and what is not."""
    kind = accepted(request, "text/markdown", JSON)
    place = session.place
    made = await in_thread(request, session, lambda: privacy_statement(place.data().policy, place.ledger))
    return document_response(made.to_json()) if kind == JSON else Response(made.to_markdown(), media_type=MARKDOWN)


@router.get("/ledger")
async def ledger(
    request: Request,
    session: Annotated[Session, Depends(allowed(Right.LEDGER))],
    last: Annotated[int, Query(ge=1, le=100_000, description="Only the last so many rows.")] = 1000,
    texts: Annotated[bool, Query(description="With the texts of questions.")] = False,
) -> Response:
    """Every row of the record: who was charged for what, and what the owner changed."""
    place = session.place
    entries = await in_thread(request, session, lambda: list(entries_of(place.policy, place.ledger, None)))
    rows = [entry.to_json(texts=texts) for entry in entries[-last:]]
    return document_response({"dataset": place.name, "rows": rows})


@router.post("/ledger/verify")
async def verify(request: Request, session: Annotated[Session, Depends(allowed(Right.LEDGER))]) -> Response:
    """Walk the chain of the record; say whether it is whole."""
    place = session.place
    verdict = await in_thread(request, session, lambda: place.ledger.verify(place.name))
    return document_response({"verified": bool(verdict), "rows": verdict.rows, "words": str(verdict)})


@router.post("/ledger/head")
async def publish_head(request: Request, session: Annotated[Session, Depends(allowed(Right.LEDGER))]) -> Response:
    """Where the chain ends now, to be published elsewhere. That it was published is on the record."""
    place, why = session.place, "published where the chain ends"
    head = await in_thread(request, session, lambda: place.ledger.record(place.name, by=session.token.name, why=why))
    return document_response(asdict(head))


@router.get("/tokens")
async def tokens(session: Annotated[Session, Depends(allowed(Right.TOKENS))]) -> Response:
    """The tokens of the dataset: whose they are, their roles, whether they are valid. Never the tokens themselves."""
    now = datetime.now(UTC)
    entries = [
        {
            "id": token.id,
            "name": token.name,
            "role": str(token.role),
            "created": token.created.isoformat(),
            "expires": None if token.expires is None else token.expires.isoformat(),
            "state": token.state(now),
        }
        for token in session.place.tokens.all()
    ]
    return document_response({"tokens": entries})


@router.delete("/tokens/{which}")
async def revoke(request: Request, session: Annotated[Session, Depends(allowed(Right.TOKENS))], which: str) -> Response:
    """Revoke a token by its id, or all of a name, at once and on the record."""
    place, by = session.place, session.token.name

    def work() -> list[str]:
        revoked = place.tokens.revoke(which)
        for token in revoked:
            place.ledger.record(place.name, by=by, why=f"revoked token {token.id} of {token.name} ({token.role})")
        return [token.id for token in revoked]

    return document_response({"revoked": await in_thread(request, session, work)})
