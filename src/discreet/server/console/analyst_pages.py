"""What an analyst sees: questions with a live price, tables in words, what was asked before."""

import json
import re
from html import escape
from math import isfinite
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import ConfigDict

from discreet.curator.reports.answer_table import plain_text
from discreet.curator.reports.budget_report import entries_of
from discreet.exact import plain, text_up
from discreet.privacy.loss import Pure
from discreet.report import Grid, Heading, Html, Part, Text, embedded
from discreet.report.page import shown
from discreet.requests import Question
from discreet.server.access import RIGHTS, Right
from discreet.server.console.answer_charts import chart_of, columns_of, kinds_of, located_by, preview
from discreet.server.console.page_shell import (
    ConsoleRoute,
    are_years,
    counted,
    dataset_path,
    page,
    protection,
    visiting,
)
from discreet.server.console.sign_in import meter
from discreet.server.jobs import planned, request_of
from discreet.server.routes.callers import allowed, in_thread
from discreet.server.routes.jobs import JobBody
from discreet.server.routes.questions import QuestionBody
from discreet.server.routes.results import document_response, sized
from discreet.server.session import Session
from discreet.wire import catalog_document, question_of

router = APIRouter(
    prefix="/console/datasets/{dataset}", tags=["console"], include_in_schema=False, route_class=ConsoleRoute
)

Asking = Annotated[Session, Depends(allowed(Right.ASK))]
_LATEST, _SHOWN = 200, 12
_SQL = re.compile(r"\s*(?:--[^\n]*\n\s*)*\(*\s*(?:SELECT|WITH)\b", re.IGNORECASE)  # else it is the text of a job
_LONG_NUMBER = re.compile(r"(?<![\d.-])\d{4,}(?![\d.-])")


class ChartBody(QuestionBody):
    """A question that was answered, and how to draw the answer; the first kind and column that fit, if left out."""

    model_config = ConfigDict(extra="forbid")

    kind: str | None = None
    column: str | None = None

    @property
    def question(self) -> Any:
        """The question, as Python has it."""
        return question_of(self.model_dump(exclude_none=True, exclude={"kind", "column"}))


# Pages


@router.get("")
async def ask_page(request: Request, session: Annotated[Session, Depends(visiting(Right.ASK))]) -> Response:
    """Questions: an editor, a builder, the price as one types, and the answer."""
    place = session.place
    facts = catalog_document(session.catalog) | {
        "least": float(place.policy.least_epsilon),
        "usual": float(place.policy.default_epsilon or min(float(place.policy.budget.epsilon) / 20, 1.0)),
        "delta": str(float(place.policy.budget.delta)) if place.policy.budget.delta else "",
    }
    left = await in_thread(request, session, lambda: meter(session))
    body = f'<div id="left">{left}</div>{_ASK}{embedded("catalog", facts).html}'
    return page(f"Ask {place.name}", body, session=session, current="", script="ask.js", wide=True)


@router.get("/schema")
async def schema_page(session: Annotated[Session, Depends(visiting(Right.SCHEMA))]) -> Response:
    """What is publicly known of the tables, in words."""
    catalog = session.catalog
    parts: list[Part] = [Text(f"{protection(catalog)} No private row was read for this: the owner declared it.")]
    may_ask = session.token.role in RIGHTS[Right.ASK]
    for table in catalog.tables.values():
        parts += [Heading(table.name), Text(_table_words(table))]
        rows = [[column.name, column_words(column) + _values(column)] for column in table.columns]
        parts.append(Grid(["column", "what is declared"], rows))
    if may_ask:
        parts.append(Html(f'<p><a href="{dataset_path(session.place.name)}">Ask a question</a></p>'))
    return page("Tables", parts, session=session, current="/schema")


