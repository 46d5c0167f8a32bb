"""Where a ledger is kept: rows, the chains that they form, and the seams: a store and a clock.

A ledger is one sequence of rows, numbered 1, 2, 3, … over all accounts. The rows of one account form a chain: each
carries the hash of the account's row before it, and its own hash covers every field in one canonical form. A row is
never changed. Beside the rows a store keeps for each account a head (how long the chain is and where it ends), a secret
salt, and the answers that were given, each sealed by a row of the chain.

A store has one method, `transact(work)`. It calls `work(rows)`, once, with the row operations of `Rows`, and returns
what the work returns. What every store promises (tests/contracts/test_ledger_store.py):

* *serialized*: works run one after another, over all threads and all processes that use the same ledger;
* *durable*: when `transact` returns, what the work wrote survives a crash of the process and of the machine;
* *all or nothing*: when the work raises, nothing of it is kept and its exception reaches the caller; other works are
  not affected. When `transact` raises for another reason (`LedgerUnavailable`, an interruption), the work was kept as a
  whole or not at all, and the caller does not know which: a charge may be wasted, never lost.

A work is short, reads and writes only through its `rows`, and never calls `transact`; it may run in another thread.

Group commit, for stores that make works durable: waiting callers share the wait for the disk.
"""

import hashlib
import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from queue import SimpleQueue
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeVar

from discreet.errors import InvalidParameter, LedgerDamaged, LedgerError, LedgerTooNew, LedgerUnavailable
from discreet.privacy.unit import words

T = TypeVar("T")

VERSION = 2
"""The form of a row. Another form gets another number, so that a stored row is never misread.

Form 2 has the fields of form 1. An analyst's name is written as `analyst_name` compares it, and an analyst's total
covers all spellings; in form 1 each spelling was another analyst, and analysts without a cap were not refused.
"""

MOST = 2**63 - 1
"""Above the number of every row."""

GENESIS = "0" * 64
"""What the first row of a chain names as the hash before it."""


ANSWER_KEY = "plan:"
"""How the key of an answer begins. Older versions named plans by what Python printed of them: such keys fit no more."""

