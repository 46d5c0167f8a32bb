import tomllib

import pytest

from discreet.curator.draft import draft_policy
from discreet.curator.policy import explain, parse_policy, read_policy
from discreet.errors import InvalidParameter

GOOD = """
[dataset]
name = "hospital"
neighbours = "add or remove one"

[budget]
epsilon = 0.1
delta = 1e-6
analysts.alice = {epsilon = "0.05"}

[tables.visits]
source = "visits.parquet"
unit = "patient_id"

[tables.visits.columns]
patient_id = {type = "integer", nullable = false}
age = {type = "integer", lower = 0, upper = 120}
cost = {type = "real", lower = 0, upper = 5000, granularity = 0.01}
region = {type = "text", values = ["north", "söuth"]}

[tables.regions]
source = "regions.csv"
unit = "public"
columns.name = {type = "text"}
"""


def test_a_policy_is_read_exactly():
    policy = parse_policy(GOOD)
    visits = policy.catalog.table("visits")
    assert str(policy.budget.epsilon) == "1/10"
    assert str(policy.budget.delta) == "1/1000000"
    assert str(policy.caps["alice"].epsilon) == "1/20"
    assert str(visits.unit) == "one person, by patient_id"
    assert str(visits.column("cost").granularity) == "1/100"
    assert visits.column("region").values == ("north", "söuth")
    assert not policy.catalog.table("regions").private
    assert policy.sources["visits"] == "visits.parquet"


def test_it_is_explained_in_words():
    text = explain(parse_policy(GOOD))
    for said in (
        "hides whether one of them is in the data at all, at ε 0.1, δ 1e-06 in all",
        "alice may spend at most ε 0.05",
        "visits (visits.parquet): private; protects one person, by patient_id",
        "age: integer from 0 to 120 (can be summed and averaged)",
        "2 declared values",
        "regions (regions.csv): public",
    ):
        assert said in text


def test_byte_order_marks_and_missing_files(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("\ufeff" + GOOD, encoding="utf-8")
    assert read_policy(path).catalog.name == "hospital"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidParameter, match="UTF-8"):
        read_policy(path)
    with pytest.raises(InvalidParameter, match="can be read"):
        read_policy(tmp_path)
    with pytest.raises(InvalidParameter, match="No such file"):
        read_policy(tmp_path / "missing.toml")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 0.1", "", "no 'epsilon'"),
        ("epsilon = 0.1", "epsilon = nan", "epsilon"),
        ("epsilon = 0.1", "epsilon = -1", "epsilon"),
        ("epsilon = 0.1", "epsilon = true", "epsilon"),
        ("epsilon = 0.1", 'epsilon = "?"', "budget.epsilon"),
        ("delta = 1e-6", "delta = 1", "delta"),
        ("delta = 1e-6", "delta = 1e-6\nextra = 1", "unknown 'extra'"),
        ('neighbours = "add or remove one"', 'neighbours = "any"', "neighbours"),
        ('neighbours = "add or remove one"', "", "no 'neighbours'"),
        ('unit = "patient_id"', 'unit = "person"', "person"),
        ('unit = "patient_id"', "unit = 3", "identifies a person"),
        ('unit = "patient_id"', "", "no 'unit'"),
        ('source = "visits.parquet"', "source = 3", "source"),
        ("upper = 120", "upper = 120, maximum = 3", "unknown 'maximum'"),
        ('type = "integer", lower', 'type = "int", lower', "type"),
        ("[dataset]", "[dataset", "TOML"),
        ('analysts.alice = {epsilon = "0.05"}', "analysts = 3", "analysts"),
        (
            "[tables.regions]",
            "[tables.VISITS]\nsource='x'\nunit='row'\ncolumns.a={type='text'}\n[tables.regions]",
            "names",
        ),
    ],
)
def test_bad_policies_are_refused_with_the_place(old, new, said):
    assert old in GOOD
    with pytest.raises(InvalidParameter) as refusal:
        parse_policy(GOOD.replace(old, new, 1))
    assert said in str(refusal.value)


def test_a_draft_holds_names_and_types_and_no_value(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "people's data.parquet"
    with duckdb.connect() as connection:
        connection.execute('CREATE TABLE t(id BIGINT, pay DOUBLE, "first name" VARCHAR, born DATE, ok BOOLEAN)')
        connection.execute("INSERT INTO t VALUES (987654321, 1234.5, 'Zebulon', DATE '1987-06-05', true)")
        connection.table("t").write_parquet(str(path))
        connection.execute(f"ATTACH '{tmp_path}/x.duckdb' AS x; CREATE TABLE x.t AS FROM t")
    for source in (str(path), f"{tmp_path}/x.duckdb#t"):
        text = draft_policy(source)
        for value in ("987654321", "1234.5", "Zebulon", "1987"):
            assert value not in text
        columns = next(iter(tomllib.loads(text)["tables"].values()))["columns"]
        assert {name: spec["type"] for name, spec in columns.items()} == {
            "id": "integer", "pay": "real", "first name": "text", "born": "date", "ok": "boolean",
        }  # fmt: skip
        with pytest.raises(InvalidParameter, match="3 open decisions") as refusal:
            parse_policy(text)
        assert "dataset.neighbours" in str(refusal.value)


def test_a_draft_of_a_csv_file_leaves_types_open(tmp_path):
    (tmp_path / "t.csv").write_text("näme,age\nZebulon,41.0625\n")
    text = draft_policy(str(tmp_path / "t.csv"))
    assert "Zebulon" not in text
    assert "41.0625" not in text
    with pytest.raises(InvalidParameter, match="5 open decisions"):
        parse_policy(text)


def test_a_decided_draft_is_a_policy(tmp_path):
    (tmp_path / "t.csv").write_text("name,age\n")
    text = draft_policy(str(tmp_path / "t.csv"))
    for answer in ("change one", "1", "row", "text", "integer"):
        text = (
            text.replace('"?"', f'"{answer}"', 1) if '= "?"' not in text else text.replace('= "?"', f'= "{answer}"', 1)
        )
    policy = parse_policy(text)
    assert [column.kind for column in policy.catalog.table("t").columns] == ["text", "integer"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("empty.csv", b""),
        ("twice.csv", b"a,a\n"),
        ("bad.csv", b"\xff\xfe"),
        ("not.parquet", b"nothing"),
        ("gap.csv", b"a,,b\n"),
    ],
)
def test_bad_files_are_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InvalidParameter, match="source"):
        draft_policy(str(tmp_path / name))


def test_missing_files_tables_and_odd_types_are_refused(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with pytest.raises(InvalidParameter, match="a file that exists"):
        draft_policy(str(tmp_path / "missing.parquet"))
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t(a INTEGER[])")
    with pytest.raises(InvalidParameter, match="simple types"):
        draft_policy(f"{tmp_path}/x.duckdb#t")
    with pytest.raises(InvalidParameter, match="source"):
        draft_policy(f"{tmp_path}/x.duckdb#u")