def column_words(column: Any) -> str:
    """A column in words, without its name; years have no thin spaces.

    >>> from discreet.curator.catalog import Column
    >>> column_words(Column("born", "integer", lower=1900, upper=2025))
    'integer from 1900 to 2025'
    """
    words: str = column.describe().removeprefix(f"{column.name}: ")
    listed = f", one of {len(column.values)} declared values" if column.values else ""
    if column.kind in ("date", "timestamp"):  # years have no thin spaces, and dates no line ends in them
        return re.sub(r"(?<=\d)-(?=\d)", "\N{NON-BREAKING HYPHEN}", words.replace(listed, ""))
    if column.kind == "integer" and are_years(column.lower, column.upper):
        return words.replace(listed, "")
    return _LONG_NUMBER.sub(lambda digits: shown(int(digits[0])), words.replace(listed, ""))


def _values(column: Any) -> str:
    values = [shown(value) if column.kind == "real" else plain_text(value) for value in column.values or ()]
    more = f" and {len(values) - _SHOWN} more" if len(values) > _SHOWN else ""
    return f": {', '.join(values[:_SHOWN])}{more}" if values else ""


def _table_words(table: Any) -> str:
    if not table.private:
        return "Public: it may be joined and shown as it is."
    words = [f"Private; protects {table.unit}"]
    words += [f"linked by {table.link}"] if table.link else []
    words += [f"a person counts in at most {counted(table.groups, 'group')} of one answer"] if table.groups else []
    words += [f"with the weight of at most {counted(table.rows, 'row')} in each"] if table.rows else []
    return "; ".join(words) + "."


@router.get("/history")
async def history_page(request: Request, session: Annotated[Session, Depends(visiting(Right.ASK))]) -> Response:
    """What the caller was charged for: nobody else's questions are here."""
    place, who = session.place, session.token.name
    entries = await in_thread(request, session, lambda: list(entries_of(place.policy, place.ledger, who)))
    rows = []
    for entry in reversed(entries[-_LATEST:]):
        text = entry.row.text or ""
        cost = "–" if entry.epsilon is None else text_up(entry.epsilon, 4)
        paid = f' data-epsilon="{plain(entry.loss.epsilon)}"' if isinstance(entry.loss, Pure) else ""
        again = (
            f'<button type="button" data-sql="{escape(text)}" data-charge="{entry.row.number}"{paid}>Open</button>'
            if _SQL.match(text)
            else ""
        )
        rows.append(
            f"<tr><td class=number>{entry.row.number}</td><td>{again}</td>"
            f"<td class=long><code>{escape(' '.join(text.split())[:300]) or '–'}</code></td>"
            f"<td class=number>{cost}</td><td class=number>{entry.total:.4g}</td>"
            f"<td class=whole>{escape(entry.row.when[:16].replace('T', ' '))}</td></tr>"
        )
    table = (
        '<div class="wide"><table class="grid"><thead><tr><th class=number>charge<th><th>question<th class=number>ε'
        f"<th class=number>total ε<th>when (UTC)</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
        if rows
        else '<p class="empty">Nothing yet. What you ask and pay for is listed here, and asking it again is free.</p>'
    )
    lead = "Your own charges, newest first. The same question at the same price is answered again for free."
    body = f'<section id="recent"></section><h2>Paid for</h2>{table}'
    return page("History", body, session=session, current="/history", script="history.js", lead=lead)


# What the pages ask for as one types


@router.post("/price")
async def price(request: Request, session: Asking, body: QuestionBody) -> Response:
    """What a question would cost, how far its numbers may be off, and a picture of that. Free."""
    question = body.question

    def work() -> dict[str, Any]:
        explanation = session.explain(question)
        document = explanation.to_json()
        for release in document["releases"]:
            release.pop("sql", None)
        chart = preview(document["releases"][0], session.catalog) if document["releases"] else None
        return document | {"preview": None if chart is None else chart.svg(), "words": str(explanation)}

    return document_response(_plain(await in_thread(request, session, work)))


