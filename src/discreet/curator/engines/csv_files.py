"""CSV files: how one is written, the rule that reads a line, and the records of whole files as Arrow.

A file is a header line and then records, one record for each physical line. A line ends with LF or CR LF; the last one
may lack it. Nothing, no quote either, carries over from one line to the next.

A line is *well formed* if it is at most `MAX_LINE` bytes long and consists of as many fields as the header, separated
by the delimiter. A field either has no double quote, or it begins and ends with one, and every quote between is
doubled. An empty field is null; a quoted empty field is an empty text. A line that is not well formed is a record whose
fields are all null. Bytes that the encoding does not have are read as U+FFFD, the replacement character.

`read_fields` is this rule for one line; `read_records` follows it for whole files.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from discreet.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow

MAX_LINE = 1 << 20
"""The longest line that is read, in bytes as they are stored; a longer one is not well formed."""

ENCODINGS = frozenset(
    ["utf-8", *(f"iso8859-{part}" for part in range(1, 17) if part != 12), *(f"cp{page}" for page in range(1250, 1259))]
)
"""By their names in Python. In all of them the bytes below 128 are ASCII: a line feed is always the end of a line."""

_DELIMITERS = ",;\t|"
_DIRECTIVES = {"d": "d", "m": "m", "b": "m", "B": "m", "Y": "Y", "y": "Y"}
"""The directives that a date format may have, and which part of a date each gives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvFormat:
    """How a CSV file is written.

    `date_format` is in the directives of strptime, %d %m %b %B %Y %y; where it is left out, dates are ISO 8601.

    >>> CsvFormat(delimiter=";", encoding="latin-1", decimal=",", date_format="%d.%m.%Y").delimiter
    ';'
    >>> CsvFormat(encoding="utf-16")
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: encoding: got 'utf-16', expected 'utf-8', 'latin-1', ...
    """

    delimiter: str = ","
    encoding: str = "utf-8"
    decimal: str = "."
    date_format: str | None = None

    def __post_init__(self) -> None:
        sign = self.delimiter
        if not isinstance(sign, str) or len(sign) != 1 or not sign.isascii() or sign.isalnum() or sign in '"\r\n\0':
            raise InvalidParameter("delimiter", sign, "one sign of ASCII, such as ',' or ';' or a tab")
        if self.decimal not in (".", ","):
            raise InvalidParameter("decimal", self.decimal, "'.' or ','")
        if _codec(self.encoding) not in ENCODINGS:
            expected = "'utf-8', 'latin-1', 'windows-1252', or another ISO 8859 or Windows code page"
            raise InvalidParameter("encoding", self.encoding, expected, "save the file as UTF-8")
        if self.date_format is not None:
            _check_date_format(self.date_format)

    @classmethod
    def sniff(cls, path: str | Path, *, at_least: str = ",") -> "CsvFormat":
        """Guess the delimiter and the encoding from the header line alone: no record is looked at.

        The delimiter is the sign that stands most often outside quotes; `at_least` where no other stands more often.

        >>> import tempfile, pathlib
        >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
        >>> _ = file.write_bytes("Größe;Alter\\n1,80;30\\n".encode("latin-1"))
        >>> CsvFormat.sniff(file)
        CsvFormat(delimiter=';', encoding='windows-1252', decimal='.', date_format=None)
        """
        line = _header_line(Path(path), "source")
        try:
            text, encoding = line.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            text, encoding = line.decode("cp1252", "replace"), "windows-1252"
        outside = "".join(text.split('"')[::2])  # what stands outside quotes
        return cls(delimiter=max(at_least, *_DELIMITERS, key=outside.count), encoding=encoding)

    def describe(self) -> str:
        """How a file in this format is read, in words for its owner.

        >>> print(CsvFormat(delimiter=";", decimal=",").describe())
        CSV in utf-8, fields separated by ';', decimals with ',', dates as 2020-12-31
        """
        dates = "2020-12-31" if self.date_format is None else self.date_format
        return (
            f"CSV in {self.encoding}, fields separated by {self.delimiter!r}, decimals with {self.decimal!r}, "
            f"dates as {dates}"
        )


