"""The ledger: what has been spent, by whom, on what. The one stateful privacy object.

An account (one for each dataset) has a budget, and caps for single analysts where the owner wants them. A charge is
checked and appended in one serialized, durable transaction, *before* a private row is read. There are no refunds.

Guarantee: when `charge` returns, the charge is durable, and the totals of everything ever charged to the account, this
charge included, are within its budget; so all that was released is as private as `privacy.budget` says.
Proof. Works of a store run one after another, so the row that `charge` reads as the account's last is the last. Its
total covers all charges before it: an opening's total is nothing, and each charge appends the total before it plus its
own cost, rounded up. A row is appended only if the budget and the cap allow the new totals, and the store makes it
durable before it returns. A crash between commit and return wastes the charge: it is counted and not used. (An amended
budget is a new promise by the owner: the guarantee is that of the budget in force when the charge was made.)

What a hash chain can show: `verify` finds rows that were edited, removed, inserted, moved or cut off, and answers that
were replaced, by accident or by somebody who did not rewrite everything after them. `open` verifies a chain that is not
long, and every work derives the totals of the rows that it builds on again from their losses. What a chain cannot show
without a witness outside: that somebody with write access put back an older copy of the whole file, removed it, or
rewrote a chain from some row to its end, head included. `discreet.curator.witness` is one, which `open` asks; a head
that was published and is given to `verify` is another.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from discreet.curator.charges import (
    NOTHING,
    Charge,
    Derived,
    Totals,
    check_affordable,
    check_allowance,
    check_answer,
    cost_of,
    own_total,
    read_total,
    spent_since,
    written_total,
)
from discreet.curator.settings import (
    NO_LIMIT,
    Allowance,
    Settings,
    analyst_name,
    in_words,
    protection_of,
    same_settings,
    settings_of,
    settings_text,
)
from discreet.curator.stores import (
    ANSWER_KEY,
    MOST,
    WHAT_TO_DO,
    CachedAnswer,
    Clock,
    Head,
    LedgerStore,
    Row,
    Rows,
    SystemClock,
    Verification,
    check_ends,
    check_statement,
    digest,
    require_undamaged,
    tail,
    trusted,
    utc,
)
from discreet.curator.witness import Witness, check_marks, check_sightings
from discreet.errors import InvalidParameter, LedgerConflict, LedgerDamaged
from discreet.exact import integer
from discreet.noise.entropy import SYSTEM
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss
from discreet.privacy.unit import words

__all__ = ["Charge", "Head", "Ledger", "Verification", "digest"]

T = TypeVar("T")

_PAGE = 500
_DAY = timedelta(days=1)
_SALT_BYTES = 32
_CHEAP, _TAIL = 1000, 100
"""A chain of up to so many rows is verified whole when it is opened; of a longer one, its last rows."""


class Ledger:
    """Append-only, hash-chained charges for each account.

    >>> from discreet.curator.stores.memory import MemoryStore
    >>> from discreet.privacy.loss import Pure
    >>> ledger = Ledger(MemoryStore())
    >>> ledger.open("clinic", Budget(epsilon=1), caps={"bob": Budget(epsilon="0.5")}, everyone=Budget(epsilon=1))
    >>> ledger.charge("clinic", analyst="ann", statement=digest("SELECT 1"), loss=Pure("0.7")).number
    2
    >>> ledger.charge("clinic", analyst="ann", statement=digest("SELECT 2"), loss=Pure("0.7"))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: the budget of 'clinic' cannot pay: ... total to ε 1.4, ε 0.4 more than ...
    >>> ledger.spent("clinic").epsilon, bool(ledger.verify())
    (Fraction(7, 10), True)
    """

    def __init__(self, store: LedgerStore, *, clock: Clock | None = None, witness: Witness | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._witness = witness
        self._derived = Derived()
        self._salts: dict[str, bytes] = {}

    def open(
        self,
        account: str,
        budget: Budget,
        *,
        caps: Mapping[str, Budget] | None = None,
        everyone: Budget | None = None,
        protects: str = "",
    ) -> None:
        """Create the account, or confirm that it has just these settings. Only `amend` changes them.

        `everyone` is the cap of each analyst without one; where it is left out and others have caps, such analysts are
        refused. `protects` says in words who is protected against what: a budget for persons is not one for rows.
        Raises `LedgerDamaged` where the chain is not what was once written, or not what the witness saw.
        """
        name, marks = _name(account, "account"), self._witness.digests if self._witness else []
        settings = settings_text(budget, caps or {}, protects, everyone=everyone)
        seen = self._witness.sightings() if self._witness else []  # before rows are read: these may become more

        def work(rows: Rows) -> Head | None:
            last = self._tail(rows, name, charges=_TAIL)
            check_sightings(rows, name, seen)
            if last is None:
                check_marks(rows, marks)
                first = settings_text(budget, caps or {}, protects, everyone=everyone, marks=marks)
                self._append(rows, None, Row(name, "open", NOTHING, NOTHING, settings=first))
                _salt(rows, name)
            elif not same_settings(current := _settings_in_force(rows, name), settings):
                raise LedgerConflict(
                    f"account {name!r} is open with {in_words(current)}; got {in_words(settings)}; "
                    "open it with its own settings, or change them on record with amend"
                )
            return rows.head(name)

        self._verify_if_cheap(name)
        if self._witness is not None:
            self._witness.prepare()
        self._note(self._store.transact(work))

    def amend(
        self,
        account: str,
        *,
        budget: Budget | None = None,
        caps: Mapping[str, Budget] | None = None,
        everyone: Budget | None = None,
        protects: str | None = None,
        by: str,
        why: str,
    ) -> None:
        """Change settings as an act on record. Below what is spent, it blocks further charges.

        `caps` are all caps together, with that of `everyone`: without them, those in force stay.
        """
        if budget is None and caps is None and everyone is None and protects is None:
            raise InvalidParameter("budget", None, "a new budget, or new caps", "nothing would change")
        self._amend(account, budget, caps, everyone, protects, by=by, why=why)

    def _amend(
        self,
        account: str,
        budget: Budget | None = None,
        caps: Mapping[str, Budget] | None = None,
        everyone: Budget | None = None,
        protects: str | None = None,
        *,
        by: str,
        why: str,
    ) -> Head:
        who, reason = _name(by, "by"), _name(why, "why")

        def work(rows: Rows, last: Row) -> Head | None:
            current = _settings_in_force(rows, account)
            old = settings_of(current)
            protected = protection_of(current) if protects is None else protects
            rest = old.everyone if caps is None and everyone is None else everyone
            new = settings_text(budget or old.budget, old.caps if caps is None else caps, protected, everyone=rest)
            self._append(rows, last, Row(account, "amend", last.total, NOTHING, who, settings=new, why=reason))
            return rows.head(account)

        self._note(head := self._at(account, work))
        return _existing(head, account)

    def charge(
        self,
        account: str,
        *,
        analyst: str,
        statement: str,
        loss: Loss,
        text: str | None = None,
        allowance: Allowance = NO_LIMIT,
        request: str | None = None,
    ) -> Charge:
        """Check that the budget and the analyst's cap can pay, and charge: durable when this returns, never undone.

        `statement` is `digest(text)`; the text itself is kept for the owner's eyes where it is given. The analyst is
        written as names are compared (`analyst_name`), so that no other spelling escapes a cap. `allowance` narrows
        what this caller may spend; `request` names the request that the charge is for (`requests`).
        Raises `BudgetExceeded`, and nothing is written, where something cannot pay.
        """
        terms: dict[str, Any] = {"text": text, "allowance": allowance, "request": request}
        return self.buy(None, account, analyst=analyst, statement=statement, loss=loss, **terms)[0]

    def buy(
        self,
        key: str | None,
        account: str,
        *,
        analyst: str,
        statement: str,
        loss: Loss,
        text: str | None = None,
        allowance: Allowance = NO_LIMIT,
        request: str | None = None,
    ) -> tuple[Charge, bytes | None]:
        """The answer kept under this key and the charge that paid for it; or else a new charge, and None, in one step.

        As `recall`, and then `charge`; but of those who ask the same at once, none pays for what another has kept.
        """
        name = None if key is None else _name(key, "key")
        who = analyst_name(analyst)
        check_statement(statement, text)
        if not isinstance(loss, Loss):
            raise InvalidParameter("loss", loss, "a Loss", "a mechanism states its own: mechanism.loss")
        named = None if request is None else _name(request, "request")
        stated, cost = cost_of(loss)  # before anything is locked

        def work(rows: Rows, last: Row) -> tuple[Charge, bytes | None, Head | None]:
            if name is not None and (kept := _recalled(rows, name)) is not None:
                return *kept, None
            total, own = read_total(last.total) + cost, own_total(rows, account, who) + cost
            settings = settings_of(_settings_in_force(rows, account))
            check_affordable(account, settings, who, total, own)
            check_allowance(rows, account, who, allowance, own, cost, utc(self._clock.now() - _DAY))
            totals = (written_total(total), written_total(own))
            draft = Row(account, "charge", *totals, who, statement, text, stated, why=named)
            row = self._append(rows, last, draft)
            facts = (row.number, account, who, row.when, statement, text, loss, total, own, row.hash, named)
            return Charge(*facts, settings.budget), None, rows.head(account) if self._witness else None

        charge, kept, head = self._at(account, work)
        self._note(head)
        return charge, kept

    def record(self, account: str, *, by: str, why: str) -> Head:
        """Put an owner's act that changes no setting on record: a token that was made or revoked, a head published."""
        return self._amend(account, by=by, why=why)

    def requests(self, account: str, *, since: datetime) -> dict[tuple[str, str], Charge]:
        """The charges since a time that were made for a named request, by analyst and request."""
        result, number = dict[tuple[str, str], Charge](), MOST
        while page := self._store.transact(partial(_page_before, number=number, account=account, since=utc(since))):
            for row in page:
                if row.kind == "charge" and row.why is not None:
                    result.setdefault((row.who, row.why), Charge.of(row))
            number = page[-1].number
        return result

    def accounts(self) -> list[str]:
        """The names of all accounts, in order."""
        return [head.account for head in self._store.transact(lambda rows: rows.heads())]

    def settings(self, account: str) -> Settings:
        """The budget and the caps in force."""
        return settings_of(self._at(account, lambda rows, _: _settings_in_force(rows, account)))

    def budget(self, account: str) -> Budget:
        """The budget in force."""
        return self.settings(account).budget

    def caps(self, account: str) -> dict[str, Budget]:
        """The caps in force, by analyst."""
        return dict(self.settings(account).caps)

    def standing(self, account: str) -> tuple[Budget, Spent]:
        """The budget in force, and what was spent of it."""

        def work(rows: Rows, last: Row) -> tuple[Budget, Spent]:
            return settings_of(_settings_in_force(rows, account)).budget, read_total(last.total)

        return self._at(account, work)

    def spent(self, account: str, *, analyst: str | None = None) -> Spent:
        """What was spent from the account: by everybody, or by one analyst."""
        if analyst is None:
            return self._at(account, lambda _, last: read_total(last.total))
        who = analyst_name(analyst)
        return self._at(account, lambda rows, _: own_total(rows, account, who))

    def spent_in_a_day(self, account: str, *, analyst: str) -> Spent:
        """What an analyst spent in the last 24 hours."""
        who = analyst_name(analyst)
        return self._at(account, lambda rows, _: spent_since(rows, account, who, utc(self._clock.now() - _DAY)))

    def charges(self, account: str) -> list[Charge]:
        """All charges to the account, in order."""
        return [Charge.of(row) for row in self.history(account) if row.kind == "charge"]

    def history(self, account: str) -> Iterator[Row]:
        """Every row of the account as it is stored, amendments included, in order."""
        return self._walk(account, self.head(account).number)

    def head(self, account: str) -> Head:
        """Where the account's chain ends now: worth publishing, see `verify`."""
        return _existing(self._at(account, lambda rows, _: rows.head(account)), account)

    def salt(self, account: str) -> bytes:
        """The secret of the account, 32 random bytes that never change. It must not leave the curator.

        It seeds draws that must be the same each time and yet be foreseen by nobody: which rows of a person count.
        """
        if account not in self._salts:
            self._salts[account] = self._at(account, lambda rows, _: _salt(rows, account))
        return self._salts[account]

    def remember(self, key: str, charge_number: int, answer: bytes) -> None:
        """Keep the answer that this charge paid for, so that the same question is free from now on.

        A row of the chain seals it. The first answer under a key stays: the same bytes again are fine, others are a
        `LedgerConflict`.
        """
        name, number = _name(key, "key"), integer(charge_number, "charge_number", at_least=1, at_most=2**62)
        if not isinstance(answer, bytes):
            raise InvalidParameter("answer", type(answer).__name__, "bytes")

        def work(rows: Rows) -> Head | None:
            kept, paid = rows.cached(name), rows.row(number)
            if kept is not None and kept.answer != answer:
                raise LedgerConflict("another answer is cached under this key; recall it instead of answering again")
            if paid is None or paid.kind != "charge":
                raise InvalidParameter("charge_number", number, "the number of a charge", "charge first, then answer")
            if kept is None:
                last = _existing(self._tail(rows, paid.account), paid.account)
                seal = CachedAnswer(name, number, 0, answer).seal
                draft = Row(paid.account, "answer", last.total, NOTHING, statement=seal, why=str(number))
                rows.cache(CachedAnswer(name, number, self._append(rows, last, draft).number, answer))
            return rows.head(paid.account)

        self._note(self._store.transact(work))

    def recall(self, key: str) -> tuple[Charge, bytes] | None:
        """The answer kept under this key and the charge that paid for it, or None. Free.

        Raises `LedgerDamaged` where the answer is not the one that its row of the chain seals.
        """
        return self._store.transact(partial(_recalled, key=_name(key, "key")))

    def verify(self, account: str | None = None, *, published: Iterable[Head] = ()) -> Verification:
        """Walk the chain of one account, or of all; recompute every hash, every total from the losses, every seal.

        `published` are heads that were made public before. What only they can show is said at the top of this module.
        A ledger in use may be verified: rows appended meanwhile are left for the next time.
        """
        verdict, last = self._verify_chains(account, published)
        if not verdict:
            return verdict
        number = outdated = 0
        try:
            while answer := self._store.transact(partial(_next_answer, number=number)):
                if (number := answer.row) > last:
                    break
                outdated += not answer.key.startswith(ANSWER_KEY)
        except LedgerDamaged as error:
            return replace(verdict, trouble=str(error), number=None)
        return replace(verdict, unsealed=self._store.transact(lambda rows: rows.unsealed()), outdated=outdated)

    def _verify_chains(self, account: str | None, published: Iterable[Head]) -> tuple[Verification, int]:
        """What a walk along the rows found, and the number of the last row that it covered."""
        last, kept = self._store.transact(lambda rows: (rows.last(), rows.heads()))
        heads = {head.account: head for head in kept if account in (None, head.account)}
        public: dict[int, set[Head]] = {}
        for head in published:
            if account in (None, head.account):
                public.setdefault(head.number, set()).add(head)
        totals: dict[str, Totals] = {}
        good, number = 0, 0
        try:
            for row in self._walk(account, last):
                number = row.number
                require_undamaged(
                    account is not None or number == good + 1, f"row {good + 1}, which goes before it, is missing"
                )
                totals.setdefault(row.account, Totals()).step(row, public.pop(number, set()))
                good += 1
            number = 0
            check_ends(heads, {name: total.chain for name, total in totals.items()}, set().union(*public.values()))
        except LedgerDamaged as error:
            where = f"row {number}: " if number else ""
            return Verification(good, tuple(heads.values()), where + str(error), number or None), last
        if account is not None:
            _existing(totals.get(account), account)
        return Verification(good, tuple(heads.values())), last

    def _verify_if_cheap(self, account: str) -> None:
        """Walk the chain of an account that exists and is not long; otherwise its last rows are checked when read."""
        head = self._store.transact(lambda rows: rows.head(account))
        if head is None or head.length > _CHEAP:
            return
        verdict, _ = self._verify_chains(account, ())
        if not verdict:
            raise LedgerDamaged(f"{verdict.trouble}; {WHAT_TO_DO}")

    def _tail(self, rows: Rows, account: str, *, charges: int = 1) -> Row | None:
        """The last row of the account, intact and with totals that follow from the losses; None where it has none.

        Of what other processes charged since, the last charge is enough: whoever wrote it derived the one before.
        """
        last = tail(rows, account)
        if last is not None:
            self._derived.check(rows, last, most=_TAIL, charges=charges)
        return last

    def _note(self, head: Head | None) -> None:
        """Tell the witness how far the chain has come, once that is durable."""
        if self._witness is not None and head is not None:
            self._witness.record(head)

    def _at(self, account: str, work: Callable[[Rows, Row], T]) -> T:
        """Run a work that is given the last row of the account, which exists and is intact."""
        name = _name(account, "account")
        return self._store.transact(lambda rows: work(rows, _existing(self._tail(rows, name), name)))

    def _walk(self, account: str | None, until: int) -> Iterator[Row]:
        """Rows in order, a page at a time, so that charges go on meanwhile."""
        number = 0
        while page := self._store.transact(partial(_page, number=number, account=account)):
            yield from (row for row in page if row.number <= until)
            number = page[-1].number
            if number >= until:
                return

    def _append(self, rows: Rows, last: Row | None, draft: Row) -> Row:
        """Number, date and seal a row. Time never goes back: where the clock did, that is noted."""
        now = utc(self._clock.now())
        behind = last is not None and now < last.when
        when, clock = (last.when, now) if last is not None and behind else (now, None)
        row = draft.sealed(number=rows.last() + 1, when=when, tail=last, clock=clock)
        rows.append(row)
        self._derived.add(row)
        return row


