"""Roots, logarithms, quotients, buckets, ages and patterns: what they are, whole number by whole number."""

import math
import random
from dataclasses import replace
from datetime import date
from fractions import Fraction

import duckdb
import pytest

from discreet.curator.catalog import Column
from discreet.errors import InternalError
from discreet.sql.algebra import dates, functions, patterns
from discreet.sql.algebra.expression import MOST_WORK, Call, constant, field
from discreet.sql.algebra.kinds import Day, Fixed, Text, Unsupported
from discreet.sql.algebra.verification import verify_expression
from discreet.sql.release.expression_sql import expression

AGE = field(Column("age", "integer", lower=-3, upper=12))
BIG = field(Column("big", "integer", lower=0, upper=10**6))
SHARE = field(Column("share", "real", lower=0, upper=9, granularity="0.01"))
BORN = field(Column("born", "date", lower="1900-01-01", upper="2026-12-31"))
SEEN = field(Column("seen", "date", lower="1950-01-01", upper="2026-12-31"))
TEXT = field(Column("text", "text"))


def computed(value, rows):
    """The values of an expression over rows of a table, as the product's own SQL gives them."""
    names = list(rows[0])
    with duckdb.connect() as connection:
        kinds = {int: "BIGINT", str: "VARCHAR", date: "DATE"}
        first = {name: next(row[name] for row in rows if row[name] is not None) for name in names}
        columns = ", ".join(f'"c_{name}" {kinds[type(first[name])]}' for name in names)
        connection.execute(f"CREATE TABLE t (place INTEGER, {columns})")
        marks = ", ".join("?" * (len(names) + 1))
        connection.executemany(f"INSERT INTO t VALUES ({marks})", [[at, *row.values()] for at, row in enumerate(rows)])
        return [
            found for (found,) in connection.execute(f"SELECT {expression(value, {})} FROM t ORDER BY place").fetchall()
        ]


def test_roots_are_the_nearest_steps():
    value = functions.square_root(BIG)
    assert value.kind == Fixed(Fraction(1, 10**4), 0, 10**7)
    draw = random.Random(5)
    inputs = [0, 1, 2, 3, 10**6, *(draw.randrange(10**6) for _ in range(3000))]
    expected = []
    for whole in inputs:
        root = math.isqrt(whole * 10**8)
        expected.append(root + (whole * 10**8 - root * root > root))
    assert computed(value, [{"big": whole} for whole in inputs]) == expected


def test_roots_of_negative_numbers_are_null():
    value = functions.square_root(AGE)
    assert value.nullable
    assert computed(value, [{"age": n} for n in (-3, -1, 0, 4, None)]) == [None, None, 0, 2 * 10**6, None]


@pytest.mark.parametrize("name", functions.CURVES)
def test_curves_are_the_nearest_steps(name):
    value = functions.curve(name, functions.add(AGE, constant(Fraction(1, 4))))
    inputs = range(-3, 13)
    found = computed(value, [{"age": n} for n in inputs])
    for n, steps in zip(inputs, found, strict=True):
        x = n + Fraction(1, 4)
        if name != "exp" and x <= 0:
            assert steps is None
            continue
        low, high = functions._enclosure(name, x, 80)
        assert abs(steps - low / value.kind.step) <= Fraction(1, 2) + high - low
        assert value.kind.lower <= steps <= value.kind.upper
    assert value.nullable == (AGE.nullable or name != "exp")


def test_a_result_near_a_half_is_decided_by_bounds(monkeypatch):
    """As if floats could not tell: all results come from the enclosures, and are the same."""
    before = [functions._nearest("ln", Fraction(n), Fraction(1, 10**6)) for n in range(1, 200)]
    functions._nearest.cache_clear()
    monkeypatch.setitem(functions.CURVES, "ln", lambda x: round(math.log(x) * 10**6 - 0.5) / 10**6 + 0.5e-6)
    assert [functions._nearest("ln", Fraction(n), Fraction(1, 10**6)) for n in range(1, 200)] == before
    functions._nearest.cache_clear()


