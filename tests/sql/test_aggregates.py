"""Without noise, every aggregate is what DuckDB itself computes over the same rows."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from discreet.curator.answer import Answer, Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidQuery
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Unit
from discreet.sql.after.interval_rules import AddedNoise
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release.private_sql import write_distinct, write_values

COLUMNS = [
    Column("p", "integer"),
    Column("k", "integer", lower=0, upper=4, nullable=False),
    Column("x", "integer", lower=0, upper=20),
    Column("y", "integer", lower=100, upper=110, nullable=False),
    Column("r", "real", lower=-1, upper=1, granularity="0.25"),
    Column("flag", "boolean"),
    Column("wide", "integer", lower=0, upper=2**33),
    Column("free", "integer"),
]
RECEIPT = Receipt("d", "ann", 2, "2026-11-15T10:00:00Z", "9f2c", Pure(1), 1.0, 0.0, False, 1.0)


def catalog(unit: str | None) -> Catalog:
    return Catalog("d", [Table("t", COLUMNS, unit=Unit(unit))], neighbors="add or remove one")


@cache
def rows() -> pa.Table:
    """Five groups, the last one without rows and the one before with one."""
    stream = np.random.default_rng(3)
    k = np.array([0] * 40 + [1] * 25 + [2] * 7 + [3])
    x = stream.integers(0, 21, len(k))
    r = np.clip(np.round((x / 10 - 1 + stream.normal(0, 0.3, len(k))) * 4) / 4, -1, 1)
    columns = {
        "p": pa.array(np.arange(len(k))),
        "k": pa.array(k),
        "x": pa.array(x, mask=stream.random(len(k)) < 0.2),
        "y": pa.array(100 + (x + stream.integers(0, 5, len(k))) // 3),
        "r": pa.array(r, mask=stream.random(len(k)) < 0.2),
        "flag": pa.array(stream.random(len(k)) < 0.6),
        "wide": pa.array(x),
        "free": pa.array(x),
    }
    return pa.table(columns)


def answered(sql: str, unit: str | None = None, **terms: object) -> Answer:
    made = plan([sql], catalog(unit), Terms(**({"epsilon": 1} | terms)))  # type: ignore[arg-type]
    with DuckDBEngine(catalog(unit), {"t": rows()}) as engine:
        return made.finish(made.run(engine, None), RECEIPT, engine)[0]


SPREADS = [
    "VAR_POP(x)", "VAR_SAMP(x)", "VARIANCE(y)", "STDDEV(x)", "STDDEV_POP(r)", "STDDEV_SAMP(y)", "COVAR_POP(r, x)",
    "COVAR_SAMP(x, y)", "CORR(r, x)", "REGR_SLOPE(r, x)", "REGR_INTERCEPT(r, x)", "REGR_SLOPE(x, y)", "REGR_R2(r, x)",
    "REGR_COUNT(r, x)", "REGR_AVGX(r, x)", "REGR_AVGY(r, x)", "VAR_POP(x) FILTER (WHERE flag)", "MEAN(x)",
    "CORR(r, x) FILTER (WHERE flag)", "VAR_POP(2 * x - y)", "COVAR_POP(x > 10, r)", "STDDEV_POP(flag)", "VAR_POP(3)",
]  # fmt: skip


@pytest.mark.parametrize("aggregate", SPREADS)
def test_without_noise_spreads_are_what_duckdb_computes(aggregate: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
    sql = f"SELECT k, {aggregate} AS v FROM t GROUP BY k ORDER BY k"
    found = answered(sql).table.to_pylist()
    t = rows()  # noqa: F841 (DuckDB reads it)
    plain = duckdb.sql(sql.replace("x > 10", "(x > 10)::INTEGER").replace("(flag)", "(flag::INTEGER)")).fetchall()
    wanted = {k: None if v is None or np.isnan(float(v)) else float(v) for k, v in plain}
    for row in found[:3]:
        assert row["v"] == pytest.approx(wanted[row["k"]], rel=1e-9, abs=1e-9), row
    assert found[4]["v"] in (None, 0)


def test_a_spread_shares_its_measures_with_the_mean() -> None:
    made = plan(["SELECT AVG(y), SUM(y), COUNT(*), VAR_POP(y), STDDEV(y) FROM t"], catalog(None), Terms(epsilon=1))
    assert list(map(str, made.releases[0].aggregate.measures)) == [
        "sum of y about 105",
        "count of rows",
        "sum of (absolute((y - 105)) * absolute((y - 105))) about 12",
    ]


@pytest.mark.parametrize(
    ("aggregate", "problem"),
    [
        ("VAR_POP(wide)", "VARIANCE_POP of values whose squares do not fit 64 bits"),
        ("CORR(x, wide)", "CORR of values whose squares do not fit 64 bits"),
        ("STDDEV(free)", "STDDEV of free, which has no bounds"),
        ("VAR_POP(DISTINCT x)", "is not supported yet"),
        ("SKEWNESS(x)", "SKEWNESS is not supported yet"),
    ],
)
def test_what_has_no_spread_is_refused_with_its_place(aggregate: str, problem: str) -> None:
    with pytest.raises(InvalidQuery, match="line 1, column 8|line 1, column 16") as refused:
        plan([f"SELECT {aggregate} FROM t"], catalog(None), Terms(epsilon=1))
    assert problem in str(refused.value)


def test_the_error_of_a_spread_cannot_be_promised() -> None:
    with pytest.raises(InvalidQuery, match="the error of the variance depends on how many rows there are"):
        plan(["SELECT VAR_POP(x) FROM t"], catalog(None), Terms(error=1))


@pytest.mark.parametrize(
    ("aggregate", "plain"),
    [
        ("MEDIAN(y)", "QUANTILE_DISC(y, 0.5)"),
        ("QUANTILE_DISC(x, 0.9)", ""),
        ("PERCENTILE_DISC(0.25) WITHIN GROUP (ORDER BY x)", ""),
        ("PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY x DESC)", "QUANTILE_DISC(x, 0.75)"),
        ("QUANTILE_CONT(r, 0.4) FILTER (WHERE flag)", "QUANTILE_DISC(r, 0.4) FILTER (WHERE flag)"),
        ("MIN(x)", ""),
        ("MAX(2 * y)", ""),
    ],
)
def test_with_hardly_any_noise_quantiles_are_what_duckdb_computes(aggregate: str, plain: str) -> None:
    """Within a rank or two: a quantile is a point of the grid, and an extreme has two values beyond it."""
    sql = "SELECT k, {} AS v FROM t WHERE k < 3 GROUP BY k ORDER BY k"
    found = answered(sql.format(aggregate), epsilon=10**6)
    t = rows()  # noqa: F841 (DuckDB reads it)
    wanted = dict(duckdb.sql(sql.format(plain or aggregate)).fetchall())
    low, high = (end.to_pylist() for end in found.intervals["v"])
    for row, first, last in zip(found.table.to_pylist()[:3], low, high, strict=False):
        assert first <= wanted[row["k"]] <= last
        assert row["v"] == pytest.approx(wanted[row["k"]], abs=6 if "M" in aggregate[:1] else 2.5)


def test_quantiles_of_one_value_are_in_their_order() -> None:
    """At little ε they are mostly noise, and still a list that rises; they share what is read."""
    made = plan(
        ["SELECT k, QUANTILE_CONT(x, [0.9, 0.1, 0.5]) AS q FROM t GROUP BY k"], catalog(None), Terms(epsilon="0.01")
    )
    assert len(made.releases[0].aggregate.distributions) == 1
    found = answered(
        "SELECT k, QUANTILE_CONT(x, [0.9, 0.1, 0.5]) AS q FROM t GROUP BY k", epsilon="0.01"
    ).table.to_pylist()
    assert all(low <= middle <= high for high, low, middle in (row["q"] for row in found))


def test_of_a_person_with_many_values_evenly_spaced_ones_count() -> None:
    """A person with the values 0 to 20 in one group: three of them, seven apart, whatever the salt."""
    table = pa.table({name: [7] * 21 if name in ("p",) else [0] * 21 if name == "k" else list(range(21)) if name == "x" else
                      [False] * 21 if name == "flag" else [100] * 21 if name == "y" else [0.0] * 21 if name == "r" else [0] * 21
                      for name in rows().column_names})  # fmt: skip
    made = plan(["SELECT k, MEDIAN(x), MAX(x) FROM t GROUP BY k"], catalog("p"), Terms(epsilon=1, groups=1, rows=3))
    seen = set()
    with DuckDBEngine(catalog("p"), {"t": table}) as engine:
        for salt in "abcdefghij":
            values = engine.fetch(write_values(made.releases[0].aggregate, 0), salt=salt).to_pylist()
            kept = sorted(row["v"] for row in values for _ in range(row["c"]))
            assert len(kept) == 3
            assert kept[1] - kept[0] == kept[2] - kept[1] == 7
            seen.add(kept[0])
        most = engine.fetch(write_values(made.releases[0].aggregate, 1), salt="a").to_pylist()
    assert len(seen) > 2
    assert [(row["v"], row["c"]) for row in most] == [(20, 1)]


def test_a_quantile_cannot_be_promised_an_error() -> None:
    with pytest.raises(InvalidQuery, match="the error of a quantile depends on the data"):
        plan(["SELECT MEDIAN(x) FROM t"], catalog(None), Terms(error=1))


def test_beside_gaussian_noise_quantiles_have_their_epsilon() -> None:
    """Many groups and a δ: Gaussian noise for the count, fitted to what the quantile leaves of ε."""
    terms = Terms(epsilon=1, delta="1e-6", groups=40, rows=1)
    made = plan(["SELECT k, y, COUNT(*), MEDIAN(x) FROM t GROUP BY k, y"], catalog("p"), terms)
    (release,) = made.releases
    assert sum(choice.mechanism.epsilon for choice in release.choices) == Fraction(1, 2)
    alone = plan(["SELECT k, y, COUNT(*) FROM t GROUP BY k, y"], catalog("p"), replace(terms, epsilon="0.5"))
    assert release.noises == alone.releases[0].noises
    assert (made.epsilon, made.delta) == (1, Fraction("1e-6"))
    assert made.verify(catalog("p")) == made.loss


@pytest.mark.parametrize("unit", [None, "p"])
@pytest.mark.parametrize(
    "aggregate", ["COUNT(DISTINCT x)", "COUNT(DISTINCT x // 3) FILTER (WHERE flag)", "COUNT(DISTINCT flag)"]
)
def test_without_noise_different_values_are_counted(
    aggregate: str, unit: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every person has one row here, so nothing is left out."""
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
    sql = f"SELECT k, {aggregate} AS v, COUNT(*) AS n FROM t GROUP BY k ORDER BY k"
    limits = {"groups": 2, "rows": 2} if unit else {}
    found = {row["k"]: (row["v"], row["n"]) for row in answered(sql, unit, **limits).table.to_pylist()}
    t = rows()  # noqa: F841 (DuckDB reads it)
    assert {k: found[k] for k, _, _ in duckdb.sql(sql).fetchall()} == {
        k: (v, n) for k, v, n in duckdb.sql(sql).fetchall()
    }
    assert found[4] == (0, 0)


