"""A policy made in the browser, from the schema of a file: what `discreet init` and `discreet check` do, in pictures.

The browser sends the schema alone: the header of a CSV file, the footer of a Parquet file (which may hold the least and
greatest values of columns; nobody looks at them, and it is forgotten at once). No row leaves the browser.
"""

import tempfile
import tomllib
from base64 import b64decode
from binascii import Error as NotBase64
from math import exp
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from discreet.curator.owner.exact_view import check_schema
from discreet.curator.owner.policy_draft import draft_policy
from discreet.curator.policy import ENGINES, explain, parse_policy, read_policy
from discreet.errors import InvalidParameter
from discreet.exact import rational, text_up
from discreet.mechanisms.additive import Geometric
from discreet.report import Bars, Chart, Line
from discreet.report.marks import label
from discreet.server.access import Right
from discreet.server.console.page_shell import ConsoleRoute, page, visiting
from discreet.server.routes.callers import allowed, in_thread
from discreet.server.routes.results import document_response
from discreet.server.session import Session

router = APIRouter(
    prefix="/console/datasets/{dataset}/policy", tags=["console"], include_in_schema=False, route_class=ConsoleRoute
)

Owner = Annotated[Session, Depends(allowed(Right.POLICY))]


class SchemaBody(BaseModel):
    """The name of a file, and the part of it that holds its schema, in Base64."""

    model_config = ConfigDict(extra="forbid")

    name: str = Field(max_length=200)
    schema_part: str = Field(max_length=4_000_000)


class CheckBody(SchemaBody):
    """The text of a policy for that file."""

    text: str = Field(max_length=1_000_000)


class PictureBody(BaseModel):
    """An ε, and the bound on what a person adds to a sum."""

    model_config = ConfigDict(extra="forbid")

    epsilon: str = Field(max_length=20)
    bound: str = Field(default="1", max_length=20)


@router.get("")
async def policy_page(session: Annotated[Session, Depends(visiting(Right.POLICY))]) -> Response:
    """The page on which a policy is made."""
    lead = "From the schema of a file to a policy that says who is protected, within which bounds, and at which price."
    return page("New policy", _PAGE, session=session, current="/policy", script="policy.js", lead=lead, wide=True)


@router.post("/draft")
async def draft(request: Request, session: Owner, body: SchemaBody) -> Response:
    """A first policy for a file, from its schema, with everything that the owner must decide marked "?"."""

    def work() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
            path = _schema_file(folder, body)
            text = draft_policy(str(path), base=folder)
        table = next(iter(tomllib.loads(text)["tables"].items()))
        columns = [{"name": name, "type": spec["type"]} for name, spec in table[1]["columns"].items()]
        return {"text": text, "table": table[0], "columns": columns}

    return document_response(await in_thread(request, session, work))


@router.post("/check")
async def check(request: Request, session: Owner, body: CheckBody) -> Response:
    """What a policy means, in words, and whether it fits the schema. It may name the uploaded file and no other."""

    def work() -> dict[str, Any]:
        with tempfile.TemporaryDirectory(prefix="discreet-") as folder:
            path = _schema_file(folder, body)
            others = [source for source in parse_policy(body.text).sources.values() if source != path.name]
            if others:
                raise InvalidParameter("source", others[0], f"{path.name!r}, the file whose schema was given")
            file = Path(folder) / "policy.toml"
            file.write_text(body.text, encoding="utf-8")
            policy = read_policy(file)
            if policy.engine != ENGINES[0]:  # whose address this server would call with the secrets that it has
                hint = "for tables of a server, run: discreet check policy.toml"
                raise InvalidParameter("[dataset] engine", policy.engine, "a policy whose tables are files", hint)
            findings = [finding.to_json() for finding in check_schema(policy)]
        return {"words": explain(policy), "findings": findings}

    return document_response(await in_thread(request, session, work))


