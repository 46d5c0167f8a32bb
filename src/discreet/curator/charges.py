"""A charge as a row states it, and what charges add up to along a chain, derived again from their losses."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import isinf

from discreet.curator.settings import Allowance, Settings, analyst_name, cap_as_written, settings_of
from discreet.curator.stores import (
    GENESIS,
    MOST,
    WHAT_TO_DO,
    CachedAnswer,
    Chain,
    Head,
    Row,
    Rows,
    check_statement,
    require_undamaged,
    trusted,
)
from discreet.errors import BudgetExceeded, InvalidParameter, LedgerDamaged, NoGuarantee, UnknownLoss
from discreet.exact import float_up, printed_up, text_up
from discreet.privacy import loss as losses
from discreet.privacy.accounting.rounding import crossing, decimal_down, decimal_up
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss, Pure  # noqa: F401 (for the examples)

NOTHING = Spent().to_json()
"""The total of an account that was just opened."""


@dataclass(frozen=True, slots=True)
class Charge:
    """A charge as it was made: `total` and `own` are the account's and the analyst's totals right after it.

    `request` names the request that it was made for, where one was named; `budget` is the one that allowed it, where
    it was made just now.
    """

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
    request: str | None = None
    budget: Budget | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, row: Row) -> "Charge":
        """The charge that a row states."""
        loss, total, own = losses.from_json(row.loss or ""), Spent.from_json(row.total), Spent.from_json(row.own)
        statement = row.statement or ""
        return cls(row.number, row.account, row.who, row.when, statement, row.text, loss, total, own, row.hash, row.why)


@lru_cache(maxsize=4096)
def cost_of(loss: Loss) -> tuple[str, Spent]:
    """A loss as a row states it, and what it adds to a total."""
    return losses.to_json(loss), Spent.by(loss)


@dataclass
class Totals:
    """What the rows of an account say so far: everything that the next one must agree with."""

    chain: Chain = field(default_factory=Chain)
    settings: str = ""
    total: Spent = field(default_factory=Spent)
    own: dict[str, Spent] = field(default_factory=dict)
    spellings: dict[str, Spent] = field(default_factory=dict)  # in rows of form 1, each is another analyst

    def step(self, row: Row, published: set[Head]) -> None:
        """Go on to the next row; `LedgerDamaged` says in words what is wrong with it."""
        self.chain.step(row, published)
        with _readable():
            match row.kind:
                case "charge":
                    self._count(row)
                case "answer":
                    check_seal(row)
                case _:
                    self.settings = row.settings or ""
                    settings_of(self.settings)
        require_undamaged(
            row.kind == "charge" or row.total == self.total.to_json(), "it changes the total without a charge"
        )

    def _count(self, row: Row) -> None:
        check_statement(row.statement or "", row.text)
        settings, old = settings_of(self.settings), row.version == 1
        charge = _derived(row, self.total, self.spellings.get(row.who, Spent()) if old else self._own(row.who))
        cap = cap_as_written(self.settings, row.who) if old else settings.cap_of(row.who)
        affordable = settings.budget.allows(charge.total) and (cap is None or cap.allows(charge.own))
        require_undamaged(affordable, "it exceeds the budget or the cap in force")
        require_undamaged(old or settings.admits(row.who), "its analyst has no cap, and there is none for everyone")
        self.total, (self.spellings if old else self.own)[row.who] = charge.total, charge.own

    def _own(self, who: str) -> Spent:
        """What an analyst had spent before, under every spelling of the name."""
        require_undamaged(analyst_name(who) == who, "its analyst's name is not written as names are compared")
        if who not in self.own:
            earlier = (spent for name, spent in self.spellings.items() if analyst_name(name) == who)
            self.own[who] = sum(earlier, start=Spent())
        return self.own[who]


def own_total(rows: Rows, account: str, analyst: str, *, before: int = MOST) -> Spent:
    """What an analyst (as `analyst_name` writes it) had spent in the account before the row of a number."""
    row = rows.latest_by(account, analyst, before=before)
    if row is not None and trusted(row).version > 1:
        return read_total(row.own)
    opening = rows.after(0, limit=1, account=account)
    if opening and opening[0].version > 1:
        return Spent()  # no row of form 1, in which names were written in any way
    total = Spent()
    for name in rows.spellings(account):
        if analyst_name(name) == analyst and (row := rows.latest_by(account, name, before=before)) is not None:
            total += read_total(trusted(row).own)
    return total


def own_totals(charges: Sequence[Row]) -> dict[str, Spent]:
    """What each analyst has spent after these rows, all charges of an account, in the order of their first charge."""
    result, spellings = {analyst_name(row.who): row for row in charges}, dict[str, Row]()
    for row in charges:
        if row.version == 1:
            spellings[row.who] = row
    totals = {}
    for who, row in result.items():
        earlier = [old for name, old in spellings.items() if analyst_name(name) == who] if row.version == 1 else [row]
        totals[who] = sum((read_total(old.own) for old in earlier), start=Spent())
    return totals


class Derived:
    """The rows of a ledger whose totals this process has derived from their losses, by their hashes.

    Guarantee: a row that `check` accepts has the total of the row before it plus its loss, and so has each row before
    it, back to the opening, a row that was checked before, or until `charges` charges among `most` rows were derived.
    Proof. A row names the hash of the row before it, so what was derived for a hash holds for every row that carries
    it, whatever became of the transaction in which it was seen.
    """

    def __init__(self) -> None:
        self._hashes: dict[str, None] = {}

    def add(self, row: Row) -> None:
        """Remember a row that was derived."""
        if len(self._hashes) >= _MOST_HASHES:
            for old in list(self._hashes)[: _MOST_HASHES // 2]:
                self._hashes.pop(old, None)
        self._hashes[row.hash] = None

    def check(self, rows: Rows, last: Row, *, most: int, charges: int) -> None:
        """Derive the totals of the last rows again; `LedgerDamaged` where one was edited, even with a new hash."""
        row = last
        unseen: list[Row] = []
        while row.hash not in self._hashes and len(unseen) < most and charges > 0:
            unseen.append(row)
            charges -= row.kind == "charge"
            before = rows.latest(row.account, before=row.number)
            try:
                _follows(rows, before, row)
            except LedgerDamaged as error:
                if WHAT_TO_DO in str(error):
                    raise
                raise LedgerDamaged(f"row {row.number} of account {row.account!r}: {error}; {WHAT_TO_DO}") from None
            if before is None:
                break
            row = trusted(before)
        for row in reversed(unseen):
            self.add(row)


_MOST_HASHES = 8192


def _follows(rows: Rows, before: Row | None, row: Row) -> None:
    """Demand that a row follows the one before it, and that its totals are those before it plus its loss."""
    require_undamaged(
        (before is None) == (row.kind == "open"), "an account is opened by its first row, and only by that"
    )
    require_undamaged(
        row.previous == (GENESIS if before is None else before.hash), "it does not follow the row before it"
    )
    total = NOTHING if before is None else before.total
    with _readable():
        if row.kind == "charge":
            own = own_total(rows, row.account, analyst_name(row.who), before=row.number) if row.version > 1 else None
            _derived(row, read_total(total), own)
    require_undamaged(row.kind == "charge" or row.total == total, "it changes the total without a charge")


def _derived(row: Row, total: Spent, own: Spent | None) -> Charge:
    """The charge of a row, if its totals are the given ones, before it, plus its loss."""
    charge = Charge.of(row)
    _, cost = cost_of(charge.loss)
    require_undamaged(_agrees(charge.total, total, cost), "its total is not the total before it plus its loss")
    fits = own is None or _agrees(charge.own, own, cost)
    require_undamaged(fits, "its analyst's total is not the one before it plus its loss")
    return charge


@contextmanager
def _readable() -> Iterator[None]:
    """`LedgerDamaged` where a row holds something that cannot be read."""
    try:
        yield
    except (InvalidParameter, UnknownLoss, NoGuarantee) as error:
        raise LedgerDamaged(f"it cannot be read: {error}") from None


def _agrees(after: Spent, before: Spent, cost: Spent) -> bool:
    """Whether after = before + cost: exact but for Rényi totals, floats once, that may differ in the last bits."""
    expected = before + cost
    near = all(
        a == b or (a is not None and b is not None and c is not None and abs(a - b) <= 2 + (c >> 30))
        for a, b, c in zip(after.renyi, expected.renyi, cost.renyi, strict=True)
    )
    return near and (after.epsilon, after.delta) == (expected.epsilon, expected.delta)


# What can be paid


def check_affordable(account: str, settings: Settings, who: str, total: Spent, own: Spent) -> None:
    """`BudgetExceeded` unless the budget allows the total, and the analyst has a cap that allows the analyst's own."""
    if not settings.admits(who):
        raise BudgetExceeded(
            f"{who!r} has no cap in {account!r}, where only analysts with one may ask; nothing was charged; the owner "
            f"can add [budget.analysts.{who!r}] or [budget.everyone] to the policy"
        )
    _check_limit(f"the budget of {account!r}", settings.budget, total)
    if (cap := settings.cap_of(who)) is not None:
        _check_limit(f"the cap of {who!r} in {account!r}", cap, own)


