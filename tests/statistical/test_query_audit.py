"""An audit of whole answers: from the SQL to the released numbers, by their distribution alone.

Three audits, each with a false-alarm rate of at most 1e-6 (`power.ALPHA`):

- `audit_noise`: released − exact follows the discrete Laplace law that ε and the bounds ask for (written down here, not
  taken from the plan), and would not follow one whose scale is wrong by 30 %;
- `audit_neighbors`: from the answers to two neighboring tables, a lower confidence bound on ε (Clopper–Pearson) never
  exceeds what was paid, and comes near it;
- `audit_charges`: each answer that was given out has a charge of its own, of the whole price.

The true build passes all of them. Builds that are broken on purpose are noticed by the same audits: `BROKEN`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from math import exp, log
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import beta
from tests.statistical.power import ALPHA, WRONG, Stream, assert_follows, assert_frequency, assert_rejected, band
from tests.statistical.test_mechanisms import folded, gaussian_cdf, laplace_cdf

import discreet
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Charge, Ledger, digest
from discreet.curator.policy import parse_policy
from discreet.curator.stores.memory import MemoryStore
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.partitions import OptimalSelection
from discreet.mechanisms.quantile import GroupedQuantile
from discreet.mechanisms.selection import GroupedMode
from discreet.privacy.accounting import guarantee
from discreet.privacy.loss import GaussianNoise, Pure
from discreet.privacy.unit import Neighbors, Unit
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release import private_sql, rows_sql
from discreet.sql.release import private_sql as writer
from discreet.sql.release.release import Release

RUNS = 6000  # releases whose law is checked
LOOKS = 2000  # looks at either of two neighbors
GROUPS = 200

COLUMNS = [
    Column("p", "integer"),
    Column("k", "integer", lower=0, upper=GROUPS - 1),
    Column("g", "text", values=["a", "b", "c", "d"], nullable=False),
    Column("city", "text"),
    Column("x", "integer", lower=0, upper=6),
]


@dataclass
class Once:
    """The real engine, asked once for each SQL: thousands of releases need not read the same rows again."""

    engine: DuckDBEngine
    found: dict[str, pa.Table]

    dialect = "duckdb"

    @property
    def version(self) -> str:
        return self.engine.version

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        if sql not in self.found:
            self.found[sql] = self.engine.fetch(sql, salt=salt)
        return self.found[sql]


@pytest.fixture(autouse=True)
def _written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The SQL of a release is written once a test, not thousands of times: that was half of the time."""
    texts: dict[int, tuple[Any, str]] = {}
    write = writer.write

    def written(aggregate: Any, *dialect: Any) -> str:
        if id(aggregate) not in texts:
            texts[id(aggregate)] = (
                aggregate,
                write(aggregate, *dialect),
            )  # the aggregate stays alive: its number is its own
        return texts[id(aggregate)][1]

    monkeypatch.setattr(writer, "write", written)


def table(rows: list[dict[str, Any]]) -> pa.Table:
    kinds = {"p": pa.int64(), "k": pa.int64(), "g": pa.string(), "city": pa.string(), "x": pa.int64()}
    return pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in kinds.items()})


def catalog(unit: str, neighbors: str) -> Catalog:
    return Catalog("d", [Table("t", COLUMNS, unit=Unit("p" if unit == "person" else None))], neighbors=neighbors)


ONE = Terms(epsilon=1)


@dataclass(frozen=True)
class Question:
    """SQL and the terms it is asked on."""

    sql: str
    unit: str = "row"
    neighbors: str = "add or remove one"
    terms: Terms = ONE

    def release(self) -> Release:
        (found,) = plan([self.sql], catalog(self.unit, self.neighbors), self.terms).releases
        return found

    def runs(self, rows: pa.Table, times: int, stream: Stream) -> Iterator[pa.Table]:
        """What is given out, again and again, independently."""
        release = self.release()
        with DuckDBEngine(catalog(self.unit, self.neighbors), {"t": rows}) as engine:
            once = Once(engine, {})
            for _ in range(times):
                yield release.run(once, stream)


def released(question: Question, rows: pa.Table, times: int, stream: Stream) -> list[np.ndarray]:
    """For each measure, runs × groups."""
    found = list(question.runs(rows, times, stream))
    return [np.array([one.column(name).to_numpy() for one in found]) for name in found[0].column_names]


