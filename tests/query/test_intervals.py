"""What the planner says about an expression holds for every row: its bounds, its domain, whether it can be null.

Random expressions over all operations are computed by the SQL that the product generates, on rows that keep no promise:
values far outside the bounds, nulls where none are declared, NaN, infinities, dates at the ends of what a type holds.
No row may make it fail.
"""

import math
import random
from collections.abc import Iterator, Sequence
from datetime import date, datetime

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidInput
from discreet.privacy.unit import Unit
from discreet.query import operations as ops
from discreet.query.algebra import Aggregate, Bound, Count, Filter, Group, Key, Scan
from discreet.query.duckdb import write
from discreet.query.expression import Expression, Unfit, constant, field
from discreet.query.kinds import Day, Fixed, Moment, Real, Text, Truth

INF, NAN = math.inf, math.nan
COLUMNS = [
    Column("whole", "integer"),
    Column("small", "integer", lower=-7, upper=9),
    Column("sure", "integer", lower=0, upper=20, nullable=False),
    Column("wide", "integer", lower=-(2**40), upper=2**40),
    Column("quarter", "real", lower=-3, upper=3, granularity="0.25"),
    Column("tenth", "real", lower="0.5", upper=2, granularity="0.1", nullable=False),
    Column("free", "real"),
    Column("word", "text"),
    Column("colour", "text", values=["red", "green", "blue"]),
    Column("level", "integer", values=[1, 2, 40], nullable=False),
    Column("flag", "boolean"),
    Column("day", "date"),
    Column("moment", "timestamp"),
]
WHOLE = [None, 0, 1, -1, 2, 3, 5, -7, -8, 9, 10, 20, 21, 40, 2**40, -(2**40) - 1, 2**61, -(2**62), 2**63 - 1, -(2**63)]
REALS = [None, NAN, INF, -INF, 0.0, -0.0, 0.05, 0.125, 0.25, -0.375, 0.5, 1.5, -2.5, 3.1, -3.1, 1e18, -1e19, 1e308, -1e308]
REALS += [5e-324, 0.1 + 0.2, 0.15, 0.35, 1.9999999]
TEXTS = [None, "", " ", "\0", "red", "RED", " blue ", "green", "it's", '"', "%", "_", "\\", "\U0001f600", "e\u0301", "İ", "ß", "x" * 5000]
DAYS = [None, -(2**31), 2**31 - 1, -719162, -719163, 2932896, 2932897, 0, 1, 19722, 19723, 19782, 20088]
TIMES = [None, -(2**63), 2**63 - 1, -62135596800000000, -62135596800000001, 253402300799999999, 253402300800000000, 0, -1]
TIMES += [1704067199999999, 1709251199999999, 1735689599000000]
POOLS: dict[str, tuple[Sequence[object], pa.DataType]] = {
    "whole": (WHOLE, pa.int64()),
    "small": (WHOLE, pa.int64()),
    "sure": (WHOLE, pa.int64()),
    "wide": (WHOLE, pa.int64()),
    "quarter": (REALS, pa.float64()),
    "tenth": (REALS, pa.float64()),
    "free": (REALS, pa.float64()),
    "word": (TEXTS, pa.string()),
    "colour": (TEXTS, pa.string()),
    "level": (WHOLE, pa.int64()),
    "flag": ([None, True, False], pa.bool_()),
    "day": (DAYS, pa.date32()),
    "moment": (TIMES, pa.timestamp("us")),
}
TABLE = Table("people", COLUMNS, unit=Unit())
FIELDS = {column.name: field(column) for column in COLUMNS}


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    draw = random.Random(20261115)
    rows = {name: pa.array(draw.choices(pool, k=1500), kind) for name, (pool, kind) in POOLS.items()}
    with DuckDBEngine(Catalog("d", [TABLE], neighbours="change one"), {"people": pa.table(rows)}) as made:
        yield made


def values_of(engine: DuckDBEngine, one: Expression) -> list[object]:
    """All values that an expression has over the rows, computed as a key is."""
    group = Group(Scan(TABLE), (Key("k", one, None),))
    found = engine.fetch(write(Aggregate(Bound(group, 1, 1), (Count(one),))))
    counts = dict(zip(found.column("k0").to_pylist(), found.column("m0").to_pylist(), strict=True))
    for value, count in counts.items():
        assert (count == 0) == (value is None)
    return list(counts)


