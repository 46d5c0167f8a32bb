"""The ledger: what has been spent, by whom, on what. The one stateful privacy object.

An account (one for each dataset) has a budget, and caps for single analysts where the owner wants them. A charge is
checked and appended in one serialised, durable transaction, *before* a private row is read. There are no refunds.

Guarantee: when `charge` returns, the charge is durable, and the totals of everything ever charged to the account, this
charge included, are within its budget; so all that was released is as private as `privacy.budget` says.
Proof. Works of a store run one after another, so the row that `charge` reads as the account's last is the last. Its total
covers all charges before it: true of the opening, whose total is nothing, and each charge appends the total before it plus
its own cost, rounded up. The store makes the row durable before it returns, and a row is appended only if the budget and the
cap allow the new totals. A crash between the commit and the return wastes the charge, which is then counted and not used.
(An amended budget is a new promise by the owner: the guarantee is that of the budget in force when the charge was made.)

What a hash chain can show: `verify` finds rows that were edited, removed, inserted, moved or cut off, by accident or by
somebody who did not rewrite everything after them. What it cannot show without a witness outside: that somebody with
write access replaced the whole file by an older copy of itself, or rewrote a chain from some row to its end, head included.
Publish `head(account)` now and then, and give what was published to `verify`: then that is found too, up to that head.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

from discreet.curator.stores import GENESIS, VERSION, Head, Kind, LedgerStore, Row, Rows
from discreet.errors import (
    BudgetExceeded,
    DiscreetError,
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
)
from discreet.exact import float_up, integer, plain
from discreet.privacy import loss as losses
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss
from discreet.privacy.unit import words

_PAGE = 500
_NOTHING = Spent().to_json()


class Clock(Protocol):
    """The seam where tests inject a time."""

    def now(self) -> datetime:
        """The time now, with its time zone."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The time now, in UTC."""
        return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge as it was made: `total` and `own` are the account's and the analyst's totals right after it."""

    number: int
    account: str
    analyst: str
    when: str
    statement: str
    text: str | None
    loss: Loss
    total: Spent
    own: Spent
    hash: str

    @classmethod
    def of(cls, row: Row) -> "Charge":
        """The charge that a row states."""
        loss, total, own = losses.from_json(row.loss or ""), Spent.from_json(row.total), Spent.from_json(row.own)
        statement = row.statement or ""
        return cls(row.number, row.account, row.who, row.when, statement, row.text, loss, total, own, row.hash)


@dataclass(frozen=True, slots=True)
class Verification:
    """What a walk along the chains found: how many rows are good, and the first trouble in words ("" if none)."""

    rows: int
    heads: tuple[Head, ...]
    trouble: str = ""
    number: int | None = None

    def __bool__(self) -> bool:
        return not self.trouble

    def __str__(self) -> str:
        good = f"{self.rows} rows of {len(self.heads)} accounts"
        return f"{good} verified" if self else f"NOT VERIFIED: {self.trouble} ({self.rows} rows before it are good)"


class Ledger:
    """Append-only, hash-chained charges for each account.

    >>> from discreet.curator.stores.memory import MemoryStore
    >>> from discreet.privacy.loss import Pure
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("clinic", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")})
    >>> ledger.charge("clinic", analyst="ann", statement=digest("SELECT 1"), loss=Pure("0.7")).number
    2
    >>> ledger.charge("clinic", analyst="ann", statement=digest("SELECT 2"), loss=Pure("0.7"))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: the budget of 'clinic' cannot pay: ... total to ε 1.4, ε 0.4 more than ...
    >>> ledger.spent("clinic").epsilon, bool(ledger.verify())
    (Fraction(7, 10), True)
    """

    def __init__(self, store: LedgerStore, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()

    def open(self, account: str, budget: Budget, *, caps: Mapping[str, Budget] | None = None) -> None:
        """Create the account, or confirm that it has just these settings. Only `amend` changes them."""
        name, settings = _name(account, "account"), _settings_text(budget, caps or {})

        def work(rows: Rows) -> None:
            tail = _tail(rows, name)
            if tail is None:
                self._append(rows, None, name, "open", "", _NOTHING, settings=settings)
            elif (current := _settings_row(rows, name).settings) != settings:
                raise LedgerConflict(
                    f"account {name!r} is open with {_in_words(current or '')}; got {_in_words(settings)}; "
                    "open it with its own settings, or change them on record with amend"
                )

        self._store.transact(work)

    def amend(
        self,
        account: str,
        *,
        budget: Budget | None = None,
        caps: Mapping[str, Budget] | None = None,
        by: str,
        why: str,
    ) -> None:
        """Change the budget, or all the caps, as an act on record. Below what is spent, it blocks further charges."""
        name, who, reason = _name(account, "account"), _name(by, "by"), _name(why, "why")
        if budget is None and caps is None:
            raise InvalidParameter("budget", None, "a new budget, or new caps", "nothing would change")

        def work(rows: Rows) -> None:
            tail = _known(_tail(rows, name), name)
            old_budget, old_caps = _settings(_settings_row(rows, name).settings or "")
            new = _settings_text(budget or old_budget, old_caps if caps is None else caps)
            self._append(rows, tail, name, "amend", who, tail.total, settings=new, why=reason)

        self._store.transact(work)

    def charge(self, account: str, *, analyst: str, statement: str, loss: Loss, text: str | None = None) -> Charge:
        """Check that the budget and the analyst's cap can pay, and charge: durable when this returns, never undone.

        `statement` is `digest(text)`; the text itself is kept for the owner's eyes where it is given.
        Raises `BudgetExceeded`, and nothing is written, where something cannot pay.
        """
        name, who = _name(account, "account"), _name(analyst, "analyst")
        _check_statement(statement, text)
        stated, cost = losses.to_json(loss), _cost(loss)  # before anything is locked

        def work(rows: Rows) -> Charge:
            tail = _known(_tail(rows, name), name)
            before = rows.latest_by(name, who)
            total = Spent.from_json(tail.total) + cost
            own = (Spent.from_json(_trusted(before).own) if before else Spent()) + cost
            _check_affordable(_settings_row(rows, name), who, total, own)
            row = self._append(
                rows, tail, name, "charge", who, total.to_json(), own.to_json(), statement, text, stated
            )
            return Charge(row.number, name, who, row.when, statement, text, loss, total, own, row.hash)

        return self._store.transact(work)

    def accounts(self) -> list[str]:
        """The names of all accounts, in order."""
        return [head.account for head in self._store.transact(lambda rows: rows.heads())]

    def budget(self, account: str) -> Budget:
        """The budget in force."""
        return self._settings(account)[0]

    def caps(self, account: str) -> dict[str, Budget]:
        """The caps in force, by analyst."""
        return dict(self._settings(account)[1])

    def spent(self, account: str, *, analyst: str | None = None) -> Spent:
        """What was spent from the account: by everybody, or by one analyst."""

        def work(rows: Rows) -> str:
            tail = _known(_tail(rows, account), account)
            own = tail if analyst is None else rows.latest_by(account, analyst)
            return _NOTHING if own is None else _trusted(own).total if analyst is None else _trusted(own).own

        return Spent.from_json(self._store.transact(work))

    def charges(self, account: str) -> list[Charge]:
        """All charges to the account, in order."""
        return [Charge.of(row) for row in self.history(account) if row.kind == "charge"]

    def history(self, account: str) -> Iterator[Row]:
        """Every row of the account as it is stored, amendments included, in order."""
        return self._walk(account, self.head(account).number)

    def head(self, account: str) -> Head:
        """Where the account's chain ends now: worth publishing, see `verify`."""
        return self._store.transact(lambda rows: _head(_known(_tail(rows, account), account), rows))

    def remember(self, key: str, charge_number: int, answer: bytes) -> None:
        """Keep the answer that this charge paid for, so that the same question is free from now on.

        The first answer under a key stays. The same bytes again are fine; others are a `LedgerConflict`: recall instead.
        """
        name, number = _name(key, "key"), integer(charge_number, "charge_number", at_least=1)
        if not isinstance(answer, bytes):
            raise InvalidParameter("answer", type(answer).__name__, "bytes")

        def work(rows: Rows) -> None:
            kept, paid = rows.kept(name), rows.after(number - 1, limit=1)
            if kept is not None and kept[1] != answer:
                raise LedgerConflict("another answer is kept under this key; recall it instead of answering again")
            if not paid or (paid[0].number, paid[0].kind) != (number, "charge"):
                raise InvalidParameter("charge_number", number, "the number of a charge", "charge first, then answer")
            if kept is None:
                rows.keep(name, number, answer)

        self._store.transact(work)

    def recall(self, key: str) -> bytes | None:
        """The answer kept under this key, or None. Free."""
        kept = self._store.transact(lambda rows: rows.kept(key))
        return None if kept is None else kept[1]

    def verify(self, account: str | None = None, *, published: Iterable[Head] = ()) -> Verification:
        """Walk the chain of one account, or of all; recompute every hash and, from the losses, every total.

        `published` are heads that were made public before. What only they can show is said at the top of this module.
        A ledger in use may be verified: rows appended meanwhile are left for the next time.
        """
        last, kept = self._store.transact(lambda rows: (rows.last(), rows.heads()))
        heads = {head.account: head for head in kept if account in (None, head.account)}
        witnesses = {head.number: head for head in published if account in (None, head.account)}
        chains: dict[str, _Chain] = {}
        good = 0
        number: int | None = None
        try:
            for row in self._walk(account, last):
                number = row.number
                _demand(account is not None or number == good + 1, f"row {good + 1} is missing")
                chains.setdefault(row.account, _Chain()).step(row, witnesses.pop(number, None))
                good += 1
            number = None
            _check_ends(heads, chains, witnesses)
            if account is not None:
                _known(chains.get(account), account)
        except LedgerDamaged as error:
            where = "" if number is None else f"row {number}: "
            return Verification(good, tuple(heads.values()), where + str(error), number)
        return Verification(good, tuple(heads.values()))

    def _settings(self, account: str) -> tuple[Budget, Mapping[str, Budget]]:
        def work(rows: Rows) -> str:
            _known(_tail(rows, account), account)
            return _settings_row(rows, account).settings or ""

        return _settings(self._store.transact(work))

    def _walk(self, account: str | None, until: int) -> Iterator[Row]:
        """Rows in order, a page at a time, so that charges go on meanwhile."""
        number = 0
        while page := self._store.transact(lambda rows, n=number: rows.after(n, limit=_PAGE, account=account)):
            yield from (row for row in page if row.number <= until)
            number = page[-1].number
            if number >= until:
                return

    def _append(
        self,
        rows: Rows,
        tail: Row | None,
        account: str,
        kind: Kind,
        who: str,
        total: str,
        own: str = _NOTHING,
        statement: str | None = None,
        text: str | None = None,
        loss: str | None = None,
        settings: str | None = None,
        why: str | None = None,
    ) -> Row:
        when, clock = _time(self._clock, tail)
        row = Row(
            rows.last() + 1, account, kind, who, when, clock, statement, text, loss, settings, why, total, own
        ).sealed(tail.hash if tail else GENESIS)
        rows.append(row)
        return row


def digest(text: str) -> str:
    """What a charge states about the text of a statement: SHA-256, in hexadecimal.

    >>> digest("SELECT 1")[:16]
    'e004ebd5b5532a4b'
    """
    return hashlib.sha256(words(text, "text", "the text of a statement").encode()).hexdigest()


# One chain, walked


@dataclass
class _Chain:
    """What the rows so far say: everything that the next row must agree with."""

    length: int = 0
    number: int = 0
    hash: str = GENESIS
    when: str = ""
    settings: str = ""
    total: Spent = field(default_factory=Spent)
    own: dict[str, Spent] = field(default_factory=dict)

    def step(self, row: Row, witness: Head | None) -> None:
        """Go on to the next row; `LedgerDamaged` says in words what is wrong with it."""
        _demand(row.version == VERSION, f"it has the form {row.version}, this version of discreet knows {VERSION}")
        _demand(row.intact, "its hash does not fit its fields: the row was edited")
        _demand(row.previous == self.hash, "it does not follow the row before it: a row was removed, added or moved")
        _demand(row.when >= self.when, "it is dated before the row before it")
        _demand((row.kind == "open") == (self.length == 0), "an account is opened by its first row, and only by that")
        try:
            self._count(row)
        except LedgerDamaged:
            raise
        except DiscreetError as error:
            raise LedgerDamaged(f"it cannot be read: {error}") from None
        self.length, self.number, self.hash, self.when = self.length + 1, row.number, row.hash, row.when
        same = witness is None or witness == Head(row.account, self.length, row.number, row.hash)
        _demand(same, "it is not the row that was published as a head: the chain was rewritten")

    def _count(self, row: Row) -> None:
        if row.kind != "charge":
            self.settings = row.settings or ""
            _settings(self.settings)
            _demand(row.total == self.total.to_json(), "it changes the total without a charge")
            return
        _check_statement(row.statement or "", row.text)
        charge, cost, own = Charge.of(row), _cost(losses.from_json(row.loss or "")), self.own.get(row.who, Spent())
        _demand(_agrees(charge.total, self.total, cost), "its total is not the total before it plus its loss")
        _demand(_agrees(charge.own, own, cost), "its analyst's total is not the one before it plus its loss")
        budget, caps = _settings(self.settings)
        affordable = budget.allows(charge.total) and (row.who not in caps or caps[row.who].allows(charge.own))
        _demand(affordable, "it exceeds the budget or the cap in force")
        self.total, self.own[row.who] = charge.total, charge.own


def _agrees(after: Spent, before: Spent, cost: Spent) -> bool:
    """Whether after = before + cost: exact but for Rényi totals, floats once, that may differ in the last bits."""
    expected = before + cost
    near = all(
        a == b or (a is not None and b is not None and c is not None and abs(a - b) <= 2 + (c >> 30))
        for a, b, c in zip(after.renyi, expected.renyi, cost.renyi, strict=True)
    )
    return near and (after.epsilon, after.delta) == (expected.epsilon, expected.delta)


def _check_ends(heads: Mapping[str, Head], chains: Mapping[str, _Chain], witnesses: Mapping[int, Head]) -> None:
    """Chains end where their heads say, and whatever was published was met on the way."""
    for name in sorted({*heads, *chains}):
        chain, head = chains.get(name, _Chain()), heads.get(name)
        end = Head(name, chain.length, chain.number, chain.hash)
        kept = f"its head says {head.length} rows up to row {head.number}" if head else "its head is missing"
        found = f"account {name!r} has {end.length} rows up to row {end.number}, but {kept}"
        _demand(head == end, f"{found}: rows were removed from, or added to, its end")
    for witness in witnesses.values():
        raise LedgerDamaged(f"row {witness.number} of account {witness.account!r} was published as a head and is missing")


def _demand(holds: bool, otherwise: str) -> None:
    if not holds:
        raise LedgerDamaged(otherwise)
