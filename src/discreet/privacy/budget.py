"""The budget of a dataset, and the filter that decides whether it can pay.

Analysts choose the next question after seeing the last answer, and its cost too, so totals computed as if the plan had
been fixed in advance prove nothing. What holds is a *privacy filter*: keep totals, refuse what would pass the limit.

**δ = 0.** Pure ε's add up; refuse when the sum would exceed ε (Rogers, Roth, Ullman, Vadhan 2016, the basic filter).

**δ > 0.** δ is split once, when the budget is made: `delta_for_keys` for what is additive (key selection, (ε,δ)
releases) and the rest for noise. The totals are the sum of additive δ's, the sum of pure ε's, and the Rényi totals over
the fixed orders of `accounting.rdp.ORDERS`. A charge passes if additive δ's stay within their part, and either the pure
sum stays within ε, or some order α stays within its limit Bα, the largest total that converts to (ε, δα), where Σ δα is
the noise part of δ.

Guarantee: whatever the analysts do, everything released together is (ε, δ)-DP.

Proof. Let τ be the end of the interaction and let Eα be the event that α is the first order whose total is within its
limit at τ (E∞: the pure sum is). These events cut up the transcripts. Compare with an interaction that stops as soon as
the total of that one order would pass Bα: it is a Rényi filter of order α (Feldman, Zrnic 2021; with additive δ's:
Whitehouse, Ramdas, Rogers, Wu 2023), so it is (ε, δα)-DP apart from the additive δ's. Totals only grow, so on Eα both
interactions are the same, and P(S ∩ Eα) − e^ε·Q(S ∩ Eα) ≤ δα for every event S; on E∞ it is at most 0. Add up:
P(S) − e^ε·Q(S) ≤ Σ δα, and the additive δ's, within their part in every transcript, add at most that part. (Letting the
best order win without sharing δ among the orders has no such proof: which order wins depends on the answers.)

The share δα falls with the cube of the distance from the order at which a budget buys the most Gaussian noise, so the
order that usually wins pays little for the others.
"""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import floor, inf, log
from operator import add
from threading import Lock
from typing import Any, NoReturn, Self

import numpy as np

from discreet.errors import BudgetExceeded, InvalidInput, InvalidParameter, NoGuarantee, UnknownLoss
from discreet.exact import Number, float_down, float_up, plain, rational, text_down, text_up
from discreet.fields import DisplayMixin
from discreet.privacy.accounting import Guarantee, composition, guarantee, rdp
from discreet.privacy.accounting.rounding import short_up
from discreet.privacy.loss import Loss, Pure, Together

