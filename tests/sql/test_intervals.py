"""What the planner says about an expression holds for every row: its bounds, its domain, whether it can be null.

Random expressions over all operations are computed by the SQL that the product generates, on rows that keep no promise:
values far outside the bounds, nulls where none are declared, NaN, infinities, dates at the ends of what a type holds.
No row may make it fail.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import date, datetime
from fractions import Fraction

import pyarrow as pa
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.privacy.unit import Unit
from discreet.sql.algebra import conditions, dates, functions
from discreet.sql.algebra.expression import Expression, constant, field
from discreet.sql.algebra.kinds import Day, Fixed, Moment, Real, Text, Truth, Unsupported
from discreet.sql.algebra.relations import Aggregate, Bound, Count, Group, Key
from discreet.sql.algebra.rows import Filter, Scan
from discreet.sql.algebra.verification import verify_expression
from discreet.sql.release.private_sql import write

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
    Column("color", "text", values=["red", "green", "blue"]),
    Column("level", "integer", values=[1, 2, 40], nullable=False),
    Column("flag", "boolean"),
    Column("day", "date"),
    Column("moment", "timestamp"),
    Column("bound_day", "date", lower="1969-12-28", upper="2024-02-29"),
    Column("bound_moment", "timestamp", lower="1969-12-28", upper="2024-02-29", nullable=False),
    Column("digits", "text"),
]
WHOLE = [None, 0, 1, -1, 2, 3, 5, -7, -8, 9, 10, 20, 21, 40, 2**40, -(2**40) - 1, 2**61, -(2**62), 2**63 - 1, -(2**63)]
REALS = [
    None,
    NAN,
    INF,
    -INF,
    0.0,
    -0.0,
    0.05,
    0.125,
    0.25,
    -0.375,
    0.5,
    1.5,
    -2.5,
    3.1,
    -3.1,
    1e18,
    -1e19,
    1e308,
    -1e308,
]
REALS += [5e-324, 0.1 + 0.2, 0.15, 0.35, 1.9999999]
TEXTS = [
    None,
    "",
    " ",
    "\0",
    "red",
    "RED",
    " blue ",
    "green",
    "it's",
    '"',
    "%",
    "_",
    "\\",
    "\U0001f600",
    "e\u0301",
    "İ",
    "ß",
    "x" * 5000,
]
DAYS = [None, -(2**31), 2**31 - 1, -719162, -719163, 2932896, 2932897, 0, 1, 19722, 19723, 19782, 20088]
TIMES = [
    None,
    -(2**63),
    2**63 - 1,
    -62135596800000000,
    -62135596800000001,
    253402300799999999,
    253402300800000000,
    0,
    -1,
]
TIMES += [1704067199999999, 1709251199999999, 1735689599000000]
DIGITS = [None, "", "0", "-0", "12", " 7 ", "-3.75", "1e3", "1e300", "9" * 18, "9" * 40, "NaN", "inf", "-infinity", "x"]
DIGITS += [
    "2024-02-29",
    "2023-02-29",
    "0001-01-01",
    "0001-01-01 (BC)",
    "99999-01-01",
    "infinity",
    "1_000",
    "0x10",
    "epoch",
]
POOLS: dict[str, tuple[Sequence[object], pa.DataType]] = {
    "whole": (WHOLE, pa.int64()),
    "small": (WHOLE, pa.int64()),
    "sure": (WHOLE, pa.int64()),
    "wide": (WHOLE, pa.int64()),
    "quarter": (REALS, pa.float64()),
    "tenth": (REALS, pa.float64()),
    "free": (REALS, pa.float64()),
    "word": (TEXTS, pa.string()),
    "color": (TEXTS, pa.string()),
    "level": (WHOLE, pa.int64()),
    "flag": ([None, True, False], pa.bool_()),
    "day": (DAYS, pa.date32()),
    "moment": (TIMES, pa.timestamp("us")),
    "bound_day": (DAYS, pa.date32()),
    "bound_moment": (TIMES, pa.timestamp("us")),
    "digits": (DIGITS, pa.string()),
}
TABLE = Table("people", COLUMNS, unit=Unit())
FIELDS = {column.name: field(column) for column in COLUMNS}


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckDBEngine]:
    draw = random.Random(20261115)
    rows = {name: pa.array(draw.choices(pool, k=1500), kind) for name, (pool, kind) in POOLS.items()}
    with DuckDBEngine(Catalog("d", [TABLE], neighbors="change one"), {"people": pa.table(rows)}) as made:
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
            assert kind.lower is None or value >= kind.lower, f"{one} is {value}, below {kind}"
            assert kind.upper is None or value <= kind.upper, f"{one} is {value}, above {kind}"
        if isinstance(kind, Text):
            assert len(str(value)) <= kind.length, f"{one} has {len(str(value))} characters"
        if isinstance(kind, Day | Moment) and kind.lower is not None:
            assert kind.lower <= value <= kind.upper, f"{one} is {value}, not in {kind}"
        if isinstance(domain, range):
            assert value in domain
        elif (
            allowed is not None and one not in FIELDS.values()
        ):  # a column may hold undeclared values: they are left out
            assert value in allowed or undeclared(one), f"{one} is {value!r}, which is not in its domain"


def check_honest(engine: DuckDBEngine, one: Expression) -> None:
    """What the gate derives is what is stated, and what is stated holds."""
    verify_expression(one)
    check(engine, one)


def undeclared(one: Expression) -> bool:
    """Whether values of a column with declared values can pass through to the result as they are."""
    return one in (FIELDS["color"], FIELDS["level"]) or any(undeclared(part) for part in getattr(one, "arguments", ()))


# Expressions, drawn at random; where an operation does not accept its arguments, one of them stands in its place

NUMBERS = ["0", "1", "-1", "2", "3", "7", "-8", "0.5", "-0.25", "2.75", "0.3", "100", "1e6", "-1e9", "1e12"]
COMPARISONS = ["equal", "differ", "less", "less_equal", "greater", "greater_equal"]
BOUNDED = ["small", "small", "sure", "quarter", "quarter", "tenth", "wide", "level"]


class Draw(random.Random):
    """Random expressions of each kind, of at most a given depth."""

    def written(self) -> Expression:
        return constant(Fraction(self.choice(NUMBERS)))

    def number(self, depth: int) -> Expression:
        if depth == 0:
            return self.written() if self.random() < 0.25 else FIELDS[self.choice(BOUNDED)]
        one, other, below = self.number(depth - 1), self.number(depth - 1), depth - 1
        makers: list[Callable[[], Expression]] = [
            lambda: self.choice([functions.add, functions.subtract, functions.multiply])(one, other),
            lambda: self.choice([functions.divide, functions.multiply, functions.add, functions.subtract])(
                one, self.written()
            ),
            lambda: self.choice([functions.floor_divide, functions.modulo])(functions.absolute(one), self.written()),
            lambda: self.choice([functions.negate, functions.absolute, functions.floor_of])(one),
            lambda: functions.floor_of(one, up=True),
            lambda: functions.round_to(one, self.randint(-2, 2)),
            lambda: functions.extreme(self.random() < 0.5, [one, other, self.number(below)][: self.randint(1, 3)]),
            lambda: functions.extreme(False, [functions.extreme(True, [self.unbounded(below), one]), other]),
            lambda: functions.extreme(True, [functions.extreme(False, [self.unbounded(below), one]), other]),
            lambda: conditions.coalesce([one, other, self.number(below)][: self.randint(1, 3)]),
            lambda: conditions.case([(self.condition(below), one)], self.choice([other, constant(None)])),
            lambda: conditions.case([(conditions.compare("equal", one, other), constant(None))], one),
            lambda: functions.number_of(self.condition(below)),
            lambda: dates.date_part(self.choice(sorted(dates.DATE_PARTS)), self.time()),
            lambda: functions.divide(one, other),
            lambda: functions.divide(one, self.number(below)),
            lambda: self.choice([functions.sign, functions.square_root, functions.truncate_number])(one),
            lambda: functions.power(one, constant(self.randint(0, 4))),
            lambda: functions.curve(
                self.choice(sorted(functions.CURVES)), self.choice([one, FIELDS["small"], FIELDS["tenth"]])
            ),
            lambda: functions.bucket(
                one, constant(self.randint(-3, 0)), constant(self.randint(1, 9)), constant(self.randint(1, 5))
            ),
            lambda: dates.difference(self.choice(dates.UNITS), self.time(), self.time()),
            lambda: dates.years_between(self.time(), self.time()),
            lambda: dates.number_of_day(dates.day_of(self.time())),
            lambda: dates.number_of_moment(dates.moment_of(self.time())),
            lambda: functions.parsed_number(
                FIELDS["digits"], *self.choice([("INTEGER",), ("TINYINT",), ("DECIMAL", 9, 2), ("DECIMAL", 18, 6)])
            ),
        ]
        return attempt(self.choice(makers), one)

    def unbounded(self, depth: int) -> Expression:
        makers: list[Callable[[], Expression]] = [
            lambda: FIELDS["whole"],
            lambda: functions.length_of_text(self.text(depth)),
            lambda: functions.extreme(self.random() < 0.5, [FIELDS["whole"], self.number(depth)]),
        ]
        return attempt(self.choice(makers), FIELDS["whole"])

    def time(self, depth: int = 2) -> Expression:
        one = FIELDS[self.choice(["day", "moment", "bound_day", "bound_moment"])]
        if depth and self.random() < 0.5:
            one = self.time(depth - 1)
        makers: list[Callable[[], Expression]] = [
            lambda: one,
            lambda: dates.truncate_date(self.choice(dates.UNITS), one),
            lambda: dates.day_of(one),
            lambda: dates.moment_of(one),
            lambda: conditions.coalesce([one, constant(self.choice([date(2024, 2, 29), datetime(1, 1, 1)]))]),
            lambda: dates.shift(
                one,
                self.choice([-40000, -13, -1, 0, 1, 11, 5000]),
                self.choice(["day", "week", "month", "year", "hour"]),
            ),
            lambda: dates.shift_days(one, FIELDS[self.choice(["small", "sure", "wide", "level"])]),
            lambda: dates.last_day(one),
            lambda: dates.make_date(
                *(FIELDS[self.choice(["small", "sure", "wide", "level", "whole"])] for _ in range(3))
            ),
            lambda: dates.outermost(self.random() < 0.5, [one, self.time(0)]),
            lambda: functions.parsed_date(FIELDS["digits"]),
        ]
        return attempt(self.choice(makers), one)

    def text(self, depth: int) -> Expression:
        if depth == 0:
            return self.choice([FIELDS["word"], FIELDS["color"], *map(constant, ("", "red", "it's", "%a_"))])
        one, other = self.text(depth - 1), self.text(depth - 1)
        makers: list[Callable[[], Expression]] = [
            lambda: functions.changed_text(self.choice(["lower", "upper", "trim"]), one),
            lambda: functions.substring(one, constant(self.randint(1, 4)), constant(self.randint(0, 3))),
            lambda: functions.concatenate(one, other),
            lambda: functions.split_part(
                one, constant(self.choice(["e", "ee", " ", "😀"])), constant(self.randint(1, 3))
            ),
            lambda: functions.replace_text(
                one, constant(self.choice(["e", "re", " "])), constant(self.choice(["", "xyz"]))
            ),
            lambda: functions.text_of(
                self.choice([FIELDS["small"], FIELDS["whole"], FIELDS["flag"], dates.day_of(self.time())])
            ),
            lambda: dates.format_date(self.time(), constant(self.choice(["%Y-%m", "%d/%m/%Y", "%Y", "%H:%M"]))),
            lambda: conditions.coalesce([one, other]),
            lambda: conditions.case([(self.condition(depth - 1), one)], self.choice([other, constant(None)])),
        ]
        return attempt(self.choice(makers), one)

    def condition(self, depth: int) -> Expression:
        how = self.choice(COMPARISONS)
        makers: list[Callable[[], Expression]] = [
            lambda: self.choice([FIELDS["flag"], constant(True), constant(None)]),
            lambda: conditions.compare(how, self.choice([FIELDS["free"], FIELDS["whole"]]), self.written()),
            lambda: conditions.compare(how, self.time(), constant("2024-02-29")),
            lambda: functions.like(
                self.choice(["like", "ilike"]), FIELDS["word"], constant(self.choice(["a%", "_", "it's"]))
            ),
            lambda: functions.matches(
                self.choice([FIELDS["word"], FIELDS["digits"]]),
                constant(self.choice(["^r.d$", "[^a-z]", "\\d+", "(re|bl)(d|ue)?"])),
            ),
        ]
        if depth:
            below = depth - 1
            makers += [
                lambda: conditions.compare(how, self.number(below), self.number(below)),
                lambda: conditions.compare(how, self.text(below), self.text(below)),
                lambda: conditions.among(self.number(below), [self.written() for _ in range(self.randint(1, 3))]),
                lambda: self.choice([conditions.both, conditions.either])(self.condition(below), self.condition(below)),
                lambda: conditions.opposite(self.condition(below)),
                lambda: conditions.is_null(self.choice([self.condition, self.number, self.text])(below)),
            ]
        return attempt(self.choice(makers), FIELDS["flag"])


def attempt(make: Callable[[], Expression], otherwise: Expression) -> Expression:
    try:
        return make()
    except Unsupported:
        return otherwise


@pytest.mark.quick_cases(4)
@pytest.mark.parametrize("seed", range(12))
def test_a_number_stays_within_its_bounds(engine: DuckDBEngine, seed: int) -> None:
    draw = Draw(seed)
    for _ in range(30):
        check_honest(engine, draw.number(draw.randint(1, 3)))


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("seed", range(6))
def test_no_row_makes_a_condition_a_text_or_a_date_fail(engine: DuckDBEngine, seed: int) -> None:
    draw = Draw(seed)
    for _ in range(10):
        check_honest(engine, draw.condition(draw.randint(1, 3)))
        check_honest(engine, draw.text(draw.randint(1, 3)))
        check_honest(engine, draw.time())


@pytest.mark.parametrize("seed", range(6))
def test_filtered_rows_stay_within_the_same_bounds(engine: DuckDBEngine, seed: int) -> None:
    draw = Draw(seed)
    for _ in range(5):
        value, only = draw.number(2), conditions.condition(draw.condition(2))
        group = Group(Filter(Scan(TABLE), only), (Key("k", value, None),))
        found = engine.fetch(write(Aggregate(Bound(group, 1, 1), (Count(None),)))).column("k0").to_pylist()
        assert set(found) <= set(values_of(engine, value))


@pytest.mark.parametrize("seed", range(6))
def test_a_key_has_no_value_outside_its_domain(engine: DuckDBEngine, seed: int) -> None:
    """CASE, COALESCE and NULLIF of constants and declared values: no row may vanish because its group is not listed."""
    draw = Draw(seed)
    labels = [constant(label) for label in ("low", "high", "", "it's")] + [constant(None)]
    for _ in range(10):
        branches = [(draw.condition(1), draw.choice(labels[:4])) for _ in range(draw.randint(1, 3))]
        labeled = conditions.case(branches, draw.choice(labels))
        assert labeled.domain is not None
        assert len(set(labeled.domain)) == len(labeled.domain)
        check(engine, labeled)
        check(engine, conditions.coalesce([labeled, constant("rest")]))


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
    right = {
        "add": functions.add(FIELDS["small"], FIELDS["quarter"]),
        "least": functions.extreme(False, [FIELDS["small"], FIELDS["sure"]]),
        "floor": functions.floor_of(FIELDS["quarter"]),
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
