"""Groups that are sums of others are released once, answered consistently, and are as exact as they were asked to be."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import pyarrow as pa
import pytest

import discreet
from discreet.errors import InvalidQuery
from discreet.mechanisms.additive import Geometric
from discreet.requests import Question

POLICY = """
dataset = {name = "sums", neighbors = "add or remove one", time_floor = 0, witness = "none"}
budget = {epsilon = "1e12", delta = "0.1", everyone = "all"}
[tables.people]
source = "python"
unit = "pid"
max_groups_per_unit = 1
max_rows_per_group = 1
columns.pid = {type = "integer"}
columns.sex = {type = "boolean", nullable = false}
columns.region = {type = "integer", lower = 0, upper = 2, nullable = false}
columns.age = {type = "integer", lower = 0, upper = 100, nullable = false}
[tables.visits]
source = "python"
unit = "pid"
max_groups_per_unit = 2
max_rows_per_group = 1
columns.pid = {type = "integer"}
columns.sex = {type = "boolean", nullable = false}
columns.region = {type = "integer", lower = 0, upper = 2, nullable = false}
columns.note = {type = "text"}
[tables.towns]
source = "python"
unit = "row"
columns.region = {type = "integer", lower = 0, upper = 1, nullable = false}
columns.city = {type = "text", values = ["x", "y"]}
"""
SEX = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"
REGION = "SELECT region, COUNT(*) AS n, AVG(age) AS a FROM people GROUP BY region"
BOTH = "SELECT region, sex, COUNT(*) AS n, SUM(age) AS s, AVG(age) AS a FROM people GROUP BY region, sex"
TOTAL = "SELECT COUNT(*) AS n FROM people"
CUBE = "SELECT sex, region, GROUPING(sex, region) AS g, COUNT(*) AS n FROM people GROUP BY CUBE (sex, region)"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> discreet.Dataset:
    path = tmp_path_factory.mktemp("sums") / "sums.toml"
    path.write_text(POLICY, "utf-8")
    size = 600
    columns: dict[str, Any] = {
        "pid": list(range(size)),
        "sex": [i % 2 == 0 for i in range(size)],
        "region": [i % 5 % 3 for i in range(size)],
    }
    tables = {
        "people": pa.table(columns | {"age": [i * 7 % 101 for i in range(size)]}),
        "visits": pa.table(columns | {"note": [f"t{i % 3}" for i in range(size)]}),
        "towns": pa.table({"region": [0, 0, 0, 1], "city": ["x", "elsewhere", None, "y"]}),
    }
    return discreet.open(path, analyst="ann", tables=tables)


def releases(data: discreet.Dataset, statements: Sequence[str], **terms: Any) -> int:
    return len(data.plan(Question(statements, **{"epsilon": 1, **terms})).releases)


def test_groups_of_fewer_keys_are_released_once(data: discreet.Dataset) -> None:
    plan = data.plan(Question([SEX, REGION, BOTH, CUBE], epsilon=1))
    assert plan.verify(data.catalog) == plan.loss
    (release,) = plan.releases
    noises = [noise for noise in release.noises if isinstance(noise, Geometric)]
    assert sum(noise.epsilon for noise in noises) == 1
    alone = data.plan(Question(BOTH, epsilon=1)).releases[0].noises
    assert [noise.scale for noise in noises] == [noise.scale for noise in alone]  # what is added up costs nothing


@pytest.mark.parametrize("epsilon", [1, "1e9"])
def test_parts_and_totals_fit(data: discreet.Dataset, epsilon: Any) -> None:
    sexes, regions, both, cube = (
        answer.table.to_pylist() for answer in data.batch([SEX, REGION, BOTH, CUBE], epsilon=epsilon)
    )
    for row in sexes:
        assert row["n"] == sum(part["n"] for part in both if part["sex"] == row["sex"])
    for row in regions:
        assert row["n"] == sum(part["n"] for part in both if part["region"] == row["region"])
    assert {(row["sex"], row["region"]): row["n"] for row in cube if row["g"] == 0} == {
        (row["sex"], row["region"]): row["n"] for row in both
    }
    assert {row["sex"]: row["n"] for row in cube if row["g"] == 1} == {row["sex"]: row["n"] for row in sexes}
    assert {row["region"]: row["n"] for row in cube if row["g"] == 2} == {row["region"]: row["n"] for row in regions}


def test_without_noise_the_sums_are_what_they_would_be_alone(data: discreet.Dataset) -> None:
    statements = [SEX, REGION, BOTH, TOTAL, CUBE]
    together = data.batch(statements, epsilon="1e9")
    for statement, answer in zip(statements, together, strict=True):
        key = lambda row: str([row.get(name) for name in ("sex", "region", "g")])  # noqa: E731
        alone = sorted(data.ask(statement, epsilon="1e9").table.to_pylist(), key=key)
        for one, other in zip(sorted(answer.table.to_pylist(), key=key), alone, strict=True):
            assert one == {name: pytest.approx(v, rel=1e-6) if isinstance(v, float) else v for name, v in other.items()}


@pytest.mark.parametrize(
    ("statements", "count"),
    [
        ([SEX, BOTH], 2),  # √3 · 2 > 3: BOTH has two measures, a count and a sum
        ([TOTAL, SEX], 1),  # √2 · 1 ≤ 2
        ([SEX, REGION, BOTH, TOTAL], 1),  # √6 · 2 ≤ 6
        ([SEX, REGION, BOTH.replace("SUM(age) AS s, AVG", "VAR_POP"), TOTAL], 4),  # no AVG there to add up
        ([SEX, SEX.replace("FROM people", "FROM people WHERE age > 9")], 2),  # other rows
        ([SEX, TOTAL.replace("COUNT(*)", "COUNT(DISTINCT pid)")], 2),  # people are not added up
        ([SEX, TOTAL.replace("COUNT(*)", "MEDIAN(age)")], 2),
        ([SEX, TOTAL.replace("COUNT(*)", "SUM(age)")], 2),  # nobody asked for it by groups
        ([SEX.replace("people", "visits"), TOTAL.replace("people", "visits")], 2),  # a person may lose other groups
        (["SELECT note, COUNT(*) AS n FROM visits GROUP BY note", TOTAL.replace("people", "visits")], 2),
    ],
)
def test_only_where_no_number_is_less_exact(data: discreet.Dataset, statements: list[str], count: int) -> None:
    assert releases(data, statements, delta="1e-6" if "note" in statements[0] else None) == count


def test_gaussian_noise_gains_less(data: discreet.Dataset) -> None:
    assert releases(data, [SEX, TOTAL]) == 1
    assert releases(data, [SEX, TOTAL], delta="1e-6") == 1  # 2 · 1 ≤ 2
    assert releases(data, [REGION.replace(", AVG(age) AS a", ""), TOTAL]) == 1  # 3 · 1² ≤ 2²
    assert releases(data, [REGION.replace(", AVG(age) AS a", ""), TOTAL], delta="1e-6") == 2


def test_intervals_are_those_of_sums(data: discreet.Dataset) -> None:
    sexes, both = data.batch([SEX, BOTH.replace(", SUM(age) AS s, AVG(age) AS a", "")], epsilon="0.01")
    ((_, high), (_, highs)) = (answer.intervals["n"] for answer in (sexes, both))
    wide, narrow = (high[0].as_py() - sexes.column("n")[0], highs[0].as_py() - both.column("n")[0])
    assert sqrt(3) * narrow * 0.8 < wide < 3 * narrow


@pytest.mark.parametrize("error", [4, 40])
def test_totals_are_within_the_error(data: discreet.Dataset, error: int) -> None:
    answer = data.ask("SELECT sex, region, COUNT(*) AS n FROM people GROUP BY ROLLUP (sex, region)", error=error)
    numbers, (_, highs) = answer.column("n"), answer.intervals["n"]
    widths = [high.as_py() - n for high, n in zip(highs, numbers, strict=True) if n > error]
    assert error / 1.1 - 1 < max(widths) <= error


def test_totals_are_within_the_error_in_two_steps(data: discreet.Dataset) -> None:
    sql = "SELECT sex, region, COUNT(*) AS n, AVG(age) AS m FROM people GROUP BY ROLLUP (sex, region)"
    answer = data.ask(sql, error=3, epsilon=60)
    for name in ("n", "m"):
        for value, low, high in zip(answer.column(name), *answer.intervals[name], strict=True):
            assert max(value - low.as_py(), high.as_py() - value) <= 3


def test_the_error_of_totals_of_groups_from_the_data_is_refused(data: discreet.Dataset) -> None:
    sql = "SELECT note, COUNT(*) AS n FROM visits GROUP BY ROLLUP (note)"
    with pytest.raises(InvalidQuery, match="depends on how many they are"):
        data.explain(sql, error=50, delta="1e-6")


def test_rows_that_are_in_no_finer_group_count(data: discreet.Dataset) -> None:
    """A value that is not declared is in no group by it, but in the groups by other keys, beside whatever is asked."""
    statements = ["SELECT region, COUNT(*) AS n FROM towns GROUP BY region"]
    statements += ["SELECT region, city, COUNT(*) AS n FROM towns GROUP BY region, city"]
    coarse, fine = (answer.table.column("n").to_pylist() for answer in data.batch(statements, epsilon="1e9"))
    assert (sorted(coarse), sum(fine)) == ([1, 3], 3)