_GRAIN = 1 << 40
_EXACT = 1 << 53  # grains below this are a float, exactly
_LEAST_DELTA = Fraction(1, 10**280)  # what is less would be shared in floats that have lost their digits
_MOST = Fraction(10**300)
_LARGEST_TOTAL = 1e280
_NINE_DIGITS = 1 + Fraction(1, 10**9)
_GRID = "orders-1"
"""Names `rdp.ORDERS`; a different grid needs another name, so that stored totals are never misread."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What has been spent, as totals that only grow: exact sums, no floats.

    A sum of so many unlike fractions that it would grow beyond what a ledger can hold is rounded up to 60 digits.
    `renyi` counts in units of 2^−40, each charge rounded up; None means without bound.

    >>> from discreet.privacy.loss import Pure
    >>> Spent().plus(Pure("0.1")).plus(Pure("0.2")).epsilon
    Fraction(3, 10)
    """

    epsilon: Fraction | None = Fraction(0)
    delta: Fraction = Fraction(0)
    renyi: tuple[int | None, ...] = (0,) * len(rdp.ORDERS)

    def __post_init__(self) -> None:
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", rational(self.epsilon, "epsilon", at_least=0))
        object.__setattr__(self, "delta", rational(self.delta, "delta", at_least=0))
        renyi = self.renyi if isinstance(self.renyi, tuple) else ()
        if len(renyi) != len(rdp.ORDERS) or not all(v is None or (type(v) is int and v >= 0) for v in renyi):
            expected = f"{len(rdp.ORDERS)} whole numbers ≥ 0 or None, one for each order"
            raise InvalidParameter("renyi", "other totals", expected, "make totals with Spent().plus(loss)")

    @classmethod
    def by(cls, loss: Loss) -> "Spent":
        """What one release of this loss adds, rounded up: computed before a ledger is locked."""
        curve = rdp.curve(loss)
        return cls(_short(_pure_part(loss)), short_up(curve.delta), _grains(curve.values))

    def __add__(self, more: "Spent") -> "Spent":
        epsilon = None if self.epsilon is None or more.epsilon is None else _short(self.epsilon + more.epsilon)
        try:
            renyi: tuple[int | None, ...] = tuple(map(add, self.renyi, more.renyi))
        except TypeError:  # some are without bound
            both = zip(self.renyi, more.renyi, strict=True)
            renyi = tuple(None if a is None or b is None else a + b for a, b in both)
        total = object.__new__(Spent)  # sums of totals are totals: they are not looked at again
        for name, value in (("epsilon", epsilon), ("delta", short_up(self.delta + more.delta)), ("renyi", renyi)):
            object.__setattr__(total, name, value)
        return total

    def plus(self, loss: Loss) -> "Spent":
        """The totals after one more release of this loss."""
        return self + Spent.by(loss)

    def covers(self, other: "Spent") -> bool:
        """Whether no budget takes less for these totals than for others; nine digits are compared.

        >>> from discreet.privacy.loss import GaussianNoise
        >>> Spent.by(GaussianNoise(2)).covers(Spent.by(GaussianNoise(3))), Spent().covers(Spent.by(GaussianNoise(3)))
        (True, False)
        """
        mine, others = ((spent.epsilon, spent.delta, *spent.renyi) for spent in (self, other))
        return all(a is None or (b is not None and b <= a * _NINE_DIGITS) for a, b in zip(mine, others, strict=True))

    def to_json(self) -> str:
        """One line of JSON, exact."""
        epsilon = None if self.epsilon is None else plain(self.epsilon)
        document = {"grid": _GRID, "epsilon": epsilon, "delta": plain(self.delta), "renyi": self.renyi}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "Spent":
        """Read totals back; another grid of orders, or anything not understood, is refused."""
        try:
            document = json.loads(text, object_pairs_hook=_unique, parse_float=_refuse, parse_constant=_refuse)
            if set(document) != {"grid", "epsilon", "delta", "renyi"} or document["grid"] != _GRID:
                raise UnknownLoss("these totals were written by another version of discreet")
            renyi = tuple(document["renyi"])
            if len(renyi) != len(rdp.ORDERS) or not all(v is None or (type(v) is int and v >= 0) for v in renyi):
                raise UnknownLoss("these totals do not have one whole number for each order")
            epsilon = document["epsilon"]
            return cls(
                None if epsilon is None else rational(epsilon, "epsilon", at_least=0),
                rational(document["delta"], "delta", at_least=0),
                renyi,
            )
        except (ValueError, TypeError, RecursionError) as error:
            raise UnknownLoss(f"these totals cannot be read: {error}") from None