@router.post("/chart")
async def chart(request: Request, session: Asking, body: ChartBody) -> Response:
    """A picture of an answer that was given before. Never charged."""
    question = body.question

    def work() -> dict[str, Any]:
        answer = session.answers(question, only_free=True)[0]
        located = located_by(answer, session.catalog, lambda sql: session.answers(Question(sql), only_free=True)[0])
        kinds, columns = kinds_of(answer, located), columns_of(answer)
        if not kinds and body.kind is None:
            return {"svg": None, "kinds": [], "columns": [], "kind": None}
        made = chart_of(answer, body.kind or kinds[0], body.column or columns[0], located)
        return {"svg": made.svg(), "kinds": kinds, "columns": columns, "kind": body.kind or kinds[0]}

    return sized(request, json.dumps(await in_thread(request, session, work)).encode(), "application/json")


@router.post("/job-price")
async def job_price(request: Request, session: Asking, body: JobBody) -> Response:
    """What a job would cost and do, in words. Free."""
    wanted = request_of(body.kind, body.request)

    def work() -> dict[str, Any]:
        data, plan = session.data, planned(session, wanted)
        return {"words": str(data.explain(plan)), "budget": data.affordability(plan)}

    return document_response(await in_thread(request, session, work))


def _plain(document: Any) -> Any:
    """A document in which numbers without bound are texts, since JSON lacks them."""
    match document:
        case dict():
            return {key: _plain(value) for key, value in document.items()}
        case list() | tuple():
            return [_plain(value) for value in document]
        case float() if not isfinite(document):
            return str(document)
    return document


_ASK = """
<a class="skip" href="#sql">To the question</a>
<div class="ask">
<aside id="tables" aria-label="Tables"></aside>
<div class="desk">
<form id="question" autocomplete="off">
 <div class="tabs" role="tablist" aria-label="How to ask">
  <button type="button" role="tab" id="tab-sql" aria-controls="by-sql" aria-selected="true">SQL</button>
  <button type="button" role="tab" id="tab-builder" aria-controls="by-builder" aria-selected="false"
   tabindex="-1">Builder</button>
 </div>
 <div id="by-builder" role="tabpanel" aria-labelledby="tab-builder" hidden></div>
 <div id="by-sql" role="tabpanel" aria-labelledby="tab-sql">
  <label for="sql">Question in SQL</label>
  <div class="editor"><pre id="shade" aria-hidden="true"></pre><textarea id="sql" rows="5" spellcheck="false"
   autocapitalize="off" autocomplete="off" role="combobox" aria-expanded="false" aria-autocomplete="list"
   aria-controls="completions" aria-describedby="refusal"></textarea>
   <ul id="completions" role="listbox" aria-label="Completions" hidden></ul></div>
 </div>
 <p id="refusal" class="refusal" role="status"></p>
 <fieldset class="terms"><legend class="hidden">Terms</legend>
  <div class="pay"><label for="epsilon">ε to pay</label><input id="epsilon" inputmode="decimal" maxlength="20">
  <input id="slider" type="range" min="0" max="1000" step="1" aria-label="ε, from little to all that is left"
   aria-describedby="trade"><output id="trade" for="slider epsilon"></output></div>
  <details id="further"><summary>Further terms</summary><div class="fields">
   <label>Error accepted instead of ε
   <input id="error" inputmode="decimal" maxlength="20" placeholder="20 or 5%"></label>
   <label>δ
   <input id="delta" inputmode="decimal" maxlength="20" placeholder="needed to name groups of the data"></label>
   <label>Groups of a person <input id="groups" inputmode="numeric" maxlength="9"></label>
   <label>Rows of a person <input id="rows" inputmode="numeric" maxlength="9"></label>
   <label>Confidence
   <input id="confidence" inputmode="decimal" maxlength="20" placeholder="0.95"></label></div></details>
 </fieldset>
 <div class="act"><button class="main" id="pay" disabled>Ask</button><span class="soft">or Ctrl + Enter</span></div>
</form>
<section id="price" aria-label="Price" aria-live="polite"></section>
<section id="answer" aria-label="Answer" tabindex="-1"></section>
</div></div>
"""
