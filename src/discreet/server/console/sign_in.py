"""The door of the console: signing in with a token, signing out, the datasets that are open, and files of pages."""

from html import escape
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException

from discreet.errors import AccessDenied
from discreet.report.page import shown
from discreet.server.access import RIGHTS, Right
from discreet.server.browser_sessions import (
    BrowserSessions,
    browser_tokens,
    check_origin,
    cookie_name,
    set_cookie,
)
from discreet.server.console.page_shell import ASSETS, SECURITY, SIGN_IN, PageRefused, dataset_path, page, protection
from discreet.server.problems import Refused
from discreet.server.routes.callers import service_of, throttled, tokens_of
from discreet.server.service import Throttled
from discreet.server.session import Session
from discreet.server.tokens import Token

router = APIRouter(tags=["console"], include_in_schema=False)

OPEN = frozenset({"/", SIGN_IN, "/console/sign-out", "/console/assets/{name}"})
"""Paths that need no token."""

BY_TOKEN = frozenset({"/console"})
"""Paths that show a caller what is the caller's own."""


class SignInBody(BaseModel):
    """What somebody types at the door."""

    model_config = ConfigDict(extra="forbid")

    token: str = Field(max_length=200)


@router.get("/")
async def root() -> Response:
    """The way to the console."""
    return Response(status_code=303, headers={"location": "/console"})


@router.get(SIGN_IN)
async def door(request: Request) -> Response:
    """The page that asks for a token."""
    if browser_tokens(request):
        return Response(status_code=303, headers={"location": "/console"})
    return page("Sign in", _DOOR, script="sign_in.js")


@router.post(SIGN_IN)
async def sign_in(request: Request, body: SignInBody) -> Response:
    """Begin a session for the holder of a token. Wrong ones are throttled, as everywhere."""
    check_origin(request)
    address = request.client.host if request.client else ""
    try:
        tokens = service_of(request).tokens(body.token.strip(), address)
    except Throttled as refusal:
        raise throttled(refusal) from None
    except AccessDenied as refusal:
        raise Refused(refusal, 403) from None
    _end(request)
    request.state.caller = next(iter(tokens.values())).id
    response = Response(status_code=204)
    set_cookie(request, response, _sessions(request).begin({name: token.id for name, token in tokens.items()}))
    return response


@router.post("/console/sign-out")
async def sign_out(request: Request) -> Response:
    """End the session."""
    check_origin(request)
    _end(request)
    response = Response(status_code=204, headers={"clear-site-data": '"storage"'})
    response.delete_cookie(cookie_name(request), path="/", httponly=True, samesite="strict")
    return response


@router.get("/console/assets/{name}")
async def asset(name: str) -> Response:
    """A script or a style of the pages."""
    if name not in ASSETS:
        raise HTTPException(404)
    content, kind = ASSETS[name]
    return Response(content, headers=SECURITY, media_type=kind)


async def _own(request: Request) -> dict[str, Token]:
    try:
        return await tokens_of(request)
    except Refused as refused:
        raise PageRefused(refused) from None


@router.get("/console")
async def datasets(request: Request, tokens: Annotated[dict[str, Token], Depends(_own)]) -> Response:
    """The datasets that a token opens, with what is left of each."""
    cards = [_card(Session(service_of(request).places[name], token)) for name, token in sorted(tokens.items())]
    lead = "What you may ask about. Every answer is noisy, has error bars, and is paid for out of a budget."
    return page("Datasets", "".join(cards), token=next(iter(tokens.values())), lead=lead, script="shell.js")


def _card(session: Session) -> str:
    name, role = session.place.name, session.token.role
    catalog = session.catalog
    first = next((way for way, right in _FIRST if role in RIGHTS[right]), "/schema")
    tables = ", ".join(table.name for table in catalog.tables.values())
    meter_ = meter(session) if role in RIGHTS[Right.BUDGET] else ""
    return (
        f'<article class="card"><h2><a href="{dataset_path(name, first)}">{escape(name)}</a></h2>'
        f"<p>{escape(tables)}. {escape(protection(catalog))}</p>{meter_}</article>"
    )


_FIRST = (("", Right.ASK), ("/surveys", Right.SURVEYS))


def meter(session: Session) -> str:
    """What is left for the caller, as a meter."""
    report = session.budget()
    own = next((row for row in report.analysts if row.analyst == session.token.name and row.left is not None), None)
    total, left = float(report.epsilon), report.remaining
    if own is not None and own.cap is not None and own.left is not None and own.left < left:
        total, left = float(own.cap.epsilon), own.left
    words = f"ε {shown(float(left))} of {shown(total)} left for you"
    return (
        f'<div class="meter"><meter min="0" max="{total:.6g}" value="{left:.6g}" low="{total / 4:.6g}" '
        f'optimum="{total:.6g}" aria-label="{escape(words)}"></meter><span>{escape(words)}</span></div>'
    )


def _sessions(request: Request) -> BrowserSessions:
    sessions: BrowserSessions = request.app.state.browsers
    return sessions


def _end(request: Request) -> None:
    if cookie := request.cookies.get(cookie_name(request)):
        _sessions(request).end(cookie)


_DOOR = """
<p class="lead">Private tables behind a privacy budget. Ask, see the error before you pay, and keep the receipt.</p>
<form id="door" class="narrow" autocomplete="off"><label for="token">Your token</label>
<input id="token" name="token" type="password" required maxlength="200" autocomplete="off" spellcheck="false"
 aria-describedby="where refusal" placeholder="discreet_…">
<p id="where" class="soft">The owner of the data makes one with <code>discreet token create</code>. It is sent once; a
cookie that no script can read stands for it afterwards.</p>
<p id="refusal" class="refusal" role="alert"></p>
<button class="main">Sign in</button></form>
<p>No token? <a href="/gallery">The gallery of attacks</a> is open to everybody.</p>
<noscript><p class="verdict bad"><b>Scripts are off.</b> The console needs the scripts of this server.</p></noscript>
"""