@dataclass(frozen=True, slots=True)
class Budget(DisplayMixin):
    """(ε, δ) for everything that is ever released from one dataset, and the filter that enforces it.

    `delta_for_keys` is the part of δ for additive losses (key selection); half of δ unless stated.

    >>> from discreet.privacy.loss import Pure
    >>> budget = Budget(epsilon=1)
    >>> spent = budget.charge(Spent(), Pure("0.7"))
    >>> budget.charge(spent, Pure("0.7"))
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this release needs more than is left: ...
    """

    epsilon: Fraction
    delta: Fraction
    delta_for_keys: Fraction

    def __init__(self, *, epsilon: Number, delta: Number = 0, delta_for_keys: Number | None = None) -> None:
        object.__setattr__(self, "epsilon", rational(epsilon, "epsilon", above=0))
        object.__setattr__(self, "delta", rational(delta, "delta", at_least=0, below=1))
        part = self.delta / 2 if delta_for_keys is None else rational(delta_for_keys, "delta_for_keys", at_least=0)
        if part > self.delta:
            raise InvalidParameter("delta_for_keys", delta_for_keys, f"at most delta = {plain(self.delta)}")
        object.__setattr__(self, "delta_for_keys", part)

    def allows(self, spent: Spent) -> bool:
        """Whether these totals are within the budget."""
        if spent.delta > self.delta_for_keys:
            return False
        if spent.epsilon is not None and spent.epsilon <= self.epsilon:
            return True
        return any(
            now is not None and now <= most
            for now, most in zip(spent.renyi, _limits(self.epsilon, self.delta - self.delta_for_keys), strict=True)
        )

    def allows_pure(self, spent: Spent, epsilon: Fraction) -> bool:
        """Whether these totals and those of one more ε-DP release are within the budget.

        >>> from discreet.privacy.loss import Pure
        >>> budget, spent = Budget(epsilon=1), Spent.by(Pure("0.7"))
        >>> budget.allows_pure(spent, Fraction(3, 10)), budget.allows_pure(spent, Fraction(31, 100))
        (True, False)
        """
        total = None if spent.epsilon is None else _short(spent.epsilon + short_up(epsilon))
        if total is not None and total <= self.epsilon and spent.delta <= self.delta_for_keys:
            return True  # the plain sum decides: the curve of the loss need not be known
        return self.allows(spent.plus(Pure(epsilon)))

    def charge(self, spent: Spent, loss: Loss) -> Spent:
        """The totals after this release, or `BudgetExceeded`. Pure: whoever keeps the totals must keep the result.

        `Spending` keeps them for you.
        """
        if not isinstance(spent, Spent):
            raise InvalidParameter("spent", spent, "the totals so far", "start with Spent(); pass on what is returned")
        after = spent.plus(loss)
        if not self.allows(after):
            raise BudgetExceeded(
                f"this release needs more than is left: it would bring the total to {self.describe(after)}, "
                f"and the budget is {self.describe_limit()}; ask for less, or accept more noise"
            )
        return after

    def epsilon_of(self, spent: Spent) -> float:
        """The least ε at which these totals would still be allowed, with this budget's δ; inf if none."""
        if spent.delta > self.delta_for_keys:
            return inf
        least = self._least(spent)
        return float_up(least) if isinstance(least, Fraction) else least

    def _least(self, spent: Spent) -> Fraction | float:
        """As `epsilon_of`; the exact sum where that is the least."""
        candidates: list[Fraction | float] = [inf if spent.epsilon is None else spent.epsilon]
        conversions = _conversions(self.epsilon, self.delta - self.delta_for_keys)
        for now, conversion in zip(spent.renyi, conversions, strict=True):
            if now is not None and conversion is not None:
                total = now / _GRAIN if now < _EXACT else float_up(Fraction(now, _GRAIN))
                candidates.append(max(0.0, total + conversion))
        return min(candidates)

    def rough_epsilon_after(self, spent: Spent) -> Callable[[float], float]:
        """About `epsilon_of(spent.plus(Pure(x)))`, as a function of x in floats: where to look, and no guarantee.

        >>> from discreet.privacy.loss import GaussianNoise, Pure
        >>> budget, spent = Budget(epsilon=3, delta="1e-6"), Spent.by(GaussianNoise(2))
        >>> rough, exact = budget.rough_epsilon_after(spent)(0.25), budget.epsilon_of(spent.plus(Pure("0.25")))
        >>> abs(rough - exact) < 1e-10
        True
        """
        orders, conversions = np.array(rdp.ORDERS), _conversions(self.epsilon, self.delta - self.delta_for_keys)
        totals = zip(spent.renyi, conversions, strict=True)
        before = np.array([inf if now is None or more is None else now / _GRAIN + more for now, more in totals])
        added = inf if spent.epsilon is None else float(spent.epsilon)
        return lambda x: min(added + x, max(0.0, float(np.min(before + rdp.response(x, orders)))))

    def describe(self, spent: Spent) -> str:
        """The totals in words."""
        epsilon = inf if spent.delta > self.delta_for_keys else self._least(spent)
        of = f"{text_up(spent.delta, 3)} of {text_down(self.delta_for_keys, 3)}"
        return (f"ε {text_up(epsilon, 10)}" if epsilon < inf else "no finite ε") + (
            f", additive δ {of}" if spent.delta else ""
        )

    def describe_limit(self) -> str:
        """The budget in words."""
        return f"ε {plain(self.epsilon)}" + (f", δ {plain(self.delta)}" if self.delta else ", δ 0")


