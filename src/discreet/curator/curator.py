"""The gate: verify → charge → run → answer. The only place where private rows and the budget meet."""

import logging
from dataclasses import dataclass
from typing import TypeVar

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog
from discreet.curator.engines import Engine
from discreet.curator.ledger import Charge, Ledger, digest
from discreet.curator.plan import Plan
from discreet.curator.report import down, largest_pure
from discreet.errors import InternalError, InvalidQuery, LedgerConflict, ReleaseFailed
from discreet.exact import printed_up
from discreet.noise import Entropy
from discreet.privacy.loss import Pure

Result = TypeVar("Result")

OWNER = logging.getLogger("discreet.owner")
"""Where the reasons of failures go, for the owner's eyes: nothing is written unless the owner adds a handler."""
OWNER.addHandler(logging.NullHandler())
OWNER.propagate = False


@dataclass(frozen=True, slots=True)
class Curator:
    """Releases plans over one dataset, each after its charge.

    Guarantee: no private row is read unless a durable charge for the plan's loss is in the ledger; so everything that
    was ever released is as private as the account's budget says (`Ledger`). Proof. `run` is called in one place, after
    `charge` has returned; the loss that is charged is the one that the plan's parts have against this catalog.
    """

    catalog: Catalog
    engine: Engine
    ledger: Ledger
    entropy: Entropy | None = None

    def release(self, plan: Plan[Result], *, analyst: str) -> Result:
        """What the plan releases; free where the same was released before from the same data."""
        if plan.derive(self.catalog) != plan.loss:
            raise InternalError("a plan states another loss than its parts have; nothing was charged or read")
        if not plan.private and plan.loss == Pure(0):
            return plan.finish(b"", self._unpaid(plan, analyst), self.engine)
        kept = self.kept(plan)
        charge, released = kept if kept is not None else self._release(plan, self._key(plan), analyst)
        try:
            return plan.finish(released, self._receipt(plan, charge, free=kept is not None), self.engine)
        except InvalidQuery as error:
            paid = f"what #{charge.number} released is kept, so asking again is free once this is mended"
            raise InvalidQuery(error.problem, f"{error.hint}; {paid}" if error.hint else paid) from None

    def kept(self, plan: Plan[Result]) -> tuple[Charge, bytes] | None:
        """What was released before under this name from the same data, and the charge that paid for it."""
        return self.ledger.recall(self._key(plan))

    def _key(self, plan: Plan[Result]) -> str:
        return digest(f"{self.catalog.name}\n{plan.name}\n{self.engine.version}")

    def _release(self, plan: Plan[Result], key: str, analyst: str) -> tuple[Charge, bytes]:
        account, statement = self.catalog.name, digest(plan.text)
        charge = self.ledger.charge(account, analyst=analyst, statement=statement, loss=plan.loss, text=plan.text)
        released = None
        try:
            released = plan.run(self.engine, self.entropy)
        except Exception:
            OWNER.exception("charge #%d of %s: the release failed", charge.number, charge.account)
        if released is None:  # out of the handler: the exception, which may name private values, is not passed on
            raise ReleaseFailed(
                f"charge #{charge.number} was made, but its release failed; the owner finds the reason under that "
                "number in the log 'discreet.owner'"
            )
        try:
            self.ledger.remember(key, charge.number, released)
        except LedgerConflict:  # somebody asked the same at the same time, and theirs was kept: one answer for both
            kept = self.ledger.recall(key)
            released = released if kept is None else kept[1]
        return charge, released

    def _unpaid(self, plan: Plan[Result], analyst: str) -> Receipt:
        """Of a plan that reads nothing private: no charge, and nothing to recall."""
        left = largest_pure(self.ledger.budget(self.catalog.name), self.ledger.spent(self.catalog.name))
        return Receipt(self.catalog.name, analyst, 0, "", digest(plan.text), plan.loss, 0.0, 0.0, True, down(left))

    def _receipt(self, plan: Plan[Result], charge: Charge, *, free: bool) -> Receipt:
        account = self.catalog.name
        left = largest_pure(self.ledger.budget(account), self.ledger.spent(account))
        return Receipt(
            account, charge.analyst, charge.number, charge.when, charge.statement, charge.loss,
            printed_up(plan.epsilon), printed_up(plan.delta), free, down(left),
        )  # fmt: skip
