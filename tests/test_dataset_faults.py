"""Faults through the front door: racing processes, killed processes, a full or read-only place for the ledger."""

import os
import random
import signal
import subprocess
import sys
import time
from fractions import Fraction

import pytest

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.stores.sqlite import SqliteStore
from discreet.errors import (
    BudgetExceeded,
    EngineUnavailable,
    LedgerDamaged,
    LedgerError,
    LedgerUnavailable,
    ReleaseFailed,
)
from discreet.sql.plan.query_plan import QueryPlan

POLICY = """
[dataset]
name = "p"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = "{epsilon}"
[tables.p]
source = "p.csv"
unit = "row"
columns.age = {{ type = "integer", lower = 0, upper = 120 }}
"""
ASKER = """
import sys, discreet
from discreet.errors import BudgetExceeded
data = discreet.open(sys.argv[1])
data.explain("SELECT COUNT(*) FROM p", epsilon="0.01")
print("ready", flush=True)
sys.stdin.readline()
for turn in range(int(sys.argv[4])):
    try:
        data.ask(f"SELECT COUNT(*) AS n FROM p WHERE age > {sys.argv[2]} + {turn} * 0.001", epsilon=sys.argv[3])
        print("answered", flush=True)
    except BudgetExceeded:
        print("refused", flush=True)
"""


@pytest.fixture
def policy(tmp_path):
    def write(epsilon):
        (tmp_path / "p.csv").write_text("age\n" + "\n".join(str(age) for age in range(90)) + "\n", encoding="utf-8")
        path = tmp_path / "p.toml"
        path.write_text(POLICY.format(epsilon=epsilon), encoding="utf-8")
        return path

    return write


def asker(path, who, epsilon, turns):
    """A process that has opened the dataset and waits for a line before it asks."""
    command = [sys.executable, "-c", ASKER, str(path), str(who), epsilon, str(turns)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


def spent(path):
    with SqliteStore(path.with_suffix(".ledger"), create=False) as store:
        ledger = Ledger(store)
        assert ledger.verify()
        return ledger.spent("p").epsilon, len(ledger.charges("p"))


@pytest.mark.slow
def test_eight_processes_race_for_the_last_epsilon(policy):
    path = policy("1")
    with discreet.open(path) as data:
        data.ask("SELECT COUNT(*) AS n FROM p", epsilon="0.7")
    racers = [asker(path, who, "0.1", 1) for who in range(8)]
    for racer in racers:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    told = [racer.communicate(timeout=600)[0].strip() for racer in racers]
    assert sorted(told) == ["answered"] * 3 + ["refused"] * 5
    assert spent(path) == (1, 4)


def test_a_charge_that_found_no_engine_is_used_once(policy, monkeypatch):
    """A second failure may depend on rows: from then on, asking again is charged again."""
    path, run = policy("3"), QueryPlan.run
    failures = [EngineUnavailable("away"), ValueError("a row")]

    def fail_twice(*given):
        if failures:
            raise failures.pop(0)
        return run(*given)

    monkeypatch.setattr(QueryPlan, "run", fail_twice)
    with discreet.open(path) as data:
        for _ in range(2):
            with pytest.raises(ReleaseFailed):
                data.ask("SELECT COUNT(*) AS n FROM p", epsilon=1)
            assert spent(path) == (1, 1)
        assert data.ask("SELECT COUNT(*) AS n FROM p", epsilon=1).receipt.remaining == 1
    assert spent(path) == (2, 2)


def test_a_killed_process_wastes_at_most_what_it_had_charged(policy):
    """Whatever was answered was charged before; what was charged and not answered stays charged."""
    path = policy("1000")
    draw, answered = random.Random(7), 0
    for who in range(4):
        process = asker(path, 10 * who, "0.125", 10_000)
        process.stdin.write("go\n")
        process.stdin.flush()
        time.sleep(draw.uniform(0.05, 0.5))
        os.kill(process.pid, signal.SIGKILL)
        answered += process.communicate(timeout=600)[0].count("answered")
    total, charges = spent(path)
    assert total == charges * Fraction(1, 8)
    assert answered <= charges <= answered + 4
    assert charges > 0
    with discreet.open(path) as data:
        data.ask("SELECT COUNT(*) AS n FROM p", epsilon="0.5")
    assert spent(path) == (total + Fraction(1, 2), charges + 1)


def test_a_ledger_that_cannot_be_written_answers_nothing(policy, tmp_path):
    path = policy("1")
    text = path.read_text(encoding="utf-8").replace('name = "p"', 'name = "p"\nledger = "no/such/folder/p.ledger"')
    path.write_text(text, encoding="utf-8")
    with pytest.raises(LedgerUnavailable):
        discreet.open(path)


def test_a_tampered_ledger_answers_nothing(policy):
    import sqlite3

    path = policy("1")
    with discreet.open(path) as data:
        data.ask("SELECT COUNT(*) AS n FROM p", epsilon="0.9")
    base = sqlite3.connect(path.with_suffix(".ledger"))
    tables = [name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    assert "rows" in tables
    for (trigger,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        base.execute(f'DROP TRIGGER "{trigger}"')
    base.execute("UPDATE rows SET total = replace(total, '0.9', '0.1')")
    base.commit()
    base.close()
    with pytest.raises((LedgerDamaged, LedgerError)), discreet.open(path) as data:
        data.ask("SELECT COUNT(*) AS n FROM p", epsilon="0.8")


def test_an_exhausted_budget_stays_exhausted_after_reopening(policy):
    path = policy("1")
    with discreet.open(path) as data:
        data.ask("SELECT COUNT(*) AS n FROM p", epsilon="1")
    for _ in range(2):
        with discreet.open(path) as data:
            assert data.ask("SELECT COUNT(*) AS n FROM p", epsilon="1").receipt.free
            with pytest.raises(BudgetExceeded):
                data.ask("SELECT COUNT(*) AS n FROM p WHERE age > 3", epsilon="0.001")
