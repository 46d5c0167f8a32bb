"""What every engine promises, wherever the rows are: one suite. To add a source or an engine, add it to `MAKERS`."""

import csv
import math
import os
import threading
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines import Engine
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.errors import InvalidData, InvalidParameter
from discreet.privacy.unit import Unit

NAME = 'odd "table" é'
QUOTED = '"odd ""table"" é"'


def parquet(folder: Path, rows: pa.Table) -> Any:
    pq.write_table(rows, folder / "rows.parquet")
    return "rows.parquet"


def csv_file(folder: Path, rows: pa.Table) -> Any:
    def field(value: object) -> str:
        return "" if value is None else '"' + str(value).replace('"', '""') + '"'

    with (folder / "rows.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerow(rows.column_names)
        for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            file.write(",".join(field(value) for value in row) + "\r\n")
    return "rows.csv"


def database(folder: Path, rows: pa.Table) -> Any:
    place = folder / "fresh.duckdb"
    with duckdb.connect(str(place)) as connection:
        connection.register("given", rows)
        connection.execute('CREATE TABLE "its ""rows""" AS FROM given')
    os.replace(place, folder / "rows.duckdb")
    return 'rows.duckdb#its "rows"'


MAKERS: dict[str, Callable[[Path, pa.Table], Any]] = {
    "parquet": parquet,
    "csv": csv_file,
    "duckdb": database,
    "arrow": lambda folder, rows: rows,
    "pandas": lambda folder, rows: rows.to_pandas(integer_object_nulls=True),
    "polars": lambda folder, rows: polars.from_arrow(rows),
}
FILES = ["parquet", "csv", "duckdb"]
TYPED = ["parquet", "duckdb", "arrow", "pandas", "polars"]  # their schemas have types


@pytest.fixture(params=MAKERS)
def maker(request: pytest.FixtureRequest) -> str:
    return request.param


def engine(kind: str, folder: Path, rows: pa.Table, columns: list[Column], name: str = NAME) -> DuckDBEngine:
    catalog = Catalog("data", [Table(name, columns, unit=Unit())], neighbors="change one")
    return DuckDBEngine(catalog, {name: MAKERS[kind](folder, rows)}, base=folder)


def read(kind: str, folder: Path, values: pa.Array, column: Column) -> list[Any]:
    with engine(kind, folder, pa.table({column.name: values, "place": range(len(values))}), [column, PLACE]) as one:
        return one.fetch(f"SELECT * FROM {QUOTED} ORDER BY place").column(0).to_pylist()


PLACE = Column("place", "integer")
COLUMNS = [
    PLACE,
    Column("whole", "integer"),
    Column("real", "real"),
    Column('te"xt é', "text"),
    Column("truth", "boolean"),
    Column("day", "date"),
    Column("time", "timestamp"),
]
ROWS = pa.table(
    {
        "unused": [[1], [2], [3], [4]],
        "TIME": pa.array([datetime(2020, 1, 2, 3, 4, 5, 678), datetime(1, 1, 1), None, datetime(9999, 12, 31, 23)]),
        "Day": pa.array([date(2020, 2, 29), date(1, 1, 1), None, date(9999, 12, 31)]),
        "truth": [True, False, None, True],
        'te"xt É': ['Zoë\'s "cat", or\rnot; 😀', "", None, "\\N"],
        "real": [0.1, -1e300, None, math.inf],
        "whole": [2**63 - 1, -(2**63), None, 0],
        "place": [0, 1, 2, 3],
    }
)
TYPES = [pa.int64(), pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.date32(), pa.timestamp("us")]


def test_rows_and_types_are_the_declared_ones_and_no_others(maker, tmp_path):
    with engine(maker, tmp_path, ROWS, COLUMNS) as one:
        found = one.fetch(f"SELECT * FROM {QUOTED} ORDER BY place")
    assert found.column_names == [column.name for column in COLUMNS]
    assert [field.type for field in found.schema] == TYPES
    wanted = {name.casefold(): ROWS[name].to_pylist() for name in ROWS.column_names}
    for column in COLUMNS:
        assert found[column.name].to_pylist() == wanted[column.name.casefold()], column.name


def test_it_is_an_engine_that_names_its_dialect(maker, tmp_path):
    with engine(maker, tmp_path, ROWS, COLUMNS) as one:
        typed: Engine = one
        assert typed.dialect == "duckdb"
        assert typed.fetch("SELECT 1 AS one").to_pylist() == [{"one": 1}]


@pytest.mark.parametrize("count", [0, 1])
def test_no_rows_and_one_row(maker, tmp_path, count):
    with engine(maker, tmp_path, ROWS.slice(0, count), COLUMNS) as one:
        found = one.fetch(f"SELECT * FROM {QUOTED}")
        assert found.num_rows == count
        assert [field.type for field in found.schema] == TYPES
        assert one.fetch(f'SELECT count("whole") AS n FROM {QUOTED}').to_pylist() == [{"n": count}]


def test_nan_stays_nan_except_where_it_means_missing(maker, tmp_path):
    found = read(maker, tmp_path, pa.array([math.nan, 1.0, -math.inf, None]), Column("x", "real"))
    assert found[1:] == [1.0, -math.inf, None]
    assert found[0] is None if maker == "pandas" else math.isnan(found[0])


def test_whole_numbers_that_do_not_fit_are_missing(maker, tmp_path):
    found = read(maker, tmp_path, pa.array([2**64 - 1, 2**63, 2**63 - 1, 0, None], pa.uint64()), Column("n", "integer"))
    assert found == [None, None, 2**63 - 1, 0, None]


@pytest.mark.parametrize("type_", [pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()], ids=str)
def test_every_size_of_whole_numbers_is_read(maker, tmp_path, type_):
    for column in (Column("n", "integer"), Column("n", "real")):
        assert read(maker, tmp_path, pa.array([7, None, 0], type_), column) == [7, None, 0]


def test_dictionaries_are_text(maker, tmp_path):
    values = pa.array(["a", None, "ß", "a"]).dictionary_encode()
    assert read(maker, tmp_path, values, Column("x", "text")) == ["a", None, "ß", "a"]


@pytest.mark.parametrize("unit", ["us", "ns"])
@pytest.mark.parametrize("zone", [None, "Asia/Tokyo"])
def test_times_of_every_kind_are_in_utc(maker, tmp_path, unit, zone):
    values = pa.array([datetime(2020, 1, 2, 3, 4, 5), None]).cast(pa.timestamp(unit))
    values = values.view(pa.timestamp(unit, zone)) if zone else values
    assert read(maker, tmp_path, values, Column("t", "timestamp")) == [datetime(2020, 1, 2, 3, 4, 5), None]


@pytest.mark.parametrize("kind", [kind for kind in TYPED if kind not in ("pandas", "polars")])
@pytest.mark.parametrize("type_", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")], ids=str)
def test_times_out_of_range_are_missing(kind, tmp_path, type_):
    far = [-(2**63), -(2**63) + 1, 2**63 - 1, 2**62 if type_.unit == "us" else 2**63 - 1, 0]
    with engine(kind, tmp_path, pa.table({"t": pa.array(far, type_)}), [Column("t", "timestamp")]) as one:
        found = one.fetch(
            f"SELECT t, date_trunc('month', t) AS m, CAST(t AS VARCHAR) FROM {QUOTED} WHERE t IS NOT NULL"
        )
        held = found.column(0).to_pylist()
    assert datetime(1970, 1, 1) in held
    assert len(held) == (1 if type_.unit == "us" else 2)  # the first of nanoseconds is in 1677


@pytest.mark.parametrize("kind", ["parquet", "duckdb", "arrow"])
def test_dates_out_of_range_are_missing(kind, tmp_path):
    values = pa.array([2**31 - 1, -(2**31) + 1, -(2**31), 0, -800_000], pa.int32()).view(pa.date32())
    assert read(kind, tmp_path, values, Column("d", "date")) == [None, None, None, date(1970, 1, 1), None]


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_text_that_is_not_utf8_does_not_fail(kind, tmp_path):
    bad = pa.StringArray.from_buffers(3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\3\0\0\0\4\0\0\0"), pa.py_buffer(b"a\xff\xfeb"))
    assert read(kind, tmp_path, bad, Column("x", "text")) in (["a", "??", "b"], ["a", None, "b"])


def test_texts_are_cut_to_their_first_1000_characters(maker, tmp_path):
    values = pa.array(["x" * 1001, "é" * 1000, "😀" * 5000, None])
    cut = ["x" * 1000, "é" * 1000, "😀" * 1000, None]
    assert read(maker, tmp_path, values, Column("x", "text")) == cut


def test_threads_share_an_engine(maker, tmp_path):
    rows = pa.table({"n": range(1000)})
    wrong: list[object] = []
    with engine(maker, tmp_path, rows, [Column("n", "integer")]) as one:

        def work() -> None:
            for _ in range(10):
                try:
                    found = one.fetch(f"SELECT sum(n)::BIGINT AS s, count(*) AS c FROM {QUOTED}").to_pylist()
                except Exception as error:
                    found = error
                if found != [{"s": 499500, "c": 1000}]:
                    wrong.append(found)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_the_version_stays_while_the_data_stay(maker, tmp_path):
    with engine(maker, tmp_path, ROWS, COLUMNS) as one:
        before = one.version
        one.fetch(f"SELECT count(*) FROM {QUOTED}")
        assert one.version == before
        assert len(before) >= 32


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_opened_again_unchanged_has_the_same_version(kind, tmp_path):
    with engine(kind, tmp_path, ROWS, COLUMNS) as one:
        catalog = Catalog("data", [Table(NAME, COLUMNS, unit=Unit())], neighbors="change one")
        source = {"parquet": "rows.parquet", "csv": "rows.csv", "duckdb": 'rows.duckdb#its "rows"'}[kind]
        with DuckDBEngine(catalog, {NAME: source}, base=tmp_path) as again:
            assert again.version == one.version
            assert again.fetch(f"SELECT count(*) AS n FROM {QUOTED}").to_pylist() == [{"n": 4}]


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_each_registration_of_a_table_is_a_version(kind, tmp_path):
    with engine(kind, tmp_path, ROWS, COLUMNS) as one, engine(kind, tmp_path, ROWS, COLUMNS) as other:
        assert one.version != other.version


@pytest.mark.parametrize("kind", FILES)
def test_other_data_are_another_version_and_are_not_mixed_in(kind, tmp_path):
    with engine(kind, tmp_path, ROWS, COLUMNS) as one:
        before = one.version
        MAKERS[kind](tmp_path, ROWS.slice(0, 1))
        assert one.version != before
        with pytest.raises(InvalidData, match="changed after it was opened; open the dataset again"):
            one.fetch(f"SELECT count(*) FROM {QUOTED}")


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_gone_gives_no_answer(kind, tmp_path):
    with engine(kind, tmp_path, ROWS, COLUMNS) as one:
        for file in tmp_path.iterdir():
            file.unlink()
        with pytest.raises(InvalidData, match="changed"):
            one.fetch(f"SELECT count(*) FROM {QUOTED}")
        assert len(one.version) >= 32


def test_a_missing_column_is_named(maker, tmp_path):
    with pytest.raises(InvalidParameter, match="column 'age'.*no such column.*the source has: .*whole"):
        engine(maker, tmp_path, ROWS, [Column("age", "integer")])


@pytest.mark.parametrize("kind", [kind for kind in MAKERS if kind != "duckdb"])  # whose names differ in any case
def test_two_columns_of_one_name_are_refused_but_only_if_declared(kind, tmp_path):
    rows = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["Age", "age", "n"])
    with pytest.raises(InvalidParameter, match="column 'AGE'.*2 columns of this name"):
        engine(kind, tmp_path, rows, [Column("AGE", "integer")])
    with engine(kind, tmp_path, rows, [Column("n", "integer")]) as one:
        assert one.fetch(f"SELECT * FROM {QUOTED}").to_pylist() == [{"n": 3}]


WRONG = {
    "integer": pa.array(["secret"]),
    "real": pa.array(["secret"]),
    "text": pa.array([1]),
    "boolean": pa.array([1]),
    "date": pa.array(["secret"]),
    "timestamp": pa.array([date(2020, 1, 1)], pa.date32()),
}


@pytest.mark.parametrize(
    ("kind", "declared"),
    [(kind, declared) for kind in TYPED for declared in WRONG if (kind, declared) != ("pandas", "timestamp")],
)  # a date of pandas is an object, and has no type
def test_a_type_that_does_not_fit_is_refused_without_a_value(kind, declared, tmp_path):
    with pytest.raises(InvalidParameter, match=f"column 'x'.*a source of type .*fits {declared}") as caught:
        engine(kind, tmp_path, pa.table({"x": WRONG[declared]}), [Column("x", declared)])
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("declared", WRONG)
def test_lists_and_bytes_are_refused(declared, tmp_path):
    for kind in ("parquet", "duckdb", "arrow", "polars"):
        for values in (pa.array([[1]]), pa.array([b"x"]), pa.array([{"a": 1}])):
            with pytest.raises(InvalidParameter, match="column 'x'"):
                engine(kind, tmp_path, pa.table({"x": values}), [Column("x", declared)])


def test_a_closed_engine_fetches_nothing(maker, tmp_path):
    one = engine(maker, tmp_path, ROWS, COLUMNS)
    one.close()
    one.close()
    with pytest.raises(duckdb.Error):
        one.fetch("SELECT 1")


def test_an_error_of_the_engine_passes_through(maker, tmp_path):
    with engine(maker, tmp_path, ROWS, COLUMNS) as one, pytest.raises(duckdb.Error):
        one.fetch("SELECT * FROM elsewhere")
