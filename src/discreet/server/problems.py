"""Errors as an HTTP client sees them: a status and a problem document, in the words of the command line."""

import json
import re
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from discreet import errors
from discreet.curator.curator import OWNER
from discreet.errors import DiscreetError
from discreet.wire import PROBLEM, problem_document

_STATUS: dict[type[DiscreetError], int] = {
    errors.InvalidInput: 422,
    errors.BudgetExceeded: 402,
    errors.AccessDenied: 403,
    errors.ReleaseFailed: 500,
    errors.NotAccepted: 409,
    errors.LedgerConflict: 409,
    errors.LedgerUnavailable: 503,
    errors.EngineUnavailable: 503,
    errors.ServerUnavailable: 503,
    errors.UnknownLoss: 422,
    errors.NoGuarantee: 422,
}
"""The status of each kind of error; 500 for those that are not here."""

_WAIT = {429: "1", 503: "1"}


class Refused(Exception):
    """An error with the status and the headers that a route wants for it."""

    def __init__(self, error: DiscreetError, status: int, **headers: str) -> None:
        super().__init__(str(error))
        self.error, self.status, self.headers = error, status, headers


class TooLarge(HTTPException):
    """A body that is larger than the server reads. Frameworks let this through where they read bodies."""

    def __init__(self, most: int) -> None:
        super().__init__(413)
        hint = "the owner can raise --max-body"
        self.refusal = errors.InvalidParameter("body", "a larger one", f"at most {most} bytes", hint)


class TooLate(HTTPException):
    """A body that did not come in time."""

    def __init__(self, seconds: float) -> None:
        super().__init__(408)
        self.refusal = errors.InvalidParameter("body", "a part of it", f"all of it within {seconds:g} s")


class Crowded(HTTPException):
    """A body for which there is no room now, beside those of others."""

    def __init__(self) -> None:
        super().__init__(503, headers={"retry-after": "2"})
        self.refusal = errors.ServerUnavailable("many large requests are under way; nothing was charged; try again")


def status_of(error: DiscreetError) -> int:
    """The status of an error: that of the nearest kind in the table.

    >>> status_of(errors.BudgetExceeded("nothing is left")), status_of(errors.InternalError("broken"))
    (402, 500)
    """
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), 500)


def public(error: DiscreetError) -> DiscreetError:
    """An error as callers may see it: of the ledger and of the database of the rows, only that they cannot be used.

    >>> str(public(errors.LedgerUnavailable("the ledger /srv/clinic.ledger cannot grow")))[:60]
    'the ledger cannot be used now, and what was asked is not ans'
    """
    if isinstance(error, errors.EngineUnavailable):
        OWNER.error("%s", error)
        return errors.EngineUnavailable("the data cannot be reached now; try again later, or tell the owner")
    if not isinstance(error, errors.LedgerError) or isinstance(error, errors.LedgerConflict):
        return error
    OWNER.error("%s", error)
    words = (
        "the ledger cannot be used now, and what was asked is not answered, though it may have been charged; "
        "try again later, or tell the owner, whose log says why"
    )
    return errors.LedgerUnavailable(words)


def problem(error: DiscreetError, status: int | None = None, **headers: str) -> Response:
    """The response that tells an error."""
    error = public(error)
    code = status or status_of(error)
    waiting = {"retry-after": _WAIT[code]} if code in _WAIT else {}
    return document(problem_document(error, status=code), code, **(waiting | headers))


def document(content: dict[str, Any], status: int, **headers: str) -> Response:
    """A problem document as a response."""
    text = json.dumps(content, ensure_ascii=False)
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, media_type=PROBLEM)


async def on_refused(_: Request, refused: Exception) -> Response:
    """The response to what a route refused."""
    if not isinstance(refused, Refused):
        raise refused
    return problem(refused.error, refused.status, **refused.headers)


async def on_error(_: Request, error: Exception) -> Response:
    """The response to an error of discreet."""
    if not isinstance(error, DiscreetError):
        raise error
    return problem(error)


async def on_invalid(request: Request, error: Exception) -> Response:
    """The response to a request that does not fit its schema: where, and what was expected; no value is repeated."""
    if not isinstance(error, RequestValidationError):
        raise error
    first, *others = error.errors()
    kind, place = first["type"], tuple(first["loc"][:2])
    if kind == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", "")).rstrip(".")
        refusal = errors.InvalidParameter("body", f"{reason} at character {place[-1]}", "a document of JSON")
        return problem(refusal, 400)
    where = str(place[1]) if len(place) > 1 else "the body"
    hint = "see /openapi.json"
    if where == "the body" and not request.headers.get("content-type", "").startswith("application/json"):
        hint = f"send the header Content-Type: application/json; {hint}"
    got = {"missing": "nothing", "extra_forbidden": "a field that nobody knows"}.get(kind, "something else")
    alternatives = [entry for entry in (first, *others) if tuple(entry["loc"][:2]) == place]
    words = dict.fromkeys(
        re.sub("^(Input|String|Value) should (be|have) ", "", str(one["msg"])) for one in alternatives
    )
    stated = {"missing": "a value", "extra_forbidden": "the fields that are documented"}
    expected = stated.get(kind, ", or ".join(words))
    return problem(errors.InvalidParameter(where, got, expected, hint), 422)


async def on_http(_: Request, error: Exception) -> Response:
    """The response to what the framework refuses: no such path, no such method."""
    if not isinstance(error, HTTPException):
        raise error
    if error.status_code == 400:  # bytes that are no text, or texts that are nested too deep
        refusal = errors.InvalidParameter("body", "something else", "a document of JSON", "see /openapi.json")
        return problem(refusal, 400)
    if isinstance(error, TooLarge | TooLate | Crowded):
        return problem(error.refusal, error.status_code)
    code = {404: "no-such-path", 405: "no-such-method", 413: "too-large"}.get(error.status_code, "refused")
    words = {404: "there is no such path; see /openapi.json", 405: "this path has no such method; see /openapi.json"}
    content = {"type": f"urn:discreet:problem:{code}", "code": code, "status": error.status_code}
    detail = words.get(error.status_code, str(error.detail))
    return document(content | {"title": detail, "detail": detail}, error.status_code, **dict(error.headers or {}))


async def on_failure(_: Request, error: Exception) -> Response:
    """The response to anything else: nothing of it is told."""
    OWNER.error("a request failed", exc_info=error)
    return problem(errors.InternalError("the server failed; its owner finds the reason in the log"), 500)
