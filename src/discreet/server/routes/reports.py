"""Reports on tables that an owner uploads: how easily people are recognized in them, and what attacks find.

What is uploaded is read, reported on, and forgotten. Nothing here is charged: the owner may see these rows.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from discreet.errors import InvalidParameter
from discreet.server.access import Right
from discreet.server.routes.callers import Guarded, allowed, in_thread
from discreet.server.routes.results import HTML, JSON, accepted, document_response, sized
from discreet.server.session import Session
from discreet.server.uploads import TableBody, uploaded_table

router = APIRouter(prefix="/v1/datasets/{dataset}/reports", tags=["reports"], route_class=Guarded)

ATTACKS: Mapping[str, str] = {
    "infer": "tables.inference.Inference",
    "link": "tables.linkage.Linkage",
    "linkability": "tables.inference.Linkability",
    "secret": "tables.linkage.LinkedSecret",
    "single-out": "tables.singling_out.SinglingOut",
}
"""Attacks on a table that left, as `discreet attack` names them."""

Owner = Annotated[Session, Depends(allowed(Right.REPORTS))]


class RiskBody(BaseModel):
    """A table, the columns by which people could be recognized, and those that hold secrets."""

    model_config = ConfigDict(extra="forbid")

    table: TableBody
    quasi: list[str] = Field(min_length=1)
    sensitive: list[str] = []
    unit: str | None = None
    population: int | None = Field(None, ge=1)
    threshold: str = "0.09"


class AttackBody(BaseModel):
    """An attack by name, its tables, and its settings, which are those of `discreet attack NAME --help`."""

    model_config = ConfigDict(extra="forbid")

    attack: str
    tables: dict[str, TableBody]
    settings: dict[str, Any] = {}


@router.post("/risk")
async def risk(request: Request, session: Owner, body: RiskBody) -> Response:
    """How easily people are recognized in a table, as JSON or as a page."""
    kind = accepted(request, JSON, HTML)

    def work() -> Response:
        from discreet.anonymity import Classes
        from discreet.anonymity.anonymity_report import risk_page
        from discreet.anonymity.models import unit_codes
        from discreet.anonymity.risk import risk as measured

        table = uploaded_table(body.table, "table")
        units = None if body.unit is None else unit_codes(table, body.unit)
        table = table if body.unit is None else table.drop_columns([body.unit])
        settings: dict[str, Any] = {"population": body.population, "threshold": body.threshold, "units": units}
        if kind == HTML:
            page = risk_page(table, body.quasi, sensitive=body.sensitive, title="Risk of an uploaded table", **settings)
            return sized(request, page.html().encode(), HTML)
        result = measured(Classes.of_table(table, body.quasi), **settings)
        return document_response(result.as_dict() | {"words": result.text()})

    return await in_thread(request, session, work)


@router.post("/attack")
async def attack(request: Request, session: Owner, body: AttackBody) -> Response:
    """What an attack finds in a table that left, beside what guessing finds, as JSON or as a page."""
    kind = accepted(request, JSON, HTML)
    if body.attack not in ATTACKS:
        raise InvalidParameter("attack", body.attack, f"one of {', '.join(ATTACKS)}")

    def work() -> Response:
        room, _, name = ATTACKS[body.attack].rpartition(".")
        made = getattr(import_module(f"discreet.attacks.{room}"), name)
        parts = [field.name for field in fields(made) if field.metadata.get("kind") == "table"]
        misplaced = [name for name in body.settings if name in parts] + [
            name for name in body.tables if name not in parts
        ]
        if misplaced:  # a table among the settings could be the name of a file of the server's
            raise InvalidParameter("tables", ", ".join(misplaced), f"{', '.join(parts)}, which belong in `tables`")
        tables = {part: uploaded_table(table, part) for part, table in body.tables.items()}
        try:
            result = made(**tables, **body.settings).run()
        except TypeError as error:
            words = str(error).partition("__init__() ")[2] or "settings that do not fit"
            raise InvalidParameter("settings", words, f"those of `discreet attack {body.attack} --help`") from None
        return sized(request, result.page().html().encode(), HTML) if kind == HTML else _facts(result)

    return await in_thread(request, session, work)


def _facts(found: Any) -> Response:
    document = json.loads(json.dumps(found.as_dict() | {"words": found.text()}, default=str))
    return document_response(document)
