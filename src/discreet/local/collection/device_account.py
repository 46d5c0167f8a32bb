"""A person's own account, kept on their device: what was sent for them, when, and what it cost.

The account is one small file of JSON lines: a heading with the total ε that the person allows, then one line for each
report. A report is written down before it is sent, so a crash may write down what never left, but nothing leaves that
is not written down. A loss that would pass the total is refused with `BudgetExceeded`, and then nothing is sent.

>>> import tempfile
>>> from pathlib import Path
>>> from discreet.local.collection.device_account import DeviceAccount
>>> from discreet.privacy.loss import Pure
>>> account = DeviceAccount(Path(tempfile.mkdtemp()) / "mine.jsonl", epsilon=2)
>>> account.charge(Pure("0.5"), survey="commute", sent=3, when="2026-11-16T08:00:00+00:00").words()
"2026-11-16 08:00 UTC: to survey 'commute' was sent 3, which cost ε = 0.5"
>>> account.spent, account.left
(Fraction(1, 2), Fraction(3, 2))
"""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from discreet import durable
from discreet.errors import (
    BudgetExceeded,
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
    LedgerUnavailable,
    NoGuarantee,
    UnknownLoss,
)
from discreet.exact import Number, integer, plain, rational, text_down, text_up
from discreet.privacy.accounting.composition import pure
from discreet.privacy.loss import Loss, Together, from_json, to_json

_FORMAT, _VERSION = "discreet device account", 1
_PATIENCE = 10.0  # seconds to wait for another process
_MOST_BYTES = 1 << 26
_MOST_SENT = 1 << 16  # characters of one report


@dataclass(frozen=True, slots=True)
class SentReport:
    """One report that was sent: to which survey, when, what, and at what cost."""

    when: datetime
    survey: str
    sent: Any
    loss: Loss

    @property
    def epsilon(self) -> Fraction:
        """What it cost."""
        return pure(self.loss)

    def words(self) -> str:
        """One sentence for the person."""
        what = json.dumps(self.sent, ensure_ascii=False)
        shown = what if len(what) <= 60 else what[:59] + "…"
        return (
            f"{self.when:%Y-%m-%d %H:%M} UTC: to survey {self.survey!r} was sent {shown}, "
            f"which cost ε = {_short(self.epsilon)}"
        )


@dataclass(frozen=True, slots=True, init=False)
class DeviceAccount:
    """The account of one person in one file.

    Guarantee: everything charged here together is ε-DP for the person, ε the stated total, whoever asked and in
    whatever order, also if each question depends on the answers before.
    Proof. Pure ε's add up under adaptive composition, and a sum that stops before it passes a fixed limit is a
    privacy filter (Rogers, Roth, Ullman, Vadhan 2016, the basic filter). One process at a time reads the file, checks
    the sum and replaces the file (rename is atomic, after both file and folder are on disk); the lock vanishes with
    its process. A file that cannot be read to the last field stops everything.

    The first use makes the file; later ones must state the same total: a person raises it by `raise_to`.
    """

    path: Path
    epsilon: Fraction

    def __init__(self, path: str | Path, *, epsilon: Number) -> None:
        object.__setattr__(self, "path", Path(path))
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", above=0))
        with locked(self.path):
            if not self.path.exists():
                write(self.path, _text(self.epsilon, []))
            self._read()

    def charge(
        self, loss: Loss, *, survey: str, sent: Any, times: int | None = None, when: str | datetime | None = None
    ) -> SentReport:
        """Write down a report and its cost, durably; only then may it be sent. Refused if the total would be passed.

        `sent` is the randomized report: a number, a text, or lists of them; never the truthful answer. `times` is how
        many reports of this survey there may be in all; it is checked under the same lock as the total.
        """
        entry = SentReport(_when(when), _survey(survey), _plain(sent), _pure(loss))
        most = None if times is None else integer(times, "times", at_least=1)
        with locked(self.path):
            entries = self._read()
            already = sum(earlier.survey == entry.survey for earlier in entries)
            if most is not None and already >= most:
                raise BudgetExceeded(
                    f"{already} of at most {most} reports to {entry.survey!r} were sent; nothing was sent"
                )
            before = _total(entries)
            if before + entry.epsilon > self.epsilon:
                raise BudgetExceeded(
                    f"this report to {entry.survey!r} costs ε = {_short(entry.epsilon)}; "
                    f"{_short(before)} of {_short(self.epsilon)} is spent; nothing was sent"
                )
            write(self.path, _text(self.epsilon, [*entries, entry]))
        return entry

    def entries(self) -> tuple[SentReport, ...]:
        """Everything that was sent, oldest first."""
        return tuple(self._read())

    @property
    def spent(self) -> Fraction:
        """The sum of what was sent."""
        return _total(self._read())

    @property
    def left(self) -> Fraction:
        """What may still be sent."""
        return self.epsilon - self.spent

    def words(self) -> str:
        """The whole account in plain words: a line for each report, then the sum."""
        entries = self._read()
        spent = _total(entries)
        lines = [entry.words() for entry in entries] or ["Nothing was sent."]
        left = _short(self.epsilon - spent, text_down)
        total = f"In all ε = {_short(spent)} of {_short(self.epsilon)} is spent; {left} is left."
        return "\n".join([*lines, total])

    def raise_to(self, epsilon: Number) -> "DeviceAccount":
        """The same account with a higher total: the person's own decision."""
        most = rational(epsilon, "epsilon", at_least=self.epsilon)
        with locked(self.path):
            write(self.path, _text(most, self._read()))
        return DeviceAccount(self.path, epsilon=most)

    def _read(self) -> list[SentReport]:
        """All entries; the heading must be of this format and total."""
        heading, *lines = _lines(self.path)
        stated = _heading(heading, self.path)
        if stated != self.epsilon:
            raise LedgerConflict(
                f"the account {self.path} allows ε = {plain(stated)}, not {plain(self.epsilon)}; "
                "open it with its own total, or raise that with `raise_to`"
            )
        return [_entry(line, place, self.path) for place, line in enumerate(lines, 2)]


