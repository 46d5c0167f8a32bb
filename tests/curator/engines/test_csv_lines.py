"""A CSV file is read line by line: whatever one line holds, every other record and their number stay the same."""

import io
import itertools
import tempfile
import tomllib
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.curator.catalog import Catalog, Column, Table
from discreet.curator.engines import csv_files
from discreet.curator.engines.csv_files import ENCODINGS, MAX_LINE, CsvFormat, read_fields, read_header, read_records
from discreet.curator.engines.duckdb import DuckDBEngine
from discreet.curator.owner.policy_draft import draft_policy
from discreet.errors import InvalidParameter
from discreet.privacy.unit import Unit

Record = tuple[str | None, ...]


def records(path: Path, width: int = 2, fmt: CsvFormat = CsvFormat()) -> list[Record]:  # noqa: B008
    table = read_records(path, fmt, width, range(width)).read_all()
    table.validate(full=True)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def by_the_rule(line: bytes, width: int, delimiter: str = ",", encoding: str = "utf-8") -> Record:
    """The record of a line by `read_fields`, which sees this line only."""
    text = line.removesuffix(b"\r").decode(encoding, "replace")
    fields = read_fields(text, delimiter) if len(text.encode()) <= MAX_LINE else None
    return tuple(fields) if fields is not None and len(fields) == width else (None,) * width


def engine(path: Path, columns: dict[str, str], fmt: CsvFormat | None = None) -> DuckDBEngine:
    table = Table("t", [Column(name, kind) for name, kind in columns.items()], unit=Unit())
    formats = {} if fmt is None else {"t": fmt}
    return DuckDBEngine(Catalog("data", [table], neighbors="change one"), {"t": path}, formats=formats)


def rows(path: Path, columns: dict[str, str], fmt: CsvFormat | None = None) -> list[tuple[Any, ...]]:
    with engine(path, columns, fmt) as opened:
        found = opened.fetch('SELECT * FROM "t"')
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


# The rule


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a,b", ["a", "b"]),
        ("", [None]),
        (",", [None, None]),
        ('"",', ["", None]),
        ('"a,b",c', ["a,b", "c"]),
        ('"a ""b""",""""', ['a "b"', '"']),
        (' a , "b"', None),
        ('a"b,c', None),
        ('"a"b,c', None),
        ('"a,b', None),
        ('a,b"', None),
        ('"""', None),
        ("a\rb,\0", ["a\rb", "\0"]),
    ],
)
def test_the_fields_of_a_line(line, fields, tmp_path):
    assert read_fields(line, ",") == fields
    (tmp_path / "t.csv").write_bytes(b"h,h\n" + line.encode() + b"\n")
    assert records(tmp_path / "t.csv") == [tuple(fields) if fields and len(fields) == 2 else (None, None)]


@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
@pytest.mark.parametrize("width", [1, 2, 3])
def test_every_short_line_is_read_as_if_it_were_alone(ends, width, tmp_path):
    """All lines of at most 5 signs of the alphabet that matters, one after the other in one file."""
    lines = [bytes(line) for size in range(6) for line in itertools.product(b'",a\r', repeat=size)]
    (tmp_path / "t.csv").write_bytes(b",".join([b"h"] * width) + ends + b"".join(line + ends for line in lines))
    wanted = [by_the_rule((line + ends).removesuffix(b"\n"), width) for line in lines]
    assert records(tmp_path / "t.csv", width) == wanted
    assert len({record for record in wanted if any(record)}) > 30  # the rule accepts many of them


# One line cannot touch another

LINES = st.lists(
    st.one_of(
        st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")),
        st.lists(st.sampled_from([b'"', b",", b"a", b"\r", b"\xc3", b"\xa9", b"\0", b";"]), max_size=10).map(b"".join),
    ),
    min_size=1,
    max_size=6,
)