def test_quotients_are_cut_and_null_at_zero():
    value = functions.divide(SHARE, AGE)
    assert value.nullable
    rows = [{"share": s, "age": a} for s in (0, 1, 250, 899, 900, None) for a in (-3, -1, 0, 1, 7, 12, None)]
    for row, steps in zip(rows, computed(value, rows), strict=True):
        if not row["age"] or row["share"] is None:
            assert steps is None
            continue
        exact = Fraction(row["share"], 100) / row["age"]
        assert steps == math.trunc(exact * 10**6)
        assert value.kind.lower <= steps <= value.kind.upper
    assert (value.kind.lower, value.kind.upper) == (-9 * 10**6, 9 * 10**6)


def test_buckets_are_counted_from_one():
    value = functions.bucket(AGE, constant(0), constant(10), constant(4))
    assert value.domain == range(6)
    inputs = [None, -3, -1, 0, 2, 3, 5, 7, 8, 9, 10, 12]
    expected = [None, 0, 0, 1, 1, 2, 3, 3, 4, 4, 5, 5]
    assert computed(value, [{"age": n} for n in inputs]) == expected


def test_ages_are_complete_years():
    value = dates.years_between(BORN, SEEN)
    draw = random.Random(6)
    days = [
        (date(2000, 2, 29), date(2001, 2, 28)),
        (date(2000, 2, 29), date(2001, 3, 1)),
        (date(1999, 5, 5), date(1999, 5, 5)),
    ]
    days += [
        (date.fromordinal(draw.randint(693596, 739981)), date.fromordinal(draw.randint(711858, 739981)))
        for _ in range(300)
    ]
    expected = [b.year - a.year - ((b.month, b.day) < (a.month, a.day)) for a, b in days]
    assert computed(value, [{"born": a, "seen": b} for a, b in days]) == expected
    assert value.kind.lower <= min(expected) <= max(expected) <= value.kind.upper


def test_dates_are_made_where_there_are_some():
    year, month, day = (field(Column(name, "integer", lower=-5, upper=20000)) for name in ("y", "m", "d"))
    value = dates.make_date(year, month, day)
    assert value.kind == Day(date(1, 1, 1), date(9999, 12, 31))
    rows = [
        (2024, 2, 29),
        (2023, 2, 29),
        (2023, 4, 31),
        (0, 1, 1),
        (10000, 1, 1),
        (9999, 12, 31),
        (5, 13, 1),
        (5, 1, 0),
        (5, 1, 32),
        (5, 0, 5),
        (-5, -5, -5),
    ]
    found = computed(value, [{"y": y, "m": m, "d": d} for y, m, d in rows])
    expected = []
    for row in rows:
        try:
            expected.append(date(*row))
        except ValueError:
            expected.append(None)
    assert found == expected


def test_a_date_and_a_column_of_days():
    value = dates.shift_days(BORN, AGE)
    rows = [{"born": date(1900, 1, 1), "age": -3}, {"born": date(1999, 12, 31), "age": 1}, {"born": None, "age": 1}]
    assert computed(value, rows) == [date(1899, 12, 29), date(2000, 1, 1), None]
    assert value.kind == Day(date(1899, 12, 29), date(2027, 1, 12))


def test_text_that_is_no_number_or_date_is_null():
    rows = [
        {"text": text} for text in ("12", "x", "", "3.14159", "1e400", "infinity", "2024-02-30", "2024-02-29", None)
    ]
    assert computed(functions.parsed_number(TEXT, "DECIMAL", 9, 2), rows) == [
        1200,
        None,
        None,
        314,
        None,
        None,
        None,
        None,
        None,
    ]
    assert computed(functions.parsed_date(TEXT), rows) == [None] * 7 + [date(2024, 2, 29), None]


def test_texts_of_few_values_are_known():
    assert functions.text_of(AGE).domain == tuple(str(n) for n in range(-3, 13))
    assert functions.text_of(BORN).domain is None
    months = dates.format_date(field(Column("d", "date", lower="2024-11-15", upper="2025-01-02")), constant("%Y-%m"))
    assert months.domain == ("2024-11", "2024-12", "2025-01")
    assert (functions.text_of(AGE).kind, months.kind) == (Text(2), Text(7))