def check(engine: DuckDBEngine, one: Expression) -> None:
    kind, domain = one.kind, one.domain
    allowed = None if domain is None or isinstance(domain, range) else set(domain)
    for value in values_of(engine, one):
        if value is None:
            assert one.nullable, f"{one} is null"
            continue
        if isinstance(kind, Fixed):
            assert isinstance(value, int)
            assert abs(value) < 2**63
            assert kind.lower is None or value >= kind.lower, f"{one} is {value}, below {kind}"
            assert kind.upper is None or value <= kind.upper, f"{one} is {value}, above {kind}"
        if isinstance(domain, range):
            assert value in domain
        elif allowed is not None and one not in FIELDS.values():  # a column may hold undeclared values: they are left out
            assert value in allowed or undeclared(one), f"{one} is {value!r}, which is not in its domain"


def undeclared(one: Expression) -> bool:
    """Whether values of a column with declared values can pass through to the result as they are."""
    return one in (FIELDS["colour"], FIELDS["level"]) or any(undeclared(part) for part in getattr(one, "arguments", ()))


# Expressions: each strategy draws one of a kind; what an operation does not accept is not an expression


def attempt(operation: object, *arguments: object, **named: object) -> Expression:
    try:
        return operation(*arguments, **named)  # type: ignore[operator, no-any-return]
    except Unfit:
        assume(False)
        raise


NUMBERS = st.sampled_from(["0", "1", "-1", "2", "3", "7", "-8", "0.5", "-0.25", "2.75", "0.3", "100", "1e6", "-1e9", "1e12"])
numbers_written = NUMBERS.map(lambda text: constant(ops.Fraction(text)))
COMPARISONS = st.sampled_from(["equal", "differ", "less", "less_equal", "greater", "greater_equal"])