@given(
    lines=LINES, line=LINES, place=st.integers(0, 5), block=st.integers(1, 40), ends=st.sampled_from([b"\n", b"\r\n"])
)
def test_another_line_changes_one_record(lines, line, place, block, ends, tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "t.csv"
    place %= len(lines)
    others = [*lines[:place], line[0], *lines[place + 1 :]]
    found = []
    for version in (lines, others):
        path.write_bytes(b"h,h" + ends + b"".join(one + ends for one in version))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(csv_files, "_BLOCK", block)
            found.append(records(path))
        assert found[-1] == [by_the_rule((one + ends).removesuffix(b"\n"), 2) for one in version]
    assert [record for i, record in enumerate(found[0]) if i != place] == [
        record for i, record in enumerate(found[1]) if i != place
    ]


HOSTILE = {
    "open quote": b'999999,"she said,33',
    "closing quote": b'999999,she said",33',
    "quote alone": b'"',
    "backslash": b'1,\\",\\',
    "CR": b"1\r2,3\r,4",
    "NUL": b"\0,\0,\0",
    "not UTF-8": b"1,\xff\xfe\xc3,\xe2\x82",
    "byte order mark": b"\xef\xbb\xbf1,2,3",
    "header": b"id,said,age",
    "comment": b"# 1,2,3",
    "empty": b"",
    "too few": b"1",
    "too many": b"1,2,3,4,5,6",
    "long": b"1," + b"x" * (5 << 20) + b",3",
    "long and open": b'1,"' + b"x" * (9 << 20),
    "separators of records": "1,\x1c\x1d\x1e\x85\u2028\u2029,2".encode(),
    "end of file": b"1,\x1a,2",
}


@pytest.mark.parametrize("line", HOSTILE.values(), ids=HOSTILE)
def test_no_line_hides_others_or_fails(line, tmp_path):
    path = tmp_path / "t.csv"
    people = [b'%d,"yes, ""really""",%d' % (i, i % 90) for i in range(20_000)]
    people[7_000] = line
    path.write_bytes(b"id,said,age\n" + b"\n".join(people) + b"\n")
    with engine(path, {"id": "integer", "said": "text", "age": "integer"}) as opened:
        found = opened.fetch('SELECT * FROM "t"').to_pylist()
        assert opened.fetch('SELECT count(*) AS n FROM "t"').to_pylist() == [{"n": 20_000}]
    assert len(found) == 20_000
    for i, record in enumerate(found):
        if i != 7_000:
            assert record == {"id": i, "said": 'yes, "really"', "age": i % 90}


@pytest.mark.parametrize("line", [b"1,2", b"", b'"', b"1,2\r"])
def test_the_last_line_may_lack_its_end(line, tmp_path):
    for ends in (b"", b"\n"):
        (tmp_path / "t.csv").write_bytes(b"h,h\n5,6\n" + line + ends)
        found = records(tmp_path / "t.csv")
        assert found == [("5", "6"), by_the_rule(line, 2)][: 2 if line + ends else 1]


@pytest.mark.parametrize("block", [1000, MAX_LINE - 1, MAX_LINE + 1, 4 << 20])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n"])
def test_a_line_is_read_up_to_the_limit(block, ends, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "_BLOCK", block)
    for length, sign in itertools.product((MAX_LINE - 1, MAX_LINE, MAX_LINE + 1, MAX_LINE + 2), (b"x", b"\r")):
        line = b"1," + sign * (length - 2)
        (tmp_path / "t.csv").write_bytes(b"h,h" + ends + ends.join([b"1,2", line, b"3,4"]) + ends)
        first, middle, last = records(tmp_path / "t.csv")
        assert (first, last) == (("1", "2"), ("3", "4"))
        assert (middle[0] is None) == (len((line + ends)[:-1].removesuffix(b"\r")) > MAX_LINE)


def test_of_a_long_line_little_is_kept():
    size = 1 << 16
    file = io.BytesIO(b"a\n" + b"x" * (20 * MAX_LINE) + b"\nb")
    tracemalloc.start()
    try:
        longest = max(len(block) for block in csv_files._blocks(file, size))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert longest <= MAX_LINE + 2 + size
    assert peak <= 4 * MAX_LINE


# Formats


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_in_every_encoding_a_byte_below_128_is_ascii_and_no_other_is(encoding):
    assert bytes(range(128)).decode(encoding) == "".join(map(chr, range(128)))
    for high in range(128, 256):
        text = bytes([high, ord("\n")]).decode(encoding, "replace")
        assert len(text) == 2
        assert text[0] > "\x7f"
        assert text[1] == "\n"


def test_a_file_of_another_country(tmp_path):
    path = tmp_path / "t.csv"
    text = 'Größe;Tag;Zeit;n\n"1,80";31.12.2020;31.12.2020 14:30;1.000\n 2 ;1.2.2021;01.02.2021;3,0\n1.5;2020-12-31;x;3,5\n'
    path.write_bytes(text.encode("cp1252"))
    columns = {"Größe": "real", "Tag": "date", "Zeit": "timestamp", "n": "integer"}
    fmt = CsvFormat(delimiter=";", encoding="latin-1", decimal=",", date_format="%d.%m.%Y")
    found = [tuple(None if value is None else str(value) for value in row) for row in rows(path, columns, fmt)]
    assert found == [
        ("1.8", "2020-12-31", "2020-12-31 14:30:00", None),
        ("2.0", "2021-02-01", "2021-02-01 00:00:00", "3"),
        (None, None, None, None),
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "windows-1252", "iso-8859-15"])
def test_what_an_encoding_does_not_have_is_the_replacement_character(encoding, tmp_path):
    (tmp_path / "t.csv").write_bytes(b"h\n" + b"".join(bytes([high, 10]) for high in range(128, 256)))
    wanted = [(bytes([high]).decode(encoding, "replace"),) for high in range(128, 256)]
    assert records(tmp_path / "t.csv", 1, CsvFormat(encoding=encoding)) == wanted