# --- the audits -----------------------------------------------------------------------------------------------------


def audit_noise(
    question: Question, rows: pa.Table, exact: list[int], scales: list[Fraction], times: int = RUNS
) -> None:
    """Each measure is its exact value (in every group the same) plus noise of the given scale."""
    stream = Stream()
    measures = released(question, rows, times, stream)
    assert len(measures) == len(exact)
    for place, (values, truth, scale) in enumerate(zip(measures, exact, scales, strict=True)):
        noise, what = values.reshape(-1) - truth, f"{question.sql}, measure {place}"
        assert_follows(noise, laplace_cdf(float(scale)), what, stream)
        size, law = np.abs(noise), folded(laplace_cdf(float(scale)))
        assert_follows(size, law, what, stream)
        for factor in (WRONG, 1 / WRONG):
            assert_rejected(size, law, folded(laplace_cdf(float(scale) * factor)), f"{what}, wrong by 30 %", stream)


def epsilon_at_least(mine: np.ndarray, theirs: np.ndarray, delta: float = 0.0) -> float:
    """A lower bound on ε from how often an event happened on either side; wrong with probability at most ALPHA."""
    tail = ALPHA / 2
    hits, misses = int(mine.sum()), int(mine.size - mine.sum())
    low = float(beta.ppf(tail, hits, misses + 1)) if hits else 0.0
    others, rest = int(theirs.sum()), int(theirs.size - theirs.sum())
    high = float(beta.ppf(1 - tail, others + 1, rest)) if rest else 1.0
    return log((low - delta) / high) if low > delta else 0.0


Statistic = Callable[[pa.Table], float]


def audit_neighbors(
    question: Question,
    one: pa.Table,
    other: pa.Table,
    statistic: Statistic,
    *,
    threshold: float,
    power: float = 0.0,
    times: int = LOOKS,
) -> float:
    """The event that a statistic of the answer is at least the threshold, which was chosen before looking."""
    stream = Stream()
    sides = [np.array([statistic(found) for found in question.runs(rows, times, stream)]) for rows in (one, other)]
    paid, delta = float(Fraction(question.terms.epsilon)), float(Fraction(question.terms.delta or 0))
    seen = max(
        0.0,
        epsilon_at_least(sides[0] >= threshold, sides[1] >= threshold, delta),
        epsilon_at_least(sides[1] < threshold, sides[0] < threshold, delta),
    )
    assert seen <= paid, f"{question.sql}: at least ε {seen:.3f} was given out, {paid:.3f} was paid; {stream!r}"
    assert seen >= power * paid, f"{question.sql}: only ε {seen:.3f} of {paid:.3f} was noticed; {stream!r}"
    return seen


def audit_charges(data: "discreet.Dataset", ledger: Ledger, asked: list[tuple[str, Fraction, Any]]) -> None:
    """`asked`: each statement with its ε and its answer. What was not free has a charge of its own, of that ε."""
    charges = {charge.number: charge for charge in ledger.charges(data.catalog.name)}
    paid = [(sql, epsilon, answer.receipt) for sql, epsilon, answer in asked if not answer.receipt.free]
    numbers = [receipt.charge for _, _, receipt in paid]
    assert len(set(numbers)) == len(numbers), "two answers were given out for one charge"
    assert set(numbers) == set(charges), "an answer without a charge, or a charge without an answer"
    for sql, _, receipt in paid:
        assert charges[receipt.charge].statement == digest(sql), "a charge was made for another statement"
    total = sum((epsilon for _, epsilon, _ in paid), Fraction(0))
    assert ledger.spent(data.catalog.name).epsilon == total, "what was given out is not what was charged"
    assert ledger.verify()


# --- the noise of answers -------------------------------------------------------------------------------------------

CROWD = table([{"p": i, "k": i % GROUPS, "g": "abcd"[i % 4], "x": (-50, 3, 99, None)[i % 4]} for i in range(400)])
EVERY = table([{"p": i, "k": i % GROUPS, "g": "a", "x": 3} for i in range(3 * GROUPS)])


