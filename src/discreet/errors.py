"""Every exception that discreet raises on purpose.

::

    DiscreetError
    ├── InvalidInput              (also a ValueError)   something the caller gave cannot be used
    │   ├── InvalidParameter      a public setting: ε, δ, a scale, a sensitivity, a confidence
    │   ├── InvalidData           the values to be released: wrong type, NaN, wrong shape
    │   ├── InvalidChannel        a matrix that is not a channel, a prior that does not fit it
    │   ├── InvalidQuery          a statement that cannot be answered: which part, why, what to write instead
    │   └── NoiseWarning          (also a RuntimeWarning) a warning: what is about to be paid for will be mostly noise
    ├── UnknownLoss               a stored loss of a kind this version does not know: refused, never guessed
    ├── NoGuarantee               the accountant cannot state a finite ε for this loss at this δ
    ├── BudgetExceeded            the budget cannot pay for this loss
    ├── ReleaseFailed             a charged release failed; why is told to the owner only
    ├── EngineUnavailable         the server that has the tables, or a table of it, is not there; for the owner
    ├── NotAccepted               no candidate of a private selection was accepted; what it cost is spent
    ├── LedgerError               the ledger could not do what was asked; nothing that it holds was lost
    │   ├── LedgerUnavailable     its file cannot be opened, locked or written just now
    │   ├── LedgerDamaged         what is stored is not a ledger, or not what was once written
    │   ├── LedgerTooNew          a newer version of discreet wrote it
    │   └── LedgerConflict        it already holds something else under this name
    ├── AccessDenied              a server does not let this caller do that: no token, a wrong one, another role
    ├── ServerUnavailable         a server cannot be reached, is too busy, or answered with something else
    ├── MissingExtra              (also an ImportError) an optional dependency is not installed
    ├── UnsupportedPlatform       this system lacks something that discreet cannot do without
    └── InternalError             discreet broke one of its own promises: please report it

Messages say what was got, what was expected and what to do. They name public settings only, never a
private value: `InvalidData` says "NaN at position 3", not which number stood beside it.
"""

from fractions import Fraction
from pathlib import Path
from traceback import extract_tb, format_exception
from typing import Any


class DiscreetError(Exception):
    """The root: `except DiscreetError` catches everything that discreet raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows: the caller's own line and the words, no frames of the library."""
        package = str(Path(__file__).parent)
        own = [frame for frame in extract_tb(self.__traceback__) if not frame.filename.startswith(package)]
        where = [f"line {own[-1].lineno}: {own[-1].line}"] if own and own[-1].line else []
        return [*where, f"{type(self).__name__}: {self}"]


class InvalidInput(DiscreetError, ValueError):
    """Something the caller gave cannot be used."""


class InvalidParameter(InvalidInput):
    """A public setting (ε, δ, a scale, a sensitivity, …) is outside its range or of the wrong type."""

    def __init__(self, name: str, got: object, expected: str, hint: str = "") -> None:
        self.name, self.got, self.expected, self.hint = name, _short(got), expected, hint
        super().__init__(f"{name}: got {self.got}, expected {expected}" + (f"; {hint}" if hint else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), str(self), self.__dict__)


class InvalidData(InvalidInput):
    """The values to be released have the wrong type or shape, or are not finite."""


class InvalidChannel(InvalidInput):
    """A matrix is not a channel, or a prior, loss, metric or neighbor list does not fit it."""


class InvalidQuery(InvalidInput):
    """A statement cannot be answered; the message points at the part of the text and says what to write instead."""

    def __init__(self, problem: str, hint: str = "", *, text: str = "", start: int | None = None) -> None:
        self.problem, self.hint, self.start = problem, hint, start
        where = "" if start is None else _place(text, start)
        super().__init__(
            where + problem + (f"; {hint}" if hint else "") + ("" if start is None else _line(text, start))
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), str(self), self.__dict__)


class NoiseWarning(InvalidInput, RuntimeWarning):
    """What a fit is about to pay for will be mostly noise. As an error, it refuses the fit, and nothing is spent."""


class UnknownLoss(DiscreetError):
    """A stored loss has a kind or a field that this version does not know."""


class NoGuarantee(DiscreetError):
    """No finite guarantee exists, or can be proven, for this loss at this δ."""


class BudgetExceeded(DiscreetError):
    """The budget cannot pay for this loss; nothing was spent."""


class ReleaseFailed(DiscreetError):
    """A release failed after it was charged. The reason may depend on the data, so only the owner is told it."""


class EngineUnavailable(DiscreetError):
    """The server that has the tables does not answer, or has them no more as they were: told to the owner only.

    It is no function of rows, so the charge of a release that meets it is used up by asking the same again.
    """


class NotAccepted(DiscreetError):
    """No candidate of a private selection was accepted; what it cost is spent."""


class LedgerError(DiscreetError):
    """The ledger could not do what was asked; nothing was acknowledged, and nothing that it holds was lost."""


class LedgerUnavailable(LedgerError):
    """The ledger's file cannot be opened, locked or written just now: full, read-only, missing, busy or closed."""


class LedgerDamaged(LedgerError):
    """What is stored is not a ledger, or is not what was once written: no charge is built on it."""


class LedgerTooNew(LedgerError):
    """A newer version of discreet wrote this ledger; it is refused, never guessed at."""


class LedgerConflict(LedgerError):
    """The ledger already holds something else under this name: an account's settings, an answer, a row."""


class AccessDenied(DiscreetError):
    """A server does not let this caller do that: no token, a wrong or expired one, or a role that may not."""


class ServerUnavailable(DiscreetError):
    """A server cannot be reached, is too busy, or answered with something that is no answer."""


class MissingExtra(DiscreetError, ImportError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        verb = "are" if " and " in package else "is"
        super().__init__(f"{package} {verb} not installed; run: pip install 'discreet[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (type(self), str(self), self.__dict__)


class UnsupportedPlatform(DiscreetError):
    """This system lacks something that discreet cannot do without."""


class InternalError(DiscreetError):
    """discreet broke one of its own promises; the release was stopped."""

    def _render_traceback_(self) -> list[str]:
        """All frames: this is to be reported."""
        return "".join(format_exception(self)).splitlines()


def restored(kind: type[DiscreetError], message: str, fields: dict[str, object]) -> DiscreetError:
    """An exception with its message and fields as they were where another process or machine raised it.

    >>> restored(BudgetExceeded, "nothing is left", {})
    BudgetExceeded('nothing is left')
    """
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(fields)
    return error


def _place(text: str, start: int) -> str:
    before = text[:start]
    return f"line {before.count(chr(10)) + 1}, column {start - before.rfind(chr(10))}: "


def _line(text: str, start: int, width: int = 100) -> str:
    """The line of the text with a mark beneath the place."""
    first = text.rfind("\n", 0, start) + 1
    line = text[first:].split("\n", 1)[0]
    cut = max(0, start - first - width // 2)
    shown = line[cut : cut + width].replace("\t", " ").rstrip("\r")
    return f"\n  {shown}\n  {' ' * (start - first - cut)}^"


def _short(value: object, limit: int = 80) -> str:
    """A repr that fits on a line; long ones lose their middle, since a path is recognized by its end."""
    try:
        text = " ".join((str(value) if isinstance(value, Fraction) else repr(value)).split())
    except Exception:  # a hostile __repr__ must not hide the real message
        text = f"an object of type {type(value).__name__}"
    if len(text) <= limit:
        return text
    tail = limit // 2
    return text[: limit - 1 - tail] + "…" + text[-tail:]