@pytest.mark.parametrize(
    "text", ["99.99.2020", "31.02.2020", "1.1.0000", "1.1.10000", "infinity", "-inf", "epoch", "", "1.1.2020 x", "\0"]
)
def test_dates_in_a_format_never_fail(text, tmp_path):
    (tmp_path / "t.csv").write_text(f'd,e\n"{text}","{text}"\n', newline="")
    fmt = CsvFormat(date_format="%d.%m.%Y")
    assert rows(tmp_path / "t.csv", {"d": "date", "e": "timestamp"}, fmt) == [(None, None)]


def test_another_format_is_another_version(tmp_path):
    (tmp_path / "t.csv").write_text("n\n1\n")
    versions = set()
    for fmt in (None, CsvFormat(), CsvFormat(decimal=",", delimiter=";"), CsvFormat(date_format="%d.%m.%Y")):
        with engine(tmp_path / "t.csv", {"n": "integer"}, fmt) as opened:
            versions.add(opened.version)
    assert len(versions) == 3


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"delimiter": ""}, "delimiter"),
        ({"delimiter": "||"}, "delimiter"),
        ({"delimiter": '"'}, "delimiter"),
        ({"delimiter": "\n"}, "delimiter"),
        ({"delimiter": "\r"}, "delimiter"),
        ({"delimiter": "a"}, "delimiter"),
        ({"delimiter": "é"}, "delimiter"),
        ({"delimiter": 3}, "delimiter"),
        ({"decimal": ";"}, "decimal"),
        ({"decimal": ["."]}, "decimal"),
        ({"encoding": "utf-16"}, "encoding.*save the file as UTF-8"),
        ({"encoding": "shift_jis"}, "encoding"),
        ({"encoding": "utf-7"}, "encoding"),
        ({"encoding": "rot13"}, "encoding"),
        ({"encoding": None}, "encoding"),
        ({"date_format": ""}, "date_format"),
        ({"date_format": "%d.%m"}, "date_format"),
        ({"date_format": "%d.%m.%Y %d"}, "date_format"),
        ({"date_format": "%d.%m.%Y%"}, "date_format"),
        ({"date_format": "%d.%m.%Y %Z"}, "date_format"),
        ({"date_format": "%d\n%m %Y"}, "date_format"),
        ({"date_format": 3}, "date_format"),
    ],
)
def test_formats_that_cannot_be_read_are_refused(wrong, message):
    with pytest.raises(InvalidParameter, match=message):
        CsvFormat(**wrong)


# The header


