"""Dates and times with bounds: clamped as they are read, and groups by them known before a row is."""

from dataclasses import replace
from datetime import date, datetime, timedelta

import duckdb
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.plan import from_document, to_document
from discreet.curator.policy import parse_policy
from discreet.errors import InternalError, InvalidParameter
from discreet.privacy.unit import Unit
from discreet.sql.algebra import dates
from discreet.sql.algebra.conditions import case, coalesce, is_null
from discreet.sql.algebra.expression import constant, field
from discreet.sql.algebra.kinds import Calendar, Day, Fixed, Moment, calendar_of, day_number, plus_months, truncated
from discreet.sql.algebra.verification import verify_expression
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release.expression_sql import treated
from discreet.sql.release.private_sql import write

COLUMNS = [
    Column("p", "integer"),
    Column("d", "date", lower=date(2019, 11, 5), upper="2021-02-28"),
    Column("m", "timestamp", lower=date(2019, 12, 31), upper=date(2020, 1, 2), nullable=False),
    Column("u", "date"),
]
TABLE = Table("visits", COLUMNS, unit=Unit("p"), groups=2, rows=1)
CATALOG = Catalog("d", [TABLE], neighbors="add or remove one")
DAY, TIME, OPEN = (field(column) for column in COLUMNS[1:])


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day"])
def test_groups_by_bounded_dates_are_known_and_need_no_delta(unit):
    made = plan(
        [f"SELECT DATE_TRUNC('{unit}', d) AS t, COUNT(*) AS n FROM visits GROUP BY 1"], CATALOG, Terms(epsilon=1)
    )
    (release,) = made.releases
    assert release.selection is None
    days = [date(2019, 11, 5) + timedelta(days=n) for n in range((date(2021, 2, 28) - date(2019, 11, 5)).days + 1)]
    with duckdb.connect() as connection:
        listed = connection.execute(
            f"SELECT DISTINCT date_trunc('{unit}', d)::DATE FROM (SELECT unnest(?::DATE[]) AS d) ORDER BY 1", [days]
        )
        assert list(release.group.keys[0].domain) == [value for (value,) in listed.fetchall()]
    assert made.verify(CATALOG) == made.loss


def test_days_months_and_years_of_bounded_dates_have_their_range():
    assert dates.date_part("year", DAY).domain == range(2019, 2022)
    assert dates.date_part("month", DAY).domain == range(1, 13)
    assert DAY.domain == Calendar("day", date(2019, 11, 5), date(2021, 2, 28))
    assert dates.date_part("year", OPEN).kind == Fixed(1, -5877641, 5881580)
    assert dates.truncate_date("month", OPEN).domain is None


def test_a_date_as_the_upper_bound_of_times_is_its_last_moment():
    assert TIME.kind == Moment(datetime(2019, 12, 31), datetime(2020, 1, 2, 23, 59, 59, 999999))
    assert dates.day_of(TIME).domain == Calendar("day", date(2019, 12, 31), date(2020, 1, 2))
    hours = dates.truncate_date("hour", TIME).domain
    assert (len(hours), hours[0], hours[-1]) == (72, datetime(2019, 12, 31), datetime(2020, 1, 2, 23))


def test_more_dates_than_can_be_listed_are_not():
    assert calendar_of("minute", datetime(2000, 1, 1), datetime(2001, 1, 1)) is not None
    assert calendar_of("minute", datetime(2000, 1, 1), datetime(2010, 1, 1)) is None
    assert calendar_of("day", date.min, date.max) is None


@pytest.mark.parametrize("unit", ["year", "quarter", "month", "week", "day", "hour", "minute"])
def test_truncation_is_what_duckdb_does(unit):
    times = [
        datetime(1, 1, 1, 5),
        datetime(1969, 12, 31, 23, 59, 59),
        datetime(2024, 2, 29, 12),
        datetime(9999, 12, 31),
    ]
    with duckdb.connect() as connection:
        for value in times:
            (found,) = connection.execute("SELECT date_trunc(?, ?::TIMESTAMP)", [unit, value]).fetchone()
            ours = truncated(unit, value)
            assert found in (ours, datetime(*ours.timetuple()[:6]))


def test_months_are_added_as_duckdb_adds_them():
    with duckdb.connect() as connection:
        for first in (date(1, 3, 31), date(1969, 12, 31), date(2024, 2, 29), date(2023, 5, 30)):
            for months in (-14, -12, -1, 0, 1, 11, 12, 25):
                try:
                    ours = plus_months(first, months)
                except OverflowError:
                    continue
                assert connection.execute("SELECT (?::DATE + to_months(?))::DATE", [first, months]).fetchone() == (
                    ours,
                )


def test_dates_are_clamped_as_they_are_read():
    rows = [
        None,
        "0001-01-01",
        "2019-11-04",
        "2019-11-05",
        "2020-06-01",
        "2021-02-28",
        "2021-03-01",
        "9999-12-31",
        "infinity",
        "-infinity",
    ]
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t AS SELECT unnest(?::VARCHAR[])::DATE AS d", [rows])
        found = [value for (value,) in connection.execute(f"SELECT {treated(COLUMNS[1])} FROM t").fetchall()]
    low, high = date(2019, 11, 5), date(2021, 2, 28)
    assert found == [None, low, low, low, date(2020, 6, 1), high, high, high, high, low]


