"""Claims about the curator, shown through its front door: B10, B11, B16, and A9 from the defended side."""

from fractions import Fraction
from itertools import cycle, islice

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.errors import BudgetExceeded
from discreet.mechanisms.additive import Geometric
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan
from discreet.sql.release.private_sql import write

SURE = "0.999999999"
"""Wider than this is no error that we shall see."""

POLICY = """
[dataset]
name = "company"
neighbors = "add or remove one"
share_answers = true
[budget]
epsilon = "{epsilon}"
[budget.everyone]
epsilon = 1000
[budget.analysts.intern]
epsilon = "0.5"
[tables.people]
source = "python"
unit = "row"
columns.age = {{type = "integer", lower = 18, upper = 80, nullable = false}}
columns.gender = {{type = "text", values = ["F", "M"], nullable = false}}
columns.job = {{type = "text", values = ["VP", "clerk", "coder"], nullable = false}}
[tables.visits]
source = "python"
unit = "person"
max_groups_per_unit = 2
max_rows_per_group = 3
columns.person = {{type = "integer"}}
columns.site = {{type = "text", values = ["east", "west"]}}
"""


def people(n: int = 4000) -> pa.Table:
    draw = np.random.default_rng(16)
    return pa.table(
        {
            "age": draw.integers(18, 70, n),
            "gender": draw.choice(["F", "M"], n),
            "job": draw.choice(["VP", "clerk", "coder"], n, p=[0.2, 0.5, 0.3]),
        }
    )


PEOPLE = people()
VISITS = pa.table({"person": [1, 1, 2, 3], "site": ["east", "west", "east", "north"]})


def company(epsilon: str, analyst: str = "ann") -> tuple["discreet.Dataset", Ledger]:
    ledger = Ledger(MemoryStore())
    policy = parse_policy(POLICY.format(epsilon=epsilon))
    return discreet.open(policy, tables={"people": PEOPLE, "visits": VISITS}, ledger=ledger, analyst=analyst), ledger


def spent(ledger: Ledger) -> Fraction:
    return ledger.spent("company").epsilon


# --- B10 ------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("B10")
def test_epsilons_add_over_answers_whoever_asks_and_whatever_is_read() -> None:
    data, ledger = company("3")
    with data:
        data.ask("SELECT COUNT(*) FROM people", epsilon="0.1", analyst="ann")
        data.ask("SELECT AVG(age) FROM people", epsilon="0.2", analyst="bob")
        data.ask("SELECT site, COUNT(*) FROM visits GROUP BY site", epsilon="0.4", analyst="ann")
        data.batch(["SELECT COUNT(*) FROM visits", "SELECT SUM(age) FROM people"], epsilon="0.8", analyst="cleo")
        assert spent(ledger) == Fraction("1.5")  # exactly, also over tables that may hold the same people
        assert ledger.spent("company", analyst="ann").epsilon == Fraction("0.5")


@pytest.mark.claim("B10")
def test_a_statement_costs_what_was_stated_however_much_it_computes() -> None:
    data, ledger = company("3")
    with data:
        many = "SELECT gender, COUNT(*), AVG(age), SUM(age), COUNT(*) FILTER (WHERE job = 'VP') FROM people GROUP BY gender"
        assert data.ask(many, epsilon=1).receipt.epsilon == 1
        assert spent(ledger) == 1


@pytest.mark.claim("B10")
def test_disjoint_groups_cost_the_maximum_not_the_sum() -> None:
    """Six groups in one answer cost ε once: each of them has the noise of a single count at ε."""
    data, ledger = company("1")
    with data:
        answer = data.ask("SELECT gender, job, COUNT(*) AS n FROM people GROUP BY gender, job", epsilon=1)
    assert len(answer) == 6
    assert spent(ledger) == 1
    low, high = answer.intervals["n"]
    alone = Geometric(epsilon=1, sensitivity=1).interval("0.95")
    assert {h.as_py() - n for h, n in zip(high, answer.column("n"), strict=True)} == {alone}
    assert {n - lo.as_py() for lo, n in zip(low, answer.column("n"), strict=True)} == {alone}


# --- B11 ------------------------------------------------------------------------------------------------------------