RULE = (
    "each line is one record, whatever it contains; a malformed line (an unclosed quote, more or fewer fields than the "
    f"header, over {MAX_LINE:,} bytes) is a record of nulls"
)
"""What is read of a CSV file, in words."""


def read_header(path: str | Path, fmt: CsvFormat, *, where: str = "source") -> list[str]:
    """Read the names of the columns from the first line, and nothing beyond it.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text('name, "age"\\n')
    >>> read_header(file, CsvFormat())
    Traceback (most recent call last):
    discreet.errors.InvalidParameter: source: got ..., expected a CSV file with a header line; a quote ...
    >>> _ = file.write_text('name,"age"\\nAlice,30\\n')
    >>> read_header(file, CsvFormat())
    ['name', 'age']
    """
    path = Path(path)
    line = _header_line(path, where)
    try:
        text = line.decode(fmt.encoding)
    except UnicodeDecodeError:
        hint = "save it as UTF-8, or state its encoding in the policy, such as encoding = 'windows-1252'"
        raise InvalidParameter(where, str(path), f"a header line in {fmt.encoding}", hint) from None
    fields = read_fields(text, fmt.delimiter)
    if fields is None:
        hint = "a quote in it is not closed, or stands inside a field"
        raise InvalidParameter(where, str(path), "a CSV file with a header line", hint)
    return [(name or "").strip() for name in fields]


def read_fields(line: str, delimiter: str) -> list[str | None] | None:
    r"""The fields of one line without its end; None where the line is not well formed.

    >>> read_fields('1,,"","a ""b"", c"', ",")
    ['1', None, '', 'a "b", c']
    >>> read_fields('999999,"she said,33', ",") is None
    True
    """
    sign = re.escape(delimiter)
    field = f'(?:"(?P<quoted>(?:[^"]|"")*)"|(?P<plain>[^"{sign}]*))'
    pattern = re.compile(f"{field}(?P<end>{sign}|\\Z)", re.DOTALL)
    fields: list[str | None] = []
    place, more = 0, True
    while more:
        match = pattern.match(line, place)
        if match is None:
            return None
        quoted = match["quoted"]
        fields.append(quoted.replace('""', '"') if quoted is not None else match["plain"] or None)
        place, more = match.end(), match["end"] != ""
    return fields


def _header_line(path: Path, where: str) -> bytes:
    """The bytes of the first line, without a byte order mark and without its end."""
    expected = "a CSV file with a header line"
    try:
        with path.open("rb") as file:
            line = file.readline(MAX_LINE + 3)
    except OSError as error:
        raise InvalidParameter(where, str(path), expected, error.strerror or str(error)) from None
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InvalidParameter(where, str(path), expected, "it is in UTF-16; save it as UTF-8")
    line = line.removeprefix(codecs.BOM_UTF8).removesuffix(b"\n").removesuffix(b"\r")
    if not line.strip():
        raise InvalidParameter(where, str(path), expected, "its first line is empty")
    if len(line) > MAX_LINE or b"\0" in line:
        raise InvalidParameter(where, str(path), expected, f"its first line is not text of at most {MAX_LINE:,} bytes")
    if b"\r" in line:
        raise InvalidParameter(where, str(path), expected, "lines must end with LF or CR LF; this file has CR alone")
    return line


def _codec(name: object) -> str:
    try:
        return codecs.lookup(name).name if isinstance(name, str) else ""
    except LookupError:
        return ""


def _check_date_format(text: object) -> None:
    expected = "directives of strptime: one each of %d, of %m %b %B, and of %Y %y"
    if not isinstance(text, str):
        raise InvalidParameter("date_format", text, expected)
    letters = re.findall("%(.?)", text, re.DOTALL)
    parts = sorted(_DIRECTIVES.get(letter, "") for letter in letters)
    if parts != ["Y", "d", "m"] or not text.isprintable():
        raise InvalidParameter("date_format", text, expected, "such as '%d.%m.%Y'")


