"""The gate derives ranges and lengths again, and refuses a plan that states others."""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import duckdb
import pytest

from discreet.curator.catalog import TEXT, Catalog, Column, Table
from discreet.errors import InternalError
from discreet.mechanisms.additive import Geometric
from discreet.privacy.unit import Unit
from discreet.sql.algebra import functions
from discreet.sql.algebra.expression import Call, Constant, Expression, constant, field
from discreet.sql.algebra.kinds import Fixed, Text
from discreet.sql.algebra.relations import Key
from discreet.sql.algebra.rows import Filter
from discreet.sql.algebra.verification import verify_expression
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.plan.query_plan import QueryPlan
from discreet.sql.release.private_sql import write
from discreet.sql.release.release import Release

COLUMNS = [Column("p", "integer"), Column("s", "text"), Column("x", "integer", lower=0, upper=9)]
KNOWN = Catalog("d", [Table("t", COLUMNS, unit=Unit("p"), groups=1, rows=1)], neighbors="add or remove one")
CITY = field(COLUMNS[1])
CUT = functions.substring(CITY, constant(1), constant(5))
TEXTS = [
    functions.changed_text("lower", CITY),
    functions.changed_text("upper", functions.changed_text("trim", CITY)),
    functions.substring(CITY, constant(2), constant(3)),
    functions.substring(functions.concatenate(CUT, constant("ab")), constant(2), constant(10**6)),
    functions.concatenate(CITY, constant(" of "), CITY),
    functions.length_of_text(CITY),
    functions.like("like", CITY, constant("%o%")),
]
ASKED = [
    "SELECT COUNT(*) FROM t WHERE LOWER(s) LIKE '%a%' AND SUBSTRING(s, 2, 3) || 'x' = 'y'",
    "SELECT COUNT(*) FROM t WHERE COALESCE(TRIM(s), 'q') = 'q' AND LENGTH(UPPER(s)) > 3",
    "SELECT COUNT(*) FROM t WHERE CASE WHEN x > 3 THEN s WHEN x > 2 THEN s || 'b' ELSE 'b' END = 'b'",
    "SELECT SUM(LENGTH(s || s)), COUNT(*) FROM t WHERE NULLIF(s, 'a') IS NOT NULL OR s ILIKE 'o%'",
    "SELECT LEFT(s, 3), MEDIAN(x), MAX(x) FROM t GROUP BY 1",
    "SELECT LEFT(s, 3), SUM(x) FROM t WHERE s IN ('a', 'b') GROUP BY 1",
]


@pytest.mark.parametrize("one", TEXTS, ids=str)
def test_honest_texts_pass(one: Expression) -> None:
    verify_expression(one)


@pytest.mark.parametrize("sql", ASKED)
def test_honest_plans_pass(sql: str) -> None:
    made = plan([sql], KNOWN, Terms(epsilon=1, delta="1e-6"))
    assert made.verify(KNOWN) == made.loss


def test_texts_are_cut_in_the_sql_itself() -> None:
    """Whatever the engine does beside it: no more than the stated length of a text is ever seen."""
    made = plan(["SELECT SUM(LENGTH(s)) FROM t"], KNOWN, Terms(epsilon=1))
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE t(p BIGINT, s VARCHAR, x BIGINT)")
        connection.execute("INSERT INTO t VALUES (1, repeat('a', 5000), 1)")
        found = connection.execute(write(made.releases[0].aggregate), {"salt": "0"}).fetchall()
    assert found == [(1, TEXT)]


