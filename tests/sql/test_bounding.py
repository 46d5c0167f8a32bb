"""Which groups of a unit count, and with which weight: the SQL against a reference in Python, whole number by number."""

import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from discreet.curator import contribution_draw as draw
from discreet.curator.catalog import Catalog, Column, ColumnType, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.privacy.unit import Unit
from discreet.sql.algebra.relations import Aggregate, Count, Measure, People, Sum
from discreet.sql.plan.planner import Terms, plan
from discreet.sql.release import private_sql
from discreet.sql.release.private_sql import write
from discreet.sql.release.release import group_names

SALT = "5a17"
KINDS = {"integer": pa.int64(), "text": pa.string(), "real": pa.float64()}
Row = dict[str, Any]


def weighed(total: int, n: int, rows: int, offset: int) -> int:
    """⌊total·rows/n + offset/2^16⌋ where there are more than `rows`: in whole numbers, as Python floors them."""
    return total if n <= rows else (total * rows * draw.OFFSETS + n * offset) // (n * draw.OFFSETS)


def contribution(measure: Measure, cell: list[Row], rows: int, offset: int) -> int:
    """What the rows of one unit in one group add to a measure."""
    column = "" if measure.value is None else measure.value.column.name  # type: ignore[union-attr]
    held = [row for row in cell if measure.value is None or row[column] is not None]
    match measure:
        case People():
            return min(1, len(held))
        case Count(value=None):
            return min(len(cell), rows)
        case Count():
            return weighed(len(held), len(cell), rows, offset)
        case Sum():
            return weighed(sum(row[column] - measure.offset for row in held), len(cell), rows, offset)
        case _:
            raise AssertionError(measure)


