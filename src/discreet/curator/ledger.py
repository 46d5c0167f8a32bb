"""The ledger: what has been spent, by whom, on what. The one stateful privacy object.

An account (one for each dataset) has a budget, and caps for single analysts where the owner wants them. A charge is
checked and appended in one serialised, durable transaction, *before* a private row is read. There are no refunds.

Guarantee: when `charge` returns, the charge is durable, and the totals of everything ever charged to the account, this
charge included, are within its budget; so all that was released is as private as `privacy.budget` says.
Proof. Works of a store run one after another, so the row that `charge` reads as the account's last is the last. Its
total covers all charges before it: an opening's total is nothing, and each charge appends the total before it plus its
own cost, rounded up. A row is appended only if the budget and the cap allow the new totals, and the store makes it
durable before it returns. A crash between commit and return wastes the charge: it is counted and not used. (An amended
budget is a new promise by the owner: the guarantee is that of the budget in force when the charge was made.)

What a hash chain can show: `verify` finds rows that were edited, removed, inserted, moved or cut off, by accident or by
somebody who did not rewrite everything after them. What it cannot show without a witness outside: that somebody with
write access put back an older copy of the whole file, or rewrote a chain from some row to its end, head included.
Publish `head(account)` now and then, and give what was published to `verify`: up to that head, this is then found too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import isinf
from typing import TypeVar

from discreet.curator.charges import Charge, Totals, cost_of
from discreet.curator.settings import in_words, protection_of, settings_of, settings_text
from discreet.curator.stores import (
    Clock,
    Head,
    LedgerStore,
    Row,
    Rows,
    SystemClock,
    Verification,
    check_ends,
    check_statement,
    demand,
    digest,
    tail,
    trusted,
    utc,
)
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerConflict, LedgerDamaged
from discreet.exact import float_up, integer
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss
from discreet.privacy.unit import words

__all__ = ["Charge", "Head", "Ledger", "Verification", "digest"]

T = TypeVar("T")

_PAGE = 500
_NOTHING = Spent().to_json()


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

    def open(
        self, account: str, budget: Budget, *, caps: Mapping[str, Budget] | None = None, protects: str = ""
    ) -> None:
        """Create the account, or confirm that it has just these settings. Only `amend` changes them.

        `protects` says in words who is protected against what: a budget for persons is not one for rows.
        """
        name, settings = _name(account, "account"), settings_text(budget, caps or {}, protects)

        def work(rows: Rows) -> None:
            if tail(rows, name) is None:
                self._append(rows, None, Row(name, "open", _NOTHING, _NOTHING, settings=settings))
            elif (current := _settings_in_force(rows, name)) != settings:
                raise LedgerConflict(
                    f"account {name!r} is open with {in_words(current)}; got {in_words(settings)}; "
                    "open it with its own settings, or change them on record with amend"
                )

        self._store.transact(work)

    def amend(
        self,
        account: str,
        *,
        budget: Budget | None = None,
        caps: Mapping[str, Budget] | None = None,
        protects: str | None = None,
        by: str,
        why: str,
    ) -> None:
        """Change settings as an act on record; all caps together. Below what is spent, it blocks further charges."""
        who, reason = _name(by, "by"), _name(why, "why")
        if budget is None and caps is None and protects is None:
            raise InvalidParameter("budget", None, "a new budget, or new caps", "nothing would change")

        def work(rows: Rows, last: Row) -> None:
            current = _settings_in_force(rows, account)
            old_budget, old_caps = settings_of(current)
            protected = protection_of(current) if protects is None else protects
            new = settings_text(budget or old_budget, old_caps if caps is None else caps, protected)
            self._append(rows, last, Row(account, "amend", last.total, _NOTHING, who, settings=new, why=reason))

        self._at(account, work)

    def charge(self, account: str, *, analyst: str, statement: str, loss: Loss, text: str | None = None) -> Charge:
        """Check that the budget and the analyst's cap can pay, and charge: durable when this returns, never undone.

        `statement` is `digest(text)`; the text itself is kept for the owner's eyes where it is given.
        Raises `BudgetExceeded`, and nothing is written, where something cannot pay.
        """
        who = _name(analyst, "analyst")
        check_statement(statement, text)
        if not isinstance(loss, Loss):
            raise InvalidParameter("loss", loss, "a Loss", "a mechanism states its own: mechanism.loss")
        stated, cost = cost_of(loss)  # before anything is locked

        def work(rows: Rows, last: Row) -> Charge:
            total, own = _read(last.total) + cost, _own(rows, account, who) + cost
            _check_affordable(account, settings_of(_settings_in_force(rows, account)), who, total, own)
            draft = Row(account, "charge", _written(total), _written(own), who, statement, text, stated)
            row = self._append(rows, last, draft)
            return Charge(row.number, account, who, row.when, statement, text, loss, total, own, row.hash)

        return self._at(account, work)

    def accounts(self) -> list[str]:
        """The names of all accounts, in order."""
        return [head.account for head in self._store.transact(lambda rows: rows.heads())]

    def budget(self, account: str) -> Budget:
        """The budget in force."""
        return settings_of(self._at(account, lambda rows, _: _settings_in_force(rows, account)))[0]

    def caps(self, account: str) -> dict[str, Budget]:
        """The caps in force, by analyst."""
        return dict(settings_of(self._at(account, lambda rows, _: _settings_in_force(rows, account)))[1])

    def spent(self, account: str, *, analyst: str | None = None) -> Spent:
        """What was spent from the account: by everybody, or by one analyst."""
        if analyst is None:
            return self._at(account, lambda _, last: _read(last.total))
        who = _name(analyst, "analyst")
        return self._at(account, lambda rows, _: _own(rows, account, who))

    def charges(self, account: str) -> list[Charge]:
        """All charges to the account, in order."""
        return [Charge.of(row) for row in self.history(account) if row.kind == "charge"]

    def history(self, account: str) -> Iterator[Row]:
        """Every row of the account as it is stored, amendments included, in order."""
        return self._walk(account, self.head(account).number)

    def head(self, account: str) -> Head:
        """Where the account's chain ends now: worth publishing, see `verify`."""
        return _known(self._at(account, lambda rows, _: rows.head(account)), account)

    def remember(self, key: str, charge_number: int, answer: bytes) -> None:
        """Keep the answer that this charge paid for, so that the same question is free from now on.

        The first answer under a key stays: the same bytes again are fine, others are a `LedgerConflict`.
        """
        name, number = _name(key, "key"), integer(charge_number, "charge_number", at_least=1, at_most=2**62)
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

    def recall(self, key: str) -> tuple[Charge, bytes] | None:
        """The answer kept under this key and the charge that paid for it, or None. Free."""
        name = _name(key, "key")

        def work(rows: Rows) -> tuple[Charge, bytes] | None:
            kept = rows.kept(name)
            if kept is None:
                return None
            paid = rows.after(kept[0] - 1, limit=1)
            demand(bool(paid) and paid[0].number == kept[0], f"row {kept[0]}, which paid for an answer, is missing")
            return Charge.of(paid[0]), kept[1]

        return self._store.transact(work)

    def verify(self, account: str | None = None, *, published: Iterable[Head] = ()) -> Verification:
        """Walk the chain of one account, or of all; recompute every hash and, from the losses, every total.

        `published` are heads that were made public before. What only they can show is said at the top of this module.
        A ledger in use may be verified: rows appended meanwhile are left for the next time.
        """
        last, kept = self._store.transact(lambda rows: (rows.last(), rows.heads()))
        heads = {head.account: head for head in kept if account in (None, head.account)}
        public: dict[int, set[Head]] = {}
        for head in published:
            if account in (None, head.account):
                public.setdefault(head.number, set()).add(head)
        found: dict[str, Totals] = {}
        good, number = 0, 0
        try:
            for row in self._walk(account, last):
                number = row.number
                demand(account is not None or number == good + 1, f"row {good + 1}, which goes before it, is missing")
                found.setdefault(row.account, Totals()).step(row, public.pop(number, set()))
                good += 1
            number = 0
            check_ends(heads, {name: one.chain for name, one in found.items()}, set().union(*public.values()))
        except LedgerDamaged as error:
            where = f"row {number}: " if number else ""
            return Verification(good, tuple(heads.values()), where + str(error), number or None)
        if account is not None:
            _known(found.get(account), account)
        return Verification(good, tuple(heads.values()))

    def _at(self, account: str, work: Callable[[Rows, Row], T]) -> T:
        """Run a work that is given the last row of the account, which exists and is intact."""
        name = _name(account, "account")
        return self._store.transact(lambda rows: work(rows, _known(tail(rows, name), name)))

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
        return row


