"""When answers leave: the grid, what total variation it leaves, and that all that follows a charge is on it."""

from dataclasses import replace
from fractions import Fraction

import pytest

import discreet
from discreet.curator import settings
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.ledger import Ledger
from discreet.curator.policy import explain, parse_policy
from discreet.curator.reports.statement_sections import privacy_statement
from discreet.curator.settings import ManualTimer, Pace, SystemTimer
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded, InvalidParameter, InvalidQuery, ReleaseFailed
from discreet.noise import DeterministicEntropy
from discreet.privacy.budget import Budget
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Unit

SECOND = 10**9
GRID = [digit * 10**power for power in range(12) for digit in (1, 2, 5)]


# The grid


def test_steps_are_1_2_5_in_each_decade_from_the_floor_on():
    pace = Pace(Fraction(1, 100), entropy=DeterministicEntropy(1))
    assert {pace.leaving(0) for _ in range(50)} == {SECOND // 100}
    for elapsed in range(0, SECOND, SECOND // 997):
        before = max([step for step in GRID if step <= elapsed and step >= SECOND // 100], default=0)
        following = [step for step in GRID if step > max(before, SECOND // 100 - 1)]
        assert pace.leaving(elapsed) in following[:2]
        assert pace.leaving(elapsed) > elapsed


def test_the_first_step_is_the_next_of_the_grid_where_the_floor_lies_between():
    assert Pace(Fraction(3, 10)).leaving(0) == SECOND // 2


def leaves(elapsed: int, floor: int, monkeypatch: pytest.MonkeyPatch) -> dict[int, Fraction]:
    """The exact distribution of when something leaves, by going through every number that can be drawn."""
    bounds: list[int] = []
    pace = Pace(Fraction(floor, SECOND))

    def draw(number: int):
        def drawn(bound, *, entropy=None):
            bounds.append(bound)
            return number

        return drawn

    found: dict[int, Fraction] = {}
    number = 0
    while not bounds or number < bounds[0]:
        monkeypatch.setattr(settings, "uniform_below", draw(number))
        step = pace.leaving(elapsed)
        found[step] = found.get(step, Fraction(0)) + Fraction(1, bounds[0])
        number += 1
    assert sum(found.values()) == 1
    return found


@pytest.mark.parametrize("floor", [10, 20, 50])
def test_total_variation_is_the_difference_of_times_over_the_width_of_a_cell(monkeypatch, floor):
    """Exactly, over all pairs of times up to three cells: nothing jumps, not at the steps either."""
    found = [leaves(elapsed, floor, monkeypatch) for elapsed in range(3 * floor)]
    for s in range(len(found)):
        for t in range(s, len(found)):
            steps = found[s].keys() | found[t].keys()
            distance = sum(abs(found[s].get(step, 0) - found[t].get(step, 0)) for step in steps) / 2
            assert distance <= Fraction(t - s, max(floor, (s + 1) // 2))
    assert sum(found[0].values()) == 1 == found[0][floor]
    assert sum(abs(found[0].get(step, 0) - found[1].get(step, 0)) for step in found[1]) / 2 == Fraction(1, floor)


def test_a_timer_of_the_system_waits(monkeypatch):
    """The one test of real sleep: it asks for no more than that time has passed."""
    monkeypatch.undo()  # the fixture that lets nothing wait
    timer = SystemTimer()
    before = timer.read()
    with Pace(Fraction(2, 100), timer).hold():
        pass
    assert timer.read() - before >= SECOND // 50


# The gate


class Made:
    """A plan that takes so long to run and so long to finish, and may fail in either."""

    text, private, delta, neighbors = "SELECT", True, Fraction(0), None

    def __init__(self, timer, run=0, finish=0, run_error=None, finish_error=None, epsilon="0.1", name="made"):
        self.timer, self.times, self.errors = timer, (run, finish), (run_error, finish_error)
        self.epsilon, self.loss, self.digest = Fraction(epsilon), Pure(epsilon), name
        self.events = []

    def verify(self, catalog):
        return self.loss

    def run(self, engine, entropy):
        return self._do(0)

    def finish(self, released, receipt, engine):
        self._do(1)
        return receipt

    def _do(self, place):
        self.events.append(("run", "finish")[place])
        self.timer.time += self.times[place]
        if self.errors[place] is not None:
            raise self.errors[place]
        return b"released"


class NoEngine:
    dialect, version = "none", "1"


@pytest.fixture
def timer():
    return ManualTimer()


@pytest.fixture
def curator(timer):
    catalog = Catalog("c", [Table("t", [Column("a", "integer")], unit=Unit())], neighbors="change one")
    ledger = Ledger(MemoryStore())
    ledger.open("c", Budget(epsilon=1))
    return Curator(catalog, NoEngine(), ledger, pace=Pace(timer=timer), least_epsilon=Fraction(1, 1000))


@pytest.mark.parametrize("run", [0, 1, SECOND // 11, SECOND // 10, SECOND // 3, 7 * SECOND])
@pytest.mark.parametrize("finish", [0, SECOND // 7])
def test_answers_leave_at_a_step(curator, timer, run, finish):
    curator.release(Made(timer, run, finish), analyst="ann")
    assert timer.time in GRID
    assert timer.time >= max(run + finish, SECOND // 10)
    assert len(timer.waits) == 1


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ({"run_error": RuntimeError("row 7")}, ReleaseFailed),
        ({"run_error": MemoryError()}, ReleaseFailed),
        ({"run_error": KeyboardInterrupt()}, KeyboardInterrupt),
        ({"finish_error": InvalidQuery("no")}, InvalidQuery),
    ],
)
def test_failures_leave_at_a_step_too(curator, timer, errors, raised):
    with pytest.raises(raised):
        curator.release(Made(timer, SECOND // 30, **errors), analyst="ann")
    assert timer.time in GRID
    assert timer.time >= SECOND // 10


def test_the_wait_comes_last(curator, timer):
    plan = Made(timer, 5, 5)
    wait = timer.wait
    timer.wait = lambda nanoseconds: (plan.events.append("wait"), wait(nanoseconds))
    curator.release(plan, analyst="ann")
    assert plan.events == ["run", "finish", "wait"]


def test_what_reads_no_private_row_does_not_wait(curator, timer):
    """A recall reads what was released; a refusal comes before the charge."""
    curator.release(Made(timer), analyst="ann")
    del timer.waits[:]
    assert curator.release(Made(timer), analyst="ann").free
    with pytest.raises(BudgetExceeded):
        curator.release(Made(timer, epsilon=1, name="dear"), analyst="ann")
    with pytest.raises(InvalidParameter):
        curator.release(Made(timer, epsilon="0.0001", name="cheap"), analyst="ann")
    assert timer.waits == []


def test_without_a_floor_nothing_waits(curator, timer):
    replace(curator, pace=Pace(Fraction(0), timer)).release(Made(timer, 17), analyst="ann")
    assert (timer.waits, timer.time) == ([], 17)


def test_a_curator_has_a_floor_unless_it_is_told_otherwise(curator):
    assert Curator(curator.catalog, curator.engine, curator.ledger).pace.floor == Fraction(1, 10)


def test_the_floor_hides_injected_durations(timer):
    """20 ms or 25 ms: 200 of each, by a fixed stream. At a floor the steps tell nothing; bare, they tell all."""
    pace = Pace(Fraction(1, 10), timer, DeterministicEntropy(3))
    steps = {ms: [pace.leaving(ms * 10**6) for _ in range(200)] for ms in (20, 25)}
    late = {ms: sum(step > SECOND // 10 for step in found) for ms, found in steps.items()}
    assert all(20 <= count <= 80 for count in late.values())  # expected 40 and 50; 7 deviations from either
    assert abs(late[20] - late[25]) <= 45


# The least ε


def test_a_question_below_the_least_epsilon_is_refused_before_the_charge(curator, timer):
    plan = Made(timer, epsilon="0.0009")
    with pytest.raises(InvalidParameter, match=r"epsilon: got '0.0009', expected at least 0.001.*nothing was charged"):
        curator.release(plan, analyst="ann")
    assert (plan.events, curator.ledger.charges("c")) == ([], [])
    curator.release(Made(timer, epsilon="0.001"), analyst="ann")
    assert len(curator.ledger.charges("c")) == 1


POLICY = """
[dataset]
name = "c"
neighbors = "change one"
{dataset}
[budget]
everyone = "all"
epsilon = "{epsilon}"
{budget}
[tables.t]
source = "python"
unit = "row"
columns.a = {{type = "integer", lower = 0, upper = 9}}
"""


def policy(dataset="", budget="", epsilon="3"):
    return parse_policy(POLICY.format(dataset=dataset, budget=budget, epsilon=epsilon))


@pytest.mark.parametrize(
    ("epsilon", "budget", "least"),
    [
        ("3", "", "0.001"),
        ("1000000", "", "0.001"),
        ("0.1", "", "0.0001"),
        ("3", "least_epsilon = 0.25", "0.25"),
        ("3", "least_epsilon = 0", "0"),
    ],
)
def test_least_epsilon_of_a_policy(epsilon, budget, least):
    made = policy(epsilon=epsilon, budget=budget)
    assert made.least_epsilon == Fraction(least)
    assert f"No question costs less than ε {least}." in explain(made)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"budget": "least_epsilon = 4"}, "least_epsilon"),
        ({"budget": "least_epsilon = -1"}, "least_epsilon"),
        ({"budget": 'least_epsilon = "x"'}, "least_epsilon"),
        ({"dataset": "time_floor = -1"}, "time_floor"),
        ({"dataset": "time_floor = 4000"}, "time_floor"),
        ({"dataset": "time_floor = true"}, "time_floor"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, words):
    with pytest.raises(InvalidParameter, match=words):
        policy(**settings)


def test_the_floor_is_said_to_owners_and_to_the_public():
    ledger = Ledger(MemoryStore())
    ledger.open("c", Budget(epsilon=3))
    for dataset, words in [
        ("", "time grid that starts at 0.1 seconds"),
        ("time_floor = 2", "time grid that starts at 2 seconds"),
        ("time_floor = 0", "time_floor = 0"),
    ]:
        made = policy(dataset=dataset)
        assert words in explain(made)
        statement = privacy_statement(made, ledger)
        assert words in statement.to_markdown()
        assert statement.facts["time_floor"] == float(made.time_floor)
        assert statement.facts["least_epsilon"] == 0.001


@pytest.fixture
def data():
    import pyarrow as pa

    made = policy(budget="least_epsilon = 0.5", dataset="time_floor = 7")
    with discreet.open(made, tables={"t": pa.table({"a": [1, 2, 3]})}, ledger=Ledger(MemoryStore())) as opened:
        yield opened


def test_a_dataset_has_the_pace_and_the_least_epsilon_of_its_policy(data):
    assert data._curator.pace.floor == 7
    assert data._curator.least_epsilon == Fraction(1, 2)


def test_the_epsilon_that_an_error_needs_is_raised_to_the_least(data):
    assert data.explain("SELECT COUNT(*) FROM t", error=100).epsilon == 0.5
    assert data.explain("SELECT COUNT(*) FROM t", error=2).epsilon > 0.5
    assert data.ask("SELECT COUNT(*) FROM t", error=100).receipt.epsilon == 0.5


def test_explain_says_that_a_question_costs_too_little(data):
    said = data.explain("SELECT COUNT(*) FROM t", epsilon="0.4")
    assert not said.budget["affordable"]
    assert "at least 0.5" in said.budget["words"]


def test_a_batch_has_at_most_100_statements(data):
    many = [f"SELECT COUNT(*) AS n FROM t WHERE a > {i % 9} AND a < {i}" for i in range(101)]
    with pytest.raises(InvalidParameter, match=r"statements: got '101 of them', expected at most 100 together"):
        data.explain(many, epsilon=1)
    with pytest.raises(InvalidParameter, match="at most 100 together"):
        data.batch(many, epsilon=1)
    assert data._curator.ledger.charges("c") == []
