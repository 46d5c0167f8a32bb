"""Channels and neighbor lists in files.

CSV: the header row names the outputs, the first column the inputs, the top-left cell may hold anything::

    height,yes,no
    tall,3/4,1/4
    short,0.25,0.75

JSON: ``{"inputs": [...], "outputs": [...], "matrix": [[...], ...]}``, or only the matrix. Entries are read exactly
as written ("0.1" is one tenth, "1/3" a third). If the rows then sum to exactly 1 the channel is exact. Rows that
miss 1 by at most 1e-9 hold decimals that were rounded: such a channel is read as float64. Anything else is refused.
"""

import csv
import io
import json
from collections.abc import Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from discreet.errors import InvalidChannel
from discreet.exact import plain
from discreet.mechanisms.channel import Channel
from discreet.mechanisms.stochastic import FLOAT_TOLERANCE, Label, as_floats, read_matrix

_MOST_BYTES = 200_000_000
_MOST_CELLS = 4_000_000
_MANY_CELLS = 10_000


def read_channel(path: str | PathLike[str], *, normalize: bool = False) -> Channel:
    """Read a channel from a CSV or JSON file; which of them it is, the text itself tells.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "coin.csv"
    >>> _ = file.write_text("answer,yes,no\\nyes,3/4,1/4\\nno,1/4,3/4\\n")
    >>> read_channel(file).ratio("all")
    Fraction(3, 1)
    """
    text = read_text(path)
    try:
        return parse_channel(text, normalize=normalize)
    except InvalidChannel as error:
        raise InvalidChannel(f"{Path(path).name}: {error}") from None


def parse_channel(text: str, *, normalize: bool = False) -> Channel:
    """Read a channel from CSV or JSON text.

    >>> parse_channel('[["3/4", "1/4"], ["1/4", "3/4"]]').ratio("all")
    Fraction(3, 1)
    """
    parse = parse_json if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") else parse_csv
    return parse(text, normalize=normalize)


def parse_csv(text: str, *, normalize: bool = False) -> Channel:
    """Read a channel from CSV text. Commas, semicolons or tabs separate the cells.

    >>> parse_csv("x,0,1\\na,0.5,0.5\\nb,1,0\\n").inputs
    ('a', 'b')
    >>> parse_csv("x,0,1\\na,0.5\\n")
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: line 2 has 2 cells, expected 3 as in the header
    """
    lines = _csv_lines(text)
    if not lines:
        raise InvalidChannel("the file is empty; expected a header row with the outputs and a row for each input")
    (_, header), *body = lines
    outputs = [name.strip() for name in header[1:]]
    if not outputs or not body:
        raise InvalidChannel("expected a header row with the outputs, then a row for each input; some are missing")
    for number, row in body:
        if len(row) != len(header):
            raise InvalidChannel(f"line {number} has {len(row)} cells, expected {len(header)} as in the header")
    for k, name in enumerate(outputs, start=2):
        if not name:
            raise InvalidChannel(f"column {k} of the header is empty; every output needs a name")
    inputs = [row[0].strip() for _, row in body]
    return _build([row[1:] for _, row in body], inputs, outputs, normalize)


def parse_json(text: str, *, normalize: bool = False) -> Channel:
    """Read a channel from JSON text.

    >>> parse_json('{"inputs": ["a", "b"], "outputs": [0, 1], "matrix": [[0.1, 0.9], ["1/3", "2/3"]]}').exact
    True
    """
    document = _json(text.removeprefix("\ufeff"))
    if isinstance(document, list):
        document = {"matrix": document}
    unknown = sorted(set(document) - {"matrix", "inputs", "outputs"}) if isinstance(document, dict) else []
    if not isinstance(document, dict) or "matrix" not in document or unknown:
        got = f"the fields {', '.join(map(repr, unknown))}" if unknown else "none"
        raise InvalidChannel(
            f"expected the fields 'matrix', 'inputs' and 'outputs', or only a matrix; got {got} of these"
        )
    labels = [_json_labels(document.get(name), name) for name in ("inputs", "outputs")]
    return _build(document["matrix"], labels[0], labels[1], normalize)


