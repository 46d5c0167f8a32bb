"""What bounding left out: measured for a tenth of ε, with an interval that holds."""

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import islice

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom

from discreet.curator.answer import Receipt
from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.privacy.loss import Pure
from discreet.privacy.unit import Unit
from discreet.sql.after.left_out import Measurement, width_of_sum
from discreet.sql.plan.planner import Terms, plan

COLUMNS = [
    Column("who", "integer", nullable=False),
    Column("k", "text", values=["a", "b", "c", "d"], nullable=False),
    Column("t", "text", nullable=False),
    Column("x", "integer", lower=0, upper=9, nullable=False),
]
KNOWN = Catalog("d", [Table("t", COLUMNS, unit=Unit("who"), groups=2, rows=3)], neighbors="add or remove one")
BY = "SELECT k, COUNT(*) AS n FROM t GROUP BY k"


def rows() -> pa.Table:
    """A thousand people with two rows in each of four groups, and one with nine rows in one of them."""
    who = np.append(np.repeat(np.arange(1000), 8), [5000] * 9)
    k = [*("a", "a", "b", "b", "c", "c", "d", "d") * 1000, *["a"] * 9]
    return pa.table({"who": who, "k": k, "t": k, "x": who % 10})


class OneSalt(DuckDBEngine):
    """Exact answers of one salt, each computed once: only noise differs from release to release."""

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        self.answers: dict[str, pa.Table] = getattr(self, "answers", {})
        if sql not in self.answers:
            self.answers[sql] = super().fetch(sql, salt="5a17")
        return self.answers[sql]


def notes(sql: str, terms: Terms, engine: DuckDBEngine) -> tuple[str, ...]:
    return next(many_notes(sql, terms, engine))


def many_notes(sql: str, terms: Terms, engine: DuckDBEngine) -> Iterator[tuple[str, ...]]:
    """The notes of one release after the other."""
    made = plan([sql], KNOWN, terms)
    assert made.verify(KNOWN) == made.loss
    receipt = Receipt("d", "ann", 1, "", "", Pure(0), 0.0, 0.0, False, 0.0)
    while True:
        yield made.finish(made.run(engine, None), receipt, engine)[0].notes


def numbers(note: str) -> list[int]:
    """About how many of how many, at least, at most."""
    found = re.match(r"bounding left out about (\S+) of (\S+) rows \(\S+ %; (\S+) to (\S+) at 95 %", note)
    assert found, note
    return [int(group.replace(",", "")) for group in found.groups()]


TRUTH = 8009 - (4000 + 3)


@pytest.mark.parametrize(
    "sql", [BY, "SELECT k, AVG(x) AS m FROM t GROUP BY k", "SELECT k, SUM(x) AS s FROM t GROUP BY k"]
)
def test_what_was_left_out_is_told(sql: str) -> None:
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        about, total, least, most = numbers(notes(sql, Terms(epsilon=10**4, measure_bounds=True), engine)[0])
        assert about == TRUTH
        assert TRUTH - 2 <= least <= TRUTH <= most <= TRUTH + 2
        assert total == 8009
        assert not any("bounding left out" in note for note in notes(sql, Terms(epsilon=100), engine))


def test_groups_from_the_data_say_that_some_were_not_named() -> None:
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        terms = Terms(epsilon=10**3, delta="1e-6", measure_bounds=True)
        note = notes("SELECT t, COUNT(*) AS n FROM t GROUP BY t", terms, engine)[0]
    assert abs(numbers(note)[0] - TRUTH) < 50
    assert "or lie in groups that were not named" in note


def test_where_nothing_is_weighed_nothing_is_measured() -> None:
    people = "SELECT k, COUNT(DISTINCT who) AS n FROM t GROUP BY k"
    assert len(plan([people], KNOWN, Terms(epsilon=1, groups=4, measure_bounds=True)).releases) == 1
    of_rows = Catalog("d", [Table("t", COLUMNS, unit=Unit())], neighbors="add or remove one")
    assert len(plan([BY], of_rows, Terms(epsilon=1, measure_bounds=True)).releases) == 1