def test_choices_among_dates_keep_their_bounds():
    chosen = case([(is_null(DAY), constant(date(2025, 1, 1)))], DAY)
    assert chosen.kind == Day(date(2019, 11, 5), date(2025, 1, 1))
    assert coalesce([OPEN, DAY]).kind == Day()
    assert coalesce([DAY, constant(date(2000, 1, 1))]).kind == Day(date(2000, 1, 1), date(2021, 2, 28))
    for value in (chosen, coalesce([OPEN, DAY])):
        verify_expression(value)


@pytest.mark.parametrize(
    "value", [dates.truncate_date("month", DAY), dates.day_of(TIME), dates.date_part("year", DAY)], ids=str
)
def test_the_gate_derives_spans_and_calendars(value):
    verify_expression(value)
    narrow = Fixed(1, 2019, 2020) if isinstance(value.kind, Fixed) else Day(date(2019, 12, 31), date(2020, 1, 1))
    with pytest.raises(InternalError):
        verify_expression(replace(value, kind=narrow))
    with pytest.raises(InternalError):
        verify_expression(replace(value, domain=Calendar("month", date(2020, 1, 1), date(2020, 1, 1))))
    assert from_document(to_document(value)) == value


def test_documents_of_dates_without_bounds_are_what_they_were():
    assert to_document(Day()) == {"is": "date"}
    assert to_document(Moment()) == {"is": "timestamp"}
    assert {"earliest", "latest"}.isdisjoint(to_document(COLUMNS[3]))
    assert to_document(COLUMNS[1])["earliest"] == {"date": "2019-11-05"}


POLICY = """
dataset = {name = "h", neighbors = "change one"}
budget = {epsilon = 1, everyone = "all"}
[tables.t]
source = "python"
unit = "row"
columns.d = {type = "date", lower = %s, upper = %s}
"""


@pytest.mark.parametrize(("lower", "upper"), [("2020-01-01", "2026-12-31"), ('"2020-01-01"', '"2026-12-31"')])
def test_a_policy_states_dates_of_toml_or_as_text(lower, upper):
    column = parse_policy(POLICY % (lower, upper)).catalog.table("t").column("d")
    assert (column.earliest, column.latest) == (date(2020, 1, 1), date(2026, 12, 31))
    assert column.describe() == "d: date from 2020-01-01 to 2026-12-31"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"kind": "date", "lower": "2020-01-01"}, "one bound"),
        ({"kind": "date", "lower": "2021-01-01", "upper": "2020-01-01"}, "lower ≤ upper"),
        ({"kind": "date", "lower": 3, "upper": 4}, "a date or time without a zone"),
        ({"kind": "date", "lower": "yesterday", "upper": "2020-01-01"}, "a date or time without a zone"),
        ({"kind": "date", "lower": datetime(2020, 1, 1), "upper": "2021-01-01"}, "dates without a time"),
        ({"kind": "timestamp", "lower": "2020-01-01T00:00:00+02:00", "upper": "2021-01-01"}, "without a zone"),
        ({"kind": "integer", "lower": date(2020, 1, 1), "upper": 7}, "numbers"),
        ({"kind": "date", "lower": "2020-01-01", "upper": "2021-01-01", "granularity": 1}, "granularity"),
    ],
)
def test_bounds_of_dates_that_cannot_be_are_refused(settings, said):
    with pytest.raises(InvalidParameter, match="column 'x'") as refusal:
        Column("x", **settings)
    assert said in str(refusal.value)


def test_bounded_dates_are_answered_in_every_month_that_there_is():
    made = plan(
        ["SELECT DATE_TRUNC('month', d) AS t, COUNT(*) AS n FROM visits WHERE d >= '2020-06-01' GROUP BY 1"],
        CATALOG,
        Terms(epsilon=1),
    )
    sql = write(made.releases[0].aggregate)
    assert "TRY(CAST(date_trunc('month'" in sql
    assert made.releases[0].group.size == 9 + 1  # the months that the condition leaves, and null


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("m >= '2020-01-01T12:00:00Z'", "m >= '2020-01-01 12:00:00'"),
        ("m >= TIMESTAMP WITH TIME ZONE '2020-01-01 12:00:00+00:00'", "m >= '2020-01-01 12:00:00'"),
        ("m < TO_TIMESTAMP('2020-01-01 12:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')", "m < '2020-01-01 12:00:00'"),
        ("d >= TO_DATE('2020-01-01', 'YYYY-MM-DD')", "d >= '2020-01-01'"),
        ("d BETWEEN '2020-01-01T12:00:00Z' AND '2020-02-01T12:00:00Z'", "d BETWEEN '2020-01-01' AND '2020-02-01'"),
        ("d >= TIMESTAMP '2020-01-01 00:00:00'", "d >= '2020-01-01'"),
    ],
)
def test_times_as_tools_write_them_are_the_same_question(written, plain):
    """Times in UTC, of Grafana, Metabase, Superset and Power BI: one digest, so one charge."""
    one, other = (
        plan([f"SELECT DATE_TRUNC('month', d) AS t, COUNT(*) AS n FROM visits WHERE {where} GROUP BY 1"], CATALOG, Terms(epsilon=1))
        for where in (written, plain)
    )  # fmt: skip
    assert one.releases == other.releases


def test_day_numbers_count_from_1970():
    assert [day_number(value) for value in (date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1))] == [0, -1, -719162]