# Whole files

_BLOCK = 4 << 20
_LF, _CR, _QUOTE = b'\n\r"'


def read_records(path: Path, fmt: CsvFormat, width: int, places: Sequence[int]) -> "pyarrow.RecordBatchReader":
    """The fields at some places of every record, as texts named c0, c1, … by their place.

    `width` is how many fields the header has: a line with more or fewer is a record of nulls.

    Guarantee: the records are as many as the lines after the header, and the record of a line depends on that line
    alone. Proof. The file is cut at every LF and nowhere else (`_blocks`), whatever stands between; decoding keeps
    every LF, since in each of `ENCODINGS` a byte below 128 is that sign of ASCII, and a faulty sequence of UTF-8 ends
    before it. All that is computed of a line (`_split`) is from positions between two LFs: quotes are counted from the
    line's beginning, and a neighboring byte is looked at only up to the line's own LF. Where lines fall into blocks has
    no part in it.

    Memory is that of one block and one line, of which no more than `MAX_LINE` bytes and a few are kept.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text('name,age\\nZoe,30\\n999,"she said,33\\n"Ann, B.",31\\n')
    >>> read_records(file, CsvFormat(), 2, [0]).read_all().column("c0").to_pylist()
    ['Zoe', None, 'Ann, B.']
    """
    import pyarrow

    schema = pyarrow.schema([(f"c{place}", pyarrow.string()) for place in places])

    def batches() -> Iterator[pyarrow.RecordBatch]:
        with path.open("rb") as file:
            file.readline(MAX_LINE + 3 + len(b"\xef\xbb\xbf"))
            for block in _blocks(file, _BLOCK):
                yield pyarrow.record_batch(_columns(_decoded(block, fmt.encoding), fmt, width, places), schema=schema)

    return pyarrow.RecordBatchReader.from_batches(schema, batches())


