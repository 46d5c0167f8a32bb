"""The one reader for tables that their holder may see: files and frames of every kind.

An owner who anonymizes or an auditor who attacks holds such tables. Private rows behind a curator never come this way:
their strict reader is in `curator.engines`.

>>> from discreet.tables import read_table
>>> read_table({"age": [30, None]}).num_rows
2
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    import pyarrow

_EXPECTED = "a pyarrow Table, a pandas or polars DataFrame, columns by name, or a path to a table"
_FILES = "CSV, Parquet (.parquet), Arrow (.arrow, .feather) and JSON lines (.jsonl)"
_DELIMITERS = ",;\t|"


def read_table(
    table: Any, where: str = "table", *, encoding: str | None = None, delimiter: str | None = None
) -> "pyarrow.Table":
    """A table as Arrow, with checked names: a frame, columns by name, or a file.

    Files are CSV, Parquet (.parquet), Arrow (.arrow, .feather) or JSON lines (.jsonl). A CSV file is read as texts, so
    that a ZIP code keeps its leading zero and what is written back is what was read; it is UTF-8 (or UTF-16 with its
    mark) unless an `encoding` is given, and its delimiter is the commonest of , ; tab | in the header unless given.

    >>> read_table({"zip": ["02139", "13053"]}).column("zip").to_pylist()
    ['02139', '13053']
    >>> read_table([1, 2])
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: table: got 'list', expected a pyarrow Table, a pandas or polars DataFrame, ...
    """
    import pyarrow

    try:
        if isinstance(table, str | Path):
            arrow = _read(Path(table), where, encoding, delimiter)
        else:
            arrow = _convert(table, where)
    except (pyarrow.ArrowException, OverflowError):  # what Arrow says may quote a value
        hint = "every row needs as many cells as the header, every column values of one kind; texts are UTF-8"
        raise InvalidData(f"{where}: it cannot be read as a table; {hint}") from None
    except UnicodeError:
        raise InvalidData(
            f"{where}: {Path(table).name} is not {encoding or 'UTF-16'} text; give its encoding"
        ) from None
    twice = [name for name, count in Counter(arrow.column_names).items() if count > 1]
    if twice:
        raise InvalidData(f"{where}: two columns are named {twice[0]!r}; rename one")
    if not arrow.num_columns:
        raise InvalidData(f"{where}: it has no columns")
    return arrow


def column(table: "pyarrow.Table", name: str, where: str = "table") -> "pyarrow.ChunkedArray":
    """A column by its name.

    >>> column(read_table({"age": [30]}), "agee")
    Traceback (most recent call last):
    ...
    discreet.errors.InvalidParameter: column: got 'agee', expected one of the table's columns: age
    """
    place = table.schema.get_field_index(name)  # at once, however many columns there are
    if place < 0:
        known = ", ".join(table.column_names)
        raise InvalidParameter("column", name, f"one of the {where}'s columns: {known}")
    return table.column(place)


def texts(array: Any) -> "pyarrow.Array":
    """Values as texts; missing values are empty texts.

    >>> texts([1.0, 2.5, None]).to_pylist()
    ['1', '2.5', '']
    """
    import pyarrow
    from pyarrow import compute

    values = (
        array if isinstance(array, pyarrow.ChunkedArray | pyarrow.Array) else pyarrow.array(array, from_pandas=True)
    )
    if isinstance(values, pyarrow.ChunkedArray):
        values = values.combine_chunks()
    if pyarrow.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pyarrow.types.is_floating(values.type):
        values = compute.if_else(compute.is_nan(values), pyarrow.scalar(None, values.type), values)
        whole = compute.all(compute.equal(values, compute.trunc(values))).as_py()
        fits = compute.all(compute.less(compute.abs(values), 2.0**62)).as_py()
        values = values.cast(pyarrow.int64()) if whole and fits else values
    try:
        return values.cast(pyarrow.string()).fill_null("")
    except pyarrow.ArrowException:
        raise InvalidData(f"values of type {values.type} cannot be written as texts") from None


def write(table: "pyarrow.Table", path: str | Path) -> Path:
    """Write a table as CSV or Parquet, as the name's ending says; the path."""
    target = Path(path)
    if target.suffix.lower() in (".parquet", ".pq"):
        from pyarrow import parquet

        parquet.write_table(table, target)
        return target
    if target.suffix.lower() != ".csv":
        raise InvalidParameter("path", target.name, "a name that ends in .csv or .parquet")
    import pyarrow
    from pyarrow import csv

    header = ",".join(_quoted(name) for name in table.column_names) + "\n"
    with target.open("wb") as file:
        file.write(header.encode())
        start = file.tell()
        try:  # without quotes, if no value needs them
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="none"))
        except pyarrow.ArrowInvalid:
            file.truncate(file.seek(start))
            csv.write_csv(table, file, csv.WriteOptions(include_header=False, quoting_style="needed"))
    return target


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"' if any(sign in name for sign in ',"\r\n') else name