@pytest.mark.parametrize("terms", [{"epsilon": "0.7"}, {"epsilon": 1, "delta": "1e-6", "groups": 4}, {"error": 100}])
def test_a_tenth_of_what_was_stated_is_spent_on_it(terms: dict[str, object]) -> None:
    made = plan([BY], KNOWN, Terms(**terms, measure_bounds=True))
    answer, whole = made.releases
    assert made.measured == ((Measurement("rows", 0, 0, "rows"), 1),)
    assert isinstance(whole.noises[0], Geometric)
    assert whole.noises[0].epsilon == made.epsilon / 10
    bound = answer.aggregate.source
    assert whole.noises[0].sensitivity == 10 * bound.groups * bound.rows == whole.aggregate.source.rows
    if "epsilon" in terms:
        assert made.epsilon == Fraction(str(terms["epsilon"]))
    assert made.verify(KNOWN) == made.loss


def test_two_statements_share_the_tenth() -> None:
    made = plan([BY, "SELECT COUNT(*) FROM t"], KNOWN, Terms(epsilon=1, measure_bounds=True))
    assert [release.noises[0].epsilon for release in made.releases[2:]] == [Fraction(1, 20)] * 2
    assert made.epsilon == 1


def test_the_interval_holds_as_often_as_it_says() -> None:
    """300 releases; fewer hits than 95 % explains with probability 1e-6 fail, and so does an interval of everything."""
    runs, hits, widths = 300, 0, []
    with OneSalt(KNOWN, {"t": rows()}) as engine:
        for found in islice(many_notes(BY, Terms(epsilon=2, measure_bounds=True), engine), runs):
            _, _, least, most = numbers(found[0])
            hits += least <= TRUTH <= most
            widths.append(most - least)
    assert hits >= binom.ppf(1e-6, runs, 0.95)
    assert max(widths) < 8009 / 2


OF_PEOPLE = "SELECT k, COUNT(DISTINCT who) AS n FROM t GROUP BY k"
MISSED = re.compile(r"bounding left out about (\S+) of (\S+) in the .* \(\S+ %; (\S+) to (\S+) at 95 %")


def missed(note: str) -> list[float]:
    found = MISSED.match(note)
    assert found, note
    return [float(group.replace(",", "")) for group in found.groups()]


@pytest.mark.parametrize(
    ("sql", "total", "truth"),
    [
        (OF_PEOPLE, 4001, 2000),  # a thousand people in four groups count in two, and one in one
        (f"{OF_PEOPLE}".replace("who)", "who) FILTER (WHERE x > 4)"), 2000, 1000),
        ("SELECT t, COUNT(DISTINCT who) AS n FROM t GROUP BY t", 4001, 2000),
        ("SELECT k, SUM(x) AS s FROM t GROUP BY k", 36000, 18000),  # 4.5 a row on average, and 0 for who = 5000
        ("SELECT k, SUM(x) AS s, AVG(x) AS m FROM t GROUP BY k", 36000, 18000),
        ("SELECT k, SUM(x / 2) AS s FROM t GROUP BY k", 18000, 9000),
    ],
)
def test_what_was_left_out_of_people_and_sums_is_told(sql: str, total: int, truth: int) -> None:
    terms = Terms(epsilon=10**5, measure_bounds=True)
    if "FROM t GROUP BY t" in sql:
        terms = Terms(epsilon=10**3, delta="1e-6", measure_bounds=True)
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        (note,) = [note for note in notes(sql, terms, engine) if MISSED.match(note)]
    about, whole, least, most = missed(note)
    slack = truth / 20  # which groups a person keeps is a draw, and people have different x
    assert whole == pytest.approx(total, abs=5)
    assert abs(about - truth) <= slack
    assert least <= about <= most <= about + 60
    assert "Against the unbounded truth" in note


def test_rows_at_a_bound_are_counted_and_said_to_be_at_most_those_that_were_clamped() -> None:
    """x is 0 or 9 on a fifth of the 8,000 rows, and on nine more."""
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        found = notes("SELECT k, AVG(x) AS m FROM t GROUP BY k", Terms(epsilon=10**5, measure_bounds=True), engine)
    (note,) = [note for note in found if "at a bound of the policy or beyond it" in note]
    assert note.startswith("about 1,609 rows (1,609 to 1,609 at 95 % confidence) have x at a bound")