# What a work reads and checks


def _page(rows: Rows, *, number: int, account: str | None) -> Sequence[Row]:
    return rows.after(number, limit=_PAGE, account=account)


def _page_before(rows: Rows, *, number: int, account: str, since: str) -> list[Row]:
    """The last rows of the account before a number that are not older than a time, latest first."""
    page: list[Row] = []
    while len(page) < _PAGE and (row := rows.latest(account, before=number)) and trusted(row).when >= since:
        page.append(row)
        number = row.number
    return page


def _settings_in_force(rows: Rows, account: str) -> str:
    row = rows.settings(account)
    if row is None:
        raise LedgerDamaged(f"account {account!r} has rows but was never opened; verify the ledger")
    return trusted(row).settings or ""


def _recalled(rows: Rows, key: str) -> tuple[Charge, bytes] | None:
    """The answer kept under a key, as its seal says, and the charge that paid for it."""
    kept = rows.cached(key)
    if kept is None:
        return None
    return check_answer(kept, rows.row(kept.charge), rows.row(kept.row)), kept.answer


def _next_answer(rows: Rows, *, number: int) -> CachedAnswer | None:
    """The first kept answer that is sealed by a row of a greater number; `LedgerDamaged` where the seal is broken."""
    kept = rows.next_cached(number)
    if kept is not None:
        check_answer(kept, rows.row(kept.charge), rows.row(kept.row))
    return kept


def _salt(rows: Rows, account: str) -> bytes:
    salt = rows.salt(account)
    if salt is None:
        salt = SYSTEM.words(_SALT_BYTES // 8).tobytes()
        rows.keep_salt(account, salt)
    require_undamaged(
        len(salt) == _SALT_BYTES, f"the salt of account {account!r} was edited; nothing was charged or read"
    )
    return salt


def _existing(value: T | None, account: str) -> T:
    if value is None:
        raise InvalidParameter("account", account, "an account of this ledger", "open it first")
    return value


def _name(value: str, name: str) -> str:
    return words(value, name, "a text that is not empty")