def test_a_count() -> None:
    audit_noise(Question("SELECT COUNT(*) FROM t", terms=Terms(epsilon="1/3")), CROWD, [400], [Fraction(3)])


def test_a_sum_is_clamped_and_noisy_at_the_scale_of_its_bounds() -> None:
    audit_noise(Question("SELECT SUM(x) FROM t"), CROWD, [100 * (0 + 3 + 6)], [Fraction(6)])


def test_a_mean_is_two_noisy_numbers_each_for_half_of_epsilon() -> None:
    """About the middle 3: reach 3, so the scale is 3/½ for the sum and 1/½ for the count."""
    audit_noise(Question("SELECT AVG(x) FROM t"), CROWD, [100 * (-3 + 0 + 3), 300], [Fraction(6), Fraction(2)])


@pytest.mark.parametrize(("neighbors", "scale"), [("add or remove one", 1), ("change one", 2)])
def test_groups(neighbors: str, scale: int) -> None:
    question = Question("SELECT k, COUNT(*) FROM t WHERE k IS NOT NULL GROUP BY k", neighbors=neighbors)
    groups = question.release().group.size  # the null group is empty, so a count of its own
    rows = table([{"k": i % GROUPS} for i in range(3 * GROUPS)])
    stream = Stream()
    (counts,) = released(question, rows, 60_000 // GROUPS, stream)[:1]
    assert groups == GROUPS + 1
    noise = np.abs(counts - np.array([3] * GROUPS + [0])).reshape(-1)
    assert_follows(noise, folded(laplace_cdf(scale)), "groups", stream)
    for factor in (WRONG, 1 / WRONG):
        assert_rejected(
            noise, folded(laplace_cdf(scale)), folded(laplace_cdf(scale * factor)), "groups, wrong by 30 %", stream
        )


def test_a_person_in_groups() -> None:
    """G = 2 groups of R = 3 rows at ε = 2, half for each measure: scale 2·3/1 for the count, 2·3·6/1 for the sum."""
    terms = Terms(epsilon=2, groups=2, rows=3)
    question = Question("SELECT g, COUNT(*), SUM(x) FROM t GROUP BY g", "person", terms=terms)
    rows = table([{"p": i, "g": g, "x": 2} for i in range(5) for g in "abcd"])
    stream = Stream()
    measures = released(question, rows, RUNS // 2, stream)
    with DuckDBEngine(catalog("person", "add or remove one"), {"t": rows}) as engine:
        exact = engine.fetch(writer.write(question.release().aggregate)).sort_by("g")
    assert sum(exact.column("m0").to_pylist()) == 5 * 2  # each person counts in two of the four groups
    for place, scale in enumerate((6.0, 36.0)):
        noise = np.abs(measures[place] - exact.column(f"m{place}").to_numpy()).reshape(-1)
        law = folded(laplace_cdf(scale))
        assert_follows(noise, law, f"measure {place}", stream)
        for factor in (WRONG, 1 / WRONG):
            assert_rejected(noise, law, folded(laplace_cdf(scale * factor)), f"measure {place}, wrong by 30 %", stream)


def test_gaussian_noise_is_the_one_that_is_paid_for() -> None:
    """One person in 50 groups at (ε, δ) = (1, 1e-6): σ from the multiplier that is charged, σ/Δ with Δ² = 50."""
    question = Question(
        "SELECT k, COUNT(*) FROM t GROUP BY k", "person", terms=Terms(epsilon=1, delta="1e-6", groups=50, rows=1)
    )
    release, stream = question.release(), Stream()
    (loss,) = release.losses(Neighbors.ADD_OR_REMOVE_ONE)
    assert isinstance(loss, GaussianNoise)
    assert guarantee(loss, delta="1e-6").epsilon <= 1
    sigma = float(loss.multiplier) * 50**0.5
    (counts,) = released(question, EVERY, 20_000 // GROUPS, stream)
    noise, law = np.abs(counts[:, :GROUPS] - 3).reshape(-1), folded(gaussian_cdf(sigma))
    assert_follows(noise, law, "Gaussian", stream)
    for factor in (WRONG, 1 / WRONG):
        assert_rejected(noise, law, folded(gaussian_cdf(sigma * factor)), "Gaussian, wrong by 30 %", stream)


def test_through_the_front_door() -> None:
    """`ask` itself: every answer is fresh noise, and the same question again is the same answer, free."""
    ledger, stream = Ledger(MemoryStore()), Stream()
    with opened(ledger) as data:
        asked, draws = [], []
        for i in range(15):
            sql = f"SELECT k, COUNT(*) AS n FROM t WHERE x > {-i - 1} AND k < {GROUPS + i} GROUP BY k"
            for _ in range(2):
                asked.append((sql, Fraction(1), data.ask(sql, epsilon=1)))
            assert asked[-1][2].column("n") == asked[-2][2].column("n")
            counts = dict(zip(asked[-1][2].column("k"), asked[-1][2].column("n"), strict=True))
            draws += [counts[k] - 3 for k in range(GROUPS)]
        audit_charges(data, ledger, asked)
    size, law = np.abs(np.array(draws)), folded(laplace_cdf(1.0))
    assert_follows(size, law, "ask", stream)
    assert_rejected(size, law, folded(laplace_cdf(1.0 * 2)), "ask, twice the noise", stream)
    assert_rejected(size, law, folded(laplace_cdf(1.0 / 2)), "ask, half the noise", stream)


POLICY = """
[dataset]
name = "d"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 1000
[tables.t]
source = "python"
unit = "row"
columns.k = {{type = "integer", lower = 0, upper = {last}}}
columns.x = {{type = "integer", lower = 0, upper = 6}}
"""


def opened(ledger: Ledger) -> "discreet.Dataset":
    return discreet.open(
        parse_policy(POLICY.format(last=GROUPS - 1)), tables={"t": EVERY}, ledger=ledger, analyst="ann"
    )


# --- which groups are named -----------------------------------------------------------------------------------------


def keeping(epsilon: float, delta: float, most: int) -> list[float]:
    """π(0), π(1), …: Desfontaines et al. 2022, Theorem 1, in plain floats."""
    kept = [0.0]
    for _ in range(most):
        kept.append(min(exp(epsilon) * kept[-1] + delta, 1 - exp(-epsilon) * (1 - kept[-1] - delta), 1.0))
    return kept


def audit_selection(question: Question, epsilon: float, delta: float, most: int = 10) -> None:
    """City i has i people: it is named with probability π(i), and never if it has none."""
    rows = table([{"p": 100 * n + i, "city": f"{n:02}"} for n in range(1, most + 1) for i in range(n)])
    stream = Stream()
    named = np.zeros((RUNS, most + 1), bool)
    for run, found in enumerate(question.runs(rows, RUNS, stream)):
        named[run, [int(city) for city in found.column("k0").to_pylist()]] = True
    law, wrong = keeping(epsilon, delta, most), keeping(epsilon * WRONG, delta, most)
    for n in range(most + 1):
        assert_frequency(named[:, n], law[n], f"a city of {n}", stream, tests=most + 1)
    furthest = max(abs(p - q) for p, q in zip(law, wrong, strict=True))
    assert furthest > 2 * band(RUNS) * 1.2, "too few runs to notice an ε that is wrong by 30 %"


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "groups", "neighbors", "keys"), [
    ("person", 1, "add or remove one", 1),
    ("person", 2, "add or remove one", 2),
    ("person", 1, "change one", 2),
])  # fmt: skip
def test_names_are_selected_with_the_stated_probability(unit, groups, neighbors, keys) -> None:
    """ε = 2 for one count and one selection: 1 each, shared among the keys that one unit can change."""
    terms = Terms(epsilon=2, delta="0.02", groups=groups, rows=1 if groups else None)
    question = Question("SELECT city, COUNT(*) FROM t GROUP BY city", unit, neighbors, terms)
    release = question.release()
    shared = 1 if isinstance(release.noises[0], Geometric) else 2  # Gaussian noise takes half of δ
    audit_selection(question, 1 / keys, 0.02 / keys / shared)


def test_names_of_rows_are_selected_with_the_stated_probability() -> None:
    terms = Terms(epsilon=2, delta="0.02")
    audit_selection(Question("SELECT city, COUNT(*) FROM t GROUP BY city", terms=terms), 1, 0.02)


# --- neighbors -----------------------------------------------------------------------------------------------------


def first(found: pa.Table) -> float:
    return float(found.column("m0")[0].as_py())


@dataclass(frozen=True)
class Pair:
    """Two tables that differ in one unit, which does all that it can to show; and where to look."""

    question: Question
    one: pa.Table
    other: pa.Table
    statistic: Statistic
    threshold: float
    power: float


OTHERS = [{"p": i, "g": "b", "x": 3, "city": "oslo", "k": 1} for i in range(2, 8)]


def pair(sql: str, mine: list[dict[str, Any]], threshold: float, *, power: float = 0.35, statistic: Statistic = first,
         replaced: list[dict[str, Any]] | None = None, **options: Any) -> Pair:  # fmt: skip
    question = Question(sql, **options)
    return Pair(question, table(OTHERS + mine), table(OTHERS + (replaced or [])), statistic, threshold, power)


PERSON = {"p": 1, "g": "a", "x": 10**9, "city": "bern", "k": 0}
MANY = [PERSON | {"g": g, "k": k} for g in "abcd" for k in range(20)]


def total(found: pa.Table) -> float:
    """The sum over all groups: it moves by all that one person adds."""
    return float(found.column("m0").to_numpy().sum())


def in_a(found: pa.Table) -> float:
    """The count of group a, less that of group b."""
    counts = found.column("m0").to_numpy()
    return float(counts[0] - counts[1])


def above_all_edges(found: pa.Table) -> float:
    return float(found.column("h0_2")[0].as_py())


def the_quantile(found: pa.Table) -> float:
    return float(found.column("q0")[0].as_py())


def the_mode(found: pa.Table) -> float:
    return float(found.column("t0_0")[0].as_py())


def is_named(found: pa.Table) -> float:
    return float("bern" in found.column("k0").to_pylist())


PAIRS: dict[str, Pair] = {
    "a row in a count": pair("SELECT COUNT(*) FROM t", [PERSON], 7),
    "a row in a sum": pair("SELECT SUM(x) FROM t", [PERSON], 18 + 6),
    "a person's rows in a count": pair("SELECT COUNT(*) FROM t", MANY, 9, unit="person", terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person's rows in a sum": pair("SELECT SUM(x) FROM t", MANY, 18 + 18, unit="person", terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person in one group": pair("SELECT g, COUNT(*) FROM t GROUP BY g", [PERSON] * 50, 2, unit="person", terms=Terms(epsilon=1, groups=1, rows=2)),
    "a person in all groups": pair("SELECT g, COUNT(*) FROM t GROUP BY g", MANY, 8, unit="person", statistic=total, power=0,
                                   terms=Terms(epsilon=2, groups=1, rows=2)),
    "a changed row": pair("SELECT g, COUNT(*) FROM t GROUP BY g", [PERSON], -5, neighbors="change one", statistic=in_a, power=0.1,
                          replaced=[PERSON | {"g": "b"}], terms=Terms(epsilon=2)),
    "a person who is the only one of a city": pair("SELECT city FROM t GROUP BY city", [PERSON], 1, statistic=is_named, power=0,
                                                   terms=Terms(epsilon=1, delta="0.05")),
    "a person's rows in a join": pair("SELECT COUNT(*) FROM t a JOIN t b ON a.p = b.p WHERE a.g = 'b' AND b.g = 'a'", MANY, 3, unit="person",
                                      terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person's number of rows": pair("SELECT SUM(n) FROM (SELECT p, COUNT(*) AS n FROM t GROUP BY p)", MANY, 9, unit="person",
                                      terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person's different values": pair("SELECT COUNT(DISTINCT k) FROM t", MANY, 4, unit="person", power=0.2, terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person's rows in a histogram": pair("SELECT HISTOGRAM(x, [2, 4]) FROM t", MANY, 3, unit="person", statistic=above_all_edges,
                                           terms=Terms(epsilon=1, groups=1, rows=3)),
    "a person's rows in a median": pair("SELECT MEDIAN(x) FROM t WHERE g = 'a'", MANY, 6, unit="person", statistic=the_quantile, power=0,
                                        terms=Terms(epsilon=1, groups=1, rows=10)),
    "a person's rows in a mode": pair("SELECT MODE(x) FROM t WHERE g = 'a'", MANY, 6, unit="person", statistic=the_mode, power=0.15,
                                      terms=Terms(epsilon=1, groups=1, rows=4)),
}  # fmt: skip


def audit_pair(name: str, *, power: bool = True) -> float:
    it = PAIRS[name]
    return audit_neighbors(
        it.question, it.one, it.other, it.statistic, threshold=it.threshold, power=it.power if power else 0
    )


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("name", PAIRS)
def test_neighbors_cannot_be_told_apart_by_more_than_was_paid(name: str) -> None:
    audit_pair(name)


# --- broken on purpose ----------------------------------------------------------------------------------------------


def half_the_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Geometric, "scale", property(lambda self: self.sensitivity / self.epsilon / 2))


def no_noise(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)


def one_noise_for_all_groups(patch: pytest.MonkeyPatch) -> None:
    true = Geometric.release

    def release(self: Geometric, value: Any, *, entropy: Any = None) -> Any:
        return value + (true(self, value, entropy=entropy) - value)[0]

    patch.setattr(Geometric, "release", release)


def bounds_of(**wide: int) -> Callable[[pytest.MonkeyPatch], None]:
    true = writer.write

    def broken(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(writer, "write", lambda a, *d: true(replace(a, source=replace(a.source, **wide)), *d))

    return broken


def no_clamp(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rows_sql, "treated", lambda column, dialect: dialect.quoted(column.name))


def all_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OptimalSelection, "release", lambda self, value, *, entropy=None: np.asarray(value) > 0)


def sql_of(pattern: str, replacement: str) -> Callable[[pytest.MonkeyPatch], None]:
    """A build that writes other SQL: what fits the pattern is replaced."""
    true = writer.write

    def write(aggregate: Any, *dialect: Any) -> str:
        sql, times = re.subn(pattern, replacement, true(aggregate, *dialect))
        assert times, "nothing was broken"
        return sql

    return lambda patch: patch.setattr(writer, "write", write)


def all_values(patch: pytest.MonkeyPatch) -> None:
    """No bound on the values that a person has in a histogram, a quantile or a number of different values."""
    for name in ("write_values", "write_distinct"):
        true = getattr(private_sql, name)
        patch.setattr(
            private_sql, name, lambda a, i, *d, true=true: true(replace(a, source=replace(a.source, rows=10**6)), i, *d)
        )


def ranks_of_one_row(patch: pytest.MonkeyPatch) -> None:
    """Ranks are moved by one row of a person, not by ten."""
    patch.setattr(GroupedQuantile, "scale", property(lambda self: 2 * self.sensitivity / self.epsilon / 10))


def modes_of_one_row(patch: pytest.MonkeyPatch) -> None:
    """Counts of values get a tenth of their noise."""
    patch.setattr(GroupedMode, "scale", property(lambda self: self.places * self.sensitivity / self.epsilon / 10))


BROKEN: Mapping[str, tuple[Callable[[pytest.MonkeyPatch], None], list[str]]] = {
    "half the noise": (half_the_noise, ["a row in a count", "a row in a sum", "a person's rows in a count", "a person's rows in a sum", "a person in one group"]),
    "no noise": (no_noise, ["a row in a count", "a row in a sum", "a person's rows in a count", "a person in one group", "a changed row"]),
    "one noise for all groups": (one_noise_for_all_groups, ["a changed row"]),
    "no bound on rows": (bounds_of(rows=10**6), ["a person's rows in a count", "a person's rows in a sum", "a person in one group"]),
    "no bound on groups": (bounds_of(groups=4), ["a person in all groups"]),
    "no clamp": (no_clamp, ["a row in a sum", "a person's rows in a sum"]),
    "all groups named": (all_names, ["a person who is the only one of a city"]),
    "a join without the unit": (sql_of(r"l\.u = r\.u", "TRUE"), ["a person's rows in a join"]),
    "numbers of rows without a clamp": (sql_of(r"least\(greatest\((s\d+_\d+), [^)]*\), [^)]*\)", r"\1"), ["a person's number of rows"]),
    "no bound on values": (all_values, ["a person's different values", "a person's rows in a histogram", "a person's rows in a mode"]),
    "ranks of one row": (ranks_of_one_row, ["a person's rows in a median"]),
    "modes of one row": (modes_of_one_row, ["a person's rows in a mode"]),
}  # fmt: skip


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("what", "name"), [(what, name) for what, (_, names) in BROKEN.items() for name in names])
def test_a_broken_build_is_noticed_between_neighbors(what, name, monkeypatch) -> None:
    BROKEN[what][0](monkeypatch)
    with pytest.raises(AssertionError, match="was given out"):
        audit_pair(name, power=False)


