"""What every page of the console has: its head, its way around, its policy for scripts, and its files."""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from starlette.exceptions import HTTPException

from discreet.curator.catalog import Catalog
from discreet.errors import DiscreetError
from discreet.privacy.unit import Neighbors
from discreet.report import Part
from discreet.report.page import STYLE, render, shown
from discreet.server.access import RIGHTS, Right
from discreet.server.problems import Refused, on_http, status_of
from discreet.server.routes.callers import Guarded, allowed
from discreet.server.session import Session
from discreet.server.tokens import Token

SIGN_IN = "/console/sign-in"

SECURITY = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""Pages load scripts and styles of this server alone, and nothing inline."""

_YEARS = (1500, 2200)

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Way:
    """An entry of the way around a dataset: its path, its words, and the right that it takes."""

    path: str
    words: str
    right: Right


WAYS = (
    Way("", "Ask", Right.ASK),
    Way("/schema", "Tables", Right.SCHEMA),
    Way("/history", "History", Right.ASK),
    Way("/make", "Make", Right.ASK),
    Way("/budget", "Budget", Right.BUDGET),
    Way("/ledger", "Ledger", Right.LEDGER),
    Way("/tokens", "People", Right.TOKENS),
    Way("/bounds", "Bounds", Right.EXACT),
    Way("/policy", "New policy", Right.POLICY),
    Way("/surveys", "Surveys", Right.SURVEYS),
    Way("/statement", "Statement", Right.STATEMENT),
)
"""The pages of a dataset, in the order in which they stand on top."""


def page(
    title: str,
    parts: Sequence[Part] | str,
    *,
    session: Session | None = None,
    token: Token | None = None,
    current: str = "",
    script: str = "",
    lead: str = "",
    wide: bool = False,
    status: int = 200,
) -> Response:
    """A page of the console. `current` is the path of its entry in the way around, `script` the module it runs."""
    body = parts if isinstance(parts, str) else render(parts)
    token = token or (session.token if session else None)
    dataset = session.place.name if session else ""
    module = f'<script type="module" src="/console/assets/{script}"></script>' if script else ""
    html = _PAGE.format(
        title=escape(f"{title} · discreet" if title != "discreet" else title),
        heading=escape(title),
        lead=f'<p class="lead">{escape(lead)}</p>' if lead else "",
        who=_who(token),
        ways=_ways(session, current) if session else "",
        wide=" wide-page" if wide else "",
        dataset=escape(dataset),
        name=escape(token.id) if token else "",
        body=body,
        module=module,
    )
    return Response(html, status, SECURITY, media_type="text/html; charset=utf-8")


def dataset_path(name: str, path: str = "") -> str:
    """The address of a page of a dataset.

    >>> dataset_path("a b", "/schema")
    '/console/datasets/a%20b/schema'
    """
    return f"/console/datasets/{quote(name, safe='')}{path}"


def counted(count: int, noun: str, nouns: str = "") -> str:
    """So many of something.

    >>> counted(1, "row"), counted(1200, "person", "people")
    ('1 row', '1\u202f200 people')
    """
    return f"{shown(count)} {noun if count == 1 else nouns or noun + 's'}"


def are_years(*values: Any) -> bool:
    """Whether numbers may be years, which people read without thin spaces.

    >>> are_years(1900, 2025), are_years(1900, 30_000), are_years(None, 2025)
    (True, False, False)
    """
    return all(value is not None and _YEARS[0] <= value < _YEARS[1] and value == int(value) for value in values)


def protection(catalog: Catalog) -> str:
    """Whom the budget of a dataset protects, and what it hides of them, in a sentence."""
    units = list(dict.fromkeys(str(table.unit) for table in catalog.tables.values() if table.private))
    hidden = {
        Neighbors.ADD_OR_REMOVE_ONE: "whether one is in the data at all stays hidden",
        Neighbors.CHANGE_ONE: "what the data say of one stays hidden; how many there are does not",
    }[catalog.neighbors]
    return f"Protects {' and '.join(units)}: {hidden}."


def _who(token: Token | None) -> str:
    if token is None:
        return f'<a href="{SIGN_IN}">Sign in</a>'
    return (
        f'<span class="who">{escape(token.name)}, {escape(token.role)}</span>'
        '<button type="button" class="quiet" data-sign-out>Sign out</button>'
    )


def _ways(session: Session, current: str) -> str:
    name = session.place.name
    entries = []
    for way in WAYS:
        if session.token.role in RIGHTS[way.right]:
            here = ' aria-current="page"' if way.path == current else ""
            entries.append(f'<li><a href="{dataset_path(name, way.path)}"{here}>{escape(way.words)}</a></li>')
    label = f'aria-label="Pages of {escape(name)}"'
    return f'<nav class="ways" {label}><b>{escape(name)}</b><ul>{"".join(entries)}</ul></nav>'


class PageRefused(Exception):
    """A page that is not shown: why, with the status of the refusal."""

    def __init__(self, refused: Refused) -> None:
        super().__init__(str(refused))
        self.refused = refused


async def on_page_refused(request: Request, error: Exception) -> Response:
    """The page that says why another is not shown; the door, where somebody is not signed in."""
    if not isinstance(error, PageRefused):
        raise error
    if error.refused.status == 401:
        return Response(status_code=303, headers={"location": SIGN_IN})
    words = (
        f'<p class="verdict bad"><b>Not shown.</b> {escape(str(error.refused))}</p>'
        '<p><a href="/console">To your datasets</a></p>'
    )
    token = getattr(request.state, "token", None)
    return page("This page is not shown", words, token=token, status=error.refused.status)


async def on_no_page(request: Request, error: Exception) -> Response:
    """The page for a path that a browser opens and that there is not; programs get a problem document."""
    missing = isinstance(error, HTTPException) and error.status_code == 404
    if not missing or "text/html" not in request.headers.get("accept", ""):
        return await on_http(request, error)
    words = (
        '<p>There is no page at this address.</p><p><a href="/console">Console</a> · <a href="/gallery">Gallery</a></p>'
    )
    return page("Not found", words, status=404)


def visiting(right: Right) -> Callable[..., Coroutine[Any, Any, Session]]:
    """A dependency of a page: the session of whoever looks at it, if the role has the right."""
    session = allowed(right)
    session.page = True  # type: ignore[attr-defined]
    return session


class ConsoleRoute(Guarded):
    """A route of the console, which knows its caller first; a page says why it is not shown, as a page."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request."""
        handle = super().get_route_handler()
        if not any(getattr(dependency.call, "page", False) for dependency in self.dependant.dependencies):
            return handle

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except Refused as refused:
                raise PageRefused(refused) from None
            except DiscreetError as error:
                raise PageRefused(Refused(error, status_of(error))) from None

        return shown


def _assets() -> dict[str, tuple[bytes, str]]:
    folder = files("discreet.server.console").joinpath("assets")
    results = {}
    for file in folder.iterdir():
        kind = _KINDS.get(file.name.rpartition(".")[2])
        if kind is not None:
            results[file.name] = (file.read_bytes(), kind)
    results["report.css"] = (STYLE.encode(), _KINDS["css"])
    return results


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><title>{title}</title>
<link rel="icon" href="/console/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/console/assets/report.css"><link rel="stylesheet" href="/console/assets/console.css">
<script type="module" src="/console/assets/shell.js"></script>{module}</head>
<body class="discreet" data-dataset="{dataset}" data-token="{name}"><a class="skip" href="#main">To the content</a>
<header class="top"><a class="brand" href="/console">discreet</a><a href="/gallery">Gallery</a>
<span class="space"></span>{who}</header>
{ways}<main id="main" class="console{wide}"><h1>{heading}</h1>{lead}
{body}</main></body></html>
"""

ASSETS = _assets()
"""The files of the console by name, as the package carries them."""