@router.post("/picture")
async def picture(request: Request, session: Owner, body: PictureBody) -> Response:
    """What an ε means for a guesser, what the unit means for a person, and a bound for the error of a sum."""

    def work() -> dict[str, Any]:
        epsilon = float(rational(body.epsilon, "epsilon", above=0, at_most=50))
        bound = float(rational(body.bound, "bound", above=0, at_most=10**9))
        return {
            "guesser": guesser_chart(epsilon).svg(),
            "unit": unit_chart(epsilon).svg(),
            "bound": bound_chart(epsilon, bound).svg(),
            "words": guesser_words(epsilon),
        }

    return document_response(await in_thread(request, session, work))


def guesser_words(epsilon: float) -> str:
    """What somebody who guesses gains at most, in a sentence.

    >>> guesser_words(1)
    'Whoever thinks that something about you is as likely as not can be at most 73.1 % sure of it after all releases.'
    """
    share = 100 * exp(epsilon) / (1 + exp(epsilon))
    return (
        f"Whoever thinks that something about you is as likely as not can be at most {share:.3g} % sure of it after "
        "all releases."
    )


def guesser_chart(epsilon: float) -> Chart:
    """How sure a guesser can be after all releases, by how sure before (Bayes' rule with the factor e^ε)."""
    before = np.linspace(0, 1, 51)
    after = before * exp(epsilon) / (1 - before + before * exp(epsilon))
    marks = [
        Line(before, after, f"at most, at ε {text_up(epsilon, 4)}"),
        Line(before, before, "without the data", dashed=True),
    ]
    return Chart("What a guesser gains", marks, x="sure before", y="sure after", x_range=(0, 1), y_range=(0, 1))


def unit_chart(epsilon: float) -> Chart:
    """How sure a guesser can be of a person with several rows, by the unit (k rows together have kε)."""
    rows = np.arange(1, 21)
    by_rows = 1 / (1 + np.exp(-epsilon * rows))
    by_person = np.full(len(rows), by_rows[0])
    marks = [Line(rows, by_person, "unit: a person"), Line(rows, by_rows, "unit: one row", dashed=True)]
    ticks = [(float(count), label(count)) for count in (1, 5, 10, 15, 20)]
    title = "A person with several rows, by the unit"
    return Chart(title, marks, x="rows of the person", y="sure after", x_ticks=ticks, y_range=(0, 1))


def bound_chart(epsilon: float, bound: float) -> Chart:
    """How far a sum may lie from the truth, for bounds around the one that is considered."""
    bounds = [bound / 4, bound / 2, bound, bound * 2, bound * 4]
    errors = [
        float(Geometric(epsilon=str(epsilon), sensitivity=max(1, round(100 * one))).interval("0.95")) / 100
        for one in bounds
    ]
    labels = [label(float(f"{one:.4g}")) for one in bounds]
    return Chart("The error of a sum grows with its upper bound", [Bars(labels, errors)], y="± at 95 % confidence")


def _schema_file(folder: str, body: SchemaBody) -> Path:
    """The schema as a file of the given name, alone in a folder."""
    name = Path(body.name).name
    if name != body.name or not name.lower().endswith((".csv", ".parquet")):
        raise InvalidParameter("name", body.name, "the name of a .csv or .parquet file")
    try:
        content = b64decode(body.schema_part, validate=True)
    except NotBase64:
        raise InvalidParameter("schema_part", "a text", "Base64") from None
    path = Path(folder) / name
    path.write_bytes(content)
    return path


_PAGE = """
<section class="drop"><label for="file">A .csv or .parquet file</label>
<input id="file" type="file" accept=".csv,.parquet">
<p class="soft">Only its schema is sent: the first line of a CSV file, the footer of a Parquet file. It is read and
forgotten. Choose bounds without looking at the rows: a bound read from them reveals something about the person at
it.</p></section>
<p id="remark" class="refusal" role="status"></p>
<div id="maker"></div>
"""
