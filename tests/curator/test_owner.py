"""What the owner alone is told: whether the policy fits the files, and, exactly, what its bounds do to the rows."""

import ast
import json
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import discreet
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.owner.exact_view import check_schema, exact_view
from discreet.curator.owner.findings import WARNING
from discreet.curator.policy import read_policy

POLICY = """
[dataset]
name = "clinic"
neighbors = "add or remove one"
[budget]
everyone = "all"
epsilon = 1
[tables.visits]
source = "{source}"
unit = "pid"
{bounds}
[tables.visits.columns]
pid = {{type = "integer"}}
age = {{type = "integer", lower = 0, upper = 100}}
cost = {{type = "real", lower = 0, upper = 10, granularity = "0.5"}}
region = {{type = "text", values = ["north", "south", "west"], nullable = false}}
day = {{type = "date"}}
"""
BOUNDS = "max_groups_per_unit = 1\nmax_rows_per_group = 2"
ROWS = [  # pid, age, cost, region, day
    (1, 30, 1.0, "north", "2026-01-01"),
    (1, 31, 2.0, "north", "2026-01-02"),
    (1, 32, 3.0, "north", "2026-01-03"),
    (1, 33, -1.0, "south", "2026-01-04"),
    (2, -5, 11.0, "north", "2026-01-01"),
    (2, 130, 12.0, "noth", "2026-01-01"),
    (3, 100, float("nan"), None, "2026-01-01"),
    (None, 50, 5.0, "south", None),
]
NAMES = ["pid", "age", "cost", "region", "day"]


@pytest.fixture(params=["csv", "parquet", "duckdb"])
def policy(request, tmp_path):
    """The same rows in three forms."""
    kinds = ["BIGINT", "BIGINT", "DOUBLE", "VARCHAR", "DATE"]
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE t({', '.join(map(' '.join, zip(NAMES, kinds, strict=True)))})")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ROWS)
        if request.param == "duckdb":
            connection.execute(f"ATTACH '{tmp_path}/v.duckdb' AS v; CREATE TABLE v.visits AS FROM t")
        else:
            connection.execute(f"COPY t TO '{tmp_path}/v.{request.param}'")
    source = "v.duckdb#visits" if request.param == "duckdb" else f"v.{request.param}"
    return written(tmp_path, source)


def written(folder, source, bounds=BOUNDS, **changes):
    text = POLICY.format(source=source, bounds=bounds)
    for old, new in changes.items():
        assert f"{old} = " in text
        text = text.replace(f"\n{old} = ", f"\n{new} = ", 1)
    (folder / "policy.toml").write_text(text)
    return read_policy(folder / "policy.toml")


def column(view, name):
    return next(found for found in view.tables[0].columns if found.name == name)


# --- plain: schemas only -----------------------------------------------------------------------------------


def test_a_policy_that_fits_has_no_finding(policy):
    assert check_schema(policy) == ()


def test_no_row_is_read(policy, monkeypatch):
    def read(*_):
        raise AssertionError("rows were read")

    monkeypatch.setattr(DuckDBEngine, "fetch", read)
    assert check_schema(policy) == ()
    with pytest.raises(AssertionError, match="rows were read"):
        exact_view(policy)


def test_a_missing_file_is_an_error(tmp_path):
    for source in ("gone.csv", "gone.parquet", "gone.duckdb#visits"):
        (found,) = check_schema(written(tmp_path, source))
        assert (found.level, found.table, found.column) == ("error", "visits", None)
        assert "gone" in found.problem
        assert "No such file" in found.problem or "no such file" in found.problem


def test_every_missing_column_is_told_at_once(tmp_path):
    (tmp_path / "v.csv").write_text("patient,age,costs,region,day\n")
    found = check_schema(written(tmp_path, "v.csv"))
    assert [(one.level, one.column) for one in found] == [("error", "pid"), ("error", "cost")]
    assert "the source has: patient, age, costs" in found[0].problem
    assert "the unit" in found[0].problem


def test_types_of_the_schema_are_compared(tmp_path):
    table = pa.table({"pid": [1], "age": ["thirty"], "cost": [1.0], "region": [3], "day": ["2026-01-01"]})
    pq.write_table(table, tmp_path / "v.parquet")
    found = check_schema(written(tmp_path, "v.parquet"))
    assert [one.column for one in found] == ["age", "region", "day"]
    assert "expected one that fits integer" in found[0].problem


def test_missing_bounds_are_a_warning(tmp_path):
    (tmp_path / "v.csv").write_text(",".join(NAMES) + "\n")
    found = check_schema(written(tmp_path, "v.csv", bounds=""))
    assert [one.level for one in found] == ["warning"]
    assert "max_groups_per_unit and max_rows_per_group" in found[0].problem
    assert "every question must state" in found[0].problem


def test_a_table_of_python_is_not_checked_and_said_to_be(tmp_path):
    (found,) = check_schema(written(tmp_path, "python"))
    assert found.level == "warning"
    assert "python" in found.problem


# --- --data: exact -----------------------------------------------------------------------------------------