@pytest.mark.parametrize("times", [2, 1000])
def test_a_build_that_reads_longer_texts_than_it_says_is_refused(times: int) -> None:
    long = replace(CITY, kind=Text(times * TEXT))
    made = plan(["SELECT SUM(LENGTH(s)) FROM t"], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    (measure,) = [one for one in release.aggregate.measures if one.value is not None]
    wrong = replace(measure, value=replace(measure.value, arguments=(long,), kind=Fixed(Fraction(1), 0, times * TEXT)))
    aggregate = replace(release.aggregate, measures=(wrong,))
    with pytest.raises(InternalError):
        replace(made, releases=(replace(release, aggregate=aggregate),)).verify(KNOWN)


def test_the_gate_derives_the_ranges_of_expressions() -> None:
    """A range that is stated one step too narrow would need less noise than is due."""
    made = plan(["SELECT SUM(LENGTH(s)) FROM t"], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    (measure,) = [one for one in release.aggregate.measures if one.value is not None]
    wrong = replace(measure, value=replace(measure.value, kind=Fixed(Fraction(1), 0, TEXT - 1)))
    aggregate = replace(release.aggregate, measures=(wrong,))
    with pytest.raises(InternalError, match="a range for length"):
        replace(made, releases=(replace(release, aggregate=aggregate),)).verify(KNOWN)


def changed(sql: str, change: Callable[[Release], Release], delta: str | None = None) -> QueryPlan:
    one = plan([sql], KNOWN, Terms(epsilon=1, delta=delta))
    return replace(one, releases=tuple(map(change, one.releases)))


def with_bound(**bounds: int) -> Callable[[Release], Release]:
    def change(release: Release) -> Release:
        return replace(
            release, aggregate=replace(release.aggregate, source=replace(release.aggregate.source, **bounds))
        )

    return change


@pytest.mark.parametrize("bounds", [{"rows": 2}, {"rows": 0}, {"groups": 0}])
def test_bounds_that_nothing_has_are_refused(bounds: dict[str, int]) -> None:
    """Where people are counted, rows weigh nothing: no sensitivity would show that the bound was changed."""
    one = changed("SELECT COUNT(DISTINCT p) FROM t", with_bound(**bounds))
    with pytest.raises(InternalError, match="contribution bounds"):
        one.verify(KNOWN)


MEDIAN = "SELECT MEDIAN(x) FROM t"


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sensitivity": Fraction(1, 4)}, "another sensitivity than ranks have"),
        ({"probability": Fraction(1, 4)}, "another sensitivity than ranks have"),
        ({"points": 5}, "another range than its value has"),
        ({"epsilon": Fraction(1, 8)}, "another ε or δ than its parts have"),
    ],
    ids=str,
)
def test_quantiles_for_other_ranks_are_refused(changed: dict[str, object], words: str) -> None:
    made = plan([MEDIAN], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    choice = replace(release.choices[0], mechanism=replace(release.choices[0].mechanism, **changed))
    wrong = replace(made, releases=(replace(release, choices=(choice, *release.choices[1:])),))
    with pytest.raises(InternalError, match=words):
        wrong.verify(KNOWN)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"sensitivity": 2}, "another sensitivity than counts have"),
        ({"points": 11}, "other values than are declared"),
        ({"epsilon": Fraction(1, 8)}, "another ε or δ than its parts have"),
    ],
    ids=str,
)
def test_modes_of_other_values_or_counts_are_refused(changed: dict[str, object], words: str) -> None:
    made = plan(["SELECT APPROX_TOP_K(x, 2) FROM t"], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    assert made.verify(KNOWN) == made.loss
    top = replace(release.tops[0], mechanism=replace(release.tops[0].mechanism, **changed))
    with pytest.raises(InternalError, match=words):
        replace(made, releases=(replace(release, tops=(top,)),)).verify(KNOWN)


@pytest.mark.parametrize("sql", ["SELECT MEDIAN(x + 1) FROM t", "SELECT MODE(x + 1) FROM t"])
def test_a_range_of_ranked_values_that_they_do_not_have_is_refused(sql: str) -> None:
    """Values beyond the range would be ranked where no rank was priced."""
    made = plan([sql], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    (read,) = release.aggregate.distributions
    narrow = Fixed(Fraction(1), 1, 5)
    wrong = replace(read, value=replace(read.value, kind=narrow, domain=range(1, 6)))
    aggregate = replace(release.aggregate, distributions=(wrong,))
    choices = tuple(replace(each, mechanism=replace(each.mechanism, points=5)) for each in release.choices)
    tops = tuple(replace(each, mechanism=replace(each.mechanism, points=5)) for each in release.tops)
    with pytest.raises(InternalError, match="a range for"):
        replace(made, releases=(replace(release, aggregate=aggregate, choices=choices, tops=tops),)).verify(KNOWN)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"noise": Geometric(epsilon=1, sensitivity=2)}, "another sensitivity than bins have"),
        ({"edges": (4, 2)}, "edges that do not rise"),
        ({"distribution": 1}, "values that it does not read"),
    ],
    ids=str,
)
def test_a_histogram_with_other_noise_or_edges_is_refused(changed: dict[str, object], words: str) -> None:
    made = plan(["SELECT HISTOGRAM(x, [2, 4]) FROM t"], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    assert made.verify(KNOWN) == made.loss
    wrong = replace(made, releases=(replace(release, tallies=(replace(release.tallies[0], **changed),)),))
    with pytest.raises(InternalError, match=words):
        wrong.verify(KNOWN)


def test_a_quantile_of_values_that_are_not_read_is_refused() -> None:
    made = plan([MEDIAN], KNOWN, Terms(epsilon=1))
    (release,) = made.releases
    wrong = replace(
        made, releases=(replace(release, choices=tuple(replace(c, distribution=1) for c in release.choices)),)
    )
    with pytest.raises(InternalError, match="values that it does not read"):
        wrong.verify(KNOWN)


def test_people_are_not_named() -> None:
    def by_person(release: Release) -> Release:
        group = replace(release.group, keys=(Key("p", field(COLUMNS[0]), None),))
        return with_bound(source=group)(release)  # type: ignore[arg-type]

    with pytest.raises(InternalError, match="names people"):
        changed("SELECT COUNT(*) FROM t GROUP BY s", by_person, "1e-6").verify(KNOWN)


def test_rows_are_filtered_by_conditions_alone() -> None:
    def by_number(release: Release) -> Release:
        return with_bound(source=replace(release.group, source=Filter(release.group.source, field(COLUMNS[2]))))(
            release
        )  # type: ignore[arg-type]

    with pytest.raises(InternalError, match="neither true nor false"):
        changed("SELECT COUNT(*) FROM t", by_number).verify(KNOWN)


def test_more_work_on_a_row_than_the_clock_may_tell_is_refused() -> None:
    def dear(release: Release) -> Release:
        condition = functions.like("ilike", functions.changed_text("lower", CITY), constant("__%"))
        rows = release.group.source
        for _ in range(10):
            rows = Filter(rows, condition)
        return with_bound(source=replace(release.group, source=rows))(release)  # type: ignore[arg-type]

    with pytest.raises(InternalError, match="more time on one row"):
        changed("SELECT COUNT(*) FROM t", dear).verify(KNOWN)


def longer(one: Call) -> Call:
    return replace(one, kind=Text((one.kind.length or 0) + 1))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "one",
    [
        *(longer(one) for one in TEXTS[:5] if isinstance(one, Call)),
        Call("lower", (CITY,), Text(TEXT), True),
        Call("length", (CITY,), Fixed(Fraction(1), 0, TEXT + 1), True),
        Call("concatenate", (CITY, CITY), Text(TEXT), True),
        Call("substring", (CITY, constant(1), CITY), Text(TEXT), True),
        Call("reverse", (CUT,), Text(5), True),
        Constant("abc", Text(2)),
        Constant(10, Fixed(Fraction(1), 0, 9)),
        Constant("9", Fixed(Fraction(1), 0, 9)),
        Call("add", (field(COLUMNS[2]), Constant(10**6, Fixed(Fraction(1), 1, 1))), Fixed(Fraction(1), 1, 10), True),
    ],
    ids=str,
)
def test_what_states_more_than_it_has_is_refused(one: Expression) -> None:
    with pytest.raises(InternalError):
        verify_expression(one)