def test_which_of_a_persons_different_values_count_is_a_fair_draw() -> None:
    """A person with the values 0 to 9: over 400 salts each counts about as often, two of them each time."""
    table = rows().slice(0, 10)
    table = table.set_column(0, "p", pa.array([7] * 10)).set_column(1, "k", pa.array([0] * 10))
    table = table.set_column(2, "x", pa.array(range(10)))
    made = plan(["SELECT COUNT(DISTINCT x) FROM t"], catalog("p"), Terms(epsilon=1, rows=2))
    sql = write_distinct(made.releases[0].aggregate, 0).replace("count(DISTINCT v) AS c", "list(v) AS c")
    seen = np.zeros(10)
    with DuckDBEngine(catalog("p"), {"t": table}) as engine:
        for salt in range(400):
            (kept,) = engine.fetch(sql, salt=str(salt)).column("c").to_pylist()
            assert len(kept) == 2
            seen[kept] += 1
    assert ((seen - 80) ** 2 / 64).sum() < 60  # χ² of nine degrees: P(> 60 · 0.9) < 1e-7


SETS = [
    "ROLLUP (k, flag)",
    "CUBE (k, flag)",
    "GROUPING SETS ((k), (flag), ())",
    "k, ROLLUP (flag)",
    "ROLLUP ((k, flag), y)",
]