@pytest.mark.claim("B11")
def test_the_budget_is_the_databases_so_colluding_analysts_exhaust_it_together() -> None:
    data, ledger = company("2")
    with data:
        given = {"ann": 0, "bob": 0}
        for i, who in enumerate(islice(cycle(given), 20)):
            try:
                data.ask(f"SELECT COUNT(*) FROM people WHERE age < {30 + i}", epsilon="0.3", analyst=who)
            except BudgetExceeded:
                continue
            given[who] += 1
        assert given == {"ann": 3, "bob": 3}  # together 6 · 0.3 = 1.8, not 6 each
        assert spent(ledger) == Fraction("1.8")
        for who in ("ann", "bob", "a third who never asked"):
            with pytest.raises(BudgetExceeded):
                data.ask("SELECT COUNT(*) FROM people", epsilon="0.201", analyst=who)
        data.ask("SELECT COUNT(*) FROM people", epsilon="0.2", analyst="bob")
        assert spent(ledger) == 2
        with pytest.raises(BudgetExceeded):
            data.ask("SELECT COUNT(*) FROM people WHERE age < 20", epsilon="0.001", analyst="ann")
        again = data.ask("SELECT COUNT(*) FROM people", epsilon="0.2", analyst="ann")  # known to all already
        assert again.receipt.free
        assert spent(ledger) == 2


@pytest.mark.claim("B11")
def test_asking_again_does_not_average_the_noise_away() -> None:
    """Two who ask the same get the same noise, so their answers together say no more than one of them."""
    data, ledger = company("2")
    with data:
        answers = {
            data.ask("SELECT COUNT(*) AS n FROM people", epsilon="0.1", analyst=f"a{i}").column("n")[0]
            for i in range(30)
        }
    assert len(answers) == 1
    assert spent(ledger) == Fraction("0.1")


@pytest.mark.claim("B11")
def test_a_cap_holds_beside_the_budget() -> None:
    data, ledger = company("2")
    with data:
        data.ask("SELECT COUNT(*) FROM people", epsilon="0.5", analyst="intern")
        with pytest.raises(BudgetExceeded):
            data.ask("SELECT AVG(age) FROM people", epsilon="0.1", analyst="intern")
        data.ask("SELECT AVG(age) FROM people", epsilon="1.5", analyst="ann")
        assert spent(ledger) == 2


# --- B16 ------------------------------------------------------------------------------------------------------------


def count(**wanted: str) -> int:
    chosen = np.ones(len(PEOPLE), bool)
    for name, value in wanted.items():
        chosen &= np.array(PEOPLE[name].to_pylist()) == value
    return int(chosen.sum())


@pytest.mark.claim("B16")
def test_the_fraction_of_young_female_vice_presidents() -> None:
    """The conditional query of the claim, as a ratio of two noisy counts, with its interval."""
    data, _ = company("2")
    sql = (
        "SELECT 1.0 * COUNT(*) FILTER (WHERE age < 25 AND gender = 'F' AND job = 'VP') / COUNT(*) AS share FROM people"
    )
    with data:
        answer = data.ask(sql, epsilon=2, confidence=SURE)
    age, gender, job = (np.array(PEOPLE[name].to_pylist()) for name in ("age", "gender", "job"))
    truth = ((age < 25) & (gender == "F") & (job == "VP")).mean()
    assert 0.005 < truth < 0.05
    low, high = (end[0].as_py() for end in answer.intervals["share"])
    assert low <= truth <= high
    assert high - low < 0.02
    assert abs(answer.column("share")[0] - truth) < 0.01