def _blocks(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Whole lines, each with its LF; of a line that is too long, as much as shows that it is."""
    most = MAX_LINE + 2  # one byte too many, and perhaps a CR
    rest = b""
    while block := file.read(size):
        first, end = block.find(b"\n"), block.rfind(b"\n") + 1
        if not end:
            rest = (rest + block[:most])[:most]
            continue
        yield (rest + block[: min(first, most)])[:most] + block[first:end]
        rest = block[end:][:most]
    if rest:
        yield rest + b"\n"


def _decoded(block: bytes, encoding: str) -> bytes:
    """The same lines in UTF-8, never shorter; what the encoding does not have is U+FFFD."""
    try:
        text = block.decode(encoding)
    except UnicodeDecodeError:
        text = block.decode(encoding, "replace")
    return text.encode()


def _columns(data: bytes, fmt: CsvFormat, width: int, places: Sequence[int]) -> "list[pyarrow.Array]":
    """Columns of the lines in `data`, which is UTF-8 and ends with LF."""
    import pyarrow
    from pyarrow import compute

    fields = _split(data, ord(fmt.delimiter))
    well = (fields.count == width) & fields.well_formed
    offsets = np.empty(2 * len(fields.start), np.int32)  # of fields and, between two of them, what separates them
    offsets[0::2], offsets[1::2] = fields.start, fields.stop
    texts = pyarrow.StringArray.from_buffers(len(offsets) - 1, pyarrow.py_buffer(offsets), pyarrow.py_buffer(data))
    columns = []
    for place in places:
        field = np.where(well, fields.first + place, 0)
        valid = np.packbits(well & ~fields.is_null[field], bitorder="little")
        buffers = [pyarrow.py_buffer(valid), pyarrow.py_buffer(2 * field)]  # pyarrow.array would import pandas
        column = texts.take(pyarrow.Array.from_buffers(pyarrow.int64(), len(field), buffers))
        columns.append(compute.replace_substring(column, '""', '"') if fields.has_escapes else column)
    return columns


@dataclass(frozen=True, slots=True)
class _Fields:
    """Where the fields of a block are."""

    first: NDArray[np.int64]
    """Of each line, the number of its first field,"""
    count: NDArray[np.int64]
    """how many it has,"""
    well_formed: NDArray[np.bool_]
    """and whether its quotes are in order and its length allowed."""
    start: NDArray[np.int64]
    """Of each field, where its text begins,"""
    stop: NDArray[np.int64]
    """where it ends,"""
    is_null: NDArray[np.bool_]
    """and whether it is empty and not quoted."""
    has_escapes: bool
    """Whether any quote is doubled."""


def _split(data: bytes, delimiter: int) -> _Fields:
    signs = np.frombuffer(data, np.uint8)
    has_quotes = b'"' in data
    if has_quotes:
        separators, bad, has_escapes = _outside_quotes(signs, delimiter)
    else:
        separators, has_escapes = np.flatnonzero((signs == _LF) | (signs == delimiter)), False
    last = np.flatnonzero(signs[separators] == _LF)  # of each line, the number of its last separator
    begin, end = _behind(separators[last]), separators[last]
    end = end - ((signs[end - 1] == _CR) & (end > begin))
    start, stop = _behind(separators), separators.copy()
    stop[last] = end
    is_null = start == stop
    well_formed = end - begin <= MAX_LINE
    if has_quotes:
        well_formed &= ~bad
        quoted = signs[start] == _QUOTE
        start = start + quoted
        stop = np.maximum(stop - quoted, start)  # a lone quote is of a line that is not well formed
    return _Fields(_behind(last), np.diff(last, prepend=-1), well_formed, start, stop, is_null, has_escapes)


def _behind(places: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each part that ends at one of `places`, where it begins: at 0, or behind the end of the part before."""
    begins = np.zeros_like(places)
    np.add(places[:-1], 1, out=begins[1:])
    return begins


def _outside_quotes(signs: NDArray[np.uint8], delimiter: int) -> tuple[NDArray[np.int64], NDArray[np.bool_], bool]:
    """Separators outside quotes; for each line whether its quotes are out of order; whether any quote is doubled.

    The quotes of a line alternately open and close. They are in order if the last one closes, each that opens is at the
    beginning of a field or right behind one that closes (the two are one doubled quote), and each that closes is at the
    end of a field or right before one that opens.
    """
    marks = np.flatnonzero((signs == _LF) | (signs == delimiter) | (signs == _QUOTE))
    kinds = signs[marks]
    is_quote, is_end = kinds == _QUOTE, kinds == _LF
    line = np.cumsum(is_end) - is_end
    quotes = np.cumsum(is_quote)
    before = np.concatenate([[0], quotes[is_end]])  # for each line, how many quotes there are in the lines before it
    open_ = ((quotes - before[line]) & 1).astype(bool)  # right behind the mark
    opens, closes = marks[is_quote & open_], marks[is_quote & ~open_]
    left = np.where(opens > 0, signs[opens - 1], _LF)
    right = signs[closes + 1]
    right = np.where((right == _CR) & (signs[np.minimum(closes + 2, len(signs) - 1)] == _LF), _LF, right)
    bad = np.zeros(int(line[-1]) + 1, bool)
    bad[line[is_end & open_]] = True
    bad[line[is_quote & open_][~_is_one_of(left, _LF, delimiter, _QUOTE)]] = True
    bad[line[is_quote & ~open_][~_is_one_of(right, _LF, delimiter, _QUOTE)]] = True
    return marks[is_end | (~is_quote & ~open_)], bad, bool((left == _QUOTE).any())


def _is_one_of(signs: NDArray[np.uint8], *wanted: int) -> NDArray[np.bool_]:
    mask = np.zeros(len(signs), bool)
    for sign in wanted:
        mask |= signs == sign
    return mask