def test_columns_are_counted_exactly(policy):
    view = exact_view(policy)
    assert view.findings == () or all(one.level == "warning" for one in view.findings)
    table = view.tables[0]
    assert (table.rows, table.without_unit, table.units) == (8, 1, 3)
    age, cost, region, day = (column(view, name) for name in NAMES[1:])
    assert (age.null, age.below, age.above) == (0, 1, 1)
    assert (age.least, age.greatest) == (-5, 130)
    assert (cost.null, cost.not_a_number, cost.below, cost.above) == (0, 1, 1, 2)
    assert (region.null, region.undeclared, region.examples, region.absent) == (1, 1, (("noth", 1),), ("west",))
    assert (day.null, day.unreadable) == (1, 0)


def test_what_bounds_leave_out_is_sized(policy):
    (table,) = exact_view(policy).tables
    rows = next(found for found in table.contributions if found.by is None)
    assert (rows.rows.median, rows.rows.greatest) == (2, 4)
    assert rows.share(groups=1, rows=2) == pytest.approx(2 / 7)  # of 4, 2 and 1 rows, 2, 2 and 1 count
    region = next(found for found in table.contributions if found.by == "region")
    # cells: person 1 has 3 rows north, 1 south; person 2 has 1 north; "noth" and null are in no group
    assert region.groups.greatest == 2
    assert region.share(groups=1, rows=2) == pytest.approx(1 - ((2 + 1) / 2 + 1) / 5)
    assert region.share(groups=2, rows=2) == pytest.approx(1 - (2 + 1 + 1) / 5)
    day = next(found for found in table.contributions if found.by == "day")
    assert day.groups.greatest == 4
    assert day.share(groups=1, rows=2) == pytest.approx(1 - (1 + 2 + 1) / 7)


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_shares_are_the_mean_over_every_fair_choice(tmp_path, groups, rows):
    """Compared with listing every choice of groups that a person could be left with."""
    from itertools import combinations

    cells = {1: {"north": 4, "south": 1, "west": 2}, 2: {"north": 1}, 3: {"south": 7, "west": 1}}
    lines = [(pid, region) for pid, owned in cells.items() for region, n in owned.items() for _ in range(n)]
    (tmp_path / "v.csv").write_text(
        "\n".join([",".join(NAMES), *(f"{pid},30,1.0,{region},2026-01-01" for pid, region in lines)]) + "\n"
    )
    (table,) = exact_view(
        written(tmp_path, "v.csv", bounds=f"max_groups_per_unit = {groups}\nmax_rows_per_group = {rows}")
    ).tables
    kept = 0.0
    for owned in cells.values():
        choices = list(combinations(owned.values(), min(groups, len(owned))))
        kept += sum(sum(min(n, rows) for n in choice) for choice in choices) / len(choices)
    region = next(found for found in table.contributions if found.by == "region")
    assert region.share(groups=groups, rows=rows) == pytest.approx(1 - kept / len(lines))


def test_a_text_column_declared_integer_is_an_error_in_csv_too(tmp_path):
    (tmp_path / "v.csv").write_text(",".join(NAMES) + "\n1,thirty,1.0,north,2026-01-01\n2,31,x,north,tomorrow\n")
    policy = written(tmp_path, "v.csv")
    assert check_schema(policy) == ()
    view = exact_view(policy)
    assert (column(view, "age").unreadable, column(view, "cost").unreadable) == (1, 1)
    assert {(one.level, one.column) for one in view.findings} == {("error", "age"), ("error", "cost"), ("error", "day")}
    assert "1 of 2 values" in next(one.problem for one in view.findings if one.column == "age")


