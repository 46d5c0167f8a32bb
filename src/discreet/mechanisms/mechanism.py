"""What a mechanism is: noise, cost and error on one screen; and a budget in memory that pays for releases."""

import os
from fractions import Fraction
from threading import Lock
from typing import Any, NoReturn, Protocol

from discreet.errors import InvalidParameter
from discreet.exact import Number, float_up, plain, rational
from discreet.noise import Entropy
from discreet.noise.sampler import LARGEST
from discreet.privacy.budget import Budget, Spent
from discreet.privacy.loss import Loss


class Mechanism(Protocol):
    """How a value is released. Settings are public; `release` is the only method that sees a private value.

    Without an `entropy`, all noise comes from the operating system's (`noise.SystemEntropy`).
    """

    @property
    def loss(self) -> Loss:
        """What one release costs."""
        ...

    def release(self, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        """The private release."""
        ...

    def interval(self, confidence: Number) -> Any:
        """How far the release can be from the truth, with at least this probability; each mechanism says in what.

        It is for each number of a release by itself, however many there are. For m of them together ask for
        1 − (1 − confidence)/m, which holds all by the union bound. Mechanisms that choose speak of their one choice;
        those whose error depends on how many candidates, answers, reports or records there are ask for that.
        """
        ...


def failure_probability(confidence: Number) -> Fraction:
    """1 − confidence, for 0 < confidence ≤ 1 − 1e-300.

    >>> failure_probability("0.95")
    Fraction(1, 20)
    """
    rest = 1 - rational(confidence, "confidence", above=0, below=1)
    if rest < Fraction(1, 10**300):
        raise InvalidParameter("confidence", confidence, "at most 1 − 1e-300")
    return rest


def drawable(scale: Fraction, **settings: int | Fraction) -> None:
    """Refuse settings whose noise would not fit 64 bits: when the mechanism is made, not when it is paid for."""
    if scale > LARGEST:
        given = ", ".join(f"{name}={plain(Fraction(value))}" for name, value in settings.items())
        raise InvalidParameter(
            "noise", f"scale {float_up(scale):.3g} ({given})", "at most 2^52 steps", "use a coarser grid"
        )


def countable(size: float, what: str, *, most: int = 20_000_000) -> None:
    """Refuse to list more probabilities than memory should hold; releasing needs no such list."""
    if size > most:
        raise InvalidParameter(what, f"{size:.3g} numbers", f"at most {most:,}", "look at a smaller case")


class SpendingBudget:
    """A budget that is charged by the releases themselves, so that no charge is forgotten.

    Guarantee: everything released through one of these, together, is (ε, δ)-DP for its budget, however the mechanisms
    and values were chosen. Proof. Each release is charged first, under a lock, and is made only if `Budget.charge`
    allows the totals after it: this is the privacy filter of `privacy.budget`. There are no refunds: whether a release
    failed may depend on the data.

    It lives as long as the process. What must outlive it, or is shared, belongs into a ledger (`discreet.open`).

    >>> from discreet.mechanisms import Geometric
    >>> budget = SpendingBudget(Budget(epsilon=1))
    >>> count = Geometric(epsilon="0.7", sensitivity=1)
    >>> released = budget.release(count, 100)
    >>> print(budget)
    ε 0.7 of ε 1, δ 0 spent
    >>> budget.release(count, 100)
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this release needs more than is left: ...
    """

    def __init__(self, budget: Budget) -> None:
        if not isinstance(budget, Budget):
            raise InvalidParameter("budget", budget, "a Budget, such as Budget(epsilon=1)")
        self._budget, self._spent = budget, Spent()
        self._lock, self._process = Lock(), os.getpid()

    @property
    def budget(self) -> Budget:
        """What everything together may cost."""
        return self._budget

    @property
    def spent(self) -> Spent:
        """What was spent so far."""
        return self._spent

    def release(self, mechanism: Mechanism, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        """Charge one release of this mechanism, then make it; `BudgetExceeded` where that cannot be paid."""
        if not hasattr(mechanism, "loss") or not callable(getattr(mechanism, "release", None)):
            raise InvalidParameter("mechanism", type(mechanism).__name__, "a mechanism, such as Laplace(...)")
        self.charge(mechanism.loss)
        return mechanism.release(value, entropy=entropy)

    def charge(self, loss: Loss) -> None:
        """Charge what is released by other means: call it before the release."""
        if os.getpid() != self._process:
            raise InvalidParameter(
                "budget", "one of another process", "a budget of this process", "two copies would spend it twice"
            )
        with self._lock:
            self._spent = self._budget.charge(self._spent, loss)

    def __str__(self) -> str:
        return f"{self._budget.describe(self._spent)} of {self._budget.describe_limit()} spent"

    def __repr__(self) -> str:
        return f"<SpendingBudget: {self}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SpendingBudget cannot be copied or pickled: two copies would spend the same budget twice")
