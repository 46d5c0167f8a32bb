"""Tables of every library, and files: what is read is what is written, and bad tables are named."""

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import feather

from discreet.errors import InvalidData, InvalidParameter
from discreet.tables import column, read_table, texts, write

COLUMNS = {"zip": ["02139", "13053"], "age": [30, None]}


@pytest.mark.parametrize(
    "table",
    [COLUMNS, pyarrow.table(COLUMNS), polars.DataFrame(COLUMNS), pandas.DataFrame(COLUMNS)],
    ids=["dict", "pyarrow", "polars", "pandas"],
)
def test_every_library_gives_the_same_texts(table):
    arrow = read_table(table)
    assert arrow.column_names == ["zip", "age"]
    assert texts(arrow.column("zip")).to_pylist() == ["02139", "13053"]
    assert texts(arrow.column("age")).to_pylist() == ["30", ""]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_file_comes_back_as_it_was(tmp_path, ending):
    table = pyarrow.table({"zip": ["02139", "1,3"], "a b": ['say "x"', "two\nlines"], "ε": ["", "é"]})
    path = write(table, tmp_path / f"t.{ending}")
    assert read_table(path).to_pydict() == table.to_pydict()
    assert read_table(str(path)).num_rows == 2


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_found(tmp_path, delimiter):
    path = tmp_path / "t.csv"
    path.write_text(f"\ufeffzip{delimiter}age\n02139{delimiter}30\n", encoding="utf-8")
    assert read_table(path).to_pydict() == {"zip": ["02139"], "age": ["30"]}


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"", "no header"), (b"\n\n", "no header"), (b"a,b\n1,2,3\n", "cannot be read as a table"), (b"\xff,b\n", "not UTF-8"), (b"\xff\xfe,b\n", "not UTF-16"), (b"a,a\n1,2\n", "two columns")],
)  # fmt: skip
def test_a_bad_file_is_named_not_printed(tmp_path, content, words):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidData, match=words) as caught:
        read_table(path)
    assert "1,2,3" not in str(caught.value)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1", "cp1252"])
def test_other_encodings_are_read_where_they_are_said(tmp_path, encoding):
    path = tmp_path / "t.csv"
    path.write_text('name;"größe, cm"\nJosé;1\n', encoding=encoding)
    assert read_table(path, encoding=encoding).to_pydict() == {"name": ["José"], "größe, cm": ["1"]}
    if encoding == "utf-16":  # it has a mark
        assert read_table(path).num_rows == 1
    with pytest.raises(InvalidData if encoding != "utf-16" else InvalidParameter, match="encoding"):
        read_table(path, encoding="utf-8" if encoding != "utf-16" else "no such")


def test_a_delimiter_that_is_said_is_used(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a;b,c\n1;2,3\n", encoding="utf-8")
    assert read_table(path, delimiter=";").to_pydict() == {"a": ["1"], "b,c": ["2,3"]}


def test_arrow_files_and_lines_of_json(tmp_path):
    table = pyarrow.table({"zip": ["02139", None], "age": [30, 4]})
    feather.write_feather(table, tmp_path / "t.arrow")
    assert read_table(tmp_path / "t.arrow").to_pydict() == table.to_pydict()
    (tmp_path / "t.jsonl").write_text('{"zip": "02139", "age": 30}\n{"age": 4}\n')
    assert read_table(tmp_path / "t.jsonl").to_pydict() == table.to_pydict()
    (tmp_path / "bad.jsonl").write_text('{"zip": "02139"\n')
    with pytest.raises(InvalidData, match="cannot be read"):
        read_table(tmp_path / "bad.jsonl")
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    with pytest.raises(InvalidParameter, match="save it as CSV"):
        read_table(tmp_path / "t.xlsx")
    with pytest.raises(InvalidData, match="no columns"):
        read_table({})


def test_other_things_are_refused(tmp_path):
    for thing in (3, [1], None, {1: [2]}):
        with pytest.raises(InvalidParameter):
            read_table(thing)
    with pytest.raises(InvalidParameter, match="exists"):
        read_table(tmp_path / "missing.csv")
    with pytest.raises(InvalidData, match="different lengths"):
        read_table({"a": [1], "b": [1, 2]})
    with pytest.raises(InvalidParameter, match="named by texts"):
        read_table(pandas.DataFrame({1: [2]}))
    with pytest.raises(InvalidParameter, match="age"):
        column(read_table(COLUMNS), "nothing")
    with pytest.raises(InvalidParameter, match=r"\.csv or \.parquet"):
        write(read_table(COLUMNS), tmp_path / "t.xlsx")


@given(st.lists(st.one_of(st.none(), st.integers(-(2**62), 2**62))))
def test_whole_numbers_and_gaps_become_their_digits(values):
    assert texts(pyarrow.array(values, pyarrow.int64())).to_pylist() == ["" if v is None else str(v) for v in values]


def test_numbers_that_pandas_made_floats_are_whole_again():
    assert texts(pandas.Series([1.0, None, 3.0])).to_pylist() == ["1", "", "3"]
    assert texts([1e300, 2.0]).to_pylist()[1] in ("2", "2.0")
    assert texts(pyarrow.array(["a", None, "a"]).dictionary_encode()).to_pylist() == ["a", "", "a"]
    with pytest.raises(InvalidData):
        texts(pyarrow.array([[1], [2]]))


def test_a_column_of_several_kinds_is_named_without_its_values():
    with pytest.raises(InvalidData, match="column 'age' holds values of different kinds") as caught:
        read_table({"age": [1, "secret"]})
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidData) as caught:
        read_table(pandas.DataFrame({"age": [1, "secret"]}, dtype=object))
    assert "secret" not in str(caught.value)


def test_a_csv_has_quotes_only_where_they_are_needed(tmp_path):
    plain = write(pyarrow.table({"a": ["x", ""], "b": [1, None]}), tmp_path / "plain.csv")
    assert plain.read_text() == "a,b\nx,1\n,\n"
    quoted = write(pyarrow.table({'a,"b': ["x,y", "z"]}), tmp_path / "quoted.csv")
    assert read_table(quoted).to_pydict() == {'a,"b': ["x,y", "z"]}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('"zip\ncode",age\n02139,03\n', {"zip\ncode": ["02139"], "age": ["03"]}),  # a line within a name
        ('"a;b;c",d\n01,2\n', {"a;b;c": ["01"], "d": ["2"]}),  # the delimiter is what stands outside quotation marks
        ("\ufeff" + '"zip",age\n02139,3\n', {"zip": ["02139"], "age": ["3"]}),
        ("a,b\r01,2\r", {"a": ["01"], "b": ["2"]}),
    ],
)
def test_strange_headers(tmp_path, content, expected):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode())
    assert read_table(path).to_pydict() == expected


def test_what_is_no_table_is_named_by_its_type_alone():
    with pytest.raises(InvalidParameter, match="'list'") as caught:
        read_table([{"name": "Xylophone"}])
    assert "Xylophone" not in str(caught.value)


def test_not_a_number_is_missing():
    assert texts(pyarrow.array([1.0, float("nan"), None])).to_pylist() == ["1", "", ""]
