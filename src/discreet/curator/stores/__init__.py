"""Where a ledger is kept: the row, its place in the chain, and what a store must do.

A ledger is one sequence of rows, numbered 1, 2, 3, … over all accounts. The rows of one account form a chain: each
carries the hash of the account's row before it, and its own hash covers every field in one canonical form. A row is
never changed. Beside the rows a store keeps, for each account, a head (how long the chain is and where it ends), and the
answers that were given, which are not part of any chain.

A store has one method, `transact(work)`. It calls `work(rows)` once, with the row operations of `Rows`, and returns what
the work returns. What every store promises (tests/contracts/test_ledger_store.py):

* *serialised*: works run one after another, over all threads and all processes that use the same ledger;
* *durable*: when `transact` returns, what the work wrote survives a crash of the process and of the machine;
* *all or nothing*: when the work raises, nothing of it is kept and the exception reaches the caller; other works are not
  affected. When `transact` raises for another reason (`LedgerError`, an interruption), the work may or may not have been
  kept: a charge may then be wasted, never lost.

A work is short, reads and writes only through its `rows`, and never calls `transact`; it may run in another thread.
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, Protocol, TypeVar

T = TypeVar("T")

VERSION = 1
"""The form of a row. Another form gets another number, so that a stored row is never misread."""

GENESIS = "0" * 64
"""What the first row of a chain names as the hash before it."""

Kind = Literal["open", "amend", "charge"]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the ledger, as it is stored: text and whole numbers only.

    `text` is not hashed but answers to `statement`, which is: an owner may erase a text, nobody can replace it.

    >>> row = Row(1, "clinic", "open", "", "2026-11-15T20:00:00.000000Z", None, None, None, None, "{}", None, "{}", "{}")
    >>> row.sealed(GENESIS).intact, replace(row.sealed(GENESIS), who="eve").intact
    (True, False)
    """

    number: int  # over the whole ledger, without gaps
    account: str
    kind: str
    who: str  # the analyst of a charge; whoever amended; nobody for an opening
    when: str  # UTC, never before the row before it
    clock: str | None  # what the clock said, where it had gone back
    statement: str | None  # of a charge: SHA-256 of the statement's text
    text: str | None  # of a charge: the text, where it was given
    loss: str | None  # of a charge: JSON
    settings: str | None  # of an opening or amendment: budget and caps, JSON
    why: str | None  # of an amendment
    total: str  # of the account after this row, JSON
    own: str  # of this analyst in this account after this row, JSON
    version: int = VERSION
    previous: str = GENESIS
    hash: str = ""

    def sealed(self, previous: str) -> "Row":
        """This row as the next of a chain that ends with the hash `previous`."""
        linked = replace(self, previous=previous)
        return replace(linked, hash=linked.digest())

    @property
    def intact(self) -> bool:
        """Whether the hash fits the fields."""
        return self.hash == self.digest()

    def digest(self) -> str:
        """SHA-256 of every field but `text` and `hash`, as JSON with sorted names, no spaces, in UTF-8."""
        document = {name: getattr(self, name) for name in HASHED}
        canonical = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


COLUMNS = tuple(field.name for field in fields(Row))
HASHED = tuple(name for name in COLUMNS if name not in ("text", "hash"))


@dataclass(frozen=True, slots=True)
class Head:
    """Where a chain ends: its account, how many rows it has, the number and the hash of the last.

    Publish it (in a report, a mail, a version control system): whoever remembers it can later prove that no row up to it
    was changed or removed.
    """

    account: str
    length: int
    number: int
    hash: str


class Rows(Protocol):
    """The row operations of one transaction. Nothing else reads or writes a ledger."""

    def last(self) -> int:
        """The greatest number of any row; 0 where there is none."""
        ...

    def head(self, account: str) -> Head | None:
        """The head that was kept for the account."""
        ...

    def heads(self) -> Sequence[Head]:
        """All heads, by the name of the account."""
        ...

    def latest(self, account: str) -> Row | None:
        """The last row of the account."""
        ...

    def settings(self, account: str) -> Row | None:
        """The last row of the account that is an opening or an amendment."""
        ...

    def latest_by(self, account: str, analyst: str) -> Row | None:
        """The last charge of this analyst in the account."""
        ...

    def after(self, number: int, *, limit: int, account: str | None = None) -> Sequence[Row]:
        """The first `limit` rows (of one account, or of all) with greater numbers, in order."""
        ...

    def append(self, row: Row) -> None:
        """Add a row and move the account's head to it. `LedgerConflict` if its number is taken."""
        ...

    def keep(self, key: str, number: int, answer: bytes) -> None:
        """Keep an answer for the charge of this number. `LedgerConflict` if the key is taken or the row is missing."""
        ...

    def kept(self, key: str) -> tuple[int, bytes] | None:
        """The number of the charge and the answer kept under this key."""
        ...


class LedgerStore(Protocol):
    """The seam between the ledger and where it is kept; see this module for what `transact` promises."""

    def transact(self, work: Callable[[Rows], T]) -> T:
        """Run the work as one serialised, durable transaction and return what it returns."""
        ...
