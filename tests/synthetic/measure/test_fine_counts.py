"""Fine counts of wide columns: bins that crowd where values do, means and tails that are right, and what they cost."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.synthetic.chain_tables import ADD

from discreet.curator.catalog import Catalog, Column, Table
from discreet.errors import InternalError, InvalidParameter
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Neighbors, Unit
from discreet.requests import Synthesis
from discreet.synthetic import plan as planned
from discreet.synthetic.columns.rules import allowed
from discreet.synthetic.columns.schema import Attribute, Schema
from discreet.synthetic.fit.relaxed import Settings
from discreet.synthetic.measure import fine_counts, noisy_marginals
from discreet.synthetic.measure.fine_counts import Cells, count, density, quantile_starts, sigma_of
from discreet.synthetic.planner import plan_synthesis as plan
from discreet.synthetic.quality import closeness

INCOME = Column("income", "integer", lower=0, upper=1_500_000, nullable=False)
WEALTH = Column("wealth", "real", lower=0, upper=20_000_000, nullable=False)
BORN = Column("born", "date", nullable=False)
COLUMNS = [INCOME, WEALTH, Column("age", "integer", lower=0, upper=99, nullable=False), BORN]
BOUNDS = {"born": "1900-01-01..2024-12-31"}


def people(rows: int, seed: int) -> pa.Table:
    """Skewed columns that go together: nothing, or a lognormal income; wealth that follows it."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=rows)
    income = np.where(rng.random(rows) < 0.3, 0, np.exp(10.3 + level)).clip(0, 1_500_000).astype(np.int64)
    wealth = np.exp(11 + level + 0.5 * rng.normal(size=rows)).clip(0, 20_000_000)
    age = rng.integers(0, 100, rows)
    born = np.datetime64("2024-12-31") - (age * 365 + rng.integers(0, 365, rows)).astype("timedelta64[D]")
    return pa.table({"income": income, "wealth": wealth, "age": age, "born": pa.array(born.astype("datetime64[D]"))})


class Rows:
    """An engine that has one table."""

    dialect = "duckdb"

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def fetch(self, sql: str, *, salt: str = "") -> pa.Table:
        return self.table


def planned_for(**more):
    known = Catalog("c", [Table("people", COLUMNS, unit=Unit())], neighbors=ADD)
    terms = {"table": "people", "epsilon": 1, "delta": "1e-6", "bins": BOUNDS, "settings": Settings(iterations=200)}
    return plan(Synthesis(**terms | more), known)


def made(table, seed=1, **more):
    one = planned_for(**more)
    return one.finish(one.run(Rows(table), DeterministicEntropy(seed)), None, None)


def skewed_error(table, synthetic):
    """How far pairs are off, in bins of 5 % of the true rows each."""
    edges = {}
    for name in table.column_names:
        true = np.asarray(table.column(name)).astype(np.float64)
        edges[name] = np.unique(np.quantile(true, np.linspace(0, 1, 21)[1:-1]))
    codes = [
        np.column_stack([np.searchsorted(e, np.asarray(rows.column(n)).astype(np.float64), "right") for n, e in edges.items()])
        for rows in (table, synthetic)
    ]  # fmt: skip
    return closeness(*codes, tuple(len(e) + 1 for e in edges.values()), 2).mean


def test_skewed_columns_keep_their_means_tails_and_pairs(monkeypatch):
    """Equally wide bins, drawn from evenly, put most people into two of 32: pairs are three times as far off."""
    table = people(20_000, 1).select(["income", "wealth", "age"])
    found = made(table, columns=["income", "wealth", "age"], bins={})
    with monkeypatch.context() as before:
        before.setattr(planned.SynthesisPlan, "fine", lambda self, schema: {})
        even = made(table, columns=["income", "wealth", "age"], bins={})
    assert skewed_error(table, found.table) < 0.5 * skewed_error(table, even.table)
    for column in COLUMNS[:3]:
        true, drawn = (np.asarray(rows.column(column.name)).astype(np.float64) for rows in (table, found.table))
        assert drawn.mean() == pytest.approx(true.mean(), rel=0.15)
        assert np.quantile(drawn, 0.9) == pytest.approx(np.quantile(true, 0.9), rel=0.15)
        assert np.quantile(drawn, 0.99) == pytest.approx(np.quantile(true, 0.99), rel=0.4)
        assert drawn.max() <= column.upper
    assert np.asarray(even.table.column("wealth")).mean() > 2 * np.asarray(table.column("wealth")).mean()
    assert np.mean(np.asarray(found.table.column("income")) == 0) == pytest.approx(0.3, abs=0.03)
    assert [one.known for one in found.schema.attributes] == [32, 32, 32]
    assert found.schema.sizes == found.plan.schema({}).sizes


