"""Attacks by the clock: what an analyst sees of when answers leave, with a person in the data and without.

Each attack asks at ε 0.001 of two datasets that differ by one person, 200 times of each. A threshold between the times
seen is chosen on the first half of the trials and judged on the second, where guessing is right as often as a fair
coin: the number of right guesses has an exact distribution, and false alarms are below 1e-6 in all.
"""

import time
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import discreet
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.settings import Pace, SystemTimer
from discreet.curator.stores.memory import MemoryStore
from discreet.mechanisms.partitions import OptimalSelection
from discreet.sql.plan.planner import Terms, plan

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 1000
delta = "1e-3"
[tables.t]
source = "python"
unit = "pid"
max_groups_per_unit = 3
max_rows_per_group = 2
columns.pid = {type = "integer"}
columns.ill = {type = "boolean"}
columns.age = {type = "integer", lower = 0, upper = 120}
columns.day = {type = "date"}
columns.c0 = {type = "text"}
columns.c1 = {type = "text"}
columns.c2 = {type = "text"}
"""
TRIALS, PEOPLE, ROWS = 200, 5_000, 40
WHO = "pid = 999999 AND ill"


class WaitingTimer(SystemTimer):
    """The machine's clock, which really waits; elsewhere in the tests nothing does."""

    def wait(self, nanoseconds):
        time.sleep(max(nanoseconds, 0) / 1e9)


def opened(person, floor, rows=ROWS):
    """5,000 people with a short row each; the person has 40 rows of texts that are longer than texts can be."""
    generator = np.random.default_rng(20261118)
    extra = rows if person else 0
    names = [f"name{number}" for number in generator.integers(0, 5000, PEOPLE)]
    table = {
        "pid": np.r_[np.arange(PEOPLE), np.full(extra, 999_999)],
        "ill": np.r_[generator.random(PEOPLE) < 0.1, np.ones(extra, bool)],
        "age": np.r_[generator.integers(0, 120, PEOPLE), np.arange(extra)],
        "day": pa.array(np.r_[generator.integers(0, 20_000, PEOPLE), np.arange(extra)].astype("datetime64[D]")),
        "c0": [*names, *["É" * 5000] * extra],
        "c1": [*names, *["é" * 5000] * extra],
        "c2": [*names, *(f"{place}" + "a" * 5000 for place in range(extra))],
    }
    data = discreet.open(parse_policy(POLICY), tables={"t": pa.table(table)}, ledger=Ledger(MemoryStore()))
    data._curator = replace(data._curator, pace=Pace(Fraction(floor), WaitingTimer()))
    return data


def seen(data, plan):
    """Nanoseconds from the question to when its answer leaves; the ledger is a new one, so that none is kept."""
    ledger = Ledger(MemoryStore())
    ledger.open(data.catalog.name, data.policy.budget)
    curator = replace(data._curator, ledger=ledger)
    timer = curator.pace.timer
    start = timer.read()
    curator.release(plan, analyst="eve")
    return timer.read() - start


def right_guesses(without, having):
    """How many of the second halves a threshold gets right that does best on the first halves."""
    half = len(without) // 2
    limits = np.unique(np.r_[without[:half], having[:half]])
    scores = [np.sum(having[:half] > limit) + np.sum(without[:half] <= limit) for limit in limits]
    best = int(np.argmax(np.abs(np.array(scores) - half)))
    limit, larger = limits[best], scores[best] >= half
    found = np.sum(having[half:] > limit) + np.sum(without[half:] <= limit)
    return int(found if larger else 2 * (len(without) - half) - found)


def told(statement, floor, trials=TRIALS, rows=ROWS):
    """How likely guessing is to be right as often as the clock was."""
    with opened(False, floor, rows) as without, opened(True, floor, rows) as having:
        asked = plan([statement], without.catalog, Terms(epsilon="0.001", delta="1e-6"))
        for data in (without, having):
            seen(data, asked)
        times = np.empty((trials, 2))
        for trial, swapped in enumerate(np.random.default_rng(trials).random(trials) < 0.5):
            for place in (1, 0) if swapped else (0, 1):  # neither always comes after the other
                times[trial, place] = seen((without, having)[place], asked)
    guessed = 2 * (trials - trials // 2)
    return float(binom.sf(right_guesses(times[:, 0], times[:, 1]) - 1, guessed, 0.5))


LENGTHS = " + ".join(f"LENGTH(LOWER(c{place % 2} || '{place}'))" for place in range(9))
ATTACKS = {
    "texts under a condition": f"SELECT SUM(CASE WHEN {WHO} THEN {LENGTHS} ELSE 0 END) AS s FROM t",
    "texts of those who are left": f"SELECT SUM({LENGTHS}) AS s FROM t WHERE {WHO}",
    "patterns": f"SELECT COUNT(*) AS n FROM t WHERE {WHO} AND (c2 LIKE '%a_a_a_a_b' OR c0 ILIKE '%é%é%é%x')",
    "giant texts as keys": "SELECT c2, COUNT(*) AS n FROM t GROUP BY c2",
    "many groups of one person": "SELECT age, day, COUNT(*) AS n FROM t GROUP BY age, day",
    "many rows of one person": "SELECT COUNT(*) AS n, SUM(age) AS s FROM t",
    "one person's rows": "SELECT COUNT(*) AS n FROM t WHERE pid = 999999",
    "dates": f"SELECT SUM(CASE WHEN {WHO} THEN {' + '.join(['MONTH(day)', 'WEEK(day)'] * 10)} END) AS s FROM t",
    "deep arithmetic": f"SELECT SUM(CASE WHEN {WHO} THEN {'ROUND(' * 6}age / 3{', 2)' * 6} ELSE 0 END) AS s FROM t",
    "lists": f"SELECT COUNT(*) AS n FROM t WHERE {WHO} AND c0 IN ({', '.join(repr(str(i)) for i in range(900))})",
    "many measures": f"SELECT {', '.join(f'SUM(CASE WHEN {WHO} THEN age + {i} END) AS s{i}' for i in range(8))} FROM t",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ATTACKS)
def test_no_attack_tells_by_the_clock(name, monkeypatch):
    monkeypatch.setattr(OptimalSelection, "interval", cache(OptimalSelection.interval))  # public, and slow at a small ε
    assert told(ATTACKS[name], "0.1") > 1e-6 / len(ATTACKS)


@pytest.mark.slow
def test_the_same_attack_tells_where_answers_leave_at_once():
    """So the trials can tell, and not only on a quiet machine: 3,000 long rows of one person, and no floor."""
    assert told(ATTACKS["texts under a condition"], "0", trials=200, rows=3000) < 1e-6


def test_right_guesses_find_a_difference_where_there_is_one():
    generator = np.random.default_rng(1)
    noise = generator.normal(size=(2, 200))
    assert binom.sf(right_guesses(noise[0], noise[1]) - 1, 200, 0.5) > 1e-6
    assert binom.sf(right_guesses(noise[0], noise[1] + 2) - 1, 200, 0.5) < 1e-6
    assert binom.sf(right_guesses(noise[0], noise[1] - 2) - 1, 200, 0.5) < 1e-6