def read_pairs(path: str | PathLike[str]) -> list[tuple[str, str]]:
    """Read neighbors from a file: two inputs a line, separated by a comma, semicolon or tab; '#' comments.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "pairs.csv"
    >>> _ = file.write_text("# who must look alike\\nyes,no\\n")
    >>> read_pairs(file)
    [('yes', 'no')]
    """
    name = Path(path).name
    lines = [(number, row) for number, row in _csv_lines(read_text(path)) if not row[0].lstrip().startswith("#")]
    for number, row in lines:
        if len(row) != 2 or not all(cell.strip() for cell in row):
            raise InvalidChannel(f"{name}: line {number} has {len(row)} cells, expected two inputs, as in: a,b")
    if not lines:
        raise InvalidChannel(f"{name}: there are no pairs of neighbors in it; write two inputs a line, as in: a,b")
    return [(row[0].strip(), row[1].strip()) for _, row in lines]


def read_distances(path: str | PathLike[str]) -> dict[tuple[str, str], str]:
    """Read a metric from a CSV file: a square table of distances with the inputs as header and first column.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "far.csv"
    >>> _ = file.write_text("km,a,b\\na,0,1/2\\nb,1/2,0\\n")
    >>> read_distances(file)["a", "b"]
    '1/2'
    """
    lines = _csv_lines(read_text(path))
    names = [name.strip() for name in lines[0][1][1:]] if lines else []
    if not names or [row[0].strip() for _, row in lines[1:]] != names:
        raise InvalidChannel(
            f"{Path(path).name}: expected a square table whose header and first column name the inputs"
        )
    for number, row in lines:
        if len(row) != len(names) + 1:
            raise InvalidChannel(f"{Path(path).name}: line {number} has {len(row)} cells, expected {len(names) + 1}")
    return {
        (row[0].strip(), name): cell.strip() for _, row in lines[1:] for name, cell in zip(names, row[1:], strict=True)
    }


def to_csv(channel: Channel) -> str:
    """A channel as CSV text, entries exact. Labels become texts.

    >>> to_csv(Channel([["1/3", "2/3"]], inputs=["a"], outputs=["x", "y"]))
    'input,x,y\\r\\na,1/3,2/3\\r\\n'
    """
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["input", *channel.outputs])
    for name, row in zip(channel.inputs, channel.matrix, strict=True):
        writer.writerow([name, *map(_written, row)])
    return buffer.getvalue()


def to_json(channel: Channel) -> str:
    """A channel as JSON text: exact entries as texts, float ones as numbers; tuples of labels as lists.

    >>> to_json(Channel([["1/3", "2/3"]], inputs=["a"]))
    '{"inputs": ["a"], "outputs": [0, 1], "matrix": [["1/3", "2/3"]]}'
    """
    rows = [[_written(entry) if channel.exact else float(entry) for entry in row] for row in channel.matrix]
    document = {"inputs": channel.inputs, "outputs": channel.outputs, "matrix": rows}
    return json.dumps(document, ensure_ascii=False, default=str)