@pytest.mark.claim("B16")
def test_counting_queries_and_histograms() -> None:
    data, _ = company("3")
    with data:
        vps = data.ask("SELECT COUNT(*) AS n FROM people WHERE job = 'VP'", epsilon=1)
        histogram = data.ask("SELECT gender, job, COUNT(*) AS n FROM people GROUP BY ALL", epsilon=1)
        ages = data.ask("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon="0.05")
    error = Geometric(epsilon=1, sensitivity=1).interval(SURE)
    assert abs(vps.column("n")[0] - count(job="VP")) <= error
    for row in histogram.table.to_pylist():
        assert abs(row["n"] - count(gender=row["gender"], job=row["job"])) <= error
    assert len(histogram) == 6
    assert ages.column("age") == list(range(18, 81))  # ages that nobody has are answered too
    assert any(n != 0 for age, n in zip(ages.column("age"), ages.column("n"), strict=True) if age > 70)  # and are noisy


@pytest.mark.claim("B16")
def test_averages_and_group_by() -> None:
    data, _ = company("2")
    with data:
        mean = data.ask("SELECT AVG(age) AS m FROM people", epsilon=1, confidence=SURE)
        each = data.ask("SELECT job, AVG(age) AS m FROM people GROUP BY job", epsilon=1, confidence=SURE)
    age, job = np.array(PEOPLE["age"].to_pylist()), np.array(PEOPLE["job"].to_pylist())
    truths = [(mean, 0, age.mean())] + [(each, i, age[job == name].mean()) for i, name in enumerate(each.column("job"))]
    for answer, place, truth in truths:
        low, high = (end[place].as_py() for end in answer.intervals["m"])
        assert low <= truth <= high
        assert abs(answer.column("m")[place] - truth) < 4


# --- A9 -------------------------------------------------------------------------------------------------------------

N, ASKED, SECRETS = 60, 110, 6


def attack_plan(subsets: np.ndarray, epsilon: str) -> tuple[QueryPlan, Catalog]:
    """All subset questions of the attack, for one ε in total."""
    columns = [
        Column("id", "integer", lower=0, upper=N - 1, nullable=False),
        Column("secret", "boolean", nullable=False),
    ]
    catalog = Catalog("clinic", [Table("patients", columns, unit=Unit())], neighbors="add or remove one")
    parts = [
        f"COUNT(*) FILTER (WHERE secret AND id IN ({', '.join(map(str, np.flatnonzero(chosen)))})) AS q{i}"
        for i, chosen in enumerate(subsets)
    ]
    return plan([f"SELECT {', '.join(parts)} FROM patients"], catalog, Terms(epsilon=epsilon)), catalog


def reconstructed(subsets: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Dinur and Nissim 2003: the bits that fit the answers best, by least squares between 0 and 1, then rounded."""
    from scipy.optimize import lsq_linear

    return lsq_linear(subsets.astype(float), answers, bounds=(0, 1)).x > 0.5


@pytest.mark.claim("A9")
def test_linear_reconstruction_succeeds_on_exact_answers_and_fails_behind_the_curator() -> None:
    draw = np.random.default_rng(2003)
    subsets = draw.random((ASKED, N)) < 0.5
    asked, catalog = attack_plan(subsets, "1")
    exact_hits, rough_hits, private_hits = 0, 0, 0
    for _ in range(SECRETS):
        secret = draw.random(N) < 0.5
        with DuckDBEngine(catalog, {"patients": pa.table({"id": np.arange(N), "secret": secret})}) as engine:
            exact = subsets.astype(int) @ secret
            rough = exact + draw.integers(-1, 2, ASKED)  # "overly accurate" need not be exact
            ledger = Ledger(MemoryStore())
            ledger.open("clinic", Budget(epsilon=1))
            curator = Curator(catalog, engine, ledger)
            row = curator.release(asked, analyst="mallory")[0].table.to_pylist()[0]
            with pytest.raises(BudgetExceeded):  # and that was all
                curator.release(attack_plan(subsets[:1], "0.001")[0], analyst="trudy")
        private = np.array([row[f"q{i}"] for i in range(ASKED)])
        exact_hits += int((reconstructed(subsets, exact) == secret).sum())
        rough_hits += int((reconstructed(subsets, rough) == secret).sum())
        private_hits += int((reconstructed(subsets, private) == secret).sum())
    bits = N * SECRETS
    assert exact_hits / bits > 0.95
    assert rough_hits / bits > 0.95
    # Half of the bits are set, so the marginals give 1/2. Five points more than that would show:
    assert binom.sf(private_hits - 1, bits, 0.55) > 1e-6, f"{private_hits / bits:.3f} of the bits were recovered"
    assert binom.cdf(int(exact_hits), bits, 0.55) > 1 - 1e-6  # the same test tells the undefended database apart


@pytest.mark.claim("A9")
def test_the_attack_asks_what_it_says() -> None:
    """Without noise, the plan's own SQL gives the exact answers that the attack above succeeds on."""
    draw = np.random.default_rng(2005)
    subsets, secret = draw.random((9, N)) < 0.5, draw.random(N) < 0.5
    asked, catalog = attack_plan(subsets, "1")
    with DuckDBEngine(catalog, {"patients": pa.table({"id": np.arange(N), "secret": secret})}) as engine:
        found = engine.fetch(write(asked.releases[0].aggregate)).to_pylist()[0]
    assert [found[f"m{i}"] for i in range(9)] == (subsets.astype(int) @ secret).tolist()


@pytest.mark.claim("A9")
def test_the_defense_is_the_noise() -> None:
    """The same plan at an ε that no owner would give: the attack is back, so it was not the curator's SQL that stopped it."""
    draw = np.random.default_rng(2004)
    subsets = draw.random((ASKED, N)) < 0.5
    asked, catalog = attack_plan(subsets, "1000")
    secret = draw.random(N) < 0.5
    with DuckDBEngine(catalog, {"patients": pa.table({"id": np.arange(N), "secret": secret})}) as engine:
        ledger = Ledger(MemoryStore())
        ledger.open("clinic", Budget(epsilon=1000))
        row = Curator(catalog, engine, ledger).release(asked, analyst="mallory")[0].table.to_pylist()[0]
    private = np.array([row[f"q{i}"] for i in range(ASKED)])
    assert (reconstructed(subsets, private) == secret).mean() > 0.95
