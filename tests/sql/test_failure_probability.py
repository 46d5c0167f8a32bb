"""Intervals divide the failure probability that was stated: the shares of all noises behind one number add up to it, exactly."""

from collections.abc import Iterator
from fractions import Fraction

import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.mechanisms.additive import Geometric
from discreet.mechanisms.gaussian import RoundedGaussian
from discreet.noise import DeterministicEntropy
from discreet.privacy.unit import Unit
from discreet.sql.after import post_query
from discreet.sql.algebra.rules import Mean, Total
from discreet.sql.plan.planner import Terms, plan

TABLE = Table("t", [Column("x", "integer", lower=0, upper=9), Column("y", "integer", lower=-5, upper=5)], unit=Unit())
KNOWN = Catalog("d", [TABLE], neighbors="add or remove one")
FAILURE = Fraction(1, 20)


@pytest.fixture
def shares(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Fraction]]:
    """The failure probability of each interval of a noise, as it is asked for."""
    asked: list[Fraction] = []
    for kind in (Geometric, RoundedGaussian):
        plain = kind.interval

        def interval(self: object, confidence: object, plain: object = plain) -> int:
            asked.append(1 - Fraction(confidence))  # type: ignore[arg-type]
            return plain(self, confidence)  # type: ignore[operator]

        monkeypatch.setattr(kind, "interval", interval)
    return asked  # type: ignore[return-value]


@pytest.mark.parametrize("delta", [None, "1e-6"])
@pytest.mark.parametrize(
    ("number", "noises"),
    [
        ("COUNT(*)", 1),
        ("SUM(x)", 1),
        ("AVG(x)", 2),
        ("SUM(x) + 2 * COUNT(*)", 2),
        ("SUM(x) / COUNT(*)", 2),
        ("AVG(x) - SUM(y)", 3),
        ("AVG(x) - AVG(y)", 4),
        ("COUNT(*) * COUNT(*)", 1),
        ("VAR_POP(x)", 3),
        ("STDDEV(x) - COUNT(*)", 4),
        ("CORR(y, x)", 6),
        ("REGR_INTERCEPT(y, x)", 5),
    ],
)
def test_the_failure_probabilities_of_a_number_add_up_to_what_was_stated(
    number: str, noises: int, delta: str | None, shares: list[Fraction]
) -> None:
    made = plan([f"SELECT {number} AS n FROM t"], KNOWN, Terms(epsilon=1, delta=delta))
    with DuckDBEngine(KNOWN, {"t": pa.table({"x": [1, 2], "y": [3, 4]})}) as engine:
        noisy = [release.run(engine, DeterministicEntropy(1)) for release in made.releases]
    shares.clear()
    post_query.released_tables(made.post_queries[0], made.releases, noisy, FAILURE)
    assert [name for name, _, _ in made.post_queries[0].intervals] == ["n"]
    assert len(shares) >= noises
    assert sum(shares) == FAILURE


@pytest.mark.parametrize("number", ["AVG(x)", "AVG(x), SUM(x)"])
def test_both_noises_of_a_mean_stay_within_their_widths_together(number: str) -> None:
    """Exactly: the probability that the noise of the sum and that of the count lie within the widths that are used."""
    (release,) = plan([f"SELECT {number} FROM t"], KNOWN, Terms(epsilon=1)).releases
    for derived in release.derived:
        assert isinstance(derived, Mean | Total)
        widths = []
        for index in derived.indices:
            noise = release.noises[index]
            widths.append(noise.interval(1 - FAILURE / 2))
        inside = 1.0
        for index, width in zip(derived.indices, widths, strict=True):
            noise = release.noises[index]
            assert isinstance(noise, Geometric)
            inside *= noise.probability(0) + 2 * sum(noise.probability(k) for k in range(1, width + 1))
        assert 0.95 <= inside < 0.96
        measures = [pa.array([0]).to_numpy(), pa.array([10**6]).to_numpy()]
        low, high = post_query.derived_interval(release, derived, measures, [], FAILURE)
        half = widths[0] + abs(derived.offset) * widths[1] if isinstance(derived, Total) else None
        if half is not None:
            assert float(high[0] - low[0]) == pytest.approx(2 * half)