def check_allowance(
    rows: Rows, account: str, who: str, allowance: Allowance, own: Spent, cost: Spent, day: str
) -> None:
    """`BudgetExceeded` unless an allowance covers the analyst's own total and what was spent since `day`."""
    if allowance.total is not None:
        _check_limit(f"what the token of {who!r} may spend in {account!r}", allowance.total, own)
    if allowance.daily is not None:
        recent = spent_since(rows, account, who, day) + cost
        _check_limit(f"what the token of {who!r} may spend in 24 hours", allowance.daily, recent)


def spent_since(rows: Rows, account: str, who: str, since: str) -> Spent:
    """What an analyst spent since a time."""
    recent, row = Spent(), rows.latest_by(account, who)
    while row is not None and trusted(row).when >= since:
        recent += cost_of(losses.from_json(row.loss or ""))[1]
        row = rows.latest_by(account, who, before=row.number)
    return recent


def _check_limit(what: str, limit: Budget, after: Spent) -> None:
    if not limit.allows(after):
        raise BudgetExceeded(
            f"{what} cannot pay: this release would bring the total to {limit.describe(after)}, "
            f"{_excess(limit, after)} more than {limit.describe_limit()}; ask for less, or accept more noise"
        )


def _excess(limit: Budget, after: Spent) -> str:
    if after.delta > limit.delta_for_keys:
        return f"additive δ {text_up(after.delta - limit.delta_for_keys, 3)}"
    epsilon = limit.epsilon_of(after)
    if isinf(epsilon):
        return "without bound"
    least = Fraction(epsilon) if after.epsilon is None else min(Fraction(epsilon), after.epsilon)
    return f"ε {text_up(max(least - limit.epsilon, Fraction(0)), 3)}"


