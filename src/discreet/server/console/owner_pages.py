"""What an owner sees: the budget over time and by analyst, the record, people, what bounds drop, the statement."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from html import escape
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from discreet.curator.owner.exact_view import exact_view
from discreet.curator.owner.findings import READ_OFF, WARNING, OwnerView, TableView
from discreet.curator.reports.budget_report import budget_chart, entries_of, spending_chart
from discreet.curator.reports.statement_sections import privacy_statement
from discreet.curator.settings import Allowance
from discreet.report import Bars, Chart, Grid, Heading, Html, Part, Text, Tiles
from discreet.report.page import render, shown
from discreet.server.access import RIGHTS, Right
from discreet.server.console.page_shell import ConsoleRoute, are_years, counted, page, visiting
from discreet.server.routes.callers import in_thread
from discreet.server.session import Session

router = APIRouter(
    prefix="/console/datasets/{dataset}", tags=["console"], include_in_schema=False, route_class=ConsoleRoute
)

_ROWS = 500


@router.get("/budget")
async def budget_page(request: Request, session: Annotated[Session, Depends(visiting(Right.BUDGET))]) -> Response:
    """What was spent and is left; an analyst sees no other analyst."""

    def work() -> list[Part]:
        report = session.budget()
        tiles = Tiles([
            (f"ε {shown(float(report.epsilon))}", "granted for everything that is ever released"),
            (f"ε {shown(report.spent)}", "spent, rounded up"),
            (f"ε {shown(report.remaining)}", "left: what one more release may cost"),
            (shown(report.charges), "charges"),
        ])  # fmt: skip
        rows = [
            [row.analyst, shown(row.spent), shown(row.charges), "–" if row.cap is None else row.cap.describe_limit(),
             "–" if row.left is None else shown(row.left)]
            for row in report.analysts
        ]  # fmt: skip
        parts: list[Part] = [tiles]
        if session.token.role in RIGHTS[Right.LEDGER]:
            place = session.place
            entries = list(entries_of(place.policy, place.ledger, None))
            parts += [spending_chart(entries)] if len(entries) > 1 else []
        parts.append(budget_chart(report))
        parts += [Grid(["analyst", "spent ε", "charges", "cap", "left ε"], rows)] if rows else []
        empty = '<p class="empty">Nothing was spent yet. What each answer costs is shown here, over time.</p>'
        return parts if report.charges else [parts[0], Html(empty), *parts[1:]]

    parts = await in_thread(request, session, work)
    return page("Budget", parts, session=session, current="/budget")


@router.get("/ledger")
async def ledger_page(request: Request, session: Annotated[Session, Depends(visiting(Right.LEDGER))]) -> Response:
    """The record: every row, and whether the chain is whole."""
    place = session.place
    entries = await in_thread(request, session, lambda: list(entries_of(place.policy, place.ledger, None)))
    rows = [
        [entry.row.number, entry.row.when[:19].replace("T", " "), entry.row.who or "–", entry.row.kind,
         None if entry.epsilon is None else entry.epsilon, entry.total, entry.what(texts=True)]
        for entry in reversed(entries[-_ROWS:])
    ]  # fmt: skip
    parts: list[Part] = [
        Html(
            '<div class="act"><button type="button" class="main" id="verify">Verify the chain</button></div>'
            '<div id="verdict" aria-live="polite"></div>'
        ),
        Html('<div class="ledger">'),
        Grid(
            ["row", "when (UTC)", "who", "kind", "ε", "total ε", "what"],
            rows,
            f"{counted(len(entries), 'row')}, newest first",
        ),
        Html("</div>"),
    ]
    lead = "Who was charged for what, and what the owner changed. No row can be changed or taken out unnoticed."
    return page("Ledger", parts, session=session, current="/ledger", script="owner.js", lead=lead, wide=True)


@router.get("/tokens")
async def tokens_page(session: Annotated[Session, Depends(visiting(Right.TOKENS))]) -> Response:
    """Who may come in."""
    now, name = datetime.now(UTC), session.place.policy.file
    rows = []
    for token in session.place.tokens.all():
        state, until = token.state(now), "–" if token.expires is None else token.expires.strftime("%Y-%m-%d %H:%M")
        act = (
            f'<button type="button" class="danger" data-revoke="{escape(token.id)}" '
            f'aria-label="Revoke the token of {escape(token.name)}">Revoke</button>'
            if state == "valid"
            else ""
        )
        first = [token.name, token.role, state]
        spends = _allowance(token.allowance) if token.role in RIGHTS[Right.ASK] else "–"
        then = [spends, token.created.strftime("%Y-%m-%d"), until, token.id]
        made = ["".join(f"<td class=whole>{escape(cell)}</td>" for cell in cells) for cells in (first, then)]
        rows.append(f"<tr>{made[0]}<td>{act}</td>{made[1]}</tr>")
    head = "".join(
        f"<th scope=col>{words}</th>" for words in ("name", "role", "state", "", "may spend", "made", "until", "id")
    )
    file = "POLICY" if name is None else name.name
    body = (
        f'<div class="wide"><table class="grid"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        '<p id="remark" class="refusal" role="status" tabindex="-1"></p><h2>Let somebody in</h2>'
        "<p>A token is made on the server, where it is printed once, and given to that person alone:</p>"
        f"<pre>discreet token create {escape(file)} NAME --role analyst --epsilon 1 --expires 90d</pre>"
    )
    lead = (
        "A token says who somebody is and in which role. It may limit what they spend, beside the caps of the policy. "
        "Revoking one works at once."
    )
    return page("People", body, session=session, current="/tokens", script="owner.js", lead=lead)


def _allowance(allowance: Allowance) -> str:
    """What a token lets its holder spend, in words.

    >>> from discreet.privacy.budget import Budget
    >>> _allowance(Allowance(None, Budget(epsilon="0.5"))), _allowance(Allowance())
    ('ε 0.5, δ 0 in 24 hours', 'as the policy says')
    """
    limits = [(allowance.total, "in all"), (allowance.daily, "in 24 hours")]
    return ", ".join(f"{limit.describe_limit()} {when}" for limit, when in limits if limit) or "as the policy says"


@router.get("/bounds")
async def bounds_page(
    request: Request,
    session: Annotated[Session, Depends(visiting(Right.EXACT))],
    read: Annotated[bool, Query(description="Read the rows.")] = False,
) -> Response:
    """What bounds leave out of answers, exactly: for the owner's eyes only, and only when asked for."""
    lead = "What bounding and clamping take from answers, counted on the real rows."
    if not read:
        body = (
            '<div class="owner-only"><h2>For the owner’s eyes only</h2>'
            "<p>These numbers are exact: they are not private, "
            "nothing is charged for them, and they must not be published or shown to analysts.</p>"
            '<p><a href="?read=true">Read the rows and show them</a></p></div>'
        )
        return page("What bounds drop", body, session=session, current="/bounds", lead=lead)
    view = await in_thread(request, session, lambda: exact_view(session.place.policy))
    body = f'<div class="owner-only"><h2>Exact: for the owner’s eyes only</h2>{render(_exact_parts(view))}</div>'
    return page("What bounds drop", body, session=session, current="/bounds", lead=lead, wide=True)


