"""The person's account: sums, refusals, words, damage, kills, and two processes at one file."""

import contextlib
import json
import multiprocessing
import os
import signal
import time
from datetime import UTC, datetime, timedelta, timezone
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import (
    BudgetExceeded,
    DiscreetError,
    InvalidParameter,
    LedgerConflict,
    LedgerDamaged,
    LedgerTooNew,
    LedgerUnavailable,
    NoGuarantee,
)
from discreet.local.collection import device_account as module
from discreet.local.collection.device_account import DeviceAccount, locked
from discreet.local.collection.memoized import Device, Memoized
from discreet.local.oracles.responses import KRR
from discreet.privacy.loss import Concentrated, LaplaceNoise, PerDistance, Pure, Repeated, Together

F = Fraction
NOON = "2026-11-16T12:00:00+00:00"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "mine.jsonl"


# --- sums and refusals ------------------------------------------------------------------------------------------


def test_what_was_sent_adds_up_and_stops(path):
    account = DeviceAccount(path, epsilon=1)
    for _ in range(3):
        account.charge(Pure("0.3"), survey="commute", sent=2)
    assert (account.spent, account.left) == (F(9, 10), F(1, 10))
    before = path.read_text()
    with pytest.raises(BudgetExceeded, match="nothing was sent"):
        account.charge(Pure("0.10001"), survey="commute", sent=2)
    assert path.read_text() == before
    account.charge(Pure("0.1"), survey="commute", sent=2)  # exactly the rest
    assert account.left == 0
    with pytest.raises(BudgetExceeded):
        account.charge(Pure("1e-12"), survey="commute", sent=2)
    account.charge(Pure(0), survey="commute", sent=2)  # what costs nothing may be sent


@given(st.lists(st.fractions(min_value=0, max_value=1, max_denominator=50), max_size=6))
def test_the_total_is_never_passed(tmp_path_factory, losses):
    account = DeviceAccount(tmp_path_factory.mktemp("a") / "mine.jsonl", epsilon=2)
    total = F(0)
    for loss in losses:
        if total + loss <= 2:
            account.charge(Pure(loss), survey="s", sent=0)
            total += loss
        else:
            with pytest.raises(BudgetExceeded):
                account.charge(Pure(loss), survey="s", sent=0)
    assert account.spent == total <= 2


def test_losses_of_every_pure_kind_are_counted(path):
    account = DeviceAccount(path, epsilon=5)
    account.charge(Repeated(Pure("0.5"), 3), survey="s", sent=[1, 2, 3])
    account.charge(Together(Pure("0.5"), LaplaceNoise(2)), survey="s", sent=1)
    account.charge(PerDistance("0.5", "km", "0.1").within("0.9"), survey="s", sent=[3, 4])
    assert account.spent == 3
    again = DeviceAccount(path, epsilon=5)
    assert again.spent == 3
    assert again.entries()[1].loss == Together(Pure("0.5"), LaplaceNoise(2))


@pytest.mark.parametrize("loss", [Concentrated(1), PerDistance(1, "km", 0)])
def test_losses_without_an_epsilon_are_refused(path, loss):
    account = DeviceAccount(path, epsilon=5)
    with pytest.raises(NoGuarantee):
        account.charge(loss, survey="s", sent=1)
    assert account.entries() == ()


def test_the_total_belongs_to_the_person(path):
    account = DeviceAccount(path, epsilon=1)
    account.charge(Pure(1), survey="s", sent=1)
    for other in (2, "0.5"):
        with pytest.raises(LedgerConflict, match="raise_to"):
            DeviceAccount(path, epsilon=other)
    more = account.raise_to(2)
    more.charge(Pure(1), survey="s", sent=1)
    assert more.left == 0
    with pytest.raises(LedgerConflict):
        account.charge(Pure(0), survey="s", sent=1)  # opened with the old total
    with pytest.raises(InvalidParameter, match="epsilon"):
        more.raise_to(1)


def test_reports_of_oracles_and_memories_are_charged(path, tmp_path):
    account = DeviceAccount(path, epsilon=3)
    oracle = KRR(epsilon=1, size=4)
    report = oracle.randomize([2])[0]
    assert account.charge(oracle.loss, survey="flat", sent=report).sent == int(report)
    phone = Device(Memoized(permanent=2, once=1, size=70), tmp_path / "memory.json", survey="daily", version=1)
    for _ in range(6):  # two of them cost, the others are free for ever
        report, cost = phone.respond(3)
        account.charge(cost, survey="daily", sent=report)
    assert account.left == 0
    assert len(account.entries()) == 7


# --- words (C9) -------------------------------------------------------------------------------------------------