def _convert(table: Any, where: str) -> "pyarrow.Table":
    import pyarrow

    kind = (type(table).__module__.partition(".")[0], type(table).__name__)
    if isinstance(table, pyarrow.Table):
        return table
    if kind == ("polars", "DataFrame"):
        return table.to_arrow()
    if kind == ("pandas", "DataFrame"):
        strange = [name for name in table.columns if not isinstance(name, str)]
        if strange:
            raise InvalidParameter(where, f"a column named {strange[0]!r}", "columns named by texts")
        return pyarrow.Table.from_pandas(table, preserve_index=False)
    if isinstance(table, Mapping) and all(isinstance(name, str) for name in table):
        lengths = {len(values) for values in table.values()}
        if len(lengths) > 1:
            raise InvalidData(f"{where}: columns have different lengths: {sorted(lengths)}")
        return pyarrow.table({name: _array(name, values, where) for name, values in table.items()})
    raise InvalidParameter(where, type(table).__name__, _EXPECTED)  # the table itself is private


def _array(name: str, values: Any, where: str) -> Any:
    import pyarrow

    try:
        return pyarrow.array(values, from_pandas=True)
    except (pyarrow.ArrowException, OverflowError):  # what Arrow says may quote a value
        raise InvalidData(f"{where}: column {name!r} holds values of different kinds; give it one kind") from None


def _read(path: Path, where: str, encoding: str | None, delimiter: str | None) -> "pyarrow.Table":
    if not path.is_file():
        raise InvalidParameter(where, str(path), "a file that exists")
    match path.suffix.lower():
        case ".parquet" | ".pq":
            from pyarrow import parquet

            return parquet.read_table(path)
        case ".arrow" | ".feather" | ".ipc":
            from pyarrow import feather

            return feather.read_table(path)
        case ".jsonl" | ".ndjson":
            from pyarrow import json

            return json.read_json(path)
        case ".xlsx" | ".xls" | ".ods" | ".sav" | ".dta" | ".json" | ".zip" | ".gz":
            raise InvalidParameter(where, path.name, f"a table of a known kind: {_FILES}", "save it as CSV first")
        case _:
            return _read_csv(path, where, encoding, delimiter)


def _read_csv(path: Path, where: str, encoding: str | None, delimiter: str | None) -> "pyarrow.Table":
    import pyarrow
    from pyarrow import csv

    code = encoding or _encoding(path)
    header = _header(path, code, where, said=encoding is not None)
    plain = "".join(header.split('"')[::2])  # what stands outside quotation marks
    parse = csv.ParseOptions(delimiter=delimiter or max(_DELIMITERS, key=plain.count), newlines_in_values=True)
    first = pyarrow.BufferReader(header.rstrip("\r\n").encode() + b"\n")
    names = csv.read_csv(first, parse_options=parse).column_names
    types = csv.ConvertOptions(column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False)
    if code == "utf-8-sig":
        return csv.read_csv(path, parse_options=parse, convert_options=types)
    with path.open(encoding=code, newline="") as file:  # a table in another encoding is read at once
        content = pyarrow.BufferReader(file.read().encode())
    return csv.read_csv(content, parse_options=parse, convert_options=types)


def _encoding(path: Path) -> str:
    """UTF-8, or UTF-16 where the file begins with its mark."""
    with path.open("rb") as file:
        return "utf-16" if file.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _header(path: Path, encoding: str, where: str, *, said: bool) -> str:
    """The first line, with the lines that its quotation marks hold together."""
    try:
        with path.open(encoding=encoding, newline="") as file:
            header = file.readline()
            while header.count('"') % 2 and (more := file.readline()):
                header += more
    except LookupError:
        raise InvalidParameter("encoding", encoding, "a known encoding, e.g. 'utf-8' or 'latin-1'") from None
    except UnicodeError:
        name = encoding if said else encoding.removesuffix("-sig").upper()
        raise InvalidData(f"{where}: {path.name} is not {name} text; give its encoding, or convert it") from None
    if not header.strip():
        raise InvalidData(f"{where}: {path.name} has no header line")
    return header
