"""The HTTP server as an application: routes, what every request passes through, and a check that each names a right."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.routing import BaseRoute

from discreet import __version__
from discreet.errors import DiscreetError, InternalError, InvalidParameter
from discreet.server import problems
from discreet.server.access import Right
from discreet.server.browser_sessions import BrowserSessions
from discreet.server.console import (
    analyst_pages,
    gallery_pages,
    make_pages,
    owner_pages,
    policy_pages,
    sign_in,
    survey_pages,
)
from discreet.server.console.page_shell import PageRefused, on_no_page, on_page_refused
from discreet.server.jobs import Jobs
from discreet.server.routes import health, jobs, questions, record, reports, surveys
from discreet.server.service import Service, log
from discreet.server.tokens import random_bytes
from discreet.wire import PROBLEM, problem_document

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN = health.OPEN | surveys.OPEN | sign_in.OPEN | gallery_pages.OPEN
"""Paths that need no token."""

BY_TOKEN = frozenset({"/v1/datasets", "/v1/jobs/{job}", "/v1/jobs/{job}/result"}) | sign_in.BY_TOKEN
"""Paths that tell a caller of what is the caller's own: they look at the token themselves."""

_SMALL = 16_384
"""Bytes of a request that is read however much others send."""

_DROPPED, _DROPPED_SECONDS, _IDLE_SECONDS = 200_000_000, 5.0, 1.0
"""Bytes of a body that is refused which are read all the same, for how long, and how long without any."""

_SAFE_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
]

_FOR_PAGES = [
    (b"access-control-allow-methods", b"GET, POST, DELETE"),
    (b"access-control-allow-headers", b"authorization, content-type, idempotency-key"),
    (b"access-control-max-age", b"600"),
]
"""What a page of another origin may send, which its browser asks first (Fetch Standard, "CORS protocol")."""


def create_app(service: Service, *, origins: Iterable[str] = ()) -> FastAPI:
    """The application over open datasets. `origins`: web pages of other places that may call it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.limiter = anyio.CapacityLimiter(service.limits.threads)
        app.state.ready_limiter = anyio.CapacityLimiter(1)
        app.state.survey_limiter = anyio.CapacityLimiter(2)  # reports are written one after the other anyway
        yield
        service.closing = True
        await anyio.to_thread.run_sync(app.state.jobs.close)

    app = Application(
        title="discreet",
        version=__version__,
        description="Private tables behind a privacy budget: every answer is differentially private and charged.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
    )
    app.state.service, app.state.jobs, app.state.browsers = service, Jobs(service.limits), BrowserSessions()
    console = (sign_in, analyst_pages, make_pages, owner_pages, policy_pages, survey_pages, gallery_pages)
    for module in (health, questions, record, jobs, reports, surveys, *console):
        app.router.routes.extend(module.router.routes)
    app.add_exception_handler(problems.Refused, problems.on_refused)
    app.add_exception_handler(PageRefused, on_page_refused)
    app.add_exception_handler(DiscreetError, problems.on_error)
    app.add_exception_handler(RequestValidationError, problems.on_invalid)
    app.add_exception_handler(HTTPException, on_no_page)
    app.add_exception_handler(Exception, problems.on_failure)
    app.add_middleware(Passage, service=service, origins=tuple(origins))
    for route in app.routes:
        if getattr(route, "path", None) != app.openapi_url:
            right_of(route)
    return app


class Application(FastAPI):
    """The application, whose OpenAPI document says how callers show who they are, and what errors look like."""

    def openapi(self) -> dict[str, Any]:
        """The document of FastAPI, with the token, and with problems in the place of its own form of errors."""
        if self.openapi_schema is None:
            document = super().openapi()
            parts = document["components"]
            parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": _CALLERS}}
            parts["schemas"] = {name: form for name, form in parts["schemas"].items() if "ValidationError" not in name}
            parts["schemas"]["Problem"] = _PROBLEM_FORM
            problem = {"description": "An error", "content": {PROBLEM: {"schema": _PROBLEM_REFERENCE}}}
            for path, operations in document["paths"].items():
                for operation in operations.values():
                    operation["responses"].pop("422", None)
                    operation["responses"]["default"] = problem
                    if path not in OPEN:
                        operation["security"] = [{"token": []}]
        return self.openapi_schema or {}


_CALLERS = "A token that the owner of a dataset made (`discreet token create`)."
_PROBLEM_REFERENCE = {"$ref": "#/components/schemas/Problem"}
_PROBLEM_FORM = {
    "title": "Problem",
    "description": "An error (RFC 9457): a stable code, and the words of the command line.",
    "type": "object",
    "required": ["type", "code", "status", "title", "detail"],
    "properties": {name: {"type": "string"} for name in ("type", "code", "title", "detail")}
    | {"status": {"type": "integer"}, "facts": {"type": "object"}},
}


def right_of(route: BaseRoute) -> Right | None:
    """The right that a route asks for; None where it needs no token, or sees to its caller's own things."""
    if not isinstance(route, APIRoute):
        raise InternalError(f"{type(route).__name__} {getattr(route, 'path', '')} is not a route that names a right")
    named = [getattr(dependency.call, "right", None) for dependency in route.dependant.dependencies]
    rights: list[Right] = [right for right in named if right is not None]
    if len(rights) == 1:
        return rights[0]
    if rights or route.path not in OPEN | BY_TOKEN:
        raise InternalError(f"the route {route.path} names {len(rights)} rights; it must name one")
    return None


