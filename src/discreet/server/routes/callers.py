"""Who calls: the token of a request, and the session that a route asks for by naming a right."""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from fastapi import Request, Response
from fastapi.routing import APIRoute

from discreet.errors import AccessDenied, ServerUnavailable
from discreet.server.access import Right
from discreet.server.browser_sessions import browser_tokens
from discreet.server.problems import Refused
from discreet.server.service import Service, Throttled, UnknownDataset
from discreet.server.session import Session
from discreet.server.tokens import Token

Result = TypeVar("Result")
Caller = Callable[..., Coroutine[Any, Any, Session]]

_CHALLENGE = {"www-authenticate": 'Bearer realm="discreet"'}


def service_of(request: Request) -> Service:
    """The service behind a request."""
    service: Service = request.app.state.service
    return service


async def tokens_of(request: Request) -> dict[str, Token]:
    """What the token of a request opens, by dataset; of a browser that is signed in, what its session opens."""
    scheme, _, text = request.headers.get("authorization", "").partition(" ")
    if not scheme and (known := browser_tokens(request)):
        return _remember(request, known)
    if scheme.lower() != "bearer" or not text:
        refusal = AccessDenied("a token is needed: send the header Authorization: Bearer TOKEN")
        raise Refused(refusal, 401, **_CHALLENGE)
    address = request.client.host if request.client else ""
    try:
        tokens = service_of(request).tokens(text.strip(), address)
    except Throttled as refusal:
        raise throttled(refusal) from None
    except AccessDenied as refusal:
        raise Refused(refusal, 401, **_CHALLENGE) from None
    return _remember(request, tokens)


def _remember(request: Request, tokens: dict[str, Token]) -> dict[str, Token]:
    request.state.token = next(iter(tokens.values()))
    request.state.caller = request.state.token.id
    return tokens


def allowed(right: Right) -> Caller:
    """A dependency of a route: the session of the caller with the dataset of the path, if the role has the right."""

    async def session(request: Request) -> Session:
        known = getattr(request.state, "session", None)
        return known if isinstance(known, Session) else await _session(request, right)

    session.right = right  # type: ignore[attr-defined]
    return session


async def _session(request: Request, right: Right) -> Session:
    tokens = await tokens_of(request)
    try:
        return service_of(request).session(tokens, request.path_params["dataset"], right)
    except UnknownDataset as refusal:
        raise Refused(refusal, 404) from None


class Guarded(APIRoute):
    """A route that knows its caller before it reads the body: strangers are refused first.

    An endpoint may have a `repeated(request, session)`, which answers what it has seen before, or returns None.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What handles a request, after the caller was found to have the right that the route names."""
        handle = super().get_route_handler()
        rights = [getattr(dependency.call, "right", None) for dependency in self.dependant.dependencies]
        needed = next((right for right in rights if right is not None), None)

        async def guarded(request: Request) -> Response:
            if needed is not None:
                request.state.session = await _session(request, needed)
                repeated = getattr(self.endpoint, "repeated", None)
                if repeated is not None and (known := await repeated(request, request.state.session)) is not None:
                    response: Response = known
                    return response
            return await handle(request)

        return guarded


async def in_thread(request: Request, session: Session, work: Callable[[], Result]) -> Result:
    """The result of work that may take a while, in a thread of its own, within the limits of the server.

    Who waits too long is told so; the work goes on, since it may be charged. The token is looked at once more when the
    work begins: a body may come long after the head that named it.
    """
    service = service_of(request)

    def checked() -> Result:
        require_still_valid(session)
        return work()

    try:
        with service.work(session.token):
            with anyio.move_on_after(service.limits.seconds):
                return await anyio.to_thread.run_sync(
                    checked, abandon_on_cancel=True, limiter=request.app.state.limiter
                )
    except Throttled as refusal:
        raise throttled(refusal) from None
    words = f"there is no answer yet after {service.limits.seconds:g} s; ask the same again: it is not charged twice"
    raise Refused(ServerUnavailable(words), 503, **{"retry-after": "5"})


def require_still_valid(session: Session) -> None:
    """Refuse a token that was revoked or has expired since the request began."""
    try:
        session.check_still_valid()
    except AccessDenied as refusal:
        raise Refused(refusal, 401, **_CHALLENGE) from None


def throttled(refusal: Throttled) -> Refused:
    """The refusal of a caller who asked too often, with the time to wait."""
    return Refused(refusal, 429, **{"retry-after": str(max(1, round(refusal.wait)))})
