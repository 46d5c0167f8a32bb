"""What is special to the embedded engine: its sources, its locks, and the faults of DuckDB that it works around."""

import math
import os
import warnings
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Unit

N = [Column("n", "integer")]


def catalog(columns: list[Column] = N, *names: str) -> Catalog:
    tables = [Table(name, columns, unit=Unit()) for name in names or ("t",)]
    return Catalog("data", tables, neighbors="change one")


def values(source: Any, base: Path = Path("."), column: Column = N[0]) -> list[Any]:
    with DuckDBEngine(catalog([column]), {"t": source}, base=base) as engine:
        return engine.fetch('SELECT * FROM "t"').column(0).to_pylist()


def write(path: Path, numbers: list[int], name: str = "n", type_: pa.DataType | None = None) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({name: pa.array(numbers, type_)}), path)


# Sources


def test_a_folder_and_a_pattern_of_parquet_files(tmp_path):
    write(tmp_path / "all" / "a.parquet", [1])
    write(tmp_path / "all" / "year=2020" / "b.parquet", [2])
    assert sorted(values("all", tmp_path)) == [1, 2]
    assert sorted(values("all/**/*.parquet", tmp_path)) == [1, 2]
    assert values("all/?.parquet", tmp_path) == [1]


def test_a_new_file_in_a_folder_is_another_version(tmp_path):
    write(tmp_path / "all" / "a.parquet", [1])
    with DuckDBEngine(catalog(), {"t": "all"}, base=tmp_path) as engine:
        before = engine.version
        write(tmp_path / "all" / "b.parquet", [2])
        assert engine.version != before


def test_a_warning_of_duckdb_that_a_program_turns_into_an_error_does_not_fail_a_charged_question():
    with DuckDBEngine(catalog(), {"t": pa.table({"n": [1, 2]})}) as engine, warnings.catch_warnings():
        warnings.simplefilter("error")
        assert engine.fetch('SELECT sum("n") AS n FROM "t"')["n"].to_pylist() == [3]


def test_a_name_that_looks_like_a_pattern_is_a_name(tmp_path):
    write(tmp_path / "x[1]*.parquet", [1])
    write(tmp_path / "x1.parquet", [2])
    assert values("x[1]*.parquet", tmp_path) == [1]
    (tmp_path / "it's [1].csv").write_text("n\n3\n")
    (tmp_path / "it's 1.csv").write_text("n\n4\n")
    assert values("it's [1].csv", tmp_path) == [3]


def test_a_number_sign_in_the_name_of_a_file(tmp_path):
    write(tmp_path / "a#b.parquet", [1])
    assert values("a#b.parquet", tmp_path) == [1]


def test_paths_are_relative_to_the_base_or_absolute(tmp_path):
    write(tmp_path / "n.parquet", [1])
    assert values(tmp_path / "n.parquet", Path("/nowhere")) == [1]
    assert values(str(tmp_path / "n.parquet"), Path("/nowhere")) == [1]


def test_files_of_different_schemas_are_refused(tmp_path):
    write(tmp_path / "all" / "a.parquet", [1])
    write(tmp_path / "all" / "b.parquet", [2], type_=pa.uint64())
    with pytest.raises(InvalidParameter, match="2 files of different schemas"):
        values("all", tmp_path)
    write(tmp_path / "all" / "b.parquet", [2], name="m")
    with pytest.raises(InvalidParameter, match="no such column"):
        values("all", tmp_path)


@pytest.mark.parametrize("source", ["none.parquet", "none.csv", "none.duckdb#t", "none", "*.parquet", "empty"])
def test_a_missing_source_is_named(source, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidParameter, match="table 't', source: got .*(none|empty|[*])"):
        values(source, tmp_path)


@pytest.mark.parametrize("source", ["text.parquet", "text.duckdb#t", "text"])
def test_a_file_of_another_kind_is_refused(source, tmp_path):
    (tmp_path / source.partition("#")[0]).write_text("n\n1\n" * 1000)
    with pytest.raises(InvalidParameter, match="expected a (Parquet|DuckDB) file"):
        values(source, tmp_path)