def numeric(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(
        st.sampled_from(["small", "sure", "quarter", "tenth", "small", "quarter", "wide", "level"]).map(FIELDS.__getitem__),
        numbers_written,
    )
    if depth == 0:
        return leaves
    inner, truth = numeric(depth - 1), conditions(depth - 1)
    return st.one_of(
        leaves,
        st.builds(lambda f, a, b: attempt(f, a, b), st.sampled_from([ops.add, ops.subtract, ops.multiply]), inner, inner),
        st.builds(lambda f, a, b: attempt(f, a, b), st.sampled_from([ops.divide, ops.multiply]), inner, numbers_written),
        st.builds(lambda f, a, b: attempt(f, ops.absolute(a), b), st.sampled_from([ops.floor_divide, ops.modulo]), inner, numbers_written),
        st.builds(lambda f, a: attempt(f, a), st.sampled_from([ops.negate, ops.absolute, ops.floored]), inner),
        st.builds(lambda a: attempt(ops.floored, a, up=True), inner),
        st.builds(lambda a, n: attempt(ops.rounded, a, n), inner, st.integers(-2, 2)),
        st.builds(lambda up, a: attempt(ops.extreme, up, a), st.booleans(), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda a, low, high: attempt(clamped, a, low, high), unbounded(depth - 1), inner, inner),
        st.builds(lambda a: attempt(ops.coalesce, a), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda c, a, b: attempt(ops.case, [(c, a)], b), truth, inner, st.one_of(inner, st.just(constant(None)))),
        st.builds(lambda c: attempt(ops.number_of, c), truth),
        st.builds(lambda n, a: attempt(ops.part, n, a), st.sampled_from(sorted(ops.PARTS)), times()),
    )


def clamped(one: Expression, low: Expression, high: Expression) -> Expression:
    return ops.extreme(False, [ops.extreme(True, [one, low]), high])


def unbounded(depth: int) -> st.SearchStrategy[Expression]:
    return st.one_of(
        st.just(FIELDS["whole"]),
        texts(depth).map(ops.length),
        st.builds(lambda up, a: attempt(ops.extreme, up, [FIELDS["whole"], *a]), st.booleans(), st.lists(numeric(depth), max_size=2)),
    )


def times() -> st.SearchStrategy[Expression]:
    columns = st.sampled_from([FIELDS["day"], FIELDS["moment"]])
    return st.one_of(
        columns,
        st.builds(lambda u, a: attempt(ops.truncate, u, a), st.sampled_from(ops.TRUNCATIONS), columns),
        columns.map(ops.day_of),
        st.builds(lambda a, b: attempt(ops.coalesce, [a, b]), columns, st.sampled_from([constant(date(2024, 2, 29)), constant(datetime(1, 1, 1))])),
    )


def texts(depth: int) -> st.SearchStrategy[Expression]:
    leaves = st.one_of(
        st.sampled_from(["word", "colour"]).map(FIELDS.__getitem__),
        st.sampled_from(["", "red", "it's", "%a_"]).map(constant),
    )
    if depth == 0:
        return leaves
    inner, truth = texts(depth - 1), conditions(depth - 1)
    return st.one_of(
        leaves,
        st.builds(lambda n, a: attempt(ops.text, n, a), st.sampled_from(["lower", "upper", "trim"]), inner),
        st.builds(lambda a, i, n: attempt(ops.substring, a, constant(i), constant(n)), inner, st.integers(1, 4), st.integers(0, 3)),
        st.builds(lambda a, b: attempt(ops.concatenate, a, b), inner, inner),
        st.builds(lambda a: attempt(ops.coalesce, a), st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda c, a, b: attempt(ops.case, [(c, a)], b), truth, inner, st.one_of(inner, st.just(constant(None)))),
    )


def conditions(depth: int) -> st.SearchStrategy[Expression]:
    words = st.sampled_from(["red", "a%", "%", "_", "it's"]).map(constant)
    leaves = st.one_of(
        st.sampled_from([FIELDS["flag"], constant(True), constant(False)]),
        st.builds(lambda o, a: attempt(ops.compare, o, FIELDS["free"], a), COMPARISONS, numbers_written),
        st.builds(lambda o, a: attempt(ops.compare, o, FIELDS["whole"], a), COMPARISONS, numbers_written),
        st.builds(lambda o, a: attempt(ops.compare, o, a, constant("2024-02-29")), COMPARISONS, times()),
        st.builds(lambda n, a: attempt(ops.like, n, FIELDS["word"], a), st.sampled_from(["like", "ilike"]), words),
    )
    if depth == 0:
        return leaves
    inner, number = conditions(depth - 1), numeric(depth - 1)
    return st.one_of(
        leaves,
        st.builds(lambda o, a, b: attempt(ops.compare, o, a, b), COMPARISONS, number, number),
        st.builds(lambda o, a, b: attempt(ops.compare, o, a, b), COMPARISONS, texts(depth - 1), texts(depth - 1)),
        st.builds(lambda a, b: attempt(ops.among, a, b), number, st.lists(numbers_written, min_size=1, max_size=3)),
        st.builds(lambda f, a, b: attempt(f, a, b), st.sampled_from([ops.both, ops.either]), inner, inner),
        inner.map(ops.opposite),
        st.one_of(inner, number, texts(depth - 1), times()).map(ops.is_null),
    )


@settings(max_examples=350)
@given(one=numeric(3))
def test_a_number_stays_within_its_bounds(engine: DuckDBEngine, one: Expression) -> None:
    check(engine, one)


@settings(max_examples=120)
@given(one=st.one_of(conditions(3), texts(3), times()))
def test_no_row_makes_a_condition_a_text_or_a_date_fail(engine: DuckDBEngine, one: Expression) -> None:
    check(engine, one)


@settings(max_examples=80)
@given(one=conditions(2), value=numeric(2))
def test_filtered_rows_stay_within_the_same_bounds(engine: DuckDBEngine, one: Expression, value: Expression) -> None:
    group = Group(Filter(Scan(TABLE), ops.condition(one)), (Key("k", value, None),))
    found = engine.fetch(write(Aggregate(Bound(group, 1, 1), (Count(None),)))).column("k0").to_pylist()
    assert set(found) <= set(values_of(engine, value))


@pytest.mark.parametrize("name", list(FIELDS))
def test_a_column_is_as_it_is_declared(engine: DuckDBEngine, name: str) -> None:
    check(engine, FIELDS[name])


def test_the_bounds_of_the_test_are_reached(engine: DuckDBEngine) -> None:
    """So that the checks above cannot pass because nothing lies near a bound."""
    for name in ("small", "sure", "quarter", "tenth"):
        kind = FIELDS[name].kind
        assert isinstance(kind, Fixed)
        found = [value for value in values_of(engine, FIELDS[name]) if isinstance(value, int)]
        assert (min(found), max(found)) == (kind.lower, kind.upper)
    assert None in values_of(engine, FIELDS["small"])
    assert None not in values_of(engine, FIELDS["tenth"])


@pytest.mark.parametrize("wrong", ["add", "least", "floor"])
def test_a_wrong_interval_would_be_noticed(engine: DuckDBEngine, wrong: str) -> None:
    from dataclasses import replace

    right = {
        "add": ops.add(FIELDS["small"], FIELDS["quarter"]),
        "least": ops.extreme(False, [FIELDS["small"], FIELDS["sure"]]),
        "floor": ops.floored(FIELDS["quarter"]),
    }[wrong]
    assert isinstance(right.kind, Fixed)
    assert right.kind.upper is not None
    check(engine, right)
    narrow = replace(right.kind, upper=right.kind.upper - 1)
    with pytest.raises(AssertionError):
        check(engine, replace(right, kind=narrow, domain=None))  # type: ignore[type-var]


def test_all_kinds_are_drawn() -> None:
    kinds = {type(FIELDS[name].kind) for name in FIELDS}
    assert kinds == {Fixed, Real, Text, Truth, Day, Moment}
    assert issubclass(InvalidInput, ValueError)
