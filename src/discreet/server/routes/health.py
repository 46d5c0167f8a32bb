"""Whether the server lives, what it is, and what it did: public facts only, without a token."""

import time

import anyio.to_thread
from fastapi import APIRouter, Request, Response

from discreet import __version__
from discreet.errors import DiscreetError, ServerUnavailable
from discreet.server.problems import problem
from discreet.server.routes.callers import service_of
from discreet.server.routes.results import document_response
from discreet.wire import VERSION

router = APIRouter(tags=["health"])

OPEN = frozenset({"/healthz", "/readyz", "/version", "/metrics"})
"""Paths that need no token."""


@router.get("/healthz")
async def healthz() -> Response:
    """Whether the process answers."""
    return document_response({"status": "alive"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """Whether questions can be answered: every ledger can be read, and the server is not stopping."""
    service = service_of(request)
    try:
        if service.closing:
            raise ServerUnavailable("the server is stopping")
        for place in service.places.values():
            if place.left is None:  # a ledger may be held by another program: nobody else waits for it meanwhile
                await anyio.to_thread.run_sync(place.remaining, limiter=request.app.state.ready_limiter)
    except DiscreetError:
        return problem(ServerUnavailable("not ready: a ledger cannot be read, or the server is stopping"), 503)
    return document_response({"status": "ready"})


@router.get("/version")
async def version() -> Response:
    """The version of discreet, and of the documents that it speaks."""
    return document_response({"discreet": __version__, "api": f"v{VERSION}"})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counts for Prometheus: requests by path and status, answers, what is under way. Nothing of what was asked."""
    service = service_of(request)
    lines = [
        "# TYPE discreet_uptime_seconds gauge",
        f"discreet_uptime_seconds {time.monotonic() - service.started:.1f}",
        "# TYPE discreet_under_way gauge",
        f"discreet_under_way {service.busy}",
        "# TYPE discreet_requests_total counter",
        "# TYPE discreet_answers_total counter",
    ]
    for what, count in sorted(service.counts.items()):
        match what:
            case ("requests", method, path, status):
                lines.append(f'discreet_requests_total{{method="{method}",path="{path}",status="{status}"}} {count}')
            case ("answers", kind):
                lines.append(f'discreet_answers_total{{kind="{kind}"}} {count}')
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")
