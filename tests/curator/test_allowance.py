"""What one caller may spend beside the owner's settings, and requests that the record knows again."""

import threading
from datetime import UTC, datetime, timedelta

import pytest

from discreet.curator.ledger import Ledger, digest
from discreet.curator.settings import Allowance
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure


class SetClock:
    def __init__(self):
        self.time = datetime(2026, 11, 18, tzinfo=UTC)

    def now(self):
        return self.time


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def ledger(clock):
    made = Ledger(MemoryStore(), clock=clock)
    made.open("clinic", Budget(epsilon=10), everyone=Budget(epsilon=8))
    return made


def charge(ledger, epsilon, analyst="ann", **more):
    return ledger.charge("clinic", analyst=analyst, statement=digest("q"), loss=Pure(epsilon), **more)


def test_an_allowance_narrows_what_the_cap_grants(ledger):
    narrow = Allowance(total=Budget(epsilon=1))
    charge(ledger, "0.6", allowance=narrow)
    before = ledger.head("clinic")
    with pytest.raises(BudgetExceeded, match="what the token of 'ann' may spend in 'clinic' cannot pay"):
        charge(ledger, "0.6", allowance=narrow)
    assert ledger.head("clinic") == before
    charge(ledger, "0.6")  # another token of the same analyst, without a limit of its own
    assert ledger.verify()


def test_what_was_spent_under_every_spelling_and_token_counts(ledger):
    charge(ledger, "0.9", analyst="ANN")
    with pytest.raises(BudgetExceeded):
        charge(ledger, "0.2", analyst=" ann", allowance=Allowance(total=Budget(epsilon=1)))


def test_an_allowance_does_not_widen(ledger):
    charge(ledger, 8)
    with pytest.raises(BudgetExceeded, match="the cap of 'ann'"):
        charge(ledger, "0.1", allowance=Allowance(total=Budget(epsilon=100)))


def test_a_daily_allowance_counts_24_hours(ledger, clock):
    daily = Allowance(daily=Budget(epsilon=1))
    charge(ledger, "0.5", allowance=daily)
    clock.time += timedelta(hours=12)
    charge(ledger, "0.5", allowance=daily)
    clock.time += timedelta(hours=11, minutes=59)
    with pytest.raises(BudgetExceeded, match="in 24 hours"):
        charge(ledger, "0.1", allowance=daily)
    clock.time += timedelta(minutes=2)  # the first one is a day old
    charge(ledger, "0.5", allowance=daily)
    with pytest.raises(BudgetExceeded):
        charge(ledger, "0.1", allowance=daily)
    charge(ledger, "0.1", analyst="bob", allowance=daily)  # others are others


def test_a_clock_that_goes_back_gives_no_new_day(ledger, clock):
    daily = Allowance(daily=Budget(epsilon=1))
    charge(ledger, 1, allowance=daily)
    clock.time -= timedelta(days=3)
    with pytest.raises(BudgetExceeded):
        charge(ledger, "0.1", allowance=daily)


def test_racing_callers_do_not_pass_an_allowance(ledger):
    refused = []

    def race():
        for _ in range(5):
            try:
                charge(ledger, "0.1", allowance=Allowance(total=Budget(epsilon=1), daily=Budget(epsilon=1)))
            except BudgetExceeded:
                refused.append(1)

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (ledger.spent("clinic", analyst="ann").epsilon, len(refused)) == (1, 30)


def test_requests_are_found_again_by_analyst_and_name(ledger, clock):
    first = charge(ledger, "0.1", request="r1")
    charge(ledger, "0.1")
    clock.time += timedelta(days=2)
    other = charge(ledger, "0.1", analyst="bob", request="r1")
    since = clock.time - timedelta(days=1)
    found = ledger.requests("clinic", since=since)
    assert {name: made.number for name, made in found.items()} == {("bob", "r1"): other.number}
    everything = ledger.requests("clinic", since=since - timedelta(days=5))
    assert everything["ann", "r1"] == first
    assert everything["ann", "r1"].request == "r1"
    assert ledger.verify()


def test_the_name_of_a_request_is_part_of_the_chain(ledger):
    row = next(row for row in [*ledger.history("clinic"), None] if row is not None)
    assert row.kind == "open"
    charge(ledger, "0.1", request="r1")
    *_, last = ledger.history("clinic")
    from dataclasses import replace

    assert last.why == "r1"
    assert not replace(last, why="r2").intact


def test_acts_of_the_owner_are_on_record_and_change_nothing(ledger):
    settings = ledger.settings("clinic")
    head = ledger.record("clinic", by="olga", why="revoked token 0123 of ann")
    *_, last = ledger.history("clinic")
    assert (last.kind, last.who, last.why, last.number) == ("amend", "olga", "revoked token 0123 of ann", head.number)
    assert ledger.settings("clinic") == settings
    assert ledger.verify()


def test_an_act_does_not_bring_back_a_budget_that_was_amended_meanwhile(ledger, monkeypatch):
    """It was read in one transaction and written in another: what was amended in between was undone."""
    stale = ledger.budget("clinic")
    ledger.amend("clinic", budget=Budget(epsilon=1), by="olga", why="less")
    monkeypatch.setattr(ledger, "budget", lambda account: stale)
    ledger.record("clinic", by="olga", why="made token 0123")
    monkeypatch.undo()
    assert ledger.budget("clinic") == Budget(epsilon=1)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_request_needs_a_name(ledger, name):
    with pytest.raises(ValueError, match="request"):
        charge(ledger, "0.1", request=name)