@pytest.mark.parametrize("what", ["half the noise", "no noise"])
def test_a_broken_build_is_noticed_by_the_law_of_the_noise(what, monkeypatch) -> None:
    BROKEN[what][0](monkeypatch)
    with pytest.raises(AssertionError, match="distance observed"):
        test_a_count()


def test_a_missing_clamp_is_noticed_in_a_sum(monkeypatch) -> None:
    no_clamp(monkeypatch)
    with pytest.raises(AssertionError, match="distance observed"):
        test_a_sum_is_clamped_and_noisy_at_the_scale_of_its_bounds()


def test_a_broken_selection_is_noticed(monkeypatch) -> None:
    all_names(monkeypatch)
    with pytest.raises(AssertionError, match="a city of"):
        test_names_of_rows_are_selected_with_the_stated_probability()


# --- charges --------------------------------------------------------------------------------------------------------


def questions(data: "discreet.Dataset") -> list[tuple[str, Fraction, Any]]:
    """Five questions, the first asked again at the end, for free."""
    asked = [(f"SELECT COUNT(*) FROM t WHERE x < {i}", Fraction(i + 1, 10)) for i in (1, 2, 3, 4, 5, 1)]
    return [(sql, epsilon, data.ask(sql, epsilon=epsilon)) for sql, epsilon in asked]