# Answers


def check_seal(row: Row) -> None:
    """A row that seals an answer has a digest, and names a charge before it."""
    digits = row.why or ""
    names_charge = digits.isascii() and digits.isdigit() and 0 < int(digits) < row.number
    require_undamaged(
        names_charge and len(row.statement or "") == len(GENESIS), "it does not say which answer it seals"
    )


def check_answer(answer: CachedAnswer, paid: Row | None, seal: Row | None) -> Charge:
    """The charge that paid for a kept answer, if the answer is the one that its row seals."""
    what = f"the answer kept for charge #{answer.charge}"
    if paid is None or seal is None or (trusted(paid).kind, trusted(seal).kind) != ("charge", "answer"):
        raise LedgerDamaged(f"{what}: the row that paid for it, or the row that seals it, is missing")
    belongs = (seal.account, seal.why) == (paid.account, str(answer.charge))
    is_sealed = belongs and isinstance(answer.answer, bytes) and answer.seal == seal.statement
    require_undamaged(
        is_sealed, f"{what} is not the one that was released: it was replaced or garbled; nothing was released"
    )
    return Charge.of(paid)


# Totals that were written

_RECENT: dict[str, Spent] = {}
"""Totals just written, by their text: the next charge reads them back."""


def written_total(total: Spent) -> str:
    """A total as a row states it."""
    if len(_RECENT) > 1000:
        _RECENT.clear()
    text = total.to_json()
    _RECENT[text] = total
    return text