@pytest.mark.claim("C9")
def test_the_person_sees_what_was_sent_when_and_at_what_cost(path):
    account = DeviceAccount(path, epsilon=2)
    assert account.words() == "Nothing was sent.\nIn all ε = 0 of 2 is spent; 2 is left."
    account.charge(Pure("0.5"), survey="commute", sent=3, when=NOON)
    berlin = datetime(2026, 11, 17, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    account.charge(Pure("1/3"), survey="weight", sent=np.array([7, 1]), when=berlin)
    assert account.words().splitlines() == [
        "2026-11-16 12:00 UTC: to survey 'commute' was sent 3, which cost ε = 0.5",
        "2026-11-17 00:30 UTC: to survey 'weight' was sent [7, 1], which cost ε = 1/3",
        "In all ε = 5/6 of 2 is spent; 7/6 is left.",
    ]


def test_costs_are_rounded_up_and_reports_cut_where_they_are_shown(path):
    account = DeviceAccount(path, epsilon=2)
    entry = account.charge(Pure(F(10**12 + 1, 3 * 10**12)), survey="s", sent=list(range(100)), when=NOON)
    assert entry.words().endswith("ε = 0.333334")
    assert len(entry.words()) < 150
    assert account.entries()[0].sent == list(range(100))


def test_now_is_when_nothing_else_is_said(path):
    entry = DeviceAccount(path, epsilon=2).charge(Pure(1), survey="s", sent="text")
    assert abs(entry.when - datetime.now(UTC)) < timedelta(minutes=1)


# --- input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0, -1, float("nan"), float("inf"), True, None, "x"])
def test_bad_totals_are_refused_before_a_file_is_made(path, epsilon):
    with pytest.raises(InvalidParameter, match="epsilon"):
        DeviceAccount(path, epsilon=epsilon)
    assert not path.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"survey": ""},
        {"survey": "a\nb"},
        {"survey": 3},
        {"survey": "x" * 201},
        {"sent": float("nan")},
        {"sent": object()},
        {"sent": {1, 2}},
        {"sent": "x" * 10**5},
        {"when": "yesterday"},
        {"when": "2026-11-16T12:00:00"},
        {"when": 5},
        {"loss": "free"},
        {"loss": None},
    ],
)
def test_bad_entries_are_refused_and_nothing_is_written(path, change):
    account = DeviceAccount(path, epsilon=2)
    before = path.read_text()
    given = {"loss": Pure(1), "survey": "s", "sent": 1, "when": NOON, **change}
    with pytest.raises(DiscreetError):
        account.charge(given.pop("loss"), **given)
    assert path.read_text() == before


# --- damage -----------------------------------------------------------------------------------------------------


def test_damaged_files_stop_everything_and_are_left_alone(path):
    account = DeviceAccount(path, epsilon=2)
    account.charge(Pure(1), survey="s", sent=1, when=NOON)
    heading, line = path.read_text().splitlines()
    entry = json.loads(line)

    def file(*lines):
        return "\n".join(lines) + "\n"

    bad = [
        "",
        "\n",
        "rubbish\n",
        file(heading, line)[:-1],
        file(heading, line)[:-9],
        file(heading, line[:-3]),
        file(heading, "", line),
        file(line),
        file(heading, line, "[]"),
        file(heading, json.dumps({**entry, "discount": 1})),
        file(heading, json.dumps({**entry, "when": "long ago"})),
        file(heading, json.dumps({**entry, "survey": 7})),
        file(heading, json.dumps({**entry, "loss": {"kind": "gift"}})),
        file(heading, json.dumps({**entry, "loss": {"kind": "pure", "epsilon": "-1"}})),
        file(heading, json.dumps({**entry, "loss": {"kind": "concentrated", "rho": "1"}})),
        file(heading.replace('"2"', '"zero"'), line),
        file(heading.replace('"version": 1', '"version": "1"'), line),
        file(heading[:-1] + ', "more": 1}', line),
    ]
    for text in bad:
        path.write_text(text)
        for use in (lambda: account.charge(Pure("0.1"), survey="s", sent=1), account.words, account.entries):
            with pytest.raises(LedgerDamaged, match="nothing was sent"):
                use()
        with pytest.raises(LedgerDamaged):
            DeviceAccount(path, epsilon=2)
        assert path.read_text() == text
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LedgerDamaged):
        account.words()
    path.write_text(file(heading.replace('"version": 1', '"version": 2'), line))
    with pytest.raises(LedgerTooNew, match="newer"):
        account.words()


def test_a_file_that_is_gone_is_not_a_fresh_start(path):
    account = DeviceAccount(path, epsilon=2)
    account.charge(Pure(2), survey="s", sent=1)
    path.unlink()
    with pytest.raises(LedgerUnavailable, match="nothing was sent"):
        account.charge(Pure(1), survey="s", sent=1)