def read_text(path: str | PathLike[str]) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; one clear error where it has none.

    >>> read_text("no/such/file.csv")
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: cannot read no/such/file.csv: No such file or directory
    """
    file = Path(path)
    try:
        if file.stat().st_size > _MOST_BYTES:
            raise InvalidChannel(
                f"{file.name} has over {_MOST_BYTES // 10**6} MB; build the `Channel` in Python instead"
            )
        return decoded(file.read_bytes(), file.name)
    except OSError as error:
        raise InvalidChannel(f"cannot read {path}: {error.strerror or error}") from None


def decoded(data: bytes, name: str) -> str:
    """Bytes as text in UTF-8, with or without a byte order mark.

    >>> decoded(b"\\xff", "odd.csv")
    Traceback (most recent call last):
    discreet.errors.InvalidChannel: odd.csv is not UTF-8 text (byte 0); save it as CSV UTF-8
    """
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidChannel(f"{name} is not UTF-8 text (byte {error.start}); save it as CSV UTF-8") from None


def _build(rows: Any, inputs: Sequence[Label] | None, outputs: Sequence[Label] | None, normalize: bool) -> Channel:
    """An exact channel if its rows sum to exactly 1, else a float one if they nearly do."""
    if isinstance(rows, list) and sum(len(row) for row in rows if isinstance(row, list)) > _MOST_CELLS:
        raise InvalidChannel(f"the matrix has over {_MOST_CELLS:,} entries; build the `Channel` in Python instead")
    rows = rows if normalize else _rounded_decimals(rows)
    matrix, names, columns = read_matrix(rows, inputs, outputs)
    if matrix.dtype != object:
        return Channel(matrix, names, columns)
    sums = matrix.sum(axis=1)
    rounded = not normalize and (sums != 1).any() and (abs(sums - 1) <= Fraction(FLOAT_TOLERANCE)).all()
    try:
        return Channel(as_floats(matrix) if rounded else matrix, names, columns, normalize=normalize)
    except InvalidChannel as error:
        raise InvalidChannel(f"{error}{_bare_matrix_hint(matrix, names)}") from None


def _rounded_decimals(rows: Any) -> Any:
    """The same decision for many decimals, faster: float64 if the rows nearly sum to 1, else the rows as given."""
    if (
        not isinstance(rows, list)
        or not all(isinstance(row, list) for row in rows)
        or sum(map(len, rows)) < _MANY_CELLS
    ):
        return rows
    if not {type(entry) for row in rows for entry in row} <= {str, int, Decimal}:
        return rows
    try:
        floats = np.array(rows, dtype=np.float64)
        with localcontext(prec=20_000):
            rounded = any(sum(map(Decimal, row)) != 1 for row in rows)
    except (ValueError, ArithmeticError):  # ragged, "1/3", not a number: the careful way says what
        return rows
    near = floats.ndim == 2 and (np.abs(floats.sum(axis=1) - 1) <= FLOAT_TOLERANCE).all()
    held = all(not Decimal(rows[i][j]) for i, j in np.argwhere(np.abs(floats) < 1e-300))  # none became 0
    return floats if rounded and near and held else rows


def _bare_matrix_hint(matrix: Any, names: tuple[Label, ...]) -> str:
    try:
        whole = all(Fraction(str(name)) + row.sum() == 1 for name, row in zip(names, matrix, strict=True))
    except ValueError:
        return ""
    return "; the first column seems to hold probabilities: add a header row and a column of names" * whole


def _csv_lines(text: str) -> list[tuple[int, list[str]]]:
    """The rows that are not blank, with their line numbers."""
    text = text.removeprefix("\ufeff")
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    separator = next((mark for mark in (",", ";", "\t") if mark in first), ",")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=True, strict=True)
    try:
        return [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InvalidChannel(f"line {reader.line_num} is not CSV: {error}") from None


def _json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise InvalidChannel(f"got {constant}, expected a finite number")

    try:
        return json.loads(text, parse_float=Decimal, parse_constant=refuse, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise InvalidChannel(f"line {error.lineno}, column {error.colno}: this is not JSON: {error.msg}") from None
    except (RecursionError, ArithmeticError) as error:
        raise InvalidChannel(f"this is not the JSON of a channel: {type(error).__name__}") from None
    except ValueError as error:
        raise error if isinstance(error, InvalidChannel) else InvalidChannel(f"a number is too long: {error}") from None


def _unique(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    for k, (name, _) in enumerate(fields):
        if name in (other for other, _ in fields[:k]):
            raise InvalidChannel(f"the field {name!r} appears twice")
    return dict(fields)


def _json_labels(labels: Any, name: str) -> list[Label] | None:
    if labels is None:
        return None
    if not isinstance(labels, list):
        raise InvalidChannel(f"{name}: got {labels!r:.80}, expected a list of labels")
    return [_json_label(label) for label in labels]


def _json_label(label: Any) -> Label:
    match label:
        case list():
            return tuple(_json_label(part) for part in label)
        case Decimal():
            return float(label)
        case _:
            return label  # type: ignore[no-any-return]


def _written(entry: Any) -> str:
    try:
        return plain(entry) if isinstance(entry, Fraction) else repr(float(entry))
    except ValueError:
        raise InvalidChannel("an entry has over 4300 digits; write `channel.as_float()` instead") from None