def read_total(text: str) -> Spent:
    """The total that a row states."""
    return _RECENT.get(text) or Spent.from_json(text)


# What is left

_BILLION = Fraction(10**9)
_FAR = Fraction(10**100)


def largest_pure(budget: Budget, spent: Spent) -> Fraction:
    """The largest ε that one more ε-DP release could cost, rounded down; 0 where nothing is left.

    Guarantee: where the result is above 0, the budget allows these totals plus `Pure(result)`.
    Proof. Every value but 0 that is returned was tried with `Budget.allows_pure`.

    Exact where the plain sum decides. Where Rényi totals do, found by bisection to 10 digits (each total grows with ε,
    so what is allowed is an interval from 0); there, less than a billionth of the budget counts as nothing.

    >>> largest_pure(Budget(epsilon=1), Spent.by(Pure("0.7")))
    Fraction(3, 10)
    """
    room = Fraction(0) if spent.epsilon is None else max(budget.epsilon - spent.epsilon, Fraction(0))
    exact = room if room and _allowed(budget, spent, room) else Fraction(0)
    if budget.delta == budget.delta_for_keys and exact == room:
        return exact  # there are no Rényi totals to ask
    low = _last_allowed(budget, spent, max(exact, budget.epsilon / _BILLION) * (1 + 1 / _BILLION))
    rounded = decimal_down(low, 10) if low else low
    return next((room for room in (rounded, low) if room > exact and _allowed(budget, spent, room)), exact)


def spent_epsilon(budget: Budget, spent: Spent) -> float:
    """`Budget.epsilon_of`, rounded up as it prints: a plain sum of three tenths is 0.3.

    >>> spent_epsilon(Budget(epsilon=1), Spent.by(Pure("0.1")).plus(Pure("0.2")))
    0.3
    """
    least = budget.epsilon_of(spent)
    if isinf(least):
        return least
    decided_by_sum = spent.epsilon is not None and float_up(spent.epsilon) == least
    return printed_up(spent.epsilon if decided_by_sum and spent.epsilon is not None else Fraction(least))


def _last_allowed(budget: Budget, spent: Spent, low: Fraction) -> Fraction:
    """The end of the interval of allowed ε's, to 10 digits and from below; 0 where even `low` is not in it.

    A root of `rough_epsilon_after` says where to look, and halving with `allows` decides: a bad guess costs time, and
    nothing else.
    """
    if not _allowed(budget, spent, low):
        return Fraction(0)
    high = max(budget.epsilon, 2 * low)
    while _allowed(budget, spent, high) and high < _FAR:
        low, high = high, 2 * high
    guesses = _guesses(budget, spent, low, high)
    while high - low > low / 10**10:
        guess = guesses.pop() if guesses else decimal_up((low + high) / 2, 30)
        if low < guess < high:
            low, high = (guess, high) if _allowed(budget, spent, guess) else (low, guess)
    return low


def _allowed(budget: Budget, spent: Spent, epsilon: Fraction) -> bool:
    return budget.allows_pure(spent, epsilon)


def _guesses(budget: Budget, spent: Spent, low: Fraction, high: Fraction) -> list[Fraction]:
    """A value close below the end of what is allowed, and one close above."""
    if high >= _FAR:
        return []
    limit, reached = float(budget.epsilon), budget.rough_epsilon_after(spent)
    near, _ = crossing(lambda x: reached(x) - limit, float(low), float(high), relative=1e-11)
    return [Fraction(near) * (1 + side / _BILLION / 20) for side in (-1, 1)]