def test_whole_numbers_beyond_64_bits_are_unreadable(tmp_path):
    table = pa.table({
        "pid": [1, 2, 3], "age": pa.array([2**63, 30, None], pa.uint64()), "cost": [1.0] * 3,
        "region": ["north"] * 3, "day": pa.array([0, 0, 0], pa.date32()),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "v.parquet")
    found = column(exact_view(written(tmp_path, "v.parquet")), "age")
    assert (found.null, found.unreadable) == (1, 1)


def test_the_rest_is_viewed_where_a_column_is_missing(tmp_path):
    (tmp_path / "v.csv").write_text("age,cost,region,day\n30,1,north,2026-01-01\n")
    view = exact_view(written(tmp_path, "v.csv"))
    assert [one.column for one in view.findings] == ["pid"]
    assert view.tables[0].rows == 1
    assert view.tables[0].units is None
    assert column(view, "age").least == 30


def test_an_empty_table(tmp_path):
    (tmp_path / "v.csv").write_text(",".join(NAMES) + "\n")
    view = exact_view(written(tmp_path, "v.csv"))
    assert (view.tables[0].rows, view.tables[0].units) == (0, 0)
    assert "0 rows" in str(view)


def test_nobody_is_named_by_rows_without_a_unit(tmp_path):
    (tmp_path / "v.csv").write_text(",".join(NAMES) + "\n,30,1.0,north,2026-01-01\n")
    view = exact_view(written(tmp_path, "v.csv"))
    assert [(one.level, one.column) for one in view.findings] == [("error", "pid")]
    assert "no row says whose it is" in view.findings[0].problem


def test_everything_exact_stands_under_the_warning(policy):
    view = exact_view(policy)
    assert "OWNER'S EYES ONLY" in WARNING
    assert "not differentially private" in WARNING
    assert str(view).startswith(WARNING)
    told = json.loads(json.dumps(view.to_json()))
    assert next(iter(told)) == "warning"
    assert told["warning"].split() == WARNING.split()
    assert told["tables"]["visits"]["columns"]["age"]["above"] == 1


def test_suggestions_are_marked_as_read_off_the_data(tmp_path):
    (tmp_path / "v.csv").write_text(
        ",".join(NAMES) + "\n" + "".join(f"{i // 4},{i},1.0,north,2026-01-01\n" for i in range(400))
    )
    text = (tmp_path / "policy.toml", POLICY.format(source="v.csv", bounds=""))
    text[0].write_text(
        text[1].replace(", lower = 0, upper = 100", "").replace(', values = ["north", "south", "west"]', "")
    )
    view = exact_view(read_policy(text[0]))
    said = str(view)
    assert "read off the data: deciding by them spends privacy without accounting; prefer public knowledge" in said
    assert "age: lower = 0, upper = 400" in said
    assert 'region: values = ["north"]' in said
    assert "max_groups_per_unit = 1, max_rows_per_group = 5" in said
    assert not any("pid" in line for line in view.suggestions)
    assert exact_view(written(tmp_path, "v.csv")).suggestions == ()


@pytest.mark.parametrize(("groups", "rows"), [(1, 1), (3, 1), (10, 2), (5, 20)])
def test_suggested_bounds_leave_nobody_out(tmp_path, groups, rows):
    """People who are in so many groups with so many rows in each: these bounds, and no more, are needed."""
    cells = [(pid, day) for pid in range(3) for day in range(1, groups + 1) for _ in range(rows)]
    lines = "".join(f"{pid},30,1.0,north,2026-01-{day:02}\n" for pid, day in cells)
    (tmp_path / "v.csv").write_text(",".join(NAMES) + "\n" + lines)
    view = exact_view(written(tmp_path, "v.csv", bounds=f"max_rows_per_group = {rows}"))
    assert view.suggestions == (f"visits: max_groups_per_unit = {groups}, max_rows_per_group = {rows}",)


def test_the_words_size_what_is_left_out(policy):
    said = str(exact_view(policy))
    assert "8 rows of 3 units; 1 row without a unit; 0 blank rows" in said
    assert "left out of COUNT(*): 28.6 % with the policy's rows = 2; 57.1 % with rows = 1" in said
    assert "left out of COUNT(*): 50 % with the policy's groups = 1, rows = 2; 20 % with groups = 2" in said
    assert "region: not declared: 'noth' (1)" in said
    assert "region: declared, but in no row: 'west'" in said


def test_rows_are_streamed_by_the_engine(policy, monkeypatch):
    """However many rows there are, what comes back is a handful."""
    sizes = []
    fetch = DuckDBEngine.fetch

    def counted(self, sql):
        table = fetch(self, sql)
        sizes.append(table.num_rows)
        return table

    monkeypatch.setattr(DuckDBEngine, "fetch", counted)
    exact_view(policy)
    assert sizes
    assert max(sizes) <= 5


@pytest.mark.parametrize(
    "names", [["u", "n", "v", "g", "rows"], ["g", "v", "units", "n", "u"], ['a "b"', "total", "w", "v", "count"]]
)
def test_names_of_columns_change_nothing(tmp_path, names):
    """Whatever the owner calls a column, also as the queries call theirs."""

    def viewed(folder, spelled):
        folder.mkdir()
        table = pa.table(
            {name: pa.array(list(column)) for name, column in zip(spelled, zip(*ROWS, strict=True), strict=True)}
        )
        pq.write_table(table.set_column(4, spelled[4], table[4].cast(pa.date32())), folder / "v.parquet")
        text = POLICY.format(source="v.parquet", bounds=BOUNDS).replace('"pid"', json.dumps(spelled[0]))
        for old, new in zip(NAMES, spelled, strict=True):
            text = text.replace(f"\n{old} = {{", f"\n{json.dumps(new)} = {{")
        (folder / "policy.toml").write_text(text)
        (table,) = exact_view(read_policy(folder / "policy.toml")).tables
        columns = [replace(column, name="") for column in table.columns]
        return table.rows, table.units, columns, [(part.groups, part.shortfalls) for part in table.contributions]

    usual, odd = viewed(tmp_path / "usual", NAMES), viewed(tmp_path / "odd", names)
    assert repr(odd) == repr(usual)  # NaN is not itself


def test_engines_are_opened_by_the_gate_and_the_owners_view_alone():
    package = Path(discreet.__file__).parent
    opened = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Engine")
    }
    assert opened == {"curator/curator.py", "curator/owner/exact_view.py"}
