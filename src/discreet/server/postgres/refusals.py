"""Errors and notices as PostgreSQL's clients see them: SQLSTATE, position, hint, in the words of our refusals."""

from discreet import errors
from discreet.curator.curator import OWNER
from discreet.errors import DiscreetError, InvalidParameter, InvalidQuery
from discreet.server.problems import public
from discreet.server.service import Throttled
from discreet.server.tokens import without_tokens

_STATES: dict[type[BaseException], str] = {
    InvalidQuery: "42000",
    InvalidParameter: "22023",
    errors.InvalidInput: "22000",
    errors.BudgetExceeded: "53400",
    errors.AccessDenied: "42501",
    errors.ReleaseFailed: "58000",
    errors.NotAccepted: "P0002",
    errors.LedgerConflict: "40001",
    errors.LedgerUnavailable: "57P03",
    errors.EngineUnavailable: "57P03",
    errors.ServerUnavailable: "57P03",
    Throttled: "53300",
    errors.NoGuarantee: "22023",
    errors.UnknownLoss: "0A000",
    errors.InternalError: "XX000",
}
_PROBLEMS = (
    ("not SQL", "42601"),
    ("there is no table", "42P01"),
    ("there is no column", "42703"),
    ("canceled", "57014"),
    ("cached plan must not change result type", "0A000"),
    ("this would give out private rows", "42501"),
)


def sqlstate(error: BaseException) -> str:
    """The five letters of an error.

    >>> sqlstate(errors.BudgetExceeded("nothing is left")), sqlstate(InvalidQuery("not SQL at 'x'"))
    ('53400', '42601')
    """
    if isinstance(error, InvalidQuery):
        for start, state in _PROBLEMS:
            if error.problem.startswith(start):
                return state
    return next((_STATES[kind] for kind in type(error).__mro__ if kind in _STATES), "XX000")


def error_fields(error: BaseException, start: int = 0) -> dict[str, str]:
    """The fields of an error, as HTTP tells it.

    Guarantee: of a failure, of the ledger and of the database of the rows, nothing is told but to the owner's log.
    """
    if not isinstance(error, DiscreetError):
        OWNER.error("a statement failed", exc_info=error)
        words = "the server failed; its owner finds the reason in the log"
        return _fields("ERROR", "XX000", words)
    error = public(error)
    message, hint, position = str(error), "", ""
    if isinstance(error, InvalidQuery):
        message, hint = error.problem, error.hint
        if error.start is not None:
            position = str(start + error.start + 1)
    elif isinstance(error, InvalidParameter):
        message, hint = f"{error.name}: got {error.got}, expected {error.expected}", error.hint
    state = sqlstate(error)
    routine = "RevalidateCachedQuery" if state == "0A000" else ""  # by which JDBC knows that it must prepare anew
    return _fields("ERROR", state, message) | {"H": without_tokens(hint), "P": position, "R": routine}


def fatal(state: str, words: str) -> dict[str, str]:
    """The fields of an error that ends the connection."""
    return _fields("FATAL", state, words)


def notice_fields(words: str, detail: str) -> dict[str, str]:
    """The fields of a notice."""
    return _fields("NOTICE", "00000", words) | {"D": detail}


def _fields(severity: str, state: str, message: str) -> dict[str, str]:
    return {"S": severity, "V": severity, "C": state, "M": without_tokens(message)}
