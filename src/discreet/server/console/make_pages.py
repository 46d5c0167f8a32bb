"""Synthetic tables, models, commuting maps, fairness audits, bounds: a price before, a report after."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from discreet.report import embedded
from discreet.server.access import Right
from discreet.server.console.page_shell import ConsoleRoute, page, visiting
from discreet.server.session import Session
from discreet.wire import catalog_document

router = APIRouter(
    prefix="/console/datasets/{dataset}", tags=["console"], include_in_schema=False, route_class=ConsoleRoute
)


@router.get("/make")
async def make_page(session: Annotated[Session, Depends(visiting(Right.ASK))]) -> Response:
    """Forms for everything that takes a while."""
    budget = session.place.policy.budget
    facts = catalog_document(session.catalog) | {"delta": str(float(budget.delta)) if budget.delta else ""}
    lead = "Larger releases. The price is shown before anything is paid; the report comes when it is done."
    return page("Make", f'<div id="make"></div>{embedded("catalog", facts).html}', session=session, current="/make",
                script="make.js", lead=lead)  # fmt: skip