def audited_charges() -> None:
    ledger = Ledger(MemoryStore())
    with opened(ledger) as data:
        data.ask("SELECT COUNT(*) FROM t WHERE x < 0", epsilon=1)
        before = data.ask("SELECT COUNT(*) FROM t WHERE x < 0", epsilon=1)
        first = [
            (
                "SELECT COUNT(*) FROM t WHERE x < 0",
                Fraction(1),
                replace(before, receipt=replace(before.receipt, free=False)),
            )
        ]
        audit_charges(data, ledger, first + questions(data))


def test_every_answer_was_charged() -> None:
    audited_charges()


Bought = tuple[Charge, bytes | None]


def charged_once(self: Ledger, key: str, account: str, **given: Any) -> Bought:
    """No charge but the first: an old one is handed out again."""
    kept = self.recall(key)
    first = next(iter(self.charges(account)), None)
    return kept or ((first, None) if first else BUY(self, key, account, **given))


def charged_half(self: Ledger, key: str, account: str, **given: Any) -> Bought:
    return BUY(self, key, account, **(given | {"loss": Pure(given["loss"].epsilon / 2)}))


def charged_for_another(self: Ledger, key: str, account: str, **given: Any) -> Bought:
    text = "SELECT 1"
    return BUY(self, key, account, **(given | {"statement": digest(text), "text": text}))


def charged_twice(self: Ledger, key: str, account: str, **given: Any) -> Bought:
    BUY(self, key, account, **given)
    return BUY(self, key, account, **given)


BUY = Ledger.buy


@pytest.mark.parametrize("broken", [charged_once, charged_half, charged_for_another, charged_twice])
def test_a_build_that_charges_wrongly_is_noticed(broken, monkeypatch) -> None:
    monkeypatch.setattr(Ledger, "buy", broken)
    with pytest.raises(AssertionError, match="charge"):
        audited_charges()


def test_a_build_without_any_charge_gives_nothing_out(monkeypatch) -> None:
    """A charge that is not in the ledger cannot keep an answer: the release fails before it is given out."""

    def nothing(self: Ledger, key: str, account: str, **given: Any) -> Bought:
        spent, who = self.spent(account), given["analyst"]
        return Charge(10**6, account, who, "", given["statement"], None, given["loss"], spent, spent, ""), None

    monkeypatch.setattr(Ledger, "buy", nothing)
    with pytest.raises(discreet.errors.DiscreetError), opened(Ledger(MemoryStore())) as data:
        data.ask("SELECT COUNT(*) FROM t", epsilon=1)