Kind = Literal["open", "amend", "charge", "answer"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the ledger, as it is stored: text and whole numbers only.

    `text` is not hashed but answers to `statement`, which is: an owner may erase a text, nobody can replace it.

    >>> draft = Row("clinic", "open", total="{}", own="{}")
    >>> row = draft.sealed(number=1, when="2026-11-15T20:00:00.000000Z", tail=None)
    >>> row.intact, replace(row, who="eve").intact
    (True, False)
    """

    account: str
    kind: Kind
    total: str  # of the account after this row, JSON
    own: str  # of this analyst in this account after this row, JSON
    who: str = ""  # the analyst of a charge; whoever amended; nobody for an opening
    statement: str | None = None  # SHA-256: of a charge, of the statement's text; of an answer, its seal
    text: str | None = None  # of a charge: the text, where it was given
    loss: str | None = None  # of a charge: JSON
    settings: str | None = None  # of an opening or amendment: budget and caps, JSON
    why: str | None = (
        None  # of an amendment, its reason; of a charge, the request it was made for, where one was named;
    )
    # of an answer, the number of the charge that paid for it
    number: int = 0  # over the whole ledger, without gaps
    when: str = ""  # UTC, never before the row before it
    clock: str | None = None  # what the clock said, where it had gone back
    version: int = VERSION
    previous: str = GENESIS
    hash: str = ""

    def sealed(self, *, number: int, when: str, tail: "Row | None", clock: str | None = None) -> "Row":
        """This row as the next one after `tail`."""
        previous = GENESIS if tail is None else tail.hash
        linked = replace(self, number=number, when=when, clock=clock, version=VERSION, previous=previous)
        return replace(linked, hash=linked.digest())

    @property
    def intact(self) -> bool:
        """Whether the hash fits the fields."""
        return self.hash == self.digest()

    def digest(self) -> str:
        """SHA-256 of every field but `text` and `hash`, as JSON with sorted names, no spaces, in UTF-8."""
        return _digest(*_hashed(self))


@lru_cache(maxsize=1024)  # a row is hashed when it is written and again when the next one is built on it
def _digest(*values: str | int | None) -> str:
    document = dict(zip(HASHED, values, strict=True))
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


COLUMNS = tuple(field.name for field in fields(Row))
HASHED = tuple(name for name in COLUMNS if name not in ("text", "hash"))
_hashed, values_of = attrgetter(*HASHED), attrgetter(*COLUMNS)


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: its account, how many rows it has, the number and the hash of the last.

    Publish it (in a report, a mail, a version control system): whoever remembers it can later prove that no row up to
    it was changed or removed.
    """

    account: str
    length: int
    number: int
    hash: str


class CachedAnswer(NamedTuple):
    """An answer that is kept: its key, the number of its charge, the number of the row that seals it, its bytes."""

    key: str
    charge: int
    row: int
    answer: bytes

    @property
    def seal(self) -> str:
        """What the sealing row states: SHA-256 of the key, the charge and the bytes."""
        return hashlib.sha256(f"{len(self.key)}:{self.key}:{self.charge}:".encode() + self.answer).hexdigest()


class Rows(Protocol):
    """The row operations of one transaction. Nothing else reads or writes a ledger."""

    def last(self) -> int:
        """The greatest number of any row; 0 where there is none."""

    def head(self, account: str) -> Head | None:
        """The head that was kept for the account."""

    def heads(self) -> Sequence[Head]:
        """All heads, by the name of the account."""

    def row(self, number: int) -> Row | None:
        """The row of this number."""

    def latest(self, account: str, *, before: int = MOST) -> Row | None:
        """The last row of the account, of those with smaller numbers than `before`."""

    def settings(self, account: str) -> Row | None:
        """The last row of the account that is an opening or an amendment."""

    def latest_by(self, account: str, analyst: str, *, before: int = MOST) -> Row | None:
        """The last charge of this analyst in the account, of those with smaller numbers than `before`."""

    def spellings(self, account: str) -> Sequence[str]:
        """The names of all who were charged in the account, as they are written there."""

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        """The first `limit` rows (of one account, or of all) with greater numbers, in order."""

    def append(self, row: Row) -> None:
        """Add a row and move the account's head to it. `LedgerConflict` if its number is taken."""

    def cache(self, answer: CachedAnswer) -> None:
        """Keep an answer. `LedgerConflict` if its key is taken, or the row of its charge or of its seal is missing."""

    def cached(self, key: str) -> CachedAnswer | None:
        """The answer kept under this key."""

    def next_cached(self, number: int) -> CachedAnswer | None:
        """Of the answers that are sealed by rows of greater numbers, the first."""

    def unsealed(self) -> int:
        """How many answers an older version kept without a seal; they are never given."""

    def salt(self, account: str) -> bytes | None:
        """The secret of the account; None where it has none yet."""

    def keep_salt(self, account: str, salt: bytes) -> None:
        """Keep the secret of an account. `LedgerConflict` if it has one."""


class LedgerStore(Protocol):
    """The seam between the ledger and where it is kept; see this module for what `transact` promises."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work as one serialized, durable transaction and return what it returns."""


class Clock(Protocol):
    """The seam where tests inject a time."""

    def now(self) -> datetime:
        """The time now, with its time zone."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The time now, in UTC."""
        return datetime.now(UTC)


def utc(moment: datetime) -> str:
    """A time as rows state it: UTC, ISO 8601, microseconds, so that texts sort as times do.

    >>> utc(datetime(2026, 11, 15, 21, tzinfo=UTC))
    '2026-11-15T21:00:00.000000Z'
    """
    if moment.tzinfo is None:
        raise InvalidParameter("clock", moment, "a time with its time zone", "use datetime.now(UTC)")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


# What a charge is for


def digest(text: str) -> str:
    """What a charge states about the text of a statement: SHA-256, in hexadecimal.

    >>> digest("SELECT 1")[:16]
    'e004ebd5b5532a4b'
    """
    return hashlib.sha256(words(text, "text", "the text of a statement").encode()).hexdigest()


def check_statement(statement: str, text: str | None) -> None:
    """A statement is a digest, and a text that comes with it is the one that it was made of."""
    if not isinstance(statement, str) or not re.fullmatch("[0-9a-f]{64}", statement):
        raise InvalidParameter("statement", statement, "a SHA-256 in 64 hexadecimal digits", "use digest(text)")
    if text is not None and digest(text) != statement:
        raise InvalidParameter("text", "another text", "the text whose digest is the statement", "use digest(text)")


# What may be built on


def tail(rows: Rows, account: str) -> Row | None:
    """The last row of the account, if it is the one its head names: the row that the next one follows."""
    head, row = rows.head(account), rows.latest(account)
    if head is None and row is None:
        return None
    if head is None or row is None or (head.number, head.hash) != (row.number, row.hash):
        raise LedgerDamaged(f"the chain of account {account!r} does not end where its head says; {WHAT_TO_DO}")
    return trusted(row)


def trusted(row: Row) -> Row:
    """The row, if its form is known and its hash fits."""
    if row.version > VERSION:
        raise LedgerTooNew(f"row {row.number} has the form {row.version}, expected {VERSION}; use a newer discreet")
    if not row.intact:
        raise LedgerDamaged(f"row {row.number} of account {row.account!r} was edited; {WHAT_TO_DO}")
    return row


WHAT_TO_DO = "nothing was charged; verify the ledger, and restore it from a backup that verifies"


# A chain, walked from its beginning


@dataclass
class Chain:
    """Where a walk along the rows of one account stands."""

    length: int = 0
    number: int = 0
    hash: str = GENESIS
    when: str = ""
    form: int = 1

    def step(self, row: Row, published: set[Head]) -> None:
        """Go on to the next row; `LedgerDamaged` says in words what is wrong with it."""
        require_undamaged(
            self.form <= row.version <= VERSION, f"it has the form {row.version}, expected {self.form} to {VERSION}"
        )
        require_undamaged(row.intact, "its hash does not fit its fields: the row was edited")
        require_undamaged(
            row.previous == self.hash, "it does not follow the row before it: a row was removed, added or moved"
        )
        require_undamaged(row.when >= self.when, "it is dated before the row before it")
        require_undamaged(
            (row.kind == "open") == (self.length == 0), "an account is opened by its first row, and only by that"
        )
        self.length, self.number, self.hash, self.when = self.length + 1, row.number, row.hash, row.when
        self.form = row.version
        here = Head(row.account, self.length, row.number, row.hash)
        require_undamaged(
            published <= {here}, "it is not the row that was published as a head: the chain was rewritten"
        )


def check_ends(heads: Mapping[str, Head], chains: Mapping[str, Chain], missed: Iterable[Head]) -> None:
    """Chains end where their heads say, and no head that was published was missed on the way."""
    for name in sorted({*heads, *chains}):
        chain, head = chains.get(name, Chain()), heads.get(name)
        kept = f"its head says {head.length} rows up to row {head.number}" if head else "its head is missing"
        require_undamaged(
            head == Head(name, chain.length, chain.number, chain.hash),
            f"account {name!r} has {chain.length} rows up to row {chain.number}, but {kept}: "
            "rows were removed from its end, or added there",
        )
    for head in missed:
        raise LedgerDamaged(f"row {head.number} of account {head.account!r} was published as a head and is missing")


def require_undamaged(holds: bool, otherwise: str) -> None:
    """`LedgerDamaged` with these words, unless it holds."""
    if not holds:
        raise LedgerDamaged(otherwise)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a walk along the chains found: how many rows are good, and the first trouble in words ("" if none).

    `unsealed` answers were kept by an older version, outside the chain, and `outdated` ones under names of plans that
    this version does not know: no trouble, since they are never given.
    """

    rows: int
    heads: tuple[Head, ...]
    trouble: str = ""
    number: int | None = None
    unsealed: int = 0
    outdated: int = 0

    def __bool__(self) -> bool:
        return not self.trouble

    def __str__(self) -> str:
        accounts = len(self.heads)
        good = f"{self.rows} rows of {accounts} account{'s' if accounts != 1 else ''}"
        unsealed = f"; {self.unsealed} answers of an older version are not covered by the chain and not given again"
        void = f"; {self.outdated} answers of an older version are void, since it named plans in another way: asking "
        void += "their questions again is charged again"
        if self:
            return f"{good} verified" + unsealed * bool(self.unsealed) + void * bool(self.outdated)
        return f"NOT VERIFIED: {self.trouble} ({self.rows} rows before it are good)"


MOST_WORKS, MOST_SECONDS = 256, 0.02
"""The bounds of one batch, so that everybody gets a turn."""


class GroupCommit(ABC):
    """A queue of works and one writer thread that runs all that are waiting as one batch, made durable at once.

    Making a transaction durable costs milliseconds of waiting for the disk; callers share that. They wake when their
    batch is durable, or has failed. A store says in `_commit` how a batch is run and in `_release` how it lets go.

    A caller may be interrupted (Ctrl-C) between any two steps of Python, also inside `with condition:`, and must not
    leave a lock behind that the writer needs. So the two meet only in locks and queues that are single steps.
    """

    _BUSY = "the ledger is locked by another program for too long; nothing was charged; end that program or try later"
    _CLOSED = "this ledger is closed; open it again"

    _first: "Job | None"
    _taken: "list[Job]"
    _writer: threading.Thread | None

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._closed = False
        self._start_anew()

    @abstractmethod
    def _commit(self) -> None:
        """Run what `_waiting_works` gives, durably. `LedgerError`: nothing of the batch was kept."""

    @abstractmethod
    def _release(self) -> None:
        """Let go of files and connections; the next batch may take them again."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work in the next batch; when this returns, what it wrote is durable."""
        if self._writer is threading.current_thread():
            raise LedgerUnavailable("a work called transact again; a work uses only the rows that it is given")
        job = Job(work)
        try:
            self._ensure_writer()
            self._queue.put(job)
            self._wait_for(job)
        except BaseException:
            job.claim()  # an interrupted caller's work does not run, unless it is running already
            raise
        if job.error is not None:
            raise job.error
        result: T = job.result
        return result

    def close(self) -> None:
        """Finish what is queued and let go. A closed store refuses further works."""
        self._closed = True
        self._queue.put(None)
        if self._writer is not None and self._writer is not threading.current_thread():
            self._writer.join(self._patience)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ensure_writer(self) -> None:
        with self._starting:
            if self._closed:
                raise LedgerUnavailable(self._CLOSED)
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._serve, name="ledger writer", daemon=True)
                try:
                    self._writer.start()
                except RuntimeError as error:  # no more threads, or the interpreter is ending
                    raise LedgerUnavailable(f"the ledger's writer cannot be started: {error}") from None

    def _wait_for(self, job: "Job") -> None:
        """Give up while the work is only waiting, never while it may be committed already."""
        deadline = time.monotonic() + self._patience
        while not job.done.acquire(timeout=0.1):
            if self._writer is None or not self._writer.is_alive():
                if job.done.acquire(blocking=False):
                    return
                if not job.claim():
                    raise LedgerUnavailable("the ledger's writer was stopped; the charge may have been made")
                raise LedgerUnavailable(self._CLOSED if self._closed else "the ledger's writer was stopped; try again")
            if time.monotonic() > deadline and job.claim():
                raise LedgerUnavailable(self._BUSY)

    def _serve(self) -> None:
        """The writer thread: one batch after another until the store is closed."""
        with self._starting:
            if self._writer is not threading.current_thread():
                return  # whoever started this thread was interrupted, and another one was started
        error: LedgerError = LedgerUnavailable(self._CLOSED)
        try:
            while (job := self._queue.get()) is not None:
                self._first = job
                try:
                    self._commit()
                    self._finish(None)
                except LedgerError as trouble:
                    self._finish(trouble)
        except BaseException as stop:  # whatever ends this thread, nobody waits for it in vain
            error = LedgerUnavailable(f"the ledger's writer was stopped by {stop!r}; try again")
        finally:
            self._finish(error)
            self._release()

    def _waiting_works(self) -> Iterator["Job"]:
        """The works of this batch: those that wait and those that come meanwhile, within bounds."""
        end = time.monotonic() + MOST_SECONDS
        while (job := self._next()) is not None:
            if job.claim():
                self._taken.append(job)
                yield job
            if len(self._taken) >= MOST_WORKS or time.monotonic() > end:
                return

    def _next(self) -> "Job | None":
        """The next job that waits, if any; the word to close is left for `_serve`."""
        job, self._first = self._first, None
        if job is None and not self._queue.empty() and (job := self._queue.get()) is None:
            self._queue.put(None)
        return job

    def _finish(self, error: LedgerError | None) -> None:
        """Wake the callers of a batch; after an error, all that wait. Who failed by himself is told his own error."""
        taken, self._taken = self._taken, []
        while error is not None and (job := self._next()) is not None:
            taken += [job] if job.claim() else []
        for job in taken:
            job.error = job.error or (error and type(error)(str(error)))
            job.done.release()

    def _start_anew(self) -> None:
        """The state of a store that has done nothing yet in this process."""
        self._starting = threading.Lock()
        self._queue: SimpleQueue[Job | None] = SimpleQueue()
        self._first, self._taken, self._writer = None, [], None


class Job:
    """A work, and what came of it. Whoever claims it first decides: the writer to run it, its caller to withdraw it."""

    __slots__ = ("_claimed", "done", "error", "result", "work")

    def __init__(self, work: Callable[[Rows], Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: BaseException | None = None
        self.done, self._claimed = threading.Lock(), threading.Lock()
        self.done.acquire()  # released when there is an outcome

    def claim(self) -> bool:
        """Whether this is the first claim."""
        return self._claimed.acquire(blocking=False)