def test_people_whose_count_is_clamped_are_counted() -> None:
    """A thousand people have eight rows; one has nine; a count is clamped to three."""
    people = "(SELECT who, COUNT(*) AS n FROM t GROUP BY who)"
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        terms = Terms(epsilon=10**5, measure_bounds=True)
        found = {limit: notes(f"SELECT AVG(COALESCE(n, 0)) AS m FROM {people}", replace(terms, rows=limit), engine)
                 for limit in (3, 8, 9)}  # fmt: skip
    for limit, beyond in ((3, "1,001"), (8, "1"), (9, "0")):
        (note,) = [note for note in found[limit] if "at a bound of the policy or beyond it" in note]
        assert note.startswith(f"about {beyond} rows ({beyond} to {beyond} at 95 % confidence) have n at a bound")


def test_rows_as_units_are_clamped_too() -> None:
    of_rows = Catalog("d", [Table("t", COLUMNS, unit=Unit())], neighbors="add or remove one")
    made = plan(["SELECT SUM(x) FROM t"], of_rows, Terms(epsilon=1, measure_bounds=True))
    assert [measurement.what for measurement, _ in made.measured] == ["clamped"]
    assert made.releases[1].noises[0].epsilon == Fraction(1, 10)
    assert made.verify(of_rows) == made.loss


def test_a_sum_of_both_signs_bounds_no_group() -> None:
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        found = notes("SELECT k, SUM(x - 5) AS s FROM t GROUP BY k", Terms(epsilon=10**5, measure_bounds=True), engine)
    (note,) = [note for note in found if MISSED.match(note)]
    assert missed(note)[1] == pytest.approx(36000 - 5 * 8009, abs=1)
    assert "does not bound the sum of one group" in note
    assert "Against the unbounded truth" not in note


@pytest.mark.parametrize("sql", [OF_PEOPLE, "SELECT k, SUM(x) AS s FROM t GROUP BY k"])
def test_the_intervals_of_people_and_sums_hold_as_often_as_they_say(sql: str) -> None:
    """300 releases of one salt, whose exact difference is found with hardly any noise."""
    runs, hits, widths = 300, 0, []
    with OneSalt(KNOWN, {"t": rows()}) as engine:
        sharp = [missed(n) for n in notes(sql, Terms(epsilon=10**6, measure_bounds=True), engine) if MISSED.match(n)]
        truth = sharp[0][0]
        for found in islice(many_notes(sql, Terms(epsilon=20, measure_bounds=True), engine), runs):
            _, total, least, most = missed(next(filter(MISSED.match, found)))
            hits += least <= truth <= most
            widths.append((most - least) / total)
    assert hits >= binom.ppf(1e-6, runs, 0.95)
    assert max(widths) < 1


def test_the_interval_is_as_wide_as_all_its_noises_together() -> None:
    """That of the whole, and that of the four groups which are taken off it."""
    terms = Terms(epsilon=1, measure_bounds=True)
    release, whole = plan([OF_PEOPLE], KNOWN, terms).releases
    failure = Fraction(1, 20) / 2
    wide = whole.noises[0].interval(1 - failure) + width_of_sum(release.noises[0], 4, failure)
    with DuckDBEngine(KNOWN, {"t": rows()}) as engine:
        (note,) = [note for note in notes(OF_PEOPLE, terms, engine) if MISSED.match(note)]
    about, _, least, most = missed(note)
    assert about - least == pytest.approx(most - about, abs=1)
    assert most - about == pytest.approx(float(wide), abs=1)
    assert width_of_sum(release.noises[0], 4, failure) > 2


@pytest.mark.parametrize("count", [1, 4, 50, 1000])
@pytest.mark.parametrize(
    "noise", [Geometric(epsilon=1, sensitivity=30), RoundedGaussian(sigma=20, squared_sensitivity=9)]
)
def test_the_width_of_a_sum_holds_and_is_not_wasteful(noise: Geometric | RoundedGaussian, count: int) -> None:
    """Of 4000 sums at most so many lie beyond as 5 % explains; and 0.7 of the width would be too little for some count."""
    sums = np.abs(np.asarray(noise.release(np.zeros((4000, count), np.int64))).sum(axis=1))
    width = width_of_sum(noise, count, Fraction(1, 20))
    assert (sums > width).sum() <= binom.isf(1e-6, 4000, 0.05)
    assert width <= 2.6 * np.quantile(sums, 0.95) + count