def test_two_tables_of_one_database_in_any_schema_but_no_view(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE SCHEMA s; CREATE TABLE a AS SELECT 1 AS n; CREATE TABLE s.b AS SELECT 2 AS n")
        connection.execute("CREATE VIEW v AS SELECT 3 AS n")
    sources = {"t": "d.duckdb#A", "u": "d.duckdb#b"}
    with DuckDBEngine(catalog(N, "t", "u"), sources, base=tmp_path) as engine:
        assert engine.fetch("SELECT t.n, u.n AS m FROM t, u").to_pylist() == [{"n": 1, "m": 2}]
    with pytest.raises(
        InvalidParameter, match="got 'v, a view', expected a table of d.duckdb.*fail on a row; make it a"
    ):
        values("d.duckdb#v", tmp_path)
    for name in ("none", ""):
        with pytest.raises(InvalidParameter, match="expected a table of d.duckdb; name a table in it"):
            values(f"d.duckdb#{name}", tmp_path)


def test_another_table_of_one_database_is_another_version(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE a AS SELECT 1 AS n; CREATE TABLE b AS SELECT 2 AS n")
    versions = set()
    for name in ("a", "b", "A"):
        with DuckDBEngine(catalog(), {"t": f"d.duckdb#{name}"}, base=tmp_path) as engine:
            versions.add(engine.version)
    assert len(versions) == 2


def test_generated_columns_are_refused_but_only_if_declared(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE a(m INTEGER, n INTEGER GENERATED ALWAYS AS (m + (100 * random())::INTEGER))")
        connection.execute("INSERT INTO a VALUES (1)")
    with pytest.raises(InvalidParameter, match="column 'n'.*a generated column.*store its values in a plain column"):
        values("d.duckdb#a", tmp_path)
    assert values("d.duckdb#a", tmp_path, Column("m", "integer")) == [1]


def test_tables_of_python_must_be_given_and_named_and_known():
    with pytest.raises(InvalidParameter, match="table 't': got 'no table'.*give it as tables="):
        values("python")
    with pytest.raises(InvalidParameter, match="table 't'"):
        DuckDBEngine(catalog(), {})
    with pytest.raises(InvalidParameter, match="table: got 'u', expected a table of dataset 'data': t"):
        DuckDBEngine(catalog(), {"t": pa.table({"n": [1]}), "u": pa.table({"n": [1]})})
    for wrong in ({"n": [1]}, [1], None, 3, polars.LazyFrame({"n": [1]}), np.array([1]), b"x.parquet"):
        with pytest.raises(InvalidParameter, match="table 't'.*expected a pyarrow Table"):
            values(wrong)


# CSV


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("n,m\n1,2\n", [1]),
        ("\ufeffn,m\n1,2\n", [1]),
        (' N ,"m"\r\n1,2\r\n\r\n3,4', [1, None, 3]),
        ("n,m\n", []),
        ("n,m", []),
        ("m,n\n1\n2,3,4\n5,6\n", [None, None, 6]),
        ('n,m\n1,un"quo"ted\n2,3\n', [None, 2]),
        ('n,m\n1,"open\n2,3\n', [None, 2]),
        ('n,m\nx,1\n,1\n"",1\n 7 ,1\n1_0x,1\n99999999999999999999,1\n', [None, None, None, 7, None, None]),
        ("n\n3.0\n3.5\n1e3\nnan\ninf\n-1e400\n9223372036854775807\n", [3, None, 1000, None, None, None, 2**63 - 1]),
    ],
)
def test_whatever_a_line_holds_it_does_not_fail(text, wanted, tmp_path):
    (tmp_path / "n.csv").write_text(text, encoding="utf-8", newline="")
    assert values("n.csv", tmp_path) == wanted


@pytest.mark.parametrize(
    ("kind", "fields", "wanted"),
    [
        ("boolean", ["true", "F", "1", "maybe", ""], [True, False, True, None, None]),
        ("date", ["2020-02-29", "2020-02-30", "infinity", "99999-01-01", "x"], [date(2020, 2, 29)] + [None] * 4),
        (
            "timestamp",
            ["2020-01-01T00:00:00+02:00", "2020-01-01", "-infinity", "290309-12-22 (BC) 00:00:00", "25:00"],
            [datetime(2019, 12, 31, 22), datetime(2020, 1, 1), None, None, None],
        ),
        ("text", ["a", '""', "", " "], ["a", "", None, " "]),
        ("real", ["1.5", "x", "", "1e999", " -2 "], [1.5, None, None, math.inf, -2.0]),
        ("integer", ["1", "x", "", "2.5", "3.0"], [1, None, None, None, 3]),
    ],
)
def test_a_field_of_another_type_is_missing_but_its_row_is_not(kind, fields, wanted, tmp_path):
    (tmp_path / "n.csv").write_text("n,m\n" + "".join(f"{field},0\n" for field in fields))
    assert values("n.csv", tmp_path, Column("n", kind)) == wanted
    with DuckDBEngine(catalog([Column("n", kind), Column("m", "integer")]), {"t": "n.csv"}, base=tmp_path) as engine:
        for aggregate in ("count(*)", "count(*) + 0 * count(n)", "count(m)", "count(coalesce(n::VARCHAR, 'x'))"):
            assert engine.fetch(f"SELECT {aggregate} AS c FROM t").to_pylist() == [{"c": len(fields)}], aggregate


@pytest.mark.parametrize("content", [b"", b"\nn\n1\n", b"n\xff,m\n1,2\n"])
def test_a_header_is_required(content, tmp_path):
    (tmp_path / "n.csv").write_bytes(content)
    with pytest.raises(InvalidParameter, match="table 't'"):
        values("n.csv", tmp_path)


def test_bad_bytes_after_the_header_change_nothing_at_opening(tmp_path):
    (tmp_path / "n.csv").write_bytes(b"n\n\xff\n")
    assert values("n.csv", tmp_path) == [None]
    assert values("n.csv", tmp_path, Column("n", "text")) == ["\ufffd"]


# pandas and polars


def test_whole_numbers_that_pandas_made_floats():
    frame = pandas.DataFrame({"n": [1.0, np.nan, 2.5, np.inf, 1e300, -0.0, 2.0**63]})
    assert values(frame) == [1, None, None, None, None, 0, None]
    with pytest.raises(InvalidParameter, match="DOUBLE.*store them as whole numbers"):
        values(pa.Table.from_pandas(frame))


@pytest.mark.parametrize("dtype", ["Int64", "int8", "UInt64", "int64[pyarrow]"])
def test_types_of_pandas_for_whole_numbers(dtype):
    assert values(pandas.DataFrame({"n": pandas.array([1, 2], dtype=dtype)})) == [1, 2]


def test_objects_of_pandas_are_read_as_declared():
    surrogate = "\ud800"
    objects = ["a", None, 1, True, 2.0, float("nan"), surrogate, Decimal("3"), 2**70, pandas.NaT, date(2020, 1, 1)]
    objects += [datetime(2020, 1, 1, 5, tzinfo=UTC), pandas.Timestamp(2021, 1, 1), [1], object()]
    frame = pandas.DataFrame({"n": pandas.Series(objects, dtype=object)})

    def held(kind: str) -> list[Any]:
        return [value for value in values(frame, column=Column("n", kind)) if value is not None]

    assert held("text") == ["a"]
    assert held("integer") == [1, 2, 3]
    assert held("real") == [1.0, 2.0, 3.0, 2.0**70]
    assert held("boolean") == [True]
    assert held("date") == [date(2020, 1, 1), date(2020, 1, 1), date(2021, 1, 1)]
    assert held("timestamp") == [datetime(2020, 1, 1, 5), datetime(2021, 1, 1)]


def test_texts_of_pandas_with_half_a_pair_of_surrogates():
    for dtype in ("object", pandas.StringDtype("python")):
        frame = pandas.DataFrame({"n": pandas.Series(["a", "\ud800", None], dtype=dtype)})
        assert values(frame, column=Column("n", "text")) == ["a", None, None]


def test_dates_of_pandas_are_times():
    frame = pandas.DataFrame({"n": pandas.to_datetime(["2020-01-01 23:00", None])})
    assert values(frame, column=Column("n", "date")) == [date(2020, 1, 1), None]


def test_categories_of_pandas():
    frame = pandas.DataFrame({"n": pandas.Categorical(["b", None, "a", "b"])})
    assert values(frame, column=Column("n", "text")) == ["b", None, "a", "b"]
    assert values(pandas.DataFrame({"n": pandas.Categorical([7, 8])})) == [7, 8]


@pytest.mark.parametrize("dtype", ["complex128", "timedelta64[ns]", "period[M]"])
def test_types_of_pandas_that_fit_nothing(dtype):
    for kind in ("integer", "real", "text", "date"):
        with pytest.raises(InvalidParameter, match="column 'n'"):
            values(pandas.DataFrame({"n": pandas.Series([], dtype=dtype)}), column=Column("n", kind))


def test_a_frame_that_is_changed_afterwards_is_not_what_was_given():
    frame = pandas.DataFrame({"n": [1, 2], "m": ["a", "b"]})
    with DuckDBEngine(catalog(), {"t": frame}) as engine:
        frame.loc[0, "n"] = 99
        frame["n"] += 1
        assert engine.fetch("SELECT n FROM t").column(0).to_pylist() == [1, 2]


def test_frames_with_odd_column_names():
    assert values(pandas.DataFrame({"n": [1], 0: [2], None: [3], ("a", "b"): [4]})) == [1]
    assert values(pandas.DataFrame([[1, 2]], columns=["n", "n"]).iloc[:, :1]) == [1]
    with pytest.raises(InvalidParameter, match="2 columns of this name"):
        values(pandas.DataFrame([[1, 2]], columns=["n", "n"]))


def test_types_of_polars():
    frame = polars.DataFrame({"n": ["a", None]}, schema={"n": polars.Categorical})
    assert values(frame, column=Column("n", "text")) == ["a", None]
    assert values(
        polars.DataFrame({"n": ["b"]}, schema={"n": polars.Enum(["a", "b"])}), column=Column("n", "text")
    ) == ["b"]
    assert values(polars.DataFrame({"n": [None, None]})) == [None, None]
    with pytest.raises(InvalidParameter, match="column 'n'"):
        values(polars.DataFrame({"n": [object()]}, schema={"n": polars.Object}))


@pytest.mark.parametrize("type_", [pa.float16(), pa.decimal256(50, 2), pa.time64("us"), pa.duration("s")], ids=str)
def test_types_of_arrow_that_duckdb_cannot_read(type_):
    for kind in ("integer", "real", "timestamp"):
        with pytest.raises(InvalidParameter, match="column 'n'"):
            values(pa.table({"n": pa.array([], type_)}), column=Column("n", kind))


def test_rows_of_python_are_not_read_before_the_first_fetch(monkeypatch):
    reads = []
    from discreet.curator.engines.sources import Frame

    whole = Frame.array
    monkeypatch.setattr(Frame, "array", lambda self, *rest: (reads.append(1), whole(self, *rest))[1])
    with DuckDBEngine(catalog(), {"t": pa.table({"n": [1]})}) as engine:
        assert engine.version
        assert not reads
        for _ in range(2):
            assert engine.fetch("SELECT n FROM t").column(0).to_pylist() == [1]
        assert len(reads) == 1


# Faults of DuckDB, and locks


def counts(path: Path, column: Column, *conditions: str) -> list[int]:
    with DuckDBEngine(catalog([column]), {"t": path}) as engine:
        return [engine.fetch(f"SELECT count(*) AS c FROM t WHERE {x}").to_pylist()[0]["c"] for x in conditions]


@pytest.fixture(params=["as shipped", "all optimizers"])
def optimizers(request, monkeypatch):
    """Two locks, each tried alone: the engine reads no statistics; and if it did, they would hide nothing."""
    if request.param == "all optimizers":
        monkeypatch.setattr("discreet.curator.engines.duckdb._read_all", lambda connection: None)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("type_", [pa.float64(), pa.float32()])
@pytest.mark.usefixtures("optimizers")
def test_not_a_number_is_not_hidden_by_what_other_rows_say(type_, dictionary, tmp_path):
    """Statistics of Parquet leave NaN out: one row would decide whether a thousand others are seen."""
    conditions = ("n > 0", "NOT (n <= 0)", "isnan(n)", "n = 'nan'::DOUBLE", "n IS NOT NULL", "n >= 5 OR n < -5")
    found = []
    for other in (1.0, -1.0):
        rows = pa.table({"n": pa.array([math.nan] * 1000 + [other], type_)})
        pq.write_table(rows, tmp_path / "n.parquet", use_dictionary=dictionary)
        found.append(counts(tmp_path / "n.parquet", Column("n", "real"), *conditions))
        assert found[-1][2:4] == [1000, 1000]
    assert all(abs(one - other) <= 1 for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.usefixtures("optimizers")
def test_text_that_is_not_utf8_is_not_hidden_by_what_other_rows_say(dictionary, tmp_path):
    """Statistics of Parquet are of the bytes, not of the signs that take their place."""
    found = []
    for other in ("1", "é"):
        texts = [b"\xc4"] * 1000 + ["é".encode(), "€".encode(), other.encode()]
        offsets = np.cumsum([0, *map(len, texts)]).astype(np.int32)
        bad = pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(b"".join(texts)))
        pq.write_table(pa.table({"n": bad}), tmp_path / "n.parquet", use_dictionary=dictionary)
        found.append(counts(tmp_path / "n.parquet", Column("n", "text"), "n = '?'", "n IN ('?', 'x')", "n < 'a'"))
    assert found[0][:2] == [1000, 1000]
    assert all(abs(one - other) <= 1 for one, other in zip(*found, strict=True))


def test_texts_of_parquet_stay_what_they_are_and_keep_their_dictionary(tmp_path):
    """What is computed of a text then runs once for each entry of the dictionary, not once for each row."""
    texts = [None, "", " a  ", "é€ \0", "\t\n", "x" * 1000]
    pq.write_table(pa.table({"n": texts * 500}), tmp_path / "n.parquet")
    with DuckDBEngine(catalog([Column("n", "text")]), {"t": tmp_path / "n.parquet"}) as engine:
        assert engine.fetch("SELECT n FROM t").column(0).to_pylist() == texts * 500
        kinds = engine.fetch("SELECT DISTINCT vector_type(lower(n)) AS v FROM t").column(0).to_pylist()
        assert kinds == ["DICTIONARY_VECTOR"]


def test_times_in_milliseconds_of_parquet_are_refused(tmp_path):
    write(tmp_path / "n.parquet", [2**62], type_=pa.timestamp("ms"))
    with pytest.raises(InvalidParameter, match="milliseconds.*write it in microseconds"):
        values("n.parquet", tmp_path, Column("n", "timestamp"))


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("kind", ["timestamp", "date"])
def test_functions_of_dates_do_not_fail_on_what_was_left_out(dictionary, kind, tmp_path):
    if kind == "timestamp":
        far = pa.array([-(2**63), -(2**63) + 1, 2**63 - 1, 2**62, 0, 253402300799999999], pa.timestamp("us"))
    else:
        far = pa.array([2**31 - 1, -(2**31), -(2**31) + 1, 0, 2932896], pa.int32()).view(pa.date32())
    pq.write_table(pa.table({"n": far}), tmp_path / "n.parquet", use_dictionary=dictionary)
    with DuckDBEngine(catalog([Column("n", kind)]), {"t": "n.parquet"}, base=tmp_path) as engine:
        for call in ("n::VARCHAR", "year(n)", "n::DATE", "date_trunc('week', n)", "strftime(n, '%Y')", "epoch_us(n)"):
            for where in ("", f"WHERE n > {kind} '1960-01-01'", "WHERE n IS NOT NULL"):
                rows = engine.fetch(f"SELECT {call} AS x FROM t {where}").column(0).to_pylist()
                assert len([row for row in rows if row is not None]) == 2


def test_huge_numbers_and_decimals_of_a_database(tmp_path):
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT (2::HUGEINT ** 100)::HUGEINT AS n UNION ALL SELECT 5")
        connection.execute("CREATE TABLE u AS SELECT 1.25::DECIMAL(38, 2) AS n")
        connection.execute("CREATE TABLE w AS SELECT 'a'::ENUM('a', 'b') AS n")
    assert sorted(values("d.duckdb#t", tmp_path), key=str) == [5, None]
    assert values("d.duckdb#u", tmp_path, Column("n", "real")) == [1.25]
    assert values("d.duckdb#w", tmp_path, Column("n", "text")) == ["a"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM read_csv('{other}')",
        "SELECT * FROM '{other}'",
        "COPY t TO '{other}.copy'",
        "ATTACH '{other}.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET allowed_paths = ['/']",
        "SELECT * FROM a_variable",
    ],
)
def test_only_the_sources_can_be_read_and_nothing_can_be_unlocked(sql, tmp_path):
    a_variable = pa.table({"n": [1]})
    write(tmp_path / "n.parquet", [1])
    other = tmp_path / "other.csv"
    other.write_text("n\n1\n")
    with DuckDBEngine(catalog(), {"t": "n.parquet"}, base=tmp_path) as engine:
        with pytest.raises(duckdb.Error):
            engine.fetch(sql.format(other=other))
        assert engine.fetch("SELECT n FROM t").num_rows == a_variable.num_rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["n.parquet", "other.csv"]


def test_what_does_not_fit_memory_is_spilled_to_a_private_folder_that_goes(tmp_path):
    with DuckDBEngine(catalog(), {"t": pa.table({"n": [1]})}) as engine:
        place = engine.fetch("SELECT current_setting('temp_directory') AS p").column(0)[0].as_py()
        folder = Path(place).parent
        assert folder.stat().st_mode & 0o077 == 0
        assert not place.startswith(os.getcwd())
    assert not folder.exists()


def test_nothing_is_left_open_when_opening_fails(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(InvalidParameter):
        values("none.parquet", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_names_of_tables_and_columns_cannot_break_out(tmp_path):
    odd = 'x"; DROP TABLE t; --'
    columns = [Column('n" FROM t; --', "integer")]
    rows = pa.table({columns[0].name: [1]})
    pq.write_table(rows, tmp_path / "n.parquet")
    for source in (rows, "n.parquet"):
        with DuckDBEngine(catalog(columns, odd), {odd: source}, base=tmp_path) as engine:
            assert engine.fetch('SELECT * FROM "x""; DROP TABLE t; --"').to_pylist() == [{columns[0].name: 1}]