# What a work reads and checks


def _page(rows: Rows, *, number: int, account: str | None) -> Sequence[Row]:
    return rows.after(number, limit=_PAGE, account=account)


def _settings_in_force(rows: Rows, account: str) -> str:
    row = rows.settings(account)
    if row is None:
        raise LedgerDamaged(f"account {account!r} has rows but was never opened; verify the ledger")
    return trusted(row).settings or ""


def _own(rows: Rows, account: str, analyst: str) -> Spent:
    row = rows.latest_by(account, analyst)
    return Spent() if row is None else _read(trusted(row).own)


def _check_affordable(
    account: str, settings: tuple[Budget, Mapping[str, Budget]], who: str, total: Spent, own: Spent
) -> None:
    budget, caps = settings
    limits = [(f"the budget of {account!r}", budget, total)]
    limits += [(f"the cap of {who!r} in {account!r}", caps[who], own)] if who in caps else []
    for what, limit, after in limits:
        if not limit.allows(after):
            raise BudgetExceeded(
                f"{what} cannot pay: this release would bring the total to {limit.describe(after)}, "
                f"{_excess(limit, after)} more than {limit.describe_limit()}; ask for less, or accept more noise"
            )


def _excess(limit: Budget, after: Spent) -> str:
    if after.delta > limit.delta_for_keys:
        return f"additive δ {float_up(after.delta - limit.delta_for_keys):.3g}"
    epsilon = limit.epsilon_of(after)
    if isinf(epsilon):
        return "without bound"
    least = Fraction(epsilon) if after.epsilon is None else min(Fraction(epsilon), after.epsilon)
    return f"ε {float_up(max(least - limit.epsilon, Fraction(0))):.3g}"


def _known(found: T | None, account: str) -> T:
    if found is None:
        raise InvalidParameter("account", account, "an account of this ledger", "open it first")
    return found


def _name(value: str, name: str) -> str:
    return words(value, name, "a text that is not empty")


_RECENT: dict[str, Spent] = {}
"""Totals just written, by their text: the next charge reads them back."""


def _written(total: Spent) -> str:
    if len(_RECENT) > 1000:
        _RECENT.clear()
    text = total.to_json()
    _RECENT[text] = total
    return text


def _read(text: str) -> Spent:
    return _RECENT.get(text) or Spent.from_json(text)