def _exact_parts(view: OwnerView) -> list[Part]:
    """The exact view as text, and what it suggests."""
    parts: list[Part] = [Text(" ".join(WARNING.split()))]
    if view.findings:
        rows = [[finding.level, finding.table, finding.column or "–", finding.problem] for finding in view.findings]
        parts += [Heading("Does not fit"), Grid(["level", "table", "column", "problem"], rows)]
    for table in view.tables:
        parts += [Heading(f"Table {table.name}"), *_dropped(table), *_columns(table)]
    if view.suggestions:
        parts += [Heading("Suggestions"), Text(f"They are {READ_OFF}."), *(Text(line) for line in view.suggestions)]
    return parts


def _dropped(table: TableView) -> Iterator[Part]:
    """What bounding leaves out of counts, for each column to group by; and how much people contribute."""
    people = "" if table.units is None else f" of {counted(table.units, 'person', 'people')}"
    without = f"; {counted(table.without_unit, 'row')} without a person" if table.units is not None else ""
    yield Text(f"{counted(table.rows, 'row')}{people}{without}; {counted(table.blank, 'blank row')}.")
    named = [part for part in table.contributions if part.shortfalls]
    if not named:
        return
    names = ["no groups" if part.by is None else f"by {part.by}" for part in named]
    shares = [100 * part.shortfalls[0].share for part in named]
    yield Chart(f"Left out of COUNT(*) of {table.name}", [Bars(names, shares)], y="% of rows, by the policy's bounds")
    rows = []
    for name, part in zip(names, named, strict=True):
        spread = part.rows if part.by is None else part.groups
        counts = [spread.median, spread.at_90, spread.at_99, spread.greatest] if spread else [None] * 4
        least = min(part.shortfalls, key=lambda shortfall: shortfall.share)  # with the smallest bound that does it
        better = least if least.share < part.shortfalls[0].share else None
        words = "–" if better is None else f"{(better.rows if part.by is None else better.groups):,}"
        rows.append([name, *counts, f"{100 * part.shortfalls[0].share:.3g} %", words,
                     "–" if better is None else f"{100 * better.share:.3g} %"])  # fmt: skip
    header = ["grouped", "median", "90 %", "99 %", "most", "left out", "a bound of", "would leave out"]
    yield Grid(header, rows, "rows a person has, or groups a person is in; and what bounding leaves out of a count")


