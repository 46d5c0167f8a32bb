"""The gallery of attacks, open to everybody: one question a page, played step by step, with an ε to turn.

Each exhibit runs once, on generated people, and is remembered. Only so many values of ε can be chosen, and one attack
runs at a time, so that visitors cannot keep the server busy.
"""

import threading
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response

from discreet.errors import InvalidParameter
from discreet.report import Facts, Grid, Part, Text, Tiles
from discreet.report.page import render
from discreet.server.console.page_shell import PageRefused, page
from discreet.server.problems import Refused
from discreet.server.routes.results import document_response

if TYPE_CHECKING:
    from discreet.attacks import AttackReport
    from discreet.gallery import Exhibit

router = APIRouter(prefix="/gallery", tags=["console"], include_in_schema=False)

OPEN = frozenset({"/gallery", "/gallery/{name}", "/gallery/{name}/steps", "/gallery/{name}/dial/{place}"})
"""Paths that need no token."""

EPSILONS = ("0.01", "0.05", "0.1", "0.5", "1", "2", "5", "10")
"""The values of ε that a visitor can turn to."""

_SEED = 2026
_ONE = threading.Lock()
_STEPS: dict[str, dict[str, Any]] = {}
_DIALS: dict[tuple[str, int], dict[str, Any]] = {}


@router.get("")
def gallery_page() -> Response:
    """Every exhibit: a question each."""
    from discreet.gallery import EXHIBITS  # a quarter of what the server would import before it can listen
    from discreet.gallery.stories import STORIES

    items = "".join(
        f'<li><a href="/gallery/{escape(exhibit.name)}">{escape(STORIES[exhibit.name].question)}</a><p class="soft">'
        f"{escape(exhibit.words)}.</p></li>"
        for exhibit in EXHIBITS
    )
    lead = "What falls, and what holds: every attack runs here on generated people, beside what guessing finds."
    return page("The gallery of attacks", f'<ul class="exhibits">{items}</ul>', lead=lead, wide=True)


@router.get("/{name}")
def exhibit_page(name: str) -> Response:
    """One question, to be played step by step."""
    from discreet.gallery import EXHIBITS
    from discreet.gallery.harm import DIALS
    from discreet.gallery.stories import STORIES

    try:
        exhibit = _named(name)
    except Refused as refused:
        raise PageRefused(refused) from None
    dial = _DIAL.format(words=_TURNS.get(name, _TURN)) if name in DIALS else ""
    place = EXHIBITS.index(exhibit)
    further = EXHIBITS[(place + 1) % len(EXHIBITS)]
    body = (
        f'<div id="exhibit" data-name="{escape(name)}" data-epsilons="{" ".join(EPSILONS)}">{_told(name)}</div>'
        f'<div class="steps"><button type="button" class="main" id="next">Next step</button>'
        f'<span id="where" class="soft"></span></div>{dial}'
        '<p><a href="/gallery">All questions</a> · next: '
        f'<a href="/gallery/{further.name}">{escape(STORIES[further.name].question)}</a></p>'
    )
    return page(STORIES[name].question, body, script="gallery.js", lead=f"{exhibit.words}.", wide=True)


@router.get("/{name}/steps")
async def steps(request: Request, name: str) -> Response:
    """What the attack finds, step by step."""

    def work() -> dict[str, Any]:
        exhibit = _named(name)
        with _ONE:
            if name not in _STEPS:
                _STEPS[name] = {"steps": _played(exhibit)}
            return _STEPS[name]

    return document_response(await anyio.to_thread.run_sync(work, limiter=_limiter(request)))


@router.get("/{name}/dial/{place}")
async def dial(request: Request, name: str, place: int) -> Response:
    """What the attack finds against answers at one of the values of ε."""

    def work() -> dict[str, Any]:
        from discreet.gallery.harm import DIALS

        _named(name)
        if name not in DIALS or not 0 <= place < len(EPSILONS):
            raise Refused(InvalidParameter("dial", name, f"one of {', '.join(DIALS)}, and a place of an ε"), 404)
        with _ONE:
            if (name, place) not in _DIALS:
                report = DIALS[name](EPSILONS[place], seed=_SEED)
                _DIALS[name, place] = {"html": _result(report), "verdict": report.verdict}
            return _DIALS[name, place]

    return document_response(await anyio.to_thread.run_sync(work, limiter=_limiter(request)))


