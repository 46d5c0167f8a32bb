"""Fakes for tests and worked examples: a ledger that is kept nowhere, and a clock that stands where it is set.

`MemoryStore` keeps every promise of a store but one: it is **not durable**. Its charges end with the process.
"""

import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from discreet.curator.stores import MOST, CachedAnswer, Head, Row, Rows
from discreet.errors import LedgerConflict, LedgerUnavailable

T = TypeVar("T")


class MemoryStore:
    """A ledger in the memory of one process. **Not durable**: for tests and examples only.

    >>> store = MemoryStore()
    >>> store.transact(lambda rows: rows.last())
    0
    """

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._answers: dict[str, CachedAnswer] = {}
        self._salts: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._working = 0

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work alone; forget what it wrote if it raises."""
        if self._process != os.getpid():
            raise LedgerUnavailable(
                "this ledger is in the memory of another process, which would not see the charge; "
                "use SqliteStore if processes share a ledger"
            )
        if self._working == threading.get_ident():
            raise LedgerUnavailable("a work called transact again; a work uses only the rows that it is given")
        with self._lock:
            rows = _MemoryRows(list(self._rows), dict(self._answers), dict(self._salts))
            self._working = threading.get_ident()
            try:
                result = work(rows)
                self._rows, self._answers, self._salts = rows.rows, rows.answers, rows.salts
            finally:
                self._working = 0
        return result


class _MemoryRows:
    """Row operations over plain collections, which the store adopts when the work has succeeded."""

    def __init__(self, rows: list[Row], answers: dict[str, CachedAnswer], salts: dict[str, bytes]) -> None:
        self.rows, self.answers, self.salts = rows, answers, salts

    def last(self) -> int:
        return self.rows[-1].number if self.rows else 0

    def head(self, account: str) -> Head | None:
        chain = [row for row in self.rows if row.account == account]
        return Head(account, len(chain), chain[-1].number, chain[-1].hash) if chain else None

    def heads(self) -> Sequence[Head]:
        heads = (self.head(account) for account in sorted({row.account for row in self.rows}))
        return [head for head in heads if head is not None]

    def row(self, number: int) -> Row | None:
        return self._latest(lambda row: row.number == number)

    def latest(self, account: str, *, before: int = MOST) -> Row | None:
        return self._latest(lambda row: row.account == account and row.number < before)

    def settings(self, account: str) -> Row | None:
        return self._latest(lambda row: row.account == account and row.kind in ("open", "amend"))

    def latest_by(self, account: str, analyst: str, *, before: int = MOST) -> Row | None:
        wanted = (account, analyst, "charge")
        return self._latest(lambda row: (row.account, row.who, row.kind) == wanted and row.number < before)

    def spellings(self, account: str) -> Sequence[str]:
        return sorted({row.who for row in self.rows if (row.account, row.kind) == (account, "charge")})

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        rows = [row for row in self.rows if row.number > number and account in (None, row.account)]
        return rows[:limit]

    def append(self, row: Row) -> None:
        if row.number <= self.last():
            raise LedgerConflict(f"row {row.number} exists; the next is {self.last() + 1}")
        self.rows.append(row)

    def cache(self, answer: CachedAnswer) -> None:
        if answer.key in self.answers or self.row(answer.charge) is None or self.row(answer.row) is None:
            raise LedgerConflict("an answer is cached under this key, or there is no such row")
        self.answers[answer.key] = answer

    def cached(self, key: str) -> CachedAnswer | None:
        return self.answers.get(key)

    def next_cached(self, number: int) -> CachedAnswer | None:
        later = (answer for answer in self.answers.values() if answer.row > number)
        return min(later, key=lambda answer: answer.row, default=None)

    def unsealed(self) -> int:
        return 0

    def salt(self, account: str) -> bytes | None:
        return self.salts.get(account)

    def keep_salt(self, account: str, salt: bytes) -> None:
        if account in self.salts:
            raise LedgerConflict("this account has a salt already")
        self.salts[account] = salt

    def _latest(self, wanted: Callable[[Row], bool]) -> Row | None:
        return next((row for row in reversed(self.rows) if wanted(row)), None)


class ManualClock:
    """A clock that stands still until it is moved, also backwards.

    >>> clock = ManualClock(datetime(2026, 11, 15, tzinfo=UTC))
    >>> clock.move(timedelta(hours=-1))
    >>> clock.now()
    datetime.datetime(2026, 11, 14, 23, 0, tzinfo=datetime.timezone.utc)
    """

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The time that was set."""
        return self._now

    def move(self, by: timedelta) -> None:
        """Let time pass; a negative amount sets the clock back."""
        self._now += by
