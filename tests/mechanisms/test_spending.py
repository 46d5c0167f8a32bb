"""A budget that the releases charge: nothing is released that it cannot pay, and no charge is forgotten."""

import copy
import math
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import pytest

from discreet.errors import BudgetExceeded, InvalidParameter, NoGuarantee
from discreet.mechanisms import Geometric, Laplace, PlanarLaplace
from discreet.noise import DeterministicEntropy, Entropy
from discreet.privacy import Budget, GaussianNoise, Loss, Pure, Spending, Spent


class Watched:
    """A mechanism that remembers whether it looked at a value, and what had been charged by then."""

    def __init__(self, loss: Loss, budget: Spending, *, fails: bool = False) -> None:
        self.loss, self.budget, self.fails = loss, budget, fails
        self.seen: list[Spent] = []

    def release(self, value: Any, /, *, entropy: Entropy | None = None) -> Any:
        self.seen.append(self.budget.spent)
        if self.fails:
            raise ZeroDivisionError
        return value

    def interval(self, confidence: object) -> None:
        return None


def test_a_release_is_charged_before_the_value_is_seen() -> None:
    budget = Spending(Budget(epsilon=1))
    watched = Watched(Pure("0.4"), budget)
    assert budget.release(watched, "x") == "x"
    assert watched.seen == [Spent.by(Pure("0.4"))]
    assert budget.spent == Spent.by(Pure("0.4"))


def test_what_cannot_be_paid_is_not_released_and_not_charged() -> None:
    budget = Spending(Budget(epsilon=1))
    watched = Watched(Pure("0.4"), budget)
    for _ in range(2):
        budget.release(watched, "x")
    with pytest.raises(BudgetExceeded, match=r"0\.8|1\.2"):
        budget.release(watched, "x")
    assert len(watched.seen) == 2
    assert budget.spent.epsilon == Fraction(4, 5)
    assert budget.release(Watched(Pure("0.2"), budget), "y") == "y"  # what is left can still be spent


def test_a_release_that_fails_was_paid() -> None:
    budget = Spending(Budget(epsilon=1))
    with pytest.raises(ZeroDivisionError):
        budget.release(Watched(Pure("0.4"), budget, fails=True), "x")
    assert budget.spent.epsilon == Fraction(2, 5)


def test_it_is_the_filter_of_the_budget() -> None:
    """With δ, many small releases cost less than their sum; the totals are those of `Budget.charge`."""
    filter_ = Budget(epsilon=1, delta="1e-6")
    budget, spent = Spending(filter_), Spent()
    for _ in range(60):
        budget.charge(GaussianNoise(60))
        spent = filter_.charge(spent, GaussianNoise(60))
    assert budget.spent == spent
    assert math.isfinite(filter_.epsilon_of(budget.spent))


def test_threads_together_do_not_overspend() -> None:
    budget = Spending(Budget(epsilon=1))
    watched = Watched(Pure("0.01"), budget)

    def ask(_: int) -> bool:
        try:
            budget.release(watched, 1)
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        paid = sum(pool.map(ask, range(300)))
    assert paid == len(watched.seen) == 100
    assert budget.spent.epsilon == 1


def test_mechanisms_release_as_without_a_budget() -> None:
    count = Geometric(epsilon="0.5", sensitivity=1)
    budget = Spending(Budget(epsilon=1))
    ours = budget.release(count, 10, entropy=DeterministicEntropy(7))
    assert ours == count.release(10, entropy=DeterministicEntropy(7))
    assert str(budget) == "ε 0.5 of ε 1, δ 0 spent"
    assert repr(budget) == "<Spending: ε 0.5 of ε 1, δ 0 spent>"


def test_what_has_no_epsilon_is_refused() -> None:
    budget = Spending(Budget(epsilon=1))
    place = PlanarLaplace(epsilon="0.7", unit="km", granularity="0.001")
    with pytest.raises(NoGuarantee, match="within"):
        budget.release(place, (0.0, 0.0))
    assert budget.spent == Spent()


def test_it_is_not_copied() -> None:
    budget = Spending(Budget(epsilon=1))
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="twice"):
            copying(budget)


def test_another_process_may_not_spend_it(monkeypatch: pytest.MonkeyPatch) -> None:
    budget = Spending(Budget(epsilon=1))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(InvalidParameter, match="process"):
        budget.release(Laplace(epsilon="0.1", sensitivity=1, granularity=1), 5)


@pytest.mark.parametrize("bad", [0, 1, "ε 1", Spent()])
def test_only_a_budget_is_a_budget(bad: object) -> None:
    with pytest.raises(InvalidParameter, match="budget"):
        Spending(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [None, 1, Pure(1), "laplace"])
def test_only_a_mechanism_is_released(bad: object) -> None:
    budget = Spending(Budget(epsilon=1))
    with pytest.raises(InvalidParameter, match="mechanism"):
        budget.release(bad, 5)  # type: ignore[arg-type]
    assert budget.spent == Spent()