@pytest.mark.parametrize(
    ("header", "delimiter", "encoding"),
    [
        (b"a,b;c,d", ",", "utf-8"),
        (b"a;b;c", ";", "utf-8"),
        (b"a\tb", "\t", "utf-8"),
        (b"a|b", "|", "utf-8"),
        (b'"a,b,c";d', ";", "utf-8"),
        (b"a", ",", "utf-8"),
        (b"\xef\xbb\xbfa;b", ";", "utf-8"),
        ("größe;b".encode(), ";", "utf-8"),
        ("größe;b".encode("latin-1"), ";", "windows-1252"),
    ],
)
def test_the_format_is_sniffed_from_the_header_alone(header, delimiter, encoding, tmp_path):
    for rest in (b"", b"\n", b"\r\n1;2;3|4\t5,,,,,,\xff\n", b'\n"' + b";" * 50):
        (tmp_path / "t.csv").write_bytes(header + rest)
        fmt = CsvFormat.sniff(tmp_path / "t.csv")
        assert fmt == CsvFormat(delimiter=delimiter, encoding=encoding)
        assert len(read_header(tmp_path / "t.csv", fmt)) == header.count(delimiter.encode()) + 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "its first line is empty"),
        (b"\n1\n", "its first line is empty"),
        ("n\n1\n".encode("utf-16"), "it is in UTF-16; save it as UTF-8"),
        (b"n,m\r1,2\r3,4\r", "lines must end with LF or CR LF"),
        (b'n,"m\n1,2\n', "a quote in it is not closed"),
        ("größe\n".encode("latin-1"), "save it as UTF-8, or state its encoding"),
        (b"n" * (MAX_LINE + 10), "not text of at most"),
        (b"n\0,m\n", "not text of at most"),
    ],
)
def test_a_header_that_cannot_be_read_is_refused_with_the_reason(content, reason, tmp_path):
    (tmp_path / "t.csv").write_bytes(content)
    with pytest.raises(InvalidParameter, match=f"table 't', source: .*{reason}"):
        rows(tmp_path / "t.csv", {"n": "integer"})


def test_the_delimiter_that_is_meant_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("a;b;c\n1;2;3\n")
    with pytest.raises(
        InvalidParameter, match=r"reads as 1 column: 'a;b;c'.*delimiter = ';'\? state it under \[tables.t"
    ):
        rows(tmp_path / "t.csv", {"a": "integer"})
    assert rows(tmp_path / "t.csv", {"a": "integer"}, CsvFormat(delimiter=";")) == [(1,)]
    with pytest.raises(InvalidParameter, match="column 'd'.*the source has: a, b, c"):
        rows(tmp_path / "t.csv", {"d": "integer"}, CsvFormat(delimiter=";"))


def test_what_init_refuses_is_not_read_otherwise(tmp_path):
    """The header `;;,A;,A` has no column of its own with ';', and columns with ',': the signs decide, for both."""
    (tmp_path / "t.csv").write_text(";;,A;,A\n1,2,3\n")
    with pytest.raises(InvalidParameter, match="columns of different names"):
        draft_policy(str(tmp_path / "t.csv"))
    with pytest.raises(InvalidParameter, match="a header with more ',' than ';'.*in quotes"):
        rows(tmp_path / "t.csv", {"A;": "integer"})
    (tmp_path / "t.csv").write_text('";;","A;",A\n1,2,3\n')
    assert rows(tmp_path / "t.csv", {"A;": "integer"}) == [(2,)]


@given(st.text(alphabet='ab,;|"', min_size=1, max_size=8))
def test_init_and_ask_read_the_same_columns(header):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_text(header + "\n" + "1,2,3\n")
        try:
            drafted = tomllib.loads(draft_policy(str(path)))["tables"]["t"]
        except InvalidParameter:
            drafted = None
        stated = "," if drafted is None else drafted.get("csv", {}).get("delimiter", ",")
        assert readable(path, CsvFormat(delimiter=stated)) == {
            name.casefold() for name in (drafted or {}).get("columns", {})
        }


def readable(path: Path, fmt: CsvFormat) -> set[str]:
    """The columns that can be declared."""
    try:
        names = set(read_header(path, fmt)) - {""}
    except InvalidParameter:
        return set()
    found = set()
    for name in names:
        with suppress(InvalidParameter):
            rows(path, {name: "text"}, fmt)
            found.add(name.casefold())
    return found