def test_places_that_cannot_be_written_are_refused(tmp_path, monkeypatch):
    with pytest.raises(LedgerUnavailable):
        DeviceAccount(tmp_path / "no" / "mine.jsonl", epsilon=1)
    account = DeviceAccount(tmp_path / "mine.jsonl", epsilon=1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerUnavailable, match="No space left"):
        account.charge(Pure(1), survey="s", sent=1)
    monkeypatch.undo()
    assert account.entries() == ()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["mine.jsonl", "mine.jsonl.lock"]


def test_a_full_account_is_told_before_it_could_not_be_read_any_more(path, monkeypatch):
    account = DeviceAccount(path, epsilon=1)
    monkeypatch.setattr(module, "_MOST_BYTES", 300)
    account.charge(Pure("0.1"), survey="s", sent=1)
    with pytest.raises(LedgerUnavailable, match="nothing was sent"):
        account.charge(Pure("0.1"), survey="s", sent="x" * 300)
    assert len(account.entries()) == 1


def test_only_the_owner_may_read_it(path):
    DeviceAccount(path, epsilon=1)
    assert path.stat().st_mode & 0o077 == 0


# --- other processes --------------------------------------------------------------------------------------------


def spend(path, charges):
    account = DeviceAccount(path, epsilon=10)
    for _ in range(charges):
        try:
            account.charge(Pure("0.5"), survey="s", sent=os.getpid())
        except BudgetExceeded:
            return


def start(target, *arguments):
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    process.start()
    return process


def test_processes_never_overspend_together(path):
    """Two processes with 15 charges each at a file that can pay for 20."""
    workers = [start(spend, path, 15) for _ in range(2)]
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    account = DeviceAccount(path, epsilon=10)
    assert account.spent == 10
    assert len(account.entries()) == 20


def spend_and_tell(path, pipe):
    account = DeviceAccount(path, epsilon=10**6)
    while True:
        account.charge(Pure(1), survey="s", sent="x" * 500)
        pipe.send(1)


def test_a_kill_loses_nothing_that_was_acknowledged(path):
    """Killed at random instants: the file is whole, and holds what was acknowledged and at most one more a kill."""
    acknowledged = 0
    for kills, wait in enumerate((0.0, 0.013, 0.031), 1):
        reader, writer = multiprocessing.get_context("spawn").Pipe(duplex=False)
        process = start(spend_and_tell, path, writer)
        writer.close()
        reader.recv()
        acknowledged += 1
        time.sleep(wait)
        os.kill(process.pid, signal.SIGKILL)
        process.join(30)
        try:
            while True:
                reader.recv()
                acknowledged += 1
        except EOFError:
            reader.close()
        spent = DeviceAccount(path, epsilon=10**6).spent
        assert acknowledged <= spent <= acknowledged + kills


def test_who_waits_too_long_is_told(path, monkeypatch):
    account = DeviceAccount(path, epsilon=1)
    monkeypatch.setattr(module, "_PATIENCE", 0.05)
    with locked(path), pytest.raises(LedgerUnavailable, match="in use"):
        account.charge(Pure(1), survey="s", sent=1)
    account.charge(Pure(1), survey="s", sent=1)


def answer(path, ready, go):
    """Three attempts at a survey that asks twice, from a moment on at which others are waiting as well."""
    account = DeviceAccount(path, epsilon=1000)
    ready.release()
    go.wait(60)
    for _ in range(3):
        with contextlib.suppress(BudgetExceeded):
            account.charge(Pure("0.5"), survey="s", sent=os.getpid(), times=2)


def test_processes_never_answer_more_often_than_the_survey_asks(path):
    """Three processes come to a locked account that holds no report yet; the total would pay for all of theirs."""
    DeviceAccount(path, epsilon=1000)
    context = multiprocessing.get_context("spawn")
    ready, go = context.Semaphore(0), context.Event()
    workers = [start(answer, path, ready, go) for _ in range(3)]
    for _ in workers:
        assert ready.acquire(timeout=60)
    with locked(path):
        go.set()
        time.sleep(1)  # whoever looks before it has the lock sees an empty account now
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    account = DeviceAccount(path, epsilon=1000)
    assert len(account.entries()) == 2
    assert account.charge(Pure("0.5"), survey="another", sent=1, times=1).survey == "another"


@pytest.mark.parametrize("times", [0, -1, 1.5, "often", True])
def test_times_are_whole_numbers(path, times):
    account = DeviceAccount(path, epsilon=1)
    with pytest.raises(InvalidParameter, match="^times"):
        account.charge(Pure("0.5"), survey="s", sent=1, times=times)
    assert account.entries() == ()


def test_a_survey_that_was_answered_often_enough_is_refused(path):
    account = DeviceAccount(path, epsilon=10)
    for _ in range(2):
        account.charge(Pure("0.5"), survey="s", sent=1, times=2)
    with pytest.raises(BudgetExceeded, match="2 of at most 2 reports to 's' were sent; nothing was sent"):
        account.charge(Pure("0.5"), survey="s", sent=1, times=2)
    assert account.spent == 1
