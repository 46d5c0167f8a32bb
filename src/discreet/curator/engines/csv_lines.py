"""The records of a CSV file, line by line, in blocks of Arrow: no line can change what another one says.

Guarantee: the records are as many as the lines after the header, and the record of a line depends on that line alone.
Proof. The file is cut at every LF and nowhere else (`_blocks`), whatever stands between; decoding keeps every LF, since
in each of `ENCODINGS` a byte below 128 is that sign of ASCII, and a faulty sequence of UTF-8 ends before it. All that
is computed of a line (`_split`) is from positions between two LFs: quotes are counted from the line's beginning, and a
neighboring byte is looked at only up to the line's own LF. Where lines fall into blocks has no part in it.

Memory is that of one block and one line, of which no more than `MAX_LINE` bytes and a few are kept.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import numpy as np
from numpy.typing import NDArray

from discreet.curator.engines.csv_format import MAX_LINE, CsvFormat

if TYPE_CHECKING:
    import pyarrow

_BLOCK = 4 << 20
_LF, _CR, _QUOTE = b'\n\r"'


def read_records(path: Path, fmt: CsvFormat, width: int, places: Sequence[int]) -> "pyarrow.RecordBatchReader":
    """The fields at some places of every record, as texts named c0, c1, … by their place.

    `width` is how many fields the header has: a line with more or fewer is a record of nulls.

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
    found = np.zeros(len(signs), bool)
    for sign in wanted:
        found |= signs == sign
    return found
