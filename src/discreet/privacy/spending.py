"""What is spent outside a curator, added up: a `with` block that counts every fit made in it.

>>> from discreet.privacy.loss import Pure
>>> with Spending() as spending:
...     for _ in range(3):
...         with paying(Pure("0.1")):
...             pass  # a release
>>> spending.losses, spending.guarantee(delta=0).epsilon
((Pure(epsilon=Fraction(1, 10)), Pure(epsilon=Fraction(1, 10)), Pure(epsilon=Fraction(1, 10))), 0.3...)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Self

from discreet.errors import InvalidInput
from discreet.exact import Number
from discreet.privacy.accounting import Guarantee, guarantee
from discreet.privacy.budget import Spent
from discreet.privacy.loss import Loss, Together

_ACTIVE: list["Spending"] = []
_LOCK = Lock()


class Spending:
    """Counts what estimators, and `choose`, spend within a `with` block, in every thread of this process.

    A grid search over k settings and f folds is k·f trainings on overlapping rows, and one more on all of them: the
    model it returns says what its own training cost, this says what all of them did. Blocks may be nested; each counts.

    Guarantee: everything released within the block costs `Together(*losses)`. Proof. A fit is entered before it begins,
    with the (ε, δ) that it may cost at most, and its true cost takes that place when it has ended; a fit that was
    interrupted stays as it was entered. Fits in other processes cannot be counted, and are refused.
    """

    def __init__(self) -> None:
        self._entries: dict[int, Loss] = {}
        self._begun = 0

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was spent, in the order in which it was begun."""
        with _LOCK:
            return tuple(self._entries.values())

    @property
    def spent(self) -> Spent:
        """The totals, for `Budget.allows`: they hold even if what was spent next depended on results."""
        total = Spent()
        for loss in self.losses:
            total = total.plus(loss)
        return total

    def guarantee(self, *, delta: Number) -> Guarantee:
        """The (ε, δ) of all of it together, if what was run did not depend on results, as in a grid search."""
        return guarantee(Together(*self.losses), delta=delta)

    def _next(self) -> int:
        self._begun += 1
        return self._begun

    def __enter__(self) -> Self:
        with _LOCK:
            _ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            _ACTIVE.remove(self)


def counting() -> bool:
    """Whether a block is open.

    >>> counting()
    False
    """
    return bool(_ACTIVE)


@contextmanager
def paying(most: Loss) -> Iterator[Callable[[Loss], None]]:
    """Enter what a release costs at most, before it is made; the function that it gives takes the true cost.

    A release that was refused (`InvalidInput`) was not made, and is taken out again. Every other failure stays.
    """
    with _LOCK:
        places = [(spending, spending._next()) for spending in _ACTIVE]

        def enter(loss: Loss) -> None:
            for spending, place in places:
                spending._entries[place] = loss

        enter(most)
    try:
        yield enter
    except InvalidInput:
        with _LOCK:
            for spending, place in places:
                del spending._entries[place]
        raise
