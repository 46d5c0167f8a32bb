"""Real columns as whole steps: the quick way for numbers between the ends gives what clamping first gives."""

import math
from fractions import Fraction

import duckdb
import pytest

from discreet.curator.catalog import Column
from discreet.sql.release import expression_sql
from discreet.sql.release.expression_sql import treated

CASES = [("0", "500", "0.01"), ("-3", "7", "0.25"), ("0.1", "0.7", "0.1"), ("-1000000", "1000000", "0.001")]


def numbers(lower: str, upper: str, step: str) -> list[float | None]:
    """Numbers around the ends, around ties, and those that no arithmetic likes."""
    size = float(Fraction(step))
    ends = [float(Fraction(end)) + size * k / 8 for end in (lower, upper) for k in range(-24, 25)]
    near = [math.nextafter(x, side) for x in ends for side in (-math.inf, math.inf)]
    return [*ends, *near, 0.0, -0.0, 0.125, 5e-324, 1e308, -1e308, 9.3e16, math.inf, -math.inf, math.nan, None]


@pytest.mark.parametrize(("lower", "upper", "step"), CASES)
def test_numbers_between_the_ends_are_what_clamping_first_gives(lower, upper, step, monkeypatch):
    column = Column("x", "real", lower=lower, upper=upper, granularity=step)
    quick = treated(column)
    monkeypatch.setattr(expression_sql, "_reaches_ends", lambda *_: False)
    clamped = treated(column)
    assert quick != clamped
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT unnest(?::DOUBLE[]) AS x", [numbers(lower, upper, step)])
        found = connection.execute(f"SELECT {quick}, {clamped} FROM t").fetchall()
    assert [one for one, _ in found] == [other for _, other in found]
    ends = Fraction(lower) / Fraction(step), Fraction(upper) / Fraction(step)
    steps = {one for one, _ in found if one is not None}
    assert (min(steps), max(steps)) == ends
    assert [one for one, _ in found].count(None) == 2  # NaN and null