HONEST = [
    functions.square_root(BIG),
    functions.divide(SHARE, AGE),
    functions.sign(AGE),
    functions.curve("ln", AGE),
    functions.curve("exp", AGE),
    dates.shift_days(BORN, AGE),
    dates.shift(BORN, 3, "month"),
    dates.number_of_day(BORN),
    dates.moment_of(BORN),
    functions.parsed_number(TEXT, "INTEGER"),
    functions.split_part(TEXT, constant("-"), constant(2)),
    functions.text_of(AGE),
]


@pytest.mark.parametrize("value", HONEST, ids=str)
def test_the_gate_derives_each_function(value):
    verify_expression(value)
    kinds = {
        Fixed: lambda kind: Fixed(kind.step, kind.lower, kind.upper - 1),
        Text: lambda kind: Text(kind.length - 1),
        Day: lambda kind: Day(kind.lower, kind.upper.replace(day=1)),
    }
    if type(value.kind) in kinds:
        with pytest.raises(InternalError):
            verify_expression(replace(value, kind=kinds[type(value.kind)](value.kind)))
    with pytest.raises(InternalError):
        verify_expression(replace(value, nullable=not value.nullable))


@pytest.mark.parametrize("value", [functions.divide(SHARE, AGE), functions.square_root(BIG)], ids=str)
def test_the_gate_refuses_other_constants_of_the_same_kind(value):
    """A factor that the SQL uses and the kind does not show: the result would leave its range."""
    wrong = (*value.arguments[:-1], constant(7))
    with pytest.raises(InternalError):
        verify_expression(replace(value, arguments=wrong))


# Patterns

PIECES = [
    "a",
    "b",
    "[a-c]",
    "[^a]",
    ".",
    "\\d",
    "\\w",
    "\\s",
    "(ab|c)",
    "(?:x|yz)",
    "a*",
    "b+",
    "c?",
    "a{2}",
    "[0-9]{1,3}",
    "\\.",
    "ä",
    "-",
    "(a|b)*",
]


def test_patterns_that_are_taken_are_patterns_of_the_engine():
    draw = random.Random(7)
    taken = 0
    with duckdb.connect() as connection:
        for _ in range(400):
            pattern = (
                draw.choice(["", "^"]) + "".join(draw.choices(PIECES, k=draw.randint(1, 6))) + draw.choice(["", "$"])
            )
            try:
                patterns.automaton(pattern)
            except Unsupported:
                continue
            taken += 1
            assert connection.execute("SELECT regexp_matches('abc', ?)", [pattern]).fetchone()[0] in (True, False)
    assert taken > 200


@pytest.mark.parametrize(
    "pattern", ["a.{20}z", "(a|b)*a(a|b){12}z", "(.{1,20}a){1,4}z", "a..............................z"]
)
def test_patterns_that_need_many_states_are_refused(pattern):
    """Each took 0.3 to 3 µs a character where texts were random."""
    with pytest.raises(Unsupported, match="so many states|this large"):
        patterns.automaton(pattern)


@pytest.mark.parametrize(
    "pattern",
    ["", "(", ")", "(a", "a)", "[", "[]", "[^]", "*", "a**", "a+?", "a{", "a{2", "a{3,2}", "a{0}", "a{1000}", "\\1", "\\b", "(?i)a", "(?=a)", "a\\", "[z-a]", "[[:alpha:]]", "^^a", "a$b", "a|*", "\n", "[\\q]", "{2}"],
)  # fmt: skip
def test_what_is_not_understood_in_a_pattern_is_refused(pattern):
    with pytest.raises(Unsupported):
        patterns.automaton(pattern)


def test_patterns_are_priced_by_their_automaton():
    cheap, dear = (functions.matches(TEXT, constant(pattern)) for pattern in ("^C[0-9]", "covid|sars|influenza"))
    assert 8 * 1000 < cheap.work < dear.work < MOST_WORK
    assert isinstance(cheap, Call)


def nested(times):
    value = dates.number_of_day(BORN)
    for _ in range(times):
        value = dates.number_of_day(dates.day_of_number(functions.multiply(value, AGE)))
    return value


def test_functions_cannot_make_a_short_text_long():
    """What SQL repeats of an argument counts: nested, it would triple again and again."""
    assert len(expression(nested(4), {})) < 50_000
    with pytest.raises(Unsupported, match="too large|µs on one row"):
        nested(12)