@pytest.mark.parametrize("sets", SETS)
def test_without_noise_totals_are_what_duckdb_computes(sets: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
    keys = [key for key in ("k", "flag", "y") if key in sets]
    shown = ", ".join([*keys, *(f"GROUPING({key}) AS g{key}" for key in keys)])
    sql = f"SELECT {shown}, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS m, VAR_POP(x) AS v FROM t GROUP BY {sets}"
    t = rows()  # noqa: F841 (DuckDB reads it)
    width = 2 * len(keys)
    wanted = {row[:width]: row[width:] for row in duckdb.sql(sql).fetchall()}
    found = {tuple(row.values())[:width]: tuple(row.values())[width:] for row in answered(sql).table.to_pylist()}
    for names, numbers in wanted.items():
        count, total, mean, variance = found[names]
        assert (count, total) == (numbers[0], numbers[1] or 0)
        if mean is not None:
            assert (mean, variance) == (pytest.approx(numbers[2]), pytest.approx(numbers[3], abs=1e-9))
    assert all(numbers[0] == 0 for names, numbers in found.items() if names not in wanted)


@pytest.mark.parametrize("delta", [None, "1e-6"])
def test_totals_fit_their_parts(delta: str | None) -> None:
    """With noise: every total is the sum of its parts, to the last unit, and nothing but the parts is paid for."""
    sql = "SELECT k, flag, GROUPING(k, flag) AS g, COUNT(*) AS n FROM t GROUP BY CUBE (k, flag)"
    found = answered(sql, "p", groups=15, rows=1, delta=delta).table.to_pylist()
    cells = [row for row in found if row["g"] == 0]
    for row in found:
        parts = [
            cell["n"]
            for cell in cells
            if (row["g"] & 2 or cell["k"] == row["k"]) and (row["g"] & 1 or cell["flag"] == row["flag"])
        ]
        assert row["n"] == sum(parts)
    made = plan([sql], catalog("p"), Terms(epsilon=1, groups=15, rows=1, delta=delta))
    plain = plan(
        [sql.replace("CUBE (k, flag)", "k, flag").replace("GROUPING(k, flag) AS g, ", "")],
        catalog("p"),
        Terms(epsilon=1, groups=15, rows=1, delta=delta),
    )
    assert made.loss == plain.loss
    assert made.digest == plain.digest


def test_totals_of_no_named_group_are_zero() -> None:
    """Keys from the data, none of which is named: no parts, and a grand total of nothing."""
    made = plan(
        ["SELECT free, COUNT(*) AS n FROM t WHERE k = 4 GROUP BY ROLLUP (free)"],
        catalog(None),
        Terms(epsilon=1, delta="1e-6"),
    )
    with DuckDBEngine(catalog(None), {"t": rows()}) as engine:
        answer = made.finish(made.run(engine, None), RECEIPT, engine)[0]
    assert answer.table.to_pylist() == [{"free": None, "n": 0}]
    assert any("groups that were named" in note for note in answer.notes)


@pytest.mark.parametrize(
    "noise",
    [Geometric(epsilon="0.5", sensitivity=3), RoundedGaussian(sigma=7, squared_sensitivity=4)],
    ids=["geometric", "Gaussian"],
)
@pytest.mark.parametrize("times", [1, 2, 30])
def test_added_noise_is_within_its_interval_and_the_interval_is_not_idle(noise: object, times: int) -> None:
    """20,000 sums: at most the stated share is outside (false alarms below 1e-6); at 0.45 of the width more are."""
    draws = noise.release(np.zeros(20_000 * times, np.int64)).reshape(-1, times).sum(1)  # type: ignore[attr-defined]
    width = AddedNoise(noise, times).interval("0.9")  # type: ignore[arg-type]
    assert binom.sf(int((np.abs(draws) > width).sum()) - 1, draws.size, 0.1) >= 1e-6
    assert binom.sf(int((np.abs(draws) > 0.45 * width).sum()) - 1, draws.size, 0.1) < 1e-6


@pytest.mark.parametrize("unit", [None, "p"])
def test_without_noise_a_histogram_counts_up_to_each_edge(unit: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """All bins are paid for once; edges may lie between the steps of a value."""
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
    limits = {"groups": 2, "rows": 2} if unit else {}
    sql = "SELECT k, HISTOGRAM(x, [4.5, 10, 20]) AS h, HISTOGRAM(r, [-0.1]) FILTER (WHERE flag) AS f FROM t GROUP BY k ORDER BY k"
    found = answered(sql, unit, **limits).table.to_pylist()
    t = rows()  # noqa: F841 (DuckDB reads it)
    plain = """SELECT k, [count(*) FILTER (x <= 4.5), count(*) FILTER (x > 4.5 AND x <= 10), count(*) FILTER (x > 10 AND x <= 20), 0],
               [count(*) FILTER (r <= -0.1 AND flag), count(*) FILTER (r > -0.1 AND flag)] FROM t GROUP BY k ORDER BY k"""
    assert [(row["k"], row["h"], row["f"]) for row in found[:4]] == duckdb.sql(plain).fetchall()
    made = plan([sql], catalog(unit), Terms(epsilon=1, **limits))  # type: ignore[arg-type]
    assert [tally.noise.epsilon for tally in made.releases[0].tallies] == [Fraction(1, 2)] * 2
    assert made.verify(catalog(unit)) == made.loss


def test_counts_of_a_histogram_are_within_their_intervals() -> None:
    """A bin taken from the list has no interval of its own; the counts are within the noise that `explain` states."""
    made = plan(["SELECT k, HISTOGRAM(x, [4, 10]) AS h FROM t GROUP BY k"], catalog(None), Terms(epsilon=1))
    width = made.releases[0].tallies[0].noise.interval("0.999999999")
    with DuckDBEngine(catalog(None), {"t": rows()}) as engine:
        noisy = made.finish(made.run(engine, None), RECEIPT, engine)[0].table.to_pylist()
    x, k = (
        np.array([np.nan if v is None else v for v in rows().column("x").to_pylist()], float),
        np.array(rows().column("k")),
    )
    for row in noisy:
        here = x[k == row["k"]]
        exact = [(here <= 4).sum(), ((here > 4) & (here <= 10)).sum(), (here > 10).sum()]
        assert np.abs(np.array(row["h"]) - exact).max() <= width


@pytest.mark.parametrize("unit", [None, "p"])
@pytest.mark.parametrize("value", ["x", "x % 3", "flag", "CASE WHEN x > 10 THEN 'high' ELSE 'low' END", "r"])
def test_with_hardly_any_noise_modes_are_what_duckdb_counts(value: str, unit: str | None) -> None:
    """Every person has one row here; of equal counts any may be named."""
    limits = {"groups": 2, "rows": 2} if unit else {}
    sql = f"SELECT k, MODE({value}) AS m, APPROX_TOP_K({value}, 2) AS q FROM t GROUP BY k ORDER BY k"
    found = answered(sql, unit, epsilon=10**6, **limits).table.to_pylist()
    t = rows()  # noqa: F841 (DuckDB reads it)
    plain = duckdb.sql(
        f"SELECT k, {value} AS v, COUNT(*) AS n FROM t WHERE {value} IS NOT NULL GROUP BY k, v"
    ).fetchall()
    for row in found[:3]:
        counts = {v: n for k, v, n in plain if k == row["k"]}
        largest = sorted(counts.values(), reverse=True)
        assert counts[row["m"]] == largest[0]
        assert row["m"] == row["q"][0]
        assert counts[row["q"][1]] == largest[1]


def test_a_mode_says_how_frequent_it_is_and_has_no_interval() -> None:
    answer = answered("SELECT MODE(x) AS m, COUNT(*) AS n FROM t")
    assert set(answer.intervals) == {"n"}
    width = 2 * np.log(21 / 0.05)  # half of ε, one row
    (note,) = [note for note in answer.notes if "value named" in note]
    assert f"the largest count − {int(np.ceil(width))}, with probability 95 % each" in note


def test_frequent_values_and_histograms_are_planned_by_their_error() -> None:
    made = plan(["SELECT MODE(x), HISTOGRAM(x, [5]), COUNT(*) FROM t"], catalog(None), Terms(error=20))
    (release,) = made.releases
    assert release.tops[0].mechanism.interval("0.95") <= 20 < 1.01 * release.tops[0].mechanism.interval("0.95")
    assert release.tallies[0].noise == release.noises[0]
    assert made.verify(catalog(None)) == made.loss


def test_the_longest_list_of_frequent_values_is_chosen_once() -> None:
    made = plan(["SELECT MODE(x), APPROX_TOP_K(x, 3), APPROX_TOP_K(x, 2) FROM t"], catalog(None), Terms(epsilon=1))
    (top,) = made.releases[0].tops
    assert (top.mechanism.places, top.mechanism.epsilon) == (3, 1)


COUNTS = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT k, n FROM ({COUNTS}) AS a WHERE n > (SELECT AVG(n) FROM ({COUNTS}) AS b) ORDER BY k",
        f"WITH q AS ({COUNTS}) SELECT k, n FROM q WHERE n > (SELECT AVG(n) FROM q) ORDER BY k",
        f"{COUNTS} HAVING n > (SELECT AVG(n) FROM ({COUNTS}) AS b) ORDER BY k",
    ],
)
def test_a_threshold_of_released_values_is_free_and_keeps_intervals(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both counts are one release; the rest is computed from it, and every row has its interval."""
    monkeypatch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
    made = plan([sql], catalog(None), Terms(epsilon=1))
    assert (len(made.releases), made.epsilon) == (1, 1)
    answer = answered(sql)
    assert [tuple(row.values()) for row in answer.table.to_pylist()] == [(0, 40), (1, 25)]
    assert set(answer.intervals) == {"n"}


def test_a_table_that_is_read_twice_as_a_whole_shows_no_hidden_columns() -> None:
    sql = f"WITH q AS ({COUNTS}) SELECT k, n FROM q WHERE n > (SELECT AVG(n) FROM (SELECT * FROM q) AS w)"
    assert plan([sql], catalog(None), Terms(epsilon=1)).post_queries[0].intervals == ()