def _pure_part(loss: Loss) -> Fraction | None:
    """The pure ε of a loss (of the ε in an (ε,δ) loss, whose δ is counted apart), or None where there is none."""
    try:
        return composition.pure(loss, additive_delta=True)
    except NoGuarantee:
        return None


def _short(epsilon: Fraction | None) -> Fraction | None:
    """A total that a ledger can write and read back, not below this one; None where it is beyond all bounds."""
    return None if epsilon is None or epsilon > _MOST else short_up(epsilon)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a field is given twice")
    return dict(pairs)


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"totals are exact, written as text; got {text}")


def _grains(values: Sequence[float]) -> tuple[int | None, ...]:
    """In units of 2^−40, rounded up: scaling a float by a power of two is exact."""
    with np.errstate(over="ignore"):
        grains = np.ceil(np.array(values) * _GRAIN).tolist()
    return tuple(None if value > _LARGEST_TOTAL else int(grain) for value, grain in zip(values, grains, strict=True))


@lru_cache(maxsize=64)
def _limits(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """Bα for each order, in grains, rounded down; −1 where the order cannot be used."""
    return tuple(
        max(-1, floor((epsilon - Fraction(_conversion(order, share))) * _GRAIN)) if share else -1
        for order, share in zip(rdp.ORDERS, _shares(epsilon, delta), strict=True)
    )


@lru_cache(maxsize=64)
def _shares(epsilon: Fraction, delta: Fraction) -> tuple[float, ...]:
    """δα for each order, summing to at most δ: ∝ 1/(1 + d)³ at d orders from the one that buys the most noise."""
    if delta < _LEAST_DELTA:
        return (0.0,) * len(rdp.ORDERS)
    room = [(float(min(epsilon, _MOST)) - _conversion(order, float(delta))) / order for order in rdp.ORDERS]
    best = room.index(max(room))
    weights = [1 / (1 + abs(i - best)) ** 3 for i in range(len(room))]
    most = float_down(delta) * (1 - 1e-12) / sum(weights)
    return tuple(weight * most for weight in weights)


@lru_cache(maxsize=64)
def _conversions(epsilon: Fraction, delta: Fraction) -> tuple[float | None, ...]:
    """`_conversion` for each order at its δα; None where the order cannot be used."""
    shares = zip(rdp.ORDERS, _shares(epsilon, delta), strict=True)
    return tuple(_conversion(order, share) if share else None for order, share in shares)


def _conversion(order: float, delta: float) -> float:
    """ε − (Rényi total) at this order and δ, rounded up: Canonne, Kamath, Steinke 2020, Proposition 12."""
    exact = log((order - 1) / order) - (log(delta) + log(order)) / (order - 1)
    return exact + 1e-12 * (1 + abs(exact))


_ACTIVE: list["Spending"] = []
_LOCK = Lock()


class Spending:
    """What is spent in this process, without a ledger: releases charge themselves, fits are counted in a `with` block.

    With a `Budget` it is a filter: what cannot be paid is refused before it is made. Without one it only adds up. A
    grid search over k settings and f folds is k·f trainings on overlapping rows, and one more on all of them: the model
    it returns says what its own training cost, this says what all of them did. Fits and `choose` are counted within the
    block, in every thread of this process. Blocks may be nested; each counts.

    Guarantee: everything released through it costs `Together(*losses)`; with a budget it is (ε, δ)-DP for it, however
    releases were chosen. Proof. A release is entered, under a lock, before it is made, and only if `Budget.charge`
    allows the totals after it: this is the privacy filter. A fit is entered with the (ε, δ) that it may cost at most,
    and its true cost, a matter of settings, takes that place when it has ended; one that was interrupted stays as it
    was entered. There are no refunds: whether a release failed may depend on the data. Fits in other processes cannot
    be counted, and are refused.

    It lives as long as the process. What must outlive it, or is shared, belongs into a ledger (`discreet.open`).

    >>> from discreet.mechanisms import Geometric
    >>> spending, count = Spending(Budget(epsilon=1)), Geometric(epsilon="0.7", sensitivity=1)
    >>> released = spending.release(count, 100)
    >>> print(spending)
    ε 0.7 of ε 1, δ 0 spent
    >>> spending.release(count, 100)
    Traceback (most recent call last):
    discreet.errors.BudgetExceeded: this release needs more than is left: ...
    """

    def __init__(self, budget: Budget | None = None) -> None:
        if budget is not None and not isinstance(budget, Budget):
            raise InvalidParameter("budget", budget, "a Budget, such as Budget(epsilon=1), or none")
        self._budget, self._process = budget, os.getpid()
        self._losses: dict[int, Loss] = {}
        self._ended, self._begun = Spent(), 0
        self._pending: dict[int, Loss] = {}

    @property
    def budget(self) -> Budget | None:
        """What everything together may cost."""
        return self._budget

    @property
    def losses(self) -> tuple[Loss, ...]:
        """What was spent, in the order in which it was begun."""
        with _LOCK:
            return tuple(self._losses.values())

    @property
    def spent(self) -> Spent:
        """The totals, for `Budget.allows`: they hold even if what was spent next depended on results."""
        with _LOCK:
            return self._totals()

    def guarantee(self, *, delta: Number) -> Guarantee:
        """The (ε, δ) of all of it together, if what was run did not depend on results, as in a grid search."""
        return guarantee(Together(*self.losses), delta=delta)

    def release(self, mechanism: Any, value: Any, /, *, entropy: Any = None) -> Any:
        """Charge one release of this mechanism, then make it; `BudgetExceeded` where that cannot be paid."""
        if not hasattr(mechanism, "loss") or not callable(getattr(mechanism, "release", None)):
            raise InvalidParameter("mechanism", type(mechanism).__name__, "a mechanism, such as Laplace(...)")
        self.charge(mechanism.loss)
        return mechanism.release(value, entropy=entropy)

    def charge(self, loss: Loss) -> None:
        """Charge what is released by other means: call it before the release."""
        with _LOCK:
            self._end(self._begin(loss), loss)

    def _totals(self) -> Spent:
        total = self._ended
        for loss in self._pending.values():
            total = total.plus(loss)
        return total

    def _begin(self, most: Loss) -> int:
        """The place of a release that costs at most this, if it can be paid."""
        if os.getpid() != self._process:
            raise InvalidParameter(
                "budget", "one of another process", "a budget of this process", "two copies would spend it twice"
            )
        if self._budget is None:
            self._totals().plus(most)  # what has no ε is refused
        else:
            self._budget.charge(self._totals(), most)
        self._begun += 1
        self._losses[self._begun] = self._pending[self._begun] = most
        return self._begun

    def _end(self, place: int, loss: Loss | None) -> None:
        """The true cost of a release that was made; None: it was refused, and not made."""
        del self._pending[place]
        if loss is None:
            del self._losses[place]
        else:
            self._losses[place], self._ended = loss, self._ended.plus(loss)

    def __enter__(self) -> Self:
        with _LOCK:
            _ACTIVE.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        with _LOCK:
            _ACTIVE.remove(self)

    def __str__(self) -> str:
        if self._budget is None:
            return f"{len(self.losses)} releases"
        return f"{self._budget.describe(self.spent)} of {self._budget.describe_limit()} spent"

    def __repr__(self) -> str:
        return f"<Spending: {self}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Spending cannot be copied or pickled: two copies would spend the same budget twice")


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
    places: list[tuple[Spending, int]] = []

    def end(loss: Loss | None) -> None:
        with _LOCK:
            while places:
                spending, place = places.pop()
                spending._end(place, loss)

    try:
        with _LOCK:
            for spending in _ACTIVE:
                place = spending._begin(most)
                places.append((spending, place))
    except BaseException:
        end(None)  # one of the budgets cannot pay, so nothing is released
        raise
    try:
        yield end
    except InvalidInput:
        end(None)
        raise