def _columns(table: TableView) -> Iterator[Part]:
    """How the values of each column compare with its declaration, in rows; and those that were not declared."""
    names = ["null", "unreadable", "not_a_number", "below", "above", "undeclared", "least", "greatest"]
    used = [name for name in names if any(getattr(column, name) is not None for column in table.columns)]
    rows = []
    for column in table.columns:
        cells = {name: _number(getattr(column, name)) for name in used}
        if are_years(column.least, column.greatest):
            cells |= {"least": f"{column.least:.0f}", "greatest": f"{column.greatest:.0f}"}
        rows.append([column.name, *cells.values()])
    yield Grid(["column", *(name.replace("_", " ") for name in used)], rows, "values of each column, in rows")
    for column in table.columns:
        if column.examples:
            words = ", ".join(f"{value!s} ({rows:,})" for value, rows in column.examples)
            yield Text(f"{column.name}, not declared: {words}")
        if column.absent:
            yield Text(f"{column.name}, declared, but in no row: {', '.join(map(str, column.absent))}")


def _number(value: Any) -> Any:
    """An exact decimal as a number, which stands as numbers do."""
    return float(value) if isinstance(value, Decimal | Fraction) else value


@router.get("/statement")
async def statement_page(request: Request, session: Annotated[Session, Depends(visiting(Right.STATEMENT))]) -> Response:
    """The privacy statement: whom is protected, against what, at which ε, and what is not promised."""
    place = session.place
    made = await in_thread(request, session, lambda: privacy_statement(place.data().policy, place.ledger))
    blocks = []
    for section in made.sections:
        points = "".join(f"<li>{_inline(point)}</li>" for point in section.points)
        paragraphs = "".join(map(_paragraph, section.paragraphs))
        blocks.append(f"<h2>{_inline(section.question)}</h2>{paragraphs}" + (f"<ul>{points}</ul>" if points else ""))
    as_of = made.as_of[:16].replace("T", " ")
    lead = f"As of {as_of} UTC. It is written from the policy and the record alone, and may be published."
    return page("Privacy statement", "".join(blocks), session=session, current="/statement", lead=lead)


def _paragraph(text: str) -> str:
    """A paragraph of the statement's Markdown as HTML; a block of code stands as it is.

    >>> _paragraph("```json\\n{}\\n```"), _paragraph("a")
    ('<pre>{}</pre>', '<p>a</p>')
    """
    block = re.fullmatch(r"```\w*\n(.*)\n```", text, re.DOTALL)
    return f"<pre>{escape(block[1])}</pre>" if block else f"<p>{_inline(text)}</p>"


def _inline(text: str) -> str:
    """A line of the statement's Markdown as HTML: code, emphasis, characters behind a backslash.

    >>> _inline("*a* `b` c\\\\_d <e>")
    '<em>a</em> <code>b</code> c_d &lt;e&gt;'
    """
    parts = re.split(r"(`+[^`]*`+|\\.)", text)
    made = []
    for part in parts:
        if part.startswith("`"):
            made.append(f"<code>{escape(part.strip('`').strip())}</code>")
        elif part.startswith("\\"):
            made.append(escape(part[1:]))
        else:
            plain = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", escape(part))
            made.append(re.sub(r"\*([^*]+)\*", r"<em>\1</em>", plain))
    return "".join(made)
