"""What a client has paid for the runs that it took part in, out of a budget of its own."""

from discreet.curator.ledger import Ledger, digest
from discreet.errors import BudgetExceeded
from discreet.learning.federated.federation import Federation, Level
from discreet.privacy.budget import Budget, Spent

_PROTECTS = {
    "client": "this client with all of its rows; add or remove one",
    "example": "one row of this client; add or remove one",
}


class Account:
    """An account of a client's own ledger, with a budget for all federations that its rows are ever used in.

    level: whom the budget protects; federations of another level are not paid.

    Guarantee: the runs that were paid for, however many and whoever conducted them, are together within the budget, for
    the coordinator and those who work with it (secure sums), or for those who see the models (a trusted coordinator).
    Proof. A charge is the loss of a whole run, and a member answers no more of a run than that (`Member`); the ledger
    is a privacy filter, and charges before anything is answered.

    >>> from discreet.curator.stores.memory import MemoryStore
    >>> from discreet.learning.sgd.recipe import Sgd
    >>> plan = Federation(
    ...     clients=100, rounds=50, level="client", rate="0.1", multiplier=2, clip=1, optimizer=Sgd(1), secure=None
    ... )
    >>> account = Account(Ledger(MemoryStore()), "clinic", budget=Budget(epsilon="2.5", delta="1e-5"), level="client")
    >>> account.pay(plan, bytes(16))
    >>> account.pay(plan, bytes(16))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: the budget of 'clinic' cannot pay: ...
    """

    def __init__(self, ledger: Ledger, name: str, *, budget: Budget, level: Level) -> None:
        ledger.open(name, budget, protects=_PROTECTS[level])
        self._ledger, self._name, self._level = ledger, name, level

    @property
    def spent(self) -> Spent:
        """What all runs so far have cost."""
        return self._ledger.spent(self._name)

    def pay(self, federation: Federation, run: bytes) -> None:
        """Charge one run, durably; `BudgetExceeded` if the budget cannot pay, and nothing is written."""
        if federation.level != self._level:
            told = f"this account is for level {self._level!r}, the federation is of level {federation.level!r}"
            raise BudgetExceeded(f"{told}; open another account for it")
        loss = federation.loss_to_coordinator if federation.secure else federation.loss
        text = f"{federation.words()}; run {run.hex()}"
        self._ledger.charge(self._name, analyst="federation", statement=digest(text), loss=loss, text=text)