# Lines


def _text(epsilon: Fraction, entries: list[SentReport]) -> str:
    heading = {"format": _FORMAT, "version": _VERSION, "epsilon": plain(epsilon)}
    lines = [json.dumps(heading, ensure_ascii=False)]
    for entry in entries:
        line = {
            "when": entry.when.isoformat(),
            "survey": entry.survey,
            "sent": entry.sent,
            "loss": json.loads(to_json(entry.loss)),
        }
        lines.append(json.dumps(line, ensure_ascii=False))
    return "\n".join(lines) + "\n"


def _lines(path: Path) -> list[str]:
    text = read(path)
    if not text.endswith("\n"):
        raise _damaged(path, "it is empty or its last line is cut off")
    return text[:-1].split("\n")


def _heading(line: str, path: Path) -> Fraction:
    heading = parsed(line)
    if not isinstance(heading, dict) or heading.get("format") != _FORMAT:
        raise _damaged(path, "it does not start like an account")
    version = heading.get("version")
    if type(version) is int and version > _VERSION:
        raise LedgerTooNew(f"the account {path} has version {version}, this is {_VERSION}; use a newer discreet")
    try:
        if version != _VERSION or set(heading) != {"format", "version", "epsilon"}:
            raise ValueError
        return rational(str(heading["epsilon"]), "epsilon", above=0)
    except ValueError:
        raise _damaged(path, "its heading cannot be read") from None


def _entry(line: str, place: int, path: Path) -> SentReport:
    document = parsed(line)
    try:
        if not isinstance(document, dict) or set(document) != {"when", "survey", "sent", "loss"}:
            raise ValueError
        loss = from_json(json.dumps(document["loss"]))
        return SentReport(_when(document["when"]), _survey(document["survey"]), document["sent"], _pure(loss))
    except (ValueError, TypeError, UnknownLoss, NoGuarantee):
        raise _damaged(path, f"line {place} cannot be read") from None


def _damaged(path: Path, why: str) -> LedgerDamaged:
    return LedgerDamaged(f"the account {path} is damaged: {why}; nothing was sent; restore it from a copy")


def _total(entries: list[SentReport]) -> Fraction:
    return pure(Together(*(entry.loss for entry in entries)))


def _pure(loss: Loss) -> Loss:
    """A loss that has an ε without δ; others are refused (d-privacy must say within which distance)."""
    pure(loss)
    return loss


def _when(when: object) -> datetime:
    if when is None:
        return datetime.now(UTC).replace(microsecond=0)
    if isinstance(when, str):
        with suppress(ValueError):
            when = datetime.fromisoformat(when)
    if not isinstance(when, datetime) or when.tzinfo is None:
        raise InvalidParameter("when", when, "a time with its zone, such as 2026-11-16T08:00:00+00:00")
    return when.astimezone(UTC)


def _survey(survey: object) -> str:
    if not isinstance(survey, str) or not survey.strip() or len(survey) > 200 or not survey.isprintable():
        raise InvalidParameter("survey", survey, "a name of at most 200 printable characters")
    return survey


def _plain(sent: Any) -> Any:
    """A report as JSON keeps it; arrays become lists."""
    listed = sent.tolist() if isinstance(sent, np.ndarray | np.generic) else sent
    try:
        text = json.dumps(listed, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        raise InvalidParameter("sent", type(sent).__name__, "a number, a text, or lists of them") from None
    if len(text) > _MOST_SENT:
        raise InvalidParameter("sent", f"{len(text)} characters", f"at most {_MOST_SENT}")
    return json.loads(text)


def _short(epsilon: Fraction, rounded: Callable[[Fraction], str] = text_up) -> str:
    """A few digits, never too small, unless what is left is shown."""
    exact = plain(epsilon)
    return exact if len(exact) <= 8 else rounded(epsilon)


# Small files on a device


def locked(path: Path) -> AbstractContextManager[None]:
    """One process and thread at a time; see `durable.locked`."""
    return durable.locked(path, patience=_PATIENCE)


def write(path: Path, text: str) -> None:
    """Replace a file by one with this text, on disk when this returns; a kill leaves the old one or the new one.

    >>> import tempfile
    >>> write(Path(tempfile.mkdtemp()) / "state.json", "{}")
    """
    content = text.encode()
    if len(content) > _MOST_BYTES:
        raise LedgerUnavailable(f"{path} is full: it may hold {_MOST_BYTES} bytes; nothing was sent; start a new one")
    durable.replace(path, content)


def read(path: Path) -> str:
    """The text of a small file.

    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "state.json"
    >>> write(place, "{}")
    >>> read(place)
    '{}'
    """
    try:
        with path.open("rb") as file:
            result = file.read(_MOST_BYTES + 1)
        if len(result) > _MOST_BYTES:
            raise LedgerDamaged(f"{path} is larger than {_MOST_BYTES} bytes; nothing was sent; restore it from a copy")
        return result.decode()
    except OSError as error:
        raise LedgerUnavailable(f"{path} cannot be read: {error.strerror}; nothing was sent") from None
    except UnicodeDecodeError:
        raise LedgerDamaged(f"{path} is damaged: it is not text; nothing was sent; restore it from a copy") from None


def parsed(text: str) -> object:
    """JSON, or None where it is not.

    >>> parsed('{"a": 1}'), parsed('{"a":')
    ({'a': 1}, None)
    """
    try:
        result: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return result
