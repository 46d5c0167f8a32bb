"""A charge as a row states it, and what charges add up to along a chain, derived again from their losses."""

from dataclasses import dataclass, field
from functools import lru_cache

from discreet.curator.settings import settings_of
from discreet.curator.stores import Chain, Head, Row, check_statement, demand
from discreet.errors import InvalidParameter, LedgerDamaged, NoGuarantee, UnknownLoss
from discreet.privacy import loss as losses
from discreet.privacy.budget import Spent
from discreet.privacy.loss import Loss


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

    def step(self, row: Row, published: set[Head]) -> None:
        """Go on to the next row; `LedgerDamaged` says in words what is wrong with it."""
        self.chain.step(row, published)
        try:
            self._count(row) if row.kind == "charge" else self._set(row)
        except (InvalidParameter, UnknownLoss, NoGuarantee) as error:
            raise LedgerDamaged(f"it cannot be read: {error}") from None

    def _set(self, row: Row) -> None:
        self.settings = row.settings or ""
        settings_of(self.settings)
        demand(row.total == self.total.to_json(), "it changes the total without a charge")

    def _count(self, row: Row) -> None:
        check_statement(row.statement or "", row.text)
        charge, own = Charge.of(row), self.own.get(row.who, Spent())
        _, cost = cost_of(charge.loss)
        demand(_agrees(charge.total, self.total, cost), "its total is not the total before it plus its loss")
        demand(_agrees(charge.own, own, cost), "its analyst's total is not the one before it plus its loss")
        budget, caps = settings_of(self.settings)
        affordable = budget.allows(charge.total) and (row.who not in caps or caps[row.who].allows(charge.own))
        demand(affordable, "it exceeds the budget or the cap in force")
        self.total, self.own[row.who] = charge.total, charge.own


def _agrees(after: Spent, before: Spent, cost: Spent) -> bool:
    """Whether after = before + cost: exact but for Rényi totals, floats once, that may differ in the last bits."""
    expected = before + cost
    near = all(
        a == b or (a is not None and b is not None and c is not None and abs(a - b) <= 2 + (c >> 30))
        for a, b, c in zip(after.renyi, expected.renyi, cost.renyi, strict=True)
    )
    return near and (after.epsilon, after.delta) == (expected.epsilon, expected.delta)
