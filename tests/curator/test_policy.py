import re
import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.columns import quoted
from discreet.curator.engines.csv_files import CsvFormat
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.owner.policy_draft import draft_policy
from discreet.curator.policy import explain, parse_policy, read_policy
from discreet.errors import InvalidParameter
from discreet.privacy.budget import Budget
from discreet.privacy.unit import Unit

GOOD = """
[dataset]
name = "hospital"
neighbors = "add or remove one"

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
        "hides whether somebody is in the data at all, at ε 0.1, δ 1e-06 in all",
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
        ('neighbors = "add or remove one"', 'neighbors = "any"', "neighbors"),
        ('neighbors = "add or remove one"', "", "no 'neighbors'"),
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
        with pytest.raises(InvalidParameter, match="4 open decisions") as refusal:
            parse_policy(text)
        assert "dataset.neighbors" in str(refusal.value)


def test_a_draft_of_a_csv_file_leaves_types_open(tmp_path):
    (tmp_path / "t.csv").write_text("näme,age\nZebulon,41.0625\n")
    text = draft_policy(str(tmp_path / "t.csv"))
    assert "Zebulon" not in text
    assert "41.0625" not in text
    with pytest.raises(InvalidParameter, match="6 open decisions"):
        parse_policy(text)


def test_a_decided_draft_is_a_policy(tmp_path):
    (tmp_path / "t.csv").write_text("name,age\n")
    text = draft_policy(str(tmp_path / "t.csv"))
    for answer in ("change one", "1", "all", "row", "text", "integer"):
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
        ("quote.csv", b'a,"b\n'),
        ("wide.csv", "a,b\n".encode("utf-16")),
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


def draft_of(path, content: bytes) -> dict:
    path.write_bytes(content)
    return tomllib.loads(draft_policy(str(path)))["tables"][path.stem]


def test_a_draft_says_how_a_csv_file_is_written(tmp_path):
    found = draft_of(tmp_path / "t.csv", "Größe;Alter\n1,80;41\n".encode("latin-1"))
    assert found["csv"] == {"delimiter": ";", "encoding": "windows-1252"}
    assert list(found["columns"]) == ["Größe", "Alter"]
    found = draft_of(tmp_path / "t.csv", "Größe,Alter\n".encode())
    assert "csv" not in found
    assert list(found["columns"]) == ["Größe", "Alter"]


def test_columns_that_cannot_be_named_are_left_out_and_said_to_be(tmp_path):
    found = draft_of(tmp_path / "t.csv", b",age,Age,region\n0,1,2,3\n")
    assert list(found["columns"]) == ["region"]
    text = draft_policy(str(tmp_path / "t.csv"))
    assert "# left out: column 1 has no name\n" in text
    assert '# left out: "age", the name of 2 columns (in any case)\n' in text


def test_columns_of_odd_types_are_left_out_and_said_to_be(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute("CREATE TABLE t(a INTEGER, b INTEGER[], c DECIMAL(5,2)[], d DECIMAL(5,2))")
    text = draft_policy(f"{tmp_path}/x.duckdb#t")
    assert list(tomllib.loads(text)["tables"]["t"]["columns"]) == ["a", "d"]
    assert '# left out: "b" of type INTEGER[]\n' in text
    assert '# left out: "c" of type DECIMAL(5,2)[]\n' in text


def test_a_draft_of_several_files(tmp_path):
    for place in ("a/visits.csv", "b/Visits.csv", "people.csv"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).write_text("id,age\n1,41.0625\n")
    text = draft_policy(*(str(tmp_path / place) for place in ("a/visits.csv", "b/Visits.csv", "people.csv")))
    assert list(tomllib.loads(text)["tables"]) == ["visits", "Visits_2", "people"]
    assert "41.0625" not in text
    with pytest.raises(InvalidParameter, match="13 open decisions"):
        parse_policy(text)
    with pytest.raises(InvalidParameter, match="at least one file"):
        draft_policy()


def test_a_wide_draft_takes_a_line_a_column_and_names_ten_decisions(tmp_path):
    names = [f"c{place}" for place in range(300)]
    (tmp_path / "wide.csv").write_text(",".join(names) + "\n")
    text = draft_policy(str(tmp_path / "wide.csv"))
    assert len(text.splitlines()) < 300 + 30
    with pytest.raises(InvalidParameter, match="304 open decisions") as refusal:
        parse_policy(text)
    said = str(refusal.value)
    assert "tables.wide.columns.c5.type, … and 294 more" in said
    assert "c7" not in said


@pytest.mark.parametrize("name", ["it's", 'a "b"', "a#b", "a = {", "ä", "a\x7fb", "]", "a\u2028b", "a.b", "-"])
def test_odd_names_of_columns_survive_a_draft(tmp_path, name):
    path = tmp_path / "t.csv"
    quoted = '"' + name.replace('"', '""') + '"'
    path.write_text(f"{quoted},age\n")
    assert list(tomllib.loads(draft_policy(str(path)))["tables"]["t"]["columns"]) == [name, "age"]


# --- how CSV files are written -----------------------------------------------------------------------------

CSV = """
[dataset]
name = "data"
neighbors = "change one"
[budget]
everyone = "all"
epsilon = 1
[tables.Visits]
source = "visits.CSV"
unit = "row"
columns.age = {type = "integer"}
"""


def test_how_a_csv_file_is_written_is_part_of_the_policy():
    stated = '[tables.Visits.csv]\ndelimiter = ";"\nencoding = "latin-1"\ndecimal = ","\ndate_format = "%d.%m.%Y"\n'
    wanted = CsvFormat(delimiter=";", encoding="latin-1", decimal=",", date_format="%d.%m.%Y")
    assert parse_policy(CSV + stated).formats == {"Visits": wanted}
    assert parse_policy(CSV).formats == {"Visits": CsvFormat()}
    assert parse_policy(CSV.replace(".CSV", ".parquet")).formats == {}


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (
            'quote = "\'"',
            r"\[tables.Visits.csv\]: got .an unknown 'quote'.*fields delimiter, encoding, decimal, date_format",
        ),
        ('delimiter = ""', r"\[tables.Visits.csv\] delimiter: got ''"),
        ('encoding = "utf-16"', r"\[tables.Visits.csv\] encoding: got 'utf-16'.*save the file as UTF-8"),
        ("decimal = 1", r"\[tables.Visits.csv\] decimal: got 1"),
        ('date_format = "%Q"', r"\[tables.Visits.csv\] date_format: got '%Q'.*such as '%d.%m.%Y'"),
        ('delimiter = "?"', "1 open decisions.*tables.Visits.csv.delimiter"),
    ],
)
def test_a_format_that_is_not_understood_is_refused_with_its_place(stated, message):
    with pytest.raises(InvalidParameter, match=message):
        parse_policy(f"{CSV}[tables.Visits.csv]\n{stated}\n")


def test_only_a_csv_file_is_written_as_csv():
    with pytest.raises(InvalidParameter, match=r"\[tables.Visits\] csv: got .*visits.parquet.*ends in .csv"):
        parse_policy(CSV.replace(".CSV", ".parquet") + '[tables.Visits.csv]\ndelimiter = ";"\n')


def test_what_is_read_of_a_csv_file_is_explained():
    text = explain(parse_policy(CSV + '[tables.Visits.csv]\ndelimiter = ";"\n'))
    assert (
        "  Read as CSV in utf-8, fields separated by ';', decimals with '.', dates as 2020-12-31: each line is" in text
    )
    assert "is a record of nulls." in text


def decided(text: str) -> str:
    """A draft with every decision taken: rows are units, and columns text."""
    for decision in ('neighbors = "change one"', 'epsilon = "1"', 'everyone = "all"', 'unit = "row"'):
        key = decision.partition(" ")[0]
        text = text.replace(f'\n{key} = "?"', f"\n{decision}")
    return text.replace('type = "?"', 'type = "text"')


def values_read(policy, path) -> dict[str, object]:
    """The only row of a CSV file, as `ask` would read it."""
    (table,) = policy.catalog.tables.values()
    with DuckDBEngine(policy.catalog, {table.name: str(path)}, formats=policy.formats) as engine:
        listed = ", ".join(quoted(column.name) for column in table.columns)
        return engine.fetch(f"SELECT {listed} FROM {quoted(table.name)}").to_pylist()[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "windows-1252"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_what_init_recognizes_is_what_ask_reads(tmp_path, delimiter, encoding):
    path = tmp_path / "t.csv"
    lines = [["Größe", "first name", "Stadt"], ["1,80" if delimiter != "," else "1.80", "Zoë", "Köln"]]
    path.write_bytes("".join(delimiter.join(line) + "\r\n" for line in lines).encode(encoding))
    policy = parse_policy(decided(draft_policy(str(path))))
    assert values_read(policy, path) == dict(zip(*lines, strict=True))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("abAé \x7f", max_size=4), min_size=1, max_size=4),
    st.sampled_from(",;|\t"),
    st.sampled_from(["utf-8", "cp1252"]),
    st.binary(max_size=3).filter(lambda noise: not set(noise) & set(b',;|\t"')),
)
def test_ask_reads_a_file_as_init_does_or_not_at_all(tmp_path_factory, names, delimiter, encoding, noise):
    """Whatever the names are: the drafted columns are those that open, and of a refused header none does."""
    path = tmp_path_factory.mktemp("any") / "t.csv"
    path.write_bytes(delimiter.join(names).encode(encoding) + noise + b"\n")
    try:
        policy = parse_policy(decided(draft_policy(str(path))))
    except InvalidParameter:
        for name in {part.strip(' "') for part in re.split("[,;|\t\n]", path.read_bytes().decode("latin-1"))}:
            if name.isprintable() and name:
                catalog = Catalog("c", [Table("t", [Column(name, "text")], unit=Unit())], neighbors="change one")
                with pytest.raises(InvalidParameter), DuckDBEngine(catalog, {"t": str(path)}):
                    pass
        return
    with DuckDBEngine(policy.catalog, {"t": str(path)}, formats=policy.formats) as engine:
        assert engine.fetch("SELECT count(*) AS n FROM t").to_pylist() == [{"n": path.read_bytes().count(b"\n") - 1}]


def test_who_may_spend_is_said_in_words():
    named = parse_policy(GOOD)
    assert "Analysts who are not named are refused." in explain(named)
    nobody = replace(named, caps={})
    assert "Nobody is capped (everyone = 'all'): any name may spend all of it." in explain(nobody)
    everyone = replace(named, everyone=Budget(epsilon="0.01"), share_answers=True, witness=())
    for words in ("Each analyst who is not named may spend at most ε 0.01", "is free for all others", "no witness"):
        assert words in explain(everyone)


def test_names_of_caps_are_folded_and_must_differ():
    assert list(parse_policy(GOOD.replace("analysts.alice", 'analysts." ALICE"')).caps) == ["alice"]
    with pytest.raises(InvalidParameter, match="one cap for 'alice'"):
        parse_policy(GOOD.replace("analysts.alice", 'analysts.Alice = {epsilon = "1"}\nanalysts.alice'))


@pytest.mark.parametrize("line", ['id = ""', "id = 3", 'share_answers = "yes"', "ledger = 3", 'unknown = "x"'])
def test_settings_of_the_dataset_that_are_not_understood(line):
    with pytest.raises(InvalidParameter, match=r"\[dataset\]"):
        parse_policy(GOOD.replace("[dataset]", f"[dataset]\n{line}"))
