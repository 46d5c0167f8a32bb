"""Intervals cover: they hold the number without noise at least as often as they say, and are not idly wide.

What they must hold is what the same plan gives without noise (each mechanism releases its value as it is), computed by
the same pipeline from bounding to post-processing. Every group of an answer has noise of its own, so one answer tries
many intervals. A frequency is judged by an exact one-sided binomial test, whose false-alarm rate is at most 1e-6.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from math import ceil

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from discreet.curator.answer import Answer, Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Unit
from discreet.sql.after.interval_rules import AddedNoise
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan

ALPHA = 1e-6
GROUPS = 400
TRIALS = 3500  # intervals of each column, and a few more
COLUMNS = [
    Column("p", "integer"),
    Column("k", "integer", lower=0, upper=GROUPS - 1, nullable=False),
    Column("x", "integer", lower=0, upper=20),
    Column("y", "integer", lower=100, upper=110, nullable=False),
    Column("r", "real", lower=-1, upper=1, granularity="0.25"),
]
RECEIPT = Receipt("d", "ann", 2, "2026-11-15T10:00:00Z", "9f2c", Pure(1), 1.0, 0.0, False, 1.0)


@cache
def rows() -> pa.Table:
    """Groups have from 0 to 147 rows, with values outside the bounds and nulls among them."""
    stream = np.random.default_rng(5)
    k = np.repeat(np.arange(GROUPS), 3 * (np.arange(GROUPS) % 50))
    n = len(k)
    x = [None if draw == 7 else int(draw) for draw in stream.integers(-3, 30, n)]
    r = [None if draw > 1.4 else float(draw) for draw in stream.normal(0.4, 0.7, n)]
    p = stream.integers(0, n // 4, n)
    return pa.table({"p": p, "k": k, "x": x, "y": stream.integers(95, 112, n), "r": r})


@dataclass(frozen=True)
class Case:
    """Columns asked for together, and the terms."""

    columns: str
    terms: Terms
    unit: str | None = None
    noise: type = Geometric

    @property
    def sql(self) -> str:
        """The whole statement, or its columns by group."""
        if "FROM t" in self.columns:
            return self.columns
        return f"SELECT k, {self.columns} FROM t GROUP BY k ORDER BY k"

    @property
    def catalog(self) -> Catalog:
        return Catalog("d", [Table("t", COLUMNS, unit=Unit(self.unit))], neighbors="add or remove one")

    @cache  # noqa: B019 (a handful of cases)
    def plan(self) -> QueryPlan:
        return plan([self.sql], self.catalog, self.terms)


@cache
def engine(unit: str | None) -> "Once":
    return Once(DuckDBEngine(Case("COUNT(*)", Terms(epsilon=1), unit).catalog, {"t": rows()}), {})


@dataclass
class Once:
    """The real engine, which reads the same rows once."""

    engine: DuckDBEngine
    found: dict[str, pa.Table]

    dialect = "duckdb"
    version = ""

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        if sql not in self.found:
            self.found[sql] = self.engine.fetch(sql, salt=salt)
        return self.found[sql]


def answer(case: Case) -> Answer:
    made, source = case.plan(), engine(case.unit)
    return made.finish(made.run(source, None), RECEIPT, source)[0]


def without_noise(case: Case, monkeypatch: pytest.MonkeyPatch) -> Answer:
    with monkeypatch.context() as patch:
        for kind in (Geometric, RoundedGaussian):
            patch.setattr(kind, "release", lambda self, value, *, entropy=None: value)
        return answer(case)


@dataclass(frozen=True)
class Seen:
    """Over all answers, one entry for each number that exists; where no interval was given, it is the whole line.

    (A quotient has none where its denominator may be zero. Whether it may is read off noisy numbers, so among those that
    are given more can be wrong than was stated; of all that were asked for, no more are.)
    """

    truth: np.ndarray
    low: np.ndarray
    high: np.ndarray
    given: float
    """The share of numbers for which there was an interval at all."""

    def covered(self, part: float = 1.0) -> np.ndarray:
        """Whether intervals, shrunk to a part of their width about their middle, hold the truth."""
        middle, half = (self.low + self.high) / 2, (self.high - self.low) / 2 * part
        slack = 1e-9 * (1 + np.abs(self.truth))  # of the floats here, not of the product
        return np.abs(self.truth - middle) <= half + slack


LOOKED: dict[Case, dict[str, Seen]] = {}


def look(case: Case, monkeypatch: pytest.MonkeyPatch) -> dict[str, Seen]:
    """What was seen of each column; a case is looked at once, for all tests."""
    if case not in LOOKED:
        LOOKED[case] = _look(case, monkeypatch)
    return LOOKED[case]


def _look(case: Case, monkeypatch: pytest.MonkeyPatch) -> dict[str, Seen]:
    true = without_noise(case, monkeypatch)
    names = list(true.intervals)
    answers = [answer(case) for _ in range(ceil(TRIALS / GROUPS))]
    return {name: _seen(name, true, answers) for name in names}


def _seen(name: str, true: Answer, answers: list[Answer]) -> Seen:
    wanted = floats(true.table.column(name))
    ends = [np.array([floats(one.intervals[name][side]) for one in answers]) for side in (0, 1)]
    truth = np.broadcast_to(wanted, ends[0].shape)
    exists, given = ~np.isnan(truth), ~np.isnan(ends[0]) & ~np.isnan(ends[1])
    low, high = np.where(given, ends[0], -1e300), np.where(given, ends[1], 1e300)
    return Seen(truth[exists], low[exists], high[exists], float(given[exists].mean()))


def floats(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    return np.array([np.nan if value is None else float(value) for value in column.to_pylist()])


def assert_covers(hits: np.ndarray, confidence: float, what: str) -> None:
    """The truth is refused with probability at most ALPHA if intervals hold with at least this probability."""
    failure_probability = float(binom.cdf(int(hits.sum()), hits.size, confidence))
    assert failure_probability >= ALPHA, (
        f"{what}: {hits.mean():.4f} of {hits.size} intervals cover, {confidence} was stated"
    )


def covers(hits: np.ndarray, confidence: float) -> bool:
    return float(binom.cdf(int(hits.sum()), hits.size, confidence)) >= ALPHA


COUNTS = "COUNT(*) AS n, COUNT(x) AS c, SUM(x) AS s, SUM(r) AS q"
MEANS = "AVG(x) AS m, AVG(y) AS h, SUM(y) AS t, AVG(r) AS o, COUNT(*) AS n"
MADE = (
    "SUM(x) / COUNT(*) AS ratio, 100.0 * COUNT(x) / NULLIF(COUNT(*), 0) AS share, SUM(x) - 2 * COUNT(*) AS less, "
    "-(SUM(r)) * (COUNT(*) + 1) AS product, ROUND(SUM(x) / 7, 1) AS rounded, CAST(COUNT(*) AS DOUBLE) AS cast_, "
    "(SUM(x) + SUM(r)) / (COUNT(*) - COUNT(x)) AS nested"
)
OF_MEANS = "AVG(x) - AVG(y) AS gap, AVG(y) * COUNT(*) AS total, ROUND(AVG(x)) AS whole, AVG(x) / AVG(y) AS ratio"
SPREADS = "VAR_POP(x) AS v, STDDEV(x) AS d, VARIANCE(y) AS w, AVG(x) AS m, 2 * VAR_POP(r) + 1 AS a"
PAIRS = "COVAR_SAMP(r, x) AS c, CORR(r, x) AS r, REGR_SLOPE(x, y) AS slope, REGR_INTERCEPT(x, y) AS level, REGR_R2(y, x) AS b"
RANKS = (
    "MEDIAN(x) AS m, QUANTILE_CONT(x, 0.9) AS h, PERCENTILE_DISC(0.1) WITHIN GROUP (ORDER BY r) AS l, MAX(x) AS most, "
    "MIN(y) AS least, QUANTILE_DISC(y, 0.75) - QUANTILE_DISC(y, 0.25) AS gap"
)
QUESTIONS = {
    "counts": COUNTS,
    "means": MEANS,
    "made of counts": MADE,
    "made of means": OF_MEANS,
    "spreads": SPREADS,
    "pairs": PAIRS,
}
GEOMETRIC, GAUSSIAN = Terms(epsilon=1), Terms(epsilon=1, delta="1e-6", groups=30, rows=1)
CASES = {
    f"{name}, {confidence}, {kind}": Case(
        columns,
        replace(terms, confidence=confidence),
        unit,
        RoundedGaussian if kind == "Gaussian" else Geometric,
    )
    for name, columns in QUESTIONS.items()
    for confidence, kind, terms, unit in [
        ("0.95", "geometric", GEOMETRIC, None),
        ("0.9", "geometric, a person", Terms(epsilon=20, groups=3, rows=2), "p"),
        ("0.9", "Gaussian", GAUSSIAN, "p"),
    ]
}


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("name", CASES)
def test_intervals_cover_what_there_would_be_without_noise(name: str, monkeypatch) -> None:
    case = CASES[name]
    assert {type(noise) for noise in case.plan().releases[0].noises} == {case.noise}
    seen = look(case, monkeypatch)
    expected = [part.rsplit(" AS ", 1)[1] for part in case.columns.split(", ") if " AS " in part]
    assert [name for name in expected if name not in ("DOUBLE)",)] == list(seen)
    for column, one in seen.items():
        assert_covers(one.covered(), float(Fraction(case.terms.confidence)), f"{name}, {column}")
        assert (one.low <= one.high).all()
        if column not in ("nested", "share", "ratio", "slope", "level"):  # a denominator that may be zero has none
            assert one.given == 1


INNER = "SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) + COUNT(x) AS b FROM t GROUP BY k"
OUTER = {
    "a subquery": f"SELECT k, n * 2 AS v, n + s AS w, s / n AS ratio, b - n AS d FROM ({INNER}) AS i ORDER BY k",
    "WITH": f"WITH i AS ({INNER}) SELECT n - 3 * s AS v, n * (n - 1) AS w, b AS n FROM i ORDER BY k",
    "everything of it": f"SELECT * FROM ({INNER}) AS i ORDER BY k",
    "two blocks": f"SELECT i.n - j.c AS v FROM ({INNER}) AS i JOIN (SELECT k, COUNT(x) AS c FROM t GROUP BY k) AS j ON i.k = j.k ORDER BY i.k",
    "a key as a factor": "SELECT (10 - k) * COUNT(*) AS v, SUM(x) / (k - 5) AS w, 7 / COUNT(*) AS ratio FROM t GROUP BY k ORDER BY k",
    "totals": "SELECT k, GROUPING(k) AS g, COUNT(*) AS n, AVG(x) AS m, SUM(x) / COUNT(*) AS ratio FROM (SELECT k // 40 AS k, k % 40 AS j, x FROM t) GROUP BY ROLLUP (k, j) ORDER BY GROUPING(k), GROUPING(j), k, j",
    "a name from the same SELECT": "SELECT SUM(x) AS s, s - COUNT(*) AS v FROM t GROUP BY k ORDER BY k",
}  # fmt: skip


@pytest.mark.parametrize("name", OUTER)
def test_intervals_cover_in_what_is_made_of_released_tables(name: str, monkeypatch) -> None:
    """An outer query, a join of blocks, keys in the arithmetic: an interval there is as honest, or there is none."""
    case = Case(OUTER[name], replace(GEOMETRIC, confidence="0.9"))
    seen = look(case, monkeypatch)
    assert seen
    for column, one in seen.items():
        assert_covers(one.covered(), 0.9, f"{name}, {column}")


PEOPLE_IN_GROUPS = Terms(epsilon=20, groups=3, rows=2, confidence="0.9")
OF_PEOPLE = {
    "a join": "SELECT a.k, COUNT(*) AS n, SUM(b.x) AS s, AVG(b.y) AS m FROM t a JOIN t b ON a.p = b.p AND a.k = b.k GROUP BY a.k ORDER BY a.k",
    "an outer join": "SELECT a.k, COUNT(*) AS n, COUNT(b.x) AS c, SUM(b.x) / COUNT(*) AS ratio FROM t a LEFT JOIN t b ON a.p = b.p AND a.x > b.y - 90 GROUP BY a.k ORDER BY a.k",
    "people and groups": "SELECT k, COUNT(*) AS n, SUM(c) AS s, AVG(m) AS m FROM (SELECT p, k, COUNT(*) AS c, AVG(x) AS m FROM t GROUP BY p, k) GROUP BY k ORDER BY k",
    "first rows": "SELECT k, COUNT(*) AS n, SUM(x) AS s FROM (SELECT p, k, x, ROW_NUMBER() OVER (PARTITION BY p ORDER BY y) AS i FROM t) WHERE i = 1 GROUP BY k ORDER BY k",
    "a union": "SELECT k, COUNT(*) AS n, SUM(v) AS s FROM (SELECT p, k, x AS v FROM t UNION ALL SELECT p, k, y - 100 AS v FROM t) GROUP BY k ORDER BY k",
    "people": "SELECT k, COUNT(DISTINCT p) AS n, COUNT(DISTINCT p) FILTER (WHERE x > 9) AS f, SUM(x) FILTER (WHERE y > 104) AS s FROM t GROUP BY k ORDER BY k",
    "people without rows": "SELECT k, AVG(COALESCE(c, 0)) AS m, SUM(c * 2) AS s FROM t LEFT JOIN (SELECT p AS q, COUNT(*) AS c FROM t WHERE x > 12 GROUP BY p) ON p = q GROUP BY k ORDER BY k",
    "different values": "SELECT k, COUNT(DISTINCT x) AS d FROM t WHERE p IN (SELECT p FROM t WHERE y > 101) GROUP BY k ORDER BY k",
}  # fmt: skip


@pytest.mark.parametrize("name", OF_PEOPLE)
def test_intervals_cover_over_joins_and_steps(name: str, monkeypatch) -> None:
    """What must be held is the bounded truth: the same pipeline, without noise."""
    seen = look(Case(OF_PEOPLE[name], PEOPLE_IN_GROUPS, "p"), monkeypatch)
    assert seen
    for column, one in seen.items():
        assert_covers(one.covered(), 0.9, f"{name}, {column}")
        assert one.given == 1 or column == "ratio"


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("counts")])
def test_a_narrower_interval_would_not_cover(name: str, monkeypatch) -> None:
    """Of numbers that were released as they are: three fifths of the width do not hold as often as was stated."""
    case = CASES[name]
    confidence = float(Fraction(case.terms.confidence))
    for column, one in look(case, monkeypatch).items():
        inside = one.low > 0  # a count's interval is cut at zero
        if column in ("s", "q"):
            inside = np.ones(len(one.low), bool)
        part = Seen(one.truth[inside], one.low[inside], one.high[inside], 1)
        assert part.truth.size > 1500
        assert not covers(part.covered(0.6), confidence), f"{name}, {column}"


@pytest.mark.parametrize("columns", [SPREADS, PAIRS], ids=["spreads", "pairs"])
def test_intervals_of_spreads_cover_and_are_not_idle(columns: str, monkeypatch) -> None:
    """Up to six measures share the failure probability, and the extremes of all are taken: not ten times too wide."""
    for column, one in look(Case(columns, Terms(epsilon=60)), monkeypatch).items():
        known = one.low > -1e299
        part = Seen(one.truth[known], one.low[known], one.high[known], 1)
        assert part.truth.size > 1000, column
        assert_covers(one.covered(), 0.95, column)
        assert not covers(part.covered(0.1), 0.95), column


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("means")])
def test_intervals_of_means_are_not_idle(name: str, monkeypatch) -> None:
    """Half of the failure probability for each of two measures, and the extremes of both: wider than needed, but not three times."""
    case = CASES[name]
    for column in ("m", "h", "o"):
        one = look(case, monkeypatch)[column]
        assert not covers(one.covered(0.3), float(Fraction(case.terms.confidence))), f"{name}, {column}"


def test_the_audit_notices_intervals_for_a_smaller_scale(monkeypatch) -> None:
    """Noise that is 30 % larger than the intervals know of."""
    case = CASES["counts, 0.95, geometric"]
    true = without_noise(case, monkeypatch)
    monkeypatch.setattr(Geometric, "scale", property(lambda self: self.sensitivity / self.epsilon * Fraction(13, 10)))
    answers = [answer(case) for _ in range(ceil(TRIALS / GROUPS))]
    monkeypatch.undo()
    width = {place: noise.interval("0.95") for place, noise in enumerate(case.plan().releases[0].noises)}
    for place, (column, step) in enumerate([("n", 1), ("c", 1), ("s", 1), ("q", 0.25)]):
        values = np.array([floats(one.table.column(column)) for one in answers])
        hits = np.abs(values - floats(true.table.column(column))) <= width[place] * step + 1e-9
        assert not covers(hits.reshape(-1), 0.95), column


def test_one_number_without_groups(monkeypatch) -> None:
    """No GROUP BY: one interval an answer."""
    columns = "AVG(x) AS m, SUM(x) / COUNT(*) AS ratio"
    made = plan([f"SELECT {columns} FROM t"], Case(columns, GEOMETRIC).catalog, Terms(epsilon="0.02", confidence="0.9"))
    source = engine(None)
    with monkeypatch.context() as patch:
        patch.setattr(Geometric, "release", lambda self, value, *, entropy=None: value)
        true = made.finish(made.run(source, None), RECEIPT, source)[0]
    answers = [made.finish(made.run(source, None), RECEIPT, source)[0] for _ in range(150)]
    for name in ("m", "ratio"):
        one = _seen(name, true, answers)
        assert_covers(one.covered(), 0.9, name)
        assert one.given == 1


@pytest.mark.parametrize("times", [2, 40])
def test_the_width_of_a_sum_of_noises_grows_with_their_scale(times: int) -> None:
    """At any scale: e^(−1/scale) has few digits left in floats long before it is 1."""
    widths = [AddedNoise(Geometric(sensitivity=10**k, epsilon=1), times).interval("0.95") for k in (4, 9, 13, 14, 15)]
    assert [width / 10**k for width, k in zip(widths, (4, 9, 13, 14, 15), strict=True)] == pytest.approx(
        [widths[0] / 10**4] * 5, rel=1e-3
    )


def true_quantile(values: np.ndarray, probability: float, method: str) -> float:
    """In each group, of the values that are there; NaN where there are none."""
    present = values[~np.isnan(values)]
    return float(np.quantile(present, probability, method=method)) if present.size else np.nan


WANTED = {
    "m": ("x", 0.5, "linear"),
    "h": ("x", 0.9, "linear"),
    "l": ("r", 0.1, "inverted_cdf"),
    "most": ("x", 1.0, "linear"),
    "least": ("y", 0.0, "linear"),
}


@pytest.mark.parametrize("epsilon", [3, 100])
def test_intervals_of_quantiles_cover_the_quantiles_of_the_clamped_rows(epsilon: int) -> None:
    """Groups of no row to 147; what must be held is computed here. Where ε is large, intervals are not the range."""
    case = Case(RANKS, Terms(epsilon=epsilon))
    table = rows().to_pydict()
    k = np.array(table["k"])
    bounds = {"x": (0, 20), "y": (100, 110), "r": (-1, 1)}
    clamped = {}
    for name, (low, high) in bounds.items():
        values = np.array([np.nan if value is None else value for value in table[name]], float)
        clamped[name] = np.clip(np.round(values * 4) / 4, low, high)
    answers = [answer(case) for _ in range(ceil(TRIALS / GROUPS))]
    truths = {
        name: np.array([true_quantile(clamped[column][k == group], q, method) for group in range(GROUPS)])
        for name, (column, q, method) in WANTED.items()
    }
    spread = [
        np.array([true_quantile(clamped["y"][k == group], q, "inverted_cdf") for group in range(GROUPS)])
        for q in (0.75, 0.25)
    ]
    truths["gap"] = spread[0] - spread[1]
    for name, truth in truths.items():
        low, high = (np.array([floats(one.intervals[name][side]) for one in answers]) for side in (0, 1))
        exists = np.broadcast_to(~np.isnan(truth), low.shape)
        hits = (low <= truth + 1e-9) & (truth <= high + 1e-9)
        assert not np.isnan(low).any(), name
        assert_covers(hits[exists], 0.95, name)
        column = {"gap": "y"}.get(name) or WANTED[name][0]
        wide = bounds[column][1] - bounds[column][0]
        large = exists & (np.arange(GROUPS) % 50 >= 40)
        if epsilon == 100 and name not in ("most", "least"):
            assert np.median((high - low)[large]) < wide / 2, name


def test_ends_of_lists_cover_one_by_one() -> None:
    """The counts of a histogram, and six quantiles: more than share a failure probability elsewhere."""
    shares = [0.1, 0.3, 0.45, 0.6, 0.75, 0.9]
    sql = (
        f"SELECT HISTOGRAM(x, [5, 12]) AS h, DP_INTERVAL_LOW(h) AS a, DP_INTERVAL_HIGH(h) AS b, QUANTILE_DISC(x, {shares}) "
        "AS q, DP_INTERVAL_LOW(q) AS c, DP_INTERVAL_HIGH(q) AS d FROM t GROUP BY k ORDER BY k"
    )
    answers = [answer(Case(sql, Terms(epsilon=40, confidence="0.9"))) for _ in range(2)]
    table = rows().to_pydict()
    k, x = np.array(table["k"]), np.array([np.nan if value is None else value for value in table["x"]], float)
    values = [np.clip(x[(k == group) & ~np.isnan(x)], 0, 20) for group in range(GROUPS)]
    counts = np.array([np.histogram(part, [-1, 5.5, 12.5, 21])[0] for part in values])
    ranked = np.array([[true_quantile(part, share, "inverted_cdf") for share in shares] for part in values])
    for truth, names in ((counts, "ab"), (ranked, "cd")):
        exists = ~np.isnan(truth.astype(float))
        hits = []
        for one in answers:
            low, high = (np.array(one.table.column(name).to_pylist(), float) for name in names)
            assert low.shape == truth.shape
            hits.append(((low <= truth) & (truth <= high))[exists])
        assert_covers(np.concatenate(hits), 0.9, names)
        assert np.concatenate(hits).size > 2000


def test_intervals_of_quantiles_of_people_cover() -> None:
    """One row a person, from a step: nobody is bounded, so the truth is that of all people of a group."""
    sql = "SELECT k, MEDIAN(m) AS q, MIN(m) AS least, MAX(m) AS most FROM (SELECT p, MIN(k) AS k, MAX(x) AS m FROM t GROUP BY p) GROUP BY k ORDER BY k"  # fmt: skip
    case = Case(sql, Terms(epsilon=30, groups=1, rows=1), "p")
    table, people = rows().to_pydict(), {}
    for p, k, x in zip(table["p"], table["k"], table["x"], strict=True):
        first, largest = people.get(p, (GROUPS, np.nan))
        people[p] = min(first, k), largest if x is None else float(np.fmax(largest, np.clip(x, 0, 20)))
    groups = np.array([k for k, _ in people.values()])
    values = np.array([m for _, m in people.values()])
    answers = [answer(case) for _ in range(ceil(TRIALS / GROUPS))]
    for name, probability in (("q", 0.5), ("least", 0.0), ("most", 1.0)):
        truth = np.array([true_quantile(values[groups == k], probability, "linear") for k in range(GROUPS)])
        low, high = (np.array([floats(one.intervals[name][side]) for one in answers]) for side in (0, 1))
        assert low.shape[1] == GROUPS
        exists = np.broadcast_to(~np.isnan(truth), low.shape)
        assert exists.sum() > 1000
        assert_covers(((low <= truth + 1e-9) & (truth <= high + 1e-9))[exists], 0.95, name)
        if name == "q":
            assert np.median((high - low)[:, :8]) < 20