def test_few_people_far_out_stay_far_out():
    """Too few for fine counts, they are seen by bins that widen towards the end: tails are half as far off."""
    errors = []
    for seed in range(4):
        table = people(5000, seed).select(["income", "wealth", "age"])
        drawn = made(table, seed=seed, columns=["income", "wealth", "age"], bins={}).table
        for column in (INCOME, WEALTH):
            rows, true = np.asarray(drawn[column.name]), np.asarray(table[column.name])
            errors.append(np.log([rows.mean() / true.mean(), np.quantile(rows, 0.99) / np.quantile(true, 0.99)]))
            assert rows.max() <= column.upper
    mean, tail = np.abs(errors).mean(axis=0)
    assert mean < 0.11  # 0.17 without such bins
    assert tail < 0.4  # 0.62 without


def test_noise_alone_puts_nobody_into_bins_far_out():
    """A far bin counts as empty up to two deviations of noise; nearer ones, and those that hold more, are kept."""
    places = density([(list(range(16)), [5000, *[0] * 15])], Cells(1_600_000, 100_000, 1), 20.0)
    wide = Attribute.of(Column("n", "integer", lower=0, upper=1_599_999, nullable=False)).refined(places, bins=True)
    schema, last = Schema([wide]), wide.known - 1
    assert wide.known == 32
    assert last in wide.thin
    counts = np.where(np.isin(np.arange(32), wide.thin), 0, 5000 // 28)

    def may_be(rows, sigma):
        counts[last] = rows
        tables = allowed((), schema, [noisy_marginals.Measurement((0,), counts, sigma)])
        return not tables or bool(tables[0].table[last])

    assert not may_be(39, 20.0)
    assert may_be(41, 20.0)
    assert may_be(1, 0.5)  # so little noise moves no mean
    assert not may_be(-30, 20.0)
    assert allowed((), schema, [noisy_marginals.Measurement((0,), counts, 20.0)], given=1) == []


def test_dates_with_bounds_are_drawn_between_them():
    found = made(people(3000, 2), columns=["born", "age"])
    born = np.asarray(found.table.column("born")).astype("datetime64[D]")
    assert born.min() >= np.datetime64("1900-01-01")
    assert born.max() <= np.datetime64("2024-12-31")
    assert np.median(born.astype(np.int64)) == pytest.approx(365 * 5, abs=365 * 4)  # half are younger than 50


def test_values_inside_bins_that_were_given_are_drawn_where_they_lie():
    rng = np.random.default_rng(2)
    wage = np.rint(rng.exponential(3000, 20_000)).clip(0, 100_000)
    rows = pa.table({"income": wage.astype(np.int64)})
    known = Catalog("c", [Table("people", [INCOME], unit=Unit())], neighbors=ADD)
    one = plan(Synthesis(table="people", epsilon=1, delta="1e-6", bins={"income": [0, 10_000, 1_500_000]}), known)
    found = one.finish(one.run(Rows(rows), DeterministicEntropy(3)), None, None)
    assert found.schema.sizes == (2,)
    drawn = np.asarray(found.table.column("income"))
    assert drawn.mean() == pytest.approx(wage.mean(), rel=0.12)  # drawn evenly, it would be nearly ten times that
    evenly = Schema([Attribute.of(INCOME, bins=[0, 10_000, 1_500_000])]).draw(found.codes, DeterministicEntropy(1))[0]
    assert evenly.mean() > 5 * wage.mean()


@pytest.mark.parametrize("neighbors", [ADD, "change one"])
@pytest.mark.parametrize("rows_each", [1, 3])
def test_no_unit_moves_fine_counts_by_more_than_is_paid_for(neighbors, rows_each, monkeypatch):
    """Every place that a unit's rows can have: all of them in one cell is the most."""
    monkeypatch.setattr(noisy_marginals, "rounded_gaussian", lambda sigma, shape, *, entropy: np.zeros(shape, np.int64))
    monkeypatch.setattr(fine_counts, "_LOOKED_INTO", -1.0)  # all parts are counted
    cells, other = Cells.over(300), Cells.over(20)
    multiplier = Fraction(5)
    sigma = sigma_of([cells, other], multiplier, Neighbors(neighbors), rows_each)

    def counts(mine):
        at = np.array([7, 150, *mine])
        return np.concatenate([np.array(noisy) for each in (cells, other) for _, noisy in count(at % each.points, each, sigma)])  # fmt: skip

    places = [[place] * rows_each for place in (0, 8, 299)] + [[0, 8, 299][:rows_each]]
    pairs = [(a, b) for a in places for b in places] if neighbors == "change one" else [((), b) for b in places]
    moved = max(float(np.linalg.norm(counts(a) - counts(b))) for a, b in pairs) * float(multiplier / sigma)
    assert 0.99 < moved <= 1 + 1e-9


def test_which_parts_are_looked_into_follows_from_noisy_counts_alone(monkeypatch):
    rows = [np.full(10**5, 7), np.arange(1000)]
    for noisy, levels in ((lambda exact, sigma, entropy: exact * 0, 1), (lambda exact, *_: exact * 0 + 99, 3)):
        monkeypatch.setattr(fine_counts, "with_noise", noisy)
        first, second = (count(each, Cells.over(1000), Fraction(5)) for each in rows)
        assert first == second
        assert len(first) == levels


def test_the_gate_refuses_fine_counts_with_less_noise_than_is_paid_for(monkeypatch):
    one = planned_for()
    known = Catalog("c", [Table("people", COLUMNS, unit=Unit())], neighbors=ADD)
    assert one.verify(known) == one.loss
    monkeypatch.setattr(planned, "sigma_of", lambda *given: sigma_of(*given) * Fraction(9, 10))
    with pytest.raises(InternalError, match="less noise"):
        one.verify(known)


def test_where_nothing_is_known_bins_are_as_many_and_any_value_can_be_drawn():
    empty = people(0, 1)
    found = made(empty)
    assert found.table.num_rows >= 1
    assert [one.known for one in found.schema.attributes] == [32, 32, 32, 32]


def test_columns_that_rules_name_keep_bins_that_are_known_beforehand():
    one = planned_for(rules=["when age=0 to 2 then income=0 to 46874"])
    assert one.private_bins(one.schema({})) == ("wealth", "born")
    assert planned_for(at_most=["age <= income"]).private_bins(one.schema({})) == ("income", "wealth", "age", "born")


@settings(max_examples=60)
@given(st.integers(33, 10**7), st.integers(0, 10**6), st.sampled_from([1, 30, 1000]))
def test_bins_and_densities_are_whole_whatever_the_counts_say(points, seed, sigma):
    rng = np.random.default_rng(seed)
    cells = Cells.over(points)
    at = rng.integers(0, points, 200) if seed % 2 else np.full(500, seed % points)
    found = density(count(at, cells, Fraction(sigma), entropy=DeterministicEntropy(seed)), cells, float(sigma))
    assert found.starts[0] == 0
    assert found.starts[-1] == points
    assert (np.diff(found.starts) > 0).all()
    assert (found.masses >= 0).all()
    edges = quantile_starts(found, 32)
    assert len(edges) == 33
    assert (np.diff(edges) > 0).all()
    assert (edges[0], edges[-1]) == (0, points)


def test_noise_in_empty_parts_does_not_add_up_to_rows_far_away():
    """A thousand rows near zero in a range of a million: the mean of what is drawn stays near theirs."""
    cells, sigma = Cells.over(1_000_000), Fraction(20)
    rows = np.random.default_rng(0).integers(0, 1000, 2000)
    means = []
    for seed in range(20):
        found = density(count(rows, cells, sigma, entropy=DeterministicEntropy(seed)), cells, float(sigma))
        means.append(float(found.masses @ (found.starts[:-1] + found.starts[1:]) / 2 / found.masses.sum()))
    assert np.median(means) < 2000
    assert np.mean(means) < 20_000  # spread by raw noisy counts it would be above 100,000


def test_bounds_are_written_with_two_dots():
    assert Attribute.of(BORN, bins="1900-01-01 .. 1999-12-31").known == 32
    assert Attribute.of(Column("n", "integer"), bins="1..20").known == 20
    with pytest.raises(InvalidParameter, match="each above the one before"):
        Attribute.of(BORN, bins="2000-01-01..1999-12-31")
    with pytest.raises(InvalidParameter, match="bounds"):
        plan(Synthesis(table="people", epsilon=1, delta="1e-6", bins={**BOUNDS, "age": "10"}), Catalog("c", [Table("people", COLUMNS, unit=Unit())], neighbors=ADD))  # fmt: skip
