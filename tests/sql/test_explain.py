"""What is said of a plan and of its answer: for what ± holds, and warnings where a number may not be worth its price."""

from fractions import Fraction

import pyarrow as pa
import pytest

from discreet.curator.answer import Answer
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.curator import Curator
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.ledger import Ledger
from discreet.curator.stores.memory import MemoryStore
from discreet.noise import DeterministicEntropy
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit
from discreet.sql.plan.explain import Explanation, explanation
from discreet.sql.plan.planner import Terms, plan

COLUMNS = [
    Column("p", "integer"),
    Column("g", "text", values=["a", "b", "c"], nullable=False),
    Column("birth", "date", nullable=False),
    Column("name", "text"),
    Column("x", "integer", lower=0, upper=9, nullable=False),
    Column("old", "boolean", nullable=False),
]
KNOWN = Catalog(
    "d",
    [Table("people", COLUMNS, unit=Unit("p"), groups=2, rows=3), Table("lines", COLUMNS, unit=Unit())],
    neighbors="add or remove one",
)
ROWS = pa.table(
    {
        "p": [1, 1, 2],
        "g": ["a", "b", "c"],
        "birth": pa.array([0, 1, 2], pa.date32()),
        "name": ["ann", "ann", "bob"],
        "x": [1, 2, 3],
        "old": [True, False, True],
    }
)
ONLY = "covers the noise only, not the effect of bounding and clamping"


def explained(sql: str, **terms: object) -> Explanation:
    made = plan([sql], KNOWN, Terms(**({"epsilon": 1} | terms)))  # type: ignore[arg-type]
    return explanation([sql], made.releases, made.neighbors, loss=made.loss, epsilon=made.epsilon, delta=made.delta,
                       confidence=made.confidence)  # fmt: skip


def answered(sql: str, **terms: object) -> Answer:
    ledger = Ledger(MemoryStore())
    ledger.open("d", Budget(epsilon=100))
    with DuckDBEngine(KNOWN, {"people": ROWS, "lines": ROWS}) as engine:
        made = plan([sql], KNOWN, Terms(**({"epsilon": 1} | terms)))  # type: ignore[arg-type]
        return Curator(KNOWN, engine, ledger, DeterministicEntropy(1)).release(made, analyst="ann")[0]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM people",  # rows are weighed
        "SELECT g, COUNT(DISTINCT p) AS n FROM people GROUP BY g",  # groups are left out
        "SELECT AVG(x) AS n FROM people",
        "SELECT SUM(x) AS n FROM lines",  # clamped
        "SELECT n * 2 AS n FROM (SELECT g, SUM(x) AS n FROM lines GROUP BY g)",
    ],
)
def test_where_something_is_bounded_or_clamped_the_interval_is_for_the_noise_only(sql: str) -> None:
    said, answer = explained(sql), answered(sql)
    assert "(noise only)" in str(said)
    assert said.to_json()["note"].startswith("errors cover the noise only")
    assert answer.intervals
    note = f"each interval holds at 95 % confidence and {ONLY}"
    assert note in str(answer).splitlines()
    assert f"<p>{note}</p>" in answer._repr_html_()
    assert answer.to_json()["note"] == note


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM lines",
        "SELECT old, COUNT(*) AS n FROM lines WHERE x > 2 GROUP BY old",
        "SELECT COUNT(DISTINCT p) AS n FROM people",
        "SELECT old, COUNT(DISTINCT p) AS n FROM people GROUP BY old",  # both groups count
    ],
)
def test_elsewhere_it_covers_everything(sql: str) -> None:
    said, answer = explained(sql), answered(sql)
    assert "noise only" not in str(said)
    assert said.to_json()["note"] is None
    assert answer.to_json()["note"] == "each interval holds at 95 % confidence"
    assert "noise only" not in str(answer) + answer._repr_html_()


def test_a_number_without_an_interval_has_no_note() -> None:
    assert (
        answered("SELECT 1 + MAX(n) AS n FROM (SELECT g, SUM(x) AS n FROM lines GROUP BY g)").to_json()["note"] is None
    )


LOOSE = [
    ("AVG(2025 - YEAR(birth))", "year(birth)"),
    ("SUM(YEAR(birth) / 2 + YEAR(birth))", "year(birth)"),
    ("SUM(LENGTH(name))", "length(name)"),
]