def reference(aggregate: Aggregate, rows: list[Row], keys: list[str], numbers: dict[Any, int] | None) -> dict[Any, Any]:
    """Each group that is present: its units and its measures."""
    bound = aggregate.source
    cells: dict[Any, dict[Any, list[Row]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        name = tuple(row[key] for key in keys)
        if row["who"] is not None and (numbers is None or name in numbers):
            cells[row["who"]][name].append(row)
    totals: dict[Any, list[int]] = defaultdict(lambda: [0] * (1 + len(aggregate.measures)))
    for who, groups in cells.items():
        order: Callable[[Any], Any] = lambda name, who=who: (  # noqa: E731
            draw.digest(SALT, [who, *name]) if numbers is None or not keys else draw.place(SALT, who, numbers[name])
        )
        for name in sorted(groups, key=order)[: bound.groups]:
            drawn = order(name)
            offset = int(drawn[-4:], 16) if isinstance(drawn, str) else draw.place_offset(SALT, drawn)
            added = [contribution(measure, groups[name], bound.rows, offset) for measure in aggregate.measures]
            totals[name] = [a + b for a, b in zip(totals[name], [1, *added], strict=True)]
    return dict(totals)


def found_by_sql(known: Catalog, rows: list[Row], aggregate: Aggregate) -> dict[Any, Any]:
    columns = {c.name: pa.array([row[c.name] for row in rows], KINDS[str(c.kind)]) for c in known.table("t").columns}
    with DuckDBEngine(known, {"t": pa.table(columns)}) as engine:
        found = engine.fetch(write(aggregate), salt=SALT)
    group = aggregate.source.source
    if group.size is None or not group.keys:
        keys = [found.column(f"k{i}") for i in range(len(group.keys))]
    else:
        keys = [names.take(found.column("g")) for names in group_names(group)]
    names = list(zip(*(key.to_pylist() for key in keys), strict=True)) or [()] * found.num_rows
    numbers = zip(*(found.column(f"m{i}").to_pylist() for i in range(len(aggregate.measures))), strict=True)
    return {name: [units, *m] for name, units, m in zip(names, found.column("units").to_pylist(), numbers, strict=True)}


COLUMNS = [
    Column("who", "integer"),
    Column("x", "integer", lower=-7, upper=9),
    Column("y", "integer", lower=0, upper=5_000_000, nullable=False),
    Column("k", "text", values=["a", "b", "it's", "", "z"]),
    Column("j", "integer", lower=0, upper=2, nullable=False),
    Column("t", "text"),
    Column("z", "integer", lower=-(2**40), upper=2**41),
]
QUESTIONS = {
    "one word": "SELECT k, COUNT(*), SUM(x), COUNT(x), COUNT(DISTINCT who) FROM t GROUP BY k",
    "two keys": "SELECT k, j, COUNT(*), AVG(y) FROM t GROUP BY k, j",
    "people": "SELECT j, COUNT(DISTINCT who) FROM t GROUP BY j",
    "no key": "SELECT COUNT(*), SUM(x) FROM t",
    "from the data": "SELECT t, COUNT(*), SUM(x) FROM t GROUP BY t",
    "more than a word": "SELECT k, j, COUNT(*), SUM(x), SUM(y), AVG(x), AVG(y), COUNT(x) FROM t GROUP BY k, j",
    "more than a word each": "SELECT j, SUM(z), COUNT(x), AVG(y) FROM t GROUP BY j",
}


def made_rows(seed: int, who: ColumnType, size: int) -> list[Row]:
    choose = random.Random(seed)
    people: list[Any] = [None, -5, 2**62, *range(12)]
    if who is ColumnType.TEXT:
        people = [None if person is None else f"p{person}" for person in people]
    return [
        {
            "who": choose.choice(people),
            "x": choose.choice([None, -7, 9, *range(-3, 4)]),
            "y": choose.choice([0, 5_000_000, 17]),
            "k": choose.choice([None, "a", "b", "it's", "", "z", "undeclared"]),
            "j": choose.choice([0, 1, 2]),
            "t": choose.choice([None, "", "n", "s"]),
            "z": choose.choice([None, -(2**40), 2**41, 2**31, 12_345_678_901]),
        }
        for _ in range(size)
    ]


@pytest.mark.quick_cases(8)
@pytest.mark.parametrize("who", [ColumnType.INTEGER, ColumnType.TEXT])
@pytest.mark.parametrize("bounds", [(1, 1), (2, 3), (3, 2), (100, 1)])
@pytest.mark.parametrize("question", list(QUESTIONS))
def test_the_sql_bounds_as_the_reference_does(question: str, bounds: tuple[int, int], who: ColumnType) -> None:
    table = Table("t", [Column("who", who), *COLUMNS[1:]], unit=Unit("who"), groups=bounds[0], rows=bounds[1])
    known = Catalog("d", [table], neighbors="add or remove one")
    (release,) = plan([QUESTIONS[question]], known, Terms(epsilon=1, delta="1e-6")).releases
    group, keys = release.group, [key.name for key in release.group.keys]
    numbers = None
    if group.size is not None:
        named = zip(*(names.to_pylist() for names in group_names(group)), strict=True) if keys else [()]
        numbers = {name: number for number, name in enumerate(named)}
    for seed in range(3):
        rows = made_rows(seed, who, 300)
        assert found_by_sql(known, rows, release.aggregate) == reference(release.aggregate, rows, keys, numbers)


def test_all_ways_of_choosing_cells_are_written() -> None:
    """The questions above reach one word, several, numbers cut into several, and the digest; with one group and more."""

    def sql(name: str, groups: int = 2) -> str:
        known = Catalog("d", [Table("t", COLUMNS, unit=Unit("who"), groups=groups, rows=3)], neighbors="change one")
        (release,) = plan([QUESTIONS[name]], known, Terms(epsilon=1, delta="1e-6")).releases
        return write(release.aggregate)

    assert sql("one word").count("unnest(min(p * ") == 1
    assert sql("more than a word").count("unnest(min(p * ") > 1
    assert ">> 31" in sql("more than a word each")
    assert "unnest" not in sql("more than a word", groups=1)
    assert "unnest(min(struct_pack(d := md5" in sql("from the data")
    assert "unnest" not in sql("from the data", groups=1)


VISITS = Table(
    "visits",
    [Column("who", "integer"), Column("day", "integer", lower=0, upper=4), Column("x", "integer", lower=-7, upper=9)],
    unit=Unit("who"),
)
PEOPLE = Table(
    "people",
    [
        Column("id", "integer"),
        Column("k", "text", values=["a", "b"]),
        Column("t", "text"),
        Column("age", "integer", lower=0, upper=99),
    ],
    unit=Unit("id"),
)
JOINED = [
    "SELECT COUNT(*), SUM(x), AVG(age), COUNT(k) FROM visits JOIN people ON who = id",
    "SELECT k, COUNT(*), SUM(x), AVG(age), COUNT(DISTINCT who) FROM visits JOIN people ON who = id GROUP BY k",
    "SELECT day, k, COUNT(*), SUM(x), SUM(age) FROM visits JOIN people ON who = id GROUP BY day, k",
    "SELECT k, day, age, COUNT(*), SUM(x) FROM visits JOIN people ON who = id GROUP BY k, day, age",
    "SELECT t, day, COUNT(x), SUM(age) FROM visits JOIN people ON who = id GROUP BY t, day",
    "SELECT k, COUNT(*), SUM(x) FROM visits JOIN people ON who = id WHERE x > 0 AND age < 50 GROUP BY k",
    "SELECT day, COUNT(DISTINCT CASE WHEN x > 0 THEN who END), SUM(x) FROM visits JOIN people ON who = id GROUP BY day",
    "SELECT k, COUNT(*), SUM(y) FROM visits JOIN (SELECT id, k, age + 1 AS y FROM people WHERE age > 9) AS p ON who = id "
    "GROUP BY k",
]


@pytest.mark.parametrize("bounds", [(1, 1), (2, 3), (3, 40)])
@pytest.mark.parametrize("statement", JOINED)
def test_sides_of_a_join_that_are_added_up_first_give_the_same(
    statement: str, bounds: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Number by number what the joined rows add up to, with people who are once, often or never in either table."""
    known = Catalog("d", [VISITS, PEOPLE], neighbors="add or remove one")
    terms = Terms(epsilon=1, delta="1e-6", groups=bounds[0], rows=bounds[1])
    (release,) = plan([statement], known, terms).releases
    quick = write(release.aggregate)
    assert "n0" in quick
    monkeypatch.setattr(private_sql, "_joined_cells", lambda *_: None)
    plainly = write(release.aggregate)
    assert "n0" not in plainly
    for seed in range(3):
        with DuckDBEngine(known, made_tables(seed)) as engine:
            found, expected = (engine.fetch(sql, salt=SALT) for sql in (quick, plainly))
        names = [(name, "ascending") for name in expected.column_names]
        assert found.select(expected.column_names).sort_by(names) == expected.sort_by(names)
        assert expected.num_rows > 1 or "GROUP" not in statement


def made_tables(seed: int) -> dict[str, pa.Table]:
    choose = random.Random(seed)

    def column(values: list[Any], size: int, kind: Any) -> Any:
        return pa.array([choose.choice(values) for _ in range(size)], kind)

    people = [None, -5, 2**62, *range(12)]
    return {
        "visits": pa.table({
            "who": column(people, 200, pa.int64()),
            "day": column([None, 0, 1, 4, 9], 200, pa.int64()),
            "x": column([None, -7, 9, 100, *range(-3, 4)], 200, pa.int64()),
        }),
        "people": pa.table({
            "id": column([*people, 20], 40, pa.int64()),
            "k": column([None, "a", "b", "undeclared"], 40, pa.string()),
            "t": column([None, "", "n"], 40, pa.string()),
            "age": column([None, 0, 20, 60, 99], 40, pa.int64()),
        }),
    }  # fmt: skip


def test_joins_on_more_than_the_unit_are_added_up_as_they_are() -> None:
    known = Catalog("d", [VISITS, PEOPLE], neighbors="add or remove one")
    for join in (
        "LEFT JOIN people ON who = id",
        "RIGHT JOIN people ON who = id",
        "FULL JOIN people ON who = id",
        "JOIN people ON who = id AND age > day",
        "JOIN people ON who = id WHERE age > day",
    ):
        terms = Terms(epsilon=1, groups=1, rows=2)
        (release,) = plan([f"SELECT COUNT(*), SUM(x) FROM visits {join}"], known, terms).releases
        assert "n0" not in write(release.aggregate)