def _told(name: str) -> str:
    """The steps before the attack, of which the first is shown."""
    from discreet.gallery.stories import STORIES

    return "".join(
        f'<section class="step" tabindex="-1"{" hidden" if place else ""}><h2>{place + 1}. {escape(heading)}</h2>'
        f"<p>{escape(words)}</p></section>"
        for place, (heading, words) in enumerate(STORIES[name].steps)
    )


def _result(report: "AttackReport") -> str:
    """What an attack found: the verdict, the two shares that decide it, pictures; all numbers for who opens them."""
    parts = report.parts()
    facts = [part for part in parts if isinstance(part, Facts)]
    verdict, *others = [part for part in parts if not isinstance(part, Facts)]
    reference = "guessing" if report.reference is report.baseline else "the same attack on people outside the data"
    tiles = Tiles([
        (f"{100 * report.success.value:.3g} %", f"the attack succeeds: {report.goal}"),
        (f"{100 * report.reference.value:.3g} %", reference),
    ])  # fmt: skip
    return f"{render([verdict, tiles, *others])}<details><summary>All numbers</summary>{render(facts)}</details>"


def _played(exhibit: "Exhibit") -> list[dict[str, str]]:
    finished = exhibit.run(seed=_SEED)
    reports = finished.shown.reports
    made = [{"title": title, "html": _result(report)} for title, report in zip(_titles(reports), reports, strict=True)]
    if finished.shown.more:
        made.append({"title": "A closer look", "html": render(list(finished.shown.more))})
    if reports:
        closing: list[Part] = [_verdicts(reports), Text(_LEGEND)]
        made.append({"title": "What falls, what holds", "html": render(closing)})
    return made


def _verdicts(reports: "Sequence[AttackReport]") -> Grid:
    """What each attack came to, the verdict first, so that it is seen on a phone, too."""
    rows = [
        [title.removeprefix("Against "), report.verdict, *(f"{100 * share.value:.3g} %" for share in shares)]
        for title, report in zip(_titles(reports), reports, strict=True)
        for shares in [(report.success, report.reference)]
    ]
    return Grid(["against", "verdict", "the attack succeeds", "guessing, or on people outside"], rows)


def _titles(reports: "Sequence[AttackReport]") -> list[str]:
    """What each attack is against; where several attacks are against the same, which one it is."""
    against = [report.against for report in reports]
    return [
        f"Against {report.against}" + (f": {report.attack}" if against.count(report.against) > 1 else "")
        for report in reports
    ]


def _limiter(request: Request) -> anyio.CapacityLimiter:
    """At most a few visitors wait for an attack at a time; the others wait for them."""
    state = request.app.state
    if not hasattr(state, "gallery_limiter"):
        state.gallery_limiter = anyio.CapacityLimiter(4)
    limiter: anyio.CapacityLimiter = state.gallery_limiter
    return limiter


def _named(name: str) -> "Exhibit":
    from discreet.gallery import EXHIBITS

    for exhibit in EXHIBITS:
        if exhibit.name == name:
            return exhibit
    raise Refused(InvalidParameter("exhibit", name, f"one of {', '.join(exhibit.name for exhibit in EXHIBITS)}"), 404)


_LEGEND = (
    "falls: the attack succeeds clearly more often than guessing, and than the same attack on people outside the "
    "data. leaks: it does, but on few people. holds: it does not, within the tolerance. undecided: there were too few "
    "people to say, or not all of them could be read."
)

_TURN = "Turn it up, and see when the attack begins to work."
_TURNS = {
    "guessing": "Turn it up, and see how often the best guess is right, and how often the bound lets it be.",
    "harm": "Turn it: what is learned about everybody is learned at almost any ε, whether you take part or not.",
}

_DIAL = """<h2>Turn ε</h2><p>ε limits what all answers together reveal. {words}</p>
<div class="dial"><label for="turn">ε</label><input id="turn" type="range" min="0" max="7" step="1" value="4">
<output id="turned" for="turn">1</output></div><div id="dialed" aria-live="polite"></div>"""