class Passage:
    """What every request passes through: a size, an origin, headers that are safe, a line in the log."""

    def __init__(self, app: Any, *, service: Service, origins: tuple[str, ...]) -> None:
        self._app, self._service, self._origins = app, service, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        name, start, status = random_bytes(16).hex(), time.monotonic(), 500
        scope.setdefault("state", {})
        headers = dict(scope["headers"])
        shared = self._shared(headers)
        body = _Body(receive, self._service)

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                kept = [header for header in message.get("headers", []) if header[0] != b"cache-control"]
                message["headers"] = [*kept, *_SAFE_HEADERS, *shared, (b"x-request-id", name.encode())]
            await send(message)

        try:
            refusal = self._refusal(headers)
            if refusal is not None:
                if refusal[1] == 413 and b"expect" not in headers:
                    await _read_on(receive)
                await _refuse(sending, *refusal)
            elif shared and scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await sending({"type": "http.response.start", "status": 204, "headers": list(_FOR_PAGES)})
                await sending({"type": "http.response.body", "body": b""})
            else:
                await self._app(scope, body.receive, sending)
        except (problems.TooLarge, problems.TooLate, problems.Crowded) as refused:
            await _refuse(sending, refused.refusal, refused.status_code)
        finally:
            body.forget()
            path = getattr(scope.get("route"), "path", "unknown")
            self._service.count("requests", scope["method"], path, str(status))
            milliseconds = round(1000 * (time.monotonic() - start), 1)
            caller = scope["state"].get("caller", "")
            log(request=name, method=scope["method"], path=path, status=status, ms=milliseconds, token=caller)

    def _refusal(self, headers: dict[bytes, bytes]) -> tuple[DiscreetError, int] | None:
        """Why a request is not looked at, from its headers alone."""
        size = headers.get(b"content-length", b"0")
        if not size.isdigit() or int(size) > self._service.limits.body:
            return problems.TooLarge(self._service.limits.body).refusal, 413
        origin = headers.get(b"origin", b"").decode("latin-1")
        if origin and origin not in self._origins and _host_of(origin) != headers.get(b"host", b""):
            return InvalidParameter("Origin", origin, "a page of this server", "start it with --allow-origin"), 403
        return None

    def _shared(self, headers: dict[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """What tells a browser that a page of an origin that the owner named may read the reply.

        Cookies are not mentioned, so browsers keep them: such a page has a token, or nothing.
        """
        origin = headers.get(b"origin", b"")
        if origin.decode("latin-1") not in self._origins:
            return []
        exposed = b"x-discreet-receipt, x-request-id, retry-after"
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", exposed),
            (b"vary", b"origin"),
        ]


def _host_of(origin: str) -> bytes | None:
    """The host and port that an origin names; None where it is no address."""
    try:
        return urlsplit(origin).netloc.encode()
    except ValueError:
        return None


class _Body:
    """A body as it comes: up to so many bytes, for so long, and while there is room for it beside those of others."""

    def __init__(self, receive: Receive, service: Service) -> None:
        self._receive, self._service = receive, service
        self._size, self._held, self._more = 0, 0, True
        self._end = anyio.current_time() + service.limits.body_seconds

    async def receive(self) -> MutableMapping[str, Any]:
        """The next part of it."""
        if not self._more:
            return await self._receive()  # whether the caller is still there
        limits = self._service.limits
        try:
            with anyio.fail_after(max(0, self._end - anyio.current_time())):
                message = await self._receive()
        except TimeoutError:
            raise problems.TooLate(limits.body_seconds) from None
        self._size, self._more = self._size + len(message.get("body", b"")), bool(message.get("more_body"))
        if self._size > limits.body:
            if self._more:
                await _read_on(self._receive)
            raise problems.TooLarge(limits.body)
        if self._size > _SMALL:
            self._service.held += self._size - self._held
            self._held = self._size
            if self._service.held > limits.bodies:
                raise problems.Crowded
        return message

    def forget(self) -> None:
        """Make room for others."""
        self._service.held -= self._held
        self._held = 0


async def _read_on(receive: Receive) -> None:
    """Read a body that is refused, and drop it: who sends all of it first would not see why a connection is closed."""
    with suppress(TimeoutError), anyio.fail_after(_DROPPED_SECONDS):
        size, more = 0, True
        while more and size < _DROPPED:
            with anyio.fail_after(_IDLE_SECONDS):  # who stopped sending reads
                message = await receive()
            size, more = size + len(message.get("body", b"")), bool(message.get("more_body"))


async def _refuse(send: Send, error: DiscreetError, status: int) -> None:
    response = problems.document(problem_document(error, status=status), status)
    await send({"type": "http.response.start", "status": status, "headers": response.raw_headers})
    await send({"type": "http.response.body", "body": response.body})