@pytest.mark.parametrize(("value", "part"), LOOSE)
@pytest.mark.parametrize("table", ["people", "lines"])
def test_a_range_that_nobody_declared_is_warned_of(value: str, part: str, table: str) -> None:
    (warning,) = explained(f"SELECT {value} AS n FROM {table}").warnings
    assert f"nothing narrower is known of {part}" in warning
    answer = answered(f"SELECT {value} AS n FROM {table}")
    assert answer.notes[0] == f"warning: {warning}"
    assert f"warning: {warning}" in str(explained(f"SELECT {value} AS n FROM {table}")).splitlines()


@pytest.mark.parametrize(
    "value",
    [
        "AVG(LEAST(GREATEST(2025 - YEAR(birth), 0), 120))",
        "SUM(LENGTH(SUBSTRING(name, 1, 20)))",
        "AVG(x), SUM(MONTH(birth)), COUNT(name)",
        "SUM(CASE WHEN YEAR(birth) > 1970 THEN x ELSE 0 END)",
    ],
)
def test_a_range_that_somebody_stated_is_not(value: str) -> None:
    assert not explained(f"SELECT {value} FROM people").warnings


def test_a_mean_that_needs_many_rows_is_warned_of() -> None:
    """The number in the warning is where the error, by its own formula, is the width of the bounds."""
    assert not explained("SELECT AVG(x) FROM people").warnings
    said = explained("SELECT g, AVG(x) AS m FROM people GROUP BY g", epsilon="0.02")
    (number,) = said.releases[0]["numbers"]
    assert number["error × rows"] / number["rows needed"] <= 9 < number["error × rows"] / (number["rows needed"] - 1)
    (warning,) = said.warnings
    assert warning == f"a mean of x over fewer than {number['rows needed']:,} rows is no more precise than its bounds"
    answer = answered("SELECT g, AVG(x) AS m FROM people GROUP BY g", epsilon="0.02")
    assert answer.notes[0] == f"warning: {warning}"


def test_the_interval_of_a_mean_ends_at_its_bounds() -> None:
    answer = answered("SELECT g, AVG(x) AS m FROM people GROUP BY g", epsilon=Fraction(1, 1000))
    low, high = answer.intervals["m"]
    assert set(low.to_pylist()) == {0.0}
    assert set(high.to_pylist()) == {9.0}


@pytest.mark.parametrize(("epsilon", "warned"), [(1, False), ("0.001", True)])
@pytest.mark.parametrize("sql", ["SELECT COUNT(*) FROM t", "SELECT COUNT(DISTINCT p) FROM t", "SELECT SUM(x) FROM t"])
def test_a_warning_comes_before_the_charge_where_noise_hides_a_thousand_people(sql, epsilon, warned):
    """At ε = 0.001 the error of one number is 2,996 times what a person can add, whatever the number is."""
    columns = [Column("p", "integer"), Column("x", "integer", lower=-3, upper=9)]
    known = Catalog("d", [Table("t", columns, unit=Unit("p"), groups=1, rows=2)], neighbors="add or remove one")
    found = [
        words for words in plan([sql], known, Terms(epsilon=epsilon)).explain().warnings if "its own error" in words
    ]
    assert len(found) == warned
    assert all("of fewer than 2,99" in words for words in found)


@pytest.mark.parametrize(("epsilon", "warned"), [(1, False), ("0.001", True)])
@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT SUM(x) AS s, AVG(x) AS m FROM t", "sum of x of fewer than"),
        ("SELECT MEDIAN(x) AS m FROM t", "quantile 0.5 of x over fewer than"),
        ("SELECT VAR_POP(x) AS v FROM t", "a variance of x over fewer than"),
        ("SELECT STDDEV(x) AS v FROM t", "a deviation of x over fewer than"),
        ("SELECT COVAR_POP(x, y) AS c FROM t", "a covariance of"),
    ],
)
def test_sums_beside_means_quantiles_and_variances_are_warned_of_too(sql: str, words: str, epsilon, warned) -> None:
    columns = [Column("x", "integer", lower=-3, upper=9, nullable=False), Column("y", "integer", lower=0, upper=9)]
    known = Catalog("d", [Table("t", columns, unit=Unit())], neighbors="add or remove one")
    found = plan([sql], known, Terms(epsilon=epsilon)).explain().warnings
    assert sum(warning.startswith(words) for warning in found) == warned
